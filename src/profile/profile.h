/* Costs: time and memory of each layer, at one or several micro-batch sizes. One table is the input of planners, simulator and
 * the `clock` device. */
#ifndef PENSTOCK_PROFILE_PROFILE_H
#define PENSTOCK_PROFILE_PROFILE_H

#include "base/arena.h"
#include "base/spec.h"
#include "compute/sizes.h"
#include "graph/graph.h"
#include "graph/layer_times.h"

struct costgraph;

struct layer_cost {
    char name[64], kind[32];
    struct layer_times time, spread; /* median; half the distance between the quartiles (0: not measured) */
    struct layer_times spill;        /* additional times if the stage's weights do not fit the fast memory */
    /* Of a device that computes all layers of a stage at the same time: the share of a micro-batch that this one must have read
     * before it makes something. When the device turns from forwards to backwards, or back, the stage's time is longer by the
     * sum over its layers (struct stage_cost.fill). */
    double fill;
    struct layer_sizes size;
    int64_t inner_cut_bytes; /* of a group of layers (profile_group): the largest cut inside it; else 0 */
#define TIME(name) double name;
    LAYER_SHARED_TIMES(TIME)
#undef TIME
};

struct cost_table {
    const char *device; /* type of the device that was measured: its profile's; borrowed from it */
    /* The same layers and micro-batch on another type; a list, borrowed; NULL: its end. */
    const struct cost_table *other_device;
    int micro_batch;     /* samples; 0: not specified by the source (then 1 micro-batch of unknown size) */
    int64_t input_bytes; /* data of one micro-batch */
    /* Of a device with a separate memory for weights and gradients: those of a stage all fit it, or the times of the layers
     * grow by their `spill`; 0: there is no such memory. */
    int64_t fast_memory_bytes;
    double wire_s[WIRE_CODECS][2]; /* seconds to encode a number, and to decode it; 0: not known */
    int layer_count;
    struct layer_cost *layers;
    /* If its layers are groups of another table's (profile_group): the last layer of each, and that table's layers, borrowed;
     * else NULL. */
    const int *group_last;
    const struct layer_cost *group_layers;
    const struct ties
        *ties; /* its profile's; NULL: the first and the last layer share their tied_bytes (0: nothing is shared) */
};

/* The number of the layer with which a layer, or a group of them, begins and ends. */
static inline int cost_table_first(const struct cost_table *table, int layer) {
    return !table->group_last ? layer : layer > 0 ? table->group_last[layer - 1] + 1 : 0;
}
static inline int cost_table_last(const struct cost_table *table, int layer) {
    return table->group_last ? table->group_last[layer] : layer;
}
/* The names of these layers. */
static inline const char *cost_table_first_name(const struct cost_table *table, int layer) {
    return table->group_last ? table->group_layers[cost_table_first(table, layer)].name : table->layers[layer].name;
}
static inline const char *cost_table_last_name(const struct cost_table *table, int layer) {
    return table->group_last ? table->group_layers[table->group_last[layer]].name : table->layers[layer].name;
}

/* A length of micro-batches: the share of micro-batches with this length, and the time of their forwards and backwards relative
 * to the mean. */
struct profile_length {
    double share, factor;
};
enum { PROFILE_LENGTHS_MAX = 16 };

struct ps_profile {
    struct arena arena; /* holds the profile itself */
    char model[SPEC_SIZE], device[64];
    char network[17];  /* hash of the measured network; "": not known */
    char lengths[128]; /* the lengths besides the full length whose mean the times are (profile_mix), as "8,12"; "": none */
    struct profile_length by_length[PROFILE_LENGTHS_MAX]; /* these lengths, and the full one */
    int length_count;                                     /* 0: the times are no means, or the lengths are not known */
    int threads;
    int busy;                  /* workers that computed at the same time during the measurement; 0: not known */
    struct cost_table *tables; /* by ascending micro_batch, all with the same layers */
    int table_count;
    struct ps_profile *other_device; /* the same network's on another type of device; a list; NULL: its end */
    struct costgraph *graph;         /* the graph from which the chain of the (one) table was made; NULL: none */
    const char *kept_at;             /* its file among profiles that are kept (profile/cache.h); NULL: none */
    struct ties ties;                /* where others than the first and the last layer share parameters */
};

/* Limits of files, so that no sum of sizes overflows and no loop over layers takes hours. */
enum { PROFILE_LAYERS_MAX = 16384, PROFILE_MICRO_BATCH_MAX = 1 << 24 };
#define PROFILE_TIME_MAX 1e6
#define PROFILE_BYTES_MAX ((int64_t)1 << 44)
#define PROFILE_TOTAL_BYTES_MAX ((int64_t)1 << 50)

/* An empty profile with room for tables of `layer_count` layers each. */
enum ps_status profile_create(int table_count, int layer_count, struct ps_profile **profile, struct ps_error *error);
/* The checks for every source: tables in ascending order, the same layers in all, some time spent, sums within the limits. */
enum ps_status profile_check(const struct ps_profile *profile, struct ps_error *error);
/* The end of reading. If `status` is PS_OK so far, the profile `made` is checked; an error of the profile as a whole is
 * reported for `line`, the last one read (0: none). On success the caller owns the profile, else it is freed. */
enum ps_status profile_finish(struct ps_profile *made, enum ps_status status, int line, struct ps_profile **profile,
                              struct ps_error *error);

/* Default delta_bytes of a layer: the value that it makes, if it has weights. */
int64_t profile_usual_delta_bytes(const struct layer_sizes *size);
/* Penstock's own files, one of the forms that ps_profile_read accepts. */
enum ps_status profile_read_json(const char *path, struct ps_profile **profile, struct ps_error *error);
/* A profile from the text of its file, as another process sends it. */
enum ps_status profile_parse(const char *text, size_t size, struct ps_profile **profile, struct ps_error *error);

/* The table for a micro-batch size; 0: the largest. PS_USAGE: the size was not measured; lists those that were. */
enum ps_status profile_table(const struct ps_profile *profile, int micro_batch, const struct cost_table **table,
                             struct ps_error *error);

/* The costs on a type of device; if no profile is of that type, those of the first. */
const struct cost_table *cost_table_on(const struct cost_table *table, const char *type);
/* Adds the profile of another type of device (taken, also on failure). It must have the same layers at the same micro-batch
 * sizes, else PS_BAD_INPUT. */
enum ps_status profile_add_device(struct ps_profile *profile, struct ps_profile *other, struct ps_error *error);

/* Turns the times into means. Each of `others` has its share as weight, and the profile's own times have the rest of 1. Memory
 * does not change. `others` must have the same layers, micro-batch sizes and device types, else PS_BAD_INPUT. `lengths`: the
 * lengths of the others, fewer than PROFILE_LENGTHS_MAX. */
enum ps_status profile_mix(struct ps_profile *profile, struct ps_profile *const *others, const double *shares, int count,
                           const char *lengths, struct ps_error *error);

/* The same costs with neighbouring layers joined into `count` groups; last[]: the last layer of each. For planning: a stage of
 * groups costs what the stage of their layers costs, but has fewer ends. It has no graph. */
enum ps_status profile_group(const struct ps_profile *profile, const int *last, int count, struct ps_profile **grouped,
                             struct ps_error *error);

/* How many workers with the profile's threads have cores on this machine, at least 1; 0: the profile was not measured on a
 * device that this machine could have, or not on one alone. */
int profile_workers_here(const struct ps_profile *profile);
/* After profile_create: the shared parameters of the network, each byte of theirs counted as `byte` bytes. */
enum ps_status profile_take_ties(struct ps_profile *profile, const struct graph *graph, double byte, struct ps_error *error);
/* The tables refer to the profile's ties, if there are any. */
void profile_link_ties(struct ps_profile *profile);
/* Returns true if layers share parameters (graph_tie); if these are the first and the last layer, and no others. */
bool cost_table_tied(const struct cost_table *table);
bool cost_table_ends_tied(const struct cost_table *table);

/* Costs of a stage of layers first..last for one micro-batch. */
struct stage_cost {
    struct layer_times time;
    struct stage_sizes size;
    /* The growth of `time` if the worker's stages together exceed the fast memory but this stage alone does not; else 0. */
    struct layer_times spill;
    int64_t fast_memory_bytes;                           /* 0: there is none */
    double core_transfer_s, take_before_s, take_after_s; /* of the cuts at its ends; not in `time`: see stage_core_transfer */
    double sum_s;                                        /* of its layers */
    double fill;                                         /* likewise; not in `time` */
    double wire_s[WIRE_CODED]; /* to encode what is sent, to decode what is received, and to round gradients that are summed */
};
struct stage_cost stage_cost(const struct cost_table *table, int first, int last);
/* Adds what is encoded, and how long that takes. */
void stage_cost_encode(const struct cost_table *table, const struct stage_wire *wire, struct stage_cost *cost);
/* The fast memory holds weights and gradients of all stages of a worker. Returns true if these parameters exceed it, so that
 * times of layers grow by their `spill`. 0: there is no such memory. */
bool cost_spills(int64_t parameter_bytes, int64_t fast_memory_bytes);
/* Times of the stage on a worker whose stages have this many bytes of parameters in all. */
struct layer_times stage_cost_times(const struct stage_cost *cost, int64_t worker_parameter_bytes);
struct layer_times layer_cost_times(const struct layer_cost *layer, bool spilled);

/* Additional times of a stage's forward and backward as one of several stages. Planners do not count them: they may fall when a
 * stage grows. */
struct cut_times {
    double forward_s, backward_s;
};
/* `before`, `after`: there is such a stage, on another worker. */
struct cut_times stage_core_transfer(const struct stage_cost *cost, bool before, bool after);

/* The same costs for a stage that grows at its front, one layer in O(1): planners examine all stages that end with `last`. */
struct stage_walk {
    const struct cost_table *table;
    int first, last;
    struct layer_times time, spill;
    double sum_s, fill;
    int64_t parameter_bytes, narrow_bytes, statistics_bytes, fixed_bytes;
    int64_t stash_bytes, delta_bytes, scratch_bytes, inner_cut_bytes;
};
struct stage_walk stage_walk_start(const struct cost_table *table, int last); /* the stage last..last */
void stage_walk_grow(struct stage_walk *walk);                                /* adds the layer before `first` */
struct stage_cost stage_walk_cost(const struct stage_walk *walk);
struct layer_times stage_walk_times(const struct stage_walk *walk); /* its times, which never fall as the stage grows */

/* How the costs of a layer change with its stage. */
struct layer_place {
    bool spilled;
    struct cut_times more; /* of the stage's last layer; else 0 */
};
/* A graph of opaque nodes, one per layer of the table, for the clock device. A sample of it is a whole micro-batch. `places`:
 * per layer; NULL: all zero. */
enum ps_status profile_graph(const struct cost_table *table, const struct layer_place *places, struct graph **graph,
                             struct ps_error *error);

#endif
