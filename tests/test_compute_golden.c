/*
 * Whole networks against PyTorch: loss, hits, every parameter's gradient and every running statistic after one training step,
 * on every device that computes numbers. golden/make_goldens.py made the numbers; weights and data come from a formula that
 * stands there and here.
 */
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "chain.h"
#include "graph/model.h"

static uint32_t name_hash(const char *name) {
    uint32_t value = 0x811C9DC5u;
    for (; *name != '\0'; name++) value = (value ^ (unsigned char)*name) * 0x01000193u;
    return value;
}

/* Element `i` of what is called `name`: centre + amplitude * u, u in [-1, 1). */
static float number(uint32_t hash, int64_t i, double amplitude, double centre) {
    uint32_t x = (uint32_t)i * 0x9E3779B1u + hash;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    x ^= x >> 16;
    return (float)(centre + amplitude * ((double)(x >> 8) * 0x1p-23 - 1.0));
}

static void fill_parameters(struct chain *chain) {
    struct stage *stage = chain->stages[0];
    for (int p = 0; p < stage_parameter_count(stage); p++) {
        const struct parameter *parameter = stage_parameter(stage, p);
        if (parameter->statistic) continue;
        const struct shape *shape = &parameter->shape;
        int64_t count = shape_elements(shape);
        bool scale = shape->rank == 1 && parameter->initial.kind == INITIAL_CONSTANT && parameter->initial.value == 1;
        double amplitude = shape->rank > 1 ? sqrt(6.0 / (double)(count / shape->dim[0])) : 0.1;
        float *values = malloc((size_t)count * sizeof *values);
        assert_non_null(values);
        uint32_t hash = name_hash(parameter->name);
        for (int64_t i = 0; i < count; i++) values[i] = number(hash, i, amplitude, scale ? 1 : 0);
        assert_ok(stage_import(stage, p, values, chain->weights[0], chain->blocks[0][0].statistics, &test_error));
        free(values);
    }
}

/* The formula counts in PyTorch's order N, C, H, W; memory is N, H, W, C. */
static void fill_data(struct chain *chain, const char *name) {
    const int64_t *dim = chain->graph->nodes[0].shape.dim, positions = dim[1] * dim[2];
    uint32_t hash = name_hash(name);
    for (int64_t n = 0; n < chain->samples; n++) {
        for (int64_t p = 0; p < positions; p++) {
            for (int64_t c = 0; c < dim[0]; c++) {
                chain->blocks[0][0].input[(n * positions + p) * dim[0] + c] =
                    number(hash, (n * dim[0] + c) * positions + p, 1, 0);
            }
        }
    }
}

/* Tokens and labels of sequences, as sequence_golden has them. */
static void fill_tokens(struct chain *chain, int32_t labels[64]) {
    int64_t positions = chain->graph->nodes[0].shape.dim[1], count = chain->samples * positions;
    int vocabulary = graph_vocabulary(chain->graph);
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++) {
        chain->blocks[0][0].input[i] = i < count - 2 ? (float)(7 * i % (vocabulary - 1) + 1) : 0;
        labels[i] = i % 4 == 3 ? -1 : (int32_t)(5 * i % vocabulary);
    }
}

static void assert_near(const char *what, const char *name, double wanted, double got, double scale) {
    if (fabs(got - wanted) <= 1e-4 * scale) return;
    fail_msg("%s of %s is %.9g, not %.9g (scale %.3g)", what, name, got, wanted, scale);
}

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

static void check_golden(struct device *device, json_t *golden) {
    const char *spec = json_string_value(json_object_get(golden, "model"));
    int samples = (int)json_integer_value(json_object_get(golden, "samples"));
    struct ps_model *model = NULL;
    assert_ok(ps_model_create(spec, &model, &test_error));
    struct chain *chain = chain_create(device, model->graph, samples, 1, NULL, 0);
    fill_parameters(chain);
    int32_t labels[64];
    int counted = samples;
    for (int n = 0; n < samples; n++) labels[n] = 7 * n % 10;
    if (model->vocabulary == 0) {
        fill_data(chain, json_string_value(json_object_get(golden, "data")));
    } else {
        fill_tokens(chain, labels);
        counted = 0;
        for (int i = 0; i < samples * model->labels; i++) counted += labels[i] >= 0;
    }
    struct stage_step step = {
        .labels = labels, .gradient_scale = 1.0f / (float)counted, .training = true, .update_statistics = true};
    struct stage_result result = chain_forward(chain, 0, &step);
    chain_backward(chain, 0, &step);
    double loss = json_number_value(json_object_get(golden, "loss"));
    assert_near("loss", spec, loss, result.loss / counted, 0.1 * loss);
    assert_int_equal(result.correct, json_integer_value(json_object_get(golden, "correct")));

    json_t *parameters = json_object_get(golden, "parameters"), *parameter;
    assert_int_equal(json_array_size(parameters), model->graph->parameter_count);
    double largest = 0;
    size_t p;
    json_array_foreach(parameters, p, parameter) {
        largest = fmax(largest, json_number_value(json_object_get(parameter, "norm")));
    }
    json_array_foreach(parameters, p, parameter) check_parameter(chain, parameter, largest);
    chain_destroy(chain);
    ps_model_destroy(model);
}

static void check_device(struct device *device) {
    json_t *root = NULL;
    assert_ok(json_read_file(TEST_DIRECTORY "/golden/goldens.json", "penstock-goldens", &root, &test_error));
    json_t *goldens = json_object_get(root, "goldens"), *golden;
    assert_true(json_array_size(goldens) >= 6);
    size_t i;
    json_array_foreach(goldens, i, golden) check_golden(device, golden);
    json_decref(root);
}

static void test_goldens(void **state) {
    (void)state;
    on_real_devices(check_device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
