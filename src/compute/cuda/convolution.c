/*
 * Convolution and deconvolution. x (N, H, W, C), weights (O, KH, KW, C / groups), y (N, OH, OW, O). A deconvolution goes from y
 * to x: its forward is the gradient of a convolution's input, its gradient of the input a convolution. The names below are the
 * convolution's.
 *
 * Weights that other nodes have, too, are kept in canonical order, (O, C / groups, KH, KW): they are turned into the workspace
 * for each call, and their gradient back. Bias and ReLU are one more launch over the output.
 */
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"

enum { PASSES = CONVOLUTION_WEIGHTS + 1 };

struct convolution {
    struct cuda_kernel base;
    bool turned;         /* a deconvolution */
    bool canonical;      /* the weights' order, which is another */
    int64_t weight_room; /* at the start of the workspace, for turned weights */
    struct cuda_convolution *passes[PASSES];
};

static const struct cuda_launch add_bias = {"convolution_bias", GRID_FOURS, NULL}, turn = {"convolution_turn", GRID_ONES, NULL},
                                turn_back = {"convolution_turn_back", GRID_ONES, NULL};
static const struct cuda_launch sum_pixels[] = {
    {"column_partial", GRID_COLUMNS, NULL}, {"column_finish", GRID_TILES, NULL}, {0}};

static bool has_bias(const struct kernel *kernel) { return kernel->node->attributes.bias; }

/* Output channels, positions of the kernel, and input channels of a group, of the weights. */
static void sides_of(const struct kernel *kernel, int64_t sides[3]) {
    const struct attributes *a = &kernel->node->attributes;
    const bool turned = kernel->node->id == OPERATOR_DECONVOLUTION;
    const int64_t in = kernel_input(kernel, 0)->dim[0], out = kernel->node->shape.dim[0];
    sides[0] = turned ? in : out;
    sides[1] = (int64_t)a->kernel_h * a->kernel_w;
    sides[2] = (turned ? out : in) / a->groups;
}

static struct cuda_convolution_shape shape_of(const struct convolution *c, enum cuda_convolution_pass pass) {
    const struct kernel *kernel = &c->base.kernel;
    const struct attributes *a = &kernel->node->attributes;
    const struct shape *input = kernel_input(kernel, 0), *output = &kernel->node->shape, *x = c->turned ? output : input,
                       *y = c->turned ? input : output;
    const enum number_type weights = kernel->graph->parameters[kernel->node->parameter_first].copy;
    struct cuda_convolution_shape s = {.pass = pass,
                                       .samples = kernel->samples,
                                       .kernel = {a->kernel_h, a->kernel_w},
                                       .stride = {a->stride_h, a->stride_w},
                                       .pad_before = {a->pad_h, a->pad_w},
                                       .pad_after = {a->pad_h + a->pad_extra_h, a->pad_w + a->pad_extra_w},
                                       .dilation = {a->dilation_h, a->dilation_w},
                                       .groups = a->groups,
                                       .x_type = x->type,
                                       .w_type = pass == CONVOLUTION_WEIGHTS ? TYPE_F32 : weights,
                                       .y_type = y->type};
    memcpy(s.x, x->dim, sizeof s.x);
    memcpy(s.y, y->dim, sizeof s.y);
    return s;
}

static void define(const struct kernel *kernel, struct text *out) {
    text_add(out, "#define RELU %d\n", kernel->relu_follows ? 1 : 0);
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    int64_t sides[3], most = 0;
    sides_of(kernel, sides);
    c->turned = kernel->node->id == OPERATOR_DECONVOLUTION;
    c->canonical = kernel_shares(kernel, 0) && sides[1] > 1 && sides[2] > 1;
    kernel->fuses_relu = kernel->relu_follows;
    TRY(cuda_prepare(kernel, error));
    for (int pass = 0; pass < PASSES; pass++) {
        const struct cuda_convolution_shape shape = shape_of(c, (enum cuda_convolution_pass)pass);
        TRY(cuda_convolution_create(cuda_device_of(kernel), &shape, &c->passes[pass], error));
        most = number_larger(most, cuda_convolution_workspace(c->passes[pass]));
    }
    if (c->canonical) c->weight_room = (int64_t)memory_align((size_t)kernel->parameter_bytes[0]);
    kernel->workspace_bytes = c->weight_room + most;
    if (has_bias(kernel)) cuda_take_columns(kernel, (int64_t)kernel_rows(kernel), (int64_t)kernel_features(kernel), 1);
    return PS_OK;
}

static void release(struct kernel *kernel) {
    struct convolution *c = (struct convolution *)kernel;
    for (int pass = 0; pass < PASSES; pass++) cuda_convolution_destroy(c->passes[pass]);
}

/* One pass. x and y are the convolution's; the weights and their gradient are found in the call. */
static enum ps_status run(struct kernel *kernel, const struct kernel_call *call, enum cuda_convolution_pass pass, const void *x,
                          const void *y) {
    struct convolution *c = (struct convolution *)kernel;
    const bool writes = pass == CONVOLUTION_WEIGHTS;
    void *given = writes ? (void *)call->gradients[0] : (void *)(uintptr_t)call->weights[0],
         *weights = c->canonical ? call->workspace : given;
    int64_t sides[3];
    sides_of(kernel, sides);
    const struct cuda_extra extra = {
        .count = sides[0] * sides[1] * sides[2], .more = {given, weights}, .number = {sides[1], sides[2]}};
    if (c->canonical && !writes) TRY(cuda_run(kernel, call, &turn, &extra));
    TRY(cuda_convolution_run(cuda_device_of(kernel), c->passes[pass], (void *)(uintptr_t)x, weights, (void *)(uintptr_t)y,
                             (char *)call->workspace + c->weight_room, call->error));
    return c->canonical && writes ? cuda_run(kernel, call, &turn_back, &extra) : PS_OK;
}

static enum ps_status finish(struct kernel *kernel, const struct kernel_call *call) {
    return has_bias(kernel) || kernel->fuses_relu ? cuda_run(kernel, call, &add_bias, NULL) : PS_OK;
}

static enum ps_status gradients(struct kernel *kernel, const struct kernel_call *call, const void *x, const void *y) {
    if (call->gradients[0] != NULL) TRY(run(kernel, call, CONVOLUTION_WEIGHTS, x, y));
    if (!has_bias(kernel) || call->gradients[1] == NULL) return PS_OK;
    return cuda_run_all(kernel, call, sum_pixels, NULL);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    TRY(run(kernel, call, CONVOLUTION_FORWARD, call->input[0], call->output));
    return finish(kernel, call);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    if (call->input_gradient[0] == NULL) return PS_OK;
    return run(kernel, call, CONVOLUTION_INPUT, call->input_gradient[0], call->output_gradient);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    return gradients(kernel, call, call->input[0], call->output_gradient);
}

static enum ps_status turned_forward(struct kernel *kernel, const struct kernel_call *call) {
    TRY(run(kernel, call, CONVOLUTION_INPUT, call->output, call->input[0]));
    return finish(kernel, call);
}

static enum ps_status turned_backward_input(struct kernel *kernel, const struct kernel_call *call) {
    if (call->input_gradient[0] == NULL) return PS_OK;
    return run(kernel, call, CONVOLUTION_FORWARD, call->output_gradient, call->input_gradient[0]);
}

static enum ps_status turned_backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    return gradients(kernel, call, call->output_gradient, call->input[0]);
}

/* -------------------------------------------------------------------- parameters */

/* Copies `count` matrices, turned: (rows, columns) to (columns, rows). */
static void turn_matrices(int64_t count, int64_t rows, int64_t columns, const float *from, float *to) {
    for (int64_t m = 0; m < count; m++, from += rows * columns, to += rows * columns) {
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t c = 0; c < columns; c++) to[c * rows + r] = from[r * columns + c];
        }
    }
}

static enum ps_status convert(const struct kernel *kernel, int parameter, bool to_own, const float *from, float *to) {
    int64_t sides[3];
    sides_of(kernel, sides);
    if (parameter > 0 || kernel_shares(kernel, 0))
        memcpy(to, from, (size_t)kernel->parameter_bytes[parameter]);
    else
        turn_matrices(sides[0], sides[to_own ? 2 : 1], sides[to_own ? 1 : 2], from, to);
    return PS_OK;
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    (void)error;
    return convert(kernel, parameter, true, canonical, own);
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    (void)error;
    return convert(kernel, parameter, false, own, canonical);
}

#define CONVOLUTION(forward_of, backward_input_of, backward_weight_of)                                                         \
    {                                                                                                                          \
        .type = {.size = sizeof(struct convolution),                                                                           \
                 .native = cuda_native,                                                                                        \
                 .prepare = prepare,                                                                                           \
                 .release = release,                                                                                           \
                 .forward = forward_of,                                                                                        \
                 .backward_input = backward_input_of,                                                                          \
                 .backward_weight = backward_weight_of,                                                                        \
                 .from_canonical = from_canonical,                                                                             \
                 .to_canonical = to_canonical},                                                                                \
        .source = "convolution", .define = define                                                                              \
    }
const struct cuda_class cuda_convolution = CONVOLUTION(forward, backward_input, backward_weight),
                        cuda_deconvolution = CONVOLUTION(turned_forward, turned_backward_input, turned_backward_weight);
