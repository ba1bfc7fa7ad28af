/*
 * Plans that come with a periodic pattern, from planner to trained weights, with and without slack: MadPipe's with several
 * stages on a worker, Bi-Partition's with the two directions of a stage on different workers and slow links. Threads give the
 * bits of one thread.
 */
#include "run_support.h"

#define MODEL "lenet5,input=16,classes=4"
enum { LAYERS = 7 };

struct planned {
    const char *method, *weights, *schedule;
    int workers, stages, slack;
    double forward_ms[LAYERS], backward_ms[LAYERS], latency_s, period_s;
};

static struct ps_profile *make_profile(const struct planned *planned) {
    struct ps_network *model;
    struct ps_profile *profile;
    assert_ok(ps_network_open(MODEL, &model, &test_error));
    assert_int_equal(ps_network_info(model).layers, LAYERS);
    assert_ok(profile_create(1, LAYERS, &profile, &test_error));
    snprintf(profile->model, sizeof profile->model, "%s", MODEL);
    profile->tables[0].micro_batch = 4;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "%s", ps_network_layer(model, l).name);
        layer->time = (struct layer_times){.forward_s = 1e-3 * planned->forward_ms[l],
                                           .backward_input_s = 1e-3 * planned->backward_ms[l]};
        layer->size = (struct layer_sizes){.parameter_bytes = 64, .output_bytes = 64, .value_bytes = 64, .stash_bytes = 64};
    }
    ps_network_destroy(model);
    return profile;
}

static struct trained train(const char *plan_path, const char *transport) {
    char out[4096];
    struct run_case wanted =
        run_case_complete((struct run_case){.steps = 20, .lr = 0.01, .evaluate_every = 7, .transport = transport});
    wanted.data = "synthetic:images,samples=96";
    struct training options = run_case_options(&wanted, plan_path, file_join(out, test_directory, transport));
    struct ps_run *run;
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    return trained_read(MODEL, out);
}

static void check_plan(const struct planned *planned) {
    char path[4096];
    struct ps_profile *profile = make_profile(planned);
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    struct ps_cluster_options cluster_options = {
        .struct_size = sizeof cluster_options, .workers = planned->workers, .latency_s = planned->latency_s};
    struct ps_plan_options options = {
        .struct_size = sizeof options, .method = planned->method, .weights = planned->weights, .slack = planned->slack};
    assert_ok(ps_cluster_uniform(&cluster_options, &cluster, &test_error));
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    if (planned->schedule) assert_string_equal(plan->schedule, planned->schedule);
    assert_int_equal(plan->stage_count, planned->stages);
    assert_int_equal(plan->slack, planned->slack);
    assert_true(plan->predicted.simulated && fabs(plan->predicted.period_s - planned->period_s) < 1e-8);
    test_directory_make(test_directory);
    assert_ok(ps_plan_write(plan, file_join(path, test_directory, "plan.json"), &test_error));
    struct trained threads = train(path, "threads"), serial = train(path, "serial");
    assert_true(trained_equal(&threads, &serial));
    trained_free(&threads);
    trained_free(&serial);
    test_directory_remove(test_directory);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Two workers do best if one has both ends: a 2, 6 and 4 ms piece. */
static void test_several_stages(void **state) {
    (void)state;
    struct planned planned = {
        "madpipe", NULL, "pattern", 2, 3, 0, {1, 0.6, 0.6, 0.6, 0.6, 0.6, 2}, {1, 0.6, 0.6, 0.6, 0.6, 0.6, 2}, 0, 6e-3};
    static const char *const policies[] = {"pipeoptim", "stash"};
    for (int p = 0; p < 2; p++) {
        planned.weights = policies[p];
        planned.slack = 2 * p;
        check_plan(&planned);
    }
}

/* The paper's example of four layers, the first in four pieces: 9 ms where the directions are cut apart. 1F1B with three
 * micro-batches under way would wait for the links; with slack it is as good. */
static void test_split_stages(void **state) {
    (void)state;
    struct planned planned = {
        "bipartition", NULL, NULL, 3, 4, 0, {0.25, 0.25, 0.25, 0.25, 3, 2, 3}, {0.5, 0.5, 0.5, 0.5, 6, 4, 6}, 2e-3, 9e-3};
    static const char *const policies[] = {"pipeoptim", "stash", "latest", "xpipe"};
    for (int p = 0; p < 4; p++) {
        planned.weights = policies[p];
        planned.slack = p;
        planned.schedule = p > 0 ? NULL : "pattern";
        check_plan(&planned);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_several_stages), cmocka_unit_test(test_split_stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
