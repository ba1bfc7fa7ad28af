/*
 * 1F1B with a flush, and its variants. Stage p of P runs its warm-up forwards, then one forward and one backward alternately,
 * and drains at the end of each mini-batch. It holds straight_ahead + 1 micro-batches (P-p), or twice as many.
 *
 *   1f1b      P-1-p warm-up forwards (DAPPLE, Fan et al. 2021; BaPipe's 1F1B-SNO, Zhao et al. 2020); the bubble is GPipe's
 *   1f1b-so   twice the micro-batches, so that each transfer can overlap with a forward and a backward (BaPipe's 1F1B-SO)
 *   1f1b-as   1f1b on devices that stream a result while they compute it, so that the transfer overlaps with the computation
 *             that makes the block (BaPipe's 1F1B-AS, figure 5(a))
 *   fbp-as    a device runs a forward and a backward concurrently and streams both, with twice the micro-batches (BaPipe's
 *             FBP-AS, figure 5(b); first in FPDeep)
 *
 * The program of fbp-as has both kinds in one list. A runtime with one lane works in that order. The simulator splits the list
 * into a lane of forwards and one of backwards, which wait for each other only if one needs a result or a free block of the
 * other (simulate/lanes.c). The proof of freedom from deadlock also holds for the lanes: fewer instructions wait for each other
 * than in the list.
 */
#include "program/schedules/orders.h"

static enum ps_status write_holding(const struct ps_programs *programs, int worker, int times, struct program *program,
                                    struct ps_error *error) {
    int instance = straight_instance(programs, worker);
    for (int batch = 0; instance != NO_INSTANCE && batch < programs->batches; batch++) {
        int m = programs_share(programs, instance, batch), ahead = straight_ahead(programs, instance);
        TRY(straight_one_forward_one_backward(programs, instance, program, batch * m, m, times * (ahead + 1) - 1, error));
    }
    return PS_OK;
}

static enum ps_status write(const struct ps_programs *programs, int worker, struct program *program, struct ps_error *error) {
    return write_holding(programs, worker, 1, program, error);
}

static enum ps_status write_twice(const struct ps_programs *programs, int worker, struct program *program,
                                  struct ps_error *error) {
    return write_holding(programs, worker, 2, program, error);
}

const struct schedule schedule_1f1b = {
    .name = "1f1b",
    .summary = "one forward, one backward alternately, drained at each update (DAPPLE, 1F1B-SNO)",
    .flush = true,
    .bapipe = true,
    .replicas = true,
    .split = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};

const struct schedule schedule_1f1b_so = {
    .name = "1f1b-so",
    .summary = "1f1b with twice the warm-up forwards, which hides transfers (BaPipe's 1F1B-SO)",
    .flush = true,
    .bapipe = true,
    .replicas = true,
    .micro_batches = straight_micro_batches,
    .write = write_twice,
};

const struct schedule schedule_1f1b_as = {
    .name = "1f1b-as",
    .summary = "1f1b on devices that stream their results (BaPipe's 1F1B-AS)",
    .flush = true,
    .bapipe = true,
    .replicas = true,
    .streaming = true,
    .micro_batches = straight_micro_batches,
    .write = write,
};

const struct schedule schedule_fbp_as = {
    .name = "fbp-as",
    .summary = "a forward and a backward at the same time on each device, streaming their results (BaPipe's FBP-AS)",
    .flush = true,
    .bapipe = true,
    .streaming = true,
    .lanes = true,
    .micro_batches = straight_micro_batches,
    .write = write_twice,
};
