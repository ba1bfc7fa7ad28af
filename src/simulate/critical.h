/*
 * The critical path of a simulated run: the chain of computations and transfers, each waiting for the one before, that ends
 * with the last instruction. Whatever is not on it could take longer without anybody noticing.
 *
 * Found backwards in the timeline: before a computation comes what ended the moment it began, first of all its worker's own
 * computation before it, then the transfer that brought its block, then one that freed its output block; before a transfer the
 * computation that made the block, then the transfer before it on the link, then what kept the receiver from taking it.
 */
#ifndef PENSTOCK_SIMULATE_CRITICAL_H
#define PENSTOCK_SIMULATE_CRITICAL_H

#include "program/timeline.h"

struct critical_path {
    int steps;
    double *compute_s;          /* per worker */
    double transfer_s, other_s; /* other: transfers in the workers' own time */
};

enum ps_status critical_path_find(const struct timeline *timeline, struct critical_path *path, struct ps_error *error);
void critical_path_free(struct critical_path *path);

#endif
