/*
 * Sums over the replicas of a stage whose workers are processes, in the order of the replicas, so that the bits are those of
 * the threads transport. No call waits: sums progress when they are polled.
 *
 * Each replica sums a slice of the gradients of all. Where all of them share a host's memory it does so in place when all have
 * arrived, and the sum is done when all slices are (shared_peers.h). Else it gets its slice from the others a piece at a time
 * and returns the sums: of n replicas each sends and receives 2 (n - 1) / n of the gradients, as in a ring. The memory needed
 * besides the blocks is two pieces for each other replica.
 *
 * Parameters that stages share are summed by messages, too, one after the other, after each stage has its own sum: the first
 * instance of the first of these stages adds the gradients of the uses of the first instance of each stage, and all instances
 * get the sum.
 */
#ifndef PENSTOCK_COMM_TRANSPORTS_RANK_SUMS_H
#define PENSTOCK_COMM_TRANSPORTS_RANK_SUMS_H

#include "comm/transport.h"
#include "comm/transports/shared_peers.h"

struct rank_sums;

/* For the instances of this process's worker. Everything is borrowed for the call, `class` and `peers` (NULL: there are none)
 * for the lifetime. */
enum ps_status rank_sums_create(const struct processes_class *class, const struct shared_peers *peers,
                                const struct transport_options *options, struct rank_sums **sums, struct ps_error *error);
void rank_sums_destroy(struct rank_sums *sums); /* NULL is fine */
void rank_sums_start(struct rank_sums *sums, int instance, const struct transport_share *share);
/* Lets all sums progress. */
void rank_sums_look(struct rank_sums *sums);
/* Do all pending sums announce their progress by a bell? */
bool rank_sums_idle(const struct rank_sums *sums);
bool rank_sums_settled(const struct rank_sums *sums, int instance);
double rank_sums_settled_at(const struct rank_sums *sums, int instance);

#endif
