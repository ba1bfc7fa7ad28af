/* Plans of MadPipe run: lowered and verified, within memory, as fast as was planned; also by the paper's formulas. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "plan/plan.h"
#include "program/lower.h"
#include "search/search.h"
#include "support.h"

static struct ps_profile *random_profile(struct random_key key, int layers, double update_s) {
    struct ps_profile *profile;
    uint64_t n = 0;
    assert_ok(profile_create(1, layers, &profile, &test_error));
    strcpy(profile->model, "random");
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        layer->time.forward_s = 1e-3 * (double)random_uniform(key, n++);
        layer->time.backward_input_s = 2e-3 * (double)random_uniform(key, n++);
        layer->time.update_s = update_s;
        layer->size.parameter_bytes = (int64_t)random_below(key, n++, 1000000);
        layer->size.output_bytes = layer->size.value_bytes = l < layers - 1 ? (int64_t)random_below(key, n++, 1000000) : 0;
        layer->size.stash_bytes = (int64_t)random_below(key, n++, 1000000);
    }
    return profile;
}

/* The least memory with which the method has a plan, to 1/16. */
static int64_t least_memory(const struct ps_profile *profile, const struct ps_plan_options *options, int workers,
                            double bandwidth) {
    int64_t low = 0, high = (int64_t)1 << 34;
    while (high - low > high / 16) {
        int64_t middle = (low + high) / 2;
        struct ps_cluster_options machines = {
            .struct_size = sizeof machines, .workers = workers, .memory_bytes = middle, .bandwidth_bytes_per_s = bandwidth};
        struct ps_cluster *cluster;
        struct ps_plan *plan = NULL;
        struct ps_error refusal = {0};
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        enum ps_status status = ps_plan_find(profile, cluster, options, &plan, &refusal);
        assert_true(status == PS_OK || status == PS_NO_PLAN);
        *(status == PS_OK ? &high : &low) = middle;
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
    return high;
}

/* A chain's plan that is faster than those with a schedule of MadPipe's: PipeDream's, whose objective knows of no limit to the
 * micro-batches in flight, so that the simulation may well be longer. */
static void check_chain(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                        const struct ps_plan_options *options) {
    struct ps_plan_options of_chain = *options;
    struct ps_plan *chain;
    of_chain.method = "pipedream";
    assert_ok(ps_plan_find(profile, cluster, &of_chain, &chain, &test_error));
    assert_string_equal(plan->schedule, chain->schedule);
    assert_int_equal(plan->stage_count, chain->stage_count);
    for (int s = 0; s < plan->stage_count; s++) assert_int_equal(plan->stages[s].last, chain->stages[s].last);
    assert_true(fabs(plan->predicted.period_s - chain->predicted.period_s) < 1e-12);
    assert_true(plan->predicted.period_s > plan->predicted.objective_s * 0.95);
    ps_plan_destroy(chain);
}

/* Directions with links of their own leave a plan by the paper's formulas, which know of no updates, time to spare. */
static void check_schedule(const struct ps_plan *plan, bool paper) {
    const struct plan_prediction *predicted = &plan->predicted;
    double ratio = predicted->period_s / predicted->objective_s;
    if (ratio > 1.05 || (!paper && ratio < 0.95))
        print_message("%s %s planned %.9g, simulated %.9g\n", plan->schedule, plan->weights, predicted->objective_s,
                      predicted->period_s);
    assert_true(ratio < 1.05 && (paper || ratio > 0.95));
}

/* By the paper's formula: two versions of the weights and a gradient, two buffers at each cut, and the inputs of all layers of
 * each batch between its forward and its backward, when the worker has most of them. */
static void check_paper_memory(const struct ps_plan *plan, const struct ps_profile *profile) {
    enum { BATCHES = 60 };
    const struct layer_cost *layers = profile->tables[0].layers;
    struct ps_programs *programs;
    assert_ok(ps_programs_lower(plan, profile, BATCHES, &programs, &test_error));
    for (int w = 0; w < plan->workers; w++) {
        struct worker_memory wanted = {0};
        int64_t inputs[32] = {0}, stash = 0;
        for (int s = 0; s < plan->stage_count; s++) {
            const struct plan_stage *stage = &plan->stages[s];
            for (int l = stage->first; l <= stage->last; l++) inputs[s] += l > 0 ? layers[l - 1].size.output_bytes : 0;
            if (stage->forward[0] != w) continue;
            for (int l = stage->first; l <= stage->last; l++) wanted.weights += 2 * layers[l].size.parameter_bytes;
            wanted.buffers += 2 * layers[stage->last].size.output_bytes;
            if (stage->first > 0) wanted.buffers += 2 * layers[stage->first - 1].size.output_bytes;
        }
        wanted.gradients = wanted.weights / 2;
        for (int i = 0; i < programs->worker[w].count; i++) {
            const struct instruction *instruction = &programs->worker[w].code[i];
            if (instruction->op == OP_F) stash += inputs[instruction->stage];
            if (instruction->op == OP_B) stash -= inputs[instruction->stage];
            wanted.stash = number_larger(wanted.stash, stash);
        }
        assert_int_equal(stash, 0);
        assert_memory_equal(&plan->predicted.memory[w], &wanted, sizeof wanted);
    }
    ps_programs_destroy(programs);
}

static void check_plan(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                       const struct ps_plan_options *options, int64_t memory) {
    const struct plan_prediction *predicted = &plan->predicted;
    struct ps_simulation *simulation;
    assert_true(predicted->known && predicted->simulated);
    for (int w = 0; w < plan->workers; w++) assert_true(worker_memory_total(&predicted->memory[w]) <= memory);
    if (strcmp(plan->schedule, "pattern") == 0 || strcmp(plan->schedule, "1f1b-star") == 0) {
        check_schedule(plan, options->paper_cost);
        if (options->paper_cost) check_paper_memory(plan, profile);
    } else {
        check_chain(plan, profile, cluster, options);
    }
    assert_true(predicted->gap > -1e-9);
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    assert_true(fabs(ps_simulation_info(simulation).period_s - predicted->period_s) < 1e-12);
    ps_simulation_destroy(simulation);
}

static void test_plans_run(void **state) {
    (void)state;
    static const double multiples[] = {1.1, 1.4, 2};
    int patterns = 0, plans = 0;
    for (uint64_t round = 0; round < 16; round++) {
        if (!test_takes((size_t)round / 2, 5)) continue; /* by either formula */
        struct random_key key = test_key(round);
        int layers = 4 + (int)random_below(key, 1000, 16), workers = 2 + (int)random_below(key, 1001, 3);
        bool paper = round % 2;
        double bandwidth = round % 3 == 0 ? 0 : 1e9;
        struct ps_profile *profile = random_profile(key, layers, paper ? 0 : 5e-6);
        struct ps_plan_options options = {.struct_size = sizeof options,
                                          .method = "madpipe",
                                          .paper_cost = paper,
                                          .weights = round % 4 < 2 ? "latest" : "pipeoptim"};
        int64_t least = least_memory(profile, &options, workers, bandwidth);
        for (int m = 0; m < 3; m++) {
            int64_t memory = (int64_t)(multiples[m] * (double)least);
            struct ps_cluster *cluster;
            struct ps_plan *plan;
            struct ps_cluster_options machines = {
                .struct_size = sizeof machines, .workers = workers, .memory_bytes = memory, .bandwidth_bytes_per_s = bandwidth};
            assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
            assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
            check_plan(plan, profile, cluster, &options, memory);
            patterns += plan->pattern_count > 0;
            plans++;
            ps_plan_destroy(plan);
            ps_cluster_destroy(cluster);
        }
        ps_profile_destroy(profile);
    }
    assert_true(patterns > plans / 4 && patterns < plans);
}

static void test_schedule_is_its_own(void **state) {
    (void)state;
    struct ps_profile *profile = random_profile(test_key(100), 8, 0);
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = 2},
                                 &cluster, &test_error));
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "madpipe", .schedule = "1f1b"};
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, "a schedule of its own");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* MadPipe's baseline: PipeDream's partition under 1F1B*. With less memory than its groups take at the least period the stages
 * hold less, and the period is longer. */
static void test_lengthened(void **state) {
    (void)state;
    enum { WORKERS = 4 };
    int lengthened = 0, refused = 0;
    for (uint64_t round = 0; round < 40; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct ps_profile *profile = random_profile(test_key(200 + round), 12, 0);
        struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "pipedream", .schedule = "1f1b-star", .weights = "latest"};
        struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = WORKERS, .bandwidth_bytes_per_s = 1e9};
        struct ps_cluster *cluster;
        struct ps_plan *plan, *less;
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        for (int w = 0; w < WORKERS; w++)
            machines.memory_bytes = number_larger(machines.memory_bytes, worker_memory_total(&plan->predicted.memory[w]) - 1);
        ps_cluster_destroy(cluster);
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        enum ps_status status = ps_plan_find(profile, cluster, &options, &less, &test_error);
        assert_true(status == PS_OK || status == PS_NO_PLAN);
        refused += status != PS_OK;
        if (status == PS_OK) {
            bool same = less->stage_count == plan->stage_count, fewer = false;
            for (int w = 0; w < WORKERS; w++)
                assert_true(worker_memory_total(&less->predicted.memory[w]) <= machines.memory_bytes);
            for (int s = 0; s < less->stage_count && same; s++) {
                same = less->stages[s].last == plan->stages[s].last;
                fewer = fewer || less->stages[s].in_flight < plan->stages[s].in_flight;
            }
            lengthened += same && fewer;
            if (same) assert_true(fewer && less->predicted.period_s >= plan->predicted.period_s * (1 - 1e-9));
            ps_plan_destroy(less);
        }
        test_error = (struct ps_error){0};
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    print_message("%d cuts hold less, %d do not fit at all\n", lengthened, refused);
    assert_true(test_slow() || lengthened >= 5);
}

static struct ps_plan *plan_with_slack(const struct ps_profile *profile, const struct ps_cluster *cluster, const char *method,
                                       const char *schedule, int slack) {
    const struct ps_plan_options options = {
        .struct_size = sizeof options, .method = method, .schedule = schedule, .weights = "latest", .slack = slack};
    struct ps_plan *plan;
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    return plan;
}

/* With slack plans are no slower without transfers, and as much memory is planned as a run takes that lasts longer than
 * anything is in flight. */
static void test_slack(void **state) {
    (void)state;
    static const struct {
        const char *method, *schedule;
    } methods[] = {{"pipedream", "1f1b-star"}, {"pipedream", NULL}, {"madpipe", NULL}, {"bipartition", NULL}, {"auto", NULL}};
    static const int slacks[] = {1, 20};
    enum { WORKERS = 4, ROUNDS = 6 };
    int patterns = 0, splits = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct ps_profile *profile = random_profile(test_key(300 + round), 12, 1e-5);
        const bool transfers = round % 2 == 1;
        const struct ps_cluster_options machines = {
            .struct_size = sizeof machines, .workers = WORKERS, .bandwidth_bytes_per_s = transfers ? 1e9 : 0};
        struct ps_cluster *cluster;
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            struct ps_plan *tight = plan_with_slack(profile, cluster, methods[m].method, methods[m].schedule, 0);
            for (size_t c = 0; c < sizeof slacks / sizeof *slacks; c++) {
                struct ps_plan *plan = plan_with_slack(profile, cluster, methods[m].method, methods[m].schedule, slacks[c]);
                struct ps_simulation *usual, *longer;
                assert_int_equal(plan->slack, slacks[c]);
                patterns += plan->pattern_count > 0;
                splits += plan_is_split(plan);
                for (int s = 0; s < plan->stage_count && m == 0 && !transfers; s++) {
                    assert_int_equal(plan->stages[s].last, tight->stages[s].last);
                    assert_int_equal(plan->stages[s].in_flight, tight->stages[s].in_flight);
                }
                if (!transfers) assert_true(plan->predicted.period_s <= tight->predicted.period_s * (1 + 1e-6));
                assert_ok(ps_simulate(plan, profile, cluster, 0, &usual, &test_error));
                assert_ok(ps_simulate(plan, profile, cluster, 800, &longer, &test_error));
                for (int w = 0; w < plan_busy_workers(plan); w++) {
                    const int64_t needed = worker_memory_total(&longer->memory[w]);
                    assert_int_equal(worker_memory_total(&usual->memory[w]), needed);
                    assert_int_equal(worker_memory_total(&plan->predicted.memory[w]), needed);
                }
                ps_simulation_destroy(longer);
                ps_simulation_destroy(usual);
                ps_plan_destroy(plan);
            }
            ps_plan_destroy(tight);
        }
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    print_message("%d patterns, %d plans with split stages\n", patterns, splits);
    assert_true(patterns > 0 && splits > 0);
}

/* Slack counts in the memory, and is refused where nothing would come of it. */
static void test_slack_refused(void **state) {
    (void)state;
    static const struct {
        struct ps_plan_options options;
        const char *said;
    } cases[] = {
        {{.slack = 2, .schedule = "gpipe"}, "slack: schedule gpipe can have none; these can: 1f1b-async, 1f1b-star, pattern"},
        {{.slack = 2, .weights = "sync"}, "slack: schedule 1f1b can have none"},
        {{.slack = -1}, "`slack`: -1 is not from 0 to 1024"},
        {{.slack = 1025}, "`slack`: 1025 is not from 0 to 1024"},
    };
    struct ps_profile *profile = random_profile(test_key(400), 12, 0);
    struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = 3};
    struct ps_cluster *cluster;
    struct ps_plan *plan, *tight;
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_plan_options options = cases[c].options;
        options.struct_size = sizeof options;
        assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_USAGE, cases[c].said);
    }
    tight = plan_with_slack(profile, cluster, "pipedream", "1f1b-star", 0);
    for (int w = 0; w < 3; w++)
        machines.memory_bytes = number_larger(machines.memory_bytes, worker_memory_total(&tight->predicted.memory[w]));
    ps_plan_destroy(tight);
    ps_cluster_destroy(cluster);
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    const struct ps_plan_options many = {
        .struct_size = sizeof many, .method = "pipedream", .schedule = "1f1b-star", .weights = "latest", .slack = 300};
    struct ps_error refusal = {0};
    assert_int_equal(ps_plan_find(profile, cluster, &many, &plan, &refusal), PS_NO_PLAN);
    assert_non_null(strstr(refusal.hint, "with no `slack` a plan fits"));
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plans_run), cmocka_unit_test(test_schedule_is_its_own),
                                       cmocka_unit_test(test_lengthened), cmocka_unit_test(test_slack),
                                       cmocka_unit_test(test_slack_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
