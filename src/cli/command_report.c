/* penstock report: runs as one HTML page. */
#include <stdio.h>
#include <sys/stat.h>

#include "cli/output.h"
#include "cli/planning.h"

struct report_arguments {
    struct common_arguments common;
    const char *out, *csv, *plan, *profile, *against;
    struct words runs;
    struct cluster_arguments cluster;
};

#define OF(member) offsetof(struct report_arguments, member)

static const struct argument rows[] = {
    OPTION("out", 'o', "FILE", output, out, "the page; report.html where nothing is said"),
    OPTION("csv", 0, "FILE", output, csv, "instead of a page the lines of the run's log as CSV",
           .excludes = "out plan profile against json"),
    OPTION("plan", 'p', "FILE", text, plan, "also a plan that need not have been trained; needs --profile"),
    OPTION("profile", 'P', "FILE", text, profile, "the costs of the plan's layers"),
    OPTION("against", 0, "TRACE.json", text, against, "a trace of the plan's run, to be drawn beside the prediction"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static enum ps_status put(const struct report_arguments *arguments, const struct ps_report_options *options,
                          struct ps_error *error) {
    const char *path = arguments->out != NULL ? arguments->out : "report.html";
    struct stat status;
    if (arguments->common.json) {
        char *text = ps_report_json(options, error);
        return text != NULL ? output_text(text, error) : error->status;
    }
    CHECK(ps_report_write(options, path, error));
    if (!output_is_taken(path) && stat(path, &status) == 0)
        printf("%s: %.1f KiB, opens in any browser\n", path, (double)status.st_size / 1024);
    return PS_OK;
}

static enum ps_status with_plan(const struct report_arguments *arguments, struct ps_report_options *options,
                                struct ps_error *error) {
    struct ps_plan *plan;
    struct ps_profile *profile = NULL;
    struct ps_cluster *cluster = NULL;
    struct ps_trace *trace = NULL;
    CHECK(ps_plan_read(arguments->plan, &plan, error));
    enum ps_status status = ps_profile_read(arguments->profile, &profile, error);
    if (status == PS_OK)
        status = cluster_arguments_open(&arguments->cluster, ps_plan_info(plan).workers, profile, &cluster, error);
    if (status == PS_OK && arguments->against != NULL) status = ps_trace_read(arguments->against, &trace, error);
    options->plan = plan;
    options->profile = profile;
    options->cluster = cluster;
    options->trace = trace;
    if (status == PS_OK) status = put(arguments, options, error);
    ps_trace_destroy(trace);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
    ps_plan_destroy(plan);
    return status;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct report_arguments *arguments = values;
    struct ps_report_options options;
    ps_report_options_init(&options);
    options.runs = arguments->runs.values;
    options.run_count = arguments->runs.count;
    if (arguments->plan == NULL && (arguments->profile != NULL || arguments->against != NULL))
        return message_set(error, PS_USAGE, "--%s: belongs to --plan FILE, which is missing",
                           arguments->profile != NULL ? "profile" : "against");
    if (arguments->plan != NULL && arguments->profile == NULL)
        return message_set(error, PS_USAGE, "--profile is missing; --plan needs --profile FILE");
    if (arguments->runs.count == 0 && arguments->plan == NULL)
        return message_set(error, PS_USAGE, "RUN_DIR is missing; give run directories, or --plan FILE and --profile FILE");
    if (arguments->csv != NULL && arguments->runs.count > 1)
        return message_set(error, PS_USAGE, "--csv: takes one run, not %d", arguments->runs.count);
    if (arguments->csv != NULL) return ps_report_csv(arguments->runs.values[0], arguments->csv, error);
    return arguments->plan != NULL ? with_plan(arguments, &options, error) : put(arguments, &options, error);
}

const struct command command_report = {
    .name = "report",
    .summary = "runs as one HTML page",
    .usage = "RUN_DIR... [options]",
    .description = {"Writes one page that needs no network: what was run and on what, curves, the timeline as it was predicted "
                    "and as it was measured (train --trace), why workers stand idle, memory, versions of weights, the costs "
                    "of the layers, and what would help. Several runs stand side by side."},
    .example = "  penstock report runs/first runs/second -o report.html",
    .size = sizeof(struct report_arguments),
    .groups = {{&group, 0}, {&cluster_group, OF(cluster)}, {&common_group, 0}},
    .words = {"RUN_DIR", OF(runs)},
    .run = run,
};
