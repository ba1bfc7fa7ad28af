/* The kinds of synthetic data that have files of their own. */
#ifndef PENSTOCK_DATA_SYNTHETIC_H
#define PENSTOCK_DATA_SYNTHETIC_H

#include "base/options.h"
#include "data/dataset.h"

/* "tokens,...": `options` are what follows "synthetic:". */
enum ps_status synthetic_tokens_open(struct options *options, enum dataset_part part, const struct dataset_shape *wanted,
                                     struct dataset **dataset, struct ps_error *error);

#endif
