/* The first pass: the order of computations, as the schedule writes it. */
#include "program/lower.h"

/* A plan may specify an order in which computations wait for each other. */
static enum ps_status check_runs(const struct ps_programs *programs, struct ps_error *error) {
    struct program_levels levels;
    TRY(program_levels_count(programs, &levels, error));
    program_levels_free(&levels);
    return PS_OK;
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    const struct schedule *schedule = programs->schedule;
    if (schedule->write_all) return schedule->write_all(programs, error);
    for (int worker = 0; worker < programs->workers; worker++)
        TRY(schedule->write(programs, worker, &programs->worker[worker], error));
    return schedule->placement && schedule->placement->anywhere ? check_runs(programs, error) : PS_OK;
}

const struct pass pass_schedule = {.run = run};
