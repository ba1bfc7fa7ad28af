/* Reading protobuf by hand (onnx/model.h): one field of a message after the other, each within what is left of the message. */
#ifndef PENSTOCK_ONNX_PROTOBUF_H
#define PENSTOCK_ONNX_PROTOBUF_H

#include "onnx/model.h"

enum wire { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

/* A field of a message: a varint or a fixed number in `number`, or bytes. */
struct field {
    uint32_t id;
    enum wire wire;
    uint64_t number;
    struct onnx_bytes bytes;
};

static inline bool next_varint(struct onnx_bytes *rest, uint64_t *number) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (rest->size == 0) return false;
        uint8_t byte = *rest->data++;
        rest->size--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80) continue;
        *number = value;
        return true;
    }
    return false;
}

static inline bool next_fixed(struct onnx_bytes *rest, size_t size, uint64_t *number) {
    if (rest->size < size) return false;
    *number = 0;
    for (size_t b = 0; b < size; b++) *number |= (uint64_t)rest->data[b] << 8 * b;
    rest->data += size;
    rest->size -= size;
    return true;
}

/* The next field of the message; false at its end, or where it is broken: then `*broken` is set. */
static inline bool next_field(struct onnx_bytes *rest, struct field *field, bool *broken) {
    uint64_t tag, length;
    bool fine = false;
    if (rest->size == 0 || *broken) return false;
    if (next_varint(rest, &tag) && tag >> 3 != 0 && tag >> 3 < 1u << 29) {
        *field = (struct field){.id = (uint32_t)(tag >> 3), .wire = (enum wire)(tag & 7)};
        switch (tag & 7) {
        case WIRE_VARINT:
            fine = next_varint(rest, &field->number);
            break;
        case WIRE_8:
            fine = next_fixed(rest, 8, &field->number);
            break;
        case WIRE_4:
            fine = next_fixed(rest, 4, &field->number);
            break;
        case WIRE_BYTES:
            if (!next_varint(rest, &length) || length > rest->size) break;
            field->bytes = (struct onnx_bytes){rest->data, (size_t)length};
            rest->data += length;
            rest->size -= (size_t)length;
            fine = true;
            break;
        default: /* groups, which nobody writes */
            break;
        }
    }
    if (!fine) *broken = true;
    return fine;
}

#endif
