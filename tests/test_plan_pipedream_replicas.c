/*
 * PipeDream's partition with replicas: brute force over the cuts of random graphs, numbers of replicas, unlike workers, flushes
 * and transfers agrees; no simulated program of such a plan is faster than its objective; the search never does worse with
 * replicas.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/planner.h"
#include "search/search.h"
#include "support.h"

enum { NODES_MAX = 7, WORKERS_MAX = 5 };

/* A random graph of nodes that all take time; weights that any number of replicas divides. */
static struct ps_profile *random_profile(struct random_key key, uint64_t *n, bool chain) {
    int count = 2 + (int)random_below(key, (*n)++, NODES_MAX - 1), edge_count = 0;
    struct costgraph_node *nodes = calloc(NODES_MAX, sizeof *nodes);
    struct costgraph_edge *edges = calloc(64, sizeof *edges);
    struct costgraph *graph;
    struct ps_profile *profile;
    assert_true(nodes && edges);
    for (int v = 0; v < count; v++) {
        snprintf(nodes[v].name, sizeof nodes[v].name, "node%d", v);
        nodes[v].number = v;
        nodes[v].forward_s = 1e-3 * (double)(1 + random_below(key, (*n)++, 10));
        nodes[v].backward_s = 1e-3 * (double)(1 + random_below(key, (*n)++, 10));
        nodes[v].activation_bytes = 64 * (1 + (int64_t)random_below(key, (*n)++, 300));
        nodes[v].parameter_bytes = 3840 * (1 + (int64_t)random_below(key, (*n)++, 30));
        for (int u = 0; u < v; u++)
            if (chain ? u == v - 1 : random_below(key, (*n)++, 3) == 0)
                edges[edge_count++] = (struct costgraph_edge){.from = u, .to = v};
    }
    assert_ok(costgraph_create(nodes, count, edges, edge_count, &graph, &test_error));
    free(nodes), free(edges);
    assert_ok(costgraph_profile(graph, &profile, &test_error));
    for (int l = 0; l < count; l++) profile->tables[0].layers[l].time.update_s = 1e-4 * (double)random_below(key, (*n)++, 10);
    return profile;
}

static int common(int a, int b) { return b == 0 ? a : common(b, a % b); }

static bool closed(const struct costgraph *graph, unsigned set) {
    for (int e = 0; e < graph->edge_count; e++)
        if (set >> graph->edges[e].to & 1 && !(set >> graph->edges[e].from & 1)) return false;
    return true;
}

/* One transfer of what is made in the set and used outside. */
static double cut_s(const struct planner_problem *problem, unsigned set) {
    const struct costgraph *graph = problem->graph;
    int64_t bytes = 0;
    for (int v = 0; v < graph->node_count; v++) {
        bool out = false;
        for (int e = 0; e < graph->edge_count; e++)
            out = out || (graph->edges[e].from == v && !(set >> graph->edges[e].to & 1));
        if (set >> v & 1 && out) bytes += graph->nodes[v].activation_bytes;
    }
    return cluster_transfer_s(problem->cluster, 0, 1, bytes);
}

static double stage_s(const struct planner_problem *problem, unsigned lower, unsigned upper, int first, int replicas) {
    double work_s = 0, update_s = 0, speed = INFINITY, bytes = 0;
    for (int v = 0; v < problem->graph->node_count; v++) {
        if (!((upper & ~lower) >> v & 1)) continue;
        const struct layer_cost *layer = &problem->costs->layers[problem->graph->nodes[v].layer];
        work_s += layer->time.forward_s + layer->time.backward_input_s + layer->time.backward_weight_s;
        update_s += layer->time.update_s;
        bytes += (double)layer->size.parameter_bytes;
    }
    for (int w = first; w < first + replicas; w++) speed = fmin(speed, problem->cluster->devices[w].speed);
    double micro_batches = problem->micro_batches * (problem->flush ? 1.0 : replicas); /* of an update */
    const struct cluster_link *link = &problem->cluster->links[0];
    double sum_s = replicas > 1 ? 2 * (replicas - 1) * (link->latency_s + bytes / replicas / link->bandwidth_bytes_per_s) : 0;
    double transfers_s = problem->cluster->overlap ? 0 : 2 * (cut_s(problem, lower) + cut_s(problem, upper));
    return (work_s / speed + transfers_s) / replicas + (update_s / speed + sum_s) / micro_batches;
}

/* The least objective of what is left after `lower`, which `used` workers hold, the last of them `before` replicas. */
static double brute_s(const struct planner_problem *problem, unsigned lower, int used, int before) {
    unsigned all = (1u << problem->graph->node_count) - 1;
    double least_s = INFINITY;
    if (lower == all) return 0;
    for (unsigned upper = lower + 1; upper <= all; upper++) {
        if ((upper & lower) != lower || !closed(problem->graph, upper)) continue;
        for (int r = 1; used + r <= problem->workers; r++) {
            double value_s = stage_s(problem, lower, upper, used, r);
            if (before > 0 && problem->cluster->overlap)
                value_s = fmax(value_s, cut_s(problem, lower) / (before / common(before, r) * r));
            if (value_s >= least_s) continue;
            least_s = fmin(least_s, fmax(value_s, brute_s(problem, upper, used + r, r)));
        }
    }
    return least_s;
}

static struct ps_cluster *random_cluster(struct random_key key, uint64_t *n, int workers, bool unlike) {
    struct ps_cluster *cluster;
    struct ps_cluster_options options = {.struct_size = sizeof options,
                                         .workers = workers,
                                         .bandwidth_bytes_per_s = 1e6 * (double)(1 + random_below(key, (*n)++, 20)),
                                         .latency_s = 1e-5 * (double)random_below(key, (*n)++, 30),
                                         .no_overlap = random_below(key, (*n)++, 3) == 0};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    for (int w = 0; w < workers && unlike; w++) cluster->devices[w].speed = 0.5 + random_uniform(key, (*n)++);
    return cluster;
}

static void test_brute_force(void **state) {
    (void)state;
    int replicated = 0;
    for (int round = 0; round < 400; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(4000 + (uint64_t)round);
        uint64_t n = 0;
        struct ps_profile *profile = random_profile(key, &n, round % 3 == 0);
        int workers = 1 + (int)random_below(key, n++, WORKERS_MAX);
        struct ps_cluster *cluster = random_cluster(key, &n, workers, round % 4 == 1);
        struct planner_problem problem = {.costs = &profile->tables[0],
                                          .graph = profile->graph,
                                          .cluster = cluster,
                                          .workers = workers,
                                          .replicate = true,
                                          .flush = round % 2,
                                          .micro_batches = round % 2 ? 5 + round % 4 : 1};
        struct planner_answer answer = {0};
        assert_ok(planner_pipedream.solve(&problem, &answer, &test_error));
        double least_s = brute_s(&problem, 0, 0, 0), objective_s = 0;
        if (!(fabs(answer.objective_s - least_s) <= 1e-9 * least_s))
            fail_msg("round %d: %.12g s, but brute force finds %.12g s", round, answer.objective_s, least_s);
        unsigned lower = 0;
        for (int s = 0, used = 0, before = 0; s < answer.stage_count; s++) {
            const struct planned_stage *stage = &answer.stages[s];
            unsigned upper = lower;
            for (int i = stage->first; i <= stage->last; i++) upper |= 1u << answer.order[i];
            assert_true(closed(problem.graph, upper));
            assert_int_equal(stage->forward, used);
            objective_s = fmax(objective_s, stage_s(&problem, lower, upper, used, stage->replicas));
            if (s > 0 && cluster->overlap)
                objective_s =
                    fmax(objective_s, cut_s(&problem, lower) / (before / common(before, stage->replicas) * stage->replicas));
            replicated += stage->replicas > 1;
            used += before = stage->replicas;
            lower = upper;
            assert_true(used <= workers);
        }
        assert_true(fabs(objective_s - answer.objective_s) <= 1e-9 * objective_s);
        planner_answer_free(&answer);
        ps_profile_destroy(profile);
        ps_cluster_destroy(cluster);
    }
    print_message("%d stages with replicas\n", replicated);
    assert_true(test_slow() || replicated > 100);
}

/* In so many mini-batches every worker and link must do its share. */
static void test_objective_bounds_the_simulation(void **state) {
    (void)state;
    enum { BATCHES = 60 }; /* every number of replicas divides it */
    for (int round = 0; round < 60; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(5000 + (uint64_t)round);
        uint64_t n = 0;
        struct ps_profile *profile = random_profile(key, &n, true);
        struct ps_cluster *cluster = random_cluster(key, &n, 2 + round % (WORKERS_MAX - 1), round % 4 == 1);
        struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream", .replicate = true};
        if (round % 2) options.weights = "sync", options.micro_batches = 10;
        struct ps_plan *plan;
        struct ps_simulation *simulation;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_ok(ps_simulate(plan, profile, cluster, BATCHES, &simulation, &test_error));
        double least_s = BATCHES * plan->micro_batches * plan->predicted.objective_s;
        assert_true(ps_simulation_info(simulation).makespan_s >= least_s * (1 - 1e-9));
        ps_simulation_destroy(simulation);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
}

static double throughput(const struct ps_profile *profile, const struct ps_cluster *cluster, struct ps_plan_options options) {
    struct ps_plan *plan;
    if (ps_plan_find(profile, cluster, &options, &plan, &test_error) != PS_OK) return 0;
    double found = plan->predicted.simulated ? plan->predicted.throughput_samples_per_s : 0;
    ps_plan_destroy(plan);
    return found;
}

static void test_search_with_replicas(void **state) {
    (void)state;
    int better = 0;
    for (int round = 0; round < 30; round++) {
        if (!test_takes((size_t)round, 10)) continue;
        struct random_key key = test_key(6000 + (uint64_t)round);
        uint64_t n = 0;
        struct ps_profile *profile = random_profile(key, &n, true);
        struct ps_cluster *cluster = random_cluster(key, &n, 2 + round % (WORKERS_MAX - 1), false);
        double with = throughput(
            profile, cluster,
            (struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "auto", .replicate = true});
        double without = throughput(profile, cluster,
                                    (struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "auto"});
        double named = throughput(
            profile, cluster,
            (struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "pipedream", .replicate = true});
        assert_true(with >= without * (1 - 1e-9) && with >= named * (1 - 1e-9) && with > 0);
        better += with > 1.05 * without;
        ps_cluster_destroy(cluster);
        ps_profile_destroy(profile);
    }
    print_message("replicas help in %d of 30\n", better);
    assert_true(test_slow() || better > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_brute_force),
                                       cmocka_unit_test(test_objective_bounds_the_simulation),
                                       cmocka_unit_test(test_search_with_replicas)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
