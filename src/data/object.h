/*
 * Datasets as the public interface has them: a spec that each user opens for its own network, data that were opened already,
 * or functions of the caller's.
 */
#ifndef PENSTOCK_DATA_OBJECT_H
#define PENSTOCK_DATA_OBJECT_H

#include <pthread.h>

#include "base/arena.h"
#include "data/dataset.h"
#include "graph/operator.h"

struct ps_dataset {
    struct arena arena;
    const char *name; /* the spec, or what the caller calls it */
    bool given;       /* by the caller's functions; else by a spec */
    enum ps_part part;
    const struct ps_dataset *words;                     /* by whose words text is numbered; NULL: nobody says */
    struct samples opened;                              /* for a network, once for all; dataset NULL: each user opens them */
    struct ps_dataset_source source;                    /* where given; its inputs are those below */
    struct ps_input inputs[NETWORK_INPUTS_MAX], target; /* with names of our own */
    pthread_mutex_t reading;                            /* then, one sample at a time */
};

/* Opens the data for a network, or takes those that are open; samples_close ends it. `usual` is the part where nobody says one.
 * Errors as those of samples_open, and what the caller's `open` returns. */
enum ps_status dataset_use(const struct ps_dataset *object, enum dataset_part usual, const struct dataset_shape *wanted,
                           struct samples *samples, struct ps_error *error);
/* The data as a spec says them; NULL: they are the caller's. */
static inline const char *dataset_spec(const struct ps_dataset *object) { return object->given ? NULL : object->name; }

#endif
