/*
 * Shared-memory peers: ranks of one host, which exchange blocks like threads. Nothing is copied, and a block arrives without
 * any call of the other rank.
 *
 * Each rank has the blocks that travel in memory that the others of its host can open (worker.h). It also has a board there:
 * for each route that begins or ends at it a list of its posts, and a bell. The n-th post of one end is paired with the n-th of
 * the other, so an end whose partner has posted as many takes the partner's block into its own table. No rank writes into
 * another's lists and there is no lock: a rank that dies or is stopped leaves a consistent state. A post rings the other's
 * bell, on which that rank may be asleep.
 */
#ifndef PENSTOCK_COMM_TRANSPORTS_SHARED_PEERS_H
#define PENSTOCK_COMM_TRANSPORTS_SHARED_PEERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "comm/transport.h"
#include "program/routes.h"

struct shared_peers;

/* All ranks of a run call it together. *peers becomes NULL where this one has none, or memory cannot be shared (which is
 * logged): then all ranks of its host have none. `options->shared` and `routes` are borrowed for as long as it lives. */
enum ps_status shared_peers_create(const struct transport_options *options, const struct routes *routes,
                                   struct shared_peers **peers, struct ps_error *error);
/* Blocks of other ranks in the tables must not be used any more. NULL is fine. */
void shared_peers_destroy(struct shared_peers *peers);
/* Does the route connect this rank with a peer? */
bool shared_peers_on(const struct shared_peers *peers, int route);
/* Posts a block as this end's next; returns its number. Never blocks. Posts are taken in order, and at most as many are pending
 * as the instance has slots. */
uint64_t shared_peers_post(struct shared_peers *peers, int route, const float *block, double when);
/* Has the other end posted as many? Then *block becomes its block, and *when the later of both posts' times. Never blocks. */
bool shared_peers_take(struct shared_peers *peers, int route, uint64_t number, float **block, double *when);

/* A replica's record of its share in a sum over the stage's gradients (gradient_sum_ranks.h). Only the replica writes it; the
 * others read the fields below `come` once `come` has reached the sum's number. */
struct peer_descriptor {
    atomic_uint_fast64_t come,
        done; /* number of sums that it has offered a share for; number of those whose slice it has summed */
    uint64_t gradients, statistics; /* shared_peers_offset */
    uint32_t empty;
};
/* The instance's record; NULL: its worker is on another host, or the instance has no replicas. */
struct peer_descriptor *shared_peers_note(const struct shared_peers *peers, int instance);
/* A block of this rank's own shared memory, and what another rank's instance calls so. */
uint64_t shared_peers_offset(const struct shared_peers *peers, const float *block);
float *shared_peers_block(const struct shared_peers *peers, int instance, uint64_t offset);
void shared_peers_ring(const struct shared_peers *peers, int instance);

/* A waiting rank first resets the bell, then polls, then sleeps until the bell rings or the time is over (INFINITY: no limit);
 * it may also wake up spuriously. */
void shared_peers_forget(struct shared_peers *peers);
void shared_peers_sleep(struct shared_peers *peers, double seconds);
/* Rings this rank's own bell. From any thread. */
void shared_peers_wake(struct shared_peers *peers);

#endif
