/*
 * A periodic schedule for any allocation of stages, without an integer programme.
 *
 * The unknowns are the start times of one micro-batch's operations; micro-batch k does the same k periods later. Dependencies
 * and the memory of normal stages (the forward of a batch may begin at most g_max T before its backward ends) are lower bounds
 * on differences of times, so longest paths give the earliest times, or a cycle shows that there are none. What is left are
 * choices:
 *
 *   - two operations on one worker or link must not overlap modulo T: where they do, y starts after x in that round, or before;
 *   - the special worker's memory at the start of each of its forwards: where it is too much, one of its stages must have
 *     finished one batch more by then, or not have begun one.
 *
 * Each choice is one more bound; a depth-first search tries both sides. In each round an operation on its own resource keeps a
 * fixed order to the others once a bound is set, so the search ends; a budget of nodes cuts it short.
 */
#include "plan/planners/madpipe_schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* time[to] - time[from] >= least */
struct bound {
    int from, to;
    int64_t least;
};

struct problem {
    const struct madpipe *data;
    const struct madpipe_stage *stages;
    int stage_count;
    int64_t period;
    struct periodic_operation *operations;
    int operation_count;
    int *resource;           /* per operation: worker, or link behind the workers; -1: none */
    int *forward, *backward; /* per stage: its operations */
    struct bound *bounds;
    int bound_count, bound_capacity;
    int64_t *times; /* [depth][operation] */
    int depth_max;
    int *nodes;
};

/* ------------------------------------------------------------------ writing */

static int worker_of(const struct madpipe_stage *stages, int stage) {
    int worker = 1;
    if (stages[stage].special) return 0;
    for (int s = 0; s < stage; s++) worker += !stages[s].special;
    return worker;
}

static int add_operation(struct problem *p, enum periodic_kind kind, int stage, int64_t length, int resource) {
    p->operations[p->operation_count] = (struct periodic_operation){kind, stage, 0, length};
    p->resource[p->operation_count] = length > 0 ? resource : -1;
    return p->operation_count++;
}

static enum ps_status add_bound(struct problem *p, int from, int to, int64_t least, struct ps_error *error) {
    if (p->bound_count == p->bound_capacity) {
        int capacity = 2 * p->bound_capacity + 64;
        struct bound *larger = realloc(p->bounds, (size_t)capacity * sizeof *larger);
        if (!larger) return error_memory(error, "the bounds of a schedule", (size_t)capacity * sizeof *larger);
        p->bounds = larger;
        p->bound_capacity = capacity;
    }
    p->bounds[p->bound_count++] = (struct bound){from, to, least};
    return PS_OK;
}

static enum ps_status after(struct problem *p, int from, int to, struct ps_error *error) {
    return add_bound(p, from, to, p->operations[from].length_ns, error);
}

/* A link is known by the normal worker and its other end; both directions share it. */
static int link_of(const struct problem *p, int stage) {
    int a = worker_of(p->stages, stage), b = worker_of(p->stages, stage + 1), low = a < b ? a : b, high = a < b ? b : a;
    return (low + 1) * (p->stage_count + 2) + high;
}

static int64_t forward_ns(const struct madpipe *data, int first, int end) {
    return data->forward_ns[end] - data->forward_ns[first];
}

/* Operations and dependencies of the stages, last to first being the order of the backward. */
static enum ps_status write_operations(struct problem *p, struct ps_error *error) {
    const struct madpipe *data = p->data;
    for (int s = 0; s < p->stage_count; s++) {
        int first = p->stages[s].first, end = p->stages[s].end, worker = worker_of(p->stages, s);
        int64_t forward = forward_ns(data, first, end), backward = madpipe_time_ns(data, first, end) - forward;
        p->forward[s] = add_operation(p, PERIODIC_FORWARD, s, forward, worker);
        p->backward[s] = add_operation(p, PERIODIC_BACKWARD, s, backward, worker);
    }
    for (int s = 0; s + 1 < p->stage_count; s++) {
        int64_t both = data->transfer_ns[p->stages[s].end];
        int send = add_operation(p, PERIODIC_SEND, s, both / 2, link_of(p, s));
        int back = add_operation(p, PERIODIC_SEND_GRADIENT, s + 1, both - both / 2, link_of(p, s));
        TRY(after(p, p->forward[s], send, error));
        TRY(after(p, send, p->forward[s + 1], error));
        TRY(after(p, p->backward[s + 1], back, error));
        TRY(after(p, back, p->backward[s], error));
    }
    return after(p, p->forward[p->stage_count - 1], p->backward[p->stage_count - 1], error);
}

/* A normal worker's memory limits how long a batch may stay. */
static enum ps_status limit_stays(struct problem *p, bool *possible, struct ps_error *error) {
    const struct madpipe *data = p->data;
    for (int s = 0; s < p->stage_count; s++) {
        int first = p->stages[s].first, end = p->stages[s].end;
        int64_t copy = madpipe_copy_bytes(data, first, end), room = data->limit_bytes - madpipe_memory(data, first, end, 0);
        if (p->stages[s].special || data->limit_bytes == INT64_MAX || (copy == 0 && room >= 0)) continue;
        int64_t copies = room < 0 ? 0 : room / copy;
        if (copies < 1) *possible = false;
        TRY(add_bound(p, p->backward[s], p->forward[s], p->operations[p->backward[s]].length_ns - copies * p->period, error));
    }
    return PS_OK;
}

/* No worker or link has more to do than there is time. */
static bool loads_fit(const struct problem *p) {
    for (int x = 0; x < p->operation_count; x++) {
        int64_t load = p->operations[x].length_ns;
        for (int y = 0; y < p->operation_count; y++)
            if (y != x && p->resource[x] >= 0 && p->resource[y] == p->resource[x]) load += p->operations[y].length_ns;
        if (load > p->period) return false;
    }
    return true;
}

/* ------------------------------------------------------------------ solving */

/* Raises the times until every bound holds; false where they rise for ever. */
static bool longest_paths(const struct problem *p, int64_t *times) {
    for (int round = 0; round <= p->operation_count; round++) {
        bool changed = false;
        for (int b = 0; b < p->bound_count; b++) {
            const struct bound *bound = &p->bounds[b];
            if (times[bound->from] + bound->least <= times[bound->to]) continue;
            times[bound->to] = times[bound->from] + bound->least;
            changed = true;
        }
        if (!changed) return true;
    }
    return false;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

struct choice {
    struct bound first, second;
};

/* Two operations that overlap on their worker or link, and the two ways out; the worst overlap first. */
static bool find_overlap(const struct problem *p, const int64_t *times, struct choice *choice) {
    int64_t worst = 0;
    for (int x = 0; x < p->operation_count; x++)
        for (int y = x + 1; y < p->operation_count; y++) {
            if (p->resource[x] < 0 || p->resource[x] != p->resource[y]) continue;
            int64_t apart = times[y] - times[x], length_x = p->operations[x].length_ns, length_y = p->operations[y].length_ns;
            int64_t round = floor_divide(apart, p->period), into = apart - round * p->period;
            int64_t overlap = 0;
            if (into < length_x) overlap = length_x - into;
            if (p->period - into < length_y) {
                overlap = length_y - (p->period - into);
                round++;
            }
            if (overlap <= worst) continue;
            worst = overlap;
            *choice = (struct choice){{x, y, round * p->period + length_x}, {y, x, length_y - round * p->period}};
        }
    return worst > 0;
}

/* Batches that the stage holds at time `now`: begun and not finished. */
static int64_t batches_held(const struct problem *p, const int64_t *times, int stage, int64_t now, int64_t *begun,
                            int64_t *finished) {
    int backward = p->backward[stage];
    *begun = floor_divide(now - times[p->forward[stage]], p->period);
    *finished = floor_divide(now - times[backward] - p->operations[backward].length_ns, p->period);
    return *begun - *finished;
}

/* A stage of the special worker at whose forward's start there is not room for all; -1: none. */
static int find_overflow(const struct problem *p, const int64_t *times) {
    const struct madpipe *data = p->data;
    if (data->limit_bytes == INT64_MAX) return -1;
    for (int r = 0; r < p->stage_count; r++) {
        int64_t bytes = 0, begun, finished;
        if (!p->stages[r].special) continue;
        for (int s = 0; s < p->stage_count; s++) {
            if (!p->stages[s].special) continue;
            int64_t held = batches_held(p, times, s, times[p->forward[r]], &begun, &finished);
            bytes += madpipe_memory(data, p->stages[s].first, p->stages[s].end, held);
        }
        if (bytes > data->limit_bytes) return r;
    }
    return -1;
}

static enum ps_status branch(struct problem *p, int depth, bool *found, struct ps_error *error);

static enum ps_status try_bound(struct problem *p, int depth, struct bound bound, bool *found, struct ps_error *error) {
    if (*found) return PS_OK;
    int kept = p->bound_count;
    TRY(add_bound(p, bound.from, bound.to, bound.least, error));
    memcpy(&p->times[(size_t)(depth + 1) * (size_t)p->operation_count], &p->times[(size_t)depth * (size_t)p->operation_count],
           (size_t)p->operation_count * sizeof *p->times);
    TRY(branch(p, depth + 1, found, error));
    p->bound_count = kept;
    return PS_OK;
}

/* Every way to hold one batch less at the start of stage r's forward. */
static enum ps_status branch_memory(struct problem *p, int depth, int r, bool *found, struct ps_error *error) {
    const int64_t *times = &p->times[(size_t)depth * (size_t)p->operation_count];
    int64_t begun, finished;
    for (int s = 0; s < p->stage_count && !*found; s++) {
        if (!p->stages[s].special) continue;
        batches_held(p, times, s, times[p->forward[r]], &begun, &finished);
        int64_t length = p->operations[p->backward[s]].length_ns, first = p->operations[p->forward[r]].length_ns;
        TRY(try_bound(p, depth, (struct bound){p->backward[s], p->forward[r], length + (finished + 1) * p->period}, found,
                      error));
        if (s != r)
            TRY(try_bound(p, depth, (struct bound){p->forward[r], p->forward[s], first - begun * p->period}, found, error));
    }
    return PS_OK;
}

static enum ps_status branch(struct problem *p, int depth, bool *found, struct ps_error *error) {
    int64_t *times = &p->times[(size_t)depth * (size_t)p->operation_count];
    struct choice choice;
    if (*p->nodes == 0 || depth == p->depth_max) return PS_OK;
    --*p->nodes;
    if (!longest_paths(p, times)) return PS_OK;
    if (find_overlap(p, times, &choice)) {
        TRY(try_bound(p, depth, choice.first, found, error));
        return try_bound(p, depth, choice.second, found, error);
    }
    int overflow = find_overflow(p, times);
    if (overflow >= 0) return branch_memory(p, depth, overflow, found, error);
    for (int o = 0; o < p->operation_count; o++) p->operations[o].start_ns = times[o];
    *found = true;
    return PS_OK;
}

enum ps_status madpipe_schedule(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                                int *nodes, struct periodic_operation *operations, int *operation_count, bool *found,
                                struct ps_error *error) {
    enum { DEPTH_MAX = 400 };
    size_t most = 4 * (size_t)count;
    struct problem p = {.data = data,
                        .stages = stages,
                        .stage_count = count,
                        .period = period_ns,
                        .operations = operations,
                        .depth_max = DEPTH_MAX,
                        .nodes = nodes};
    int *places = malloc((most + 2 * (size_t)count) * sizeof *places);
    bool possible = true;
    enum ps_status status;
    p.times = calloc((DEPTH_MAX + 2) * most, sizeof *p.times);
    *found = false;
    if (!places || !p.times) {
        status = error_memory(error, "the tables of a schedule", (DEPTH_MAX + 2) * most * sizeof *p.times);
        goto out;
    }
    p.resource = places;
    p.forward = places + most;
    p.backward = p.forward + count;
    TRY_OUT(write_operations(&p, error));
    TRY_OUT(limit_stays(&p, &possible, error));
    if (possible && loads_fit(&p)) TRY_OUT(branch(&p, 0, found, error));
    *operation_count = p.operation_count;
out:
    free(places);
    free(p.times);
    free(p.bounds);
    return status;
}
