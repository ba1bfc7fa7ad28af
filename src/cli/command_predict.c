/* penstock predict: what a trained network computes of data. */
#include <stdio.h>

#include "cli/network.h"
#include "cli/output.h"

struct predict_arguments {
    struct common_arguments common;
    struct network_arguments network;
    struct ps_predict_options options; /* without objects */
    const char *model, *data;
};

#define OF(member) offsetof(struct predict_arguments, member)

static const struct argument rows[] = {
    OPTION("run", 'r', "RUN_DIR", text, options.run, "the run whose weights predict", .excludes = "model"),
    OPTION("model", 'm', "NAME[,key=value...]", text, model, "or a network, with its own weights or those of --init"),
    OPTION("data", 'd', "SPEC", text, data,
           "what to predict; of a format with two parts the test part. Arrays and tables need no target", .required = true),
    OPTION("output", 'o', "FILE", output, options.path,
           "gets the predictions: CSV, a line each, or FILE.npz, what the network computes and the labels as arrays",
           .required = true),
    OPTION("batch", 'b', "N", integer, options.batch, "samples that are computed together; 64 where nothing is said",
           RANGE(1, 1 << 20)),
    OPTION_DEVICE(options.device),
    OPTION_THREADS(options.threads, "threads of the device"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static void defaults(void *values) { ps_predict_options_init(&((struct predict_arguments *)values)->options); }

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct predict_arguments *arguments = values;
    struct ps_predict_options options = arguments->options;
    struct ps_network *network = NULL;
    struct ps_dataset *data = NULL;
    if (options.run == NULL && arguments->model == NULL)
        return message_set(error, PS_USAGE, "--run RUN_DIR or --model NAME must be given");
    CHECK(network_arguments_open(&arguments->network, arguments->model, &network, error));
    enum ps_status status = ps_dataset_open(arguments->data, NULL, &data, error);
    options.network = network;
    options.data = data;
    if (status == PS_OK) status = ps_predict(&options, error);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
    if (status != PS_OK || output_is_taken(options.path)) return status;
    if (arguments->common.json) {
        printf("{\"file\": ");
        output_json_string(options.path);
        printf("}\n");
    } else {
        printf("%s: predictions of %s\n", options.path, arguments->data);
    }
    return PS_OK;
}

const struct command command_predict = {
    .name = "predict",
    .summary = "what a trained network computes of data",
    .usage = "(--run RUN_DIR | --model NAME --init FILE) --data SPEC -o FILE",
    .description = {"Computes the network's output for each sample. As CSV, a line for each sample, or for each position of "
                    "those with several labels, has its number, the most probable class and its probability; for networks "
                    "that compute numbers (mse, l1) these, for bce the probability of each class. As .npz the array "
                    "\"output\" holds what the loss reads (logits), in PyTorch's shape, and \"labels\" the labels."},
    .example = "  penstock predict --run runs/lenet5 --data idx:data/fashion_mnist -o predictions.csv\n"
               "  penstock predict --model trained.onnx --data npz:unseen.npz -o outputs.npz",
    .size = sizeof(struct predict_arguments),
    .groups = {{&group, 0}, {&network_group, OF(network)}, {&common_group, 0}},
    .defaults = defaults,
    .run = run,
};
