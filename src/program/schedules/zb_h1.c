/*
 * ZB-H1 (Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, 2023): 1F1B with the backward split. The gradient of the
 * input, which the previous stage waits for, is computed immediately. That of the weights, which no worker waits for, follows p
 * micro-batches later on stage p, so that the rest of these fills the drain. The bubble is (P-1)(F+I-W), a third of 1F1B's
 * where F = I = W, and no stage holds more than 1F1B's first, P micro-batches.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int instance = straight_instance(programs, worker), m = programs->micro_batches;
    for (int batch = 0; instance != NO_INSTANCE && batch < programs->batches; batch++) {
        int stage = programs->instances[instance].stage, ahead = programs->stages - 1 - stage;
        TRY(straight_split_backward(programs, instance, program, batch * m, m, ahead, stage, error));
    }
    return PS_OK;
}

const struct schedule schedule_zb_h1 = {
    .name = "zb-h1",
    .summary = "1f1b with the backward split: a third of the bubble in the same memory (ZB-H1)",
    .flush = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
