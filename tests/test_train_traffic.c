/*
 * What workers send and receive: a run counts what the simulation of as many mini-batches counts, to the byte, for every
 * schedule, for replicas and for split stages; and both count what crosses the cuts.
 */
#include "run_support.h"

enum { STEPS = 4, MICRO_BATCH = 2 };

static struct ps_profile *profile_of(const struct run_case *wanted) {
    struct ps_network *network;
    struct ps_profile *profile;
    assert_ok(ps_network_open(wanted->model, &network, &test_error));
    const struct ps_profile_options options = {.struct_size = sizeof options,
                                               .micro_batches = (const int[]){MICRO_BATCH},
                                               .micro_batch_count = 1,
                                               .repeats = 1,
                                               .device = "reference"};
    assert_ok(ps_profile_measure(network, &options, &profile, &test_error));
    ps_network_destroy(network);
    return profile;
}

/* Returns the bytes that all workers sent. */
static int64_t check_case(struct run_case wanted, const struct ps_profile *profile) {
    char directory[4096];
    struct ps_run *run;
    struct ps_simulation *simulation;
    struct ps_cluster *cluster;
    int64_t sent = 0, received = 0;
    wanted.micro_batch = MICRO_BATCH;
    wanted.steps = STEPS;
    wanted.lr = 0.01;
    wanted = run_case_complete(wanted);
    run_case_train(wanted, directory, &run);
    struct ps_plan *plan = run_case_plan(&wanted);
    assert_ok(ps_cluster_uniform(
        &(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = wanted.workers}, &cluster,
        &test_error));
    assert_ok(ps_simulate(plan, profile, cluster, STEPS, &simulation, &test_error));
    for (int w = 0; w < wanted.workers; w++) {
        struct ps_run_worker ran = ps_run_worker(run, w);
        struct ps_simulation_worker simulated = ps_simulation_worker(simulation, w);
        if (ran.sent_bytes != simulated.sent_bytes || ran.received_bytes != simulated.received_bytes)
            fail_msg("%s, %s, worker %d: sent %lld and received %lld, simulated %lld and %lld", wanted.schedule, wanted.weights,
                     w, (long long)ran.sent_bytes, (long long)ran.received_bytes, (long long)simulated.sent_bytes,
                     (long long)simulated.received_bytes);
        sent += ran.sent_bytes;
        received += ran.received_bytes;
    }
    assert_int_equal(sent, received);
    ps_simulation_destroy(simulation);
    ps_cluster_destroy(cluster);
    ps_plan_destroy(plan);
    ps_run_destroy(run);
    test_directory_remove(directory);
    return sent;
}

static void test_every_schedule(void **state) {
    const struct ps_profile *profile = *state;
    for (int s = 0; schedule_table[s]; s++) {
        if (strcmp(schedule_table[s]->name, "pattern") == 0) continue;
        struct run_case wanted = {.schedule = schedule_table[s]->name,
                                  .weights = schedule_table[s]->flush ? "sync" : "stash",
                                  .workers = schedule_replicas(schedule_table[s]) > 1 ? 4 : 3,
                                  .micro_batches = 4};
        assert_true(check_case(wanted, profile) > 0);
    }
    assert_int_equal(check_case((struct run_case){.schedule = "1f1b", .workers = 1}, profile), 0);
}

/* Each micro-batch crosses each cut twice, with what the profile says of it. */
static void test_cuts(void **state) {
    const struct ps_profile *profile = *state;
    struct run_case wanted = run_case_complete((struct run_case){.schedule = "gpipe", .workers = 3, .micro_batches = 2});
    struct ps_plan *plan = run_case_plan(&wanted);
    int64_t bytes = 0;
    for (int s = 0; s < 2; s++) bytes += 2 * profile->tables[0].layers[plan->stages[s].last].size.output_bytes;
    ps_plan_destroy(plan);
    assert_int_equal(check_case(wanted, profile), STEPS * 2 * bytes);
}

/* A stage of three replicas sums its gradients around a ring: each sends four thirds of them, an update at a time. */
static void test_replicas(void **state) {
    const struct ps_profile *profile = *state;
    check_case((struct run_case){.schedule = "1f1b", .replicas = {2, 1}, .micro_batches = 2}, profile);
    check_case((struct run_case){.schedule = "1f1b-async", .weights = "latest", .replicas = {1, 2}}, profile);
    int64_t parameters = 0;
    for (int l = 0; l < profile->tables[0].layer_count; l++) parameters += profile->tables[0].layers[l].size.parameter_bytes;
    int64_t sent = check_case((struct run_case){.schedule = "1f1b", .replicas = {3}, .micro_batches = 3}, profile);
    assert_true(llabs(sent - STEPS * 4 * parameters) <= 3L * STEPS);
}

/* Stashes and new weights travel, too. */
static void test_split(void **state) {
    static const struct split_case split = {
        .layers = 7, .workers = 3, .forward = {0, 0, 0, 1, 1, 2, 2}, .backward = {0, 0, 1, 1, 2, 2, 2}};
    check_case((struct run_case){.schedule = "1f1b-async", .weights = "stash", .split = &split}, *state);
    check_case((struct run_case){.schedule = "1f1b", .split = &split, .micro_batches = 3}, *state);
}

static int set_up(void **state) {
    const struct run_case wanted = run_case_complete((struct run_case){0});
    *state = profile_of(&wanted);
    return 0;
}

static int tear_down(void **state) {
    ps_profile_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_schedule), cmocka_unit_test(test_cuts),
                                       cmocka_unit_test(test_replicas), cmocka_unit_test(test_split)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
