/* Instances: which worker holds what of a stage, and which of a stage's replicas a micro-batch goes to. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"

enum ps_status programs_set_instances(struct ps_programs *programs, const struct instance *instances, int count,
                                      struct ps_error *error) {
    struct instance *copy = malloc((size_t)count * sizeof *copy);
    struct stage_slots *slots = calloc((size_t)count, sizeof *slots);
    if (!copy || !slots) {
        free(copy);
        free(slots);
        return error_memory(error, "parts of stages", (size_t)count * sizeof *slots);
    }
    memcpy(copy, instances, (size_t)count * sizeof *copy);
    free(programs->instances);
    free(programs->slots);
    programs->instances = copy;
    programs->slots = slots;
    programs->instance_count = count;
    for (int stage = 0, instance = 0; stage <= programs->stages; stage++) {
        while (instance < count && copy[instance].stage < stage) instance++;
        programs->first_instance[stage] = instance;
    }
    return PS_OK;
}

bool programs_has_pattern(const struct ps_programs *programs) { return programs->plan && programs->plan->pattern_count > 0; }

int programs_instance(const struct ps_programs *programs, int worker, int stage) {
    for (int instance = programs->first_instance[stage]; instance < programs->first_instance[stage + 1]; instance++)
        if (programs->instances[instance].worker == worker) return instance;
    return NO_INSTANCE;
}

static int replica_of(const struct ps_programs *programs, int replicas, int micro_batch) {
    if (replicas == 1) return 0;
    return (programs->flush ? micro_batch % programs->micro_batches : programs_batch(programs, micro_batch)) % replicas;
}

bool programs_takes(const struct ps_programs *programs, int instance, int micro_batch) {
    const struct instance *p = &programs->instances[instance];
    return replica_of(programs, p->replicas, micro_batch) == p->replica;
}

int programs_forward_instance(const struct ps_programs *programs, int stage, int micro_batch) {
    int instance = programs->first_instance[stage];
    while (!programs->instances[instance].forward || !programs_takes(programs, instance, micro_batch)) instance++;
    assert(instance < programs->first_instance[stage + 1]);
    return instance;
}

int programs_backward_instance(const struct ps_programs *programs, int stage, int micro_batch) {
    int instance = programs->first_instance[stage];
    while (!programs->instances[instance].backward || !programs_takes(programs, instance, micro_batch)) instance++;
    assert(instance < programs->first_instance[stage + 1]);
    return instance;
}

struct sum_group programs_sum_group(const struct ps_programs *programs, int stage) {
    int last = programs->stages - 1;
    if (!programs->tied || last == 0 || programs->evaluation || (stage > 0 && stage < last))
        return (struct sum_group){
            .number = stage, .stages = {stage}, .stage_count = 1, .size = programs_replicas(programs, stage)};
    return (struct sum_group){
        .stages = {0, last}, .stage_count = 2, .size = programs_replicas(programs, 0) + programs_replicas(programs, last)};
}

struct sum_passes programs_sum_passes(const struct ps_programs *programs, const struct sum_group *group) {
    struct sum_passes passes = {.count = 0};
    for (int s = 0; s < group->stage_count && group->stage_count > 1; s++) {
        const int stage = group->stages[s], replicas = programs_replicas(programs, stage);
        if (replicas > 1)
            passes.pass[passes.count++] =
                (struct sum_group){.number = group->number, .stages = {stage}, .stage_count = 1, .size = replicas};
    }
    passes.pass[passes.count++] = *group;
    return passes;
}

double sum_pass_share(const struct sum_group *pass, const struct stage_sizes *size) {
    int64_t all = stage_gradient_bytes(size) + size->statistics_bytes;
    return pass->stage_count == 2 && all > 0 ? (double)size->tied_bytes / (double)all : 1;
}

bool sum_pass_has(const struct sum_group *pass, int stage) {
    return pass->stages[0] == stage || (pass->stage_count == 2 && pass->stages[1] == stage);
}

int programs_round(const struct ps_programs *programs, int stage) {
    return programs->flush ? 1 : programs_replicas(programs, stage);
}

int programs_updates(const struct ps_programs *programs, int stage) {
    int round = programs_round(programs, stage);
    return (programs->batches + round - 1) / round;
}

int programs_update_of(const struct ps_programs *programs, int stage, int micro_batch) {
    return programs_batch(programs, micro_batch) / programs_round(programs, stage);
}

int programs_share(const struct ps_programs *programs, int instance, int update) {
    const struct instance *of = &programs->instances[instance];
    if (programs->flush) return (programs->micro_batches - of->replica + of->replicas - 1) / of->replicas;
    return update * of->replicas + of->replica < programs->batches ? programs->micro_batches : 0;
}

int programs_nth(const struct ps_programs *programs, int instance, int n) {
    const struct instance *of = &programs->instances[instance];
    if (programs->flush) {
        int share = programs_share(programs, instance, 0);
        return n / share * programs->micro_batches + n % share * of->replicas + of->replica;
    }
    int batch = n / programs->micro_batches * of->replicas + of->replica;
    return batch * programs->micro_batches + n % programs->micro_batches;
}

int programs_taken(const struct ps_programs *programs, int instance) {
    const struct instance *of = &programs->instances[instance];
    if (programs->flush) return programs_share(programs, instance, 0) * programs->batches;
    return (programs->batches - of->replica + of->replicas - 1) / of->replicas * programs->micro_batches;
}
