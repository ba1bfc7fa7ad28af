/* penstock predict: what a trained network computes of data, and texts that it writes. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/network.h"
#include "cli/output.h"
#include "comm/launch.h"

struct predict_arguments {
    struct common_arguments common;
    struct network_arguments network;
    struct ps_predict_options options; /* without objects */
    struct ps_generate_options text;   /* likewise */
    const char *model, *data;
    uint64_t seed;
};

#define OF(member) offsetof(struct predict_arguments, member)

static const struct argument rows[] = {
    OPTION("run", 'r', "RUN_DIR", text, options.run, "the run whose weights predict", .excludes = "model"),
    OPTION("checkpoint", 0, "STEP|best|newest", text, options.checkpoint,
           "of the run: the one of a step, of its best evaluation (train --keep best) or the newest, which is the default"),
    OPTION("model", 'm', "NAME[,key=value...]", text, model, "or a network, with its own weights or those of --init"),
    OPTION("data", 'd', "SPEC", text, data,
           "what to predict; of a format with two parts the test part. Arrays and tables need no target", .excludes = "prompt"),
    OPTION("output", 'o', "FILE", output, options.path,
           "gets the predictions: CSV, a line each, FILE.json, FILE.jsonl, or FILE.npz, what the network computes and the "
           "labels as "
           "arrays. Without it they are a table on standard output"),
    OPTION("format", 0, "NAME", text, options.format, "csv, json, jsonl, npz or table, whatever the file is called",
           .excludes = "prompt"),
    OPTION("beam", 0, "N", integer, options.beam,
           "of translations: hypotheses that are kept for each sentence; 1, the default, is greedy", RANGE(1, 1000),
           .excludes = "prompt"),
    OPTION("batch", 'b', "N", integer, options.batch, "samples that are computed together; 64 where nothing is said",
           RANGE(1, 1 << 20), .excludes = "prompt"),
    OPTION("workers", 'w', "P", integer, options.workers,
           "of a run: so many workers predict, for networks that are too large for one; under mpirun all its processes do",
           RANGE(1, 1024), .excludes = "prompt model"),
    OPTION_DEVICE(options.device),
    OPTION_THREADS(options.threads, "threads of the device"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static const struct argument text_rows[] = {
    OPTION("prompt", 0, "TEXT", text, text.prompt, "what the network goes on with, on standard output or in --output"),
    OPTION("tokens", 0, "N", integer, text.tokens, "tokens that it adds; 100 where nothing is said", RANGE(1, 1 << 24),
           .excludes = "data"),
    OPTION("temperature", 0, "T", number, text.temperature,
           "divides the logits, 1 where nothing is said; 0: always the most probable token", RANGE(0, 1e6), .excludes = "data"),
    OPTION("top-k", 0, "K", integer, text.top_k, "draws from the K most probable tokens; else from all", RANGE(1, 1 << 24),
           .excludes = "data"),
    OPTION("seed", 0, "N", seed, seed, "of what is drawn; 0 where nothing is said", .excludes = "data"),
    OPTION("vocabulary", 0, "FILE", text, text.vocabulary, "with --model: a run's vocabulary.json, which numbers the text",
           .excludes = "tokenizer data"),
    OPTION("tokenizer", 0, "FILE", text, text.tokenizer,
           "or a tokenizer.json of Hugging Face; with neither the prompt is the numbers of its tokens", .excludes = "data"),
};
static const struct argument_group text_group = ARGUMENT_GROUP("Texts", text_rows);

static void defaults(void *values) {
    struct predict_arguments *arguments = values;
    ps_predict_options_init(&arguments->options);
    ps_generate_options_init(&arguments->text);
}

static enum ps_status write_text(const struct predict_arguments *arguments, const struct ps_network *network,
                                 struct ps_error *error) {
    struct ps_generate_options options = arguments->text;
    const char *path = arguments->options.path;
    char *text;
    options.run = arguments->options.run;
    options.checkpoint = arguments->options.checkpoint;
    options.network = network;
    options.device = arguments->options.device;
    options.threads = arguments->options.threads;
    options.seed = arguments->seed;
    options.path = path;
    CHECK(ps_generate(&options, &text, error));
    if (path == NULL && !arguments->common.json) return output_text(text, error);
    if (path == NULL) {
        printf("{\"text\": ");
        output_json_string(text);
        printf("}\n");
    }
    free(text);
    return PS_OK;
}

static enum ps_status predict(const struct predict_arguments *arguments, const struct ps_network *network,
                              struct ps_error *error) {
    struct ps_predict_options options = arguments->options;
    struct ps_dataset *data;
    if (arguments->data == NULL) return message_set(error, PS_USAGE, "--data SPEC, or --prompt TEXT, must be given");
    if (options.path == NULL) {
        options.path = OUTPUT_STANDARD;
        if (options.format == NULL) options.format = arguments->common.json ? "json" : "table";
    }
    /* Ranks share the work on a run. */
    if (launch_find().count > 1 && options.run != NULL) options.transport = "mpi";
    CHECK(ps_dataset_open(arguments->data, NULL, &data, error));
    options.network = network;
    options.data = data;
    enum ps_status status = ps_predict(&options, error);
    ps_dataset_destroy(data);
    if (status != PS_OK || output_is_taken(options.path) || launch_find().rank > 0) return status;
    if (arguments->common.json) {
        printf("{\"file\": ");
        output_json_string(options.path);
        printf("}\n");
    } else {
        printf("%s: predictions of %s\n", options.path, arguments->data);
    }
    return PS_OK;
}

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct predict_arguments *arguments = values;
    struct ps_network *network = NULL;
    if (arguments->options.run == NULL && arguments->model == NULL)
        return message_set(error, PS_USAGE, "--run RUN_DIR or --model NAME must be given");
    /* A text, and what a network without a run computes, is the first rank's. */
    if (launch_find().rank > 0 && (arguments->options.run == NULL || arguments->text.prompt != NULL)) return PS_OK;
    CHECK(network_arguments_open(&arguments->network, arguments->model, &network, error));
    enum ps_status status =
        arguments->text.prompt != NULL ? write_text(arguments, network, error) : predict(arguments, network, error);
    ps_network_destroy(network);
    return status;
}

const struct command command_predict = {
    .name = "predict",
    .summary = "what a trained network computes of data, or writes",
    .usage = "(--run RUN_DIR | --model NAME --init FILE) (--data SPEC [-o FILE] | --prompt TEXT)",
    .description = {"Computes the network's output for each sample. As CSV, a line for each sample, or for each position of "
                    "those with several labels, has its number, the most probable class and its probability; for networks "
                    "that compute numbers (mse, l1) these, for bce the probability of each class; pairs of sentences are "
                    "translated. As .npz the array "
                    "\"output\" holds what the loss reads (logits), in PyTorch's shape, and \"labels\" the labels.",
                    "With --prompt a language model goes on with a text."},
    .example = "  penstock predict --run runs/lenet5 --data idx:data/fashion_mnist@0-10\n"
               "  penstock predict --run runs/lenet5 --data idx:data/fashion_mnist -o predictions.csv\n"
               "  penstock predict --model trained.onnx --data npz:unseen.npz -o outputs.npz\n"
               "  penstock predict --run runs/gpt2 --prompt 'Once upon a time' --tokens 200 --temperature 0.8 --top-k 40",
    .size = sizeof(struct predict_arguments),
    .groups = {{&group, 0}, {&text_group, 0}, {&network_group, OF(network)}, {&common_group, 0}},
    .defaults = defaults,
    .every_rank = true,
    .run = run,
};
