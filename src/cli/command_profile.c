/* penstock profile: measures what each layer of a network costs. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/output.h"

struct profile_arguments {
    struct common_arguments common;
    const char *model, *output;
    struct integers micro_batches;
    int split_for;
    struct ps_profile_options options;
};

#define OF(member) offsetof(struct profile_arguments, member)

static const struct argument rows[] = {
    {.name = "model",
     .letter = 'm',
     .value = "NAME[,key=value...]",
     .help = "a built-in network, as `penstock models` lists them",
     .offset = OF(model),
     .read = argument_read_text,
     .required = true},
    {.name = "micro-batch",
     .value = "N[,N...]",
     .help = "samples in a micro-batch: one size or several; 16 where nothing is said",
     .offset = OF(micro_batches),
     .read = argument_read_integers,
     .low = 1,
     .high = 1 << 20},
    {.name = "device",
     .value = "NAME",
     .help = "what computes, or whose costs are worked out",
     .offset = OF(options.device),
     .read = argument_read_name,
     .table = PS_TABLE_PROFILE_DEVICES},
    ARGUMENT_THREADS(OF(options.threads), "threads of a worker"),
    {.name = "busy",
     .value = "P",
     .help = "measure while P workers compute side by side, as they will on one machine; 2 where nothing is said and there are "
             "cores for them",
     .offset = OF(options.busy),
     .read = argument_read_integer,
     .low = 1,
     .high = 1024},
    {.name = "repeats",
     .value = "N",
     .help = "measurements of each time, of which the median counts; 9 or, of a small network, more where nothing is said",
     .offset = OF(options.repeats),
     .read = argument_read_integer,
     .low = 1,
     .high = 10000},
    {.name = "split-for",
     .value = "P",
     .help = "split layers inside, where that evens out the work of P workers",
     .offset = OF(split_for),
     .read = argument_read_integer,
     .low = 2,
     .high = 1024},
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "write the profile here",
     .offset = OF(output),
     .read = argument_read_output},
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) {
    struct profile_arguments *arguments = values;
    arguments->micro_batches = (struct integers){.values = {16}, .count = 1};
}

static enum ps_status put_profile(const struct profile_arguments *arguments, const struct ps_profile *profile,
                                  struct ps_error *error) {
    if (arguments->output != NULL) CHECK(ps_profile_write(profile, arguments->output, error));
    return output_text(arguments->common.json ? ps_profile_json(profile) : ps_profile_table(profile), error);
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct profile_arguments *arguments = values;
    struct ps_profile_options options = arguments->options;
    options.micro_batches = arguments->micro_batches.values;
    options.micro_batch_count = arguments->micro_batches.count;
    struct ps_model *model;
    CHECK(ps_model_create(arguments->model, &model, error));
    struct ps_profile *profile;
    enum ps_status status = arguments->split_for > 0
                                ? ps_profile_measure_split(model, &options, arguments->split_for, &profile, error)
                                : ps_profile_measure(model, &options, &profile, error);
    ps_model_destroy(model);
    if (status != PS_OK) return status;
    status = put_profile(arguments, profile, error);
    ps_profile_destroy(profile);
    return status;
}

const struct command command_profile = {
    .name = "profile",
    .summary = "measures the costs of a network's layers",
    .usage = "--model NAME [--micro-batch N[,N...]] [-o FILE]",
    .description = {"Measures the forward, both halves of the backward and the update of every layer on this "
                    "machine, and counts the bytes of parameters, of what crosses the cut after the layer and of "
                    "what the backward needs. For a board (fpga:...) or a GPU (gpu:v100) the times are worked out "
                    "from the arithmetic instead. The profile is what plans are made from."},
    .example = "  penstock profile --model vgg16,input=32 --micro-batch 8,16 -o vgg16.json",
    .size = sizeof(struct profile_arguments),
    .groups = {{&group, 0}, {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
