/* The reader of protobuf, what of it an ONNX file is made of, and the files behind it. */
#include "onnx/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/number.h"
#include "base/number_type.h"
#include "onnx/protobuf.h"

static float float_of(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* ------------------------------------------------------------------- files */

struct onnx_mapped {
    struct onnx_mapped *next;
    const char *name; /* of external data; NULL: the model */
    void *address;
    size_t size;
};

/* What reading needs beside the model. */
struct reading {
    struct onnx_model *model;
    const char *path;
    int *table; /* of names: numbers of values, by hash */
    size_t table_size;
    int *ids;
    size_t id_count;
    struct onnx_attribute *attributes;
    size_t attribute_count;
    bool broken;
    bool stripped; /* tensors may lack their data */
    struct ps_error *error;
};

static enum ps_status bad(const struct reading *reading, const char *format, ...) PS_PRINTF(2, 3);
static enum ps_status bad(const struct reading *reading, const char *format, ...) {
    char text[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    return error_set(reading->error, PS_BAD_INPUT, "%s: %s", reading->path, text);
}

static enum ps_status map_file(struct reading *reading, const char *path, const char *name, int flags,
                               struct onnx_mapped **mapped) {
    struct onnx_model *model = reading->model;
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (file < 0 && errno == ELOOP && (flags & O_NOFOLLOW))
        return bad(reading, "%s: is a symbolic link, which external data may not be", name);
    if (file < 0) return bad(reading, "%s%s%s", name != NULL ? name : "", name != NULL ? ": " : "", strerror(errno));
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        close(file);
        return bad(reading, "%s%sis %s", name != NULL ? name : "", name != NULL ? " " : "",
                   S_ISREG(status.st_mode) ? "empty" : "no plain file");
    }
    void *address = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (address == MAP_FAILED) return bad(reading, "%s: cannot be mapped: %s", name != NULL ? name : "", strerror(errno));
    struct onnx_mapped *made = arena_take(&model->arena, 1, sizeof *made);
    if (made == NULL) {
        munmap(address, (size_t)status.st_size);
        return PS_OK; /* told by arena_check */
    }
    *made = (struct onnx_mapped){model->files, name, address, (size_t)status.st_size};
    model->files = made;
    *mapped = made;
    return PS_OK;
}

/* The file that external data name: in the model's directory, neither elsewhere nor a link. */
static enum ps_status find_external(struct reading *reading, const char *name, struct onnx_mapped **mapped) {
    char directory[4096], path[4096];
    for (struct onnx_mapped *m = reading->model->files; m != NULL; m = m->next) {
        if (m->name == NULL || strcmp(m->name, name) != 0) continue;
        *mapped = m;
        return PS_OK;
    }
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL || strchr(name, '\\') != NULL)
        return bad(reading, "external data '%.100s': the name of a file beside the model is accepted", name);
    const char *slash = strrchr(reading->path, '/');
    int length = slash != NULL ? (int)(slash - reading->path) : 1;
    snprintf(directory, sizeof directory, "%.*s", length > 0 ? length : 1, slash != NULL ? reading->path : ".");
    file_join(path, directory, name);
    return map_file(reading, path, name, O_NOFOLLOW, mapped);
}

/* ------------------------------------------------------------------- names */

static const char *text_of(struct reading *reading, struct onnx_bytes bytes) {
    if (bytes.size == 0) return "";
    char *text = arena_take(&reading->model->arena, bytes.size + 1, 1);
    if (text == NULL) return "";
    memcpy(text, bytes.data, bytes.size);
    for (size_t i = 0; i < bytes.size; i++)
        if (text[i] == '\0') text[i] = '?';
    return text;
}

/* The number of the value of this name, new where there was none. */
static int intern(struct reading *reading, struct onnx_bytes name) {
    struct onnx_model *model = reading->model;
    if (name.size == 0) return 0;
    uint64_t hash = hash_bytes(HASH_BEGIN, name.data, name.size);
    size_t place = (size_t)((hash ^ hash >> 29) % reading->table_size);
    for (; reading->table[place] != 0; place = place + 1 < reading->table_size ? place + 1 : 0) {
        const char *known = model->values[reading->table[place]].name;
        if (strncmp(known, (const char *)name.data, name.size) == 0 && known[name.size] == '\0') return reading->table[place];
    }
    reading->table[place] = model->value_count;
    model->values[model->value_count] =
        (struct onnx_value){.name = text_of(reading, name), .producer = -1, .initializer = -1, .input = -1};
    return model->value_count++;
}

/* ----------------------------------------------------------------- tensors */

static size_t type_bytes(int type) {
    switch (type) {
    case ONNX_UINT8:
    case ONNX_INT8:
    case ONNX_BOOL:
        return 1;
    case ONNX_UINT16:
    case ONNX_INT16:
    case ONNX_FLOAT16:
    case ONNX_BFLOAT16:
        return 2;
    case ONNX_FLOAT:
    case ONNX_INT32:
    case ONNX_UINT32:
        return 4;
    case ONNX_INT64:
    case ONNX_UINT64:
    case ONNX_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

struct external {
    const char *location;
    int64_t offset, length; /* length -1: not said */
};

static enum ps_status read_external(struct reading *reading, struct onnx_bytes entry, struct external *external) {
    struct field field;
    const char *key = "", *value = "";
    while (next_field(&entry, &field, &reading->broken)) {
        if (field.wire != WIRE_BYTES) continue;
        if (field.id == 1) key = text_of(reading, field.bytes);
        if (field.id == 2) value = text_of(reading, field.bytes);
    }
    if (strcmp(key, "location") == 0) external->location = value;
    if (strcmp(key, "offset") != 0 && strcmp(key, "length") != 0) return PS_OK;
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end != '\0' || errno != 0)
        return bad(reading, "external data: %s '%.40s' is no size", key, value);
    *(key[0] == 'o' ? &external->offset : &external->length) = number;
    return PS_OK;
}

static enum ps_status place_external(struct reading *reading, struct onnx_tensor *tensor, const struct external *external) {
    struct onnx_mapped *mapped = NULL;
    const int64_t needed = tensor->elements * (int64_t)type_bytes(tensor->type);
    TRY(find_external(reading, external->location != NULL ? external->location : "", &mapped));
    if (mapped == NULL) return PS_OK;
    const int64_t length = external->length >= 0 ? external->length : needed;
    if (external->offset > (int64_t)mapped->size || length > (int64_t)mapped->size - external->offset || length != needed)
        return bad(reading, "tensor '%.80s': its external data are %lld bytes at %lld of %.100s (%zu bytes), and it needs %lld",
                   tensor->name, (long long)length, (long long)external->offset, mapped->name, mapped->size, (long long)needed);
    tensor->bytes = (struct onnx_bytes){(const uint8_t *)mapped->address + external->offset, (size_t)length};
    return PS_OK;
}

/* Tells by shape and type how many bytes there must be. Varints are counted. */
static enum ps_status check_data(struct reading *reading, struct onnx_tensor *tensor) {
    size_t found = tensor->bytes.size, size = tensor->varints ? 1 : type_bytes(tensor->type);
    if (type_bytes(tensor->type) == 0)
        return bad(reading, "tensor '%.80s': data type %d is not known", tensor->name, tensor->type);
    if (reading->stripped && tensor->bytes.data == NULL) return PS_OK;
    if (tensor->varints) {
        found = 0;
        for (size_t i = 0; i < tensor->bytes.size; i++) found += tensor->bytes.data[i] < 0x80;
    }
    if (found == (size_t)tensor->elements * size) return PS_OK;
    return bad(reading, "tensor '%.80s': %zu %s, and its shape needs %lld", tensor->name, found,
               tensor->varints ? "numbers" : "bytes", (long long)(tensor->elements * (int64_t)size));
}

static enum ps_status add_dim(struct reading *reading, struct onnx_tensor *tensor, uint64_t dim) {
    if (tensor->rank == ONNX_RANK_MAX)
        return bad(reading, "tensor '%.80s': at most %d dimensions are accepted", tensor->name, ONNX_RANK_MAX);
    if (dim > INT64_MAX || (dim > 0 && tensor->elements > ((int64_t)1 << 40) / (int64_t)dim))
        return bad(reading, "tensor '%.80s': its dimensions are too large", tensor->name);
    tensor->elements *= (int64_t)dim;
    tensor->dims[tensor->rank++] = (int64_t)dim;
    return PS_OK;
}

static enum ps_status read_tensor(struct reading *reading, struct onnx_bytes message, struct onnx_tensor *tensor) {
    struct external external = {.length = -1};
    struct field field;
    bool outside = false, segmented = false;
    uint64_t dim;
    *tensor = (struct onnx_tensor){.name = "", .elements = 1};
    while (next_field(&message, &field, &reading->broken)) {
        struct onnx_bytes packed = field.bytes;
        switch (field.id) {
        case 1:
            if (field.wire == WIRE_VARINT) TRY(add_dim(reading, tensor, field.number));
            while (field.wire == WIRE_BYTES && packed.size > 0) {
                if (!next_varint(&packed, &dim)) return bad(reading, "a tensor's dimensions are broken");
                TRY(add_dim(reading, tensor, dim));
            }
            break;
        case 2:
            tensor->type = field.number > 1000 ? 1000 : (int)field.number;
            break;
        case 3:
            segmented = true;
            break;
        case 4: /* floats, doubles, raw bytes; then integers as varints */
        case 10:
        case 9:
        case 5:
        case 7:
        case 11:
            if (field.wire != WIRE_BYTES) return bad(reading, "tensor '%.80s': its data are not packed", tensor->name);
            tensor->bytes = field.bytes;
            tensor->varints = field.id == 5 || field.id == 7 || field.id == 11;
            break;
        case 8:
            tensor->name = text_of(reading, field.bytes);
            break;
        case 13:
            TRY(read_external(reading, field.bytes, &external));
            break;
        case 14:
            outside = field.number == 1;
            break;
        default:
            break;
        }
    }
    if (reading->broken || segmented) return bad(reading, "tensor '%.80s' is broken", tensor->name);
    if (outside) TRY(place_external(reading, tensor, &external));
    return check_data(reading, tensor);
}

/* -------------------------------------------------------------- attributes */

/* Of a repeated field, packed or not: how many numbers the message has. */
static size_t count_numbers(struct onnx_bytes message, uint32_t id) {
    struct field field;
    bool broken = false;
    size_t count = 0;
    while (next_field(&message, &field, &broken)) {
        if (field.id != id) continue;
        if (field.wire == WIRE_BYTES && id == 8)
            for (size_t i = 0; i < field.bytes.size; i++) count += field.bytes.data[i] < 0x80;
        else
            count += field.wire == WIRE_BYTES ? field.bytes.size / 4 : 1;
    }
    return count;
}

static void read_lists(struct reading *reading, struct onnx_bytes message, struct onnx_attribute *attribute) {
    struct arena *arena = &reading->model->arena;
    const size_t integers = count_numbers(message, 8), reals = count_numbers(message, 7);
    int64_t *ints = integers > 0 ? arena_take(arena, integers, sizeof *ints) : NULL;
    float *floats = reals > 0 ? arena_take(arena, reals, sizeof *floats) : NULL;
    size_t i = 0, f = 0;
    struct field field;
    uint64_t number;
    while (next_field(&message, &field, &reading->broken)) {
        if (field.id == 8 && field.wire == WIRE_VARINT && ints != NULL) ints[i++] = (int64_t)field.number;
        if (field.id == 7 && field.wire == WIRE_4 && floats != NULL) floats[f++] = float_of(field.number);
        if (field.wire != WIRE_BYTES) continue;
        struct onnx_bytes packed = field.bytes;
        while (field.id == 8 && ints != NULL && packed.size > 0 && next_varint(&packed, &number)) ints[i++] = (int64_t)number;
        while (field.id == 7 && floats != NULL && next_fixed(&packed, 4, &number)) floats[f++] = float_of(number);
    }
    attribute->ints = ints;
    attribute->floats = floats;
    attribute->count = (int)(i > 0 ? i : f);
}

static enum ps_status read_attribute(struct reading *reading, struct onnx_bytes message, struct onnx_attribute *attribute) {
    struct onnx_bytes rest = message;
    struct field field;
    enum onnx_attribute_type said = 0, seen = 0;
    *attribute = (struct onnx_attribute){.name = "", .s = ""};
    while (next_field(&rest, &field, &reading->broken)) {
        switch (field.id) {
        case 1:
            attribute->name = text_of(reading, field.bytes);
            break;
        case 2:
            attribute->f = float_of(field.number);
            seen = ONNX_ATTRIBUTE_FLOAT;
            break;
        case 3:
            attribute->i = (int64_t)field.number;
            seen = ONNX_ATTRIBUTE_INT;
            break;
        case 4:
            attribute->s = text_of(reading, field.bytes);
            seen = ONNX_ATTRIBUTE_STRING;
            break;
        case 9: {
            const char *text = text_of(reading, field.bytes);
            attribute->s = attribute->count++ == 0 || strcmp(attribute->s, text) == 0 ? text : "";
            seen = ONNX_ATTRIBUTE_STRINGS;
            break;
        }
        case 5: {
            struct onnx_tensor *tensor = arena_take(&reading->model->arena, 1, sizeof *tensor);
            if (tensor == NULL) return PS_OK;
            TRY(read_tensor(reading, field.bytes, tensor));
            attribute->tensor = tensor;
            seen = ONNX_ATTRIBUTE_TENSOR;
            break;
        }
        case 7:
            seen = ONNX_ATTRIBUTE_FLOATS;
            break;
        case 8:
            seen = ONNX_ATTRIBUTE_INTS;
            break;
        case 20:
            said = field.number >= 1 && field.number <= 8 ? (enum onnx_attribute_type)field.number : ONNX_ATTRIBUTE_OTHER;
            break;
        default:
            break;
        }
    }
    attribute->type = said != 0 ? said : seen;
    if (attribute->type == ONNX_ATTRIBUTE_TENSOR && attribute->tensor == NULL)
        return bad(reading, "attribute '%.80s' has no tensor", attribute->name);
    if (attribute->type == ONNX_ATTRIBUTE_INTS || attribute->type == ONNX_ATTRIBUTE_FLOATS)
        read_lists(reading, message, attribute);
    return PS_OK;
}

/* ------------------------------------------------------------------- nodes */

/* An entry of the metadata: a key with a value. */
static void read_entry(struct reading *reading, struct onnx_bytes message, struct onnx_bytes *key, struct onnx_bytes *value) {
    struct field field;
    *key = *value = (struct onnx_bytes){0};
    while (next_field(&message, &field, &reading->broken)) {
        if (field.id == 1) *key = field.bytes;
        if (field.id == 2) *value = field.bytes;
    }
}

static bool bytes_are(struct onnx_bytes bytes, const char *text) {
    return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static enum ps_status read_node(struct reading *reading, struct onnx_bytes message, struct onnx_node *node) {
    struct onnx_bytes rest = message, key, said;
    struct field field;
    int *ids = reading->ids + reading->id_count;
    *node =
        (struct onnx_node){.op = "", .name = "", .domain = "", .attributes = reading->attributes + reading->attribute_count};
    for (int output = 0; output < 2; output++) {
        rest = message;
        *(output ? &node->outputs : &node->inputs) = ids;
        while (next_field(&rest, &field, &reading->broken)) {
            if (field.id != (output ? 2u : 1u) || field.wire != WIRE_BYTES) continue;
            *ids++ = intern(reading, field.bytes);
            ++*(output ? &node->output_count : &node->input_count);
        }
    }
    reading->id_count = (size_t)(ids - reading->ids);
    rest = message;
    while (next_field(&rest, &field, &reading->broken)) {
        if (field.wire != WIRE_BYTES) continue;
        if (field.id == 3) node->name = text_of(reading, field.bytes);
        if (field.id == 4) node->op = text_of(reading, field.bytes);
        if (field.id == 7) node->domain = text_of(reading, field.bytes);
        if (field.id == 9) {
            read_entry(reading, field.bytes, &key, &said);
            if (bytes_are(key, "pkg.torch.onnx.fx_node")) node->torch_call = said;
        }
        if (field.id != 5) continue;
        TRY(read_attribute(reading, field.bytes, &reading->attributes[reading->attribute_count++]));
        node->attribute_count++;
    }
    const int number = (int)(node - reading->model->nodes);
    if (node->op[0] == '\0') return bad(reading, "node %d '%.80s' has no operator", number, node->name);
    if (node->output_count == 0) return bad(reading, "node %d '%.80s' (%.40s) has no output", number, node->name, node->op);
    if (node->name[0] == '\0') node->name = reading->model->values[node->outputs[0]].name;
    for (int o = 0; o < node->output_count; o++) {
        struct onnx_value *value = &reading->model->values[node->outputs[o]];
        if (node->outputs[o] == 0) continue;
        if (value->producer >= 0) return bad(reading, "value '%.80s': two nodes make it", value->name);
        value->producer = number;
    }
    return PS_OK;
}

/* --------------------------------------------------- inputs, outputs, values */

/* TypeProto: a tensor's element type and dimensions. */
static enum ps_status read_type(struct reading *reading, struct onnx_bytes message, struct onnx_interface *out) {
    struct field field;
    struct onnx_bytes tensor = {0}, shape = {0};
    while (next_field(&message, &field, &reading->broken))
        if (field.id == 1 && field.wire == WIRE_BYTES) tensor = field.bytes;
    while (next_field(&tensor, &field, &reading->broken)) {
        if (field.id == 1) out->type = field.number > 1000 ? 1000 : (int)field.number;
        if (field.id == 2 && field.wire == WIRE_BYTES) shape = field.bytes;
    }
    while (next_field(&shape, &field, &reading->broken)) {
        if (field.id != 1 || field.wire != WIRE_BYTES) continue;
        if (out->rank == ONNX_RANK_MAX)
            return bad(reading, "value '%.80s': at most %d dimensions are accepted", reading->model->values[out->value].name,
                       ONNX_RANK_MAX);
        struct onnx_bytes dim = field.bytes;
        out->symbols[out->rank] = "";
        while (next_field(&dim, &field, &reading->broken)) {
            if (field.id == 1 && field.wire == WIRE_VARINT && field.number < (uint64_t)1 << 32)
                out->dims[out->rank] = (int64_t)field.number;
            if (field.id == 2 && field.wire == WIRE_BYTES) out->symbols[out->rank] = text_of(reading, field.bytes);
        }
        out->rank++;
    }
    return PS_OK;
}

static enum ps_status read_value(struct reading *reading, struct onnx_bytes message, struct onnx_interface *out) {
    struct onnx_bytes type = {0}, name = {0}, key, value;
    struct field field;
    enum onnx_kind kind = ONNX_KIND_UNSAID;
    bool unsaved = false;
    *out = (struct onnx_interface){0};
    while (next_field(&message, &field, &reading->broken)) {
        if (field.wire != WIRE_BYTES) continue;
        if (field.id == 1) name = field.bytes; /* the last, as protobuf has it */
        if (field.id == 2) type = field.bytes;
        if (field.id != 4) continue;
        read_entry(reading, field.bytes, &key, &value);
        if (bytes_are(key, "pkg.torch.export.graph_signature.InputSpec.persistent")) unsaved = bytes_are(value, "False");
        if (!bytes_are(key, "pkg.torch.export.graph_signature.InputSpec.kind")) continue;
        kind = bytes_are(value, "PARAMETER")         ? ONNX_KIND_PARAMETER
               : bytes_are(value, "BUFFER")          ? ONNX_KIND_BUFFER
               : bytes_are(value, "CONSTANT_TENSOR") ? ONNX_KIND_CONSTANT
                                                     : kind;
    }
    out->value = intern(reading, name);
    if (kind != ONNX_KIND_UNSAID) reading->model->values[out->value].kind = kind;
    if (unsaved) reading->model->values[out->value].unsaved = true;
    return read_type(reading, type, out);
}

static enum ps_status note_initializer(struct reading *reading, struct onnx_bytes message, int number) {
    struct onnx_tensor *tensor = &reading->model->initializers[number];
    TRY(read_tensor(reading, message, tensor));
    if (tensor->name[0] == '\0') return bad(reading, "initializer %d has no name", number);
    int id = intern(reading, (struct onnx_bytes){(const uint8_t *)tensor->name, strlen(tensor->name)});
    struct onnx_value *value = &reading->model->values[id];
    if (value->initializer >= 0) return bad(reading, "initializer '%.80s': two have this name", tensor->name);
    value->initializer = number;
    return PS_OK;
}

/* ------------------------------------------------------------------- graph */

struct counts {
    size_t nodes, initializers, inputs, outputs, values, ids, attributes;
};

static struct counts count_graph(struct onnx_bytes graph, bool *broken) {
    struct counts counts = {0};
    struct field field, inner;
    while (next_field(&graph, &field, broken)) {
        counts.nodes += field.id == 1;
        counts.initializers += field.id == 5;
        counts.inputs += field.id == 11;
        counts.outputs += field.id == 12;
        counts.values += field.id == 13;
        while (field.id == 1 && next_field(&field.bytes, &inner, broken)) {
            counts.ids += inner.id == 1 || inner.id == 2;
            counts.attributes += inner.id == 5;
        }
    }
    return counts;
}

static enum ps_status take_arrays(struct reading *reading, const struct counts *counts) {
    struct onnx_model *model = reading->model;
    struct arena *arena = &model->arena;
    const size_t names = counts->ids + counts->initializers + counts->inputs + counts->outputs + counts->values + 1;
    if (names > INT32_MAX / 4) return bad(reading, "it has too many names");
    model->nodes = arena_take(arena, counts->nodes, sizeof *model->nodes);
    model->initializers = arena_take(arena, counts->initializers, sizeof *model->initializers);
    model->inputs = arena_take(arena, counts->inputs, sizeof *model->inputs);
    model->outputs = arena_take(arena, counts->outputs, sizeof *model->outputs);
    model->values = arena_take(arena, names, sizeof *model->values);
    reading->ids = arena_take(arena, counts->ids, sizeof *reading->ids);
    reading->attributes = arena_take(arena, counts->attributes, sizeof *reading->attributes);
    reading->table_size = 2 * names + 1;
    reading->table = arena_take(arena, reading->table_size, sizeof *reading->table);
    TRY(arena_check(arena, "an ONNX file", reading->error));
    model->values[0] = (struct onnx_value){.name = "", .producer = -1, .initializer = -1, .input = -1};
    model->value_count = 1;
    return PS_OK;
}

static enum ps_status read_graph(struct reading *reading, struct onnx_bytes graph) {
    struct onnx_model *model = reading->model;
    struct onnx_interface value;
    struct field field;
    const struct counts counts = count_graph(graph, &reading->broken);
    if (reading->broken) return bad(reading, "is no ONNX file, or is damaged");
    if (counts.nodes == 0) return bad(reading, "has no nodes");
    TRY(take_arrays(reading, &counts));
    struct onnx_bytes rest = graph;
    while (next_field(&rest, &field, &reading->broken)) {
        if (field.wire != WIRE_BYTES) continue;
        if (field.id == 1) TRY(read_node(reading, field.bytes, &model->nodes[model->node_count++]));
        if (field.id == 5) TRY(note_initializer(reading, field.bytes, model->initializer_count++));
        if (field.id == 11) TRY(read_value(reading, field.bytes, &model->inputs[model->input_count++]));
        if (field.id == 12) TRY(read_value(reading, field.bytes, &model->outputs[model->output_count++]));
        if (field.id == 13) TRY(read_value(reading, field.bytes, &value));
        if (field.id == 15) return bad(reading, "has sparse initializers, which are not known");
    }
    return PS_OK;
}

/* Inputs that have an initializer are no inputs (before IR version 4 all initializers were listed so). */
static enum ps_status settle(struct reading *reading) {
    struct onnx_model *model = reading->model;
    int inputs = 0;
    for (int i = 0; i < model->input_count; i++) {
        struct onnx_value *value = &model->values[model->inputs[i].value];
        if (value->initializer >= 0) continue;
        if (value->producer >= 0 || value->input >= 0)
            return bad(reading, "input '%.80s': two inputs or nodes have this name", value->name);
        value->input = inputs;
        model->inputs[inputs++] = model->inputs[i];
    }
    model->input_count = inputs;
    for (int v = 1; v < model->value_count; v++) {
        const struct onnx_value *value = &model->values[v];
        if (value->initializer < 0) continue;
        if (value->producer >= 0) return bad(reading, "initializer '%.80s': a node makes it, too", value->name);
        model->marked = model->marked || value->kind != ONNX_KIND_UNSAID;
    }
    return PS_OK;
}

static enum ps_status read_model(struct reading *reading, struct onnx_bytes rest) {
    struct onnx_model *model = reading->model;
    struct onnx_bytes graph = {0};
    struct field field, inner;
    model->contents = rest;
    model->producer = "";
    while (next_field(&rest, &field, &reading->broken)) {
        if (field.wire != WIRE_BYTES) continue;
        if (field.id == 2) model->producer = text_of(reading, field.bytes);
        if (field.id == 7) graph = field.bytes;
        if (field.id != 8) continue;
        struct onnx_bytes domain = {0};
        int64_t version = 0;
        while (next_field(&field.bytes, &inner, &reading->broken)) {
            if (inner.id == 1) domain = inner.bytes;
            if (inner.id == 2) version = (int64_t)inner.number;
        }
        if (domain.size == 0 || bytes_are(domain, "ai.onnx")) model->opset = version;
    }
    if (reading->broken || graph.data == NULL) return bad(reading, "is no ONNX file, or is damaged");
    TRY(read_graph(reading, graph));
    if (reading->broken) return bad(reading, "is damaged");
    return settle(reading);
}

enum ps_status onnx_model_read(const char *path, const struct onnx_bytes *bytes, bool stripped, struct onnx_model **model,
                               struct ps_error *error) {
    struct onnx_model *made = calloc(1, sizeof *made);
    if (made == NULL) return error_memory(error, "an ONNX file", sizeof *made);
    struct reading reading = {.model = made, .path = path, .stripped = stripped, .error = error};
    struct onnx_mapped *mapped = NULL;
    enum ps_status status = bytes == NULL ? map_file(&reading, path, NULL, 0, &mapped) : PS_OK;
    if (mapped != NULL)
        status = read_model(&reading, (struct onnx_bytes){mapped->address, mapped->size});
    else if (bytes != NULL)
        status = read_model(&reading, *bytes);
    if (made->arena.refused > 0) status = error_memory(error, "an ONNX file", made->arena.refused);
    if (status != PS_OK) {
        onnx_model_destroy(made);
        return status;
    }
    *model = made;
    return PS_OK;
}

bool onnx_model_take_mapping(struct onnx_model *model, struct file_map *mapping) {
    if (model->files == NULL) return false;
    *mapping = (struct file_map){model->files->address, model->files->size};
    model->files = model->files->next;
    return true;
}

void onnx_model_destroy(struct onnx_model *model) {
    if (model == NULL) return;
    for (struct onnx_mapped *m = model->files; m != NULL; m = m->next) munmap(m->address, m->size);
    arena_release(&model->arena);
    free(model);
}

/* ----------------------------------------------------------------- queries */

bool onnx_is_state(const struct onnx_model *model, const struct onnx_value *value) {
    if (value->initializer < 0) return false;
    if (model->marked) return (value->kind == ONNX_KIND_PARAMETER || value->kind == ONNX_KIND_BUFFER) && !value->unsaved;
    return strcmp(model->producer, "pytorch") == 0 && strpbrk(value->name, ":/") == NULL &&
           value->name[strspn(value->name, "0123456789")] != '\0'; /* constants are numbered, or have paths */
}

const struct onnx_attribute *onnx_attribute(const struct onnx_node *node, const char *name) {
    for (int a = 0; a < node->attribute_count; a++)
        if (strcmp(node->attributes[a].name, name) == 0) return &node->attributes[a];
    return NULL;
}

int64_t onnx_int(const struct onnx_node *node, const char *name, int64_t usual) {
    const struct onnx_attribute *found = onnx_attribute(node, name);
    return found != NULL && found->type == ONNX_ATTRIBUTE_INT ? found->i : usual;
}

float onnx_float(const struct onnx_node *node, const char *name, float usual) {
    const struct onnx_attribute *found = onnx_attribute(node, name);
    return found != NULL && found->type == ONNX_ATTRIBUTE_FLOAT ? found->f : usual;
}

const char *onnx_string(const struct onnx_node *node, const char *name, const char *usual) {
    const struct onnx_attribute *found = onnx_attribute(node, name);
    return found != NULL && found->type == ONNX_ATTRIBUTE_STRING ? found->s : usual;
}

/* IEEE half precision. */
static float half_value(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)fraction / (float)(1 << 24);
    return float_of(sign | (exponent == 31 ? 0xffu : exponent + 112) << 23 | fraction << 13);
}

static uint64_t element_bits(const struct onnx_tensor *tensor, size_t size, int64_t element) {
    uint64_t bits = 0;
    const uint8_t *bytes = tensor->bytes.data + (size_t)element * size;
    for (size_t b = 0; b < size; b++) bits |= (uint64_t)bytes[b] << 8 * b;
    return bits;
}

static double real_of(int type, uint64_t bits) {
    double value;
    switch (type) {
    case ONNX_FLOAT:
        return (double)float_of(bits);
    case ONNX_FLOAT16:
        return (double)half_value((uint16_t)bits);
    case ONNX_BFLOAT16:
        return (double)bf16_value((uint16_t)bits);
    default:
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

/* The bits of element e; varints are read one after the other, from `rest`. */
static uint64_t next_bits(const struct onnx_tensor *tensor, struct onnx_bytes *rest, size_t size, int64_t e) {
    uint64_t bits = 0;
    if (!tensor->varints) return element_bits(tensor, size, e);
    next_varint(rest, &bits);
    return bits;
}

void onnx_tensor_reals(const struct onnx_tensor *tensor, double *reals) {
    const size_t size = type_bytes(tensor->type);
    struct onnx_bytes rest = tensor->bytes;
    for (int64_t e = 0; e < tensor->elements; e++) {
        const uint64_t bits = next_bits(tensor, &rest, size, e);
        reals[e] = real_of(tensor->type, bits);
    }
}

void onnx_tensor_whole(const struct onnx_tensor *tensor, int64_t *whole) {
    const size_t size = type_bytes(tensor->type);
    struct onnx_bytes rest = tensor->bytes;
    for (int64_t e = 0; e < tensor->elements; e++) {
        const uint64_t bits = next_bits(tensor, &rest, size, e);
        whole[e] = tensor->type == ONNX_BOOL    ? bits != 0
                   : tensor->type == ONNX_INT32 ? (int32_t)bits
                   : tensor->type == ONNX_INT8  ? (int8_t)bits
                   : tensor->type == ONNX_INT16 ? (int16_t)bits
                                                : (int64_t)bits;
    }
}

void onnx_tensor_floats(const struct onnx_tensor *tensor, float *floats) {
    const size_t size = type_bytes(tensor->type);
    if (tensor->type == ONNX_FLOAT && !tensor->varints) {
        memcpy(floats, tensor->bytes.data, (size_t)tensor->elements * sizeof *floats);
        return;
    }
    struct onnx_bytes rest = tensor->bytes;
    for (int64_t e = 0; e < tensor->elements; e++) {
        const uint64_t bits = next_bits(tensor, &rest, size, e);
        floats[e] = (float)real_of(tensor->type, bits);
    }
}

enum array_type onnx_array_type(int type) {
    static const enum array_type types[] = {
        [ONNX_FLOAT] = ARRAY_F32,    [ONNX_UINT8] = ARRAY_U8,   [ONNX_INT8] = ARRAY_I8,    [ONNX_UINT16] = ARRAY_U16,
        [ONNX_INT16] = ARRAY_I16,    [ONNX_INT32] = ARRAY_I32,  [ONNX_INT64] = ARRAY_I64,  [ONNX_BOOL] = ARRAY_BOOL,
        [ONNX_FLOAT16] = ARRAY_F16,  [ONNX_DOUBLE] = ARRAY_F64, [ONNX_UINT32] = ARRAY_U32, [ONNX_UINT64] = ARRAY_U64,
        [ONNX_BFLOAT16] = ARRAY_BF16};
    return types[type];
}

enum ps_status onnx_tensor_keep(const struct onnx_tensor *tensor, struct values *values, enum values_ownership ownership,
                                struct ps_error *error) {
    struct array array = {
        .name = tensor->name, .type = onnx_array_type(tensor->type), .rank = tensor->rank, .data = tensor->bytes.data};
    memcpy(array.shape, tensor->dims, sizeof array.shape);
    if (!tensor->varints) return values_set(values, &array, ownership, error);
    const bool floats = onnx_is_float(tensor->type);
    void *numbers = malloc((size_t)tensor->elements * sizeof(int64_t) + 1);
    if (numbers == NULL) return error_memory(error, "a tensor", (size_t)tensor->elements * sizeof(int64_t));
    if (floats)
        onnx_tensor_floats(tensor, numbers);
    else
        onnx_tensor_whole(tensor, numbers);
    array.type = floats ? ARRAY_F32 : ARRAY_I64;
    array.data = numbers;
    return values_set(values, &array, VALUES_TAKE, error);
}
