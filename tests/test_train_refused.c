/*
 * Trainings that cannot be: plans that do not fit the network, profiles of others, clusters that cannot be played here, what a
 * trainer is asked for and does not have, comparisons of nothing. Each is refused before anything runs, and says why.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/npz.h"
#include "profile/profile.h"
#include "support.h"
#include "training_support.h"

enum { SIDE = 16, SAMPLES = 4 };

static const char network_spec[] = "lenet5,input=16,classes=4";

/* Two stages of the network's seven layers. */
#define PLAN(more)                                                                                                             \
    "{\"format\": \"penstock-plan\", \"version\": 1, \"model\": \"lenet5,input=16,classes=4\", \"workers\": 2, "               \
    "\"schedule\": \"1f1b\", \"weights\": \"sync\", \"optimizer\": \"sgd\", \"stages\": [{\"layers\": [1, 4], "                \
    "\"forward\": 0}, {\"layers\": [5, 7], \"forward\": 1}]" more "}"
#define ORDER(first, last) "[\"" first "\", \"pool1\", \"conv2\", \"pool2\", \"fc1\", \"fc2\", \"" last "\"]"
#define SIZES ", \"micro_batch\": 2, \"micro_batches\": 2"

static const char seven_layers[] = "name,forward_s,backward_s,parameter_bytes,output_bytes\na,1e-6,2e-6,1000,400\n"
                                   "b,1e-6,2e-6,1000,400\nc,1e-6,2e-6,1000,400\nd,1e-6,2e-6,1000,400\ne,1e-6,2e-6,1000,400\n"
                                   "f,1e-6,2e-6,1000,400\ng,1e-6,2e-6,1000,400\n";
static const char two_layers[] =
    "name,forward_s,backward_s,parameter_bytes,output_bytes\na,1e-6,2e-6,1000,400\nb,1e-6,2e-6,1000,400\n";

#define CLUSTER(fields)                                                                                                        \
    "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"" fields "}]}"

#define FIRST_FAST                                                                                                             \
    "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\", \"speed\": 2}, {\"name\": \"b\"}]}"

/* Writes a text as that file, and says where; NULL where there is none. */
static const char *put(const char *name, const char *text, char path[4096]) {
    if (!text) return NULL;
    test_file_write(file_join(path, test_directory, name), text, strlen(text));
    return path;
}

/* The costs of micro-batches of two, as a profile's file. */
static const char *put_profile(const char *costs, char path[4096]) {
    struct ps_profile *profile;
    if (!costs) return NULL;
    assert_ok(ps_profile_read(put("profile.csv", costs, path), &profile, &test_error));
    profile->tables[0].micro_batch = 2;
    assert_ok(ps_profile_write(profile, file_join(path, test_directory, "profile.json"), &test_error));
    ps_profile_destroy(profile);
    return path;
}

static void test_plans(void **state) {
    (void)state;
    static const struct {
        const char *plan, *profile, *cluster;
        int emulate;
        const char *part; /* of the message; NULL: it trains */
    } cases[] = {
        {PLAN(SIZES), NULL, NULL, 0, NULL},
        {PLAN(SIZES ", \"order\": " ORDER("conv2", "fc3") ""), NULL, NULL, 0,
         "order[0]: 'conv2' stands where the network has 'conv1'; another order cannot be trained"},
        {PLAN(SIZES ", \"order\": " ORDER("conv1", "fc9") ""), NULL, NULL, 0,
         "order[6]: 'fc9' stands where the network has 'fc3'"},
        {PLAN(SIZES ", \"order\": " ORDER("conv1", "fc1") ""), NULL, NULL, 0, "order[6]: 'fc1' stands where"},
        {PLAN(SIZES ", \"order\": " ORDER("conv1", "fc3") ""), NULL, NULL, 0, NULL},
        {PLAN(", \"micro_batch\": 0, \"micro_batches\": 2"), NULL, NULL, 0,
         "micro_batch: the plan does not say how many samples a micro-batch has"},
        {PLAN(", \"micro_batch\": 257, \"micro_batches\": 65536"), NULL, NULL, 0,
         "micro_batches: a mini-batch of 16842752 samples is above the 16777216 that are accepted"},
        {PLAN(SIZES), two_layers, NULL, 0, "the profile has 2 layers where lenet5,input=16,classes=4 has 7"},
        {PLAN(SIZES), seven_layers, NULL, 0, NULL},
        /* What may be played: alike workers, or slower ones, that sum nothing. */
        {PLAN(SIZES), NULL, CLUSTER(""), 1, NULL},
        {PLAN(SIZES), NULL, CLUSTER("}, {\"name\": \"c\""), 1, "`workers`: the plan is for 2 workers, not 3"},
        {PLAN(SIZES), NULL, FIRST_FAST, 1, "`emulate`: worker 0 has a speed of 2; a device can be slowed down, to less than 1"},
        {PLAN(SIZES), NULL, CLUSTER(", \"speed\": 1.5"), 1, "`emulate`: worker 1 has a speed of 1.5; a device can be slowed"},
        {PLAN(SIZES ", \"tied\": true"), NULL, CLUSTER(""), 1,
         "`emulate`: the sum over stages that share a parameter (tied) cannot be emulated"},
        {PLAN(SIZES ", \"tied\": [[3, 4]]"), NULL, CLUSTER(""), 1,
         "`emulate`: the sum over stages that share a parameter (tied) cannot be emulated"},
        {PLAN(SIZES ", \"tied\": [[0, 3], [2, 3, 6]]"), NULL, CLUSTER(""), 1,
         "`emulate`: the sum over stages that share a parameter (tied) cannot be emulated"},
        {PLAN(SIZES ", \"tied\": [[0, 3], [4, 6]]"), NULL, CLUSTER(""), 1, NULL},
    };
    enum { LARGE = 6 };
    char plan[4096], profile[4096], cluster[4096];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct training training;
        struct ps_run *run;
        training_init(&training);
        training.plan_path = put("plan.json", cases[c].plan, plan);
        training.profile_path = put_profile(cases[c].profile, profile);
        training.cluster_path = put("cluster.json", cases[c].cluster, cluster);
        training.model = network_spec;
        training.data = c == LARGE ? "synthetic:images,samples=20000000" : "synthetic:images,samples=8";
        training.o.device = "reference";
        training.o.emulate = cases[c].emulate;
        training.o.steps = 1;
        const enum ps_status status = training_run(&training, &run, &test_error);
        if ((status == PS_OK) != !cases[c].part) print_message("case %zu: %s\n", c, status == PS_OK ? "" : test_error.message);
        if (cases[c].part) {
            assert_status(status, PS_USAGE, cases[c].part);
            continue;
        }
        assert_ok(status);
        ps_run_destroy(run);
    }
}

/* Costs of several types of devices are for planning. */
static void test_types(void **state) {
    (void)state;
    char path[4096];
    struct ps_profile *profile, *other;
    struct ps_train_options options;
    struct ps_run *run;
    put("types.csv", seven_layers, path);
    assert_ok(ps_profile_read(path, &profile, &test_error));
    assert_ok(ps_profile_read(path, &other, &test_error));
    snprintf(other->device, sizeof other->device, "another");
    assert_ok(profile_add_device(profile, other, &test_error));
    ps_train_options_init(&options);
    options.profile = profile;
    options.device = "clock";
    options.steps = 1;
    assert_status(ps_train(&options, &run, &test_error), PS_USAGE,
                  "`profile`: a run has one type of device; several are for planning and simulating");
    ps_profile_destroy(profile);
}

/* What each worker needs stands below the message. */
static void test_memory(void **state) {
    (void)state;
    static const char *const parts[] = {"worker  ",    "  weights", "  gradients", "  optimizer", "  stash",   "  buffers",
                                        "  workspace", "  in all",  "  limit\n",   "\n     0  ",  "\n     1  "};
    char path[4096];
    struct training training;
    struct ps_run *run;
    struct ps_error error = {0};
    training_init(&training);
    training.plan_path = put("plan.json", PLAN(SIZES), path);
    training.data = "synthetic:images,samples=8";
    training.o.device = "reference";
    training.o.steps = 1;
    training.cluster.memory_bytes = 1024;
    assert_int_equal(training_run(&training, &run, &error), PS_NO_PLAN);
    assert_non_null(strstr(error.message, "worker 0 needs "));
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        if (!strstr(error.hint, parts[p])) fail_msg("no '%s' in\n%s", parts[p], error.hint);
}

/* What a trainer does not have, and goes on without. */
static void test_trainer(void **state) {
    (void)state;
    char path[4096];
    struct training training;
    struct training_objects objects;
    struct ps_trainer *trainer;
    struct ps_evaluation evaluation;
    struct ps_dataset *many;
    float value = 0;
    training_init(&training);
    training.plan_path = put("plan.json", PLAN(", \"micro_batch\": 1, \"micro_batches\": 2"), path);
    training.data = "synthetic:images,samples=8";
    training.o.device = "reference";
    training.o.steps = 2;
    assert_ok(training_open(&training, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    assert_status(ps_trainer_evaluate(trainer, NULL, &evaluation, &test_error), PS_USAGE,
                  "`data`: there is none, and the training has no `valid` either");
    assert_ok(ps_dataset_open("synthetic:images,samples=16777217", NULL, &many, &test_error));
    assert_status(ps_trainer_evaluate(trainer, many, &evaluation, &test_error), PS_USAGE,
                  "`data`: 16777217 micro-batches are too many to evaluate");
    ps_dataset_destroy(many);
    assert_ok(ps_trainer_step(trainer, 2, &test_error));
    ps_trainer_destroy(trainer);
    training_close(&objects);

    training.data = NULL;
    training.profile_path = put("profile.csv", seven_layers, path);
    training.plan_path = NULL;
    training.cluster.workers = 2;
    training.o.device = "clock";
    assert_ok(training_open(&training, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    assert_int_equal(ps_trainer_info(trainer).parameters, 0);
    assert_status(ps_trainer_read_parameter(trainer, "conv1.weight", &value, 1, &test_error), PS_USAGE,
                  "name: the network has no parameters on device clock");
    assert_status(ps_trainer_evaluate(trainer, NULL, &evaluation, &test_error), PS_USAGE, "clock");
    assert_ok(ps_trainer_step(trainer, 2, &test_error));
    struct ps_run *run;
    assert_ok(ps_trainer_finish(trainer, &run, &test_error));
    assert_int_equal(ps_run_info(run).steps, 2);
    assert_int_equal(ps_run_info(run).epochs, 0); /* without data there are none */
    ps_run_destroy(run);
    ps_trainer_destroy(trainer);
    training_close(&objects);
}

/* What a run directory could not keep is refused before there is one, and trained without one. */
static void test_not_utf8(void **state) {
    (void)state;
    static float numbers[SAMPLES * SIDE * SIDE];
    static const int32_t labels[SAMPLES] = {0, 1, 2, 3};
    const struct array arrays[] = {
        {.name = "data", .type = ARRAY_F32, .rank = 4, .shape = {SAMPLES, 1, SIDE, SIDE}, .data = numbers},
        {.name = "labels", .type = ARRAY_I32, .rank = 1, .shape = {SAMPLES}, .data = labels}};
    char path[4096], out[4096], place[4096], spec[4200];
    struct training training;
    struct ps_run *run;
    assert_ok(npz_write(file_join(place, test_directory, "d\xff\xe9.npz"), arrays, 2, &test_error));
    snprintf(spec, sizeof spec, "npz:%s", place);
    file_join(out, test_directory, "kept");
    for (int what = 0; what < 3; what++) {
        training_init(&training);
        training.plan_path = put("plan.json", PLAN(SIZES), path);
        training.data = what == 0 ? spec : "synthetic:images,samples=8";
        training.valid = what == 1 ? spec : NULL;
        training.o.groups = what == 2 ? "conv\xff*:lr=2" : NULL;
        training.o.device = "reference";
        training.o.steps = 1;
        training.o.out = out;
        char said[4300];
        snprintf(said, sizeof said, "`%s`: '%s%s%s' is not UTF-8",
                 what == 0   ? "data"
                 : what == 1 ? "valid"
                             : "groups",
                 what < 2 ? "npz:" : "", what < 2 ? test_directory : "", what < 2 ? "/d?\?.npz" : "conv?*:lr=2");
        assert_status(training_run(&training, &run, &test_error), PS_USAGE, said);
        assert_false(file_exists(out));
        if (what == 2) continue;
        training.o.out = NULL;
        assert_ok(training_run(&training, &run, &test_error));
        ps_run_destroy(run);
    }
}

/* Whether one worker evaluates or several. */
static void test_unusable(void **state) {
    (void)state;
    static float numbers[SAMPLES * SIDE * SIDE];
    static const int32_t labels[SAMPLES] = {0, 1, 2, 3};
    const struct array arrays[] = {
        {.name = "data", .type = ARRAY_F32, .rank = 4, .shape = {SAMPLES, 1, SIDE, SIDE}, .data = numbers},
        {.name = "labels", .type = ARRAY_I32, .rank = 1, .shape = {SAMPLES}, .data = labels}};
    char path[4096], out[4096], given[4096], spec[4200];
    struct training training;
    struct ps_run *run;
    struct ps_dataset *data;
    struct ps_evaluation evaluation;
    training_init(&training);
    training.plan_path = put("plan.json", PLAN(SIZES), path);
    training.data = "synthetic:images,samples=8";
    training.o.device = "reference";
    training.o.steps = 1;
    training.o.out = file_join(out, test_directory, "run");
    assert_ok(training_run(&training, &run, &test_error));
    ps_run_destroy(run);
    for (int finite = 1; finite >= 0; finite--) {
        numbers[7] = finite ? 1 : NAN;
        assert_ok(npz_write(file_join(given, test_directory, finite ? "numbers.npz" : "none.npz"), arrays, 2, &test_error));
        snprintf(spec, sizeof spec, "npz:%s", given);
        assert_ok(ps_dataset_open(spec, NULL, &data, &test_error));
        for (int workers = 1; workers <= 2; workers++) {
            const struct ps_evaluate_options options = {
                .struct_size = sizeof options, .run = out, .data = data, .device = "reference", .workers = workers};
            if (finite)
                assert_ok(ps_evaluate(&options, &evaluation, &test_error));
            else
                assert_status(ps_evaluate(&options, &evaluation, &test_error), PS_FAILED,
                              "the loss is not a number: the weights or the data are not usable");
        }
        ps_dataset_destroy(data);
    }
}

static void test_survey(void **state) {
    (void)state;
    struct ps_cluster *cluster;
    struct ps_cluster_measure_options options;
    ps_cluster_measure_options_init(&options);
    options.threads = -1;
    assert_status(ps_cluster_measure(&options, &cluster, &test_error), PS_USAGE, "`threads`: -1 is less than 1");
    options.threads = 1;
    options.device = "gpu";
    assert_status(ps_cluster_measure(&options, &cluster, &test_error), PS_USAGE, "'gpu'");
}

static void test_comparisons(void **state) {
    (void)state;
    char path[4096], profile[4096];
    struct training training;
    struct training_objects objects;
    struct ps_comparison *comparison;
    struct ps_compare_options options = {.struct_size = sizeof options,
                                         .methods = (const char *const[]){"uniform"},
                                         .method_count = 1,
                                         .schedules = (const char *const[]){"gpipe"},
                                         .schedule_count = 1,
                                         .workers = (const int[]){2},
                                         .worker_count = 1};
    static const char wanted[] = "`trainings`: give one training, or a list of them";
    training_init(&training);
    training.plan_path = put("plan.json", PLAN(SIZES), path);
    training.o.device = "clock";
    training.o.steps = 1;
    assert_ok(training_open(&training, &objects, &test_error));
    assert_status(ps_compare_training(&options, &objects.options, &comparison, &test_error), PS_USAGE,
                  "`network`: a training that is compared needs one");
    training_close(&objects);

    training.plan_path = NULL;
    training.profile_path = put("profile.csv", two_layers, profile);
    assert_ok(training_open(&training, &objects, &test_error));
    const struct ps_train_options *const list[] = {&objects.options};
    assert_status(ps_compare_training(&options, NULL, &comparison, &test_error), PS_USAGE, wanted);
    options.trainings = list;
    assert_status(ps_compare_training(&options, NULL, &comparison, &test_error), PS_USAGE, wanted);
    options.training_count = 1;
    assert_status(ps_compare_training(&options, &objects.options, &comparison, &test_error), PS_USAGE, wanted);
    assert_ok(ps_compare_training(&options, NULL, &comparison, &test_error));
    ps_comparison_destroy(comparison);
    /* Why the first row cannot be, where none can. */
    options.workers = (const int[]){3, 4};
    options.worker_count = 2;
    assert_status(ps_compare_training(&options, NULL, &comparison, &test_error), PS_USAGE, "3 workers are more than");
    options.workers = (const int[]){3, 2};
    assert_ok(ps_compare_training(&options, NULL, &comparison, &test_error));
    ps_comparison_destroy(comparison);
    training_close(&objects);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans),       cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_memory),      cmocka_unit_test(test_trainer),
                                       cmocka_unit_test(test_not_utf8),    cmocka_unit_test(test_unusable),
                                       cmocka_unit_test(test_comparisons), cmocka_unit_test(test_survey)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
