/*
 * An update follows the backward that completes its gradients: the last of the part's backwards for it in program order. Where
 * the stage has replicas, or shares a parameter with another, their gradients are added up in between. In an incomplete round
 * at the end of a segment replicas without a mini-batch of their own take part in the sum with nothing.
 *
 * A worker that holds such parts of several stages makes its updates when it has done with the mini-batch: the sum of one stage
 * runs beside the computations of the others.
 */
#include <stdlib.h>

#include "program/passes/passes.h"

struct updates_pass {
    int *done; /* by part: backwards for its next update */
    int *made; /* by part: updates */
    bool *due; /* by part: its gradients are offered, the update is still to be made */
    int due_count;
};

static bool alone(const struct ps_programs *programs, int part) {
    for (int other = 0; other < programs->part_count; other++)
        if (other != part && programs->parts[other].worker == programs->parts[part].worker) return false;
    return true;
}

static enum ps_status append_update(struct updates_pass *pass, const struct ps_programs *programs, int part,
                                    struct program *out, struct ps_error *error) {
    int stage = programs->parts[part].stage, update = pass->made[part]++;
    struct instruction sum = instruction_make(OP_AR, stage, update), step = instruction_make(OP_U, stage, update);
    pass->done[part] = 0;
    bool sums = programs_sums(programs, stage);
    if (sums) TRY(program_append(out, &sum, error));
    pass->due[part] = programs->flush && sums && !alone(programs, part);
    pass->due_count += pass->due[part];
    return pass->due[part] ? PS_OK : program_append(out, &step, error);
}

/* The updates that the worker has put off, of mini-batches before `batch`. */
static enum ps_status append_due(struct updates_pass *pass, const struct ps_programs *programs, int worker, int batch,
                                 struct program *out, struct ps_error *error) {
    for (int part = 0; pass->due_count > 0 && part < programs->part_count; part++) {
        if (programs->parts[part].worker != worker || !pass->due[part] || pass->made[part] > batch) continue;
        struct instruction step = instruction_make(OP_U, programs->parts[part].stage, pass->made[part] - 1);
        TRY(program_append(out, &step, error));
        pass->due[part] = false;
        pass->due_count--;
    }
    return PS_OK;
}

/* Updates of the worker's parts that none of their backwards belongs to. */
static enum ps_status append_rest(struct updates_pass *pass, const struct ps_programs *programs, int worker,
                                  struct program *out, struct ps_error *error) {
    for (int part = 0; part < programs->part_count; part++) {
        if (programs->parts[part].worker != worker || !programs->parts[part].backward) continue;
        while (pass->made[part] < programs_updates(programs, programs->parts[part].stage))
            TRY(append_update(pass, programs, part, out, error));
    }
    return append_due(pass, programs, worker, programs->batches, out, error);
}

static enum ps_status visit(void *context, const struct ps_programs *programs, int worker, int index, struct program *out,
                            struct ps_error *error) {
    struct updates_pass *pass = context;
    const struct instruction *instruction = &programs->worker[worker].code[index];
    TRY(append_due(pass, programs, worker, programs_batch(programs, instruction->micro_batch), out, error));
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
    bool *due = calloc(parts, sizeof *due);
    if (!block || !due) {
        free(block);
        free(due);
        return error_memory(error, "update pass", 2 * parts * sizeof *block);
    }
    struct updates_pass pass = {.done = block, .made = block + parts, .due = due};
    enum ps_status status = pass_rewrite(programs, visit, &pass, error);
    for (int worker = 0; status == PS_OK && worker < programs->workers; worker++)
        status = append_rest(&pass, programs, worker, &programs->worker[worker], error);
    free(block);
    free(due);
    return status;
}

const struct pass pass_updates = {.name = "updates", .run = run};
