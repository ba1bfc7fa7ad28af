/* penstock compare: several methods on the same work, side by side. */
#include <math.h>

#include "cli/output.h"
#include "cli/planning.h"

struct compare_arguments {
    struct common_arguments common;
    const char *profile;
    struct names methods, schedules, weights;
    struct integers workers;
    struct sizes memory;
    struct rates bandwidth;
    struct cluster_arguments cluster;
    struct ps_plan_options options;
};

#define OF(member) offsetof(struct compare_arguments, member)

static const struct argument rows[] = {
    {.name = "profile",
     .letter = 'P',
     .value = "FILE",
     .help = "costs: of `penstock profile`, a CSV file, or PipeDream's graph.txt",
     .offset = OF(profile),
     .read = argument_read_text,
     .required = true},
    {.name = "methods",
     .value = "NAME[,NAME...]",
     .help = "how the layers are cut into stages; without it auto and all whose plans can be run",
     .offset = OF(methods),
     .read = argument_read_names,
     .table = PS_TABLE_METHODS,
     .also = "auto"},
    {.name = "schedules",
     .value = "NAME[,NAME...]",
     .help = "in which order the workers compute",
     .offset = OF(schedules),
     .read = argument_read_names,
     .table = PS_TABLE_SCHEDULES,
     .also = "auto"},
    {.name = "weights",
     .value = "NAME[,NAME...]",
     .help = "which version of the weights each computation reads",
     .offset = OF(weights),
     .read = argument_read_names,
     .table = PS_TABLE_POLICIES,
     .also = "auto"},
    {.name = "workers",
     .letter = 'w',
     .value = "P[,P...]",
     .help = "workers in the pipeline",
     .offset = OF(workers),
     .read = argument_read_integers,
     .low = 1,
     .high = 1024,
     .required = true},
    {.name = "memory",
     .value = "SIZE[,SIZE...]",
     .help = "memory of each worker, as in 512MiB; without it there is no limit",
     .offset = OF(memory),
     .read = argument_read_sizes,
     .low = 1,
     .high = INFINITY},
    {.name = "bandwidth",
     .value = "RATE[,RATE...]",
     .help = "of every link, as in 100Mbit/s or 12GB/s; without it transfers take no time",
     .offset = OF(bandwidth),
     .read = argument_read_rates},
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct compare_arguments *arguments = values;
    struct ps_compare_options options = {
        .methods = arguments->methods.values,
        .method_count = arguments->methods.count,
        .schedules = arguments->schedules.values,
        .schedule_count = arguments->schedules.count,
        .weights = arguments->weights.values,
        .weights_count = arguments->weights.count,
        .workers = arguments->workers.values,
        .worker_count = arguments->workers.count,
        .memory_bytes = arguments->memory.values,
        .memory_count = arguments->memory.count,
        .bandwidth_bytes_per_s = arguments->bandwidth.values,
        .bandwidth_count = arguments->bandwidth.count,
        .plan = arguments->options,
        .cluster = arguments->cluster.options,
    };
    struct ps_profile *profile;
    struct ps_comparison *comparison;
    CHECK(ps_profile_read(arguments->profile, &profile, error));
    enum ps_status status = ps_compare(profile, &options, &comparison, error);
    ps_profile_destroy(profile);
    if (status != PS_OK) return status;
    status = output_text(arguments->common.json ? ps_comparison_json(comparison) : ps_comparison_table(comparison), error);
    ps_comparison_destroy(comparison);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "runs several methods on the same work and tabulates them",
    .usage = "--profile FILE --workers P[,P...] [options]",
    .description = "Plans and simulates every combination of methods, schedules, weights, workers, memory and bandwidth, and\n"
                   "puts them side by side. Combinations without a plan are rows too, with the reason.",
    .example = "  penstock compare --profile vgg16.json --methods uniform,pipedream --schedules gpipe,1f1b \\\n"
               "      --workers 2,4,8 --memory 512MiB,2GiB --bandwidth 100Mbit/s,1GB/s",
    .size = sizeof(struct compare_arguments),
    .groups = {{&group, 0},
               {&links_group, offsetof(struct compare_arguments, cluster)},
               {&work_group, offsetof(struct compare_arguments, options)},
               {&method_group, offsetof(struct compare_arguments, options)},
               {&common_group, 0}},
    .run = run,
};
