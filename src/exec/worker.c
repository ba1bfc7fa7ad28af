/* Creating workers: stages on a device, one block of memory for all that they use; see worker.h. */
#include "exec/worker.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* The shared parameter that begins there; NULL: there is none. */
static const struct stage_tie *tie_at(const struct worker_stage *stage, int64_t offset) {
    const struct update_state *state = &stage->update;
    for (const struct stage_tie *tie = state->ties; tie < state->ties + state->tie_count; tie++)
        if (tie->gradients[0] == offset) return tie;
    return NULL;
}

static int by_begin(const void *a, const void *b) {
    const struct update_span *one = a, *other = b;
    return one->begin < other->begin ? -1 : one->begin > other->begin;
}

/* Those side by side with the same rate and decay become one; each ends where the next begins. */
static int merge_spans(struct update_span *spans, int count, size_t end) {
    int kept = 0;
    for (int s = 0; s < count; s++) {
        const struct update_span *last = &spans[kept - (kept > 0)];
        if (kept > 0 && last->rate == spans[s].rate && last->weight_decay == spans[s].weight_decay) continue;
        spans[kept++] = spans[s];
    }
    for (int s = 0; s < kept; s++) spans[s].count = (s + 1 < kept ? spans[s + 1].begin : end) - spans[s].begin;
    assert(kept == 0 || spans->begin == 0);
    return kept;
}

/* Divides the stage's parameters into ranges with the same rate and decay. Those whose copies are f32 lie before the others, so
 * that their order in the block is not that of their numbers. */
static enum ps_status make_spans(struct worker *worker, struct worker_stage *stage, const struct update_rule *rule,
                                 struct ps_error *error) {
    const int parameters = stage_parameter_count(stage->stage);
    struct update_state *state = &stage->update;
    int count = 0;
    if (rule == NULL || (rule->without_decay == 0 && rule->group_count == 0)) return PS_OK;
    state->spans = arena_take(&worker->arena, (size_t)parameters, sizeof *state->spans);
    TRY(arena_status(&worker->arena, "groups of parameters", error));
    for (int p = 0; p < parameters; p++) {
        const int64_t offset = stage_parameter_offset(stage->stage, p);
        const struct stage_tie *tie = tie_at(stage, offset);
        /* A statistic or fixed, or a further use of a shared parameter. */
        if (offset < 0 || (tie && tie->parameter != stage_parameter(stage->stage, p))) continue;
        state->spans[count] = update_rule_span(rule, stage->stage, p);
        state->spans[count++].begin = (size_t)offset;
    }
    if (count > 0) qsort(state->spans, (size_t)count, sizeof *state->spans, by_begin);
    state->span_count = merge_spans(state->spans, count, state->count);
    return PS_OK;
}

/* The shares of the network's trained parameters that layers first..last have alone, and that each shared one has. */
static void count_shares(const struct graph *graph, int first, int last, struct update_state *state) {
    double own = 0, all = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        for (int p = node->parameter_first; p < node->parameter_first + node->parameter_count; p++) {
            if (graph->parameters[p].role != PARAMETER_TRAINED || graph->parameters[p].tied) continue;
            const double elements = (double)shape_elements(&graph->parameters[p].shape);
            all += elements;
            if (node->layer >= first && node->layer <= last && !graph->parameters[p].shared) own += elements;
        }
    }
    state->share = all > 0 ? own / all : 0;
    for (int t = 0; t < state->tie_count; t++) state->tied_shares[t] = all > 0 ? (double)state->ties[t].count / all : 0;
}

static enum ps_status make_ties(struct worker *worker, struct worker_stage *stage, struct ps_error *error) {
    struct update_state *state = &stage->update;
    TRY(stage_ties(stage->stage, &worker->arena, &state->ties, &state->tie_count, error));
    state->tied_shares = arena_take(&worker->arena, (size_t)state->tie_count, sizeof *state->tied_shares);
    state->rest = arena_take(&worker->arena, (size_t)state->tie_count + 1, sizeof *state->rest);
    return arena_status(&worker->arena, "shared parameters", error);
}

/* Weights must have the same layout as at the full length, and the blocks must not be larger. */
static enum ps_status check_shorter(const struct worker_stage *whole, const struct stage *stage, struct ps_error *error) {
    const struct stage_sizes *limit = &whole->sizes, sizes = stage_sizes(stage);
    bool same = sizes.parameter_bytes == limit->parameter_bytes && sizes.narrow_bytes == limit->narrow_bytes &&
                stage_unchanged_bytes(&sizes) == stage_unchanged_bytes(limit);
    for (int p = 0; same && p < stage_parameter_count(stage); p++)
        same = stage_parameter_offset(stage, p) == stage_parameter_offset(whole->stage, p);
    const struct {
        const char *what;
        int64_t takes, has;
    } blocks[] = {{"the input", sizes.input_bytes, limit->input_bytes},
                  {"the output", sizes.output_bytes, limit->output_bytes},
                  {"the stash", sizes.stash_bytes, limit->stash_bytes},
                  {"the gradients between the halves of the backward", sizes.delta_bytes, limit->delta_bytes},
                  {"the workspace", sizes.workspace_bytes, limit->workspace_bytes}};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
        if (blocks[b].takes > blocks[b].has)
            return error_set(
                error, PS_USAGE,
                "`lengths`: at a shorter length %s of stage %d takes %lld bytes, more than the %lld of the full length",
                blocks[b].what, whole->number, (long long)blocks[b].takes, (long long)blocks[b].has);
    if (same) return PS_OK;
    return error_set(error, PS_USAGE, "`lengths`: at a shorter length the weights of stage %d lie elsewhere", whole->number);
}

static enum ps_status create_shorter(const struct worker_options *options, struct worker *worker, struct worker_stage *stage,
                                     struct ps_error *error) {
    const struct plan_stage *plan = &options->plan->stages[stage->number];
    for (int l = 0; l < LENGTHS_MAX && options->shorter[l]; l++) {
        TRY(stage_create(worker->device, options->shorter[l], plan->first, plan->last, options->samples, &stage->shorter[l],
                         error));
        TRY(check_shorter(stage, stage->shorter[l], error));
    }
    return PS_OK;
}

static enum ps_status create_stage(const struct worker_options *options, struct worker *worker, int instance,
                                   struct ps_error *error) {
    int number = options->programs->instances[instance].stage;
    const struct plan_stage *plan = &options->plan->stages[number];
    struct worker_stage *stage = &worker->stages[worker->stage_count];
    TRY(stage_create(worker->device, options->graph, plan->first, plan->last, options->samples, &stage->stage, error));
    stage->number = number;
    stage->instance = instance;
    stage->replica = options->programs->instances[instance].replica;
    stage->forward = options->programs->instances[instance].forward;
    stage->sizes = options->sizes ? options->sizes[number] : stage_sizes(stage->stage);
    const struct stage_wire wire = plan_stage_wire(options->plan, number);
    stage_sizes_encode(&stage->sizes, &wire);
    const struct wire_numbers gradients = stage_gradient_numbers(&stage->sizes);
    stage->sum_run = (struct wire_run){.count = (size_t)gradients.of[TYPE_F32], .type = TYPE_F32};
    if (options->wire_s) memcpy(stage->wire_s, options->wire_s[number], sizeof stage->wire_s);
    stage->slots = options->slots[instance];
    stage->update.count = (size_t)stage->sizes.parameter_bytes / sizeof(float);
    stage->update.wide = (size_t)(stage->sizes.parameter_bytes - stage->sizes.narrow_bytes) / sizeof(float);
    stage->update.times = stage_times(stage->stage);
    worker->stage_count++;
    TRY(make_ties(worker, stage, error));
    count_shares(options->graph, plan->first, plan->last, &stage->update);
    TRY(create_shorter(options, worker, stage, error));
    return make_spans(worker, stage, options->rule, error);
}

enum ps_status worker_create(const struct worker_options *options, struct worker *out, struct ps_error *error) {
    struct worker worker = {.number = options->number};
    for (int kind = 0; kind < WORKER_DATA_KINDS; kind++) worker.inputs[kind].number = worker.targets[kind].number = -1;
    worker.stages = arena_take(&worker.arena, (size_t)options->plan->stage_count, sizeof *worker.stages);
    TRY(arena_check(&worker.arena, "a worker's stages", error));
    double speed = options->emulated ? options->emulated->devices[options->number].speed : 1;
    struct device_options device = {.threads = options->threads, .speed = speed};
    /* A clock keeps its own time. */
    worker.slower = options->device->real ? 1 / speed : 1;
    enum ps_status status = device_open(options->device->name, &device, &worker.device, error);
    for (int instance = 0; status == PS_OK && instance < options->programs->instance_count; instance++)
        if (options->programs->instances[instance].worker == options->number)
            status = create_stage(options, &worker, instance, error);
    if (status != PS_OK) {
        worker_destroy(&worker);
        return status;
    }
    *out = worker;
    return PS_OK;
}

/* `floats` NULL: counts them alone. */
static enum ps_status move_sum_feedback(struct device *device, const struct worker_stage *stage, bool brings, float *floats,
                                        size_t *count, struct ps_error *error) {
    float *block = stage->feedback[WIRE_SUM];
    *count = 0;
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        float *place = floats ? floats + *count : NULL;
        if (parameter->role != PARAMETER_TRAINED || tie_at(stage, stage_parameter_offset(stage->stage, i))) continue;
        if (place)
            TRY(brings ? stage_import_f32(stage->stage, i, place, block, NULL, error)
                       : stage_export_f32(stage->stage, i, block, NULL, place, error));
        *count += (size_t)shape_elements(&parameter->shape);
    }
    /* In files in the order of their first uses. */
    for (int i = 0; i < stage_parameter_count(stage->stage) && stage->update.tie_count > 0; i++) {
        const struct stage_tie *tie = tie_at(stage, stage_parameter_offset(stage->stage, i));
        if (!tie || tie->parameter != stage_parameter(stage->stage, i)) continue;
        for (int use = 0; use < tie->uses; use++, *count += (size_t)tie->count) {
            float *here = floats ? block + tie->gradients[use] : NULL, *there = floats ? floats + *count : NULL;
            if (here) device_copy(device, brings ? here : there, brings ? there : here, (size_t)tie->count * sizeof *here);
        }
    }
    return PS_OK;
}

size_t worker_feedback_floats(const struct worker_stage *stage, int coded) {
    size_t count = worker_feedback_bytes(stage, coded) / sizeof(float);
    if (coded == WIRE_SUM && count > 0) (void)move_sum_feedback(NULL, stage, false, NULL, &count, NULL);
    return count;
}

enum ps_status worker_feedback_move(struct device *device, const struct worker_stage *stage, int coded, bool brings,
                                    float *floats, struct ps_error *error) {
    float *block = stage->feedback[coded];
    size_t count = worker_feedback_floats(stage, coded);
    enum ps_status status = PS_OK;
    if (coded == WIRE_SUM)
        status = move_sum_feedback(device, stage, brings, floats, &count, error);
    else
        device_copy(device, brings ? block : floats, brings ? floats : block, count * sizeof *block);
    device_finish(device);
    return status;
}

enum ps_status worker_stage_export(const struct worker_stage *stage, int parameter, float *canonical, struct ps_error *error) {
    const float *master = stage->update.master;
    return master ? stage_export_f32(stage->stage, parameter, master, stage->statistics, canonical, error)
                  : stage_export(stage->stage, parameter, stage->weights[0], stage->statistics, canonical, error);
}

enum ps_status worker_stage_import(const struct worker_stage *stage, int parameter, const float *canonical,
                                   struct ps_error *error) {
    float *master = stage->update.master;
    TRY(stage_import(stage->stage, parameter, canonical, stage->weights[0], stage->statistics, error));
    if (!master || stage_parameter(stage->stage, parameter)->role != PARAMETER_TRAINED) return PS_OK;
    return stage_import_f32(stage->stage, parameter, canonical, master, stage->statistics, error);
}

struct worker_memory worker_memory_needed(const struct worker *worker, int moments) {
    struct worker_memory total = {0};
    for (int i = 0; i < worker->stage_count; i++) {
        struct worker_memory memory = stage_memory(&worker->stages[i].sizes, &worker->stages[i].slots, moments);
        worker_memory_add(&total, &memory);
    }
    return total;
}

/* A table of `count` blocks of `bytes` each. */
static enum ps_status carve_table(struct worker *worker, struct memory_block *memory, int count, int64_t bytes, float ***table,
                                  struct ps_error *error) {
    *table = arena_take(&worker->arena, (size_t)count, sizeof **table);
    TRY(arena_status(&worker->arena, "a table of blocks", error));
    for (int slot = 0; slot < count; slot++) (*table)[slot] = memory_block_carve(memory, (size_t)bytes);
    return PS_OK;
}

/* Targets are kept as long as the input that they belong to; they are not in the plan. */
static enum ps_status make_targets(struct worker *worker, struct worker_stage *stage, size_t bytes, struct ps_error *error) {
    const size_t slots = (size_t)stage->slots.input;
    stage->targets = arena_take(&worker->arena, slots, sizeof *stage->targets);
    stage->loss_scale = arena_take(&worker->arena, slots, sizeof *stage->loss_scale);
    char *all = arena_take(&worker->arena, slots, bytes);
    TRY(arena_status(&worker->arena, "targets", error));
    for (size_t slot = 0; slot < slots; slot++) stage->targets[slot] = all + slot * bytes;
    return PS_OK;
}

/* Can a block of this kind move to another worker, or be changed by one? Running statistics move as gradients do. */
static bool travels(const struct worker_options *options, const struct worker_stage *stage, enum block_kind kind) {
    if (kind == BLOCK_STASH || kind == BLOCK_WEIGHTS) return programs_split(options->programs, stage->number);
    /* Others add to them. */
    if (kind == BLOCK_WEIGHT_GRADIENTS) return programs_replicas(options->programs, stage->number) > 1;
    return kind != BLOCK_DELTA;
}

/* Where the blocks of a kind lie. */
static struct memory_block *memory_of(struct worker *worker, const struct worker_options *options,
                                      const struct worker_stage *stage, enum block_kind kind) {
    return worker->shared.memory.base && travels(options, stage, kind) ? &worker->shared.memory : &worker->memory;
}

/* Takes the memory of the blocks that travel, where sharing it is requested and possible. */
static void take_shared(struct worker *worker, const struct worker_options *options, const char *what) {
    struct ps_error error = {0};
    size_t bytes = 0;
    if (!options->shared || !device_in_host(worker->device)) return;
    for (int i = 0; i < worker->stage_count; i++) {
        const struct worker_stage *stage = &worker->stages[i];
        for (int kind = 0; kind < BLOCK_PLACES; kind++)
            if (travels(options, stage, (enum block_kind)kind))
                bytes += (size_t)stage_slots_of(&stage->slots, (enum block_kind)kind) *
                         memory_align((size_t)stage_block_bytes(&stage->sizes, (enum block_kind)kind));
        if (travels(options, stage, BLOCK_WEIGHT_GRADIENTS))
            bytes += memory_align((size_t)stage_unchanged_bytes(&stage->sizes));
    }
    if (shared_block_take(&worker->shared, bytes, options->device->real, what, &error) != PS_OK)
        log_warn("%s; its blocks go by messages", error.message);
}

static enum ps_status carve_stage(struct worker *worker, struct worker_stage *stage, const struct worker_options *options,
                                  struct ps_error *error) {
    struct memory_block *memory = &worker->memory, *summed = memory_of(worker, options, stage, BLOCK_WEIGHT_GRADIENTS);
    const size_t parameter_bytes = (size_t)stage->sizes.parameter_bytes;
    const size_t master_bytes = (size_t)stage_master_bytes(&stage->sizes);
    TRY(carve_table(worker, memory_of(worker, options, stage, BLOCK_WEIGHTS), stage->slots.weights,
                    stage_copy_bytes(&stage->sizes), &stage->weights, error));
    if (!stage->slots.forward_only) stage->gradients = memory_block_carve(summed, (size_t)stage_gradient_bytes(&stage->sizes));
    for (int i = 0; i < options->moments && !stage->slots.forward_only; i++)
        stage->update.moment[i] = memory_block_carve(memory, parameter_bytes);
    if (master_bytes > 0 && !stage->slots.forward_only) stage->update.master = memory_block_carve(memory, master_bytes);
    stage->statistics = memory_block_carve(summed, (size_t)stage_unchanged_bytes(&stage->sizes));
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        TRY(carve_table(worker, memory_of(worker, options, stage, (enum block_kind)kind),
                        stage_slots_of(&stage->slots, (enum block_kind)kind),
                        stage_block_bytes(&stage->sizes, (enum block_kind)kind), &stage->block[kind], error));
    for (int c = 0; c < WIRE_CODED; c++)
        if (worker_feedback_bytes(stage, c) > 0)
            stage->feedback[c] = memory_block_carve(memory, worker_feedback_bytes(stage, c));
    const struct shape target = graph_target(options->graph);
    const size_t targets = (size_t)options->samples * (size_t)shape_bytes(&target);
    if (stage->number == options->plan->stage_count - 1) TRY(make_targets(worker, stage, targets, error));
    return PS_OK;
}

/* Memory on the host in which the first stage's input is prepared. */
static enum ps_status make_staging(struct worker *worker, struct ps_error *error) {
    for (int i = 0; i < worker->stage_count && !device_in_host(worker->device); i++) {
        if (worker->stages[i].number > 0) continue;
        worker->staging = arena_take(&worker->arena, (size_t)worker->stages[i].sizes.input_bytes, 1);
        TRY(arena_status(&worker->arena, "staged input", error));
    }
    return PS_OK;
}

enum ps_status worker_take_memory(struct worker *worker, const struct worker_options *options, struct ps_error *error) {
    struct worker_memory needed = worker_memory_needed(worker, options->moments);
    int64_t bytes = worker_memory_total(&needed);
    char what[64];
    snprintf(what, sizeof what, "worker %d", worker->number);
    take_shared(worker, options, what);
    TRY(device_take(worker->device, &worker->memory, (size_t)bytes - worker->shared.memory.size, what, error));
    for (int i = 0; i < worker->stage_count; i++) TRY(carve_stage(worker, &worker->stages[i], options, error));
    worker->workspace = memory_block_carve(&worker->memory, (size_t)needed.workspace);
    assert(worker_memory_taken(worker) == bytes);
    TRY(make_staging(worker, error));
    if (options->record == 0) return PS_OK;
    worker->recorder.events = arena_take(&worker->arena, (size_t)options->record, sizeof *worker->recorder.events);
    /* When a device has taken a block out of its queue is not known here. */
    const int transfers = device_in_host(worker->device) ? TRANSFERS_OF_COMPUTATION * options->record : 0;
    if (transfers > 0)
        worker->recorder.transfers = arena_take(&worker->arena, (size_t)transfers, sizeof *worker->recorder.transfers);
    TRY(arena_status(&worker->arena, "a trace", error));
    worker->recorder.capacity = options->record;
    worker->recorder.transfer_capacity = transfers;
    return PS_OK;
}

void worker_stop_reading(struct worker *worker) {
    for (int kind = 0; kind < WORKER_DATA_KINDS; kind++) {
        loader_stop(worker->inputs[kind].loader);
        loader_stop(worker->targets[kind].loader);
    }
}

void worker_destroy(struct worker *worker) {
    for (int kind = 0; kind < WORKER_DATA_KINDS; kind++) {
        loader_destroy(worker->inputs[kind].loader);
        loader_destroy(worker->targets[kind].loader);
    }
    for (int i = 0; i < worker->stage_count; i++) {
        struct worker_stage *stage = &worker->stages[i];
        for (int l = 0; l < LENGTHS_MAX; l++) stage_destroy(stage->shorter[l]);
        stage_destroy(stage->stage);
    }
    if (worker->device) device_give(worker->device, &worker->memory);
    shared_block_release(&worker->shared);
    if (worker->device) device_close(worker->device);
    arena_release(&worker->arena);
    *worker = (struct worker){0};
}

void worker_start_segment(struct worker *worker, const struct ps_programs *programs, int64_t step) {
    for (int i = 0; i < worker->stage_count; i++) {
        worker->stages[i].update.step = step;
        worker->stages[i].update.round = programs_round(programs, worker->stages[i].number);
        worker->stages[i].newest = 0;
        worker->stages[i].accumulating = false;
    }
    worker->recorder.count = worker->recorder.transfer_count = worker->recorder.arrived = 0;
}

enum ps_status worker_seek_data(struct worker *worker, int kind, int64_t number, struct ps_error *error) {
    struct worker_data *data[] = {&worker->inputs[kind], &worker->targets[kind]};
    for (int i = 0; i < 2; i++)
        if (data[i]->loader) TRY(loader_seek(data[i]->loader, number + data[i]->first, error));
    return PS_OK;
}

void worker_end_segment(struct worker *worker) {
    for (int i = 0; i < worker->stage_count; i++) {
        struct worker_stage *stage = &worker->stages[i];
        float *newest = stage->weights[stage->newest];
        stage->weights[stage->newest] = stage->weights[0];
        stage->weights[0] = newest;
        stage->newest = 0;
    }
}
