/* Choosing optimizer settings, and the rates and decays that predictions look ahead by. */
#include <math.h>
#include <string.h>

#include "exec/update_rule.h"
#include "graph/network.h"
#include "support.h"
#include "within.h"

static const struct optimizer_settings unsaid = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};

static void test_defaults(void **state) {
    (void)state;
    for (int i = 0; optimizer_table[i]; i++) {
        struct update_request requested = {.optimizer = optimizer_table[i]->name, .settings = unsaid};
        struct update_rule rule;
        assert_ok(update_rule_choose(&requested, "sync", false, &rule, &test_error));
        assert_ptr_equal(rule.optimizer, optimizer_table[i]);
        assert_ptr_equal(rule.predictor, rule.optimizer);
        assert_memory_equal(&rule.settings, &optimizer_table[i]->defaults, sizeof rule.settings);
        assert_int_equal(rule.moments, optimizer_table[i]->moments);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *optimizer, *policy;
        size_t field;
        double value;
        const char *message;
    } cases[] = {
        {"adam", "sync", offsetof(struct optimizer_settings, momentum), 0.9, "`momentum`: optimizer adam has no such setting"},
        {"sgd", "sync", offsetof(struct optimizer_settings, dampening), 0, "`dampening`: optimizer sgd has no such setting"},
        {"sgdm", "sync", offsetof(struct optimizer_settings, beta1), 0.9, "`beta1`: optimizer sgdm has no such setting"},
        {"sgdm", "sync", offsetof(struct optimizer_settings, eps), 1e-8, "`eps`: optimizer sgdm has no such setting"},
        {"sgdm", "sync", offsetof(struct optimizer_settings, lr), 0, "`lr`: 0 is not a number above 0"},
        {"sgdm", "sync", offsetof(struct optimizer_settings, lr), -1, "`lr`: -1"},
        {"sgdm", "sync", offsetof(struct optimizer_settings, lr), INFINITY, "`lr`: inf"},
        {"sgdm", "sync", offsetof(struct optimizer_settings, momentum), 1, "`momentum`: 1 is not"},
        {"adam", "sync", offsetof(struct optimizer_settings, beta2), 1, "`beta2`: 1 is not"},
        {"adam", "sync", offsetof(struct optimizer_settings, eps), 0, "`eps`: 0 is not"},
        {"adamw", "sync", offsetof(struct optimizer_settings, weight_decay), -0.1, "`weight_decay`: -0.1"},
        {"adm", "sync", offsetof(struct optimizer_settings, lr), 0.1, "did you mean 'adam'"},
        {"adam", "spectrain", offsetof(struct optimizer_settings, lr), 0.1, "spectrain"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct update_request requested = {.optimizer = cases[i].optimizer, .settings = unsaid};
        memcpy((char *)&requested.settings + cases[i].field, &cases[i].value, sizeof cases[i].value);
        struct update_rule rule;
        assert_status(update_rule_choose(&requested, cases[i].policy, false, &rule, &test_error), PS_USAGE, cases[i].message);
    }
}

enum { COUNT = 8 };

/* A device whose update writes down what it was asked. */
struct request {
    const char *rule;
    struct optimizer_settings settings;
    struct optimizer_call call;
    bool predict_only;
};
static struct request requests[8];
static int request_count;

static void note(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                 const struct optimizer_call *call, bool predict_only, double seconds) {
    (void)device, (void)seconds;
    requests[request_count++] =
        (struct request){.rule = rule->name, .settings = *settings, .call = *call, .predict_only = predict_only};
}

static const struct device_class noting = {.name = "noting", .update = note};

static struct update_rule choose(const char *optimizer, const char *policy, bool paper) {
    struct update_request requested = {.optimizer = optimizer, .settings = unsaid};
    requested.settings.lr = 0.1;
    requested.settings.weight_decay = 0.5;
    struct update_rule rule;
    assert_ok(update_rule_choose(&requested, policy, paper, &rule, &test_error));
    assert_ok(learning_rate_parse("step:3:0.1", 0.1, 0, 100, 1, &rule.rate, &test_error));
    return rule;
}

static void assert_near(double got, double wanted) {
    if (fabs(got - wanted) > 1e-15) print_message("%.17g is not %.17g\n", got, wanted);
    assert_true(fabs(got - wanted) <= 1e-15);
}

/* Rates 0.1 for the first three updates, 0.01 after: the sum is that of exactly the updates to come. */
static void test_look_ahead(void **state) {
    (void)state;
    struct device device = {.type = &noting};
    float weights[COUNT], gradient[COUNT], predicted[COUNT], moment[2][COUNT];
    struct update_state stage = {.count = COUNT, .moment = {moment[0], moment[1]}, .done = 1, .step = 1, .round = 1};
    struct update_rule rule = choose("adamw", "pipeoptim", false);
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 3);
    assert_int_equal(request_count, 1);
    assert_int_equal(stage.done, 2);
    assert_int_equal(requests[0].call.step, 2);
    assert_near(requests[0].call.lr, 0.1);
    assert_near(requests[0].call.ahead.lr_sum, 0.1 + 0.01 + 0.01);
    assert_near(requests[0].call.ahead.decay_product, (1 - 0.05) * (1 - 0.005) * (1 - 0.005));
    assert_ptr_equal(requests[0].call.predicted, predicted);
    request_count = 0;
    update_rule_predict(&rule, &device, &stage, weights, predicted, 1);
    assert_true(requests[0].predict_only);
    assert_int_equal(requests[0].call.step, 2);
    assert_near(requests[0].call.ahead.lr_sum, 0.1);
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, NULL, 0);
    assert_null(requests[0].call.predicted);
}

/* A stage with three replicas: an update takes three mini-batches, and has the rate of the first of them. */
static void test_rounds(void **state) {
    (void)state;
    struct device device = {.type = &noting};
    float weights[COUNT], gradient[COUNT], predicted[COUNT], moment[2][COUNT];
    struct update_state stage = {.count = COUNT, .moment = {moment[0], moment[1]}, .round = 3};
    struct update_rule rule = choose("adamw", "pipeoptim", false);
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 2);
    assert_near(requests[0].call.lr, 0.1);
    assert_near(requests[0].call.ahead.lr_sum, 0.01 + 0.01);
    assert_int_equal(requests[0].call.step, 1);
    assert_int_equal(stage.step, 3);
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, NULL, 0);
    assert_near(requests[1].call.lr, 0.01);
    assert_int_equal(requests[1].call.step, 2);
}

static void test_paper(void **state) {
    (void)state;
    struct device device = {.type = &noting};
    float weights[COUNT], gradient[COUNT], predicted[COUNT], moment[2][COUNT];
    struct update_state stage = {.count = COUNT, .moment = {moment[0], moment[1]}, .done = 2, .step = 2, .round = 1};
    struct update_rule rule = choose("adamw", "pipeoptim", true);
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 3);
    assert_near(requests[0].call.ahead.lr_sum, 0.3);
    assert_near(requests[0].call.ahead.decay_product, 1);
}

/* XPipe beside sgdm: Adam's moments see the gradient before the weights change, and make the prediction after. */
static void test_adam_beside(void **state) {
    (void)state;
    struct device device = {.type = &noting};
    float weights[COUNT], gradient[COUNT], predicted[COUNT], moment[3][COUNT];
    struct update_state stage = {.count = COUNT, .moment = {moment[0], moment[1], moment[2]}, .round = 1};
    struct update_rule rule = choose("sgdm", "xpipe", false);
    assert_int_equal(rule.moments, 3);
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 2);
    assert_int_equal(request_count, 3);
    assert_ptr_equal(requests[0].call.moment[0], moment[1]);
    assert_ptr_equal(requests[0].call.moment[1], moment[2]);
    assert_int_equal(requests[0].call.step, 1);
    assert_near(requests[0].settings.weight_decay, 0.5);
    assert_string_equal(requests[1].rule, "sgdm");
    assert_ptr_equal(requests[1].call.moment[0], moment[0]);
    assert_null(requests[1].call.predicted);
    assert_true(requests[2].predict_only);
    assert_string_equal(requests[2].rule, "adam");
    assert_int_equal(requests[2].call.step, 1);
    assert_ptr_equal(requests[2].call.moment[0], moment[1]);
    assert_near(requests[2].call.ahead.lr_sum, 0.2);
}

/* Stretches of parameters go to the device one by one, with rates and decays of their own. */
static void test_spans(void **state) {
    (void)state;
    struct device device = {.type = &noting};
    float weights[COUNT], gradient[COUNT], predicted[COUNT], moment[2][COUNT];
    struct update_span spans[] = {{5, 1, 0.5}, {3, 2, 0}};
    struct update_state stage = {
        .count = COUNT, .moment = {moment[0], moment[1]}, .done = 1, .step = 1, .round = 1, .spans = spans, .span_count = 2};
    struct update_rule rule = choose("adamw", "pipeoptim", false);
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 3);
    assert_int_equal(request_count, 2);
    assert_int_equal(requests[0].call.count, 5);
    assert_near(requests[0].settings.weight_decay, 0.5);
    assert_near(requests[0].call.ahead.decay_product, (1 - 0.05) * (1 - 0.005) * (1 - 0.005));
    assert_int_equal(requests[1].call.count, 3);
    assert_near(requests[1].settings.weight_decay, 0);
    assert_near(requests[1].call.ahead.decay_product, 1);
    assert_near(requests[1].call.ahead.lr_sum, 2 * (0.1 + 0.01 + 0.01));
    assert_near(requests[1].call.lr, 2 * requests[0].call.lr);
    assert_ptr_equal(requests[1].call.weights, weights + 5);
    assert_ptr_equal(requests[1].call.updated, weights + 5);
    assert_ptr_equal(requests[1].call.gradient, gradient + 5);
    assert_ptr_equal(requests[1].call.predicted, predicted + 5);
    assert_ptr_equal(requests[1].call.moment[1], moment[1] + 5);
    unsigned excluded = 7;
    assert_ok(decay_exclusion_parse(NULL, &excluded, &test_error));
    assert_int_equal(excluded, 0);
    assert_ok(decay_exclusion_parse("norms,biases", &excluded, &test_error));
    assert_int_equal(excluded, WITHOUT_BIASES | WITHOUT_NORMS);
    assert_status(decay_exclusion_parse("norm", &excluded, &test_error), PS_USAGE, "did you mean 'norms'");
}

static void test_groups(void **state) {
    (void)state;
    static const struct {
        const char *text, *said;
    } refused[] = {
        {"fc1", "`groups`: 'fc1' must be GLOB:lr=RATE,weight-decay=L, or one of the two"},
        {"", "'' must be GLOB:"},
        {":lr=1", "':lr=1' must be GLOB:"},
        {"a:lr=1;", "'' must be GLOB:"},
        {"a:", "'a:' must be GLOB:"},
        {"a:lr", "'a:lr' must be GLOB:"},
        {"a:lr=1,lr=2", "'a:lr=1,lr=2' must be GLOB:"},
        {"a,b:lr=1", "'a,b:lr=1' must be GLOB:"},
        {"a:lr=-1", "`groups`: a: lr=-1: must be a number from 0 to 1e+06"},
        {"a:weight_decay=1",
         "`groups`: 'a' has no option 'weight_decay'; did you mean 'weight-decay'?\nknown: lr, weight-decay"},
        {"a:lr=1;b:momentum=1", "momentum"},
        {"a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr=1;a:lr="
         "1",
         "`groups`: more than 16 groups"},
    };
    struct update_rule rule = choose("adamw", "sync", false);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_status(update_groups_parse(refused[i].text, &rule, &test_error), PS_USAGE, refused[i].said);
    assert_ok(update_groups_parse(NULL, &rule, &test_error));
    assert_int_equal(rule.group_count, 0);
    rule.settings.lr = 0.5;
    assert_ok(update_groups_parse("fc*:lr=0.25,weight-decay=0;*.bias:weight-decay=0.125", &rule, &test_error));
    assert_int_equal(rule.group_count, 2);
    assert_true(rule.groups[0].rate == 0.5 && rule.groups[0].weight_decay == 0);
    assert_true(rule.groups[1].rate == 1 && rule.groups[1].weight_decay == 0.125);
    struct ps_network *network;
    assert_ok(ps_network_open("lenet5", &network, &test_error));
    assert_ok(update_groups_check(&rule, network->graph, &test_error));
    assert_ok(update_groups_parse("*.bias:lr=1;fc1.bias:lr=2", &rule, &test_error));
    assert_status(update_groups_check(&rule, network->graph, &test_error), PS_USAGE,
                  "the trained parameters of 'fc1.bias' are all in groups before it");
    ps_network_destroy(network);
}

static const struct device_class counting = {.name = "counting", .real = true, .update = note};

/* A gradient that is too long is shortened to the norm; with half of the parameters, to the root of half of it. */
static void test_clipping(void **state) {
    (void)state;
    struct device device = {.type = &counting};
    float weights[COUNT] = {0}, gradient[COUNT] = {3, 0, 0, 0, 0, 0, 0, 4}, moment[COUNT] = {0};
    struct update_state stage = {.count = COUNT, .moment = {moment}, .round = 1, .share = 1};
    struct update_rule rule = choose("sgdm", "sync", false);
    rule.clip = 6;
    request_count = 0;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, NULL, 0);
    assert_true(gradient[0] == 3 && gradient[7] == 4);
    rule.clip = 2.5;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, NULL, 0);
    assert_within(gradient[0], 1.5, 1e-6);
    assert_within(gradient[7], 2, 1e-6);
    stage.share = 0.5;
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, NULL, 0);
    assert_within(gradient[0] * gradient[0] + gradient[7] * gradient[7], 2.5 * 2.5 / 2, 1e-5);
}

/* The prediction made after update 4 for 2 updates on is held against the weights after update 6; others wait for it. */
static void test_watch(void **state) {
    (void)state;
    static struct prediction_watch watch;
    static float newest[3000], predicted[3000], came[3000];
    for (int i = 0; i < 3000; i++) newest[i] = 1, predicted[i] = 1.9f, came[i] = 2;
    prediction_watch_note(&watch, NULL, &(struct watched_weights){.count = 3000}, newest, predicted, 4, 0);
    assert_false(watch.pending);
    prediction_watch_note(&watch, NULL, &(struct watched_weights){.count = 3000}, newest, predicted, 4, 2);
    prediction_watch_check(&watch, NULL, &(struct watched_weights){.count = 3000}, newest, 5);
    prediction_watch_note(&watch, NULL, &(struct watched_weights){.count = 3000}, newest, newest, 5, 2);
    assert_true(watch.size == 0);
    prediction_watch_check(&watch, NULL, &(struct watched_weights){.count = 3000}, came, 6);
    assert_false(watch.pending);
    assert_true(fabs(watch.size / WATCH_FLOATS - 4) < 1e-6);
    assert_true(fabs(watch.predicted_off / WATCH_FLOATS - 0.01) < 1e-6);
    assert_true(fabs(watch.newest_off / WATCH_FLOATS - 1) < 1e-6);
    prediction_watch_note(&watch, NULL, &(struct watched_weights){.count = 7}, newest, predicted, 6, 1);
    prediction_watch_check(&watch, NULL, &(struct watched_weights){.count = 7}, came, 7);
    assert_true(fabs(watch.size - 4 * (WATCH_FLOATS + 7)) < 1e-3);
    /* In the host's memory all is in the sums by then, and nothing is counted twice. */
    prediction_watch_settle(&watch);
    assert_true(fabs(watch.size - 4 * (WATCH_FLOATS + 7)) < 1e-3);
}

static void test_plain_sgd(void **state) {
    (void)state;
    struct update_rule rule = choose("sgd", "pipeoptim", false);
    assert_string_equal(rule.optimizer->name, "sgdm");
    assert_true(rule.settings.momentum == 0 && rule.settings.dampening == 0 && rule.moments == 1);
    rule = choose("sgd", "stash", false);
    assert_string_equal(rule.optimizer->name, "sgd");
    assert_int_equal(rule.moments, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_refusals),    cmocka_unit_test(test_look_ahead),
        cmocka_unit_test(test_paper),    cmocka_unit_test(test_adam_beside), cmocka_unit_test(test_plain_sgd),
        cmocka_unit_test(test_spans),    cmocka_unit_test(test_groups),      cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_watch),    cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
