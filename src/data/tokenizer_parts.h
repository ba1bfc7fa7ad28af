/*
 * What the files of a tokenizer share: tokenizer_read.c reads tokenizer.json, tokenizer.c splits a text into words,
 * tokenizer_models.c numbers a word, tokenizer_decode.c makes text of numbers. Source of all details: the code of Hugging
 * Face's library (tokenizers 0.23, src/tokenizer, src/models, src/decoders).
 */
#ifndef PENSTOCK_DATA_TOKENIZER_PARTS_H
#define PENSTOCK_DATA_TOKENIZER_PARTS_H

#include <pthread.h>

#include "base/arena.h"
#include "data/text_steps.h"
#include "data/tokenizer.h"

enum { TOKENIZER_STEPS_MAX = 32, TEMPLATE_MAX = 32 };

#define BLANK_MARK "\xe2\x96\x81" /* U+2581, SentencePiece's blank */

enum decoding {
    DECODE_BYTES,
    DECODE_METASPACE,
    DECODE_REPLACE,
    DECODE_FALLBACK,
    DECODE_FUSE,
    DECODE_STRIP,
    DECODE_WORD_PIECE,
    DECODE_SUFFIX
};

struct decode_step {
    enum decoding kind;
    const char *text; /* what is replaced by: blanks, the prefix of WordPiece, the suffix of BPEDecoder, what is stripped */
    struct text_step replace;
    int start, stop;
    bool flag; /* METASPACE: the first blank is dropped; WORD_PIECE: clean up */
};

/* A token that is found in the text before anything else. */
struct added_token {
    const char *text; /* normalised, if `normalized` */
    size_t length;
    int number;
    bool single_word, left, right, normalized;
};

struct token {
    const char *text; /* NULL: no token has this number */
    size_t length;
    bool special;
};

struct merge {
    int32_t left, right; /* left < 0: a free slot */
    int32_t rank, number;
};

/* A word and the numbers that the model gave it, in `letters` and `numbers` of the cache. */
struct cached_word {
    size_t letter, length, number, count; /* length 0: a free slot */
};

struct candidate {
    int32_t rank, number;
    int64_t at;
};

struct tokenizer {
    struct arena arena;
    char *json;
    struct token *tokens;
    int size;
    int32_t *slots; /* of the model's tokens by their text: number + 1; 0: free */
    size_t slot_mask;
    struct text_step steps[2][TOKENIZER_STEPS_MAX]; /* normalisation, splitting */
    int step_count[2];
    struct decode_step decoders[TOKENIZER_STEPS_MAX];
    int decoder_count;
    struct added_token *added;
    int added_count;
    struct template_item templates[2][TEMPLATE_MAX]; /* of one text, of a pair */
    int template_count[2], padding;
    bool begins[2][256]; /* first bytes of added tokens: found in the text as it is, after normalisation */
    /* the model */
    bool word_piece, byte_fallback, fuse_unknown, whole_words, cuts_at_blanks;
    const char *prefix, *suffix;
    size_t prefix_length, suffix_length;
    int unknown, longest; /* the number of the unknown token, -1: none; characters of a word of WordPiece */
    int bytes[256];       /* numbers of "<0x00>" and on; -1: there is none */
    struct merge *merges;
    size_t merge_mask;
    /* for encoding, one text at a time */
    pthread_mutex_t lock;
    struct text buffers[2][TOKENIZER_STEPS_MAX], letters;
    struct token_list numbers;
    struct cached_word *cache; /* at most half of it is in use */
    size_t cache_size, cached;
    int32_t *symbols;
    int64_t *before, *after;
    size_t symbol_capacity, before_capacity, after_capacity, heap_capacity, heap_count;
    struct candidate *heap;
};

size_t tokenizer_hash(const char *text, size_t length);
/* The slot of a token of the model, or the free one where it would be. */
size_t tokenizer_slot(const struct tokenizer *t, const char *text, size_t length);
/* The number of a token of the model; -1: there is none. */
int tokenizer_number(const struct tokenizer *t, const char *text, size_t length);
/* The slot of a merge, or the free one (left < 0) where it would be. */
struct merge *tokenizer_merge(const struct tokenizer *t, int32_t left, int32_t right);

/* Runs the steps of normalisation: `text` is then in a buffer of the tokenizer. `head` is text_step_change's. */
enum ps_status tokenizer_normalise(struct tokenizer *t, const char **text, size_t *length, size_t *head,
                                   struct ps_error *error);

/* The models: append the numbers of a word. */
enum ps_status tokenizer_join_pairs(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                    struct ps_error *error);
enum ps_status tokenizer_find_pieces(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                     struct ps_error *error);

#endif
