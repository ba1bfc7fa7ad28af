/*
 * Devices that are not at hand: their costs are worked out from the network's own arithmetic and traffic instead of measured.
 * One of a kind is one entry of modelled_table; `profile --device` takes its name.
 */
#ifndef PENSTOCK_PROFILE_MODELLED_H
#define PENSTOCK_PROFILE_MODELLED_H

#include "profile/profile.h"

/* What a layer is, to a model: of one micro-batch. */
struct layer_work {
    double multiply_adds; /* of the forward; each half of the backward that there is takes as many */
    bool first;           /* nobody needs the gradient of its input */
    bool parameters;      /* has gradients of weights to make */
};

struct modelled_device {
    const char *name, *summary;
    int element_bytes;         /* of a number in its memory; cost tables of the graph count 4 */
    int64_t fast_memory_bytes; /* see struct cost_table */
    /* Fills in cost->time and cost->spill; cost->size is known. */
    void (*cost)(const struct modelled_device *device, const struct layer_work *work, struct layer_cost *cost);
    const void *data; /* of the model's own */
};

extern const struct modelled_device *const modelled_table[]; /* NULL-terminated */
/* NULL: no model has this name. */
const struct modelled_device *modelled_find(const char *name);

/* Works out the costs of every layer for micro-batches of table->micro_batch samples. */
enum ps_status modelled_fill(const struct modelled_device *device, const struct graph *graph, struct cost_table *table,
                             struct ps_error *error);

#endif
