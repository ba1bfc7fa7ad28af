/*
 * Hostile ONNX files: some that are wrong on purpose, and many that are mutated at random. Nothing crashes; what is refused is
 * refused as bad input, in one line that names the file. PENSTOCK_TEST_MUTATIONS sets how many mutations there are of each
 * file.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "onnx/model.h"
#include "onnx/onnx.h"
#include "onnx_support.h"

/* x (2, 6) by w to (2, 4), with a ReLU. */
static struct bytes small_graph(void) {
    struct bytes graph = {0};
    put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
    put_node(&graph, "MatMul", (const char *[]){"x", "w", NULL}, "y");
    put_node(&graph, "Relu", (const char *[]){"y", NULL}, "z");
    put_value(&graph, 11, "x", (int64_t[]){2, 6}, 2);
    put_value(&graph, 12, "z", (int64_t[]){2, 4}, 2);
    return graph;
}

/* ------------------------------------------------------------- on purpose */

static enum ps_status parse(struct bytes file, struct ps_network **network) {
    memset(&test_error, 0, sizeof test_error);
    return onnx_parse_network("model.onnx", file.data, file.size, network, &test_error);
}

static void refused(struct bytes *graph, const char *part) {
    struct bytes file = model_of(graph);
    struct ps_network *network = NULL;
    assert_status(parse(file, &network), PS_BAD_INPUT, part);
    free(file.data);
}

static void accepted(struct bytes *graph) {
    struct bytes file = model_of(graph);
    struct ps_network *network = NULL;
    assert_ok(parse(file, &network));
    ps_network_destroy(network);
    free(file.data);
}

static void test_small(void **state) {
    (void)state;
    struct bytes graph = small_graph(), file = model_of(&graph);
    struct ps_network *network = NULL;
    struct ps_network_info info;
    assert_ok(parse(file, &network));
    ps_network_info_get(network, &info, sizeof info);
    assert_int_equal(info.parameters, 24);
    assert_int_equal(info.classes, 4);
    ps_network_destroy(network);
    free(file.data);
}

static void test_names(void **state) {
    (void)state;
    struct bytes graph = small_graph();
    put_node(&graph, "Relu", (const char *[]){"y", NULL}, "z");
    refused(&graph, "value 'z': two nodes make it");
    graph = small_graph();
    put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
    refused(&graph, "initializer 'w': two have this name");
    graph = small_graph();
    put_tensor(&graph, "y", (int64_t[]){6, 4}, 2);
    refused(&graph, "initializer 'y': a node makes it, too");
    graph = small_graph();
    put_tensor(&graph, "", (int64_t[]){6, 4}, 2);
    refused(&graph, "initializer 1 has no name");
    graph = (struct bytes){0};
    put_node(&graph, "Relu", (const char *[]){"b", NULL}, "a"); /* a cycle */
    put_node(&graph, "Relu", (const char *[]){"a", NULL}, "b");
    put_value(&graph, 11, "x", (int64_t[]){2, 6}, 2);
    put_value(&graph, 12, "b", (int64_t[]){2, 6}, 2);
    refused(&graph, "node 'a' (Relu): no node before it makes its input 'b'");
    graph = small_graph(); /* an output that the operator does not give */
    put_node_with(&graph, "Relu", (const char *[]){"z", NULL}, 3, "more");
    put_node(&graph, "Relu", (const char *[]){"more", NULL}, "end");
    refused(&graph, "node 'end' (Relu): its input 'more' is an output of node 'more' (Relu) that is not known");
    graph = small_graph();
    put_node(&graph, "Warp", (const char *[]){"z", NULL}, "q");
    refused(&graph, "node 'q' (Warp): the operator is not known");
}

static void test_sizes(void **state) {
    (void)state;
    struct bytes graph = small_graph(), tensor = {0};
    for (int d = 0; d < 5; d++) put_number(&tensor, 1, 1 << 20); /* 2^100 elements */
    put_number(&tensor, 2, 1);
    put_text(&tensor, 8, "huge");
    put_message(&graph, 5, &tensor);
    refused(&graph, "its dimensions are too large");
    graph = small_graph();
    put_number(&tensor, 1, 1000);
    put_number(&tensor, 2, 1);
    put_text(&tensor, 8, "short");
    put_bytes(&tensor, 9, "1234", 4);
    put_message(&graph, 5, &tensor);
    refused(&graph, "4 bytes, and its shape needs 4000");
    /* A constant of 2^40 elements is not made. */
    graph = small_graph();
    struct bytes shape = {0};
    for (int d = 0; d < 4; d++) put_varint(&shape, 1 << 10);
    put_number(&tensor, 1, 4);
    put_number(&tensor, 2, 7);
    put_text(&tensor, 8, "shape");
    put_bytes(&tensor, 7, shape.data, shape.size);
    put_message(&graph, 5, &tensor);
    put_node(&graph, "ConstantOfShape", (const char *[]){"shape", NULL}, "large");
    refused(&graph, "more elements than the file can be about");
    free(tensor.data);
    free(shape.data);
}

/* Rows are gathered for each sample from itself alone. */
static void test_rows(void **state) {
    (void)state;
    static const struct {
        unsigned char rows[2];
        bool own;
    } cases[] = {{{0, 1}, true}, {{1, 0}, false}, {{0, 0}, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bytes graph = {0}, tensor = {0};
        put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
        put_number(&tensor, 1, 2);
        put_number(&tensor, 2, 7);
        put_text(&tensor, 8, "rows");
        put_bytes(&tensor, 7, cases[c].rows, 2);
        put_message(&graph, 5, &tensor);
        put_node(&graph, "Gather", (const char *[]){"x", "rows", NULL}, "g");
        put_node(&graph, "MatMul", (const char *[]){"g", "w", NULL}, "y");
        put_node(&graph, "Relu", (const char *[]){"y", NULL}, "z");
        put_value(&graph, 11, "x", (int64_t[]){2, 6}, 2);
        put_value(&graph, 12, "z", (int64_t[]){2, 4}, 2);
        free(tensor.data);
        if (!cases[c].own) {
            refused(&graph, "it would take rows of other samples");
            continue;
        }
        accepted(&graph);
    }
}

/* Numbers of each kind in their bytes, and integers as varints, too. */
static void test_numbers(void **state) {
    (void)state;
    static const uint16_t halves[] = {0x3c00, 0xc100, 0x0001, 0x8000, 0x7c00, 0x7bff},
                          brains[] = {0x3f80, 0xc020, 0x0000, 0x7f80};
    static const double doubles[] = {0.5, -1e300};
    static const float singles[] = {0.5f, -3};
    static const unsigned char varints[] = {0x80, 0x78, 1}; /* 15360 = 0x3c00, the bits of a half; 1 */
    static const struct {
        struct onnx_tensor tensor;
        double wanted[6];
    } cases[] = {
        {{.type = 10, .elements = 6, .bytes = {(const uint8_t *)halves, 12}}, {1, -2.5, 0x1p-24, 0, INFINITY, 65504}},
        {{.type = 16, .elements = 4, .bytes = {(const uint8_t *)brains, 8}}, {1, -2.5, 0, INFINITY}},
        {{.type = 11, .elements = 2, .bytes = {(const uint8_t *)doubles, 16}}, {0.5, -1e300}},
        {{.type = 1, .elements = 2, .bytes = {(const uint8_t *)singles, 8}}, {0.5, -3}},
        {{.type = 10, .elements = 2, .bytes = {varints, 3}, .varints = true}, {1, 0x1p-24}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        double reals[6];
        float floats[6];
        onnx_tensor_reals(&cases[c].tensor, reals);
        onnx_tensor_floats(&cases[c].tensor, floats);
        for (int64_t e = 0; e < cases[c].tensor.elements; e++) {
            assert_true(reals[e] == cases[c].wanted[e]);
            assert_true(floats[e] == (float)cases[c].wanted[e]);
        }
    }
}

/* Whole numbers of each type, in their bytes, of which there may not be fewer, and as varints. */
static void test_whole_numbers(void **state) {
    (void)state;
    static const struct {
        int type, size;
        unsigned char bytes[16];
        int64_t wanted[2];
    } cases[] = {
        {2, 1, {1, 0xff}, {1, 255}},
        {3, 1, {1, 0xff}, {1, -1}},
        {9, 1, {0, 2}, {0, 1}},
        {4, 2, {1, 0x80, 0xfe, 0xff}, {0x8001, 0xfffe}},
        {5, 2, {1, 0x80, 0xfe, 0xff}, {-0x7fff, -2}},
        {6, 4, {1, 0, 0, 0x80, 0xfe, 0xff, 0xff, 0xff}, {-0x7fffffff, -2}},
        {12, 4, {1, 0, 0, 0x80, 0xfe, 0xff, 0xff, 0xff}, {0x80000001, 0xfffffffe}},
        {7, 8, {1, 0, 0, 0, 0, 0, 0, 0x80, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {INT64_MIN + 1, -2}},
        {13, 8, {1, 0, 0, 0, 0, 0, 0, 0x40, 0xfe, 0xff, 0xff, 0xff, 0, 0, 0, 0}, {((int64_t)1 << 62) + 1, 0xfffffffe}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t size = 2 * (size_t)cases[c].size;
        int64_t whole[2];
        struct bytes varints = {0};
        struct onnx_tensor tensor = {.type = cases[c].type, .elements = 2, .bytes = {cases[c].bytes, size}};
        onnx_tensor_whole(&tensor, whole);
        assert_memory_equal(whole, cases[c].wanted, sizeof whole);
        for (int e = 0; e < 2; e++) put_varint(&varints, (uint64_t)cases[c].wanted[e]);
        tensor.varints = true;
        tensor.bytes = (struct onnx_bytes){varints.data, varints.size};
        onnx_tensor_whole(&tensor, whole);
        assert_memory_equal(whole, cases[c].wanted, sizeof whole);
        free(varints.data);
        for (int cut = 0; cut < 2; cut++) {
            struct bytes graph = small_graph(), made = {0};
            char said[64];
            put_number(&made, 1, 2);
            put_number(&made, 2, (uint64_t)cases[c].type);
            put_text(&made, 8, "k");
            put_bytes(&made, 9, cases[c].bytes, size - (size_t)cut);
            put_message(&graph, 5, &made);
            free(made.data);
            snprintf(said, sizeof said, "tensor 'k': %zu bytes, and its shape needs %zu", size - 1, size);
            if (cut) {
                refused(&graph, said);
                continue;
            }
            accepted(&graph);
        }
    }
}

/* An attribute's list, also where its type is not said and numbers are packed. */
static void put_sum(struct bytes *graph, int kind, const char *name) {
    struct bytes node = {0}, attribute = {0};
    put_text(&node, 1, "x");
    put_text(&node, 2, "y");
    put_text(&node, 3, "y");
    put_text(&node, 4, "ReduceSum");
    put_text(&attribute, 1, name);
    if (kind == 7) put_bytes(&attribute, 7, &(float){1}, sizeof(float));
    if (kind == 8) put_bytes(&attribute, 8, "\x01", 1);
    if (kind == 4) put_number(&attribute, 20, 4);
    put_message(&node, 5, &attribute);
    put_message(graph, 1, &node);
    put_value(graph, 11, "x", (int64_t[]){2, 6}, 2);
    put_value(graph, 12, "y", (int64_t[]){2, 6}, 2);
    free(node.data), free(attribute.data);
}

static void test_attribute_kinds(void **state) {
    (void)state;
    struct bytes graph = {0};
    put_sum(&graph, 4, "axes");
    refused(&graph, "attribute 'axes' has no tensor");
    put_sum(&graph, 7, "floats");
    refused(&graph, "its attribute 'floats' is not known");
    put_sum(&graph, 8, "integers");
    refused(&graph, "its attribute 'integers' is not known");
    graph = small_graph();
    put_value(&graph, 11, "deep", (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 17);
    refused(&graph, "value 'deep': at most");
}

/* Every operator that docs/formats.md names says which attributes it knows. */
static void test_attributes(void **state) {
    (void)state;
    char *text, op[64], wanted[128];
    size_t size;
    int operators = 0;
    assert_ok(file_read(TEST_DIRECTORY "/../docs/formats.md", 1 << 22, &text, &size, &test_error));
    const char *at = strstr(text, "\nOf values: "), *end = at ? strstr(at, "`.\n") : NULL;
    assert_non_null(end);
    for (at = strchr(at, '`'); at && at < end; at = strchr(strchr(at + 1, '`') + 1, '`'), operators++) {
        struct bytes graph = {0}, node = {0}, attribute = {0};
        snprintf(op, sizeof op, "%.*s", (int)strcspn(at + 1, "`"), at + 1);
        put_value(&graph, 11, "x", (int64_t[]){2, 6}, 2);
        put_text(&node, 1, "x");
        put_text(&node, 2, "y");
        put_text(&node, 3, "y");
        put_text(&node, 4, op);
        put_text(&attribute, 1, "nobody");
        put_number(&attribute, 3, 1);
        put_number(&attribute, 20, 2);
        put_message(&node, 5, &attribute);
        put_message(&graph, 1, &node);
        put_value(&graph, 12, "y", (int64_t[]){2, 6}, 2);
        snprintf(wanted, sizeof wanted, "node 'y' (%s): its attribute 'nobody' is not known; known are: ", op);
        refused(&graph, wanted);
        free(node.data), free(attribute.data);
    }
    assert_true(operators > 100);
    free(text);
}

/* Graphs in attributes in graphs are not descended into. */
static void test_nesting(void **state) {
    (void)state;
    struct bytes inner = {0}, node = {0}, attribute = {0}, graph = small_graph();
    for (int depth = 0; depth < 2000; depth++) {
        put_text(&attribute, 1, "body");
        put_bytes(&attribute, 6, inner.data, inner.size);
        put_text(&node, 4, "Loop");
        put_message(&node, 5, &attribute);
        inner.size = 0;
        put_message(&inner, 1, &node);
    }
    put_text(&attribute, 1, "body");
    put_message(&attribute, 6, &inner);
    put_text(&node, 2, "out");
    put_text(&node, 4, "Loop");
    put_message(&node, 5, &attribute);
    put_message(&graph, 1, &node);
    refused(&graph, "node 'out' (Loop): the operator is not known");
    free(inner.data), free(node.data), free(attribute.data);
}

/* Empty nodes are refused at the first, however many there are. */
static void test_many(void **state) {
    (void)state;
    struct bytes graph = small_graph();
    for (int n = 0; n < 1000000; n++) put(&graph, "\x0a\x00", 2);
    refused(&graph, "has no operator");
}

/* Rows of numbers joined with the batch are not one number for each sample. */
static void test_flat_output(void **state) {
    (void)state;
    struct bytes graph = {0}, shape = {0};
    put_number(&shape, 1, 1);
    put_number(&shape, 2, 7);
    put_text(&shape, 8, "all");
    put_bytes(&shape, 9, &(int64_t){12}, sizeof(int64_t));
    put_message(&graph, 5, &shape);
    free(shape.data);
    put_value(&graph, 11, "x", (int64_t[]){2, 6}, 2);
    put_node(&graph, "Reshape", (const char *[]){"x", "all", NULL}, "flat");
    put_value(&graph, 12, "flat", (int64_t[]){12}, 1);
    refused(&graph, "model.onnx: output: its only dimension has more than the batch");
}

/* One of a single letter is one, though none that is known. */
static void test_unknown(void **state) {
    (void)state;
    struct bytes graph = small_graph();
    put_node(&graph, "X", (const char *[]){"z", NULL}, "u");
    refused(&graph, "node 'u' (X): the operator is not known");
}

/* A product and behind it a chain of so many nodes; nothing may recurse along it. */
static struct bytes long_chain(int nodes) {
    struct bytes graph = {0};
    char from[16] = "y", to[16];
    put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
    put_node(&graph, "MatMul", (const char *[]){"x", "w", NULL}, "y");
    put_value(&graph, 11, "x", (int64_t[]){2, 6}, 2);
    for (int n = 0; n < nodes; n++) {
        snprintf(to, sizeof to, "n%d", n);
        put_node(&graph, "Sigmoid", (const char *[]){from, NULL}, to);
        memcpy(from, to, sizeof from);
    }
    put_value(&graph, 12, from, (int64_t[]){2, 4}, 2);
    return graph;
}

static void test_long(void **state) {
    (void)state;
    struct bytes graph = long_chain(100000), file = model_of(&graph);
    struct ps_network *network = NULL;
    assert_ok(parse(file, &network));
    ps_network_destroy(network);
    free(file.data);
    graph = long_chain(140000);
    refused(&graph, "more than 131072 computations that depend on the data");
}

static void put_external(struct bytes *graph, const char *location, const char *offset) {
    struct bytes tensor = {0}, entry = {0};
    put_number(&tensor, 1, 4);
    put_number(&tensor, 2, 1);
    put_text(&tensor, 8, "outside");
    put_text(&entry, 1, "location");
    put_text(&entry, 2, location);
    put_message(&tensor, 13, &entry);
    put_text(&entry, 1, "offset");
    put_text(&entry, 2, offset);
    put_message(&tensor, 13, &entry);
    put_number(&tensor, 14, 1);
    put_message(graph, 5, &tensor);
    free(tensor.data);
    free(entry.data);
}

static void test_external(void **state) {
    (void)state;
    static const struct {
        const char *location, *offset, *message;
    } cases[] = {
        {"../secret", "0", "the name of a file beside the model is accepted"},
        {"/etc/passwd", "0", "the name of a file beside the model is accepted"},
        {".", "0", "the name of a file beside the model is accepted"},
        {"", "0", "the name of a file beside the model is accepted"},
        {"missing", "0", "missing: No such file or directory"},
        {"link", "0", "link: is a symbolic link, which external data may not be"},
        {"empty", "0", "empty is empty"},
        {"directory", "0", "directory is no plain file"},
        {"data", "1", "16 bytes at 1 of data (16 bytes)"},
        {"data", "-1", "offset '-1' is no size"},
        {"data", "99999999999999999999", "is no size"},
    };
    char path[4200], link[4200];
    snprintf(path, sizeof path, "%s/data", test_directory);
    test_file_write(path, "0123456789abcdef", 16);
    snprintf(link, sizeof link, "%s/empty", test_directory);
    test_file_write(link, "", 0);
    snprintf(link, sizeof link, "%s/directory", test_directory);
    assert_int_equal(mkdir(link, 0777), 0);
    snprintf(link, sizeof link, "%s/link", test_directory);
    assert_int_equal(symlink(path, link), 0);
    snprintf(path, sizeof path, "%s/model.onnx", test_directory);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bytes graph = small_graph();
        struct ps_network *network = NULL;
        put_external(&graph, cases[c].location, cases[c].offset);
        struct bytes file = model_of(&graph);
        test_file_write(path, file.data, file.size);
        assert_status(onnx_read_network(path, &network, &test_error), PS_BAD_INPUT, cases[c].message);
        free(file.data);
    }
}

/* --------------------------------------------------------------- at random */

static uint64_t draws;
static uint64_t draw(uint64_t below) {
    struct random_key key = test_key(19);
    return (uint64_t)((double)random_uniform(key, draws++) * (double)below) % below;
}

static void mutate(unsigned char *data, size_t *size) {
    static const unsigned char odd[] = {0, 1, 2, 0x7f, 0x80, 0xff, 8, 10, 18};
    for (uint64_t times = 1 + draw(6); times > 0; times--) {
        const size_t at = draw(*size), length = 1 + draw(8), to = draw(*size);
        switch (draw(5)) {
        case 0:
            data[at] ^= (unsigned char)(1 << draw(8));
            break;
        case 1:
            data[at] = odd[draw(sizeof odd)];
            break;
        case 2:
            *size = 1 + draw(*size);
            break;
        case 3:
            if (at + length <= *size && to + length <= *size) memmove(data + to, data + at, length);
            break;
        default:
            if (at + length < *size) {
                memmove(data + at, data + at + length, *size - at - length);
                *size -= length;
            }
        }
    }
}

static void check_mutated(const unsigned char *data, size_t size, long mutations) {
    unsigned char *copy = malloc(size);
    assert_non_null(copy);
    for (long m = 0; m < mutations; m++) {
        struct ps_error error = {0};
        struct ps_network *network = NULL;
        size_t length = size;
        memcpy(copy, data, size);
        mutate(copy, &length);
        enum ps_status status = onnx_parse_network("model.onnx", copy, length, &network, &error);
        if (status == PS_OK) {
            ps_network_destroy(network);
            continue;
        }
        if (status != PS_BAD_INPUT && status != PS_USAGE)
            fail_msg("mutation %ld: status %d: %s", m, (int)status, error.message);
        if (error.message[0] == '\0' || strpbrk(error.message, "\n\r") != NULL)
            fail_msg("mutation %ld: '%s'", m, error.message);
    }
    free(copy);
}

static void test_mutated(void **state) {
    (void)state;
    static const char *const files[] = {"mlp.ts17",   "lstm_text.dyn20", "vgg16_bn.dyn20",
                                        "bert.dyn23", "gpt2.dyn20",      "mobilenet_v3.ts17"};
    const char *data = getenv("PENSTOCK_DATA"), *said = getenv("PENSTOCK_TEST_MUTATIONS");
    const long mutations = said != NULL ? atol(said) : 2000;
    struct bytes graph = small_graph(), file = model_of(&graph);
    check_mutated(file.data, file.size, 10 * mutations);
    free(file.data);
    for (size_t f = 0; data != NULL && f < sizeof files / sizeof *files; f++) {
        char path[4096];
        char *text;
        size_t size;
        snprintf(path, sizeof path, "%s/onnx/%s.onnx", data, files[f]);
        if (!file_exists(path)) continue;
        assert_ok(file_read(path, (size_t)1 << 28, &text, &size, &test_error));
        check_mutated((unsigned char *)text, size, mutations / 10);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),      cmocka_unit_test(test_names),         cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_attributes), cmocka_unit_test(test_nesting),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_unknown),    cmocka_unit_test(test_rows),          cmocka_unit_test(test_external),
        cmocka_unit_test(test_mutated),    cmocka_unit_test(test_flat_output),   cmocka_unit_test(test_long),
        cmocka_unit_test(test_numbers),    cmocka_unit_test(test_whole_numbers), cmocka_unit_test(test_attribute_kinds),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
