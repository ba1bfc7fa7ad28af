/*
 * Checks of the networks against torchvision's, by the numbers that golden/make_networks.py made: output shapes and parameter
 * counts at full size, and on a small input probabilities, loss, all gradients and statistics, and ten steps of each optimizer.
 */
#ifndef PENSTOCK_TESTS_NETWORKS_H
#define PENSTOCK_TESTS_NETWORKS_H

#include <stdio.h>

#include "base/json.h"
#include "compute/stage_plan.h"
#include "golden.h"
#include "graph/model.h"

static inline const char *text_of(json_t *object, const char *name) { return json_string_value(json_object_get(object, name)); }
static inline double number_of(json_t *object, const char *name) { return json_number_value(json_object_get(object, name)); }

static inline struct ps_network *create_model(const char *spec) {
    struct ps_network *model = NULL;
    assert_ok(ps_network_open(spec, &model, &test_error));
    return model;
}

static inline void check_shapes(json_t *golden) {
    struct ps_network *model = create_model(text_of(golden, "full"));
    const struct graph *graph = model->graph;
    json_t *shapes = json_object_get(golden, "shapes");
    assert_int_equal(ps_network_info(model).parameters, json_integer_value(json_object_get(golden, "parameters")));
    size_t seen = 0;
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->id != OPERATOR_CONVOLUTION && node->id != OPERATOR_LINEAR) continue;
        json_t *shape = json_object_get(shapes, node->name);
        seen++;
        assert_int_equal(json_array_size(shape), node->shape.rank);
        for (int d = 0; d < node->shape.rank; d++)
            assert_int_equal(json_integer_value(json_array_get(shape, (size_t)d)), node->shape.dim[d]);
    }
    assert_int_equal(seen, json_object_size(shapes));
    ps_network_destroy(model);
}

/* The parameter's values (gradients, statistics or movement) against their norm and their product with hashed numbers. */
static inline void check_values(const char *what, const char *name, const float *values, int64_t count, double norm,
                                double projection, double norm_within, double projection_within) {
    char key[96];
    snprintf(key, sizeof key, "projection.%s", name);
    uint32_t hash = name_hash(key);
    double squares = 0, product = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += (double)values[i] * (double)values[i];
        product += (double)values[i] * (double)number(hash, i, 1, 0);
    }
    if (fabs(sqrt(squares) - norm) <= norm_within && fabs(product - projection) <= projection_within) return;
    fail_msg("%s of %s: norm %.8g and projection %.8g, not %.8g and %.8g", what, name, sqrt(squares), product, norm,
             projection);
}

static inline float *scratch(const struct graph *graph) {
    int64_t largest = 1;
    for (int p = 0; p < graph->parameter_count; p++) {
        int64_t count = shape_elements(&graph->parameters[p].shape);
        if (count > largest) largest = count;
    }
    float *values = malloc((size_t)largest * sizeof *values);
    assert_non_null(values);
    return values;
}

#define TOLERANCE 1e-4
/* A shift that the next normalisation takes away again, but at the borders of the image, has next to no gradient: what is left
 * of a sum of thousands that all but cancel (the bias of googlenet's first normalisation: a hundredth of its scale's gradient).
 * How exactly a layer's gradient is known is what counts, and there the layer's is the measure, weights and bias together. */
#define CANCELS 0.01

static inline double layer_norm_of(json_t *entries, const char *name) {
    json_t *entry;
    size_t i, length = (size_t)(strrchr(name, '.') + 1 - name);
    double squares = 0;
    json_array_foreach(entries, i, entry) {
        if (strncmp(json_string_value(json_array_get(entry, 0)), name, length) == 0)
            squares += pow(json_number_value(json_array_get(entry, 1)), 2);
    }
    return sqrt(squares);
}

static inline bool is_shift(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (node->id == OPERATOR_BATCH_NORM && strcmp(graph->parameters[node->parameter_first + 1].name, name) == 0)
            return true;
    }
    return false;
}

/* Small gradients are held against a thousandth of the largest, and those that are 0 but for rounding (a normalisation takes
 * away what shifts its input) against a tenth. */
static inline void check_entries(struct chain *chain, json_t *entries, const char *what) {
    float *values = scratch(chain->graph);
    json_t *entry;
    double largest = 0;
    size_t i;
    json_array_foreach(entries, i, entry) largest = fmax(largest, json_number_value(json_array_get(entry, 1)));
    json_array_foreach(entries, i, entry) {
        const char *name = json_string_value(json_array_get(entry, 0));
        int64_t count = chain_export(chain, name, NULL, values);
        double norm = json_number_value(json_array_get(entry, 1));
        double scale = norm > 1e-9 * largest ? fmax(norm, 1e-3 * largest) : 0.1 * largest;
        double layer = is_shift(chain->graph, name) ? layer_norm_of(entries, name) : 0;
        if (norm < CANCELS * layer) scale = fmax(scale, layer);
        check_values(what, name, values, count, norm, json_number_value(json_array_get(entry, 2)), TOLERANCE * scale,
                     TOLERANCE * scale);
    }
    free(values);
}

static inline void check_probabilities(const struct chain *chain, json_t *wanted) {
    const struct stage *stage = chain->stages[0];
    const struct stage_node *loss = &stage->nodes[stage->node_count - 1];
    assert_int_equal(loss->output.block, BUFFER_STASH);
    const char *stash = (const char *)chain->blocks[0][0].stash;
    const float *got = (const float *)(const void *)(stash + loss->output.offset);
    int64_t count = chain->samples * shape_elements(&loss->node->shape);
    assert_int_equal(json_array_size(wanted), count);
    for (int64_t i = 0; i < count; i++)
        assert_near("probability", "the network", json_number_value(json_array_get(wanted, (size_t)i)), (double)got[i], 1);
}

/* A chain of one stage with the weights and data of the formula. */
static inline struct chain *prepare(struct device *device, const struct ps_network *model, json_t *golden) {
    int samples = (int)json_integer_value(json_object_get(golden, "samples"));
    struct chain *chain = chain_create(device, model->graph, samples, 1, NULL, 0);
    fill_parameters(chain, NORMS_CALM);
    fill_data(chain, text_of(golden, "data"));
    return chain;
}

static inline double run_step(struct chain *chain) {
    int32_t labels[16];
    for (int n = 0; n < chain->samples; n++) labels[n] = 7 * n % 10;
    struct stage_step step = {
        .target = labels, .gradient_scale = 1.0f / (float)chain->samples, .training = true, .update_statistics = true};
    struct stage_result result = chain_forward(chain, 0, &step);
    chain_backward(chain, 0, &step);
    return result.loss / chain->samples;
}

static inline void check_step(struct device *device, const struct ps_network *model, json_t *golden) {
    struct chain *chain = prepare(device, model, golden);
    double loss = run_step(chain), wanted = number_of(golden, "loss");
    assert_near("loss", text_of(golden, "model"), wanted, loss, wanted);
    check_probabilities(chain, json_object_get(golden, "probabilities"));
    check_entries(chain, json_object_get(golden, "gradients"), "gradient");
    check_entries(chain, json_object_get(golden, "statistics"), "statistic");
    chain_destroy(chain);
}

static inline struct optimizer_settings settings_of(json_t *run, const struct optimizer *rule) {
    struct optimizer_settings settings = rule->defaults;
    json_t *given = json_object_get(run, "settings"), *value;
    if ((value = json_object_get(given, "lr")) != NULL) settings.lr = json_number_value(value);
    if ((value = json_object_get(given, "momentum")) != NULL) settings.momentum = json_number_value(value);
    if ((value = json_object_get(given, "eps")) != NULL) settings.eps = json_number_value(value);
    return settings;
}

/* How far the followed parameters have gone: to a thousandth of the way, and what ten steps' rounding makes of the weights in
 * single precision, whoever computes them. Each rounds a weight by up to 2^-24 of it, either way: three to four of that after
 * ten steps. Where a weight moves by less than a thousandth of itself, that is the larger part. The weights themselves are held
 * closer yet. Where to, to half a hundredth: where rounding puts the input of a ReLU on the other side of 0, one of some
 * hundred positions more or less gives a gradient to its channel. Between oneDNN's own sets of instructions (3.7, SSE4.1 and
 * AVX2) ten steps of adam leave most of the 192 weights of googlenet's inception3b.branch2.1.bn equal to the bit and a few
 * apart, by 0.42 % of the way in all. */
#define ROUNDING 2e-7
#define MOVEMENT_TOLERANCE 1e-3
#define TURNED_TOLERANCE 5e-3
#define WEIGHTS_TOLERANCE 1e-5

static inline void check_movement(struct chain *chain, const float *start, json_t *moved) {
    float *now = scratch(chain->graph), *before = scratch(chain->graph);
    const float *starts[] = {start};
    json_t *entry;
    size_t i;
    json_array_foreach(moved, i, entry) {
        const char *name = json_string_value(json_array_get(entry, 0));
        int64_t count = chain_export(chain, name, (const float *const *)chain->weights, now);
        chain_export(chain, name, starts, before);
        double norm = json_number_value(json_array_get(entry, 1)), squares = 0;
        for (int64_t e = 0; e < count; e++) {
            now[e] -= before[e];
            squares += (double)before[e] * (double)before[e];
        }
        double projection = json_number_value(json_array_get(entry, 2)), rounding = ROUNDING * sqrt(squares);
        double weights = WEIGHTS_TOLERANCE * sqrt(squares);
        check_values("movement", name, now, count, norm, projection, MOVEMENT_TOLERANCE * norm + rounding,
                     TURNED_TOLERANCE * norm + rounding);
        check_values("weights after ten steps, less those before: movement", name, now, count, norm, projection, weights,
                     weights);
    }
    free(before);
    free(now);
}

#define LOSS_TOLERANCE 1e-4

static inline void check_run(struct device *device, const struct ps_network *model, json_t *golden, json_t *run) {
    const struct optimizer *rule = NULL;
    assert_ok(optimizer_find(text_of(run, "optimizer"), &rule, &test_error));
    struct optimizer_settings settings = settings_of(run, rule);
    struct chain *chain = prepare(device, model, golden);
    int64_t bytes = chain->sizes[0].parameter_bytes;
    float *start = chain_take(chain, bytes), *moment[OPTIMIZER_MOMENTS_MAX];
    memcpy(start, chain->weights[0], (size_t)bytes);
    for (int m = 0; m < OPTIMIZER_MOMENTS_MAX; m++) {
        moment[m] = chain_take(chain, bytes);
        memset(moment[m], 0, (size_t)bytes);
    }
    json_t *losses = json_object_get(run, "losses"), *loss;
    size_t number;
    json_array_foreach(losses, number, loss) {
        double wanted = json_number_value(loss), got = run_step(chain);
        if (!(fabs(got - wanted) <= LOSS_TOLERANCE * wanted))
            fail_msg("%s, %s, step %zu: loss %.8g, not %.8g", text_of(golden, "model"), rule->name, number, got, wanted);
        struct optimizer_call call = {.count = (size_t)bytes / sizeof(float),
                                      .weights = chain->weights[0],
                                      .updated = chain->weights[0],
                                      .gradient = chain->blocks[0][0].gradients,
                                      .moment = {moment[0], moment[1]},
                                      .lr = settings.lr,
                                      .step = (int64_t)number + 1};
        device->type->update(device, rule, &settings, &call, false, 0);
    }
    check_movement(chain, start, json_object_get(run, "moved"));
    chain_destroy(chain);
}

/* `path` of networks.json */
static inline void for_each_network(const char *path, void (*check)(json_t *golden)) {
    json_t *root = NULL, *golden;
    assert_ok(json_read_file(path, "penstock-networks", &root, &test_error));
    json_t *networks = json_object_get(root, "networks");
    assert_true(json_array_size(networks) >= 8);
    size_t i;
    json_array_foreach(networks, i, golden) {
        if (test_takes(i, 6)) check(golden);
    }
    json_decref(root);
}

/* All that concerns a network on one device: a step, and the runs if asked. */
static inline void check_network(json_t *golden, bool runs) {
    struct ps_network *model = create_model(text_of(golden, "model"));
    struct device *device = chain_device("cpu");
    check_step(device, model, golden);
    json_t *run;
    size_t i;
    json_array_foreach(json_object_get(golden, "runs"), i, run) {
        if (runs) check_run(device, model, golden, run);
    }
    device_close(device);
    ps_network_destroy(model);
}

#endif
