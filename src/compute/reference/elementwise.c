/* Elementwise operators: ReLU, add, dropout. */
#include "compute/reference/reference.h"

static int64_t elements_of(const struct kernel *kernel) {
    return kernel->samples * shape_elements(&reference_of(kernel)->output);
}

/* -------------------------------------------------------------------- relu */

/* Written so that a NaN stays a NaN. */
static enum ps_status relu_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int64_t i = 0; i < elements_of(kernel); i++) call->output[i] = call->input[0][i] < 0 ? 0 : call->input[0][i];
    return PS_OK;
}

static enum ps_status relu_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        call->input_gradient[0][i] = call->output[i] > 0 ? call->output_gradient[i] : 0;
    }
    return PS_OK;
}

const struct kernel_class reference_relu = {
    .create = reference_create, .destroy = reference_destroy, .forward = relu_forward, .backward_input = relu_backward};

/* --------------------------------------------------------------------- add */

static enum ps_status add_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    int count = reference_of(kernel)->input_count;
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        double sum = 0;
        for (int j = 0; j < count; j++) sum += (double)call->input[j][i];
        call->output[i] = (float)sum;
    }
    return PS_OK;
}

static enum ps_status add_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    for (int j = 0; j < reference_of(kernel)->input_count; j++) {
        if (call->input_gradient[j] == NULL) continue;
        for (int64_t i = 0; i < elements_of(kernel); i++) call->input_gradient[j][i] = call->output_gradient[i];
    }
    return PS_OK;
}

const struct kernel_class reference_add = {
    .create = reference_create, .destroy = reference_destroy, .forward = add_forward, .backward_input = add_backward};

/* ----------------------------------------------------------------- dropout */

/* y = x * mask / (1 - rate); the backward is the same with the gradients. */
static void drop(const struct kernel *kernel, const struct kernel_call *call, const float *from, float *to) {
    float rate = reference_of(kernel)->attributes->rate, factor = 1 / (1 - rate);
    for (int64_t i = 0; i < elements_of(kernel); i++) {
        bool kept = !call->training || random_uniform(call->key, (uint64_t)i) >= rate;
        to[i] = kept ? from[i] * (call->training ? factor : 1) : 0;
    }
}

static enum ps_status dropout_forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    drop(kernel, call, call->input[0], call->output);
    return PS_OK;
}

static enum ps_status dropout_backward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    (void)error;
    drop(kernel, call, call->output_gradient, call->input_gradient[0]);
    return PS_OK;
}

const struct kernel_class reference_dropout = {
    .create = reference_create, .destroy = reference_destroy, .forward = dropout_forward, .backward_input = dropout_backward};
