/* Decoding, a token at a time; and what the system says of this process's memory. */
#include <stdlib.h>
#include <string.h>

#include "base/shared_block.h"
#include "data/vocabulary.h"
#include "descriptors.h"
#include "exec/decoding.h"
#include "exec/process_memory.h"
#include "support.h"

enum { SAMPLES = 3, POSITIONS = 3, CLASSES = 7, LENGTH = 5 };

/* Padding and the start are never written, however probable; of equal ones it is the first. */
static void test_best(void **state) {
    (void)state;
    static const struct {
        float probability[CLASSES];
        int best;
    } cases[] = {
        {{9, 1, 9, 2, 3, 4, 3}, 5},
        {{9, 5, 9, 4, 5, 5, 5}, VOCABULARY_UNKNOWN},
        {{9, 1, 9, 2, 2, 2, 2}, VOCABULARY_END},
        {{9, 1, 9, 2, 2, 2, 3}, CLASSES - 1},
        {{0, 0, 1, 0, 0, 0, 0}, VOCABULARY_UNKNOWN},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        assert_int_equal(decoding_best(cases[c].probability, CLASSES), cases[c].best);
    assert_int_equal(decoding_best(cases[3].probability, CLASSES - 1), VOCABULARY_END);
}

/* What the decoder reads: the start, the tokens before the position, padding. Samples behind the last stay as they are. */
static void test_put(void **state) {
    (void)state;
    int32_t tokens[SAMPLES * POSITIONS] = {10, 11, 12, 20, 21, 22, 30, 31, 32}, data[2 * LENGTH];
    struct decoding decoding = {.tokens = tokens, .samples = SAMPLES, .positions = POSITIONS, .classes = CLASSES};
    static const int32_t wanted[POSITIONS][2 * LENGTH] = {
        {-1, -1, VOCABULARY_START, VOCABULARY_PADDING, VOCABULARY_PADDING, -1, -1, VOCABULARY_START, VOCABULARY_PADDING,
         VOCABULARY_PADDING},
        {-1, -1, VOCABULARY_START, 10, VOCABULARY_PADDING, -1, -1, VOCABULARY_START, 20, VOCABULARY_PADDING},
        {-1, -1, VOCABULARY_START, 10, 11, -1, -1, VOCABULARY_START, 20, 21},
    };
    for (int p = 0; p < POSITIONS; p++) {
        memset(data, -1, sizeof data);
        decoding.position = p;
        decoding_put(&decoding, 0, 2, LENGTH, data);
        assert_memory_equal(data, wanted[p], sizeof data);
    }
    static const int32_t last[2 * LENGTH] = {-1, -1, VOCABULARY_START, 30, 31, -1, -1, -1, -1, -1};
    memset(data, -1, sizeof data);
    decoding_put(&decoding, 2, 2, LENGTH, data);
    assert_memory_equal(data, last, sizeof data);
    memset(data, -1, sizeof data);
    decoding_put(&decoding, 3, 2, LENGTH, data);
    for (int i = 0; i < 2 * LENGTH; i++) assert_int_equal(data[i], -1);
}

/* Of two samples, the second of which is behind the last, at one position after the other. */
static void test_take(void **state) {
    (void)state;
    int32_t tokens[SAMPLES * POSITIONS] = {0};
    float probabilities[2 * POSITIONS * CLASSES] = {0};
    struct decoding decoding = {.tokens = tokens, .samples = SAMPLES, .positions = POSITIONS, .classes = CLASSES};
    static const int words[2][POSITIONS] = {{4, 6, VOCABULARY_END}, {5, VOCABULARY_END, 4}};
    for (int s = 0; s < 2; s++)
        for (int p = 0; p < POSITIONS; p++) probabilities[(s * POSITIONS + p) * CLASSES + words[s][p]] = 1;
    for (int p = 0; p < POSITIONS; p++) {
        decoding.position = p;
        decoding_take(&decoding, 0, 2, probabilities);
    }
    static const int32_t two[] = {4, 6, VOCABULARY_END, 5, VOCABULARY_END, 4, 0, 0, 0};
    assert_memory_equal(tokens, two, sizeof tokens);
    assert_false(decoding_ended(&decoding));
    decoding.position = 0;
    decoding_take(&decoding, 2, 2, probabilities);
    static const int32_t three[] = {4, 6, VOCABULARY_END, 5, VOCABULARY_END, 4, 4, 0, 0};
    assert_memory_equal(tokens, three, sizeof tokens);
    assert_false(decoding_ended(&decoding));
    tokens[6] = VOCABULARY_END;
    assert_true(decoding_ended(&decoding));
    tokens[2] = 4;
    assert_false(decoding_ended(&decoding));
    tokens[0] = VOCABULARY_END;
    assert_true(decoding_ended(&decoding));
}

/* Other processes' blocks are those that are mapped here and are not this one's own. */
static void test_process_memory(void **state) {
    (void)state;
    enum { OWN = 3 << 20, OTHER = 5 << 20, PRIVATE = 64 << 20 };
    struct shared_block own, other;
    const int descriptors = open_descriptors();
    const struct process_memory before = process_memory_read(NULL);
    if (before.now == 0) skip();
    assert_true(before.peak > before.of_code / 2 && before.now > before.of_code && before.of_code > 0);
    assert_int_equal(before.others, 0);
    assert_ok(shared_block_take(&own, OWN, true, "a test", &test_error));
    assert_ok(shared_block_take(&other, OTHER, true, "a test", &test_error));
    memset(own.memory.base, 1, OWN);
    memset(other.memory.base, 1, OTHER);
    assert_int_equal(process_memory_read(own.memory.base).others, OTHER);
    assert_int_equal(process_memory_read(other.memory.base).others, OWN);
    assert_int_equal(process_memory_read(NULL).others, 0);
    shared_block_release(&other);
    assert_int_equal(process_memory_read(own.memory.base).others, 0);
    shared_block_release(&own);
    char *taken = malloc(PRIVATE);
    assert_non_null(taken);
    memset(taken, 1, PRIVATE);
    const struct process_memory more = process_memory_read(NULL);
    assert_true(more.now - before.now > PRIVATE / 2 && more.now - before.now < 2 * PRIVATE);
    /* The system counts in batches: the peak may lie a little below what there is. */
    assert_true(more.peak > more.now / 2 + PRIVATE / 4 && taken[PRIVATE - 1] == 1);
    free(taken);
    assert_true(process_memory_read(NULL).peak >= more.peak);
    assert_int_equal(open_descriptors(), descriptors);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_take),
        cmocka_unit_test(test_process_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
