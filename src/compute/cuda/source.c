/*
 * The kernels' sources: constants for a node, compilation when a kernel is made, and launches. A source is compiled once for
 * each set of constants that it mentions; the result stays until the process ends.
 */
#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/texts.h"

/* -------------------------------------------------------------------- compilation */

enum { FUNCTIONS_MAX = 16 }; /* of a source */

struct cuda_module {
    struct cuda_module *next;
    int gpu;
    char *key; /* the source's name, and its constants */
    void *module;
    /* Those that were looked up, by the addresses of their names; several threads may look up one at once. */
    atomic_int count;
    struct {
        _Atomic(const char *) name;
        void *function;
    } functions[FUNCTIONS_MAX];
};

static struct {
    pthread_mutex_t lock;
    struct cuda_module *first;
} modules = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *cuda_text(const char *name) {
    for (const struct cuda_text *text = cuda_texts; text->name; text++)
        if (strcmp(text->name, name) == 0) return (const char *)text->bytes;
    return NULL;
}

static const struct cuda_module *find_module(int gpu, const char *key) {
    pthread_mutex_lock(&modules.lock);
    const struct cuda_module *at = modules.first;
    while (at && (at->gpu != gpu || strcmp(at->key, key) != 0)) at = at->next;
    pthread_mutex_unlock(&modules.lock);
    return at;
}

static enum ps_status fail_to_compile(void *program, const char *source, struct ps_error *error) {
    size_t bytes = 0;
    cuda.nvrtcGetProgramLogSize(program, &bytes);
    char *log = calloc(bytes + 1, 1);
    if (log && bytes > 0) cuda.nvrtcGetProgramLog(program, log);
    error_set(error, PS_FAILED, "device cuda: the kernels of %s do not compile: %.600s", source, log ? log : "");
    free(log);
    return PS_FAILED;
}

static enum ps_status compile(struct cuda_device *device, const char *source, const char *text, char **image,
                              struct ps_error *error) {
    static const char *const names[] = {"prelude.h", "columns.h", "call.h", "functions.def"};
    enum { HEADERS = sizeof names / sizeof *names };
    const char *texts[HEADERS];
    char architecture[64];
    void *program = NULL;
    size_t bytes = 0;
    for (int h = 0; h < HEADERS; h++) texts[h] = cuda_text(names[h]);
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%d%d", device->gpu->major, device->gpu->minor);
    const char *const options[] = {architecture, "--fmad=false", "--std=c++17"};
    if (cuda.nvrtcCreateProgram(&program, text, source, HEADERS, texts, names) != 0)
        return error_set(error, PS_FAILED, "device cuda: NVRTC takes no program");
    enum ps_status status = PS_OK;
    if (cuda.nvrtcCompileProgram(program, sizeof options / sizeof *options, options) != 0)
        status = fail_to_compile(program, source, error);
    if (status == PS_OK && cuda.nvrtcGetCUBINSize(program, &bytes) == 0) {
        *image = malloc(bytes + 1);
        status = memory_check(*image, "compiled kernels", error);
        if (status == PS_OK) cuda.nvrtcGetCUBIN(program, *image);
    }
    cuda.nvrtcDestroyProgram(&program);
    return status;
}

static enum ps_status make_module(struct cuda_device *device, const char *source, const char *defines, char *key,
                                  struct cuda_module **out, struct ps_error *error) {
    struct text name = {0}, text = {0};
    text_add(&name, "%s.cu", source);
    char *file = text_take(&name);
    const char *body = file ? cuda_text(file) : NULL;
    free(file);
    assert(body);
    text_add_raw(&text, defines, strlen(defines));
    text_add(&text, "#include \"prelude.h\"\n");
    text_add_raw(&text, body, strlen(body));
    char *whole = text_take(&text), *image = NULL;
    TRY(memory_check(whole, "a kernel's source", error));
    enum ps_status status = compile(device, source, whole, &image, error);
    struct cuda_module *made = NULL;
    if (status == PS_OK) status = memory_new(&made, 1, "compiled kernels", error);
    if (status == PS_OK) status = cuda_check(cuda.cuModuleLoadData(&made->module, image), "loading kernels", error);
    free(whole);
    free(image);
    if (status != PS_OK) {
        free(made);
        return status;
    }
    made->gpu = device->gpu->number;
    made->key = key;
    *out = made;
    return PS_OK;
}

enum ps_status cuda_compile(struct cuda_device *device, const char *source, const char *defines,
                            const struct cuda_module **module, struct ps_error *error) {
    struct text text = {0};
    text_add(&text, "%s\n", source);
    text_add_raw(&text, defines, strlen(defines));
    char *key = text_take(&text);
    TRY(memory_check(key, "a kernel's name", error));
    *module = find_module(device->gpu->number, key);
    if (*module) {
        free(key);
        return PS_OK;
    }
    struct cuda_module *made;
    cuda_enter(device);
    enum ps_status status = make_module(device, source, defines, key, &made, error);
    if (status != PS_OK) {
        free(key);
        return status;
    }
    pthread_mutex_lock(&modules.lock);
    made->next = modules.first;
    modules.first = made;
    pthread_mutex_unlock(&modules.lock);
    *module = made;
    return PS_OK;
}

void *cuda_function(const struct cuda_module *module, const char *name) {
    struct cuda_module *kept = (struct cuda_module *)(uintptr_t)module;
    void *function = NULL;
    const int count = kept->count;
    for (int f = 0; f < count && f < FUNCTIONS_MAX; f++)
        if (kept->functions[f].name == name) return kept->functions[f].function;
    const int status = cuda.cuModuleGetFunction(&function, module->module, name);
    assert(status == 0);
    (void)status;
    const int own = kept->count++;
    if (own < FUNCTIONS_MAX) {
        kept->functions[own].function = function;
        kept->functions[own].name = name;
    }
    return function;
}

enum ps_status cuda_launch(struct cuda_device *device, void *function, int64_t blocks, int threads, const void *argument,
                           struct ps_error *error) {
    void *arguments[] = {(void *)(uintptr_t)argument};
    if (blocks < 1) return PS_OK;
    return cuda_check(
        cuda.cuLaunchKernel(function, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, 0, device->stream, arguments, NULL),
        "a launch", error);
}

/* ---------------------------------------------------------------------- constants */

/* Does the text have the name as a whole word? */
static bool mentions(const char *text, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
        const bool starts = at == text || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        if (starts && !(isalnum((unsigned char)at[length]) || at[length] == '_')) return true;
    }
    return false;
}

struct defines {
    const char *source;
    struct text *out;
};

static void define(const struct defines *d, const char *name, const char *value) {
    if (mentions(d->source, name)) text_add(d->out, "#define %s %s\n", name, value);
}

static void define_number(const struct defines *d, const char *name, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    define(d, name, text);
}

static void define_value(const struct defines *d, const char *prefix, const struct shape *shape, int samples) {
    char name[48];
    for (int s = 0; s < SHAPE_RANK_MAX; s++) {
        snprintf(name, sizeof name, "%s_D%d", prefix, s);
        define_number(d, name, s < shape->rank ? shape->dim[s] : 1);
    }
    snprintf(name, sizeof name, "%s_RANK", prefix);
    define_number(d, name, shape->rank);
    snprintf(name, sizeof name, "%s_ROWS", prefix);
    define_number(d, name, (int64_t)shape_rows(shape, samples));
    define(d, prefix, number_types[shape->type].name);
}

static void define_attribute(const struct defines *d, const struct attributes *attributes, const struct attribute *attribute) {
    const int count = attribute_count(attributes, attribute);
    char name[64], value[48];
    for (int e = 0; e < count; e++) {
        const double number = attribute_get(attributes, attribute, e);
        if (attribute->kind == ATTRIBUTE_LIST || attribute->kind == ATTRIBUTE_SIDES)
            snprintf(name, sizeof name, "A_%s_%d", attribute->name, e);
        else
            snprintf(name, sizeof name, "A_%s", attribute->name);
        if (attribute->kind == ATTRIBUTE_NUMBER)
            snprintf(value, sizeof value, isfinite(number) ? "(%af)" : number > 0 ? "(1 / 0.0f)" : "(-1 / 0.0f)", number);
        else
            snprintf(value, sizeof value, "(%lld)", (long long)number);
        define(d, name, value);
    }
    if (attribute->kind == ATTRIBUTE_LIST) {
        snprintf(name, sizeof name, "A_%s_COUNT", attribute->name);
        define_number(d, name, count);
    }
}

static int64_t row_of(const struct kernel *kernel) {
    const struct cuda_class *type = cuda_class_of(kernel);
    return type->row ? type->row(kernel) : (int64_t)kernel_features(kernel);
}

static int vector_of(const struct kernel *kernel) { return row_of(kernel) % 4 == 0 ? 4 : 1; }

/* Rows of up to SHORT vectors are a part of a warp's, longer ones a block's. */
static int team_of(const struct kernel *kernel) {
    enum { SHORT = 256, LONG = 2048 };
    const int64_t vectors = row_of(kernel) / vector_of(kernel);
    int team = 1;
    while (team < 32 && team < vectors) team *= 2;
    return vectors <= SHORT ? team : vectors <= LONG ? 256 : 512;
}

static void define_node(const struct kernel *kernel, const struct defines *d) {
    const struct node *node = kernel->node;
    const struct operator_type *type = operator_get(node->id);
    char name[16];
    for (int i = 0; i < node->input_count; i++) {
        snprintf(name, sizeof name, "X%d", i);
        define_value(d, name, kernel_input(kernel, i), kernel->samples);
    }
    define_value(d, "Y", &node->shape, kernel->samples);
    for (int p = 0; p < node->parameter_count; p++) {
        const struct parameter *parameter = &kernel->graph->parameters[node->parameter_first + p];
        snprintf(name, sizeof name, "W%d", p);
        define(d, name, number_types[parameter->copy].name);
    }
    define_number(d, "SAMPLES", kernel->samples);
    define_number(d, "ROWS", (int64_t)kernel_rows(kernel));
    define_number(d, "FEATURES", (int64_t)kernel_features(kernel));
    for (int a = 0; a < ATTRIBUTES_MAX && type->attributes[a].name; a++)
        define_attribute(d, &node->attributes, &type->attributes[a]);
    if (strstr(d->source, "TEAM") || strstr(d->source, "VECTOR"))
        text_add(d->out, "#define TEAM %d\n#define VECTOR %d\n", team_of(kernel), vector_of(kernel));
    text_add(d->out, "#define CALL_INPUTS %d\n", node->input_count > 0 ? node->input_count : 1);
}

bool cuda_native(const struct kernel *kernel) {
    (void)kernel;
    return true;
}

enum ps_status cuda_prepare(struct kernel *kernel, struct ps_error *error) {
    const struct cuda_class *type = cuda_class_of(kernel);
    struct text name = {0}, defines = {0};
    if (!type->source) return PS_OK;
    text_add(&name, "%s.cu", type->source);
    char *file = text_take(&name);
    const char *source = file ? cuda_text(file) : NULL;
    free(file);
    assert(source);
    define_node(kernel, &(struct defines){source, &defines});
    if (type->define) type->define(kernel, &defines);
    char *lines = text_take(&defines);
    TRY(memory_check(lines, "a kernel's source", error));
    enum ps_status status =
        cuda_compile(cuda_device_of(kernel), type->source, lines, &((struct cuda_kernel *)kernel)->module, error);
    free(lines);
    return status;
}

/* ----------------------------------------------------------------------- launches */

enum { COLUMN_LANES = 32, COLUMN_ROWS = 8 }; /* as columns.h */

int64_t cuda_column_pieces(const struct cuda_device *device, int64_t rows, int64_t columns) {
    enum { BLOCKS = 8 /* for each multiprocessor */, LEAST = 4 * COLUMN_ROWS, MOST = 256 };
    const int64_t tiles = (columns + COLUMN_LANES - 1) / COLUMN_LANES,
                  wanted = (int64_t)device->gpu->multiprocessors * BLOCKS / tiles + 1;
    return number_smaller(number_smaller(wanted, MOST), number_larger((rows + LEAST - 1) / LEAST, 1));
}

void cuda_take_columns(struct kernel *kernel, int64_t rows, int64_t columns, int sums) {
    struct cuda_kernel *own = (struct cuda_kernel *)kernel;
    own->scratch_offset = (int64_t)memory_align((size_t)kernel->workspace_bytes);
    kernel->workspace_bytes = own->scratch_offset + sums * cuda_column_pieces(cuda_device_of(kernel), rows, columns) * columns *
                                                        (int64_t)sizeof(float);
}

struct call cuda_call_of(const struct kernel *kernel, const struct kernel_call *from) {
    struct call call = {
        .output = from->output,
        .output_gradient = from->output_gradient,
        .inner = from->inner,
        .workspace = from->workspace,
        .state = from->state,
        .target = from->target,
        .loss = from->loss,
        .correct = (long long *)from->correct,
        .correct5 = (long long *)from->correct5,
        .fault = cuda_device_of(kernel)->fault,
        .counted = from->counted,
        .training = from->training,
        .update_statistics = from->update_statistics,
        .gradient_scale = from->gradient_scale,
    };
    for (int w = 0; w < 4; w++) call.key[w] = from->key.word[w];
    for (int p = 0; p < kernel->node->parameter_count; p++) {
        call.weights[p] = from->weights[p];
        call.gradients[p] = from->gradients[p];
        call.statistics[p] = from->statistics[p];
    }
    for (int i = 0; i < kernel->node->input_count; i++) {
        call.input[i].value = from->input[i];
        call.input[i].gradient = from->input_gradient[i];
    }
    return call;
}

static bool over_columns(enum cuda_grid grid) { return grid == GRID_COLUMNS || grid == GRID_TILES; }

static int64_t usual_count(const struct kernel *kernel, enum cuda_grid grid) {
    if (over_columns(grid)) return (int64_t)kernel_features(kernel);
    return grid == GRID_FOURS || grid == GRID_ONES ? (int64_t)kernel_elements(kernel) : (int64_t)kernel_rows(kernel);
}

static int64_t blocks_of(const struct cuda_device *device, enum cuda_grid grid, const struct call *call, int team) {
    const int64_t most = (int64_t)device->gpu->multiprocessors * 32;
    int64_t each = 1, things = call->count;
    if (grid == GRID_FOURS) each = (int64_t)4 * CUDA_BLOCK;
    if (grid == GRID_ONES) each = CUDA_BLOCK;
    if (grid == GRID_TEAMS && team <= 32) each = CUDA_BLOCK / team;
    if (over_columns(grid)) things = (call->count + COLUMN_LANES - 1) / COLUMN_LANES;
    if (grid == GRID_COLUMNS) things *= call->number[1];
    if (grid == GRID_TEAM) return 1;
    return number_smaller((things + each - 1) / each, most);
}

enum ps_status cuda_run(struct kernel *kernel, const struct kernel_call *call, const struct cuda_launch *launch,
                        const struct cuda_extra *extra) {
    struct cuda_kernel *own = (struct cuda_kernel *)kernel;
    struct cuda_device *device = cuda_device_of(kernel);
    struct call argument = cuda_call_of(kernel, call);
    if (extra) {
        memcpy(argument.more, extra->more, sizeof argument.more);
        memcpy(argument.number, extra->number, sizeof extra->number);
        memcpy(argument.factor, extra->factor, sizeof argument.factor);
    }
    argument.count = extra && extra->count ? extra->count
                     : launch->count       ? launch->count(kernel)
                                           : usual_count(kernel, launch->grid);
    if (over_columns(launch->grid)) {
        if (argument.number[0] == 0) argument.number[0] = (int64_t)kernel_rows(kernel);
        argument.number[1] = cuda_column_pieces(device, argument.number[0], argument.count);
        if (!argument.more[0]) argument.more[0] = (char *)call->workspace + own->scratch_offset;
    }
    const int team = team_of(kernel), alone = launch->grid == GRID_TEAM || (launch->grid == GRID_TEAMS && team > 32);
    return cuda_launch(device, cuda_function(own->module, launch->name), blocks_of(device, launch->grid, &argument, team),
                       alone ? team : CUDA_BLOCK, &argument, call->error);
}

enum ps_status cuda_run_all(struct kernel *kernel, const struct kernel_call *call, const struct cuda_launch *launches,
                            const struct cuda_extra *extra) {
    for (int l = 0; l < CUDA_LAUNCHES && launches[l].name; l++) TRY(cuda_run(kernel, call, &launches[l], extra));
    return PS_OK;
}

#define PART(part)                                                                                                             \
    enum ps_status cuda_##part(struct kernel *kernel, const struct kernel_call *call) {                                        \
        return cuda_run_all(kernel, call, cuda_class_of(kernel)->part, NULL);                                                  \
    }
PART(forward)
PART(backward_input)
PART(backward_weight)
PART(backward_shared)
