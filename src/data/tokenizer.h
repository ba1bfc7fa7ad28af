/*
 * Tokenizers of Hugging Face's library, as their file tokenizer.json describes them: byte pairs (BPE) and WordPiece, with the
 * steps before the model. A text gets the numbers that the library gives it without the special tokens of the template, which
 * tokenizer_template says; special tokens that stand in the text are found. What is not supported is refused when the file is
 * read. Any thread may use a tokenizer; two at once wait for each other.
 */
#ifndef PENSTOCK_DATA_TOKENIZER_H
#define PENSTOCK_DATA_TOKENIZER_H

#include "base/text.h"

struct tokenizer;

/* Makes a tokenizer of the file's contents; `name` is its name in messages. PS_BAD_INPUT names the field. */
enum ps_status tokenizer_create(const char *json, size_t size, const char *name, struct tokenizer **tokenizer,
                                struct ps_error *error);
void tokenizer_destroy(struct tokenizer *tokenizer);

/* The file's contents. */
const char *tokenizer_json(const struct tokenizer *tokenizer);
/* Its largest number + 1. */
int tokenizer_size(const struct tokenizer *tokenizer);
/* The text of a token; "" for a number that it does not use. */
const char *tokenizer_token(const struct tokenizer *tokenizer, int number);
/* The number of the token with exactly this text, special ones included; -1: there is none. */
int tokenizer_find(const struct tokenizer *tokenizer, const char *token);

struct token_list {
    int32_t *tokens; /* free() */
    size_t count, capacity;
};
enum ps_status token_list_add(struct token_list *list, int32_t token, struct ps_error *error);

/* Appends the numbers of a text, which is valid UTF-8. PS_BAD_INPUT: a regular expression of the file gives up on it. */
enum ps_status tokenizer_encode(struct tokenizer *tokenizer, const char *text, size_t length, struct token_list *list,
                                struct ps_error *error);
/* Appends the text of tokens, without special ones and without numbers that the tokenizer does not have. */
enum ps_status tokenizer_decode(struct tokenizer *tokenizer, const int32_t *tokens, int64_t count, struct text *text,
                                struct ps_error *error);

/* What stands in a sequence: the tokens of a text (0, or 1 the second), or a special token; and its segment. */
struct template_item {
    int text; /* -1: `number` */
    int32_t number;
    int32_t segment;
};

/* The template (post_processor) for one text, or for a pair of texts; returns the number of items. */
int tokenizer_template(const struct tokenizer *tokenizer, bool pair, const struct template_item **items);
/* The token that fills up sequences: that of the file's `padding`, or one named [PAD], <pad>, <|pad|> or <|endoftext|>; -1:
 * there is none. */
int tokenizer_padding(const struct tokenizer *tokenizer);

#endif
