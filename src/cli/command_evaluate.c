/* penstock evaluate: loss and accuracy of trained weights. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "cli/network.h"
#include "cli/output.h"
#include "comm/launch.h"

struct evaluate_arguments {
    struct common_arguments common;
    struct network_arguments network;
    struct ps_evaluate_options options; /* without objects */
    const char *model, *data, *weights;
};

#define OF(member) offsetof(struct evaluate_arguments, member)

static const struct argument rows[] = {
    OPTION("run", 'r', "RUN_DIR", text, options.run, "the run whose weights are evaluated", .excludes = "weights model init"),
    OPTION("checkpoint", 0, "STEP|best|newest", text, options.checkpoint,
           "of the run: the one of a step, of its best evaluation (train --keep best) or the newest, which is the default"),
    OPTION("weights", 0, "FILE", text, weights, "older name of --init", .excludes = "init"),
    OPTION("model", 'm', "NAME[,key=value...]", text, model,
           "the network that the weights of --init belong to; an ONNX file has its own"),
    OPTION("data", 'd', "SPEC", text, data, "what to evaluate on; of a format with two parts the test part", .required = true),
    OPTION("batch", 'b', "N", integer, options.batch, "samples that are computed together; 64 where nothing is said",
           RANGE(1, 1 << 20)),
    OPTION("beam", 0, "N", integer, options.beam,
           "of translations: hypotheses that are kept for each sentence; 1, the default, is greedy", RANGE(1, 1000)),
    OPTION("translations", 0, "FILE", output, options.translations, "of translations: gets them, a line each"),
    OPTION("workers", 'w', "P", integer, options.workers,
           "of a run: so many workers evaluate, for networks that are too large for one; under mpirun all its processes do",
           RANGE(1, 1024)),
    OPTION_DEVICE(options.device),
    OPTION_THREADS(options.threads, "threads of the device"),
};
static const struct argument_group group = ARGUMENT_GROUP("Options", rows);

static enum ps_status evaluate(const struct evaluate_arguments *arguments, struct ps_evaluation *evaluation,
                               struct ps_error *error) {
    struct ps_evaluate_options options = arguments->options;
    struct ps_network *network = NULL;
    struct ps_dataset *data = NULL;
    struct network_arguments of = arguments->network;
    if (arguments->weights != NULL) {
        fprintf(stderr, "warning: --weights FILE is now called --init FILE\n");
        of.init = arguments->weights;
    }
    if (options.run == NULL && arguments->model == NULL)
        return message_set(error, PS_USAGE, "--run RUN_DIR, or --model NAME and --init FILE, must be given");
    /* Ranks share the work on a run; on other weights the first is enough. */
    const struct launch launch = launch_find();
    if (options.run != NULL && launch.count > 1) options.transport = "mpi";
    CHECK(network_arguments_open(&of, arguments->model, &network, error));
    enum ps_status status = ps_dataset_open(arguments->data, NULL, &data, error);
    options.network = network;
    options.data = data;
    if (status == PS_OK) status = ps_evaluate(&options, evaluation, error);
    ps_dataset_destroy(data);
    ps_network_destroy(network);
    return status;
}

static void defaults(void *values) { ps_evaluate_options_init(&((struct evaluate_arguments *)values)->options); }

static enum ps_status run(const void *values, struct ps_error *error) {
    const struct evaluate_arguments *arguments = values;
    struct ps_evaluation evaluation;
    const int rank = launch_find().rank;
    if (rank > 0 && arguments->options.run == NULL) return PS_OK;
    CHECK(evaluate(arguments, &evaluation, error));
    if (rank > 0) return PS_OK;
    if (output_is_taken(arguments->options.translations)) return PS_OK;
    if (arguments->common.json) {
        printf("{\"loss\": ");
        output_json_number(evaluation.loss);
        if (isfinite(evaluation.accuracy)) {
            printf(", \"accuracy\": ");
            output_json_number(evaluation.accuracy);
        }
        if (isfinite(evaluation.top5)) {
            printf(", \"top5\": ");
            output_json_number(evaluation.top5);
        }
        if (isfinite(evaluation.perplexity)) {
            printf(", \"perplexity\": ");
            output_json_number(evaluation.perplexity);
        }
        if (!isnan(evaluation.bleu)) {
            printf(", \"bleu\": ");
            output_json_number(evaluation.bleu);
        }
        printf(", \"samples\": %" PRId64 "}\n", evaluation.samples);
    } else {
        if (!isnan(evaluation.bleu)) printf("BLEU %.2f, ", evaluation.bleu);
        printf("loss %.4f", evaluation.loss);
        if (isfinite(evaluation.accuracy)) printf(", accuracy %.2f%%", 100 * evaluation.accuracy);
        if (isfinite(evaluation.top5)) printf(", top 5 %.2f%%", 100 * evaluation.top5);
        if (isfinite(evaluation.perplexity)) printf(", perplexity %.2f", evaluation.perplexity);
        printf(" on %" PRId64 " samples\n", evaluation.samples);
    }
    return PS_OK;
}

const struct command command_evaluate = {
    .name = "evaluate",
    .summary = "loss and accuracy of a trained network",
    .usage = "(--run RUN_DIR | --init FILE --model NAME) --data SPEC",
    .description = {"Evaluates the weights of a run, or of a file, on data. Pairs of sentences are also "
                    "translated, and the translations held against the pairs' (BLEU as sacrebleu counts it, tokens "
                    "13a)."},
    .example = "  penstock evaluate --run runs/lenet5 --data idx:data/fashion_mnist",
    .size = sizeof(struct evaluate_arguments),
    .groups = {{&group, 0}, {&network_group, OF(network)}, {&common_group, 0}},
    .defaults = defaults,
    .every_rank = true,
    .run = run,
};
