/*
 * Training, step by step or from beginning to end (ps_train): prepare the job, lower its programs, start the executor, go
 * through the segments with an evaluation after each, and leave weights and figures behind.
 *
 * Rates count training alone: the seconds of all training segments from their start to the last worker's end, filling, draining
 * and the slower first steps included, evaluation not.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "base/versioned.h"
#include "compute/figures.h"
#include "data/object.h"
#include "eval/evaluate.h"
#include "exec/trace.h"
#include "profile/cache.h"
#include "train/trainer.h"

/* What a picture shows of each worker. */
enum { PICTURE_COMPUTATIONS = 48 };

/* ---------------------------------------------------------------------- segments */

static void tell_segment(const struct ps_trainer *trainer, const struct log_entry *entry) {
    if (!trainer->job.device->real) return;
    char perplexity[32] = "", bleu[32] = "", accuracy[32], valid_accuracy[32];
    figures_accuracy_text(entry->accuracy, accuracy);
    figures_accuracy_text(entry->valid_accuracy, valid_accuracy);
    if (isfinite(entry->valid_perplexity))
        number_print(perplexity, sizeof perplexity, ", perplexity %.2f", entry->valid_perplexity);
    if (isfinite(entry->valid_bleu)) number_print(bleu, sizeof bleu, ", BLEU %.2f", entry->valid_bleu);
    if (isfinite(entry->valid_loss))
        log_info("epoch %lld, step %lld: loss %.4f%s; validation loss %.4f%s%s%s; %.1f samples/s", (long long)entry->epoch,
                 (long long)entry->step, entry->loss, accuracy, entry->valid_loss, valid_accuracy, perplexity, bleu,
                 entry->samples_per_s);
    else
        log_info("epoch %lld, step %lld: loss %.4f%s; %.1f samples/s", (long long)entry->epoch, (long long)entry->step,
                 entry->loss, accuracy, entry->samples_per_s);
}

/* What each worker has exchanged with others so far. */
static void tell_traffic(const struct ps_trainer *trainer) {
    char sent[32], received[32];
    for (int w = 0; w < trainer->executor->worker_count && trainer->executor->worker_count > 1; w++)
        log_debug("worker %d: %s sent, %s received", w, text_bytes(trainer->run->worker[w].sent_bytes, sent),
                  text_bytes(trainer->run->worker[w].received_bytes, received));
}

static enum ps_status note_point(struct ps_trainer *trainer, const struct log_entry *entry, struct ps_error *error) {
    const struct ps_observer *observer = trainer->options.observer;
    const struct ps_run_point point = {.step = (int)entry->step,
                                       .epoch = (int)entry->epoch,
                                       .loss = entry->loss,
                                       .accuracy = entry->accuracy,
                                       .valid_loss = entry->valid_loss,
                                       .valid_accuracy = entry->valid_accuracy,
                                       .valid_perplexity = entry->valid_perplexity,
                                       .valid_bleu = entry->valid_bleu,
                                       .training_s = trainer->training_s};
    if (observer->point && observer->point(observer->context, &point) != 0) trainer->asked = true;
    return run_add_point(trainer->run, &point, error);
}

/* The log of the end of a segment, with an evaluation where one is due. */
static enum ps_status note_end(struct ps_trainer *trainer, double samples_per_s, struct ps_error *error) {
    struct log_entry entry = trainer_epoch_entry(trainer, samples_per_s);
    bool evaluates = segment_end_evaluates(&trainer->lengths, trainer->step);
    TRY(trainer_gather_predictions(trainer, error));
    TRY(trainer_gather_totals(trainer, error));
    trainer->unevaluated = evaluates;
    if (evaluates) TRY(trainer_validate(trainer, &entry, error));
    if (evaluates) TRY(trainer_translate(trainer, &entry.valid_bleu, error));
    trainer->unevaluated = false;
    if (!trainer_coordinates(trainer)) return PS_OK;
    entry.elapsed_s = clock_now() - trainer->started_s;
    entry.worker = trainer->run->worker;
    entry.workers = trainer->executor->worker_count;
    entry.training_s = trainer->training_s;
    const struct figures last = trainer_figures(trainer, &trainer->line);
    if (evaluates || trainer_line_due(trainer, trainer->step)) {
        TRY(run_directory_log(&trainer->directory, &entry, &last, error));
        trainer->line = (struct step_sum){0};
    }
    tell_traffic(trainer);
    if (evaluates) {
        trainer->figures = entry;
        TRY(trainer_note_best(trainer, &entry, error));
        TRY(note_point(trainer, &entry, error));
        tell_segment(trainer, &entry);
    }
    if (trainer->lengths.epoch > 0 && trainer->step % trainer->lengths.epoch == 0) trainer->epoch = (struct step_sum){0};
    return PS_OK;
}

/* What follows when a segment has ended, at all processes: they learn what the observer wants then. */
static enum ps_status end_segment(struct ps_trainer *trainer, double samples_per_s, struct ps_error *error) {
    TRY(note_end(trainer, samples_per_s, error));
    TRY(trainer_agree(trainer, &trainer->asked, sizeof trainer->asked, error));
    return trainer_checkpoint(trainer, error);
}

/* Of so many mini-batches at most: a piece of a segment has no evaluation and no checkpoint at its end. */
static enum ps_status run_segment(struct ps_trainer *trainer, int64_t most, struct ps_error *error) {
    int planned = segment_length(&trainer->lengths, trainer->step), length = (int)number_smaller(planned, most);
    struct segment segment = {.training = true, .first_step = trainer->step};
    TRY(program_set_find(&trainer->programs, trainer->job.plan, length, &segment.programs, error));
    trainer->seen = 0;
    trainer->segment_end = trainer->step + planned;
    if (trainer->line.steps == 0) trainer->line_started_s = clock_now();
    TRY(executor_run(trainer->executor, &segment, trainer_watch, trainer, error));
    TRY(trainer_gather_segment(trainer, error));
    double seconds = clock_now() - trainer->executor->segment_started_s;
    TRY(trainer_watch(trainer, error));
    trainer->training_s += seconds;
    trainer->segment_s += seconds;
    trainer->segment_steps += length;
    trainer->step_s = seconds / length;
    trainer->step += length;
    if (length < planned) return PS_OK;
    const double samples_per_s = (double)trainer->segment_steps * trainer->job.batch / trainer->segment_s;
    trainer->segment_s = 0;
    trainer->segment_steps = 0;
    return end_segment(trainer, samples_per_s, error);
}

/* ---------------------------------------------------------------------- afterwards */

static enum ps_status write_traces(const struct ps_trainer *trainer, struct ps_error *error) {
    if (!trainer->options.trace || trainer->executor->recorded_batches == 0) return PS_OK;
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    struct timeline trace = {0}, picture = {0};
    char title[256];
    number_print(title, sizeof title, "%s: %s, %s, %d worker%s, measured", trainer->job.plan->model,
                 trainer->job.plan->schedule, trainer->job.plan->weights, trainer->job.plan->workers,
                 text_plural(trainer->job.plan->workers));
    enum ps_status status = trace_collect(trainer->executor, programs, trainer->run->worker, TRACE_COMPUTATIONS, &trace, error);
    if (status == PS_OK)
        status = trace_collect(trainer->executor, programs, trainer->run->worker, PICTURE_COMPUTATIONS, &picture, error);
    if (status == PS_OK) status = run_directory_write_timelines(&trainer->directory, &trace, &picture, title, error);
    timeline_free(&trace);
    timeline_free(&picture);
    return status;
}

static void note_figures(struct ps_trainer *trainer) {
    struct ps_run_info *info = &trainer->run->info;
    const struct log_entry *figures = &trainer->figures;
    info->steps = (int)trainer->step;
    info->epochs = trainer->lengths.epoch > 0 ? (int)(trainer->step / trainer->lengths.epoch) : 0;
    info->loss = figures->loss;
    info->accuracy = figures->accuracy;
    info->valid_loss = figures->valid_loss;
    info->valid_accuracy = figures->valid_accuracy;
    info->top5 = figures->top5;
    info->valid_top5 = figures->valid_top5;
    info->perplexity = figures->perplexity;
    info->valid_perplexity = figures->valid_perplexity;
    info->valid_bleu = figures->valid_bleu;
    info->wall_s = clock_now() - trainer->started_s;
    info->samples_per_s = (double)trainer->step * trainer->job.batch / trainer->training_s;
    info->checkpoint_stall_s = trainer->writer.stall_s;
    info->best_step = (int)trainer->best.step;
    if (info->best_step > 0) info->best = trainer->best.value;
    info->ended_early = trainer->ends_early;
    memcpy(trainer->run->best_by, trainer->best.by, sizeof trainer->run->best_by);
    trainer->run->lr = figures->lr;
}

static void note_process(struct ps_trainer *trainer) {
    const struct executor *executor = trainer->executor;
    const struct worker *first = &executor->workers[executor->first_here];
    struct process_memory memory = process_memory_read(first->shared.memory.base);
    struct ps_run_process *process = &trainer->run->process[first->number];
    *process = (struct ps_run_process){
        .peak_bytes = memory.peak,
        .code_bytes = memory.of_code,
        .start_bytes = trainer->start.now - trainer->start.of_code,
        .checkpoint_bytes = (int64_t)(trainer->writer.image.memory.size + executor->travelling.size) + executor->proxy_bytes,
        .others_bytes = memory.others,
    };
    for (int number = executor->first_here; number < executor->end_here; number++)
        for (int kind = 0; kind < WORKER_DATA_KINDS; kind++)
            process->loader_bytes += loader_bytes(executor->workers[number].inputs[kind].loader) +
                                     loader_bytes(executor->workers[number].targets[kind].loader);
}

static void note_workers(struct ps_trainer *trainer) {
    for (int number = trainer->executor->first_here; number < trainer->executor->end_here; number++) {
        const struct worker *worker = &trainer->executor->workers[number];
        trainer->run->worker[number].measured_bytes = worker_memory_taken(worker);
    }
    note_process(trainer);
}

/* ---------------------------------------------------------------------------- all */

/* The evaluation in which the run was stopped, when it goes on. */
static enum ps_status catch_up(struct ps_trainer *trainer, struct ps_error *error) {
    if (!trainer->unevaluated) return PS_OK;
    return end_segment(trainer, (double)trainer->step * trainer->job.batch / trainer->training_s, error);
}

/* Up to where the observer asks for the end. Whoever goes on then is stopped. */
static enum ps_status advance(struct ps_trainer *trainer, int64_t steps, struct ps_error *error) {
    const bool asked = trainer->asked;
    trainer->stop_asked = trainer->stop_asked || asked;
    TRY(catch_up(trainer, error));
    int64_t left = trainer->lengths.steps - trainer->step, end = trainer->step + number_smaller(steps, left);
    while (trainer->step < end && trainer->asked == asked) {
        int64_t next;
        TRY(trainer_next(trainer, end - trainer->step, &next, error));
        if (trainer->ends_early) break;
        TRY(run_segment(trainer, next, error));
    }
    return PS_OK;
}

static enum ps_status finish(struct ps_trainer *trainer, struct ps_error *error) {
    note_workers(trainer);
    trainer->run->info.checkpoint_stall_s = trainer->writer.stall_s;
    TRY(trainer_gather_totals(trainer, error));
    TRY(trainer_keep_step(trainer, error));
    TRY(trainer_gather_figures(trainer, error));
    if (!trainer_coordinates(trainer)) return PS_OK;
    note_figures(trainer);
    /* Done is done only when it lasts. */
    if (trainer->directory.path) TRY(trainer_check_kept(trainer, error));
    TRY(write_traces(trainer, error));
    return run_directory_finish(&trainer->directory, trainer->run, error);
}

/* A prediction that is off by this factor does not describe the machine; a run so short says nothing of it. */
#define PREDICTION_OFF 1.5
#define JUDGED_S 2.0

/* The costs may have been measured while the machine had other work, or has it now: they are not taken again unseen. */
static void judge_prediction(const struct ps_trainer *trainer) {
    if (!trainer->run || !trainer_coordinates(trainer) || trainer->training_s < JUDGED_S || trainer->options.emulate) return;
    const double predicted = trainer->run->info.predicted_samples_per_s;
    const double measured = (double)trainer->step * trainer->job.batch / trainer->training_s;
    const double factor = measured / predicted;
    if (!(factor > 0) || !isfinite(factor) || (factor < PREDICTION_OFF && factor > 1 / PREDICTION_OFF)) return;
    if (profile_cache_doubt(trainer->job.profile))
        log_info(
            "trained at %.4g samples/s where %.4g were predicted: the costs that are kept of this network will be measured "
            "anew the next time",
            measured, predicted);
}

/* Ends the training for all its processes, and says what ended it to those that need to know. */
static enum ps_status end(struct ps_trainer *trainer, enum ps_status status, struct ps_error *trouble, struct ps_error *error) {
    /* What was handed over lasts, whatever ended the run. */
    if (trainer->writer.started) checkpoint_writer_wait(&trainer->writer, NULL);
    if (status == PS_OK || status == PS_STOPPED) judge_prediction(trainer);
    trainer_explain_failure(trainer, trouble);
    status = processes_leave(trainer->processes, status, trouble);
    trainer->processes = NULL;
    trainer->over = true;
    if (status != PS_OK && error) *error = *trouble;
    return status;
}

/* What follows after a call that failed: where it left the training in disorder, its end. */
static enum ps_status settle(struct ps_trainer *trainer, enum ps_status status, bool fatal, struct ps_error *trouble,
                             struct ps_error *error) {
    if (status != PS_OK && fatal) return end(trainer, status, trouble, error);
    if (status != PS_OK && error) *error = *trouble;
    return status;
}

static enum ps_status check_alive(const struct ps_trainer *trainer, struct ps_error *error) {
    return trainer->over ? error_set(error, PS_USAGE, "the training is over, and its trainer can only be destroyed") : PS_OK;
}

enum ps_status ps_trainer_create(const struct ps_train_options *options, struct ps_trainer **out, struct ps_error *error) {
    struct ps_trainer *trainer = calloc(1, sizeof *trainer);
    struct ps_error trouble = {0};
    if (!trainer) return error_memory(error, "a trainer", sizeof *trainer);
    enum ps_status status = train_request_take(options, &trainer->request, &trouble);
    const struct ps_log_sink *log = log_use(trainer->request.options.log);
    if (status == PS_OK) status = trainer_setup(trainer, &trouble);
    if (status != PS_OK) status = end(trainer, status, &trouble, error);
    log_restore(log);
    if (status == PS_OK)
        *out = trainer;
    else
        ps_trainer_destroy(trainer);
    return status;
}

enum ps_status ps_trainer_step(struct ps_trainer *trainer, int64_t steps, struct ps_error *error) {
    struct ps_error trouble = {0};
    TRY(check_alive(trainer, error));
    if (steps < 0) return error_set(error, PS_USAGE, "steps: %lld is negative", (long long)steps);
    const struct ps_log_sink *log = log_use(trainer->request.options.log);
    enum ps_status status = advance(trainer, steps, &trouble);
    status = settle(trainer, status, true, &trouble, error);
    log_restore(log);
    return status;
}

enum ps_status ps_trainer_evaluate_get(struct ps_trainer *trainer, const struct ps_dataset *data,
                                       struct ps_evaluation *evaluation, size_t size, struct ps_error *error) {
    struct ps_error trouble = {0};
    struct ps_evaluation own;
    bool fatal = false;
    TRY(check_alive(trainer, error));
    const struct ps_log_sink *log = log_use(trainer->request.options.log);
    enum ps_status status = trainer_evaluate(trainer, data, &own, &fatal, &trouble);
    status = settle(trainer, status, fatal, &trouble, error);
    log_restore(log);
    if (status == PS_OK) VERSIONED_GIVE(own, evaluation, size);
    return status;
}

/* Constants belong to the network. */
static bool is_listed(const struct parameter *parameter) { return !parameter->tied && !parameter_is_constant(parameter); }

static int parameter_count(const struct ps_trainer *trainer) {
    const struct graph *graph = trainer->job.graph;
    int count = 0;
    for (int p = 0; trainer->job.device->real && p < graph->parameter_count; p++) count += is_listed(&graph->parameters[p]);
    return count;
}

static struct ps_parameter make_trainer_parameter(const struct ps_trainer *trainer, int number) {
    const struct parameter *parameter = trainer->job.graph->parameters;
    for (; !is_listed(parameter) || number > 0; parameter++) number -= is_listed(parameter);
    struct ps_parameter info = {
        .name = parameter->name, .rank = parameter->shape.rank, .statistic = parameter->role == PARAMETER_STATISTIC};
    _Static_assert(sizeof info.shape == sizeof parameter->shape.dim, "all sides");
    memcpy(info.shape, parameter->shape.dim, sizeof info.shape);
    return info;
}

void ps_trainer_parameter_get(const struct ps_trainer *trainer, int number, struct ps_parameter *result, size_t size) {
    const struct ps_parameter own = make_trainer_parameter(trainer, number);
    VERSIONED_GIVE(own, result, size);
}

static const struct parameter *find_parameter(const struct graph *graph, const char *name) {
    for (int p = 0; p < graph->parameter_count; p++)
        if (strcmp(graph->parameters[p].name, name) == 0) return &graph->parameters[p];
    return NULL;
}

/* The worker that updates it; of a statistic, the one that runs the forwards of its stage. */
static int owner_of(const struct ps_trainer *trainer, const struct parameter *parameter) {
    const struct graph *graph = trainer->job.graph;
    int place = (int)(parameter - graph->parameters), layer = 0, stage = 0;
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (place >= node->parameter_first && place < node->parameter_first + node->parameter_count) layer = node->layer;
    }
    while (trainer->job.plan->stages[stage].last < layer) stage++;
    const struct plan_stage *planned = &trainer->job.plan->stages[stage];
    return (parameter->role == PARAMETER_STATISTIC ? planned->forward : planned->backward)[0];
}

static enum ps_status export_parameter(const struct worker *worker, const char *name, float *values, struct ps_error *error) {
    for (int s = 0; s < worker->stage_count; s++) {
        const struct worker_stage *stage = &worker->stages[s];
        for (int i = 0; i < stage_parameter_count(stage->stage); i++)
            if (strcmp(stage_parameter(stage->stage, i)->name, name) == 0) return worker_stage_export(stage, i, values, error);
    }
    return error_set(error, PS_FAILED, "worker %d does not have %s", worker->number, name);
}

/* From its owner to rank 0. */
static enum ps_status hand_in(const struct ps_trainer *trainer, int owner, const char *name, float *values, size_t bytes,
                              struct ps_error *error) {
    struct processes *processes = trainer->processes;
    if (processes->rank != 0 && processes->rank != owner) return PS_OK;
    float *own = processes->rank == owner ? malloc(bytes) : NULL;
    if (processes->rank == owner && !own) return error_memory(error, "a parameter", bytes);
    enum ps_status status = own ? export_parameter(&trainer->executor->workers[owner], name, own, error) : PS_OK;
    void *data = own;
    size_t size = bytes;
    if (status == PS_OK) status = processes_send_to_rank_0(processes, owner, &data, &size, error);
    if (status == PS_OK && processes->rank == 0) memcpy(values, data, bytes);
    free(data);
    return status;
}

static enum ps_status read_parameter(struct ps_trainer *trainer, const char *name, float *values, size_t count,
                                     struct ps_error *error) {
    if (parameter_count(trainer) == 0)
        return error_set(error, PS_USAGE, "name: the network has no parameters on device %s", trainer->job.device->name);
    const struct parameter *parameter = find_parameter(trainer->job.graph, name);
    if (!parameter) return error_set(error, PS_USAGE, "name: the network has no parameter '%s'", name);
    size_t elements = (size_t)shape_elements(&parameter->shape);
    if (count != elements) return error_set(error, PS_USAGE, "count: %s has %zu elements, not %zu", name, elements, count);
    int owner = owner_of(trainer, parameter);
    if (trainer->processes->count > 1 && owner > 0) return hand_in(trainer, owner, name, values, count * sizeof *values, error);
    return executor_has(trainer->executor, owner) ? export_parameter(&trainer->executor->workers[owner], name, values, error)
                                                  : PS_OK;
}

enum ps_status ps_trainer_read_parameter(struct ps_trainer *trainer, const char *name, float *values, size_t count,
                                         struct ps_error *error) {
    TRY(check_alive(trainer, error));
    return read_parameter(trainer, name, values, count, error);
}

enum ps_status ps_trainer_save(struct ps_trainer *trainer, const char *run_dir, struct ps_error *error) {
    struct ps_error trouble = {0};
    bool fatal = false;
    TRY(check_alive(trainer, error));
    const struct ps_log_sink *log = log_use(trainer->request.options.log);
    enum ps_status status = trainer_save(trainer, run_dir, &fatal, &trouble);
    status = settle(trainer, status, fatal, &trouble, error);
    log_restore(log);
    return status;
}

enum ps_status ps_trainer_finish(struct ps_trainer *trainer, struct ps_run **run, struct ps_error *error) {
    struct ps_error trouble = {0};
    TRY(check_alive(trainer, error));
    const struct ps_log_sink *log = log_use(trainer->request.options.log);
    enum ps_status status = finish(trainer, &trouble);
    status = end(trainer, status, &trouble, error);
    log_restore(log);
    if (status != PS_OK) return status;
    *run = trainer->run;
    trainer->run = NULL;
    return PS_OK;
}

static struct ps_trainer_info make_trainer_info(const struct ps_trainer *trainer) {
    struct log_entry entry = trainer_epoch_entry(trainer, NAN);
    const bool stays = trainer->unevaluated || trainer->ends_early;
    return (struct ps_trainer_info){.step = trainer->step,
                                    .steps = trainer->ends_early ? trainer->step : trainer->lengths.steps,
                                    .epoch_steps = trainer->lengths.epoch,
                                    .batch = trainer->job.batch,
                                    .workers = trainer->job.plan->workers,
                                    .parameters = parameter_count(trainer),
                                    .loss = entry.loss,
                                    .accuracy = entry.accuracy,
                                    .to_evaluation = stays ? 0 : segment_to_evaluation(&trainer->lengths, trainer->step),
                                    .rank = trainer->rank,
                                    .asked = trainer->asked};
}

void ps_trainer_info_get(const struct ps_trainer *trainer, struct ps_trainer_info *result, size_t size) {
    const struct ps_trainer_info own = make_trainer_info(trainer);
    VERSIONED_GIVE(own, result, size);
}

void ps_trainer_destroy(struct ps_trainer *trainer) {
    if (!trainer) return;
    struct ps_error given_up = {0};
    error_set(&given_up, PS_STOPPED, "the training was given up");
    if (!trainer->over) processes_leave(trainer->processes, PS_STOPPED, &given_up);
    trainer->processes = NULL;
    bool abandoned = trainer->executor && trainer->executor->abandoned;
    trainer_free(trainer);
    if (!abandoned) free(trainer);
}

enum ps_status ps_train(const struct ps_train_options *options, struct ps_run **run, struct ps_error *error) {
    struct ps_trainer *trainer;
    TRY(ps_trainer_create(options, &trainer, error));
    enum ps_status status = ps_trainer_step(trainer, INT64_MAX, error);
    if (status == PS_OK && trainer->asked) status = ps_trainer_step(trainer, INT64_MAX, error);
    if (status == PS_OK) status = ps_trainer_finish(trainer, run, error);
    ps_trainer_destroy(trainer);
    return status;
}

/* ----------------------------------------------------------------- evaluation alone */

static enum ps_status check_evaluation(const struct ps_evaluate_options *options, struct ps_error *error) {
    if (!options->run) return error_set(error, PS_USAGE, "`workers`: several evaluate a `run`, by its plan");
    if (!options->data) return error_set(error, PS_USAGE, "`data`: missing");
    if (options->network) return error_set(error, PS_USAGE, "`network`: cannot be given with `run`, which determines it");
    if (options->beam == 0 && !options->translations) return PS_OK;
    return error_set(error, PS_USAGE, "`%s`: one worker translates, not several", options->beam > 0 ? "beam" : "translations");
}

/* The figures, and at rank 0 that they are usable. */
static enum ps_status take_figures(struct ps_trainer *trainer, struct ps_evaluation *evaluation, struct ps_error *error) {
    bool fatal;
    TRY(trainer_evaluate(trainer, NULL, evaluation, &fatal, error));
    if (!trainer_coordinates(trainer) || isfinite(evaluation->loss)) return PS_OK;
    return error_set(error, PS_FAILED, "the loss is not a number: the weights or the data are not usable");
}

/* By several workers, as the run was trained: the network need not fit into one. What it computes goes to the watch, or without
 * one the figures into *evaluation. */
static enum ps_status run_together(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                                   struct ps_evaluation *evaluation, struct ps_error *error) {
    struct ps_error trouble = {0};
    struct ps_train_options request;
    struct ps_cluster_options machines;
    TRY(check_evaluation(options, error));
    struct ps_trainer *trainer = calloc(1, sizeof *trainer);
    if (!trainer) return error_memory(error, "an evaluation", sizeof *trainer);
    ps_cluster_options_init(&machines);
    machines.workers = options->workers;
    ps_train_options_init(&request);
    request.machines = &machines;
    request.resume = options->run;
    request.data = request.valid = options->data;
    request.device = options->device;
    request.transport = options->transport;
    request.threads = options->threads;
    request.log = options->log;
    trainer->which = options->checkpoint;
    trainer->predicts = watch != NULL;
    enum ps_status status = train_request_take(&request, &trainer->request, &trouble);
    const struct ps_log_sink *log = log_use(trainer->request.options.log);
    if (status == PS_OK) status = trainer_setup_evaluation(trainer, &trouble);
    if (status == PS_OK)
        status = watch ? trainer_predict(trainer, watch, &trouble) : take_figures(trainer, evaluation, &trouble);
    status = end(trainer, status, &trouble, error);
    log_restore(log);
    ps_trainer_destroy(trainer);
    return status;
}

static enum ps_status predict_together(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                                       struct ps_error *error) {
    return run_together(options, watch, NULL, error);
}

enum ps_status ps_predict(const struct ps_predict_options *options, struct ps_error *error) {
    return predict_samples(options, predict_together, error);
}

enum ps_status ps_evaluate_get(const struct ps_evaluate_options *given, struct ps_evaluation *evaluation, size_t size,
                               struct ps_error *error) {
    struct ps_evaluate_options options;
    struct ps_evaluation own;
    TRY(VERSIONED_TAKE(ps_evaluate_options, given, &options, error));
    if (options.workers < 0) return error_set(error, PS_USAGE, "`workers`: %d is negative", options.workers);
    const bool together = options.workers > 1 || options.transport;
    TRY(together ? run_together(&options, NULL, &own, error) : evaluate_alone(&options, &own, error));
    VERSIONED_GIVE(own, evaluation, size);
    return PS_OK;
}
