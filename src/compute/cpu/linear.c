/*
 * Linear layers by oneDNN's inner product. x (N, D), weights (features, D), y (N, features); for sequences N also counts the
 * positions.
 *
 * The layout of the weights is that of draft_layout_weights, and both halves of the backward are created for it. Weights that
 * are shared with other nodes lie in plain rows, as they do there, so that the gradients can be added. Where x is a
 * flattened image, its D features are in the order H, W, C, while canonical weights have the order C, H, W: the kernel's
 * weights have the order of x, and from_canonical and to_canonical convert.
 *
 * oneDNN's plain product reorders a part of the weights, of all features at once, into memory of its own: 4 MiB for 4,000
 * features, 15 MiB at most, on each thread, which no plan counts. With many features the forward therefore computes PIECE of
 * them at a time, in about the same time.
 *
 * In bf16 the weights lie in plain rows, too, and all three are products of oneDNN's batch-reduced kind: the layouts in which
 * it keeps pairs of bf16 together differ from those of f32 gradients, and to pack plain rows takes less than to reorder these.
 * The gradient dW = dy' x, or dW' = x' dy, is computed of a transposed copy of its left factor, since these products take
 * longer than the copy to transpose it themselves; where W has more features than columns it therefore lies as D x features, so
 * that the left factor is the smaller one.
 */
#include <dnnl_debug.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"

enum { PIECE = 1024 /* features, for each thread */ };

enum { FORWARD, INPUT, WEIGHTS, TURN, PRIMITIVES };

struct linear {
    struct kernel kernel;
    int64_t piece;            /* features of the forward's plain products; 0: it is `forward` */
    bool by_columns;          /* with pieces, and in bf16: the kernel's weights are D x features in memory */
    struct layout plain, own; /* of the weights, features x D: plain rows; the kernel's */
    struct primitive primitives[PRIMITIVES];
    /* In bf16, at the start of the workspace: of x, where it is given in f32; then of dy', or x'. */
    int64_t rounded_bytes, turned_bytes;
};

static void release(struct kernel *kernel) {
    struct linear *linear = (struct linear *)kernel;
    for (int p = 0; p < PRIMITIVES; p++) primitive_release(&linear->primitives[p]);
    layout_release(&linear->plain);
    layout_release(&linear->own);
}

/* The forward of `n` rows, on `arrays`; `weights` NULL: in the best layout for so many rows. */
static dnnl_primitive_desc_t plan_forward(struct draft *draft, const struct linear *linear, int64_t n,
                                          const struct layout *weights, struct arrays *arrays) {
    int64_t d = kernel_input(&linear->kernel, 0)->dim[0], features = linear->kernel.node->shape.dim[0];
    *arrays = (struct arrays){
        .source = draft_layout(draft, 2, (int64_t[]){n, d}, dnnl_ab),
        .weights = weights != NULL ? weights : draft_layout_weights(draft, n, features, d),
        .bias = linear->kernel.node->attributes.bias ? draft_layout(draft, 1, (int64_t[]){features}, dnnl_a) : NULL,
        .destination = draft_layout(draft, 2, (int64_t[]){n, features}, dnnl_ab),
    };
    dnnl_primitive_desc_t forward = draft_linear(draft, PASS_FORWARD, arrays, linear->kernel.fuses_relu, NULL);
    arrays->weights = draft_layout_of(draft, forward, DNNL_ARG_WEIGHTS);
    return forward;
}

static void make(struct draft *draft, struct linear *linear, const struct shape *layout_shape) {
    int64_t n = (int64_t)shape_rows(kernel_input(&linear->kernel, 0), linear->kernel.samples),
            d = kernel_input(&linear->kernel, 0)->dim[0];
    int64_t features = linear->kernel.node->shape.dim[0],
            layout_rows = (int64_t)shape_rows(layout_shape, linear->kernel.samples);
    bool bias = linear->kernel.node->attributes.bias;
    const bool transposed = linear->kernel.node->attributes.transposed;
    const struct layout *plain = draft_layout(draft, 2, (int64_t[]){features, d}, transposed ? dnnl_ba : dnnl_ab);
    struct arrays arrays;
    dnnl_primitive_desc_t forward =
        plan_forward(draft, linear, layout_rows, kernel_shares(&linear->kernel, 0) ? plain : NULL, &arrays);
    if (n != layout_rows) forward = plan_forward(draft, linear, n, arrays.weights, &arrays);
    dnnl_primitive_desc_t input = draft_linear(draft, PASS_INPUT, &arrays, false, forward);
    dnnl_primitive_desc_t weights = draft_linear(draft, PASS_WEIGHTS, &arrays, false, forward);
    const int64_t piece = (int64_t)PIECE * draft->device->device.threads;
    const struct layout *rows = draft_layout(draft, 2, (int64_t[]){features, d}, dnnl_ab),
                        *columns = draft_layout(draft, 2, (int64_t[]){features, d}, dnnl_ba);
    linear->by_columns = !draft_differ(draft, arrays.weights, columns);
    if (features > piece && draft_is_plain(draft, forward) &&
        (linear->by_columns || !draft_differ(draft, arrays.weights, rows))) {
        linear->piece = piece;
        make_plain_code();
    }
    if (linear->piece == 0)
        draft_primitive(draft, forward, "forward",
                        (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias ? DNNL_ARG_BIAS : 0, 0},
                        &linear->primitives[FORWARD]);
    draft_primitive(draft, input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &linear->primitives[INPUT]);
    draft_primitive(draft, weights, "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, bias ? DNNL_ARG_DIFF_BIAS : 0, 0},
                    &linear->primitives[WEIGHTS]);
    draft_keep(draft, plain, &linear->plain);
    draft_keep(draft, arrays.weights, &linear->own);
    linear->kernel.parameter_bytes[0] = layout_bytes(arrays.weights);
    linear->kernel.workspace_bytes = largest_scratchpad(linear->primitives, PRIMITIVES);
}

/* The products in bf16, y = x W', dx = dy W and dW = dy' x: the same arrays in the same order as in f32. */
static void make_narrow(struct draft *draft, struct linear *linear) {
    const struct kernel *kernel = &linear->kernel;
    const int64_t n = (int64_t)shape_rows(kernel_input(kernel, 0), kernel->samples), d = kernel_input(kernel, 0)->dim[0],
                  features = kernel->node->shape.dim[0];
    const bool transposed = kernel->node->attributes.transposed, bias = kernel->node->attributes.bias,
               by_columns = kernel_shares(kernel, 0) ? transposed : features > d;
    const int64_t rows = by_columns ? d : features, columns = by_columns ? features : d;
    const struct layout *plain = draft_layout(draft, 2, (int64_t[]){features, d}, transposed ? dnnl_ba : dnnl_ab),
                        *own = draft_layout(draft, 2, (int64_t[]){features, d}, by_columns ? dnnl_ba : dnnl_ab),
                        *gradient = draft_layout(draft, 2, (int64_t[]){rows, columns}, dnnl_ab),
                        *biases = bias ? draft_layout(draft, 2, (int64_t[]){1, features}, dnnl_ab) : NULL;
    draft->type = kernel_input(kernel, 0)->type;
    const struct layout *dx = draft_layout(draft, 2, (int64_t[]){n, d}, dnnl_ab);
    draft->type = TYPE_BF16;
    const struct layout *x = draft_layout(draft, 2, (int64_t[]){n, d}, dnnl_ab),
                        *y = draft_layout(draft, 2, (int64_t[]){n, features}, dnnl_ab),
                        *weights = draft_layout(draft, 2, (int64_t[]){features, d}, by_columns ? dnnl_ba : dnnl_ab),
                        *weights_turned = draft_layout(draft, 2, (int64_t[]){d, features}, by_columns ? dnnl_ab : dnnl_ba),
                        *left = draft_layout(draft, 2, (int64_t[]){rows, n}, dnnl_ba),
                        *left_turned = draft_layout(draft, 2, (int64_t[]){rows, n}, dnnl_ab);
    draft_primitive(draft, draft_product_finished(draft, x, weights_turned, biases, y, 1, kernel->fuses_relu), "forward",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias ? DNNL_ARG_BIAS : 0, 0},
                    &linear->primitives[FORWARD]);
    draft_primitive(draft, draft_product(draft, y, weights, dx), "backward",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &linear->primitives[INPUT]);
    draft_primitive(draft, draft_reorder(draft, left, left_turned), "transposition", (int[]){DNNL_ARG_FROM, DNNL_ARG_TO, 0},
                    &linear->primitives[TURN]);
    draft_primitive(draft, draft_product(draft, left_turned, by_columns ? y : x, gradient), "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &linear->primitives[WEIGHTS]);
    draft_keep(draft, plain, &linear->plain);
    draft_keep(draft, own, &linear->own);
    linear->by_columns = by_columns;
    linear->kernel.parameter_bytes[0] = layout_bytes(own);
    linear->rounded_bytes = cpu_rounded_bytes(kernel, 0);
    linear->turned_bytes = (int64_t)memory_align((size_t)layout_bytes(left_turned));
    linear->kernel.workspace_bytes =
        linear->rounded_bytes + linear->turned_bytes + largest_scratchpad(linear->primitives, PRIMITIVES);
}

/* Do features have another order in memory than canonically? */
static bool turned(const struct linear *linear) {
    int64_t channels = kernel_input(&linear->kernel, 0)->image[0];
    return channels > 1 && channels < kernel_input(&linear->kernel, 0)->dim[0];
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct draft draft;
    if (kernel_shares(kernel, 0) && turned((struct linear *)kernel))
        return error_set(error, PS_USAGE,
                         "node '%s' (linear): shares its weights with other nodes, so on cpu it cannot read an image that is "
                         "flattened",
                         kernel->node->name);
    kernel->fuses_relu = kernel->relu_follows;
    draft_start(&draft, kernel->device, kernel->node);
    if (cpu_is_narrow(kernel))
        make_narrow(&draft, (struct linear *)kernel);
    else
        make(&draft, (struct linear *)kernel, cpu_layout_shape(kernel->graph, kernel->node));
    return draft_finish(&draft, error);
}

static VECTOR_CLONES void rectify(size_t count, float *y) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = y[i] < 0 ? 0 : y[i];
}

/* Bias and ReLU of some features. */
struct finish {
    float *y;          /* the first of them in the first row */
    const float *bias; /* NULL: none */
    size_t width, stride;
    bool relu;
};

static void finish_rows(const void *context, size_t first, size_t end) {
    const struct finish *finish = context;
    for (size_t row = first; row < end; row++) {
        float *y = finish->y + row * finish->stride;
        if (finish->bias != NULL) vector_add(finish->width, y, finish->bias);
        if (finish->relu) rectify(finish->width, y);
    }
}

static enum ps_status forward_in_pieces(const struct linear *linear, const struct kernel_call *call) {
    const int64_t n = (int64_t)shape_rows(kernel_input(&linear->kernel, 0), linear->kernel.samples),
                  d = kernel_input(&linear->kernel, 0)->dim[0], features = linear->kernel.node->shape.dim[0];
    for (int64_t first = 0; first < features; first += linear->piece) {
        const int64_t width = features - first < linear->piece ? features - first : linear->piece;
        const float *weights = call->weights[0] + (linear->by_columns ? first : first * d);
        const int threads = cpu_enter(cpu_of(&linear->kernel));
        dnnl_status_t status = dnnl_sgemm('N', linear->by_columns ? 'N' : 'T', n, width, d, 1, call->input[0], d, weights,
                                          linear->by_columns ? features : d, 0, call->output + first, features);
        cpu_leave(threads);
        if (status != dnnl_success)
            return error_set(call->error, PS_FAILED, "forward of node '%s' (linear): oneDNN failed: %s",
                             linear->kernel.node->name, dnnl_status2str(status));
        const struct finish finish = {.y = call->output + first,
                                      .bias = linear->kernel.node->attributes.bias ? call->weights[1] + first : NULL,
                                      .width = (size_t)width,
                                      .stride = (size_t)features,
                                      .relu = linear->kernel.fuses_relu};
        if (finish.bias != NULL || finish.relu) device_parallel(linear->kernel.device, (size_t)n, 16, finish_rows, &finish);
    }
    return PS_OK;
}

static enum ps_status run(struct linear *linear, int which, const struct kernel_call *call, const void *const *addresses) {
    char *scratchpad = (char *)call->workspace + linear->rounded_bytes + linear->turned_bytes;
    return primitive_run(&linear->primitives[which], cpu_of(&linear->kernel), addresses, scratchpad, call->error);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct linear *linear = (struct linear *)kernel;
    if (linear->piece > 0) return forward_in_pieces(linear, call);
    const float *x = cpu_rounded(kernel, 0, call->input[0], call->workspace);
    return run(linear, FORWARD, call, (const void *[]){x, call->weights[0], call->output, call->weights[1]});
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const void *addresses[] = {call->output_gradient, call->weights[0], call->input_gradient[0]};
    return run((struct linear *)kernel, INPUT, call, addresses);
}

static enum ps_status narrow_gradient(struct linear *linear, const struct kernel_call *call, const float *x) {
    const struct kernel *kernel = &linear->kernel;
    const float *dy = call->output_gradient;
    const void *turned = (char *)call->workspace + linear->rounded_bytes;
    TRY(run(linear, TURN, call, (const void *[]){linear->by_columns ? x : dy, turned}));
    TRY(run(linear, WEIGHTS, call, (const void *[]){turned, linear->by_columns ? dy : x, call->gradients[0]}));
    if (call->gradients[1] != NULL)
        cpu_sum_rows(kernel->device, kernel_rows(kernel), kernel_features(kernel), TYPE_BF16, dy, call->gradients[1]);
    return PS_OK;
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct linear *linear = (struct linear *)kernel;
    if (cpu_is_narrow(kernel)) return narrow_gradient(linear, call, cpu_rounded(kernel, 0, call->input[0], call->workspace));
    return run(linear, WEIGHTS, call,
               (const void *[]){call->input[0], call->output_gradient, call->gradients[0], call->gradients[1]});
}

/* Converts a row of D features between C, H, W (canonical) and H, W, C (in memory). */
static void change_order(const struct linear *linear, const float *from, float *to, bool from_canonical) {
    int64_t channels = kernel_input(&linear->kernel, 0)->image[0], pixels = kernel_input(&linear->kernel, 0)->dim[0] / channels;
    for (int64_t c = 0; c < channels; c++) {
        for (int64_t p = 0; p < pixels; p++) {
            int64_t canonical = c * pixels + p, memory = p * channels + c;
            if (from_canonical)
                to[memory] = from[canonical];
            else
                to[canonical] = from[memory];
        }
    }
}

/* Converts plain rows between the order in memory and the canonical one, row by row, without memory for all of them. */
static enum ps_status make_canonical(const struct linear *linear, float *weights, struct ps_error *error) {
    const size_t d = (size_t)kernel_input(&linear->kernel, 0)->dim[0];
    float *row;
    TRY(memory_new(&row, d, "one row of weights", error));
    for (int64_t r = 0; r < linear->kernel.node->shape.dim[0]; r++) {
        memcpy(row, weights + (size_t)r * d, d * sizeof *row);
        change_order(linear, row, weights + (size_t)r * d, false);
    }
    free(row);
    return PS_OK;
}

static enum ps_status copy_bias(const struct linear *linear, const float *from, float *to) {
    memcpy(to, from, (size_t)linear->kernel.parameter_bytes[1]);
    return PS_OK;
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    if (parameter != 0) return copy_bias(linear, canonical, own);
    if (!turned(linear)) return layout_convert(cpu_of(&linear->kernel), &linear->plain, canonical, &linear->own, own, error);
    const int64_t d = kernel_input(&linear->kernel, 0)->dim[0];
    struct memory_block block; /* freed before training begins */
    TRY(memory_block_take(&block, (size_t)layout_bytes(&linear->plain), "the weights of a linear layer", error));
    float *rows = memory_block_carve(&block, block.size);
    for (int64_t r = 0; r < linear->kernel.node->shape.dim[0]; r++) change_order(linear, canonical + r * d, rows + r * d, true);
    enum ps_status status = layout_convert(cpu_of(&linear->kernel), &linear->plain, rows, &linear->own, own, error);
    memory_block_release(&block);
    return status;
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    if (parameter != 0) return copy_bias(linear, own, canonical);
    TRY(layout_convert(cpu_of(&linear->kernel), &linear->own, own, &linear->plain, canonical, error));
    return turned(linear) ? make_canonical(linear, canonical, error) : PS_OK;
}

const struct kernel_class cpu_linear = {
    .size = sizeof(struct linear),
    .native = cpu_multiplies_narrow,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .from_canonical = from_canonical,
    .to_canonical = to_canonical,
};
