/*
 * Every schedule runs for real: threads give the bits of the one-thread transport, with several stages on a worker as with one,
 * through segments with evaluation between them.
 */
#include "run_support.h"

static void check_schedule(const char *schedule, int workers, const char *weights) {
    struct run_case base = {.schedule = schedule,
                            .weights = weights,
                            .workers = workers,
                            .micro_batch = 2,
                            .micro_batches = 6,
                            .steps = 8,
                            .evaluate_every = 5,
                            .lr = 0.01,
                            .data = "synthetic:images,samples=96",
                            .valid = "synthetic:images,samples=7",
                            .transport = "serial"};
    struct trained serial = run_case_weights(base);
    base.transport = "threads";
    struct trained threads = run_case_weights(base);
    if (!trained_equal(&threads, &serial)) fail_msg("%s %s", schedule, weights);
    trained_free(&threads);
    trained_free(&serial);
}

static void test_threads_and_serial_agree(void **state) {
    (void)state;
    static const char *const weights[] = {"stash", "2bw", "pipeoptim", "xpipe"};
    for (int s = 0; schedule_table[s]; s++)
        for (int w = 0; w < 4; w++) {
            if (!test_takes((size_t)(s + w), 4)) continue;
            check_schedule(schedule_table[s]->name, schedule_replicas(schedule_table[s]) > 1 ? 4 : 3, weights[w]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_and_serial_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
