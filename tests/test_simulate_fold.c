/* Folded programs: unfolded they are the lowered ones, and simulated they give the same to the last bit. */
#include <stdlib.h>
#include <string.h>

#include "simulate/simulate.h"
#include "support.h"

enum { STAGES_MAX = 9 };

struct pipe_run {
    const char *schedule, *policy;
    bool flush, recompute;
    int stages, micro_batches, batches;
};

static enum ps_status lower(void *context, int micro_batches, int batches, struct ps_programs **programs,
                            struct ps_error *error) {
    const struct pipe_run *shape = context;
    return lower_straight(shape->schedule, shape->policy, shape->stages, micro_batches, batches, shape->recompute, programs,
                          error);
}

static struct folded *fold(struct pipe_run *shape) {
    struct folded *folded;
    assert_ok(
        fold_create(lower, shape, shape->flush, shape->stages, shape->micro_batches, shape->batches, &folded, &test_error));
    return folded;
}

static void assert_same_code(const struct ps_programs *programs, const struct folded *folded) {
    for (int w = 0; w < programs->workers; w++) {
        struct folded_cursor cursor = {0};
        struct instruction page[7];
        int at = 0, count;
        assert_int_equal(fold_length(folded, w), programs->worker[w].count);
        while ((count = fold_next(folded, w, &cursor, page, 7)) > 0)
            for (int i = 0; i < count; i++, at++) {
                const struct instruction *wanted = &programs->worker[w].code[at];
                assert_int_equal(page[i].op, wanted->op);
                assert_int_equal(page[i].stage, wanted->stage);
                assert_int_equal(page[i].micro_batch, wanted->micro_batch);
                assert_int_equal(page[i].predict_to == NO_SLOT, wanted->predict_to == NO_SLOT);
                for (int kind = 0; kind < BLOCK_KINDS; kind++)
                    assert_int_equal(page[i].block[kind] == NO_SLOT, wanted->block[kind] == NO_SLOT);
            }
        assert_int_equal(at, programs->worker[w].count);
    }
    assert_memory_equal(programs->slots, folded->programs->slots, (size_t)programs->stages * sizeof *programs->slots);
}

static void assert_same_simulation(const struct ps_programs *programs, const struct folded *folded, uint64_t round) {
    struct stage_cost costs[STAGES_MAX];
    struct random_key key = test_key(round);
    for (int s = 0; s < programs->stages; s++)
        costs[s] = (struct stage_cost){.time = {.forward_s = 1 + random_below(key, 8 * (uint64_t)s, 4),
                                                .backward_input_s = 1 + random_below(key, 8 * (uint64_t)s + 1, 4),
                                                .update_s = 0.25},
                                       .size = {.input_bytes = 64, .output_bytes = 64}};
    struct ps_cluster_options options = {
        .workers = programs->workers, .latency_s = 0.25 * random_below(key, 1000, 12), .no_overlap = round % 5 == 4};
    struct ps_cluster *cluster;
    struct ps_simulation *plain, *short_one;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 1};
    assert_ok(simulate_programs(&work, &plain, &test_error));
    work.programs = folded->programs;
    work.folded = folded;
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
        {.schedule = "1f1b-async", .policy = "2bw", .micro_batches = STAGES_MAX},
    };
    uint64_t round = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int stages = 1; stages <= STAGES_MAX; stages++)
            for (int length = 26; length < 40; length += 3, round++) {
                struct pipe_run shape = shapes[i];
                struct ps_programs *programs;
                shape.stages = stages;
                *(shape.flush ? &shape.micro_batches : &shape.batches) = length;
                assert_ok(lower(&shape, shape.micro_batches, shape.batches, &programs, &test_error));
                struct folded *folded = fold(&shape);
                assert_non_null(folded);
                assert_same_code(programs, folded);
                assert_same_simulation(programs, folded, round);
                fold_destroy(folded);
                ps_programs_destroy(programs);
            }
}

/* gpipe keeps every micro-batch: its slots grow with them, and nothing is inserted in one piece. Short runs are not worth
 * it. */
static void test_left_alone(void **state) {
    (void)state;
    struct pipe_run gpipe = {
        .schedule = "gpipe", .policy = "sync", .flush = true, .stages = 3, .micro_batches = 40, .batches = 2};
    assert_null(fold(&gpipe));
    struct pipe_run few = {.schedule = "1f1b", .policy = "sync", .flush = true, .stages = 4, .micro_batches = 8, .batches = 2};
    assert_null(fold(&few));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_left_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
