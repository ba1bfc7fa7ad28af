/* Reading trained weights: the newest checkpoint of a run, or one safetensors file; see checkpoint.h. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "store/checkpoint.h"

#define PATH_SIZE 4096

/* Opens the file of the index that `name` stands for, unless it is open. */
static enum ps_status open_instance(const char *directory, const char *name, struct weight_files *weights,
                                    struct ps_error *error) {
    char path[PATH_SIZE];
    file_join(path, directory, name);
    for (int i = 0; i < weights->count; i++)
        if (strcmp(weights->files[i].path, path) == 0) return PS_OK;
    struct safetensors *longer = realloc(weights->files, ((size_t)weights->count + 1) * sizeof *longer);
    if (!longer) return error_memory(error, "weights", ((size_t)weights->count + 1) * sizeof *longer);
    weights->files = longer;
    TRY(safetensors_read(path, &weights->files[weights->count], error));
    weights->count++;
    return PS_OK;
}

const struct safetensors *weight_files_find(const struct weight_files *weights, const char *tensor) {
    for (int i = 0; i < weights->count; i++)
        if (safetensors_find(&weights->files[i], tensor)) return &weights->files[i];
    return NULL;
}

static enum ps_status open_instances(const char *directory, const char *index_path, json_t *index, struct weight_files *weights,
                                     struct ps_error *error) {
    struct json_place root = json_root(index, index_path), map;
    TRY(json_field(&root, "weight_map", true, &map, error));
    if (!json_is_object(map.value)) return json_error(&map, error, "must be an object of tensor and file names");
    const char *tensor;
    json_t *value;
    json_object_foreach(map.value, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || strchr(name, '/')) return json_error(&map, error, "'%s' is not given a file of this directory", tensor);
        TRY(open_instance(directory, name, weights, error));
        if (!weight_files_find(weights, tensor)) return json_error(&map, error, "'%s' is not in %s", tensor, name);
    }
    if (weights->count == 0) return json_error(&map, error, "names no tensor");
    return PS_OK;
}

enum ps_status weight_files_open_checkpoint(const char *directory, struct weight_files *out, struct ps_error *error) {
    char path[PATH_SIZE];
    json_t *index;
    TRY(json_read_file(file_join(path, directory, CHECKPOINT_INDEX), NULL, &index, error));
    struct weight_files weights = {0};
    enum ps_status status = open_instances(directory, path, index, &weights, error);
    json_decref(index);
    if (status != PS_OK) {
        weight_files_close(&weights);
        return status;
    }
    *out = weights;
    return PS_OK;
}

enum ps_status weight_files_open_moments(const char *directory, int stages, struct weight_files *out, struct ps_error *error) {
    char name[64], path[PATH_SIZE];
    struct weight_files moments = {0};
    enum ps_status status = PS_OK;
    for (int s = 0; status == PS_OK && s < stages; s++) {
        snprintf(name, sizeof name, CHECKPOINT_MOMENTS, s + 1, stages);
        if (file_exists(file_join(path, directory, name))) status = open_instance(directory, name, &moments, error);
    }
    if (status != PS_OK) {
        weight_files_close(&moments);
        return status;
    }
    *out = moments;
    return PS_OK;
}

enum ps_status weight_files_open_run(const char *run_dir, const char *which, struct weight_files *weights,
                                     struct ps_error *error) {
    for (int removed = 0;; removed++) {
        struct checkpoint checkpoint;
        TRY(checkpoint_choose(run_dir, which, &checkpoint, error));
        const enum ps_status status = weight_files_open_checkpoint(checkpoint.directory, weights, error);
        const bool again = status != PS_OK && !file_exists(checkpoint.directory) && removed < CHECKPOINT_TRIES;
        checkpoint_free(&checkpoint);
        if (!again) return status;
    }
}

enum ps_status weight_files_open(const char *path, struct weight_files *out, struct ps_error *error) {
    struct weight_files weights = {0};
    TRY(memory_new(&weights.files, 1, "weights", error));
    enum ps_status status = safetensors_read(path, &weights.files[0], error);
    if (status != PS_OK) {
        free(weights.files);
        return status;
    }
    weights.count = 1;
    *out = weights;
    return PS_OK;
}

void weight_files_close(struct weight_files *weights) {
    for (int i = 0; i < weights->count; i++) safetensors_free(&weights->files[i]);
    free(weights->files);
    *weights = (struct weight_files){0};
}

static bool is_counter(const char *name) {
    static const char ending[] = "num_batches_tracked";
    size_t length = strlen(name), ends = sizeof ending - 1;
    return length >= ends && strcmp(name + length - ends, ending) == 0;
}

static bool is_parameter(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->parameter_count; i++)
        if (strcmp(graph->parameters[i].name, name) == 0) return true;
    return false;
}

static enum ps_status check_names(const struct weight_files *weights, const struct graph *graph, struct ps_error *error) {
    for (int i = 0; i < weights->count; i++)
        for (int j = 0; j < weights->files[i].count; j++) {
            const char *name = weights->files[i].tensors[j].name;
            if (!is_counter(name) && !is_parameter(graph, name))
                return error_set(error, PS_BAD_INPUT, "%s: tensor '%s' is not the model's", weights->files[i].path, name);
        }
    return PS_OK;
}

enum ps_status weight_files_load(const struct weight_files *files, const struct graph *graph, struct stage *stage,
                                 float *master, void *weights, float *statistics, struct ps_error *error) {
    TRY(check_names(files, graph, error));
    for (int i = 0; i < stage_parameter_count(stage); i++) {
        const struct parameter *parameter = stage_parameter(stage, i);
        const struct safetensors *file = weight_files_find(files, parameter->name);
        const float *values;
        TRY(safetensors_get(file ? file : &files->files[0], parameter->name, parameter->shape.dim, parameter->shape.rank,
                            &values, error));
        TRY(stage_import(stage, i, values, weights, statistics, error));
        if (master && parameter->role == PARAMETER_TRAINED) TRY(stage_import_f32(stage, i, values, master, statistics, error));
    }
    return PS_OK;
}
