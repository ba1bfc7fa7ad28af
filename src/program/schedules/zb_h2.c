/*
 * ZB-H2 (Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, 2023): as ZB-H1, with twice the warm-up forwards and twice
 * the delay of the weights' gradients. The bubble is (P-1)(F+I-2W), none where F = I = W; each stage holds up to 2P-1 micro-
 * batches. Fewer than 2P-1 micro-batches cannot fill the pipeline, and some bubble remains.
 */
#include "program/schedules/orders.h"

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    int instance = straight_instance(programs, worker), m = programs->micro_batches;
    for (int batch = 0; instance != NO_INSTANCE && batch < programs->batches; batch++) {
        int stage = programs->instances[instance].stage, ahead = programs->stages - 1 - stage;
        TRY(straight_split_backward(programs, instance, program, batch * m, m, 2 * ahead, 2 * stage, error));
    }
    return PS_OK;
}

const struct schedule schedule_zb_h2 = {
    .name = "zb-h2",
    .summary = "zb-h1 with twice the warm-up forwards: no bubble, twice the memory (ZB-H2)",
    .flush = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};
