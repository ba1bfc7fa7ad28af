/* Comparing the kernels of a device with those of `reference`: what the tests of devices share. */
#ifndef PENSTOCK_TESTS_KERNEL_COMPARE_H
#define PENSTOCK_TESTS_KERNEL_COMPARE_H

#include <math.h>

#include "chain.h"
#include "kernel_bench.h"

/* What differences between numbers are measured against: the largest of them, or `least`. */
struct tolerance {
    double forward, backward, least;
};
/* Data are of about 1: sums in float lose what is small beside. */
static const struct tolerance of_floats = {2e-5, 1e-4, 0.05};

static inline void assert_close(const char *what, const char *name, uint64_t number, const float *wanted, const float *got,
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

static inline void compare_within(const char *name, uint64_t number, const struct problem *p, const struct answer *wanted,
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

static inline void compare(const char *name, uint64_t number, const struct problem *p, const struct answer *wanted,
                           const struct answer *got) {
    compare_within(name, number, p, wanted, got, of_floats);
}

static inline void compare_case(struct device *device, struct device *reference, const struct test_case *which, uint64_t first,
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

/* In a network of precision bf16 every kernel gives what `reference` computes in f32 of the same rounded numbers, rounded: a
 * number of 8 bits is off by 2^-8 of itself at most. A forward rounds its result, and something on the way where it multiplies
 * twice (the weights of an attention, the states of a recurrent layer); a backward reads something that the forward rounded
 * besides. In sums of products these errors average out. What an attention averages may be larger than the mean, and its
 * rounded weights leave an error of that. */
static inline void compare_bf16(struct device *device, struct device *reference, const struct test_case *which,
                                uint64_t number) {
    for (enum narrowed narrowed = NARROW_NONE; narrowed <= NARROW_SOME; narrowed++) {
        struct problem wide = make_problem(which, number), p = make_problem(which, number);
        round_problem(&wide);
        round_problem(&p);
        narrow_problem(&p, narrowed, number);
        struct answer wanted = solve(reference, &wide), got = solve(device, &p);
        char name[96];
        snprintf(name, sizeof name, "%s in %s on %s", which->name, narrowed_names[narrowed], device->type->name);
        const double least = p.node->id == OPERATOR_ATTENTION ? 1 : 0.05;
        compare_within(name, number, &p, &wanted, &got, (struct tolerance){2 * 0x1p-8, 3 * 0x1p-8, least});
        free_answer(&wanted);
        free_answer(&got);
        free_problem(&wide);
        free_problem(&p);
    }
}

/* So many scores that they are computed in parts, whose dropout begins in the middle of a group of random numbers. */
static inline int case_large_attention(struct builder *b, struct draw *d) {
    struct attributes a = {.heads = 4, .rate = 0.1f * (float)draw(d, 0, 2), .causal = draw(d, 0, 1) == 1};
    int x = build_input(b, 3 * 4 * 8, 190 + draw(d, 0, 20), 1);
    draw_heads(d, &a);
    return add_one(b, OPERATOR_ATTENTION, &a, x);
}

/* Values of several pieces, of which the last is shorter. */
static inline int case_large_image(struct builder *b, struct draw *d) {
    static const enum operator_id ids[] = {OPERATOR_BATCH_NORM, OPERATOR_GROUP_NORM, OPERATOR_LAYER_NORM,
                                           OPERATOR_GELU,       OPERATOR_DROPOUT,    OPERATOR_SOFTMAX};
    struct attributes a = {.epsilon = 1e-5f, .momentum = 0.1f, .groups = 1, .weight = true, .bias = true, .rate = 0.3f};
    return add_one(b, ids[draw(d, 0, 5)], &a, build_input(b, draw(d, 40, 90), draw(d, 20, 30), draw(d, 9, 13)));
}

/* So many channels that convolutions are products of matrices, for small images wholly and for larger ones partly. */
static inline int case_many_channels(struct builder *b, struct draw *d) {
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

static inline int case_many_classes(struct builder *b, struct draw *d) {
    struct attributes a = {.smoothing = draw(d, 0, 1) == 1 ? 0.1f : 0};
    return add_one(b, OPERATOR_CROSS_ENTROPY, &a, build_input(b, draw(d, 32, 100), 0, 0));
}

static inline void compare_extremes(struct device *device, struct device *reference, const struct test_case *which,
                                    uint64_t number) {
    struct problem p = make_problem(which, number);
    for (int64_t e = 0; e < p.inputs[0]; e++)
        if (random_below(p.key, (uint64_t)e, 12) == 0) p.input[0][e] *= 300;
    struct answer wanted = solve(reference, &p), got = solve(device, &p);
    compare(which->name, number, &p, &wanted, &got);
    free_answer(&wanted);
    free_answer(&got);
    free_problem(&p);
}

/* A gradient that nobody needs is not computed. */
static inline void check_unwanted(struct device *device, const struct test_case *which, uint64_t number) {
    struct problem p = make_problem(which, number);
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
        float *got = fetch_numbers(&bench, p.type[last], p.inputs[last], bench.call.input_gradient[last]);
        assert_memory_equal(got, all.input_gradient[last], (size_t)p.inputs[last] * sizeof *got);
        free(got);
    }
    tear_down(&bench);
    free_answer(&answer);
    free_answer(&all);
    free_problem(&p);
}

/* A recurrent layer continues from the state with which it ended: two halves of a sequence give what the whole does. */
static inline int build_steps(struct builder *b, enum operator_id id, int steps) {
    struct attributes a = {.channels = 5};
    return add_one(b, id, &a, build_input(b, 4, steps, 1));
}

static inline int case_lstm_half(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_LSTM, 3); }
static inline int case_lstm_whole(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_LSTM, 6); }
static inline int case_gru_half(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_GRU, 3); }
static inline int case_gru_whole(struct builder *b, struct draw *d) { return (void)d, build_steps(b, OPERATOR_GRU, 6); }

static inline void continue_halves(struct device *device, const struct problem *half, const struct problem *whole,
                                   const struct answer *wanted) {
    struct bench bench;
    set_up(&bench, device, half);
    int64_t samples = half->samples, inputs = half->inputs[0] / samples, outputs = half->output / samples;
    int64_t states = samples * bench.kernel->state_floats;
    float *zeros = new_floats(states);
    bench.call.state = take_copy(&bench, zeros, states);
    for (int64_t part = 0; part < 2; part++) {
        for (int64_t n = 0; n < samples; n++)
            put_block(&bench, (float *)bench.call.input[0] + n * inputs, whole->input[0] + (2 * n + part) * inputs,
                      (size_t)inputs * 4);
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

static inline void check_states(struct device *device, struct device *reference) {
    static const struct test_case halves[] = {{"lstm, half", case_lstm_half, false}, {"gru, half", case_gru_half, false}},
                                  wholes[] = {{"lstm, whole", case_lstm_whole, false}, {"gru, whole", case_gru_whole, false}};
    for (int c = 0; c < 2; c++) {
        struct problem half = make_problem(&halves[c], 7), whole = make_problem(&wholes[c], 7);
        assert_int_equal(half.samples, whole.samples);
        half.training = whole.training = false;
        struct answer wanted = solve(reference, &whole);
        continue_halves(device, &half, &whole, &wanted);
        free_answer(&wanted);
        free_problem(&half), free_problem(&whole);
    }
}

#endif
