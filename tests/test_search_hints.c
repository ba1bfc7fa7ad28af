/*
 * What is said beside an answer of the search, with a search that finds a plan only under one change of the options: each
 * change is tried in its turn and named as it is, and so are smaller micro-batches and the memory that is enough.
 */
#include "base/log.h"
#include "search/search.h"
#include "search_support.h"
#include "simulate/simulate.h"

/* Under what a plan is found; and how often one was looked for. */
static struct wanted {
    const char *method, *schedule, *optimizer; /* NULL: any, "auto": none is given */
    bool recompute, tight;                     /* tight: without slack */
    int micro_batch;                           /* 0: any */
    int64_t mib;                               /* at least, for each worker */
    double throughput;                         /* of the plan */
    bool simulated;
} wanted;
static int tries;
static struct ps_plan_options last;
static int last_workers;

static bool is(const char *given, const char *name) { return !name || strcmp(given ? given : "auto", name) == 0; }

static enum ps_status find(const struct ps_profile *profile, const struct ps_cluster *cluster,
                           const struct ps_plan_options *options, struct ps_plan **plan, struct ps_error *error) {
    (void)profile;
    tries++;
    last = *options;
    last_workers = cluster->workers;
    const bool sync = is(options->schedule, "1f1b") && is(options->weights, "sync");
    bool fits = is(options->method, wanted.method) && is(options->optimizer, wanted.optimizer) && (!wanted.schedule || sync) &&
                options->recompute >= wanted.recompute && (!wanted.tight || options->slack == 0) &&
                (wanted.micro_batch == 0 || options->micro_batch == wanted.micro_batch);
    for (int w = 0; w < cluster->workers; w++) fits = fits && cluster->devices[w].memory_bytes >= wanted.mib << 20;
    if (!fits) return error_set(error, PS_NO_PLAN, "nothing fits");
    assert_ok(plan_create(1, 1, plan, &test_error));
    (*plan)->predicted.simulated = wanted.simulated;
    (*plan)->predicted.throughput_samples_per_s = wanted.throughput;
    return PS_OK;
}

/* Micro-batches of 1, 2 and 4 samples. */
static struct ps_profile *sizes_profile(void) {
    struct ps_profile *profile;
    assert_ok(profile_create(3, 4, &profile, &test_error));
    for (int t = 0; t < 3; t++) profile->tables[t].micro_batch = 1 << t;
    return profile;
}

/* The hint is put before what was said; `searches`: how many were made (0: any number). */
static void check_hint(const struct ps_profile *profile, int limit_mib, const struct wanted *change,
                       const struct ps_plan_options *given, const char *expected, int searches) {
    struct ps_cluster *cluster = make_cluster(2, (int64_t)limit_mib << 20, 0);
    struct ps_plan_options options = *given;
    struct ps_error error = {0};
    char hint[200];
    options.struct_size = sizeof options;
    wanted = *change;
    wanted.simulated = true;
    wanted.throughput = 100;
    tries = 0;
    error_hint(&error, "what was said before");
    search_hint_fits(profile, cluster, &options, find, &error);
    snprintf(hint, sizeof hint, "%s%swhat was said before", expected, expected[0] ? "\n" : "");
    if (strcmp(error.hint, hint) != 0 || (searches > 0 && tries != searches))
        fail_msg("after %d searches, not %d: %s, not %s", tries, searches, error.hint, hint);
    ps_cluster_destroy(cluster);
}

static void test_changes(void **state) {
    (void)state;
    static const struct {
        struct wanted wanted;
        struct ps_plan_options options;
        const char *hint;
        int tries;
    } cases[] = {
        {{.recompute = true}, {.method = "uniform"}, "with `recompute` a plan fits: 100 samples/s", 1},
        {{.method = "auto"}, {.method = "uniform"}, "with no `method` a plan fits: 100 samples/s", 2},
        {{.method = "uniform", .schedule = "1f1b"},
         {.method = "uniform"},
         "with `schedule` 1f1b and `weights` sync a plan fits: 100 samples/s",
         3},
        {{.schedule = "1f1b"}, {.method = NULL}, "with `schedule` 1f1b and `weights` sync a plan fits: 100 samples/s", 1},
        {{.method = "auto", .schedule = "1f1b"},
         {.method = "uniform"},
         "with `schedule` 1f1b, `weights` sync and no `method` a plan fits: 100 samples/s",
         4},
        {{.method = "uniform", .schedule = "1f1b", .optimizer = "sgd"},
         {.method = "uniform"},
         "with `schedule` 1f1b, `weights` sync and `optimizer` sgd a plan fits: 100 samples/s",
         5},
        {{.method = "auto", .schedule = "1f1b", .optimizer = "sgd"},
         {.method = "uniform", .optimizer = "adam"},
         "with `schedule` 1f1b, `weights` sync, `optimizer` sgd and no `method` a plan fits: 100 samples/s",
         6},
        {{.tight = true},
         {.method = "uniform", .schedule = "1f1b-star", .slack = 3},
         "with no `slack` a plan fits: 100 samples/s",
         2},
        {{.tight = true, .schedule = "1f1b"},
         {.method = "uniform", .schedule = "1f1b-star", .slack = 3},
         "with `schedule` 1f1b and `weights` sync a plan fits: 100 samples/s",
         4},
        /* What is given is not tried again: here `recompute`, no method, the flush of 1f1b, and sgd. */
        {{.micro_batch = 2}, {.method = "uniform", .recompute = true}, "with `micro_batch` 2 a plan fits: 100 samples/s", 6},
        {{.micro_batch = 1}, {.method = "auto"}, "with `micro_batch` 1 a plan fits: 100 samples/s", 4},
        {{.micro_batch = 1},
         {.method = "uniform", .schedule = "1f1b", .micro_batch = 2},
         "with `micro_batch` 1 a plan fits: 100 samples/s",
         5},
        {{.micro_batch = 1},
         {.method = "uniform", .schedule = "1f1b", .weights = "latest", .micro_batch = 2},
         "with `micro_batch` 1 a plan fits: 100 samples/s",
         7},
        {{.micro_batch = 2}, {.method = "uniform", .optimizer = "sgd"}, "with `micro_batch` 2 a plan fits: 100 samples/s", 5},
        {{.micro_batch = 2}, {.method = "uniform", .optimizer = "sgd", .batch = 8}, "", 0},
        /* Beyond the limit of 100 MiB, to an eighth: 200, 400; 300, 350, 325. */
        {{.mib = 301}, {.method = "uniform"}, "with `memory` 325MiB for each worker a plan fits", 6 + 2 + 5},
        {{.mib = 101}, {.method = "uniform"}, "with `memory` 112MiB for each worker a plan fits", 6 + 2 + 4},
        {{.mib = 100 << 12}, {.method = "uniform"}, "with `memory` 409600MiB for each worker a plan fits", 6 + 2 + 12 + 3},
        {{.mib = (100 << 12) + 1}, {.method = "uniform"}, "", 6 + 2 + 12},
        {{.mib = 200, .method = "pipedream", .recompute = true},
         {0},
         "with `memory` 200MiB for each worker a plan fits",
         2 + 2 + 4},
    };
    struct ps_profile *profile = sizes_profile();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        check_hint(profile, 100, &cases[c].wanted, &cases[c].options, cases[c].hint, cases[c].tries);
    /* Whole MiB, from one on. */
    const struct ps_plan_options uniform = {.method = "uniform"};
    check_hint(profile, 2, &(struct wanted){.mib = 3}, &uniform, "with `memory` 3MiB for each worker a plan fits", 6 + 2 + 2);
    check_hint(profile, 1, &(struct wanted){.mib = 2}, &uniform, "with `memory` 2MiB for each worker a plan fits", 6 + 2 + 1);
    ps_profile_destroy(profile);
}

/* Workers of several limits are not told of one that is enough, and a plan without programs is none. */
static void test_no_hint(void **state) {
    (void)state;
    struct ps_profile *profile = sizes_profile();
    const struct ps_plan_options options = {.struct_size = sizeof options, .method = "uniform"};
    for (int c = 0; c < 3; c++) {
        struct ps_cluster *cluster = make_cluster(2, c < 2 ? (int64_t)100 << 20 : 0, 0);
        struct ps_error error = {0};
        wanted = (struct wanted){.mib = c == 1 ? 0 : 150, .simulated = c != 1, .throughput = 100};
        if (c == 0) cluster->devices[1].memory_bytes += 1;
        search_hint_fits(profile, cluster, &options, find, &error);
        assert_string_equal(error.hint, "");
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

static void add_line(void *text, enum ps_log_level level, const char *line) {
    assert_int_equal(level, PS_LOG_WARN);
    snprintf(text, 200, "%s", line);
}

/* One worker is said to be faster if it is by more than a thousandth; it has the plan's mini-batch, no codecs and no replicas.
 */
static void test_one_worker(void **state) {
    (void)state;
    static const struct {
        double throughput;
        int busy;
        bool simulated;
        const char *said;
    } cases[] = {
        {100.05, 2, true, ""},
        {100.2, 2, true, "one worker alone would be faster: 100.2 samples/s, where this plan makes 100"},
        {100.2, 1, true, ""},
        {100.2, 2, false, ""},
    };
    struct ps_profile *profile = sizes_profile();
    struct ps_cluster *cluster = make_cluster(3, 0, 0);
    char said[200];
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = said, .level = PS_LOG_WARN, .line = add_line};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct ps_plan_options options = {.struct_size = sizeof options,
                                                .method = "uniform",
                                                .schedule = "gpipe",
                                                .optimizer = "adam",
                                                .wire = "bf16",
                                                .batch = 24,
                                                .replicate = true,
                                                .paper_cost = true};
        struct ps_plan *plan;
        assert_ok(plan_create(3, cases[c].busy, &plan, &test_error));
        for (int s = 0; s < cases[c].busy; s++) assert_ok(plan_stage_set(plan, s, s, s, s, &test_error));
        strcpy(plan->weights, "stash");
        plan->micro_batch = 4;
        plan->micro_batches = 6;
        plan->predicted.simulated = cases[c].simulated;
        plan->predicted.throughput_samples_per_s = 100;
        wanted = (struct wanted){.throughput = cases[c].throughput, .simulated = true};
        tries = 0;
        said[0] = '\0';
        const struct ps_log_sink *before = log_use(&sink);
        search_say_one_worker(profile, cluster, &options, find, plan);
        log_restore(before);
        assert_string_equal(said, cases[c].said);
        assert_int_equal(tries, cases[c].busy > 1 && cases[c].simulated);
        if (tries > 0) {
            assert_int_equal(last_workers, 1);
            assert_string_equal(last.method, "pipedream");
            assert_string_equal(last.weights, "stash");
            assert_string_equal(last.optimizer, "adam");
            assert_true(!last.schedule && !last.wire && !last.replicate && !last.paper_cost);
            assert_true(last.micro_batch == 4 && last.micro_batches == 6 && last.batch == 0);
        }
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* The reason why a plan is no faster, at both sides of each limit: nine tenths of the time or of the memory. Worker 0 has two
 * layers, worker 1 two stages, of a run of four seconds. */
static void test_explanations(void **state) {
    (void)state;
    static const struct {
        double busy_s[2], link_s, transfers_s, order_s;
        int64_t bytes[2]; /* of a hundred */
        double gain_s;
        const char *schedule, *said;
    } cases[] = {
        {{3.6, 1}, 0, 0, 0, {0, 0}, 0, "1f1b", "worker 0 (layers 1-2), which computes 90 % of the time"},
        {{1, 3.8}, 3.8, 0, 0, {0, 0}, 0, "1f1b", "worker 1 (2 stages), which computes 95 % of the time"},
        {{3.5, 1}, 3.6, 0, 0, {0, 0}, 0, "1f1b", "the link between workers 0 and 1, which is busy 90 % of the time"},
        {{3.8, 1}, 3.9, 0, 0, {95, 0}, 0, "1f1b", "the link between workers 0 and 1, which is busy 98 % of the time"},
        {{2, 1},
         2.4,
         1.1,
         1,
         {89, 89},
         0,
         "1f1b",
         "waiting for transfers: worker 0 computes most, 50 % of the time; the link between workers 0 and 1 is busy most, 60 "
         "%"},
        {{2, 1}, 0, 1, 1, {0, 0}, 0, "1f1b", "the schedule, which fills and drains: worker 0 computes most, 50 % of the time"},
        {{1, 2}, 0, 1, 1, {0, 0}, 0, "1f1b-async", "waiting along the pipeline: worker 1 computes most, 50 % of the time"},
        {{2, 1},
         0,
         0,
         1,
         {70, 90},
         0,
         "1f1b-async",
         "memory, of which worker 1 uses 90 %: waiting along the pipeline: worker 0 computes most, 50 % of the time"},
        {{2, 1},
         0,
         0,
         1,
         {92, 91},
         0,
         "1f1b-async",
         "memory, of which worker 0 uses 92 %: waiting along the pipeline: worker 0 computes most, 50 % of the time"},
        {{3.6, 1}, 0, 0, 0, {70, 95}, 0, "1f1b", "worker 0 (layers 1-2), which computes 90 % of the time"},
        {{2, 1}, 3.6, 0, 0, {70, 95}, 0, "1f1b", "the link between workers 0 and 1, which is busy 90 % of the time"},
        {{3.6, 1},
         0,
         0,
         0,
         {70, 95},
         0.5,
         "1f1b",
         "memory: without a limit the slowest stage would take 1.50 s, not 2.00 s; then worker 0 (layers 1-2), which computes "
         "90 "
         "% of the time"},
    };
    struct ps_profile *profile = sizes_profile();
    struct ps_cluster *cluster = make_cluster(2, 100, 0);
    const struct search search = {.profile = profile, .cluster = cluster};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_simulation_worker workers[2];
        for (int w = 0; w < 2; w++)
            workers[w] = (struct ps_simulation_worker){.busy_s = cases[c].busy_s[w],
                                                       .idle_communication_s = cases[c].transfers_s,
                                                       .idle_fill_drain_s = cases[c].order_s * 0.75,
                                                       .idle_dependency_s = cases[c].order_s * 0.25};
        const struct ps_simulation simulation = {.info = {.workers = 2, .batches = 8, .period_s = 0.5},
                                                 .worker = workers,
                                                 .link = {.from = 0, .to = 1, .busy_s = cases[c].link_s}};
        struct ps_plan *plan;
        assert_ok(plan_create(2, 3, &plan, &test_error));
        strcpy(plan->schedule, cases[c].schedule);
        for (int s = 0; s < 3; s++) assert_ok(plan_stage_set(plan, s, s > 0 ? s + 1 : 0, s + 1, s > 0, &test_error));
        plan->predicted.objective_s = 2;
        for (int w = 0; w < 2; w++) plan->predicted.memory[w].weights = cases[c].bytes[w];
        search_explain(&search, &simulation, cases[c].gain_s, plan);
        assert_string_equal(plan->predicted.limit, cases[c].said);
        if (c == 1) { /* its one stage, which does not begin with the first layer */
            plan->stage_count = 2;
            search_explain(&search, &simulation, 0, plan);
            assert_string_equal(plan->predicted.limit, "worker 1 (layers 3-3), which computes 95 % of the time");
            plan->stage_count = 3;
        }
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_no_hint),
        cmocka_unit_test(test_one_worker),
        cmocka_unit_test(test_explanations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
