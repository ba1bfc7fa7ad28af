/* The first pass: the order of computations, as the schedule writes it. */
#include "program/passes/passes.h"

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    const struct schedule *schedule;
    TRY(schedule_find(programs->schedule, &schedule, error));
    if (schedule->write_all) return schedule->write_all(programs, error);
    for (int worker = 0; worker < programs->workers; worker++)
        TRY(schedule->write(programs, worker, &programs->worker[worker], error));
    return PS_OK;
}

const struct pass pass_schedule = {.name = "schedule", .run = run};
