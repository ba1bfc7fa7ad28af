/*
 * The cuda device: GPUs of NVIDIA. A worker's device is a stream, which executes its work in order; moments are events in it.
 * All devices of the process on a GPU share its primary context, so a block of one can be read by another that waits for the
 * moment. Copies from and to the host go through pinned memory, in pieces of a slot: what is copied to the GPU is read before
 * the call returns, and what is copied to the host is put in its place by a function that the stream calls.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/blocks.h"
#include "compute/token.h"

enum {
    NOT_READY = 600,
    OUT_OF_MEMORY = 2,
    NON_BLOCKING = 1, /* a stream's flag */
    MAPPED = 1 | 2,   /* memory's flags: portable, and seen by the GPU */
    MAJOR = 75,
    MINOR = 76,
    MULTIPROCESSORS = 16, /* attributes */
    GPUS = 64,
    MARKS = 4096, /* moments that are told apart; older ones have been reached */
    SLOTS = 32,
};
#define SLOT_BYTES ((size_t)2 << 20)

/* A piece of a copy. */
struct slot {
    char *memory; /* pinned */
    void *event;  /* when it is free again */
    void *to;     /* on the host */
    size_t bytes;
};

struct cuda_queue {
    void *events[MARKS];
    atomic_uint_fast64_t marks;
    struct slot slots[SLOTS];
    uint64_t copies;
    char *pinned;
    struct fault *fault; /* on the host */
    /* Times are measured from an event that is `since` on the host's clock, in milliseconds as a float: so that these stay
     * exact, a later event takes its place from time to time. */
    void *base[2];
    double since[2];
    atomic_int newest;
    double renewed; /* when the next base was recorded; 0: it was not */
    void *room;
    size_t room_bytes;
};

static struct cuda_device *device_of(struct device *device) { return (struct cuda_device *)device; }

/* ---------------------------------------------------------------------------- GPUs */

static struct {
    pthread_mutex_t lock;
    struct cuda_gpu gpus[GPUS]; /* by number; those with a context were opened */
} opened = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum ps_status open_context(struct cuda_gpu *gpu, int number, struct ps_error *error) {
    int count = 0;
    TRY(cuda_check(cuda.cuInit(0), "starting the driver", error));
    TRY(cuda_check(cuda.cuDeviceGetCount(&count), "counting the GPUs", error));
    if (number >= count || number >= GPUS)
        return error_set(error, PS_USAGE, "device cuda:%d: this machine has %d GPU%s", number, count, count == 1 ? "" : "s");
    gpu->number = number;
    TRY(cuda_check(cuda.cuDeviceGet(&gpu->device, number), "finding the GPU", error));
    cuda.cuDeviceGetName(gpu->name, sizeof gpu->name, gpu->device);
    cuda.cuDeviceTotalMem(&gpu->memory_bytes, gpu->device);
    cuda.cuDeviceGetAttribute(&gpu->major, MAJOR, gpu->device);
    cuda.cuDeviceGetAttribute(&gpu->minor, MINOR, gpu->device);
    cuda.cuDeviceGetAttribute(&gpu->multiprocessors, MULTIPROCESSORS, gpu->device);
    TRY(cuda_check(cuda.cuDevicePrimaryCtxRetain(&gpu->context, gpu->device), "making a context", error));
    TRY(cuda_check(cuda.cuCtxSetCurrent(gpu->context), "entering the context", error));
    if (cuda.cublasLtCreate(&gpu->blas) != 0) return error_set(error, PS_FAILED, "device cuda: cuBLASLt does not start");
    return PS_OK;
}

static enum ps_status find_gpu(int number, struct cuda_gpu **gpu, struct ps_error *error) {
    enum ps_status status = PS_OK;
    struct cuda_gpu made = {0};
    pthread_mutex_lock(&opened.lock);
    *gpu = &opened.gpus[number < GPUS ? number : 0];
    if (!(*gpu)->context || number >= GPUS) {
        status = open_context(&made, number, error);
        if (status == PS_OK) **gpu = made;
    }
    pthread_mutex_unlock(&opened.lock);
    return status;
}

/* Versions are numbers such as 13000 for 13.0. */
static void tell_versions(char *text, size_t size) {
    int driver = 0, major = 0, minor = 0;
    cuda.cuDriverGetVersion(&driver);
    cuda.nvrtcVersion(&major, &minor);
    const int blas = cuda.cublasLtGetVersion(), dnn = cuda.cudnnGetVersion();
    snprintf(text, size, "driver for CUDA %d.%d, NVRTC %d.%d, cuBLASLt %d.%d.%d, cuDNN %d.%d.%d", driver / 1000,
             driver % 1000 / 10, major, minor, blas / 10000, blas / 100 % 100, blas % 100, dnn / 10000, dnn / 100 % 100,
             dnn % 100);
}

static int units(struct device_unit *units, int most, struct ps_error *error) {
    int count = 0;
    if (cuda_open_libraries(error) != PS_OK || cuda_check(cuda.cuInit(0), "starting the driver", error) != PS_OK ||
        cuda_check(cuda.cuDeviceGetCount(&count), "counting the GPUs", error) != PS_OK)
        return -1;
    for (int u = 0; u < count && u < most; u++) {
        struct cuda_gpu *gpu;
        size_t free_bytes = 0, total = 0;
        if (find_gpu(u, &gpu, error) != PS_OK) return -1;
        cuda.cuCtxSetCurrent(gpu->context);
        cuda.cuMemGetInfo(&free_bytes, &total);
        units[u] = (struct device_unit){.memory_bytes = (int64_t)total, .free_bytes = (int64_t)free_bytes};
        snprintf(units[u].name, sizeof units[u].name, "%s", gpu->name);
        tell_versions(units[u].versions, sizeof units[u].versions);
    }
    return count < most ? count : most;
}

void cuda_enter(const struct cuda_device *device) { cuda.cuCtxSetCurrent(device->gpu->context); }

/* -------------------------------------------------------------------------- errors */

static void keep(struct cuda_device *device, int status, const char *what) {
    if (status == 0 || status == NOT_READY || device->status != PS_OK) return;
    device->status = cuda_check(status, what, &device->error);
}

/* What the stream's work found, so far as it was executed. */
static enum ps_status check(struct device *base, struct ps_error *error) {
    struct cuda_device *device = device_of(base);
    const struct fault *fault = device->queue->fault;
    if (device->status == PS_OK && fault->kind != 0)
        device->status = token_check(fault->value, fault->index, fault->positions, fault->limit, &device->error);
    if (device->status != PS_OK) *error = device->error;
    return device->status;
}

/* -------------------------------------------------------------------------- memory */

/* Ranges of the GPUs' memory, to tell their addresses from the host's. */
static struct {
    pthread_mutex_t lock;
    struct range {
        const char *base;
        size_t size;
    } * ranges;
    size_t count, capacity;
} taken = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool on_gpu(const void *address) {
    bool found = false;
    pthread_mutex_lock(&taken.lock);
    for (size_t r = 0; r < taken.count && !found; r++)
        found = (size_t)((const char *)address - taken.ranges[r].base) < taken.ranges[r].size;
    pthread_mutex_unlock(&taken.lock);
    return found;
}

static enum ps_status note_range(const void *base, size_t size, struct ps_error *error) {
    pthread_mutex_lock(&taken.lock);
    enum ps_status status = memory_grow(&taken.ranges, &taken.capacity, taken.count + 1, "a block", error);
    if (status == PS_OK) taken.ranges[taken.count++] = (struct range){base, size};
    pthread_mutex_unlock(&taken.lock);
    return status;
}

static void forget_range(const void *base) {
    pthread_mutex_lock(&taken.lock);
    for (size_t r = 0; r < taken.count; r++)
        if (taken.ranges[r].base == base) taken.ranges[r--] = taken.ranges[--taken.count];
    pthread_mutex_unlock(&taken.lock);
}

static enum ps_status refuse_memory(const struct cuda_device *device, size_t size, const char *what, struct ps_error *error) {
    size_t free_bytes = 0, total = 0;
    char needs[32], has[32];
    cuda.cuMemGetInfo(&free_bytes, &total);
    return error_set(error, PS_OUT_OF_MEMORY, "out of memory: %s needs %s on GPU %d, which has %s free", what,
                     text_bytes((int64_t)size, needs), device->gpu->number, text_bytes((int64_t)free_bytes, has));
}

static enum ps_status take(struct device *base, size_t size, const char *what, void **address, struct ps_error *error) {
    struct cuda_device *device = device_of(base);
    const size_t least = MEMORY_ALIGNMENT, bytes = size > least ? size : least;
    cuda_enter(device);
    int status = cuda.cuMemAlloc(address, bytes);
    if (status == OUT_OF_MEMORY) return refuse_memory(device, size, what, error);
    TRY(cuda_check(status, "taking memory", error));
    enum ps_status noted = note_range(*address, bytes, error);
    if (noted != PS_OK) {
        cuda.cuMemFree(*address);
        return noted;
    }
    keep(device, cuda.cuMemsetD8Async(*address, 0, bytes, device->stream), "zeroing memory");
    keep(device, cuda.cuStreamSynchronize(device->stream), "zeroing memory");
    return PS_OK;
}

static void give(struct device *base, void *address, size_t size) {
    struct cuda_device *device = device_of(base);
    (void)size;
    cuda_enter(device);
    cuda.cuStreamSynchronize(device->stream);
    forget_range(address);
    cuda.cuMemFree(address);
}

enum ps_status cuda_room(struct cuda_device *device, size_t bytes, void **room, struct ps_error *error) {
    struct cuda_queue *queue = device->queue;
    if (bytes > queue->room_bytes) {
        if (queue->room) give(&device->device, queue->room, queue->room_bytes);
        queue->room = NULL;
        queue->room_bytes = 0;
        TRY(take(&device->device, bytes, "sums", &queue->room, error));
        queue->room_bytes = bytes;
    }
    *room = queue->room;
    return PS_OK;
}

/* The next slot, when its last copy is done. */
static struct slot *next_slot(struct cuda_device *device) {
    struct slot *slot = &device->queue->slots[device->queue->copies++ % SLOTS];
    keep(device, cuda.cuEventSynchronize(slot->event), "a copy");
    return slot;
}

static void to_gpu(struct cuda_device *device, char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        struct slot *slot = next_slot(device);
        const size_t part = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        memcpy(slot->memory, from + at, part);
        keep(device, cuda.cuMemcpyAsync(to + at, slot->memory, part, device->stream), "a copy to the GPU");
        keep(device, cuda.cuEventRecord(slot->event, device->stream), "a copy to the GPU");
    }
}

static void put_in_place(void *data) {
    const struct slot *slot = data;
    memcpy(slot->to, slot->memory, slot->bytes);
}

static void to_host(struct cuda_device *device, char *to, const char *from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += SLOT_BYTES) {
        struct slot *slot = next_slot(device);
        slot->to = to + at;
        slot->bytes = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        keep(device, cuda.cuMemcpyAsync(slot->memory, from + at, slot->bytes, device->stream), "a copy from the GPU");
        keep(device, cuda.cuLaunchHostFunc(device->stream, put_in_place, slot), "a copy from the GPU");
        keep(device, cuda.cuEventRecord(slot->event, device->stream), "a copy from the GPU");
    }
}

static void copy(struct device *base, void *to, const void *from, size_t bytes) {
    struct cuda_device *device = device_of(base);
    const bool from_gpu = on_gpu(from), into_gpu = on_gpu(to);
    cuda_enter(device);
    if (!from_gpu && into_gpu)
        to_gpu(device, to, from, bytes);
    else if (from_gpu && !into_gpu)
        to_host(device, to, from, bytes);
    else if (from_gpu)
        keep(device, cuda.cuMemcpyAsync(to, from, bytes, device->stream), "a copy");
    else
        memcpy(to, from, bytes);
}

static void zero(struct device *base, void *to, size_t bytes) {
    struct cuda_device *device = device_of(base);
    cuda_enter(device);
    keep(device, cuda.cuMemsetD8Async(to, 0, bytes, device->stream), "zeroing memory");
}

/* A destination on the host gets what was converted into room of the device. */
static void convert(struct device *base, size_t count, enum number_type to_type, void *to, enum number_type from_type,
                    const void *from) {
    struct cuda_device *device = device_of(base);
    const size_t bytes = count * number_types[to_type].bytes;
    void *room = to;
    const bool leaves = !on_gpu(to);
    cuda_enter(device);
    if (leaves && device->status == PS_OK) device->status = cuda_room(device, bytes, &room, &device->error);
    if (device->status != PS_OK) return;
    cuda_block_convert(device, count, to_type, room, from_type, from);
    if (leaves) to_host(device, to, room, bytes);
}

/* --------------------------------------------------------------------------- queue */

/* Records the next base, and changes to it when it has been reached. */
static void renew_base(struct cuda_device *device, double now) {
    const double often_s = 1;
    struct cuda_queue *queue = device->queue;
    const int old = queue->newest, next = 1 - old;
    float milliseconds = 0;
    if (queue->renewed == 0 && now - queue->since[old] > often_s) {
        keep(device, cuda.cuEventRecord(queue->base[next], device->stream), "an event");
        queue->renewed = now;
    } else if (queue->renewed > 0 && now - queue->renewed > often_s && cuda.cuEventQuery(queue->base[next]) == 0) {
        keep(device, cuda.cuEventElapsedTime(&milliseconds, queue->base[old], queue->base[next]), "an event");
        queue->since[next] = queue->since[old] + (double)milliseconds * 1e-3;
        queue->newest = next;
        queue->renewed = 0;
    }
}

static struct moment mark(struct device *base) {
    struct cuda_device *device = device_of(base);
    struct cuda_queue *queue = device->queue;
    const uint64_t work = queue->marks + 1;
    const double now = clock_now();
    void *event = queue->events[work % MARKS];
    cuda_enter(device);
    keep(device, cuda.cuEventSynchronize(event), "waiting");
    keep(device, cuda.cuEventRecord(event, device->stream), "an event");
    queue->marks = work;
    renew_base(device, now);
    return (struct moment){.time = now, .device = base, .work = work};
}

static void *event_of(const struct moment *moment) {
    const struct cuda_queue *queue = device_of(moment->device)->queue;
    return queue->marks - moment->work >= MARKS ? NULL : queue->events[moment->work % MARKS];
}

static void after(struct device *base, const struct moment *moment) {
    struct cuda_device *device = device_of(base);
    if (moment->device == NULL || moment->device == base || moment->device->type->after != after) return;
    void *event = event_of(moment);
    cuda_enter(device);
    if (event) keep(device, cuda.cuStreamWaitEvent(device->stream, event, 0), "waiting");
}

static bool reached(const struct moment *moment) {
    struct cuda_device *device = device_of(moment->device);
    void *event = event_of(moment);
    if (!event) return true;
    cuda_enter(device);
    return cuda.cuEventQuery(event) != NOT_READY;
}

static void wait(const struct moment *moment) {
    struct cuda_device *device = device_of(moment->device);
    void *event = event_of(moment);
    cuda_enter(device);
    if (event) keep(device, cuda.cuEventSynchronize(event), "the work on the GPU");
}

/* Of recent moments, of which the device's clock is asked; the events of others have been used again. */
static double time_of(const struct moment *moment) {
    struct cuda_device *device = device_of(moment->device);
    const struct cuda_queue *queue = device->queue;
    void *event = event_of(moment);
    const int newest = queue->newest;
    float milliseconds = 0;
    cuda_enter(device);
    if (!event || cuda.cuEventElapsedTime(&milliseconds, queue->base[newest], event) != 0) return moment->time;
    return queue->since[newest] + (double)milliseconds * 1e-3;
}

/* ---------------------------------------------------------------- codes for the wire */

/* A copy of a block on the host; NULL for NULL. Blocks there are used as they are. */
static void *fetch(struct cuda_device *device, void *block, size_t bytes, void **made) {
    *made = NULL;
    if (!block || !on_gpu(block)) return block;
    *made = malloc(bytes + 1);
    if (!*made) {
        if (device->status == PS_OK) device->status = error_memory(&device->error, "a code's block", bytes);
        return NULL;
    }
    to_host(device, *made, block, bytes);
    return *made;
}

static void put_back(struct cuda_device *device, void *block, void *made, size_t bytes) {
    if (made) to_gpu(device, block, made, bytes);
    free(made);
}

/* On the host, which waits for the block. */
static void code(struct device *base, const struct wire_call *call) {
    struct cuda_device *device = device_of(base);
    const struct wire_numbers numbers = wire_count(call->runs, call->run_count);
    struct wire_call own = *call;
    size_t bytes = 0;
    void *made[3];
    for (int r = 0; r < call->run_count; r++) {
        const size_t end = call->runs[r].offset + call->runs[r].count * number_types[call->runs[r].type].bytes;
        bytes = end > bytes ? end : bytes;
    }
    const size_t encoded = (size_t)wire_bytes(call->wire, &numbers),
                 feedback = (size_t)wire_feedback_bytes(call->wire, &numbers);
    cuda_enter(device);
    own.block = fetch(device, call->block, bytes, &made[0]);
    own.encoded = fetch(device, call->encoded, encoded, &made[1]);
    own.feedback = fetch(device, call->feedback, feedback, &made[2]);
    keep(device, cuda.cuStreamSynchronize(device->stream), "a code");
    if (device->status == PS_OK) wire_call_run(&own);
    put_back(device, call->block, made[0], bytes);
    put_back(device, call->encoded, made[1], encoded);
    put_back(device, call->feedback, made[2], feedback);
}

/* -------------------------------------------------------------------------- device */

static void close_device(struct device *base) {
    struct cuda_device *device = device_of(base);
    struct cuda_queue *queue = device->queue;
    if (device->gpu) cuda_enter(device);
    if (device->stream) cuda.cuStreamSynchronize(device->stream);
    if (queue && queue->room) give(base, queue->room, queue->room_bytes);
    if (device->dnn) cuda.cudnnDestroy(device->dnn);
    for (int m = 0; queue && m < MARKS; m++)
        if (queue->events[m]) cuda.cuEventDestroy(queue->events[m]);
    for (int s = 0; queue && s < SLOTS; s++)
        if (queue->slots[s].event) cuda.cuEventDestroy(queue->slots[s].event);
    for (int b = 0; queue && b < 2; b++)
        if (queue->base[b]) cuda.cuEventDestroy(queue->base[b]);
    if (queue && queue->pinned) cuda.cuMemFreeHost(queue->pinned);
    if (queue && queue->fault) cuda.cuMemFreeHost(queue->fault);
    if (device->stream) cuda.cuStreamDestroy(device->stream);
    free(queue);
    free(device);
}

static enum ps_status start_clock(struct cuda_device *device, struct ps_error *error) {
    struct cuda_queue *queue = device->queue;
    for (int b = 0; b < 2; b++) TRY(cuda_check(cuda.cuEventCreate(&queue->base[b], 0), "an event", error));
    TRY(cuda_check(cuda.cuStreamSynchronize(device->stream), "the stream", error));
    TRY(cuda_check(cuda.cuEventRecord(queue->base[0], device->stream), "an event", error));
    TRY(cuda_check(cuda.cuEventSynchronize(queue->base[0]), "an event", error));
    queue->since[0] = clock_now();
    return PS_OK;
}

static enum ps_status open_queue(struct cuda_device *device, struct ps_error *error) {
    struct cuda_queue *queue = device->queue;
    TRY(cuda_check(cuda.cuStreamCreate(&device->stream, NON_BLOCKING), "a stream", error));
    for (int m = 0; m < MARKS; m++) TRY(cuda_check(cuda.cuEventCreate(&queue->events[m], 0), "an event", error));
    TRY(cuda_check(cuda.cuMemHostAlloc((void **)&queue->pinned, SLOTS * SLOT_BYTES, 1), "pinned memory", error));
    for (int s = 0; s < SLOTS; s++) {
        queue->slots[s].memory = queue->pinned + (size_t)s * SLOT_BYTES;
        TRY(cuda_check(cuda.cuEventCreate(&queue->slots[s].event, 2), "an event", error));
    }
    TRY(cuda_check(cuda.cuMemHostAlloc((void **)&queue->fault, sizeof *queue->fault, MAPPED), "pinned memory", error));
    memset(queue->fault, 0, sizeof *queue->fault);
    TRY(cuda_check(cuda.cuMemHostGetDevicePointer((void **)&device->fault, queue->fault, 0), "pinned memory", error));
    return start_clock(device, error);
}

static enum ps_status start(struct cuda_device *device, int number, struct ps_error *error) {
    TRY(find_gpu(number, &device->gpu, error));
    cuda_enter(device);
    TRY(open_queue(device, error));
    if (cuda.cudnnCreate(&device->dnn) != 0) return error_set(error, PS_FAILED, "device cuda: cuDNN does not start");
    if (cuda.cudnnSetStream(device->dnn, device->stream) != 0)
        return error_set(error, PS_FAILED, "device cuda: cuDNN takes no stream");
    return PS_OK;
}

/* Of "cuda", "cuda:1", "cuda,tf32", "cuda:1,tf32". */
static enum ps_status read_settings(const char *name, int *number, bool *tf32, struct ps_error *error) {
    const char *at = name + strcspn(name, ":,");
    if (*at == ':') {
        char *end;
        const long read = strtol(at + 1, &end, 10);
        if (end == at + 1 || read < 0 || read >= GPUS)
            return error_set(error, PS_USAGE, "device '%s': a GPU's number from 0 is wanted behind the colon", name);
        *number = (int)read;
        at = end;
    }
    *tf32 = strcmp(at, ",tf32") == 0;
    if (*at == '\0' || *tf32) return PS_OK;
    return error_set(error, PS_USAGE, "device '%s': '%s' is no setting of cuda: ',tf32' is one", name, at);
}

static enum ps_status open_device(const struct device_options *options, struct device **device, struct ps_error *error) {
    struct cuda_device *made;
    TRY(cuda_open_libraries(error));
    TRY(memory_new(&made, 1, "a device", error));
    int number = 0;
    enum ps_status status = read_settings(options->name, &number, &made->tf32, error);
    if (status == PS_OK) status = memory_new(&made->queue, 1, "a device", error);
    if (status == PS_OK) status = start(made, number, error);
    if (status != PS_OK) {
        close_device(&made->device);
        return status;
    }
    *device = &made->device;
    return PS_OK;
}

static void attach(struct device *device) { cuda_enter(device_of(device)); }

static const struct device_memory memory = {
    .take = take,
    .give = give,
    .copy = copy,
    .zero = zero,
    .add = cuda_block_add,
    .convert = convert,
    .scale = cuda_block_scale,
    .clip = cuda_block_clip,
};

#define OPERATOR(NAME, name)
#define COMPUTED(NAME, name) extern const struct cuda_class cuda_##name;
#include "graph/operators.def"
#undef OPERATOR

const struct device_class device_cuda = {
    .name = "cuda",
    .summary = "NVIDIA's GPUs: cuda, cuda:1; with products of f32 in TF32: cuda,tf32",
    .real = true,
    .settings = true,
    .kernels =
        {
#define OPERATOR(NAME, name)
#define COMPUTED(NAME, name) [OPERATOR_##NAME] = &cuda_##name.type,
#include "graph/operators.def"
#undef OPERATOR
        },
    .memory = &memory,
    .open = open_device,
    .close = close_device,
    .units = units,
    .attach = attach,
    .update = cuda_update,
    .code = code,
    .mark = mark,
    .after = after,
    .reached = reached,
    .wait = wait,
    .time_of = time_of,
    .check = check,
};
