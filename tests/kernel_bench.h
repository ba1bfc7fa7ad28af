/* One kernel with its memory: a case made concrete, and what a device makes of it. */
#ifndef PENSTOCK_TESTS_KERNEL_BENCH_H
#define PENSTOCK_TESTS_KERNEL_BENCH_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "compute/device.h"
#include "kernel_cases.h"
#include "support.h"

/* A case made concrete, with data in plain arrays (canonical order): the same for every device. */
struct problem {
    struct graph *graph;
    const struct node *node;
    bool in_place, relu_follows;
    int samples, counted;
    bool training;
    int64_t inputs[GRAPH_INPUTS_MAX], output, parameters[GRAPH_PARAMETERS_MAX]; /* elements */
    enum number_type type[GRAPH_INPUTS_MAX];                                    /* that the inputs are given in */
    float *input[GRAPH_INPUTS_MAX], *output_gradient, *parameter[GRAPH_PARAMETERS_MAX];
    bool statistic[GRAPH_PARAMETERS_MAX];
    void *target; /* of a loss */
    struct random_key key;
};

/* What a device makes of it, in canonical order. */
struct answer {
    float *output, *input_gradient[GRAPH_INPUTS_MAX], *gradient[GRAPH_PARAMETERS_MAX], *statistic[GRAPH_PARAMETERS_MAX];
    double loss;
    int64_t correct, correct5;
};

static inline float *new_floats(int64_t count) {
    float *floats = calloc((size_t)count + 1, sizeof *floats);
    assert_non_null(floats);
    return floats;
}

/* As much behind a block as it has itself, which may not be written. */
static inline size_t guard_of(int64_t bytes) { return memory_align((size_t)bytes) + 4096; }

/* Memory as kernels get it, and its guard; filled with numbers that are none, to see that all is written. */
static inline void *new_block(int64_t bytes) {
    size_t size = memory_align((size_t)bytes) + guard_of(bytes);
    void *block = aligned_alloc(MEMORY_ALIGNMENT, size);
    assert_non_null(block);
    memset(block, 0xff, size);
    return block;
}

static inline float *random_floats(struct random_key key, int64_t count) {
    float *floats = new_floats(count);
    for (int64_t i = 0; i < count; i++) floats[i] = 2 * random_uniform(key, (uint64_t)i) - 1;
    return floats;
}

/* All different by at least 0.04, none nearer to 0 than 0.02, in random order. */
static inline float *spread_floats(struct random_key key, int64_t count) {
    float *floats = new_floats(count);
    uint32_t *order = calloc((size_t)count, sizeof *order);
    assert_non_null(order);
    random_permutation(key, order, (size_t)count);
    for (int64_t i = 0; i < count; i++) floats[i] = 0.04f * ((float)order[i] - (float)(count / 2)) + 0.02f;
    free(order);
    return floats;
}

/* Numbers as elements of a type, and back. */
static inline void put_numbers(enum number_type type, int64_t count, void *to, const float *from) {
    int32_t *whole = to;
    if (type != TYPE_I32) numbers_convert((size_t)count, type, to, TYPE_F32, from);
    for (int64_t i = 0; i < count && type == TYPE_I32; i++) whole[i] = (int32_t)from[i];
}

static inline float *get_numbers(enum number_type type, int64_t count, const void *from) {
    float *floats = new_floats(count);
    const int32_t *whole = from;
    if (type != TYPE_I32) numbers_convert((size_t)count, TYPE_F32, floats, type, from);
    for (int64_t i = 0; i < count && type == TYPE_I32; i++) floats[i] = (float)whole[i];
    return floats;
}

/* Functions get numbers for which they are defined and smooth. */
static inline void move_into_domain(struct problem *p, uint64_t number) {
    const int kind = p->node->attributes.kind;
    const bool unary = p->node->id == OPERATOR_UNARY, binary = p->node->id == OPERATOR_BINARY;
    const bool kinks = binary && (kind == BINARY_MIN || kind == BINARY_MAX);
    struct domain domain = {.low = -1, .high = 1};
    if (unary) domain = unary_domain(kind);
    if (kinks) domain.high = -1;
    const bool positive =
        p->node->id == OPERATOR_REDUCE && (kind == REDUCE_LOG_SUM || kind == REDUCE_PROD || kind == REDUCE_L2);
    if (positive) domain = (struct domain){.low = 0.5f, .high = 1.5f};
    if (binary && (kind == BINARY_DIV || kind == BINARY_POWER)) domain = (struct domain){.low = 0.5f, .high = 1.5f};
    for (int i = 0; i < p->node->input_count && (unary || binary || positive); i++) {
        float *x = p->input[i];
        if (domain.low == domain.high) {
            free(x);
            x = p->input[i] = spread_floats(random_key(number, RANDOM_TEST, test_seed(), (uint64_t)i + 40), p->inputs[i]);
        }
        for (int64_t e = 0; e < p->inputs[i]; e++) {
            if (domain.low < domain.high) x[e] = domain.low + (domain.high - domain.low) * (x[e] + 1) / 2;
            if (kinks && i == 1) x[e] += 0.02f; /* never equal */
        }
    }
}

/* Labels, some of them not counted; numbers from 0 to 1 that differ from all of spread_floats. What belongs to samples that do
 * not count is never looked at. */
static inline void make_target(struct problem *p, struct draw *d) {
    const struct shape target = graph_target(p->graph);
    const int each = (int)shape_elements(&target), none = each > 1 ? -1 : 0;
    int32_t *labels = p->target = calloc((size_t)(p->samples * each), 4);
    float *numbers = p->target;
    assert_non_null(labels);
    for (int n = 0; n < p->samples * each; n++) {
        const bool counts = n < p->counted * each;
        if (target.type == TYPE_I32)
            labels[n] = counts ? draw(d, none, (int)p->node->shape.dim[0] - 1) : -12345;
        else
            numbers[n] = counts ? 0.04f * (float)draw(d, 0, 25) : NAN;
    }
}

static inline struct problem make_problem(const struct test_case *which, uint64_t number) {
    struct draw d = {test_key(number), 0};
    struct builder b = {graph_create(), &test_error};
    int index = which->build(&b, &d);
    assert_ok(graph_finish(b.graph, &test_error));
    const struct graph *g = b.graph;
    const struct node *node = &g->nodes[index];
    struct problem p = {.graph = b.graph, .node = node, .training = true, .samples = draw(&d, 1, SAMPLES_MAX)};
    if (node->id == OPERATOR_BATCH_NORM && p.samples < 2) p.samples = 2;
    p.counted = p.samples - draw(&d, 0, p.samples - 1);
    p.in_place = node->root != index;
    p.relu_follows = index + 1 < g->node_count && g->nodes[index + 1].root == node->root;
    p.output = p.samples * shape_elements(&node->shape);
    for (int i = 0; i < node->input_count; i++) {
        struct random_key key = random_key(number, RANDOM_TEST, test_seed(), (uint64_t)i + 10);
        p.inputs[i] = p.samples * shape_elements(&g->nodes[node->inputs[i]].shape);
        p.type[i] = g->nodes[node->inputs[i]].shape.type;
        p.input[i] = which->spread ? spread_floats(key, p.inputs[i]) : random_floats(key, p.inputs[i]);
        for (int64_t e = 0; e < p.inputs[i] && node->id == OPERATOR_EMBEDDING; e++)
            p.input[i][e] = (float)draw(&d, 0, node->attributes.vocabulary - 1);
        /* Tokens that only say where a sequence is padding. */
        bool mask = p.type[i] == TYPE_I32 && node->id != OPERATOR_EMBEDDING;
        for (int64_t e = 0; e < p.inputs[i] && mask; e++) p.input[i][e] = p.input[i][e] < 0 ? 0 : 5;
        /* Some that are equal, and none that is nearly equal. */
        for (int64_t e = 0; e < p.inputs[i] && node->id == OPERATOR_COMPARE; e++) p.input[i][e] = rintf(2 * p.input[i][e]);
        /* Channels whose values are all but equal have derivatives without bound: every second position is moved away. */
        int64_t channels = node->id == OPERATOR_BATCH_NORM ? node->shape.dim[0] : INT64_MAX;
        for (int64_t e = channels; e < p.inputs[i]; e++) p.input[i][e] += e / channels % 2 == 1 ? 3.0f : 0;
    }
    move_into_domain(&p, number);
    for (int i = 0; i < node->parameter_count; i++) {
        const struct parameter *parameter = &g->parameters[node->parameter_first + i];
        p.parameters[i] = shape_elements(&parameter->shape);
        p.parameter[i] = random_floats(random_key(number, RANDOM_TEST, test_seed(), (uint64_t)i + 20), p.parameters[i]);
        p.statistic[i] = parameter->role == PARAMETER_STATISTIC;
        for (int64_t e = 0; e < p.parameters[i] && p.statistic[i]; e++) p.parameter[i][e] = fabsf(p.parameter[i][e]) + 0.1f;
    }
    p.output_gradient = random_floats(random_key(number, RANDOM_TEST, test_seed(), 30), p.output);
    if (operator_get(node->id)->flags & OPERATOR_LOSS) make_target(&p, &d);
    p.key = random_key(number, RANDOM_DROPOUT, 7, 8);
    return p;
}

static inline void round_floats(float *floats, int64_t count) {
    for (int64_t i = 0; i < count; i++) floats[i] = bf16_value(bf16_of(floats[i]));
}

/* Rounds all of the problem's numbers that bf16 may hold to bf16. */
static inline void round_problem(struct problem *p) {
    for (int i = 0; i < p->node->input_count; i++)
        if (p->type[i] == TYPE_F32) round_floats(p->input[i], p->inputs[i]);
    for (int i = 0; i < p->node->parameter_count; i++)
        if (!p->statistic[i]) round_floats(p->parameter[i], p->parameters[i]);
    round_floats(p->output_gradient, p->output);
}

/* Which values are bf16 beside those that are in a network of precision bf16 with data in f32. */
enum narrowed { NARROW_NONE, NARROW_ALL, NARROW_SOME };
static const char *const narrowed_names[] = {"bf16 of data in f32", "bf16", "bf16 in part"};

/* The problem in a network of precision bf16; NARROW_SOME: what the node reads and writes is of types as precision mixed has
 * them, drawn by the number. */
static inline void narrow_problem(struct problem *p, enum narrowed which, uint64_t number) {
    struct graph *graph = p->graph;
    struct draw d = {test_key(number + 60), 0};
    assert_ok(graph_set_precision(graph, PRECISION_BF16, &test_error));
    const bool alike = p->in_place || p->relu_follows;
    for (struct node *node = graph->nodes; node < graph->nodes + graph->node_count && which != NARROW_NONE; node++)
        if (node->shape.type == TYPE_F32 && !(node->flags & OPERATOR_LOSS) && node->id != OPERATOR_CAST &&
            (which == NARROW_ALL || alike || draw(&d, 0, 1) == 1))
            node->shape.type = TYPE_BF16;
    for (int i = 0; i < p->node->input_count; i++) p->type[i] = graph->nodes[p->node->inputs[i]].shape.type;
}

static inline void free_problem(struct problem *p) {
    for (int i = 0; i < GRAPH_INPUTS_MAX; i++) free(p->input[i]);
    for (int i = 0; i < GRAPH_PARAMETERS_MAX; i++) free(p->parameter[i]);
    free(p->output_gradient);
    free(p->target);
    graph_destroy(p->graph);
}

static inline void free_answer(struct answer *a) {
    free(a->output);
    for (int i = 0; i < GRAPH_INPUTS_MAX; i++) free(a->input_gradient[i]);
    for (int i = 0; i < GRAPH_PARAMETERS_MAX; i++) free(a->gradient[i]), free(a->statistic[i]);
}

static inline float *copy_floats(const float *from, int64_t count) {
    float *floats = new_floats(count);
    memcpy(floats, from, (size_t)count * sizeof *floats);
    return floats;
}

enum { BLOCKS = 2 * GRAPH_INPUTS_MAX + 32 };

/* A kernel with its blocks. */
struct bench {
    struct kernel *kernel;
    struct kernel_call call;
    float *blocks[BLOCKS]; /* all that was taken */
    int64_t block_bytes[BLOCKS];
    int block_count;
    float *gradient[GRAPH_PARAMETERS_MAX]; /* in the kernel's layout */
    double loss;
    int64_t correct, correct5;
};

static inline float *take(struct bench *bench, int64_t bytes) {
    assert_true(bench->block_count < BLOCKS);
    bench->block_bytes[bench->block_count] = bytes;
    return bench->blocks[bench->block_count++] = new_block(bytes);
}

static inline float *take_copy(struct bench *bench, const float *from, int64_t count) {
    float *block = take(bench, count * (int64_t)sizeof *from);
    memcpy(block, from, (size_t)count * sizeof *from);
    return block;
}

static inline float *take_numbers(struct bench *bench, enum number_type type, const float *from, int64_t count) {
    float *block = take(bench, count * (int64_t)number_types[type].bytes);
    put_numbers(type, count, block, from);
    return block;
}

static inline void set_up(struct bench *bench, struct device *device, const struct problem *p) {
    const struct kernel_class *class = device->type->kernels[p->node->id];
    memset(bench, 0, sizeof *bench);
    assert_ok(kernel_create(device, p->graph, p->node, p->samples, p->relu_follows, &bench->kernel, &test_error));
    assert_ptr_equal(bench->kernel->type, class);
    struct shape shape = p->node->shape;
    const int64_t images = (p->node->flags & OPERATOR_IMAGES) && p->node->input_count == 1 ? shape_take_image(&shape) : 0;
    assert_int_equal(bench->kernel->samples, p->samples * (images > 0 ? images : 1));
    struct kernel_call *call = &bench->call;
    call->error = &test_error;
    for (int i = 0; i < p->node->input_count; i++) call->input[i] = take_numbers(bench, p->type[i], p->input[i], p->inputs[i]);
    call->output = p->in_place ? bench->blocks[0] : take(bench, p->samples * shape_bytes(&p->node->shape));
    call->inner = take(bench, bench->kernel->inner_bytes);
    call->workspace = take(bench, bench->kernel->workspace_bytes);
    for (int i = 0; i < p->node->parameter_count; i++) {
        int64_t bytes = bench->kernel->parameter_bytes[i];
        if (p->statistic[i]) {
            assert_int_equal(bytes, p->parameters[i] * 4);
            call->statistics[i] = take_copy(bench, p->parameter[i], p->parameters[i]);
            continue;
        }
        assert_true(bytes >= p->parameters[i] * 4);
        float *own = take(bench, bytes);
        if (class->from_canonical != NULL)
            assert_ok(class->from_canonical(bench->kernel, i, p->parameter[i], own, &test_error));
        else
            memcpy(memset(own, 0, (size_t)bytes), p->parameter[i], (size_t)p->parameters[i] * sizeof *own);
        call->weights[i] =
            take_numbers(bench, p->graph->parameters[p->node->parameter_first + i].copy, own, bytes / (int64_t)sizeof *own);
        bench->gradient[i] = take(bench, bytes);
    }
    call->target = p->target;
    call->counted = p->counted;
    call->gradient_scale = 0.25f;
    call->training = call->update_statistics = p->training;
    call->key = p->key;
    call->loss = &bench->loss;
    call->correct = &bench->correct;
    call->correct5 = &bench->correct5;
}

static inline void tear_down(struct bench *bench) {
    kernel_destroy(bench->kernel);
    for (int i = 0; i < bench->block_count; i++) {
        const unsigned char *guard = (unsigned char *)bench->blocks[i] + memory_align((size_t)bench->block_bytes[i]);
        assert_int_equal(guard[0], 0xff);
        assert_memory_equal(guard, guard + 1, guard_of(bench->block_bytes[i]) - 1);
        free(bench->blocks[i]);
    }
}

static inline void run_forward(struct bench *bench, const struct problem *p, struct answer *answer) {
    assert_ok(kernel_run(bench->kernel, KERNEL_FORWARD, &bench->call));
    answer->output = get_numbers(p->node->shape.type, p->output, bench->call.output);
    for (int64_t i = 0; i < p->output && p->relu_follows; i++) {
        if (bench->kernel->fuses_relu)
            assert_true(answer->output[i] >= 0);
        else if (answer->output[i] < 0)
            answer->output[i] = 0;
    }
    for (int i = 0; i < p->node->parameter_count; i++) {
        if (p->statistic[i]) answer->statistic[i] = copy_floats(bench->call.statistics[i], p->parameters[i]);
    }
    answer->loss = bench->loss;
    answer->correct = bench->correct;
    answer->correct5 = bench->correct5;
}

/* Takes away what the operator says that its backward does not read, as a stage does. */
static inline void hide_unread(struct bench *bench, const struct problem *p) {
    for (int i = 0; i < p->node->input_count; i++)
        if (!node_keeps_input(p->graph, p->node, i)) bench->call.input[i] = NULL;
    if (!(p->node->flags & OPERATOR_USES_OUTPUT)) bench->call.output = NULL;
}

static inline void run_backward(struct bench *bench, const struct problem *p, struct answer *answer) {
    const struct kernel_class *class = bench->kernel->type;
    struct kernel_call *call = &bench->call;
    bool trained = false;
    for (int i = 0; i < p->node->parameter_count; i++)
        trained |= p->graph->parameters[p->node->parameter_first + i].role == PARAMETER_TRAINED;
    hide_unread(bench, p);
    float *output_gradient = take_numbers(bench, p->node->shape.type, p->output_gradient, p->output);
    if (!(p->node->flags & OPERATOR_LOSS)) call->output_gradient = output_gradient;
    if (kernel_has(bench->kernel, KERNEL_BACKWARD_SHARED)) assert_ok(kernel_run(bench->kernel, KERNEL_BACKWARD_SHARED, call));
    if (kernel_has(bench->kernel, KERNEL_BACKWARD_WEIGHT) && trained) {
        memcpy(call->gradients, bench->gradient, sizeof call->gradients);
        assert_ok(kernel_run(bench->kernel, KERNEL_BACKWARD_WEIGHT, call));
        memset(call->gradients, 0, sizeof call->gradients);
    }
    for (int i = 0; i < p->node->input_count; i++) {
        if (p->type[i] == TYPE_I32) continue;
        call->input_gradient[i] =
            p->in_place && i == 0 ? output_gradient : take(bench, p->inputs[i] * (int64_t)number_types[p->type[i]].bytes);
    }
    bool has_input = false;
    for (int i = 0; i < p->node->input_count && kernel_has(bench->kernel, KERNEL_BACKWARD_INPUT); i++)
        has_input |= call->input_gradient[i] != NULL && p->node->shape.type != TYPE_I32;
    if (has_input) assert_ok(kernel_run(bench->kernel, KERNEL_BACKWARD_INPUT, call));
    for (int i = 0; i < p->node->input_count && has_input; i++) {
        if (call->input_gradient[i] == NULL) continue;
        answer->input_gradient[i] = get_numbers(p->type[i], p->inputs[i], call->input_gradient[i]);
    }
    for (int i = 0; i < p->node->parameter_count; i++) {
        if (p->statistic[i] || !trained) continue;
        answer->gradient[i] = new_floats(p->parameters[i]);
        if (class->to_canonical != NULL) {
            assert_ok(class->to_canonical(bench->kernel, i, bench->gradient[i], answer->gradient[i], &test_error));
        } else {
            memcpy(answer->gradient[i], bench->gradient[i], (size_t)p->parameters[i] * 4);
        }
    }
}

static inline struct answer solve(struct device *device, const struct problem *p) {
    struct bench bench;
    struct answer answer = {0};
    set_up(&bench, device, p);
    run_forward(&bench, p, &answer);
    if (p->training) run_backward(&bench, p, &answer);
    tear_down(&bench);
    return answer;
}

#endif
