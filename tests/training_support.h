/*
 * Training from specs and paths, as the command line has them: the objects are opened for one run and closed after it.
 */
#ifndef PENSTOCK_TESTS_TRAINING_SUPPORT_H
#define PENSTOCK_TESTS_TRAINING_SUPPORT_H

#include <penstock.h>

struct training {
    struct ps_train_options o; /* its objects are set by training_open */
    const char *plan_path, *profile_path, *cluster_path, *model, *data, *valid;
    struct ps_plan_options plan;
    struct ps_cluster_options cluster;
};

struct training_objects {
    struct ps_train_options options;
    struct ps_plan *plan;
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_network *network;
    struct ps_dataset *data, *valid;
};

static inline void training_init(struct training *training) {
    *training = (struct training){0};
    ps_train_options_init(&training->o);
    ps_plan_options_init(&training->plan);
    ps_cluster_options_init(&training->cluster);
}

static inline void training_close(struct training_objects *objects) {
    ps_plan_destroy(objects->plan);
    ps_profile_destroy(objects->profile);
    ps_cluster_destroy(objects->cluster);
    ps_network_destroy(objects->network);
    ps_dataset_destroy(objects->data);
    ps_dataset_destroy(objects->valid);
}

/* `training` stays as long as the objects, which are to be closed whatever comes. */
static inline enum ps_status training_open(const struct training *training, struct training_objects *objects,
                                           struct ps_error *error) {
    enum ps_status status = PS_OK;
    *objects = (struct training_objects){.options = training->o};
    if (training->profile_path) status = ps_profile_read(training->profile_path, &objects->profile, error);
    if (status == PS_OK && training->plan_path) status = ps_plan_read(training->plan_path, &objects->plan, error);
    if (status == PS_OK && training->cluster_path) status = ps_cluster_read(training->cluster_path, &objects->cluster, error);
    if (status == PS_OK && training->model) status = ps_network_open(training->model, &objects->network, error);
    if (status == PS_OK && training->data) status = ps_dataset_open(training->data, NULL, &objects->data, error);
    if (status == PS_OK && training->valid) status = ps_dataset_open(training->valid, NULL, &objects->valid, error);
    struct ps_train_options *options = &objects->options;
    if (objects->plan) options->plan = objects->plan;
    if (objects->profile) options->profile = objects->profile;
    if (objects->cluster) options->cluster = objects->cluster;
    if (objects->network) options->network = objects->network;
    if (objects->data) options->data = objects->data;
    if (objects->valid) options->valid = objects->valid;
    options->planning = &training->plan;
    options->machines = &training->cluster;
    return status;
}

static inline enum ps_status training_run(const struct training *training, struct ps_run **run, struct ps_error *error) {
    struct training_objects objects;
    enum ps_status status = training_open(training, &objects, error);
    if (status == PS_OK) status = ps_train(&objects.options, run, error);
    training_close(&objects);
    return status;
}

/* The same of ps_compare_training and ps_evaluate. */
static inline enum ps_status training_compare(const struct ps_compare_options *options, const struct training *training,
                                              struct ps_comparison **comparison, struct ps_error *error) {
    struct training_objects objects;
    enum ps_status status = training_open(training, &objects, error);
    if (status == PS_OK) status = ps_compare_training(options, &objects.options, comparison, error);
    training_close(&objects);
    return status;
}

struct evaluating {
    const char *run, *weights, *model, *data, *device;
    int batch, beam;
    const char *translations;
};

static inline enum ps_status evaluating_run(const struct evaluating *evaluating, struct ps_evaluation *evaluation,
                                            struct ps_error *error) {
    struct ps_evaluate_options options;
    struct ps_network *network = NULL;
    struct ps_dataset *data = NULL;
    enum ps_status status = PS_OK;
    ps_evaluate_options_init(&options);
    if (evaluating->model) status = ps_network_open(evaluating->model, &network, error);
    if (status == PS_OK && evaluating->weights) status = ps_network_initialize(network, evaluating->weights, error);
    if (status == PS_OK) status = ps_dataset_open(evaluating->data, NULL, &data, error);
    options.run = evaluating->run;
    options.network = network;
    options.data = data;
    options.device = evaluating->device;
    options.batch = evaluating->batch;
    options.beam = evaluating->beam;
    options.translations = evaluating->translations;
    if (status == PS_OK) status = ps_evaluate(&options, evaluation, error);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
    return status;
}

#endif
