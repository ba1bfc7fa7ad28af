/* Choosing optimizer settings, and the rates and decays that predictions look ahead by. */
#include <math.h>
#include <stdio.h>
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

/* Each setting's range, at both sides of its ends, and that what is given is what is taken. */
static void test_ranges(void **state) {
    (void)state;
#define FIELD(name) offsetof(struct optimizer_settings, name)
    static const struct {
        const char *optimizer, *option;
        size_t field;
        double high;
        bool from_0;
    } cases[] = {
        {"sgd", "lr", FIELD(lr), 1e6, false},
        {"sgdm", "momentum", FIELD(momentum), 1, true},
        {"sgdm", "dampening", FIELD(dampening), 1, true},
        {"adamw", "weight_decay", FIELD(weight_decay), 1e6, true},
        {"adam", "beta1", FIELD(beta1), 1, true},
        {"adam", "beta2", FIELD(beta2), 1, true},
        {"adam", "eps", FIELD(eps), 1e6, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const double tried[] = {nextafter(0, -1), 0, nextafter(0, 1), 0.5, nextafter(cases[c].high, 0), cases[c].high};
        for (int t = 0; t < 6; t++) {
            const bool taken = t > 1 ? t < 5 : t == 1 && cases[c].from_0;
            struct update_request requested = {.optimizer = cases[c].optimizer, .settings = unsaid};
            struct update_rule rule;
            char wanted[128];
            memcpy((char *)&requested.settings + cases[c].field, &tried[t], sizeof tried[t]);
            const enum ps_status status = update_rule_choose(&requested, "sync", false, &rule, &test_error);
            if (!taken) {
                snprintf(wanted, sizeof wanted, "`%s`: %g is not a number %s 0 and below %g", cases[c].option, tried[t],
                         cases[c].from_0 ? "from" : "above", cases[c].high);
                assert_status(status, PS_USAGE, wanted);
                continue;
            }
            assert_ok(status);
            struct optimizer_settings settings = rule.optimizer->defaults;
            memcpy((char *)&settings + cases[c].field, &tried[t], sizeof tried[t]);
            assert_memory_equal(&rule.settings, &settings, sizeof settings);
        }
    }
#undef FIELD
}

/* The names of the moments in files: a predictor's own behind those of the optimizer. */
static void test_moment_names(void **state) {
    (void)state;
    static const struct {
        const char *optimizer, *policy, *names[4];
    } cases[] = {{"sgdm", "sync", {"momentum_buffer"}},
                 {"adam", "xpipe", {"exp_avg", "exp_avg_sq"}},
                 {"sgdm", "xpipe", {"momentum_buffer", "predictor.exp_avg", "predictor.exp_avg_sq"}}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct update_request requested = {.optimizer = cases[c].optimizer, .settings = unsaid};
        struct update_rule rule;
        char name[64];
        int count = 0;
        assert_ok(update_rule_choose(&requested, cases[c].policy, false, &rule, &test_error));
        for (; cases[c].names[count]; count++)
            assert_string_equal(update_rule_moment_name(&rule, count, name), cases[c].names[count]);
        assert_int_equal(rule.moments, count);
    }
}

enum { COUNT = 8 };

/* A device whose update writes down what it was asked. */
struct request {
    const char *rule;
    struct optimizer_settings settings;
    struct optimizer_call call;
    bool predict_only;
    double seconds;
};
static struct request requests[8];
static int request_count;

static void note(struct device *device, const struct optimizer *rule, const struct optimizer_settings *settings,
                 const struct optimizer_call *call, bool predict_only, double seconds) {
    (void)device;
    requests[request_count++] = (struct request){
        .rule = rule->name, .settings = *settings, .call = *call, .predict_only = predict_only, .seconds = seconds};
}

static const struct device_class noting = {.name = "noting", .update = note},
                                 counting = {.name = "counting", .real = true, .update = note};

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
    /* The next updates look at every third mini-batch, or every second. */
    static const double sums[] = {0.1 + 0.1 + 0.1, 0.1 + 0.1 + 0.01, 0.1 + 0.01 + 0.01};
    stage.step = 0;
    for (stage.round = 1; stage.round <= 3; stage.round++) {
        request_count = 0;
        update_rule_predict(&rule, &device, &stage, weights, predicted, 3);
        assert_near(requests[0].call.ahead.lr_sum, sums[stage.round - 1]);
    }
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
    /* The rate of the last update, though it is lower now; before the first update there is none. */
    request_count = 0;
    update_rule_predict(&rule, &device, &stage, weights, predicted, 2);
    stage.step = 4;
    update_rule_predict(&rule, &device, &stage, weights, predicted, 2);
    stage.step = stage.round = 1;
    update_rule_predict(&rule, &device, &stage, weights, predicted, 2);
    stage.done = 0;
    update_rule_predict(&rule, &device, &stage, weights, predicted, 2);
    static const double sums[] = {0.2, 0.02, 0.2, 0};
    for (int r = 0; r < 4; r++) assert_near(requests[r].call.ahead.lr_sum, sums[r]);
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
    struct update_span spans[] = {{0, 5, 1, 0.5}, {5, 3, 2, 0}};
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
    /* As the papers predict, too. */
    const struct update_rule paper = choose("adamw", "pipeoptim", true);
    request_count = 0;
    update_rule_predict(&paper, &device, &stage, weights, predicted, 3);
    assert_int_equal(request_count, 2);
    for (int r = 0; r < 2; r++) {
        assert_near(requests[r].call.ahead.lr_sum, 3 * spans[r].rate * 0.1);
        assert_near(requests[r].call.ahead.decay_product, 1);
    }
    unsigned excluded = 7;
    assert_ok(decay_exclusion_parse(NULL, &excluded, &test_error));
    assert_int_equal(excluded, 0);
    assert_ok(decay_exclusion_parse("norms,biases", &excluded, &test_error));
    assert_int_equal(excluded, WITHOUT_BIASES | WITHOUT_NORMS);
    assert_status(decay_exclusion_parse("norm", &excluded, &test_error), PS_USAGE, "did you mean 'norms'");
    assert_status(decay_exclusion_parse("norms,bias,norms", &excluded, &test_error), PS_USAGE,
                  "`decay_exclude`: 'bias' is not known; did you mean 'biases'?");
    assert_int_equal(excluded, WITHOUT_BIASES | WITHOUT_NORMS);
    assert_ok(decay_exclusion_parse("biases", &excluded, &test_error));
    assert_int_equal(excluded, WITHOUT_BIASES);
    assert_ok(decay_exclusion_parse("norms,", &excluded, &test_error));
    assert_int_equal(excluded, WITHOUT_NORMS);
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
    /* What is left of the last pattern are statistics, which are not trained. */
    assert_ok(ps_network_open("resnet,input=16,classes=4", &network, &test_error));
    assert_ok(update_groups_parse("*.weight:lr=1;*:lr=2", &rule, &test_error));
    assert_ok(update_groups_check(&rule, network->graph, &test_error));
    assert_ok(update_groups_parse("*.weight:lr=1;*.bias:lr=1;*:lr=2", &rule, &test_error));
    assert_status(update_groups_check(&rule, network->graph, &test_error), PS_USAGE,
                  "the trained parameters of '*' are all in groups before it");
    assert_ok(update_groups_parse("*.running_mean:lr=2", &rule, &test_error));
    assert_int_equal(update_groups_check(&rule, network->graph, &test_error), PS_USAGE);
    test_error = (struct ps_error){0};
    ps_network_destroy(network);
}

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

/* What the update takes, by whether it is in place and predicts; of several stretches the first takes it all. */
static void test_times(void **state) {
    (void)state;
    struct device device = {.type = &noting};
    float weights[COUNT], updated[COUNT], gradient[COUNT], predicted[COUNT], moment[3][COUNT];
    struct update_span spans[] = {{0, 5, 1, 0.5}, {5, 3, 2, 0}};
    struct update_state stage = {.count = COUNT, .moment = {moment[0], moment[1], moment[2]}, .done = 1, .round = 1};
    stage.times.time.update_s = 1;
    stage.times.time.update_out_of_place_s = 2;
    stage.times.time.update_predict_s = 3;
    stage.times.time.predict_s = 4;
    struct update_rule rule = choose("adamw", "pipeoptim", false), beside = choose("sgdm", "xpipe", false);
    for (int spread = 0; spread < 2; spread++) {
        request_count = 0;
        stage.spans = spread ? spans : NULL;
        stage.span_count = spread ? 2 : 0;
        update_rule_apply(&rule, &device, &stage, weights, weights, gradient, NULL, 0);
        update_rule_apply(&rule, &device, &stage, weights, updated, gradient, NULL, 0);
        update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 2);
        update_rule_predict(&rule, &device, &stage, weights, predicted, 2);
        assert_int_equal(request_count, 4 + 4 * spread);
        for (int r = 0; r < request_count; r++)
            assert_near(requests[r].seconds, r % (1 + spread) == 0 ? 1 + r / (1 + spread) : 0);
    }
    stage.span_count = request_count = 0;
    update_rule_apply(&beside, &device, &stage, weights, weights, gradient, predicted, 2);
    assert_int_equal(request_count, 3);
    for (int r = 0; r < 3; r++) assert_near(requests[r].seconds, r == 1 ? 3 : 0);
    /* A prediction of no update ahead takes as long; nothing is copied where nothing is computed. */
    request_count = 0;
    predicted[0] = 77;
    update_rule_predict(&rule, &device, &stage, weights, predicted, 0);
    update_rule_apply(&rule, &device, &stage, weights, weights, gradient, predicted, 0);
    assert_int_equal(request_count, 2);
    assert_near(requests[0].seconds, 4);
    assert_near(requests[0].call.ahead.lr_sum, 0);
    assert_near(requests[1].seconds, 3);
    assert_null(requests[1].call.predicted);
    assert_true(predicted[0] == 77);
}

/* Slots of which the first elements are f32 and the others bf16: a request for each, of the master in f32. */
static void test_narrow(void **state) {
    (void)state;
    struct device device = {.type = &counting};
    enum { WIDE = 5, BYTES = 4 * WIDE + 2 * (COUNT - WIDE) };
    float master[COUNT] = {0}, gradient[COUNT] = {0}, moment[2][COUNT] = {{0}};
    char slot[4 * COUNT], predicted[4 * COUNT];
    struct update_span spans[] = {{0, 3, 1, 0.5}, {3, 5, 2, 0.25}};
    struct update_state stage = {
        .count = COUNT, .moment = {moment[0], moment[1]}, .master = master, .wide = WIDE, .done = 1, .round = 1};
    struct update_rule rule = choose("adamw", "pipeoptim", false);
    static const struct {
        size_t first, count;
        double decay;
    } whole[] = {{0, 5, 0.5}, {5, 3, 0.5}}, spread[] = {{0, 3, 0.5}, {3, 2, 0.25}, {5, 3, 0.25}};
    for (int by_span = 0; by_span < 2; by_span++) {
        stage.spans = by_span ? spans : NULL;
        stage.span_count = by_span ? 2 : 0;
        request_count = 0;
        update_rule_apply(&rule, &device, &stage, slot, slot, gradient, predicted, 2);
        assert_int_equal(request_count, 2 + by_span);
        for (int r = 0; r < request_count; r++) {
            const struct optimizer_call *call = &requests[r].call;
            const size_t first = by_span ? spread[r].first : whole[r].first, at = first < WIDE ? 4 * first : 4 * WIDE;
            assert_int_equal(call->count, by_span ? spread[r].count : whole[r].count);
            assert_near(requests[r].settings.weight_decay, by_span ? spread[r].decay : whole[r].decay);
            assert_int_equal(call->type, first < WIDE ? TYPE_F32 : TYPE_BF16);
            assert_ptr_equal(call->weights, master + first);
            assert_ptr_equal(call->updated, master + first);
            assert_ptr_equal(call->gradient, gradient + first);
            assert_ptr_equal(call->moment[1], moment[1] + first);
            assert_ptr_equal(call->copy, slot + at);
            assert_ptr_equal(call->predicted, predicted + at);
        }
    }
    /* All of one type. */
    stage.span_count = 0;
    for (size_t wide = 0; wide <= COUNT; wide += COUNT) {
        request_count = 0;
        stage.wide = wide;
        update_rule_predict(&rule, &device, &stage, slot, predicted, 1);
        assert_int_equal(request_count, 1);
        assert_int_equal(requests[0].call.type, wide > 0 ? TYPE_F32 : TYPE_BF16);
        assert_int_equal(requests[0].call.count, COUNT);
        assert_ptr_equal(requests[0].call.weights, master);
    }
    /* No update ahead: the copy's bytes, and no more. */
    stage.wide = WIDE;
    for (int applies = 0; applies < 2; applies++) {
        memset(slot, 5, sizeof slot);
        memset(predicted, 9, sizeof predicted);
        request_count = 0;
        if (applies)
            update_rule_apply(&rule, &device, &stage, slot, slot, gradient, predicted, 0);
        else
            update_rule_predict(&rule, &device, &stage, slot, predicted, 0);
        assert_int_equal(request_count, applies ? 2 : 0);
        for (int b = 0; b < 4 * COUNT; b++) assert_int_equal(predicted[b], b < BYTES ? 5 : 9);
    }
    stage.master = NULL;
    memset(predicted, 9, sizeof predicted);
    update_rule_predict(&rule, &device, &stage, slot, predicted, 0);
    for (int b = 0; b < 4 * COUNT; b++) assert_int_equal(predicted[b], 5);
}

/* A parameter that the stage uses twice: its gradients are added up, unless other stages use it, too; it is clipped by itself,
 * to its own share. */
static void test_ties(void **state) {
    (void)state;
    struct device device = {.type = &counting}, waits = {.type = &noting};
    float weights[COUNT] = {0}, moment[COUNT] = {0};
    int64_t gradients[2][3] = {{2, 8, 12}, {5, 10}};
    struct stage_tie ties[] = {{.count = 2, .gradients = gradients[0], .uses = 3},
                               {.count = 1, .gradients = gradients[1], .uses = 2, .outside = true}};
    double shares[] = {0.25, 0.0625};
    struct stretch rest[3];
    struct update_state stage = {.count = COUNT,
                                 .moment = {moment},
                                 .round = 1,
                                 .share = 0.5,
                                 .ties = ties,
                                 .tie_count = 2,
                                 .tied_shares = shares,
                                 .rest = rest};
    struct update_rule rule = choose("sgdm", "sync", false);
    static const float given[14] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 20, 30, 40, 100, 200};
    for (int clips = 0; clips < 2; clips++) {
        float got[14], wanted[14];
        memcpy(got, given, sizeof got);
        memcpy(wanted, given, sizeof wanted);
        wanted[2] = 113, wanted[3] = 224;
        rule.clip = clips ? 2 : 0;
        request_count = 0;
        update_rule_apply(&rule, &device, &stage, weights, weights, got, NULL, 0);
        assert_int_equal(request_count, 1);
        const double tied = sqrt(113 * 113 + 224 * 224), own = sqrt(1 + 4 + 25 + 49 + 64);
        for (int i = 0; i < COUNT && clips; i++)
            wanted[i] *= (float)(2 * (i == 2 || i == 3 ? 0.5 / tied : i == 5 ? 0.25 / 6 : sqrt(0.5) / own));
        for (int i = 0; i < 14; i++) assert_within(got[i], wanted[i], 1e-5 * fabs(wanted[i]));
    }
    /* Nothing is computed. */
    float got[14];
    memcpy(got, given, sizeof got);
    request_count = 0;
    update_rule_apply(&rule, &waits, &stage, weights, weights, got, NULL, 0);
    assert_memory_equal(got, given, sizeof got);
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

/* Lines at equal distances over all elements from the first watched one on, in their type; of few elements all. */
static void test_watched_elements(void **state) {
    (void)state;
    enum { ALL = 5000, FIRST = 100 };
    static struct prediction_watch watch;
    static float newest[ALL], predicted[ALL], came[ALL];
    static uint16_t narrow[3][2 * FIRST + ALL];
    const struct random_key key = test_key(1);
    for (int i = 0; i < ALL; i++) {
        /* bf16 holds these. */
        newest[i] = (float)random_below(key, 3 * (uint64_t)i, 200);
        predicted[i] = (float)random_below(key, 3 * (uint64_t)i + 1, 200);
        came[i] = (float)random_below(key, 3 * (uint64_t)i + 2, 200);
    }
    float *const blocks[] = {newest, predicted, came};
    for (int b = 0; b < 3; b++) {
        memset(narrow[b], 0xff, sizeof narrow[b]);
        numbers_convert(ALL - FIRST, TYPE_BF16, narrow[b] + 2 * FIRST, TYPE_F32, blocks[b] + FIRST);
    }
    static const size_t counts[] = {
        1, WATCH_FLOATS - 1, WATCH_FLOATS, WATCH_FLOATS + 1, WATCH_FLOATS + 62, WATCH_FLOATS + 63, ALL - FIRST};
    for (int type = 0; type < 2; type++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const struct watched_weights of = {.first = FIRST, .count = FIRST + counts[c], .type = type ? TYPE_BF16 : TYPE_F32};
            const void *const at[] = {type ? (void *)narrow[0] : newest, type ? (void *)narrow[1] : predicted,
                                      type ? (void *)narrow[2] : came};
            double predicted_off = 0, newest_off = 0, size = 0;
            for (size_t i = 0, count = counts[c] < WATCH_FLOATS ? counts[c] : WATCH_FLOATS; i < count; i++) {
                const size_t apart = (counts[c] - WATCH_LINE) / (WATCH_LINES - 1);
                const size_t e = FIRST + (counts[c] <= WATCH_FLOATS ? i : i / WATCH_LINE * apart + i % WATCH_LINE);
                predicted_off += pow(predicted[e] - came[e], 2);
                newest_off += pow(newest[e] - came[e], 2);
                size += pow(came[e], 2);
            }
            watch = (struct prediction_watch){0};
            prediction_watch_note(&watch, NULL, &of, at[0], at[1], 0, 2); /* nothing has been learnt yet */
            assert_false(watch.pending);
            prediction_watch_note(&watch, NULL, &of, at[0], at[1], 1, 2);
            assert_true(watch.pending && watch.target == 3);
            prediction_watch_check(&watch, NULL, &of, at[2], 4);
            assert_true(watch.size == 0);
            prediction_watch_check(&watch, NULL, &of, at[2], 3);
            assert_true(watch.predicted_off == predicted_off && watch.newest_off == newest_off && watch.size == size);
        }
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
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_look_ahead),
        cmocka_unit_test(test_paper),
        cmocka_unit_test(test_adam_beside),
        cmocka_unit_test(test_plain_sgd),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_moment_names),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_watched_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
