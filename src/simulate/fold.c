/* Finding the turn by comparing two lowerings, and unfolding; see fold.h. */
#include "simulate/fold.h"

#include <stdlib.h>
#include <string.h>

/* Turns of the short programs beyond the workers' number: enough to be in the steady state and for all slots to be in use; some
 * policies have all their weight slots in use only after twice the workers' number. */
enum { TURNS_SPARE = 4 };

static struct folded_instruction fold_instruction(const struct instruction *instruction) {
    struct folded_instruction folded = {
        .micro_batch = instruction->micro_batch, .stage = instruction->stage, .op = instruction->op};
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        if (instruction->block[kind] != NO_SLOT) folded.operands |= (uint8_t)(1 << kind);
    if (instruction->predict_to != NO_SLOT) folded.operands |= FOLDED_PREDICTS;
    return folded;
}

/* Folds a whole list; `next_forward` has room for a number per stage. */
static void fold_list(const struct program *program, int *next_forward, struct folded_instruction *out) {
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        enum action action = opcode_table[instruction->op].action;
        out[i] = fold_instruction(instruction);
        if (action == ACTION_FORWARD) next_forward[instruction->stage] = instruction->micro_batch + 1;
        if (action == ACTION_RECOMPUTE) out[i].spare = (int16_t)(next_forward[instruction->stage] - instruction->micro_batch);
    }
}

static bool counts_batches(const struct folded_instruction *instruction) {
    return opcode_table[instruction->op].action == ACTION_UPDATE;
}

/* The instruction `turns` turns on. */
static struct folded_instruction moved(const struct folded *folded, struct folded_instruction instruction, int turns) {
    if (!counts_batches(&instruction))
        instruction.micro_batch += turns * folded->turn_micro_batches;
    else if (!folded->flush)
        instruction.micro_batch += turns;
    return instruction;
}

static bool same(struct folded_instruction a, struct folded_instruction b) {
    return a.micro_batch == b.micro_batch && a.stage == b.stage && a.op == b.op && a.operands == b.operands &&
           a.spare == b.spare;
}

/* Do the blocks of a kind that travel go to its slots in turn, as fold.h has it? *in_turn false: some schedule takes or gives
 * back blocks in another order. */
static enum ps_status check_turns(const struct ps_programs *programs, bool *in_turn, struct ps_error *error) {
    size_t widest = 1;
    for (int p = 0; p < programs->part_count; p++)
        for (int kind = BLOCK_INPUT; kind < BLOCK_KINDS; kind++)
            if ((size_t)stage_slots_of(&programs->slots[p], (enum block_kind)kind) > widest)
                widest = (size_t)stage_slots_of(&programs->slots[p], (enum block_kind)kind);
    size_t cells = (size_t)programs->part_count * BLOCK_KINDS * widest;
    int16_t *slot = malloc(cells * sizeof *slot); /* by part, kind and micro-batch modulo slots */
    if (!slot) return error_memory(error, "folded programs", cells * sizeof *slot);
    for (size_t i = 0; i < cells; i++) slot[i] = NO_SLOT;
    *in_turn = true;
    for (int w = 0; w < programs->workers; w++)
        for (int i = 0; i < programs->worker[w].count; i++) {
            const struct instruction *instruction = &programs->worker[w].code[i];
            if (opcode_table[instruction->op].action == ACTION_RECOMPUTE) continue;
            int part = programs_part(programs, w, instruction->stage);
            for (int kind = BLOCK_INPUT; kind < BLOCK_KINDS; kind++) {
                if (instruction->block[kind] == NO_SLOT) continue;
                int turn = instruction->micro_batch % stage_slots_of(&programs->slots[part], (enum block_kind)kind);
                int16_t *known = &slot[((size_t)part * BLOCK_KINDS + (size_t)kind) * widest + (size_t)turn];
                if (*known == NO_SLOT) *known = instruction->block[kind];
                *in_turn = *in_turn && *known == instruction->block[kind];
            }
        }
    free(slot);
    return PS_OK;
}

/* Replaces every worker's code by its folded form, in `out`. */
static enum ps_status take_code(struct ps_programs *programs, struct folded_program *out, struct ps_error *error) {
    int *next_forward = calloc((size_t)programs->stages, sizeof *next_forward);
    enum ps_status status =
        next_forward ? PS_OK : error_memory(error, "folded programs", (size_t)programs->stages * sizeof(int));
    for (int w = 0; status == PS_OK && w < programs->workers; w++) {
        struct program *program = &programs->worker[w];
        size_t bytes = ((size_t)program->count + 1) * sizeof *out[w].code;
        out[w].code = malloc(bytes);
        if (!out[w].code) {
            status = error_memory(error, "folded programs", bytes);
            break;
        }
        fold_list(program, next_forward, out[w].code);
        out[w].head = program->count;
        free(program->code);
        *program = (struct program){0};
    }
    free(next_forward);
    return status;
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
    return memcmp(a->slots, b->slots, (size_t)a->part_count * sizeof *a->slots) == 0;
}

static enum ps_status lower_code(fold_lower *lower, void *context, int micro_batches, int batches,
                                 struct ps_programs **programs, struct folded_program **code, bool *in_turn,
                                 struct ps_error *error) {
    TRY(lower(context, micro_batches, batches, programs, error));
    TRY(check_turns(*programs, in_turn, error));
    size_t workers = (size_t)(*programs)->workers;
    *code = calloc(workers, sizeof **code);
    if (!*code) return error_memory(error, "folded programs", workers * sizeof **code);
    return take_code(*programs, *code, error);
}

/* Fills `folded` from two lowerings; leaves it without turns where they do not fit together. */
static enum ps_status make(fold_lower *lower, void *context, int short_turns, int micro_batches, int batches,
                           struct folded *folded, struct ps_error *error) {
    struct ps_programs *more = NULL;
    struct folded_program *code = NULL;
    int m = folded->flush ? short_turns : micro_batches, n = folded->flush ? 1 : short_turns;
    bool failed = false, fits = true, in_turn = true;
    enum ps_status status = lower_code(lower, context, m + folded->flush, n + !folded->flush, &more, &code, &in_turn, error);
    if (status == PS_OK) status = lower_code(lower, context, m, n, &folded->programs, &folded->worker, &fits, error);
    if (status == PS_OK) {
        fits = fits && in_turn && more->part_count == more->stages && same_slots(folded->programs, more);
        for (int w = 0; fits && w < more->workers; w++) fits = split(folded, &folded->worker[w], &code[w], &failed);
        if (failed) status = error_memory(error, "folded programs", sizeof *code);
        folded->turns = fits ? (folded->flush ? micro_batches : batches) - short_turns : 0;
        folded->programs->micro_batches = micro_batches;
        folded->programs->batches = batches;
    }
    free_code(code, more ? more->workers : 0);
    ps_programs_destroy(more);
    return status;
}

enum ps_status fold_create(fold_lower *lower, void *context, bool flush, int workers, int micro_batches, int batches,
                           struct folded **out, struct ps_error *error) {
    int per_turn = flush ? 1 : micro_batches, turns = flush ? micro_batches : batches;
    *out = NULL;
    for (int times = 1; times <= 2; times++) {
        int short_turns = (times * workers + per_turn - 1) / per_turn + TURNS_SPARE;
        if (turns < short_turns + TURNS_SPARE) return PS_OK;
        struct folded *folded = malloc(sizeof *folded);
        if (!folded) return error_memory(error, "folded programs", sizeof *folded);
        *folded = (struct folded){.flush = flush, .repeats = flush ? batches : 1, .turn_micro_batches = per_turn};
        enum ps_status status = make(lower, context, short_turns, micro_batches, batches, folded, error);
        if (status == PS_OK && folded->turns > 0) {
            *out = folded;
            return PS_OK;
        }
        fold_destroy(folded);
        if (status != PS_OK) return status;
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

static struct instruction unfold(const struct folded *folded, int worker, struct folded_instruction from, int repeat) {
    int number = from.micro_batch + repeat * (counts_batches(&from) ? 1 : folded->programs->micro_batches);
    struct instruction instruction = instruction_make((enum opcode)from.op, from.stage, number);
    const struct stage_slots *slots = &folded->programs->slots[programs_part(folded->programs, worker, from.stage)];
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        if (from.operands & (1 << kind))
            instruction.block[kind] =
                (int16_t)((number + (kind == BLOCK_OUTPUT ? from.spare : 0)) % stage_slots_of(slots, (enum block_kind)kind));
    if (from.operands & FOLDED_PREDICTS) instruction.predict_to = 0;
    enum action action = opcode_table[from.op].action;
    if (action == ACTION_SEND || action == ACTION_RECEIVE)
        instruction.peer = (int16_t)programs_worker(folded->programs, instruction_other_stage(&instruction));
    return instruction;
}

int fold_next(const struct folded *folded, int worker, struct folded_cursor *cursor, struct instruction *out, int most) {
    const struct folded_program *program = &folded->worker[worker];
    const struct folded_instruction *turn = program->code + program->head + program->tail;
    int count = 0;
    while (count < most && cursor->repeat < folded->repeats) {
        if (cursor->turn == 0 && cursor->at < program->head) {
            out[count++] = unfold(folded, worker, program->code[cursor->at++], cursor->repeat);
        } else if (cursor->turn < folded->turns) {
            int at = cursor->at - program->head;
            if (at == program->turn) {
                cursor->turn++;
                cursor->at = program->head;
                continue;
            }
            out[count++] = unfold(folded, worker, moved(folded, turn[at], cursor->turn), cursor->repeat);
            cursor->at++;
        } else if (cursor->at < program->head + program->tail) {
            out[count++] = unfold(folded, worker, moved(folded, program->code[cursor->at++], folded->turns), cursor->repeat);
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
