/*
 * Reading of tokenizer.json, and the way from text to numbers and back: special tokens are found first, the text between them
 * is normalised and split into words, and the model numbers each word. Words that were met before come from a cache. Source of
 * all details: the code of Hugging Face's library (tokenizers 0.23, src/tokenizer, src/models, src/decoders).
 *
 * Byte pairs (Sennrich et al., 2016): a word is a list of characters; of all adjacent pairs the one with the lowest rank, the
 * first of equal ones, is joined, until no pair has a rank.
 */
#include "data/tokenizer.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/text_steps.h"

enum { STEPS_MAX = 32, NESTING_MAX = 8, TEMPLATE_MAX = 32 };
enum { CACHE_WORDS = 1 << 18, CACHE_LENGTH = 128 };

static const char blank_mark[] = "\xe2\x96\x81"; /* U+2581, SentencePiece's blank */

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
    struct text_step steps[2][STEPS_MAX]; /* normalisation, splitting */
    int step_count[2];
    struct decode_step decoders[STEPS_MAX];
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
    struct text buffers[2][STEPS_MAX], letters;
    struct token_list numbers;
    struct cached_word *cache; /* at most half of it is in use */
    size_t cache_size, cached;
    int32_t *symbols;
    int64_t *before, *after;
    size_t symbol_capacity, before_capacity, after_capacity, heap_capacity, heap_count;
    struct candidate *heap;
};

/* ------------------------------------------------------------------- tables */

static size_t hash_bytes(const char *text, size_t length) {
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) value = (value ^ (unsigned char)text[i]) * 0x100000001b3u;
    return (size_t)(value ^ value >> 29);
}

/* A power of two that is at least twice as large. */
static size_t table_size(size_t count) {
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    return size;
}

/* The slot of a token of the model, or the free one where it would be. */
static size_t token_slot(const struct tokenizer *t, const char *text, size_t length) {
    for (size_t slot = hash_bytes(text, length) & t->slot_mask;; slot = (slot + 1) & t->slot_mask) {
        if (t->slots[slot] == 0) return slot;
        const struct token *token = &t->tokens[t->slots[slot] - 1];
        if (token->length == length && memcmp(token->text, text, length) == 0) return slot;
    }
}

static int find_token(const struct tokenizer *t, const char *text, size_t length) {
    return t->slots[token_slot(t, text, length)] - 1;
}

static struct merge *merge_slot(const struct tokenizer *t, int32_t left, int32_t right) {
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    for (size_t slot = (size_t)(key >> 32) & t->merge_mask;; slot = (slot + 1) & t->merge_mask) {
        struct merge *merge = &t->merges[slot];
        if (merge->left < 0 || (merge->left == left && merge->right == right)) return merge;
    }
}

/* ----------------------------------------------------- reading: names and steps */

/* "'X' is not supported; A, B and others are", for the type of a part. */
static enum ps_status not_supported(const struct json_place *place, const char *type, const char *names,
                                    struct ps_error *error) {
    return json_error(place, error, "type '%.60s' is not supported; supported are %s", type, names);
}

static const char *keep(struct tokenizer *t, const char *text) { return arena_copy(&t->arena, text, strlen(text) + 1, 1); }

static enum ps_status add_step(struct tokenizer *t, int part, const struct json_place *place, struct text_step step,
                               struct ps_error *error) {
    if (t->step_count[part] == STEPS_MAX) {
        text_pattern_destroy(step.pattern);
        return json_error(place, error, "more than %d steps", STEPS_MAX);
    }
    t->steps[part][t->step_count[part]++] = step;
    return PS_OK;
}

static enum ps_status make_pattern(const struct json_place *place, const char *expression, bool literal,
                                   struct text_pattern **pattern, struct ps_error *error) {
    enum ps_status status = text_pattern_create(expression, literal, pattern, error);
    if (status != PS_OK) error_prefix(error, "%s", place->path);
    return status;
}

static enum ps_status add_split(struct tokenizer *t, const struct json_place *place, const char *expression, bool literal,
                                enum text_behavior behavior, bool inverted, struct ps_error *error) {
    struct text_step step = {.kind = TEXT_SPLIT, .behavior = behavior, .inverted = inverted};
    TRY(make_pattern(place, expression, literal, &step.pattern, error));
    return add_step(t, 1, place, step, error);
}

static enum ps_status read_behavior(const struct json_place *place, enum text_behavior *behavior, struct ps_error *error) {
    static const char *const names[] = {[SPLIT_REMOVED] = "Removed",
                                        [SPLIT_ISOLATED] = "Isolated",
                                        [SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
                                        [SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
                                        [SPLIT_CONTIGUOUS] = "Contiguous"};
    const char *name = names[*behavior];
    TRY(json_get_string(place, "behavior", false, &name, error));
    for (int b = 0; b < 5; b++) {
        if (strcmp(name, names[b]) != 0) continue;
        *behavior = (enum text_behavior)b;
        return PS_OK;
    }
    return json_error(place, error, "behavior '%.40s' is not known", name);
}

/* {"pattern": {"String": TEXT} or {"Regex": EXPRESSION}} */
static enum ps_status read_pattern(const struct json_place *place, struct text_pattern **pattern, struct ps_error *error) {
    struct json_place field;
    const char *text = NULL;
    TRY(json_field(place, "pattern", true, &field, error));
    if (!json_is_object(field.value)) return json_error(&field, error, "must be an object with 'String' or 'Regex'");
    const bool literal = json_object_get(field.value, "String") != NULL;
    TRY(json_get_string(&field, literal ? "String" : "Regex", true, &text, error));
    return make_pattern(&field, text, literal, pattern, error);
}

/* `part` 0: of normalisation, 1: of splitting. */
static enum ps_status read_replace(struct tokenizer *t, int part, const struct json_place *place, struct text_step *step,
                                   struct ps_error *error) {
    (void)part;
    const char *content = "";
    TRY(json_get_string(place, "content", true, &content, error));
    *step = (struct text_step){.kind = TEXT_REPLACE, .text = keep(t, content)};
    return read_pattern(place, &step->pattern, error);
}

static enum ps_status read_normalizer(struct tokenizer *t, const struct json_place *place, int depth, struct ps_error *error);
static enum ps_status read_pretokenizer(struct tokenizer *t, const struct json_place *place, int depth, struct ps_error *error);

typedef enum ps_status read_part(struct tokenizer *t, const struct json_place *place, int depth, struct ps_error *error);

static enum ps_status read_sequence(struct tokenizer *t, const struct json_place *place, const char *field, read_part *read,
                                    int depth, struct ps_error *error) {
    struct json_place list, item;
    size_t length;
    if (depth == NESTING_MAX) return json_error(place, error, "more than %d sequences within one another", NESTING_MAX);
    TRY(json_field(place, field, true, &list, error));
    TRY(json_array_length(&list, &length, error));
    for (size_t i = 0; i < length; i++) {
        TRY(json_item(&list, i, &item, error));
        TRY(read(t, &item, depth + 1, error));
    }
    return PS_OK;
}

/* BERT's steps; accents are stripped where nothing is said and letters become small. */
static enum ps_status read_bert_normalizer(struct tokenizer *t, const struct json_place *place, struct ps_error *error) {
    bool clean = true, chinese = true, lower = true;
    TRY(json_get_bool(place, "clean_text", false, &clean, error));
    TRY(json_get_bool(place, "handle_chinese_chars", false, &chinese, error));
    TRY(json_get_bool(place, "lowercase", false, &lower, error));
    bool accents = lower;
    TRY(json_get_bool(place, "strip_accents", false, &accents, error));
    if (clean) TRY(add_step(t, 0, place, (struct text_step){.kind = TEXT_CLEAN}, error));
    if (chinese) TRY(add_step(t, 0, place, (struct text_step){.kind = TEXT_SEPARATE_CHINESE}, error));
    if (accents) TRY(add_step(t, 0, place, (struct text_step){.kind = TEXT_NFD}, error));
    if (accents) TRY(add_step(t, 0, place, (struct text_step){.kind = TEXT_DROP_ACCENTS}, error));
    return lower ? add_step(t, 0, place, (struct text_step){.kind = TEXT_LOWER}, error) : PS_OK;
}

static enum ps_status read_normalizer(struct tokenizer *t, const struct json_place *place, int depth, struct ps_error *error) {
    static const struct {
        const char *type;
        enum text_step_kind kind;
    } plain[] = {{"NFC", TEXT_NFC},     {"NFD", TEXT_NFD},         {"NFKC", TEXT_NFKC},
                 {"NFKD", TEXT_NFKD},   {"Lowercase", TEXT_LOWER}, {"StripAccents", TEXT_DROP_MARKS},
                 {"Strip", TEXT_STRIP}, {"Prepend", TEXT_PREPEND}, {"Replace", TEXT_REPLACE}};
    const char *type, *text = "";
    TRY(json_get_string(place, "type", true, &type, error));
    if (strcmp(type, "Sequence") == 0) return read_sequence(t, place, "normalizers", read_normalizer, depth, error);
    if (strcmp(type, "BertNormalizer") == 0) return read_bert_normalizer(t, place, error);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strcmp(type, plain[i].type) != 0) continue;
        struct text_step step = {.kind = plain[i].kind, .left = true, .right = true};
        TRY(json_get_bool(place, "strip_left", false, &step.left, error));
        TRY(json_get_bool(place, "strip_right", false, &step.right, error));
        if (step.kind == TEXT_PREPEND) TRY(json_get_string(place, "prepend", true, &text, error));
        step.text = keep(t, text);
        if (step.kind == TEXT_REPLACE) TRY(read_replace(t, 0, place, &step, error));
        return add_step(t, 0, place, step, error);
    }
    return not_supported(place, type,
                         "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, BertNormalizer "
                         "and Sequence",
                         error);
}

static enum ps_status read_byte_level(struct tokenizer *t, const struct json_place *place, struct ps_error *error) {
    static const char gpt2[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
    bool blank = true, split = true;
    TRY(json_get_bool(place, "add_prefix_space", false, &blank, error));
    TRY(json_get_bool(place, "use_regex", false, &split, error));
    if (blank) TRY(add_step(t, 1, place, (struct text_step){.kind = TEXT_PREPEND_IF_MISSING, .text = " "}, error));
    if (split) TRY(add_split(t, place, gpt2, false, SPLIT_ISOLATED, false, error));
    return add_step(t, 1, place, (struct text_step){.kind = TEXT_BYTES}, error);
}

/* The mark for blanks, and whether it is put before a text: "always", "first" or "never". */
static enum ps_status read_metaspace(const struct json_place *place, const char **mark, const char **scheme,
                                     struct ps_error *error) {
    bool always = true;
    *mark = blank_mark;
    TRY(json_get_bool(place, "add_prefix_space", false, &always, error));
    *scheme = always ? "always" : "never";
    TRY(json_get_string(place, "replacement", false, mark, error));
    TRY(json_get_string(place, "prepend_scheme", false, scheme, error));
    if (strcmp(*scheme, "always") == 0 || strcmp(*scheme, "first") == 0 || strcmp(*scheme, "never") == 0) return PS_OK;
    return json_error(place, error, "prepend_scheme '%.40s' is not known", *scheme);
}

static enum ps_status add_metaspace(struct tokenizer *t, const struct json_place *place, struct ps_error *error) {
    const char *mark, *scheme;
    bool split = true;
    TRY(read_metaspace(place, &mark, &scheme, error));
    TRY(json_get_bool(place, "split", false, &split, error));
    struct text_step step = {.kind = TEXT_REPLACE, .text = keep(t, mark)};
    TRY(make_pattern(place, " ", true, &step.pattern, error));
    TRY(add_step(t, 1, place, step, error));
    if (*scheme != 'n')
        TRY(add_step(t, 1, place,
                     (struct text_step){.kind = TEXT_PREPEND_IF_MISSING, .text = keep(t, mark), .first_only = *scheme == 'f'},
                     error));
    return split ? add_split(t, place, mark, true, SPLIT_MERGED_WITH_NEXT, false, error) : PS_OK;
}

#define RUST_WORD TEXT_WORD "\\x{200c}\\x{200d}" /* \w of Rust's regular expressions also has the joiners */
#define PUNCTUATION "[\\p{P}$+<=>^`|~]"

static enum ps_status read_pretokenizer(struct tokenizer *t, const struct json_place *place, int depth,
                                        struct ps_error *error) {
    const char *type, *text = NULL;
    enum text_behavior behavior = SPLIT_ISOLATED;
    bool flag = false;
    TRY(json_get_string(place, "type", true, &type, error));
    if (strcmp(type, "Sequence") == 0) return read_sequence(t, place, "pretokenizers", read_pretokenizer, depth, error);
    if (strcmp(type, "ByteLevel") == 0) return read_byte_level(t, place, error);
    if (strcmp(type, "Metaspace") == 0) return add_metaspace(t, place, error);
    if (strcmp(type, "Split") == 0) {
        struct text_step step = {.kind = TEXT_SPLIT, .behavior = SPLIT_ISOLATED};
        TRY(read_behavior(place, &step.behavior, error));
        TRY(json_get_bool(place, "invert", false, &step.inverted, error));
        TRY(read_pattern(place, &step.pattern, error));
        return add_step(t, 1, place, step, error);
    }
    if (strcmp(type, "Whitespace") == 0)
        return add_split(t, place, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", false, SPLIT_REMOVED, true, error);
    if (strcmp(type, "WhitespaceSplit") == 0) return add_split(t, place, "\\s", false, SPLIT_REMOVED, false, error);
    if (strcmp(type, "BertPreTokenizer") == 0) {
        TRY(add_split(t, place, "\\s", false, SPLIT_REMOVED, false, error));
        return add_split(t, place, PUNCTUATION, false, SPLIT_ISOLATED, false, error);
    }
    if (strcmp(type, "Punctuation") == 0) {
        TRY(read_behavior(place, &behavior, error));
        return add_split(t, place, PUNCTUATION, false, behavior, false, error);
    }
    if (strcmp(type, "Digits") == 0) {
        TRY(json_get_bool(place, "individual_digits", false, &flag, error));
        return add_split(t, place, "\\p{N}", false, flag ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS, false, error);
    }
    if (strcmp(type, "CharDelimiterSplit") == 0) {
        TRY(json_get_string(place, "delimiter", true, &text, error));
        return add_split(t, place, text, true, SPLIT_REMOVED, false, error);
    }
    return not_supported(place, type,
                         "ByteLevel, Split, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, Punctuation, "
                         "Digits, CharDelimiterSplit and Sequence",
                         error);
}

static enum ps_status read_decoder(struct tokenizer *t, const struct json_place *place, int depth, struct ps_error *error) {
    static const char *const types[] = {
        [DECODE_BYTES] = "ByteLevel",       [DECODE_METASPACE] = "Metaspace", [DECODE_REPLACE] = "Replace",
        [DECODE_FALLBACK] = "ByteFallback", [DECODE_FUSE] = "Fuse",           [DECODE_STRIP] = "Strip",
        [DECODE_WORD_PIECE] = "WordPiece",  [DECODE_SUFFIX] = "BPEDecoder"};
    const char *type, *text = "", *scheme;
    struct decode_step step = {.flag = true};
    int kind = 0;
    TRY(json_get_string(place, "type", true, &type, error));
    if (strcmp(type, "Sequence") == 0) return read_sequence(t, place, "decoders", read_decoder, depth, error);
    while (kind < 8 && strcmp(type, types[kind]) != 0) kind++;
    if (kind == 8)
        return not_supported(place, type,
                             "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, WordPiece, BPEDecoder and "
                             "Sequence",
                             error);
    step.kind = (enum decoding)kind;
    if (t->decoder_count == STEPS_MAX) return json_error(place, error, "more than %d steps", STEPS_MAX);
    if (step.kind == DECODE_METASPACE) {
        TRY(read_metaspace(place, &text, &scheme, error));
        step.flag = *scheme != 'n';
    }
    if (step.kind == DECODE_STRIP) {
        TRY(json_get_string(place, "content", true, &text, error));
        TRY(json_get_int(place, "start", true, 0, INT_MAX, &step.start, error));
        TRY(json_get_int(place, "stop", true, 0, INT_MAX, &step.stop, error));
    }
    if (step.kind == DECODE_WORD_PIECE) {
        TRY(json_get_string(place, "prefix", true, &text, error));
        TRY(json_get_bool(place, "cleanup", false, &step.flag, error));
    }
    if (step.kind == DECODE_SUFFIX) TRY(json_get_string(place, "suffix", true, &text, error));
    if (step.kind == DECODE_REPLACE) TRY(read_replace(t, 0, place, &step.replace, error));
    step.text = keep(t, text);
    t->decoders[t->decoder_count++] = step;
    return PS_OK;
}

/* ----------------------------------------------------- reading: the template */

static enum ps_status add_item(struct tokenizer *t, const struct json_place *place, bool pair, struct template_item item,
                               struct ps_error *error) {
    if (t->template_count[pair] == TEMPLATE_MAX) return json_error(place, error, "more than %d items", TEMPLATE_MAX);
    if (item.text < 0 && (item.number < 0 || item.number >= t->size))
        return json_error(place, error, "has a special token with the number %d, which no token has", (int)item.number);
    t->templates[pair][t->template_count[pair]++] = item;
    return PS_OK;
}

/* {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "[CLS]", "type_id": 0}}, the latter with all its numbers.
 */
static enum ps_status read_item(struct tokenizer *t, const struct json_place *place, const json_t *specials, bool pair,
                                struct ps_error *error) {
    struct json_place sequence, special;
    const char *id = NULL;
    int segment = 0;
    TRY(json_field(place, "Sequence", false, &sequence, error));
    TRY(json_field(place, "SpecialToken", !sequence.value, &special, error));
    const struct json_place *item = sequence.value ? &sequence : &special;
    TRY(json_get_string(item, "id", true, &id, error));
    TRY(json_get_int(item, "type_id", false, 0, INT_MAX, &segment, error));
    if (sequence.value) {
        const int text = strcmp(id, "A") == 0 ? 0 : pair && strcmp(id, "B") == 0 ? 1 : -1;
        if (text < 0) return json_error(item, error, "there is no text '%.20s' here", id);
        return add_item(t, item, pair, (struct template_item){text, 0, segment}, error);
    }
    const json_t *numbers = json_object_get(json_object_get(specials, id), "ids");
    if (json_array_size(numbers) == 0) return json_error(item, error, "'%.60s' is none of special_tokens", id);
    for (size_t i = 0; i < json_array_size(numbers); i++)
        TRY(add_item(t, item, pair,
                     (struct template_item){-1, (int32_t)json_integer_value(json_array_get(numbers, i)), segment}, error));
    return PS_OK;
}

static enum ps_status read_template(struct tokenizer *t, const struct json_place *place, struct ps_error *error) {
    static const char *const names[] = {"single", "pair"};
    struct json_place list, item;
    size_t length;
    for (int pair = 0; pair < 2; pair++) {
        TRY(json_field(place, names[pair], true, &list, error));
        TRY(json_array_length(&list, &length, error));
        for (size_t i = 0; i < length; i++) {
            TRY(json_item(&list, i, &item, error));
            TRY(read_item(t, &item, json_object_get(place->value, "special_tokens"), pair, error));
        }
    }
    return PS_OK;
}

/* BertProcessing: cls A sep B sep; RobertaProcessing: cls A sep sep B sep, all of one segment. */
static enum ps_status read_bert_template(struct tokenizer *t, const struct json_place *place, bool roberta,
                                         struct ps_error *error) {
    static const char *const names[] = {"cls", "sep"};
    struct template_item mark[2] = {{.text = -1}, {.text = -1}};
    for (int n = 0; n < 2; n++) {
        const json_t *number = json_array_get(json_object_get(place->value, names[n]), 1);
        mark[n].number = json_is_integer(number) ? (int32_t)json_integer_value(number) : -1;
    }
    for (int pair = 0; pair < 2; pair++) {
        const struct template_item first[] = {mark[0], {0, 0, 0}, mark[1]};
        for (int i = 0; i < 3; i++) TRY(add_item(t, place, pair, first[i], error));
        const int segment = roberta ? 0 : 1;
        if (pair && roberta) TRY(add_item(t, place, true, mark[1], error));
        if (pair) TRY(add_item(t, place, true, (struct template_item){1, 0, segment}, error));
        if (pair) TRY(add_item(t, place, true, (struct template_item){-1, mark[1].number, segment}, error));
    }
    return PS_OK;
}

static enum ps_status read_processor(struct tokenizer *t, const struct json_place *place, int depth, struct ps_error *error) {
    const char *type;
    TRY(json_get_string(place, "type", true, &type, error));
    if (strcmp(type, "Sequence") == 0) return read_sequence(t, place, "processors", read_processor, depth, error);
    if (strcmp(type, "ByteLevel") == 0) return PS_OK; /* only about where tokens stand */
    if (t->template_count[0] > 0) return json_error(place, error, "a second template");
    if (strcmp(type, "TemplateProcessing") == 0) return read_template(t, place, error);
    const bool roberta = strcmp(type, "RobertaProcessing") == 0;
    if (roberta || strcmp(type, "BertProcessing") == 0) return read_bert_template(t, place, roberta, error);
    return not_supported(place, type, "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence", error);
}

static enum ps_status read_padding(struct tokenizer *t, const struct json_place *root, struct ps_error *error) {
    static const char *const names[] = {"[PAD]", "<pad>", "<|pad|>", "<|endoftext|>"};
    struct json_place padding;
    t->padding = -1;
    TRY(json_field(root, "padding", false, &padding, error));
    if (padding.value) TRY(json_get_int(&padding, "pad_id", true, 0, t->size - 1, &t->padding, error));
    for (int n = 0; n < 4 && t->padding < 0; n++) t->padding = tokenizer_find(t, names[n]);
    for (int pair = 0; pair < 2; pair++) {
        const bool none = t->template_count[pair] == 0; /* the texts alone */
        for (int text = 0; none && text <= pair; text++)
            TRY(add_item(t, root, pair, (struct template_item){text, 0, text}, error));
    }
    return PS_OK;
}

int tokenizer_template(const struct tokenizer *t, bool pair, const struct template_item **items) {
    *items = t->templates[pair];
    return t->template_count[pair];
}

int tokenizer_padding(const struct tokenizer *t) { return t->padding; }

/* --------------------------------------------------------- reading: the model */

/* Numbers may have gaps, but no larger ones than a real vocabulary has. */
static enum ps_status check_number(const struct json_place *place, const char *token, const json_t *value, size_t tokens,
                                   struct ps_error *error) {
    const json_int_t most = (json_int_t)(2 * tokens + 65536);
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= most) return PS_OK;
    return json_error(place, error, "token '%.60s': its number must be an integer from 0 to %lld", token, (long long)most);
}

/* Makes room for the tokens of the model and the added ones, and enters the model's. */
static enum ps_status read_tokens(struct tokenizer *t, const struct json_place *vocab, const json_t *added,
                                  struct ps_error *error) {
    const char *token;
    json_t *value;
    size_t i;
    if (!json_is_object(vocab->value)) return json_error(vocab, error, "must be an object of tokens and their numbers");
    const size_t count = json_object_size(vocab->value), all = count + json_array_size(added);
    json_object_foreach(vocab->value, token, value) {
        TRY(check_number(vocab, token, value, all, error));
        if (json_integer_value(value) >= t->size) t->size = (int)json_integer_value(value) + 1;
    }
    json_array_foreach(added, i, value) {
        TRY(check_number(vocab, "of added_tokens", json_object_get(value, "id"), all, error));
        const json_int_t number = json_integer_value(json_object_get(value, "id"));
        if (number >= t->size) t->size = (int)number + 1;
    }
    if (t->size < 2) return json_error(vocab, error, "has no tokens");
    const size_t slots = table_size(count);
    t->tokens = arena_take(&t->arena, (size_t)t->size, sizeof *t->tokens);
    t->slots = arena_take(&t->arena, slots, sizeof *t->slots);
    t->slot_mask = slots - 1;
    TRY(arena_check(&t->arena, "a tokenizer", error));
    json_object_foreach(vocab->value, token, value) {
        const int number = (int)json_integer_value(value);
        const size_t length = strlen(token);
        const char *text = arena_copy(&t->arena, token, length + 1, 1);
        TRY(arena_check(&t->arena, "a tokenizer", error));
        if (t->tokens[number].text)
            return json_error(vocab, error, "tokens '%.60s' and '%.60s' have the same number %d", t->tokens[number].text, token,
                              number);
        t->tokens[number] = (struct token){text, length, false};
        t->slots[token_slot(t, token, length)] = number + 1;
    }
    return PS_OK;
}

/* The halves of a merge, "a b" or ["a", "b"]; the first may not be terminated. */
static bool halves(const json_t *item, const char *half[2], size_t length[2]) {
    if (json_is_array(item) && json_array_size(item) == 2) {
        for (size_t h = 0; h < 2; h++) {
            half[h] = json_string_value(json_array_get(item, h));
            if (!half[h]) return false;
            length[h] = json_string_length(json_array_get(item, h));
        }
        return true;
    }
    half[0] = json_string_value(item);
    const char *blank = half[0] ? strchr(half[0], ' ') : NULL;
    if (!blank || strchr(blank + 1, ' ')) return false;
    half[1] = blank + 1;
    length[0] = (size_t)(blank - half[0]);
    length[1] = strlen(half[1]);
    return true;
}

static enum ps_status read_merges(struct tokenizer *t, const struct json_place *merges, struct ps_error *error) {
    size_t count, i;
    json_t *item;
    TRY(json_array_length(merges, &count, error));
    if (count >= INT_MAX) return json_error(merges, error, "too many");
    const size_t slots = table_size(count);
    t->merges = arena_take(&t->arena, slots, sizeof *t->merges);
    TRY(arena_check(&t->arena, "a tokenizer", error));
    t->merge_mask = slots - 1;
    for (i = 0; i < slots; i++) t->merges[i].left = -1;
    struct text joined = {0};
    enum ps_status status = PS_OK;
    json_array_foreach(merges->value, i, item) {
        const char *half[2];
        size_t length[2];
        if (!halves(item, half, length) || length[1] < t->prefix_length) {
            status = json_error(merges, error, "item %zu must be two tokens, \"a b\" or [\"a\", \"b\"]", i);
            break;
        }
        joined.length = 0;
        text_add_raw(&joined, half[0], length[0]);
        text_add_raw(&joined, half[1] + t->prefix_length, length[1] - t->prefix_length);
        if (joined.failed) {
            status = error_memory(error, "a token", length[0] + length[1]);
            break;
        }
        const int left = find_token(t, half[0], length[0]), right = find_token(t, half[1], length[1]);
        const int number = find_token(t, joined.data, joined.length);
        if (left < 0 || right < 0 || number < 0) {
            status = json_error(merges, error, "item %zu: '%.60s' is no token of the vocabulary", i,
                                left < 0    ? half[0]
                                : right < 0 ? half[1]
                                            : joined.data);
            break;
        }
        *merge_slot(t, left, right) = (struct merge){left, right, (int32_t)i, number};
    }
    text_free(&joined);
    return status;
}

/* Whether no token has U+2581 behind another character: then no pair is joined across the beginning of a word. */
static bool cuts_at_blanks(const struct tokenizer *t) {
    const size_t size = sizeof blank_mark - 1;
    for (int n = 0; n < t->size; n++) {
        const char *text = t->tokens[n].text;
        while (text && strncmp(text, blank_mark, size) == 0) text += size;
        if (text && strstr(text, blank_mark)) return false;
    }
    return find_token(t, blank_mark, size) >= 0 && t->prefix_length == 0 && t->suffix_length == 0;
}

static enum ps_status read_byte_pairs(struct tokenizer *t, const struct json_place *model, struct ps_error *error) {
    struct json_place merges;
    double dropout = 0;
    char name[16];
    TRY(json_get_number(model, "dropout", false, 0, 1, &dropout, error));
    if (dropout > 0) return json_error(model, error, "dropout %g is not supported, only 0", dropout);
    TRY(json_get_bool(model, "byte_fallback", false, &t->byte_fallback, error));
    TRY(json_get_bool(model, "fuse_unk", false, &t->fuse_unknown, error));
    TRY(json_get_bool(model, "ignore_merges", false, &t->whole_words, error));
    TRY(json_field(model, "merges", true, &merges, error));
    TRY(read_merges(t, &merges, error));
    for (int b = 0; b < 256; b++) {
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        t->bytes[b] = find_token(t, name, strlen(name));
    }
    t->cuts_at_blanks = cuts_at_blanks(t);
    return PS_OK;
}

static enum ps_status read_model(struct tokenizer *t, const struct json_place *root, const json_t *added,
                                 struct ps_error *error) {
    struct json_place model, vocab;
    const char *type = "BPE", *unknown = NULL;
    TRY(json_field(root, "model", true, &model, error));
    if (!json_is_object(model.value)) return json_error(&model, error, "must be an object");
    TRY(json_get_string(&model, "type", false, &type, error));
    t->word_piece = strcmp(type, "WordPiece") == 0;
    if (!t->word_piece && strcmp(type, "BPE") != 0) return not_supported(&model, type, "BPE and WordPiece", error);
    t->prefix = t->word_piece ? "##" : "";
    t->suffix = "";
    TRY(json_get_string(&model, "continuing_subword_prefix", false, &t->prefix, error));
    TRY(json_get_string(&model, "end_of_word_suffix", false, &t->suffix, error));
    t->prefix = keep(t, t->prefix);
    t->suffix = keep(t, t->suffix);
    TRY(arena_check(&t->arena, "a tokenizer", error));
    t->prefix_length = strlen(t->prefix);
    t->suffix_length = strlen(t->suffix);
    TRY(json_field(&model, "vocab", true, &vocab, error));
    TRY(read_tokens(t, &vocab, added, error));
    t->unknown = -1;
    t->longest = 100;
    TRY(json_get_string(&model, "unk_token", t->word_piece, &unknown, error));
    if (unknown) t->unknown = find_token(t, unknown, strlen(unknown));
    if (unknown && t->unknown < 0) return json_error(&model, error, "unk_token '%.60s' is no token of the vocabulary", unknown);
    TRY(json_get_int(&model, "max_input_chars_per_word", false, 1, 100000, &t->longest, error));
    return t->word_piece ? PS_OK : read_byte_pairs(t, &model, error);
}

/* ------------------------------------------------- reading: added tokens, all */

static enum ps_status run_changes(struct tokenizer *t, const char **text, size_t *length, bool first, struct ps_error *error) {
    for (int s = 0; s < t->step_count[0]; s++) {
        struct text *buffer = &t->buffers[0][s];
        buffer->length = 0;
        TRY(text_step_change(&t->steps[0][s], *text, *length, first, buffer, error));
        *text = buffer->data ? buffer->data : "";
        *length = buffer->length;
    }
    return PS_OK;
}

static enum ps_status read_added(struct tokenizer *t, const struct json_place *list, struct ps_error *error) {
    const size_t count = json_array_size(list->value);
    t->added = arena_take(&t->arena, count, sizeof *t->added);
    TRY(arena_check(&t->arena, "a tokenizer", error));
    for (size_t i = 0; i < count; i++) {
        struct json_place item;
        struct added_token token = {0};
        const char *content;
        bool special = false;
        TRY(json_item(list, i, &item, error));
        TRY(json_get_string(&item, "content", true, &content, error));
        TRY(json_get_int(&item, "id", true, 0, t->size - 1, &token.number, error));
        token.normalized = true;
        TRY(json_get_bool(&item, "special", false, &special, error));
        token.normalized = !special;
        TRY(json_get_bool(&item, "normalized", false, &token.normalized, error));
        TRY(json_get_bool(&item, "single_word", false, &token.single_word, error));
        TRY(json_get_bool(&item, "lstrip", false, &token.left, error));
        TRY(json_get_bool(&item, "rstrip", false, &token.right, error));
        const char *text = content;
        token.length = strlen(content);
        struct token *named = &t->tokens[token.number];
        if (named->text && strcmp(named->text, content) != 0)
            return json_error(&item, error, "tokens '%.60s' and '%.60s' have the same number %d", named->text, content,
                              token.number);
        if (!named->text) *named = (struct token){keep(t, content), token.length, false};
        named->special = special;
        if (token.normalized) TRY(run_changes(t, &text, &token.length, true, error));
        token.text = arena_copy(&t->arena, text, token.length + 1, 1);
        TRY(arena_check(&t->arena, "a tokenizer", error));
        if (token.length == 0) continue;
        t->begins[token.normalized][(unsigned char)*token.text] = true;
        t->added[t->added_count++] = token;
    }
    return PS_OK;
}

/* Fields that are null are as if they were missing. */
static void remove_nulls(json_t *value, int depth) {
    const char *key;
    json_t *item;
    void *next;
    size_t i;
    if (depth > 2 * NESTING_MAX) return;
    json_object_foreach_safe(value, next, key, item) {
        if (json_is_null(item))
            json_object_del(value, key);
        else
            remove_nulls(item, depth + 1);
    }
    if (!json_is_object(json_array_get(value, 0))) return;
    json_array_foreach(value, i, item) remove_nulls(item, depth + 1);
}

static enum ps_status read_optional(struct tokenizer *t, const struct json_place *root, const char *name, read_part *read,
                                    struct ps_error *error) {
    struct json_place part;
    TRY(json_field(root, name, false, &part, error));
    return part.value ? read(t, &part, 0, error) : PS_OK;
}

static enum ps_status read_all(struct tokenizer *t, const struct json_place *root, struct ps_error *error) {
    struct json_place added;
    size_t count = 0;
    TRY(json_field(root, "added_tokens", false, &added, error));
    if (added.value) TRY(json_array_length(&added, &count, error));
    TRY(read_model(t, root, added.value, error));
    TRY(read_optional(t, root, "normalizer", read_normalizer, error));
    TRY(read_optional(t, root, "pre_tokenizer", read_pretokenizer, error));
    TRY(read_optional(t, root, "decoder", read_decoder, error));
    TRY(read_optional(t, root, "post_processor", read_processor, error));
    if (added.value) TRY(read_added(t, &added, error));
    TRY(read_padding(t, root, error));
    return PS_OK;
}

enum ps_status tokenizer_create(const char *json, size_t size, const char *name, struct tokenizer **tokenizer,
                                struct ps_error *error) {
    struct tokenizer *t;
    json_t *document;
    TRY(json_parse(json, size, name, NULL, &document, error));
    enum ps_status status = memory_new(&t, 1, "a tokenizer", error);
    if (status != PS_OK) {
        json_decref(document);
        return status;
    }
    pthread_mutex_init(&t->lock, NULL);
    const struct json_place root = json_root(document, name);
    if (!json_is_object(document)) status = json_error(&root, error, "must be an object");
    remove_nulls(document, 0);
    if (status == PS_OK) status = read_all(t, &root, error);
    json_decref(document);
    t->json = arena_take(&t->arena, size + 1, 1);
    if (t->json) memcpy(t->json, json, size);
    if (status == PS_OK) status = arena_check(&t->arena, "a tokenizer", error);
    if (status == PS_OK)
        *tokenizer = t;
    else
        tokenizer_destroy(t);
    return status;
}

void tokenizer_destroy(struct tokenizer *t) {
    if (!t) return;
    for (int part = 0; part < 2; part++) {
        for (int s = 0; s < STEPS_MAX; s++) {
            text_pattern_destroy(t->steps[part][s].pattern);
            text_free(&t->buffers[part][s]);
        }
    }
    for (int d = 0; d < t->decoder_count; d++) text_pattern_destroy(t->decoders[d].replace.pattern);
    text_free(&t->letters);
    free(t->numbers.tokens);
    free(t->cache);
    free(t->symbols);
    free(t->before);
    free(t->after);
    free(t->heap);
    pthread_mutex_destroy(&t->lock);
    arena_release(&t->arena);
    free(t);
}

const char *tokenizer_json(const struct tokenizer *t) { return t->json; }

int tokenizer_size(const struct tokenizer *t) { return t->size; }

const char *tokenizer_token(const struct tokenizer *t, int number) {
    return t->tokens[number].text ? t->tokens[number].text : "";
}

int tokenizer_find(const struct tokenizer *t, const char *token) {
    for (int n = 0; n < t->size; n++)
        if (t->tokens[n].text && strcmp(t->tokens[n].text, token) == 0) return n;
    return -1;
}

/* --------------------------------------------------------- from text to numbers */

enum ps_status token_list_add(struct token_list *list, int32_t number, struct ps_error *error) {
    TRY(memory_grow(&list->tokens, &list->capacity, list->count + 1, "tokens", error));
    list->tokens[list->count++] = number;
    return PS_OK;
}

static enum ps_status add_symbol(struct tokenizer *t, int64_t *count, int32_t number, struct ps_error *error) {
    const size_t needed = (size_t)*count + 1;
    TRY(memory_grow(&t->symbols, &t->symbol_capacity, needed, "a word", error));
    TRY(memory_grow(&t->before, &t->before_capacity, needed, "a word", error));
    TRY(memory_grow(&t->after, &t->after_capacity, needed, "a word", error));
    t->symbols[*count] = number;
    t->before[*count] = *count - 1;
    t->after[*count] = *count + 1;
    ++*count;
    return PS_OK;
}

/* The characters of a word as symbols. */
static enum ps_status make_symbols(struct tokenizer *t, const char *word, size_t length, int64_t *count,
                                   struct ps_error *error) {
    bool unknown = false; /* one is to be added */
    struct text symbol = {0};
    enum ps_status status = PS_OK;
    *count = 0;
    for (size_t i = 0; i < length && status == PS_OK;) {
        int32_t c;
        const size_t size = text_character(word + i, length - i, &c);
        const char *text = word + i;
        size_t used = size;
        const bool prefixed = i > 0 && t->prefix_length > 0, suffixed = i + size == length && t->suffix_length > 0;
        if (prefixed || suffixed) {
            symbol.length = 0;
            if (prefixed) text_add_raw(&symbol, t->prefix, t->prefix_length);
            text_add_raw(&symbol, text, size);
            if (suffixed) text_add_raw(&symbol, t->suffix, t->suffix_length);
            if (symbol.failed) {
                status = error_memory(error, "a word", length);
                break;
            }
            text = symbol.data;
            used = symbol.length;
        }
        i += size;
        const int number = find_token(t, text, used);
        bool bytes = number < 0 && t->byte_fallback;
        for (size_t b = 0; b < used && bytes; b++) bytes = t->bytes[(unsigned char)text[b]] >= 0;
        if (number >= 0) {
            if (unknown) status = add_symbol(t, count, t->unknown, error);
            unknown = false;
            if (status == PS_OK) status = add_symbol(t, count, number, error);
        } else if (bytes) {
            for (size_t b = 0; b < used && status == PS_OK; b++)
                status = add_symbol(t, count, t->bytes[(unsigned char)text[b]], error);
        } else if (t->unknown >= 0) {
            if (unknown && !t->fuse_unknown) status = add_symbol(t, count, t->unknown, error);
            unknown = true;
        }
    }
    if (unknown && status == PS_OK) status = add_symbol(t, count, t->unknown, error);
    text_free(&symbol);
    if (*count > 0) t->after[*count - 1] = -1;
    return status;
}

static bool precedes(const struct candidate *a, const struct candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Enters the pair that begins at symbol `at`, if it has a rank. */
static enum ps_status push(struct tokenizer *t, int64_t at, struct ps_error *error) {
    if (at < 0 || t->after[at] < 0) return PS_OK;
    const struct merge *merge = merge_slot(t, t->symbols[at], t->symbols[t->after[at]]);
    if (merge->left < 0) return PS_OK;
    TRY(memory_grow(&t->heap, &t->heap_capacity, t->heap_count + 1, "a word", error));
    const struct candidate candidate = {merge->rank, merge->number, at};
    size_t place = t->heap_count++;
    for (; place > 0 && precedes(&candidate, &t->heap[(place - 1) / 2]); place = (place - 1) / 2)
        t->heap[place] = t->heap[(place - 1) / 2];
    t->heap[place] = candidate;
    return PS_OK;
}

static struct candidate pop(struct tokenizer *t) {
    const struct candidate top = t->heap[0], last = t->heap[--t->heap_count];
    size_t place = 0;
    for (size_t child; (child = 2 * place + 1) < t->heap_count; place = child) {
        if (child + 1 < t->heap_count && precedes(&t->heap[child + 1], &t->heap[child])) child++;
        if (!precedes(&t->heap[child], &last)) break;
        t->heap[place] = t->heap[child];
    }
    t->heap[place] = last;
    return top;
}

static enum ps_status join_pairs(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                 struct ps_error *error) {
    int64_t count;
    const int whole = t->whole_words ? find_token(t, word, length) : -1;
    if (whole >= 0) return token_list_add(list, whole, error);
    TRY(make_symbols(t, word, length, &count, error));
    t->heap_count = 0;
    for (int64_t i = 0; i + 1 < count; i++) TRY(push(t, i, error));
    while (t->heap_count > 0) {
        const struct candidate top = pop(t);
        const int64_t right = t->symbols[top.at] < 0 ? -1 : t->after[top.at];
        if (right < 0) continue;
        const struct merge *merge = merge_slot(t, t->symbols[top.at], t->symbols[right]);
        if (merge->left < 0 || merge->number != top.number) continue; /* one of the two was joined before */
        t->symbols[top.at] = top.number;
        t->symbols[right] = -1;
        t->after[top.at] = t->after[right];
        if (t->after[right] >= 0) t->before[t->after[right]] = top.at;
        TRY(push(t, t->before[top.at], error));
        TRY(push(t, top.at, error));
    }
    for (int64_t i = 0; i < count; i++)
        if (t->symbols[i] >= 0) TRY(token_list_add(list, t->symbols[i], error));
    return PS_OK;
}

/* The longest token at each place; a word with a rest that is none is unknown. */
static enum ps_status find_pieces(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                  struct ps_error *error) {
    const size_t before = list->count;
    struct text piece = {0};
    enum ps_status status = PS_OK;
    int characters = 0;
    for (size_t i = 0; i < length; i++) characters += ((unsigned char)word[i] & 0xc0) != 0x80;
    bool known = characters <= t->longest;
    for (size_t start = 0; start < length && known && status == PS_OK;) {
        piece.length = 0;
        if (start > 0) text_add_raw(&piece, t->prefix, t->prefix_length);
        const size_t head = piece.length;
        text_add_raw(&piece, word + start, length - start);
        if (piece.failed) {
            status = error_memory(error, "a word", length);
            break;
        }
        int number = -1;
        size_t used = piece.length;
        for (; used > head && (number = find_token(t, piece.data, used)) < 0;) {
            do used--;
            while (used > head && ((unsigned char)piece.data[used] & 0xc0) == 0x80);
        }
        known = number >= 0;
        if (known) status = token_list_add(list, number, error);
        start += used - head;
    }
    text_free(&piece);
    if (known || status != PS_OK) return status;
    list->count = before;
    return token_list_add(list, t->unknown, error);
}

/* The slot of a word in the cache, or the free one where it would be. */
static struct cached_word *cache_slot(const struct tokenizer *t, const char *word, size_t length) {
    for (size_t slot = hash_bytes(word, length);; slot++) {
        struct cached_word *entry = &t->cache[slot & (t->cache_size - 1)];
        if (entry->length == 0) return entry;
        if (entry->length == length && memcmp(t->letters.data + entry->letter, word, length) == 0) return entry;
    }
}

static enum ps_status cache_grow(struct tokenizer *t, struct ps_error *error) {
    struct cached_word *old = t->cache;
    const size_t size = t->cache_size;
    TRY(memory_new(&t->cache, size > 0 ? 2 * size : 1024, "a tokenizer", error));
    t->cache_size = size > 0 ? 2 * size : 1024;
    for (size_t i = 0; i < size; i++)
        if (old[i].length > 0) *cache_slot(t, t->letters.data + old[i].letter, old[i].length) = old[i];
    free(old);
    return PS_OK;
}

/* Numbers a word, or takes its numbers from the cache. */
static enum ps_status number_word(struct tokenizer *t, const char *word, size_t length, struct token_list *list,
                                  struct ps_error *error) {
    const bool kept = length <= CACHE_LENGTH;
    if (kept && 2 * t->cached >= t->cache_size && t->cached < CACHE_WORDS) TRY(cache_grow(t, error));
    struct cached_word *entry = kept ? cache_slot(t, word, length) : NULL;
    if (entry && entry->length > 0) {
        if (entry->count == 0) return PS_OK;
        TRY(memory_grow(&list->tokens, &list->capacity, list->count + entry->count, "tokens", error));
        memcpy(list->tokens + list->count, t->numbers.tokens + entry->number, entry->count * sizeof *list->tokens);
        list->count += entry->count;
        return PS_OK;
    }
    const size_t before = list->count;
    TRY(t->word_piece ? find_pieces(t, word, length, list, error) : join_pairs(t, word, length, list, error));
    if (!entry || t->cached == CACHE_WORDS) return PS_OK;
    const struct cached_word made = {t->letters.length, length, t->numbers.count, list->count - before};
    text_add_raw(&t->letters, word, length);
    if (t->letters.failed) return error_memory(error, "a tokenizer", length);
    for (size_t i = before; i < list->count; i++) TRY(token_list_add(&t->numbers, list->tokens[i], error));
    *entry = made;
    t->cached++;
    return PS_OK;
}

/* A text without word boundaries is cut at its blanks where that changes nothing. */
static enum ps_status number_words(struct tokenizer *t, const char *text, size_t length, struct token_list *list,
                                   struct ps_error *error) {
    const size_t size = sizeof blank_mark - 1;
    const char *end = text + length;
    while (t->cuts_at_blanks && text < end) {
        const char *stop = text;
        while ((size_t)(end - stop) >= size && memcmp(stop, blank_mark, size) == 0) stop += size;
        stop = memmem(stop, (size_t)(end - stop), blank_mark, size);
        if (!stop) break;
        TRY(number_word(t, text, (size_t)(stop - text), list, error));
        text = stop;
    }
    return text < end ? number_word(t, text, (size_t)(end - text), list, error) : PS_OK;
}

/* The steps of splitting from number `s` on, then the model. */
static enum ps_status split_text(struct tokenizer *t, int s, const char *text, size_t length, bool first,
                                 struct token_list *list, struct ps_error *error) {
    if (length == 0) return PS_OK;
    if (s == t->step_count[1]) return number_words(t, text, length, list, error);
    const struct text_step *step = &t->steps[1][s];
    struct text *buffer = &t->buffers[1][s];
    if (step->kind != TEXT_SPLIT) {
        buffer->length = 0;
        TRY(text_step_change(step, text, length, first, buffer, error));
        return split_text(t, s + 1, buffer->data, buffer->length, first, list, error);
    }
    struct text_pieces pieces = text_pieces_begin(step, text, length);
    const char *piece = text;
    for (size_t size;;) {
        TRY(text_pieces_next(&pieces, &piece, &size, error));
        if (size == 0) return PS_OK;
        TRY(split_text(t, s + 1, piece, size, first && piece == text, list, error));
    }
}

/* Is there a word's character at the end of `text` (`last`), or at its beginning? */
static bool touches_word(const char *text, size_t length, bool last) {
    size_t i = length;
    int32_t c;
    if (length == 0) return false;
    while (last && i > 0 && ((unsigned char)text[--i] & 0xc0) == 0x80) {
    }
    if (!last) i = 0;
    text_character(text + i, length - i, &c);
    return character_is_word(c);
}

/* The longest added token at `text`. */
static const struct added_token *added_at(const struct tokenizer *t, bool normalized, const char *text, size_t length) {
    const struct added_token *found = NULL;
    for (int a = 0; a < t->added_count; a++) {
        const struct added_token *token = &t->added[a];
        if (token->normalized != normalized || token->length > length || (found && token->length <= found->length)) continue;
        if (memcmp(token->text, text, token->length) == 0) found = token;
    }
    return found;
}

typedef enum ps_status number_stretch(struct tokenizer *t, const char *text, size_t length, bool first, struct token_list *list,
                                      struct ps_error *error);

/* Numbers the added tokens in a text, and by `number` what lies between them. */
static enum ps_status find_added(struct tokenizer *t, bool normalized, const char *text, size_t length, bool first,
                                 number_stretch *number, struct token_list *list, struct ps_error *error) {
    size_t done = 0;
    int32_t c;
    for (size_t i = 0; i < length;) {
        const struct added_token *token = NULL;
        if (t->begins[normalized][(unsigned char)text[i]]) token = added_at(t, normalized, text + i, length - i);
        size_t start = i;
        i += token ? token->length : 1;
        if (!token || start < done) continue;
        if (token->single_word && (touches_word(text, start, true) || touches_word(text + i, length - i, false))) continue;
        while (token->left && start > done) {
            size_t before = start;
            while (before > 0 && ((unsigned char)text[--before] & 0xc0) == 0x80) {
            }
            text_character(text + before, start - before, &c);
            if (!character_is_blank(c) || before < done) break;
            start = before;
        }
        size_t stop = i;
        while (token->right && stop < length) {
            const size_t size = text_character(text + stop, length - stop, &c);
            if (!character_is_blank(c)) break;
            stop += size;
        }
        if (start > done) TRY(number(t, text + done, start - done, first && done == 0, list, error));
        TRY(token_list_add(list, token->number, error));
        done = stop;
    }
    return done < length ? number(t, text + done, length - done, first && done == 0, list, error) : PS_OK;
}

static enum ps_status number_normalised(struct tokenizer *t, const char *text, size_t length, bool first,
                                        struct token_list *list, struct ps_error *error) {
    return split_text(t, 0, text, length, first, list, error);
}

static enum ps_status number_raw(struct tokenizer *t, const char *text, size_t length, bool first, struct token_list *list,
                                 struct ps_error *error) {
    TRY(run_changes(t, &text, &length, first, error));
    return find_added(t, true, text, length, first, number_normalised, list, error);
}

enum ps_status tokenizer_encode(struct tokenizer *t, const char *text, size_t length, struct token_list *list,
                                struct ps_error *error) {
    pthread_mutex_lock(&t->lock);
    enum ps_status status = find_added(t, false, text, length, true, number_raw, list, error);
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* --------------------------------------------------------- from numbers to text */

/* Strings, each ending with a zero byte; a byte 0 of a text is U+FFFD. */
struct strings {
    struct text text;
    size_t count;
};

static void end_string(struct strings *strings) {
    text_add_raw(&strings->text, "", 1);
    strings->count++;
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Appends bytes as UTF-8; what is invalid becomes U+FFFD, one for the longest beginning of a character, as in Unicode. */
static void add_repaired(const char *bytes, size_t length, struct text *out) {
    for (size_t i = 0; i < length;) {
        const unsigned char first = (unsigned char)bytes[i];
        const size_t wanted = first < 0x80                    ? 1
                              : first >= 0xc2 && first < 0xe0 ? 2
                              : first >= 0xe0 && first < 0xf0 ? 3
                              : first >= 0xf0 && first < 0xf5 ? 4
                                                              : 0;
        size_t size = 1;
        while (size < wanted && i + size < length) {
            const unsigned char next = (unsigned char)bytes[i + size];
            const unsigned char low = size > 1 ? 0x80 : first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
            const unsigned char high = size > 1 ? 0xbf : first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
            if (next < low || next > high) break;
            size++;
        }
        if (size == wanted && first != 0)
            text_add_raw(out, bytes + i, size);
        else
            text_add_raw(out, replacement, sizeof replacement - 1);
        i += size;
    }
}

/* All strings as one, in bytes. */
static void decode_bytes(const struct strings *in, struct strings *out) {
    struct text bytes = {0};
    const char *string = in->text.data;
    for (size_t s = 0; s < in->count; s++, string += strlen(string) + 1) {
        const size_t length = strlen(string), before = bytes.length;
        int32_t c;
        bool all = true;
        for (size_t i = 0; i < length && all;) {
            i += text_character(string + i, length - i, &c);
            const char byte = (char)text_step_byte(c);
            all = text_step_byte(c) >= 0;
            if (all) text_add_raw(&bytes, &byte, 1);
        }
        if (all) continue;
        bytes.length = before;
        text_add_raw(&bytes, string, length);
    }
    if (bytes.length > 0) add_repaired(bytes.data, bytes.length, &out->text);
    if (bytes.failed) out->text.failed = true;
    text_free(&bytes);
    end_string(out);
}

/* The byte that "<0x0A>" stands for; -1: it is another token. */
static int fallback_byte(const char *string) {
    static const char digits[] = "0123456789ABCDEFabcdef";
    if (strlen(string) != 6 || strncmp(string, "<0x", 3) != 0 || string[5] != '>') return -1;
    if (!strchr(digits, string[3]) || !strchr(digits, string[4])) return -1;
    return (int)strtol(string + 3, NULL, 16);
}

/* Runs of byte tokens become a string if they are UTF-8, and U+FFFD for each byte if not. */
static void decode_fallback(const struct strings *in, struct strings *out) {
    struct text bytes = {0};
    const char *string = in->text.data;
    for (size_t s = 0; s <= in->count; s++) {
        const int byte = s < in->count ? fallback_byte(string) : -1;
        const char one = (char)byte;
        if (byte >= 0) {
            text_add_raw(&bytes, &one, 1);
        } else {
            const bool valid = bytes.length > 0 && !utf8_invalid(bytes.data, bytes.length);
            if (valid) {
                add_repaired(bytes.data, bytes.length, &out->text);
                end_string(out);
            }
            for (size_t b = 0; b < bytes.length && !valid; b++) {
                text_add_raw(&out->text, replacement, sizeof replacement - 1);
                end_string(out);
            }
            bytes.length = 0;
            if (s == in->count) break;
            text_add_raw(&out->text, string, strlen(string));
            end_string(out);
        }
        string += strlen(string) + 1;
    }
    if (bytes.failed) out->text.failed = true;
    text_free(&bytes);
}

/* Appends `string` with `from` replaced by `to`. */
static void add_replaced(const char *string, const char *from, const char *to, struct text *out) {
    for (const char *found; *from != '\0' && (found = strstr(string, from)) != NULL; string = found + strlen(from)) {
        text_add_raw(out, string, (size_t)(found - string));
        text_add_raw(out, to, strlen(to));
    }
    text_add_raw(out, string, strlen(string));
}

static void add_cleaned(const char *string, struct text *out) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    struct text from = {0}, to = {0};
    text_add_raw(&from, string, strlen(string));
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs && !from.failed; p++) {
        add_replaced(from.data, pairs[p][0], pairs[p][1], &to);
        text_free(&from);
        from = to;
        to = (struct text){0};
    }
    if (from.failed)
        out->failed = true;
    else
        text_add_raw(out, from.data, from.length);
    text_free(&from);
}

static void strip_string(const struct decode_step *step, const char *string, struct text *out) {
    const size_t size = strlen(step->text);
    size_t length = strlen(string);
    for (int i = 0; size > 0 && i < step->start && length >= size && memcmp(string, step->text, size) == 0; i++) {
        string += size;
        length -= size;
    }
    for (int i = 0; size > 0 && i < step->stop && length >= size; i++) {
        if (memcmp(string + length - size, step->text, size) != 0) break;
        length -= size;
    }
    text_add_raw(out, string, length);
}

/* One of several strings. */
static enum ps_status decode_string(const struct decode_step *step, const char *string, bool first, bool last, struct text *out,
                                    struct ps_error *error) {
    const size_t size = strlen(step->text);
    const bool prefixed = size > 0 && strncmp(string, step->text, size) == 0;
    struct text word = {0};
    switch (step->kind) {
    case DECODE_METASPACE:
        if (first && step->flag) { /* its first word begins the text */
            add_replaced(string, step->text, "", out);
            return PS_OK;
        }
        add_replaced(string, step->text, " ", out);
        return PS_OK;
    case DECODE_REPLACE:
        return text_step_change(&step->replace, string, strlen(string), first, out, error);
    case DECODE_STRIP:
        strip_string(step, string, out);
        return PS_OK;
    case DECODE_SUFFIX:
        add_replaced(string, step->text, last ? "" : " ", out);
        return PS_OK;
    case DECODE_WORD_PIECE:
        if (!first && !prefixed) text_add_raw(&word, " ", 1);
        text_add_raw(&word, string + (!first && prefixed ? size : 0), strlen(string) - (!first && prefixed ? size : 0));
        if (word.failed)
            out->failed = true;
        else if (step->flag)
            add_cleaned(word.data, out);
        else
            text_add_raw(out, word.data, word.length);
        text_free(&word);
        return PS_OK;
    default: /* FUSE: all become one, as at the end */
        text_add_raw(out, string, strlen(string));
        return PS_OK;
    }
}

static enum ps_status decode_step(const struct decode_step *step, const struct strings *in, struct strings *out,
                                  struct ps_error *error) {
    if (step->kind == DECODE_BYTES) {
        decode_bytes(in, out);
        return PS_OK;
    }
    if (step->kind == DECODE_FALLBACK) {
        decode_fallback(in, out);
        return PS_OK;
    }
    const char *string = in->text.data;
    for (size_t s = 0; s < in->count; s++, string += strlen(string) + 1) {
        TRY(decode_string(step, string, s == 0, s + 1 == in->count, &out->text, error));
        if (step->kind != DECODE_FUSE) end_string(out);
    }
    if (step->kind == DECODE_FUSE) end_string(out);
    return PS_OK;
}

static enum ps_status decode(struct tokenizer *t, struct strings *strings, struct ps_error *error) {
    for (int d = 0; d < t->decoder_count && strings->count > 0; d++) {
        struct strings out = {0};
        enum ps_status status = decode_step(&t->decoders[d], strings, &out, error);
        text_free(&strings->text);
        *strings = out;
        if (status == PS_OK && out.text.failed) status = error_memory(error, "a text", out.text.capacity);
        if (status != PS_OK) return status;
    }
    return PS_OK;
}

enum ps_status tokenizer_decode(struct tokenizer *t, const int32_t *tokens, int64_t count, struct text *text,
                                struct ps_error *error) {
    struct strings strings = {0};
    for (int64_t i = 0; i < count; i++) {
        if (tokens[i] < 0 || tokens[i] >= t->size || !t->tokens[tokens[i]].text || t->tokens[tokens[i]].special) continue;
        text_add_raw(&strings.text, t->tokens[tokens[i]].text, t->tokens[tokens[i]].length);
        end_string(&strings);
    }
    enum ps_status status = strings.text.failed ? error_memory(error, "a text", (size_t)count) : PS_OK;
    pthread_mutex_lock(&t->lock);
    if (status == PS_OK) status = decode(t, &strings, error);
    pthread_mutex_unlock(&t->lock);
    const char *string = strings.text.data;
    for (size_t s = 0; s < strings.count && status == PS_OK; s++, string += strlen(string) + 1) {
        if (s > 0 && t->decoder_count == 0) text_add_raw(text, " ", 1);
        text_add_raw(text, string, strlen(string));
    }
    text_free(&strings.text);
    return status;
}
