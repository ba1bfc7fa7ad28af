/* The model zoo: parameter counts that are well known, layers, crossing values, options, and messages for wrong ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "graph/model.h"
#include "support.h"
#include "within.h"

static struct ps_network *create(const char *spec) {
    struct ps_network *model = NULL;
    assert_ok(ps_network_open(spec, &model, &test_error));
    return model;
}

static void test_parameter_counts(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int64_t parameters;
        int layers;
    } cases[] = {
        {"lenet5", 61706, 7},
        {"alexnet,input=224,classes=1000", 61100840, 11},
        {"alexnet", 23272266, 11},
        {"vgg16,input=224,classes=1000", 138357544, 21},
        {"vgg16", 15245130, 21},
        {"vgg16,dropout=0", 15245130, 21},
        {"vgg16,batch_norm=1", 15245130 + 2 * 4224, 21},
        {"vgg16,classes=100", 15245130 + 90 * 513, 21},
        {"resnet", 78042, 14},
        {"resnet,blocks=3", 272474, 32},
        {"alexnet,form=imagenet,input=64,classes=1000", 61100840, 12},
        {"alexnet,lrn=1", 23272266, 11},
        {"vgg19,input=224,classes=1000", 143667240, 24},
        {"vgg16,input=32,form=imagenet,classes=1000", 138357544, 22},
        {"vgg16,shrink=64", 3918, 21},
        {"vgg16,blocks=2,shrink=16,input=28,channels=1", 15030, 9},
        {"resnet50", 25557032, 72},
        {"resnet50,input=1000", 25557032, 72},
        {"resnet101", 44549160, 140},
        {"googlenet", 6624904, 81},
        {"googlenet,input=32,classes=100", 6624904 - 900 * 1025, 81},
        {"inception_v3", 23834568, 120},
        {"densenet121", 7978856, 184},
        {"densenet121,input=32", 7978856, 184},
        {"residual_lstm", 1874690, 15},
        {"gnmt8", 193766977, 26},
        {"gnmt16", 277718593, 46},
        {"gnmt16,hidden=8,vocab=20", 12485, 46},
        {"gnmt-l", 445621825, 86},            /* BaPipe: 445.6 million */
        {"gnmt-l,layers=74", 886367809, 191}, /* BaPipe: 886.4 */
        {"gnmt-l,layers=158", 1767859777, 401},
        /* Hugging Face's counts, and the head's weights, which those share with the embedding. */
        {"gpt2", 124439808 + 50257 * 768, 111},
        {"gpt2,layers=24,width=1024,heads=16", 354823168 + 50257 * 1024, 219},
        {"gpt2,seq=64", 124439808 + (50257 - 1024 + 64) * 768, 111},
        {"gpt2,seq=64,positions=1024", 124439808 + 50257 * 768, 111},
        {"bert48,layers=12,width=768,heads=12", 109514298 + 30522 * 768, 137},
        {"bert48,layers=24", 335174458 + 30522 * 1024, 269},
        {"bert48", 668738362, 533},
        {"bert48,tied=1", 637483834, 533},
        {"gpt2,tied=1", 124439808, 111},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ps_network *model = create(cases[i].spec);
        struct ps_network_info info = ps_network_info(model);
        assert_string_equal(info.name, cases[i].spec);
        assert_int_equal(info.parameters, cases[i].parameters);
        assert_int_equal(info.layers, cases[i].layers);
        int64_t parameters = 0;
        double flops = 0;
        for (int l = 0; l < info.layers; l++) {
            struct ps_layer_info layer = ps_network_layer(model, l);
            assert_non_null(layer.name);
            parameters += layer.parameters;
            flops += layer.forward_flops;
        }
        assert_int_equal(parameters, info.parameters);
        assert_true(flops > 0.999999 * info.forward_flops && flops < 1.000001 * info.forward_flops);
        ps_network_destroy(model);
    }
}

/*
 * Files of runs, plans and profiles name a network by its hash, which counts every name, attribute and initial value: a network
 * is the same one in all programs from now on. With every option that networks have.
 */
static void test_hashes(void **state) {
    (void)state;
    static const char *const specs[] = {"lenet5",
                                        "lenet5,input=32,channels=3,classes=7",
                                        "alexnet",
                                        "alexnet,input=224,classes=1000",
                                        "alexnet,lrn=1,form=imagenet,input=64,dropout=0.25",
                                        "vgg16",
                                        "vgg16,input=224,classes=1000",
                                        "vgg16,batch_norm=1,dropout=0.25",
                                        "vgg16,blocks=2,shrink=16,input=28,channels=1",
                                        "vgg16,split=features.0:10+features.2:17",
                                        "vgg19",
                                        "vgg19,batch_norm=1,form=imagenet,input=64",
                                        "resnet",
                                        "resnet,blocks=3,channels=1,classes=100",
                                        "resnet50",
                                        "resnet50,input=64,classes=7",
                                        "resnet50,precision=bf16",
                                        "resnet101",
                                        "googlenet",
                                        "googlenet,input=32,classes=100,dropout=0.25",
                                        "inception_v3",
                                        "inception_v3,input=75,classes=100,dropout=0.25",
                                        "densenet121",
                                        "densenet121,input=32,classes=100,channels=1",
                                        "residual_lstm",
                                        "residual_lstm,layers=3,hidden=8,seq=9,vocab=30,classes=5",
                                        "gnmt8",
                                        "gnmt8,seq=9,target=4,hidden=8,vocab=30,target_vocab=20,dropout=0.5,smoothing=0.25",
                                        "gnmt16",
                                        "gnmt-l",
                                        "gnmt-l,layers=6,hidden=8,vocab=30",
                                        "gpt2",
                                        "gpt2,layers=2,width=16,heads=2,seq=9,vocab=30,positions=12,dropout=0.25",
                                        "gpt2,layers=1,width=16,heads=2,tied=1",
                                        "bert48",
                                        "bert48,layers=2,width=16,heads=2,seq=9,vocab=30,positions=12,dropout=0.25",
                                        "bert48,layers=1,width=16,heads=2,tied=1"};
    struct text text = {0};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct ps_network *model = create(specs[i]);
        text_add(&text, "%s %s\n", ps_network_info(model).hash, specs[i]);
        ps_network_destroy(model);
    }
    for (int m = 0; model_table[m]; m++) {
        bool listed = false;
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
            listed = listed || strcmp(specs[i], model_table[m]->name) == 0;
        if (!listed) fail_msg("%s is not listed above", model_table[m]->name);
    }
    test_golden(TEST_DIRECTORY "/golden/hashes.txt", text_take(&text));
}

/* The bounds of every option, as the refusal of what is outside of them says. */
static void test_bounds(void **state) {
    (void)state;
    static const char *const outside[][2] = {
        {"lenet5", "input channels classes"},
        {"alexnet", "input channels classes lrn dropout"},
        {"vgg16", "batch_norm shrink blocks dropout"},
        {"resnet", "blocks"},
        {"googlenet", "dropout"},
        {"inception_v3", "input dropout"},
        {"densenet121", "input"},
        {"residual_lstm", "layers hidden seq vocab classes"},
        {"gnmt8", "seq vocab hidden target target_vocab dropout smoothing"},
        {"gnmt-l", "layers"},
        {"gpt2", "seq vocab layers width heads positions dropout tied"},
        {"bert48", "seq vocab layers width heads positions dropout tied"},
    };
    struct text text = {0};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        char options[128], spec[128], *rest = NULL;
        snprintf(options, sizeof options, "%s", outside[i][1]);
        for (char *option = strtok_r(options, " ", &rest); option != NULL; option = strtok_r(NULL, " ", &rest)) {
            struct ps_network *model = NULL;
            struct ps_error error = {0};
            snprintf(spec, sizeof spec, "%s,%s=-1", outside[i][0], option);
            assert_int_equal(ps_network_open(spec, &model, &error), PS_USAGE);
            text_add(&text, "%s\n", error.message);
        }
    }
    test_golden(TEST_DIRECTORY "/golden/options.txt", text_take(&text));
}

static void test_info(void **state) {
    (void)state;
    struct ps_network *model = create("lenet5,classes=7,channels=3");
    struct ps_network_info info = ps_network_info(model);
    assert_int_equal(info.input_shape[0], 3);
    assert_int_equal(info.input_shape[1], 28);
    assert_int_equal(info.input_shape[2], 28);
    assert_int_equal(info.classes, 7);
    struct ps_layer_info first = ps_network_layer(model, 0), pool = ps_network_layer(model, 3),
                         last = ps_network_layer(model, 6);
    assert_string_equal(first.name, "conv1");
    assert_string_equal(first.kind, "convolution");
    assert_int_equal(first.output_rank, 3);
    assert_int_equal(first.output_shape[0], 6);
    assert_int_equal(first.output_shape[2], 28);
    assert_int_equal(first.forward_flops, 2 * 28 * 28 * 6 * 75 + 28 * 28 * 6);
    assert_int_equal(pool.output_rank, 1); /* flattened */
    assert_int_equal(pool.output_shape[0], 400);
    assert_int_equal(pool.parameters, 0);
    assert_string_equal(last.kind, "linear");
    assert_int_equal(last.output_shape[0], 7);
    ps_network_destroy(model);
    ps_network_destroy(NULL);
}

/* VGG-16 at 224 pixels: 15.47 billion multiply-adds, as everybody counts them. */
static void test_flops(void **state) {
    (void)state;
    struct ps_network *model = create("vgg16,input=224,classes=1000");
    double flops = ps_network_info(model).forward_flops;
    assert_true(flops > 2 * 15.47e9 && flops < 2 * 15.5e9 + 1e8);
    int pools = 0;
    for (int l = 0, side = 112, channels = 64; l < ps_network_info(model).layers; l++) {
        const struct ps_layer_info layer = ps_network_layer(model, l);
        if (strcmp(layer.kind, "max_pool") != 0) continue;
        assert_true(layer.forward_flops == 4.0 * channels * side * side); /* each window has four elements */
        side /= 2;
        channels = channels < 512 ? 2 * channels : 512;
        pools++;
    }
    assert_int_equal(pools, 5);
    ps_network_destroy(model);
}

/* Names of the nodes whose values cross, separated by spaces. */
static const char *crossing(const struct graph *graph, int cut, char text[256]) {
    text[0] = '\0';
    for (int i = 0; i < graph_cut_count(graph, cut); i++) {
        if (i > 0) strcat(text, " ");
        strcat(text, graph->nodes[graph_cut_values(graph, cut)[i]].name);
    }
    return text;
}

/* Source tokens, encoder output and the attention's answer go along with what the layers hand on; the target's tokens wait. */
static void test_translation_crossing(void **state) {
    (void)state;
    struct ps_network *model = create("gnmt8,seq=7,target=5,hidden=16,vocab=30");
    const struct graph *graph = model->graph;
    static const char *const cuts[][2] = {
        {"encoder.rnn_layers.2", "source target encoder.rnn_layers.1 encoder.dropout.2"},
        {"encoder.rnn_layers.3", "source target encoder.add.2 encoder.dropout.3"},
        {"decoder.embedder", "source target encoder.add.3"},
        {"decoder.rnn_layers.1", "decoder.att_rnn.attn decoder.rnn_layers.0 decoder.context.1"},
        {"decoder.classifier.classifier", "decoder.add.2"},
    };
    int found = 0;
    for (int c = 0; c < graph->layer_count; c++) {
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            if (strcmp(graph->layers[c].name, cuts[i][0]) != 0) continue;
            char text[256];
            assert_string_equal(crossing(graph, c, text), cuts[i][1]);
            found++;
        }
    }
    assert_int_equal(found, sizeof cuts / sizeof *cuts);
    ps_network_destroy(model);
    assert_status(ps_network_open("gnmt-l,layers=7", &model, &test_error), PS_USAGE, "even");
    assert_status(ps_network_open("gnmt8,input=7", &model, &test_error), PS_USAGE, "input");
}

static void test_residual_crossing(void **state) {
    (void)state;
    struct ps_network *model = create("resnet");
    static const struct {
        const char *layer, *values;
        int64_t bytes;
    } cuts[] = {
        {"conv1", "data", 4 * 3 * 1024},
        {"layer1.0.conv1", "bn1", 4 * 16 * 1024},
        {"layer1.0.conv2", "bn1 layer1.0.bn1", 4 * 2 * 16 * 1024},
        {"layer1.0.add", "bn1 layer1.0.bn2", 4 * 2 * 16 * 1024},
        {"layer2.0.conv1", "layer1.0.add", 4 * 16 * 1024},
        {"layer2.0.conv2", "layer1.0.add layer2.0.bn1", 4 * (16 * 1024 + 32 * 256)},
        {"layer2.0.downsample.0", "layer1.0.add layer2.0.bn2", 4 * (16 * 1024 + 32 * 256)},
        {"layer2.0.add", "layer2.0.bn2 layer2.0.downsample.1", 4 * 2 * 32 * 256},
        {"layer3.0.conv1", "layer2.0.add", 4 * 32 * 256},
        {"layer3.0.conv2", "layer2.0.add layer3.0.bn1", 4 * (32 * 256 + 64 * 64)},
        {"layer3.0.downsample.0", "layer2.0.add layer3.0.bn2", 4 * (32 * 256 + 64 * 64)},
        {"layer3.0.add", "layer3.0.bn2 layer3.0.downsample.1", 4 * 2 * 64 * 64},
        {"avgpool", "layer3.0.add", 4 * 64 * 64},
        {"fc", "avgpool", 4 * 64},
    };
    assert_int_equal(model->graph->layer_count, sizeof cuts / sizeof *cuts);
    for (int c = 0; c < model->graph->layer_count; c++) {
        char text[256];
        assert_string_equal(model->graph->layers[c].name, cuts[c].layer);
        assert_string_equal(crossing(model->graph, c, text), cuts[c].values);
        assert_int_equal(graph_cut_bytes(model->graph, c), cuts[c].bytes);
    }
    ps_network_destroy(model);
}

static const struct parameter *find_parameter(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->parameter_count; p++) {
        if (strcmp(graph->parameters[p].name, name) == 0) return &graph->parameters[p];
    }
    fail_msg("no parameter %s", name);
    return NULL;
}

static void test_initial_values(void **state) {
    (void)state;
    struct ps_network *model = create("vgg16,batch_norm=1");
    const struct parameter *weight = find_parameter(model->graph, "features.0.weight");
    assert_int_equal(weight->initial.kind, INITIAL_NORMAL);
    assert_within(weight->initial.value, 0.058925565, 1e-7); /* sqrt(2 / (9 * 64)) */
    assert_within(find_parameter(model->graph, "features.0.bias")->initial.value, 0, 0);
    assert_within(find_parameter(model->graph, "features.1.weight")->initial.value, 1, 0);
    assert_within(find_parameter(model->graph, "classifier.6.weight")->initial.value, 0.01, 1e-9);
    ps_network_destroy(model);
    model = create("lenet5");
    assert_within(find_parameter(model->graph, "conv1.bias")->initial.value, 0.2, 1e-7); /* 1 / sqrt(25) */
    ps_network_destroy(model);
}

/* Images of other sizes than the usual ones, where they fit, have the usual number of parameters. */
static void test_sizes(void **state) {
    (void)state;
    static const char *const fit[] = {"lenet5,input=32",
                                      "lenet5,input=16",
                                      "alexnet,input=64",
                                      "alexnet,input=256",
                                      "vgg16,input=64",
                                      "vgg16,input=256",
                                      "resnet,input=1",
                                      "resnet,input=33",
                                      "resnet,channels=1",
                                      "vgg16,input=448,classes=2",
                                      "vgg16,input=32",
                                      "inception_v3,input=75",
                                      "alexnet,input=63,form=imagenet",
                                      "googlenet,input=15"};
    for (size_t i = 0; i < sizeof fit / sizeof *fit; i++) ps_network_destroy(create(fit[i]));
    struct ps_network *model = create("alexnet,input=256,classes=1000");
    assert_int_equal(ps_network_info(model).parameters, 61100840);
    assert_string_equal(ps_network_layer(model, 8).kind, "average_pool"); /* 7x7 becomes 6x6 */
    ps_network_destroy(model);
}

static void test_wrong_specs(void **state) {
    (void)state;
    static const struct {
        const char *spec, *message;
    } cases[] = {
        {"lenet", "did you mean 'lenet5'"},
        {"vgg61", "did you mean 'vgg16'"},
        {"", "no name"},
        {",input=3", "no name"},
        {"vgg16,inptu=32", "did you mean 'input'"},
        {"vgg16,dropuot=0", "did you mean 'dropout'"},
        {"lenet5,dropout=0.5", "no option 'dropout'"},
        {"vgg16,input", "key=value"},
        {"vgg16,input=32,input=64", "twice"},
        {"vgg16,input=0", "input=0"},
        {"vgg16,input=32x", "input=32x"},
        {"vgg16,input=99999999999", "must be an integer"},
        {"vgg16,classes=1", "classes=1"},
        {"vgg16,classes=-5", "classes=-5"},
        {"vgg16,channels=0", "channels=0"},
        {"vgg16,dropout=1", "dropout=1"},
        {"vgg16,dropout=nan", "dropout=nan"},
        {"vgg16,batch_norm=2", "batch_norm=2"},
        {"resnet,blocks=0", "blocks=0"},
        {"vgg16,input=3", "vgg16,input=3: node 'features.9' (max_pool): a kernel of 2x2"},
        {"lenet5,input=4", "node 'conv2' (convolution)"},
        {"alexnet,input=3", "node 'features.5' (max_pool)"},
        {"vgg16,form=imagnet", "vgg16: form: 'imagnet' is not known; did you mean 'imagenet'"},
        {"gnmt-l,layers=5", "gnmt-l: layers=5: must be even"},
        {"alexnet,form=imagenet", "node 'features.12' (max_pool)"},
        {"inception_v3,input=74", "node 'Mixed_7a"},
        {"inception_v3,input=32", "; images from 75 pixels a side on are taken"},
        {"vgg16,input=1", "; images from 32 pixels a side on are taken"},
        {"googlenet,input=14", "; images from 15 pixels a side on are taken"},
        {"alexnet,input=9,form=imagenet", "; images from 63 pixels a side on are taken"},
        {"gpt2,classes=3", "no option 'classes'"},
        {"gpt2,input=32", "no option 'input'"},
        {"lenet5,vocab=32", "no option 'vocab'"},
        {"gpt2,heads=7", "node 'transformer.h.0.attn' (attention): 7 heads do not share 768 features"},
        {"gpt2,positions=9", "9 vectors for 1024 positions"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ps_network *model = NULL;
        assert_status(ps_network_open(cases[i].spec, &model, &test_error), PS_USAGE, cases[i].message);
        assert_null(model);
        assert_int_equal(ps_network_open(cases[i].spec, &model, NULL), PS_USAGE);
    }
}

/* At each cut: the values that were made before it and that a layer behind it reads, in order, each once. */
static void assert_cuts(const struct graph *graph) {
    char *crosses = malloc((size_t)graph->node_count);
    assert_non_null(crosses);
    for (int cut = 0; cut <= graph->layer_count; cut++) {
        memset(crosses, 0, (size_t)graph->node_count);
        for (int i = 0; i < graph->node_count; i++) {
            const struct node *node = &graph->nodes[i];
            for (int j = 0; j < node->input_count && node->layer >= cut; j++) {
                int root = graph->nodes[node->inputs[j]].root;
                crosses[root] = graph->nodes[root].layer < cut;
            }
        }
        int count = 0;
        for (int r = 0; r < graph->node_count; r++) {
            if (!crosses[r]) continue;
            assert_true(count < graph_cut_count(graph, cut));
            assert_int_equal(graph_cut_values(graph, cut)[count++], r);
        }
        assert_int_equal(graph_cut_count(graph, cut), count);
    }
    free(crosses);
}

/* Every entry of the table builds with its defaults, with other classes, and says what it is. */
static void test_every_model(void **state) {
    (void)state;
    for (int i = 0; model_table[i] != NULL; i++) {
        char spec[64];
        assert_true(strlen(model_table[i]->summary) > 10);
        const struct model_options *defaults = &model_table[i]->defaults;
        const char *sizes = defaults->vocabulary == 0 ? "channels=2,classes=13"
                            : defaults->classes > 0   ? "vocab=19,seq=9,classes=13"
                                                      : "vocab=13,seq=9"; /* the classes are tokens */
        snprintf(spec, sizeof spec, "%s,%s", model_table[i]->name, sizes);
        struct ps_network *model = create(spec);
        const struct graph *graph = model->graph;
        const struct node *end = &graph->nodes[graph->node_count - 1];
        assert_true(end->flags & OPERATOR_LOSS);
        assert_int_equal(end->shape.dim[0], 13);
        assert_int_equal(graph_cut_count(graph, 0), 1);
        assert_int_equal(graph_cut_count(graph, graph->layer_count), 0);
        assert_cuts(graph);
        ps_network_destroy(model);
    }
}

/* A refusal lists what a network takes, and it takes that. */
static void test_options_are_known(void **state) {
    (void)state;
    static const struct {
        const char *model, *keys, *sizes;
    } cases[] = {
        {"lenet5", "input, channels, split, classes", "input=16,channels=1,classes=3"},
        {"alexnet", "input, channels, split, classes, dropout, form, lrn", "dropout=0.1,form=cifar,lrn=1"},
        {"vgg16", "input, channels, split, classes, batch_norm, blocks, dropout, form, shrink",
         "batch_norm=1,blocks=2,dropout=0.1,form=cifar,shrink=8"},
        {"vgg19", "input, channels, split, classes, batch_norm, blocks, dropout, form, shrink", "blocks=2,shrink=8"},
        {"resnet", "input, channels, split, classes, blocks", "blocks=2"},
        {"googlenet", "input, channels, split, classes, dropout", "dropout=0.1"},
        {"inception_v3", "input, channels, split, classes, dropout", "dropout=0.1"},
        {"residual_lstm", "seq, vocab, split, classes, layers, hidden", "layers=2,hidden=4"},
        {"gnmt8", "seq, vocab, split, hidden, target, target_vocab, dropout, smoothing",
         "hidden=8,target=3,target_vocab=9,dropout=0.1,smoothing=0.1"},
        {"gnmt16", "seq, vocab, split, hidden, target, target_vocab, dropout, smoothing", "hidden=8"},
        {"gnmt-l", "seq, vocab, split, hidden, target, target_vocab, dropout, smoothing, layers", "hidden=8,layers=4"},
        {"gpt2", "seq, vocab, split, layers, width, heads, positions, dropout, tied",
         "seq=4,layers=1,width=8,heads=2,positions=9,dropout=0.1,tied=1"},
        {"bert48", "seq, vocab, split, layers, width, heads, positions, dropout, tied",
         "seq=4,layers=1,width=8,heads=2,positions=9,dropout=0.1,tied=1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char spec[256];
        struct ps_error error;
        struct ps_network *model = NULL;
        snprintf(spec, sizeof spec, "%s,xyz=1", cases[i].model);
        assert_int_equal(ps_network_open(spec, &model, &error), PS_USAGE);
        assert_non_null(strstr(error.message, "has no option 'xyz'"));
        snprintf(spec, sizeof spec, "known: %s", cases[i].keys);
        assert_string_equal(error.hint, spec);
        snprintf(spec, sizeof spec, "%s,%s", cases[i].model, cases[i].sizes);
        ps_network_destroy(create(spec));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameter_counts),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_residual_crossing),
        cmocka_unit_test(test_translation_crossing),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_wrong_specs),
        cmocka_unit_test(test_every_model),
        cmocka_unit_test(test_options_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
