/* Clusters of several types of devices, each with a profile of its own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"
#include "support.h"

enum { LAYERS = 4 };

/* Layers that all take `forward_s` forward and nothing backward, but the last, which takes `last_s`. */
static void write_profile(const char *directory, const char *device, double forward_s, double last_s, int layers) {
    struct ps_profile *profile;
    char path[4200];
    assert_ok(profile_create(1, layers, &profile, &test_error));
    snprintf(profile->model, sizeof profile->model, "chain");
    snprintf(profile->device, sizeof profile->device, "%s", device);
    profile->threads = 1;
    profile->tables[0].micro_batch = 1;
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        snprintf(layer->kind, sizeof layer->kind, "linear");
        layer->time.forward_s = l == layers - 1 ? last_s : forward_s;
    }
    snprintf(path, sizeof path, "%s/%s.json", directory, device);
    assert_ok(ps_profile_write(profile, path, &test_error));
    ps_profile_destroy(profile);
}

static void write_cluster(const char *directory, const char *first, const char *second, char path[4200]) {
    char text[512];
    snprintf(path, 4200, "%s/cluster.json", directory);
    snprintf(text, sizeof text,
             "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\", \"type\": \"%s\"}, "
             "{\"name\": \"b\", \"type\": \"%s\"}]}",
             first, second);
    test_file_write(path, text, strlen(text));
}

/* Profiles of two types of devices on one cluster, in a directory of their own. On `wide` every layer takes 1 s; on `deep` the
 * last takes 1 s and the others 3 s. */
struct types {
    char directory[4096], paths[8600];
    struct ps_profile *profile;
    struct ps_cluster *cluster;
};

static void make_types(const char *first, const char *second, struct types *types) {
    char cluster_path[4200];
    test_directory_make(types->directory);
    write_profile(types->directory, "wide", 1, 1, LAYERS);
    write_profile(types->directory, "deep", 3, 1, LAYERS);
    snprintf(types->paths, sizeof types->paths, "%s/wide.json,%s/deep.json", types->directory, types->directory);
    write_cluster(types->directory, first, second, cluster_path);
    assert_ok(ps_profile_read(types->paths, &types->profile, &test_error));
    assert_ok(ps_cluster_read(cluster_path, &types->cluster, &test_error));
}

static void free_types(struct types *types) {
    ps_cluster_destroy(types->cluster);
    ps_profile_destroy(types->profile);
    test_directory_remove(types->directory);
}

/* Told apart, three layers on wide and the last on deep take 3 s; with the types exchanged, deep in front, one layer on deep
 * and three on wide do. */
static void each_type_has_its_costs(void **state) {
    (void)state;
    const char *const order[2][2] = {{"wide", "deep"}, {"deep", "wide"}};
    for (int o = 0; o < 2; o++) {
        struct types types;
        struct ps_plan *plan;
        struct ps_simulation *simulation;
        make_types(order[o][0], order[o][1], &types);
        struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "pipedream", .schedule = "1f1b-async", .weights = "latest"};
        assert_ok(ps_plan_find(types.profile, types.cluster, &options, &plan, &test_error));
        assert_int_equal(plan->stages[0].last, o == 0 ? LAYERS - 2 : 0);
        assert_ok(ps_simulate(plan, types.profile, types.cluster, 64, &simulation, &test_error));
        assert_true(fabs(ps_simulation_info(simulation).period_s - 3) < 1e-9);
        ps_simulation_destroy(simulation);
        ps_plan_destroy(plan);
        free_types(&types);
    }
}

/* Replicas on unlike devices: the slower one sets the pace of a shared mini-batch. Four micro-batches on each, four layers. */
static void replicas_have_their_own_costs(void **state) {
    (void)state;
    static const int both[2] = {0, 1};
    struct types types;
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    make_types("wide", "deep", &types);
    assert_ok(plan_create(2, 1, &plan, &test_error));
    snprintf(plan->model, sizeof plan->model, "chain");
    snprintf(plan->schedule, sizeof plan->schedule, "gpipe");
    snprintf(plan->weights, sizeof plan->weights, "sync");
    plan->micro_batch = 1;
    plan->micro_batches = 8;
    assert_ok(plan_stage_workers(plan, 0, both, 2, both, 2, &test_error));
    plan->stages[0].last = LAYERS - 1;
    assert_ok(ps_simulate(plan, types.profile, types.cluster, 4, &simulation, &test_error));
    assert_true(fabs(ps_simulation_info(simulation).period_s - 4 * 10) < 1e-9);
    assert_true(fabs(ps_simulation_worker(simulation, 0).busy_s - 4 * 16) < 1e-9);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    free_types(&types);
}

/* Of a stage that two pipelines share each half has its own worker's costs, in the search as in the simulation of its plan. */
static void mirrored_stages_have_their_own_costs(void **state) {
    (void)state;
    struct types types;
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    make_types("wide", "deep", &types);
    struct ps_plan_options options = {
        .struct_size = sizeof options, .method = "uniform", .schedule = "chimera", .micro_batches = 4};
    assert_ok(ps_plan_find(types.profile, types.cluster, &options, &plan, &test_error));
    assert_ok(ps_simulate(plan, types.profile, types.cluster, 0, &simulation, &test_error));
    assert_true(fabs(ps_simulation_info(simulation).period_s - plan->predicted.period_s) < 1e-9);
    /* Half of the micro-batches have all but the last layer on each of the two. */
    assert_true(plan->predicted.period_s > 2 * (2 * 3 + 1));
    ps_simulation_destroy(simulation);
    ps_plan_destroy(plan);
    free_types(&types);
}

static void contradictions_are_named(void **state) {
    (void)state;
    struct types types;
    char paths[8600], cluster_path[4200];
    make_types("wide", "deep", &types);
    const char *directory = types.directory;
    write_profile(directory, "short", 1, 1, LAYERS - 1);
    struct ps_profile *profile;
    snprintf(paths, sizeof paths, "%s/wide.json,%s/short.json", directory, directory);
    assert_status(ps_profile_read(paths, &profile, &test_error), PS_BAD_INPUT,
                  "1 sizes of 3 layers, but the profile on wide has 1 of 4");
    snprintf(paths, sizeof paths, "%s/wide.json,%s/wide.json", directory, directory);
    assert_status(ps_profile_read(paths, &profile, &test_error), PS_BAD_INPUT, "'wide' has a profile already");
    snprintf(paths, sizeof paths, "%s/wide.json,%s/none.json", directory, directory);
    assert_status(ps_profile_read(paths, &profile, &test_error), PS_BAD_INPUT, "none.json");
    struct ps_cluster *flat;
    struct ps_plan *plan;
    struct ps_plan_options options = {.struct_size = sizeof options};
    write_cluster(directory, "wide", "flat", cluster_path);
    assert_ok(ps_cluster_read(cluster_path, &flat, &test_error));
    assert_status(ps_plan_find(types.profile, flat, &options, &plan, &test_error), PS_USAGE,
                  "devices[1].type: 'flat' has no profile");
    ps_cluster_destroy(flat);
    options.method = "bipartition-paper";
    assert_status(ps_plan_find(types.profile, types.cluster, &options, &plan, &test_error), PS_USAGE,
                  "the cluster has several");
    free_types(&types);
}

/* Two layers; "fore" takes 1 s for each forward and 4 s for each backward, "back" the other way round. Cut once, whoever has a
 * layer takes 5 s for it; with the forwards on fore and the backwards on back both take 2 s. */
static void forwards_and_backwards_go_where_they_are_fast(void **state) {
    (void)state;
    char directory[4096], paths[8600], cluster_path[4200];
    test_directory_make(directory);
    for (int device = 0; device < 2; device++) {
        struct ps_profile *profile;
        assert_ok(profile_create(1, 2, &profile, &test_error));
        snprintf(profile->model, sizeof profile->model, "chain");
        snprintf(profile->device, sizeof profile->device, "%s", device ? "back" : "fore");
        profile->threads = profile->tables[0].micro_batch = 1;
        for (int l = 0; l < 2; l++) {
            struct layer_cost *layer = &profile->tables[0].layers[l];
            snprintf(layer->name, sizeof layer->name, "layer%d", l);
            snprintf(layer->kind, sizeof layer->kind, "linear");
            layer->time = (struct layer_times){.forward_s = device ? 4 : 1, .backward_input_s = device ? 1 : 4};
        }
        snprintf(paths, sizeof paths, "%s/%d.json", directory, device);
        assert_ok(ps_profile_write(profile, paths, &test_error));
        ps_profile_destroy(profile);
    }
    snprintf(paths, sizeof paths, "%s/0.json,%s/1.json", directory, directory);
    /* In the given order and, for bipartition-order, in the wrong one. */
    static const char *const methods[2] = {"bipartition", "bipartition-order"};
    for (int order = 0; order < 2; order++) {
        struct ps_profile *profile;
        struct ps_cluster *cluster;
        struct ps_plan *plan;
        write_cluster(directory, order ? "back" : "fore", order ? "fore" : "back", cluster_path);
        assert_ok(ps_profile_read(paths, &profile, &test_error));
        assert_ok(ps_cluster_read(cluster_path, &cluster, &test_error));
        struct ps_plan_options options = {
            .struct_size = sizeof options, .method = methods[order], .schedule = "1f1b-async", .weights = "latest"};
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_true(fabs(plan->predicted.objective_s - 2) < 1e-9);
        assert_true(plan->predicted.simulated);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    test_directory_remove(directory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_has_its_costs),
        cmocka_unit_test(replicas_have_their_own_costs),
        cmocka_unit_test(mirrored_stages_have_their_own_costs),
        cmocka_unit_test(contradictions_are_named),
        cmocka_unit_test(forwards_and_backwards_go_where_they_are_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
