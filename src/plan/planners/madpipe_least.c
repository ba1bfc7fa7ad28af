/* The least period of given stages, and the plan that it makes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "plan/planners/madpipe_schedule.h"

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
    answer->stages = calloc((size_t)best->stage_count, sizeof *answer->stages);
    if (!answer->stages) return error_memory(error, "a plan", (size_t)best->stage_count * sizeof *answer->stages);
    for (int s = 0, normal = special; s < best->stage_count; s++) {
        int worker = best->stages[s].special ? 0 : normal++;
        answer->stages[s] = (struct planned_stage){best->stages[s].first, best->stages[s].end - 1, worker, worker, 1, 0};
    }
    answer->stage_count = best->stage_count;
    answer->objective_s = (double)best->period_ns / 1e9;
    if (best->operation_count == 0) {
        fill_in_flight(data, best, answer->stages);
        return PS_OK;
    }
    size_t size = (size_t)best->operation_count * sizeof *answer->pattern;
    answer->pattern = malloc(size);
    if (!answer->pattern) return error_memory(error, "a plan", size);
    memcpy(answer->pattern, best->operations, size);
    answer->pattern_count = best->operation_count;
    return PS_OK;
}
