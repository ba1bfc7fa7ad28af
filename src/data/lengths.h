/*
 * Buckets by length: which of a few lengths a sample of source and target needs. A mini-batch whose samples all fit into a
 * shorter length is computed at that length, by the same network built for it; what is cut off is padding.
 */
#ifndef PENSTOCK_DATA_LENGTHS_H
#define PENSTOCK_DATA_LENGTHS_H

#include "data/dataset.h"

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

#endif
