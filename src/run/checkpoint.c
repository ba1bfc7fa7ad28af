/* Writing checkpoints; see checkpoint.h. Reading them is weight_files.c. */
#include "run/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

#define PATH_SIZE 4096

/* ------------------------------------------------------------------ one stage */

/* Every parameter of a stage in canonical order, in one allocation. */
struct stage_tensors {
    struct safetensor_source *sources;
    float *values;
    int count;
};

static void stage_tensors_free(struct stage_tensors *tensors) {
    free(tensors->sources);
    free(tensors->values);
}

static enum ps_status stage_tensors_make(const struct worker_stage *stage, struct stage_tensors *out, struct ps_error *error) {
    struct stage_tensors tensors = {.count = stage_parameter_count(stage->stage)};
    size_t elements = 0;
    for (int i = 0; i < tensors.count; i++) elements += (size_t)shape_elements(&stage_parameter(stage->stage, i)->shape);
    tensors.sources = calloc((size_t)tensors.count + 1, sizeof *tensors.sources);
    tensors.values = malloc((elements + 1) * sizeof *tensors.values);
    if (!tensors.sources || !tensors.values) {
        stage_tensors_free(&tensors);
        return error_memory(error, "a checkpoint", elements * sizeof *tensors.values);
    }
    float *place = tensors.values;
    for (int i = 0; i < tensors.count; i++) {
        const struct parameter *parameter = stage_parameter(stage->stage, i);
        enum ps_status status = stage_export(stage->stage, i, stage->weights[0], stage->statistics, place, error);
        if (status != PS_OK) {
            stage_tensors_free(&tensors);
            return status;
        }
        tensors.sources[i] = (struct safetensor_source){
            .name = parameter->name, .shape = parameter->shape.dim, .rank = parameter->shape.rank, .values = place};
        place += shape_elements(&parameter->shape);
    }
    *out = tensors;
    return PS_OK;
}

/* Writes the stage's file into `directory` and its names into the index. */
static enum ps_status write_stage(const char *directory, const struct worker_stage *stage, int stages, json_t *weight_map,
                                  int64_t *total_bytes, struct ps_error *error) {
    char name[64], path[PATH_SIZE];
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", stage->number + 1, stages);
    struct stage_tensors tensors = {0};
    TRY(stage_tensors_make(stage, &tensors, error));
    int64_t bytes = 0;
    enum ps_status status = safetensors_write(file_join(path, directory, name), tensors.sources, tensors.count, &bytes, error);
    for (int i = 0; status == PS_OK && i < tensors.count; i++)
        if (json_object_set_new(weight_map, tensors.sources[i].name, json_string(name)) != 0)
            status = error_memory(error, "a checkpoint's index", sizeof name);
    stage_tensors_free(&tensors);
    *total_bytes += bytes;
    return status;
}

static enum ps_status write_index(const char *directory, json_t *weight_map, int64_t total_bytes, struct ps_error *error) {
    char path[PATH_SIZE];
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total_bytes, "weight_map", weight_map);
    return json_write_file(index, file_join(path, directory, "model.safetensors.index.json"), error);
}

static enum ps_status write_state(const char *directory, const struct checkpoint_state *state, struct ps_error *error) {
    char path[PATH_SIZE], seed[32];
    /* JSON integers end at 2^63. */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)state->seed);
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:I, s:I, s:s, s:i}", "format", "penstock-state", "version", 1, "model", state->model,
                  "step", (json_int_t)state->step, "epoch", (json_int_t)state->epoch, "seed", seed, "stages", state->stages);
    return json_write_file(root, file_join(path, directory, "state.json"), error);
}

static enum ps_status write_contents(const char *directory, const struct crew *crew, const struct checkpoint_state *state,
                                     struct ps_error *error) {
    json_t *weight_map = json_object();
    int64_t total_bytes = 0;
    enum ps_status status = PS_OK;
    for (int stage = 0; status == PS_OK && stage < state->stages; stage++)
        for (int number = 0; number < crew->worker_count; number++)
            for (int i = 0; status == PS_OK && i < crew->workers[number].stage_count; i++)
                if (crew->workers[number].stages[i].number == stage && crew->workers[number].stages[i].replica == 0)
                    status = write_stage(directory, &crew->workers[number].stages[i], state->stages, weight_map, &total_bytes,
                                         error);
    if (status == PS_OK) status = write_index(directory, weight_map, total_bytes, error);
    json_decref(weight_map);
    if (status == PS_OK) status = write_state(directory, state, error);
    return status == PS_OK ? file_sync_directory(directory, error) : status;
}

/* The files of an unfinished checkpoint. */
static void remove_contents(const char *directory, int stages) {
    char name[64], path[PATH_SIZE];
    for (int stage = 0; stage < stages; stage++) {
        snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", stage + 1, stages);
        unlink(file_join(path, directory, name));
    }
    unlink(file_join(path, directory, "model.safetensors.index.json"));
    unlink(file_join(path, directory, "state.json"));
    rmdir(directory);
}

enum ps_status checkpoint_write(const char *run_dir, const struct crew *crew, const struct checkpoint_state *state,
                                struct ps_error *error) {
    char parent[PATH_SIZE], temporary[PATH_SIZE], place[PATH_SIZE], name[64];
    file_join(parent, run_dir, "checkpoints");
    snprintf(name, sizeof name, ".%06lld.%ld.tmp", (long long)state->step, (long)getpid());
    file_join(temporary, parent, name);
    snprintf(name, sizeof name, "%06lld", (long long)state->step);
    file_join(place, parent, name);
    TRY(file_make_directory(temporary, error));
    enum ps_status status = write_contents(temporary, crew, state, error);
    if (status == PS_OK && rename(temporary, place) != 0)
        status = error_set(error, PS_IO, "%s: cannot be put in its place: %s", place, strerror(errno));
    if (status != PS_OK) {
        remove_contents(temporary, state->stages);
        return status;
    }
    TRY(file_sync_directory(parent, error));
    return file_sync_directory(run_dir, error);
}
