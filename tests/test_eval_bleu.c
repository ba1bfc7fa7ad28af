/* Tokens and BLEU scores against sacrebleu's: golden/make_bleu.py made the numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "data/corpus.h"
#include "data/text_steps.h"
#include "eval/bleu.h"
#include "support.h"
#include "within.h"

static json_t *read_goldens(void) {
    json_t *root = NULL;
    assert_ok(json_read_file(TEST_DIRECTORY "/golden/bleu.json", "penstock-bleu-goldens", &root, &test_error));
    return root;
}

static const char *text_of(json_t *array, size_t index) { return json_string_value(json_array_get(array, index)); }

static void assert_words(void (*split)(const char *, size_t, struct text *), const char *line, const char *wanted) {
    struct text words = {0};
    split(line, strlen(line), &words);
    char *got = text_take(&words);
    assert_string_equal(got, wanted);
    free(got);
}

static void test_tokens(void **state) {
    (void)state;
    json_t *root = read_goldens(), *lines = json_object_get(root, "tokens"), *line;
    assert_true(json_array_size(lines) > 10);
    size_t i;
    json_array_foreach(lines, i, line) assert_words(words_13a, text_of(line, 0), text_of(line, 1));
    json_decref(root);
}

static void test_other_words(void **state) {
    (void)state;
    assert_words(words_plain, "Great!<br /><br />It's 10/10, Zo\xc3\xab\xc2\xa0said...", "great it's 10 10 zo\xc3\xab said");
    assert_words(words_plain, " .,! ", "");
    assert_words(words_plain, "@AZ[`az{/09:a<br /><br /", "az az 09 a br");
    assert_words(words_given, "  a@@ b\t c. ", "a@@ b c.");
    const char *place = "ab  c ", *word;
    assert_int_equal(words_next(&place, &word), 2);
    assert_int_equal(words_next(&place, &word), 1);
    assert_int_equal(*word, 'c');
    assert_int_equal(words_next(&place, &word), 0);
}

/* Lines are parted at all characters with the property White_Space, of Unicode's PropList.txt, and at four controls. */
static void test_blanks(void **state) {
    static const int32_t ranges[][2] = {{0x09, 0x0d},     {0x1c, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                        {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                        {0x205f, 0x205f}, {0x3000, 0x3000}};
    (void)state;
    for (int32_t c = 1; c < 0x11000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue; /* halves of pairs */
        bool blank = false;
        struct text line = {0}, words = {0};
        for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) blank |= c >= ranges[r][0] && c <= ranges[r][1];
        text_add_raw(&line, "a", 1);
        text_add_character(&line, c);
        text_add_raw(&line, "b", 1);
        words_given(line.data, line.length, &words);
        if ((strcmp(words.data, "a b") == 0) != blank) fail_msg("U+%04X", (unsigned)c);
        text_free(&line);
        text_free(&words);
    }
    /* Half of one at the end is none, and nothing behind the line is read. */
    static const char *const cut[] = {"\xc2", "\xe2\x80", "\xe3\x80", "\xe1\x9a", "\xe2\x81"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        struct text words = {0};
        char *line = malloc(strlen(cut[i]));
        assert_non_null(line);
        memcpy(line, cut[i], strlen(cut[i]));
        words_given(line, strlen(cut[i]), &words);
        assert_int_equal(words.length, strlen(cut[i]));
        free(line);
        text_free(&words);
    }
}

/* ASCII's punctuation is a word of its own, without four of it, of which points are where no digit is. */
static void test_symbols(void **state) {
    (void)state;
    for (int c = '!'; c <= '~'; c++) {
        char line[8], wanted[8];
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) continue;
        snprintf(line, sizeof line, "a%cb", c);
        snprintf(wanted, sizeof wanted, c == '\'' || c == '-' ? "a%cb" : "a %c b", c);
        assert_words(words_13a, line, wanted);
        snprintf(line, sizeof line, "1%c2", c);
        snprintf(wanted, sizeof wanted, strchr("'.,", c) ? "1%c2" : "1 %c 2", c);
        assert_words(words_13a, line, wanted);
    }
}

static void test_scores(void **state) {
    (void)state;
    json_t *root = read_goldens(), *corpora = json_object_get(root, "corpora"), *corpus;
    assert_true(json_array_size(corpora) >= 6);
    size_t c;
    json_array_foreach(corpora, c, corpus) {
        json_t *sentences = json_object_get(corpus, "sentences"), *references = json_object_get(corpus, "references");
        struct bleu bleu = {0};
        for (size_t i = 0; i < json_array_size(sentences); i++) {
            assert_ok(bleu_add(&bleu, text_of(sentences, i), text_of(references, i), &test_error));
        }
        double wanted = json_number_value(json_object_get(corpus, "score")), got = bleu_score(&bleu);
        if (!(fabs(wanted - got) <= 1e-9 * (1 + wanted))) fail_msg("corpus %zu: BLEU is %.12g, not %.12g", c, got, wanted);
    }
    json_decref(root);
}

static void test_ends(void **state) {
    (void)state;
    struct bleu bleu = {0};
    assert_true(bleu_score(&bleu) == 0);
    assert_ok(bleu_add(&bleu, "", "a b", &test_error));
    assert_true(bleu_score(&bleu) == 0);
    assert_ok(bleu_add(&bleu, "a b c d e", "a b c d e", &test_error));
    assert_true(bleu_score(&bleu) < 100);
    struct bleu without = {0}; /* no word in common: nothing is smoothed */
    assert_ok(bleu_add(&without, "a b c d e", "v w x y z", &test_error));
    assert_true(bleu_score(&without) == 0);
    /* Where nothing has four words there is no sequence of four, and with one there is. */
    struct bleu brief = {0};
    assert_ok(bleu_add(&brief, "a b c", "a b c", &test_error));
    assert_true(bleu_score(&brief) == 0);
    assert_ok(bleu_add(&brief, "a b c d", "a b c d", &test_error));
    assert_within(bleu_score(&brief), 100, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens), cmocka_unit_test(test_other_words),
                                       cmocka_unit_test(test_blanks), cmocka_unit_test(test_symbols),
                                       cmocka_unit_test(test_scores), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
