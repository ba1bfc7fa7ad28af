/*
 * Networks that PyTorch exported (docs/formats.md, ONNX): each trainable export gives the loss, every gradient and the running
 * statistics that PyTorch computed in double precision, on `reference` and on `cpu`.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "chain.h"
#include "data/npz.h"
#include "graph/network.h"

static const struct {
    const char *network, *exports[4];
} cases[] = {
    {"mlp", {"ts17", "dyn20", "ext"}},    {"vgg16_bn", {"ts17", "dyn20"}},
    {"resnet18", {"ts17", "dyn20"}},      {"resnet50", {"ts17", "dyn20"}},
    {"densenet121", {"ts17", "dyn20"}},   {"mobilenet_v3", {"ts17", "dyn20"}},
    {"convnext_tiny", {"ts17", "dyn20"}}, {"mixer", {"ts17", "dyn20"}},
    {"unet", {"ts17", "dyn20"}},          {"vit_b_16", {"ts17", "dyn20", "dyn23"}},
    {"lstm_text", {"ts17", "dyn20"}},     {"bert", {"ts17", "dyn20", "dyn23"}},
    {"bert_cls", {"ts17", "dyn20"}},      {"gpt2", {"dyn20", "dyn23"}},
    {"llama", {"dyn20", "dyn23"}},        {"nn_transformer", {"ts17", "dyn20", "dyn23"}},
    {"t5", {"ts17", "dyn20", "dyn23"}},
};

/* The reference's array, as floats; the caller's. */
static float *take_floats(struct npz *file, const char *name, int64_t *count) {
    struct array array;
    assert_ok(npz_get(file, name, &array, &test_error));
    *count = array_elements(&array);
    float *values = malloc((size_t)*count * sizeof *values + 1);
    assert_non_null(values);
    array_floats(&array, 0, *count, values);
    return values;
}

static int32_t *take_integers(struct npz *file, const char *name, int64_t *count) {
    struct array array;
    assert_ok(npz_get(file, name, &array, &test_error));
    *count = array_elements(&array);
    int32_t *values = malloc((size_t)*count * sizeof *values + 1);
    assert_non_null(values);
    assert_ok(array_integers(&array, 0, *count, values, &test_error));
    return values;
}

/* Each sample's inputs behind each other; images with the channels last. */
static void *take_samples(struct npz *file, const struct graph *graph, int samples) {
    int64_t each = 0;
    for (int i = 0; i < graph->input_count; i++) each += shape_bytes(&graph->nodes[i].shape);
    char *all = malloc((size_t)(samples * each)), *at = all;
    assert_non_null(all);
    for (int i = 0; i < graph->input_count; i++) {
        const struct shape *shape = &graph->nodes[i].shape;
        const int64_t elements = shape_elements(shape), bytes = shape_bytes(shape);
        char name[128];
        int64_t count;
        struct array array;
        snprintf(name, sizeof name, "input/%s", graph->nodes[i].name);
        assert_ok(npz_get(file, name, &array, &test_error));
        uint32_t *values = shape->type == TYPE_I32 ? (uint32_t *)(void *)take_integers(file, name, &count)
                                                   : (uint32_t *)(void *)take_floats(file, name, &count);
        assert_int_equal(count, samples * elements);
        for (int n = 0; n < samples; n++) {
            uint32_t *to = (uint32_t *)(void *)(at + n * each);
            const int64_t channels = array.rank == 4 ? array.shape[1] : 1, pixels = elements / channels;
            for (int64_t c = 0; c < channels; c++)
                for (int64_t p = 0; p < pixels; p++) to[p * channels + c] = values[n * elements + c * pixels + p];
        }
        at += bytes;
        free(values);
    }
    return all;
}

/* PyTorch's labels, with what is not counted; samples outermost. */
static double counted(const int32_t *labels, int64_t count) {
    double all = 0;
    for (int64_t i = 0; i < count; i++) all += labels[i] >= 0;
    return all;
}

/* Each use of a shared parameter has a gradient of its own. */
static int64_t sum_uses(struct chain *chain, const char *name, int64_t count, float *sum) {
    float *one = malloc((size_t)count * sizeof *one + 1);
    int64_t uses = 0;
    memset(sum, 0, (size_t)count * sizeof *sum);
    for (int s = 0; s < chain->count; s++) {
        struct arena arena = {0};
        struct stage_tie *ties;
        int tie_count;
        bool both = false;
        assert_ok(stage_ties(chain->stages[s], &arena, &ties, &tie_count, &test_error));
        const float *gradients = chain->blocks[0][s].gradients;
        for (int t = 0; t < tie_count; t++) {
            if (strcmp(ties[t].parameter->name, name) != 0) continue;
            both = true;
            uses += ties[t].uses;
            for (int u = 0; u < ties[t].uses; u++)
                for (int64_t e = 0; e < count; e++) sum[e] += gradients[ties[t].gradients[u] + e];
        }
        arena_release(&arena);
        for (int p = 0; p < stage_parameter_count(chain->stages[s]) && !both; p++) {
            const struct parameter *parameter = stage_parameter(chain->stages[s], p);
            if (strcmp(parameter->name, name) != 0) continue;
            const struct stage_blocks *blocks = &chain->blocks[0][s];
            assert_int_equal(shape_elements(&parameter->shape), count);
            assert_ok(stage_export(chain->stages[s], p, blocks->gradients, blocks->statistics, one, &test_error));
            for (int64_t e = 0; e < count; e++) sum[e] += one[e];
            uses++;
        }
    }
    free(one);
    return uses > 0 ? count : 0;
}

/* The parameter of this name. A tied one has one of its two names: then the only other one of its shape that the reference does
 * not name. */
static const char *parameter_of(struct npz *file, const struct graph *graph, const char *prefix, const char *name) {
    const char *other = NULL;
    char full[256];
    struct array array;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    assert_ok(npz_get(file, full, &array, &test_error));
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        if (strcmp(parameter->name, name) == 0) return name;
        snprintf(full, sizeof full, "%s%s", prefix, parameter->name);
        bool fits = !npz_has(file, full) && parameter->shape.rank == array.rank;
        for (int d = 0; d < array.rank && fits; d++) fits = parameter->shape.dim[d] == array.shape[d];
        if (fits) other = parameter->name;
    }
    return other != NULL ? other : name;
}

/* All arrays whose names begin so, against what the chain exports. The scale of a difference is the array's own largest, or a
 * hundredth of the largest of all. */
static void compare(struct npz *file, struct chain *chain, const char *prefix, double tolerance, const char *what) {
    double largest = 0;
    int64_t count;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < npz_count(file); i++) {
            const char *name = npz_name(file, i);
            if (strncmp(name, prefix, strlen(prefix)) != 0) continue;
            float *wanted = take_floats(file, name, &count);
            double scale = 0, difference = 0;
            for (int64_t e = 0; e < count; e++) scale = fmax(scale, fabs((double)wanted[e]));
            if (pass == 0)
                largest = fmax(largest, scale);
            else {
                float *found = malloc((size_t)count * sizeof *found + 1);
                const char *own = parameter_of(file, chain->graph, prefix, name + strlen(prefix));
                assert_int_equal(sum_uses(chain, own, count, found), count);
                for (int64_t e = 0; e < count; e++) difference = fmax(difference, fabs((double)(found[e] - wanted[e])));
                if (!(difference <= tolerance * fmax(scale, largest / 100)))
                    fail_msg("%s: %s differs by %g of %g", what, own, difference, scale);
                free(found);
            }
            free(wanted);
        }
    }
}

static void check(const char *path, struct npz *file, const char *device_name, int cuts, const struct graph *graph) {
    char what[4200];
    struct device *device = chain_device(device_name);
    int64_t count;
    int32_t *labels = take_integers(file, "labels", &count);
    float *loss = take_floats(file, "loss", &(int64_t){0});
    const int samples = (int)(count / graph_labels(graph)), thirds[] = {graph->layer_count / 3, 2 * graph->layer_count / 3};
    snprintf(what, sizeof what, "%s on %s", path, device_name);
    void *data = take_samples(file, graph, samples);
    struct chain *chain = chain_create(device, graph, samples, 1, thirds, cuts);
    stage_pack_inputs(chain->stages[0], data, chain->blocks[0][0].input);
    const double all = counted(labels, count);
    /* The older exporter runs the network, and exports the statistics after that. */
    const bool update = strstr(path, ".ts17.") == NULL;
    const struct stage_step step = {.seed = 1,
                                    .step = 1,
                                    .target = labels,
                                    .gradient_scale = (float)(1 / all),
                                    .training = true,
                                    .update_statistics = update};
    struct stage_result result = chain_forward(chain, 0, &step);
    const double found = result.loss / all;
    if (!(fabs(found - (double)loss[0]) <= 1e-5 * fmax(1, fabs((double)loss[0]))))
        fail_msg("%s: the loss is %.9g, not %.9g", what, found, (double)loss[0]);
    chain_backward(chain, 0, &step);
    compare(file, chain, "gradient/", 1e-4, what);
    compare(file, chain, "statistic/", 1e-4, what);
    chain_destroy(chain);
    device_close(device);
    free(data);
    free(labels);
    free(loss);
}

/* What the file became: how many nodes of each operator, and a checksum of all that the network's own file says of them. A run
 * of the network goes on with another version only if that stays as it is. */
static void add_summary(struct text *text, const char *name, const struct ps_network *network) {
    int counts[OPERATOR_COUNT] = {0};
    uint64_t hash = 0xcbf29ce484222325u;
    char *json = ps_network_json(network);
    assert_non_null(json);
    for (const char *c = json; *c != '\0'; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    free(json);
    for (int n = 0; n < network->graph->node_count; n++) counts[network->graph->nodes[n].id]++;
    text_add(text, "%s %016" PRIx64 ":", name, hash);
    for (int id = 0; id < OPERATOR_COUNT; id++)
        if (counts[id] > 0) text_add(text, " %d %s", counts[id], operator_get((enum operator_id)id)->name);
    text_add(text, "\n");
}

static void test_networks(void **state) {
    (void)state;
    struct text summaries = {0};
    char path[4096], name[128], directory[4096];
    struct npz *file;
    test_data("onnx/manifest.json", directory);
    int passed = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        snprintf(name, sizeof name, "onnx/%s.npz", cases[c].network);
        assert_ok(npz_open(test_data(name, path), &file, &test_error));
        for (int x = 0; x < 4 && cases[c].exports[x] != NULL; x++) {
            struct ps_network *network = NULL;
            snprintf(name, sizeof name, "onnx/%s.%s.onnx", cases[c].network, cases[c].exports[x]);
            test_data(name, path);
            struct ps_error error = {0};
            enum ps_status status = ps_network_read(path, &network, &error);
            if (status != PS_OK) fail_msg("%s", error.message);
            add_summary(&summaries, name, network);
            check(name, file, "reference", 0, network->graph);
            check(name, file, "cpu", 0, network->graph);
            check(name, file, "cpu", 2, network->graph);
            passed++;
            ps_network_destroy(network);
        }
        npz_close(file);
    }
    printf("%d exports agree with PyTorch\n", passed);
    test_golden(TEST_DIRECTORY "/golden/onnx.txt", text_take(&summaries));
}

/* What exporters make where they are not told otherwise. */
static void test_changed(void **state) {
    (void)state;
    static const char *const files[] = {"resnet18.dyn20opt", "resnet18.folded", "convnext_tiny.merged", "vit_b_16.dyn20opt"};
    char path[4096], name[128];
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct ps_network *network = NULL;
        snprintf(name, sizeof name, "onnx/%s.onnx", files[f]);
        assert_status(ps_network_read(test_data(name, path), &network, &test_error), PS_BAD_INPUT,
                      "the exporter has folded, renamed or merged parameters");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks), cmocka_unit_test(test_changed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
