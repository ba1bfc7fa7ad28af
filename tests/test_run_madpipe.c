/* A plan of MadPipe with several stages on a worker, from planner to trained weights: threads give the bits of one thread. */
#include "run_support.h"

#define MODEL "lenet5,input=16,classes=4"

/* Times with which two workers do best if one has both ends: a 2, 6 and 4 ms piece. */
static struct ps_profile *make_profile(void) {
    struct ps_model *model;
    struct ps_profile *profile;
    assert_ok(ps_model_create(MODEL, &model, &test_error));
    int layers = ps_model_info(model).layers;
    assert_ok(profile_create(1, layers, &profile, &test_error));
    snprintf(profile->model, sizeof profile->model, "%s", MODEL);
    profile->tables[0].micro_batch = 4;
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        double piece_s = l == 0 ? 2e-3 : l < layers - 1 ? 6e-3 / (layers - 2) : 4e-3;
        snprintf(layer->name, sizeof layer->name, "%s", ps_model_layer(model, l).name);
        layer->time = (struct layer_times){.forward_s = piece_s / 2, .backward_input_s = piece_s / 2};
        layer->size = (struct layer_sizes){.parameter_bytes = 64, .output_bytes = 64, .value_bytes = 64, .stash_bytes = 64};
    }
    ps_model_destroy(model);
    return profile;
}

static void test_threads_and_serial_agree(void **state) {
    (void)state;
    static const char *const policies[] = {"pipeoptim", "stash"}, *const transports[] = {"threads", "serial"};
    struct ps_profile *profile = make_profile();
    struct ps_cluster *cluster;
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.workers = 2}, &cluster, &test_error));
    for (int p = 0; p < 2; p++) {
        char directory[4096], plan_path[4096], out[4096];
        struct trained trained[2];
        struct ps_plan *plan;
        struct ps_plan_options plan_options = {.method = "madpipe", .weights = policies[p]};
        assert_ok(ps_plan_find(profile, cluster, &plan_options, &plan, &test_error));
        assert_string_equal(plan->schedule, "pattern");
        assert_int_equal(plan->stage_count, 3);
        assert_true(plan->predicted.simulated && fabs(plan->predicted.period_s - 6e-3) < 1e-8);
        test_directory_make(directory);
        assert_ok(ps_plan_write(plan, file_join(plan_path, directory, "plan.json"), &test_error));
        ps_plan_destroy(plan);
        for (int t = 0; t < 2; t++) {
            struct run_case wanted = run_case_complete((struct run_case){.steps = 20, .evaluate_every = 7, .transport = transports[t]});
            wanted.data = "synthetic:images,samples=96";
            struct ps_train_options options = run_case_options(&wanted, plan_path, file_join(out, directory, transports[t]));
            struct ps_run *run;
            assert_ok(ps_train(&options, &run, &test_error));
            ps_run_destroy(run);
            trained[t] = trained_read(MODEL, out);
        }
        assert_true(trained_equal(&trained[0], &trained[1]));
        trained_free(&trained[0]);
        trained_free(&trained[1]);
        test_directory_remove(directory);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_and_serial_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
