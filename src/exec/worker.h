/*
 * A worker: its device, its stages, and the one block of memory that holds all blocks of the stages.
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
#include "program/routes.h"
#include "program/timeline.h"

/* What a worker holds of one stage. */
struct worker_stage {
    int number;   /* of the stage */
    int instance; /* of the programs */
    int replica;
    bool forward; /* it runs the stage's forwards; else only its backwards, and its statistics are not used */
    struct stage *stage;
    struct stage *shorter[LENGTHS_MAX]; /* the same at shorter lengths, in the same blocks; NULL: none */
    struct stage_sizes sizes;
    struct stage_slots slots;
    float **weights; /* copies by weight slot, from `wide` elements on bf16 where there is a master; between segments slot 0
                        holds the newest */
    int newest;      /* slot of the newest weights */
    float *gradients, *statistics;
    float **tied; /* gradients of its uses of the parameters that stages share, as transport_share.tied has them */
    double sum_from_s, sum_until_s; /* of the last sum over replicas: when the share was offered, and when that returned (for
                                       the last replica: when the sum was done) */
    bool accumulating;              /* gradients hold those of earlier micro-batches of this mini-batch */
    struct update_state update;
    float **block[BLOCK_KINDS];  /* by kind and slot */
    float *feedback[WIRE_CODED]; /* of what is sent; NULL: none */
    struct wire_run sum_run;     /* all of `gradients` */
    double wire_s[WIRE_CODED];   /* of a clock device: stage_cost.wire_s */
    void **targets;              /* by input slot; last stage only */
    float *loss_scale;           /* by input slot: 1 / the weight of what counts in its mini-batch */
};

/* Data for the first or the last stage: the loader, and the current mini-batch. */
struct worker_data {
    struct loader *loader; /* NULL: this worker needs none */
    size_t input_bytes;    /* of a sample */
    bool several;          /* inputs, which stand one after the other in a sample and apart in a block */
    int first;             /* mini-batch of a segment that this worker takes first: its replica, where they take whole ones */
    struct loaded_batch batch;
    int64_t number; /* of that mini-batch; -1: none */
};

enum { WORKER_DATA_TRAIN, WORKER_DATA_VALID, WORKER_DATA_KINDS };

/* A block that a worker sent to another worker or received from one: when it was posted, and of a received one when it had
 * arrived, NaN as long as it has not. */
struct recorded_transfer {
    struct timeline_transfer transfer;
    int instance, kind, slot; /* where it was posted from */
    bool sent;
};

/* The times of the last computations, and of sums over replicas (by the instruction that offers the share), and of the last
 * blocks: ring buffers. */
struct recorder {
    struct timeline_event *events; /* NULL: not recorded */
    int capacity;
    int64_t count;                       /* since the segment began */
    struct recorded_transfer *transfers; /* NULL: not recorded */
    int transfer_capacity;
    int64_t transfer_count, arrived; /* since the segment began; those before have arrived */
};
/* A computation rarely has more. */
enum { TRANSFERS_OF_COMPUTATION = 3 };

/* The run-ahead window: at most so many computations are enqueued on a device before the first of them is done. That is enough
 * to keep the device busy, and few enough that errors are found soon. */
enum { RUN_AHEAD = 8 };

/* A computation that was enqueued on the device. */
struct work {
    struct instruction instruction;
    struct worker_stage *stage;
    double started_s;               /* when it was enqueued */
    struct moment started, done;    /* when it could begin: its blocks had arrived; when it is done */
    double sum_from_s, sum_until_s; /* of an update: as in worker_stage */
    struct stage_result result;     /* of a forward of the last stage */
};

/* What a worker has done in training since the run began, also before it was resumed; under another number of workers these
 * begin at zero. */
struct worker_totals {
    double busy_s;
    struct traffic_count traffic;
};

struct worker {
    struct arena arena; /* of its tables */
    int number;
    struct device *device;
    struct worker_stage *stages;
    int stage_count;
    struct memory_block memory; /* memory.used: what was carved, all of it once the tables are made */
    struct shared_block shared; /* the same of blocks that travel, where other processes can open them; else base is NULL */
    void *workspace;
    struct worker_data inputs[WORKER_DATA_KINDS], targets[WORKER_DATA_KINDS];
    struct work work[RUN_AHEAD + 1]; /* a ring: the window, and the one being enqueued */
    int64_t enqueued, settled;       /* computations enqueued; of them, known to be done */
    void *staging; /* the host's, where input is prepared for a device that has memory of its own; else NULL */
    struct worker_totals totals;
    double slower; /* emulated: the factor by which each computation is lengthened; 1: none */
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
    const struct stage_sizes *sizes;    /* per stage of the plan: the sizes of its blocks; NULL: as its device gives them */
    const double (*wire_s)[WIRE_CODED]; /* per stage of the plan: as in worker_stage; NULL: all 0 */
    const struct stage_slots *slots;    /* per instance: the most that any program of the run uses */
    const struct ps_programs *programs; /* one of the run's: what instances there are */
    int moments;
    int record;                        /* computations to record; 0: none */
    const struct ps_cluster *emulated; /* whose speeds are emulated; NULL: none are */
    const struct ps_cluster *cluster;  /* the real one; NULL: not known */
    const struct update_rule *rule;    /* what its parameters' rates and decays are; NULL: the same for all */
    bool shared;                       /* blocks that travel shall lie in memory that other processes can open */
};

/* Opens the device and creates the stages, without their memory. */
enum ps_status worker_create(const struct worker_options *options, struct worker *worker, struct ps_error *error);
/* The memory that its blocks will take. */
struct worker_memory worker_memory_needed(const struct worker *worker, int moments);
/* Takes the memory, carves it and builds the tables. Where no memory can be shared, that is logged, and all of it is private.
 */
enum ps_status worker_take_memory(struct worker *worker, const struct worker_options *options, struct ps_error *error);
/* Frees everything, the loaders included; a zeroed worker is fine. */
/* Its loaders begin to read no other sample. */
void worker_stop_reading(struct worker *worker);
void worker_destroy(struct worker *worker);

/* Bytes that it has taken and carved. */
static inline int64_t worker_memory_taken(const struct worker *worker) {
    return (int64_t)(worker->memory.used + worker->shared.memory.used);
}

/* Of its error feedback of a kind of encoded block, or of WIRE_SUM; 0: it has none. */
static inline size_t worker_feedback_bytes(const struct worker_stage *stage, int coded) {
    const bool has = coded == WIRE_SUM ? !stage->slots.forward_only : stage->slots.wire[coded] > 0;
    return has ? (size_t)stage->sizes.feedback_bytes[coded] : 0;
}

/* The same in a form that all devices share, for files and messages: floats of it; and copies it there, or back (`brings`).
 * Waits for the device. Of WIRE_SUM: the parameters in canonical order, then each use of those that several nodes share. */
size_t worker_feedback_floats(const struct worker_stage *stage, int coded);
enum ps_status worker_feedback_move(struct device *device, const struct worker_stage *stage, int coded, bool brings,
                                    float *floats, struct ps_error *error);

/* The stage by its number in the plan; it is this worker's. */
static inline struct worker_stage *worker_stage_find(struct worker *worker, int number) {
    struct worker_stage *stage = worker->stages;
    while (stage->number != number) stage++;
    return stage;
}

/* A parameter or a statistic of the stage in canonical order, between segments: trained ones are those of the master where
 * there is one, else those of slot 0. */
enum ps_status worker_stage_export(const struct worker_stage *stage, int parameter, float *canonical, struct ps_error *error);
/* Both get it. */
enum ps_status worker_stage_import(const struct worker_stage *stage, int parameter, const float *canonical,
                                   struct ps_error *error);

/* The stage for micro-batches with the length of that number; numbers after the shorter lengths mean the full length. */
static inline struct stage *worker_stage_at(const struct worker_stage *stage, int length) {
    return length < LENGTHS_MAX && stage->shorter[length] ? stage->shorter[length] : stage->stage;
}

/* Prepares for the next segment of training, which begins after `step` mini-batches: nothing accumulated, nothing recorded. */
void worker_start_segment(struct worker *worker, const struct ps_programs *programs, int64_t step);
/* Its data of a kind (WORKER_DATA_*) continue with its first mini-batch from `number` on. */
enum ps_status worker_seek_data(struct worker *worker, int kind, int64_t number, struct ps_error *error);
/* After a segment: the newest weights move to slot 0, by exchanging pointers. */
void worker_end_segment(struct worker *worker);

#endif
