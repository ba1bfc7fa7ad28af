/*
 * Asynchronous 1F1B (PipeDream, Narayanan et al. 2019; PipeOptim): the 1F1B order over the whole segment without a flush, so
 * that updates fall between a micro-batch's forward and its backward: P-1-p of them on stage p in the steady state.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int instance = straight_instance(programs, worker);
    if (instance == NO_INSTANCE) return PS_OK;
    int ahead = straight_ahead(programs, instance);
    return straight_one_forward_one_backward(programs, instance, program, 0, programs_taken(programs, instance), ahead, error);
}

const struct schedule schedule_1f1b_async = {
    .name = "1f1b-async",
    .summary = "one forward, one backward alternately, never drained within a segment (PipeDream)",
    .flush = false,
    .replicas = true,
    .split = true,
    .slack = true,
    .micro_batches = straight_one_micro_batch,
    .write = write,
};
