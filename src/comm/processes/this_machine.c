/* From Linux: the host's name, its kind of processor, memory that is free, the boot it is in. */
#include "comm/processes/this_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"

/* The rest of the first line of a file that begins with `field`, behind the colon. */
static bool read_field(const char *path, const char *field, char *out, size_t size) {
    char line[512];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, field, strlen(field)) != 0 || !value) continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
        found = true;
    }
    if (file) fclose(file);
    return found;
}

static uint64_t hash(uint64_t number, const char *text) {
    for (; *text; text++) number = (number ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return number;
}

/* The kernel's boot tells hosts of the same name apart. */
static uint64_t number_of_machine(const char *host) {
    char boot[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(boot, sizeof boot, file)) boot[0] = '\0';
    if (file) fclose(file);
    return hash(hash(UINT64_C(14695981039346656037), host), boot);
}

bool process_runs(int32_t process) {
    char path[64], line[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file && !fgets(line, sizeof line, file)) line[0] = '\0';
    if (file) fclose(file);
    /* PID (NAME) STATE ..., and a name may hold anything. */
    const char *state = strrchr(line, ')');
    return state && state[1] == ' ' && state[2] != '\0' && !strchr("TtZX", state[2]);
}

struct process_info this_machine(void) {
    struct process_info info = {.process = (int32_t)getpid(), .cores = cores_usable()};
    char memory[64];
    if (gethostname(info.host, sizeof info.host - 1) != 0) snprintf(info.host, sizeof info.host, "unknown");
    if (!read_field("/proc/cpuinfo", "model name", info.cpu, sizeof info.cpu)) snprintf(info.cpu, sizeof info.cpu, "unknown");
    if (read_field("/proc/meminfo", "MemAvailable", memory, sizeof memory))
        info.memory_bytes = 1024 * strtoll(memory, NULL, 10);
    info.machine = number_of_machine(info.host);
    return info;
}
