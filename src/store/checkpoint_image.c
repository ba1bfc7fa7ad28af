/* Filling and writing a checkpoint's image; see checkpoint_image.h. */
#include "store/checkpoint_image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "store/manifest.h"
#include "store/stage_proxies.h"

/* --------------------------------------------------------------------- describing */

/* The tensors of a file, before its header is made. */
struct tensor_list {
    struct safetensor_source *sources;
    char (*names)[256];
    int count;
};

static void tensor_list_free(struct tensor_list *list) {
    free(list->sources);
    free(list->names);
}

/* All parameters of the stage in canonical order, for each moment once where `moments` are wanted. */
static enum ps_status list_tensors(const struct image_stage *stage, const struct update_rule *rule, bool moments,
                                   struct tensor_list *list, struct ps_error *error) {
    int parameters = stage_parameter_count(stage->stage->stage), turns = moments ? rule->moments : 1;
    size_t most = (size_t)parameters * (size_t)turns + 1;
    TRY(memory_new(&list->sources, most, "a checkpoint's tensors", error));
    TRY(memory_new(&list->names, most, "a checkpoint's tensors", error));
    for (int moment = 0; moment < turns; moment++)
        for (int i = 0; i < parameters; i++) {
            const struct parameter *parameter = stage_parameter(stage->stage->stage, i);
            if ((moments && parameter->role != PARAMETER_TRAINED) || parameter->tied) continue;
            char suffix[64] = "";
            if (moments) update_rule_moment_name(rule, moment, suffix);
            snprintf(list->names[list->count], sizeof *list->names, "%.180s%s%.60s", parameter->name, moments ? "." : "",
                     suffix);
            list->sources[list->count] = (struct safetensor_source){
                .name = list->names[list->count], .shape = parameter->shape.dim, .rank = parameter->shape.rank};
            list->count++;
        }
    return PS_OK;
}

static enum ps_status describe_file(struct image_stage *stage, const struct update_rule *rule, bool moments, json_t *weight_map,
                                    struct image_file *file, struct ps_error *error) {
    struct tensor_list list = {0};
    enum ps_status status = list_tensors(stage, rule, moments, &list, error);
    if (status == PS_OK) {
        file->header = safetensors_header(list.sources, list.count, &file->header_bytes, &file->data_bytes);
        status = memory_check(file->header, "a checkpoint's header", error);
    }
    for (int i = 0; status == PS_OK && weight_map && i < list.count; i++)
        if (json_object_set_new(weight_map, list.sources[i].name, json_string(file->name)) != 0)
            status = error_memory(error, "a checkpoint's index", sizeof file->name);
    tensor_list_free(&list);
    return status;
}

/* Of a stage's trained parameters in canonical order, those of other stages left out. */
static size_t trained_bytes(const struct worker_stage *stage) {
    int64_t elements = 0;
    for (int i = 0; i < stage_parameter_count(stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        if (parameter->role == PARAMETER_TRAINED && !parameter->tied) elements += shape_elements(&parameter->shape);
    }
    return (size_t)elements * sizeof(float);
}

static enum ps_status describe_stages(struct checkpoint_image *image, const struct update_rule *rule, json_t *weight_map,
                                      size_t *weights_bytes, size_t *bytes, struct ps_error *error) {
    for (int s = 0; s < image->stage_count; s++) {
        struct image_stage *stage = &image->stages[s];
        snprintf(stage->weights.name, sizeof stage->weights.name, CHECKPOINT_WEIGHTS, s + 1, image->stage_count);
        snprintf(stage->moments.name, sizeof stage->moments.name, CHECKPOINT_MOMENTS, s + 1, image->stage_count);
        TRY(describe_file(stage, rule, false, weight_map, &stage->weights, error));
        *weights_bytes += stage->weights.data_bytes;
        *bytes += memory_align(stage->weights.data_bytes);
        if (proxies_send_master(stage->updated)) stage->master_bytes = trained_bytes(stage->stage);
        *bytes += memory_align(stage->master_bytes);
        if (image->moments == 0) continue;
        TRY(describe_file(stage, rule, true, NULL, &stage->moments, error));
        *bytes += memory_align(stage->moments.data_bytes);
    }
    return PS_OK;
}

const char *checkpoint_feedback_name(const struct ps_plan *plan, const struct worker_stage *stage, int coded, char name[64]) {
    const struct plan_stage *of = &plan->stages[stage->number];
    static const char *const names[WIRE_CODED] = {
        [WIRE_ACTIVATION_SENT] = "activation", [WIRE_GRADIENT_SENT] = "gradient", [WIRE_SUM] = "sum"};
    snprintf(name, 64, "%s.%d.%d", names[coded], of->first + (coded == WIRE_ACTIVATION_SENT ? of->last + 1 - of->first : 0),
             stage->replica);
    return name;
}

/* The stages' error feedback: their places in the file, in the order of `feedback`. */
static enum ps_status describe_feedback(struct checkpoint_image *image, const struct ps_plan *plan, size_t *bytes,
                                        struct ps_error *error) {
    struct executor *executor = image->executor;
    struct arena arena = {0};
    size_t most = 1;
    for (int number = 0; number < executor->worker_count; number++)
        most += WIRE_CODED * (size_t)executor->workers[number].stage_count;
    TRY(memory_new(&image->feedback, most, "a checkpoint's error feedback", error));
    struct safetensor_source *sources = arena_take(&arena, most, sizeof *sources);
    char(*names)[64] = arena_take(&arena, most, sizeof *names);
    int64_t *counts = arena_take(&arena, most, sizeof *counts);
    TRY(arena_check(&arena, "a checkpoint's error feedback", error));
    for (int number = 0; number < executor->worker_count; number++)
        for (int i = 0; i < executor->workers[number].stage_count * WIRE_CODED; i++) {
            struct worker_stage *stage = &executor->workers[number].stages[i / WIRE_CODED];
            const int block = i % WIRE_CODED, n = image->feedback_count;
            if (worker_feedback_bytes(stage, block) == 0) continue;
            counts[n] = (int64_t)worker_feedback_floats(stage, block);
            sources[n] = (struct safetensor_source){.name = checkpoint_feedback_name(plan, stage, block, names[n]),
                                                    .shape = &counts[n],
                                                    .rank = 1,
                                                    .type = ARRAY_F32};
            image->feedback[image->feedback_count++] = (struct image_feedback){number, stage, block, NULL};
        }
    enum ps_status status = PS_OK;
    if (image->feedback_count > 0) {
        struct image_file *file = &image->wire;
        snprintf(file->name, sizeof file->name, "%s", CHECKPOINT_WIRE);
        file->header = safetensors_header(sources, image->feedback_count, &file->header_bytes, &file->data_bytes);
        status = memory_check(file->header, "a checkpoint's header", error);
        *bytes += memory_align(file->data_bytes);
    }
    arena_release(&arena);
    return status;
}

static enum ps_status describe(struct checkpoint_image *image, const struct ps_plan *plan, const struct update_rule *rule,
                               struct ps_error *error) {
    size_t weights_bytes = 0, bytes = 0;
    json_t *weight_map = json_object();
    enum ps_status status = describe_stages(image, rule, weight_map, &weights_bytes, &bytes, error);
    if (status == PS_OK) {
        image->index = json_text(
            json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)weights_bytes, "weight_map", weight_map));
        status = memory_check(image->index, "a checkpoint's index", error);
    }
    json_decref(weight_map);
    TRY(status);
    TRY(describe_feedback(image, plan, &bytes, error));
    TRY(memory_block_take(&image->memory, bytes, "a checkpoint's image", error));
    memory_block_touch(&image->memory);
    for (int s = 0; s < image->stage_count; s++) {
        image->stages[s].weights.data = memory_block_carve(&image->memory, image->stages[s].weights.data_bytes);
        image->stages[s].moments.data = memory_block_carve(&image->memory, image->stages[s].moments.data_bytes);
        if (image->stages[s].master_bytes > 0)
            image->stages[s].master = memory_block_carve(&image->memory, image->stages[s].master_bytes);
    }
    if (image->feedback_count == 0) return PS_OK;
    float *place = image->wire.data = memory_block_carve(&image->memory, image->wire.data_bytes);
    for (int f = 0; f < image->feedback_count; f++) {
        image->feedback[f].data = place;
        place += worker_feedback_floats(image->feedback[f].stage, image->feedback[f].block);
    }
    return PS_OK;
}

enum ps_status checkpoint_image_create(struct executor *executor, const struct ps_plan *plan, struct checkpoint_image *out,
                                       struct ps_error *error) {
    size_t count = (size_t)plan->stage_count;
    struct checkpoint_image image = {
        .executor = executor, .stage_count = plan->stage_count, .real = executor->real, .moments = executor->rule->moments};
    enum ps_status status = memory_new(&image.stages, count, "a checkpoint's stages", error);
    if (status == PS_OK) status = memory_new(&image.cut, count, "a checkpoint's stages", error);
    for (int s = 0; status == PS_OK && s < plan->stage_count; s++)
        image.cut[s] = (struct checkpoint_stage){.first = plan->stages[s].first, .last = plan->stages[s].last};
    for (int number = 0; status == PS_OK && number < executor->worker_count; number++)
        for (int i = 0; i < executor->workers[number].stage_count; i++) {
            struct worker_stage *stage = &executor->workers[number].stages[i];
            /* All replicas of a stage are the same. Of a split one the forward's worker has the running statistics, the
             * backward's what belongs to the optimizer. */
            if (stage->replica > 0) continue;
            struct image_stage *taken = &image.stages[stage->number];
            if (stage->forward) taken->stage = stage, taken->stage_here = executor_has(executor, number);
            if (!stage->slots.forward_only) taken->updated = stage, taken->updated_here = executor_has(executor, number);
        }
    if (status == PS_OK && image.real) status = describe(&image, plan, executor->rule, error);
    if (status != PS_OK) {
        checkpoint_image_free(&image);
        return status;
    }
    *out = image;
    return PS_OK;
}

void checkpoint_image_free(struct checkpoint_image *image) {
    for (int s = 0; image->stages && s < image->stage_count; s++) {
        free(image->stages[s].weights.header);
        free(image->stages[s].moments.header);
    }
    memory_block_release(&image->memory);
    free(image->wire.header);
    free(image->feedback);
    free(image->index);
    free(image->cut);
    free(image->stages);
    *image = (struct checkpoint_image){0};
}

/* ------------------------------------------------------------------------- filling */

/* Trained parameters from a block of f32 (NULL: the weights, and what is not trained) into canonical order; *place moves on
 * behind them. */
static enum ps_status take_block(const struct worker_stage *from, const float *block, float **place, struct ps_error *error) {
    for (int i = 0; i < stage_parameter_count(from->stage); i++) {
        const struct parameter *parameter = stage_parameter(from->stage, i);
        if ((parameter->role != PARAMETER_TRAINED && block) || parameter->tied) continue;
        TRY(block ? stage_export_f32(from->stage, i, block, NULL, *place, error) : worker_stage_export(from, i, *place, error));
        *place += shape_elements(&parameter->shape);
    }
    return PS_OK;
}

/* Puts the master's parameters in the place of those that the forward's worker has as bf16. */
static void take_master(const struct image_stage *to) {
    const float *master = to->master;
    float *place = to->weights.data;
    for (int i = 0; master && i < stage_parameter_count(to->stage->stage); i++) {
        const struct parameter *parameter = stage_parameter(to->stage->stage, i);
        const int64_t count = parameter->tied ? 0 : shape_elements(&parameter->shape);
        if (parameter->role == PARAMETER_TRAINED) {
            memcpy(place, master, (size_t)count * sizeof *place);
            master += count;
        }
        place += count;
    }
}

/* What this process has of a stage. */
static enum ps_status take_own(const struct checkpoint_image *image, const struct image_stage *from, struct ps_error *error) {
    float *place = from->weights.data;
    if (from->stage_here) TRY(take_block(from->stage, NULL, &place, error));
    place = from->moments.data;
    for (int m = 0; from->updated_here && m < image->moments; m++)
        TRY(take_block(from->updated, from->updated->update.moment[m], &place, error));
    place = from->master;
    if (from->updated_here && place) TRY(take_block(from->updated, from->updated->update.master, &place, error));
    return PS_OK;
}

/* The error feedback of a worker of this process, or of another one. */
static enum ps_status take_feedback(const struct checkpoint_image *image, int number, struct ps_error *error) {
    struct executor *executor = image->executor;
    for (int f = 0; f < image->feedback_count; f++) {
        const struct image_feedback *feedback = &image->feedback[f];
        if (feedback->worker != number) continue;
        if (executor_has(executor, number))
            TRY(worker_feedback_move(executor->workers[number].device, feedback->stage, feedback->block, false, feedback->data,
                                     error));
        else
            TRY(proxies_receive_feedback(executor, feedback->stage, number, feedback->block, feedback->data, error));
    }
    return PS_OK;
}

/* What the others send, which they put in order meanwhile. */
static enum ps_status take_others(const struct checkpoint_image *image, struct ps_error *error) {
    struct executor *executor = image->executor;
    for (int rank = 0; rank < executor->worker_count; rank++) {
        const struct worker *proxy = &executor->workers[rank];
        for (int i = 0; i < proxy->stage_count && !executor_has(executor, rank); i++) {
            const struct image_stage *to = &image->stages[proxy->stages[i].number];
            const struct travelling place = {.weights = to->weights.data,
                                             .weights_bytes = to->weights.data_bytes,
                                             .moments = to->moments.data,
                                             .moments_bytes = to->moments.data_bytes,
                                             .master = to->master,
                                             .master_bytes = to->master_bytes};
            TRY(proxies_receive(executor, &proxy->stages[i], rank, &place, error));
        }
        TRY(take_feedback(image, rank, error));
    }
    return PS_OK;
}

enum ps_status checkpoint_image_take(struct checkpoint_image *image, struct ps_error *error) {
    for (int s = 0; s < image->stage_count && image->real; s++) TRY(take_own(image, &image->stages[s], error));
    if (image->real) TRY(take_others(image, error));
    for (int s = 0; s < image->stage_count && image->real; s++) take_master(&image->stages[s]);
    /* Without numbers the stages of other processes are not here. */
    for (int s = 0; s < image->stage_count; s++)
        if (image->stages[s].updated) image->cut[s].updates = image->stages[s].updated->update.done;
    return PS_OK;
}

/* ------------------------------------------------------------------------- writing */

static enum ps_status write_file(const struct image_file *file, struct text *manifest, const char *directory,
                                 struct ps_error *error) {
    const struct file_piece pieces[] = {{file->header, file->header_bytes}, {file->data, file->data_bytes}};
    return manifest_create_file(manifest, directory, file->name, pieces, 2, error);
}

static enum ps_status write_text(const char *text, const char *name, struct text *manifest, const char *directory,
                                 struct ps_error *error) {
    TRY(memory_check(text, name, error));
    return manifest_create_file(manifest, directory, name, &(struct file_piece){text, strlen(text)}, 1, error);
}

static enum ps_status write_files(const struct checkpoint_image *image, const struct checkpoint_state *state,
                                  struct text *manifest, const char *directory, struct ps_error *error) {
    manifest_begin(manifest);
    for (int s = 0; image->real && s < image->stage_count; s++) {
        TRY(write_file(&image->stages[s].weights, manifest, directory, error));
        if (image->moments > 0) TRY(write_file(&image->stages[s].moments, manifest, directory, error));
    }
    if (image->feedback_count > 0) TRY(write_file(&image->wire, manifest, directory, error));
    if (image->real) TRY(write_text(image->index, CHECKPOINT_INDEX, manifest, directory, error));
    char *text = json_text(checkpoint_state_document(state, image->cut, image->stage_count));
    enum ps_status status = write_text(text, CHECKPOINT_STATE, manifest, directory, error);
    free(text);
    return status;
}

enum ps_status checkpoint_image_write(const struct checkpoint_image *image, const struct checkpoint_state *state,
                                      const char *directory, struct ps_error *error) {
    struct text manifest = {0};
    enum ps_status status = write_files(image, state, &manifest, directory, error);
    if (status == PS_OK) status = manifest_end(&manifest, directory, error);
    text_free(&manifest);
    return status == PS_OK ? file_sync_directory(directory, error) : status;
}
