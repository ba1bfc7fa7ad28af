/*
 * An update follows the backward that completes its gradients: the last of the instance's backwards for it in program order. If
 * the stage has replicas, or shares a parameter with another stage, an AR precedes the update; if the sum over replicas has a
 * codec, an ES precedes the AR. In an incomplete round at the end of a segment, replicas without a mini-batch take part in the
 * sum with no gradients.
 *
 * A worker with such instances of several stages makes its updates at the end of the mini-batch: the sum of one stage overlaps
 * with the computations of the others.
 */
#include <stdlib.h>

#include "program/lower.h"

struct updates_pass {
    int *done; /* by instance: backwards for its next update */
    int *made; /* by instance: updates */
    bool *due; /* by instance: its gradients are posted, and the update is to follow */
    int due_count;
};

static bool alone(const struct ps_programs *programs, int instance) {
    for (int other = 0; other < programs->instance_count; other++)
        if (other != instance && programs->instances[other].worker == programs->instances[instance].worker) return false;
    return true;
}

static enum ps_status append_update(struct updates_pass *pass, const struct ps_programs *programs, int instance,
                                    struct program *out, struct ps_error *error) {
    int stage = programs->instances[instance].stage, update = pass->made[instance]++;
    struct instruction sum = instruction_make(OP_AR, stage, update), step = instruction_make(OP_U, stage, update);
    pass->done[instance] = 0;
    bool sums = programs_sums(programs, stage);
    const struct instruction rounding = instruction_make(OP_ES, stage, update);
    if (programs->sum_wire[stage].share.codec != WIRE_NONE) TRY(program_append(out, &rounding, error));
    if (sums) TRY(program_append(out, &sum, error));
    pass->due[instance] = programs->flush && sums && !alone(programs, instance);
    pass->due_count += pass->due[instance];
    return pass->due[instance] ? PS_OK : program_append(out, &step, error);
}

/* The deferred updates of the worker, of mini-batches before `batch`. */
static enum ps_status append_due(struct updates_pass *pass, const struct ps_programs *programs, int worker, int batch,
                                 struct program *out, struct ps_error *error) {
    for (int instance = 0; pass->due_count > 0 && instance < programs->instance_count; instance++) {
        if (programs->instances[instance].worker != worker || !pass->due[instance] || pass->made[instance] > batch) continue;
        struct instruction step = instruction_make(OP_U, programs->instances[instance].stage, pass->made[instance] - 1);
        TRY(program_append(out, &step, error));
        pass->due[instance] = false;
        pass->due_count--;
    }
    return PS_OK;
}

/* Updates of the worker's instances that do not follow any of their own backwards. */
static enum ps_status append_rest(struct updates_pass *pass, const struct ps_programs *programs, int worker,
                                  struct program *out, struct ps_error *error) {
    for (int instance = 0; instance < programs->instance_count; instance++) {
        if (programs->instances[instance].worker != worker || !programs->instances[instance].backward) continue;
        while (pass->made[instance] < programs_updates(programs, programs->instances[instance].stage))
            TRY(append_update(pass, programs, instance, out, error));
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
    int instance = programs_instance(programs, worker, instruction->stage);
    int update = programs_update_of(programs, instruction->stage, instruction->micro_batch);
    if (++pass->done[instance] < programs_share(programs, instance, update)) return PS_OK;
    return append_update(pass, programs, instance, out, error);
}

static enum ps_status run(struct ps_programs *programs, struct ps_error *error) {
    size_t instances = (size_t)programs->instance_count;
    struct arena arena = {0};
    struct updates_pass pass = {.done = arena_take(&arena, instances, sizeof *pass.done),
                                .made = arena_take(&arena, instances, sizeof *pass.made),
                                .due = arena_take(&arena, instances, sizeof *pass.due)};
    TRY(arena_check(&arena, "update pass", error));
    enum ps_status status = pass_rewrite(programs, visit, &pass, error);
    for (int worker = 0; status == PS_OK && worker < programs->workers; worker++)
        status = append_rest(&pass, programs, worker, &programs->worker[worker], error);
    arena_release(&arena);
    return status;
}

const struct pass pass_updates = {.run = run};
