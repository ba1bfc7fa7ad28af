/*
 * Encodes for the wire what crosses a cut to which the plan gives a codec. A result is encoded right after the computation that
 * makes it, before its send; what was received is decoded right before the computation that reads it, so that the transfer may
 * take until then. What stays on one worker is not encoded, nor is anything in an evaluation, which so measures the weights
 * alone.
 */
#include "program/lower.h"

/* The codec by which the instruction `op` would work on the same micro-batch. The receiver and the sender must not be on the
 * same worker. */
static enum ps_status add(const struct ps_programs *programs, int worker, const struct instruction *at, enum opcode op,
                          int peer, struct program *out, struct ps_error *error) {
    struct instruction instruction = instruction_make(op, at->stage, at->micro_batch);
    instruction.peer = (int16_t)peer;
    if (programs_wire(programs, worker, &instruction)->codec == WIRE_NONE) return PS_OK;
    instruction.peer = -1;
    return program_append(out, &instruction, error);
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    const struct instruction *instruction = &programs->worker[worker].code[index];
    const int stage = instruction->stage, k = instruction->micro_batch;
    (void)context;
    if (instruction->op == OP_SA || instruction->op == OP_SG)
        TRY(add(programs, worker, instruction, instruction->op == OP_SA ? OP_EA : OP_EG, instruction->peer, out, error));
    if (instruction->op == OP_F && stage > 0) {
        const int from = programs_forward_instance(programs, stage - 1, k);
        TRY(add(programs, worker, instruction, OP_DA, programs->instances[from].worker, out, error));
    }
    if (instruction_takes_gradient(instruction) && stage + 1 < programs->stages) {
        const int from = programs_backward_instance(programs, stage + 1, k);
        TRY(add(programs, worker, instruction, OP_DG, programs->instances[from].worker, out, error));
    }
    return program_append(out, instruction, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    bool encodes = false;
    for (int stage = 0; stage < programs->stages; stage++)
        encodes =
            encodes || programs->wire[stage].activation.codec != WIRE_NONE || programs->wire[stage].gradient.codec != WIRE_NONE;
    return encodes ? pass_rewrite(programs, visit, NULL, error) : PS_OK;
}

const struct pass pass_wire = {.run = run};
