/*
 * Convolutions by cuDNN 9's graph API: an operation graph of one node, the engines that its heuristics propose for it, and the
 * plan of the first that suits. Tensors are given as N, C, H, W with the strides of N, H, W, C; weights as O, C / groups, KH,
 * KW with those of O, KH, KW, C / groups; the number of groups follows from the channels.
 *
 * Engines that are not deterministic are left out, and of f32 those that round or lose more than f32 sums do: by TF32 (unless
 * the device may), Winograd's and Fourier transforms.
 *
 * cuDNN computes in one type. Where the two factors differ, the one in f32 is rounded into the workspace; a result of another
 * type, as the gradient of weights in bf16, is made there and converted. Where cuDNN has no engine, and for one channel a
 * group, for which it has slow ones, kernels of our own compute, on any types (sources/convolve.cu).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"

/* Numbers of cudnn_graph.h. */
enum {
    CONVOLUTION_DESCRIPTOR = 1,
    ENGINE_DESCRIPTOR = 2,
    CONFIG_DESCRIPTOR = 3,
    HEURISTICS_DESCRIPTOR = 4,
    PLAN_DESCRIPTOR = 5,
    FORWARD_DESCRIPTOR = 10,
    BACKWARD_FILTER_DESCRIPTOR = 11,
    BACKWARD_DATA_DESCRIPTOR = 12,
    GRAPH_DESCRIPTOR = 15,
    VARIANTS_DESCRIPTOR = 16,
    TENSOR_DESCRIPTOR = 17
};
enum {
    CONVOLUTION_COMPUTE_TYPE = 100,
    CONVOLUTION_MODE = 101,
    CONVOLUTION_DILATIONS = 102,
    CONVOLUTION_STRIDES = 103,
    CONVOLUTION_POST_PADDINGS = 104,
    CONVOLUTION_PRE_PADDINGS = 105,
    CONVOLUTION_SPATIAL_DIMS = 106,
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    CONFIG_ENGINE = 300,
    PLAN_HANDLE = 400,
    PLAN_CONFIG = 401,
    PLAN_WORKSPACE_SIZE = 402,
    FORWARD_ALPHA = 700,
    FORWARD_BETA = 701,
    FORWARD_CONVOLUTION = 702,
    FORWARD_W = 703,
    FORWARD_X = 704,
    FORWARD_Y = 705,
    DATA_ALPHA = 706,
    DATA_BETA = 707,
    DATA_CONVOLUTION = 708,
    DATA_W = 709,
    DATA_DX = 710,
    DATA_DY = 711,
    FILTER_ALPHA = 712,
    FILTER_BETA = 713,
    FILTER_CONVOLUTION = 714,
    FILTER_DW = 715,
    FILTER_X = 716,
    FILTER_DY = 717,
    GRAPH_HANDLE = 800,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE = 901,
    TENSOR_DIMENSIONS = 902,
    TENSOR_STRIDES = 903,
    TENSOR_NUMBER = 906,
    VARIANTS_NUMBERS = 1000,
    VARIANTS_POINTERS = 1001,
    VARIANTS_WORKSPACE = 1003,
    ENGINE_NUMERICAL_NOTE = 1303
};
enum {
    IS_HANDLE = 0,
    IS_DATA_TYPE = 1,
    IS_INT64 = 3,
    IS_FLOAT = 4,
    IS_POINTER = 6,
    IS_MODE = 7,
    IS_HEURISTICS_MODE = 8,
    IS_NOTE = 11,
    IS_DESCRIPTOR = 15
};
enum { DATA_FLOAT = 0, DATA_BFLOAT16 = 9, CROSS_CORRELATION = 1, MODE_FALLBACK = 2, MODE_A = 3 };
enum {
    NOTE_TENSOR_CORE = 0,
    NOTE_DOWN_CONVERT_INPUTS = 1,
    NOTE_REDUCED_PRECISION_REDUCTION = 2,
    NOTE_FFT = 3,
    NOTE_NONDETERMINISTIC = 4,
    NOTE_WINOGRAD = 5,
    NOTE_WINOGRAD_TILE_4x4 = 6,
    NOTE_WINOGRAD_TILE_6x6 = 7,
    NOTE_WINOGRAD_TILE_13x13 = 8,
    NOTES = 32 /* more than there are */
};

enum operand { X, W, Y, OPERANDS };
enum { PARTS = 8, ALIGNMENT = 16 /* of a tensor, in bytes */ };

struct cuda_convolution {
    struct cuda_convolution_shape shape, inner; /* as asked for; as cuDNN computes */
    int64_t offset[OPERANDS];                   /* in the workspace, of an operand that has another type in both */
    void *parts[PARTS], *config, *plan;         /* descriptors */
    int part_count, turns;                      /* turns: in so many, each for its part of the samples, the plan computes */
    bool refused;                               /* a plan, for the memory it needs */
    const struct cuda_module *own;              /* our kernels, where there is no plan */
    int64_t pieces;                             /* of their sums of the gradient of weights */
    int64_t scratch_offset, scratch_bytes;      /* in the workspace, of the plan or of our kernels */
};

/* ------------------------------------------------------------------------- shapes */

static enum operand written(const struct cuda_convolution_shape *s) {
    return s->pass == CONVOLUTION_FORWARD ? Y : s->pass == CONVOLUTION_INPUT ? X : W;
}

static enum number_type *type_of(struct cuda_convolution_shape *s, enum operand operand) {
    return operand == X ? &s->x_type : operand == W ? &s->w_type : &s->y_type;
}

static int64_t elements_of(const struct cuda_convolution_shape *s, enum operand operand) {
    if (operand == W) return s->y[0] * s->kernel[0] * s->kernel[1] * (s->x[0] / s->groups);
    const int64_t *sides = operand == X ? s->x : s->y;
    return s->samples * sides[0] * sides[1] * sides[2];
}

/* The shape with the one type in which cuDNN computes. It has no fast engines that write f32 from bf16. */
static struct cuda_convolution_shape inner_of(const struct cuda_convolution_shape *shape) {
    struct cuda_convolution_shape s = *shape;
    enum number_type type = TYPE_F32;
    for (enum operand o = X; o < OPERANDS; o++)
        if (o != written(&s) && *type_of(&s, o) == TYPE_BF16) type = TYPE_BF16;
    for (enum operand o = X; o < OPERANDS; o++) *type_of(&s, o) = type;
    return s;
}

/* One input channel a group. */
static bool is_depthwise(const struct cuda_convolution_shape *s) { return s->groups > 1 && s->x[0] == s->groups; }

/* -------------------------------------------------------------------------- plans */

/* Descriptors that are being made. After the first failure nothing is done. */
struct draft {
    void *parts[PARTS];
    int count;
    bool failed;
};

static void *add(struct draft *draft, int type) {
    void *made = NULL;
    draft->failed = draft->failed || cuda.cudnnBackendCreateDescriptor(type, &made) != 0;
    if (draft->failed) return NULL;
    assert(draft->count < PARTS);
    draft->parts[draft->count++] = made;
    return made;
}

static void set(struct draft *draft, void *part, int name, int type, int64_t count, const void *values) {
    draft->failed = draft->failed || cuda.cudnnBackendSetAttribute(part, name, type, count, values) != 0;
}

static void finish(struct draft *draft, void *part) { draft->failed = draft->failed || cuda.cudnnBackendFinalize(part) != 0; }

static void drop(void *const *parts, int count) {
    for (int p = count - 1; p >= 0; p--) cuda.cudnnBackendDestroyDescriptor(parts[p]);
}

static void *add_tensor(struct draft *draft, enum operand operand, enum number_type number_type, int64_t count,
                        const int64_t sides[3]) {
    const int64_t channels = sides[0], height = sides[1], width = sides[2], number = operand + 1, alignment = ALIGNMENT,
                  dims[4] = {count, channels, height, width},
                  strides[4] = {channels * height * width, 1, channels * width, channels};
    const int type = number_type == TYPE_BF16 ? DATA_BFLOAT16 : DATA_FLOAT;
    void *tensor = add(draft, TENSOR_DESCRIPTOR);
    set(draft, tensor, TENSOR_TYPE, IS_DATA_TYPE, 1, &type);
    set(draft, tensor, TENSOR_DIMENSIONS, IS_INT64, 4, dims);
    set(draft, tensor, TENSOR_STRIDES, IS_INT64, 4, strides);
    set(draft, tensor, TENSOR_NUMBER, IS_INT64, 1, &number);
    set(draft, tensor, TENSOR_ALIGNMENT, IS_INT64, 1, &alignment);
    finish(draft, tensor);
    return tensor;
}

static void *add_convolution(struct draft *draft, const struct cuda_convolution_shape *s) {
    const int type = DATA_FLOAT, mode = CROSS_CORRELATION;
    const int64_t dims = 2;
    void *convolution = add(draft, CONVOLUTION_DESCRIPTOR);
    set(draft, convolution, CONVOLUTION_COMPUTE_TYPE, IS_DATA_TYPE, 1, &type);
    set(draft, convolution, CONVOLUTION_MODE, IS_MODE, 1, &mode);
    set(draft, convolution, CONVOLUTION_SPATIAL_DIMS, IS_INT64, 1, &dims);
    set(draft, convolution, CONVOLUTION_DILATIONS, IS_INT64, 2, s->dilation);
    set(draft, convolution, CONVOLUTION_STRIDES, IS_INT64, 2, s->stride);
    set(draft, convolution, CONVOLUTION_PRE_PADDINGS, IS_INT64, 2, s->pad_before);
    set(draft, convolution, CONVOLUTION_POST_PADDINGS, IS_INT64, 2, s->pad_after);
    finish(draft, convolution);
    return convolution;
}

/* The operation, and the graph of it alone, which is the last part. */
static void *add_graph(struct draft *draft, void *handle, const struct cuda_convolution_shape *s) {
    static const struct {
        int descriptor, convolution, operands[OPERANDS], alpha, beta;
    } passes[] = {
        [CONVOLUTION_FORWARD] =
            {FORWARD_DESCRIPTOR, FORWARD_CONVOLUTION, {FORWARD_X, FORWARD_W, FORWARD_Y}, FORWARD_ALPHA, FORWARD_BETA},
        [CONVOLUTION_INPUT] = {BACKWARD_DATA_DESCRIPTOR, DATA_CONVOLUTION, {DATA_DX, DATA_W, DATA_DY}, DATA_ALPHA, DATA_BETA},
        [CONVOLUTION_WEIGHTS] =
            {BACKWARD_FILTER_DESCRIPTOR, FILTER_CONVOLUTION, {FILTER_X, FILTER_DW, FILTER_DY}, FILTER_ALPHA, FILTER_BETA},
    };
    const int64_t weights[3] = {s->x[0] / s->groups, s->kernel[0], s->kernel[1]};
    void *tensors[OPERANDS] = {add_tensor(draft, X, s->x_type, s->samples, s->x),
                               add_tensor(draft, W, s->w_type, s->y[0], weights),
                               add_tensor(draft, Y, s->y_type, s->samples, s->y)},
         *convolution = add_convolution(draft, s), *operation = add(draft, passes[s->pass].descriptor);
    const float alpha = 1, beta = 0;
    set(draft, operation, passes[s->pass].convolution, IS_DESCRIPTOR, 1, &convolution);
    for (enum operand o = X; o < OPERANDS; o++)
        set(draft, operation, passes[s->pass].operands[o], IS_DESCRIPTOR, 1, &tensors[o]);
    set(draft, operation, passes[s->pass].alpha, IS_FLOAT, 1, &alpha);
    set(draft, operation, passes[s->pass].beta, IS_FLOAT, 1, &beta);
    finish(draft, operation);
    void *graph = add(draft, GRAPH_DESCRIPTOR);
    set(draft, graph, GRAPH_HANDLE, IS_HANDLE, 1, &handle);
    set(draft, graph, GRAPH_OPERATIONS, IS_DESCRIPTOR, 1, &operation);
    finish(draft, graph);
    return graph;
}

/* May the configuration's engine compute? */
static bool allowed(const struct cuda_device *device, const struct cuda_convolution_shape *s, void *config) {
    void *engine = NULL;
    int64_t count = 0;
    int notes[NOTES];
    if (cuda.cudnnBackendCreateDescriptor(ENGINE_DESCRIPTOR, &engine) != 0) return false;
    bool fine = cuda.cudnnBackendGetAttribute(config, CONFIG_ENGINE, IS_DESCRIPTOR, 1, &count, &engine) == 0 &&
                cuda.cudnnBackendGetAttribute(engine, ENGINE_NUMERICAL_NOTE, IS_NOTE, NOTES, &count, notes) == 0;
    for (int64_t n = 0; n < count && fine; n++) {
        static const bool never[NOTES] = {[NOTE_DOWN_CONVERT_INPUTS] = true,
                                          [NOTE_REDUCED_PRECISION_REDUCTION] = true,
                                          [NOTE_FFT] = true,
                                          [NOTE_NONDETERMINISTIC] = true,
                                          [NOTE_WINOGRAD] = true,
                                          [NOTE_WINOGRAD_TILE_4x4] = true,
                                          [NOTE_WINOGRAD_TILE_6x6] = true,
                                          [NOTE_WINOGRAD_TILE_13x13] = true};
        fine = notes[n] >= 0 && notes[n] < NOTES && !never[notes[n]];
        if (notes[n] == NOTE_TENSOR_CORE && !device->tf32 && s->x_type == TYPE_F32) fine = false;
    }
    cuda.cudnnBackendDestroyDescriptor(engine);
    return fine;
}

/* The configuration's plan; NULL: there is none. */
static void *plan_of(void *handle, void *config, int64_t *bytes) {
    struct draft draft = {0};
    int64_t count = 0;
    void *plan = add(&draft, PLAN_DESCRIPTOR);
    set(&draft, plan, PLAN_HANDLE, IS_HANDLE, 1, &handle);
    set(&draft, plan, PLAN_CONFIG, IS_DESCRIPTOR, 1, &config);
    finish(&draft, plan);
    if (!draft.failed && cuda.cudnnBackendGetAttribute(plan, PLAN_WORKSPACE_SIZE, IS_INT64, 1, &count, bytes) == 0) return plan;
    drop(draft.parts, draft.count);
    return NULL;
}

/* Takes the plan of the first configuration that has one and needs at most MOST memory. Where that is not LITTLE, one of the
 * next `more` plans that needs less. */
static void choose(struct cuda_device *device, struct cuda_convolution *made, void *const *configs, int64_t count, int more) {
    enum { LITTLE = 128 << 20, MOST = 512 << 20 };
    int tried = 0;
    for (int64_t c = 0; c < count && (!made->plan || (tried < more && made->scratch_bytes > LITTLE)); c++) {
        int64_t bytes = 0;
        if (!allowed(device, &made->inner, configs[c])) continue;
        void *plan = plan_of(device->dnn, configs[c], &bytes);
        if (!plan) continue;
        if (made->plan) tried++;
        made->refused = made->refused || bytes > MOST;
        if (bytes > MOST || (made->plan && bytes >= made->scratch_bytes)) {
            cuda.cudnnBackendDestroyDescriptor(plan);
            continue;
        }
        if (made->plan) cuda.cudnnBackendDestroyDescriptor(made->plan);
        made->plan = plan, made->scratch_bytes = bytes, made->config = configs[c];
    }
}

/* Looks for a plan among the configurations that the heuristics propose in a mode. */
static void search(struct cuda_device *device, struct cuda_convolution *made, void *graph, int mode) {
    enum { CONFIGS = 64 };
    struct draft draft = {0};
    void *configs[CONFIGS], *heuristics = add(&draft, HEURISTICS_DESCRIPTOR);
    int64_t count = 0, taken = 0;
    set(&draft, heuristics, HEURISTICS_GRAPH, IS_DESCRIPTOR, 1, &graph);
    set(&draft, heuristics, HEURISTICS_MODE, IS_HEURISTICS_MODE, 1, &mode);
    finish(&draft, heuristics);
    while (!draft.failed && taken < CONFIGS && cuda.cudnnBackendCreateDescriptor(CONFIG_DESCRIPTOR, &configs[taken]) == 0)
        taken++;
    if (!draft.failed &&
        cuda.cudnnBackendGetAttribute(heuristics, HEURISTICS_RESULTS, IS_DESCRIPTOR, taken, &count, configs) == 0)
        choose(device, made, configs, number_smaller(count, taken), mode == MODE_A ? 3 : 0);
    for (int64_t c = 0; c < taken; c++)
        if (configs[c] != made->config) cuda.cudnnBackendDestroyDescriptor(configs[c]);
    drop(draft.parts, draft.count);
}

/* Looks for a plan that computes so many samples in a turn. */
static void find_plan_of(struct cuda_device *device, struct cuda_convolution *made, int turns, int mode) {
    struct draft draft = {0};
    made->turns = turns;
    made->inner.samples = made->shape.samples / turns;
    made->refused = false;
    void *graph = add_graph(&draft, device->dnn, &made->inner);
    if (!draft.failed) search(device, made, graph, mode);
    if (!made->plan) {
        drop(draft.parts, draft.count);
        return;
    }
    memcpy(made->parts, draft.parts, sizeof draft.parts);
    made->part_count = draft.count;
}

/* Can the samples be divided so that each part begins where a tensor may? */
static bool divides(const struct cuda_convolution_shape *s, int turns) {
    const int64_t element = (int64_t)number_types[s->x_type].bytes * s->samples / turns, x = s->x[0] * s->x[1] * s->x[2],
                  y = s->y[0] * s->y[1] * s->y[2];
    return s->samples % turns == 0 && element * x % ALIGNMENT == 0 && element * y % ALIGNMENT == 0;
}

/* Where all plans for the whole batch need too much memory, those for parts of it come before the slow ones that need none. */
static void find_plan(struct cuda_device *device, struct cuda_convolution *made) {
    enum { TURNS = 16 };
    const struct cuda_convolution_shape whole = made->inner;
    find_plan_of(device, made, 1, MODE_A);
    for (int turns = 2; turns <= TURNS && made->shape.pass != CONVOLUTION_WEIGHTS; turns *= 2)
        if (!made->plan && made->refused && divides(&whole, turns)) find_plan_of(device, made, turns, MODE_A);
    if (!made->plan) find_plan_of(device, made, 1, MODE_FALLBACK);
}

/* -------------------------------------------------------------------- our kernels */

static void define(struct text *out, const char *name, int64_t value) {
    text_add(out, "#define %s %lld\n", name, (long long)value);
}

static enum ps_status compile(struct cuda_device *device, struct cuda_convolution *made, struct ps_error *error) {
    const struct cuda_convolution_shape *s = &made->shape;
    struct text text = {0};
    text_add(&text, "#define CALL_INPUTS 1\n#define X %s\n#define W %s\n#define Y %s\n", number_types[s->x_type].name,
             number_types[s->w_type].name, number_types[s->y_type].name);
    define(&text, "SAMPLES", s->samples);
    define(&text, "GROUPS", s->groups);
    define(&text, "CHANNELS", s->x[0]);
    define(&text, "HEIGHT", s->x[1]);
    define(&text, "WIDTH", s->x[2]);
    define(&text, "OUT_CHANNELS", s->y[0]);
    define(&text, "OUT_HEIGHT", s->y[1]);
    define(&text, "OUT_WIDTH", s->y[2]);
    static const char *const sides[2][4] = {{"KERNEL_H", "STRIDE_H", "PAD_H", "DILATION_H"},
                                            {"KERNEL_W", "STRIDE_W", "PAD_W", "DILATION_W"}};
    for (int i = 0; i < 2; i++) {
        define(&text, sides[i][0], s->kernel[i]);
        define(&text, sides[i][1], s->stride[i]);
        define(&text, sides[i][2], s->pad_before[i]);
        define(&text, sides[i][3], s->dilation[i]);
    }
    char *lines = text_take(&text);
    TRY(memory_check(lines, "a kernel's source", error));
    const enum ps_status status = cuda_compile(device, "convolve", lines, &made->own, error);
    free(lines);
    return status;
}

/* Into how many pieces the rows of the output are divided, for threads enough and not too much memory. */
static int64_t pieces_of(const struct cuda_device *device, const struct cuda_convolution_shape *s) {
    enum { THREADS = 4096 /* for each multiprocessor */, MOST = 512, FLOATS = 16 << 20 };
    const int64_t elements = elements_of(s, W), wanted = (int64_t)device->gpu->multiprocessors * THREADS / elements + 1;
    const int64_t most = number_smaller(number_smaller(s->samples * s->y[1], MOST), FLOATS / elements);
    return number_larger(number_smaller(wanted, most), 1);
}

static enum ps_status launch(struct cuda_device *device, const struct cuda_convolution *c, const char *name, int64_t count,
                             void *const more[4], struct ps_error *error) {
    struct call call = {.count = count, .number = {c->pieces}};
    memcpy(call.more, more, 4 * sizeof *more);
    const int64_t blocks = number_smaller((count + CUDA_BLOCK - 1) / CUDA_BLOCK, (int64_t)device->gpu->multiprocessors * 32);
    return cuda_launch(device, cuda_function(c->own, name), blocks, CUDA_BLOCK, &call, error);
}

static enum ps_status run_own(struct cuda_device *device, const struct cuda_convolution *c, void *const operands[OPERANDS],
                              void *scratch, struct ps_error *error) {
    const int64_t count = elements_of(&c->shape, written(&c->shape));
    void *const more[4] = {operands[X], operands[W], operands[Y], scratch};
    if (c->shape.pass == CONVOLUTION_FORWARD) return launch(device, c, "convolve_forward", count, more, error);
    if (c->shape.pass == CONVOLUTION_INPUT) return launch(device, c, "convolve_input", count, more, error);
    TRY(launch(device, c, "convolve_weights", count * c->pieces, more, error));
    return launch(device, c, "convolve_weights_finish", count, more, error);
}

/* ------------------------------------------------------------------ the interface */

enum ps_status cuda_convolution_create(struct cuda_device *device, const struct cuda_convolution_shape *shape,
                                       struct cuda_convolution **convolution, struct ps_error *error) {
    struct cuda_convolution *made;
    TRY(memory_new(&made, 1, "a convolution", error));
    made->shape = *shape;
    made->inner = inner_of(shape);
    const bool serves = !is_depthwise(shape); /* is cuDNN of use? */
    if (serves && !cuda_stand_in) {
        cuda_enter(device);
        find_plan(device, made);
    }
    enum ps_status status = PS_OK;
    if (!serves || (!made->plan && !cuda_stand_in)) status = compile(device, made, error);
    if (made->own) {
        made->inner = *shape;
        made->pieces = pieces_of(device, shape);
        if (shape->pass == CONVOLUTION_WEIGHTS)
            made->scratch_bytes = made->pieces * elements_of(shape, W) * (int64_t)sizeof(float);
    }
    for (enum operand o = X; o < OPERANDS; o++) {
        const enum number_type type = *type_of(&made->inner, o);
        made->offset[o] = made->scratch_offset;
        if (type == *type_of(&made->shape, o)) continue;
        made->scratch_offset += (int64_t)memory_align((size_t)elements_of(shape, o) * number_types[type].bytes);
    }
    if (status == PS_OK)
        *convolution = made;
    else
        cuda_convolution_destroy(made);
    return status;
}

void cuda_convolution_destroy(struct cuda_convolution *convolution) {
    if (!convolution) return;
    if (convolution->plan) cuda.cudnnBackendDestroyDescriptor(convolution->plan);
    if (convolution->config) cuda.cudnnBackendDestroyDescriptor(convolution->config);
    drop(convolution->parts, convolution->part_count);
    free(convolution);
}

int64_t cuda_convolution_workspace(const struct cuda_convolution *convolution) {
    return convolution->scratch_offset + convolution->scratch_bytes;
}

/* One turn. */
static enum ps_status execute(struct cuda_device *device, const struct cuda_convolution *c, void *const operands[OPERANDS],
                              void *scratch, struct ps_error *error) {
    static const int64_t numbers[OPERANDS] = {X + 1, W + 1, Y + 1};
    struct draft draft = {0};
    void *variants = add(&draft, VARIANTS_DESCRIPTOR);
    set(&draft, variants, VARIANTS_NUMBERS, IS_INT64, OPERANDS, numbers);
    set(&draft, variants, VARIANTS_POINTERS, IS_POINTER, OPERANDS, operands);
    set(&draft, variants, VARIANTS_WORKSPACE, IS_POINTER, 1, &scratch);
    finish(&draft, variants);
    const int status = draft.failed ? -1 : cuda.cudnnBackendExecute(device->dnn, c->plan, variants);
    drop(draft.parts, draft.count);
    if (status == 0) return PS_OK;
    return error_set(error, PS_FAILED, "device cuda: cuDNN fails in a convolution, with status %d", status);
}

static enum ps_status run_plan(struct cuda_device *device, const struct cuda_convolution *c, void *const operands[OPERANDS],
                               void *scratch, struct ps_error *error) {
    const int64_t element = (int64_t)number_types[c->inner.x_type].bytes, x_bytes = elements_of(&c->inner, X) * element,
                  y_bytes = elements_of(&c->inner, Y) * element;
    for (int turn = 0; turn < c->turns; turn++) {
        void *const now[OPERANDS] = {(char *)operands[X] + turn * x_bytes, operands[W], (char *)operands[Y] + turn * y_bytes};
        TRY(execute(device, c, now, scratch, error));
    }
    return PS_OK;
}

enum ps_status cuda_convolution_run(struct cuda_device *device, const struct cuda_convolution *convolution, void *x, void *w,
                                    void *y, void *workspace, struct ps_error *error) {
    struct cuda_convolution_shape outer = convolution->shape, inner = convolution->inner;
    void *const given[OPERANDS] = {x, w, y};
    void *operands[OPERANDS], *scratch = (char *)workspace + convolution->scratch_offset;
    const enum operand result = written(&outer);
    for (enum operand o = X; o < OPERANDS; o++) {
        const enum number_type from = *type_of(&outer, o), to = *type_of(&inner, o);
        operands[o] = from == to ? given[o] : (char *)workspace + convolution->offset[o];
        if (from != to && o != result)
            device_convert(&device->device, (size_t)elements_of(&outer, o), to, operands[o], from, given[o]);
    }
    if (convolution->own)
        TRY(run_own(device, convolution, operands, scratch, error));
    else if (cuda_stand_in)
        cuda_stand_in->convolution(&inner, operands[X], operands[W], operands[Y]);
    else
        TRY(run_plan(device, convolution, operands, scratch, error));
    const enum number_type made = *type_of(&inner, result), wanted = *type_of(&outer, result);
    if (made != wanted)
        device_convert(&device->device, (size_t)elements_of(&outer, result), wanted, given[result], made, operands[result]);
    return PS_OK;
}
