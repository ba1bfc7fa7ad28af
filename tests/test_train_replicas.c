/*
 * Stages with replicas, trained: threads give the bits of the serial transport and all replicas of a stage end with the same
 * weights, for every schedule that has replicas and every policy that goes with it; a mini-batch shared among replicas learns
 * what one worker learns from it, to the bit where each replica has one micro-batch and within rounding else; rounds of
 * mini-batches are larger mini-batches; what is recorded does not depend on who computed it.
 */
#include "run_support.h"

static const int layouts[][6] = {{2}, {3}, {2, 1}, {1, 2}, {2, 3}, {1, 2, 1}, {3, 1, 2}};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static struct run_case with_layout(struct run_case wanted, const int layout[6]) {
    memcpy(wanted.replicas, layout, sizeof wanted.replicas);
    return wanted;
}

static void test_threads_equal_serial(void **state) {
    (void)state;
    int runs = 0;
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++) {
            const struct schedule *schedule = schedule_table[s];
            const struct weight_policy *policy = policy_table[p];
            if (!schedule->replicas || schedule->placement || (policy->needs_flush && !schedule->flush)) continue;
            if (policy->group_of_workers && !schedule->flush) continue;
            /* With a flush all policies are alike. */
            if (schedule->flush && strcmp(policy->name, "sync") != 0 && strcmp(policy->name, "stash") != 0) continue;
            struct run_case wanted = {.schedule = schedule->name,
                                      .weights = policy->name,
                                      .optimizer = runs % 3 == 1 && strcmp(policy->name, "spectrain") != 0 ? "adamw" : "sgdm",
                                      .lr_schedule = "cosine",
                                      .lr = 0.01,
                                      .recompute = runs % 4 == 3,
                                      .micro_batches = schedule->flush ? 4 : 1 + runs % 2,
                                      .micro_batch = 2,
                                      .steps = 7,
                                      .evaluate_every = 3,
                                      .valid = "synthetic:images,samples=10"};
            wanted = with_layout(wanted, layouts[runs % LAYOUTS]);
            assert_threads_equal_serial(wanted);
            runs++;
        }
    print_message("%d pairs of runs\n", runs);
    assert_true(runs >= 12);
}

/* Every layout under PipeOptim, in rounds that the segments do not fill. */
static void test_layouts(void **state) {
    (void)state;
    for (int l = 0; l < LAYOUTS; l++) {
        struct run_case wanted = {
            .schedule = "1f1b-async", .weights = "pipeoptim", .steps = 8, .evaluate_every = 5, .micro_batch = 2};
        wanted = with_layout(wanted, layouts[l]);
        assert_threads_equal_serial(wanted);
    }
}

static void test_sync_equals_one_worker(void **state) {
    (void)state;
    static const int equal[][6] = {{2}, {2, 1}, {1, 2}, {2, 2}, {2, 1, 2}};
    for (size_t l = 0; l < sizeof equal / sizeof *equal; l++) {
        struct run_case one = {.schedule = "1f1b", .weights = "sync", .micro_batches = 2, .lr_schedule = "cosine"};
        assert_same_weights(with_layout(one, equal[l]), one);
    }
}

/* The largest difference, as a share of the largest weight. */
static double difference(const struct trained *a, const struct trained *b) {
    double worst = 0, largest = 0;
    for (size_t i = 0; i < a->count; i++) {
        worst = fmax(worst, fabs((double)a->values[i] - (double)b->values[i]));
        largest = fmax(largest, fabs((double)b->values[i]));
    }
    return worst / largest;
}

/* Gradients of a mini-batch are grouped by replica: other sums of the same numbers. */
static void test_sync_within_rounding(void **state) {
    (void)state;
    static const int uneven[][6] = {{2}, {3, 1}, {2, 3}};
    for (size_t l = 0; l < sizeof uneven / sizeof *uneven; l++) {
        struct run_case one = {.schedule = "gpipe", .weights = "sync", .micro_batches = 8, .micro_batch = 2, .steps = 4};
        struct trained a = run_case_weights(with_layout(one, uneven[l])), b = run_case_weights(one);
        assert_true(difference(&a, &b) < 1e-6);
        trained_free(&a);
        trained_free(&b);
    }
}

/* A round of r mini-batches on r replicas of the whole network is one mini-batch of r micro-batches on one worker: r of 2 or 4
 * divides without rounding. */
static void test_rounds_are_larger_batches(void **state) {
    (void)state;
    for (int r = 2; r <= 4; r += 2) {
        struct run_case rounds = {.schedule = "1f1b-async", .weights = "latest", .replicas = {r}, .steps = 4 * r};
        struct run_case larger = {.schedule = "1f1b", .weights = "sync", .micro_batches = r, .steps = 4};
        assert_same_weights(rounds, larger);
    }
}

/* Two directions: the copies stay equal, the bits are those of the serial transport, and the sums those of one worker within
 * rounding (to the bit where each direction has one micro-batch). */
static void test_chimera(void **state) {
    (void)state;
    for (int P = 2; P <= 4; P += 2)
        for (int M = 2; M <= 6; M += 2) {
            struct run_case two = {.schedule = "chimera",
                                   .weights = "sync",
                                   .workers = P,
                                   .micro_batches = M,
                                   .micro_batch = 2,
                                   .valid = "synthetic:images,samples=10",
                                   .evaluate_every = 2,
                                   .recompute = M == 4};
            struct run_case one = two;
            one.schedule = "1f1b";
            one.workers = 1;
            assert_threads_equal_serial(two);
            struct trained a = run_case_weights(two), b = run_case_weights(one);
            assert_true(M > 2 || trained_equal(&a, &b));
            assert_true(difference(&a, &b) < 1e-6);
            trained_free(&a);
            trained_free(&b);
        }
}

/* Running statistics: the mean of the replicas', the same on all. */
static void test_batch_normalization(void **state) {
    (void)state;
    struct run_case wanted = {.model = "resnet,input=8,classes=4",
                              .device = "cpu",
                              .schedule = "1f1b-async",
                              .weights = "pipeoptim",
                              .replicas = {2, 1, 2},
                              .steps = 6,
                              .data = "synthetic:images,samples=64"};
    assert_threads_equal_serial(wanted);
}

/* Losses and accuracies of training and evaluation, and the weights with them. */
static void test_records(void **state) {
    (void)state;
    struct run_case one = {
        .schedule = "1f1b", .weights = "sync", .micro_batches = 2, .steps = 6, .valid = "synthetic:images,samples=30"};
    struct run_case replicated = with_layout(one, (const int[6]){1, 2});
    assert_int_equal(run_case_info(replicated).workers, 3);
    assert_same_records(replicated, one, 1e-12);
    assert_same_weights(replicated, one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_equal_serial),
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_sync_equals_one_worker),
        cmocka_unit_test(test_sync_within_rounding),
        cmocka_unit_test(test_rounds_are_larger_batches),
        cmocka_unit_test(test_batch_normalization),
        cmocka_unit_test(test_chimera),
        cmocka_unit_test(test_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
