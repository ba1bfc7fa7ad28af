/* See cuda_host.h. Functions have the libraries' names and do what those do, as far as the device needs it. */
#include "cuda_host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/number_type.h"
#include "compute/cuda/cuda.h"
#include "support.h"

extern char **environ;

/* The libraries' numbers for what a call returns. */
enum { SUCCESS = 0, INVALID = 1, NO_MEMORY = 2, NOT_FOUND = 500, NOT_SUPPORTED = 801, COMPILATION = 6 };

/* One for all that follows: kernels keep the number of their block in a static variable. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* --------------------------------------------------------------------- the GPU */

static int cuInit(unsigned flags) { return flags == 0 ? SUCCESS : INVALID; }

static int cuDriverGetVersion(int *version) {
    *version = 12080;
    return SUCCESS;
}

static int cuGetErrorString(int status, const char **text) {
    *text = status == NO_MEMORY ? "out of memory" : status == NOT_FOUND ? "named symbol not found" : "the stand-in refuses it";
    return SUCCESS;
}

static int cuDeviceGetCount(int *count) {
    *count = 1;
    return SUCCESS;
}

static int cuDeviceGet(int *device, int number) {
    *device = 0;
    return number == 0 ? SUCCESS : INVALID;
}

static int cuDeviceGetName(char *name, int size, int device) {
    (void)device;
    snprintf(name, (size_t)size, "stand-in");
    return SUCCESS;
}

static int cuDeviceGetAttribute(int *value, int attribute, int device) {
    enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76, SHARED_MEMORY = 97 };
    (void)device;
    *value = attribute == MULTIPROCESSORS ? 4 : attribute == MAJOR ? 9 : attribute == SHARED_MEMORY ? 232448 : 0;
    return SUCCESS;
}

static int cuDevicePrimaryCtxRetain(void **context, int device) {
    static char only;
    *context = &only;
    return device == 0 ? SUCCESS : INVALID;
}

static int cuCtxSetCurrent(void *context) {
    (void)context;
    return SUCCESS;
}

/* ---------------------------------------------------------------------- memory */

enum { TAKEN_MAX = 1 << 16 };

/* Blocks, in no order. */
static struct {
    size_t limit, bytes;
    int count;
    struct {
        void *base;
        size_t bytes;
    } block[TAKEN_MAX];
} taken = {.limit = (size_t)16 << 30};

void cuda_host_set_memory(size_t bytes) { taken.limit = bytes; }
size_t cuda_host_taken(void) { return taken.bytes; }

static int cuDeviceTotalMem(size_t *bytes, int device) {
    (void)device;
    *bytes = taken.limit;
    return SUCCESS;
}

static int cuMemGetInfo(size_t *available, size_t *total) {
    pthread_mutex_lock(&lock);
    *total = taken.limit;
    *available = taken.limit - taken.bytes;
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

/* Filled with numbers that are none, to show what is read before it is written. */
static int take(void **address, size_t bytes) {
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (bytes == 0) return INVALID;
    if (taken.count == TAKEN_MAX || rounded < bytes || rounded > taken.limit - taken.bytes) return NO_MEMORY;
    void *base = aligned_alloc(256, rounded);
    if (!base) return NO_MEMORY;
    memset(base, 0xff, rounded);
    taken.block[taken.count].base = base;
    taken.block[taken.count++].bytes = rounded;
    taken.bytes += rounded;
    *address = base;
    return SUCCESS;
}

static int cuMemAlloc(void **address, size_t bytes) {
    pthread_mutex_lock(&lock);
    const int status = take(address, bytes);
    pthread_mutex_unlock(&lock);
    return status;
}

static int cuMemFree(void *address) {
    pthread_mutex_lock(&lock);
    int b = 0;
    while (b < taken.count && taken.block[b].base != address) b++;
    const bool found = b < taken.count;
    if (found) {
        taken.bytes -= taken.block[b].bytes;
        taken.block[b] = taken.block[--taken.count];
        free(address);
    }
    pthread_mutex_unlock(&lock);
    return found ? SUCCESS : INVALID;
}

static int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
    (void)flags;
    *address = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *address ? SUCCESS : NO_MEMORY;
}

static int cuMemFreeHost(void *address) {
    free(address);
    return SUCCESS;
}

static int cuMemHostGetDevicePointer(void **address, void *host, unsigned flags) {
    (void)flags;
    *address = host;
    return SUCCESS;
}

static int cuMemcpyAsync(void *to, const void *from, size_t bytes, void *stream) {
    memmove(to, from, bytes);
    return stream ? SUCCESS : INVALID;
}

static int cuMemsetD8Async(void *to, unsigned char value, size_t bytes, void *stream) {
    memset(to, value, bytes);
    return stream ? SUCCESS : INVALID;
}

/* ---------------------------------------------------------- streams and events */

struct event {
    double time; /* 0: it was not recorded */
};

static int cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    *stream = malloc(1);
    return *stream ? SUCCESS : NO_MEMORY;
}

static int cuStreamDestroy(void *stream) {
    free(stream);
    return SUCCESS;
}

static int cuStreamSynchronize(void *stream) { return stream ? SUCCESS : INVALID; }

static int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)flags;
    return stream && event ? SUCCESS : INVALID;
}

static int cuLaunchHostFunc(void *stream, void (*function)(void *data), void *data) {
    function(data);
    return stream ? SUCCESS : INVALID;
}

static int cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof(struct event));
    return *event ? SUCCESS : NO_MEMORY;
}

static int cuEventDestroy(void *event) {
    free(event);
    return SUCCESS;
}

static int cuEventRecord(void *event, void *stream) {
    ((struct event *)event)->time = clock_now();
    return stream ? SUCCESS : INVALID;
}

static int cuEventQuery(void *event) { return event ? SUCCESS : INVALID; }
static int cuEventSynchronize(void *event) { return event ? SUCCESS : INVALID; }

static int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
    const struct event *a = from, *b = to;
    *milliseconds = (float)((b->time - a->time) * 1e3);
    return a->time > 0 && b->time > 0 ? SUCCESS : INVALID;
}

/* --------------------------------------------------------------------- modules */

typedef void host_kernel(const void *argument, unsigned block, unsigned blocks);

/* The image is the path of a shared library. */
static int cuModuleLoadData(void **module, const void *image) {
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    if (!*module) print_error("%s\n", dlerror());
    return *module ? SUCCESS : INVALID;
}

static int cuModuleUnload(void *module) { return dlclose(module) == 0 ? SUCCESS : INVALID; }

static int cuModuleGetFunction(void **function, void *module, const char *name) {
    *function = dlsym(module, name);
    if (!*function) print_error("%s\n", dlerror());
    return *function ? SUCCESS : NOT_FOUND;
}

static int cuFuncSetAttribute(void *function, int attribute, int value) {
    (void)attribute, (void)value;
    return function ? SUCCESS : INVALID;
}

static int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared_bytes, void *stream, void **arguments, void **extra) {
    host_kernel *kernel;
    const bool right = function && grid_x > 0 && grid_x <= 0x7fffffff && grid_y * grid_z * block_y * block_z == 1 &&
                       block_x > 0 && block_x <= 1024 && shared_bytes <= 232448 && stream && arguments && !extra;
    if (!right) return INVALID;
    memcpy(&kernel, &function, sizeof kernel);
    pthread_mutex_lock(&lock);
    for (unsigned block = 0; block < grid_x; block++) kernel(arguments[0], block, grid_x);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

/* ----------------------------------------------------------------- compilation */

enum { HEADERS_MAX = 8 };

struct program {
    char *source, *header[HEADERS_MAX], *name[HEADERS_MAX];
    int headers;
    char path[4200]; /* of what it was compiled to */
    char *log;
};

/* What was compiled, by its texts and its -D options. */
static struct {
    struct built {
        struct built *next;
        char *key;
        char path[4200];
    } * first;
    int count;
    char folder[4096];
    pid_t owner; /* of the folder */
} built;

int cuda_host_compiled(void) { return built.count; }

static void remove_folder(void) {
    if (built.owner == getpid()) test_directory_remove(built.folder);
}

static int nvrtcVersion(int *major, int *minor) {
    *major = 12, *minor = 8;
    return SUCCESS;
}

static int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers,
                              const char *const *header_texts, const char *const *header_names) {
    struct program *made = calloc(1, sizeof *made);
    (void)name;
    if (!made || headers > HEADERS_MAX) {
        free(made);
        return NO_MEMORY;
    }
    made->source = strdup(source);
    for (int h = 0; h < headers; h++) {
        made->header[h] = strdup(header_texts[h]);
        made->name[h] = strdup(header_names[h]);
    }
    made->headers = headers;
    *program = made;
    return SUCCESS;
}

static int nvrtcDestroyProgram(void **program) {
    struct program *p = *program;
    for (int h = 0; h < p->headers; h++) free(p->header[h]), free(p->name[h]);
    free(p->source);
    free(p->log);
    free(p);
    *program = NULL;
    return SUCCESS;
}

static char *key_of(const struct program *program, int options, const char *const *texts) {
    struct text key = {0};
    for (int o = 0; o < options; o++)
        if (strncmp(texts[o], "-D", 2) == 0) text_add(&key, "%s\n", texts[o]);
    for (int h = 0; h < program->headers; h++) text_add_raw(&key, program->header[h], strlen(program->header[h]));
    text_add_raw(&key, program->source, strlen(program->source));
    return text_take(&key);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    test_file_write(path, text, strlen(text));
}

static char *read_log(const char *folder) {
    char path[4400], *log = calloc(1, 4096);
    snprintf(path, sizeof path, "%s/log", folder);
    FILE *file = fopen(path, "rb");
    if (file && log) log[fread(log, 1, 4095, file)] = '\0';
    if (file) fclose(file);
    return log;
}

/* Runs the compiler in the folder; what it says goes into the file `log` there. */
static int run_compiler(const char *folder, char *const *arguments) {
    posix_spawn_file_actions_t actions;
    char log[4400];
    pid_t child;
    int status = -1;
    snprintf(log, sizeof log, "%s/log", folder);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    const int failed = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed || waitpid(child, &status, 0) != child) return -1;
    return status;
}

static int compile(struct program *program, int options, const char *const *texts) {
    enum { ARGUMENTS_MAX = 64 };
    const char *compiler = getenv("CC");
    char folder[4160], source[4400], *arguments[ARGUMENTS_MAX];
    snprintf(folder, sizeof folder, "%s/%d", built.folder, built.count);
    if (mkdir(folder, 0700) != 0) return INVALID;
    for (int h = 0; h < program->headers; h++) write_file(folder, program->name[h], program->header[h]);
    write_file(folder, "source.cu", program->source);
    snprintf(source, sizeof source, "%s/source.cu", folder);
    snprintf(program->path, sizeof program->path, "%s/kernels.so", folder);
    const char *const first[] = {compiler && *compiler ? compiler : "cc",
                                 "-std=c17",
                                 "-O0",
                                 "-w",
                                 "-shared",
                                 "-fPIC",
                                 "-ffp-contract=off",
                                 "-DHOST",
                                 "-I",
                                 folder};
    const char *const last[] = {"-x", "c", source, "-o", program->path, "-lm", NULL};
    int count = 0;
    for (size_t a = 0; a < sizeof first / sizeof *first; a++) arguments[count++] = (char *)first[a];
    for (int o = 0; o < options && count < ARGUMENTS_MAX - 8; o++)
        if (strncmp(texts[o], "-D", 2) == 0) arguments[count++] = (char *)texts[o];
    for (size_t a = 0; a < sizeof last / sizeof *last; a++) arguments[count++] = (char *)last[a];
    const int status = run_compiler(folder, arguments);
    program->log = read_log(folder);
    built.count++;
    return status == 0 ? SUCCESS : COMPILATION;
}

static int compile_or_find(struct program *program, int options, const char *const *texts) {
    char *key = key_of(program, options, texts);
    const struct built *at = built.first;
    while (at && strcmp(at->key, key) != 0) at = at->next;
    if (at) {
        memcpy(program->path, at->path, sizeof program->path);
        free(key);
        return SUCCESS;
    }
    const int status = compile(program, options, texts);
    struct built *made = status == SUCCESS ? calloc(1, sizeof *made) : NULL;
    if (!made) {
        free(key);
        return status == SUCCESS ? NO_MEMORY : status;
    }
    memcpy(made->path, program->path, sizeof made->path);
    made->key = key;
    made->next = built.first;
    built.first = made;
    return SUCCESS;
}

static int nvrtcCompileProgram(void *program, int options, const char *const *texts) {
    pthread_mutex_lock(&lock);
    const int status = compile_or_find(program, options, texts);
    pthread_mutex_unlock(&lock);
    return status;
}

static int nvrtcGetCUBINSize(void *program, size_t *bytes) {
    *bytes = strlen(((struct program *)program)->path) + 1;
    return SUCCESS;
}

static int nvrtcGetCUBIN(void *program, char *cubin) {
    const char *path = ((struct program *)program)->path;
    memcpy(cubin, path, strlen(path) + 1);
    return SUCCESS;
}

static int nvrtcGetProgramLogSize(void *program, size_t *bytes) {
    const struct program *p = program;
    *bytes = p->log ? strlen(p->log) + 1 : 1;
    return SUCCESS;
}

static int nvrtcGetProgramLog(void *program, char *log) {
    const struct program *p = program;
    strcpy(log, p->log ? p->log : "");
    return SUCCESS;
}

/* ---------------------------------------------------- products and convolutions */

static char library; /* of the libraries for them, which are not called */

static int cublasLtCreate(void **created) {
    *created = &library;
    return SUCCESS;
}

static int cudnnCreate(void **created) {
    *created = &library;
    return SUCCESS;
}

static int cudnnDestroy(void *created) { return created == &library ? SUCCESS : INVALID; }
static int cudnnSetStream(void *created, void *stream) { return created == &library && stream ? SUCCESS : INVALID; }

static double get(enum number_type type, const void *block, int64_t i) {
    return (double)(type == TYPE_F32 ? ((const float *)block)[i] : bf16_value(((const uint16_t *)block)[i]));
}

static void put(enum number_type type, void *block, int64_t i, double number) {
    if (type == TYPE_F32)
        ((float *)block)[i] = (float)number;
    else
        ((uint16_t *)block)[i] = bf16_of((float)number);
}

static int64_t place(const struct cuda_matrix *matrix, int64_t batch, int64_t row, int64_t column) {
    return batch * matrix->stride + (matrix->transposed ? column * matrix->pitch + row : row * matrix->pitch + column);
}

/* The matrix as doubles, in rows. */
static double *read_matrix(const struct cuda_matrix *matrix, const void *block, int64_t batch, int64_t rows, int64_t columns) {
    double *numbers = calloc((size_t)(rows * columns) + 1, sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < rows * columns; i++)
        numbers[i] = get(matrix->type, block, place(matrix, batch, i / columns, i % columns));
    return numbers;
}

static void product(const struct cuda_product_shape *s, float alpha, const void *a, const void *b, float beta, void *c) {
    for (int64_t n = 0; n < s->batch; n++) {
        double *left = read_matrix(&s->a, a, n, s->rows, s->depth), *right = read_matrix(&s->b, b, n, s->depth, s->columns),
               *sums = calloc((size_t)s->columns + 1, sizeof *sums);
        for (int64_t row = 0; row < s->rows; row++) {
            memset(sums, 0, (size_t)s->columns * sizeof *sums);
            for (int64_t k = 0; k < s->depth; k++)
                for (int64_t column = 0; column < s->columns; column++)
                    sums[column] += left[row * s->depth + k] * right[k * s->columns + column];
            for (int64_t column = 0; column < s->columns; column++) {
                const int64_t at = place(&s->c, n, row, column);
                const double before = beta != 0 ? get(s->c.type, c, at) : 0;
                put(s->c.type, c, at, (double)alpha * sums[column] + (double)beta * before);
            }
        }
        free(left), free(right), free(sums);
    }
}

/* A block as doubles: all three of them, of which a pass adds to one. */
static double *widen(enum number_type type, const void *block, int64_t count, bool written) {
    double *numbers = calloc((size_t)count, sizeof *numbers);
    assert_non_null(numbers);
    for (int64_t i = 0; i < count && !written; i++) numbers[i] = get(type, block, i);
    return numbers;
}

static void convolve(const struct cuda_convolution_shape *s, double *x, double *w, double *y) {
    const int64_t inputs = s->x[0] / s->groups, outputs = s->y[0] / s->groups;
    for (int64_t i = 0; i < s->samples * s->y[1] * s->y[2] * s->y[0]; i++) {
        const int64_t o = i % s->y[0], column = i / s->y[0] % s->y[2], row = i / s->y[0] / s->y[2] % s->y[1],
                      n = i / s->y[0] / s->y[2] / s->y[1], group = o / outputs;
        for (int64_t k = 0; k < s->kernel[0] * s->kernel[1]; k++) {
            const int64_t h = row * s->stride[0] - s->pad_before[0] + k / s->kernel[1] * s->dilation[0],
                          v = column * s->stride[1] - s->pad_before[1] + k % s->kernel[1] * s->dilation[1];
            if (h < 0 || h >= s->x[1] || v < 0 || v >= s->x[2]) continue;
            double *from = x + ((n * s->x[1] + h) * s->x[2] + v) * s->x[0] + group * inputs,
                   *weights = w + (o * s->kernel[0] * s->kernel[1] + k) * inputs;
            for (int64_t c = 0; c < inputs; c++) {
                if (s->pass == CONVOLUTION_FORWARD) y[i] += from[c] * weights[c];
                if (s->pass == CONVOLUTION_INPUT) from[c] += y[i] * weights[c];
                if (s->pass == CONVOLUTION_WEIGHTS) weights[c] += from[c] * y[i];
            }
        }
    }
}

static void convolution(const struct cuda_convolution_shape *s, void *x, void *w, void *y) {
    const enum cuda_convolution_pass writes[] = {CONVOLUTION_INPUT, CONVOLUTION_WEIGHTS, CONVOLUTION_FORWARD};
    const enum number_type type[] = {s->x_type, s->w_type, s->y_type};
    const int64_t count[] = {s->samples * s->x[0] * s->x[1] * s->x[2],
                             s->y[0] * s->kernel[0] * s->kernel[1] * (s->x[0] / s->groups),
                             s->samples * s->y[0] * s->y[1] * s->y[2]};
    void *const block[] = {x, w, y};
    double *wide[3];
    for (int b = 0; b < 3; b++) wide[b] = widen(type[b], block[b], count[b], writes[b] == s->pass);
    convolve(s, wide[0], wide[1], wide[2]);
    for (int b = 0; b < 3; b++) {
        for (int64_t i = 0; i < count[b] && writes[b] == s->pass; i++) put(type[b], block[b], i, wide[b][i]);
        free(wide[b]);
    }
}

/* ---------------------------------------------------------------------- the table */

/* All others: the device does not call them, since the products are the stand-in's. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FUNCTION(library, name, symbol, arguments)                                                                             \
    static int missing_##name arguments { return NOT_SUPPORTED; }
#include "compute/cuda/api.def"
#pragma GCC diagnostic pop

void cuda_host_use(void) {
    static const struct cuda_stand_in stand_in = {product, convolution};
    cuda = (struct cuda_api){
#define FUNCTION(library, name, symbol, arguments) .name = missing_##name,
#include "compute/cuda/api.def"
    };
#define HAS(name) cuda.name = name
    HAS(cuInit), HAS(cuDriverGetVersion), HAS(cuGetErrorString), HAS(cuDeviceGetCount), HAS(cuDeviceGet), HAS(cuDeviceGetName);
    HAS(cuDeviceTotalMem), HAS(cuDeviceGetAttribute), HAS(cuDevicePrimaryCtxRetain), HAS(cuCtxSetCurrent), HAS(cuMemGetInfo);
    HAS(cuMemAlloc), HAS(cuMemFree), HAS(cuMemHostAlloc), HAS(cuMemFreeHost), HAS(cuMemHostGetDevicePointer);
    HAS(cuMemcpyAsync), HAS(cuMemsetD8Async), HAS(cuStreamCreate), HAS(cuStreamDestroy), HAS(cuStreamSynchronize);
    HAS(cuStreamWaitEvent), HAS(cuLaunchHostFunc), HAS(cuEventCreate), HAS(cuEventDestroy), HAS(cuEventRecord);
    HAS(cuEventQuery), HAS(cuEventSynchronize), HAS(cuEventElapsedTime), HAS(cuModuleLoadData), HAS(cuModuleUnload);
    HAS(cuModuleGetFunction), HAS(cuFuncSetAttribute), HAS(cuLaunchKernel), HAS(nvrtcVersion), HAS(nvrtcCreateProgram);
    HAS(nvrtcDestroyProgram), HAS(nvrtcCompileProgram), HAS(nvrtcGetCUBINSize), HAS(nvrtcGetCUBIN);
    HAS(nvrtcGetProgramLogSize), HAS(nvrtcGetProgramLog), HAS(cublasLtCreate), HAS(cudnnCreate), HAS(cudnnDestroy);
    HAS(cudnnSetStream);
    cuda_stand_in = &stand_in;
    if (built.owner != 0) return;
    built.owner = getpid();
    test_directory_make(built.folder);
    atexit(remove_folder);
}

void cuda_host_unless_gpu(void) {
    static bool known;
    struct device *opened = NULL;
    struct ps_error error = {0};
    if (known) return;
    known = true;
    if (device_open("cuda", &(struct device_options){.threads = 1}, &opened, &error) != PS_OK)
        cuda_host_use();
    else
        device_close(opened);
}
