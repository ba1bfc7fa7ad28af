/* penstock cluster: measures the machines that it was started on. */
#include "cli/command.h"
#include "cli/output.h"
#include "comm/launch.h"

struct cluster_command_arguments {
    struct common_arguments common;
    const char *output;
    struct ps_cluster_measure_options options;
};

#define OF(member) offsetof(struct cluster_command_arguments, member)

static const struct argument rows[] = {
    OPTION_DEVICE(options.device),
    OPTION_THREADS(options.threads, "threads of each worker"),
    OPTION("output", 'o', "FILE", file, output, "write the cluster here"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) { ps_cluster_measure_options_init(&((struct cluster_command_arguments *)values)->options); }

static enum ps_status put_cluster(const struct cluster_command_arguments *arguments, const struct ps_cluster *cluster,
                                  struct ps_error *error) {
    if (arguments->output != NULL) CHECK(ps_cluster_write(cluster, arguments->output, error));
    if (output_is_taken(arguments->output)) return PS_OK;
    return output_text(arguments->common.json ? ps_cluster_json(cluster) : ps_cluster_table(cluster), error);
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct cluster_command_arguments *arguments = values;
    struct ps_cluster *cluster;
    CHECK(ps_cluster_measure(&arguments->options, &cluster, error));
    enum ps_status status = launch_find().rank == 0 ? put_cluster(arguments, cluster, error) : PS_OK;
    ps_cluster_destroy(cluster);
    return status;
}

const struct command command_cluster = {
    .name = "cluster",
    .summary = "measures the machines it is started on",
    .usage = "[-o FILE]",
    .description = {"Started by mpirun, as many processes as there will be workers find out what each of them has: "
                    "host, memory, the speed of its device beside rank 0's, and latency and bandwidth between hosts. "
                    "The file is what --cluster takes."},
    .example = "  mpirun -n 4 --hostfile hosts penstock cluster -o cluster.json",
    .size = sizeof(struct cluster_command_arguments),
    .groups = {{&group, 0}, {&common_group, 0}},
    .defaults = defaults,
    .every_rank = true,
    .run = run,
};
