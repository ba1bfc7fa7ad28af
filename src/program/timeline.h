/* When each instruction ran, predicted or measured: the input of pictures, traces and comparisons. */
#ifndef PENSTOCK_PROGRAM_TIMELINE_H
#define PENSTOCK_PROGRAM_TIMELINE_H

#include "program/program.h"

struct timeline_event {
    struct instruction instruction;
    int worker;
    double start_s, end_s; /* from the beginning of the segment */
};

/* Traffic on no route: what a replica of a stage sends to the next one while their gradients are summed around the ring. */
enum { TRAFFIC_SUM = TRAFFICS };

struct timeline_transfer {
    int from, to, stage, micro_batch; /* the sending stage; of a sum the update that it is for */
    int traffic;                      /* enum traffic, or TRAFFIC_SUM */
    int64_t bytes;
    double start_s, end_s;
};

struct timeline {
    int workers;
    int lanes;                     /* 2: forwards of a worker may overlap with its other computations; else they follow each
                                    * other */
    int batches, micro_batches;    /* mini-batches of the segment, micro-batches in each; 0: not known */
    struct timeline_event *events; /* per worker in order of their end; one worker after the other */
    int event_count;
    size_t event_capacity;
    struct timeline_transfer *transfers;
    int transfer_count;
    size_t transfer_capacity;
    int64_t *memory_bytes; /* per worker: what a run took; NULL: not known */
};

/* The row of an event among the rows of its worker, and the number of rows. */
static inline int timeline_lane(const struct timeline *timeline, const struct timeline_event *event) {
    return timeline->lanes > 1 && event->instruction.op != OP_F;
}
static inline int timeline_lanes(const struct timeline *timeline) { return timeline->lanes > 1 ? timeline->lanes : 1; }

/* Where the forward and the backward (of a split one the half that takes the gradient) of each stage and micro-batch are. It
 * covers the micro-batches that the timeline shows, which may be a late part of a long run. */
struct timeline_index {
    int stages, first_micro_batch, micro_batches;
    int *place; /* stages x micro_batches x (forward, backward) */
};
enum { TIMELINE_NONE = -1 };
enum ps_status timeline_index_create(const struct timeline *timeline, struct timeline_index *index, struct ps_error *error);
/* An index into timeline->events, or TIMELINE_NONE; any stage and micro-batch may be asked for. */
int timeline_index_find(const struct timeline_index *index, int stage, int micro_batch, bool backward);
void timeline_index_free(struct timeline_index *index);

enum ps_status timeline_add(struct timeline *timeline, const struct timeline_event *event, struct ps_error *error);
enum ps_status timeline_add_transfer(struct timeline *timeline, const struct timeline_transfer *transfer,
                                     struct ps_error *error);
void timeline_free(struct timeline *timeline);

#endif
