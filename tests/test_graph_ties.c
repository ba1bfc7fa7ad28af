/* Parameters that several nodes use: where they are found, what they take, and how files say it. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/memory.h"
#include "graph/network.h"
#include "graph/ties.h"
#include "support.h"

enum { WIDTH = 24, LAYERS = 6 };
#define WEIGHT_BYTES ((int64_t)WIDTH * WIDTH * 4) /* a multiple of MEMORY_ALIGNMENT */
#define BIAS_BYTES ((int64_t)memory_align((size_t)WIDTH * 4))

/* Linear layers 0 to 5; 0 and 2 share a weight, 1, 3 and 4 another one, and 0, 1 and 3 a bias. */
static struct ps_network *make_network(void) {
    struct ps_network_builder *builder = ps_network_builder_create("tied");
    struct ps_network *network;
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f"};
    int nodes[LAYERS];
    assert_int_equal(ps_network_builder_input(builder, "x", "f32", (const int64_t[]){WIDTH}, 1), 0);
    for (int l = 0; l < LAYERS; l++) nodes[l] = ps_network_builder_node(builder, names[l], "linear,channels=24", NULL, 0);
    ps_network_builder_tie(builder, nodes[2], nodes[0]);
    ps_network_builder_share(builder, nodes[1], "bias", "a.bias");
    ps_network_builder_share(builder, nodes[3], "weight", "b.weight");
    ps_network_builder_share(builder, nodes[3], "bias", "a.bias");
    ps_network_builder_tie(builder, nodes[4], nodes[1]);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    assert_int_equal(network->graph->layer_count, LAYERS);
    return network;
}

static void assert_tie(const struct tie *tie, const char *parameter, int64_t bytes, int uses, const int *layers) {
    assert_string_equal(tie->parameter->name, parameter);
    assert_int_equal(tie->bytes, bytes);
    assert_int_equal(tie->uses, uses);
    assert_memory_equal(tie->layers, layers, (size_t)uses * sizeof *layers);
}

static void test_found(void **state) {
    (void)state;
    struct ps_network *network = make_network();
    struct arena arena = {0};
    struct ties ties, copy;
    assert_ok(ties_find(network->graph, &arena, &ties, &test_error));
    assert_int_equal(ties.count, 3);
    assert_tie(&ties.list[0], "a.weight", WEIGHT_BYTES, 2, (const int[]){0, 2});
    assert_tie(&ties.list[1], "a.bias", BIAS_BYTES, 3, (const int[]){0, 1, 3});
    assert_tie(&ties.list[2], "b.weight", WEIGHT_BYTES, 3, (const int[]){1, 3, 4});
    for (int t = 0; t < 3; t++) assert_false(ties.list[t].narrow || ties.list[t].wide);
    const struct {
        int first, last, uses[3];
        int64_t repeated, outside;
    } ranges[] = {
        {0, 5, {2, 3, 3}, 3 * WEIGHT_BYTES + 2 * BIAS_BYTES, 0},
        {0, 0, {1, 1, 0}, 0, WEIGHT_BYTES + BIAS_BYTES},
        {0, 1, {1, 2, 1}, BIAS_BYTES, 2 * WEIGHT_BYTES + 2 * BIAS_BYTES},
        {2, 3, {1, 1, 1}, 0, 2 * WEIGHT_BYTES + BIAS_BYTES},
        {2, 4, {1, 1, 2}, WEIGHT_BYTES, 3 * WEIGHT_BYTES + BIAS_BYTES},
        {1, 4, {1, 2, 3}, 2 * WEIGHT_BYTES + BIAS_BYTES, WEIGHT_BYTES + 2 * BIAS_BYTES},
        {5, 5, {0, 0, 0}, 0, 0},
    };
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        for (int t = 0; t < 3; t++)
            assert_int_equal(tie_uses_in(&ties.list[t], ranges[r].first, ranges[r].last), ranges[r].uses[t]);
        assert_int_equal(ties_repeated_bytes(&ties, ranges[r].first, ranges[r].last, false), ranges[r].repeated);
        assert_int_equal(ties_repeated_bytes(&ties, ranges[r].first, ranges[r].last, true), 0);
        assert_int_equal(ties_outside_bytes(&ties, ranges[r].first, ranges[r].last), ranges[r].outside);
    }
    assert_ok(ties_copy(&ties, &arena, &copy, &test_error));
    assert_int_equal(copy.count, 3);
    for (int t = 0; t < 3; t++) {
        assert_null(copy.list[t].parameter);
        assert_int_equal(copy.list[t].bytes, ties.list[t].bytes);
        assert_ptr_not_equal(copy.list[t].layers, ties.list[t].layers);
        assert_memory_equal(copy.list[t].layers, ties.list[t].layers, (size_t)ties.list[t].uses * sizeof(int));
    }
    /* What is frozen has no gradients, and is shared by nobody. */
    assert_ok(ps_network_freeze(network, "*.weight", &test_error));
    assert_ok(ties_find(network->graph, &arena, &ties, &test_error));
    assert_int_equal(ties.count, 1);
    assert_tie(&ties.list[0], "a.bias", BIAS_BYTES, 3, (const int[]){0, 1, 3});
    arena_release(&arena);
    ps_network_destroy(network);
}

/* Copies of matrices are bf16, of vectors f32. */
static void test_precision(void **state) {
    (void)state;
    struct ps_network *network = make_network();
    struct arena arena = {0};
    struct ties ties;
    assert_ok(ps_network_set_precision(network, "bf16", &test_error));
    assert_ok(ties_find(network->graph, &arena, &ties, &test_error));
    assert_int_equal(ties.count, 3);
    for (int t = 0; t < 3; t++) {
        assert_int_equal(ties.list[t].narrow, t != 1);
        assert_int_equal(ties.list[t].wide, t == 1);
    }
    assert_int_equal(ties_repeated_bytes(&ties, 0, 5, true), 3 * WEIGHT_BYTES);
    assert_int_equal(ties_repeated_bytes(&ties, 0, 5, false), 3 * WEIGHT_BYTES + 2 * BIAS_BYTES);
    ps_network_destroy(network);
    /* A copy that one of its users reads as f32 is f32 for all. */
    struct ps_network_builder *builder = ps_network_builder_create("mixed");
    assert_int_equal(ps_network_builder_input(builder, "x", "f32", (const int64_t[]){WIDTH, WIDTH, 1}, 3), 0);
    ps_network_builder_node(builder, "a", "linear,channels=24", NULL, 0);
    ps_network_builder_node(builder, "b", "linear,channels=24", NULL, 0);
    const int sum = ps_network_builder_node(builder, "sum", "binary,kind=add,sides=24x24x1,shape=24x24", NULL, 0);
    ps_network_builder_share(builder, sum, "weight", "a.weight");
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(builder, &network, &test_error));
    assert_ok(ps_network_set_precision(network, "bf16", &test_error));
    assert_ok(ties_find(network->graph, &arena, &ties, &test_error));
    assert_int_equal(ties.count, 1);
    assert_true(ties.list[0].wide && !ties.list[0].narrow);
    for (int p = 0; p < network->graph->parameter_count; p++)
        assert_int_equal(network->graph->parameters[p].copy,
                         strcmp(network->graph->parameters[p].name, "b.weight") == 0 ? TYPE_BF16 : TYPE_F32);
    ps_network_destroy(network);
    arena_release(&arena);
}

static enum ps_status read_text(const char *text, int layer_count, struct arena *arena, struct ties *ties) {
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    const struct json_place place = json_root(root, "f.json");
    const enum ps_status status = ties_read(&place, layer_count, arena, ties, &test_error);
    json_decref(root);
    return status;
}

static void test_files(void **state) {
    (void)state;
    static const char *const texts[] = {
        "[]",
        "[[0, 5]]",
        "[[0, 0, 5], {\"layers\": [1, 2], \"bytes\": 64}]",
        "[{\"layers\": [0, 5], \"bytes\": 17592186044416, \"narrow\": true}]",
    };
    struct arena arena = {0};
    struct ties ties;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_ok(read_text(texts[i], 6, &arena, &ties));
        json_t *json = ties_json(&ties);
        char *text = json_dumps(json, 0);
        assert_string_equal(text, texts[i]);
        free(text);
        json_decref(json);
        assert_int_equal(ties_are_ends(&ties, 6), i == 1 || i == 3);
        assert_false(ties_are_ends(&ties, 7));
    }
    assert_true(ties.list[0].narrow);
    assert_int_equal(ties.list[0].bytes, (int64_t)1 << 44);
    ties.list[0].wide = true;
    assert_false(ties_are_ends(&ties, 6));
    assert_ok(read_text("[[1, 5]]", 6, &arena, &ties));
    assert_false(ties_are_ends(&ties, 6));
    assert_ok(read_text("[[0, 1048576]]", 0, &arena, &ties)); /* how many layers there are is not known yet */
    assert_ok(ties_ends(9, 128, &arena, &ties, &test_error));
    assert_true(ties_are_ends(&ties, 9));
    assert_int_equal(ties.list[0].bytes, 128);
    static const struct {
        const char *text;
        int layers;
        const char *said;
    } wrong[] = {
        {"[[0]]", 6, "1 layers; 2 to 16384 are accepted"},
        {"[[0, 6]]", 6, "must be the number of a layer, not below the one before and at most 5"},
        {"[[-1, 5]]", 6, "must be the number of a layer, not below the one before and at most 5"},
        {"[[3, 2]]", 6, "must be the number of a layer, not below the one before and at most 5"},
        {"[[0, 2.5]]", 6, "must be the number of a layer"},
        {"[[0, 1048577]]", 0, "not below the one before and at most 1048576"},
        {"[{\"bytes\": 3}]", 6, "layers"},
        {"[{\"layers\": [0, 5]}]", 6, "bytes"},
        {"[{\"layers\": [0, 5], \"bytes\": -1}]", 6, "bytes"},
        {"[{\"layers\": [0, 5], \"bytes\": 17592186044417}]", 6, "bytes"},
        {"[{\"layers\": [0, 5], \"byte\": 1}]", 6, "byte"},
        {"{}", 6, "array"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        assert_status(read_text(wrong[w].text, wrong[w].layers, &arena, &ties), PS_BAD_INPUT, wrong[w].said);
    arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_precision),
                                       cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
