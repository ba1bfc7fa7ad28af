/*
 * Simulation: the interpreter's environment with a clock. The programs that the runtime executes run here in simulated time,
 * with the costs of stages from the profile and those of devices and links from the cluster.
 *
 * Costs of instructions, divided by the speed of the worker's device:
 *   F  the stage's forward         B  its backward by input and by weights         R  as F
 *   I  its backward by input       W  by weights; both with the additional time of separate halves
 *   B and W take accumulate_s longer if they add to the gradients of an earlier micro-batch
 *   U  update_s; update_predict_s with the prediction in the same pass; update_out_of_place_s into another slot
 *   P  predict_s
 * F, B, R, I and W of a mini-batch take batch_factors[] times as long, if given: mini-batches have several lengths then.
 * SEND and RECEIVE only start a transfer. It begins when both ends have posted and the link between the two workers has
 * finished earlier transfers; it lasts latency + bytes / bandwidth, and both blocks are settled at its end. Each direction of
 * each pair is a link of its own, unless the cluster has half-duplex links (both directions are one link) or a shared link (all
 * its pairs are one link). In this model 1f1b on equal stages takes exactly BaPipe's time of 1F1B-SNO (Zhao et al., Table II).
 *
 * With cluster.streaming (BaPipe's AS: a transfer starts with the first part of the output) a transfer begins with the
 * computation that makes the block, if the receiver's block and the link are free then, and ends no earlier than that
 * computation. The receiver waits for the complete block.
 *
 * A schedule may specify that devices stream, whatever the cluster specifies, and that a worker runs forwards and backwards
 * concurrently (BaPipe's FBP; simulate/lanes.c). Such a worker has two lanes that share it. The rules for waiting then apply to
 * each lane, and the worker waits while both lanes wait.
 *
 * REDUCE only starts, too. The sum over a stage's replicas begins when all have posted and the links of the ring, from each
 * replica to the next, have finished earlier transfers. For r replicas it takes 2 (r - 1) steps of latency + bytes / r /
 * bandwidth on the slowest link (channels of the ring that share a link use it one after the other in each step), and settles
 * all gradients at its end. Without links the workers share memory: the sum takes r times sum_s of the last replica's own time,
 * from its arrival.
 *
 * Without overlap (cluster.overlap false) transfers take the workers' own time: the sender is blocked at its SEND, whether or
 * not the other end has posted, and the receiver is blocked as long when it first needs the block, but not before the sender's
 * start. With cluster.cores set, only this many workers compute at a time; the others queue in order of arrival.
 *
 * The idle time of a worker is split by its cause (the parts add up to makespan - busy):
 *   communication  it waits for a block whose other end has posted: the transfer is queued or runs
 *   imbalance      the difference to the busy time of the busiest worker: it would wait as long in any order
 *   fill_drain     of the rest, while the pipeline fills (until its first backward) and drains (after its last forward);
 *                  with a flush, in each mini-batch
 *   dependency     of the rest, in between: for an earlier or later stage, or for a free core
 */
#ifndef PENSTOCK_SIMULATE_SIMULATE_H
#define PENSTOCK_SIMULATE_SIMULATE_H

#include "base/arena.h"
#include "plan/cluster.h"
#include "profile/profile.h"
#include "program/lower.h"
#include "program/timeline.h"
#include "simulate/against.h"
#include "simulate/rolled_programs.h"

/* Longer runs are simulated without a timeline, and their programs are rolled (rolled_programs.h) if they are periodic. */
enum { SIMULATE_EVENTS_MAX = 1 << 21 };

/*
 * The critical path of a simulated run: the chain of computations and transfers, each waiting for the one before, that ends
 * with the last instruction. What is not on it could take a little longer without changing the makespan.
 *
 * It is found backwards in the timeline. The predecessor of a computation ended when it began: the worker's previous
 * computation, else the transfer of its input block, else the transfer that freed its output block. The predecessor of a
 * transfer is the computation that made the block, else the previous transfer on the link, else the event that delayed the
 * receiver.
 */
struct critical_path {
    int steps;
    double *compute_s;          /* per worker */
    bool *holds;                /* per event of the timeline: it is on the path */
    double transfer_s, other_s; /* other: e.g. transfers in the workers' own time */
};

/* compute_s and holds lie in the arena. */
enum ps_status critical_path_find(const struct timeline *timeline, struct arena *arena, struct critical_path *path,
                                  struct ps_error *error);

/* What the worker waited for last, when the computation whose result it needs had ended. */
enum wait_cause {
    WAIT_NOT,
    WAIT_TRANSFER, /* of that result */
    WAIT_SUM,      /* of the gradients over replicas */
    WAIT_ROOM,     /* its result before this one was still being sent */
    WAIT_CORE,     /* other workers computed on all cores */
    WAIT_OTHER     /* in a measured timeline, whose times are not equal to the digit, any of these */
};

/*
 * Why a worker stood idle before an event, from the end of the event before it on its lane: first, for input_s, another
 * worker's computation made what the event reads or had not begun yet (`maker`), and then the rest.
 */
struct timeline_wait {
    double since_s, input_s;
    int maker; /* an event; TIMELINE_NONE: it reads nothing of other workers, or the timeline does not show it */
    enum wait_cause rest;
};

/* One for each event of a predicted or measured timeline, in the arena. */
enum ps_status timeline_find_waits(const struct timeline *timeline, struct arena *arena, struct timeline_wait **waits,
                                   struct ps_error *error);

enum advice_kind { ADVICE_NONE, ADVICE_MOVE_LAYER, ADVICE_BANDWIDTH };

/* The change that would shorten the period most. */
struct advice {
    enum advice_kind kind;
    int limiting_worker;     /* the one that computes most */
    int layer, from, to;     /* layer from 0; workers */
    double period_s, saving; /* the resulting period, and the share saved */
};

/* The link that is busy longest, named by the two workers that use it most. */
struct busiest_link {
    int from, to;
    double busy_s; /* 0: nothing is transferred */
};

struct ps_simulation {
    struct arena arena; /* of its arrays but the timeline's */
    char title[256];    /* what was simulated, for captions */
    struct ps_simulation_info info;
    struct ps_simulation_worker *worker;
    struct busiest_link link;
    struct worker_memory *memory;  /* per worker: the parts of memory_bytes */
    struct stage_sizes *sizes;     /* per stage */
    struct timeline timeline;      /* computations and transfers; empty if more than SIMULATE_EVENTS_MAX */
    int64_t instructions;          /* executed */
    struct critical_path critical; /* compute_s NULL: not computed */
    struct advice advice;
    struct against *against; /* comparison with a measured run, in the arena; NULL: none */
};

/* What to simulate; everything is borrowed. */
struct simulation_work {
    const struct ps_programs *programs;
    const struct rolled_programs *rolled; /* the programs' code; NULL: it is in `programs` */
    const struct stage_cost *costs;       /* per stage, for one micro-batch at speed 1 */
    /* The same per instance, if the workers of a stage have different types; NULL: use the stage's. */
    const struct stage_cost *instance_costs;
    const double *batch_factors; /* per mini-batch: the factor of its forwards' and backwards' times; NULL: all 1 */
    const struct ps_cluster *cluster;
    int samples;       /* of a micro-batch */
    int moments;       /* optimizer state in blocks of the weights (plan_moments) */
    bool summary_only; /* no timeline */
};

/* PS_USAGE: the cluster has fewer workers than the programs. PS_OUT_OF_MEMORY. PS_FAILED: the programs deadlock (they were not
 * verified then). */
enum ps_status simulate_programs(const struct simulation_work *work, struct ps_simulation **simulation, struct ps_error *error);

/* ps_simulate without what explains the figures: the timeline, the critical path and the advice. */
enum ps_status simulate_figures(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                                int batches, struct ps_simulation **simulation, struct ps_error *error);

/* The cost table whose layer numbers the plan uses: the profile's or, if the plan has its own order of layers, that of the
 * reordered profile, *reordered (NULL otherwise; the caller frees it). PS_USAGE if the order is not possible. */
enum ps_status simulate_costs(const struct ps_plan *plan, const struct ps_profile *profile, const struct cost_table **table,
                              struct ps_profile **reordered, struct ps_error *error);

/* Mini-batches of several lengths (profile.by_length) for simulation_work.batch_factors: numbers of mini-batches by the shares,
 * in a random order as in an epoch, with mean 1. *factors (the caller frees it) is NULL if all have one length. */
enum ps_status simulate_batch_factors(const struct ps_profile *profile, int batches, double **factors, struct ps_error *error);

/* The cost of a stage of the plan on a worker's type of device. */
struct stage_cost simulate_stage_cost(const struct ps_plan *plan, const struct cost_table *table,
                                      const struct ps_cluster *cluster, int stage, int worker);

/*
 * Advice: simulates the same plan with one change (a layer next to a cut moved across it, in either direction; a link between
 * two adjacent stages twice as fast) and keeps the change that shortens the period most.
 */
/* Limit of the instructions that all trials execute. If trying everything would exceed it, only changes at the busiest worker
 * are tried; if these exceed it, none. */
enum { ADVICE_INSTRUCTIONS_MAX = 1 << 22 };

/* `simulation` is the result of `work`. *advice stays of kind ADVICE_NONE if no change shortens the period. */
enum ps_status advice_find(const struct ps_plan *plan, const struct cost_table *table, const struct simulation_work *work,
                           const struct ps_simulation *simulation, struct advice *advice, struct ps_error *error);

/* The number of mini-batches after which steady-state figures are known. */
int simulate_enough_batches(const struct schedule *schedule, int workers, int micro_batches);
/* The same for a plan, which may have more stages than workers. */
int simulate_plan_batches(const struct ps_plan *plan);
/* Micro-batches (without flush mini-batches) after which all replicas have been used equally often; transferred weights
 * alternate between two blocks. */
int simulate_plan_period(const struct ps_plan *plan);

#endif
