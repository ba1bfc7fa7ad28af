/* What the first and the last stage take of the data for a micro-batch; see executor.h. */
#include <assert.h>
#include <string.h>

#include "exec/executor.h"

static int data_kind(const struct executor *executor) {
    return executor->segment.training ? WORKER_DATA_TRAIN : WORKER_DATA_VALID;
}

/* Takes in hand the batch that holds the micro-batch. Training reads mini-batches, evaluation single micro-batches. */
static enum ps_status hold_batch(struct worker_data *data, int64_t number, struct ps_error *error) {
    if (data->number == number) return PS_OK;
    assert(data->loader && data->number < 0);
    TRY(loader_get(data->loader, number, &data->batch, error));
    data->number = number;
    return PS_OK;
}

/* Gives it back after the last of its micro-batches that the worker takes. */
static void release_batch(const struct executor *executor, struct worker_data *data, const struct worker_stage *stage,
                          int micro_batch) {
    const struct ps_programs *programs = executor->segment.programs;
    int step = programs->flush ? programs->instances[stage->instance].replicas : 1;
    if (micro_batch % programs->micro_batches + step < programs->micro_batches) return;
    loader_release(data->loader, data->number);
    data->number = -1;
}

int64_t executor_batch_number(const struct executor *executor, int micro_batch) {
    return executor->segment.first_step + programs_batch(executor->segment.programs, micro_batch);
}

int executor_length(const struct executor *executor, int micro_batch) {
    if (!executor->lengths) return 0;
    if (!executor->segment.training) return executor->lengths->count - 1;
    return executor->order.length_of[executor_batch_number(executor, micro_batch) % sample_order_batches(&executor->order)];
}

enum ps_status executor_load_inputs(struct executor *executor, struct worker *worker, const struct worker_stage *stage,
                                    const struct instruction *instruction, struct ps_error *error) {
    struct worker_data *data = &worker->inputs[data_kind(executor)];
    TRY(hold_batch(data, executor_batch_number(executor, instruction->micro_batch), error));
    int place = instruction->micro_batch % executor->segment.programs->micro_batches;
    size_t bytes = data->input_bytes * (size_t)executor->samples;
    void *input = stage->block[BLOCK_INPUT][instruction->block[BLOCK_INPUT]],
         *prepared = worker->staging ? worker->staging : input;
    const void *from = (const char *)data->batch.inputs + (size_t)place * bytes;
    int64_t first = (int64_t)instruction->micro_batch * executor->samples;
    if (executor->lengths)
        lengths_pack_tokens(executor->lengths, executor_length(executor, instruction->micro_batch), executor->samples, from,
                            prepared);
    else if (data->several)
        stage_pack_inputs(stage->stage, from, prepared);
    else
        memcpy(prepared, from, bytes);
    if (executor->segment.decoding)
        decoding_put(executor->segment.decoding, first, executor->samples, data->input_bytes / sizeof(int32_t), prepared);
    if (prepared != input)
        device_copy(worker->device, input, prepared, data->several ? (size_t)stage->sizes.input_bytes : bytes);
    release_batch(executor, data, stage, instruction->micro_batch);
    return PS_OK;
}

enum ps_status executor_load_targets(struct executor *executor, struct worker *worker, const struct worker_stage *stage,
                                     const struct instruction *instruction, int *counted, struct ps_error *error) {
    struct worker_data *data = &worker->targets[data_kind(executor)];
    TRY(hold_batch(data, executor_batch_number(executor, instruction->micro_batch), error));
    int place = instruction->micro_batch % executor->segment.programs->micro_batches;
    size_t bytes = (size_t)executor->samples * executor->target_bytes;
    int slot = instruction->block[BLOCK_INPUT];
    const void *from = (const char *)data->batch.targets + (size_t)place * bytes;
    if (executor->lengths)
        lengths_pack_labels(executor->lengths, executor_length(executor, instruction->micro_batch), executor->samples, from,
                            stage->targets[slot]);
    else
        memcpy(stage->targets[slot], from, bytes);
    stage->loss_scale[slot] = data->batch.weight > 0 ? 1.0f / (float)data->batch.weight : 0;
    *counted = data->batch.samples < executor->samples ? data->batch.samples : executor->samples;
    release_batch(executor, data, stage, instruction->micro_batch);
    return PS_OK;
}
