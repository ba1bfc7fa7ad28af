/*
 * The tokens of a text and their numbers. A vocabulary is made from the training set: its most frequent tokens, as many as the
 * network takes. Or it has the tokens of a tokenizer (data/tokenizer.h). It is kept with the run (RUN_DIR/vocabulary.json), so
 * that text that is read later gets the same numbers; see docs/formats.md.
 */
#ifndef PENSTOCK_DATA_VOCABULARY_H
#define PENSTOCK_DATA_VOCABULARY_H

#include "base/error.h"
#include "base/random.h"

struct tokenizer;

/* The first tokens of every vocabulary: "<pad>", "<unk>", "<s>" and "</s>". */
enum { VOCABULARY_PADDING, VOCABULARY_UNKNOWN, VOCABULARY_START, VOCABULARY_END, VOCABULARY_SPECIALS };

struct vocabulary;

/* A vocabulary of these four tokens. NULL with `error` set if memory ran out. */
struct vocabulary *vocabulary_create(struct ps_error *error);
void vocabulary_destroy(struct vocabulary *vocabulary);
/* A vocabulary of the tokens of a tokenizer, with their numbers plus `first`: 0, or VOCABULARY_SPECIALS, so that they follow
 * the four. It owns the tokenizer, also where it could not be made (NULL, with `error` set). */
struct vocabulary *vocabulary_of_tokenizer(struct tokenizer *tokenizer, int first, struct ps_error *error);
/* Its tokenizer, or NULL, and what its numbers are greater by. */
struct tokenizer *vocabulary_tokenizer(const struct vocabulary *vocabulary);
int vocabulary_first(const struct vocabulary *vocabulary);

/* Counts an occurrence of a token (not terminated; valid UTF-8, not empty). */
enum ps_status vocabulary_count(struct vocabulary *vocabulary, const char *token, size_t length, struct ps_error *error);
/* Ends counting: keeps at most `size` tokens, the four included, and numbers them. The most frequent come first, equally
 * frequent ones in the order of their bytes. */
enum ps_status vocabulary_finish(struct vocabulary *vocabulary, int size, struct ps_error *error);

/* These three need a finished vocabulary; the first one of words, not a tokenizer's. The number of a token that it does not
 * have is VOCABULARY_UNKNOWN. */
int vocabulary_find(const struct vocabulary *vocabulary, const char *token, size_t length);
const char *vocabulary_token(const struct vocabulary *vocabulary, int number);
int vocabulary_size(const struct vocabulary *vocabulary);
/* Whether both have the same tokens with the same numbers. NULL equals NULL. */
bool vocabulary_equal(const struct vocabulary *a, const struct vocabulary *b);

/* The format and tokenisation that it was made from, as in a spec ("pairs,tokens=given"); "" if unknown. Longer texts are cut
 * off. */
enum { VOCABULARY_DATA = 40 };
void vocabulary_set_data(struct vocabulary *vocabulary, const char *data);
const char *vocabulary_data(const struct vocabulary *vocabulary);

/* Writes the vocabularies of a text as one file: for translations source and target, else one, and the second is NULL. */
enum ps_status vocabulary_write(const char *path, const struct vocabulary *const vocabularies[2], struct ps_error *error);
/* The caller owns the result. */
enum ps_status vocabulary_read(const char *path, struct vocabulary *vocabularies[2], struct ps_error *error);

/* ------------------------------------------------------------------ masking */

/* BERT's task: some tokens of a sequence are masked, and the network predicts them. */

/* The token that replaces a masked one; running text does not use it otherwise. */
enum { MASKING_TOKEN = VOCABULARY_START };

/* What masked tokens become: `mask`, or one of first ... end - 1. */
struct masking {
    int mask, first, end;
};

/* Selects 15% of the tokens by `key` (Devlin et al., 2019): their labels are the tokens, all other labels -1. Of the selected
 * tokens 80% become the mask, 10% a random token, 10% are unchanged. */
void masking_apply(struct random_key key, int64_t count, const struct masking *masking, int32_t *tokens, int32_t *labels);

#endif
