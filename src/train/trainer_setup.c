/* Setting up: from options to an executor that waits for its first segment. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/processor.h"
#include "base/text.h"
#include "comm/launch.h"
#include "data/object.h"
#include "data/pairs.h"
#include "data/vocabulary.h"
#include "graph/model.h"
#include "plan/planner.h"
#include "search/search.h"
#include "train/job_plan.h"
#include "train/measure_cluster.h"
#include "train/predict_run.h"
#include "train/trainer.h"

enum { BATCHES_AHEAD = 4 };
/* So long nobody goes on, computes or reads until a worker counts as stalled. */
#define PATIENCE_S 10.0

/* --------------------------------------------------------------------- preparing */

static void trainer_close_data(struct ps_trainer *trainer) {
    samples_close(&trainer->valid);
    samples_close(&trainer->data);
}

/* Data without a loss are refused before anything is trained. */
static enum ps_status use_data(const struct ps_trainer *trainer, const char *option, const struct ps_dataset *data,
                               enum dataset_part usual, const struct dataset_shape *wanted, struct samples *samples,
                               struct ps_error *error) {
    bool any;
    TRY(dataset_use(data, usual, wanted, samples, error));
    TRY(samples_count(samples, trainer->job.network->graph->class_weights, &any, error));
    return any ? PS_OK : error_set(error, PS_USAGE, "`%s`: none of the labels of %s counts", option, data->name);
}

static enum ps_status open_data(struct ps_trainer *trainer, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    if (!trainer->job.device->real || trainer->data.dataset) return PS_OK;
    struct dataset_shape wanted = dataset_shape_of(trainer->job.network);
    TRY(use_data(trainer, "data", options->data, DATASET_TRAIN, &wanted, &trainer->data, error));
    memcpy(wanted.words, trainer->data.dataset->shape.words, sizeof wanted.words);
    if (options->valid) TRY(use_data(trainer, "valid", options->valid, DATASET_TEST, &wanted, &trainer->valid, error));
    if (options->valid_bleu == 0 || (options->valid && dataset_has_pairs(trainer->valid.dataset))) return PS_OK;
    return error_set(error, PS_USAGE, "`valid_bleu`: %s%s", options->valid ? options->valid->name : "needs `valid` with",
                     options->valid ? " are no pairs of sentences" : " pairs of sentences");
}

bool trainer_reads_here(const struct ps_trainer *trainer) {
    const struct ps_plan *plan = trainer->job.plan;
    const struct plan_stage *last = &plan->stages[plan->stage_count - 1];
    int rank = trainer->processes->rank;
    if (trainer->processes->count == 1) return true;
    /* Backwards of a split last stage read labels, too. */
    return plan_stage_forwards_on(&plan->stages[0], rank) || plan_stage_is_on(last, rank);
}

/* Workers of the first and the last stage read; in other processes nothing is opened. Those that do must find what rank 0 has
 * found. */
static enum ps_status keep_data(struct ps_trainer *trainer, struct ps_error *error) {
    int rank = trainer->processes->rank;
    bool reads = trainer_reads_here(trainer);
    if (trainer->processes->count == 1 || !trainer->job.device->real) return PS_OK;
    int64_t samples = trainer->data.count, valid = trainer->valid.count;
    if (reads)
        TRY(open_data(trainer, error));
    else if (!trainer_coordinates(trainer)) /* who writes the run's directory needs the words */
        trainer_close_data(trainer);
    if (trainer->data.count != samples && reads)
        return error_set(error, PS_BAD_INPUT, "`data`: %s has %lld samples on %s, but %lld on %s", trainer->options.data->name,
                         (long long)trainer->data.count, trainer->processes->info[rank].host, (long long)samples,
                         trainer->processes->info[0].host);
    trainer->data.count = samples;
    trainer->valid.count = valid;
    return PS_OK;
}

static enum ps_status count_steps(struct ps_trainer *trainer, int64_t batch, int micro_batches, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    struct segment_lengths *lengths = &trainer->lengths;
    *lengths = (struct segment_lengths){.evaluate_every = options->evaluate_every,
                                        .checkpoint_every = options->checkpoint_every,
                                        .micro_batches = micro_batches};
    if (trainer->job.device->real) {
        lengths->epoch = trainer->data.count / batch;
        if (lengths->epoch == 0)
            return error_set(error, PS_USAGE, "`data`: %s has %lld sample%s, fewer than a mini-batch of %lld",
                             options->data->name, (long long)trainer->data.count, text_plural(trainer->data.count),
                             (long long)batch);
    } else if (options->steps == 0) {
        return error_set(error, PS_USAGE, "`steps`: device %s reads no data, so steps and not epochs must be given",
                         trainer->job.device->name);
    }
    const int epochs = options->epochs > 0 ? options->epochs : 1;
    lengths->steps = options->steps > 0 ? options->steps : epochs * lengths->epoch;
    if (lengths->steps > INT32_MAX)
        return error_set(error, PS_USAGE, "`epochs`: %lld steps are more than a run can have", (long long)lengths->steps);
    return PS_OK;
}

/* The network's rate for the optimizer; NaN: it has none. */
static double usual_rate(const struct job *job, const char *optimizer) {
    if (!job->device->real) return NAN;
    const struct model_training usual = model_training_of(job->network->name);
    return usual.optimizer && usual.lr > 0 && strcmp(usual.optimizer, optimizer) == 0 ? usual.lr : NAN;
}

static enum ps_status choose_rule(struct ps_trainer *trainer, const char *optimizer, const char *weights,
                                  const struct graph *graph, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    const bool paper = trainer->job.plan && trainer->job.plan->paper_prediction;
    struct update_request requested = {
        .optimizer = optimizer,
        .settings = {.lr = options->lr,
                     .momentum = options->momentum,
                     .dampening = options->dampening,
                     .weight_decay = options->weight_decay,
                     .beta1 = options->beta1,
                     .beta2 = options->beta2,
                     .eps = options->eps},
    };
    if (isnan(options->lr)) requested.settings.lr = usual_rate(&trainer->job, optimizer);
    TRY(update_rule_choose(&requested, weights, paper, &trainer->rule, error));
    trainer->rule.clip = options->clip;
    TRY(decay_exclusion_parse(options->decay_exclude, &trainer->rule.without_decay, error));
    TRY(update_groups_parse(options->groups, &trainer->rule, error));
    if (trainer->job.device->real) TRY(update_groups_check(&trainer->rule, graph, error));
    TRY(learning_rate_parse(options->lr_schedule, trainer->rule.settings.lr, options->warmup_steps, trainer->lengths.steps,
                            trainer->lengths.epoch, &trainer->rule.rate, error));
    trainer->rule.rate.by_epoch = options->lr_per_epoch;
    if (options->lr_per_epoch && trainer->lengths.epoch == 0)
        return error_set(error, PS_USAGE, "`lr_per_epoch`: this run has no epochs");
    return PS_OK;
}

static enum ps_status lower_programs(struct ps_trainer *trainer, struct ps_error *error) {
    const struct job *job = &trainer->job;
    int64_t evaluation = (trainer->valid.count + job->samples - 1) / job->samples;
    int64_t decoding = (trainer_written(trainer) + job->samples - 1) / job->samples;
    return program_set_create(job->plan, &trainer->lengths, evaluation, decoding, &trainer->programs, error);
}

/* ------------------------------------------------------------------------- executor */

struct worker_options trainer_worker_options(const struct ps_trainer *trainer) {
    const struct job *job = &trainer->job;
    struct worker_options options = {
        .device = job->device,
        .threads = job->threads,
        .graph = job->graph,
        .plan = job->plan,
        .samples = job->samples,
        /* A device that only waits touches no block, and takes what the profile says in memory as in time. */
        .sizes = job->device->real ? NULL : job->sizes,
        .wire_s = job->device->real ? NULL : (const double(*)[WIRE_CODED])job->wire_s,
        .slots = trainer->programs.slots,
        .programs = trainer->programs.entries[0].programs,
        .moments = trainer->rule.moments,
        .rule = &trainer->rule,
        .record = trainer->options.trace ? TRACE_COMPUTATIONS : 0,
        .emulated = trainer->options.emulate ? job->cluster : NULL,
        .cluster = trainer->options.emulate ? NULL : job->cluster,
    };
    for (int l = 0; l < job->lengths.count - 1; l++) options.shorter[l] = job->shorter[l]->graph;
    return options;
}

/* What a worker was promised to take: from the profile's sizes where there is one, else from the stages themselves. */
static int64_t planned_bytes(const struct ps_trainer *trainer, int number) {
    const struct job *job = &trainer->job;
    struct worker_memory total = {0};
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    for (int p = 0; job->sizes && p < programs->instance_count; p++) {
        if (programs->instances[p].worker != number) continue;
        struct worker_memory memory =
            stage_memory(&job->sizes[programs->instances[p].stage], &trainer->programs.slots[p], trainer->rule.moments);
        worker_memory_add(&total, &memory);
    }
    if (!job->sizes) total = trainer->needed[number];
    return worker_memory_total(&total);
}

/* A table of what each worker needs, as the message's hint. */
static void hint_memory(const struct ps_trainer *trainer, struct ps_error *error) {
    struct text rows = {0};
    char t[7][32];
    text_add(&rows, "worker\tweights\tgradients\toptimizer\tstash\tbuffers\tworkspace\tin all\tlimit\n");
    for (int number = 0; number < trainer->executor->worker_count; number++) {
        struct worker_memory m = trainer->needed[number];
        int64_t limit = trainer->job.cluster->devices[number].memory_bytes;
        char total[32], limit_text[32];
        text_add(&rows, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", number, text_bytes(m.weights, t[0]),
                 text_bytes(m.gradients, t[1]), text_bytes(m.optimizer, t[2]), text_bytes(m.stash, t[3]),
                 text_bytes(m.buffers, t[4]), text_bytes(m.workspace, t[5]), text_bytes(worker_memory_total(&m), total),
                 limit > 0 ? text_bytes(limit, limit_text) : "-");
    }
    char *table = text_take_table(&rows);
    if (table) error_hint_lines(error, table);
    free(table);
}

/* The workers of a machine share its memory: what they need, or else what they may take, in all. Limits that are played are not
 * the machine's. */
static void warn_machine(const struct ps_trainer *trainer, int first, const struct host_memory *memory, const char *where) {
    const struct processes *processes = trainer->processes;
    const int64_t limit = trainer->options.emulate ? 0 : trainer->options.machines->memory_bytes;
    int64_t needed = 0;
    int workers = 0;
    char whose[128];
    for (int number = first; number < trainer->executor->worker_count; number++) {
        if (processes->count > 1 && processes_first_on_host(processes, number) != first) continue;
        needed += worker_memory_total(&trainer->needed[number]);
        workers++;
    }
    snprintf(whose, sizeof whose, "%d worker%s%s need%s", workers, text_plural(workers), where, workers == 1 ? "s" : "");
    if (host_memory_warn(memory, needed, whose)) return;
    snprintf(whose, sizeof whose, "`memory`: %d worker%s%s may take", workers, text_plural(workers), where);
    host_memory_warn(memory, limit * workers, whose);
}

static void warn_memory(const struct ps_trainer *trainer) {
    const struct processes *processes = trainer->processes;
    const struct host_memory here = host_memory_read();
    char where[80];
    if (processes->count == 1) warn_machine(trainer, 0, &here, "");
    for (int rank = 0; processes->count > 1 && rank < processes->count; rank++) {
        if (processes_first_on_host(processes, rank) != rank) continue;
        snprintf(where, sizeof where, " on %s", processes->info[rank].host);
        warn_machine(trainer, rank, &processes->info[rank].memory, where);
    }
}

static enum ps_status check_memory(const struct ps_trainer *trainer, struct ps_error *error) {
    for (int number = 0; number < trainer->executor->worker_count; number++) {
        int64_t needed = worker_memory_total(&trainer->needed[number]),
                limit = trainer->job.cluster->devices[number].memory_bytes;
        if (limit == 0 || needed <= limit) continue;
        char needed_text[32], limit_text[32];
        error_set(error, PS_NO_PLAN, "worker %d needs %s (%lld bytes), more than its limit of %s", number,
                  text_bytes(needed, needed_text), (long long)needed, text_bytes(limit, limit_text));
        hint_memory(trainer, error);
        return PS_NO_PLAN;
    }
    if (trainer->job.device->real) warn_memory(trainer);
    return PS_OK;
}

/* Replicas share the data as they share the micro-batches. */
enum ps_status trainer_give_loader(const struct ps_trainer *trainer, const struct samples *samples,
                                   const struct instance *instance, int kind, bool inputs, struct ps_error *error) {
    bool training = kind == WORKER_DATA_TRAIN, whole = !training || !trainer->programs.entries[0].programs->flush;
    struct worker *worker = &trainer->executor->workers[instance->worker];
    struct worker_data *data = inputs ? &worker->inputs[kind] : &worker->targets[kind];
    struct loader_options options = {
        .samples = samples,
        .batch = training ? trainer->job.batch : trainer->job.samples,
        .inputs = inputs,
        .targets = !inputs,
        .class_weights = trainer->job.graph->class_weights,
        .shuffle = training,
        .seed = trainer->options.seed,
        .lengths = training ? trainer_sample_lengths(trainer) : NULL,
        .stride = whole ? instance->replicas : 1,
        .chunk = trainer->job.samples,
        .replica = instance->replica,
        .replicas = whole ? 1 : instance->replicas,
        .ahead = BATCHES_AHEAD,
        .serial = !trainer->job.transport->own_threads,
    };
    data->first = whole ? instance->replica : 0;
    data->input_bytes = dataset_input_bytes(&samples->dataset->shape);
    data->several = trainer->job.graph->input_count > 1;
    return loader_create(&options, &data->loader, error);
}

bool trainer_reads(const struct ps_trainer *trainer, const struct instance *instance, bool inputs) {
    int last = trainer->programs.entries[0].programs->stages - 1;
    return inputs ? instance->stage == 0 && instance->forward : instance->stage == last;
}

static enum ps_status give_data(struct ps_trainer *trainer, struct ps_error *error) {
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    for (int p = 0; p < programs->instance_count; p++) {
        const struct instance *instance = &programs->instances[p];
        if (!executor_has(trainer->executor, instance->worker)) continue;
        for (int inputs = 0; inputs < 2; inputs++) {
            if (!trainer_reads(trainer, instance, inputs)) continue;
            if (trainer->data.dataset)
                TRY(trainer_give_loader(trainer, &trainer->data, instance, WORKER_DATA_TRAIN, inputs, error));
            if (trainer->valid.dataset && instance->forward)
                TRY(trainer_give_loader(trainer, &trainer->valid, instance, WORKER_DATA_VALID, inputs, error));
        }
    }
    return PS_OK;
}

static enum ps_status start_executor(struct ps_trainer *trainer, struct ps_error *error) {
    struct worker_options worker = trainer_worker_options(trainer);
    struct executor_options options = {
        .worker = &worker,
        .transport = trainer->job.transport,
        .processes = trainer->processes,
        .rule = &trainer->rule,
        .seed = trainer->options.seed,
        .lengths = trainer_sample_lengths(trainer),
        .batch = trainer->job.batch,
        .step_capacity = program_set_longest(&trainer->programs),
        /* Where something only waits as long as it is told, waiting is no sign. */
        .patience_s = trainer->job.device->real && !trainer->options.emulate ? PATIENCE_S : 0,
    };
    TRY(executor_create(&options, &trainer->executor, error));
    TRY(trainer_gather_needs(trainer, check_memory, error));
    memory_trim(); /* of what planning and reading left */
    trainer->start = process_memory_read(NULL);
    TRY(executor_start(trainer->executor, &worker, error));
    return trainer->job.device->real ? give_data(trainer, error) : PS_OK;
}

/* ---------------------------------------------------------------------------- all */

static enum ps_status make_run(struct ps_trainer *trainer, struct ps_error *error) {
    const struct job *job = &trainer->job;
    TRY(run_create(job->plan->workers, &trainer->run, error));
    struct ps_run *run = trainer->run;
    memcpy(run->model, job->plan->model, sizeof run->model);
    memcpy(run->network, job->plan->network, sizeof run->network);
    snprintf(run->method, sizeof run->method, "%s", job->plan->method);
    memcpy(run->schedule, job->plan->schedule, sizeof run->schedule);
    memcpy(run->weights, job->plan->weights, sizeof run->weights);
    memcpy(run->optimizer, job->plan->optimizer, sizeof run->optimizer);
    snprintf(run->device, sizeof run->device, "%s", job->device->name);
    snprintf(run->transport, sizeof run->transport, "%s", job->transport->name);
    run->batch = job->batch;
    run->micro_batches = job->plan->micro_batches;
    if (!trainer_coordinates(trainer)) return PS_OK;
    for (int number = 0; number < job->plan->workers; number++)
        run->worker[number].planned_bytes = planned_bytes(trainer, number);
    TRY(predict_throughput(job, &trainer->programs, &run->info.predicted_samples_per_s, error));
    if (run->info.predicted_samples_per_s > 0) trainer->step_s = job->batch / run->info.predicted_samples_per_s;
    return PS_OK;
}

static enum ps_status check_requested(const struct ps_train_options *requested, struct ps_error *error) {
    const struct {
        const char *name;
        bool asked;
    } kept[] = {{"tensorboard", requested->tensorboard},
                {"trace", requested->trace},
                {"keep_best", requested->keep_best > 0},
                {"checkpoint_every", requested->checkpoint_every > 0},
                {"checkpoint_minutes", requested->checkpoint_minutes > 0},
                {"keep_checkpoints", requested->keep_checkpoints > 0}};
    if (requested->keep_checkpoints < 0)
        return error_set(error, PS_USAGE, "`keep_checkpoints`: %d is negative", requested->keep_checkpoints);
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        if (kept[k].asked && !requested->resume && !requested->out)
            return error_set(error, PS_USAGE, "`%s`: needs a run directory (`out`) to write to", kept[k].name);
    return PS_OK;
}

/* A total that a run has reached leaves nothing to train. */
static enum ps_status check_total(const struct ps_trainer *trainer, struct ps_error *error) {
    const struct ps_train_options *requested = &trainer->request.options;
    const long long done = (long long)trainer->checkpoint.state.step, total = (long long)trainer->lengths.steps;
    const bool steps = requested->steps > 0;
    if (!requested->resume || (!steps && requested->epochs == 0) || done < total) return PS_OK;
    return error_set(error, PS_USAGE, "`%s`: %d in all are reached, as %s has trained %lld steps; a larger total goes on",
                     steps ? "steps" : "epochs", steps ? requested->steps : requested->epochs, requested->resume, done);
}

/* What evaluations are compared by must be known of them. */
static enum ps_status check_best(const struct ps_trainer *trainer, struct ps_error *error) {
    static const char *const names[] = {"loss", "accuracy", "perplexity", "bleu"};
    enum { LOSS, ACCURACY, PERPLEXITY, BLEU, NAMES };
    const struct ps_train_options *options = &trainer->options;
    const struct ps_network *network = trainer->job.network;
    const struct ps_train_options *requested = &trainer->request.options;
    int by = options->best_by ? 0 : LOSS;
    const char *option = options->keep_best                                   ? "keep_best"
                         : options->patience > 0                              ? "patience"
                         : options->best_by                                   ? "best_by"
                         : requested->resume && requested->evaluate_every > 0 ? "evaluate_every"
                                                                              : NULL;
    if (!option) return PS_OK;
    if (!options->valid || !network)
        return error_set(error, PS_USAGE, "`%s`: there is nothing to evaluate on; give `valid`", option);
    while (options->best_by && by < NAMES && strcmp(options->best_by, names[by]) != 0) by++;
    if (by == NAMES) return error_unknown(error, PS_USAGE, "`best_by`", options->best_by, names, NAMES);
    const bool known[] = {true, network->classes > 0, isfinite(network_perplexity(network, 1)), options->valid_bleu > 0};
    if (known[by]) return PS_OK;
    return error_set(error, PS_USAGE, "`best_by`: %s is not known of this run's evaluations%s", names[by],
                     by == BLEU ? "; `valid_bleu` counts it" : "");
}

/* What can be checked of steps and rates before a plan says the rest of them. */
static enum ps_status check_early(struct ps_trainer *trainer, struct ps_error *error) {
    const struct job *job = &trainer->job;
    const struct ps_plan_options *planning = trainer->options.planning;
    const char *weights = job->plan                                                 ? job->plan->weights
                          : planning->weights && !search_is_auto(planning->weights) ? planning->weights
                                                                                    : POLICY_SYNCHRONOUS;
    TRY(count_steps(trainer, job_requested_batch(job), 1, error));
    TRY(check_total(trainer, error));
    TRY(check_best(trainer, error));
    return choose_rule(trainer, job_optimizer(job, weights), weights, job->device->real ? job->network->graph : NULL, error);
}

static enum ps_status check_processes(const struct ps_trainer *trainer, struct ps_error *error) {
    int workers = trainer->job.plan->workers, processes = trainer->processes->count;
    if (!trainer->job.transport->processes || workers == processes) return PS_OK;
    return error_set(error, PS_USAGE, "`workers`: %d workers need as many processes, and there are %d", workers, processes);
}

/* The coordinator's part: everything that must be known before the others have something to do. */
static enum ps_status plan_run(struct ps_trainer *trainer, struct ps_error *error) {
    if (!trainer->resumption.document) TRY(run_directory_check(trainer->options.out, error));
    TRY(job_open(&trainer->job, error));
    TRY(open_data(trainer, error));
    if (trainer->job.lengths.count > 0)
        TRY(lengths_measure(&trainer->job.lengths, &trainer->data, trainer->options.data->name, error));
    TRY(check_early(trainer, error));
    TRY(trainer_check_stop(trainer, false, error));
    TRY(job_plan(&trainer->job, error));
    return check_processes(trainer, error);
}

/* Where the run is to be planned for several hosts of which nobody says what they are like, that is found out. */
static bool surveys(const struct ps_trainer *trainer) {
    const struct ps_train_options *options = &trainer->options;
    bool described = options->cluster || options->machines->bandwidth_bytes_per_s > 0 || options->machines->latency_s > 0;
    return !described && !options->plan && trainer->job.device->real;
}

/* The same at all processes: rank 0's options count. */
static enum ps_status agree_survey(const struct ps_trainer *trainer, bool *survey, struct ps_error *error) {
    char word = surveys(trainer);
    void *data = &word;
    size_t size = sizeof word;
    /* A run that goes on has a plan, or is planned for what it was. */
    *survey = false;
    if (trainer->options.resume || survey_one_host(trainer->processes)) return PS_OK;
    TRY(processes_broadcast(trainer->processes, &data, &size, error));
    *survey = *(char *)data != 0;
    if (data != &word) free(data);
    return PS_OK;
}

/* What the configuration of a run directory keeps as text. */
static enum ps_status check_kept_texts(const struct ps_train_options *options, struct ps_error *error) {
    const struct network_said *said = options->network ? &options->network->said : NULL;
    if (!options->out && !options->resume) return PS_OK;
    TRY(utf8_check("`data`", options->data ? options->data->name : NULL, error));
    TRY(utf8_check("`valid`", options->valid ? options->valid->name : NULL, error));
    TRY(utf8_check("`decay_exclude`", options->decay_exclude, error));
    TRY(utf8_check("`groups`", options->groups, error));
    TRY(utf8_check("`init`", said ? said->init : NULL, error));
    return utf8_check("`freeze`", said ? said->freeze : NULL, error);
}

/* What is wrong with the options of a new run is found before the processes meet. */
static enum ps_status check_job(struct ps_trainer *trainer, const struct transport_class **transport, struct ps_error *error) {
    const struct ps_train_options *requested = &trainer->request.options;
    TRY(check_requested(requested, error));
    TRY(check_kept_texts(requested, error));
    TRY(transport_find(requested->transport, transport, error));
    return requested->resume ? PS_OK : job_begin(requested, &trainer->job, error);
}

/* Brings the processes together and the job to all of them. */
static enum ps_status make_job(struct ps_trainer *trainer, struct ps_error *error) {
    const struct ps_train_options *requested = &trainer->request.options;
    const struct transport_class *transport;
    bool survey;
    const enum ps_status status = check_job(trainer, &transport, error);
    if (status != PS_OK) return launch_fail(requested->transport, status, error);
    TRY(processes_join(transport->processes, &trainer->processes, error));
    trainer->rank = trainer->processes->rank;
    trainer->options = *requested;
    TRY(trainer_resume_open(trainer, error));
    TRY(job_begin(&trainer->options, &trainer->job, error));
    trainer->job.processes = trainer->processes;
    TRY(agree_survey(trainer, &survey, error));
    if (survey)
        TRY(survey_machines(trainer->processes, trainer->job.device->name, trainer->job.threads, &trainer->job.cluster, error));
    if (trainer_coordinates(trainer)) TRY(plan_run(trainer, error));
    return trainer_distribute_job(trainer, error);
}

/* The programs, and the workers that will run them. */
static enum ps_status make_executor(struct ps_trainer *trainer, struct ps_error *error) {
    TRY(keep_data(trainer, error));
    const struct job *job = &trainer->job;
    TRY(count_steps(trainer, job->batch, job->plan->micro_batches, error));
    trainer_space_checkpoints(trainer);
    TRY(choose_rule(trainer, job->plan->optimizer, job->plan->weights, job->graph, error));
    TRY(lower_programs(trainer, error));
    return start_executor(trainer, error);
}

/* A run that goes on reads the words that it was trained with, or none of its weights would fit them. */
static enum ps_status check_words(const struct ps_trainer *trainer, const struct vocabulary *const words[2],
                                  struct ps_error *error) {
    char path[4096];
    struct vocabulary *before[2] = {NULL, NULL};
    file_join(path, trainer->directory.path, "vocabulary.json");
    if (!trainer->resumption.document || !file_exists(path)) return PS_OK;
    TRY(vocabulary_read(path, before, error));
    bool same = vocabulary_equal(words[0], before[0]) && vocabulary_equal(words[1], before[1]);
    for (int v = 0; v < 2; v++) vocabulary_destroy(before[v]);
    if (same) return PS_OK;
    return error_set(error, PS_USAGE, "`data`: %s has other words than the run was trained with, which are in %s",
                     trainer->options.data->name, path);
}

enum ps_status trainer_sum_data(struct ps_trainer *trainer, struct ps_error *error) {
    const struct samples *const samples[] = {&trainer->data, &trainer->valid};
    trainer->job.named = trainer->data.dataset;
    for (int s = 0; s < 2; s++)
        if (samples[s]->dataset && trainer->job.checksums[s] == 0)
            TRY(samples_checksum(samples[s], &trainer->job.checksums[s], error));
    return PS_OK;
}

/* A run that had ended stays as it is. */
static enum ps_status find_record(struct ps_trainer *trainer, struct ps_error *error) {
    char path[4096];
    if (!trainer->resumption.document) return PS_OK;
    trainer->directory.complete = (trainer->step == trainer->lengths.steps || trainer->ends_early) &&
                                  file_exists(file_join(path, trainer->directory.path, "summary.json"));
    if (trainer->directory.complete) {
        log_info("%s had ended; it stays as it is", trainer->directory.path);
        return PS_OK;
    }
    return resumption_check_data(&trainer->resumption, &trainer->request.options, trainer->job.checksums, error);
}

static enum ps_status start_directory(struct ps_trainer *trainer, struct ps_error *error) {
    if (!trainer_coordinates(trainer)) return PS_OK;
    if (!trainer->resumption.document)
        TRY(run_directory_open(trainer->options.out, &trainer->resumption, &trainer->directory, error));
    if (trainer->directory.path) TRY(trainer_sum_data(trainer, error));
    TRY(find_record(trainer, error));
    /* The line of a step that was not evaluated comes after the evaluation. */
    TRY(run_directory_start(&trainer->directory, &trainer->job, &trainer->resumption, trainer->step - trainer->unevaluated,
                            error));
    const struct dataset *data = trainer->data.dataset;
    if (!data || !trainer->directory.path) return PS_OK;
    TRY(check_words(trainer, data->shape.words, error));
    return run_directory_write_words(&trainer->directory, data->shape.words, error);
}

/* What runs where, and with what: those who gave few options learn here what was chosen. */
static void say_run(const struct ps_trainer *trainer) {
    const struct job *job = &trainer->job;
    const struct ps_train_options *options = &trainer->request.options;
    const struct ps_plan *plan = job->plan;
    const int busy = plan_busy_workers(plan);
    if (!trainer_coordinates(trainer) || options->resume || !job->device->real) return;
    const bool own_rate = isnan(options->lr), own_optimizer = !options->plan && !options->planning->optimizer;
    const struct model_training usual = model_training_of(job->network->name);
    const bool of_network = usual.optimizer && strcmp(usual.optimizer, plan->optimizer) == 0;
    log_info("training on %s, %d core%s: %d worker%s of %d thread%s", job->device->name, cores_usable(),
             text_plural(cores_usable()), busy, text_plural(busy), job->threads, text_plural(job->threads));
    log_info("mini-batches of %d = %d x %d samples, %lld in an epoch; %s at a rate of %.6g%s", job->batch, plan->micro_batches,
             job->samples, (long long)trainer->lengths.epoch, trainer->rule.requested->name, trainer->rule.settings.lr,
             !own_rate       ? ""
             : !of_network   ? " (its usual rate)"
             : own_optimizer ? ", the network's usual ones"
                             : ", the network's usual rate");
}

enum ps_status trainer_setup(struct ps_trainer *trainer, struct ps_error *error) {
    TRY(make_job(trainer, error));
    TRY(make_executor(trainer, error));
    say_run(trainer);
    TRY(make_run(trainer, error));
    TRY(trainer_check_stop(trainer, false, error));
    TRY(trainer_resume_take(trainer, error));
    TRY(start_directory(trainer, error));
    trainer->started_s = clock_now() - trainer->figures.elapsed_s;
    TRY(trainer_checkpoints_start(trainer, error));
    if (!trainer->directory.path || trainer->directory.complete) return PS_OK;
    return config_write(trainer->directory.path, &trainer->job, &trainer->rule, &trainer->lengths, trainer->step,
                        &trainer->resumption, error);
}

/* ---------------------------------------------------------------- evaluation alone */

/* Text is numbered by the run's vocabulary. */
static enum ps_status open_evaluated(struct ps_trainer *trainer, struct ps_error *error) {
    char path[4096];
    struct dataset_shape wanted = dataset_shape_of(trainer->job.network);
    file_join(path, trainer->request.options.resume, "vocabulary.json");
    if (file_exists(path)) TRY(vocabulary_read(path, trainer->words, error));
    memcpy(wanted.words, trainer->words, sizeof wanted.words);
    wanted.words_needed = true;
    wanted.unlabelled = trainer->predicts;
    return dataset_use(trainer->options.valid, DATASET_TEST, &wanted, &trainer->valid, error);
}

/* Where a run is planned anew for an evaluation: what its schedule and policy ask of workers, micro-batches and shared
 * parameters holds for training alone. */
static void plan_evaluations(struct ps_plan_options *planning) {
    const struct planner *planner = planning->method ? planner_find(planning->method) : NULL;
    planning->schedule = "1f1b";
    planning->weights = POLICY_SYNCHRONOUS;
    if (!planner || !planner->own_schedule) return;
    planning->method = NULL;
    planning->paper_cost = false;
}

/* How the run was trained does not matter any more. */
static void forget_training(struct ps_train_options *options) {
    options->out = options->lr_schedule = options->lengths = options->groups = options->best_by = NULL;
    options->warmup_steps = options->evaluate_every = options->checkpoint_every = options->valid_bleu = options->epochs = 0;
    options->lr_per_epoch = options->keep_best = 0;
    options->trace = false;
    options->steps = 1;
}

static enum ps_status plan_evaluation(struct ps_trainer *trainer, struct ps_error *error) {
    TRY(job_open(&trainer->job, error));
    TRY(open_evaluated(trainer, error));
    TRY(job_plan(&trainer->job, error));
    return check_processes(trainer, error);
}

static enum ps_status join_evaluation(struct ps_trainer *trainer, struct ps_error *error) {
    const char *name = trainer->request.options.transport;
    const struct transport_class *transport;
    const enum ps_status status = transport_find(name, &transport, error);
    if (status != PS_OK) return launch_fail(name, status, error);
    TRY(processes_join(transport->processes, &trainer->processes, error));
    TRY(trainer_resume_open(trainer, error));
    forget_training(&trainer->options);
    if (trainer->resumption.planned_anew) plan_evaluations(&trainer->resumption.request.planning);
    TRY(job_begin(&trainer->options, &trainer->job, error));
    trainer->job.processes = trainer->processes;
    TRY(device_check_real(trainer->job.device, error));
    if (trainer_coordinates(trainer)) TRY(plan_evaluation(trainer, error));
    return trainer_distribute_job(trainer, error);
}

enum ps_status trainer_setup_evaluation(struct ps_trainer *trainer, struct ps_error *error) {
    trainer->only_evaluates = true;
    TRY(join_evaluation(trainer, error));
    const struct job *job = &trainer->job;
    const int64_t samples = trainer->valid.count;
    if (!trainer_coordinates(trainer) && trainer_reads_here(trainer)) TRY(open_evaluated(trainer, error));
    if (trainer->valid.count != samples)
        return error_set(error, PS_BAD_INPUT, "`data`: %s has %lld samples here, but %lld at rank 0",
                         trainer->options.valid->name, (long long)trainer->valid.count, (long long)samples);
    trainer->lengths = (struct segment_lengths){.steps = 1, .micro_batches = job->plan->micro_batches};
    TRY(choose_rule(trainer, job->plan->optimizer, job->plan->weights, job->graph, error));
    TRY(lower_programs(trainer, error));
    TRY(start_executor(trainer, error));
    return trainer_resume_take(trainer, error);
}

void trainer_free(struct ps_trainer *trainer) {
    checkpoint_writer_free(&trainer->writer);
    processes_leave(trainer->processes, PS_OK, NULL);
    run_directory_close(&trainer->directory);
    ps_run_destroy(trainer->run);
    /* A thread that could not be ended may go on, and what it works with must stay. */
    const bool abandoned = trainer->executor && trainer->executor->abandoned;
    executor_destroy(trainer->executor);
    if (abandoned) return;
    ps_programs_destroy(trainer->other_evaluation);
    program_set_free(&trainer->programs);
    trainer_close_data(trainer);
    for (int v = 0; v < 2; v++) vocabulary_destroy(trainer->words[v]);
    free(trainer->needed);
    job_free(&trainer->job);
    checkpoint_free(&trainer->checkpoint);
    resumption_free(&trainer->resumption);
}
