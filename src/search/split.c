/*
 * Profiles of networks whose layers are split for a given number of workers (BaPipe's intra-layer partition). The whole network
 * is measured, plan/bapipe.h puts the boundaries into its layers, and the rewritten network is measured instead. Its name
 * contains the splits, so that plans and runs can rebuild it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/versioned.h"
#include "graph/network.h"
#include "plan/bapipe.h"
#include "profile/modelled.h"

extern const struct partitioner partitioner_pipedream, partitioner_bapipe;

/* The least time of the cluster's slowest worker or link, with unlike devices that of BaPipe's balanced cut; 0: there is no
 * such cut. */
static double slowest_s(const struct cost_table *costs, const struct ps_cluster *cluster) {
    const struct partitioner *partitioner = cluster_one_type(cluster, costs) ? &partitioner_pipedream : &partitioner_bapipe;
    double objective_s = 0;
    struct partition_problem problem = {.costs = costs, .cluster = cluster, .stages = cluster->workers};
    struct partition partition = {.last = calloc((size_t)cluster->workers, sizeof *partition.last)};
    if (partition.last && partitioner->solve(&problem, &partition, NULL) == PS_OK) objective_s = partition.objective_s;
    free(partition.last);
    return objective_s;
}

/* The parts of a small layer can take longer than the whole layer. */
static void compare_slowest(const struct cost_table *whole, const struct ps_profile *split, const struct ps_cluster *cluster) {
    const struct cost_table *instances;
    char before[32], after[32];
    if (profile_table(split, whole->micro_batch, &instances, NULL) != PS_OK) return;
    double whole_s = slowest_s(whole, cluster), split_s = slowest_s(instances, cluster);
    if (whole_s <= 0 || split_s <= 0) return;
    text_seconds(whole_s, before);
    text_seconds(split_s, after);
    log_info("the slowest of %d workers takes %s for a micro-batch of %d without splits, %s with splits%s", cluster->workers,
             before, whole->micro_batch, after,
             strcmp(before, after) == 0 ? ": splitting gains nothing"
             : split_s < whole_s        ? ""
                                        : ": not splitting is faster");
}

/* Adds the costs of the cluster's other types of devices, as far as models of them exist. */
static enum ps_status add_other_types(const struct ps_network *network, const struct ps_profile_options *options,
                                      const struct ps_cluster *cluster, struct ps_profile *profile, struct ps_error *error) {
    for (int w = 0; w < cluster->workers; w++) {
        const char *type = cluster->devices[w].type;
        const struct cost_table *known = cost_table_on(&profile->tables[0], type);
        if (!modelled_find(type) || strcmp(known->device, type) == 0) continue;
        struct ps_profile_options other = *options;
        struct ps_profile *made;
        other.device = type;
        TRY(ps_profile_measure(network, &other, &made, error));
        TRY(profile_add_device(profile, made, error));
    }
    return PS_OK;
}

/* For the cluster's first type of device, and its others as far as models of them exist. */
static enum ps_status measure_types(const struct ps_network *network, const struct ps_profile_options *options,
                                    const struct ps_cluster *cluster, struct ps_profile **profile, struct ps_error *error) {
    TRY(ps_profile_measure(network, options, profile, error));
    const enum ps_status status = add_other_types(network, options, cluster, *profile, error);
    if (status != PS_OK) ps_profile_destroy(*profile);
    return status;
}

static enum ps_status measure_split(const struct ps_network *whole, const char *splits,
                                    const struct ps_profile_options *options, const struct ps_cluster *cluster,
                                    struct ps_profile **profile, struct ps_error *error) {
    struct ps_network *split;
    TRY(network_create_split(whole, splits, &split, error));
    log_info("splitting layers: %s", split->name);
    enum ps_status status = measure_types(split, options, cluster, profile, error);
    for (const struct ps_profile *of = status == PS_OK ? (*profile)->other_device : NULL; of; of = of->other_device)
        log_info("plans for this cluster need the profile of %s, too: penstock profile --device %s --model %s", of->device,
                 of->device, split->name);
    ps_network_destroy(split);
    return status;
}

static enum ps_status measure_splits(const struct ps_network *network, const struct ps_profile_options *options,
                                     const struct ps_cluster *cluster, struct ps_profile **profile, struct ps_error *error) {
    struct ps_profile_options first = *options;
    struct ps_profile *whole;
    struct text splits = {0};
    const char *name = ps_network_info(network).name;
    if (strstr(name, "split=")) return error_set(error, PS_USAGE, "`network`: %s already has split=", name);
    if (first.micro_batch_count > 1) first.micro_batch_count = 1;
    TRY(measure_types(network, &first, cluster, &whole, error));
    struct partition_problem problem = {.costs = &whole->tables[0], .cluster = cluster, .stages = cluster->workers};
    enum ps_status status = bapipe_splits(&problem, network->graph, &splits, error);
    char *list = status == PS_OK && splits.length > 0 ? text_take(&splits) : NULL;
    if (status == PS_OK && !list)
        log_info("no boundary between %d workers falls into a layer that can be split, or its transfer would not be hidden",
                 cluster->workers);
    if (status == PS_OK)
        status = list ? measure_split(network, list, options, cluster, profile, error)
                      : measure_types(network, options, cluster, profile, error);
    if (status == PS_OK && list) compare_slowest(&whole->tables[0], *profile, cluster);
    ps_profile_destroy(whole);
    free(list);
    text_free(&splits);
    return status;
}

enum ps_status ps_profile_measure_split_for(const struct ps_network *network, const struct ps_profile_options *options,
                                            const struct ps_cluster *cluster, struct ps_profile **profile,
                                            struct ps_error *error) {
    struct ps_profile_options own = {0};
    TRY(VERSIONED_TAKE(ps_profile_options, options, &own, error));
    TRY(log_check(own.log, error));
    const struct ps_log_sink *log = log_use(own.log);
    const enum ps_status status = measure_splits(network, &own, cluster, profile, error);
    log_restore(log);
    return status;
}

enum ps_status ps_profile_measure_split(const struct ps_network *network, const struct ps_profile_options *options, int workers,
                                        struct ps_profile **profile, struct ps_error *error) {
    struct ps_cluster *cluster;
    TRY(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options), .workers = workers},
                           &cluster, error));
    enum ps_status status = ps_profile_measure_split_for(network, options, cluster, profile, error);
    ps_cluster_destroy(cluster);
    return status;
}
