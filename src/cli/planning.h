/* Options that several commands share: the cluster, and how to plan. */
#ifndef PENSTOCK_CLI_PLANNING_H
#define PENSTOCK_CLI_PLANNING_H

#include "cli/command.h"

struct cluster_arguments {
    struct ps_cluster_options options;
    const char *path; /* --cluster */
};

extern const struct argument_group workers_group; /* --workers alone: for commands whose plan does not say it */
extern const struct argument_group cluster_group;
extern const struct argument_group memory_group; /* of cluster_group its workers' memory and the file */
extern const struct argument_group split_group;  /* of cluster_group the file, bandwidth and latency */
extern const struct argument_group links_group;  /* of cluster_group what is not its workers' memory, bandwidth or file */
extern const struct argument_group plan_group;   /* of a struct ps_plan_options */
extern const struct argument_group work_group;   /* of plan_group what is not method, schedule, weights or slack */
extern const struct argument_group method_group; /* likewise: what only planning without training knows */

/* The cluster that was described: from its file, or uniform of `workers` workers; where the profile is given (else NULL) and
 * nothing describes a cluster, on this machine (ps_cluster_here). */
enum ps_status cluster_arguments_open(const struct cluster_arguments *arguments, int workers, const struct ps_profile *profile,
                                      struct ps_cluster **cluster, struct ps_error *error);

/* Of the option that names the profile. */
#define COSTS_HELP                                                                                                             \
    "costs: of `penstock profile`, a CSV file, a chain, or PipeDream's graph.txt; FILE,FILE... for several types of devices"

#endif
