/* What training can do beside training: top-5, label smoothing, clipping, decay exclusions, groups of parameters, prediction
 * errors, comparisons. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "support.h"
#include "training_support.h"
#include "within.h"

static struct training options_for(const char *model, int workers) {
    struct training options;
    training_init(&options);
    options.model = model;
    options.cluster.workers = workers;
    options.data = options.valid = "synthetic:images,samples=192";
    options.o.batch = 16;
    options.o.device = test_device("cpu");
    options.plan.micro_batches = 2;
    options.plan.optimizer = "sgdm";
    options.o.lr = 0.02;
    return options;
}

static struct ps_run *train(const struct training *options) {
    struct ps_run *run = NULL;
    assert_ok(training_run(options, &run, &test_error));
    return run;
}

static void test_top5(void **state) {
    (void)state;
    struct training options = options_for("lenet5,input=16", 1);
    struct ps_run *run = train(&options);
    struct ps_run_info info = ps_run_info(run);
    assert_true(info.valid_top5 > info.valid_accuracy && info.valid_top5 <= 1);
    assert_true(info.valid_top5 > 0.5); /* by chance */
    ps_run_destroy(run);
    options = options_for("lenet5,input=16,classes=5", 1);
    run = train(&options);
    assert_true(isnan(ps_run_info(run).valid_top5));
    ps_run_destroy(run);
}

struct told {
    int ends, trainings;
    double last;
};

static void tell(void *context, const char *what, double done, double total, const char *detail) {
    struct told *told = context;
    assert_true(done >= 0 && done <= total);
    told->trainings += done < total && strcmp(what, "training") == 0 && strstr(detail, "evaluating") != NULL;
    if (strcmp(what, "evaluating") != 0) return;
    assert_true(done >= told->last);
    told->last = done;
    told->ends += done == total;
}

/* One between the steps, and one at the end, which has an end of its own. */
static void test_evaluations_show_progress(void **state) {
    (void)state;
    struct told told = {0};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &told, .level = PS_LOG_ERROR, .progress = tell};
    struct training options = options_for("lenet5,input=16", 2);
    options.o.transport = "serial";
    options.o.epochs = 2;
    options.o.log = &sink;
    ps_run_destroy(train(&options));
    assert_int_equal(told.ends, 1);
    assert_true(told.last > 0);
    assert_true(told.trainings > 0);
}

/* With half of each label spread the training loss cannot be small, while evaluation takes the labels as they are. */
static void test_label_smoothing(void **state) {
    (void)state;
    struct training options = options_for("lenet5,input=16,classes=4", 1);
    options.o.epochs = 8;
    options.o.label_smoothing = 0.5;
    struct ps_run *run = train(&options);
    struct ps_run_info smooth = ps_run_info(run);
    const double least = -(0.625 * log(0.625) + 3 * 0.125 * log(0.125)); /* the entropy of a smoothed label */
    assert_true(smooth.loss >= least - 1e-4);
    assert_true(smooth.valid_loss < smooth.loss);
    ps_run_destroy(run);
    options.o.label_smoothing = 1;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`label_smoothing`: 1 is not");
}

/* Clipped to next to nothing, nothing is learnt; by a norm that is never reached, everything as without. */
static void test_clip(void **state) {
    (void)state;
    struct training options = options_for("lenet5,input=16,classes=4", 1);
    options.o.epochs = 6;
    struct ps_run *plain = train(&options);
    options.o.clip = 1e6;
    struct ps_run *wide = train(&options);
    assert_true(ps_run_info(plain).valid_loss == ps_run_info(wide).valid_loss);
    options.o.clip = 1e-9;
    struct ps_run *narrow = train(&options);
    assert_true(fabs(ps_run_info(narrow).valid_loss - log(4)) < 0.1);
    assert_true(ps_run_info(plain).valid_loss < ps_run_info(narrow).valid_loss - 0.05);
    ps_run_destroy(plain);
    ps_run_destroy(wide);
    ps_run_destroy(narrow);
}

/* Great decay that leaves biases and normalisations alone is not the same as one that takes all. */
static void test_decay_exclusion(void **state) {
    (void)state;
    struct training options = options_for("resnet,input=16,classes=4", 2);
    options.plan.method = "uniform"; /* the same cut each time, whatever is measured */
    options.plan.weights = "pipeoptim";
    options.o.weight_decay = 1;
    struct ps_run *all = train(&options);
    options.o.decay_exclude = "biases,norms";
    struct ps_run *some = train(&options);
    assert_true(ps_run_info(all).valid_loss != ps_run_info(some).valid_loss);
    ps_run_destroy(all);
    ps_run_destroy(some);
    options.o.weight_decay = 0;
    some = train(&options);
    options.o.decay_exclude = NULL;
    all = train(&options);
    assert_true(ps_run_info(all).valid_loss == ps_run_info(some).valid_loss);
    ps_run_destroy(all);
    ps_run_destroy(some);
}

/* The parameter's values before the first step of the training, and after it. */
static void read_step(const struct training *training, const char *name, size_t count, float *before, float *after) {
    struct training_objects objects;
    struct ps_trainer *trainer;
    assert_ok(training_open(training, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    assert_ok(ps_trainer_read_parameter(trainer, name, before, count, &test_error));
    assert_ok(ps_trainer_step(trainer, 1, &test_error));
    assert_ok(ps_trainer_read_parameter(trainer, name, after, count, &test_error));
    ps_trainer_destroy(trainer);
    training_close(&objects);
}

/* A step of groups with rates and decays of their own, from the gradient that a step without groups took; of bf16
 * the masters. */
static void test_groups(void **state) {
    (void)state;
    enum { MOST = 6 * 25 };
    static const struct {
        const char *name;
        size_t count;
        double lr, decay;
    } cases[] = {{"conv1.weight", 6 * 25, 0.2, 0.1},
                 {"conv1.bias", 6, 0.2, 0.1},
                 {"conv2.bias", 16, 0.02, 0},
                 {"fc2.bias", 84, 0.02, 0},
                 {"fc3.bias", 4, 0, 0.1}};
    static const char *const models[] = {"lenet5,input=16,classes=4", "lenet5,input=16,classes=4,precision=bf16",
                                         "lenet5,input=16,classes=4,precision=mixed"};
    enum { MODELS = sizeof models / sizeof *models, CASES = sizeof cases / sizeof *cases };
    float before[MOST], plain[MOST], grouped[MOST];
    for (int run = 0; run < MODELS * CASES; run++) {
        const int c = run % CASES;
        struct training options = options_for(models[run / CASES], 2);
        options.plan.method = "uniform";
        options.plan.optimizer = "sgd";
        options.plan.schedule = "1f1b";
        options.o.weight_decay = 0.1;
        read_step(&options, cases[c].name, cases[c].count, before, plain);
        options.o.groups = "conv1.*:lr=0.2;fc3.bias:lr=0;*.bias:weight-decay=0";
        read_step(&options, cases[c].name, cases[c].count, before, grouped);
        for (size_t i = 0; i < cases[c].count; i++) {
            const double old = (double)before[i], gradient = (old - (double)plain[i]) / 0.02 - 0.1 * old;
            assert_within(grouped[i], old - cases[c].lr * (gradient + cases[c].decay * old), 2e-6);
        }
    }
}

/* Predicted weights are nearer to those that come than the newest are; the last worker predicts nothing. */
static void test_prediction_error(void **state) {
    (void)state;
    struct training options = options_for("lenet5,input=16,classes=4", 3);
    options.plan.method = "uniform"; /* every stage has parameters */
    options.plan.schedule = "1f1b-async";
    options.plan.weights = "pipeoptim";
    options.plan.micro_batches = 1;
    options.o.epochs = 2;
    struct ps_run *run = train(&options);
    for (int w = 0; w < 2; w++) {
        struct ps_run_worker worker = ps_run_worker(run, w);
        print_message("worker %d: predicted %.3g, newest %.3g\n", w, worker.prediction_error, worker.newest_error);
        assert_true(worker.prediction_error > 0 && worker.prediction_error < worker.newest_error);
        assert_true(worker.newest_error < 0.2);
    }
    assert_true(isnan(ps_run_worker(run, 2).prediction_error));
    ps_run_destroy(run);
    options.plan.weights = "latest";
    run = train(&options);
    assert_true(isnan(ps_run_worker(run, 0).prediction_error));
    ps_run_destroy(run);
}

static void test_comparison(void **state) {
    (void)state;
    struct training train_options = options_for("lenet5,input=16,classes=4", 0);
    train_options.o.epochs = 3;
    static const char *const weights[] = {"sync", "latest"};
    const int workers = 2;
    struct ps_compare_options options = {
        .struct_size = sizeof options, .weights = weights, .weights_count = 2, .workers = &workers, .worker_count = 1};
    struct ps_plan_options planning = train_options.plan;
    planning.method = "uniform";
    options.planning = &planning;
    struct ps_comparison *comparison = NULL;
    assert_ok(training_compare(&options, &train_options, &comparison, &test_error));
    assert_int_equal(ps_comparison_count(comparison), 2);
    double least = 1;
    for (int r = 0; r < 2; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_true(row.trained);
        assert_int_equal(ps_run_point_count(row.run), 3);
        double best = 0;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ps_run_point(row.run, i).epoch, i + 1);
            best = fmax(best, ps_run_point(row.run, i).valid_accuracy);
        }
        assert_true(best == row.best_valid_accuracy && ps_run_point(row.run, row.best_epoch - 1).valid_accuracy == best);
        assert_true(ps_run_point(row.run, 2).valid_accuracy == ps_run_info(row.run).valid_accuracy);
        least = fmin(least, best);
    }
    for (int r = 0; r < 2; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_true(row.metric == PS_METRIC_ACCURACY && row.target == least && row.best == row.best_valid_accuracy);
        assert_true(row.target_s == ps_run_point(row.run, row.target_epoch - 1).training_s);
        assert_true(ps_run_point(row.run, row.target_epoch - 1).valid_accuracy >= least);
        assert_true(row.target_epoch == 1 || ps_run_point(row.run, row.target_epoch - 2).valid_accuracy < least);
    }
    char *table = ps_comparison_table(comparison), *json = ps_comparison_json(comparison);
    assert_non_null(strstr(table, "to target"));
    assert_non_null(strstr(table, "epoch 3"));
    for (int w = 0; w < workers; w++) {
        char bytes[32];
        assert_non_null(
            strstr(table, text_bytes(ps_run_worker(ps_comparison_row(comparison, 1).run, w).measured_bytes, bytes)));
    }
    assert_non_null(strstr(json, "best_valid_accuracy"));
    free(table);
    free(json);
    ps_comparison_destroy(comparison);
    options.target = 1.1;
    assert_status(training_compare(&options, &train_options, &comparison, &test_error), PS_USAGE,
                  "`target`: 1.1 is no accuracy; those are 0 to 1");
    for (int i = 0; i < 2; i++) {
        options.target = i ? (double)NAN : -1;
        assert_status(training_compare(&options, &train_options, &comparison, &test_error), PS_USAGE, "is not from 0 to 1e9");
    }
    options.target = 1;
    assert_ok(training_compare(&options, &train_options, &comparison, &test_error));
    struct ps_comparison_row row = ps_comparison_row(comparison, 0);
    assert_true(isnan(row.target_s) == (row.best < 1) && (row.target_epoch == 0) == (row.best < 1));
    ps_comparison_destroy(comparison);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluations_show_progress), cmocka_unit_test(test_top5),
        cmocka_unit_test(test_label_smoothing),           cmocka_unit_test(test_clip),
        cmocka_unit_test(test_decay_exclusion),           cmocka_unit_test(test_groups),
        cmocka_unit_test(test_prediction_error),          cmocka_unit_test(test_comparison),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
