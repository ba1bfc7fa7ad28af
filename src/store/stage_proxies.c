/*
 * For a checkpoint each stage comes in two blocks, as its files hold them: parameters and statistics in canonical order, and
 * every moment of its parameters. They are packed all together into memory that is kept, while rank 0 puts its own stages in
 * order, and go straight to their place there. On the way back a stage is one block.
 */
#include "store/stage_proxies.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

extern const struct device_class device_reference;

/* Where a stage only runs forwards there is no state of an optimizer. */
static int moments_of(const struct worker_stage *stage, int moments) { return stage->slots.forward_only ? 0 : moments; }

/* Floats of a stage as it travels; `moments` of its parameters follow parameters and statistics. `tied`: also what is another
 * stage's, which is in no file of its own. */
static size_t travelling_floats(const struct worker_stage *stage, int moments, bool tied) {
    size_t all = 0, trained = 0;
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        if (parameter->tied && !tied) continue;
        all += (size_t)shape_elements(&parameter->shape);
        if (parameter->role == PARAMETER_TRAINED) trained += (size_t)shape_elements(&parameter->shape);
    }
    return all + (size_t)moments_of(stage, moments) * trained;
}

/* Between the stage's blocks and the travelling form: trained parameters of `block`, a moment or the master; NULL: the weights,
 * and what is not trained. Returns the end of what was packed. */
static enum ps_status convert(struct worker_stage *stage, bool pack, bool tied, float *block, float **place,
                              struct ps_error *error) {
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        if ((parameter->role != PARAMETER_TRAINED && block) || (parameter->tied && !tied)) continue;
        if (pack)
            TRY(block ? stage_export_f32(stage->stage, i, block, NULL, *place, error)
                      : worker_stage_export(stage, i, *place, error));
        else
            TRY(block ? stage_import_f32(stage->stage, i, *place, block, NULL, error)
                      : worker_stage_import(stage, i, *place, error));
        *place += shape_elements(&parameter->shape);
    }
    return PS_OK;
}

static enum ps_status convert_all(struct worker_stage *stage, int moments, bool pack, float *block, struct ps_error *error) {
    TRY(convert(stage, pack, true, NULL, &block, error));
    for (int m = 0; m < moments_of(stage, moments); m++)
        TRY(convert(stage, pack, true, stage->update.moment[m], &block, error));
    return PS_OK;
}

static enum ps_status move_stage(struct executor *executor, struct worker_stage *stage, int peer, int moments, bool gives,
                                 struct ps_error *error) {
    size_t floats = travelling_floats(stage, moments, true);
    float *block;
    TRY(memory_new(&block, floats + 1, "weights on their way", error));
    enum ps_status status = gives ? convert_all(stage, moments, true, block, error) : PS_OK;
    if (status == PS_OK)
        status =
            processes_move(executor->processes, peer, message_tag(TAG_STAGE, 0), gives, block, floats * sizeof *block, error);
    if (status == PS_OK && !gives) status = convert_all(stage, moments, false, block, error);
    free(block);
    return status;
}

/* ------------------------------------------------------------------------- making */

/* 0: it needs no master. */
static size_t master_bytes(const struct worker_stage *stage) {
    return stage->slots.forward_only ? 0 : memory_align((size_t)stage_master_bytes(&stage->sizes));
}

static size_t bytes_of(const struct worker_stage *stage, int moments) {
    size_t bytes = memory_align((size_t)stage_copy_bytes(&stage->sizes)) + master_bytes(stage) +
                   memory_align((size_t)stage_unchanged_bytes(&stage->sizes)) +
                   (size_t)moments_of(stage, moments) * memory_align((size_t)stage->sizes.parameter_bytes);
    for (int b = 0; b < WIRE_CODED; b++) bytes += memory_align(worker_feedback_bytes(stage, b));
    return bytes;
}

static enum ps_status carve(struct worker *proxy, struct worker_stage *stage, int moments, struct ps_error *error) {
    stage->weights = arena_take(&proxy->arena, 1, sizeof *stage->weights);
    TRY(arena_status(&proxy->arena, "a table of blocks", error));
    stage->weights[0] = memory_block_carve(&proxy->memory, (size_t)stage_copy_bytes(&stage->sizes));
    if (master_bytes(stage) > 0) stage->update.master = memory_block_carve(&proxy->memory, master_bytes(stage));
    stage->statistics = memory_block_carve(&proxy->memory, (size_t)stage_unchanged_bytes(&stage->sizes));
    for (int m = 0; m < moments_of(stage, moments); m++)
        stage->update.moment[m] = memory_block_carve(&proxy->memory, (size_t)stage->sizes.parameter_bytes);
    for (int b = 0; b < WIRE_CODED; b++)
        if (worker_feedback_bytes(stage, b) > 0)
            stage->feedback[b] = memory_block_carve(&proxy->memory, worker_feedback_bytes(stage, b));
    return PS_OK;
}

static enum ps_status make_proxy(struct executor *executor, const struct worker_options *options, int number,
                                 struct ps_error *error) {
    struct worker_options own = *options;
    struct worker *proxy = &executor->workers[number];
    own.number = number;
    own.device = &device_reference;
    own.sizes = NULL;
    TRY(worker_create(&own, proxy, error));
    size_t bytes = 0;
    for (int i = 0; i < proxy->stage_count; i++) bytes += bytes_of(&proxy->stages[i], own.moments);
    TRY(memory_block_take(&proxy->memory, bytes, "the weights of other processes", error));
    for (int i = 0; i < proxy->stage_count; i++) TRY(carve(proxy, &proxy->stages[i], own.moments, error));
    return PS_OK;
}

enum ps_status proxies_make(struct executor *executor, const struct worker_options *options, struct ps_error *error) {
    for (int rank = 0; rank < executor->worker_count; rank++)
        if (!executor_has(executor, rank) && !executor->workers[rank].device) TRY(make_proxy(executor, options, rank, error));
    return PS_OK;
}

/* ------------------------------------------------------------------------- moving */

/* Sends a stage's error feedback, or receives it into its blocks. */
static enum ps_status move_feedback(struct executor *executor, struct worker *worker, struct worker_stage *stage, int peer,
                                    bool gives, struct ps_error *error) {
    for (int b = 0; b < WIRE_CODED; b++) {
        const size_t count = worker_feedback_floats(stage, b);
        float *block;
        if (count == 0) continue;
        TRY(memory_new(&block, count, "error feedback on its way", error));
        enum ps_status status = PS_OK;
        if (gives) status = worker_feedback_move(worker->device, stage, b, false, block, error);
        if (status == PS_OK)
            status = processes_move(executor->processes, peer, message_tag(TAG_STAGE, 0), gives, block, count * sizeof *block,
                                    error);
        if (status == PS_OK && !gives) status = worker_feedback_move(worker->device, stage, b, true, block, error);
        free(block);
        TRY(status);
    }
    return PS_OK;
}

/* Every stage of a worker, with how many updates it has had. */
static enum ps_status move_worker(struct executor *executor, struct worker *worker, int peer, int moments, bool gives,
                                  struct ps_error *error) {
    for (int i = 0; i < worker->stage_count; i++) {
        int64_t *updates = &worker->stages[i].update.done;
        TRY(processes_move(executor->processes, peer, message_tag(TAG_STAGE, 0), gives, updates, sizeof *updates, error));
        TRY(move_stage(executor, &worker->stages[i], peer, moments, gives, error));
        TRY(move_feedback(executor, worker, &worker->stages[i], peer, gives, error));
    }
    return PS_OK;
}

bool proxies_send_master(const struct worker_stage *stage) { return !stage->forward && stage_master_bytes(&stage->sizes) > 0; }

/* What a checkpoint takes of a stage here, without places: of replicas the first, of halves what each of them has. */
static struct travelling measure(const struct worker_stage *stage, int moments) {
    struct travelling bytes = {0};
    if (stage->replica > 0) return bytes;
    const size_t all = travelling_floats(stage, 0, false) * sizeof(float);
    if (stage->forward) bytes.weights_bytes = all;
    bytes.moments_bytes = travelling_floats(stage, moments, false) * sizeof(float) - all;
    if (proxies_send_master(stage)) bytes.master_bytes = travelling_floats(stage, 1, false) * sizeof(float) - all;
    return bytes;
}

static enum ps_status pack(struct worker_stage *stage, int moments, struct memory_block *memory, struct travelling *out,
                           struct ps_error *error) {
    *out = measure(stage, moments);
    if (out->weights_bytes > 0) {
        float *place = out->weights = memory_block_carve(memory, out->weights_bytes);
        TRY(convert(stage, true, false, NULL, &place, error));
    }
    if (out->moments_bytes > 0) {
        float *place = out->moments = memory_block_carve(memory, out->moments_bytes);
        for (int m = 0; m < moments; m++) TRY(convert(stage, true, false, stage->update.moment[m], &place, error));
    }
    if (out->master_bytes > 0) {
        float *place = out->master = memory_block_carve(memory, out->master_bytes);
        TRY(convert(stage, true, false, stage->update.master, &place, error));
    }
    return PS_OK;
}

static enum ps_status take_room(struct executor *executor, int moments, struct ps_error *error) {
    const struct worker *worker = &executor->workers[executor->processes->rank];
    size_t bytes = 0;
    if (executor->travelling.base) return PS_OK;
    for (int i = 0; i < worker->stage_count; i++) {
        const struct travelling of = measure(&worker->stages[i], moments);
        bytes += memory_align(of.weights_bytes) + memory_align(of.moments_bytes) + memory_align(of.master_bytes);
    }
    TRY(memory_block_take(&executor->travelling, bytes, "weights on their way", error));
    memory_block_touch(&executor->travelling);
    return PS_OK;
}

static enum ps_status send_packed(struct executor *executor, const struct worker *worker, const struct travelling *packed,
                                  struct ps_error *error) {
    for (int i = 0; i < worker->stage_count; i++) {
        struct worker_stage *stage = &worker->stages[i];
        if (stage->replica > 0) continue;
        int64_t *updates = &stage->update.done;
        TRY(processes_move(executor->processes, 0, message_tag(TAG_STAGE, 0), true, updates, sizeof *updates, error));
        TRY(processes_move(executor->processes, 0, message_tag(TAG_STAGE, 0), true, packed[i].weights, packed[i].weights_bytes,
                           error));
        TRY(processes_move(executor->processes, 0, message_tag(TAG_STAGE, 0), true, packed[i].moments, packed[i].moments_bytes,
                           error));
        TRY(processes_move(executor->processes, 0, message_tag(TAG_STAGE, 0), true, packed[i].master, packed[i].master_bytes,
                           error));
    }
    return PS_OK;
}

enum ps_status proxies_send(struct executor *executor, const struct worker_options *options, struct ps_error *error) {
    struct worker *worker = &executor->workers[executor->processes->rank];
    size_t count = (size_t)worker->stage_count + 1;
    TRY(take_room(executor, options->moments, error));
    struct travelling *packed;
    TRY(memory_new(&packed, count, "weights on their way", error));
    enum ps_status status = PS_OK;
    executor->travelling.used = 0;
    for (int i = 0; i < worker->stage_count && status == PS_OK; i++)
        status = pack(&worker->stages[i], options->moments, &executor->travelling, &packed[i], error);
    if (status == PS_OK) status = send_packed(executor, worker, packed, error);
    for (int i = 0; i < worker->stage_count && status == PS_OK; i++)
        status = move_feedback(executor, worker, &worker->stages[i], 0, true, error);
    free(packed);
    return status;
}

enum ps_status proxies_receive(struct executor *executor, struct worker_stage *stage, int rank, const struct travelling *to,
                               struct ps_error *error) {
    int64_t *updates = &stage->update.done;
    if (stage->replica > 0) return PS_OK;
    TRY(processes_move(executor->processes, rank, message_tag(TAG_STAGE, 0), false, updates, sizeof *updates, error));
    if (stage->forward)
        TRY(processes_move(executor->processes, rank, message_tag(TAG_STAGE, 0), false, to->weights, to->weights_bytes, error));
    if (stage->slots.forward_only) return PS_OK;
    TRY(processes_move(executor->processes, rank, message_tag(TAG_STAGE, 0), false, to->moments, to->moments_bytes, error));
    return processes_move(executor->processes, rank, message_tag(TAG_STAGE, 0), false, to->master, to->master_bytes, error);
}

enum ps_status proxies_receive_feedback(struct executor *executor, const struct worker_stage *stage, int rank, int block,
                                        void *to, struct ps_error *error) {
    return processes_move(executor->processes, rank, message_tag(TAG_STAGE, 0), false, to,
                          worker_feedback_floats(stage, block) * sizeof(float), error);
}

enum ps_status proxies_release(struct executor *executor, const struct worker_options *options, struct ps_error *error) {
    int own = executor->processes->rank;
    if (executor->processes->count == 1) return PS_OK;
    if (own > 0) return move_worker(executor, &executor->workers[own], 0, options->moments, false, error);
    TRY(proxies_make(executor, options, error));
    for (int rank = 1; rank < executor->worker_count; rank++) {
        TRY(move_worker(executor, &executor->workers[rank], rank, options->moments, true, error));
        executor->proxy_bytes += (int64_t)executor->workers[rank].memory.size;
        memory_block_release(&executor->workers[rank].memory);
    }
    return PS_OK;
}
