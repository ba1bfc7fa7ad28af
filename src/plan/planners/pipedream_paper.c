/*
 * PipeDream's optimizer (Narayanan et al., SOSP 2019) with the costs of its published program, for comparison:
 *
 *   - a stage of m' machines takes (compute + 4 (m' - 1) w / (beta m')) / m', a sum, but a maximum in the paper;
 *   - a boundary takes 2 a / (beta m') with the m' of the stage on either side, but the first stage does not count its end;
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

struct search {
    struct arena arena; /* of its tables */
    const struct ideals *ideals;
    int machines, replicas_max;
    double bandwidth; /* bytes per nanosecond; 0: transfers cost nothing */
    double *keys;     /* [replicas - 1][ideals]: compute and synchronisation */
    double *boundary; /* per ideal: transfers across it, of one machine */
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

static void fill_keys(struct search *search) {
    const struct ideals *ideals = search->ideals;
    for (int i = 0; i < ideals->count; i++) {
        search->boundary[i] = search->bandwidth > 0 ? 2.0 * (double)ideals->cut_bytes[i] / search->bandwidth : 0;
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
            (machines == replicas || i == ideals->count - 1 || boundary_ns(search, i, replicas) <= period_ns)) {
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

static enum ps_status open_search(struct search *search, struct ps_error *error) {
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
    return PS_OK;
}

static enum ps_status write_answer(struct search *search, struct planner_answer *answer, struct ps_error *error) {
    const struct ideals *ideals = search->ideals;
    size_t machines = (size_t)search->machines;
    int count = 0, *uppers = arena_take(&search->arena, machines, sizeof *uppers);
    struct step *steps = arena_take(&search->arena, machines, sizeof *steps);
    answer->stages = arena_take(&answer->arena, machines, sizeof *answer->stages);
    answer->order = arena_take(&answer->arena, (size_t)ideals->node_count, sizeof *answer->order);
    TRY(arena_check(&search->arena, "a plan", error));
    TRY(arena_check(&answer->arena, "a plan", error));
    for (int m = search->machines, i = ideals->count - 1; m > 0; count++) {
        uppers[count] = i;
        steps[count] = search->steps[(size_t)m * (size_t)ideals->count + (size_t)i];
        i = steps[count].from;
        m -= steps[count].replicas;
    }
    while (count-- > 0) planner_add_stage(answer, ideals, steps[count].from, uppers[count], steps[count].replicas);
    return PS_OK;
}

static enum ps_status solve_ideals(const struct planner_problem *problem, const struct ideals *ideals,
                                   struct planner_answer *answer, struct ps_error *error) {
    struct search search = {.ideals = ideals,
                            .machines = problem->workers,
                            .replicas_max = problem->replicate ? problem->workers : 1,
                            .bandwidth = planner_bandwidth(problem) / 1e9};
    enum ps_status status;
    TRY_OUT(open_search(&search, error));
    double period_ns = least_period_ns(&search);
    if (isinf(period_ns)) {
        status = error_set(error, PS_NO_PLAN, "%d stages need as many layers, but the network has only %d", problem->workers,
                           ideals->node_count);
        goto out;
    }
    answer->objective_s = answer->lower_bound_s = period_ns / 1e9;
    status = write_answer(&search, answer, error);
out:
    arena_release(&search.arena);
    return status;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    return planner_solve_ideals(problem, solve_ideals, answer, error);
}

extern const struct planner planner_pipedream_paper;
const struct planner planner_pipedream_paper = {
    .name = "pipedream-paper",
    .replicates = true,
    .summary = "PipeDream's optimizer with the costs of its published program",
    .solve = solve,
};
