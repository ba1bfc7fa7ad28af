/*
 * Workers with two lanes (BaPipe's FBP): forwards and backwards run concurrently on one device. Here each lane is a worker of
 * its own, whose program is the instructions of its lane: forwards and transfers of activations, or all others.
 *
 * An instruction waits for the last earlier instruction of the other lane that touches one of its blocks or updates the weights
 * that it reads: so a forward waits for the backward that frees its stash, and a backward for its forward. No other order
 * between the lanes is enforced.
 *
 * A lane that computes alone has the whole device. Two share it in proportion to the time that each computation takes alone, so
 * that a forward and a backward of F and B that begin together end together, F + B later.
 */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "simulate/engine.h"

static int lane_of(const struct instruction *instruction) {
    bool forward = instruction->op == OP_F || instruction->op == OP_SA || instruction->op == OP_RA ||
                   instruction->op == OP_EA || instruction->op == OP_DA;
    return forward ? LANE_FORWARD : LANE_BACKWARD;
}

static int other_lane(int worker) { return worker ^ 1; }

/* ---------------------------------------------------------------- programs */

static bool writes_weights(const struct instruction *instruction) {
    enum action action = opcode_table[instruction->op].action;
    return action == ACTION_UPDATE || action == ACTION_PREDICT;
}

/* Do they touch the same thing? */
static bool depends(const struct instruction *one, const struct instruction *other) {
    if (one->stage != other->stage) return false;
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        if (one->block[kind] != NO_SLOT && one->block[kind] == other->block[kind]) return true;
    bool computes = opcode_table[one->op].action == ACTION_FORWARD || opcode_table[other->op].action == ACTION_FORWARD;
    return computes && (writes_weights(one) || writes_weights(other));
}

/* How many instructions of the other lane must be done before instruction `index` of the list: `position` is each instruction's
 * in its lane. `known` is the number for the instruction before it in its lane; the search ends there. */
static int needed(const struct program *list, int index, const int *position, int known) {
    const struct instruction *instruction = &list->code[index];
    int lane = lane_of(instruction);
    for (int i = index - 1; i >= 0; i--) {
        if (lane_of(&list->code[i]) == lane) continue;
        if (position[i] < known) break;
        if (depends(instruction, &list->code[i])) return position[i] + 1;
    }
    return known;
}

/* Deals the worker's instructions out to its lanes. `position` has room for an index per instruction. */
static void split(struct engine *engine, const struct program *list, int first, int *position) {
    int known[LANES] = {0};
    for (int i = 0; i < list->count; i++) {
        int lane = lane_of(&list->code[i]);
        struct engine_worker *worker = &engine->workers[first + lane];
        position[i] = worker->page.count;
        worker->needs[position[i]] = known[lane] = needed(list, i, position, known[lane]);
        worker->page.code[worker->page.count++] = list->code[i];
    }
}

enum ps_status lanes_create(struct engine *engine, struct ps_error *error) {
    const struct ps_programs *programs = engine->work->programs;
    int *position;
    size_t longest = 0;
    for (int w = 0; w < engine->worker_count; w++) {
        size_t count = (size_t)programs->worker[engine_owner(engine, w)].count;
        engine->workers[w].page.code = arena_take(&engine->arena, count, sizeof *engine->workers[w].page.code);
        engine->workers[w].needs = arena_take(&engine->arena, count, sizeof *engine->workers[w].needs);
        if (count > longest) longest = count;
    }
    TRY(arena_check(&engine->arena, "lanes", error));
    TRY(memory_new(&position, longest, "lanes", error));
    for (int w = 0; w < programs->workers; w++) split(engine, &programs->worker[w], w * LANES, position);
    free(position);
    return PS_OK;
}

bool lanes_hold(const struct engine *engine, int index) {
    const struct engine_worker *worker = &engine->workers[index];
    int next = worker->interpreter.next;
    if (!worker->needs || next == worker->page.count) return false;
    const struct engine_worker *other = &engine->workers[other_lane(index)];
    return other->interpreter.next - (other->computing != NULL) < worker->needs[next];
}

void lanes_release(struct engine *engine, int index) {
    if (engine->lanes == 1) return;
    struct engine_worker *other = &engine->workers[other_lane(index)];
    if (!other->held || lanes_hold(engine, other_lane(index))) return;
    other->held = false;
    if (!engine_fills_or_drains(engine, index)) other->dependency += engine->now - other->waiting_since;
    event_push(&engine->heap, engine->now, other_lane(index));
}

/* ------------------------------------------------------------------ sharing */

bool lanes_other_runs(const struct engine *engine, int index) {
    return engine->lanes > 1 && engine->workers[other_lane(index)].running;
}

/* Sets the end of a lane's computation, as far as is known now. */
static void set_end(struct engine *engine, int index) {
    struct engine_worker *worker = &engine->workers[index];
    if (!worker->running) return;
    double stretch = 1;
    if (lanes_other_runs(engine, index) && worker->duration > 0)
        stretch += (double)engine->workers[other_lane(index)].duration / (double)worker->duration;
    event_remove(&engine->heap, index);
    event_push(&engine->heap, engine->now + llround(worker->left * stretch), index);
}

/* Subtracts the progress of a lane since its rate was set; `shared`: the other lane computed, too. */
static void take_off(struct engine *engine, int index, bool shared, int64_t other_duration) {
    struct engine_worker *worker = &engine->workers[index];
    double stretch = 1;
    if (shared && worker->duration > 0) stretch += (double)other_duration / (double)worker->duration;
    worker->left = fmax(0, worker->left - (double)(engine->now - worker->rated) / stretch);
    worker->rated = engine->now;
}

void lanes_share(struct engine *engine, int index) {
    const struct engine_worker *worker = &engine->workers[index];
    int other = other_lane(index);
    if (engine->workers[other].running) take_off(engine, other, !worker->running, worker->duration);
    set_end(engine, index);
    set_end(engine, other);
}
