/*
 * A survey of the machines that a run has: what each worker's device can do, and how fast blocks go from host to host. What it
 * finds is a cluster, as one reads it from a file.
 */
#ifndef PENSTOCK_TRAIN_MEASURE_CLUSTER_H
#define PENSTOCK_TRAIN_MEASURE_CLUSTER_H

#include "comm/processes.h"
#include "plan/cluster.h"

/*
 * All processes call it. At rank 0 *cluster is made: one device per rank, named after its host where that is the only one
 * there, else HOST-RANK; its memory the host's free memory over the ranks that share it; its speed that of its type of
 * processor, measured once per type by training steps of a small network, relative to rank 0's. A link for each pair of hosts,
 * measured between one rank of each in turn: half the time of a small message there and back, and the rate of large ones.
 * Elsewhere *cluster is NULL. One process has no links.
 */
enum ps_status survey_machines(struct processes *processes, const char *device, int threads, struct ps_cluster **cluster,
                               struct ps_error *error);
/* Do the processes share one host? */
bool survey_one_host(const struct processes *processes);

#endif
