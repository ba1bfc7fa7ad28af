/*
 * A periodic schedule for any allocation of stages, without an integer programme.
 *
 * The unknowns are the start times of one micro-batch's operations; micro-batch k does the same k periods later. Dependencies
 * and the memory of normal stages (the forward of a batch may begin at most g T before its backward ends) are lower bounds on
 * differences of times, which are kept closed (differences.h): they give the earliest times, or show that there are none. What
 * is left are choices:
 *
 *   - two operations on one worker or link must not overlap modulo T: in some round h, h T + length_x <= y - x and
 *     y - x <= (h + 1) T - length_y. The known bounds on y - x leave a range of rounds; its ends are new bounds, and where the
 *     range is empty there is no schedule.
 *   - the special worker's memory. Where a stage holds its blocks for good (madpipe.h: fixed), stages share it out: how many
 *     batches each may keep. Where only what is held at a moment counts, it is looked at when one of its forwards starts, the
 *     moments at which it is largest: if it is too much, one stage must have finished one batch more by then, or not begun one.
 *
 * The simplest schedule is tried first (madpipe_pack.c). Then a depth-first search tries both sides of each choice, that of the
 * worst overlap first. A budget of nodes cuts it short; where it ends with nodes left and nothing found, there is no schedule.
 */
#include "plan/planners/madpipe_schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "plan/planners/differences.h"

enum { DEPTH_MAX = 1000 };

/* Two operations on one worker or link, the first one first along a batch's way. */
struct pair {
    int x, y;
};

struct problem {
    const struct madpipe *data;
    const struct madpipe_stage *stages;
    int stage_count;
    int64_t period;
    struct periodic_operation *operations; /* in the order of a batch's way: forwards to the end, backwards from there */
    int operation_count;
    int *forward, *backward; /* per stage: its operations */
    int *resource;           /* per operation: its worker or link */
    struct pair *pairs;
    int pair_count;
    struct differences apart;
    int *nodes;
};

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t ceil_divide(int64_t a, int64_t b) { return -floor_divide(-a, b); }

/* ------------------------------------------------------------------ writing */

static int worker_of(const struct madpipe_stage *stages, int stage) {
    int worker = 1;
    if (stages[stage].special) return 0;
    for (int s = 0; s < stage; s++) worker += !stages[s].special;
    return worker;
}

static int link_of(const struct problem *p, int from, int to) {
    int a = worker_of(p->stages, from), b = worker_of(p->stages, to), side = p->stage_count + 2;
    return p->data->one_link && a > b ? (b + 1) * side + a : (a + 1) * side + b;
}

/* Behind all operations written before; it starts when the one before it has ended. */
static bool add_operation(struct problem *p, enum periodic_kind kind, int stage, int64_t length, int resource) {
    int o = p->operation_count++;
    p->operations[o] = (struct periodic_operation){kind, stage, 0, length};
    p->resource[o] = resource;
    return o == 0 || differences_add(&p->apart, o - 1, o, p->operations[o - 1].length_ns);
}

static bool write_operations(struct problem *p) {
    const struct madpipe *data = p->data;
    bool possible = true;
    for (int s = 0; s < p->stage_count; s++) {
        int first = p->stages[s].first, end = p->stages[s].end;
        p->forward[s] = p->operation_count;
        possible &=
            add_operation(p, PERIODIC_FORWARD, s, data->forward_ns[end] - data->forward_ns[first], worker_of(p->stages, s));
        if (s + 1 < p->stage_count)
            possible &= add_operation(p, PERIODIC_SEND, s, data->transfer_ns[end] / 2, link_of(p, s, s + 1));
    }
    for (int s = p->stage_count - 1; s >= 0; s--) {
        int first = p->stages[s].first, end = p->stages[s].end;
        int64_t forward = data->forward_ns[end] - data->forward_ns[first];
        p->backward[s] = p->operation_count;
        possible &=
            add_operation(p, PERIODIC_BACKWARD, s, madpipe_time_ns(data, first, end) - forward, worker_of(p->stages, s));
        int64_t both = data->transfer_ns[first];
        if (s > 0) possible &= add_operation(p, PERIODIC_SEND_GRADIENT, s, both - both / 2, link_of(p, s, s - 1));
    }
    return possible;
}

/* A transfer starts when its receiver has a block for it, which programs post no earlier than the computation of its kind
 * before the one that needs it; and the sender has two blocks, the first of which must have gone when it begins to make a
 * third. */
static bool limit_waits(struct problem *p) {
    bool possible = true;
    for (int o = 1; o + 1 < p->operation_count; o++) {
        if (p->operations[o].kind <= PERIODIC_BACKWARD) continue;
        possible = possible && differences_add(&p->apart, o + 1, o, -p->period) &&
                   differences_add(&p->apart, o, o - 1, p->operations[o].length_ns - 2 * p->period);
    }
    return possible;
}

static void write_pairs(struct problem *p) {
    for (int x = 0; x < p->operation_count; x++)
        for (int y = x + 1; y < p->operation_count; y++) {
            bool compute_x = p->operations[x].kind <= PERIODIC_BACKWARD, compute_y = p->operations[y].kind <= PERIODIC_BACKWARD;
            if (p->operations[x].length_ns == 0 || p->operations[y].length_ns == 0) continue;
            if (p->resource[x] == p->resource[y] && compute_x == compute_y) p->pairs[p->pair_count++] = (struct pair){x, y};
        }
}

/* No worker or link has more to do than there is time. */
static bool loads_fit(const struct problem *p) {
    for (int x = 0; x < p->operation_count; x++) {
        int64_t load = p->operations[x].length_ns;
        for (int i = 0; i < p->pair_count; i++) {
            if (p->pairs[i].x == x) load += p->operations[p->pairs[i].y].length_ns;
            if (p->pairs[i].y == x) load += p->operations[p->pairs[i].x].length_ns;
        }
        if (load > p->period) return false;
    }
    return true;
}

/* A batch of the stage leaves at most `batches` periods after it came. */
static bool limit_stay(struct problem *p, int s, int64_t batches) {
    int64_t length = p->operations[p->backward[s]].length_ns;
    return batches >= 1 && differences_add(&p->apart, p->backward[s], p->forward[s], length - batches * p->period);
}

/* Batches that stage s must keep, as far as is known. */
static int64_t least_kept(const struct problem *p, int s) {
    int64_t stay = differences_least(&p->apart, p->forward[s], p->backward[s]) + p->operations[p->backward[s]].length_ns;
    return ceil_divide(stay, p->period);
}

static int64_t memory_of(const struct problem *p, int s, int64_t batches) {
    return madpipe_memory(p->data, p->stages[s].first, p->stages[s].end, batches);
}

/* A normal worker's memory limits how long a batch may stay. */
static bool limit_stays(struct problem *p) {
    for (int s = 0; s < p->stage_count; s++) {
        int64_t copy = madpipe_copy_bytes(p->data, p->stages[s].first, p->stages[s].end);
        int64_t room = p->data->limit_bytes - memory_of(p, s, 0);
        if (p->stages[s].special || p->data->limit_bytes == INT64_MAX || (copy == 0 && room >= 0)) continue;
        if (room < 0 || !limit_stay(p, s, room / copy)) return false;
    }
    return true;
}

/* -------------------------------------------------------------- consequences */

/* The rounds that are left for a pair, and what follows for its times. */
static bool narrow_pair(struct problem *p, const struct pair *pair) {
    int64_t length_x = p->operations[pair->x].length_ns, length_y = p->operations[pair->y].length_ns;
    int64_t least = differences_least(&p->apart, pair->x, pair->y), most = -differences_least(&p->apart, pair->y, pair->x);
    int64_t low = floor_divide(least + length_y - 1, p->period);
    if (!differences_add(&p->apart, pair->x, pair->y, low * p->period + length_x)) return false;
    if (most == -DIFFERENCES_NONE) return true;
    int64_t high = floor_divide(most - length_x, p->period);
    return high >= low && differences_add(&p->apart, pair->y, pair->x, length_y - (high + 1) * p->period);
}

/* Batches that stage s holds at least when stage r's forward starts. */
static int64_t least_held(const struct problem *p, int s, int r) {
    int64_t kept = least_kept(p, s), latest = differences_least(&p->apart, p->forward[r], p->backward[s]);
    if (s == r) return kept;
    int64_t begun = floor_divide(differences_least(&p->apart, p->forward[s], p->forward[r]), p->period);
    int64_t finished = floor_divide(-latest - p->operations[p->backward[s]].length_ns, p->period);
    if (differences_least(&p->apart, p->forward[s], p->forward[r]) == DIFFERENCES_NONE || latest == DIFFERENCES_NONE)
        return kept - 1;
    return begun - finished > kept - 1 ? begun - finished : kept - 1;
}

/* What the special worker holds at least when stage r's forward starts, or at any time where blocks are held for good. */
static int64_t least_memory(const struct problem *p, int r) {
    int64_t bytes = 0;
    for (int s = 0; s < p->stage_count; s++)
        if (p->stages[s].special) bytes += memory_of(p, s, p->data->fixed ? least_kept(p, s) : least_held(p, s, r));
    return bytes;
}

/* What is left of the special worker's memory limits how many batches each of its stages may keep. */
static bool narrow_memory(struct problem *p) {
    int64_t limit = p->data->limit_bytes;
    if (limit == INT64_MAX) return true;
    for (int s = 0; s < p->stage_count; s++) {
        if (!p->stages[s].special) continue;
        int64_t room = limit - least_memory(p, s), copy = madpipe_copy_bytes(p->data, p->stages[s].first, p->stages[s].end);
        if (room < 0) return false;
        if (copy > 0 && !limit_stay(p, s, least_kept(p, s) + room / copy)) return false;
    }
    return true;
}

static bool narrow(struct problem *p) {
    size_t before;
    do {
        before = p->apart.trail_count;
        for (int i = 0; i < p->pair_count; i++)
            if (!narrow_pair(p, &p->pairs[i])) return false;
        if (!narrow_memory(p)) return false;
    } while (p->apart.trail_count > before);
    return true;
}

/* ------------------------------------------------------------------- choices */

/* time[to] - time[from] >= least, or time[from] - time[to] >= other. */
struct choice {
    int from, to;
    int64_t least, other;
};

static int64_t time_of(const struct problem *p, int operation) { return differences_least(&p->apart, 0, operation); }

/* Two operations that overlap at their earliest times, the worst of all. */
static bool find_overlap(const struct problem *p, struct choice *choice) {
    int64_t worst = 0;
    for (int i = 0; i < p->pair_count; i++) {
        int x = p->pairs[i].x, y = p->pairs[i].y;
        int64_t length_x = p->operations[x].length_ns, length_y = p->operations[y].length_ns;
        int64_t apart = time_of(p, y) - time_of(p, x), round = floor_divide(apart, p->period);
        int64_t into = apart - round * p->period, overlap = 0;
        if (into < length_x) overlap = length_x - into;
        if (p->period - into < length_y) {
            overlap = length_y - (p->period - into);
            round++;
        }
        if (overlap <= worst) continue;
        worst = overlap;
        *choice = (struct choice){x, y, round * p->period + length_x, length_y - round * p->period};
    }
    return worst > 0;
}

/* Of what stage s has begun and finished when an operation starts: how many. */
static int64_t begun_at(const struct problem *p, int s, int operation) {
    return floor_divide(time_of(p, operation) - time_of(p, p->forward[s]), p->period);
}
static int64_t finished_at(const struct problem *p, int s, int operation) {
    int backward = p->backward[s];
    return floor_divide(time_of(p, operation) - time_of(p, backward) - p->operations[backward].length_ns, p->period);
}

/* Batches that stage s holds when stage r's forward starts. */
static int64_t held_at(const struct problem *p, int s, int r) {
    int operation = p->forward[p->data->fixed ? s : r];
    return begun_at(p, s, operation) - finished_at(p, s, operation);
}

/* A stage of the special worker at whose forward's start there is not room for all; -1: none. */
static int find_overflow(const struct problem *p) {
    if (p->data->limit_bytes == INT64_MAX) return -1;
    for (int r = 0; r < p->stage_count; r++) {
        int64_t bytes = 0;
        if (!p->stages[r].special) continue;
        for (int s = 0; s < p->stage_count; s++)
            if (p->stages[s].special) bytes += memory_of(p, s, held_at(p, s, r));
        if (bytes > p->data->limit_bytes) return r;
    }
    return -1;
}

static bool search(struct problem *p, int depth);

static bool try_bound(struct problem *p, int depth, int from, int to, int64_t least) {
    size_t mark = p->apart.trail_count;
    if (differences_add(&p->apart, from, to, least) && search(p, depth + 1)) return true;
    differences_undo(&p->apart, mark);
    return false;
}

static bool try_choice(struct problem *p, int depth, const struct choice *choice) {
    return try_bound(p, depth, choice->from, choice->to, choice->least) ||
           try_bound(p, depth, choice->to, choice->from, choice->other);
}

/* Blocks are held for good: a stage that keeps more than it must keeps fewer, or not. */
static bool choose_stay(struct problem *p, int depth, int r) {
    for (int s = 0; s < p->stage_count; s++) {
        int64_t held = held_at(p, s, r), length = p->operations[p->backward[s]].length_ns;
        if (!p->stages[s].special || held <= least_kept(p, s)) continue;
        struct choice choice = {p->backward[s], p->forward[s], length - (held - 1) * p->period,
                                (held - 1) * p->period + 1 - length};
        return try_choice(p, depth, &choice);
    }
    return false;
}

/* Of the ways to hold one batch less at the start of stage r's forward the first that is not ruled out, or its opposite. */
static bool choose_moment(struct problem *p, int depth, int r) {
    int now = p->forward[r];
    for (int s = 0; s < p->stage_count; s++) {
        int64_t length = p->operations[p->backward[s]].length_ns;
        int64_t leave = length + (finished_at(p, s, now) + 1) * p->period;
        int64_t come = p->operations[now].length_ns - begun_at(p, s, now) * p->period;
        struct choice leaves = {p->backward[s], now, leave, 1 - leave}, comes = {now, p->forward[s], come, 1 - come};
        if (!p->stages[s].special) continue;
        if (differences_least(&p->apart, now, p->backward[s]) <= -leave) return try_choice(p, depth, &leaves);
        if (s != r && differences_least(&p->apart, p->forward[s], now) <= -come) return try_choice(p, depth, &comes);
    }
    return false;
}

/* Leaves the earliest times of a schedule in `apart` where there is one. */
static bool search(struct problem *p, int depth) {
    struct choice choice;
    if (depth == DEPTH_MAX) *p->nodes = 0;
    if (*p->nodes == 0) return false;
    --*p->nodes;
    if (!narrow(p)) return false;
    if (find_overlap(p, &choice)) return try_choice(p, depth, &choice);
    int overflow = find_overflow(p);
    if (overflow < 0) return true;
    return p->data->fixed ? choose_stay(p, depth, overflow) : choose_moment(p, depth, overflow);
}

enum ps_status madpipe_schedule(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                                int *nodes, struct periodic_operation *operations, int *operation_count, bool *found,
                                struct ps_error *error) {
    size_t most = 4 * (size_t)count;
    struct problem p = {
        .data = data, .stages = stages, .stage_count = count, .period = period_ns, .operations = operations, .nodes = nodes};
    int *places = malloc((most + 2 * (size_t)count) * sizeof *places);
    p.pairs = malloc(most * most / 2 * sizeof *p.pairs);
    enum ps_status status = places && p.pairs ? differences_open((int)most - 2, &p.apart, error)
                                              : error_memory(error, "the tables of a schedule", most * most * sizeof *p.pairs);
    *found = false;
    if (status == PS_OK) {
        p.resource = places;
        p.forward = places + most;
        p.backward = p.forward + count;
        bool possible = write_operations(&p) && limit_waits(&p);
        write_pairs(&p);
        possible = possible && loads_fit(&p);
        *found = possible && madpipe_pack(data, stages, count, period_ns, operations, p.resource, p.operation_count);
        if (!*found) {
            *found = possible && limit_stays(&p) && search(&p, 0);
            for (int o = 0; o < p.operation_count; o++) p.operations[o].start_ns = time_of(&p, o);
        }
        *operation_count = p.operation_count;
        if (p.apart.failed)
            status = error_memory(error, "the bounds of a schedule", p.apart.trail_capacity * sizeof *p.apart.trail);
    }
    differences_close(&p.apart);
    free(places);
    free(p.pairs);
    return status;
}
