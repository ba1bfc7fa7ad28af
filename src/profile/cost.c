/* Costs of stages. Times are summed. Sizes follow the rule of compute/sizes.h, here in a form that grows a stage layer by layer
 * (a test compares the two). */
#include <stdio.h>

#include "base/memory.h"
#include "base/number.h"
#include "profile/profile.h"

static void take_in(struct stage_walk *walk, int layer) {
    const struct layer_cost *cost = &walk->table->layers[layer];
    layer_times_add(&walk->time, &cost->time);
    layer_times_add(&walk->spill, &cost->spill);
    walk->sum_s += cost->sum_s;
    walk->fill += cost->fill;
    walk->parameter_bytes += cost->size.parameter_bytes;
    walk->narrow_bytes += cost->size.narrow_bytes;
    walk->statistics_bytes += cost->size.statistics_bytes;
    walk->fixed_bytes += cost->size.fixed_bytes;
    walk->stash_bytes += cost->size.stash_bytes;
    walk->delta_bytes += cost->size.delta_bytes;
    walk->scratch_bytes = number_larger(walk->scratch_bytes, cost->size.workspace_bytes);
    walk->inner_cut_bytes = number_larger(walk->inner_cut_bytes, cost->inner_cut_bytes);
    walk->first = layer;
}

struct stage_walk stage_walk_start(const struct cost_table *table, int last) {
    struct stage_walk walk = {.table = table, .last = last};
    take_in(&walk, last);
    return walk;
}

void stage_walk_grow(struct stage_walk *walk) {
    take_in(walk, walk->first - 1);
    walk->inner_cut_bytes = number_larger(walk->inner_cut_bytes, walk->table->layers[walk->first].size.output_bytes);
}

bool cost_table_tied(const struct cost_table *table) {
    return table->ties || (table->layer_count > 1 && table->layers[0].size.tied_bytes > 0);
}

bool cost_table_ends_tied(const struct cost_table *table) { return cost_table_tied(table) && !table->ties; }

bool cost_spills(int64_t parameter_bytes, int64_t fast_memory_bytes) {
    return fast_memory_bytes > 0 && 2 * parameter_bytes > fast_memory_bytes;
}

static bool spills(const struct stage_walk *walk) { return cost_spills(walk->parameter_bytes, walk->table->fast_memory_bytes); }

struct layer_times stage_walk_times(const struct stage_walk *walk) {
    struct layer_times times = walk->time;
    if (spills(walk)) layer_times_add(&times, &walk->spill);
    return times;
}

struct layer_times stage_cost_times(const struct stage_cost *cost, int64_t worker_parameter_bytes) {
    struct layer_times times = cost->time;
    if (cost_spills(worker_parameter_bytes, cost->fast_memory_bytes)) layer_times_add(&times, &cost->spill);
    return times;
}

struct stage_cost stage_walk_cost(const struct stage_walk *walk) {
    const struct cost_table *table = walk->table;
    const struct layer_sizes *before = walk->first > 0 ? &table->layers[walk->first - 1].size : NULL;
    const struct layer_sizes *end = &table->layers[walk->last].size;
    int64_t arriving_value = before ? before->value_bytes : table->input_bytes;
    int inner_cuts = cost_table_last(table, walk->last) - cost_table_first(table, walk->first);
    int gradient_blocks = inner_cuts < 2 ? inner_cuts : 2;
    struct stage_cost cost = {
        .time = stage_walk_times(walk),
        .spill = spills(walk) ? (struct layer_times){0} : walk->spill,
        .fast_memory_bytes = table->fast_memory_bytes,
        .core_transfer_s = walk->last + 1 < table->layer_count ? table->layers[walk->last].core_transfer_s : 0,
        .take_before_s = walk->first > 0 ? table->layers[walk->first - 1].take_over_s : 0,
        .take_after_s = walk->last + 1 < table->layer_count ? table->layers[walk->last].take_over_s : 0,
        .sum_s = walk->sum_s,
        .fill = walk->fill,
        .size = {.parameter_bytes = walk->parameter_bytes,
                 .narrow_bytes = walk->narrow_bytes,
                 .statistics_bytes = walk->statistics_bytes,
                 .fixed_bytes = walk->fixed_bytes,
                 .input_bytes = before ? before->output_bytes : table->input_bytes,
                 .output_bytes = walk->last + 1 < table->layer_count ? end->output_bytes : 0,
                 .input = before ? layer_output_numbers(before) : (struct wire_numbers){{0}},
                 .output = walk->last + 1 < table->layer_count ? layer_output_numbers(end) : (struct wire_numbers){{0}},
                 .stash_bytes = number_larger(0, walk->stash_bytes - arriving_value + end->tail_bytes),
                 .delta_bytes = walk->delta_bytes,
                 .workspace_bytes = walk->scratch_bytes + gradient_blocks * walk->inner_cut_bytes},
    };
    stage_sizes_tie(&table->layers[walk->first].size, end, table->layer_count, table->ties, walk->first, walk->last,
                    &cost.size);
    return cost;
}

static struct stage_walk walk_to(const struct cost_table *table, int first, int last) {
    struct stage_walk walk = stage_walk_start(table, last);
    while (walk.first > first) stage_walk_grow(&walk);
    return walk;
}

struct stage_cost stage_cost(const struct cost_table *table, int first, int last) {
    struct stage_walk walk = walk_to(table, first, last);
    return stage_walk_cost(&walk);
}

void stage_cost_encode(const struct cost_table *table, const struct stage_wire *wire, struct stage_cost *cost) {
    const struct wire_numbers gradients = stage_gradient_numbers(&cost->size);
    const double input = (double)wire_encoded_numbers(&cost->size.input),
                 output = (double)wire_encoded_numbers(&cost->size.output);
    const double *rounding = table->wire_s[wire->sum.share.codec];
    stage_sizes_encode(&cost->size, wire);
    cost->wire_s[WIRE_ACTIVATION_SENT] = output * table->wire_s[wire->after.activation.codec][0];
    cost->wire_s[WIRE_ACTIVATION_RECEIVED] = input * table->wire_s[wire->before.activation.codec][1];
    cost->wire_s[WIRE_GRADIENT_SENT] = input * table->wire_s[wire->before.gradient.codec][0];
    cost->wire_s[WIRE_GRADIENT_RECEIVED] = output * table->wire_s[wire->after.gradient.codec][1];
    cost->wire_s[WIRE_SUM] = (double)wire_encoded_numbers(&gradients) * (rounding[0] + rounding[1]);
}

struct cut_times stage_core_transfer(const struct stage_cost *cost, bool before, bool after) {
    double taken_s = before ? cost->take_before_s : 0;
    return (struct cut_times){.forward_s = cost->core_transfer_s + taken_s,
                              .backward_s = taken_s + (after ? cost->take_after_s : 0)};
}

struct layer_times layer_cost_times(const struct layer_cost *layer, bool spilled) {
    struct layer_times times = layer->time;
    if (spilled) layer_times_add(&times, &layer->spill);
    return times;
}

/* ----------------------------------------------------------------- as a graph */

/*
 * A graph of layers whose costs alone are known, for the clock device.
 *
 * Each layer's node makes everything that crosses the cut after it, so that messages have their real size. Its inner bytes are
 * those that a layer keeps in addition to the value that it reads.
 */

static struct attributes layer_attributes(const struct cost_table *table, int layer, const struct layer_place *place) {
    const struct layer_cost *cost = &table->layers[layer];
    int64_t value_read = layer > 0 ? table->layers[layer - 1].size.value_bytes : table->input_bytes;
    int64_t inner = cost->size.stash_bytes - value_read;
    struct layer_times time = layer_cost_times(cost, place->spilled);
    time.forward_s += place->more.forward_s;
    time.backward_input_s += place->more.backward_s;
    layer_times_complete(&time);
    return (struct attributes){
        .time = time,
        .sum_s = cost->sum_s,
        .value_bytes = cost->size.output_bytes,
        .parameter_bytes = cost->size.parameter_bytes,
        .inner_bytes = inner > 0 ? inner : 0,
    };
}

enum ps_status profile_graph(const struct cost_table *table, const struct layer_place *places, struct graph **graph,
                             struct ps_error *error) {
    const struct layer_place nowhere = {0};
    struct graph *made = graph_create();
    TRY(memory_check(made, "a graph of costs", error));
    struct attributes data = {.value_bytes = table->input_bytes};
    int node = graph_add(made, OPERATOR_INPUT, "data", &data, NULL, 0, error);
    for (int l = 0; l < table->layer_count && node >= 0; l++) {
        /* Names of layers may repeat in a profile, names of nodes may not. */
        char name[64];
        number_print(name, sizeof name, "%d %s", l + 1, table->layers[l].name);
        struct attributes attributes = layer_attributes(table, l, places ? &places[l] : &nowhere);
        node = graph_add(made, OPERATOR_OPAQUE, name, &attributes, &node, 1, error);
    }
    enum ps_status status = graph_finish(made, error);
    if (status != PS_OK) {
        graph_destroy(made);
        return status;
    }
    *graph = made;
    return PS_OK;
}
