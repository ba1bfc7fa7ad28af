/*
 * PipeDream's optimizer (Narayanan et al., SOSP 2019) with the costs of its published program, for comparison:
 *
 *   - a stage of m' machines takes (compute + 4 (m' - 1) w / (beta m')) / m', a sum, but a maximum in the paper;
 *   - a boundary takes 2 a / (beta m') with the m' of the stage on either side, but the first stage does not count its end;
 *   - a is more than what crosses the cut: it sums the values of the last nodes before the cut (those that no other node before
 *     it reads) and of every node that one of them depends on and that a node beyond that one's own dependencies reads, though
 *     that reader may be before the cut, too. In a residual block this counts the input of the block in every cut behind both
 *     branches' first nodes;
 *   - the nodes before a cut are connected with the first node of the file that reads nothing, inputs aside: other such nodes,
 *     as a decoder's embedding, come with the first node that needs them;
 *   - exactly P machines work, each stage has at least one node, memory does not count;
 *   - without bandwidth transfers cost nothing (by default the program ignores them).
 *
 * The program tabulates all pairs of cuts. Here whether a period of T is possible is decided in one sweep per number of
 * machines: I joins R[m] if some J inside it is in R[m - m'] and key(I) - key(J) <= m' T, where key is compute and
 * synchronisation. Load is additive, so the best J is a maximum over the ideals inside I, which is passed on along the covers.
 * T is bisected, and the result is the period of the last plan that was found.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/ideals.h"
#include "plan/planner.h"
#include "profile/costgraph.h"

struct search {
    struct arena arena; /* of its tables */
    const struct ideals *ideals;
    int machines, replicas_max;
    double bandwidth; /* bytes per nanosecond; 0: transfers cost nothing */
    double *keys;     /* [replicas - 1][ideals]: compute and synchronisation */
    double *boundary; /* per ideal: transfers across it, of one machine; NAN: the program does not cut there */
    bool *reached;    /* [machines + 1][ideals]: R[m] */
    struct step {
        int from; /* the stage's lower ideal */
        int replicas;
    } * steps;        /* [machines + 1][ideals] */
    double *best_key; /* per ideal, of those inside it that are in R[m - m'] */
    int *best_from;
};

static double key_ns(const struct search *search, int ideal, int replicas) {
    return search->keys[(size_t)(replicas - 1) * (size_t)search->ideals->count + (size_t)ideal];
}

static double boundary_ns(const struct search *search, int ideal, int replicas) { return search->boundary[ideal] / replicas; }

static double stage_ns(const struct search *search, int lower, int upper, int replicas) {
    return (key_ns(search, upper, replicas) - key_ns(search, lower, replicas)) / replicas;
}

static bool in(const uint64_t *set, int node) { return set[node / 64] >> (node % 64) & 1; }
static void put(uint64_t *set, int node) { set[node / 64] |= (uint64_t)1 << (node % 64); }

/* The graph of the ideals' nodes, as the program sees it. A set of nodes has the ideals' number of words. */
struct dependencies {
    const struct costgraph *costs;
    const struct ideals *ideals;
    int *first, *readers; /* node_count + 1 offsets into the readers of each node */
    uint64_t *below;      /* per node: the set of it and of all that it depends on */
    uint64_t *counted;    /* per node: the set of those that count at a cut of which it is a last node */
    int start, sources;   /* where the program begins; the number of such nodes, which read nothing but inputs */
    int *last;            /* of one ideal: its nodes that none of it reads */
    uint64_t *set;        /* one set, for each ideal anew */
};

static uint64_t *set_of(const struct dependencies *graph, uint64_t *sets, int node) {
    return &sets[(size_t)node * (size_t)graph->ideals->words];
}

/* Fills the readers, and what each node depends on: nodes are in topological order. */
static void link_nodes(struct dependencies *graph, int *place) {
    const struct costgraph *costs = graph->costs;
    int nodes = graph->ideals->node_count, words = graph->ideals->words, count = 0;
    for (int n = 0; n < costs->node_count; n++) place[n] = -1;
    for (int n = 0; n < nodes; n++) place[graph->ideals->nodes[n]] = n;
    for (int n = 0; n < nodes; n++) {
        int node = graph->ideals->nodes[n];
        uint64_t *below = set_of(graph, graph->below, n);
        put(below, n);
        graph->first[n] = count;
        for (int e = costs->edge_first[node]; e < costs->edge_first[node + 1]; e++) {
            int reader = place[costs->edges[e].to];
            if (reader < 0) continue;
            graph->readers[count++] = reader;
            for (int w = 0; w < words; w++) set_of(graph, graph->below, reader)[w] |= below[w];
        }
    }
    graph->first[nodes] = count;
}

static void mark_counted(struct dependencies *graph, int last) {
    const uint64_t *below = set_of(graph, graph->below, last);
    uint64_t *counted = set_of(graph, graph->counted, last);
    put(counted, last);
    for (int n = 0; n < last; n++)
        for (int r = graph->first[n]; in(below, n) && r < graph->first[n + 1]; r++)
            if (!in(below, graph->readers[r])) put(counted, n);
}

/* The program begins with the first node of the file. */
static void find_start(struct dependencies *graph) {
    const struct ideals *ideals = graph->ideals;
    for (int n = 0; n < ideals->node_count; n++) {
        int depends = 0, line = graph->costs->nodes[ideals->nodes[n]].line;
        for (int w = 0; w < ideals->words; w++) depends += __builtin_popcountll(set_of(graph, graph->below, n)[w]);
        if (depends > 1) continue;
        if (graph->sources++ == 0 || line < graph->costs->nodes[ideals->nodes[graph->start]].line) graph->start = n;
    }
}

static enum ps_status open_dependencies(const struct costgraph *costs, const struct ideals *ideals, struct arena *arena,
                                        struct dependencies *graph, struct ps_error *error) {
    size_t nodes = (size_t)ideals->node_count, words = (size_t)ideals->words;
    int *place = arena_take(arena, (size_t)costs->node_count, sizeof *place);
    *graph = (struct dependencies){.costs = costs,
                                   .ideals = ideals,
                                   .first = arena_take(arena, nodes + 1, sizeof *graph->first),
                                   .readers = arena_take(arena, (size_t)costs->edge_count, sizeof *graph->readers),
                                   .below = arena_take(arena, nodes * words, sizeof *graph->below),
                                   .counted = arena_take(arena, nodes * words, sizeof *graph->counted),
                                   .last = arena_take(arena, nodes, sizeof *graph->last),
                                   .set = arena_take(arena, words, sizeof *graph->set)};
    TRY(arena_status(arena, "the graph of a network", error));
    link_nodes(graph, place);
    find_start(graph);
    for (int n = 0; n < ideals->node_count; n++) mark_counted(graph, n);
    return PS_OK;
}

static void join(const struct dependencies *graph, uint64_t *sets, int node) {
    for (int w = 0; w < graph->ideals->words; w++) graph->set[w] |= set_of(graph, sets, node)[w];
}

/* Fills the ideal's last nodes and returns their number. */
static int find_last(const struct dependencies *graph, int ideal) {
    int count = 0;
    for (int n = 0; n < graph->ideals->node_count; n++) {
        bool last = ideal_holds(graph->ideals, ideal, n);
        for (int r = graph->first[n]; last && r < graph->first[n + 1]; r++)
            last = !ideal_holds(graph->ideals, ideal, graph->readers[r]);
        if (last) graph->last[count++] = n;
    }
    return count;
}

/* Whether the ideal with these last nodes is connected with the start: joins those that share a node with what is joined. */
static bool connected(const struct dependencies *graph, int count) {
    int joined = 0, before = -1;
    if (graph->sources == 1) return true;
    memset(graph->set, 0, (size_t)graph->ideals->words * sizeof *graph->set);
    put(graph->set, graph->start);
    while (joined != before) {
        before = joined;
        joined = 0;
        for (int i = 0; i < count; i++) {
            const uint64_t *below = set_of(graph, graph->below, graph->last[i]);
            uint64_t common = 0;
            for (int w = 0; w < graph->ideals->words; w++) common |= below[w] & graph->set[w];
            if (!common) continue;
            join(graph, graph->below, graph->last[i]);
            joined++;
        }
    }
    return joined == count;
}

/* Bytes that the program counts at the ideal's end; NAN: it does not cut there. */
static double counted_bytes(const struct dependencies *graph, int ideal) {
    double bytes = 0;
    int count = find_last(graph, ideal);
    if (!connected(graph, count)) return NAN;
    memset(graph->set, 0, (size_t)graph->ideals->words * sizeof *graph->set);
    for (int i = 0; i < count; i++) join(graph, graph->counted, graph->last[i]);
    for (int n = 0; n < graph->ideals->node_count; n++)
        if (in(graph->set, n)) bytes += (double)graph->costs->nodes[graph->ideals->nodes[n]].activation_bytes;
    return bytes;
}

/* Without bandwidth, too, it is NAN where the program does not cut. */
static enum ps_status fill_boundary(struct search *search, const struct costgraph *costs, struct ps_error *error) {
    const struct ideals *ideals = search->ideals;
    struct arena arena = {0};
    struct dependencies graph;
    enum ps_status status = PS_OK;
    if (ideals->of_graph) status = open_dependencies(costs, ideals, &arena, &graph, error);
    for (int i = 1; i < ideals->count && status == PS_OK; i++) {
        double bytes = ideals->of_graph ? counted_bytes(&graph, i) : (double)ideals->cut_bytes[i];
        search->boundary[i] = search->bandwidth > 0 ? 2.0 * bytes / search->bandwidth : isnan(bytes) ? NAN : 0;
    }
    arena_release(&arena);
    return status;
}

static void fill_keys(struct search *search) {
    const struct ideals *ideals = search->ideals;
    for (int i = 0; i < ideals->count; i++) {
        for (int r = 1; r <= search->replicas_max; r++) {
            double key = (double)ideals->time_ns[i];
            if (search->bandwidth > 0) key += 4.0 * (r - 1) / (search->bandwidth * r) * (double)ideals->weight_bytes[i];
            search->keys[(size_t)(r - 1) * (size_t)ideals->count + (size_t)i] = key;
        }
    }
}

/* Of the ideals inside the whole graph, which are all ideals, the best lower end for its last stage of `replicas` machines. */
static int best_last(const struct search *search, int replicas, double period_ns) {
    const bool *before = &search->reached[(size_t)(search->machines - replicas) * (size_t)search->ideals->count];
    const double *keys = &search->keys[(size_t)(replicas - 1) * (size_t)search->ideals->count];
    int best = -1;
    for (int i = 0; i < search->ideals->count - 1; i++)
        if (before[i] && (best < 0 || keys[i] > keys[best]) && (i == 0 || boundary_ns(search, i, replicas) <= period_ns))
            best = i;
    return best;
}

/* Stages of `replicas` machines that end a plan of `machines`. */
static void sweep(struct search *search, int machines, int replicas, double period_ns) {
    const struct ideals *ideals = search->ideals;
    size_t count = (size_t)ideals->count;
    const bool *before = &search->reached[(size_t)(machines - replicas) * count];
    const double *keys = &search->keys[(size_t)(replicas - 1) * count];
    bool *reached = &search->reached[(size_t)machines * count];
    struct step *steps = &search->steps[(size_t)machines * count];
    for (int i = 0; i < ideals->count; i++) {
        double best = -INFINITY;
        int from = -1;
        for (int c = ideals->cover_first[i]; c < ideals->cover_first[i + 1]; c++) {
            int lower = ideals->covers[c];
            if (search->best_key[lower] <= best) continue;
            best = search->best_key[lower];
            from = search->best_from[lower];
        }
        if (from >= 0 && !reached[i] && (keys[i] - best) / replicas <= period_ns &&
            (i == ideals->count - 1 ||
             (machines == replicas ? !isnan(search->boundary[i]) : boundary_ns(search, i, replicas) <= period_ns))) {
            reached[i] = true;
            steps[i] = (struct step){from, replicas};
        }
        if (before[i] && keys[i] > best && (i == 0 || boundary_ns(search, i, replicas) <= period_ns)) {
            best = keys[i];
            from = i;
        }
        search->best_key[i] = best;
        search->best_from[i] = from;
    }
}

static bool feasible(struct search *search, double period_ns) {
    size_t count = (size_t)search->ideals->count;
    int last = search->ideals->count - 1;
    memset(search->reached, 0, count * ((size_t)search->machines + 1) * sizeof *search->reached);
    search->reached[0] = true;
    for (int m = 1; m < search->machines; m++)
        for (int replicas = 1; replicas <= m && replicas <= search->replicas_max; replicas++)
            sweep(search, m, replicas, period_ns);
    for (int replicas = 1; replicas <= search->replicas_max; replicas++) {
        int from = best_last(search, replicas, period_ns);
        if (from < 0 || stage_ns(search, from, last, replicas) > period_ns) continue;
        search->steps[(size_t)search->machines * count + (size_t)last] = (struct step){from, replicas};
        return true;
    }
    return false;
}

/* The period of the plan that the last feasible test found. */
static double achieved_ns(const struct search *search) {
    double period_ns = 0;
    int last = search->ideals->count - 1;
    for (int m = search->machines, i = last; m > 0;) {
        struct step step = search->steps[(size_t)m * (size_t)search->ideals->count + (size_t)i];
        bool only = step.replicas == m;
        period_ns = fmax(period_ns, stage_ns(search, step.from, i, step.replicas));
        if (!only && i != last) period_ns = fmax(period_ns, boundary_ns(search, i, step.replicas));
        if (!only) period_ns = fmax(period_ns, boundary_ns(search, step.from, step.replicas));
        i = step.from;
        m -= step.replicas;
    }
    return period_ns;
}

/* The least period; the steps are those of a plan that has it. Infinity if there are fewer cuts than machines. */
static double least_period_ns(struct search *search) {
    double total = key_ns(search, search->ideals->count - 1, 1), low = 0, high = INFINITY;
    for (double period = fmax(total / search->machines, 1); high == INFINITY; period *= 1.5) {
        if (feasible(search, period))
            high = achieved_ns(search);
        else if (isinf(period))
            return INFINITY;
        else
            low = period;
    }
    while (high - low > 1e-13 * high) {
        /* The last test is whether there is any better plan. */
        double middle = high - low > 0.1 ? low + (high - low) / 2 : nextafter(high, 0), before = high;
        bool found = feasible(search, middle);
        if (found) high = achieved_ns(search);
        if (!found) low = middle;
        if (found && high >= before) break;
    }
    feasible(search, high);
    return high;
}

static enum ps_status open_search(struct search *search, const struct costgraph *costs, struct ps_error *error) {
    size_t ideals = (size_t)search->ideals->count, places = ideals * ((size_t)search->machines + 1);
    struct arena *arena = &search->arena;
    search->reached = arena_take(arena, places, sizeof *search->reached);
    search->steps = arena_take(arena, places, sizeof *search->steps);
    search->best_key = arena_take(arena, ideals, sizeof *search->best_key);
    search->best_from = arena_take(arena, ideals, sizeof *search->best_from);
    search->keys = arena_take(arena, ideals * (size_t)search->replicas_max, sizeof *search->keys);
    search->boundary = arena_take(arena, ideals, sizeof *search->boundary);
    TRY(arena_check(arena, "the tables of the planner", error));
    fill_keys(search);
    return fill_boundary(search, costs, error);
}

/* The elements that the program leaves out: nothing reads them, so they can be computed last. */
static void add_left_out(const struct ideals *ideals, const struct costgraph *costs, struct planner_answer *answer) {
    int counted = 0;
    for (int n = 0; n < costs->node_count; n++) {
        if (counted < ideals->node_count && ideals->nodes[counted] == n)
            counted++;
        else if (!costs->nodes[n].input)
            answer->order[answer->order_count++] = n;
    }
    answer->stages[answer->stage_count - 1].last = answer->order_count - 1;
}

static enum ps_status write_answer(struct search *search, const struct costgraph *costs, struct planner_answer *answer,
                                   struct ps_error *error) {
    const struct ideals *ideals = search->ideals;
    size_t machines = (size_t)search->machines;
    int count = 0, *uppers = arena_take(&search->arena, machines, sizeof *uppers);
    struct step *steps = arena_take(&search->arena, machines, sizeof *steps);
    answer->stages = arena_take(&answer->arena, machines, sizeof *answer->stages);
    int nodes = ideals->of_graph ? costs->node_count : ideals->node_count;
    answer->order = arena_take(&answer->arena, (size_t)nodes, sizeof *answer->order);
    TRY(arena_check(&search->arena, "a plan", error));
    TRY(arena_check(&answer->arena, "a plan", error));
    for (int m = search->machines, i = ideals->count - 1; m > 0; count++) {
        uppers[count] = i;
        steps[count] = search->steps[(size_t)m * (size_t)ideals->count + (size_t)i];
        i = steps[count].from;
        m -= steps[count].replicas;
    }
    while (count-- > 0) planner_add_stage(answer, ideals, steps[count].from, uppers[count], steps[count].replicas);
    if (ideals->of_graph) add_left_out(ideals, costs, answer);
    return PS_OK;
}

static enum ps_status solve_ideals(const struct planner_problem *problem, const struct ideals *ideals,
                                   struct planner_answer *answer, struct ps_error *error) {
    struct search search = {.ideals = ideals,
                            .machines = problem->workers,
                            .replicas_max = problem->replicate ? problem->workers : 1,
                            .bandwidth = planner_bandwidth(problem) / 1e9};
    enum ps_status status;
    TRY_OUT(open_search(&search, problem->graph, error));
    double period_ns = least_period_ns(&search);
    if (isinf(period_ns)) {
        status = error_set(error, PS_NO_PLAN, "%d stages need as many layers, but the network has only %d", problem->workers,
                           ideals->node_count);
        goto out;
    }
    answer->objective_s = answer->lower_bound_s = period_ns / 1e9;
    status = write_answer(&search, problem->graph, answer, error);
out:
    arena_release(&search.arena);
    return status;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    return planner_solve_ideals(problem, true, solve_ideals, answer, error);
}

extern const struct planner planner_pipedream_paper;
const struct planner planner_pipedream_paper = {
    .name = "pipedream-paper",
    .replicates = true,
    .summary = "PipeDream's optimizer with the costs of its published program",
    .solve = solve,
};
