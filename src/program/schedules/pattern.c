/*
 * A periodic pattern (MadPipe, section 3). Each computation of a period has a position in its worker's order and a shift h, and
 * works in period k on micro-batch k - h. Computations outside the segment are left out, which fills and drains the pipeline.
 * The plan specifies the pattern (its field `pattern`) and may place the stages on workers in any way. The default is the
 * pattern of 1F1B: [F 0, B P-1-p] on worker p of P.
 */
#include <stdlib.h>

#include "base/memory.h"
#include "program/schedules/orders.h"

static int worker_of(int stage, int stages, int workers) {
    (void)stages;
    return stage % workers;
}

static bool accepts(int stages, int workers) { return stages >= workers; }

static const struct placement anywhere = {
    .usual = 1, .anywhere = true, .worker_of = worker_of, .accepts = accepts, .accepted = "at least one on each worker"};

/* Each stage has a forward and a backward, once. */
static enum ps_status check(const struct ps_plan *plan, struct ps_error *error) {
    for (int i = 0; i < plan->pattern_count; i++)
        for (int j = 0; j < i; j++)
            if (plan->pattern[i].stage == plan->pattern[j].stage && plan->pattern[i].backward == plan->pattern[j].backward)
                return error_set(error, PS_USAGE, "pattern[%d]: stage %d has a %s already, pattern[%d]", i,
                                 plan->pattern[i].stage, plan->pattern[i].backward ? "backward" : "forward", j);
    if (plan->pattern_count == 2 * plan->stage_count) return PS_OK;
    return error_set(error, PS_USAGE, "pattern: has %d computations; %d stages have a forward and a backward each, %d",
                     plan->pattern_count, plan->stage_count, 2 * plan->stage_count);
}

/* Appends the worker's computations of one period. */
static enum ps_status append_period(const struct ps_programs *programs, const int *shift, int worker, int period,
                                    struct program *program, struct ps_error *error) {
    for (int i = 0; i < programs->plan->pattern_count; i++) {
        const struct plan_operation *operation = &programs->plan->pattern[i];
        int k = period - shift[i], own = programs_instance(programs, worker, operation->stage);
        if (own == NO_INSTANCE || k < 0 || k >= programs_micro_batches(programs)) continue;
        if (!(operation->backward ? programs->instances[own].backward : programs->instances[own].forward)) continue;
        TRY(straight_compute(program, operation->backward ? OP_B : OP_F, operation->stage, k, error));
    }
    return PS_OK;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int count = programs_micro_batches(programs), latest = 0;
    if (!programs_has_pattern(programs)) {
        int instance = straight_instance(programs, worker);
        if (instance == NO_INSTANCE) return PS_OK;
        bool split = programs->instance_count > programs->stages;
        if (!split && programs->stages > programs->workers)
            return error_set(error, PS_USAGE, "pattern: the plan has none, and several stages on a worker need one");
        return straight_one_forward_one_backward(programs, instance, program, 0, count, straight_ahead(programs, instance),
                                                 error);
    }
    TRY(check(programs->plan, error));
    int *shift;
    TRY(memory_new(&shift, programs->plan->pattern_count, "schedule", error));
    for (int i = 0; i < programs->plan->pattern_count; i++) {
        shift[i] = plan_shift(programs->plan, &programs->plan->pattern[i]);
        if (shift[i] > latest) latest = shift[i];
    }
    enum ps_status status = PS_OK;
    for (int period = 0; status == PS_OK && period < count + latest; period++)
        status = append_period(programs, shift, worker, period, program, error);
    free(shift);
    return status;
}

const struct schedule schedule_pattern = {
    .name = "pattern",
    .summary = "the plan's own periodic pattern, never drained within a segment (MadPipe)",
    .flush = false,
    .split = true,
    .slack = true,
    .placement = &anywhere,
    .micro_batches = straight_one_micro_batch,
    .write = write,
};
