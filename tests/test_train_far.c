/*
 * Training on devices with queues and memory of their own. The weights are those of the cpu, whatever the delays. Devices that
 * wait for no moment are found out with every schedule and policy: so the moments of transfers, sums and messages are all
 * there, and all needed.
 */
#include "run_support.h"

static const struct {
    const char *schedule, *weights, *optimizer, *model;
    int workers, micro_batches, replicas[6];
    double clip;
} cases[] = {
    {"1f1b", "sync", "sgdm", NULL, 3, 4, {0}, 0.5},
    {"gpipe", "sync", "adam", NULL, 2, 4, {0}, 0},
    {"1f1b-async", "stash", "sgdm", NULL, 3, 1, {0}, 0},
    {"1f1b-async", "pipeoptim", "adam", NULL, 4, 1, {0}, 0},
    {"1f1b-async", "xpipe", "sgdm", NULL, 3, 2, {0}, 0},
    {"zb-v", "sync", "adam", NULL, 2, 4, {0}, 0},
    {"interleaved", "sync", "sgdm", NULL, 2, 4, {0}, 0},
    {"1f1b", "sync", "adam", NULL, 0, 4, {2, 1, 2}, 0},
    {"1f1b", "sync", "adamw", "gpt2,layers=2,width=16,heads=2,seq=8,vocab=11,tied=1", 2, 2, {0}, 0.3},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct run_case case_of(int c, const char *device) {
    struct run_case wanted = {.schedule = cases[c].schedule,
                              .weights = cases[c].weights,
                              .optimizer = cases[c].optimizer,
                              .model = cases[c].model,
                              .workers = cases[c].workers,
                              .micro_batches = cases[c].micro_batches,
                              .clip = cases[c].clip,
                              .device = device,
                              .steps = 6,
                              .evaluate_every = 3,
                              .lr = 0.01,
                              .data = "synthetic:images,samples=192"};
    memcpy(wanted.replicas, cases[c].replicas, sizeof wanted.replicas);
    if (cases[c].model) wanted.data = "synthetic:tokens,samples=48";
    wanted.valid = cases[c].model ? "synthetic:tokens,samples=8" : "synthetic:images,samples=8";
    return run_case_complete(wanted);
}

static void test_same_weights(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        print_message("%s, %s\n", cases[c].schedule, cases[c].weights);
        for (int seed = 1; seed <= 2; seed++) {
            setenv("PENSTOCK_FAR_SEED", seed == 1 ? "1" : "2", 1);
            setenv("PENSTOCK_FAR_DELAY_MS", seed == 1 ? "0.2" : "2", 1);
            assert_same_weights(case_of(c, "cpu"), case_of(c, "far"));
        }
    }
    unsetenv("PENSTOCK_FAR_SEED");
    unsetenv("PENSTOCK_FAR_DELAY_MS");
}

/* The message ends with the device's worker and an instruction of the worker's stage: "(device far of worker 0; last
 * instruction reached: 0F3...)". */
static void check_place(const struct ps_error *error, const struct run_case *wanted) {
    const char *place = strstr(error->message, " (device far of worker ");
    int worker = -1, stage = -1, micro_batch = -1, end = 0;
    char operation;
    assert_non_null(place);
    assert_int_equal(sscanf(place, " (device far of worker %d; last instruction reached: %d%c%d%*[^)])%n", &worker, &stage,
                            &operation, &micro_batch, &end),
                     4);
    assert_true(worker >= 0 && worker < wanted->workers && stage >= 0 && micro_batch >= 0);
    assert_non_null(strchr("FBIWRUP", operation));
    assert_int_equal(place[end], '\0');
}

static void test_no_moment_can_be_missing(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* work that waits for nothing races, as this test wants it to */
#endif
    setenv("PENSTOCK_FAR_FORGET", "1", 1);
    for (int c = 0; c < CASES; c++) {
        char directory[4096], plan_path[4096];
        struct run_case wanted = case_of(c, "far");
        struct training options = run_case_planned(&wanted, directory, plan_path);
        struct ps_run *run = NULL;
        print_message("%s, %s\n", cases[c].schedule, cases[c].weights);
        struct ps_error error = {0};
        assert_int_equal(training_run(&options, &run, &error), PS_FAILED);
        assert_non_null(strstr(error.message, "does not wait for"));
        check_place(&error, &wanted);
        test_directory_remove(directory);
    }
    unsetenv("PENSTOCK_FAR_FORGET");
}

/* Losses are read later than they are made; the step that they belong to is named all the same. */
static void test_late_loss(void **state) {
    (void)state;
    char directory[4096], plan_path[4096];
    struct ps_error error[2] = {{0}};
    for (int far = 0; far < 2; far++) {
        struct run_case wanted = case_of(2, far ? "far" : "cpu");
        wanted.lr = 1e5;
        wanted.steps = 12;
        struct training options = run_case_planned(&wanted, directory, plan_path);
        struct ps_run *run = NULL;
        assert_int_equal(training_run(&options, &run, &error[far]), PS_FAILED);
        test_directory_remove(directory);
    }
    assert_non_null(strstr(error[0].message, "the loss became"));
    assert_string_equal(error[0].message, error[1].message);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_weights), cmocka_unit_test(test_no_moment_can_be_missing),
                                       cmocka_unit_test(test_late_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
