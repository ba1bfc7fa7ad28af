/*
 * 1F1B with the backward split (Qi, Wan, Huang and Lin, Zero Bubble Pipeline Parallelism, 2023). The gradient of the input,
 * which the previous stage waits for, is computed immediately. That of the weights, which no worker waits for, follows some
 * micro-batches later, so that the rest of these fills the drain.
 *
 *   zb-h1   the warm-up forwards of 1F1B, and weights p micro-batches later on stage p. The bubble is (P-1)(F+I-W), a third of
 *           1F1B's where F = I = W, and no stage holds more than 1F1B's first, P micro-batches.
 *   zb-h2   both twice. The bubble is (P-1)(F+I-2W), none where F = I = W; each stage holds up to 2P-1 micro-batches. Fewer
 * than 2P-1 micro-batches cannot fill the pipeline, and some bubble remains.
 */
#include "program/schedules/orders.h"

/* Each mini-batch: the forwards ahead, then F, I and, `lag` after it, W. */
static enum ps_status write_split(const struct ps_programs *programs, int worker, int times, struct program *program,
                                  struct ps_error *error) {
    int instance = straight_instance(programs, worker), count = programs->micro_batches;
    if (instance == NO_INSTANCE) return PS_OK;
    int stage = programs->instances[instance].stage, lag = times * stage;
    int warm_up = times * (programs->stages - 1 - stage) < count ? times * (programs->stages - 1 - stage) : count;
    for (int batch = 0; batch < programs->batches; batch++)
        for (int n = 0, first = batch * count; n < count + warm_up + lag; n++) {
            int input = n - warm_up, weights = input - lag;
            if (n < count) TRY(straight_append(programs, instance, OP_F, first + n, program, error));
            if (input >= 0 && input < count) TRY(straight_append(programs, instance, OP_I, first + input, program, error));
            if (weights >= 0 && weights < count)
                TRY(straight_append(programs, instance, OP_W, first + weights, program, error));
        }
    return PS_OK;
}

static enum ps_status write_once(const struct ps_programs *programs, int worker, struct program *program,
                                 struct ps_error *error) {
    return write_split(programs, worker, 1, program, error);
}

static enum ps_status write_twice(const struct ps_programs *programs, int worker, struct program *program,
                                  struct ps_error *error) {
    return write_split(programs, worker, 2, program, error);
}

const struct schedule schedule_zb_h1 = {
    .name = "zb-h1",
    .summary = "1f1b with the backward split: a third of the bubble in the same memory (ZB-H1)",
    .flush = true,
    .micro_batches = straight_micro_batches,
    .write = write_once,
};

const struct schedule schedule_zb_h2 = {
    .name = "zb-h2",
    .summary = "zb-h1 with twice the warm-up forwards: no bubble, twice the memory (ZB-H2)",
    .flush = true,
    .micro_batches = straight_micro_batches,
    .write = write_twice,
};
