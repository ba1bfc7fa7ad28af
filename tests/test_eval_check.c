/* Checks against a reference file and against the device `reference`, and networks that begin with the values of files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "data/npz.h"
#include "graph/network.h"
#include "support.h"
#include "within.h"

static char path[4096], other[4096];

static struct ps_network *open_network(const char *text) {
    struct ps_network *network = NULL;
    assert_ok(ps_network_open(text, &network, &test_error));
    return network;
}

static struct ps_check *check_run(const struct ps_network *network, struct ps_check_options options) {
    struct ps_check *check;
    options.struct_size = sizeof options;
    assert_ok(ps_check_run(network, &options, &check, &test_error));
    return check;
}

/* The device against `reference`, whole and cut, of images, tokens, shared and frozen parameters. */
static void test_devices(void **state) {
    (void)state;
    static const char *const models[] = {"lenet5", "resnet,blocks=1,input=8,classes=4",
                                         "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1",
                                         "residual_lstm,seq=6,vocab=20,hidden=8"};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int workers = 1; workers <= 3; workers++) {
            struct ps_network *network = open_network(models[m]);
            if (workers == 3) assert_ok(ps_network_freeze(network, "*.bias", &test_error));
            struct ps_check *check =
                check_run(network, (struct ps_check_options){.device = test_device("cpu"), .workers = workers});
            const struct ps_check_info info = ps_check_info(check);
            assert_true(info.agrees && info.worst < 1e-4 && info.output_error <= info.worst);
            assert_true(info.gradients > 0 && ps_check_gradient(check, 0).error <= info.worst);
            /* Of images that are not all zeros the first weights have a gradient, which oneDNN rounds in another order. */
            if (m < 2 && strcmp(test_device("cpu"), "cpu") == 0) assert_true(ps_check_gradient(check, 0).error > 0);
            ps_check_destroy(check);
            ps_network_destroy(network);
        }
}

/* By hand: a linear layer of two features to two classes with weights of zeros. Both logits are 0, so the loss is log 2, and
 * the gradient of row c is the mean of x (1/2 - [c is the label]). */
enum { ALL = 6 };
static void write_reference(double loss, double slope, int rank, int count) {
    static const float inputs[] = {1, 2, 3, 5};
    static const int64_t labels[] = {0, 1};
    const double gradient[] = {slope, 0.75, 0.5, 0.75 * -1}, bias[] = {0, 0}, output[] = {0, 0, 0, 0};
    const double weight[] = {gradient[0], gradient[1], -gradient[0], gradient[3]};
    const struct array arrays[] = {
        {.name = "input/x", .type = ARRAY_F32, .rank = 2, .shape = {2, 2}, .data = inputs},
        {.name = "labels", .type = ARRAY_I64, .rank = 1, .shape = {2}, .data = labels},
        {.name = "loss", .type = ARRAY_F64, .rank = 0, .data = &loss},
        {.name = "output", .type = ARRAY_F64, .rank = 2, .shape = {2, 2}, .data = output},
        {.name = "gradient/fc.weight", .type = ARRAY_F64, .rank = rank, .shape = {rank == 2 ? 2 : 4, 2}, .data = weight},
        {.name = "gradient/fc.bias", .type = ARRAY_F64, .rank = 1, .shape = {2}, .data = bias}};
    file_join(path, test_directory, "reference.npz");
    assert_ok(npz_write(path, arrays, count, &test_error));
}

static struct ps_network *small_with(const char *middle) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"small\","
             "\"inputs\": [{\"name\": \"x\", \"shape\": [2]}], \"nodes\": ["
             "{\"name\": \"fc\", \"operator\": \"linear\", \"channels\": 2,"
             " \"initial\": {\"weight\": {\"constant\": 0}, \"bias\": {\"constant\": 0}}},"
             "%s{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}",
             middle);
    struct ps_network *network;
    assert_ok(network_parse(text, strlen(text), "text", &network, &test_error));
    return network;
}

static struct ps_network *small_network(void) { return small_with(""); }

/* A condition, which is true, has no part in the gradient, with what alone it is made of. */
static void test_condition(void **state) {
    (void)state;
    static const char condition[] =
        "{\"name\": \"more\", \"operator\": \"unary\", \"kind\": \"affine\", \"alpha\": 2, \"beta\": 1, \"inputs\": [\"fc\"]},"
        "{\"name\": \"power\", \"operator\": \"unary\", \"kind\": \"exp\", \"inputs\": [\"fc\"]},"
        "{\"name\": \"above\", \"operator\": \"compare\", \"kind\": \"greater\", \"alpha\": 0.5},"
        "{\"name\": \"chosen\", \"operator\": \"where\", \"inputs\": [\"above\", \"fc\", \"more\"]},";
    struct ps_network *network = small_with(condition);
    write_reference(log(2), 0.5, 2, ALL);
    for (int workers = 1; workers <= 2; workers++) {
        struct ps_check *check = check_run(network, (struct ps_check_options){.against = path, .workers = workers});
        assert_true(ps_check_info(check).agrees && ps_check_info(check).worst < 1e-6);
        assert_int_equal(ps_check_info(check).gradients, 2);
        ps_check_destroy(check);
    }
    ps_network_destroy(network);
}

static void test_reference(void **state) {
    (void)state;
    struct ps_network *network = small_network();
    struct ps_check_options options = {.struct_size = sizeof options, .against = path};
    struct ps_check *check;
    write_reference(log(2), 0.5, 2, ALL); /* (1 * -1/2 + 3 * 1/2) / 2 = 1/2, (2 * -1/2 + 5 * 1/2) / 2 = 3/4 */
    check = check_run(network, options);
    assert_true(ps_check_info(check).agrees && ps_check_info(check).worst < 1e-6);
    assert_int_equal(ps_check_info(check).gradients, 2);
    char *json = ps_check_json(check);
    static const char *const fields[] = {"loss",       "loss_error", "output_error", "gradients", "fc.weight",
                                         "statistics", "worst",      "tolerance",    "agrees"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char field[32];
        snprintf(field, sizeof field, "\"%s\"", fields[i]);
        if (!strstr(json, field)) fail_msg("no %s in %s", field, json);
    }
    free(json);
    char *table = ps_check_table(check);
    assert_non_null(table);
    assert_non_null(strstr(table, "gradient fc.weight"));
    assert_non_null(strstr(table, "worst: "));
    free(table);
    ps_check_destroy(check);
    write_reference(log(2), 0.5 + 0.0075, 2, ALL); /* off by a hundredth of the largest */
    check = check_run(network, options);
    assert_false(ps_check_info(check).agrees);
    assert_string_equal(ps_check_info(check).worst_name, "fc.weight");
    assert_within(ps_check_info(check).worst, 0.01, 1e-5);
    ps_check_destroy(check);
    options.tolerance = 0.02;
    check = check_run(network, options);
    assert_true(ps_check_info(check).agrees);
    ps_check_destroy(check);
    write_reference(1.1 * log(2), 0.5, 2, ALL);
    check = check_run(network, options);
    assert_string_equal(ps_check_info(check).worst_name, "loss");
    assert_within(ps_check_info(check).loss_error, 0.1 / 1.1, 1e-5);
    ps_check_destroy(check);
    write_reference(log(2), NAN, 2, ALL); /* among numbers that are as they should be */
    check = check_run(network, options);
    assert_false(ps_check_info(check).agrees);
    assert_true(isnan(ps_check_info(check).worst));
    assert_string_equal(ps_check_info(check).worst_name, "fc.weight");
    ps_check_destroy(check);
    write_reference(log(2), 0.5, 1, ALL);
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_BAD_INPUT,
                  "gradient/fc.weight: has shape 4 where the network has 2x2");
    write_reference(log(2), 0.5, 2, ALL - 2);
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_BAD_INPUT, "no gradient of a parameter of small");
    ps_network_destroy(network);
    network = open_network("lenet5");
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_BAD_INPUT, "input/data");
    ps_network_destroy(network);
}

/* ------------------------------------------------------------- what is said */

static const float two_inputs[] = {1, 2, 3, 5}, no_features[] = {0};
static const int64_t two_labels[] = {0, 1}, uncounted[] = {-100, -100}, one_counted[] = {0, -100};
static const double log_2 = 0.69314718055994531, slopes[] = {0.5, 0.75, -0.5, -0.75}, zeros[] = {0, 0, 0, 0};
static const struct array the_input = {.name = "input/x", .type = ARRAY_F32, .rank = 2, .shape = {2, 2}, .data = two_inputs},
                          the_labels = {.name = "labels", .type = ARRAY_I64, .rank = 1, .shape = {2}, .data = two_labels},
                          the_loss = {.name = "loss", .type = ARRAY_F64, .rank = 0, .data = &log_2},
                          the_output = {.name = "output", .type = ARRAY_F64, .rank = 2, .shape = {2, 2}, .data = zeros},
                          the_weight = {.name = "gradient/fc.weight",
                                        .type = ARRAY_F64,
                                        .rank = 2,
                                        .shape = {2, 2},
                                        .data = slopes},
                          the_bias = {.name = "gradient/fc.bias", .type = ARRAY_F64, .rank = 1, .shape = {2}, .data = zeros};

static void write_arrays(const struct array *arrays, int count) {
    file_join(path, test_directory, "reference.npz");
    assert_ok(npz_write(path, arrays, count, &test_error));
}

/* To the byte, with all that there may be and with as little as there may. */
static void test_texts(void **state) {
    (void)state;
    const struct array all[] = {the_input, the_labels, the_loss, the_output, the_weight, the_bias},
                       least[] = {the_input, the_labels, the_loss, the_weight};
    static const struct {
        const char *name, *error;
    } rows[2][5] = {
        {{"loss 0.6931472", "0.00e+00"},
         {"output", "0.00e+00"},
         {"gradient fc.weight", "0.00e+00"},
         {"gradient fc.bias", "0.00e+00"},
         {"worst: none", "0.00e+00"}},
        {{"loss 0.6931472", "0.00e+00"},
         {"gradient fc.weight", "0.00e+00"},
         {"gradient fc.bias", "not in the reference"},
         {"worst: none", "0.00e+00"}},
    };
    struct ps_network *network = small_network();
    for (int few = 0; few < 2; few++) {
        struct text wanted = {0};
        write_arrays(few ? least : all, few ? 4 : 6);
        struct ps_check *check = check_run(network, (struct ps_check_options){.against = path, .device = "reference"});
        char *table = ps_check_table(check), *json = ps_check_json(check);
        /* A column of numbers alone is flush right, below its title. */
        const int column = few ? 0 : (int)(strlen("relative error of reference against ") + strlen(path));
        text_add(&wanted, "%-20srelative error of reference against %s\n", "value", path);
        for (int r = 0; r < 5 - few; r++) text_add(&wanted, "%-20s%*s\n", rows[few][r].name, column, rows[few][r].error);
        assert_string_equal(table, wanted.data);
        text_free(&wanted);
        assert_int_equal(strstr(json, "\"output_error\"") == NULL, few);
        free(table);
        free(json);
        /* Of gradients that are not there, too; and none of those that the network does not have. */
        assert_string_equal(ps_check_gradient(check, 0).name, "fc.weight");
        assert_true(ps_check_gradient(check, 0).error == 0);
        assert_string_equal(ps_check_gradient(check, 1).name, "fc.bias");
        assert_int_equal(isnan(ps_check_gradient(check, 1).error), few);
        assert_null(ps_check_gradient(check, 2).name);
        assert_null(ps_check_gradient(check, -1).name);
        assert_true(isnan(ps_check_gradient(check, 2).error) && isnan(ps_check_gradient(check, -1).error));
        ps_check_destroy(check);
    }
    ps_network_destroy(network);
}

/* A gradient of what the network does not have is one of 0 there; a parameter that the user has frozen has none, and is there.
 */
static void test_absent(void **state) {
    (void)state;
    static const double small[] = {1e-9, 0, 0, 0}, none[] = {0, NAN, 0, 0};
    static const struct {
        const char *name;
        const double *values;
        double error;
        const char *row;
    } cases[] = {{"gradient/fc.wait", slopes, 1, "gradient fc.wait    not in the network\n"},
                 {"gradient/fc.wait", small, 1e-9 / 0.0075, "gradient fc.wait    not in the network\n"},
                 {"gradient/fc.wait", zeros, 0, "gradient fc.wait    not in the network\n"},
                 {"gradient/fc.wait", none, NAN, "gradient fc.wait    not in the network\n"},
                 {"gradient/fc.bias", slopes, 0, NULL}};
    struct ps_network *network = small_network();
    assert_ok(ps_network_freeze(network, "*.bias", &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct array arrays[] = {the_input, the_labels, the_loss, the_weight, the_weight};
        arrays[4].name = cases[c].name;
        arrays[4].data = cases[c].values;
        write_arrays(arrays, 5);
        struct ps_check *check = check_run(network, (struct ps_check_options){.against = path});
        const struct ps_check_info info = ps_check_info(check);
        const struct ps_check_gradient gradient = ps_check_gradient(check, 1);
        char *table = ps_check_table(check), *json = ps_check_json(check);
        assert_int_equal(info.gradients, cases[c].row != NULL ? 2 : 1);
        assert_int_equal(info.agrees, cases[c].error < 1e-4);
        if (cases[c].row != NULL) {
            assert_string_equal(gradient.name, "fc.wait");
            if (isnan(cases[c].error))
                assert_true(isnan(gradient.error));
            else
                assert_within(gradient.error, cases[c].error, 1e-9);
            if (!info.agrees) assert_string_equal(info.worst_name, "fc.wait");
            if (strstr(table, cases[c].row) == NULL) fail_msg("no row of it in\n%s", table);
        }
        assert_int_equal(strstr(json, "\"in_network\": false") != NULL, cases[c].row != NULL);
        free(table);
        free(json);
        ps_check_destroy(check);
    }
    /* Not so a parameter's other name. */
    struct array arrays[] = {the_input, the_labels, the_loss, the_weight};
    arrays[3].name = "gradient/head.weight";
    write_arrays(arrays, 4);
    struct ps_check *check = check_run(network, (struct ps_check_options){.against = path});
    assert_int_equal(ps_check_info(check).gradients, 1);
    assert_true(ps_check_info(check).agrees && ps_check_gradient(check, 0).error < 1e-4);
    ps_check_destroy(check);
    ps_network_destroy(network);
}

/* Two nodes with one weight, whose outputs are added: its gradient is the sum of those of its uses, by hand twice that of a
 * node with a weight of its own beside them. */
static void test_shared(void **state) {
    (void)state;
    static const char text[] = "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"twice\","
                               "\"inputs\": [{\"name\": \"x\", \"shape\": [2]}], \"nodes\": ["
                               "{\"name\": \"fc\", \"operator\": \"linear\", \"channels\": 2, \"inputs\": [\"x\"],"
                               " \"initial\": {\"weight\": {\"constant\": 0}, \"bias\": {\"constant\": 0}}},"
                               "{\"name\": \"again\", \"operator\": \"linear\", \"channels\": 2, \"inputs\": [\"x\"],"
                               " \"tied_to\": {\"weight\": \"fc.weight\", \"bias\": \"fc.bias\"}},"
                               "{\"name\": \"sum\", \"operator\": \"add\", \"inputs\": [\"fc\", \"again\"]},"
                               "{\"name\": \"out\", \"operator\": \"linear\", \"channels\": 2, \"inputs\": [\"x\"],"
                               " \"initial\": {\"weight\": {\"constant\": 0}, \"bias\": {\"constant\": 0}}},"
                               "{\"name\": \"all\", \"operator\": \"add\", \"inputs\": [\"sum\", \"out\"]},"
                               "{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}";
    static const double twice[] = {1, 1.5, -1, -1.5};
    /* The shared one has one name in the network, and the file may have the other, or both; or other names throughout. */
    static const char *const names[][3] = {{"gradient/fc.weight", "gradient/out.weight", NULL},
                                           {"gradient/again.weight", "gradient/out.weight", NULL},
                                           {"gradient/again.weight", "gradient/head.weight", NULL},
                                           {"gradient/fc.weight", "gradient/out.weight", "gradient/again.weight"}};
    struct array arrays[] = {the_input, the_labels, the_loss, the_output, the_bias, the_weight, the_weight, the_weight};
    arrays[5].data = arrays[7].data = twice;
    struct ps_network *network;
    assert_ok(network_parse(text, sizeof text - 1, "text", &network, &test_error));
    for (int n = 0; n < 4; n++) {
        const int workers = 1 + n % 2;
        for (int a = 0; a < 3; a++) arrays[5 + a].name = names[n][a];
        write_arrays(arrays, names[n][2] != NULL ? 8 : 7);
        struct ps_check *check = check_run(network, (struct ps_check_options){.against = path, .workers = workers});
        const struct ps_check_info info = ps_check_info(check);
        if (!info.agrees) fail_msg("%s: %s is off by %g", names[n][0], info.worst_name, info.worst);
        assert_int_equal(info.gradients, 4);
        assert_true(ps_check_gradient(check, 0).error < 1e-6 && ps_check_gradient(check, 2).error < 1e-6);
        ps_check_destroy(check);
    }
    ps_network_destroy(network);
}

/* Labels of -100 do not count: the gradient is that of the first sample alone. */
static void test_labels_that_do_not_count(void **state) {
    (void)state;
    static const double first[] = {-0.5, -1, 0.5, 1}, of_bias[] = {-0.5, 0.5};
    struct array arrays[] = {the_input, the_labels, the_loss, the_output, the_weight, the_bias};
    arrays[1].data = one_counted;
    arrays[4].data = first;
    arrays[5].data = of_bias;
    write_arrays(arrays, 6);
    struct ps_network *network = small_network();
    struct ps_check *check = check_run(network, (struct ps_check_options){.against = path});
    assert_true(ps_check_info(check).agrees);
    ps_check_destroy(check);
    ps_network_destroy(network);
}

static double number_in(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_number(value)) fail_msg("no number %s", name);
    return json_number_value(value);
}

static json_t *json_of(const struct ps_check *check) {
    char *text = ps_check_json(check);
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    free(text);
    return root;
}

/* The list has these names, with these errors. */
static void assert_entries(const json_t *root, const char *list, int count, const char *const *names, const double *errors) {
    const json_t *entries = json_object_get(root, list);
    assert_int_equal(json_array_size(entries), count);
    for (int e = 0; e < count; e++) {
        const json_t *entry = json_array_get(entries, (size_t)e);
        assert_string_equal(json_string_value(json_object_get(entry, "name")), names[e]);
        if (isnan(errors[e])) assert_null(json_object_get(entry, "error"));
        if (!isnan(errors[e])) assert_within(number_in(entry, "error"), errors[e], 1e-5);
    }
}

/* Each figure by hand: the loss relative to the wanted one, outputs to their largest, a gradient to its own largest number or,
 * where that is more, to a hundredth of the largest of all. The largest error is the worst, and agrees where it is tolerated.
 */
static void test_figures(void **state) {
    (void)state;
    static const double loss = 1.1 * 0.69314718055994531, small[] = {0, 0.001}, others[] = {0, 0, 0, -0.25};
    static const char *const names[] = {"fc.weight", "fc.bias"};
    static const double errors[] = {0, 0.001 / 0.0075};
    struct array arrays[] = {the_input, the_labels, the_loss, the_output, the_weight, the_bias};
    struct ps_network *network = small_network();
    arrays[2].data = &loss;
    arrays[3].data = others;
    arrays[5].data = small;
    write_arrays(arrays, 6);
    for (int tolerated = 0; tolerated < 2; tolerated++) {
        struct ps_check *check =
            check_run(network, (struct ps_check_options){.against = path, .tolerance = tolerated ? 1 : 0.999});
        const struct ps_check_info info = ps_check_info(check);
        assert_within(info.loss_error, 0.1 / 1.1, 1e-5);
        assert_true(info.output_error == 1 && info.worst == 1);
        assert_string_equal(info.worst_name, "output");
        assert_int_equal(info.agrees, tolerated);
        assert_int_equal(info.gradients, 2);
        json_t *root = json_of(check);
        assert_within(number_in(root, "loss"), log_2, 1e-6);
        assert_within(number_in(root, "loss_error"), 0.1 / 1.1, 1e-5);
        assert_true(number_in(root, "output_error") == 1 && number_in(root, "worst") == 1);
        assert_true(number_in(root, "tolerance") == (tolerated ? 1 : 0.999));
        assert_int_equal(json_is_true(json_object_get(root, "agrees")), tolerated);
        assert_entries(root, "gradients", 2, names, errors);
        assert_entries(root, "statistics", 0, NULL, NULL);
        json_decref(root);
        ps_check_destroy(check);
    }
    ps_network_destroy(network);
}

/* Statistics are those after the step, a tenth of the way from 0 and 1 to the batch's. They are compared, and do not count. */
static void test_statistics(void **state) {
    (void)state;
    static const char text[] = "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"norm\","
                               "\"inputs\": [{\"name\": \"x\", \"shape\": [2]}], \"nodes\": ["
                               "{\"name\": \"bn\", \"operator\": \"batch_norm\"},"
                               "{\"name\": \"fc\", \"operator\": \"linear\", \"channels\": 2,"
                               " \"initial\": {\"weight\": {\"constant\": 0}, \"bias\": {\"constant\": 0}}},"
                               "{\"name\": \"loss\", \"operator\": \"cross_entropy\"}]}";
    static const double mean[] = {0.2, 0.35}, variance[] = {1.1, 1.45}, bias[] = {0, 0};
    static const char *const names[] = {"bn.running_mean", "bn.running_var"};
    static const double errors[2][2] = {{0, 0.1 / 1.45}, {NAN, NAN}};
    const struct array arrays[] = {
        the_input,
        the_labels,
        the_loss,
        {.name = "gradient/fc.bias", .type = ARRAY_F64, .rank = 1, .shape = {2}, .data = bias},
        {.name = "statistic/bn.running_mean", .type = ARRAY_F64, .rank = 1, .shape = {2}, .data = mean},
        {.name = "statistic/bn.running_var", .type = ARRAY_F64, .rank = 1, .shape = {2}, .data = variance}};
    struct ps_network *network;
    assert_ok(network_parse(text, sizeof text - 1, "text", &network, &test_error));
    for (int none = 0; none < 2; none++) {
        write_arrays(arrays, none ? 4 : 6);
        struct ps_check *check = check_run(network, (struct ps_check_options){.against = path});
        json_t *root = json_of(check);
        assert_entries(root, "statistics", 2, names, errors[none]);
        json_decref(root);
        assert_true(ps_check_info(check).agrees && ps_check_info(check).worst < 1e-6);
        char *table = ps_check_table(check);
        assert_non_null(strstr(table, none ? "statistic bn.running_var" : "6.90e-02\n"));
        free(table);
        ps_check_destroy(check);
    }
    ps_network_destroy(network);
}

/* Pictures and numbers for each of their pixels stand in files with the channels first. A convolution of one pixel makes of two
 * channels half their sum, twice; the gradient of its weights follows from the mean of the squares. */
static void test_pictures(void **state) {
    (void)state;
    enum { SAMPLES = 2, CHANNELS = 2, PIXELS = 6, ALL_NUMBERS = SAMPLES * CHANNELS * PIXELS };
    float x[SAMPLES][CHANNELS][PIXELS];
    double target[SAMPLES][CHANNELS][PIXELS], output[SAMPLES][CHANNELS][PIXELS], gradient[CHANNELS][CHANNELS] = {{0}}, loss = 0;
    for (int n = 0; n < SAMPLES; n++)
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < CHANNELS; c++) x[n][c][p] = (float)((7 * n + 5 * c + 3 * p) % 11) / 4;
    for (int n = 0; n < SAMPLES; n++)
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < CHANNELS; c++) {
                target[n][c][p] = (double)((n + 2 * c + p) % 5) / 2;
                output[n][c][p] = 0.5 * (double)(x[n][0][p] + x[n][1][p]);
                const double apart = output[n][c][p] - target[n][c][p];
                loss += apart * apart / ALL_NUMBERS;
                for (int i = 0; i < CHANNELS; i++) gradient[c][i] += 2 * apart / ALL_NUMBERS * (double)x[n][i][p];
            }
    static const char text[] =
        "{\"format\": \"penstock-network\", \"version\": 1, \"name\": \"pixels\","
        "\"inputs\": [{\"name\": \"x\", \"shape\": [2, 2, 3]}], \"nodes\": ["
        "{\"name\": \"conv\", \"operator\": \"convolution\", \"channels\": 2, \"kernel\": 1, \"bias\": false,"
        " \"initial\": {\"weight\": {\"constant\": 0.5}}},"
        "{\"name\": \"loss\", \"operator\": \"mse\"}]}";
    const struct array arrays[] = {
        {.name = "input/x", .type = ARRAY_F32, .rank = 4, .shape = {SAMPLES, CHANNELS, 2, 3}, .data = x},
        {.name = "labels", .type = ARRAY_F64, .rank = 4, .shape = {SAMPLES, CHANNELS, 2, 3}, .data = target},
        {.name = "loss", .type = ARRAY_F64, .rank = 0, .data = &loss},
        {.name = "output", .type = ARRAY_F64, .rank = 4, .shape = {SAMPLES, CHANNELS, 2, 3}, .data = output},
        {.name = "gradient/conv.weight", .type = ARRAY_F64, .rank = 4, .shape = {CHANNELS, CHANNELS, 1, 1}, .data = gradient}};
    struct ps_network *network;
    assert_ok(network_parse(text, sizeof text - 1, "text", &network, &test_error));
    write_arrays(arrays, 5);
    struct ps_check *check = check_run(network, (struct ps_check_options){.against = path});
    const struct ps_check_info info = ps_check_info(check);
    assert_true(info.agrees && info.worst < 1e-5 && info.output_error < 1e-6);
    assert_int_equal(info.gradients, 1);
    assert_true(ps_check_gradient(check, 0).error < 1e-5);
    ps_check_destroy(check);
    ps_network_destroy(network);
}

/* What is drawn where no file is given, weights and samples, is the same everywhere, and so is the loss but for rounding. */
static void test_drawn(void **state) {
    (void)state;
    static const struct {
        const char *network;
        double loss;
    } cases[] = {{"lenet5,input=16,classes=4", 1.52660074},
                 {"gpt2,layers=1,width=16,heads=2,seq=12,vocab=14", 2.6433216},
                 {"gnmt-l,layers=4,seq=4,target=3,vocab=9,hidden=8", 1.99868646}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_network *network = open_network(cases[c].network);
        struct ps_check *check = check_run(network, (struct ps_check_options){.device = "reference"});
        json_t *root = json_of(check);
        assert_within(number_in(root, "loss"), cases[c].loss, 1e-5);
        json_decref(root);
        ps_check_destroy(check);
        ps_network_destroy(network);
    }
}

static void test_refused(void **state) {
    (void)state;
    struct array empty = the_input, flat = the_input, uncountable = the_labels, few = the_labels, wide = the_output,
                 row = the_weight, deep = the_weight, none = the_weight;
    empty.shape[0] = 0, empty.data = no_features;
    flat.rank = 1, flat.shape[0] = 4;
    uncountable.data = uncounted;
    few.shape[0] = 1;
    wide.shape[1] = 1;
    row.rank = 1;
    deep.rank = 3, deep.shape[2] = 1;
    none.rank = ARRAY_RANK_MAX, none.shape[0] = 0, none.data = no_features;
    for (int d = 1; d < ARRAY_RANK_MAX; d++) none.shape[d] = d < 4 ? 1000000 : 1;
    const struct {
        struct array arrays[6];
        int count;
        const char *part;
    } cases[] = {
        {{the_labels, the_loss, the_weight}, 3, "input/x"},
        {{empty, the_labels, the_loss, the_weight}, 4, "input/x: holds no samples"},
        {{flat, the_labels, the_loss, the_weight}, 4, "input/x: has shape 4, and the network 2 for each of 4 samples"},
        {{the_input, few, the_loss, the_weight}, 4, "labels: has shape 1, and the network 1 i32 for each of 2 samples"},
        {{the_input, uncountable, the_loss, the_weight}, 4, "labels: no label counts"},
        {{the_input, the_labels, the_loss, row}, 4, "gradient/fc.weight: has shape 2 where the network has 2x2"},
        {{the_input, the_labels, the_loss, deep}, 4, "gradient/fc.weight: has shape 2x2x1 where the network has 2x2"},
        {{the_input, the_labels, the_loss, none},
         4,
         "gradient/fc.weight: has shape 0x1000000x1000000x1000000x1x1x1x1 where the network has 2x2"},
        {{the_input, the_labels, the_weight}, 3, "loss"},
        {{the_input, the_labels, the_loss, wide, the_weight},
         5,
         "output: has shape 2x1, and the network 2 for each of 2 samples"},
    };
    struct ps_network *network = small_network();
    struct ps_check *check;
    struct ps_check_options options = {.struct_size = sizeof options};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        write_arrays(cases[c].arrays, cases[c].count);
        options.against = path;
        assert_status(ps_check_run(network, &options, &check, &test_error), PS_BAD_INPUT, cases[c].part);
        assert_status(ps_check_run(network, &options, &check, &test_error), PS_BAD_INPUT, path);
    }
    options.against = NULL;
    options.workers = -1;
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_USAGE, "`workers`: -1 is not from 1 to 1024");
    options.workers = 1;
    options.threads = -1;
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_USAGE, "`threads`: -1 is less than 1");
    options.threads = 0;
    options.workers = 1025;
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_USAGE, "`workers`: 1025 is not from 1 to 1024");
    options.workers = 2;
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_USAGE, "`workers`: 2; small has 1 layers");
    options.workers = 1;
    assert_ok(ps_check_run(network, &options, &check, &test_error));
    ps_check_destroy(check);
    options.tolerance = -1e-9;
    assert_status(ps_check_run(network, &options, &check, &test_error), PS_USAGE, "`tolerance`: -1e-09 is below 0");
    ps_network_destroy(network);
}

/* ------------------------------------------------------ values from files */

static void write_tensors(const char *name, const struct safetensor_source *sources, int count) {
    assert_ok(safetensors_write(file_join(path, test_directory, name), sources, count, NULL, &test_error));
}

static void test_initialize(void **state) {
    (void)state;
    static float weight[6 * 25], bias[6];
    uint16_t narrow[6];
    const int64_t shape[] = {6, 1, 5, 5}, turned[] = {1, 6, 5, 5};
    for (int i = 0; i < 150; i++) weight[i] = (float)i;
    for (int i = 0; i < 6; i++) bias[i] = (float)(i - 3);
    numbers_convert(6, TYPE_BF16, narrow, TYPE_F32, bias);
    struct safetensor_source first = {"conv1.weight", shape, 4, weight, ARRAY_F32};
    const struct safetensor_source second[] = {{"conv1.bias", shape, 1, narrow, ARRAY_BF16},
                                               {"more", shape, 1, bias, ARRAY_F32}};
    const char *index = "{\"metadata\": {}, \"weight_map\": {\"conv1.weight\": \"a.safetensors\", \"conv1.bias\": "
                        "\"b.safetensors\", \"more\": \"b.safetensors\"}}";
    struct ps_network *network = open_network("lenet5");
    write_tensors("a.safetensors", &first, 1);
    write_tensors("b.safetensors", second, 2);
    file_join(other, test_directory, "model.safetensors.index.json");
    test_file_write(other, index, strlen(index));
    assert_ok(ps_network_initialize(network, other, &test_error));
    assert_int_equal(values_count(network->graph->values), 2);
    float got[6];
    array_floats(values_get(network->graph->values, "conv1.bias"), 0, 6, got);
    assert_memory_equal(got, bias, sizeof bias);
    assert_memory_equal(values_get(network->graph->values, "conv1.weight")->data, weight, sizeof weight);
    /* of a file that has more tensors those that the index says are in it */
    const struct safetensor_source stale[] = {{"conv1.weight", shape, 4, weight, ARRAY_F32},
                                              {"conv1.bias", shape, 1, weight, ARRAY_F32}};
    write_tensors("a.safetensors", stale, 2);
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 1)
            index = "{\"weight_map\": {\"conv1.bias\": \"b.safetensors\", \"conv1.weight\": \"a.safetensors\", \"none\": "
                    "\"a.safetensors\"}}";
        test_file_write(other, index, strlen(index));
        assert_ok(ps_network_initialize(network, other, &test_error));
        assert_int_equal(values_count(network->graph->values), 2);
        array_floats(values_get(network->graph->values, "conv1.bias"), 0, 6, got);
        assert_memory_equal(got, bias, sizeof bias);
    }
    /* another file lies over it */
    const struct safetensor_source again = {"conv1.bias", shape, 1, weight, ARRAY_F32};
    write_tensors("c.safetensors", &again, 1);
    assert_ok(ps_network_initialize(network, path, &test_error));
    assert_int_equal(values_count(network->graph->values), 2);
    array_floats(values_get(network->graph->values, "conv1.bias"), 0, 6, got);
    assert_memory_equal(got, weight, sizeof got);
    /* what does not fit leaves the network as it was */
    first.shape = turned;
    write_tensors("a.safetensors", &first, 1);
    assert_status(ps_network_initialize(network, path, &test_error), PS_BAD_INPUT,
                  "'conv1.weight': its values have shape 1x6x5x5 where the network has 6x1x5x5");
    write_tensors("d.safetensors", &second[1], 1);
    assert_status(ps_network_initialize(network, path, &test_error), PS_BAD_INPUT,
                  "none of its tensors is a parameter of the network: it has more");
    write_tensors("d.safetensors", NULL, 0);
    assert_status(ps_network_initialize(network, path, &test_error), PS_BAD_INPUT,
                  "none of its tensors is a parameter of the network: it has none");
    index = "{\"weight_map\": {\"conv1.weight\": \"../a.safetensors\"}}";
    test_file_write(other, index, strlen(index));
    assert_status(ps_network_initialize(network, other, &test_error), PS_BAD_INPUT, "not given a file of this directory");
    assert_int_equal(values_count(network->graph->values), 2);
    ps_network_destroy(network);
}

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    text_add(context, "%d %s\n", level == PS_LOG_WARN, text);
}

/* From the file at `path`; what the log says comes into `lines`. */
static void initialize_logged(struct ps_network *network, struct text *lines) {
    assert_ok(ps_log_to(
        &(struct ps_log_sink){
            .struct_size = sizeof(struct ps_log_sink), .context = lines, .level = PS_LOG_INFO, .line = keep_line},
        &test_error));
    const enum ps_status status = ps_network_initialize(network, path, &test_error);
    assert_ok(ps_log_to(NULL, &test_error));
    assert_ok(status);
}

/* What the network has and the file has not, and the other way round, is said; what counts batches is nobody's. */
static void test_warned(void **state) {
    (void)state;
    static const float values[6];
    const int64_t shape[] = {6};
    static const char *const tensors[] = {"conv1.bias", "norm.num_batches_tracked", "b", "a", "num_batches_tracked.c", "d",
                                          "e"};
    static const char *const names[] = {"more.safetensors", "prefixed.safetensors"};
    struct safetensor_source sources[7];
    for (int i = 0; i < 7; i++) sources[i] = (struct safetensor_source){tensors[i], shape, 1, values, ARRAY_F32};
    for (int form = 0; form < 2; form++) {
        struct ps_network *network = open_network("lenet5");
        struct text lines = {0}, wanted = {0};
        if (form == 1) sources[0].name = "base_model.model.conv1.bias";
        write_tensors(names[form], sources, form == 1 ? 6 : 7);
        initialize_logged(network, &lines);
        text_add(&wanted,
                 "1 %s: 9 parameters are not in it and begin with the network's own values: conv1.weight, conv2.weight, "
                 "conv2.bias, fc1.weight, ...\n1 %s: %d tensors are no parameters of the network: %s\n",
                 path, path, form == 1 ? 4 : 5,
                 form == 1 ? "b, a, num_batches_tracked.c, d" : "b, a, num_batches_tracked.c, d, ...");
        assert_string_equal(lines.data, wanted.data);
        text_free(&lines);
        text_free(&wanted);
        ps_network_destroy(network);
    }
}

/* Nothing is said of a file that fits; one parameter is no several, nor is one tensor. */
static void test_warned_of_one(void **state) {
    (void)state;
    static const float nothing[120 * 400];
    static const int64_t six[] = {6};
    for (int lost = 0; lost < 2; lost++) {
        struct ps_network *network = open_network("lenet5");
        struct text lines = {0}, wanted = {0};
        struct safetensor_source sources[16];
        int count = 0;
        if (lost) sources[count++] = (struct safetensor_source){"b", six, 1, nothing, ARRAY_F32};
        for (int p = lost; p < network->graph->parameter_count; p++) {
            const struct parameter *parameter = &network->graph->parameters[p];
            sources[count++] =
                (struct safetensor_source){parameter->name, parameter->shape.dim, parameter->shape.rank, nothing, ARRAY_F32};
        }
        write_tensors("fits.safetensors", sources, count);
        initialize_logged(network, &lines);
        text_add(&wanted, "%s", "");
        if (lost)
            text_add(&wanted,
                     "1 %s: 1 parameter is not in it and begins with the network's own values: conv1.weight\n"
                     "1 %s: 1 tensor is no parameter of the network: b\n",
                     path, path);
        text_add(&lines, "%s", "");
        assert_string_equal(lines.data, wanted.data);
        text_free(&lines);
        text_free(&wanted);
        ps_network_destroy(network);
    }
}

/* Hugging Face's library saves the bias of BertForMaskedLM's output as cls.predictions.bias alone; where a file has both names,
 * the decoder's own counts. */
static void test_bias_of_bert(void **state) {
    (void)state;
    enum { VOCABULARY = 7, FORMS = 4 };
    static const char saved[] = "cls.predictions.bias", own[] = "cls.predictions.decoder.bias";
    static const float saved_bias[VOCABULARY] = {1, 2, 3, 4, 5, 6, 7}, own_bias[VOCABULARY] = {-1, -2, -3}, nothing[256];
    static const int64_t shape[] = {VOCABULARY};
    static const char *const names[FORMS] = {"saved.safetensors", "before.safetensors", "behind.safetensors",
                                             "prefixed.safetensors"};
    for (int form = 0; form < FORMS; form++) {
        struct ps_network *network = open_network("bert48,layers=1,width=8,heads=2,seq=4,positions=4,vocab=7,tied=1");
        const struct safetensor_source bias = {form == 3 ? "base_model.model.cls.predictions.bias" : saved, shape, 1,
                                               saved_bias, ARRAY_F32};
        struct text lines = {0};
        struct safetensor_source sources[64];
        int count = 0;
        if (form != 2) sources[count++] = bias;
        for (int p = 0; p < network->graph->parameter_count; p++) {
            const struct parameter *parameter = &network->graph->parameters[p];
            const bool is_own = strcmp(parameter->name, own) == 0;
            if (parameter->tied || (is_own && (form == 0 || form == 3))) continue;
            sources[count++] = (struct safetensor_source){parameter->name, parameter->shape.dim, parameter->shape.rank,
                                                          is_own ? own_bias : nothing, ARRAY_F32};
        }
        if (form == 2) sources[count++] = bias;
        write_tensors(names[form], sources, count);
        initialize_logged(network, &lines);
        text_add(&lines, "%s", "");
        assert_string_equal(lines.data, "");
        assert_null(values_get(network->graph->values, saved));
        assert_memory_equal(values_get(network->graph->values, own)->data, form == 1 || form == 2 ? own_bias : saved_bias,
                            sizeof own_bias);
        text_free(&lines);
        ps_network_destroy(network);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices),
                                       cmocka_unit_test(test_reference),
                                       cmocka_unit_test(test_condition),
                                       cmocka_unit_test(test_texts),
                                       cmocka_unit_test(test_absent),
                                       cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_labels_that_do_not_count),
                                       cmocka_unit_test(test_figures),
                                       cmocka_unit_test(test_statistics),
                                       cmocka_unit_test(test_pictures),
                                       cmocka_unit_test(test_drawn),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_initialize),
                                       cmocka_unit_test(test_warned),
                                       cmocka_unit_test(test_warned_of_one),
                                       cmocka_unit_test(test_bias_of_bert)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
