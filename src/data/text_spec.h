/* What datasets of text have in common: whose vocabulary they take, and how their spec says it. */
#ifndef PENSTOCK_DATA_TEXT_SPEC_H
#define PENSTOCK_DATA_TEXT_SPEC_H

#include "base/options.h"
#include "data/dataset.h"
#include "data/vocabulary.h"

/* The vocabularies of a dataset: read from the file that its spec names (vocab=FILE), or those wanted, or made of itself. */
struct text_vocabularies {
    struct vocabulary *own[2]; /* read or made here */
    const struct vocabulary *used[2];
};

/* Takes those that the spec or `wanted` name, `count` (1 or 2) of them; what is left NULL in `used` is to be made. Only a
 * training part may make its own: PS_USAGE for others. `what` names the format. */
enum ps_status text_vocabularies_find(const char *what, struct options *options, enum dataset_part part,
                                      const struct dataset_shape *wanted, int count, struct text_vocabularies *vocabularies,
                                      struct ps_error *error);
void text_vocabularies_free(struct text_vocabularies *vocabularies);

#endif
