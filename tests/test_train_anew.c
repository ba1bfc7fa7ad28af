/*
 * A run goes on with something else than it had: another network of machines, other micro-batches, another profile, more steps;
 * runs of earlier versions, which keep no network; and a checkpoint of another run in its directory.
 */
#include <sched.h>

#include "plan/plan.h"
#include "resume_support.h"

static const char network_spec[] = "lenet5,input=16,classes=4";

/* The names of its schedule and policy are there until the next call, and no others. */
static struct ps_plan_info plan_of(const char *run_dir) {
    static char schedule[64], weights[64];
    char path[4096];
    struct ps_plan *plan;
    assert_ok(ps_plan_read(file_join(path, run_dir, "plan.json"), &plan, &test_error));
    struct ps_plan_info info = ps_plan_info(plan);
    snprintf(schedule, sizeof schedule, "%s", info.schedule);
    snprintf(weights, sizeof weights, "%s", info.weights);
    info.schedule = schedule;
    info.weights = weights;
    info.model = info.method = info.optimizer = NULL;
    ps_plan_destroy(plan);
    return info;
}

static int64_t steps_of(const char *run_dir) {
    json_t *summary = read_summary(run_dir);
    const int64_t steps = json_integer_value(json_object_get(summary, "step"));
    json_decref(summary);
    return steps;
}

static struct training small(const char *name, char out[4096]) {
    struct training options;
    training_init(&options);
    options.model = network_spec;
    options.data = "synthetic:images,samples=97#train";
    options.o.out = file_join(out, test_directory, name);
    options.o.device = test_device("reference");
    options.o.batch = 8;
    options.o.threads = 1; /* the thread sanitizer sees no barriers of two (tsan.supp), which a fast machine prefers */
    options.o.steps = 4;
    options.o.checkpoint_every = 2;
    options.o.keep_checkpoints = 100;
    options.plan.schedule = "1f1b";
    options.plan.weights = "sync";
    options.plan.micro_batch = 4;
    options.plan.micro_batches = 2;
    return options;
}

/* The cluster that the run was planned for is kept with it; another may be given. */
static void test_cluster(void **state) {
    (void)state;
    static const char two[] =
        "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}], "
        "\"links\": []}",
                      one[] =
                          "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}], \"links\": []}";
    char out[4096], path[4096], other[4096];
    struct training options = small("cluster", out);
    test_file_write(file_join(path, test_directory, "two.json"), two, sizeof two - 1);
    test_file_write(file_join(other, test_directory, "one.json"), one, sizeof one - 1);
    options.cluster_path = path;
    train(&options);
    assert_int_equal(plan_of(out).workers, 2);
    unlink(path);
    /* What its devices and links are like is not said beside it. */
    static const struct {
        const char *name;
        struct ps_cluster_options said;
    } beside[] = {
        {"memory_bytes", {.memory_bytes = 1}}, {"bandwidth_bytes_per_s", {.bandwidth_bytes_per_s = 0.5}},
        {"latency_s", {.latency_s = 1e-6}},    {"no_overlap", {.no_overlap = true}},
        {"streaming", {.streaming = true}},    {"cores", {.cores = 1}},
    };
    for (size_t b = 0; b < sizeof beside / sizeof *beside; b++) {
        struct ps_run *run;
        char part[160];
        options = resume_options(out);
        options.o.steps = 6;
        options.cluster = beside[b].said;
        options.cluster.struct_size = sizeof options.cluster;
        snprintf(part, sizeof part, "`%s`: the cluster that the run was planned for says it; give another by `cluster`",
                 beside[b].name);
        assert_status(training_run(&options, &run, &test_error), PS_USAGE, part);
    }
    options = resume_options(out);
    options.o.steps = 6;
    options.plan.micro_batch = 2; /* planned anew, for the run's own cluster */
    options.plan.micro_batches = 4;
    train(&options);
    assert_int_equal(steps_of(out), 6);
    assert_int_equal(plan_of(out).workers, 2);
    assert_int_equal(plan_of(out).micro_batches, 4);
    options.o.steps = 8;
    options.cluster_path = other;
    train(&options);
    assert_int_equal(steps_of(out), 8);
    assert_int_equal(plan_of(out).workers, 1);
}

/* A new plan keeps the schedule and the weights of the old one, which nobody had said. */
static void test_kept_methods(void **state) {
    (void)state;
    char out[4096], plan_path[4096];
    const struct run_case wanted = {.schedule = "1f1b-async", .weights = "stash", .workers = 3, .steps = 2};
    struct training options = prepare(wanted, "methods", plan_path, out);
    train(&options);
    options = resume_options(out);
    options.o.steps = 4;
    options.o.threads = 1;
    options.cluster.workers = 2;
    train(&options);
    assert_int_equal(steps_of(out), 4);
    assert_int_equal(plan_of(out).workers, 2);
    assert_string_equal(plan_of(out).schedule, "1f1b-async");
    assert_string_equal(plan_of(out).weights, "stash");
}

/* Other micro-batches are another plan, of a profile that is measured anew or given; the mini-batch must stay. */
static void test_micro_batches(void **state) {
    (void)state;
    char out[4096], copy[4096], path[4096];
    struct ps_run *run;
    struct training options = small("micro", out);
    train(&options);
    interrupted_copy(out, 2, file_join(copy, test_directory, "copy"));
    options = resume_options(copy);
    options.plan.micro_batch = 3;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE,
                  "`micro_batch`: 3 does not divide the mini-batch of 8 samples; 2 and 4 do");
    options.plan.micro_batch = 2;
    options.plan.micro_batches = 4;
    assert_int_equal(unlink(file_join(path, copy, "network.json")), 0); /* earlier versions kept none */
    train(&options);
    assert_int_equal(plan_of(copy).micro_batch, 2);
    assert_int_equal(steps_of(copy), 4);
    struct trained a = trained_read(network_spec, out), b = trained_read(network_spec, copy);
    for (size_t i = 0; i < a.count; i++) /* the same mini-batches, summed in another order */
        if (!(fabsf(a.values[i] - b.values[i]) <= 1e-4f))
            fail_msg("weight %zu: %g, %g", i, (double)a.values[i], (double)b.values[i]);
    trained_free(&a);
    trained_free(&b);
    /* The profile of the run is of micro-batches of 2 now; another is used where it is given. */
    char profile[4096];
    file_join(profile, out, "profile.json");
    options = resume_options(copy);
    options.o.steps = 6;
    options.cluster.workers = 2;
    options.profile_path = profile;
    options.plan.micro_batch = 4;
    options.plan.micro_batches = 2;
    train(&options);
    assert_int_equal(plan_of(copy).micro_batch, 4);
    assert_int_equal(plan_of(copy).workers, 2);
}

/* Whole, but not of this run. */
static void test_other_checkpoint(void **state) {
    (void)state;
    char out[4096], other[4096], from[4096], to[4096];
    struct ps_run *run;
    struct training options = small("own", out);
    train(&options);
    options = small("other", other);
    options.o.seed = 7;
    options.o.steps = 6;
    train(&options);
    shell("cp -r '%s' '%s'", checkpoint_path(other, 6, from), checkpoint_path(out, 6, to));
    options = resume_options(out);
    options.o.steps = 10;
    assert_status(training_run(&options, &run, &test_error), PS_BAD_INPUT, "is of another run: seed 7, step 6");
    shell("rm -r '%s'%s", to, "");
    train(&options);
    assert_int_equal(steps_of(out), 10);
}

/* Two workers on one core, of which nothing was said: the plan knows that one computes at a time. */
static void test_one_core(void **state) {
    (void)state;
    char out[4096], path[4096];
    struct training options = small("core", out);
    struct ps_plan *plan;
    cpu_set_t usable, one;
    int core = 0;
    options.cluster.workers = 2;
    options.plan.method = "uniform";
    options.plan.schedule = "1f1b-async";
    options.plan.weights = "stash";
    options.plan.micro_batch = 8;
    options.plan.micro_batches = 1;
    assert_int_equal(sched_getaffinity(0, sizeof usable, &usable), 0);
    while (!CPU_ISSET(core, &usable)) core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    train(&options);
    assert_int_equal(sched_setaffinity(0, sizeof usable, &usable), 0);
    assert_ok(ps_plan_read(file_join(path, out, "plan.json"), &plan, &test_error));
    const double all_s = plan->predicted.load_s[0] + plan->predicted.load_s[1];
    if (!(plan->predicted.period_s >= all_s * (1 - 1e-6)))
        fail_msg("a period of %g s, where the workers compute %g s", plan->predicted.period_s, all_s);
    ps_plan_destroy(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cluster), cmocka_unit_test(test_micro_batches),
                                       cmocka_unit_test(test_other_checkpoint), cmocka_unit_test(test_kept_methods),
                                       cmocka_unit_test(test_one_core)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
