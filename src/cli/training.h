/* The options of training, which `compare --train` shares. */
#ifndef PENSTOCK_CLI_TRAINING_H
#define PENSTOCK_CLI_TRAINING_H

#include "cli/planning.h"

struct train_arguments {
    struct common_arguments common;
    struct ps_train_options options;
    struct cluster_arguments cluster;
    struct ps_plan_options plan;
    struct betas betas;
    int restarts;
    const char *launch;
};

/* Of a struct train_arguments. */
extern const struct argument_group training_data_group, training_length_group, training_rate_group, training_where_group;

void training_defaults(struct train_arguments *arguments);
struct ps_train_options training_options(const struct train_arguments *arguments);

#endif
