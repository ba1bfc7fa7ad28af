/* The options of training, which `compare --train` shares. */
#ifndef PENSTOCK_CLI_TRAINING_H
#define PENSTOCK_CLI_TRAINING_H

#include "cli/network.h"
#include "cli/planning.h"

struct train_arguments {
    struct common_arguments common;
    struct ps_train_options options; /* without objects */
    const char *plan_path, *profile_path, *model, *data, *valid;
    struct network_arguments network;
    struct cluster_arguments cluster;
    struct ps_plan_options plan;
    struct betas betas;
    int restarts, keep;
    const char *launch;
    bool no_cache;
};

/* Of a struct train_arguments. */
extern const struct argument_group training_data_group, training_length_group, training_rate_group, training_where_group;

void training_defaults(struct train_arguments *arguments);

/* The options with what the paths and specs name; the arguments stay as long as they. */
struct training {
    struct ps_train_options options;
    struct ps_plan *plan;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_network *network;
    struct ps_dataset *data, *valid;
    char cache[4096]; /* of options.profile_cache */
};
enum ps_status training_open(const struct train_arguments *arguments, struct training *training, struct ps_error *error);
void training_close(struct training *training);

#endif
