/* The cpu device's table, and functions that its kernels share. */
#include "base/memory.h"
#include "compute/cpu/cpu.h"

#include <stdlib.h>

#include <dnnl_debug.h>

#include "base/processor.h"
#include "base/vector.h"

/* ----------------------------------------------------------- sums of columns */

struct columns {
    size_t rows, columns;
    const void *x;
    float *sums;
};

static VECTOR_CLONES void add_rows(const struct columns *c, size_t first, size_t end) {
    float *restrict sums = c->sums;
    for (size_t i = first; i < end; i++) sums[i] = 0;
    for (size_t r = 0; r < c->rows; r++) {
        const float *restrict x = (const float *)c->x + r * c->columns;
        for (size_t i = first; i < end; i++) sums[i] += x[i];
    }
}

static VECTOR_CLONES void add_narrow_rows(const struct columns *c, size_t first, size_t end) {
    float *restrict sums = c->sums;
    for (size_t i = first; i < end; i++) sums[i] = 0;
    for (size_t r = 0; r < c->rows; r++) {
        const uint16_t *restrict x = (const uint16_t *)c->x + r * c->columns;
        for (size_t i = first; i < end; i++) sums[i] += bf16_value(x[i]);
    }
}

static void sum_part(const void *context, size_t first, size_t end) { add_rows(context, first, end); }
static void sum_narrow_part(const void *context, size_t first, size_t end) { add_narrow_rows(context, first, end); }

void cpu_sum_rows(const struct device *device, size_t rows, size_t columns, enum number_type type, const void *x, float *sums) {
    struct columns all = {rows, columns, x, sums};
    device_parallel(device, columns, 64, type == TYPE_BF16 ? sum_narrow_part : sum_part, &all);
}

/* --------------------------------------------------------- products in bf16 */

bool cpu_multiplies_narrow(const struct kernel *kernel) {
    bool narrow = cpu_multiplies_bf16() && cpu_is_narrow(kernel);
    for (int p = kernel->node->parameter_first; graph_has_parameter(kernel->node, p); p++) {
        const struct parameter *parameter = &kernel->graph->parameters[p];
        narrow = narrow && (parameter->shape.rank == 1 || parameter->copy == TYPE_BF16);
    }
    return narrow;
}

int64_t cpu_rounded_bytes(const struct kernel *kernel, int input) {
    const struct shape *shape = kernel_input(kernel, input);
    if (!cpu_is_narrow(kernel) || shape->type == TYPE_BF16) return 0;
    return (int64_t)memory_align((size_t)(kernel->samples * shape_elements(shape)) * sizeof(uint16_t));
}

struct rounding {
    const float *from;
    uint16_t *to;
};

static void round_part(const void *context, size_t first, size_t end) {
    const struct rounding *r = context;
    numbers_convert(end - first, TYPE_BF16, r->to + first, TYPE_F32, r->from + first);
}

const float *cpu_rounded(const struct kernel *kernel, int input, const float *value, void *room) {
    if (cpu_rounded_bytes(kernel, input) == 0) return value;
    const size_t count = (size_t)(kernel->samples * shape_elements(kernel_input(kernel, input)));
    device_parallel(kernel->device, count, 4096, round_part, &(struct rounding){value, room});
    return room;
}

/* ------------------------------------------------------------------- updates */

struct update {
    struct device *device;
    const struct optimizer *rule;
    const struct optimizer_settings *settings;
    const struct optimizer_call *call;
    bool predict_only;
};

static void update_part(const void *context, size_t first, size_t end) {
    const struct update *update = context;
    const struct optimizer_call call = optimizer_part(update->call, first, end - first);
    uint64_t mode = denormals_flush(); /* of the thread that has this part */
    if (!optimizer_run(update->rule, update->settings, &call, update->predict_only)) device_spoil(update->device);
    denormals_restore(mode);
}

static void update(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                   const struct optimizer_call *call, bool predict_only, double seconds) {
    (void)seconds;
    struct update update = {device, rule, settings, call, predict_only};
    device_parallel(device, call->count, 4096, update_part, &update);
}

/* -------------------------------------------------------------------- device */

static void close_device(struct device *device) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    dnnl_stream_destroy(cpu->stream);
    dnnl_engine_destroy(cpu->engine);
    free(cpu);
}

static enum ps_status open_device(const struct device_options *options, struct device **device, struct ps_error *error) {
    enum { THREADS_MAX = 1024 };
    if (options->threads > THREADS_MAX) {
        return error_set(error, PS_USAGE, "device cpu: %d threads: at most %d are accepted", options->threads, THREADS_MAX);
    }
    struct cpu_device *made;
    TRY(memory_new(&made, 1, "a device", error));
    dnnl_status_t status = dnnl_engine_create(&made->engine, dnnl_cpu, 0);
    if (status == dnnl_success) status = dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        close_device(&made->device);
        return error_set(error, PS_FAILED, "device cpu: oneDNN did not start: %s", dnnl_status2str(status));
    }
    made->device.threads = options->threads;
    *device = &made->device;
    return PS_OK;
}

const struct device_class device_cpu = {
    .name = "cpu",
    .summary = "this machine's processor, by oneDNN",
    .real = true,
    .kernels =
        {
#define OPERATOR(NAME, name)
#define COMPUTED(NAME, name) [OPERATOR_##NAME] = &cpu_##name,
#include "graph/operators.def"
#undef OPERATOR
        },
    .open = open_device,
    .close = close_device,
    .update = update,
};
