/* Drafts and primitives: see dnnl.h. Written for oneDNN's generation 3; dnnl_2.h adapts it to generation 2. */
#include "compute/cpu/dnnl.h"

#include <assert.h>
#include <dnnl_debug.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/processor.h"
#include "compute/cpu/dnnl_2.h"

/* ----------------------------------------------------------------- threads */

/*
 * oneDNN's plain products allocate aligned memory in each call and free it. glibc before 2.38 cuts such memory out of a larger
 * chunk and puts the rests at both ends into a per-thread cache of small chunks, where they are never merged with adjacent
 * ones: the next call finds no chunk that is large enough and takes more memory, up to some 10 MiB that no plan counts
 * (bench/memory.sh). The cache holds a few chunks of each size, so it is filled beforehand; with other C libraries that does no
 * harm.
 */
static void fill_small_pieces(void) {
    enum { LEAST = 24, MOST = 400, STEP = 16, OF_EACH = 14 };
    static _Thread_local bool filled;
    if (filled) return;
    filled = true;
    for (size_t size = LEAST; size < MOST; size += STEP) {
        void *volatile pieces[OF_EACH]; /* volatile: else a compiler may remove all of it */
        for (int i = 0; i < OF_EACH; i++) pieces[i] = malloc(size);
        for (int i = OF_EACH - 1; i >= 0; i--) free(pieces[i]);
    }
}

int cpu_enter(const struct cpu_device *device) {
    const int threads = omp_get_max_threads();
    omp_set_num_threads(device->device.threads);
    fill_small_pieces();
    return threads;
}

void cpu_leave(int threads) { omp_set_num_threads(threads); }

/* ----------------------------------------------------------------- layouts */

static const_dnnl_memory_desc_t descriptor(const struct layout *layout) {
    return layout != NULL ? dnnl_descriptor(&layout->descriptor) : NULL;
}

int64_t layout_bytes(const struct layout *layout) {
    return layout != NULL ? (int64_t)dnnl_memory_desc_get_size(descriptor(layout)) : 0;
}

void layout_release(struct layout *layout) {
    dnnl_memory_desc_destroy(layout->descriptor);
    memset(layout, 0, sizeof *layout);
}

enum ps_status layout_convert(struct cpu_device *device, const struct layout *from, const float *source,
                              const struct layout *to, float *destination, struct ps_error *error) {
    dnnl_primitive_desc_t plan = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_exec_arg_t arguments[2] = {{DNNL_ARG_FROM, NULL}, {DNNL_ARG_TO, NULL}};
    const int threads = cpu_enter(device);
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&plan, descriptor(from), device->engine, descriptor(to), device->engine, NULL);
    if (status == dnnl_success) status = dnnl_primitive_create(&reorder, plan);
    if (status == dnnl_success) {
        status = dnnl_memory_create(&arguments[0].memory, descriptor(from), device->engine, (void *)source);
    }
    if (status == dnnl_success) status = dnnl_memory_create(&arguments[1].memory, descriptor(to), device->engine, destination);
    if (status == dnnl_success) status = dnnl_primitive_execute(reorder, device->stream, 2, arguments);
    if (status == dnnl_success) status = dnnl_stream_wait(device->stream);
    for (int i = 0; i < 2; i++) dnnl_memory_destroy(arguments[i].memory);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(plan);
    cpu_leave(threads);
    if (status == dnnl_success) return PS_OK;
    return error_set(error, PS_FAILED, "oneDNN could not change the layout of weights: %s", dnnl_status2str(status));
}

bool cpu_multiplies_bf16(void) {
    const bool vectors = (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
    const char *said = getenv("ONEDNN_MAX_CPU_ISA");
    const bool named = said != NULL && strcmp(said, "AVX512_CORE_BF16") == 0;
    return cpu_has_tiles() || (vectors && (named || processor_has_fast_bf16_vectors()));
}

bool cpu_has_tiles(void) {
    return (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_amx) == dnnl_cpu_isa_avx512_core_amx;
}

/* -------------------------------------------------------------- primitives */

enum ps_status primitive_run(struct primitive *primitive, struct cpu_device *device, const void *const *addresses,
                             void *scratchpad, struct ps_error *error) {
    dnnl_status_t status = dnnl_success;
    const int threads = cpu_enter(device);
    for (int i = 0; i < primitive->argument_count && status == dnnl_success; i++) {
        status = dnnl_memory_set_data_handle(primitive->arguments[i].memory, (void *)addresses[i]);
    }
    if (status == dnnl_success && primitive->scratchpad_bytes > 0) {
        status = dnnl_memory_set_data_handle(primitive->arguments[primitive->argument_count].memory, scratchpad);
    }
    int count = primitive->argument_count + (primitive->scratchpad_bytes > 0);
    if (status == dnnl_success) {
        status = dnnl_primitive_execute(primitive->handle, device->stream, count, primitive->arguments);
    }
    if (status == dnnl_success) status = dnnl_stream_wait(device->stream);
    cpu_leave(threads);
    if (status == dnnl_success) return PS_OK;
    return error_set(error, PS_FAILED, "%s of node '%s' (%s): oneDNN failed: %s", primitive->part, primitive->node->name,
                     operator_get(primitive->node->id)->name, dnnl_status2str(status));
}

void primitive_release(struct primitive *primitive) {
    for (int i = 0; i <= PRIMITIVE_ARGUMENTS_MAX; i++) dnnl_memory_destroy(primitive->arguments[i].memory);
    dnnl_primitive_destroy(primitive->handle);
    memset(primitive, 0, sizeof *primitive);
}

/* ------------------------------------------------------------------- draft */

void draft_start(struct draft *draft, struct device *device, const struct node *node) {
    memset(draft, 0, sizeof *draft);
    draft->device = (struct cpu_device *)device;
    draft->node = node;
    draft->type = TYPE_F32;
    draft->threads = cpu_enter(draft->device);
}

enum ps_status draft_finish(struct draft *draft, struct ps_error *error) {
    cpu_leave(draft->threads);
    for (int i = 0; i < draft->plan_count; i++) dnnl_primitive_desc_destroy(draft->plans[i]);
    for (int i = 0; i < draft->layout_count; i++) layout_release(&draft->layouts[i]);
    if (draft->status == dnnl_success) return PS_OK;
    return error_set(error, draft->status == dnnl_out_of_memory ? PS_FAILED : PS_USAGE,
                     "node '%s' (%s): oneDNN cannot compute it: %s", draft->node->name, operator_get(draft->node->id)->name,
                     dnnl_status2str(draft->status));
}

/* The next layout of the draft, if `status` is a success. */
static const struct layout *take_layout(struct draft *draft, dnnl_status_t status) {
    draft->status = status;
    return status == dnnl_success ? &draft->layouts[draft->layout_count++] : NULL;
}

/* Of the layouts that are made next. */
static dnnl_data_type_t data_type(const struct draft *draft) { return draft->type == TYPE_BF16 ? dnnl_bf16 : dnnl_f32; }

const struct layout *draft_layout(struct draft *draft, int rank, const int64_t *dims, dnnl_format_tag_t tag) {
    if (draft->status != dnnl_success) return NULL;
    assert(draft->layout_count < DRAFT_MAX);
    dnnl_memory_desc_t *made = &draft->layouts[draft->layout_count].descriptor;
    return take_layout(draft, dnnl_memory_desc_create_with_tag(made, rank, dims, data_type(draft), tag));
}

const struct layout *draft_layout_strided(struct draft *draft, int rank, const int64_t *dims, const int64_t *strides) {
    if (draft->status != dnnl_success) return NULL;
    assert(draft->layout_count < DRAFT_MAX);
    dnnl_memory_desc_t *made = &draft->layouts[draft->layout_count].descriptor;
    return take_layout(draft, dnnl_memory_desc_create_with_strides(made, rank, dims, data_type(draft), strides));
}

const struct layout *draft_layout_weights(struct draft *draft, int64_t rows, int64_t features, int64_t columns) {
    const dnnl_dims_t dims = {features, columns};
    return draft_layout(draft, 2, dims, rows < PLAIN_ROWS ? dnnl_format_tag_any : dnnl_ab);
}

const struct layout *draft_layout_of(struct draft *draft, const_dnnl_primitive_desc_t plan, int argument) {
    if (draft->status != dnnl_success) return NULL;
    assert(draft->layout_count < DRAFT_MAX);
    dnnl_memory_desc_t *made = &draft->layouts[draft->layout_count].descriptor;
    const_dnnl_memory_desc_t found = dnnl_primitive_desc_query_md(plan, dnnl_query_exec_arg_md, argument);
    return take_layout(draft, dnnl_memory_desc_clone(made, found));
}

void draft_keep(struct draft *draft, const struct layout *layout, struct layout *kept) {
    if (draft->status == dnnl_success) draft->status = dnnl_memory_desc_clone(&kept->descriptor, descriptor(layout));
}

bool draft_differ(const struct draft *draft, const struct layout *a, const struct layout *b) {
    return draft->status == dnnl_success && !dnnl_memory_desc_equal(descriptor(a), descriptor(b));
}

struct window window_of(const struct attributes *a) {
    return (struct window){.kernel = {a->kernel_h, a->kernel_w},
                           .stride = {a->stride_h, a->stride_w},
                           .pad = {a->pad_h, a->pad_w},
                           .pad_after = {a->pad_h + a->pad_extra_h, a->pad_w + a->pad_extra_w},
                           .dilation = {a->dilation_h - 1, a->dilation_w - 1}};
}

/* What becomes of a primitive's result, in this order. */
struct after {
    float scale; /* factor; 1 */
    bool added;  /* to what is there */
    bool relu;
};

/* The attributes of every primitive: the caller's scratchpad and what becomes of the result. NULL once something failed. */
static dnnl_primitive_attr_t start_plan_with(struct draft *draft, struct after wanted) {
    if (draft->status != dnnl_success) return NULL;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success) status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && (wanted.relu || wanted.added || wanted.scale != 1)) {
        status = dnnl_post_ops_create(&after);
        if (status == dnnl_success && wanted.scale != 1) status = dnnl_append(after, dnnl_eltwise_linear, wanted.scale);
        if (status == dnnl_success && wanted.added) status = dnnl_append_sum(after);
        if (status == dnnl_success && wanted.relu) status = dnnl_append(after, dnnl_eltwise_relu, 0);
        if (status == dnnl_success) status = dnnl_primitive_attr_set_post_ops(attributes, after);
        dnnl_post_ops_destroy(after);
    }
    if (status != dnnl_success) {
        dnnl_primitive_attr_destroy(attributes);
        attributes = NULL;
    }
    draft->status = status;
    return attributes;
}

static dnnl_primitive_attr_t start_plan(struct draft *draft, bool relu) {
    return start_plan_with(draft, (struct after){.scale = 1, .relu = relu});
}

/* Records the plan that a call created, or its failure. */
static dnnl_primitive_desc_t take_plan(struct draft *draft, dnnl_primitive_attr_t attributes, dnnl_status_t status,
                                       dnnl_primitive_desc_t plan) {
    dnnl_primitive_attr_destroy(attributes);
    draft->status = status;
    if (status != dnnl_success) return NULL;
    assert(draft->plan_count < DRAFT_MAX);
    draft->plans[draft->plan_count++] = plan;
    return plan;
}

dnnl_primitive_desc_t draft_convolution(struct draft *draft, enum pass pass, const struct arrays *arrays,
                                        const struct window *w, bool relu, const_dnnl_primitive_desc_t hint) {
    dnnl_primitive_attr_t attributes = start_plan(draft, relu);
    if (attributes == NULL) return NULL;
    dnnl_engine_t engine = draft->device->engine;
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status = dnnl_invalid_arguments;
    const_dnnl_memory_desc_t x = descriptor(arrays->source), weights = descriptor(arrays->weights),
                             bias = descriptor(arrays->bias), y = descriptor(arrays->destination);
    switch (pass) {
    case PASS_FORWARD:
        status = dnnl_convolution_forward_primitive_desc_create(&plan, engine, dnnl_forward_training, dnnl_convolution_direct,
                                                                x, weights, bias, y, w->stride, w->dilation, w->pad,
                                                                w->pad_after, attributes);
        break;
    case PASS_INPUT:
        status = dnnl_convolution_backward_data_primitive_desc_create(&plan, engine, dnnl_convolution_direct, x, weights, y,
                                                                      w->stride, w->dilation, w->pad, w->pad_after, hint,
                                                                      attributes);
        break;
    case PASS_WEIGHTS:
        status = dnnl_convolution_backward_weights_primitive_desc_create(&plan, engine, dnnl_convolution_direct, x, weights,
                                                                         bias, y, w->stride, w->dilation, w->pad, w->pad_after,
                                                                         hint, attributes);
        break;
    }
    return take_plan(draft, attributes, status, plan);
}

dnnl_primitive_desc_t draft_linear(struct draft *draft, enum pass pass, const struct arrays *arrays, bool relu,
                                   const_dnnl_primitive_desc_t hint) {
    dnnl_primitive_attr_t attributes = start_plan(draft, relu);
    if (attributes == NULL) return NULL;
    dnnl_engine_t engine = draft->device->engine;
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status = dnnl_invalid_arguments;
    const_dnnl_memory_desc_t x = descriptor(arrays->source), weights = descriptor(arrays->weights),
                             bias = descriptor(arrays->bias), y = descriptor(arrays->destination);
    switch (pass) {
    case PASS_FORWARD:
        status = dnnl_inner_product_forward_primitive_desc_create(&plan, engine, dnnl_forward_training, x, weights, bias, y,
                                                                  attributes);
        break;
    case PASS_INPUT:
        status = dnnl_inner_product_backward_data_primitive_desc_create(&plan, engine, x, weights, y, hint, attributes);
        break;
    case PASS_WEIGHTS:
        status =
            dnnl_inner_product_backward_weights_primitive_desc_create(&plan, engine, x, weights, bias, y, hint, attributes);
        break;
    }
    return take_plan(draft, attributes, status, plan);
}

dnnl_primitive_desc_t draft_pool(struct draft *draft, enum pass pass, dnnl_alg_kind_t algorithm, const struct arrays *arrays,
                                 const struct window *w, const_dnnl_primitive_desc_t hint) {
    dnnl_primitive_attr_t attributes = start_plan(draft, false);
    if (attributes == NULL) return NULL;
    dnnl_engine_t engine = draft->device->engine;
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status;
    const_dnnl_memory_desc_t x = descriptor(arrays->source), y = descriptor(arrays->destination);
    if (pass == PASS_FORWARD) {
        status = dnnl_pooling_forward_primitive_desc_create(&plan, engine, dnnl_forward_training, algorithm, x, y, w->stride,
                                                            w->kernel, w->dilation, w->pad, w->pad_after, attributes);
    } else {
        status = dnnl_pooling_backward_primitive_desc_create(&plan, engine, algorithm, x, y, w->stride, w->kernel, w->dilation,
                                                             w->pad, w->pad_after, hint, attributes);
    }
    return take_plan(draft, attributes, status, plan);
}

dnnl_primitive_desc_t draft_elementwise(struct draft *draft, enum pass pass, dnnl_alg_kind_t algorithm,
                                        const struct layout *array, const_dnnl_primitive_desc_t hint) {
    dnnl_primitive_attr_t attributes = start_plan(draft, false);
    if (attributes == NULL) return NULL;
    dnnl_engine_t engine = draft->device->engine;
    dnnl_primitive_desc_t plan = NULL;
    const_dnnl_memory_desc_t x = descriptor(array);
    dnnl_status_t status =
        pass == PASS_FORWARD
            ? dnnl_eltwise_forward_primitive_desc_create(&plan, engine, dnnl_forward_training, algorithm, x, x, 0, 0,
                                                         attributes)
            : dnnl_eltwise_backward_primitive_desc_create(&plan, engine, algorithm, x, x, x, 0, 0, hint, attributes);
    return take_plan(draft, attributes, status, plan);
}

/* oneDNN's name of the plan's implementation; "" where it has none. */
static const char *code_of(const struct draft *draft, const_dnnl_primitive_desc_t plan) {
    const char *name = NULL;
    if (draft->status != dnnl_success) return "";
    dnnl_status_t status = dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, (void *)&name);
    return status == dnnl_success && name != NULL ? name : "";
}

/* With AMX, oneDNN 2.6's products of bf16 end the program by an illegal instruction for some sizes where this many products are
 * summed: one fewer than a multiple of what a tile takes (63, or 799). The batch-reduced products of 3.7 with AVX-512 are wrong
 * for some small stacks of five dimensions, such as those whose heads share a factor. */
static bool is_faulty(const struct draft *draft, const struct layout *left, const_dnnl_primitive_desc_t plan) {
    enum { TILE = 32 };
    const char *code = code_of(draft, plan);
    if (cpu_has_tiles() && dnnl_side(descriptor(left), 0) % TILE == TILE - 1 && strstr(code, "amx") != NULL) return true;
    return DNNL_VERSION_MAJOR >= 3 && dnnl_rank(descriptor(left)) == 5 && strncmp(code, "brg", 3) == 0;
}

static dnnl_primitive_desc_t plan_product(struct draft *draft, const struct layout *left, const struct layout *right,
                                          const struct layout *bias, const struct layout *product, struct after after) {
    dnnl_primitive_attr_t attributes = start_plan_with(draft, after);
    if (attributes == NULL) return NULL;
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status = dnnl_success;
    bool faulty = true;
    for (int skipped = 0; status == dnnl_success && faulty; skipped++) {
        dnnl_primitive_desc_destroy(plan);
        plan = NULL;
        status = dnnl_matmul_after(skipped, &plan, draft->device->engine, descriptor(left), descriptor(right), descriptor(bias),
                                   descriptor(product), attributes);
        faulty = status == dnnl_success && is_faulty(draft, left, plan);
    }
    if (status != dnnl_success) dnnl_primitive_desc_destroy(plan);
    return take_plan(draft, attributes, status, plan);
}

dnnl_primitive_desc_t draft_product(struct draft *draft, const struct layout *left, const struct layout *right,
                                    const struct layout *product) {
    return plan_product(draft, left, right, NULL, product, (struct after){.scale = 1});
}

dnnl_primitive_desc_t draft_product_added(struct draft *draft, const struct layout *left, const struct layout *right,
                                          const struct layout *product) {
    return plan_product(draft, left, right, NULL, product, (struct after){.scale = 1, .added = true});
}

dnnl_primitive_desc_t draft_product_finished(struct draft *draft, const struct layout *left, const struct layout *right,
                                             const struct layout *bias, const struct layout *product, float scale, bool relu) {
    return plan_product(draft, left, right, bias, product, (struct after){.scale = scale, .relu = relu});
}

dnnl_primitive_desc_t draft_reorder(struct draft *draft, const struct layout *from, const struct layout *to) {
    dnnl_primitive_attr_t attributes = start_plan(draft, false);
    if (attributes == NULL) return NULL;
    dnnl_engine_t engine = draft->device->engine;
    dnnl_primitive_desc_t plan = NULL;
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&plan, descriptor(from), engine, descriptor(to), engine, attributes);
    return take_plan(draft, attributes, status, plan);
}

bool draft_slow(const struct draft *draft, const_dnnl_primitive_desc_t plan) {
    return strncmp(code_of(draft, plan), "ref", 3) == 0;
}

bool draft_is_plain(const struct draft *draft, const_dnnl_primitive_desc_t plan) {
    return strstr(code_of(draft, plan), "gemm:jit") != NULL;
}

void make_plain_code(void) {
    enum { SIZE = 64 };
    float left[SIZE * SIZE] = {0}, right[SIZE * SIZE] = {0}, product[SIZE * SIZE];
    dnnl_sgemm('N', 'N', SIZE, SIZE, SIZE, 1, left, SIZE, right, SIZE, 0, product, SIZE);
}

static dnnl_status_t make_argument(struct draft *draft, const_dnnl_primitive_desc_t plan, int argument, dnnl_exec_arg_t *made) {
    const_dnnl_memory_desc_t layout = dnnl_primitive_desc_query_md(plan, dnnl_query_exec_arg_md, argument);
    made->arg = argument;
    return dnnl_memory_create(&made->memory, layout, draft->device->engine, DNNL_MEMORY_NONE);
}

void draft_primitive(struct draft *draft, const_dnnl_primitive_desc_t plan, const char *part, const int *arguments,
                     struct primitive *primitive) {
    if (draft->status != dnnl_success) return;
    primitive->node = draft->node;
    primitive->part = part;
    if (draft_is_plain(draft, plan)) make_plain_code();
    dnnl_status_t status = dnnl_primitive_create(&primitive->handle, plan);
    for (; arguments[primitive->argument_count] != 0 && status == dnnl_success; primitive->argument_count++) {
        int i = primitive->argument_count;
        assert(i < PRIMITIVE_ARGUMENTS_MAX);
        status = make_argument(draft, plan, arguments[i], &primitive->arguments[i]);
    }
    if (status == dnnl_success) {
        const_dnnl_memory_desc_t scratchpad = dnnl_primitive_desc_query_md(plan, dnnl_query_scratchpad_md, 0);
        primitive->scratchpad_bytes = (int64_t)dnnl_memory_desc_get_size(scratchpad);
    }
    if (status == dnnl_success && primitive->scratchpad_bytes > 0) {
        status = make_argument(draft, plan, DNNL_ARG_SCRATCHPAD, &primitive->arguments[primitive->argument_count]);
    }
    draft->status = status;
}
