/* An ONNX file to a network: model, steps, graph, loss; and what the file says about its inputs and its exporter. */
#include "onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "onnx/lower.h"

bool onnx_is_file(const char *path) {
    const size_t length = strlen(path);
    return length > 5 && strcmp(path + length - 5, ".onnx") == 0;
}

static enum ps_status bad(const struct lowering *l, const char *what, const char *name) {
    return error_set(l->error, PS_BAD_INPUT, "%s: %s '%.80s'", l->path, what, name);
}

/* The inputs as steps. Dimension 0 is the batch; one that is not said is 2. */
static enum ps_status take_inputs(struct lowering *l) {
    const struct onnx_model *model = l->model;
    if (model->input_count == 0) return error_set(l->error, PS_BAD_INPUT, "%s: the graph has no inputs", l->path);
    l->batch = model->inputs[0].rank > 0 ? model->inputs[0].dims[0] : 0;
    if (l->batch == 0) l->batch = 2;
    for (int i = 0; i < model->input_count; i++) {
        const struct onnx_interface *input = &model->inputs[i];
        const char *name = model->values[input->value].name;
        struct step *step = step_add(l, STEP_INPUT, NULL, 0);
        if (step == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
        struct view *out = &step->output;
        if (input->rank < 1) return bad(l, "the first dimension must be the batch, and there is none in input", name);
        if (input->dims[0] != 0 && input->dims[0] != l->batch)
            return bad(l, "the first dimension must be the batch, and differs in input", name);
        out->rank = input->rank;
        out->atoms[out->count++] = (struct atom){l->batch, 0, 0, true};
        out->dims[0] = l->batch;
        for (int d = 1; d < input->rank; d++) {
            if (input->dims[d] == 0) {
                bad(l, "a dimension has no fixed size in input", name);
                error_hint(l->error, "export with fixed lengths: only the batch may be a name");
                return PS_BAD_INPUT;
            }
            out->dims[d] = input->dims[d];
            if (input->dims[d] > 1) out->atoms[out->count++] = (struct atom){input->dims[d], 1, d, false};
        }
        if (view_fits(l, out) != PS_OK) {
            error_prefix(l->error, "%s: input '%.80s'", l->path, name);
            return PS_BAD_INPUT;
        }
        view_natural(out);
        step->number = i;
        step->onnx_type = input->type;
        l->values[input->value] = (struct value){.kind = VALUE_VIEW, .view = out};
    }
    return PS_OK;
}

static enum ps_status find_output(struct lowering *l) {
    const struct onnx_model *model = l->model;
    if (model->output_count == 0) return error_set(l->error, PS_BAD_INPUT, "%s: the graph has no output", l->path);
    const struct value *value = &l->values[model->outputs[0].value];
    const char *name = model->values[model->outputs[0].value].name;
    if (value->kind == VALUE_EMPTY) return bad(l, "nothing is left of it: output", name);
    if (value->kind != VALUE_VIEW || !view_has_batch(value->view, -1))
        return bad(l, "it does not depend on the inputs: output", name);
    if (!view_has_batch(value->view, 0)) return bad(l, "its first dimension is not the batch: output", name);
    const struct view *shown = value->view;
    for (int i = 0; i < value->view->count; i++)
        if (!value->view->atoms[i].batch && value->view->atoms[i].stride == 0) shown = view_copy(l, value->view);
    l->output_view = shown != NULL ? view_new(l, shown) : NULL;
    return arena_check(&l->arena, "an ONNX file", l->error);
}

static void warn_of_names(const struct lowering *l) {
    static const char unknown[] = "parameters or buffers is not said in the file";
    if (l->unsure.count > 0)
        log_warn("%s: whether these are %s, and they are trained: %s; `freeze` those that are buffers", l->path, unknown,
                 l->unsure.text);
    if (l->numbers.count > 0)
        log_warn("%s: whether these numbers are %s, and they are not trained: %s; parameters of shape (1) are", l->path,
                 unknown, l->numbers.text);
}

static enum ps_status lower_model(struct lowering *l, struct graph *graph) {
    const struct onnx_model *model = l->model;
    int output;
    if (model->opset < 13 || model->opset > 26)
        return error_set(l->error, PS_BAD_INPUT, "%s: opset %lld; 13 to 26 are accepted", l->path, (long long)model->opset);
    l->values = arena_take(&l->arena, (size_t)model->value_count, sizeof *l->values);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    TRY(take_inputs(l));
    TRY(lower_nodes(l));
    TRY(find_output(l));
    TRY(lower_fuse(l));
    TRY(lower_emit(l, graph, &output));
    warn_of_names(l);
    TRY(network_add_loss(graph, NULL, output, l->error));
    return onnx_keep_origin(l, graph);
}

static enum ps_status read_network(const char *path, const struct onnx_bytes *bytes, struct ps_network **network,
                                   struct ps_error *error) {
    struct onnx_model *model;
    TRY(onnx_model_read(path, bytes, false, &model, error));
    struct lowering l = {.model = model, .path = path, .error = error};
    struct graph *graph = graph_create();
    l.fold = (struct fold){.arena = &l.arena, .budget = (int64_t)(1 << 24) + 4 * (int64_t)model->contents.size, .error = error};
    struct file_map mapping;
    if (graph != NULL) graph->values = values_create();
    const bool room = graph != NULL && graph->values != NULL;
    enum ps_status status = room ? lower_model(&l, graph) : error_memory(error, "a network", sizeof *graph);
    if (status == PS_BAD_INPUT && l.batch == 1 && error != NULL && error->hint[0] == '\0')
        error_hint(error,
                   "it was exported with a batch of 1, which cannot be told from other dimensions of 1: export with 2 or more");
    while (status == PS_OK && onnx_model_take_mapping(model, &mapping))
        status = values_keep_mapping(graph->values, mapping, error);
    char name[NETWORK_NAME_SIZE];
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    snprintf(name, sizeof name, "%.*s", (int)utf8_whole(base, strnlen(base, 100)), base);
    utf8_repair(name, '_');
    char *dot = strrchr(name, '.');
    if (dot != NULL && dot != name) *dot = '\0';
    arena_release(&l.arena);
    free(l.steps);
    onnx_model_destroy(model);
    if (status == PS_OK) {
        status = network_create(name, graph, PREDICTS_CLASSES, network, error);
        if (status == PS_USAGE) error_prefix(error, "%s", path);
        return status == PS_USAGE ? PS_BAD_INPUT : status;
    }
    graph_destroy(graph);
    return status;
}

enum ps_status onnx_read_network(const char *path, struct ps_network **network, struct ps_error *error) {
    return read_network(path, NULL, network, error);
}

enum ps_status onnx_parse_network(const char *path, const void *data, size_t size, struct ps_network **network,
                                  struct ps_error *error) {
    const struct onnx_bytes bytes = {data, size};
    return read_network(path, &bytes, network, error);
}
