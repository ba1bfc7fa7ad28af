/* ONNX files of a test's own: protobuf as it is written. */
#ifndef PENSTOCK_TESTS_ONNX_SUPPORT_H
#define PENSTOCK_TESTS_ONNX_SUPPORT_H

#include <stdlib.h>
#include <string.h>

#include "support.h"

struct bytes {
    unsigned char *data;
    size_t size, capacity;
};

static inline void put(struct bytes *to, const void *data, size_t size) {
    if (to->size + size > to->capacity) {
        to->capacity = 2 * (to->size + size);
        to->data = realloc(to->data, to->capacity);
        assert_non_null(to->data);
    }
    if (size > 0) memcpy(to->data + to->size, data, size);
    to->size += size;
}

static inline void put_varint(struct bytes *to, uint64_t number) {
    for (; number >= 0x80; number >>= 7) put(to, &(unsigned char){(unsigned char)(number | 0x80)}, 1);
    put(to, &(unsigned char){(unsigned char)number}, 1);
}

static inline void put_number(struct bytes *to, int field, uint64_t number) {
    put_varint(to, (uint64_t)field << 3);
    put_varint(to, number);
}

static inline void put_bytes(struct bytes *to, int field, const void *data, size_t size) {
    put_varint(to, (uint64_t)field << 3 | 2);
    put_varint(to, size);
    put(to, data, size);
}

static inline void put_text(struct bytes *to, int field, const char *text) { put_bytes(to, field, text, strlen(text)); }

/* The message as a field of another; it is empty then. */
static inline void put_message(struct bytes *to, int field, struct bytes *message) {
    put_bytes(to, field, message->data, message->size);
    message->size = 0;
}

enum { ONNX_F32 = 1, ONNX_I64 = 7 };

/* name: an input or output of the graph (`field`). */
static inline void put_value_of(struct bytes *graph, int field, const char *name, uint64_t onnx_type, const int64_t *dims,
                                int rank) {
    struct bytes value = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};
    for (int d = 0; d < rank; d++) {
        put_number(&dim, 1, (uint64_t)dims[d]);
        put_message(&shape, 1, &dim);
    }
    put_number(&tensor, 1, onnx_type);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&value, 1, name);
    put_message(&value, 2, &type);
    put_message(graph, field, &value);
    free(value.data), free(type.data), free(tensor.data), free(shape.data), free(dim.data);
}

static inline void put_value(struct bytes *graph, int field, const char *name, const int64_t *dims, int rank) {
    put_value_of(graph, field, name, ONNX_F32, dims, rank);
}

static inline void put_entry(struct bytes *to, int field, const char *key, const char *value) {
    struct bytes entry = {0};
    put_text(&entry, 1, key);
    put_text(&entry, 2, value);
    put_message(to, field, &entry);
    free(entry.data);
}

/* What torch.export says of an initializer: PARAMETER, BUFFER (persistent: "True", or "False") or CONSTANT_TENSOR. */
static inline void put_mark(struct bytes *graph, const char *name, const char *kind, const char *persistent) {
    struct bytes value = {0};
    put_text(&value, 1, name);
    put_entry(&value, 4, "pkg.torch.export.graph_signature.InputSpec.kind", kind);
    put_entry(&value, 4, "pkg.torch.export.graph_signature.InputSpec.persistent", persistent);
    put_message(graph, 13, &value);
    free(value.data);
}

/* With the last of so many outputs alone, whose name the node has, too. */
static inline void put_node_with(struct bytes *graph, const char *op, const char *inputs[], int outputs, const char *output) {
    struct bytes node = {0};
    for (int i = 0; inputs[i] != NULL; i++) put_text(&node, 1, inputs[i]);
    for (int o = 1; o < outputs; o++) put_text(&node, 2, "");
    put_text(&node, 2, output);
    put_text(&node, 3, output);
    put_text(&node, 4, op);
    put_message(graph, 1, &node);
    free(node.data);
}

static inline void put_node(struct bytes *graph, const char *op, const char *inputs[], const char *output) {
    put_node_with(graph, op, inputs, 1, output);
}

/* An initializer of f32 whose elements are 0, 1/8, .. */
static inline void put_tensor(struct bytes *graph, const char *name, const int64_t *dims, int rank) {
    struct bytes tensor = {0};
    int64_t elements = 1;
    for (int d = 0; d < rank; d++) {
        put_number(&tensor, 1, (uint64_t)dims[d]);
        elements *= dims[d];
    }
    float *data = malloc((size_t)elements * sizeof *data);
    assert_non_null(data);
    for (int64_t e = 0; e < elements; e++) data[e] = (float)e / 8;
    put_number(&tensor, 2, 1);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, data, (size_t)elements * sizeof *data);
    put_message(graph, 5, &tensor);
    free(data);
    free(tensor.data);
}

/* "1,2,3"; returns how many. */
static inline int numbers_of(const char *text, char separator, int64_t out[16]) {
    int count = 0;
    while (*text != '\0' && count < 16) {
        char *end;
        out[count++] = strtoll(text, &end, 10);
        text = *end == separator ? end + 1 : end + strlen(end);
    }
    return count;
}

/* An initializer of whole numbers: a list or, of one number, a scalar. */
static inline void put_whole(struct bytes *graph, const char *name, const int64_t *numbers, int count, bool scalar) {
    struct bytes tensor = {0};
    if (!scalar) put_number(&tensor, 1, (uint64_t)count);
    put_number(&tensor, 2, ONNX_I64);
    put_text(&tensor, 8, name);
    put_bytes(&tensor, 9, numbers, (size_t)count * sizeof *numbers);
    put_message(graph, 5, &tensor);
    free(tensor.data);
}

/* Value: 1, a whole number; [1,2], a list of them; ~1.5, a number; ~1.5,2, a list of them; 'x', a text. */
static inline void put_attribute(struct bytes *node, const char *name, const char *value) {
    struct bytes attribute = {0};
    int64_t numbers[16];
    put_text(&attribute, 1, name);
    if (*value == '\'') {
        put_bytes(&attribute, 4, value + 1, strlen(value) - 2);
        put_number(&attribute, 20, 3);
    } else if (*value == '~' && strchr(value, ',') != NULL) {
        for (char *rest = (char *)value; *rest == '~' || *rest == ',';) {
            const float number = strtof(rest + 1, &rest);
            put_varint(&attribute, 7 << 3 | 5);
            put(&attribute, &number, sizeof number);
        }
        put_number(&attribute, 20, 6);
    } else if (*value == '~') {
        const float number = strtof(value + 1, NULL);
        put_varint(&attribute, 2 << 3 | 5);
        put(&attribute, &number, sizeof number);
        put_number(&attribute, 20, 1);
    } else if (*value == '[') {
        const int count = numbers_of(value + 1, ',', numbers);
        for (int i = 0; i < count; i++) put_number(&attribute, 8, (uint64_t)numbers[i]);
        put_number(&attribute, 20, 7);
    } else {
        put_number(&attribute, 3, (uint64_t)strtoll(value, NULL, 10));
        put_number(&attribute, 20, 2);
    }
    put_message(node, 5, &attribute);
    free(attribute.data);
}

/* The file of a graph, which is empty then, with operators as they are in version `number` of the operator set. */
static inline struct bytes model_of_opset(struct bytes *graph, uint64_t number) {
    struct bytes model = {0}, opset = {0};
    put_number(&model, 1, 10);
    put_number(&opset, 2, number);
    put_message(&model, 8, &opset);
    put_message(&model, 7, graph);
    free(graph->data);
    free(opset.data);
    *graph = (struct bytes){0};
    return model;
}

static inline struct bytes model_of(struct bytes *graph) { return model_of_opset(graph, 17); }

#endif
