/* Tokens and BLEU scores against sacrebleu's: golden/make_bleu.py made the numbers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "data/corpus.h"
#include "eval/bleu.h"
#include "support.h"

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
    assert_words(words_given, "  a@@ b\t c. ", "a@@ b c.");
    const char *place = "ab  c ", *word;
    assert_int_equal(words_next(&place, &word), 2);
    assert_int_equal(words_next(&place, &word), 1);
    assert_int_equal(*word, 'c');
    assert_int_equal(words_next(&place, &word), 0);
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
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens), cmocka_unit_test(test_other_words),
                                       cmocka_unit_test(test_scores), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
