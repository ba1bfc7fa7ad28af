/* A vector added at each position, see compute/reference/position_embedding.c. */
#include <string.h>

#include "base/vector.h"
#include "compute/cpu/cpu.h"

struct table {
    const struct kernel_call *call;
    size_t features, positions, rows; /* rows: of all samples */
    size_t vectors;                   /* in the table */
    bool everywhere;
};

static struct table table_of(const struct kernel *kernel, const struct kernel_call *call) {
    const struct node *node = plain_of(kernel)->node;
    return (struct table){call,
                          (size_t)node->shape.dim[0],
                          (size_t)node->shape.dim[1],
                          shape_rows(&node->shape, kernel->samples),
                          (size_t)node->attributes.count,
                          node->attributes.everywhere};
}

static size_t vector_of(const struct table *t, size_t row) { return t->everywhere ? 0 : row % t->positions; }

static VECTOR_CLONES void add_two(size_t count, float *y, const float *a, const float *b) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = a[i] + b[i];
}

static void add_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct table *t = context;
    for (size_t row = first; row < end; row++) {
        size_t at = row * t->features;
        const float *vector = t->call->weights[0] + vector_of(t, row) * t->features;
        add_two(t->features, t->call->output + at, t->call->input[0] + at, vector);
    }
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct table table = table_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, table.rows, 32, add_part, &table);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    float *dx = call->input_gradient[0];
    if (dx != call->output_gradient) memcpy(dx, call->output_gradient, plain_elements(kernel) * sizeof *dx);
    return PS_OK;
}

/* The gradient of some features: threads share the features. */
static void sum_part(const void *context, int part, size_t first, size_t end) {
    (void)part;
    const struct table *t = context;
    float *gradient = t->call->gradients[0];
    for (size_t vector = 0; vector < t->vectors; vector++) {
        memset(gradient + vector * t->features + first, 0, (end - first) * sizeof *gradient);
    }
    for (size_t row = 0; row < t->rows; row++) {
        float *to = gradient + vector_of(t, row) * t->features + first;
        vector_add(end - first, to, t->call->output_gradient + row * t->features + first);
    }
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    struct table table = table_of(kernel, call);
    cpu_parallel(plain_of(kernel)->device, table.features, 64, sum_part, &table);
    return PS_OK;
}

const struct kernel_class cpu_position_embedding = {
    .create = plain_create,
    .destroy = plain_destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
};
