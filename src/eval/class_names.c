/* See the header. */
#include "eval/class_names.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/dataset.h"

static enum ps_status take_list(const json_t *list, struct class_names *out, struct ps_error *error) {
    size_t index;
    json_t *name;
    TRY(memory_new(&out->name, json_array_size(list), "names of classes", error));
    json_array_foreach(list, index, name) {
        if (!json_is_string(name)) return PS_OK; /* not written by Penstock */
        out->name[index] = json_string_value(name);
    }
    out->count = (int)json_array_size(list);
    return PS_OK;
}

enum ps_status class_names_find(const char *run, const struct dataset *dataset, struct class_names *out,
                                struct ps_error *error) {
    char path[4096];
    *out = (struct class_names){0};
    if (run && file_exists(file_join(path, run, "config.json")))
        TRY(json_read_file(path, "penstock-config", &out->config, error));
    const json_t *list = json_object_get(out->config, "class_names");
    if (json_array_size(list) > 0) return take_list(list, out, error);
    if (!dataset || !dataset->class_names) return PS_OK;
    TRY(memory_new(&out->name, dataset->shape.classes, "names of classes", error));
    const char *name = dataset->class_names;
    for (; out->count < dataset->shape.classes; name += strlen(name) + 1) out->name[out->count++] = name;
    for (int c = 0; c < out->count; c++)
        if (utf8_invalid(out->name[c], strlen(out->name[c]))) out->count = 0;
    return PS_OK;
}

void class_names_free(struct class_names *names) {
    free(names->name);
    json_decref(names->config);
    *names = (struct class_names){0};
}
