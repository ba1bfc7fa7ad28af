/* Where a schedule puts the stages. */
#include <stdlib.h>

#include "program/lower.h"

int schedule_stages(const struct schedule *schedule, int workers) {
    return schedule->placement ? workers * schedule->placement->usual : workers;
}

int schedule_worker_of(const struct schedule *schedule, int stage, int stages, int workers) {
    return schedule->placement ? schedule->placement->worker_of(stage, stages, workers) : stage;
}

static enum ps_status check_count(const struct schedule *schedule, int stages, int workers, struct ps_error *error) {
    const struct placement *placement = schedule->placement;
    if (placement ? placement->accepts(stages, workers) : stages == workers) return PS_OK;
    return error_set(error, PS_USAGE, "stages: %d on %d workers; schedule %s needs %s", stages, workers, schedule->name,
                     placement ? placement->accepted : "one on each worker");
}

/* The workers that hold stages get the numbers 0, 1, ... by the first stage that the schedule would give to each. */
static enum ps_status check_places(const struct schedule *schedule, const struct ps_programs *programs, int workers, int *holder,
                                   struct ps_error *error) {
    for (int worker = 0; worker < workers; worker++) holder[worker] = -1;
    for (int stage = 0; stage < programs->stages; stage++) {
        int place = schedule_worker_of(schedule, stage, programs->stages, workers), worker = programs_worker(programs, stage);
        if (holder[place] < 0) holder[place] = stage;
        int first = holder[place];
        if (programs_worker(programs, first) != worker)
            return error_set(error, PS_USAGE, "stages[%d].forward: worker %d; schedule %s runs this stage where stage %d runs, on worker %d",
                             stage, worker, schedule->name, first, programs_worker(programs, first));
    }
    return PS_OK;
}

/* Replicas share the micro-batches of a stage; the order of the schedules that know them has one part on each worker. */
static enum ps_status check_replicas(const struct schedule *schedule, const struct ps_programs *programs, struct ps_error *error) {
    for (int part = 0; part < programs->part_count; part++) {
        const struct part *one = &programs->parts[part];
        if (one->replicas > 1 && !schedule->replicas)
            return error_set(error, PS_USAGE, "stages[%d].forward: %d workers; schedule %s has no replicas", one->stage, one->replicas,
                             schedule->name);
        if (programs->flush && programs->micro_batches < one->replicas)
            return error_set(error, PS_USAGE, "micro_batches: %d; the %d replicas of stage %d need at least one each",
                             programs->micro_batches, one->replicas, one->stage);
        for (int other = 0; other < part; other++)
            if (programs->parts[other].worker == one->worker)
                return error_set(error, PS_USAGE, "stages[%d].forward: worker %d holds stage %d as well; schedule %s needs one on each",
                                 one->stage, one->worker, programs->parts[other].stage, schedule->name);
    }
    return PS_OK;
}

enum ps_status schedule_check_placement(const struct schedule *schedule, const struct ps_programs *programs, struct ps_error *error) {
    if (programs->part_count > programs->stages) return check_replicas(schedule, programs, error);
    int *holder = malloc((size_t)programs->stages * sizeof *holder), workers = 0;
    if (!holder) return error_memory(error, "stages", (size_t)programs->stages * sizeof *holder);
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
