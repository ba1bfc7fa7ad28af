/* Devices that are not present: their costs are computed from the arithmetic and memory traffic of the network instead of
 * measured. Each is an entry of modelled_table; `profile --device` takes its name. */
#ifndef PENSTOCK_PROFILE_MODELLED_H
#define PENSTOCK_PROFILE_MODELLED_H

#include "profile/profile.h"

/* A layer as input of a model, for one micro-batch of so many samples. */
struct layer_work {
    const struct graph *graph;
    const struct layer *layer;
    int samples;
    double multiply_adds; /* of the forward; each half of the backward that runs has as many */
    bool first;           /* the gradient of its input is not needed */
    bool parameters;      /* it has gradients of weights */
};

/* Multiply-adds of a node's forward for one sample. */
double node_multiply_adds(const struct graph *graph, int node);

struct modelled_device {
    const char *name, *summary;
    int element_bytes;         /* of a number in its memory; cost tables of the graph use 4 */
    int64_t fast_memory_bytes; /* see struct cost_table */
    /* Sets cost->time and cost->spill; cost->size is set. */
    void (*cost)(const struct modelled_device *device, const struct layer_work *work, struct layer_cost *cost);
    const void *data; /* data of the model */
};

extern const struct modelled_device *const modelled_table[]; /* NULL-terminated */
/* NULL if no model has this name. */
const struct modelled_device *modelled_find(const char *name);

/* Computes the costs of every layer for micro-batches of table->micro_batch samples. */
enum ps_status modelled_fill(const struct modelled_device *device, const struct graph *graph, struct cost_table *table,
                             struct ps_error *error);

#endif
