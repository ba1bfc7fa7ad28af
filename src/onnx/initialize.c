/* Initial values of a network's parameters from a file: safetensors, an index of several, or the initializers of ONNX. */
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "graph/lora.h"
#include "graph/operators.h"
#include "graph/split.h"
#include "onnx/names.h"
#include "onnx/onnx.h"

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), ends = strlen(end);
    return length >= ends && strcmp(text + length - ends, end) == 0;
}

/* Of a file of an index the tensors that the index says are in it. */
static enum ps_status read_part(const char *path, json_t *map, const char *file, struct values *values,
                                struct ps_error *error) {
    struct values *part = values_create();
    const char *tensor;
    json_t *of;
    if (part == NULL) return error_memory(error, "values of parameters", 1);
    enum ps_status status = values_read(part, path, error);
    json_object_foreach(map, tensor, of) {
        const struct array *array = values_get(part, tensor);
        if (status == PS_OK && array != NULL && strcmp(json_string_value(of), file) == 0)
            status = values_set(values, array, VALUES_BORROW, error);
    }
    if (status == PS_OK) return values_keep_values(values, part, error);
    values_release(part);
    return status;
}

/* The files of an index as the Hugging Face hub has it: "weight_map" from tensors to files of the same directory. */
static enum ps_status read_index(const char *path, struct values *values, struct ps_error *error) {
    json_t *index, *file;
    const char *tensor, *slash = strrchr(path, '/');
    char place[4096];
    TRY(json_read_file(path, NULL, &index, error));
    struct json_place root = json_root(index, path), map;
    enum ps_status status = json_field(&root, "weight_map", true, &map, error);
    if (status == PS_OK && !json_is_object(map.value)) status = json_error(&map, error, "must be an object of tensors' files");
    json_t *seen = json_object();
    if (status == PS_OK) json_object_foreach(map.value, tensor, file) {
            const char *name = json_string_value(file);
            if (name && name[0] != '\0' && !strchr(name, '/') && strcmp(name, "..") != 0) continue;
            status = json_error(&map, error, "'%s' is not given a file of this directory", tensor);
            break;
        }
    if (status == PS_OK) json_object_foreach(map.value, tensor, file) {
            const char *name = json_string_value(file);
            if (json_object_get(seen, name)) continue;
            json_object_set_new(seen, name, json_true());
            snprintf(place, sizeof place, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, name);
            if ((status = read_part(place, map.value, name, values, error)) != PS_OK) break;
        }
    json_decref(seen);
    json_decref(index);
    return status;
}

/* Whatever the file holds; a store of the caller's. */
static enum ps_status read_file(const char *path, struct values **out, struct ps_error *error) {
    struct ps_network *other;
    if (onnx_is_file(path)) {
        TRY(onnx_read_network(path, &other, error));
        *out = values_share(other->graph->values);
        ps_network_destroy(other);
        return *out != NULL ? PS_OK : error_set(error, PS_BAD_INPUT, "%s: holds no initializers", path);
    }
    struct values *values = values_create();
    if (values == NULL) return error_memory(error, "values of parameters", 1);
    enum ps_status status = ends_with(path, ".json") ? read_index(path, values, error) : values_read(values, path, error);
    if (status == PS_OK)
        *out = values;
    else
        values_release(values);
    return status;
}

static bool is_parameter(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(split_whole_name(&graph->parameters[p]), name) == 0) return true;
    return false;
}

/* Has the network its own value for it? Constants are what it computes: no file of weights changes them. */
static bool is_set(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(split_whole_name(&graph->parameters[p]), name) == 0)
            return parameter_is_constant(&graph->parameters[p]) && values_get(graph->values, name) != NULL;
    return false;
}

/* A tensor's name without what PEFT puts before it. */
static const char *plain_name(const char *name) {
    const size_t length = strlen(LORA_PREFIX);
    return strncmp(name, LORA_PREFIX, length) == 0 ? name + length : name;
}

/* Has the file a tensor of this name, in one form or the other? */
static bool in_file(const struct values *file, const char *name) {
    char prefixed[sizeof LORA_PREFIX + sizeof((struct parameter *)0)->name];
    snprintf(prefixed, sizeof prefixed, "%s%s", LORA_PREFIX, name);
    return values_get(file, name) != NULL || values_get(file, prefixed) != NULL;
}

/* The bias of BertForMaskedLM's output has two names there, and Hugging Face's library saves it under the second alone. */
#define BERT_BIAS "cls.predictions.decoder.bias"
#define BERT_SAVED_BIAS "cls.predictions.bias"

/* The values of the file over those that the network has; `state`: what the module that it came from has beside. */
static enum ps_status merge(const struct graph *graph, struct values *from, const struct values *state, struct values *to,
                            const char *path, struct ps_error *error) {
    const bool other_name =
        is_parameter(graph, BERT_BIAS) && !is_parameter(graph, BERT_SAVED_BIAS) && in_file(from, BERT_SAVED_BIAS);
    struct names missing = {0}, unexpected = {0};
    int found = 0;
    for (int i = 0; i < values_count(graph->values); i++)
        TRY(values_set(to, values_at(graph->values, i), VALUES_BORROW, error));
    for (int i = 0; i < values_count(from); i++) {
        struct array array = *values_at(from, i);
        const bool known = is_parameter(graph, array.name);
        if (is_set(graph, array.name)) continue;
        if (!known) array.name = plain_name(array.name);
        if (other_name && strcmp(array.name, BERT_SAVED_BIAS) == 0) {
            if (in_file(from, BERT_BIAS)) continue;
            array.name = BERT_BIAS;
        }
        if (!known && !is_parameter(graph, array.name)) {
            if (!ends_with(array.name, "num_batches_tracked") && values_get(state, array.name) == NULL)
                names_note(&unexpected, values_at(from, i)->name);
            continue;
        }
        TRY(values_set(to, &array, VALUES_BORROW, error));
        found++;
    }
    for (int p = 0; p < graph->parameter_count; p++) {
        const char *name = split_whole_name(&graph->parameters[p]);
        if (other_name && strcmp(name, BERT_BIAS) == 0) continue;
        if (!graph->parameters[p].tied && !in_file(from, name) && !is_set(graph, name)) names_note(&missing, name);
    }
    if (found == 0)
        return error_set(error, PS_BAD_INPUT, "%s: none of its tensors is a parameter of the network: it has %s", path,
                         unexpected.count > 0 ? unexpected.text : "none");
    if (missing.count > 0)
        log_warn("%s: %d parameter%s with the network's own values: %s", path, missing.count,
                 missing.count == 1 ? " is not in it and begins" : "s are not in it and begin", missing.text);
    if (unexpected.count > 0)
        log_warn("%s: %d tensor%s of the network: %s", path, unexpected.count,
                 unexpected.count == 1 ? " is no parameter" : "s are no parameters", unexpected.text);
    return PS_OK;
}

enum ps_status ps_network_initialize(struct ps_network *network, const char *path, struct ps_error *error) {
    struct graph *graph = network->graph;
    struct values *from, *state = NULL, *made = values_create();
    size_t size;
    if (made == NULL) return error_memory(error, "values of parameters", 1);
    const void *origin = values_origin(graph->values, &size);
    enum ps_status status = origin != NULL ? onnx_read_state(origin, size, &state, error) : PS_OK;
    if (status == PS_OK) status = read_file(path, &from, error);
    if (status == PS_OK) {
        status = values_keep_values(made, from, error);
        if (status == PS_OK && graph->values) status = values_keep_values(made, values_share(graph->values), error);
        if (status == PS_OK && graph->values) values_share_origin(made, graph->values);
        if (status == PS_OK) status = merge(graph, from, state, made, path, error);
    }
    values_release(state);
    if (status == PS_OK && (status = values_check(made, graph, error)) == PS_USAGE) {
        error_prefix(error, "%s", path);
        status = PS_BAD_INPUT;
    }
    if (status == PS_OK) status = network_say(&network->said.init, path, error);
    if (status != PS_OK) {
        values_release(made);
        return status;
    }
    values_release(graph->values);
    graph->values = made;
    return PS_OK;
}
