/*
 * Periodic schedules of planners as plans: each computation that starts at time t of its first period, T being the period,
 * stands in its worker's order by t modulo T and works on the micro-batch that entered t / T periods before (the plan's
 * `pattern`). Contiguous stages under 1F1B* need no pattern, only how many micro-batches each holds.
 */
#include "search/periodic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/planners/madpipe.h"

struct moment {
    int64_t within;
    struct plan_operation operation;
};

static int compare_moments(const void *a, const void *b) {
    const struct moment *x = a, *y = b;
    return (x->within > y->within) - (x->within < y->within);
}

enum ps_status periodic_set_pattern(const struct periodic_operation *operations, int operation_count, int64_t period_ns,
                                    struct ps_plan *plan, struct ps_error *error) {
    struct moment *moments = calloc((size_t)operation_count, sizeof *moments);
    struct plan_operation *pattern = calloc((size_t)operation_count, sizeof *pattern);
    enum ps_status status =
        moments && pattern ? PS_OK : error_memory(error, "a plan's pattern", (size_t)operation_count * sizeof *moments);
    int count = 0;
    for (int o = 0; status == PS_OK && o < operation_count; o++) {
        const struct periodic_operation *from = &operations[o];
        if (from->kind != PERIODIC_FORWARD && from->kind != PERIODIC_BACKWARD) continue;
        moments[count++] = (struct moment){from->start_ns % period_ns,
                                           {from->kind == PERIODIC_BACKWARD, from->stage, (int)(from->start_ns / period_ns)}};
    }
    if (status == PS_OK) qsort(moments, (size_t)count, sizeof *moments, compare_moments);
    for (int m = 0; m < count; m++) pattern[m] = moments[m].operation;
    if (status == PS_OK) status = plan_pattern_set(plan, pattern, count, error);
    if (status == PS_OK) snprintf(plan->schedule, sizeof plan->schedule, "pattern");
    free(pattern);
    free(moments);
    return status;
}

enum ps_status periodic_schedule(const struct planner_answer *answer, struct ps_plan *plan, struct ps_error *error) {
    if (answer->pattern)
        return periodic_set_pattern(answer->pattern, answer->pattern_count, llround(1e9 * answer->objective_s), plan, error);
    snprintf(plan->schedule, sizeof plan->schedule, "1f1b-star");
    for (int s = 0; s < answer->stage_count; s++) plan->stages[s].in_flight = answer->stages[s].in_flight;
    return PS_OK;
}

/* What MadPipe counts for a worker at the fullest of its moments: when one of its forwards starts. */
static struct worker_memory fullest(const struct madpipe *data, const struct ps_plan *plan, const struct ps_programs *programs,
                                    int worker, int *held) {
    const struct program *program = &programs->worker[worker];
    struct worker_memory memory = {0};
    for (int s = 0; s < plan->stage_count; s++) held[s] = 0;
    for (int i = 0; i < program->count; i++) {
        const struct instruction *instruction = &program->code[i];
        int64_t stash = 0;
        if (instruction->op != OP_F && instruction->op != OP_B) continue;
        held[instruction->stage] += instruction->op == OP_F ? 1 : -1;
        for (int s = 0; s < plan->stage_count; s++)
            stash += held[s] * madpipe_copy_bytes(data, plan->stages[s].first, plan->stages[s].last + 1);
        if (stash > memory.stash) memory.stash = stash;
    }
    for (int s = 0; s < plan->stage_count; s++) {
        if (programs_worker(programs, s) != worker) continue;
        int64_t parameters = stage_cost(data->problem->costs, plan->stages[s].first, plan->stages[s].last).size.parameter_bytes;
        memory.weights += 2 * parameters;
        memory.gradients += parameters;
        memory.buffers += madpipe_memory(data, plan->stages[s].first, plan->stages[s].last + 1, 0) - 3 * parameters;
    }
    return memory;
}

enum ps_status periodic_paper_memory(const struct planner_problem *problem, const struct ps_plan *plan,
                                     const struct ps_programs *programs, struct worker_memory *memory, struct ps_error *error) {
    struct madpipe data;
    TRY(madpipe_open(problem, &data, error));
    int *held = calloc((size_t)plan->stage_count, sizeof *held);
    for (int w = 0; held && data.base_bytes && w < plan->workers; w++) memory[w] = fullest(&data, plan, programs, w, held);
    free(held);
    madpipe_close(&data);
    return held ? PS_OK : error_memory(error, "a plan's memory", (size_t)plan->stage_count * sizeof *held);
}
