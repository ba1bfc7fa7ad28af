/* Linux tells what a process holds in /proc/self/status; elsewhere only its peak is known. See process_memory.h. */
#include "run/process_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct process_memory process_memory_read(void) {
    struct process_memory memory = {0};
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) memory.peak = (int64_t)usage.ru_maxrss * 1024; /* Linux counts in KiB */
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return memory;
    char line[256], name[32];
    int64_t kib;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%31[^:]: %" SCNd64 " kB", name, &kib) != 2) continue;
        if (strcmp(name, "VmRSS") == 0) memory.now = kib * 1024;
        if (strcmp(name, "RssFile") == 0) memory.of_code = kib * 1024;
    }
    fclose(file);
    return memory;
}
