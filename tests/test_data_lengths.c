/*
 * Buckets by length: which lengths are taken, how long samples of pairs are, the order of an epoch (every sample once at most,
 * the same ones as without lengths, mini-batches as long as their longest sample), what loaders make of it, and packing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/loader.h"
#include "data/order.h"
#include "support.h"
#include "within.h"

static const struct sequence_length whole = {24, 12};

static void test_parse(void **state) {
    (void)state;
    struct lengths lengths;
    char text[LENGTHS_TEXT];
    assert_ok(lengths_parse("5,8,23", whole, &lengths, &test_error));
    assert_int_equal(lengths.count, 4);
    static const struct sequence_length expected[] = {{5, 3}, {8, 4}, {23, 12}, {24, 12}};
    for (int l = 0; l < 4; l++) {
        assert_int_equal(lengths.at[l].source, expected[l].source);
        assert_int_equal(lengths.at[l].target, expected[l].target);
    }
    assert_string_equal(lengths_text(&lengths, text), "5,8,23");
    static const struct {
        const char *text, *said;
    } wrong[] = {{"", "not a list"},
                 {"8,", "not a list"},
                 {",8", "not a list"},
                 {"8;9", "not a list"},
                 {"8, 9", "not a list"},
                 {"-1", "not a list"},
                 {"99999999999999999999", "not a list"},
                 {"0", "0 is not from 1 to 23"},
                 {"8,24", "24 is not from 1 to 23"},
                 {"8,8", "8 after 8"},
                 {"9,8", "8 after 9"},
                 {"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "at most 15"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(lengths_parse(wrong[i].text, whole, &lengths, &test_error), PS_USAGE, wrong[i].said);
}

/* ------------------------------------------------------------------------------- order */

/* Lengths drawn for so many samples. */
static void draw_lengths(int64_t samples, struct lengths *lengths) {
    assert_ok(lengths_parse("4,8,16", whole, lengths, &test_error));
    lengths->samples = samples;
    lengths->of = calloc((size_t)samples, 1);
    assert_non_null(lengths->of);
    for (int64_t i = 0; i < samples; i++) lengths->of[i] = (uint8_t)random_below(test_key(7), (uint64_t)i, 4);
}

/* How far into the permutation each sample stands. */
static uint32_t *places_of(int64_t samples, uint64_t seed, int64_t epoch) {
    uint32_t *at = calloc((size_t)samples, sizeof *at), *places = calloc((size_t)samples, sizeof *places);
    assert_true(at && places);
    random_permutation(random_key(seed, RANDOM_ORDER, (uint64_t)epoch, 0), at, (size_t)samples);
    for (int64_t i = 0; i < samples; i++) places[at[i]] = (uint32_t)i;
    free(at);
    return places;
}

static void check_epoch(const struct sample_order *order, const struct lengths *lengths) {
    const int64_t batches = sample_order_batches(order);
    uint32_t *places = places_of(order->samples, order->seed, order->epoch);
    bool *seen = calloc((size_t)order->samples, 1);
    int mixed = 0;
    assert_non_null(seen);
    for (int64_t b = 0; b < batches; b++) {
        int shortest = LENGTHS_MAX, longest = 0;
        for (int i = 0; i < order->batch; i++) {
            const uint32_t sample = order->at[b * order->batch + i];
            assert_true(sample < order->samples && !seen[sample]);
            seen[sample] = true;
            /* Those that the permutation without lengths leaves out are left out. */
            assert_true(places[sample] < batches * order->batch);
            const int length = lengths->of[sample];
            if (length < shortest) shortest = length;
            if (length > longest) longest = length;
            if (i == 0 || lengths->of[order->at[b * order->batch + i - 1]] != length) continue;
            assert_true(places[sample] > places[order->at[b * order->batch + i - 1]]);
        }
        assert_int_equal(order->length_of[b], longest);
        mixed += shortest != longest;
    }
    assert_true(mixed < lengths->count);
    free(seen);
    free(places);
}

static void test_order(void **state) {
    (void)state;
    enum { SAMPLES = 203, BATCH = 8, SEED = 5 };
    struct lengths lengths;
    struct sample_order order, again;
    draw_lengths(SAMPLES, &lengths);
    assert_ok(sample_order_create(SAMPLES, BATCH, SEED, &lengths, &order, &test_error));
    assert_ok(sample_order_create(SAMPLES, BATCH, SEED, &lengths, &again, &test_error));
    assert_int_equal(sample_order_batches(&order), SAMPLES / BATCH);
    assert_int_equal(order.memory.used, order.memory.size); /* all of it is needed */
    const size_t used = SAMPLES / BATCH * BATCH * sizeof *order.at;
    bool ascending = true, other = false;
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        sample_order_turn(&order, epoch);
        check_epoch(&order, &lengths);
        for (int b = 1; b < SAMPLES / BATCH; b++) ascending = ascending && order.length_of[b - 1] <= order.length_of[b];
        if (epoch == 2) sample_order_turn(&again, 2);
        if (epoch == 3) other = memcmp(again.at, order.at, used) != 0;
        if (epoch == 2) assert_memory_equal(again.at, order.at, used); /* whatever came before */
    }
    assert_false(ascending);
    assert_true(other);

    double shares[LENGTHS_MAX], sum = 0;
    int count[LENGTHS_MAX] = {0};
    sample_order_turn(&order, 0);
    for (int b = 0; b < SAMPLES / BATCH; b++) count[order.length_of[b]]++;
    assert_ok(sample_order_shares(SAMPLES, BATCH, SEED, &lengths, shares, &test_error));
    for (int l = 0; l < 4; l++) {
        assert_within(shares[l], (double)count[l] / (SAMPLES / BATCH), 1e-12);
        sum += shares[l];
    }
    assert_within(sum, 1, 1e-12);
    sample_order_free(&order);
    sample_order_free(&again);
    lengths_free(&lengths);
}

/* Orders that must never change, or runs would not be the same with another version: with and without lengths. */
static void test_same_everywhere(void **state) {
    (void)state;
    enum { SAMPLES = 14, BATCH = 3 };
    static const uint32_t wanted[2][2][SAMPLES / BATCH * BATCH] = {
        {{10, 1, 8, 2, 5, 3, 12, 9, 13, 0, 4, 6}, {8, 13, 6, 7, 3, 2, 5, 4, 11, 10, 0, 12}},
        {{8, 12, 0, 4, 1, 5, 2, 6, 3, 9, 13, 10}, {6, 2, 10, 7, 3, 11, 12, 13, 5, 8, 4, 0}}};
    uint8_t of[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) of[i] = (uint8_t)(i % 4);
    const struct lengths lengths = {.count = 4, .samples = SAMPLES, .of = of};
    for (int with = 0; with < 2; with++) {
        struct sample_order order;
        assert_ok(sample_order_create(SAMPLES, BATCH, 7, with ? &lengths : NULL, &order, &test_error));
        for (int epoch = 0; epoch < 2; epoch++) {
            sample_order_turn(&order, epoch);
            assert_memory_equal(order.at, wanted[with][epoch], sizeof wanted[with][epoch]);
        }
        sample_order_free(&order);
    }
}

/* ----------------------------------------------------------------- pairs and their loaders */

enum { LINES = 61 };

/* Line n has n % 7 words in the source, n % 5 in the target. */
static void write_pairs(void) {
    char path[4096], text[2][LINES * 16];
    size_t size[2] = {0, 0};
    for (int n = 0; n < LINES; n++)
        for (int side = 0; side < 2; side++) {
            for (int w = 0; w < n % (side == 0 ? 7 : 5); w++) {
                text[side][size[side]++] = (char)('a' + w);
                text[side][size[side]++] = ' ';
            }
            text[side][size[side]++] = '\n';
        }
    test_file_write(file_join(path, test_directory, "p.x"), text[0], size[0]);
    test_file_write(file_join(path, test_directory, "p.y"), text[1], size[1]);
}

static void open_pairs(struct samples *samples, int source, int target) {
    char spec[4200];
    const struct dataset_shape wanted = {.channels = 1,
                                         .height = source + target,
                                         .width = 1,
                                         .classes = 12,
                                         .labels = target,
                                         .vocabulary = 12,
                                         .gives_tokens = true};
    snprintf(spec, sizeof spec, "pairs:%s/p:x:y@1-%d", test_directory, LINES);
    assert_ok(samples_open(spec, DATASET_TRAIN, &wanted, samples, &test_error));
}

static void test_measure(void **state) {
    (void)state;
    struct samples samples;
    struct lengths lengths;
    open_pairs(&samples, 6, 6);
    for (int shorter = 1; shorter < 4; shorter++) {
        char list[8];
        snprintf(list, sizeof list, "%d,4", shorter);
        assert_ok(lengths_parse(list, (struct sequence_length){6, 6}, &lengths, &test_error));
        assert_ok(lengths_measure(&lengths, &samples, "pairs", &test_error));
        assert_int_equal(lengths.samples, LINES - 1);
        for (int n = 1; n < LINES; n++) {
            int source = n % 7 + 1, target = n % 5 + 1, needed = source > target ? source : target;
            assert_int_equal(lengths.of[n - 1], needed <= shorter ? 0 : needed <= 4 ? 1 : 2);
        }
        lengths_free(&lengths);
    }
    samples_close(&samples);
}

/* What two loaders, one that wants tokens and one that wants labels, read of each mini-batch loses nothing but padding by being
 * packed; seeking comes to the same mini-batches. */
static void test_loaders(void **state) {
    (void)state;
    enum { BATCH = 7, SOURCE = 6, TARGET = 6, EPOCHS = 2, BATCHES = (LINES - 1) / BATCH };
    struct samples samples;
    struct lengths lengths;
    struct sample_order order;
    open_pairs(&samples, SOURCE, TARGET);
    assert_ok(lengths_parse("2,4", (struct sequence_length){SOURCE, TARGET}, &lengths, &test_error));
    assert_ok(lengths_measure(&lengths, &samples, "pairs", &test_error));
    assert_ok(sample_order_create(samples.count, BATCH, 3, &lengths, &order, &test_error));
    int seen[3] = {0};
    for (int serial = 0; serial < 2; serial++) {
        struct loader_options options = {
            .samples = &samples, .batch = BATCH, .shuffle = true, .seed = 3, .lengths = &lengths, .ahead = 2, .serial = serial};
        struct loader *loader[2];
        for (int inputs = 0; inputs < 2; inputs++) {
            options.inputs = inputs;
            options.targets = !inputs;
            assert_ok(loader_create(&options, &loader[inputs], &test_error));
            assert_int_equal(loader_batches(loader[inputs]), BATCHES);
            assert_ok(loader_seek(loader[inputs], 3, &test_error));
        }
        for (int64_t number = 3; number < EPOCHS * BATCHES; number++) {
            struct loaded_batch tokens, labels;
            int32_t packed[BATCH * (SOURCE + TARGET)], own[SOURCE + TARGET];
            int32_t packed_labels[BATCH * TARGET], own_labels[TARGET];
            sample_order_turn(&order, number / BATCHES);
            const int length = order.length_of[number % BATCHES];
            const struct sequence_length at = lengths.at[length];
            assert_ok(loader_get(loader[1], number, &tokens, &test_error));
            assert_ok(loader_get(loader[0], number, &labels, &test_error));
            lengths_pack_tokens(&lengths, length, BATCH, tokens.inputs, packed);
            lengths_pack_labels(&lengths, length, BATCH, labels.targets, packed_labels);
            for (int i = 0; i < BATCH; i++) {
                const int64_t sample = samples.first + order.at[number % BATCHES * BATCH + i];
                assert_ok(samples.dataset->class->read(samples.dataset, sample, own, own_labels, &test_error));
                const int32_t *got = packed + i * (at.source + at.target);
                for (int t = 0; t < SOURCE; t++) assert_true(own[t] == (t < at.source ? got[t] : 0));
                for (int t = 0; t < TARGET; t++) {
                    assert_true(own[SOURCE + t] == (t < at.target ? got[at.source + t] : 0));
                    assert_int_equal(own_labels[t], t < at.target ? packed_labels[i * at.target + t] : -1);
                }
            }
            seen[length]++;
            for (int l = 0; l < 2; l++) loader_release(loader[l], number);
        }
        for (int l = 0; l < 2; l++) loader_destroy(loader[l]);
    }
    for (int l = 0; l < 3; l++) assert_true(seen[l] > 0);
    sample_order_free(&order);
    lengths_free(&lengths);
    samples_close(&samples);
}

static int set_up(void **state) {
    int status = test_directory_set_up(state);
    if (status == 0) write_pairs();
    return status;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),   cmocka_unit_test(test_order),   cmocka_unit_test(test_same_everywhere),
        cmocka_unit_test(test_measure), cmocka_unit_test(test_loaders),
    };
    return cmocka_run_group_tests(tests, set_up, test_directory_tear_down);
}
