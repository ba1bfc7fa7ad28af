/* Stages on every device that computes numbers: sizes, dropout, labels, parameters; and the clock. */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "stage_support.h"
#include "within.h"

/* ------------------------------------------------------------------- sizes */

/* A copy has nothing of what it was made from. */
static void copy_ties(struct arena *arena, struct ties *ties) {
    struct arena own = {0};
    struct ties copy;
    assert_ok(ties_copy(ties, &own, &copy, &test_error));
    assert_int_equal(copy.count, ties->count);
    for (int t = 0; t < ties->count; t++) {
        const struct tie *tie = &ties->list[t];
        assert_null(copy.list[t].parameter);
        assert_ptr_not_equal(copy.list[t].layers, tie->layers);
        assert_memory_equal(copy.list[t].layers, tie->layers, (size_t)tie->uses * sizeof *tie->layers);
    }
    arena_release(arena);
    *arena = own;
    *ties = copy;
}

static void check_sizes(struct device *device, const struct graph *graph, int samples) {
    struct layer_sizes *layers = calloc((size_t)graph->layer_count, sizeof *layers);
    assert_non_null(layers);
    int64_t input_bytes = 0;
    assert_ok(stage_layer_sizes(device, graph, samples, layers, &input_bytes, &test_error));
    struct arena arena = {0};
    struct ties ties;
    assert_ok(ties_find(graph, &arena, &ties, &test_error));
    copy_ties(&arena, &ties);
    for (int first = 0; first < graph->layer_count; first++) {
        for (int last = first; last < graph->layer_count; last++) {
            struct stage *stage = NULL;
            assert_ok(stage_create(device, graph, first, last, samples, &stage, &test_error));
            struct stage_sizes made = stage_sizes(stage);
            struct stage_sizes composed = stage_sizes_compose(layers, graph->layer_count, &ties, input_bytes, first, last);
            if (ties_are_ends(&ties, graph->layer_count)) { /* then the layers say it, too */
                const struct stage_sizes ends = stage_sizes_compose(layers, graph->layer_count, NULL, input_bytes, first, last);
                assert_memory_equal(&ends, &composed, sizeof ends);
            }
            assert_int_equal(made.parameter_bytes, composed.parameter_bytes);
            assert_int_equal(made.repeated_gradient_bytes, composed.repeated_gradient_bytes);
            assert_int_equal(made.tied_bytes, composed.tied_bytes);
            assert_int_equal(made.statistics_bytes, composed.statistics_bytes);
            assert_int_equal(made.fixed_bytes, composed.fixed_bytes);
            assert_int_equal(made.input_bytes, composed.input_bytes);
            assert_int_equal(made.output_bytes, composed.output_bytes);
            assert_int_equal(made.stash_bytes, composed.stash_bytes);
            assert_int_equal(made.delta_bytes, composed.delta_bytes);
            assert_int_equal(made.workspace_bytes, composed.workspace_bytes);
            stage_destroy(stage);
        }
    }
    arena_release(&arena);
    free(layers);
}

static void test_sizes_compose(void **state) {
    (void)state;
    static const char *const specs[] = {"lenet5",
                                        "alexnet",
                                        "vgg16,batch_norm=1",
                                        "resnet,blocks=2,input=12",
                                        "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1",
                                        "bert48,layers=1,width=16,heads=2,seq=12,vocab=13,tied=1",
                                        TEST_DIRECTORY "/networks/shared.json"};
    for (int d = 0; device_table[d] != NULL; d++) {
        struct device *device = chain_device(device_table[d]->name);
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            struct graph *graph = take_model(specs[i]);
            check_sizes(device, graph, 3);
            assert_true(graph_freeze(graph, "*.bias") > 0);
            check_sizes(device, graph, 3);
            graph_freeze(graph, "*wte*"); /* of the first and the last layer */
            graph_freeze(graph, "*.2.*");
            check_sizes(device, graph, 3);
            graph_destroy(graph);
        }
        for (int i = 0; i < 2; i++) {
            struct graph *graph = i == 0 ? tangle() : mixed();
            check_sizes(device, graph, 5);
            graph_destroy(graph);
        }
        device_close(device);
    }
}

/* LeNet-5's sizes counted by hand, for two samples on the reference device. */
static void test_sizes_by_hand(void **state) {
    (void)state;
    struct device *device = chain_device("reference");
    struct graph *graph = take_model("lenet5");
    struct layer_sizes layers[7];
    int64_t input_bytes = 0;
    assert_ok(stage_layer_sizes(device, graph, 2, layers, &input_bytes, &test_error));
    int64_t data = 2 * 28 * 28 * 4, conv1 = 2 * 6 * 28 * 28 * 4, pool1 = conv1 / 4, parameters = 640 + 64;
    assert_int_equal(input_bytes, data);
    assert_int_equal(layers[0].parameter_bytes, parameters); /* 150 and 6 floats, aligned */
    assert_int_equal(layers[0].output_bytes, conv1);
    assert_int_equal(layers[0].value_bytes, conv1);
    assert_int_equal(layers[0].stash_bytes, data);
    assert_int_equal(layers[0].tail_bytes, conv1);           /* the ReLU's backward reads it */
    assert_int_equal(layers[0].workspace_bytes, parameters); /* added weights' gradients */
    assert_int_equal(layers[1].parameter_bytes, 0);
    assert_int_equal(layers[1].stash_bytes, conv1 + pool1); /* its input, and which pixel won */
    assert_int_equal(layers[1].tail_bytes, 0);
    assert_int_equal(layers[1].workspace_bytes, 0);
    assert_int_equal(layers[6].output_bytes, 0);
    assert_int_equal(layers[6].stash_bytes, 704 + 128);           /* 2 x 84 floats, and 2 x 10 probabilities, aligned */
    assert_int_equal(layers[6].workspace_bytes, 128 + 3392 + 64); /* logits' gradient; weights, bias */
    struct stage_sizes middle = stage_sizes_compose(layers, 7, NULL, input_bytes, 1, 2);
    assert_int_equal(middle.input_bytes, conv1);
    int64_t conv2 = 2 * 16 * 10 * 10 * 4;
    assert_int_equal(middle.stash_bytes, pool1 + pool1 + conv2); /* winners, pooled values, and the tail of conv2 */
    assert_int_equal(middle.output_bytes, conv2);
    graph_destroy(graph);
    device_close(device);
}

/* A value in bf16 takes half the bytes wherever it lies: at a cut, and its gradient in the workspace. */
static void test_narrow_sizes(void **state) {
    (void)state;
    for (int d = 0; device_table[d] != NULL; d++) {
        struct device *device = chain_device(device_table[d]->name);
        struct graph *graph = mixed();
        struct layer_sizes layers[32];
        int64_t input_bytes = 0, full = 4 * 5 * 6 * 6 * 4, narrow = 1472; /* half of 2880, aligned */
        assert_true(graph->layer_count <= 32);
        assert_ok(stage_layer_sizes(device, graph, 4, layers, &input_bytes, &test_error));
        assert_int_equal(layers[0].output_bytes, full); /* conv1 with its ReLU */
        assert_string_equal(graph->layers[1].name, "half1");
        assert_int_equal(layers[1].output_bytes, narrow);
        assert_int_equal(layers[1].value_bytes, narrow);
        assert_string_equal(graph->layers[2].name, "full1");
        assert_int_equal(layers[2].output_bytes, full + narrow); /* half1 is read further on */
        assert_int_equal(layers[2].workspace_bytes, narrow);     /* a gradient to be added to another */
        assert_int_equal(graph_cut_bytes(graph, 2), 5 * 6 * 6 * 2);
        graph_destroy(graph);
        device_close(device);
    }
}

/* ------------------------------------------------------------------ dropout */

static double loss_of(struct chain *chain, const struct stage_step *step) { return chain_forward(chain, 0, step).loss; }

static void test_dropout_keys(void **state) {
    (void)state;
    struct device *device = chain_device("reference");
    struct graph *graph = tangle();
    struct chain *chain = chain_create(device, graph, 4, 1, NULL, 0);
    fill_data(chain);
    struct stage_step step = training_step(0), other = step;
    double loss = loss_of(chain, &step);
    assert_true(loss_of(chain, &step) == loss);
    other.seed++;
    assert_true(loss_of(chain, &other) != loss);
    other = step;
    other.step++;
    assert_true(loss_of(chain, &other) != loss);
    other = step;
    other.micro_batch++;
    assert_true(loss_of(chain, &other) != loss);
    other = step;
    other.training = other.update_statistics = false;
    double evaluated = loss_of(chain, &other);
    other.step++;
    assert_true(loss_of(chain, &other) == evaluated);
    chain_destroy(chain);
    graph_destroy(graph);
    device_close(device);
}

/* ------------------------------------------------------- loss and its labels */

static void check_short_batch_and_labels(struct device *device) {
    struct graph *graph = take_model("lenet5,input=12,classes=5");
    struct chain *chain = chain_create(device, graph, 4, 1, NULL, 0);
    fill_data(chain);
    struct stage_step step = training_step(0);
    step.training = step.update_statistics = false;
    double sum = 0;
    int64_t correct = 0;
    for (int n = 1; n <= 4; n++) {
        step.samples = n;
        struct stage_result result = chain_forward(chain, 0, &step);
        assert_true(result.loss > sum); /* each sample adds its own */
        assert_in_range(result.correct, correct, correct + 1);
        sum = result.loss;
        correct = result.correct;
    }
    step.samples = 0;
    assert_true(chain_forward(chain, 0, &step).loss == sum);

    int32_t wrong[4] = {0, 1, 5, -1};
    step.target = wrong;
    const struct stage_blocks *blocks = &chain->blocks[0][0];
    assert_status(stage_forward(chain->stages[0], blocks, &step, NULL, &test_error), PS_BAD_INPUT, "label 5 of sample 2");
    step.samples = 2; /* what does not count is not looked at */
    assert_ok(stage_forward(chain->stages[0], blocks, &step, NULL, &test_error));
    chain_destroy(chain);
    graph_destroy(graph);
}

static void test_short_batch_and_labels(void **state) {
    (void)state;
    on_real_devices(check_short_batch_and_labels);
}

/* ------------------------------------------------------------- parameters */

static void check_parameters(struct device *device) {
    struct graph *graph = tangle();
    int cut = 5;
    struct chain *whole = chain_create(device, graph, 4, 1, NULL, 0), *cut_chain = chain_create(device, graph, 4, 1, &cut, 1);
    const float *weights[1] = {whole->weights[0]}, *parts[2] = {cut_chain->weights[0], cut_chain->weights[1]};
    assert_int_equal(stage_parameter_count(whole->stages[0]), graph->parameter_count);
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = stage_parameter(whole->stages[0], p);
        assert_ptr_equal(parameter, &graph->parameters[p]);
        int64_t count = shape_elements(&parameter->shape);
        size_t bytes = (size_t)count * sizeof(float);
        float *values = malloc(bytes), *other = malloc(bytes);
        chain_export(whole, parameter->name, weights, values);
        chain_export(cut_chain, parameter->name, parts, other);
        assert_memory_equal(values, other, bytes); /* keyed by name, not by place */
        bool random = parameter->initial.kind == INITIAL_UNIFORM;
        for (int64_t i = 0; i < count; i++) {
            if (random)
                assert_true(fabsf(values[i]) <= parameter->initial.value);
            else
                assert_true(values[i] == parameter->initial.value);
        }
        for (int64_t i = 0; i < count; i++) other[i] = (float)(i + p);
        struct stage_blocks *blocks = &whole->blocks[0][0];
        assert_ok(stage_import(whole->stages[0], p, other, whole->weights[0], blocks->statistics, &test_error));
        chain_export(whole, parameter->name, weights, values);
        assert_memory_equal(values, other, bytes);
        free(values);
        free(other);
    }
    chain_destroy(whole);
    chain_destroy(cut_chain);
    graph_destroy(graph);
}

static void test_parameters(void **state) {
    (void)state;
    on_real_devices(check_parameters);
}

/* Normal initial values have the mean and the deviation that they should. */
static void test_normal_values(void **state) {
    (void)state;
    struct device *device = chain_device("reference");
    struct builder b = {graph_create(), &test_error};
    int fc = build_linear(&b, build_input(&b, 400, 0, 0), "fc", 100);
    graph_set_initial(b.graph, fc, 0, (struct initial){INITIAL_NORMAL, 0.5f});
    build_cross_entropy(&b, fc, "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    struct chain *chain = chain_create(device, b.graph, 1, 1, NULL, 0);
    double sum = 0, squares = 0;
    for (int i = 0; i < 40000; i++) {
        double value = (double)chain->weights[0][i];
        sum += value;
        squares += value * value;
    }
    assert_true(fabs(sum / 40000) < 5 * 0.5 / 200);
    assert_true(fabs(squares / 40000 - 0.25) < 0.01);
    chain_destroy(chain);
    graph_destroy(b.graph);
    device_close(device);
}

/* ------------------------------------------------------------- between operators */

struct laps {
    int count, layer, step; /* step: 1 while layers go up, -1 down */
};

static void lap(void *context, int layer) {
    struct laps *laps = context;
    assert_true(layer == laps->layer || layer == laps->layer + laps->step);
    laps->layer = layer;
    laps->count++;
}

/* Every operator says of which layer of the network it was, in the order in which layers run. */
static void test_between(void **state) {
    (void)state;
    struct ps_network *model;
    assert_ok(ps_network_open("resnet,input=16,blocks=1", &model, &test_error));
    struct device *device = chain_device("reference");
    int last = model->graph->layer_count - 1;
    struct chain *chain = chain_create(device, model->graph, 2, 1, NULL, 0);
    fill_data(chain);
    struct laps up = {.step = 1}, down = {.layer = last, .step = -1};
    struct stage_step step = training_step(0);
    step.between = lap;
    step.between_context = &up;
    chain_forward(chain, 0, &step);
    assert_int_equal(up.layer, last);
    assert_true(up.count > last);
    step.between_context = &down;
    chain_backward(chain, 0, &step);
    assert_int_equal(down.layer, 0);
    assert_true(down.count > last);
    chain_destroy(chain);
    device_close(device);
    ps_network_destroy(model);
}

/* -------------------------------------------------------------------- clock */

static void test_clock(void **state) {
    (void)state;
    struct device *device = chain_device("clock");
    struct graph *graph = graph_create();
    struct attributes data = {.value_bytes = 64};
    int node = graph_add(graph, OPERATOR_INPUT, "data", &data, NULL, 0, &test_error);
    struct attributes layer = {.time = {.forward_s = 1e-3,
                                        .backward_input_s = 2e-3,
                                        .backward_weight_s = 4e-3,
                                        .accumulate_s = 1e-3,
                                        .split_input_s = 32e-3,
                                        .split_s = 16e-3,
                                        .update_s = 8e-3,
                                        .update_predict_s = 9e-3,
                                        .predict_s = 3e-3},
                               .value_bytes = 128,
                               .parameter_bytes = 256,
                               .inner_bytes = 640};
    node = graph_add(graph, OPERATOR_OPAQUE, "a", &layer, &node, 1, &test_error);
    node = graph_add(graph, OPERATOR_OPAQUE, "b", &layer, &node, 1, &test_error);
    graph_add(graph, OPERATOR_OPAQUE, "c", &layer, &node, 1, &test_error);
    assert_ok(graph_finish(graph, &test_error));
    check_sizes(device, graph, 1);
    struct stage *stage = NULL;
    assert_ok(stage_create(device, graph, 0, 1, 1, &stage, &test_error));
    struct stage_sizes sizes = stage_sizes(stage);
    assert_int_equal(sizes.parameter_bytes, 2 * 256);
    assert_int_equal(sizes.input_bytes, 64);
    assert_int_equal(sizes.output_bytes, 128);
    assert_within(stage_times(stage).time.update_s, 16e-3, 1e-9);
    assert_within(stage_times(stage).time.update_predict_s, 18e-3, 1e-9);
    assert_within(stage_times(stage).time.predict_s, 6e-3, 1e-9);

    /* No memory is touched, nothing blocks before the end, and the end is not before its time. */
    struct stage_blocks nowhere = {0};
    struct stage_step step = {.accumulate = true};
    double before = clock_now();
    assert_ok(stage_initialize(stage, 1, NULL, NULL, NULL, &test_error));
    assert_ok(stage_forward(stage, &nowhere, &step, NULL, &test_error));
    assert_ok(stage_backward(stage, &nowhere, &step, STAGE_BOTH, &test_error));
    device->type->update(device, NULL, NULL, NULL, false, stage_times(stage).time.update_s);
    device_finish(device);
    double spent = clock_now() - before;
    assert_true(spent >= 2 * 8e-3 + 16e-3);

    /* By its own time: what a backward adds to gradients of before, and what its halves take longer apart. */
    double done = device_mark(device).time + 1;
    device_after(device, &(struct moment){.time = done});
    assert_ok(stage_backward(stage, &nowhere, &(struct stage_step){0}, STAGE_BOTH, &test_error));
    assert_within((device_mark(device).time - done), 2 * 6e-3, 1e-6);
    assert_ok(stage_backward(stage, &nowhere, &(struct stage_step){0}, STAGE_INPUT_SPLIT, &test_error));
    assert_within((device_mark(device).time - done), 2 * 40e-3, 1e-6);
    assert_ok(stage_backward(stage, &nowhere, &(struct stage_step){0}, STAGE_WEIGHTS_SPLIT, &test_error));
    assert_within((device_mark(device).time - done), 2 * 60e-3, 1e-6);
    assert_ok(stage_backward(stage, &nowhere, &step, STAGE_WEIGHTS_SPLIT, &test_error));
    assert_within((device_mark(device).time - done), 2 * 81e-3, 1e-6);
    stage_destroy(stage);
    graph_destroy(graph);
    device_close(device);
}

/* ----------------------------------------------------------------- refusals */

static void test_refusals(void **state) {
    (void)state;
    struct device *device = chain_device("reference");
    struct graph *graph = take_model("lenet5");
    struct stage *stage = NULL;
    assert_status(stage_create(device, graph, -1, 2, 4, &stage, &test_error), PS_USAGE, "layers 0 to 3");
    assert_status(stage_create(device, graph, 0, 2, (1 << 20) + 1, &stage, &test_error), PS_USAGE,
                  "micro-batch of 1048577 samples: from 1 to 1048576 are accepted");
    assert_status(stage_create(device, graph, 3, 2, 4, &stage, &test_error), PS_USAGE, "layers 4 to 3");
    assert_status(stage_create(device, graph, 3, 7, 4, &stage, &test_error), PS_USAGE, "the network has the layers 1 to 7");
    assert_status(stage_create(device, graph, 0, 2, 0, &stage, &test_error), PS_USAGE, "0 samples");
    graph_destroy(graph);

    struct builder b = {graph_create(), &test_error};
    build_relu(&b, build_input(&b, 1, 4, 4), "end");
    assert_ok(graph_finish(b.graph, &test_error));
    assert_status(stage_create(device, b.graph, 0, 0, 4, &stage, &test_error), PS_USAGE, "node 'end' (relu): only a loss");
    graph_destroy(b.graph);

    graph = graph_create();
    int node = graph_add(graph, OPERATOR_INPUT, "data", NULL, NULL, 0, &test_error);
    node = graph_add(graph, OPERATOR_OPAQUE, "a", NULL, &node, 1, &test_error);
    graph_add(graph, OPERATOR_OPAQUE, "b", NULL, &node, 1, &test_error);
    assert_ok(graph_finish(graph, &test_error));
    assert_status(stage_create(device, graph, 0, 0, 1, &stage, &test_error), PS_USAGE,
                  "device reference cannot compute node 'a' (opaque)");
    graph_destroy(graph);
    assert_null(stage);
    stage_destroy(NULL);
    device_close(device);
}

/* A NaN among the data passes a ReLU, alone and behind a norm or a sum: the loss shows it. */
static void check_nan(struct device *device) {
    for (int form = 0; form < 3; form++) {
        struct builder b = {graph_create(), &test_error};
        int node = build_input(&b, 2, 6, 6);
        if (form == 1) node = build_batch_norm(&b, node, "norm");
        if (form == 2) node = build_add(&b, node, node, "sum");
        node = build_flatten(&b, build_relu(&b, node, "relu"), "flatten");
        build_cross_entropy(&b, build_linear(&b, node, "fc", 5), "loss");
        assert_ok(graph_finish(b.graph, &test_error));
        struct chain *chain = chain_create(device, b.graph, 4, 1, NULL, 0);
        fill_data(chain);
        struct stage_step step = training_step(0);
        assert_true(isfinite(chain_forward(chain, 0, &step).loss));
        ((float *)chain->blocks[0][0].input)[7] = NAN;
        assert_true(isnan(chain_forward(chain, 0, &step).loss));
        chain_destroy(chain);
        graph_destroy(b.graph);
    }
}

static void test_nan(void **state) {
    (void)state;
    on_real_devices(check_nan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nan),           cmocka_unit_test(test_sizes_compose),
        cmocka_unit_test(test_sizes_by_hand), cmocka_unit_test(test_narrow_sizes),
        cmocka_unit_test(test_dropout_keys),  cmocka_unit_test(test_short_batch_and_labels),
        cmocka_unit_test(test_parameters),    cmocka_unit_test(test_normal_values),
        cmocka_unit_test(test_between),       cmocka_unit_test(test_clock),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
