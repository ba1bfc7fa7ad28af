/*
 * The cpu device: oneDNN for matrix products, convolutions and pooling, loops of its own for what is limited by memory.
 *
 * Activations are plain N, H, W, C. Weights have the layout that oneDNN's kernels choose (blocked, padded with zeros).
 * Optimizers are elementwise and work on any layout; files have the canonical order, by from_canonical and to_canonical. The
 * numbers depend on the shapes, the number of threads and the kind of CPU, never on timing.
 */
#ifndef PENSTOCK_COMPUTE_CPU_CPU_H
#define PENSTOCK_COMPUTE_CPU_CPU_H

#include "compute/cpu/dnnl.h"
#include "compute/token.h"

/* The kernels of the device, `cpu_<operator>`. */
#define OPERATOR(NAME, name) extern const struct kernel_class cpu_##name;
#include "graph/operators.def"
#undef OPERATOR

/* A kernel without oneDNN. */
struct plain_kernel {
    struct kernel kernel;
    struct device *device;
    const struct graph *graph;
    const struct node *node;
};

/* Its default `create`: parameters in canonical order. */
enum ps_status plain_create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                            bool relu_follows, struct kernel **kernel, struct ps_error *error);
void plain_destroy(struct kernel *kernel);

static inline const struct plain_kernel *plain_of(const struct kernel *kernel) { return (const struct plain_kernel *)kernel; }

/* The shape of the node's first input for which the layout of its weights is chosen: its own shape; in a network for shorter
 * sequences that of the longest (graph.longest), since both use the same weights. */
static inline const struct shape *cpu_layout_shape(const struct graph *graph, const struct node *node) {
    const struct graph *longest = graph->longest != NULL ? graph->longest : graph;
    return &longest->nodes[node->inputs[0]].shape;
}

/* Elements of the output, all samples together. */
static inline size_t plain_elements(const struct kernel *kernel) {
    return (size_t)kernel->samples * (size_t)shape_elements(&plain_of(kernel)->node->shape);
}

/* The columns (channels or features) and rows of an activation as a matrix. */
static inline size_t shape_channels(const struct shape *shape) { return (size_t)shape->dim[0]; }
static inline size_t shape_rows(const struct shape *shape, int samples) {
    return (size_t)samples * (size_t)(shape_elements(shape) / shape->dim[0]);
}

/* Dropout (operators/dropout.c) of `count` elements by `key`; `from` may be `to`. */
void cpu_drop(const struct device *device, struct random_key key, float rate, size_t count, const float *from, float *to);

/* Calls `body` for equal parts of [0, count), one per thread of the device, each but the last a multiple of `grain`; a single
 * direct call where there is one thread or little work. `part` counts from 0 and stays below the number of threads. */
typedef void cpu_body(const void *context, int part, size_t first, size_t end);
void cpu_parallel(const struct device *device, size_t count, size_t grain, cpu_body *body, const void *context);

#endif
