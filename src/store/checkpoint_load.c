/* Filling an executor from a checkpoint; see checkpoint.h. */
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "store/checkpoint.h"

struct loading {
    const struct checkpoint *checkpoint;
    const struct graph *graph;
    const struct update_rule *rule;
    struct weight_files weights, moments;
    int missing; /* moments that the checkpoint lacks */
    struct safetensors wire;
    int begun_anew; /* error feedback that it lacks */
};

/* Updates of a stage that begins with layer `first`: those of the stage that the layer was in. */
static int64_t updates_of(const struct checkpoint *checkpoint, int first) {
    int s = 0;
    while (first > checkpoint->stages[s].last) s++;
    return checkpoint->stages[s].updates;
}

static enum ps_status load_moment(struct loading *loading, struct worker_stage *stage, int number, struct ps_error *error) {
    char moment[64], name[256];
    update_rule_moment_name(loading->rule, number, moment);
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        if (parameter->role != PARAMETER_TRAINED) continue;
        snprintf(name, sizeof name, "%.180s.%.60s", parameter->name, moment);
        const struct safetensors *file = weight_files_find(&loading->moments, name);
        if (!file) {
            loading->missing++;
            continue;
        }
        const float *values;
        TRY(safetensors_get(file, name, parameter->shape.dim, parameter->shape.rank, &values, error));
        TRY(stage_import_f32(stage->stage, i, values, stage->update.moment[number], NULL, error));
    }
    return PS_OK;
}

static enum ps_status load_stage(struct loading *loading, struct worker_stage *stage, int first, bool real,
                                 struct ps_error *error) {
    stage->update.done = updates_of(loading->checkpoint, first);
    if (!real) return PS_OK;
    TRY(weight_files_load(&loading->weights, loading->graph, stage->stage, stage->update.master, stage->weights[0],
                          stage->statistics, error));
    for (int m = 0; m < loading->rule->moments && !stage->slots.forward_only; m++) TRY(load_moment(loading, stage, m, error));
    return PS_OK;
}

/* What it has of the stage's error feedback at its cuts; the rest begins at zero. */
static enum ps_status load_feedback(struct loading *loading, struct device *device, struct worker_stage *stage,
                                    const struct ps_plan *plan, struct ps_error *error) {
    for (int b = 0; b < WIRE_CODED; b++) {
        const int64_t count = (int64_t)worker_feedback_floats(stage, b);
        const float *values;
        char name[64];
        if (count == 0) continue;
        checkpoint_feedback_name(plan, stage, b, name);
        if (safetensors_get(&loading->wire, name, &count, 1, &values, NULL) == PS_OK)
            TRY(worker_feedback_move(device, stage, b, true, (float *)(uintptr_t)values, error));
        else
            loading->begun_anew++;
    }
    return PS_OK;
}

static enum ps_status load_stages(struct loading *loading, struct executor *executor, const struct ps_plan *plan,
                                  struct ps_error *error) {
    const int last = plan->stages[plan->stage_count - 1].last,
              kept = loading->checkpoint->stages[loading->checkpoint->stage_count - 1].last;
    if (kept != last)
        return error_set(error, PS_BAD_INPUT, "%s: its stages end with layer %d, but the network's last is %d",
                         loading->checkpoint->directory, kept + 1, last + 1);
    if (executor->real) {
        TRY(weight_files_open_checkpoint(loading->checkpoint->directory, &loading->weights, error));
        TRY(weight_files_open_moments(loading->checkpoint->directory, loading->checkpoint->stage_count, &loading->moments,
                                      error));
        char path[4096];
        file_join(path, loading->checkpoint->directory, CHECKPOINT_WIRE);
        if (file_exists(path)) TRY(safetensors_read(path, &loading->wire, error));
    }
    for (int number = 0; number < executor->worker_count; number++)
        for (int i = 0; i < executor->workers[number].stage_count; i++) {
            struct worker_stage *stage = &executor->workers[number].stages[i];
            TRY(load_stage(loading, stage, plan->stages[stage->number].first, executor->real, error));
            if (executor->real) TRY(load_feedback(loading, executor->workers[number].device, stage, plan, error));
        }
    if (loading->missing > 0)
        log_warn("%s: %d moments of the optimizer are not in it and begin at zero", loading->checkpoint->directory,
                 loading->missing);
    if (loading->begun_anew > 0)
        log_warn("%s: error feedback of %d blocks is not in it and begins at zero", loading->checkpoint->directory,
                 loading->begun_anew);
    return PS_OK;
}

enum ps_status checkpoint_load(const struct checkpoint *checkpoint, struct executor *executor, const struct ps_plan *plan,
                               const struct graph *graph, struct ps_error *error) {
    struct loading loading = {.checkpoint = checkpoint, .graph = graph, .rule = executor->rule};
    enum ps_status status = load_stages(&loading, executor, plan, error);
    weight_files_close(&loading.weights);
    weight_files_close(&loading.moments);
    safetensors_free(&loading.wire);
    return status;
}
