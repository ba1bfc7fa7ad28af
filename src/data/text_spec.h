/* What datasets of text have in common: whose vocabulary they take, how text is parted, and how their spec says it. */
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

/* Takes those that the spec or `wanted` name, `count` (1 or 2) of them; what is left NULL in `used` is to be made. `what` names
 * the format. PS_USAGE where both name some that differ. */
enum ps_status text_vocabularies_find(const char *what, struct options *options, const struct dataset_shape *wanted, int count,
                                      struct text_vocabularies *vocabularies, struct ps_error *error);
/* How the text is parted into tokens: `kind` is the place in `names` (`count`; 0: there is one way only) of what the spec says
 * (tokens=NAME), else of what the vocabulary was made with, else the first; `data` becomes what vocabulary_data is to say.
 * PS_USAGE where the vocabulary was made of another format or of text that was parted in another way. */
enum ps_status text_tokens_find(const char *what, struct options *options, const struct text_vocabularies *vocabularies,
                                const char *const *names, int count, int *kind, char data[VOCABULARY_DATA],
                                struct ps_error *error);
/* That a vocabulary must be given: PS_USAGE. */
enum ps_status text_vocabulary_missing(const char *what, struct ps_error *error);
/* Takes `made` as the vocabulary `place`. */
void text_vocabularies_take(struct text_vocabularies *vocabularies, int place, struct vocabulary *made, const char *data);
void text_vocabularies_free(struct text_vocabularies *vocabularies);

#endif
