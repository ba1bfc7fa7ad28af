/*
 * Stages: that sizes add up as compute/sizes.h says, that no cut changes a bit of loss, gradients and statistics, that the
 * stash alone carries what the backward needs, and what a stage refuses.
 */
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "chain.h"
#include "graph/model.h"

static const int32_t labels[16] = {1, 0, 3, 2, 4, 1, 0, 2, 3, 1, 4, 2, 1, 0, 3, 2};

static struct stage_step training_step(int micro_batch) {
    return (struct stage_step){.seed = 5,
                               .step = 11,
                               .micro_batch = micro_batch,
                               .labels = labels + 4 * micro_batch,
                               .gradient_scale = 0.125f,
                               .training = true,
                               .update_statistics = true,
                               .accumulate = micro_batch > 0};
}

/* Everything at once: values read in several layers and twice in one, data read again further on, a value that crosses a cut
 * while its own layer changes it, concatenation of values of several layers, dropout and ReLU in and out of place. */
static struct graph *tangle(void) {
    struct builder b = {graph_create(), &test_error};
    int data = build_input(&b, 2, 6, 6);
    int conv1 = build_convolution(&b, data, "conv1", 5, 3, 1, 1, true);
    int relu1 = build_relu(&b, conv1, "relu1"); /* not in place: conv1 goes on */
    int conv2 = build_convolution(&b, relu1, "conv2", 5, 3, 1, 1, false);
    int norm2 = build_batch_norm(&b, conv2, "norm2");
    int relu2 = build_relu(&b, norm2, "relu2");
    int drop2 = build_dropout(&b, relu2, "drop2", 0.3f);
    int sum = graph_add(b.graph, OPERATOR_ADD, "sum", NULL, (const int[]){conv1, drop2, drop2, conv1}, 4, &test_error);
    int relu3 = build_relu(&b, sum, "relu3");
    int both = build_concat(&b, (const int[]){relu3, data, relu1}, 3, "both");
    int norm3 = build_batch_norm(&b, both, "norm3");
    int pool = build_max_pool(&b, norm3, "pool", 3, 2, 1);
    int drop3 = build_dropout(&b, pool, "drop3", 0.25f);
    int conv3 = build_convolution(&b, drop3, "conv3", 5, 1, 1, 0, true);
    int average = build_average_pool(&b, relu3, "average", 2, 2, 0); /* from further back */
    int last = build_add(&b, conv3, average, "last");
    int flat = build_flatten(&b, last, "flatten");
    int fc1 = build_linear(&b, flat, "fc1", 9);
    int relu4 = build_relu(&b, fc1, "relu4");
    int drop4 = build_dropout(&b, relu4, "drop4", 0.5f);
    int fc2 = build_linear(&b, drop4, "fc2", 9);
    int sum2 = build_add(&b, fc2, fc1 >= 0 ? drop4 : -1, "sum2");
    build_cross_entropy(&b, build_linear(&b, build_relu(&b, sum2, "relu5"), "fc3", 5), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

static struct graph *take_model(const char *spec) {
    struct ps_model *model = NULL;
    assert_ok(ps_model_create(spec, &model, &test_error));
    struct graph *graph = model->graph;
    model->graph = NULL;
    ps_model_destroy(model);
    return graph;
}

static void fill_data(struct chain *chain) {
    for (int m = 0; m < chain->micro_batches; m++) {
        struct random_key key = test_key(100 + (uint64_t)m);
        for (int64_t i = 0; i < chain->sizes[0].input_bytes / 4; i++) {
            chain->blocks[m][0].input[i] = 2 * random_uniform(key, (uint64_t)i) - 1;
        }
    }
}

/* ------------------------------------------------------------------- sizes */

static void check_sizes(struct device *device, const struct graph *graph, int samples) {
    struct layer_sizes *layers = calloc((size_t)graph->layer_count, sizeof *layers);
    assert_non_null(layers);
    int64_t input_bytes = 0;
    assert_ok(stage_layer_sizes(device, graph, samples, layers, &input_bytes, &test_error));
    for (int first = 0; first < graph->layer_count; first++) {
        for (int last = first; last < graph->layer_count; last++) {
            struct stage *stage = NULL;
            assert_ok(stage_create(device, graph, first, last, samples, &stage, &test_error));
            struct stage_sizes made = stage_sizes(stage);
            struct stage_sizes composed = stage_sizes_compose(layers, graph->layer_count, input_bytes, first, last);
            assert_int_equal(made.parameter_bytes, composed.parameter_bytes);
            assert_int_equal(made.statistics_bytes, composed.statistics_bytes);
            assert_int_equal(made.input_bytes, composed.input_bytes);
            assert_int_equal(made.output_bytes, composed.output_bytes);
            assert_int_equal(made.stash_bytes, composed.stash_bytes);
            assert_int_equal(made.delta_bytes, composed.delta_bytes);
            assert_int_equal(made.workspace_bytes, composed.workspace_bytes);
            stage_destroy(stage);
        }
    }
    free(layers);
}

static void test_sizes_compose(void **state) {
    (void)state;
    static const char *const specs[] = {"lenet5", "alexnet", "vgg16,batch_norm=1", "resnet,blocks=2,input=12"};
    for (int d = 0; device_table[d] != NULL; d++) {
        struct device *device = chain_device(device_table[d]->name);
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            struct graph *graph = take_model(specs[i]);
            check_sizes(device, graph, 3);
            graph_destroy(graph);
        }
        struct graph *graph = tangle();
        check_sizes(device, graph, 5);
        graph_destroy(graph);
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
    struct stage_sizes middle = stage_sizes_compose(layers, 7, input_bytes, 1, 2);
    assert_int_equal(middle.input_bytes, conv1);
    int64_t conv2 = 2 * 16 * 10 * 10 * 4;
    assert_int_equal(middle.stash_bytes, pool1 + pool1 + conv2); /* winners, pooled values, and the tail of conv2 */
    assert_int_equal(middle.output_bytes, conv2);
    graph_destroy(graph);
    device_close(device);
}

/* ------------------------------------------------------------------ no cut */

/* Two micro-batches in flight at once, both forwards before both backwards. */
static struct stage_result run_two(struct chain *chain) {
    fill_data(chain);
    struct stage_step steps[2] = {training_step(0), training_step(1)};
    struct stage_result first = chain_forward(chain, 0, &steps[0]), second = chain_forward(chain, 1, &steps[1]);
    chain_backward(chain, 0, &steps[0]);
    chain_backward(chain, 1, &steps[1]);
    return (struct stage_result){.loss = first.loss + second.loss,
                                 .correct = first.correct + second.correct,
                                 .correct5 = first.correct5 + second.correct5,
                                 .counted = first.counted + second.counted};
}

static float *exported(struct chain *chain, const struct parameter *parameter) {
    float *values = calloc((size_t)shape_elements(&parameter->shape), sizeof *values);
    assert_non_null(values);
    chain_export(chain, parameter->name, NULL, values);
    return values;
}

/* Gradients and statistics of two ways to cut the same work are the same bits. */
static void assert_same_bits(struct chain *whole, struct chain *cut, const char *what) {
    const struct graph *graph = whole->graph;
    for (int p = 0; p < graph->parameter_count; p++) {
        float *wanted = exported(whole, &graph->parameters[p]), *got = exported(cut, &graph->parameters[p]);
        int64_t count = shape_elements(&graph->parameters[p].shape);
        for (int64_t i = 0; i < count; i++) {
            assert_true(isfinite(wanted[i]));
            if (memcmp(&wanted[i], &got[i], sizeof *got) == 0) continue;
            fail_msg("%s on %s: %s[%lld] is %.9g, without cuts %.9g", what, whole->device->class->name,
                     graph->parameters[p].name, (long long)i, (double)got[i], (double)wanted[i]);
        }
        free(wanted);
        free(got);
    }
}

static void compare_cuts(struct chain *whole, struct stage_result wanted, const int *cuts, int count) {
    struct chain *cut = chain_create(whole->device, whole->graph, whole->samples, 2, cuts, count);
    struct stage_result got = run_two(cut);
    assert_true(memcmp(&got.loss, &wanted.loss, sizeof got.loss) == 0);
    assert_int_equal(got.correct, wanted.correct);
    char what[64];
    snprintf(what, sizeof what, "%d cuts, the first before layer %d", count, cuts[0]);
    assert_same_bits(whole, cut, what);
    chain_destroy(cut);
}

static void check_cuts(struct device *device, const struct graph *graph, uint64_t number) {
    struct chain *whole = chain_create(device, graph, 4, 2, NULL, 0);
    struct stage_result wanted = run_two(whole);
    assert_true(isfinite(wanted.loss) && wanted.loss > 0);
    int cuts[CHAIN_STAGES_MAX];
    for (int c = 1; c < graph->layer_count; c++) {
        compare_cuts(whole, wanted, &c, 1);
        cuts[c - 1] = c;
    }
    compare_cuts(whole, wanted, cuts, graph->layer_count - 1);
    for (uint64_t r = 0; r < 4; r++) {
        int count = 0;
        for (int c = 1; c < graph->layer_count; c++) {
            if (random_below(test_key(number + r), (uint64_t)c, 3) == 0) cuts[count++] = c;
        }
        if (count > 0) compare_cuts(whole, wanted, cuts, count);
    }
    chain_destroy(whole);
}

static void check_cuts_change_nothing(struct device *device) {
    static const char *const specs[] = {"lenet5,input=12,classes=5", "resnet,input=8,classes=5"};
    struct graph *graph = tangle();
    check_cuts(device, graph, 1000);
    graph_destroy(graph);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        graph = take_model(specs[i]);
        check_cuts(device, graph, 2000);
        graph_destroy(graph);
    }
}

static void test_cuts_change_nothing(void **state) {
    (void)state;
    on_real_devices(check_cuts_change_nothing);
}

/* Element `i` of stage `s` of a random direction in the space of all parameters. */
static double along(uint64_t direction, int s, int64_t i) {
    return 2 * (double)random_uniform(test_key(300 + direction * 50 + (uint64_t)s), (uint64_t)i) - 1;
}

/* The loss with all weights moved by `size` along the direction. */
static double moved_loss(struct chain *chain, const struct stage_step *step, uint64_t direction, double size) {
    float *kept[CHAIN_STAGES_MAX];
    for (int s = 0; s < chain->count; s++) {
        size_t bytes = (size_t)chain->sizes[s].parameter_bytes;
        kept[s] = malloc(bytes + 1);
        assert_non_null(kept[s]);
        memcpy(kept[s], chain->weights[s], bytes);
        for (size_t i = 0; i < bytes / 4; i++) chain->weights[s][i] += (float)(size * along(direction, s, (int64_t)i));
    }
    double loss = chain_forward(chain, 0, step).loss * (double)step->gradient_scale;
    for (int s = 0; s < chain->count; s++) {
        memcpy(chain->weights[s], kept[s], (size_t)chain->sizes[s].parameter_bytes);
        free(kept[s]);
    }
    return loss;
}

/* The gradient of the tangle is that of its loss: along random directions, all parameters at once. Where the loss has a kink
 * (ReLU, max pooling) within a step, a smaller step or one side alone still tells. */
static void test_whole_gradient(void **state) {
    (void)state;
    struct device *device = chain_device("reference");
    struct graph *graph = tangle();
    struct chain *chain = chain_create(device, graph, 4, 1, (const int[]){3, 5}, 2);
    fill_data(chain);
    struct stage_step step = training_step(0);
    double loss = chain_forward(chain, 0, &step).loss * (double)step.gradient_scale;
    chain_backward(chain, 0, &step);
    for (uint64_t direction = 0; direction < 5; direction++) {
        double slope = 0, nearest = INFINITY;
        for (int s = 0; s < chain->count; s++) {
            const float *gradients = chain->blocks[0][s].gradients;
            for (int64_t i = 0; i < chain->sizes[s].parameter_bytes / 4; i++) {
                bool padding = isnan(gradients[i]); /* nobody wrote it */
                if (!padding) slope += along(direction, s, i) * (double)gradients[i];
            }
        }
        for (double size = 4e-4; size > 2e-5; size /= 2) {
            double above = moved_loss(chain, &step, direction, size) - loss,
                   below = loss - moved_loss(chain, &step, direction, -size);
            nearest = fmin(nearest, fabs((above + below) / (2 * size) - slope));
            nearest = fmin(nearest, fmin(fabs(above / size - slope), fabs(below / size - slope)));
        }
        if (nearest > 2e-3 * (fabs(slope) + 1)) fail_msg("direction %d: slope %g, off by %g", (int)direction, slope, nearest);
    }
    chain_destroy(chain);
    graph_destroy(graph);
    device_close(device);
}

/* A forward run again from the kept input (a recomputation) rebuilds the stash and leaves the statistics alone. */
static void check_recomputation(struct device *device) {
    struct graph *graph = tangle();
    struct chain *once = chain_create(device, graph, 4, 1, (const int[]){4}, 1);
    struct chain *twice = chain_create(device, graph, 4, 1, (const int[]){4}, 1);
    fill_data(once);
    fill_data(twice);
    struct stage_step step = training_step(0), again = step;
    again.update_statistics = false;
    struct stage_result first = chain_forward(once, 0, &step);
    chain_forward(twice, 0, &step);
    for (int s = 0; s < 2; s++) poison(twice->blocks[0][s].stash, twice->sizes[s].stash_bytes);
    struct stage_result second = chain_forward(twice, 0, &again);
    assert_true(first.loss == second.loss);
    chain_backward(once, 0, &step);
    chain_backward(twice, 0, &again);
    assert_same_bits(once, twice, "recomputation");
    chain_destroy(once);
    chain_destroy(twice);
    graph_destroy(graph);
}

static void test_recomputation(void **state) {
    (void)state;
    on_real_devices(check_recomputation);
}

/* A backward writes its gradients, its stash, its workspace and the gradient that arrived, and nothing else; with that gradient
 * it may run again. */
static void check_backward_leaves_inputs_alone(struct device *device) {
    struct graph *graph = take_model("resnet,input=8,classes=5");
    int cut = 4; /* layer 3, an addition with its ReLU in place, ends the first stage */
    struct chain *chain = chain_create(device, graph, 4, 1, &cut, 1);
    fill_data(chain);
    struct stage_step step = training_step(0);
    chain_forward(chain, 0, &step);
    assert_ok(stage_backward(chain->stages[1], &chain->blocks[0][1], &step, STAGE_BOTH, &test_error));
    int64_t sizes[] = {chain->sizes[0].output_bytes, chain->sizes[0].parameter_bytes, chain->sizes[0].input_bytes};
    void *blocks[] = {chain->arriving[0][0], chain->weights[0], chain->blocks[0][0].input}, *kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = chain_take(chain, sizes[i]);
        memcpy(kept[i], blocks[i], (size_t)sizes[i]);
    }
    float *gradients = chain_take(chain, sizes[1]);
    assert_ok(stage_backward(chain->stages[0], &chain->blocks[0][0], &step, STAGE_BOTH, &test_error));
    for (int i = 1; i < 3; i++) assert_memory_equal(kept[i], blocks[i], (size_t)sizes[i]);
    memcpy(gradients, chain->blocks[0][0].gradients, (size_t)sizes[1]);
    memcpy(blocks[0], kept[0], (size_t)sizes[0]);
    assert_ok(stage_backward(chain->stages[0], &chain->blocks[0][0], &step, STAGE_BOTH, &test_error));
    assert_memory_equal(gradients, chain->blocks[0][0].gradients, (size_t)sizes[1]);
    chain_destroy(chain);
    graph_destroy(graph);
}

static void test_backward_leaves_inputs_alone(void **state) {
    (void)state;
    on_real_devices(check_backward_leaves_inputs_alone);
}

/* Gradients of two micro-batches add up: first written, then added to, one rounding for each element. */
static void check_accumulation(struct device *device) {
    struct graph *graph = tangle();
    struct chain *both = chain_create(device, graph, 4, 2, NULL, 0), *each = chain_create(device, graph, 4, 2, NULL, 0);
    run_two(both);
    fill_data(each);
    float *sums = calloc((size_t)each->sizes[0].parameter_bytes, 1);
    assert_non_null(sums);
    const float *gradients = each->blocks[0][0].gradients, *added = both->blocks[0][0].gradients;
    int64_t count = each->sizes[0].parameter_bytes / 4, compared = 0;
    for (int m = 0; m < 2; m++) {
        struct stage_step step = training_step(m);
        step.accumulate = false;
        chain_forward(each, m, &step);
        chain_backward(each, m, &step);
        for (int64_t i = 0; i < count; i++) sums[i] += gradients[i];
    }
    for (int64_t i = 0; i < count; i++) {
        bool padding = isnan(gradients[i]);
        if (padding) continue;
        assert_true(sums[i] == added[i]);
        compared++;
    }
    assert_true(compared > 500);
    free(sums);
    chain_destroy(both);
    chain_destroy(each);
    graph_destroy(graph);
}

static void test_accumulation(void **state) {
    (void)state;
    on_real_devices(check_accumulation);
}

/* Runs a half with the gradient that arrived for the whole, into blocks of its own. */
static void run_half(struct chain *chain, int s, struct stage_blocks *own, const void *arrived, enum stage_half half) {
    struct stage_step step = training_step(0);
    poison(own->workspace, chain->sizes[s].workspace_bytes);
    poison(own->input_gradient, chain->sizes[s].input_bytes);
    memcpy(own->output_gradient, arrived, (size_t)chain->sizes[s].output_bytes);
    assert_ok(stage_backward(chain->stages[s], own, &step, half, &test_error));
}

/* Each half of the backward of a layer, run alone, gives its half of what both give together. */
static void check_halves(struct device *device) {
    struct graph *graph = tangle();
    int cuts[CHAIN_STAGES_MAX];
    for (int c = 1; c < graph->layer_count; c++) cuts[c - 1] = c;
    struct chain *chain = chain_create(device, graph, 4, 1, cuts, graph->layer_count - 1);
    fill_data(chain);
    struct stage_step step = training_step(0);
    chain_forward(chain, 0, &step);
    for (int s = chain->count - 1; s >= 1; s--) {
        struct stage_blocks *whole = &chain->blocks[0][s], own = *whole;
        int64_t parameters = chain->sizes[s].parameter_bytes, inputs = chain->sizes[s].input_bytes;
        void *arrived = chain_take(chain, chain->sizes[s].output_bytes);
        own.gradients = chain_take(chain, parameters);
        own.input_gradient = chain_take(chain, inputs);
        own.output_gradient = chain_take(chain, chain->sizes[s].output_bytes);
        if (s < chain->count - 1) memcpy(arrived, whole->output_gradient, (size_t)chain->sizes[s].output_bytes);
        assert_ok(stage_backward(chain->stages[s], whole, &step, STAGE_BOTH, &test_error));
        run_half(chain, s, &own, arrived, STAGE_INPUT);
        assert_memory_equal(own.input_gradient, whole->input_gradient, (size_t)inputs);
        run_half(chain, s, &own, arrived, STAGE_WEIGHTS);
        assert_memory_equal(own.gradients, whole->gradients, (size_t)parameters);
    }
    chain_destroy(chain);
    graph_destroy(graph);
}

static void test_halves(void **state) {
    (void)state;
    on_real_devices(check_halves);
}

/* A half of the backward through all stages; what it may not rely on afterwards is gone. */
static void backward_apart(struct chain *chain, int m, enum stage_half half) {
    struct stage_step step = training_step(m);
    for (int s = chain->count - 1; s >= 0; s--) {
        assert_ok(stage_backward(chain->stages[s], &chain->blocks[m][s], &step, half, &test_error));
        poison(chain->blocks[m][s].workspace, chain->sizes[s].workspace_bytes);
        if (s < chain->count - 1) poison(chain->arriving[m][s], chain->sizes[s].output_bytes);
        if (half == STAGE_WEIGHTS_APART) poison(chain->blocks[m][s].delta, chain->sizes[s].delta_bytes);
    }
}

/* With the gradients of the weights later than those of the inputs, of another micro-batch in between, no bit changes. */
static void compare_apart(struct chain *whole, const int *cuts, int count) {
    struct chain *apart = chain_create(whole->device, whole->graph, whole->samples, 2, cuts, count);
    fill_data(apart);
    for (int m = 0; m < 2; m++) {
        struct stage_step step = training_step(m);
        chain_forward(apart, m, &step);
    }
    for (int m = 0; m < 2; m++) backward_apart(apart, m, STAGE_INPUT_APART);
    for (int m = 0; m < 2; m++) backward_apart(apart, m, STAGE_WEIGHTS_APART);
    assert_same_bits(whole, apart, "halves apart");
    chain_destroy(apart);
}

static void check_apart(struct device *device, struct graph *graph) {
    struct chain *whole = chain_create(device, graph, 4, 2, NULL, 0);
    run_two(whole);
    int cuts[CHAIN_STAGES_MAX];
    for (int c = 1; c < graph->layer_count; c++) cuts[c - 1] = c;
    compare_apart(whole, NULL, 0);
    compare_apart(whole, cuts, graph->layer_count - 1);
    for (int c = 1; c < graph->layer_count; c += 3) compare_apart(whole, &c, 1);
    chain_destroy(whole);
    graph_destroy(graph);
}

/* Layers whose two halves of the backward share work. */
static struct graph *recurrent(void) {
    struct builder b = {graph_create(), &test_error};
    struct attributes first = {.channels = 6}, second = {.channels = 5, .reverse = true};
    int node = build_input(&b, 4, 9, 1);
    node = graph_add(b.graph, OPERATOR_LSTM, "lstm1", &first, &node, 1, &test_error);
    node = graph_add(b.graph, OPERATOR_LSTM, "lstm2", &second, &node, 1, &test_error);
    node = build_linear(&b, build_flatten(&b, node, "flatten"), "fc", 5);
    build_cross_entropy(&b, node, "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

static void check_apart_everywhere(struct device *device) {
    check_apart(device, recurrent());
    check_apart(device, tangle());
    check_apart(device, take_model("lenet5,classes=5"));
    check_apart(device, take_model("resnet,input=8,classes=5"));
}

static void test_halves_apart(void **state) {
    (void)state;
    on_real_devices(check_apart_everywhere);
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
    step.labels = wrong;
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
    struct ps_model *model;
    assert_ok(ps_model_create("resnet,input=16,blocks=1", &model, &test_error));
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
    ps_model_destroy(model);
}

/* -------------------------------------------------------------------- clock */

static void test_clock(void **state) {
    (void)state;
    struct device *device = chain_device("clock");
    struct graph *graph = graph_create();
    struct attributes data = {.value_bytes = 64};
    int node = graph_add(graph, OPERATOR_INPUT, "data", &data, NULL, 0, &test_error);
    struct attributes layer = {.forward_s = 1e-3,
                               .backward_input_s = 2e-3,
                               .backward_weight_s = 4e-3,
                               .accumulate_s = 1e-3,
                               .apart_input_s = 32e-3,
                               .apart_s = 16e-3,
                               .update_s = 8e-3,
                               .update_predict_s = 9e-3,
                               .predict_s = 3e-3,
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
    assert_float_equal(stage_update_times(stage).update_s, 16e-3, 1e-9);
    assert_float_equal(stage_update_times(stage).update_predict_s, 18e-3, 1e-9);
    assert_float_equal(stage_update_times(stage).predict_s, 6e-3, 1e-9);

    /* No memory is touched, nothing blocks before the end, and the end is not before its time. */
    struct stage_blocks nowhere = {0};
    struct stage_step step = {.accumulate = true};
    double before = clock_now();
    assert_ok(stage_initialize(stage, 1, NULL, NULL, &test_error));
    assert_ok(stage_forward(stage, &nowhere, &step, NULL, &test_error));
    assert_ok(stage_backward(stage, &nowhere, &step, STAGE_BOTH, &test_error));
    device->class->update(device, NULL, NULL, NULL, false, stage_update_times(stage).update_s);
    device->class->finish(device);
    double spent = clock_now() - before;
    assert_true(spent >= 2 * 8e-3 + 16e-3);

    /* By its own time: what a backward adds to gradients of before, and what its halves take longer apart. */
    double done = device->class->done_at(device) + 1;
    device->class->not_before(device, done);
    assert_ok(stage_backward(stage, &nowhere, &(struct stage_step){0}, STAGE_BOTH, &test_error));
    assert_float_equal((device->class->done_at(device) - done), 2 * 6e-3, 1e-6);
    assert_ok(stage_backward(stage, &nowhere, &(struct stage_step){0}, STAGE_INPUT_APART, &test_error));
    assert_float_equal((device->class->done_at(device) - done), 2 * 40e-3, 1e-6);
    assert_ok(stage_backward(stage, &nowhere, &(struct stage_step){0}, STAGE_WEIGHTS_APART, &test_error));
    assert_float_equal((device->class->done_at(device) - done), 2 * 60e-3, 1e-6);
    assert_ok(stage_backward(stage, &nowhere, &step, STAGE_WEIGHTS_APART, &test_error));
    assert_float_equal((device->class->done_at(device) - done), 2 * 81e-3, 1e-6);
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
    int node = graph_add(graph, OPERATOR_OPAQUE, "data", NULL, NULL, 0, &test_error);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_compose),
        cmocka_unit_test(test_sizes_by_hand),
        cmocka_unit_test(test_cuts_change_nothing),
        cmocka_unit_test(test_whole_gradient),
        cmocka_unit_test(test_recomputation),
        cmocka_unit_test(test_backward_leaves_inputs_alone),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_halves_apart),
        cmocka_unit_test(test_dropout_keys),
        cmocka_unit_test(test_short_batch_and_labels),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_normal_values),
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_clock),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
