/* The generator against the known answers that its authors publish (Random123, kat_vectors), and the shapes of what is made of
 * it. */
#include "support.h"

#include <math.h>
#include <string.h>

static void known_answers(void **state) {
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], wanted[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t *counter = cases[i].counter;
        struct random_key key = {{cases[i].key[0], cases[i].key[1], counter[2], counter[3]}};
        uint32_t words[4];
        random_block(key, (uint64_t)counter[1] << 32 | counter[0], words);
        assert_memory_equal(words, cases[i].wanted, sizeof words);
    }
}

/* Many blocks at once are the blocks one by one, also where the counter's low half ends. */
static void blocks_are_the_same_together(void **state) {
    (void)state;
    static const uint64_t firsts[] = {0, RANDOM_LANES, 0xffffffffu - RANDOM_LANES + 1, (uint64_t)1 << 32, (uint64_t)77 << 40};
    struct random_key key = test_key(9);
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
        uint32_t together[4][RANDOM_LANES], words[4];
        random_blocks(key, firsts[f], together);
        for (uint64_t lane = 0; lane < RANDOM_LANES; lane++) {
            random_block(key, firsts[f] + lane, words);
            for (int w = 0; w < 4; w++) assert_int_equal(together[w][lane], words[w]);
        }
    }
}

static void uniform_fills_its_range_evenly(void **state) {
    (void)state;
    enum { COUNT = 100000, BINS = 20 };
    struct random_key key = test_key(1);
    int bins[BINS] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        float value = random_uniform(key, i);
        assert_true(value >= 0 && value < 1);
        bins[(int)(value * BINS)]++;
    }
    double chi = 0, wanted = (double)COUNT / BINS;
    for (int i = 0; i < BINS; i++) chi += (bins[i] - wanted) * (bins[i] - wanted) / wanted;
    /* 19 degrees of freedom: one seed in ten million is above 67. */
    assert_true(chi < 67);
}

static void normal_has_its_moments(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    struct random_key key = test_key(2);
    double sum = 0, square = 0, fourth = 0, neighbours = 0, before = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double value = random_normal(key, i);
        assert_true(isfinite(value));
        sum += value;
        square += value * value;
        fourth += value * value * value * value;
        neighbours += value * before;
        before = value;
    }
    /* Six standard deviations each. */
    double root = sqrt(COUNT);
    assert_true(fabs(sum / COUNT) < 6 / root);
    assert_true(fabs(square / COUNT - 1) < 6 * sqrt(2) / root);
    assert_true(fabs(fourth / COUNT - 3) < 6 * sqrt(96) / root);
    assert_true(fabs(neighbours / COUNT) < 6 / root);
}

static void below_stays_below_and_reaches_all(void **state) {
    (void)state;
    struct random_key key = test_key(3);
    int seen[7] = {0};
    for (uint64_t i = 0; i < 7000; i++) {
        uint64_t value = random_below(key, i, 7);
        assert_true(value < 7);
        seen[value]++;
    }
    for (int i = 0; i < 7; i++) assert_in_range(seen[i], 800, 1200);
    assert_int_equal(random_below(key, 5, 1), 0);
    assert_true(random_below(key, 5, UINT64_MAX) > 0);
}

static void permutation_holds_each_once(void **state) {
    (void)state;
    static const size_t counts[] = {0, 1, 2, 3, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint32_t order[1000];
        bool seen[1000] = {false};
        random_permutation(test_key(4), order, counts[c]);
        size_t in_place = 0;
        for (size_t i = 0; i < counts[c]; i++) {
            assert_true(order[i] < counts[c] && !seen[order[i]]);
            seen[order[i]] = true;
            in_place += order[i] == i;
        }
        if (counts[c] == 1000) assert_true(in_place < 15);
    }
}

/* Every order of three comes equally often: a shuffle that draws from the wrong range fails here. */
static void permutations_are_equally_likely(void **state) {
    (void)state;
    enum { COUNT = 12000 };
    int seen[27] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        uint32_t order[3];
        random_permutation(random_key(test_seed(), RANDOM_TEST, 5, i), order, 3);
        seen[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    static const int orders[] = {5, 7, 11, 15, 19, 21}; /* 012 021 102 120 201 210, base 3 */
    for (size_t i = 0; i < 6; i++) assert_in_range(seen[orders[i]], COUNT / 6 - 250, COUNT / 6 + 250);
}

static void keys_differ_in_every_part(void **state) {
    (void)state;
    struct random_key keys[] = {
        random_key(0, RANDOM_ORDER, 0, 0),          random_key(1, RANDOM_ORDER, 0, 0),
        random_key(1ull << 32, RANDOM_ORDER, 0, 0), random_key(0, RANDOM_DROPOUT, 0, 0),
        random_key(0, RANDOM_ORDER, 1, 0),          random_key(0, RANDOM_ORDER, 0, 1),
        random_key(0, RANDOM_ORDER, 1ull << 32, 0), random_key(0, RANDOM_ORDER, 0, 1ull << 32),
        random_key_named(0, RANDOM_ORDER, "a"),     random_key_named(0, RANDOM_ORDER, "b"),
        random_key_named(0, RANDOM_ORDER, ""),
    };
    size_t count = sizeof keys / sizeof keys[0];
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) assert_memory_not_equal(&keys[i], &keys[j], sizeof keys[i]);
    }
    struct random_key again = random_key_named(0, RANDOM_ORDER, "a");
    assert_memory_equal(&again, &keys[8], sizeof again);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(blocks_are_the_same_together),
        cmocka_unit_test(uniform_fills_its_range_evenly),
        cmocka_unit_test(normal_has_its_moments),
        cmocka_unit_test(below_stays_below_and_reaches_all),
        cmocka_unit_test(permutation_holds_each_once),
        cmocka_unit_test(permutations_are_equally_likely),
        cmocka_unit_test(keys_differ_in_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
