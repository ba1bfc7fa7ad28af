/*
 * The state of a running simulation: workers, blocks, links, and results so far.
 *
 * Time is counted in ticks, a power of two of a second, chosen so that sums over the whole run are exact: equal times compare
 * equal, and the parts of a worker's time add up exactly.
 */
#ifndef PENSTOCK_SIMULATE_ENGINE_H
#define PENSTOCK_SIMULATE_ENGINE_H

#include "program/interpreter.h"
#include "program/lower.h"
#include "program/routes.h"
#include "simulate/simulate.h"

/* Events in order of simulated time: a binary heap with room for `capacity`. Events of the same time are returned in the order
 * in which they were pushed. */
struct event {
    int64_t time;   /* ticks */
    uint64_t order; /* set by event_push */
    int subject;    /* a number with a meaning for the owner of the heap */
};

struct event_heap {
    struct event *events;
    int count, capacity;
    uint64_t pushed;
};

/* Asserts that there is room: the maximum number of pending events is known beforehand. */
void event_push(struct event_heap *heap, int64_t time, int subject);
/* Removes the earliest event; false if there is none. */
bool event_pop(struct event_heap *heap, struct event *event);
/* Removes an event of `subject`, if there is one; searches all events. */
void event_remove(struct event_heap *heap, int subject);

#define NOBODY (-1)

struct engine_worker {
    struct interpreter interpreter;
    struct program page; /* the unrolled page of a rolled program; or the instructions of its lane */
    int *needs; /* with lanes, per instruction: the number of the other lane's instructions that must be done before; else NULL
                 */
    bool held;  /* waits for the other lane */
    struct rolled_cursor cursor;
    const struct instruction *computing;  /* NULL: none */
    int64_t requested, started, duration; /* of that computation: requested at, started at, takes */
    bool running;                         /* it has a core */
    double left;                          /* with lanes: the remaining duration at `rated` */
    int64_t rated;
    bool transferring; /* without overlap: a transfer takes its time */
    int waiting;       /* block; NOBODY */
    int64_t waiting_since;
    /* Its progress in its mini-batch (with flush) or segment: forwards and backwards begun, of `window`. */
    int window, forwards, backwards;
    int64_t busy, communication, dependency; /* dependency: outside of fill and drain only */
    int64_t typical_busy;                    /* its part of busy that is for engine.typical */
    struct traffic_count traffic;            /* counted by transfer.c */
    enum action direction;                   /* of its last forward or backward; ACTION_COUNT: none yet */
    int64_t event_first, event_count;        /* its part of the timeline */
};

/* One slot of one kind of one stage instance. */
struct engine_block {
    int worker;  /* of the programs */
    bool moving; /* a transfer of it has started and not ended */
    int partner; /* block at the other end, once it was posted; NOBODY before */
    int channel, micro_batch;
    int64_t posted; /* the time of its post */
    int64_t begun;  /* sender: start of the computation that made it */
    int next;       /* next pending post on the same side of the channel; NOBODY */
    bool sum;       /* not a slot but an instance's weight gradients while they are summed over the replicas */
};

/* A route: the blocks posted whose other end has not been posted yet. After the routes come the channels of the rings, from
 * each instance to the next. */
struct engine_channel {
    int from, to;   /* workers */
    int stage;      /* of a ring: the stage of the receiving instance */
    int pending[2]; /* first of the list of senders, of receivers */
    int before;     /* the channel before it from the same worker; NOBODY: none */
    int64_t duration, bytes;
    int64_t busy; /* total time of its transfers */
};

/* A pass of a sum around a ring. */
struct engine_pass {
    struct sum_group group;
    int channel, instances;   /* the first of its channels, of which each instance has one */
    int64_t bytes;            /* that an instance sends to the next in all steps */
    int64_t begins, duration; /* since the sum began */
    double begins_s, lasts_s; /* the same in seconds */
};

/* A reduce group: a stage's replicas, or the instances of stages that share parameters. */
struct engine_ring {
    struct engine_pass *pass; /* programs_sum_passes */
    int pass_count;
    int pending;      /* instances that wait for the others */
    int64_t duration; /* of a sum */
    bool in_place;    /* without links: computed by the last to arrive, in shared memory */
};

/* A stage instance. */
struct engine_instance {
    int64_t duration[ACTION_COUNT], update_and_predict, update_out_of_place; /* ticks */
    int64_t accumulate;                                                      /* time of adding to gradients */
    int64_t wire[WIRE_BLOCKS];                                               /* of encodings and decodings */
    double fill;                   /* the share by which a computation after one of the other direction takes longer */
    bool accumulating;             /* gradients of this mini-batch exist */
    int first_block[BLOCK_PLACES]; /* into engine.blocks */
    int slots[BLOCK_PLACES];       /* of the kinds that are transferred; 0 for others */
    int sum_block;                 /* NOBODY: it is in no reduce group */
};

struct engine {
    struct arena arena; /* of its arrays but the timeline's */
    const struct simulation_work *work;
    double tick_s;
    int64_t now;
    bool flush, streaming;
    int lanes;                     /* per worker; a worker here is one lane of a worker of the programs: see lanes.c */
    int worker_count;              /* workers of the programs x lanes */
    struct allocation *allocation; /* of rolled programs: their blocks; else NULL */
    struct event_heap heap;        /* subjects: workers, then (as worker_count + block) receiving blocks whose transfer ends */
    struct engine_worker *workers;
    struct engine_instance *instances;
    struct routes routes;
    struct engine_channel *channels;
    int channel_count;
    struct cluster_pair *pairs;     /* per channel: its links */
    int *last_channel;              /* per worker of the programs: the last one from it */
    struct engine_ring *rings;      /* per group of stages (programs_sum_group) */
    int64_t *link_free, *link_busy; /* per link: end of its last transfer; total time of its transfers */
    struct engine_block *blocks;
    int block_count;
    int free_cores;
    int *queue, queue_first, queue_count; /* workers that wait for a core */
    int typical, typical_count;           /* the first of some mini-batches, and how many; set before engine_run */
    int64_t *completed;                   /* per mini-batch: end of its last backward or update */
    int64_t last_entry;                   /* when the first stage began its last forward */
    int64_t end;
    bool recording; /* in the timeline */
    struct timeline timeline;
};

enum ps_status engine_create(struct engine *engine, const struct simulation_work *work, struct ps_error *error);
void engine_free(struct engine *engine);
enum ps_status engine_run(struct engine *engine, struct ps_error *error);

/* transfer.c: the transfers' half of the environment. */
bool transfer_settled(void *context, int worker, int stage, enum block_kind kind, int slot);
enum ps_status transfer_execute(void *context, int worker, const struct instruction *instruction, struct ps_error *error);
/* REDUCE. */
enum ps_status transfer_reduce(void *context, int worker, const struct instruction *instruction, struct ps_error *error);
/* The transfer to `block` ends. */
void transfer_end(struct engine *engine, int block);
/* The worker has begun to wait for `block`. */
void transfer_awaited(struct engine *engine, int worker, int block);

/* all_reduce.c: the sums of reduce groups. Channels are added first; times are set when all channels and the tick are known. */
enum ps_status rings_create(struct engine *engine, struct ps_error *error);
void rings_add_channels(struct engine *engine);
void rings_set_times(struct engine *engine);
/* Duration of the sum of the reduce group whose first stage this is; 0: there is no such group. */
double rings_sum_s(struct engine *engine, int stage);
struct engine_channel *engine_add_channel(struct engine *engine, int from, int to, int64_t bytes);
/* When the channel's links have finished the transfers so far; how long they have been busy, the longer of the two. */
int64_t engine_links_free(const struct engine *engine, int channel);
int64_t engine_links_busy(const struct engine *engine, int channel);
double engine_channel_s(const struct engine *engine, const struct engine_channel *channel);
int64_t engine_ticks(const struct engine *engine, double seconds);

/* lanes.c: workers that run forwards and backwards concurrently. */
enum { LANE_FORWARD, LANE_BACKWARD, LANES };
/* Divides each worker's program into lanes. */
enum ps_status lanes_create(struct engine *engine, struct ps_error *error);
/* Whether the worker's next instruction must wait for its other lane. */
bool lanes_hold(const struct engine *engine, int worker);
/* An instruction of the worker is done: its other lane may be waiting for it. */
void lanes_release(struct engine *engine, int worker);
/* The worker begins or has finished a computation: updates the ends of its lanes' computations. */
void lanes_share(struct engine *engine, int worker);
/* Whether its other lane computes. */
bool lanes_other_runs(const struct engine *engine, int worker);

/* The worker of the programs of which it is a lane. */
static inline int engine_owner(const struct engine *engine, int worker) { return worker / engine->lanes; }

/* The worker's instance of a stage. */
static inline struct engine_instance *engine_instance_of(const struct engine *engine, int worker, int stage) {
    return &engine->instances[programs_instance(engine->work->programs, engine_owner(engine, worker), stage)];
}

static inline double engine_seconds(const struct engine *engine, int64_t ticks) { return (double)ticks * engine->tick_s; }

/* Whether its pipeline fills or drains: the worker has not begun its first backward, or has begun its last forward, of its
 * window. */
static inline bool engine_fills_or_drains(const struct engine *engine, int worker) {
    int first = worker - worker % engine->lanes, last = first + engine->lanes - 1;
    return engine->workers[last].backwards == 0 || engine->workers[first].forwards == engine->workers[first].window;
}

#endif
