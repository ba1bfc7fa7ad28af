/* What datasets of text have in common: tokenisation, their vocabularies, and text files as lines of token numbers. */
#ifndef PENSTOCK_DATA_CORPUS_H
#define PENSTOCK_DATA_CORPUS_H

#include "base/spec.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"

/* ------------------------------------------------------------- tokenisation */

/* These functions split a line of text into words and append them to `words`, separated by one blank each. */

/* mteval's tokenisation 13a, the standard of WMT. Punctuation marks are separate words, except '.' and ',' inside numbers,
 * '\'', and '-' unless it follows a digit. &quot; &amp; &lt; &gt; are decoded. Case is kept. */
void words_13a(const char *line, size_t length, struct text *words);
/* For classification: words consist of ASCII letters, converted to lower case, digits, apostrophes and all non-ASCII
 * characters; everything else, HTML line breaks included, separates words. */
void words_plain(const char *line, size_t length, struct text *words);
/* Splits at white space only. */
void words_given(const char *line, size_t length, struct text *words);

/* Finds the next word at or after *position and moves *position past it. Returns the word's length; 0 at the end. */
size_t words_next(const char **position, const char **word);

/* ------------------------------------------------------------------ options */

/* The options of all text datasets: the vocabulary (vocab=, tokenizer=) and the tokenisation (tokens=). */

/* The vocabularies of a dataset: read from the file that its spec names (vocab=FILE, tokenizer=FILE), or given by the caller,
 * or made from its own text. */
struct text_vocabularies {
    struct vocabulary *own[2]; /* read or made here */
    const struct vocabulary *used[2];
};

/* The tokenisation by a tokenizer (data/tokenizer.h): `tokens=` of the formats that take one. */
#define TOKENS_OF_TOKENIZER "tokenizer"

/* Sets `count` (1 or 2) vocabularies to those that the spec or `required` gives; one that stays NULL in `used` must still be
 * made. One tokenizer serves for both. `what` names the format, and `first` the number of a tokenizer's first token in it (-1:
 * it takes no tokenizers). PS_USAGE if the spec and `required` give different vocabularies. */
enum ps_status text_vocabularies_find(const char *what, struct spec *options, const struct dataset_shape *required, int count,
                                      int first, struct text_vocabularies *vocabularies, struct ps_error *error);
/* Chooses the tokenisation: *kind is the index in `names` (`count` of them; 0: the format has only one tokenisation) of the one
 * that the spec gives (tokens=NAME), else of the one that the vocabulary was made with, else 0. `data` becomes the text for
 * vocabulary_set_data. PS_USAGE if the vocabulary was made from another format or with another tokenisation. */
enum ps_status text_tokens_find(const char *what, struct spec *options, const struct text_vocabularies *vocabularies,
                                const char *const *names, int count, int *kind, char data[VOCABULARY_DATA],
                                struct ps_error *error);
/* PS_USAGE: a vocabulary must be given. */
enum ps_status text_vocabulary_missing(const char *what, struct ps_error *error);
/* Makes `made` vocabulary number `index`; `vocabularies` owns it from now on. */
void text_vocabularies_take(struct text_vocabularies *vocabularies, int index, struct vocabulary *made, const char *data);
void text_vocabularies_free(struct text_vocabularies *vocabularies);

/* ------------------------------------------------------------- running text */

/* Appends the numbers that a vocabulary of running text (data/running_text.c) gives a text, which is valid UTF-8 unless its
 * tokens are bytes. PS_USAGE: it was made from another format. */
enum ps_status running_text_number(const struct vocabulary *vocabulary, const char *text, size_t length,
                                   struct token_list *list, struct ps_error *error);
/* Appends the text of tokens: words with blanks between them, </s> as the end of a line. */
enum ps_status running_text_spell(const struct vocabulary *vocabulary, const int32_t *tokens, int64_t count, struct text *text,
                                  struct ps_error *error);

/* -------------------------------------------------------------------- files */

/*
 * A text file in memory: its lines, and the numbers of their tokens.
 *
 * Only LF ends a line (a CR before it is removed). Lines must be UTF-8; an error names the first that is not.
 */

struct corpus {
    char *data;
    const char **lines; /* terminated; a format whose lines begin with a label moves the pointer past it before corpus_number */
    int64_t count;
    int32_t *tokens; /* of all lines, one after the other */
    size_t *first;   /* count + 1: where a line's tokens begin */
};

typedef void corpus_split(const char *line, size_t length, struct text *words);

/* Reads the lines. Missing, empty or damaged: PS_BAD_INPUT with the file's name and the line, counted from 1. */
enum ps_status corpus_read(const char *path, struct corpus *corpus, struct ps_error *error);
void corpus_free(struct corpus *corpus);
/* Makes a vocabulary of the most frequent words; the caller owns it. */
enum ps_status corpus_vocabulary(const struct corpus *corpus, corpus_split *split, int size, struct vocabulary **vocabulary,
                                 struct ps_error *error);
/* Numbers the words of all lines, or by the vocabulary's tokenizer the lines (`split` is not used). */
enum ps_status corpus_number(struct corpus *corpus, corpus_split *split, const struct vocabulary *vocabulary,
                             struct ps_error *error);

/* The tokens of a line, and their number in *count; NULL: there are none. */
const int32_t *corpus_tokens(const struct corpus *corpus, int64_t line, int64_t *count);

#endif
