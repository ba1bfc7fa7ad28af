/* Running the passes, and what must hold before they can. */
#include "program/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

enum { SEGMENT_MICRO_BATCHES_MAX = 1 << 24, STAGES_MAX = 1 << 14 };

TABLE_FIND(schedule_find, schedule, schedule_table, "schedule")
TABLE_FIND(policy_find, weight_policy, policy_table, "weights")

enum ps_status lower_check(const char *schedule_name, const char *policy_name, int stages, int micro_batches, struct ps_error *error) {
    const struct schedule *schedule;
    const struct weight_policy *policy;
    TRY(schedule_find(schedule_name, &schedule, error));
    TRY(policy_find(policy_name, &policy, error));
    if (stages < 1 || stages > STAGES_MAX)
        return error_set(error, PS_USAGE, "stages: %d is outside 1 to %d", stages, STAGES_MAX);
    if (micro_batches < 1 || micro_batches > SEGMENT_MICRO_BATCHES_MAX)
        return error_set(error, PS_USAGE, "micro-batches: %d is outside 1 to %d", micro_batches, SEGMENT_MICRO_BATCHES_MAX);
    if (policy->needs_flush && !schedule->flush)
        return error_set(error, PS_USAGE, "weights %s: schedule %s does not flush; take another policy, or a schedule that does",
                         policy_name, schedule_name);
    if (policy->group_of_workers && micro_batches < stages)
        return error_set(error, PS_USAGE, "micro-batches: weights %s needs at least as many as stages (%d), not %d", policy_name,
                         stages, micro_batches);
    return PS_OK;
}

static enum ps_status run_passes(struct ps_programs *programs, struct ps_error *error) {
    for (int i = 0; pass_table[i]; i++) TRY(pass_table[i]->run(programs, error));
    return ps_programs_verify(programs, error);
}

/* `plan` NULL: there is none. */
static enum ps_status lower(const struct ps_plan *plan, const char *schedule, const char *policy, int workers, int stages,
                            const int *stage_worker, const bool *recompute, int micro_batches, int batches, struct ps_programs **out,
                            struct ps_error *error) {
    const struct schedule *found;
    TRY(lower_check(schedule, policy, stages, micro_batches, error));
    TRY(schedule_find(schedule, &found, error));
    TRY(schedule_check_placement(found, stages, stage_worker, error));
    if (batches < 1 || batches > SEGMENT_MICRO_BATCHES_MAX / micro_batches)
        return error_set(error, PS_USAGE, "batches: %d is outside 1 to %d", batches, SEGMENT_MICRO_BATCHES_MAX / micro_batches);
    struct ps_programs *programs;
    TRY(programs_create(workers, stages, &programs, error));
    snprintf(programs->schedule, sizeof programs->schedule, "%s", schedule);
    snprintf(programs->policy, sizeof programs->policy, "%s", policy);
    programs->flush = found->flush;
    programs->micro_batches = micro_batches;
    programs->batches = batches;
    for (int stage = 0; stage < stages; stage++) {
        programs->parts[stage].worker = stage_worker[stage];
        programs->recompute[stage] = recompute && recompute[stage];
    }
    programs->plan = plan;
    enum ps_status status = run_passes(programs, error);
    programs->plan = NULL;
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    *out = programs;
    return PS_OK;
}

enum ps_status lower_straight(const char *schedule, const char *policy, int workers, int micro_batches, int batches, bool recompute,
                              struct ps_programs **programs, struct ps_error *error) {
    const struct schedule *found;
    TRY(schedule_find(schedule, &found, error));
    if (workers < 1 || workers > STAGES_MAX) return error_set(error, PS_USAGE, "stages: %d is outside 1 to %d", workers, STAGES_MAX);
    int stages = schedule_stages(found, workers);
    bool *every = calloc((size_t)stages, sizeof *every);
    int *stage_worker = calloc((size_t)stages, sizeof *stage_worker);
    enum ps_status status = PS_OK;
    if (!every || !stage_worker) status = error_memory(error, "stages", (size_t)stages * sizeof *stage_worker);
    for (int stage = 0; status == PS_OK && stage < stages; stage++) {
        every[stage] = recompute;
        stage_worker[stage] = schedule_worker_of(found, stage, stages, workers);
    }
    if (status == PS_OK)
        status = lower(NULL, schedule, policy, workers, stages, stage_worker, every, micro_batches, batches, programs, error);
    free(stage_worker);
    free(every);
    return status;
}

/* Reads the plan's stages into arrays; a plan that the passes cannot lower is refused here. */
static enum ps_status read_stages(const struct ps_plan *plan, int *stage_worker, bool *recompute, struct ps_error *error) {
    for (int stage = 0; stage < plan->stage_count; stage++) {
        const struct plan_stage *from = &plan->stages[stage];
        if (from->forward_count != 1 || from->backward_count != 1)
            return error_set(error, PS_USAGE, "stages[%d].forward: %d workers; a stage runs on exactly one", stage,
                             from->forward_count != 1 ? from->forward_count : from->backward_count);
        if (from->forward[0] != from->backward[0])
            return error_set(error, PS_USAGE, "stages[%d].backward: worker %d is not the forward's worker %d", stage,
                             from->backward[0], from->forward[0]);
        stage_worker[stage] = from->forward[0];
        recompute[stage] = from->recompute;
    }
    return PS_OK;
}

enum ps_status lower_plan(const struct ps_plan *plan, int batches, struct ps_programs **programs, struct ps_error *error) {
    size_t stages = (size_t)plan->stage_count;
    int *stage_worker = calloc(stages, sizeof *stage_worker);
    bool *recompute = calloc(stages, sizeof *recompute);
    enum ps_status status;
    if (!stage_worker || !recompute) {
        status = error_memory(error, "stages", stages * sizeof *stage_worker);
        goto out;
    }
    TRY_OUT(read_stages(plan, stage_worker, recompute, error));
    status = lower(plan, plan->schedule, plan->weights, plan->workers, plan->stage_count, stage_worker, recompute,
                   plan->micro_batches,
                   batches, programs, error);
out:
    free(recompute);
    free(stage_worker);
    return status;
}

/* In the order in which micro-batches flow: each is one stage further at each moment, and of a worker's stages at a moment the
 * last comes first, which makes room for what the others send. */
static enum ps_status write_evaluation(struct ps_programs *programs, struct ps_error *error) {
    int micro_batches = programs_micro_batches(programs);
    for (int moment = 0; moment < micro_batches + programs->stages - 1; moment++)
        for (int stage = programs->stages - 1; stage >= 0; stage--) {
            if (moment < stage || moment - stage >= micro_batches) continue;
            struct instruction instruction = instruction_make(OP_F, stage, moment - stage);
            instruction.slot = 0;
            TRY(program_append(&programs->worker[programs_worker(programs, stage)], &instruction, error));
        }
    return PS_OK;
}

enum ps_status lower_evaluation(const struct ps_programs *training, int micro_batches, struct ps_programs **out,
                                struct ps_error *error) {
    struct ps_programs *programs;
    TRY(programs_create(training->workers, training->stages, &programs, error));
    memcpy(programs->schedule, training->schedule, sizeof programs->schedule);
    memcpy(programs->policy, training->policy, sizeof programs->policy);
    programs->evaluation = true;
    programs->micro_batches = 1;
    programs->batches = micro_batches;
    enum ps_status status = programs_set_parts(programs, training->parts, training->part_count, error);
    for (int part = 0; status == PS_OK && part < programs->part_count; part++) programs->slots[part].weights = 1;
    if (status == PS_OK) status = write_evaluation(programs, error);
    for (int i = 0; status == PS_OK && pass_table[i]; i++)
        if (pass_table[i]->evaluation) status = pass_table[i]->run(programs, error);
    if (status == PS_OK) status = ps_programs_verify(programs, error);
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    *out = programs;
    return PS_OK;
}

struct worker_memory programs_memory(const struct ps_programs *programs, int worker, const struct stage_sizes *sizes, int moments) {
    struct worker_memory total = {0};
    for (int part = 0; part < programs->part_count; part++) {
        if (programs->parts[part].worker != worker) continue;
        struct worker_memory memory = stage_memory(&sizes[programs->parts[part].stage], &programs->slots[part], moments);
        worker_memory_add(&total, &memory);
    }
    return total;
}

enum ps_status ps_programs_lower(const struct ps_plan *plan, const struct ps_profile *profile, int batches,
                                 struct ps_programs **programs, struct ps_error *error) {
    const struct cost_table *table = NULL;
    if (profile) TRY(profile_table(profile, plan->micro_batch, &table, error));
    TRY(plan_check(plan, table ? table->layer_count : plan->stages[plan->stage_count - 1].last + 1, error));
    return lower_plan(plan, batches, programs, error);
}
