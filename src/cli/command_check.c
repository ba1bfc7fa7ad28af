/* penstock check: a network's outputs, loss and gradients against those of another implementation. */
#include <stdio.h>

#include "cli/network.h"
#include "cli/output.h"

struct check_arguments {
    struct common_arguments common;
    struct ps_check_options options;
    const char *model;
    struct network_arguments network;
};

#define OF(member) offsetof(struct check_arguments, member)

static const struct argument rows[] = {
    OPTION("model", 'm', "NAME[,key=value...]", text, model, "the network: a built-in one, a network file or an ONNX file",
           .required = true),
    OPTION("against", 0, "FILE.npz", text, options.against,
           "what another implementation computes in one step: input/KEY, labels, loss, output, gradient/NAME, statistic/NAME; "
           "without it the device is held against `reference`, on random data"),
    OPTION("tolerance", 0, "T", number, options.tolerance, "largest relative error of loss, outputs and gradients; 1e-4",
           RANGE(1e-12, 1e12)),
    OPTION("workers", 'w', "P", integer, options.workers, "cut the network into P stages, which must give the bits of one",
           RANGE(1, 1024)),
    OPTION_DEVICE(options.device),
    OPTION_THREADS(options.threads, "threads of the device"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) { ps_check_options_init(&((struct check_arguments *)values)->options); }

static enum ps_status judge(const struct ps_check *check, struct ps_error *error) {
    const struct ps_check_info info = ps_check_info(check);
    if (info.agrees) return PS_OK;
    return message_set(error, PS_FAILED, "%s: the relative error is %.2e, above the tolerance",
                       info.worst_name ? info.worst_name : "the network", info.worst);
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct check_arguments *arguments = values;
    struct ps_network *network;
    struct ps_check *check;
    CHECK(network_arguments_open(&arguments->network, arguments->model, &network, error));
    enum ps_status status = ps_check_run(network, &arguments->options, &check, error);
    ps_network_destroy(network);
    CHECK(status);
    status = output_text(arguments->common.json ? ps_check_json(check) : ps_check_table(check), error);
    if (status == PS_OK) status = judge(check, error);
    ps_check_destroy(check);
    return status;
}

const struct command command_check = {
    .name = "check",
    .summary = "holds a network against another implementation",
    .usage = "--model NAME [--against FILE.npz] [--init FILE] [--device NAME] [--workers P]",
    .description =
        {"Computes one step of training and compares outputs, loss, every gradient and every running statistic with "
         "those of a file (docs/formats.md), or of the device `reference`. Errors are relative: the largest absolute "
         "difference over the largest absolute value; of a gradient over the larger of its own and a hundredth of "
         "the network's largest gradient, and 1 where the network does not have the parameter. Status 1 where one is above "
         "the tolerance."},
    .example = "  penstock check --model mine.onnx --against mine.npz --workers 3",
    .size = sizeof(struct check_arguments),
    .groups = {{&group, 0}, {&network_group, OF(network)}, {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
