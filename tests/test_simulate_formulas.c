/*
 * The simulator against what the papers say of balanced pipelines: GPipe's bubble, 1F1B's memory, the period of asynchronous
 * 1F1B, copies of the weights per policy. All costs are binary fractions, so that the closed formulas hold to the last bit.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/planners/madpipe.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"

enum { STAGES_MAX = 16 };

#define FORWARD_S 0.25
#define BACKWARD_S 0.5

static struct stage_cost balanced_cost(void) {
    return (struct stage_cost){
        .time = {.forward_s = FORWARD_S, .backward_input_s = BACKWARD_S / 2, .backward_weight_s = BACKWARD_S / 2},
        .size = {.parameter_bytes = 6400, .input_bytes = 64, .output_bytes = 64, .stash_bytes = 640},
    };
}

static struct ps_cluster *uniform_cluster(int workers) {
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers};
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    return cluster;
}

static struct ps_simulation *simulate(const struct ps_programs *programs, const struct stage_cost *costs,
                                      const struct ps_cluster *cluster) {
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 8, .moments = 1};
    struct ps_simulation *simulation;
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    return simulation;
}

/* Workers with balanced costs: of several stages on a worker each takes its share. */
static struct ps_simulation *simulate_balanced(const char *schedule, const char *policy, int workers, int micro_batches,
                                               int batches) {
    struct stage_cost costs[STAGES_MAX];
    struct ps_programs *programs;
    struct ps_cluster *cluster = uniform_cluster(workers);
    assert_ok(lower_plain(schedule, policy, workers, micro_batches, batches, &programs));
    int share = programs->stages / workers;
    for (int s = 0; s < programs->stages; s++) {
        costs[s] = balanced_cost();
        costs[s].time.forward_s /= share;
        costs[s].time.backward_input_s /= share;
        costs[s].time.backward_weight_s /= share;
    }
    struct ps_simulation *simulation = simulate(programs, costs, cluster);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return simulation;
}

/* GPipe (Huang et al., 2019) and DAPPLE: (M+P-1)(F+B) for a mini-batch, bubble (P-1)/(M+P-1), all of it fill and drain. */
static void test_flushing_schedules(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (int which = 0; which < 2; which++)
        for (int stages = 1; stages <= 8; stages++)
            for (int m = 1; m <= 16; m++) {
                struct ps_simulation *simulation = simulate_balanced(schedules[which], "sync", stages, m, 3);
                struct ps_simulation_info info = ps_simulation_info(simulation);
                double batch_s = (m + stages - 1) * (FORWARD_S + BACKWARD_S);
                assert_true(info.makespan_s == 3 * batch_s);
                assert_true(info.period_s == batch_s);
                assert_true(info.throughput_samples_per_s == 8 * m / batch_s);
                assert_true(fabs(info.bubble - (stages - 1.0) / (m + stages - 1.0)) <= 1e-12);
                for (int w = 0; w < stages; w++) {
                    struct ps_simulation_worker worker = ps_simulation_worker(simulation, w);
                    assert_true(worker.busy_s == 3 * m * (FORWARD_S + BACKWARD_S));
                    assert_true(worker.idle_fill_drain_s == info.makespan_s - worker.busy_s);
                }
                ps_simulation_destroy(simulation);
            }
}

/* Interleaved 1F1B (Narayanan et al., 2021, section 2.2): v stages per worker make the bubble v times smaller. */
static void test_interleaved(void **state) {
    (void)state;
    enum { V = 2 };
    for (int workers = 1; workers <= 8; workers++)
        for (int rounds = 1; rounds <= 4; rounds++) {
            int m = rounds * workers;
            struct ps_simulation *simulation = simulate_balanced("interleaved", "sync", workers, m, 3);
            struct ps_simulation_info info = ps_simulation_info(simulation);
            assert_true(info.period_s == (m + (workers - 1.0) / V) * (FORWARD_S + BACKWARD_S));
            assert_true(fabs(info.bubble - (workers - 1.0) / (V * m + workers - 1.0)) <= 1e-12);
            ps_simulation_destroy(simulation);
        }
}

/* Other numbers of micro-batches take no longer than the next multiple of the workers. */
static void test_interleaved_any_number(void **state) {
    (void)state;
    for (int workers = 2; workers <= 6; workers++)
        for (int m = 1; m <= 3 * workers; m++) {
            struct ps_simulation *simulation = simulate_balanced("interleaved", "sync", workers, m, 2);
            int whole = (m + workers - 1) / workers * workers;
            assert_true(ps_simulation_info(simulation).period_s <= (whole + (workers - 1.0) / 2) * (FORWARD_S + BACKWARD_S));
            ps_simulation_destroy(simulation);
        }
}

/* With M = P Hanayo's waves have a smaller bubble than 1F1B's (P-1)/(2P-1); with more, at most that of interleaved 1F1B where
 * P divides M, and for every M at most 1F1B's. */
static void test_hanayo(void **state) {
    (void)state;
    for (int workers = 2; workers <= 8; workers++) {
        struct ps_simulation *simulation = simulate_balanced("hanayo", "sync", workers, workers, 1);
        assert_true(ps_simulation_info(simulation).bubble < 0.85 * (workers - 1.0) / (2 * workers - 1.0));
        ps_simulation_destroy(simulation);
        for (int m = 1; m <= 3 * workers; m++) {
            simulation = simulate_balanced("hanayo", "sync", workers, m, 1);
            assert_true(ps_simulation_info(simulation).makespan_s <= (m + workers - 1) * (FORWARD_S + BACKWARD_S));
            ps_simulation_destroy(simulation);
        }
        for (int m = 2 * workers; m <= 6 * workers; m += workers) {
            simulation = simulate_balanced("hanayo", "sync", workers, m, 1);
            double interleaved_s = (m + (workers - 1.0) / 2) * (FORWARD_S + BACKWARD_S);
            assert_true(ps_simulation_info(simulation).makespan_s <= interleaved_s);
            ps_simulation_destroy(simulation);
        }
    }
}

/* BaPipe, Table I: 1F1B-SNO and 1F1B-SO with transfers of SR each way. SO's mini-batch takes (M+N-1)(F+B) + (N-1) 2 SR and
 * holds 2 (N-i+1) features at stage i. */
static void test_overlapped(void **state) {
    (void)state;
    for (int stages = 1; stages <= 8; stages++)
        for (int m = 1; m <= 24; m++) {
            struct stage_cost costs[STAGES_MAX];
            for (int s = 0; s < stages; s++) costs[s] = balanced_cost();
            struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages, .latency_s = FORWARD_S / 2};
            struct ps_cluster *cluster;
            struct ps_programs *programs;
            assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
            assert_ok(lower_plain("1f1b-so", "sync", stages, m, 1, &programs));
            struct ps_simulation *simulation = simulate(programs, costs, cluster);
            double wanted = (m + stages - 1) * (FORWARD_S + BACKWARD_S) + (stages - 1) * 2 * options.latency_s;
            assert_true(simulation->info.makespan_s == wanted);
            for (int s = 0; s < stages; s++) {
                int held = 2 * (stages - s);
                assert_int_equal(programs->slots[s].stash, held < m ? held : m);
            }
            ps_simulation_destroy(simulation);
            ps_programs_destroy(programs);
            ps_cluster_destroy(cluster);
        }
}

/* MadPipe, proposition 1: with 1F1B* a stage of group g holds g micro-batches and the period is kept. */
static void test_groups(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 200; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(5000 + round);
        int stages = 1 + (int)random_below(key, 0, 8), in_flight[STAGES_MAX];
        struct stage_cost costs[STAGES_MAX] = {0};
        double stage_s[STAGES_MAX], transfer_s[STAGES_MAX] = {0};
        struct ps_plan *plan;
        assert_ok(plan_create(stages, stages, &plan, &test_error));
        strcpy(plan->schedule, "1f1b-star");
        strcpy(plan->weights, "stash");
        for (int s = 0; s < stages; s++) {
            costs[s].time.forward_s = (1 + (double)random_below(key, 10 + (uint64_t)s, 8)) / 16;
            costs[s].time.backward_input_s = (1 + (double)random_below(key, 30 + (uint64_t)s, 16)) / 16;
            stage_s[s] = costs[s].time.forward_s + costs[s].time.backward_input_s;
        }
        double period_s = groups_period_s(stages, stage_s, transfer_s);
        groups_find(stages, stage_s, transfer_s, period_s, in_flight);
        for (int s = 0; s < stages; s++) {
            assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
            plan->stages[s].in_flight = in_flight[s];
        }
        struct ps_programs *programs;
        struct ps_cluster *cluster = uniform_cluster(stages);
        assert_ok(lower_plan(plan, 64, &programs, &test_error));
        struct ps_simulation *simulation = simulate(programs, costs, cluster);
        assert_true(fabs(simulation->info.period_s - period_s) <= 1e-9);
        for (int s = 0; s < stages; s++) {
            assert_int_equal(programs->slots[s].stash, in_flight[s]);
            assert_true(in_flight[s] <= stages - s);
        }
        ps_simulation_destroy(simulation);
        ps_programs_destroy(programs);
        ps_cluster_destroy(cluster);
        ps_plan_destroy(plan);
    }
}

static void test_naive_runs_one_worker_at_a_time(void **state) {
    (void)state;
    struct ps_simulation *simulation = simulate_balanced("naive", "sync", 4, 3, 2);
    assert_true(ps_simulation_info(simulation).makespan_s == 2 * 3 * 4 * (FORWARD_S + BACKWARD_S));
    assert_true(fabs(ps_simulation_info(simulation).bubble - 0.75) <= 1e-12);
    ps_simulation_destroy(simulation);
}

/* Asynchronous 1F1B keeps every worker busy once it is full: a mini-batch leaves every F + B. */
static void test_asynchronous_period(void **state) {
    (void)state;
    for (int stages = 1; stages <= 8; stages++) {
        int batches = 4 * stages + 4;
        struct ps_simulation *simulation = simulate_balanced("1f1b-async", "pipeoptim", stages, 1, batches);
        struct ps_simulation_info info = ps_simulation_info(simulation);
        assert_true(info.period_s == FORWARD_S + BACKWARD_S);
        assert_true(info.makespan_s == (batches + stages - 1) * (FORWARD_S + BACKWARD_S));
        assert_true(info.throughput_samples_per_s == 8 / (FORWARD_S + BACKWARD_S));
        ps_simulation_destroy(simulation);
        /* 2BW: groups of micro-batches, still without a flush. */
        simulation = simulate_balanced("1f1b-async", "2bw", stages, stages + 1, 8);
        assert_true(ps_simulation_info(simulation).period_s == (stages + 1) * (FORWARD_S + BACKWARD_S));
        ps_simulation_destroy(simulation);
    }
}

/* The slowest stage sets the pace, wherever it stands, and the others' idle time is imbalance. */
static void test_slowest_stage_sets_the_period(void **state) {
    (void)state;
    enum { STAGES = 4, BATCHES = 24 };
    struct ps_cluster *cluster = uniform_cluster(STAGES);
    struct ps_programs *programs;
    assert_ok(lower_plain("1f1b-async", "stash", STAGES, 1, BATCHES, &programs));
    for (int slow = 0; slow < STAGES; slow++) {
        struct stage_cost costs[STAGES];
        for (int s = 0; s < STAGES; s++) costs[s] = balanced_cost();
        costs[slow].time.forward_s *= 2;
        costs[slow].time.backward_input_s *= 3;
        double load_s = 2 * FORWARD_S + 3 * BACKWARD_S / 2 + BACKWARD_S / 2;
        struct ps_simulation *simulation = simulate(programs, costs, cluster);
        assert_true(ps_simulation_info(simulation).period_s == load_s);
        for (int w = 0; w < STAGES; w++)
            assert_true(ps_simulation_worker(simulation, w).idle_imbalance_s ==
                        (w == slow ? 0 : BATCHES * (load_s - FORWARD_S - BACKWARD_S)));
        ps_simulation_destroy(simulation);
    }
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* A worker twice as fast takes half the time. */
static void test_speed(void **state) {
    (void)state;
    struct stage_cost costs[2] = {balanced_cost(), balanced_cost()};
    struct ps_programs *programs;
    struct ps_cluster *cluster = uniform_cluster(2);
    cluster->devices[0].speed = 2;
    assert_ok(lower_straight(
        &(struct straight){
            .schedule = "naive", .policy = "sync", .workers = 2, .micro_batches = 1, .batches = 1, .recompute = true},
        &programs, &test_error));
    struct ps_simulation *simulation = simulate(programs, costs, cluster);
    /* Each stage runs its forward twice: once more to recompute. */
    assert_true(ps_simulation_worker(simulation, 0).busy_s == (2 * FORWARD_S + BACKWARD_S) / 2);
    assert_true(ps_simulation_worker(simulation, 1).busy_s == 2 * FORWARD_S + BACKWARD_S);
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* An update costs its time, a quarter more with the prediction in the same pass, and a prediction alone as much. */
static void test_updates_and_predictions(void **state) {
    (void)state;
    enum { STAGES = 2, BATCHES = 8 };
    struct stage_cost costs[STAGES] = {balanced_cost(), balanced_cost()};
    for (int s = 0; s < STAGES; s++) costs[s].time.update_s = 0.0625;
    struct ps_programs *programs;
    struct ps_cluster *cluster = uniform_cluster(STAGES);
    assert_ok(lower_plain("1f1b-async", "pipeoptim", STAGES, 1, BATCHES, &programs));
    int plain = 0, fused = 0, alone = 0;
    for (int i = 0; i < programs->worker[0].count; i++) {
        const struct instruction *instruction = &programs->worker[0].code[i];
        plain += instruction->op == OP_U && instruction->predict_to == NO_SLOT;
        fused += instruction->op == OP_U && instruction->predict_to != NO_SLOT;
        alone += instruction->op == OP_P;
    }
    assert_int_equal(plain + fused, BATCHES);
    assert_true(test_slow() || (fused > 0 && alone > 0));
    struct ps_simulation *simulation = simulate(programs, costs, cluster);
    double extra_s = ps_simulation_worker(simulation, 0).busy_s - BATCHES * (FORWARD_S + BACKWARD_S);
    assert_true(fabs(extra_s - 0.0625 * (plain + 1.25 * fused + alone)) <= 1e-12);
    assert_true(fabs(ps_simulation_worker(simulation, 1).busy_s - BATCHES * (FORWARD_S + BACKWARD_S + 0.0625)) <= 1e-12);
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* 1F1B holds P-p stashes on worker p, gpipe M; the other blocks are counted in the same way. */
static void test_stashes(void **state) {
    (void)state;
    enum { STAGES = 4, M = 12 };
    struct stage_cost cost = balanced_cost();
    static const char *const schedules[] = {"gpipe", "1f1b"};
    for (int which = 0; which < 2; which++) {
        struct ps_simulation *simulation = simulate_balanced(schedules[which], "sync", STAGES, M, 2);
        for (int w = 0; w < STAGES; w++) {
            const struct worker_memory *memory = &simulation->memory[w];
            int64_t stashes = which == 0 ? M : STAGES - w;
            int64_t inputs = (memory->stash - stashes * cost.size.stash_bytes) / cost.size.input_bytes;
            assert_int_equal(memory->stash, stashes * cost.size.stash_bytes + inputs * cost.size.input_bytes);
            /* An input for each stash, and the one on its way. */
            assert_in_range(inputs, stashes, stashes + 1);
            assert_int_equal(memory->weights, cost.size.parameter_bytes);
            assert_int_equal(memory->gradients, cost.size.parameter_bytes);
            assert_int_equal(memory->optimizer, cost.size.parameter_bytes);
            assert_int_equal(ps_simulation_worker(simulation, w).memory_bytes, worker_memory_total(memory));
        }
        ps_simulation_destroy(simulation);
    }
}

static void test_weight_copies(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *policy;
        int micro_batches;
        int copies[4]; /* per worker */
    } cases[] = {
        {"gpipe", "sync", 4, {1, 1, 1, 1}},        {"1f1b", "sync", 4, {1, 1, 1, 1}},
        {"1f1b-async", "latest", 1, {1, 1, 1, 1}}, {"1f1b-async", "stash", 1, {4, 3, 2, 1}},
        {"1f1b-async", "2bw", 4, {2, 2, 2, 2}},    {"1f1b-async", "pipeoptim", 1, {2, 2, 2, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_simulation *simulation = simulate_balanced(cases[i].schedule, cases[i].policy, 4, cases[i].micro_batches, 12);
        for (int w = 0; w < 4; w++) {
            assert_int_equal(ps_simulation_worker(simulation, w).weight_copies, cases[i].copies[w]);
            assert_int_equal(simulation->memory[w].weights, cases[i].copies[w] * balanced_cost().size.parameter_bytes);
        }
        ps_simulation_destroy(simulation);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flushing_schedules),
        cmocka_unit_test(test_interleaved),
        cmocka_unit_test(test_interleaved_any_number),
        cmocka_unit_test(test_hanayo),
        cmocka_unit_test(test_overlapped),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_naive_runs_one_worker_at_a_time),
        cmocka_unit_test(test_asynchronous_period),
        cmocka_unit_test(test_slowest_stage_sets_the_period),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_updates_and_predictions),
        cmocka_unit_test(test_stashes),
        cmocka_unit_test(test_weight_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
