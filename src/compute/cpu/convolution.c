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
 *
 * In bf16 (convolutions alone) the weights have the layout of their gradient, too, which is f32. The forward and the gradient
 * of the input read pairs of bf16 that lie together, so both reorder the weights. Small images and kernels of 1 x 1 are
 * computed by products instead, the former partly (tap_products.c).
 */
#include <string.h>

#include "base/memory.h"
#include "compute/cpu/depthwise.h"
#include "compute/cpu/tap_products.h"
#include "compute/cpu/taps.h"

enum {
    FORWARD,
    INPUT,
    WEIGHTS,
    FORWARD_REORDER, /* from the kernel's layout to what FORWARD reads, where they differ */
    INPUT_REORDER,   /* from the kernel's layout to what INPUT reads, where they differ */
    WEIGHT_REORDER,  /* from what WEIGHTS writes to the kernel's layout, where they differ */
    PRIMITIVES
};

struct convolution {
    struct kernel kernel;
    bool turned;                  /* a deconvolution */
    const int64_t *in, *out;      /* of one sample: sides of x and of y */
    struct layout canonical, own; /* of the weights */
    struct primitive primitives[PRIMITIVES];
    int64_t rounded_bytes;                /* of x in bf16, at the start of the workspace, where it is given in f32 */
    int64_t reordered_bytes[WEIGHTS + 1]; /* by primitive: of the reordered weights, after x */
    struct taps *taps;                    /* computes the gradient of the weights instead, where not NULL */
    struct tap_products *products;        /* computes `use` instead */
    enum tap_use use;
    bool depthwise; /* so does depthwise_gradient */
};

static void release(struct kernel *kernel) {
    struct convolution *c = (struct convolution *)kernel;
    for (int p = 0; p < PRIMITIVES; p++) primitive_release(&c->primitives[p]);
    layout_release(&c->canonical);
    layout_release(&c->own);
    taps_destroy(c->taps);
    tap_products_destroy(c->products);
}

/* Weights (O, C, kernel_h, kernel_w), or (groups, O / groups, C / groups, kernel_h, kernel_w), which is the same memory. */
static const struct layout *weights_layout(struct draft *draft, const struct convolution *c, dnnl_format_tag_t tag) {
    const struct attributes *a = &c->kernel.node->attributes;
    int64_t dims[5] = {a->groups, c->out[0] / a->groups, c->in[0] / a->groups, a->kernel_h, a->kernel_w};
    return a->groups == 1 ? draft_layout(draft, 4, dims + 1, tag) : draft_layout(draft, 5, dims, tag);
}

static const struct layout *canonical_layout(struct draft *draft, const struct convolution *c) {
    return weights_layout(draft, c, c->kernel.node->attributes.groups == 1 ? dnnl_oihw : dnnl_goihw);
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
    const struct layout *canonical, *own, *copy; /* copy: own, in the type in which it is read */
};

/* Images with so short rows that oneDNN's row-by-row kernels (brgconv) are slow. */
static bool small_images(const struct convolution *c) { return c->out[1] * c->out[2] <= 16; }

/* oneDNN 2.6's kernels for 1 x 1 with strides write beyond their memory, and wrong gradients, where the images have fewer
 * channels than they take at once. Weights in plain order keep it from using them. */
static bool overruns(const struct convolution *c) {
    enum { AT_ONCE = 16 };
    const struct attributes *a = &c->kernel.node->attributes;
    return a->kernel_h * a->kernel_w == 1 && (a->stride_h > 1 || a->stride_w > 1) && c->in[0] / a->groups < AT_ONCE;
}

static dnnl_primitive_desc_t plan_input(struct draft *draft, const struct convolution *c, struct arrays arrays,
                                        const struct window *window, const_dnnl_primitive_desc_t hint) {
    const struct attributes *a = &c->kernel.node->attributes;
    dnnl_primitive_desc_t favourite = draft_convolution(draft, PASS_INPUT, &arrays, window, false, hint);
    if (a->groups > 1 || !small_images(c) || overruns(c)) return favourite;
    int64_t dims[4] = {c->out[0], c->in[0], a->kernel_h, a->kernel_w};
    arrays.weights = draft_layout(draft, 4, dims, dnnl_OIhw16o16i);
    dnnl_primitive_desc_t blocked = draft_convolution(draft, PASS_INPUT, &arrays, window, false, hint);
    return draft_slow(draft, blocked) ? favourite : blocked;
}

static struct plans make_plans(struct draft *draft, const struct convolution *c) {
    const struct attributes *a = &c->kernel.node->attributes;
    const int64_t *in = c->in, *out = c->out, n = c->kernel.samples;
    const dnnl_format_tag_t free = !overruns(c) ? dnnl_format_tag_any : a->groups == 1 ? dnnl_hwio : dnnl_hwigo;
    const struct layout *any = kernel_shares(&c->kernel, 0) ? canonical_layout(draft, c) : weights_layout(draft, c, free);
    struct window window = window_of(a);
    struct arrays arrays = {
        .source = draft_layout(draft, 4, (int64_t[]){n, in[0], in[1], in[2]}, dnnl_nhwc),
        .weights = any,
        .bias = has_bias(c) ? draft_layout(draft, 1, (int64_t[]){out[0]}, dnnl_a) : NULL,
        .destination = draft_layout(draft, 4, (int64_t[]){n, out[0], out[1], out[2]}, dnnl_nhwc),
    };
    struct plans plans = {.canonical = canonical_layout(draft, c)};
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

/* The layout of the weights in bf16: that in which their gradient comes, in f32 and in bf16. Where oneDNN makes it, in the
 * layout `made`, that may be none of these: then canonical order. */
static void find_narrow_layout(struct draft *draft, const struct convolution *c, const struct layout *made,
                               struct plans *plans) {
    static const dnnl_format_tag_t known[2][3] = {{dnnl_OIhw16i16o, dnnl_IOhw16i16o, dnnl_Ohwi16o},
                                                  {dnnl_gOIhw16i16o, dnnl_gOhwi16o, dnnl_Goihw16g}};
    const bool grouped = c->kernel.node->attributes.groups > 1;
    dnnl_format_tag_t tag = c->use != TAP_NOTHING ? dnnl_hwio : grouped ? dnnl_goihw : dnnl_oihw;
    draft->type = TYPE_F32;
    plans->own = c->use != TAP_NOTHING ? weights_layout(draft, c, tag) : plans->canonical;
    for (int i = 0; i < 3 && !kernel_shares(&c->kernel, 0) && plans->own == plans->canonical; i++) {
        const struct layout *layout = weights_layout(draft, c, known[grouped][i]);
        if (draft_differ(draft, layout, made)) continue;
        plans->own = layout;
        tag = known[grouped][i];
    }
    draft->type = TYPE_BF16;
    plans->copy = weights_layout(draft, c, tag);
}

static struct plans make_narrow_plans(struct draft *draft, const struct convolution *c) {
    const struct attributes *a = &c->kernel.node->attributes;
    const int64_t n = c->kernel.samples, in[] = {n, c->in[0], c->in[1], c->in[2]}, out[] = {n, c->out[0], c->out[1], c->out[2]};
    struct window window = window_of(a);
    struct plans plans = {.canonical = canonical_layout(draft, c)};
    const struct layout *bias = a->bias ? draft_layout(draft, 1, (int64_t[]){out[1]}, dnnl_a) : NULL,
                        *gradient = weights_layout(draft, c, dnnl_format_tag_any);
    draft->type = kernel_input(&c->kernel, 0)->type;
    const struct layout *dx = draft_layout(draft, 4, in, dnnl_nhwc);
    draft->type = TYPE_BF16;
    struct arrays arrays = {.source = draft_layout(draft, 4, in, dnnl_nhwc),
                            .weights = weights_layout(draft, c, dnnl_format_tag_any),
                            .bias = bias,
                            .destination = draft_layout(draft, 4, out, dnnl_nhwc)};
    plans.forward = draft_convolution(draft, PASS_FORWARD, &arrays, &window, c->kernel.fuses_relu, NULL);
    struct arrays back = arrays;
    back.source = dx;
    plans.input = draft_convolution(draft, PASS_INPUT, &back, &window, false, plans.forward);
    back = arrays;
    back.weights = gradient;
    plans.weights = draft_convolution(draft, PASS_WEIGHTS, &back, &window, false, plans.forward);
    find_narrow_layout(draft, c, draft_layout_of(draft, plans.weights, DNNL_ARG_DIFF_WEIGHTS), &plans);
    if (a->groups > 1 || !small_images(c) || cpu_has_tiles()) return plans;
    arrays.weights = weights_layout(draft, c, dnnl_OIhw8i16o2i);
    dnnl_primitive_desc_t blocked = draft_convolution(draft, PASS_FORWARD, &arrays, &window, c->kernel.fuses_relu, NULL);
    if (!draft_slow(draft, blocked)) plans.forward = blocked;
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
    const bool narrow = cpu_is_narrow(&c->kernel);
    c->depthwise = is_depthwise(c) && !narrow;
    if (c->use != TAP_NOTHING) return;
    if (!c->turned && in->type == c->kernel.node->shape.type && taps_fit(c->kernel.node, in, c->kernel.samples)) {
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
    c->reordered_bytes[WEIGHTS] = make_reorder(draft, made, plans->own, made, &c->primitives[WEIGHT_REORDER]);
}

/* The convolutions of oneDNN, forward and backward, with what reorders the weights for them. */
static void make_convolutions(struct draft *draft, struct convolution *c, const struct plans *plans) {
    const struct layout *copy = cpu_is_narrow(&c->kernel) ? plans->copy : plans->own;
    draft_primitive(draft, plans->forward, "forward",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, has_bias(c) ? DNNL_ARG_BIAS : 0, 0},
                    &c->primitives[FORWARD]);
    draft_primitive(draft, plans->input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0},
                    &c->primitives[INPUT]);
    const struct layout *wanted = draft_layout_of(draft, plans->forward, DNNL_ARG_WEIGHTS);
    c->reordered_bytes[FORWARD] = make_reorder(draft, copy, wanted, wanted, &c->primitives[FORWARD_REORDER]);
    wanted = draft_layout_of(draft, plans->input, DNNL_ARG_WEIGHTS);
    c->reordered_bytes[INPUT] = make_reorder(draft, copy, wanted, wanted, &c->primitives[INPUT_REORDER]);
}

/* What computes with products of matrices; nothing for weights that other nodes have in canonical order. */
static enum tap_use use_of(const struct convolution *c) {
    if (c->turned || !cpu_is_narrow(&c->kernel) || kernel_shares(&c->kernel, 0)) return TAP_NOTHING;
    return tap_products_use(c->kernel.node, kernel_input(&c->kernel, 0));
}

static void make(struct draft *draft, struct convolution *c, const struct shape *in) {
    struct plans plans;
    c->use = use_of(c);
    c->rounded_bytes = cpu_rounded_bytes(&c->kernel, 0);
    if (c->use == TAP_ALL) {
        plans = (struct plans){.canonical = canonical_layout(draft, c), .own = weights_layout(draft, c, dnnl_hwio)};
    } else {
        plans = cpu_is_narrow(&c->kernel) ? make_narrow_plans(draft, c) : make_plans(draft, c);
        make_convolutions(draft, c, &plans);
    }
    if (c->use != TAP_NOTHING)
        c->products = tap_products_make(draft, c->kernel.node, in, c->kernel.samples, c->kernel.fuses_relu);
    make_gradient(draft, c, &plans, in);
    draft_keep(draft, plans.canonical, &c->canonical);
    draft_keep(draft, plans.own, &c->own);
    c->kernel.parameter_bytes[0] = layout_bytes(plans.own);
    c->kernel.workspace_bytes = c->taps != NULL ? taps_workspace(c->taps) : 0;
    if (c->products != NULL) c->kernel.workspace_bytes = tap_products_workspace(c->products);
    for (int p = 0; p < PRIMITIVES; p++) {
        static const int user[] = {FORWARD, INPUT, WEIGHTS, FORWARD, INPUT, WEIGHTS};
        int64_t needed = c->rounded_bytes + c->reordered_bytes[user[p]] + c->primitives[p].scratchpad_bytes;
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

/* Is oneDNN 2.6 wrong in bf16? Its gradient of the input is for kernels of 1 x 1 without AMX; with it the forward where strides
 * skip rows, on several threads, and the gradient of the weights for dilated rows. Which of its kernels of 1 x 1 are right
 * nobody needs to know, since most are products. */
static bool is_wrong(const struct convolution *c) {
    const struct attributes *a = &c->kernel.node->attributes;
    if (c->use == TAP_ALL) return false;
    return a->kernel_h * a->kernel_w == 1 || (cpu_has_tiles() && a->kernel_h < a->stride_h) ||
           (cpu_has_tiles() && a->dilation_h > 1 && c->use == TAP_NOTHING);
}

static bool native(const struct kernel *kernel) {
    struct convolution c;
    struct draft draft;
    if (!cpu_multiplies_narrow(kernel)) return false;
    c = (struct convolution){.kernel = *kernel, .in = kernel_input(kernel, 0)->dim, .out = kernel->node->shape.dim};
    const struct attributes *a = &kernel->node->attributes;
    c.use = use_of(&c);
    if (is_wrong(&c) || (is_depthwise(&c) && a->kernel_h * a->kernel_w > 9)) return false;
    if (c.use == TAP_ALL) return true;
    draft_start(&draft, kernel->device, kernel->node);
    const struct plans plans = make_narrow_plans(&draft, &c);
    const bool slow = draft_slow(&draft, plans.forward) || draft_slow(&draft, plans.input) || draft_slow(&draft, plans.weights);
    struct ps_error ignored;
    return draft_finish(&draft, &ignored) == PS_OK && !slow;
}

/* The weights as FORWARD or INPUT reads them; its scratchpad begins behind them. */
static enum ps_status take_weights(struct convolution *c, int reader, const struct kernel_call *call, const void **weights,
                                   char **scratchpad) {
    struct primitive *reorder = &c->primitives[reader == FORWARD ? FORWARD_REORDER : INPUT_REORDER];
    char *room = (char *)call->workspace + c->rounded_bytes;
    *scratchpad = room + c->reordered_bytes[reader];
    *weights = reorder->handle != NULL ? room : (const void *)call->weights[0];
    if (reorder->handle == NULL) return PS_OK;
    return primitive_run(reorder, cpu_of(&c->kernel), (const void *[]){call->weights[0], room}, *scratchpad, call->error);
}

/* y = convolution of x, with `bias` where there is one */
static enum ps_status run_forward(struct convolution *c, const struct kernel_call *call, const float *x, const float *bias,
                                  float *y) {
    const void *weights;
    char *scratchpad;
    TRY(take_weights(c, FORWARD, call, &weights, &scratchpad));
    const void *addresses[] = {x, weights, y, bias};
    return primitive_run(&c->primitives[FORWARD], cpu_of(&c->kernel), addresses, scratchpad, call->error);
}

/* dx of dy */
static enum ps_status run_input(struct convolution *c, const struct kernel_call *call, const float *dy, float *dx) {
    const void *weights;
    char *scratchpad;
    TRY(take_weights(c, INPUT, call, &weights, &scratchpad));
    const void *addresses[] = {dy, weights, dx};
    return primitive_run(&c->primitives[INPUT], cpu_of(&c->kernel), addresses, scratchpad, call->error);
}

/* dw, and db where oneDNN computes it */
static enum ps_status run_weights(struct convolution *c, const struct kernel_call *call, const float *x, const float *dy) {
    bool reorders = c->primitives[WEIGHT_REORDER].handle != NULL;
    char *room = (char *)call->workspace + c->rounded_bytes, *scratchpad = room + c->reordered_bytes[WEIGHTS];
    void *made = reorders ? (void *)room : (void *)call->gradients[0];
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
    cpu_sum_rows(c->kernel.device, shape_rows(shape, c->kernel.samples), shape_channels(shape), shape->type,
                 call->output_gradient, call->gradients[1]);
}

/* ------------------------------------------------------------- convolution */

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct convolution *c = (struct convolution *)kernel;
    if (c->use == TAP_ALL) return tap_products_forward(c->products, call);
    const float *x = cpu_rounded(kernel, 0, call->input[0], call->workspace);
    return run_forward(c, call, x, call->weights[1], call->output);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct convolution *c = (struct convolution *)kernel;
    if (c->use == TAP_ALL) return tap_products_input(c->products, call);
    return run_input(c, call, call->output_gradient, call->input_gradient[0]);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    struct convolution *c = (struct convolution *)kernel;
    if (c->products != NULL) return tap_products_weights(c->products, call);
    if (c->taps != NULL) return taps_run(c->taps, call);
    TRY(run_weights(c, call, cpu_rounded(kernel, 0, call->input[0], call->workspace), call->output_gradient));
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
    .native = native,
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
