/* The options that describe a cluster and how to plan for it. */
#include "cli/planning.h"

#include <math.h>
#include <string.h>

#define OF(member) offsetof(struct cluster_arguments, member)

static const struct argument workers_rows[] = {
    OPTION("workers", 'w', "P", integer, options.workers, "workers in the pipeline", RANGE(1, 1024),
           .excludes = "cluster plan"),
};
const struct argument_group workers_group = ARGUMENT_GROUP(NULL, workers_rows);

static const struct argument cluster_rows[] = {
    OPTION("memory", 0, "SIZE", size, options.memory_bytes,
           "memory of each worker, a hard cap, as in 512MiB or 1G; without it there is no limit", RANGE(1, INFINITY),
           .excludes = "cluster"),
    OPTION("cluster", 0, "FILE", text, path, "workers and links from a cluster file"),
    OPTION("bandwidth", 0, "RATE", rate, options.bandwidth_bytes_per_s,
           "of every link, as in 100Mbit/s, 12GB/s or 100Gbps; without it transfers take no time", .excludes = "cluster"),
    OPTION("latency", 0, "TIME", time, options.latency_s, "of every link, as in 50us", .excludes = "cluster"),
    FLAG("no-overlap", 0, options.no_overlap, "a transfer keeps both of its workers from computing", .excludes = "cluster"),
    FLAG("streaming", 0, options.streaming, "a transfer begins with the computation that makes it, as on FPGAs",
         .excludes = "cluster no-overlap"),
    OPTION("cores", 0, "N", integer, options.cores,
           "workers that can compute at the same moment; without it all of them, or where nothing says links as this machine",
           RANGE(1, 1024), .excludes = "cluster"),
};
const struct argument_group cluster_group = ARGUMENT_GROUP("Cluster", cluster_rows);
const struct argument_group memory_group = {"Cluster", cluster_rows, 2};
const struct argument_group split_group = {"Splitting", cluster_rows + 1, 3};
/* Without those that a comparison has lists of, and without the file. */
const struct argument_group links_group = {"Cluster", cluster_rows + 3, sizeof cluster_rows / sizeof cluster_rows[0] - 3};

#undef OF
#define OF(member) offsetof(struct ps_plan_options, member)

static const struct argument plan_rows[] = {
    OPTION("method", 0, "NAME", name, method,
           "how the layers are cut into stages; without it what auto finds within about a second", .table = PS_TABLE_METHODS,
           .also = "auto", .excludes = "plan"),
    OPTION("schedule", 0, "NAME", name, schedule, "in which order the workers compute; dapple is 1f1b",
           .table = PS_TABLE_SCHEDULES, .also = "auto", .excludes = "plan"),
    OPTION("weights", 0, "NAME", name, weights, "which version of the weights each computation reads",
           .table = PS_TABLE_POLICIES, .also = "auto", .excludes = "plan"),
    OPTION(
        "slack", 0, "N", integer, slack,
        "micro-batches under way between neighbouring workers beyond what the schedule needs, so that others wait less for one "
        "that is slow for a moment; for schedules without a flush",
        RANGE(1, 1024), .excludes = "plan"),
    OPTION("micro-batch", 0, "N", integer, micro_batch,
           "samples in a micro-batch; a size that was profiled, without it the largest", RANGE(1, 1 << 20), .excludes = "plan"),
    OPTION("micro-batches", 'M', "M", integer, micro_batches,
           "micro-batches in a mini-batch; without it what is usual for the schedule", RANGE(1, 1 << 16), .excludes = "plan"),
    OPTION("optimizer", 0, "NAME", name, optimizer,
           "its state counts in the memory; sgdm where nothing is said; train: adam for alexnet, vgg, LSTMs and transformers",
           .table = PS_TABLE_OPTIMIZERS),
    FLAG("paper-prediction", 0, paper_prediction,
         "predict weights by the papers' bare formula, without coming learning rates and decay", .excludes = "plan"),
    FLAG("recompute", 0, recompute, "keep only each stage's input and run its forward again before its backward",
         .excludes = "plan"),
    OPTION("module-depth", 0, "N", integer, module_depth,
           "stages end only between modules: where the first N parts of the layers' names, as in h.0.mlp, differ", RANGE(1, 64),
           .excludes = "plan"),
    OPTION("wire", 0, "CODEC", text, wire,
           "encode what workers send: bf16, int8 or topk:SHARE; auto:CODEC: where links need it, and nothing that loses more; "
           "or each by "
           "its own, as in activation=int8+gradient=bf16+sum=int8",
           .excludes = "plan"),
    FLAG("replicate", 0, replicate, "stages may have replicas (pipedream, auto, pipedream-paper, data-parallel)",
         .excludes = "plan"),
};
const struct argument_group plan_group = ARGUMENT_GROUP("Planning", plan_rows);
/* Without method, schedule, weights and slack. */
const struct argument_group work_group = {"Planning", plan_rows + 4, sizeof plan_rows / sizeof plan_rows[0] - 4};

static const struct argument method_rows[] = {
    OPTION("batch", 'b', "N", integer, batch,
           "samples in a mini-batch: the profiled micro-batch sizes that divide it are tried", RANGE(1, 1 << 24)),
    FLAG("paper-cost", 0, paper_cost, "the method's cost and memory formulas as published (bipartition, madpipe)"),
};
const struct argument_group method_group = ARGUMENT_GROUP(NULL, method_rows);

enum ps_status cluster_arguments_open(const struct cluster_arguments *arguments, int workers, const struct ps_profile *profile,
                                      struct ps_cluster **cluster, struct ps_error *error) {
    if (arguments->path != NULL) return ps_cluster_read(arguments->path, cluster, error);
    struct ps_cluster_options options = arguments->options;
    options.struct_size = sizeof options;
    options.workers = workers;
    return profile != NULL ? ps_cluster_here(&options, profile, cluster, error) : ps_cluster_uniform(&options, cluster, error);
}
