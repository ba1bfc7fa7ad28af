/*
 * An ONNX file as it stands: nodes, attributes, initializers and what is said about inputs, outputs and values, without any
 * meaning. The file is mapped, and weights stay where they lie in it; everything else is one arena, a small multiple of the
 * file's size. Files of more than 2 GB are fine.
 *
 * Protobuf is read by hand: a message is a list of fields, each a number and a varint, 4 or 8 bytes, or a length with so many
 * bytes. The messages that are wanted are nested to a fixed depth, and nothing else is descended into (graphs within
 * attributes are only noted), so no file can make the reader recurse. Every length is checked against what is left of the
 * message that holds it.
 *
 * External data: a plain file name in the model's directory, no link, with offset and length within the file.
 */
#ifndef PENSTOCK_ONNX_MODEL_H
#define PENSTOCK_ONNX_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/file.h"
#include "graph/values.h"

enum { ONNX_RANK_MAX = 8 };

/* TensorProto.DataType, those that are known here. */
enum onnx_type {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_UINT16 = 4,
    ONNX_INT16 = 5,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_BOOL = 9,
    ONNX_FLOAT16 = 10,
    ONNX_DOUBLE = 11,
    ONNX_UINT32 = 12,
    ONNX_UINT64 = 13,
    ONNX_BFLOAT16 = 16,
};
static inline int onnx_is_float(int type) {
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 || type == ONNX_BFLOAT16;
}

/* Bytes in the file; not aligned, not terminated. */
struct onnx_bytes {
    const uint8_t *data;
    size_t size;
};

struct onnx_tensor {
    const char *name;
    int type, rank;
    int64_t dims[ONNX_RANK_MAX];
    int64_t elements;
    struct onnx_bytes bytes; /* little-endian elements, or varints */
    bool varints;
};

/* AttributeProto.AttributeType */
enum onnx_attribute_type {
    ONNX_ATTRIBUTE_FLOAT = 1,
    ONNX_ATTRIBUTE_INT = 2,
    ONNX_ATTRIBUTE_STRING = 3,
    ONNX_ATTRIBUTE_TENSOR = 4,
    ONNX_ATTRIBUTE_FLOATS = 6,
    ONNX_ATTRIBUTE_INTS = 7,
    ONNX_ATTRIBUTE_STRINGS = 8,
    ONNX_ATTRIBUTE_OTHER = 99,
};

struct onnx_attribute {
    const char *name;
    enum onnx_attribute_type type;
    float f;
    int64_t i;
    const char *s; /* of several strings one, if they are the same; else empty */
    int count;     /* of ints, floats or strings */
    const int64_t *ints;
    const float *floats;
    const struct onnx_tensor *tensor;
};

struct onnx_node {
    const char *op, *name, *domain;
    const int *inputs, *outputs; /* numbers of values; 0: left out */
    int input_count, output_count, attribute_count;
    const struct onnx_attribute *attributes;
    struct onnx_bytes torch_call; /* the call of PyTorch's that it comes from, as torch.export writes it; data NULL: not said */
};

/* What the exporter says an initializer is (InputSpec.kind). */
enum onnx_kind { ONNX_KIND_UNSAID, ONNX_KIND_PARAMETER, ONNX_KIND_BUFFER, ONNX_KIND_CONSTANT };

/* A name that nodes read or write. */
struct onnx_value {
    const char *name;
    int producer;    /* the node that makes it; -1 */
    int initializer; /* -1 */
    int input;       /* of the graph; -1 */
    enum onnx_kind kind;
    bool unsaved; /* a buffer that the exporter says is not in the module's state_dict (InputSpec.persistent) */
};

/* An input or output of the graph. A side of 0 is not said; `symbol` then may have its name. */
struct onnx_interface {
    int value, type, rank;
    int64_t dims[ONNX_RANK_MAX];
    const char *symbols[ONNX_RANK_MAX];
};

struct onnx_mapped;

struct onnx_model {
    struct arena arena;
    struct onnx_mapped *files; /* what is mapped */
    const char *producer;
    int64_t opset; /* of the operators without a domain */
    struct onnx_node *nodes;
    struct onnx_tensor *initializers;
    struct onnx_value *values;               /* value 0 has the name "" */
    struct onnx_interface *inputs, *outputs; /* inputs: without those that are initializers */
    int node_count, initializer_count, value_count, input_count, output_count;
    struct onnx_bytes contents; /* of the file */
    bool marked;                /* some initializer's kind is said */
};

/* Reads the file, or `bytes` as its contents, which then stay as long as the model. In a `stripped` one tensors may lack their
 * data (onnx/write.c). PS_BAD_INPUT names the file and what is wrong in it. */
enum ps_status onnx_model_read(const char *path, const struct onnx_bytes *bytes, bool stripped, struct onnx_model **model,
                               struct ps_error *error);
void onnx_model_destroy(struct onnx_model *model);
/* Gives the mappings of its files to the caller, one at a time; false where none is left. The model can only be destroyed then.
 */
bool onnx_model_take_mapping(struct onnx_model *model, struct file_map *mapping);

/* Whether the initializer is in the state_dict of the module that was exported, by its name there: marked as a parameter or a
 * buffer; or, where nothing is marked, in a file of PyTorch's older exporter, with a name that a module's attribute can have.
 */
bool onnx_is_state(const struct onnx_model *model, const struct onnx_value *value);

/* The node's attribute, or NULL. */
const struct onnx_attribute *onnx_attribute(const struct onnx_node *node, const char *name);
int64_t onnx_int(const struct onnx_node *node, const char *name, int64_t usual);
float onnx_float(const struct onnx_node *node, const char *name, float usual);
const char *onnx_string(const struct onnx_node *node, const char *name, const char *usual);

/* The elements as numbers: `reals` of a type of floats, `whole` of the others (booleans 0 and 1). */
void onnx_tensor_reals(const struct onnx_tensor *tensor, double *reals);
void onnx_tensor_whole(const struct onnx_tensor *tensor, int64_t *whole);
/* A tensor of floats as f32. */
void onnx_tensor_floats(const struct onnx_tensor *tensor, float *floats);
/* An array's type of the same numbers, for those of ONNX that have one. */
enum array_type onnx_array_type(int type);
/* Puts it among values under its own name, as `ownership` says; what the file packs is unpacked, and theirs. */
enum ps_status onnx_tensor_keep(const struct onnx_tensor *tensor, struct values *values, enum values_ownership ownership,
                                struct ps_error *error);

#endif
