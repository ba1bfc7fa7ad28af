/* The search over everything (ps_plan_find with "auto"): never worse than what it could have been told, within memory, allowed
 * learning only; why it is no faster; and the plans of planners, which are for comparison. */
#include "plan/planner.h"
#include "search/search.h"
#include "search_support.h"
#include "within.h"

enum { LAYERS = 10 };

/* Micro-batches of 2, 4 and 8, the larger ones cheaper for a sample. */
static struct ps_profile *random_profile(struct random_key key) {
    struct ps_profile *profile;
    assert_ok(profile_create(3, LAYERS, &profile, &test_error));
    strcpy(profile->model, "random");
    for (int t = 0; t < 3; t++) {
        struct cost_table *table = &profile->tables[t];
        table->micro_batch = 2 << t;
        table->input_bytes = 16 * KIB * table->micro_batch;
        random_layers(key, 1e-4 * (1 + (double)table->micro_batch), table->micro_batch, 500, table);
    }
    return profile;
}

/* Samples per second of the plan; 0: there is none. */
static double throughput(const struct ps_profile *profile, const struct ps_cluster *cluster,
                         const struct ps_plan_options *options) {
    struct ps_plan *plan;
    struct ps_error error = {0};
    enum ps_status status = ps_plan_find(profile, cluster, options, &plan, &error);
    if (status != PS_OK) return 0;
    double samples_per_s = plan->predicted.throughput_samples_per_s;
    ps_plan_destroy(plan);
    return samples_per_s;
}

/* The same; 0 also where the plan cannot be run within memory. */
static double planned_throughput(const struct ps_profile *profile, const struct ps_cluster *cluster,
                                 const struct ps_plan_options *options) {
    struct ps_plan *plan;
    struct ps_error error = {0};
    if (ps_plan_find(profile, cluster, options, &plan, &error) != PS_OK) return 0;
    double samples_per_s = plan->predicted.simulated ? plan->predicted.throughput_samples_per_s : 0;
    ps_plan_destroy(plan);
    return samples_per_s;
}

/* No method, schedule with its weights, cut of the mini-batch or recomputation that could be asked for is faster. */
static void test_never_worse(void **state) {
    (void)state;
    static const int sizes[] = {2, 4, 8};
    int by_planner = 0;
    for (uint64_t round = 0; round < 12; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(round);
        int workers = 1 + (int)random_below(key, 1000, 5);
        struct ps_profile *profile = random_profile(key);
        int64_t memory = round % 3 == 0 ? 0 : (int64_t)(KIB * (500 + random_below(key, 1003, 3000)));
        struct ps_cluster *cluster =
            make_cluster(workers, memory, round % 4 == 0 ? 0 : 1e7 + 1e9 * (double)random_uniform(key, 1002));
        struct ps_plan_options all = {
            .struct_size = sizeof all, .method = "auto", .schedule = "auto", .weights = "auto", .batch = 16};
        double best = throughput(profile, cluster, &all);
        for (int m = 0; partitioner_table[m]; m++)
            for (int s = 0; schedule_table[s]; s++)
                for (int t = 0; t < 3; t++)
                    for (int recompute = 0; recompute < 2; recompute++) {
                        struct ps_plan_options one = {.struct_size = sizeof one,
                                                      .method = partitioner_table[m]->name,
                                                      .schedule = schedule_table[s]->name,
                                                      .weights = schedule_table[s]->flush ? "sync" : "pipeoptim",
                                                      .micro_batch = sizes[t],
                                                      .micro_batches = 16 / sizes[t],
                                                      .recompute = recompute};
                        double other = throughput(profile, cluster, &one);
                        assert_true(best >= other * (1 - 1e-6) || (recompute && best > 0));
                    }
        for (int p = 0; planner_table[p]; p++)
            for (int t = 0; t < 3 && !planner_table[p]->baseline; t++) {
                struct ps_plan_options one = {.struct_size = sizeof one,
                                              .method = planner_table[p]->name,
                                              .micro_batch = sizes[t],
                                              .micro_batches = 16 / sizes[t]};
                double other = planned_throughput(profile, cluster, &one);
                assert_true(best >= other * (1 - 1e-6));
                by_planner += best > 0 && other >= best * (1 - 1e-6);
            }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    assert_true(test_slow() || by_planner > 0);
}

/* Where nothing fits, some stages recompute; the prediction is that of the plan as it stands. */
static void test_recomputation_where_needed(void **state) {
    (void)state;
    int found = 0, mixed = 0;
    for (uint64_t round = 0; round < 40; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct ps_profile *profile = random_profile(test_key(100 + round));
        struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream"};
        struct ps_plan *plan;
        struct ps_cluster *cluster = make_cluster(4, 0, 0);
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        ps_cluster_destroy(cluster);
        int64_t limit = most_memory(plan) * 6 / 10;
        ps_plan_destroy(plan);
        cluster = make_cluster(4, limit, 0);
        struct ps_plan_options open = {.struct_size = sizeof open, .method = "auto"};
        struct ps_error error = {0};
        if (throughput(profile, cluster, &options) == 0 && ps_plan_find(profile, cluster, &open, &plan, &error) == PS_OK) {
            struct ps_simulation *simulation;
            int recomputing = 0;
            for (int s = 0; s < plan->stage_count; s++) recomputing += plan->stages[s].recompute;
            assert_true(recomputing > 0 || plan->stage_count < 4 || strcmp(plan->method, "madpipe") == 0);
            mixed += recomputing > 0 && recomputing < plan->stage_count;
            found++;
            assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
            assert_true(most_memory(plan) <= limit);
            assert_true(plan->predicted.period_s == ps_simulation_info(simulation).period_s);
            assert_true(plan->predicted.gap >= 0);
            ps_simulation_destroy(simulation);
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    assert_true(test_slow() || (found > 0 && mixed > 0));
}

/* Several stages per worker: they recompute where the memory of their worker needs it, and the bound is one of stages. */
static void test_recomputation_of_several_stages(void **state) {
    (void)state;
    static const int cases[][5] = {/* forward_s, backward_s, and bytes of parameters, output and stash */
                                   {5, 9, 5000, 3000, 17000},
                                   {1, 6, 7000, 5000, 25000},
                                   {8, 4, 8000, 1000, 26000},
                                   {3, 8, 5000, 3000, 15000},
                                   {4, 1, 9000, 4000, 7000}};
    struct ps_profile *profile;
    assert_ok(profile_create(1, 5, &profile, &test_error));
    for (int l = 0; l < 5; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time = (struct layer_times){
            .forward_s = cases[l][0], .backward_input_s = cases[l][1] / 2.0, .backward_weight_s = cases[l][1] / 2.0};
        layer->size = (struct layer_sizes){.parameter_bytes = cases[l][2],
                                           .output_bytes = cases[l][3],
                                           .value_bytes = cases[l][3],
                                           .stash_bytes = cases[l][4]};
    }
    const struct ps_plan_options options = {.struct_size = sizeof options, .schedule = "interleaved"};
    struct ps_plan *plan;
    for (int64_t memory = 140000; memory <= 200000; memory += 5000) {
        struct ps_cluster *cluster = make_cluster(2, memory, 0);
        enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, NULL);
        assert_int_equal(status, memory < 147000 ? PS_NO_PLAN : PS_OK);
        if (status == PS_OK) {
            const struct plan_prediction *predicted = &plan->predicted;
            const double objective_s = memory < 151000 ? 27 : memory < 195000 ? 23 : 16;
            assert_int_equal(plan->stage_count, 4);
            assert_true(predicted->objective_s == objective_s && predicted->lower_bound_s <= objective_s &&
                        predicted->gap >= 0);
            assert_true(most_memory(plan) <= memory);
            assert_int_equal(plan->stages[0].recompute, memory < 195000);
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

static void test_pairs(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *weights;
        bool several, flushing, others; /* more than one pair; some that flush, some that do not */
    } cases[] = {
        {NULL, NULL, false, false, true},           {"auto", NULL, false, false, true},  {"gpipe", "auto", false, true, false},
        {"1f1b-async", "auto", false, false, true}, {"auto", "sync", true, true, false}, {"auto", "stash", false, false, true},
        {"auto", "auto", true, true, true},         {NULL, "auto", true, true, true},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct ps_plan_options options = {
            .struct_size = sizeof options, .schedule = cases[c].schedule, .weights = cases[c].weights};
        struct search_pair pairs[SEARCH_PAIRS_MAX];
        struct search_choice first;
        int count, flushing = 0;
        assert_ok(search_pairs(&options, 4, c % 2, pairs, &count, &test_error));
        assert_ok(search_choose(&options, 4, &first, &test_error));
        assert_ptr_equal(pairs[0].schedule, first.schedule);
        assert_ptr_equal(pairs[0].policy, first.policy);
        for (int p = 0; p < count; p++) {
            flushing += pairs[p].schedule->flush;
            assert_true(pairs[p].schedule->flush == pairs[p].policy->needs_flush);
            assert_true(c % 2 || !pairs[p].schedule->streaming);
            for (int q = 0; q < p; q++) assert_ptr_not_equal(pairs[p].schedule, pairs[q].schedule);
        }
        assert_true(!cases[c].several || count > 1);
        assert_int_equal(flushing > 0, cases[c].flushing);
        assert_int_equal(flushing < count, cases[c].others);
    }
}

/* BaPipe chooses between two schedules, and others between devices that stream and devices that do not. */
static void test_bapipe_pairs(void **state) {
    (void)state;
    static const char *const choices[2][2] = {{"1f1b", "1f1b-so"}, {"1f1b-as", "fbp-as"}};
    const struct ps_plan_options options = {
        .struct_size = sizeof options, .method = "bapipe", .schedule = "auto", .weights = "sync"};
    for (int streams = 0; streams < 2; streams++) {
        struct search_pair pairs[SEARCH_PAIRS_MAX];
        int count;
        assert_ok(search_pairs(&options, 4, streams, pairs, &count, &test_error));
        assert_int_equal(count, 2);
        for (int p = 0; p < 2; p++) assert_string_equal(pairs[p].schedule->name, choices[streams][p]);
    }
}

/* Where a pipeline's transfers take longest BaPipe's answer is data parallelism, if replicas are allowed; elsewhere it is not.
 */
static void test_bapipe_or_data_parallel(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_plan_options options = {.struct_size = sizeof options,
                                      .method = "bapipe",
                                      .schedule = "auto",
                                      .weights = "sync",
                                      .micro_batches = 8,
                                      .replicate = true};
    struct layer_cost *layers = profile->tables[0].layers;
    for (int parallel = 0; parallel < 2; parallel++) {
        struct ps_plan *plan;
        struct ps_cluster *cluster = make_cluster(4, 0, 1e9);
        for (int l = 0; l < profile->tables[0].layer_count; l++) {
            layers[l].size.parameter_bytes = parallel ? 1000 : 1000000000;
            layers[l].size.output_bytes = parallel ? 100000000 : 1000;
        }
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_string_equal(plan->method, parallel ? "data-parallel" : "bapipe");
        assert_int_equal(plan->stage_count, parallel ? 1 : 4);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

static void check_limit(const struct ps_profile *profile, struct ps_cluster *cluster, const struct ps_plan_options *options,
                        const char *wanted) {
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster, options, &plan, &test_error));
    if (!strstr(plan->predicted.limit, wanted)) fail_msg("'%s' does not hold '%s'", plan->predicted.limit, wanted);
    char *table = ps_plan_table(plan), *json = ps_plan_json(plan);
    assert_non_null(strstr(table, plan->predicted.limit));
    assert_non_null(strstr(json, plan->predicted.limit));
    free(table);
    free(json);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
}

static void test_limits(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    profile->tables[0].layers[5].time.forward_s = 20e-3;
    check_limit(profile, make_cluster(4, 0, 0), &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options)},
                "(layers 6-6), which computes 100 %");
    profile->tables[0].layers[5].time.forward_s = 1e-3;
    check_limit(
        profile, make_cluster(2, 0, 64 * KIB / 60e-3),
        &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "uniform", .micro_batches = 4},
        "the link between workers 0 and 1");
    check_limit(
        profile, make_cluster(4, 0, 0),
        &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .schedule = "gpipe", .micro_batches = 4},
        "the schedule, which fills and drains: worker 0 computes most, 57 %"); /* 4 micro-batches of 7 turns */
    check_limit(profile, make_cluster(2, 0, 64 * KIB / 20e-3),
                &(struct ps_plan_options){
                    .struct_size = sizeof(struct ps_plan_options), .method = "uniform", .schedule = "1f1b", .micro_batches = 4},
                "waiting for transfers: ");
    profile->tables[0].layers[0].size.stash_bytes = 6000 * KIB;
    profile->tables[0].layers[1].size.stash_bytes = 6000 * KIB;
    check_limit(profile, make_cluster(2, 16000 * KIB, 0),
                &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "pipedream"},
                "memory: without");
    ps_profile_destroy(profile);
}

/* Slow links: fewer stages than workers. */
static void test_fewer_stages(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(4, 0, 64 * KIB / 1.0);
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster,
                           &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "auto"}, &plan,
                           &test_error));
    assert_int_equal(plan->stage_count, 1);
    assert_int_equal(plan->workers, 1);
    assert_true(fabs(plan->predicted.period_s - 24e-3) < 1e-6);
    ps_plan_destroy(plan);
    /* The plan keeps the cluster's workers, some of which may be idle, unless the method's paper uses all. */
    static const char *const methods[] = {"uniform", "pipedream-paper", NULL, "pipedream", "bapipe", "bipartition"};
    for (int m = 0; m < 6; m++) {
        assert_ok(ps_plan_find(profile, cluster,
                               &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = methods[m]},
                               &plan, &test_error));
        assert_int_equal(plan->workers, 4);
        assert_int_equal(plan->stage_count, m < 2 ? 4 : 1);
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void test_batch(void **state) {
    (void)state;
    struct ps_profile *profile = random_profile(test_key(7));
    struct ps_cluster *cluster = make_cluster(3, 0, 0);
    struct ps_plan *plan;
    struct ps_plan_options options = {.struct_size = sizeof options, .batch = 24, .schedule = "gpipe"};
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_int_equal(plan->micro_batch * plan->micro_batches, 24);
    ps_plan_destroy(plan);
    options.micro_batch = 2;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_int_equal(plan->micro_batches, 12);
    ps_plan_destroy(plan);
    options.batch = 25;
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "25 samples");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Lines of the log that hold a text. */
struct heard {
    const char *wanted;
    int count;
};

static void hear(void *context, enum ps_log_level level, const char *text) {
    struct heard *heard = context;
    (void)level;
    heard->count += strstr(text, heard->wanted) != NULL;
}

/* Without a method no partitioner is faster, every worker stays, and the same question has the same answer, also where the
 * problem is so large that less is tried. */
static void test_default(void **state) {
    (void)state;
    int idle = 0;
    for (uint64_t round = 0; round < 16; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(600 + round);
        int workers = 2 + (int)random_below(key, 1000, 6);
        struct ps_profile *profile = round == 7 ? NULL : random_profile(key);
        if (!profile) {
            enum { MANY = 450 };
            assert_ok(profile_create(1, MANY, &profile, &test_error));
            strcpy(profile->model, "large");
            profile->tables[0].micro_batch = 1;
            random_layers(key, 1e-4, 1, 2000, &profile->tables[0]);
        }
        int64_t memory = round % 3 == 0 ? (int64_t)(KIB * (500 + random_below(key, 1003, 3000))) : 0;
        /* Once with links so slow that not all workers are used. */
        double bandwidth = round == 1 ? 1e4 : 1e6 + 3e8 * (double)random_uniform(key, 1002);
        struct ps_cluster *cluster = make_cluster(workers, memory, bandwidth);
        struct ps_plan_options options = {.struct_size = sizeof options};
        struct ps_plan *plan;
        double best = throughput(profile, cluster, &options);
        for (int m = 0; partitioner_table[m]; m++) {
            const struct ps_plan_options one = {.struct_size = sizeof one, .method = partitioner_table[m]->name};
            bool all = profile->tables[0].layer_count == LAYERS || strcmp(one.method, "bapipe") != 0;
            assert_true(!all || best >= throughput(profile, cluster, &one) * (1 - 1e-6));
        }
        assert_true(throughput(profile, cluster, &options) == best);
        if (ps_plan_find(profile, cluster, &options, &plan, NULL) == PS_OK) {
            assert_int_equal(plan->workers, workers);
            idle += plan_busy_workers(plan) < workers;
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    assert_true(test_slow() || idle > 0);
}

/* One worker takes 24 ms for what the pipeline takes long for, and it is said; where a pipeline is faster it is not. */
static void test_one_worker(void **state) {
    (void)state;
    struct heard heard = {.wanted = "one worker alone would be faster: 41.67 samples/s"};
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &heard, .level = PS_LOG_WARN, .line = hear};
    struct ps_profile *profile = even_profile();
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "uniform", .log = &sink};
    for (int fast = 0; fast < 2; fast++) {
        struct ps_cluster *cluster = make_cluster(4, 0, fast ? 1e12 : 64 * KIB / 1.0);
        struct ps_plan *plan;
        heard.count = 0;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_int_equal(heard.count, fast ? 0 : 1);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

/* What the hint of a refusal names, as the options of a search. */
static bool follow(const char *hint, struct ps_plan_options *options, int64_t *memory) {
    const char *number;
    if (strncmp(hint, "with ", 5) != 0) return false;
    if (strstr(hint, "`recompute`")) options->recompute = true;
    if (strstr(hint, "no `method`")) options->method = NULL;
    if (strstr(hint, "`schedule` 1f1b")) options->schedule = "1f1b", options->weights = "sync";
    if (strstr(hint, "`optimizer` sgd")) options->optimizer = "sgd";
    if ((number = strstr(hint, "`micro_batch` "))) options->micro_batch = atoi(number + strlen("`micro_batch` "));
    if ((number = strstr(hint, "`memory` "))) *memory = (int64_t)atoi(number + strlen("`memory` ")) << 20;
    return true;
}

/* Where nothing fits, what the hint names does fit. */
static void test_hints(void **state) {
    (void)state;
    static const char *const methods[] = {NULL, "uniform", "pipedream", "madpipe", "bipartition"};
    int followed = 0, recomputed = 0, kinds[3] = {0};
    for (uint64_t round = 0; round < 40; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(700 + round);
        struct ps_profile *profile = random_profile(key);
        int64_t memory = KIB * (100 + (int64_t)random_below(key, 1003, 9000));
        struct ps_cluster *cluster = make_cluster(3, memory, 1e9);
        struct ps_plan_options options = {.struct_size = sizeof options, .method = methods[round % 5]};
        struct ps_plan *plan;
        struct ps_error error = {0};
        enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &error);
        if (status == PS_OK) ps_plan_destroy(plan);
        /* The first change that is tried. */
        struct ps_plan_options recompute = options;
        recompute.recompute = true;
        if (status == PS_NO_PLAN && options.method && ps_plan_find(profile, cluster, &recompute, &plan, NULL) == PS_OK) {
            assert_true(strncmp(error.hint, "with `recompute` a plan fits", 28) == 0);
            recomputed++;
            ps_plan_destroy(plan);
        }
        if (status == PS_NO_PLAN && follow(error.hint, &options, &memory)) {
            struct ps_cluster *more = make_cluster(3, memory, 1e9);
            assert_ok(ps_plan_find(profile, more, &options, &plan, &test_error));
            kinds[strstr(error.hint, "`memory`") ? 0 : strstr(error.hint, "`micro_batch`") ? 1 : 2]++;
            followed++;
            ps_plan_destroy(plan);
            ps_cluster_destroy(more);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    assert_true(test_slow() || (followed > 5 && recomputed > 0 && kinds[0] + kinds[1] > 0 && kinds[2] > 0));
}

/* What is not a straight pipeline carries its objective alone, and is refused where programs are wanted. */
static void test_planners(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(4, 0, 0);
    for (int p = 0; planner_table[p]; p++) {
        struct ps_plan_options options = {.struct_size = sizeof options, .method = planner_table[p]->name};
        struct ps_plan *plan;
        if (planner_table[p]->only_replicas)
            assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "`replicate`");
        options.replicate = planner_table[p]->only_replicas;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_string_equal(plan->method, planner_table[p]->name);
        bool exact =
            strcmp(planner_table[p]->name, "bipartition-paper") != 0 && strcmp(planner_table[p]->name, "madpipe-paper") != 0;
        assert_true(plan->predicted.known && plan->predicted.objective_s > 6e-3 - 1e-9);
        assert_true(!exact || fabs(plan->predicted.objective_s - 6e-3) < 1e-9);
        assert_true(plan->predicted.gap > -1e-9 && (!exact || plan->predicted.gap < 1e-9));
        if (exact && plan->predicted.simulated)
            assert_true(fabs(plan->predicted.period_s - plan->predicted.objective_s) < 1e-9);
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    profile->tables[0].layers[0].time.forward_s = 30e-3;
    cluster = make_cluster(4, 0, 0);
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream-paper", .replicate = true};
    struct ps_plan *plan;
    struct ps_simulation *simulation;
    struct ps_programs *programs;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_true(plan->predicted.simulated && plan_has_replicas(plan));
    assert_true(fabs(plan->predicted.period_s / plan->predicted.objective_s - 1) < 0.01);
    ps_plan_destroy(plan);
    options.schedule = "1f1b-star";
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "schedule 1f1b-star has no replicas");
    options.schedule = NULL;
    options.weights = "2bw";
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "too few for replicas");
    options = (struct ps_plan_options){
        .struct_size = sizeof options, .method = "bipartition-paper", .schedule = "zb-h1"}; /* has no split stages */
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_false(plan->predicted.simulated);
    char *json = ps_plan_json(plan), *table = ps_plan_table(plan);
    assert_null(strstr(json, "period_s"));
    assert_null(strstr(json, "memory_bytes"));
    assert_non_null(strstr(json, "objective_s"));
    assert_non_null(strstr(table, "neither run nor simulated"));
    free(json);
    free(table);
    assert_status(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error), PS_USAGE,
                  "schedule zb-h1 does not support split stages");
    assert_status(ps_programs_lower(plan, NULL, 1, &programs, &test_error), PS_USAGE,
                  "schedule zb-h1 does not support split stages");
    double load_s = 0;
    for (int w = 0; w < 4; w++) load_s += plan->predicted.load_s[w];
    assert_true(fabs(load_s - 53e-3) < 1e-9);
    ps_plan_destroy(plan);
    options.recompute = true;
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "`recompute`");
    options = (struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "uniform", .replicate = true};
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "`replicate`");
    options = (struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .paper_cost = true};
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "`paper_cost`");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* On PipeDream's own profiles: its figures at 12 GB/s, and the search no worse than any method. */
static void test_pipedream_profiles(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int workers;
        double straight_ms, replicated_ms;
    } cases[] = {{"vgg16", 8, 235.590, 89.677}, {"resnet50", 8, 68.507, 55.915}, {"alexnet", 4, 32.171, 22.186}};
    for (int c = 0; c < 3; c++) {
        char name[128], path[4096];
        struct ps_profile *profile;
        struct ps_plan *plan;
        snprintf(name, sizeof name, "profiles/pipedream/%s.graph.txt", cases[c].name);
        assert_ok(ps_profile_read(test_data(name, path), &profile, &test_error));
        struct ps_cluster *cluster = make_cluster(cases[c].workers, 0, 12e9);
        for (int replicate = 0; replicate < 2; replicate++) {
            struct ps_plan_options options = {
                .struct_size = sizeof options, .method = "pipedream-paper", .replicate = replicate};
            double published_ms = replicate ? cases[c].replicated_ms : cases[c].straight_ms;
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            assert_true(fabs(1e3 * plan->predicted.objective_s - published_ms) < 0.0005);
            ps_plan_destroy(plan);
        }
        double best = throughput(profile, cluster,
                                 &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .weights = "auto"});
        for (int m = 0; partitioner_table[m]; m++)
            for (int s = 0; schedule_table[s]; s++) {
                struct ps_plan_options one = {
                    .struct_size = sizeof one, .method = partitioner_table[m]->name, .schedule = schedule_table[s]->name};
                assert_true(best >= throughput(profile, cluster, &one) * (1 - 1e-6));
            }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

/* More workers than layers: some are idle, and it is no worse than the planners that leave some idle. */
static void test_idle_workers(void **state) {
    (void)state;
    struct ps_profile *profile = random_profile(test_key(7000));
    struct ps_cluster *cluster = make_cluster(2 * LAYERS, 0, 1e9);
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "auto"};
    struct ps_plan *plan;
    double best = throughput(profile, cluster, &options);
    assert_true(best > 0);
    static const char *const methods[] = {"bipartition", "madpipe"};
    for (int m = 0; m < 2; m++) {
        options.method = methods[m];
        double one = planned_throughput(profile, cluster, &options);
        assert_true(one > 0 && best >= one * (1 - 1e-9));
    }
    options.method = "uniform";
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "each needs at least one");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* With replicas no method that has them is faster, and no bound is above what was simulated. */
static void test_replicas(void **state) {
    (void)state;
    static const char *const methods[] = {"auto", "pipedream", "pipedream-paper", "data-parallel"};
    for (uint64_t round = 0; round < 20; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct ps_profile *profile = random_profile(test_key(8000 + round));
        struct ps_cluster *cluster = make_cluster(2 + (int)(round % 4), 0, round % 2 ? 2e8 : 2e9);
        double best = 0;
        for (int m = 0; m < 4; m++) {
            struct ps_plan_options options = {.struct_size = sizeof options, .method = methods[m], .replicate = true};
            struct ps_plan *plan;
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            const struct plan_prediction *predicted = &plan->predicted;
            double faster = predicted->throughput_samples_per_s;
            if (m == 0) best = faster;
            if (m < 2) assert_true(plan->micro_batches * predicted->lower_bound_s <= predicted->period_s * (1 + 1e-9));
            assert_true(best >= faster * (1 - 1e-9));
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

/* The samples per second that no plan of a case exceeds, where each worker computes all layers at the most speed that its type
 * has for any. Layers of 2 s on the first type; on the other a quarter of it but for one part. */
static void test_bound_of_types(void **state) {
    (void)state;
    static const struct {
        bool other[2], recompute;
        double speed, samples_per_s;
    } cases[] = {{{false, false}, false, 1, 2 / 4.0},
                 {{false, false}, true, 1, 2 / 6.0},
                 {{false, true}, false, 1, 2 / (8.0 / 5)},
                 {{true, true}, false, 0.5, 2 / 2.0}};
    struct ps_profile *profiles[2];
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 2};
    struct search_case tried = {.workers = 2};
    for (int p = 0; p < 2; p++) assert_ok(profile_create(1, 4, &profiles[p], &test_error));
    /* Whichever lies first is the first type. */
    const int first = (uintptr_t)profiles[0]->tables < (uintptr_t)profiles[1]->tables ? 0 : 1;
    struct ps_profile *profile = profiles[first], *other = profiles[1 - first];
    strcpy(other->device, "other");
    profile->tables[0].micro_batch = other->tables[0].micro_batch = 2;
    for (int l = 0; l < 4; l++) {
        profile->tables[0].layers[l].time =
            (struct layer_times){.forward_s = 1, .backward_input_s = 0.5, .backward_weight_s = 0.5};
        other->tables[0].layers[l].time =
            (struct layer_times){.forward_s = 0.25, .backward_input_s = 0.25, .backward_weight_s = 0.125};
    }
    assert_ok(profile_add_device(profile, other, &test_error));
    assert_ok(schedule_find("1f1b", &tried.choice.schedule, &test_error));
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    const struct search search = {.cluster = cluster};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int w = 0; w < 2; w++) {
            strcpy(cluster->devices[w].type, cases[c].other[w] ? "other" : "");
            cluster->devices[w].speed = cases[c].speed;
        }
        tried.costs = &profile->tables[0];
        tried.recompute = cases[c].recompute;
        assert_within(search_case_bound(&search, &tried), cases[c].samples_per_s, 1e-12);
        assert_within(search_case_least_s(&search, &tried), 2 / cases[c].samples_per_s, 1e-12);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_worse),
        cmocka_unit_test(test_recomputation_where_needed),
        cmocka_unit_test(test_recomputation_of_several_stages),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_bapipe_pairs),
        cmocka_unit_test(test_bapipe_or_data_parallel),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_fewer_stages),
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_one_worker),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_planners),
        cmocka_unit_test(test_pipedream_profiles),
        cmocka_unit_test(test_idle_workers),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_bound_of_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
