/*
 * Tokenizers against Hugging Face's library (golden/make_tokenizers.py made the numbers), texts and sentence pairs that are
 * read by one, what a run keeps of it, and what is wrong with files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "data/dataset.h"
#include "data/pairs.h"
#include "data/text_steps.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "support.h"

static json_t *goldens;

static int set_up(void **state) {
    assert_ok(json_read_file(TEST_DIRECTORY "/golden/tokenizers.json", NULL, &goldens, &test_error));
    return test_directory_set_up(state);
}

static int tear_down(void **state) {
    json_decref(goldens);
    return test_directory_tear_down(state);
}

/* A copy of the document of a golden tokenizer. */
static json_t *document_of(const char *name) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(goldens, "tokenizers"), i, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
            return json_deep_copy(json_object_get(entry, "file"));
    }
    fail_msg("no tokenizer %s", name);
    return NULL;
}

/* Consumes the document. */
static enum ps_status create(json_t *document, struct tokenizer **tokenizer) {
    char *text = json_dump_text(document, JSON_COMPACT);
    assert_non_null(text);
    json_decref(document);
    enum ps_status status = tokenizer_create(text, strlen(text), "t.json", tokenizer, &test_error);
    free(text);
    return status;
}

static void write_tokenizer(const char *name, char path[4096]) {
    char file[64];
    json_t *document = document_of(name);
    char *text = json_dump_text(document, JSON_INDENT(1));
    snprintf(file, sizeof file, "%s.json", name);
    test_file_write(file_join(path, test_directory, file), text, strlen(text));
    free(text);
    json_decref(document);
}

/* Every text twice: the second time its words come from the cache. */
static void test_goldens(void **state) {
    (void)state;
    size_t i, n;
    json_t *entry, *wanted;
    const json_t *texts = json_object_get(goldens, "texts");
    json_array_foreach(json_object_get(goldens, "tokenizers"), i, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        struct tokenizer *tokenizer;
        assert_ok(create(json_deep_copy(json_object_get(entry, "file")), &tokenizer));
        for (int pass = 0; pass < 2; pass++) {
            json_array_foreach(json_object_get(entry, "ids"), n, wanted) {
                const char *text = json_string_value(json_array_get(texts, n));
                struct token_list list = {0};
                assert_ok(tokenizer_encode(tokenizer, text, strlen(text), &list, &test_error));
                bool same = list.count == json_array_size(wanted);
                for (size_t t = 0; t < list.count && same; t++)
                    same = list.tokens[t] == json_integer_value(json_array_get(wanted, t));
                if (!same) fail_msg("%s numbers '%s' otherwise than the library", name, text);
                struct text decoded = {0};
                assert_ok(tokenizer_decode(tokenizer, list.tokens, (int64_t)list.count, &decoded, &test_error));
                char *got = text_take(&decoded);
                const char *said = json_string_value(json_array_get(json_object_get(entry, "decoded"), n));
                if (strcmp(got, said) != 0) fail_msg("%s spells '%s' as '%s', the library as '%s'", name, text, got, said);
                free(got);
                free(list.tokens);
            }
        }
        tokenizer_destroy(tokenizer);
    }
    assert_true(i >= 10);
}

/* A word of 200,000 characters takes no quadratic time. */
static void test_long_word(void **state) {
    (void)state;
    enum { LENGTH = 200000 };
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    char *text = malloc(LENGTH);
    assert_non_null(text);
    for (int i = 0; i < LENGTH; i++) text[i] = (char)('a' + i % 7 * i % 7);
    assert_ok(create(document_of("gpt2"), &tokenizer));
    assert_ok(tokenizer_encode(tokenizer, text, LENGTH, &list, &test_error));
    struct text decoded = {0};
    assert_ok(tokenizer_decode(tokenizer, list.tokens, (int64_t)list.count, &decoded, &test_error));
    assert_int_equal(decoded.length, LENGTH);
    assert_memory_equal(decoded.data, text, LENGTH);
    text_free(&decoded);
    free(list.tokens);
    free(text);
    tokenizer_destroy(tokenizer);
}

#define TEMPLATE(item, numbers)                                                                                                \
    "{\"type\": \"TemplateProcessing\", \"single\": [" item "], \"pair\": [], \"special_tokens\": {\"x\": {\"ids\": " numbers  \
    "}}}"

/* A change of a file, and the message. */
static const struct {
    const char *base, *part, *value, *message;
} wrong[] = {
    {"gpt2", "model", "{\"type\": \"Unigram\", \"vocab\": []}",
     "model: type 'Unigram' is not supported; supported are BPE and WordPiece"},
    {"gpt2", "model", "7", "model: must be an object"},
    {"gpt2", "model", "{\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}", "has no tokens"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 0, \"b\": 5000000}, \"merges\": []}", "token 'b': its number must be"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 0, \"b\": 0, \"c\": 1}, \"merges\": []}", "have the same number 0"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 1, \"b\": 2}, \"merges\": [\"a b\"]}", "merges: item 0: 'ab' is no token"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 1, \"b\": 2}, \"merges\": [\"a b c\"]}", "item 0 must be two tokens"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 1, \"b\": 2}, \"merges\": [[\"a\", 1]]}", "item 0 must be two tokens"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 1, \"b\": 2}, \"merges\": [], \"dropout\": 0.5}", "dropout 0.5 is not supported"},
    {"gpt2", "model", "{\"vocab\": {\"a\": 1, \"b\": 2}, \"merges\": [], \"unk_token\": \"?\"}", "unk_token '?' is no token"},
    {"bert", "normalizer", "{\"type\": \"Precompiled\"}",
     "normalizer: type 'Precompiled' is not supported; supported are NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "
     "Prepend, Replace, BertNormalizer and Sequence"},
    {"bert", "normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Nmt\"}]}", "normalizers[0]: type 'Nmt' is"},
    {"bert", "pre_tokenizer", "{\"type\": \"UnicodeScripts\"}",
     "pre_tokenizer: type 'UnicodeScripts' is not supported; supported are ByteLevel, Split, Metaspace, Whitespace, "
     "WhitespaceSplit, BertPreTokenizer, Punctuation, Digits, CharDelimiterSplit and Sequence"},
    {"bert", "decoder", "{\"type\": \"CTC\"}",
     "decoder: type 'CTC' is not supported; supported are ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip, WordPiece, "
     "BPEDecoder and Sequence"},
    {"gpt2", "pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": \"Isolated\"}",
     "the regular expression '(a': missing closing parenthesis"},
    {"gpt2", "pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a&&b]\"}, \"behavior\": \"Isolated\"}",
     "has '&&', which is not supported"},
    {"gpt2", "pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"a\\\\b\"}, \"behavior\": \"Isolated\"}",
     "has '\\b', which is not supported"},
    {"gpt2", "pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Somehow\"}",
     "behavior 'Somehow' is not known"},
    {"gpt2", "added_tokens", "[{\"id\": 1000000, \"content\": \"<x>\"}]", "its number must be an integer from 0"},
    {"gpt2", "added_tokens", "[{\"id\": 5, \"content\": \"<x>\"}]", "have the same number 5"},
    {"gpt2", "added_tokens", "[{\"content\": \"<x>\"}]", "its number must be an integer"},
    {"gpt2", "pre_tokenizer", "{\"type\": \"Metaspace\", \"prepend_scheme\": \"last\"}", "prepend_scheme 'last' is not known"},
    {"gpt2", "pre_tokenizer", "{\"type\": \"Metaspace\", \"split\": 1}", "split: must be true or false"},
    {"gpt2", "post_processor", "{\"type\": \"Other\"}",
     "post_processor: type 'Other' is not supported; supported are TemplateProcessing, BertProcessing, RobertaProcessing, "
     "ByteLevel and Sequence"},
    {"gpt2", "post_processor", TEMPLATE("{\"Sequence\": {\"id\": \"B\"}}", "[]"), "there is no text 'B' here"},
    {"gpt2", "post_processor", TEMPLATE("{\"SpecialToken\": {\"id\": \"x\"}}", "[]"), "'x' is none of special_tokens"},
    {"gpt2", "post_processor", TEMPLATE("{\"SpecialToken\": {\"id\": \"x\"}}", "[99999999]"),
     "has a special token with the number 99999999, which no token has"},
    {"gpt2", "post_processor", TEMPLATE("{\"SpecialToken\": {\"id\": \"x\"}}", "[4294967297]"),
     "has a special token with the number"},
    {"gpt2", "post_processor", TEMPLATE("{\"SpecialToken\": {\"id\": \"x\"}}", "[\"1\"]"),
     "has a special token with the number"},
    {"gpt2", "post_processor", "{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 4294967297]}",
     "has a special token with the number"},
    {"gpt2", "post_processor", "{\"type\": \"BertProcessing\", \"cls\": [\"a\", \"0\"], \"sep\": [\"b\", 1]}",
     "has a special token with the number -1"},
    {"gpt2", "post_processor",
     "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}, "
     "{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}]}",
     "processors[1]: a second template"},
};

static void test_wrong(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *document = document_of(wrong[i].base), *value = json_loads(wrong[i].value, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        json_object_set_new(document, wrong[i].part, value);
        assert_status(create(document, &tokenizer), PS_BAD_INPUT, wrong[i].message);
    }
    assert_status(create(json_array(), &tokenizer), PS_BAD_INPUT, "must be an object");
    /* more of one than there is room for */
    static const struct {
        const char *part, *list, *item, *message;
    } many[] = {
        {"normalizer", "normalizers", "{\"type\": \"Lowercase\"}", "more than 32 steps"},
        {"decoder", "decoders", "{\"type\": \"Strip\", \"content\": \"a\", \"start\": 1, \"stop\": 0}", "more than 32 steps"}};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        json_t *document = document_of("gpt2"), *items = json_array();
        for (int n = 0; n < 33; n++) json_array_append_new(items, json_loads(many[i].item, 0, NULL));
        json_object_set_new(document, many[i].part, json_pack("{s:s, s:o}", "type", "Sequence", many[i].list, items));
        assert_status(create(document, &tokenizer), PS_BAD_INPUT, many[i].message);
    }
    /* an expression that takes exponential time gives up */
    json_t *document = document_of("gpt2");
    json_object_set_new(
        document, "pre_tokenizer",
        json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", "(?:a|aa)+[cd]", "behavior", "Isolated"));
    assert_ok(create(document, &tokenizer));
    struct token_list list = {0};
    char text[201];
    memset(text, 'a', 200);
    assert_status(tokenizer_encode(tokenizer, text, 200, &list, &test_error), PS_BAD_INPUT,
                  "a regular expression of the tokenizer");
    free(list.tokens);
    tokenizer_destroy(tokenizer);
}

/* Consumes the document. `wanted`: the numbers of the text's tokens, a blank before each. */
static void assert_numbers(json_t *document, const char *text, const char *wanted) {
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    struct text numbers = {0};
    assert_ok(create(document, &tokenizer));
    assert_ok(tokenizer_encode(tokenizer, text, strlen(text), &list, &test_error));
    for (size_t t = 0; t < list.count; t++) text_add(&numbers, " %d", list.tokens[t]);
    assert_string_equal(numbers.data, wanted);
    text_free(&numbers);
    free(list.tokens);
    tokenizer_destroy(tokenizer);
}

/* What becomes of a match and of its neighbours: the pieces that each way of splitting makes, whose tokens tell where they end.
 */
static void test_behaviors(void **state) {
    (void)state;
#define SPLIT(behavior, invert)                                                                                                \
    "{\"type\": \"Split\", \"pattern\": {\"String\": \"1\"}, \"behavior\": \"" behavior "\", \"invert\": " invert "}"
    static const struct {
        const char *splitter, *numbers;
    } cases[] = {{SPLIT("Removed", "false"), " 0 0"},
                 {SPLIT("Isolated", "false"), " 0 1 1 0"},
                 {SPLIT("MergedWithPrevious", "false"), " 3 1 0"},
                 {SPLIT("MergedWithNext", "false"), " 0 1 4"},
                 {SPLIT("Contiguous", "false"), " 0 2 0"},
                 {SPLIT("Removed", "true"), " 1 1"},
                 {SPLIT("Isolated", "true"), " 0 1 1 0"},
                 {SPLIT("MergedWithPrevious", "true"), " 0 1 4"},
                 {SPLIT("MergedWithNext", "true"), " 3 1 0"},
                 {SPLIT("Contiguous", "true"), " 0 2 0"},
                 {"{\"type\": \"Digits\", \"individual_digits\": false}", " 0 2 0"},
                 {"{\"type\": \"Digits\", \"individual_digits\": true}", " 0 1 1 0"},
                 {"{\"type\": \"Digits\"}", " 0 2 0"},
                 {"{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"1\"}", " 0 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = document_of("gpt2");
        json_object_set_new(document, "added_tokens", json_array());
        json_object_set_new(document, "model",
                            json_loads("{\"vocab\": {\"a\": 0, \"1\": 1, \"11\": 2, \"a1\": 3, \"1a\": 4}, "
                                       "\"merges\": [\"1 1\", \"a 1\", \"1 a\"]}",
                                       0, NULL));
        json_object_set_new(document, "pre_tokenizer", json_loads(cases[i].splitter, 0, NULL));
        print_message("%s\n", cases[i].splitter);
        assert_numbers(document, "a11a", cases[i].numbers);
    }
}

/* Blanks go at the sides that are named, of all kinds, and nowhere else. */
static void test_strip(void **state) {
    (void)state;
    static const char *const kept[2][2] = {{" 1 1 0 1 0 1 1", " 1 1 0 1 0"}, {" 0 1 0 1 1", " 0 1 0"}};
    for (int left = 0; left < 2; left++)
        for (int right = 0; right < 2; right++) {
            json_t *document = document_of("gpt2");
            struct tokenizer *tokenizer;
            struct token_list list = {0};
            struct text numbers = {0};
            json_object_set_new(document, "added_tokens", json_array());
            json_object_set_new(document, "pre_tokenizer", json_null());
            json_object_set_new(document, "model",
                                json_loads("{\"vocab\": {\"a\": 0, \" \": 1, \"\\u2003\": 2}, \"merges\": []}", 0, NULL));
            json_object_set_new(document, "normalizer",
                                json_pack("{s:s, s:b, s:b}", "type", "Strip", "strip_left", left, "strip_right", right));
            assert_ok(create(document, &tokenizer));
            assert_ok(tokenizer_encode(tokenizer, "  a a  ", 7, &list, &test_error));
            for (size_t t = 0; t < list.count; t++) text_add(&numbers, " %d", list.tokens[t]);
            assert_string_equal(numbers.data, kept[left][right]);
            list.count = 0;
            assert_ok(tokenizer_encode(tokenizer,
                                       "\xe2\x80\x83"
                                       "a"
                                       "\xe2\x80\x83",
                                       7, &list, &test_error));
            assert_int_equal(list.count, 3 - left - right);
            text_free(&numbers);
            free(list.tokens);
            tokenizer_destroy(tokenizer);
        }
}

/* Matches of nothing beside others, the beginning of a text after normalisation, and added tokens that reach into one another,
 * as Hugging Face's library 0.23 numbers them. */
static void test_edges(void **state) {
    (void)state;
#define REPLACE(expression, content)                                                                                           \
    "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"" expression "\"}, \"content\": \"" content "\"}"
#define CUT(expression) "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" expression "\"}, \"behavior\": \"Isolated\"}"
#define FIRST "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}"
#define CUT_FIRST(expression) "{\"type\": \"Sequence\", \"pretokenizers\": [" CUT(expression) ", " FIRST "]}"
#define CLEAN "{\"type\": \"BertNormalizer\", \"strip_accents\": false, \"lowercase\": false}"
#define ADDED(left)                                                                                                            \
    "[{\"id\": 4, \"content\": \"X\", \"rstrip\": true}, {\"id\": 10, \"content\": \"  \", \"lstrip\": " left "}]"
    static const struct {
        const char *normalizer, *splitter, *added, *text, *numbers;
    } cases[] = {{REPLACE("a*", "-"), "null", "[]", "aab", " 3 1 3"},
                 {"null", CUT("a*"), "[]", "aab", " 0 0 1"},
                 {REPLACE("a*", ""), FIRST, "[]", "aab", " 1"},
                 {"{\"type\": \"Strip\", \"strip_right\": false}", FIRST, "[]", " a", " 0"},
                 {"{\"type\": \"Strip\", \"strip_right\": false}", FIRST, "[]", "a ", " 2 0 2"},
                 {REPLACE("^b", "a"), FIRST, "[]", "ba", " 2 0 0"},
                 {REPLACE("^bb", "a"), FIRST, "[]", "bba", " 0 0"},
                 {REPLACE("^b*", "a"), FIRST, "[]", "a", " 2 0 0"},
                 {"{\"type\": \"StripAccents\"}", FIRST, "[]",
                  "\xcc\x81"
                  "a",
                  " 0"},
                 {CLEAN, FIRST, "[]",
                  "\x01"
                  "a",
                  " 0"},
                 {CLEAN, CUT_FIRST(" "), "[]",
                  "\xe4\xb8\xad"
                  "a",
                  " 2 2 9 2 0"},
                 {"{\"type\": \"NFD\"}", CUT_FIRST("\xcc\x81"), "[]",
                  "\xc3\xa9"
                  "a",
                  " 2 6 2 7 0"},
                 {"{\"type\": \"NFC\"}", CUT_FIRST("a"), "[]",
                  "a\xcc\x81"
                  "a",
                  " 2 11 0"},
                 {"{\"type\": \"Prepend\", \"prepend\": \"b\"}", CUT_FIRST("b"), "[]", "aa", " 2 1 2 0 0"},
                 {"null", "null", ADDED("false"), "aX  b", " 0 4 10 1"},
                 {"null", "null", ADDED("false"), "X   b", " 4 10 5 1"},
                 {"null", "null", ADDED("true"), "aX  b", " 0 4 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = document_of("gpt2");
        json_object_set_new(document, "added_tokens", json_loads(cases[i].added, 0, NULL));
        json_object_set_new(document, "normalizer", json_loads(cases[i].normalizer, JSON_DECODE_ANY, NULL));
        json_object_set_new(document, "pre_tokenizer", json_loads(cases[i].splitter, JSON_DECODE_ANY, NULL));
        json_object_set_new(
            document, "model",
            json_loads("{\"vocab\": {\"a\": 0, \"b\": 1, \"\\u2581\": 2, \"-\": 3, \"X\": 4, \" \": 5, \"e\": 6, "
                       "\"\\u0301\": 7, \"?\": 8, \"\\u4e2d\": 9, \"  \": 10, \"\\u00e1\": 11}, \"merges\": []}",
                       0, NULL));
        print_message("%s %s '%s'\n", cases[i].normalizer, cases[i].splitter, cases[i].text);
        assert_numbers(document, cases[i].text, cases[i].numbers);
    }
}

/* A token of which normalisation leaves nothing would be found everywhere. */
static void test_token_of_nothing(void **state) {
    (void)state;
    static const char *const normalized[] = {"true", "false"};
    for (int i = 0; i < 2; i++) {
        char added[128];
        json_t *document = document_of("gpt2");
        struct tokenizer *tokenizer = NULL;
        snprintf(added, sizeof added, "[{\"id\": 1, \"content\": \"  \", \"normalized\": %s}]", normalized[i]);
        json_object_set_new(document, "added_tokens", json_loads(added, 0, NULL));
        json_object_set_new(document, "normalizer", json_pack("{s:s}", "type", "Strip"));
        json_object_set_new(document, "model", json_loads("{\"vocab\": {\"a\": 0, \"  \": 1}, \"merges\": []}", 0, NULL));
        if (i == 0) {
            assert_status(create(document, &tokenizer), PS_BAD_INPUT, "the normalizer leaves nothing of '  '");
        } else {
            assert_ok(create(document, &tokenizer));
            tokenizer_destroy(tokenizer);
        }
    }
}

/* A bracket that is the first member of a class, also of one of all others; a fraction, which is a member of \w; and the one
 * capital letter that becomes two. */
static void test_spellings(void **state) {
    (void)state;
    static const struct {
        const char *expression, *text;
        int count, tokens[4];
    } cases[] = {{"[]a]", "b]ab", 2, {1, 1}},
                 {"[^]a]", "b]ab", 2, {2, 0}},
                 {"\\w", "a\xc2\xbd]", 1, {2}},
                 {"[^\\w]", "a\xc2\xbd]", 1, {0}},
                 {"[\\w-]", "a\xc2\xbd-]", 2, {5, 2}},
                 {"^b", "a\nba\nb", 4, {0, 8, 0, 8}},
                 {"a$", "a\nba\nb", 4, {8, 1, 8, 1}},
                 {"a.b", "a\nb]", 4, {0, 8, 1, 2}},
                 {"(?m)a.b", "a\nb]", 1, {2}},
                 {"(?im:A.b)", "a\nb]", 1, {2}},
                 {"\\p{Han}", "a\xe3\x80\x81", 2, {0, 6}},
                 {"\\p{^L}", "b]", 1, {1}},
                 {"\\s|\\S\\x62", "\xe1\xa0\x8e b]", 3, {7, 1, 2}},
                 {"x",
                  "\xc4\xb0"
                  "A",
                  3,
                  {3, 4, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = document_of("gpt2");
        struct tokenizer *tokenizer;
        struct token_list list = {0};
        json_object_set_new(document, "added_tokens", json_array());
        json_object_set_new(document, "normalizer", json_pack("{s:s}", "type", "Lowercase"));
        json_object_set_new(document, "model",
                            json_loads("{\"vocab\": {\"a\": 0, \"b\": 1, \"]\": 2, \"i\": 3, \"\\u0307\": 4, \"\\u00bd\": 5, "
                                       "\"\\u3001\": 6, \"\\u180e\": 7, \"\\n\": 8}, \"merges\": []}",
                                       0, NULL));
        json_object_set_new(
            document, "pre_tokenizer",
            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", cases[i].expression, "behavior", "Removed"));
        assert_ok(create(document, &tokenizer));
        assert_ok(tokenizer_encode(tokenizer, cases[i].text, strlen(cases[i].text), &list, &test_error));
        assert_int_equal(list.count, cases[i].count);
        for (int t = 0; t < cases[i].count; t++) assert_int_equal(list.tokens[t], cases[i].tokens[t]);
        free(list.tokens);
        tokenizer_destroy(tokenizer);
    }
}

/* What Oniguruma and PCRE2 read otherwise. */
static void test_unlike_expressions(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"\\C", "\\C"},        {"a\\vb", "\\v"},  {"\\pL", "\\p"},       {"\\PL+", "\\P"},   {"\\N{U+41}", "\\N"},
        {"\\Qa\\E", "\\Q"},    {"[a\\V]", "\\V"}, {"\\xe9", "\\x"},      {"\\h", "\\h"},     {"a{,2}", "{,2}"},
        {"a{1,2}+", "{1,2}+"}, {"a{2}?", "{2}?"}, {"[[:punct:]]", "[:"}, {"[a[b]]", "[b"},   {"(?s)a", "(?s"},
        {"(?P<n>a)", "(?P"},   {"(?|a)", "(?|"},  {"(?<n>a)", "(?<"},    {"(?x: a)", "(?x"}, {"a(?i)b", "(?i"},
        {"(*UTF)a", "(*U"},    {"(?", "(?"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct tokenizer *tokenizer;
        char said[64];
        json_t *document = document_of("gpt2");
        json_object_set_new(
            document, "pre_tokenizer",
            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", cases[c][0], "behavior", "Removed"));
        snprintf(said, sizeof said, "has '%s', which is not supported", cases[c][1]);
        assert_status(create(document, &tokenizer), PS_BAD_INPUT, said);
    }
    /* Those of well-known tokenizers are not among them: of GPT-2, Llama 3, Qwen 2, o200k and DeepSeek 3. */
    static const char *const known[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
        "\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
        "\\s+(?!\\S)|\\s+",
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        "|"
        "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
        " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        struct tokenizer *tokenizer;
        json_t *document = document_of("gpt2");
        json_object_set_new(
            document, "pre_tokenizer",
            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex", known[k], "behavior", "Isolated"));
        assert_ok(create(document, &tokenizer));
        tokenizer_destroy(tokenizer);
    }
}

/* Every decoder, with what Hugging Face's library makes of the tokens. */
static void test_decoders(void **state) {
    (void)state;
    static const struct {
        const char *decoder, *tokens[16], *text;
    } cases[] = {
        {"{\"type\": \"ByteFallback\"}",
         {"<0xE2>", "<0x96>", "<0x81>", "a", "<0xff>", "<0xE2>", "b", "<0x4>", "<0xZ1>", "<0x4Z>", "<0x41)", "<0x41>"},
         "\xef\xbf\xbd\xef\xbf\xbd"
         "a\xef\xbf\xbd\xef\xbf\xbd"
         "b<0x4><0xZ1><0x4Z><0x41)A"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}",
         {"\xc3\xbf",
          "\xc3\xa2"
          "a",
          "\xc3\x83", "\xc2\xa9", "\xc3\xad\xc2\xb0", "\xc3\xb4\xc2\xb0", "\xc3\xa0\xc2\xbf\xc2\xbf"},
         "\xef\xbf\xbd\xef\xbf\xbd"
         "a\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe0\xbf\xbf"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}",
         {"\xc3\xb0\xc2\xb0\xc2\xb0\xc2\xb0", "\xc3\xb0\xc2\xb0\xc2\xb0", "\xc3\x81\xc2\xb0", "\xc3\xb5", "\xc3\xa1\xc2\xbf"},
         "\xf0\xb0\xb0\xb0\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}",
         {"a", "b\xe6\x97\xa5", "\xc3\x83\xc2\xa9"},
         "ab\xe6\x97\xa5\xc3\xa9"},
        {"{\"type\": \"Strip\", \"content\": \"_\", \"start\": 1, \"stop\": 2}", {"__a___", "ab", "_b_", "xyz"}, "_a_abbxyz"},
        {"{\"type\": \"BPEDecoder\", \"suffix\": \"</w>\"}", {"lo", "w</w>", "er</w>"}, "low er"},
        {"{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}",
         {"##it", "##self", "do", "not", ".", "'s", "n't", "?", "!", ",", "'m", "'ve", "'re", "'"},
         "##itself do not.'sn't?!,'m've're '"},
        {"{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": true}", {"x' y", "a do not ."}, "x' y a don't."},
        {"{\"type\": \"WordPiece\", \"prefix\": \"##\", \"cleanup\": false}", {"##it", "##self", "do", "."}, "##itself do ."},
        {"{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"always\", \"split\": true}",
         {"\xe2\x96\x81"
          "a",
          "\xe2\x96\x81"
          "b\xe2\x96\x81"
          "c"},
         "a b c"},
        {"{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"never\", \"split\": true}",
         {"\xe2\x96\x81"
          "a",
          "\xe2\x96\x81"
          "b\xe2\x96\x81"
          "c"},
         " a b c"},
        {"{\"type\": \"Fuse\"}", {"a", "b"}, "ab"},
        {"{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \"a\", \"start\": "
         "2, \"stop\": 1}]}",
         {"a", "aab", "aa"},
         "aba"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *document = document_of("gpt2"), *vocabulary = json_object();
        struct tokenizer *tokenizer;
        struct text text = {0};
        int32_t tokens[18] = {-1}; /* what are no tokens say nothing */
        int count = 1;
        for (; count <= 16 && cases[i].tokens[count - 1]; count++) {
            json_object_set_new(vocabulary, cases[i].tokens[count - 1], json_integer(count - 1));
            tokens[count] = count - 1;
        }
        tokens[count] = count - 1;
        count++;
        json_object_set_new(document, "added_tokens", json_array());
        json_object_set_new(document, "model", json_pack("{s:o, s:[]}", "vocab", vocabulary, "merges"));
        json_object_set_new(document, "decoder", json_loads(cases[i].decoder, 0, NULL));
        assert_ok(create(document, &tokenizer));
        assert_ok(tokenizer_decode(tokenizer, tokens, count, &text, &test_error));
        assert_string_equal(text.data, cases[i].text);
        text_free(&text);
        tokenizer_destroy(tokenizer);
    }
}

/* Without a split a merge reaches over a blank. */
static void test_blanks(void **state) {
    (void)state;
    static const struct {
        const char *split, *scheme;
        int32_t tokens[4];
        size_t count;
    } cases[] = {{"true", "always", {0, 1, 0, 2}, 4},
                 {"false", "always", {0, 3, 2}, 3},
                 {"true", "never", {1, 0, 2}, 3},
                 {"false", "never", {3, 2}, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char step[128];
        struct tokenizer *tokenizer;
        struct token_list list = {0};
        json_t *document = document_of("gpt2");
        snprintf(step, sizeof step, "{\"type\": \"Metaspace\", \"prepend_scheme\": \"%s\", \"split\": %s}", cases[i].scheme,
                 cases[i].split);
        json_object_set_new(document, "pre_tokenizer", json_loads(step, 0, NULL));
        json_object_set_new(document, "added_tokens", json_array());
        json_object_set_new(document, "model",
                            json_loads("{\"vocab\": {\"\\u2581\": 0, \"a\": 1, \"b\": 2, \"a\\u2581\": 3}, "
                                       "\"merges\": [\"a \\u2581\"]}",
                                       0, NULL));
        assert_ok(create(document, &tokenizer));
        assert_ok(tokenizer_encode(tokenizer, "a b", 3, &list, &test_error));
        assert_int_equal(list.count, cases[i].count);
        assert_memory_equal(list.tokens, cases[i].tokens, cases[i].count * sizeof *list.tokens);
        free(list.tokens);
        tokenizer_destroy(tokenizer);
    }
}

/* Of added tokens that begin alike the longest one stands, in whatever order the file has them. */
static void test_longest_added(void **state) {
    (void)state;
    static const char *const added[] = {"[{\"id\": 2, \"content\": \"<x\"}, {\"id\": 3, \"content\": \"<x>\"}]",
                                        "[{\"id\": 3, \"content\": \"<x>\"}, {\"id\": 2, \"content\": \"<x\"}]"};
    static const int32_t wanted[] = {0, 3, 1, 2};
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        struct tokenizer *tokenizer;
        struct token_list list = {0};
        json_t *document = document_of("gpt2");
        json_object_set_new(document, "added_tokens", json_loads(added[i], 0, NULL));
        json_object_set_new(document, "model", json_loads("{\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}", 0, NULL));
        assert_ok(create(document, &tokenizer));
        assert_ok(tokenizer_encode(tokenizer, "a<x>b<x", 7, &list, &test_error));
        assert_int_equal(list.count, 4);
        assert_memory_equal(list.tokens, wanted, sizeof wanted);
        free(list.tokens);
        tokenizer_destroy(tokenizer);
    }
}

static struct dataset_shape language(int length, int vocabulary, bool masked) {
    return (struct dataset_shape){.channels = 1,
                                  .height = length,
                                  .width = 1,
                                  .classes = vocabulary,
                                  .labels = length,
                                  .vocabulary = vocabulary,
                                  .gives_tokens = true,
                                  .masked = masked};
}

static enum ps_status open_data(const char *format, const char *rest, const struct dataset_shape *wanted,
                                struct samples *samples) {
    char spec[8400];
    snprintf(spec, sizeof spec, "%s:%s/%s", format, test_directory, rest);
    return samples_open(spec, DATASET_TRAIN, wanted, samples, &test_error);
}

static void test_running_text(void **state) {
    (void)state;
    static const char text[] = "The quick brown fox jumps over the lazy dog.<|endoftext|>The dog doesn't mind, naïvely.\n";
    char path[4096], spec[8400];
    struct samples samples;
    int32_t tokens[8], labels[8];
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    write_tokenizer("gpt2", path);
    test_file_write(file_join(path, test_directory, "a.txt"), text, strlen(text));
    assert_ok(create(document_of("gpt2"), &tokenizer));
    assert_ok(tokenizer_encode(tokenizer, text, strlen(text), &list, &test_error));
    const int size = tokenizer_size(tokenizer);
    struct dataset_shape wanted = language(8, size + 6, false); /* more tokens than the tokenizer has */
    snprintf(spec, sizeof spec, "a.txt,tokenizer=%s/gpt2.json,test=0", test_directory);
    assert_ok(open_data("text", spec, &wanted, &samples));
    assert_int_equal(samples.count, (list.count - 1) / 8);
    for (int64_t i = 0; i < samples.count; i++) {
        assert_ok(samples.dataset->class->read(samples.dataset, i, tokens, labels, &test_error));
        assert_memory_equal(tokens, list.tokens + 8 * i, sizeof tokens);
        assert_memory_equal(labels, list.tokens + 8 * i + 1, sizeof labels);
    }
    /* What a run keeps numbers the same, without the tokenizer's file. */
    char run[4096];
    const struct vocabulary *both[2] = {samples.dataset->shape.words[0], NULL};
    struct vocabulary *kept[2] = {NULL, NULL};
    assert_ok(vocabulary_write(file_join(run, test_directory, "vocabulary.json"), both, &test_error));
    assert_ok(vocabulary_read(run, kept, &test_error));
    assert_true(vocabulary_equal(kept[0], both[0]));
    assert_string_equal(vocabulary_data(kept[0]), "text,tokens=tokenizer");
    samples_close(&samples);
    wanted.words[0] = kept[0];
    wanted.words_needed = true;
    assert_ok(open_data("text", "a.txt,test=0", &wanted, &samples));
    assert_ok(samples.dataset->class->read(samples.dataset, 1, tokens, labels, &test_error));
    assert_memory_equal(tokens, list.tokens + 8, sizeof tokens);
    samples_close(&samples);
    assert_status(open_data("text", "a.txt,tokens=words", &wanted, &samples), PS_USAGE, "was made from text,tokens=tokenizer");
    write_tokenizer("llama3", path);
    snprintf(spec, sizeof spec, "a.txt,tokenizer=%s", path);
    assert_status(open_data("text", spec, &wanted, &samples), PS_USAGE, "has other words than those");
    vocabulary_destroy(kept[0]);

    wanted = language(8, size - 1, false);
    assert_status(open_data("text", spec, &wanted, &samples), PS_USAGE, "but the network's");
    assert_status(open_data("text", "a.txt,tokens=tokenizer", &wanted, &samples), PS_USAGE,
                  "data 'text,tokens=tokenizer' need ,tokenizer=FILE, a tokenizer.json of Hugging Face");
    wanted = language(8, size, true);
    assert_status(open_data("text", spec, &wanted, &samples), PS_USAGE, "no token [MASK] or <mask>");
    free(list.tokens);
    tokenizer_destroy(tokenizer);
}

/* BERT's own token stands for what is masked. */
static void test_masked(void **state) {
    (void)state;
    char path[4096], spec[8400], text[6000] = "";
    struct samples samples;
    int32_t tokens[50], labels[50];
    int masked = 0, counted = 0;
    while (strlen(text) < 5000) strcat(text, "The quick brown fox jumps over the lazy dog. ");
    write_tokenizer("bert", path);
    test_file_write(file_join(path, test_directory, "b.txt"), text, strlen(text));
    snprintf(spec, sizeof spec, "b.txt,tokenizer=%s/bert.json,test=0", test_directory);
    const struct dataset_shape wanted = language(50, 400, true);
    assert_ok(open_data("text", spec, &wanted, &samples));
    for (int64_t i = 0; i < samples.count; i++) {
        assert_ok(samples.dataset->class->read(samples.dataset, i, tokens, labels, &test_error));
        for (int t = 0; t < 50; t++) {
            counted += labels[t] >= 0;
            masked += tokens[t] == 4; /* [MASK] */
            assert_true(labels[t] < 300 && tokens[t] < 300);
        }
    }
    assert_true(counted > 20 && masked > counted / 2 && masked < counted);
    samples_close(&samples);
}

static void test_pairs(void **state) {
    (void)state;
    static const char source[] = "The quick brown fox\nthe lazy dog\n", target[] = "Zwölf Boxkämpfer\nüber den Deich.\n";
    char path[4096], spec[8400];
    struct samples samples;
    int32_t tokens[44], labels[20];
    write_tokenizer("metaspace", path);
    test_file_write(file_join(path, test_directory, "p.en"), source, strlen(source));
    test_file_write(file_join(path, test_directory, "p.de"), target, strlen(target));
    struct dataset_shape wanted = language(44, 500, false);
    wanted.labels = 20;
    snprintf(spec, sizeof spec, "p:en:de,tokenizer=%s/metaspace.json", test_directory);
    assert_ok(open_data("pairs", spec, &wanted, &samples));
    struct tokenizer *tokenizer = vocabulary_tokenizer(samples.dataset->shape.words[0]);
    assert_null(samples.dataset->shape.words[1]); /* one for both */
    struct token_list list = {0};
    assert_ok(tokenizer_encode(tokenizer, "über den Deich.", strlen("über den Deich."), &list, &test_error));
    assert_ok(samples.dataset->class->read(samples.dataset, 1, tokens, labels, &test_error));
    assert_true(list.count < 19);
    for (size_t t = 0; t < list.count; t++) {
        assert_int_equal(labels[t], list.tokens[t] + VOCABULARY_SPECIALS);
        assert_int_equal(tokens[24 + t + 1], labels[t]);
    }
    assert_int_equal(labels[list.count], VOCABULARY_END);
    assert_int_equal(labels[list.count + 1], -1);
    assert_int_equal(tokens[24], VOCABULARY_START);
    struct text sentence = {0}, reference = {0};
    labels[list.count + 1] = labels[0]; /* behind the end nothing is said */
    pairs_spell(samples.dataset, labels, 20, &sentence);
    pairs_reference(samples.dataset, 1, &reference);
    assert_string_equal(sentence.data, "über den Deich.");
    assert_string_equal(reference.data, "über den Deich.");
    text_free(&sentence);
    text_free(&reference);
    free(list.tokens);
    samples_close(&samples);

    write_tokenizer("gpt2", path);
    snprintf(spec, sizeof spec, "p:en:de,tokenizer=%s/metaspace.json,target_tokenizer=%s", test_directory, path);
    assert_ok(open_data("pairs", spec, &wanted, &samples));
    assert_int_equal(vocabulary_size(samples.dataset->shape.words[1]), VOCABULARY_SPECIALS + 330);
    const struct vocabulary *both[2] = {samples.dataset->shape.words[0], samples.dataset->shape.words[1]};
    struct vocabulary *kept[2] = {NULL, NULL};
    assert_ok(vocabulary_write(file_join(path, test_directory, "v.json"), both, &test_error));
    assert_ok(vocabulary_read(path, kept, &test_error));
    for (int v = 0; v < 2; v++) {
        assert_true(vocabulary_equal(kept[v], both[v]));
        assert_int_equal(vocabulary_first(kept[v]), VOCABULARY_SPECIALS);
        vocabulary_destroy(kept[v]);
    }
    samples_close(&samples);
    snprintf(spec, sizeof spec, "p:en:de,target_tokenizer=%s/gpt2.json", test_directory);
    assert_status(open_data("pairs", spec, &wanted, &samples), PS_USAGE, "needs tokenizer=, too");
    const struct vocabulary *one[2] = {vocabulary_create(&test_error), NULL};
    assert_non_null(one[0]);
    assert_ok(vocabulary_write(file_join(path, test_directory, "one.json"), one, &test_error));
    vocabulary_destroy((struct vocabulary *)one[0]);
    snprintf(spec, sizeof spec, "p:en:de,vocab=%s", path);
    assert_status(open_data("pairs", spec, &wanted, &samples), PS_USAGE,
                  "one.json has one vocabulary, but two languages need two");
}

/* Labelled texts for networks with several inputs, cut and filled up as by the library: `texts` 2 for pairs. */
static void check_padded(const json_t *entry, int texts) {
    enum { LENGTH = 24 };
    static const struct ps_input inputs[] = {
        {.name = "input_ids", .type = "i32", .rank = 1, .shape = {LENGTH}, .vocabulary = 400},
        {.name = "attention_mask", .type = "f32", .rank = 1, .shape = {LENGTH}},
        {.name = "token_type_ids", .type = "i32", .rank = 1, .shape = {LENGTH}, .vocabulary = 2},
    };
    static const struct ps_input target = {.name = "labels", .type = "i32", .rank = 1, .shape = {1}, .vocabulary = 3};
    const struct dataset_shape wanted = {.inputs = inputs,
                                         .input_count = 3,
                                         .target = &target,
                                         .channels = 1,
                                         .height = LENGTH,
                                         .width = 1,
                                         .classes = 3,
                                         .labels = 1,
                                         .vocabulary = 400};
    const char *name = json_string_value(json_object_get(entry, "name"));
    char path[4096], spec[8400];
    const json_t *pairs = json_object_get(goldens, "pairs");
    struct text lines = {0};
    struct samples samples;
    int32_t label;
    size_t i;
    json_t *pair;
    struct {
        int32_t tokens[LENGTH];
        float mask[LENGTH];
        int32_t types[LENGTH];
    } sample;
    json_array_foreach(pairs, i, pair) {
        text_add(&lines, "%zu\t%s", i % 3, json_string_value(json_array_get(pair, 0)));
        if (texts == 2) text_add(&lines, "\t%s", json_string_value(json_array_get(pair, 1)));
        text_add(&lines, "\n");
    }
    test_file_write(file_join(path, test_directory, "r.tsv"), lines.data, lines.length);
    text_free(&lines);
    write_tokenizer(name, path);
    snprintf(spec, sizeof spec, "r.tsv,texts=%d,tokenizer=%s", texts, path);
    assert_ok(open_data("reviews", spec, &wanted, &samples));
    assert_int_equal(samples.count, json_array_size(pairs));
    for (i = 0; i < (size_t)samples.count; i++) {
        const json_t *said = json_array_get(json_array_get(json_object_get(entry, "padded"), i), (size_t)texts - 1);
        assert_ok(samples.dataset->class->read(samples.dataset, (int64_t)i, &sample, &label, &test_error));
        assert_int_equal(label, i % 3);
        for (size_t t = 0; t < LENGTH; t++) {
            assert_int_equal(sample.tokens[t], json_integer_value(json_array_get(json_object_get(said, "ids"), t)));
            assert_int_equal(sample.types[t], json_integer_value(json_array_get(json_object_get(said, "types"), t)));
            assert_true(sample.mask[t] == (float)json_integer_value(json_array_get(json_object_get(said, "mask"), t)));
        }
    }
    samples_close(&samples);
}

static void test_reviews(void **state) {
    (void)state;
    size_t i;
    json_t *entry;
    int checked = 0;
    json_array_foreach(json_object_get(goldens, "tokenizers"), i, entry) {
        for (int texts = 1; texts <= 2 && json_object_get(entry, "padded"); texts++, checked++) check_padded(entry, texts);
    }
    assert_int_equal(checked, 6);
}

/* Two inputs of tokens take one text each, followed by their masks; words have no template. */
static void test_two_inputs(void **state) {
    (void)state;
    static const struct ps_input inputs[] = {
        {.name = "a", .type = "i32", .rank = 1, .shape = {3}, .vocabulary = 8},
        {.name = "a_mask", .type = "i32", .rank = 1, .shape = {3}},
        {.name = "b", .type = "i32", .rank = 3, .shape = {1, 4, 1}, .vocabulary = 8},
        {.name = "b_mask", .type = "i32", .rank = 1, .shape = {4}},
    };
    static const char text[] = "1\tx y\ty z z y\n0\tx y x y\ty\n";
    static const int32_t expected[2][14] = {{5, 4, 0, 1, 1, 0, 4, 6, 6, 4, 1, 1, 1, 1},
                                            {5, 4, 5, 1, 1, 1, 4, 0, 0, 0, 1, 0, 0, 0}};
    struct dataset_shape wanted = {
        .inputs = inputs, .input_count = 4, .channels = 1, .height = 3, .width = 1, .classes = 2, .labels = 1, .vocabulary = 8};
    struct samples samples;
    char path[4096];
    int32_t sample[14], label;
    test_file_write(file_join(path, test_directory, "two.tsv"), text, strlen(text));
    assert_ok(open_data("reviews", "two.tsv", &wanted, &samples));
    for (int64_t i = 0; i < 2; i++) {
        assert_ok(samples.dataset->class->read(samples.dataset, i, sample, &label, &test_error));
        assert_int_equal(label, 1 - i);
        assert_memory_equal(sample, expected[i], sizeof sample);
    }
    samples_close(&samples);
    test_file_write(path, "1\tx y\n", 6);
    assert_status(open_data("reviews", "two.tsv", &wanted, &samples), PS_BAD_INPUT, "line 1: one text; a line is");
    wanted.classes = 0;
    assert_status(open_data("reviews", "two.tsv", &wanted, &samples), PS_USAGE,
                  "give labels of classes, but the network's loss reads");
}

/* Two texts in one input have a token between them, and a position must be left for another; what is filled up needs one. */
static void test_little_room(void **state) {
    (void)state;
    static const char text[] = "1\tx y\ty\n0\ty\tx\n",
                      plain[] = "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"x\": 0, \"y\": 1}, \"merges\": []}}";
    struct samples samples;
    char path[4096], spec[8400];
    test_file_write(file_join(path, test_directory, "two.tsv"), text, strlen(text));
    for (int64_t room = 1; room < 3; room++) {
        const struct ps_input input = {.name = "a", .type = "i32", .rank = 1, .shape = {room}, .vocabulary = 8};
        const struct dataset_shape wanted = {.inputs = &input,
                                             .input_count = 1,
                                             .channels = 1,
                                             .height = room,
                                             .width = 1,
                                             .classes = 2,
                                             .labels = 1,
                                             .vocabulary = 8};
        const enum ps_status status = open_data("reviews", "two.tsv,texts=2", &wanted, &samples);
        if (room == 1) {
            assert_status(status, PS_USAGE, "a template with 1 special tokens has no room in the network's 1");
            continue;
        }
        assert_ok(status);
        samples_close(&samples);
        test_file_write(file_join(path, test_directory, "plain.json"), plain, strlen(plain));
        snprintf(spec, sizeof spec, "two.tsv,texts=2,tokenizer=%s", path);
        assert_status(open_data("reviews", spec, &wanted, &samples), PS_USAGE, "the tokenizer has no token for padding");
    }
}

/* Characters with the property White_Space, of Unicode's PropList.txt, and no others. */
static void test_white_space(void **state) {
    static const int32_t ranges[][2] = {{0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                        {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                        {0x205f, 0x205f}, {0x3000, 0x3000}};
    (void)state;
    for (int32_t c = 0; c < 0x110000; c++) {
        bool blank = false;
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) blank |= c >= ranges[r][0] && c <= ranges[r][1];
        if (character_is_blank(c) != blank) fail_msg("U+%04X", (unsigned)c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_blanks),
        cmocka_unit_test(test_longest_added),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_token_of_nothing),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_unlike_expressions),
        cmocka_unit_test(test_running_text),
        cmocka_unit_test(test_masked),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_reviews),
        cmocka_unit_test(test_two_inputs),
        cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_white_space),
        cmocka_unit_test(test_little_room),
        cmocka_unit_test(test_behaviors),
        cmocka_unit_test(test_strip),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
