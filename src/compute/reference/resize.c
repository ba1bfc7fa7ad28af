/* Resizing (graph/operators/resize.c). x (N, H, W, C), y (N, OH, OW, C): y[oh, ow] = sum over the taps of both sides of their
 * weights times x[h, w]; dx gets each y's share of dy. */
#include <string.h>

#include "compute/reference/reference.h"
#include "compute/resize.h"

static void pass_pixel(const struct kernel *kernel, size_t row, const float *x, const float *dy, float *y, float *dx) {
    const struct attributes *a = &kernel->node->attributes;
    const int64_t *in = kernel_input(kernel, 0)->dim, *out = kernel->node->shape.dim;
    int64_t n = (int64_t)row / (out[1] * out[2]), oh = (int64_t)row / out[2] % out[1], ow = (int64_t)row % out[2];
    struct resize_taps rows = resize_taps(a, POOL_ROWS, in[1], out[1], oh);
    struct resize_taps columns = resize_taps(a, POOL_COLUMNS, in[2], out[2], ow);
    for (int64_t c = 0; c < in[0]; c++) {
        double sum = 0;
        int64_t at = (int64_t)row * in[0] + c;
        for (int r = 0; r < rows.count; r++) {
            for (int k = 0; k < columns.count; k++) {
                int64_t from = ((n * in[1] + rows.at[r]) * in[2] + columns.at[k]) * in[0] + c;
                double weight = rows.weight[r] * columns.weight[k];
                if (y != NULL) sum += weight * (double)x[from];
                if (dx != NULL) dx[from] += (float)(weight * (double)dy[at]);
            }
        }
        if (y != NULL) y[at] = (float)sum;
    }
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    for (size_t row = first; row < end; row++) pass_pixel(kernel, row, call->input[0], NULL, call->output, NULL);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    memset(call->input_gradient[0], 0, (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, 0))));
    for (size_t row = 0; row < kernel_rows(kernel); row++)
        pass_pixel(kernel, row, NULL, call->output_gradient, NULL, call->input_gradient[0]);
    return PS_OK;
}

const struct kernel_class reference_resize = {.forward_loop = {OVER_ROWS, forward}, .backward_input = backward_input};
