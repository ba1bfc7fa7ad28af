/* Loss and accuracy of trained weights, and what else a network computes of data: the whole network as one stage on one worker.
 */
#include "eval/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/versioned.h"
#include "compute/figures.h"
#include "data/loader.h"
#include "data/object.h"
#include "data/pairs.h"
#include "data/vocabulary.h"
#include "eval/trained.h"
#include "eval/translate.h"
#include "exec/executor.h"
#include "graph/network.h"
#include "store/checkpoint.h"

enum { BATCH_DEFAULT = 64, BATCHES_AHEAD = 2 };

struct evaluator {
    const struct ps_evaluate_options *options;
    const struct evaluation_watch *watch; /* NULL: the loss is what counts */
    int batch;
    struct samples samples;
    struct trained trained;
    struct loader *loader;
    struct class_names names;
    float *output; /* of a batch, for the watch */
    char *staging; /* the input block of a network with several inputs, put together in the host's memory; else NULL */
};

static enum ps_status check(const struct ps_evaluate_options *options, struct ps_error *error) {
    if (!options->data) return error_set(error, PS_USAGE, "`data`: missing");
    if (options->beam < 0) return error_set(error, PS_USAGE, "`beam`: %d is less than 1", options->beam);
    if (options->batch < 0) return error_set(error, PS_USAGE, "`batch`: %d is less than 1", options->batch);
    return PS_OK;
}

/* Text is numbered by the run's vocabulary and by no other, which could differ. */
static enum ps_status check_words(const struct evaluator *evaluator, struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    const char *data = dataset_spec(options->data);
    if (!options->run || evaluator->trained.words[0] || evaluator->trained.network->vocabulary == 0) return PS_OK;
    if (!data || !samples_have_words(data) || strstr(data, ",vocab=") || strstr(data, ",tokenizer=")) return PS_OK;
    error_set(error, PS_BAD_INPUT, "%s/vocabulary.json: missing; the run's token numbers are defined by this vocabulary file",
              options->run);
    error_hint(error, "where it was moved, add ,vocab=FILE to the data");
    return PS_BAD_INPUT;
}

static enum ps_status open_inputs(struct evaluator *evaluator, struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    TRY(trained_open(options->run, options->checkpoint, options->network, &evaluator->trained, error));
    TRY(check_words(evaluator, error));
    struct dataset_shape wanted = dataset_shape_of(evaluator->trained.network);
    memcpy(wanted.words, evaluator->trained.words, sizeof wanted.words);
    wanted.words_needed = true;
    wanted.unlabelled = evaluator->watch != NULL;
    TRY(dataset_use(options->data, DATASET_TEST, &wanted, &evaluator->samples, error));
    if (evaluator->watch) TRY(class_names_find(options->run, evaluator->samples.dataset, &evaluator->names, error));
    struct loader_options loader = {.samples = &evaluator->samples,
                                    .batch = evaluator->batch,
                                    .inputs = true,
                                    .targets = true,
                                    .class_weights = evaluator->trained.network->graph->class_weights,
                                    .ahead = BATCHES_AHEAD};
    return loader_create(&loader, &evaluator->loader, error);
}

static enum ps_status make_staging(struct evaluator *evaluator, struct ps_error *error) {
    if (evaluator->trained.network->graph->input_count == 1) return PS_OK;
    return memory_new(&evaluator->staging, stage_sizes(evaluator->trained.stage).input_bytes, "evaluation", error);
}

struct shape evaluated_shape(const struct graph *graph) {
    struct shape shape = graph->nodes[graph->nodes[graph->node_count - 1].inputs[0]].shape;
    shape.type = TYPE_F32; /* in which it is handed on */
    return shape;
}

/* What was computed of the batch, in the host's memory. */
static enum ps_status watch_batch(struct evaluator *evaluator, int64_t number, const struct loaded_batch *batch,
                                  struct ps_error *error) {
    const struct trained *trained = &evaluator->trained;
    const struct shape shape = evaluated_shape(trained->network->graph);
    const int64_t first = number * evaluator->batch;
    const int64_t count = shape_elements(&shape) * evaluator->batch;
    if (!evaluator->output) TRY(memory_new(&evaluator->output, count, "outputs", error));
    stage_take_output(trained->stage, &trained->blocks, evaluator->output);
    const struct evaluated_batch seen = {.network = trained->network,
                                         .shape = shape,
                                         .output = evaluator->output,
                                         .targets = evaluator->samples.dataset->shape.unlabelled ? NULL : batch->targets,
                                         .first = first,
                                         .total = evaluator->samples.count,
                                         .index = evaluator->samples.first + first,
                                         .samples = batch->samples,
                                         .names = &evaluator->names};
    return evaluator->watch->take(evaluator->watch->context, &seen, error);
}

static enum ps_status run_batch(struct evaluator *evaluator, int64_t number, struct stage_result *sum, struct ps_error *error) {
    size_t bytes = dataset_input_bytes(&evaluator->samples.dataset->shape) * (size_t)evaluator->batch;
    struct loaded_batch batch;
    TRY(loader_get(evaluator->loader, number, &batch, error));
    if (evaluator->staging) {
        stage_pack_inputs(evaluator->trained.stage, batch.inputs, evaluator->staging);
        bytes = (size_t)stage_sizes(evaluator->trained.stage).input_bytes;
    }
    device_copy(evaluator->trained.device, evaluator->trained.blocks.input,
                evaluator->staging ? evaluator->staging : batch.inputs, bytes);
    struct stage_step step = {.target = batch.targets, .samples = batch.samples};
    struct stage_result result = {0};
    TRY(stage_forward(evaluator->trained.stage, &evaluator->trained.blocks, &step, &result, error));
    device_finish(evaluator->trained.device);
    TRY(device_check(evaluator->trained.device, error));
    if (evaluator->watch) TRY(watch_batch(evaluator, number, &batch, error));
    loader_release(evaluator->loader, number);
    stage_result_add(sum, &result);
    return PS_OK;
}

/* A line each. */
static enum ps_status watch_sentences(struct evaluator *evaluator, char *text, struct ps_error *error) {
    int64_t index = evaluator->samples.first;
    for (char *line = text, *end; evaluator->watch && (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        TRY(evaluator->watch->sentence(evaluator->watch->context, index++, line, error));
    }
    return PS_OK;
}

static enum ps_status translate_samples(struct evaluator *evaluator, const struct graph *graph, double *bleu,
                                        struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    struct bleu counts = {0};
    struct text sentences = {0};
    TRY(trained_make_stage(&evaluator->trained, graph, evaluator->batch, error));
    struct translation_options translation = {.stage = evaluator->trained.stage,
                                              .graph = graph,
                                              .device = evaluator->trained.device,
                                              .blocks = evaluator->trained.blocks,
                                              .rows = evaluator->batch,
                                              .beam = options->beam > 0 ? options->beam : 1,
                                              .samples = &evaluator->samples};
    if (options->translations || evaluator->watch) translation.sentences = &sentences;
    enum ps_status status = translate(&translation, &counts, error);
    char *text = text_take(&sentences);
    if (status == PS_OK) status = memory_check(text, "translations", error);
    if (status == PS_OK && options->translations) status = file_write(options->translations, text, strlen(text), error);
    if (status == PS_OK) status = watch_sentences(evaluator, text, error);
    free(text);
    if (status == PS_OK) *bleu = bleu_score(&counts);
    return status;
}

/* Translates what is a translation, with a network that takes the place of the one that was evaluated; `bleu` stays NaN for
 * other data. */
static enum ps_status run_translation(struct evaluator *evaluator, double *bleu, struct ps_error *error) {
    struct ps_network *stepping;
    if (!dataset_has_pairs(evaluator->samples.dataset)) return PS_OK;
    trained_free_stage(&evaluator->trained);
    TRY(network_create_stepping(evaluator->trained.network, &stepping, error));
    enum ps_status status = translate_samples(evaluator, stepping->graph, bleu, error);
    trained_free_stage(&evaluator->trained);
    ps_network_destroy(stepping);
    return status;
}

static enum ps_status check_translation(const struct evaluator *evaluator, struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    if (options->beam > evaluator->batch) {
        return error_set(error, PS_USAGE, "`beam`: %d hypotheses need a `batch` of at least as many, and it is %d",
                         options->beam, evaluator->batch);
    }
    if (dataset_has_pairs(evaluator->samples.dataset) || (options->beam == 0 && !options->translations)) return PS_OK;
    return error_set(error, PS_USAGE, "%s: %s are no pairs of sentences", options->beam > 0 ? "`beam`" : "`translations`",
                     options->data->name);
}

static enum ps_status run(struct evaluator *evaluator, struct ps_evaluation *evaluation, struct ps_error *error) {
    TRY(open_inputs(evaluator, error));
    TRY(check_translation(evaluator, error));
    TRY(trained_open_device(&evaluator->trained, evaluator->options->device, evaluator->options->threads, error));
    if (evaluator->watch && dataset_has_pairs(evaluator->samples.dataset)) {
        double unused;
        TRY(run_translation(evaluator, &unused, error));
        return evaluator->watch->finish(evaluator->watch->context, evaluator->trained.network, error);
    }
    TRY(trained_make_stage(&evaluator->trained, evaluator->trained.network->graph, evaluator->batch, error));
    TRY(make_staging(evaluator, error));
    int64_t batches = loader_batches(evaluator->loader);
    struct stage_result sum = {0};
    for (int64_t number = 0; number < batches; number++) {
        TRY(run_batch(evaluator, number, &sum, error));
        log_progress(evaluator->watch ? "predicting" : "evaluating", (double)(number + 1), (double)batches, "%s", "");
    }
    if (evaluator->watch) return evaluator->watch->finish(evaluator->watch->context, evaluator->trained.network, error);
    if (sum.weight == 0) return error_set(error, PS_USAGE, "`data`: no label of %s counts", evaluator->options->data->name);
    if (!isfinite(sum.loss))
        return error_set(error, PS_FAILED, "the loss is not a number: the weights or the data are not usable");
    double bleu = NAN;
    TRY(run_translation(evaluator, &bleu, error));
    const struct figures figures = figures_of(evaluator->trained.network, &sum);
    *evaluation = (struct ps_evaluation){.loss = figures.loss,
                                         .accuracy = figures.accuracy,
                                         .perplexity = figures.perplexity,
                                         .bleu = bleu,
                                         .samples = evaluator->samples.count,
                                         .top5 = figures.top5};
    return PS_OK;
}

void ps_evaluate_options_init(struct ps_evaluate_options *options) {
    *options = (struct ps_evaluate_options){.struct_size = sizeof *options};
}

static enum ps_status evaluate(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                               struct ps_evaluation *evaluation, struct ps_error *error) {
    TRY(log_check(options->log, error));
    TRY(check(options, error));
    const struct ps_log_sink *log = log_use(options->log);
    struct evaluator evaluator = {
        .options = options, .watch = watch, .batch = options->batch > 0 ? options->batch : BATCH_DEFAULT};
    enum ps_status status = run(&evaluator, evaluation, error);
    loader_destroy(evaluator.loader);
    free(evaluator.staging);
    free(evaluator.output);
    class_names_free(&evaluator.names);
    trained_free_stage(&evaluator.trained);
    samples_close(&evaluator.samples);
    trained_close(&evaluator.trained);
    log_restore(log);
    return status;
}

enum ps_status evaluate_watched(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                                struct ps_error *error) {
    struct ps_evaluation none;
    return evaluate(options, watch, &none, error);
}

enum ps_status evaluate_alone(const struct ps_evaluate_options *options, struct ps_evaluation *evaluation,
                              struct ps_error *error) {
    return evaluate(options, NULL, evaluation, error);
}
