/*
 * The tokens of a text and their numbers. A vocabulary is made of the training part: its most frequent tokens, as many as the
 * network takes. It is kept with the run (RUN_DIR/vocabulary.json), so that everything that is read later gets the same
 * numbers; see docs/formats.md.
 */
#ifndef PENSTOCK_DATA_VOCABULARY_H
#define PENSTOCK_DATA_VOCABULARY_H

#include "base/error.h"
#include "base/random.h"

/* Numbers that every vocabulary has: "<pad>", "<unk>", "<s>" and "</s>". */
enum { VOCABULARY_PADDING, VOCABULARY_UNKNOWN, VOCABULARY_START, VOCABULARY_END, VOCABULARY_SPECIALS };

struct vocabulary;

/* Only the four. NULL with `error` set when memory ran out. */
struct vocabulary *vocabulary_create(struct ps_error *error);
void vocabulary_destroy(struct vocabulary *vocabulary);

/* Counts an occurrence of a token (not terminated; valid UTF-8, not empty). */
enum ps_status vocabulary_count(struct vocabulary *vocabulary, const char *token, size_t length, struct ps_error *error);
/* Ends the counting: keeps the most frequent, of equal ones the first in the order of their bytes, so that there are at most
 * `size` tokens, the four included, and numbers them in that order. */
enum ps_status vocabulary_finish(struct vocabulary *vocabulary, int size, struct ps_error *error);

/* Of a finished one. A token that it lacks is VOCABULARY_UNKNOWN. */
int vocabulary_find(const struct vocabulary *vocabulary, const char *token, size_t length);
const char *vocabulary_token(const struct vocabulary *vocabulary, int number);
int vocabulary_size(const struct vocabulary *vocabulary);
/* Have they the same tokens with the same numbers? NULL equals NULL. */
bool vocabulary_equal(const struct vocabulary *a, const struct vocabulary *b);

/* Of which data it was made and how their text was parted, as a spec says it ("pairs,tokens=given"); "" where nobody has said.
 * What is longer is cut off. */
enum { VOCABULARY_DATA = 40 };
void vocabulary_set_data(struct vocabulary *vocabulary, const char *data);
const char *vocabulary_data(const struct vocabulary *vocabulary);

/* A text's vocabularies (of a translation two: source and target; else the second is NULL) as one file. */
enum ps_status vocabulary_write(const char *path, const struct vocabulary *const vocabularies[2], struct ps_error *error);
/* The result is the caller's. */
enum ps_status vocabulary_read(const char *path, struct vocabulary *vocabularies[2], struct ps_error *error);

/* ------------------------------------------------------------------ masking */

/* BERT's task: some tokens of a sequence are hidden, and the network says what they were. */

/* What a hidden token reads as: running text has it for nothing else. */
enum { MASKING_TOKEN = VOCABULARY_START };

/* Chooses 15% of the tokens by `key` (Devlin et al., 2019): their labels are the tokens, all other labels -1. Of the chosen,
 * 80% become MASKING_TOKEN, 10% a random token, 10% stay. */
void masking_apply(struct random_key key, int64_t count, int vocabulary, int32_t *tokens, int32_t *labels);

#endif
