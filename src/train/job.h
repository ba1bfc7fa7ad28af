/*
 * What is to be trained, before any worker exists: a plan with its profile as they were given, or made here for a model; the
 * network; the machine.
 */
#ifndef PENSTOCK_TRAIN_JOB_H
#define PENSTOCK_TRAIN_JOB_H

#include "comm/transport.h"
#include "compute/device.h"
#include "data/order.h"
#include "graph/network.h"
#include "plan/plan.h"

struct job {
    const struct ps_train_options *options;
    const struct device_class *device;
    const struct transport_class *transport;
    int threads;                 /* per worker */
    struct processes *processes; /* of the run; where there are several, each is a worker. NULL: they have not met; borrowed */
    struct ps_plan *plan;
    struct ps_profile *profile;              /* NULL: none is at hand (a plan was given without) */
    const struct cost_table *costs;          /* of the profile, at the plan's micro-batch size */
    struct ps_cluster *cluster;              /* what the plan is for: limits of memory */
    char *network_text;                      /* the network's file, before label smoothing; NULL as `network` */
    struct values *values;                   /* of its parameters; NULL: none; owned together with the networks */
    struct ps_network *network;              /* NULL on a device that computes no numbers */
    struct lengths lengths;                  /* of its sequences, where there are shorter ones; count 0: there are not */
    struct ps_network *shorter[LENGTHS_MAX]; /* the network for each, without the last, which is `network` */
    struct graph *clock_graph;               /* made from the costs for such a device */
    const struct graph *graph;               /* the one of the two that is trained */
    int samples;                  /* of a micro-batch, as `graph` counts them (a clock graph's sample is a micro-batch) */
    int batch;                    /* samples of a mini-batch */
    uint64_t checksums[2];        /* of data and validation data, for the run's configuration; 0: of none */
    const struct dataset *named;  /* likewise: the data, which may name their classes; borrowed; NULL: not known */
    struct stage_sizes *sizes;    /* per stage, by the profile, every block aligned; NULL without a profile */
    double (*wire_s)[WIRE_CODED]; /* per stage, likewise: stage_cost.wire_s */
};

/* Checks the options, looks at no file. `options` stay borrowed. After a failure `job` is to be freed all the same. */
enum ps_status job_begin(const struct ps_train_options *options, struct job *job, struct ps_error *error);
/* Checks what can be checked before anything takes long: files, the network. */
enum ps_status job_open(struct job *job, struct ps_error *error);
/* Profiles and plans where no plan was given, and brings plan, costs and network together. */
enum ps_status job_plan(struct job *job, struct ps_error *error);
/* Instead of the last two, in a process to which another has sent plan, profile and cluster. */
enum ps_status job_complete(struct job *job, struct ps_error *error);
/* Do several processes run it, each as a worker? */
static inline bool job_is_several(const struct job *job) { return job->processes && job->processes->count > 1; }
/* The network for the length of that number. */
static inline struct ps_network *job_network(const struct job *job, int length) {
    return length < job->lengths.count - 1 ? job->shorter[length] : job->network;
}
/* A zeroed job is fine. */
void job_free(struct job *job);

#endif
