/*
 * Max and average pooling by oneDNN. x (N, H, W, C), y (N, OH, OW, C). oneDNN's workspace (which element of each window won) is
 * the kernel's inner memory. Means over windows of different sizes, which oneDNN does not have, run in the loops of
 * average_windows.c.
 */
#include <stdlib.h>

#include "compute/cpu/average_windows.h"
#include "compute/cpu/cpu.h"

struct pool {
    struct kernel kernel;
    struct cpu_device *device;
    struct average_windows windows; /* where `uneven`; else the primitives */
    bool uneven;
    struct primitive forward, input;
};

static void destroy(struct kernel *kernel) {
    struct pool *pool = (struct pool *)kernel;
    primitive_release(&pool->forward);
    primitive_release(&pool->input);
    free(pool);
}

static void make(struct draft *draft, struct pool *pool, const struct shape *in, const struct shape *out,
                 dnnl_alg_kind_t algorithm, const struct window *window) {
    int64_t n = pool->kernel.samples;
    struct arrays arrays = {
        .source = draft_layout(draft, 4, (int64_t[]){n, in->dim[0], in->dim[1], in->dim[2]}, dnnl_nhwc),
        .destination = draft_layout(draft, 4, (int64_t[]){n, out->dim[0], out->dim[1], out->dim[2]}, dnnl_nhwc),
    };
    dnnl_primitive_desc_t forward = draft_pool(draft, PASS_FORWARD, algorithm, &arrays, window, NULL);
    dnnl_primitive_desc_t input = draft_pool(draft, PASS_INPUT, algorithm, &arrays, window, forward);
    int workspace = algorithm == dnnl_pooling_max ? DNNL_ARG_WORKSPACE : 0;
    draft_primitive(draft, forward, "forward", (int[]){DNNL_ARG_SRC, DNNL_ARG_DST, workspace, 0}, &pool->forward);
    draft_primitive(draft, input, "backward", (int[]){DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, workspace, 0}, &pool->input);
    if (workspace != 0) pool->kernel.inner_bytes = layout_bytes(draft_layout_of(draft, forward, workspace));
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

static enum ps_status create(struct device *device, const struct graph *graph, const struct node *node, int samples,
                             bool relu_follows, struct kernel **kernel, struct ps_error *error) {
    (void)relu_follows;
    struct pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) return error_memory(error, "a kernel", sizeof *pool);
    pool->kernel = (struct kernel){.type = device->type->kernels[node->id], .samples = samples};
    pool->device = (struct cpu_device *)device;
    dnnl_alg_kind_t algorithm = node->id == OPERATOR_MAX_POOL    ? dnnl_pooling_max
                                : node->attributes.count_padding ? dnnl_pooling_avg_include_padding
                                                                 : dnnl_pooling_avg_exclude_padding;
    const struct shape *in = &graph->nodes[node->inputs[0]].shape;
    struct window window = pool_window_of(&node->attributes, in, &node->shape);
    pool->uneven = is_uneven(node, &window);
    if (pool->uneven) {
        pool->windows = (struct average_windows){device, &node->attributes, in->dim, node->shape.dim, samples};
        *kernel = &pool->kernel;
        return PS_OK;
    }
    struct draft draft;
    draft_start(&draft, device, node);
    make(&draft, pool, in, &node->shape, algorithm, &window);
    enum ps_status status = draft_finish(&draft, error);
    if (status != PS_OK)
        destroy(&pool->kernel);
    else
        *kernel = &pool->kernel;
    return status;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct pool *pool = (struct pool *)kernel;
    if (pool->uneven) {
        average_windows_forward(&pool->windows, call);
        return PS_OK;
    }
    const void *addresses[] = {call->input[0], call->output, call->inner};
    return primitive_run(&pool->forward, pool->device, addresses, call->workspace, error);
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call, struct ps_error *error) {
    struct pool *pool = (struct pool *)kernel;
    if (pool->uneven) {
        average_windows_backward(&pool->windows, call);
        return PS_OK;
    }
    const void *addresses[] = {call->output_gradient, call->input_gradient[0], call->inner};
    return primitive_run(&pool->input, pool->device, addresses, call->workspace, error);
}

const struct kernel_class cpu_max_pool = {
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward_input = backward_input,
};

const struct kernel_class cpu_average_pool = {
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward_input = backward_input,
};
