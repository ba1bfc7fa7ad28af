/*
 * BaPipe's Tables I and II (Zhao et al.) against the simulator: N equal stages, M micro-batches, M and N from 1 to 64.
 * F, B and SR are binary fractions, so that the formulas hold to the last bit.
 *
 * The papers' SNO ("synchronous, transfer not overlapped") is not a device that stands still while it transfers: with as few
 * micro-batches under way as 1F1B has, it is the round trip over the links that nothing hides. So its formula is exact with
 * transfers beside computation, and devices that do stand still take longer (test_blocking_devices_take_longer).
 */
#include <math.h>
#include <string.h>

#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"

enum { MOST = 64, BLOCK_BYTES = 64 };

struct setting {
    double forward_s, backward_s, transfer_s;
};

static const struct setting settings[] = {{1, 2, 0.5}, {1, 1, 1}, {2, 1, 0.25}, {1, 2, 1.5}, {1, 1, 2}};

enum device { OVERLAPPING, BLOCKING };

static struct ps_simulation *simulate_stages(const char *schedule, int micro_batches, const struct stage_cost *costs,
                                             const struct ps_cluster_options *options) {
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    assert_ok(ps_cluster_uniform(options, &cluster, &test_error));
    assert_ok(lower_plain(schedule, "sync", options->workers, micro_batches, 1, &programs));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return simulation;
}

static double simulate(const char *schedule, int stages, int micro_batches, const struct setting *setting, enum device device) {
    struct stage_cost costs[MOST];
    for (int s = 0; s < stages; s++)
        costs[s] = (struct stage_cost){
            .time = {.forward_s = setting->forward_s,
                     .backward_input_s = setting->backward_s / 2,
                     .backward_weight_s = setting->backward_s / 2},
            .size = {.input_bytes = BLOCK_BYTES, .output_bytes = BLOCK_BYTES},
        };
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = stages, .latency_s = setting->transfer_s, .no_overlap = device == BLOCKING};
    struct ps_simulation *simulation = simulate_stages(schedule, micro_batches, costs, &options);
    double makespan_s = simulation->info.makespan_s;
    ps_simulation_destroy(simulation);
    return makespan_s;
}

/* The time in which a worker computes anything at all. */
static double busy_s(const struct timeline *timeline, int worker) {
    double busy = 0, until = 0;
    for (;;) {
        const struct timeline_event *next = NULL;
        for (int i = 0; i < timeline->event_count; i++) {
            const struct timeline_event *event = &timeline->events[i];
            if (event->worker != worker || event->end_s <= until) continue;
            if (!next || event->start_s < next->start_s) next = event;
        }
        if (!next) return busy;
        busy += next->end_s - fmax(until, next->start_s);
        until = next->end_s;
    }
}

/* FBP-AS: forward and backward run beside each other, each at the share of its own length, so that a device with both does as
 * much in a second as with either alone, whatever the lengths and whenever they begin. */
static void test_shared_devices_lose_nothing(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 40; round++) {
        struct random_key key = test_key(round);
        const int stages = 2 + (int)random_below(key, 0, 4), micro_batches = 3 + (int)random_below(key, 1, 8);
        struct stage_cost costs[MOST] = {0};
        struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages, .streaming = true};
        for (int s = 0; s < stages; s++)
            costs[s].time = (struct layer_times){.forward_s = 0.1 + random_uniform(key, 3 * (uint64_t)s + 2),
                                                 .backward_input_s = 0.1 + random_uniform(key, 3 * (uint64_t)s + 3),
                                                 .backward_weight_s = random_uniform(key, 3 * (uint64_t)s + 4)};
        struct ps_simulation *simulation = simulate_stages("fbp-as", micro_batches, costs, &options);
        for (int s = 0; s < stages; s++) {
            const struct layer_times *time = &costs[s].time;
            const double alone = micro_batches * (time->forward_s + time->backward_input_s + time->backward_weight_s);
            const double busy = busy_s(&simulation->timeline, s);
            if (!(fabs(busy - alone) <= 1e-6))
                fail_msg("round %d, worker %d: busy %.9g s, not %.9g", (int)round, s, busy, alone);
        }
        ps_simulation_destroy(simulation);
    }
}

static const struct timeline_event *event_of(const struct timeline *timeline, enum opcode op, int stage, int micro_batch) {
    for (int i = 0; i < timeline->event_count; i++) {
        const struct instruction *instruction = &timeline->events[i].instruction;
        if (instruction->op == op && instruction->stage == stage && instruction->micro_batch == micro_batch)
            return &timeline->events[i];
    }
    fail_msg("stage %d has no %s of %d", stage, opcode_table[op].text, micro_batch);
    return NULL;
}

/* A forward of FBP-AS waits for its input, for the forward before it and for the backward that frees its stash; a backward for
 * its gradient, the backward before it and its forward: neither for anything else of the other direction. Of four micro-batches
 * none waits for a block to send. */
static void test_directions_do_not_wait_for_each_other(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 40; round++) {
        struct random_key key = test_key(1000 + round);
        const int stages = 2 + (int)random_below(key, 0, 4), micro_batches = 4;
        struct stage_cost costs[MOST] = {0};
        struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages, .streaming = true};
        if (round % 2) options.latency_s = 0.1 * (double)random_uniform(key, 100);
        for (int s = 0; s < stages; s++) {
            costs[s].time = (struct layer_times){.forward_s = 0.1 + random_uniform(key, 2 * (uint64_t)s + 2),
                                                 .backward_input_s = 0.1 + random_uniform(key, 2 * (uint64_t)s + 3)};
            costs[s].size = (struct stage_sizes){.input_bytes = BLOCK_BYTES, .output_bytes = BLOCK_BYTES};
        }
        struct ps_simulation *simulation = simulate_stages("fbp-as", micro_batches, costs, &options);
        const struct timeline *timeline = &simulation->timeline;
        for (int s = 0; s < stages; s++)
            for (int m = 0; m < micro_batches; m++) {
                const int kept = 2 * (stages - s);
                const struct timeline_event *forward = event_of(timeline, OP_F, s, m);
                const struct timeline_event *backward = event_of(timeline, OP_B, s, m);
                double begins = s > 0 ? event_of(timeline, OP_F, s - 1, m)->end_s : 0, returns = forward->end_s;
                if (m > 0) begins = fmax(begins, event_of(timeline, OP_F, s, m - 1)->end_s);
                if (m >= kept) begins = fmax(begins, event_of(timeline, OP_B, s, m - kept)->end_s);
                if (s + 1 < stages) returns = fmax(returns, event_of(timeline, OP_B, s + 1, m)->end_s);
                if (m > 0) returns = fmax(returns, event_of(timeline, OP_B, s, m - 1)->end_s);
                if (fabs(forward->start_s - begins) > 1e-6 || fabs(backward->start_s - returns) > 1e-6)
                    fail_msg(
                        "round %d, stage %d of %d, micro-batch %d: forward at %.9g s, not %.9g, backward at %.9g s, not %.9g",
                        (int)round, s, stages, m, forward->start_s, begins, backward->start_s, returns);
            }
        ps_simulation_destroy(simulation);
    }
}

static double computing(int n, int m, const struct setting *setting) {
    return (m + n - 1) * (setting->forward_s + setting->backward_s);
}

/* Table II, as long as SR <= F + B: (M+N-1)(F+B) + (N+M-2-ceil((M-1)/N)) 2SR. */
static double sno(int n, int m, const struct setting *setting) {
    return computing(n, m, setting) + (n + m - 2 - (m - 1 + n - 1) / n) * 2 * setting->transfer_s;
}

/* Every number up to 16, and some of those to 64. The two steps have no common factor with the number of settings or with each
 * other, so that all settings and remainders come up. */
static int next_n(int n) { return n < 16 ? n + 1 : n + 4; }
static int next_m(int m) { return m < 16 ? m + 1 : m + 3; }

/* A setting for each pair, so that every setting comes up. */
static const struct setting *setting_of(int n, int m) { return &settings[(n + m) % 5]; }

static void test_1f1b_sno(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n = next_n(n))
        for (int m = 1; m <= MOST; m = next_m(m)) {
            if (!test_takes((size_t)(n + m), 17)) continue;
            const struct setting *setting = setting_of(n, m);
            double makespan_s = simulate("1f1b", n, m, setting, OVERLAPPING);
            if (makespan_s != sno(n, m, setting)) fail_msg("M %d, N %d: %g s, not %g s", m, n, makespan_s, sno(n, m, setting));
        }
}

/* Table II: (M+N-1)(F+B) + (N-1) 2SR, as long as links keep up with the computation (SR <= F, the table's bandwidth, and SR
 * <= B): with twice the warm-up only the filling and the draining of the links shows. */
static void test_1f1b_so(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n = next_n(n))
        for (int m = 1; m <= MOST; m = next_m(m)) {
            if (!test_takes((size_t)(n + m), 17)) continue;
            const struct setting *setting = setting_of(n, m);
            if (setting->transfer_s > fmin(setting->forward_s, setting->backward_s)) continue;
            double formula_s = computing(n, m, setting) + (n - 1) * 2 * setting->transfer_s;
            double makespan_s = simulate("1f1b-so", n, m, setting, OVERLAPPING);
            if (makespan_s != formula_s) fail_msg("M %d, N %d: %g s, not %g s", m, n, makespan_s, formula_s);
        }
}

/* Table I: (M+N-1)(F+B), where a transfer is no longer than what makes the block: the bandwidth of the table's last line. */
static void test_1f1b_as(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n = next_n(n))
        for (int m = 1; m <= MOST; m = next_m(m)) {
            if (!test_takes((size_t)(n + m), 17)) continue;
            const struct setting *setting = setting_of(n, m);
            if (setting->transfer_s > setting->forward_s) continue;
            double makespan_s = simulate("1f1b-as", n, m, setting, OVERLAPPING);
            if (makespan_s != computing(n, m, setting)) fail_msg("M %d, N %d: %g s", m, n, makespan_s);
        }
}

/* Table I: the same for FBP-AS. A transfer has to fit beside the shorter of F and B while the pipeline fills or drains. */
static void test_fbp_as(void **state) {
    (void)state;
    for (int n = 1; n <= MOST; n += n < 10 ? 1 : 9)
        for (int m = 1; m <= MOST; m = next_m(m)) {
            if (!test_takes((size_t)(n + m), 17)) continue;
            const struct setting *setting = setting_of(n, m);
            if (setting->transfer_s > fmin(setting->forward_s, setting->backward_s)) continue;
            double makespan_s = simulate("fbp-as", n, m, setting, OVERLAPPING);
            if (!(fabs(makespan_s - computing(n, m, setting)) <= 1e-9)) fail_msg("M %d, N %d: %g s", m, n, makespan_s);
        }
}

/* Tables I and II: features kept at stage i, from 1: (N-i+1) a, and 2 (N-i+1) a with FBP-AS and 1F1B-SO. */
static void test_features(void **state) {
    (void)state;
    static const char *const schedules[] = {"1f1b-as", "1f1b", "fbp-as", "1f1b-so"};
    for (int s = 0; s < 4; s++)
        for (int n = 1; n <= MOST; n += 3)
            for (int m = 1; m <= MOST; m += 21) {
                if (!test_takes((size_t)(n + m), 17)) continue;
                struct ps_programs *programs;
                assert_ok(lower_plain(schedules[s], "sync", n, m, 1, &programs));
                for (int stage = 0; stage < n; stage++) {
                    int alive = (s < 2 ? 1 : 2) * (n - stage);
                    assert_int_equal(programs->slots[stage].stash, alive < m ? alive : m);
                }
                ps_programs_destroy(programs);
            }
}

/* Devices that send and receive in their own time, one transfer after the other, need more than the formula says. */
static void test_blocking_devices_take_longer(void **state) {
    (void)state;
    double most = 0;
    for (int n = 1; n <= MOST; n += 3)
        for (int m = 1; m <= MOST; m += 3) {
            if (!test_takes((size_t)(n + m), 17)) continue;
            double makespan_s = simulate("1f1b", n, m, &settings[0], BLOCKING), formula_s = sno(n, m, &settings[0]);
            assert_true(makespan_s >= formula_s);
            most = fmax(most, makespan_s / formula_s - 1);
        }
    print_message("largest deviation of blocking devices from 1F1B-SNO's formula: %.1f%%\n", 100 * most);
    assert_true(test_slow() || (most > 0.25 && most < 0.35));
}

/* Beyond SR = F + B the first activations queue on their link, which the formula does not see. */
static void test_slow_links_take_longer(void **state) {
    (void)state;
    static const struct setting slow = {1, 1, 4};
    double most = 0;
    for (int n = 1; n <= MOST; n += 3)
        for (int m = 1; m <= MOST; m += 3) {
            if (!test_takes((size_t)(n + m), 17)) continue;
            double makespan_s = simulate("1f1b", n, m, &slow, OVERLAPPING), formula_s = sno(n, m, &slow);
            assert_true(makespan_s >= formula_s);
            most = fmax(most, makespan_s / formula_s - 1);
        }
    print_message("largest deviation at SR = 2 (F + B): %.1f%%\n", 100 * most);
    assert_true(most > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_directions_do_not_wait_for_each_other),
        cmocka_unit_test(test_1f1b_sno),
        cmocka_unit_test(test_1f1b_so),
        cmocka_unit_test(test_1f1b_as),
        cmocka_unit_test(test_fbp_as),
        cmocka_unit_test(test_features),
        cmocka_unit_test(test_blocking_devices_take_longer),
        cmocka_unit_test(test_slow_links_take_longer),
        cmocka_unit_test(test_shared_devices_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
