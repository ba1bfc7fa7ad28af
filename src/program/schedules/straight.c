/* What schedules with one stage per worker share. */
#include "program/schedules/straight.h"

int straight_stage(const struct ps_programs *programs, int worker) {
    for (int stage = 0; stage < programs->stages; stage++)
        if (programs_worker(programs, stage) == worker) return stage;
    return -1;
}

int straight_part(const struct ps_programs *programs, int worker) {
    int instance = 0;
    while (instance < programs->instance_count && programs->instances[instance].worker != worker) instance++;
    return instance < programs->instance_count ? instance : NO_INSTANCE;
}

static bool any_split(const struct ps_programs *programs) {
    for (int stage = 0; stage < programs->stages && programs->instance_count > programs->stages; stage++)
        if (programs_split(programs, stage)) return true;
    return false;
}

/* `under_way`: how many the later stages hold. Where whole mini-batches go to replicas in turn, from the last stage with
 * replicas backwards it is mini-batches that are counted. */
int straight_ahead(const struct ps_programs *programs, int instance) {
    int stage = programs->instances[instance].stage, under_way = 0, held = 0, unit = 1;
    if (any_split(programs)) return schedule_workers_behind(programs, instance);
    for (int s = programs->stages - 1; s >= stage; s--) {
        int replicas = programs_replicas(programs, s);
        if (replicas > 1 && unit == 1 && !programs->flush) {
            unit = programs->micro_batches;
            under_way = (under_way + unit - 1) / unit;
        }
        held = 1 + (under_way + replicas - 1) / replicas;
        under_way = held * replicas;
    }
    return unit * held - 1;
}

enum ps_status straight_append(const struct ps_programs *programs, int instance, enum opcode op, int n, struct program *program,
                               struct ps_error *error) {
    int micro_batch = programs_nth(programs, instance, n), stages = programs->stages;
    bool forward = op == OP_F;
    if (!any_split(programs)) return straight_compute(program, op, programs->instances[instance].stage, micro_batch, error);
    for (int i = 0; i < stages; i++) {
        int stage = forward ? i : stages - 1 - i,
            own = programs_instance(programs, programs->instances[instance].worker, stage);
        if (own == NO_INSTANCE || !(forward ? programs->instances[own].forward : programs->instances[own].backward)) continue;
        TRY(straight_compute(program, op, stage, micro_batch, error));
    }
    return PS_OK;
}

enum ps_status straight_compute(struct program *program, enum opcode op, int stage, int micro_batch, struct ps_error *error) {
    struct instruction instruction = instruction_make(op, stage, micro_batch);
    return program_append(program, &instruction, error);
}

enum ps_status straight_one_forward_one_backward(const struct ps_programs *programs, int instance, struct program *program,
                                                 int first, int count, int warm_up, struct ps_error *error) {
    if (warm_up > count) warm_up = count;
    for (int n = 0; n < count + warm_up; n++) {
        if (n < count) TRY(straight_append(programs, instance, OP_F, first + n, program, error));
        if (n >= warm_up) TRY(straight_append(programs, instance, OP_B, first + n - warm_up, program, error));
    }
    return PS_OK;
}

enum ps_status straight_write_drained(const struct ps_programs *programs, int worker, int times, struct program *program,
                                      struct ps_error *error) {
    int instance = straight_part(programs, worker);
    for (int batch = 0; instance != NO_INSTANCE && batch < programs->batches; batch++) {
        int m = programs_share(programs, instance, batch), ahead = straight_ahead(programs, instance);
        TRY(straight_one_forward_one_backward(programs, instance, program, batch * m, m, times * (ahead + 1) - 1, error));
    }
    return PS_OK;
}

enum ps_status straight_split_backward(const struct ps_programs *programs, int instance, struct program *program, int first,
                                       int count, int warm_up, int lag, struct ps_error *error) {
    if (warm_up > count) warm_up = count;
    for (int n = 0; n < count + warm_up + lag; n++) {
        int input = n - warm_up, weights = input - lag;
        if (n < count) TRY(straight_append(programs, instance, OP_F, first + n, program, error));
        if (input >= 0 && input < count) TRY(straight_append(programs, instance, OP_I, first + input, program, error));
        if (weights >= 0 && weights < count) TRY(straight_append(programs, instance, OP_W, first + weights, program, error));
    }
    return PS_OK;
}

int straight_micro_batches(int workers) {
    if (workers == 1) return 1;
    int micro_batches = 1;
    while (micro_batches < 2 * workers) micro_batches *= 2;
    return micro_batches;
}
