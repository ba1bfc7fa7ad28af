/*
 * How fast the cpu device's operators that are limited by memory are, in f32 and in bf16: the bytes of all values and gradients
 * that a forward and a backward read and write, by the time of both, beside a plain copy of as many bytes. operators.sh runs
 * it.
 *
 *     operators [THREADS [SCALE [OPERATOR]]]
 *
 * With SCALE there are so many times as many samples (1: values of 4 MiB in f32, which fit into large caches).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "compute/device.h"
#include "worker.h"

static struct attributes none(void) { return (struct attributes){0}; }

/* One operator on values of one shape. */
struct subject {
    const char *name;
    enum operator_id id;
    struct attributes attributes;
    struct shape shape;
    int inputs, samples;
};

#define IMAGE                                                                                                                  \
    {                                                                                                                          \
        .rank = 3, .dim = { 64, 32, 32 }                                                                                       \
    }
#define LARGE_IMAGE                                                                                                            \
    {                                                                                                                          \
        .rank = 3, .dim = { 64, 112, 112 }                                                                                     \
    }
#define SEQUENCE                                                                                                               \
    {                                                                                                                          \
        .rank = 3, .dim = { 768, 128, 1 }                                                                                      \
    }
#define HEADS                                                                                                                  \
    {                                                                                                                          \
        .rank = 3, .dim = { 2304, 128, 1 }                                                                                     \
    }
static const struct subject subjects[] = {
    {"relu", OPERATOR_RELU, {0}, IMAGE, 1, 16},
    {"add", OPERATOR_ADD, {0}, IMAGE, 2, 16},
    {"batch_norm", OPERATOR_BATCH_NORM, {.epsilon = 1e-5f, .momentum = 0.1f, .weight = true, .bias = true}, IMAGE, 1, 16},
    {"group_norm", OPERATOR_GROUP_NORM, {.epsilon = 1e-5f, .groups = 8, .weight = true, .bias = true}, IMAGE, 1, 16},
    {"local_response_norm",
     OPERATOR_LOCAL_RESPONSE_NORM,
     {.window = 5, .alpha = 1e-4f, .beta = 0.75f, .shift = 1},
     IMAGE,
     1,
     16},
    {"max_pool 2",
     OPERATOR_MAX_POOL,
     {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .dilation_h = 1, .dilation_w = 1},
     IMAGE,
     1,
     16},
    {"max_pool 3",
     OPERATOR_MAX_POOL,
     {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1, .dilation_h = 1, .dilation_w = 1},
     LARGE_IMAGE,
     1,
     4},
    {"average_pool 2",
     OPERATOR_AVERAGE_POOL,
     {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .dilation_h = 1, .dilation_w = 1},
     IMAGE,
     1,
     16},
    {"layer_norm", OPERATOR_LAYER_NORM, {.epsilon = 1e-5f, .weight = true, .bias = true}, SEQUENCE, 1, 8},
    {"gelu", OPERATOR_GELU, {0}, SEQUENCE, 1, 8},
    {"gelu tanh", OPERATOR_GELU, {.tanh_form = true}, SEQUENCE, 1, 8},
    {"sigmoid", OPERATOR_UNARY, {.kind = UNARY_SIGMOID}, SEQUENCE, 1, 8},
    {"mul", OPERATOR_BINARY, {.kind = BINARY_MUL}, SEQUENCE, 2, 8},
    {"softmax", OPERATOR_SOFTMAX, {0}, SEQUENCE, 1, 8},
    {"dropout", OPERATOR_DROPOUT, {.rate = 0.1f}, SEQUENCE, 1, 8},
    {"position_embedding", OPERATOR_POSITION_EMBEDDING, {.count = 128}, SEQUENCE, 1, 8},
    {"attention", OPERATOR_ATTENTION, {.heads = 12}, HEADS, 1, 8},
    {"causal attention", OPERATOR_ATTENTION, {.heads = 12, .causal = true}, HEADS, 1, 8},
    {"cross_entropy", OPERATOR_CROSS_ENTROPY, {0}, SEQUENCE, 1, 8},
};

/* Memory with numbers from -1 to 1, in either type. */
static void *numbers(enum number_type type, int64_t count) {
    float *plain = malloc((size_t)count * sizeof *plain + 64);
    void *made = aligned_alloc(MEMORY_ALIGNMENT, memory_align((size_t)count * sizeof(float) + 64));
    if (plain == NULL || made == NULL) exit(1);
    for (int64_t i = 0; i < count; i++) plain[i] = (float)(i * 7919 % 2003) / 1001.5f - 1;
    numbers_convert((size_t)count, type, made, TYPE_F32, plain);
    free(plain);
    return made;
}

/* Seconds of one call, the least of several runs. */
static double time_of(void (*run)(void *context), void *context) {
    double least = INFINITY;
    int calls = 1;
    for (int round = 0; round < 40; round++) {
        const double start = clock_now();
        for (int c = 0; c < calls; c++) run(context);
        const double seconds = (clock_now() - start) / calls;
        least = seconds < least ? seconds : least;
        if (round == 0) calls = seconds > 0.004 ? 1 : (int)(0.004 / seconds) + 1;
    }
    return least;
}

struct copying {
    const struct device *device;
    char *to, *from;
    size_t bytes;
};

static void copy_part(const void *context, size_t first, size_t end) {
    const struct copying *c = context;
    memcpy(c->to + first, c->from + first, end - first);
}

static void copy(void *context) {
    const struct copying *c = context;
    device_parallel(c->device, c->bytes, 4096, copy_part, c);
}

struct timed {
    struct kernel *kernel;
    struct kernel_call forward, backward;
};

static void check_run(enum ps_status status, const struct kernel_call *call) { check(status, call->error); }

static void run_forward(void *context) {
    struct timed *t = context;
    check_run(kernel_run(t->kernel, KERNEL_FORWARD, &t->forward), &t->forward);
}

static void run_backward(void *context) {
    struct timed *t = context;
    if (kernel_has(t->kernel, KERNEL_BACKWARD_SHARED)) kernel_run(t->kernel, KERNEL_BACKWARD_SHARED, &t->backward);
    if (kernel_has(t->kernel, KERNEL_BACKWARD_WEIGHT) && t->kernel->node->parameter_count > 0)
        check_run(kernel_run(t->kernel, KERNEL_BACKWARD_WEIGHT, &t->backward), &t->backward);
    check_run(kernel_run(t->kernel, KERNEL_BACKWARD_INPUT, &t->backward), &t->backward);
}

/* A network of the one operator, whose inputs and output have the type. */
static struct graph *graph_of(const struct subject *s, enum number_type type, int *index) {
    struct ps_error error = {0};
    struct graph *graph = graph_create();
    int inputs[2];
    struct attributes data = none();
    data.sides.count = s->shape.rank;
    for (int d = 0; d < s->shape.rank; d++) data.sides.at[d] = (int)s->shape.dim[d];
    for (int i = 0; i < s->inputs; i++) {
        const char *names[] = {"a", "b"};
        inputs[i] = graph_add(graph, OPERATOR_INPUT, names[i], &data, NULL, 0, &error);
        check(graph->status, &error);
    }
    *index = graph_add(graph, s->id, "node", &s->attributes, inputs, s->inputs, &error);
    check(graph->status, &error);
    check(graph_finish(graph, &error), &error);
    check(graph_set_precision(graph, type == TYPE_BF16 ? PRECISION_BF16 : PRECISION_F32, &error), &error);
    for (struct node *node = graph->nodes; node < graph->nodes + graph->node_count && type == TYPE_BF16; node++)
        if (!(node->flags & OPERATOR_LOSS)) node->shape.type = TYPE_BF16;
    return graph;
}

static void fill_call(struct timed *t, struct ps_error *error, double *loss, int64_t *hits) {
    const struct kernel *kernel = t->kernel;
    const struct node *node = kernel->node;
    const int64_t elements = kernel->samples * shape_elements(&node->shape);
    struct kernel_call *f = &t->forward, *b = &t->backward;
    *f = (struct kernel_call){.error = error,
                              .training = true,
                              .counted = t->kernel->samples,
                              .gradient_scale = 1,
                              .loss = loss,
                              .correct = hits,
                              .correct5 = hits,
                              .key = random_key(1, RANDOM_DROPOUT, 0, 0)};
    for (int i = 0; i < node->input_count; i++)
        f->input[i] = numbers(kernel->graph->nodes[node->inputs[i]].shape.type,
                              kernel->samples * shape_elements(&kernel->graph->nodes[node->inputs[i]].shape));
    f->output = numbers(node->shape.type, elements);
    f->inner = numbers(TYPE_F32, kernel->inner_bytes / 4 + 16);
    f->workspace = numbers(TYPE_F32, kernel->workspace_bytes / 4 + 16);
    f->target = calloc((size_t)elements, sizeof(int32_t));
    for (int p = 0; p < node->parameter_count; p++) {
        f->weights[p] = numbers(TYPE_F32, kernel->parameter_bytes[p] / 4);
        f->statistics[p] = numbers(TYPE_F32, kernel->parameter_bytes[p] / 4);
    }
    *b = *f;
    for (int i = 0; i < node->input_count; i++) {
        const struct shape *shape = &kernel->graph->nodes[node->inputs[i]].shape;
        if (!node_keeps_input(kernel->graph, node, i)) b->input[i] = NULL;
        b->input_gradient[i] = numbers(shape->type, kernel->samples * shape_elements(shape));
    }
    if (!(node->flags & OPERATOR_USES_OUTPUT)) b->output = NULL;
    if (!(node->flags & OPERATOR_LOSS)) b->output_gradient = numbers(node->shape.type, elements);
    for (int p = 0; p < node->parameter_count; p++) b->gradients[p] = numbers(TYPE_F32, kernel->parameter_bytes[p] / 4);
}

/* What both parts read and write of values and their gradients. */
static double bytes_of(const struct kernel *kernel, const struct timed *t, bool backward) {
    const struct kernel_call *call = backward ? &t->backward : &t->forward;
    const int64_t output = kernel->samples * shape_bytes(&kernel->node->shape);
    double bytes = (double)((call->output != NULL ? output : 0) + (call->output_gradient != NULL ? output : 0));
    for (int i = 0; i < kernel->node->input_count; i++) {
        const int64_t input = kernel->samples * shape_bytes(kernel_input(kernel, i));
        bytes += (double)((call->input[i] != NULL ? input : 0) + (call->input_gradient[i] != NULL ? input : 0));
    }
    return bytes;
}

static void measure(struct device *device, const struct subject *s, int scale, enum number_type type, double times[2],
                    double rates[2]) {
    struct ps_error error = {0};
    struct timed timed = {0};
    double loss = 0;
    int64_t hits = 0;
    int index;
    struct graph *graph = graph_of(s, type, &index);
    check(kernel_create(device, graph, &graph->nodes[index], s->samples * scale, false, &timed.kernel, &error), &error);
    fill_call(&timed, &error, &loss, &hits);
    double bytes[2];
    struct kernel own = *timed.kernel; /* an adapted kernel sees f32 */
    own.graph = graph;
    own.node = &graph->nodes[index];
    for (int b = 0; b < 2; b++) {
        times[b] = time_of(b ? run_backward : run_forward, &timed);
        bytes[b] = bytes_of(&own, &timed, b == 1);
        struct copying c = {device, numbers(TYPE_F32, (int64_t)bytes[b] / 8), numbers(TYPE_F32, (int64_t)bytes[b] / 8),
                            (size_t)bytes[b] / 2};
        rates[b] = times[b] / time_of(copy, &c);
        free(c.to), free(c.from);
    }
    kernel_destroy(timed.kernel);
    graph_destroy(graph); /* its blocks stay: the program ends soon */
}

int main(int count, char **arguments) {
    struct ps_error error = {0};
    struct device *device;
    const int scale = count > 2 ? atoi(arguments[2]) : 1;
    check(device_open("cpu", &(struct device_options){.threads = count > 1 ? atoi(arguments[1]) : 1}, &device, &error), &error);
    printf("%-20s %28s   %28s   %s\n", "", "f32: ms, times a copy", "bf16: ms, times a copy", "f32 / bf16");
    printf("%-20s %14s %13s   %14s %13s\n", "operator", "forward", "backward", "forward", "backward");
    for (size_t s = 0; s < sizeof subjects / sizeof *subjects; s++) {
        double times[2][2], rates[2][2];
        if (count > 3 && strcmp(arguments[3], subjects[s].name) != 0) continue;
        for (int t = 0; t < 2; t++) measure(device, &subjects[s], scale, t ? TYPE_BF16 : TYPE_F32, times[t], rates[t]);
        printf("%-20s", subjects[s].name);
        for (int t = 0; t < 2; t++)
            printf(" %8.3f %5.1f %7.3f %5.1f  ", 1e3 * times[t][0], rates[t][0], 1e3 * times[t][1], rates[t][1]);
        printf(" %5.2f\n", (times[0][0] + times[0][1]) / (times[1][0] + times[1][1]));
    }
    device_close(device);
    return 0;
}
