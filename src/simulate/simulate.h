/*
 * Simulation: the interpreter's environment with a clock. The programs that the runtime executes run here in simulated time,
 * under the cost model: what the profile says of the stages, what the cluster says of devices and links.
 *
 * Costs of instructions, divided by the speed of the worker's device:
 *   F  the stage's forward         B  its backward by input and by weights         R  as F
 *   I  its backward by input       W  by weights; both with what the halves take longer where they run separately
 *   B and W take accumulate_s longer where they add to the gradients of an earlier micro-batch
 *   U  update_s; update_predict_s with the prediction in the same pass; update_out_of_place_s into another slot
 *   P  predict_s
 * F, B, R, I and W of a mini-batch take batch_factors[] times as long, where there are any: mini-batches that have
 * several lengths. SEND and RECEIVE only start. A transfer begins when both ends have come and the link between the two workers
 * has done with those before it; it lasts latency + bytes / bandwidth, and both blocks are settled at its end. Each direction
 * of each pair is a link of its own, unless the cluster says half duplex (the two directions are one) or names a shared link
 * (all its pairs are one). Under this model 1f1b on equal stages takes BaPipe's (Zhao et al., Table II) time of 1F1B-SNO
 * exactly.
 *
 * With cluster.streaming (BaPipe's AS: a transfer starts with the first part of the output) a transfer begins with the
 * computation that makes the block, as far as the receiver's block and the link are free then, and ends no earlier than that
 * computation. The receiver waits for the whole block: it does not begin with the first part.
 *
 * Schedules may say that their devices stream, whatever the cluster says, and that they run forwards beside backwards (BaPipe's
 * FBP; simulate/lanes.c). Such a worker has two lanes that share it; what is said here of a worker that waits is then said of
 * the lanes, and the worker waits as long as both do.
 *
 * REDUCE only starts too. The sum over a stage's replicas begins when all have come and the links of the ring, from each to the
 * next, have done with those before it. Of r replicas it takes 2 (r - 1) steps of latency + bytes / r / bandwidth on the
 * slowest of the links (channels of the ring that share a link take turns in each step), and settles all their gradients at its
 * end. Where there are no links, workers share a memory: it takes r times sum_s of the last one's time, from when that has
 * come.
 *
 * Without overlap (cluster.overlap false) transfers take the workers' own time: the sender is held up at its SEND, whether or
 * not the other end has come, and the receiver as long when it first needs the block, from the later of its own time and the
 * sender's start. With cluster.cores set, only so many workers compute at a moment; the others queue in order of arrival.
 *
 * Idle time of a worker is split by why it waits (all in one segment; the parts add up to makespan - busy):
 *   communication  what it needs is on its way: the other end has come, the transfer is queued or runs
 *   imbalance      the worker that computes most is busy so much longer: it would wait so long in any order
 *   fill_drain     of the rest, while the pipeline fills (until its first backward) and drains (after its last forward);
 *                  in schedules with flush it does so in each mini-batch
 *   dependency     of the rest, in between: for an earlier or later stage, or for a free core
 */
#ifndef PENSTOCK_SIMULATE_SIMULATE_H
#define PENSTOCK_SIMULATE_SIMULATE_H

#include "plan/cluster.h"
#include "profile/profile.h"
#include "program/lower.h"
#include "program/timeline.h"
#include "simulate/against.h"
#include "simulate/fold.h"

/* Longer runs are summed up without a timeline; plans with more than that to run are folded (fold.h) where they repeat. */
enum { SIMULATE_EVENTS_MAX = 1 << 21 };

/*
 * The critical path of a simulated run: the chain of computations and transfers, each waiting for the one before, that ends
 * with the last instruction. Whatever is not on it could take longer without anybody noticing.
 *
 * Found backwards in the timeline: before a computation comes what ended the moment it began, first of all its worker's own
 * computation before it, then the transfer that brought its block, then one that freed its output block; before a transfer the
 * computation that made the block, then the transfer before it on the link, then what kept the receiver from taking it.
 */
struct critical_path {
    int steps;
    double *compute_s;          /* per worker */
    double transfer_s, other_s; /* other: transfers in the workers' own time */
};

enum ps_status critical_path_find(const struct timeline *timeline, struct critical_path *path, struct ps_error *error);
void critical_path_free(struct critical_path *path);

enum advice_kind { ADVICE_NONE, ADVICE_MOVE_LAYER, ADVICE_BANDWIDTH };

/* The change that would shorten the period most. */
struct advice {
    enum advice_kind kind;
    int limiting_worker;     /* the one that computes most */
    int layer, from, to;     /* layer from 0; workers */
    double period_s, saving; /* the period it would have; by which share that is less */
};

/* The link that is busy longest, named by the two workers that use it most. */
struct busiest_link {
    int from, to;
    double busy_s; /* 0: nothing is transferred */
};

struct ps_simulation {
    char title[256]; /* what was simulated, for captions */
    struct ps_simulation_info info;
    struct ps_simulation_worker *worker;
    struct busiest_link link;
    struct worker_memory *memory;  /* per worker: what memory_bytes is made of */
    struct stage_sizes *sizes;     /* per stage */
    struct timeline timeline;      /* computations and transfers; none where they are more than SIMULATE_EVENTS_MAX */
    int64_t instructions;          /* executed */
    struct critical_path critical; /* compute_s NULL: not looked for */
    struct advice advice;
    struct against *against; /* how far a measured run is from it; NULL: not compared */
};

/* What to simulate; everything is borrowed. */
struct simulation_work {
    const struct ps_programs *programs;
    const struct folded *folded;    /* where the programs' code is; NULL: in `programs` */
    const struct stage_cost *costs; /* per stage, for one micro-batch at speed 1 */
    /* Likewise per instance, where workers of one stage are of unlike types; NULL: its stage's. */
    const struct stage_cost *instance_costs;
    const double *batch_factors; /* per mini-batch: its forwards and backwards take so many times longer; NULL: all alike */
    const struct ps_cluster *cluster;
    int samples;       /* of a micro-batch */
    int moments;       /* optimizer state in blocks of the weights (plan_moments) */
    bool summary_only; /* no timeline */
};

/* PS_USAGE: the cluster has fewer workers than the programs. PS_FAILED: out of memory, or the programs (which have not passed
 * the verifier then) come to a standstill. */
enum ps_status simulate_programs(const struct simulation_work *work, struct ps_simulation **simulation, struct ps_error *error);

/* The costs that a plan's layers are numbered by: the profile's, or where the plan has an order of its own those of the
 * profile's graph in it, in `reordered` (NULL otherwise; the caller frees it). PS_USAGE where there is no such order. */
enum ps_status simulate_costs(const struct ps_plan *plan, const struct ps_profile *profile, const struct cost_table **table,
                              struct ps_profile **reordered, struct ps_error *error);

/* Mini-batches of several lengths (profile.by_length) for simulation_work.batch_factors: so many as the shares say, in an order
 * drawn like an epoch's, and one on average. *factors (the caller frees it) is NULL where all have one length. */
enum ps_status simulate_batch_factors(const struct ps_profile *profile, int batches, double **factors, struct ps_error *error);

/* What a stage of the plan costs on a worker's type of device. */
struct stage_cost simulate_stage_cost(const struct ps_plan *plan, const struct cost_table *table,
                                      const struct ps_cluster *cluster, int stage, int worker);

/*
 * What would help most: simulates the same plan with one thing changed (the layer next to a cut moved over it, either way; a
 * link between two neighbours twice as fast) and keeps the change that shortens the period most.
 */
/* Instructions that trials may execute in all. Where trying everything would take more, only what touches the busiest worker is
 * tried, and where that is still more, nothing. */
enum { ADVICE_INSTRUCTIONS_MAX = 1 << 22 };

/* `work` is what gave `simulation`. Leaves `advice` of kind ADVICE_NONE where nothing tried makes the period shorter. */
enum ps_status advice_find(const struct ps_plan *plan, const struct cost_table *table, const struct simulation_work *work,
                           const struct ps_simulation *simulation, struct advice *advice, struct ps_error *error);

/* Mini-batches after which the figures of a steady state are known. */
int simulate_enough_batches(const struct schedule *schedule, int workers, int micro_batches);
/* The same for a plan, which may have more stages than workers. */
int simulate_plan_batches(const struct ps_plan *plan);

#endif
