/*
 * ONNX files out of networks that came from one: the graph as it was given, with the newest values of its parameters.
 *
 * When a file is read, an *origin* is kept beside the network's values: the same file, but that tensors which became trained
 * parameters or statistics have no data. It is small, and a run keeps it, so that the run can be exported when the file has
 * gone. What is to be trained has an initializer's name, shape and order (onnx/emit.c), so writing puts values back by name.
 * Everything else is copied field by field without being understood.
 *
 * A node's metadata in the origin say which node of Penstock's graph computes it, by which plans' stages are found.
 */
#include <stdlib.h>
#include <string.h>

#include "base/number_type.h"
#include "graph/values.h"
#include "onnx/lower.h"
#include "onnx/onnx.h"
#include "onnx/protobuf.h"

#define NODE_KEY "penstock.node"
#define CONFIGURATION "penstock"
enum { OUTSIDE_BYTES = 1024, IR_VERSION_STAGES = 11 };
static const size_t message_limit = 2000000000; /* protobuf's is 2^31 */

/* ----------------------------------------------------------------- messages */

/* A message as it is put together: pieces that are borrowed, or the arena's. */
struct message {
    struct arena *arena;
    struct file_piece *pieces;
    size_t count, capacity, size;
};

static void put(struct message *m, const void *data, size_t size) {
    struct file_piece *last = m->count > 0 ? &m->pieces[m->count - 1] : NULL;
    m->size += size;
    if (last != NULL && (const char *)last->data + last->size == (const char *)data) {
        last->size += size;
        return;
    }
    if (m->count == m->capacity) {
        m->capacity = 2 * m->capacity + 16;
        struct file_piece *longer = arena_take(m->arena, m->capacity, sizeof *longer);
        if (longer == NULL) {
            m->capacity = m->count = 0; /* told by arena_check */
            return;
        }
        if (m->count > 0) memcpy(longer, m->pieces, m->count * sizeof *longer);
        m->pieces = longer;
    }
    if (data != NULL && size > 0) m->pieces[m->count++] = (struct file_piece){data, size};
}

static void put_varint(struct message *m, uint64_t number) {
    uint8_t bytes[10];
    size_t size = 0;
    for (; number >= 0x80; number >>= 7) bytes[size++] = (uint8_t)(number | 0x80);
    bytes[size++] = (uint8_t)number;
    put(m, arena_copy(m->arena, bytes, size, 1), size);
}

static void put_number(struct message *m, uint32_t id, uint64_t number) {
    put_varint(m, (uint64_t)id << 3 | WIRE_VARINT);
    put_varint(m, number);
}

static void put_head(struct message *m, uint32_t id, size_t size) {
    put_varint(m, (uint64_t)id << 3 | WIRE_BYTES);
    put_varint(m, size);
}

static void put_bytes(struct message *m, uint32_t id, const void *data, size_t size) {
    put_head(m, id, size);
    put(m, data, size);
}

static void put_message(struct message *m, uint32_t id, const struct message *inner) {
    put_head(m, id, inner->size);
    for (size_t p = 0; p < inner->count; p++) put(m, inner->pieces[p].data, inner->pieces[p].size);
}

/* StringStringEntryProto */
static void put_entry(struct message *m, uint32_t id, const char *key, const char *value) {
    struct message entry = {.arena = m->arena};
    put_bytes(&entry, 1, key, strlen(key));
    put_bytes(&entry, 2, value, strlen(value));
    put_message(m, id, &entry);
}

/* The next field of a message that the reader has found whole, and all its bytes. */
static bool next(struct onnx_bytes *rest, struct field *field, struct onnx_bytes *all) {
    bool broken = false;
    *all = *rest;
    if (!next_field(rest, field, &broken)) return false;
    all->size -= rest->size;
    return true;
}

/* Whether the field is so numbered, and bytes; the reader passes over others. */
static bool is(const struct field *field, uint32_t id) { return field->id == id && field->wire == WIRE_BYTES; }

/* ------------------------------------------------------------------ tensors */

static bool is_data(uint32_t id) { return (id >= 4 && id <= 7) || (id >= 9 && id <= 11) || id == 13 || id == 14; }

/* All of a tensor but its data. */
static void put_tensor_head(struct message *m, struct onnx_bytes tensor) {
    struct onnx_bytes all;
    struct field field;
    while (next(&tensor, &field, &all))
        if (!is_data(field.id)) put(m, all.data, all.size);
}

static bool is_outside(struct onnx_bytes tensor) {
    struct onnx_bytes all;
    struct field field;
    bool outside = false;
    while (next(&tensor, &field, &all))
        if (field.id == 14) outside = field.number == 1;
    return outside;
}

/* The tensor with its data in the message, wherever they were. */
static void put_tensor_whole(struct message *m, uint32_t id, struct onnx_bytes from, const struct onnx_tensor *tensor) {
    struct message made = {.arena = m->arena};
    if (!is_outside(from)) {
        put_bytes(m, id, from.data, from.size);
        return;
    }
    put_tensor_head(&made, from);
    put_bytes(&made, 9, tensor->bytes.data, tensor->bytes.size);
    put_message(m, id, &made);
}

/* ------------------------------------------------------------------- origin */

/* Whether the network has the initializer as a parameter whose value may change. */
static bool is_parameter(const struct graph *graph, const char *name) {
    if (values_get(graph->values, name) == NULL) return false;
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(graph->parameters[p].name, name) == 0) return graph->parameters[p].role != PARAMETER_FIXED;
    return false;
}

static void strip_node(struct message *m, struct onnx_bytes from, const struct onnx_node *node, const char *name) {
    struct message made = {.arena = m->arena};
    struct onnx_bytes all, part;
    struct field field, inner;
    int attribute = 0;
    while (next(&from, &field, &all)) {
        const struct onnx_tensor *tensor = is(&field, 5) ? node->attributes[attribute++].tensor : NULL;
        if (tensor == NULL) {
            put(&made, all.data, all.size);
            continue;
        }
        struct message whole = {.arena = m->arena};
        while (next(&field.bytes, &inner, &part))
            if (is(&inner, 5))
                put_tensor_whole(&whole, 5, inner.bytes, tensor);
            else
                put(&whole, part.data, part.size);
        put_message(&made, 5, &whole);
    }
    if (name != NULL) put_entry(&made, 9, NODE_KEY, name);
    put_message(m, 1, &made);
}

static void strip_graph(const struct lowering *l, const struct graph *graph, const char *const *names, struct onnx_bytes from,
                        struct message *m) {
    struct onnx_bytes all;
    struct field field;
    int node = 0, initializer = 0;
    while (next(&from, &field, &all)) {
        if (is(&field, 1)) {
            strip_node(m, field.bytes, &l->model->nodes[node], names[node]);
            node++;
        } else if (is(&field, 5)) {
            const struct onnx_tensor *tensor = &l->model->initializers[initializer++];
            struct message made = {.arena = m->arena};
            if (!is_parameter(graph, tensor->name)) {
                put_tensor_whole(m, 5, field.bytes, tensor);
                continue;
            }
            put_tensor_head(&made, field.bytes);
            put_message(m, 5, &made);
        } else
            put(m, all.data, all.size);
    }
}

/* The message with its graph (of several the last, which was read) in place of the old one. */
static void put_model(struct message *m, struct onnx_bytes from, uint64_t ir_version, const struct message *graph) {
    struct onnx_bytes all;
    struct field field;
    while (next(&from, &field, &all)) {
        if (is(&field, 7)) continue;
        if (field.id == 1 && field.wire == WIRE_VARINT && field.number < ir_version)
            put_number(m, 1, ir_version);
        else
            put(m, all.data, all.size);
    }
    put_message(m, 7, graph);
}

static struct onnx_bytes graph_of(struct onnx_bytes model) {
    struct onnx_bytes all, graph = {0};
    struct field field;
    while (next(&model, &field, &all))
        if (is(&field, 7)) graph = field.bytes;
    return graph;
}

enum ps_status onnx_keep_origin(struct lowering *l, struct graph *graph) {
    struct message inner = {.arena = &l->arena}, whole = {.arena = &l->arena};
    const char **names = arena_take(&l->arena, (size_t)l->model->node_count, sizeof *names);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    for (int s = 0; s < l->step_count; s++) {
        const struct step *step = l->steps[s];
        if (step->made > 0) names[step->node - l->model->nodes] = graph->nodes[step->made].name;
    }
    strip_graph(l, graph, names, graph_of(l->model->contents), &inner);
    put_model(&whole, l->model->contents, 0, &inner);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    uint8_t *bytes = malloc(whole.size), *end = bytes;
    if (bytes == NULL) return error_memory(l->error, "an ONNX file", whole.size);
    for (size_t p = 0; p < whole.count; p++) {
        memcpy(end, whole.pieces[p].data, whole.pieces[p].size);
        end += whole.pieces[p].size;
    }
    values_set_origin(graph->values, bytes, whole.size);
    return PS_OK;
}

enum ps_status onnx_read_state(const void *origin, size_t size, struct values **state, struct ps_error *error) {
    const struct onnx_bytes bytes = {origin, size};
    struct values *made = values_create();
    struct onnx_model *model;
    if (made == NULL) return error_memory(error, "buffers", 1);
    enum ps_status status = onnx_model_read("the ONNX file that the network came from", &bytes, true, &model, error);
    for (int v = 1; status == PS_OK && v < model->value_count; v++) {
        const struct onnx_value *value = &model->values[v];
        if (onnx_is_state(model, value) && model->initializers[value->initializer].bytes.data != NULL)
            status = onnx_tensor_keep(&model->initializers[value->initializer], made, VALUES_COPY, error);
    }
    if (status == PS_OK)
        *state = made;
    else
        values_release(made);
    onnx_model_destroy(model);
    return status;
}

/* ------------------------------------------------------------------ writing */

struct writing {
    struct arena arena;
    const struct onnx_model *model;
    const struct ps_network *network;
    const struct onnx_write_options *options;
    const char *location; /* name of the file of weights; NULL: they are in the message */
    struct message outside;
    int *stages; /* of the model's nodes; NULL: not asked for */
    struct ps_error *error;
};

/* The nearest half-precision number; of two equally near the one whose last bit is 0. */
static uint16_t half_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x33000000) return (uint16_t)sign;
    const int exponent = (int)(magnitude >> 23), shift = exponent < 113 ? 126 - exponent : 13;
    const uint32_t fraction = (magnitude & 0x7fffff) | (exponent < 113 ? 0x800000 : 0);
    uint32_t half = exponent < 113 ? fraction >> shift : (uint32_t)(exponent - 112) << 10 | fraction >> 13;
    const uint32_t rest = fraction & ((1u << shift) - 1), middle = 1u << (shift - 1);
    half += rest > middle || (rest == middle && (half & 1));
    return (uint16_t)(sign | half);
}

/* The array's elements as the initializer has them. */
static const void *elements_as(struct writing *w, const struct array *array, int type, size_t *size) {
    const int64_t count = array_elements(array);
    const enum array_type wanted = onnx_is_float(type) ? onnx_array_type(type) : ARRAY_F32;
    *size = (size_t)count * array_types[wanted].bytes;
    if (array->type == wanted) return array->data;
    void *made = arena_take(&w->arena, (size_t)count, array_types[wanted].bytes);
    float *floats = wanted == ARRAY_F32   ? made
                    : wanted == ARRAY_F64 ? NULL
                                          : arena_take(&w->arena, (size_t)count, sizeof *floats);
    if (made == NULL || (floats == NULL && wanted != ARRAY_F64)) return NULL;
    if (wanted == ARRAY_F64)
        array_doubles(array, 0, count, made);
    else
        array_floats(array, 0, count, floats);
    for (int64_t i = 0; i < count && wanted == ARRAY_F16; i++) ((uint16_t *)made)[i] = half_of(floats[i]);
    for (int64_t i = 0; i < count && wanted == ARRAY_BF16; i++) ((uint16_t *)made)[i] = bf16_of(floats[i]);
    return made;
}

/* Into the file of weights, at an address that suits any reader. */
static void put_outside(struct writing *w, const void *data, size_t size, struct message *m) {
    static const char zeros[64];
    const size_t places[] = {w->outside.size + (0 - w->outside.size) % sizeof zeros, size};
    put(&w->outside, zeros, places[0] - w->outside.size);
    put(&w->outside, data, size);
    put_entry(m, 13, "location", w->location);
    for (int i = 0; i < 2; i++) {
        char text[32];
        snprintf(text, sizeof text, "%zu", places[i]);
        put_entry(m, 13, i > 0 ? "length" : "offset", arena_copy(&w->arena, text, strlen(text) + 1, 1));
    }
    put_number(m, 14, 1);
}

static enum ps_status put_initializer(struct writing *w, struct onnx_bytes from, const struct onnx_tensor *tensor,
                                      struct message *m) {
    const struct array *array = values_get(w->network->graph->values, tensor->name);
    struct message made = {.arena = &w->arena};
    size_t size;
    if (tensor->bytes.data != NULL || tensor->elements == 0) {
        put_bytes(m, 5, from.data, from.size);
        return PS_OK;
    }
    if (array == NULL || array_elements(array) != tensor->elements)
        return error_set(w->error, PS_BAD_INPUT, "%s: there are no values of the parameter '%.80s', which has %lld",
                         w->network->name, tensor->name, (long long)tensor->elements);
    const void *data = elements_as(w, array, tensor->type, &size);
    put_tensor_head(&made, from);
    if (w->location != NULL && size >= OUTSIDE_BYTES)
        put_outside(w, data, size, &made);
    else
        put_bytes(&made, 9, data, size);
    put_message(m, 5, &made);
    return PS_OK;
}

/* Nodes that compute otherwise in training: batch norm by the statistics of the batch, of which it has more outputs, and
 * dropout, whose further inputs tell it to drop. */
static bool is_training(const struct writing *w, const struct onnx_node *node) {
    if (w->options->training || (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)) return false;
    return strcmp(node->op, "Dropout") == 0 ||
           (strcmp(node->op, "BatchNormalization") == 0 && onnx_int(node, "training_mode", 0) != 0);
}

static bool is_key(struct onnx_bytes entry) {
    struct onnx_bytes all;
    struct field field;
    while (next(&entry, &field, &all))
        if (is(&field, 1) && field.bytes.size == strlen(NODE_KEY) && memcmp(field.bytes.data, NODE_KEY, field.bytes.size) == 0)
            return true;
    return false;
}

static void put_node(struct writing *w, struct onnx_bytes from, int number, struct message *m) {
    const struct onnx_node *node = &w->model->nodes[number];
    const bool training = is_training(w, node), norm = training && node->op[0] == 'B';
    struct message made = {.arena = &w->arena}, stage = {.arena = &w->arena};
    struct onnx_bytes all;
    struct field field;
    int inputs = 0, outputs = 0, attributes = 0;
    while (next(&from, &field, &all)) {
        bool left_out = is(&field, 9) && is_key(field.bytes);
        if (is(&field, 1)) left_out = inputs++ > 0 && training && !norm;
        if (is(&field, 2)) left_out = outputs++ > 0 && norm;
        if (is(&field, 5)) left_out = strcmp(node->attributes[attributes++].name, "training_mode") == 0 && norm;
        if (!left_out) put(&made, all.data, all.size);
    }
    if (w->stages != NULL) {
        put_bytes(&stage, 1, CONFIGURATION, strlen(CONFIGURATION));
        put_number(&stage, 3, (uint64_t)w->stages[number]);
        put_message(&made, 10, &stage);
    }
    put_message(m, 1, &made);
}

/* A further output of the graph that a batch norm gives in training alone. */
static bool is_left_out(const struct writing *w, int output) {
    const int value = w->model->outputs[output].value, producer = w->model->values[value].producer;
    if (producer < 0 || output == 0) return false;
    const struct onnx_node *node = &w->model->nodes[producer];
    return is_training(w, node) && node->op[0] == 'B' && node->outputs[0] != value;
}

static enum ps_status put_graph(struct writing *w, struct onnx_bytes from, struct message *m) {
    struct onnx_bytes all;
    struct field field;
    int node = 0, initializer = 0, output = 0;
    while (next(&from, &field, &all)) {
        if (is(&field, 1))
            put_node(w, field.bytes, node++, m);
        else if (is(&field, 5))
            TRY(put_initializer(w, field.bytes, &w->model->initializers[initializer++], m));
        else if (!is(&field, 12) || !is_left_out(w, output++))
            put(m, all.data, all.size);
    }
    return PS_OK;
}

/* The name of the node that the origin's metadata have; "" where there is none. */
static void name_of(struct onnx_bytes node, char name[64]) {
    struct onnx_bytes all, entry;
    struct field field, inner;
    name[0] = '\0';
    while (next(&node, &field, &all)) {
        if (!is(&field, 9) || !is_key(field.bytes)) continue;
        entry = field.bytes;
        while (next(&entry, &inner, &all))
            if (is(&inner, 2) && inner.bytes.size < 64) snprintf(name, 64, "%.*s", (int)inner.bytes.size, inner.bytes.data);
    }
}

/*
 * Nodes that compute something have the stage of what Penstock makes of them. The others, what became part of these or only
 * rearranges, are computed where they are read first. One that nobody reads is computed where its inputs are.
 */
static enum ps_status find_stages(struct writing *w, struct onnx_bytes graph) {
    const struct onnx_model *model = w->model;
    const struct graph *own = w->network->graph;
    int *readers = arena_take(&w->arena, (size_t)model->value_count, sizeof *readers); /* the first stage that reads it, + 1 */
    struct onnx_bytes all;
    struct field field;
    char name[64];
    w->stages = arena_take(&w->arena, (size_t)model->node_count, sizeof *w->stages);
    TRY(arena_check(&w->arena, "an ONNX file", w->error));
    for (int n = 0; n < model->node_count; n++) w->stages[n] = -1;
    for (int n = 0; next(&graph, &field, &all);) {
        if (!is(&field, 1)) continue;
        name_of(field.bytes, name);
        for (int o = own->node_count - 1; o > 0 && name[0] != '\0'; o--)
            if (strcmp(own->nodes[o].name, name) == 0) w->stages[n] = w->options->stages[o];
        n++;
    }
    for (int n = model->node_count - 1; n >= 0; n--) {
        const struct onnx_node *node = &model->nodes[n];
        for (int o = 0; o < node->output_count; o++) {
            const int reader = readers[node->outputs[o]] - 1;
            if (node->outputs[o] != 0 && reader >= 0 && (w->stages[n] < 0 || reader < w->stages[n])) w->stages[n] = reader;
        }
        for (int i = 0; i < node->input_count && w->stages[n] >= 0; i++) {
            int *reader = &readers[node->inputs[i]];
            if (*reader == 0 || *reader > w->stages[n] + 1) *reader = w->stages[n] + 1;
        }
    }
    for (int n = 0; n < model->node_count; n++) {
        const struct onnx_node *node = &model->nodes[n];
        for (int i = 0, read = w->stages[n] < 0; i < node->input_count && read; i++) {
            const int producer = model->values[node->inputs[i]].producer;
            if (producer >= 0 && producer < n && w->stages[producer] > w->stages[n]) w->stages[n] = w->stages[producer];
        }
        if (w->stages[n] < 0) w->stages[n] = 0;
    }
    return PS_OK;
}

static enum ps_status write_model(struct writing *w, const char *path) {
    struct message graph = {.arena = &w->arena}, whole = {.arena = &w->arena}, devices = {.arena = &w->arena};
    const struct onnx_bytes contents = w->model->contents, from = graph_of(contents);
    char outside[4096];
    w->outside = (struct message){.arena = &w->arena};
    if (w->options->stages != NULL) TRY(find_stages(w, from));
    TRY(put_graph(w, from, &graph));
    put_model(&whole, contents, w->options->stages != NULL ? IR_VERSION_STAGES : 0, &graph);
    if (w->options->stages != NULL) {
        put_bytes(&devices, 1, CONFIGURATION, strlen(CONFIGURATION));
        put_number(&devices, 2, (uint64_t)w->options->devices);
        put_message(&whole, 26, &devices);
    }
    TRY(arena_check(&w->arena, "an ONNX file", w->error));
    if (w->location != NULL) {
        snprintf(outside, sizeof outside, "%s" ONNX_OUTSIDE, path);
        TRY(file_write_pieces(outside, w->outside.pieces, w->outside.count, w->error));
    }
    return file_write_pieces(path, whole.pieces, whole.count, w->error);
}

static size_t bytes_to_write(const struct onnx_model *model) {
    size_t bytes = model->contents.size;
    for (int i = 0; i < model->initializer_count; i++)
        if (model->initializers[i].bytes.data == NULL)
            bytes += (size_t)model->initializers[i].elements * (model->initializers[i].type == ONNX_DOUBLE ? 8 : 4);
    return bytes;
}

enum ps_status onnx_write_network(const struct ps_network *network, const struct onnx_write_options *options, const char *path,
                                  struct ps_error *error) {
    struct onnx_model *model;
    struct onnx_bytes origin;
    char location[256];
    const char *slash = strrchr(path, '/');
    origin.data = values_origin(network->graph->values, &origin.size);
    if (origin.data == NULL) {
        error_set(error, PS_USAGE, "%s: the network did not come from an ONNX file, so there is no graph to write",
                  network->name);
        error_hint(error, "export its weights as safetensors");
        return PS_USAGE;
    }
    TRY(onnx_model_read(network->name, &origin, true, &model, error));
    struct writing w = {.model = model, .network = network, .options = options, .error = error};
    snprintf(location, sizeof location, "%.240s" ONNX_OUTSIDE, slash != NULL ? slash + 1 : path);
    if (options->external || bytes_to_write(model) > message_limit) w.location = location;
    enum ps_status status = PS_OK;
    if (w.location != NULL && file_is_stream(path))
        status = error_set(error, PS_USAGE, "%s: the weights go into a file of their own beside it, and it is no regular file",
                           path);
    if (status == PS_OK) status = write_model(&w, path);
    arena_release(&w.arena);
    onnx_model_destroy(model);
    return status;
}
