/*
 * Values of parameters: a store of arrays by name, from which stages take initial values instead of random ones, and
 * constants. An entry has the whole parameter's name and shape (graph/split.h) and is in canonical order; elements may be of
 * any type, and are converted where they are used. A store may stay the owner of mapped files, so that values are read from the
 * disk only where they are used.
 *
 * A store is filled by one thread. Then it does not change, and any number of graphs and threads may share it.
 */
#ifndef PENSTOCK_GRAPH_VALUES_H
#define PENSTOCK_GRAPH_VALUES_H

#include "base/array.h"
#include "base/file.h"

struct graph;
struct values;

/* NULL where memory ran out. Its owner is the caller. */
struct values *values_create(void);
/* The same store (which may be NULL) for another owner. */
struct values *values_share(struct values *values);
/* Ends an ownership; the last owner's frees the store. */
void values_release(struct values *values);

enum values_ownership {
    VALUES_COPY,   /* the store copies the data */
    VALUES_TAKE,   /* the data were allocated by malloc; the store frees them, on failure at once */
    VALUES_BORROW, /* the data stay as long as the store: static ones, or in a mapping that it keeps */
};
/* Adds an entry; the name is copied. One of the same name is replaced. */
enum ps_status values_set(struct values *values, const struct array *array, enum values_ownership ownership,
                          struct ps_error *error);
/* The store unmaps the file when it is freed; on failure at once. */
enum ps_status values_keep_mapping(struct values *values, struct file_map mapping, struct ps_error *error);
/* Takes an ownership of another store, whose data entries may borrow; on failure it ends at once. */
enum ps_status values_keep_values(struct values *values, struct values *other, struct ps_error *error);
/* The file that the network came from, without the values (onnx/write.c): allocated by malloc, and the store's from now on. */
void values_set_origin(struct values *values, void *bytes, size_t size);
/* The same as that of another store, which this one keeps. */
void values_share_origin(struct values *values, const struct values *other);
/* NULL: there is none, or no store. */
const void *values_origin(const struct values *values, size_t *size);
/* Adds the tensors of a safetensors file, which stays mapped. */
enum ps_status values_read(struct values *values, const char *path, struct ps_error *error);
/* Writes the entries, as f32, as a safetensors file. */
enum ps_status values_write(const struct values *values, const char *path, struct ps_error *error);

/* NULL: there is none (also where there is no store). */
const struct array *values_get(const struct values *values, const char *name);
/* The entries, in the order in which they were added first. */
int values_count(const struct values *values);
const struct array *values_at(const struct values *values, int number);

/* Those of the graph's constants in a store of the caller's, which keeps `values` (NULL: none). */
enum ps_status values_take_constants(struct values *values, const struct graph *graph, struct values **constants,
                                     struct ps_error *error);
/* Has some parameter that is no constant a value? */
bool values_have_weights(const struct values *values, const struct graph *graph);

/* PS_USAGE where an entry's shape is not that of the graph's parameter of this name. */
enum ps_status values_check(const struct values *values, const struct graph *graph, struct ps_error *error);

#endif
