/*
 * The papers' worked examples as timelines, tests/golden/timelines/NAME.txt: a column per unit of time, a row per worker, in
 * it what the worker computes then. The papers draw them; where their texts leave a length open, a backward takes twice a
 * forward.
 *
 *   PENSTOCK_REGENERATE=1 build/release/tests/test_simulate_timelines     writes the files anew, to be reviewed as a change
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"

enum { STAGES_MAX = 4, CELL = 4, BLOCK_BYTES = 64 };

static const struct example {
    const char *name, *about, *schedule, *policy;
    int stages, micro_batches, batches;
    int forward[STAGES_MAX], backward[STAGES_MAX]; /* units of time */
    int transfer;                                  /* of a block over a link */
    int makespan, period;                          /* units; period 0: not claimed */
} examples[] = {
    {"pipeoptim_serial",
     "PipeOptim (Guan et al.), figure 1(a): serial execution, the whole network on one worker",
     "naive",
     "sync",
     1,
     1,
     5,
     {4},
     {8},
     0,
     60,
     12},
    {"pipeoptim_naive",
     "PipeOptim, figure 1(c): the naive approach, 4 workers, one mini-batch at a time",
     "naive",
     "sync",
     4,
     1,
     3,
     {1, 1, 1, 1},
     {2, 2, 2, 2},
     0,
     36,
     12},
    {"pipeoptim_gpipe",
     "PipeOptim, figure 1(b): GPipe, 4 workers, 4 micro-batches in a mini-batch",
     "gpipe",
     "sync",
     4,
     4,
     2,
     {1, 1, 1, 1},
     {2, 2, 2, 2},
     0,
     42,
     21},
    {"pipeoptim_pipedream",
     "PipeOptim, figure 1(d): PipeDream, 4 workers, 1F1B without flush, stashed weights",
     "1f1b-async",
     "stash",
     4,
     1,
     9,
     {1, 1, 1, 1},
     {2, 2, 2, 2},
     0,
     36,
     3},
    {"bipartition_layer_wise",
     "Bi-Partition, example: layers of 1 3 2 3 and 2 6 4 6 on 3 workers, layer-wise: period 12",
     "1f1b-async",
     "stash",
     3,
     1,
     7,
     {4, 2, 3},
     {8, 4, 6},
     0,
     0,
     12},
    {"bapipe_1f1b_sno",
     "BaPipe (Zhao et al.), figure 6(a): 1F1B-SNO, 3 accelerators, 8 micro-batches, F = B = 2, SR = 1",
     "1f1b",
     "sync",
     3,
     8,
     1,
     {2, 2, 2},
     {2, 2, 2},
     1,
     (8 + 3 - 1) * 4 + (3 + 8 - 2 - 3) * 2,
     0},
    {"bapipe_1f1b_so",
     "BaPipe, figure 6(b): 1F1B-SO, 3 accelerators, 8 micro-batches, F = B = 2, SR = 1",
     "1f1b-so",
     "sync",
     3,
     8,
     1,
     {2, 2, 2},
     {2, 2, 2},
     1,
     (8 + 3 - 1) * 4 + (3 - 1) * 2,
     0},
    {"bapipe_1f1b_as",
     "BaPipe, figure 5(a): 1F1B-AS, 3 accelerators, 8 micro-batches, F = B = 2, transfers of 1 streamed",
     "1f1b-as",
     "sync",
     3,
     8,
     1,
     {2, 2, 2},
     {2, 2, 2},
     1,
     (8 + 3 - 1) * 4,
     0},
    {"bapipe_fbp_as",
     "BaPipe, figure 5(b): FBP-AS, 3 accelerators, 8 micro-batches, F = B = 2, transfers of 1 streamed; of a device's two rows "
     "the first is its forwards', the second its backwards'",
     "fbp-as",
     "sync",
     3,
     8,
     1,
     {2, 2, 2},
     {2, 2, 2},
     1,
     (8 + 3 - 1) * 4,
     0},
};

static struct ps_programs *lower(const struct example *example) {
    struct ps_programs *programs;
    assert_ok(
        lower_plain(example->schedule, example->policy, example->stages, example->micro_batches, example->batches, &programs));
    return programs;
}

static struct ps_simulation *simulate(const struct example *example) {
    struct stage_cost costs[STAGES_MAX];
    for (int s = 0; s < example->stages; s++)
        costs[s] = (struct stage_cost){.time = {.forward_s = example->forward[s],
                                                .backward_input_s = 0.5 * example->backward[s],
                                                .backward_weight_s = 0.5 * example->backward[s]},
                                       .size = {.input_bytes = BLOCK_BYTES, .output_bytes = BLOCK_BYTES}};
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = example->stages, .latency_s = example->transfer};
    struct ps_cluster *cluster;
    struct ps_simulation *simulation;
    struct ps_programs *programs = lower(example);
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return simulation;
}

/* What a row's worker computes when the unit begins; with lanes, what it computes there. */
static const struct timeline_event *find(const struct timeline *timeline, int row, int unit) {
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        if (timeline->lanes > 1 && (event->instruction.op == OP_F) != (row % timeline->lanes == 0)) continue;
        if (event->worker == row / timeline->lanes && event->start_s <= unit && event->end_s > unit) return event;
    }
    return NULL;
}

/* "F3 " in every unit that F3 takes; mini-batches and micro-batches count from 1, as the papers do. */
static char *print(const struct example *example, const struct ps_simulation *simulation) {
    const struct timeline *timeline = &simulation->timeline;
    int units = (int)simulation->info.makespan_s;
    struct text text = {0};
    text_add(&text, "%s\n\ntime    ", example->about);
    for (int unit = 0; unit < units; unit++) text_add(&text, " %*d", CELL - 1, unit);
    for (int row = 0; row < timeline->workers * timeline->lanes; row++) {
        text_add(&text, "\nworker %d", row / timeline->lanes);
        for (int unit = 0; unit < units; unit++) {
            const struct timeline_event *found = find(timeline, row, unit);
            char cell[16] = ".";
            if (found)
                snprintf(cell, sizeof cell, "%s%d", opcode_table[found->instruction.op].text,
                         found->instruction.micro_batch + 1);
            text_add(&text, " %*s", CELL - 1, cell);
        }
    }
    text_add(&text, "\n");
    return text_take(&text);
}

static void check(const struct example *example) {
    char path[4096];
    struct ps_simulation *simulation = simulate(example);
    snprintf(path, sizeof path, "%s/golden/timelines/%s.txt", TEST_DIRECTORY, example->name);
    test_golden(path, print(example, simulation));
    if (example->makespan > 0) assert_true(simulation->info.makespan_s == example->makespan);
    if (example->period > 0) assert_true(simulation->info.period_s == example->period);
    ps_simulation_destroy(simulation);
}

static void test_examples(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) check(&examples[i]);
}

/* PipeOptim on its figure 1(d): the 5th mini-batch's forward sees W2, W3, W4 and W5 on GPUs 0 to 3; by its backward the
 * weights are W5 everywhere. */
static void test_fifth_mini_batch(void **state) {
    (void)state;
    struct ps_programs *programs = lower(&examples[3]);
    struct version_table versions;
    assert_ok(version_table_count(programs, &versions, &test_error));
    for (int s = 0; s < 4; s++) {
        assert_int_equal(versions.forward[s * versions.micro_batches + 4] + 1, 2 + s);
        assert_int_equal(versions.backward[s * versions.micro_batches + 4] + 1, 5);
    }
    version_table_free(&versions);
    ps_programs_destroy(programs);
}

/* Each pass is found by stage, micro-batch and direction, where the first micro-batch is not 0; what there is none of is not.
 */
static void test_index(void **state) {
    (void)state;
    enum { STAGES = 2, FIRST = 3, LAST = 7 };
    struct timeline timeline = {0};
    struct timeline_index index;
    for (int m = FIRST; m <= LAST; m++)
        for (int s = 0; s < STAGES; s++)
            for (int back = 0; back < 2; back++) {
                struct timeline_event event = {
                    .instruction = {.op = back ? (m % 2 ? OP_B : OP_I) : OP_F, .stage = (int16_t)s, .micro_batch = m}};
                if (m != 5 || !back) assert_ok(timeline_add(&timeline, &event, &test_error));
                event.instruction.op = OP_U;
                event.instruction.stage = 9;
                assert_ok(timeline_add(&timeline, &event, &test_error));
            }
    assert_ok(timeline_index_create(&timeline, &index, &test_error));
    for (int m = FIRST - 2; m <= LAST + 2; m++)
        for (int s = -1; s <= STAGES; s++)
            for (int back = 0; back < 2; back++) {
                const int place = timeline_index_find(&index, s, m, back);
                const bool wanted = m >= FIRST && m <= LAST && s >= 0 && s < STAGES && !(m == 5 && back);
                assert_int_equal(place != TIMELINE_NONE, wanted);
                if (!wanted) continue;
                const struct instruction *found = &timeline.events[place].instruction;
                assert_true(found->stage == s && found->micro_batch == m && (found->op != OP_F) == back);
            }
    timeline_index_free(&index);
    timeline_free(&timeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_examples), cmocka_unit_test(test_fifth_mini_batch),
                                       cmocka_unit_test(test_index)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
