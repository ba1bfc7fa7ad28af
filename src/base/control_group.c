/*
 * /proc/self/cgroup says in which groups the process is, /proc/self/mountinfo where their files are. A group's limit holds for
 * all groups in it.
 */
#include "base/control_group.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool control_group_number(const char *directory, const char *name, const char *key, int64_t *number) {
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
static bool find_group(const char *root, const char *controller, char group[PATH_MAX]) {
    char path[PATH_MAX], line[PATH_MAX + 256];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'), *name = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!name) continue;
        *controllers++ = *name++ = '\0';
        found = *controller ? has_word(controllers, controller) : *controllers == '\0';
        if (found) snprintf(group, PATH_MAX, "%.*s", (int)strcspn(name, "\n"), name);
    }
    if (file) fclose(file);
    return found;
}

/* Where the hierarchy is mounted, and which of its groups stands there: a container may see only its own. */
static bool find_mount(const char *root, const char *controller, char top[PATH_MAX], char mount[PATH_MAX]) {
    char path[PATH_MAX], line[4 * PATH_MAX], type[64], options[512];
    bool found = false;
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *rest = strstr(line, " - ");
        if (!rest || sscanf(line, "%*s %*s %*s %4095s %4095s", top, mount) != 2) continue;
        if (sscanf(rest, " - %63s %*s %511s", type, options) != 2 || strcmp(type, *controller ? "cgroup" : "cgroup2") != 0)
            continue;
        found = *controller == '\0' || has_word(options, controller);
    }
    if (file) fclose(file);
    return found;
}

static void visit_hierarchy(const char *root, const char *controller, control_group_visit *visit, void *context) {
    char group[PATH_MAX], top[PATH_MAX], mount[PATH_MAX], directory[3 * PATH_MAX];
    if (!find_group(root, controller, group) || !find_mount(root, controller, top, mount)) return;
    const size_t above = strcmp(top, "/") == 0 ? 0 : strlen(top);
    const bool inside = strncmp(group, top, above) == 0 && (group[above] == '/' || group[above] == '\0');
    const int base = snprintf(directory, sizeof directory, "%s%s", root, mount);
    snprintf(directory + base, sizeof directory - (size_t)base, "%s", inside ? group + above : "");
    for (;;) {
        visit(context, directory, *controller ? 1 : 2);
        char *last = strrchr(directory + base, '/');
        if (!last) return;
        *last = '\0';
    }
}

void control_groups_visit(const char *root, const char *controller, control_group_visit *visit, void *context) {
    visit_hierarchy(root, "", visit, context);
    visit_hierarchy(root, controller, visit, context);
}
