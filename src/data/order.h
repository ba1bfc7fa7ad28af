/* Which samples a mini-batch of training has, and which of several lengths they are computed at. */
#ifndef PENSTOCK_DATA_ORDER_H
#define PENSTOCK_DATA_ORDER_H

#include "base/memory.h"
#include "data/dataset.h"

/* ------------------------------------------------------------------ lengths */

/*
 * Buckets by length: each sample of source and target is assigned to the shortest of a few lengths that holds it. A mini-batch
 * whose samples all fit into a shorter length is computed at that length, by the same network built for it; only padding is cut
 * off.
 */

enum { LENGTHS_MAX = 16, LENGTHS_TEXT = 128 };

struct lengths {
    int count; /* including the full length, which is the last; 0: all samples have one length */
    struct sequence_length at[LENGTHS_MAX];
    uint8_t *of; /* by sample of the range: the number of the shortest length that holds it completely, else of the last; may be
                    NULL */
    int64_t samples;
};

/* Reads "8,12": numbers of source tokens, ascending, below `full`; target tokens in proportion, rounded up. PS_USAGE with a
 * message about --lengths. */
enum ps_status lengths_parse(const char *text, struct sequence_length full, struct lengths *lengths, struct ps_error *error);
/* Sets `of`. PS_USAGE if the dataset does not give the lengths of its samples; `spec` names it in messages. */
enum ps_status lengths_measure(struct lengths *lengths, const struct samples *samples, const char *spec,
                               struct ps_error *error);
void lengths_free(struct lengths *lengths);
/* All lengths but the full one, as "8,12". */
const char *lengths_text(const struct lengths *lengths, char text[LENGTHS_TEXT]);

/* Copies `samples` samples, stored at the full length, as a network for length number `length` takes them: the first tokens of
 * source and target. The second does the same for labels. */
void lengths_pack_tokens(const struct lengths *lengths, int length, int samples, const int32_t *full, int32_t *packed);
void lengths_pack_labels(const struct lengths *lengths, int length, int samples, const int32_t *full, int32_t *packed);

/* -------------------------------------------------------------------- order */

/*
 * The order of the samples in training: a permutation keyed by (seed, epoch), cut into mini-batches; a last, shorter mini-batch
 * is left out.
 *
 * With lengths the same samples are first sorted by length, those of one length in the order of the permutation, and then cut.
 * So each mini-batch holds samples of one length, or the last samples of one length and the first of the next, and has the
 * length of its last sample. The mini-batches are then ordered by a second permutation. An epoch has the same samples and the
 * same number of mini-batches as without lengths.
 */

struct sample_order {
    int64_t samples;
    int batch;
    uint64_t seed;
    const struct lengths *lengths; /* borrowed; NULL: all samples have one length */
    int64_t epoch;                 /* the epoch of the order below; -1: none yet */
    uint32_t *at;                  /* samples in order: those of mini-batch b begin at b * batch */
    uint8_t *length_of;            /* by mini-batch: number of its length; NULL without lengths */
    struct memory_block memory;
    uint32_t *by_length, *batch_order; /* work space: samples, mini-batches */
};

/* `lengths`: NULL, or with `of` set for the same samples. Takes all memory. */
enum ps_status sample_order_create(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths,
                                   struct sample_order *order, struct ps_error *error);
/* A zeroed order is fine. */
void sample_order_free(struct sample_order *order);
/* Computes the order of an epoch (from 0) unless it is there already. */
void sample_order_turn(struct sample_order *order, int64_t epoch);

/* Mini-batches of an epoch. */
static inline int64_t sample_order_batches(const struct sample_order *order) { return order->samples / order->batch; }

/* The share of each length in the mini-batches of the first epoch; `shares` has lengths->count elements. */
enum ps_status sample_order_shares(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths, double *shares,
                                   struct ps_error *error);

#endif
