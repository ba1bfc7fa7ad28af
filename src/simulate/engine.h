/*
 * The simulator's state while it runs: workers, blocks, links, and what was seen so far.
 *
 * Time is counted in ticks, a power of two of a second chosen so that no sum over the whole run loses a bit: moments that are
 * equal compare equal, and the parts of a worker's time add up exactly.
 */
#ifndef PENSTOCK_SIMULATE_ENGINE_H
#define PENSTOCK_SIMULATE_ENGINE_H

#include "program/interpreter.h"
#include "program/lower.h"
#include "program/routes.h"
#include "simulate/simulate.h"

/* Events in order of simulated time: a binary heap of fixed capacity. Events of the same moment leave in the order they
 * came. */
struct event {
    int64_t time;   /* ticks */
    uint64_t order; /* set by event_push */
    int subject;    /* who it is about: the owner of the heap knows */
};

struct event_heap {
    struct event *events;
    int count, capacity;
    uint64_t pushed;
};

enum ps_status event_heap_create(struct event_heap *heap, int capacity, struct ps_error *error);
void event_heap_free(struct event_heap *heap);
/* Asserts that there is room: how many events can be pending at a time is known beforehand. */
void event_push(struct event_heap *heap, int64_t time, int subject);
/* The earliest; false where there is none. */
bool event_pop(struct event_heap *heap, struct event *event);
/* Takes out an event about `subject`, if there is one; looks through all. */
void event_remove(struct event_heap *heap, int subject);

#define NOBODY (-1)

struct engine_worker {
    struct interpreter interpreter;
    struct program page; /* what is unfolded of its program, where programs are folded; or what is its lane's of it */
    int *needs;          /* with lanes, per instruction: so many of the other lane's must be done before; else NULL */
    bool held;           /* for that */
    struct folded_cursor cursor;
    const struct instruction *computing; /* NULL: none */
    int64_t asked, started, duration;    /* of that computation: wanted since, runs since, takes */
    bool running;                        /* it has a core */
    double left;                         /* with lanes: what was left of the duration at `rated` */
    int64_t rated;
    bool transferring; /* without overlap: a transfer takes its time */
    int waiting;       /* block; NOBODY */
    int64_t waiting_since;
    /* Where it stands in its mini-batch (with flush) or segment: forwards and backwards begun of `window`. */
    int window, forwards, backwards;
    int64_t busy, communication, dependency; /* dependency: outside of fill and drain only */
    int64_t event_first, event_count;        /* its part of the timeline */
};

/* One slot of one kind of one stage instance. */
struct engine_block {
    int worker;  /* of the programs */
    bool moving; /* a transfer was started on it that is not over */
    int partner; /* block at the other end, once it has come; NOBODY before */
    int channel, micro_batch;
    int64_t posted; /* since when it is offered */
    int64_t begun;  /* sender: when the computation began that made it */
    int next;       /* offered on the same side of the channel; NOBODY */
    bool sum;       /* no slot, but an instance's weight gradients while they are added up over the replicas */
};

/* One route: the blocks offered whose other end has not come. Behind the routes stand the rings' channels: from each part
 * to the next. */
struct engine_channel {
    int from, to;   /* workers */
    int stage;      /* of a ring: that of the instance that receives */
    int offered[2]; /* first of the list of senders, of receivers */
    int link;       /* the first channel of those that share one */
    int64_t duration, bytes;
    int64_t busy, link_busy; /* with transfers, in all; and with those of all channels that have this one as their link */
};

/* A pass of a sum around a ring. */
struct engine_pass {
    int channel, instances;   /* the first of its channels, one per instance */
    int64_t bytes;            /* that one instance sends the next in all steps */
    int64_t begins, duration; /* since the sum began */
};

/* Instances that add up their gradients: a stage's replicas, or those of two stages that share a parameter. */
struct engine_ring {
    struct engine_pass pass[3]; /* programs_sum_passes */
    int pass_count;
    int offered;      /* instances that wait for the others */
    int64_t duration; /* of a sum */
    bool in_place;    /* without links: by whoever comes last, in memory that all share */
};

/* What one worker holds of a stage. */
struct engine_instance {
    int64_t duration[ACTION_COUNT], update_and_predict, update_out_of_place; /* ticks */
    int64_t accumulate;                                                      /* what adding to gradients takes */
    bool accumulating;                                                       /* there are some of this mini-batch */
    int first_block[BLOCK_PLACES];                                           /* into engine.blocks */
    int slots[BLOCK_PLACES];                                                 /* of the kinds that travel; 0 of the others */
    int sum_block;                                                           /* NOBODY: its stage adds nothing up */
};

struct engine {
    const struct simulation_work *work;
    double tick_s;
    int64_t now;
    bool flush, streaming;
    int lanes;                     /* of a worker; a worker here is one lane of one of the programs': see lanes.c */
    int worker_count;              /* workers of the programs x lanes */
    struct allocation *allocation; /* of folded programs: the blocks that they hold; else NULL */
    struct event_heap heap;        /* subjects: workers, then (as worker_count + block) receiving blocks whose transfer ends */
    struct engine_worker *workers;
    struct engine_instance *instances;
    struct routes routes;
    struct engine_channel *channels;
    int channel_count;
    struct engine_ring *rings; /* per group of stages (programs_sum_group) */
    int64_t *link_free;        /* per link: when it has done with what is on it */
    struct engine_block *blocks;
    int block_count;
    int free_cores;
    int *queue, queue_first, queue_count; /* workers that wait for a core */
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
/* A transfer ends that `block` receives. */
void transfer_end(struct engine *engine, int block);
/* The worker has begun to wait for `block`. */
void transfer_wanted(struct engine *engine, int worker, int block);

/* rings.c: lays out the sums of reduce groups. Channels first, and times when all of them are there and ticks are known. */
void rings_add_channels(struct engine *engine);
void rings_set_times(struct engine *engine);
/* How long the sum of the group that the stage is the first of takes; 0: it is the first of none. */
double rings_sum_s(const struct engine *engine, int stage);
struct engine_channel *engine_add_channel(struct engine *engine, int from, int to, int64_t bytes);
double engine_channel_s(const struct engine *engine, const struct engine_channel *channel);
int64_t engine_ticks(const struct engine *engine, double seconds);

/* lanes.c: workers that run forwards beside backwards. */
enum { LANE_FORWARD, LANE_BACKWARD, LANES };
/* Walks through each worker's program. */
enum ps_status lanes_create(struct engine *engine, struct ps_error *error);
/* Must the worker wait for what its other lane does before its next instruction? */
bool lanes_hold(const struct engine *engine, int worker);
/* Something of the worker is done: its other lane may be held for that. */
void lanes_release(struct engine *engine, int worker);
/* The worker begins a computation, or has finished one: sets when those of both its lanes end. */
void lanes_share(struct engine *engine, int worker);
/* Does its other lane compute? */
bool lanes_other_runs(const struct engine *engine, int worker);

/* The worker of the programs that it is a lane of. */
static inline int engine_owner(const struct engine *engine, int worker) { return worker / engine->lanes; }

/* Of the worker's instance of a stage. */
static inline struct engine_instance *engine_instance_of(const struct engine *engine, int worker, int stage) {
    return &engine->instances[programs_instance(engine->work->programs, engine_owner(engine, worker), stage)];
}

static inline double engine_seconds(const struct engine *engine, int64_t ticks) { return (double)ticks * engine->tick_s; }

/* Has the worker not begun its first backward, or begun its last forward, of what drains together? */
static inline bool engine_fills_or_drains(const struct engine *engine, int worker) {
    int first = worker - worker % engine->lanes, last = first + engine->lanes - 1;
    return engine->workers[last].backwards == 0 || engine->workers[first].forwards == engine->workers[first].window;
}

#endif
