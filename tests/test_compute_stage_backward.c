/*
 * The backward of stages on every device that computes numbers: cuts change no bit, recomputation and halves that run apart
 * neither, and the whole gradient is that of the loss.
 */
#include <math.h>
#include <stdio.h>

#include "stage_support.h"

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
            fail_msg("%s on %s: %s[%lld] is %.9g, without cuts %.9g", what, whole->device->type->name,
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
    graph = mixed();
    check_cuts(device, graph, 3000);
    graph_destroy(graph);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        graph = take_model(specs[i]);
        check_cuts(device, graph, 2000);
        graph_destroy(graph);
    }
}

/* What is trained has the gradients that it has where all is trained; what is frozen has its values. Cuts change neither. */
static void check_frozen(struct device *device) {
    static const char *const patterns[] = {"conv*", "norm2.*", "conv2.weight", "fc1.bias", "fc*", "?*.weight"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        struct graph *graph = tangle(), *frozen = tangle();
        assert_true(graph_freeze(frozen, patterns[i]) > 0);
        struct chain *all = chain_create(device, graph, 4, 2, NULL, 0), *some = chain_create(device, frozen, 4, 2, NULL, 0);
        run_two(all);
        run_two(some);
        for (int p = 0; p < graph->parameter_count; p++) {
            const struct parameter *parameter = &frozen->parameters[p];
            float *got = exported(some, parameter), *wanted = exported(all, parameter);
            if (parameter->role == PARAMETER_FIXED)
                chain_export(all, parameter->name, (const float *const *)all->weights, wanted);
            assert_memory_equal(got, wanted, (size_t)shape_bytes(&parameter->shape));
            free(got);
            free(wanted);
        }
        chain_destroy(some);
        chain_destroy(all);
        check_cuts(device, frozen, 4000);
        graph_destroy(frozen);
        graph_destroy(graph);
    }
}

static void test_frozen(void **state) {
    (void)state;
    on_real_devices(check_frozen);
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
        if (half == STAGE_WEIGHTS_SPLIT) poison(chain->blocks[m][s].delta, chain->sizes[s].delta_bytes);
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
    for (int m = 0; m < 2; m++) backward_apart(apart, m, STAGE_INPUT_SPLIT);
    for (int m = 0; m < 2; m++) backward_apart(apart, m, STAGE_WEIGHTS_SPLIT);
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
    check_apart(device, mixed());
    check_apart(device, take_model("lenet5,classes=5"));
    check_apart(device, take_model("resnet,input=8,classes=5"));
}

static void test_halves_apart(void **state) {
    (void)state;
    on_real_devices(check_apart_everywhere);
}

/* A network of 6 numbers and two linear layers, between them the nodes of `middle`, the last of which is named "middle". */
static struct graph *two_layers(const char *middle) {
    char text[4096];
    struct ps_network *network = NULL;
    snprintf(
        text, sizeof text,
        "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"n\", \"inputs\": [{\"name\": \"x\", \"shape\": [6]}],"
        "\"nodes\": [{\"name\": \"a\", \"operator\": \"linear\", \"channels\": 8}, %s,"
        "{\"name\": \"b\", \"operator\": \"linear\", \"inputs\": [\"middle\"], \"channels\": 5},"
        "{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}",
        middle);
    assert_ok(network_parse(text, strlen(text), "a test", &network, &test_error));
    struct graph *graph = network->graph;
    network->graph = NULL;
    ps_network_destroy(network);
    return graph;
}

/* All numbers of gradients that cross cuts are written, also of values that have none: codecs encode them together. */
static void check_arriving(struct device *device, const struct graph *graph) {
    int cuts[CHAIN_STAGES_MAX];
    for (int c = 1; c < graph->layer_count; c++) cuts[c - 1] = c;
    struct chain *chain = chain_create(device, graph, 4, 2, cuts, graph->layer_count - 1);
    run_two(chain);
    for (int s = 1; s < chain->count; s++) {
        int count;
        const struct wire_run *runs = stage_runs(chain->stages[s], false, &count);
        for (int r = 0; r < count; r++) {
            const float *numbers = (const float *)((const char *)chain->blocks[0][s].input_gradient + runs[r].offset);
            for (size_t i = 0; i < runs[r].count && runs[r].type == TYPE_F32; i++) assert_true(isfinite(numbers[i]));
        }
    }
    chain_destroy(chain);
}

/* Codecs leave what data and constants come to, whatever is frozen, and encode the rest. */
static void test_what_codecs_leave(void **state) {
    static const char middle[] =
        "{\"name\": \"mask\", \"operator\": \"unary\", \"inputs\": [\"x\"], \"kind\": \"clip\", \"alpha\": 0, \"beta\": 1},"
        "{\"name\": \"narrow\", \"operator\": \"slice\", \"inputs\": [\"mask\"], \"axis\": 0, \"first\": 0, \"count\": 3},"
        "{\"name\": \"middle\", \"operator\": \"concat\", \"inputs\": [\"a\", \"narrow\"]}";
    (void)state;
    for (int frozen = 0; frozen < 2; frozen++) {
        struct graph *graph = two_layers(middle);
        int cuts[CHAIN_STAGES_MAX], left = 0, encoded = 0;
        if (frozen) assert_true(graph_freeze(graph, "a.*") > 0);
        for (int c = 1; c < graph->layer_count; c++) cuts[c - 1] = c;
        struct device *device = chain_device("cpu");
        struct chain *chain = chain_create(device, graph, 4, 2, cuts, graph->layer_count - 1);
        for (int s = 1; s < chain->count; s++) {
            int count;
            const struct wire_run *runs = stage_runs(chain->stages[s], false, &count);
            for (int r = 0; r < count; r++) {
                const struct node *node = &graph->nodes[graph_cut_values(graph, s)[r]];
                const bool of_data =
                    strcmp(node->name, "x") == 0 || strcmp(node->name, "mask") == 0 || strcmp(node->name, "narrow") == 0;
                assert_int_equal(runs[r].type, of_data ? TYPE_I32 : TYPE_F32);
                assert_int_equal(runs[r].count, 4 * shape_elements(&node->shape));
                *(of_data ? &left : &encoded) += 1;
            }
        }
        assert_true(left > 0 && encoded > 0);
        chain_destroy(chain);
        device_close(device);
        graph_destroy(graph);
    }
}

/* A network with conditions has the gradients of one without, whole, cut and with its halves apart. A parameter that the other
 * does not have is read by conditions alone: its gradient is 0. */
static void compare_conditions(struct device *device, struct graph *without, struct graph *with) {
    struct chain *wanted = chain_create(device, without, 4, 2, NULL, 0), *got = chain_create(device, with, 4, 2, NULL, 0);
    struct stage_result wanted_result = run_two(wanted), result = run_two(got);
    assert_true(fabs(result.loss - wanted_result.loss) <= 1e-6);
    for (int p = 0, other = 0; p < with->parameter_count; p++) {
        const struct parameter *parameter = &with->parameters[p];
        const bool same = other < without->parameter_count && strcmp(parameter->name, without->parameters[other].name) == 0;
        float *a = same ? exported(wanted, &without->parameters[other++]) : NULL, *b = exported(got, parameter);
        for (int64_t i = 0; i < shape_elements(&parameter->shape); i++) {
            const double right = a ? (double)a[i] : 0;
            if (a ? !(fabs(right - (double)b[i]) <= 1e-6) : b[i] != 0)
                fail_msg("a condition on %s: %s[%lld] is %g, without it %g", device->type->name, parameter->name, (long long)i,
                         (double)b[i], right);
        }
        free(a);
        free(b);
    }
    chain_destroy(got);
    chain_destroy(wanted);
    check_cuts(device, with, 700);
    check_arriving(device, with);
    check_apart(device, with);
    graph_destroy(without);
}

/* A comparison gives no gradient to the value that it reads: x (x > 0) has that of a ReLU. Nor do nodes that only make
 * what it reads: x (exp x > 1), also in later layers than x, which then crosses cuts for them alone. */
static void check_conditions(struct device *device) {
    static const char relu[] = "{\"name\": \"middle\", \"operator\": \"relu\"}",
                      above[] = "{\"name\": \"above\", \"operator\": \"compare\", \"kind\": \"greater\"},"
                                "{\"name\": \"factor\", \"operator\": \"cast\", \"type\": \"f32\"},"
                                "{\"name\": \"middle\", \"operator\": \"binary\", \"kind\": \"mul\","
                                " \"inputs\": [\"a\", \"factor\"]}",
                      through[] = "{\"name\": \"power\", \"operator\": \"unary\", \"kind\": \"exp\"},"
                                  "{\"name\": \"above\", \"operator\": \"compare\", \"kind\": \"greater\", \"alpha\": 1},"
                                  "{\"name\": \"zero\", \"operator\": \"unary\", \"kind\": \"affine\", \"alpha\": 0,"
                                  " \"inputs\": [\"a\"]},"
                                  "{\"name\": \"middle\", \"operator\": \"where\", \"inputs\": [\"above\", \"a\", \"zero\"]}";
    compare_conditions(device, two_layers(relu), two_layers(above));
    compare_conditions(device, two_layers(relu), two_layers(through));
#define TWICE                                                                                                                  \
    "{\"name\": \"low\", \"operator\": \"unary\", \"kind\": \"tanh\"}, {\"name\": \"c\", \"operator\": \"linear\", "           \
    "\"channels\": 8},"
    static const char plain[] = TWICE "{\"name\": \"middle\", \"operator\": \"relu\"}",
                      apart[] = TWICE
                      "{\"name\": \"power\", \"operator\": \"unary\", \"kind\": \"exp\"},"
                      "{\"name\": \"above\", \"operator\": \"compare\", \"kind\": \"greater\", \"alpha\": 1},"
                      "{\"name\": \"size\", \"operator\": \"unary\", \"kind\": \"abs\", \"inputs\": [\"a\"]},"
                      "{\"name\": \"tall\", \"operator\": \"view\", \"sides\": [2, 4], \"inputs\": [\"a\"]},"
                      "{\"name\": \"whole\", \"operator\": \"cast\", \"type\": \"i32\"},"
                      "{\"name\": \"flat\", \"operator\": \"view\", \"sides\": [8]},"
                      "{\"name\": \"some\", \"operator\": \"compare\", \"kind\": \"greater_equal\"},"
                      "{\"name\": \"gate\", \"operator\": \"linear\", \"channels\": 8, \"inputs\": [\"size\"]},"
                      "{\"name\": \"least\", \"operator\": \"parameter\", \"sides\": [8]},"
                      "{\"name\": \"lift\", \"operator\": \"add\", \"inputs\": [\"least\", \"gate\"]},"
                      "{\"name\": \"open\", \"operator\": \"compare\", \"kind\": \"greater\", \"alpha\": -1000},"
                      "{\"name\": \"both\", \"operator\": \"logical\", \"kind\": \"and\", \"inputs\": [\"above\", \"some\"]},"
                      "{\"name\": \"all\", \"operator\": \"logical\", \"kind\": \"and\", \"inputs\": [\"both\", \"open\"]},"
                      "{\"name\": \"zero\", \"operator\": \"unary\", \"kind\": \"affine\", \"alpha\": 0, \"inputs\": [\"c\"]},"
                      "{\"name\": \"middle\", \"operator\": \"where\", \"inputs\": [\"all\", \"c\", \"zero\"]}";
    compare_conditions(device, two_layers(plain), two_layers(apart));
#undef TWICE
}

static void test_conditions(void **state) {
    (void)state;
    on_real_devices(check_conditions);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),    cmocka_unit_test(test_cuts_change_nothing),
        cmocka_unit_test(test_frozen),        cmocka_unit_test(test_whole_gradient),
        cmocka_unit_test(test_recomputation), cmocka_unit_test(test_backward_leaves_inputs_alone),
        cmocka_unit_test(test_accumulation),  cmocka_unit_test(test_halves),
        cmocka_unit_test(test_halves_apart),  cmocka_unit_test(test_what_codecs_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
