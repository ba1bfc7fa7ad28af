/*
 * Whole networks against PyTorch: loss, hits, every parameter's gradient and every running statistic after one training step,
 * on every device that computes numbers. golden/make_goldens.py and, for single operators, golden/make_operators.py made the
 * numbers; weights and data come from a formula that stands there and here.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "golden.h"
#include "graph/model.h"

/* Errors of single elements are held against the root mean square, those of sums against the norm. A gradient that is 0 but for
 * rounding (of a bias before a normalisation, which takes it away again) is held against the largest. */
static void check_parameter(struct chain *chain, json_t *golden, double largest) {
    const char *name = json_string_value(json_object_get(golden, "name"));
    double sum = 0, squares = 0, norm = json_number_value(json_object_get(golden, "norm"));
    static float values[4096 * 4096];
    int64_t count = chain_export(chain, name, NULL, values);
    for (int64_t i = 0; i < count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
    }
    double scale = norm > 1e-9 * largest ? norm : 0.1 * largest;
    assert_near("norm", name, norm, sqrt(squares), scale);
    assert_near("sum", name, json_number_value(json_object_get(golden, "sum")), sum, sqrt((double)count) * scale);
    json_t *elements = json_object_get(golden, "elements");
    int64_t picks = (int64_t)json_array_size(elements);
    assert_true(picks > 0);
    for (int64_t k = 0; k < picks; k++) {
        double wanted = json_number_value(json_array_get(elements, (size_t)k));
        double got = (double)values[(k + 1) * count / (picks + 1)];
        assert_near("element", name, wanted, got, fmax(fabs(wanted), scale / sqrt((double)count)));
    }
}

/* Local response normalisation, strong enough to see, between a convolution and a linear layer. */
static struct graph *responses(void) {
    struct builder b = {graph_create(), &test_error};
    struct attributes strong = {.window = 5, .alpha = 2, .beta = 0.75f, .shift = 1.5f};
    int x = build_convolution(&b, build_input(&b, 2, 4, 5), "conv", 9, 3, 1, 1, true);
    x = build_node(&b, x, OPERATOR_LOCAL_RESPONSE_NORM, "norm", strong);
    build_cross_entropy(&b, build_linear(&b, build_flatten(&b, x, "flatten"), "fc", 10), "loss");
    assert_ok(graph_finish(b.graph, &test_error));
    return b.graph;
}

/* Of a network file, of a built-in network, or of what is called by its operator's name. */
static struct graph *take_graph(json_t *golden) {
    const char *spec = json_string_value(json_object_get(golden, "model"));
    json_t *file = json_object_get(golden, "network");
    struct ps_network *model = NULL;
    if (strcmp(spec, "local_response_norm") == 0) return responses();
    if (file != NULL) {
        char *text = json_dumps(file, 0);
        assert_ok(network_parse(text, strlen(text), spec, &model, &test_error));
        free(text);
    } else {
        assert_ok(ps_network_open(spec, &model, &test_error));
    }
    struct graph *graph = model->graph;
    model->graph = NULL;
    ps_network_destroy(model);
    return graph;
}

static void check_golden(struct device *device, json_t *golden) {
    const char *spec = json_string_value(json_object_get(golden, "model"));
    int samples = (int)json_integer_value(json_object_get(golden, "samples"));
    struct graph *graph = take_graph(golden);
    struct chain *chain = chain_create(device, graph, samples, 1, NULL, 0);
    fill_parameters(chain, NORMS_PLAIN);
    fill_data(chain, json_string_value(json_object_get(golden, "data")));
    int32_t labels[16];
    for (int n = 0; n < samples; n++) labels[n] = 7 * n % 10;
    struct stage_step step = {
        .target = labels, .gradient_scale = 1.0f / (float)samples, .training = true, .update_statistics = true};
    struct stage_result result = chain_forward(chain, 0, &step);
    chain_backward(chain, 0, &step);
    double loss = json_number_value(json_object_get(golden, "loss"));
    assert_near("loss", spec, loss, result.loss / samples, 0.1 * loss);
    assert_int_equal(result.correct, json_integer_value(json_object_get(golden, "correct")));

    json_t *parameters = json_object_get(golden, "parameters"), *parameter;
    assert_int_equal(json_array_size(parameters), graph->parameter_count);
    double largest = 0;
    size_t p;
    json_array_foreach(parameters, p, parameter) {
        largest = fmax(largest, json_number_value(json_object_get(parameter, "norm")));
    }
    json_array_foreach(parameters, p, parameter) check_parameter(chain, parameter, largest);
    chain_destroy(chain);
    graph_destroy(graph);
}

/* Under valgrind one golden in `share`. */
static void check_file(struct device *device, const char *path, size_t share) {
    json_t *root = NULL;
    assert_ok(json_read_file(path, "penstock-goldens", &root, &test_error));
    json_t *goldens = json_object_get(root, "goldens"), *golden;
    assert_true(json_array_size(goldens) >= 7);
    size_t i;
    json_array_foreach(goldens, i, golden) {
        if (test_takes(i, share)) check_golden(device, golden);
    }
    json_decref(root);
}

static void check_networks(struct device *device) { check_file(device, TEST_DIRECTORY "/golden/goldens.json", 4); }
static void check_operators(struct device *device) { check_file(device, TEST_DIRECTORY "/golden/operators.json", 1); }

static void test_networks(void **state) {
    (void)state;
    on_real_devices(check_networks);
}

static void test_operators(void **state) {
    (void)state;
    on_real_devices(check_operators);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks), cmocka_unit_test(test_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
