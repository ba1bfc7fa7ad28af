/*
 * Convolution by oneDNN. x (N, H, W, C), weights (O, C / groups, kernel_h, kernel_w) in blocks, y (N, OH, OW, O).
 *
 * The layout. The weights have the layout in which their gradient is computed, so that gradients need no reordering, and the
 * forward is created for it. (If the forward of oneDNN 2.6 chooses freely with AVX-512, it takes another layout: up to a tenth
 * faster on large images, two to four times slower on small ones.) The gradient of the input needs the blocks transposed: the
 * weights are reordered into the workspace at each call, which takes under one percent of a VGG-16's step. There, too, small
 * images do not get the layout that oneDNN 3.x would choose.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/taps.h"

struct convolution {
    struct kernel kernel;
    struct cpu_device *device;
    const struct node *node;
    struct layout canonical, own; /* of the weights */
    struct primitive forward, input, weights;
    struct primitive input_reorder;  /* from the kernel's layout to what `input` reads, where they differ */
    struct primitive weight_reorder; /* from what `weights` writes to the kernel's layout, where they differ */
    int64_t reordered_bytes[2];      /* sizes of the reordered weights, at the start of the workspace */
    struct taps *taps;               /* computes the gradient of the weights instead, where not NULL */
};

static void destroy(struct kernel *kernel) {
    struct convolution *c = (struct convolution *)kernel;
    struct primitive *primitives[] = {&c->forward, &c->input, &c->weights, &c->input_reorder, &c->weight_reorder};
    for (int i = 0; i < 5; i++) primitive_release(primitives[i]);
    layout_release(&c->canonical);
    layout_release(&c->own);
    taps_destroy(c->taps);
    free(c);
}

/* Weights (O, C, kernel_h, kernel_w), or (groups, O / groups, C / groups, kernel_h, kernel_w), which is the same memory. */
static const struct layout *weights_layout(struct draft *draft, const struct attributes *a, int64_t in_channels, bool any) {
    int64_t dims[5] = {a->groups, a->channels / a->groups, in_channels / a->groups, a->kernel_h, a->kernel_w};
    if (a->groups == 1) return draft_layout(draft, 4, dims + 1, any ? dnnl_format_tag_any : dnnl_oihw);
    return draft_layout(draft, 5, dims, any ? dnnl_format_tag_any : dnnl_goihw);
}

struct plans {
    dnnl_primitive_desc_t forward, input, weights;
    const struct layout *canonical, *own;
};

/* Images with so short rows that oneDNN's row-by-row kernels (brgconv) are slow. */
static bool small_images(const struct node *node) { return node->shape.dim[1] * node->shape.dim[2] <= 16; }

static dnnl_primitive_desc_t plan_input(struct draft *draft, const struct node *node, struct arrays arrays, int64_t in_channels,
                                        const struct window *window, const_dnnl_primitive_desc_t hint) {
    const struct attributes *a = &node->attributes;
    dnnl_primitive_desc_t favourite = draft_convolution(draft, PASS_INPUT, &arrays, window, false, hint);
    if (a->groups > 1 || !small_images(node)) return favourite;
    int64_t dims[4] = {a->channels, in_channels, a->kernel_h, a->kernel_w};
    arrays.weights = draft_layout(draft, 4, dims, dnnl_OIhw16o16i);
    dnnl_primitive_desc_t blocked = draft_convolution(draft, PASS_INPUT, &arrays, window, false, hint);
    return draft_slow(draft, blocked) ? favourite : blocked;
}

static struct plans make_plans(struct draft *draft, const struct convolution *c, const struct shape *in) {
    const struct attributes *a = &c->node->attributes;
    const int64_t *out = c->node->shape.dim, n = c->kernel.samples;
    const struct layout *any = weights_layout(draft, a, in->dim[0], true);
    struct window window = window_of(a);
    struct arrays arrays = {
        .source = draft_layout(draft, 4, (int64_t[]){n, in->dim[0], in->dim[1], in->dim[2]}, dnnl_nhwc),
        .weights = any,
        .bias = a->bias ? draft_layout(draft, 1, (int64_t[]){out[0]}, dnnl_a) : NULL,
        .destination = draft_layout(draft, 4, (int64_t[]){n, out[0], out[1], out[2]}, dnnl_nhwc),
    };
    struct plans plans = {.canonical = weights_layout(draft, a, in->dim[0], false)};
    dnnl_primitive_desc_t favourite = draft_convolution(draft, PASS_FORWARD, &arrays, &window, c->kernel.fuses_relu, NULL);
    plans.weights = draft_convolution(draft, PASS_WEIGHTS, &arrays, &window, false, favourite);
    plans.input = plan_input(draft, c->node, arrays, in->dim[0], &window, favourite);
    plans.own = arrays.weights = draft_layout_of(draft, plans.weights, DNNL_ARG_DIFF_WEIGHTS);
    plans.forward = draft_convolution(draft, PASS_FORWARD, &arrays, &window, c->kernel.fuses_relu, NULL);
    if (draft_slow(draft, plans.forward) && !draft_slow(draft, favourite)) {
        plans.forward = favourite;
        plans.own = draft_layout_of(draft, favourite, DNNL_ARG_WEIGHTS);
    }
    return plans;
}

/* Creates `primitive` as the reorder from one layout to the other, if they differ; returns the bytes of `sized`, or 0. */
static int64_t make_reorder(struct draft *draft, const struct layout *from, const struct layout *to, const struct layout *sized,
                            struct primitive *primitive) {
    if (!draft_differ(draft, from, to)) return 0;
    draft_primitive(draft, draft_reorder(draft, from, to), "reordering of weights", (int[]){DNNL_ARG_FROM, DNNL_ARG_TO, 0},
                    primitive);
    return (int64_t)memory_align((size_t)layout_bytes(sized));
}

static int64_t largest(const int64_t *values, int count) {
    int64_t most = 0;
    for (int i = 0; i < count; i++) most = values[i] > most ? values[i] : most;
    return most;
}

static void make(struct draft *draft, struct convolution *c, const struct shape *in) {
    struct plans plans = make_plans(draft, c, in);
    bool bias = c->node->attributes.bias;
    draft_primitive(draft, plans.forward, "forward",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias ? DNNL_ARG_BIAS : 0, 0}, &c->forward);
    draft_primitive(draft, plans.input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &c->input);
    const struct layout *wanted = draft_layout_of(draft, plans.input, DNNL_ARG_WEIGHTS);
    c->reordered_bytes[0] = make_reorder(draft, plans.own, wanted, wanted, &c->input_reorder);
    if (taps_fit(c->node, in, c->kernel.samples)) {
        c->taps = taps_make(draft, c->node, in, c->kernel.samples, plans.own);
    } else {
        draft_primitive(draft, plans.weights, "gradient of the weights",
                        (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, bias ? DNNL_ARG_DIFF_BIAS : 0, 0},
                        &c->weights);
        const struct layout *made = draft_layout_of(draft, plans.weights, DNNL_ARG_DIFF_WEIGHTS);
        c->reordered_bytes[1] = make_reorder(draft, made, plans.own, made, &c->weight_reorder);
    }
    draft_keep(draft, plans.canonical, &c->canonical);
    draft_keep(draft, plans.own, &c->own);
    c->kernel.parameter_bytes[0] = layout_bytes(plans.own);
    c->kernel.parameter_bytes[1] = bias ? c->node->shape.dim[0] * (int64_t)sizeof(float) : 0;
    int64_t needs[] = {c->forward.scratchpad_bytes,
                       c->reordered_bytes[0] + c->input_reorder.scratchpad_bytes,
                       c->reordered_bytes[0] + c->input.scratchpad_bytes,
                       c->reordered_bytes[1] + c->weights.scratchpad_bytes,
                       c->reordered_bytes[1] + c->weight_reorder.scratchpad_bytes,
                       c->taps != NULL ? taps_workspace(c->taps) : 0};
    c->kernel.workspace_bytes = largest(needs, sizeof needs / sizeof *needs);
}

static enum ps_status create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    struct convolution *c = calloc(1, sizeof *c);
    if (c == NULL) return error_memory(error, "a kernel", sizeof *c);
    c->kernel = (struct kernel){.type = device->type->kernels[node->id], .samples = samples, .fuses_relu = relu_follows};
    c->device = (struct cpu_device *)device;
    c->node = node;
    struct draft draft;
    draft_start(&draft, device, node);
    make(&draft, c, &graph->nodes[node->inputs[0]].shape);
    enum ps_status status = draft_finish(&draft, error);
    if (status != PS_OK)
        destroy(&c->kernel);
    else
        *kernel = &c->kernel;
    return status;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    const void *addresses[] = {call->input[0], call->weights[0], call->output, call->weights[1]};
    return primitive_run(&c->forward, c->device, addresses, call->workspace, error);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    const void *weights = call->weights[0];
    char *scratchpad = (char *)call->workspace + c->reordered_bytes[0];
    if (c->input_reorder.handle != NULL) {
        const void *addresses[] = {weights, call->workspace};
        TRY(primitive_run(&c->input_reorder, c->device, addresses, scratchpad, error));
        weights = call->workspace;
    }
    const void *addresses[] = {call->output_gradient, weights, call->input_gradient[0]};
    return primitive_run(&c->input, c->device, addresses, scratchpad, error);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    if (c->taps != NULL) return taps_run(c->taps, call, error);
    bool reorders = c->weight_reorder.handle != NULL;
    const void *made = reorders ? call->workspace : call->gradients[0];
    char *scratchpad = (char *)call->workspace + c->reordered_bytes[1];
    const void *addresses[] = {call->input[0], call->output_gradient, made, call->gradients[1]};
    TRY(primitive_run(&c->weights, c->device, addresses, scratchpad, error));
    if (!reorders) return PS_OK;
    const void *both[] = {made, call->gradients[0]};
    return primitive_run(&c->weight_reorder, c->device, both, scratchpad, error);
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    if (parameter == 0) return layout_convert(c->device, &c->canonical, canonical, &c->own, own, error);
    memcpy(own, canonical, (size_t)kernel->parameter_bytes[parameter]);
    return PS_OK;
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    if (parameter == 0) return layout_convert(c->device, &c->own, own, &c->canonical, canonical, error);
    memcpy(canonical, own, (size_t)kernel->parameter_bytes[parameter]);
    return PS_OK;
}

const struct kernel_class cpu_convolution = {
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .from_canonical = from_canonical,
    .to_canonical = to_canonical,
};
