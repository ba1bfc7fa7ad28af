/*
 * Mini-batches of several lengths: as many of each are simulated as the shares say, one worker takes the mean, two wait for
 * each other as a recurrence of their own says, and a profile keeps what it says of them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "program_support.h"
#include "simulate/simulate.h"
#include "support.h"
#include "within.h"

enum { BATCHES = 200, STAGES = 2 };
/* Halves and quarters alone: sums are exact. */
static const struct profile_length lengths[] = {{0.25, 0.5}, {0.5, 0.75}, {0.25, 2}};

static struct ps_profile *profile_of(int layers) {
    struct ps_profile *profile;
    assert_ok(profile_create(1, layers, &profile, &test_error));
    strcpy(profile->model, "m");
    strcpy(profile->device, "cpu");
    profile->threads = 1;
    profile->tables[0].micro_batch = 4;
    for (int l = 0; l < layers; l++) {
        struct layer_cost *layer = &profile->tables[0].layers[l];
        snprintf(layer->name, sizeof layer->name, "layer %d", l);
        strcpy(layer->kind, "linear");
        layer->time = (struct layer_times){.forward_s = 1, .backward_input_s = 1, .backward_weight_s = 1, .update_s = 0.5};
        layer->size = (struct layer_sizes){.parameter_bytes = 64, .output_bytes = 64, .value_bytes = 64, .stash_bytes = 64};
    }
    return profile;
}

static struct ps_profile *profile_mixed(int layers) {
    struct ps_profile *profile = profile_of(layers);
    memcpy(profile->by_length, lengths, sizeof lengths);
    profile->length_count = 3;
    strcpy(profile->lengths, "8,12");
    return profile;
}

static void test_shares(void **state) {
    (void)state;
    struct ps_profile *profile = profile_mixed(1);
    static const int counts[] = {1, 2, 7, 64, BATCHES};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const int batches = counts[c];
        double *factors, sum = 0;
        int turns = 0, of[3] = {0};
        assert_ok(simulate_batch_factors(profile, batches, &factors, &test_error));
        for (int b = 0; b < batches; b++) sum += factors[b];
        for (int b = 1; b < batches; b++) turns += factors[b] != factors[b - 1];
        for (int b = 0; b < batches && batches % 4 == 0; b++)
            for (int l = 0; l < 3; l++) of[l] += factors[b] == lengths[l].factor;
        assert_true(fabs(sum - batches) < 1e-9 * batches);
        for (int l = 0; l < 3 && batches % 4 == 0; l++) assert_int_equal(of[l], lengths[l].share * batches);
        if (batches >= 64) assert_true(turns > batches / 3); /* of two neighbours 62.5% differ */
        free(factors);
    }
    ps_profile_destroy(profile);
    profile = profile_of(1);
    double *none;
    assert_ok(simulate_batch_factors(profile, 3, &none, &test_error));
    assert_null(none);
    ps_profile_destroy(profile);
}

struct outcome {
    double makespan_s, period_s;
};

static struct outcome simulated(const char *schedule, const char *policy, int stages, const double *factors) {
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    struct stage_cost costs[STAGES];
    for (int s = 0; s < stages; s++)
        costs[s] = (struct stage_cost){.time = {.forward_s = 1 + s,
                                                .backward_input_s = 1,
                                                .backward_weight_s = 1,
                                                .update_s = 0.5,
                                                .update_predict_s = 0.5},
                                       .size = {.input_bytes = 64, .output_bytes = s + 1 < stages ? 64 : 0}};
    assert_ok(
        ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = stages},
                           &cluster, &test_error));
    assert_ok(lower_plain(schedule, policy, stages, 1, BATCHES, &programs));
    struct simulation_work work = {
        .programs = programs, .costs = costs, .cluster = cluster, .samples = 1, .batch_factors = factors};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    struct outcome outcome = {simulation->info.makespan_s, simulation->info.period_s};
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return outcome;
}

/* Two stages, the first of which runs a forward ahead: F0 F1 B0 U0 F2 B1 U1 ..., and F0 B0 U0 F1 B1 U1 ... */
static double recurrence(const double *factors) {
    double front = 0, end = 0, forward_end[BATCHES], backward_end[BATCHES];
    for (int step = 0; step < BATCHES + 1; step++) {
        if (step < BATCHES) front = forward_end[step] = front + factors[step];
        if (step == 0) continue;
        const int b = step - 1; /* the last stage's turn, then the first one's backward */
        end = fmax(end, forward_end[b]) + 2 * factors[b] + 2 * factors[b];
        backward_end[b] = end;
        end += 0.5;
        front = fmax(front, backward_end[b]) + 2 * factors[b] + 0.5;
    }
    return fmax(front, end);
}

static void test_waits(void **state) {
    (void)state;
    struct ps_profile *profile = profile_mixed(1);
    double *factors, ones[BATCHES];
    assert_ok(simulate_batch_factors(profile, BATCHES, &factors, &test_error));
    for (int b = 0; b < BATCHES; b++) ones[b] = 1;

    struct outcome alike = simulated("1f1b-async", "latest", 2, NULL), one_by_one = simulated("1f1b-async", "latest", 2, ones);
    assert_true(alike.makespan_s == one_by_one.makespan_s && alike.makespan_s == recurrence(ones));
    struct outcome mixed = simulated("1f1b-async", "latest", 2, factors);
    print_message("two workers: %g s, of one length %g s\n", mixed.makespan_s, alike.makespan_s);
    assert_true(mixed.makespan_s == recurrence(factors));
    assert_true(mixed.makespan_s > 1.02 * alike.makespan_s);
    assert_true(fabs(mixed.period_s * BATCHES / mixed.makespan_s - 1) < 0.02);

    /* Who waits for nobody takes the mean. */
    alike = simulated("1f1b", "sync", 2, NULL), mixed = simulated("1f1b", "sync", 2, factors);
    assert_true(mixed.makespan_s == alike.makespan_s && mixed.period_s == alike.period_s);
    alike = simulated("1f1b-async", "latest", 1, NULL), mixed = simulated("1f1b-async", "latest", 1, factors);
    assert_true(mixed.makespan_s == alike.makespan_s);
    free(factors);
    ps_profile_destroy(profile);
}

/* The file keeps them, a plan is simulated with them, and means make them. */
static void test_profiles(void **state) {
    (void)state;
    char path[4096];
    struct ps_profile *profile = profile_mixed(4), *read;
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    double makespan_s[2];
    assert_ok(ps_profile_write(profile, file_join(path, test_directory, "profile.json"), &test_error));
    assert_ok(ps_profile_read(path, &read, &test_error));
    assert_int_equal(read->length_count, 3);
    assert_memory_equal(read->by_length, lengths, sizeof lengths);
    assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = 2},
                                 &cluster, &test_error));
    struct ps_plan_options options = {.struct_size = sizeof options, .schedule = "1f1b-async", .weights = "latest"};
    assert_ok(ps_plan_find(read, cluster, &options, &plan, &test_error));
    for (int mixed = 0; mixed < 2; mixed++) {
        struct ps_simulation *simulation;
        read->length_count = mixed ? 3 : 0;
        assert_ok(ps_simulate(plan, read, cluster, BATCHES, &simulation, &test_error));
        makespan_s[mixed] = ps_simulation_info(simulation).makespan_s;
        ps_simulation_destroy(simulation);
    }
    assert_true(makespan_s[1] > 1.02 * makespan_s[0]);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(read);
    ps_profile_destroy(profile);

    struct ps_profile *whole = profile_of(2), *others[2] = {profile_of(2), profile_of(2)};
    const double shares[] = {0.25, 0.5};
    for (int l = 0; l < 2; l++) {
        others[0]->tables[0].layers[l].time.forward_s = 0;
        others[1]->tables[0].layers[l].time.forward_s = 3;
    }
    assert_ok(profile_mix(whole, others, shares, 2, "8,12", &test_error));
    assert_int_equal(whole->length_count, 3);
    const double mean = 0.25 * 2 + 0.5 * 5 + 0.25 * 3, takes[] = {2, 5, 3}, share[] = {0.25, 0.5, 0.25};
    for (int l = 0; l < 3; l++) {
        assert_within(whole->by_length[l].factor, takes[l] / mean, 1e-12);
        assert_within(whole->by_length[l].share, share[l], 1e-12);
    }
    for (int o = 0; o < 2; o++) ps_profile_destroy(others[o]);
    ps_profile_destroy(whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shares), cmocka_unit_test(test_waits),
                                       cmocka_unit_test(test_profiles)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
