/*
 * A worker: its device, its stages, and the one block of memory that holds everything the stages work on.
 *
 * The block has exactly the planned size (program/lower.h: programs_memory) and is carved once into weight slots, gradients,
 * optimizer moments, running statistics, stashes, boundary blocks and a workspace. Stages find their blocks through tables of
 * pointers, by kind and slot, since a transport may put another worker's block into a slot; no step of training allocates.
 */
#ifndef PENSTOCK_EXEC_WORKER_H
#define PENSTOCK_EXEC_WORKER_H

#include <stdatomic.h>

#include "base/shared_block.h"
#include "compute/stage.h"
#include "data/loader.h"
#include "exec/update_rule.h"
#include "program/lower.h"
#include "program/timeline.h"

/* What a worker holds of one stage. */
struct worker_stage {
    int number;   /* of the stage */
    int instance; /* of the programs */
    int replica;
    bool forward; /* it runs the stage's forwards; else only its backwards, and its statistics say nothing */
    struct stage *stage;
    struct stage *shorter[LENGTHS_MAX]; /* the same at shorter lengths, in the same blocks; NULL: there is none */
    struct stage_sizes sizes;
    struct stage_slots slots;
    float **weights; /* by weight slot; between segments slot 0 holds the newest */
    int newest;      /* slot of the newest weights */
    float *gradients, *statistics;
    double sum_from_s, sum_until_s; /* of the last sum over replicas: offered, and given over or, by the last to come, made */
    bool accumulating;              /* gradients hold those of earlier micro-batches of this mini-batch */
    struct update_state update;
    float **block[BLOCK_KINDS]; /* by kind and slot */
    int32_t **labels;           /* by input slot; last stage only */
    float *label_scale;         /* by input slot: 1 / counted labels of its mini-batch */
};

/* Data for the first or the last stage: the loader, and the mini-batch in hand. */
struct worker_data {
    struct loader *loader; /* NULL: this worker needs none */
    size_t input_bytes;    /* of a sample */
    bool several;          /* inputs, which stand one after the other in a sample and apart in a block */
    int first;             /* mini-batch of a segment that this worker takes first: its replica, where they take whole ones */
    struct loaded_batch batch;
    int64_t number; /* of that mini-batch; -1: none in hand */
};

enum { WORKER_DATA_TRAIN, WORKER_DATA_VALID, WORKER_DATA_KINDS };

/* When each of the last computations ran, and each sum over replicas, by the instruction that offers it: a ring. */
struct recorder {
    struct timeline_event *events; /* NULL: nobody asked for them */
    int capacity;
    int64_t count; /* since the segment began */
};

/* A device with a queue is asked for so many computations at most before the first of them is done: enough that it always
 * has some to do, and few enough that what it finds wrong is found soon. */
enum { RUN_AHEAD = 8 };

/* A computation that was asked of the device. */
struct work {
    struct instruction instruction;
    struct worker_stage *stage;
    double started_s;               /* it was asked for */
    struct moment started, done;    /* it could begin: all that it needs was there; it was over */
    double sum_from_s, sum_until_s; /* of an update: as in worker_stage */
    struct stage_result result;     /* of a forward of the last stage */
};

struct worker {
    int number;
    struct device *device;
    struct worker_stage *stages;
    int stage_count;
    struct memory_block memory; /* memory.used: what was carved, all of it once the tables are made */
    struct shared_block shared; /* the same of blocks that travel, where other processes can open them; else base is NULL */
    void *workspace;
    struct worker_data inputs[WORKER_DATA_KINDS], labels[WORKER_DATA_KINDS];
    struct work work[RUN_AHEAD + 1]; /* a ring: that one at most is being asked for */
    int64_t asked, settled;          /* computations asked for; of them, known to be over */
    void *staging; /* the host's, where input is prepared for a device that has memory of its own; else NULL */
    double busy_s; /* in training segments */
    double slower; /* emulated: each computation takes so many times what it takes; 1: as it is */
    struct recorder recorder;
};

struct worker_options {
    int number;
    const struct device_class *device;
    int threads;
    const struct graph *graph;
    const struct graph *shorter[LENGTHS_MAX]; /* for shorter lengths (graph.longest), to the first NULL */
    const struct ps_plan *plan;
    int samples;                        /* of a micro-batch, as the graph counts them */
    const struct stage_sizes *sizes;    /* per stage of the plan: what its blocks take; NULL: what its device says */
    const struct stage_slots *slots;    /* per instance: the most that any program of the run uses */
    const struct ps_programs *programs; /* one of the run's: what instances there are */
    int moments;
    int record;                        /* computations to remember; 0: none */
    const struct ps_cluster *emulated; /* whose speeds are emulated; NULL: none are */
    const struct ps_cluster *cluster;  /* as it is; NULL: nothing is known of it */
    unsigned without_decay;            /* enum decay_exclusion */
    bool shared;                       /* blocks that travel are to lie where other processes can open them */
};

/* Opens the device and makes the stages, without their memory. */
enum ps_status worker_create(const struct worker_options *options, struct worker *worker, struct ps_error *error);
/* What its blocks will take. */
struct worker_memory worker_memory_needed(const struct worker *worker, int moments);
/* Takes the memory and carves it, and makes the tables. Where no memory can be shared that is logged, and all is its own. */
enum ps_status worker_take_memory(struct worker *worker, const struct worker_options *options, struct ps_error *error);
/* Frees everything, the loaders included; a zeroed worker is fine. */
void worker_destroy(struct worker *worker);

/* Bytes that it has taken and carved. */
static inline int64_t worker_memory_taken(const struct worker *worker) {
    return (int64_t)(worker->memory.used + worker->shared.memory.used);
}

/* The stage by its number in the plan; it is this worker's. */
static inline struct worker_stage *worker_stage_find(struct worker *worker, int number) {
    struct worker_stage *stage = worker->stages;
    while (stage->number != number) stage++;
    return stage;
}

/* What computes micro-batches of the length of that number; past the shorter ones they have the whole length. */
static inline struct stage *worker_stage_at(const struct worker_stage *stage, int length) {
    return length < LENGTHS_MAX && stage->shorter[length] ? stage->shorter[length] : stage->stage;
}

/* Makes ready for the next segment of training, which begins after `step` mini-batches: nothing accumulated, nothing
 * recorded. */
void worker_start_segment(struct worker *worker, const struct ps_programs *programs, int64_t step);
/* Its data of a kind (WORKER_DATA_*) go on with its first mini-batch from `number` on. */
enum ps_status worker_seek_data(struct worker *worker, int kind, int64_t number, struct ps_error *error);
/* After a segment: the newest weights move to slot 0, by exchanging pointers. */
void worker_end_segment(struct worker *worker);

#endif
