/* penstock compare: several methods on the same work, side by side. */
#include <math.h>

#include "cli/output.h"
#include "cli/planning.h"
#include "cli/training.h"

struct compare_arguments {
    struct common_arguments common;
    const char *profile, *model, *cluster_path, *largest, *costs;
    int batch_per_worker;
    bool train, grid;
    double target;
    struct names methods, schedules, weights;
    struct texts wires;
    struct integers workers;
    struct sizes memory;
    struct rates bandwidth;
    struct cluster_arguments cluster;
    struct ps_plan_options options;
    struct train_arguments training;
};

#define OF(member) offsetof(struct compare_arguments, member)

static const struct argument rows[] = {
    OPTION("profile", 'P', "FILE", text, profile, COSTS_HELP),
    FLAG("train", 0, train, "train every combination instead of simulating it"),
    OPTION("target", 0, "NUMBER", number, target,
           "with --train: time the way to this validation accuracy (0 to 1), of pairs: BLEU, of other text perplexity; without "
           "it, to the best that all reach",
           RANGE(0, 1e9)),
    OPTION("model", 'm', "NAME[,key=value...]", text, model,
           "with --train or --largest: a network; without --profile it is profiled for each run"),
    OPTION("largest", 0, "KEY", text, largest,
           "instead: how large this option of the model, as `layers`, can be in the workers' memory; of network files, "
           "with {KEY} for the value in --model, as net-{layers}.json",
           .excludes = "train profile"),
    OPTION("costs", 0, "NAME", name, costs,
           "with --largest: the device whose costs are worked out; gpu:v100 where nothing is said",
           .table = PS_TABLE_PROFILE_DEVICES),
    OPTION("batch-per-worker", 0, "N", integer, batch_per_worker,
           "samples in a mini-batch for each worker, in place of --batch", RANGE(1, 1 << 16),
           .excludes = "batch micro-batches train"),
    OPTION("methods", 0, "NAME[,NAME...]", names, methods,
           "how the layers are cut into stages; without it auto and all whose plans can be run", .table = PS_TABLE_METHODS,
           .also = "auto"),
    OPTION("schedules", 0, "NAME[,NAME...]", names, schedules, "in which order the workers compute",
           .table = PS_TABLE_SCHEDULES, .also = "auto"),
    OPTION("weights", 0, "NAME[,NAME...]", names, weights, "which version of the weights each computation reads",
           .table = PS_TABLE_POLICIES, .also = "auto"),
    OPTION("wires", 0, "CODEC[,CODEC...]", texts, wires, "how what workers send is encoded, as in none,int8,topk:0.05",
           .excludes = "wire"),
    OPTION("workers", 'w', "P[,P...]", integers, workers,
           "workers in the pipeline; with --cluster its first ones, all where nothing is said", RANGE(1, 1024)),
    OPTION("memory", 0, "SIZE[,SIZE...]", sizes, memory, "memory of each worker, as in 512MiB; without it there is no limit",
           RANGE(1, INFINITY)),
    OPTION("bandwidth", 0, "RATE[,RATE...]", rates, bandwidth,
           "of every link, as in 100Mbit/s or 12GB/s; without it transfers take no time"),
    OPTION("cluster", 0, "FILE", text, cluster_path,
           "workers and links from a cluster file, with --memory and --bandwidth in place of what it says"),
    FLAG("grid", 0, grid, "a line for each machine and a column for each method"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static enum ps_status simulate(const struct compare_arguments *arguments, const struct ps_compare_options *options,
                               struct ps_comparison **comparison, struct ps_error *error) {
    struct ps_profile *profile;
    if (arguments->profile == NULL)
        return message_set(error, PS_USAGE, "--profile is missing; give --profile FILE, or --train");
    CHECK(ps_profile_read(arguments->profile, &profile, error));
    enum ps_status status = ps_compare(profile, options, comparison, error);
    ps_profile_destroy(profile);
    return status;
}

static enum ps_status find_largest(const struct compare_arguments *arguments, const struct ps_compare_options *options,
                                   struct ps_comparison **comparison, struct ps_error *error) {
    if (arguments->model == NULL) return message_set(error, PS_USAGE, "--model is missing; --largest needs a network");
    return ps_compare_largest(arguments->model, arguments->largest, arguments->costs, options, comparison, error);
}

static enum ps_status train(const struct compare_arguments *arguments, const struct ps_compare_options *options,
                            struct ps_comparison **comparison, struct ps_error *error) {
    struct train_arguments train = arguments->training;
    struct training training;
    train.profile_path = arguments->profile;
    train.model = arguments->model;
    if (arguments->model == NULL) return message_set(error, PS_USAGE, "--model is missing; --train needs a network");
    CHECK(training_open(&train, &training, error));
    enum ps_status status = ps_compare_training(options, &training.options, comparison, error);
    training_close(&training);
    return status;
}

static enum ps_status compare(const struct compare_arguments *arguments, const struct ps_compare_options *options,
                              struct ps_comparison **comparison, struct ps_error *error) {
    if (arguments->train) return train(arguments, options, comparison, error);
    return arguments->largest != NULL ? find_largest(arguments, options, comparison, error)
                                      : simulate(arguments, options, comparison, error);
}

static void defaults(void *values) {
    struct compare_arguments *arguments = values;
    training_defaults(&arguments->training);
    ps_plan_options_init(&arguments->options);
    ps_cluster_options_init(&arguments->cluster.options);
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct compare_arguments *arguments = values;
    struct ps_compare_options options = {
        .struct_size = sizeof options,
        .methods = arguments->methods.values,
        .method_count = arguments->methods.count,
        .schedules = arguments->schedules.values,
        .schedule_count = arguments->schedules.count,
        .weights = arguments->weights.values,
        .weights_count = arguments->weights.count,
        .wires = arguments->wires.values,
        .wire_count = arguments->wires.count,
        .workers = arguments->workers.values,
        .worker_count = arguments->workers.count,
        .memory_bytes = arguments->memory.values,
        .memory_count = arguments->memory.count,
        .bandwidth_bytes_per_s = arguments->bandwidth.values,
        .bandwidth_count = arguments->bandwidth.count,
        .planning = &arguments->options,
        .machines = &arguments->cluster.options,
        .target = arguments->target,
        .batch_per_worker = arguments->batch_per_worker,
    };
    if (arguments->cluster_path == NULL && arguments->workers.count == 0)
        return message_set(error, PS_USAGE, "--workers is missing; give --workers P[,P...], or --cluster FILE");
    struct ps_comparison *comparison;
    struct ps_cluster *cluster = NULL;
    if (arguments->cluster_path != NULL) CHECK(ps_cluster_read(arguments->cluster_path, &cluster, error));
    options.cluster = cluster;
    enum ps_status status = compare(arguments, &options, &comparison, error);
    ps_cluster_destroy(cluster);
    CHECK(status);
    char *text = arguments->common.json ? ps_comparison_json(comparison)
                 : arguments->grid      ? ps_comparison_grid(comparison)
                                        : ps_comparison_table(comparison);
    status = output_text(message_text_options(text), error); /* rows say why they have no plan */
    ps_comparison_destroy(comparison);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "runs several methods on the same work and tabulates them",
    .usage = "(--profile FILE | --train --model NAME --data SPEC | --largest KEY --model NAME)\n"
             "       (--workers P[,P...] | --cluster FILE) [options]",
    .description = {"Plans and simulates every combination of methods, schedules, weights, workers, memory and "
                    "bandwidth, and puts them side by side. Combinations without a plan are rows too, with the "
                    "reason. With --train they are trained instead, from the same seed: loss, accuracy (of "
                    "translations BLEU, of running text perplexity) by epoch, the time to a target, speed and memory "
                    "as measured. With --largest the rows say how large the network can be: GNMT-L's layers, as in "
                    "BaPipe's Table IV."},
    .example =
        "  penstock compare --profile vgg16.json --methods uniform,pipedream --schedules gpipe,1f1b \\\n"
        "      --workers 2,4,8 --memory 512MiB,2GiB --bandwidth 100Mbit/s,1GB/s\n"
        "  penstock compare --train --model lenet5 --data synthetic:images --epochs 1 --workers 4 \\\n"
        "      --methods pipedream --weights stash,latest,pipeoptim --batch 64 --micro-batches 4\n"
        "  penstock compare --model gnmt-l --largest layers --methods data-parallel,uniform,bapipe --schedules gpipe,1f1b \\\n"
        "      --replicate --workers 1,2,4,8 --memory 9GiB --optimizer adam --micro-batch 16 --batch-per-worker 32 --grid",
    .size = sizeof(struct compare_arguments),
    .groups = {{&group, 0},
               {&network_group, OF(training.network)},
               {&links_group, offsetof(struct compare_arguments, cluster)},
               {&work_group, offsetof(struct compare_arguments, options)},
               {&method_group, offsetof(struct compare_arguments, options)},
               {&training_data_group, offsetof(struct compare_arguments, training)},
               {&training_length_group, offsetof(struct compare_arguments, training)},
               {&training_rate_group, offsetof(struct compare_arguments, training)},
               {&training_where_group, offsetof(struct compare_arguments, training)},
               {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
