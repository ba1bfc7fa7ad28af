/*
 * BaPipe's balanced partition (Zhao et al., "BaPipe: exploration of balanced pipeline parallelism for DNN training", 2020),
 * between layers; splitting a layer is a rewrite of the graph (graph/split.h).
 *
 *   1. With T_n the time of the whole network on worker n, a perfect cut gives every stage T = 1 / sum(1 / T_n): each stage
 *      ends where the layers so far come closest to its share. Then layers move from the busiest stage towards others as long
 *      as that balances the loads.
 *   2. If a transfer takes longer than its sending stage, only cuts whose transfer takes at most T remain (the paper's
 *      feature threshold; raised to the least at which there are enough cuts), and 1. runs on this coarser chain.
 *   3. Layers move to adjacent stages until every stage fits its worker; after that as long as the slowest worker or link gets
 *      faster.
 *
 * The paper leaves open how to iterate. Here a partition is better when the sorted list of its stages' figures is smaller in
 * lexicographic order. A move shifts all cuts between the worst stage and another one by one layer, so that layers pass through
 * the stages between; or it puts one end of the worst stage anywhere between the adjacent stages. Every accepted move is
 * better, so the search ends, and the same input always gives the same cut. The moves start a second time from the partition
 * that fills one stage after the other up to a time limit, for the least limit, from T on, with which all layers are placed.
 *
 * Moves can get stuck in a local optimum, and may miss a cut that fits. So the exact method (pipedream.c) runs first. It
 * reports the reason if nothing fits, and gives the lower bound. Its cut is the answer if the moves find none.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "plan/partitioner.h"

extern const struct partitioner partitioner_bapipe, partitioner_pipedream;

enum { FILLINGS = 40 };

/* What is balanced: computation alone; or first the excess over the memory limits, then computation and transfers. */
enum measure { COMPUTATION, EVERYTHING };

struct balance {
    const struct partition_problem *problem;
    int layers, stages;
    double threshold_s; /* a cut with a longer transfer is not used; INFINITY: all are */
    int *tried;         /* per stage: the last layers of a move */
    int *chosen;        /* likewise: of the best move */
    int *start, *cut;   /* likewise: other partitions */
    double *figures;    /* 4 x stages: two lists of `excess` and `time` */
};

static bool cut_allowed(const struct balance *balance, int stage, int layer) {
    return partition_transfer_s(balance->problem, stage, layer) <= balance->threshold_s;
}

/* The share of its memory that a stage needs if it is too much, else 0. */
static double excess_of(const struct partition_problem *problem, int stage, int first, int last) {
    int64_t limit = partition_memory_limit(problem, stage);
    if (!problem->slots || limit == 0) return 0;
    struct worker_memory memory = partition_memory(problem, stage, first, last);
    int64_t needed = worker_memory_total(&memory);
    return needed > limit ? (double)needed / (double)limit : 0;
}

static bool fits(const struct partition_problem *problem, const int *last) {
    for (int s = 0; s < problem->stages; s++)
        if (excess_of(problem, s, partition_first(last, s), last[s]) > 0) return false;
    return true;
}

/* Fills a list of figures, unsorted, and returns the worst stage. */
static int measure(const struct balance *balance, enum measure what, const int *last, double *figures) {
    int stages = balance->stages, worst = 0;
    for (int s = 0; s < stages; s++) {
        int first = partition_first(last, s);
        double *excess = &figures[s], *time = &figures[stages + s];
        *excess = what == EVERYTHING ? excess_of(balance->problem, s, first, last[s]) : 0;
        *time = what == EVERYTHING ? partition_stage_s(balance->problem, s, first, last[s])
                                   : partition_load_s(balance->problem, s, first, last[s]);
        if (s == 0 || *excess > figures[worst] || (*excess == figures[worst] && *time > figures[stages + worst])) worst = s;
    }
    return worst;
}

static int compare_falling(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void sort_figures(double *figures, int stages) {
    qsort(figures, (size_t)stages, sizeof *figures, compare_falling);
    qsort(figures + stages, (size_t)stages, sizeof *figures, compare_falling);
}

static bool smaller(const double *a, const double *b, int count) {
    for (int i = 0; i < count; i++)
        if (a[i] != b[i]) return a[i] < b[i];
    return false;
}

/* Moves the cuts after the stages from..to-1 to the adjacent allowed cut, pushing others if necessary; false if there is no
 * room. */
static bool shift(const struct balance *balance, int *last, int from, int to, int step) {
    for (int i = from; i < to; i++) {
        int s = step > 0 ? to - 1 - (i - from) : i, layer = last[s] + step;
        while (layer >= 0 && layer < balance->layers && !cut_allowed(balance, s, layer)) layer += step;
        if (layer < s || layer >= last[s + 1] || (s > 0 && layer <= last[s - 1])) return false;
        last[s] = layer;
    }
    return true;
}

/* Keeps the tried partition as the best move if it is better. */
static bool consider(struct balance *balance, enum measure what, int *chosen) {
    int count = 2 * balance->stages;
    double *best = balance->figures, *now = balance->figures + count;
    measure(balance, what, balance->tried, now);
    sort_figures(now, balance->stages);
    if (!smaller(now, best, count)) return false;
    memcpy(best, now, (size_t)count * sizeof *best);
    memcpy(chosen, balance->tried, (size_t)balance->stages * sizeof *chosen);
    return true;
}

/* Makes the best move of a partition; false if no move improves it. */
static bool move(struct balance *balance, enum measure what, int *last) {
    int stages = balance->stages, worst = measure(balance, what, last, balance->figures);
    size_t bytes = (size_t)stages * sizeof *last;
    bool moved = false;
    sort_figures(balance->figures, stages);
    for (int other = 0; other < stages; other++)
        for (int step = -1; step <= 1; step += 2) {
            memcpy(balance->tried, last, bytes);
            int from = other < worst ? other : worst, to = other < worst ? worst : other;
            if (from < to && shift(balance, balance->tried, from, to, step)) moved |= consider(balance, what, balance->chosen);
        }
    for (int s = worst > 0 ? worst - 1 : 0; s <= worst && s < stages - 1; s++) {
        memcpy(balance->tried, last, bytes);
        for (int layer = partition_first(last, s); layer < last[s + 1]; layer++) {
            if (!cut_allowed(balance, s, layer)) continue;
            balance->tried[s] = layer;
            moved |= consider(balance, what, balance->chosen);
        }
    }
    if (moved) memcpy(last, balance->chosen, bytes);
    return moved;
}

/* Ends every stage but the last at the allowed cut where the layers so far come closest to T per stage, and leaves enough cuts
 * for the later stages. False if there are too few. */
static bool cut_by_share(const struct balance *balance, double share_s, int *last) {
    const struct partition_problem *problem = balance->problem;
    int stages = balance->stages, layer = balance->layers - 1;
    int *latest = balance->tried; /* of each stage's last layer */
    for (int s = stages - 1; s >= 0; s--, layer--) {
        while (layer >= s && s < stages - 1 && !cut_allowed(balance, s, layer)) layer--;
        if (layer < s) return false;
        latest[s] = layer;
    }
    double whole_s = partition_load_s(problem, 0, 0, balance->layers - 1), wanted = 0;
    for (int s = 0; s < stages - 1; s++) {
        double done = 0, distance = INFINITY;
        wanted += share_s / partition_load_s(problem, s, 0, balance->layers - 1);
        last[s] = latest[s];
        for (layer = 0; layer <= latest[s]; layer++) {
            done += partition_load_s(problem, 0, layer, layer) / whole_s;
            if (layer < partition_first(last, s) || !cut_allowed(balance, s, layer) || fabs(done - wanted) >= distance)
                continue;
            distance = fabs(done - wanted);
            last[s] = layer;
        }
    }
    last[stages - 1] = balance->layers - 1;
    return true;
}

static bool communication_bound(const struct partition_problem *problem, const int *last) {
    for (int s = 0; s < problem->stages - 1; s++)
        if (partition_transfer_s(problem, s, last[s]) > partition_load_s(problem, s, partition_first(last, s), last[s]))
            return true;
    return false;
}

/* The partition of the coarse chain: threshold T, or the least larger transfer time that leaves enough cuts. */
static void coarsen(struct balance *balance, double share_s, int *last) {
    balance->threshold_s = share_s;
    while (!cut_by_share(balance, share_s, last)) {
        double next_s = INFINITY;
        for (int s = 0; s < balance->stages - 1; s++)
            for (int l = 0; l < balance->layers - 1; l++) {
                double transfer_s = partition_transfer_s(balance->problem, s, l);
                if (transfer_s > balance->threshold_s && transfer_s < next_s) next_s = transfer_s;
            }
        balance->threshold_s = next_s;
    }
    while (move(balance, COMPUTATION, last)) continue;
}

/* Keeps `last` in the partition if it fits and is better than the current one. */
static void keep(const struct partition_problem *problem, const int *last, struct partition *best) {
    double objective_s = partition_objective_s(problem, last);
    if (objective_s >= best->objective_s || !fits(problem, last)) return;
    best->objective_s = objective_s;
    memcpy(best->last, last, (size_t)problem->stages * sizeof *last);
}

/* The last layer up to `end` with which the stage from `first` on computes for at most `limit_s`; its time grows with every
 * layer. first - 1: there is none. */
static int last_in_time(const struct partition_problem *problem, int stage, int first, int end, double limit_s) {
    int low = first - 1, high = end;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (partition_load_s(problem, stage, first, middle) <= limit_s)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Gives every stage all the layers that fit its memory and `limit_s`, and leaves one for each later stage. */
static bool fill(const struct balance *balance, double limit_s, int *last) {
    const struct partition_problem *problem = balance->problem;
    for (int s = 0; s < balance->stages; s++) {
        int first = partition_first(last, s), end = balance->layers - balance->stages + s;
        int least = s < balance->stages - 1 ? first : end, layer = last_in_time(problem, s, first, end, limit_s);
        while (layer >= least &&
               (partition_stage_s(problem, s, first, layer) > limit_s || excess_of(problem, s, first, layer) > 0))
            layer--;
        if (layer < least) return false;
        last[s] = layer;
    }
    return true;
}

/* Raises the ideal time until the stages can be filled one after the other, and bisects the last step. */
static void fill_least(struct balance *balance, double share_s, struct partition *best) {
    double low_s = share_s, high_s = share_s;
    for (int i = 0; i < FILLINGS && !fill(balance, high_s, balance->cut); i++) {
        low_s = high_s;
        high_s *= 2;
    }
    for (int i = 0; i < FILLINGS; i++) {
        double middle_s = 0.5 * (low_s + high_s);
        *(fill(balance, middle_s, balance->cut) ? &high_s : &low_s) = middle_s;
    }
    if (!fill(balance, high_s, balance->cut)) return;
    while (move(balance, EVERYTHING, balance->cut)) continue;
    keep(balance->problem, balance->cut, best);
}

static void explore(struct balance *balance, struct partition *best) {
    const struct partition_problem *problem = balance->problem;
    size_t bytes = (size_t)balance->stages * sizeof *balance->cut;
    double rates = 0;
    for (int s = 0; s < balance->stages; s++) rates += 1 / partition_load_s(problem, s, 0, balance->layers - 1);
    double share_s = 1 / rates;
    cut_by_share(balance, share_s, balance->start);
    memcpy(balance->cut, balance->start, bytes);
    while (move(balance, COMPUTATION, balance->cut)) continue;
    if (communication_bound(problem, balance->cut)) {
        coarsen(balance, share_s, balance->cut);
        while (move(balance, EVERYTHING, balance->cut)) continue;
        keep(problem, balance->cut, best);
        balance->threshold_s = INFINITY;
    }
    while (move(balance, EVERYTHING, balance->cut)) continue;
    keep(problem, balance->cut, best);
    while (move(balance, EVERYTHING, balance->start)) continue;
    keep(problem, balance->start, best);
    fill_least(balance, share_s, best);
}

static enum ps_status solve(const struct partition_problem *problem, struct partition *partition, struct ps_error *error) {
    TRY(partitioner_pipedream.solve(problem, partition, error));
    size_t stages = (size_t)problem->stages;
    struct arena arena = {0};
    struct balance balance = {.problem = problem,
                              .layers = problem->costs->layer_count,
                              .stages = problem->stages,
                              .threshold_s = INFINITY,
                              .figures = arena_take(&arena, 4 * stages, sizeof *balance.figures),
                              .tried = arena_take(&arena, stages, sizeof *balance.tried),
                              .chosen = arena_take(&arena, stages, sizeof *balance.chosen),
                              .start = arena_take(&arena, stages, sizeof *balance.start),
                              .cut = arena_take(&arena, stages, sizeof *balance.cut)};
    struct partition best = {.last = arena_take(&arena, stages, sizeof *best.last), .objective_s = INFINITY};
    TRY(arena_check(&arena, "a partition", error));
    explore(&balance, &best);
    if (best.objective_s < INFINITY) {
        partition->objective_s = best.objective_s;
        memcpy(partition->last, best.last, stages * sizeof *best.last);
    }
    arena_release(&arena);
    return PS_OK;
}

const struct partitioner partitioner_bapipe = {
    .name = "bapipe",
    .summary = "contiguous stages balanced for different workers, communication and memory",
    .leaves_idle = true,
    .solve = solve,
};
