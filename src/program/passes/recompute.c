/* Stages that keep only their input run the forward again right before the backward, on the weights that the backward reads. */
#include "program/lower.h"

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    (void)context;
    const struct instruction *instruction = &programs->worker[worker].code[index];
    if (instruction_takes_gradient(instruction) && programs->recompute[instruction->stage]) {
        struct instruction again = instruction_make(OP_R, instruction->stage, instruction->micro_batch);
        again.slot = instruction->slot;
        TRY(program_append(out, &again, error));
    }
    return program_append(out, instruction, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    return pass_rewrite(programs, visit, NULL, error);
}

const struct pass pass_recompute = {.run = run};
