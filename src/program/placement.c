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
static enum ps_status check_places(const struct schedule *schedule, int stages, const int *stage_worker, int workers, int *holder,
                                   struct ps_error *error) {
    for (int worker = 0; worker < workers; worker++) holder[worker] = -1;
    for (int stage = 0; stage < stages; stage++) {
        int place = schedule_worker_of(schedule, stage, stages, workers);
        if (holder[place] < 0) holder[place] = stage;
        int first = holder[place];
        if (stage_worker[first] != stage_worker[stage])
            return error_set(error, PS_USAGE, "stages[%d].forward: worker %d; schedule %s runs this stage where stage %d runs, on worker %d",
                             stage, stage_worker[stage], schedule->name, first, stage_worker[first]);
    }
    return PS_OK;
}

enum ps_status schedule_check_placement(const struct schedule *schedule, int stages, const int *stage_worker, struct ps_error *error) {
    int *holder = malloc((size_t)stages * sizeof *holder), workers = 0;
    if (!holder) return error_memory(error, "stages", (size_t)stages * sizeof *holder);
    for (int stage = 0; stage < stages; stage++) {
        int other = 0;
        while (other < workers && holder[other] != stage_worker[stage]) other++;
        holder[other] = stage_worker[stage];
        workers += other == workers;
    }
    enum ps_status status = check_count(schedule, stages, workers, error);
    bool anywhere = schedule->placement && schedule->placement->anywhere;
    if (status == PS_OK && !anywhere) status = check_places(schedule, stages, stage_worker, workers, holder, error);
    free(holder);
    return status;
}
