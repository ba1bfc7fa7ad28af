/*
 * Contiguous stages under 1F1B*, which no periodic schedule of the same period beats in memory: whether a period is possible.
 *
 * delay[p][l] is the least delay between the forward and the backward of the first l layers when p workers hold the rest. x
 * (+) y never falls when x grows, and neither do the activations to keep, so the least delay is all that matters of what lies
 * behind:
 *
 *     delay[p+1][k] = min over l of (delay[p][l] (+) U(k, l)) (+) C(k)
 *
 * over the stages k..l-1 with U <= T, C <= T that fit their worker with ceil((delay[p][l] + U) / T) activations. O(P L^2).
 */
#include <stdlib.h>

#include "plan/planners/madpipe.h"

#define NEVER INT64_MAX

struct cell {
    int64_t delay;
    int end; /* of the stage that begins here */
};

/* All stages that end with layer `end` - 1 on the worker number `used` from the end. */
static void try_stages(const struct madpipe *data, int64_t period, const struct cell *behind, int end, struct cell *before) {
    if (behind[end].delay == NEVER) return;
    for (int first = end - 1; first >= 0; first--) {
        int64_t time = madpipe_time_ns(data, first, end);
        if (time > period) return;
        if (madpipe_link_ns(data, first) > period) continue;
        int64_t copies = madpipe_periods(behind[end].delay + time, period);
        if (madpipe_memory(data, first, end, copies) > data->limit_bytes) continue;
        int64_t delay = madpipe_lengthen(behind[end].delay, time, period);
        delay = madpipe_cross(data, delay, first, period);
        if (delay < before[first].delay) before[first] = (struct cell){delay, end};
    }
}

enum ps_status madpipe_contiguous_at(const struct madpipe *data, int64_t period_ns, struct madpipe_stage *stages, int *count,
                                     bool *found, struct ps_error *error) {
    size_t side = (size_t)data->layers + 1, size = side * ((size_t)data->workers + 1);
    struct cell *cells = malloc(size * sizeof *cells);
    if (!cells) return error_memory(error, "the table of the planner", size * sizeof *cells);
    for (size_t c = 0; c < size; c++) cells[c].delay = NEVER;
    cells[data->layers].delay = 0;
    int used = 0;
    while (used < data->workers && cells[(size_t)used * side].delay == NEVER) {
        const struct cell *behind = &cells[(size_t)used++ * side];
        for (int end = data->layers; end > 0; end--) try_stages(data, period_ns, behind, end, &cells[(size_t)used * side]);
    }
    *found = cells[(size_t)used * side].delay < NEVER;
    *count = 0;
    for (int first = 0; *found && used > 0; used--) {
        int end = cells[(size_t)used * side + (size_t)first].end;
        stages[(*count)++] = (struct madpipe_stage){first, end, false};
        first = end;
    }
    free(cells);
    return PS_OK;
}
