/* Training from the outside: what ps_train leaves behind, what it reports, and what it refuses before anything runs. */
#include <jansson.h>
#include <limits.h>

#include "run_support.h"
#include "train/job_plan.h"
#include "train/run_directory.h"

/* Writes the case's plan as NAME and returns options for it. */
static struct training prepare(struct run_case wanted, const char *name, char plan_path[4096]) {
    wanted = run_case_complete(wanted);
    struct ps_plan *plan = run_case_plan(&wanted);
    assert_ok(ps_plan_write(plan, file_join(plan_path, test_directory, name), &test_error));
    ps_plan_destroy(plan);
    return run_case_options(&wanted, plan_path, NULL);
}

static json_t *load(const char *path) {
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) print_message("%s: %s\n", path, error.text);
    assert_non_null(root);
    return root;
}

static double number(const json_t *object, const char *field) {
    const json_t *value = json_object_get(object, field);
    if (!json_is_number(value)) print_message("no number %s\n", field);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static const struct run_case learner = {.workers = 3,
                                        .micro_batch = 8,
                                        .micro_batches = 2,
                                        .steps = 30,
                                        .evaluate_every = 8,
                                        .data = "synthetic:images,samples=256",
                                        .valid = "synthetic:images,samples=101"};

static void check_log(const char *path, int steps, double *valid_loss) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    double last_step = 0, last_elapsed = 0;
    int evaluations = 0;
    while (fgets(line, sizeof line, file)) {
        json_t *entry = json_loads(line, 0, NULL);
        assert_non_null(entry);
        assert_true(number(entry, "step") > last_step && number(entry, "elapsed_s") >= last_elapsed);
        last_step = number(entry, "step");
        last_elapsed = number(entry, "elapsed_s");
        assert_true(number(entry, "loss") > 0 && number(entry, "samples_per_s") > 0 && number(entry, "lr") > 0);
        assert_true(number(entry, "accuracy") >= 0 && number(entry, "accuracy") <= 1);
        assert_int_equal((int)number(entry, "epoch"), ((int)last_step - 1) / 16 + 1);
        if (json_object_get(entry, "valid_loss")) {
            evaluations++;
            *valid_loss = number(entry, "valid_loss");
            /* A segment's end; there is more than training. */
            assert_true(number(entry, "training_s") > 0 && number(entry, "training_s") <= last_elapsed);
        }
        json_decref(entry);
    }
    fclose(file);
    assert_int_equal((int)last_step, steps);
    /* Segments of 8, 8 (the epoch's end), 8 and 6. */
    assert_int_equal(evaluations, 4);
}

/* The optimizer and rate of a run's configuration. */
static void check_rule(const char *model, const char *data, const char *weights, const char *optimizer, const char *wanted,
                       double lr) {
    static int number_of;
    char out[4096], path[4096], name[32];
    struct training options;
    struct ps_run *run;
    training_init(&options);
    options.model = model;
    options.data = data;
    options.cluster.workers = 1;
    options.plan.weights = weights;
    options.plan.optimizer = optimizer;
    options.o.batch = 4;
    options.o.steps = 1;
    snprintf(name, sizeof name, "rule-%d", number_of++);
    options.o.out = file_join(out, test_directory, name);
    assert_ok(training_run(&options, &run, &test_error));
    json_t *config = load(file_join(path, out, "config.json"));
    assert_string_equal(json_string_value(json_object_get(config, "optimizer")), wanted);
    assert_true(number(config, "lr") == lr);
    json_decref(config);
    ps_run_destroy(run);
}

/* Networks that do not learn with the usual optimizer have one of their own, with its rate, where nothing else is said. */
static void test_usual_optimizers(void **state) {
    (void)state;
    static const char vgg[] = "vgg16,shrink=64,classes=4", images[] = "synthetic:images,samples=8";
    check_rule("lenet5,input=16,classes=4", images, NULL, NULL, "sgdm", 0.01);
    check_rule(vgg, images, NULL, NULL, "adam", 3e-4);
    check_rule(vgg, images, NULL, "sgdm", "sgdm", 0.01);
    check_rule(vgg, images, "spectrain", NULL, "sgdm", 0.01);
}

/* Everything that a run directory holds. */
static void test_run_directory(void **state) {
    (void)state;
    char plan_path[4096], out[4096], path[4096];
    struct training options = prepare(learner, "directory.json", plan_path);
    options.o.out = file_join(out, test_directory, "run");
    options.o.trace = true;
    struct ps_run *run;
    assert_ok(training_run(&options, &run, &test_error));
    struct ps_run_info info = ps_run_info(run);
    assert_true(info.steps == 30 && info.epochs == 1 && info.workers == 3);
    double valid_loss = 0;
    check_log(file_join(path, out, "log.jsonl"), 30, &valid_loss);
    assert_true(fabs(valid_loss - info.valid_loss) < 1e-6);

    json_t *summary = load(file_join(path, out, "summary.json"));
    assert_true(number(summary, "valid_accuracy") == info.valid_accuracy && number(summary, "step") == 30);
    assert_int_equal(json_array_size(json_object_get(summary, "workers")), 3);
    assert_true(number(summary, "process_peak_bytes") > 0);
    assert_true(number(summary, "process_peak_bytes") == (double)ps_run_process(run, 0).peak_bytes);
    json_decref(summary);
    json_t *config = load(file_join(path, out, "config.json"));
    assert_string_equal(json_string_value(json_object_get(config, "data")), learner.data);
    assert_true(number(config, "lr") == 0.05 && number(config, "momentum") == 0.9);
    json_decref(config);
    json_decref(load(file_join(path, out, "trace.json")));
    assert_true(file_exists(file_join(path, out, "timeline.svg")) && file_exists(file_join(path, out, "plan.json")));
    char *table = ps_run_table(run), *json = ps_run_json(run);
    assert_true(strstr(table, "memory of worker 2") && strstr(json, "penstock-summary"));
    assert_true(strstr(table, "training, last epoch") && strstr(table, "\nvalidation "));
    free(table);
    free(json);
    ps_run_destroy(run);
    /* What was trained is not trained over. */
    assert_status(training_run(&options, &run, &test_error), PS_USAGE,
                  "holds a run already (config.json)\nchoose another directory, or remove this one");
}

/* The checkpoint holds the weights that training ended with; evaluation, and evaluation of the export, agree with the run's. */
static void test_weights_come_back(void **state) {
    (void)state;
    char made[4096], run_dir[4096], path[4096];
    struct ps_run *run;
    run_case_train(learner, made, &run);
    file_join(run_dir, made, "run");
    struct trained saved = trained_read(run_case_complete(learner).model, run_dir), trained = run_case_weights(learner);
    assert_true(trained_equal(&saved, &trained));
    trained_free(&saved);
    trained_free(&trained);

    struct evaluating options = {.run = run_dir, .data = learner.valid, .device = test_device("reference"), .batch = 10};
    struct ps_evaluation by_run, by_file;
    assert_ok(evaluating_run(&options, &by_run, &test_error));
    assert_int_equal(by_run.samples, 101);
    assert_true(fabs(by_run.loss - ps_run_info(run).valid_loss) < 1e-5);
    assert_true(by_run.accuracy == ps_run_info(run).valid_accuracy);
    assert_ok(ps_export(run_dir, "safetensors", file_join(path, made, "all.safetensors"), &test_error));
    options = (struct evaluating){
        .weights = path, .model = run_case_complete(learner).model, .data = learner.valid, .device = "reference", .batch = 10};
    assert_ok(evaluating_run(&options, &by_file, &test_error));
    assert_true(by_file.loss == by_run.loss && by_file.accuracy == by_run.accuracy);
    options.model = "lenet5,input=16,classes=5";
    options.data = "synthetic:images,samples=10";
    assert_status(evaluating_run(&options, &by_file, &test_error), PS_BAD_INPUT,
                  "'fc3.weight': its values have shape 4x84 where the network has 5x84");
    assert_status(ps_export(run_dir, "onx", path, &test_error), PS_USAGE, "`format`: 'onx' is not known");
    ps_run_destroy(run);
    test_directory_remove(made);
}

/* Profiled, planned, trained: what was planned is taken, to the byte, and there is a prediction. */
static void test_model_to_run(void **state) {
    (void)state;
    static const char *const policies[] = {"stash", "xpipe", "sync"};
    for (size_t p = 0; p < 3; p++) {
        if (!test_takes(p, 3)) continue;
        struct training options;
        training_init(&options);
        options.model = "resnet,input=8,classes=4";
        options.cluster.workers = options.cluster.cores = 3;
        options.plan.weights = policies[p];
        options.plan.micro_batches = 2;
        options.plan.recompute = p == 1;
        options.o.batch = 8;
        options.o.steps = 12;
        options.data = "synthetic:images,samples=128";
        options.o.device = test_device("reference");
        struct ps_run *run;
        assert_ok(training_run(&options, &run, &test_error));
        assert_true(ps_run_info(run).predicted_samples_per_s > 0 && ps_run_info(run).samples_per_s > 0);
        int busy = 0;
        for (int w = 0; w < 3; w++) {
            struct ps_run_worker worker = ps_run_worker(run, w);
            /* Where a cut costs more than it gains, by times measured here, the plan leaves workers idle. */
            assert_int_equal(worker.measured_bytes > 0, worker.busy_s > 0);
            assert_int_equal(worker.planned_bytes, worker.measured_bytes);
            busy += worker.busy_s > 0;
        }
        assert_true(busy > 0);
        ps_run_destroy(run);
    }
}

/* A limit below what a worker needs is refused before anything runs, with a table; at the need it is accepted. */
static void test_memory_limit(void **state) {
    (void)state;
    char plan_path[4096];
    struct training options = prepare((struct run_case){.workers = 2, .steps = 2}, "memory.json", plan_path);
    struct ps_run *run;
    assert_ok(training_run(&options, &run, &test_error));
    int64_t most = 0;
    for (int w = 0; w < 2; w++)
        if (ps_run_worker(run, w).measured_bytes > most) most = ps_run_worker(run, w).measured_bytes;
    ps_run_destroy(run);
    options.cluster.memory_bytes = most;
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    options.cluster.memory_bytes = most - 1;
    char out[4096];
    options.o.out = file_join(out, test_directory, "memory");
    assert_status(training_run(&options, &run, &test_error), PS_NO_PLAN, "more than its limit");
    assert_status(training_run(&options, &run, &test_error), PS_NO_PLAN, "workspace");
    assert_false(file_exists(out));
}

/* An error of one worker ends the run at once, on either transport; the step is named. */
static void test_loss_not_a_number(void **state) {
    (void)state;
    char plan_path[4096], out[4096], path[4096];
    for (int t = 0; t < 2; t++) {
        struct training options = prepare((struct run_case){.workers = 3,
                                                            .schedule = "1f1b-async",
                                                            .weights = "latest",
                                                            .steps = 200,
                                                            .transport = t ? "serial" : "threads",
                                                            .lr = 1e5},
                                          "nan.json", plan_path);
        options.o.out = file_join(out, test_directory, t ? "nan_serial" : "nan_threads");
        struct ps_run *run;
        struct ps_error error;
        int step = 0, said = 0;
        assert_int_equal(training_run(&options, &run, &error), PS_FAILED);
        const bool nan = strstr(error.message, "not a number") != NULL;
        assert_int_equal(sscanf(error.message, nan ? "step %d: the loss became not a number%n" : "step %d: the loss became infinite%n",
                                &step, &said),
                         1);
        assert_true(step > 0 && step < 200 && said > 0 && error.message[said] == '\0');
        assert_string_equal(error.hint, "a smaller learning rate (`lr`) or a warm-up (`warmup_steps`) may help");
        assert_false(file_exists(file_join(path, out, "summary.json")));
    }
}

static void refuse(struct training options, enum ps_status status, const char *message) {
    struct ps_run *run;
    assert_status(training_run(&options, &run, &test_error), status, message);
}

static void test_refusals_by_plan(void **state) {
    (void)state;
    char plan_path[4096];
    const struct run_case work = {.workers = 2, .micro_batch = 4, .micro_batches = 3};
    const struct training good = prepare(work, "plan.json", plan_path);
    struct training options = good;
    options.o.batch = 16;
    refuse(options, PS_USAGE, "has a mini-batch of 12 samples (3 micro-batches of 4), not 16");
    options = good, options.plan.schedule = "gpipe";
    refuse(options, PS_USAGE, "`schedule`: cannot be chosen beside a plan");
    options = good, options.model = "lenet5,input=20";
    refuse(options, PS_USAGE, "the plan is for the network lenet5,input=16,classes=4");
    options = good, options.cluster.workers = 3;
    refuse(options, PS_USAGE, "the plan is for 2 workers, not 3");
    options = good, options.data = NULL;
    refuse(options, PS_USAGE, "`data`");
    options = good, options.data = "synthetic:images,samples=11";
    refuse(options, PS_USAGE, "has 11 samples, fewer than a mini-batch of 12");
    options = good, options.data = "synthetic:images,channels=3";
    refuse(options, PS_USAGE, "");
    options = good, options.o.device = "cpuu";
    refuse(options, PS_USAGE, "did you mean 'cpu'");
    options = good, options.o.device = "clock";
    refuse(options, PS_USAGE, "give one as `profile`");
    options = good, options.o.transport = "process";
    refuse(options, PS_USAGE, "`transport`: 'process' is not known");
    options = good, options.o.lr_schedule = "steps:1:0.1";
    refuse(options, PS_USAGE, "did you mean 'step'");
    options = good, options.o.beta1 = 0.9;
    refuse(options, PS_USAGE, "`beta1`: optimizer sgdm has no such setting");
    options = good, options.plan.optimizer = "adam", options.o.momentum = 0.5;
    refuse(options, PS_USAGE, "`momentum`: optimizer adam has no such setting");
    options = good, options.o.trace = true;
    refuse(options, PS_USAGE, "`trace`");
    options = good, options.plan_path = "no/such/plan.json";
    refuse(options, PS_BAD_INPUT, "no/such/plan.json");
    options = good, options.plan_path = NULL;
    refuse(options, PS_USAGE, "nothing to train");
    char place[4096];
    test_file_write(file_join(place, test_directory, "file"), "", 0);
    options = good, options.o.out = place;
    refuse(options, PS_IO, "file");
}

static void test_refusals_by_model(void **state) {
    (void)state;
    struct training good;
    training_init(&good);
    good.model = "lenet5,input=16,classes=4";
    good.cluster.workers = 2;
    good.data = "synthetic:images";
    good.o.device = "reference";
    good.o.batch = 60;
    struct training options = good;
    options.plan.micro_batches = 7;
    refuse(options, PS_USAGE, "7 does not divide the mini-batch of 60 samples; 6 and 10 do");
    options = good, options.plan.micro_batches = 61;
    refuse(options, PS_USAGE, "more than the 60 samples");
    options = good, options.plan.micro_batch = 9;
    refuse(options, PS_USAGE, "9 does not divide the mini-batch of 60 samples; 6 and 10 do");
    options = good, options.plan.micro_batch = -1;
    refuse(options, PS_USAGE, "`micro_batch`: -1 is negative");
    options = good, options.plan.micro_batch = 6, options.plan.micro_batches = 6;
    refuse(options, PS_USAGE, "60 is not 6 micro-batches of 6 samples");
    options = good, options.model = "lenet6";
    refuse(options, PS_USAGE, "did you mean 'lenet5'");
    options = good, options.cluster.workers = 100, options.plan.method = "uniform";
    refuse(options, PS_NO_PLAN, "100 workers");
    options = good, options.cluster.memory_bytes = 1000;
    refuse(options, PS_NO_PLAN, "");
    options = good, options.plan.weights = "spectrain", options.plan.optimizer = "adam";
    refuse(options, PS_USAGE, "spectrain");
}

/* What a plan says cannot be said beside it. */
static void test_refusals_beside_plan(void **state) {
    (void)state;
    const struct {
        const char *name;
        struct ps_plan_options plan;
    } cases[] = {{"method", {.method = "uniform"}},
                 {"schedule", {.schedule = "1f1b"}},
                 {"weights", {.weights = "sync"}},
                 {"micro_batch", {.micro_batch = 4}},
                 {"micro_batches", {.micro_batches = 1}},
                 {"recompute", {.recompute = true}},
                 {"paper_prediction", {.paper_prediction = true}},
                 {"replicate", {.replicate = true}},
                 {"paper_cost", {.paper_cost = true}},
                 {"wire", {.wire = "int8"}}};
    char plan_path[4096], message[128];
    struct training options = prepare((struct run_case){.workers = 2}, "beside.json", plan_path);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        options.plan = cases[c].plan;
        options.plan.struct_size = sizeof options.plan;
        snprintf(message, sizeof message, "`%s`: cannot be chosen beside a plan, which says it", cases[c].name);
        refuse(options, PS_USAGE, message);
    }
}

#define REFUSED(field, value, message)                                                                                         \
    do {                                                                                                                       \
        struct training options = good;                                                                                        \
        options.field = value;                                                                                                 \
        refuse(options, PS_USAGE, message);                                                                                    \
    } while (0)

/* Numbers beyond what they may be, and what needs something else that is not there. */
static void test_refusals_of_options(void **state) {
    (void)state;
    char plan_path[4096];
    const struct training good =
        prepare((struct run_case){.workers = 2, .replicas = {2}, .micro_batches = 2}, "options.json", plan_path);
    REFUSED(o.batch, -1, "`batch`: -1 is not from 1 to 16777216");
    REFUSED(o.batch, (1 << 24) + 1, "`batch`: 16777217 is not from 1 to 16777216");
    REFUSED(o.batch, 1 << 24, "`batch`: the plan has a mini-batch of 8 samples (2 micro-batches of 4), not 16777216");
    REFUSED(o.steps, -1, "`steps`: must not be negative");
    REFUSED(o.epochs, -1, "`epochs`: must not be negative");
    REFUSED(o.clip, -0.5, "`clip`: -0.5 is less than 0");
    REFUSED(o.threads, -1, "`threads`: -1 is less than 1");
    REFUSED(o.keep_checkpoints, -1, "`keep_checkpoints`: -1 is negative");
    REFUSED(o.evaluate_every, -2, "`evaluate_every`: -2 is negative");
    REFUSED(o.warmup_steps, -2, "`warmup_steps`: -2 is negative");
    REFUSED(o.lr_per_epoch, -2, "`lr_per_epoch`: -2 is negative");
    REFUSED(o.emulate, -2, "`emulate`: -2 is negative");
    REFUSED(o.keep_best, -2, "`keep_best`: -2 is negative");
    REFUSED(o.patience, -2, "`patience`: -2 is negative");
    REFUSED(o.out, "", "`out`: it is empty");
    REFUSED(o.valid_bleu, -1, "`valid_bleu`: -1 is negative");
    REFUSED(o.lr_per_epoch, 9, "`lr_per_epoch`: 9 is neither 0 nor 1");
    REFUSED(o.emulate, 7, "`emulate`: 7 is neither 0 nor 1");
    REFUSED(o.keep_best, 2, "`keep_best`: 2 is neither 0 nor 1");
    REFUSED(o.checkpoint_minutes, -3, "`checkpoint_minutes`: -3 is not from 0 to 1e6");
    REFUSED(o.checkpoint_minutes, INFINITY, "`checkpoint_minutes`: inf is not from 0 to 1e6");
    REFUSED(o.label_smoothing, 1, "`label_smoothing`: 1 is not from 0 and below 1");
    REFUSED(o.label_smoothing, -0.25, "`label_smoothing`: -0.25 is not from 0 and below 1");
    REFUSED(o.tensorboard, true, "`tensorboard`: needs a run directory (`out`) to write to");
    REFUSED(o.trace, true, "`trace`: needs a run directory (`out`) to write to");
    REFUSED(o.keep_best, 1, "`keep_best`: needs a run directory (`out`) to write to");
    REFUSED(o.checkpoint_every, 1, "`checkpoint_every`: needs a run directory (`out`) to write to");
    REFUSED(o.checkpoint_minutes, 0.5, "`checkpoint_minutes`: needs a run directory (`out`) to write to");
    REFUSED(o.keep_checkpoints, 1, "`keep_checkpoints`: needs a run directory (`out`) to write to");
    REFUSED(o.lengths, "2,3", "`lengths`: lenet5,input=16,classes=4 translates nothing: its samples have no source and target");
    REFUSED(o.valid_bleu, 1, "`valid_bleu`: needs `valid` with pairs of sentences");
    REFUSED(o.patience, 1, "`patience`: there is nothing to evaluate on; give `valid`");
    REFUSED(o.best_by, "loss", "`best_by`: there is nothing to evaluate on; give `valid`");
    REFUSED(o.emulate, 1, "`emulate`: the sum over the 2 replicas of stage 0 cannot be emulated");
}

static void test_refusals_of_evaluations(void **state) {
    (void)state;
    char plan_path[4096];
    struct training good = prepare((struct run_case){.workers = 2, .micro_batches = 2}, "evaluations.json", plan_path);
    good.valid = "synthetic:images,samples=8";
    REFUSED(o.valid_bleu, 1, "`valid_bleu`: synthetic:images,samples=8 are no pairs of sentences");
    REFUSED(o.best_by, "acuracy", "`best_by`: 'acuracy' is not known");
    REFUSED(o.best_by, "perplexity", "`best_by`: perplexity is not known of this run's evaluations");
    REFUSED(o.best_by, "bleu", "`best_by`: bleu is not known of this run's evaluations; `valid_bleu` counts it");
    good.o.emulate = 1;
    REFUSED(o.transport, "serial", "`emulate`: transport serial runs all workers in one thread; threads and mpi can emulate");
    REFUSED(cluster.no_overlap, true, "`emulate`: transfers run beside computation and begin when it is over");
    REFUSED(cluster.streaming, true, "`emulate`: transfers run beside computation and begin when it is over");
    good.o.emulate = good.o.steps = 0;
    /* 8 steps in an epoch */
    REFUSED(o.epochs, INT_MAX / 8 + 1, "`epochs`: 2147483648 steps are more than a run can have");
}

static void test_cut_batch(void **state) {
    (void)state;
    static const struct {
        int batch, usual, least, count, size, want_count, want_size;
    } cases[] = {
        {64, 8, 1, 0, 0, 8, 8}, {60, 8, 1, 0, 0, 6, 10}, {7, 8, 1, 0, 0, 7, 1},
        {64, 1, 5, 0, 0, 8, 8}, {64, 4, 1, 2, 0, 2, 32}, {64, 4, 1, 0, 4, 16, 4},
        {12, 4, 1, 3, 4, 3, 4}, {13, 4, 1, 0, 0, 1, 13}, {13, 4, 4, 0, 0, 13, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = cases[i].count, size = cases[i].size;
        assert_ok(job_cut_batch(cases[i].batch, cases[i].usual, cases[i].least, &count, &size, &test_error));
        assert_int_equal(count, cases[i].want_count);
        assert_int_equal(size, cases[i].want_size);
    }
}

static void test_evaluation_refusals(void **state) {
    (void)state;
    struct ps_evaluation evaluation;
    struct evaluating options = {.data = "synthetic:images"};
    assert_status(evaluating_run(&options, &evaluation, &test_error), PS_USAGE, "one of `run` and `network`");
    options = (struct evaluating){.weights = "no/such", .model = "lenet5", .data = "synthetic:images"};
    assert_status(evaluating_run(&options, &evaluation, &test_error), PS_BAD_INPUT, "no/such");
    options = (struct evaluating){.run = "no/such/run", .data = "synthetic:images"};
    assert_status(evaluating_run(&options, &evaluation, &test_error), PS_BAD_INPUT, "no/such/run");
    assert_status(ps_export(test_directory, "safetensors", "x", &test_error), PS_NO_CHECKPOINT, "holds no checkpoint");
}

/* The synthetic classes can be learnt, and are. */
static void test_learns(void **state) {
    (void)state;
    char plan_path[4096];
    struct training options = prepare((struct run_case){.workers = 2,
                                                        .schedule = "1f1b-async",
                                                        .weights = "pipeoptim",
                                                        .optimizer = "adam",
                                                        .lr = 2e-3,
                                                        .micro_batch = 16,
                                                        .steps = test_slow() ? 2 : 150,
                                                        .device = "cpu",
                                                        .data = "synthetic:images,samples=2048",
                                                        .valid = "synthetic:images,samples=256"},
                                      "learns.json", plan_path);
    struct ps_run *run;
    assert_ok(training_run(&options, &run, &test_error));
    if (ps_run_info(run).valid_accuracy < 0.8) print_message("accuracy %g\n", ps_run_info(run).valid_accuracy);
    assert_true(test_slow() || ps_run_info(run).valid_accuracy >= 0.8);
    ps_run_destroy(run);
}

/* ------------------------------------------------------------------ several evaluate */

struct told {
    int lines, ends;
    double last;
    char what[32];
};

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    (void)level, (void)text;
    ((struct told *)context)->lines++;
}

/* From 0 to the end, which is said once. */
static void keep_progress(void *context, const char *what, double done, double total, const char *detail) {
    struct told *told = context;
    if (strcmp(what, "evaluating") != 0 && strcmp(what, "predicting") != 0) return;
    assert_true(strcmp(what, told->what) == 0 ? done >= told->last : done == 0 || strcmp(what, "predicting") == 0);
    assert_true(total > 0 && done <= total);
    assert_string_equal(detail, "");
    snprintf(told->what, sizeof told->what, "%s", what);
    told->last = done;
    told->ends += done >= total;
}

/* So many workers come to what one does; they do as they are told, and what they cannot do is refused. */
static void test_evaluated_together(void **state) {
    (void)state;
    char made[4096], run_dir[4096], path[4096];
    struct ps_evaluation alone, together;
    struct ps_evaluate_options options;
    struct ps_dataset *data;
    struct ps_network *network;
    struct told told = {0};
    const struct ps_log_sink log = {.struct_size = sizeof log, .context = &told, .line = keep_line, .progress = keep_progress};
    run_case_train(learner, made, NULL);
    assert_ok(ps_dataset_open(learner.valid, NULL, &data, &test_error));
    assert_ok(ps_network_open("lenet5,input=16,classes=4", &network, &test_error));
    ps_evaluate_options_init(&options);
    options.run = file_join(run_dir, made, "run");
    options.data = data;
    options.device = test_device("reference");
    options.batch = 8;
    for (int c = 0; c < 2; c++) {
        options.checkpoint = c == 0 ? NULL : "24";
        options.workers = 0;
        options.log = NULL;
        assert_ok(ps_evaluate(&options, &alone, &test_error));
        options.log = &log;
        for (options.workers = 2; options.workers <= 3; options.workers++) {
            told = (struct told){0};
            assert_ok(ps_evaluate(&options, &together, &test_error));
            assert_true(together.loss == alone.loss && together.accuracy == alone.accuracy && together.samples == 101);
            assert_string_equal(told.what, "evaluating");
            assert_int_equal(told.ends, 1);
            assert_int_equal(told.lines > 0, options.workers == 2); /* which the run was not planned for */
        }
    }
    const struct ps_evaluate_options good = options;
    static const struct {
        const char *device, *transport, *checkpoint, *translations, *part;
        int beam;
        bool no_run, no_data, network;
        enum ps_status status;
    } cases[] = {
        {.device = "cpuu", .part = "did you mean 'cpu'", .status = PS_USAGE},
        {.device = "clock", .part = "`device`: clock", .status = PS_USAGE},
        {.transport = "process", .part = "`transport`: 'process' is not known", .status = PS_USAGE},
        {.checkpoint = "7", .part = "`checkpoint`: ", .status = PS_NO_CHECKPOINT},
        {.translations = "file", .part = "`translations`: one worker translates, not several", .status = PS_USAGE},
        {.beam = 2, .part = "`beam`: one worker translates, not several", .status = PS_USAGE},
        {.beam = 1, .part = "`beam`: one worker translates, not several", .status = PS_USAGE},
        {.no_run = true, .part = "`workers`: several evaluate a `run`, by its plan", .status = PS_USAGE},
        {.no_data = true, .part = "`data`: missing", .status = PS_USAGE},
        {.network = true, .part = "`network`: cannot be given with `run`, which determines it", .status = PS_USAGE},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        options = good;
        options.workers = 2;
        if (cases[c].device) options.device = cases[c].device;
        if (cases[c].transport) options.transport = cases[c].transport;
        if (cases[c].checkpoint) options.checkpoint = cases[c].checkpoint;
        options.translations = cases[c].translations;
        options.beam = cases[c].beam;
        if (cases[c].no_run) options.run = NULL;
        if (cases[c].no_data) options.data = NULL;
        if (cases[c].network) options.network = network;
        assert_status(ps_evaluate(&options, &together, &test_error), cases[c].status, cases[c].part);
    }
    /* One worker that a transport is said for is none that works alone. */
    options = good;
    options.workers = 0;
    options.transport = "serial";
    told = (struct told){0};
    assert_ok(ps_evaluate(&options, &together, &test_error));
    assert_true(together.loss == alone.loss);
    assert_string_equal(told.what, "evaluating");

    struct ps_predict_options predicting = {.struct_size = sizeof predicting,
                                            .run = run_dir,
                                            .data = data,
                                            .device = "reference",
                                            .path = file_join(path, made, "predicted.csv"),
                                            .log = &log,
                                            .workers = 2};
    told = (struct told){0};
    assert_ok(ps_predict(&predicting, &test_error));
    assert_string_equal(told.what, "predicting");
    assert_int_equal(told.ends, 1);
    ps_network_destroy(network);
    ps_dataset_destroy(data);
    test_directory_remove(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usual_optimizers),
        cmocka_unit_test(test_run_directory),
        cmocka_unit_test(test_weights_come_back),
        cmocka_unit_test(test_model_to_run),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_loss_not_a_number),
        cmocka_unit_test(test_refusals_by_plan),
        cmocka_unit_test(test_refusals_by_model),
        cmocka_unit_test(test_refusals_beside_plan),
        cmocka_unit_test(test_refusals_of_options),
        cmocka_unit_test(test_refusals_of_evaluations),
        cmocka_unit_test(test_cut_batch),
        cmocka_unit_test(test_evaluation_refusals),
        cmocka_unit_test(test_evaluated_together),
        cmocka_unit_test(test_learns),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
