/*
 * Sums over the replicas of a stage whose workers are processes, in the order of the replicas, so that the bits are those of
 * the threads transport. Nothing waits: the sums go on when somebody looks.
 *
 * Where all of them share a host's memory each adds up a slice of everybody's gradients, in place, when all have come, and the
 * sum is made when all are done (neighbours.h). Else the first replica's adds up for all: the others send their gradients a
 * piece at a time and get the sum back, and what is held beside the blocks is one piece per replica.
 *
 * What the first and the last stage share is added up by messages, too, when each stage has its own sum, over the instances of
 * both: the first part of the first stage adds its own and that of the first part of the last, and all others get the sum, too.
 */
#ifndef PENSTOCK_COMM_TRANSPORTS_RANK_SUMS_H
#define PENSTOCK_COMM_TRANSPORTS_RANK_SUMS_H

#include "comm/transport.h"
#include "comm/transports/shared_peers.h"

struct rank_sums;

/* For the instances of this process's worker. Everything is borrowed for the call but `class` and `neighbours` (NULL: there are
 * none). */
enum ps_status rank_sums_create(const struct processes_class *class, const struct shared_peers *peers,
                                const struct transport_options *options, struct rank_sums **sums, struct ps_error *error);
void rank_sums_destroy(struct rank_sums *sums); /* NULL is fine */
void rank_sums_start(struct rank_sums *sums, int instance, const struct transport_share *share);
/* Moves all sums along. */
void rank_sums_look(struct rank_sums *sums);
/* Is there nothing to move along of which no bell tells? */
bool rank_sums_idle(const struct rank_sums *sums);
bool rank_sums_settled(const struct rank_sums *sums, int instance);
double rank_sums_settled_at(const struct rank_sums *sums, int instance);

#endif
