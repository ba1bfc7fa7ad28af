/*
 * Bi-Partition's own algorithm, for comparison. A(i1, i2, j1, j2, m) is the least period of the forward layers i1..i2-1 and the
 * backward layers j1..j2-1 on m workers:
 *
 *     A = min over s, t, m' of max( A(i1, s, j1, t, m - m'), (a_s + a_t) / beta, A(s, i2, t, j2, m') )
 *
 * For given s and m' the backward cut t is found by bisection, as if the left part always grew with t and the right part
 * shrank.
 *
 * Its faults are kept. The bisection ignores the transfer, which may rule out the cut that it finds (the result can be several
 * times the optimum). Every worker must have at least one layer, and then neither part need be monotone. Transfers of stashes
 * and weights between separated forward and backward layers cost nothing. The number of micro-batches that a worker holds
 * depends on its position, which a part of the recurrence does not have: here every worker is assumed to hold as many as the
 * first. Workers and links are assumed to be equal. Time O(L^5 log L P^2).
 */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "plan/planners/bipartition.h"

#define STATES_MAX ((size_t)1 << 28)

struct part {
    double period_ns; /* below 0: not computed yet */
    int16_t s, t, right_workers;
};

struct table {
    struct bipartition data;
    size_t ranges; /* pairs first <= end of layers */
    struct part *parts;
};

struct work {
    int i1, i2, j1, j2, workers;
};

static size_t range_index(const struct table *table, int first, int end) {
    size_t side = (size_t)table->data.layers + 1, f = (size_t)first;
    return f * side - f * (f + 1) / 2 + (size_t)end;
}

static struct part *find(const struct table *table, const struct work *work) {
    size_t forward = range_index(table, work->i1, work->i2), backward = range_index(table, work->j1, work->j2);
    return &table->parts[((size_t)(work->workers - 1) * table->ranges + forward) * table->ranges + backward];
}

static double one_worker(const struct table *table, const struct work *work) {
    const struct bipartition *data = &table->data;
    if (work->i1 == work->i2 && work->j1 == work->j2) return INFINITY;
    if (data->problem->slots &&
        bipartition_memory(data, 0, work->i1, work->i2, work->j1, work->j2, false) > bipartition_limit(data, 0))
        return INFINITY;
    return bipartition_load_ns(data, 0, work->i1, work->i2, work->j1, work->j2);
}

static double least(struct table *table, const struct work *work);

/* The period with the cuts s and t; whether the left part is the longer one. */
static double split(struct table *table, const struct work *work, int s, int t, int right_workers, bool *left_longer) {
    struct work left = {work->i1, s, work->j1, t, work->workers - right_workers};
    struct work right = {s, work->i2, t, work->j2, right_workers};
    double left_ns = least(table, &left), right_ns = least(table, &right);
    *left_longer = left_ns >= right_ns;
    return fmax(fmax(left_ns, right_ns), bipartition_boundary_ns(&table->data, 0, s, t));
}

static void keep_better(struct part *best, double period_ns, int s, int t, int right_workers) {
    if (period_ns < best->period_ns) *best = (struct part){period_ns, (int16_t)s, (int16_t)t, (int16_t)right_workers};
}

static void bisect(struct table *table, const struct work *work, int s, int right_workers, struct part *best) {
    int low = work->j1, high = work->j2;
    bool left_longer;
    while (low < high) {
        int t = (low + high) / 2;
        keep_better(best, split(table, work, s, t, right_workers, &left_longer), s, t, right_workers);
        if (left_longer)
            high = t;
        else
            low = t + 1;
    }
    keep_better(best, split(table, work, s, low, right_workers, &left_longer), s, low, right_workers);
}

static double least(struct table *table, const struct work *work) {
    struct part *part = find(table, work);
    if (part->period_ns >= 0) return part->period_ns;
    struct part best = {.period_ns = INFINITY};
    if (work->workers == 1) best.period_ns = one_worker(table, work);
    for (int right = 1; right < work->workers; right++)
        for (int s = work->i1; s <= work->i2; s++) bisect(table, work, s, right, &best);
    *part = best;
    return best.period_ns;
}

/* Cuts of the workers first..first+work->workers-1. */
static void read_cuts(const struct table *table, const struct work *work, int first, int *i, int *j) {
    i[first] = work->i1;
    j[first] = work->j1;
    if (work->workers == 1) return;
    const struct part *part = find(table, work);
    struct work left = {work->i1, part->s, work->j1, part->t, work->workers - part->right_workers};
    struct work right = {part->s, work->i2, part->t, work->j2, part->right_workers};
    read_cuts(table, &left, first, i, j);
    read_cuts(table, &right, first + left.workers, i, j);
}

static enum ps_status fill(struct table *table, struct planner_answer *answer, struct ps_error *error) {
    const struct bipartition *data = &table->data;
    struct work all = {0, data->layers, 0, data->layers, data->workers};
    size_t states = table->ranges * table->ranges * (size_t)data->workers, side = (size_t)data->workers + 1;
    if (states > STATES_MAX)
        return error_set(error, PS_NO_PLAN,
                         "%d layers on %d workers: the published algorithm tabulates %zu states, at most %zu are accepted",
                         data->layers, data->workers, states, STATES_MAX);
    struct arena *arena = &table->data.arena;
    table->parts = arena_take(arena, states, sizeof *table->parts);
    int *i = arena_take(arena, side, sizeof *i), *j = arena_take(arena, side, sizeof *j);
    TRY(arena_check(arena, "the table of the planner", error));
    for (size_t p = 0; p < states; p++) table->parts[p].period_ns = -1;
    if (isinf(least(table, &all)))
        return error_set(error, PS_NO_PLAN, "no bi-partition of %d layers over %d worker%s fits their memory", data->layers,
                         data->workers, text_plural(data->workers));
    read_cuts(table, &all, 0, i, j);
    i[data->workers] = j[data->workers] = data->layers;
    return bipartition_answer(data, i, j, answer, error);
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct planner_problem paper = *problem;
    struct table table = {0};
    paper.paper_cost = true;
    TRY(bipartition_open(&paper, &table.data, error));
    size_t side = (size_t)table.data.layers + 1;
    table.ranges = side * (side + 1) / 2;
    enum ps_status status = fill(&table, answer, error);
    bipartition_close(&table.data);
    return status;
}

extern const struct planner planner_bipartition_paper;
const struct planner planner_bipartition_paper = {
    .name = "bipartition-paper",
    .baseline = true,
    .quick_layers = 16,
    .summary = "Bi-Partition's published algorithm, whose cut by bisection may miss the optimum",
    .solve = solve,
};
