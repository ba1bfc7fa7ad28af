/* Each stage comes as one block: its parameters and statistics in canonical order, then every moment of its parameters. */
#include "run/ghosts.h"

#include <stdlib.h>
#include <string.h>

extern const struct device_class device_reference;

/* Roads of training have tags from 0 on; this one is between rank 0 and each other. */
enum { GHOST_TAG = 30000 };

/* Floats of a stage as it travels; `moments` of its parameters follow parameters and statistics. */
static size_t travelling_floats(const struct worker_stage *stage, int moments) {
    size_t all = 0, trained = 0;
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        all += (size_t)shape_elements(&parameter->shape);
        if (!parameter->statistic) trained += (size_t)shape_elements(&parameter->shape);
    }
    return all + (size_t)moments * trained;
}

/* Between the stage's blocks and the travelling form. `weights` is one of its blocks of parameters; `statistics` NULL:
 * parameters alone. Returns the end of what was packed. */
static enum ps_status convert(struct worker_stage *stage, bool pack, float *weights, float *statistics, float **place,
                              struct ps_error *error) {
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        if (parameter->statistic && !statistics) continue;
        if (pack)
            TRY(stage_export(stage->stage, i, weights, statistics, *place, error));
        else
            TRY(stage_import(stage->stage, i, *place, weights, statistics, error));
        *place += shape_elements(&parameter->shape);
    }
    return PS_OK;
}

static enum ps_status convert_all(struct worker_stage *stage, int moments, bool pack, float *block, struct ps_error *error) {
    TRY(convert(stage, pack, stage->weights[0], stage->statistics, &block, error));
    for (int m = 0; m < moments; m++) TRY(convert(stage, pack, stage->update.moment[m], NULL, &block, error));
    return PS_OK;
}

static enum ps_status move_stage(struct crew *crew, struct worker_stage *stage, int peer, int moments, struct ps_error *error) {
    bool gives = crew->processes->rank > 0;
    size_t floats = travelling_floats(stage, moments);
    float *block = malloc((floats + 1) * sizeof *block);
    if (!block) return error_memory(error, "weights on their way", floats * sizeof *block);
    enum ps_status status = gives ? convert_all(stage, moments, true, block, error) : PS_OK;
    if (status == PS_OK) status = processes_move(crew->processes, peer, GHOST_TAG, gives, block, floats * sizeof *block, error);
    if (status == PS_OK && !gives) status = convert_all(stage, moments, false, block, error);
    free(block);
    return status;
}

/* ------------------------------------------------------------------------- making */

static enum ps_status carve(struct worker *ghost, struct worker_stage *stage, int moments, struct ps_error *error) {
    size_t parameters = memory_align((size_t)stage->sizes.parameter_bytes);
    stage->weights = calloc(1, sizeof *stage->weights);
    if (!stage->weights) return error_memory(error, "a table of blocks", sizeof *stage->weights);
    stage->weights[0] = memory_block_carve(&ghost->memory, parameters);
    stage->statistics = memory_block_carve(&ghost->memory, memory_align((size_t)stage->sizes.statistics_bytes));
    for (int m = 0; m < moments; m++) stage->update.moment[m] = memory_block_carve(&ghost->memory, parameters);
    return PS_OK;
}

static enum ps_status make_ghost(struct crew *crew, const struct worker_options *options, int number, struct ps_error *error) {
    struct worker_options own = *options;
    struct worker *ghost = &crew->workers[number];
    own.number = number;
    own.device = &device_reference;
    own.sizes = NULL;
    TRY(worker_create(&own, ghost, error));
    size_t bytes = 0;
    for (int i = 0; i < ghost->stage_count; i++)
        bytes += (size_t)(1 + own.moments) * memory_align((size_t)ghost->stages[i].sizes.parameter_bytes) +
                 memory_align((size_t)ghost->stages[i].sizes.statistics_bytes);
    TRY(memory_block_take(&ghost->memory, bytes, "the weights of other processes", error));
    for (int i = 0; i < ghost->stage_count; i++) TRY(carve(ghost, &ghost->stages[i], own.moments, error));
    return PS_OK;
}

static enum ps_status fetch_from(struct crew *crew, const struct worker_options *options, int rank, struct ps_error *error) {
    struct worker *ghost = &crew->workers[rank];
    if (!ghost->device) TRY(make_ghost(crew, options, rank, error));
    void *counts = NULL;
    size_t size = 0;
    TRY(processes_hand_in(crew->processes, rank, &counts, &size, error));
    for (int i = 0; i < ghost->stage_count && size == (size_t)ghost->stage_count * sizeof(int64_t); i++)
        memcpy(&ghost->stages[i].update.done, (char *)counts + (size_t)i * sizeof(int64_t), sizeof(int64_t));
    free(counts);
    for (int i = 0; i < ghost->stage_count; i++) TRY(move_stage(crew, &ghost->stages[i], rank, options->moments, error));
    return PS_OK;
}

/* How many updates each stage has had, then the stages. */
static enum ps_status give(struct crew *crew, const struct worker_options *options, struct ps_error *error) {
    struct worker *own = &crew->workers[crew->processes->rank];
    size_t size = (size_t)own->stage_count * sizeof(int64_t);
    int64_t *counts = malloc(size + 1);
    if (!counts) return error_memory(error, "weights on their way", size);
    for (int i = 0; i < own->stage_count; i++) counts[i] = own->stages[i].update.done;
    void *data = counts;
    enum ps_status status = processes_hand_in(crew->processes, 0, &data, &size, error);
    free(counts);
    for (int i = 0; status == PS_OK && i < own->stage_count; i++)
        status = move_stage(crew, &own->stages[i], 0, options->moments, error);
    return status;
}

enum ps_status ghosts_fetch(struct crew *crew, const struct worker_options *options, struct ps_error *error) {
    struct processes *processes = crew->processes;
    if (processes->count == 1) return PS_OK;
    if (processes->rank > 0) return give(crew, options, error);
    for (int rank = 1; rank < crew->worker_count; rank++) TRY(fetch_from(crew, options, rank, error));
    return PS_OK;
}
