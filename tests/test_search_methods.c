/*
 * What every method promises, over the table of methods: its plan carries objective, simulated period, a lower bound that
 * neither beats, gap and time; its programs are verified; its workers hold it. Where nothing fits, it names the layer or stage,
 * what that needs and the limit.
 */
#include <ctype.h>

#include "program/lower.h"
#include "search_support.h"

enum { LAYERS = 9 };

/* Layers of unlike times and sizes. */
static struct ps_profile *uneven_profile(void) {
    struct ps_profile *profile;
    struct random_key key = test_key(11000);
    assert_ok(profile_create(1, LAYERS, &profile, &test_error));
    strcpy(profile->model, "uneven");
    profile->tables[0].micro_batch = 2;
    profile->tables[0].input_bytes = 4 * KIB;
    for (int l = 0; l < LAYERS; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        int64_t value = KIB * (1 + (int64_t)random_below(key, 10 * (uint64_t)l, 64));
        snprintf(layer->name, sizeof layer->name, "layer%d", l);
        layer->time = (struct layer_times){.forward_s = 1e-3 * (1 + random_uniform(key, 10 * (uint64_t)l + 1)),
                                           .backward_input_s = 1e-3 * random_uniform(key, 10 * (uint64_t)l + 2),
                                           .backward_weight_s = 1e-3 * (1 + random_uniform(key, 10 * (uint64_t)l + 3)),
                                           .update_s = 1e-4};
        layer->size = (struct layer_sizes){.parameter_bytes = 3840 * (1 + (int64_t)random_below(key, 10 * (uint64_t)l + 4, 10)),
                                           .output_bytes = value,
                                           .value_bytes = value,
                                           .stash_bytes = 2 * value};
    }
    return profile;
}

static bool replicates(const char *method) {
    return strcmp(method, "auto") == 0 || strcmp(method, "pipedream") == 0 || strcmp(method, "pipedream-paper") == 0 ||
           strcmp(method, "data-parallel") == 0;
}

/* Method `number`, those that know replicas with and without; false behind the last. */
static bool next_method(int number, struct ps_plan_options *options) {
    size_t count = ps_table_count(PS_TABLE_METHODS);
    if ((size_t)number / 2 > count) return false;
    options->method = (size_t)number / 2 < count ? ps_table_entry(PS_TABLE_METHODS, (size_t)number / 2).name : "auto";
    options->replicate = number % 2 || strcmp(options->method, "data-parallel") == 0;
    return true;
}

/* What is predicted is what the plan's simulation says, of each of its workers. */
static void check_simulation(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                             const char *what) {
    const struct plan_prediction *predicted = &plan->predicted;
    struct ps_simulation *simulation;
    assert_ok(ps_simulate(plan, profile, cluster, 0, &simulation, &test_error));
    const struct ps_simulation_info info = ps_simulation_info(simulation);
    if (predicted->period_s != info.period_s || predicted->throughput_samples_per_s != info.throughput_samples_per_s ||
        predicted->bubble != info.bubble)
        fail_msg("%s: predicted %.17g s, %.17g samples/s, bubble %.17g; simulated %.17g s, %.17g samples/s, bubble %.17g", what,
                 predicted->period_s, predicted->throughput_samples_per_s, predicted->bubble, info.period_s,
                 info.throughput_samples_per_s, info.bubble);
    assert_int_equal(info.workers, plan->workers);
    for (int w = 0; w < plan->workers; w++)
        if (worker_memory_total(&predicted->memory[w]) != ps_simulation_worker(simulation, w).memory_bytes)
            fail_msg("%s: worker %d takes other memory", what, w);
    ps_simulation_destroy(simulation);
}

static void check_plan(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                       int64_t memory, const char *what) {
    const struct plan_prediction *predicted = &plan->predicted;
    const double least_s = plan->micro_batches * predicted->lower_bound_s;
    struct ps_programs *programs;
    /* Some planners count in whole nanoseconds, layer by layer. */
    if (!predicted->known || !(predicted->lower_bound_s > 0) ||
        !(predicted->objective_s >= predicted->lower_bound_s * (1 - 1e-6)) || !(predicted->solve_s >= 0) ||
        fabs(predicted->gap - (predicted->objective_s / predicted->lower_bound_s - 1)) > 1e-9)
        fail_msg("%s: objective %g s, lower bound %g s, gap %g", what, predicted->objective_s, predicted->lower_bound_s,
                 predicted->gap);
    if (!predicted->simulated) fail_msg("%s: not simulated", what);
    if (!(predicted->period_s >= least_s * (1 - 1e-9)))
        fail_msg("%s: a period of %.9g s is below the bound of %.9g s", what, predicted->period_s, least_s);
    check_simulation(plan, profile, cluster, what);
    assert_ok(ps_programs_lower(plan, profile, 4, &programs, &test_error));
    assert_ok(ps_programs_verify(programs, &test_error));
    ps_programs_destroy(programs);
    for (int w = 0; w < plan->workers && memory > 0; w++)
        if (worker_memory_total(&predicted->memory[w]) > memory) fail_msg("%s: worker %d is above its limit", what, w);
}

static void plans_keep_their_promises(void **state) {
    (void)state;
    static const int workers[] = {1, 2, 4};
    static const int64_t memory[] = {0, 1400 * KIB, 700 * KIB};
    static const double bandwidth[] = {0, 20e6};
    struct ps_profile *profile = uneven_profile();
    int planned = 0, refused = 0;
    for (int c = 0; c < 18; c++) {
        struct ps_cluster *cluster = make_cluster(workers[c % 3], memory[c / 3 % 3], bandwidth[c / 9]);
        struct ps_plan_options options = {.struct_size = sizeof options};
        for (int m = 0; next_method(m, &options); m++) {
            struct ps_plan *plan;
            char what[128];
            if (options.replicate && !replicates(options.method)) continue;
            snprintf(what, sizeof what, "%s%s, %d workers, %lld bytes, %g B/s", options.method,
                     options.replicate ? " --replicate" : "", workers[c % 3], (long long)memory[c / 3 % 3], bandwidth[c / 9]);
            enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &test_error);
            if (status == PS_NO_PLAN) {
                if (memory[c / 3 % 3] == 0) fail_msg("%s: %s", what, test_error.message);
                test_error = (struct ps_error){0};
                refused++;
                continue;
            }
            assert_ok(status);
            check_plan(plan, profile, cluster, memory[c / 3 % 3], what);
            ps_plan_destroy(plan);
            planned++;
        }
        ps_cluster_destroy(cluster);
    }
    print_message("%d plans, %d refused\n", planned, refused);
    assert_true(planned > 100);
    ps_profile_destroy(profile);
}

/* Of more workers than there are layers some have nothing to do. They are workers of the plan, unless it was free to take
 * fewer. */
static void idle_workers_are_predicted(void **state) {
    (void)state;
    enum { WORKERS = LAYERS + 2 };
    struct ps_profile *profile = uneven_profile();
    struct ps_cluster *cluster = make_cluster(WORKERS, 0, 20e6);
    struct ps_plan_options options = {.struct_size = sizeof options};
    int idle = 0;
    for (int m = 0; next_method(m, &options); m++) {
        struct ps_plan *plan;
        if (options.replicate && !replicates(options.method)) continue;
        if (ps_plan_find(profile, cluster, &options, &plan, &test_error) != PS_OK) {
            if (!strstr(test_error.message, "11 workers are more than uneven has layers (9)") &&
                !strstr(test_error.message, "11 stages need as many layers, but the network has only 9"))
                fail_msg("%s: %s", options.method, test_error.message);
            test_error = (struct ps_error){0};
            continue;
        }
        if (strcmp(options.method, "auto") != 0) assert_int_equal(plan->workers, WORKERS);
        check_plan(plan, profile, cluster, 0, options.method);
        idle += plan->stage_count < plan->workers;
        ps_plan_destroy(plan);
    }
    assert_true(idle > 4);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Layers of a stage that a refusal names: with one stage, all. Returns whether it names any. */
static bool names_layers(const char *message, bool all) {
    int first, last;
    const char *layers = strstr(message, "(layers ");
    if (!layers || sscanf(layers, "(layers %d to %d", &first, &last) != 2) return false;
    assert_true(1 <= first && first <= last && last <= LAYERS);
    if (all) assert_true(first == 1 && last == LAYERS);
    return true;
}

static void refusals_say_what_is_missing(void **state) {
    (void)state;
    int of_one_stage = 0;
    struct ps_profile *profile = uneven_profile();
    for (int workers = 1; workers <= 4; workers++) {
        struct ps_cluster *cluster = make_cluster(workers, 8 * KIB, 0);
        struct ps_plan_options options = {.struct_size = sizeof options};
        for (int m = 0; next_method(m, &options); m++) {
            struct ps_plan *plan;
            if (options.replicate && !replicates(options.method)) continue;
            enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &test_error);
            if (status != PS_NO_PLAN || !isalpha((unsigned char)test_error.message[0]) ||
                !(strstr(test_error.message, "layer") || strstr(test_error.message, "stage")) ||
                !strstr(test_error.message, "needs ") || !strstr(test_error.message, "8.00 KiB") ||
                strchr(test_error.message, '\n'))
                fail_msg("%s on %d workers: status %d: %s", options.method, workers, (int)status, test_error.message);
            const bool all = workers == 1 || strcmp(options.method, "data-parallel") == 0;
            of_one_stage += names_layers(test_error.message, all) && all;
            test_error = (struct ps_error){0};
        }
        ps_cluster_destroy(cluster);
    }
    assert_true(of_one_stage > 3);
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_keep_their_promises),
        cmocka_unit_test(idle_workers_are_predicted),
        cmocka_unit_test(refusals_say_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
