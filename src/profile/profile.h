/*
 * Costs: what each layer takes in time and memory, at one or several micro-batch sizes. One table feeds planners, simulator
 * and the `clock` device.
 */
#ifndef PENSTOCK_PROFILE_PROFILE_H
#define PENSTOCK_PROFILE_PROFILE_H

#include "compute/sizes.h"
#include "graph/graph.h"
#include "graph/layer_times.h"

struct costgraph;

struct layer_cost {
    char name[64], kind[32];
    struct layer_times time, spread; /* median; half the distance between the quartiles (0 where not measured) */
    struct layer_times spill;        /* what each takes longer where the stage's weights do not stay in the fast memory */
    struct layer_sizes size;
#define TIME(name) double name;
    LAYER_SHARED_TIMES(TIME)
#undef TIME
};

struct cost_table {
    const char *device; /* type of device that these are the costs on: its profile's; borrowed from it */
    /* The same layers and micro-batch on another type; a list, borrowed; NULL: its end. */
    const struct cost_table *other_device;
    int micro_batch;     /* samples; 0 where the source does not say (taken as 1 micro-batch of unknown size) */
    int64_t input_bytes; /* data of one micro-batch */
    /* Of a device that keeps weights and gradients in a memory of their own: both of a stage fit there, or both do not and the
     * layers take longer by their `spill`; 0: there is no such memory. */
    int64_t fast_memory_bytes;
    int layer_count;
    struct layer_cost *layers;
};

/* A length that micro-batches have: the share of them that have it, and what their forwards and backwards take of the mean. */
struct profile_length {
    double share, factor;
};
enum { PROFILE_LENGTHS_MAX = 16 };

struct ps_profile {
    char model[128], device[64];
    char network[17];  /* the hash of what was measured; "": not known */
    char lengths[128]; /* whose means the times are beside the whole one (profile_mix), as "8,12"; "": none */
    struct profile_length by_length[PROFILE_LENGTHS_MAX]; /* those, and the whole one */
    int length_count;                                     /* 0: the times are no means, or it is not known of what */
    int threads;
    int busy;                  /* workers that computed side by side where it was measured; 0: not known */
    struct cost_table *tables; /* by ascending micro_batch, all with the same layers */
    int table_count;
    struct ps_profile *other_device; /* the same network's on another type of device; a list; NULL: its end */
    struct costgraph *graph;         /* where the source is a graph: what the (one) table's chain was made from; else NULL */
};

/* Limits on what a file may claim, so that no sum of sizes overflows and no loop over layers takes hours. */
enum { PROFILE_LAYERS_MAX = 16384, PROFILE_MICRO_BATCH_MAX = 1 << 24 };
#define PROFILE_TIME_MAX 1e6
#define PROFILE_BYTES_MAX ((int64_t)1 << 44)
#define PROFILE_TOTAL_BYTES_MAX ((int64_t)1 << 50)

/* An empty profile with room for tables of `layer_count` layers each. */
enum ps_status profile_create(int table_count, int layer_count, struct ps_profile **profile, struct ps_error *error);
/* What every source must keep: tables in ascending order, the same layers in all, some time spent, sums within the limits. */
enum ps_status profile_check(const struct ps_profile *profile, struct ps_error *error);
/* How reading ends: with `status` PS_OK so far, the profile that was `made` is checked, and what is wrong with it as a whole
 * told of `line` (0: of none), the last one read. Then it is the caller's, or freed. */
enum ps_status profile_finish(struct ps_profile *made, enum ps_status status, int line, struct ps_profile **profile,
                              struct ps_error *error);

/* delta_bytes of a layer where the source does not say: the value that it makes, if it has weights. */
int64_t profile_usual_delta_bytes(const struct layer_sizes *size);
/* Penstock's own files, of the several forms that ps_profile_read knows. */
enum ps_status profile_read_json(const char *path, struct ps_profile **profile, struct ps_error *error);
/* A profile from the text of its file, as another process sends it. */
enum ps_status profile_parse(const char *text, size_t size, struct ps_profile **profile, struct ps_error *error);

/* The table for a micro-batch size; 0: the largest. A size that was not measured is PS_USAGE and lists those that were. */
enum ps_status profile_table(const struct ps_profile *profile, int micro_batch, const struct cost_table **table,
                             struct ps_error *error);

/* The costs on a type of device: where no profile is of that type, those of the first. */
const struct cost_table *cost_table_on(const struct cost_table *table, const char *type);
/* Takes in the profile of a further type of device (owned from here on, also where it fails): of the same layers at the same
 * micro-batch sizes, which PS_BAD_INPUT names otherwise. */
enum ps_status profile_add_device(struct ps_profile *profile, struct ps_profile *other, struct ps_error *error);

/* Makes times means: of `others` (as many, of the same layers at the same micro-batch sizes on the same types of devices; else
 * PS_BAD_INPUT) each counts by its share, and what stands here by what is left of 1. Memory stays what it is. `lengths` says
 * what the others are of, of which there are fewer than PROFILE_LENGTHS_MAX. */
enum ps_status profile_mix(struct ps_profile *profile, struct ps_profile *const *others, const double *shares, int count,
                           const char *lengths, struct ps_error *error);

/* Do the first and the last layer share a parameter (graph_tie)? */
bool cost_table_tied(const struct cost_table *table);

/* What a stage of layers first..last costs for one micro-batch. */
struct stage_cost {
    struct layer_times time;
    struct stage_sizes size;
    /* What `time` grows by where it is the worker's other stages that exceed the fast memory; else 0. */
    struct layer_times spill;
    int64_t fast_memory_bytes;                           /* 0: there is none */
    double core_transfer_s, take_before_s, take_after_s; /* of the cuts at its ends; not in `time`: see stage_core_transfer */
    double sum_s;                                        /* of its layers */
};
struct stage_cost stage_cost(const struct cost_table *table, int first, int last);
/* The fast memory holds weights and gradients of all that a worker has. Whether these parameters are too large for it, so that
 * layers take longer by their `spill`. 0: there is no such memory. */
bool cost_spills(int64_t parameter_bytes, int64_t fast_memory_bytes);
/* What the stage takes on a worker with so many bytes of parameters in all its stages. */
struct layer_times stage_cost_times(const struct stage_cost *cost, int64_t worker_parameter_bytes);
struct layer_times layer_cost_times(const struct layer_cost *layer, bool spilled);

/* What a stage's forward and backward take longer as one of several. Planners do not count it: it may fall where a stage
 * grows. */
struct cut_times {
    double forward_s, backward_s;
};
/* `before`, `after`: there is such a stage, and it is another worker's. */
struct cut_times stage_core_transfer(const struct stage_cost *cost, bool before, bool after);

/* The same for a stage that grows at its front, one layer in O(1): planners look at all stages that end with `last`. */
struct stage_walk {
    const struct cost_table *table;
    int first, last;
    struct layer_times time, spill;
    double sum_s;
    int64_t parameter_bytes, tied_bytes, statistics_bytes, stash_bytes, delta_bytes, scratch_bytes, inner_cut_bytes;
};
struct stage_walk stage_walk_start(const struct cost_table *table, int last); /* the stage last..last */
void stage_walk_grow(struct stage_walk *walk);                                /* takes in the layer before `first` */
struct stage_cost stage_walk_cost(const struct stage_walk *walk);
struct layer_times stage_walk_times(const struct stage_walk *walk); /* of that the times, which never fall as the stage grows */

/* What a layer's stage makes of its times. */
struct layer_place {
    bool spilled;
    struct cut_times more; /* of the stage's last layer; else 0 */
};
/* A graph of opaque nodes, one per layer of the table, for the clock device. Its sample is a whole micro-batch. `places`: per
 * layer; NULL: all zero. */
enum ps_status profile_graph(const struct cost_table *table, const struct layer_place *places, struct graph **graph,
                             struct ps_error *error);

#endif
