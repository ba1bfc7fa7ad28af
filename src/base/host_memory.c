/*
 * Control groups of both versions: /proc/self/cgroup says in which groups the process is, /proc/self/mountinfo where their
 * files are. A group's limit holds for all groups in it, so the smallest on the way up counts. Files that were read and can be
 * dropped at any time count as used memory of the group, but are free for programs.
 */
#include "base/host_memory.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

struct hierarchy {
    const char *controller, *type; /* in cgroup and mountinfo */
    const char *limit, *used, *droppable;
};
static const struct hierarchy hierarchies[] = {
    {"", "cgroup2", "memory.max", "memory.current", "inactive_file"},
    {"memory", "cgroup", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

/* The number after `key` in the first line that begins with it; "": the file's first word. False: none, as for "max". */
static bool read_number(const char *directory, const char *name, const char *key, int64_t *number) {
    char path[PATH_MAX], line[256];
    const size_t length = strlen(key);
    bool found = false;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *end, *value = line + length;
        if (strncmp(line, key, length) != 0 || (length > 0 && !strchr(": \t", *value))) continue;
        value += strspn(value, ": \t");
        *number = strtoll(value, &end, 10);
        found = end != value;
    }
    if (file) fclose(file);
    return found;
}

/* Is `word` among those that commas separate? */
static bool has_word(const char *list, const char *word) {
    const size_t length = strlen(word);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == length && strncmp(list, word, length) == 0) return true;
    return false;
}

/* The process's group: the third field of "number:controllers:path". */
static bool find_group(const char *root, const struct hierarchy *hierarchy, char group[PATH_MAX]) {
    char path[PATH_MAX], line[PATH_MAX + 256];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *name = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!name) continue;
        *controllers++ = *name++ = '\0';
        found = *hierarchy->controller ? has_word(controllers, hierarchy->controller) : *controllers == '\0';
        if (found) snprintf(group, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
    }
    if (file) fclose(file);
    return found;
}

/* Where the hierarchy is mounted, and which of its groups stands there: a container may see only its own. */
static bool find_mount(const char *root, const struct hierarchy *hierarchy, char top[PATH_MAX], char mount[PATH_MAX]) {
    char path[PATH_MAX], line[4 * PATH_MAX], type[64], options[512];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2) continue;
        if (sscanf(rest, " - %63s %*s %511s", type, options) != 2 || strcmp(type, hierarchy->type) != 0) continue;
        found = *hierarchy->controller == '\0' || has_word(options, hierarchy->controller);
    }
    if (file) fclose(file);
    return found;
}

static void take_group(const char *directory, const struct hierarchy *hierarchy, struct host_memory *memory) {
    int64_t limit, used = 0, droppable = 0;
    if (!read_number(directory, hierarchy->limit, "", &limit)) return;
    if (memory->total == 0 || limit < memory->total) memory->total = limit;
    read_number(directory, hierarchy->used, "", &used);
    if (read_number(directory, "memory.stat", hierarchy->droppable, &droppable) && droppable < used) used -= droppable;
    const int64_t left = used < limit ? limit - used : 0;
    if (left < memory->free) memory->free = left;
}

static void take_hierarchy(const char *root, const struct hierarchy *hierarchy, struct host_memory *memory) {
    char group[PATH_MAX], top[PATH_MAX], mount[PATH_MAX], directory[3 * PATH_MAX];
    if (!find_group(root, hierarchy, group) || !find_mount(root, hierarchy, top, mount)) return;
    const size_t above = strcmp(top, "/") == 0 ? 0 : strlen(top);
    const bool inside = strncmp(group, top, above) == 0 && (group[above] == '/' || group[above] == '\0');
    const int base = snprintf(directory, sizeof directory, "%s%s", root, mount);
    snprintf(directory + base, sizeof directory - (size_t)base, "%s", inside ? group + above : "");
    for (;;) {
        take_group(directory, hierarchy, memory);
        char *last = strrchr(directory + base, '/');
        if (!last) return;
        *last = '\0';
    }
}

struct host_memory host_memory_read_under(const char *root) {
    struct host_memory memory = {0};
    char directory[PATH_MAX];
    int64_t kib;
    snprintf(directory, sizeof directory, "%s/proc", root);
    if (read_number(directory, "meminfo", "MemTotal", &kib)) memory.total = memory.installed = 1024 * kib;
    if (read_number(directory, "meminfo", "MemAvailable", &kib)) memory.free = 1024 * kib;
    for (size_t h = 0; h < sizeof hierarchies / sizeof *hierarchies; h++) take_hierarchy(root, &hierarchies[h], &memory);
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
