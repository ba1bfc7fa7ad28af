/*
 * An update follows the backward that completes its gradients: the last of the part's backwards for it in program order. Where the
 * stage has replicas, their gradients are added up in between. In an incomplete round at the end of a segment replicas without a
 * mini-batch of their own take part in the sum with nothing.
 */
#include <stdlib.h>

#include "program/passes/passes.h"

struct updates_pass {
    int *done; /* by part: backwards for its next update */
    int *made; /* by part: updates */
};

static enum ps_status append_update(struct updates_pass *pass, const struct ps_programs *programs, int part, struct program *out,
                                    struct ps_error *error) {
    int stage = programs->parts[part].stage, update = pass->made[part]++;
    struct instruction sum = instruction_make(OP_AR, stage, update), step = instruction_make(OP_U, stage, update);
    pass->done[part] = 0;
    if (programs->parts[part].replicas > 1) TRY(program_append(out, &sum, error));
    return program_append(out, &step, error);
}

/* Updates of the worker's parts that none of their backwards belongs to. */
static enum ps_status append_rest(struct updates_pass *pass, const struct ps_programs *programs, int worker, struct program *out,
                                  struct ps_error *error) {
    for (int part = 0; part < programs->part_count; part++) {
        if (programs->parts[part].worker != worker || !programs->parts[part].backward) continue;
        while (pass->made[part] < programs_updates(programs, programs->parts[part].stage))
            TRY(append_update(pass, programs, part, out, error));
    }
    return PS_OK;
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    struct updates_pass *pass = context;
    const struct instruction *instruction = &programs->worker[worker].code[index];
    TRY(program_append(out, instruction, error));
    if (!instruction_adds_gradients(instruction)) return PS_OK;
    int part = programs_part(programs, worker, instruction->stage);
    int update = programs_update_of(programs, instruction->stage, instruction->micro_batch);
    if (++pass->done[part] < programs_share(programs, part, update)) return PS_OK;
    return append_update(pass, programs, part, out, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    size_t parts = (size_t)programs->part_count;
    int *block = calloc(2 * parts, sizeof *block);
    if (!block) return error_memory(error, "update pass", 2 * parts * sizeof *block);
    struct updates_pass pass = {.done = block, .made = block + parts};
    enum ps_status status = pass_rewrite(programs, visit, &pass, error);
    for (int worker = 0; status == PS_OK && worker < programs->workers; worker++)
        status = append_rest(&pass, programs, worker, &programs->worker[worker], error);
    free(block);
    return status;
}

const struct pass pass_updates = {.name = "updates", .run = run};
