/* The store of parameters' values: by name, from files, in networks and their copies, and as what stages begin with. */
#include <stdlib.h>

#include "compute/stage.h"
#include "graph/model.h"
#include "graph/operators.h"
#include "graph/split.h"
#include "stage_support.h"
#include "within.h"

static char path[4096];

/* Many names, some set twice: each is found, in the order of the first setting, with its newest values. */
static void test_names(void **state) {
    (void)state;
    struct values *values = values_create();
    char name[32];
    for (int i = 0; i < 1000; i++) {
        const float data[] = {(float)i, (float)-i};
        snprintf(name, sizeof name, "node%d.weight", i % 700);
        const struct array array = {.name = name, .rank = 1, .shape = {2}, .data = data};
        assert_ok(values_set(values, &array, VALUES_COPY, &test_error));
    }
    assert_int_equal(values_count(values), 700);
    for (int i = 0; i < 700; i++) {
        float got;
        snprintf(name, sizeof name, "node%d.weight", i);
        const struct array *array = values_get(values, name);
        assert_ptr_equal(array, values_at(values, i));
        assert_string_equal(array->name, name);
        array_floats(array, 1, 1, &got);
        assert_within(got, i < 300 ? -i - 700 : -i, 0);
    }
    assert_null(values_get(values, "node700.weight"));
    assert_null(values_get(NULL, "node1.weight"));
    values_release(values);
}

/* Each kind of ownership; two owners of a store. */
static void test_owners(void **state) {
    (void)state;
    static const float fixed[] = {1, 2, 3};
    struct array array = {.name = "borrowed", .rank = 1, .shape = {3}, .data = fixed};
    struct values *values = values_create(), *other = values_share(values);
    float *taken = malloc(sizeof fixed);
    memcpy(taken, fixed, sizeof fixed);
    assert_ok(values_set(values, &array, VALUES_BORROW, &test_error));
    array.name = "copied";
    assert_ok(values_set(values, &array, VALUES_COPY, &test_error));
    array.name = "taken";
    array.data = taken;
    assert_ok(values_set(values, &array, VALUES_TAKE, &test_error));
    values_release(values);
    assert_ptr_equal(values_get(other, "borrowed")->data, fixed);
    assert_ptr_equal(values_get(other, "taken")->data, taken);
    assert_ptr_not_equal(values_get(other, "copied")->data, fixed);
    assert_memory_equal(values_get(other, "copied")->data, fixed, sizeof fixed);
    values_release(other);
}

/* A file's tensors of any type and at any address, as numbers; and written as f32. */
static void test_file(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                 "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]},"
                                 "\"c\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[16,24]},"
                                 "\"d\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[24,28]},"
                                 "\"e\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[28,32]}}";
    static const struct {
        const char *name;
        int count;
        float values[2];
    } wanted[] = {{"a", 2, {1.5f, -2}}, {"b", 1, {0.1f}}, {"c", 1, {7}}, {"d", 2, {1, -2}}, {"e", 2, {3, -4}}};
    const float single[] = {1.5f, -2};
    const double wide = 0.1;
    const int64_t whole = 7;
    const uint16_t narrow[] = {0x3c00, 0xc000, 0x4040, 0xc080};
    for (int blanks = 0; blanks < 2; blanks++) { /* with and without data at multiples of four */
        char contents[1024] = {0};
        uint64_t length = (sizeof header - 1 + 3) / 4 * 4 + (uint64_t)blanks;
        memcpy(contents, &length, 8);
        memset(contents + 8, ' ', length);
        memcpy(contents + 8, header, sizeof header - 1);
        memcpy(contents + 8 + length, single, 8);
        memcpy(contents + 16 + length, &wide, 8);
        memcpy(contents + 24 + length, &whole, 8);
        memcpy(contents + 32 + length, narrow, 8);
        file_join(path, test_directory, "all.safetensors");
        test_file_write(path, contents, 8 + length + 32);
        struct values *values = values_create();
        assert_ok(values_read(values, path, &test_error));
        file_join(path, test_directory, "again.safetensors");
        assert_ok(values_write(values, path, &test_error));
        assert_ok(values_read(values, path, &test_error)); /* replaces them */
        assert_int_equal(values_count(values), 5);
        for (size_t i = 0; i < 5; i++) {
            float got[2];
            const struct array *array = values_get(values, wanted[i].name);
            assert_non_null(array);
            assert_int_equal(array->type, ARRAY_F32);
            assert_int_equal(array_elements(array), wanted[i].count);
            array_floats(array, 0, wanted[i].count, got);
            assert_memory_equal(got, wanted[i].values, (size_t)wanted[i].count * sizeof *got);
        }
        values_release(values);
    }
}

/* Constants are part of what a network computes, and of its hash; what trained parameters begin with is not. */
static void test_hash(void **state) {
    (void)state;
    static const char text[] =
        "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"n\", \"values\": \"n.safetensors\","
        "\"inputs\": [{\"name\": \"x\", \"shape\": [3]}], \"nodes\": ["
        "{\"name\": \"c\", \"operator\": \"parameter\", \"sides\": [3], \"trained\": false},"
        "{\"name\": \"w\", \"operator\": \"parameter\", \"sides\": [3]},"
        "{\"name\": \"s\", \"operator\": \"add\", \"inputs\": [\"x\", \"c\"]},"
        "{\"name\": \"t\", \"operator\": \"add\", \"inputs\": [\"s\", \"w\"]},"
        "{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}";
    uint64_t hashes[3];
    char beside[4096];
    file_join(path, test_directory, "n.json");
    file_join(beside, test_directory, "n.safetensors");
    test_file_write(path, text, sizeof text - 1);
    for (int n = 0; n < 3; n++) {
        const float constant[] = {1, 2, n == 1 ? 4 : 3}, begin[] = {0, 0, n == 2 ? 1 : 0};
        const struct array arrays[] = {{.name = "c.weight", .rank = 1, .shape = {3}, .data = constant},
                                       {.name = "w.weight", .rank = 1, .shape = {3}, .data = begin}};
        struct values *values = values_create();
        struct ps_network *network = NULL;
        for (int i = 0; i < 2; i++) assert_ok(values_set(values, &arrays[i], VALUES_BORROW, &test_error));
        assert_ok(values_write(values, beside, &test_error));
        values_release(values);
        assert_ok(ps_network_read(path, &network, &test_error));
        hashes[n] = network->hash;
        ps_network_destroy(network);
    }
    assert_true(hashes[0] != hashes[1]);
    assert_true(hashes[0] == hashes[2]);
}

static struct ps_network *open_network(const char *text) {
    struct ps_network *network = NULL;
    assert_ok(ps_network_open(text, &network, &test_error));
    return network;
}

/* Values for conv2.weight, counted up from 0, and for a bias. */
static struct values *give_values(struct ps_network *network) {
    static float weight[16 * 6 * 5 * 5], bias[10];
    struct values *values = network->graph->values = values_create();
    for (size_t i = 0; i < sizeof weight / sizeof *weight; i++) weight[i] = (float)i;
    for (int i = 0; i < 10; i++) bias[i] = (float)-i;
    const struct array arrays[] = {{.name = "conv2.weight", .rank = 4, .shape = {16, 6, 5, 5}, .data = weight},
                                   {.name = "fc3.bias", .rank = 1, .shape = {10}, .data = bias}};
    for (int i = 0; i < 2; i++) assert_ok(values_set(values, &arrays[i], VALUES_BORROW, &test_error));
    return values;
}

/* Every parameter of a stage of the whole network begins with its entry where it has one, and else as without a store. */
static void check_stage(const struct graph *graph, const struct values *values) {
    struct device *device;
    struct stage *stage, *plain;
    struct graph without = *graph;
    without.values = NULL;
    assert_ok(device_open(test_device("cpu"), &(struct device_options){.threads = 1}, &device, &test_error));
    assert_ok(stage_create(device, graph, 0, graph->layer_count - 1, 2, &stage, &test_error));
    assert_ok(stage_create(device, &without, 0, graph->layer_count - 1, 2, &plain, &test_error));
    struct memory_block block;
    const size_t weights_bytes = (size_t)stage_sizes(stage).parameter_bytes;
    assert_ok(device_take(device, &block, 2 * weights_bytes, "weights", &test_error));
    float *weights = memory_block_carve(&block, weights_bytes), *others = memory_block_carve(&block, weights_bytes);
    assert_ok(stage_initialize(stage, 1, NULL, weights, NULL, &test_error));
    assert_ok(stage_initialize(plain, 1, NULL, others, NULL, &test_error));
    int found = 0;
    for (int p = 0; p < stage_parameter_count(stage); p++) {
        const struct parameter *parameter = stage_parameter(stage, p);
        const struct array *entry = values_get(values, split_whole_name(parameter));
        const int64_t count = shape_elements(&parameter->shape);
        float *got = malloc((size_t)count * sizeof *got), *wanted = malloc((size_t)count * sizeof *wanted);
        assert_ok(stage_export(stage, p, weights, NULL, got, &test_error));
        assert_ok(stage_export(plain, p, others, NULL, wanted, &test_error));
        if (entry != NULL) array_floats(entry, split_offset(parameter), count, wanted);
        assert_memory_equal(got, wanted, (size_t)count * sizeof *got);
        found += entry != NULL;
        free(got);
        free(wanted);
    }
    assert_true(found >= 2);
    device_give(device, &block);
    stage_destroy(plain);
    stage_destroy(stage);
    device_close(device);
}

static void test_stage(void **state) {
    (void)state;
    struct ps_network *network = open_network("lenet5"), *split;
    struct values *values = give_values(network);
    check_stage(network->graph, values);
    /* a part of a split layer begins with its rows of the whole one */
    assert_ok(network_create_split(network, "conv2:5", &split, &test_error));
    ps_network_destroy(network);
    check_stage(split->graph, values);
    ps_network_destroy(split);
}

/* A network's file has its values beside it. */
static void test_network_file(void **state) {
    (void)state;
    struct ps_network *network = open_network("lenet5"), *again;
    const struct values *values = give_values(network);
    file_join(path, test_directory, "net.json");
    assert_status(ps_network_write(network, "/dev/stdout", &test_error), PS_USAGE,
                  "the weights of lenet5 would be written beside it");
    assert_ok(ps_network_write(network, path, &test_error));
    assert_ok(ps_network_read(path, &again, &test_error));
    assert_int_equal(values_count(again->graph->values), 2);
    for (int i = 0; i < 2; i++) {
        const struct array *a = values_at(values, i), *b = values_get(again->graph->values, a->name);
        assert_non_null(b);
        assert_memory_equal(a->data, b->data, array_bytes(a));
    }
    assert_true(network->hash == again->hash);
    ps_network_destroy(again);
    file_join(path, test_directory, "net.safetensors");
    assert_int_equal(remove(path), 0);
    file_join(path, test_directory, "net.json");
    assert_status(ps_network_read(path, &again, &test_error), PS_BAD_INPUT, "net.safetensors");
    ps_network_destroy(network);
}

static void test_refused(void **state) {
    (void)state;
    static const float data[6];
    struct graph *graph = graph_create();
    struct ps_network *network;
    struct builder b = {graph, &test_error};
    build_cross_entropy(&b, build_linear(&b, build_flatten(&b, build_input(&b, 3, 1, 1), "flat"), "fc", 2), "loss");
    graph->values = values_create();
    const struct array turned = {.name = "fc.weight", .rank = 2, .shape = {3, 2}, .data = data};
    assert_ok(values_set(graph->values, &turned, VALUES_BORROW, &test_error));
    assert_status(network_create("net", graph, PREDICTS_CLASSES, &network, &test_error), PS_USAGE,
                  "parameter 'fc.weight': its values have shape 3x2 where the network has 2x3");
    static const char outside[] = "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"n\", \"values\": \"../a.st\","
                                  "\"inputs\": [{\"name\": \"x\", \"shape\": [4]}], \"nodes\": ["
                                  "{\"name\": \"fc\", \"operator\": \"linear\", \"channels\": 2},"
                                  "{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}";
    file_join(path, test_directory, "outside.json");
    test_file_write(path, outside, sizeof outside - 1);
    assert_status(ps_network_read(path, &network, &test_error), PS_BAD_INPUT, "'../a.st' is not the name of a file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash),    cmocka_unit_test(test_names), cmocka_unit_test(test_owners),
        cmocka_unit_test(test_file),    cmocka_unit_test(test_stage), cmocka_unit_test(test_network_file),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
