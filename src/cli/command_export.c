/* penstock export: trained weights as a file for others. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"

struct export_arguments {
    struct common_arguments common;
    struct ps_export_options options;
    int format, lora;
};

static const char *const formats[] = {"safetensors", "onnx", NULL};
static const char *const forms[] = {"beside", "merged", "apart", NULL};

#define OF(member) offsetof(struct export_arguments, member)

static const struct argument rows[] = {
    OPTION("run", 'r', "RUN_DIR", text, options.run, "the run", .required = true),
    OPTION("checkpoint", 0, "STEP|best|newest", text, options.checkpoint,
           "of the run: the one of a step, of its best evaluation (train --keep best) or the newest, which is the default"),
    OPTION("format", 0, "NAME", choice, format, "of the file", .choices = formats),
    OPTION("lora", 0, "FORM", choice, lora,
           "of a network with adapters, as safetensors: weights and adapters beside each other; merged, the weights with "
           "their adapters added; or apart, adapters alone as PEFT reads them, with adapter_config.json in the same directory",
           .choices = forms),
    OPTION("output", 'o', "FILE", output, options.path, "the file to write", .required = true),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static const struct argument onnx_rows[] = {
    FLAG("training", 0, options.training,
         "keeps batch norms and dropout as they compute in training; else they are as at inference"),
    FLAG("annotate-stages", 0, options.annotate_stages,
         "says in which stage of the run's plan each node is (pipeline_stage of ONNX 1.18)"),
    FLAG("external-data", 0, options.external_data,
         "writes the weights into a file beside it, FILE.data; done in any case where they have 2 GB or more"),
};
static const struct argument_group onnx_group = ARGUMENT_GROUP("ONNX", onnx_rows);

static void defaults(void *values) { ps_export_options_init(&((struct export_arguments *)values)->options); }

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct export_arguments *arguments = values;
    struct ps_export_options options = arguments->options;
    options.format = formats[arguments->format];
    const bool onnx = strcmp(options.format, "onnx") == 0, merged = strcmp(forms[arguments->lora], "merged") == 0;
    if (arguments->lora > 0 && !(onnx && merged)) options.lora = forms[arguments->lora];
    CHECK(ps_export_run(&options, error));
    if (output_is_taken(options.path)) return PS_OK;
    if (arguments->common.json) {
        printf("{\"file\": ");
        output_json_string(options.path);
        printf(", \"format\": \"%s\"}\n", options.format);
    } else {
        printf("%s: weights of %s as %s\n", options.path, options.run, options.format);
    }
    return PS_OK;
}

const struct command command_export = {
    .name = "export",
    .summary = "writes trained weights for others",
    .usage = "--run RUN_DIR [--format safetensors|onnx] -o FILE",
    .description = {"Writes the trained weights of a run as one file, with PyTorch's names, shapes and order of "
                    "elements.",
                    "As onnx: the ONNX file that the network came from (--model FILE.onnx), with trained weights and running "
                    "statistics in place of its own, ready for inference; the file itself is not needed any more."},
    .example = "  penstock export --run runs/lenet5 --format safetensors -o lenet5.safetensors\n"
               "  penstock export --run runs/own --format onnx -o trained.onnx",
    .size = sizeof(struct export_arguments),
    .groups = {{&group, 0}, {&onnx_group, 0}, {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
