/*
 * Low-rank adapters: a network with them computes what it does with the adapters added to its weights, and their gradients
 * follow from those of these weights. What is not theirs is fixed.
 */
#include <math.h>
#include <stdio.h>

#include "graph/lora.h"
#include "graph/network.h"
#include "stage_support.h"

#define ADAPTERS "rank=2,alpha=3,target=conv?+fc1.weight+fc2"

static struct ps_network *make(const char *adapters) {
    struct ps_network_builder *builder = ps_network_builder_create("adapted");
    struct ps_network *network;
    ps_network_builder_input(builder, "x", "f32", (const int64_t[]){2, 6, 6}, 3);
    ps_network_builder_node(builder, "conv1", "convolution,channels=5,kernel=3,stride=2,pad=1", NULL, 0);
    ps_network_builder_node(builder, "norm1", "batch_norm", NULL, 0);
    ps_network_builder_node(builder, "relu1", "relu", NULL, 0);
    ps_network_builder_node(builder, "conv2", "convolution,channels=4,kernel=1,bias=0", NULL, 0);
    ps_network_builder_node(builder, "flatten", "flatten", NULL, 0);
    ps_network_builder_node(builder, "fc1", "linear,channels=9", NULL, 0);
    ps_network_builder_node(builder, "relu2", "relu", NULL, 0);
    ps_network_builder_node(builder, "fc2", "linear,channels=7,transposed=1", NULL, 0);
    ps_network_builder_node(builder, "fc3", "linear,channels=5", NULL, 0);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    if (adapters != NULL) assert_ok(ps_network_lora(network, adapters, &test_error));
    return network;
}

static struct parameter *find(const struct ps_network *network, const char *name) {
    struct graph *graph = network->graph;
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(graph->parameters[p].name, name) == 0) return &graph->parameters[p];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Makes these the initial values of a parameter. */
static void give(struct ps_network *network, const struct parameter *parameter, const float *values) {
    struct array array = {.name = parameter->name, .type = ARRAY_F32, .rank = parameter->shape.rank, .data = values};
    memcpy(array.shape, parameter->shape.dim, sizeof parameter->shape.dim);
    if (network->graph->values == NULL) network->graph->values = values_create();
    assert_ok(values_set(network->graph->values, &array, VALUES_COPY, &test_error));
}

static float *values_of(struct chain *chain, const struct parameter *parameter, bool gradients) {
    float *values = calloc((size_t)shape_elements(&parameter->shape), sizeof *values);
    assert_non_null(values);
    chain_export(chain, parameter->name, gradients ? NULL : (const float *const *)chain->weights, values);
    return values;
}

static double step(struct chain *chain) {
    const struct stage_step step = training_step(0);
    fill_data(chain);
    const double loss = chain_forward(chain, 0, &step).loss;
    chain_backward(chain, 0, &step);
    return loss;
}

static void assert_near(const char *what, int64_t place, double got, double wanted) {
    if (!(fabs(got - wanted) <= 2e-5 * (1 + fabs(wanted))))
        fail_msg("%s[%lld] is %.9g, not %.9g", what, (long long)place, got, wanted);
}

/* The gradients of A and B are scale B^T G and scale G A^T, with G that of the weight that holds both. */
static void check_gradients(const struct lora *lora, const struct graph *graph, struct chain *adapted, struct chain *merged) {
    const struct parameter *of_a = &graph->parameters[lora->a->parameter_first],
                           *of_b = &graph->parameters[lora->b->parameter_first],
                           *of_weight = &graph->parameters[lora->base->parameter_first];
    float *a = values_of(adapted, of_a, false), *b = values_of(adapted, of_b, false), *da = values_of(adapted, of_a, true),
          *db = values_of(adapted, of_b, true), *whole = values_of(merged, of_weight, true);
    const int64_t rows = lora->base->attributes.channels, columns = shape_elements(&of_weight->shape) / rows;
    const int rank = lora->rank;
    for (int r = 0; r < rank; r++) {
        for (int64_t i = 0; i < rows + columns; i++) {
            double sum = 0;
            const bool right = i >= rows; /* an element of A */
            for (int64_t k = 0; k < (right ? rows : columns); k++) {
                const int64_t row = right ? k : i, column = right ? i - rows : k;
                const double g =
                    (double)whole[lora->base->attributes.transposed ? column * rows + row : row * columns + column];
                sum += g * (double)(right ? b[row * rank + r] : a[r * columns + column]);
            }
            if (right)
                assert_near(of_a->name, r * columns + i - rows, (double)da[r * columns + i - rows], lora->scale * sum);
            else
                assert_near(of_b->name, i * rank + r, (double)db[i * rank + r], lora->scale * sum);
        }
    }
    free(a), free(b), free(da), free(db), free(whole);
}

static void check_merged(struct device *device) {
    struct ps_network *adapted = make(ADAPTERS), *merged = make(NULL);
    struct chain *initial = chain_create(device, adapted->graph, 4, 1, NULL, 0);
    const struct graph *graph = adapted->graph;
    struct lora lora;
    int found = 0;
    uint64_t drawn = 0;
    for (int n = 0; n < graph->node_count; n++) {
        if (!lora_at(graph, n, &lora)) continue;
        const struct parameter *of_a = &graph->parameters[lora.a->parameter_first],
                               *of_b = &graph->parameters[lora.b->parameter_first],
                               *of_weight = &graph->parameters[lora.base->parameter_first];
        float *a = values_of(initial, of_a, false), *b = values_of(initial, of_b, false),
              *weight = values_of(initial, of_weight, false);
        for (int64_t i = 0; i < shape_elements(&of_b->shape); i++) {
            assert_true(b[i] == 0);
            b[i] = 0.6f * random_uniform(test_key(7), drawn++) - 0.3f;
        }
        lora_merge(&lora, graph, a, b, weight);
        give(adapted, of_b, b);
        give(merged, find(merged, of_weight->name), weight);
        free(a), free(b), free(weight);
        found++;
    }
    assert_int_equal(found, 4);
    assert_true(lora.scale == 1.5 && lora.rank == 2);
    chain_destroy(initial);
    struct chain *one = chain_create(device, graph, 4, 1, NULL, 0), *other = chain_create(device, merged->graph, 4, 1, NULL, 0);
    assert_near("loss", 0, step(one), step(other));
    for (int n = 0; n < graph->node_count; n++)
        if (lora_at(graph, n, &lora)) check_gradients(&lora, graph, one, other);
    chain_destroy(one);
    chain_destroy(other);
    ps_network_destroy(adapted);
    ps_network_destroy(merged);
}

static void test_merged(void **state) {
    (void)state;
    on_real_devices(check_merged);
}

static void test_roles(void **state) {
    (void)state;
    struct ps_network *network = make(ADAPTERS ",train=*norm1*+fc3.bias,dropout=0.25"), *again;
    const struct graph *graph = network->graph;
    int adapters = 0;
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const bool lora = strstr(parameter->name, ".lora_") != NULL;
        const bool also = strncmp(parameter->name, "norm1", 5) == 0 || strcmp(parameter->name, "fc3.bias") == 0;
        adapters += lora;
        assert_int_equal(parameter->role == PARAMETER_FIXED, !lora && !also);
        assert_int_equal(parameter->frozen, !lora && !also);
    }
    assert_int_equal(adapters, 8);
    struct lora first;
    assert_int_equal(lora_count(graph, &first), 4);
    assert_true(first.dropout != NULL && first.dropout->attributes.rate == 0.25f);
    assert_true(find(network, "conv1.lora_A.weight")->shape.dim[2] == 3 &&
                find(network, "conv1.lora_B.weight")->shape.dim[2] == 1);
    assert_true(find(network, "fc2.lora_A.weight")->shape.dim[0] == 2 && find(network, "fc2.lora_B.weight")->shape.dim[0] == 7);
    assert_status(ps_network_lora(network, "target=fc3", &test_error), PS_USAGE, "has adapters already");
    /* The network's file holds them. */
    char *text = ps_network_json(network);
    assert_ok(network_parse(text, strlen(text), "text", &again, &test_error));
    assert_true(network->hash == again->hash);
    free(text);
    ps_network_destroy(again);
    ps_network_destroy(network);
}

/* Layers that share a weight share its adapter. */
static void test_shared(void **state) {
    (void)state;
    struct ps_network *network;
    assert_ok(ps_network_open("gpt2,layers=1,width=8,heads=2,seq=6,vocab=11,tied=1", &network, &test_error));
    assert_ok(ps_network_lora(network, "target=wte+mlp.c_fc", &test_error)); /* the ends of modules' names */
    assert_int_equal(lora_count(network->graph, NULL), 2);
    ps_network_destroy(network);

    struct ps_network_builder *builder = ps_network_builder_create("twice");
    ps_network_builder_input(builder, "x", "f32", (const int64_t[]){5}, 1);
    int first = ps_network_builder_node(builder, "fc1", "linear,channels=5", NULL, 0);
    int second = ps_network_builder_node(builder, "fc2", "linear,channels=5", NULL, 0);
    ps_network_builder_tie(builder, second, first);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    assert_ok(ps_network_lora(network, "rank=1,target=fc1", &test_error));
    assert_int_equal(lora_count(network->graph, NULL), 2);
    assert_int_equal(ps_network_info(network).parameters, 10);
    ps_network_destroy(network);
}

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *adapters, *said;
    } cases[] = {
        {"rank=4", "target=GLOB"},
        {"target=fc9", "target=fc9: no weight"},
        {"target=fc1+norm1", "target=norm1: no weight"},
        {"target=fc1,train=fc7.*", "train=fc7.*: no trained parameter"},
        {"target=fc1,rank=0", "rank=0"},
        {"target=fc1,alpha=-1", "alpha=-1"},
        {"target=fc1,dropout=1", "dropout=1"},
        {"target=fc1,ranks=3", "did you mean 'rank'"},
        {"target=fc1,target=fc2", "twice"},
    };
    struct ps_network *network = make(NULL);
    const uint64_t hash = network->hash;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_status(ps_network_lora(network, cases[i].adapters, &test_error), PS_USAGE, cases[i].said);
    char text[SPEC_SIZE];
    for (int over = 0; over < 2; over++) { /* with "lora," before it, as long as can be and longer */
        memset(text, 'f', sizeof text);
        memcpy(text, "target=", 7);
        text[SPEC_SIZE - 6 + over] = '\0';
        assert_status(ps_network_lora(network, text, &test_error), PS_USAGE,
                      over ? "lora: 'target=fffffffffffffffffffffffffffffffff...' is longer than" : "no weight");
    }
    assert_true(network->hash == hash);
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merged),
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
