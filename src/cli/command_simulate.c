/* penstock simulate: predicts a run of a plan. */
#include <stdio.h>

#include "cli/output.h"
#include "cli/planning.h"

struct simulate_arguments {
    struct common_arguments common;
    const char *plan, *profile, *trace, *svg, *against;
    int batches;
    bool arrows;
    struct cluster_arguments cluster;
};

#define OF(member) offsetof(struct simulate_arguments, member)

static const struct argument rows[] = {
    OPTION("plan", 'p', "FILE", text, plan, "the plan", .required = true),
    OPTION("profile", 'P', "FILE", text, profile, "the costs of its layers", .required = true),
    OPTION("batches", 'n', "N", integer, batches, "mini-batches; without it enough to see the steady state", RANGE(1, 100000)),
    OPTION("against", 0, "TRACE.json", text, against, "hold the prediction against the trace of a run (train --trace)"),
    OPTION("svg", 0, "FILE", output, svg, "draw the timeline here"),
    FLAG("arrows", 0, arrows, "with an arrow along each transfer"),
    OPTION("trace", 0, "FILE", output, trace, "write Chrome trace events here (they open in Perfetto)"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static enum ps_status put_simulation(const struct simulate_arguments *arguments, const struct ps_simulation *simulation,
                                     struct ps_error *error) {
    if (arguments->svg != NULL && arguments->arrows)
        CHECK(ps_simulation_write_svg_arrows(simulation, arguments->svg, error));
    else if (arguments->svg != NULL)
        CHECK(ps_simulation_write_svg(simulation, arguments->svg, error));
    if (arguments->trace != NULL) CHECK(ps_simulation_write_trace(simulation, arguments->trace, error));
    if (output_is_taken(arguments->svg) || output_is_taken(arguments->trace)) return PS_OK;
    if (arguments->common.json) return output_text(ps_simulation_json(simulation), error);
    CHECK(output_text(ps_simulation_table(simulation), error));
    putchar('\n');
    return output_text(ps_simulation_timeline(simulation, output_columns(), output_colour()), error);
}

/* What does not fit is shown all the same, and then refused. */
static enum ps_status simulate(const struct simulate_arguments *arguments, const struct ps_plan *plan,
                               const struct ps_profile *profile, const struct ps_cluster *cluster, struct ps_error *error) {
    struct ps_simulation *simulation;
    struct ps_trace *trace = NULL;
    if (arguments->against != NULL) CHECK(ps_trace_read(arguments->against, &trace, error));
    enum ps_status status = trace != NULL
                                ? ps_simulate_against(plan, profile, cluster, arguments->batches, trace, &simulation, error)
                                : ps_simulate(plan, profile, cluster, arguments->batches, &simulation, error);
    ps_trace_destroy(trace);
    if (status != PS_OK) return status;
    status = put_simulation(arguments, simulation, error);
    if (status == PS_OK) status = ps_simulation_check_memory(simulation, plan, profile, cluster, error);
    ps_simulation_destroy(simulation);
    return status;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct simulate_arguments *arguments = values;
    struct ps_plan *plan;
    struct ps_profile *profile = NULL;
    struct ps_cluster *cluster = NULL;
    CHECK(ps_plan_read(arguments->plan, &plan, error));
    enum ps_status status = ps_profile_read(arguments->profile, &profile, error);
    if (status == PS_OK)
        status = cluster_arguments_open(&arguments->cluster, ps_plan_info(plan).workers, profile, &cluster, error);
    if (status == PS_OK) status = simulate(arguments, plan, profile, cluster, error);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    ps_plan_destroy(plan);
    return status;
}

const struct command command_simulate = {
    .name = "simulate",
    .summary = "predicts a run of a plan",
    .usage = "--plan FILE --profile FILE [options]",
    .description = {"Runs the programs of a plan with a clock instead of arithmetic: when everything would happen, "
                    "how long a mini-batch takes, where workers stand idle and why, and how much memory each one "
                    "needs. Where that is more than --memory or the cluster's devices have, the exit status is 4."},
    .example = "  penstock simulate --plan plan.json --profile vgg16.json --bandwidth 1GB/s --svg timeline.svg",
    .size = sizeof(struct simulate_arguments),
    .groups = {{&group, 0}, {&cluster_group, offsetof(struct simulate_arguments, cluster)}, {&common_group, 0}},
    .run = run,
};
