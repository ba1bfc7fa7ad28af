/*
 * In which order training takes the samples: a permutation keyed by (seed, epoch), cut into mini-batches, of which a last short
 * one is left out.
 *
 * With lengths (data/lengths.h) the samples that the permutation leaves in are first sorted by length, those of one length in
 * the permutation's order, and then cut; so each mini-batch holds samples of one length, or the last of a shorter one and the
 * first of the next, and has the length of its last sample. The mini-batches then take their turns by a second permutation.
 * The samples of an epoch and the number of mini-batches are the same as without.
 */
#ifndef PENSTOCK_DATA_ORDER_H
#define PENSTOCK_DATA_ORDER_H

#include "base/memory.h"
#include "data/lengths.h"

struct sample_order {
    int64_t samples;
    int batch;
    uint64_t seed;
    const struct lengths *lengths; /* borrowed; NULL: samples are not told apart */
    int64_t epoch;                 /* that stands below; -1: none yet */
    uint32_t *at;                  /* samples by place: those of mini-batch b begin at b * batch */
    uint8_t *length_of;            /* by mini-batch: number of its length; NULL without lengths */
    struct memory_block memory;
    uint32_t *aside, *turns; /* samples, mini-batches: to sort in */
};

/* `lengths` NULL, or with `of` of as many samples. All memory is taken here. */
enum ps_status sample_order_create(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths,
                                   struct sample_order *order, struct ps_error *error);
/* A zeroed one is fine. */
void sample_order_free(struct sample_order *order);
/* Makes it the order of an epoch (from 0), unless it is. */
void sample_order_turn(struct sample_order *order, int64_t epoch);

/* Mini-batches of an epoch. */
static inline int64_t sample_order_batches(const struct sample_order *order) { return order->samples / order->batch; }

/* Which share of an epoch's mini-batches each length has, as the first epoch goes; `shares` has lengths->count elements. */
enum ps_status sample_order_shares(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths, double *shares,
                                   struct ps_error *error);

#endif
