/* Rolled programs: unrolled they are the lowered ones, and simulated they give the same to the last bit. */
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate.h"
#include "support.h"

#include "program/lower.h"

enum { STAGES_MAX = 24, REPLICAS_MAX = 8 };

/* `replicas` of each stage, in order: workers of their own; `split`: each stage's backwards run where the stage's neighbour's
 * forwards do. Neither: as the schedule places them. */
struct pipe_run {
    const char *schedule, *policy;
    bool flush, recompute, split;
    int workers, micro_batches, batches, period;
    int replicas[3];
};

static struct ps_plan *plan_of(const struct pipe_run *shape, int micro_batches) {
    struct ps_plan *plan;
    int workers = 0;
    for (int s = 0; s < shape->workers; s++) workers += shape->split ? 1 : shape->replicas[s % 3];
    assert_ok(plan_create(workers, shape->workers, &plan, &test_error));
    strcpy(plan->schedule, shape->schedule);
    strcpy(plan->weights, shape->policy);
    plan->micro_batches = micro_batches;
    for (int s = 0, worker = 0; s < shape->workers; s++) {
        int list[REPLICAS_MAX], count = shape->split ? 1 : shape->replicas[s % 3], back = s ^ 1;
        for (int r = 0; r < count; r++) list[r] = worker++;
        if (back >= shape->workers) back = s;
        assert_ok(plan_stage_workers(plan, s, list, count, shape->split ? &back : list, count, &test_error));
        plan->stages[s].first = plan->stages[s].last = s;
        plan->stages[s].recompute = shape->recompute;
    }
    return plan;
}

static enum ps_status lower(void *context, int micro_batches, int batches, struct ps_programs **programs,
                            struct ps_error *error) {
    const struct pipe_run *shape = context;
    if (!shape->split && !shape->replicas[0])
        return lower_straight(&(struct straight){.schedule = shape->schedule,
                                                 .policy = shape->policy,
                                                 .workers = shape->workers,
                                                 .micro_batches = micro_batches,
                                                 .batches = batches,
                                                 .recompute = shape->recompute},
                              programs, error);
    struct ps_plan *plan = plan_of(shape, micro_batches);
    enum ps_status status = lower_plan(plan, batches, programs, error);
    ps_plan_destroy(plan);
    return status;
}

static struct rolled_programs *roll(struct pipe_run *run) {
    struct rolled_programs *rolled;
    int workers = run->workers;
    for (int s = 0; run->replicas[0] && s < run->workers; s++) workers += run->replicas[s % 3] - 1;
    struct rolled_shape shape = {.flush = run->flush,
                                 .workers = workers,
                                 .micro_batches = run->micro_batches,
                                 .batches = run->batches,
                                 .period = run->period ? run->period : 1};
    assert_ok(rolled_create(lower, run, &shape, &rolled, &test_error));
    return rolled;
}

/* Weight slots are not kept, but for those that weights travel from and to. */
static void assert_same_instruction(const struct ps_programs *programs, const struct instruction *got,
                                    const struct instruction *wanted) {
    assert_int_equal(got->op, wanted->op);
    assert_int_equal(got->stage, wanted->stage);
    assert_int_equal(got->micro_batch, wanted->micro_batch);
    assert_int_equal(got->predict_to == NO_SLOT, wanted->predict_to == NO_SLOT);
    enum action action = opcode_table[got->op].action;
    if (action == ACTION_SEND || action == ACTION_RECEIVE) assert_int_equal(got->peer, wanted->peer);
    if (action == ACTION_UPDATE) assert_int_equal(got->to != got->slot, wanted->to != wanted->slot);
    if (programs_split(programs, got->stage)) {
        assert_int_equal(instruction_transfer_slot(got), instruction_transfer_slot(wanted));
        if (got->op == OP_SW || got->op == OP_RW) assert_int_equal(got->slot, wanted->slot);
    }
    for (int kind = 0; kind < BLOCK_KINDS; kind++) assert_int_equal(got->block[kind], wanted->block[kind]);
}

static void assert_same_code(const struct ps_programs *programs, const struct rolled_programs *rolled) {
    struct allocation *allocation;
    assert_ok(allocation_create(rolled->programs, &allocation, &test_error));
    for (int w = 0; w < programs->workers; w++) {
        struct rolled_cursor cursor = {0};
        struct instruction page[7];
        int at = 0, count;
        assert_int_equal(rolled_length(rolled, w), programs->worker[w].count);
        while ((count = rolled_next(rolled, w, &cursor, page, 7)) > 0)
            for (int i = 0; i < count; i++, at++) {
                assert_ok(allocation_next(allocation, rolled->programs, w, &page[i], &test_error));
                assert_same_instruction(programs, &page[i], &programs->worker[w].code[at]);
            }
        assert_int_equal(at, programs->worker[w].count);
    }
    allocation_destroy(allocation);
    assert_memory_equal(programs->slots, rolled->programs->slots, (size_t)programs->instance_count * sizeof *programs->slots);
}

static void assert_same_simulation(const struct ps_programs *programs, const struct rolled_programs *rolled, uint64_t round) {
    struct stage_cost costs[STAGES_MAX];
    struct random_key key = test_key(round);
    assert_in_range(programs->stages, 1, STAGES_MAX);
    for (int s = 0; s < programs->stages; s++)
        costs[s] =
            (struct stage_cost){.time = {.forward_s = 1 + random_below(key, 8 * (uint64_t)s, 4),
                                         .backward_input_s = 1 + random_below(key, 8 * (uint64_t)s + 1, 4),
                                         .update_s = 0.25,
                                         .update_out_of_place_s = 0.75,
                                         .update_predict_s = 0.5},
                                .size = {.parameter_bytes = 640, .input_bytes = 64, .output_bytes = 64, .stash_bytes = 32}};
    struct ps_cluster_options options = {.struct_size = sizeof options,
                                         .workers = programs->workers,
                                         .latency_s = 0.25 * random_below(key, 1000, 12),
                                         .no_overlap = round % 5 == 4};
    struct ps_cluster *cluster;
    struct ps_simulation *plain, *short_one;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
    assert_ok(simulate_programs(&work, &plain, &test_error));
    work.programs = rolled->programs;
    work.rolled = rolled;
    assert_ok(simulate_programs(&work, &short_one, &test_error));
    assert_true(plain->info.makespan_s == short_one->info.makespan_s);
    assert_true(plain->info.period_s == short_one->info.period_s);
    assert_int_equal(plain->instructions, short_one->instructions);
    for (int w = 0; w < programs->workers; w++)
        assert_memory_equal(&plain->worker[w], &short_one->worker[w], sizeof plain->worker[w]);
    assert_int_equal(plain->timeline.event_count, short_one->timeline.event_count);
    ps_simulation_destroy(plain);
    ps_simulation_destroy(short_one);
    ps_cluster_destroy(cluster);
}

static void check(struct pipe_run *run, uint64_t round) {
    struct ps_programs *programs;
    if (run->split || run->replicas[0]) {
        struct ps_plan *plan = plan_of(run, run->micro_batches);
        assert_int_equal(simulate_plan_period(plan), run->period);
        ps_plan_destroy(plan);
    }
    assert_ok(lower(run, run->micro_batches, run->batches, &programs, &test_error));
    struct rolled_programs *rolled = roll(run);
    if (!rolled)
        fail_msg("%s, %s, %d workers, %d x %d: not rolled", run->schedule, run->policy, run->workers, run->micro_batches,
                 run->batches);
    assert_same_code(programs, rolled);
    assert_same_simulation(programs, rolled, round);
    rolled_destroy(rolled);
    ps_programs_destroy(programs);
}

static void test_same(void **state) {
    (void)state;
    struct pipe_run shapes[] = {
        {.schedule = "1f1b", .policy = "sync", .flush = true, .batches = 3},
        {.schedule = "1f1b", .policy = "sync", .flush = true, .recompute = true, .batches = 2},
        {.schedule = "1f1b-async", .policy = "latest", .micro_batches = 1},
        {.schedule = "1f1b-async", .policy = "stash", .micro_batches = 1},
        {.schedule = "1f1b-async", .policy = "pipeoptim", .micro_batches = 1},
        {.schedule = "1f1b-async", .policy = "pipeoptim", .recompute = true, .micro_batches = 3},
        {.schedule = "1f1b-async", .policy = "spectrain", .micro_batches = 2},
        {.schedule = "1f1b-async", .policy = "2bw", .micro_batches = 9},
    };
    uint64_t round = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int workers = 1; workers <= 9; workers++)
            for (int length = 30; length < 44; length += 3, round++) {
                struct pipe_run shape = shapes[i];
                shape.workers = workers;
                *(shape.flush ? &shape.micro_batches : &shape.batches) = length;
                check(&shape, round);
            }
}

/* Several stages on a worker, and two directions. */
static void test_rounds(void **state) {
    (void)state;
    static const char *const schedules[] = {"interleaved", "zb-h1", "zb-h2", "zb-v", "chimera", "1f1b-so", "naive"};
    uint64_t round = 1000;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        for (int workers = 2; workers <= 6; workers += 2)
            for (int length = 60; length < 68; length++, round++) {
                struct pipe_run run = {.schedule = schedules[i],
                                       .policy = "sync",
                                       .flush = true,
                                       .workers = workers,
                                       .micro_batches = length,
                                       .batches = 1 + (int)(round % 3),
                                       .period = strcmp(schedules[i], "chimera") == 0 ? 2 : 1};
                check(&run, round);
            }
}

/* A greedy order takes longer until it repeats itself. */
static void test_greedy(void **state) {
    (void)state;
    static const int workers[] = {2, 3, 4, 6};
    for (int i = 0; i < 4; i++) {
        struct pipe_run run = {.schedule = "hanayo", .policy = "sync", .flush = true, .batches = 2};
        run.workers = workers[i];
        run.micro_batches = 301 + i;
        check(&run, 1500 + (uint64_t)i);
    }
}

static void test_replicas(void **state) {
    (void)state;
    static const struct pipe_run runs[] = {
        {.schedule = "1f1b", .policy = "sync", .flush = true, .workers = 3, .batches = 2, .period = 2, .replicas = {2, 1, 2}},
        {.schedule = "1f1b", .policy = "sync", .flush = true, .workers = 2, .batches = 3, .period = 6, .replicas = {2, 3, 1}},
        {.schedule = "1f1b-async", .policy = "latest", .workers = 3, .micro_batches = 1, .period = 2, .replicas = {1, 2, 1}},
        {.schedule = "1f1b-async", .policy = "stash", .workers = 2, .micro_batches = 2, .period = 3, .replicas = {3, 1, 1}},
        {.schedule = "1f1b-async", .policy = "pipeoptim", .workers = 3, .micro_batches = 1, .period = 6, .replicas = {2, 3, 1}},
    };
    uint64_t round = 2000;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int length = 60; length < 72; length++, round++) {
            struct pipe_run run = runs[i];
            *(run.flush ? &run.micro_batches : &run.batches) = length;
            check(&run, round);
        }
}

static void test_split(void **state) {
    (void)state;
    static const struct pipe_run runs[] = {
        {.schedule = "1f1b-async", .policy = "latest", .micro_batches = 1},
        {.schedule = "1f1b-async", .policy = "stash", .micro_batches = 1},
        {.schedule = "1f1b-async", .policy = "pipeoptim", .micro_batches = 2, .recompute = true},
    };
    uint64_t round = 3000;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        for (int workers = 2; workers <= 6; workers++)
            for (int length = 60; length < 64; length++, round++) {
                struct pipe_run run = runs[i];
                run.workers = workers;
                run.split = true;
                run.period = 2;
                *(run.flush ? &run.micro_batches : &run.batches) = length;
                check(&run, round);
            }
}

/* gpipe keeps every micro-batch: its slots grow with them, and nothing is inserted in one piece. Short runs are not worth
 * it. */
static void test_left_alone(void **state) {
    (void)state;
    struct pipe_run gpipe = {
        .schedule = "gpipe", .policy = "sync", .flush = true, .workers = 3, .micro_batches = 40, .batches = 2};
    assert_null(roll(&gpipe));
    struct pipe_run few = {.schedule = "1f1b", .policy = "sync", .flush = true, .workers = 4, .micro_batches = 8, .batches = 2};
    assert_null(roll(&few));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same),     cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_replicas), cmocka_unit_test(test_greedy),
                                       cmocka_unit_test(test_split),    cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
