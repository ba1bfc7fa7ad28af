/*
 * Greedy decoding of translations through the pipeline: each pass over the evaluation's micro-batches gives every sentence its
 * next token. The first stage reads the tokens before `position` instead of the data's, the last one writes the most probable
 * token at `position`; so a pass writes only what it does not read.
 */
#ifndef PENSTOCK_EXEC_DECODING_H
#define PENSTOCK_EXEC_DECODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decoding {
    int32_t *tokens; /* samples x positions; zeros before the first pass */
    int64_t samples;
    int positions; /* of the target */
    int classes;
    int position; /* at which the pass writes */
};

/* The most probable of `classes` tokens that is neither padding nor the start; of equal ones the first. */
int decoding_best(const float *probabilities, int classes);
/* Samples `first` and on of the data, `length` tokens each, of which the last `positions` are what the decoder reads: fills in
 * the tokens decoded so far. Samples past the last are not changed. */
void decoding_put(const struct decoding *writing, int64_t first, int samples, size_t length, int32_t *data);
/* Takes the next tokens from the probabilities at all positions: samples x positions x classes. */
void decoding_take(const struct decoding *writing, int64_t first, int samples, const float *probabilities);
/* Does every sentence contain the end token? */
bool decoding_ended(const struct decoding *writing);

#endif
