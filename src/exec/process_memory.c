/*
 * Linux reports the memory of a process in /proc/self/status and, per mapping, in /proc/self/smaps; on other systems only the
 * peak is known. See process_memory.h.
 */
#include "exec/process_memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/shared_block.h"

/* A mapping begins with its range of addresses and its file; lines of its figures follow. */
static int64_t read_others(const void *own) {
    FILE *file = fopen("/proc/self/smaps", "r");
    char line[4352];
    bool counts = false;
    uintptr_t begin, end;
    int64_t kib, all = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) == 2)
            counts = strstr(line, "/memfd:" SHARED_BLOCK_NAME) && begin != (uintptr_t)own;
        else if (counts && sscanf(line, "Rss: %" SCNd64 " kB", &kib) == 1)
            all += kib * 1024;
    }
    if (file) fclose(file);
    return all;
}

struct process_memory process_memory_read(const void *own) {
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
    if (own) memory.others = read_others(own);
    return memory;
}
