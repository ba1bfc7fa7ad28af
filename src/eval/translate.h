/*
 * Translating with a trained network, greedily or by beam search, and the BLEU of the translations.
 *
 * The decoder's next token follows from what it has read, so translating is the network's own forward, over and over, each
 * giving the probabilities at one more position. The network is built for a single position of the target
 * (network_create_stepping) and run on one token after the other: what does not depend on the decoded tokens (the encoder) is
 * computed once for a sentence, and recurrent layers continue from their last state (stage_blocks.state). So a sentence takes
 * one pass of the decoder, where the network as it is trained would take one per token.
 *
 * Hypotheses are ranked by log probability / ((5 + tokens) / 6)^0.6 (Wu et al. 2016, equation 14, with the alpha of the
 * reference implementation and without its coverage penalty). A beam of 1 is greedy.
 */
#ifndef PENSTOCK_EVAL_TRANSLATE_H
#define PENSTOCK_EVAL_TRANSLATE_H

#include "base/text.h"
#include "compute/stage.h"
#include "data/dataset.h"
#include "eval/bleu.h"

struct translation_options {
    struct device *device;
    struct stage *stage;        /* the whole network, for one position of the target */
    const struct graph *graph;  /* the same */
    struct stage_blocks blocks; /* without a state */
    int rows;                   /* samples that the stage computes; at least `beam` */
    int beam;
    const struct samples *samples; /* of pairs */
    struct text *sentences;        /* NULL, or gets a line for each sample */
};

/* Translates all samples and counts their words against the references. */
enum ps_status translate(const struct translation_options *options, struct bleu *bleu, struct ps_error *error);
/* Spells one translation of `count` tokens at most, adds it as a line to `sentences` (may be NULL) and counts its words against
 * the reference of sample `index` of `samples`. */
enum ps_status translate_count(const struct samples *samples, int64_t index, const int32_t *tokens, int64_t count,
                               struct text *sentences, struct bleu *bleu, struct ps_error *error);

#endif
