/* PipeDream's optimizer: its own figures on its own profiles, and brute force over the cuts of random graphs. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/ideals.h"
#include "plan/plan.h"
#include "plan/planner.h"

extern const struct planner planner_pipedream_paper;

/* The least period in milliseconds that PipeDream's program (optimizer_graph_hierarchical.py of msr-fiddle/pipedream, with
 * --activation_compression_ratio 1) prints for its own profiles, with and without --straight_pipeline. */
enum { BANDWIDTHS = 5 };
static const double bandwidths[BANDWIDTHS] = {12.5e6, 1e9, 10e9, 12e9, 24e9};
static const struct {
    const char *name;
    int machines;
    double straight_ms[BANDWIDTHS], replicated_ms[BANDWIDTHS];
} published_cases[] = {
    {"alexnet", 2, {671.08864, 66.453504, 43.075, 43.075, 43.075}, {671.08864, 66.453504, 43.075, 43.075, 43.075}},
    {"alexnet", 4, {671.08864, 66.453504, 32.171, 32.171, 28.721}, {671.08864, 34.217141, 22.186, 22.186, 22.186}},
    {"alexnet", 8, {1509.94944, 66.453504, 32.171, 32.171, 28.721}, {642.274469, 18.874368, 11.105024, 11.042113, 10.903179}},
    {"alexnet", 16, {7644.11904, 95.551488, 32.171, 32.171, 28.721}, {326.365089, 18.874368, 5.712662, 5.66898, 5.50999}},
    {"vgg16", 2, {669.435, 411.041792, 370.931, 370.931, 370.931}, {669.435, 411.041792, 370.931, 370.931, 359.327091}},
    {"vgg16", 4, {669.435, 411.041792, 235.59, 235.59, 216.45}, {669.435, 205.520896, 170.179062, 170.076219, 169.819109}},
    {"vgg16", 8, {2055.20896, 411.041792, 235.59, 235.59, 159.531}, {669.435, 103.83317, 89.92646, 89.677145, 89.053858}},
    {"vgg16", 16, {8220.83584, 411.041792, 235.59, 235.59, 159.531}, {669.435, 56.529767, 43.227074, 43.029929, 42.718048}},
    {"resnet50", 2, {442.812, 285.058, 221.933, 221.933, 221.933}, {442.812, 285.058, 221.933, 221.933, 221.933}},
    {"resnet50", 4, {442.812, 258.149, 111.497, 111.497, 111.497}, {442.812, 162.880924, 111.497, 111.497, 111.497}},
    {"resnet50", 8, {8220.83584, 258.149, 82.208358, 68.506965, 56.684}, {442.812, 92.012272, 56.583209, 55.915, 55.856655}},
    {"resnet50", 16, {10276.0448, 258.149, 82.208358, 68.506965, 38.535168}, {442.812, 47.801345, 28.4932, 28.42865, 28.165}},
    {"resnext50", 2, {590.209, 380.389, 296.329, 296.329, 296.329}, {590.209, 380.389, 296.329, 296.329, 296.329}},
    {"resnext50", 4, {590.209, 352.998, 151.988, 151.988, 151.988}, {590.209, 201.406532, 148.616417, 148.541097, 148.352799}},
    {"resnext50", 8, {8220.83584, 352.998, 85.655, 85.633707, 76.095}, {590.209, 102.760448, 74.507, 74.507, 74.450645}},
    {"resnext50",
     16,
     {12331.25376, 352.998, 82.208358, 68.506965, 44.178},
     {566.254, 55.746203, 38.163194, 37.872904, 37.412614}},
    {"gnmt", 2, {985.66144, 45.936, 45.936, 45.936, 45.936}, {985.66144, 45.936, 45.936, 45.936, 45.936}},
    {"gnmt", 4, {1006.63296, 25.868, 25.868, 25.868, 25.868}, {985.66144, 25.868, 25.868, 25.868, 25.868}},
    {"gnmt", 8, {1006.63296, 19.285, 19.032, 19.032, 19.032}, {985.66144, 19.285, 17.125, 17.125, 17.125}},
    {"gnmt", 16, {1971.32288, 24.641536, 19.032, 19.032, 19.032}, {985.66144, 19.285, 11.081, 11.081, 8.538}},
};

static void check_published(const struct ps_profile *profile, int machines, bool replicate, double bandwidth,
                            double period_ms) {
    struct ps_cluster *cluster;
    struct planner_answer answer = {0};
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = machines, .bandwidth_bytes_per_s = bandwidth};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct planner_problem problem = {
        .costs = &profile->tables[0], .graph = profile->graph, .cluster = cluster, .workers = machines, .replicate = replicate};
    assert_ok(planner_pipedream_paper.solve(&problem, &answer, &test_error));
    if (fabs(1e3 * answer.objective_s - period_ms) >= 1e-6)
        fail_msg("%s, %d machines, %g B/s, %s: %.6f ms, but the program says %.6f", profile->model, machines, bandwidth,
                 replicate ? "replicated" : "straight", 1e3 * answer.objective_s, period_ms);
    int workers = 0;
    for (int s = 0; s < answer.stage_count; s++) {
        assert_int_equal(answer.stages[s].forward, workers);
        workers += answer.stages[s].replicas;
    }
    assert_int_equal(workers, machines);
    planner_answer_free(&answer);
    ps_cluster_destroy(cluster);
}

/* To the nanosecond. */
static void published(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof published_cases / sizeof *published_cases; c++) {
        char name[128], path[4096];
        struct ps_profile *profile;
        snprintf(name, sizeof name, "profiles/pipedream/%s.graph.txt", published_cases[c].name);
        assert_ok(ps_profile_read(test_data(name, path), &profile, &test_error));
        for (int b = 0; b < BANDWIDTHS; b++) {
            check_published(profile, published_cases[c].machines, false, bandwidths[b], published_cases[c].straight_ms[b]);
            check_published(profile, published_cases[c].machines, true, bandwidths[b], published_cases[c].replicated_ms[b]);
        }
        ps_profile_destroy(profile);
    }
}

/* A random graph of few nodes, each of which reads some of those before. */
static struct costgraph *random_graph(uint64_t number) {
    struct random_key key = test_key(number);
    uint64_t n = 0;
    int count = 2 + (int)random_below(key, n++, 6), edge_count = 0;
    struct costgraph_node *nodes = calloc(8, sizeof *nodes);
    struct costgraph_edge *edges = calloc(64, sizeof *edges);
    for (int v = 0; v < count; v++) {
        snprintf(nodes[v].name, sizeof nodes[v].name, "node%d", v);
        nodes[v].number = v;
        nodes[v].forward_s = 1e-6 * (double)random_below(key, n++, 10);
        nodes[v].backward_s = 1e-6 * (double)random_below(key, n++, 10);
        nodes[v].activation_bytes = (int64_t)random_below(key, n++, 3000);
        nodes[v].parameter_bytes = 1 + (int64_t)random_below(key, n++, 3000);
        for (int u = 0; u < v; u++)
            if (random_below(key, n++, 3) == 0) edges[edge_count++] = (struct costgraph_edge){.from = u, .to = v};
    }
    nodes[0].forward_s += 1e-6;
    struct costgraph *graph;
    assert_ok(costgraph_create(nodes, count, edges, edge_count, &graph, &test_error));
    free(nodes), free(edges);
    return graph;
}

static bool closed(const struct costgraph *graph, unsigned set) {
    for (int e = 0; e < graph->edge_count; e++)
        if (set >> graph->edges[e].to & 1 && !(set >> graph->edges[e].from & 1)) return false;
    return true;
}

static int64_t cut_bytes(const struct costgraph *graph, unsigned set) {
    int64_t bytes = 0;
    for (int n = 0; n < graph->node_count; n++) {
        bool crosses = false;
        for (int e = graph->edge_first[n]; e < graph->edge_first[n + 1]; e++) crosses |= !(set >> graph->edges[e].to & 1);
        if (set >> n & 1 && crosses) bytes += graph->nodes[n].activation_bytes;
    }
    return bytes;
}

/* What the program counts at a cut; -1: it does not cut there, since what it has is not connected with its first node. */
static int64_t program_bytes(const struct costgraph *graph, unsigned set) {
    unsigned below[8] = {0}, known = 1, before = 0;
    int64_t bytes = 0;
    for (int n = 0; n < graph->node_count; n++) {
        below[n] |= 1u << n;
        for (int e = graph->edge_first[n]; e < graph->edge_first[n + 1]; e++) below[graph->edges[e].to] |= below[n];
    }
    while (known != before) {
        before = known;
        for (int n = 0; n < graph->node_count; n++)
            if (set >> n & 1 && below[n] & known) known |= below[n];
    }
    if (known != set) return -1;
    for (int n = 0; n < graph->node_count; n++) {
        bool counts = false, last = true;
        for (int e = graph->edge_first[n]; e < graph->edge_first[n + 1]; e++) last = last && !(set >> graph->edges[e].to & 1);
        for (int x = 0; x < graph->node_count && set >> n & 1; x++) {
            bool last_too = set >> x & 1;
            for (int e = graph->edge_first[x]; e < graph->edge_first[x + 1]; e++)
                last_too = last_too && !(set >> graph->edges[e].to & 1);
            for (int e = graph->edge_first[n]; last_too && below[x] >> n & 1 && e < graph->edge_first[n + 1]; e++)
                counts = counts || !(below[x] >> graph->edges[e].to & 1);
        }
        if (set >> n & 1 && (last || counts)) bytes += graph->nodes[n].activation_bytes;
    }
    return bytes;
}

/* The least period of what lies beyond `done` on exactly `machines`, as PipeDream's program counts. */
static double brute_force(const struct costgraph *graph, unsigned done, int machines, bool replicate, double bandwidth) {
    unsigned all = (1u << graph->node_count) - 1;
    double best = INFINITY;
    if (done == all) return machines == 0 ? 0 : INFINITY;
    for (unsigned set = done + 1; set <= all; set++) {
        if ((set & done) != done || !closed(graph, set) || (set != all && program_bytes(graph, set) < 0)) continue;
        double seconds = 0, weights = 0;
        for (int n = 0; n < graph->node_count; n++) {
            if (!((set & ~done) >> n & 1)) continue;
            seconds += graph->nodes[n].forward_s + graph->nodes[n].backward_s;
            weights += (double)graph->nodes[n].parameter_bytes;
        }
        for (int r = 1; r <= machines && (r == 1 || replicate); r++) {
            double stage_s = seconds;
            if (bandwidth > 0) stage_s += 4.0 * (r - 1) * weights / (bandwidth * r);
            stage_s /= r;
            if (bandwidth > 0 && done != 0) {
                stage_s = fmax(stage_s, 2.0 * (double)program_bytes(graph, done) / (bandwidth * r));
                if (set != all) stage_s = fmax(stage_s, 2.0 * (double)program_bytes(graph, set) / (bandwidth * r));
            }
            if (stage_s < best) best = fmin(best, fmax(stage_s, brute_force(graph, set, machines - r, replicate, bandwidth)));
        }
    }
    return best;
}

static void against_brute_force(void **state) {
    (void)state;
    int feasible = 0;
    for (uint64_t number = 0; number < 400; number++) {
        struct costgraph *graph = random_graph(number);
        int machines = 1 + (int)(number % 4);
        bool replicate = number / 4 % 2;
        double bandwidth = number / 8 % 2 ? 4e8 : 0;
        struct ps_cluster *cluster;
        struct planner_answer answer = {0};
        struct ps_cluster_options options = {
            .struct_size = sizeof options, .workers = machines, .bandwidth_bytes_per_s = bandwidth};
        assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
        struct planner_problem problem = {.graph = graph, .cluster = cluster, .workers = machines, .replicate = replicate};
        double best = brute_force(graph, 0, machines, replicate, bandwidth);
        struct cost_table chain = {.layer_count = 0};
        problem.costs = &chain;
        enum ps_status status = planner_pipedream_paper.solve(&problem, &answer, &test_error);
        if (best < INFINITY) {
            assert_ok(status);
            assert_true(fabs(answer.objective_s - best) < 1e-12 * best + 1e-18);
            assert_int_equal(answer.order_count, graph->node_count);
            feasible++;
        } else {
            assert_status(status, PS_NO_PLAN, "stages need as many layers");
        }
        planner_answer_free(&answer);
        costgraph_destroy(graph);
        ps_cluster_destroy(cluster);
    }
    assert_true(feasible > 300);
}

static int count_ideals(const struct costgraph *graph) {
    int count = 0;
    for (unsigned set = 0; set < 1u << graph->node_count; set++) count += closed(graph, set);
    return count;
}

/* Groups of nodes: fewer cuts, all of them cuts of the graph, from the empty one to the whole. */
static void check_joined(const struct costgraph *graph, int count) {
    struct ideals *made;
    for (int limit = 1; limit < count; limit += 3) {
        assert_ok(ideals_of_joined_graph(graph, limit, false, &made, &test_error));
        assert_true(made->joined && made->of_graph && made->count >= 2 && made->count <= limit / 16 + 2);
        assert_int_equal(made->members[0], 0);
        assert_int_equal(made->members[made->count - 1], (1u << graph->node_count) - 1);
        for (int i = 0; i < made->count; i++) {
            unsigned set = (unsigned)made->members[i];
            assert_true(closed(graph, set));
            assert_int_equal(made->cut_bytes[i], cut_bytes(graph, set));
            assert_int_equal(made->cover_first[i + 1] > made->cover_first[i], i > 0);
            for (int c = made->cover_first[i]; c < made->cover_first[i + 1]; c++) {
                unsigned lower = (unsigned)made->members[made->covers[c]];
                assert_true((lower & ~set) == 0 && lower != set && made->covers[c] < i);
            }
        }
        ideals_destroy(made);
    }
    assert_ok(ideals_of_joined_graph(graph, count, false, &made, &test_error));
    assert_true(!made->joined && made->count == count);
    ideals_destroy(made);
}

static void ideals(void **state) {
    (void)state;
    for (uint64_t number = 0; number < 200; number++) {
        struct costgraph *graph = random_graph(1000 + number);
        struct ideals *made;
        assert_ok(ideals_of_graph(graph, 1000, &made, &test_error));
        assert_int_equal(made->count, count_ideals(graph));
        assert_int_equal(made->node_count, graph->node_count);
        for (int i = 0; i < made->count; i++) {
            unsigned set = (unsigned)made->members[i];
            int64_t time_ns = 0;
            for (int n = 0; n < graph->node_count; n++)
                if (set >> n & 1)
                    time_ns += llround(1e9 * graph->nodes[n].forward_s) + llround(1e9 * graph->nodes[n].backward_s);
            assert_true(closed(graph, set));
            assert_int_equal(made->cut_bytes[i], cut_bytes(graph, set));
            assert_int_equal(made->time_ns[i], time_ns);
            int covers = 0;
            for (int n = 0; n < graph->node_count; n++) covers += (set >> n & 1) && closed(graph, set & ~(1u << n));
            assert_int_equal(made->cover_first[i + 1] - made->cover_first[i], covers);
            for (int c = made->cover_first[i]; c < made->cover_first[i + 1]; c++) {
                unsigned lower = (unsigned)made->members[made->covers[c]];
                assert_true((lower & ~set) == 0 && __builtin_popcount(set ^ lower) == 1 && made->covers[c] < i);
            }
        }
        int count = made->count;
        ideals_destroy(made);
        assert_status(ideals_of_graph(graph, count - 1, &made, &test_error), PS_NO_PLAN, "can be cut in more than");
        check_joined(graph, count);
        costgraph_destroy(graph);
    }
}

/* As many nodes as a file may have, of which none reads another: any set is an ideal. */
static void unconnected(void **state) {
    (void)state;
    enum { NODES = 16384, LIMIT = 500000 };
    struct costgraph_node *nodes = calloc(NODES, sizeof *nodes);
    struct costgraph *graph;
    struct ideals *made;
    assert_non_null(nodes);
    for (int v = 0; v < NODES; v++) {
        snprintf(nodes[v].name, sizeof nodes[v].name, "node%d", v);
        nodes[v].number = v;
        nodes[v].forward_s = 1e-3;
        nodes[v].activation_bytes = nodes[v].parameter_bytes = 1;
    }
    assert_ok(costgraph_create(nodes, NODES, NULL, 0, &graph, &test_error));
    free(nodes);
    assert_status(ideals_of_graph(graph, LIMIT, &made, &test_error), PS_NO_PLAN, "can be cut in more than 500000 ways");
    assert_ok(ideals_of_joined_graph(graph, LIMIT, false, &made, &test_error));
    assert_int_equal(made->count, 1 << 8); /* of 16 groups there would be more than a sixteenth of the limit */
    ideals_destroy(made);
    costgraph_destroy(graph);
}

/* Branches of so many nodes between a first and a last node: of each any beginning, more sets than there is room for at first;
 * and more nodes than a machine word has bits. */
static void many_ideals(void **state) {
    (void)state;
    enum { WAYS = 3 };
    for (int length = 8; length <= 24; length += 16) {
        const int count = WAYS * length + 2, wanted = (length + 1) * (length + 1) * (length + 1) + 2;
        struct costgraph_node *nodes = calloc((size_t)count, sizeof *nodes);
        struct costgraph_edge *edges = calloc((size_t)count + WAYS, sizeof *edges);
        struct costgraph *graph;
        struct ideals *made;
        int edge_count = 0;
        assert_true(nodes && edges);
        for (int v = 0; v < count; v++) {
            snprintf(nodes[v].name, sizeof nodes[v].name, "node%d", v);
            nodes[v].number = v;
            nodes[v].forward_s = 1e-3;
            nodes[v].activation_bytes = nodes[v].parameter_bytes = 1;
            if (v > 0 && v < count - 1) edges[edge_count++] = (struct costgraph_edge){.from = v > WAYS ? v - WAYS : 0, .to = v};
            if (v > count - 2 - WAYS && v < count - 1)
                edges[edge_count++] = (struct costgraph_edge){.from = v, .to = count - 1};
        }
        assert_ok(costgraph_create(nodes, count, edges, edge_count, &graph, &test_error));
        free(nodes), free(edges);
        assert_status(ideals_of_graph(graph, wanted - 1, &made, &test_error), PS_NO_PLAN, "can be cut in more than");
        assert_ok(ideals_of_graph(graph, wanted, &made, &test_error));
        assert_int_equal(made->count, wanted);
        for (int i = 0; i < wanted; i++) {
            int held = 0, ends = 0;
            for (int n = 0; n < count; n++) held += ideal_holds(made, i, n);
            for (int c = made->cover_first[i]; c < made->cover_first[i + 1]; c++)
                assert_int_equal(made->weight_bytes[made->covers[c]], held - 1);
            for (int b = 1; b <= WAYS; b++) ends += ideal_holds(made, i, b);
            assert_int_equal(made->weight_bytes[i], held);
            assert_int_equal(made->time_ns[i], 1000000 * (int64_t)held);
            if (held < count)
                assert_int_equal(made->cover_first[i + 1] - made->cover_first[i], held > 1 && !ends ? 0
                                                                                  : held > 1        ? ends
                                                                                                    : held);
        }
        ideals_destroy(made);
        costgraph_destroy(graph);
    }
}

/* Where there are more cuts than are looked at, the answer is no worse than that of the chain, whose stages it takes if they
 * are better than those between groups of nodes. */
static void chain_is_better(void **state) {
    (void)state;
    int taken = 0;
    for (uint64_t number = 0; number < 120; number++) {
        /* The second needs a stage for each worker, of which two sets of nodes make only one. */
        const struct planner *planner = number % 2 ? &planner_pipedream_paper : &planner_pipedream;
        struct ps_profile *profile;
        struct ps_cluster *cluster;
        struct planner_answer joined = {0}, chain = {0};
        struct costgraph *graph = random_graph(3000 + number);
        const int limit = 1 + (int)(number / 2 % 40);
        struct ideals *made;
        assert_ok(ideals_of_joined_graph(graph, limit, planner == &planner_pipedream_paper, &made, &test_error));
        const bool few = !made->joined;
        ideals_destroy(made);
        assert_ok(costgraph_profile(graph, &profile, &test_error));
        struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 3, .bandwidth_bytes_per_s = 4e8};
        assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
        struct planner_problem problem = {.costs = &profile->tables[0],
                                          .graph = profile->graph,
                                          .cluster = cluster,
                                          .workers = 3,
                                          .micro_batches = 1,
                                          .ideals_max = limit};
        const enum ps_status status = planner->solve(&problem, &joined, &test_error);
        test_error = (struct ps_error){0};
        problem.graph = NULL;
        const enum ps_status of_chain = planner->solve(&problem, &chain, &test_error);
        test_error = (struct ps_error){0};
        if (of_chain == PS_OK && !few) {
            assert_ok(status);
            assert_true(joined.objective_s <= chain.objective_s && joined.lower_bound_s == 0);
            if (joined.order_count == 0) assert_int_equal(joined.stage_count, chain.stage_count);
            if (joined.order_count == 0) assert_true(joined.objective_s == chain.objective_s);
            taken += joined.order_count == 0;
        }
        planner_answer_free(&joined);
        planner_answer_free(&chain);
        ps_profile_destroy(profile);
        ps_cluster_destroy(cluster);
    }
    assert_true(taken > 20);
}

/* An element that nothing reads does not count, as in the program; but if it takes time, the last stage computes it. */
static void left_out(void **state) {
    (void)state;
    static const char *const kinds[] = {"LSTM", "__getitem__", "Linear"};
    struct costgraph_node *nodes = calloc(3, sizeof *nodes);
    struct costgraph_edge *edges = calloc(2, sizeof *edges);
    for (int n = 0; n < 3; n++) {
        nodes[n] = (struct costgraph_node){.number = n, .forward_s = 1e-3};
        snprintf(nodes[n].name, sizeof nodes[n].name, "node%d", n);
        snprintf(nodes[n].kind, sizeof nodes[n].kind, "%s", kinds[n]);
        if (n > 0) edges[n - 1] = (struct costgraph_edge){.from = 0, .to = n};
    }
    struct costgraph *graph;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    assert_ok(costgraph_create(nodes, 3, edges, 2, &graph, &test_error));
    assert_ok(costgraph_profile(graph, &profile, &test_error));
    struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = 2, .bandwidth_bytes_per_s = 1e9};
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream-paper"};
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    assert_true(fabs(plan->predicted.objective_s - 1e-3) < 1e-12);
    assert_int_equal(plan->stage_count, 2);
    assert_int_equal(plan->stages[1].last, 2);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    free(nodes), free(edges);
}

enum { BRANCHES = 8, LENGTH = 8 };

/* Eight branches of eight nodes, numbered across: 9^8 cuts. Inside a branch values are large, at its ends small. */
static struct costgraph *wide_graph(void) {
    int count = BRANCHES * LENGTH + 2, edge_count = 0;
    struct costgraph_node *nodes = calloc((size_t)count, sizeof *nodes);
    struct costgraph_edge *edges = calloc((size_t)count + BRANCHES, sizeof *edges);
    for (int v = 0; v < count; v++) {
        bool inside = v > 0 && v<count - 1, ends = v> BRANCHES * (LENGTH - 1);
        snprintf(nodes[v].name, sizeof nodes[v].name, "node%d", v);
        nodes[v].number = v;
        nodes[v].forward_s = inside ? 1e-3 : 0;
        nodes[v].activation_bytes = inside && !ends ? 100000000 : 1;
        if (inside) edges[edge_count++] = (struct costgraph_edge){.from = v <= BRANCHES ? 0 : v - BRANCHES, .to = v};
        if (inside && ends) edges[edge_count++] = (struct costgraph_edge){.from = v, .to = count - 1};
    }
    nodes[0].parameter_bytes = nodes[count - 1].parameter_bytes = 1;
    struct costgraph *graph;
    assert_ok(costgraph_create(nodes, count, edges, edge_count, &graph, &test_error));
    free(nodes), free(edges);
    return graph;
}

/* More cuts than are looked at: whole branches are joined, so that each of four workers gets two of them. Along the chain every
 * cut would go through all branches. The bound is left to the caller. */
static void too_wide(void **state) {
    (void)state;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct planner_answer answer = {0};
    assert_ok(costgraph_profile(wide_graph(), &profile, &test_error));
    struct ps_cluster_options options = {.struct_size = sizeof options, .workers = 4, .bandwidth_bytes_per_s = 1e9};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    struct planner_problem problem = {.costs = &profile->tables[0], .graph = profile->graph, .cluster = cluster, .workers = 4};
    assert_ok(planner_pipedream_paper.solve(&problem, &answer, &test_error));
    assert_true(fabs(answer.objective_s - 16e-3) < 1e-9);
    assert_true(answer.lower_bound_s == 0);
    assert_int_equal(answer.order_count, BRANCHES * LENGTH + 2);
    planner_answer_free(&answer);
    problem.graph = NULL;
    assert_ok(planner_pipedream_paper.solve(&problem, &answer, &test_error));
    assert_true(answer.objective_s > 0.2);
    planner_answer_free(&answer);
    ps_profile_destroy(profile);
    ps_cluster_destroy(cluster);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ideals),          cmocka_unit_test(unconnected), cmocka_unit_test(many_ideals),
        cmocka_unit_test(chain_is_better), cmocka_unit_test(too_wide),    cmocka_unit_test(against_brute_force),
        cmocka_unit_test(left_out),        cmocka_unit_test(published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
