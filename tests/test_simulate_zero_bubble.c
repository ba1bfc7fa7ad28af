/*
 * Zero-bubble schedules against the figures of their paper (Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, 2023,
 * tables 1 and 2 and section 6): the bubble of a stage and the micro-batches that it holds. As there, mini-batches follow each
 * other without waiting for all stages' updates, so that the bubble is what the period is longer than the work of a worker.
 */
#include <math.h>
#include <stdlib.h>

#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"

enum { WORKERS_MAX = 16, STAGES_MAX = 2 * WORKERS_MAX };

/* Of one worker for one micro-batch, binary fractions: sums are exact. */
struct times {
    double forward_s, input_s, weights_s;
};

static const struct times equal = {1, 1, 1};

static double period(const struct ps_programs *programs, const struct times *times) {
    struct stage_cost costs[STAGES_MAX] = {0};
    int share = programs->stages / programs->workers;
    for (int s = 0; s < programs->stages; s++)
        costs[s].time = (struct layer_times){.forward_s = times->forward_s / share,
                                             .backward_input_s = times->input_s / share,
                                             .backward_weight_s = times->weights_s / share};
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = programs->workers};
    struct ps_cluster *cluster;
    struct ps_simulation *simulation;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    double period_s = simulation->info.period_s;
    ps_simulation_destroy(simulation);
    ps_cluster_destroy(cluster);
    return period_s;
}

static struct ps_programs *lower(const char *schedule, int workers, int micro_batches, int batches) {
    struct ps_programs *programs;
    assert_ok(lower_plain(schedule, "sync", workers, micro_batches, batches, &programs));
    return programs;
}

/* By how much a mini-batch is predicted to take longer than its work. */
static double bubble(const char *schedule, int workers, int micro_batches, const struct times *times) {
    const struct schedule *found;
    assert_ok(schedule_find(schedule, &found, &test_error));
    struct ps_programs *programs =
        lower(schedule, workers, micro_batches, simulate_enough_batches(found, workers, micro_batches));
    double period_s = period(programs, times);
    ps_programs_destroy(programs);
    return period_s - micro_batches * (times->forward_s + times->input_s + times->weights_s);
}

/* The most stashes that any worker holds of all its stages together. */
static int most_held(const char *schedule, int workers, int micro_batches) {
    struct ps_programs *programs = lower(schedule, workers, micro_batches, 2);
    int most = 0;
    for (int w = 0; w < workers; w++) {
        int held = 0, peak = 0;
        for (int i = 0; i < programs->worker[w].count; i++) {
            const struct instruction *instruction = &programs->worker[w].code[i];
            held += instruction->op == OP_F;
            held -= instruction_adds_gradients(instruction);
            if (held > peak) peak = held;
        }
        if (peak > most) most = peak;
    }
    for (int s = 0; s < programs->stages; s++) {
        assert_true(programs->slots[s].stash <= most);
        assert_true(programs->slots[s].delta <= programs->slots[s].stash);
    }
    ps_programs_destroy(programs);
    return most;
}

/* 1F1B (P-1)(F+I+W), ZB-H1 (P-1)(F+I-W), ZB-H2 (P-1)(F+I-2W), ZB-V none: at equal times, from 2P micro-batches on. */
static void test_bubbles(void **state) {
    (void)state;
    for (int workers = 1; workers <= WORKERS_MAX; workers++)
        for (int m = 2 * workers; m <= 64; m += m < 2 * workers + 3 ? 1 : 13) {
            if (!test_takes((size_t)(workers + m), 11)) continue;
            assert_true(bubble("1f1b", workers, m, &equal) == 3.0 * (workers - 1));
            assert_true(bubble("zb-h1", workers, m, &equal) == workers - 1.0);
            assert_true(bubble("zb-h2", workers, m, &equal) == 0);
            assert_true(bubble("zb-v", workers, m, &equal) == 0);
        }
}

/* The formulas where times differ as they do in practice, I a little dearer than F and W not dearer. ZB-V, for which the paper
 * has no formula, comes out at (P-1)(I-W), never above ZB-H2. */
static void test_bubbles_of_unequal_times(void **state) {
    (void)state;
    static const struct times all[] = {{1, 1.125, 0.875}, {1, 1.25, 0.75}, {1, 1.25, 1}, {0.75, 1, 0.625}};
    for (size_t t = 0; t < sizeof all / sizeof *all; t++)
        for (int workers = 2; workers <= 12; workers += 5)
            for (int m = 3 * workers; m <= 64; m += 17) {
                if (!test_takes((size_t)workers + t, 4)) continue;
                const struct times *times = &all[t];
                double f = times->forward_s, i = times->input_s, w = times->weights_s;
                assert_true(bubble("1f1b", workers, m, times) == (workers - 1) * (f + i + w));
                assert_true(bubble("zb-h1", workers, m, times) == (workers - 1) * (f + i - w));
                assert_true(bubble("zb-h2", workers, m, times) == (workers - 1) * (f + i - 2 * w));
                assert_true(bubble("zb-v", workers, m, times) == (workers - 1) * (i - w));
            }
}

/* 1F1B and ZB-H1 hold P micro-batches at most, ZB-H2 2P-1, ZB-V 2P of half the size. */
static void test_memory(void **state) {
    (void)state;
    for (int workers = 1; workers <= WORKERS_MAX; workers++)
        for (int m = 1; m <= 64; m += m < 34 ? 1 : 10) {
            if (!test_takes((size_t)(workers + m), 11)) continue;
            int most = workers < m ? workers : m, twice = 2 * workers - 1 < m ? 2 * workers - 1 : m;
            assert_int_equal(most_held("1f1b", workers, m), most);
            assert_int_equal(most_held("zb-h1", workers, m), most);
            assert_int_equal(most_held("zb-h2", workers, m), twice);
            assert_int_equal(most_held("zb-v", workers, m), 2 * most);
        }
}

/* Every number of workers and micro-batches gives programs that the verifier accepts. */
static void test_all_verify(void **state) {
    (void)state;
    static const char *const schedules[] = {"zb-h1", "zb-h2", "zb-v"};
    for (int s = 0; s < 3; s++)
        for (int workers = 1; workers <= WORKERS_MAX; workers++)
            for (int m = 1; m <= 64; m++)
                if (test_takes((size_t)(workers + m), 19)) ps_programs_destroy(lower(schedules[s], workers, m, 1 + m % 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_bubbles_of_unequal_times),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_all_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
