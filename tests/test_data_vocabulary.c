/* Vocabularies: which tokens are kept and how they are numbered, their file, and what is wrong with damaged ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/vocabulary.h"
#include "support.h"

static struct vocabulary *make(const char *words, int size) {
    struct vocabulary *vocabulary = vocabulary_create(&test_error);
    assert_non_null(vocabulary);
    while (*words) {
        size_t length = strcspn(words, " ");
        assert_ok(vocabulary_count(vocabulary, words, length, &test_error));
        words += length + (words[length] == ' ');
    }
    assert_ok(vocabulary_finish(vocabulary, size, &test_error));
    return vocabulary;
}

static void test_numbers(void **state) {
    (void)state;
    struct vocabulary *v = make("b a c a d d a <unk> e", 7);
    assert_int_equal(vocabulary_size(v), 7);
    assert_string_equal(vocabulary_token(v, VOCABULARY_PADDING), "<pad>");
    assert_string_equal(vocabulary_token(v, VOCABULARY_END), "</s>");
    assert_int_equal(vocabulary_find(v, "a", 1), 4);
    assert_int_equal(vocabulary_find(v, "d", 1), 5);
    assert_int_equal(vocabulary_find(v, "b", 1), 6); /* as frequent as c and e, and before them */
    assert_int_equal(vocabulary_find(v, "c", 1), VOCABULARY_UNKNOWN);
    assert_int_equal(vocabulary_find(v, "", 0), VOCABULARY_UNKNOWN);
    vocabulary_destroy(v);
    v = vocabulary_create(&test_error);
    assert_status(vocabulary_finish(v, 4, &test_error), PS_USAGE, "at least 5");
    assert_status(vocabulary_finish(v, 4, &test_error), PS_USAGE, "option vocab=");
    vocabulary_destroy(v);
}

/* More tokens than the first table holds. */
static void test_many(void **state) {
    (void)state;
    struct vocabulary *v = vocabulary_create(&test_error);
    char token[16];
    for (int times = 0; times < 2; times++) {
        for (int i = 0; i < 20000 - times; i++) {
            int length = snprintf(token, sizeof token, "t%05d", i);
            assert_ok(vocabulary_count(v, token, (size_t)length, &test_error));
        }
    }
    assert_ok(vocabulary_finish(v, 1 << 20, &test_error));
    assert_int_equal(vocabulary_size(v), 20004);
    for (int i = 0; i < 20000; i++) {
        int length = snprintf(token, sizeof token, "t%05d", i);
        assert_int_equal(vocabulary_find(v, token, (size_t)length), i + 4);
    }
    vocabulary_destroy(v);
}

static void test_file(void **state) {
    (void)state;
    char directory[4096], path[4096];
    test_directory_make(directory);
    file_join(path, directory, "vocabulary.json");
    struct vocabulary *source = make("x \xc3\xa4\" \\ x", 100), *target = make("y", 100), *got[2] = {NULL, NULL};
    assert_ok(vocabulary_write(path, (const struct vocabulary *const[]){source, target}, &test_error));
    assert_ok(vocabulary_read(path, got, &test_error));
    assert_int_equal(vocabulary_size(got[0]), 7);
    assert_int_equal(vocabulary_find(got[0], "\xc3\xa4\"", 3), vocabulary_find(source, "\xc3\xa4\"", 3));
    assert_string_equal(vocabulary_token(got[1], 4), "y");
    vocabulary_destroy(got[0]);
    vocabulary_destroy(got[1]);
    assert_ok(vocabulary_write(path, (const struct vocabulary *const[]){target, NULL}, &test_error));
    assert_ok(vocabulary_read(path, got, &test_error));
    assert_null(got[1]);
    vocabulary_destroy(got[0]);
    static const char *const damaged[][2] = {
        {"{\"format\": \"penstock-vocabulary\", \"version\": 1}", "tokens"},
        {"{\"format\": \"penstock-vocabulary\", \"version\": 1, \"tokens\": [\"a\"]}", "first four"},
        {"{\"format\": \"penstock-vocabulary\", \"version\": 1, \"tokens\": [\"<pad>\", \"<unk>\", \"<s>\", \"</s>\", 7]}",
         "tokens[4]"},
        {"{\"format\": \"penstock-vocabulary\", \"version\": 1, \"tokens\": [\"<pad>\", \"<unk>\", \"<s>\", \"</s>\", "
         "\"<s>\"]}",
         "duplicate"},
        {"{\"format\": \"penstock-plan\", \"version\": 1}", "penstock-vocabulary"},
    };
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_ok(file_write(path, damaged[i][0], strlen(damaged[i][0]), &test_error));
        assert_status(vocabulary_read(path, got, &test_error), PS_BAD_INPUT, damaged[i][1]);
    }
    vocabulary_destroy(source);
    vocabulary_destroy(target);
    test_directory_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
