/*
 * Rotary position embedding (graph/operators/rotary.c). x, y (R, heads E), one row a position; the cosines and sines of a row's
 * angles c, s. For the features a and b of each pair of each head
 *
 *     y_a = x_a c_a - x_b s_a,         y_b = x_b c_b + x_a s_b
 *     dx_a = dy_a c_a + dy_b s_b,      dx_b = dy_b c_b - dy_a s_a
 *     dc_a = dy_a x_a, ds_a = -dy_a x_b,   dc_b = dy_b x_b, ds_b = dy_b x_a,  added up over the heads
 */
#include <string.h>

#include "compute/reference/reference.h"
#include "compute/rotary.h"

/* The cosine (or sine) in a table's row; without tables of the pair's angle. */
static double turn(const struct kernel *kernel, const struct kernel_call *call, const struct rotary *r, size_t row, size_t pair,
                   bool b, bool sine) {
    size_t positions = (size_t)kernel->node->shape.dim[1];
    double angle = rotary_angle(kernel, r->pairs, row % positions, pair);
    if (call->input[1] == NULL) return sine ? sin(angle) : cos(angle);
    return (double)call->input[sine ? 2 : 1][row * r->width + pair * r->table_step + (b ? r->table_other : 0)];
}

static void rotate(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end, const float *from,
                   float *to, bool backward) {
    struct rotary r = rotary_of(kernel);
    for (size_t i = first * r.heads; i < end * r.heads; i++) {
        const float *x = from + i * r.each;
        float *y = to + i * r.each;
        if (y != x) memcpy(y + 2 * r.pairs, x + 2 * r.pairs, (r.each - 2 * r.pairs) * sizeof *y);
        for (size_t j = 0; j < r.pairs; j++) {
            size_t a = j * r.step, b = a + r.other, row = i / r.heads;
            double cos_a = turn(kernel, call, &r, row, j, false, false), cos_b = turn(kernel, call, &r, row, j, true, false);
            double sin_a = turn(kernel, call, &r, row, j, false, true), sin_b = turn(kernel, call, &r, row, j, true, true);
            double x_a = (double)x[a], x_b = (double)x[b];
            y[a] = (float)(backward ? x_a * cos_a + x_b * sin_b : x_a * cos_a - x_b * sin_a);
            y[b] = (float)(backward ? x_b * cos_b - x_a * sin_a : x_b * cos_b + x_a * sin_b);
        }
    }
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    rotate(kernel, call, first, end, call->input[0], call->output, false);
}

/* Adds to `table`, the gradient of the cosines or of the sines; NULL: it is not needed. */
static void add_table(const struct kernel *kernel, const struct kernel_call *call, size_t row, float *table, bool sine) {
    struct rotary r = rotary_of(kernel);
    if (table == NULL) return;
    memset(table + row * r.width, 0, r.width * sizeof *table);
    for (size_t i = row * r.heads; i < (row + 1) * r.heads; i++) {
        const float *x = call->input[0] + i * r.each, *dy = call->output_gradient + i * r.each;
        for (size_t j = 0; j < r.pairs; j++) {
            size_t a = j * r.step, b = a + r.other, at = row * r.width + j * r.table_step;
            table[at] += (float)(sine ? -(double)dy[a] * (double)x[b] : (double)dy[a] * (double)x[a]);
            table[at + r.table_other] += (float)(sine ? (double)dy[b] * (double)x[a] : (double)dy[b] * (double)x[b]);
        }
    }
}

static void backward_input(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    if (call->input_gradient[0] != NULL) rotate(kernel, call, first, end, call->output_gradient, call->input_gradient[0], true);
    for (size_t row = first; row < end && kernel->node->input_count > 1; row++) {
        add_table(kernel, call, row, call->input_gradient[1], false);
        add_table(kernel, call, row, call->input_gradient[2], true);
    }
}

const struct kernel_class reference_rotary = {
    .forward_loop = {OVER_ROWS, forward},
    .backward_input_loop = {OVER_ROWS, backward_input},
};
