/* Exporting trained weights: the stages of a run's newest checkpoint as one file; adapters alone, or added to the weights. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/versioned.h"
#include "data/pixels.h"
#include "graph/lora.h"
#include "graph/network.h"
#include "graph/split.h"
#include "onnx/onnx.h"
#include "plan/plan.h"
#include "store/checkpoint.h"

/* ---------------------------------------------------------------- what goes with the weights */

enum { WORDS_LIMIT = 16 << 20 }; /* readers refuse headers of 100 MB and more */

enum { NORMALISATION_TEXT = 256 };

/* As JSON; of data that this program does not know, or whose pixels stay as they are, nothing. */
static enum ps_status normalisation_text(const char *data, int64_t channels, char text[NORMALISATION_TEXT],
                                         struct ps_error *error) {
    struct normalisation normalisation;
    bool known = false;
    const enum ps_status status = samples_normalisation(data, channels, &known, &normalisation, error);
    if (status != PS_OK && status != PS_USAGE) return status;
    if (status != PS_OK || !known || channels < 1 || channels > AUGMENT_CHANNELS_MAX) return PS_OK;
    strcpy(text, "{\"scale\": 255, \"mean\": [");
    const float *const values[] = {normalisation.mean, normalisation.deviation};
    for (int list = 0; list < 2; list++) {
        for (int64_t c = 0; c < channels; c++) {
            const size_t used = strlen(text);
            number_print(text + used, NORMALISATION_TEXT - used, "%s%.7g", c ? ", " : "", (double)values[list][c]);
        }
        strcat(text, list ? "]}" : "], \"deviation\": [");
    }
    return PS_OK;
}

/* The run's vocabulary.json (free()). One that is too large for a header is left out; one that cannot be read is not. */
static enum ps_status read_vocabulary(const char *run_dir, char **words, struct ps_error *error) {
    char path[4096];
    size_t size;
    if (!file_exists(file_join(path, run_dir, "vocabulary.json"))) return PS_OK;
    const enum ps_status status = file_read(path, WORDS_LIMIT, words, &size, error);
    return status == PS_BAD_INPUT ? PS_OK : status;
}

static const char *text_of(const json_t *config, const char *field) {
    return json_string_value(json_object_get(config, field));
}

/*
 * The header's __metadata__, all strings: `penstock`, the version; `model` and `network`, name and hash; `data`, what it was
 * trained on; `normalisation` of the pixels; `classes`, their number, and `class_names`, a list; `vocabulary`, the contents of
 * the run's vocabulary.json. What it lacks since memory ran out is said where it is written.
 */
static enum ps_status describe_run(const char *run_dir, const struct ps_network *network, json_t **out,
                                   struct ps_error *error) {
    char path[4096], classes[32] = "", normalisation[NORMALISATION_TEXT] = "", *names = NULL, *words = NULL;
    json_t *config = NULL;
    enum ps_status status = PS_OK;
    *out = NULL;
    if (file_exists(file_join(path, run_dir, "config.json"))) status = json_read_file(path, "penstock-config", &config, error);
    if (json_array_size(json_object_get(config, "class_names")) > 0) {
        names = json_dump_text(json_object_get(config, "class_names"), JSON_COMPACT);
        status = memory_check(names, "names of classes", error);
    }
    if (status == PS_OK) {
        const struct dataset_shape shape = dataset_shape_of(network);
        const char *data = text_of(config, "data");
        if (data && shape.vocabulary == 0) status = normalisation_text(data, shape.channels, normalisation, error);
        if (shape.classes > 0) snprintf(classes, sizeof classes, "%d", shape.classes);
    }
    if (status == PS_OK) status = read_vocabulary(run_dir, &words, error);
    if (status == PS_OK)
        *out = json_pack("{s:s, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*}", "penstock", ps_version(), "model",
                         text_of(config, "model"), "network", text_of(config, "network"), "data", text_of(config, "data"),
                         "class_names", names, "normalisation", normalisation[0] ? normalisation : NULL, "classes",
                         classes[0] ? classes : NULL, "vocabulary", words);
    json_decref(config);
    free(names);
    free(words);
    return status;
}

/* ----------------------------------------------------------------- tensors */

/* The run's weights as tensors to be written, by the parameters' numbers in its network's graph. */
struct exported {
    struct arena arena;
    struct ps_plan *plan; /* NULL: not needed so far */
    struct ps_network *network;
    struct weight_files weights;
    struct safetensor_source *sources; /* name NULL: not written */
};

static enum ps_status read_plan(const char *run_dir, struct exported *exported, struct ps_error *error) {
    char path[4096];
    return exported->plan ? PS_OK : ps_plan_read(file_join(path, run_dir, "plan.json"), &exported->plan, error);
}

static enum ps_status open_weights(const char *run_dir, const char *checkpoint, struct exported *exported,
                                   struct ps_error *error) {
    char path[4096];
    TRY(weight_files_open_run(run_dir, checkpoint, &exported->weights, error));
    const bool kept = file_exists(file_join(path, run_dir, "network.json"));
    if (!kept) TRY(read_plan(run_dir, exported, error));
    TRY(ps_network_open(kept ? path : exported->plan->model, &exported->network, error));
    const struct graph *graph = exported->network->graph;
    exported->sources = arena_take(&exported->arena, (size_t)graph->parameter_count, sizeof *exported->sources);
    TRY(arena_check(&exported->arena, "weights", error));
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const struct safetensors *file = weight_files_find(&exported->weights, parameter->name);
        const float *values;
        if (parameter->tied) continue;
        TRY(safetensors_get(file ? file : &exported->weights.files[0], parameter->name, parameter->shape.dim,
                            parameter->shape.rank, &values, error));
        exported->sources[p] = (struct safetensor_source){
            .name = parameter->name, .shape = parameter->shape.dim, .rank = parameter->shape.rank, .values = values};
    }
    return PS_OK;
}

static void close_weights(struct exported *exported) {
    weight_files_close(&exported->weights);
    ps_network_destroy(exported->network);
    ps_plan_destroy(exported->plan);
    arena_release(&exported->arena);
}

/* What the module that the network was exported from has beside its parameters; NULL where the network came from elsewhere. */
static enum ps_status read_state(const char *run, struct values **state, struct ps_error *error) {
    char path[4096], *origin;
    size_t size;
    *state = NULL;
    if (!file_exists(file_join(path, run, "network.onnx"))) return PS_OK;
    TRY(file_read(path, SIZE_MAX, &origin, &size, error));
    const enum ps_status status = onnx_read_state(origin, size, state, error);
    free(origin);
    return status;
}

/* The sources that have names, but for constants, which the network has; then `state`, and what is said of them. */
static enum ps_status write_tensors(const struct ps_export_options *options, struct exported *exported,
                                    const struct values *state, struct ps_error *error) {
    const struct graph *graph = exported->network->graph;
    const size_t most = (size_t)graph->parameter_count + (size_t)values_count(state);
    struct safetensor_source *sources = arena_take(&exported->arena, most, sizeof *sources);
    json_t *about;
    int count = 0;
    TRY(arena_check(&exported->arena, "tensor names", error));
    for (int p = 0; p < graph->parameter_count; p++)
        if (exported->sources[p].name && !parameter_is_constant(&graph->parameters[p])) sources[count++] = exported->sources[p];
    for (int i = 0; i < values_count(state); i++) {
        const struct array *array = values_at(state, i);
        sources[count++] = (struct safetensor_source){
            .name = array->name, .shape = array->shape, .rank = array->rank, .values = array->data, .type = array->type};
    }
    TRY(describe_run(options->run, exported->network, &about, error));
    const enum ps_status status = safetensors_write_about(options->path, sources, count, about, NULL, error);
    json_decref(about);
    return status;
}

/* All under the names that PyTorch's load_state_dict looks for. */
static enum ps_status write_whole(const struct ps_export_options *options, struct exported *exported, struct ps_error *error) {
    struct values *state;
    TRY(read_state(options->run, &state, error));
    const enum ps_status status = write_tensors(options, exported, state, error);
    values_release(state);
    return status;
}

/* ---------------------------------------------------------------- adapters */

static const float *values_of(const struct exported *exported, const struct node *node) {
    return exported->sources[node->parameter_first].values;
}

/* Has every layer that has the weight an adapter? They are one then. */
static bool all_adapted(const struct graph *graph, const char *weight) {
    struct lora lora;
    int uses = 0, adapted = 0;
    for (int p = 0; p < graph->parameter_count; p++) uses += strcmp(graph->parameters[p].name, weight) == 0;
    for (int n = 0; n < graph->node_count; n++)
        adapted += lora_at(graph, n, &lora) && strcmp(graph->parameters[lora.base->parameter_first].name, weight) == 0;
    return uses == adapted;
}

/* Adapters added to the weights of their layers; all under the names that they had without. */
static enum ps_status merge(struct exported *exported, const char *path, struct ps_error *error) {
    const struct graph *graph = exported->network->graph;
    struct lora lora;
    (void)path;
    for (int n = 0; n < graph->node_count; n++) {
        if (!lora_at(graph, n, &lora)) continue;
        const struct parameter *weight = &graph->parameters[lora.base->parameter_first];
        struct safetensor_source *source = &exported->sources[lora.base->parameter_first];
        if (weight->shared && !all_adapted(graph, weight->name))
            return error_set(error, PS_USAGE,
                             "lora: merged: two layers share '%s', and one has an adapter: only apart is accepted",
                             weight->name);
        exported->sources[lora.a->parameter_first].name = exported->sources[lora.b->parameter_first].name = NULL;
        if (weight->tied) continue; /* merged where it was met first */
        float *merged = arena_copy(&exported->arena, source->values, (size_t)shape_elements(&weight->shape), sizeof *merged);
        TRY(arena_check(&exported->arena, "weights", error));
        lora_merge(&lora, graph, values_of(exported, lora.a), values_of(exported, lora.b), merged);
        source->values = merged;
    }
    return PS_OK;
}

/* PEFT computes nn.MultiheadAttention as a whole, without adapters of its out_proj. */
static enum ps_status check_for_peft(const struct graph *graph, const struct lora *lora, struct ps_error *error) {
    static const char end[] = ".out_proj.weight";
    const char *name = graph->parameters[lora->base->parameter_first].name;
    const int length = (int)strlen(name) - (int)(sizeof end - 1);
    if (length < 1 || strcmp(name + length, end) != 0) return PS_OK;
    for (int p = 0; p < graph->parameter_count; p++) {
        const char *other = graph->parameters[p].name;
        if (strncmp(other, name, (size_t)length) == 0 && strcmp(other + length, ".in_proj_weight") == 0)
            return error_set(error, PS_USAGE,
                             "lora: apart: PEFT has no adapters of '%.*s', a part of an attention: only merged is accepted",
                             lora_module_length(name), name);
    }
    return PS_OK;
}

#define CONFIG_NAME "adapter_config.json"

/* What PEFT reads beside the tensors. */
static enum ps_status write_config(const struct graph *graph, const char *path, struct ps_error *error) {
    char place[4096];
    const char *slash = strrchr(path, '/');
    struct lora lora;
    json_t *targets = json_array();
    for (int n = graph->node_count - 1; n >= 0; n--)
        if (lora_at(graph, n, &lora) && !graph->parameters[lora.base->parameter_first].tied) {
            const char *name = graph->parameters[lora.base->parameter_first].name;
            json_array_insert_new(targets, 0, json_stringn(name, (size_t)lora_module_length(name)));
        }
    json_t *config =
        json_pack("{s:s, s:i, s:f, s:f, s:o, s:b, s:s, s:b, s:b}", "peft_type", "LORA", "r", lora.rank, "lora_alpha",
                  lora.scale * lora.rank, "lora_dropout", lora.dropout ? (double)lora.dropout->attributes.rate : 0.0,
                  "target_modules", targets, "fan_in_fan_out", lora.base->attributes.transposed, "bias", "none",
                  "init_lora_weights", 1, "inference_mode", 1);
    snprintf(place, sizeof place, "%.*s" CONFIG_NAME, slash ? (int)(slash + 1 - path) : 0, path);
    return json_write_file(config, place, error);
}

/* What was trained, and running statistics, under PEFT's names. */
static enum ps_status separate(struct exported *exported, const char *path, struct ps_error *error) {
    const struct graph *graph = exported->network->graph;
    const char *slash = strrchr(path, '/');
    struct lora lora;
    if (strcmp(slash ? slash + 1 : path, CONFIG_NAME) == 0 || file_is_stream(path))
        return error_set(error, PS_USAGE,
                         "lora: apart: '%.800s' is no place for tensors, beside which " CONFIG_NAME " is written", path);
    for (int n = 0; n < graph->node_count; n++)
        if (lora_at(graph, n, &lora)) TRY(check_for_peft(graph, &lora, error));
    for (int p = 0; p < graph->parameter_count; p++) {
        struct safetensor_source *source = &exported->sources[p];
        if (graph->parameters[p].role == PARAMETER_FIXED) source->name = NULL;
        if (!source->name) continue;
        char *name = arena_take(&exported->arena, sizeof LORA_PREFIX + strlen(source->name), 1);
        TRY(arena_check(&exported->arena, "names", error));
        strcat(strcpy(name, LORA_PREFIX), source->name);
        source->name = name;
    }
    return write_config(graph, path, error);
}

static const struct {
    const char *name;
    enum ps_status (*make)(struct exported *exported, const char *path, struct ps_error *error);
    bool whole;
} forms[] = {{"merged", merge, true}, {"apart", separate, false}};

static enum ps_status write_lora(const struct ps_export_options *options, struct exported *exported, struct ps_error *error) {
    enum { FORMS = sizeof forms / sizeof *forms };
    const char *names[FORMS];
    int found = -1;
    for (int f = 0; f < FORMS; f++) {
        names[f] = forms[f].name;
        if (strcmp(options->lora, names[f]) == 0) found = f;
    }
    if (found < 0) return error_unknown(error, PS_USAGE, "`lora`", options->lora, names, FORMS);
    if (lora_count(exported->network->graph, NULL) == 0)
        return error_set(error, PS_USAGE, "`lora`: %s has no network with adapters", options->run);
    TRY(forms[found].make(exported, options->path, error));
    return forms[found].whole ? write_whole(options, exported, error) : write_tensors(options, exported, NULL, error);
}

/* -------------------------------------------------------------------- ONNX */

/* The values of a parameter; slices of one go into the whole. */
static enum ps_status take_value(const struct safetensor_source *source, const struct parameter *parameter,
                                 struct values *values, struct ps_error *error) {
    const struct shape whole = split_whole_shape(parameter);
    struct array array = {.name = split_whole_name(parameter), .type = ARRAY_F32, .rank = whole.rank, .data = source->values};
    memcpy(array.shape, whole.dim, (size_t)whole.rank * sizeof *array.shape);
    if (parameter->slice.rows == 0) return values_set(values, &array, VALUES_BORROW, error);
    if (!values_get(values, array.name)) {
        float *all;
        TRY(memory_new(&all, shape_elements(&whole), array.name, error));
        array.data = all;
        TRY(values_set(values, &array, VALUES_TAKE, error));
    }
    float *to = (float *)values_get(values, array.name)->data + split_offset(parameter);
    memcpy(to, source->values, (size_t)shape_elements(&parameter->shape) * sizeof *to);
    return PS_OK;
}

/* The network takes the values of the run, and the origin that the run keeps. */
static enum ps_status take_values(const char *run, struct exported *exported, struct ps_error *error) {
    struct graph *graph = exported->network->graph;
    char path[4096], *origin;
    size_t size;
    values_release(graph->values);
    graph->values = values_create();
    if (!graph->values) return error_memory(error, "values of parameters", 1);
    for (int p = 0; p < graph->parameter_count; p++)
        if (exported->sources[p].name) TRY(take_value(&exported->sources[p], &graph->parameters[p], graph->values, error));
    if (!file_exists(file_join(path, run, "network.onnx"))) return PS_OK;
    TRY(file_read(path, SIZE_MAX, &origin, &size, error));
    values_set_origin(graph->values, origin, size);
    return PS_OK;
}

/* Adapters are added to the weights: the graph that was given has none. */
static enum ps_status write_onnx(const struct ps_export_options *options, struct exported *exported, struct ps_error *error) {
    TRY(read_plan(options->run, exported, error));
    TRY(merge(exported, options->path, error));
    TRY(take_values(options->run, exported, error));
    const struct graph *graph = exported->network->graph;
    struct onnx_write_options write = {
        .training = options->training, .external = options->external_data, .devices = exported->plan->workers};
    int *stages = arena_take(&exported->arena, (size_t)graph->node_count, sizeof *stages);
    TRY(arena_check(&exported->arena, "stages", error));
    for (int n = 0; n < graph->node_count; n++) stages[n] = plan_stage_of(exported->plan, graph->nodes[n].layer);
    if (options->annotate_stages) write.stages = stages;
    return onnx_write_network(exported->network, &write, options->path, error);
}

/* ----------------------------------------------------------------- formats */

static enum ps_status write_safetensors(const struct ps_export_options *options, struct exported *exported,
                                        struct ps_error *error) {
    return options->lora ? write_lora(options, exported, error) : write_whole(options, exported, error);
}

static const struct export_format {
    const char *name;
    enum ps_status (*write)(const struct ps_export_options *options, struct exported *exported, struct ps_error *error);
} formats[] = {{"safetensors", write_safetensors}, {"onnx", write_onnx}};

static enum ps_status export_as(const struct export_format *format, const struct ps_export_options *options,
                                struct ps_error *error) {
    struct exported exported = {0};
    enum ps_status status = open_weights(options->run, options->checkpoint, &exported, error);
    if (status == PS_OK) status = format->write(options, &exported, error);
    close_weights(&exported);
    return status;
}

void ps_export_options_init(struct ps_export_options *options) {
    *options = (struct ps_export_options){.struct_size = sizeof *options};
}

enum ps_status ps_export_run(const struct ps_export_options *given, struct ps_error *error) {
    struct ps_export_options options;
    const char *names[sizeof formats / sizeof *formats];
    size_t count = 0;
    TRY(VERSIONED_TAKE(ps_export_options, given, &options, error));
    if (!options.run || !options.path) return error_set(error, PS_USAGE, "`%s`: missing", options.run ? "path" : "run");
    const char *format = options.format ? options.format : formats[0].name;
    if (strcmp(format, "onnx") != 0 && (options.training || options.external_data || options.annotate_stages))
        return error_set(error, PS_USAGE, "`%s`: needs the format onnx",
                         options.training        ? "training"
                         : options.external_data ? "external_data"
                                                 : "annotate_stages");
    if (options.lora && strcmp(format, "onnx") == 0)
        return error_set(error, PS_USAGE, "`lora`: %s needs the format safetensors; in ONNX files adapters are merged",
                         options.lora);
    for (; count < sizeof formats / sizeof *formats; count++) {
        names[count] = formats[count].name;
        if (strcmp(names[count], format) == 0) return export_as(&formats[count], &options, error);
    }
    return error_unknown(error, PS_USAGE, "`format`", format, names, count);
}

enum ps_status ps_export(const char *run_dir, const char *format, const char *path, struct ps_error *error) {
    const struct ps_export_options options = {.struct_size = sizeof options, .run = run_dir, .format = format, .path = path};
    return ps_export_run(&options, error);
}

enum ps_status ps_export_lora(const char *run_dir, const char *form, const char *path, struct ps_error *error) {
    const struct ps_export_options options = {.struct_size = sizeof options, .run = run_dir, .path = path, .lora = form};
    return ps_export_run(&options, error);
}
