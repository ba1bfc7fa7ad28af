/*
 * What workers send and receive: a run counts what the simulation of as many mini-batches counts, to the byte, for every
 * schedule, for replicas and for split stages; and both count what crosses the cuts. The trace of the run has each block once,
 * and none that arrives after the computation that reads it has begun.
 */
#include <jansson.h>

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

static int64_t argument(const json_t *event, const char *name) {
    return json_integer_value(json_object_get(json_object_get(event, "args"), name));
}

/* Microseconds, of which the trace has three decimals. */
static double start_of(const json_t *event) { return json_number_value(json_object_get(event, "ts")); }
static double end_of(const json_t *event) { return start_of(event) + json_number_value(json_object_get(event, "dur")); }

static bool is_of(const json_t *event, int process) {
    return strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0 &&
           json_integer_value(json_object_get(event, "pid")) == process;
}

/* The computation that reads an activation or a gradient begins when it is there. */
static void check_reader(const json_t *events, const json_t *transfer, bool gradient) {
    const int64_t stage = argument(transfer, "stage") + (gradient ? -1 : 1);
    int found = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        const char *op = json_string_value(json_object_get(json_object_get(event, "args"), "op"));
        if (!is_of(event, 0) || argument(event, "stage") != stage ||
            argument(event, "micro_batch") != argument(transfer, "micro_batch") || (gradient ? !strchr("BI", *op) : *op != 'F'))
            continue;
        assert_true(end_of(transfer) <= start_of(event) + 0.002);
        found++;
    }
    assert_int_equal(found, 1);
}

static void check_trace(const char *directory, const struct ps_run *run, int workers) {
    char path[4096];
    int64_t *bytes = calloc(2 * (size_t)workers, sizeof *bytes);
    double *busy_until = calloc((size_t)workers * (size_t)workers, sizeof *busy_until);
    json_t *trace = json_load_file(file_join(path, directory, "run/trace.json"), 0, NULL);
    const json_t *events = json_object_get(trace, "traceEvents");
    assert_non_null(events);
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        if (!is_of(event, 1)) continue;
        const char *traffic = json_string_value(json_object_get(event, "cat"));
        const int64_t from = argument(event, "from"), to = argument(event, "to");
        assert_true(from >= 0 && from < workers && to >= 0 && to < workers && from != to);
        bytes[2 * from] += argument(event, "bytes");
        bytes[2 * to + 1] += argument(event, "bytes");
        if (strcmp(traffic, "activation") == 0 || strcmp(traffic, "gradient") == 0)
            check_reader(events, event, *traffic == 'g');
        if (strcmp(traffic, "all-reduce") == 0) continue;
        /* One after the other on each link. */
        assert_true(start_of(event) >= busy_until[from * workers + to] - 0.002);
        busy_until[from * workers + to] = end_of(event);
    }
    for (int w = 0; w < workers; w++) {
        assert_int_equal(bytes[2 * w], ps_run_worker(run, w).sent_bytes);
        assert_int_equal(bytes[2 * w + 1], ps_run_worker(run, w).received_bytes);
    }
    json_decref(trace);
    free(busy_until);
    free(bytes);
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
    wanted.trace = true;
    wanted.lr = 0.01;
    wanted = run_case_complete(wanted);
    run_case_train(wanted, directory, &run);
    /* Of a device with memory of its own nobody knows when a block has arrived; and a trace has evaluations, too. */
    if (strcmp(test_device(wanted.device), wanted.device) == 0 && wanted.evaluate_every == 0)
        check_trace(directory, run, wanted.workers);
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

/* Each micro-batch crosses each cut twice, with what the profile says of it; those of evaluations do not count. */
static void test_cuts(void **state) {
    const struct ps_profile *profile = *state;
    struct run_case wanted = run_case_complete((struct run_case){.schedule = "gpipe", .workers = 3, .micro_batches = 2});
    struct ps_plan *plan = run_case_plan(&wanted);
    int64_t bytes = 0;
    for (int s = 0; s < 2; s++) bytes += 2 * profile->tables[0].layers[plan->stages[s].last].size.output_bytes;
    ps_plan_destroy(plan);
    assert_int_equal(check_case(wanted, profile), STEPS * 2 * bytes);
    wanted.valid = wanted.data;
    wanted.evaluate_every = STEPS / 2;
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
