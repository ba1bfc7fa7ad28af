/* What datasets of text have in common: tokenisation, their vocabularies, and text files as lines of token numbers. */
#ifndef PENSTOCK_DATA_CORPUS_H
#define PENSTOCK_DATA_CORPUS_H

#include "base/options.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/vocabulary.h"

/* ------------------------------------------------------------- tokenisation */

/* From a line of text to words, separated by one blank each. */

/* mteval's tokenisation 13a, the standard of WMT: punctuation stands by itself, but for '.' and ',' inside numbers and for '-'
 * and '\'' (but behind a digit '-' does); &quot; &amp; &lt; &gt; are what they stand for. Case is kept. */
void words_13a(const char *line, size_t length, struct text *words);
/* For classifying: small letters (of ASCII), digits, apostrophes and all beyond ASCII make words; HTML's line breaks and the
 * rest part them. */
void words_plain(const char *line, size_t length, struct text *words);
/* What blanks part already. */
void words_given(const char *line, size_t length, struct text *words);

/* The next word of `words` from *place on, moved behind it; its length, 0 at the end. */
size_t words_next(const char **place, const char **word);

/* ------------------------------------------------------------------ options */

/* What datasets of text have in common: whose vocabulary they take, how text is parted, and how their spec says it. */

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

/* -------------------------------------------------------------------- files */

/*
 * A text file in memory: its lines, and the numbers of their words. What datasets of text are made of.
 *
 * Lines end at LF alone (a CR before it is taken off). They must be UTF-8; the first that is not is named.
 */

struct corpus {
    char *data;
    const char **lines; /* terminated; whoever reads a head off a line moves it on before the words are numbered */
    int64_t count;
    int32_t *tokens; /* of all lines, one after the other */
    size_t *first;   /* count + 1: where a line's tokens begin */
};

typedef void corpus_split(const char *line, size_t length, struct text *words);

/* Reads the lines. Missing, empty or damaged: PS_BAD_INPUT with the file's name and the line, counted from 1. */
enum ps_status corpus_read(const char *path, struct corpus *corpus, struct ps_error *error);
void corpus_free(struct corpus *corpus);
/* A vocabulary of the most frequent words; the caller's. */
enum ps_status corpus_vocabulary(const struct corpus *corpus, corpus_split *split, int size, struct vocabulary **vocabulary,
                                 struct ps_error *error);
enum ps_status corpus_number(struct corpus *corpus, corpus_split *split, const struct vocabulary *vocabulary,
                             struct ps_error *error);

/* Tokens of a line; `count` gets how many. */
const int32_t *corpus_tokens(const struct corpus *corpus, int64_t line, int64_t *count);

#endif
