/* Finding the period by comparing two lowerings, and unfolding; see fold.h. */
#include "simulate/fold.h"

#include <stdlib.h>
#include <string.h>

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

static struct folded_instruction fold_instruction(const struct ps_programs *programs, const struct instruction *instruction) {
    return (struct folded_instruction){
        .micro_batch = instruction->micro_batch,
        .stage = instruction->stage,
        .weights = weights_of(programs, instruction),
        .op = instruction->op,
        .predicts = instruction->predict_to != NO_SLOT,
        .out_of_place = instruction->op == OP_U && instruction->to != instruction->slot,
    };
}

static bool counts_batches(const struct folded_instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action == ACTION_UPDATE || action == ACTION_REDUCE;
}

/* The instruction `periods` periods later. */
static struct folded_instruction shifted(const struct folded *folded, struct folded_instruction instruction, int periods) {
    if (!counts_batches(&instruction))
        instruction.micro_batch += periods * folded->period_micro_batches;
    else if (!folded->flush)
        instruction.micro_batch += periods * folded->period_batches / programs_round(folded->programs, instruction.stage);
    return instruction;
}

static bool same(struct folded_instruction a, struct folded_instruction b) {
    return a.micro_batch == b.micro_batch && a.stage == b.stage && a.op == b.op && a.weights == b.weights &&
           a.predicts == b.predicts && a.out_of_place == b.out_of_place;
}

/* Replaces every worker's code by its folded form, in `out`. */
static enum ps_status take_code(struct ps_programs *programs, struct folded_program *out, struct ps_error *error) {
    for (int w = 0; w < programs->workers; w++) {
        struct program *program = &programs->worker[w];
        size_t bytes = ((size_t)program->count + 1) * sizeof *out[w].code;
        out[w].code = malloc(bytes);
        if (!out[w].code) return error_memory(error, "folded programs", bytes);
        for (int i = 0; i < program->count; i++) out[w].code[i] = fold_instruction(programs, &program->code[i]);
        out[w].head = program->count;
        free(program->code);
        *program = (struct program){0};
    }
    return PS_OK;
}

static void free_code(struct folded_program *code, int workers) {
    for (int w = 0; code && w < workers; w++) free(code[w].code);
    free(code);
}

/* Splits `fewer` where `more` has its additional period, which is appended. False: `more` is not `fewer` with one period
 * inserted. */
static bool split(const struct folded *folded, struct folded_program *fewer, const struct folded_program *more, bool *failed) {
    int count = fewer->head, period = more->head - count, head = 0;
    if (period < 0) return false;
    while (head < count && same(fewer->code[head], more->code[head])) head++;
    for (int i = head; i < count; i++)
        if (!same(shifted(folded, fewer->code[i], 1), more->code[i + period])) return false;
    struct folded_instruction *code = realloc(fewer->code, ((size_t)(count + period) + 1) * sizeof *code);
    *failed = !code;
    if (!code) return false;
    memcpy(code + count, more->code + head, (size_t)period * sizeof *code);
    *fewer = (struct folded_program){.code = code, .head = head, .tail = count - head, .period = period};
    return true;
}

static bool same_slots(const struct ps_programs *a, const struct ps_programs *b) {
    return memcmp(a->slots, b->slots, (size_t)a->instance_count * sizeof *a->slots) == 0;
}

static enum ps_status lower_code(fold_lower *lower, void *context, int micro_batches, int batches,
                                 struct ps_programs **programs, struct folded_program **code, struct ps_error *error) {
    TRY(lower(context, micro_batches, batches, programs, error));
    size_t workers = (size_t)(*programs)->workers;
    *code = calloc(workers, sizeof **code);
    if (!*code) return error_memory(error, "folded programs", workers * sizeof **code);
    return take_code(*programs, *code, error);
}

/* Keeps the first of two mini-batches. False: the second differs. */
static bool halve(const struct ps_programs *programs, struct folded_program *program) {
    int count = program->head / 2;
    bool alike = program->head % 2 == 0;
    for (int i = 0; alike && i < count; i++) {
        struct folded_instruction next = program->code[i];
        next.micro_batch += counts_batches(&next) ? 1 : programs->micro_batches;
        alike = same(next, program->code[count + i]);
    }
    program->head = count;
    return alike;
}

/* Fills `folded` from two lowerings, of `length` micro-batches or (without flush) mini-batches and of a period more; it has no
 * periods if they do not match. If workers hold several instances it also checks that two mini-batches are alike. */
static enum ps_status make(fold_lower *lower, void *context, const struct fold_shape *shape, int length, int period,
                           struct folded *folded, bool *grows, struct ps_error *error) {
    struct ps_programs *more = NULL;
    struct folded_program *code = NULL;
    int m = shape->flush ? length : shape->micro_batches, n = shape->flush ? 1 : length;
    bool failed = false, fits = false, twice = false;
    enum ps_status status =
        lower_code(lower, context, shape->flush ? m + period : m, shape->flush ? n : n + period, &more, &code, error);
    if (status == PS_OK) {
        twice = shape->flush && shape->batches > 1 && more->instance_count > more->workers;
        status = lower_code(lower, context, m, twice ? 2 : n, &folded->programs, &folded->worker, error);
    }
    if (status == PS_OK) {
        fits = same_slots(folded->programs, more);
        *grows = !fits;
        for (int w = 0; fits && twice && w < more->workers; w++) fits = halve(folded->programs, &folded->worker[w]);
        for (int w = 0; fits && w < more->workers; w++) fits = split(folded, &folded->worker[w], &code[w], &failed);
        if (failed) status = error_memory(error, "folded programs", sizeof *code);
        folded->periods = fits ? ((shape->flush ? shape->micro_batches : shape->batches) - length) / period : 0;
        folded->programs->micro_batches = shape->micro_batches;
        folded->programs->batches = shape->batches;
    }
    free_code(code, more ? more->workers : 0);
    ps_programs_destroy(more);
    return status;
}

/* Tries periods of this length after `times` times the number of workers. *out NULL: not periodic, or too short to fold;
 * *grows: the number of blocks grows with every period. */
static enum ps_status try_period(fold_lower *lower, void *context, const struct fold_shape *shape, int times, int period,
                                 struct folded **out, bool *grows, struct ps_error *error) {
    int length = shape->flush ? shape->micro_batches : shape->batches, per_period = shape->flush ? 1 : shape->micro_batches;
    int least = (times * shape->workers + per_period - 1) / per_period + SPARE_PERIODS + (times - 1) * period;
    int short_length = least + ((length - least) % period + period) % period;
    if (length < short_length + number_larger(SPARE_PERIODS, 2 * period)) return PS_OK;
    if (times > 2 && length / 4 < short_length) return PS_OK;
    struct folded *folded = malloc(sizeof *folded);
    if (!folded) return error_memory(error, "folded programs", sizeof *folded);
    *folded = (struct folded){.flush = shape->flush,
                              .repeats = shape->flush ? shape->batches : 1,
                              .period_micro_batches = period * per_period,
                              .period_batches = period};
    enum ps_status status = make(lower, context, shape, short_length, period, folded, grows, error);
    if (status == PS_OK && folded->periods > 0)
        *out = folded;
    else
        fold_destroy(folded);
    return status;
}

enum ps_status fold_create(fold_lower *lower, void *context, const struct fold_shape *shape, struct folded **out,
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

void fold_destroy(struct folded *folded) {
    if (!folded) return;
    free_code(folded->worker, folded->programs ? folded->programs->workers : 0);
    ps_programs_destroy(folded->programs);
    free(folded);
}

/* ---------------------------------------------------------------- unfolding */

/* The worker at the other end of a transfer. */
static int16_t peer_of(const struct ps_programs *programs, const struct instruction *instruction) {
    int other = instruction_other_stage(instruction), k = instruction->micro_batch;
    bool backward =
        instruction->op == OP_SG || instruction->op == OP_RG || instruction->op == OP_SS || instruction->op == OP_RW;
    int instance = backward ? programs_backward_instance(programs, other, k) : programs_forward_instance(programs, other, k);
    return (int16_t)programs->instances[instance].worker;
}

static struct instruction unfold(const struct folded *folded, struct folded_instruction from, int repeat) {
    int number = from.micro_batch + repeat * (counts_batches(&from) ? 1 : folded->programs->micro_batches);
    struct instruction instruction = instruction_make((enum opcode)from.op, from.stage, number);
    enum action action = opcode_table[from.op].action;
    if (from.predicts) instruction.predict_to = from.weights == NO_SLOT ? 0 : from.weights;
    if (action != ACTION_UPDATE && action != ACTION_PREDICT) instruction.slot = from.weights;
    if (from.out_of_place) instruction.to = (int16_t)(instruction.slot + 1);
    if (action == ACTION_SEND || action == ACTION_RECEIVE) instruction.peer = peer_of(folded->programs, &instruction);
    return instruction;
}

int fold_next(const struct folded *folded, int worker, struct folded_cursor *cursor, struct instruction *out, int most) {
    const struct folded_program *program = &folded->worker[worker];
    const struct folded_instruction *period = program->code + program->head + program->tail;
    int count = 0;
    while (count < most && cursor->repeat < folded->repeats) {
        if (cursor->period == 0 && cursor->at < program->head) {
            out[count++] = unfold(folded, program->code[cursor->at++], cursor->repeat);
        } else if (cursor->period < folded->periods) {
            int at = cursor->at - program->head;
            if (at == program->period) {
                cursor->period++;
                cursor->at = program->head;
                continue;
            }
            out[count++] = unfold(folded, shifted(folded, period[at], cursor->period), cursor->repeat);
            cursor->at++;
        } else if (cursor->at < program->head + program->tail) {
            out[count++] = unfold(folded, shifted(folded, program->code[cursor->at++], folded->periods), cursor->repeat);
        } else {
            *cursor = (struct folded_cursor){.repeat = cursor->repeat + 1};
        }
    }
    return count;
}

int64_t fold_length(const struct folded *folded, int worker) {
    const struct folded_program *program = &folded->worker[worker];
    return folded->repeats * ((int64_t)program->head + program->tail + (int64_t)program->period * folded->periods);
}
