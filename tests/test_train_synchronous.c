/*
 * Synchronous training: every schedule that flushes gives the weights of one worker with the same micro-batches bit for bit, on
 * any number of workers, with or without recomputation, on either transport; and again when repeated.
 */
#include "run_support.h"

static const char *const transports[] = {"threads", "serial"};

static void assert_same(struct run_case wanted, const struct trained *oracle) {
    char text[160];
    struct trained got = run_case_weights(wanted);
    bool same = trained_equal(&got, oracle);
    if (!same) print_message("%s\n", run_case_text(&wanted, text));
    trained_free(&got);
    assert_true(same);
}

static void check_model(struct run_case base) {
    static const int workers[] = {1, 2, 3, 5};
    base.schedule = "gpipe";
    base.weights = "sync";
    base.workers = 1;
    base = run_case_complete(base);
    struct trained oracle = run_case_weights(base);
    int runs = 0, layers = run_case_layers(&base);
    for (size_t w = 0; w < sizeof workers / sizeof *workers; w++)
        for (size_t s = 0; schedule_table[s]; s++) {
            base.schedule = schedule_table[s]->name;
            base.workers = workers[w];
            if (!schedule_table[s]->flush || run_case_stages(&base) > layers) continue;
            if (schedule_replicas(schedule_table[s]) > 1) continue; /* sums of other groups: see test_train_replicas.c */
            base.transport = transports[(w + s) % 2];
            base.recompute = (w + s) % 3 == 1;
            assert_same(base, &oracle);
            runs++;
        }
    assert_true(runs >= 16);
    /* Training has changed something, and the seed matters. */
    base.schedule = "1f1b";
    base.workers = 2;
    base.seed = 1;
    struct trained other = run_case_weights(base);
    assert_int_equal(other.count, oracle.count);
    assert_memory_not_equal(other.values, oracle.values, oracle.count * sizeof *oracle.values);
    trained_free(&other);
    trained_free(&oracle);
}

static void test_lenet5(void **state) {
    (void)state;
    check_model((struct run_case){.micro_batches = 4, .micro_batch = 4, .steps = 6});
}

static void test_lenet5_adam(void **state) {
    (void)state;
    check_model((struct run_case){.micro_batches = 3,
                                  .micro_batch = 4,
                                  .steps = 4,
                                  .optimizer = "adamw",
                                  .lr = 1e-3,
                                  .evaluate_every = 3,
                                  .weight_decay = 0.1});
}

static void test_resnet(void **state) {
    (void)state;
    check_model((struct run_case){.model = "resnet,input=8,classes=4",
                                  .micro_batches = 2,
                                  .micro_batch = 4,
                                  .steps = 3,
                                  .data = "synthetic:images,samples=16"});
}

/* Against one worker; with recomputation in half of them. */
static void check_every_schedule(struct run_case base, int workers) {
    struct trained oracle = run_case_weights(base);
    base.workers = workers;
    for (int s = 0; schedule_table[s]; s++) {
        if (!schedule_table[s]->flush || schedule_replicas(schedule_table[s]) > 1) continue;
        base.schedule = schedule_table[s]->name;
        base.transport = transports[s % 2];
        base.recompute = s % 4 < 2;
        assert_same(base, &oracle);
    }
    trained_free(&oracle);
}

/* The device that runs are made on: its own layouts and threads, dropout, evaluation in between. */
static void test_cpu_device(void **state) {
    (void)state;
    struct run_case base = {.device = "cpu",
                            .model = TEST_DIRECTORY "/networks/dropout.json",
                            .micro_batches = 2,
                            .micro_batch = 2,
                            .steps = 2,
                            .evaluate_every = 1,
                            .data = "synthetic:images,samples=8",
                            .valid = "synthetic:images,samples=7"};
    check_every_schedule(base, 3);
    base.model = "resnet,input=8,classes=4";
    check_every_schedule(base, 2);
}

/* What crosses the cuts is in part f32, in part bf16. */
static void test_mixed(void **state) {
    (void)state;
    static const char *const models[] = {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20,precision=mixed",
                                         "residual_lstm,layers=2,hidden=8,seq=6,vocab=20,precision=mixed"};
    for (int m = 0; m < 2; m++) {
        struct run_case base = {.device = "cpu",
                                .model = models[m],
                                .optimizer = "adam",
                                .micro_batches = 2,
                                .micro_batch = 2,
                                .steps = 3,
                                .data = "synthetic:tokens,samples=8"};
        check_every_schedule(base, 3);
    }
}

/* A mini-batch in one piece or in several is the same gradient up to rounding: the weights come close. */
static void test_micro_batches_agree(void **state) {
    (void)state;
    struct trained whole = run_case_weights((struct run_case){.micro_batch = 16, .steps = 8});
    struct trained parts = run_case_weights((struct run_case){.micro_batch = 4, .micro_batches = 4, .steps = 8, .workers = 2});
    double most = 0;
    for (size_t i = 0; i < whole.count; i++) most = fmax(most, fabs((double)whole.values[i] - (double)parts.values[i]));
    assert_true(most > 0 && most < 1e-4);
    trained_free(&whole);
    trained_free(&parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet5),     cmocka_unit_test(test_lenet5_adam), cmocka_unit_test(test_resnet),
        cmocka_unit_test(test_cpu_device), cmocka_unit_test(test_mixed),       cmocka_unit_test(test_micro_batches_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
