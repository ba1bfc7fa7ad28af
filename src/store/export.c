/* Exporting trained weights: the stages of a run's newest checkpoint as one file. */
#include <stdlib.h>
#include <string.h>

#include "store/checkpoint.h"

static enum ps_status write_safetensors(const struct weight_files *weights, const char *path, struct ps_error *error) {
    int count = 0;
    for (int i = 0; i < weights->count; i++) count += weights->files[i].count;
    struct safetensor_source *sources = calloc((size_t)count + 1, sizeof *sources);
    if (!sources) return error_memory(error, "tensor names", (size_t)count * sizeof *sources);
    int place = 0;
    enum ps_status status = PS_OK;
    for (int i = 0; i < weights->count; i++)
        for (int j = 0; status == PS_OK && j < weights->files[i].count; j++) {
            const struct safetensor *tensor = &weights->files[i].tensors[j];
            struct safetensor_source *source = &sources[place++];
            *source = (struct safetensor_source){.name = tensor->name, .shape = tensor->shape, .rank = tensor->rank};
            const float *values = NULL;
            status = safetensors_values(&weights->files[i], tensor, &values, error);
            source->values = values;
        }
    if (status == PS_OK) status = safetensors_write(path, sources, count, NULL, error);
    free(sources);
    return status;
}

static const struct export_format {
    const char *name;
    enum ps_status (*write)(const struct weight_files *weights, const char *path, struct ps_error *error);
} formats[] = {{"safetensors", write_safetensors}};

enum ps_status ps_export(const char *run_dir, const char *format, const char *path, struct ps_error *error) {
    const char *names[8];
    size_t count = 0;
    for (; count < sizeof formats / sizeof *formats; count++) {
        names[count] = formats[count].name;
        if (strcmp(names[count], format) != 0) continue;
        struct weight_files weights;
        TRY(weight_files_open_run(run_dir, &weights, error));
        enum ps_status status = formats[count].write(&weights, path, error);
        weight_files_close(&weights);
        return status;
    }
    return error_unknown(error, PS_USAGE, "`format`", format, names, count);
}
