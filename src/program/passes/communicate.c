/*
 * Decides what is transferred, and when. A result is sent right after the computation that makes it.
 *
 * Between two workers a receive is posted one computation of its kind ahead: before the forward (backward) that precedes the
 * one that needs it, so that the transfer overlaps with that computation; with slack so many ahead, so that a sender whose peer
 * is late has room for its results. The first receives of a segment (of a mini-batch, with a flush) are posted before the first
 * forward. If that is too late the receive is posted earlier. A sender uses its blocks cyclically (passes/allocate.c) and
 * writes again to one that it has sent. It must not wait then for a receive that its peer posts later, in any order in which
 * the programs can run (program_levels_count). So no order of sends can deadlock, even if a send waits for its receive; the
 * verifier proves it.
 *
 * In a split stage the stash (with recomputation: only the input) is sent right after the forward. Its receive is posted at the
 * latest at the level of that forward, so that it causes no delay. Weights are received as soon as the previous forward has
 * finished.
 *
 * Within a worker both ends are posted together, and the block is passed on immediately.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/number.h"
#include "program/lower.h"

/* A receive in a worker's program, by the instruction that it precedes. */
struct post {
    struct instruction instruction;
    int next; /* the next receive before the same instruction, -1: none */
};

struct post_list {
    int *first, *last; /* by instruction: the receives before it, -1: none */
};

struct communicate_pass {
    struct arena arena; /* of the lists */
    bool flush;
    struct program_levels levels; /* not in evaluation */
    struct post *posts;
    int post_count;
    struct post_list *lists; /* by worker */
};

/* The computations of one kind of one instance, in the order of its worker's program. */
struct sequence {
    int *micro_batch, *index; /* index: the instruction at which it begins, which is the R for a backward with recomputation */
    int count;
};

/* Scratch memory for planning one instance's receives, by computation or micro-batch. */
struct scratch {
    struct sequence forwards, sequence, senders;
    int *at;       /* by computation of the sequence: the instruction before which its receive is posted */
    int *position; /* by micro-batch: its position in the sequence, -1: none */
    int *block;
};

static int group_of(const struct communicate_pass *pass, const struct ps_programs *programs, int micro_batch) {
    return pass->flush ? programs_batch(programs, micro_batch) : 0;
}

static bool makes_output(const struct instruction *instruction) { return instruction->op == OP_F || instruction->op == OP_R; }

static void find_row(const struct ps_programs *programs, int instance, bool gradient, struct sequence *sequence) {
    int stage = programs->instances[instance].stage;
    const struct program *program = &programs->worker[programs->instances[instance].worker];
    sequence->count = 0;
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        if (instruction->stage != stage) continue;
        if (gradient ? !instruction_takes_gradient(instruction) : instruction->op != OP_F) continue;
        sequence->micro_batch[sequence->count] = instruction->micro_batch;
        sequence->index[sequence->count++] = i - (gradient && programs->recompute[stage]);
    }
}

/* One computation ahead, or as many as the slack; the first gradients before the instance's first forward of the mini-batch or
 * segment, if it has one. Mini-batches follow each other in both sequences. */
static void post_ahead(const struct communicate_pass *pass, const struct ps_programs *programs, const struct sequence *sequence,
                       const struct sequence *forwards, int *at) {
    for (int j = 0, first = 0; j < sequence->count; j++) {
        int group = group_of(pass, programs, sequence->micro_batch[j]);
        int before = j - number_larger_int(1, programs->slack);
        bool starts = before < 0 || group_of(pass, programs, sequence->micro_batch[before]) != group;
        if (before < 0) before = 0;
        at[j] = sequence->index[programs->evaluation || (starts && programs->flush) ? j : before];
        if (sequence == forwards || !starts) continue;
        while (first < forwards->count && group_of(pass, programs, forwards->micro_batch[first]) < group) first++;
        if (first < forwards->count && group_of(pass, programs, forwards->micro_batch[first]) == group)
            at[j] = forwards->index[first];
    }
}

/* The level from which the sender may write again to the block of its j-th result; INT_MAX: it does not. */
static int written_again(const struct communicate_pass *pass, const struct ps_programs *programs, int sender, bool gradient,
                         const struct sequence *senders, int j) {
    int stage = programs->instances[sender].stage, worker = programs->instances[sender].worker;
    const struct program *program = &programs->worker[worker];
    if (j + 1 >= senders->count) return INT_MAX;
    int begin = senders->index[j + 1] + (gradient && programs->recompute[stage]);
    for (int i = begin + 1; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        if (instruction->stage != stage) continue;
        if (gradient ? instruction_takes_gradient(instruction) : makes_output(instruction))
            return pass->levels.worker[worker][i];
    }
    return INT_MAX;
}

/* Never after the sender needs its block again, and in the order of the computations. */
static void post_in_time(const struct communicate_pass *pass, const struct ps_programs *programs, int instance,
                         int sender_stage, bool gradient, struct scratch *scratch) {
    int worker = programs->instances[instance].worker, *at = scratch->at;
    const struct sequence *sequence = gradient ? &scratch->sequence : &scratch->forwards;
    for (int j = 0; j < sequence->count; j++) scratch->position[sequence->micro_batch[j]] = j;
    for (int sender = programs->first_instance[sender_stage]; sender < programs->first_instance[sender_stage + 1]; sender++) {
        find_row(programs, sender, gradient, &scratch->senders);
        for (int j = 0; j < scratch->senders.count; j++) {
            int position = scratch->position[scratch->senders.micro_batch[j]];
            int level = position < 0 ? INT_MAX : written_again(pass, programs, sender, gradient, &scratch->senders, j);
            if (level == INT_MAX) continue;
            int latest = program_levels_first(&pass->levels, programs, worker, level);
            if (latest < at[position]) at[position] = latest;
        }
    }
    for (int j = sequence->count - 2; j >= 0; j--)
        if (at[j + 1] < at[j]) at[j] = at[j + 1];
    for (int j = 0; j < sequence->count; j++) scratch->position[sequence->micro_batch[j]] = -1;
}

static void add_post(struct communicate_pass *pass, int worker, int index, const struct instruction *instruction) {
    struct post_list *list = &pass->lists[worker];
    int number = pass->post_count++;
    pass->posts[number] = (struct post){.instruction = *instruction, .next = -1};
    if (list->first[index] < 0)
        list->first[index] = number;
    else
        pass->posts[list->last[index]].next = number;
    list->last[index] = number;
}

/* The instance that makes what the stage receives for a micro-batch; the instance that receives what it sends. */
static int maker_of(const struct ps_programs *programs, int stage, bool gradient, int micro_batch) {
    return gradient ? programs_backward_instance(programs, stage + 1, micro_batch)
                    : programs_forward_instance(programs, stage - 1, micro_batch);
}

static int taker_of(const struct ps_programs *programs, int stage, bool gradient, int micro_batch) {
    return gradient ? programs_backward_instance(programs, stage - 1, micro_batch)
                    : programs_forward_instance(programs, stage + 1, micro_batch);
}

static struct instruction receive(const struct ps_programs *programs, int stage, bool gradient, int micro_batch) {
    struct instruction instruction = instruction_make(gradient ? OP_RG : OP_RA, stage, micro_batch);
    instruction.peer = (int16_t)programs->instances[maker_of(programs, stage, gradient, micro_batch)].worker;
    return instruction;
}

/* All receives of one instance of one kind. What its own worker makes is received where it is made. */
static void plan_receives(struct communicate_pass *pass, const struct ps_programs *programs, int instance, bool gradient,
                          struct scratch *scratch) {
    int stage = programs->instances[instance].stage, worker = programs->instances[instance].worker,
        sender = stage + (gradient ? 1 : -1);
    struct sequence *sequence = gradient ? &scratch->sequence : &scratch->forwards;
    if (sender < 0 || sender >= programs->stages) return;
    find_row(programs, instance, false, &scratch->forwards);
    if (gradient) find_row(programs, instance, true, sequence);
    if (sequence->count == 0) return;
    post_ahead(pass, programs, sequence, &scratch->forwards, scratch->at);
    if (!programs->evaluation) post_in_time(pass, programs, instance, sender, gradient, scratch);
    for (int j = 0; j < sequence->count; j++) {
        struct instruction instruction = receive(programs, stage, gradient, sequence->micro_batch[j]);
        if (instruction.peer != worker) add_post(pass, worker, scratch->at[j], &instruction);
    }
}

static struct instruction move_stash(const struct ps_programs *programs, enum opcode op, int stage, int micro_batch) {
    struct instruction instruction = instruction_make(op, stage, micro_batch);
    int peer = op == OP_SS ? programs_backward_instance(programs, stage, micro_batch)
                           : programs_forward_instance(programs, stage, micro_batch);
    instruction.peer = (int16_t)programs->instances[peer].worker;
    return instruction;
}

/* The stashes that an instance with backwards only receives: the j-th is that of the j-th forward. With a pattern they are
 * transferred during the previous backward. */
static void plan_stashes(struct communicate_pass *pass, const struct ps_programs *programs, int instance,
                         struct scratch *scratch) {
    int stage = programs->instances[instance].stage, worker = programs->instances[instance].worker;
    if (programs->instances[instance].forward || programs->evaluation) return;
    int sender = programs_forward_instance(programs, stage, 0), from = programs->instances[sender].worker;
    find_row(programs, sender, false, &scratch->forwards);
    find_row(programs, instance, true, &scratch->sequence);
    for (int j = scratch->sequence.count - 1; j >= 0; j--) {
        scratch->at[j] =
            program_levels_first(&pass->levels, programs, worker, pass->levels.worker[from][scratch->forwards.index[j]]);
        int ahead = number_larger_int(programs_has_pattern(programs), programs->slack);
        int needed = scratch->sequence.index[number_larger_int(j - ahead, 0)];
        if (needed < scratch->at[j]) scratch->at[j] = needed;
        if (j + 1 < scratch->sequence.count && scratch->at[j + 1] < scratch->at[j]) scratch->at[j] = scratch->at[j + 1];
    }
    for (int j = 0; j < scratch->sequence.count; j++) {
        struct instruction instruction = move_stash(programs, OP_RS, stage, scratch->sequence.micro_batch[j]);
        add_post(pass, worker, scratch->at[j], &instruction);
    }
}

/* The next weights that a stage of the worker receives, if none of its forwards comes first: the RW in its program, else
 * NULL. */
static const struct instruction *next_weights(const struct program *program, int index) {
    int stage = program->code[index].stage;
    for (int i = index + 1; i < program->count; i++) {
        if (program->code[i].stage != stage) continue;
        if (program->code[i].op == OP_RW) return &program->code[i];
        if (program->code[i].op == OP_F) return NULL;
    }
    return NULL;
}

/* Returns true if a forward of the stage precedes this RW; the receive is posted right after that forward. */
static bool posted_before(const struct program *program, int index) {
    for (int i = index - 1; i >= 0; i--)
        if (program->code[i].stage == program->code[index].stage && program->code[i].op == OP_F) return true;
    return false;
}

/* Sends after a forward of an instance that runs no backwards. */
static enum ps_status send_stash(const struct ps_programs *programs, int worker, int index, struct program *out,
                                 struct ps_error *error) {
    const struct instruction *forward = &programs->worker[worker].code[index];
    struct instruction stash = move_stash(programs, OP_SS, forward->stage, forward->micro_batch);
    TRY(program_append(out, &stash, error));
    const struct instruction *weights = next_weights(&programs->worker[worker], index);
    return weights ? program_append(out, weights, error) : PS_OK;
}

/* Sends the result; if its receiver is on the same worker, also receives it. */
static enum ps_status send_result(const struct ps_programs *programs, int worker, const struct instruction *made, bool gradient,
                                  struct program *out, struct ps_error *error) {
    int to = made->stage + (gradient ? -1 : 1);
    if (to < 0 || to >= programs->stages) return PS_OK;
    struct instruction instruction = instruction_make(gradient ? OP_SG : OP_SA, made->stage, made->micro_batch);
    instruction.peer = (int16_t)programs->instances[taker_of(programs, made->stage, gradient, made->micro_batch)].worker;
    TRY(program_append(out, &instruction, error));
    if (instruction.peer != worker) return PS_OK;
    instruction = receive(programs, to, gradient, made->micro_batch);
    return program_append(out, &instruction, error);
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    const struct communicate_pass *pass = context;
    const struct instruction *instruction = &programs->worker[worker].code[index];
    for (int post = pass->lists[worker].first[index]; post >= 0; post = pass->posts[post].next)
        TRY(program_append(out, &pass->posts[post].instruction, error));
    if (instruction->op == OP_RW && posted_before(&programs->worker[worker], index)) return PS_OK;
    TRY(program_append(out, instruction, error));
    if (instruction->op == OP_F) TRY(send_result(programs, worker, instruction, false, out, error));
    if (instruction->op == OP_F && !programs->evaluation && programs_split(programs, instruction->stage))
        TRY(send_stash(programs, worker, index, out, error));
    if (instruction_takes_gradient(instruction)) TRY(send_result(programs, worker, instruction, true, out, error));
    return PS_OK;
}

static enum ps_status plan_all(struct communicate_pass *pass, struct ps_programs *programs, struct ps_error *error) {
    size_t count = (size_t)programs_micro_batches(programs);
    struct arena arena = {0};
    int *list[8];
    for (int l = 0; l < 8; l++) list[l] = arena_take(&arena, count, sizeof *list[l]);
    struct scratch scratch = {.forwards = {.micro_batch = list[0], .index = list[1]},
                              .sequence = {.micro_batch = list[2], .index = list[3]},
                              .senders = {.micro_batch = list[4], .index = list[5]},
                              .at = list[6],
                              .position = list[7]};
    TRY(arena_check(&arena, "communicate pass", error));
    for (size_t k = 0; k < count; k++) scratch.position[k] = -1;
    for (int instance = 0; instance < programs->instance_count; instance++) {
        plan_receives(pass, programs, instance, false, &scratch);
        plan_receives(pass, programs, instance, true, &scratch);
        plan_stashes(pass, programs, instance, &scratch);
    }
    arena_release(&arena);
    return PS_OK;
}

static enum ps_status start(struct communicate_pass *pass, const struct ps_programs *programs, struct ps_error *error) {
    struct arena *arena = &pass->arena;
    pass->posts =
        arena_take(arena, 3 * (size_t)programs->stages * (size_t)programs_micro_batches(programs), sizeof *pass->posts);
    pass->lists = arena_take(arena, (size_t)programs->workers, sizeof *pass->lists);
    for (int worker = 0; pass->lists && worker < programs->workers; worker++) {
        size_t count = (size_t)programs->worker[worker].count;
        struct post_list *list = &pass->lists[worker];
        list->first = arena_take(arena, count, sizeof *list->first);
        list->last = arena_take(arena, count, sizeof *list->last);
        for (size_t i = 0; list->first && list->last && i < count; i++) list->first[i] = list->last[i] = -1;
    }
    TRY(arena_check(arena, "communicate pass", error));
    return programs->evaluation ? PS_OK : program_levels_count(programs, &pass->levels, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    struct communicate_pass pass = {.flush = programs->schedule->flush};
    enum ps_status status = start(&pass, programs, error);
    if (status == PS_OK) status = plan_all(&pass, programs, error);
    if (status == PS_OK) status = pass_rewrite(programs, visit, &pass, error);
    program_levels_free(&pass.levels);
    arena_release(&pass.arena);
    return status;
}

const struct pass pass_communicate = {.evaluation = true, .run = run};
