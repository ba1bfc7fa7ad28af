/* BaPipe, whole: from a network to one that is split inside its layers for two workers, the schedule and the micro-batches, the
 * simulation, and a run of that plan. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "support.h"
#include "training_support.h"

enum { HEARD_SIZE = 8192 };

/* The times of a board are worked out, so they are the same everywhere. */
static const struct ps_profile_options options = {
    .struct_size = sizeof options, .device = "fpga:vcu118", .micro_batches = (const int[]){2, 4, 8}, .micro_batch_count = 3};

/* Of all work, what the busiest worker does. (Parts of so small layers take longer than the whole; larger ones do not.) */
static double largest_share(const struct ps_plan *plan) {
    double most_s = 0, all_s = 0;
    for (int w = 0; w < plan->workers; w++) {
        most_s = fmax(most_s, plan->predicted.load_s[w]);
        all_s += plan->predicted.load_s[w];
    }
    return most_s / all_s;
}

/* Collects the lines of the log. */
static void hear(void *context, enum ps_log_level level, const char *text) {
    char *heard = context;
    const size_t length = strlen(heard);
    (void)level;
    snprintf(heard + length, HEARD_SIZE - length, "%s\n", text);
}

/* The fastest of BaPipe's schedules and of the sizes of micro-batches that make up a mini-batch of 16. What is simulated is
 * what the plan says. */
static struct ps_plan *find_plan(const struct ps_profile *profile, int workers) {
    static const char *const schedules[] = {"1f1b", "1f1b-so", "1f1b-as", "fbp-as"};
    struct ps_cluster *cluster;
    struct ps_plan *best = NULL, *plan;
    struct ps_simulation *simulation;
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options),
                                                              .workers = workers,
                                                              .bandwidth_bytes_per_s = 1e9},
                                 &cluster, &test_error));
    for (int s = 0; s < 4; s++) {
        struct ps_plan_options wanted = {
            .struct_size = sizeof wanted, .method = "bapipe", .schedule = schedules[s], .weights = "sync", .batch = 16};
        assert_ok(ps_plan_find(profile, cluster, &wanted, &plan, &test_error));
        assert_int_equal(plan->micro_batch * plan->micro_batches, 16);
        if (best && plan->predicted.period_s >= best->predicted.period_s) {
            ps_plan_destroy(plan);
            continue;
        }
        ps_plan_destroy(best);
        best = plan;
    }
    assert_ok(ps_simulate(best, profile, cluster, 0, &simulation, &test_error));
    assert_true(fabs(ps_simulation_info(simulation).period_s - best->predicted.period_s) < 1e-9 * best->predicted.period_s);
    ps_simulation_destroy(simulation);
    ps_cluster_destroy(cluster);
    return best;
}

static void test_split_plan_runs(void **state) {
    (void)state;
    struct ps_network *model;
    struct ps_profile *whole, *split, *again;
    char directory[4096], path[4096];
    assert_ok(ps_network_open("lenet5,input=32,classes=4", &model, &test_error));
    assert_ok(ps_profile_measure(model, &options, &whole, &test_error));
    assert_ok(ps_profile_measure_split(model, &options, 2, &split, &test_error));
    ps_network_destroy(model);
    assert_non_null(strstr(split->model, "lenet5,input=32,classes=4,split="));
    assert_true(split->tables[0].layer_count > whole->tables[0].layer_count);
    struct ps_plan *before = find_plan(whole, 2), *plan = find_plan(split, 2);
    assert_true(largest_share(plan) < largest_share(before));
    assert_string_equal(plan->model, split->model);
    assert_ok(ps_network_open(plan->model, &model, &test_error));
    assert_status(ps_profile_measure_split(model, &options, 2, &again, &test_error), PS_USAGE, "already has split=");
    ps_network_destroy(model);

    test_directory_make(directory);
    assert_ok(ps_plan_write(plan, file_join(path, directory, "plan.json"), &test_error));
    struct training train;
    struct ps_run *run;
    training_init(&train);
    train.plan_path = path;
    train.data = "synthetic:images,samples=32";
    train.o.device = "reference";
    train.o.steps = 4;
    assert_ok(training_run(&train, &run, &test_error));
    assert_int_equal(ps_run_info(run).steps, 4);
    ps_run_destroy(run);
    test_directory_remove(directory);
    ps_plan_destroy(plan);
    ps_plan_destroy(before);
    ps_profile_destroy(whole);
    ps_profile_destroy(split);
}

/* A layer that is most of the network: split, it lets the pipeline run faster, and that is said. */
static void test_split_is_faster(void **state) {
    (void)state;
    struct ps_network *model;
    struct ps_profile *whole, *split;
    char heard[HEARD_SIZE] = "";
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = heard, .level = PS_LOG_INFO, .line = hear};
    struct ps_profile_options heard_options = options;
    heard_options.log = &sink;
    assert_ok(ps_network_open("alexnet,classes=4", &model, &test_error));
    assert_ok(ps_profile_measure(model, &options, &whole, &test_error));
    assert_ok(ps_profile_measure_split(model, &heard_options, 3, &split, &test_error));
    const char *said = strstr(heard, "the slowest of 3 workers takes ");
    assert_true(said && strstr(said, " for a micro-batch of 2 without splits, ") && strstr(said, " with splits\n"));
    struct ps_plan *before = find_plan(whole, 3), *after = find_plan(split, 3);
    assert_true(after->predicted.period_s < 0.95 * before->predicted.period_s);
    ps_plan_destroy(before);
    ps_plan_destroy(after);
    ps_profile_destroy(whole);
    ps_profile_destroy(split);
    ps_network_destroy(model);
}

/* The splits of many workers make a long name, which plans and networks take. */
static void test_long_names(void **state) {
    (void)state;
    struct ps_network *model;
    struct ps_profile *split;
    const struct ps_profile_options one = {
        .struct_size = sizeof one, .device = "fpga:vcu118", .micro_batches = (const int[]){1}, .micro_batch_count = 1};
    assert_ok(ps_network_open("googlenet,input=64,classes=10", &model, &test_error));
    assert_ok(ps_profile_measure_split(model, &one, 12, &split, &test_error));
    ps_network_destroy(model);
    assert_true(strlen(split->model) > 127);
    assert_ok(ps_network_open(split->model, &model, &test_error));
    assert_string_equal(ps_network_info(model).name, split->model);
    ps_network_destroy(model);
    ps_profile_destroy(split);
}

/* The boundary follows the workers' speeds and types, and is left between layers where the link does not hide the transfer. */
static void test_unlike_workers(void **state) {
    (void)state;
    static const char *const types[3][2] = {
        {"fpga:vcu118", "fpga:vcu118"}, {"fpga:vcu118", "fpga:vcu129"}, {"fpga:vcu129", "fpga:vcu118"}};
    char names[3][200];
    struct ps_network *model;
    struct ps_profile *split;
    struct ps_cluster *cluster;
    struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = 2, .bandwidth_bytes_per_s = 1e12};
    assert_ok(ps_network_open("alexnet,classes=10", &model, &test_error));
    char heard[HEARD_SIZE];
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = heard, .level = PS_LOG_INFO, .line = hear};
    struct ps_profile_options heard_options = options;
    heard_options.log = &sink;
    for (int c = 0; c < 3; c++) {
        heard[0] = '\0';
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        for (int w = 0; w < 2; w++) snprintf(cluster->devices[w].type, sizeof cluster->devices[w].type, "%s", types[c][w]);
        assert_ok(ps_profile_measure_split_for(model, &heard_options, cluster, &split, &test_error));
        const bool needs = strstr(heard, "plans for this cluster need the profile of fpga:vcu129, too: penstock profile");
        assert_int_equal(needs, c > 0);
        assert_non_null(strstr(heard, "the slowest of 2 workers takes "));
        snprintf(names[c], sizeof names[c], "%s", split->model);
        assert_non_null(strstr(names[c], "split="));
        for (int d = 0; d < c; d++) assert_string_not_equal(names[c], names[d]);
        const struct ps_profile *other = split->other_device; /* the split network's costs on the other type */
        assert_int_equal(other != NULL, c > 0);
        if (other) assert_string_equal(other->device, "fpga:vcu129");
        if (other) assert_string_equal(other->model, split->model);
        ps_profile_destroy(split);
        ps_cluster_destroy(cluster);
    }
    machines.bandwidth_bytes_per_s = 1000;
    heard[0] = '\0';
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    assert_ok(ps_profile_measure_split_for(model, &heard_options, cluster, &split, &test_error));
    assert_non_null(strstr(heard, "no boundary between 2 workers falls into a layer"));
    assert_null(strstr(heard, "the slowest of"));
    assert_null(strstr(split->model, "split="));
    ps_profile_destroy(split);
    ps_cluster_destroy(cluster);
    ps_network_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split_plan_runs), cmocka_unit_test(test_split_is_faster),
                                       cmocka_unit_test(test_long_names), cmocka_unit_test(test_unlike_workers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
