/*
 * The verifier: proof that programs are correct, before the first batch.
 *
 * First it checks each instruction alone (verify_each). Then it runs all programs together through the interpreter, in an
 * environment that does not compute but records what each weight slot and block holds (struct account). A transfer takes place
 * only when both ends have been posted (rendezvous), so a program that passes cannot deadlock, however little a transport
 * buffers: the programs are a deterministic network of processes, whose progress does not depend on the order of steps. At the
 * end no computation, update or transfer may be missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/interpreter.h"
#include "program/lower.h"
#include "program/routes.h"

/* The verifier's account of the state while programs run: what each weight slot and block holds, how far each instance is, and
 * which ends of transfers wait for their other end. */

enum { ACCOUNT_EMPTY = -1 };

struct weight_content {
    int version, ahead; /* version ACCOUNT_EMPTY: nothing */
    bool travels;
};

struct block_content {
    int micro_batch; /* that it holds, or will hold after the transfer; ACCOUNT_EMPTY */
    bool travels;
};

/* The ends of transfers on one route that wait for their other end; all sends or all receives. */
struct channel {
    const struct instruction **waiting; /* a micro-batch is sent at most once, so all have room */
    int first, count, capacity;
};

struct instance_account {
    struct weight_content *weights;
    struct block_content *blocks[BLOCK_KINDS];
    bool *forward;                 /* by micro-batch: done */
    int newest;                    /* updates done */
    int backwards;                 /* done */
    int gradients;                 /* backwards since the last update */
    bool rounded, summing, summed; /* gradients of the next update: for the codec of the sum; posted to the other replicas */
};

struct account {
    struct arena arena; /* of its arrays */
    const struct ps_programs *programs;
    struct interpreter *interpreters; /* per worker */
    struct version_table versions;
    struct instance_account *instances;
    struct routes routes;
    struct channel *channels; /* per route */
    int *posted;              /* per group: instances that have posted their gradients */
};

static void take_instance(struct arena *arena, struct instance_account *instance, const struct stage_slots *slots,
                          int micro_batches) {
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        int count = stage_slots_of(slots, (enum block_kind)kind);
        instance->blocks[kind] = arena_take(arena, (size_t)count, sizeof *instance->blocks[kind]);
        for (int slot = 0; instance->blocks[kind] && slot < count; slot++)
            instance->blocks[kind][slot] = (struct block_content){.micro_batch = ACCOUNT_EMPTY};
    }
    instance->weights = arena_take(arena, (size_t)slots->weights, sizeof *instance->weights);
    for (int slot = 0; instance->weights && slot < slots->weights; slot++)
        instance->weights[slot] = (struct weight_content){.version = slot == 0 ? 0 : ACCOUNT_EMPTY};
    instance->forward = arena_take(arena, (size_t)micro_batches, sizeof *instance->forward);
}

/* Counts the versions. At the start every slot 0 holds the initial weights, and everything else is empty. `programs` stays
 * borrowed. After a failure, too, the account must be freed. */
static enum ps_status account_start(const struct ps_programs *programs, struct account *account, struct ps_error *error) {
    int micro_batches = programs_micro_batches(programs);
    *account = (struct account){.programs = programs};
    TRY(routes_create(programs, &account->routes, error));
    TRY(version_table_count(programs, &account->versions, error));
    struct arena *arena = &account->arena;
    account->instances = arena_take(arena, (size_t)programs->instance_count, sizeof *account->instances);
    account->channels = arena_take(arena, (size_t)account->routes.count, sizeof *account->channels);
    account->posted = arena_take(arena, (size_t)programs->stages, sizeof *account->posted);
    account->interpreters = arena_take(arena, (size_t)programs->workers, sizeof *account->interpreters);
    for (int instance = 0; account->instances && instance < programs->instance_count; instance++)
        take_instance(arena, &account->instances[instance], &programs->slots[instance], micro_batches);
    for (int route = 0; account->channels && route < account->routes.count; route++) {
        struct channel *channel = &account->channels[route];
        channel->capacity = micro_batches + 1;
        channel->waiting = arena_take(arena, (size_t)channel->capacity, sizeof *channel->waiting);
    }
    return arena_check(arena, "verifier", error);
}

/* May be called on a zeroed account. */
static void account_free(struct account *account) {
    arena_release(&account->arena);
    routes_free(&account->routes);
    version_table_free(&account->versions);
}

/* Checks of each instruction alone: numbers in range, on the worker that holds its stage, and every operand that its position
 * in the pipeline requires. */

static enum ps_status verify_refuse(const struct instruction *instruction, int worker, struct ps_error *error,
                                    const char *reason) {
    char text[96];
    return error_set(error, PS_BAD_INPUT, "worker %d: %s: %s", worker, instruction_text(instruction, text), reason);
}

/* Blocks at an end of a stage exist if there is an adjacent stage. */
static bool block_belongs(const struct ps_programs *programs, int stage, enum block_kind kind) {
    if (kind == BLOCK_OUTPUT || kind == BLOCK_OUTPUT_GRADIENT) return stage < programs->stages - 1;
    if (kind == BLOCK_INPUT_GRADIENT) return stage > 0;
    if (kind == BLOCK_WIRE + WIRE_ACTIVATION_SENT || kind == BLOCK_WIRE + WIRE_GRADIENT_RECEIVED)
        return stage < programs->stages - 1;
    if (kind >= BLOCK_WIRE) return stage > 0;
    return true;
}

/* Which instructions an instance may have: one that runs both directions, only forwards, or only backwards. */
static const char *check_role(const struct instance *instance, const struct instruction *instruction) {
    bool moves_stash = instruction->op == OP_SS || instruction->op == OP_RS,
         moves_weights = instruction_moves_weights(instruction);
    bool of_forward = instruction->op == OP_F || instruction->op == OP_SA || instruction->op == OP_RA ||
                      instruction->op == OP_SS || instruction->op == OP_RW || instruction->op == OP_EA ||
                      instruction->op == OP_DA;
    if ((moves_stash || moves_weights) && instance->forward && instance->backward)
        return "transfers a stash or weights within one worker";
    if (of_forward ? instance->forward : instance->backward) return NULL;
    return of_forward ? "is on a worker that runs only the stage's backwards"
                      : "is on a worker that runs only the stage's forwards";
}

static const char *check_weights(const struct instance *instance, const struct stage_slots *slots,
                                 const struct instruction *instruction) {
    const char *operands = opcode_table[instruction->op].operands;
    int weights = slots->weights;
    if (strchr(operands, '@') && (instruction->slot < 0 || instruction->slot >= weights))
        return "reads a weight slot that the stage does not have";
    if (strchr(operands, ':') && (instruction->to < 0 || instruction->to >= weights))
        return "writes a weight slot that the stage does not have";
    if (instruction->op == OP_P && instruction->predict_to == NO_SLOT) return "names no slot for the prediction";
    if (instruction->predict_to == NO_SLOT) return NULL;
    if (instruction->predict_to >= weights) return "predicts into a weight slot that the stage does not have";
    if (instruction->predict_to == (instruction->op == OP_U ? instruction->to : instruction->slot))
        return "overwrites the weights with their prediction";
    return instruction->ahead >= (instance->forward ? 1 : 0) ? NULL : "predicts fewer than one update ahead";
}

/* Sends and receives name the block at the boundary or, where the cut has a codec, the encoded one. */
static bool names_other(const struct ps_programs *programs, int worker, const struct instruction *instruction,
                        enum block_kind kind) {
    const enum action action = opcode_table[instruction->op].action;
    if (instruction_other_stage(instruction) == instruction->stage || (action != ACTION_SEND && action != ACTION_RECEIVE))
        return false;
    return (programs_wire(programs, worker, instruction)->codec != WIRE_NONE) != (kind >= BLOCK_WIRE);
}

static const char *check_blocks(const struct ps_programs *programs, int worker, const struct stage_slots *slots,
                                const struct instruction *instruction) {
    for (const char *operand = opcode_table[instruction->op].operands; *operand; operand++) {
        enum block_kind kind = operand_block(*operand);
        if (kind == BLOCK_KINDS) continue;
        int slot = instruction->block[kind];
        if (names_other(programs, worker, instruction, kind)) {
            if (slot != NO_SLOT)
                return kind >= BLOCK_WIRE ? "names an encoded block where the cut has no codec"
                                          : "transfers what its cut's codec must encode";
            continue;
        }
        bool stays = kind == BLOCK_STASH && programs->recompute[instruction->stage];
        if (stays && (instruction->op == OP_SS || instruction->op == OP_RS)) {
            if (slot != NO_SLOT) return "transfers a stash that is recomputed";
        } else if (!block_belongs(programs, instruction->stage, kind)) {
            if (slot != NO_SLOT) return "names a block towards a stage that does not exist";
        } else if (slot < 0 || slot >= stage_slots_of(slots, kind)) {
            return "names a block that the stage does not have";
        }
    }
    return NULL;
}

static const char *check_peer(const struct ps_programs *programs, const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    if (action != ACTION_SEND && action != ACTION_RECEIVE) return NULL;
    int other = instruction_other_stage(instruction);
    if (other < 0 || other >= programs->stages) return "has no stage at the other end";
    bool held = programs_instance(programs, instruction->peer, other) != NO_INSTANCE;
    return held ? NULL : "names a worker that does not hold the stage at the other end";
}

static const char *check(const struct ps_programs *programs, int worker, const struct instruction *instruction) {
    if (instruction->stage < 0 || instruction->stage >= programs->stages) return "names a stage that does not exist";
    int instance = programs_instance(programs, worker, instruction->stage);
    if (instance == NO_INSTANCE) return "is on a worker that does not hold the stage";
    bool of_weights = instruction_moves_weights(instruction) || instruction->op == OP_P;
    int limit = instruction_is_of_update(instruction) ? programs_updates(programs, instruction->stage)
                                                      : programs_micro_batches(programs) + of_weights;
    if (instruction->micro_batch < 0 || instruction->micro_batch >= limit) return "is outside the segment";
    const char *reason = check_role(&programs->instances[instance], instruction);
    if (!reason) reason = check_weights(&programs->instances[instance], &programs->slots[instance], instruction);
    if (!reason) reason = check_blocks(programs, worker, &programs->slots[instance], instruction);
    return reason ? reason : check_peer(programs, instruction);
}

/* In each stage every replica has one instance that runs its forwards and one that runs its backwards, on separate workers for
 * each replica. */
static enum ps_status check_instances(const struct ps_programs *programs, int stage, struct ps_error *error) {
    int first = programs->first_instance[stage], end = programs->first_instance[stage + 1];
    int replicas = programs->instances[first].replicas, forwards = 0, backwards = 0;
    for (int a = first; a < end; a++) {
        const struct instance *instance = &programs->instances[a];
        forwards += instance->forward;
        backwards += instance->backward;
        if (instance->replicas != replicas)
            return error_set(error, PS_BAD_INPUT, "stage %d: is given %d replicas and %d", stage, replicas, instance->replicas);
        for (int b = first; b < a; b++) {
            const struct instance *other = &programs->instances[b];
            if (instance->worker == other->worker)
                return error_set(error, PS_BAD_INPUT, "stage %d: worker %d holds two instances of it", stage, instance->worker);
            if (instance->replica == other->replica &&
                ((instance->forward && other->forward) || (instance->backward && other->backward)))
                return error_set(error, PS_BAD_INPUT, "stage %d: replica %d is on workers %d and %d", stage, instance->replica,
                                 other->worker, instance->worker);
        }
    }
    if (forwards == replicas && backwards == replicas) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "stage %d: %d replicas, but instances for %d forwards and %d backwards", stage,
                     replicas, forwards, backwards);
}

static enum ps_status verify_each(const struct ps_programs *programs, struct ps_error *error) {
    for (int stage = 0; stage < programs->stages; stage++) TRY(check_instances(programs, stage, error));
    for (int worker = 0; worker < programs->workers; worker++) {
        const struct program *program = &programs->worker[worker];
        for (int i = 0; i < program->count; i++) {
            const char *reason = check(programs, worker, &program->code[i]);
            if (reason) return verify_refuse(&program->code[i], worker, error, reason);
        }
    }
    return PS_OK;
}

/* The effect of each instruction on the account, and its precondition. A transfer takes place only when both ends have been
 * posted (rendezvous). The policy determines which weights a computation must read, with versions counted again. */

static struct instance_account *instance_of(const struct account *account, int worker, const struct instruction *instruction) {
    return &account->instances[programs_instance(account->programs, worker, instruction->stage)];
}

/* ------------------------------------------------------------- what is read */

/* The weights that the policy specifies for a computation, or for a transfer to one; past the last micro-batch the newest. */
static struct reading required_by(const struct account *account, const struct instruction *instruction) {
    if (instruction->micro_batch == account->versions.micro_batches)
        return (struct reading){.version = programs_updates(account->programs, instruction->stage)};
    struct reading_context context = version_table_context(&account->versions, account->programs, instruction->stage,
                                                           instruction->micro_batch, account->programs->schedule->flush);
    bool forward = instruction->op == OP_F || instruction->op == OP_SW;
    return forward ? account->programs->policy->forward(&context) : account->programs->policy->backward(&context);
}

static const char *check_flush(const struct account *account, const struct instruction *instruction) {
    size_t cell = (size_t)instruction->stage * (size_t)account->versions.micro_batches + (size_t)instruction->micro_batch;
    if (!account->programs->policy->needs_flush || instruction->op == OP_SW) return NULL;
    if (account->versions.forward[cell] == account->versions.backward[cell]) return NULL;
    return "an update falls between this micro-batch's forward and its backward";
}

static const char *check_reading(const struct account *account, int worker, const struct instruction *instruction) {
    if (account->programs->evaluation) return instruction->slot == 0 ? NULL : "does not read the newest weights";
    struct reading required = required_by(account, instruction);
    const struct weight_content *content = &instance_of(account, worker, instruction)->weights[instruction->slot];
    const char *reason = check_flush(account, instruction);
    if (reason) return reason;
    if (content->version == ACCOUNT_EMPTY) return "reads a weight slot that nothing has filled";
    if (content->version != required.version) return "reads weights of another version than its policy requires";
    return content->ahead == required.ahead ? NULL
                                            : "reads weights predicted for another number of updates than its policy requires";
}

/* Checks that the block holds this micro-batch, and that its transfer is complete. */
static const char *check_holds(const struct account *account, int worker, const struct instruction *instruction,
                               enum block_kind kind) {
    static const char *const reasons[BLOCK_KINDS] = {
        [BLOCK_STASH] = "its stash block does not hold this micro-batch",
        [BLOCK_DELTA] = "its delta block does not hold this micro-batch",
        [BLOCK_INPUT] = "its input block does not hold this micro-batch",
        [BLOCK_OUTPUT] = "its output block does not hold this micro-batch",
        [BLOCK_OUTPUT_GRADIENT] = "its output-gradient block does not hold this micro-batch",
        [BLOCK_INPUT_GRADIENT] = "its input-gradient block does not hold this micro-batch",
        [BLOCK_WIRE + WIRE_ACTIVATION_SENT] = "its encoded activation is not that of this micro-batch",
        [BLOCK_WIRE + WIRE_ACTIVATION_RECEIVED] = "the encoded activation that it received is not that of this micro-batch",
        [BLOCK_WIRE + WIRE_GRADIENT_SENT] = "its encoded gradient is not that of this micro-batch",
        [BLOCK_WIRE + WIRE_GRADIENT_RECEIVED] = "the encoded gradient that it received is not that of this micro-batch"};
    int slot = instruction->block[kind];
    if (slot == NO_SLOT) return NULL;
    const struct block_content *block = &instance_of(account, worker, instruction)->blocks[kind][slot];
    return block->micro_batch == instruction->micro_batch && !block->travels ? NULL : reasons[kind];
}

static const char *check_empty(const struct account *account, int worker, const struct instruction *instruction,
                               enum block_kind kind) {
    static const char *const reasons[BLOCK_KINDS] = {
        [BLOCK_STASH] = "overwrites a stash that is still needed",
        [BLOCK_DELTA] = "overwrites deltas that are still needed",
        [BLOCK_INPUT] = "overwrites an input that is still needed",
        [BLOCK_OUTPUT] = "overwrites an output that was not sent",
        [BLOCK_OUTPUT_GRADIENT] = "overwrites an output gradient that is still needed",
        [BLOCK_INPUT_GRADIENT] = "overwrites an input gradient that was not sent",
        [BLOCK_WIRE + WIRE_ACTIVATION_SENT] = "overwrites an encoded activation that was not sent",
        [BLOCK_WIRE + WIRE_ACTIVATION_RECEIVED] = "overwrites an encoded activation that is still needed",
        [BLOCK_WIRE + WIRE_GRADIENT_SENT] = "overwrites an encoded gradient that was not sent",
        [BLOCK_WIRE + WIRE_GRADIENT_RECEIVED] = "overwrites an encoded gradient that is still needed"};
    int slot = instruction->block[kind];
    if (slot == NO_SLOT) return NULL;
    const struct block_content *block = &instance_of(account, worker, instruction)->blocks[kind][slot];
    return block->micro_batch == ACCOUNT_EMPTY && !block->travels ? NULL : reasons[kind];
}

static void put(struct account *account, int worker, const struct instruction *instruction, enum block_kind kind,
                int micro_batch) {
    int slot = instruction->block[kind];
    if (slot != NO_SLOT) instance_of(account, worker, instruction)->blocks[kind][slot].micro_batch = micro_batch;
}

/* ------------------------------------------------------------- the environment */

static bool settled(void *context, int worker, int stage, enum block_kind kind, int slot) {
    const struct account *account = context;
    const struct instance_account *instance = &account->instances[programs_instance(account->programs, worker, stage)];
    if (kind == BLOCK_WEIGHT_GRADIENTS) return !instance->summing;
    return kind == BLOCK_WEIGHTS ? !instance->weights[slot].travels : !instance->blocks[kind][slot].travels;
}

static enum ps_status verdict(const char *reason, int worker, const struct instruction *instruction, struct ps_error *error) {
    return reason ? verify_refuse(instruction, worker, error, reason) : PS_OK;
}

static enum ps_status forward(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    struct instance_account *instance = instance_of(account, worker, instruction);
    bool evaluation = account->programs->evaluation;
    bool keeps_stash = !evaluation && !account->programs->recompute[instruction->stage];
    const char *reason = instance->forward[instruction->micro_batch] ? "runs a second time" : NULL;
    int number = programs_instance(account->programs, worker, instruction->stage);
    if (!reason && !programs_takes(account->programs, number, instruction->micro_batch)) reason = "belongs to another replica";
    if (!reason) reason = (instruction->stage == 0 ? check_empty : check_holds)(account, worker, instruction, BLOCK_INPUT);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_STASH);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_OUTPUT);
    if (!reason) reason = check_reading(account, worker, instruction);
    instance->forward[instruction->micro_batch] = true;
    put(account, worker, instruction, BLOCK_INPUT, evaluation ? ACCOUNT_EMPTY : instruction->micro_batch);
    if (keeps_stash) put(account, worker, instruction, BLOCK_STASH, instruction->micro_batch);
    put(account, worker, instruction, BLOCK_OUTPUT, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

/* The number of gradients that the instance sums for one update; the micro-batch whose gradient is next. */
static int share_of(const struct account *account, int worker, const struct instruction *instruction, int update) {
    return programs_share(account->programs, programs_instance(account->programs, worker, instruction->stage), update);
}

static int next_gradient(const struct account *account, int worker, const struct instruction *instruction) {
    int instance = programs_instance(account->programs, worker, instruction->stage);
    return programs_nth(account->programs, instance, account->instances[instance].backwards);
}

/* The half of a backward that turns the output gradient into the input gradient. Blocks that the instruction does not name are
 * accepted. */
static const char *pass_gradient(struct account *account, int worker, const struct instruction *instruction) {
    const char *reason = check_holds(account, worker, instruction, BLOCK_OUTPUT_GRADIENT);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_INPUT_GRADIENT);
    put(account, worker, instruction, BLOCK_OUTPUT_GRADIENT, ACCOUNT_EMPTY);
    put(account, worker, instruction, BLOCK_INPUT_GRADIENT, instruction->micro_batch);
    return reason;
}

/* The half that adds to the gradients of the weights. After it no data of the micro-batch is needed. */
static const char *add_gradients(struct account *account, int worker, const struct instruction *instruction) {
    struct instance_account *instance = instance_of(account, worker, instruction);
    bool in_order = !instance->rounded && !instance->summing && !instance->summed &&
                    instance->gradients < share_of(account, worker, instruction, instance->newest) &&
                    instruction->micro_batch == next_gradient(account, worker, instruction);
    instance->gradients++;
    instance->backwards++;
    put(account, worker, instruction, BLOCK_STASH, ACCOUNT_EMPTY);
    put(account, worker, instruction, BLOCK_INPUT, ACCOUNT_EMPTY);
    return in_order ? NULL : "gradients are not added in the order of the micro-batches, one mini-batch between updates";
}

static const char *check_kept(const struct account *account, int worker, const struct instruction *instruction) {
    const char *reason = check_holds(account, worker, instruction, BLOCK_STASH);
    if (!reason) reason = check_holds(account, worker, instruction, BLOCK_INPUT);
    return reason ? reason : check_reading(account, worker, instruction);
}

static enum ps_status backward(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    const char *reason = check_kept(account, worker, instruction);
    if (!reason) reason = pass_gradient(account, worker, instruction);
    if (!reason) reason = add_gradients(account, worker, instruction);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status backward_input(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    const char *reason = check_kept(account, worker, instruction);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_DELTA);
    if (!reason) reason = pass_gradient(account, worker, instruction);
    put(account, worker, instruction, BLOCK_DELTA, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status backward_weight(void *context, int worker, const struct instruction *instruction,
                                      struct ps_error *error) {
    struct account *account = context;
    const char *reason = check_holds(account, worker, instruction, BLOCK_DELTA);
    if (!reason) reason = check_kept(account, worker, instruction);
    if (!reason) reason = add_gradients(account, worker, instruction);
    put(account, worker, instruction, BLOCK_DELTA, ACCOUNT_EMPTY);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status recompute(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    const char *reason = account->programs->recompute[instruction->stage] ? NULL : "the stage keeps its stash";
    if (!reason) reason = check_holds(account, worker, instruction, BLOCK_INPUT);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_STASH);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_OUTPUT);
    if (!reason) reason = check_reading(account, worker, instruction);
    put(account, worker, instruction, BLOCK_STASH, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status update(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    struct instance_account *instance = instance_of(account, worker, instruction);
    const struct weight_content *from = &instance->weights[instruction->slot];
    const char *reason = NULL;
    if (instruction->micro_batch != instance->newest)
        reason = "updates are not in the order of the mini-batches";
    else if (instance->gradients != share_of(account, worker, instruction, instance->newest))
        reason = "the mini-batch's gradients are not complete";
    else if (!instance->summed && programs_sums(account->programs, instruction->stage))
        reason = programs_replicas(account->programs, instruction->stage) > 1
                     ? "the gradients of the replicas are not added up"
                     : "the gradients of what stages share are not added up";
    else if (from->version != instance->newest || from->ahead != 0)
        reason = "updates other weights than the newest";
    instance->newest++;
    instance->gradients = 0;
    instance->summed = false;
    instance->weights[instruction->to] = (struct weight_content){.version = instance->newest};
    if (instruction->predict_to != NO_SLOT)
        instance->weights[instruction->predict_to] =
            (struct weight_content){.version = instance->newest, .ahead = instruction->ahead};
    return verdict(reason, worker, instruction, error);
}

static void end_sum(struct account *account, int stage) {
    const struct ps_programs *programs = account->programs;
    for (int p = programs->first_instance[stage]; p < programs->first_instance[stage + 1]; p++) {
        if (!programs->instances[p].backward) continue;
        account->instances[p].summing = false;
        account->instances[p].summed = true;
    }
}

/* The sum takes place when all instances of the group have posted their gradients of the same update. */
static enum ps_status reduce(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    const struct ps_programs *programs = account->programs;
    struct instance_account *instance = instance_of(account, worker, instruction);
    struct sum_group group = programs_sum_group(programs, instruction->stage);
    const char *reason = NULL;
    if (group.size == 1)
        reason = "the stage has no replicas, and shares no parameter with another";
    else if (instance->summing || instance->summed)
        reason = "the gradients are added up a second time";
    else if (instruction->micro_batch != instance->newest)
        reason = "sums are not in the order of the updates";
    else if (instance->gradients != share_of(account, worker, instruction, instance->newest))
        reason = "the mini-batch's gradients are not complete";
    else if (instance->rounded != (programs->sum_wire[instruction->stage].share.codec != WIRE_NONE))
        reason = "the gradients are not rounded to the codec of the sum";
    instance->summing = true;
    instance->rounded = false;
    if (++account->posted[group.number] == group.size) {
        account->posted[group.number] = 0;
        for (int s = 0; s < group.stage_count; s++) end_sum(account, group.stages[s]);
    }
    return verdict(reason, worker, instruction, error);
}

static enum ps_status round_gradients(void *context, int worker, const struct instruction *instruction,
                                      struct ps_error *error) {
    struct account *account = context;
    struct instance_account *instance = instance_of(account, worker, instruction);
    const char *reason = NULL;
    if (account->programs->sum_wire[instruction->stage].share.codec == WIRE_NONE)
        reason = "the stage's sum has no codec";
    else if (instance->rounded || instance->summing || instance->summed)
        reason = "the gradients are rounded a second time";
    else if (instruction->micro_batch != instance->newest)
        reason = "gradients are not rounded in the order of the updates";
    else if (instance->gradients != share_of(account, worker, instruction, instance->newest))
        reason = "the mini-batch's gradients are not complete";
    instance->rounded = true;
    return verdict(reason, worker, instruction, error);
}

static enum ps_status predict(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct account *account = context;
    struct instance_account *instance = instance_of(account, worker, instruction);
    const struct weight_content *from = &instance->weights[instruction->slot];
    const char *reason =
        from->version == ACCOUNT_EMPTY || from->ahead != 0 ? "predicts from a slot that holds no version" : NULL;
    instance->weights[instruction->predict_to] = (struct weight_content){.version = from->version, .ahead = instruction->ahead};
    return verdict(reason, worker, instruction, error);
}

/* Of its two blocks an encoding or a decoding empties the one and fills the other. */
static enum ps_status change_form(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    const char *operands = opcode_table[instruction->op].operands;
    const enum block_kind from = operand_block(operands[0]), to = operand_block(operands[1]);
    const char *reason = check_holds(context, worker, instruction, from);
    if (!reason) reason = check_empty(context, worker, instruction, to);
    put(context, worker, instruction, from, ACCOUNT_EMPTY);
    put(context, worker, instruction, to, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

/* ----------------------------------------------------------------- transfers */

/* The slot of a send or a receive of this kind; NULL: it transfers none. */
static struct block_content *block_of(const struct account *account, int worker, const struct instruction *instruction,
                                      enum block_kind kind) {
    int slot = instruction->block[kind];
    return slot == NO_SLOT ? NULL : &instance_of(account, worker, instruction)->blocks[kind][slot];
}

static enum ps_status check_same(int worker, const struct instruction *one, const struct instruction *other,
                                 struct ps_error *error) {
    char text[96], reason[160];
    if (one->micro_batch == other->micro_batch) return PS_OK;
    snprintf(reason, sizeof reason, "meets %s at the other end, which is of another micro-batch",
             instruction_text(other, text));
    return verify_refuse(one, worker, error, reason);
}

/* Adds an end of a transfer to the route's queue, or removes the matching end from it into *other. */
static enum ps_status queue(struct account *account, int worker, const struct instruction *instruction, enum block_kind kind,
                            int *at, const struct instruction **other, struct ps_error *error) {
    *at = routes_of(&account->routes, account->programs, worker, instruction, kind);
    *other = NULL;
    if (*at == NO_ROUTE)
        return verify_refuse(instruction, worker, error, "names a worker that never works on the same micro-batch");
    struct channel *channel = &account->channels[*at];
    if (channel->first < channel->count && channel->waiting[channel->first]->op != instruction->op) {
        *other = channel->waiting[channel->first++];
        return check_same(worker, instruction, *other, error);
    }
    if (channel->first == channel->count) channel->first = channel->count = 0;
    if (channel->count == channel->capacity)
        return verify_refuse(instruction, worker, error, "more transfers than micro-batches");
    channel->waiting[channel->count++] = instruction;
    return PS_OK;
}

/* Posts one end of the transfer of a block; when both are posted, it takes place. */
static enum ps_status post(struct account *account, int worker, const struct instruction *instruction, enum block_kind kind,
                           struct ps_error *error) {
    struct block_content *own = block_of(account, worker, instruction, kind);
    const struct instruction *other;
    int route;
    if (!own) return PS_OK;
    own->travels = true;
    TRY(queue(account, worker, instruction, kind, &route, &other, error));
    if (!other) return PS_OK;
    bool sends = opcode_table[instruction->op].action == ACTION_SEND;
    const struct traffic_info *traffic = &traffic_table[account->routes.list[route].traffic];
    struct block_content *their = block_of(account, instruction->peer, other, sends ? traffic->received : traffic->sent);
    (sends ? own : their)->micro_batch = ACCOUNT_EMPTY;
    own->travels = their->travels = false;
    return PS_OK;
}

/* The same for weights: the receiver's slot then holds what the sender's holds. */
static enum ps_status post_weights(struct account *account, int worker, const struct instruction *instruction,
                                   struct ps_error *error) {
    struct weight_content *own = &instance_of(account, worker, instruction)->weights[instruction->slot];
    const struct instruction *other;
    int route;
    own->travels = true;
    TRY(queue(account, worker, instruction, BLOCK_WEIGHTS, &route, &other, error));
    if (!other) return PS_OK;
    bool sends = opcode_table[instruction->op].action == ACTION_SEND;
    struct weight_content *their = &instance_of(account, instruction->peer, other)->weights[other->slot];
    *(sends ? their : own) = *(sends ? own : their);
    *(sends ? own : their) = (struct weight_content){.version = ACCOUNT_EMPTY};
    own->travels = their->travels = false;
    return PS_OK;
}

static enum ps_status send(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    if (instruction_moves_weights(instruction)) {
        TRY(verdict(check_reading(context, worker, instruction), worker, instruction, error));
        return post_weights(context, worker, instruction, error);
    }
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        TRY(verdict(check_holds(context, worker, instruction, (enum block_kind)kind), worker, instruction, error));
        TRY(post(context, worker, instruction, (enum block_kind)kind, error));
    }
    return PS_OK;
}

static enum ps_status receive(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    if (instruction_moves_weights(instruction)) return post_weights(context, worker, instruction, error);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        TRY(verdict(check_empty(context, worker, instruction, (enum block_kind)kind), worker, instruction, error));
        put(context, worker, instruction, (enum block_kind)kind, instruction->micro_batch);
        TRY(post(context, worker, instruction, (enum block_kind)kind, error));
    }
    return PS_OK;
}

/* The verifier's environment; its context is the account. A wrong instruction fails with PS_BAD_INPUT, which names the
 * instruction and the reason. */
static struct environment account_environment(struct account *account) {
    return (struct environment){
        .context = account,
        .settled = settled,
        .execute = {[ACTION_FORWARD] = forward,
                    [ACTION_BACKWARD] = backward,
                    [ACTION_BACKWARD_INPUT] = backward_input,
                    [ACTION_BACKWARD_WEIGHT] = backward_weight,
                    [ACTION_RECOMPUTE] = recompute,
                    [ACTION_UPDATE] = update,
                    [ACTION_PREDICT] = predict,
                    [ACTION_SEND] = send,
                    [ACTION_RECEIVE] = receive,
                    [ACTION_REDUCE] = reduce,
                    [ACTION_ENCODE] = change_form,
                    [ACTION_DECODE] = change_form,
                    [ACTION_ROUND] = round_gradients},
    };
}

static enum ps_status deadlock(const struct ps_programs *programs, const struct interpreter *interpreters,
                               struct ps_error *error) {
    char list[800] = "", text[96];
    size_t length = 0;
    for (int worker = 0; worker < programs->workers && length < sizeof list; worker++) {
        const struct interpreter *at = &interpreters[worker];
        if (at->next == at->program->count) continue;
        int written = snprintf(list + length, sizeof list - length, "%sworker %d waits at %s", length ? "; " : "", worker,
                               instruction_text(&at->program->code[at->next], text));
        length += (size_t)written;
    }
    return error_set(error, PS_BAD_INPUT, "deadlock: %s", list);
}

/* Steps all workers round robin until all have finished. */
static enum ps_status run_all(struct account *account, struct interpreter *interpreters, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    struct environment environment = account_environment(account);
    for (int worker = 0; worker < programs->workers; worker++)
        interpreter_start(&interpreters[worker], &programs->worker[worker], &environment, worker);
    for (;;) {
        bool moved = false, finished = true;
        for (int worker = 0; worker < programs->workers; worker++) {
            enum step step = interpreter_step(&interpreters[worker], error);
            for (; step == STEP_DONE; step = interpreter_step(&interpreters[worker], error)) moved = true;
            if (step == STEP_FAILED) return error ? error->status : PS_BAD_INPUT;
            if (step == STEP_WAITING) finished = false;
        }
        if (finished) return PS_OK;
        if (!moved) return deadlock(programs, interpreters, error);
    }
}

/* Reports a missing instruction. */
static enum ps_status missing(const struct ps_programs *programs, int instance, enum opcode op, int micro_batch,
                              const char *reason, struct ps_error *error) {
    return error_set(error, PS_BAD_INPUT, "worker %d: %d%s%d is missing: %s", programs->instances[instance].worker,
                     programs->instances[instance].stage, opcode_table[op].text, micro_batch, reason);
}

static enum ps_status check_forwards(const struct account *account, int instance, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    for (int k = 0; programs->instances[instance].forward && k < programs_micro_batches(programs); k++)
        if (programs_takes(programs, instance, k) && !account->instances[instance].forward[k])
            return missing(programs, instance, OP_F, k, "the micro-batch has no forward here", error);
    return PS_OK;
}

static enum ps_status check_updates(const struct account *account, int number, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    const struct instance_account *instance = &account->instances[number];
    int s = programs->instances[number].stage, worker = programs->instances[number].worker,
        updates = programs_updates(programs, s);
    if (programs->evaluation) return PS_OK;
    if (programs->instances[number].backward && instance->newest != updates)
        return missing(programs, number, OP_U, instance->newest, "the stage makes fewer updates than it has mini-batches",
                       error);
    for (int slot = 0; slot < programs->slots[number].delta; slot++)
        if (instance->blocks[BLOCK_DELTA][slot].micro_batch != ACCOUNT_EMPTY)
            return missing(programs, number, OP_W, instance->blocks[BLOCK_DELTA][slot].micro_batch,
                           "the gradient of the weights is never computed", error);
    bool transferred = programs->instances[number].forward && !programs->instances[number].backward;
    if (transferred && (instance->weights[0].version != updates || instance->weights[0].ahead != 0))
        return error_set(error, PS_BAD_INPUT, "stage %d: worker %d does not end with the newest weights: %dRW%d is missing", s,
                         worker, s, programs_micro_batches(programs));
    return PS_OK;
}

static enum ps_status check_complete(const struct account *account, struct ps_error *error) {
    const struct ps_programs *programs = account->programs;
    for (int instance = 0; instance < programs->instance_count; instance++) {
        TRY(check_forwards(account, instance, error));
        TRY(check_updates(account, instance, error));
    }
    for (int r = 0; r < account->routes.count; r++) {
        const struct channel *channel = &account->channels[r];
        const struct route *route = &account->routes.list[r];
        if (channel->first == channel->count) continue;
        const struct instruction *end = channel->waiting[channel->first];
        bool sends = opcode_table[end->op].action == ACTION_SEND;
        return verify_refuse(end, programs->instances[sends ? route->from : route->to].worker, error,
                             "its transfer has only one end");
    }
    return PS_OK;
}

enum ps_status ps_programs_verify(const struct ps_programs *programs, struct ps_error *error) {
    struct account account = {0};
    TRY(verify_each(programs, error));
    enum ps_status status = account_start(programs, &account, error);
    if (status == PS_OK) status = run_all(&account, account.interpreters, error);
    if (status == PS_OK) status = check_complete(&account, error);
    account_free(&account);
    return status;
}

enum ps_status programs_staleness(const struct ps_programs *programs, int stage, int *out, struct ps_error *error) {
    struct version_table versions;
    TRY(version_table_count(programs, &versions, error));
    *out = version_table_staleness(&versions, stage);
    version_table_free(&versions);
    return PS_OK;
}
