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
extern const struct argument_group training_length_group, training_rate_group, training_where_group;
#define DATA_HELP                                                                                                              \
    "training data: idx:DIR, cifar10:DIR, cifar100:DIR, images:DIR, reviews:FILE, text:FILE, pairs:PREFIX:SRC:TGT or "         \
    "synthetic:KIND; a suffix @A-B takes samples A to B-1"
#define VALID_HELP "data to evaluate on, all of them after each epoch or --evaluate-every steps; @A-B takes fewer"

void training_defaults(struct train_arguments *arguments);

/* The options with what the paths and specs name; the arguments stay as long as they. What was opened is to be closed also
 * where something could not be. */
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
