/*
 * Runs that are exported as ONNX: the file that the network came from, with trained weights, read again by Penstock's own
 * reader. tests/test_own_network.sh has ONNX Runtime read one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "graph/network.h"
#include "onnx/onnx.h"
#include "onnx/protobuf.h"
#include "onnx_support.h"
#include "training_support.h"

enum { FLOAT = 1, FLOAT16 = 10, DOUBLE = 11 };

static char source[4096], outside[4096], run_dir[4096], written[4096];

static void put_int_attribute(struct bytes *node, const char *name, int64_t value) {
    struct bytes attribute = {0};
    put_text(&attribute, 1, name);
    put_number(&attribute, 3, (uint64_t)value);
    put_number(&attribute, 20, 2);
    put_message(node, 5, &attribute);
    free(attribute.data);
}

/* Random elements of the type. */
static void put_random(struct bytes *graph, const char *name, const int64_t *dims, int rank, int type) {
    struct bytes tensor = {0};
    int64_t elements = 1;
    for (int d = 0; d < rank; d++) {
        put_number(&tensor, 1, (uint64_t)dims[d]);
        elements *= dims[d];
    }
    char data[4096];
    for (int64_t e = 0; e < elements; e++) {
        const double number = 0.1 + 0.4 * (double)random_uniform(test_key((uint64_t)rank + (uint64_t)elements), (uint64_t)e);
        const float single = (float)number;
        const uint16_t half = 0x2c00 + (uint16_t)(e * 37 % 1024); /* 1/16 to 1/8 */
        if (type == FLOAT) memcpy(data + 4 * e, &single, 4);
        if (type == DOUBLE) memcpy(data + 8 * e, &number, 8);
        if (type == FLOAT16) memcpy(data + 2 * e, &half, 2);
    }
    put_number(&tensor, 2, (uint64_t)type);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, data, (size_t)elements * (type == DOUBLE ? 8 : type == FLOAT ? 4 : 2));
    put_message(graph, 5, &tensor);
    free(tensor.data);
}

/* The weight is (features out, features in). */
static void put_linear(struct bytes *graph, const char *input, const char *weight, const char *output) {
    struct bytes node = {0};
    put_text(&node, 1, input);
    put_text(&node, 1, weight);
    put_text(&node, 2, output);
    put_text(&node, 4, "Gemm");
    put_int_attribute(&node, "transB", 1);
    put_message(graph, 1, &node);
    free(node.data);
}

/* A truth whose byte stands in a file of its own. */
static void put_truth(struct bytes *graph, const char *name, bool truth) {
    struct bytes tensor = {0}, entry = {0};
    file_join(outside, test_directory, "truth.data");
    test_file_write(outside, truth ? "\1" : "\0", 1);
    put_number(&tensor, 2, 9);
    put_text(&tensor, 8, name);
    put_text(&entry, 1, "location");
    put_text(&entry, 2, "truth.data");
    put_message(&tensor, 13, &entry);
    put_number(&tensor, 14, 1);
    put_message(graph, 5, &tensor);
    free(tensor.data);
    free(entry.data);
}

/* A node that gives one float: an attribute of a node is a tensor. */
static void put_constant(struct bytes *graph, const char *output, float value) {
    struct bytes node = {0}, attribute = {0}, tensor = {0};
    put_number(&tensor, 2, FLOAT);
    put_bytes(&tensor, 9, &value, sizeof value);
    put_text(&attribute, 1, "value");
    put_message(&attribute, 5, &tensor);
    put_number(&attribute, 20, 4);
    put_text(&node, 2, output);
    put_text(&node, 4, "Constant");
    put_message(&node, 5, &attribute);
    put_message(graph, 1, &node);
    free(tensor.data);
    free(attribute.data);
    free(node.data);
}

/* Images of 3 x 8 x 8: convolution, batch norm and dropout as they compute in training, two linear layers; weights of several
 * types; a further output that a batch norm has only in training. */
static void write_source(int last_type) {
    struct bytes graph = {0}, node = {0};
    /* Of a long name the end remains, which here would begin with a slash. */
    static const char relu[] = "/first/second_second_second_second_second_second_relu_";
    put_random(&graph, "conv.weight", (int64_t[]){4, 3, 3, 3}, 4, FLOAT);
    put_random(&graph, "norm.weight", (int64_t[]){4}, 1, FLOAT);
    put_random(&graph, "norm.bias", (int64_t[]){4}, 1, FLOAT);
    put_random(&graph, "norm.running_mean", (int64_t[]){4}, 1, FLOAT);
    put_random(&graph, "norm.running_var", (int64_t[]){4}, 1, FLOAT);
    put_random(&graph, "fc1.weight", (int64_t[]){6, 144}, 2, FLOAT);
    put_random(&graph, "fc1.bias", (int64_t[]){6}, 1, DOUBLE);
    put_random(&graph, "fc2.weight", (int64_t[]){10, 6}, 2, last_type);
    put_random(&graph, "unused", (int64_t[]){5}, 1, FLOAT);
    put_constant(&graph, "rate", 0.25f);
    put_truth(&graph, "drop", true);
    put_node(&graph, "Conv", (const char *[]){"image", "conv.weight", NULL}, "c");
    const char *const norm[] = {"c", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var"};
    const char *const made[] = {"n", "new_mean", "new_var"};
    for (int i = 0; i < 5; i++) put_text(&node, 1, norm[i]);
    for (int i = 0; i < 3; i++) put_text(&node, 2, made[i]);
    put_text(&node, 4, "BatchNormalization");
    put_int_attribute(&node, "training_mode", 1);
    put_message(&graph, 1, &node);
    put_node(&graph, "Relu", (const char *[]){"n", NULL}, relu);
    put_node(&graph, "Flatten", (const char *[]){relu, NULL}, "f");
    put_node(&graph, "Dropout", (const char *[]){"f", "rate", "drop", NULL}, "d");
    for (int l = 1; l < 3; l++) {
        put_text(&node, 1, l > 1 ? "h" : "d");
        put_text(&node, 1, l > 1 ? "fc2.weight" : "fc1.weight");
        if (l == 1) put_text(&node, 1, "fc1.bias");
        put_text(&node, 2, l > 1 ? "y" : "h");
        put_text(&node, 4, "Gemm");
        put_int_attribute(&node, "transB", 1);
        put_message(&graph, 1, &node);
    }
    put_value(&graph, 11, "image", (int64_t[]){2, 3, 8, 8}, 4);
    put_value(&graph, 12, "y", (int64_t[]){2, 10}, 2);
    put_value(&graph, 12, "new_mean", (int64_t[]){4}, 1);
    struct bytes file = model_of(&graph);
    file_join(source, test_directory, "source.onnx");
    test_file_write(source, file.data, file.size);
    free(file.data);
    free(node.data);
}

static void train_network(const char *out, const struct ps_network *network) {
    struct training training;
    struct ps_run *run;
    training_init(&training);
    training.o.network = network;
    training.data = "synthetic:images,samples=64";
    training.o.steps = 4;
    training.o.batch = 16;
    training.o.lr = 0.05;
    training.o.device = test_device("cpu");
    training.o.out = out;
    training.cluster.workers = 2;
    training.plan.micro_batch = 4;
    training.plan.schedule = "1f1b";
    training.plan.weights = "sync";
    training.plan.method = "uniform";
    assert_ok(training_run(&training, &run, &test_error));
    ps_run_destroy(run);
}

/* With adapters of low rank; NULL: without. */
static void train(const char *out, const char *adapters) {
    struct ps_network *network;
    assert_ok(ps_network_open(source, &network, &test_error));
    if (adapters != NULL) assert_ok(ps_network_lora(network, adapters, &test_error));
    train_network(out, network);
    ps_network_destroy(network);
}

static double loss_of(const char *run, const char *model) {
    struct evaluating evaluating = {
        .run = run, .model = model, .data = "synthetic:images,samples=40", .device = test_device("cpu"), .batch = 8};
    struct ps_evaluation evaluation;
    assert_ok(evaluating_run(&evaluating, &evaluation, &test_error));
    return evaluation.loss;
}

/* ------------------------------------------------------------ what was written */

/* Calls `see` for the fields of the number in the file's graph (0: in the file). */
static void each(const char *path, uint32_t graph, uint32_t id, void (*see)(struct onnx_bytes field, void *context),
                 void *context) {
    char *data;
    size_t size;
    bool broken = false;
    struct field field;
    assert_ok(file_read(path, SIZE_MAX, &data, &size, &test_error));
    struct onnx_bytes rest = {(uint8_t *)data, size};
    while (graph != 0 && next_field(&rest, &field, &broken))
        if (field.id == graph) {
            rest = field.bytes;
            break;
        }
    while (next_field(&rest, &field, &broken))
        if (field.id == id) see(field.bytes, context);
    assert_false(broken);
    free(data);
}

struct node_facts {
    int nodes, annotated, last, inputs, outputs, training;
    char stages[32]; /* a digit for each node */
};

static void see_node(struct onnx_bytes node, void *context) {
    struct node_facts *facts = context;
    bool broken = false;
    struct field field, inner;
    facts->nodes++;
    while (next_field(&node, &field, &broken)) {
        facts->inputs += field.id == 1;
        facts->outputs += field.id == 2;
        facts->training += field.id == 5 && memmem(field.bytes.data, field.bytes.size, "training_mode", 13) != NULL;
        assert_true(field.id != 9); /* what Penstock notes stays with it */
        while (field.id == 10 && next_field(&field.bytes, &inner, &broken)) {
            if (inner.id != 3) continue;
            assert_true(facts->annotated + 1 < (int)sizeof facts->stages);
            facts->stages[facts->annotated++] = (char)('0' + inner.number);
            facts->last = (int)inner.number;
        }
    }
}

static void count(struct onnx_bytes field, void *context) {
    (void)field;
    ++*(int *)context;
}

static int count_fields(const char *path, uint32_t graph, uint32_t id) {
    int counted = 0;
    each(path, graph, id, count, &counted);
    return counted;
}

static struct node_facts facts_of(const char *path) {
    struct node_facts facts = {0};
    each(path, 7, 1, see_node, &facts);
    return facts;
}

/* ------------------------------------------------------------------- the tests */

static void export(bool training, bool stages, bool external) {
    struct ps_export_options options;
    ps_export_options_init(&options);
    options.run = run_dir;
    options.format = "onnx";
    options.path = written;
    options.training = training;
    options.annotate_stages = stages;
    options.external_data = external;
    assert_ok(ps_export_run(&options, &test_error));
}

/* What is read again gives the loss of the run to the bit, the initializers that are no parameters included; the source is gone
 * by then. */
static void test_export(void **state) {
    (void)state;
    write_source(FLOAT);
    file_join(run_dir, test_directory, "run");
    file_join(written, test_directory, "written.onnx");
    train(run_dir, NULL);
    const double before = loss_of(NULL, source);
    assert_true(unlink(source) == 0 && unlink(outside) == 0);
    const double trained = loss_of(run_dir, NULL);
    assert_true(fabs(before - trained) > 1e-3);
    export(false, false, false);
    assert_true(loss_of(NULL, written) == trained);
    assert_int_equal(count_fields(written, 7, 5), 10);
    assert_int_equal(count_fields(written, 7, 12), 1);
    assert_int_equal(count_fields(written, 0, 26), 0);
    struct node_facts facts = facts_of(written);
    assert_int_equal(facts.nodes, 8);
    assert_int_equal(facts.annotated + facts.training, 0);
    assert_int_equal(facts.inputs, 2 + 5 + 1 + 1 + 1 + 3 + 2);
    assert_int_equal(facts.outputs, 8);
    /* Exported once more, from what was exported: the same file. */
    struct ps_network *network;
    char again[4096];
    file_join(again, test_directory, "again.onnx");
    assert_ok(ps_network_open(written, &network, &test_error));
    assert_ok(ps_network_write(network, again, &test_error));
    assert_true(loss_of(NULL, again) == trained);
    ps_network_destroy(network);
}

static void test_options(void **state) {
    (void)state;
    const double trained = loss_of(run_dir, NULL);
    char data[4200];
    export(true, true, true);
    snprintf(data, sizeof data, "%s.data", written);
    assert_true(file_exists(data));
    assert_true(loss_of(NULL, written) == trained);
    struct node_facts facts = facts_of(written);
    assert_int_equal(facts.training, 1);
    assert_int_equal(facts.inputs, 2 + 5 + 1 + 1 + 3 + 3 + 2);
    assert_int_equal(facts.outputs, 10);
    assert_string_equal(facts.stages, "00000001");
    assert_int_equal(count_fields(written, 0, 26), 1);
    assert_int_equal(count_fields(written, 7, 12), 2);
}

/* Goes on with the run only to leave it in another directory. */
static void save_elsewhere(const char *run, const char *other) {
    struct ps_train_options options;
    struct ps_trainer *trainer;
    ps_train_options_init(&options);
    options.resume = run;
    options.device = test_device("cpu");
    assert_ok(ps_trainer_create(&options, &trainer, &test_error));
    assert_ok(ps_trainer_save(trainer, other, &test_error));
    ps_trainer_destroy(trainer);
}

/* A run that goes on keeps the graph, also in another directory. */
static void test_resumed(void **state) {
    (void)state;
    char other[4096], all[4096];
    const double trained = loss_of(run_dir, NULL);
    save_elsewhere(run_dir, file_join(other, test_directory, "other"));
    const struct ps_export_options again = {.struct_size = sizeof again, .run = other, .format = "onnx", .path = all};
    file_join(all, test_directory, "all.onnx");
    assert_ok(ps_export_run(&again, &test_error));
    assert_true(loss_of(NULL, all) == trained);
}

/* Adapters are added to the weights of the graph that was given, which has none. */
static void test_adapters(void **state) {
    (void)state;
    char adapted[4096], path[4096];
    const struct ps_export_options options = {.struct_size = sizeof options, .run = adapted, .format = "onnx", .path = path};
    file_join(adapted, test_directory, "adapted");
    file_join(path, test_directory, "adapted.onnx");
    write_source(FLOAT);
    const double before = loss_of(NULL, source);
    train(adapted, "rank=2,alpha=8,target=fc?");
    assert_ok(ps_export_run(&options, &test_error));
    const double trained = loss_of(adapted, NULL), there = loss_of(NULL, path);
    assert_true(fabs(trained - before) > 1e-3 && fabs(there - trained) < 1e-5 * trained);
}

/* The tensors of a safetensors file, "NAME[ROWS,...]" in its order, and whether a field is in what it says about itself. */
static char *tensors_of(const char *path, const char *field) {
    struct safetensors file;
    struct text out = {0};
    char *data;
    size_t size;
    assert_ok(safetensors_read(path, &file, &test_error));
    for (int t = 0; t < file.count; t++) {
        text_add(&out, "%s[", file.tensors[t].name);
        for (int d = 0; d < file.tensors[t].rank; d++)
            text_add(&out, "%s%lld", d > 0 ? "," : "", (long long)file.tensors[t].shape[d]);
        text_add(&out, "] ");
    }
    safetensors_free(&file);
    assert_ok(file_read(path, 1 << 20, &data, &size, &test_error));
    const char *found = memmem(data, size, field, strlen(field));
    text_add(&out, "%s", found ? "said" : "not said");
    free(data);
    return text_take(&out);
}

/* The same run as safetensors: with adapters beside the weights, added to them, or alone as PEFT has them. */
static void test_adapter_files(void **state) {
    (void)state;
    char adapted[4096], path[4096], config[4096], *text;
    size_t size;
    file_join(adapted, test_directory, "adapted");
    file_join(path, test_directory, "adapted.safetensors");
    static const struct {
        const char *form, *tensors; /* form NULL: as they are */
    } cases[] = {{NULL, "conv.weight[4,3,3,3] norm.weight[4] norm.bias[4] norm.running_mean[4] norm.running_var[4] "
                        "fc1.weight[6,144] fc1.bias[6] fc1.lora_A.weight[2,144] fc1.lora_B.weight[6,2] fc2.weight[10,6] "
                        "fc2.lora_A.weight[2,6] fc2.lora_B.weight[10,2] said"},
                 {"merged", "conv.weight[4,3,3,3] norm.weight[4] norm.bias[4] norm.running_mean[4] norm.running_var[4] "
                            "fc1.weight[6,144] fc1.bias[6] fc2.weight[10,6] said"},
                 {"apart", "base_model.model.norm.running_mean[4] base_model.model.norm.running_var[4] "
                           "base_model.model.fc1.lora_A.weight[2,144] base_model.model.fc1.lora_B.weight[6,2] "
                           "base_model.model.fc2.lora_A.weight[2,6] base_model.model.fc2.lora_B.weight[10,2] said"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_ok(cases[c].form ? ps_export_lora(adapted, cases[c].form, path, &test_error)
                                : ps_export(adapted, "safetensors", path, &test_error));
        text = tensors_of(path, "\"data\":\"synthetic:images,samples=64\"");
        assert_string_equal(text, cases[c].tensors);
        free(text);
    }
    assert_ok(file_read(file_join(config, test_directory, "adapter_config.json"), 1 << 16, &text, &size, &test_error));
    assert_string_equal(
        text, "{\n  \"peft_type\": \"LORA\",\n  \"r\": 2,\n  \"lora_alpha\": 8.0,\n  \"lora_dropout\": 0.0,\n"
              "  \"target_modules\": [\n    \"fc1\",\n    \"fc2\"\n  ],\n  \"fan_in_fan_out\": false,\n  \"bias\": \"none\",\n"
              "  \"init_lora_weights\": true,\n  \"inference_mode\": true\n}\n");
    free(text);
    assert_status(ps_export_lora(adapted, "merge", path, &test_error), PS_USAGE,
                  "`lora`: 'merge' is not known; did you mean 'merged'?");
    assert_status(ps_export_lora(run_dir, "apart", path, &test_error), PS_USAGE, "run has no network with adapters");
    const struct ps_export_options both = {
        .struct_size = sizeof both, .run = adapted, .path = path, .format = "onnx", .lora = "apart"};
    assert_status(ps_export_run(&both, &test_error), PS_USAGE,
                  "`lora`: apart needs the format safetensors; in ONNX files adapters are merged");
    assert_status(ps_export(adapted, "onx", path, &test_error), PS_USAGE, "`format`: 'onx' is not known; did you mean 'onnx'?");
    const struct ps_export_options nowhere = {.struct_size = sizeof nowhere, .run = adapted},
                                   nothing = {.struct_size = sizeof nothing, .path = path};
    assert_status(ps_export_run(&nowhere, &test_error), PS_USAGE, "`path`: missing");
    assert_status(ps_export_run(&nothing, &test_error), PS_USAGE, "`run`: missing");
}

/* The words of a run stand in the file's header, unless they take more than readers let a header have. */
static void test_words_in_the_header(void **state) {
    (void)state;
    static const char words[] = "{\"words\": 1}";
    char adapted[4096], path[4096], vocabulary[4096], *text;
    file_join(adapted, test_directory, "adapted");
    file_join(path, test_directory, "words.safetensors");
    file_join(vocabulary, adapted, "vocabulary.json");
    for (int large = 0; large < 2; large++) {
        test_file_write(vocabulary, words, sizeof words - 1);
        if (large) assert_int_equal(truncate(vocabulary, (16 << 20) + 1), 0);
        assert_ok(ps_export(adapted, "safetensors", path, &test_error));
        text = tensors_of(path, "\"vocabulary\":\"{\\\"words\\\": 1}\"");
        assert_string_equal(strrchr(text, ']'), large ? "] not said" : "] said");
        free(text);
    }
    assert_int_equal(unlink(vocabulary), 0);
}

/* A run says how its network was changed before it was trained, and so does one that goes on. */
static void test_said(void **state) {
    (void)state;
    char run[4096], other[4096], path[4096], init[4200], *text;
    struct ps_network *network;
    size_t size;
    assert_ok(ps_network_open(source, &network, &test_error));
    assert_ok(ps_network_initialize(network, source, &test_error));
    assert_ok(ps_network_freeze(network, "conv.*,norm.*", &test_error));
    assert_ok(ps_network_set_loss(network, "cross-entropy", NULL, 0, &test_error));
    train_network(file_join(run, test_directory, "said"), network);
    ps_network_destroy(network);
    save_elsewhere(run, file_join(other, test_directory, "said-again"));
    snprintf(init, sizeof init, "\"init\": \"%s\"", source);
    char *before = NULL;
    for (int r = 0; r < 2; r++) {
        assert_ok(file_read(file_join(path, r > 0 ? other : run, "config.json"), 1 << 20, &text, &size, &test_error));
        const char *sum = strstr(text, "\"init_checksum\": \"");
        assert_true(strstr(text, init) && sum && strstr(text, "\"freeze\": \"conv.*,norm.*\"") &&
                    strstr(text, "\"loss\": \"cross-entropy\""));
        if (r > 0) assert_memory_equal(sum, strstr(before, "\"init_checksum\": \""), 28);
        free(before);
        before = text;
    }
    free(before);
}

/* Numbers on both sides of what halves can tell, as they are rounded. */
static void test_halves(void **state) {
    (void)state;
    static const struct {
        float value;
        uint16_t half;
    } cases[] = {{1, 0x3c00},
                 {1 + 0x1p-11f, 0x3c00},
                 {1 + 0x1.8p-10f, 0x3c02},
                 {-65504, 0xfbff},
                 {65519, 0x7bff},
                 {65520, 0x7c00},
                 {0x1p-24f, 0x0001},
                 {0x1p-25f, 0x0000},
                 {0x1.8p-25f, 0x0001},
                 {0x1.ff8p-15f, 0x03ff},
                 {0x1.ffcp-15f, 0x0400},
                 {-0.0f, 0x8000},
                 {INFINITY, 0x7c00},
                 {0x1.234p-3f, 0x308d},
                 {NAN, 0x7e00},
                 {-0x1p-24f, 0x8001}};
    enum { CASES = sizeof cases / sizeof *cases };
    struct ps_network *network;
    float values[60];
    for (int i = 0; i < 60; i++) values[i] = cases[i % CASES].value;
    write_source(FLOAT16);
    assert_ok(ps_network_open(source, &network, &test_error));
    const struct array array = {.name = "fc2.weight", .type = ARRAY_F32, .rank = 2, .shape = {10, 6}, .data = values};
    assert_ok(values_set(network->graph->values, &array, VALUES_BORROW, &test_error));
    assert_ok(ps_network_write(network, written, &test_error));
    ps_network_destroy(network);
    assert_ok(ps_network_open(written, &network, &test_error));
    const struct array *read = values_get(network->graph->values, "fc2.weight");
    assert_true(read->type == ARRAY_F16);
    for (int i = 0; i < 60; i++) {
        uint16_t half;
        memcpy(&half, (const char *)read->data + 2 * i, sizeof half);
        assert_int_equal(half, cases[i % CASES].half);
    }
    ps_network_destroy(network);
}

/* Slices of a layer's weights, of which each stage has its own, are written as the whole that they are. */
static void test_split(void **state) {
    (void)state;
    struct ps_network *network;
    char run[4096], spec[4200];
    write_source(FLOAT);
    snprintf(spec, sizeof spec, "%s,split=fc1:4", source);
    assert_ok(ps_network_open(spec, &network, &test_error));
    train_network(file_join(run, test_directory, "split"), network);
    ps_network_destroy(network);
    struct ps_export_options options = {.struct_size = sizeof options, .run = run, .format = "onnx", .path = written};
    assert_ok(ps_export_run(&options, &test_error));
    const double before = loss_of(NULL, source), trained = loss_of(run, NULL), after = loss_of(NULL, written);
    assert_true(fabs(before - trained) > 1e-3);
    if (!(fabs(after - trained) <= 1e-6)) fail_msg("loss %.9g, and %.9g of what was exported", trained, after);
}

/*
 * Images of 3 x 8 x 8 and linear layers, two of which share their weight; a third has it turned. What only rearranges is where
 * it is read first, and what nobody reads where its inputs are. `as_value`: what they share is computed with, too.
 */
static void write_shared(bool as_value) {
    struct bytes graph = {0}, file = {0}, opset = {0};
    put_random(&graph, "in.weight", (int64_t[]){5, 192}, 2, FLOAT);
    put_random(&graph, "square.weight", (int64_t[]){5, 5}, 2, FLOAT);
    put_random(&graph, "out.weight", (int64_t[]){5, 10}, 2, FLOAT);
    put_node(&graph, "Identity", (const char *[]){"square.weight", NULL}, "same");
    put_node(&graph, "Transpose", (const char *[]){"out.weight", NULL}, "turned");
    put_node(&graph, "Flatten", (const char *[]){"image", NULL}, "f");
    put_linear(&graph, "f", "in.weight", "a");
    put_node(&graph, "Tanh", (const char *[]){"a", NULL}, "b");
    put_node(&graph, "MatMul", (const char *[]){"b", "same", NULL}, "c");
    put_node(&graph, "Tanh", (const char *[]){"c", NULL}, "d");
    put_node(&graph, "MatMul", (const char *[]){"d", "same", NULL}, "e");
    put_node(&graph, "Tanh", (const char *[]){"e", NULL}, "g");
    put_node(&graph, "Add", (const char *[]){"e", "d", NULL}, "unread");
    if (as_value) {
        put_node(&graph, "Softmax", (const char *[]){"same", NULL}, "soft");
        put_node(&graph, "MatMul", (const char *[]){"g", "soft", NULL}, "h");
    }
    put_linear(&graph, as_value ? "h" : "g", "turned", "y");
    put_value(&graph, 11, "image", (int64_t[]){2, 3, 8, 8}, 4);
    put_value(&graph, 12, "y", (int64_t[]){2, 10}, 2);
    /* As PyTorch writes it, the graph is not the last of the file's fields. */
    put_number(&file, 1, 10);
    put_message(&file, 7, &graph);
    put_number(&opset, 2, 17);
    put_message(&file, 8, &opset);
    test_file_write(source, file.data, file.size);
    free(graph.data);
    free(file.data);
    free(opset.data);
}

/* A weight that several layers share is written once, with the values that all of them had. */
static void test_shared(void **state) {
    (void)state;
    char run[4096];
    write_shared(false);
    const double before = loss_of(NULL, source);
    train(file_join(run, test_directory, "shared"), NULL);
    struct ps_export_options options = {
        .struct_size = sizeof options, .run = run, .format = "onnx", .path = written, .annotate_stages = true};
    assert_ok(ps_export_run(&options, &test_error));
    const double trained = loss_of(run, NULL);
    assert_true(fabs(before - trained) > 1e-3);
    assert_true(loss_of(NULL, written) == trained);
    assert_int_equal(count_fields(written, 7, 5), 3);
    struct node_facts facts = facts_of(written);
    assert_string_equal(facts.stages, "01000001111");
    /* Stages are of a newer version of files. */
    for (int version = 11; version >= 10; version--) {
        const char first[] = {1 << 3, (char)version};
        char *data;
        size_t bytes;
        assert_ok(file_read(written, SIZE_MAX, &data, &bytes, &test_error));
        assert_memory_equal(data, first, sizeof first);
        assert_int_equal(count_fields(written, 0, 7), 1);
        assert_int_equal(count_fields(written, 0, 8), 1);
        free(data);
        options.annotate_stages = false;
        assert_ok(ps_export_run(&options, &test_error));
    }
    /* The graph is another run's. */
    char path[4096], *origin;
    size_t size;
    assert_ok(file_read(file_join(path, run, "network.onnx"), SIZE_MAX, &origin, &size, &test_error));
    test_file_write(file_join(path, run_dir, "network.onnx"), origin, size);
    free(origin);
    options.run = run_dir;
    assert_status(ps_export_run(&options, &test_error), PS_BAD_INPUT,
                  "there are no values of the parameter 'in.weight', which has 960");
    /* Layers that share a weight share its adapter. */
    train(file_join(run, test_directory, "shared-adapted"), "rank=1,target=square");
    assert_ok(ps_export(run, "onnx", written, &test_error));
    const double adapted = loss_of(run, NULL), merged = loss_of(NULL, written);
    assert_true(before != adapted);
    if (!(fabs(merged - adapted) <= 1e-6)) fail_msg("loss %.9g, and %.9g of what was exported", adapted, merged);
    /* An adapter of one layer cannot be added to a weight that something else reads, too. */
    write_shared(true);
    train(file_join(run, test_directory, "shared-read"), "rank=1,target=square");
    for (int form = 0; form < 2; form++)
        assert_status(form ? ps_export(run, "onnx", written, &test_error) : ps_export_lora(run, "merged", written, &test_error),
                      PS_USAGE,
                      "lora: merged: two layers share 'square.weight', and one has an adapter: only apart is accepted");
    assert_ok(ps_export_lora(run, "apart", written, &test_error));
}

/*
 * Two linear layers; between them a buffer, one that is not saved, one that is folded, a constant, and a parameter that is a
 * single number. Without marks it is as
 * PyTorch's older exporter writes it, which knows no buffers that are not saved.
 */
static void write_buffers(bool marked) {
    struct bytes graph = {0}, tensor = {0}, node = {0};
    const int64_t five[] = {5};
    put_random(&graph, "fc1.weight", (int64_t[]){5, 192}, 2, FLOAT);
    put_random(&graph, "fc2.weight", (int64_t[]){10, 5}, 2, FLOAT);
    put_random(&graph, "scale", five, 1, FLOAT);
    put_random(&graph, "t", NULL, 0, FLOAT);
    put_random(&graph, marked ? "unsaved" : "more", five, 1, FLOAT);
    put_random(&graph, marked ? "lifted" : "last", five, 1, FLOAT);
    put_whole(&graph, "/Unsqueeze_axes", five, 1, false); /* constants of the computation */
    put_whole(&graph, "57", five, 1, true);
    put_number(&tensor, 1, 5);
    put_number(&tensor, 2, 9);
    put_text(&tensor, 8, "mask");
    put_bytes(&tensor, 9, "\1\0\1\1\0", 5);
    put_message(&graph, 5, &tensor);
    put_node(&graph, "Flatten", (const char *[]){"image", NULL}, "f");
    put_linear(&graph, "f", "fc1.weight", "a");
    put_node(&graph, "Mul", (const char *[]){"a", "scale", NULL}, "b");
    put_node(&graph, "Add", (const char *[]){"b", marked ? "unsaved" : "more", NULL}, "c");
    put_text(&node, 1, "mask");
    put_text(&node, 2, "seen");
    put_text(&node, 4, "Cast");
    put_int_attribute(&node, "to", 1);
    put_message(&graph, 1, &node);
    put_node(&graph, "Mul", (const char *[]){"c", "seen", NULL}, "d");
    put_node(&graph, "Add", (const char *[]){"d", marked ? "lifted" : "last", NULL}, "e");
    put_node(&graph, "Mul", (const char *[]){"e", "t", NULL}, "g");
    put_linear(&graph, "g", "fc2.weight", "y");
    put_value(&graph, 11, "image", (int64_t[]){2, 3, 8, 8}, 4);
    put_value(&graph, 12, "y", (int64_t[]){2, 10}, 2);
    if (marked) {
        put_mark(&graph, "fc1.weight", "PARAMETER", "None");
        put_mark(&graph, "fc2.weight", "PARAMETER", "None");
        put_mark(&graph, "t", "PARAMETER", "None");
        put_mark(&graph, "scale", "BUFFER", "True");
        put_mark(&graph, "unsaved", "BUFFER", "False");
        put_mark(&graph, "lifted", "CONSTANT_TENSOR", "None");
        put_mark(&graph, "mask", "BUFFER", "True");
    }
    struct bytes file = model_of(&graph);
    put_text(&file, 2, "pytorch");
    test_file_write(source, file.data, file.size);
    free(file.data);
    free(tensor.data);
    free(node.data);
}

/* Constants are part of the network: its hash counts them, and a run keeps their values, so that what was made for the network
 * fits it. */
static void test_constants(void **state) {
    (void)state;
    char run[4096], model[4096], plan[4096], hash[17], *text;
    struct ps_network *network, *kept;
    size_t size;
    write_buffers(true);
    train(file_join(run, test_directory, "marked"), NULL);
    assert_ok(ps_network_open(source, &network, &test_error));
    assert_ok(ps_network_open(file_join(model, run, "network.json"), &kept, &test_error));
    assert_ok(file_read(file_join(plan, run, "plan.json"), 1 << 20, &text, &size, &test_error));
    assert_true(network->hash == kept->hash);
    assert_non_null(strstr(text, network_hash_text(network->hash, hash)));
    free(text);
    ps_network_destroy(network);
    ps_network_destroy(kept);
    struct evaluating evaluating = {
        .model = model, .data = "synthetic:images,samples=40", .device = test_device("cpu"), .batch = 8};
    struct ps_evaluation evaluation;
    assert_status(evaluating_run(&evaluating, &evaluation, &test_error), PS_USAGE, "has no weights");
    /* They are no weights, and nobody misses them among these. */
    char path[4096];
    assert_ok(ps_export(run, "safetensors", file_join(path, test_directory, "constants.safetensors"), &test_error));
    text = tensors_of(path, "constant.weight");
    assert_string_equal(text, "fc1.weight[5,192] t[] fc2.weight[10,5] scale[5] mask[5] not said");
    free(text);
    evaluating.weights = path;
    for (int m = 0; m < 2; m++) {
        evaluating.model = m ? source : model;
        assert_ok(evaluating_run(&evaluating, &evaluation, &test_error));
        assert_true(evaluation.loss == loss_of(run, NULL));
    }
}

static void keep_warning(void *context, enum ps_log_level level, const char *text) {
    if (level == PS_LOG_WARN && strstr(text, "parameter") != NULL) text_add(context, "%s\n", text);
}

/* What is warned of parameters where the network is opened and initialised. */
static char *warnings_of(const char *values) {
    struct text warnings = {0};
    struct ps_network *network;
    const struct ps_log_sink sink = {
        .struct_size = sizeof sink, .context = &warnings, .level = PS_LOG_WARN, .line = keep_warning};
    assert_ok(ps_log_to(&sink, &test_error));
    assert_ok(ps_network_open(source, &network, &test_error));
    assert_ok(ps_network_initialize(network, values, &test_error));
    assert_ok(ps_log_to(NULL, &test_error));
    ps_network_destroy(network);
    text_add_raw(&warnings, "", 0);
    return text_take(&warnings);
}

/* Weights are exported as the module's state_dict has them: no constants, and buffers under their own names, whatever became of
 * them here. */
static void test_buffers(void **state) {
    (void)state;
    static const char *const tensors[] = {"fc1.weight[5,192] scale[5] more[5] last[5] fc2.weight[10,5] t[] mask[5] not said",
                                          "fc1.weight[5,192] t[] fc2.weight[10,5] scale[5] mask[5] not said"};
    char run[4096], path[4096], lines[9000], *text;
    file_join(path, test_directory, "buffers.safetensors");
    for (int marked = 0; marked < 2; marked++) {
        write_buffers(marked);
        train(file_join(run, test_directory, marked ? "saved" : "unmarked"), NULL);
        assert_ok(ps_export(run, "safetensors", path, &test_error));
        text = tensors_of(path, "classes of it");
        assert_string_equal(text, tensors[marked]);
        free(text);
        text = warnings_of(path);
        snprintf(
            lines, sizeof lines,
            "%s: whether these are parameters or buffers is not said in the file, and they are trained: scale, more, last; "
            "`freeze` those that are buffers\n"
            "%s: whether these numbers are parameters or buffers is not said in the file, and they are not trained: t; "
            "parameters of shape (1) are\n",
            source, source);
        assert_string_equal(text, marked ? "" : lines);
        free(text);
        struct evaluating evaluating = {
            .model = source, .weights = path, .data = "synthetic:images,samples=40", .device = test_device("cpu"), .batch = 8};
        struct ps_evaluation evaluation;
        assert_ok(evaluating_run(&evaluating, &evaluation, &test_error));
        assert_true(evaluation.loss == loss_of(run, NULL));
    }
}

static void test_refused(void **state) {
    (void)state;
    struct ps_network *network;
    char path[4096];
    assert_ok(ps_network_open("lenet5", &network, &test_error));
    assert_status(ps_network_write(network, written, &test_error), PS_USAGE,
                  "lenet5: the network did not come from an ONNX file");
    ps_network_destroy(network);
    /* Weights that come from an ONNX file do not make the network one of its graph. */
    assert_ok(ps_network_open(file_join(path, run_dir, "network.json"), &network, &test_error));
    assert_ok(ps_network_initialize(network, source, &test_error));
    assert_status(ps_network_write(network, written, &test_error), PS_USAGE, "did not come from an ONNX file");
    ps_network_destroy(network);
    struct ps_export_options options = {.struct_size = sizeof options, .run = run_dir, .path = written, .training = true};
    assert_status(ps_export_run(&options, &test_error), PS_USAGE, "`training`: needs the format onnx");
    options.training = false, options.annotate_stages = true;
    assert_status(ps_export_run(&options, &test_error), PS_USAGE, "`annotate_stages`: needs the format onnx");
    options.external_data = true;
    assert_status(ps_export_run(&options, &test_error), PS_USAGE, "`external_data`: needs the format onnx");
    options = (struct ps_export_options){
        .struct_size = sizeof options, .run = run_dir, .format = "onnx", .path = "/dev/stdout", .external_data = true};
    assert_status(ps_export_run(&options, &test_error), PS_USAGE, "/dev/stdout: the weights go into a file");
    options.path = file_join(path, test_directory, "pipe.onnx");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_status(ps_export_run(&options, &test_error), PS_USAGE, "pipe.onnx: the weights go into a file");
    options.external_data = false;
    options.path = written;
    file_join(path, run_dir, "network.onnx");
    test_file_write(path, "\x3a\x7f", 2);
    assert_status(ps_export_run(&options, &test_error), PS_BAD_INPUT, "is no ONNX file, or is damaged");
    assert_int_equal(unlink(path), 0);
    assert_status(ps_export_run(&options, &test_error), PS_USAGE, "did not come from an ONNX file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export),   cmocka_unit_test(test_options),       cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_adapters), cmocka_unit_test(test_adapter_files), cmocka_unit_test(test_words_in_the_header),
        cmocka_unit_test(test_said),     cmocka_unit_test(test_halves),        cmocka_unit_test(test_split),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_shared),        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_buffers),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
