/*
 * Bi-Partition (separate cuts for forward and backward), solved exactly, with transfers, memory and heterogeneous workers in a
 * given order.
 *
 * Whether a period of T is possible is decided from the last worker to the first. (i, j) is a state of worker k if workers
 * k..P-1 can do all but the first i forward and j backward layers. It is one if its boundary with worker k - 1 takes at most T
 * and some state (i2, j2) >= (i, j) of worker k + 1 leaves a load of at most T_k = speed_k T:
 *
 *     F[i2] + B[j2] <= T_k + F[i] + B[j]
 *
 * so without memory only the least F[i2] + B[j2] over the states above and right of (i, j) matters: a Fenwick tree over j,
 * filled while i falls. Only a band of (i, j) is considered: the remaining layers must fit the remaining workers, and the other
 * layers the workers before.
 *
 * With memory each (i, j) tries all i2 and, from the smallest reachable on, j2. The memory of a worker grows with i2 and j2
 * except for the buffers at its ends. So a range that is too large without them ends the search, which is exact and rarely
 * long. A state for one T is a state for all larger T, so fewer (i, j) remain undecided with each test of the bisection.
 *
 * The paper's algorithm bisects a cut of a function that is not monotone with transfers; see bipartition_paper.c.
 */
#include "plan/planners/bipartition.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"

/* Costs of Bi-Partition's workers and boundaries in constant time, from sums over the layers. */

void bipartition_close(struct bipartition *data) { arena_release(&data->arena); }

static void fill_ranges(struct bipartition_sums *sums, int layers) {
    for (int last = 0; last < layers; last++) {
        struct stage_walk walk = stage_walk_start(sums->costs, last);
        for (;; stage_walk_grow(&walk)) {
            const struct stage_sizes size = stage_walk_cost(&walk).size;
            sums->ranges[walk.first * layers + last] = (struct bipartition_range){
                size.parameter_bytes, size.narrow_bytes, size.repeated_gradient_bytes, size.workspace_bytes};
            if (walk.first == 0) break;
        }
    }
}

/* A backward includes its share of an update, except by the paper's cost. */
static enum ps_status fill_sums(struct bipartition *data, struct bipartition_sums *sums, const struct cost_table *costs,
                                struct ps_error *error) {
    const struct planner_problem *problem = data->problem;
    double update_share = problem->paper_cost ? 0 : problem->update_share;
    size_t layers = (size_t)costs->layer_count;
    *sums = (struct bipartition_sums){.costs = costs};
    int64_t **parts[] = {&sums->forward_ns,   &sums->backward_ns,     &sums->parameter_bytes,
                         &sums->narrow_bytes, &sums->unchanged_bytes, &sums->stash_bytes,
                         &sums->delta_bytes,  &sums->moved_bytes,     &sums->cut_bytes};
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        *parts[p] = arena_take(&data->arena, layers + 1, sizeof **parts[p]);
    if (problem->slots) sums->ranges = arena_take(&data->arena, layers * layers, sizeof *sums->ranges);
    TRY(arena_check(&data->arena, "the sums of a profile", error));
    for (size_t l = 0; l < layers; l++) {
        const struct layer_cost *layer = &costs->layers[l];
        sums->forward_ns[l + 1] = sums->forward_ns[l] + llround(1e9 * layer->time.forward_s);
        double backward_s = layer->time.backward_input_s + layer->time.backward_weight_s + update_share * layer->time.update_s;
        sums->backward_ns[l + 1] = sums->backward_ns[l] + llround(1e9 * backward_s);
        sums->parameter_bytes[l + 1] = sums->parameter_bytes[l] + layer->size.parameter_bytes;
        sums->narrow_bytes[l + 1] = sums->narrow_bytes[l] + layer->size.narrow_bytes;
        sums->unchanged_bytes[l + 1] = sums->unchanged_bytes[l] + layer->size.statistics_bytes + layer->size.fixed_bytes;
        sums->stash_bytes[l + 1] = sums->stash_bytes[l] + layer->size.stash_bytes;
        sums->delta_bytes[l + 1] = sums->delta_bytes[l] + layer->size.delta_bytes;
        sums->moved_bytes[l + 1] =
            sums->moved_bytes[l] + layer->size.stash_bytes + layer->size.parameter_bytes - layer->size.narrow_bytes / 2;
        sums->cut_bytes[l + 1] = l + 1 < layers ? layer->size.output_bytes : 0;
    }
    if (problem->slots) fill_ranges(sums, costs->layer_count);
    return PS_OK;
}

/* The sums of each worker's device type; those of a type are computed once. */
static enum ps_status fill_types(struct bipartition *data, struct ps_error *error) {
    for (int k = 0; k < data->workers; k++) {
        const struct cost_table *costs = cost_table_on(data->problem->costs, data->problem->cluster->devices[k].type);
        int t = 0;
        while (t < data->type_count && data->types[t].costs != costs) t++;
        data->worker[k] = &data->types[t];
        if (t == data->type_count) TRY(fill_sums(data, &data->types[data->type_count++], costs, error));
    }
    return PS_OK;
}

static int64_t least_of(const struct bipartition *data, int l, bool backward) {
    int64_t least = INT64_MAX;
    for (int t = 0; t < data->type_count; t++) {
        const int64_t *sums = backward ? data->types[t].backward_ns : data->types[t].forward_ns;
        least = number_smaller(least, sums[l + 1] - sums[l]);
    }
    return least;
}

enum ps_status bipartition_open(const struct planner_problem *problem, struct bipartition *data, struct ps_error *error) {
    int layers = problem->costs->layer_count;
    size_t count = (size_t)layers + 1, workers = (size_t)problem->workers;
    *data = (struct bipartition){.problem = problem,
                                 .paper_boundaries = problem->paper_cost || problem->published_cut,
                                 .boundary_factor = problem->boundary_factor > 0 ? problem->boundary_factor : 1,
                                 .layers = layers,
                                 .workers = problem->workers};
    data->types = arena_take(&data->arena, workers, sizeof *data->types);
    data->worker = arena_take(&data->arena, workers, sizeof *data->worker);
    data->forward_ns = arena_take(&data->arena, count, sizeof *data->forward_ns);
    data->backward_ns = arena_take(&data->arena, count, sizeof *data->backward_ns);
    TRY(arena_check(&data->arena, "the sums of a profile", error));
    TRY(fill_types(data, error));
    for (int l = 0; l < data->layers; l++) {
        data->forward_ns[l + 1] = data->forward_ns[l] + least_of(data, l, false);
        data->backward_ns[l + 1] = data->backward_ns[l] + least_of(data, l, true);
    }
    return PS_OK;
}

double bipartition_boundary_ns(const struct bipartition *data, int k, int i, int j) {
    const struct ps_cluster *cluster = data->problem->cluster;
    const struct bipartition_sums *sums = data->worker[k];
    int64_t onward = sums->cut_bytes[i], back = data->worker[k + 1]->cut_bytes[j];
    if (!data->paper_boundaries && i != j) onward += llabs(sums->moved_bytes[i] - sums->moved_bytes[j]);
    double transfer_s = cluster_transfer_s(cluster, k, k + 1, onward) + cluster_transfer_s(cluster, k + 1, k, back);
    return 1e9 * data->boundary_factor * transfer_s;
}

double bipartition_load_ns(const struct bipartition *data, int k, int i, int i2, int j, int j2) {
    const struct bipartition_sums *sums = data->worker[k];
    int64_t load = sums->forward_ns[i2] - sums->forward_ns[i] + sums->backward_ns[j2] - sums->backward_ns[j];
    return (double)load / data->problem->cluster->devices[k].speed;
}

/* An upper bound, by its type's sums, of the time of worker k's operations in a period. */
static int64_t room_ns(const struct bipartition *data, int k, double period_ns) {
    return (int64_t)floor(period_ns * data->problem->cluster->devices[k].speed);
}

/* Of layers first..end-1 as a stage: everything but stash and boundary blocks. Of weights that are shared each grows with the
 * range, too, since no use adds less than nothing. */
static struct stage_sizes range_sizes(const struct bipartition_sums *sums, int layers, int first, int end) {
    if (end <= first) return (struct stage_sizes){0};
    const struct bipartition_range *range = &sums->ranges[first * layers + end - 1];
    return (struct stage_sizes){.parameter_bytes = range->parameter_bytes,
                                .narrow_bytes = range->narrow_bytes,
                                .fixed_bytes = sums->unchanged_bytes[end] - sums->unchanged_bytes[first],
                                .repeated_gradient_bytes = range->repeated_gradient_bytes,
                                .delta_bytes = sums->delta_bytes[end] - sums->delta_bytes[first],
                                .workspace_bytes = range->workspace_bytes};
}

/* Bytes of the block that arrives at a range that begins after i layers; bytes of it that the previous layer made. */
static int64_t arriving(const struct bipartition_sums *sums, int i) {
    return i > 0 ? sums->cut_bytes[i] : sums->costs->input_bytes;
}
static int64_t arriving_value(const struct bipartition_sums *sums, int i) {
    return i > 0 ? sums->costs->layers[i - 1].size.value_bytes : sums->costs->input_bytes;
}

/* A sum over the layers of i..i2-1 that are not in j..j2-1. */
static int64_t outside(const int64_t *sum, int i, int i2, int j, int j2) {
    const int both = (int)number_larger(i, j), both_end = (int)number_smaller(i2, j2);
    return sum[i2] - sum[i] - (both_end > both ? sum[both_end] - sum[both] : 0);
}

int64_t bipartition_memory(const struct bipartition *data, int k, int i, int i2, int j, int j2, bool rising) {
    const struct bipartition_sums *sums = data->worker[k];
    struct stage_slots slots = data->problem->slots[k];
    struct stage_slots sent_slots = {
        .weights = 1, .stash = 1, .input = i != j || (j2 == j && !rising), .output = slots.output, .forward_only = true};
    /* A backward that begins where the forward does takes over its input, which its stash then omits: no need of `rising`. */
    slots.output = 0; /* the forward's */
    struct stage_sizes kept = range_sizes(sums, data->layers, j, j2), forward = range_sizes(sums, data->layers, i, i2);
    struct stage_sizes sent = {.parameter_bytes = outside(sums->parameter_bytes, i, i2, j, j2),
                               .narrow_bytes = outside(sums->narrow_bytes, i, i2, j, j2),
                               .fixed_bytes = outside(sums->unchanged_bytes, i, i2, j, j2),
                               .stash_bytes = outside(sums->stash_bytes, i, i2, j, j2),
                               .workspace_bytes = forward.workspace_bytes};
    if (j2 > j) {
        int64_t tail = rising ? 0 : sums->costs->layers[j2 - 1].size.tail_bytes;
        kept.stash_bytes = number_larger(0, sums->stash_bytes[j2] - sums->stash_bytes[j] - arriving_value(sums, j) + tail);
        kept.input_bytes = arriving(sums, j);
        kept.output_bytes = rising ? 0 : sums->cut_bytes[j2];
    }
    if (i2 > i) {
        sent.input_bytes = arriving(sums, i);
        sent.output_bytes = rising ? 0 : sums->cut_bytes[i2];
    }
    struct worker_memory memory = stage_memory(&kept, &slots, data->problem->moments),
                         sent_memory = stage_memory(&sent, &sent_slots, data->problem->moments);
    worker_memory_add(&memory, &sent_memory);
    return worker_memory_total(&memory);
}

static double longest_load_ns(const struct bipartition *data, const int *i, const int *j) {
    double load_ns = 0;
    for (int k = 0; k < data->workers; k++)
        load_ns = fmax(load_ns, bipartition_load_ns(data, k, i[k], i[k + 1], j[k], j[k + 1]));
    return load_ns;
}

double bipartition_period_ns(const struct bipartition *data, const int *i, const int *j) {
    double period_ns = longest_load_ns(data, i, j);
    for (int k = 1; k < data->workers; k++) period_ns = fmax(period_ns, bipartition_boundary_ns(data, k - 1, i[k], j[k]));
    return period_ns;
}

/* A stage ends wherever a forward or a backward range ends. */
enum ps_status bipartition_answer(const struct bipartition *data, const int *i, const int *j, struct planner_answer *answer,
                                  struct ps_error *error) {
    answer->stages = arena_take(&answer->arena, 2 * (size_t)data->workers, sizeof *answer->stages);
    TRY(arena_check(&answer->arena, "a plan", error));
    int forward = 0, backward = 0, first = 0;
    while (first < data->layers) {
        while (i[forward + 1] <= first) forward++;
        while (j[backward + 1] <= first) backward++;
        int end = (int)number_smaller(i[forward + 1], j[backward + 1]);
        answer->stages[answer->stage_count++] = (struct planned_stage){first, end - 1, forward, backward, 1, 0};
        first = end;
    }
    answer->objective_s = bipartition_period_ns(data, i, j) / 1e9;
    return PS_OK;
}

/*
 * The least possible period: up from a bound in growing steps until one is possible, then bisection. The actual period of a
 * plan is often below the one that was tested, and the search ends on such a period exactly. If a plan is known, the first test
 * is whether there is a better one. Between groups of layers, which have better plans, it is found to EXACT_FOR_GROUPS only.
 */
#define EXACT 1e-13
#define EXACT_FOR_GROUPS 1e-4

/* Tests whether a period is possible: the cuts of a plan that keeps it, and their actual period; INFINITY: it is not
 * possible. */
struct period_test {
    enum ps_status (*find)(void *context, double period_ns, int *i, int *j, double *found_ns, struct ps_error *error);
    void *context;
    double exact; /* the difference that does not count */
};

/* Shorter by more than the rounding error of a period multiplied by a speed: the plan of the period itself does not pass. */
static double below(double period_ns) { return period_ns * (1 - 1e-14); }

/* The least period, and a plan that has it. No plan is below low_ns. high_ns: the period of the given cuts (INFINITY: there are
 * none). PS_NO_PLAN if none up to top_ns is possible. */
static enum ps_status least_period(const struct period_test *test, double low_ns, double high_ns, double top_ns, int *i, int *j,
                                   double *period_ns, struct ps_error *error) {
    double low = low_ns, high = high_ns, found, step = 0;
    bool rising = true;
    if (isfinite(high)) { /* tests whether there is a better plan at all */
        TRY(test->find(test->context, below(high), i, j, &found, error));
        rising = found < high; /* by more than rounding */
        if (rising)
            high = found;
        else
            low = high;
    }
    while (isinf(high) || high - low > test->exact * high) {
        /* The last test is whether there is any better plan: periods are sums of whole nanoseconds, or transfers. */
        double middle = high - low > 1 ? low + (high - low) / 2 : below(high);
        double higher = low_ns + fmax(low_ns, 1) * step;
        rising = rising && higher < middle;
        TRY(test->find(test->context, rising ? higher : middle, i, j, &found, error));
        if (isinf(found)) {
            low = rising ? higher : middle;
            step = fmax(4 * step, 0x1p-16);
            if (isinf(high) && low > top_ns) return PS_NO_PLAN;
        } else if (found < high) {
            high = found;
            rising = false;
        } else {
            break; /* by rounding alone */
        }
    }
    *period_ns = high;
    return PS_OK;
}

struct contiguous {
    const struct bipartition *data;
    int *cuts; /* tried */
};

/* Gives each worker as many layers as possible, up to a cut whose transfers keep the period. */
static enum ps_status find_contiguous(void *context, double period_ns, int *i, int *j, double *found_ns,
                                      struct ps_error *error) {
    (void)error;
    const struct contiguous *contiguous = context;
    const struct bipartition *data = contiguous->data;
    int *cuts = contiguous->cuts, workers = data->workers;
    *found_ns = INFINITY;
    cuts[0] = 0;
    for (int k = 0; k < workers; k++) {
        const struct bipartition_sums *sums = data->worker[k];
        int64_t most = sums->forward_ns[cuts[k]] + sums->backward_ns[cuts[k]] + room_ns(data, k, period_ns);
        cuts[k + 1] = -1;
        for (int end = cuts[k]; end <= data->layers && sums->forward_ns[end] + sums->backward_ns[end] <= most; end++)
            if (k == workers - 1 || bipartition_boundary_ns(data, k, end, end) <= period_ns) cuts[k + 1] = end;
        if (cuts[k + 1] < 0) return PS_OK;
    }
    if (cuts[workers] < data->layers) return PS_OK;
    memcpy(i, cuts, ((size_t)workers + 1) * sizeof *i);
    memcpy(j, cuts, ((size_t)workers + 1) * sizeof *j);
    *found_ns = bipartition_period_ns(data, i, j);
    return PS_OK;
}

/* A short period, not below low_ns, of one cut for both directions with its transfers: the shortest if links are equal. */
static enum ps_status contiguous_period(const struct bipartition *data, double low_ns, int *i, int *j, double *period_ns,
                                        struct ps_error *error) {
    struct contiguous contiguous = {.data = data};
    struct period_test test = {find_contiguous, &contiguous, EXACT};
    TRY(memory_new(&contiguous.cuts, data->workers + 1, "a plan", error));
    enum ps_status status = least_period(&test, low_ns, INFINITY, INFINITY, i, j, period_ns, error);
    free(contiguous.cuts);
    return status;
}

/*
 * Bi-Partition without transfers and memory: a lower bound for all other cases, and their answer if its plan fits.
 *
 * If workers k..P-1 can do all but the first i forward and j backward layers, they can also do less. So for each i only the
 * least j counts, J_k(i), and with F and B of worker k's type
 *
 *     J_k(i) = the least j with B[j] >= min over i2 >= i with F[i2] - F[i] <= T_k of ( F[i2] + B[J_k+1(i2)] ) - T_k - F[i]
 *
 * (if J_k+1(i2) <= j the condition on i2 suffices). While i falls the range of i2 falls too, and j rises: a queue of minima and
 * one pointer, O(L) per worker.
 */

struct staircase {
    const struct bipartition *data;
    int *least_j; /* [k][i], k to workers; layers + 1: not possible */
    int *next_i;  /* [k][i]: the i of the next worker */
    int *queue;   /* of i2, in the order of rising values */
    int64_t *value;
};

static void find_row(struct staircase *stairs, int k, double period_ns) {
    const struct bipartition *data = stairs->data;
    const int64_t *forward = data->worker[k]->forward_ns, *backward = data->worker[k]->backward_ns;
    int side = data->layers + 1, none = side, *queue = stairs->queue;
    const int *after = &stairs->least_j[(k + 1) * side];
    int *least_j = &stairs->least_j[k * side], *next_i = &stairs->next_i[k * side];
    int64_t room = room_ns(data, k, period_ns), *value = stairs->value;
    int first = 0, end = 0; /* of the queue */
    for (int i = data->layers, j = 0; i >= 0; i--) {
        if (after[i] < none) {
            int64_t own = forward[i] + backward[after[i]];
            while (end > first && value[end - 1] >= own) end--;
            queue[end] = i;
            value[end++] = own;
        }
        while (first < end && forward[queue[first]] - forward[i] > room) first++;
        if (first == end) {
            least_j[i] = none;
            continue;
        }
        int64_t needed = value[first] - room - forward[i];
        while (backward[j] < needed) j++;
        least_j[i] = j;
        next_i[i] = queue[first];
    }
}

static void read_stairs(const struct staircase *stairs, int *i, int *j) {
    int side = stairs->data->layers + 1;
    i[0] = j[0] = 0;
    for (int k = 0; k < stairs->data->workers; k++) {
        i[k + 1] = stairs->next_i[k * side + i[k]];
        int least = stairs->least_j[(k + 1) * side + i[k + 1]];
        j[k + 1] = least > j[k] ? least : j[k];
    }
}

static enum ps_status find_stairs(void *context, double period_ns, int *i, int *j, double *found_ns, struct ps_error *error) {
    (void)error;
    struct staircase *stairs = context;
    for (int k = stairs->data->workers - 1; k >= 0; k--) find_row(stairs, k, period_ns);
    *found_ns = INFINITY;
    if (stairs->least_j[0] > 0) return PS_OK;
    read_stairs(stairs, i, j);
    *found_ns = longest_load_ns(stairs->data, i, j);
    return PS_OK;
}

/* No plan is faster: all work divided over all workers, or the largest indivisible piece. */
static double bound_ns(const struct bipartition *data) {
    const int64_t *forward = data->forward_ns, *backward = data->backward_ns;
    double speeds = 0, fastest = 0, largest = 0;
    for (int k = 0; k < data->workers; k++) {
        speeds += data->problem->cluster->devices[k].speed;
        fastest = fmax(fastest, data->problem->cluster->devices[k].speed);
    }
    for (int l = 0; l < data->layers; l++) {
        largest = fmax(largest, (double)(forward[l + 1] - forward[l]));
        largest = fmax(largest, (double)(backward[l + 1] - backward[l]));
    }
    return fmax((double)(forward[data->layers] + backward[data->layers]) / speeds, largest / fastest);
}

/* The least period without transfers and memory. */
static enum ps_status unconstrained_period(const struct bipartition *data, int *i, int *j, double *period_ns,
                                           struct ps_error *error) {
    size_t side = (size_t)data->layers + 1, rows = (size_t)data->workers + 1;
    struct arena arena = {0};
    struct staircase stairs = {.data = data,
                               .least_j = arena_take(&arena, rows * side, sizeof *stairs.least_j),
                               .next_i = arena_take(&arena, rows * side, sizeof *stairs.next_i),
                               .queue = arena_take(&arena, side, sizeof *stairs.queue),
                               .value = arena_take(&arena, side, sizeof *stairs.value)};
    TRY(arena_check(&arena, "the tables of the planner", error));
    int *last = &stairs.least_j[(rows - 1) * side];
    for (size_t l = 0; l + 1 < side; l++) last[l] = (int)side;
    last[side - 1] = data->layers;
    struct period_test test = {find_stairs, &stairs, EXACT};
    enum ps_status status = least_period(&test, bound_ns(data), INFINITY, INFINITY, i, j, period_ns, error);
    arena_release(&arena);
    return status;
}

struct state {
    int i, j;
    int next; /* the best state of the next worker, in its list; -1: none, or not known */
};

/* Of (i, j): undecided, a state for all periods that are still to be tested, or for none of them; and whether it is in the last
 * test's list. */
enum { OPEN, ALWAYS, NEVER, LISTED = 4 };

struct search {
    struct bipartition data;
    bool memory;          /* memory is limited */
    struct state *states; /* of all workers, from the last one's to the first one's */
    size_t state_count, state_capacity;
    size_t *list_end; /* per worker: its states end here, and begin where those of worker k + 1 end */
    int64_t *least;   /* Fenwick tree: least F + B, and its state */
    int *least_state;
    int *far;             /* with memory: per worker, the most backward layers that the workers before it can hold */
    unsigned char *known; /* with memory: [worker][i][j] */
    int *next_state;      /* with memory: [j][i] the state of worker k + 1 with this i and the least j at or after this one */
};

static size_t list_first(const struct search *search, int k) { return k < search->data.workers ? search->list_end[k + 1] : 0; }

static enum ps_status add_state(struct search *search, int i, int j, int next, struct ps_error *error) {
    TRY(memory_grow(&search->states, &search->state_capacity, search->state_count + 1, "the states of the planner", error));
    search->states[search->state_count++] = (struct state){i, j, next};
    return PS_OK;
}

/* ------------------------------------------------- the least state above and right */

static void tree_clear(struct search *search) {
    for (int j = 0; j <= search->data.layers + 1; j++) search->least[j] = INT64_MAX;
}

static void tree_insert(struct search *search, int j, int64_t value, int state) {
    for (int place = search->data.layers + 1 - j; place <= search->data.layers + 1; place += place & -place) {
        if (search->least[place] <= value) continue;
        search->least[place] = value;
        search->least_state[place] = state;
    }
}

/* Among the states inserted with this j or a larger one. */
static int64_t tree_least(const struct search *search, int j, int *state) {
    int64_t best = INT64_MAX;
    for (int place = search->data.layers + 1 - j; place > 0; place -= place & -place) {
        if (search->least[place] >= best) continue;
        best = search->least[place];
        *state = search->least_state[place];
    }
    return best;
}

/* ------------------------------------------------------- states of one worker */

struct band {
    int64_t low, high; /* of F[i] + B[j], with each layer on its fastest type */
    int64_t load;      /* largest load of this worker */
};

static struct band find_band(const struct search *search, int k, double period_ns) {
    const struct bipartition *data = &search->data;
    int64_t total = data->forward_ns[data->layers] + data->backward_ns[data->layers];
    struct band band = {.low = total, .load = room_ns(data, k, period_ns)};
    for (int w = k; w < data->workers; w++) band.low -= room_ns(data, w, period_ns);
    for (int w = 0; w < k; w++) band.high += room_ns(data, w, period_ns);
    return band;
}

static bool boundary_fits(const struct search *search, int k, int i, int j, double period_ns) {
    return k == 0 || bipartition_boundary_ns(&search->data, k - 1, i, j) <= period_ns;
}

static enum ps_status find_states(struct search *search, int k, double period_ns, struct ps_error *error) {
    const struct bipartition *data = &search->data;
    const int64_t *forward = data->worker[k]->forward_ns, *backward = data->worker[k]->backward_ns;
    struct band band = find_band(search, k, period_ns);
    size_t inserted = list_first(search, k + 1), end = search->list_end[k + 1];
    int low = 0, high = 0; /* j runs in low..high-1; both rise while i falls */
    tree_clear(search);
    for (int i = k == 0 ? 0 : data->layers; i >= 0; i--) {
        for (; inserted < end && search->states[inserted].i >= i; inserted++) {
            const struct state *state = &search->states[inserted];
            tree_insert(search, state->j, forward[state->i] + backward[state->j], (int)inserted);
        }
        while (low <= data->layers && data->forward_ns[i] + data->backward_ns[low] < band.low) low++;
        while (high <= data->layers && data->forward_ns[i] + data->backward_ns[high] <= band.high) high++;
        for (int j = low; j < (k == 0 ? 1 : high); j++) {
            int next = -1;
            int64_t least = tree_least(search, j, &next);
            if (next < 0 || least - forward[i] - backward[j] > band.load || !boundary_fits(search, k, i, j, period_ns))
                continue;
            TRY(add_state(search, i, j, next, error));
        }
    }
    return PS_OK;
}

/* A state of worker k + 1 that can follow (i, j), or -1. A j2 that is too large for one i2 is too large for all larger ones. */
static int find_next(const struct search *search, int k, int i, int j, int64_t load) {
    const struct bipartition *data = &search->data;
    const int64_t *forward = data->worker[k]->forward_ns, *backward = data->worker[k]->backward_ns;
    int64_t limit = bipartition_limit(data, k), most = forward[i] + backward[j] + load;
    int side = data->layers + 1, end = side; /* of j2 */
    const int *from_j = &search->next_state[j * side];
    for (int i2 = i; i2 <= data->layers && forward[i2] + backward[j] <= most; i2++) {
        if (from_j[i2] < 0 || search->states[from_j[i2]].j >= end) continue;
        if (bipartition_memory(data, k, i, i2, j, j, true) > limit) return -1;
        for (int j2 = j; j2 < end; j2++) {
            int state = search->next_state[j2 * side + i2];
            if (state < 0) break;
            j2 = search->states[state].j;
            if (j2 >= end || forward[i2] + backward[j2] > most) break;
            if (bipartition_memory(data, k, i, i2, j, j2, false) <= limit) return state;
            if (bipartition_memory(data, k, i, i2, j, j2, true) > limit) end = j2;
        }
    }
    return -1;
}

static void index_next(struct search *search, int k) {
    size_t side = (size_t)search->data.layers + 1;
    for (size_t p = 0; p < side * side; p++) search->next_state[p] = -1;
    for (size_t s = list_first(search, k); s < search->list_end[k]; s++)
        search->next_state[(size_t)search->states[s].j * side + (size_t)search->states[s].i] = (int)s;
    for (size_t p = side * (side - 1); p-- > 0;)
        if (search->next_state[p] < 0) search->next_state[p] = search->next_state[p + side];
}

/* Counts weights and stashes alone, as if each worker began where the workers before it must end. These grow with the layers,
 * since the kept part of a range's input is at least what its stash omits because of it. */
static void find_far(struct search *search) {
    const struct bipartition *data = &search->data;
    int far = 0;
    for (int k = 0; k < data->workers; k++) {
        struct stage_slots slots = data->problem->slots[k];
        const struct bipartition_sums *sums = data->worker[k];
        int64_t limit = bipartition_limit(data, k);
        slots.stash = (int)number_smaller(slots.stash, slots.input);
        search->far[k] = far;
        const int begin = far;
        for (; far < data->layers; far++) {
            struct stage_sizes sizes = range_sizes(sums, data->layers, begin, far + 1);
            sizes.stash_bytes = sums->stash_bytes[far + 1] - sums->stash_bytes[begin];
            sizes.workspace_bytes = 0;
            struct worker_memory memory = stage_memory(&sizes, &slots, data->problem->moments);
            if (worker_memory_total(&memory) > limit) break;
        }
    }
}

static unsigned char *known_of(const struct search *search, int k, int i, int j) {
    size_t side = (size_t)search->data.layers + 1;
    return &search->known[((size_t)k * side + (size_t)i) * side + (size_t)j];
}

static enum ps_status find_states_with_memory(struct search *search, int k, double period_ns, struct ps_error *error) {
    const struct bipartition *data = &search->data;
    struct band band = find_band(search, k, period_ns);
    index_next(search, k + 1);
    for (int i = k == 0 ? 0 : data->layers; i >= 0; i--)
        for (int j = 0; j <= search->far[k]; j++) {
            unsigned char *known = known_of(search, k, i, j);
            if (*known == NEVER) continue;
            int64_t done = data->forward_ns[i] + data->backward_ns[j];
            if (done < band.low) continue;
            if (done > band.high) break;
            int next = -1;
            if (*known == OPEN && boundary_fits(search, k, i, j, period_ns)) next = find_next(search, k, i, j, band.load);
            if (next < 0 && *known == OPEN) continue;
            *known |= LISTED;
            TRY(add_state(search, i, j, next, error));
        }
    return PS_OK;
}

/* The result of a test for longer periods if its own is not possible, or for shorter ones if it is. */
static void learn(struct search *search, bool possible) {
    size_t side = (size_t)search->data.layers + 1, count = (size_t)search->data.workers * side * side;
    for (size_t c = 0; c < count; c++) {
        unsigned char known = search->known[c];
        if (known & LISTED)
            search->known[c] = possible ? known & ~LISTED : ALWAYS;
        else if (possible)
            search->known[c] = NEVER;
    }
}

/* ----------------------------------------------------------------- the search */

static void read_cuts(struct search *search, double period_ns, int *i, int *j) {
    int workers = search->data.workers;
    const struct state *state = &search->states[search->list_end[1]];
    for (int k = 0;; k++) {
        i[k] = state->i;
        j[k] = state->j;
        if (k == workers) return;
        int next = state->next;
        if (next < 0) {
            index_next(search, k + 1);
            next = find_next(search, k, i[k], j[k], room_ns(&search->data, k, period_ns));
        }
        state = &search->states[next];
    }
}

static enum ps_status find(void *context, double period_ns, int *i, int *j, double *found_ns, struct ps_error *error) {
    struct search *search = context;
    const struct bipartition *data = &search->data;
    search->state_count = 0;
    *found_ns = INFINITY;
    TRY(add_state(search, data->layers, data->layers, -1, error));
    search->list_end[data->workers] = 1;
    for (int k = data->workers - 1; k >= 0; k--) {
        TRY(search->memory ? find_states_with_memory(search, k, period_ns, error) : find_states(search, k, period_ns, error));
        search->list_end[k] = search->state_count;
    }
    bool possible = search->list_end[0] > search->list_end[1];
    if (search->memory) learn(search, possible);
    if (!possible) return PS_OK;
    read_cuts(search, period_ns, i, j);
    *found_ns = bipartition_period_ns(data, i, j);
    return PS_OK;
}

/* Without memory limits one worker could do everything; with any longer period the answer is the same. */
static double hopeless_ns(const struct bipartition *data) {
    double slowest = 0, boundary = 0;
    for (int k = 0; k < data->workers; k++)
        slowest = fmax(slowest, bipartition_load_ns(data, k, 0, data->layers, 0, data->layers));
    for (int k = 0; k + 1 < data->workers; k++)
        for (int i = 0; i <= data->layers; i++)
            for (int j = 0; j <= data->layers; j++) boundary = fmax(boundary, bipartition_boundary_ns(data, k, i, j));
    return fmax(boundary, slowest) + 1;
}

static bool cuts_fit(const struct bipartition *data, const int *i, const int *j) {
    for (int k = 0; k < data->workers; k++) {
        if (bipartition_memory(data, k, i[k], i[k + 1], j[k], j[k + 1], false) > bipartition_limit(data, k)) return false;
    }
    return true;
}

/* The optimum without transfers bounds that with transfers, and the optimum without memory limits bounds that with them. Over
 * slow links one cut for both directions is often optimal. */
static enum ps_status find_least(struct search *search, int *i, int *j, double *period_ns, struct ps_error *error) {
    const struct bipartition *data = &search->data;
    struct period_test test = {find, search, data->problem->costs->group_last ? EXACT_FOR_GROUPS : EXACT};
    double low, high;
    TRY(unconstrained_period(data, i, j, &low, error));
    *period_ns = low;
    if (bipartition_period_ns(data, i, j) > low) {
        TRY(contiguous_period(data, low, i, j, &high, error));
        TRY(least_period(&test, low, high, INFINITY, i, j, period_ns, error));
    }
    if (!data->problem->slots || cuts_fit(data, i, j)) return PS_OK;
    search->memory = true;
    return least_period(&test, *period_ns, INFINITY, hopeless_ns(data), i, j, period_ns, error);
}

static enum ps_status search_open(struct search *search, struct ps_error *error) {
    struct bipartition *data = &search->data;
    size_t side = (size_t)data->layers + 2, workers = (size_t)data->workers;
    search->list_end = arena_take(&data->arena, workers + 2, sizeof *search->list_end);
    search->least = arena_take(&data->arena, side, sizeof *search->least);
    search->least_state = arena_take(&data->arena, side, sizeof *search->least_state);
    if (data->problem->slots) {
        search->next_state = arena_take(&data->arena, side * side, sizeof *search->next_state);
        search->far = arena_take(&data->arena, workers, sizeof *search->far);
        search->known = arena_take(&data->arena, workers, side * side);
    }
    TRY(arena_check(&data->arena, "the tables of the planner", error));
    if (data->problem->slots) find_far(search);
    return PS_OK;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct search search = {0};
    double period_ns;
    TRY(bipartition_open(problem, &search.data, error));
    size_t cuts = (size_t)problem->workers + 1;
    int *i = arena_take(&search.data.arena, cuts, sizeof *i), *j = arena_take(&search.data.arena, cuts, sizeof *j);
    enum ps_status status = search_open(&search, error);
    if (status == PS_OK) {
        status = find_least(&search, i, j, &period_ns, error);
        if (status == PS_NO_PLAN)
            error_set(error, PS_NO_PLAN, "no bi-partition of %d layers over %d worker%s fits their memory",
                      cost_table_last(problem->costs, search.data.layers - 1) + 1, problem->workers,
                      text_plural(problem->workers));
    }
    search.data.paper_boundaries = problem->paper_cost;
    search.data.boundary_factor = 1;
    if (status == PS_OK) status = bipartition_answer(&search.data, i, j, answer, error);
    if (status == PS_OK) answer->lower_bound_s = answer->objective_s;
    bipartition_close(&search.data);
    free(search.states);
    return status;
}

extern const struct planner planner_bipartition;
const struct planner planner_bipartition = {
    .name = "bipartition",
    .summary = "separate cuts for forward and backward (exact)",
    .several_types = true,
    .cuts_variously = true,
    .contains_chain = true,
    .includes_updates = true,
    .solve = solve,
};
