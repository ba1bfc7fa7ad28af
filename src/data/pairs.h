/* Pairs of sentences: the texts of a translation dataset, in addition to its samples. */
#ifndef PENSTOCK_DATA_PAIRS_H
#define PENSTOCK_DATA_PAIRS_H

#include "base/text.h"
#include "data/dataset.h"

/* Whether the dataset consists of pairs. */
bool dataset_has_pairs(const struct dataset *dataset);
/* Appends the target sentence of a sample as in the file; subwords are joined. */
void pairs_reference(const struct dataset *dataset, int64_t index, struct text *sentence);
/* Appends the sentence that the target tokens spell, up to the first </s> or padding. */
void pairs_spell(const struct dataset *dataset, const int32_t *tokens, int64_t count, struct text *sentence);

#endif
