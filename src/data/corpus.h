/*
 * A text file in memory: its lines, and the numbers of their words. What datasets of text are made of.
 *
 * Lines end at LF alone (a CR before it is taken off). They must be UTF-8; the first that is not is named.
 */
#ifndef PENSTOCK_DATA_CORPUS_H
#define PENSTOCK_DATA_CORPUS_H

#include "base/text.h"
#include "data/vocabulary.h"

struct corpus {
    char *data;
    const char **lines; /* terminated; whoever reads a head off a line moves it on before the words are numbered */
    int64_t count;
    int32_t *tokens; /* of all lines, one after the other */
    size_t *first;   /* count + 1: where a line's tokens begin */
};

typedef void corpus_split(const char *line, size_t length, struct text *words); /* as in data/words.h */

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
