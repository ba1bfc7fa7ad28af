/* ps_plan_find: what it chooses where the options leave it open, that it is the best of its methods, and how it refuses. */
#include <math.h>

#include "base/text.h"
#include "plan/partitioner.h"
#include "program/lower.h"
#include "search/search.h"
#include "search_support.h"

static struct ps_profile *random_profile(struct random_key key, int layers) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, layers, &profile, &test_error));
    strcpy(profile->model, "random");
    profile->tables[0].micro_batch = 4;
    profile->tables[0].input_bytes = 64 * KIB;
    random_layers(key, 1e-3, 1, 2000, &profile->tables[0]);
    return profile;
}

static void test_choices(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *weights, *chosen_schedule, *chosen_weights;
        int micro_batches; /* chosen, for 4 workers */
    } cases[] = {
        {NULL, NULL, "1f1b-async", "pipeoptim", 1},
        {"auto", "auto", "1f1b-async", "pipeoptim", 1},
        {NULL, "sync", "1f1b", "sync", 8},
        {NULL, "stash", "1f1b-async", "stash", 1},
        {"gpipe", NULL, "gpipe", "sync", 8},
        {"naive", "auto", "naive", "sync", 1},
        {"1f1b-async", NULL, "1f1b-async", "pipeoptim", 1},
        {NULL, "2bw", "1f1b-async", "2bw", 4},
        {"1f1b", "latest", "1f1b", "latest", 8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_plan_options options = {
            .struct_size = sizeof options, .schedule = cases[i].schedule, .weights = cases[i].weights};
        struct search_choice choice;
        assert_ok(search_choose(&options, 4, &choice, &test_error));
        assert_string_equal(choice.schedule->name, cases[i].chosen_schedule);
        assert_string_equal(choice.policy->name, cases[i].chosen_weights);
        assert_int_equal(choice.micro_batches, cases[i].micro_batches);
        options.micro_batches = 5;
        assert_ok(search_choose(&options, 4, &choice, &test_error));
        assert_int_equal(choice.micro_batches, 5);
    }
}

static struct ps_plan *find(const struct ps_profile *profile, const struct ps_cluster *cluster, const char *method,
                            const char *weights) {
    struct ps_plan_options options = {.struct_size = sizeof options, .method = method, .weights = weights};
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    return plan;
}

/* The plan is what its prediction says: simulated again it takes the same time and memory. */
static void check_prediction(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster) {
    const struct plan_prediction *predicted = &plan->predicted;
    struct ps_simulation *simulation;
    assert_true(predicted->known);
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    struct ps_simulation_info info = ps_simulation_info(simulation);
    assert_true(predicted->period_s == info.period_s);
    assert_true(predicted->throughput_samples_per_s == info.throughput_samples_per_s);
    assert_true(predicted->bubble == info.bubble);
    assert_true(predicted->solve_s >= 0);
    assert_true(predicted->lower_bound_s > 0 && predicted->lower_bound_s <= predicted->objective_s);
    assert_true(fabs(predicted->gap - (predicted->objective_s / predicted->lower_bound_s - 1)) <= 1e-12);
    double load_s = 0, total_s = 0;
    for (int w = 0; w < plan->workers; w++) {
        assert_int_equal(worker_memory_total(&predicted->memory[w]), ps_simulation_worker(simulation, w).memory_bytes);
        load_s += predicted->load_s[w];
    }
    for (int l = 0; l < profile->tables[0].layer_count; l++) {
        const struct layer_times *time = &profile->tables[0].layers[l].time;
        total_s += time->forward_s + time->backward_input_s + time->backward_weight_s;
    }
    assert_true(fabs(load_s - total_s) <= 1e-9);
    ps_simulation_destroy(simulation);
}

static void test_best_of_its_methods(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(round);
        int workers = 1 + (int)random_below(key, 1000, 6), layers = workers + (int)random_below(key, 1001, 12);
        struct ps_profile *profile = random_profile(key, layers);
        struct ps_cluster *cluster =
            make_cluster(workers, 0, round % 3 == 0 ? 0 : 1e7 + 1e9 * (double)random_uniform(key, 1002));
        const char *weights = round % 2 ? "sync" : NULL;
        struct ps_plan *plan = find(profile, cluster, NULL, weights);
        assert_string_equal(plan->model, "random");
        assert_int_equal(plan->micro_batch, 4);
        check_prediction(plan, profile, cluster);
        bool named = planner_find(plan->method);
        for (int m = 0; partitioner_table[m]; m++) {
            struct ps_plan *other = find(profile, cluster, partitioner_table[m]->name, weights);
            assert_string_equal(other->method, partitioner_table[m]->name);
            check_prediction(other, profile, cluster);
            assert_true(plan->predicted.period_s <= other->predicted.period_s * (1 + 1e-9));
            named = named || strcmp(plan->method, other->method) == 0;
            ps_plan_destroy(other);
        }
        assert_true(named);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

/* Tightens the limit to just below what the last plan took until nothing fits: every plan keeps the limit that it was given,
 * gets no faster, and the refusal says who needs what. */
static void test_memory_limits(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 20; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(1000 + round);
        struct ps_profile *profile = random_profile(key, 12);
        struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream"};
        struct ps_plan *plan = NULL;
        int64_t limit = 0;
        double objective_s = 0;
        enum ps_status status;
        int plans = 0;
        for (;;) {
            struct ps_cluster *cluster = make_cluster(4, limit, 0);
            struct ps_plan *next;
            status = ps_plan_find(profile, cluster, &options, &next, &test_error);
            ps_cluster_destroy(cluster);
            if (status != PS_OK) break;
            ps_plan_destroy(plan);
            plan = next;
            plans++;
            assert_true(limit == 0 || most_memory(plan) <= limit);
            assert_true(plan->predicted.objective_s >= objective_s);
            objective_s = plan->predicted.objective_s;
            limit = most_memory(plan) - 1;
        }
        assert_true(plans > 0);
        assert_int_equal(status, PS_NO_PLAN);
        assert_non_null(strstr(test_error.message, "worker "));
        assert_non_null(strstr(test_error.hint, "optimizer"));
        memset(&test_error, 0, sizeof test_error);
        ps_plan_destroy(plan);
        ps_profile_destroy(profile);
    }
}

static void test_refusal_by_every_method(void **state) {
    (void)state;
    struct ps_profile *profile = random_profile(test_key(1), 8);
    struct ps_cluster *cluster = make_cluster(4, 64 * KIB, 0);
    struct ps_plan_options options = {.struct_size = sizeof options};
    struct ps_plan *plan = NULL;
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "has 64.0 KiB");
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "`memory`");
    assert_int_equal(ps_plan_find(profile, cluster, &options, &plan, NULL), PS_NO_PLAN);
    ps_cluster_destroy(cluster);
    cluster = make_cluster(9, 0, 0);
    options.method = "uniform";
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "9 workers");
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "(8)");
    assert_null(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* The stage that does not fit is named, whichever it is. */
static void test_refusal_names_the_stage(void **state) {
    (void)state;
    for (int large = 0; large < 2; large++) {
        struct ps_profile *profile = random_profile(test_key(3), 2);
        struct ps_cluster *cluster = make_cluster(2, 1 << 20, 0);
        struct ps_plan_options options = {
            .struct_size = sizeof options, .schedule = "1f1b", .weights = "sync", .micro_batches = 2, .replicate = true};
        struct ps_plan *plan;
        for (int l = 0; l < 2; l++) profile->tables[0].layers[l].size.parameter_bytes = l == large ? 16 << 20 : 2 << 20;
        for (int m = 0; m < 2; m++) {
            options.method = m == 0 ? NULL : "pipedream";
            assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN,
                          large ? "stage 1 (layers 2 to 2, " : "stage 0 (layers 1 to 1, ");
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

static void test_wrong_options(void **state) {
    (void)state;
    static const struct {
        struct ps_plan_options options;
        const char *said;
    } cases[] = {
        {{.method = "pipedreem"}, "did you mean 'pipedream'"},
        {{.schedule = "gpip"}, "did you mean 'gpipe'"},
        {{.weights = "pipeoptin"}, "did you mean 'pipeoptim'"},
        {{.optimizer = "sgdn"}, "did you mean 'sgd"},
        {{.schedule = "1f1b-async", .weights = "sync"}, "does not flush"},
        {{.weights = "2bw", .micro_batches = 2}, "at least as many as stages (3)"},
        {{.weights = "spectrain", .optimizer = "adam"}, "sgdm"},
        {{.micro_batches = -1}, "-1"},
        {{.micro_batch = 5}, "5"},
        {{.method = "pipedream", .paper_cost = true}, "`paper_cost`: method pipedream has no other costs"},
        {{.method = "madpipe", .wire = "int8", .paper_cost = true}, "`wire`: the published costs know no codecs"},
    };
    struct ps_profile *profile = random_profile(test_key(2), 8);
    struct ps_cluster *cluster = make_cluster(3, 0, 0);
    struct ps_plan *plan = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_plan_options options = cases[i].options;
        options.struct_size = sizeof options;
        assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, cases[i].said);
    }
    assert_null(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void test_options_reach_the_plan(void **state) {
    (void)state;
    struct ps_profile *profile = random_profile(test_key(3), 8);
    struct ps_cluster *cluster = make_cluster(3, 0, 0);
    struct ps_plan_options options = {.struct_size = sizeof options,
                                      .method = "uniform",
                                      .schedule = "gpipe",
                                      .weights = "sync",
                                      .optimizer = "adam",
                                      .micro_batches = 6,
                                      .recompute = true,
                                      .paper_prediction = true};
    struct ps_plan *plan, *lighter;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_string_equal(plan->schedule, "gpipe");
    assert_string_equal(plan->weights, "sync");
    assert_string_equal(plan->optimizer, "adam");
    assert_int_equal(plan->micro_batches, 6);
    assert_true(plan->paper_prediction);
    static const int last[] = {2, 5, 7};
    for (int s = 0; s < 3; s++) {
        assert_true(plan->stages[s].recompute);
        assert_int_equal(plan->stages[s].last, last[s]);
        assert_int_equal(plan->predicted.memory[s].optimizer, 2 * plan->predicted.memory[s].gradients);
    }
    options.optimizer = "sgd";
    assert_ok(ps_plan_find(profile, cluster, &options, &lighter, &test_error));
    for (int s = 0; s < 3; s++) assert_int_equal(lighter->predicted.memory[s].optimizer, 0);
    ps_plan_destroy(lighter);
    options.recompute = false;
    assert_ok(ps_plan_find(profile, cluster, &options, &lighter, &test_error));
    for (int s = 0; s < 3; s++) assert_true(lighter->predicted.memory[s].stash > plan->predicted.memory[s].stash);
    assert_true(lighter->predicted.period_s < plan->predicted.period_s);
    ps_plan_destroy(lighter);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* The optimizer's own state, and what the prediction keeps beside it. */
static void test_moments(void **state) {
    (void)state;
    static const struct {
        const char *policy, *optimizer;
        int moments;
    } cases[] = {
        {"sync", "sgd", 0},       {"stash", "sgdm", 1},     {"latest", "adamw", 2},   {"pipeoptim", "sgd", 1},
        {"pipeoptim", "sgdm", 1}, {"pipeoptim", "adam", 2}, {"spectrain", "sgdm", 1}, {"xpipe", "sgd", 2},
        {"xpipe", "sgdm", 3},     {"xpipe", "adam", 2},
    };
    int moments;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(policy_moments(cases[i].policy, cases[i].optimizer, &moments, &test_error));
        assert_int_equal(moments, cases[i].moments);
    }
    assert_status(policy_moments("spectrain", "adam", &moments, &test_error), PS_USAGE, "cannot run with optimizer adam");
    assert_status(policy_moments("spectrain", "sgd", &moments, &test_error), PS_USAGE, "cannot run with optimizer sgd");
}

/* Schedules with several stages per worker: the plan places them as the schedule does, predicts per worker, and is simulated to
 * the same period. */
static void test_several_stages(void **state) {
    (void)state;
    enum { WORKERS = 4, LAYERS = 12 };
    for (int s = 0; schedule_table[s]; s++) {
        struct ps_profile *profile = random_profile(test_key(77), LAYERS);
        struct ps_cluster *cluster = make_cluster(WORKERS, 0, 1e9);
        struct ps_plan_options options = {
            .struct_size = sizeof options, .schedule = schedule_table[s]->name, .method = "uniform"};
        struct ps_plan *plan;
        struct ps_simulation *simulation;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_int_equal(plan->workers, WORKERS);
        assert_int_equal(plan->stage_count, schedule_stages(schedule_table[s], WORKERS));
        assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
        assert_true(fabs(ps_simulation_info(simulation).period_s - plan->predicted.period_s) <=
                    1e-9 * plan->predicted.period_s);
        double load_s = 0, time_s = 0;
        for (int w = 0; w < WORKERS; w++) load_s += plan->predicted.load_s[w];
        for (int l = 0; l < LAYERS; l++) {
            const struct layer_times *time = &profile->tables[0].layers[l].time;
            time_s += time->forward_s + time->backward_input_s + time->backward_weight_s;
        }
        assert_true(fabs(load_s - time_s) <= 1e-12);
        ps_simulation_destroy(simulation);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    struct ps_profile *profile = random_profile(test_key(77), 7);
    struct ps_cluster *cluster = make_cluster(4, 0, 1e9);
    struct ps_plan_options options = {.struct_size = sizeof options, .schedule = "interleaved", .method = "uniform"};
    struct ps_plan *plan;
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "8 stages need");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void add_line(void *text, enum ps_log_level level, const char *said) {
    if (level == PS_LOG_DEBUG) text_add(text, "%s\n", said);
}

/* What is tried is said line by line, to those who want to know. */
static void test_what_is_tried(void **state) {
    (void)state;
    static const struct {
        const char *method, *weights;
        int workers;
        bool replicate;
        const char *said;
    } cases[] = {
        {"uniform", NULL, 2, false,
         "uniform, 1f1b-async, pipeoptim, 2 stages, 1 micro-batch: a mini-batch every 12.0 ms (objective 12.0 ms)\n"},
        {"uniform", "stash", 1, false,
         "uniform, 1f1b-async, stash, 1 stage, 1 micro-batch: a mini-batch every 24.0 ms (objective 24.0 ms)\n"},
        {"pipedream", "sync", 2, false,
         "pipedream, 1f1b, sync, 2 stages, 4 micro-batches: a mini-batch every 60.0 ms (objective 12.0 ms)\n"},
        {NULL, "stash", 3, true,
         "pipedream, 1f1b-async, stash, 3 stages, 1 micro-batch: a mini-batch every 9.00 ms (objective 9.00 ms)\n"
         "bapipe, 1f1b-async, stash, 3 stages, 1 micro-batch: a mini-batch every 9.00 ms (objective 9.00 ms)\n"
         "uniform, 1f1b-async, stash, 3 stages, 1 micro-batch: a mini-batch every 9.00 ms (objective 9.00 ms)\n"
         "pipedream: 125 samples/s\n"
         "pipedream, 1f1b-async, stash, 3 stages, 1 micro-batch: a mini-batch every 9.00 ms (objective 9.00 ms)\n"
         "pipedream, 1f1b-async, stash, 3 stages, 1 micro-batch: a mini-batch every 9.00 ms (objective 9.00 ms)\n"
         "the first phase promises a period of 0.024 s\n"},
    };
    struct ps_profile *profile = even_profile();
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct text text = {0};
        const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &text, .level = PS_LOG_DEBUG, .line = add_line};
        struct ps_plan_options options = {.struct_size = sizeof options,
                                          .method = cases[c].method,
                                          .weights = cases[c].weights,
                                          .replicate = cases[c].replicate,
                                          .log = &sink};
        struct ps_cluster *cluster = make_cluster(cases[c].workers, 0, 0);
        struct ps_plan *plan;
        assert_ok(search_find_plan(profile, cluster, &options, &plan, &test_error));
        char *said = text_take(&text);
        assert_string_equal(said, cases[c].said);
        free(said);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

static void add_progress(void *context, const char *what, double done, double total, const char *detail) {
    text_add(context, "%s %g of %g: %s\n", what, done, total, detail);
}

/* What is planned again for each codec is shown as it goes on, each time; but what is said of it comes once. */
static void test_progress(void **state) {
    (void)state;
    static const char *const wires[] = {NULL, "auto:int8"}; /* none, bf16 and int8 */
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(3, 0, 0);
    char *shown[2], *said[2];
    cluster->devices[2].speed = 2; /* so that choices of replicas are tried one after the other */
    for (int w = 0; w < 2; w++) {
        struct text progress = {0}, lines = {0};
        const struct ps_log_sink shows = {.struct_size = sizeof shows, .context = &progress, .progress = add_progress},
                                 says = {
                                     .struct_size = sizeof says, .context = &lines, .level = PS_LOG_DEBUG, .line = add_line};
        const struct ps_log_sink *const sinks[] = {&shows, &says};
        for (int s = 0; s < 2; s++) {
            struct ps_plan_options options = {.struct_size = sizeof options,
                                              .method = s ? "uniform" : "pipedream",
                                              .weights = "stash",
                                              .replicate = s == 0,
                                              .wire = wires[w],
                                              .log = sinks[s]};
            struct ps_plan *plan;
            assert_ok(search_find_plan(profile, cluster, &options, &plan, &test_error));
            ps_plan_destroy(plan);
        }
        shown[w] = text_take(&progress);
        said[w] = text_take(&lines);
    }
    assert_string_equal(shown[0], "planning 0 of 7: 3 stages on 3 workers\nplanning 1 of 1: \n");
    const size_t length = strlen(shown[0]);
    assert_int_equal(strlen(shown[1]), 3 * length);
    for (int time = 0; time < 3; time++) assert_memory_equal(shown[1] + (size_t)time * length, shown[0], length);
    assert_memory_equal(said[0], "uniform, 1f1b-async, stash, 3 stages", 36);
    assert_string_equal(said[1], said[0]);
    for (int w = 0; w < 2; w++) {
        free(shown[w]);
        free(said[w]);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* A share of the work, and of each update, which all do, and the ring: every piece of gradients and statistics goes to all but
 * one worker twice. */
static void test_data_parallel(void **state) {
    (void)state;
    enum { WORKERS = 4, MICRO_BATCHES = 8 };
    struct ps_profile *profile = even_profile();
    for (int l = 0; l < 8; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        layer->time.update_s = 1e-4 * (l + 1);
        layer->size.parameter_bytes = 4 * KIB * (l + 1);
        layer->size.statistics_bytes = 2 * KIB * l;
    }
    struct ps_cluster *cluster = make_cluster(WORKERS, 0, 1e8);
    for (int flush = 0; flush < 2; flush++) {
        struct ps_plan_options options = {.struct_size = sizeof options,
                                          .method = "data-parallel",
                                          .schedule = flush ? "1f1b" : "1f1b-async",
                                          .weights = flush ? "sync" : "stash",
                                          .micro_batches = MICRO_BATCHES,
                                          .replicate = true};
        struct ps_plan *plan;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        const double updates = flush ? 1.0 / MICRO_BATCHES : 1.0 / (MICRO_BATCHES * WORKERS);
        const double update_s = 36e-4, piece_bytes = KIB * (4 * 36 + 2 * 28) / (double)WORKERS;
        const double wanted_s = 24e-3 / WORKERS + updates * (update_s + 2 * (WORKERS - 1) * piece_bytes / 1e8);
        assert_true(fabs(plan->predicted.objective_s / wanted_s - 1) < 1e-9);
        ps_plan_destroy(plan);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Two layers of together 6 ms, of which the second takes this share. */
static struct ps_profile *two_layers(double share, int64_t parameter_bytes) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, 2, &profile, &test_error));
    strcpy(profile->model, "two");
    profile->tables[0].micro_batch = 1;
    for (int l = 0; l < 2; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        const double part_s = 2e-3 * (l ? share : 1 - share);
        layer->time = (struct layer_times){.forward_s = part_s, .backward_input_s = part_s, .backward_weight_s = part_s};
        layer->size = (struct layer_sizes){
            .parameter_bytes = parameter_bytes, .output_bytes = 6400, .value_bytes = 6400, .stash_bytes = 6400};
    }
    return profile;
}

/* With codecs, too, a prediction is one of links as they are, whether or not the plan has anything to encode; and `auto` is as
 * fast as each of its methods. */
static void test_codecs_on_real_links(void **state) {
    (void)state;
    static const struct {
        double share;
        int64_t parameter_bytes;
        double bandwidth;
        int micro_batches;
        const char *wire;
    } cases[] = {{0.5, 4 << 20, 1e9, 4, "activation=int8+gradient=int8"}, /* replicas are slow, on faster links fast */
                 {0.5, 4 << 20, 1e9, 4, "int8"},
                 {0.5, 4 << 20, 1e9, 4, "auto:int8"},
                 {0.05, 400 * KIB, 1e7, 16, "sum=int8"}, /* replicas are slow, with the codec fast */
                 {0.05, 400 * KIB, 1e7, 16, "auto:int8"}};
    static const char *const methods[] = {"auto", "pipedream", "uniform", "data-parallel"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_profile *profile = two_layers(cases[c].share, cases[c].parameter_bytes);
        struct ps_cluster *cluster = make_cluster(2, 0, cases[c].bandwidth);
        double fastest = 0;
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            const struct ps_plan_options options = {.struct_size = sizeof options,
                                                    .method = methods[m],
                                                    .schedule = "1f1b",
                                                    .micro_batches = cases[c].micro_batches,
                                                    .wire = cases[c].wire,
                                                    .replicate = search_may_replicate(methods[m])};
            struct ps_plan *plan;
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            check_prediction(plan, profile, cluster);
            if (m == 0)
                fastest = plan->predicted.throughput_samples_per_s;
            else
                assert_true(plan->predicted.throughput_samples_per_s <= fastest * (1 + 1e-9));
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

/* Where a pattern is wanted it is found by every method, and where none is faster the plan is that of 1F1B. Transfers are
 * longer than a stage here. */
static void test_wanted_patterns(void **state) {
    (void)state;
    static const char *const methods[] = {"auto", "pipedream", "uniform", "bapipe", "bipartition", "madpipe"};
    static const char *const schedules[] = {NULL, "1f1b-async", "pattern"};
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(4, 0, 2e7);
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        double period_s[3] = {0};
        for (int s = 0; s < 3; s++) {
            const struct ps_plan_options options = {
                .struct_size = sizeof options, .method = methods[m], .schedule = schedules[s]};
            struct ps_plan *plan;
            if (s == 1 && strcmp(methods[m], "madpipe") == 0) continue;
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            check_prediction(plan, profile, cluster);
            period_s[s] = plan->predicted.period_s;
            if (s == 2 && strcmp(plan->schedule, "1f1b-star") != 0) {
                assert_string_equal(plan->schedule, "pattern");
                assert_int_equal(plan->pattern_count, 2 * plan->stage_count);
            }
            ps_plan_destroy(plan);
        }
        assert_true(period_s[2] <= period_s[0] * (1 + 1e-9));
        if (period_s[1] > 0) assert_true(period_s[2] < 0.9 * period_s[1]);
    }
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* One worker is as fast as two where they take turns, but a cut between them has half the objective. */
static void test_bound_of_more_workers(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(2, 0, 1e8);
    const struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream", .schedule = "naive"};
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_int_equal(plan->stage_count, 1);
    check_prediction(plan, profile, cluster);
    assert_true(fabs(plan->predicted.objective_s - 24e-3) < 1e-9);
    assert_true(fabs(plan->predicted.lower_bound_s - 12e-3) < 1e-9);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Whether a cut of all that the schedule may have fits; the stages from `stage` on begin with `layer`. */
static bool any_fits(struct ps_plan *plan, int stage, int layer, const struct ps_profile *profile,
                     const struct ps_cluster *cluster) {
    const int layers = profile->tables[0].layer_count;
    const bool all = stage == plan->stage_count - 1;
    bool fits = false;
    if (stage == plan->stage_count) {
        struct ps_simulation *simulation;
        assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
        fits = ps_simulation_check_memory(simulation, plan, profile, cluster, NULL) == PS_OK;
        ps_simulation_destroy(simulation);
        return fits;
    }
    plan->stages[stage].first = layer;
    for (int last = all ? layers - 1 : layer; last < layers - (plan->stage_count - 1 - stage) && !fits; last++) {
        plan->stages[stage].last = last;
        fits = any_fits(plan, stage + 1, last + 1, profile, cluster);
    }
    return fits;
}

/* Workers with several stages: what the stages need together is to fit, each alone may need more than an equal share. */
static void test_memory_of_several_stages(void **state) {
    (void)state;
    static const char *const schedules[] = {"interleaved", "hanayo", "zb-v", "chimera"};
    int fit = 0, found = 0;
    for (uint64_t round = 0; round < 160; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(3000 + round);
        struct ps_profile *profile = random_profile(key, 6 + (int)random_below(key, 1000, 3));
        struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "uniform", .schedule = schedules[round % 4], .micro_batches = 4};
        const int workers = round % 4 == 3 ? 4 : 2;
        struct ps_cluster *cluster = make_cluster(workers, 0, 1e9);
        struct ps_plan *plan, *best;
        struct ps_error refusal = {0};
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        for (int w = 0; w < workers; w++)
            cluster->devices[w].memory_bytes = (int64_t)((0.7 + 0.4 * random_uniform(key, 1001)) * (double)most_memory(plan));
        options.method = "auto";
        enum ps_status status = ps_plan_find(profile, cluster, &options, &best, &refusal);
        if (status == PS_OK) {
            for (int w = 0; w < best->workers; w++)
                assert_true(worker_memory_total(&best->predicted.memory[w]) <= cluster->devices[w].memory_bytes);
            ps_plan_destroy(best);
        }
        if (any_fits(plan, 0, 0, profile, cluster)) {
            fit++;
            found += status == PS_OK;
        }
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    print_message("%d of %d\n", found, fit);
    assert_true(found >= 0.9 * fit);
    /* Layers of 3, 3, 1, 1 MiB: the first stage of each worker is much larger than the second. */
    struct ps_profile *profile = even_profile();
    profile->tables[0].layer_count = 4;
    for (int l = 0; l < 4; l++) profile->tables[0].layers[l].size.parameter_bytes = (l < 2 ? 3 : 1) << 20;
    for (int fits = 0; fits < 2; fits++) {
        static const char *const methods[] = {"uniform", "pipedream", "bapipe", "auto"};
        struct ps_cluster *cluster = make_cluster(2, (fits ? 14 : 7) << 20, 1e9);
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            const struct ps_plan_options options = {
                .struct_size = sizeof options, .method = methods[m], .schedule = "interleaved", .micro_batches = 4};
            struct ps_plan *plan;
            if (!fits) {
                assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "has 7.00 MiB");
                continue;
            }
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            assert_true(most_memory(plan) <= 14 << 20);
            ps_plan_destroy(plan);
        }
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

/* What may have replicas may also have none. */
static void test_replicas_never_slower(void **state) {
    (void)state;
    for (uint64_t round = 0; round < 40; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(4000 + round);
        struct ps_profile *profile = random_profile(key, 3 + (int)random_below(key, 1000, 4));
        struct ps_cluster *cluster =
            make_cluster(2 + (int)random_below(key, 1001, 3), 0, 1e7 + 1e8 * random_uniform(key, 1002));
        double speed[2];
        for (int replicate = 0; replicate < 2; replicate++) {
            const struct ps_plan_options options = {.struct_size = sizeof options,
                                                    .method = "pipedream",
                                                    .schedule = round % 2 ? "1f1b" : NULL,
                                                    .micro_batches = 8,
                                                    .replicate = replicate};
            struct ps_plan *plan;
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            check_prediction(plan, profile, cluster);
            speed[replicate] = plan->predicted.throughput_samples_per_s;
            ps_plan_destroy(plan);
        }
        assert_true(speed[1] >= speed[0] * (1 - 1e-9));
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_what_is_tried),
        cmocka_unit_test(test_several_stages),
        cmocka_unit_test(test_best_of_its_methods),
        cmocka_unit_test(test_memory_limits),
        cmocka_unit_test(test_refusal_by_every_method),
        cmocka_unit_test(test_refusal_names_the_stage),
        cmocka_unit_test(test_wrong_options),
        cmocka_unit_test(test_options_reach_the_plan),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_data_parallel),
        cmocka_unit_test(test_codecs_on_real_links),
        cmocka_unit_test(test_wanted_patterns),
        cmocka_unit_test(test_bound_of_more_workers),
        cmocka_unit_test(test_memory_of_several_stages),
        cmocka_unit_test(test_replicas_never_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
