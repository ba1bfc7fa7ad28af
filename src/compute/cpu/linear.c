/*
 * Linear layers by oneDNN's inner product. x (N, D), weights (features, D), y (N, features); of a sequence N counts its
 * positions too.
 *
 * The layout of the weights is that of draft_layout_weights, and both backward parts are made for it; weights that are an
 * embedding's, too, lie in rows as they do there, so that the two can be added up. Where x was flattened from an image, memory
 * holds its D features in the order H, W, C while the canonical weights count them C, H, W: the kernel's weights are those of
 * the memory's order, and import and export change the order.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "compute/cpu/cpu.h"

struct linear {
    struct kernel kernel;
    struct cpu_device *device;
    const struct node *node;
    struct shape input_shape;
    bool tied;                /* the weights are an embedding's, too */
    struct layout plain, own; /* of the weights: features x D in memory's order; the kernel's */
    struct primitive forward, input, weights;
};

static void destroy(struct kernel *kernel) {
    struct linear *linear = (struct linear *)kernel;
    primitive_release(&linear->forward);
    primitive_release(&linear->input);
    primitive_release(&linear->weights);
    layout_release(&linear->plain);
    layout_release(&linear->own);
    free(linear);
}

static void make(struct draft *draft, struct linear *linear) {
    int64_t n = (int64_t)shape_rows(&linear->input_shape, linear->kernel.samples), d = linear->input_shape.dim[0];
    int64_t features = linear->node->shape.dim[0];
    bool bias = linear->node->attributes.bias;
    const struct layout *plain = draft_layout(draft, 2, (int64_t[]){features, d}, dnnl_ab);
    struct arrays arrays = {
        .source = draft_layout(draft, 2, (int64_t[]){n, d}, dnnl_ab),
        .weights = linear->tied ? plain : draft_layout_weights(draft, n, features, d),
        .bias = bias ? draft_layout(draft, 1, (int64_t[]){features}, dnnl_a) : NULL,
        .destination = draft_layout(draft, 2, (int64_t[]){n, features}, dnnl_ab),
    };
    dnnl_primitive_desc_t forward = draft_linear(draft, PASS_FORWARD, &arrays, linear->kernel.fuses_relu, NULL);
    arrays.weights = draft_layout_of(draft, forward, DNNL_ARG_WEIGHTS);
    dnnl_primitive_desc_t input = draft_linear(draft, PASS_INPUT, &arrays, false, forward);
    dnnl_primitive_desc_t weights = draft_linear(draft, PASS_WEIGHTS, &arrays, false, forward);
    draft_primitive(draft, forward, "forward",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias ? DNNL_ARG_BIAS : 0, 0}, &linear->forward);
    draft_primitive(draft, input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &linear->input);
    draft_primitive(draft, weights, "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, bias ? DNNL_ARG_DIFF_BIAS : 0, 0},
                    &linear->weights);
    draft_keep(draft, plain, &linear->plain);
    draft_keep(draft, arrays.weights, &linear->own);
    linear->kernel.parameter_bytes[0] = layout_bytes(arrays.weights);
    linear->kernel.parameter_bytes[1] = bias ? features * (int64_t)sizeof(float) : 0;
    const struct primitive *all[] = {&linear->forward, &linear->input, &linear->weights};
    for (int i = 0; i < 3; i++) {
        int64_t bytes = all[i]->scratchpad_bytes;
        if (bytes > linear->kernel.workspace_bytes) linear->kernel.workspace_bytes = bytes;
    }
}

static enum ps_status create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    struct linear *linear = calloc(1, sizeof *linear);
    if (linear == NULL) return error_memory(error, "a kernel", sizeof *linear);
    linear->kernel = (struct kernel){.class = device->class->kernels[node->id], .samples = samples, .fuses_relu = relu_follows};
    linear->device = (struct cpu_device *)device;
    linear->node = node;
    linear->input_shape = graph->nodes[node->inputs[0]].shape;
    linear->tied = graph->parameters[node->parameter_first].tied;
    struct draft draft;
    draft_start(&draft, device, node);
    make(&draft, linear);
    enum ps_status status = draft_finish(&draft, error);
    if (status != PS_OK)
        destroy(&linear->kernel);
    else
        *kernel = &linear->kernel;
    return status;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    const void *addresses[] = {call->input[0], call->weights[0], call->output, call->weights[1]};
    return primitive_run(&linear->forward, linear->device, addresses, call->workspace, error);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    const void *addresses[] = {call->output_gradient, call->weights[0], call->input_gradient[0]};
    return primitive_run(&linear->input, linear->device, addresses, call->workspace, error);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    const void *addresses[] = {call->input[0], call->output_gradient, call->gradients[0], call->gradients[1]};
    return primitive_run(&linear->weights, linear->device, addresses, call->workspace, error);
}

/* Between rows of D features counted C, H, W (canonical) and H, W, C (as memory has them). */
static void change_order(const struct linear *linear, const float *from, float *to, bool from_canonical) {
    int64_t d = linear->input_shape.dim[0], channels = linear->input_shape.image[0];
    int64_t pixels = channels > 0 ? d / channels : d;
    if (channels == 0) channels = 1;
    for (int64_t row = 0; row < linear->node->shape.dim[0]; row++) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t p = 0; p < pixels; p++) {
                int64_t canonical = row * d + c * pixels + p, memory = row * d + p * channels + c;
                if (from_canonical)
                    to[memory] = from[canonical];
                else
                    to[canonical] = from[memory];
            }
        }
    }
}

/* Memory for the weights in plain rows of memory's order, to be released. */
static enum ps_status take_rows(const struct linear *linear, struct memory_block *block, float **rows, struct ps_error *error) {
    size_t bytes = (size_t)layout_bytes(&linear->plain);
    TRY(memory_block_take(block, bytes, "the weights of a linear layer", error));
    *rows = memory_block_carve(block, bytes);
    return PS_OK;
}

static void copy_bias(const struct linear *linear, const float *from, float *to) {
    for (int64_t i = 0; i < linear->node->shape.dim[0]; i++) to[i] = from[i];
}

static enum ps_status import_parameter(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                       struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    if (parameter != 0) {
        copy_bias(linear, canonical, own);
        return PS_OK;
    }
    struct memory_block block;
    float *rows;
    TRY(take_rows(linear, &block, &rows, error));
    change_order(linear, canonical, rows, true);
    enum ps_status status = layout_convert(linear->device, &linear->plain, rows, &linear->own, own, error);
    memory_block_release(&block);
    return status;
}

static enum ps_status export_parameter(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                       struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    if (parameter != 0) {
        copy_bias(linear, own, canonical);
        return PS_OK;
    }
    struct memory_block block;
    float *rows;
    TRY(take_rows(linear, &block, &rows, error));
    enum ps_status status = layout_convert(linear->device, &linear->own, own, &linear->plain, rows, error);
    if (status == PS_OK) change_order(linear, rows, canonical, false);
    memory_block_release(&block);
    return status;
}

const struct kernel_class cpu_linear = {
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .import = import_parameter,
    .export = export_parameter,
};
