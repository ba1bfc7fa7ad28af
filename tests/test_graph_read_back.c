/* A node of each kind, with random attributes, is the same node when its network's file is read: devices compute what was read.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/operators.h"
#include "kernel_cases.h"
#include "support.h"

/* A number that the attribute accepts: often one of its bounds, else any. */
static float draw_number(const struct attribute *attribute, struct draw *d) {
    const uint32_t bits = (uint32_t)random_below(d->key, d->index++, (uint64_t)1 << 32);
    const int which = draw(d, 0, 7);
    float number;
    memcpy(&number, &bits, sizeof number);
    if (which == 0 || !((double)number >= attribute->low)) return (float)attribute->low;
    return which == 1 || (double)number > attribute->high ? (float)attribute->high : number;
}

/* Other numbers for the node, if its operator takes them together. */
static void draw_numbers(const struct graph *graph, struct node *node, struct draw *d) {
    const struct operator_type *op = operator_get(node->id);
    const struct attributes before = node->attributes;
    struct shape inputs[GRAPH_INPUTS_MAX];
    for (const struct attribute *a = op->attributes; a < op->attributes + ATTRIBUTES_MAX && a->name != NULL; a++)
        if (a->kind == ATTRIBUTE_NUMBER) attribute_set(&node->attributes, a, 0, (double)draw_number(a, d));
    struct operation operation = node_operation(graph, node, inputs);
    operation.error = &test_error;
    if (op->infer(&operation) != PS_OK) node->attributes = before;
}

/* The case's network, its output, made f32, learned as numbers; NULL: of tokens alone, or of what a file has as a sequence. */
static struct ps_network *make_network(const struct test_case *which, uint64_t number) {
    struct draw d = {test_key(number), 0};
    struct builder b = {graph_create(), &test_error};
    struct ps_network *network;
    const int node = which->build(&b, &d);
    assert_true(node >= 0);
    draw_numbers(b.graph, &b.graph->nodes[node], &d);
    int last = b.graph->node_count - 1;
    if (!(b.graph->nodes[last].flags & OPERATOR_LOSS)) {
        if (b.graph->nodes[last].shape.type != TYPE_F32) last = build_cast(&b, last, "wide", TYPE_F32);
        assert_ok(network_add_loss(b.graph, "mse", last, &test_error));
    }
    for (int i = 0; i < b.graph->input_count; i++)
        if (b.graph->nodes[i].shape.type == TYPE_I32 && b.graph->nodes[i].shape.rank == 1) {
            graph_destroy(b.graph);
            return NULL;
        }
    return network_create("random", b.graph, PREDICTS_CLASSES, &network, &test_error) == PS_OK ? network : NULL;
}

static void test_random_nodes(void **state) {
    (void)state;
    size_t used = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        int read = 0;
        for (uint64_t repeat = 0; repeat < REPEATS; repeat++) {
            struct ps_network *network = make_network(&cases[c], REPEATS * c + repeat), *again;
            if (network == NULL) continue;
            char *text = ps_network_json(network), *back;
            assert_non_null(text);
            if (network_parse(text, strlen(text), "text", &again, &test_error) != PS_OK)
                fail_msg("%s: %s in\n%s", cases[c].name, test_error.message, text);
            back = ps_network_json(again);
            assert_string_equal(text, back);
            if (network->hash != again->hash) fail_msg("%s: another hash of\n%s", cases[c].name, text);
            for (int n = 0; n < network->graph->node_count; n++)
                if (!shape_equal(&network->graph->nodes[n].shape, &again->graph->nodes[n].shape))
                    fail_msg("%s: another shape of node %d of\n%s", cases[c].name, n, text);
            free(back);
            free(text);
            ps_network_destroy(again);
            ps_network_destroy(network);
            read++;
        }
        used += read > 0;
    }
    if (used < sizeof cases / sizeof *cases * 9 / 10) fail_msg("of %zu cases alone there are networks", used);
}

/* A number that no file can say is not left out: nothing is written. */
static void test_infinite(void **state) {
    (void)state;
    static const double numbers[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct builder b = {graph_create(), &test_error};
        struct ps_network *network;
        const struct attributes attributes = {.value = (float)numbers[i]};
        const int wide = build_node(&b, build_input(&b, 8, 0, 0), OPERATOR_PAD, "wide", attributes);
        assert_ok(network_add_loss(b.graph, NULL, wide, &test_error));
        assert_ok(network_create("infinite", b.graph, PREDICTS_CLASSES, &network, &test_error));
        assert_null(ps_network_json(network));
        ps_network_destroy(network);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_nodes), cmocka_unit_test(test_infinite)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
