/* Plans: making, copying and checking them. */
#include "plan/plan.h"
#include "base/versioned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum ps_status plan_create(int workers, int stage_count, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan *made;
    TRY(memory_new(&made, 1, "a plan", error));
    *made =
        (struct ps_plan){.workers = workers, .micro_batches = 1, .stage_count = stage_count, .optimizer = OPTIMIZER_DEFAULT};
    made->stages = arena_take(&made->arena, (size_t)stage_count + 1, sizeof *made->stages);
    made->predicted.load_s = arena_take(&made->arena, (size_t)workers + 1, sizeof *made->predicted.load_s);
    made->predicted.memory = arena_take(&made->arena, (size_t)workers + 1, sizeof *made->predicted.memory);
    enum ps_status status = arena_check(&made->arena, "a plan", error);
    if (status == PS_OK)
        *plan = made;
    else
        free(made);
    return status;
}

void ps_plan_destroy(struct ps_plan *plan) {
    if (!plan) return;
    arena_release(&plan->arena);
    free(plan);
}

static struct ps_plan_info make_plan_info(const struct ps_plan *plan) {
    return (struct ps_plan_info){
        .model = plan->model,
        .method = plan->method,
        .schedule = plan->schedule,
        .weights = plan->weights,
        .optimizer = plan->optimizer,
        .workers = plan->workers,
        .stages = plan->stage_count,
        .micro_batch = plan->micro_batch,
        .micro_batches = plan->micro_batches,
    };
}

void ps_plan_info_get(const struct ps_plan *plan, struct ps_plan_info *result, size_t size) {
    const struct ps_plan_info own = make_plan_info(plan);
    VERSIONED_GIVE(own, result, size);
}

enum ps_status plan_stage_workers(struct ps_plan *plan, int stage, const int *forward, int forward_count, const int *backward,
                                  int backward_count, struct ps_error *error) {
    struct plan_stage *s = &plan->stages[stage];
    s->forward = arena_copy(&plan->arena, forward, (size_t)forward_count, sizeof *forward);
    s->backward = arena_copy(&plan->arena, backward, (size_t)backward_count, sizeof *backward);
    s->forward_count = forward_count;
    s->backward_count = backward_count;
    return arena_check(&plan->arena, "a plan's stage", error);
}

enum ps_status plan_stage_set(struct ps_plan *plan, int stage, int first, int last, int worker, struct ps_error *error) {
    TRY(plan_stage_workers(plan, stage, &worker, 1, &worker, 1, error));
    plan->stages[stage].first = first;
    plan->stages[stage].last = last;
    return PS_OK;
}

enum ps_status plan_pattern_set(struct ps_plan *plan, const struct plan_operation *pattern, int count, struct ps_error *error) {
    plan->pattern = count > 0 ? arena_copy(&plan->arena, pattern, (size_t)count, sizeof *pattern) : NULL;
    plan->pattern_count = count;
    return arena_check(&plan->arena, "a plan's pattern", error);
}

enum ps_status plan_order_set(struct ps_plan *plan, const char *const *names, int count, struct ps_error *error) {
    plan->order = arena_take(&plan->arena, (size_t)count, sizeof *plan->order);
    plan->order_count = count;
    for (int l = 0; plan->order && l < count; l++)
        plan->order[l] = arena_copy(&plan->arena, names[l], strlen(names[l]) + 1, sizeof *names[l]);
    return arena_check(&plan->arena, "a plan's order", error);
}

enum ps_status plan_ties_set(struct ps_plan *plan, bool ends, const struct ties *ties, struct ps_error *error) {
    struct ties copy = {0};
    if (ties) TRY(ties_copy(ties, &plan->arena, &copy, error));
    plan->ties = (struct ties){.list = copy.list};
    plan->tied = ends && copy.count == 0;
    for (int t = 0; t < copy.count; t++) {
        struct tie *tie = &copy.list[t], *same = copy.list;
        const size_t bytes = (size_t)tie->uses * sizeof *tie->layers;
        tie->bytes = 0;
        while (same < copy.list + plan->ties.count &&
               (same->uses != tie->uses || memcmp(same->layers, tie->layers, bytes) != 0))
            same++;
        if (same == copy.list + plan->ties.count) copy.list[plan->ties.count++] = *tie;
    }
    return PS_OK;
}

int plan_stage_of(const struct ps_plan *plan, int layer) {
    int stage = 0;
    while (stage < plan->stage_count - 1 && plan->stages[stage].last < layer) stage++;
    return stage;
}

int plan_busy_workers(const struct ps_plan *plan) {
    int busy = 0;
    for (int w = 0; w < plan->workers; w++) {
        int s = 0;
        while (s < plan->stage_count && !plan_stage_is_on(&plan->stages[s], w)) s++;
        busy += s < plan->stage_count;
    }
    return busy;
}

/* The groups of two stages become one. */
static void join(int *head, int stages, int one, int other) {
    const int first = head[one] < head[other] ? head[one] : head[other], gone = head[one] + head[other] - first;
    for (int s = 0; s < stages; s++)
        if (head[s] == gone) head[s] = first;
}

void plan_tied_stages(const struct ps_plan *plan, int *head) {
    for (int s = 0; s < plan->stage_count; s++) head[s] = s;
    if (plan->tied) join(head, plan->stage_count, 0, plan->stage_count - 1);
    for (int t = 0; t < plan->ties.count; t++)
        for (int u = 1; u < plan->ties.list[t].uses; u++)
            join(head, plan->stage_count, plan_stage_of(plan, plan->ties.list[t].layers[0]),
                 plan_stage_of(plan, plan->ties.list[t].layers[u]));
}

/* The worker of a micro-batch's c-th computation: forwards through the stages, then backwards. */
static int worker_of(const struct ps_plan *plan, int computation) {
    const bool forward = computation < plan->stage_count;
    const struct plan_stage *stage = &plan->stages[forward ? computation : 2 * plan->stage_count - 1 - computation];
    return forward ? stage->forward[0] : stage->backward[0];
}

int plan_shift(const struct ps_plan *plan, const struct plan_operation *operation) {
    const int own = operation->backward ? 2 * plan->stage_count - 1 - operation->stage : operation->stage;
    int shift = operation->shift;
    for (int c = 1; c <= own && plan->slack > 0; c++)
        if (worker_of(plan, c - 1) < worker_of(plan, c)) shift += plan->slack;
    return shift;
}

enum ps_status plan_copy(const struct ps_plan *plan, struct ps_plan **copy, struct ps_error *error) {
    struct ps_plan *made;
    TRY(plan_create(plan->workers, plan->stage_count, &made, error));
    struct ps_plan own = *made;
    *made = *plan;
    made->arena = own.arena;
    made->stages = own.stages;
    made->predicted.load_s = own.predicted.load_s;
    made->predicted.memory = own.predicted.memory;
    memcpy(made->stages, plan->stages, (size_t)plan->stage_count * sizeof *made->stages);
    memcpy(made->predicted.load_s, plan->predicted.load_s, (size_t)plan->workers * sizeof *made->predicted.load_s);
    memcpy(made->predicted.memory, plan->predicted.memory, (size_t)plan->workers * sizeof *made->predicted.memory);
    enum ps_status status = PS_OK;
    for (int s = 0; status == PS_OK && s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        status =
            plan_stage_workers(made, s, stage->forward, stage->forward_count, stage->backward, stage->backward_count, error);
    }
    if (status == PS_OK && plan->order)
        status = plan_order_set(made, (const char *const *)plan->order, plan->order_count, error);
    if (status == PS_OK) status = plan_pattern_set(made, plan->pattern, plan->pattern_count, error);
    if (status == PS_OK) status = plan_ties_set(made, plan->tied, &plan->ties, error);
    if (status == PS_OK)
        *copy = made;
    else
        ps_plan_destroy(made);
    return status;
}

/* ---------------------------------------------------------------- checking */

static enum ps_status check_workers(const struct ps_plan *plan, int stage, const char *field, const int *list, int count,
                                    struct ps_error *error) {
    if (count < 1) return error_set(error, PS_BAD_INPUT, "stages[%d].%s: needs a worker", stage, field);
    for (int i = 0; i < count; i++) {
        if (list[i] < 0 || list[i] >= plan->workers)
            return error_set(error, PS_BAD_INPUT, "stages[%d].%s: %d is no worker; they are 0 to %d", stage, field, list[i],
                             plan->workers - 1);
        for (int j = 0; j < i; j++)
            if (list[i] == list[j])
                return error_set(error, PS_BAD_INPUT, "stages[%d].%s: worker %d is given twice", stage, field, list[i]);
    }
    return PS_OK;
}

static enum ps_status check_stage(const struct ps_plan *plan, int s, int layer_count, struct ps_error *error) {
    const struct plan_stage *stage = &plan->stages[s];
    int expected = s > 0 ? plan->stages[s - 1].last + 1 : 0;
    if (stage->first != expected)
        return error_set(error, PS_BAD_INPUT, "stages[%d].layers: begins with layer %d, but %s %d", s, stage->first + 1,
                         s > 0 ? "the stage before ends with layer" : "the first is layer", s > 0 ? expected : 1);
    if (stage->last < stage->first)
        return error_set(error, PS_BAD_INPUT, "stages[%d].layers: [%d, %d] has no layer", s, stage->first + 1, stage->last + 1);
    if (layer_count > 0 && stage->last >= layer_count)
        return error_set(error, PS_BAD_INPUT, "stages[%d].layers: %d is past the model's last layer %d", s, stage->last + 1,
                         layer_count);
    TRY(check_workers(plan, s, "forward", stage->forward, stage->forward_count, error));
    TRY(check_workers(plan, s, "backward", stage->backward, stage->backward_count, error));
    return PS_OK;
}

enum ps_status plan_check(const struct ps_plan *plan, int layer_count, struct ps_error *error) {
    if (plan->workers < 1 || plan->workers > PLAN_WORKERS_MAX)
        return error_set(error, PS_BAD_INPUT, "workers: %d is not from 1 to %d", plan->workers, PLAN_WORKERS_MAX);
    if (plan->micro_batch < 0) return error_set(error, PS_BAD_INPUT, "micro_batch: %d is negative", plan->micro_batch);
    if (plan->micro_batches < 1 || plan->micro_batches > PLAN_MICRO_BATCHES_MAX)
        return error_set(error, PS_BAD_INPUT, "micro_batches: %d is not from 1 to %d", plan->micro_batches,
                         PLAN_MICRO_BATCHES_MAX);
    if (plan->stage_count < 1) return error_set(error, PS_BAD_INPUT, "stages: there must be at least one");
    if (plan->micro_batches > PLAN_OPERATIONS_MAX / plan->stage_count)
        return error_set(error, PS_BAD_INPUT, "micro_batches: %d for %d stages; their product may be %d at most",
                         plan->micro_batches, plan->stage_count, PLAN_OPERATIONS_MAX);
    if (plan->slack < 0 || plan->slack > PLAN_SLACK_MAX)
        return error_set(error, PS_BAD_INPUT, "slack: %d is not from 0 to %d", plan->slack, PLAN_SLACK_MAX);
    if (plan->slack > PLAN_SLACKS_MAX / plan->stage_count)
        return error_set(error, PS_BAD_INPUT, "slack: %d for %d stages; their product may be %d at most", plan->slack,
                         plan->stage_count, PLAN_SLACKS_MAX);
    for (int s = 0; s < plan->stage_count; s++) TRY(check_stage(plan, s, layer_count, error));
    int last = plan->stages[plan->stage_count - 1].last;
    if (layer_count > 0 && last < layer_count - 1)
        return error_set(error, PS_BAD_INPUT, "stages[%d].layers: ends with layer %d, but the model's last is %d",
                         plan->stage_count - 1, last + 1, layer_count);
    for (int i = 0; i < plan->pattern_count; i++) {
        const struct plan_operation *operation = &plan->pattern[i];
        if (operation->stage < 0 || operation->stage >= plan->stage_count)
            return error_set(error, PS_BAD_INPUT, "pattern[%d]: %d is no stage; they are 0 to %d", i, operation->stage,
                             plan->stage_count - 1);
        if (operation->shift < 0 || operation->shift > PLAN_SHIFT_MAX)
            return error_set(error, PS_BAD_INPUT, "pattern[%d]: the shift %d is not from 0 to %d", i, operation->shift,
                             PLAN_SHIFT_MAX);
    }
    if (plan->order && plan->order_count != last + 1)
        return error_set(error, PS_BAD_INPUT, "order: names %d layers, but the stages have %d", plan->order_count, last + 1);
    return PS_OK;
}

bool plan_has_replicas(const struct ps_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].forward_count > 1 || plan->stages[s].backward_count > 1) return true;
    return false;
}

bool plan_encodes(const struct ps_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++) {
        const struct stage_wire wire = plan_stage_wire(plan, s);
        if (wire.after.activation.codec != WIRE_NONE || wire.after.gradient.codec != WIRE_NONE) return true;
        if (wire.sum.share.codec != WIRE_NONE) return true;
    }
    return false;
}

struct stage_wire plan_stage_wire(const struct ps_plan *plan, int stage) {
    const struct plan_stage *of = &plan->stages[stage];
    struct stage_wire wire = {0};
    if (stage > 0) wire.before = of[-1].wire;
    if (stage + 1 < plan->stage_count) wire.after = of->wire;
    if (of->backward_count > 1) wire.sum = wire_of_sum(&of->sum_wire, of->backward_count);
    return wire;
}

bool plan_stage_forwards_on(const struct plan_stage *stage, int worker) {
    for (int r = 0; r < stage->forward_count; r++)
        if (stage->forward[r] == worker) return true;
    return false;
}

bool plan_stage_is_on(const struct plan_stage *stage, int worker) {
    for (int r = 0; r < stage->backward_count; r++)
        if (stage->backward[r] == worker) return true;
    return plan_stage_forwards_on(stage, worker);
}

bool plan_is_split(const struct ps_plan *plan) {
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].forward_count == 1 && plan->stages[s].backward_count == 1 &&
            plan->stages[s].forward[0] != plan->stages[s].backward[0])
            return true;
    return false;
}

enum ps_status plan_check_order(const struct ps_plan *plan, const struct cost_table *costs, struct ps_error *error) {
    for (int l = 0; l < plan->order_count; l++)
        if (l >= costs->layer_count || strcmp(plan->order[l], costs->layers[l].name) != 0)
            return error_set(error, PS_USAGE,
                             "order[%d]: '%s' is given where the profile has '%s'; another order needs a profile with a graph",
                             l, plan->order[l], l < costs->layer_count ? costs->layers[l].name : "nothing");
    return PS_OK;
}

/* Memory of a stage and of a worker: sums of its blocks. */

int64_t worker_memory_total(const struct worker_memory *memory) {
    return memory->weights + memory->gradients + memory->optimizer + memory->stash + memory->buffers + memory->workspace;
}

static int64_t wire_memory(const struct stage_sizes *sizes, const struct stage_slots *slots) {
    int64_t bytes = 0;
    for (int b = 0; b < WIRE_BLOCKS; b++)
        if (slots->wire[b] > 0) bytes += slots->wire[b] * sizes->wire_bytes[b] + sizes->feedback_bytes[b];
    return bytes + (slots->forward_only ? 0 : sizes->feedback_bytes[WIRE_SUM]);
}

struct worker_memory stage_memory(const struct stage_sizes *sizes, const struct stage_slots *slots, int moments) {
    return (struct worker_memory){
        .weights = slots->weights * stage_copy_bytes(sizes) + stage_unchanged_bytes(sizes),
        .gradients = slots->forward_only ? 0 : stage_gradient_bytes(sizes),
        .optimizer = slots->forward_only ? 0 : moments * sizes->parameter_bytes + stage_master_bytes(sizes),
        .stash = slots->stash * sizes->stash_bytes + slots->delta * sizes->delta_bytes + slots->input * sizes->input_bytes,
        .buffers = (slots->output + slots->output_gradient) * sizes->output_bytes + slots->input_gradient * sizes->input_bytes +
                   wire_memory(sizes, slots),
        .workspace = sizes->workspace_bytes,
    };
}

void worker_memory_add(struct worker_memory *total, const struct worker_memory *stage) {
    total->weights += stage->weights;
    total->gradients += stage->gradients;
    total->optimizer += stage->optimizer;
    total->stash += stage->stash;
    total->buffers += stage->buffers;
    if (stage->workspace > total->workspace) total->workspace = stage->workspace;
}
