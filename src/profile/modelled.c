/* Shared by all modelled devices: sizes as in the reference device's layout, scaled to the model's number size, and the
 * arithmetic of the operators. */
#include "profile/modelled.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/stage.h"

extern const struct modelled_device fpga_vcu118, fpga_vcu129, gpu_p100, gpu_v100;
const struct modelled_device *const modelled_table[] = {&fpga_vcu118, &fpga_vcu129, &gpu_p100, &gpu_v100, NULL};

const struct modelled_device *modelled_find(const char *name) {
    for (size_t i = 0; modelled_table[i]; i++)
        if (strcmp(modelled_table[i]->name, name) == 0) return modelled_table[i];
    return NULL;
}

double node_multiply_adds(const struct graph *graph, int node) { return node_flops(graph, &graph->nodes[node]) / 2; }

/* Likewise of a layer's forward. */
static double layer_multiply_adds(const struct graph *graph, const struct layer *layer) {
    double sum = 0;
    for (int n = layer->node_first; n < layer->node_first + layer->node_count; n++) sum += node_multiply_adds(graph, n);
    return sum;
}

static int64_t scaled(int64_t bytes, const struct modelled_device *device) {
    return bytes / (int64_t)sizeof(float) * device->element_bytes;
}

/* The memory that such a device needs while a layer runs is unknown. */
static struct layer_sizes scaled_sizes(const struct layer_sizes *sizes, const struct modelled_device *device) {
    return (struct layer_sizes){.parameter_bytes = scaled(sizes->parameter_bytes, device),
                                .narrow_bytes = scaled(sizes->narrow_bytes, device),
                                .tied_bytes = scaled(sizes->tied_bytes, device),
                                .statistics_bytes = scaled(sizes->statistics_bytes, device),
                                .fixed_bytes = scaled(sizes->fixed_bytes, device),
                                .output_bytes = scaled(sizes->output_bytes, device),
                                .value_bytes = scaled(sizes->value_bytes, device),
                                .stash_bytes = scaled(sizes->stash_bytes, device),
                                .tail_bytes = scaled(sizes->tail_bytes, device),
                                .delta_bytes = scaled(sizes->delta_bytes, device)};
}

/* All sizes are scaled by one factor, so they must be sizes in f32. */
static enum ps_status check_types(const struct modelled_device *device, const struct graph *graph, struct ps_error *error) {
    for (int n = 0; n < graph->node_count && device->element_bytes != (int)sizeof(float); n++) {
        const struct node *node = &graph->nodes[n];
        if (node->shape.type == TYPE_BF16)
            return error_set(error, PS_USAGE, "device %s has one type of numbers: node '%s' with bf16 is not accepted",
                             device->name, node->name);
    }
    return PS_OK;
}

enum ps_status modelled_fill(const struct modelled_device *device, const struct graph *graph, struct cost_table *table,
                             struct ps_error *error) {
    TRY(check_types(device, graph, error));
    struct device *plain = NULL;
    struct layer_sizes *sizes;
    TRY(memory_new(&sizes, graph->layer_count, "profiling", error));
    enum ps_status status = device_open("reference", &(struct device_options){.threads = 1}, &plain, error);
    if (status == PS_OK) status = stage_layer_sizes(plain, graph, table->micro_batch, sizes, &table->input_bytes, error);
    for (int l = 0; status == PS_OK && l < graph->layer_count; l++) {
        struct layer_cost *cost = &table->layers[l];
        cost->size = scaled_sizes(&sizes[l], device);
        struct layer_work work = {.graph = graph,
                                  .layer = &graph->layers[l],
                                  .samples = table->micro_batch,
                                  .multiply_adds = table->micro_batch * layer_multiply_adds(graph, &graph->layers[l]),
                                  .first = l == 0,
                                  .parameters = cost->size.parameter_bytes > 0};
        device->cost(device, &work, cost);
    }
    table->input_bytes = scaled(table->input_bytes, device);
    table->fast_memory_bytes = device->fast_memory_bytes;
    device_close(plain);
    free(sizes);
    return status;
}
