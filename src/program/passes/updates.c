/* An update follows the backward that completes its mini-batch: the last of those that add to the mini-batch's gradients. */
#include <stdlib.h>

#include "program/passes/passes.h"

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    int *done = context; /* backwards so far, by stage and mini-batch */
    const struct instruction *instruction = &programs->worker[worker].code[index];
    TRY(program_append(out, instruction, error));
    if (!instruction_adds_gradients(instruction)) return PS_OK;
    int batch = programs_batch(programs, instruction->micro_batch);
    if (++done[instruction->stage * programs->batches + batch] < programs->micro_batches) return PS_OK;
    struct instruction update = instruction_make(OP_U, instruction->stage, batch);
    return program_append(out, &update, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    size_t bytes = (size_t)programs->stages * (size_t)programs->batches * sizeof(int);
    int *done = calloc(1, bytes);
    if (!done) return error_memory(error, "update pass", bytes);
    enum ps_status status = pass_rewrite(programs, visit, done, error);
    free(done);
    return status;
}

const struct pass pass_updates = {.name = "updates", .run = run};
