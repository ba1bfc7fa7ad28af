/*
 * The verifier: proof that programs are right, before the first batch.
 *
 * First each instruction alone (verify_static.c). Then all programs together, run through the interpreter in an environment
 * that keeps account instead of computing: what each weight slot and block holds. A transfer takes place only when both ends
 * have come (rendezvous), so a program that passes cannot deadlock however little a transport buffers: the programs are a
 * deterministic network of processes, whose progress does not depend on the order of steps. Which weights a computation must
 * read is asked of the policy, with versions counted anew.
 */
#include "program/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/interpreter.h"
#include "program/lower.h"
#include "program/routes.h"
#include "program/verify_static.h"

enum { EMPTY = -1 };

struct weight_content {
    int version, ahead; /* version EMPTY: nothing */
    bool travels;
};

struct block_content {
    int micro_batch; /* that it holds, or will hold once it has arrived; EMPTY */
    bool travels;
};

/* The ends of transfers on one route that wait for their other end; all sends or all receives. */
struct channel {
    const struct instruction **waiting; /* a micro-batch is sent once at most, so there is room for all */
    int first, count, capacity;
};

struct verified_part {
    struct weight_content *weights;
    struct block_content *blocks[BLOCK_KINDS];
    int forwards;         /* done */
    bool *forward;        /* by micro-batch: done */
    int newest;           /* updates done */
    int backwards;        /* done */
    int gradients;        /* backwards since the last update */
    bool summing, summed; /* those of the next update: offered to the other replicas, added up */
};

struct verifier {
    const struct ps_programs *programs;
    const struct weight_policy *policy;
    bool flush;
    struct version_table versions;
    struct verified_part *parts;
    struct routes routes;
    struct channel *channels; /* per route */
    int *offered;             /* per group: parts that have offered their gradients */
};

static struct verified_part *part_of(const struct verifier *verifier, int worker, const struct instruction *instruction) {
    return &verifier->parts[programs_part(verifier->programs, worker, instruction->stage)];
}

/* ------------------------------------------------------------- what is read */

/* What the policy says that a computation reads, or that is to be sent for one; past the last micro-batch the newest. */
static struct reading wanted_by(const struct verifier *verifier, const struct instruction *instruction) {
    if (instruction->micro_batch == verifier->versions.micro_batches)
        return (struct reading){.version = programs_updates(verifier->programs, instruction->stage)};
    struct reading_context context = version_table_context(&verifier->versions, verifier->programs, instruction->stage,
                                                           instruction->micro_batch, verifier->flush);
    bool forward = instruction->op == OP_F || instruction->op == OP_SW;
    return forward ? verifier->policy->forward(&context) : verifier->policy->backward(&context);
}

static const char *check_flush(const struct verifier *verifier, const struct instruction *instruction) {
    size_t cell = (size_t)instruction->stage * (size_t)verifier->versions.micro_batches + (size_t)instruction->micro_batch;
    if (!verifier->policy->needs_flush || instruction->op == OP_SW) return NULL;
    if (verifier->versions.forward[cell] == verifier->versions.backward[cell]) return NULL;
    return "an update falls between this micro-batch's forward and its backward";
}

static const char *check_reading(const struct verifier *verifier, int worker, const struct instruction *instruction) {
    if (verifier->programs->evaluation) return instruction->slot == 0 ? NULL : "does not read the newest weights";
    struct reading wanted = wanted_by(verifier, instruction);
    const struct weight_content *content = &part_of(verifier, worker, instruction)->weights[instruction->slot];
    const char *reason = check_flush(verifier, instruction);
    if (reason) return reason;
    if (content->version == EMPTY) return "reads a weight slot that nothing has filled";
    if (content->version != wanted.version) return "reads weights of another version than its policy says";
    return content->ahead == wanted.ahead ? NULL : "reads weights predicted for another number of updates than its policy says";
}

/* The block holds this micro-batch, and it has arrived. */
static const char *check_holds(const struct verifier *verifier, int worker, const struct instruction *instruction,
                               enum block_kind kind) {
    static const char *const reasons[BLOCK_KINDS] = {
        [BLOCK_STASH] = "its stash block does not hold this micro-batch",
        [BLOCK_DELTA] = "its delta block does not hold this micro-batch",
        [BLOCK_INPUT] = "its input block does not hold this micro-batch",
        [BLOCK_OUTPUT] = "its output block does not hold this micro-batch",
        [BLOCK_OUTPUT_GRADIENT] = "its output-gradient block does not hold this micro-batch",
        [BLOCK_INPUT_GRADIENT] = "its input-gradient block does not hold this micro-batch"};
    int slot = instruction->block[kind];
    if (slot == NO_SLOT) return NULL;
    const struct block_content *block = &part_of(verifier, worker, instruction)->blocks[kind][slot];
    return block->micro_batch == instruction->micro_batch && !block->travels ? NULL : reasons[kind];
}

static const char *check_empty(const struct verifier *verifier, int worker, const struct instruction *instruction,
                               enum block_kind kind) {
    static const char *const reasons[BLOCK_KINDS] = {[BLOCK_STASH] = "overwrites a stash that is still needed",
                                                     [BLOCK_DELTA] = "overwrites deltas that are still needed",
                                                     [BLOCK_INPUT] = "overwrites an input that is still needed",
                                                     [BLOCK_OUTPUT] = "overwrites an output that was not sent",
                                                     [BLOCK_OUTPUT_GRADIENT] =
                                                         "overwrites an output gradient that is still needed",
                                                     [BLOCK_INPUT_GRADIENT] = "overwrites an input gradient that was not sent"};
    int slot = instruction->block[kind];
    if (slot == NO_SLOT) return NULL;
    const struct block_content *block = &part_of(verifier, worker, instruction)->blocks[kind][slot];
    return block->micro_batch == EMPTY && !block->travels ? NULL : reasons[kind];
}

static void put(struct verifier *verifier, int worker, const struct instruction *instruction, enum block_kind kind,
                int micro_batch) {
    int slot = instruction->block[kind];
    if (slot != NO_SLOT) part_of(verifier, worker, instruction)->blocks[kind][slot].micro_batch = micro_batch;
}

/* ------------------------------------------------------------- the environment */

static bool settled(void *context, int worker, int stage, enum block_kind kind, int slot) {
    const struct verifier *verifier = context;
    const struct verified_part *part = &verifier->parts[programs_part(verifier->programs, worker, stage)];
    if (kind == BLOCK_WEIGHT_GRADIENTS) return !part->summing;
    return kind == BLOCK_WEIGHTS ? !part->weights[slot].travels : !part->blocks[kind][slot].travels;
}

static enum ps_status verdict(const char *reason, int worker, const struct instruction *instruction, struct ps_error *error) {
    return reason ? verify_refuse(instruction, worker, error, reason) : PS_OK;
}

static enum ps_status forward(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    struct verified_part *part = part_of(verifier, worker, instruction);
    bool evaluation = verifier->programs->evaluation;
    bool keeps_stash = !evaluation && !verifier->programs->recompute[instruction->stage];
    const char *reason = part->forward[instruction->micro_batch] ? "runs a second time" : NULL;
    int number = programs_part(verifier->programs, worker, instruction->stage);
    if (!reason && !programs_takes(verifier->programs, number, instruction->micro_batch)) reason = "belongs to another replica";
    if (!reason) reason = (instruction->stage == 0 ? check_empty : check_holds)(verifier, worker, instruction, BLOCK_INPUT);
    if (!reason) reason = check_empty(verifier, worker, instruction, BLOCK_STASH);
    if (!reason) reason = check_empty(verifier, worker, instruction, BLOCK_OUTPUT);
    if (!reason) reason = check_reading(verifier, worker, instruction);
    part->forward[instruction->micro_batch] = true;
    part->forwards++;
    put(verifier, worker, instruction, BLOCK_INPUT, evaluation ? EMPTY : instruction->micro_batch);
    if (keeps_stash) put(verifier, worker, instruction, BLOCK_STASH, instruction->micro_batch);
    put(verifier, worker, instruction, BLOCK_OUTPUT, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

/* Gradients that the part adds up for one update; the micro-batch whose gradient comes next. */
static int share_of(const struct verifier *verifier, int worker, const struct instruction *instruction, int update) {
    return programs_share(verifier->programs, programs_part(verifier->programs, worker, instruction->stage), update);
}

static int next_gradient(const struct verifier *verifier, int worker, const struct instruction *instruction) {
    int part = programs_part(verifier->programs, worker, instruction->stage);
    return programs_nth(verifier->programs, part, verifier->parts[part].backwards);
}

/* The half of a backward that turns the output's gradient into the input's. Blocks that the instruction does not name pass. */
static const char *pass_gradient(struct verifier *verifier, int worker, const struct instruction *instruction) {
    const char *reason = check_holds(verifier, worker, instruction, BLOCK_OUTPUT_GRADIENT);
    if (!reason) reason = check_empty(verifier, worker, instruction, BLOCK_INPUT_GRADIENT);
    put(verifier, worker, instruction, BLOCK_OUTPUT_GRADIENT, EMPTY);
    put(verifier, worker, instruction, BLOCK_INPUT_GRADIENT, instruction->micro_batch);
    return reason;
}

/* The half that adds to the gradients of the weights, after which nothing of the micro-batch is needed any more. */
static const char *add_gradients(struct verifier *verifier, int worker, const struct instruction *instruction) {
    struct verified_part *part = part_of(verifier, worker, instruction);
    bool in_order = !part->summing && !part->summed &&
                    part->gradients < share_of(verifier, worker, instruction, part->newest) &&
                    instruction->micro_batch == next_gradient(verifier, worker, instruction);
    part->gradients++;
    part->backwards++;
    put(verifier, worker, instruction, BLOCK_STASH, EMPTY);
    put(verifier, worker, instruction, BLOCK_INPUT, EMPTY);
    return in_order ? NULL : "gradients are not added in the order of the micro-batches, one mini-batch between updates";
}

static const char *check_kept(const struct verifier *verifier, int worker, const struct instruction *instruction) {
    const char *reason = check_holds(verifier, worker, instruction, BLOCK_STASH);
    if (!reason) reason = check_holds(verifier, worker, instruction, BLOCK_INPUT);
    return reason ? reason : check_reading(verifier, worker, instruction);
}

static enum ps_status backward(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    const char *reason = check_kept(verifier, worker, instruction);
    if (!reason) reason = pass_gradient(verifier, worker, instruction);
    if (!reason) reason = add_gradients(verifier, worker, instruction);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status backward_input(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    const char *reason = check_kept(verifier, worker, instruction);
    if (!reason) reason = check_empty(verifier, worker, instruction, BLOCK_DELTA);
    if (!reason) reason = pass_gradient(verifier, worker, instruction);
    put(verifier, worker, instruction, BLOCK_DELTA, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status backward_weight(void *context, int worker, const struct instruction *instruction,
                                      struct ps_error *error) {
    struct verifier *verifier = context;
    const char *reason = check_holds(verifier, worker, instruction, BLOCK_DELTA);
    if (!reason) reason = check_kept(verifier, worker, instruction);
    if (!reason) reason = add_gradients(verifier, worker, instruction);
    put(verifier, worker, instruction, BLOCK_DELTA, EMPTY);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status recompute(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    const char *reason = verifier->programs->recompute[instruction->stage] ? NULL : "the stage keeps its stash";
    if (!reason) reason = check_holds(verifier, worker, instruction, BLOCK_INPUT);
    if (!reason) reason = check_empty(verifier, worker, instruction, BLOCK_STASH);
    if (!reason) reason = check_empty(verifier, worker, instruction, BLOCK_OUTPUT);
    if (!reason) reason = check_reading(verifier, worker, instruction);
    put(verifier, worker, instruction, BLOCK_STASH, instruction->micro_batch);
    return verdict(reason, worker, instruction, error);
}

static enum ps_status update(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    struct verified_part *part = part_of(verifier, worker, instruction);
    const struct weight_content *from = &part->weights[instruction->slot];
    const char *reason = NULL;
    if (instruction->micro_batch != part->newest)
        reason = "updates are not in the order of the mini-batches";
    else if (part->gradients != share_of(verifier, worker, instruction, part->newest))
        reason = "the mini-batch's gradients are not complete";
    else if (!part->summed && programs_sums(verifier->programs, instruction->stage))
        reason = programs_replicas(verifier->programs, instruction->stage) > 1
                     ? "the gradients of the replicas are not added up"
                     : "the gradients of what two stages share are not added up";
    else if (from->version != part->newest || from->ahead != 0)
        reason = "updates other weights than the newest";
    part->newest++;
    part->gradients = 0;
    part->summed = false;
    part->weights[instruction->to] = (struct weight_content){.version = part->newest};
    if (instruction->predict_to != NO_SLOT)
        part->weights[instruction->predict_to] = (struct weight_content){.version = part->newest, .ahead = instruction->ahead};
    return verdict(reason, worker, instruction, error);
}

static void end_sum(struct verifier *verifier, int stage) {
    const struct ps_programs *programs = verifier->programs;
    for (int p = programs->first_part[stage]; p < programs->first_part[stage + 1]; p++) {
        if (!programs->parts[p].backward) continue;
        verifier->parts[p].summing = false;
        verifier->parts[p].summed = true;
    }
}

/* The sum takes place when all parts of the group have offered their gradients of the same update. */
static enum ps_status reduce(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    const struct ps_programs *programs = verifier->programs;
    struct verified_part *part = part_of(verifier, worker, instruction);
    struct sum_group group = programs_sum_group(programs, instruction->stage);
    const char *reason = NULL;
    if (group.size == 1)
        reason = "the stage has no replicas, and shares no parameter with another";
    else if (part->summing || part->summed)
        reason = "the gradients are added up a second time";
    else if (instruction->micro_batch != part->newest)
        reason = "sums are not in the order of the updates";
    else if (part->gradients != share_of(verifier, worker, instruction, part->newest))
        reason = "the mini-batch's gradients are not complete";
    part->summing = true;
    if (++verifier->offered[group.number] == group.size) {
        verifier->offered[group.number] = 0;
        for (int s = 0; s < group.stage_count; s++) end_sum(verifier, group.stages[s]);
    }
    return verdict(reason, worker, instruction, error);
}

static enum ps_status predict(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct verifier *verifier = context;
    struct verified_part *part = part_of(verifier, worker, instruction);
    const struct weight_content *from = &part->weights[instruction->slot];
    const char *reason = from->version == EMPTY || from->ahead != 0 ? "predicts from a slot that holds no version" : NULL;
    part->weights[instruction->predict_to] = (struct weight_content){.version = from->version, .ahead = instruction->ahead};
    return verdict(reason, worker, instruction, error);
}

/* ----------------------------------------------------------------- transfers */

/* The slot of a send or a receive that is of this kind; NULL: it moves none. */
static struct block_content *block_of(const struct verifier *verifier, int worker, const struct instruction *instruction,
                                      enum block_kind kind) {
    int slot = instruction->block[kind];
    return slot == NO_SLOT ? NULL : &part_of(verifier, worker, instruction)->blocks[kind][slot];
}

static enum ps_status check_same(int worker, const struct instruction *one, const struct instruction *other,
                                 struct ps_error *error) {
    char text[96], reason[160];
    if (one->micro_batch == other->micro_batch) return PS_OK;
    snprintf(reason, sizeof reason, "meets %s at the other end, which is of another micro-batch",
             instruction_text(other, text));
    return verify_refuse(one, worker, error, reason);
}

/* Puts an end of a transfer into the route's queue, or takes the other end out of it into *other. */
static enum ps_status queue(struct verifier *verifier, int worker, const struct instruction *instruction, enum block_kind kind,
                            int *at, const struct instruction **other, struct ps_error *error) {
    *at = routes_of(&verifier->routes, verifier->programs, worker, instruction, kind);
    *other = NULL;
    if (*at == NO_ROUTE)
        return verify_refuse(instruction, worker, error, "names a worker that never works on the same micro-batch");
    struct channel *channel = &verifier->channels[*at];
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

/* One end of the transfer of a block has come; when both have, it is handed over. */
static enum ps_status offer(struct verifier *verifier, int worker, const struct instruction *instruction, enum block_kind kind,
                            struct ps_error *error) {
    struct block_content *own = block_of(verifier, worker, instruction, kind);
    const struct instruction *other;
    int route;
    if (!own) return PS_OK;
    own->travels = true;
    TRY(queue(verifier, worker, instruction, kind, &route, &other, error));
    if (!other) return PS_OK;
    bool sends = opcode_table[instruction->op].action == ACTION_SEND;
    const struct traffic_info *traffic = &traffic_table[verifier->routes.list[route].traffic];
    struct block_content *their = block_of(verifier, instruction->peer, other, sends ? traffic->received : traffic->sent);
    (sends ? own : their)->micro_batch = EMPTY;
    own->travels = their->travels = false;
    return PS_OK;
}

/* The same of weights: the receiver's slot then holds what the sender's holds. */
static enum ps_status offer_weights(struct verifier *verifier, int worker, const struct instruction *instruction,
                                    struct ps_error *error) {
    struct weight_content *own = &part_of(verifier, worker, instruction)->weights[instruction->slot];
    const struct instruction *other;
    int route;
    own->travels = true;
    TRY(queue(verifier, worker, instruction, BLOCK_WEIGHTS, &route, &other, error));
    if (!other) return PS_OK;
    bool sends = opcode_table[instruction->op].action == ACTION_SEND;
    struct weight_content *their = &part_of(verifier, instruction->peer, other)->weights[other->slot];
    *(sends ? their : own) = *(sends ? own : their);
    *(sends ? own : their) = (struct weight_content){.version = EMPTY};
    own->travels = their->travels = false;
    return PS_OK;
}

static bool moves_weights(const struct instruction *instruction) {
    return instruction->op == OP_SW || instruction->op == OP_RW;
}

static enum ps_status send(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    if (moves_weights(instruction)) {
        TRY(verdict(check_reading(context, worker, instruction), worker, instruction, error));
        return offer_weights(context, worker, instruction, error);
    }
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        TRY(verdict(check_holds(context, worker, instruction, (enum block_kind)kind), worker, instruction, error));
        TRY(offer(context, worker, instruction, (enum block_kind)kind, error));
    }
    return PS_OK;
}

static enum ps_status receive(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    if (moves_weights(instruction)) return offer_weights(context, worker, instruction, error);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        TRY(verdict(check_empty(context, worker, instruction, (enum block_kind)kind), worker, instruction, error));
        put(context, worker, instruction, (enum block_kind)kind, instruction->micro_batch);
        TRY(offer(context, worker, instruction, (enum block_kind)kind, error));
    }
    return PS_OK;
}

static const struct environment verifying = {
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
                [ACTION_REDUCE] = reduce},
};

/* ------------------------------------------------------------------- running */

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

/* Steps all workers in turn until all are finished. */
static enum ps_status run_all(struct verifier *verifier, struct interpreter *interpreters, struct ps_error *error) {
    const struct ps_programs *programs = verifier->programs;
    struct environment environment = verifying;
    environment.context = verifier;
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

/* An instruction that there should be. */
static enum ps_status missing(const struct ps_programs *programs, int part, enum opcode op, int micro_batch, const char *reason,
                              struct ps_error *error) {
    return error_set(error, PS_BAD_INPUT, "worker %d: %d%s%d is missing: %s", programs->parts[part].worker,
                     programs->parts[part].stage, opcode_table[op].text, micro_batch, reason);
}

static enum ps_status check_forwards(const struct verifier *verifier, int part, struct ps_error *error) {
    const struct ps_programs *programs = verifier->programs;
    for (int k = 0; programs->parts[part].forward && k < programs_micro_batches(programs); k++)
        if (programs_takes(programs, part, k) && !verifier->parts[part].forward[k])
            return missing(programs, part, OP_F, k, "the micro-batch has no forward here", error);
    return PS_OK;
}

static enum ps_status check_updates(const struct verifier *verifier, int number, struct ps_error *error) {
    const struct ps_programs *programs = verifier->programs;
    const struct verified_part *part = &verifier->parts[number];
    int s = programs->parts[number].stage, worker = programs->parts[number].worker, updates = programs_updates(programs, s);
    if (programs->evaluation) return PS_OK;
    if (programs->parts[number].backward && part->newest != updates)
        return missing(programs, number, OP_U, part->newest, "the stage makes fewer updates than it has mini-batches", error);
    for (int slot = 0; slot < programs->slots[number].delta; slot++)
        if (part->blocks[BLOCK_DELTA][slot].micro_batch != EMPTY)
            return missing(programs, number, OP_W, part->blocks[BLOCK_DELTA][slot].micro_batch,
                           "the gradient of the weights is never made", error);
    bool handed = programs->parts[number].forward && !programs->parts[number].backward;
    if (handed && (part->weights[0].version != updates || part->weights[0].ahead != 0))
        return error_set(error, PS_BAD_INPUT, "stage %d: worker %d does not end with the newest weights: %dRW%d is missing", s,
                         worker, s, programs_micro_batches(programs));
    return PS_OK;
}

static enum ps_status check_complete(const struct verifier *verifier, struct ps_error *error) {
    const struct ps_programs *programs = verifier->programs;
    for (int part = 0; part < programs->part_count; part++) {
        TRY(check_forwards(verifier, part, error));
        TRY(check_updates(verifier, part, error));
    }
    for (int r = 0; r < verifier->routes.count; r++) {
        const struct channel *channel = &verifier->channels[r];
        const struct route *route = &verifier->routes.list[r];
        if (channel->first == channel->count) continue;
        const struct instruction *end = channel->waiting[channel->first];
        bool sends = opcode_table[end->op].action == ACTION_SEND;
        return verify_refuse(end, programs->parts[sends ? route->from : route->to].worker, error,
                             "its transfer has only one end");
    }
    return PS_OK;
}

/* ----------------------------------------------------------------- accounting */

static void part_free(struct verified_part *part) {
    for (int kind = 0; kind < BLOCK_KINDS; kind++) free(part->blocks[kind]);
    free(part->weights);
    free(part->forward);
}

static bool part_start(struct verified_part *part, const struct stage_slots *slots, int micro_batches) {
    bool ok = true;
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        int count = stage_slots_of(slots, (enum block_kind)kind);
        part->blocks[kind] = malloc(((size_t)count + 1) * sizeof *part->blocks[kind]);
        for (int slot = 0; part->blocks[kind] && slot < count; slot++)
            part->blocks[kind][slot] = (struct block_content){.micro_batch = EMPTY};
        ok = ok && part->blocks[kind];
    }
    part->weights = malloc(((size_t)slots->weights + 1) * sizeof *part->weights);
    for (int slot = 0; part->weights && slot < slots->weights; slot++)
        part->weights[slot] = (struct weight_content){.version = slot == 0 ? 0 : EMPTY};
    part->forward = calloc((size_t)micro_batches, sizeof *part->forward);
    return ok && part->weights && part->forward;
}

static bool start(struct verifier *verifier) {
    const struct ps_programs *programs = verifier->programs;
    int micro_batches = programs_micro_batches(programs);
    verifier->parts = calloc((size_t)programs->part_count, sizeof *verifier->parts);
    verifier->channels = calloc((size_t)verifier->routes.count + 1, sizeof *verifier->channels);
    verifier->offered = calloc((size_t)programs->stages, sizeof *verifier->offered);
    bool ok = verifier->parts && verifier->channels && verifier->offered;
    for (int part = 0; verifier->parts && part < programs->part_count; part++)
        ok = part_start(&verifier->parts[part], &programs->slots[part], micro_batches) && ok;
    for (int route = 0; verifier->channels && route < verifier->routes.count; route++) {
        struct channel *channel = &verifier->channels[route];
        channel->capacity = micro_batches + 1;
        channel->waiting = malloc((size_t)channel->capacity * sizeof *channel->waiting);
        ok = ok && channel->waiting;
    }
    return ok;
}

static void verifier_free(struct verifier *verifier) {
    for (int part = 0; verifier->parts && part < verifier->programs->part_count; part++) part_free(&verifier->parts[part]);
    for (int route = 0; verifier->channels && route < verifier->routes.count; route++) free(verifier->channels[route].waiting);
    free(verifier->parts);
    free(verifier->channels);
    free(verifier->offered);
    routes_free(&verifier->routes);
    version_table_free(&verifier->versions);
}

static enum ps_status verify_together(struct verifier *verifier, struct ps_error *error) {
    const struct ps_programs *programs = verifier->programs;
    struct interpreter *interpreters = calloc((size_t)programs->workers, sizeof *interpreters);
    bool ok = interpreters && start(verifier);
    enum ps_status status = ok ? PS_OK : error_memory(error, "verifier", sizeof *verifier->parts);
    if (status == PS_OK) status = run_all(verifier, interpreters, error);
    if (status == PS_OK) status = check_complete(verifier, error);
    free(interpreters);
    return status;
}

enum ps_status ps_programs_verify(const struct ps_programs *programs, struct ps_error *error) {
    struct verifier verifier = {.programs = programs};
    const struct schedule *schedule;
    TRY(schedule_find(programs->schedule, &schedule, error));
    TRY(policy_find(programs->policy, &verifier.policy, error));
    verifier.flush = schedule->flush;
    TRY(verify_each(programs, error));
    TRY(routes_create(programs, &verifier.routes, error));
    enum ps_status status = version_table_count(programs, &verifier.versions, error);
    if (status == PS_OK) status = verify_together(&verifier, error);
    verifier_free(&verifier);
    return status;
}

enum ps_status programs_staleness(const struct ps_programs *programs, int stage, int *out, struct ps_error *error) {
    struct version_table versions;
    TRY(version_table_count(programs, &versions, error));
    *out = version_table_staleness(&versions, stage);
    version_table_free(&versions);
    return PS_OK;
}
