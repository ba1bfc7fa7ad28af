/*
 * Kernels that compute in f32 on values and weights that a network of precision bf16 holds in bf16. The kernel gets the network
 * in f32. Before each of its parts what it reads is widened into the workspace, behind the kernel's own; after it what it wrote
 * is rounded. So every operator works with bf16 on every device, at the price of these conversions, and its sums are those of
 * f32. Weight gradients, inner values, statistics and states are f32 in any case.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/device.h"

struct adapter {
    const struct node *node; /* of the graph in bf16 */
    const struct graph *graph;
    int64_t own_bytes; /* of the kernel's workspace */
};

static const struct shape *input_shape(const struct adapter *adapter, int input) {
    return &adapter->graph->nodes[adapter->node->inputs[input]].shape;
}

static enum number_type copy_type(const struct kernel *kernel, int parameter) {
    return kernel->graph->parameters[kernel->node->parameter_first + parameter].copy;
}

bool kernel_is_narrow(const struct kernel *kernel) {
    const struct graph *graph = kernel->graph, *wide = graph->wide;
    const struct node *node = kernel->node;
    if (wide == NULL) return false;
    bool narrow = node->shape.type != wide->nodes[node - graph->nodes].shape.type;
    for (int i = 0; i < node->input_count; i++)
        narrow = narrow || graph->nodes[node->inputs[i]].shape.type != wide->nodes[node->inputs[i]].shape.type;
    for (int p = 0; p < node->parameter_count; p++) narrow = narrow || copy_type(kernel, p) == TYPE_BF16;
    return narrow;
}

bool kernel_one_type(const struct kernel *kernel) {
    bool one = true;
    for (int i = 0; i < kernel->node->input_count; i++) one = one && kernel_input(kernel, i)->type == kernel->node->shape.type;
    for (int p = 0; p < kernel->node->parameter_count; p++) one = one && copy_type(kernel, p) == TYPE_F32;
    return one;
}

enum ps_status adapter_begin(struct kernel *kernel, struct ps_error *error) {
    TRY(memory_new(&kernel->adapter, 1, "a kernel", error));
    *kernel->adapter = (struct adapter){.node = kernel->node, .graph = kernel->graph};
    kernel->node = &kernel->graph->wide->nodes[kernel->node - kernel->graph->nodes];
    kernel->graph = kernel->graph->wide;
    return PS_OK;
}

/* Bytes that a value takes in f32 beside its own place; 0: it is not converted. */
static int64_t widened_bytes(const struct kernel *kernel, const struct shape *own, const struct shape *wide) {
    if (own->type == wide->type) return 0;
    return (int64_t)memory_align((size_t)(kernel->samples * shape_bytes(wide)));
}

/* The most that any part needs: all that a forward reads and writes, or all that a backward may. */
void adapter_end(struct kernel *kernel) {
    struct adapter *adapter = kernel->adapter;
    const int64_t output = widened_bytes(kernel, &adapter->node->shape, &kernel->node->shape);
    int64_t inputs = 0, weights = 0;
    for (int i = 0; i < kernel->node->input_count; i++)
        inputs += widened_bytes(kernel, input_shape(adapter, i), kernel_input(kernel, i));
    for (int p = 0; p < kernel->node->parameter_count; p++)
        if (copy_type(kernel, p) == TYPE_BF16) weights += (int64_t)memory_align((size_t)kernel->parameter_bytes[p]);
    const int64_t read = kernel->node->flags & (OPERATOR_USES_INPUT | OPERATOR_USES_INTEGERS) ? inputs : 0;
    const int64_t kept = kernel->node->flags & OPERATOR_USES_OUTPUT ? output : 0;
    adapter->own_bytes = (int64_t)memory_align((size_t)kernel->workspace_bytes);
    kernel->workspace_bytes = adapter->own_bytes + weights + number_larger(inputs + output, read + kept + output + inputs);
}

/* One call: the kernel's arguments, and how much of the workspace they have taken. */
struct adapted {
    struct kernel *kernel;
    struct kernel_call call;
    char *free;
};

struct conversion {
    enum number_type to_type, from_type;
    void *to;
    const void *from;
};

static void convert_range(const void *context, size_t first, size_t end) {
    const struct conversion *c = context;
    numbers_convert(end - first, c->to_type, (char *)c->to + first * number_types[c->to_type].bytes, c->from_type,
                    (const char *)c->from + first * number_types[c->from_type].bytes);
}

static void convert(const struct adapted *run, size_t count, struct conversion conversion) {
    device_parallel(run->kernel->device, count, 4096, convert_range, &conversion);
}

static void *take(struct adapted *run, int64_t bytes) {
    void *taken = run->free;
    run->free += bytes;
    return taken;
}

static size_t elements(const struct kernel *kernel, const struct shape *shape) {
    return (size_t)(kernel->samples * shape_elements(shape));
}

/* The value at `from` in f32; where it has that type already, itself. */
static const void *widen(struct adapted *run, const struct shape *own, const struct shape *wide, const void *from) {
    const int64_t bytes = widened_bytes(run->kernel, own, wide);
    if (bytes == 0 || from == NULL) return from;
    void *to = take(run, bytes);
    convert(run, elements(run->kernel, wide), (struct conversion){wide->type, own->type, to, from});
    return to;
}

static void widen_weights(struct adapted *run) {
    const struct kernel *kernel = run->kernel;
    for (int p = 0; p < kernel->node->parameter_count; p++) {
        if (copy_type(kernel, p) != TYPE_BF16 || run->call.weights[p] == NULL) continue;
        float *to = take(run, (int64_t)memory_align((size_t)kernel->parameter_bytes[p]));
        convert(run, (size_t)kernel->parameter_bytes[p] / sizeof(float),
                (struct conversion){TYPE_F32, TYPE_BF16, to, run->call.weights[p]});
        run->call.weights[p] = to;
    }
}

static enum ps_status run_forward(struct adapted *run, const struct kernel_call *given) {
    struct kernel *kernel = run->kernel;
    const struct shape *own = &kernel->adapter->node->shape, *wide = &kernel->node->shape;
    const int64_t bytes = widened_bytes(kernel, own, wide);
    float *output = given->output;
    if (bytes > 0) output = given->output == given->input[0] ? (float *)run->call.input[0] : take(run, bytes);
    run->call.output = output;
    TRY(kernel_run_own(kernel, KERNEL_FORWARD, &run->call));
    if (bytes > 0) convert(run, elements(kernel, wide), (struct conversion){own->type, wide->type, given->output, output});
    return PS_OK;
}

static enum ps_status run_backward_input(struct adapted *run, const struct kernel_call *given) {
    struct kernel *kernel = run->kernel;
    int64_t bytes[GRAPH_INPUTS_MAX];
    for (int i = 0; i < kernel->node->input_count; i++) {
        float *gradient = given->input_gradient[i];
        bytes[i] = gradient != NULL ? widened_bytes(kernel, input_shape(kernel->adapter, i), kernel_input(kernel, i)) : 0;
        const bool in_place = gradient != NULL && gradient == given->output_gradient;
        if (bytes[i] > 0) gradient = in_place ? (float *)run->call.output_gradient : take(run, bytes[i]);
        run->call.input_gradient[i] = gradient;
    }
    TRY(kernel_run_own(kernel, KERNEL_BACKWARD_INPUT, &run->call));
    for (int i = 0; i < kernel->node->input_count; i++) {
        const struct shape *own = input_shape(kernel->adapter, i), *wide = kernel_input(kernel, i);
        if (bytes[i] > 0)
            convert(run, elements(kernel, wide),
                    (struct conversion){own->type, wide->type, given->input_gradient[i], run->call.input_gradient[i]});
    }
    return PS_OK;
}

enum ps_status adapter_run(struct kernel *kernel, enum kernel_part part, const struct kernel_call *call) {
    const struct adapter *adapter = kernel->adapter;
    struct adapted run = {kernel, *call, (char *)call->workspace + adapter->own_bytes};
    const struct shape *own = &adapter->node->shape, *wide = &kernel->node->shape;
    for (int i = 0; i < kernel->node->input_count; i++)
        run.call.input[i] = widen(&run, input_shape(adapter, i), kernel_input(kernel, i), call->input[i]);
    widen_weights(&run);
    if (part == KERNEL_FORWARD) return run_forward(&run, call);
    run.call.output = (float *)widen(&run, own, wide, call->output);
    run.call.output_gradient = widen(&run, own, wide, call->output_gradient);
    return part == KERNEL_BACKWARD_INPUT ? run_backward_input(&run, call) : kernel_run_own(kernel, part, &run.call);
}
