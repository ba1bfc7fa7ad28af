/* penstock models: the built-in networks, or the layers of one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/network.h"
#include "cli/output.h"

enum { NAME_WIDTH = 14 };

struct models_arguments {
    struct common_arguments common;
    const char *model, *output;
    struct network_arguments network;
    bool operators;
};

#define OF(member) offsetof(struct models_arguments, member)

static const struct argument rows[] = {
    OPTION("model", 'm', "NAME[,key=value...]", text, model,
           "the layers of this network; those of images take input= (pixels), channels=, classes=; those of texts seq= "
           "(tokens), vocab=; or a network file"),
    OPTION("output", 'o', "FILE", output, output,
           "write it as a network file, to be given wherever a model is named; FILE.onnx: as the ONNX file that it came from"),
    FLAG("operators", 0, operators, "the operators of network files, with their attributes and usual values",
         .excludes = "model"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void format_shape(const int64_t *shape, int rank, char out[96]) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < rank && used < 64; i++) {
        used += (size_t)snprintf(out + used, 96 - used, "%s%" PRId64, i > 0 ? " x " : "", shape[i]);
    }
}

/* "input 3 x 32 x 32", or each of several with its name and type. */
static void put_inputs(const struct ps_network *network) {
    int inputs = ps_network_info(network).inputs;
    char shape[96];
    printf("%s", inputs > 1 ? "inputs" : "input");
    for (int i = 0; i < inputs; i++) {
        struct ps_input input = ps_network_input(network, i);
        format_shape(input.shape, input.rank, shape);
        if (inputs > 1) printf("%s %s (%s)", i > 0 ? "," : "", input.name, input.type);
        printf(" %s", shape);
    }
}

static void put_inputs_json(const struct ps_network *network) {
    printf(", \"inputs\": [");
    for (int i = 0; i < ps_network_info(network).inputs; i++) {
        struct ps_input input = ps_network_input(network, i);
        printf("%s{\"name\": ", i > 0 ? ", " : "");
        output_json_string(input.name);
        printf(", \"type\": \"%s\", \"shape\": ", input.type);
        output_json_integers(input.shape, input.rank);
        printf(", \"vocabulary\": %d}", input.vocabulary);
    }
    printf("]");
}

/* The fields of a network, without the braces. */
static void put_model_json(const struct ps_network *network, const char *summary) {
    struct ps_network_info info = ps_network_info(network);
    printf("\"name\": ");
    output_json_string(info.name);
    if (summary != NULL) {
        printf(", \"summary\": ");
        output_json_string(summary);
    }
    printf(", \"hash\": \"%s\", \"layers\": %d, \"parameters\": %" PRId64 ", \"input_shape\": ", info.hash, info.layers,
           info.parameters);
    output_json_integers(info.input_shape, 3);
    put_inputs_json(network);
    printf(", \"classes\": %d, \"labels\": %d, \"vocabulary\": %d, \"forward_flops\": ", info.classes, info.labels,
           info.vocabulary);
    output_json_number(info.forward_flops);
}

static void put_layers_json(const struct ps_network *network) {
    int layers = ps_network_info(network).layers;
    printf("{");
    put_model_json(network, NULL);
    printf(", \"chain\": [\n");
    for (int i = 0; i < layers; i++) {
        struct ps_layer_info layer = ps_network_layer(network, i);
        printf("  {\"name\": ");
        output_json_string(layer.name);
        printf(", \"kind\": ");
        output_json_string(layer.kind);
        printf(", \"parameters\": %" PRId64 ", \"output_shape\": ", layer.parameters);
        output_json_integers(layer.output_shape, layer.output_rank);
        printf(", \"forward_flops\": ");
        output_json_number(layer.forward_flops);
        printf("}%s\n", i + 1 < layers ? "," : "");
    }
    printf("]}\n");
}

static void put_layers(const struct ps_network *network) {
    struct ps_network_info info = ps_network_info(network);
    char shape[96];
    printf("%s: %d layers, %" PRId64 " parameters, ", info.name, info.layers, info.parameters);
    put_inputs(network);
    printf(", %d classes, %.3f million operations a sample\n\n", info.classes, 1e-6 * info.forward_flops);
    int widest = (int)strlen("name");
    for (int i = 0; i < info.layers; i++) {
        const int width = (int)strlen(ps_network_layer(network, i).name);
        if (width > widest) widest = width;
    }
    printf("%5s  %-*s  %-18s %12s  %-16s %9s\n", "layer", widest, "name", "kind", "parameters", "output", "Mflop");
    for (int i = 0; i < info.layers; i++) {
        struct ps_layer_info layer = ps_network_layer(network, i);
        format_shape(layer.output_shape, layer.output_rank, shape);
        printf("%5d  %-*s  %-18s %12" PRId64 "  %-16s %9.3f\n", i + 1, widest, layer.name, layer.kind, layer.parameters, shape,
               1e-6 * layer.forward_flops);
    }
}

/* Entry `index` of the table of networks, as a row or as a JSON object. */
static enum ps_status put_entry(size_t index, bool json, struct ps_error *error) {
    struct ps_entry entry = ps_table_entry(PS_TABLE_MODELS, index);
    struct ps_network *network;
    CHECK(ps_network_open(entry.name, &network, error));
    if (json) {
        printf("  {");
        put_model_json(network, entry.summary);
        printf("}%s\n", index + 1 < ps_table_count(PS_TABLE_MODELS) ? "," : "");
    } else {
        struct ps_network_info info = ps_network_info(network);
        char shape[96];
        format_shape(info.input_shape, 3, shape);
        printf("%-*s %6d %12" PRId64 "  %-14s %7d  %s\n", NAME_WIDTH, entry.name, info.layers, info.parameters, shape,
               info.classes, entry.summary);
    }
    ps_network_destroy(network);
    return PS_OK;
}

static enum ps_status put_network(const struct models_arguments *arguments, struct ps_error *error) {
    struct ps_network *network;
    CHECK(network_arguments_open(&arguments->network, arguments->model, &network, error));
    enum ps_status status = arguments->output != NULL ? ps_network_write(network, arguments->output, error) : PS_OK;
    if (status == PS_OK && !output_is_taken(arguments->output)) {
        if (arguments->common.json) put_layers_json(network);
        if (!arguments->common.json) put_layers(network);
    }
    ps_network_destroy(network);
    return status;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct models_arguments *arguments = values;
    bool json = arguments->common.json;
    if (arguments->operators) return output_text(ps_network_operators(), error);
    if (arguments->model != NULL) return put_network(arguments, error);
    if (arguments->output != NULL) return message_set(error, PS_USAGE, "--model is missing; -o writes one network");
    if (json) printf("{\"models\": [\n");
    if (!json) printf("%-*s %6s %12s  %-14s %7s\n", NAME_WIDTH, "name", "layers", "parameters", "input", "classes");
    for (size_t i = 0; i < ps_table_count(PS_TABLE_MODELS); i++) CHECK(put_entry(i, json, error));
    if (json) printf("]}\n");
    return PS_OK;
}

const struct command command_models = {
    .name = "models",
    .summary = "lists the built-in networks",
    .usage = "[--model NAME [-o FILE] | --operators]",
    .description = {"Lists the built-in networks with their layers, parameters and input shape; with --model, the "
                    "layers of one. A pipeline is cut between layers. With -o the network becomes a file that can be "
                    "changed and given wherever a model is named (docs/formats.md)."},
    .example = "  penstock models --model vgg16,input=32,classes=100",
    .size = sizeof(struct models_arguments),
    .groups = {{&group, 0}, {&network_group, OF(network)}, {&common_group, 0}},
    .run = run,
};
