/* Local response normalisation: x, y (N, H, W, C), s[c] = shift + alpha / window sum of x^2 over the window around c.
 *
 *     y[c] = x[c] s[c]^-beta
 *     dx[j] = dy[j] s[j]^-beta - 2 alpha beta / window x[j] sum over the c whose window has j of dy[c] x[c] s[c]^(-beta - 1)
 */
#include <math.h>

#include "compute/reference/reference.h"

/* Channels [first, end) of the window around `channel`. */
static void window_around(const struct reference_kernel *k, int64_t channel, int64_t *first, int64_t *end) {
    int64_t before = k->attributes->window / 2, after = (k->attributes->window - 1) / 2, channels = k->output.dim[0];
    *first = channel < before ? 0 : channel - before;
    *end = channel + after + 1 > channels ? channels : channel + after + 1;
}

static double scale_of(const struct reference_kernel *k, const float *x, int64_t channel) {
    const struct attributes *a = k->attributes;
    int64_t first, end;
    double sum = 0;
    window_around(k, channel, &first, &end);
    for (int64_t c = first; c < end; c++) sum += (double)x[c] * (double)x[c];
    return (double)a->shift + (double)a->alpha / a->window * sum;
}

static int64_t rows_of(const struct kernel *kernel) {
    const struct shape *shape = &reference_of(kernel)->output;
    return kernel->samples * shape_elements(shape) / shape->dim[0];
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    int64_t channels = k->output.dim[0];
    for (int64_t row = 0; row < rows_of(kernel); row++) {
        const float *x = call->input[0] + row * channels;
        for (int64_t c = 0; c < channels; c++)
            call->output[row * channels + c] = (float)((double)x[c] * pow(scale_of(k, x, c), -(double)k->attributes->beta));
    }
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    const struct reference_kernel *k = reference_of(kernel);
    int64_t channels = k->output.dim[0];
    double alpha = (double)k->attributes->alpha, beta = (double)k->attributes->beta;
    for (int64_t row = 0; row < rows_of(kernel); row++) {
        const float *x = call->input[0] + row * channels, *dy = call->output_gradient + row * channels;
        for (int64_t j = 0; j < channels; j++) {
            double sum = 0;
            for (int64_t c = 0; c < channels; c++) {
                int64_t first, end;
                window_around(k, c, &first, &end);
                if (j < first || j >= end) continue;
                sum += (double)dy[c] * (double)x[c] * pow(scale_of(k, x, c), -beta - 1);
            }
            double own = (double)dy[j] * pow(scale_of(k, x, j), -beta);
            call->input_gradient[0][row * channels + j] =
                (float)(own - 2 * alpha * beta / k->attributes->window * (double)x[j] * sum);
        }
    }
    return PS_OK;
}

const struct kernel_class reference_local_response_norm = {
    .create = reference_create,
    .destroy = reference_destroy,
    .forward = forward,
    .backward_input = backward_input,
};
