/*
 * One network written in two ways, the second in plain steps: both have the same loss and gradients. A line of a graph is
 * "output Operator input .. attribute=value ..": an input "i:1,2" is a constant of whole numbers, an attribute a number, a list
 * in brackets or 'text'.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "chain.h"
#include "graph/network.h"
#include "onnx/onnx.h"
#include "onnx_support.h"

enum { SAMPLES = 3, CLASSES = 4 };

/* Scores of the positions among each other; a condition that some meet, the first one always, as a number and as what is left
 * to 1; and the weighed mean. */
#define UNSEEN                                                                                                                 \
    "g ReduceSum x i:2 keepdims=0; h Unsqueeze g i:1; z Cast i:0 to=1; m1 Greater h z; c1 Cast i:1,0,0,0,0 to=9; "             \
    "m Or m1 c1; f Cast m to=1; e Cast i:1 to=1; j Sub e f; u Transpose x perm=[0,2,1]; s MatMul x u; "
#define WEIGHED "a Softmax w axis=-1; t MatMul a x; y ReduceSum t i:1 keepdims=0; p MatMul y o"

static const struct {
    const char *name, *parameters[4]; /* "name 2,3" */
    const char *input;
    const char *graphs[2];
} cases[] = {
    {"product of two values",
     {"w 6,4"},
     "5,6",
     {"s Einsum x x equation='bik,bjk->bij'; t MatMul s x; p Einsum t w equation='bik,ko->bo'",
      "u Transpose x perm=[0,2,1]; s MatMul x u; t MatMul s x; y ReduceSum t i:1 keepdims=0; p MatMul y w"}},
    {"sum over one input's letter, the output turned",
     {"w 6,4"},
     "5,6",
     {"t Einsum x w equation=' btk , ko '; q Einsum t equation='bot->otb'; p Einsum q equation='otb->bo'",
      "t MatMul x w; p ReduceSum t i:1 keepdims=0"}},
    {"blocks of pixels",
     {"w 3,4"},
     "12,2,3",
     {"s DepthToSpace x blocksize=2 mode='CRD'; d SpaceToDepth s blocksize=2; c GlobalAveragePool s; f Flatten c; "
      "g ReduceSum d i:1,2,3 keepdims=1; h Flatten g; m MatMul f w; p Add m h",
      "a Reshape x i:3,3,2,2,2,3; b Transpose a perm=[0,1,4,2,5,3]; s Reshape b i:3,3,4,6; c ReduceMean s axes=[2,3] "
      "keepdims=0; "
      "g ReduceSum x i:1,2,3 keepdims=1; h Flatten g; m MatMul c w; p Add m h"}},
    {"a parameter repeated for all samples",
     {"q 1,5,6", "w 6,6", "o 6,4"},
     "5,6",
     {"e Expand q i:3,5,6; l MatMul e w; u Transpose x perm=[0,2,1]; s MatMul l u; t MatMul s x; "
      "r Tile e i:1,2,1; c Concat t r axis=1; y ReduceMean c axes=[1] keepdims=0; p MatMul y o",
      "l MatMul q w; u Transpose x perm=[0,2,1]; s MatMul l u; t MatMul s x; y ReduceSum t i:1 keepdims=0; "
      "z ReduceSum q i:1 keepdims=0; z2 Add z z; k Add y z2; n Constant value_float=~15; d Div k n; p MatMul d o"}},
    {"nothing joined to something",
     {"w 6,4"},
     "5,6",
     {"e Slice x i:7 i:99 i:2; f Slice x i:5 i:0 i:1; c Concat e x axis=2; d Concat c f axis=1; t MatMul d w; "
      "p ReduceSum t i:1 keepdims=0",
      "t MatMul x w; p ReduceSum t i:1 keepdims=0"}},
    {"sums up to each place, places in many runs, and a constant of a second axis",
     {"w 6,4", "v 6,4"},
     "3,6",
     {"k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; e Expand r i:1,3,6; t Transpose x perm=[1,0,2]; l MatMul e v; "
      "c CumSum t i:0; q Tile i:2,0,1 i:48; f Gather c q axis=0; s ReduceMean f axes=[0] keepdims=0; m MatMul s w; "
      "n Add l m; p Squeeze n i:0",
      "k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; l MatMul r v; a Cast i:3,2,1 to=1; b Reshape a i:1,3,1; g Mul x b; "
      "s ReduceMean g axes=[1] keepdims=0; m MatMul s w; p Add l m"}},
    {"a constant made for all samples",
     {"w 6,4", "v 6,4"},
     "6",
     {"k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; e Expand r i:3,6; l MatMul e v; m MatMul x w; p Add l m",
      "k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; l MatMul r v; m MatMul x w; p Add l m"}},
    {"products of constants",
     {"w 6,4"},
     "6",
     {"k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:2,3; t Transpose r perm=[1,0]; g MatMul r t; h Reshape g i:1,4; m MatMul x w; "
      "p Add m h",
      "g Cast i:14,32,32,77 to=1; h Reshape g i:1,4; m MatMul x w; p Add m h"}},
    {"products of constant vectors and matrices",
     {"w 6,4"},
     "6",
     {"k Cast i:1,2,3 to=1; c Cast i:1,2,3,4,5,6 to=1; r Reshape c i:3,2; g MatMul k r; t Transpose r perm=[1,0]; "
      "q MatMul t k; n Concat g q axis=0; h Reshape n i:1,4; m MatMul x w; p Add m h",
      "n Cast i:22,28,22,28 to=1; h Reshape n i:1,4; m MatMul x w; p Add m h"}},
    {"windows of one element",
     {"w 12,4"},
     "12,2,3",
     {"a AveragePool x kernel_shape=[1,1]; m MaxPool a kernel_shape=[1,1] strides=[1,1]; g GlobalAveragePool m; f Flatten g; "
      "p MatMul f w",
      "g GlobalAveragePool x; f Flatten g; p MatMul f w"}},
    {"one number for each sample, with and without a dimension of its own",
     {"w 6,1"},
     "6",
     {"m MatMul x w; p Squeeze m i:1", "p MatMul x w"}},
    {"a smaller value that lies in another order than the larger",
     {"v 4,1,2", "w 4,4"},
     "4,3,2",
     {"a Mul x v; g GlobalAveragePool a; f Flatten g; p MatMul f w",
      "a Mul v x; g ReduceMean a axes=[2,3] keepdims=0; p MatMul g w"}},
    {"numbers of several values in the place of scores that are not seen",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:-2000000000,1,2,3,1 to=1; w Where m s v; " WEIGHED,
      UNSEEN "v Cast i:-2000000000,1,2,3,1 to=1; k Mul j v; q Mul s f; w Add q k; " WEIGHED}},
    {"scores that are not seen",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:-2000000000 to=1; w Where m s v; " WEIGHED,
      UNSEEN "v Cast i:-2000000000 to=1; k Mul j v; w Add s k; " WEIGHED}},
    {"a mask of several values",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:0,1,2,0,1 to=1; n Cast i:-2000000000 to=1; k Where m v n; w Add s k; " WEIGHED,
      UNSEEN "v Cast i:0,1,2,0,1 to=1; n Cast i:-2000000000 to=1; a2 Mul f v; b2 Mul j n; k Add a2 b2; w Add s k; " WEIGHED}},
    {"gates put in another order",
     {"w 1,8,6", "r 1,8,2", "o 2,4"},
     "5,6",
     {"a Slice w i:0 i:2 i:1; b Slice w i:2 i:4 i:1; c Slice w i:4 i:8 i:1; k Concat a c b axis=1; "
      "y LSTM x k r hidden_size=2 layout=1; q Squeeze y i:2; t ReduceSum q i:1 keepdims=0; p MatMul t o",
      "k Gather w i:0,1,4,5,6,7,2,3 axis=1; "
      "y LSTM x k r hidden_size=2 layout=1; q Squeeze y i:2; t ReduceSum q i:1 keepdims=0; p MatMul t o"}},
    {"attention of one operator, and in its steps",
     {"o 6,4"},
     "5,6",
     {"t Attention x x x q_num_heads=2 kv_num_heads=2; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "v Reshape x i:3,5,2,3; q Transpose v perm=[0,2,1,3]; k Transpose v perm=[0,2,3,1]; s MatMul q k; "
      "n Constant value_float=~0.57735027; m Mul s n; w Softmax m axis=-1; z MatMul w q; u Transpose z perm=[0,2,1,3]; "
      "t Reshape u i:3,5,6; y ReduceSum t i:1 keepdims=0; p MatMul y o"}},
    {"a product with its sum, weighed",
     {"w 6,4", "b 4"},
     "6",
     {"p Gemm x w b alpha=~0.5 beta=~3.0",
      "m MatMul x w; n Constant value_float=~0.5; k Constant value_float=~3.0; h Mul m n; c Mul b k; p Add h c"}},
    {"what is repeated, cut where its elements do not end",
     {"w 4,4"},
     "6",
     {"e Unsqueeze x i:2; f Expand e i:3,6,2; r Reshape f i:3,4,3; s ReduceSum r i:2 keepdims=0; p MatMul s w",
      "g Gather x i:0,0,1,1,2,2,3,3,4,4,5,5 axis=1; r Reshape g i:3,4,3; s ReduceSum r i:2 keepdims=0; p MatMul s w"}},
    {"what is turned, cut where its elements do not end",
     {"w 3,4"},
     "4,6",
     {"t Transpose x perm=[0,2,1]; r Reshape t i:3,8,3; s ReduceMean r axes=[1] keepdims=0; p MatMul s w",
      "f Flatten x; g Gather f i:0,6,12,18,1,7,13,19 axis=1; h Gather f i:2,8,14,20,3,9,15,21 axis=1; "
      "j Gather f i:4,10,16,22,5,11,17,23 axis=1; c Concat g h j axis=1; r Reshape c i:3,8,3; s ReduceMean r axes=[1] "
      "keepdims=0; "
      "p MatMul s w"}},
    {"seven dimensions in reverse order: more than a permute has sides",
     {"w 4,128"},
     "128",
     {"a Reshape x i:3,2,2,2,2,2,2,2; t Transpose a perm=[0,7,6,5,4,3,2,1]; r Reshape t i:3,128; p Gemm r w transB=1",
      "a Reshape x i:3,16,8; g Gather a i:0,8,4,12,2,10,6,14,1,9,5,13,3,11,7,15 axis=1; h Gather g i:0,4,2,6,1,5,3,7 axis=2; "
      "t Transpose h perm=[0,2,1]; r Reshape t i:3,128; p Gemm r w transB=1"}},
};

/* `made`: the constants that are there. */
static void put_line(struct bytes *graph, char *line, char *made) {
    struct bytes node = {0};
    char *rest = NULL, *output = strtok_r(line, " ", &rest), *op = strtok_r(NULL, " ", &rest);
    for (char *word = op; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
        char *quote = strchr(word, '\'');
        if (quote != NULL && strchr(quote + 1, '\'') == NULL) { /* spaces within the text */
            word[strlen(word)] = ' ';
            strtok_r(NULL, "'", &rest);
        }
        char *value = strchr(word, '=');
        if (value != NULL) {
            *value = '\0';
            put_attribute(&node, word, value + 1);
            continue;
        }
        put_text(&node, 1, word);
        char between[64];
        snprintf(between, sizeof between, " %s ", word);
        if (strncmp(word, "i:", 2) != 0 || strstr(made, between) != NULL) continue;
        int64_t numbers[16];
        put_whole(graph, word, numbers, numbers_of(word + 2, ',', numbers), false); /* named as it is written */
        strcat(made, between);
    }
    put_text(&node, 2, output);
    put_text(&node, 3, output);
    put_text(&node, 4, op);
    put_message(graph, 1, &node);
    free(node.data);
}

/* The network borrows the file's bytes. */
static struct ps_network *read_case(size_t c, int which, struct bytes *file) {
    struct bytes graph = {0};
    char text[1024], made[512] = "", name[16], *rest = NULL;
    int64_t dims[1 + 16];
    snprintf(text, sizeof text, "%s", cases[c].graphs[which]);
    for (char *line = strtok_r(text, ";", &rest); line != NULL; line = strtok_r(NULL, ";", &rest)) put_line(&graph, line, made);
    for (int p = 0; cases[c].parameters[p] != NULL; p++) {
        sscanf(cases[c].parameters[p], "%15s", name);
        put_tensor(&graph, name, dims, numbers_of(strchr(cases[c].parameters[p], ' '), ',', dims));
    }
    dims[0] = SAMPLES;
    put_value(&graph, 11, "x", dims, 1 + numbers_of(cases[c].input, ',', dims + 1));
    put_value(&graph, 12, "p", (int64_t[]){SAMPLES, CLASSES}, 2);
    *file = model_of(&graph);
    struct ps_network *network = NULL;
    const enum ps_status status = onnx_parse_network("model.onnx", file->data, file->size, &network, &test_error);
    if (status != PS_OK) fail_msg("%s, %d: %s", cases[c].name, which, test_error.message);
    return network;
}

/* Loss, and the gradients of all parameters behind it, in the order of the case. */
static int64_t compute(size_t c, int which, float *found) {
    struct bytes file;
    struct ps_network *network = read_case(c, which, &file);
    struct device *device = chain_device("reference");
    const struct graph *graph = network->graph;
    struct chain *chain = chain_create(device, graph, SAMPLES, 1, NULL, 0);
    const int64_t elements = SAMPLES * shape_elements(&graph->nodes[0].shape);
    float *inputs = calloc((size_t)elements, sizeof *inputs);
    static const int32_t labels[SAMPLES] = {1, 0, 3};
    assert_non_null(inputs);
    for (int64_t e = 0; e < elements; e++) inputs[e] = sinf((float)e) / 4;
    stage_pack_inputs(chain->stages[0], inputs, chain->blocks[0][0].input);
    const struct stage_step step = {.seed = 1, .step = 1, .target = labels, .gradient_scale = 1.0F / SAMPLES, .training = true};
    int64_t count = 0;
    found[count++] = (float)chain_forward(chain, 0, &step).loss;
    chain_backward(chain, 0, &step);
    for (int p = 0; cases[c].parameters[p] != NULL; p++) {
        char name[16];
        sscanf(cases[c].parameters[p], "%15s", name);
        count += chain_export(chain, name, NULL, found + count);
    }
    chain_destroy(chain);
    device_close(device);
    ps_network_destroy(network);
    free(file.data);
    free(inputs);
    return count;
}

static void test_same(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float found[2][1024];
        const int64_t count = compute(c, 0, found[0]);
        assert_int_equal(count, compute(c, 1, found[1]));
        for (int64_t i = 0; i < count; i++)
            if (!(fabsf(found[0][i] - found[1][i]) <= 1e-4F * fmaxf(0.1F, fabsf(found[1][i]))))
                fail_msg("%s: number %d is %.7g, and %.7g in plain steps", cases[c].name, (int)i, (double)found[0][i],
                         (double)found[1][i]);
    }
}

/* Each becomes the same nodes in every version, or runs of it could not go on. */
static void test_same_nodes(void **state) {
    (void)state;
    struct text text = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int which = 0; which < 2; which++) {
            struct bytes file;
            struct ps_network *network = read_case(c, which, &file);
            char *json = ps_network_json(network), *nodes = strstr(json, "  \"nodes\"");
            assert_non_null(nodes);
            text_add(&text, "%s, %d\n%s", cases[c].name, which, nodes);
            free(json);
            ps_network_destroy(network);
            free(file.data);
        }
    test_golden(TEST_DIRECTORY "/golden/onnx_nodes.txt", text_take(&text));
}

/* How many nodes of a case's network have the operator, and the elements of all of them. */
struct count {
    int nodes;
    int64_t elements;
};

static struct count count_nodes(const char *name, int which, enum operator_id id) {
    struct bytes file;
    struct count count = {0};
    size_t c = 0;
    while (strncmp(cases[c].name, name, strlen(name)) != 0) c++;
    struct ps_network *network = read_case(c, which, &file);
    for (int n = 0; n < network->graph->node_count; n++) {
        const struct node *node = &network->graph->nodes[n];
        if (node->id != id) continue;
        count.nodes++;
        count.elements += shape_elements(&node->shape);
    }
    ps_network_destroy(network);
    free(file.data);
    return count;
}

/* However a condition is written, it becomes the mask of an attention, which keeps no scores. */
static void test_attention(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        assert_int_equal(count_nodes("scores that are not seen", which, OPERATOR_ATTENTION).nodes, 1);
        assert_int_equal(count_nodes("scores that are not seen", which, OPERATOR_SOFTMAX).nodes, 0);
    }
}

/* Where two values lie in different orders the smaller one is brought into the order of the larger. */
static void test_the_larger_stays(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        const struct count turned = count_nodes("a smaller value", which, OPERATOR_PERMUTE);
        assert_int_equal(turned.nodes, 1);
        assert_int_equal(turned.elements, 4 * 2);
    }
}

/* A whole number for each sample is a sequence of one, as it is in a network file. */
static void test_a_number_is_a_sequence(void **state) {
    (void)state;
    struct bytes graph = {0};
    struct ps_network *network = NULL, *read = NULL;
    put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
    put_value_of(&graph, 11, "k", ONNX_I64, (int64_t[]){SAMPLES}, 1);
    put_node(&graph, "Gather", (const char *[]){"w", "k", NULL}, "p");
    put_value(&graph, 12, "p", (int64_t[]){SAMPLES, CLASSES}, 2);
    struct bytes file = model_of(&graph);
    assert_ok(onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error));
    char *text = ps_network_json(network);
    assert_non_null(text);
    assert_ok(network_parse(text, strlen(text), "network.json", &read, &test_error));
    const struct ps_input before = ps_network_input(network, 0), after = ps_network_input(read, 0);
    assert_int_equal(before.rank, after.rank);
    assert_memory_equal(before.shape, after.shape, sizeof before.shape);
    assert_string_equal(ps_network_info(network).hash, ps_network_info(read).hash);
    free(text);
    ps_network_destroy(read);
    ps_network_destroy(network);
    free(file.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_same_nodes),
                                       cmocka_unit_test(test_attention), cmocka_unit_test(test_the_larger_stays),
                                       cmocka_unit_test(test_a_number_is_a_sequence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
