/* What schedules with one stage per worker share. */
#include "program/schedules/straight.h"

int straight_stage(const struct ps_programs *programs, int worker) {
    for (int stage = 0; stage < programs->stages; stage++)
        if (programs_worker(programs, stage) == worker) return stage;
    return -1;
}

enum ps_status straight_compute(struct program *program, enum opcode op, int stage, int micro_batch, struct ps_error *error) {
    struct instruction instruction = instruction_make(op, stage, micro_batch);
    return program_append(program, &instruction, error);
}

enum ps_status straight_one_forward_one_backward(struct program *program, int stage, int first, int count, int warm_up,
                                                 struct ps_error *error) {
    if (warm_up > count) warm_up = count;
    for (int k = 0; k < count + warm_up; k++) {
        if (k < count) TRY(straight_compute(program, OP_F, stage, first + k, error));
        if (k >= warm_up) TRY(straight_compute(program, OP_B, stage, first + k - warm_up, error));
    }
    return PS_OK;
}

enum ps_status straight_split_backward(struct program *program, int stage, int first, int count, int warm_up, int lag,
                                       struct ps_error *error) {
    if (warm_up > count) warm_up = count;
    for (int k = 0; k < count + warm_up + lag; k++) {
        int input = k - warm_up, weights = input - lag;
        if (k < count) TRY(straight_compute(program, OP_F, stage, first + k, error));
        if (input >= 0 && input < count) TRY(straight_compute(program, OP_I, stage, first + input, error));
        if (weights >= 0 && weights < count) TRY(straight_compute(program, OP_W, stage, first + weights, error));
    }
    return PS_OK;
}

int straight_micro_batches(int workers) {
    if (workers == 1) return 1;
    int micro_batches = 1;
    while (micro_batches < 2 * workers) micro_batches *= 2;
    return micro_batches;
}
