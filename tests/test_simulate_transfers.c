/* Transfers, links and cores in small cases computed by hand. Forward 1 s, backward 2 s unless said otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "split_support.h"
#include "support.h"

enum { STAGES_MAX = 8, BLOCK_BYTES = 64 };

struct pipeline {
    struct ps_programs *programs;
    struct ps_cluster *cluster;
    struct stage_cost costs[STAGES_MAX];
    struct ps_simulation *simulation;
};

static void pipeline_make(struct pipeline *pipeline, const char *schedule, int stages, int micro_batches, double latency_s) {
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = stages, .latency_s = latency_s};
    *pipeline = (struct pipeline){0};
    for (int s = 0; s < stages; s++)
        pipeline->costs[s] = (struct stage_cost){
            .time = {.forward_s = 1, .backward_input_s = 1, .backward_weight_s = 1},
            .size = {.input_bytes = BLOCK_BYTES, .output_bytes = s + 1 < stages ? BLOCK_BYTES : 0},
        };
    assert_ok(ps_cluster_uniform(&options, &pipeline->cluster, &test_error));
    assert_ok(lower_plain(schedule, "sync", stages, micro_batches, 1, &pipeline->programs));
}

static enum ps_status pipeline_try(struct pipeline *pipeline) {
    struct simulation_work work = {
        .programs = pipeline->programs, .costs = pipeline->costs, .cluster = pipeline->cluster, .samples = 1, .moments = 0};
    ps_simulation_destroy(pipeline->simulation);
    pipeline->simulation = NULL;
    return simulate_programs(&work, &pipeline->simulation, &test_error);
}

static double pipeline_run(struct pipeline *pipeline) {
    assert_ok(pipeline_try(pipeline));
    return pipeline->simulation->info.makespan_s;
}

static void pipeline_free(struct pipeline *pipeline) {
    ps_simulation_destroy(pipeline->simulation);
    ps_programs_destroy(pipeline->programs);
    ps_cluster_destroy(pipeline->cluster);
}

static const struct timeline_event *event_of(const struct pipeline *pipeline, enum opcode op, int stage, int micro_batch) {
    const struct timeline *timeline = &pipeline->simulation->timeline;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct instruction *instruction = &timeline->events[i].instruction;
        if (instruction->op == op && instruction->stage == stage && instruction->micro_batch == micro_batch)
            return &timeline->events[i];
    }
    fail_msg("%d%s%d is not in the timeline", stage, opcode_table[op].text, micro_batch);
    return NULL;
}

static void assert_start(const struct pipeline *pipeline, enum opcode op, int stage, int micro_batch, double start_s) {
    const struct timeline_event *event = event_of(pipeline, op, stage, micro_batch);
    if (event->start_s != start_s)
        fail_msg("%d%s%d starts at %g s, not at %g s", stage, opcode_table[op].text, micro_batch, event->start_s, start_s);
}

static void assert_transfer(const struct pipeline *pipeline, int stage, bool gradient, int micro_batch, double start_s,
                            double end_s) {
    const struct timeline *timeline = &pipeline->simulation->timeline;
    for (int i = 0; i < timeline->transfer_count; i++) {
        const struct timeline_transfer *transfer = &timeline->transfers[i];
        if (transfer->stage != stage || (transfer->traffic == TRAFFIC_GRADIENT) != gradient ||
            transfer->micro_batch != micro_batch)
            continue;
        assert_true(transfer->start_s == start_s);
        assert_true(transfer->end_s == end_s);
        assert_int_equal(transfer->from, stage);
        assert_int_equal(transfer->to, gradient ? stage - 1 : stage + 1);
        assert_int_equal(transfer->bytes, BLOCK_BYTES);
        return;
    }
    fail_msg("no transfer of stage %d, micro-batch %d", stage, micro_batch);
}

/* Latency and bandwidth: 0.25 s + 64 bytes at 128 bytes/s. There and back, nothing to hide behind. */
static void test_one_micro_batch(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "naive", 2, 1, 0.25);
    pipeline.cluster->links[0].bandwidth_bytes_per_s = 128;
    for (int overlap = 0; overlap < 2; overlap++) {
        pipeline.cluster->overlap = overlap;
        assert_true(pipeline_run(&pipeline) == 7.5);
        assert_transfer(&pipeline, 0, false, 0, 1, 1.75);
        assert_start(&pipeline, OP_F, 1, 0, 1.75);
        assert_transfer(&pipeline, 1, true, 0, 4.75, 5.5);
        assert_start(&pipeline, OP_B, 0, 0, 5.5);
        /* Without overlap sending takes the worker's time, too. */
        for (int w = 0; w < 2; w++) assert_true(pipeline.simulation->worker[w].idle_communication_s == (overlap ? 0.75 : 1.5));
    }
    pipeline_free(&pipeline);
}

static void test_overlap_hides_transfers(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 2, 0.75);
    assert_true(pipeline_run(&pipeline) == 10.5);
    assert_start(&pipeline, OP_F, 0, 1, 1);
    assert_start(&pipeline, OP_F, 1, 1, 2.75);
    assert_start(&pipeline, OP_B, 0, 0, 6.5);
    assert_start(&pipeline, OP_B, 0, 1, 8.5);
    /* Worker 1 only waits for the first activation, 1 s for the forward and 0.75 s for the transfer. */
    assert_true(pipeline.simulation->worker[1].idle_communication_s == 0.75);
    pipeline_free(&pipeline);
}

/* Each end spends 0.75 s on each transfer; the receiver from when it needs the block and the sender has begun. */
static void test_transfers_take_the_workers_time(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 2, 0.75);
    pipeline.cluster->overlap = false;
    assert_true(pipeline_run(&pipeline) == 12);
    assert_start(&pipeline, OP_F, 0, 1, 1.75);
    assert_start(&pipeline, OP_F, 1, 0, 1.75);
    assert_start(&pipeline, OP_F, 1, 1, 3.5);
    assert_start(&pipeline, OP_B, 1, 1, 7.25);
    assert_start(&pipeline, OP_B, 0, 0, 7.25);
    assert_start(&pipeline, OP_B, 0, 1, 10);
    for (int w = 0; w < 2; w++) assert_true(pipeline.simulation->worker[w].idle_communication_s == 3);
    pipeline_free(&pipeline);

    /* The second activation has long been sent when worker 1 needs it: taking it in still costs its time. */
    pipeline_make(&pipeline, "1f1b", 2, 2, 0.75);
    pipeline.cluster->overlap = false;
    assert_true(pipeline_run(&pipeline) == 12);
    assert_start(&pipeline, OP_B, 1, 0, 2.75);
    assert_start(&pipeline, OP_F, 1, 1, 6.25);
    assert_start(&pipeline, OP_B, 0, 0, 5.5);
    pipeline_free(&pipeline);
}

/* A link carries one block at a time, in the order they came; the sender's third forward waits for its output block. */
static void test_slow_link(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 3, 2);
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 0, 1, 3);
    assert_transfer(&pipeline, 0, false, 1, 3, 5);
    assert_transfer(&pipeline, 0, false, 2, 5, 7);
    assert_start(&pipeline, OP_F, 0, 1, 1);
    assert_start(&pipeline, OP_F, 0, 2, 3);
    assert_start(&pipeline, OP_F, 1, 2, 7);
    pipeline_free(&pipeline);
}

/* A transfer begins when the receiver has an empty block, too: worker 1 posts one receive ahead. */
static void test_slow_receiver(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 5, 0.5);
    pipeline.costs[1].time.forward_s = 4;
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 0, 1, 1.5);
    assert_transfer(&pipeline, 0, false, 1, 2, 2.5);
    assert_transfer(&pipeline, 0, false, 2, 5.5, 6);
    assert_start(&pipeline, OP_F, 0, 3, 3);
    assert_start(&pipeline, OP_F, 0, 4, 6);
    pipeline_free(&pipeline);
}

/* The two directions between two workers are two links; each may have figures of its own, the last that matches counts. */
static void test_links_of_their_own(void **state) {
    (void)state;
    struct pipeline pipeline;
    struct cluster_link links[] = {{.from = -1, .to = -1, .latency_s = 0.5}, {.from = 1, .to = 0, .latency_s = 4}};
    pipeline_make(&pipeline, "naive", 3, 1, 0);
    pipeline.cluster->links = links;
    pipeline.cluster->link_count = 2;
    assert_true(pipeline_run(&pipeline) == 3 * 3 + 0.5 + 0.5 + 0.5 + 4);
    assert_transfer(&pipeline, 0, false, 0, 1, 1.5);
    assert_transfer(&pipeline, 2, true, 0, 6, 6.5);
    assert_transfer(&pipeline, 1, true, 0, 8.5, 12.5);
    pipeline.cluster->links = NULL;
    pipeline_free(&pipeline);
}

/* Activations and gradients travel at the same time: one forward and one backward per period, each beside its transfer. */
static void test_directions_do_not_disturb_each_other(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "naive", 2, 1, 0);
    ps_programs_destroy(pipeline.programs);
    assert_ok(lower_plain("1f1b-async", "latest", 2, 1, 40, &pipeline.programs));
    struct cluster_link link = {.from = -1, .to = -1, .latency_s = 2.5};
    pipeline.cluster->links[0] = link;
    pipeline.cluster->link_count = 1;
    pipeline_run(&pipeline);
    /* A batch's round trip between the workers: F, transfer, F, B, transfer, B = 1 + 2.5 + 3 + 2.5 + 2, two batches under
     * way. */
    assert_true(pipeline.simulation->info.period_s == 11.0 / 2);
    pipeline_free(&pipeline);
}

static void append(struct program *program, enum opcode op, int stage) {
    struct instruction instruction = instruction_make(op, stage, 0);
    enum action action = opcode_table[op].action;
    instruction.peer = (int16_t)(1 - stage % 2);
    if (action == ACTION_FORWARD || action == ACTION_RECEIVE) instruction.block[BLOCK_INPUT] = 0;
    if (action == ACTION_FORWARD || action == ACTION_SEND) instruction.block[BLOCK_OUTPUT] = 0;
    assert_ok(program_append(program, &instruction, &test_error));
}

/* Two stages of one worker send to the same other worker: one link, one after the other. */
static void test_stages_share_a_link(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "naive", 4, 1, 2);
    ps_programs_destroy(pipeline.programs);
    assert_ok(programs_create(2, 4, &pipeline.programs, &test_error));
    assert_ok(schedule_find("naive", &pipeline.programs->schedule, &test_error));
    assert_ok(policy_find("sync", &pipeline.programs->policy, &test_error));
    pipeline.programs->micro_batches = pipeline.programs->batches = 1;
    for (int stage = 0; stage < 4; stage++) pipeline.programs->instances[stage].worker = stage % 2;
    struct program *sender = &pipeline.programs->worker[0], *receiver = &pipeline.programs->worker[1];
    for (int stage = 0; stage < 4; stage += 2) {
        append(sender, OP_F, stage);
        append(sender, OP_SA, stage);
        append(receiver, OP_RA, stage + 1);
    }
    append(receiver, OP_F, 1);
    append(receiver, OP_F, 3);
    pipeline_run(&pipeline);
    assert_start(&pipeline, OP_F, 2, 0, 1);
    assert_start(&pipeline, OP_F, 1, 0, 3);
    assert_start(&pipeline, OP_F, 3, 0, 5);
    pipeline_free(&pipeline);
}

/* Activation and gradient of one pair at the same time: side by side on a full-duplex link, in turns on a half-duplex one. */
static void test_half_duplex(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "1f1b", 2, 2, 0.5);
    pipeline.costs[0].time.forward_s = 3; /* its second forward ends at 6, the gradient is ready at 3 + 0.5 + 1 + 2 = 6.5 */
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 1, 6, 6.5);
    assert_transfer(&pipeline, 1, true, 0, 6.5, 7);
    pipeline.cluster->links[0].latency_s = 0.75;
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 1, 6, 6.75);
    assert_transfer(&pipeline, 1, true, 0, 6.75, 7.5);
    pipeline.costs[1].time.forward_s = 0.75;
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 1, true, 0, 6.5, 7.25);
    pipeline.cluster->links[0].half_duplex = true;
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 1, true, 0, 6.75, 7.5);
    pipeline_free(&pipeline);
}

/* Two neighbouring pairs on one shared link: the second activation and the one sent on at the same time take turns. */
static void test_shared_link(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 3, 3, 0.5);
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 1, 2, 2.5);
    assert_transfer(&pipeline, 1, false, 0, 2.5, 3);
    assert_transfer(&pipeline, 0, false, 2, 3, 3.5);
    pipeline.cluster->links[0].latency_s = 0.75;
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 2, 3, 3.75);
    assert_transfer(&pipeline, 1, false, 0, 2.75, 3.5);
    strcpy(pipeline.cluster->links[0].shared_link, "bus");
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 1, false, 0, 2.75, 3.5);
    assert_transfer(&pipeline, 0, false, 2, 3.5, 4.25);
    pipeline_free(&pipeline);
}

/* Whether transfers of two pairs are ever on their way at the same time. */
static bool overlap(const struct pipeline *pipeline, int from, int to, int other_from, int other_to) {
    const struct timeline *timeline = &pipeline->simulation->timeline;
    for (int i = 0; i < timeline->transfer_count; i++)
        for (int j = 0; j < timeline->transfer_count; j++) {
            const struct timeline_transfer *one = &timeline->transfers[i], *other = &timeline->transfers[j];
            if (one->from == from && one->to == to && other->from == other_from && other->to == other_to &&
                one->start_s < other->end_s && other->start_s < one->end_s)
                return true;
        }
    return false;
}

/* A pair may take turns with its other direction, which is half duplex, and that one with others on a bus: these do not take
 * turns with the pair. */
static void test_half_duplex_and_shared(void **state) {
    (void)state;
    static const struct {
        int from, to;
        bool half;
        const char *shared;
    } links[] = {{0, 1, false, ""}, {1, 0, true, "bus"}, {1, 2, false, "bus"}, {2, 1, false, ""}};
    struct pipeline pipeline;
    pipeline_make(&pipeline, "1f1b", 3, 8, 0);
    ps_cluster_destroy(pipeline.cluster);
    assert_ok(cluster_create(3, 4, &pipeline.cluster, &test_error));
    for (int w = 0; w < 3; w++) pipeline.cluster->devices[w].speed = 1;
    for (int l = 0; l < 4; l++) {
        struct cluster_link *link = &pipeline.cluster->links[l];
        *link = (struct cluster_link){.from = links[l].from, .to = links[l].to, .latency_s = 1.5, .half_duplex = links[l].half};
        strcpy(link->shared_link, links[l].shared);
    }
    pipeline_run(&pipeline);
    assert_false(overlap(&pipeline, 0, 1, 1, 0));
    assert_false(overlap(&pipeline, 1, 0, 1, 2));
    assert_true(overlap(&pipeline, 0, 1, 1, 2));
    assert_true(overlap(&pipeline, 1, 2, 2, 1));
    pipeline_free(&pipeline);
}

/* A streamed block leaves while it is made: what is shorter than the computation is hidden, what is longer shows its rest. */
static void test_streaming(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 2, 0.75);
    pipeline.cluster->streaming = true;
    assert_true(pipeline_run(&pipeline) == 9); /* (M+N-1)(F+B) */
    assert_transfer(&pipeline, 0, false, 0, 0, 1);
    assert_transfer(&pipeline, 0, false, 1, 1, 2);
    assert_start(&pipeline, OP_F, 1, 0, 1);
    pipeline.cluster->links[0].latency_s = 1.5;
    pipeline_run(&pipeline);
    assert_transfer(&pipeline, 0, false, 0, 0, 1.5);
    assert_transfer(&pipeline, 0, false, 1, 1.5, 3);
    assert_start(&pipeline, OP_F, 1, 1, 3);
    pipeline_free(&pipeline);
}

static int computing_at(const struct timeline *timeline, double time_s) {
    int count = 0;
    for (int i = 0; i < timeline->event_count; i++)
        count += timeline->events[i].start_s <= time_s && time_s < timeline->events[i].end_s;
    return count;
}

static void test_cores(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "1f1b", 4, 8, 0);
    double alone_s = pipeline_run(&pipeline), before_s = 1e9, work_s = 4 * 8 * 3;
    assert_true(alone_s == 11 * 3);
    for (int cores = 1; cores <= 5; cores++) {
        pipeline.cluster->cores = cores;
        double makespan_s = pipeline_run(&pipeline);
        const struct timeline *timeline = &pipeline.simulation->timeline;
        int most = 0;
        for (int i = 0; i < timeline->event_count; i++) {
            int count = computing_at(timeline, timeline->events[i].start_s);
            if (count > most) most = count;
        }
        assert_int_equal(most, cores < 4 ? cores : 4);
        assert_true(makespan_s <= before_s && makespan_s >= work_s / cores);
        before_s = makespan_s;
        if (cores == 1) assert_true(makespan_s == work_s);
        if (cores >= 4) assert_true(makespan_s == alone_s);
    }
    pipeline_free(&pipeline);
}

/* Three workers become ready in turn while the one core is taken: they get it in that order. */
static void test_core_queue(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 3, 0);
    pipeline.cluster->cores = 1;
    pipeline_run(&pipeline);
    /* Worker 0 asks again the moment it is done, but worker 1 is in the queue before it from then on. */
    assert_start(&pipeline, OP_F, 0, 0, 0);
    assert_start(&pipeline, OP_F, 0, 1, 1);
    assert_start(&pipeline, OP_F, 1, 0, 2);
    assert_start(&pipeline, OP_F, 0, 2, 3);
    assert_start(&pipeline, OP_F, 1, 1, 4);
    for (int w = 0; w < 2; w++) assert_true(pipeline.simulation->worker[w].idle_dependency_s > 0);
    pipeline.cluster->cores = 2;
    pipeline_run(&pipeline);
    for (int w = 0; w < 2; w++) assert_true(pipeline.simulation->worker[w].idle_dependency_s == 0);
    pipeline_free(&pipeline);
}

/* What a computation waits for: whose end, since when, and what then. */
struct expected_wait {
    enum opcode op;
    int stage, micro_batch;
    double since_s, input_s;
    enum opcode maker_op; /* OPCODE_COUNT: nothing of another worker */
    int maker_stage;
    enum wait_cause rest;
};

static void assert_waits(const struct pipeline *pipeline, const struct expected_wait *expected, size_t count) {
    const struct timeline *timeline = &pipeline->simulation->timeline;
    struct arena arena = {0};
    struct timeline_wait *waits;
    assert_ok(timeline_find_waits(timeline, &arena, &waits, &test_error));
    for (size_t e = 0; e < count; e++) {
        const struct expected_wait *wanted = &expected[e];
        const struct timeline_wait *wait =
            &waits[event_of(pipeline, wanted->op, wanted->stage, wanted->micro_batch) - timeline->events];
        const int maker =
            wanted->maker_op == OPCODE_COUNT
                ? TIMELINE_NONE
                : (int)(event_of(pipeline, wanted->maker_op, wanted->maker_stage, wanted->micro_batch) - timeline->events);
        if (wait->since_s != wanted->since_s || wait->input_s != wanted->input_s || wait->maker != maker ||
            wait->rest != wanted->rest)
            fail_msg("%d%s%d waits since %g s, %g s for event %d, then for %d", wanted->stage, opcode_table[wanted->op].text,
                     wanted->micro_batch, wait->since_s, wait->input_s, wait->maker, (int)wait->rest);
    }
    arena_release(&arena);
}

static void test_waits(void **state) {
    (void)state;
    static const struct expected_wait transfers[] = {{OP_F, 0, 0, 0, 0, OPCODE_COUNT, 0, WAIT_NOT},
                                                     {OP_F, 1, 0, 0, 1, OP_F, 0, WAIT_TRANSFER},
                                                     {OP_B, 1, 0, 2.75, 0, OPCODE_COUNT, 0, WAIT_NOT},
                                                     {OP_B, 0, 0, 1, 3.75, OP_B, 1, WAIT_TRANSFER}},
                                      made[] = {{OP_F, 1, 0, 0, 1, OP_F, 0, WAIT_NOT}, {OP_B, 0, 0, 1, 3, OP_B, 1, WAIT_NOT}},
                                      room[] = {{OP_F, 0, 1, 1, 0, OPCODE_COUNT, 0, WAIT_NOT},
                                                {OP_F, 0, 2, 2, 0, OPCODE_COUNT, 0, WAIT_ROOM},
                                                {OP_F, 1, 1, 4, 0, OP_F, 0, WAIT_TRANSFER}},
                                      core[] = {{OP_F, 1, 0, 0, 1, OP_F, 0, WAIT_CORE},
                                                {OP_F, 0, 2, 2, 0, OPCODE_COUNT, 0, WAIT_CORE},
                                                {OP_F, 1, 1, 3, 0, OP_F, 0, WAIT_CORE}};
    struct pipeline pipeline;
    pipeline_make(&pipeline, "naive", 2, 1, 0.75);
    pipeline_run(&pipeline);
    assert_waits(&pipeline, transfers, sizeof transfers / sizeof *transfers);
    pipeline_free(&pipeline);
    pipeline_make(&pipeline, "naive", 2, 1, 0);
    pipeline_run(&pipeline);
    assert_waits(&pipeline, made, sizeof made / sizeof *made);
    pipeline_free(&pipeline);
    pipeline_make(&pipeline, "gpipe", 2, 3, 2); /* test_slow_link */
    pipeline_run(&pipeline);
    assert_waits(&pipeline, room, sizeof room / sizeof *room);
    pipeline_free(&pipeline);
    pipeline_make(&pipeline, "gpipe", 2, 3, 0); /* test_core_queue */
    pipeline.cluster->cores = 1;
    pipeline_run(&pipeline);
    assert_waits(&pipeline, core, sizeof core / sizeof *core);
    pipeline_free(&pipeline);
}

/* The backwards of the first stage run on the second worker: they wait for the stash, whose transfer takes 8 s. */
static void test_waits_for_stashes(void **state) {
    (void)state;
    const struct split_case split = {.layers = 2, .workers = 2, .forward = {0, 1}, .backward = {1, 1}};
    static const struct expected_wait stashes[] = {{OP_B, 0, 0, 4, 0, OP_F, 0, WAIT_TRANSFER},
                                                   {OP_B, 0, 1, 14, 0, OP_F, 0, WAIT_TRANSFER}};
    struct ps_plan *plan = split_plan(&split, "1f1b-async", "latest", 1);
    struct pipeline pipeline;
    pipeline_make(&pipeline, "naive", 2, 1, 1);
    ps_programs_destroy(pipeline.programs);
    assert_ok(lower_plan(plan, 2, &pipeline.programs, &test_error));
    pipeline.cluster->links[0].latency_s = 0;
    pipeline.cluster->links[0].bandwidth_bytes_per_s = 2 * BLOCK_BYTES;
    for (int s = 0; s < 2; s++) pipeline.costs[s].size = (struct stage_sizes){.stash_bytes = s == 0 ? 16 * BLOCK_BYTES : 0};
    pipeline_run(&pipeline);
    assert_waits(&pipeline, stashes, 2);
    pipeline_free(&pipeline);
    ps_plan_destroy(plan);
}

/* A worker with two lanes waits for a transfer only where both do: here never. */
static void test_lanes_wait_together(void **state) {
    (void)state;
    static const struct expected_wait lanes[] = {{OP_F, 1, 0, 0, 1, OP_F, 0, WAIT_TRANSFER},
                                                 {OP_B, 0, 0, 0, 7, OP_B, 1, WAIT_TRANSFER}};
    struct pipeline pipeline;
    pipeline_make(&pipeline, "fbp-as", 2, 1, 4);
    assert_true(pipeline_run(&pipeline) == 11);
    assert_start(&pipeline, OP_F, 1, 0, 4);
    assert_start(&pipeline, OP_B, 0, 0, 9);
    assert_waits(&pipeline, lanes, 2);
    for (int w = 0; w < 2; w++) {
        const struct ps_simulation_worker *worker = &pipeline.simulation->worker[w];
        assert_true(worker->busy_s == 3 && worker->idle_communication_s == 0);
        assert_true(worker->idle_imbalance_s + worker->idle_dependency_s + worker->idle_fill_drain_s == 8);
    }
    pipeline_free(&pipeline);
}

/* Programs without an instruction, unverified: who waits for which block is named. */
static void test_deadlocks_name_blocks(void **state) {
    (void)state;
    static const struct {
        bool encoded;
        int worker;
        enum opcode missing, too; /* the first of it; with a second operation all of both */
        const char *said;
    } cases[] = {
        {false, 0, OP_SA, OPCODE_COUNT, "worker 0 waits at 0F4@0,s4,i4,o0 for output block 0"},
        {false, 1, OP_RA, OPCODE_COUNT, "worker 0 waits at 0F2@0,s2,i2,o0 for output block 0"},
        {false, 1, OP_SG, OPCODE_COUNT, "worker 0 waits at 0B0@0,s0,i0,g0 for output gradient block 0"},
        {false, 0, OP_RG, OPCODE_COUNT, "worker 0 waits at 0B2@0,s2,i2,g0 for output gradient block 0"},
        {false, 0, OP_RG, OP_RG, "worker 1 waits at 1B2@0,s2,i2,d0 for input gradient block 0"},
        {false, 0, OP_RG, OP_SA, "worker 1 waits at 1F0@0,s0,i0 for input block 0"},
        {true, 0, OP_SA, OPCODE_COUNT, "worker 0 waits at 0EA4,o0,x0 for sent encoded activation block 0"},
        {true, 1, OP_RA, OPCODE_COUNT, "worker 0 waits at 0EA2,o0,x0 for sent encoded activation block 0"},
        {true, 1, OP_SG, OPCODE_COUNT, "worker 0 waits at 0DG0,v0,g0 for received encoded gradient block 0"},
        {true, 0, OP_RG, OPCODE_COUNT, "worker 0 waits at 0DG2,v0,g0 for received encoded gradient block 0"},
        {true, 0, OP_RG, OP_RG, "worker 1 waits at 1EG2,d0,u0 for sent encoded gradient block 0"},
        {true, 0, OP_RG, OP_SA, "worker 1 waits at 1DA0,y0,i0 for received encoded activation block 0"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct pipeline pipeline;
        struct ps_plan *plan;
        char said[200];
        pipeline_make(&pipeline, "gpipe", 2, 2, 0);
        ps_programs_destroy(pipeline.programs);
        assert_ok(plan_create(2, 2, &plan, &test_error));
        strcpy(plan->schedule, "gpipe");
        strcpy(plan->weights, "sync");
        plan->micro_batches = 8;
        for (int s = 0; s < 2; s++) assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
        if (cases[c].encoded) plan->stages[0].wire = (struct cut_wire){{.codec = WIRE_INT8}, {.codec = WIRE_INT8}};
        assert_ok(lower_plan(plan, 1, &pipeline.programs, &test_error));
        struct program *program = &pipeline.programs->worker[cases[c].worker];
        const bool all = cases[c].too != OPCODE_COUNT;
        if (!all) remove_instruction(program, nth(pipeline.programs, cases[c].worker, cases[c].missing, 0));
        for (int i = program->count - 1; all && i >= 0; i--)
            if (program->code[i].op == cases[c].missing || program->code[i].op == cases[c].too)
                remove_instruction(program, &program->code[i]);
        snprintf(said, sizeof said, "the programs deadlock: %s", cases[c].said);
        assert_int_equal(pipeline_try(&pipeline), PS_FAILED);
        assert_string_equal(test_error.message, said);
        ps_plan_destroy(plan);
        pipeline_free(&pipeline);
    }
}

static void test_deadlock_and_small_cluster(void **state) {
    (void)state;
    struct pipeline pipeline;
    pipeline_make(&pipeline, "gpipe", 2, 2, 0);
    struct program *program = &pipeline.programs->worker[0];
    for (int i = 0; i < program->count; i++)
        if (program->code[i].op == OP_SA && program->code[i].micro_batch == 1) {
            memmove(&program->code[i], &program->code[i + 1], (size_t)(program->count - i - 1) * sizeof *program->code);
            program->count--;
        }
    assert_int_equal(pipeline_try(&pipeline), PS_FAILED);
    assert_status(pipeline_try(&pipeline), PS_FAILED, "deadlock: worker 0 waits at 0B0");
    pipeline.cluster->workers = 1;
    assert_status(pipeline_try(&pipeline), PS_USAGE, "has 1 of the 2 workers");
    pipeline_free(&pipeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_micro_batch),
        cmocka_unit_test(test_overlap_hides_transfers),
        cmocka_unit_test(test_transfers_take_the_workers_time),
        cmocka_unit_test(test_slow_link),
        cmocka_unit_test(test_slow_receiver),
        cmocka_unit_test(test_links_of_their_own),
        cmocka_unit_test(test_directions_do_not_disturb_each_other),
        cmocka_unit_test(test_stages_share_a_link),
        cmocka_unit_test(test_half_duplex),
        cmocka_unit_test(test_shared_link),
        cmocka_unit_test(test_half_duplex_and_shared),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_cores),
        cmocka_unit_test(test_core_queue),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_waits_for_stashes),
        cmocka_unit_test(test_lanes_wait_together),
        cmocka_unit_test(test_deadlocks_name_blocks),
        cmocka_unit_test(test_deadlock_and_small_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
