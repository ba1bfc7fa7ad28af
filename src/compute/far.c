/*
 * The far device: for testing what an accelerator requires of the rest of the program. It computes with another device's
 * kernels, on a thread of its own that executes a queue of commands, with random delays. The host cannot read its memory: the
 * program holds addresses in a range without access, and only the queue's thread knows where the memory is. All far devices of
 * a process share their memory, like workers on one accelerator.
 *
 * It finds work that is not ordered. Each line of memory records which queue touched it last, and with which piece of work;
 * each queue knows which work of the other queues happens before its own, by the moments that it has waited for (a vector
 * clock). A block belongs to one worker at a time. So if two queues touch the same line, the second access must wait for the
 * first; if it does not, the device reports an error, even if the order happened to be right this time.
 *
 * Settings, as environment variables with their defaults:
 *   PENSTOCK_FAR_KERNELS    the device whose kernels compute: cpu, or reference
 *   PENSTOCK_FAR_SEED       seed of the delays: 1
 *   PENSTOCK_FAR_DELAY_MS   the longest delay: 0.5; one command in 64 has one
 *   PENSTOCK_FAR_FORGET     1: waits for no moment (to show that this is found)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/processor.h"
#include "base/random.h"
#include "compute/device.h"

/* -------------------------------------------------------------------- memory */

/* Each line of LINE bytes has a word in the history; block sizes are rounded up so that their history is whole pages. */
enum { LINE = 64, BLOCK = 4096 / (int)sizeof(uint64_t) * LINE };
#define ARENA ((size_t)1 << 34)

/* Addresses are never reused, so that the use of a block after its release is found, too. (The size leaves room for what
 * sanitizers reserve, and is what valgrind has.) */
static struct {
    char *handles; /* what the program holds */
    char *memory;  /* where it is */
    atomic_uint_fast64_t *history;
    atomic_size_t used;
} arena;
static pthread_once_t arena_made = PTHREAD_ONCE_INIT;

static void *reserve(size_t size) { return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); }

static void make_arena(void) {
    arena.handles = reserve(ARENA);
    arena.memory = reserve(ARENA);
    arena.history = reserve(ARENA / LINE * sizeof *arena.history);
}

static bool in_arena(const void *address) { return (size_t)((const char *)address - arena.handles) < ARENA; }

static bool map_memory(void *at, size_t size) {
    return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static void unmap_memory(void *at, size_t size) {
    mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* --------------------------------------------------------------------- queue */

enum { QUEUES = 128, MARKS = 512, CAPACITY = 256 };

enum kind { KERNEL, UPDATE, COPY, ZERO, ADD, CONVERT, SCALE, CLIP, CODE, MARK, AFTER };

struct far_kernel {
    struct kernel kernel;
    struct kernel_class type;
    struct kernel *inner;
    int64_t input_bytes[GRAPH_INPUTS_MAX], output_bytes, weight_bytes[GRAPH_PARAMETERS_MAX], target_bytes;
};

struct command {
    enum kind kind;
    union {
        struct {
            const struct far_kernel *kernel;
            enum kernel_part part;
            struct kernel_call call;
        } kernel;
        struct {
            const struct optimizer *rule;
            struct optimizer_settings settings;
            struct optimizer_call call;
            bool predict_only;
        } update;
        struct {
            void *to;
            const void *from;
            void *snapshot;                   /* of a source on the host; freed after the copy */
            size_t count;                     /* bytes, or floats */
            enum number_type type, from_type; /* to add, to convert */
            float factor, divisor;
        } block;
        struct {
            struct stretch *stretch; /* freed after it */
            int count;
            double limit;
        } clip;
        struct wire_call code;
        struct moment after;
    };
};

/* The time and the vector clock of a queue at a mark. */
struct mark {
    double time;
    uint64_t clock[QUEUES];
};

struct far_device {
    struct device device;
    struct device *inner;
    int number;                  /* of the queue */
    struct random_key delay_key; /* of its delays */
    double delay_s;
    bool forgets;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Guarded by the lock; the caller counts `enqueued` and `marks_enqueued`, the queue's thread the rest. */
    struct command commands[CAPACITY];
    uint64_t enqueued, done;
    uint64_t marks_enqueued;
    atomic_uint_fast64_t marks_done;
    struct mark marks[MARKS];
    bool closing;
    enum ps_status status; /* of the first command that failed; later commands are skipped */
    struct ps_error error;
    /* Used by the queue's thread only: for each queue, the last work that happens before the current one; for its own, the
     * current one. */
    uint64_t clock[QUEUES];
};

/* Queues by their numbers. A queue that reuses a number continues its clock. */
static struct {
    pthread_mutex_t lock;
    bool taken[QUEUES];
    uint64_t clock[QUEUES];
} queues = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct far_device *far_of(struct device *device) { return (struct far_device *)device; }

static void fail(struct far_device *far, enum ps_status status, const struct ps_error *error) {
    pthread_mutex_lock(&far->lock);
    if (far->status == PS_OK) {
        far->status = status;
        far->error = *error;
    }
    pthread_mutex_unlock(&far->lock);
}

/* Where the bytes at the address really are. For the device's memory the current work is recorded in its history. */
static void *use(struct far_device *far, const void *address, int64_t bytes) {
    const int shift = 56;
    if (!in_arena(address)) return (void *)address;
    const size_t first = (size_t)((const char *)address - arena.handles);
    const uint64_t own = (uint64_t)(far->number + 1) << shift | far->clock[far->number];
    for (size_t line = first / LINE; bytes > 0 && line <= (first + (size_t)bytes - 1) / LINE; line++) {
        const uint64_t last = atomic_exchange_explicit(&arena.history[line], own, memory_order_relaxed);
        const int other = (int)(last >> shift) - 1;
        if (other < 0 || other == far->number || (last & (((uint64_t)1 << shift) - 1)) <= far->clock[other]) continue;
        struct ps_error error = {0};
        error_set(&error, PS_FAILED,
                  "device far: queue %d touches a block but does not wait for queue %d, which touched it before", far->number,
                  other);
        fail(far, PS_FAILED, &error);
        break;
    }
    return arena.memory + first;
}

static void use_kernel_call(struct far_device *far, const struct far_kernel *kernel, struct kernel_call *call) {
    const int samples = kernel->kernel.samples;
    for (int i = 0; i < kernel->kernel.node->input_count; i++) {
        call->input[i] = use(far, call->input[i], kernel->input_bytes[i]);
        call->input_gradient[i] = use(far, call->input_gradient[i], kernel->input_bytes[i]);
    }
    call->output = use(far, call->output, kernel->output_bytes);
    call->output_gradient = use(far, call->output_gradient, kernel->output_bytes);
    call->inner = use(far, call->inner, kernel->kernel.inner_bytes);
    for (int p = 0; p < kernel->kernel.node->parameter_count; p++) {
        const int64_t bytes = kernel->kernel.parameter_bytes[p];
        call->weights[p] = use(far, call->weights[p], kernel->weight_bytes[p]);
        call->gradients[p] = use(far, call->gradients[p], bytes);
        call->statistics[p] = use(far, call->statistics[p], bytes);
    }
    call->workspace = use(far, call->workspace, kernel->kernel.workspace_bytes);
    call->state = use(far, call->state, samples * kernel->kernel.state_floats * (int64_t)sizeof(float));
    call->target = use(far, call->target, kernel->target_bytes);
    call->loss = use(far, call->loss, sizeof *call->loss);
    call->correct = use(far, call->correct, sizeof *call->correct);
    call->correct5 = use(far, call->correct5, sizeof *call->correct5);
}

static void run_kernel(struct far_device *far, struct command *command) {
    struct ps_error error = {0};
    struct kernel_call *call = &command->kernel.call;
    use_kernel_call(far, command->kernel.kernel, call);
    call->error = &error;
    enum ps_status status = kernel_run(command->kernel.kernel->inner, command->kernel.part, call);
    if (status != PS_OK) fail(far, status, &error);
}

static void run_update(struct far_device *far, struct command *command) {
    struct optimizer_call *call = &command->update.call;
    const int64_t bytes = (int64_t)(call->count * sizeof(float)),
                  copied = (int64_t)(call->count * number_types[call->type].bytes);
    call->weights = use(far, call->weights, bytes);
    call->updated = use(far, call->updated, bytes);
    call->gradient = use(far, call->gradient, bytes);
    call->predicted = use(far, call->predicted, copied);
    call->copy = use(far, call->copy, copied);
    for (int m = 0; m < OPTIMIZER_MOMENTS_MAX; m++) call->moment[m] = use(far, call->moment[m], bytes);
    far->inner->type->update(far->inner, command->update.rule, &command->update.settings, call, command->update.predict_only,
                             0);
    if (device_is_spoilt(far->inner)) device_spoil(&far->device);
}

static void run_block(struct far_device *far, struct command *command) {
    const size_t count = command->block.count;
    const bool typed = command->kind == ADD || command->kind == CONVERT;
    const size_t each = typed ? number_types[command->block.type].bytes : command->kind == SCALE ? sizeof(float) : 1;
    const size_t read = command->kind == CONVERT ? number_types[command->block.from_type].bytes : each;
    const void *source = command->block.snapshot ? command->block.snapshot : command->block.from;
    void *to = use(far, command->block.to, (int64_t)(count * each));
    const void *from = use(far, source, (int64_t)(count * read));
    if (command->kind == COPY) device_copy(NULL, to, from, count);
    if (command->kind == ZERO) device_zero(NULL, to, count);
    if (command->kind == ADD) device_add(NULL, command->block.type, count, to, from);
    if (command->kind == CONVERT) device_convert(NULL, count, command->block.type, to, command->block.from_type, from);
    if (command->kind == SCALE) device_scale(NULL, count, to, command->block.factor, command->block.divisor);
}

static void run_clip(struct far_device *far, struct command *command) {
    struct stretch *stretch = command->clip.stretch;
    for (int s = 0; s < command->clip.count; s++)
        stretch[s].at = use(far, stretch[s].at, (int64_t)(stretch[s].count * sizeof(float)));
    device_clip(NULL, stretch, command->clip.count, command->clip.limit);
}

static void run_code(struct far_device *far, struct wire_call *call) {
    const struct wire_numbers numbers = wire_count(call->runs, call->run_count);
    int64_t bytes = 0;
    for (int r = 0; r < call->run_count; r++) {
        const struct wire_run *run = &call->runs[r];
        const int64_t end = (int64_t)(run->offset + run->count * number_types[run->type].bytes);
        bytes = end > bytes ? end : bytes;
    }
    call->block = use(far, call->block, bytes);
    if (call->encoded) call->encoded = use(far, call->encoded, wire_bytes(call->wire, &numbers));
    call->feedback = use(far, call->feedback, wire_feedback_bytes(call->wire, &numbers));
    wire_call_run(call);
}

static void run_mark(struct far_device *far) {
    pthread_mutex_lock(&far->lock);
    struct mark *mark = &far->marks[(far->marks_done + 1) % MARKS];
    mark->time = clock_now();
    memcpy(mark->clock, far->clock, sizeof mark->clock);
    atomic_fetch_add(&far->marks_done, 1);
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
}

static void wait(const struct moment *moment) {
    struct far_device *far = far_of(moment->device);
    pthread_mutex_lock(&far->lock);
    while (far->marks_done < moment->work) pthread_cond_wait(&far->changed, &far->lock);
    pthread_mutex_unlock(&far->lock);
}

static void run_after(struct far_device *far, const struct moment *moment) {
    struct far_device *other = far_of(moment->device);
    if (far->forgets) return;
    wait(moment);
    pthread_mutex_lock(&other->lock);
    const struct mark *mark = &other->marks[moment->work % MARKS];
    for (int q = 0; q < QUEUES; q++)
        if (mark->clock[q] > far->clock[q] && q != far->number) far->clock[q] = mark->clock[q];
    pthread_mutex_unlock(&other->lock);
}

static void delay(struct far_device *far) {
    enum { ONE_IN = 64 };
    const uint64_t work = far->clock[far->number];
    if (far->delay_s > 0 && random_below(far->delay_key, 2 * work, ONE_IN) == 0)
        clock_sleep(far->delay_s * (double)random_uniform(far->delay_key, 2 * work + 1));
}

static void run_command(struct far_device *far, struct command *command) {
    far->clock[far->number]++;
    delay(far);
    pthread_mutex_lock(&far->lock);
    const bool failed = far->status != PS_OK;
    pthread_mutex_unlock(&far->lock);
    if (command->kind == MARK) run_mark(far);
    if (command->kind == AFTER) run_after(far, &command->after);
    if (command->kind == KERNEL && !failed) run_kernel(far, command);
    if (command->kind == UPDATE && !failed) run_update(far, command);
    if (command->kind == CODE && !failed) run_code(far, &command->code);
    if (command->kind == CLIP) {
        if (!failed) run_clip(far, command);
        free(command->clip.stretch);
    }
    if (command->kind >= COPY && command->kind <= SCALE) {
        if (!failed) run_block(far, command);
        free(command->block.snapshot);
    }
}

static void *queue_main(void *argument) {
    struct far_device *far = argument;
    denormals_flush();
    pthread_mutex_lock(&far->lock);
    for (;;) {
        while (far->done == far->enqueued && !far->closing) pthread_cond_wait(&far->changed, &far->lock);
        if (far->done == far->enqueued) break;
        struct command *command = &far->commands[far->done % CAPACITY];
        pthread_mutex_unlock(&far->lock);
        run_command(far, command);
        pthread_mutex_lock(&far->lock);
        far->done++;
        pthread_cond_broadcast(&far->changed);
    }
    pthread_mutex_unlock(&far->lock);
    return NULL;
}

static void enqueue(struct far_device *far, const struct command *command) {
    pthread_mutex_lock(&far->lock);
    while (far->enqueued - far->done == CAPACITY) pthread_cond_wait(&far->changed, &far->lock);
    far->commands[far->enqueued++ % CAPACITY] = *command;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
}

static struct moment mark(struct device *device) {
    struct far_device *far = far_of(device);
    enqueue(far, &(struct command){.kind = MARK});
    return (struct moment){.time = clock_now(), .device = device, .work = ++far->marks_enqueued};
}

static void after(struct device *device, const struct moment *moment) {
    if (moment->device != NULL && moment->device != device && moment->device->type == device->type)
        enqueue(far_of(device), &(struct command){.kind = AFTER, .after = *moment});
}

static bool reached(const struct moment *moment) { return far_of(moment->device)->marks_done >= moment->work; }

static double time_of(const struct moment *moment) {
    struct far_device *far = far_of(moment->device);
    pthread_mutex_lock(&far->lock);
    double time = far->marks[moment->work % MARKS].time;
    pthread_mutex_unlock(&far->lock);
    return time;
}

static enum ps_status check(struct device *device, struct ps_error *error) {
    struct far_device *far = far_of(device);
    pthread_mutex_lock(&far->lock);
    enum ps_status status = far->status;
    if (status != PS_OK) *error = far->error;
    pthread_mutex_unlock(&far->lock);
    return status;
}

/* ------------------------------------------------------------ work on memory */

static enum ps_status take(struct device *device, size_t size, const char *what, void **base, struct ps_error *error) {
    (void)device;
    const size_t rounded = (size / BLOCK + 1) * BLOCK;
    if (size > ARENA / 2) return error_memory(error, what, size);
    const size_t at = atomic_fetch_add(&arena.used, rounded);
    if (at + rounded > ARENA || !map_memory(arena.memory + at, rounded) ||
        !map_memory(arena.history + at / LINE, rounded / LINE * sizeof *arena.history))
        return error_memory(error, what, size);
    *base = arena.handles + at;
    return PS_OK;
}

static void give(struct device *device, void *base, size_t size) {
    const size_t at = (size_t)((char *)base - arena.handles), rounded = (size / BLOCK + 1) * BLOCK;
    device_finish(device);
    unmap_memory(arena.memory + at, rounded);
    unmap_memory(arena.history + at / LINE, rounded / LINE * sizeof *arena.history);
}

static void copy(struct device *device, void *to, const void *from, size_t bytes) {
    struct command command = {.kind = COPY, .block = {.to = to, .from = from, .count = bytes}};
    if (!in_arena(from)) {
        struct ps_error error = {0};
        command.block.snapshot = malloc(bytes);
        if (command.block.snapshot == NULL) {
            fail(far_of(device), error_memory(&error, "a copy", bytes), &error);
            return;
        }
        memcpy(command.block.snapshot, from, bytes);
    }
    enqueue(far_of(device), &command);
}

static void zero(struct device *device, void *to, size_t bytes) {
    enqueue(far_of(device), &(struct command){.kind = ZERO, .block = {.to = to, .count = bytes}});
}

static void add(struct device *device, enum number_type type, size_t count, void *y, const void *x) {
    enqueue(far_of(device), &(struct command){.kind = ADD, .block = {.to = y, .from = x, .count = count, .type = type}});
}

static void convert(struct device *device, size_t count, enum number_type to_type, void *to, enum number_type from_type,
                    const void *from) {
    enqueue(far_of(device),
            &(struct command){.kind = CONVERT,
                              .block = {.to = to, .from = from, .count = count, .type = to_type, .from_type = from_type}});
}

static void scale(struct device *device, size_t count, float *y, float factor, float divisor) {
    enqueue(far_of(device),
            &(struct command){.kind = SCALE, .block = {.to = y, .count = count, .factor = factor, .divisor = divisor}});
}

static void clip(struct device *device, const struct stretch *stretches, int count, double limit) {
    struct command command = {.kind = CLIP, .clip = {.count = count, .limit = limit}};
    const size_t bytes = (size_t)count * sizeof *stretches;
    struct ps_error error = {0};
    command.clip.stretch = malloc(bytes);
    if (command.clip.stretch == NULL) {
        fail(far_of(device), error_memory(&error, "a copy", bytes), &error);
        return;
    }
    memcpy(command.clip.stretch, stretches, bytes);
    enqueue(far_of(device), &command);
}

static void update(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds) {
    (void)seconds;
    enqueue(far_of(device),
            &(struct command){.kind = UPDATE,
                              .update = {.rule = rule, .settings = *settings, .call = *call, .predict_only = predict_only}});
}

static void code(struct device *device, const struct wire_call *call) {
    enqueue(far_of(device), &(struct command){.kind = CODE, .code = *call});
}

/* -------------------------------------------------------------------- kernels */

#define SLOT(slot, PART)                                                                                                       \
    static enum ps_status slot(struct kernel *kernel, const struct kernel_call *call) {                                        \
        enqueue(far_of(kernel->device),                                                                                        \
                &(struct command){.kind = KERNEL, .kernel = {(const struct far_kernel *)kernel, KERNEL_##PART, *call}});       \
        return PS_OK;                                                                                                          \
    }
SLOT(forward, FORWARD)
SLOT(backward_input, BACKWARD_INPUT)
SLOT(backward_weight, BACKWARD_WEIGHT)
SLOT(backward_shared, BACKWARD_SHARED)

/* On the calling thread, in the host's memory; the queue may be running the kernel. */
static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    struct far_kernel *far = (struct far_kernel *)kernel;
    device_finish(kernel->device);
    return far->inner->type->from_canonical(far->inner, parameter, canonical, own, error);
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    struct far_kernel *far = (struct far_kernel *)kernel;
    device_finish(kernel->device);
    return far->inner->type->to_canonical(far->inner, parameter, own, canonical, error);
}

static void release(struct kernel *kernel) {
    device_finish(kernel->device);
    kernel_destroy(((struct far_kernel *)kernel)->inner);
}

static int64_t value_bytes(const struct graph *graph, int node, int samples) {
    return samples * graph_value_bytes(graph, graph->nodes[node].root);
}

/* Its inner kernel sees to the types. */
static bool native(const struct kernel *kernel) {
    (void)kernel;
    return true;
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct far_kernel *far = (struct far_kernel *)kernel;
    struct device *device = kernel->device;
    const struct graph *graph = kernel->graph;
    const struct node *node = kernel->node;
    const int samples = kernel->samples;
    TRY(kernel_create(far_of(device)->inner, graph, node, samples, kernel->relu_follows, &far->inner, error));
    const struct kernel_class *inner = far->inner->type;
    far->type = (struct kernel_class){
        .release = release,
        .forward = forward,
        .backward_input = kernel_has(far->inner, KERNEL_BACKWARD_INPUT) ? backward_input : NULL,
        .backward_weight = kernel_has(far->inner, KERNEL_BACKWARD_WEIGHT) ? backward_weight : NULL,
        .backward_shared = kernel_has(far->inner, KERNEL_BACKWARD_SHARED) ? backward_shared : NULL,
        .from_canonical = inner->from_canonical ? from_canonical : NULL,
        .to_canonical = inner->to_canonical ? to_canonical : NULL,
    };
    struct images *images = kernel->images;
    far->kernel = *far->inner;
    far->kernel.images = images;
    far->kernel.type = &far->type;
    far->kernel.device = device;
    far->kernel.adapter = NULL;
    for (int p = 0; p < node->parameter_count; p++) far->weight_bytes[p] = kernel_weight_bytes(&far->kernel, p);
    for (int i = 0; i < node->input_count; i++) far->input_bytes[i] = value_bytes(graph, node->inputs[i], samples);
    far->output_bytes = value_bytes(graph, (int)(node - graph->nodes), samples);
    const struct shape target = graph_target(graph);
    far->target_bytes = node->flags & OPERATOR_LOSS ? samples * shape_bytes(&target) : 0;
    return PS_OK;
}

static const struct kernel_class far_kernels = {
    .size = sizeof(struct far_kernel), .native = native, .prepare = prepare, .release = release, .forward = forward};

/* --------------------------------------------------------------------- device */

static double number_of(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text && *text ? number_read(text, NULL) : otherwise;
}

static enum ps_status take_number(struct far_device *far, struct ps_error *error) {
    pthread_mutex_lock(&queues.lock);
    while (far->number < QUEUES && queues.taken[far->number]) far->number++;
    if (far->number < QUEUES) {
        queues.taken[far->number] = true;
        memcpy(far->clock, queues.clock, sizeof far->clock);
    }
    pthread_mutex_unlock(&queues.lock);
    return far->number < QUEUES ? PS_OK : error_set(error, PS_USAGE, "device far: at most %d are accepted", QUEUES);
}

static void give_number(const struct far_device *far) {
    pthread_mutex_lock(&queues.lock);
    queues.taken[far->number] = false;
    queues.clock[far->number] = far->clock[far->number];
    pthread_mutex_unlock(&queues.lock);
}

static enum ps_status start(struct far_device *far, const struct device_options *options, struct ps_error *error) {
    const char *kernels = getenv("PENSTOCK_FAR_KERNELS");
    const struct device_class *inner;
    TRY(device_find(kernels && *kernels ? kernels : "cpu", &inner, error));
    if (!inner->real || inner->memory != NULL)
        return error_set(error, PS_USAGE, "PENSTOCK_FAR_KERNELS: device %s does not compute in the host's memory", kernels);
    TRY(device_open(inner->name, options, &far->inner, error));
    TRY(take_number(far, error));
    far->delay_key = random_key((uint64_t)number_of("PENSTOCK_FAR_SEED", 1), RANDOM_SYNTHETIC, (uint64_t)far->number, 0);
    far->delay_s = number_of("PENSTOCK_FAR_DELAY_MS", 0.5) * 1e-3;
    far->forgets = number_of("PENSTOCK_FAR_FORGET", 0) > 0;
    int code = pthread_create(&far->thread, NULL, queue_main, far);
    if (code == 0) return PS_OK;
    give_number(far);
    return error_set(error, PS_FAILED, "device far: cannot start a thread: %s", strerror(code));
}

static enum ps_status open_device(const struct device_options *options, struct device **device, struct ps_error *error) {
    pthread_once(&arena_made, make_arena);
    if (arena.handles == MAP_FAILED || arena.memory == MAP_FAILED || (void *)arena.history == MAP_FAILED)
        return error_set(error, PS_FAILED, "device far: cannot reserve its range of addresses");
    struct far_device *made;
    TRY(memory_new(&made, 1, "a device", error));
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    enum ps_status status = start(made, options, error);
    if (status != PS_OK) {
        device_close(made->inner);
        pthread_mutex_destroy(&made->lock);
        pthread_cond_destroy(&made->changed);
        free(made);
        return status;
    }
    *device = &made->device;
    return PS_OK;
}

static void close_device(struct device *device) {
    struct far_device *far = far_of(device);
    pthread_mutex_lock(&far->lock);
    far->closing = true;
    pthread_cond_broadcast(&far->changed);
    pthread_mutex_unlock(&far->lock);
    pthread_join(far->thread, NULL);
    give_number(far);
    device_close(far->inner);
    pthread_mutex_destroy(&far->lock);
    pthread_cond_destroy(&far->changed);
    free(far);
}

static const struct device_memory memory = {
    .take = take,
    .give = give,
    .copy = copy,
    .zero = zero,
    .add = add,
    .convert = convert,
    .scale = scale,
    .clip = clip,
};

const struct device_class device_far = {
    .name = "far",
    .summary = "for tests: the cpu's kernels with a queue, and with memory that the host cannot read",
    .real = true,
    .kernels =
        {
#define OPERATOR(NAME, name) [OPERATOR_##NAME] = &far_kernels,
#include "graph/operators.def"
#undef OPERATOR
        },
    .memory = &memory,
    .open = open_device,
    .close = close_device,
    .update = update,
    .code = code,
    .mark = mark,
    .after = after,
    .reached = reached,
    .wait = wait,
    .time_of = time_of,
    .check = check,
};
