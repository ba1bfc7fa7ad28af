/* The costs of a plan: its layers in its own order, mini-batches of several lengths, and its memory. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "base/text.h"
#include "plan/plan.h"
#include "profile/costgraph.h"
#include "program/lower.h"
#include "simulate/simulate.h"

/* ------------------------------------------------------------ order of layers */

/* The costs in the plan's topological order of the graph, if it differs from the profile's. */

/* The position of each layer of the table in the plan's order. */
static enum ps_status find_positions(const struct ps_plan *plan, const struct cost_table *table, int *position,
                                     struct ps_error *error) {
    if (plan->order_count != table->layer_count)
        return error_set(error, PS_USAGE, "order: names %d layers, the profile has %d", plan->order_count, table->layer_count);
    for (int l = 0; l < table->layer_count; l++) position[l] = -1;
    for (int o = 0; o < plan->order_count; o++) {
        int l = 0;
        while (l < table->layer_count && (position[l] >= 0 || strcmp(plan->order[o], table->layers[l].name) != 0)) l++;
        if (l == table->layer_count)
            return error_set(error, PS_USAGE, "order[%d]: '%s' is not a layer of the profile, or is given twice", o,
                             plan->order[o]);
        position[l] = o;
    }
    return PS_OK;
}

enum ps_status simulate_costs(const struct ps_plan *plan, const struct ps_profile *profile, const struct cost_table **table,
                              struct ps_profile **reordered, struct ps_error *error) {
    const struct cost_table *costs;
    TRY(profile_table(profile, plan->micro_batch, &costs, error));
    *reordered = NULL;
    *table = costs;
    if (!profile->graph || plan_check_order(plan, costs, NULL) == PS_OK) return plan_check_order(plan, costs, error);
    int *position;
    TRY(memory_new(&position, costs->layer_count, "an order of layers", error));
    enum ps_status status = find_positions(plan, costs, position, error);
    if (status == PS_OK) status = costgraph_reorder(profile->graph, position, reordered, error);
    if (status == PS_OK) *table = &(*reordered)->tables[0];
    free(position);
    return status;
}

/* -------------------------------------------------------------------- lengths */

/* The number of mini-batches of each length by its share, the first length first. */
static void deal(const struct ps_profile *profile, int batches, double *factors) {
    int length = 0;
    double dealt = profile->by_length[0].share, sum = 0;
    for (int b = 0; b < batches; b++) {
        while (length < profile->length_count - 1 && b + 0.5 >= dealt * batches) dealt += profile->by_length[++length].share;
        factors[b] = profile->by_length[length].factor;
        sum += factors[b];
    }
    for (int b = 0; b < batches && sum > 0; b++) factors[b] *= batches / sum;
}

enum ps_status simulate_batch_factors(const struct ps_profile *profile, int batches, double **factors, struct ps_error *error) {
    *factors = NULL;
    if (profile->length_count == 0) return PS_OK;
    struct arena scratch = {0};
    size_t count = (size_t)batches;
    double *sorted = arena_take(&scratch, count, sizeof *sorted);
    uint32_t *order = arena_take(&scratch, count, sizeof *order);
    TRY(arena_check(&scratch, "the lengths of mini-batches", error));
    enum ps_status status = memory_new(factors, count, "the lengths of mini-batches", error);
    if (status == PS_OK) {
        deal(profile, batches, sorted);
        random_permutation(random_key(0, RANDOM_ORDER, 0, 0), order, count);
        for (size_t b = 0; b < count; b++) (*factors)[b] = sorted[order[b]];
    }
    arena_release(&scratch);
    return status;
}

/* --------------------------------------------------------------------- memory */

/*
 * Finding the instruction that does not fit. A worker allocates all its slots at once, before it starts; but instructions
 * before the first use of a slot do not need it. So slots count from the first instruction that touches them, and weights,
 * gradients, optimizer and workspace from the beginning.
 */

/* NO_SLOT, -1, raises nothing. */
static void raise_to(int *count, int slot) {
    if (slot >= *count) *count = slot + 1;
}

/* Adds the slots that the instruction touches to those that its stage instance has touched; true if any is new. */
static bool touch(struct stage_slots *slots, const struct instruction *instruction) {
    struct stage_slots before = *slots;
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        raise_to(stage_slots_place(slots, (enum block_kind)kind), instruction->block[kind]);
    raise_to(&slots->weights, instruction->slot);
    raise_to(&slots->weights, instruction->to);
    raise_to(&slots->weights, instruction->predict_to);
    bool more = before.weights != slots->weights;
    for (int kind = 0; kind < BLOCK_KINDS; kind++)
        more = more || stage_slots_of(&before, (enum block_kind)kind) != stage_slots_of(slots, (enum block_kind)kind);
    return more;
}

static int64_t bytes_of(const struct ps_programs *programs, int worker, const struct stage_slots *touched,
                        const struct stage_sizes *sizes, int moments) {
    struct worker_memory total = {0};
    for (int instance = 0; instance < programs->instance_count; instance++) {
        if (programs->instances[instance].worker != worker) continue;
        struct worker_memory memory = stage_memory(&sizes[programs->instances[instance].stage], &touched[instance], moments);
        worker_memory_add(&total, &memory);
    }
    return worker_memory_total(&total);
}

/* The first instruction for which more than `limit` bytes are needed, and how many. */
static const struct instruction *find_first(const struct ps_programs *programs, int worker, struct stage_slots *touched,
                                            const struct stage_sizes *sizes, int moments, int64_t limit, int64_t *needed) {
    const struct program *program = &programs->worker[worker];
    for (int instance = 0; instance < programs->instance_count; instance++)
        touched[instance] = (struct stage_slots){.weights = 1, .forward_only = programs->slots[instance].forward_only};
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        if (!touch(&touched[programs_instance(programs, worker, instruction->stage)], instruction) && i > 0) continue;
        *needed = bytes_of(programs, worker, touched, sizes, moments);
        if (*needed > limit) return instruction;
    }
    return NULL;
}

static enum ps_status refuse(const struct ps_programs *programs, int worker, const struct stage_sizes *sizes, int moments,
                             int64_t limit, struct ps_error *error) {
    struct stage_slots *touched;
    TRY(memory_new(&touched, programs->instance_count, "the slots of a worker", error));
    struct worker_memory all = programs_memory(programs, worker, sizes, moments);
    int64_t needed = worker_memory_total(&all);
    const struct instruction *first = find_first(programs, worker, touched, sizes, moments, limit, &needed);
    char name[96] = "its program", needed_text[32], limit_text[32], all_text[32];
    if (first) instruction_text(first, name);
    error_set(error, PS_NO_PLAN,
              "worker %d: %s does not fit: up to it %s (%lld bytes) are needed, the limit is %s (%lld bytes)", worker, name,
              text_bytes(needed, needed_text), (long long)needed, text_bytes(limit, limit_text), (long long)limit);
    error_hint(error, "worker %d needs %s in all", worker, text_bytes(worker_memory_total(&all), all_text));
    free(touched);
    return PS_NO_PLAN;
}

/* PS_NO_PLAN if a worker takes more memory than its device has (cluster.devices[].memory_bytes; 0: no limit): names the worker,
 * its first instruction that does not fit, the memory needed for it and the limit. `sizes` per stage, `moments` optimizer
 * blocks. */
static enum ps_status limits_check(const struct ps_programs *programs, const struct stage_sizes *sizes, int moments,
                                   const struct ps_cluster *cluster, struct ps_error *error) {
    for (int w = 0; w < programs->workers; w++) {
        struct worker_memory memory = programs_memory(programs, w, sizes, moments);
        int64_t limit = cluster->devices[w].memory_bytes;
        if (limit > 0 && worker_memory_total(&memory) > limit) return refuse(programs, w, sizes, moments, limit, error);
    }
    return PS_OK;
}

enum ps_status ps_programs_check_memory(const struct ps_programs *programs, const struct ps_plan *plan,
                                        const struct ps_profile *profile, const struct ps_cluster *cluster,
                                        struct ps_error *error) {
    const struct cost_table *table;
    struct ps_profile *reordered;
    int moments;
    if (cluster->workers < programs->workers)
        return error_set(error, PS_USAGE, "cluster: has %d of the %d workers that the plan needs", cluster->workers,
                         programs->workers);
    TRY(plan_moments(plan, &moments, error));
    TRY(profile_table(profile, plan->micro_batch, &table, error));
    TRY(plan_check(plan, table->layer_count, error));
    TRY(cluster_check_types(cluster, table, error));
    TRY(simulate_costs(plan, profile, &table, &reordered, error));
    struct stage_sizes *sizes;
    enum ps_status status = memory_new(&sizes, plan->stage_count, "sizes of stages", error);
    for (int s = 0; status == PS_OK && s < plan->stage_count; s++)
        sizes[s] = simulate_stage_cost(plan, table, cluster, s, plan->stages[s].forward[0]).size;
    if (status == PS_OK) status = limits_check(programs, sizes, moments, cluster, error);
    free(sizes);
    ps_profile_destroy(reordered);
    return status;
}

/* The simulation has the memory of each worker; only if one exceeds its limit are the programs lowered again, to find the
 * instruction. */
enum ps_status ps_simulation_check_memory(const struct ps_simulation *simulation, const struct ps_plan *plan,
                                          const struct ps_profile *profile, const struct ps_cluster *cluster,
                                          struct ps_error *error) {
    bool fits = true;
    for (int w = 0; w < simulation->info.workers; w++) {
        int64_t limit = cluster->devices[w].memory_bytes;
        fits = fits && (limit == 0 || simulation->worker[w].memory_bytes <= limit);
    }
    if (fits) return PS_OK;
    struct ps_programs *programs;
    TRY(lower_plan(plan, simulation->info.batches, &programs, error));
    enum ps_status status = ps_programs_check_memory(programs, plan, profile, cluster, error);
    ps_programs_destroy(programs);
    return status;
}
