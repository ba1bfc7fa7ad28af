/*
 * Every kernel of every device that computes numbers, on random shapes, against `reference` (which test_compute_derivatives.c
 * checks). One list of cases serves all: a new device or a new case is tested unasked.
 */

#include <math.h>

#include "chain.h"
#include "compute/resize.h"
#include "kernel_bench.h"
#include "within.h"

/* What differences between numbers are measured against: the largest of them, or `least`. */
struct tolerance {
    double forward, backward, least;
};
/* Data are of about 1: sums in float lose what is small beside. */
static const struct tolerance of_floats = {2e-5, 1e-4, 0.05};

static void assert_close(const char *what, const char *name, uint64_t number, const float *wanted, const float *got,
                         int64_t count, double tolerance, double least) {
    double largest = least;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)wanted[i]));
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs((double)got[i] - (double)wanted[i]);
        if (difference <= tolerance * largest) continue;
        fail_msg("%s, case %llu: %s[%lld] is %g, not %g (largest %g)", name, (unsigned long long)number, what, (long long)i,
                 (double)got[i], (double)wanted[i], largest);
    }
}

static void compare_within(const char *name, uint64_t number, const struct problem *p, const struct answer *wanted,
                           const struct answer *got, struct tolerance within) {
    const double backward = within.backward, least = within.least;
    assert_close("output", name, number, wanted->output, got->output, p->output, within.forward, least);
    assert_int_equal(got->correct, wanted->correct);
    assert_int_equal(got->correct5, wanted->correct5);
    assert_true(got->correct5 >= got->correct);
    assert_true(fabs(got->loss - wanted->loss) <= 1e-5 * (1 + fabs(wanted->loss)));
    for (int i = 0; i < p->node->parameter_count; i++) {
        if (p->statistic[i])
            assert_close("statistic", name, number, wanted->statistic[i], got->statistic[i], p->parameters[i], 2e-5, 0.05);
        else if (wanted->gradient[i] != NULL)
            assert_close("gradient", name, number, wanted->gradient[i], got->gradient[i], p->parameters[i], backward, least);
    }
    for (int i = 0; i < p->node->input_count && p->training; i++) {
        assert_int_equal(wanted->input_gradient[i] == NULL, got->input_gradient[i] == NULL);
        if (wanted->input_gradient[i] == NULL) continue;
        assert_close("input gradient", name, number, wanted->input_gradient[i], got->input_gradient[i], p->inputs[i], backward,
                     least);
    }
}

static void compare(const char *name, uint64_t number, const struct problem *p, const struct answer *wanted,
                    const struct answer *got) {
    compare_within(name, number, p, wanted, got, of_floats);
}

static void compare_case(struct device *device, struct device *reference, const struct test_case *which, uint64_t first,
                         uint64_t repeats) {
    char name[96];
    snprintf(name, sizeof name, "%s on %s", which->name, device->type->name);
    for (uint64_t number = first; number < first + repeats; number++) {
        struct problem p = make_problem(which, number);
        for (int training = 1; training >= 0; training--) {
            p.training = training == 1;
            struct answer wanted = solve(reference, &p), got = solve(device, &p), again = solve(device, &p);
            compare(name, number, &p, &wanted, &got);
            assert_memory_equal(got.output, again.output, (size_t)p.output * 4);
            free_answer(&wanted);
            free_answer(&got);
            free_answer(&again);
        }
        free_problem(&p);
    }
}

static void test_devices_agree(void **state) {
    (void)state;
    struct device *reference = chain_device("reference");
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i]) || device_table[i] == reference->type) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) compare_case(device, reference, &cases[c], c * 100, REPEATS);
        device_close(device);
    }
    device_close(reference);
}

/* Loops that three threads share. */
static void test_threads_agree(void **state) {
    (void)state;
    struct device *reference = chain_device("reference"), *device;
    assert_ok(device_open("cpu", &(struct device_options){.threads = 3}, &device, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) compare_case(device, reference, &cases[c], c * 100 + 50, 4);
    device_close(device);
    device_close(reference);
}

/* In a network of precision bf16 every kernel gives what `reference` computes in f32 of the same rounded numbers, rounded: a
 * number of 8 bits is off by 2^-8 of itself at most. A forward rounds its result, and something on the way where it multiplies
 * twice (the weights of an attention, the states of a recurrent layer); a backward reads something that the forward rounded
 * besides. In sums of products these errors average out. What an attention averages may be larger than the mean, and its
 * rounded weights leave an error of that. A recurrent layer also rounds, at each position, what goes back from its gates to the
 * position before, which weighs half as much there at most: two more of these errors in all. */
static void compare_bf16(struct device *device, struct device *reference, const struct test_case *which, uint64_t number) {
    for (enum narrowed narrowed = NARROW_NONE; narrowed <= NARROW_SOME; narrowed++) {
        struct problem wide = make_problem(which, number), p = make_problem(which, number);
        round_problem(&wide);
        round_problem(&p);
        narrow_problem(&p, narrowed, number);
        struct answer wanted = solve(reference, &wide), got = solve(device, &p);
        char name[96];
        snprintf(name, sizeof name, "%s in %s on %s", which->name, narrowed_names[narrowed], device->type->name);
        const double least = p.node->id == OPERATOR_ATTENTION ? 1 : 0.05;
        const int roundings = p.node->id == OPERATOR_LSTM || p.node->id == OPERATOR_GRU ? 5 : 3;
        compare_within(name, number, &p, &wanted, &got, (struct tolerance){2 * 0x1p-8, roundings * 0x1p-8, least});
        free_answer(&wanted);
        free_answer(&got);
        free_problem(&wide);
        free_problem(&p);
    }
}

static void test_bf16_agrees(void **state) {
    (void)state;
    struct device *reference = chain_device("reference");
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i])) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
            for (uint64_t r = 0; r < 3; r++) compare_bf16(device, reference, &cases[c], c * 100 + r);
        device_close(device);
    }
    device_close(reference);
}

/* The problem with all its samples as the images of one. */
static struct problem in_one_sample(const struct problem *p) {
    struct problem made = *p;
    struct shape shape = p->graph->nodes[p->node->inputs[0]].shape;
    shape_repeat_image(&shape, p->samples);
    struct attributes images = {.type = shape.type, .sides = {.count = 4}};
    for (int d = 0; d < 4; d++) images.sides.at[d] = (int)shape.dim[d];
    made.graph = graph_create();
    int node = graph_add(made.graph, OPERATOR_INPUT, "images", &images, NULL, 0, &test_error);
    node = graph_add_copy(made.graph, p->graph, p->node, &p->node->attributes, &node, &test_error);
    if (p->relu_follows) graph_add(made.graph, OPERATOR_RELU, "relu", NULL, &node, 1, &test_error);
    assert_ok(graph_finish(made.graph, &test_error));
    made.node = &made.graph->nodes[node];
    made.samples = 1;
    assert_int_equal(shape_elements(&made.node->shape), p->output);
    assert_within(node_flops(made.graph, &made.graph->nodes[node]),
                  p->samples * node_flops(p->graph, &p->graph->nodes[p->node - p->graph->nodes]), 0);
    return made;
}

/* Several images, or sequences, of a sample: the bits of so many samples, in f32 and in bf16. */
static void test_images_of_a_sample(void **state) {
    (void)state;
    int checked = 0;
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i])) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            for (uint64_t r = 0; r < 6; r++) {
                struct problem p = make_problem(&cases[c], c * 100 + r);
                if ((p.node->flags & OPERATOR_IMAGES) && p.node->input_count == 1) {
                    struct problem q = in_one_sample(&p);
                    for (int narrow = 0; narrow < 2; narrow++) {
                        if (narrow == 1) narrow_problem(&p, NARROW_ALL, 0), narrow_problem(&q, NARROW_ALL, 0);
                        struct answer wanted = solve(device, &p), got = solve(device, &q);
                        assert_memory_equal(got.output, wanted.output, (size_t)p.output * sizeof(float));
                        assert_memory_equal(got.input_gradient[0], wanted.input_gradient[0],
                                            (size_t)p.inputs[0] * sizeof(float));
                        for (int t = 0; t < p.node->parameter_count; t++)
                            assert_memory_equal(got.gradient[t], wanted.gradient[t], (size_t)p.parameters[t] * sizeof(float));
                        free_answer(&wanted);
                        free_answer(&got);
                        checked++;
                    }
                    graph_destroy(q.graph);
                }
                free_problem(&p);
            }
        }
        device_close(device);
    }
    assert_true(checked > 200);
}

/* So many scores that they are computed in parts, whose dropout begins in the middle of a group of random numbers. */
static int case_large_attention(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = 4, .rate = 0.1f * (float)draw(d, 0, 2), .causal = draw(d, 0, 1) == 1};
    int x = build_input(b, 3 * 4 * 8, 190 + draw(d, 0, 20), 1);
    draw_heads(d, &a);
    return add_one(b, OPERATOR_ATTENTION, &a, x);
}

/* Values of several pieces, of which the last is shorter. */
static int case_large_image(struct builder *b, struct draw *d) {
    static const enum operator_id ids[] = {OPERATOR_BATCH_NORM, OPERATOR_GROUP_NORM, OPERATOR_LAYER_NORM,
                                           OPERATOR_GELU,       OPERATOR_DROPOUT,    OPERATOR_SOFTMAX};
    struct attributes a = {.epsilon = 1e-5f, .momentum = 0.1f, .groups = 1, .weight = true, .bias = true, .rate = 0.3f};
    return add_one(b, ids[draw(d, 0, 5)], &a, build_input(b, draw(d, 40, 90), draw(d, 20, 30), draw(d, 9, 13)));
}

/* So many channels that convolutions are products of matrices, for small images wholly and for larger ones partly. */
static int case_many_channels(struct builder *b, struct draw *d) {
    struct attributes a = draw_wide_window(d);
    if (draw(d, 0, 2) == 0) a.stride_h = a.stride_w = 1;
    if (draw(d, 0, 2) == 0) a.kernel_h = a.kernel_w = 1, a.pad_h = a.pad_w = a.pad_extra_h = a.pad_extra_w = 0;
    a.channels = draw(d, 32, 70);
    a.bias = draw(d, 0, 1) == 1;
    const int side = draw(d, 0, 1) == 0 ? 3 : 11,
              x = build_input(b, draw(d, 32, 70), draw(d, 5, 5 + side), draw(d, 7, 5 + side)),
              node = add_one(b, OPERATOR_CONVOLUTION, &a, x);
    if (draw(d, 0, 1) == 0) build_relu(b, node, "relu");
    return node;
}

/* Products that sum 63 numbers: oneDNN 2.6 ends some of them by an illegal instruction. */
static int case_sixty_three(struct builder *b, struct draw *d) {
    const bool input = draw(d, 0, 1) == 1;
    struct attributes a = {.channels = input ? draw(d, 1, 60) : 63, .bias = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, input ? 63 : draw(d, 1, 60), draw(d, 60, 150), 1));
}

static void test_bf16_large(void **state) {
    (void)state;
    static const struct test_case large[] = {{"large attention", case_large_attention, false},
                                             {"large image", case_large_image, false},
                                             {"many channels", case_many_channels, false},
                                             {"sums of 63", case_sixty_three, false}};
    struct device *reference = chain_device("reference"), *device = chain_device("cpu");
    for (uint64_t r = 0; r < 16; r++) compare_bf16(device, reference, &large[r % 4 != 0], 91000 + r);
    for (uint64_t r = 0; r < 32; r++) compare_bf16(device, reference, &large[2], 92000 + r);
    for (uint64_t r = 0; r < 32; r++) compare_bf16(device, reference, &large[3], 94000 + r);
    device_close(device);
    device_close(reference);
}

/* Kernels that skip pixels, with few channels: oneDNN 2.6 has kernels for them that are wrong, on one thread or on two. */
static int case_skipped(struct builder *b, struct draw *d) {
    struct attributes a = {.kernel_h = 1, .kernel_w = draw(d, 0, 2) == 0 ? draw(d, 2, 3) : 1, .stride_h = draw(d, 1, 3)};
    a.stride_w = draw(d, 1, 3);
    a.groups = draw(d, 0, 3) == 0 ? 2 : 1;
    a.channels = a.groups * draw(d, 1, 40);
    a.bias = draw(d, 0, 1) == 1;
    return add_one(b, OPERATOR_CONVOLUTION, &a, build_input(b, a.groups * draw(d, 1, 20), draw(d, 5, 24), draw(d, 5, 24)));
}

static void test_skipped_pixels(void **state) {
    (void)state;
    static const struct test_case skipped = {"skipped pixels", case_skipped, false};
    struct device *reference = chain_device("reference");
    for (int threads = 1; threads <= 2; threads++) {
        struct device *device = NULL;
        assert_ok(device_open("cpu", &(struct device_options){.threads = threads}, &device, &test_error));
        compare_case(device, reference, &skipped, 93000, 60);
        for (uint64_t r = 0; r < 60; r++) compare_bf16(device, reference, &skipped, 93000 + r);
        device_close(device);
    }
    device_close(reference);
}

/* What several nodes share lies in canonical order in all of them, whichever layout a device likes. */
static void test_shared_parameters(void **state) {
    (void)state;
    int checked = 0;
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i])) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct problem p = make_problem(&cases[c], c * 100);
            struct kernel *kernel;
            for (int t = 0; t < p.node->parameter_count; t++) p.graph->parameters[p.node->parameter_first + t].shared = true;
            if (kernel_create(device, p.graph, p.node, p.samples, false, &kernel, &test_error) == PS_OK) {
                for (int t = 0; t < p.node->parameter_count; t++, checked++) {
                    const struct parameter *parameter = &p.graph->parameters[p.node->parameter_first + t];
                    const size_t bytes = (size_t)shape_bytes(&parameter->shape);
                    if (parameter->role == PARAMETER_STATISTIC) continue;
                    assert_int_equal(kernel->parameter_bytes[t], bytes);
                    if (!kernel->type->from_canonical) continue;
                    float *canonical = new_block((int64_t)bytes), *own = new_block((int64_t)bytes);
                    for (size_t e = 0; e < bytes / sizeof(float); e++) canonical[e] = (float)e;
                    assert_ok(kernel->type->from_canonical(kernel, t, canonical, own, &test_error));
                    if (memcmp(canonical, own, bytes) != 0)
                        fail_msg("%s on %s: parameter %d lies in another order", cases[c].name, device->type->name, t);
                    free(canonical), free(own);
                }
                kernel_destroy(kernel);
            } else if (!strstr(test_error.message, "shares its weights")) {
                fail_msg("%s on %s: %s", cases[c].name, device->type->name, test_error.message);
            }
            free_problem(&p);
        }
        device_close(device);
    }
    assert_true(checked > 30);
}

/* So many rows and features that the forward is a plain product in pieces. */
enum { WIDE_ROWS = 256, WIDE_FEATURES = 1024 };

static int build_wide(struct builder *b, struct draw *d, bool bias, bool transposed) {
    struct attributes a = {.channels = WIDE_FEATURES + draw(d, 1, 2 * WIDE_FEATURES), .bias = bias, .transposed = transposed};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, draw(d, 1, 5), WIDE_ROWS, 1));
}

static int case_wide(struct builder *b, struct draw *d) { return build_wide(b, d, draw(d, 0, 1) == 1, false); }

static int case_wide_relu(struct builder *b, struct draw *d) {
    int node = build_wide(b, d, true, false);
    build_relu(b, node, "relu");
    return node;
}

static int case_wide_relu_alone(struct builder *b, struct draw *d) {
    int node = build_wide(b, d, false, false);
    build_relu(b, node, "relu");
    return node;
}

/* Their weights lie by columns in memory, too. */
static int case_wide_shared(struct builder *b, struct draw *d) {
    int node = build_wide(b, d, draw(d, 0, 1) == 1, true);
    b->graph->parameters[b->graph->nodes[node].parameter_first].shared = true;
    return node;
}

/* Few rows, and sides for which oneDNN's plain product likes its weights by columns. */
static int case_wide_few(struct builder *b, struct draw *d) {
    struct attributes a = {.channels = 2 * WIDE_FEATURES, .bias = draw(d, 0, 1) == 1};
    return add_one(b, OPERATOR_LINEAR, &a, build_input(b, WIDE_FEATURES, 0, 0));
}

static void test_wide_linear(void **state) {
    (void)state;
    static const struct test_case wide[] = {{"wide linear", case_wide, false},
                                            {"wide linear with bias and relu", case_wide_relu, false},
                                            {"wide linear with relu alone", case_wide_relu_alone, false},
                                            {"wide linear, shared and transposed", case_wide_shared, false},
                                            {"wide linear of few rows", case_wide_few, false}};
    struct device *reference = chain_device("reference"), *device = chain_device("cpu");
    for (size_t c = 0; c < sizeof wide / sizeof *wide; c++) compare_case(device, reference, &wide[c], 90000 + c * 100, 2);
    device_close(device);
    device_close(reference);
}

static int case_many_classes(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 32, 100), 0, 0));
}

static void compare_extremes(struct device *device, struct device *reference, const struct test_case *which, uint64_t number) {
    struct problem p = make_problem(which, number);
    for (int64_t e = 0; e < p.inputs[0]; e++)
        if (random_below(p.key, (uint64_t)e, 12) == 0) p.input[0][e] *= 300;
    struct answer wanted = solve(reference, &p), got = solve(device, &p);
    compare(which->name, number, &p, &wanted, &got);
    free_answer(&wanted);
    free_answer(&got);
    free_problem(&p);
}

/* Numbers whose exponential no float holds, anywhere in a row: what is subtracted first is the largest of all. */
static void test_extremes(void **state) {
    (void)state;
    static const struct test_case many = {"many classes", case_many_classes, false};
    struct device *reference = chain_device("reference");
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i]) || device_table[i] == reference->type) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (uint64_t r = 0; r < 20; r++) compare_extremes(device, reference, &many, 91000 + r);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct problem p = make_problem(&cases[c], c * 100);
            const enum operator_id id = p.node->id;
            free_problem(&p);
            if (id != OPERATOR_SOFTMAX && id != OPERATOR_CROSS_ENTROPY) continue;
            for (uint64_t r = 20; r < 26; r++) compare_extremes(device, reference, &cases[c], c * 100 + r);
        }
        device_close(device);
    }
    device_close(reference);
}

/* Every operator that a device computes is in the list of cases, and `reference` computes all but those that nobody does. */
static void test_cases_complete(void **state) {
    (void)state;
    bool tested[OPERATOR_COUNT] = {[OPERATOR_INPUT] = true, [OPERATOR_OPAQUE] = true};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct problem p = make_problem(&cases[c], c * 100);
        tested[p.node->id] = true;
        free_problem(&p);
    }
    for (int id = 0; id < OPERATOR_COUNT; id++) {
        if (!(operator_get((enum operator_id)id)->flags & OPERATOR_SHARES_MEMORY)) assert_true(tested[id]);
    }
}

/* A gradient that nobody needs is not computed. */
static void test_unwanted_gradients(void **state) {
    (void)state;
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i])) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct problem p = make_problem(&cases[c], c * 100 + 3);
            struct bench bench;
            struct answer answer = {0}, all = solve(device, &p);
            set_up(&bench, device, &p);
            run_forward(&bench, &p, &answer);
            int last = p.node->input_count - 1;
            while (last > 0 && all.input_gradient[last] == NULL) last--; /* tokens */
            if (last > 0) {
                hide_unread(&bench, &p);
                bench.call.output_gradient = take_numbers(&bench, p.node->shape.type, p.output_gradient, p.output);
                bench.call.input_gradient[last] = take(&bench, p.inputs[last] * (int64_t)number_types[p.type[last]].bytes);
                if (kernel_has(bench.kernel, KERNEL_BACKWARD_SHARED))
                    assert_ok(kernel_run(bench.kernel, KERNEL_BACKWARD_SHARED, &bench.call));
                assert_ok(kernel_run(bench.kernel, KERNEL_BACKWARD_INPUT, &bench.call));
                float *got = get_numbers(p.type[last], p.inputs[last], bench.call.input_gradient[last]);
                assert_memory_equal(got, all.input_gradient[last], (size_t)p.inputs[last] * sizeof *got);
                free(got);
            }
            tear_down(&bench);
            free_answer(&answer);
            free_answer(&all);
            free_problem(&p);
        }
        device_close(device);
    }
}

/* Casts round to the nearest number of their type, forwards and backwards, to the bit on every device. */
static void test_cast(void **state) {
    (void)state;
    int casts = 0;
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!device_table[i]->real || device_table[i]->memory) continue; /* its blocks are read here */
        struct device *device = chain_device(device_table[i]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct problem p = make_problem(&cases[c], c * 100 + 5);
            struct answer answer = {0};
            bool cast = p.node->id == OPERATOR_CAST && p.type[0] != TYPE_I32 && p.node->shape.type != TYPE_I32;
            if (cast) answer = solve(device, &p);
            for (int64_t e = 0; e < p.output && cast; e++) {
                /* What is given in bf16 was rounded before. */
                assert_within(answer.output[e], bf16_value(bf16_of(p.input[0][e])), 0);
                assert_within(answer.input_gradient[0][e], bf16_value(bf16_of(p.output_gradient[e])), 0);
            }
            casts += cast;
            free_answer(&answer);
            free_problem(&p);
        }
        device_close(device);
    }
    assert_true(casts >= 4);
}

/* A recurrent layer continues from the state with which it ended: two halves of a sequence give what the whole does. */
static int build_steps(struct builder *b, enum operator_id id, int steps) {
    struct attributes a = {.channels = 5};
    return add_one(b, id, &a, build_input(b, 4, steps, 1));
}

static int case_lstm_half(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_LSTM, 3); }
static int case_lstm_whole(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_LSTM, 6); }
static int case_gru_half(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_GRU, 3); }
static int case_gru_whole(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_GRU, 6); }

static void continue_halves(struct device *device, const struct problem *half, const struct problem *whole,
                            const struct answer *wanted) {
    struct bench bench;
    set_up(&bench, device, half);
    int64_t samples = half->samples, inputs = half->inputs[0] / samples, outputs = half->output / samples;
    int64_t states = samples * bench.kernel->state_floats;
    float *zeros = new_floats(states);
    bench.call.state = take_copy(&bench, zeros, states);
    for (int64_t part = 0; part < 2; part++) {
        for (int64_t n = 0; n < samples; n++)
            memcpy((float *)bench.call.input[0] + n * inputs, whole->input[0] + (2 * n + part) * inputs, (size_t)inputs * 4);
        struct answer got = {0};
        run_forward(&bench, half, &got);
        for (int64_t n = 0; n < samples; n++)
            assert_close("output", half->node->name, (uint64_t)part, wanted->output + (2 * n + part) * outputs,
                         got.output + n * outputs, outputs, of_floats.forward, of_floats.least);
        free_answer(&got);
    }
    free(zeros);
    tear_down(&bench);
}

static void test_states(void **state) {
    (void)state;
    static const struct test_case halves[] = {{"lstm, half", case_lstm_half, false}, {"gru, half", case_gru_half, false}},
                                  wholes[] = {{"lstm, whole", case_lstm_whole, false}, {"gru, whole", case_gru_whole, false}};
    struct device *reference = chain_device("reference");
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i])) continue;
        struct device *device = chain_device(device_table[i]->name);
        for (int c = 0; c < 2; c++) {
            struct problem half = make_problem(&halves[c], 7), whole = make_problem(&wholes[c], 7);
            assert_int_equal(half.samples, whole.samples);
            half.training = whole.training = false;
            struct answer wanted = solve(reference, &whole);
            continue_halves(device, &half, &whole, &wanted);
            free_answer(&wanted);
            free_problem(&half), free_problem(&whole);
        }
        device_close(device);
    }
    device_close(reference);
}

/* Tokens are whole numbers of 32 bits: those that a float cannot tell apart are told apart. */
static void test_large_vocabulary(void **state) {
    (void)state;
    enum { POSITIONS = 4, VOCABULARY = (1 << 24) + POSITIONS };
    struct builder b = {graph_create(), &test_error};
    int index = build_embedding(&b, build_tokens(&b, POSITIONS), "node", VOCABULARY, 1);
    assert_ok(graph_finish(b.graph, &test_error));
    float *weights = new_block((int64_t)VOCABULARY * 4), *gradients = new_block((int64_t)VOCABULARY * 4);
    memset(weights, 0, (size_t)VOCABULARY * 4);
    int32_t *tokens = new_block(POSITIONS * 4);
    float *output = new_block(POSITIONS * 4), *output_gradient = new_block(POSITIONS * 4);
    for (int t = 0; t < POSITIONS; t++) {
        tokens[t] = (1 << 24) + t;
        weights[tokens[t]] = (float)(t + 1);
        output_gradient[t] = (float)(10 * (t + 1));
    }
    for (int i = 0; device_table[i] != NULL; i++) {
        if (!chain_computes(device_table[i])) continue;
        struct device *device = chain_device(device_table[i]->name);
        struct kernel *kernel;
        assert_ok(kernel_create(device, b.graph, &b.graph->nodes[index], 1, false, &kernel, &test_error));
        struct kernel_call call = {.input = {(const float *)(const void *)tokens},
                                   .output = output,
                                   .weights = {weights},
                                   .gradients = {gradients},
                                   .output_gradient = output_gradient,
                                   .error = &test_error};
        assert_ok(kernel_run(kernel, KERNEL_FORWARD, &call));
        assert_ok(kernel_run(kernel, KERNEL_BACKWARD_WEIGHT, &call));
        for (int t = 0; t < POSITIONS; t++) {
            assert_within(output[t], t + 1, 0);
            assert_within(gradients[tokens[t]], 10 * (t + 1), 0);
        }
        tokens[0] = VOCABULARY;
        assert_status(kernel_run(kernel, KERNEL_FORWARD, &call), PS_BAD_INPUT, "token 16777220 of sample 0 at position 0");
        tokens[0] = 1 << 24;
        kernel_destroy(kernel);
        device_close(device);
    }
    free(weights), free(gradients), free(tokens), free(output), free(output_gradient);
    graph_destroy(b.graph);
}

/* The pixels that PyTorch's interpolate takes (mode="nearest"), where a place computed more exactly is another's. */
static void test_nearest(void **state) {
    (void)state;
    static const struct {
        int64_t size, out;
        float scale; /* 0: only the size was said */
        int64_t index, pixel;
    } pixels[] = {
        {10, 24, 2.4f, 12, 5},  {12, 19, 1.6f, 8, 5}, {12, 19, 1.6f, 16, 10}, {80, 312, 3.9f, 39, 10},
        {8, 16, 2.105f, 12, 6}, {12, 74, 0, 37, 5},   {5, 5, 1.1f, 4, 4},
    };
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++) {
        const struct attributes a = {.mode = RESIZE_NEAREST,
                                     .coordinates = COORDINATES_ASYMMETRIC,
                                     .rounding = ROUNDING_FLOOR,
                                     .scale_h = pixels[i].scale};
        const struct resize_taps taps = resize_taps(&a, POOL_ROWS, pixels[i].size, pixels[i].out, pixels[i].index);
        assert_int_equal(taps.count, 1);
        if (taps.at[0] != pixels[i].pixel)
            fail_msg("%lld to %lld, by %g: pixel %lld is %lld of the input", (long long)pixels[i].size,
                     (long long)pixels[i].out, (double)pixels[i].scale, (long long)pixels[i].index, (long long)taps.at[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases_complete),
        cmocka_unit_test(test_devices_agree),
        cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_bf16_agrees),
        cmocka_unit_test(test_images_of_a_sample),
        cmocka_unit_test(test_bf16_large),
        cmocka_unit_test(test_skipped_pixels),
        cmocka_unit_test(test_shared_parameters),
        cmocka_unit_test(test_wide_linear),
        cmocka_unit_test(test_unwanted_gradients),
        cmocka_unit_test(test_cast),
        cmocka_unit_test(test_large_vocabulary),
        cmocka_unit_test(test_states),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
