/* BERT's task: some tokens of a sequence are hidden, and the network says what they were. */
#ifndef PENSTOCK_DATA_MASKING_H
#define PENSTOCK_DATA_MASKING_H

#include "base/random.h"
#include "data/vocabulary.h"

/* What a hidden token reads as: running text has it for nothing else. */
enum { MASKING_TOKEN = VOCABULARY_START };

/* Chooses 15% of the tokens by `key` (Devlin et al., 2019): their labels are the tokens, all other labels -1. Of the chosen,
 * 80% become MASKING_TOKEN, 10% a random token, 10% stay. */
void masking_apply(struct random_key key, int64_t count, int vocabulary, int32_t *tokens, int32_t *labels);

#endif
