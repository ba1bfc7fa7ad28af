/* The options that describe a cluster and how to plan for it. */
#include "cli/planning.h"

#include <math.h>
#include <string.h>

#define OF(member) offsetof(struct cluster_arguments, member)

static const struct argument workers_rows[] = {
    {.name = "workers",
     .letter = 'w',
     .value = "P",
     .help = "workers in the pipeline",
     .offset = OF(options.workers),
     .read = argument_read_integer,
     .low = 1,
     .high = 1024,
     .excludes = "cluster plan"},
};
const struct argument_group workers_group = ARGUMENT_GROUP(NULL, workers_rows);

static const struct argument cluster_rows[] = {
    {.name = "cluster",
     .value = "FILE",
     .help = "workers and links from a cluster file",
     .offset = OF(path),
     .read = argument_read_text},
    {.name = "memory",
     .value = "SIZE",
     .help = "memory of each worker, a hard cap, as in 512MiB; without it there is no limit",
     .offset = OF(options.memory_bytes),
     .read = argument_read_size,
     .low = 1,
     .high = INFINITY,
     .excludes = "cluster"},
    {.name = "bandwidth",
     .value = "RATE",
     .help = "of every link, as in 100Mbit/s or 12GB/s; without it transfers take no time",
     .offset = OF(options.bandwidth_bytes_per_s),
     .read = argument_read_rate,
     .excludes = "cluster"},
    {.name = "latency",
     .value = "TIME",
     .help = "of every link, as in 50us",
     .offset = OF(options.latency_s),
     .read = argument_read_time,
     .excludes = "cluster"},
    {.name = "no-overlap",
     .help = "a transfer keeps both of its workers from computing",
     .offset = OF(options.no_overlap),
     .excludes = "cluster"},
    {.name = "cores",
     .value = "N",
     .help = "workers that can compute at the same moment; without it all of them",
     .offset = OF(options.cores),
     .read = argument_read_integer,
     .low = 1,
     .high = 1024,
     .excludes = "cluster"},
};
const struct argument_group cluster_group = ARGUMENT_GROUP("Cluster", cluster_rows);
const struct argument_group memory_group = {"Cluster", cluster_rows, 2};
/* Without those that a comparison has lists of, and without the file. */
const struct argument_group links_group = {"Cluster", cluster_rows + 3, sizeof cluster_rows / sizeof cluster_rows[0] - 3};

#undef OF
#define OF(member) offsetof(struct ps_plan_options, member)

static const struct argument plan_rows[] = {
    {.name = "method",
     .value = "NAME",
     .help = "how the layers are cut into stages",
     .offset = OF(method),
     .read = argument_read_name,
     .table = PS_TABLE_METHODS,
     .also = "auto",
     .excludes = "plan"},
    {.name = "schedule",
     .value = "NAME",
     .help = "in which order the workers compute",
     .offset = OF(schedule),
     .read = argument_read_name,
     .table = PS_TABLE_SCHEDULES,
     .also = "auto",
     .excludes = "plan"},
    {.name = "weights",
     .value = "NAME",
     .help = "which version of the weights each computation reads",
     .offset = OF(weights),
     .read = argument_read_name,
     .table = PS_TABLE_POLICIES,
     .also = "auto",
     .excludes = "plan"},
    {.name = "micro-batch",
     .value = "N",
     .help = "samples in a micro-batch; a size that was profiled, without it the largest",
     .offset = OF(micro_batch),
     .read = argument_read_integer,
     .low = 1,
     .high = 1 << 20,
     .excludes = "plan"},
    {.name = "micro-batches",
     .letter = 'M',
     .value = "M",
     .help = "micro-batches in a mini-batch; without it what is usual for the schedule",
     .offset = OF(micro_batches),
     .read = argument_read_integer,
     .low = 1,
     .high = 1 << 16,
     .excludes = "plan"},
    {.name = "optimizer",
     .value = "NAME",
     .help = "its state counts in the memory; sgdm where nothing is said",
     .offset = OF(optimizer),
     .read = argument_read_name,
     .table = PS_TABLE_OPTIMIZERS},
    {.name = "paper-prediction",
     .help = "predict weights by the papers' bare formula, without coming learning rates and decay",
     .offset = OF(paper_prediction),
     .excludes = "plan"},
    {.name = "recompute",
     .help = "keep only each stage's input and run its forward again before its backward",
     .offset = OF(recompute),
     .excludes = "plan"},
    {.name = "replicate",
     .help = "stages may have replicas (pipedream, auto, pipedream-paper, data-parallel)",
     .offset = OF(replicate),
     .excludes = "plan"},
};
const struct argument_group plan_group = ARGUMENT_GROUP("Planning", plan_rows);
/* Without method, schedule and weights. */
const struct argument_group work_group = {"Planning", plan_rows + 3, sizeof plan_rows / sizeof plan_rows[0] - 3};

static const struct argument method_rows[] = {
    {.name = "batch",
     .letter = 'b',
     .value = "N",
     .help = "samples in a mini-batch: the profiled micro-batch sizes that divide it are tried",
     .offset = OF(batch),
     .read = argument_read_integer,
     .low = 1,
     .high = 1 << 24},
    {.name = "paper-cost",
     .help = "the method's cost and memory formulas as published (bipartition, madpipe)",
     .offset = OF(paper_cost)},
};
const struct argument_group method_group = ARGUMENT_GROUP(NULL, method_rows);

enum ps_status cluster_arguments_open(const struct cluster_arguments *arguments, int workers, struct ps_cluster **cluster,
                                      struct ps_error *error) {
    if (arguments->path != NULL) return ps_cluster_read(arguments->path, cluster, error);
    struct ps_cluster_options options = arguments->options;
    options.workers = workers;
    return ps_cluster_uniform(&options, cluster, error);
}
