/*
 * A chain of layers known only by their costs as a graph, which the clock device runs.
 *
 * Each layer's node makes all that crosses the cut after it, so that messages have their real size. Inner bytes are what a
 * layer keeps beside the value that it reads.
 */
#include <stdio.h>

#include "profile/profile.h"

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
    if (!made) return error_memory(error, "a graph of costs", sizeof *made);
    struct attributes data = {.value_bytes = table->input_bytes};
    int node = graph_add(made, OPERATOR_INPUT, "data", &data, NULL, 0, error);
    for (int l = 0; l < table->layer_count && node >= 0; l++) {
        /* Names of a profile may repeat, those of nodes may not. */
        char name[64];
        snprintf(name, sizeof name, "%d %.50s", l + 1, table->layers[l].name);
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
