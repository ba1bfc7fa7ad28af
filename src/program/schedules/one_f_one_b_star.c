/*
 * MadPipe's 1F1B* (Beaumont, Eyraud-Dubois and Shilova, 2022, section 4.1): asynchronous 1F1B in which the stages form groups.
 * Each group can run all its forwards and all its backwards within one period. A stage of group g, counted from the end of the
 * pipeline, holds g micro-batches: no schedule of the same period holds fewer. The group of a stage depends on the costs of the
 * stages; the plan specifies it (stages[].in_flight; computed by groups_find). By default a stage holds as many as in 1F1B,
 * which is enough for any costs without transfers.
 */
#include "program/schedules/orders.h"

static int in_flight(const struct ps_programs *programs, int stage) {
    int planned = programs->plan ? programs->plan->stages[stage].in_flight : 0, behind = programs->stages - 1 - stage;
    return (planned > 0 ? planned : 1 + behind) + programs->slack * behind;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int instance = straight_instance(programs, worker);
    if (instance == NO_INSTANCE) return PS_OK;
    int stage = programs->instances[instance].stage;
    if (stage > 0 && in_flight(programs, stage) > in_flight(programs, stage - 1))
        return error_set(error, PS_USAGE, "stages[%d].in_flight: %d, but the previous stage holds only %d", stage,
                         in_flight(programs, stage), in_flight(programs, stage - 1));
    int count = programs_micro_batches(programs);
    return straight_one_forward_one_backward(programs, instance, program, 0, count, in_flight(programs, stage) - 1, error);
}

const struct schedule schedule_1f1b_star = {
    .name = "1f1b-star",
    .summary = "1f1b-async holding no more micro-batches than the period needs (MadPipe's 1F1B*)",
    .flush = false,
    .in_flight = true,
    .slack = true,
    .micro_batches = straight_one_micro_batch,
    .write = write,
};
