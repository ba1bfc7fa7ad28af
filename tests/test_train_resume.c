/*
 * Going on with a run: from every checkpoint it ends with the weights, moments, log and figures of the run that was never
 * interrupted, under the same plan, another one, or another transport.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "resume_support.h"

/* LeNet-5's layers, some of them with forward and backward on different workers. */
static const struct split_case split = {
    .layers = 7, .workers = 3, .forward = {0, 0, 0, 1, 1, 2, 2}, .backward = {0, 0, 1, 1, 2, 2, 2}};

static void test_from_every_checkpoint(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *weights, *optimizer;
        const struct split_case *split;
        const char *wire;
        int replicas[2];
    } cases[] = {
        {"1f1b", "sync", "adam", NULL, NULL, {0}},
        {"1f1b-async", "pipeoptim", "sgdm", NULL, NULL, {0}},
        {"1f1b-async", "xpipe", "sgdm", NULL, NULL, {0}},
        {"1f1b-async", "stash", "adamw", NULL, NULL, {0}},
        {"1f1b-async", "2bw", "sgd", NULL, NULL, {0}},
        {"1f1b-async", "pipeoptim", "sgd", NULL, NULL, {0}},
        {"1f1b-async", "pipeoptim", "adam", &split, NULL, {0}},
        {"1f1b", "sync", "sgdm", &split, NULL, {0}},
        {"1f1b-async", "pipeoptim", "sgdm", NULL, "int8/topk:0.1", {0}},
        {"1f1b", "sync", "adam", NULL, "topk:0.2", {0}},
        {"1f1b-async", "stash", "sgdm", &split, "topk:0.2", {0}},
        {"1f1b", "sync", "adam", NULL, "topk:0.2", {3}},
        {"1f1b-async", "pipeoptim", "sgdm", NULL, "int8/topk:0.1", {1, 2}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        if (!test_takes(c, 5)) continue;
        struct run_case wanted = base;
        char out[4096], copy[4096], name[32];
        wanted.schedule = cases[c].schedule;
        wanted.weights = cases[c].weights;
        wanted.optimizer = cases[c].optimizer;
        wanted.split = cases[c].split;
        wanted.wire = cases[c].wire;
        memcpy(wanted.replicas, cases[c].replicas, sizeof cases[c].replicas);
        if (cases[c].replicas[0]) wanted.workers = 0;
        wanted.transport = c % 2 ? "serial" : "threads";
        snprintf(name, sizeof name, "every%zu", c);
        train_whole(wanted, name, out);
        file_join(copy, test_directory, "copy");
        for (int i = (int)c % 3; i < CHECKPOINTS; i += 3) { /* over all cases, every one of them */
            interrupted_copy(out, checkpoints[i], copy);
            struct training options = resume_options(copy);
            options.o.transport = i % 2 ? "serial" : "threads";
            train(&options);
            assert_same_end(run_case_complete(wanted).model, out, copy);
            assert_same_log(out, copy);
            assert_same_summary(out, copy);
        }
    }
}

static json_t *read_config(const char *run_dir, char path[4096]) {
    json_t *config = json_load_file(file_join(path, run_dir, "config.json"), 0, NULL);
    assert_non_null(config);
    return config;
}

/* sgd runs as sgdm where predictions need its state, and keeps its name. Runs that were written as sgdm go on, too. */
static void test_optimizer_name(void **state) {
    (void)state;
    struct run_case wanted = base;
    char out[4096], copy[4096], path[4096];
    wanted.schedule = "1f1b-async";
    wanted.weights = "pipeoptim";
    wanted.optimizer = "sgd";
    train_whole(wanted, "descent", out);
    for (int older = 0; older < 2; older++) {
        interrupted_copy(out, 11, file_join(copy, test_directory, "copy"));
        json_t *config = read_config(copy, path);
        assert_null(json_object_get(config, "momentum"));
        if (older)
            json_object_update_new(config, json_pack("{s:s, s:f, s:f}", "optimizer", "sgdm", "momentum", 0., "dampening", 0.));
        assert_int_equal(json_dump_file(config, path, 0), 0);
        json_decref(config);
        struct training options = resume_options(copy);
        train(&options);
        assert_same_end(run_case_complete(wanted).model, out, copy);
        json_t *after[] = {read_config(copy, path), read_summary(copy)};
        for (int f = 0; f < 2; f++) {
            assert_string_equal(json_string_value(json_object_get(after[f], "optimizer")), older ? "sgdm" : "sgd");
            json_decref(after[f]);
        }
    }
}

/* Error feedback of blocks of another size, or at other cuts, begins at zero; the run goes on. */
static void test_error_feedback_that_does_not_fit(void **state) {
    static const struct { int workers, micro_batch, micro_batches; } others[] = {{3, 4, 3}, {3, 2, 6}, {4, 4, 3}, {2, 4, 3}};
    char out[4096], copy[4096], unused[4096], plan_path[4096];
    struct run_case wanted = base;
    (void)state;
    wanted.wire = "topk:0.1";
    train_whole(wanted, "feedback", out);
    for (size_t o = 0; o < sizeof others / sizeof *others; o++) {
        struct run_case other = wanted;
        other.workers = others[o].workers;
        other.micro_batch = others[o].micro_batch;
        other.micro_batches = others[o].micro_batches;
        prepare(other, "other", plan_path, unused);
        interrupted_copy(out, checkpoints[4], file_join(copy, test_directory, "copy"));
        struct training options = resume_options(copy);
        options.plan_path = plan_path;
        train(&options);
        const char *model = run_case_complete(wanted).model;
        struct trained a = trained_read(model, out), b = trained_read(model, copy);
        assert_int_equal(trained_equal(&a, &b), o == 0);
        trained_free(&a);
        trained_free(&b);
    }
}

/* Batch normalisation's statistics go on too, on the device that computes fast. */
static void test_batch_norm(void **state) {
    (void)state;
    struct run_case wanted = base;
    char out[4096], copy[4096];
    wanted.model = "resnet,input=8,classes=4";
    wanted.schedule = "1f1b-async";
    wanted.weights = "pipeoptim";
    wanted.optimizer = "adam";
    wanted.lr = 1e-3;
    wanted.device = "cpu";
    train_whole(wanted, "resnet", out);
    interrupted_copy(out, 11, file_join(copy, test_directory, "copy"));
    struct training options = resume_options(copy);
    train(&options);
    assert_same_end(wanted.model, out, copy);
    assert_same_summary(out, copy);
}

/* Weights of bf16 beside their masters; and the error feedback of sums over replicas of tied parameters, which have a place for
 * each use. */
static void test_masters_and_ties(void **state) {
    (void)state;
    static const struct {
        const char *model, *data, *wire;
        int replicas[2];
    } cases[] = {
        {"lenet5,input=16,classes=4,precision=bf16", NULL, NULL, {0}},
        {"gpt2,layers=1,width=16,heads=2,seq=12,vocab=14,tied=1", "synthetic:tokens,samples=97", "topk:0.2", {3}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct run_case wanted = base;
        char out[4096], copy[4096], plan_path[4096];
        wanted.model = cases[c].model;
        wanted.wire = cases[c].wire;
        if (cases[c].data) wanted.data = cases[c].data;
        memcpy(wanted.replicas, cases[c].replicas, sizeof wanted.replicas[0] * 2);
        if (cases[c].replicas[0]) wanted.workers = 0;
        struct training options = prepare(wanted, "others", plan_path, out);
        options.valid = NULL;
        train(&options);
        interrupted_copy(out, 11, file_join(copy, test_directory, "copy"));
        options = resume_options(copy);
        train(&options);
        assert_same_end(run_case_complete(wanted).model, out, copy);
        test_directory_remove(out);
        test_directory_remove(copy);
    }
}

/* Dropout's masks follow from the step. */
static void test_dropout(void **state) {
    (void)state;
    static const char model[] = "alexnet,input=16,classes=4";
    struct run_case wanted = base;
    char out[4096], copy[4096], plan_path[4096];
    wanted.model = model;
    wanted.device = "cpu";
    wanted.optimizer = "sgd";
    wanted.steps = 4;
    struct training options = prepare(wanted, "alexnet", plan_path, out);
    options.valid = NULL;
    train(&options);
    interrupted_copy(out, 3, file_join(copy, test_directory, "copy"));
    options = resume_options(copy);
    train(&options);
    struct trained a = trained_read(model, out), b = trained_read(model, copy);
    assert_true(trained_equal(&a, &b));
    trained_free(&a);
    trained_free(&b);
    test_directory_remove(out);
    test_directory_remove(copy);
}

/* Schedules that flush give the same numbers under any cut. */
static void test_other_plans(void **state) {
    (void)state;
    char out[4096], copy[4096], unused[4096], plan_path[4096], path[4096];
    train_whole(base, "plans", out);
    file_join(copy, test_directory, "copy");
    for (int workers = 1; workers <= 5; workers++) {
        if (!test_takes((size_t)workers, 4)) continue;
        struct run_case other = base;
        other.workers = workers;
        other.schedule = workers == 4 ? "gpipe" : "1f1b";
        prepare(other, "other", plan_path, unused);
        interrupted_copy(out, 11, copy);
        struct training options = resume_options(copy);
        options.plan_path = plan_path;
        train(&options);
        struct trained a = trained_read("lenet5,input=16,classes=4", out), b = trained_read("lenet5,input=16,classes=4", copy);
        assert_true(trained_equal(&a, &b));
        trained_free(&a);
        trained_free(&b);
        assert_same_log(out, copy);
        /* From now on it is this plan's run. */
        struct ps_plan *plan;
        assert_ok(ps_plan_read(file_join(path, copy, "plan.json"), &plan, &test_error));
        assert_int_equal(ps_plan_info(plan).workers, workers);
        ps_plan_destroy(plan);
    }
    /* Planned anew for fewer workers, in two steps. */
    interrupted_copy(out, 3, copy);
    struct training options = resume_options(copy);
    options.cluster.workers = 2;
    train(&options);
    struct trained a = trained_read("lenet5,input=16,classes=4", out), b = trained_read("lenet5,input=16,classes=4", copy);
    assert_true(trained_equal(&a, &b));
    trained_free(&a);
    trained_free(&b);
    json_t *summary = read_summary(copy);
    assert_int_equal(json_array_size(json_object_get(summary, "workers")), 2);
    /* What three have exchanged says nothing of two. */
    for (size_t w = 0; w < 2; w++)
        assert_true(worker_figure(summary, w, "sent_bytes") == worker_figure(summary, 1 - w, "received_bytes"));
    json_decref(summary);
}

/* The run in `out` goes on by another plan, from the middle, with the plan's transport; what it ends with, for the caller to
 * free. */
static struct trained go_on(const char *out, struct run_case other, const char *copy) {
    char unused[4096], plan_path[4096];
    other = run_case_complete(other);
    prepare(other, "other", plan_path, unused);
    interrupted_copy(out, 11, copy);
    struct training options = resume_options(copy);
    options.plan_path = plan_path;
    options.o.transport = other.transport;
    train(&options);
    return trained_read(other.model, copy);
}

static bool all_finite(const struct trained *trained) {
    for (size_t i = 0; i < trained->count; i++)
        if (!isfinite(trained->values[i])) return false;
    return true;
}

/* Workers, transports and places, crossed: where schedules flush they all end with the same bits, and where weights are stale
 * the same plan does by any transport, while another goes on with what it is given. */
static void test_matrix(void **state) {
    (void)state;
    static const char *const transports[] = {"threads", "serial"};
    static const struct {
        const char *schedule, *weights;
        int workers;
        const struct split_case *split;
        bool same; /* bits as the run by the first of its weight policy */
    } plans[] = {
        {"1f1b", "sync", 3, NULL, true},
        {"1f1b", "sync", 1, NULL, true},
        {"gpipe", "sync", 2, NULL, true},
        {"1f1b-so", "sync", 4, NULL, true},
        {"1f1b", "sync", 0, &split, true},
        {"1f1b-async", "pipeoptim", 3, NULL, true},
        {"1f1b-async", "pipeoptim", 2, NULL, false},
        {"1f1b-async", "pipeoptim", 0, &split, false},
    };
    char out[4096], copy[4096], name[32];
    file_join(copy, test_directory, "copy");
    struct trained whole = {0};
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
        struct run_case other = base;
        other.schedule = plans[p].schedule;
        other.weights = plans[p].weights;
        other.workers = plans[p].workers;
        other.split = plans[p].split;
        if (p == 0 || strcmp(plans[p].weights, plans[p - 1].weights) != 0) {
            trained_free(&whole);
            snprintf(name, sizeof name, "matrix%zu", p);
            train_whole(other, name, out);
            whole = trained_read(run_case_complete(other).model, out);
        }
        for (int t = 0; t < 2; t++) {
            if (!test_takes(p + (size_t)t, 5)) continue;
            other.transport = transports[t];
            struct trained end = go_on(out, other, copy);
            print_message("%s, %s, %d workers, %s: %s\n", other.schedule, other.weights, run_case_complete(other).workers,
                          other.transport, trained_equal(&whole, &end) ? "the same bits" : "other bits");
            assert_true(all_finite(&end));
            assert_int_equal(trained_equal(&whole, &end), plans[p].same);
            trained_free(&end);
        }
    }
    trained_free(&whole);
}

/* Any policy can take over from any other. */
static void test_other_policy(void **state) {
    (void)state;
    char out[4096], copy[4096];
    train_whole(base, "policy", out);
    file_join(copy, test_directory, "copy");
    static const char *const policies[] = {"pipeoptim", "xpipe", "stash", "latest", "2bw", "spectrain"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        if (!test_takes(p, 4)) continue;
        interrupted_copy(out, 8, copy);
        struct training options = resume_options(copy);
        options.plan.schedule = "1f1b-async";
        options.plan.weights = policies[p];
        train(&options);
        json_t *summary = read_summary(copy);
        assert_string_equal(json_string_value(json_object_get(summary, "weights")), policies[p]);
        assert_int_equal(json_integer_value(json_object_get(summary, "step")), LAST);
        json_decref(summary);
    }
}

static void test_refusals(void **state) {
    (void)state;
    char out[4096], copy[4096], plan_path[4096], unused[4096];
    train_whole(base, "refuse", out);
    interrupted_copy(out, 8, file_join(copy, test_directory, "copy"));
    struct ps_run *run;
    struct training options = resume_options(copy);
    options.data = "synthetic:images,samples=64";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "has 5 mini-batches where the run had 8");
    options.data = "synthetic:images,samples=98";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "has 98 samples where the run had 97");
    struct run_case other = base;
    other.micro_batch = 8;
    prepare(other, "larger", plan_path, unused);
    options = resume_options(copy), options.plan_path = plan_path;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE,
                  "has a mini-batch of 24 samples (3 micro-batches of 8), not 12");
    options = resume_options(copy), options.o.trace = true;
    options.o.checkpoint_every = -2; /* -1: not said */
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`checkpoint_every`: -2 is negative");
    options = prepare(base, "nowhere", plan_path, unused);
    options.o.out = NULL;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`checkpoint_every`: needs a run directory");
    options = prepare(base, "lengths", plan_path, unused);
    options.o.steps = 3000, options.o.checkpoint_every = 40, options.o.evaluate_every = 41;
    options.data = "synthetic:images,samples=100000";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE,
                  "`checkpoint_every`: 40 together with `evaluate_every` 41");
}

/* The newest two stay; a step-0 checkpoint is there as long as no other is. */
static void test_pruning(void **state) {
    (void)state;
    char out[4096], plan_path[4096], path[4096];
    struct training options = prepare(base, "prune", plan_path, out);
    options.o.keep_checkpoints = 0;
    train(&options);
    for (int i = 0; i < CHECKPOINTS; i++)
        assert_int_equal(file_exists(checkpoint_path(out, checkpoints[i], path)), checkpoints[i] >= 19);
}

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    if (level == PS_LOG_WARN) text_add(context, "%s\n", text);
}

/* Lines of the log that are none stay, and all others up to the checkpoint; what has no end goes. */
static void test_log_with_other_lines(void **state) {
    (void)state;
    static const struct {
        const char *change, *warning;
    } cases[] = {
        {"sed -i '2i{' log.jsonl", "log.jsonl: line 2 is not a line of a log"},
        {"sed -i '3i{\"step\": \"three\"}' log.jsonl", "log.jsonl: line 3 is not a line of a log"},
        {"(head -c 9 /dev/zero; echo; cat log.jsonl) >l && mv l log.jsonl", "log.jsonl: line 1 is not a line of a log"},
        {"head -c 9 /dev/zero >>log.jsonl", NULL}};
    char out[4096], copy[4096];
    train_whole(base, "lines", out);
    file_join(copy, test_directory, "copy");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct text lines = {0};
        const struct ps_log_sink sink = {
            .struct_size = sizeof sink, .context = &lines, .level = PS_LOG_WARN, .line = keep_line};
        interrupted_copy(out, 11, copy);
        shell("cd '%s' && %s", copy, cases[c].change);
        assert_ok(ps_log_to(&sink, &test_error));
        struct training options = resume_options(copy);
        train(&options);
        assert_ok(ps_log_to(NULL, &test_error));
        assert_int_equal(lines.data != NULL, cases[c].warning != NULL);
        if (lines.data) assert_non_null(strstr(lines.data, cases[c].warning));
        shell("cd '%s' && [ $(grep -avc '^{\"step\": [0-9]' log.jsonl) = %s ] && sed -i '/^{\"step\": [0-9]/!d' log.jsonl",
              copy, cases[c].warning ? "1" : "0");
        assert_same_log(out, copy);
        text_free(&lines);
    }
}

/* --------------------------------------------------------------------------- stops */

static atomic_bool stop;

static int should_stop(void *context) {
    (void)context;
    return stop;
}

static const struct ps_observer stopper = {.struct_size = sizeof stopper, .should_stop = should_stop};

static void *stop_soon(void *argument) {
    clock_sleep(*(const double *)argument);
    stop = 1;
    return NULL;
}

/* Stopped again and again at random moments, it ends as if it had not been. */
static void test_stops(void **state) {
    (void)state;
    char whole[4096], out[4096], plan_path[4096];
    struct run_case wanted = base;
    wanted.schedule = "1f1b-async";
    wanted.weights = "pipeoptim";
    train_whole(wanted, "unstopped", whole);
    struct random_key key = test_key(200);
    struct training options = prepare(wanted, "stopped", plan_path, out);
    options.o.observer = &stopper;
    int stops = 0, starts = 0;
    for (enum ps_status status = PS_STOPPED; status != PS_OK; starts++) {
        struct ps_run *run;
        pthread_t thread;
        /* At first before it has begun; then it gets longer and longer: on a slow machine too it comes to an end. */
        double seconds = 0.001 * pow(test_slow() ? 4 : 1.1, starts) * (double)random_uniform(key, (uint64_t)starts);
        stop = starts == 0;
        assert_int_equal(pthread_create(&thread, NULL, stop_soon, &seconds), 0);
        status = training_run(&options, &run, &test_error);
        pthread_join(thread, NULL);
        if (status == PS_OK) {
            ps_run_destroy(run);
            break;
        }
        assert_status(status, PS_STOPPED, "stopped on request");
        stops++;
        char path[4096];
        if (!file_exists(file_join(path, out, "config.json"))) continue;
        options = resume_options(out);
        options.o.observer = &stopper;
    }
    print_message("stopped %d times\n", stops);
    assert_true(stops > 0);
    assert_same_end("lenet5,input=16,classes=4", whole, out);
    assert_same_log(whole, out);
    assert_same_summary(whole, out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_every_checkpoint),
        cmocka_unit_test(test_optimizer_name),
        cmocka_unit_test(test_error_feedback_that_does_not_fit),
        cmocka_unit_test(test_batch_norm),
        cmocka_unit_test(test_masters_and_ties),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_other_plans),
        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_other_policy),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_pruning),
        cmocka_unit_test(test_log_with_other_lines),
        cmocka_unit_test(test_stops),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
