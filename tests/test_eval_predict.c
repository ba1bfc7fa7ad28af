/* Predictions: what networks with weights by hand compute, as tables, as arrays and as the library's callback gets it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/npz.h"
#include "graph/network.h"
#include "support.h"
#include "training_support.h"
#include "within.h"

enum { SAMPLES = 5, FEATURES = 3, OUTPUTS = 2, HEIGHT = 2, WIDTH = 3, TOKENS = 4 };

static char table[4096], arrays[4096], given[4096];

/* x becomes W x, for one position or for each pixel; classes of tokens by a table. */
static const struct predict_case {
    const char *name, *layer, *loss;
    int rank;
    bool tokens;
    const char *head; /* of the table */
} cases[] = {
    {"classes", "linear,channels=2,bias=0", "cross_entropy", 1, false, "index,label,probability\n"},
    {"numbers", "linear,channels=2,bias=0", "mse", 1, false, "index,output_0,output_1\n"},
    {"labels", "linear,channels=2,bias=0", "bce", 1, false, "index,probability_0,probability_1\n"},
    {"pixels", "convolution,channels=2,kernel=1,bias=0", "cross_entropy", 3, false, "index,position,label,probability\n"},
    {"pictures", "convolution,channels=2,kernel=1,bias=0", "l1", 3, false, NULL},
    {"words", "embedding,channels=2,vocabulary=3", "cross_entropy", 1, true, "index,position,label,probability\n"},
};
enum { CASES = sizeof cases / sizeof *cases };

static const float weights[OUTPUTS * FEATURES] = {1, -2, 0.5f, 0.25f, 1, -1};

static int64_t positions_of(const struct predict_case *c) { return c->rank == 3 ? HEIGHT * WIDTH : c->tokens ? TOKENS : 1; }

static struct ps_network *make_network(const struct predict_case *c) {
    struct ps_network_builder *b = ps_network_builder_create(c->name);
    struct ps_network *network;
    if (c->tokens)
        ps_network_builder_input(b, "x", "i32", (const int64_t[]){TOKENS}, 1);
    else
        ps_network_builder_input(b, "x", "f32", (const int64_t[]){FEATURES, HEIGHT, WIDTH}, c->rank);
    ps_network_builder_node(b, "layer", c->layer, NULL, 0);
    ps_network_builder_node(b, "loss", c->loss, NULL, 0);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    /* A table has a row for each token. */
    struct array array = {.name = "layer.weight", .type = ARRAY_F32, .rank = c->rank == 3 ? 4 : 2, .data = weights};
    const int64_t dims[2][4] = {{OUTPUTS, FEATURES, 1, 1}, {FEATURES, OUTPUTS, 1, 1}};
    memcpy(array.shape, dims[c->tokens], sizeof dims[0]);
    network->graph->values = values_create();
    assert_ok(values_set(network->graph->values, &array, VALUES_BORROW, &test_error));
    return network;
}

static float feature(int64_t sample, int64_t position, int i) {
    return (float)((sample * 7 + position * 5 + i * 3) % 11) / 4 - 1;
}
static int32_t token(int64_t sample, int64_t position) { return (int32_t)((sample + position) % FEATURES); }

/* The samples as PyTorch has them, channels first; with labels or numbers as the target. */
static void write_data(const struct predict_case *c, bool labelled) {
    const int64_t positions = positions_of(c);
    static float numbers[SAMPLES * FEATURES * HEIGHT * WIDTH], targets[SAMPLES * OUTPUTS * HEIGHT * WIDTH];
    static int32_t tokens[SAMPLES * TOKENS], labels[SAMPLES * HEIGHT * WIDTH];
    for (int64_t n = 0; n < SAMPLES; n++)
        for (int64_t p = 0; p < positions; p++) {
            for (int i = 0; i < FEATURES; i++) numbers[(n * FEATURES + i) * positions + p] = feature(n, p, i);
            for (int o = 0; o < OUTPUTS; o++) targets[(n * OUTPUTS + o) * positions + p] = (float)((n + 2 * p + o) % 2);
            labels[n * positions + p] = (int32_t)((n + p) % OUTPUTS);
            if (c->tokens) tokens[n * TOKENS + p] = token(n, p);
        }
    const bool classes = strcmp(c->loss, "cross_entropy") == 0;
    struct array x = {
        .name = "x", .type = ARRAY_F32, .rank = c->rank + 1, .shape = {SAMPLES, FEATURES, HEIGHT, WIDTH}, .data = numbers};
    struct array y = {
        .name = "labels", .type = ARRAY_F32, .rank = c->rank + 1, .shape = {SAMPLES, OUTPUTS, HEIGHT, WIDTH}, .data = targets};
    if (c->tokens) x = (struct array){.name = "x", .type = ARRAY_I32, .rank = 2, .shape = {SAMPLES, TOKENS}, .data = tokens};
    if (classes) {
        y = (struct array){.name = "labels",
                           .type = ARRAY_I32,
                           .rank = c->rank == 3 ? 3
                                   : c->tokens  ? 2
                                                : 1,
                           .shape = {SAMPLES, HEIGHT, WIDTH},
                           .data = labels};
        if (c->tokens) y.shape[1] = TOKENS;
    }
    assert_ok(npz_write(given, (const struct array[]){x, y}, labelled ? 2 : 1, &test_error));
}

static float wanted(const struct predict_case *c, int64_t sample, int64_t position, int output) {
    if (c->tokens) return weights[token(sample, position) * OUTPUTS + output];
    float sum = 0;
    for (int i = 0; i < FEATURES; i++) sum += weights[output * FEATURES + i] * feature(sample, position, i);
    return sum;
}

static void open_data(const char *range, struct ps_dataset **data) {
    char spec[4200];
    snprintf(spec, sizeof spec, "npz:%s%s", given, range);
    assert_ok(ps_dataset_open(spec, NULL, data, &test_error));
}

/* Channels first in files and for the callback; features of texts last. */
static int64_t place_of(const struct predict_case *c, int64_t position, int output) {
    return c->rank == 3 ? output * positions_of(c) + position : position * OUTPUTS + output;
}

struct seen {
    const struct predict_case *c;
    int64_t next;
};

static void see(void *context, int64_t sample, const float *output, size_t count) {
    struct seen *seen = context;
    assert_int_equal(sample, seen->next++);
    assert_int_equal(count, OUTPUTS * positions_of(seen->c));
    for (int64_t p = 0; p < positions_of(seen->c); p++)
        for (int o = 0; o < OUTPUTS; o++) assert_within(output[place_of(seen->c, p, o)], wanted(seen->c, sample, p, o), 1e-5);
}

static void check_arrays(const struct predict_case *c, int first, bool labelled) {
    struct npz *file;
    struct array output, labels;
    assert_ok(npz_open(arrays, &file, &test_error));
    assert_ok(npz_get(file, "output", &output, &test_error));
    const int64_t positions = positions_of(c), samples = SAMPLES - first;
    assert_int_equal(output.rank, c->rank == 3 ? 4 : c->tokens ? 3 : 2);
    assert_int_equal(output.shape[0], samples);
    assert_int_equal(output.shape[1], c->tokens ? TOKENS : OUTPUTS);
    assert_int_equal(array_elements(&output), samples * OUTPUTS * positions);
    const float *numbers = output.data;
    for (int64_t n = 0; n < samples; n++)
        for (int64_t p = 0; p < positions; p++)
            for (int o = 0; o < OUTPUTS; o++)
                assert_within(numbers[n * OUTPUTS * positions + place_of(c, p, o)], wanted(c, first + n, p, o), 1e-5);
    assert_int_equal(npz_has(file, "labels"), labelled);
    if (labelled) {
        /* They are the arrays that were given. */
        struct npz *before;
        struct array same;
        assert_ok(npz_get(file, "labels", &labels, &test_error));
        assert_ok(npz_open(given, &before, &test_error));
        assert_ok(npz_get(before, "labels", &same, &test_error));
        assert_int_equal(labels.rank, same.rank);
        assert_int_equal(array_bytes(&labels) * SAMPLES, array_bytes(&same) * (size_t)samples);
        const size_t skipped = array_bytes(&same) / SAMPLES * (size_t)first;
        assert_memory_equal(labels.data, (const char *)same.data + skipped, array_bytes(&labels));
        npz_close(before);
    }
    npz_close(file);
}

/* Each line against the numbers. */
static void check_table(const struct predict_case *c, int first) {
    char *text;
    size_t size;
    assert_ok(file_read(table, 1 << 20, &text, &size, &test_error));
    if (c->head != NULL) assert_memory_equal(text, c->head, strlen(c->head));
    const bool classes = strcmp(c->loss, "cross_entropy") == 0;
    const char *line = strchr(text, '\n') + 1;
    for (int64_t n = first; n < SAMPLES; n++)
        for (int64_t p = 0; p < (classes ? positions_of(c) : 1); p++, line = strchr(line, '\n') + 1) {
            char *rest;
            assert_int_equal(strtoll(line, &rest, 10), n);
            if (classes && positions_of(c) > 1) assert_int_equal(strtoll(rest + 1, &rest, 10), p);
            const double a = (double)wanted(c, n, p, 0), b = (double)wanted(c, n, p, 1);
            if (classes) {
                assert_int_equal(strtoll(rest + 1, &rest, 10), b > a);
                assert_within(strtod(rest + 1, &rest), 1 / (1 + exp(-fabs(a - b))), 1e-6);
            }
            for (int64_t i = 0; !classes && i < OUTPUTS * positions_of(c); i++) {
                const double number = (double)wanted(c, n, i % positions_of(c), (int)(i / positions_of(c)));
                const bool share = strcmp(c->loss, "bce") == 0;
                assert_within(strtod(rest + 1, &rest), share ? 1 / (1 + exp(-number)) : number, 1e-5);
            }
            assert_int_equal(*rest, '\n');
        }
    assert_int_equal(*line, '\0');
    free(text);
}

static void test_cases(void **state) {
    (void)state;
    for (int i = 0; i < 2 * CASES; i++) {
        const struct predict_case *c = &cases[i / 2];
        const int first = i % 2 ? 2 : 0;
        struct seen seen = {c, first};
        struct ps_network *network = make_network(c);
        struct ps_dataset *data;
        struct ps_predict_options options;
        ps_predict_options_init(&options);
        write_data(c, i % 2);
        open_data(first ? "@2-5" : "", &data);
        options.network = network;
        options.data = data;
        options.device = test_device("cpu");
        options.batch = 2;
        options.path = table;
        options.take = see;
        options.context = &seen;
        assert_ok(ps_predict(&options, &test_error));
        assert_int_equal(seen.next, SAMPLES);
        check_table(c, first);
        options.path = arrays;
        options.take = NULL;
        assert_ok(ps_predict(&options, &test_error));
        check_arrays(c, first, i % 2);
        ps_dataset_destroy(data);
        ps_network_destroy(network);
    }
}

enum { IRREGULAR = 64 };

static void keep(void *context, int64_t sample, const float *output, size_t count) {
    assert_int_equal(count, OUTPUTS);
    memcpy((float *)context + sample * OUTPUTS, output, OUTPUTS * sizeof *output);
}

/* Numbers in tables are read again as the same bits; probabilities have seven digits. */
static void test_digits(void **state) {
    (void)state;
    float numbers[IRREGULAR * FEATURES], outputs[IRREGULAR * OUTPUTS];
    int longest = 0;
    const struct array x = {.name = "x", .type = ARRAY_F32, .rank = 2, .shape = {IRREGULAR, FEATURES}, .data = numbers};
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < IRREGULAR * FEATURES; i++) {
            const float share = random_uniform(test_key(3), (uint64_t)i);
            /* From 1000 to 1024 it takes all nine digits to tell numbers apart. */
            numbers[i] = c == 0 ? 2 * share - 1 : i % FEATURES == 0 ? 1000 + 24 * share : 0;
        }
        assert_ok(npz_write(given, &x, 1, &test_error));
        struct ps_network *network = make_network(&cases[c]);
        struct ps_dataset *data;
        char *text, *at;
        size_t size;
        open_data("", &data);
        const struct ps_predict_options options = {.struct_size = sizeof options,
                                                   .network = network,
                                                   .data = data,
                                                   .device = test_device("reference"),
                                                   .path = table,
                                                   .take = keep,
                                                   .context = outputs};
        assert_ok(ps_predict(&options, &test_error));
        assert_ok(file_read(table, 1 << 20, &text, &size, &test_error));
        at = strchr(text, '\n');
        for (int n = 0; n < IRREGULAR; n++) {
            const float *own = outputs + n * OUTPUTS;
            assert_int_equal(strtol(at + 1, &at, 10), n);
            if (c == 0) assert_int_equal(strtol(at + 1, &at, 10), own[1] > own[0]);
            const char *begin = at + 1;
            if (c == 0) assert_within(strtod(begin, &at), 1 / (1 + exp(-fabs((double)own[0] - (double)own[1]))), 0.51e-7);
            if (c == 0 && at - begin > longest) longest = (int)(at - begin);
            for (int o = 0; c == 1 && o < OUTPUTS; o++) assert_true(strtof(at + 1, &at) == own[o]);
        }
        free(text);
        ps_dataset_destroy(data);
        ps_network_destroy(network);
    }
    assert_int_equal(longest, strlen("0.1234567"));
}

/* Tables without a column for the target. */
static void test_csv(void **state) {
    (void)state;
    static const char text[] = "a,b,c\n1,2,3\n0,0,1\n";
    char path[4096], spec[4200];
    struct ps_network *network = make_network(&cases[1]);
    struct ps_dataset *data;
    struct ps_predict_options options = {
        .struct_size = sizeof options, .network = network, .path = table, .device = test_device("cpu")};
    file_join(path, test_directory, "unseen.csv");
    test_file_write(path, text, sizeof text - 1);
    snprintf(spec, sizeof spec, "csv:%s", path);
    assert_ok(ps_dataset_open(spec, NULL, &data, &test_error));
    options.data = data;
    assert_ok(ps_predict(&options, &test_error));
    char *lines;
    size_t size;
    assert_ok(file_read(table, 1 << 20, &lines, &size, &test_error));
    assert_string_equal(lines, "index,output_0,output_1\n0,-1.5,-0.75\n1,0.5,-1\n");
    free(lines);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
}

static void hear(void *context, const char *what, double done, double total, const char *detail) {
    assert_string_equal(what, "predicting");
    assert_string_equal(detail, "");
    assert_true(total == 2 && done == ++*(int *)context);
}

/* The same predictions in every form, to the letter; JSON has no numbers that are not finite. */
static void test_forms(void **state) {
    (void)state;
    static const float numbers[] = {1, 2, 3, 0, 0, 1, INFINITY, 0, 0};
    static const struct {
        int number; /* of the case */
        const char *format, *text;
    } forms[] = {
        {1, "csv", "index,output_0,output_1\n0,-1.5,-0.75\n1,0.5,-1\n2,inf,inf\n"},
        {1, "table", "index  output_0  output_1\n    0  -1.5      -0.75\n    1  0.5       -1\n    2  inf       inf\n"},
        {1, "json",
         "[\n{\"index\": 0, \"output\": [-1.5, -0.75]},\n{\"index\": 1, \"output\": [0.5, -1]},\n"
         "{\"index\": 2, \"output\": [null, null]}\n]\n"},
        {1, "jsonl",
         "{\"index\": 0, \"output\": [-1.5, -0.75]}\n{\"index\": 1, \"output\": [0.5, -1]}\n"
         "{\"index\": 2, \"output\": [null, null]}\n"},
        {2, "csv", "index,probability_0,probability_1\n0,0.182425524,0.320821301\n1,0.622459331,0.268941421\n2,1,1\n"},
        {2, "json",
         "[\n{\"index\": 0, \"probability\": [0.182425524, 0.320821301]},\n"
         "{\"index\": 1, \"probability\": [0.622459331, 0.268941421]},\n{\"index\": 2, \"probability\": [1, 1]}\n]\n"},
        {0, "json",
         "[\n{\"index\": 0, \"label\": 1, \"probability\": 0.6791787},\n"
         "{\"index\": 1, \"label\": 0, \"probability\": 0.8175745},\n{\"index\": 2, \"label\": 0, \"probability\": null}\n]\n"},
        {0, "jsonl",
         "{\"index\": 0, \"label\": 1, \"probability\": 0.6791787}\n{\"index\": 1, \"label\": 0, \"probability\": 0.8175745}\n"
         "{\"index\": 2, \"label\": 0, \"probability\": null}\n"},
    };
    struct array x = {.name = "x", .type = ARRAY_F32, .rank = 2, .shape = {3, FEATURES}, .data = numbers};
    int told = 0;
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &told, .progress = hear};
    struct ps_dataset *data;
    assert_ok(npz_write(given, &x, 1, &test_error));
    open_data("", &data);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        struct ps_network *network = make_network(&cases[forms[f].number]);
        const struct ps_predict_options options = {.struct_size = sizeof options,
                                                   .network = network,
                                                   .data = data,
                                                   .device = test_device("cpu"),
                                                   .batch = 2,
                                                   .path = table,
                                                   .format = forms[f].format,
                                                   .log = &sink};
        char *text;
        size_t size;
        assert_ok(ps_predict(&options, &test_error));
        assert_int_equal(told, 2);
        told = 0;
        assert_ok(file_read(table, 1 << 20, &text, &size, &test_error));
        assert_string_equal(text, forms[f].text);
        free(text);
        ps_network_destroy(network);
    }
    ps_dataset_destroy(data);
}

/* Names of classes stand in a column of their own, quoted where the form asks for it. */
static void test_names(void **state) {
    (void)state;
    enum { RECORD = 1 + 3 * 32 * 32, CLASSES_NAMED = 10, COUNT = 2 };
    static const char names[] = "plane\ncar\nbird\ncat\ndeer\ndog\nthe \"frog\", a\\b\nhorse\nship\ntruck\n";
    static char images[COUNT * RECORD];
    static const float zeros[CLASSES_NAMED * 84], bias[CLASSES_NAMED] = {0, 0, 0, 0, 0, 0, 1};
    const struct array values[] = {
        {.name = "fc3.weight", .type = ARRAY_F32, .rank = 2, .shape = {CLASSES_NAMED, 84}, .data = zeros},
        {.name = "fc3.bias", .type = ARRAY_F32, .rank = 1, .shape = {CLASSES_NAMED}, .data = bias}};
    static const struct {
        const char *format, *text, *names;
    } forms[] = {
        {"csv",
         "index,label,probability,name\n0,6,0.2319693,\"the \"\"frog\"\", a\\b\"\n1,6,0.2319693,\"the \"\"frog\"\", a\\b\"\n",
         names},
        {"table",
         "index  label  probability  name\n    0      6    0.2319693  the \"frog\", a\\b\n"
         "    1      6    0.2319693  the \"frog\", a\\b\n",
         names},
        {"jsonl",
         "{\"index\": 0, \"label\": 6, \"probability\": 0.2319693, \"name\": \"the \\\"frog\\\", a\\\\b\"}\n"
         "{\"index\": 1, \"label\": 6, \"probability\": 0.2319693, \"name\": \"the \\\"frog\\\", a\\\\b\"}\n",
         names},
        {"table", "index  label  probability  name\n    0      6    0.2319693  d [31mog\n    1      6    0.2319693  d [31mog\n",
         "a\nb\nc\nd\ne\nf\nd\x1b[31mog\nh\ni\nj\n"},
        {"csv", "index,label,probability\n0,6,0.2319693\n1,6,0.2319693\n", "a\nb\nc\nd\ne\nf\ng\nh\ni\n\xff\n"},
    };
    enum { FORMS = sizeof forms / sizeof *forms };
    char path[4096], spec[4200];
    struct ps_network *network;
    assert_ok(ps_network_open("lenet5,input=32,channels=3", &network, &test_error));
    network->graph->values = values_create();
    for (int v = 0; v < 2; v++) assert_ok(values_set(network->graph->values, &values[v], VALUES_BORROW, &test_error));
    test_file_write(file_join(path, test_directory, "data_batch_1.bin"), images, sizeof images);
    test_file_write(file_join(path, test_directory, "test_batch.bin"), images, sizeof images);
    snprintf(spec, sizeof spec, "cifar10:%s", test_directory);
    for (size_t f = 0; f < FORMS; f++) {
        struct ps_dataset *data;
        char *text;
        size_t size;
        /* Names that are no text are none. */
        test_file_write(file_join(path, test_directory, "batches.meta.txt"), forms[f].names, strlen(forms[f].names));
        assert_ok(ps_dataset_open(spec, NULL, &data, &test_error));
        const struct ps_predict_options options = {.struct_size = sizeof options,
                                                   .network = network,
                                                   .data = data,
                                                   .device = test_device("cpu"),
                                                   .path = table,
                                                   .format = forms[f].format};
        assert_ok(ps_predict(&options, &test_error));
        assert_ok(file_read(table, 1 << 20, &text, &size, &test_error));
        assert_string_equal(text, forms[f].text);
        free(text);
        ps_dataset_destroy(data);
    }
    ps_network_destroy(network);
}

/* A run on two workers predicts with the weights that it is evaluated with. */
static void test_run(void **state) {
    (void)state;
    struct training training;
    struct ps_run *run;
    struct ps_dataset *data;
    char out[4096];
    training_init(&training);
    training.model = "lenet5";
    training.data = "synthetic:images,samples=64";
    training.o.steps = 4;
    training.o.batch = 16;
    training.o.lr = 0.05;
    training.o.device = test_device("cpu");
    training.o.out = file_join(out, test_directory, "run");
    training.cluster.workers = 2;
    training.plan.micro_batch = 4;
    assert_ok(training_run(&training, &run, &test_error));
    ps_run_destroy(run);
    assert_ok(ps_dataset_open("synthetic:images,samples=40", NULL, &data, &test_error));
    const struct ps_predict_options options = {
        .struct_size = sizeof options, .run = out, .data = data, .path = arrays, .device = test_device("cpu")};
    assert_ok(ps_predict(&options, &test_error));
    ps_dataset_destroy(data);
    const struct evaluating evaluating = {.run = out, .data = "synthetic:images,samples=40", .device = test_device("cpu")};
    struct ps_evaluation evaluation;
    assert_ok(evaluating_run(&evaluating, &evaluation, &test_error));
    struct npz *file;
    struct array output, labels;
    assert_ok(npz_open(arrays, &file, &test_error));
    assert_ok(npz_get(file, "output", &output, &test_error));
    assert_ok(npz_get(file, "labels", &labels, &test_error));
    const float *numbers = output.data;
    const int32_t *label = labels.data;
    double loss = 0;
    for (int n = 0; n < 40; n++) {
        double sum = 0;
        for (int c = 0; c < 10; c++) sum += exp((double)(numbers[n * 10 + c] - numbers[n * 10 + label[n]]));
        loss += log(sum) / 40;
    }
    npz_close(file);
    assert_within(loss, evaluation.loss, 1e-5);
}

static void test_refused(void **state) {
    (void)state;
    struct ps_network *network = make_network(&cases[0]), *empty;
    struct ps_dataset *data;
    struct ps_predict_options options = {.struct_size = sizeof options, .network = network, .device = "cpu"};
    struct ps_evaluate_options evaluate = {.struct_size = sizeof evaluate, .network = network};
    struct ps_evaluation evaluation;
    write_data(&cases[0], false);
    open_data("", &data);
    options.data = evaluate.data = data;
    assert_status(ps_predict(&options, &test_error), PS_USAGE, "one of `path` and `take` must be given");
    assert_status(ps_evaluate(&evaluate, &evaluation, &test_error), PS_BAD_INPUT, "labels");
    options.path = table;
    options.batch = -1;
    assert_status(ps_predict(&options, &test_error), PS_USAGE, "`batch`: -1 is less than 1");
    options.batch = 0;
    assert_ok(ps_network_open("lenet5", &empty, &test_error));
    options.network = empty;
    assert_status(ps_predict(&options, &test_error), PS_USAGE,
                  "`network`: lenet5 has no weights; they come from a file (`init` FILE) or a run");
    ps_network_destroy(empty);
    options.network = network;
    options.path = "/nowhere/at/all.npz";
    assert_status(ps_predict(&options, &test_error), PS_IO, "/nowhere/at/all.npz");
    ps_dataset_destroy(data);
    ps_network_destroy(network);
}

/* What an evaluation is not, and what it cannot be of. */
static void test_evaluation_refused(void **state) {
    (void)state;
    static const struct {
        struct ps_evaluate_options options;
        const char *part;
    } refused[] = {
        {{.batch = -1}, "`batch`: -1 is less than 1"},
        {{.beam = -1}, "`beam`: -1 is less than 1"},
        {{.beam = 65}, "`beam`: 65 hypotheses need a `batch` of at least as many, and it is 64"},
        {{.beam = 2, .batch = 1}, "`beam`: 2 hypotheses need a `batch` of at least as many, and it is 1"},
        {{.beam = 3, .batch = 2}, "`beam`: 3 hypotheses need a `batch` of at least as many, and it is 2"},
        {{.beam = 2, .batch = 2}, "`beam`: npz:"},
        {{.translations = "t"}, "`translations`: npz:"},
        {{.checkpoint = "best"}, "`checkpoint`: is one of a `run`"},
        {{.workers = -1}, "`workers`: -1 is negative"},
        {{.workers = 2}, "`workers`: several evaluate a `run`, by its plan"},
        {{.threads = -1}, "`threads`: -1 is less than 1"},
        {{.device = "clock"}, "clock"},
    };
    struct ps_network *network = make_network(&cases[0]);
    struct ps_dataset *data;
    struct ps_evaluation evaluation;
    write_data(&cases[0], true);
    open_data("", &data);
    for (size_t r = 0; r < sizeof refused / sizeof *refused; r++) {
        struct ps_evaluate_options options = refused[r].options;
        options.struct_size = sizeof options;
        options.network = network;
        options.data = data;
        assert_status(ps_evaluate(&options, &evaluation, &test_error), PS_USAGE, refused[r].part);
    }
    struct ps_evaluate_options options = {.struct_size = sizeof options, .network = network};
    assert_status(ps_evaluate(&options, &evaluation, &test_error), PS_USAGE, "`data`: missing");
    ps_dataset_destroy(data);

    /* The mean of what counts: two of the samples, whose loss is that of equal logits. */
    static const float zeros[3 * FEATURES], unknown[FEATURES] = {NAN, 1, 1};
    static const int64_t some[] = {0, -100, 1}, none[] = {-100, -100, -100};
    struct array x = {.name = "x", .type = ARRAY_F32, .rank = 2, .shape = {3, FEATURES}, .data = zeros},
                 y = {.name = "labels", .type = ARRAY_I64, .rank = 1, .shape = {3}, .data = some};
    assert_ok(npz_write(given, (const struct array[]){x, y}, 2, &test_error));
    open_data("", &data);
    options.data = data;
    options.device = test_device("cpu");
    assert_ok(ps_evaluate(&options, &evaluation, &test_error));
    assert_within(evaluation.loss, log(2), 1e-6);
    assert_int_equal(evaluation.samples, 3);
    ps_dataset_destroy(data);
    y.data = none;
    assert_ok(npz_write(given, (const struct array[]){x, y}, 2, &test_error));
    open_data("", &data);
    options.data = data;
    assert_status(ps_evaluate(&options, &evaluation, &test_error), PS_USAGE, "`data`: no label of npz:");
    ps_dataset_destroy(data);
    x.data = unknown;
    y.data = some;
    x.shape[0] = y.shape[0] = 1;
    assert_ok(npz_write(given, (const struct array[]){x, y}, 2, &test_error));
    open_data("", &data);
    options.data = data;
    assert_status(ps_evaluate(&options, &evaluation, &test_error), PS_FAILED,
                  "the loss is not a number: the weights or the data are not usable");
    ps_dataset_destroy(data);
    ps_network_destroy(network);
}

static int set_up(void **state) {
    const int status = test_directory_set_up(state);
    file_join(table, test_directory, "table.csv");
    file_join(arrays, test_directory, "arrays.npz");
    file_join(given, test_directory, "given.npz");
    return status;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),   cmocka_unit_test(test_forms),
        cmocka_unit_test(test_names),   cmocka_unit_test(test_digits),
        cmocka_unit_test(test_csv),     cmocka_unit_test(test_run),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_evaluation_refused),
    };
    return cmocka_run_group_tests(tests, set_up, test_directory_tear_down);
}
