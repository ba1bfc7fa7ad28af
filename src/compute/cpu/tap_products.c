/*
 * Convolutions in bf16 as products of matrices, one position of the kernel (a tap) at a time. With W[t] (C, O) the weights of a
 * tap, and X[t] (P, C) the pixel of x that the tap sees for each of the P = samples x rows x columns pixels of y, zeros where
 * it lies outside of the image:
 *
 *     y = sum over t of X[t] W[t],   dx = sum over t of DY[t] W[t]',   dW[t] = X[t]' dy,
 *
 * where DY[t] (pixels of x, O) is dy seen from x, which needs a stride of 1; the only tap of a kernel of 1 x 1 may have any.
 * X[t] and DY[t] are gathered into the workspace, so that they stay in the cache; a kernel of 1 x 1 that skips nothing reads x
 * where it lies. The sums over taps are f32 and rounded once.
 *
 * oneDNN's convolutions go through the images one by one. For each they read or write all weights, which takes most of their
 * time on small images with many channels, at the end of a VGG or a ResNet; and its gradient of the weights is several times
 * slower than a product for kernels of 1 x 1 on images of any size. Besides, each product reads the weights where they lie,
 * whereas a convolution forward and backward reorders them into two different layouts in each call. Without AMX, the arithmetic
 * takes most of the time, and products with the zeros outside of the image are too many: only kernels of 1 x 1 are products
 * then.
 *
 * oneDNN 2.6's convolutions in bf16 are wrong for some kernels of 1 x 1, and its gradient of the weights for dilated rows with
 * AMX: these are products, too, whatever their sizes.
 */
#include "compute/cpu/tap_products.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

struct tap_products {
    struct cpu_device *device;
    const struct node *node;
    int64_t samples, channels, height, width, out_channels, out_height, out_width;
    int taps;
    bool plain; /* X[0] is x */
    bool relu;
    struct primitive forward, input, weights;
    int64_t pixels, sums, scratchpad, workspace_bytes; /* of the workspace: X[t], where it is gathered, and offsets */
};

enum tap_use tap_products_use(const struct node *node, const struct shape *input) {
    enum { CHANNELS = 32, PIXELS_ALL = 7 * 7, PIXELS_GRADIENT = 14 * 14 };
    const struct attributes *a = &node->attributes;
    const int64_t pixels = node->shape.dim[1] * node->shape.dim[2];
    if (a->groups > 1 || input->type != TYPE_BF16) return TAP_NOTHING;
    if (a->kernel_h * a->kernel_w == 1) { /* each pixel of y is one of x */
        const bool padded = a->pad_h > 0 || a->pad_w > 0 || a->pad_extra_h > 0 || a->pad_extra_w > 0;
        return padded ? TAP_NOTHING : TAP_ALL;
    }
    if (!cpu_has_tiles()) return TAP_NOTHING;
    if (a->dilation_h > 1) return TAP_GRADIENT;
    if (input->dim[0] < CHANNELS || node->shape.dim[0] < CHANNELS) return TAP_NOTHING;
    if (pixels <= PIXELS_ALL && a->stride_h == 1 && a->stride_w == 1) return TAP_ALL;
    return pixels <= PIXELS_GRADIENT ? TAP_GRADIENT : TAP_NOTHING;
}

static int64_t in_pixels(const struct tap_products *p) { return p->samples * p->height * p->width; }
static int64_t out_pixels(const struct tap_products *p) { return p->samples * p->out_height * p->out_width; }

static void make_primitives(struct draft *draft, struct tap_products *p, bool all) {
    const int64_t c = p->channels, o = p->out_channels, x_rows = in_pixels(p), y_rows = out_pixels(p);
    const bool bias = p->node->attributes.bias, sums = p->taps > 1;
    draft->type = TYPE_F32;
    const struct layout *gradient = draft_layout(draft, 2, (int64_t[]){c, o}, dnnl_ab),
                        *biases = bias ? draft_layout(draft, 2, (int64_t[]){1, o}, dnnl_ab) : NULL,
                        *y_sums = draft_layout(draft, 2, (int64_t[]){y_rows, o}, dnnl_ab),
                        *x_sums = draft_layout(draft, 2, (int64_t[]){x_rows, c}, dnnl_ab);
    draft->type = TYPE_BF16;
    const struct layout *x = draft_layout(draft, 2, (int64_t[]){y_rows, c}, dnnl_ab),
                        *x_turned = draft_layout(draft, 2, (int64_t[]){c, y_rows}, dnnl_ba),
                        *y = draft_layout(draft, 2, (int64_t[]){y_rows, o}, dnnl_ab),
                        *seen = draft_layout(draft, 2, (int64_t[]){sums ? x_rows : y_rows, o}, dnnl_ab),
                        *weights = draft_layout(draft, 2, (int64_t[]){c, o}, dnnl_ab),
                        *turned = draft_layout(draft, 2, (int64_t[]){o, c}, dnnl_ba);
    draft_primitive(draft, draft_product(draft, x_turned, y, gradient), "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &p->weights);
    if (!all) return;
    draft_primitive(draft,
                    sums ? draft_product_added(draft, x, weights, y_sums)
                         : draft_product_finished(draft, x, weights, biases, y, 1, p->relu),
                    "forward", (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, bias && !sums ? DNNL_ARG_BIAS : 0, 0},
                    &p->forward);
    draft_primitive(draft, sums ? draft_product_added(draft, seen, turned, x_sums) : draft_product(draft, seen, turned, x),
                    "backward", (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &p->input);
}

static void plan_workspace(struct tap_products *p, bool all) {
    const int64_t x_rows = in_pixels(p), y_rows = out_pixels(p), c = p->channels, o = p->out_channels;
    int64_t gathered = p->plain ? 0 : y_rows * c, sums = 0;
    if (all && p->taps > 1) {
        gathered = number_larger(gathered, x_rows * o);
        sums = number_larger(y_rows * o, x_rows * c);
    }
    p->sums = (int64_t)memory_align((size_t)gathered * number_types[TYPE_BF16].bytes);
    p->scratchpad = p->sums + (int64_t)memory_align((size_t)sums * sizeof(float));
    const int64_t scratchpad =
        number_larger(p->weights.scratchpad_bytes, number_larger(p->forward.scratchpad_bytes, p->input.scratchpad_bytes));
    p->workspace_bytes = p->scratchpad + scratchpad;
}

struct tap_products *tap_products_make(struct draft *draft, const struct node *node, const struct shape *input, int samples,
                                       bool relu) {
    const struct attributes *a = &node->attributes;
    const int64_t *in = input->dim, *out = node->shape.dim;
    const bool all = tap_products_use(node, input) == TAP_ALL;
    struct tap_products *p = calloc(1, sizeof *p);
    if (p == NULL) {
        draft->status = dnnl_out_of_memory;
        return NULL;
    }
    *p = (struct tap_products){.device = draft->device,
                               .node = node,
                               .samples = samples,
                               .channels = in[0],
                               .height = in[1],
                               .width = in[2],
                               .out_channels = out[0],
                               .out_height = out[1],
                               .out_width = out[2],
                               .taps = a->kernel_h * a->kernel_w,
                               .relu = relu};
    p->plain = p->taps == 1 && a->stride_h == 1 && a->stride_w == 1 && in[1] == out[1] && in[2] == out[2];
    make_primitives(draft, p, all);
    plan_workspace(p, all);
    return p;
}

void tap_products_destroy(struct tap_products *p) {
    if (p == NULL) return;
    primitive_release(&p->forward);
    primitive_release(&p->input);
    primitive_release(&p->weights);
    free(p);
}

int64_t tap_products_workspace(const struct tap_products *p) { return p->workspace_bytes; }

/* ---------------------------------------------------------------- gathering */

/* For each pixel (row, column) of a grid the pixel (row x stride_h + first_h, column x stride_w + first_w) of an image. */
struct gather {
    const char *image;
    char *grid;
    size_t pixel; /* bytes of all channels */
    int64_t image_height, image_width, grid_height, grid_width, first_h, first_w, stride_h, stride_w;
};

static void gather_part(const void *context, size_t first, size_t end) {
    const struct gather *g = context;
    for (size_t i = first; i < end; i++) {
        const int64_t sample = (int64_t)i / g->grid_height, row = (int64_t)i % g->grid_height * g->stride_h + g->first_h;
        char *to = g->grid + i * (size_t)g->grid_width * g->pixel;
        const bool inside = row >= 0 && row < g->image_height;
        const char *from = g->image + (inside ? (size_t)((sample * g->image_height + row) * g->image_width) * g->pixel : 0);
        for (int64_t x = 0; x < g->grid_width; x++, to += g->pixel) {
            const int64_t column = x * g->stride_w + g->first_w;
            if (inside && column >= 0 && column < g->image_width)
                memcpy(to, from + (size_t)column * g->pixel, g->pixel);
            else
                memset(to, 0, g->pixel);
        }
    }
}

static void gather(const struct tap_products *p, const struct gather *g) {
    device_parallel(&p->device->device, (size_t)(p->samples * g->grid_height), 1, gather_part, g);
}

/* The pixels of an image of y where those of a kernel of 1 x 1 with strides come from; the others get zeros. */
static void scatter_part(const void *context, size_t first, size_t end) {
    const struct gather *g = context;
    const size_t image = (size_t)(g->image_height * g->image_width) * g->pixel;
    for (size_t sample = first; sample < end; sample++) {
        char *to = (char *)g->image + sample * image;
        const char *from = g->grid + sample * (size_t)(g->grid_height * g->grid_width) * g->pixel;
        memset(to, 0, image);
        for (int64_t y = 0; y < g->grid_height; y++)
            for (int64_t x = 0; x < g->grid_width; x++, from += g->pixel)
                memcpy(to + (size_t)(y * g->stride_h * g->image_width + x * g->stride_w) * g->pixel, from, g->pixel);
    }
}

/* X[tap], gathered unless it is x. */
static const void *input_pixels(const struct tap_products *p, const struct kernel_call *call, int tap) {
    const struct attributes *a = &p->node->attributes;
    if (p->plain) return call->input[0];
    gather(p, &(struct gather){.image = (const char *)call->input[0],
                               .grid = call->workspace,
                               .pixel = (size_t)p->channels * number_types[TYPE_BF16].bytes,
                               .image_height = p->height,
                               .image_width = p->width,
                               .grid_height = p->out_height,
                               .grid_width = p->out_width,
                               .first_h = (int64_t)(tap / a->kernel_w) * a->dilation_h - a->pad_h,
                               .first_w = (int64_t)(tap % a->kernel_w) * a->dilation_w - a->pad_w,
                               .stride_h = a->stride_h,
                               .stride_w = a->stride_w});
    return call->workspace;
}

/* DY[tap] */
static const void *gradient_pixels(const struct tap_products *p, const struct kernel_call *call, int tap) {
    const struct attributes *a = &p->node->attributes;
    gather(p, &(struct gather){.image = (const char *)call->output_gradient,
                               .grid = call->workspace,
                               .pixel = (size_t)p->out_channels * number_types[TYPE_BF16].bytes,
                               .image_height = p->out_height,
                               .image_width = p->out_width,
                               .grid_height = p->height,
                               .grid_width = p->width,
                               .first_h = a->pad_h - (int64_t)(tap / a->kernel_w) * a->dilation_h,
                               .first_w = a->pad_w - (int64_t)(tap % a->kernel_w) * a->dilation_w,
                               .stride_h = 1,
                               .stride_w = 1});
    return call->workspace;
}

/* ----------------------------------------------------------------- products */

static enum ps_status multiply(struct tap_products *p, struct primitive *primitive, const struct kernel_call *call,
                               const void *const *addresses) {
    return primitive_run(primitive, p->device, addresses, (char *)call->workspace + p->scratchpad, call->error);
}

static const void *tap_weights(const struct tap_products *p, const struct kernel_call *call, int tap) {
    return (const char *)call->weights[0] + (size_t)(tap * p->channels * p->out_channels) * number_types[TYPE_BF16].bytes;
}

/* Rows of sums, with bias and ReLU, rounded. */
struct finish {
    float *sums;
    const float *bias; /* NULL: none */
    uint16_t *to;
    size_t width;
    bool relu;
};

static VECTOR_CLONES void rectify(size_t count, float *y) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) y[i] = y[i] < 0 ? 0 : y[i];
}

static void finish_part(const void *context, size_t first, size_t end) {
    const struct finish *f = context;
    for (size_t row = first; row < end; row++) {
        float *sums = f->sums + row * f->width;
        if (f->bias != NULL) vector_add(f->width, sums, f->bias);
        if (f->relu) rectify(f->width, sums);
        numbers_convert(f->width, TYPE_BF16, f->to + row * f->width, TYPE_F32, sums);
    }
}

/* The sum over all taps of pixels times weights, into `to` (rows x width). */
static enum ps_status sum_taps(struct tap_products *p, const struct kernel_call *call, struct primitive *primitive,
                               const void *(*pixels)(const struct tap_products *, const struct kernel_call *, int), size_t rows,
                               struct finish finish) {
    finish.sums = (float *)(void *)((char *)call->workspace + p->sums);
    memset(finish.sums, 0, rows * finish.width * sizeof *finish.sums);
    for (int tap = 0; tap < p->taps; tap++) {
        const void *addresses[] = {pixels(p, call, tap), tap_weights(p, call, tap), finish.sums};
        TRY(multiply(p, primitive, call, addresses));
    }
    device_parallel(&p->device->device, rows, 8, finish_part, &finish);
    return PS_OK;
}

enum ps_status tap_products_forward(struct tap_products *p, const struct kernel_call *call) {
    const float *bias = p->node->attributes.bias ? call->weights[1] : NULL;
    if (p->taps > 1)
        return sum_taps(
            p, call, &p->forward, input_pixels, (size_t)out_pixels(p),
            (struct finish){
                .bias = bias, .to = (uint16_t *)(void *)call->output, .width = (size_t)p->out_channels, .relu = p->relu});
    const void *addresses[] = {input_pixels(p, call, 0), call->weights[0], call->output, bias};
    return multiply(p, &p->forward, call, addresses);
}

enum ps_status tap_products_input(struct tap_products *p, const struct kernel_call *call) {
    const struct attributes *a = &p->node->attributes;
    if (p->taps > 1)
        return sum_taps(p, call, &p->input, gradient_pixels, (size_t)in_pixels(p),
                        (struct finish){.to = (uint16_t *)(void *)call->input_gradient[0], .width = (size_t)p->channels});
    const void *addresses[] = {call->output_gradient, call->weights[0], p->plain ? call->input_gradient[0] : call->workspace};
    TRY(multiply(p, &p->input, call, addresses));
    if (p->plain) return PS_OK;
    const struct gather grid = {.image = (const char *)call->input_gradient[0],
                                .grid = call->workspace,
                                .pixel = (size_t)p->channels * number_types[TYPE_BF16].bytes,
                                .image_height = p->height,
                                .image_width = p->width,
                                .grid_height = p->out_height,
                                .grid_width = p->out_width,
                                .stride_h = a->stride_h,
                                .stride_w = a->stride_w};
    device_parallel(&p->device->device, (size_t)p->samples, 1, scatter_part, &grid);
    return PS_OK;
}

enum ps_status tap_products_weights(struct tap_products *p, const struct kernel_call *call) {
    for (int tap = 0; tap < p->taps; tap++) {
        const void *addresses[] = {input_pixels(p, call, tap), call->output_gradient,
                                   call->gradients[0] + tap * p->channels * p->out_channels};
        TRY(multiply(p, &p->weights, call, addresses));
    }
    if (p->node->attributes.bias)
        cpu_sum_rows(&p->device->device, (size_t)out_pixels(p), (size_t)p->out_channels, TYPE_BF16, call->output_gradient,
                     call->gradients[1]);
    return PS_OK;
}
