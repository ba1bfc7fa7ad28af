/* Reading of tokenizer.json: the steps before the model, the model, the template, and the steps of decoding. */
#include "data/tokenizer_parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

enum { NESTING_MAX = 8 };

/* A power of two that is at least twice as large. */
static size_t table_size(size_t count) {
    size_t size = 16;
    while (size < 2 * count) size *= 2;
    return size;
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
    if (t->step_count[part] == TOKENIZER_STEPS_MAX) {
        text_pattern_destroy(step.pattern);
        return json_error(place, error, "more than %d steps", TOKENIZER_STEPS_MAX);
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
    *mark = BLANK_MARK;
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
    if (t->decoder_count == TOKENIZER_STEPS_MAX) return json_error(place, error, "more than %d steps", TOKENIZER_STEPS_MAX);
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

/* -1: no token has it. */
static int32_t number_of(const json_t *json) {
    const json_int_t number = json_is_integer(json) ? json_integer_value(json) : -1;
    return number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
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
        return add_item(t, item, pair, (struct template_item){.text = text, .segment = segment}, error);
    }
    const json_t *numbers = json_object_get(json_object_get(specials, id), "ids");
    if (json_array_size(numbers) == 0) return json_error(item, error, "'%.60s' is none of special_tokens", id);
    for (size_t i = 0; i < json_array_size(numbers); i++)
        TRY(add_item(t, item, pair, (struct template_item){-1, number_of(json_array_get(numbers, i)), segment}, error));
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
    for (int n = 0; n < 2; n++) mark[n].number = number_of(json_array_get(json_object_get(place->value, names[n]), 1));
    for (int pair = 0; pair < 2; pair++) {
        const struct template_item first[] = {mark[0], {.text = 0}, mark[1]};
        for (int i = 0; i < 3; i++) TRY(add_item(t, place, pair, first[i], error));
        const int segment = roberta ? 0 : 1;
        if (pair && roberta) TRY(add_item(t, place, true, mark[1], error));
        if (pair) TRY(add_item(t, place, true, (struct template_item){.text = 1, .segment = segment}, error));
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
            TRY(add_item(t, root, pair, (struct template_item){.text = text, .segment = text}, error));
    }
    return PS_OK;
}

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
        t->slots[tokenizer_slot(t, token, length)] = number + 1;
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
        const int left = tokenizer_number(t, half[0], length[0]), right = tokenizer_number(t, half[1], length[1]);
        const int number = tokenizer_number(t, joined.data, joined.length);
        if (left < 0 || right < 0 || number < 0) {
            status = json_error(merges, error, "item %zu: '%.60s' is no token of the vocabulary", i,
                                left < 0    ? half[0]
                                : right < 0 ? half[1]
                                            : joined.data);
            break;
        }
        *tokenizer_merge(t, left, right) = (struct merge){left, right, (int32_t)i, number};
    }
    text_free(&joined);
    return status;
}

/* Whether no token has U+2581 behind another character: then no pair is joined across the beginning of a word. */
static bool cuts_at_blanks(const struct tokenizer *t) {
    const size_t size = sizeof BLANK_MARK - 1;
    for (int n = 0; n < t->size; n++) {
        const char *text = t->tokens[n].text;
        while (text && strncmp(text, BLANK_MARK, size) == 0) text += size;
        if (text && strstr(text, BLANK_MARK)) return false;
    }
    return tokenizer_number(t, BLANK_MARK, size) >= 0 && t->prefix_length == 0 && t->suffix_length == 0;
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
        t->bytes[b] = tokenizer_number(t, name, strlen(name));
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
    if (unknown) t->unknown = tokenizer_number(t, unknown, strlen(unknown));
    if (unknown && t->unknown < 0) return json_error(&model, error, "unk_token '%.60s' is no token of the vocabulary", unknown);
    TRY(json_get_int(&model, "max_input_chars_per_word", false, 1, 100000, &t->longest, error));
    return t->word_piece ? PS_OK : read_byte_pairs(t, &model, error);
}

/* ------------------------------------------------- reading: added tokens, all */

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
        size_t head = 0;
        token.length = strlen(content);
        struct token *named = &t->tokens[token.number];
        if (named->text && strcmp(named->text, content) != 0)
            return json_error(&item, error, "tokens '%.60s' and '%.60s' have the same number %d", named->text, content,
                              token.number);
        if (!named->text) *named = (struct token){keep(t, content), token.length, false};
        named->special = special;
        if (token.normalized) TRY(tokenizer_normalise(t, &text, &token.length, &head, error));
        token.text = arena_copy(&t->arena, text, token.length + 1, 1);
        TRY(arena_check(&t->arena, "a tokenizer", error));
        if (*content == '\0') continue;
        if (token.length == 0)
            return json_error(&item, error, "the normalizer leaves nothing of '%.60s'; \"normalized\" must be false", content);
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
