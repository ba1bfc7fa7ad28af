/* The machines: devices, links between workers, whether transfers run beside computation. */
#ifndef PENSTOCK_PLAN_CLUSTER_H
#define PENSTOCK_PLAN_CLUSTER_H

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
    bool half_duplex;     /* the two directions of a pair take turns */
    char shared_link[64]; /* all pairs whose links name the same one share it, one transfer at a time; "": their own */
};

struct ps_cluster {
    struct arena arena; /* of all that it points to */
    struct cluster_device *devices;
    int workers;
    struct cluster_link *links; /* the last that matches counts; none: transfers cost nothing */
    int link_count;
    bool overlap;   /* transfers run beside computation */
    bool streaming; /* they begin with the computation that makes the block (needs overlap) */
    int cores;      /* workers that can compute at the same moment; 0: all */
};

/* Devices without names, of no speed, and room for links that match no pair; transfers overlap. */
enum ps_status cluster_create(int workers, int links, struct ps_cluster **cluster, struct ps_error *error);

/* The link from one worker to another: the last that matches, or NULL where there is none or both are the same. */
const struct cluster_link *cluster_link_between(const struct ps_cluster *cluster, int from, int to);

/* Do transfers between two pairs of workers take turns? Those from the same worker to the same do; opposite ones where either
 * is half duplex; and all whose links name the same shared link. */
bool cluster_share_link(const struct ps_cluster *cluster, int from, int to, int other_from, int other_to);

/* Seconds that the workers first .. first + count - 1 take to add up `bytes` that each has, around a ring: 2 (count - 1) steps,
 * in each of which everyone sends its neighbour a count-th; pairs that share a link take turns. */
double cluster_ring_s(const struct ps_cluster *cluster, int first, int count, int64_t bytes);

/* Seconds that `bytes` take from one worker to another; 0 within a worker. */
double cluster_transfer_s(const struct ps_cluster *cluster, int from, int to, int64_t bytes);
enum ps_status cluster_copy(const struct ps_cluster *cluster, struct ps_cluster **copy, struct ps_error *error);
/* A cluster from the text of its file, as another process sends it. */
enum ps_status cluster_parse(const char *text, size_t size, struct ps_cluster **cluster, struct ps_error *error);

/* Several types of devices have costs: PS_USAGE where one of the cluster's is none of them. */
enum ps_status cluster_check_types(const struct ps_cluster *cluster, const struct cost_table *costs, struct ps_error *error);
/* Are all its devices of one type, as far as the costs tell types apart? */
bool cluster_one_type(const struct ps_cluster *cluster, const struct cost_table *costs);

#endif
