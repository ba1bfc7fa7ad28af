/*
 * Layers split inside: for every layer of several networks that can be split, the rewritten network starts with the same
 * weights and has the same loss, gradients, statistics and dropout as the whole one, on every device that computes.
 */
#include "support.h"

#include <math.h>

#include "chain.h"
#include "graph/model.h"
#include "graph/split.h"

static const int32_t labels[4] = {1, 0, 3, 2};

static const struct stage_step step = {
    .seed = 5, .step = 11, .target = labels, .gradient_scale = 0.25f, .training = true, .update_statistics = true};

/* Values read twice, dropout before and behind what is split, a flattened image, every follower that there is. */
static struct graph *tangle(void) {
    struct builder b = {graph_create(), &test_error};
    int data = build_input(&b, 2, 6, 6);
    int conv1 = build_convolution(&b, data, "conv1", 5, 3, 1, 1, true);
    int relu1 = build_relu(&b, conv1, "relu1");
    int conv2 = build_convolution(&b, relu1, "conv2", 5, 3, 1, 1, false);
    int drop2 = build_dropout(&b, build_relu(&b, build_batch_norm(&b, conv2, "norm2"), "relu2"), "drop2", 0.3f);
    int sum = build_add(&b, conv1, drop2, "sum");
    int conv3 = build_convolution(&b, sum, "conv3", 6, 2, 2, 0, true);
    build_he_initial(&b, conv3);
    int flat = build_flatten(&b, build_relu(&b, conv3, "relu3"), "flatten");
    int fc1 = build_linear(&b, flat, "fc1", 9);
    int drop3 = build_dropout(&b, build_relu(&b, build_batch_norm(&b, fc1, "norm4"), "relu4"), "drop4", 0.5f);
    build_cross_entropy(&b, build_linear(&b, drop3, "fc2", 5), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

/* Attention in both forms, with dropout: of heads that share keys and have each their mask, and causal. */
static struct graph *attentive(void) {
    struct builder b = {graph_create(), &test_error};
    struct attributes shared = {.heads = 6, .key_heads = 3, .rate = 0.2f}, packed = {.heads = 3, .causal = true, .rate = 0.3f};
    struct attributes mask = {.sides = {3, {5, 6, 5}}, .trained = true};
    int data = build_input(&b, 2, 5, 1);
    int seen = graph_add(b.graph, OPERATOR_PARAMETER, "mask", &mask, NULL, 0, &test_error);
    int query = build_linear(&b, data, "query", 12), key = build_linear(&b, data, "key", 6);
    int inputs[] = {query, key, build_linear(&b, data, "value", 9), seen};
    int first = graph_add(b.graph, OPERATOR_ATTENTION, "shared", &shared, inputs, 4, &test_error);
    int all = build_linear(&b, build_relu(&b, first, "relu"), "all", 3 * 3 * 2);
    int second = build_node(&b, all, OPERATOR_ATTENTION, "packed", packed);
    int flat = build_flatten(&b, build_dropout(&b, second, "drop", 0.3f), "flatten");
    build_cross_entropy(&b, build_linear(&b, flat, "fc", 5), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

static struct chain *run(struct device *device, const struct graph *graph, const int *cuts, int cut_count, double *loss) {
    struct chain *chain = chain_create(device, graph, 4, 1, cuts, cut_count);
    struct random_key key = test_key(100);
    for (int64_t i = 0; i < chain->sizes[0].input_bytes / 4; i++)
        ((float *)chain->blocks[0][0].input)[i] = 2 * random_uniform(key, (uint64_t)i) - 1;
    *loss = chain_forward(chain, 0, &step).loss;
    chain_backward(chain, 0, &step);
    return chain;
}

/* What the split network has of a parameter of the whole one: its slices put end to end; returns how many there are. */
static int gather(struct chain *chain, const struct parameter *whole, const float *const *weights, float *values) {
    int slices = 0;
    int64_t elements = 0;
    for (int p = 0; p < chain->graph->parameter_count; p++) {
        const struct parameter *part = &chain->graph->parameters[p];
        if (strcmp(split_whole_name(part), whole->name) != 0) continue;
        struct shape shape = split_whole_shape(part);
        for (int d = 0; d < shape.rank; d++) assert_int_equal(shape.dim[d], whole->shape.dim[d]);
        assert_int_equal(part->role, whole->role);
        elements += chain_export(chain, part->name, weights, values + split_offset(part));
        slices++;
    }
    assert_int_equal(elements, shape_elements(&whole->shape));
    return slices;
}

static void compare(const float *values, const float *expected, int64_t count, const char *name) {
    double largest = 0;
    /* Of terms of order 1 a sum may lose two roundings, though they cancel out. */
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)expected[i]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)values[i] - (double)expected[i]) <= 2e-5 * largest + 2.5e-7))
            fail_msg("%s[%lld] is %g, not %g", name, (long long)i, (double)values[i], (double)expected[i]);
}

/* The two networks' weights, gradients and statistics; at least `split` parameters are in slices. */
static void compare_chains(struct chain *whole, struct chain *parts, int split) {
    const float *whole_weights[1] = {whole->weights[0]}, *part_weights[CHAIN_STAGES_MAX];
    for (int s = 0; s < parts->count; s++) part_weights[s] = parts->weights[s];
    for (int p = 0; p < whole->graph->parameter_count; p++) {
        const struct parameter *parameter = &whole->graph->parameters[p];
        size_t bytes = (size_t)shape_elements(&parameter->shape) * sizeof(float);
        float *values = malloc(bytes), *expected = malloc(bytes);
        if (parameter->role != PARAMETER_STATISTIC) {
            chain_export(whole, parameter->name, whole_weights, expected);
            gather(parts, parameter, part_weights, values);
            assert_memory_equal(values, expected, bytes);
        }
        chain_export(whole, parameter->name, NULL, expected);
        split -= gather(parts, parameter, NULL, values) > 1;
        compare(values, expected, (int64_t)bytes / 4, parameter->name);
        free(values);
        free(expected);
    }
    assert_true(split <= 0);
}

/* Each layer in turn, the network cut between the parts or before the join. */
static void check_every_layer(struct device *device, struct graph *graph) {
    double loss, split_loss;
    struct chain *whole = run(device, graph, NULL, 0, &loss);
    for (int l = 0; l < graph->layer_count; l++) {
        int unit = graph_split_unit(graph, l, &test_error), size = graph_split_size(graph, l);
        if (unit == 0) continue;
        struct graph *split;
        assert_ok(graph_split(graph, l, l % 2 ? unit : (size / unit + 1) / 2 * unit, &split, &test_error));
        assert_int_equal(split->layer_count, graph->layer_count + 2);
        assert_int_equal(split->layers[l].node_count, split->layers[l + 1].node_count);
        int cut = l + 1 + l % 2;
        struct chain *parts = run(device, split, &cut, 1, &split_loss);
        assert_true(fabs(split_loss - loss) <= 1e-5 * fabs(loss));
        compare_chains(whole, parts, strcmp(graph->layers[l].kind, "attention") != 0);
        chain_destroy(parts);
        graph_destroy(split);
    }
    chain_destroy(whole);
}

static void check_networks(struct device *device) {
    static const char *const specs[] = {"lenet5", "resnet,blocks=1,input=12,classes=5"};
    struct graph *graph = tangle();
    check_every_layer(device, graph);
    graph_destroy(graph);
    graph = attentive();
    check_every_layer(device, graph);
    graph_destroy(graph);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        graph = take_model(specs[i]);
        check_every_layer(device, graph);
        graph_destroy(graph);
    }
}

/* Parameters that are not trained are not in the parts either. */
static void test_frozen(void **state) {
    (void)state;
    struct graph *graph = take_model("lenet5"), *split;
    graph->parameters[0].frozen = true; /* conv1.weight */
    assert_ok(graph_split(graph, 0, 2, &split, &test_error));
    int frozen = 0;
    for (int p = 0; p < split->parameter_count; p++) {
        frozen += split->parameters[p].frozen;
        assert_true(!split->parameters[p].frozen || strstr(split->parameters[p].name, "conv1"));
    }
    assert_int_equal(frozen, 2);
    graph_destroy(split);
    graph_destroy(graph);
}

static void test_same_results(void **state) {
    (void)state;
    on_real_devices(check_networks);
}

/* Parts split again, and several layers, through the model's specification. */
static void check_splits_of_splits(struct device *device) {
    struct graph *graph = take_model("lenet5"), *split = take_model("lenet5,split=conv1:4+conv1[0:4]:1+fc1:100+fc3:3");
    double loss, split_loss;
    struct chain *whole = run(device, graph, NULL, 0, &loss);
    struct chain *parts = run(device, split, (const int[]){1, 2, 5}, 3, &split_loss);
    assert_true(fabs(split_loss - loss) <= 1e-5 * fabs(loss));
    compare_chains(whole, parts, 6);
    chain_destroy(whole);
    chain_destroy(parts);
    graph_destroy(graph);
    graph_destroy(split);
}

static void test_splits_of_splits(void **state) {
    (void)state;
    on_real_devices(check_splits_of_splits);
}

static void test_names(void **state) {
    (void)state;
    struct graph *graph = tangle(), *split;
    assert_ok(graph_split(graph, 1, 2, &split, &test_error)); /* conv2, norm2, relu2; drop2 stays whole */
    static const char *const names[] = {"conv2[0:2]", "norm2[0:2]", "relu2[0:2]", "conv2[2:5]",
                                        "norm2[2:5]", "relu2[2:5]", "conv2[0:5]", "drop2"};
    for (int i = 0; i < 8; i++) assert_string_equal(split->nodes[3 + i].name, names[i]);
    const struct parameter *parameter = &split->parameters[split->nodes[6].parameter_first];
    assert_string_equal(parameter->name, "conv2[2:5].weight");
    assert_string_equal(split_whole_name(parameter), "conv2.weight");
    assert_int_equal(parameter->slice.first, 2);
    assert_int_equal(parameter->slice.rows, 5);
    assert_int_equal(split_offset(parameter), 2 * 5 * 3 * 3);
    /* What lies on the cut between the parts: the input of both, the first part, and conv1's output for the sum. */
    assert_int_equal(graph_cut_bytes(split, 2), 4 * 36 * (5 + 2 + 5));
    graph_destroy(split);
    graph_destroy(graph);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *spec, *said;
    } cases[] = {
        {"lenet5,split=conv1:6", "from 1 to 5, not 6"},
        {"lenet5,split=conv1:7", "from 1 to 5, not 7"},
        {"lenet5,split=conv1:0", "from 1 to 5, not 0"},
        {"lenet5,split=pool1:2", "convolutions, linear layers and attention can"},
        {"gpt2,layers=1,width=12,heads=3,seq=4,vocab=9,split=transformer.h.0.attn:3",
         "has 3 heads: its first part may have from 1 to 2"},
        {"residual_lstm,hidden=4,seq=4,split=stage0.LSTM:2", "every unit needs those of the other part"},
        {"lenet5,split=conv9:2", "'conv9'"},
        {"lenet5,split=conv1", "LAYER:CHANNELS"},
        {"lenet5,split=conv1:x", "LAYER:CHANNELS"},
        {"lenet5,split=conv1:2+", "LAYER:CHANNELS"},
        {"lenet5,split=conv1:2+conv1:1", "'conv1'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ps_network *model = NULL;
        assert_status(ps_network_open(cases[i].spec, &model, &test_error), PS_USAGE, cases[i].said);
        assert_null(model);
    }
    struct builder b = {graph_create(), &test_error};
    struct attributes grouped = {.channels = 4, .kernel_h = 1, .kernel_w = 1, .groups = 2};
    int data = build_input(&b, 2, 4, 4);
    graph_add(b.graph, OPERATOR_CONVOLUTION, "grouped", &grouped, &data, 1, &test_error);
    assert_ok(graph_finish(b.graph, &test_error));
    struct graph *split = NULL;
    assert_status(graph_split(b.graph, 0, 2, &split, &test_error), PS_USAGE, "2 groups");
    graph_destroy(b.graph);
    /* Heads that share keys stay together. */
    struct graph *graph = attentive();
    int layer = 0;
    while (strcmp(graph->nodes[graph->layers[layer].node_first].name, "shared") != 0) layer++;
    for (int heads = 0; heads <= 6; heads++)
        if (heads == 2 || heads == 4) {
            assert_ok(graph_split(graph, layer, heads, &split, &test_error));
            graph_destroy(split);
        } else {
            char said[128];
            snprintf(said, sizeof said, "layer 'shared' has 6 heads: its first part may have from 2 to 4 in steps of 2, not %d",
                     heads);
            assert_status(graph_split(graph, layer, heads, &split, &test_error), PS_USAGE, said);
        }
    graph_destroy(graph);
    /* A part's name has its channels, too. */
    for (int over = 0; over < 2; over++) {
        char name[64];
        b.graph = graph_create();
        memset(name, 'n', sizeof name);
        name[58 + over] = '\0';
        build_linear(&b, build_input(&b, 2, 1, 1), name, 4);
        assert_ok(graph_finish(b.graph, &test_error));
        const enum ps_status status = graph_split(b.graph, 0, 2, &split, &test_error);
        if (over) {
            assert_status(status, PS_USAGE, "': its name is too long to be split");
        } else {
            assert_ok(status);
            graph_destroy(split);
        }
        graph_destroy(b.graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frozen), cmocka_unit_test(test_same_results), cmocka_unit_test(test_splits_of_splits),
        cmocka_unit_test(test_names),  cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
