/*
 * What each instruction does to the account, and what must hold before it. A transfer takes place only when both ends have come
 * (rendezvous); which weights a computation must read is asked of the policy, with versions counted anew.
 */
#include "program/verify_account.h"

#include <stdio.h>

#include "program/verify_static.h"

static struct instance_account *instance_of(const struct account *account, int worker, const struct instruction *instruction) {
    return &account->instances[programs_instance(account->programs, worker, instruction->stage)];
}

/* ------------------------------------------------------------- what is read */

/* What the policy says that a computation reads, or that is to be sent for one; past the last micro-batch the newest. */
static struct reading wanted_by(const struct account *account, const struct instruction *instruction) {
    if (instruction->micro_batch == account->versions.micro_batches)
        return (struct reading){.version = programs_updates(account->programs, instruction->stage)};
    struct reading_context context = version_table_context(&account->versions, account->programs, instruction->stage,
                                                           instruction->micro_batch, account->flush);
    bool forward = instruction->op == OP_F || instruction->op == OP_SW;
    return forward ? account->policy->forward(&context) : account->policy->backward(&context);
}

static const char *check_flush(const struct account *account, const struct instruction *instruction) {
    size_t cell = (size_t)instruction->stage * (size_t)account->versions.micro_batches + (size_t)instruction->micro_batch;
    if (!account->policy->needs_flush || instruction->op == OP_SW) return NULL;
    if (account->versions.forward[cell] == account->versions.backward[cell]) return NULL;
    return "an update falls between this micro-batch's forward and its backward";
}

static const char *check_reading(const struct account *account, int worker, const struct instruction *instruction) {
    if (account->programs->evaluation) return instruction->slot == 0 ? NULL : "does not read the newest weights";
    struct reading wanted = wanted_by(account, instruction);
    const struct weight_content *content = &instance_of(account, worker, instruction)->weights[instruction->slot];
    const char *reason = check_flush(account, instruction);
    if (reason) return reason;
    if (content->version == ACCOUNT_EMPTY) return "reads a weight slot that nothing has filled";
    if (content->version != wanted.version) return "reads weights of another version than its policy says";
    return content->ahead == wanted.ahead ? NULL : "reads weights predicted for another number of updates than its policy says";
}

/* The block holds this micro-batch, and it has arrived. */
static const char *check_holds(const struct account *account, int worker, const struct instruction *instruction,
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
    const struct block_content *block = &instance_of(account, worker, instruction)->blocks[kind][slot];
    return block->micro_batch == instruction->micro_batch && !block->travels ? NULL : reasons[kind];
}

static const char *check_empty(const struct account *account, int worker, const struct instruction *instruction,
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

/* Gradients that the instance adds up for one update; the micro-batch whose gradient comes next. */
static int share_of(const struct account *account, int worker, const struct instruction *instruction, int update) {
    return programs_share(account->programs, programs_instance(account->programs, worker, instruction->stage), update);
}

static int next_gradient(const struct account *account, int worker, const struct instruction *instruction) {
    int instance = programs_instance(account->programs, worker, instruction->stage);
    return programs_nth(account->programs, instance, account->instances[instance].backwards);
}

/* The half of a backward that turns the output's gradient into the input's. Blocks that the instruction does not name pass. */
static const char *pass_gradient(struct account *account, int worker, const struct instruction *instruction) {
    const char *reason = check_holds(account, worker, instruction, BLOCK_OUTPUT_GRADIENT);
    if (!reason) reason = check_empty(account, worker, instruction, BLOCK_INPUT_GRADIENT);
    put(account, worker, instruction, BLOCK_OUTPUT_GRADIENT, ACCOUNT_EMPTY);
    put(account, worker, instruction, BLOCK_INPUT_GRADIENT, instruction->micro_batch);
    return reason;
}

/* The half that adds to the gradients of the weights, after which nothing of the micro-batch is needed any more. */
static const char *add_gradients(struct account *account, int worker, const struct instruction *instruction) {
    struct instance_account *instance = instance_of(account, worker, instruction);
    bool in_order = !instance->summing && !instance->summed &&
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
                     : "the gradients of what two stages share are not added up";
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

/* The sum takes place when all instances of the group have offered their gradients of the same update. */
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
    instance->summing = true;
    if (++account->offered[group.number] == group.size) {
        account->offered[group.number] = 0;
        for (int s = 0; s < group.stage_count; s++) end_sum(account, group.stages[s]);
    }
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

/* ----------------------------------------------------------------- transfers */

/* The slot of a send or a receive that is of this kind; NULL: it moves none. */
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

/* Puts an end of a transfer into the route's queue, or takes the other end out of it into *other. */
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

/* One end of the transfer of a block has come; when both have, it is handed over. */
static enum ps_status offer(struct account *account, int worker, const struct instruction *instruction, enum block_kind kind,
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

/* The same of weights: the receiver's slot then holds what the sender's holds. */
static enum ps_status offer_weights(struct account *account, int worker, const struct instruction *instruction,
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
        return offer_weights(context, worker, instruction, error);
    }
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        TRY(verdict(check_holds(context, worker, instruction, (enum block_kind)kind), worker, instruction, error));
        TRY(offer(context, worker, instruction, (enum block_kind)kind, error));
    }
    return PS_OK;
}

static enum ps_status receive(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    if (instruction_moves_weights(instruction)) return offer_weights(context, worker, instruction, error);
    for (int kind = 0; kind < BLOCK_KINDS; kind++) {
        TRY(verdict(check_empty(context, worker, instruction, (enum block_kind)kind), worker, instruction, error));
        put(context, worker, instruction, (enum block_kind)kind, instruction->micro_batch);
        TRY(offer(context, worker, instruction, (enum block_kind)kind, error));
    }
    return PS_OK;
}

struct environment account_environment(struct account *account) {
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
                    [ACTION_REDUCE] = reduce},
    };
}
