/*
 * Sentences that a translating network writes, greedily, through the pipeline: each pass over the evaluation's micro-batches
 * gives every sentence its next token. The first stage reads the tokens before `position` in place of the data's, the last one
 * puts the most probable token there; so a pass writes only what none of it reads.
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
    int position; /* that the pass writes */
};

/* The next token as translating counts it, of `classes` probabilities: neither padding nor a start; of equals the first. */
int decoding_best(const float *probabilities, int classes);
/* Samples `first` and on of the data, `length` tokens each, of which the last `positions` are what the decoder reads: gives
 * them what was written. Those past the last stay as they are. */
void decoding_put(const struct decoding *writing, int64_t first, int samples, size_t length, int32_t *data);
/* Takes in their probabilities at all positions: samples x positions x classes. */
void decoding_take(const struct decoding *writing, int64_t first, int samples, const float *probabilities);
/* Has every sentence its end among its tokens? */
bool decoding_ended(const struct decoding *writing);

#endif
