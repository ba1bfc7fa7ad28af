/* The proof that a periodic schedule is valid, from its times alone and by other means than those that found it. */
#include <stdlib.h>

#include "plan/planners/madpipe_schedule.h"

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

/* Do the two use the same worker, or the same pair of workers, in the same direction where each has its own link? */
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

/* Each operation takes [start, start + length) modulo T, which may wrap around: some round of one must not meet the other. */
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

/* Batches of a stage at a moment of the steady state, one by one. */
static int64_t held(const struct periodic_operation *forward, const struct periodic_operation *backward, int64_t now,
                    int64_t period) {
    int64_t batches = 0, finish = backward->start_ns + backward->length_ns, stay = finish - forward->start_ns;
    for (int64_t k = (now - forward->start_ns) / period - stay / period - 2; forward->start_ns + k * period <= now; k++)
        batches += finish + k * period > now;
    return batches;
}

/* The memory of a stage's worker whenever one of its forwards starts, well after the beginning. */
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
                data->fixed ? forward->start_ns + (latest / period + 2) * period : now; /* fixed: its own fullest */
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
