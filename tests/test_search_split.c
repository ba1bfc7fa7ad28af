/* From a network to one that is split inside its layers for two workers, its plan, and a run of that plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "support.h"

/* The times of a board are worked out, so they are the same everywhere. */
static const struct ps_profile_options options = {
    .device = "fpga:vcu118", .micro_batches = (const int[]){4}, .micro_batch_count = 1};

/* Of all work, what the busiest worker does. (Parts of so small layers take longer than the whole; larger ones do not.) */
static double largest_share(const struct ps_plan *plan) {
    double most_s = 0, all_s = 0;
    for (int w = 0; w < plan->workers; w++) {
        most_s = fmax(most_s, plan->predicted.load_s[w]);
        all_s += plan->predicted.load_s[w];
    }
    return most_s / all_s;
}

static struct ps_plan *find_plan(const struct ps_profile *profile) {
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.workers = 2}, &cluster, &test_error));
    assert_ok(ps_plan_find(profile, cluster, &(struct ps_plan_options){.method = "bapipe"}, &plan, &test_error));
    ps_cluster_destroy(cluster);
    return plan;
}

static void test_split_plan_runs(void **state) {
    (void)state;
    struct ps_model *model;
    struct ps_profile *whole, *split, *again;
    char directory[4096], path[4096];
    assert_ok(ps_model_create("lenet5,input=32,classes=4", &model, &test_error));
    assert_ok(ps_profile_measure(model, &options, &whole, &test_error));
    assert_ok(ps_profile_measure_split(model, &options, 2, &split, &test_error));
    ps_model_destroy(model);
    assert_non_null(strstr(split->model, "lenet5,input=32,classes=4,split="));
    assert_true(split->tables[0].layer_count > whole->tables[0].layer_count);
    struct ps_plan *before = find_plan(whole), *plan = find_plan(split);
    assert_true(largest_share(plan) < largest_share(before));
    assert_string_equal(plan->model, split->model);
    assert_ok(ps_model_create(plan->model, &model, &test_error));
    assert_status(ps_profile_measure_split(model, &options, 2, &again, &test_error), PS_USAGE, "says its splits already");
    ps_model_destroy(model);

    test_directory_make(directory);
    assert_ok(ps_plan_write(plan, file_join(path, directory, "plan.json"), &test_error));
    struct ps_train_options train;
    struct ps_run *run;
    ps_train_options_init(&train);
    train.plan_path = path;
    train.data = "synthetic:images,samples=32";
    train.device = "reference";
    train.steps = 4;
    assert_ok(ps_train(&train, &run, &test_error));
    assert_int_equal(ps_run_info(run).steps, 4);
    ps_run_destroy(run);
    test_directory_remove(directory);
    ps_plan_destroy(plan);
    ps_plan_destroy(before);
    ps_profile_destroy(whole);
    ps_profile_destroy(split);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_split_plan_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
