/* Reading and writing safetensors; see safetensors.h. The header's JSON is jansson's work. */
#include "base/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"

#define LENGTH_BYTES 8
/* The bound of the format's own library. */
#define HEADER_LIMIT 100000000u

/* ARRAY_TYPE_COUNT: there is none of this name. */
static enum array_type type_find(const char *name) {
    int type = 0;
    while (type < ARRAY_TYPE_COUNT && (name == NULL || strcmp(array_types[type].safetensors, name) != 0)) type++;
    return (enum array_type)type;
}

static enum ps_status damaged(const struct safetensors *file, const char *tensor, struct ps_error *error, const char *what) {
    if (!tensor) return error_set(error, PS_BAD_INPUT, "%s: not a safetensors file: %s", file->path, what);
    return error_set(error, PS_BAD_INPUT, "%s: tensor '%s': %s", file->path, tensor, what);
}

/* Multiplies into *product; false where it does not fit. */
static bool multiply(size_t *product, json_int_t factor) {
    return factor >= 0 && !__builtin_mul_overflow(*product, (size_t)factor, product);
}

static enum ps_status parse_shape(const struct safetensors *file, json_t *shape, size_t element, struct safetensor *tensor,
                                  struct ps_error *error) {
    if (!json_is_array(shape) || json_array_size(shape) > 64)
        return damaged(file, tensor->name, error, "shape is not a list of sizes");
    tensor->rank = (int)json_array_size(shape);
    TRY(memory_new(&tensor->shape, tensor->rank, "tensor shapes", error));
    size_t bytes = element;
    for (int i = 0; i < tensor->rank; i++) {
        json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || !multiply(&bytes, json_integer_value(size)))
            return damaged(file, tensor->name, error, "shape holds a size that is not possible");
        tensor->shape[i] = json_integer_value(size);
    }
    if (bytes != tensor->bytes) return damaged(file, tensor->name, error, "data_offsets do not fit dtype and shape");
    return PS_OK;
}

static enum ps_status parse_tensor(const struct safetensors *file, const char *name, json_t *value, size_t data_bytes,
                                   struct safetensor *tensor, struct ps_error *error) {
    TRY(memory_text(name, strlen(name), &tensor->name, "tensor names", error));
    if (!json_is_object(value)) return damaged(file, name, error, "its entry is not an object");
    tensor->type = type_find(json_string_value(json_object_get(value, "dtype")));
    if (tensor->type == ARRAY_TYPE_COUNT) return damaged(file, name, error, "dtype is missing or not known");
    json_t *offsets = json_object_get(value, "data_offsets");
    json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return damaged(file, name, error, "data_offsets are missing or not two integers");
    json_int_t first = json_integer_value(begin), past = json_integer_value(end);
    if (first < 0 || past < first || (uint64_t)past > data_bytes)
        return damaged(file, name, error, "data_offsets lie outside of the data");
    tensor->offset = (size_t)first;
    tensor->bytes = (size_t)(past - first);
    return parse_shape(file, json_object_get(value, "shape"), array_types[tensor->type].bytes, tensor, error);
}

static int by_offset(const void *left, const void *right) {
    const struct safetensor *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static enum ps_status parse_header(struct safetensors *file, json_t *header, size_t data_bytes, struct ps_error *error) {
    TRY(memory_new(&file->tensors, json_object_size(header), "tensor names", error));
    const char *name;
    json_t *value;
    json_object_foreach(header, name, value) {
        if (strcmp(name, "__metadata__") == 0) continue;
        TRY(parse_tensor(file, name, value, data_bytes, &file->tensors[file->count++], error));
    }
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_offset);
    size_t end = 0;
    for (int i = 0; i < file->count; i++) {
        const struct safetensor *tensor = &file->tensors[i];
        if (tensor->offset != end) return damaged(file, tensor->name, error, "its data overlaps another's or leaves a gap");
        end += tensor->bytes;
    }
    if (end != data_bytes) return damaged(file, NULL, error, "it holds more data than its tensors need");
    return PS_OK;
}

/* The header is padded by every known writer; data of one that does not pad it may lie at addresses where no numbers can be
 * read. */
static bool readable(const struct safetensors *file, const struct safetensor *tensor, enum array_type type) {
    return tensor->type == type && (uintptr_t)(file->data + tensor->offset) % array_types[type].bytes == 0;
}

static enum ps_status find_values(struct safetensors *file, struct ps_error *error) {
    size_t count = 0;
    for (int i = 0; i < file->count; i++)
        if (readable(file, &file->tensors[i], ARRAY_BF16)) count += file->tensors[i].bytes / number_types[TYPE_BF16].bytes;
    TRY(memory_new(&file->widened, count, file->path, error));
    float *next = file->widened;
    for (int i = 0; i < file->count; i++) {
        struct safetensor *tensor = &file->tensors[i];
        const void *from = file->data + tensor->offset;
        if (readable(file, tensor, ARRAY_F32)) tensor->values = from;
        if (!readable(file, tensor, ARRAY_BF16)) continue;
        count = tensor->bytes / number_types[TYPE_BF16].bytes;
        numbers_convert(count, TYPE_F32, next, TYPE_BF16, from);
        tensor->values = next;
        next += count;
    }
    return PS_OK;
}

static enum ps_status parse_file(struct safetensors *file, struct ps_error *error) {
    const size_t size = file->contents.size;
    if (size < LENGTH_BYTES) return damaged(file, NULL, error, "it is shorter than its first field");
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) length |= (uint64_t)file->contents.data[i] << (8 * i);
    if (length > HEADER_LIMIT || length > size - LENGTH_BYTES)
        return damaged(file, NULL, error, "the header's length is past the file's end");
    json_t *header = NULL;
    const char *text = (const char *)file->contents.data + LENGTH_BYTES;
    if (json_parse(text, (size_t)length, file->path, NULL, &header, NULL) == PS_OUT_OF_MEMORY)
        return error_memory(error, file->path, (size_t)length);
    if (!json_is_object(header)) {
        json_decref(header);
        return damaged(file, NULL, error, "the header is not a JSON object");
    }
    file->data = (const char *)file->contents.data + LENGTH_BYTES + length;
    enum ps_status status = parse_header(file, header, size - LENGTH_BYTES - (size_t)length, error);
    json_decref(header);
    return status;
}

enum ps_status safetensors_open(const char *path, struct safetensors *out, struct ps_error *error) {
    struct safetensors file = {0};
    TRY(memory_text(path, strlen(path), &file.path, "path", error));
    enum ps_status status = file_map(path, &file.contents, error);
    if (status == PS_OK) status = parse_file(&file, error);
    if (status != PS_OK) {
        safetensors_free(&file);
        return status;
    }
    *out = file;
    return PS_OK;
}

enum ps_status safetensors_read(const char *path, struct safetensors *out, struct ps_error *error) {
    struct safetensors file;
    TRY(safetensors_open(path, &file, error));
    enum ps_status status = find_values(&file, error);
    if (status != PS_OK) {
        safetensors_free(&file);
        return status;
    }
    *out = file;
    return PS_OK;
}

void safetensors_free(struct safetensors *file) {
    for (int i = 0; i < file->count; i++) {
        free(file->tensors[i].name);
        free(file->tensors[i].shape);
    }
    free(file->tensors);
    free(file->widened);
    file_unmap(&file->contents);
    free(file->path);
    *file = (struct safetensors){0};
}

const struct safetensor *safetensors_find(const struct safetensors *file, const char *name) {
    for (int i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

bool safetensors_array(const struct safetensors *file, const struct safetensor *tensor, struct array *array) {
    if (tensor->rank > ARRAY_RANK_MAX) return false;
    *array =
        (struct array){.name = tensor->name, .type = tensor->type, .rank = tensor->rank, .data = file->data + tensor->offset};
    memcpy(array->shape, tensor->shape, (size_t)tensor->rank * sizeof *tensor->shape);
    return true;
}

static void shape_text(char out[96], const int64_t *shape, int rank) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < rank && used < 96; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%lld", i > 0 ? "x" : "", (long long)shape[i]);
}

enum ps_status safetensors_values(const struct safetensors *file, const struct safetensor *tensor, const float **values,
                                  struct ps_error *error) {
    *values = tensor->values;
    if (tensor->values) return PS_OK;
    if (tensor->type == ARRAY_F32 || tensor->type == ARRAY_BF16)
        return damaged(file, tensor->name, error, "its data is not aligned to the size of its numbers");
    return error_set(error, PS_BAD_INPUT, "%s: tensor '%s': its dtype is %s: %s and %s are accepted", file->path, tensor->name,
                     array_types[tensor->type].safetensors, array_types[ARRAY_F32].safetensors,
                     array_types[ARRAY_BF16].safetensors);
}

enum ps_status safetensors_get(const struct safetensors *file, const char *name, const int64_t *shape, int rank,
                               const float **values, struct ps_error *error) {
    const struct safetensor *tensor = safetensors_find(file, name);
    if (!tensor) return error_set(error, PS_BAD_INPUT, "%s: tensor '%s' is missing", file->path, name);
    bool same = tensor->rank == rank;
    for (int i = 0; same && i < rank; i++) same = tensor->shape[i] == shape[i];
    if (!same) {
        char has[96], wants[96];
        shape_text(has, tensor->shape, tensor->rank);
        shape_text(wants, shape, rank);
        return error_set(error, PS_BAD_INPUT, "%s: tensor '%s' has shape %s where the model has %s", file->path, name, has,
                         wants);
    }
    return safetensors_values(file, tensor, values, error);
}

static size_t source_bytes(const struct safetensor_source *tensor) {
    size_t bytes = array_types[tensor->type].bytes;
    for (int i = 0; i < tensor->rank; i++) bytes *= (size_t)tensor->shape[i];
    return bytes;
}

/* The header as JSON; NULL when memory ran out. */
static char *describe(const struct safetensor_source *tensors, int count, const json_t *metadata, size_t *data_bytes) {
    json_t *header = json_object();
    size_t offset = 0;
    json_t *about = json_pack("{s:s}", "format", "pt");
    if (metadata) json_object_update(about, (json_t *)metadata);
    json_object_set_new(header, "__metadata__", about);
    for (int i = 0; i < count; i++) {
        json_t *shape = json_array();
        for (int j = 0; j < tensors[i].rank; j++) json_array_append_new(shape, json_integer(tensors[i].shape[j]));
        json_int_t first = (json_int_t)offset, past = first + (json_int_t)source_bytes(&tensors[i]);
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", array_types[tensors[i].type].safetensors, "shape", shape,
                                  "data_offsets", first, past);
        json_object_set_new(header, tensors[i].name, entry);
        offset = (size_t)past;
    }
    char *text = json_dump_text(header, JSON_COMPACT);
    json_decref(header);
    *data_bytes = offset;
    return text;
}

/* Is the header, read back, of these tensors? The JSON library may lose parts of it where memory runs out. */
static bool says(const char *text, size_t size, const struct safetensor_source *tensors, int count, size_t data_bytes) {
    struct safetensors read = {0};
    json_t *header = json_load_text(text, size, JSON_REJECT_DUPLICATES, NULL);
    size_t offset = 0;
    bool same = header != NULL && parse_header(&read, header, data_bytes, NULL) == PS_OK && read.count == count;
    /* Both are in the order of their data. Empty ones share a place. */
    for (int i = 0; i < count && same; i++) {
        const struct safetensor_source *tensor = &tensors[i];
        const struct safetensor *there = &read.tensors[i];
        const size_t bytes = source_bytes(tensor);
        same = (bytes == 0 || strcmp(there->name, tensor->name) == 0) && there->offset == offset && there->bytes == bytes &&
               there->rank == (int)tensor->rank && there->type == tensor->type;
        for (int d = 0; d < tensor->rank && same; d++) same = there->shape[d] == tensor->shape[d];
        offset += bytes;
    }
    json_decref(header);
    safetensors_free(&read);
    return same;
}

static char *make_header(const struct safetensor_source *tensors, int count, const json_t *metadata, size_t *length,
                         size_t *data_bytes) {
    char *text = describe(tensors, count, metadata, data_bytes);
    if (text && !says(text, strlen(text), tensors, count, *data_bytes)) {
        free(text);
        return NULL;
    }
    if (!text) return NULL;
    /* Padded with blanks, so that the data behind it is aligned. */
    size_t used = strlen(text), padded = (used + 7) / 8 * 8;
    char *header = malloc(LENGTH_BYTES + padded);
    if (header) {
        for (int i = 0; i < LENGTH_BYTES; i++) header[i] = (char)(padded >> (8 * i));
        memcpy(header + LENGTH_BYTES, text, used);
        memset(header + LENGTH_BYTES + used, ' ', padded - used);
        *length = LENGTH_BYTES + padded;
    }
    free(text);
    return header;
}

char *safetensors_header(const struct safetensor_source *tensors, int count, size_t *length, size_t *data_bytes) {
    return make_header(tensors, count, NULL, length, data_bytes);
}

enum ps_status safetensors_write(const char *path, const struct safetensor_source *tensors, int count, int64_t *total_bytes,
                                 struct ps_error *error) {
    return safetensors_write_about(path, tensors, count, NULL, total_bytes, error);
}

enum ps_status safetensors_write_about(const char *path, const struct safetensor_source *tensors, int count,
                                       const json_t *metadata, int64_t *total_bytes, struct ps_error *error) {
    size_t length = 0, data_bytes = 0;
    char *header = make_header(tensors, count, metadata, &length, &data_bytes);
    struct file_piece *pieces;
    TRY(memory_check(header, "safetensors header", error));
    enum ps_status status = memory_new(&pieces, (size_t)count + 1, "safetensors header", error);
    if (status != PS_OK) {
        free(header);
        return status;
    }
    pieces[0] = (struct file_piece){header, length};
    for (int i = 0; i < count; i++) pieces[i + 1] = (struct file_piece){tensors[i].values, source_bytes(&tensors[i])};
    status = file_write_pieces(path, pieces, (size_t)count + 1, error);
    free(pieces);
    free(header);
    if (status == PS_OK && total_bytes) *total_bytes = (int64_t)data_bytes;
    return status;
}
