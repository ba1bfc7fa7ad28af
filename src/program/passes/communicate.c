/*
 * What travels, and when. A result is sent right after the computation that makes it.
 *
 * Between two workers a receive is posted one computation of its kind ahead: before the forward (backward) that precedes the
 * one that needs it, so that the transfer runs beside that computation; the first ones of a segment (of a mini-batch, where the
 * schedule flushes) before the first forward. Where that is too late it is posted earlier: a sender writes again into a block
 * that it has sent, one after the next (passes/allocate.c), and must not wait then for something that its receiver posts later
 * in any order in which the programs can run (program_levels_count). So no order of sends can deadlock, also where a send waits
 * for its receive; the verifier proves it.
 *
 * Of a split stage the stash (or, with recomputation, only the input) leaves right after the forward, and is received where
 * that forward runs at the latest, so that it does not stay behind; weights are received as soon as the forward before is over.
 *
 * Within a worker both ends are posted together, and the block is passed on at once.
 */
#include <limits.h>
#include <stdlib.h>

#include "program/lower.h"

/* A receive in a worker's program: before which instruction. */
struct post {
    struct instruction instruction;
    int next; /* before the same instruction, -1: none */
};

struct post_list {
    int *first, *last; /* by instruction: posts before it, -1: none */
};

struct communicate_pass {
    struct arena arena; /* of its lists */
    bool flush;
    struct program_levels levels; /* not in evaluation */
    struct post *posts;
    int post_count;
    struct post_list *lists; /* by worker */
};

/* One instance's computations of one kind in the order of its worker's program. */
struct row {
    int *micro_batch, *index; /* index: where it begins: of a backward with recomputation, the R */
    int count;
};

/* What planning one instance's receives needs room for, by computation or micro-batch. */
struct scratch {
    struct row forwards, row, senders;
    int *at;    /* by computation of the row: before which instruction its receive stands */
    int *place; /* by micro-batch: where it is in the row, -1: not in it */
    int *block;
};

static int group_of(const struct communicate_pass *pass, const struct ps_programs *programs, int micro_batch) {
    return pass->flush ? programs_batch(programs, micro_batch) : 0;
}

static bool makes_output(const struct instruction *instruction) { return instruction->op == OP_F || instruction->op == OP_R; }

static void find_row(const struct ps_programs *programs, int instance, bool gradient, struct row *row) {
    int stage = programs->instances[instance].stage;
    const struct program *program = &programs->worker[programs->instances[instance].worker];
    row->count = 0;
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        if (instruction->stage != stage) continue;
        if (gradient ? !instruction_takes_gradient(instruction) : instruction->op != OP_F) continue;
        row->micro_batch[row->count] = instruction->micro_batch;
        row->index[row->count++] = i - (gradient && programs->recompute[stage]);
    }
}

/* The instance's first forward of what drains together; `own` where it has none. */
static int first_forward(const struct communicate_pass *pass, const struct ps_programs *programs, const struct row *forwards,
                         int group, int own) {
    for (int j = 0; j < forwards->count; j++)
        if (group_of(pass, programs, forwards->micro_batch[j]) == group) return forwards->index[j];
    return own;
}

/* One computation ahead; the first gradients before the instance's first forward of what drains together. */
static void post_ahead(const struct communicate_pass *pass, const struct ps_programs *programs, const struct row *row,
                       const struct row *forwards, int *at) {
    for (int j = 0; j < row->count; j++) {
        int group = group_of(pass, programs, row->micro_batch[j]);
        bool starts = j == 0 || group_of(pass, programs, row->micro_batch[j - 1]) != group;
        at[j] = starts || programs->evaluation ? row->index[j] : row->index[j - 1];
        if (row != forwards && starts) at[j] = first_forward(pass, programs, forwards, group, at[j]);
    }
}

/* The moment from which on the sender may write again into the block of its j-th result: none, if INT_MAX. */
static int written_again(const struct communicate_pass *pass, const struct ps_programs *programs, int sender, bool gradient,
                         const struct row *senders, int j) {
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

/* Never after a sender needs its block again, and in the order of the computations. */
static void post_in_time(const struct communicate_pass *pass, const struct ps_programs *programs, int instance,
                         int sender_stage, bool gradient, struct scratch *scratch) {
    int worker = programs->instances[instance].worker, *at = scratch->at;
    const struct row *row = gradient ? &scratch->row : &scratch->forwards;
    for (int j = 0; j < row->count; j++) scratch->place[row->micro_batch[j]] = j;
    for (int sender = programs->first_instance[sender_stage]; sender < programs->first_instance[sender_stage + 1]; sender++) {
        find_row(programs, sender, gradient, &scratch->senders);
        for (int j = 0; j < scratch->senders.count; j++) {
            int place = scratch->place[scratch->senders.micro_batch[j]];
            int level = place < 0 ? INT_MAX : written_again(pass, programs, sender, gradient, &scratch->senders, j);
            if (level == INT_MAX) continue;
            int latest = program_levels_first(&pass->levels, programs, worker, level);
            if (latest < at[place]) at[place] = latest;
        }
    }
    for (int j = row->count - 2; j >= 0; j--)
        if (at[j + 1] < at[j]) at[j] = at[j + 1];
    for (int j = 0; j < row->count; j++) scratch->place[row->micro_batch[j]] = -1;
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

/* Who makes what the stage receives for a micro-batch; who takes what it sends. */
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

/* All receives of one instance of one kind; what its own worker makes is taken in where it is made. */
static void plan_receives(struct communicate_pass *pass, const struct ps_programs *programs, int instance, bool gradient,
                          struct scratch *scratch) {
    int stage = programs->instances[instance].stage, worker = programs->instances[instance].worker,
        sender = stage + (gradient ? 1 : -1);
    struct row *row = gradient ? &scratch->row : &scratch->forwards;
    if (sender < 0 || sender >= programs->stages) return;
    find_row(programs, instance, false, &scratch->forwards);
    if (gradient) find_row(programs, instance, true, row);
    if (row->count == 0) return;
    post_ahead(pass, programs, row, &scratch->forwards, scratch->at);
    if (!programs->evaluation) post_in_time(pass, programs, instance, sender, gradient, scratch);
    for (int j = 0; j < row->count; j++) {
        struct instruction instruction = receive(programs, stage, gradient, row->micro_batch[j]);
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

/* The stashes that an instance receives which runs only the backwards: the j-th forward's is its j-th. A pattern lets them
 * travel beside the backward before. */
static void plan_stashes(struct communicate_pass *pass, const struct ps_programs *programs, int instance,
                         struct scratch *scratch) {
    int stage = programs->instances[instance].stage, worker = programs->instances[instance].worker;
    if (programs->instances[instance].forward || programs->evaluation) return;
    int sender = programs_forward_instance(programs, stage, 0), from = programs->instances[sender].worker;
    find_row(programs, sender, false, &scratch->forwards);
    find_row(programs, instance, true, &scratch->row);
    for (int j = scratch->row.count - 1; j >= 0; j--) {
        scratch->at[j] =
            program_levels_first(&pass->levels, programs, worker, pass->levels.worker[from][scratch->forwards.index[j]]);
        int needed = scratch->row.index[programs_has_pattern(programs) && j > 0 ? j - 1 : j];
        if (needed < scratch->at[j]) scratch->at[j] = needed;
        if (j + 1 < scratch->row.count && scratch->at[j + 1] < scratch->at[j]) scratch->at[j] = scratch->at[j + 1];
    }
    for (int j = 0; j < scratch->row.count; j++) {
        struct instruction instruction = move_stash(programs, OP_RS, stage, scratch->row.micro_batch[j]);
        add_post(pass, worker, scratch->at[j], &instruction);
    }
}

/* The next weights that a stage of the worker receives, if no forward of it stands before: where its program has the RW, else
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

/* Is a forward of the stage over before this RW, behind which it is posted? */
static bool posted_before(const struct program *program, int index) {
    for (int i = index - 1; i >= 0; i--)
        if (program->code[i].stage == program->code[index].stage && program->code[i].op == OP_F) return true;
    return false;
}

/* What follows the forward of an instance that runs no backwards. */
static enum ps_status hand_away(const struct ps_programs *programs, int worker, int index, struct program *out,
                                struct ps_error *error) {
    const struct instruction *forward = &programs->worker[worker].code[index];
    struct instruction stash = move_stash(programs, OP_SS, forward->stage, forward->micro_batch);
    TRY(program_append(out, &stash, error));
    const struct instruction *weights = next_weights(&programs->worker[worker], index);
    return weights ? program_append(out, weights, error) : PS_OK;
}

/* The result goes out; within the worker it is taken in as well. */
static enum ps_status hand_on(const struct ps_programs *programs, int worker, const struct instruction *made, bool gradient,
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
    if (instruction->op == OP_F) TRY(hand_on(programs, worker, instruction, false, out, error));
    if (instruction->op == OP_F && !programs->evaluation && programs_split(programs, instruction->stage))
        TRY(hand_away(programs, worker, index, out, error));
    if (instruction_takes_gradient(instruction)) TRY(hand_on(programs, worker, instruction, true, out, error));
    return PS_OK;
}

static enum ps_status plan_all(struct communicate_pass *pass, struct ps_programs *programs, struct ps_error *error) {
    size_t count = (size_t)programs_micro_batches(programs);
    struct arena arena = {0};
    int *list[8];
    for (int l = 0; l < 8; l++) list[l] = arena_take(&arena, count, sizeof *list[l]);
    struct scratch scratch = {.forwards = {.micro_batch = list[0], .index = list[1]},
                              .row = {.micro_batch = list[2], .index = list[3]},
                              .senders = {.micro_batch = list[4], .index = list[5]},
                              .at = list[6],
                              .place = list[7]};
    TRY(arena_check(&arena, "communicate pass", error));
    for (size_t k = 0; k < count; k++) scratch.place[k] = -1;
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

const struct pass pass_communicate = {.name = "communicate", .evaluation = true, .run = run};
