/*
 * The simulator against itself, whatever the costs: under every schedule the parts of a worker's time add up to the makespan,
 * nothing of its row overlaps, and the simulation is as long as the longest row and no shorter.
 */
#include <math.h>

#include "program_support.h"
#include "random_costs.h"
#include "simulate/simulate.h"

enum { ROUNDS = 80, STAGES_LIMIT = 16 };

/* Nothing of a row overlaps, everything lies within the makespan, and one row ends with it. */
static void check_timeline(const struct ps_simulation *simulation) {
    const struct timeline *timeline = &simulation->timeline;
    double busy_s = 0, total_s = 0, last_s = 0;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        assert_true(event->start_s >= 0 && event->end_s >= event->start_s && event->end_s <= simulation->info.makespan_s);
        bool same_row = i > 0 && timeline->events[i - 1].worker == event->worker;
        assert_true(i == 0 || timeline->events[i - 1].worker <= event->worker);
        assert_true(!same_row || timeline->lanes > 1 || event->start_s >= timeline->events[i - 1].end_s);
        busy_s += event->end_s - event->start_s;
        last_s = fmax(last_s, event->end_s);
    }
    assert_true(last_s == simulation->info.makespan_s);
    for (int w = 0; w < simulation->info.workers; w++) total_s += simulation->worker[w].busy_s;
    if (timeline->lanes == 1) assert_true(fabs(busy_s - total_s) <= 1e-9 * total_s);
}

static void check_sums(const struct ps_simulation *simulation) {
    for (int w = 0; w < simulation->info.workers; w++) {
        struct ps_simulation_worker worker = simulation->worker[w];
        assert_true(worker.idle_fill_drain_s >= 0 && worker.idle_dependency_s >= 0);
        assert_true(worker.idle_communication_s >= 0 && worker.idle_imbalance_s >= 0);
        double sum_s = worker.busy_s + worker.idle_fill_drain_s + worker.idle_dependency_s + worker.idle_communication_s +
                       worker.idle_imbalance_s;
        assert_true(sum_s == simulation->info.makespan_s);
    }
    assert_true(simulation->info.bubble >= 0 && simulation->info.bubble < 1);
}

/* False: the schedule does not run so. */
static bool simulate_random(struct random_key key, const struct schedule *schedule, bool recompute) {
    int workers = 1 + (int)random_below(key, 1, 7), micro_batches = 1 + (int)random_below(key, 2, 6);
    const struct weight_policy *policy;
    assert_ok(policy_find(schedule->flush ? "sync" : "pipeoptim", &policy, &test_error));
    if (!combination_possible(schedule, policy, workers, micro_batches)) return false;
    struct ps_cluster_options options = {
        .struct_size = sizeof options,
        .workers = workers,
        .bandwidth_bytes_per_s = random_below(key, 3, 3) > 0 ? 1e6 + 1e8 * (double)random_uniform(key, 4) : 0,
        .latency_s = random_below(key, 5, 2) * 1e-3 * (double)random_uniform(key, 6),
        .no_overlap = random_below(key, 7, 2) == 1,
        .cores = (int)random_below(key, 8, 4),
    };
    struct straight straight = {.schedule = schedule->name,
                                .policy = policy->name,
                                .workers = workers,
                                .micro_batches = micro_batches,
                                .batches = 5,
                                .recompute = recompute};
    struct stage_cost costs[STAGES_LIMIT];
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct ps_simulation *simulation;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_ok(lower_straight(&straight, &programs, &test_error));
    assert_true(programs->stages <= STAGES_LIMIT);
    random_costs(key, programs->stages, costs);
    struct simulation_work work = {.programs = programs, .costs = costs, .cluster = cluster, .samples = 8, .moments = 1};
    assert_ok(simulate_programs(&work, &simulation, &test_error));
    check_sums(simulation);
    check_timeline(simulation);
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
    return true;
}

static void test_time_adds_up(void **state) {
    (void)state;
    for (int s = 0; schedule_table[s]; s++) {
        int simulated = 0;
        for (uint64_t round = 0; round < ROUNDS; round++)
            simulated += simulate_random(test_key((uint64_t)s * ROUNDS + round), schedule_table[s], round % 2);
        assert_true(simulated >= ROUNDS / 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_time_adds_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
