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
#include "eval/translate.h"
#include "exec/executor.h"
#include "graph/network.h"
#include "store/checkpoint.h"

enum { BATCH_DEFAULT = 64, BATCHES_AHEAD = 2 };

/* The network on the device, with its weights. */
struct loaded_network {
    struct stage *stage;
    struct memory_block memory;
    struct stage_blocks blocks;
};

struct evaluator {
    const struct ps_evaluate_options *options;
    const struct evaluation_watch *watch; /* NULL: the loss is what counts */
    int batch;
    const struct ps_network *network;
    struct ps_network *own_network; /* made here; NULL: it is the caller's */
    struct weight_files weights;
    struct vocabulary *words[2]; /* the run's, where it has some */
    struct samples samples;
    struct device *device;
    struct loaded_network loaded;
    struct loader *loader;
    float *output; /* of a batch, for the watch */
    char *staging; /* the input block of a network with several inputs, put together in the host's memory; else NULL */
};

static enum ps_status check(const struct ps_evaluate_options *options, struct ps_error *error) {
    if (!options->run && !options->network) return error_set(error, PS_USAGE, "one of `run` and `network` must be given");
    if (options->run && options->network)
        return error_set(error, PS_USAGE, "`network`: cannot be given with `run`, which determines it");
    if (!options->data) return error_set(error, PS_USAGE, "`data`: missing");
    if (options->beam < 0) return error_set(error, PS_USAGE, "`beam`: %d is less than 1", options->beam);
    if (options->batch < 0) return error_set(error, PS_USAGE, "`batch`: %d is less than 1", options->batch);
    return PS_OK;
}

/* The vocabulary that numbers the tokens of the run's text. Evaluated text must not have a vocabulary of its own, which could
 * differ. */
static enum ps_status read_words(struct evaluator *evaluator, struct ps_error *error) {
    char path[4096];
    const char *data = dataset_spec(evaluator->options->data);
    file_join(path, evaluator->options->run, "vocabulary.json");
    if (file_exists(path)) return vocabulary_read(path, evaluator->words, error);
    const bool named = data && (strstr(data, ",vocab=") || strstr(data, ",tokenizer="));
    if (evaluator->network->vocabulary == 0 || !data || !samples_have_words(data) || named) return PS_OK;
    error_set(error, PS_BAD_INPUT, "%s: missing; the run's token numbers are defined by this vocabulary file", path);
    error_hint(error, "where it was moved, add ,vocab=FILE to the data");
    return PS_BAD_INPUT;
}

/* The network that the run keeps; old ones only have a plan that names one. */
static enum ps_status open_run(struct evaluator *evaluator, struct ps_error *error) {
    char path[4096];
    struct ps_plan *plan;
    TRY(ps_plan_read(file_join(path, evaluator->options->run, "plan.json"), &plan, error));
    file_join(path, evaluator->options->run, "network.json");
    enum ps_status status = ps_network_open(file_exists(path) ? path : plan->model, &evaluator->own_network, error);
    evaluator->network = evaluator->own_network;
    if (status == PS_OK) status = network_check(evaluator->network, "the run's plan", plan->model, plan->network, error);
    ps_plan_destroy(plan);
    TRY(status);
    TRY(read_words(evaluator, error));
    return weight_files_open_run(evaluator->options->run, &evaluator->weights, error);
}

static enum ps_status open_inputs(struct evaluator *evaluator, struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    evaluator->network = options->network;
    if (options->run)
        TRY(open_run(evaluator, error));
    else if (values_count(options->network->graph->values) == 0)
        return error_set(error, PS_USAGE, "`network`: %s has no weights; they come from a file (`init` FILE) or a run",
                         options->network->name);
    struct dataset_shape wanted = dataset_shape_of(evaluator->network);
    memcpy(wanted.words, evaluator->words, sizeof wanted.words);
    wanted.words_needed = true;
    wanted.unlabelled = evaluator->watch != NULL;
    TRY(dataset_use(options->data, DATASET_TEST, &wanted, &evaluator->samples, error));
    struct loader_options loader = {.samples = &evaluator->samples,
                                    .batch = evaluator->batch,
                                    .inputs = true,
                                    .targets = true,
                                    .class_weights = evaluator->network->graph->class_weights,
                                    .ahead = BATCHES_AHEAD};
    return loader_create(&loader, &evaluator->loader, error);
}

static enum ps_status open_device(struct evaluator *evaluator, struct ps_error *error) {
    const char *name = evaluator->options->device ? evaluator->options->device : "cpu";
    struct device_options options = {.threads = evaluator->options->threads > 0 ? evaluator->options->threads : 1};
    TRY(device_open(name, &options, &evaluator->device, error));
    const struct device_class *class = evaluator->device->type;
    if (!class->real) return error_set(error, PS_USAGE, "`device`: %s computes no numbers", name);
    if (class->attach) class->attach(evaluator->device);
    return PS_OK;
}

/* All layers of `graph`, whose parameters are the model's, as one stage. */
static enum ps_status make_network(struct evaluator *evaluator, const struct graph *graph, struct ps_error *error) {
    struct loaded_network *loaded = &evaluator->loaded;
    TRY(stage_create(evaluator->device, graph, 0, graph->layer_count - 1, evaluator->batch, &loaded->stage, error));
    struct stage_sizes sizes = stage_sizes(loaded->stage);
    const int64_t pieces[] = {sizes.parameter_bytes, stage_unchanged_bytes(&sizes), sizes.input_bytes, sizes.stash_bytes,
                              sizes.workspace_bytes};
    enum { PIECES = sizeof pieces / sizeof *pieces };
    size_t total = 0;
    for (int i = 0; i < PIECES; i++) total += memory_align((size_t)pieces[i]);
    TRY(device_take(evaluator->device, &loaded->memory, total, "evaluation", error));
    void *place[PIECES];
    for (int i = 0; i < PIECES; i++) place[i] = memory_block_carve(&loaded->memory, (size_t)pieces[i]);
    loaded->blocks = (struct stage_blocks){
        .weights = place[0], .statistics = place[1], .input = place[2], .stash = place[3], .workspace = place[4]};
    if (evaluator->weights.count == 0) return stage_initialize(loaded->stage, 0, place[0], place[1], error);
    return weight_files_load(&evaluator->weights, graph, loaded->stage, place[0], place[1], error);
}

static enum ps_status make_staging(struct evaluator *evaluator, struct ps_error *error) {
    if (evaluator->network->graph->input_count == 1) return PS_OK;
    return memory_new(&evaluator->staging, stage_sizes(evaluator->loaded.stage).input_bytes, "evaluation", error);
}

static void free_network(struct evaluator *evaluator) {
    stage_destroy(evaluator->loaded.stage);
    if (evaluator->device) device_give(evaluator->device, &evaluator->loaded.memory);
    evaluator->loaded = (struct loaded_network){0};
}

static struct shape output_shape(const struct graph *graph) {
    return graph->nodes[graph->nodes[graph->node_count - 1].inputs[0]].shape;
}

/* What was computed of the batch, in the host's memory. */
static enum ps_status watch_batch(struct evaluator *evaluator, int64_t number, const struct loaded_batch *batch,
                                  struct ps_error *error) {
    const struct loaded_network *loaded = &evaluator->loaded;
    const struct shape shape = output_shape(evaluator->network->graph);
    const int64_t first = number * evaluator->batch;
    const size_t bytes = (size_t)(shape_elements(&shape) * evaluator->batch) * sizeof *evaluator->output;
    if (!evaluator->output && !(evaluator->output = malloc(bytes))) return error_memory(error, "outputs", bytes);
    device_copy(evaluator->device, evaluator->output, stage_output(loaded->stage, &loaded->blocks), bytes);
    device_finish(evaluator->device);
    const struct evaluated_batch seen = {.network = evaluator->network,
                                         .shape = shape,
                                         .output = evaluator->output,
                                         .targets = evaluator->samples.dataset->shape.unlabelled ? NULL : batch->targets,
                                         .first = first,
                                         .total = evaluator->samples.count,
                                         .index = evaluator->samples.first + first,
                                         .samples = batch->samples};
    return evaluator->watch->take(evaluator->watch->context, &seen, error);
}

static enum ps_status run_batch(struct evaluator *evaluator, int64_t number, struct stage_result *sum, struct ps_error *error) {
    size_t bytes = dataset_input_bytes(&evaluator->samples.dataset->shape) * (size_t)evaluator->batch;
    struct loaded_batch batch;
    TRY(loader_get(evaluator->loader, number, &batch, error));
    if (evaluator->staging) {
        stage_pack_inputs(evaluator->loaded.stage, batch.inputs, evaluator->staging);
        bytes = (size_t)stage_sizes(evaluator->loaded.stage).input_bytes;
    }
    device_copy(evaluator->device, evaluator->loaded.blocks.input, evaluator->staging ? evaluator->staging : batch.inputs,
                bytes);
    struct stage_step step = {.target = batch.targets, .samples = batch.samples};
    struct stage_result result = {0};
    TRY(stage_forward(evaluator->loaded.stage, &evaluator->loaded.blocks, &step, &result, error));
    device_finish(evaluator->device);
    TRY(device_check(evaluator->device, error));
    if (evaluator->watch) TRY(watch_batch(evaluator, number, &batch, error));
    loader_release(evaluator->loader, number);
    stage_result_add(sum, &result);
    return PS_OK;
}

static enum ps_status translate_samples(struct evaluator *evaluator, const struct graph *graph, double *bleu,
                                        struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    struct bleu counts = {0};
    struct text sentences = {0};
    TRY(make_network(evaluator, graph, error));
    struct translation_options translation = {.stage = evaluator->loaded.stage,
                                              .graph = graph,
                                              .device = evaluator->device,
                                              .blocks = evaluator->loaded.blocks,
                                              .rows = evaluator->batch,
                                              .beam = options->beam > 0 ? options->beam : 1,
                                              .samples = &evaluator->samples};
    if (options->translations) translation.sentences = &sentences;
    enum ps_status status = translate(&translation, &counts, error);
    char *text = text_take(&sentences);
    if (status == PS_OK) status = memory_check(text, "translations", error);
    if (status == PS_OK && options->translations) status = file_write(options->translations, text, strlen(text), error);
    free(text);
    if (status == PS_OK) *bleu = bleu_score(&counts);
    return status;
}

/* Translates what is a translation, with a network that takes the place of the one that was evaluated; `bleu` stays NaN for
 * other data. */
static enum ps_status run_translation(struct evaluator *evaluator, double *bleu, struct ps_error *error) {
    struct ps_network *stepping;
    if (!dataset_has_pairs(evaluator->samples.dataset)) return PS_OK;
    free_network(evaluator);
    TRY(network_create_stepping(evaluator->network, &stepping, error));
    enum ps_status status = translate_samples(evaluator, stepping->graph, bleu, error);
    free_network(evaluator);
    ps_network_destroy(stepping);
    return status;
}

static enum ps_status check_translation(const struct evaluator *evaluator, struct ps_error *error) {
    const struct ps_evaluate_options *options = evaluator->options;
    if (options->beam > evaluator->batch) {
        return error_set(error, PS_USAGE, "`beam`: %d hypotheses need a `batch` of at least as many, and it is %d",
                         options->beam, evaluator->batch);
    }
    if (evaluator->watch && dataset_has_pairs(evaluator->samples.dataset)) {
        error_set(error, PS_USAGE, "`data`: %s are pairs of sentences, which are translated and not predicted",
                  options->data->name);
        error_hint(error, "evaluate translates them (`translations` FILE)");
        return PS_USAGE;
    }
    if (dataset_has_pairs(evaluator->samples.dataset) || (options->beam == 0 && !options->translations)) return PS_OK;
    return error_set(error, PS_USAGE, "%s: %s are no pairs of sentences", options->beam > 0 ? "`beam`" : "`translations`",
                     options->data->name);
}

static enum ps_status run(struct evaluator *evaluator, struct ps_evaluation *evaluation, struct ps_error *error) {
    TRY(open_inputs(evaluator, error));
    TRY(check_translation(evaluator, error));
    TRY(open_device(evaluator, error));
    TRY(make_network(evaluator, evaluator->network->graph, error));
    TRY(make_staging(evaluator, error));
    int64_t batches = loader_batches(evaluator->loader);
    struct stage_result sum = {0};
    for (int64_t number = 0; number < batches; number++) {
        TRY(run_batch(evaluator, number, &sum, error));
        log_progress(evaluator->watch ? "predicting" : "evaluating", (double)(number + 1), (double)batches, "%s", "");
    }
    if (evaluator->watch) return evaluator->watch->finish(evaluator->watch->context, evaluator->network, error);
    if (sum.weight == 0) return error_set(error, PS_USAGE, "`data`: no label of %s counts", evaluator->options->data->name);
    if (!isfinite(sum.loss)) return error_set(error, PS_FAILED, "the loss is not a number: the weights are not usable");
    double bleu = NAN;
    TRY(run_translation(evaluator, &bleu, error));
    const struct figures figures = figures_of(evaluator->network, &sum);
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
    free_network(&evaluator);
    if (evaluator.device) device_close(evaluator.device);
    samples_close(&evaluator.samples);
    for (int v = 0; v < 2; v++) vocabulary_destroy(evaluator.words[v]);
    weight_files_close(&evaluator.weights);
    ps_network_destroy(evaluator.own_network);
    log_restore(log);
    return status;
}

enum ps_status evaluate_watched(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                                struct ps_error *error) {
    struct ps_evaluation none;
    return evaluate(options, watch, &none, error);
}

enum ps_status ps_evaluate_get(const struct ps_evaluate_options *given, struct ps_evaluation *evaluation, size_t size,
                               struct ps_error *error) {
    struct ps_evaluate_options options = {0};
    struct ps_evaluation own;
    TRY(VERSIONED_TAKE(ps_evaluate_options, given, &options, error));
    TRY(evaluate(&options, NULL, &own, error));
    VERSIONED_GIVE(own, evaluation, size);
    return PS_OK;
}
