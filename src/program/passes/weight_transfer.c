/*
 * Decides when the weights of a split stage are transferred (Bi-Partition, Cui et al. 2023). Its backwards run on another
 * worker than its forwards and update the weights there, so the forward worker must receive the weights that its next forward
 * reads.
 *
 * This pass inserts two instructions: `SW` m in the program of the backward worker, where the weights for the forward of
 * micro-batch m are sent, and `RW` m before that forward. The updates before SW are the version that the forward counts as the
 * newest (program/analysis.c).
 *   With a flush these are the updates of all earlier mini-batches.
 *   With a plan's pattern they are those made in the pattern up to one period before the forward (program_weights_periods).
 *   Otherwise they are those made APART units of time before the forward, if every computation took one unit, so that the
 *   transfer can overlap with computation, with slack so many periods more; but at least those that 1F1B makes (this limits how
 *   far a worker that runs only forwards can get ahead). If the policy reads the weights of the mini-batch before, at least
 *   those.
 * A last pair at the segment's end transfers the newest weights. The weights pass drops pairs that would send the same weights
 * again.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/number.h"
#include "program/lower.h"

/* Units of time between an update on the backward worker and the forward that reads its weights, and in a period. */
enum { APART = 2, PERIOD = 2 };

struct split_stage {
    int *before; /* by micro-batch: SW precedes this instruction of the backward worker */
    int *level;  /* by micro-batch: level of its forward; in the block of `before` */
    int next;    /* the next one to write */
};

struct transfer_pass {
    struct arena arena;         /* of the lists */
    struct split_stage *stages; /* by stage; before NULL: the stage is not split */
};

static int backward_worker(const struct ps_programs *programs, int stage) {
    return programs->instances[programs_backward_instance(programs, stage, 0)].worker;
}

/* The first position that follows update number `updates` of the stage and is not before `at`; `*seen` updates precede it. */
static int after_update(const struct program *program, int stage, int updates, int at, int *seen) {
    for (; *seen < updates; at++) *seen += program->code[at].op == OP_U && program->code[at].stage == stage;
    return at;
}

/* In 1F1B worker p of P runs the forward of micro-batch k at time k + p/2 and finishes its backward at k + P - p/2, in periods.
 * Returns how many updates of the backward worker are complete when the forward begins, without those that depend on backwards
 * which follow that forward on the forward worker. */
static int updates_in_1f1b(const struct ps_programs *programs, int stage, int micro_batch) {
    int forward = programs_forward_instance(programs, stage, 0), backward = programs_backward_instance(programs, stage, 0);
    int ahead = schedule_workers_behind(programs, forward), back = schedule_workers_behind(programs, backward);
    int lag = number_larger_int((ahead + back + 3) / 2, ahead + 1) + programs->slack * number_larger_int(ahead, back);
    int over = micro_batch + 1 - lag;
    return over > 0 ? over / programs->micro_batches : 0;
}

static enum ps_status place(const struct ps_programs *programs, const struct program_levels *levels, int stage,
                            struct arena *arena, struct split_stage *split, struct ps_error *error) {
    const struct weight_policy *policy = programs->policy;
    int from = programs->instances[programs_forward_instance(programs, stage, 0)].worker, to = backward_worker(programs, stage);
    const struct program *forwards = &programs->worker[from], *backwards = &programs->worker[to];
    size_t count = (size_t)programs_micro_batches(programs) + 1;
    int begun = 0, updated = 0, updates = 0; /* positions in `backwards`, and the updates before the second */
    int apart = programs_has_pattern(programs) ? program_weights_periods(programs, stage) * program_levels_period(programs)
                                               : APART + PERIOD * programs->slack;
    split->before = arena_take(arena, count, sizeof *split->before);
    split->level = arena_take(arena, count, sizeof *split->level);
    TRY(arena_check(arena, "weight transfer pass", error));
    for (int i = 0; i < forwards->count; i++) {
        const struct instruction *instruction = &forwards->code[i];
        if (instruction->op != OP_F || instruction->stage != stage) continue;
        int batch = programs_batch(programs, instruction->micro_batch), needed = programs->flush ? batch : 0;
        if (!programs->flush) begun = program_levels_first(levels, programs, to, levels->worker[from][i] - apart);
        if (!programs->flush && !programs_has_pattern(programs))
            needed = updates_in_1f1b(programs, stage, instruction->micro_batch);
        if (policy->group_of_workers && needed < batch - 1) needed = batch - 1;
        updated = after_update(backwards, stage, needed, updated, &updates);
        split->before[instruction->micro_batch] = begun > updated ? begun : updated;
        split->level[instruction->micro_batch] = levels->worker[from][i];
    }
    split->before[count - 1] = backwards->count;
    split->level[count - 1] = INT_MAX;
    return PS_OK;
}

static enum ps_status mark(enum opcode op, const struct ps_programs *programs, int stage, int micro_batch, struct program *out,
                           struct ps_error *error) {
    struct instruction instruction = instruction_make(op, stage, micro_batch);
    int peer = op == OP_SW ? programs_forward_instance(programs, stage, 0) : programs_backward_instance(programs, stage, 0);
    instruction.peer = (int16_t)programs->instances[peer].worker;
    return program_append(out, &instruction, error);
}

/* Of the weights that are sent before instruction `index` of a worker: the stage of those that are needed first; -1: there are
 * none. */
static int first_to_send(const struct transfer_pass *pass, const struct ps_programs *programs, int worker, int index) {
    int first = -1;
    for (int stage = 0; stage < programs->stages; stage++) {
        const struct split_stage *split = &pass->stages[stage];
        if (!split->before || backward_worker(programs, stage) != worker) continue;
        if (split->next > programs_micro_batches(programs) || split->before[split->next] > index) continue;
        if (first < 0 || split->level[split->next] < pass->stages[first].level[pass->stages[first].next]) first = stage;
    }
    return first;
}

static enum ps_status mark_sends(const struct transfer_pass *pass, const struct ps_programs *programs, int worker, int index,
                                 struct program *out, struct ps_error *error) {
    for (int stage; (stage = first_to_send(pass, programs, worker, index)) >= 0; pass->stages[stage].next++)
        TRY(mark(OP_SW, programs, stage, pass->stages[stage].next, out, error));
    return PS_OK;
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    const struct transfer_pass *pass = context;
    const struct instruction *instruction = &programs->worker[worker].code[index];
    TRY(mark_sends(pass, programs, worker, index, out, error));
    if (instruction->op == OP_F && pass->stages[instruction->stage].before)
        TRY(mark(OP_RW, programs, instruction->stage, instruction->micro_batch, out, error));
    return program_append(out, instruction, error);
}

/* The transfers after the last instruction of each worker. */
static enum ps_status mark_end(const struct transfer_pass *pass, struct ps_programs *programs, const int *counts,
                               struct ps_error *error) {
    for (int worker = 0; worker < programs->workers; worker++) {
        struct program *out = &programs->worker[worker];
        TRY(mark_sends(pass, programs, worker, counts[worker], out, error));
        for (int stage = 0; stage < programs->stages; stage++) {
            bool receives = pass->stages[stage].before &&
                            programs->instances[programs_forward_instance(programs, stage, 0)].worker == worker;
            if (receives) TRY(mark(OP_RW, programs, stage, programs_micro_batches(programs), out, error));
        }
    }
    return PS_OK;
}

static enum ps_status transfer_weights(struct ps_programs *programs, struct transfer_pass *pass, int *counts,
                                       struct ps_error *error) {
    struct program_levels levels;
    TRY(program_levels_count(programs, &levels, error));
    enum ps_status status = PS_OK;
    for (int stage = 0; status == PS_OK && stage < programs->stages; stage++)
        if (programs_split(programs, stage))
            status = place(programs, &levels, stage, &pass->arena, &pass->stages[stage], error);
    program_levels_free(&levels);
    for (int worker = 0; worker < programs->workers; worker++) counts[worker] = programs->worker[worker].count;
    if (status == PS_OK) status = pass_rewrite(programs, visit, pass, error);
    return status == PS_OK ? mark_end(pass, programs, counts, error) : status;
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    bool any = false;
    for (int stage = 0; stage < programs->stages; stage++) any = any || programs_split(programs, stage);
    if (!any) return PS_OK;
    struct transfer_pass pass = {0};
    pass.stages = arena_take(&pass.arena, (size_t)programs->stages, sizeof *pass.stages);
    int *counts = arena_take(&pass.arena, (size_t)programs->workers, sizeof *counts);
    TRY(arena_check(&pass.arena, "weight transfer pass", error));
    enum ps_status status = transfer_weights(programs, &pass, counts, error);
    arena_release(&pass.arena);
    return status;
}

const struct pass pass_weight_transfer = {.run = run};
