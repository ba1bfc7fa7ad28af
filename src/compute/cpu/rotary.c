/*
 * Rotary position embedding, see compute/reference/rotary.c. Where the tables are not inputs they are computed once, for each
 * position and pair, cosines before sines.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"
#include "compute/rotary.h"

struct rotary_kernel {
    struct kernel kernel;
    struct rotary rotary;
    float *tables; /* (2, T, R / 2); NULL: inputs */
};

static void release(struct kernel *kernel) { free(((struct rotary_kernel *)kernel)->tables); }

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct rotary_kernel *own = (struct rotary_kernel *)kernel;
    own->rotary = rotary_of(kernel);
    if (kernel->node->input_count > 1) return PS_OK;
    size_t positions = (size_t)kernel->node->shape.dim[1], pairs = own->rotary.pairs, count = positions * pairs;
    TRY(memory_new(&own->tables, 2 * count, "cosines and sines", error));
    for (size_t i = 0; i < count; i++) {
        double angle = rotary_angle(kernel, pairs, i / pairs, i % pairs);
        own->tables[i] = (float)cos(angle);
        own->tables[count + i] = (float)sin(angle);
    }
    return PS_OK;
}

/* The cosines (or sines) of a row. */
static const float *table_of(const struct kernel *kernel, const struct kernel_call *call, size_t row, bool sine) {
    const struct rotary_kernel *own = (const struct rotary_kernel *)kernel;
    size_t positions = (size_t)kernel->node->shape.dim[1], pairs = own->rotary.pairs;
    if (own->tables == NULL) return call->input[sine ? 2 : 1] + row * own->rotary.width;
    return own->tables + (row % positions + (sine ? positions : 0)) * pairs;
}

/* One head. `y` may be `x`. */
static VECTOR_CLONES void turn(const struct rotary *r, const float *x, const float *cosine, const float *sine, float *y) {
    size_t other = r->other, step = r->step, table_other = r->table_other, table_step = r->table_step;
    for (size_t j = 0; j < r->pairs; j++) {
        float a = x[j * step], b = x[j * step + other];
        y[j * step] = a * cosine[j * table_step] - b * sine[j * table_step];
        y[j * step + other] = b * cosine[j * table_step + table_other] + a * sine[j * table_step + table_other];
    }
}

static VECTOR_CLONES void turn_back(const struct rotary *r, const float *dy, const float *cosine, const float *sine,
                                    float *dx) {
    size_t other = r->other, step = r->step, table_other = r->table_other, table_step = r->table_step;
    for (size_t j = 0; j < r->pairs; j++) {
        float a = dy[j * step], b = dy[j * step + other];
        dx[j * step] = a * cosine[j * table_step] + b * sine[j * table_step + table_other];
        dx[j * step + other] = b * cosine[j * table_step + table_other] - a * sine[j * table_step];
    }
}

static void rotate(const struct kernel *kernel, const struct kernel_call *call, size_t row, const float *from, float *to,
                   bool backward) {
    const struct rotary *r = &((const struct rotary_kernel *)kernel)->rotary;
    const float *cosine = table_of(kernel, call, row, false), *sine = table_of(kernel, call, row, true);
    for (size_t i = row * r->heads; i < (row + 1) * r->heads; i++) {
        const float *x = from + i * r->each;
        float *y = to + i * r->each;
        if (y != x) memcpy(y + 2 * r->pairs, x + 2 * r->pairs, (r->each - 2 * r->pairs) * sizeof *y);
        if (backward)
            turn_back(r, x, cosine, sine, y);
        else
            turn(r, x, cosine, sine, y);
    }
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (size_t row = first; row < end; row++) rotate(kernel, call, row, call->input[0], call->output, false);
}

/* The gradients of cosines and sines; NULL: not needed. */
static void add_tables(const struct rotary *r, const float *x, const float *dy, float *cosine, float *sine) {
    for (size_t j = 0; j < r->pairs; j++) {
        size_t a = j * r->step, b = a + r->other, at = j * r->table_step;
        if (cosine != NULL) cosine[at] += dy[a] * x[a];
        if (cosine != NULL) cosine[at + r->table_other] += dy[b] * x[b];
        if (sine != NULL) sine[at] -= dy[a] * x[b];
        if (sine != NULL) sine[at + r->table_other] += dy[b] * x[a];
    }
}

static void backward_tables(const struct kernel *kernel, const struct kernel_call *call, size_t row) {
    const struct rotary *r = &((const struct rotary_kernel *)kernel)->rotary;
    float *cosine = call->input_gradient[1], *sine = call->input_gradient[2];
    if (cosine != NULL) cosine = memset(cosine + row * r->width, 0, r->width * sizeof *cosine);
    if (sine != NULL) sine = memset(sine + row * r->width, 0, r->width * sizeof *sine);
    if (cosine == NULL && sine == NULL) return;
    for (size_t i = row * r->heads; i < (row + 1) * r->heads; i++)
        add_tables(r, call->input[0] + i * r->each, call->output_gradient + i * r->each, cosine, sine);
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (size_t row = first; row < end; row++) {
        if (call->input_gradient[0] != NULL) rotate(kernel, call, row, call->output_gradient, call->input_gradient[0], true);
        if (kernel->node->input_count > 1) backward_tables(kernel, call, row);
    }
}

const struct kernel_class cpu_rotary = {
    .size = sizeof(struct rotary_kernel),
    .prepare = prepare,
    .release = release,
    .piecewise = true,
    .forward_loop = {OVER_ROWS, forward, 4},
    .backward_input_loop = {OVER_ROWS, backward_input, 4},
};
