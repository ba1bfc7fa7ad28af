/*
 * Lowering: every schedule with every policy, over workers and micro-batches, gives programs that the verifier accepts (more of
 * both in long_program_combinations.c), with the number of slots that the papers state; listings read back as they were
 * printed; wrong combinations are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "program/lower.h"
#include "program/program.h"
#include "program_support.h"
#include "support.h"

static void test_every_combination_verifies(void **state) {
    (void)state;
    int lowered = 0, refused = 0;
    for (int s = 0; schedule_table[s]; s++)
        for (int p = 0; policy_table[p]; p++)
            for (int stages = 1; stages <= 8; stages++)
                for (int m = 1; m <= 16; m++) {
                    if (!test_takes((size_t)(s + p + stages + m), 23)) continue;
                    struct ps_programs *programs;
                    bool recompute = (m + stages) % 2;
                    int batches = 1 + (m * 7 + stages * 3) % 6;
                    enum ps_status status = lower_straight(
                        &(struct straight){.schedule = schedule_table[s]->name,
                                           .policy = policy_table[p]->name,
                                           .workers = stages,
                                           .micro_batches = m,
                                           .batches = batches,
                                           .slack = combination_slack(schedule_table[s], policy_table[p], stages, m, m),
                                           .recompute = recompute},
                        &programs, &test_error);
                    if (!combination_possible(schedule_table[s], policy_table[p], stages, m)) {
                        assert_int_equal(status, PS_USAGE);
                        refused++;
                        continue;
                    }
                    if (status != PS_OK)
                        print_message("%s %s stages %d micro-batches %d batches %d: %s\n", schedule_table[s]->name,
                                      policy_table[p]->name, stages, m, batches, test_error.message);
                    assert_int_equal(status, PS_OK);
                    if (m % 5 == 1) check_round_trip(programs);
                    struct ps_programs *evaluation;
                    assert_ok(lower_evaluation(programs, 3, &evaluation, &test_error));
                    for (int stage = 0; stage < programs->stages; stage++) {
                        const struct stage_slots *train = &programs->slots[stage], *test = &evaluation->slots[stage];
                        assert_true(test->weights <= train->weights && test->stash <= train->stash);
                        assert_true(test->input <= train->input && test->output <= train->output);
                    }
                    ps_programs_destroy(evaluation);
                    ps_programs_destroy(programs);
                    lowered++;
                }
    print_message("%d combinations verified, %d refused\n", lowered, refused);
    assert_true(test_slow() || lowered > 2000);
}

/* A number for each schedule's programs, with every policy that it can have: a change that is wanted changes it, too, and is to
 * be looked at. */
static void test_programs_are_as_they_were(void **state) {
    (void)state;
    static const struct {
        const char *schedule;
        uint64_t hash;
    } wanted[] = {
        {"naive", 0x15d4df78fda1e20e},      {"gpipe", 0x1ed7af03ba6fdb91},       {"1f1b", 0x8f13ca1c66e77189},
        {"1f1b-async", 0xed7bf346693c326b}, {"1f1b-so", 0x33cf08961633653f},     {"1f1b-as", 0x005fa9270b81bcbe},
        {"fbp-as", 0x77cd1e2e7e9e9c9b},     {"interleaved", 0xf6d35ac2a7db1fe1}, {"hanayo", 0x42e908c3969ab6ca},
        {"chimera", 0xc29d8a40046336d0},    {"zb-h1", 0x1f2223a0e714859d},       {"zb-h2", 0xd44a415adfced98a},
        {"zb-v", 0x8463e2f829d9d229},       {"1f1b-star", 0xb41f7e701153c8e3},   {"pattern", 0x4b03ce8c819fe858},
    };
    int different = 0;
    for (int s = 0; schedule_table[s]; s++) {
        uint64_t hash = 0xCBF29CE484222325u;
        size_t w = 0;
        for (int p = 0; policy_table[p]; p++)
            for (int stages = 2; stages <= 5; stages++)
                for (int m = 2; m <= 8; m += 3) {
                    if (!combination_possible(schedule_table[s], policy_table[p], stages, m)) continue;
                    struct ps_programs *programs;
                    assert_ok(lower_straight(&(struct straight){.schedule = schedule_table[s]->name,
                                                                .policy = policy_table[p]->name,
                                                                .workers = stages,
                                                                .micro_batches = m,
                                                                .batches = 2,
                                                                .recompute = m % 2},
                                             &programs, &test_error));
                    char *text = ps_programs_print(programs);
                    for (const char *at = text; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001B3u;
                    free(text);
                    ps_programs_destroy(programs);
                }
        while (w < sizeof wanted / sizeof *wanted && strcmp(wanted[w].schedule, schedule_table[s]->name) != 0) w++;
        if (w < sizeof wanted / sizeof *wanted && wanted[w].hash == hash) continue;
        print_message("{\"%s\", 0x%016llx},\n", schedule_table[s]->name, (unsigned long long)hash);
        different++;
    }
    assert_int_equal(different, 0);
}

static struct ps_programs *lower_ok(const char *schedule, const char *policy, int stages, int m, int batches, bool recompute) {
    struct ps_programs *programs;
    assert_ok(lower_straight(&(struct straight){.schedule = schedule,
                                                .policy = policy,
                                                .workers = stages,
                                                .micro_batches = m,
                                                .batches = batches,
                                                .recompute = recompute},
                             &programs, &test_error));
    return programs;
}

/* The schedule for PyTorch: all computations of each worker in their order, or the reason why there is none. */
static void test_torch_csv(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("zb-h1", "sync", 2, 2, 1, false);
    char *csv;
    assert_ok(ps_programs_torch_csv(programs, &csv, &test_error));
    assert_string_equal(csv, "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
    free(csv);
    ps_programs_destroy(programs);
    static const struct {
        const char *schedule, *policy;
        int batches;
        bool recompute;
        const char *reason;
    } refused[] = {
        {"1f1b-async", "pipeoptim", 1, false, "schedule 1f1b-async: "},
        {"chimera", "sync", 1, false, "stage 0 is on 2 workers"},
        {"gpipe", "sync", 3, false, "3 mini-batches"},
        {"1f1b", "sync", 1, true, "stage 0 recomputes"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        programs = lower_ok(refused[i].schedule, refused[i].policy, 4, 4, refused[i].batches, refused[i].recompute);
        const enum ps_status status = ps_programs_torch_csv(programs, &csv, &test_error);
        assert_true(i > 0 || strstr(test_error.hint, "plan with --weights sync"));
        assert_status(status, PS_USAGE, refused[i].reason);
        ps_programs_destroy(programs);
    }
}

/* Copies of the weights and stashes in the steady state, stage p of P (PipeOptim, table of section II). */
static void test_slots_are_the_papers(void **state) {
    (void)state;
    for (int P = 1; P <= 8; P++) {
        struct ps_programs *stash = lower_ok("1f1b-async", "stash", P, 1, 4 * P, false);
        struct ps_programs *pipeoptim = lower_ok("1f1b-async", "pipeoptim", P, 1, 4 * P, false);
        struct ps_programs *latest = lower_ok("1f1b-async", "latest", P, 1, 4 * P, false);
        struct ps_programs *buffered = lower_ok("1f1b-async", "2bw", P, P, 8, false);
        struct ps_programs *flush = lower_ok("1f1b", "sync", P, 2 * P, 3, false);
        struct ps_programs *gpipe = lower_ok("gpipe", "sync", P, 2 * P, 3, false);
        struct ps_programs *light = lower_ok("1f1b", "sync", P, 2 * P, 3, true);
        for (int p = 0; p < P; p++) {
            int staleness;
            assert_int_equal(stash->slots[p].weights, P - p);
            assert_int_equal(stash->slots[p].stash, P - p);
            assert_int_equal(pipeoptim->slots[p].weights, p == P - 1 ? 1 : 2);
            assert_int_equal(latest->slots[p].weights, 1);
            assert_int_equal(buffered->slots[p].weights, 2);
            assert_int_equal(flush->slots[p].weights, 1);
            assert_int_equal(flush->slots[p].stash, P - p);
            assert_int_equal(gpipe->slots[p].stash, 2 * P);
            assert_int_equal(light->slots[p].stash, 1);
            assert_ok(programs_staleness(pipeoptim, p, &staleness, &test_error));
            assert_int_equal(staleness, P - 1 - p);
            assert_ok(programs_staleness(flush, p, &staleness, &test_error));
            assert_int_equal(staleness, 0);
        }
        struct ps_programs *all[] = {stash, pipeoptim, latest, buffered, flush, gpipe, light};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) ps_programs_destroy(all[i]);
    }
}

/* The updates that a stage's predictions look ahead, in order, forward predictions only (the reader follows the prediction). */
static int collect_ahead(const struct program *program, int *ahead_of_forward, int limit) {
    int count = 0, predicted = 0;
    int slot = NO_SLOT;
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        if (instruction->predict_to != NO_SLOT) {
            predicted = instruction->ahead;
            slot = instruction->predict_to;
        }
        if (instruction->op == OP_F && count < limit) ahead_of_forward[count++] = instruction->slot == slot ? predicted : 0;
    }
    return count;
}

/* s(k) = min(k, P-1-p) for the k-th forward since the pipeline began to fill (SEMANTICS: staleness), also at the end of the
 * segment, where it does not shrink: updates that stand between the forward and its backward are still those. */
static void test_pipeoptim_counts_s_while_filling(void **state) {
    (void)state;
    enum { P = 5, BATCHES = 13 };
    struct ps_programs *programs = lower_ok("1f1b-async", "pipeoptim", P, 1, BATCHES, false);
    for (int p = 0; p < P; p++) {
        int ahead[BATCHES];
        assert_int_equal(collect_ahead(&programs->worker[p], ahead, BATCHES), BATCHES);
        for (int k = 0; k < BATCHES; k++) assert_int_equal(ahead[k], k < P - 1 - p ? k : P - 1 - p);
    }
    ps_programs_destroy(programs);
}

/* SpecTrain's formulas in the steady state: forward floor(p/2) + P-1-p, backward floor(p/2). */
static void test_spectrain_distances(void **state) {
    (void)state;
    enum { P = 6, BATCHES = 30 };
    struct ps_programs *programs = lower_ok("1f1b-async", "spectrain", P, 1, BATCHES, false);
    for (int p = 0; p < P; p++) {
        int predicted = 0, slot = NO_SLOT;
        for (int i = 0; i < programs->worker[p].count; i++) {
            const struct instruction *instruction = &programs->worker[p].code[i];
            if (instruction->predict_to != NO_SLOT) {
                predicted = instruction->ahead;
                slot = instruction->predict_to;
            }
            int ahead = slot != NO_SLOT && instruction->slot == slot ? predicted : 0, k = instruction->micro_batch;
            bool steady = k >= P && k < BATCHES - P;
            if (instruction->op == OP_F && steady) assert_int_equal(ahead, p / 2 + P - 1 - p);
            if (instruction->op == OP_B && steady) assert_int_equal(ahead, p / 2);
            if (instruction->op == OP_B) assert_true(ahead <= BATCHES - k);
        }
    }
    ps_programs_destroy(programs);
}

/* Once the pipeline is full an update and the prediction after it are one instruction. */
static void test_prediction_is_fused(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("1f1b-async", "pipeoptim", 4, 1, 40, false);
    int separate = 0, fused = 0;
    for (int i = 0; i < programs->worker[0].count; i++) {
        const struct instruction *instruction = &programs->worker[0].code[i];
        separate += instruction->op == OP_P;
        fused += instruction->op == OP_U && instruction->predict_to != NO_SLOT;
    }
    assert_int_equal(separate, 3); /* while the pipeline fills */
    assert_int_equal(fused, 36);
    ps_programs_destroy(programs);
}

static void swap(struct instruction *a, struct instruction *b) {
    struct instruction keep = *a;
    *a = *b;
    *b = keep;
}

static void test_broken_programs_are_refused(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("1f1b-async", "stash", 3, 1, 8, false);
    swap(nth(programs, 0, OP_SA, 1), nth(programs, 0, OP_SA, 2));
    expect_refused(programs, "SA2");

    programs = lower_ok("1f1b-async", "stash", 3, 1, 8, false);
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_RA, 3));
    expect_refused(programs, "worker");

    programs = lower_ok("1f1b-async", "stash", 3, 1, 8, false);
    remove_instruction(&programs->worker[2], nth(programs, 2, OP_SG, 3));
    expect_refused(programs, "worker");

    programs = lower_ok("1f1b-async", "stash", 3, 1, 8, false);
    nth(programs, 0, OP_B, 5)->slot = (int16_t)((nth(programs, 0, OP_B, 5)->slot + 1) % 3);
    expect_refused(programs, "0B5");

    programs = lower_ok("1f1b-async", "pipeoptim", 3, 1, 8, false);
    nth(programs, 0, OP_U, 4)->ahead = 1;
    expect_refused(programs, "0F");

    programs = lower_ok("gpipe", "sync", 2, 4, 2, false);
    nth(programs, 0, OP_F, 3)->block[BLOCK_STASH] = 0;
    expect_refused(programs, "overwrites a stash");

    programs = lower_ok("gpipe", "sync", 2, 4, 2, false);
    programs->slots[0].stash = 3;
    expect_refused(programs, "does not have");

    programs = lower_ok("gpipe", "sync", 2, 4, 2, false);
    swap(nth(programs, 1, OP_B, 1), nth(programs, 1, OP_B, 2));
    expect_refused(programs, "order of the micro-batches");

    programs = lower_ok("1f1b", "sync", 2, 4, 2, false);
    nth(programs, 1, OP_SG, 0)->peer = 1;
    expect_refused(programs, "1SG0");

    programs = lower_ok("1f1b", "sync", 2, 4, 2, false);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_U, 1));
    expect_refused(programs, "0U1 is missing");

    programs = lower_ok("zb-h1", "sync", 3, 6, 2, false);
    remove_instruction(&programs->worker[1], nth(programs, 1, OP_W, 5));
    expect_refused(programs, "1U0");

    programs = lower_ok("zb-h1", "sync", 3, 6, 2, false);
    swap(nth(programs, 2, OP_W, 2), nth(programs, 2, OP_W, 3));
    expect_refused(programs, "order of the micro-batches");

    programs = lower_ok("zb-h1", "sync", 3, 6, 2, false);
    swap(nth(programs, 0, OP_I, 4), nth(programs, 0, OP_W, 4));
    expect_refused(programs, "0W4");

    programs = lower_ok("zb-h2", "sync", 3, 6, 2, false);
    nth(programs, 2, OP_I, 1)->block[BLOCK_DELTA] = nth(programs, 2, OP_I, 0)->block[BLOCK_DELTA];
    expect_refused(programs, "overwrites deltas");

    programs = lower_ok("zb-v", "sync", 2, 6, 1, false);
    *nth(programs, 1, OP_W, 11) = *nth(programs, 1, OP_W, 10);
    expect_refused(programs, "W");
}

/* Receives posted only right before their use deadlock under rendezvous: the verifier must see it. */
static void test_deadlock_is_seen(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("1f1b-async", "latest", 2, 1, 6, false);
    struct program *last = &programs->worker[1];
    /* The last worker waits for gradients' partner first: move its first receive behind everything. */
    struct instruction first = *nth(programs, 1, OP_RA, 0);
    remove_instruction(last, nth(programs, 1, OP_RA, 0));
    assert_ok(program_append(last, &first, &test_error));
    expect_refused(programs, "worker 1");
}

static void test_refusals(void **state) {
    (void)state;
    struct ps_programs *programs;
    assert_status(lower_plain("1f1b-asinc", "latest", 2, 1, 4, &programs), PS_USAGE, "1f1b-async");
    assert_status(lower_plain("gpipe", "stach", 2, 1, 4, &programs), PS_USAGE, "stash");
    assert_status(lower_plain("1f1b-async", "sync", 2, 1, 4, &programs), PS_USAGE,
                  "weights sync: schedule 1f1b-async does not flush; use another policy, or a schedule with a flush");
    assert_status(lower_plain("1f1b-async", "2bw", 4, 3, 4, &programs), PS_USAGE,
                  "micro-batches: weights 2bw needs at least as many as stages (4), not 3");
    assert_status(lower_plain("gpipe", "sync", 4, 0, 4, &programs), PS_USAGE, "micro-batches: 0 is outside 1 to ");
    assert_status(lower_plain("gpipe", "sync", 4, 4, 0, &programs), PS_USAGE, "batches: 0 is outside 1 to ");
}

/* How many stages a schedule needs on so many workers, and what it says. */
static void test_numbers_of_stages(void **state) {
    (void)state;
    static const struct {
        const char *schedule;
        int stages, workers;
        const char *needs;
    } wrong[] = {
        {"gpipe", 3, 2, "stages: 3 on 2 workers; schedule gpipe needs one on each worker"},
        {"chimera", 3, 3, "stages: 3 on 3 workers; schedule chimera needs an even number of workers and one stage for each"},
        {"hanayo", 3, 3, "stages: 3 on 3 workers; schedule hanayo needs an even number on each worker"},
        {"hanayo", 6, 2, "stages: 6 on 2 workers; schedule hanayo needs an even number on each worker"},
        {"interleaved", 5, 3, "stages: 5 on 3 workers; schedule interleaved needs a multiple of the workers"},
        {"zb-v", 4, 4, "stages: 4 on 4 workers; schedule zb-v needs two on each worker"},
        {"pattern", 4, 2, "pattern: the plan has none, and several stages on a worker need one"}};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_plan *plan;
        struct ps_programs *programs;
        assert_ok(plan_create(wrong[w].workers, wrong[w].stages, &plan, &test_error));
        plan->micro_batches = wrong[w].schedule[0] == 'p' ? 1 : 4;
        strcpy(plan->weights, wrong[w].schedule[0] == 'p' ? "stash" : "sync");
        strcpy(plan->schedule, wrong[w].schedule);
        for (int s = 0; s < wrong[w].stages; s++) assert_ok(plan_stage_set(plan, s, s, s, s % wrong[w].workers, &test_error));
        assert_int_equal(lower_plan(plan, 2, &programs, &test_error), PS_USAGE);
        assert_string_equal(test_error.message, wrong[w].needs);
        ps_plan_destroy(plan);
    }
    const struct straight tied = {
        .schedule = "1f1b-async", .policy = "stash", .workers = 3, .micro_batches = 1, .batches = 4, .tied = true};
    struct ps_programs *programs;
    assert_int_equal(lower_straight(&tied, &programs, &test_error), PS_USAGE);
    assert_string_equal(test_error.message, "schedule 1f1b-async does not flush, and stages 0 and 2 share weights (tied)");
    assert_string_equal(test_error.hint,
                        "use a schedule with a flush, such as 1f1b, a plan with all uses of a parameter in one "
                        "stage, or a network that shares none (tied=0)");
}

/* A plan may name the workers as it likes, but not place stages where the schedule does not. */
static void test_placement(void **state) {
    (void)state;
    static const int renamed[6] = {2, 0, 1, 2, 0, 1}, wave[6] = {0, 1, 2, 2, 1, 0};
    struct ps_plan *plan;
    struct ps_programs *programs;
    assert_ok(plan_create(3, 6, &plan, &test_error));
    plan->micro_batches = 4;
    strcpy(plan->weights, "sync");
    strcpy(plan->schedule, "interleaved");
    for (int s = 0; s < 6; s++) assert_ok(plan_stage_set(plan, s, s, s, renamed[s], &test_error));
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    check_round_trip(programs);
    ps_programs_destroy(programs);
    strcpy(plan->schedule, "1f1b");
    assert_status(lower_plan(plan, 2, &programs, &test_error), PS_USAGE, "stages: 6 on 3 workers; schedule 1f1b needs one");
    strcpy(plan->schedule, "hanayo");
    assert_status(lower_plan(plan, 2, &programs, &test_error), PS_USAGE, "stages[3].forward: worker 2; schedule hanayo");
    for (int s = 0; s < 6; s++) assert_ok(plan_stage_set(plan, s, s, s, wave[s], &test_error));
    assert_ok(lower_plan(plan, 2, &programs, &test_error));
    check_round_trip(programs);
    ps_programs_destroy(programs);
    ps_plan_destroy(plan);
}

/* Three stages on two workers, the first worker with both ends (MadPipe's special worker), by a pattern in a plan file; a
 * pattern whose computations wait for each other is refused. */
static void test_pattern(void **state) {
    (void)state;
    static const int holder[3] = {0, 1, 0};
    static const struct plan_operation right[6] = {{false, 0, 0}, {false, 1, 0}, {true, 1, 1},
                                                   {false, 2, 1}, {true, 2, 1},  {true, 0, 2}};
    struct plan_operation wrong[6];
    char directory[4096], path[8192];
    struct ps_plan *plan, *read;
    struct ps_programs *programs;
    assert_ok(plan_create(2, 3, &plan, &test_error));
    strcpy(plan->weights, "stash");
    strcpy(plan->schedule, "pattern");
    for (int s = 0; s < 3; s++) assert_ok(plan_stage_set(plan, s, s, s, holder[s], &test_error));
    assert_status(lower_plan(plan, 8, &programs, &test_error), PS_USAGE, "pattern: the plan has none");
    assert_ok(plan_pattern_set(plan, right, 6, &test_error));
    test_directory_make(directory);
    snprintf(path, sizeof path, "%s/plan.json", directory);
    assert_ok(ps_plan_write(plan, path, &test_error));
    assert_ok(ps_plan_read(path, &read, &test_error));
    test_directory_remove(directory);
    assert_int_equal(read->pattern_count, 6);
    assert_memory_equal(read->pattern, right, sizeof right);
    for (int p = 0; policy_table[p]; p++) {
        if (policy_table[p]->needs_flush) continue;
        strcpy(read->weights, policy_table[p]->name);
        read->micro_batches = policy_table[p]->group_of_workers ? 3 : 1;
        assert_ok(lower_plan(read, 8, &programs, &test_error));
        check_round_trip(programs);
        assert_int_equal(programs->slots[0].stash, 3);
        assert_int_equal(programs->slots[2].stash, 1);
        ps_programs_destroy(programs);
    }
    ps_plan_destroy(read);
    memcpy(wrong, right, sizeof wrong);
    wrong[2].shift = 0; /* worker 1 wants the gradient in the period of the forward, but stage 2 runs only in the next */
    wrong[5].shift = 0; /* and worker 0 wants its gradient before it runs stage 2 */
    assert_ok(plan_pattern_set(plan, wrong, 6, &test_error));
    assert_status(lower_plan(plan, 8, &programs, &test_error), PS_USAGE, "its order deadlocks: worker 0 waits at 0B0");
    wrong[3] = wrong[0];
    assert_ok(plan_pattern_set(plan, wrong, 6, &test_error));
    assert_status(lower_plan(plan, 8, &programs, &test_error), PS_USAGE, "pattern[3]: stage 0 has a forward already");
    ps_plan_destroy(plan);
}

static void test_bad_listings(void **state) {
    (void)state;
    struct ps_programs *programs = lower_ok("1f1b-async", "pipeoptim", 3, 2, 3, false), *again;
    char *text = ps_programs_print(programs);
    size_t length = strlen(text);
    /* Cut anywhere, it is refused (or, cut after the last instruction's end, still right). */
    for (size_t cut = 0; cut + 1 < length; cut += test_slow() ? 97 : 7) {
        char *part = strndup(text, cut);
        if (ps_programs_parse(part, &again, &test_error) == PS_OK) {
            assert_status(ps_programs_verify(again, &test_error), PS_BAD_INPUT, "");
            ps_programs_destroy(again);
        } else {
            assert_int_equal(test_error.status, PS_BAD_INPUT);
        }
        free(part);
    }
    free(text);
    ps_programs_destroy(programs);
    assert_status(ps_programs_parse("penstock-program 2\n", &again, &test_error), PS_BAD_INPUT, "line 1");
    assert_status(ps_programs_parse("", &again, &test_error), PS_BAD_INPUT, "penstock-program");
}

/* Whatever is chosen by name says in a few words what it is, and no two have one name. */
static void test_entries_say_what_they_are(void **state) {
    (void)state;
    for (int t = 0; t < PS_TABLE_COUNT; t++)
        for (size_t i = 0; i < ps_table_count((enum ps_table)t); i++) {
            const struct ps_entry entry = ps_table_entry((enum ps_table)t, i);
            assert_in_range(strlen(entry.name), 2, 31);
            if (!entry.summary || strlen(entry.summary) < 10) fail_msg("%s does not say what it is", entry.name);
            for (size_t j = 0; j < i; j++) assert_string_not_equal(entry.name, ps_table_entry((enum ps_table)t, j).name);
        }
}

/* What the entries say of themselves is in golden/tables.txt; of tables that no build makes shorter. */
static void test_summaries(void **state) {
    (void)state;
    static const struct {
        enum ps_table table;
        const char *name;
    } tables[] = {{PS_TABLE_SCHEDULES, "schedules"},
                  {PS_TABLE_POLICIES, "policies"},
                  {PS_TABLE_METHODS, "methods"},
                  {PS_TABLE_OPTIMIZERS, "optimizers"},
                  {PS_TABLE_LEARNING_RATES, "learning rates"}};
    struct text text = {0};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        text_add(&text, "%s\n", tables[t].name);
        for (size_t i = 0; i < ps_table_count(tables[t].table); i++) {
            const struct ps_entry entry = ps_table_entry(tables[t].table, i);
            text_add(&text, "  %-18s %s\n", entry.name, entry.summary);
        }
    }
    test_golden(TEST_DIRECTORY "/golden/tables.txt", text_take(&text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_say_what_they_are),
        cmocka_unit_test(test_every_combination_verifies),
        cmocka_unit_test(test_programs_are_as_they_were),
        cmocka_unit_test(test_torch_csv),
        cmocka_unit_test(test_summaries),
        cmocka_unit_test(test_slots_are_the_papers),
        cmocka_unit_test(test_pipeoptim_counts_s_while_filling),
        cmocka_unit_test(test_spectrain_distances),
        cmocka_unit_test(test_prediction_is_fused),
        cmocka_unit_test(test_broken_programs_are_refused),
        cmocka_unit_test(test_deadlock_is_seen),
        cmocka_unit_test(test_numbers_of_stages),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_placement),
        cmocka_unit_test(test_pattern),
        cmocka_unit_test(test_bad_listings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
