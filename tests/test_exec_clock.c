/*
 * The clock device: real programs over real transports that only wait. Here is tested that such runs do everything but compute;
 * that they take as long as simulated is measured elsewhere (bench/clock.sh), where a busy machine may spoil it.
 */
#include "report/report.h"
#include "run_support.h"

static char profile_path[4096];

static int setup(void **state) {
    test_directory_set_up(state);
    static const char csv[] = "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
                              "a,0.0004,0.0008,1000,4000,4000\nb,0.0006,0.0010,2000,4100,6400\n"
                              "c,0.0005,0.0011,1000,8192,4100\nd,0.0003,0.0006,10,0,9000\n";
    test_file_write(file_join(profile_path, test_directory, "costs.csv"), csv, sizeof csv - 1);
    return 0;
}

static struct training clock_options(int workers) {
    struct training options;
    training_init(&options);
    options.profile_path = profile_path;
    options.o.device = "clock";
    options.cluster.workers = workers;
    options.o.steps = 6;
    return options;
}

static void test_every_policy(void **state) {
    (void)state;
    for (size_t p = 0; p < ps_table_count(PS_TABLE_POLICIES); p++)
        for (int workers = 1; workers <= 4; workers++) {
            struct training options = clock_options(workers);
            options.plan.weights = ps_table_entry(PS_TABLE_POLICIES, p).name;
            options.o.evaluate_every = 4;
            options.o.transport = workers == 3 ? "serial" : "threads";
            struct ps_run *run;
            assert_ok(training_run(&options, &run, &test_error));
            struct ps_run_info info = ps_run_info(run);
            assert_true(info.steps == 6 && isnan(info.loss) && isnan(info.valid_loss));
            assert_true(info.samples_per_s > 0 && info.predicted_samples_per_s > 0);
            for (int w = 0; w < workers; w++) {
                struct ps_run_worker worker = ps_run_worker(run, w);
                assert_int_equal(worker.planned_bytes, worker.measured_bytes);
                assert_true(worker.busy_s > 0);
            }
            ps_run_destroy(run);
        }
}

/* Sums over replicas stand in the trace, one from each replica in each mini-batch, and what each worker took. */
static void test_trace_of_replicas(void **state) {
    (void)state;
    struct training options = clock_options(2);
    char out[4096], path[4096];
    options.o.out = file_join(out, test_directory, "replicas");
    options.plan.method = "data-parallel";
    options.plan.replicate = true;
    options.plan.schedule = "1f1b";
    options.o.trace = true;
    struct ps_run *run;
    assert_ok(training_run(&options, &run, &test_error));
    char *text;
    size_t size;
    assert_ok(file_read(file_join(path, out, "trace.json"), 1 << 20, &text, &size, &test_error));
    int sums = 0;
    for (const char *at = text; (at = strstr(at, "\"cat\":\"all-reduce\"")); at++) sums++;
    assert_int_equal(sums, 2 * options.o.steps);
    char memory[96];
    snprintf(memory, sizeof memory, "\"memory_bytes\":[%lld,%lld]", (long long)ps_run_worker(run, 0).measured_bytes,
             (long long)ps_run_worker(run, 1).measured_bytes);
    assert_non_null(strstr(text, memory));
    free(text);
    ps_run_destroy(run);
}

/* A transfer lasts from when its sender had computed the block, however early its receiver waited for it. (Of 0.3 s of waiting
 * a busy machine may hide 0.2.) */
static void test_trace_of_transfers(void **state) {
    (void)state;
    static const char csv[] = "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
                              "a,0.3,0.001,1000,4000,4000\nb,0.001,0.001,10,0,4000\n";
    struct training options = clock_options(2);
    char out[4096], path[4096], profile[4096];
    test_file_write(file_join(profile, test_directory, "slow.csv"), csv, sizeof csv - 1);
    options.profile_path = profile;
    options.o.out = file_join(out, test_directory, "transfers");
    options.plan.micro_batches = 1;
    options.plan.method = "uniform";
    options.plan.schedule = "gpipe";
    options.plan.weights = "sync";
    options.o.steps = 1;
    options.o.trace = true;
    struct ps_run *run;
    struct timeline timeline;
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    assert_ok(report_trace_read(file_join(path, out, "trace.json"), &timeline, &test_error));
    assert_int_equal(timeline.transfer_count, 2);
    for (int t = 0; t < 2; t++) assert_true(timeline.transfers[t].start_s >= 0.1);
    timeline_free(&timeline);
}

/* No weights, so a checkpoint holds counters only, and a finished run that is resumed has nothing left to do. */
static void test_run_directory(void **state) {
    (void)state;
    struct training options = clock_options(4);
    char out[4096], path[4096];
    options.o.out = file_join(out, test_directory, "run");
    options.o.trace = true;
    struct ps_run *run;
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    static const char *const files[] = {"plan.json", "config.json", "log.jsonl", "summary.json", "trace.json", "timeline.svg"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) assert_true(file_exists(file_join(path, out, files[i])));
    assert_true(file_exists(file_join(path, out, "checkpoints/000006/state.json")));
    assert_false(file_exists(file_join(path, out, "checkpoints/000006/model.safetensors.index.json")));
    training_init(&options);
    options.o.resume = out;
    assert_ok(training_run(&options, &run, &test_error));
    assert_int_equal(ps_run_info(run).steps, 6);
    ps_run_destroy(run);
}

static void test_refusals(void **state) {
    (void)state;
    struct ps_run *run;
    struct training options = clock_options(2);
    options.o.steps = 0;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`steps`");
    options = clock_options(2);
    options.profile_path = NULL;
    options.model = "lenet5";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`profile`");
    options = clock_options(2);
    options.o.device = test_device("cpu");
    options.data = "synthetic:images";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy),
        cmocka_unit_test(test_trace_of_replicas),
        cmocka_unit_test(test_trace_of_transfers),
        cmocka_unit_test(test_run_directory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, test_directory_tear_down);
}
