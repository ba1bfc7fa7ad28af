/* Networks as data: files, the builder and the hash, held against the built-in ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "graph/model.h"
#include "graph/operators.h"
#include "support.h"
#include "within.h"

static struct ps_network *open_network(const char *text) {
    struct ps_network *network = NULL;
    assert_ok(ps_network_open(text, &network, &test_error));
    return network;
}

static struct ps_network *open_fixture(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/networks/%s", TEST_DIRECTORY, name);
    return open_network(path);
}

static struct ps_network *read_back(const struct ps_network *network) {
    struct ps_network *again = NULL;
    char *text = ps_network_json(network);
    assert_non_null(text);
    assert_ok(network_parse(text, strlen(text), "text", &again, &test_error));
    free(text);
    return again;
}

static void assert_same_node(const struct node *a, const struct node *b) {
    const struct operator_type *op = operator_get(a->id);
    assert_int_equal(a->id, b->id);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->input_count, b->input_count);
    assert_memory_equal(a->inputs, b->inputs, (size_t)a->input_count * sizeof *a->inputs);
    assert_true(shape_equal(&a->shape, &b->shape));
    assert_memory_equal(a->shape.image, b->shape.image, sizeof a->shape.image);
    assert_int_equal(a->layer, b->layer);
    assert_int_equal(a->root, b->root);
    assert_int_equal(a->data, b->data);
    if (a->flags & OPERATOR_RANDOM) assert_int_equal(a->random_number, b->random_number);
    for (const struct attribute *attribute = op->attributes; attribute->name != NULL; attribute++)
        assert_true(attribute_equal(&a->attributes, &b->attributes, attribute));
    assert_int_equal(a->parameter_first, b->parameter_first);
    assert_int_equal(a->parameter_count, b->parameter_count);
}

static void assert_same_parameter(const struct parameter *a, const struct parameter *b) {
    assert_string_equal(a->name, b->name);
    assert_true(shape_equal(&a->shape, &b->shape));
    assert_int_equal(a->initial.kind, b->initial.kind);
    assert_memory_equal(&a->initial.value, &b->initial.value, sizeof a->initial.value);
    assert_int_equal(a->zero_row, b->zero_row);
    assert_int_equal(a->role, b->role);
    assert_int_equal(a->frozen, b->frozen);
    assert_int_equal(a->tied, b->tied);
    assert_int_equal(a->shared, b->shared);
    assert_int_equal(a->slice.rows, b->slice.rows);
    assert_int_equal(a->slice.first, b->slice.first);
    assert_string_equal(a->slice.whole, b->slice.whole);
}

static void assert_same(const struct ps_network *a, const struct ps_network *b) {
    assert_int_equal(a->graph->node_count, b->graph->node_count);
    assert_int_equal(a->graph->parameter_count, b->graph->parameter_count);
    for (int n = 0; n < a->graph->node_count; n++) assert_same_node(&a->graph->nodes[n], &b->graph->nodes[n]);
    for (int p = 0; p < a->graph->parameter_count; p++)
        assert_same_parameter(&a->graph->parameters[p], &b->graph->parameters[p]);
    assert_true(a->hash == b->hash);
    assert_int_equal(a->predicts, b->predicts);
    assert_int_equal(a->classes, b->classes);
    assert_int_equal(a->labels, b->labels);
    assert_int_equal(a->vocabulary, b->vocabulary);
    assert_memory_equal(a->input_shape, b->input_shape, sizeof a->input_shape);
}

/* Every built-in network, and its options that make other kinds of nodes, written and read back. */
static void test_read_back(void **state) {
    (void)state;
    static const char *const more[] = {"vgg16,batch_norm=1,form=imagenet",
                                       "alexnet,lrn=1,form=imagenet,input=64",
                                       "gpt2,tied=1,layers=1",
                                       "bert48,tied=1,layers=2",
                                       "gnmt8,seq=9,target=4,smoothing=0.1",
                                       "vgg16,split=features.0:10+features.2:17+features.2[17:64]:20",
                                       "gnmt8,hidden=32,split=decoder.classifier.classifier:100"};
    for (size_t i = 0; model_table[i] != NULL || i < sizeof more / sizeof *more; i++) {
        const char *specs[] = {model_table[i] != NULL ? model_table[i]->name : NULL,
                               i < sizeof more / sizeof *more ? more[i] : NULL};
        for (int s = 0; s < 2; s++) {
            if (specs[s] == NULL) continue;
            struct ps_network *network = open_network(specs[s]), *again = read_back(network);
            assert_string_equal(again->name, specs[s]);
            assert_same(network, again);
            ps_network_destroy(again);
            ps_network_destroy(network);
        }
        if (model_table[i] == NULL && i + 1 >= sizeof more / sizeof *more) break;
    }
}

static struct ps_network_builder *begin(void) {
    struct ps_network_builder *builder = ps_network_builder_create("built");
    assert_non_null(builder);
    assert_int_equal(ps_network_builder_input(builder, "data", "f32", (const int64_t[]){1, 28, 28}, 3), 0);
    return builder;
}

/* All kinds of attributes. */
static void test_general(void **state) {
    (void)state;
    struct ps_network *network = open_fixture("general.json"), *again = read_back(network);
    assert_same(network, again);
    assert_int_equal(network->graph->nodes[2].attributes.kind, UNARY_SILU);
    ps_network_destroy(again);
    ps_network_destroy(network);
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"unary", "node 'f': kind is missing"},
        {"unary,kind=sigmoit", "node 'f': kind: 'sigmoit' is not known; did you mean 'sigmoid'?"},
        {"unary,kind=clip,alpha=2,beta=1", "node 'f' (unary): clip: the least, alpha=2, is more than the largest, beta=1"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_network_builder *builder = begin();
        assert_int_equal(ps_network_builder_node(builder, "f", wrong[w].text, NULL, 0), -1);
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, wrong[w].message);
    }
}

/* What an attribute is where nothing is said may also be said. */
static void test_usual(void **state) {
    (void)state;
    for (int id = 0; id < OPERATOR_COUNT; id++) {
        const struct attribute *attributes = operator_get((enum operator_id)id)->attributes;
        for (int a = 0; a < ATTRIBUTES_MAX && attributes[a].name != NULL; a++)
            if (!isnan(attributes[a].usual) && attributes[a].kind != ATTRIBUTE_LIST) /* a list is empty */
                assert_ok(attribute_check(&attributes[a], attributes[a].usual, &test_error));
    }
    static const char *const norms[] = {"batch_norm", "batch_norm,epsilon=0,momentum=0", "layer_norm", "layer_norm,epsilon=0"};
    for (int n = 0; n < 4; n++) {
        struct ps_network *network;
        struct ps_network_builder *builder = begin();
        assert_int_equal(ps_network_builder_node(builder, "norm", norms[n], NULL, 0), 1);
        ps_network_builder_node(builder, "loss", "mse", NULL, 0);
        assert_ok(ps_network_builder_finish(builder, &network, &test_error));
        const struct attributes *made = &network->graph->nodes[1].attributes;
        assert_true(made->epsilon == (n % 2 == 1 ? 0 : 1e-5f) && made->momentum == (n == 0 ? 0.1f : 0));
        ps_network_destroy(network);
    }
    static const char *const resizes[] = {"resize,out=14,mode=cubic", "resize,out=14,mode=cubic,cubic=0"};
    for (int said = 0; said < 2; said++) {
        struct ps_network *network;
        struct ps_network_builder *builder = begin();
        assert_int_equal(ps_network_builder_node(builder, "smaller", resizes[said], NULL, 0), 1);
        ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
        ps_network_builder_node(builder, "fc", "linear,channels=5", NULL, 0);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        assert_ok(ps_network_builder_finish(builder, &network, &test_error));
        assert_true(network->graph->nodes[1].attributes.cubic == (said ? 0 : -0.75f));
        ps_network_destroy(network);
    }
}

/* LeNet-5 by the generator, by hand and by the builder. */
static void test_three_ways(void **state) {
    (void)state;
    static const char *const nodes[][2] = {{"conv1", "convolution,channels=6,kernel=5x5,pad=2"},
                                           {"relu1", "relu"},
                                           {"pool1", "max_pool,kernel=2"},
                                           {"conv2", "convolution,channels=16,kernel=5"},
                                           {"relu2", "relu"},
                                           {"pool2", "max_pool,kernel=2,stride=2"},
                                           {"flatten", "flatten"},
                                           {"fc1", "linear,channels=120"},
                                           {"relu3", "relu"},
                                           {"fc2", "linear,channels=84"},
                                           {"relu4", "relu"},
                                           {"fc3", "linear,channels=10,bias=1"}};
    struct ps_network_builder *builder = begin();
    struct ps_network *built, *written = open_fixture("lenet5.json"), *made = open_network("lenet5");
    int last = 0;
    for (size_t n = 0; n < sizeof nodes / sizeof *nodes; n++)
        assert_int_equal(last = ps_network_builder_node(builder, nodes[n][0], nodes[n][1], NULL, 0), n + 1);
    ps_network_builder_node(builder, "loss", "cross_entropy", &last, 1);
    assert_ok(ps_network_builder_finish(builder, &built, &test_error));
    assert_same(built, made);
    assert_same(written, made);
    assert_string_equal(built->name, "built");
    assert_string_equal(written->name, "lenet5-by-hand");
    assert_string_equal(ps_network_info(built).hash, ps_network_info(made).hash);
    ps_network_destroy(built);
    ps_network_destroy(written);
    ps_network_destroy(made);
}

/* Types of numbers have names. */
static void test_types(void **state) {
    (void)state;
    struct ps_network_builder *builder = begin();
    struct ps_network *network, *again;
    ps_network_builder_node(builder, "narrow", "cast,type=bf16", NULL, 0);
    ps_network_builder_node(builder, "wide", "cast,type=f32", NULL, 0);
    ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
    ps_network_builder_node(builder, "fc", "linear,channels=5,bias=0", NULL, 0);
    ps_network_builder_initial(builder, 4, "weight", "uniform", 0.25);
    ps_network_builder_node(builder, "loss", "cross_entropy,smoothing=0.1", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    again = read_back(network);
    assert_same(network, again);
    assert_int_equal(again->graph->nodes[1].shape.type, TYPE_BF16);
    assert_int_equal(again->graph->parameters[0].initial.kind, INITIAL_UNIFORM);
    ps_network_destroy(again);
    ps_network_destroy(network);
}

/* Whole numbers of other sides than a sequence of tokens keep them. */
static void test_whole_inputs(void **state) {
    (void)state;
    static const int64_t shapes[][4] = {{1, 5, 1, 7}, {1, 5, 2}, {2, 5, 1}, {1, 5}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct ps_network_builder *builder = ps_network_builder_create("whole");
        struct ps_network *network, *again;
        int rank = 0;
        int64_t elements = 1;
        char flat[32];
        for (; rank < 4 && shapes[i][rank] > 0; rank++) elements *= shapes[i][rank];
        snprintf(flat, sizeof flat, "view,sides=%lld", (long long)elements);
        assert_int_equal(ps_network_builder_input(builder, "real", "f32", &elements, 1), 0);
        assert_int_equal(ps_network_builder_input(builder, "whole", "i32", shapes[i], rank), 1);
        ps_network_builder_node(builder, "cast", "cast,type=f32", NULL, 0);
        ps_network_builder_node(builder, "flat", flat, NULL, 0);
        ps_network_builder_node(builder, "sum", "add", (const int[]){0, 3}, 2);
        ps_network_builder_node(builder, "fc", "linear,channels=3", NULL, 0);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        assert_ok(ps_network_builder_finish(builder, &network, &test_error));
        again = read_back(network);
        assert_same(network, again);
        ps_network_destroy(again);
        ps_network_destroy(network);
    }
}

/* What computes otherwise, or begins otherwise, has another hash. */
static void test_hash(void **state) {
    (void)state;
    static const char *const unlike[] = {"lenet5",
                                         "lenet5,classes=11",
                                         "lenet5,input=32",
                                         "vgg16",
                                         "vgg16,dropout=0",
                                         "vgg16,dropout=0.25",
                                         "vgg16,split=features.0:10",
                                         "vgg16,split=features.0:11",
                                         "gpt2,layers=1",
                                         "gpt2,layers=1,tied=1",
                                         "gnmt8,seq=5,target=4",
                                         "gnmt8,seq=4,target=5",
                                         "gnmt8,seq=4,target=5,smoothing=0.1"};
    enum { COUNT = sizeof unlike / sizeof *unlike };
    uint64_t hashes[COUNT];
    for (int i = 0; i < COUNT; i++) {
        struct ps_network *network = open_network(unlike[i]);
        hashes[i] = network->hash;
        ps_network_destroy(network);
        for (int j = 0; j < i; j++) assert_true(hashes[i] != hashes[j]);
    }
    struct ps_network *same = open_network("lenet5,input=28,classes=10");
    assert_true(same->hash == hashes[0]);
    /* Files keep it: it must be the same in all programs from now on. */
    assert_string_equal(ps_network_info(same).hash, "4700f573d1e09d25");
    ps_network_destroy(same);
}

/* Shorter ones are what the generator makes for their lengths. */
static void test_lengths(void **state) {
    (void)state;
    struct ps_network *whole = open_network("gnmt8,seq=12,target=9,hidden=8,vocab=30"), *shorter, *stepping;
    struct ps_network *made = open_network("gnmt8,seq=7,target=6,hidden=8,vocab=30"),
                      *one = open_network("gnmt8,seq=12,target=1,hidden=8,vocab=30");
    assert_ok(network_create_shorter(whole, 7, &shorter, &test_error));
    assert_same(shorter, made);
    assert_ptr_equal(shorter->graph->longest, whole->graph);
    assert_ok(network_create_stepping(whole, &stepping, &test_error));
    assert_same(stepping, one);
    ps_network_destroy(stepping);
    ps_network_destroy(shorter);
    ps_network_destroy(one);
    ps_network_destroy(made);
    ps_network_destroy(whole);
    /* What a graph has beside its nodes they have, too. */
    static const float weights[30] = {[3] = 2, [29] = 0.5f};
    whole = open_network("gnmt8,seq=12,target=9,hidden=8,vocab=30,precision=bf16");
    assert_int_equal(whole->graph->precision, TYPE_BF16);
    assert_ok(graph_weigh_classes(whole->graph, weights, 30, &test_error));
    assert_ok(network_create_shorter(whole, 7, &shorter, &test_error));
    assert_int_equal(shorter->graph->precision, TYPE_BF16);
    assert_string_equal(shorter->graph->target, whole->graph->target);
    assert_int_equal(shorter->graph->class_count, 30);
    assert_memory_equal(shorter->graph->class_weights, weights, sizeof weights);
    assert_int_equal(whole->graph->precision, TYPE_BF16);
    ps_network_destroy(shorter);
    ps_network_destroy(whole);
    whole = open_network("lenet5");
    assert_status(network_create_shorter(whole, 7, &shorter, &test_error), PS_USAGE, "no source and target");
    ps_network_destroy(whole);
}

/* A file of a network with a skip connection, and what can be read from it. */
static void test_by_hand(void **state) {
    (void)state;
    char spec[4096];
    struct ps_network *network = open_fixture("blocks.json"), *again = read_back(network), *split;
    assert_same(network, again);
    assert_int_equal(network->classes, 10);
    assert_int_equal(network->graph->nodes[7].attributes.out_w, 4);
    assert_within(network->graph->parameters[0].initial.value, 0.1f, 0);
    ps_network_destroy(again);
    snprintf(spec, sizeof spec, "%s/networks/blocks.json,split=conv1:3", TEST_DIRECTORY);
    split = open_network(spec);
    assert_string_equal(split->name, "blocks,split=conv1:3");
    assert_int_equal(split->graph->layer_count, network->graph->layer_count + 2);
    ps_network_destroy(split);
    ps_network_destroy(network);
}

#define HEAD "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"n\", "
#define INPUT "\"inputs\": [{\"name\": \"data\", \"shape\": [3, 8, 8]}], "
#define LINES(nodes) HEAD INPUT "\"nodes\": [" nodes "]}"
#define CONV "{\"name\": \"conv\", \"operator\": \"convolution\", \"channels\": 4, \"kernel\": 3}"
#define END ", {\"name\": \"flat\", \"operator\": \"flatten\"}, {\"name\": \"loss\", \"operator\": \"cross_entropy\"}"

#define ONE(name) "{\"name\": \"" name "\", \"shape\": [1]}"
#define EIGHT ONE("a") ", " ONE("b") ", " ONE("c") ", " ONE("d") ", " ONE("e") ", " ONE("f") ", " ONE("g") ", " ONE("h")

#define TARGETS(list)                                                                                                          \
    HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [2]}], \"targets\": [" list                                                \
         "], \"nodes\": [{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}"

/* A target with another name is another network; with the usual name it is the same one. */
static void test_target(void **state) {
    (void)state;
    static const char *const texts[] = {
        TARGETS("{\"name\": \"labels\", \"type\": \"i32\", \"shape\": [1]}"), TARGETS("{\"name\": \"kind\", \"shape\": [1]}"),
        HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [2]}], \"nodes\": [{\"name\": \"loss\", "
             "\"operator\": \"cross_entropy\"}]}"};
    struct ps_network *networks[3];
    for (int i = 0; i < 3; i++) {
        assert_ok(network_parse(texts[i], strlen(texts[i]), "net.json", &networks[i], &test_error));
        struct ps_network *again = read_back(networks[i]);
        assert_same(networks[i], again);
        assert_string_equal(ps_network_target(again, 0).name, i == 1 ? "kind" : "labels");
        ps_network_destroy(again);
    }
    assert_true(networks[0]->hash == networks[2]->hash);
    assert_true(networks[1]->hash != networks[2]->hash);
    for (int i = 0; i < 3; i++) ps_network_destroy(networks[i]);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        {HEAD "\"nodes\": []}", "inputs"},
        {LINES(""), "nodes: there are none"},
        {LINES(CONV), "the last node must be a loss"},
        {LINES(CONV END), "flattened image"},
        {LINES(CONV ", " CONV), "two nodes are called 'conv'"},
        {LINES("{\"name\": \"a\", \"operator\": \"convolutoin\"}"), "did you mean 'convolution'"},
        {LINES("{\"name\": \"a\", \"operator\": \"opaque\"}"), "'opaque' is not known"},
        {LINES("{\"name\": \"a\", \"operator\": \"relu\", \"inputs\": [\"dato\"]}"), "did you mean 'data'"},
        {LINES("{\"name\": \"a\", \"operator\": \"relu\", \"inputs\": [\"a\"]}"), "no node before this one"},
        {LINES("{\"name\": \"a\", \"operator\": \"convolution\", \"channels\": 4}"), "kernel"},
        {LINES("{\"name\": \"a\", \"operator\": \"convolution\", \"channel\": 4, \"kernel\": 3}"), "did you mean 'channels'"},
        {LINES("{\"name\": \"a\", \"operator\": \"convolution\", \"channels\": 99999999, \"kernel\": 3}"), "nodes[0].channels"},
        {LINES("{\"name\": \"a\", \"operator\": \"convolution\", \"channels\": 4, \"kernel\": [3, 3, 3]}"), "two: [height"},
        {LINES("{\"name\": \"a\", \"operator\": \"convolution\", \"channels\": 4, \"kernel\": 9}"), "does not fit"},
        {LINES("{\"name\": \"a\", \"operator\": \"dropout\", \"rate\": 1.5}"), "rate"},
        {LINES(
             "{\"name\": \"a/b\", \"operator\": \"batch_norm\"}, {\"name\": \"a/c\", \"operator\": \"batch_norm\"}, "
             "{\"name\": \"p\", \"operator\": \"average_pool\", \"kernel\": 8}, {\"name\": \"f\", \"operator\": \"flatten\"}, "
             "{\"name\": \"loss\", \"operator\": \"cross_entropy\"}"),
         "parameter 'a.bias'"},
        {LINES("{\"name\": \"\", \"operator\": \"relu\"}"), "name"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"initial\": {\"wait\": {\"normal\": 1}}}"),
         "known: weight, bias"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"initial\": {\"weight\": {\"norm\": 1}}}"),
         "did you mean 'normal'"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"initial\": {\"weight\": {\"normal\": -1}}}"), "not below 0"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"tied_to\": \"data\"}"), "cannot share"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"part\": {\"of\": \"b\", \"first\": 1, \"rows\": 3}}"),
         "do not hold"},
        {LINES("{\"name\": \"a\", \"operator\": \"embedding\", \"channels\": 3, \"vocabulary\": 9}"), "i32 is accepted"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [1, 2]}], \"nodes\": [" CONV "]}", "must be an image"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [1, 2, 1, 1, 1, 1, 2]}], \"nodes\": [" CONV "]}", "7 sides; 1 to 6"},
        {HEAD "\"inputs\": [], \"nodes\": [" CONV "]}", "0 of them; a network has 1 to 8"},
        {HEAD "\"inputs\": [" EIGHT ", " ONE("i") "], \"nodes\": [" CONV "]}", "9 of them; a network has 1 to 8"},
        {HEAD "\"inputs\": [" ONE("a") ", " ONE("a") "], \"nodes\": [" CONV "]}", "inputs[1]: name: two nodes are called 'a'"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"type\": \"bf16\", \"shape\": [2]}], \"nodes\": [" CONV "]}",
         "'bf16' is not known; f32 and i32 are"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [1, 9000000000, 9]}], \"nodes\": [" CONV "]}", "9000000000"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [16777216, 1048576, 1048576]}], \"nodes\": [" CONV "]}", "elements"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"type\": \"f64\", \"shape\": [1]}], \"nodes\": [" CONV "]}",
         "'f64' is not known"},
        {TARGETS(""), "0 of them; a network has one, which its loss reads"},
        {TARGETS(ONE("a") ", " ONE("b")), "2 of them; a network has one"},
        {TARGETS("{\"name\": \"a\", \"type\": \"f32\", \"shape\": [1]}"), "target 'a': it is 1, but the loss reads 1 i32"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1, 1]}"), "target 'a': it is 1x1 i32, but the loss reads 1 i32"},
        {TARGETS("{\"name\": \"a\", \"shape\": [2]}"), "target 'a': it is 2 i32, but the loss reads 1 i32"},
        {TARGETS("{\"name\": \"a\", \"type\": \"f64\", \"shape\": [1]}"), "'f64' is not known; i32, for labels, and f32 are"},
        {TARGETS("{\"name\": \"a\", \"shape\": [0]}"), "target 'a': shape: 0 is not from 1"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1], \"class_weights\": [1, 2, 3]}"), "3 class weights, but it has 2 classes"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1], \"class_weights\": [1, -2]}"), "weight -2 of class 1"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1], \"class_weights\": [0, 0]}"), "the weights of all classes are 0"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1], \"class_weights\": [1, \"x\"]}"), "must be a number"},
        {TARGETS("{\"name\": \"/\", \"shape\": [1]}"), "a name has 1 to 63 bytes of UTF-8"},
        {HEAD "\"predicts\": \"token\", " INPUT "\"nodes\": [" CONV "]}", "did you mean 'tokens'"},
        {LINES("{\"name\": \"a\", \"operator\": \"relu\", \"inputs\": []}"), "nodes[0].inputs: 0 names; 1 to 64 are accepted"},
        {LINES("{\"name\": \"a\", \"operator\": \"view\", \"sides\": []}"), "nodes[0].sides: 0 numbers; 1 to 6 are accepted"},
        {LINES("{\"name\": \"a\", \"operator\": \"view\", \"sides\": [0.5]}"), "nodes[0].sides[0]: must be an integer"},
        {LINES("{\"name\": \"a\", \"operator\": \"unary\", \"kind\": \"sine\"}"), "'sine' is not known"},
        {LINES("{\"name\": \"a\", \"operator\": \"unary\", \"kind\": \"sine\"}"), "known: sigmoid, tanh"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"initial\": 1}"), "must be an object, parameters by name"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"initial\": {\"weight\": 1}}"),
         "initial.weight: must be an object with one field"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"parameters\": {\"wieght\": \"b\"}}"),
         "did you mean 'weight'"},
        {LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", \"initial\": {\"weight\": {\"normal\": true}}}"),
         "normal: must be a number"},
        {"[[[[", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ps_network *network = NULL;
        enum ps_status status = network_parse(cases[i].text, strlen(cases[i].text), "net.json", &network, &test_error);
        assert_status(status, PS_BAD_INPUT, cases[i].said);
    }
}

/* Where a file is wrong, and what is wrong there, to the letter. */
static void test_places(void **state) {
    (void)state;
#define N16 "nnnnnnnnnnnnnnnn"
#define N127 N16 N16 N16 N16 N16 N16 N16 "nnnnnnnnnnnnnnn"
#define FIELD(field) LINES("{\"name\": \"a\", \"operator\": \"batch_norm\", " field "}")
    static const struct {
        const char *text, *said;
    } cases[] = {
        {FIELD("\"inputs\": 3"), "net.json: nodes[0].inputs: must be an array, not an integer"},
        {FIELD("\"inputs\": [3]"), "net.json: nodes[0].inputs[0]: must be the name of a node"},
        {FIELD("\"frozen\": 3"), "net.json: nodes[0].frozen: must be an array, not an integer"},
        {FIELD("\"frozen\": [3]"), "net.json: nodes[0].frozen[0]: must be the name of a parameter"},
        {FIELD("\"frozen\": [\"weight\", \"wait\"]"), "net.json: nodes[0].frozen[1]: node 'a': parameter: 'wait' is not known"},
        {FIELD("\"parameters\": 3"), "net.json: nodes[0].parameters: must be an object, names by parameters"},
        {FIELD("\"parameters\": {\"weight\": 3}"), "net.json: nodes[0].parameters.weight: must be a string, not an integer"},
        {FIELD("\"parameters\": {\"weight\": \"\"}"),
         "net.json: node 'a' (batch_norm): the last node must be a loss, as cross_entropy"},
        {FIELD("\"parameters\": {\"weight\": \"" N127 "\"}"),
         "net.json: node 'a' (batch_norm): the last node must be a loss, as cross_entropy"},
        {FIELD("\"parameters\": {\"weight\": \"" N127 "n\"}"),
         "net.json: nodes[0].parameters: parameter 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn...': the name is longer "
         "than 127 characters"},
        {FIELD("\"parameters\": {\"wait\": \"w\"}"), "net.json: nodes[0].parameters: node 'a': parameter: 'wait' is not known"},
        {FIELD("\"initial\": {\"wait\": {\"normal\": 1}}"),
         "net.json: nodes[0].initial.wait: node 'a': parameter: 'wait' is not known"},
        {FIELD("\"tied_to\": 3"), "net.json: nodes[0].tied_to: must be the name of a node"},
        {FIELD("\"tied_to\": \"b\""), "net.json: nodes[0].tied_to: no node before this one is called 'b'"},
        {FIELD("\"tied_to\": \"data\""), "net.json: nodes[0].tied_to: node 'a': cannot share a parameter with 'data': both "
                                         "must have some, and that stand before"},
        {FIELD("\"tied_to\": {\"weight\": 3}"), "net.json: nodes[0].tied_to.weight: must be a string, not an integer"},
        {FIELD("\"tied_to\": {\"weight\": \"b.weight\"}"),
         "net.json: nodes[0].tied_to.weight: node 'a': weight: no node before it has a parameter 'b.weight'"},
        {FIELD("\"part\": 3"), "net.json: nodes[0].part: must be an object, not an integer"},
        {FIELD("\"part\": {\"first\": 1, \"rows\": 3}"), "net.json: nodes[0].part.of: is missing"},
        {FIELD("\"part\": {\"of\": \"b\", \"rows\": 3}"), "net.json: nodes[0].part.first: is missing"},
        {FIELD("\"part\": {\"of\": \"b\", \"first\": 1}"), "net.json: nodes[0].part.rows: is missing"},
        {FIELD("\"part\": {\"of\": \"b\", \"first\": 1, \"rows\": 0}"),
         "net.json: nodes[0].part.rows: 0 is not an integer from 1 to 16777216"},
        {FIELD("\"part\": {\"of\": \"b\", \"first\": -1, \"rows\": 1}"),
         "net.json: nodes[0].part.first: -1 is not an integer from 0 to 16777216"},
        {FIELD("\"part\": {\"of\": \"b\", \"first\": 1, \"rows\": 3}"),
         "net.json: nodes[0].part: node 'a': rows from 1 of 3 do not hold its 3"},
        {FIELD("\"random\": -1"), "net.json: nodes[0].random: -1 is not an integer from 0 to 2147483647"},
        {FIELD("\"random\": \"x\""), "net.json: nodes[0].random: must be an integer from 0 to 2147483647, not a string"},
        {FIELD("\"epsilon\": \"x\""), "net.json: nodes[0].epsilon: must be a number from 0 to 1e+06, not a string"},
        {FIELD("\"epsilon\": 2e6"), "net.json: nodes[0].epsilon: 2e+06 is not a number from 0 to 1e+06"},
        {FIELD("\"double_precision\": 1"), "net.json: nodes[0].double_precision: must be true or false, not an integer"},
        {LINES("3"), "net.json: nodes[0]: must be an object, not an integer"},
        {LINES("{\"name\": 3, \"operator\": \"relu\"}"), "net.json: nodes[0].name: must be a string, not an integer"},
        {LINES("{\"name\": \"a\"}"), "net.json: nodes[0].operator: is missing"},
        {LINES("{\"name\": \"a\", \"operator\": \"view\"}"), "net.json: nodes[0].sides: is missing"},
        {LINES("{\"name\": \"a\", \"operator\": \"unary\"}"), "net.json: nodes[0].kind: is missing"},
        {LINES("{\"name\": \"a\", \"operator\": \"unary\", \"kind\": 3}"),
         "net.json: nodes[0].kind: must be a string, not an integer"},
        {TARGETS("3"), "net.json: targets[0]: must be an object, not an integer"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1], \"class_weights\": 3}"),
         "net.json: targets[0].class_weights: must be an array, not an integer"},
        {TARGETS("{\"name\": \"a\", \"shape\": [1], \"class_weights\": [1, -2]}"),
         "net.json: targets[0].class_weights: weight -2 of class 1: numbers from 0 are accepted"},
        {TARGETS("{\"name\": \"a\", \"shape\": [\"x\"]}"), "net.json: targets[0].shape[0]: must be an integer"},
        {TARGETS("{\"name\": \"a\", \"shape\": 1}"), "net.json: targets[0].shape: must be an array, not an integer"},
        {TARGETS("{\"name\": \"a\"}"), "net.json: targets[0].shape: is missing"},
        {HEAD "\"predicts\": 3, " INPUT "\"nodes\": [" CONV "]}", "net.json: predicts: must be a string, not an integer"},
        {HEAD "\"precision\": \"f16\", " INPUT "\"nodes\": [" CONV "]}",
         "net.json: precision: 'f16': f32, bf16 and mixed are accepted"},
        {HEAD "\"precision\": 3, " INPUT "\"nodes\": [" CONV "]}", "net.json: precision: must be a string, not an integer"},
        {HEAD "\"values\": 3, " INPUT "\"nodes\": [" CONV "]}", "net.json: values: must be a string, not an integer"},
        {HEAD "\"inputs\": 3, \"nodes\": [" CONV "]}", "net.json: inputs: must be an array, not an integer"},
        {HEAD "\"inputs\": [3], \"nodes\": [" CONV "]}", "net.json: inputs[0]: must be an object, not an integer"},
        {HEAD "\"inputs\": [{\"name\": \"d\", \"shape\": [4096, 4096, 4097]}], \"nodes\": [" CONV "]}",
         "net.json: inputs[0]: node 'd' (input): its output would have more than 68719476736 elements"},
        {HEAD INPUT "\"nodes\": 3}", "net.json: nodes: must be an array, not an integer"},
        {HEAD INPUT "\"nods\": []}", "net.json: field 'nods' is not known; did you mean 'nodes'?"},
    };
#undef FIELD
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ps_network *network = NULL;
        enum ps_status status = network_parse(cases[i].text, strlen(cases[i].text), "net.json", &network, &test_error);
        assert_int_equal(status, PS_BAD_INPUT);
        assert_string_equal(test_error.message, cases[i].said);
    }
}

/* Parameters of one tensor, fixed ones, other names and initial values, class weights, and words for the target. */
static struct ps_network *shared(void) {
    struct ps_network_builder *builder = ps_network_builder_create("shared");
    struct ps_network *network;
    assert_int_equal(ps_network_builder_input(builder, "x", "f32", (const int64_t[]){2}, 1), 0);
    const int a = ps_network_builder_node(builder, "a", "linear,channels=2", NULL, 0);
    ps_network_builder_initial(builder, a, "bias", "constant", 0.5);
    ps_network_builder_initial(builder, a, "weight", "normal", 0.1);
    const int b = ps_network_builder_node(builder, "b", "linear,channels=2", NULL, 0); /* its bias alone is another's */
    ps_network_builder_share(builder, b, "bias", "a.bias");
    const int c = ps_network_builder_node(builder, "c", "linear,channels=2,bias=0", NULL, 0);
    ps_network_builder_tie(builder, c, a);
    const int d = ps_network_builder_node(builder, "d", "linear,channels=2", NULL, 0); /* both are */
    ps_network_builder_share(builder, d, "weight", "b.weight");
    ps_network_builder_share(builder, d, "bias", "a.bias");
    const int e = ps_network_builder_node(builder, "e", "linear,channels=2", NULL, 0); /* its weight alone is */
    ps_network_builder_tie(builder, e, b);
    ps_network_builder_node(builder, "fixed", "binary,kind=mul,sides=2,trained=false", NULL, 0);
    ps_network_builder_node(builder, "sum", "add", (const int[]){a, e + 1}, 2);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    ps_network_builder_target(builder, "kind", "i32", (const int64_t[]){1}, 1);
    ps_network_builder_class_weights(builder, (const float[]){0.5f, 2}, 2);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    return network;
}

/* What the files say of networks that need all that files can have. */
static void test_written(void **state) {
    (void)state;
    static const char *const specs[] = {"gpt2,layers=1,width=4,heads=2,vocab=5,seq=3,tied=1,precision=bf16",
                                        "bert48,layers=1,width=4,heads=2,vocab=5,seq=3",
                                        "vgg16,blocks=1,shrink=16,input=8,split=features.0:2,precision=mixed",
                                        "gnmt-l,layers=4,hidden=2,vocab=5,seq=3,target=2"};
    struct text text = {0};
    for (int n = -2; n < (int)(sizeof specs / sizeof *specs); n++) {
        struct ps_network *network = n < 0 ? shared() : open_network(specs[n]);
        if (n == -1) assert_ok(ps_network_freeze(network, "a.weight,b.*", &test_error));
        char *json = ps_network_json(network);
        assert_non_null(json);
        text_add(&text, "%s", json);
        free(json);
        struct ps_network *again = read_back(network);
        assert_same(network, again);
        ps_network_destroy(again);
        ps_network_destroy(network);
    }
    test_golden(TEST_DIRECTORY "/golden/networks.txt", text_take(&text));
}

/* Another loss, and what of the network stays. */
static void test_other_losses(void **state) {
    (void)state;
    static const float weights[] = {1, 3};
    struct ps_network *network = shared();
    /* Its own loss with other weights: the target keeps its name. */
    assert_ok(ps_network_set_loss(network, NULL, weights, 2, &test_error));
    assert_string_equal(ps_network_target(network, 0).name, "kind");
    assert_int_equal(network->graph->class_count, 2);
    assert_memory_equal(network->graph->class_weights, weights, sizeof weights);
    /* The same one said: the weights stay. */
    assert_ok(ps_network_set_loss(network, "cross-entropy", NULL, 0, &test_error));
    assert_memory_equal(network->graph->class_weights, weights, sizeof weights);
    /* Another one has no classes; the precision stays. */
    assert_ok(ps_network_set_precision(network, "bf16", &test_error));
    assert_ok(ps_network_set_loss(network, "l1", NULL, 0, &test_error));
    assert_int_equal(network->graph->precision, PRECISION_BF16);
    assert_null(network->graph->class_weights);
    const struct ps_input target = ps_network_target(network, 0);
    assert_string_equal(target.name, "kind");
    assert_string_equal(target.type, "f32");
    assert_int_equal(target.shape[0], 2);
    assert_string_equal(network->graph->nodes[network->graph->node_count - 1].name, "loss");
    ps_network_destroy(network);
    /* Where a node is called so the loss has another name, one letter longer. */
    static const char *const names[] = {"loss", "loss_", "loss__"};
    for (int taken = 0; taken < 3; taken++) {
        struct ps_network_builder *builder = begin();
        ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
        for (int n = 0; n < taken; n++) ps_network_builder_node(builder, names[n], "linear,channels=3", NULL, 0);
        ps_network_builder_node(builder, "end", "cross_entropy", NULL, 0);
        assert_int_equal(ps_network_builder_finish(builder, &network, &test_error), taken > 0 ? PS_OK : PS_USAGE);
        if (taken == 0) {
            test_error = (struct ps_error){0};
            continue;
        }
        assert_ok(ps_network_set_loss(network, "bce", NULL, 0, &test_error));
        assert_string_equal(network->graph->nodes[network->graph->node_count - 1].name, names[taken]);
        ps_network_destroy(network);
    }
}

static void test_names(void **state) {
    (void)state;
    enum { LONG = 63 }; /* a node's name may have so many characters */
    char name[LONG + 2], model[9000];
    struct ps_network *network;
    for (int over = 0; over < 2; over++) {
        memset(name, 'n', sizeof name);
        name[LONG + over] = '\0';
        struct ps_network_builder *builder = begin();
        ps_network_builder_node(builder, name, "flatten", NULL, 0);
        ps_network_builder_node(builder, "fc", "linear,channels=3", NULL, 0);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        if (!over) {
            assert_ok(ps_network_builder_finish(builder, &network, &test_error));
            ps_network_destroy(network);
        } else {
            assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE,
                          ": the name is longer than 63 characters");
        }
    }
    static const char *const wrong[] = {"", "/a", "a\nb", "a\x7f", "a\xc2\x9b", "\xef\xbf\xbe"};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_network_builder *builder = begin();
        ps_network_builder_node(builder, wrong[w], "flatten", NULL, 0);
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE,
                      "node 1: a name must be UTF-8 with letters, no control characters, and may not begin with '/'");
    }
    /* The network's own. */
    for (int over = 0; over < 2; over++) {
        memset(model, 'm', sizeof model);
        model[NETWORK_NAME_SIZE - 1 + over] = '\0';
        struct ps_network_builder *builder = ps_network_builder_create(model);
        ps_network_builder_input(builder, "x", "f32", (const int64_t[]){2}, 1);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        if (!over) {
            assert_ok(ps_network_builder_finish(builder, &network, &test_error));
            assert_string_equal(ps_network_info(network).name, model);
            assert_status(ps_network_set_precision(network, "bf16", &test_error), PS_USAGE,
                          "model: 'mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm...' is longer than");
            assert_ok(ps_network_set_precision(network, "f32", &test_error));
            ps_network_destroy(network);
        } else {
            assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE,
                          "model: 'mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm...' is longer than");
        }
    }
    static const char *const controls[] = {"two\nlines", "a\x7f", "\xc2\x85", "\xc2\x9b[31m", "\xef\xbf\xbf"};
    for (size_t c = 0; c < sizeof controls / sizeof *controls; c++) {
        struct ps_network_builder *builder = ps_network_builder_create(controls[c]);
        ps_network_builder_input(builder, "x", "f32", (const int64_t[]){2}, 1);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE,
                      "model: a name has a control character");
    }
}

/* Patterns that no parameter's name is like, with the names that there are, at most eight. */
static void test_patterns(void **state) {
    (void)state;
    struct ps_network *network = shared();
    assert_status(
        ps_network_freeze(network, "a.*,z*", &test_error), PS_USAGE,
        "`freeze`: no parameter has a name like 'z*'\nthere are a.weight, a.bias, b.weight, a.bias, a.weight, b.weight, "
        "a.bias, b.weight and 2 others");
    assert_status(ps_network_freeze(network, "a.*,", &test_error), PS_USAGE, "`freeze`: no parameter has a name like ''");
    ps_network_destroy(network);
    network = open_fixture("lenet5.json");
    assert_status(
        ps_network_freeze(network, "conv", &test_error), PS_USAGE,
        "`freeze`: no parameter has a name like 'conv'\nthere are conv1.weight, conv1.bias, conv2.weight, conv2.bias, "
        "fc1.weight, fc1.bias, fc2.weight, fc2.bias and 2 others");
    assert_status(ps_network_set_precision(network, "bf15", &test_error), PS_USAGE,
                  "precision: 'bf15' is not known; did you mean 'bf16'?");
    ps_network_destroy(network);
    assert_status(ps_network_open("lenet5,precision=float32", &network, &test_error), PS_USAGE,
                  "precision: 'float32' is not known");
    assert_status(ps_network_open("lenet5,precision=bfloat16,input=16", &network, &test_error), PS_USAGE,
                  "precision: 'bfloat16' is not known\nknown: f32, bf16, mixed, auto");
}

/* Whatever is called after a failure changes nothing: what failed first is told. */
static void call_all(struct ps_network_builder *builder) {
    static const int64_t sides[7] = {1, 1, 1, 1, 1, 1, 1};
    const int first = 0;
    assert_int_equal(ps_network_builder_input(builder, "wide", "f33", sides, 7), -1);
    assert_int_equal(ps_network_builder_node(builder, "y", "relo", &first, 1), -1);
    ps_network_builder_initial(builder, -1, "weight", "normal", 1);
    ps_network_builder_share(builder, -1, "weight", "z.weight");
    ps_network_builder_tie(builder, -1, -1);
    ps_network_builder_target(builder, "t", "i33", sides, 0);
    ps_network_builder_class_weights(builder, (const float[]){1}, 1);
    ps_network_builder_predicts(builder, "token");
}

static void test_builder_refuses(void **state) {
    (void)state;
    static const struct {
        const char *node, *said;
    } cases[] = {
        {"convolution,channels=6", "node 'x': kernel is missing"},
        {"convolution,chanels=6,kernel=5", "did you mean 'channels'"},
        {"convolution,channels=6,kernel=5y", "kernel=5y: is no number"},
        {"convolution,channels=0,kernel=5", "channels: 0"},
        {"convolution,channels=6,kernel=5,colour=3", "colour"},
        {"convolutions,channels=6", "did you mean 'convolution'"},
        {"dropout,rate=nan", "rate"},
        {"embedding,channels=2,vocabulary=3", "i32 is accepted"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ps_network_builder *builder = begin();
        struct ps_network *network;
        int node = ps_network_builder_node(builder, "x", cases[i].node, NULL, 0);
        assert_int_equal(node, -1);
        assert_int_equal(ps_network_builder_node(builder, "y", "relu", &node, 1), -1); /* what failed first is told */
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, cases[i].said);
    }
    struct ps_network_builder *builder = begin();
    struct ps_network *network;
    ps_network_builder_node(builder, "x", "cast,type=bf8", NULL, 0);
    assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, "known: f32, bf16, i32");
    builder = begin();
    ps_network_builder_node(builder, "x", "relu", (const int[]){7}, 1);
    assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, "node 'x': input 0: 7");
    ps_network_builder_destroy(begin());

    /* What a call cannot have, and what the network says of it. */
    enum {
        SHARE,
        MANY_INPUTS,
        LATE_INPUT,
        SIDES,
        INITIAL,
        TARGET_SIDES,
        TARGETS_TWICE,
        ONE_WEIGHT,
        NO_INPUT,
        NINE_INPUTS,
        TIE_SHAPES,
        TIE_STATISTIC,
        TIE_LATER,
        NUMBERS_FOR_TOKENS,
        NUMBERS_FOR_WEIGHTS,
        MASKED_WITHOUT_TOKENS,
        ONE_CLASS,
        PREDICTS,
        INITIAL_KIND,
        INITIAL_INFINITE,
        LARGE_OUTPUT,
        LARGE_PARAMETER,
        CALLS
    };
    static const char *const says[CALLS] = {
        [SHARE] = "node 'x': weight: no node before it has a parameter 'y.weight'",
        [MANY_INPUTS] = "node 'x': 65 inputs; up to 64 are accepted",
        [LATE_INPUT] = "node 'late': inputs of the network must be added before its nodes",
        [SIDES] = "input 'wide': a shape of 7 sides; 1 to 6 are accepted",
        [INITIAL] = "-1 is not the number of a node",
        [TARGET_SIDES] = "target 't': a shape of 0 sides; 1 to 6 are accepted",
        [TARGETS_TWICE] = "target 'again': there is one already; a loss reads one",
        [ONE_WEIGHT] = "1 class weights: from 2 to 16777216 are accepted",
        [NO_INPUT] = "node 'x': the data must be added before",
        [NINE_INPUTS] = "a network may have 8 inputs",
        [TIE_SHAPES] = "node 'y': cannot share parameter 'x.weight': only trained parameters of the same shape can be one",
        [TIE_STATISTIC] =
            "node 'y': cannot share parameter 'x.running_mean': only trained parameters of the same shape can be one",
        [TIE_LATER] = "node 'x': cannot share a parameter with 'x': both must have some, and that stand before",
        [NUMBERS_FOR_TOKENS] = "node 'loss' (mse): predicted tokens need cross_entropy, which reads labels",
        [NUMBERS_FOR_WEIGHTS] = "node 'loss' (mse): class weights need cross_entropy, which reads labels",
        [MASKED_WITHOUT_TOKENS] = "node 'data': a network of tokens needs an embedding that reads them",
        [ONE_CLASS] = "node 'loss': 1 classes; from 2 to 16777216 are accepted",
        [PREDICTS] = "predicts: 'tokes' is not known; did you mean 'tokens'?",
        [INITIAL_KIND] = "node 'x': initial values: 'norm' is not known; did you mean 'normal'?",
        [INITIAL_INFINITE] = "node 'x': weight: inf: a finite number, for uniform and normal not below 0, is accepted",
        [LARGE_OUTPUT] = "node 'x' (resize): its output would have more than 68719476736 elements",
        [LARGE_PARAMETER] = "node 'x' (linear): its weight would have more than 68719476736 elements",
    };
    /* What only the whole network shows. */
    static const bool late[CALLS] = {[TIE_SHAPES] = true,          [TIE_STATISTIC] = true,         [NUMBERS_FOR_TOKENS] = true,
                                     [NUMBERS_FOR_WEIGHTS] = true, [MASKED_WITHOUT_TOKENS] = true, [ONE_CLASS] = true};
    static const int64_t sides[7] = {1, 1, 1, 1, 1, 1, 1};
    for (int call = 0; call < CALLS; call++) {
        builder = begin();
        int inputs[65] = {0}, node;
        switch (call) {
        case SHARE:
            node = ps_network_builder_node(builder, "x", "batch_norm", NULL, 0);
            ps_network_builder_share(builder, node, "weight", "y.weight");
            break;
        case MANY_INPUTS:
            ps_network_builder_node(builder, "x", "concat", inputs, 65);
            break;
        case LATE_INPUT:
            ps_network_builder_node(builder, "x", "relu", NULL, 0);
            ps_network_builder_input(builder, "late", "f32", sides, 3);
            break;
        case SIDES:
            ps_network_builder_input(builder, "wide", "f32", sides, 7);
            break;
        case INITIAL:
            ps_network_builder_initial(builder, -1, "weight", "normal", 1);
            break;
        case TARGET_SIDES:
            ps_network_builder_target(builder, "t", "i32", sides, 0);
            break;
        case TARGETS_TWICE:
            ps_network_builder_target(builder, "t", "i32", sides, 1);
            ps_network_builder_target(builder, "again", "i32", sides, 1);
            break;
        case ONE_WEIGHT:
            ps_network_builder_class_weights(builder, (const float[]){1}, 1);
            break;
        case NO_INPUT:
            ps_network_builder_destroy(builder);
            builder = ps_network_builder_create("empty");
            ps_network_builder_node(builder, "x", "relu", NULL, 0);
            break;
        case NINE_INPUTS:
            for (int i = 1; i < 9; i++)
                ps_network_builder_input(builder, (const char[]){(char)('a' + i), '\0'}, "f32", sides, 1);
            break;
        case TIE_SHAPES:
            node = ps_network_builder_node(builder, "x", "batch_norm", NULL, 0);
            ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
            ps_network_builder_tie(builder, ps_network_builder_node(builder, "y", "linear,channels=2", NULL, 0), node);
            ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
            break;
        case TIE_STATISTIC:
            ps_network_builder_node(builder, "x", "batch_norm", NULL, 0);
            node = ps_network_builder_node(builder, "y", "batch_norm", NULL, 0);
            ps_network_builder_share(builder, node, "running_mean", "x.running_mean");
            ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
            break;
        case TIE_LATER:
            node = ps_network_builder_node(builder, "x", "batch_norm", NULL, 0);
            ps_network_builder_tie(builder, node, node);
            break;
        case NUMBERS_FOR_TOKENS:
        case NUMBERS_FOR_WEIGHTS:
            if (call == NUMBERS_FOR_TOKENS)
                ps_network_builder_predicts(builder, "tokens");
            else
                ps_network_builder_class_weights(builder, (const float[]){1, 2}, 2);
            ps_network_builder_node(builder, "loss", "mse", NULL, 0);
            break;
        case MASKED_WITHOUT_TOKENS:
            ps_network_builder_predicts(builder, "masked_tokens");
            ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
            ps_network_builder_node(builder, "fc", "linear,channels=2", NULL, 0);
            ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
            break;
        case ONE_CLASS:
            ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
            ps_network_builder_node(builder, "fc", "linear,channels=1", NULL, 0);
            ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
            break;
        case PREDICTS:
            ps_network_builder_predicts(builder, "tokes");
            break;
        case INITIAL_KIND:
        case INITIAL_INFINITE:
            node = ps_network_builder_node(builder, "x", "batch_norm", NULL, 0);
            ps_network_builder_initial(builder, node, "weight", call == INITIAL_KIND ? "norm" : "constant", INFINITY);
            break;
        case LARGE_OUTPUT:
            ps_network_builder_node(builder, "x", "resize,out=1048576x65537", NULL, 0);
            break;
        case LARGE_PARAMETER:
            ps_network_builder_node(builder, "y", "resize,out=1x4097", NULL, 0);
            ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
            ps_network_builder_node(builder, "x", "linear,channels=16777216", NULL, 0);
            break;
        }
        if (!late[call]) call_all(builder);
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, says[call]);
    }
}

/* A value of as many elements as there may be. */
static void test_largest_value(void **state) {
    (void)state;
    struct ps_network *network;
    struct ps_network_builder *builder = ps_network_builder_create("large");
    ps_network_builder_input(builder, "x", "f32", (const int64_t[]){4096, 4096, 4096}, 3);
    ps_network_builder_node(builder, "mean", "average_pool,kernel=4096", NULL, 0);
    ps_network_builder_node(builder, "flat", "flatten", NULL, 0);
    ps_network_builder_node(builder, "fc", "linear,channels=2", NULL, 0);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    ps_network_destroy(network);
}

/* As many labels as there may be, and one more. */
static void test_largest_target(void **state) {
    (void)state;
    static const int64_t images[2][3] = {{2, 16385, 16383}, {2, 16384, 16384}};
    for (int over = 0; over < 2; over++) {
        struct ps_network *network;
        struct ps_network_builder *builder = ps_network_builder_create("large");
        ps_network_builder_input(builder, "x", "f32", images[over], 3);
        ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
        const enum ps_status status = ps_network_builder_finish(builder, &network, &test_error);
        if (over)
            assert_status(status, PS_USAGE, "node 'loss': a target of 268435456 elements is too large");
        else
            assert_ok(status);
        if (!over) ps_network_destroy(network);
    }
}

/* A network whose values cross too many cuts: each of the first half is read in the second, the last one first. */
static void test_crossings(void **state) {
    (void)state;
    enum { HALF = 8194 };
    static int nodes[HALF];
    char name[32], said[128];
    struct ps_network *network;
    struct ps_network_builder *builder = ps_network_builder_create("deep");
    int last = ps_network_builder_input(builder, "x", "f32", (const int64_t[]){2}, 1);
    for (int n = 0; n < HALF; n++) {
        snprintf(name, sizeof name, "a%d", n);
        last = nodes[n] = ps_network_builder_node(builder, name, "linear,channels=2,bias=0", &last, 1);
    }
    for (int n = HALF - 2; n >= 0; n--) {
        snprintf(name, sizeof name, "b%d", n);
        last = ps_network_builder_node(builder, name, "add", (const int[]){nodes[n], last}, 2);
    }
    ps_network_builder_node(builder, "loss", "cross_entropy", &last, 1);
    /* Each node is a layer, with the last one's the loss; a value crosses all cuts from its own to the one before its last
     * reader's. */
    int64_t crossings = 1;
    for (int n = 0; n < HALF; n++) crossings += n < HALF - 1 ? 2 * (HALF - 1 - n) : 1;
    crossings += HALF - 2;
    snprintf(said, sizeof said, "its values cross the cuts between layers %lld times; at most 67108864 are accepted",
             (long long)crossings);
    assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),     cmocka_unit_test(test_general),        cmocka_unit_test(test_usual),
        cmocka_unit_test(test_three_ways),    cmocka_unit_test(test_hash),           cmocka_unit_test(test_types),
        cmocka_unit_test(test_whole_inputs),  cmocka_unit_test(test_lengths),        cmocka_unit_test(test_target),
        cmocka_unit_test(test_by_hand),       cmocka_unit_test(test_refused),        cmocka_unit_test(test_builder_refuses),
        cmocka_unit_test(test_written),       cmocka_unit_test(test_other_losses),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_patterns),      cmocka_unit_test(test_places),         cmocka_unit_test(test_crossings),
        cmocka_unit_test(test_largest_value), cmocka_unit_test(test_largest_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
