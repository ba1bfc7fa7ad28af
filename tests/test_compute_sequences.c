/*
 * Networks of sequences against PyTorch: loss, hits and every parameter's gradient, and ten training steps with each optimizer,
 * on every device that computes numbers. golden/make_sequences.py and make_transformers.py made the numbers; weights, tokens
 * and labels come from formulas that stand there and here.
 */
#include "base/json.h"
#include "base/vector.h"
#include "compute/optimizer.h"
#include "golden.h"
#include "graph/model.h"

enum { SAMPLES_MAX = 4, LABELS_MAX = 64, FLOATS_MAX = 1 << 16, STEPS = 10 };

/* 1 to vocabulary - 1; sample n has `empty` in its last n places. */
static int32_t token(const char *name, int64_t n, int64_t t, int64_t length, int vocabulary, int32_t empty) {
    if (t >= length - n) return empty;
    float u = number(name_hash(name), n * length + t, 0.5, 0.5);
    return (int32_t)(1 + floor((double)u * (vocabulary - 1)));
}

struct problem {
    struct ps_network *model;
    struct chain *chain;
    int32_t labels[LABELS_MAX];
    struct stage_step step;
    int counted;
};

/* A translation has the target's tokens behind the source's; a text one label, or one a token. */
static void fill_tokens(struct problem *p, int samples) {
    const struct graph *graph = p->model->graph;
    int64_t length = graph->nodes[0].shape.dim[1], labels = graph_labels(graph), source = length;
    if (labels > 1 && labels < length) source -= labels;
    int target_vocabulary = p->model->classes;
    assert_true(samples <= SAMPLES_MAX && samples * labels <= LABELS_MAX);
    int32_t *x = p->chain->blocks[0][0].input;
    for (int64_t n = 0; n < samples; n++) {
        for (int64_t t = 0; t < source; t++) x[n * length + t] = token("source", n, t, source, p->model->vocabulary, 0);
        for (int64_t t = 0; t < length - source; t++) {
            x[n * length + source + t] = token("target", n, t, labels, target_vocabulary, 0);
        }
        for (int64_t t = 0; t < labels; t++) {
            int32_t label = labels > 1 ? token("labels", n, t, labels, target_vocabulary, -1) : (int32_t)(n % 2);
            p->labels[n * labels + t] = label;
            p->counted += label >= 0;
        }
    }
    p->step = (struct stage_step){.target = p->labels, .gradient_scale = 1.0f / (float)p->counted, .training = true};
}

static void make_problem(struct device *device, json_t *golden, struct problem *p) {
    memset(p, 0, sizeof *p);
    int samples = (int)json_integer_value(json_object_get(golden, "samples"));
    assert_ok(ps_network_open(json_string_value(json_object_get(golden, "model")), &p->model, &test_error));
    p->chain = chain_create(device, p->model->graph, samples, 1, NULL, 0);
    fill_parameters(p->chain, NORMS_PLAIN);
    fill_tokens(p, samples);
}

static void free_problem(struct problem *p) {
    chain_destroy(p->chain);
    ps_network_destroy(p->model);
}

/* Element by element against the root mean square, as a whole against the norm, which counts as at least `least`; `factor`
 * widens what is allowed. */
static void check_values(json_t *golden, const float *values, int64_t count, double least, double factor) {
    const char *name = json_string_value(json_object_get(golden, "name"));
    double sum = 0, squares = 0, norm = json_number_value(json_object_get(golden, "norm"));
    for (int64_t i = 0; i < count; i++) sum += (double)values[i], squares += (double)values[i] * (double)values[i];
    double scale = factor * fmax(norm, least), root = sqrt((double)count);
    assert_near("norm", name, norm, sqrt(squares), scale);
    assert_near("sum", name, json_number_value(json_object_get(golden, "sum")), sum, root * scale);
    json_t *elements = json_object_get(golden, "elements");
    int64_t picks = (int64_t)json_array_size(elements);
    assert_true(picks > 0);
    for (int64_t k = 0; k < picks; k++) {
        double wanted = json_number_value(json_array_get(elements, (size_t)k));
        double got = (double)values[(k + 1) * count / (picks + 1)];
        assert_near("element", name, wanted, got, fmax(factor * fabs(wanted), scale / root));
    }
}

/* A step's gradients; of a parameter that two layers share the sum of both, in both places. */
static struct stage_result run_step(struct problem *p) {
    struct stage_result result = chain_forward(p->chain, 0, &p->step);
    chain_backward(p->chain, 0, &p->step);
    struct arena arena = {0};
    struct stage_tie *ties;
    int count;
    assert_ok(stage_ties(p->chain->stages[0], &arena, &ties, &count, &test_error));
    float *gradients = p->chain->blocks[0][0].gradients;
    for (int t = 0; t < count; t++)
        for (int u = 1; u < ties[t].uses; u++) {
            float *sum = gradients + ties[t].gradients[0], *use = gradients + ties[t].gradients[u];
            vector_add((size_t)ties[t].count, sum, use);
            memcpy(use, sum, (size_t)ties[t].count * sizeof *sum);
        }
    arena_release(&arena);
    return result;
}

static void check_gradients(struct device *device, json_t *golden) {
    struct problem p;
    make_problem(device, golden, &p);
    struct stage_result result = run_step(&p);
    double loss = json_number_value(json_object_get(golden, "loss"));
    assert_int_equal(result.counted, p.counted);
    assert_near("loss", p.model->name, loss, result.loss / p.counted, loss);
    assert_int_equal(result.correct, json_integer_value(json_object_get(golden, "correct")));
    json_t *parameters = json_object_get(golden, "parameters"), *parameter;
    int tensors = 0;
    for (int t = 0; t < p.model->graph->parameter_count; t++) tensors += !p.model->graph->parameters[t].tied;
    assert_int_equal(json_array_size(parameters), tensors);
    double largest = 0;
    size_t i;
    json_array_foreach(parameters, i, parameter) largest = fmax(largest, json_number_value(json_object_get(parameter, "norm")));
    json_array_foreach(parameters, i, parameter) {
        static float values[FLOATS_MAX];
        int64_t count = chain_export(p.chain, json_string_value(json_object_get(parameter, "name")), NULL, values);
        /* What is 0 but for rounding is held against the largest. */
        bool nothing = json_number_value(json_object_get(parameter, "norm")) < 1e-9 * largest;
        check_values(parameter, values, count, nothing ? 0.1 * largest : 0, 1);
    }
    free_problem(&p);
}

/* ------------------------------------------------------------ training steps */

static void read_setting(json_t *settings, const char *name, double *value) {
    json_t *setting = json_object_get(settings, name);
    if (setting != NULL) *value = json_number_value(setting);
}

/* Weights in canonical order, before and after: what they moved has the norm that PyTorch says, too. */
static void check_weights(struct problem *p, json_t *run, const float *before) {
    json_t *parameters = json_object_get(run, "parameters"), *parameter;
    size_t i;
    json_array_foreach(parameters, i, parameter) {
        static float values[FLOATS_MAX], start[FLOATS_MAX];
        const char *name = json_string_value(json_object_get(parameter, "name"));
        int64_t count = chain_export(p->chain, name, (const float *const[]){p->chain->weights[0]}, values);
        chain_export(p->chain, name, (const float *const[]){before}, start);
        double squares = 0, norm = json_number_value(json_object_get(parameter, "norm"));
        double change = json_number_value(json_object_get(parameter, "change"));
        for (int64_t e = 0; e < count; e++) squares += pow((double)values[e] - (double)start[e], 2);
        assert_near("change", name, change, sqrt(squares), 10 * change + 0.02 * norm); /* single precision rounds the weights */
        check_values(parameter, values, count, 1e-7, 10);
    }
}

static void check_run(struct device *device, json_t *golden, json_t *run) {
    struct problem p;
    make_problem(device, golden, &p);
    const struct optimizer *rule;
    assert_ok(optimizer_find(json_string_value(json_object_get(run, "optimizer")), &rule, &test_error));
    struct optimizer_settings settings = rule->defaults;
    settings.weight_decay = 0;
    json_t *given = json_object_get(run, "settings");
    read_setting(given, "lr", &settings.lr);
    read_setting(given, "momentum", &settings.momentum);
    read_setting(given, "weight_decay", &settings.weight_decay);
    read_setting(given, "eps", &settings.eps);
    int64_t bytes = p.chain->sizes[0].parameter_bytes;
    float *before = chain_take(p.chain, bytes), *moments[] = {chain_take(p.chain, bytes), chain_take(p.chain, bytes)};
    memcpy(before, p.chain->weights[0], (size_t)bytes);
    for (int m = 0; m < 2; m++) memset(moments[m], 0, (size_t)bytes);
    memset(p.chain->blocks[0][0].gradients, 0, (size_t)bytes); /* the padding between parameters */
    for (int step = 1; step <= STEPS; step++) {
        double wanted = json_number_value(json_array_get(json_object_get(run, "losses"), (size_t)step - 1));
        struct stage_result result = run_step(&p);
        assert_near("loss of a step", p.model->name, wanted, result.loss / p.counted, 10 * wanted);
        struct optimizer_call call = {.count = (size_t)bytes / sizeof(float),
                                      .weights = p.chain->weights[0],
                                      .updated = p.chain->weights[0],
                                      .gradient = p.chain->blocks[0][0].gradients,
                                      .moment = {moments[0], moments[1]},
                                      .lr = settings.lr,
                                      .step = step};
        device->type->update(device, rule, &settings, &call, false, 0);
    }
    check_weights(&p, run, before);
    free_problem(&p);
}

static void check_file(struct device *device, const char *path, size_t count) {
    json_t *root = NULL;
    assert_ok(json_read_file(path, "penstock-sequence-goldens", &root, &test_error));
    json_t *goldens = json_object_get(root, "goldens"), *golden, *run;
    assert_int_equal(json_array_size(goldens), count);
    size_t i, r;
    json_array_foreach(goldens, i, golden) {
        check_gradients(device, golden);
        json_t *runs = json_object_get(golden, "runs");
        assert_int_equal(json_array_size(runs), 4);
        json_array_foreach(runs, r, run) check_run(device, golden, run);
    }
    json_decref(root);
}

static void check_device(struct device *device) {
    check_file(device, TEST_DIRECTORY "/golden/sequences.json", 3);
    check_file(device, TEST_DIRECTORY "/golden/transformers.json", 4);
}

static void test_sequences(void **state) {
    (void)state;
    on_real_devices(check_device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sequences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
