/* Control groups (cgroups) of both versions, by which containers and Slurm jobs limit what their processes use. */
#ifndef PENSTOCK_BASE_CONTROL_GROUP_H
#define PENSTOCK_BASE_CONTROL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* Gets the directory with a group's files, and the version of control groups: 1 or 2. */
typedef void control_group_visit(void *context, const char *directory, int version);
/* Visits the process's groups and all groups above them, whose limits count as well: those of version 2, and those of version 1
 * with the controller ("memory", "cpu"). All files are looked for under `root`, for tests; "": this machine's. */
void control_groups_visit(const char *root, const char *controller, control_group_visit *visit, void *context);

/* The number after `key` in the first line of a file that begins with it; "": the file's first word. False: none, as for "max".
 */
bool control_group_number(const char *directory, const char *name, const char *key, int64_t *number);

#endif
