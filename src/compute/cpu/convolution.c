/*
 * Convolution and deconvolution by oneDNN. x (N, H, W, C), weights (O, C / groups, kernel_h, kernel_w) in blocks, y (N, OH, OW,
 * O). A deconvolution goes from y to x: its forward is the gradient of a convolution's input, its gradient of the input a
 * convolution. The names below are the convolution's.
 *
 * The layout. The weights have the layout in which their gradient is computed, so that gradients need no reordering, and the
 * forward is created for it. (If the forward of oneDNN 2.6 chooses freely with AVX-512, it takes another layout: up to a tenth
 * faster on large images, two to four times slower on small ones.) The gradient of the input needs the blocks transposed: the
 * weights are reordered into the workspace at each call, which takes under one percent of a VGG-16's step. There, too, small
 * images do not get the layout that oneDNN 3.x would choose.
 */
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/depthwise.h"
#include "compute/cpu/taps.h"

enum {
    FORWARD,
    INPUT,
    WEIGHTS,
    INPUT_REORDER,  /* from the kernel's layout to what INPUT reads, where they differ */
    WEIGHT_REORDER, /* from what WEIGHTS writes to the kernel's layout, where they differ */
    PRIMITIVES
};

struct convolution {
    struct kernel kernel;
    bool turned;                  /* a deconvolution */
    const int64_t *in, *out;      /* of one sample: sides of x and of y */
    struct layout canonical, own; /* of the weights */
    struct primitive primitives[PRIMITIVES];
    int64_t reordered_bytes[2]; /* sizes of the reordered weights, at the start of the workspace */
    struct taps *taps;          /* computes the gradient of the weights instead, where not NULL */
    bool depthwise;             /* so does depthwise_gradient */
};

static void release(struct kernel *kernel) {
    struct convolution *c = (struct convolution *)kernel;
    for (int p = 0; p < PRIMITIVES; p++) primitive_release(&c->primitives[p]);
    layout_release(&c->canonical);
    layout_release(&c->own);
    taps_destroy(c->taps);
}

/* Weights (O, C, kernel_h, kernel_w), or (groups, O / groups, C / groups, kernel_h, kernel_w), which is the same memory. */
static const struct layout *weights_layout(struct draft *draft, const struct convolution *c, bool any) {
    const struct attributes *a = &c->kernel.node->attributes;
    int64_t dims[5] = {a->groups, c->out[0] / a->groups, c->in[0] / a->groups, a->kernel_h, a->kernel_w};
    if (a->groups == 1) return draft_layout(draft, 4, dims + 1, any ? dnnl_format_tag_any : dnnl_oihw);
    return draft_layout(draft, 5, dims, any ? dnnl_format_tag_any : dnnl_goihw);
}

/* A bias that oneDNN adds. */
static bool has_bias(const struct convolution *c) { return c->kernel.node->attributes.bias && !c->turned; }

/* One channel a group. */
static bool is_depthwise(const struct convolution *c) {
    int groups = c->kernel.node->attributes.groups;
    return groups > 1 && c->in[0] == groups && c->out[0] == groups;
}

struct plans {
    dnnl_primitive_desc_t forward, input, weights;
    const struct layout *canonical, *own;
};

/* Images with so short rows that oneDNN's row-by-row kernels (brgconv) are slow. */
static bool small_images(const struct convolution *c) { return c->out[1] * c->out[2] <= 16; }

static dnnl_primitive_desc_t plan_input(struct draft *draft, const struct convolution *c, struct arrays arrays,
                                        const struct window *window, const_dnnl_primitive_desc_t hint) {
    const struct attributes *a = &c->kernel.node->attributes;
    dnnl_primitive_desc_t favourite = draft_convolution(draft, PASS_INPUT, &arrays, window, false, hint);
    if (a->groups > 1 || !small_images(c)) return favourite;
    int64_t dims[4] = {c->out[0], c->in[0], a->kernel_h, a->kernel_w};
    arrays.weights = draft_layout(draft, 4, dims, dnnl_OIhw16o16i);
    dnnl_primitive_desc_t blocked = draft_convolution(draft, PASS_INPUT, &arrays, window, false, hint);
    return draft_slow(draft, blocked) ? favourite : blocked;
}

static struct plans make_plans(struct draft *draft, const struct convolution *c) {
    const struct attributes *a = &c->kernel.node->attributes;
    const int64_t *in = c->in, *out = c->out, n = c->kernel.samples;
    const struct layout *any = weights_layout(draft, c, !kernel_shares(&c->kernel, 0));
    struct window window = window_of(a);
    struct arrays arrays = {
        .source = draft_layout(draft, 4, (int64_t[]){n, in[0], in[1], in[2]}, dnnl_nhwc),
        .weights = any,
        .bias = has_bias(c) ? draft_layout(draft, 1, (int64_t[]){out[0]}, dnnl_a) : NULL,
        .destination = draft_layout(draft, 4, (int64_t[]){n, out[0], out[1], out[2]}, dnnl_nhwc),
    };
    struct plans plans = {.canonical = weights_layout(draft, c, false)};
    dnnl_primitive_desc_t favourite = draft_convolution(draft, PASS_FORWARD, &arrays, &window, c->kernel.fuses_relu, NULL);
    plans.input = plan_input(draft, c, arrays, &window, favourite);
    if (is_depthwise(c)) { /* its gradient comes in any layout */
        plans.forward = favourite;
        plans.own = draft_layout_of(draft, favourite, DNNL_ARG_WEIGHTS);
        return plans;
    }
    plans.weights = draft_convolution(draft, PASS_WEIGHTS, &arrays, &window, false, favourite);
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

/* What computes the gradient of the weights; `in` is a sample of the node's input. */
static void make_gradient(struct draft *draft, struct convolution *c, const struct plans *plans, const struct shape *in) {
    const struct attributes *a = &c->kernel.node->attributes;
    c->depthwise = is_depthwise(c);
    if (!c->turned && taps_fit(c->kernel.node, in, c->kernel.samples)) {
        c->taps = taps_make(draft, c->kernel.node, in, c->kernel.samples, plans->own);
        return;
    }
    const struct layout *made;
    if (c->depthwise) {
        made = draft_layout(draft, 5, (int64_t[]){a->groups, 1, 1, a->kernel_h, a->kernel_w}, dnnl_hwigo);
    } else {
        draft_primitive(
            draft, plans->weights, "gradient of the weights",
            (int[]){DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS, has_bias(c) ? DNNL_ARG_DIFF_BIAS : 0, 0},
            &c->primitives[WEIGHTS]);
        made = draft_layout_of(draft, plans->weights, DNNL_ARG_DIFF_WEIGHTS);
    }
    c->reordered_bytes[1] = make_reorder(draft, made, plans->own, made, &c->primitives[WEIGHT_REORDER]);
}

static void make(struct draft *draft, struct convolution *c, const struct shape *in) {
    struct plans plans = make_plans(draft, c);
    bool bias = has_bias(c);
    draft_primitive(draft, plans.forward, "forward",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias ? DNNL_ARG_BIAS : 0, 0},
                    &c->primitives[FORWARD]);
    draft_primitive(draft, plans.input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &c->primitives[INPUT]);
    const struct layout *wanted = draft_layout_of(draft, plans.input, DNNL_ARG_WEIGHTS);
    c->reordered_bytes[0] = make_reorder(draft, plans.own, wanted, wanted, &c->primitives[INPUT_REORDER]);
    make_gradient(draft, c, &plans, in);
    draft_keep(draft, plans.canonical, &c->canonical);
    draft_keep(draft, plans.own, &c->own);
    c->kernel.parameter_bytes[0] = layout_bytes(plans.own);
    c->kernel.workspace_bytes = c->taps != NULL ? taps_workspace(c->taps) : 0;
    for (int p = 0; p < PRIMITIVES; p++) {
        int64_t reordered = p == FORWARD ? 0 : c->reordered_bytes[p == WEIGHTS || p == WEIGHT_REORDER];
        int64_t needed = reordered + c->primitives[p].scratchpad_bytes;
        if (needed > c->kernel.workspace_bytes) c->kernel.workspace_bytes = needed;
    }
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct convolution *c = (struct convolution *)kernel;
    const int64_t *input = kernel_input(kernel, 0)->dim, *output = kernel->node->shape.dim;
    c->turned = kernel->node->id == OPERATOR_DECONVOLUTION;
    c->in = c->turned ? output : input;
    c->out = c->turned ? input : output;
    kernel->fuses_relu = kernel->relu_follows && !c->turned;
    struct draft draft;
    draft_start(&draft, kernel->device, kernel->node);
    make(&draft, c, kernel_input(kernel, 0));
    return draft_finish(&draft, error);
}

/* y = convolution of x, with `bias` where there is one */
static enum ps_status run_forward(struct convolution *c, const struct kernel_call *call, const float *x, const float *bias,
                                  float *y) {
    const void *addresses[] = {x, call->weights[0], y, bias};
    return primitive_run(&c->primitives[FORWARD], cpu_of(&c->kernel), addresses, call->workspace, call->error);
}

/* dx of dy */
static enum ps_status run_input(struct convolution *c, const struct kernel_call *call, const float *dy, float *dx) {
    const void *weights = call->weights[0];
    char *scratchpad = (char *)call->workspace + c->reordered_bytes[0];
    if (c->primitives[INPUT_REORDER].handle != NULL) {
        const void *addresses[] = {weights, call->workspace};
        TRY(primitive_run(&c->primitives[INPUT_REORDER], cpu_of(&c->kernel), addresses, scratchpad, call->error));
        weights = call->workspace;
    }
    const void *addresses[] = {dy, weights, dx};
    return primitive_run(&c->primitives[INPUT], cpu_of(&c->kernel), addresses, scratchpad, call->error);
}

/* dw, and db where oneDNN computes it */
static enum ps_status run_weights(struct convolution *c, const struct kernel_call *call, const float *x, const float *dy) {
    bool reorders = c->primitives[WEIGHT_REORDER].handle != NULL;
    void *made = reorders ? call->workspace : call->gradients[0];
    char *scratchpad = (char *)call->workspace + c->reordered_bytes[1];
    if (c->depthwise) {
        struct depthwise depthwise = {c->kernel.device, &c->kernel.node->attributes, c->kernel.samples, c->in, c->out};
        depthwise_gradient(&depthwise, x, dy, made);
    } else {
        const void *addresses[] = {x, dy, made, call->gradients[1]};
        TRY(primitive_run(&c->primitives[WEIGHTS], cpu_of(&c->kernel), addresses, scratchpad, call->error));
    }
    if (!reorders) return PS_OK;
    const void *both[] = {made, call->gradients[0]};
    return primitive_run(&c->primitives[WEIGHT_REORDER], cpu_of(&c->kernel), both, scratchpad, call->error);
}

/* db, where there is a bias */
static void sum_pixels(const struct convolution *c, const struct kernel_call *call) {
    const struct shape *shape = &c->kernel.node->shape;
    if (call->gradients[1] == NULL) return;
    cpu_sum_rows(c->kernel.device, shape_rows(shape, c->kernel.samples), shape_channels(shape), call->output_gradient,
                 call->gradients[1]);
}

/* ------------------------------------------------------------- convolution */

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    return run_forward((struct convolution *)kernel, call, call->input[0], call->weights[1], call->output);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    return run_input((struct convolution *)kernel, call, call->output_gradient, call->input_gradient[0]);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct convolution *c = (struct convolution *)kernel;
    if (c->taps != NULL) return taps_run(c->taps, call);
    TRY(run_weights(c, call, call->input[0], call->output_gradient));
    if (c->depthwise) sum_pixels(c, call);
    return PS_OK;
}

/* ----------------------------------------------------------- deconvolution */

static VECTOR_CLONES void add_rows(size_t rows, size_t columns, const float *restrict row, float *restrict y) {
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) y[r * columns + c] += row[c];
    }
}

static enum ps_status turned_forward(struct kernel *kernel, const struct kernel_call *call) {
    struct convolution *c = (struct convolution *)kernel;
    TRY(run_input(c, call, call->input[0], call->output));
    const struct shape *shape = &c->kernel.node->shape;
    if (call->weights[1] != NULL)
        add_rows(shape_rows(shape, kernel->samples), shape_channels(shape), call->weights[1], call->output);
    return PS_OK;
}

static enum ps_status turned_backward_input(struct kernel *kernel, const struct kernel_call *call) {
    return run_forward((struct convolution *)kernel, call, call->output_gradient, NULL, call->input_gradient[0]);
}

static enum ps_status turned_backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct convolution *c = (struct convolution *)kernel;
    TRY(run_weights(c, call, call->output_gradient, call->input[0]));
    sum_pixels(c, call);
    return PS_OK;
}

/* -------------------------------------------------------------- parameters */

static enum ps_status convert(const struct convolution *c, int parameter, const struct layout *from, const float *source,
                              const struct layout *to, float *destination, struct ps_error *error) {
    if (parameter == 0) return layout_convert(cpu_of(&c->kernel), from, source, to, destination, error);
    memcpy(destination, source, (size_t)c->kernel.parameter_bytes[parameter]);
    return PS_OK;
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    const struct convolution *c = (const struct convolution *)kernel;
    return convert(c, parameter, &c->canonical, canonical, &c->own, own, error);
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    const struct convolution *c = (const struct convolution *)kernel;
    return convert(c, parameter, &c->own, own, &c->canonical, canonical, error);
}

const struct kernel_class cpu_convolution = {
    .size = sizeof(struct convolution),
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .backward_input = backward_input,
    .backward_weight = backward_weight,
    .from_canonical = from_canonical,
    .to_canonical = to_canonical,
};

const struct kernel_class cpu_deconvolution = {
    .size = sizeof(struct convolution),
    .prepare = prepare,
    .release = release,
    .forward = turned_forward,
    .backward_input = turned_backward_input,
    .backward_weight = turned_backward_weight,
    .from_canonical = from_canonical,
    .to_canonical = to_canonical,
};
