/*
 * Bi-Partition (separate cuts for forward and backward), exactly: with transfers, memory and unlike workers in a given order.
 *
 * "Is a period of T possible?" is answered from the last worker to the first. A state (i, j) of worker k says that workers
 * k..P-1 can do all but the first i forward and j backward layers. (i, j) is one when its boundary with worker k - 1 is within
 * T and some state (i2, j2) >= (i, j) of worker k + 1 leaves a load within T_k = speed_k T:
 *
 *     F[i2] + B[j2] <= T_k + F[i] + B[j]
 *
 * so without memory only the least F[i2] + B[j2] over the states above and right of (i, j) matters: a Fenwick tree over j,
 * filled while i falls. Only a band of (i, j) is looked at: what is left must fit the workers that are left, what is done
 * those before.
 *
 * With memory each (i, j) tries all i2 and, from the smallest reachable on, j2. What a worker needs grows with i2 and j2 but
 * for the buffers of its ends, so a range that is too large already without them ends the search: exact, and rarely long.
 * What is a state for one T is one for all larger, so from test to test, as the bisection narrows, ever fewer (i, j) are open.
 *
 * The paper's algorithm bisects a cut where the function is not monotone once transfers count; see bipartition_paper.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "plan/planners/bipartition.h"

struct state {
    int i, j;
    int next; /* the best state of the next worker, in its list; -1: none, or to be looked for */
};

/* Of (i, j): a state for all periods that are still to be asked for, or for none of them; and it is one of the last test's. */
enum { OPEN, ALWAYS, NEVER, LISTED = 4 };

struct search {
    struct bipartition data;
    bool memory;          /* counts */
    struct state *states; /* of all workers, from the last one's to the first one's */
    size_t state_count, state_capacity;
    size_t *list_end; /* per worker: its states end here and begin where those of worker k + 1 end */
    int64_t *least;   /* Fenwick tree: least F + B; and the state that has it */
    int *least_state;
    int *far;             /* with memory: per worker, so many layers of the backward can those before it hold at most */
    unsigned char *known; /* with memory: [worker][i][j] */
    int *next_state;      /* with memory: [j][i] the state of worker k + 1 with this i and the least j at or after this one */
};

static size_t list_first(const struct search *search, int k) { return k < search->data.workers ? search->list_end[k + 1] : 0; }

static enum ps_status add_state(struct search *search, int i, int j, int next, struct ps_error *error) {
    if (search->state_count == search->state_capacity) {
        size_t capacity = 2 * search->state_capacity + 1024;
        struct state *larger = realloc(search->states, capacity * sizeof *larger);
        if (!larger) return error_memory(error, "the states of the planner", capacity * sizeof *larger);
        search->states = larger;
        search->state_capacity = capacity;
    }
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

/* Of the states inserted with this j or a larger one. */
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
    int64_t low, high; /* of F[i] + B[j], each layer where it is fastest */
    int64_t load;      /* of this worker at most */
};

static struct band find_band(const struct search *search, int k, double period_ns) {
    const struct bipartition *data = &search->data;
    int64_t total = data->forward_ns[data->layers] + data->backward_ns[data->layers];
    struct band band = {.low = total, .load = bipartition_room_ns(data, k, period_ns)};
    for (int w = k; w < data->workers; w++) band.low -= bipartition_room_ns(data, w, period_ns);
    for (int w = 0; w < k; w++) band.high += bipartition_room_ns(data, w, period_ns);
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

/* The state of worker k + 1 that (i, j) can go on with, or -1. Where j2 is too far for one i2 it is for all larger ones. */
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

/* Weights and stashes alone, as if each worker began where those before it must end. What a range keeps of its input is no less
 * than what its stash leaves out of it, so these grow with the layers. */
static void find_far(struct search *search) {
    const struct bipartition *data = &search->data;
    int far = 0;
    for (int k = 0; k < data->workers; k++) {
        const struct stage_slots *slots = &data->problem->slots[k];
        const struct bipartition_sums *sums = data->worker[k];
        int64_t limit = bipartition_limit(data, k);
        int64_t stash = slots->stash < slots->input ? slots->stash : slots->input,
                copies = slots->weights + 1 + data->problem->moments;
        search->far[k] = far;
        const int begin = far;
        for (; far < data->layers; far++) {
            int64_t least = copies * (sums->parameter_bytes[far + 1] - sums->parameter_bytes[begin]) +
                            stash * (sums->stash_bytes[far + 1] - sums->stash_bytes[begin]);
            if (begin == 0 && far + 1 == data->layers) least -= bipartition_kept_once(data, k);
            if (least > limit) break;
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

/* What a test says of longer periods where its own is not possible, or of shorter ones where it is. */
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
            next = find_next(search, k, i[k], j[k], bipartition_room_ns(&search->data, k, period_ns));
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

/* Without limits of memory one worker could do all; with any period above this the answer is the same. */
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

/* What is searched without transfers is a bound of what is with them, and that of what is within memory too. Over slow links
 * one cut for both directions is often the best already. */
static enum ps_status find_least(struct search *search, int *i, int *j, double *period_ns, struct ps_error *error) {
    const struct bipartition *data = &search->data;
    struct bipartition_test test = {find, search};
    double low, high;
    TRY(bipartition_free_least(data, i, j, &low, error));
    *period_ns = low;
    if (bipartition_period_ns(data, i, j) > low) {
        TRY(bipartition_contiguous_least(data, low, i, j, &high, error));
        TRY(bipartition_least(&test, low, high, INFINITY, i, j, period_ns, error));
    }
    if (!data->problem->slots || cuts_fit(data, i, j)) return PS_OK;
    search->memory = true;
    return bipartition_least(&test, *period_ns, INFINITY, hopeless_ns(data), i, j, period_ns, error);
}

static enum ps_status search_open(struct search *search, struct ps_error *error) {
    size_t side = (size_t)search->data.layers + 2;
    search->list_end = malloc(((size_t)search->data.workers + 2) * sizeof *search->list_end);
    search->least = malloc(side * sizeof *search->least);
    search->least_state = malloc(side * sizeof *search->least_state);
    bool memory = search->data.problem->slots;
    if (memory) search->next_state = malloc(side * side * sizeof *search->next_state);
    if (memory) search->far = malloc((size_t)search->data.workers * sizeof *search->far);
    if (memory) search->known = calloc((size_t)search->data.workers, side * side);
    if (search->list_end && search->least && search->least_state &&
        (!memory || (search->next_state && search->far && search->known))) {
        if (memory) find_far(search);
        return PS_OK;
    }
    return error_memory(error, "the tables of the planner", side * side * sizeof *search->next_state);
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    struct search search = {0};
    int *cuts = NULL;
    double period_ns;
    TRY(bipartition_open(problem, &search.data, error));
    enum ps_status status;
    TRY_OUT(search_open(&search, error));
    cuts = malloc(2 * ((size_t)problem->workers + 1) * sizeof *cuts);
    if (!cuts) {
        status = error_memory(error, "a plan", 2 * ((size_t)problem->workers + 1) * sizeof *cuts);
        goto out;
    }
    int *i = cuts, *j = cuts + problem->workers + 1;
    status = find_least(&search, i, j, &period_ns, error);
    if (status == PS_NO_PLAN)
        error_set(error, PS_NO_PLAN, "no bi-partition of %d layers over %d workers fits their memory", search.data.layers,
                  problem->workers);
    if (status != PS_OK) goto out;
    TRY_OUT(bipartition_answer(&search.data, i, j, answer, error));
    answer->lower_bound_s = answer->objective_s;
out:
    bipartition_close(&search.data);
    free(cuts);
    free(search.states);
    free(search.list_end);
    free(search.least);
    free(search.least_state);
    free(search.next_state);
    free(search.far);
    free(search.known);
    return status;
}

extern const struct planner planner_bipartition;
const struct planner planner_bipartition = {
    .name = "bipartition",
    .summary = "separate cuts for forward and backward (exact)",
    .several_types = true,
    .paper_costs = true,
    .reckons = true,
    .solve = solve,
};
