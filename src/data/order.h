/* Which samples a mini-batch of training has, and which of several lengths they are computed at. */
#ifndef PENSTOCK_DATA_ORDER_H
#define PENSTOCK_DATA_ORDER_H

#include "base/memory.h"
#include "data/dataset.h"

/* ------------------------------------------------------------------ lengths */

/*
 * Buckets by length: which of a few lengths a sample of source and target needs. A mini-batch whose samples all fit into a
 * shorter length is computed at that length, by the same network built for it; what is cut off is padding.
 */

enum { LENGTHS_MAX = 16, LENGTHS_TEXT = 128 };

struct lengths {
    int count; /* the samples' whole length, which is the last, included; 0: samples are not told apart */
    struct sequence_length at[LENGTHS_MAX];
    uint8_t *of; /* by sample, from the first that was taken on: the shortest that holds it whole, else the last; may be NULL */
    int64_t samples;
};

/* Reads "8,12": tokens of the source, ascending, below the `whole` ones; the target's share is rounded up. PS_USAGE says what
 * is wrong with --lengths. */
enum ps_status lengths_parse(const char *text, struct sequence_length whole, struct lengths *lengths, struct ps_error *error);
/* Sets `of`. PS_USAGE where the data do not know how long their samples are; `spec` names them in messages. */
enum ps_status lengths_measure(struct lengths *lengths, const struct samples *samples, const char *spec,
                               struct ps_error *error);
void lengths_free(struct lengths *lengths);
/* The shorter ones, as "8,12". */
const char *lengths_text(const struct lengths *lengths, char text[LENGTHS_TEXT]);

/* The first tokens of source and target, of `samples` samples that lie at the whole length, packed as a network for length
 * number `length` takes them; and the same of labels. */
void lengths_pack_tokens(const struct lengths *lengths, int length, int samples, const int32_t *whole, int32_t *packed);
void lengths_pack_labels(const struct lengths *lengths, int length, int samples, const int32_t *whole, int32_t *packed);

/* -------------------------------------------------------------------- order */

/*
 * In which order training takes the samples: a permutation keyed by (seed, epoch), cut into mini-batches, of which a last short
 * one is left out.
 *
 * With lengths the samples that the permutation leaves in are first sorted by length, those of one length in
 * the permutation's order, and then cut; so each mini-batch holds samples of one length, or the last of a shorter one and the
 * first of the next, and has the length of its last sample. The mini-batches then take their turns by a second permutation.
 * The samples of an epoch and the number of mini-batches are the same as without.
 */

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
