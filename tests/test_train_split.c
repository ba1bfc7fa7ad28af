/*
 * Stages whose forwards and backwards run on different workers, trained: threads give the bits of the serial transport for
 * every schedule that has such stages and every policy; with a flush the bits of one worker, with recomputation and batch
 * normalisation too, and with the last stage split; what is recorded is the same.
 */
#include "run_support.h"

enum { LENET_LAYERS = 7 };

static struct split_case draw(uint64_t number) {
    struct random_key key = test_key(number);
    uint64_t drawn = 0;
    struct split_case split;
    do {
        split = (struct split_case){.layers = LENET_LAYERS, .workers = 2 + (int)random_below(key, drawn++, 3)};
        split_direction(key, &drawn, &split, split.forward);
        split_direction(key, &drawn, &split, split.backward);
    } while (memcmp(split.forward, split.backward, sizeof split.forward) == 0);
    return split;
}

static void test_threads_equal_serial(void **state) {
    (void)state;
    int runs = 0;
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++) {
            const struct schedule *schedule = schedule_table[s];
            const struct weight_policy *policy = policy_table[p];
            if (!schedule->split || (policy->needs_flush && !schedule->flush)) continue;
            struct split_case split = draw((uint64_t)runs);
            struct run_case wanted = {.schedule = schedule->name,
                                      .weights = policy->name,
                                      .optimizer = runs % 3 == 1 && strcmp(policy->name, "spectrain") != 0 ? "adamw" : "sgdm",
                                      .lr_schedule = "cosine",
                                      .lr = 0.01,
                                      .split = &split,
                                      .recompute = runs % 4 == 3,
                                      .micro_batches = policy->group_of_workers ? 7 : 1 + runs % 3,
                                      .micro_batch = 2,
                                      .steps = 7,
                                      .evaluate_every = 3,
                                      .valid = "synthetic:images,samples=10"};
            assert_threads_equal_serial(wanted);
            runs++;
        }
    print_message("%d pairs of runs\n", runs);
    assert_true(runs >= 20);
}

static void test_sync_equals_one_worker(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 8; i++) {
        struct split_case split = draw(100 + i);
        struct run_case one = {.schedule = "1f1b",
                               .weights = "sync",
                               .micro_batches = 4,
                               .micro_batch = 2,
                               .steps = 6,
                               .evaluate_every = 4,
                               .optimizer = i % 2 ? "adamw" : "sgdm",
                               .lr_schedule = "cosine",
                               .lr = 0.01,
                               .recompute = i % 3 == 1};
        struct run_case divided = one;
        divided.split = &split;
        if (i % 4 == 3) divided.schedule = "gpipe";
        assert_same_weights(divided, one);
    }
}

/* Running statistics are made and kept where the forwards run. */
static void test_batch_normalization(void **state) {
    (void)state;
    static const struct split_case split = {.layers = 14,
                                            .workers = 3,
                                            .forward = {0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2},
                                            .backward = {0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}};
    struct run_case one = {.model = "resnet,input=8,classes=4",
                           .device = "cpu",
                           .schedule = "1f1b",
                           .micro_batches = 2,
                           .steps = 6,
                           .data = "synthetic:images,samples=64"};
    struct run_case divided = one;
    divided.split = &split;
    assert_same_weights(divided, one);
}

/* Losses and accuracies, where the last stage's forward and backward lie apart. */
static void test_records(void **state) {
    (void)state;
    static const struct split_case split = {
        .layers = LENET_LAYERS, .workers = 2, .forward = {0, 0, 0, 0, 0, 0, 1}, .backward = {0, 0, 0, 0, 0, 0, 0}};
    struct run_case one = {
        .schedule = "1f1b", .weights = "sync", .micro_batches = 2, .steps = 6, .valid = "synthetic:images,samples=30"};
    struct run_case divided = one;
    divided.split = &split;
    assert_int_equal(run_case_info(divided).workers, 2);
    assert_same_records(divided, one, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_equal_serial),
        cmocka_unit_test(test_sync_equals_one_worker),
        cmocka_unit_test(test_batch_normalization),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
