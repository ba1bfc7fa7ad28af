/* penstock profile: measures what each layer of a network costs. */
#include <stdio.h>

#include "cli/network.h"
#include "cli/output.h"
#include "cli/planning.h"

struct profile_arguments {
    struct common_arguments common;
    const char *model, *output;
    struct network_arguments network;
    struct integers micro_batches;
    int split_for;
    struct cluster_arguments cluster;
    struct ps_profile_options options;
};

#define OF(member) offsetof(struct profile_arguments, member)

static const struct argument rows[] = {
    OPTION("model", 'm', "NAME[,key=value...]", text, model,
           "a built-in network, as `penstock models` lists them, or a network file", .required = true),
    OPTION("micro-batch", 0, "N[,N...]", integers, micro_batches,
           "samples in a micro-batch: one size or several; 16 where nothing is said", RANGE(1, 1 << 20)),
    OPTION("device", 0, "NAME", name, options.device, "what computes, or whose costs are worked out",
           .table = PS_TABLE_PROFILE_DEVICES),
    OPTION_THREADS(options.threads, "threads of a worker"),
    OPTION("busy", 0, "P", integer, options.busy,
           "measure while P workers compute side by side, as they will on one machine; 2 where nothing is said and there are "
           "cores for them",
           RANGE(1, 1024)),
    OPTION("repeats", 0, "N", integer, options.repeats,
           "measurements of each time, of which the median counts; 9 or, of a small network, more where nothing is said",
           RANGE(1, 10000)),
    OPTION("split-for", 0, "P", integer, split_for, "split layers inside, where that evens out the work of P workers",
           RANGE(2, 1024), .excludes = "cluster"),
    OPTION("output", 'o', "FILE", output, output, "write the profile here"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) {
    struct profile_arguments *arguments = values;
    arguments->micro_batches = (struct integers){.values = {16}, .count = 1};
}

static enum ps_status put_profile(const struct profile_arguments *arguments, const struct ps_profile *profile,
                                  struct ps_error *error) {
    if (arguments->output != NULL) CHECK(ps_profile_write(profile, arguments->output, error));
    if (output_is_taken(arguments->output)) return PS_OK;
    return output_text(arguments->common.json ? ps_profile_json(profile) : ps_profile_table(profile), error);
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct profile_arguments *arguments = values;
    struct ps_profile_options options = arguments->options;
    options.struct_size = sizeof options;
    options.micro_batches = arguments->micro_batches.values;
    options.micro_batch_count = arguments->micro_batches.count;
    struct ps_network *network;
    CHECK(network_arguments_open(&arguments->network, arguments->model, &network, error));
    struct ps_profile *profile;
    struct ps_cluster *cluster = NULL;
    bool split = arguments->split_for > 0 || arguments->cluster.path != NULL;
    enum ps_status status =
        split ? cluster_arguments_open(&arguments->cluster, arguments->split_for, NULL, &cluster, error) : PS_OK;
    if (status == PS_OK)
        status = split ? ps_profile_measure_split_for(network, &options, cluster, &profile, error)
                       : ps_profile_measure(network, &options, &profile, error);
    ps_cluster_destroy(cluster);
    ps_network_destroy(network);
    if (status != PS_OK) return status;
    status = put_profile(arguments, profile, error);
    ps_profile_destroy(profile);
    return status;
}

const struct command command_profile = {
    .name = "profile",
    .summary = "measures the costs of a network's layers",
    .usage = "--model NAME [--micro-batch N[,N...]] [-o FILE]",
    .description = {"Measures the forward, both halves of the backward and the update of every layer on this "
                    "machine, and counts the bytes of parameters, of what crosses the cut after the layer and of "
                    "what the backward needs. For a board (fpga:...) or a GPU (gpu:v100) the times are worked out "
                    "from the arithmetic instead. The profile is what plans are made from."},
    .example = "  penstock profile --model vgg16,input=32 --micro-batch 8,16 -o vgg16.json",
    .size = sizeof(struct profile_arguments),
    .groups = {{&group, 0}, {&network_group, OF(network)}, {&split_group, OF(cluster)}, {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
