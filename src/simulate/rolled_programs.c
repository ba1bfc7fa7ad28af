/* Finding the period by comparing two lowerings, and unrolling; see rolled_programs.h. */
#include "simulate/rolled_programs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "program/lower.h"

/* Periods of the short programs in addition to the number of workers: enough to reach the steady state and to use all slots.
 * Some policies use all weight slots only after twice the number of workers, and hanayo's greedy order is periodic only after
 * several times that number. */
enum { SPARE_PERIODS = 4, TIMES_MOST = 8 };

/* The slot of transferred weights; NO_SLOT if the stage's weights are not transferred. */
static int16_t weights_of(const struct ps_programs *programs, const struct instruction *instruction) {
    if (!programs_split(programs, instruction->stage)) return NO_SLOT;
    bool hands = instruction->op == OP_SW || instruction->op == OP_RW;
    return (int16_t)(hands ? instruction->slot : instruction_transfer_slot(instruction));
}

static struct rolled_instruction roll_instruction(const struct ps_programs *programs, const struct instruction *instruction) {
    return (struct rolled_instruction){
        .micro_batch = instruction->micro_batch,
        .stage = instruction->stage,
        .weights = weights_of(programs, instruction),
        .op = instruction->op,
        .predicts = instruction->predict_to != NO_SLOT,
        .out_of_place = instruction->op == OP_U && instruction->to != instruction->slot,
    };
}

static bool counts_batches(const struct rolled_instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action == ACTION_UPDATE || action == ACTION_REDUCE || action == ACTION_ROUND;
}

/* The instruction `periods` periods later. */
static struct rolled_instruction shifted(const struct rolled_programs *rolled, struct rolled_instruction instruction,
                                         int periods) {
    if (!counts_batches(&instruction))
        instruction.micro_batch += periods * rolled->period_micro_batches;
    else if (!rolled->flush)
        instruction.micro_batch += periods * rolled->period_batches / programs_round(rolled->programs, instruction.stage);
    return instruction;
}

static bool same(struct rolled_instruction a, struct rolled_instruction b) {
    return a.micro_batch == b.micro_batch && a.stage == b.stage && a.op == b.op && a.weights == b.weights &&
           a.predicts == b.predicts && a.out_of_place == b.out_of_place;
}

/* Lowers programs and moves every worker's code, in rolled form, to the arena. */
static enum ps_status lower_code(rolled_lower *lower, void *context, int micro_batches, int batches, struct arena *arena,
                                 struct ps_programs **out, struct rolled_program **code, struct ps_error *error) {
    TRY(lower(context, micro_batches, batches, out, error));
    struct ps_programs *programs = *out;
    struct rolled_program *made = arena_take(arena, (size_t)programs->workers, sizeof *made);
    for (int w = 0; made && w < programs->workers; w++)
        made[w].code = arena_take(arena, (size_t)programs->worker[w].count, sizeof *made[w].code);
    TRY(arena_check(arena, "rolled programs", error));
    for (int w = 0; w < programs->workers; w++) {
        struct program *program = &programs->worker[w];
        for (int i = 0; i < program->count; i++) made[w].code[i] = roll_instruction(programs, &program->code[i]);
        made[w].head = program->count;
        free(program->code);
        *program = (struct program){0};
    }
    *code = made;
    return PS_OK;
}

/* Splits `fewer` where `more` has its additional period, which is appended. False: `more` is not `fewer` with one period
 * inserted. */
static bool split(struct rolled_programs *rolled, struct rolled_program *fewer, const struct rolled_program *more) {
    int count = fewer->head, period = more->head - count, head = 0;
    if (period < 0) return false;
    while (head < count && same(fewer->code[head], more->code[head])) head++;
    for (int i = head; i < count; i++)
        if (!same(shifted(rolled, fewer->code[i], 1), more->code[i + period])) return false;
    struct rolled_instruction *code = arena_take(&rolled->arena, (size_t)(count + period), sizeof *code);
    if (!code) return false;
    memcpy(code, fewer->code, (size_t)count * sizeof *code);
    memcpy(code + count, more->code + head, (size_t)period * sizeof *code);
    *fewer = (struct rolled_program){.code = code, .head = head, .tail = count - head, .period = period};
    return true;
}

static bool same_slots(const struct ps_programs *a, const struct ps_programs *b) {
    return memcmp(a->slots, b->slots, (size_t)a->instance_count * sizeof *a->slots) == 0;
}

/* Keeps the first of two mini-batches. False: the second differs. */
static bool halve(const struct ps_programs *programs, struct rolled_program *program) {
    int count = program->head / 2;
    bool alike = program->head % 2 == 0;
    for (int i = 0; alike && i < count; i++) {
        struct rolled_instruction next = program->code[i];
        next.micro_batch += counts_batches(&next) ? 1 : programs->micro_batches;
        alike = same(next, program->code[count + i]);
    }
    program->head = count;
    return alike;
}

/* Fills `rolled` from two lowerings, of `length` micro-batches or (without flush) mini-batches and of a period more; it has no
 * periods if they do not match. If workers hold several instances it also checks that two mini-batches are alike. */
static enum ps_status make(rolled_lower *lower, void *context, const struct rolled_shape *shape, int length, int period,
                           struct rolled_programs *rolled, bool *grows, struct ps_error *error) {
    struct arena arena = {0};
    struct ps_programs *more = NULL;
    struct rolled_program *code;
    int m = shape->flush ? length : shape->micro_batches, n = shape->flush ? 1 : length;
    enum ps_status status;
    TRY_OUT(
        lower_code(lower, context, shape->flush ? m + period : m, shape->flush ? n : n + period, &arena, &more, &code, error));
    bool twice = shape->flush && shape->batches > 1 && more->instance_count > more->workers;
    TRY_OUT(lower_code(lower, context, m, twice ? 2 : n, &rolled->arena, &rolled->programs, &rolled->worker, error));
    bool fits = same_slots(rolled->programs, more);
    *grows = !fits;
    for (int w = 0; fits && twice && w < more->workers; w++) fits = halve(rolled->programs, &rolled->worker[w]);
    for (int w = 0; fits && w < more->workers; w++) fits = split(rolled, &rolled->worker[w], &code[w]);
    TRY_OUT(arena_check(&rolled->arena, "rolled programs", error));
    rolled->periods = fits ? ((shape->flush ? shape->micro_batches : shape->batches) - length) / period : 0;
    rolled->programs->micro_batches = shape->micro_batches;
    rolled->programs->batches = shape->batches;
out:
    arena_release(&arena);
    ps_programs_destroy(more);
    return status;
}

/* Tries periods of this length after `times` times the number of workers. *out NULL: not periodic, or too short to roll;
 * *grows: the number of blocks grows with every period. */
static enum ps_status try_period(rolled_lower *lower, void *context, const struct rolled_shape *shape, int times, int period,
                                 struct rolled_programs **out, bool *grows, struct ps_error *error) {
    int length = shape->flush ? shape->micro_batches : shape->batches, per_period = shape->flush ? 1 : shape->micro_batches;
    int least = (times * shape->workers + per_period - 1) / per_period + SPARE_PERIODS + (times - 1) * period;
    int short_length = least + ((length - least) % period + period) % period;
    if (length < short_length + number_larger(SPARE_PERIODS, 2 * period)) return PS_OK;
    if (times > 2 && length / 4 < short_length) return PS_OK;
    struct rolled_programs *rolled;
    TRY(memory_new(&rolled, 1, "rolled programs", error));
    *rolled = (struct rolled_programs){.flush = shape->flush,
                                       .repeats = shape->flush ? shape->batches : 1,
                                       .period_micro_batches = period * per_period,
                                       .period_batches = period};
    enum ps_status status = make(lower, context, shape, short_length, period, rolled, grows, error);
    if (status == PS_OK && rolled->periods > 0)
        *out = rolled;
    else
        rolled_destroy(rolled);
    return status;
}

enum ps_status rolled_create(rolled_lower *lower, void *context, const struct rolled_shape *shape, struct rolled_programs **out,
                             struct ps_error *error) {
    int rounds = number_common_multiple(shape->period, shape->workers), periods[] = {shape->period, rounds, 2 * rounds};
    *out = NULL;
    for (int times = 1; times <= TIMES_MOST && !*out; times *= 2) {
        bool grows = false;
        for (int i = 0; i < 3 && !*out; i++)
            if (i == 0 || periods[i] != periods[i - 1])
                TRY(try_period(lower, context, shape, times, periods[i], out, &grows, error));
        if (grows && times > 1) return PS_OK;
    }
    return PS_OK;
}

void rolled_destroy(struct rolled_programs *rolled) {
    if (!rolled) return;
    ps_programs_destroy(rolled->programs);
    arena_release(&rolled->arena);
    free(rolled);
}

/* ---------------------------------------------------------------- unrolling */

/* The worker at the other end of a transfer. */
static int16_t peer_of(const struct ps_programs *programs, const struct instruction *instruction) {
    int other = instruction_other_stage(instruction), k = instruction->micro_batch;
    bool backward =
        instruction->op == OP_SG || instruction->op == OP_RG || instruction->op == OP_SS || instruction->op == OP_RW;
    int instance = backward ? programs_backward_instance(programs, other, k) : programs_forward_instance(programs, other, k);
    return (int16_t)programs->instances[instance].worker;
}

static struct instruction unroll(const struct rolled_programs *rolled, struct rolled_instruction from, int repeat) {
    int number = from.micro_batch + repeat * (counts_batches(&from) ? 1 : rolled->programs->micro_batches);
    struct instruction instruction = instruction_make((enum opcode)from.op, from.stage, number);
    enum action action = opcode_table[from.op].action;
    if (from.predicts) instruction.predict_to = from.weights == NO_SLOT ? 0 : from.weights;
    if (action != ACTION_UPDATE && action != ACTION_PREDICT) instruction.slot = from.weights;
    if (from.out_of_place) instruction.to = (int16_t)(instruction.slot + 1);
    if (action == ACTION_SEND || action == ACTION_RECEIVE) instruction.peer = peer_of(rolled->programs, &instruction);
    return instruction;
}

int rolled_next(const struct rolled_programs *rolled, int worker, struct rolled_cursor *cursor, struct instruction *out,
                int most) {
    const struct rolled_program *program = &rolled->worker[worker];
    const struct rolled_instruction *period = program->code + program->head + program->tail;
    int count = 0;
    while (count < most && cursor->repeat < rolled->repeats) {
        if (cursor->period == 0 && cursor->at < program->head) {
            out[count++] = unroll(rolled, program->code[cursor->at++], cursor->repeat);
        } else if (cursor->period < rolled->periods) {
            int at = cursor->at - program->head;
            if (at == program->period) {
                cursor->period++;
                cursor->at = program->head;
                continue;
            }
            out[count++] = unroll(rolled, shifted(rolled, period[at], cursor->period), cursor->repeat);
            cursor->at++;
        } else if (cursor->at < program->head + program->tail) {
            out[count++] = unroll(rolled, shifted(rolled, program->code[cursor->at++], rolled->periods), cursor->repeat);
        } else {
            *cursor = (struct rolled_cursor){.repeat = cursor->repeat + 1};
        }
    }
    return count;
}

int64_t rolled_length(const struct rolled_programs *rolled, int worker) {
    const struct rolled_program *program = &rolled->worker[worker];
    return rolled->repeats * ((int64_t)program->head + program->tail + (int64_t)program->period * rolled->periods);
}
