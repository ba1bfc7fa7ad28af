/* Runs the passes, and checks their preconditions. */
#include "program/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/table.h"

enum { SEGMENT_MICRO_BATCHES_MAX = 1 << 24, STAGES_MAX = 1 << 14 };

TABLE_FIND(schedule_find, schedule, schedule_table, "schedule")
TABLE_FIND(policy_find, weight_policy, policy_table, "weights")

enum ps_status lower_check(const char *schedule_name, const char *policy_name, int stages, int micro_batches,
                           struct ps_error *error) {
    const struct schedule *schedule;
    const struct weight_policy *policy;
    TRY(schedule_find(schedule_name, &schedule, error));
    TRY(policy_find(policy_name, &policy, error));
    if (stages < 1 || stages > STAGES_MAX)
        return error_set(error, PS_USAGE, "stages: %d is outside 1 to %d", stages, STAGES_MAX);
    if (micro_batches < 1 || micro_batches > SEGMENT_MICRO_BATCHES_MAX)
        return error_set(error, PS_USAGE, "micro-batches: %d is outside 1 to %d", micro_batches, SEGMENT_MICRO_BATCHES_MAX);
    if (policy->needs_flush && !schedule->flush)
        return error_set(error, PS_USAGE,
                         "weights %s: schedule %s does not flush; use another policy, or a schedule with a flush", policy_name,
                         schedule_name);
    if (policy->group_of_workers && micro_batches < stages)
        return error_set(error, PS_USAGE, "micro-batches: weights %s needs at least as many as stages (%d), not %d",
                         policy_name, stages, micro_batches);
    return PS_OK;
}

static enum ps_status run_passes(struct ps_programs *programs, struct ps_error *error) {
    for (int i = 0; pass_table[i]; i++) TRY(pass_table[i]->run(programs, error));
    return ps_programs_verify(programs, error);
}

/* Arguments of the lowering; everything is borrowed. */
struct lowering {
    const struct ps_plan *plan; /* may be NULL */
    const char *schedule, *policy;
    int workers, stages, micro_batches, batches, slack;
    const struct instance *instances;
    int instance_count;
    const bool *recompute; /* per stage */
    const int *tied;       /* per stage: the first of the stages that share parameters with it (plan_tied_stages) */
};

/* If an update does not wait for all gradients of a mini-batch, one of the stages would wait for another every time. */
static enum ps_status check_ties(const struct ps_programs *programs, struct ps_error *error) {
    if (programs->flush || !programs_tied(programs)) return PS_OK;
    int stage = 0;
    while (programs->groups[stage].stage_count == 1) stage++;
    error_set(error, PS_USAGE, "schedule %s does not flush, and stages %d and %d share weights (tied)",
              programs->schedule->name, stage, programs->groups[stage].stages[1]);
    error_hint(error,
               "use a schedule with a flush, such as 1f1b, a plan with all uses of a parameter in one stage, or a network "
               "that shares none (tied=0)");
    return PS_USAGE;
}

static enum ps_status check_policy(const struct ps_programs *programs, struct ps_error *error) {
    for (int stage = 0; stage < programs->stages && programs->policy->group_of_workers; stage++)
        if (programs_round(programs, stage) > 1)
            return error_set(error, PS_USAGE,
                             "weights %s: reads weights one update old, but the replicas of stage %d run whole mini-batches; "
                             "use another policy, "
                             "or a schedule with a flush",
                             programs->policy->name, stage);
    return PS_OK;
}

static enum ps_status fill(const struct lowering *lowering, struct ps_programs *programs, struct ps_error *error) {
    TRY(schedule_find(lowering->schedule, &programs->schedule, error));
    TRY(policy_find(lowering->policy, &programs->policy, error));
    programs->flush = programs->schedule->flush;
    programs->micro_batches = lowering->micro_batches;
    programs->batches = lowering->batches;
    programs->slack = lowering->slack;
    TRY(schedule_check_slack(programs->schedule, lowering->stages, lowering->slack, error));
    for (int stage = 0; stage < lowering->stages; stage++) {
        programs->recompute[stage] = lowering->recompute[stage];
        if (!lowering->plan) continue;
        const struct stage_wire wire = plan_stage_wire(lowering->plan, stage);
        programs->wire[stage] = wire.after;
        programs->sum_wire[stage] = wire.sum;
    }
    TRY(programs_set_instances(programs, lowering->instances, lowering->instance_count, error));
    TRY(schedule_check_placement(programs, error));
    TRY(check_policy(programs, error));
    TRY(programs_set_groups(programs, lowering->tied, error));
    TRY(check_ties(programs, error));
    programs->plan = lowering->plan;
    enum ps_status status = run_passes(programs, error);
    programs->plan = NULL;
    return status;
}

static enum ps_status lower(const struct lowering *lowering, struct ps_programs **out, struct ps_error *error) {
    int micro_batches = lowering->micro_batches, batches = lowering->batches;
    TRY(lower_check(lowering->schedule, lowering->policy, lowering->stages, micro_batches, error));
    if (batches < 1 || batches > SEGMENT_MICRO_BATCHES_MAX / micro_batches)
        return error_set(error, PS_USAGE, "batches: %d is outside 1 to %d", batches, SEGMENT_MICRO_BATCHES_MAX / micro_batches);
    struct ps_programs *programs;
    TRY(programs_create(lowering->workers, lowering->stages, &programs, error));
    enum ps_status status = fill(lowering, programs, error);
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    *out = programs;
    return PS_OK;
}

enum ps_status lower_straight(const struct straight *wanted, struct ps_programs **programs, struct ps_error *error) {
    const struct schedule *found;
    int workers = wanted->workers;
    TRY(schedule_find(wanted->schedule, &found, error));
    if (workers < 1 || workers > STAGES_MAX)
        return error_set(error, PS_USAGE, "stages: %d is outside 1 to %d", workers, STAGES_MAX);
    int stages = schedule_stages(found, workers), replicas = schedule_replicas(found), count = stages * replicas;
    struct arena arena = {0};
    bool *every = arena_take(&arena, (size_t)stages, sizeof *every);
    int *tied = arena_take(&arena, (size_t)stages, sizeof *tied);
    struct instance *instances = arena_take(&arena, (size_t)count, sizeof *instances);
    TRY(arena_check(&arena, "stages", error));
    for (int p = 0; p < count; p++) {
        int stage = p / replicas, replica = p % replicas;
        every[stage] = wanted->recompute;
        instances[p] = (struct instance){.stage = stage,
                                         .worker = schedule_replica_worker(found, stage, replica, stages, workers),
                                         .forward = true,
                                         .backward = true,
                                         .replica = replica,
                                         .replicas = replicas};
    }
    for (int stage = 0; stage < stages; stage++) tied[stage] = stage;
    if (wanted->tied) tied[stages - 1] = 0;
    struct lowering lowering = {.schedule = wanted->schedule,
                                .policy = wanted->policy,
                                .workers = workers,
                                .stages = stages,
                                .instances = instances,
                                .instance_count = count,
                                .recompute = every,
                                .tied = tied,
                                .micro_batches = wanted->micro_batches,
                                .batches = wanted->batches,
                                .slack = wanted->slack};
    enum ps_status status = lower(&lowering, programs, error);
    arena_release(&arena);
    return status;
}

/* The same workers run a stage's forwards and its backwards, or one worker runs each. */
static enum ps_status check_both_ways(const struct ps_plan *plan, int stage, struct ps_error *error) {
    const struct plan_stage *from = &plan->stages[stage];
    if (from->forward_count != from->backward_count)
        return error_set(error, PS_USAGE, "stages[%d].backward: %d workers, but %d in forward", stage, from->backward_count,
                         from->forward_count);
    for (int r = 0; r < from->forward_count && from->forward_count > 1; r++)
        if (from->forward[r] != from->backward[r])
            return error_set(error, PS_USAGE,
                             "stages[%d].backward: worker %d is not the forward's worker %d; replicas run both", stage,
                             from->backward[r], from->forward[r]);
    return PS_OK;
}

/* Reads the plan's stages into instances (room for one per worker of a stage, for two if it is split), and counts them. Refuses
 * a plan that the passes cannot lower. */
static enum ps_status read_stages(const struct ps_plan *plan, struct instance *instances, int *count, bool *recompute,
                                  struct ps_error *error) {
    *count = 0;
    for (int stage = 0; stage < plan->stage_count; stage++) {
        const struct plan_stage *from = &plan->stages[stage];
        TRY(check_both_ways(plan, stage, error));
        bool split = from->forward[0] != from->backward[0];
        for (int r = 0; r < from->forward_count; r++)
            instances[(*count)++] = (struct instance){.stage = stage,
                                                      .worker = from->forward[r],
                                                      .forward = true,
                                                      .backward = !split,
                                                      .replica = r,
                                                      .replicas = from->forward_count};
        if (split)
            instances[(*count)++] =
                (struct instance){.stage = stage, .worker = from->backward[0], .backward = true, .replicas = 1};
        recompute[stage] = from->recompute;
    }
    return PS_OK;
}

enum ps_status lower_plan(const struct ps_plan *plan, int batches, struct ps_programs **programs, struct ps_error *error) {
    size_t count = 0;
    for (int stage = 0; stage < plan->stage_count; stage++) count += (size_t)plan->stages[stage].forward_count + 1;
    struct arena arena = {0};
    struct instance *instances = arena_take(&arena, count, sizeof *instances);
    bool *recompute = arena_take(&arena, (size_t)plan->stage_count, sizeof *recompute);
    int *tied = arena_take(&arena, (size_t)plan->stage_count, sizeof *tied);
    TRY(arena_check(&arena, "stages", error));
    struct lowering lowering = {.plan = plan,
                                .schedule = plan->schedule,
                                .policy = plan->weights,
                                .workers = plan->workers,
                                .stages = plan->stage_count,
                                .instances = instances,
                                .recompute = recompute,
                                .tied = tied,
                                .micro_batches = plan->micro_batches,
                                .batches = batches,
                                .slack = plan->slack};
    plan_tied_stages(plan, tied);
    enum ps_status status = read_stages(plan, instances, &lowering.instance_count, recompute, error);
    if (status == PS_OK) status = lower(&lowering, programs, error);
    arena_release(&arena);
    return status;
}

/* In the order in which micro-batches flow: at each level every micro-batch is one stage further. Of the stages of a worker at
 * a level the last comes first, which frees a block before the others send. Micro-batches go to replicas round robin. */
static enum ps_status write_evaluation(struct ps_programs *programs, struct ps_error *error) {
    int micro_batches = programs_micro_batches(programs);
    for (int moment = 0; moment < micro_batches + programs->stages - 1; moment++)
        for (int stage = programs->stages - 1; stage >= 0; stage--) {
            if (moment < stage || moment - stage >= micro_batches) continue;
            struct instruction instruction = instruction_make(OP_F, stage, moment - stage);
            instruction.slot = 0;
            int instance = programs_forward_instance(programs, stage, moment - stage);
            TRY(program_append(&programs->worker[programs->instances[instance].worker], &instruction, error));
        }
    return PS_OK;
}

enum ps_status lower_evaluation(const struct ps_programs *training, int micro_batches, struct ps_programs **out,
                                struct ps_error *error) {
    struct ps_programs *programs;
    TRY(programs_create(training->workers, training->stages, &programs, error));
    programs->schedule = training->schedule;
    programs->policy = training->policy;
    programs->evaluation = true;
    programs->micro_batches = 1;
    programs->batches = micro_batches;
    memcpy(programs->wire, training->wire, (size_t)training->stages * sizeof *programs->wire);
    enum ps_status status = programs_set_instances(programs, training->instances, training->instance_count, error);
    for (int instance = 0; status == PS_OK && instance < programs->instance_count; instance++)
        programs->slots[instance].weights = 1;
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

struct worker_memory programs_memory(const struct ps_programs *programs, int worker, const struct stage_sizes *sizes,
                                     int moments) {
    struct worker_memory total = {0};
    for (int instance = 0; instance < programs->instance_count; instance++) {
        if (programs->instances[instance].worker != worker) continue;
        struct worker_memory memory =
            stage_memory(&sizes[programs->instances[instance].stage], &programs->slots[instance], moments);
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
