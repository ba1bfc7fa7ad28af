/*
 * The clock device: real programs over real transports that only wait. Here is tested that such runs do everything but compute;
 * that they take as long as simulated is measured elsewhere (bench/clock.sh), where a busy machine may spoil it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "exec/trace.h"
#include "report/report.h"
#include "run_support.h"
#include "train/options.h"
#include "train/predict_run.h"
#include "within.h"

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
    struct timeline timeline;
    assert_ok(report_trace_read(path, &timeline, &test_error));
    int of_update[2] = {0};
    for (int t = 0; t < timeline.transfer_count; t++) {
        const struct timeline_transfer *one = &timeline.transfers[t];
        if (one->traffic != TRAFFIC_SUM) continue;
        /* Around the ring, each half of all parameters twice. */
        assert_int_equal(one->to, 1 - one->from);
        assert_in_range(one->bytes, 4010, 4010 + 4 * 64); /* with what aligns them */
        assert_int_equal(one->micro_batch, of_update[one->from]++);
        assert_true(one->end_s >= one->start_s && one->start_s >= 0);
    }
    assert_true(of_update[0] == options.o.steps && of_update[1] == options.o.steps);
    timeline_free(&timeline);
    char memory[96];
    snprintf(memory, sizeof memory, "\"memory_bytes\":[%lld,%lld]", (long long)ps_run_worker(run, 0).measured_bytes,
             (long long)ps_run_worker(run, 1).measured_bytes);
    assert_non_null(strstr(text, memory));
    free(text);
    ps_run_destroy(run);
}

/* Of a run by GPipe into the directory `out`. */
static struct timeline trace_of(struct training options, const char *out) {
    char path[4096];
    struct ps_run *run;
    struct timeline timeline;
    options.o.out = out;
    options.o.trace = true;
    options.plan.method = "uniform";
    options.plan.schedule = "gpipe";
    options.plan.weights = "sync";
    assert_ok(training_run(&options, &run, &test_error));
    ps_run_destroy(run);
    assert_ok(report_trace_read(file_join(path, out, "trace.json"), &timeline, &test_error));
    return timeline;
}

/* A transfer lasts from when its sender had computed the block, however early its receiver waited for it. (Of 0.3 s of waiting
 * a busy machine may hide 0.2.) */
static void test_trace_of_transfers(void **state) {
    (void)state;
    static const char csv[] = "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
                              "a,0.3,0.001,1000,4000,4000\nb,0.001,0.001,10,0,4000\n";
    struct training options = clock_options(2);
    char out[4096], profile[4096];
    test_file_write(file_join(profile, test_directory, "slow.csv"), csv, sizeof csv - 1);
    options.profile_path = profile;
    options.plan.micro_batches = 1;
    options.o.steps = 1;
    struct timeline timeline = trace_of(options, file_join(out, test_directory, "transfers"));
    assert_int_equal(timeline.transfer_count, 2);
    for (int t = 0; t < 2; t++) assert_true(timeline.transfers[t].start_s >= 0.1);
    timeline_free(&timeline);
}

static const struct timeline_event *find_event(const struct timeline *timeline, enum opcode op, int stage, int micro_batch) {
    for (int e = 0; e < timeline->event_count; e++) {
        const struct instruction *instruction = &timeline->events[e].instruction;
        if (instruction->op == op && instruction->stage == stage && instruction->micro_batch == micro_batch)
            return &timeline->events[e];
    }
    fail_msg("no event of operator %d, stage %d, micro-batch %d", (int)op, stage, micro_batch);
    return NULL;
}

/* Over an emulated link each transfer takes what the link says, after the computation that made the block and the transfer
 * before it, and before the computation that reads it. The trace is that of the last segment. */
static void test_trace_of_links(void **state) {
    (void)state;
    static const char csv[] = "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
                              "a,0.004,0.006,1000,4096,4000\nb,0.003,0.005,10,0,4000\n";
    static const char links[] =
        "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}], \"links\": "
        "[{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 409600, \"latency_s\": 0.01}]}";
    enum { MICRO_BATCHES = 4, STEPS = 2, SEGMENTS = 2, ALL = MICRO_BATCHES * STEPS };
    struct training options = clock_options(2);
    char out[4096], profile[4096], cluster[4096];
    test_file_write(file_join(profile, test_directory, "links.csv"), csv, sizeof csv - 1);
    test_file_write(file_join(cluster, test_directory, "links.json"), links, sizeof links - 1);
    options.profile_path = profile;
    options.cluster_path = cluster;
    options.o.emulate = true;
    options.plan.micro_batches = MICRO_BATCHES;
    options.o.steps = SEGMENTS * STEPS;
    options.o.checkpoint_every = STEPS;
    struct timeline timeline = trace_of(options, file_join(out, test_directory, "links"));
    assert_true(timeline.workers == 2 && timeline.batches == STEPS && timeline.micro_batches == MICRO_BATCHES);
    assert_int_equal(timeline.event_count, 2 * 2 * ALL + 2 * STEPS);
    assert_int_equal(timeline.transfer_count, 2 * ALL);
    static const double takes_s[2] = {0.003, 0.006}; /* of who reads them */
    double last[2] = {0, 0};
    bool seen[2][ALL] = {{false}};
    for (int t = 0; t < 2 * ALL; t++) {
        const struct timeline_transfer *one = &timeline.transfers[t];
        const bool back = one->from == 1;
        assert_int_equal(one->to, 1 - one->from);
        assert_int_equal(one->stage, one->from);
        assert_int_equal(one->traffic, back ? TRAFFIC_GRADIENT : TRAFFIC_ACTIVATION);
        assert_int_equal(one->bytes, 4096);
        assert_in_range(one->micro_batch, 0, ALL - 1);
        assert_false(seen[back][one->micro_batch]);
        seen[back][one->micro_batch] = true;
        assert_within(one->end_s - one->start_s, 0.02, 1e-5);
        assert_true(one->start_s >= last[back] - 1e-5);
        last[back] = one->end_s;
        /* The receiver computes when it has the block, and is seen to be done no earlier; the first mini-batch's blocks are
         * made one after the other. */
        const struct timeline_event *reads = find_event(&timeline, back ? OP_B : OP_F, one->to, one->micro_batch);
        assert_int_equal(reads->worker, one->to);
        assert_true(reads->end_s >= one->end_s + takes_s[back] - 1e-5);
        if (!back && one->micro_batch < MICRO_BATCHES) assert_true(one->start_s >= 0.004 * (one->micro_batch + 1) - 1e-5);
    }
    timeline_free(&timeline);
}

/* The end of a trace is that of the whole one from where the last computations of all workers begin, with times from there. */
static void check_window(const struct ps_trainer *trainer, const struct timeline *whole, int most) {
    struct timeline window;
    assert_ok(trace_collect(trainer->executor, trainer->programs.entries[0].programs, trainer->run->worker, most, &window,
                            &test_error));
    double start_s = 0;
    int of_worker[2] = {0}, events = 0, transfers = 0;
    for (int e = whole->event_count - 1; e >= 0; e--)
        if (++of_worker[whole->events[e].worker] == most) start_s = fmax(start_s, whole->events[e].start_s);
    assert_true(start_s > 0);
    for (int e = 0; e < whole->event_count; e++) {
        const struct timeline_event *wanted = &whole->events[e], *got = &window.events[events];
        if (wanted->start_s < start_s) continue;
        assert_true(events++ < window.event_count);
        assert_int_equal(got->worker, wanted->worker);
        assert_memory_equal(&got->instruction, &wanted->instruction, sizeof got->instruction);
        assert_within(got->start_s, wanted->start_s - start_s, 1e-9);
        assert_within(got->end_s, wanted->end_s - start_s, 1e-9);
    }
    for (int t = 0; t < whole->transfer_count; t++) {
        const struct timeline_transfer *wanted = &whole->transfers[t], *got = &window.transfers[transfers];
        if (wanted->end_s < start_s) continue;
        assert_true(transfers++ < window.transfer_count);
        assert_true(got->from == wanted->from && got->to == wanted->to && got->micro_batch == wanted->micro_batch);
        assert_within(got->start_s, fmax(wanted->start_s - start_s, 0), 1e-9);
        assert_within(got->end_s, wanted->end_s - start_s, 1e-9);
    }
    assert_true(events == window.event_count && transfers == window.transfer_count);
    /* A window of a whole mini-batch has its blocks; of a worker's last computations a busy machine may begin none until all
     * blocks have come. */
    if (most >= 4 + 4 + 1) assert_true(transfers > 0);
    timeline_free(&window);
}

static void test_window(void **state) {
    (void)state;
    static const char links[] =
        "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}], \"links\": "
        "[{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 4096000, \"latency_s\": 0.001}]}";
    struct training options = clock_options(2);
    struct training_objects objects;
    struct ps_trainer *trainer;
    struct timeline whole;
    char out[4096], cluster[4096];
    test_file_write(file_join(cluster, test_directory, "short.json"), links, sizeof links - 1);
    options.cluster_path = cluster;
    options.o.emulate = true;
    options.plan.method = "uniform";
    options.plan.schedule = "gpipe";
    options.plan.weights = "sync";
    options.plan.micro_batches = 4;
    options.o.out = file_join(out, test_directory, "window");
    options.o.trace = true;
    assert_ok(training_open(&options, &objects, &test_error));
    assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, options.o.steps, &test_error));
    assert_ok(trace_collect(trainer->executor, trainer->programs.entries[0].programs, trainer->run->worker, INT_MAX, &whole,
                            &test_error));
    assert_int_equal(whole.event_count, 2 * options.o.steps * (4 + 4 + 1));
    assert_int_equal(whole.transfer_count, 2 * options.o.steps * 4);
    static const int most[] = {3, 9, 12, 17, 24, 30};
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) check_window(trainer, &whole, most[m]);
    timeline_free(&whole);
    ps_trainer_destroy(trainer);
    training_close(&objects);
}

/* The library's come here, too. */
static atomic_int left = INT_MAX;
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *next = (create *)dlsym(RTLD_NEXT, "pthread_create");
    return atomic_fetch_sub(&left, 1) > 0 ? next(thread, attributes, function, argument) : EAGAIN;
}

/* Where a worker gets no thread, those that have one end. */
static void test_no_thread(void **state) {
    (void)state;
    for (int worker = 0; worker < 3; worker++) {
        struct training options = clock_options(3);
        struct ps_run *run;
        char wanted[96];
        options.o.transport = "threads";
        atomic_store(&left, worker);
        const enum ps_status status = training_run(&options, &run, &test_error);
        atomic_store(&left, INT_MAX);
        snprintf(wanted, sizeof wanted, "cannot start a thread for worker %d: Resource temporarily unavailable", worker);
        assert_status(status, PS_FAILED, wanted);
    }
}

/* One line of each step, later than the line before, with the rate since then; the last has the epoch's. */
static void check_lines(const char *log, int steps, int batch) {
    double before_s = 0;
    for (int step = 1; step <= steps; step++) {
        const char *end = strchr(log, '\n');
        assert_non_null(end);
        json_t *line = json_loadb(log, (size_t)(end - log), 0, NULL);
        assert_int_equal(json_integer_value(json_object_get(line, "step")), step);
        const double elapsed_s = json_number_value(json_object_get(line, "elapsed_s")),
                     rate = json_number_value(json_object_get(line, "samples_per_s"));
        assert_true(rate > 0 && elapsed_s >= before_s);
        /* Of numbers with nine digits. */
        if (step > 1 && step < steps)
            assert_within(rate * (elapsed_s - before_s), batch, 1e-3 * batch + 2e-8 * rate * elapsed_s);
        before_s = elapsed_s;
        json_decref(line);
        log = end + 1;
    }
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
    char *log;
    size_t size;
    assert_ok(file_read(file_join(path, out, "log.jsonl"), 1 << 20, &log, &size, &test_error));
    assert_non_null(strstr(log, "{\"step\": 6, \"epoch\": 1, "));
    check_lines(log, 6, 1);
    free(log);
    training_init(&options);
    options.o.resume = out;
    assert_ok(training_run(&options, &run, &test_error));
    assert_int_equal(ps_run_info(run).steps, 6);
    ps_run_destroy(run);
    /* A plan of something else was put there. */
    char *plan, said[4200];
    assert_ok(file_read(file_join(path, out, "plan.json"), 1 << 20, &plan, &size, &test_error));
    char *model = strstr(plan, "\"costs\"");
    assert_non_null(model);
    memcpy(model, "\"goods\"", 7);
    test_file_write(path, plan, size);
    free(plan);
    snprintf(said, sizeof said, "%s/checkpoints/000006: is of costs, the plan of goods", out);
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, said);
}

/* The newest checkpoints stay, two where nobody says how many. */
static void test_kept(void **state) {
    (void)state;
    enum { STEPS = 4 };
    static const int stay[] = {2, 1, 2, 3, 4, 4};
    for (int keep = 0; keep < (int)(sizeof stay / sizeof *stay); keep++) {
        struct training options = clock_options(2);
        char name[48], out[4096], path[4096];
        struct ps_run *run;
        snprintf(name, sizeof name, "kept%d", keep);
        options.o.out = file_join(out, test_directory, name);
        options.o.steps = STEPS;
        options.o.checkpoint_every = 1;
        options.o.keep_checkpoints = keep;
        assert_ok(training_run(&options, &run, &test_error));
        ps_run_destroy(run);
        for (int step = 1; step <= STEPS; step++) {
            snprintf(name, sizeof name, "checkpoints/%06d", step);
            assert_true(file_exists(file_join(path, out, name)) == (step > STEPS - stay[keep]));
        }
    }
}

static void test_refusals(void **state) {
    (void)state;
    struct ps_run *run;
    struct training options = clock_options(2);
    options.o.steps = 0;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`steps`");
    options = clock_options(2);
    options.o.lengths = "4";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`lengths`: device clock reads no data");
    options = clock_options(2);
    options.profile_path = NULL;
    options.model = "lenet5";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "`profile`");
    options = clock_options(2);
    options.o.device = test_device("cpu");
    options.data = "synthetic:images";
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, "");
}

/* ------------------------------------------------------------------------ what is played */

enum { LAYERS = 4 };

/* Layers of seconds that only the one has, and parameters of 8 bytes, those of the last 9. */
static struct ps_profile *make_costs(int64_t fast_memory_bytes) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, LAYERS, &profile, &test_error));
    strcpy(profile->model, "costs");
    strcpy(profile->device, "played");
    profile->threads = 1;
    profile->tables[0].fast_memory_bytes = fast_memory_bytes;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        strcpy(layer->kind, "linear");
        layer->time = (struct layer_times){.forward_s = 1 << l, .backward_input_s = 16 << l, .backward_weight_s = 1};
        layer->spill = (struct layer_times){.forward_s = 256 << l, .backward_input_s = 4096 << l};
        layer->core_transfer_s = 1.0 / (2 << l);
        layer->take_over_s = 1.0 / (32 << l);
        layer->size.parameter_bytes = l + 1 < LAYERS ? 8 : 9;
        layer->size.output_bytes = l + 1 < LAYERS ? 64 : 0;
    }
    return profile;
}

/* Layers dealt out to as many stages, and these to workers in turn. Those on workers of `spilled` take as much longer, and the
 * last of each stage what the transfer costs the cores; what comes from the same worker is not taken over. */
static void check_played(const char *schedule, int workers, int stages, int64_t fast_memory_bytes, const bool spilled[2]) {
    struct ps_profile *profile = make_costs(fast_memory_bytes);
    struct ps_train_options options;
    struct ps_trainer *trainer;
    struct ps_plan *plan;
    assert_ok(plan_create(workers, stages, &plan, &test_error));
    strcpy(plan->model, "costs");
    snprintf(plan->schedule, sizeof plan->schedule, "%s", schedule);
    strcpy(plan->weights, "sync");
    strcpy(plan->optimizer, "sgd");
    plan->micro_batches = 2;
    const int of_stage = LAYERS / stages;
    for (int s = 0; s < stages; s++)
        assert_ok(plan_stage_set(plan, s, s * of_stage, (s + 1) * of_stage - 1, s % workers, &test_error));
    ps_train_options_init(&options);
    options.plan = plan;
    options.profile = profile;
    options.device = "clock";
    options.steps = 1;
    assert_ok(ps_trainer_create(&options, &trainer, &test_error));
    const struct graph *graph = trainer->job.graph;
    assert_int_equal(graph->node_count, LAYERS + 1);
    for (int l = 0; l < LAYERS; l++) {
        const struct layer_times *played = &graph->nodes[l + 1].attributes.time;
        const int stage = l / of_stage, first = stage * of_stage;
        const bool slow = spilled[stage % workers], ends = (l + 1) % of_stage == 0, moves = workers > 1;
        const double core_s = ends && l + 1 < LAYERS ? 1.0 / (2 << l) : 0,
                     before_s = ends && moves && stage > 0 ? 1.0 / (32 << (first - 1)) : 0,
                     after_s = ends && moves && l + 1 < LAYERS ? 1.0 / (32 << l) : 0;
        assert_true(played->forward_s == (1 << l) + (slow ? 256 << l : 0) + core_s + before_s);
        assert_true(played->backward_input_s == (16 << l) + (slow ? 4096 << l : 0) + before_s + after_s);
    }
    ps_trainer_destroy(trainer);
    ps_plan_destroy(plan);
    ps_profile_destroy(profile);
}

/* Weights and gradients of all that a worker holds share its fast memory. */
static void test_played(void **state) {
    (void)state;
    static const bool none[2] = {false, false}, second[2] = {false, true}, both[2] = {true, true};
    for (int s = 0; s < 2; s++) {
        const char *schedule = s == 0 ? "interleaved" : "1f1b";
        const int stages = s == 0 ? 4 : 2;
        check_played(schedule, 2, stages, 0, none);
        check_played(schedule, 2, stages, 34, none);
        check_played(schedule, 2, stages, 33, second);
        check_played(schedule, 2, stages, 32, second);
        check_played(schedule, 2, stages, 31, both);
    }
    check_played("interleaved", 1, 4, 66, none);
    check_played("interleaved", 1, 4, 65, both);
}

/* -------------------------------------------------------------------------- prediction */

/* A run is predicted segment by segment, without links unless they are played; long ones go on as they do in the beginning. */
static void test_prediction(void **state) {
    (void)state;
    static const struct {
        const char *weights, *transport;
        int steps, evaluate_every, emulate;
    } cases[] = {
        {"sync", NULL, 6, 0, 0},    {"sync", "serial", 6, 0, 0}, {"sync", NULL, 64, 0, 0},     {"sync", NULL, 65, 0, 0},
        {"sync", NULL, 300, 0, 0},  {"sync", NULL, 300, 40, 0},  {"sync", NULL, 300, 40, 1},   {"stash", NULL, 300, 0, 0},
        {"stash", NULL, 300, 7, 0}, {"stash", NULL, 300, 70, 1}, {"stash", "serial", 5, 2, 0},
    };
    struct ps_profile *profile;
    assert_ok(ps_profile_read(profile_path, &profile, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct ps_cluster_options linked = {.struct_size = sizeof linked,
                                                  .workers = 3,
                                                  .bandwidth_bytes_per_s = 1e7,
                                                  .latency_s = 1e-4},
                                        free = {.struct_size = sizeof free, .workers = 3},
                                        one = {.struct_size = sizeof one, .workers = 3, .cores = 1};
        const struct ps_plan_options planning = {.struct_size = sizeof planning,
                                                 .method = "uniform",
                                                 .schedule = strcmp(cases[c].weights, "sync") == 0 ? "gpipe" : "1f1b-async",
                                                 .weights = cases[c].weights,
                                                 .micro_batches = 2};
        struct ps_train_options options;
        struct ps_cluster *cluster, *machine;
        struct ps_trainer *trainer;
        struct ps_plan *plan;
        struct ps_run *run;
        assert_ok(ps_cluster_uniform(&linked, &cluster, &test_error));
        assert_ok(ps_plan_find(profile, cluster, &planning, &plan, &test_error));
        assert_ok(ps_cluster_uniform(cases[c].emulate ? &linked : cases[c].transport ? &one : &free, &machine, &test_error));
        double seconds = 0;
        for (int begun = 0, length; begun < cases[c].steps; begun += length) {
            struct ps_simulation *simulation;
            length = cases[c].evaluate_every > 0 ? cases[c].evaluate_every : cases[c].steps;
            if (length > cases[c].steps - begun) length = cases[c].steps - begun;
            assert_ok(ps_simulate(plan, profile, machine, length, &simulation, &test_error));
            seconds += ps_simulation_info(simulation).makespan_s;
            ps_simulation_destroy(simulation);
        }
        ps_train_options_init(&options);
        options.plan = plan;
        options.profile = profile;
        options.cluster = cluster;
        options.device = "clock";
        options.transport = cases[c].transport;
        options.steps = cases[c].steps;
        options.evaluate_every = cases[c].evaluate_every;
        options.emulate = cases[c].emulate;
        assert_ok(ps_trainer_create(&options, &trainer, &test_error));
        assert_ok(ps_trainer_finish(trainer, &run, &test_error));
        const double wanted = cases[c].steps * 2 / seconds, got = ps_run_info(run).predicted_samples_per_s;
        if (fabs(got - wanted) > 1e-9 * wanted) fail_msg("case %zu: %.12g samples/s, not %.12g", c, got, wanted);
        ps_trainer_destroy(trainer);
        ps_run_destroy(run);
        ps_plan_destroy(plan);
        ps_cluster_destroy(machine);
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

/* Processes compute at once where their hosts have the cores for it, each host for one at least; blocks between hosts take
 * their time, and so do those that are to. */
static void test_hosts(void **state) {
    (void)state;
    static const struct {
        int ranks, threads;
        uint64_t machine[4];
        int32_t cores[4];
        int at_once;
        bool links;
    } cases[] = {{4, 1, {7, 7, 7, 7}, {3, 3, 3, 3}, 3, false},
                 {4, 2, {7, 7, 9, 9}, {8, 8, 5, 5}, 6, true},
                 {3, 4, {7, 9, 7}, {3, 9, 3}, 3, true},
                 {3, 4, {7, 8, 9}, {1, 2, 3}, 3, true},
                 {2, 1, {5, 5}, {1, 1}, 1, false},
                 {2, 2, {5, 6}, {4, 6}, 5, true}};
    const struct transport_class *threads, *serial;
    const struct device_class *cpu, *clock;
    assert_ok(transport_find("threads", &threads, &test_error));
    assert_ok(transport_find("serial", &serial, &test_error));
    assert_ok(device_find("cpu", &cpu, &test_error));
    assert_ok(device_find("clock", &clock, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct process_info info[4] = {{.cores = 0}};
        for (int r = 0; r < cases[c].ranks; r++) info[r].machine = cases[c].machine[r], info[r].cores = cases[c].cores[r];
        struct processes processes = {.count = cases[c].ranks, .info = info};
        struct ps_train_options options = {.emulate = 0};
        struct job job = {
            .options = &options, .processes = &processes, .transport = threads, .device = cpu, .threads = cases[c].threads};
        assert_int_equal(predict_at_once(&job), cases[c].at_once);
        assert_true(predict_takes_links(&job) == cases[c].links);
        options.emulate = 1;
        assert_true(predict_takes_links(&job));
        options.emulate = 0;
        job.device = clock;
        assert_int_equal(predict_at_once(&job), 0);
        job.transport = serial;
        assert_int_equal(predict_at_once(&job), 1);
        processes.count = 1;
        assert_false(predict_takes_links(&job));
        job.processes = NULL;
        assert_false(predict_takes_links(&job));
    }
}

/* OMP_NUM_THREADS says how many threads a worker has, where nothing else says how the cores are divided. */
static void test_usual_threads(void **state) {
    (void)state;
    static const struct {
        const char *said;
        int workers, threads, wanted;
        bool planned;
    } cases[] = {{"3", 0, 0, 3, false},    {"1024", 0, 0, 1024, false}, {"1025", 0, 0, 1, false}, {"0", 0, 0, 1, false},
                 {"many", 0, 0, 1, false}, {NULL, 0, 0, 1, false},      {"3", 1, 0, 1, false},    {"3", 2, 0, 1, false},
                 {"3", 0, 2, 2, false},    {"3", 0, 0, 1, true}};
    const struct ps_plan_options planning = {.struct_size = sizeof planning};
    struct ps_profile *profile;
    struct ps_plan *plan;
    assert_ok(ps_profile_read(profile_path, &profile, &test_error));
    assert_ok(plan_create(1, 1, &plan, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = cases[c].workers};
        struct ps_train_options options;
        struct job job;
        ps_train_options_init(&options);
        options.machines = &machines;
        options.planning = &planning;
        options.profile = profile;
        options.plan = cases[c].planned ? plan : NULL;
        options.device = "clock";
        options.steps = 1;
        options.threads = cases[c].threads;
        train_options_settle(&options);
        if (cases[c].said)
            setenv("OMP_NUM_THREADS", cases[c].said, 1);
        else
            unsetenv("OMP_NUM_THREADS");
        assert_ok(job_begin(&options, &job, &test_error));
        if (job.threads != cases[c].wanted) fail_msg("case %zu: %d threads", c, job.threads);
        job_free(&job);
    }
    unsetenv("OMP_NUM_THREADS");
    ps_plan_destroy(plan);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy),
        cmocka_unit_test(test_trace_of_replicas),
        cmocka_unit_test(test_trace_of_transfers),
        cmocka_unit_test(test_trace_of_links),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_no_thread),
        cmocka_unit_test(test_run_directory),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_played),
        cmocka_unit_test(test_prediction),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_usual_threads),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, test_directory_tear_down);
}
