/* What the first and the last stage take of the data for a micro-batch; see crew.h. */
#include <assert.h>
#include <string.h>

#include "run/crew.h"

static int data_kind(const struct crew *crew) { return crew->segment.training ? WORKER_DATA_TRAIN : WORKER_DATA_VALID; }

/* Takes in hand the batch that holds the micro-batch. Training reads mini-batches, evaluation single micro-batches. */
static enum ps_status hold_batch(struct worker_data *data, int64_t number, struct ps_error *error) {
    if (data->number == number) return PS_OK;
    assert(data->loader && data->number < 0);
    TRY(loader_get(data->loader, number, &data->batch, error));
    data->number = number;
    return PS_OK;
}

/* Gives it back after the last of its micro-batches that the worker takes. */
static void release_batch(const struct crew *crew, struct worker_data *data, const struct worker_stage *stage,
                          int micro_batch) {
    const struct ps_programs *programs = crew->segment.programs;
    int step = programs->flush ? programs->parts[stage->part].replicas : 1;
    if (micro_batch % programs->micro_batches + step < programs->micro_batches) return;
    loader_release(data->loader, data->number);
    data->number = -1;
}

int64_t crew_batch_number(const struct crew *crew, int micro_batch) {
    return crew->segment.first_step + programs_batch(crew->segment.programs, micro_batch);
}

int crew_length(const struct crew *crew, int micro_batch) {
    if (!crew->lengths) return 0;
    if (!crew->segment.training) return crew->lengths->count - 1;
    return crew->order.length_of[crew_batch_number(crew, micro_batch) % sample_order_batches(&crew->order)];
}

enum ps_status crew_load_images(struct crew *crew, struct worker *worker, const struct worker_stage *stage,
                                const struct instruction *instruction, struct ps_error *error) {
    struct worker_data *data = &worker->images[data_kind(crew)];
    TRY(hold_batch(data, crew_batch_number(crew, instruction->micro_batch), error));
    int place = instruction->micro_batch % crew->segment.programs->micro_batches;
    size_t floats = data->image_floats * (size_t)crew->samples;
    float *input = stage->block[BLOCK_INPUT][instruction->block[BLOCK_INPUT]];
    const float *images = data->batch.images + (size_t)place * floats;
    if (crew->lengths)
        lengths_pack_tokens(crew->lengths, crew_length(crew, instruction->micro_batch), crew->samples, images, input);
    else
        memcpy(input, images, floats * sizeof(float));
    int64_t first = (int64_t)instruction->micro_batch * crew->samples;
    if (crew->segment.writing) writing_put(crew->segment.writing, first, crew->samples, data->image_floats, input);
    release_batch(crew, data, stage, instruction->micro_batch);
    return PS_OK;
}

enum ps_status crew_load_labels(struct crew *crew, struct worker *worker, const struct worker_stage *stage,
                                const struct instruction *instruction, int *counted, struct ps_error *error) {
    struct worker_data *data = &worker->labels[data_kind(crew)];
    TRY(hold_batch(data, crew_batch_number(crew, instruction->micro_batch), error));
    int place = instruction->micro_batch % crew->segment.programs->micro_batches;
    size_t labels = (size_t)crew->samples * (size_t)crew->labels;
    int slot = instruction->block[BLOCK_INPUT];
    const int32_t *from = data->batch.labels + (size_t)place * labels;
    if (crew->lengths)
        lengths_pack_labels(crew->lengths, crew_length(crew, instruction->micro_batch), crew->samples, from,
                            stage->labels[slot]);
    else
        memcpy(stage->labels[slot], from, labels * sizeof(int32_t));
    stage->label_scale[slot] = data->batch.counted > 0 ? 1.0f / (float)data->batch.counted : 0;
    *counted = data->batch.samples < crew->samples ? data->batch.samples : crew->samples;
    release_batch(crew, data, stage, instruction->micro_batch);
    return PS_OK;
}
