/* penstock compare: several methods on the same work, side by side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/planning.h"
#include "cli/process.h"
#include "cli/training.h"

struct compare_arguments {
    struct common_arguments common;
    const char *cluster_path, *largest, *costs, *out, *csv, *svg;
    int batch_per_worker, rank_by;
    bool train, grid;
    double target;
    struct words profiles, models, data, valid;
    struct names methods, schedules, weights;
    struct texts wires, precisions;
    struct integers workers, seeds;
    struct sizes memory;
    struct rates bandwidth;
    struct cluster_arguments cluster;
    struct ps_plan_options options;
    struct train_arguments training;
};

#define OF(member) offsetof(struct compare_arguments, member)

static const char *const measures[] = {"throughput", "memory", "metric", "target", "loss", NULL};

static const struct argument rows[] = {
    OPTION("profile", 'P', "FILE", several, profiles, COSTS_HELP "; once for each network", .repeats = true),
    FLAG("train", 0, train, "train every combination instead of simulating it"),
    OPTION("target", 0, "NUMBER", number, target,
           "with --train: time the way to this validation accuracy (0 to 1), of pairs: BLEU, of other text perplexity; without "
           "it, to the best that all reach",
           RANGE(0, 1e9)),
    OPTION(
        "model", 'm', "NAME[,key=value...]", several, models,
        "with --train or --largest: a network, with --train once for each; without --profile it is profiled, once for all of "
        "its rows",
        .repeats = true),
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
    OPTION("rank-by", 0, "NAME", choice, rank_by,
           "which measure decides the order; throughput, and with --train the metric of --valid, where nothing is said",
           .choices = measures, .excludes = "largest"),
    FLAG("grid", 0, grid, "a line for each machine and a column for each method"),
    OPTION("csv", 0, "FILE", output, csv, "also the rows as CSV; -: instead of the table"),
    OPTION("svg", 0, "FILE", output, svg, "also a picture: bars of the rows, and curves of trainings"),
    OPTION(
        "out", 'o', "DIR", text, out,
        "a directory that keeps each row as soon as it is done, trainings as run directories, for `penstock report`: the same "
        "command goes on there, whenever it was stopped or killed"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static const struct argument training_rows[] = {
    OPTION("data", 'd', "SPEC", several, data, DATA_HELP "; once for all networks, or once for each", .repeats = true),
    OPTION("valid", 0, "SPEC", several, valid, VALID_HELP "; likewise", .repeats = true),
    OPTION("seeds", 0, "N[,N...]", integers, seeds, "every combination once with each; tables have their mean", RANGE(0, 1e9),
           .excludes = "seed"),
    OPTION("precision", 0, "NAME[,NAME...]", texts, precisions, "of each network: f32, bf16, mixed or auto, one after the other"),
};
static const struct argument_group training_group = ARGUMENT_GROUP(NULL, training_rows);

static enum ps_status simulate(const struct compare_arguments *arguments, struct ps_compare_options *options,
                               struct ps_comparison **comparison, struct ps_error *error) {
    struct ps_profile *profiles[sizeof arguments->profiles.values / sizeof(char *)] = {NULL};
    const int count = arguments->profiles.count;
    enum ps_status status = PS_OK;
    if (count == 0) return message_set(error, PS_USAGE, "--profile is missing; give --profile FILE, or --train");
    for (int p = 0; p < count && status == PS_OK; p++)
        status = ps_profile_read(arguments->profiles.values[p], &profiles[p], error);
    options->profiles = (const struct ps_profile *const *)profiles;
    options->profile_count = count;
    if (status == PS_OK) status = ps_compare(NULL, options, comparison, error);
    for (int p = 0; p < count; p++) ps_profile_destroy(profiles[p]);
    return status;
}

static enum ps_status find_largest(const struct compare_arguments *arguments, const struct ps_compare_options *options,
                                   struct ps_comparison **comparison, struct ps_error *error) {
    if (arguments->models.count != 1)
        return message_set(error, PS_USAGE,
                           arguments->models.count == 0 ? "--model is missing; --largest needs a network"
                                                        : "--model: --largest takes one network");
    return ps_compare_largest(arguments->models.values[0], arguments->largest, arguments->costs, options, comparison, error);
}

/* What is given once for each network, or once for all, or not at all. */
static enum ps_status check_count(const char *option, const struct words *words, int networks, struct ps_error *error) {
    if (words->count <= 1 || words->count == networks) return PS_OK;
    return message_set(error, PS_USAGE, "--%s: given %d times, for %d network%s; give one for all, or one for each", option,
                       words->count, networks, networks == 1 ? "" : "s");
}

static const char *word_of(const struct words *words, int network) {
    return words->count == 0 ? NULL : words->values[words->count == 1 ? 0 : network];
}

/* A network in each precision, with its data and costs. */
static enum ps_status open_trainings(const struct compare_arguments *arguments, int precisions, struct training *trainings,
                                     struct ps_error *error) {
    for (int t = 0; t < arguments->models.count * precisions; t++) {
        struct train_arguments train = arguments->training;
        const int network = t / precisions;
        train.model = arguments->models.values[network];
        train.data = word_of(&arguments->data, network);
        train.valid = word_of(&arguments->valid, network);
        train.profile_path = word_of(&arguments->profiles, network);
        if (arguments->precisions.count > 0) train.network.precision = arguments->precisions.values[t % precisions];
        CHECK(training_open(&train, &trainings[t], error));
        trainings[t].options.planning = &arguments->training.plan;
        trainings[t].options.machines = &arguments->training.cluster.options;
    }
    return PS_OK;
}

static enum ps_status train(const struct compare_arguments *arguments, struct ps_compare_options *options,
                            struct ps_comparison **comparison, struct ps_error *error) {
    const int models = arguments->models.count, precisions = arguments->precisions.count > 0 ? arguments->precisions.count : 1,
              count = models * precisions;
    uint64_t seeds[sizeof arguments->seeds.values / sizeof(int)];
    if (models == 0) return message_set(error, PS_USAGE, "--model is missing; --train needs a network");
    CHECK(check_count("data", &arguments->data, models, error));
    CHECK(check_count("valid", &arguments->valid, models, error));
    if (arguments->profiles.count != 0 && arguments->profiles.count != models)
        return message_set(error, PS_USAGE, "--profile: given %d times, for %d network%s; give one for each, or none",
                           arguments->profiles.count, models, models == 1 ? "" : "s");
    if (arguments->profiles.count > 0 && precisions > 1)
        return message_set(error, PS_USAGE, "--profile: holds for one precision, not %d", precisions);
    for (int s = 0; s < arguments->seeds.count; s++) seeds[s] = (uint64_t)arguments->seeds.values[s];
    options->seeds = seeds;
    options->seed_count = arguments->seeds.count;
    struct training *trainings = calloc((size_t)count, sizeof *trainings);
    const struct ps_train_options **list = calloc((size_t)count, sizeof(struct ps_train_options *));
    enum ps_status status = trainings != NULL && list != NULL ? open_trainings(arguments, precisions, trainings, error)
                                                              : message_set(error, PS_OUT_OF_MEMORY, "out of memory");
    for (int t = 0; t < count && status == PS_OK; t++) list[t] = &trainings[t].options;
    options->trainings = list;
    options->training_count = count;
    if (status == PS_OK) status = ps_compare_training(options, NULL, comparison, error);
    for (int t = 0; t < count && trainings != NULL; t++) training_close(&trainings[t]);
    free(list);
    free(trainings);
    return status;
}

/* What only trainings have is refused elsewhere. */
static enum ps_status check_kind(const struct compare_arguments *arguments, struct ps_error *error) {
    const char *said = arguments->seeds.count > 0   ? "seeds"
                       : arguments->data.count > 0  ? "data"
                       : arguments->valid.count > 0 ? "valid"
                                                    : NULL;
    if (!arguments->train && said != NULL) return message_set(error, PS_USAGE, "--%s: is for --train", said);
    if (!arguments->train && arguments->precisions.count > 0)
        return message_set(error, PS_USAGE, "--precision: is for --train; else networks are named with it, as in "
                                            "--model vgg16,precision=bf16, and profiles have their own");
    if (arguments->common.json && output_is_taken(arguments->csv))
        return message_set(error, PS_USAGE, "--csv - and --json contradict each other; give one of them");
    return PS_OK;
}

static enum ps_status compare(const struct compare_arguments *arguments, struct ps_compare_options *options,
                              struct ps_comparison **comparison, struct ps_error *error) {
    CHECK(check_kind(arguments, error));
    if (arguments->train) return train(arguments, options, comparison, error);
    return arguments->largest != NULL ? find_largest(arguments, options, comparison, error)
                                      : simulate(arguments, options, comparison, error);
}

static int should_stop(void *context) {
    (void)context;
    return stop_requested();
}

static enum ps_status put(const struct compare_arguments *arguments, const struct ps_comparison *comparison,
                          struct ps_error *error) {
    char path[4096];
    if (arguments->csv != NULL) CHECK(ps_comparison_write_csv(comparison, arguments->csv, error));
    if (arguments->svg != NULL) CHECK(ps_comparison_write_svg(comparison, arguments->svg, error));
    if (arguments->out != NULL) {
        snprintf(path, sizeof path, "%s/rows.csv", arguments->out);
        CHECK(ps_comparison_write_csv(comparison, path, error));
    }
    if (output_is_taken(arguments->csv) || output_is_taken(arguments->svg)) return PS_OK;
    char *text = arguments->common.json ? ps_comparison_json(comparison)
                 : arguments->grid      ? ps_comparison_grid(comparison)
                                        : ps_comparison_table(comparison);
    return output_text(arguments->common.json ? text : message_text_options(text), error); /* rows say why they have no plan */
}

static void defaults(void *values) {
    struct compare_arguments *arguments = values;
    training_defaults(&arguments->training);
    ps_plan_options_init(&arguments->options);
    ps_cluster_options_init(&arguments->cluster.options);
    arguments->rank_by = -1;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct compare_arguments *arguments = values;
    const struct ps_observer observer = {.struct_size = sizeof observer, .should_stop = should_stop};
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
        .memory_texts = arguments->memory.count > 0 ? arguments->memory.names : NULL,
        .bandwidth_bytes_per_s = arguments->bandwidth.values,
        .bandwidth_count = arguments->bandwidth.count,
        .bandwidth_texts = arguments->bandwidth.count > 0 ? arguments->bandwidth.names : NULL,
        .planning = &arguments->options,
        .machines = &arguments->cluster.options,
        .target = arguments->target,
        .batch_per_worker = arguments->batch_per_worker,
        .rank_by = arguments->rank_by >= 0 ? measures[arguments->rank_by] : NULL,
        .out = arguments->out,
        .observer = &observer,
    };
    if (arguments->cluster_path == NULL && arguments->workers.count == 0)
        return message_set(error, PS_USAGE, "--workers is missing; give --workers P[,P...], or --cluster FILE");
    struct ps_comparison *comparison;
    struct ps_cluster *cluster = NULL;
    stop_on_signals();
    if (arguments->cluster_path != NULL) CHECK(ps_cluster_read(arguments->cluster_path, &cluster, error));
    options.cluster = cluster;
    enum ps_status status = compare(arguments, &options, &comparison, error);
    ps_cluster_destroy(cluster);
    CHECK(status);
    status = put(arguments, comparison, error);
    ps_comparison_destroy(comparison);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "runs several methods on the same work and tabulates them",
    .usage = "(--profile FILE... | --train (--model NAME --data SPEC)... | --largest KEY --model NAME)\n"
             "       (--workers P[,P...] | --cluster FILE) [options]",
    .description =
        {"Plans and simulates every combination of methods, schedules, weights, workers, memory and "
         "bandwidth, and puts them side by side, the best of each network and machine first. Combinations without a "
         "plan are rows too, with the reason. With --train they are trained instead, from the same seeds: loss, "
         "accuracy (of translations BLEU, of running text perplexity) by epoch, the time to a target, speed and "
         "memory as measured. With --largest the rows say how large the network can be: GNMT-L's layers, as in "
         "BaPipe's Table IV.",
         "With --out a comparison that was stopped or killed goes on when the same command is given again: rows that "
         "are done are read, a training that was interrupted is resumed, and what is learned is the same, bit for "
         "bit. Ctrl-C (SIGINT), SIGTERM and SIGHUP end it with status 75."},
    .example =
        "  penstock compare --profile vgg16.json --methods uniform,pipedream --schedules gpipe,1f1b \\\n"
        "      --workers 2,4,8 --memory 512MiB,2GiB --bandwidth 100Mbit/s,1GB/s\n"
        "  penstock compare --train --model lenet5 --data synthetic:images --epochs 1 --workers 4 \\\n"
        "      --methods pipedream --weights stash,latest,pipeoptim --batch 64 --micro-batches 4 --seeds 0,1,2 --out compared\n"
        "  penstock compare --model gnmt-l --largest layers --methods data-parallel,uniform,bapipe --schedules gpipe,1f1b \\\n"
        "      --replicate --workers 1,2,4,8 --memory 9GiB --optimizer adam --micro-batch 16 --batch-per-worker 32 --grid",
    .size = sizeof(struct compare_arguments),
    .groups = {{&group, 0},
               {&network_base_group, OF(training.network)},
               {&links_group, offsetof(struct compare_arguments, cluster)},
               {&work_group, offsetof(struct compare_arguments, options)},
               {&method_group, offsetof(struct compare_arguments, options)},
               {&training_length_group, offsetof(struct compare_arguments, training)},
               {&training_group, 0},
               {&training_rate_group, offsetof(struct compare_arguments, training)},
               {&training_where_group, offsetof(struct compare_arguments, training)},
               {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
