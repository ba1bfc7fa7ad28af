/*
 * Gradient of a convolution's weights one position of the kernel (a tap) at a time.
 *
 * oneDNN's own gradient of the weights goes through the images one by one and writes all weights for each: on small images with
 * many channels (4 x 4, 2 x 2 at the end of a VGG) that traffic dominates. Here each tap (kh, kw) is one matrix product over
 * all images at once,
 *
 *     dW[kh, kw] (C, O) = X' (C, K) dY' (K, O),   K = samples x rows x columns where the tap lies in the image,
 *
 * which also skips products with the zeros of the padding. To have X' and dY' contiguous, rows and columns are first gathered
 * as (row, sample, column, channel), once for each kw: the rows that a kh needs are then a contiguous range of both.
 */
#include "compute/cpu/taps.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* First and number of the output positions along one side whose tap lies in the image. */
struct range {
    int64_t first, count;
};

struct taps {
    struct cpu_device *device;
    const struct attributes *attributes;
    enum number_type type; /* of x and dy */
    int64_t samples, channels, height, width, out_channels, out_height, out_width;
    struct primitive *products;                           /* one per tap; not created where the tap never lies in the image */
    struct primitive reorder;                             /* from (kh, kw, C, O) to the kernel's layout */
    int64_t x, dy, gradient, scratchpad, workspace_bytes; /* offsets into the workspace */
};

static struct range meets(int64_t size, int64_t out_size, int tap, int pad) {
    int64_t first = pad > tap ? pad - tap : 0, end = size + pad - tap;
    if (end > out_size) end = out_size;
    return (struct range){first, end > first ? end - first : 0};
}

static struct range tap_rows(const struct taps *t, int kh) { return meets(t->height, t->out_height, kh, t->attributes->pad_h); }
static struct range tap_columns(const struct taps *t, int kw) {
    return meets(t->width, t->out_width, kw, t->attributes->pad_w);
}

bool taps_fit(const struct node *node, const struct shape *input, int samples) {
    const struct attributes *a = &node->attributes;
    int64_t pixels = node->shape.dim[1] * node->shape.dim[2];
    int taps = a->kernel_h * a->kernel_w;
    bool plain = a->stride_h == 1 && a->stride_w == 1 && a->dilation_h == 1 && a->dilation_w == 1 && a->groups == 1 &&
                 taps > 1 && taps <= 25;
    return plain && pixels <= 16 && pixels * samples >= 16 && input->dim[0] >= 64 && node->shape.dim[0] >= 64;
}

static void make_product(struct draft *draft, struct taps *t, int kh, int kw) {
    int64_t k = t->samples * tap_rows(t, kh).count * tap_columns(t, kw).count;
    if (k == 0) return;
    draft->type = t->type;
    const struct layout *left = draft_layout(draft, 2, (int64_t[]){t->channels, k}, dnnl_ba);
    const struct layout *right = draft_layout(draft, 2, (int64_t[]){k, t->out_channels}, dnnl_ab);
    draft->type = TYPE_F32;
    const struct layout *product = draft_layout(draft, 2, (int64_t[]){t->channels, t->out_channels}, dnnl_ab);
    draft_primitive(draft, draft_product(draft, left, right, product), "gradient of the weights",
                    (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0}, &t->products[kh * t->attributes->kernel_w + kw]);
}

static int64_t carve(int64_t *end, int64_t elements, enum number_type type) {
    int64_t offset = *end;
    *end += (int64_t)memory_align((size_t)elements * number_types[type].bytes);
    return offset;
}

static void plan_workspace(struct taps *t, int tap_count) {
    int64_t columns = t->width < t->out_width ? t->width : t->out_width, end = 0, scratchpad = t->reorder.scratchpad_bytes;
    t->x = carve(&end, t->height * t->samples * columns * t->channels, t->type);
    t->dy = carve(&end, t->out_height * t->samples * columns * t->out_channels, t->type);
    t->gradient = carve(&end, tap_count * t->channels * t->out_channels, TYPE_F32);
    t->scratchpad = end;
    for (int i = 0; i < tap_count; i++) {
        if (t->products[i].scratchpad_bytes > scratchpad) scratchpad = t->products[i].scratchpad_bytes;
    }
    t->workspace_bytes = end + scratchpad;
}

struct taps *taps_make(struct draft *draft, const struct node *node, const struct shape *input, int samples,
                       const struct layout *own) {
    const struct attributes *a = &node->attributes;
    int tap_count = a->kernel_h * a->kernel_w;
    struct taps *t = calloc(1, sizeof *t);
    struct primitive *products = calloc((size_t)tap_count, sizeof *products);
    if (t == NULL || products == NULL) {
        draft->status = dnnl_out_of_memory;
        free(t);
        free(products);
        return NULL;
    }
    const int64_t *in = input->dim, *out = node->shape.dim;
    *t = (struct taps){draft->device, a,      node->shape.type,    samples, in[0], in[1], in[2], out[0],
                       out[1],        out[2], .products = products};
    for (int tap = 0; tap < tap_count; tap++) make_product(draft, t, tap / a->kernel_w, tap % a->kernel_w);
    draft->type = TYPE_F32;
    const struct layout *plain = draft_layout(draft, 4, (int64_t[]){out[0], in[0], a->kernel_h, a->kernel_w}, dnnl_hwio);
    draft_primitive(draft, draft_reorder(draft, plain, own), "gradient of the weights", (int[]){DNNL_ARG_FROM, DNNL_ARG_TO, 0},
                    &t->reorder);
    plan_workspace(t, tap_count);
    return t;
}

void taps_destroy(struct taps *t) {
    if (t == NULL) return;
    for (int i = 0; i < t->attributes->kernel_h * t->attributes->kernel_w; i++) primitive_release(&t->products[i]);
    primitive_release(&t->reorder);
    free(t->products);
    free(t);
}

int64_t taps_workspace(const struct taps *t) { return t->workspace_bytes; }

/* Columns [first, first + count) of every row of all images, as (row, sample, column, channel). */
struct gather {
    const char *from;
    char *to;
    size_t pixel; /* bytes of all channels */
    int64_t samples, height, width, first, count;
};

static void gather_part(const void *context, size_t first, size_t end) {
    const struct gather *g = context;
    size_t stretch = (size_t)g->count * g->pixel;
    for (size_t i = first; i < end; i++) {
        int64_t row = (int64_t)i / g->samples, sample = (int64_t)i % g->samples;
        const char *from = g->from + (size_t)((sample * g->height + row) * g->width + g->first) * g->pixel;
        memcpy(g->to + i * stretch, from, stretch);
    }
}

static void gather(const struct taps *t, const struct gather *gather) {
    device_parallel(&t->device->device, (size_t)(gather->height * gather->samples), 1, gather_part, gather);
}

/* The taps of one column of the kernel. */
static enum ps_status run_column(struct taps *t, const struct kernel_call *call, int kw) {
    char *base = call->workspace;
    struct range columns = tap_columns(t, kw);
    const size_t size = number_types[t->type].bytes, x_pixel = (size_t)t->channels * size,
                 dy_pixel = (size_t)t->out_channels * size;
    const size_t row_pixels = (size_t)(t->samples * columns.count);
    char *x = base + t->x, *dy = base + t->dy;
    int64_t first = columns.first + kw - t->attributes->pad_w;
    gather(t,
           &(struct gather){(const char *)call->input[0], x, x_pixel, t->samples, t->height, t->width, first, columns.count});
    gather(t, &(struct gather){(const char *)call->output_gradient, dy, dy_pixel, t->samples, t->out_height, t->out_width,
                               columns.first, columns.count});
    for (int kh = 0; kh < t->attributes->kernel_h; kh++) {
        int tap = kh * t->attributes->kernel_w + kw;
        struct range rows = tap_rows(t, kh);
        int64_t matrix = t->channels * t->out_channels, row = rows.first + kh - t->attributes->pad_h;
        float *gradient = (float *)(void *)(base + t->gradient) + tap * matrix;
        if (t->products[tap].handle == NULL) {
            memset(gradient, 0, (size_t)matrix * sizeof *gradient);
            continue;
        }
        const void *addresses[] = {x + (size_t)row * row_pixels * x_pixel, dy + (size_t)rows.first * row_pixels * dy_pixel,
                                   gradient};
        TRY(primitive_run(&t->products[tap], t->device, addresses, base + t->scratchpad, call->error));
    }
    return PS_OK;
}

enum ps_status taps_run(struct taps *t, const struct kernel_call *call) {
    for (int kw = 0; kw < t->attributes->kernel_w; kw++) TRY(run_column(t, call, kw));
    char *base = call->workspace;
    const void *addresses[] = {base + t->gradient, call->gradients[0]};
    TRY(primitive_run(&t->reorder, t->device, addresses, base + t->scratchpad, call->error));
    if (t->attributes->bias) {
        size_t rows = (size_t)(t->samples * t->out_height * t->out_width);
        cpu_sum_rows(&t->device->device, rows, (size_t)t->out_channels, t->type, call->output_gradient, call->gradients[1]);
    }
    return PS_OK;
}
