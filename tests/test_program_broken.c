/*
 * Programs broken on purpose, at random places: every kind of fault in programs of every schedule and policy, of stages with
 * replicas and of stages whose directions run on different workers, is refused with an instruction named.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "program_support.h"
#include "split_support.h"

struct dice {
    struct random_key key;
    uint64_t drawn;
};

static int draw(struct dice *dice, int below) { return (int)random_below(dice->key, dice->drawn++, (uint64_t)below); }

static enum action action_of(const struct instruction *instruction) { return opcode_table[instruction->op].action; }

static bool moves(const struct instruction *instruction) {
    return action_of(instruction) == ACTION_SEND || action_of(instruction) == ACTION_RECEIVE;
}

static bool same_way(const struct instruction *a, const struct instruction *b) {
    return a->op == b->op && a->stage == b->stage && a->peer == b->peer;
}

static void swap(struct instruction *a, struct instruction *b) {
    struct instruction keep = *a;
    *a = *b;
    *b = keep;
}

static void insert_after(struct program *program, int at, struct instruction instruction) {
    assert_ok(program_append(program, &instruction, &test_error));
    for (int i = program->count - 1; i > at + 1; i--) swap(&program->code[i], &program->code[i - 1]);
}

/* ------------------------------------------------------------------------ faults */

/* Each breaks instruction `at` of a worker, if it is of a kind that can be broken in this way. */
typedef bool fault(struct ps_programs *programs, int worker, int at, struct dice *dice);

static bool swap_with_next(struct ps_programs *programs, int worker, int at, bool (*wanted)(const struct instruction *)) {
    struct program *program = &programs->worker[worker];
    if (!wanted(&program->code[at])) return false;
    for (int i = at + 1; i < program->count; i++) {
        if (!same_way(&program->code[at], &program->code[i])) continue;
        swap(&program->code[at], &program->code[i]);
        return true;
    }
    return false;
}

static bool is_send(const struct instruction *instruction) { return action_of(instruction) == ACTION_SEND; }
static bool is_receive(const struct instruction *instruction) { return action_of(instruction) == ACTION_RECEIVE; }
static bool is_computation(const struct instruction *instruction) {
    return !moves(instruction) && instruction->op != OP_P && instruction->op != OP_AR;
}

static bool swapped_sends(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    return swap_with_next(programs, worker, at, is_send);
}

static bool removed(struct ps_programs *programs, int worker, int at, bool (*wanted)(const struct instruction *)) {
    struct program *program = &programs->worker[worker];
    if (!wanted(&program->code[at])) return false;
    remove_instruction(program, &program->code[at]);
    return true;
}

static bool missing_receive(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    return removed(programs, worker, at, is_receive);
}

static bool missing_send(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    return removed(programs, worker, at, is_send);
}

static bool missing_computation(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    return removed(programs, worker, at, is_computation);
}

static bool duplicate_computation(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    struct program *program = &programs->worker[worker];
    if (!is_computation(&program->code[at])) return false;
    insert_after(program, at + draw(dice, program->count - at), program->code[at]);
    return true;
}

/* Weights of another version than the policy requires. */
static bool stale_weights(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    struct instruction *instruction = &programs->worker[worker].code[at];
    int weights = programs->slots[programs_instance(programs, worker, instruction->stage)].weights;
    if (!is_computation(instruction) || weights < 2) return false;
    instruction->slot = (int16_t)((instruction->slot + 1 + draw(dice, weights - 1)) % weights);
    return true;
}

/* Predicted for one update more. */
static bool wrong_prediction(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    struct instruction *instruction = &programs->worker[worker].code[at];
    if (instruction->predict_to == NO_SLOT) return false;
    instruction->ahead++;
    return true;
}

static bool wrong_block(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    struct instruction *instruction = &programs->worker[worker].code[at];
    const struct stage_slots *slots = &programs->slots[programs_instance(programs, worker, instruction->stage)];
    enum block_kind kind = (enum block_kind)draw(dice, BLOCK_KINDS);
    int count = stage_slots_of(slots, kind);
    /* Where it is made again, any free block will do for a stash that nobody keeps, and for an output that nobody sends. */
    bool spare =
        instruction->op == OP_R || (instruction->op == OP_F && kind == BLOCK_STASH && programs->recompute[instruction->stage]);
    if (instruction->block[kind] == NO_SLOT || spare || count < 2) return false;
    instruction->block[kind] = (int16_t)((instruction->block[kind] + 1 + draw(dice, count - 1)) % count);
    return true;
}

/* A slot less than the programs use. */
static bool overfull_memory(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    struct instruction *instruction = &programs->worker[worker].code[at];
    struct stage_slots *slots = &programs->slots[programs_instance(programs, worker, instruction->stage)];
    enum block_kind kind = (enum block_kind)draw(dice, BLOCK_KINDS);
    int *count = stage_slots_place(slots, kind);
    if (instruction->block[kind] == NO_SLOT || *count == 0) return false;
    *count = instruction->block[kind];
    return true;
}

static bool wrong_micro_batch(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    struct instruction *instruction = &programs->worker[worker].code[at];
    if (instruction->op == OP_P) return false; /* says what it is for, and is checked by what reads it */
    instruction->micro_batch++;
    return true;
}

/* Not in time: behind everything else. */
static bool late(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    struct program *program = &programs->worker[worker];
    struct instruction instruction = program->code[at];
    if (!is_receive(&instruction) || at == program->count - 1) return false;
    for (int i = at + 1; i < program->count; i++)
        if (program->code[i].stage == instruction.stage && is_computation(&program->code[i]) &&
            program->code[i].micro_batch == instruction.micro_batch) {
            remove_instruction(program, &program->code[at]);
            insert_after(program, program->count - 1, instruction);
            return true;
        }
    return false;
}

static bool wrong_peer(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    struct instruction *instruction = &programs->worker[worker].code[at];
    if (!moves(instruction) || programs->workers < 2) return false;
    instruction->peer = (int16_t)((instruction->peer + 1 + draw(dice, programs->workers - 1)) % programs->workers);
    return true;
}

static bool missing_sum(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    (void)dice;
    struct program *program = &programs->worker[worker];
    if (program->code[at].op != OP_AR) return false;
    remove_instruction(program, &program->code[at]);
    return true;
}

static bool wrong_sum(struct ps_programs *programs, int worker, int at, struct dice *dice) {
    struct program *program = &programs->worker[worker];
    if (program->code[at].op != OP_AR) return false;
    if (draw(dice, 2)) {
        insert_after(program, at, program->code[at]);
        return true;
    }
    program->code[at].micro_batch = program->code[at].micro_batch > 0 ? program->code[at].micro_batch - 1 : 1;
    return true;
}

static const struct {
    const char *name;
    fault *make;
} faults[] = {
    {"swapped sends", swapped_sends},
    {"missing receive", missing_receive},
    {"missing send", missing_send},
    {"missing computation", missing_computation},
    {"duplicate computation", duplicate_computation},
    {"stale weights", stale_weights},
    {"wrong prediction", wrong_prediction},
    {"wrong block", wrong_block},
    {"overfull memory", overfull_memory},
    {"wrong micro-batch", wrong_micro_batch},
    {"late receive", late},
    {"wrong peer", wrong_peer},
    {"missing all-reduce", missing_sum},
    {"wrong all-reduce", wrong_sum},
};
enum { FAULTS = sizeof faults / sizeof faults[0] };

/* ---------------------------------------------------------------------- programs */

/* "2F0": a stage, an opcode, a micro-batch. */
static bool names_instruction(const char *message) {
    for (const char *at = message; *at; at++) {
        if (!isdigit((unsigned char)*at) || (at > message && isalnum((unsigned char)at[-1]))) continue;
        const char *op = at + strspn(at, "0123456789");
        size_t length = strspn(op, "ABFGIPRSUW");
        for (int o = 0; o < OPCODE_COUNT; o++)
            if (length == strlen(opcode_table[o].text) && strncmp(op, opcode_table[o].text, length) == 0 &&
                isdigit((unsigned char)op[length]))
                return true;
    }
    return false;
}

enum form { STRAIGHT, REPLICAS, SPLIT, FORMS };

/* *programs NULL: the schedule or policy is not for this. */
static void make_programs(enum form form, const struct schedule *schedule, const struct weight_policy *policy,
                          struct dice *dice, struct ps_programs **programs) {
    int m = 1 + draw(dice, 8), batches = 2 + draw(dice, 3), stages = 2 + draw(dice, 3);
    bool recompute = draw(dice, 3) == 0;
    enum ps_status status;
    struct ps_plan *plan = NULL;
    *programs = NULL;
    if (form == STRAIGHT) {
        status = lower_straight(&(struct straight){.schedule = schedule->name,
                                                   .policy = policy->name,
                                                   .workers = stages,
                                                   .micro_batches = m,
                                                   .batches = batches,
                                                   .recompute = recompute},
                                programs, &test_error);
    } else if (form == SPLIT) {
        struct split_case split = split_draw(dice->key, &dice->drawn, 6, 4);
        plan = split_plan(&split, schedule->name, policy->name, m);
    } else {
        int list[16], replicas[4], workers = 0;
        for (int s = 0; s < stages; s++) workers += replicas[s] = 1 + draw(dice, 3);
        assert_ok(plan_create(workers, stages, &plan, &test_error));
        strcpy(plan->schedule, schedule->name);
        strcpy(plan->weights, policy->name);
        plan->micro_batches = m;
        for (int s = 0, worker = 0; s < stages; s++) {
            for (int r = 0; r < replicas[s]; r++) list[r] = worker++;
            assert_ok(plan_stage_workers(plan, s, list, replicas[s], list, replicas[s], &test_error));
            plan->stages[s].first = plan->stages[s].last = s;
        }
    }
    if (plan) {
        for (int s = 0; s < plan->stage_count; s++) plan->stages[s].recompute = recompute;
        status = lower_plan(plan, batches, programs, &test_error);
        ps_plan_destroy(plan);
    }
    if (status != PS_OK) *programs = NULL;
}

/* Breaks one random instruction; whether there is one. */
static bool break_somewhere(struct ps_programs *programs, fault *make, struct dice *dice) {
    int total = 0;
    for (int w = 0; w < programs->workers; w++) total += programs->worker[w].count;
    for (int tries = 0; tries < 200; tries++) {
        int at = draw(dice, total), worker = 0;
        while (at >= programs->worker[worker].count) at -= programs->worker[worker++].count;
        if (make(programs, worker, at, dice)) return true;
    }
    return false;
}

static void test_every_fault_is_refused(void **state) {
    (void)state;
    enum { TRIALS = 6 };
    struct dice dice = {.key = test_key(0)};
    int refused[FORMS][FAULTS] = {{0}};
    for (int form = 0; form < FORMS; form++)
        for (int s = 0; schedule_table[s]; s++)
            for (int p = 0; policy_table[p]; p++)
                for (int trial = 0; trial < TRIALS * FAULTS; trial++) {
                    struct ps_programs *programs;
                    struct ps_error error = {0};
                    int kind = trial % FAULTS;
                    make_programs((enum form)form, schedule_table[s], policy_table[p], &dice, &programs);
                    if (!programs) continue;
                    char *whole = ps_programs_print(programs);
                    if (break_somewhere(programs, faults[kind].make, &dice)) {
                        enum ps_status status = ps_programs_verify(programs, &error);
                        if (status != PS_BAD_INPUT || !names_instruction(error.message)) {
                            char *broken = ps_programs_print(programs);
                            fail_msg("%s (status %d, \"%s\") in\n%s\nbroken:\n%s", faults[kind].name, status, error.message,
                                     whole, broken);
                        }
                        refused[form][kind]++;
                    }
                    free(whole);
                    ps_programs_destroy(programs);
                }
    for (int kind = 0; kind < FAULTS; kind++) {
        print_message("%-22s refused %4d times, with replicas %4d, split %4d\n", faults[kind].name, refused[STRAIGHT][kind],
                      refused[REPLICAS][kind], refused[SPLIT][kind]);
        assert_true(refused[REPLICAS][kind] > 0);
    }
}

/* What blocks hold: the message names the one that is wrong. (Encoded ones: test_train_wire.c.) */
static void test_blocks_are_named(void **state) {
    (void)state;
    static const struct wrong_block wrong[] = {
        {2, OP_F, OPCODE_COUNT, BLOCK_STASH, "its stash block does not hold this micro-batch"},
        {1, OPCODE_COUNT, OP_W, BLOCK_DELTA, "its delta block does not hold this micro-batch"},
        {1, OPCODE_COUNT, OP_F, BLOCK_INPUT, "its input block does not hold this micro-batch"},
        {0, OP_F, OPCODE_COUNT, BLOCK_OUTPUT, "its output block does not hold this micro-batch"},
        {1, OPCODE_COUNT, OP_I, BLOCK_OUTPUT_GRADIENT, "its output-gradient block does not hold this micro-batch"},
        {2, OP_I, OPCODE_COUNT, BLOCK_INPUT_GRADIENT, "its input-gradient block does not hold this micro-batch"},
        {0, OPCODE_COUNT, OP_F, BLOCK_STASH, "overwrites a stash that is still needed"},
        {1, OP_W, OP_I, BLOCK_DELTA, "overwrites deltas that are still needed"},
        {1, OPCODE_COUNT, OP_RA, BLOCK_INPUT, "overwrites an input that is still needed"},
        {0, OP_SA, OP_F, BLOCK_OUTPUT, "overwrites an output that was not sent"},
        {0, OP_I, OP_RG, BLOCK_OUTPUT_GRADIENT, "overwrites an output gradient that is still needed"},
        {1, OP_SG, OP_I, BLOCK_INPUT_GRADIENT, "overwrites an input gradient that was not sent"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_programs *programs;
        assert_ok(lower_plain("zb-h1", "sync", 3, 4, 2, &programs));
        assert_ok(ps_programs_verify(programs, &test_error));
        expect_wrong_block(programs, &wrong[w]);
    }
}

/* Where an update is missing, the first instruction is named that is wrong without it. */
static void test_gradients_between_updates(void **state) {
    (void)state;
    static const struct {
        int update;
        const char *reason;
    } missing[] = {
        {0, "worker 0: 0B2@0,s0,i0: gradients are not added in the order of the micro-batches, one mini-batch between updates"},
        {1, "worker 0: 0B4@0,s0,i0: gradients are not added in the order of the micro-batches, one mini-batch between updates"},
        {2, "worker 0: 0U2 is missing: the stage makes fewer updates than it has mini-batches"},
    };
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        struct ps_programs *programs;
        assert_ok(lower_plain("gpipe", "sync", 1, 2, 3, &programs));
        remove_instruction(&programs->worker[0], nth(programs, 0, OP_U, missing[i].update));
        expect_refused(programs, missing[i].reason);
    }
}

/* One figure of one instruction of worker 0, and the reason that the verifier gives. */
struct wrong_figure {
    enum opcode op;
    enum { OP, STAGE, MICRO_BATCH, SLOT, TO, PREDICT_TO, AHEAD, PEER, BLOCK } figure;
    int value;
    enum block_kind kind;
    const char *reason;
};

static void set_figure(struct instruction *instruction, const struct wrong_figure *wrong) {
    const int16_t value = (int16_t)wrong->value;
    switch (wrong->figure) {
    case OP:
        instruction->op = (uint8_t)wrong->value;
        break;
    case STAGE:
        instruction->stage = value;
        break;
    case MICRO_BATCH:
        instruction->micro_batch = wrong->value;
        break;
    case SLOT:
        instruction->slot = value;
        break;
    case TO:
        instruction->to = value;
        break;
    case PREDICT_TO:
        instruction->predict_to = value;
        break;
    case AHEAD:
        instruction->ahead = value;
        break;
    case PEER:
        instruction->peer = value;
        break;
    case BLOCK:
        instruction->block[wrong->kind] = value;
        break;
    }
}

/* What an instruction says that cannot be, at both ends of each range. */
static void test_reasons(void **state) {
    (void)state;
    enum { BATCHES = 6, SLOTS = 2 };
    static const char reads[] = "reads a weight slot that the stage does not have",
                      writes[] = "writes a weight slot that the stage does not have",
                      exists[] = "names a stage that does not exist", outside[] = "is outside the segment",
                      block[] = "names a block that the stage does not have",
                      holds[] = "names a worker that does not hold the stage at the other end";
    static const struct wrong_figure wrong[] = {
        {OP_F, SLOT, SLOTS, 0, reads},
        {OP_F, SLOT, -1, 0, reads},
        {OP_U, TO, SLOTS, 0, writes},
        {OP_U, TO, -1, 0, writes},
        {OP_U, PREDICT_TO, SLOTS, 0, "predicts into a weight slot that the stage does not have"},
        {OP_U, PREDICT_TO, 0, 0, "overwrites the weights with their prediction"},
        {OP_U, AHEAD, 0, 0, "predicts fewer than one update ahead"},
        {OP_F, STAGE, 2, 0, exists},
        {OP_F, STAGE, -1, 0, exists},
        {OP_F, STAGE, 1, 0, "is on a worker that does not hold the stage"},
        {OP_F, MICRO_BATCH, BATCHES, 0, outside},
        {OP_B, MICRO_BATCH, -1, 0, outside},
        {OP_U, MICRO_BATCH, BATCHES, 0, outside},
        {OP_B, BLOCK, 0, BLOCK_INPUT_GRADIENT, "names a block towards a stage that does not exist"},
        {OP_F, BLOCK, 99, BLOCK_STASH, block},
        {OP_F, BLOCK, NO_SLOT, BLOCK_STASH, block},
        {OP_SA, PEER, 0, 0, holds},
        {OP_SA, PEER, 2, 0, holds},
        {OP_SA, OP, OP_SG, 0, "has no stage at the other end"},
        {OP_SA, BLOCK, 0, BLOCK_WIRE + WIRE_ACTIVATION_SENT, "names an encoded block where the cut has no codec"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_programs *programs;
        char said[200], text[96];
        assert_ok(lower_plain("1f1b-async", "pipeoptim", 2, 1, BATCHES, &programs));
        assert_int_equal(programs->slots[0].weights, SLOTS);
        struct instruction *instruction = nth(programs, 0, wrong[w].op, 0);
        set_figure(instruction, &wrong[w]);
        snprintf(said, sizeof said, "worker 0: %s: %s", instruction_text(instruction, text), wrong[w].reason);
        assert_int_equal(ps_programs_verify(programs, &test_error), PS_BAD_INPUT);
        assert_string_equal(test_error.message, said);
        ps_programs_destroy(programs);
    }
}

/* Of an update that is wrong in two ways the first is said. */
static void test_first_reason(void **state) {
    (void)state;
    struct ps_programs *programs;
    assert_ok(lower_plain("1f1b", "sync", 1, 2, 2, &programs));
    struct program *program = &programs->worker[0];
    struct instruction *update = nth(programs, 0, OP_U, 0), early = *update;
    remove_instruction(program, update);
    early.micro_batch = 1;
    insert_after(program, (int)(nth(programs, 0, OP_B, 0) - program->code), early);
    assert_status(ps_programs_verify(programs, &test_error), PS_BAD_INPUT, "updates are not in the order of the mini-batches");
    ps_programs_destroy(programs);
}

/* Everything on as many workers as there are stages. */
static struct ps_programs *straight(const char *schedule, const char *policy, int workers) {
    struct ps_programs *programs;
    assert_ok(lower_plain(schedule, policy, workers, 2, 4, &programs));
    return programs;
}

/* The middle one of three stages goes forwards on worker 0 and backwards on worker 1. */
static struct ps_programs *parted(bool recompute) {
    static const struct split_case split = {.layers = 3, .workers = 2, .forward = {0, 0, 1}, .backward = {0, 1, 1}};
    struct ps_programs *programs;
    struct ps_plan *plan = split_plan(&split, "1f1b", "sync", 2);
    plan->stages[1].recompute = recompute;
    assert_ok(lower_plan(plan, 3, &programs, &test_error));
    ps_plan_destroy(plan);
    return programs;
}

/* Two stages of two replicas each. */
static struct ps_programs *doubled(void) {
    struct ps_programs *programs;
    struct ps_plan *plan;
    assert_ok(plan_create(4, 2, &plan, &test_error));
    strcpy(plan->schedule, "gpipe");
    strcpy(plan->weights, "sync");
    plan->micro_batches = 4;
    for (int s = 0; s < 2; s++) {
        const int workers[] = {2 * s, 2 * s + 1};
        assert_ok(plan_stage_workers(plan, s, workers, 2, workers, 2, &test_error));
        plan->stages[s].first = plan->stages[s].last = s;
    }
    assert_ok(lower_plan(plan, 3, &programs, &test_error));
    ps_plan_destroy(plan);
    return programs;
}

/* What instructions are that could be elsewhere. */
static void test_reasons_of_places(void **state) {
    (void)state;
    struct ps_programs *programs = parted(false);
    nth(programs, 0, OP_B, 0)->stage = 1;
    expect_refused(programs, ": is on a worker that runs only the stage's forwards");
    programs = parted(false);
    nth(programs, 1, OP_F, 0)->stage = 1;
    expect_refused(programs, ": is on a worker that runs only the stage's backwards");
    programs = parted(false);
    nth(programs, 0, OP_SS, 0)->stage = 0;
    expect_refused(programs, ": transfers a stash or weights within one worker");
    programs = parted(false);
    nth(programs, 1, OP_SW, 0)->stage = 2;
    expect_refused(programs, ": transfers a stash or weights within one worker");
    for (int op = OP_SS; op <= OP_RS; op++) {
        programs = parted(true);
        nth(programs, op == OP_RS, (enum opcode)op, 0)->block[BLOCK_STASH] = 0;
        expect_refused(programs, ": transfers a stash that is recomputed");
    }
    programs = doubled();
    assert_int_equal(nth(programs, 0, OP_SA, 0)->peer, 2);
    nth(programs, 0, OP_SA, 0)->peer = 3;
    expect_refused(programs, ": names a worker that never works on the same micro-batch");
    programs = straight("gpipe", "sync", 1);
    struct instruction again = *nth(programs, 0, OP_F, 0);
    insert_after(&programs->worker[0], 0, again);
    expect_refused(programs, "worker 0: 0F0@0,s0,i0: runs a second time");
    programs = straight("gpipe", "sync", 1);
    again.op = OP_R;
    insert_after(&programs->worker[0], 0, again);
    expect_refused(programs, ": the stage keeps its stash");
    programs = straight("gpipe", "sync", 2);
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_SA, 0));
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_SA, 0));
    expect_refused(programs, "deadlock: worker 0 waits at 0B0");
}

/* Which weights are read, predicted and updated. */
static void test_reasons_of_weights(void **state) {
    (void)state;
    struct ps_programs *programs = straight("1f1b-async", "stash", 2);
    nth(programs, 0, OP_F, 0)->slot = 1;
    expect_refused(programs, ": reads a weight slot that nothing has filled");
    programs = straight("1f1b-async", "stash", 2);
    struct instruction *update = nth(programs, 0, OP_U, 1);
    assert_int_equal(update->slot, 1);
    update->slot = 0;
    expect_refused(programs, ": updates other weights than the newest");
    programs = straight("1f1b-async", "stash", 2);
    nth(programs, 0, OP_F, 6)->slot ^= 1;
    expect_refused(programs, ": reads weights of another version than its policy requires");
    assert_ok(lower_plain("1f1b-async", "pipeoptim", 2, 1, 6, &programs));
    nth(programs, 0, OP_U, 0)->ahead++;
    expect_refused(programs, ": reads weights predicted for another number of updates than its policy requires");
    programs = straight("1f1b-async", "spectrain", 2);
    nth(programs, 0, OP_P, 0)->predict_to = NO_SLOT;
    expect_refused(programs, ": names no slot for the prediction");
    programs = straight("1f1b-async", "spectrain", 2);
    struct instruction *prediction = nth(programs, 0, OP_P, 0);
    prediction->slot = 1;
    prediction->predict_to = 0;
    expect_refused(programs, ": predicts from a slot that holds no version");
    struct ps_programs *training = straight("gpipe", "sync", 1);
    assert_ok(lower_evaluation(training, 3, &programs, &test_error));
    programs->slots[0].weights = 2;
    nth(programs, 0, OP_F, 2)->slot = 1;
    expect_refused(programs, "worker 0: 0F2@1,s0,i0: does not read the newest weights");
    assert_ok(lower_evaluation(training, 3, &programs, &test_error));
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_F, 2));
    expect_refused(programs, "worker 0: 0F2 is missing: the micro-batch has no forward here");
    ps_programs_destroy(training);
}

/* Sums in their order, of replicas and of what stages share. */
static void test_reasons_of_sums(void **state) {
    (void)state;
    struct ps_programs *programs = doubled();
    nth(programs, 0, OP_AR, 0)->micro_batch = 1;
    expect_refused(programs, "worker 0: 0AR1: sums are not in the order of the updates");
    const struct straight tied = {
        .schedule = "gpipe", .policy = "sync", .workers = 2, .micro_batches = 2, .batches = 2, .tied = true};
    assert_ok(lower_straight(&tied, &programs, &test_error));
    remove_instruction(&programs->worker[0], nth(programs, 0, OP_AR, 0));
    expect_refused(programs, ": the gradients of what stages share are not added up");
}

/* Instances of a stage that do not belong together. */
static void test_reasons_of_instances(void **state) {
    (void)state;
    struct ps_programs *programs = doubled();
    programs->instances[1].replicas = 3;
    expect_refused(programs, "stage 0: is given 2 replicas and 3");
    programs = doubled();
    programs->instances[3].worker = 2;
    expect_refused(programs, "stage 1: worker 2 holds two instances of it");
    programs = doubled();
    programs->instances[3].replica = 0;
    expect_refused(programs, "stage 1: replica 0 is on workers 2 and 3");
    programs = doubled();
    programs->instances[3].backward = false;
    expect_refused(programs, "stage 1: 2 replicas, but instances for 2 forwards and 1 backwards");
    programs = doubled();
    programs->instances[1].forward = false;
    expect_refused(programs, "stage 0: 2 replicas, but instances for 1 forwards and 2 backwards");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradients_between_updates),
                                       cmocka_unit_test(test_reasons),
                                       cmocka_unit_test(test_first_reason),
                                       cmocka_unit_test(test_reasons_of_places),
                                       cmocka_unit_test(test_reasons_of_weights),
                                       cmocka_unit_test(test_reasons_of_sums),
                                       cmocka_unit_test(test_reasons_of_instances),
                                       cmocka_unit_test(test_every_fault_is_refused),
                                       cmocka_unit_test(test_blocks_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
