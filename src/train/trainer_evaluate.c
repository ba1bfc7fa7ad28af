/*
 * Evaluation by the pipeline that trains, in the memory that it has: after a segment on the validation data, and between two
 * steps on whatever the caller gives.
 *
 * Also BLEU along the way: the first validation sentences are translated greedily. Where evaluating a translation alone decodes
 * one position at a time, here each position is an evaluation's pass over all of it (exec/decoding.h): a stage keeps nothing
 * from pass to pass, and needs nothing beyond what an evaluation needs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "compute/figures.h"
#include "data/object.h"
#include "data/pairs.h"
#include "eval/translate.h"
#include "train/trainer.h"

/* ---------------------------------------------------------------------- validation */

/* What is evaluated at the moment. */
struct trainer_evaluation {
    struct ps_trainer *trainer;
    const struct ps_programs *programs;
};

/* Between two steps the line of the training stays, so that its times go on. */
static void say_progress(const struct trainer_evaluation *evaluation, int done) {
    const struct ps_trainer *trainer = evaluation->trainer;
    const int total = evaluation->programs->worker[trainer->executor->first_here].count;
    if (trainer->only_evaluates || trainer->step == trainer->lengths.steps)
        log_progress("evaluating", done, total, "%s", "");
    else if (done < total)
        log_progress("training", (double)trainer->step, (double)trainer->lengths.steps, "evaluating, %.0f%% done",
                     100.0 * done / total);
}

static enum ps_status watch_evaluation(void *context, struct ps_error *error) {
    const struct trainer_evaluation *evaluation = context;
    const struct executor *executor = evaluation->trainer->executor;
    const int done = executor_state_of(executor, executor->first_here).next;
    /* The end is said once. */
    if (done == evaluation->programs->worker[executor->first_here].count) return PS_OK;
    say_progress(evaluation, done);
    return trainer_check_evaluation(evaluation->trainer, error);
}

enum ps_status trainer_run_evaluation(struct ps_trainer *trainer, const struct ps_programs *programs, float *outputs,
                                      struct stage_result *sum, struct ps_error *error) {
    struct segment segment = {.programs = programs, .outputs = outputs};
    struct trainer_evaluation evaluation = {trainer, programs};
    /* Outputs come in pieces, whose caller says how many are done. */
    const bool says = !outputs && trainer_coordinates(trainer);
    if (says) say_progress(&evaluation, 0);
    const enum ps_status status = executor_run(trainer->executor, &segment, says ? watch_evaluation : NULL, &evaluation, error);
    TRY(trainer_end_evaluation(trainer, status, error));
    if (says) say_progress(&evaluation, programs->worker[trainer->executor->first_here].count);
    TRY(trainer_gather_segment(trainer, error));
    *sum = executor_evaluation(trainer->executor);
    return PS_OK;
}

enum ps_status trainer_validate(struct ps_trainer *trainer, struct log_entry *entry, struct ps_error *error) {
    struct stage_result sum;
    if (trainer->valid.count == 0) return PS_OK;
    TRY(trainer_run_evaluation(trainer, trainer->programs.evaluation, NULL, &sum, error));
    if (!trainer_coordinates(trainer)) return PS_OK;
    const struct figures figures = figures_of(trainer->job.network, &sum);
    entry->valid_loss = figures.loss;
    entry->valid_accuracy = figures.accuracy;
    entry->valid_top5 = figures.top5;
    entry->valid_perplexity = figures.perplexity;
    if (isfinite(entry->valid_loss)) return PS_OK;
    return error_set(error, PS_FAILED, "step %lld: the validation loss became %s", (long long)trainer->step,
                     isnan(entry->valid_loss) ? "not a number" : "infinite");
}

static double metric_of(const struct log_entry *entry, const char *by) {
    const struct {
        const char *name;
        double value;
    } metrics[] = {{"loss", entry->valid_loss},
                   {"accuracy", entry->valid_accuracy},
                   {"perplexity", entry->valid_perplexity},
                   {"bleu", entry->valid_bleu}};
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++)
        if (strcmp(metrics[m].name, by) == 0) return metrics[m].value;
    return NAN;
}

enum ps_status trainer_note_best(struct ps_trainer *trainer, const struct log_entry *entry, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    const char *by = options->best_by ? options->best_by : "loss";
    const double value = metric_of(entry, by);
    const bool less = strcmp(by, "loss") == 0 || strcmp(by, "perplexity") == 0;
    struct best_evaluation *best = &trainer->best;
    if (trainer->valid.count == 0) return PS_OK;
    if (isnan(value)) return error_set(error, PS_USAGE, "`best_by`: this network's validation has no %s", by);
    if (best->step == 0 || strcmp(best->by, by) != 0 || (less ? value < best->value : value > best->value)) {
        *best = (struct best_evaluation){.step = trainer->step, .value = value};
        snprintf(best->by, sizeof best->by, "%s", by);
        return PS_OK;
    }
    best->since++;
    if (options->patience == 0 || best->since < options->patience) return PS_OK;
    trainer->ends_early = true;
    log_info("training ends: %lld evaluation%s without a better validation %s than %g, of step %lld", (long long)best->since,
             text_plural(best->since), by, best->value, (long long)best->step);
    return PS_OK;
}

/* ---------------------------------------------------------------------- other data */

/* Other data than the run's own in the workers' hands, and theirs meanwhile. */
struct swapped {
    struct worker_data inputs, targets;
};

static enum ps_status swap_data(struct ps_trainer *trainer, const struct samples *samples, struct swapped *own,
                                struct ps_error *error) {
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    struct executor *executor = trainer->executor;
    for (int number = executor->first_here; number < executor->end_here; number++) {
        struct worker *worker = &executor->workers[number];
        own[number] = (struct swapped){worker->inputs[WORKER_DATA_VALID], worker->targets[WORKER_DATA_VALID]};
        worker->inputs[WORKER_DATA_VALID] = worker->targets[WORKER_DATA_VALID] = (struct worker_data){.number = -1};
    }
    for (int i = 0; i < programs->instance_count; i++) {
        const struct instance *instance = &programs->instances[i];
        if (!executor_has(executor, instance->worker) || !instance->forward) continue;
        for (int inputs = 0; inputs < 2; inputs++)
            if (trainer_reads(trainer, instance, inputs))
                TRY(trainer_give_loader(trainer, samples, instance, WORKER_DATA_VALID, inputs, error));
    }
    return PS_OK;
}

static void swap_back(struct ps_trainer *trainer, const struct swapped *own) {
    struct executor *executor = trainer->executor;
    for (int number = executor->first_here; number < executor->end_here; number++) {
        struct worker *worker = &executor->workers[number];
        loader_destroy(worker->inputs[WORKER_DATA_VALID].loader);
        loader_destroy(worker->targets[WORKER_DATA_VALID].loader);
        worker->inputs[WORKER_DATA_VALID] = own[number].inputs;
        worker->targets[WORKER_DATA_VALID] = own[number].targets;
    }
}

static enum ps_status run_on(struct ps_trainer *trainer, const struct samples *samples, float *outputs,
                             struct stage_result *sum, struct ps_error *error) {
    size_t workers = (size_t)trainer->executor->worker_count;
    struct swapped *own;
    TRY(memory_new(&own, workers, "an evaluation", error));
    enum ps_status status = swap_data(trainer, samples, own, error);
    if (status == PS_OK) status = trainer_run_evaluation(trainer, trainer->other_evaluation, outputs, sum, error);
    /* A worker that did not stop may still read. */
    if (!trainer->executor->abandoned) swap_back(trainer, own);
    free(own);
    return status;
}

/* The programs of an evaluation of so many samples; they stay until the next, for whoever asks what was at work. */
static enum ps_status lower_other(struct ps_trainer *trainer, int64_t samples, struct ps_error *error) {
    int64_t micro_batches = (samples + trainer->job.samples - 1) / trainer->job.samples;
    struct ps_programs *programs;
    if (micro_batches > 1 << 24)
        return error_set(error, PS_USAGE, "`data`: %lld micro-batches are too many to evaluate", (long long)micro_batches);
    TRY(lower_evaluation(trainer->programs.entries[0].programs, (int)micro_batches, &programs, error));
    enum ps_status status = program_set_check_fit(&trainer->programs, programs, error);
    if (status != PS_OK) {
        ps_programs_destroy(programs);
        return status;
    }
    ps_programs_destroy(trainer->other_evaluation);
    trainer->other_evaluation = programs;
    return PS_OK;
}

/* Opens the data where they are read; *count is what rank 0 finds, everywhere. */
static enum ps_status open_other(const struct ps_trainer *trainer, const struct ps_dataset *data, struct samples *samples,
                                 int64_t *count, struct ps_error *error) {
    struct dataset_shape wanted = dataset_shape_of(trainer->job.network);
    if (trainer_coordinates(trainer) || trainer_reads_here(trainer)) {
        if (trainer->data.dataset) memcpy(wanted.words, trainer->data.dataset->shape.words, sizeof wanted.words);
        TRY(dataset_use(data, DATASET_TEST, &wanted, samples, error));
    }
    *count = samples->count;
    if (trainer->processes->count == 1) return PS_OK;
    void *word = count;
    size_t size = sizeof *count;
    TRY(processes_broadcast(trainer->processes, &word, &size, error));
    memcpy(count, word, sizeof *count);
    if (word != count) free(word);
    if (samples->dataset && samples->count != *count)
        return error_set(error, PS_BAD_INPUT, "`data`: %s has %lld samples here and %lld at rank 0", data->name,
                         (long long)samples->count, (long long)*count);
    return PS_OK;
}

static struct ps_evaluation evaluation_of(const struct ps_trainer *trainer, const struct stage_result *sum, int64_t samples) {
    const struct stage_result none = {0};
    const struct figures figures = figures_of(trainer->job.network, trainer_coordinates(trainer) ? sum : &none);
    return (struct ps_evaluation){.loss = figures.loss,
                                  .accuracy = figures.accuracy,
                                  .perplexity = figures.perplexity,
                                  .bleu = NAN,
                                  .samples = samples,
                                  .top5 = figures.top5};
}

static enum ps_status evaluate_on(struct ps_trainer *trainer, const struct ps_dataset *data, struct ps_evaluation *evaluation,
                                  struct ps_error *error) {
    struct samples samples = {0};
    struct stage_result sum;
    int64_t count = 0;
    enum ps_status status = open_other(trainer, data, &samples, &count, error);
    if (status == PS_OK) status = lower_other(trainer, count, error);
    if (status == PS_OK) status = run_on(trainer, &samples, NULL, &sum, error);
    if (status == PS_OK) *evaluation = evaluation_of(trainer, &sum, count);
    if (!trainer->executor->abandoned) samples_close(&samples);
    return status;
}

enum ps_status trainer_evaluate(struct ps_trainer *trainer, const struct ps_dataset *data, struct ps_evaluation *evaluation,
                                bool *fatal, struct ps_error *error) {
    struct stage_result sum;
    *fatal = false;
    TRY(device_check_real(trainer->job.device, error));
    if (!data && trainer->valid.count == 0)
        return error_set(error, PS_USAGE, "`data`: there is none, and the training has no `valid` either");
    /* Processes that do not come to the same end would wait for each other. */
    *fatal = trainer->processes->count > 1;
    if (data && data != trainer->options.valid) {
        int before = trainer->executor->segment_number;
        enum ps_status status = evaluate_on(trainer, data, evaluation, error);
        *fatal = *fatal || trainer->executor->segment_number != before;
        return status;
    }
    *fatal = true;
    TRY(trainer_run_evaluation(trainer, trainer->programs.evaluation, NULL, &sum, error));
    *evaluation = evaluation_of(trainer, &sum, trainer->valid.count);
    return PS_OK;
}

/* --------------------------------------------------------------------- predictions */

/* Numbers that are computed at a time. */
enum { OUTPUTS_AT_ONCE = 4 << 20 };

/* What is predicted at a time: whole micro-batches of the data, and what the network computes of each sample. */
struct outputs {
    struct samples part;
    int64_t each, micro_batches;
    float *values;
};

static int64_t outputs_of_micro_batch(const struct ps_trainer *trainer, const struct outputs *outputs) {
    return trainer->job.samples * outputs->each;
}

/* From the processes of the last stage to rank 0: instances take the micro-batches in turns. */
static enum ps_status gather_outputs(struct ps_trainer *trainer, struct outputs *outputs, struct ps_error *error) {
    const struct ps_programs *programs = trainer->other_evaluation;
    struct processes *processes = trainer->processes;
    const int64_t piece = outputs_of_micro_batch(trainer, outputs);
    for (int i = 0; processes->count > 1 && i < programs->instance_count; i++) {
        const struct instance *instance = &programs->instances[i];
        if (instance->stage != programs->stages - 1 || !instance->forward || instance->worker == 0) continue;
        if (processes->rank != 0 && processes->rank != instance->worker) continue;
        void *data = outputs->values;
        size_t size = (size_t)(outputs->micro_batches * piece) * sizeof(float);
        TRY(processes_send_to_rank_0(processes, instance->worker, &data, &size, error));
        if (processes->rank > 0) continue;
        for (int64_t m = instance->replica; m < outputs->micro_batches; m += instance->replicas)
            memcpy(outputs->values + m * piece, (const float *)data + m * piece, (size_t)piece * sizeof(float));
        free(data);
    }
    return PS_OK;
}

/* At rank 0, with the targets where the data have some. */
static enum ps_status show_outputs(const struct ps_trainer *trainer, const struct outputs *outputs,
                                   const struct class_names *names, const struct evaluation_watch *watch,
                                   struct ps_error *error) {
    const struct ps_network *network = trainer->job.network;
    const struct samples *part = &outputs->part;
    struct loaded_batch targets = {0};
    struct loader *loader;
    const struct loader_options options = {.samples = part,
                                           .batch = (int)part->count,
                                           .targets = true,
                                           .class_weights = trainer->job.graph->class_weights,
                                           .ahead = 1,
                                           .serial = true};
    TRY(loader_create(&options, &loader, error));
    enum ps_status status = loader_get(loader, 0, &targets, error);
    const struct evaluated_batch batch = {.network = network,
                                          .shape = evaluated_shape(network->graph),
                                          .output = outputs->values,
                                          .targets = part->dataset->shape.unlabelled ? NULL : targets.targets,
                                          .first = part->first - trainer->valid.first,
                                          .total = trainer->valid.count,
                                          .index = part->first,
                                          .samples = (int)part->count,
                                          .names = names};
    if (status == PS_OK) status = watch->take(watch->context, &batch, error);
    loader_destroy(loader);
    return status;
}

static enum ps_status predict_all(struct ps_trainer *trainer, struct outputs *outputs, const struct class_names *names,
                                  const struct evaluation_watch *watch, struct ps_error *error) {
    const struct samples *all = &trainer->valid;
    const int64_t piece = outputs_of_micro_batch(trainer, outputs), wanted = OUTPUTS_AT_ONCE / piece,
                  samples = trainer->job.samples;
    const int64_t most = (wanted > 1 ? wanted : 1) * samples;
    TRY(memory_new(&outputs->values, most * outputs->each, "predictions", error));
    for (int64_t first = 0; first < all->count; first += most) {
        struct stage_result unused;
        outputs->part = *all;
        outputs->part.first += first;
        outputs->part.count = number_smaller(most, all->count - first);
        outputs->micro_batches = (outputs->part.count + samples - 1) / samples;
        TRY(trainer_check_stop(trainer, false, error));
        TRY(lower_other(trainer, outputs->part.count, error));
        TRY(run_on(trainer, &outputs->part, outputs->values, &unused, error));
        TRY(gather_outputs(trainer, outputs, error));
        if (trainer_coordinates(trainer)) TRY(show_outputs(trainer, outputs, names, watch, error));
        log_progress("predicting", (double)(first + outputs->part.count), (double)all->count, "%s", "");
    }
    return PS_OK;
}

enum ps_status trainer_predict(struct ps_trainer *trainer, const struct evaluation_watch *watch, struct ps_error *error) {
    const struct ps_network *network = trainer->job.network;
    const struct shape shape = evaluated_shape(network->graph);
    struct outputs outputs = {.each = shape_elements(&shape)};
    struct class_names names = {0};
    if (trainer->valid.dataset && dataset_has_pairs(trainer->valid.dataset))
        return error_set(error, PS_USAGE, "`data`: %s are pairs of sentences, which one worker translates, not several",
                         trainer->options.valid->name);
    enum ps_status status = PS_OK;
    if (trainer_coordinates(trainer))
        status = class_names_find(trainer->request.options.resume, trainer->valid.dataset, &names, error);
    if (status == PS_OK) status = predict_all(trainer, &outputs, &names, watch, error);
    if (status == PS_OK && trainer_coordinates(trainer)) status = watch->finish(watch->context, network, error);
    class_names_free(&names);
    if (!trainer->executor->abandoned) free(outputs.values);
    return status;
}

/* --------------------------------------------------------------------- translation */

/* What the workers of the last stage wrote comes to all others. */
static enum ps_status share_tokens(struct ps_trainer *trainer, const struct decoding *decoding, struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->count == 1) return PS_OK;
    size_t count = (size_t)decoding->samples;
    struct arena arena = {0};
    int32_t *all = arena_take(&arena, count * (size_t)processes->count, sizeof *all);
    int32_t *own = arena_take(&arena, count, sizeof *own);
    TRY(arena_check(&arena, "translations", error));
    for (size_t s = 0; s < count; s++) own[s] = decoding->tokens[s * (size_t)decoding->positions + (size_t)decoding->position];
    enum ps_status status = processes_all_gather(processes, own, count * sizeof *own, all, error);
    for (size_t i = 0; status == PS_OK && i < count * (size_t)processes->count; i++) {
        /* Where nobody wrote there is padding, which is never written. */
        if (all[i] == 0) continue;
        decoding->tokens[i % count * (size_t)decoding->positions + (size_t)decoding->position] = all[i];
    }
    arena_release(&arena);
    return status;
}

static enum ps_status write_sentences(struct ps_trainer *trainer, struct decoding *decoding, struct ps_error *error) {
    struct segment segment = {.programs = trainer->programs.decoding, .decoding = decoding};
    bool ended = false;
    for (; decoding->position < decoding->positions && !ended; decoding->position++) {
        TRY(trainer_end_evaluation(trainer, trainer_check_evaluation(trainer, error), error));
        TRY(executor_run(trainer->executor, &segment, NULL, NULL, error));
        TRY(share_tokens(trainer, decoding, error));
        ended = decoding_ended(decoding);
        log_progress("translating", decoding->position + 1, decoding->positions, "%s", "");
    }
    return PS_OK;
}

static enum ps_status count_bleu(const struct samples *samples, const struct decoding *decoding, double *score,
                                 struct ps_error *error) {
    struct bleu bleu = {0};
    for (int64_t s = 0; s < decoding->samples; s++)
        TRY(translate_count(samples, s, decoding->tokens + s * decoding->positions, decoding->positions, NULL, &bleu, error));
    *score = bleu_score(&bleu);
    return PS_OK;
}

enum ps_status trainer_translate(struct ps_trainer *trainer, double *bleu, struct ps_error *error) {
    struct decoding decoding = {.samples = trainer_written(trainer)};
    if (decoding.samples == 0) return PS_OK;
    decoding.positions = trainer->job.network->labels;
    decoding.classes = trainer->job.network->classes;
    size_t tokens = (size_t)decoding.samples * (size_t)decoding.positions;
    TRY(memory_new(&decoding.tokens, tokens, "translations", error));
    enum ps_status status = write_sentences(trainer, &decoding, error);
    if (status == PS_OK && trainer_coordinates(trainer)) status = count_bleu(&trainer->valid, &decoding, bleu, error);
    free(decoding.tokens);
    return status;
}
