/* penstock plan: finds the best partition and schedule. */
#include <stdio.h>

#include "cli/output.h"
#include "cli/planning.h"

struct plan_arguments {
    struct common_arguments common;
    const char *profile, *output;
    struct cluster_arguments cluster;
    struct ps_plan_options options;
};

#define OF(member) offsetof(struct plan_arguments, member)

static const struct argument rows[] = {
    OPTION("profile", 'P', "FILE", text, profile, COSTS_HELP, .required = true),
    OPTION("output", 'o', "FILE", output, output, "write the plan here"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) { ps_plan_options_init(&((struct plan_arguments *)values)->options); }

static enum ps_status find_plan(const struct plan_arguments *arguments, const struct ps_profile *profile, struct ps_plan **plan,
                                struct ps_error *error) {
    struct ps_cluster *cluster;
    CHECK(cluster_arguments_open(&arguments->cluster, arguments->cluster.options.workers, profile, &cluster, error));
    enum ps_status status = ps_plan_find(profile, cluster, &arguments->options, plan, error);
    ps_cluster_destroy(cluster);
    return status;
}

static enum ps_status put_plan(const struct plan_arguments *arguments, const struct ps_plan *plan, struct ps_error *error) {
    if (arguments->output != NULL) CHECK(ps_plan_write(plan, arguments->output, error));
    if (output_is_taken(arguments->output)) return PS_OK;
    return output_text(arguments->common.json ? ps_plan_json(plan) : ps_plan_table(plan), error);
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct plan_arguments *arguments = values;
    if (arguments->cluster.path == NULL && arguments->cluster.options.workers == 0) {
        return message_set(error, PS_USAGE, "--workers is missing; give --workers P, or --cluster FILE");
    }
    struct ps_profile *profile;
    CHECK(ps_profile_read(arguments->profile, &profile, error));
    struct ps_plan *plan;
    enum ps_status status = find_plan(arguments, profile, &plan, error);
    ps_profile_destroy(profile);
    if (status != PS_OK) return status;
    status = put_plan(arguments, plan, error);
    ps_plan_destroy(plan);
    return status;
}

const struct command command_plan = {
    .name = "plan",
    .summary = "finds the best partition and schedule",
    .usage = "--profile FILE (--workers P | --cluster FILE) [options]",
    .description = {"Cuts a profiled network into stages, one per worker, and chooses the schedule and the weight "
                    "policy. The plan comes with its predicted speed and with the memory that each worker will take. "
                    "Where no plan fits the memory, the exit status is 4."},
    .example = "  penstock plan --profile vgg16.json --workers 4 --memory 512MiB --bandwidth 1GB/s \\\n"
               "      --schedule 1f1b-async --weights pipeoptim --optimizer adam -o plan.json",
    .size = sizeof(struct plan_arguments),
    .groups = {{&group, 0},
               {&workers_group, offsetof(struct plan_arguments, cluster)},
               {&cluster_group, offsetof(struct plan_arguments, cluster)},
               {&plan_group, offsetof(struct plan_arguments, options)},
               {&method_group, offsetof(struct plan_arguments, options)},
               {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
