/*
 * Neighbours: ranks of one host, whose blocks change places as those of threads do. Nothing is copied, and no call of anybody's
 * is needed for a block to get there.
 *
 * Each rank has the blocks that travel in memory that the others of its host can open (worker.h). Besides it has a board there:
 * for each route that begins or ends at it a list of what it has posted, and a bell. The n-th post of one end meets the n-th of
 * the other, so an end whose partner has posted as many takes the partner's block into its own table. Nobody writes into
 * another's lists and there is no lock: a rank that dies or is stopped leaves nothing half done. Who posts rings the other's
 * bell, on which that one may be asleep.
 */
#ifndef PENSTOCK_COMM_TRANSPORTS_SHARED_PEERS_H
#define PENSTOCK_COMM_TRANSPORTS_SHARED_PEERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "comm/transport.h"
#include "program/routes.h"

struct shared_peers;

/* All ranks of a run call it together. *neighbours becomes NULL where this one has none, or its memory and theirs cannot be
 * shared (which is logged): then all of its host have none. `options->shared` and `routes` are borrowed for as long as it
 * lives. */
enum ps_status shared_peers_create(const struct transport_options *options, const struct routes *routes,
                                   struct shared_peers **peers, struct ps_error *error);
/* What tables hold of other ranks' memory must not be used any more. NULL is fine. */
void shared_peers_destroy(struct shared_peers *peers);
/* Does the route go between this rank and a neighbour? */
bool shared_peers_on(const struct shared_peers *peers, int route);
/* Lists a block as this end's next; returns its number. Never blocks. What is posted is taken in that order, and at most as
 * many are not taken as the instance has slots. */
uint64_t shared_peers_post(struct shared_peers *peers, int route, const float *block, double when);
/* Has the other end posted as many? Then *block becomes its block, and *when the later of both posts' times. Never blocks. */
bool shared_peers_take(struct shared_peers *peers, int route, uint64_t number, float **block, double *when);

/* What a replica says of its share of a sum over the stage's gradients (rank_sums.h). It alone writes it; the others read what
 * is below `come` once that has come to the sum's number. */
struct peer_descriptor {
    atomic_uint_fast64_t come, done; /* sums that it has a share in; that it has added its slice of */
    uint64_t gradients, statistics;  /* shared_peers_offset */
    uint32_t empty;
};
/* The instance's note, wherever its worker is; NULL: elsewhere, or the instance has no replicas. */
struct peer_descriptor *shared_peers_note(const struct shared_peers *peers, int instance);
/* A block of this rank's own shared memory, and what another rank's instance calls so. */
uint64_t shared_peers_offset(const struct shared_peers *peers, const float *block);
float *shared_peers_block(const struct shared_peers *peers, int instance, uint64_t offset);
void shared_peers_ring(const struct shared_peers *peers, int instance);

/* Who waits first forgets what the bell rang for, then looks, then sleeps until it rings, or so long (INFINITY: no matter how
 * long), or for no reason. */
void shared_peers_forget(struct shared_peers *peers);
void shared_peers_sleep(struct shared_peers *peers, double seconds);
/* Rings the own bell. From any thread. */
void shared_peers_wake(struct shared_peers *peers);

#endif
