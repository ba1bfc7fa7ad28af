/* BaPipe's closed formulas: against figures worked out by hand, the printed fractions for the bubble, and the simulator. */
#include "program_support.h"
#include "support.h"

#include <math.h>

#include "plan/bapipe.h"
#include "simulate/simulate.h"

static void assert_near(double a, double b) { assert_true(fabs(a - b) <= 1e-12 * fabs(b)); }

static void by_hand(void **state) {
    (void)state;
    struct bapipe_stages stages = {.count = 3,
                                   .micro_batches = 8,
                                   .forward_s = 2,
                                   .backward_s = 4,
                                   .transfer_s = 0.5,
                                   .feature_bytes = 120,
                                   .weight_bytes = 700};
    assert_near(bapipe_batch_s(BAPIPE_1F1B_AS, &stages), 60); /* 10 x 6 */
    assert_near(bapipe_batch_s(BAPIPE_FBP_AS, &stages), 60);
    assert_near(bapipe_batch_s(BAPIPE_1F1B_SNO, &stages), 66); /* and 3 + 8 - 2 - ceil(7/3) = 6 pairs of transfers */
    assert_near(bapipe_batch_s(BAPIPE_1F1B_SO, &stages), 62);  /* and 2 */
    assert_near(bapipe_bubble(BAPIPE_1F1B_AS, &stages), 0.2);
    assert_near(bapipe_bubble(BAPIPE_FBP_AS, &stages), 0.2);
    assert_near(bapipe_bubble(BAPIPE_1F1B_SNO, &stages), 18.0 / 66);
    assert_near(bapipe_bubble(BAPIPE_1F1B_SO, &stages), 14.0 / 62);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(bapipe_feature_bytes(BAPIPE_1F1B_AS, &stages, s), (3 - s) * 120);
        assert_int_equal(bapipe_feature_bytes(BAPIPE_FBP_AS, &stages, s), (3 - s) * 240);
        assert_int_equal(bapipe_feature_bytes(BAPIPE_1F1B_SNO, &stages, s), (3 - s) * 120);
        assert_int_equal(bapipe_feature_bytes(BAPIPE_1F1B_SO, &stages, s), (3 - s) * 240);
    }
    for (enum bapipe_pipeline p = BAPIPE_1F1B_AS; p <= BAPIPE_1F1B_SO; p++) {
        assert_int_equal(bapipe_weight_bytes(p, &stages), 1400);
        assert_near(bapipe_bandwidth(p, &stages), p == BAPIPE_FBP_AS ? 40.0 : 60.0);
    }
}

/* The fractions that the tables print for the bubble say the same as the times. */
static void printed_bubbles(void **state) {
    (void)state;
    for (int n = 1; n <= 9; n++)
        for (int m = 1; m <= 20; m++) {
            double f = 1.5, b = 2.75, sr = 0.375, pair = f + b + 2 * sr, waits = m - 1 - ceil((m - 1.0) / n);
            struct bapipe_stages stages = {n, m, f, b, sr, 1, 1};
            double sno_s = (m + n - 1) * (f + b) + (n + m - 2 - ceil((m - 1.0) / n)) * 2 * sr;
            double so_s = (m + n - 1) * (f + b) + (n - 1) * 2 * sr;
            assert_near(bapipe_batch_s(BAPIPE_1F1B_SNO, &stages), sno_s);
            assert_near(bapipe_batch_s(BAPIPE_1F1B_SO, &stages), so_s);
            assert_true(fabs(bapipe_bubble(BAPIPE_1F1B_AS, &stages) - (n - 1.0) / (m + n - 1)) <= 1e-12);
            assert_true(fabs(bapipe_bubble(BAPIPE_1F1B_SNO, &stages) - ((n - 1) * pair + waits * 2 * sr) / sno_s) <= 1e-12);
            assert_true(fabs(bapipe_bubble(BAPIPE_1F1B_SO, &stages) - (n - 1) * pair / so_s) <= 1e-12);
        }
}

/* Balanced stages with hidden transfers, simulated: 1F1B takes the time, the bubble, the features and the weights of 1F1B-AS
 * and of 1F1B-SNO without transfers. (A worker keeps no more features than there are micro-batches, which the tables leave to
 * the reader.) */
static void simulated(void **state) {
    (void)state;
    for (int n = 1; n <= 6; n++)
        for (int m = 1; m <= 12; m++) {
            struct bapipe_stages stages = {n, m, 1, 2, 0, 640, 6400};
            struct stage_cost costs[6];
            for (int s = 0; s < n; s++)
                costs[s] = (struct stage_cost){.time = {.forward_s = 1, .backward_input_s = 1, .backward_weight_s = 1},
                                               .size = {.parameter_bytes = 6400, .stash_bytes = 640}};
            struct ps_cluster_options options = {.struct_size = sizeof options, .workers = n};
            struct ps_cluster *cluster;
            struct ps_programs *programs;
            struct ps_simulation *simulation;
            assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
            assert_ok(lower_plain("1f1b", "sync", n, m, 2, &programs));
            struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
            assert_ok(simulate_programs(&work, &simulation, &test_error));
            for (int p = 0; p < 2; p++) {
                enum bapipe_pipeline pipeline = p == 0 ? BAPIPE_1F1B_AS : BAPIPE_1F1B_SNO;
                assert_near(simulation->info.period_s, bapipe_batch_s(pipeline, &stages));
                assert_true(fabs(simulation->info.bubble - bapipe_bubble(pipeline, &stages)) <= 1e-12);
                for (int s = 0; s < n; s++) {
                    const struct worker_memory *memory = &simulation->memory[s];
                    int64_t whole = bapipe_feature_bytes(pipeline, &stages, s);
                    assert_int_equal(memory->stash, m < n - s ? 640 * m : whole);
                    assert_int_equal(memory->weights + memory->gradients, bapipe_weight_bytes(pipeline, &stages));
                }
            }
            ps_simulation_destroy(simulation);
            ps_programs_destroy(programs);
            ps_cluster_destroy(cluster);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(printed_bubbles),
        cmocka_unit_test(simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
