/*
 * What a run keeps of its options, and what becomes of them when it goes on: config.json of a run for which all is said, the
 * same when nothing is said anew, and when one option of the plan or the cluster after the other is. And what a comparison of
 * trainings keeps. PENSTOCK_REGENERATE=1 build/release/tests/test_train_config writes the files anew.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "support.h"
#include "training_support.h"

static json_t *read_config(const char *run_dir) {
    char path[4096];
    json_error_t error;
    json_t *config = json_load_file(file_join(path, run_dir, "config.json"), JSON_REJECT_DUPLICATES, &error);
    if (!config) fail_msg("%s: %s", path, error.text);
    return config;
}

static void add_json(json_t *value, const char *title, struct text *out) {
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    assert_non_null(text);
    text_add(out, "=== %s\n%s\n", title, text);
    free(text);
    json_decref(value);
}

/* But for what depends on the version and on the machine. */
static void add_config(const char *run_dir, const char *title, struct text *out) {
    static const char *const other[] = {"penstock", "cores", "links"};
    json_t *config = read_config(run_dir);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        assert_non_null(json_object_get(config, other[i]));
        json_object_del(config, other[i]);
    }
    add_json(config, title, out);
}

/* The fields of `config` that say how it was planned, in a line, and what the plan became. */
static void add_planning(const char *run_dir, const char *title, struct text *out) {
    char path[4096];
    struct ps_plan *plan;
    json_t *config = read_config(run_dir);
    static const char *const fields[] = {"plan_options", "cluster_options"};
    text_add(out, "=== %s\n", title);
    for (size_t f = 0; f < 2; f++) {
        char *text = json_dumps(json_object_get(config, fields[f]), JSON_REAL_PRECISION(6));
        assert_non_null(text);
        text_add(out, "%s\n", text);
        free(text);
    }
    text_add(out, "cluster file: %s, emulate: %d, batch %d\n",
             json_object_get(config, "cluster") ? json_string_value(json_object_get(config, "cluster")) : "none",
             json_is_true(json_object_get(config, "emulate")), (int)json_integer_value(json_object_get(config, "batch")));
    const char *schedule = json_string_value(json_object_get(json_object_get(config, fields[0]), "schedule"));
    const bool found = strcmp(schedule, "auto") == 0;
    json_decref(config);
    assert_ok(ps_plan_read(file_join(path, run_dir, "plan.json"), &plan, &test_error));
    const struct ps_plan_info info = ps_plan_info(plan);
    text_add(out, "plan: schedule %s, weights %s, %d workers, %d micro-batches of %d\n", found ? "found" : info.schedule,
             found ? "found" : info.weights, info.workers, info.micro_batches, info.micro_batch);
    ps_plan_destroy(plan);
}

static enum ps_status try_training(const struct training *training, struct ps_dataset *data, struct ps_dataset *valid) {
    struct training_objects objects;
    struct ps_run *run = NULL;
    assert_ok(training_open(training, &objects, &test_error));
    objects.options.data = data;
    objects.options.valid = valid;
    const enum ps_status status = ps_train(&objects.options, &run, &test_error);
    ps_run_destroy(run);
    training_close(&objects);
    return status;
}

static void train(const struct training *training, struct ps_dataset *data, struct ps_dataset *valid) {
    assert_ok(try_training(training, data, valid));
}

static struct training resume(const char *run_dir, int steps) {
    struct training training;
    training_init(&training);
    training.o.resume = run_dir;
    training.o.steps = steps;
    return training;
}

static void copy_run(const char *from, const char *to) {
    char command[9000];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
    assert_int_equal(system(command), 0);
}

/* ------------------------------------------------------------------------ a network */

/* Costs of one look, since none matters here. */
static struct ps_profile *measure_once(const char *model, int micro_batch, int threads) {
    const struct ps_profile_options options = {.struct_size = sizeof options,
                                               .micro_batches = &micro_batch,
                                               .micro_batch_count = 1,
                                               .repeats = 1,
                                               .device = "reference",
                                               .threads = threads};
    struct ps_network *network;
    struct ps_profile *profile;
    assert_ok(ps_network_open(model, &network, &test_error));
    assert_ok(ps_profile_measure(network, &options, &profile, &test_error));
    ps_network_destroy(network);
    return profile;
}

static void test_everything(void **state) {
    const struct ps_dataset_options of_test = {.struct_size = sizeof of_test, .part = PS_PART_TEST},
                                    of_train = {.struct_size = sizeof of_train, .part = PS_PART_TRAIN};
    struct text texts = {0};
    struct training training;
    struct ps_dataset *data, *valid;
    char out[4096], copy[4096];
    (void)state;
    assert_ok(ps_dataset_open("synthetic:images,samples=40", &of_test, &data, &test_error));
    assert_ok(ps_dataset_open("synthetic:images,samples=12", &of_train, &valid, &test_error));
    training_init(&training);
    training.model = "lenet5,input=16,classes=4";
    training.plan = (struct ps_plan_options){.struct_size = sizeof training.plan,
                                             .method = "uniform",
                                             .schedule = "gpipe",
                                             .weights = "sync",
                                             .optimizer = "adam",
                                             .micro_batch = 4,
                                             .micro_batches = 3,
                                             .recompute = true,
                                             .wire = "int8"};
    training.cluster = (struct ps_cluster_options){.struct_size = sizeof training.cluster,
                                                   .workers = 2,
                                                   .memory_bytes = 1 << 30,
                                                   .bandwidth_bytes_per_s = 1e9,
                                                   .latency_s = 1e-6,
                                                   .cores = 2};
    struct ps_profile *profile = measure_once(training.model, 4, 2);
    struct ps_train_options *o = &training.o;
    o->profile = profile;
    o->batch = 12;
    o->epochs = 7;
    o->steps = 6;
    o->evaluate_every = 2;
    o->lr = 0.002;
    o->weight_decay = 0.01;
    o->beta1 = 0.8;
    o->beta2 = 0.99;
    o->eps = 1e-7;
    o->lr_schedule = "poly:2";
    o->warmup_steps = 2;
    o->lr_per_epoch = 1;
    o->clip = 3;
    o->label_smoothing = 0.125;
    o->decay_exclude = "biases,norms";
    o->groups = "fc3.*:lr=0.01";
    o->device = "reference";
    o->threads = 2;
    o->emulate = 1;
    o->seed = UINT64_C(18446744073709551557);
    o->out = file_join(out, test_directory, "all");
    o->checkpoint_every = 1;
    o->checkpoint_minutes = 2.5;
    o->keep_checkpoints = 3;
    o->keep_best = 1;
    o->best_by = "accuracy";
    o->patience = 50;
    train(&training, data, valid);
    ps_profile_destroy(profile);
    add_config(out, "everything is said", &texts);

    struct training more = resume(file_join(copy, test_directory, "more"), 8);
    copy_run(out, copy);
    train(&more, NULL, NULL);
    add_config(copy, "it goes on", &texts);

    copy_run(out, copy);
    more.o = resume(copy, 7).o;
    more.o.evaluate_every = 3;
    more.o.lr = 0.003;
    more.o.weight_decay = 0.02;
    more.o.beta1 = 0.7;
    more.o.eps = 1e-6;
    more.o.lr_schedule = "cosine";
    more.o.warmup_steps = 1;
    more.o.lr_per_epoch = 0;
    more.o.clip = 4;
    more.o.label_smoothing = 0.25;
    more.o.decay_exclude = "norms";
    more.o.groups = "fc1.*:lr=0.01";
    more.o.emulate = 0;
    more.o.checkpoint_every = 0;
    more.o.checkpoint_minutes = 3.5;
    more.o.keep_checkpoints = 4;
    more.o.keep_best = 0;
    more.o.best_by = "loss";
    more.o.patience = 40;
    more.o.threads = 1;
    more.o.transport = "serial";
    more.o.device = "cpu";
    train(&more, data, data);
    add_config(copy, "it goes on otherwise", &texts);

    copy_run(out, copy);
    profile = measure_once(training.model, 6, 2);
    more = resume(copy, 7);
    more.plan.micro_batches = 2;
    more.o.profile = profile;
    train(&more, NULL, NULL);
    ps_profile_destroy(profile);
    add_planning(copy, "it goes on with other micro-batches", &texts);
    ps_dataset_destroy(data);
    ps_dataset_destroy(valid);
    test_golden(TEST_DIRECTORY "/golden/configurations.txt", text_take(&texts));
}

/* ------------------------------------------------------------------------ names */

/* Ten pictures, one of each class, as CIFAR-10 has them; `names` is the file of the classes' names. */
static struct ps_dataset *open_pictures(const char *names) {
    enum { RECORD = 1 + 3 * 32 * 32 };
    static unsigned char records[10 * RECORD];
    char path[4096], spec[4200];
    struct ps_dataset *data;
    for (int i = 0; i < 10 * RECORD; i++) records[i] = (unsigned char)(i % RECORD == 0 ? i / RECORD : i * 7 % 251);
    test_file_write(file_join(path, test_directory, "data_batch_1.bin"), records, sizeof records);
    test_file_write(file_join(path, test_directory, "test_batch.bin"), records, sizeof records);
    test_file_write(file_join(path, test_directory, "batches.meta.txt"), names, strlen(names));
    snprintf(spec, sizeof spec, "cifar10:%s", test_directory);
    assert_ok(ps_dataset_open(spec, NULL, &data, &test_error));
    return data;
}

/* Predictions name classes as the run's data did, whatever the data that are predicted say. */
static void test_names(void **state) {
    (void)state;
    static const char names[] = "n0\nn1\nn2\nn3\nn4\nn5\nn6\nn7\nn8\n\"9\"\n";
    char out[4096], path[4096], *text;
    size_t size;
    struct training training;
    struct ps_dataset *data = open_pictures(names);
    training_init(&training);
    training.model = "lenet5,input=32,channels=3";
    struct ps_profile *profile = measure_once(training.model, 5, 1);
    training.o.profile = profile;
    training.cluster.workers = training.plan.micro_batches = 1;
    training.o.batch = 5;
    training.o.steps = 1;
    training.o.device = "reference";
    training.o.out = file_join(out, test_directory, "named");
    train(&training, data, NULL);
    ps_dataset_destroy(data);
    ps_profile_destroy(profile);
    json_t *config = read_config(out), *list = json_object_get(config, "class_names");
    assert_int_equal(json_array_size(list), 10);
    assert_string_equal(json_string_value(json_array_get(list, 0)), "n0");
    assert_string_equal(json_string_value(json_array_get(list, 9)), "\"9\"");
    json_decref(config);

    data = open_pictures("");
    struct ps_predict_options options = {
        .struct_size = sizeof options, .run = out, .data = data, .path = file_join(path, test_directory, "predicted.csv")};
    assert_ok(ps_predict(&options, &test_error));
    ps_dataset_destroy(data);
    assert_ok(file_read(path, 1 << 16, &text, &size, &test_error));
    const char *line = text;
    for (int n = -1; n < 10; n++, line = strchr(line, '\n') + 1) {
        char wanted[32], name[32];
        int label;
        if (n < 0) {
            assert_memory_equal(line, "index,label,probability,name\n", 29);
            continue;
        }
        assert_int_equal(sscanf(line, "%*d,%d,%*f,%31[^\n]", &label, name), 2);
        snprintf(wanted, sizeof wanted, label == 9 ? "\"\"\"9\"\"\"" : "\"n%d\"", label);
        assert_string_equal(name, wanted);
    }
    free(text);
}

/* ------------------------------------------------------------------- another plan */

static struct ps_cluster *make_cluster(int workers) {
    struct ps_cluster *cluster;
    const struct ps_cluster_options options = {.struct_size = sizeof options, .workers = workers, .latency_s = 2e-5};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    return cluster;
}

/* What is asked for when the run goes on; zeros are not asked for. */
struct request {
    const char *title;
    struct ps_plan_options plan;
    struct ps_cluster_options machines;
    int cluster; /* workers of a cluster that is given */
};

static const struct request requests[] = {
    {.title = "nothing"},
    {.title = "method", .plan.method = "data-parallel", .plan.replicate = true},
    {.title = "schedule", .plan.schedule = "1f1b"},
    {.title = "schedule and weights", .plan.schedule = "1f1b-async", .plan.weights = "stash"},
    {.title = "micro_batches", .plan.micro_batches = 2},
    {.title = "recompute", .plan.recompute = true},
    {.title = "replicate", .plan.replicate = true},
    {.title = "paper_cost", .plan.paper_cost = true},
    {.title = "paper_prediction", .plan.schedule = "1f1b-async", .plan.weights = "spectrain", .plan.paper_prediction = true},
    {.title = "wire", .plan.wire = "bf16"},
    {.title = "module_depth", .plan.module_depth = 1},
    {.title = "slack", .plan.schedule = "1f1b-star", .plan.weights = "stash", .plan.slack = 3},
    {.title = "memory", .machines.memory_bytes = 1 << 29},
    {.title = "bandwidth", .machines.bandwidth_bytes_per_s = 2e9},
    {.title = "latency", .machines.latency_s = 3e-5},
    {.title = "a bandwidth below zero", .machines.bandwidth_bytes_per_s = -1},
    {.title = "a latency below zero", .machines.latency_s = -1},
    {.title = "no overlap", .machines.no_overlap = true},
    {.title = "streaming", .machines.streaming = true},
    {.title = "cores", .machines.cores = 1},
    {.title = "as many workers", .machines.workers = 3},
    {.title = "fewer workers", .machines.workers = 2},
    {.title = "a cluster", .cluster = 4},
};

/* Both a run for which little was said, and one for which much was. A device that only waits is enough. */
static void test_planned_anew(void **state) {
    static const char csv[] = "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
                              "a,1e-6,2e-6,1000,4000,4000\nb,2e-6,3e-6,2000,4100,6400\n"
                              "c,2e-6,4e-6,1000,8192,4100\nd,1e-6,2e-6,10,0,9000\n";
    static const struct request first[] = {
        {.title = "little is said", .plan.method = "pipedream", .plan.schedule = "gpipe"},
        {.title = "much is said",
         .plan = {.method = "uniform",
                  .schedule = "gpipe",
                  .weights = "sync",
                  .micro_batches = 4,
                  .recompute = true,
                  .wire = "int8"},
         .machines =
             {.memory_bytes = 1 << 30, .bandwidth_bytes_per_s = 1e9, .latency_s = 1e-5, .no_overlap = true, .cores = 2}},
        {.title = "with slack", .plan = {.method = "pipedream", .schedule = "1f1b-star", .weights = "pipeoptim", .slack = 2}},
        {.title = "left to the search",
         .plan = {.method = "uniform", .schedule = "auto", .weights = "auto", .module_depth = 1}},
        {.title = "as published",
         .plan = {.method = "pipedream",
                  .schedule = "1f1b-async",
                  .weights = "spectrain",
                  .replicate = true,
                  .paper_prediction = true,
                  .paper_cost = true},
         .machines = {.bandwidth_bytes_per_s = 1e9, .streaming = true}},
        {.title = "a cluster", .plan = {.method = "uniform", .schedule = "gpipe"}, .cluster = 3},
    };
    char profile[4096], out[4096], copy[4096];
    struct text texts = {0};
    (void)state;
    test_file_write(file_join(profile, test_directory, "costs.csv"), csv, sizeof csv - 1);
    for (size_t f = 0; f < sizeof first / sizeof *first; f++) {
        struct ps_cluster *given = first[f].cluster > 0 ? make_cluster(first[f].cluster) : NULL;
        struct training training;
        training_init(&training);
        training.profile_path = profile;
        training.o.device = "clock";
        training.plan = first[f].plan;
        training.cluster = first[f].machines;
        training.plan.struct_size = sizeof training.plan;
        training.cluster.struct_size = sizeof training.cluster;
        training.cluster.workers = given ? 0 : 3;
        training.o.cluster = given;
        training.o.steps = 2;
        training.o.out = file_join(out, test_directory, first[f].title);
        train(&training, NULL, NULL);
        ps_cluster_destroy(given);
        add_planning(out, first[f].title, &texts);
        for (size_t r = 0; r < sizeof requests / sizeof *requests; r++) {
            const struct request *request = &requests[r];
            struct ps_cluster *cluster = request->cluster > 0 ? make_cluster(request->cluster) : NULL;
            struct training more = resume(file_join(copy, test_directory, "copy"), 3);
            char title[128];
            copy_run(out, copy);
            more.plan = request->plan;
            more.cluster = request->machines;
            more.plan.struct_size = sizeof more.plan;
            more.cluster.struct_size = sizeof more.cluster;
            more.o.cluster = cluster;
            /* that of other micro-batches is given again */
            if (request->plan.micro_batches > 0) more.profile_path = profile;
            snprintf(title, sizeof title, "%s, then %s", first[f].title, request->title);
            if (try_training(&more, NULL, NULL) == PS_OK)
                add_planning(copy, title, &texts);
            else
                text_add(&texts, "=== %s\n%s\n", title, test_error.message);
            ps_cluster_destroy(cluster);
        }
    }
    test_golden(TEST_DIRECTORY "/golden/plans_anew.txt", text_take(&texts));
}

/* ---------------------------------------------------------------------- a comparison */

/* A comparison of trainings that is kept is of these very trainings: each of their options is in what it keeps, and where one
 * is another the comparison is another, too. */
static void test_comparison(void **state) {
    (void)state;
    static const char csv[] =
        "name,forward_s,backward_s,parameter_bytes,output_bytes\na,1e-6,2e-6,1000,4000\nb,2e-6,3e-6,8,0\n";
    static const struct {
        const char *name;
        size_t offset;
        enum { NUMBER, INTEGER, SWITCH, LONG, TEXT } kind;
        const char *text;
    } fields[] = {
#define OPTION(field, kind, text) {#field, offsetof(struct ps_train_options, field), kind, text}
        OPTION(batch, INTEGER, NULL),
        OPTION(epochs, INTEGER, NULL),
        OPTION(steps, INTEGER, NULL),
        OPTION(evaluate_every, INTEGER, NULL),
        OPTION(valid_bleu, INTEGER, NULL),
        OPTION(lengths, TEXT, "2"),
        OPTION(lr, NUMBER, NULL),
        OPTION(momentum, NUMBER, NULL),
        OPTION(dampening, NUMBER, NULL),
        OPTION(weight_decay, NUMBER, NULL),
        OPTION(beta1, NUMBER, NULL),
        OPTION(beta2, NUMBER, NULL),
        OPTION(eps, NUMBER, NULL),
        OPTION(lr_schedule, TEXT, "cosine"),
        OPTION(warmup_steps, INTEGER, NULL),
        OPTION(lr_per_epoch, SWITCH, NULL),
        OPTION(clip, NUMBER, NULL),
        OPTION(label_smoothing, NUMBER, NULL),
        OPTION(decay_exclude, TEXT, "biases"),
        OPTION(groups, TEXT, "a.*:lr=0.01"),
        OPTION(device, TEXT, "reference"),
        OPTION(transport, TEXT, "serial"),
        OPTION(threads, INTEGER, NULL),
        OPTION(emulate, SWITCH, NULL),
        OPTION(checkpoint_every, INTEGER, NULL),
        OPTION(checkpoint_minutes, NUMBER, NULL),
        OPTION(patience, INTEGER, NULL),
        OPTION(seed, LONG, NULL),
#undef OPTION
    };
    const struct ps_compare_options compare = {.struct_size = sizeof compare,
                                               .schedules = (const char *const[]){"gpipe"},
                                               .schedule_count = 1,
                                               .workers = (const int[]){2},
                                               .worker_count = 1};
    char profile[4096], out[4096], path[4096];
    struct ps_compare_options options = compare;
    struct ps_comparison *comparison;
    struct text texts = {0};
    struct training training;
    test_file_write(file_join(profile, test_directory, "compared.csv"), csv, sizeof csv - 1);
    training_init(&training);
    training.profile_path = profile;
    training.o.device = "clock";
    training.o.steps = 2;
    options.out = file_join(out, test_directory, "comparison");
    assert_ok(training_compare(&options, &training, &comparison, &test_error));
    ps_comparison_destroy(comparison);
    json_t *kept = json_load_file(file_join(path, out, "comparison.json"), 0, NULL);
    assert_non_null(kept);
    json_object_del(kept, "penstock");
    add_json(kept, "a comparison", &texts);
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        struct training other = training;
        char *at = (char *)&other.o + fields[f].offset, part[96];
        if (fields[f].kind == NUMBER) *(double *)at = 0.5;
        if (fields[f].kind == INTEGER) *(int *)at = 3;
        if (fields[f].kind == SWITCH) *(int *)at = 1;
        if (fields[f].kind == LONG) *(uint64_t *)at = 3;
        if (fields[f].kind == TEXT) *(const char **)at = fields[f].text;
        snprintf(part, sizeof part, "holds another comparison: `%s` is ", fields[f].kind == LONG ? "seeds" : fields[f].name);
        assert_status(training_compare(&options, &other, &comparison, &test_error), PS_USAGE, part);
    }
    test_golden(TEST_DIRECTORY "/golden/comparison_kept.txt", text_take(&texts));
}

/* Of data the comparison keeps what they were, also where the profile alone says what the network is. */
static void test_compared_data(void **state) {
    (void)state;
    static const char *const fields[] = {"data_checksum", "valid_checksum"};
    const struct ps_plan_options planning = {.struct_size = sizeof planning, .micro_batch = 5};
    const struct ps_compare_options compare = {.planning = &planning,
                                               .struct_size = sizeof compare,
                                               .methods = (const char *const[]){"uniform"},
                                               .method_count = 1,
                                               .schedules = (const char *const[]){"gpipe"},
                                               .schedule_count = 1,
                                               .workers = (const int[]){2},
                                               .worker_count = 1};
    struct ps_compare_options options = compare;
    struct ps_profile *profile = measure_once("lenet5,input=32,channels=3", 5, 1);
    struct ps_comparison *comparison;
    struct training training;
    char out[4096], path[4096], digits[2][32], spec[4200], part[4200];
    ps_dataset_destroy(open_pictures(""));
    snprintf(spec, sizeof spec, "cifar10:%s", test_directory);
    snprintf(part, sizeof part, "%s@0-6", spec);
    training_init(&training);
    training.o.profile = profile;
    training.o.device = "reference";
    training.o.batch = 5;
    training.o.steps = 1;
    training.data = training.valid = spec;
    for (int c = 0; c < 2; c++) {
        options.out = file_join(out, test_directory, c == 0 ? "named-data" : "other-data");
        if (c == 1) training.valid = part;
        assert_ok(training_compare(&options, &training, &comparison, &test_error));
        ps_comparison_destroy(comparison);
        json_t *kept = json_load_file(file_join(path, out, "comparison.json"), 0, NULL), *network;
        assert_non_null(kept);
        json_unpack(kept, "{s:[o]}", "networks", &network);
        for (int f = 0; f < 2; f++) {
            const char *sum = json_string_value(json_object_get(network, fields[f]));
            assert_non_null(sum);
            assert_int_equal(strlen(sum), 16);
            if (c == 1) assert_int_equal(strcmp(sum, digits[f]) == 0, f == 0);
            snprintf(digits[f], sizeof digits[f], "%s", sum);
        }
        json_decref(kept);
    }
    ps_profile_destroy(profile);
}

/* What a worker was promised is what the profile says, though the network takes something else. */
static void test_promised_memory(void **state) {
    (void)state;
    struct ps_profile *profile = measure_once("lenet5,input=16,classes=4", 4, 1);
    struct training training;
    struct ps_run *run;
    training_init(&training);
    training.o.profile = profile;
    training.o.device = "reference";
    training.o.batch = 8;
    training.o.steps = 1;
    training.data = "synthetic:images,samples=8";
    training.cluster.workers = 2;
    training.plan.method = "uniform";
    training.plan.schedule = "gpipe";
    training.plan.weights = "sync";
    training.plan.micro_batch = 4;
    for (int added = 0; added <= 4096; added += 4096) {
        profile->tables[0].layers[0].size.parameter_bytes += added;
        assert_ok(training_run(&training, &run, &test_error));
        const struct ps_run_worker first = ps_run_worker(run, 0), second = ps_run_worker(run, 1);
        assert_true(added > 0 ? first.planned_bytes >= first.measured_bytes + 2 * added
                              : first.planned_bytes == first.measured_bytes);
        assert_int_equal(second.planned_bytes, second.measured_bytes);
        ps_run_destroy(run);
    }
    ps_profile_destroy(profile);
}

/* ------------------------------------------------------------------ what is damaged */

/* A configuration in which a field is missing, or is not what it may be, is refused, and the field is named. */
static void test_damaged(void **state) {
    (void)state;
    static const char csv[] =
        "name,forward_s,backward_s,parameter_bytes,output_bytes\na,1e-6,2e-6,1000,4000\nb,2e-6,3e-6,8,0\n";
    static const struct {
        const char *group, *field, *value; /* NULL: of the whole; it is missing */
    } cases[] = {
        {NULL, "batch", NULL},
        {NULL, "batch", "0"},
        {NULL, "epochs", NULL},
        {NULL, "epochs", "-1"},
        {NULL, "steps", NULL},
        {NULL, "steps", "0"},
        {NULL, "evaluate_every", NULL},
        {NULL, "evaluate_every", "-1"},
        {NULL, "valid_bleu", "-1"},
        {NULL, "lengths", "3"},
        {NULL, "checkpoint_every", NULL},
        {NULL, "checkpoint_every", "-1"},
        {NULL, "checkpoint_minutes", "-1"},
        {NULL, "keep_best", "3"},
        {NULL, "best_by", "3"},
        {NULL, "patience", "-1"},
        {NULL, "keep_checkpoints", NULL},
        {NULL, "keep_checkpoints", "-1"},
        {NULL, "device", NULL},
        {NULL, "device", "3"},
        {NULL, "threads", NULL},
        {NULL, "threads", "0"},
        {NULL, "emulate", "3"},
        {NULL, "seed", NULL},
        {NULL, "seed", "3"},
        {NULL, "optimizer", NULL},
        {NULL, "lr", NULL},
        {NULL, "lr", "-1"},
        {NULL, "lr", "1000001"},
        {NULL, "momentum", "-1"},
        {NULL, "dampening", "-1"},
        {NULL, "weight_decay", "-1"},
        {NULL, "eps", "-1"},
        {NULL, "betas", "[0.5]"},
        {NULL, "lr_schedule", NULL},
        {NULL, "lr_schedule", "3"},
        {NULL, "warmup_steps", NULL},
        {NULL, "warmup_steps", "-1"},
        {NULL, "lr_per_epoch", "3"},
        {NULL, "clip", "-1"},
        {NULL, "label_smoothing", "-1"},
        {NULL, "label_smoothing", "1.5"},
        {NULL, "decay_exclude", "3"},
        {NULL, "groups", "3"},
        {NULL, "data", "3"},
        {NULL, "data_part", "3"},
        {NULL, "valid", "3"},
        {NULL, "valid_part", "3"},
        {NULL, "plan_options", NULL},
        {NULL, "plan_options", "3"},
        {NULL, "cluster_options", NULL},
        {NULL, "cluster_options", "3"},
        {"plan_options", "method", "3"},
        {"plan_options", "schedule", "3"},
        {"plan_options", "weights", "3"},
        {"plan_options", "micro_batch", "-1"},
        {"plan_options", "micro_batches", "-1"},
        {"plan_options", "recompute", "3"},
        {"plan_options", "paper_prediction", "3"},
        {"plan_options", "replicate", "3"},
        {"plan_options", "paper_cost", "3"},
        {"plan_options", "wire", "3"},
        {"cluster_options", "workers", "-1"},
        {"cluster_options", "memory_bytes", "-1"},
        {"cluster_options", "bandwidth_bytes_per_s", "-1"},
        {"cluster_options", "latency_s", "-1"},
        {"cluster_options", "overlap", "3"},
        {"cluster_options", "streaming", "3"},
        {"cluster_options", "cores", "-1"},
    };
    char profile[4096], out[4096], path[4096], part[64];
    struct training training;
    test_file_write(file_join(profile, test_directory, "damaged.csv"), csv, sizeof csv - 1);
    training_init(&training);
    training.profile_path = profile;
    training.o.device = "clock";
    training.o.steps = 2;
    training.cluster.workers = 2;
    training.o.out = file_join(out, test_directory, "damaged");
    train(&training, NULL, NULL);
    const struct training more = resume(out, 0);
    train(&more, NULL, NULL);
    json_t *config = read_config(out);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        json_t *damaged = json_deep_copy(config),
               *value = cases[c].value ? json_loads(cases[c].value, JSON_DECODE_ANY, NULL) : NULL;
        json_t *object = cases[c].group ? json_object_get(damaged, cases[c].group) : damaged;
        if (value)
            assert_int_equal(json_object_set_new(object, cases[c].field, value), 0);
        else
            assert_int_equal(json_object_del(object, cases[c].field), 0);
        assert_int_equal(json_dump_file(damaged, file_join(path, out, "config.json"), 0), 0);
        json_decref(damaged);
        snprintf(part, sizeof part, "%s", cases[c].field);
        assert_status(try_training(&more, NULL, NULL), PS_BAD_INPUT, part);
    }
    assert_int_equal(json_dump_file(config, file_join(path, out, "config.json"), 0), 0);
    json_decref(config);
    train(&more, NULL, NULL);
}

/* ------------------------------------------------------------ the time between checkpoints */

/* Weights that are not synchronous depend on where segments end: the plan's speed says how many steps come between checkpoints,
 * as a round number, and the configuration keeps it. Half a minute at thirty samples a mini-batch: as many steps as samples in
 * a second. */
static void test_spaced(void **state) {
    (void)state;
    static const char csv[] =
        "name,forward_s,backward_s,parameter_bytes,output_bytes\na,1e-6,2e-6,1000,4000\nb,2e-6,3e-6,8,0\n";
    static const struct {
        double rate; /* NaN: the plan predicts none */
        int every, steps;
        int said; /* checkpoint_every */
        double minutes;
        const char *weights;
    } cases[] = {
        {0.25, 1, 100, 0, 0.5, "stash"},  {1, 1, 100, 0, 0.5, "stash"},     {1.75, 1, 100, 0, 0.5, "stash"},
        {2, 2, 100, 0, 0.5, "stash"},     {4.75, 2, 100, 0, 0.5, "stash"},  {5, 5, 100, 0, 0.5, "latest"},
        {9.75, 5, 100, 0, 0.5, "stash"},  {10, 10, 100, 0, 0.5, "stash"},   {19, 10, 100, 0, 0.5, "stash"},
        {20, 20, 100, 0, 0.5, "stash"},   {99.5, 50, 100, 0, 0.5, "stash"}, {100, 0, 100, 0, 0.5, "stash"}, /* the whole run */
        {100, 100, 101, 0, 0.5, "stash"}, {100, 0, 101, 0, 10, "stash"},    {2, 20, 100, 0, 5, "stash"},
        {2, 20, 100, 0, NAN, "stash"}, /* ten minutes; the rate is halved */
        {20, 3, 100, 3, 0.5, "stash"},    {20, 0, 100, 0, 0, "stash"},      {20, 0, 100, 0, 0.5, "sync"},
        {NAN, 0, 100, 0, 0.5, "stash"},
    };
    char profile[4096], out[4096], name[32];
    struct ps_train_options options;
    struct ps_profile *costs;
    test_file_write(file_join(profile, test_directory, "spaced.csv"), csv, sizeof csv - 1);
    assert_ok(ps_profile_read(profile, &costs, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const bool usual = isnan(cases[c].minutes);
        struct ps_trainer *trainer;
        struct ps_plan *plan;
        const struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = 2};
        const struct ps_plan_options planning = {.struct_size = sizeof planning,
                                                 .method = "uniform",
                                                 .schedule = strcmp(cases[c].weights, "sync") == 0 ? "gpipe" : "1f1b-async",
                                                 .weights = cases[c].weights,
                                                 .micro_batches = 1};
        struct ps_cluster *cluster;
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        assert_ok(ps_plan_find(costs, cluster, &planning, &plan, &test_error));
        ps_cluster_destroy(cluster);
        plan->micro_batches = 30;
        plan->predicted.simulated = !isnan(cases[c].rate);
        plan->predicted.throughput_samples_per_s = usual ? cases[c].rate / 2 : cases[c].rate;
        ps_train_options_init(&options);
        options.plan = plan;
        options.profile = costs;
        options.device = "clock";
        options.steps = cases[c].steps;
        options.checkpoint_every = cases[c].said;
        options.checkpoint_minutes = cases[c].minutes;
        snprintf(name, sizeof name, "spaced-%zu", c);
        options.out = file_join(out, test_directory, name);
        assert_ok(ps_trainer_create(&options, &trainer, &test_error));
        ps_trainer_destroy(trainer);
        json_t *config = read_config(out);
        const int every = (int)json_integer_value(json_object_get(config, "checkpoint_every"));
        json_decref(config);
        if (every != cases[c].every) fail_msg("case %zu: every %d steps, not %d", c, every, cases[c].every);
        ps_plan_destroy(plan);
    }
    ps_profile_destroy(costs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_everything),    cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_planned_anew),  cmocka_unit_test(test_comparison),
                                       cmocka_unit_test(test_compared_data), cmocka_unit_test(test_promised_memory),
                                       cmocka_unit_test(test_damaged),       cmocka_unit_test(test_spaced)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
