/* Checks where a schedule places the stages. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "program/lower.h"

int schedule_stages(const struct schedule *schedule, int workers) {
    return schedule->placement ? workers * schedule->placement->usual : workers;
}

int schedule_worker_of(const struct schedule *schedule, int stage, int stages, int workers) {
    return schedule->placement ? schedule->placement->worker_of(stage, stages, workers) : stage;
}

int schedule_replicas(const struct schedule *schedule) {
    return schedule->placement && schedule->placement->replicas > 0 ? schedule->placement->replicas : 1;
}

int schedule_replica_worker(const struct schedule *schedule, int stage, int replica, int stages, int workers) {
    if (replica == 0) return schedule_worker_of(schedule, stage, stages, workers);
    return schedule->placement->replica_worker(stage, replica, stages, workers);
}

const char *schedule_names(size_t flag, char names[128]) {
    names[0] = '\0';
    for (int s = 0; schedule_table[s]; s++) {
        size_t used = strlen(names);
        if (*(const bool *)((const char *)schedule_table[s] + flag))
            snprintf(names + used, 128 - used, "%s%s", used > 0 ? ", " : "", schedule_table[s]->name);
    }
    return names;
}

enum ps_status schedule_check_slack(const struct schedule *schedule, int stages, int slack, struct ps_error *error) {
    char names[128];
    if (slack == 0 || (schedule->slack && slack <= PLAN_SLACKS_MAX / stages)) return PS_OK;
    if (schedule->slack)
        return error_set(error, PS_USAGE, "slack: %d for %d stages; their product may be %d at most", slack, stages,
                         PLAN_SLACKS_MAX);
    return error_set(error, PS_USAGE, "slack: schedule %s can have none; these can: %s", schedule->name,
                     schedule_names(offsetof(struct schedule, slack), names));
}

static enum ps_status check_count(const struct schedule *schedule, int stages, int workers, struct ps_error *error) {
    const struct placement *placement = schedule->placement;
    if (placement ? placement->accepts(stages, workers) : stages == workers) return PS_OK;
    return error_set(error, PS_USAGE, "stages: %d on %d workers; schedule %s needs %s", stages, workers, schedule->name,
                     placement ? placement->accepted : "one on each worker");
}

/* Every stage has its replicas on the workers that the schedule specifies, if replica 0 of stage s is on worker s. */
static enum ps_status check_mirrored(const struct schedule *schedule, const struct ps_programs *programs,
                                     struct ps_error *error) {
    int replicas = schedule_replicas(schedule), stages = programs->stages;
    TRY(check_count(schedule, stages, stages, error));
    for (int stage = 0; stage < stages; stage++) {
        if (programs_replicas(programs, stage) != replicas)
            return error_set(error, PS_USAGE, "stages[%d].forward: %d workers; schedule %s needs %d", stage,
                             programs_replicas(programs, stage), schedule->name, replicas);
        for (int r = 0; r < replicas; r++) {
            int worker = programs->instances[programs->first_instance[stage] + r].worker;
            int wanted = programs_worker(programs, schedule_replica_worker(schedule, stage, r, stages, stages));
            if (worker != wanted)
                return error_set(error, PS_USAGE,
                                 "stages[%d].forward: replica %d on worker %d; schedule %s has it on worker %d", stage, r,
                                 worker, schedule->name, wanted);
        }
        for (int other = 0; other < stage; other++)
            if (programs_worker(programs, other) == programs_worker(programs, stage))
                return error_set(error, PS_USAGE, "stages[%d].forward: worker %d has the first replica of stage %d", stage,
                                 programs_worker(programs, stage), other);
    }
    return PS_OK;
}

static enum ps_status check_shares(const struct ps_programs *programs, struct ps_error *error) {
    for (int stage = 0; stage < programs->stages && programs->flush; stage++)
        if (programs->micro_batches < programs_replicas(programs, stage))
            return error_set(error, PS_USAGE, "micro-batches: %d; the %d replicas of stage %d need at least one each",
                             programs->micro_batches, programs_replicas(programs, stage), stage);
    return PS_OK;
}

/* Workers are numbered 0, 1, ... by the first stage that the schedule gives to each. */
static enum ps_status check_places(const struct schedule *schedule, const struct ps_programs *programs, int workers,
                                   int *holder, struct ps_error *error) {
    for (int worker = 0; worker < workers; worker++) holder[worker] = -1;
    for (int stage = 0; stage < programs->stages; stage++) {
        int place = schedule_worker_of(schedule, stage, programs->stages, workers), worker = programs_worker(programs, stage);
        if (holder[place] < 0) holder[place] = stage;
        int first = holder[place];
        if (programs_worker(programs, first) != worker)
            return error_set(error, PS_USAGE,
                             "stages[%d].forward: worker %d; schedule %s runs this stage where stage %d runs, on worker %d",
                             stage, worker, schedule->name, first, programs_worker(programs, first));
    }
    return PS_OK;
}

/* Replicas share the micro-batches of a stage. The schedules with replicas need one instance on each worker. */
static enum ps_status check_replicas(const struct schedule *schedule, const struct ps_programs *programs,
                                     struct ps_error *error) {
    for (int instance = 0; instance < programs->instance_count; instance++) {
        const struct instance *one = &programs->instances[instance];
        if (one->replicas > 1 && !schedule->replicas)
            return error_set(error, PS_USAGE, "stages[%d].forward: %d workers; schedule %s has no replicas", one->stage,
                             one->replicas, schedule->name);
        for (int other = 0; other < instance; other++)
            if (programs->instances[other].worker == one->worker)
                return error_set(error, PS_USAGE,
                                 "stages[%d].forward: worker %d holds stage %d as well; schedule %s needs one on each",
                                 one->stage, one->worker, programs->instances[other].stage, schedule->name);
    }
    return PS_OK;
}

/* The first stage whose forwards and backwards run on different workers. */
static int split_stage(const struct ps_programs *programs) {
    int stage = 0;
    while (stage < programs->stages && !programs_split(programs, stage)) stage++;
    return stage;
}

static enum ps_status check_split(const struct schedule *schedule, const struct ps_programs *programs, int split,
                                  struct ps_error *error) {
    if (!schedule->split)
        return error_set(
            error, PS_USAGE,
            "stages[%d].backward: runs on another worker than the forward; schedule %s does not support split stages", split,
            schedule->name);
    for (int stage = 0; stage < programs->stages; stage++)
        if (programs_replicas(programs, stage) > 1)
            return error_set(error, PS_USAGE,
                             "stages[%d].forward: has replicas, and stage %d runs its two directions on different workers; "
                             "a plan may have one or the other",
                             stage, split);
    return PS_OK;
}

enum ps_status schedule_check_placement(const struct ps_programs *programs, struct ps_error *error) {
    const struct schedule *schedule = programs->schedule;
    int split = split_stage(programs);
    if (split < programs->stages) return check_split(schedule, programs, split, error);
    if (schedule_replicas(schedule) > 1 || programs->instance_count > programs->stages) {
        TRY((schedule_replicas(schedule) > 1 ? check_mirrored : check_replicas)(schedule, programs, error));
        return check_shares(programs, error);
    }
    int *holder, workers = 0;
    TRY(memory_new(&holder, programs->stages, "stages", error));
    for (int stage = 0; stage < programs->stages; stage++) {
        int other = 0;
        while (other < workers && holder[other] != programs_worker(programs, stage)) other++;
        holder[other] = programs_worker(programs, stage);
        workers += other == workers;
    }
    enum ps_status status = check_count(schedule, programs->stages, workers, error);
    bool anywhere = schedule->placement && schedule->placement->anywhere;
    if (status == PS_OK && !anywhere) status = check_places(schedule, programs, workers, holder, error);
    free(holder);
    return status;
}

/* The first stage whose forwards (backwards) a worker runs, or -1. */
static int first_stage(const struct ps_programs *programs, int worker, bool forward) {
    for (int instance = 0; instance < programs->instance_count; instance++) {
        const struct instance *of = &programs->instances[instance];
        if (of->worker == worker && (forward ? of->forward : of->backward)) return of->stage;
    }
    return -1;
}

/* If both workers run forwards, or both backwards, that direction decides which comes first; else the one that runs
 * forwards. */
static bool comes_before(const struct ps_programs *programs, int worker, int other) {
    for (int forward = 1; forward >= 0; forward--) {
        int first = first_stage(programs, worker, forward), later = first_stage(programs, other, forward);
        if (first >= 0 && later >= 0) return first < later;
    }
    return first_stage(programs, worker, true) >= 0 && first_stage(programs, other, false) >= 0;
}

int schedule_workers_behind(const struct ps_programs *programs, int instance) {
    int worker = programs->instances[instance].worker, behind = 0;
    for (int other = 0; other < programs->workers; other++) behind += other != worker && comes_before(programs, worker, other);
    return behind;
}
