/*
 * Sums over the replicas of a stage whose workers are processes. The first replica's adds up for all, so that the order is that
 * of the replicas and the bits are those of the threads transport: the others send their gradients a piece at a time and get
 * the sum back. What is held beside the blocks is one piece per replica. Nothing waits: the sums go on when somebody looks.
 *
 * What the first and the last stage share is added up in the same way, when each stage has its own sum, over the parts of both: the
 * first part of the first stage adds its own and that of the first part of the last, and all others get the sum, too.
 */
#ifndef PENSTOCK_RUN_TRANSPORTS_RANK_SUMS_H
#define PENSTOCK_RUN_TRANSPORTS_RANK_SUMS_H

#include "run/transport.h"

struct rank_sums;

/* For the parts of this process's worker. Everything is borrowed for the call but `class`. */
enum ps_status rank_sums_create(const struct processes_class *class, const struct transport_options *options,
                                struct rank_sums **sums, struct ps_error *error);
void rank_sums_destroy(struct rank_sums *sums); /* NULL is fine */
void rank_sums_start(struct rank_sums *sums, int part, const struct transport_share *share);
/* Moves all sums along. */
void rank_sums_look(struct rank_sums *sums);
/* Is there nothing to move along? */
bool rank_sums_idle(const struct rank_sums *sums);
bool rank_sums_settled(const struct rank_sums *sums, int part);
double rank_sums_settled_at(const struct rank_sums *sums, int part);

#endif
