/* Of all groups the smallest limit counts. Files that were read and can be dropped at any time count as used memory of a group,
 * but are free for programs. */
#include "base/host_memory.h"

#include <limits.h>
#include <stdio.h>

#include "base/control_group.h"
#include "base/log.h"
#include "base/text.h"

static void take_group(void *context, const char *directory, int version) {
    static const struct {
        const char *limit, *used, *droppable;
    } files[] = {{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                 {"memory.max", "memory.current", "inactive_file"}};
    struct host_memory *memory = context;
    int64_t limit, used = 0, droppable = 0;
    if (!control_group_number(directory, files[version - 1].limit, "", &limit)) return;
    if (memory->total == 0 || limit < memory->total) memory->total = limit;
    control_group_number(directory, files[version - 1].used, "", &used);
    if (control_group_number(directory, "memory.stat", files[version - 1].droppable, &droppable) && droppable < used)
        used -= droppable;
    const int64_t left = used < limit ? limit - used : 0;
    if (left < memory->free) memory->free = left;
}

struct host_memory host_memory_read_under(const char *root) {
    struct host_memory memory = {0};
    char directory[PATH_MAX];
    int64_t kib;
    snprintf(directory, sizeof directory, "%s/proc", root);
    if (control_group_number(directory, "meminfo", "MemTotal", &kib)) memory.total = memory.installed = 1024 * kib;
    if (control_group_number(directory, "meminfo", "MemAvailable", &kib)) memory.free = 1024 * kib;
    control_groups_visit(root, "memory", take_group, &memory);
    return memory;
}

struct host_memory host_memory_read(void) {
    return host_memory_read_under("");
}

bool host_memory_warn(const struct host_memory *memory, int64_t bytes, const char *whose) {
    char needed[32], total[32];
    if (memory->total == 0 || bytes <= memory->total) return false;
    log_warn("%s %s of memory, more than the %s that %s", whose, text_bytes(bytes, needed), text_bytes(memory->total, total),
             memory->total < memory->installed ? "their control group (cgroup) may take" : "their machine has");
    return true;
}
