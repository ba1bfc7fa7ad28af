/* The cluster: devices, links between workers, and whether transfers overlap with computation. */
#ifndef PENSTOCK_PLAN_CLUSTER_H
#define PENSTOCK_PLAN_CLUSTER_H

#include <jansson.h>

#include "base/arena.h"
#include "profile/profile.h"

struct cluster_device {
    char name[64], type[64];
    double speed;         /* relative to the profile of its type; times are divided by it */
    int64_t memory_bytes; /* 0: no limit */
};

struct cluster_link {
    int from, to; /* workers; -1: any */
    double bandwidth_bytes_per_s;
    double latency_s;
    bool half_duplex;     /* the two directions of a pair transfer one at a time */
    char shared_link[64]; /* all pairs whose links have the same name share one link, with one transfer at a time; "": not
                           * shared */
};

struct ps_cluster {
    struct arena arena; /* of everything it points to */
    struct cluster_device *devices;
    int workers;
    struct cluster_link *links; /* if several match the last counts; without any, transfers cost nothing */
    int link_count;
    bool overlap;   /* transfers overlap with computation */
    bool streaming; /* transfers begin with the computation that makes the block (needs overlap) */
    int cores;      /* workers that can compute at the same time; 0: all */
    bool here;      /* they are this machine's, and nobody says how much memory they have */
};

/* The options with this machine's cores, where they say neither links nor cores, the profile was measured on a device of a
 * machine (else NULL), and there are more workers than cores for them. */
struct ps_cluster_options cluster_options_here(const struct ps_cluster_options *options, const struct ps_profile *profile);

/* Creates devices without names or speeds, and links that match no pair; transfers overlap. */
enum ps_status cluster_create(int workers, int links, struct ps_cluster **cluster, struct ps_error *error);

/* The link from one worker to another: the last that matches; NULL if there is none or both are the same worker. */
const struct cluster_link *cluster_link_between(const struct ps_cluster *cluster, int from, int to);

/* Returns true if transfers of two pairs of workers exclude each other: those from the same worker to the same worker; opposite
 * ones if either link is half duplex; and all whose links name the same shared link. */
bool cluster_share_link(const struct ps_cluster *cluster, int from, int to, int other_from, int other_to);
/* Returns true if those of two different pairs may. */
bool cluster_shares_links(const struct ps_cluster *cluster);

/* From one worker to another; several may be the same. A transfer starts when both of its links are free, and occupies both. */
struct cluster_pair {
    int from, to;
    int link[2]; /* between the two workers; the one that its link names, or one of its own */
};
/* Sets the links of a pair behind others, whose are set: below 2 * (index + 1). */
void cluster_pair_links(const struct ps_cluster *cluster, struct cluster_pair *pairs, int index);

/* No links, or one for all pairs. */
bool cluster_links_alike(const struct ps_cluster *cluster);
/* Seconds that the workers first .. first + count - 1 take for a ring all-reduce of `bytes`: 2 (count - 1) steps, in each of
 * which every worker sends 1/count of the bytes to the next. Pairs on a shared link transfer one after the other. */
double cluster_ring_s(const struct ps_cluster *cluster, int first, int count, int64_t bytes);

/* Seconds that `bytes` take from one worker to another; 0 within a worker. */
double cluster_transfer_s(const struct ps_cluster *cluster, int from, int to, int64_t bytes);
enum ps_status cluster_copy(const struct ps_cluster *cluster, struct ps_cluster **copy, struct ps_error *error);
/* The document of its file; NULL or incomplete where memory ran out (base/json.h). */
json_t *cluster_document(const struct ps_cluster *cluster);
/* A cluster from the text of its file, as another process sends it. */
enum ps_status cluster_parse(const char *text, size_t size, struct ps_cluster **cluster, struct ps_error *error);

/* With costs of several types of devices: PS_USAGE if the costs lack the type of one of the cluster's devices. */
enum ps_status cluster_check_types(const struct ps_cluster *cluster, const struct cost_table *costs, struct ps_error *error);
/* Returns true if all devices are of one type, as far as the costs distinguish types. */
bool cluster_one_type(const struct ps_cluster *cluster, const struct cost_table *costs);

#endif
