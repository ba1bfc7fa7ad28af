/* Creating kernels, and running their parts: a function, or a loop that the device's threads share. */
#include "compute/kernel.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/device.h"

/* A network of just a node and its input, of one image where a sample has several. */
struct images {
    struct graph graph, wide, longest;
    struct node nodes[3][2];
};

static struct graph *take_image(const struct graph *from, int number, struct graph *graph, struct node nodes[2]) {
    if (from == NULL) return NULL;
    *graph = *from;
    graph->nodes = nodes;
    graph->node_count = 2;
    nodes[0] = from->nodes[from->nodes[number].inputs[0]];
    nodes[1] = from->nodes[number];
    nodes[1].inputs[0] = 0;
    for (int n = 0; n < 2; n++) {
        nodes[n].root = n;
        shape_take_image(&nodes[n].shape);
    }
    return graph;
}

/* Lets a kernel whose node reads several images of a sample have each as a sample of its own. */
static enum ps_status part_images(struct kernel *kernel, struct ps_error *error) {
    const struct graph *graph = kernel->graph;
    const struct node *node = kernel->node;
    struct shape shape = node->shape;
    if (!(node->flags & OPERATOR_IMAGES) || node->input_count != 1) return PS_OK;
    const int64_t images = shape_take_image(&shape);
    if (images == 0) return PS_OK;
    if (images > INT_MAX / kernel->samples)
        return error_set(error, PS_USAGE, "node '%s': %d samples of %lld images are more than %d", node->name, kernel->samples,
                         (long long)images, INT_MAX);
    TRY(memory_new(&kernel->images, 1, "a kernel", error));
    struct images *made = kernel->images;
    const int number = (int)(node - graph->nodes);
    kernel->graph = take_image(graph, number, &made->graph, made->nodes[0]);
    kernel->node = &made->graph.nodes[1];
    made->graph.wide = take_image(graph->wide, number, &made->wide, made->nodes[1]);
    made->graph.longest = made->wide.longest = take_image(graph->longest, number, &made->longest, made->nodes[2]);
    kernel->samples *= (int)images;
    return PS_OK;
}

enum ps_status kernel_create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    const struct kernel_class *type = device->type->kernels[node->id];
    if (type == NULL) {
        return error_set(error, PS_USAGE, "device %s cannot compute node '%s' (%s)", device->type->name, node->name,
                         operator_get(node->id)->name);
    }
    size_t size = type->size > 0 ? type->size : sizeof **kernel;
    struct kernel *made = calloc(1, size);
    if (made == NULL) return error_memory(error, "a kernel", size);
    *made = (struct kernel){
        .type = type, .device = device, .graph = graph, .node = node, .samples = samples, .relu_follows = relu_follows};
    for (int p = 0; p < node->parameter_count; p++) {
        made->parameter_bytes[p] = shape_bytes(&graph->parameters[node->parameter_first + p].shape);
    }
    enum ps_status status = part_images(made, error);
    const bool narrow = status == PS_OK && device->type->real && kernel_is_narrow(made), pieces = narrow && pieces_serve(made);
    if (narrow && !pieces && !(type->native != NULL && type->native(made))) status = adapter_begin(made, error);
    if (status == PS_OK && type->prepare != NULL) status = type->prepare(made, error);
    if (status != PS_OK) {
        kernel_destroy(made);
        return status;
    }
    if (type->set_sizes != NULL) type->set_sizes(made);
    if (made->adapter != NULL) adapter_end(made);
    if (pieces) pieces_end(made);
    *kernel = made;
    return PS_OK;
}

void kernel_destroy(struct kernel *kernel) {
    if (kernel == NULL) return;
    if (kernel->type->release != NULL) kernel->type->release(kernel);
    free(kernel->adapter);
    free(kernel->images);
    free(kernel);
}

/* A part's function, else its loop. */
static kernel_function *part_of(const struct kernel_class *type, enum kernel_part part, struct kernel_loop *loop) {
    *loop = (struct kernel_loop){0};
    if (part == KERNEL_BACKWARD_SHARED) return type->backward_shared;
    if (part == KERNEL_FORWARD) {
        *loop = type->forward_loop;
        return type->forward;
    }
    *loop = part == KERNEL_BACKWARD_INPUT ? type->backward_input_loop : type->backward_weight_loop;
    return part == KERNEL_BACKWARD_INPUT ? type->backward_input : type->backward_weight;
}

bool kernel_has(const struct kernel *kernel, enum kernel_part part) {
    struct kernel_loop loop;
    return part_of(kernel->type, part, &loop) != NULL || loop.body != NULL;
}

struct loop_run {
    const struct kernel *kernel;
    const struct kernel_call *call;
    kernel_body *body;
    size_t count;
};

static void run_piece(const void *context, const struct kernel_call *call, size_t first, size_t end) {
    const struct loop_run *run = context;
    run->body(run->kernel, call, first, end);
}

static void run_range(const void *context, size_t first, size_t end) {
    const struct loop_run *run = context;
    kernel_pieces(run->kernel, run->call, run->count, first, end, 1, run_piece, run);
}

static void run_typed(const void *context, size_t first, size_t end) {
    const struct loop_run *run = context;
    run->body(run->kernel, run->call, first, end);
}

static void run_columns(const void *context, size_t first, size_t end) {
    const struct loop_run *run = context;
    kernel_column_pieces(run->kernel, run->call, first, end, run_piece, run);
}

static size_t loop_count(const struct kernel *kernel, enum loop_over over) {
    switch (over) {
    case OVER_ELEMENTS:
        return kernel_elements(kernel);
    case OVER_ROWS:
        return kernel_rows(kernel);
    case OVER_FEATURES:
    case OVER_SUMS:
        return kernel_features(kernel);
    case OVER_SAMPLES:
        return (size_t)kernel->samples;
    }
    return 0;
}

static void run_loop(const struct kernel *kernel, const struct kernel_call *call, const struct kernel_loop *loop) {
    const struct loop_run run = {kernel, call, loop->body, loop_count(kernel, loop->over)};
    device_parallel(kernel->device, run.count, loop->grain > 0 ? loop->grain : 1, loop->typed ? run_typed : run_range, &run);
}

static void sum_columns(const struct kernel *kernel, const struct kernel_call *call, const struct kernel_loop *loop) {
    const struct loop_run run = {kernel, call, loop->body, kernel_features(kernel)};
    for (int p = 0; p < kernel->node->parameter_count; p++)
        if (call->gradients[p] != NULL) memset(call->gradients[p], 0, (size_t)kernel->parameter_bytes[p]);
    device_parallel(kernel->device, run.count, loop->grain > 0 ? loop->grain : 1, run_columns, &run);
}

enum ps_status kernel_run(struct kernel *kernel, enum kernel_part part, const struct kernel_call *call) {
    return kernel->adapter != NULL ? adapter_run(kernel, part, call) : kernel_run_own(kernel, part, call);
}

enum ps_status kernel_run_own(struct kernel *kernel, enum kernel_part part, const struct kernel_call *call) {
    struct kernel_loop loop;
    kernel_function *function = part_of(kernel->type, part, &loop);
    if (function != NULL) return function(kernel, call);
    if (loop.over == OVER_SUMS)
        sum_columns(kernel, call, &loop);
    else
        run_loop(kernel, call, &loop);
    return PS_OK;
}

void kernel_parallel(const struct kernel *kernel, const struct kernel_call *call, size_t count, size_t grain,
                     kernel_body *body) {
    device_parallel(kernel->device, count, grain, run_range, &(struct loop_run){kernel, call, body, count});
}

void device_parallel(const struct device *device, size_t count, size_t grain, parallel_body *body, const void *context) {
    size_t threads = (size_t)device->threads;
    if (threads <= 1 || count <= grain) {
        if (count > 0) body(context, 0, count);
        return;
    }
    size_t share = (count + threads - 1) / threads;
    share = (share + grain - 1) / grain * grain;
    int parts = (int)((count + share - 1) / share);
#pragma omp parallel for num_threads(device->threads) schedule(static, 1)
    for (int part = 0; part < parts; part++) {
        size_t first = (size_t)part * share, end = first + share;
        body(context, first, end < count ? end : count);
    }
}
