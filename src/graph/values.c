/* A list of entries and a table of their numbers by name (open addressing, linear probing). See values.h. */
#include "graph/values.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/safetensors.h"
#include "graph/graph.h"
#include "graph/operators.h"
#include "graph/split.h"

struct held {
    struct array array;
    void *own; /* freed with it; NULL: borrowed */
};

struct values {
    atomic_int owners;
    struct held *entries;
    size_t count, capacity;
    int *table; /* entry number + 1, or 0; size a power of two, at most half full */
    size_t table_size;
    struct file_map *mappings;
    size_t mapping_count, mapping_capacity;
    struct values **others; /* owned together with others */
    size_t other_count, other_capacity;
    void *own_origin;
    const void *origin; /* or another's */
    size_t origin_size;
};

struct values *values_create(void) {
    struct values *values = calloc(1, sizeof *values);
    if (values != NULL) atomic_init(&values->owners, 1);
    return values;
}

struct values *values_share(struct values *values) {
    if (values != NULL) atomic_fetch_add(&values->owners, 1);
    return values;
}

void values_release(struct values *values) {
    if (values == NULL || atomic_fetch_sub(&values->owners, 1) > 1) return;
    for (size_t i = 0; i < values->count; i++) {
        free((char *)values->entries[i].array.name);
        free(values->entries[i].own);
    }
    for (size_t i = 0; i < values->mapping_count; i++) file_unmap(&values->mappings[i]);
    for (size_t i = 0; i < values->other_count; i++) values_release(values->others[i]);
    free(values->own_origin);
    free(values->others);
    free(values->mappings);
    free(values->entries);
    free(values->table);
    free(values);
}

/* Where the name stands in the table, or the free place where it would. */
static size_t find_place(const struct values *values, const char *name) {
    uint64_t hash = hash_text(HASH_BEGIN, name);
    size_t mask = values->table_size - 1, place = (size_t)(hash ^ hash >> 32) & mask;
    while (values->table[place] > 0 && strcmp(values->entries[values->table[place] - 1].array.name, name) != 0)
        place = (place + 1) & mask;
    return place;
}

static enum ps_status grow_table(struct values *values, struct ps_error *error) {
    if (2 * (values->count + 1) <= values->table_size) return PS_OK;
    size_t size = values->table_size > 0 ? 2 * values->table_size : 64;
    int *table;
    TRY(memory_new(&table, size, "names of parameters", error));
    free(values->table);
    values->table = table;
    values->table_size = size;
    for (size_t i = 0; i < values->count; i++) table[find_place(values, values->entries[i].array.name)] = (int)i + 1;
    return PS_OK;
}

/* Room for an entry of this name: the one there is, or a new one at the end, which is not counted yet. */
static enum ps_status find_room(struct values *values, const char *name, size_t *number, size_t *place,
                                struct ps_error *error) {
    TRY(grow_table(values, error));
    *place = find_place(values, name);
    *number = values->table[*place] > 0 ? (size_t)values->table[*place] - 1 : values->count;
    if (*number < values->count) return PS_OK;
    TRY(memory_grow(&values->entries, &values->capacity, values->count + 1, "values of parameters", error));
    char *copy;
    TRY(memory_text(name, strlen(name), &copy, "names of parameters", error));
    values->entries[values->count] = (struct held){.array.name = copy};
    return PS_OK;
}

enum ps_status values_set(struct values *values, const struct array *array, enum values_ownership ownership,
                          struct ps_error *error) {
    size_t number, place, bytes = array_bytes(array);
    void *own = ownership == VALUES_TAKE ? (void *)array->data : NULL;
    if (ownership == VALUES_COPY && (own = malloc(bytes + 1)) == NULL) return error_memory(error, array->name, bytes);
    if (ownership == VALUES_COPY) memcpy(own, array->data, bytes);
    enum ps_status status = find_room(values, array->name, &number, &place, error);
    if (status != PS_OK) {
        free(own);
        return status;
    }
    struct held *held = &values->entries[number];
    const char *name = held->array.name;
    free(held->own);
    held->own = own;
    held->array = *array;
    held->array.name = name;
    if (own != NULL) held->array.data = own;
    if (number == values->count) values->table[place] = (int)++values->count;
    return PS_OK;
}

enum ps_status values_keep_mapping(struct values *values, struct file_map mapping, struct ps_error *error) {
    enum ps_status status =
        memory_grow(&values->mappings, &values->mapping_capacity, values->mapping_count + 1, "mapped files", error);
    if (status == PS_OK)
        values->mappings[values->mapping_count++] = mapping;
    else
        file_unmap(&mapping);
    return status;
}

enum ps_status values_keep_values(struct values *values, struct values *other, struct ps_error *error) {
    enum ps_status status =
        memory_grow(&values->others, &values->other_capacity, values->other_count + 1, "values of parameters", error);
    if (status == PS_OK)
        values->others[values->other_count++] = other;
    else
        values_release(other);
    return status;
}

void values_share_origin(struct values *values, const struct values *other) {
    values->origin = other->origin;
    values->origin_size = other->origin_size;
}

void values_set_origin(struct values *values, void *bytes, size_t size) {
    free(values->own_origin);
    values->origin = values->own_origin = bytes;
    values->origin_size = size;
}

const void *values_origin(const struct values *values, size_t *size) {
    if (values == NULL || values->origin == NULL) return NULL;
    *size = values->origin_size;
    return values->origin;
}

enum ps_status values_read(struct values *values, const char *path, struct ps_error *error) {
    struct safetensors file;
    struct array array;
    TRY(safetensors_open(path, &file, error));
    enum ps_status status = values_keep_mapping(values, file.contents, error);
    file.contents = (struct file_map){0};
    for (int t = 0; status == PS_OK && t < file.count; t++)
        if (safetensors_array(&file, &file.tensors[t], &array)) status = values_set(values, &array, VALUES_BORROW, error);
    safetensors_free(&file);
    return status;
}

enum ps_status values_write(const struct values *values, const char *path, struct ps_error *error) {
    struct arena arena = {0};
    struct safetensor_source *sources = arena_take(&arena, values->count, sizeof *sources);
    for (size_t i = 0; i < values->count; i++) {
        const struct array *array = &values->entries[i].array;
        float *numbers = arena_take(&arena, (size_t)array_elements(array), sizeof *numbers);
        if (numbers == NULL) break;
        array_floats(array, 0, array_elements(array), numbers);
        sources[i] = (struct safetensor_source){
            .name = array->name, .shape = array->shape, .rank = array->rank, .values = numbers, .type = ARRAY_F32};
    }
    TRY(arena_check(&arena, "values of parameters", error));
    enum ps_status status = safetensors_write(path, sources, (int)values->count, NULL, error);
    arena_release(&arena);
    return status;
}

const struct array *values_get(const struct values *values, const char *name) {
    if (values == NULL || values->count == 0) return NULL;
    int found = values->table[find_place(values, name)];
    return found > 0 ? &values->entries[found - 1].array : NULL;
}

int values_count(const struct values *values) { return values != NULL ? (int)values->count : 0; }

const struct array *values_at(const struct values *values, int number) { return &values->entries[number].array; }

enum ps_status values_take_constants(struct values *values, const struct graph *graph, struct values **constants,
                                     struct ps_error *error) {
    struct values *made = values_create();
    if (made == NULL) return error_memory(error, "values of constants", sizeof *made);
    enum ps_status status = values != NULL ? values_keep_values(made, values_share(values), error) : PS_OK;
    for (int p = 0; status == PS_OK && p < graph->parameter_count; p++) {
        const struct array *value = values_get(values, split_whole_name(&graph->parameters[p]));
        if (value != NULL && parameter_is_constant(&graph->parameters[p]))
            status = values_set(made, value, VALUES_BORROW, error);
    }
    if (status == PS_OK)
        *constants = made;
    else
        values_release(made);
    return status;
}

bool values_have_weights(const struct values *values, const struct graph *graph) {
    for (int p = 0; p < graph->parameter_count; p++)
        if (!parameter_is_constant(&graph->parameters[p]) &&
            values_get(values, split_whole_name(&graph->parameters[p])) != NULL)
            return true;
    return false;
}

enum ps_status values_check(const struct values *values, const struct graph *graph, struct ps_error *error) {
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const struct array *entry = values_get(values, split_whole_name(parameter));
        struct shape whole = split_whole_shape(parameter);
        if (entry == NULL) continue;
        bool same = entry->rank == whole.rank;
        for (int d = 0; same && d < whole.rank; d++) same = entry->shape[d] == whole.dim[d];
        if (same) continue;
        char has[ARRAY_RANK_MAX * 21], wants[96];
        return error_set(error, PS_USAGE, "parameter '%s': its values have shape %s where the network has %s", entry->name,
                         array_shape_text(entry, has), shape_text(&whole, wants));
    }
    return PS_OK;
}
