/* Pairs of sentences: what translating needs of them beside the samples. */
#ifndef PENSTOCK_DATA_PAIRS_H
#define PENSTOCK_DATA_PAIRS_H

#include "base/text.h"
#include "data/dataset.h"

/* Whether the dataset holds pairs. */
bool dataset_has_pairs(const struct dataset *dataset);
/* Adds the target sentence of a sample: as the file has it, of subwords joined. */
void pairs_reference(const struct dataset *dataset, int64_t index, struct text *sentence);
/* The sentence that the target's tokens spell, up to the first end or padding. */
void pairs_spell(const struct dataset *dataset, const int32_t *tokens, int64_t count, struct text *sentence);

#endif
