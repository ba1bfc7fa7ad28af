/* penstock export: trained weights as a file for others. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/output.h"

struct export_arguments {
    struct common_arguments common;
    const char *run, *output;
    int format, lora;
};

static const char *const formats[] = {"safetensors", NULL};
static const char *const forms[] = {"beside", "merged", "apart", NULL};

#define OF(member) offsetof(struct export_arguments, member)

static const struct argument rows[] = {
    OPTION("run", 'r', "RUN_DIR", text, run, "the run", .required = true),
    OPTION("format", 0, "NAME", choice, format, "of the file", .choices = formats),
    OPTION("lora", 0, "FORM", choice, lora,
           "of a network with adapters, as safetensors: weights and adapters beside each other; merged, the weights with "
           "their adapters added; or apart, adapters alone as PEFT reads them, with adapter_config.json in the same directory",
           .choices = forms),
    OPTION("output", 'o', "FILE", output, output, "the file to write", .required = true),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct export_arguments *arguments = values;
    const char *format = formats[arguments->format];
    if (arguments->lora > 0)
        CHECK(ps_export_lora(arguments->run, forms[arguments->lora], arguments->output, error));
    else
        CHECK(ps_export(arguments->run, format, arguments->output, error));
    if (output_is_taken(arguments->output)) return PS_OK;
    if (arguments->common.json) {
        printf("{\"file\": ");
        output_json_string(arguments->output);
        printf(", \"format\": \"%s\"}\n", format);
    } else {
        printf("%s: weights of %s as %s\n", arguments->output, arguments->run, format);
    }
    return PS_OK;
}

const struct command command_export = {
    .name = "export",
    .summary = "writes trained weights for others",
    .usage = "--run RUN_DIR -o FILE",
    .description = {"Writes the trained weights of a run as one file, with PyTorch's names, shapes and order of "
                    "elements."},
    .example = "  penstock export --run runs/lenet5 --format safetensors -o lenet5.safetensors",
    .size = sizeof(struct export_arguments),
    .groups = {{&group, 0}, {&common_group, 0}},
    .run = run,
};
