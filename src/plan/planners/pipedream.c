/*
 * PipeDream's partition with replicated stages (Narayanan et al., SOSP 2019), with the simulator's costs: the average time per
 * micro-batch of each worker and each link in the steady state.
 *
 *   a worker of a stage with r replicas   (forward + backward + its share of an update) / r, and a share of the sum of the
 *                                         gradients
 *   a link between stages                 the slower direction's transfer / lcm(r, r') where r and r' are the replicas at its
 *                                         ends: the pair meets so seldom (half duplex: both directions)
 *
 * Without overlap transfers take their workers' own time. A sum is a ring all-reduce (cluster_ring_s), once per update: after
 * each round of r mini-batches, or with a flush after each mini-batch, which the r workers share. No program of such a plan has
 * a shorter period, so the objective bounds the simulated one from below; the least objective is found exactly, over all cuts
 * between ideals of the graph, all numbers of replicas, and at most as many workers as there are, in their order. Stages take
 * consecutive workers; the slowest determines a stage's time. Of different links the slowest of a ring counts. Memory is
 * checked by the caller, by simulation.
 *
 * The objective ignores latency: pipelines that hold few micro-batches wait for long transfers. With a `safety_factor` the plan
 * is the best one if this share of the transfers took the workers' own time; its objective is counted without the factor.
 *
 * Whether a period of T is possible is decided by sweeps over the ideals, as in pipedream_paper.c. A stage's time is a
 * difference of two keys, so of all lower ends the one with the largest key is the best; it is passed on along the covers. T
 * falls from plan to plan until none is better.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "plan/ideals.h"
#include "plan/planner.h"

#define STATES_MAX ((size_t)1 << 27)
#define SAFE_PRECISION 1e-4 /* a count with a safety factor need not be precise */

struct step {
    int from;                        /* the stage's lower ideal */
    short replicas, replicas_before; /* of the stage; of the previous stage (0: it is the first) */
};

/* Neighbouring workers as the replicas of a stage. */
struct group {
    double speed; /* of the slowest */
    struct planner_ring ring;
};

/* The ideals that stages can end with when so many workers are taken. */
struct frontier {
    int first;        /* the first of them; as many as there are ideals: none */
    double most_work; /* of them */
    double speeds;    /* of the workers that are left, in all */
};

struct search {
    struct arena arena; /* of its tables */
    const struct planner_problem *problem;
    const struct ideals *ideals;
    double serial; /* the share of transfers that takes the workers' own time; 0: transfers overlap with computation */
    int workers, replicas_max;
    struct group *groups;                     /* [first worker][replicas] */
    struct frontier *frontiers;               /* per workers used */
    double *work_s, *update_s, *weight_bytes; /* per ideal, of its nodes: one micro-batch, one update, bytes to all-reduce */
    double *cut_s;      /* per ideal: a transfer in its slower direction on the slowest link; without overlap both directions */
    bool *reached;      /* [workers used][replicas of the last stage][ideal] */
    bool *reached_any;  /* [workers used][ideal]: with any number of replicas */
    struct step *steps; /* likewise */
    double *best_key;   /* per ideal: the largest key among the lower ends inside it */
    struct step *best_step;
};

static size_t place(const struct search *search, int used, int replicas, int ideal) {
    return ((size_t)used * (size_t)(search->replicas_max + 1) + (size_t)replicas) * (size_t)search->ideals->count +
           (size_t)ideal;
}

static size_t place_any(const struct search *search, int used, int ideal) {
    return (size_t)used * (size_t)search->ideals->count + (size_t)ideal;
}

static struct group *group_at(const struct search *search, int first, int replicas) {
    return &search->groups[(size_t)first * (size_t)(search->replicas_max + 1) + (size_t)replicas];
}

/* Time per micro-batch of the workers [first, first + replicas), as a linear function of work, update and weights. */
struct pace {
    double work, update, byte, fixed, transfer;
};

static struct pace pace_of(const struct search *search, int first, int replicas) {
    const struct planner_problem *problem = search->problem;
    const struct group *group = group_at(search, first, replicas);
    double updates = planner_updates(problem, replicas);
    struct pace pace = {.work = 1 / (group->speed * replicas), .update = updates / group->speed};
    pace.transfer = search->serial / replicas;
    pace.byte = updates * group->ring.byte_s;
    pace.fixed = updates * group->ring.fixed_s;
    return pace;
}

/* The keys of an ideal as a stage's upper and lower end. The stage's time is their difference, plus a constant. */
static double upper_key(const struct search *search, const struct pace *pace, int ideal) {
    return pace->work * search->work_s[ideal] + pace->update * search->update_s[ideal] +
           pace->byte * search->weight_bytes[ideal] + pace->transfer * search->cut_s[ideal];
}

static double lower_key(const struct search *search, const struct pace *pace, int ideal) {
    return upper_key(search, pace, ideal) - 2 * pace->transfer * search->cut_s[ideal];
}

static double stage_s(const struct search *search, const struct pace *pace, int lower, int upper) {
    return upper_key(search, pace, upper) - lower_key(search, pace, lower) + pace->fixed;
}

static double boundary_s(const struct search *search, int ideal, int before, int replicas) {
    if (search->serial > 0 || before == 0) return 0;
    return search->cut_s[ideal] / (before / number_common_divisor(before, replicas) * replicas);
}

/* A stage can end with the ideal, if the workers that are left can compute the rest. */
static void reach(struct search *search, int used, int replicas, int ideal, double period_s) {
    struct frontier *frontier = &search->frontiers[used];
    const double left = search->work_s[search->ideals->count - 1] - search->work_s[ideal];
    if (left * (1 - 1e-9) > period_s * frontier->speeds) return;
    search->reached[place(search, used, replicas, ideal)] = search->reached_any[place_any(search, used, ideal)] = true;
    if (ideal < frontier->first) frontier->first = ideal;
    frontier->most_work = fmax(frontier->most_work, search->work_s[ideal]);
}

/* Stages of `replicas` workers that end with `used` workers taken. */
static void sweep(struct search *search, int used, int replicas, double period_s) {
    const struct ideals *ideals = search->ideals;
    int first = used - replicas;
    const struct frontier *below = &search->frontiers[first];
    struct pace pace = pace_of(search, first, replicas);
    const double most_work = below->most_work + period_s / pace.work * (1 + 1e-9);
    for (int i = 0; i < below->first; i++) search->best_key[i] = -INFINITY;
    for (int i = below->first; i < ideals->count; i++) {
        if (search->work_s[i] > most_work) { /* nor can those that hold it be reached */
            search->best_key[i] = -INFINITY;
            continue;
        }
        double best = -INFINITY;
        struct step step = {.from = -1};
        for (int c = ideals->cover_first[i]; c < ideals->cover_first[i + 1]; c++) {
            int lower = ideals->covers[c];
            if (search->best_key[lower] <= best) continue;
            best = search->best_key[lower];
            step = search->best_step[lower];
        }
        if (step.from >= 0 && stage_s(search, &pace, step.from, i) <= period_s) {
            reach(search, used, replicas, i, period_s);
            search->steps[place(search, used, replicas, i)] = step;
        }
        double own = lower_key(search, &pace, i);
        bool any = search->reached_any[place_any(search, first, i)];
        for (int before = 0; any && before <= search->replicas_max && before <= first && own > best; before++) {
            if (!search->reached[place(search, first, before, i)] || boundary_s(search, i, before, replicas) > period_s)
                continue;
            best = own;
            step = (struct step){.from = i, .replicas = (short)replicas, .replicas_before = (short)before};
        }
        search->best_key[i] = best;
        search->best_step[i] = step;
    }
}

/* The fewest workers of a plan of this period, and the replicas of its last stage; false: there is none. */
static bool feasible(struct search *search, double period_s, int *used, int *replicas) {
    int last = search->ideals->count - 1;
    memset(search->reached, 0, place(search, search->workers + 1, 0, 0) * sizeof *search->reached);
    memset(search->reached_any, 0, place_any(search, search->workers + 1, 0) * sizeof *search->reached_any);
    for (int u = 0; u <= search->workers; u++)
        search->frontiers[u].first = search->ideals->count, search->frontiers[u].most_work = 0;
    reach(search, 0, 0, 0, INFINITY);
    for (*used = 1; *used <= search->workers; ++*used) {
        for (*replicas = 1; *replicas <= *used && *replicas <= search->replicas_max; ++*replicas)
            if (search->frontiers[*used - *replicas].first <= last) sweep(search, *used, *replicas, period_s);
        for (*replicas = 1; *replicas <= *used && *replicas <= search->replicas_max; ++*replicas)
            if (search->reached[place(search, *used, *replicas, last)]) return true;
    }
    return false;
}

/* Period of the plan that ends with these, followed from its last stage to its first. */
static double achieved_s(const struct search *search, int used, int replicas) {
    double period_s = 0;
    for (int i = search->ideals->count - 1; used > 0;) {
        struct step step = search->steps[place(search, used, replicas, i)];
        struct pace pace = pace_of(search, used - replicas, replicas);
        period_s = fmax(period_s, stage_s(search, &pace, step.from, i));
        period_s = fmax(period_s, boundary_s(search, step.from, step.replicas_before, replicas));
        i = step.from;
        used -= replicas;
        replicas = step.replicas_before;
    }
    return period_s;
}

/* All work divided over all workers. */
static double least_work_s(const struct search *search) {
    return search->work_s[search->ideals->count - 1] / search->frontiers[0].speeds;
}

/* To a relative `precision`; 0: exactly, where the last test is whether there is any better plan. */
static double least_period_s(struct search *search, double precision, int *used, int *replicas) {
    double high = INFINITY, low = least_work_s(search) * (1 - 1e-9);
    if (feasible(search, high, used, replicas)) high = achieved_s(search, *used, *replicas);
    while (high - low > fmax(precision, 1e-15) * high) {
        double middle = high - low > 1e-9 * high ? low + (high - low) / 2 : nextafter(high, 0);
        if (feasible(search, middle, used, replicas))
            high = fmin(middle, achieved_s(search, *used, *replicas));
        else
            low = middle;
    }
    feasible(search, high, used, replicas);
    return high;
}

static const struct layer_cost *layer_of(const struct search *search, int node) {
    const struct planner_problem *problem = search->problem;
    int number = search->ideals->nodes[node];
    if (!search->ideals->of_graph) return &problem->costs->layers[number];
    const struct costgraph_node *of = &problem->graph->nodes[number];
    return of->forward_s + of->backward_s > 0 ? &problem->costs->layers[of->layer] : NULL;
}

static double cut_seconds(const struct search *search, int64_t bytes) {
    const struct ps_cluster *cluster = search->problem->cluster;
    double most_s = 0;
    for (int from = 0; from < search->workers; from++)
        for (int to = 0; to < search->workers; to++) {
            if (from == to) continue;
            const struct cluster_link *link = cluster_link_between(cluster, from, to);
            double both = search->serial > 0 || (link && link->half_duplex) ? 2 : 1;
            most_s = fmax(most_s, both * cluster_transfer_s(cluster, from, to, bytes));
            if (cluster->link_count < 2) return most_s;
        }
    return most_s;
}

static void count_ideals(struct search *search) {
    const struct ideals *ideals = search->ideals;
    for (int i = 0; i < ideals->count; i++) {
        for (int n = 0; n < ideals->node_count; n++) {
            const struct layer_cost *layer = ideal_holds(ideals, i, n) ? layer_of(search, n) : NULL;
            if (!layer) continue;
            search->work_s[i] += layer->time.forward_s + layer->time.backward_input_s + layer->time.backward_weight_s;
            search->update_s[i] += layer->time.update_s;
            search->weight_bytes[i] += (double)(layer->size.parameter_bytes + layer->size.statistics_bytes);
        }
    }
}

static void count_cuts(struct search *search, double serial) {
    const struct ideals *ideals = search->ideals;
    search->serial = serial;
    for (int i = 1; i + 1 < ideals->count; i++) search->cut_s[i] = cut_seconds(search, ideals->cut_bytes[i]);
}

static void count_groups(struct search *search) {
    const struct ps_cluster *cluster = search->problem->cluster;
    const bool alike = cluster_links_alike(cluster);
    for (int first = search->workers - 1; first >= 0; first--) {
        search->frontiers[first].speeds = search->frontiers[first + 1].speeds + cluster->devices[first].speed;
        double speed = INFINITY;
        for (int r = 1; r <= search->replicas_max && first + r <= search->workers; r++) {
            struct group *group = group_at(search, first, r);
            group->speed = speed = fmin(speed, cluster->devices[first + r - 1].speed);
            if (!alike) group->ring = planner_ring(search->problem, first, r);
        }
    }
    for (int r = 1; alike && r <= search->replicas_max; r++) {
        const struct planner_ring ring = planner_ring(search->problem, 0, r);
        for (int first = 0; first + r <= search->workers; first++) group_at(search, first, r)->ring = ring;
    }
}

static enum ps_status open_search(struct search *search, struct ps_error *error) {
    size_t ideals = (size_t)search->ideals->count, states = place(search, search->workers + 1, 0, 0);
    if (states > STATES_MAX)
        return error_set(error, PS_NO_PLAN, "%zu cuts on %d workers with replicas are too many to plan", ideals,
                         search->workers);
    struct arena *arena = &search->arena;
    search->work_s = arena_take(arena, ideals, sizeof *search->work_s);
    search->update_s = arena_take(arena, ideals, sizeof *search->update_s);
    search->weight_bytes = arena_take(arena, ideals, sizeof *search->weight_bytes);
    search->cut_s = arena_take(arena, ideals, sizeof *search->cut_s);
    search->reached = arena_take(arena, states, sizeof *search->reached);
    search->reached_any = arena_take(arena, place_any(search, search->workers + 1, 0), sizeof *search->reached_any);
    search->steps = arena_take(arena, states, sizeof *search->steps);
    search->groups = arena_take(arena, (size_t)search->workers * ((size_t)search->replicas_max + 1), sizeof *search->groups);
    search->frontiers = arena_take(arena, (size_t)search->workers + 1, sizeof *search->frontiers);
    search->best_key = arena_take(arena, ideals, sizeof *search->best_key);
    search->best_step = arena_take(arena, ideals, sizeof *search->best_step);
    TRY(arena_check(arena, "the tables of the planner", error));
    count_ideals(search);
    count_groups(search);
    return PS_OK;
}

static enum ps_status write_answer(struct search *search, int used, int replicas, struct planner_answer *answer,
                                   struct ps_error *error) {
    const struct ideals *ideals = search->ideals;
    size_t workers = (size_t)search->workers;
    int count = 0, *uppers = arena_take(&search->arena, workers, sizeof *uppers);
    struct step *steps = arena_take(&search->arena, workers, sizeof *steps);
    answer->stages = arena_take(&answer->arena, workers, sizeof *answer->stages);
    answer->order = arena_take(&answer->arena, (size_t)ideals->node_count, sizeof *answer->order);
    TRY(arena_check(&search->arena, "a plan", error));
    TRY(arena_check(&answer->arena, "a plan", error));
    for (int i = ideals->count - 1; used > 0; count++) {
        uppers[count] = i;
        steps[count] = search->steps[place(search, used, replicas, i)];
        i = steps[count].from;
        used -= replicas;
        replicas = steps[count].replicas_before;
    }
    while (count-- > 0) planner_add_stage(answer, ideals, steps[count].from, uppers[count], steps[count].replicas);
    return PS_OK;
}

static enum ps_status solve_ideals(const struct planner_problem *problem, const struct ideals *ideals,
                                   struct planner_answer *answer, struct ps_error *error) {
    int most = problem->replicas_max > 0 && problem->replicas_max < problem->workers ? problem->replicas_max : problem->workers;
    struct search search = {
        .problem = problem, .ideals = ideals, .workers = problem->workers, .replicas_max = problem->replicate ? most : 1};
    int used, replicas;
    enum ps_status status = open_search(&search, error);
    if (status == PS_OK) {
        bool safe = problem->safety_factor > 0 && problem->cluster->overlap;
        count_cuts(&search, problem->cluster->overlap ? 0 : 1);
        if (!safe || problem->bound_s <= 0) answer->objective_s = least_period_s(&search, 0, &used, &replicas);
        answer->lower_bound_s = problem->bound_s > 0 ? problem->bound_s : answer->objective_s;
        if (safe) {
            count_cuts(&search, problem->safety_factor);
            least_period_s(&search, SAFE_PRECISION, &used, &replicas);
            count_cuts(&search, 0);
            answer->objective_s = achieved_s(&search, used, replicas);
        }
        status = write_answer(&search, used, replicas, answer, error);
    }
    arena_release(&search.arena);
    return status;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct planner_problem limited = *problem;
    size_t side = (size_t)problem->workers + 1, room = STATES_MAX / (side * side);
    if (problem->ideals_max == 0 && room < PLANNER_IDEALS_MAX) limited.ideals_max = room > 1 ? (int)room : 2;
    return planner_solve_ideals(&limited, false, solve_ideals, answer, error);
}

const struct planner planner_pipedream = {
    .name = "pipedream",
    .summary = "contiguous stages with replicas whose slowest worker or link is as fast as possible (exact; where replicas are "
               "allowed)",
    .contains_chain = true,
    .replicates = true,
    .several_types = true,
    .solve = solve,
};
