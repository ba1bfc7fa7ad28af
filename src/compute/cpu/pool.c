/*
 * Max and average pooling by oneDNN. x (N, H, W, C), y (N, OH, OW, C). oneDNN's workspace (which element of each window won) is
 * the kernel's inner memory. Means over windows of different sizes, which oneDNN does not have, run in loops along
 * the channels. Windows may overlap, so their backward adds, and each thread has its own samples.
 *
 * In bf16 oneDNN adds the gradients of windows that overlap in bf16; then, on processors for which it has no fast code, and
 * where input and output differ in type, the primitives are of one sample in f32, and samples are pieces (compute/pieces.c).
 */
#include "base/number.h"
#include "compute/cpu/cpu.h"

struct pool {
    struct kernel kernel;
    bool uneven;                        /* windows of different sizes; else the primitives */
    bool forward_apart, backward_apart; /* the primitive is of one sample in f32 */
    struct primitive forward, input;
};

static void release(struct kernel *kernel) {
    struct pool *pool = (struct pool *)kernel;
    primitive_release(&pool->forward);
    primitive_release(&pool->input);
}

/* The forward's plan, or the backward's, of all samples in the values' type or of one in f32. */
static dnnl_primitive_desc_t plan(struct draft *draft, const struct pool *pool, const struct window *window, enum pass pass,
                                  bool apart) {
    const struct node *node = pool->kernel.node;
    const struct shape *in = kernel_input(&pool->kernel, 0), *out = &node->shape;
    const dnnl_alg_kind_t algorithm = node->id == OPERATOR_MAX_POOL    ? dnnl_pooling_max
                                      : node->attributes.count_padding ? dnnl_pooling_avg_include_padding
                                                                       : dnnl_pooling_avg_exclude_padding;
    int64_t n = apart ? 1 : pool->kernel.samples;
    draft->type = apart ? TYPE_F32 : out->type;
    struct arrays arrays = {
        .source = draft_layout(draft, 4, (int64_t[]){n, in->dim[0], in->dim[1], in->dim[2]}, dnnl_nhwc),
        .destination = draft_layout(draft, 4, (int64_t[]){n, out->dim[0], out->dim[1], out->dim[2]}, dnnl_nhwc),
    };
    dnnl_primitive_desc_t forward = draft_pool(draft, PASS_FORWARD, algorithm, &arrays, window, NULL);
    return pass == PASS_FORWARD ? forward : draft_pool(draft, PASS_INPUT, algorithm, &arrays, window, forward);
}

static void make(struct draft *draft, struct pool *pool, const struct window *window) {
    dnnl_primitive_desc_t forward = plan(draft, pool, window, PASS_FORWARD, pool->forward_apart),
                          input = plan(draft, pool, window, PASS_INPUT, pool->backward_apart);
    int workspace = pool->kernel.node->id == OPERATOR_MAX_POOL ? DNNL_ARG_WORKSPACE : 0;
    draft_primitive(draft, forward, "forward", (int[]){DNNL_ARG_SRC, DNNL_ARG_DST, workspace, 0}, &pool->forward);
    draft_primitive(draft, input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, workspace, 0}, &pool->input);
    const int64_t times = pool->forward_apart ? pool->kernel.samples : 1;
    if (workspace != 0) pool->kernel.inner_bytes = times * layout_bytes(draft_layout_of(draft, forward, workspace));
    int64_t a = pool->forward.scratchpad_bytes, b = pool->input.scratchpad_bytes;
    pool->kernel.workspace_bytes = a > b ? a : b;
}

/* With rounding up the last window may extend past the padding, which is then enlarged. */
static struct window pool_window_of(const struct attributes *a, const struct shape *in, const struct shape *out) {
    struct window window = window_of(a);
    for (int d = 0; d < 2; d++) {
        int64_t extent = (window.kernel[d] - 1) * (window.dilation[d] + 1) + 1;
        int64_t needed = (out->dim[d + 1] - 1) * window.stride[d] + extent - in->dim[d + 1] - window.pad[d];
        if (needed > window.pad_after[d]) window.pad_after[d] = needed;
    }
    return window;
}

/* Windows of different sizes or divisors, or with gaps. */
static bool is_uneven(const struct node *node, const struct window *window) {
    const struct attributes *a = &node->attributes;
    if (node->id == OPERATOR_MAX_POOL) return false;
    bool past_padding = window->pad_after[0] > a->pad_h + a->pad_extra_h || window->pad_after[1] > a->pad_w + a->pad_extra_w;
    return a->out_h > 0 || a->dilation_h > 1 || a->dilation_w > 1 || (a->count_padding && past_padding);
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct pool *pool = (struct pool *)kernel;
    const struct node *node = kernel->node;
    const struct attributes *a = &node->attributes;
    const struct shape *in = kernel_input(kernel, 0);
    struct window window = pool_window_of(&node->attributes, in, &node->shape);
    pool->uneven = is_uneven(node, &window);
    kernel->piece_floats = number_larger(shape_elements(in), shape_elements(&node->shape));
    if (pool->uneven) return PS_OK;
    pool->forward_apart = in->type != node->shape.type || (node->shape.type == TYPE_BF16 && !cpu_multiplies_bf16());
    const bool overlap = a->kernel_h > a->stride_h || a->kernel_w > a->stride_w;
    pool->backward_apart = pool->forward_apart || (node->shape.type == TYPE_BF16 && overlap);
    struct draft draft;
    draft_start(&draft, kernel->device, node);
    make(&draft, pool, &window);
    return draft_finish(&draft, error);
}

/* ------------------------------------------------ windows of different sizes */

static VECTOR_CLONES void add_pixel(size_t channels, float factor, const float *restrict from, float *restrict to) {
    for (size_t c = 0; c < channels; c++) to[c] += factor * from[c];
}

/* Window `index` of a sample: y is its mean, or dx gets its share of dy. */
static void pass_window(const struct kernel *kernel, int64_t index, const float *from, float *to, bool backward) {
    const struct attributes *a = &kernel->node->attributes;
    const int64_t *in = kernel_input(kernel, 0)->dim, *out = kernel->node->shape.dim;
    int64_t channels = in[0], height = in[1], width = in[2];
    struct pool_window rows = pool_window(a, POOL_ROWS, height, index / out[2]);
    struct pool_window columns = pool_window(a, POOL_COLUMNS, width, index % out[2]);
    float factor = 1 / (float)(rows.counted * columns.counted);
    for (int64_t row = rows.first; row < rows.end; row += rows.step) {
        for (int64_t column = columns.first; column < columns.end; column += columns.step) {
            int64_t pixel = (row * width + column) * channels, value = index * channels;
            add_pixel((size_t)channels, factor, from + (backward ? value : pixel), to + (backward ? pixel : value));
        }
    }
}

static void pass_sample(const struct kernel *kernel, const float *from, float *to, bool backward) {
    const struct shape *in = kernel_input(kernel, 0), *out = &kernel->node->shape;
    int64_t filled = shape_elements(backward ? in : out);
    memset(to, 0, (size_t)filled * sizeof *to);
    for (int64_t index = 0; index < out->dim[1] * out->dim[2]; index++) pass_window(kernel, index, from, to, backward);
}

static void forward_samples(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t in = (size_t)shape_elements(kernel_input(kernel, 0)), out = (size_t)shape_elements(&kernel->node->shape);
    for (size_t n = first; n < end; n++) pass_sample(kernel, call->input[0] + n * in, call->output + n * out, false);
}

static void backward_samples(const struct kernel *kernel, const struct kernel_call *call, size_t first, size_t end) {
    size_t in = (size_t)shape_elements(kernel_input(kernel, 0)), out = (size_t)shape_elements(&kernel->node->shape);
    for (size_t n = first; n < end; n++)
        pass_sample(kernel, call->output_gradient + n * out, call->input_gradient[0] + n * in, true);
}

/* --------------------------------------------------------------------- both */

/* Runs a primitive of one sample for each. */
struct apart {
    struct pool *pool;
    enum ps_status status;
};

static void run_samples(const void *context, const struct kernel_call *call, size_t first, size_t end) {
    struct apart *apart = *(struct apart *const *)context;
    struct pool *pool = apart->pool;
    const struct kernel *kernel = &pool->kernel;
    const size_t in = (size_t)shape_elements(kernel_input(kernel, 0)), out = (size_t)shape_elements(&kernel->node->shape);
    const size_t inner = (size_t)kernel->inner_bytes / (size_t)kernel->samples;
    for (size_t n = first; n < end && apart->status == PS_OK; n++) {
        const bool backward = call->input_gradient[0] != NULL;
        const void *won = (const char *)call->inner + n * inner;
        const void *forward[] = {call->input[0] + n * in, call->output + n * out, won};
        const void *gradients[] = {call->output_gradient + n * out, call->input_gradient[0] + n * in, won};
        apart->status = primitive_run(backward ? &pool->input : &pool->forward, cpu_of(kernel), backward ? gradients : forward,
                                      call->workspace, call->error);
    }
}

static enum ps_status run_apart(struct pool *pool, const struct kernel_call *call) {
    const size_t samples = (size_t)pool->kernel.samples;
    struct apart apart = {pool, PS_OK}, *context = &apart;
    kernel_pieces(&pool->kernel, call, samples, 0, samples, 1, run_samples, &context);
    return apart.status;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    struct pool *pool = (struct pool *)kernel;
    if (pool->uneven) {
        kernel_parallel(kernel, call, (size_t)kernel->samples, 1, forward_samples);
        return PS_OK;
    }
    if (pool->forward_apart) return run_apart(pool, call);
    const void *addresses[] = {call->input[0], call->output, call->inner};
    return primitive_run(&pool->forward, cpu_of(kernel), addresses, call->workspace, call->error);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    struct pool *pool = (struct pool *)kernel;
    if (pool->uneven) {
        kernel_parallel(kernel, call, (size_t)kernel->samples, 1, backward_samples);
        return PS_OK;
    }
    if (pool->backward_apart) return run_apart(pool, call);
    const void *addresses[] = {call->output_gradient, call->input_gradient[0], call->inner};
    return primitive_run(&pool->input, cpu_of(kernel), addresses, call->workspace, call->error);
}

#define POOL                                                                                                                   \
    {                                                                                                                          \
        .size = sizeof(struct pool), .piecewise = true, .prepare = prepare, .release = release, .forward = forward,            \
        .backward_input = backward_input                                                                                       \
    }
const struct kernel_class cpu_max_pool = POOL, cpu_average_pool = POOL;
