/* See process_state.h. */
#include "cli/process_state.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A chain of ancestors is no longer; a process may go while one climbs. */
enum { DEPTH_MAX = 64 };

char process_state(pid_t process, pid_t *parent) {
    char path[64], line[512] = "", state = '\0';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof line, file) == NULL) line[0] = '\0';
    if (file != NULL) fclose(file);
    /* Behind the name, in which anything may stand. */
    const char *rest = strrchr(line, ')');
    int above = 0;
    if (rest == NULL || sscanf(rest, ") %c %d", &state, &above) != 2) return '\0';
    if (parent != NULL) *parent = (pid_t)above;
    return state;
}

static bool is_below(pid_t process, pid_t top) {
    for (int depth = 0; depth < DEPTH_MAX && process > 1; depth++) {
        pid_t parent;
        if (process_state(process, &parent) == '\0') return false;
        if (parent == top) return true;
        process = parent;
    }
    return false;
}

bool process_stopped_below(pid_t process) {
    bool found = false;
    DIR *entries = opendir("/proc");
    for (struct dirent *entry; !found && entries != NULL && (entry = readdir(entries)) != NULL;) {
        pid_t other = (pid_t)strtol(entry->d_name, NULL, 10);
        found = other > 0 && process_state(other, NULL) == 'T' && is_below(other, process);
    }
    if (entries != NULL) closedir(entries);
    return found;
}
