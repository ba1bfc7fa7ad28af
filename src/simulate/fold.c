/* Finding the turn by comparing two lowerings, and unfolding; see fold.h. */
#include "simulate/fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "program/lower.h"

/* Turns of the short programs beyond the workers' number: enough to be in the steady state and for all slots to be in use. Some
 * policies have all their weight slots in use only after twice the workers' number, and hanayo's greedy order repeats itself
 * only after several times. */
enum { TURNS_SPARE = 4, TIMES_MOST = 8 };

/* Of weights that travel to or from it; NO_SLOT of stages whose weights stay where they are. */
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
        .aside = instruction->op == OP_U && instruction->to != instruction->slot,
    };
}

static bool counts_batches(const struct folded_instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action == ACTION_UPDATE || action == ACTION_REDUCE;
}

/* The instruction `turns` turns on. */
static struct folded_instruction moved(const struct folded *folded, struct folded_instruction instruction, int turns) {
    if (!counts_batches(&instruction))
        instruction.micro_batch += turns * folded->turn_micro_batches;
    else if (!folded->flush)
        instruction.micro_batch += turns * folded->turn_batches / programs_round(folded->programs, instruction.stage);
    return instruction;
}

static bool same(struct folded_instruction a, struct folded_instruction b) {
    return a.micro_batch == b.micro_batch && a.stage == b.stage && a.op == b.op && a.weights == b.weights &&
           a.predicts == b.predicts && a.aside == b.aside;
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

/* Splits `fewer` where `more` has its additional turn, which is appended. False: one does not continue the other. */
static bool split(const struct folded *folded, struct folded_program *fewer, const struct folded_program *more, bool *failed) {
    int count = fewer->head, turn = more->head - count, head = 0;
    if (turn < 0) return false;
    while (head < count && same(fewer->code[head], more->code[head])) head++;
    for (int i = head; i < count; i++)
        if (!same(moved(folded, fewer->code[i], 1), more->code[i + turn])) return false;
    struct folded_instruction *code = realloc(fewer->code, ((size_t)(count + turn) + 1) * sizeof *code);
    *failed = !code;
    if (!code) return false;
    memcpy(code + count, more->code + head, (size_t)turn * sizeof *code);
    *fewer = (struct folded_program){.code = code, .head = head, .tail = count - head, .turn = turn};
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

/* Keeps of two mini-batches the first. False: the second is not like it. */
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

/* Fills `folded` from two lowerings, of so many micro-batches or (without flush) mini-batches and of a turn more; leaves it
 * without turns where they do not fit together. Where workers hold several instances it looks at two mini-batches, whether they
 * are alike. */
static enum ps_status make(fold_lower *lower, void *context, const struct fold_shape *shape, int length, int turn,
                           struct folded *folded, bool *grows, struct ps_error *error) {
    struct ps_programs *more = NULL;
    struct folded_program *code = NULL;
    int m = shape->flush ? length : shape->micro_batches, n = shape->flush ? 1 : length;
    bool failed = false, fits = false, twice = false;
    enum ps_status status =
        lower_code(lower, context, shape->flush ? m + turn : m, shape->flush ? n : n + turn, &more, &code, error);
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
        folded->turns = fits ? ((shape->flush ? shape->micro_batches : shape->batches) - length) / turn : 0;
        folded->programs->micro_batches = shape->micro_batches;
        folded->programs->batches = shape->batches;
    }
    free_code(code, more ? more->workers : 0);
    ps_programs_destroy(more);
    return status;
}

/* Tries turns of this length behind so many times the workers' number. *out NULL: they are none, or too few for it to pay;
 * *grows: blocks become more with every turn. */
static enum ps_status try_turn(fold_lower *lower, void *context, const struct fold_shape *shape, int times, int turn,
                               struct folded **out, bool *grows, struct ps_error *error) {
    int length = shape->flush ? shape->micro_batches : shape->batches, per_turn = shape->flush ? 1 : shape->micro_batches;
    int least = (times * shape->workers + per_turn - 1) / per_turn + TURNS_SPARE + (times - 1) * turn;
    int short_length = least + ((length - least) % turn + turn) % turn;
    if (length < short_length + number_larger(TURNS_SPARE, 2 * turn)) return PS_OK;
    if (times > 2 && length / 4 < short_length) return PS_OK;
    struct folded *folded = malloc(sizeof *folded);
    if (!folded) return error_memory(error, "folded programs", sizeof *folded);
    *folded = (struct folded){.flush = shape->flush,
                              .repeats = shape->flush ? shape->batches : 1,
                              .turn_micro_batches = turn * per_turn,
                              .turn_batches = turn};
    enum ps_status status = make(lower, context, shape, short_length, turn, folded, grows, error);
    if (status == PS_OK && folded->turns > 0)
        *out = folded;
    else
        fold_destroy(folded);
    return status;
}

enum ps_status fold_create(fold_lower *lower, void *context, const struct fold_shape *shape, struct folded **out,
                           struct ps_error *error) {
    int rounds = number_common_multiple(shape->turn, shape->workers), turns[] = {shape->turn, rounds, 2 * rounds};
    *out = NULL;
    for (int times = 1; times <= TIMES_MOST && !*out; times *= 2) {
        bool grows = false;
        for (int i = 0; i < 3 && !*out; i++)
            if (i == 0 || turns[i] != turns[i - 1]) TRY(try_turn(lower, context, shape, times, turns[i], out, &grows, error));
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
    if (from.aside) instruction.to = (int16_t)(instruction.slot + 1);
    if (action == ACTION_SEND || action == ACTION_RECEIVE) instruction.peer = peer_of(folded->programs, &instruction);
    return instruction;
}

int fold_next(const struct folded *folded, int worker, struct folded_cursor *cursor, struct instruction *out, int most) {
    const struct folded_program *program = &folded->worker[worker];
    const struct folded_instruction *turn = program->code + program->head + program->tail;
    int count = 0;
    while (count < most && cursor->repeat < folded->repeats) {
        if (cursor->turn == 0 && cursor->at < program->head) {
            out[count++] = unfold(folded, program->code[cursor->at++], cursor->repeat);
        } else if (cursor->turn < folded->turns) {
            int at = cursor->at - program->head;
            if (at == program->turn) {
                cursor->turn++;
                cursor->at = program->head;
                continue;
            }
            out[count++] = unfold(folded, moved(folded, turn[at], cursor->turn), cursor->repeat);
            cursor->at++;
        } else if (cursor->at < program->head + program->tail) {
            out[count++] = unfold(folded, moved(folded, program->code[cursor->at++], folded->turns), cursor->repeat);
        } else {
            *cursor = (struct folded_cursor){.repeat = cursor->repeat + 1};
        }
    }
    return count;
}

int64_t fold_length(const struct folded *folded, int worker) {
    const struct folded_program *program = &folded->worker[worker];
    return folded->repeats * ((int64_t)program->head + program->tail + (int64_t)program->turn * folded->turns);
}
