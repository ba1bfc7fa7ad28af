/* The sources of costs, one file each; read.c tells them apart. */
#ifndef PENSTOCK_PROFILE_READ_H
#define PENSTOCK_PROFILE_READ_H

#include <stddef.h>

#include "profile/profile.h"

/* Messages begin with "line N: "; the caller puts the file's name before them. model, device and threads are left empty. */
enum ps_status profile_read_csv(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error);
enum ps_status profile_read_chain(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error);
enum ps_status profile_read_graph(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error);
/* Penstock's own; messages are complete. */
enum ps_status profile_read_json(const char *path, struct ps_profile **profile, struct ps_error *error);

#endif
