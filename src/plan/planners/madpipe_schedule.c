/*
 * A periodic schedule for any allocation of stages, without an integer programme.
 *
 * The unknowns are the start times of one micro-batch's operations; micro-batch k does the same k periods later. Dependencies
 * and the memory of normal stages (the forward of a batch may begin at most g T before its backward ends) are lower bounds on
 * differences of times, which are kept closed (struct differences): they give the earliest times, or show that there are none.
 * Two kinds of choices remain:
 *
 *   - two operations on one worker or link must not overlap modulo T: in some period h, h T + length_x <= y - x and
 *     y - x <= (h + 1) T - length_y. The known bounds on y - x leave a range of h; its ends are new bounds, and if it is
 *     empty there is no schedule.
 *   - the special worker's memory. If a stage holds its blocks permanently (madpipe.h: fixed), the choice is how many
 *     batches each stage may keep. Otherwise the memory in use is checked when one of its forwards starts, which is when it is
 *     largest: if it is too much, one stage must have finished one batch more by then, or not begun one.
 *
 * The simplest schedule is tried first (pack). Then a depth-first search tries both sides of each choice, that of the worst
 * overlap first. A budget of nodes limits it; if it ends with nodes left and nothing found, there is no schedule.
 */
#include "plan/planners/madpipe.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/*
 * Lower bounds on differences of times, closed: least(x, y) is the longest path from x to y, so every consequence of the bounds
 * is available immediately, and a new bound is added by one sweep over all pairs. Bounds can be removed in the order of a
 * stack.
 */

/* There is no bound on the difference. */
#define DIFFERENCES_NONE (INT64_MIN / 4)

struct differences {
    int count;      /* of times */
    int64_t *least; /* [from][to]: time[to] - time[from] is at least this */
    struct difference_change {
        int32_t place;
        int64_t old;
    } * trail; /* the overwritten values, to be restored */
    size_t trail_count, trail_capacity;
    int *longer;           /* scratch: one per time */
    enum ps_status status; /* not PS_OK: there was no memory for the trail, the bounds are incomplete, and `error` has the
                            * message */
    struct ps_error *error;
};

static inline int64_t differences_least(const struct differences *d, int from, int to) {
    return d->least[(size_t)from * (size_t)d->count + (size_t)to];
}

/* No bounds, except that a time equals itself. */
static void differences_clear(struct differences *d) {
    size_t count = (size_t)d->count;
    for (size_t p = 0; p < count * count; p++) d->least[p] = DIFFERENCES_NONE;
    for (size_t t = 0; t < count; t++) d->least[t * count + t] = 0;
}

/* Adds time[to] - time[from] >= least; false if that is impossible. Since all bounds are closed, the path from x to y gets
 * longer only if that from x to `to` does, and that from `from` to y. */
static bool differences_add(struct differences *d, int from, int to, int64_t least) {
    if (differences_least(d, from, to) >= least) return true;
    if (differences_least(d, to, from) > -least) return false;
    const int64_t *behind = &d->least[(size_t)to * (size_t)d->count], *own = &d->least[(size_t)from * (size_t)d->count];
    int longer = 0;
    for (int y = 0; y < d->count; y++) {
        d->longer[longer] = y;
        longer += behind[y] != DIFFERENCES_NONE && least + behind[y] > own[y];
    }
    for (int x = 0; x < d->count; x++) {
        int64_t before = differences_least(d, x, from), through = before + least;
        int64_t *row = &d->least[(size_t)x * (size_t)d->count];
        if (before == DIFFERENCES_NONE || through <= row[to]) continue;
        size_t needed = d->trail_count + (size_t)d->count; /* a whole row may change */
        if (d->status == PS_OK)
            d->status = memory_grow(&d->trail, &d->trail_capacity, needed, "the bounds of a schedule", d->error);
        if (d->status != PS_OK) return false;
        for (int l = 0; l < longer; l++) {
            int y = d->longer[l];
            if (through + behind[y] <= row[y]) continue;
            d->trail[d->trail_count++] = (struct difference_change){(int32_t)(x * d->count + y), row[y]};
            row[y] = through + behind[y];
        }
    }
    return true;
}

/* Removes all that was added since trail_count was `mark`. */
static void differences_undo(struct differences *d, size_t mark) {
    while (d->trail_count > mark) {
        struct difference_change change = d->trail[--d->trail_count];
        d->least[change.place] = change.old;
    }
}

/*
 * The simplest periodic schedule of given stages. Each worker and each link executes its operations back to back, in the order
 * in which a batch passes them, beginning when the first of them can start. An operation that is ready earlier waits for its
 * position in the period. If neither memory nor a wait prevents it, this succeeds for every period in which the loads fit.
 */

static bool computes(const struct periodic_operation *operation) { return operation->kind <= PERIODIC_BACKWARD; }

/* The start of operation o in the period: when the one before it on its resource has ended. */
static int64_t place_of(const struct periodic_operation *operations, const int *resource, int o, int64_t ready) {
    for (int before = o - 1; before >= 0; before--)
        if (operations[before].length_ns > 0 && resource[before] == resource[o])
            return operations[before].start_ns + operations[before].length_ns;
    return ready;
}

/* A transfer that no later operation waits for can also start later. */
static void put_off(struct periodic_operation *operations, int count, int64_t period) {
    for (int o = 1; o + 1 < count; o++)
        if (!computes(&operations[o]) && operations[o + 1].start_ns - operations[o].start_ns > period)
            operations[o].start_ns = operations[o + 1].start_ns - operations[o].length_ns;
}

/* A transfer starts within a period before the operation that waits for it, and has finished two periods after the operation
 * that made its block began. */
static bool waits_hold(const struct periodic_operation *operations, int count, int64_t period) {
    for (int o = 1; o + 1 < count; o++) {
        const struct periodic_operation *transfer = &operations[o];
        if (computes(transfer)) continue;
        if (operations[o + 1].start_ns - transfer->start_ns > period) return false;
        if (transfer->start_ns + transfer->length_ns - operations[o - 1].start_ns > 2 * period) return false;
    }
    return true;
}

static bool pack(const struct madpipe *data, const struct madpipe_stage *stages, int stage_count, int64_t period_ns,
                 struct periodic_operation *operations, const int *resource, int count) {
    int64_t ready = 0;
    for (int o = 0; o < count; o++) {
        int64_t place = operations[o].length_ns > 0 ? place_of(operations, resource, o, ready) : ready;
        int64_t late = (ready - place) % period_ns;
        operations[o].start_ns = ready + (late > 0 ? period_ns - late : -late);
        ready = operations[o].start_ns + operations[o].length_ns;
    }
    put_off(operations, count, period_ns);
    return waits_hold(operations, count, period_ns) &&
           madpipe_schedule_valid(data, stages, stage_count, period_ns, operations, count);
}

/* The proof that a periodic schedule is valid, from its times alone, independent of the search that found it. */

static const struct periodic_operation *find(const struct periodic_operation *operations, int count, enum periodic_kind kind,
                                             int stage) {
    for (int o = 0; o < count; o++)
        if (operations[o].kind == kind && operations[o].stage == stage) return &operations[o];
    return NULL;
}

static bool follows(const struct periodic_operation *first, const struct periodic_operation *second) {
    return first && second && second->start_ns >= first->start_ns + first->length_ns;
}

static bool dependencies_hold(int stages, const struct periodic_operation *operations, int count) {
    for (int s = 0; s < stages; s++) {
        const struct periodic_operation *forward = find(operations, count, PERIODIC_FORWARD, s);
        const struct periodic_operation *backward = find(operations, count, PERIODIC_BACKWARD, s);
        if (!follows(forward, backward)) return false;
        if (s + 1 == stages) break;
        const struct periodic_operation *send = find(operations, count, PERIODIC_SEND, s);
        const struct periodic_operation *back = find(operations, count, PERIODIC_SEND_GRADIENT, s + 1);
        if (!follows(forward, send) || !follows(send, find(operations, count, PERIODIC_FORWARD, s + 1)) ||
            !follows(find(operations, count, PERIODIC_BACKWARD, s + 1), back) || !follows(back, backward))
            return false;
    }
    return true;
}

/* Returns true if the two use the same worker, or the same pair of workers (in the same direction if each has its own link). */
static bool share(const struct madpipe *data, const struct madpipe_stage *stages, const struct periodic_operation *a,
                  const struct periodic_operation *b) {
    bool a_computes = a->kind == PERIODIC_FORWARD || a->kind == PERIODIC_BACKWARD;
    bool b_computes = b->kind == PERIODIC_FORWARD || b->kind == PERIODIC_BACKWARD;
    if (a_computes != b_computes) return false;
    int end[2][2] = {{a->stage, a->stage}, {b->stage, b->stage}};
    if (!a_computes) end[0][1] += a->kind == PERIODIC_SEND ? 1 : -1;
    if (!b_computes) end[1][1] += b->kind == PERIODIC_SEND ? 1 : -1;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (stages[end[i][j]].special) end[i][j] = -1; /* all of these are one worker */
    bool opposite = end[0][0] == end[1][1] && end[0][1] == end[1][0];
    return (end[0][0] == end[1][0] && end[0][1] == end[1][1]) || (data->one_link && opposite);
}

/* Each operation takes [start, start + length) modulo T, which may wrap around; no repetition of one may overlap the other. */
static bool overlap(const struct periodic_operation *a, const struct periodic_operation *b, int64_t period) {
    int64_t x = a->start_ns % period, y = b->start_ns % period;
    for (int64_t round = -1; round <= 1; round++)
        if (x < y + round * period + b->length_ns && y + round * period < x + a->length_ns) return true;
    return false;
}

static bool resources_hold(const struct madpipe *data, const struct madpipe_stage *stages, int64_t period,
                           const struct periodic_operation *operations, int count) {
    for (int a = 0; a < count; a++) {
        if (operations[a].start_ns < 0 || operations[a].length_ns > period) return false;
        if (operations[a].length_ns == 0) continue;
        for (int b = 0; b < a; b++)
            if (operations[b].length_ns > 0 && share(data, stages, &operations[a], &operations[b]) &&
                overlap(&operations[a], &operations[b], period))
                return false;
    }
    return true;
}

/* Batches that a stage holds at a time of the steady state, counted one by one. */
static int64_t held(const struct periodic_operation *forward, const struct periodic_operation *backward, int64_t now,
                    int64_t period) {
    int64_t batches = 0, finish = backward->start_ns + backward->length_ns, stay = finish - forward->start_ns;
    for (int64_t k = (now - forward->start_ns) / period - stay / period - 2; forward->start_ns + k * period <= now; k++)
        batches += finish + k * period > now;
    return batches;
}

/* Checks the memory of a stage's worker whenever one of its forwards starts, well after the beginning. */
static bool memory_holds(const struct madpipe *data, const struct madpipe_stage *stages, int stage_count, int64_t period,
                         const struct periodic_operation *operations, int count) {
    int64_t latest = 0;
    for (int o = 0; o < count; o++)
        if (operations[o].start_ns > latest) latest = operations[o].start_ns;
    for (int r = 0; r < stage_count; r++) {
        int64_t bytes = 0, now = find(operations, count, PERIODIC_FORWARD, r)->start_ns + (latest / period + 2) * period;
        for (int s = 0; s < stage_count; s++) {
            if (s != r && !(stages[s].special && stages[r].special)) continue;
            const struct periodic_operation *forward = find(operations, count, PERIODIC_FORWARD, s);
            const struct periodic_operation *backward = find(operations, count, PERIODIC_BACKWARD, s);
            int64_t moment =
                data->fixed ? forward->start_ns + (latest / period + 2) * period : now; /* fixed: its own maximum */
            int64_t batches = held(forward, backward, moment, period);
            bytes += madpipe_memory(data, stages[s].first, stages[s].end, batches);
        }
        if (bytes > data->limit_bytes) return false;
    }
    return true;
}

bool madpipe_schedule_valid(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                            const struct periodic_operation *operations, int operation_count) {
    return dependencies_hold(count, operations, operation_count) &&
           resources_hold(data, stages, period_ns, operations, operation_count) &&
           memory_holds(data, stages, count, period_ns, operations, operation_count);
}

enum { DEPTH_MAX = 1000 };

/* Two operations on one worker or link, in the order in which a batch passes them. */
struct pair {
    int x, y;
};

struct problem {
    const struct madpipe *data;
    const struct madpipe_stage *stages;
    int stage_count;
    int64_t period;
    struct periodic_operation *operations; /* in the order in which a batch passes them: forwards to the end, backwards from
                                            * there */
    int operation_count;
    int *forward, *backward; /* per stage: its operations */
    int *resource;           /* per operation: its worker or link, of which all have different numbers */
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

/* Links are numbered from `side` on, which is more than any worker's number. */
static int link_of(const struct problem *p, int from, int to) {
    int a = worker_of(p->stages, from), b = worker_of(p->stages, to), side = p->stage_count + 2;
    return p->data->one_link && a > b ? (b + 1) * side + a : (a + 1) * side + b;
}

/* Adds an operation after all others; it starts when the one before it has ended. */
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
 * before the one that needs it. The sender has two blocks; the first must have been sent before it begins to compute a
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
            if (p->operations[x].length_ns == 0 || p->operations[y].length_ns == 0) continue;
            if (p->resource[x] == p->resource[y]) p->pairs[p->pair_count++] = (struct pair){x, y};
        }
}

/* Returns true if every worker's and link's load fits the period. */
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

/* A batch leaves the stage at most `batches` periods after it arrived. */
static bool limit_stay(struct problem *p, int s, int64_t batches) {
    int64_t length = p->operations[p->backward[s]].length_ns;
    return batches >= 1 && differences_add(&p->apart, p->backward[s], p->forward[s], length - batches * p->period);
}

/* The least number of batches that stage s must keep, by the current bounds. */
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

/* Narrows the remaining periods of a pair, and adds the resulting bounds. */
static bool narrow_pair(struct problem *p, const struct pair *pair) {
    int64_t length_x = p->operations[pair->x].length_ns, length_y = p->operations[pair->y].length_ns;
    int64_t least = differences_least(&p->apart, pair->x, pair->y), most = -differences_least(&p->apart, pair->y, pair->x);
    int64_t low = floor_divide(least + length_y - 1, p->period);
    if (!differences_add(&p->apart, pair->x, pair->y, low * p->period + length_x)) return false;
    if (most == -DIFFERENCES_NONE) return true;
    int64_t high = floor_divide(most - length_x, p->period);
    return high >= low && differences_add(&p->apart, pair->y, pair->x, length_y - (high + 1) * p->period);
}

/* The least number of batches that stage s holds when stage r's forward starts. */
static int64_t least_held(const struct problem *p, int s, int r) {
    int64_t kept = least_kept(p, s), latest = differences_least(&p->apart, p->forward[r], p->backward[s]);
    if (s == r) return kept;
    int64_t begun = floor_divide(differences_least(&p->apart, p->forward[s], p->forward[r]), p->period);
    int64_t finished = floor_divide(-latest - p->operations[p->backward[s]].length_ns, p->period);
    if (differences_least(&p->apart, p->forward[s], p->forward[r]) == DIFFERENCES_NONE || latest == DIFFERENCES_NONE)
        return kept - 1;
    return begun - finished > kept - 1 ? begun - finished : kept - 1;
}

/* The least memory of the special worker when stage r's forward starts, or at any time if blocks are held permanently. */
static int64_t least_memory(const struct problem *p, int r) {
    int64_t bytes = 0;
    for (int s = 0; s < p->stage_count; s++)
        if (p->stages[s].special) bytes += memory_of(p, s, p->data->fixed ? least_kept(p, s) : least_held(p, s, r));
    return bytes;
}

/* The free memory of the special worker limits how many batches each of its stages may keep. */
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

/* The pair of operations with the worst overlap at their earliest times. */
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

/* The number of batches that stage s has begun and finished when an operation starts. */
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

/* A stage of the special worker at whose forward's start memory is exceeded; -1: none. */
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

/* If blocks are held permanently: a stage that keeps more batches than it must either keeps fewer, or does not. */
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

/* Of the ways to hold one batch less at the start of stage r's forward: the first that is not ruled out, or its opposite. */
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

/* Stores the earliest times of a schedule in `apart` if there is one. */
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
    size_t most = 4 * (size_t)count, times = most - 2; /* the last stage sends nothing to a next one, the first nothing back */
    struct arena arena = {0};
    struct problem p = {.data = data,
                        .stages = stages,
                        .stage_count = count,
                        .period = period_ns,
                        .operations = operations,
                        .nodes = nodes,
                        .pairs = arena_take(&arena, most * most / 2, sizeof *p.pairs),
                        .resource = arena_take(&arena, most, sizeof *p.resource),
                        .forward = arena_take(&arena, (size_t)count, sizeof *p.forward),
                        .backward = arena_take(&arena, (size_t)count, sizeof *p.backward),
                        .apart = {.count = (int)times,
                                  .least = arena_take(&arena, times * times, sizeof *p.apart.least),
                                  .longer = arena_take(&arena, times, sizeof *p.apart.longer),
                                  .error = error}};
    enum ps_status status;
    *found = false;
    TRY_OUT(arena_check(&arena, "the tables of a schedule", error));
    differences_clear(&p.apart);
    bool possible = write_operations(&p) && limit_waits(&p);
    write_pairs(&p);
    possible = possible && loads_fit(&p);
    *found = possible && pack(data, stages, count, period_ns, operations, p.resource, p.operation_count);
    if (!*found) {
        *found = possible && limit_stays(&p) && search(&p, 0);
        for (int o = 0; o < p.operation_count; o++) p.operations[o].start_ns = time_of(&p, o);
    }
    *operation_count = p.operation_count;
    status = p.apart.status;
    free(p.apart.trail);
out:
    arena_release(&arena);
    return status;
}

/* The least period of given stages, and the resulting plan. */

enum ps_status madpipe_schedule_least(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t low,
                                      int nodes_per_test, int *nodes_left, struct periodic_operation *operations,
                                      struct madpipe_found *best, struct ps_error *error) {
    int64_t step = (best->period_ns - low) / 64 + 1;
    bool galloping = true, found;
    while (*nodes_left > 0 && best->period_ns - low > 1 && best->period_ns - low > low / 100000) {
        int64_t period = galloping ? low + step : low + (best->period_ns - low) / 2;
        int most = nodes_per_test < *nodes_left ? nodes_per_test : *nodes_left, nodes = most, operation_count;
        if (period >= best->period_ns) period = best->period_ns - 1;
        TRY(madpipe_schedule(data, stages, count, period, &nodes, operations, &operation_count, &found, error));
        *nodes_left -= most - nodes;
        if (!found) {
            low = period;
            step *= 2;
            continue;
        }
        assert(madpipe_schedule_valid(data, stages, count, period, operations, operation_count));
        memcpy(best->stages, stages, (size_t)count * sizeof *best->stages);
        memcpy(best->operations, operations, (size_t)operation_count * sizeof *best->operations);
        best->stage_count = count;
        best->operation_count = operation_count;
        best->period_ns = period;
        galloping = false;
    }
    return PS_OK;
}

/* Under 1F1B*, from the last stage on. */
static void fill_in_flight(const struct madpipe *data, const struct madpipe_found *best, struct planned_stage *stages) {
    int64_t delay = 0;
    for (int s = best->stage_count - 1; s >= 0; s--) {
        int64_t time = madpipe_time_ns(data, best->stages[s].first, best->stages[s].end);
        stages[s].in_flight = (int)madpipe_periods(delay + time, best->period_ns);
        delay = madpipe_cross(data, madpipe_lengthen(delay, time, best->period_ns), best->stages[s].first, best->period_ns);
    }
}

enum ps_status madpipe_answer(const struct madpipe *data, const struct madpipe_found *best, struct planner_answer *answer,
                              struct ps_error *error) {
    bool special = false;
    for (int s = 0; s < best->stage_count; s++) special |= best->stages[s].special;
    answer->stages = arena_take(&answer->arena, (size_t)best->stage_count, sizeof *answer->stages);
    answer->pattern = arena_copy(&answer->arena, best->operations, (size_t)best->operation_count, sizeof *answer->pattern);
    answer->pattern_count = best->operation_count;
    TRY(arena_check(&answer->arena, "a plan", error));
    for (int s = 0, normal = special; s < best->stage_count; s++) {
        int worker = best->stages[s].special ? 0 : normal++;
        answer->stages[s] = (struct planned_stage){best->stages[s].first, best->stages[s].end - 1, worker, worker, 1, 0};
    }
    answer->stage_count = best->stage_count;
    answer->objective_s = (double)best->period_ns / 1e9;
    if (best->operation_count == 0) {
        answer->pattern = NULL;
        fill_in_flight(data, best, answer->stages);
    }
    return PS_OK;
}
