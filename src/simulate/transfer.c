/*
 * Transfers of blocks: posted by SEND and RECEIVE, matched by micro-batch, carried by links, settled at their end.
 */
#include <assert.h>

#include "base/number.h"
#include "simulate/engine.h"

enum side { SENDER, RECEIVER };

static int block_index(const struct engine *engine, int worker, int stage, enum block_kind kind, int slot) {
    const struct engine_instance *instance = engine_instance_of(engine, worker, stage);
    assert(slot >= 0 && slot < instance->slots[kind]);
    return instance->first_block[kind] + slot;
}

/* Waiting time: before the other end's post it counts as dependency, after it as communication. */
static void account_wait(struct engine *engine, int index, int64_t other_end_came) {
    struct engine_worker *worker = &engine->workers[index];
    int64_t since = worker->waiting_since, met = other_end_came > since ? other_end_came : since;
    worker->communication += engine->now - met;
    if (!engine_fills_or_drains(engine, index)) worker->dependency += met - since;
    worker->waiting = NOBODY;
}

/* The worker, or the lane of it, that waits for the block; NOBODY. */
static int waiter(const struct engine *engine, int index) {
    int first = engine->blocks[index].worker * engine->lanes;
    for (int worker = first; worker < first + engine->lanes; worker++)
        if (engine->workers[worker].waiting == index) return worker;
    return NOBODY;
}

static void settle(struct engine *engine, int index) {
    struct engine_block *block = &engine->blocks[index];
    int worker = waiter(engine, index);
    block->moving = false;
    if (worker == NOBODY) return;
    account_wait(engine, worker, engine->blocks[block->partner].posted);
    event_push(&engine->heap, engine->now, worker);
}

bool transfer_settled(void *context, int worker, int stage, enum block_kind kind, int slot) {
    const struct engine *engine = context;
    const struct engine_instance *instance = engine_instance_of(engine, worker, stage);
    if (kind == BLOCK_WEIGHT_GRADIENTS) return instance->sum_block == NOBODY || !engine->blocks[instance->sum_block].moving;
    if (instance->slots[kind] == 0) return true; /* of this kind nothing of the instance is transferred */
    return !engine->blocks[block_index(engine, worker, stage, kind, slot)].moving;
}

/* Blocks the worker for a transfer, from now on. */
static void occupy(struct engine *engine, int index, int64_t duration) {
    struct engine_worker *worker = &engine->workers[index];
    worker->transferring = true;
    worker->communication += duration;
    event_push(&engine->heap, engine->now + duration, index);
}

/* Without overlap a receiver takes the block when it needs it and the sender has begun; other blocks have no partner here. */
static void receive_in_own_time(struct engine *engine, int index) {
    struct engine_block *block = &engine->blocks[index];
    int worker = waiter(engine, index);
    if (block->sum || block->partner == NOBODY || worker == NOBODY) return;
    account_wait(engine, worker, engine->now);
    block->moving = false;
    occupy(engine, worker, engine->channels[block->channel].duration);
}

static void record(struct engine *engine, const struct engine_block *sender, const struct engine_block *receiver, int64_t start,
                   int64_t end) {
    const struct engine_channel *channel = &engine->channels[sender->channel];
    const struct route *route = &engine->routes.list[sender->channel];
    if (!engine->recording) return;
    assert((size_t)engine->timeline.transfer_count < engine->timeline.transfer_capacity);
    engine->timeline.transfers[engine->timeline.transfer_count++] = (struct timeline_transfer){
        .from = sender->worker,
        .to = receiver->worker,
        .stage = engine->work->programs->instances[route->from].stage,
        .micro_batch = sender->micro_batch,
        .traffic = route->traffic,
        .bytes = channel->bytes,
        .start_s = engine_seconds(engine, start),
        .end_s = engine_seconds(engine, end),
    };
}

/* What one instance sends the next in all steps. */
static void record_sum(struct engine *engine, const struct instruction *instruction, const struct engine_pass *pass,
                       const struct engine_channel *channel, int64_t start) {
    if (!engine->recording) return;
    assert((size_t)engine->timeline.transfer_count < engine->timeline.transfer_capacity);
    engine->timeline.transfers[engine->timeline.transfer_count++] = (struct timeline_transfer){
        .from = channel->from,
        .to = channel->to,
        .stage = channel->stage,
        .micro_batch = instruction->micro_batch,
        .traffic = TRAFFIC_SUM,
        .bytes = pass->bytes,
        .start_s = engine_seconds(engine, start),
        .end_s = engine_seconds(engine, start + pass->duration),
    };
}

/* Both ends have posted now. The transfer of a streamed block began with the computation that made it, if the receiver and the
 * link were free. */
static void carry(struct engine *engine, int sender_index, int receiver_index) {
    struct engine_block *sender = &engine->blocks[sender_index], *receiver = &engine->blocks[receiver_index];
    struct engine_channel *channel = &engine->channels[sender->channel];
    const int *link = engine->pairs[sender->channel].link;
    channel->busy += channel->duration;
    for (int l = 0; l < 2; l++) engine->link_busy[link[l]] += channel->duration;
    sender->partner = receiver_index;
    receiver->partner = sender_index;
    if (!engine->work->cluster->overlap) {
        record(engine, sender, receiver, sender->posted, sender->posted + channel->duration);
        settle(engine, sender_index);
        receive_in_own_time(engine, receiver_index);
        return;
    }
    int64_t start = engine->now;
    if (engine->streaming) start = number_larger(sender->begun, receiver->posted);
    start = number_larger(start, engine_links_free(engine, sender->channel));
    const int64_t done = number_larger(start + channel->duration, engine->now);
    for (int l = 0; l < 2; l++) engine->link_free[link[l]] = done;
    record(engine, sender, receiver, start, done);
    if (done > engine->now)
        event_push(&engine->heap, done, engine->worker_count + receiver_index);
    else
        transfer_end(engine, receiver_index);
}

void transfer_end(struct engine *engine, int block) {
    settle(engine, block);
    if (!engine->blocks[block].sum) settle(engine, engine->blocks[block].partner);
}

/* Removes the other end of `block` from the list of pending posts; NOBODY if it has not been posted yet. */
static int take_match(struct engine *engine, int *list, int micro_batch) {
    for (int *link = list; *link != NOBODY; link = &engine->blocks[*link].next) {
        int index = *link;
        if (engine->blocks[index].micro_batch != micro_batch) continue;
        *link = engine->blocks[index].next;
        return index;
    }
    return NOBODY;
}

static void offer(struct engine *engine, int index, enum side side) {
    struct engine_block *block = &engine->blocks[index];
    struct engine_channel *channel = &engine->channels[block->channel];
    int other = take_match(engine, &channel->pending[side == SENDER ? RECEIVER : SENDER], block->micro_batch);
    if (other == NOBODY) {
        int *link = &channel->pending[side];
        while (*link != NOBODY) link = &engine->blocks[*link].next;
        *link = index;
    } else if (side == SENDER) {
        carry(engine, index, other);
    } else {
        carry(engine, other, index);
    }
}

/* One block of a send or a receive; returns how long its transfer takes. */
static int64_t move(struct engine *engine, int worker, const struct instruction *instruction, enum block_kind kind, int slot) {
    enum side side = opcode_table[instruction->op].action == ACTION_SEND ? SENDER : RECEIVER;
    int index = block_index(engine, worker, instruction->stage, kind, slot);
    struct engine_block *block = &engine->blocks[index];
    assert(!block->moving);
    block->moving = true;
    block->partner = block->next = NOBODY;
    block->micro_batch = instruction->micro_batch;
    block->posted = engine->now;
    block->begun = engine->workers[worker].started;
    block->channel = routes_of(&engine->routes, engine->work->programs, engine_owner(engine, worker), instruction, kind);
    assert(block->channel != NO_ROUTE);
    offer(engine, index, side);
    return engine->channels[block->channel].duration;
}

static void count_traffic(struct engine *engine, int worker, const struct instruction *instruction) {
    traffic_count_add(&engine->workers[worker].traffic, engine->work->programs, engine_owner(engine, worker), instruction,
                      &engine->work->costs[instruction->stage].size);
}

enum ps_status transfer_execute(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct engine *engine = context;
    (void)error;
    int64_t duration = 0;
    count_traffic(engine, worker, instruction);
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        if (instruction->block[kind] != NO_SLOT)
            duration += move(engine, worker, instruction, (enum block_kind)kind, instruction->block[kind]);
    if (instruction_moves_weights(instruction)) duration = move(engine, worker, instruction, BLOCK_WEIGHTS, instruction->slot);
    bool sends = opcode_table[instruction->op].action == ACTION_SEND;
    if (sends && !engine->work->cluster->overlap) occupy(engine, worker, duration);
    return PS_OK;
}

/* The sum of a reduce group is complete when its ring is done. */
static void end_sums(struct engine *engine, int stage, int64_t end, int last_block) {
    const struct ps_programs *programs = engine->work->programs;
    for (int instance = programs->first_instance[stage]; instance < programs->first_instance[stage + 1]; instance++) {
        int block = engine->instances[instance].sum_block;
        if (block == NOBODY) continue;
        engine->blocks[block].partner = last_block;
        if (end > engine->now)
            event_push(&engine->heap, end, engine->worker_count + block);
        else
            transfer_end(engine, block);
    }
}

/* Channels of the pass that share a link take turns: all of them together use it for the duration. */
static void start_pass(struct engine *engine, const struct engine_pass *pass, bool in_place,
                       const struct instruction *instruction, int64_t start) {
    for (int c = pass->channel; c < pass->channel + pass->instances; c++) {
        struct engine_channel *channel = &engine->channels[c];
        if (!in_place) channel->busy += pass->duration;
        for (int l = 0; l < 2 && !in_place; l++) {
            const int link = engine->pairs[c].link[l];
            const int64_t end = start + pass->duration;
            if (engine->link_free[link] >= end) continue;
            engine->link_busy[link] += pass->duration;
            engine->link_free[link] = end;
        }
        record_sum(engine, instruction, pass, channel, start);
    }
}

/* All have posted: the sum starts on all links of its rings at once when these have finished earlier transfers. */
static void add_up(struct engine *engine, const struct sum_group *group, const struct instruction *instruction,
                   int last_block) {
    struct engine_ring *ring = &engine->rings[group->number];
    int64_t start = engine->now;
    for (int p = 0; p < ring->pass_count && !ring->in_place; p++)
        for (int c = ring->pass[p].channel; c < ring->pass[p].channel + ring->pass[p].instances; c++)
            start = number_larger(start, engine_links_free(engine, c));
    for (int p = 0; p < ring->pass_count; p++)
        start_pass(engine, &ring->pass[p], ring->in_place, instruction, start + ring->pass[p].begins);
    for (int s = 0; s < group->stage_count; s++) end_sums(engine, group->stages[s], start + ring->duration, last_block);
}

enum ps_status transfer_reduce(void *context, int worker, const struct instruction *instruction, struct ps_error *error) {
    struct engine *engine = context;
    (void)error;
    struct sum_group group = programs_sum_group(engine->work->programs, instruction->stage);
    struct engine_ring *ring = &engine->rings[group.number];
    int index = engine_instance_of(engine, worker, instruction->stage)->sum_block;
    struct engine_block *block = &engine->blocks[index];
    assert(index != NOBODY && !block->moving);
    count_traffic(engine, worker, instruction);
    block->moving = true;
    block->partner = NOBODY;
    block->posted = engine->now;
    if (++ring->pending < group.size) return PS_OK;
    ring->pending = 0;
    add_up(engine, &group, instruction, index);
    if (ring->in_place && ring->duration > 0) occupy(engine, worker, ring->duration);
    return PS_OK;
}

void transfer_awaited(struct engine *engine, int worker, int block) {
    engine->workers[worker].waiting = block;
    engine->workers[worker].waiting_since = engine->now;
    if (!engine->work->cluster->overlap) receive_in_own_time(engine, block);
}
