/* Reading trained weights: the newest checkpoint of a run, or one safetensors file; see checkpoint.h. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "run/checkpoint.h"

#define PATH_SIZE 4096

/* The step number that a checkpoint's directory is named by, or -1. */
static int64_t step_of(const char *name) {
    size_t length = strlen(name);
    if (length < 6 || length > 18) return -1;
    for (size_t i = 0; i < length; i++)
        if (!isdigit((unsigned char)name[i])) return -1;
    return strtoll(name, NULL, 10);
}

static enum ps_status find_newest(const char *run_dir, char directory[PATH_SIZE], struct ps_error *error) {
    char parent[PATH_SIZE], newest[64] = "";
    int64_t newest_step = -1;
    DIR *entries = opendir(file_join(parent, run_dir, "checkpoints"));
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        int64_t step = step_of(entry->d_name);
        if (step <= newest_step) continue;
        newest_step = step;
        snprintf(newest, sizeof newest, "%.60s", entry->d_name);
    }
    if (entries) closedir(entries);
    if (newest_step < 0) return error_set(error, PS_NO_CHECKPOINT, "%s: holds no checkpoint", run_dir);
    file_join(directory, parent, newest);
    return PS_OK;
}

/* Opens the file of the index that `name` stands for, unless it is open. */
static enum ps_status open_part(const char *directory, const char *name, struct weight_files *weights, struct ps_error *error) {
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

static const struct safetensors *find_file(const struct weight_files *weights, const char *tensor) {
    for (int i = 0; i < weights->count; i++)
        if (safetensors_find(&weights->files[i], tensor)) return &weights->files[i];
    return NULL;
}

static enum ps_status open_parts(const char *directory, const char *index_path, json_t *index, struct weight_files *weights,
                                 struct ps_error *error) {
    struct json_place root = json_root(index, index_path), map;
    TRY(json_field(&root, "weight_map", true, &map, error));
    if (!json_is_object(map.value)) return json_error(&map, error, "must be an object of tensor and file names");
    const char *tensor;
    json_t *value;
    json_object_foreach(map.value, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || strchr(name, '/')) return json_error(&map, error, "'%s' is not given a file of this directory", tensor);
        TRY(open_part(directory, name, weights, error));
        if (!find_file(weights, tensor)) return json_error(&map, error, "'%s' is not in %s", tensor, name);
    }
    if (weights->count == 0) return json_error(&map, error, "names no tensor");
    return PS_OK;
}

enum ps_status weight_files_open_run(const char *run_dir, struct weight_files *out, struct ps_error *error) {
    char directory[PATH_SIZE], path[PATH_SIZE];
    TRY(find_newest(run_dir, directory, error));
    json_t *index;
    TRY(json_read_file(file_join(path, directory, "model.safetensors.index.json"), NULL, &index, error));
    struct weight_files weights = {0};
    enum ps_status status = open_parts(directory, path, index, &weights, error);
    json_decref(index);
    if (status != PS_OK) {
        weight_files_close(&weights);
        return status;
    }
    *out = weights;
    return PS_OK;
}

enum ps_status weight_files_open(const char *path, struct weight_files *out, struct ps_error *error) {
    struct weight_files weights = {.files = calloc(1, sizeof *weights.files)};
    if (!weights.files) return error_memory(error, "weights", sizeof *weights.files);
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

enum ps_status weight_files_load(const struct weight_files *weights, const struct graph *graph, struct stage *stage,
                                 float *block, float *statistics, struct ps_error *error) {
    TRY(check_names(weights, graph, error));
    for (int i = 0; i < stage_parameter_count(stage); i++) {
        const struct parameter *parameter = stage_parameter(stage, i);
        const struct safetensors *file = find_file(weights, parameter->name);
        const float *values;
        TRY(safetensors_get(file ? file : &weights->files[0], parameter->name, &parameter->shape, &values, error));
        TRY(stage_import(stage, i, values, block, statistics, error));
    }
    return PS_OK;
}
