/* Local response normalisation: x, y (N, H, W, C), s[c] = shift + alpha / window sum of x^2 over the window around c.
 *
 *     y[c] = x[c] s[c]^-beta
 *     dx[j] = dy[j] s[j]^-beta - 2 alpha beta / window x[j] sum over the c whose window has j of dy[c] x[c] s[c]^(-beta - 1)
 */
#include <math.h>

#include "compute/reference/reference.h"

/* Channels [first, end) of the window around `channel`. */
static void window_around(const struct kernel *k, int64_t channel, int64_t *first, int64_t *end) {
    int64_t before = k->node->attributes.window / 2, after = (k->node->attributes.window - 1) / 2,
            channels = k->node->shape.dim[0];
    *first = channel < before ? 0 : channel - before;
    *end = channel + after + 1 > channels ? channels : channel + after + 1;
}

static double scale_of(const struct kernel *k, const float *x, int64_t channel) {
    const struct attributes *a = &k->node->attributes;
    int64_t first, end;
    double sum = 0;
    window_around(k, channel, &first, &end);
    for (int64_t c = first; c < end; c++) sum += (double)x[c] * (double)x[c];
    return (double)a->shift + (double)a->alpha / a->window * sum;
}

static void forward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t channels = kernel_features(kernel);
    double beta = (double)kernel->node->attributes.beta;
    for (size_t i = first; i < end; i++) {
        const float *x = call->input[0] + i / channels * channels;
        int64_t c = (int64_t)(i % channels);
        call->output[i] = (float)((double)x[c] * pow(scale_of(kernel, x, c), -beta));
    }
}

static void backward(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    const struct attributes *a = &kernel->node->attributes;
    size_t channels = kernel_features(kernel);
    double alpha = (double)a->alpha, beta = (double)a->beta;
    for (size_t i = first; i < end; i++) {
        const float *x = call->input[0] + i / channels * channels, *dy = call->output_gradient + i / channels * channels;
        int64_t j = (int64_t)(i % channels);
        double sum = 0;
        for (int64_t c = 0; c < (int64_t)channels; c++) {
            int64_t begin, stop;
            window_around(kernel, c, &begin, &stop);
            if (j < begin || j >= stop) continue;
            sum += (double)dy[c] * (double)x[c] * pow(scale_of(kernel, x, c), -beta - 1);
        }
        double own = (double)dy[j] * pow(scale_of(kernel, x, j), -beta);
        call->input_gradient[0][i] = (float)(own - 2 * alpha * beta / a->window * (double)x[j] * sum);
    }
}

const struct kernel_class reference_local_response_norm = {.forward_loop = {OVER_ELEMENTS, forward},
                                                           .backward_input_loop = {OVER_ELEMENTS, backward}};
