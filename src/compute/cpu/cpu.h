/*
 * The cpu device: oneDNN for matrix products, convolutions and pooling, loops of its own for what is limited by memory.
 *
 * Activations are plain N, H, W, C. Weights have the layout that oneDNN's kernels choose (blocked, padded with zeros).
 * Optimizers are elementwise and work on any layout; files have the canonical order, by from_canonical and to_canonical. The
 * numbers depend on the shapes, the number of threads and the kind of CPU, never on timing.
 */
#ifndef PENSTOCK_COMPUTE_CPU_CPU_H
#define PENSTOCK_COMPUTE_CPU_CPU_H

#include "base/vector.h"
#include "compute/cpu/dnnl.h"
#include "compute/token.h"

/* The kernels of the device, `cpu_<operator>`. */
#define OPERATOR(NAME, name) extern const struct kernel_class cpu_##name;
#include "graph/operators.def"
#undef OPERATOR

/*
 * Loops of kernels (struct kernel_loop in compute/kernel.h). The ReLU, all of it:
 *
 *     ELEMENTWISE(forward, y[i] = x[i] < 0 ? 0 : x[i])
 *     ELEMENTWISE(backward, float gradient = dy[i]; dx[i] = y[i] > 0 ? gradient : 0)
 *
 *     const struct kernel_class cpu_relu = {
 *         .forward_loop = {OVER_ELEMENTS, forward, 4096},
 *         .backward_input_loop = {OVER_ELEMENTS, backward, 4096},
 *     };
 *
 * For loops over rows, and over features for the gradients of weights, see layer_norm.c.
 *
 * ELEMENTWISE defines a vectorised loop: STATEMENT computes element `i` of the output `y`, or of `dx`, the gradient of the
 * first input `x`, from `dy`; `a` are the node's attributes. It reads what the operator's flags say that the backward reads,
 * and what it calls is inline.
 */
#define ELEMENTWISE(name, STATEMENT)                                                                                           \
    static VECTOR_CLONES void name(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {    \
        const struct attributes a = kernel->node->attributes;                                                                  \
        const float *x = call->input[0], *dy = call->output_gradient;                                                          \
        float *y = call->output, *dx = call->input_gradient[0];                                                                \
        (void)a, (void)x, (void)dy, (void)y, (void)dx;                                                                         \
        _Pragma("omp simd") for (size_t i = first; i < end; i++) { STATEMENT; }                                                \
    }

static inline struct cpu_device *cpu_of(const struct kernel *kernel) { return (struct cpu_device *)kernel->device; }

/* The shape of the node's first input for which the layout of its weights is chosen: its own shape; in a network for shorter
 * sequences that of the longest (graph.longest), since both use the same weights. */
static inline const struct shape *cpu_layout_shape(const struct graph *graph, const struct node *node) {
    const struct graph *longest = graph->longest != NULL ? graph->longest : graph;
    return &longest->nodes[node->inputs[0]].shape;
}

static inline int64_t largest_scratchpad(const struct primitive *primitives, int count) {
    int64_t most = 0;
    for (int p = 0; p < count; p++) most = primitives[p].scratchpad_bytes > most ? primitives[p].scratchpad_bytes : most;
    return most;
}

/* Dropout (operators/dropout.c) by `key` of `count` elements of the type, f32 or bf16, that have the numbers from `first` on;
 * `from` may be `to`. */
void cpu_drop(const struct device *device, struct random_key key, float rate, size_t first, size_t count, enum number_type type,
              const void *from, void *to);

/* Elements [first, first + count) of a value in the type of another. */
static inline void cpu_convert(size_t count, const struct shape *to_shape, float *to, const struct shape *from_shape,
                               const float *from, size_t first) {
    const size_t to_bytes = number_types[to_shape->type].bytes, from_bytes = number_types[from_shape->type].bytes;
    numbers_convert(count, to_shape->type, (char *)to + first * to_bytes, from_shape->type,
                    (const char *)from + first * from_bytes);
}

/* sums (columns) of the columns of x (rows, columns), which is f32 or bf16 */
void cpu_sum_rows(const struct device *device, size_t rows, size_t columns, enum number_type type, const void *x, float *sums);

/*
 * Products in bf16: values and weights are bf16, sums, biases and the gradients of weights f32. A kernel's `native`: are its
 * output and its matrices bf16, and does the processor multiply bf16? The values that it reads may be f32 (data); they are
 * rounded into the workspace, and their gradients are f32.
 */
bool cpu_multiplies_narrow(const struct kernel *kernel);
/* Does a kernel that was made compute so? */
static inline bool cpu_is_narrow(const struct kernel *kernel) { return kernel->node->shape.type == TYPE_BF16; }
/* Bytes of an input that is rounded into the workspace; 0: it is not. */
int64_t cpu_rounded_bytes(const struct kernel *kernel, int input);
/* The input `value`: rounded into `room`, or as it is. */
const float *cpu_rounded(const struct kernel *kernel, int input, const float *value, void *room);

#endif
