/* Setting up: from options to a crew that waits for its first segment. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "run/predict.h"
#include "run/trainer.h"

enum { BATCHES_AHEAD = 4 };

/* --------------------------------------------------------------------- preparing */

static enum ps_status open_data(struct trainer *trainer, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    if (!trainer->job.device->real) return PS_OK;
    struct dataset_shape wanted = job_data_shape(trainer->job.model);
    TRY(samples_open(options->data, DATASET_TRAIN, &wanted, &trainer->data, error));
    return options->valid ? samples_open(options->valid, DATASET_TEST, &wanted, &trainer->valid, error) : PS_OK;
}

static enum ps_status count_steps(struct trainer *trainer, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    struct segment_lengths *lengths = &trainer->lengths;
    *lengths = (struct segment_lengths){.evaluate_every = options->evaluate_every,
                                        .checkpoint_every = options->checkpoint_every,
                                        .micro_batches = trainer->job.plan->micro_batches};
    if (trainer->job.device->real) {
        lengths->epoch = trainer->data.count / trainer->job.batch;
        if (lengths->epoch == 0)
            return error_set(error, PS_USAGE, "--data: %s has %lld samples, fewer than a mini-batch of %d", options->data,
                             (long long)trainer->data.count, trainer->job.batch);
    } else if (options->steps == 0) {
        return error_set(error, PS_USAGE, "--steps: device %s reads no data, so steps and not epochs must be given",
                         trainer->job.device->name);
    }
    if (options->steps == 0 && options->epochs == 0)
        return error_set(error, PS_USAGE, "--epochs: how long to train must be said, in epochs or steps");
    lengths->steps = options->steps > 0 ? options->steps : options->epochs * lengths->epoch;
    if (lengths->steps > INT32_MAX)
        return error_set(error, PS_USAGE, "--epochs: %lld steps are more than a run can have", (long long)lengths->steps);
    return PS_OK;
}

static enum ps_status choose_rule(struct trainer *trainer, struct ps_error *error) {
    const struct ps_train_options *options = &trainer->options;
    const struct ps_plan *plan = trainer->job.plan;
    struct update_wishes wishes = {
        .optimizer = plan->optimizer,
        .settings = {.lr = options->lr,
                     .momentum = options->momentum,
                     .dampening = options->dampening,
                     .weight_decay = options->weight_decay,
                     .beta1 = options->beta1,
                     .beta2 = options->beta2,
                     .eps = options->eps},
    };
    TRY(update_rule_choose(&wishes, plan->weights, plan->paper_prediction, &trainer->rule, error));
    return learning_rate_parse(options->lr_schedule, trainer->rule.settings.lr, options->warmup_steps, trainer->lengths.steps,
                               trainer->lengths.epoch, &trainer->rule.rate, error);
}

static enum ps_status lower_programs(struct trainer *trainer, struct ps_error *error) {
    const struct job *job = &trainer->job;
    int64_t evaluation = trainer->valid.dataset ? (trainer->valid.count + job->samples - 1) / job->samples : 0;
    return program_set_create(job->plan, &trainer->lengths, evaluation, &trainer->programs, error);
}

/* ------------------------------------------------------------------------- crew */

static struct worker_options worker_options(const struct trainer *trainer) {
    const struct job *job = &trainer->job;
    return (struct worker_options){
        .device = job->device,
        .threads = job->threads,
        .graph = job->graph,
        .plan = job->plan,
        .samples = job->samples,
        /* A device that only waits touches no block, and takes what the profile says in memory as in time. */
        .sizes = job->device->real ? NULL : job->sizes,
        .slots = trainer->programs.slots,
        .programs = trainer->programs.entries[0].programs,
        .moments = trainer->rule.moments,
        .record = trainer->options.trace ? TRACE_COMPUTATIONS : 0,
    };
}

/* What a worker was promised to take: from the profile's sizes where there is one, else from the stages themselves. */
static int64_t planned_bytes(const struct trainer *trainer, int number) {
    const struct job *job = &trainer->job;
    struct worker_memory total = {0};
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    for (int p = 0; job->sizes && p < programs->part_count; p++) {
        if (programs->parts[p].worker != number) continue;
        struct worker_memory memory =
            stage_memory(&job->sizes[programs->parts[p].stage], &trainer->programs.slots[p], trainer->rule.moments);
        worker_memory_add(&total, &memory);
    }
    if (!job->sizes) total = worker_memory_needed(&trainer->crew->workers[number], trainer->rule.moments);
    return worker_memory_total(&total);
}

/* A table of what each worker needs, as the message's hint. */
static void hint_memory(const struct trainer *trainer, struct ps_error *error) {
    struct text rows = {0};
    char t[7][32];
    text_add(&rows, "worker\tweights\tgradients\toptimizer\tstash\tbuffers\tworkspace\tin all\tlimit\n");
    for (int number = 0; number < trainer->crew->worker_count; number++) {
        struct worker_memory m = worker_memory_needed(&trainer->crew->workers[number], trainer->rule.moments);
        int64_t limit = trainer->job.cluster->devices[number].memory_bytes;
        char total[32], limit_text[32];
        text_add(&rows, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", number, text_bytes(m.weights, t[0]),
                 text_bytes(m.gradients, t[1]), text_bytes(m.optimizer, t[2]), text_bytes(m.stash, t[3]),
                 text_bytes(m.buffers, t[4]), text_bytes(m.workspace, t[5]), text_bytes(worker_memory_total(&m), total),
                 limit > 0 ? text_bytes(limit, limit_text) : "-");
    }
    char *source = text_take(&rows), *table = source ? text_table(source) : NULL;
    if (table) error_hint(error, "%s", table);
    free(table);
    free(source);
}

static enum ps_status check_memory(const struct trainer *trainer, struct ps_error *error) {
    for (int number = 0; number < trainer->crew->worker_count; number++) {
        struct worker_memory memory = worker_memory_needed(&trainer->crew->workers[number], trainer->rule.moments);
        int64_t needed = worker_memory_total(&memory), limit = trainer->job.cluster->devices[number].memory_bytes;
        if (limit == 0 || needed <= limit) continue;
        char needed_text[32], limit_text[32];
        error_set(error, PS_NO_PLAN, "worker %d needs %s (%lld bytes), more than its limit of %s", number,
                  text_bytes(needed, needed_text), (long long)needed, text_bytes(limit, limit_text));
        hint_memory(trainer, error);
        return PS_NO_PLAN;
    }
    return PS_OK;
}

static enum ps_status give_loader(const struct trainer *trainer, const struct samples *samples, bool training, bool images,
                                  struct worker_data *data, struct ps_error *error) {
    const struct dataset_shape *shape = &samples->dataset->shape;
    struct loader_options options = {
        .samples = samples,
        .batch = training ? trainer->job.batch : trainer->job.samples,
        .images = images,
        .labels = !images,
        .shuffle = training,
        .seed = trainer->options.seed,
        .ahead = BATCHES_AHEAD,
        .serial = !trainer->job.transport->own_threads,
    };
    data->image_floats = (size_t)(shape->channels * shape->height * shape->width);
    return loader_create(&options, &data->loader, error);
}

/* Images for the first stage's worker, labels for the last stage's. */
static enum ps_status give_data(struct trainer *trainer, struct ps_error *error) {
    const struct ps_programs *programs = trainer->programs.entries[0].programs;
    struct worker *first = &trainer->crew->workers[programs_worker(programs, 0)];
    struct worker *last = &trainer->crew->workers[programs_worker(programs, programs->stages - 1)];
    TRY(give_loader(trainer, &trainer->data, true, true, &first->images[WORKER_DATA_TRAIN], error));
    TRY(give_loader(trainer, &trainer->data, true, false, &last->labels[WORKER_DATA_TRAIN], error));
    if (!trainer->valid.dataset) return PS_OK;
    TRY(give_loader(trainer, &trainer->valid, false, true, &first->images[WORKER_DATA_VALID], error));
    return give_loader(trainer, &trainer->valid, false, false, &last->labels[WORKER_DATA_VALID], error);
}

static enum ps_status hire_crew(struct trainer *trainer, struct ps_error *error) {
    struct worker_options worker = worker_options(trainer);
    struct crew_options options = {
        .worker = &worker,
        .transport = trainer->job.transport,
        .rule = &trainer->rule,
        .seed = trainer->options.seed,
        .step_capacity = program_set_longest(&trainer->programs),
    };
    TRY(crew_create(&options, &trainer->crew, error));
    TRY(check_memory(trainer, error));
    TRY(crew_start(trainer->crew, &worker, error));
    return trainer->job.device->real ? give_data(trainer, error) : PS_OK;
}

/* ---------------------------------------------------------------------------- all */

static enum ps_status make_run(struct trainer *trainer, struct ps_error *error) {
    const struct job *job = &trainer->job;
    TRY(run_create(job->plan->workers, &trainer->run, error));
    struct ps_run *run = trainer->run;
    memcpy(run->model, job->plan->model, sizeof run->model);
    memcpy(run->schedule, job->plan->schedule, sizeof run->schedule);
    memcpy(run->weights, job->plan->weights, sizeof run->weights);
    memcpy(run->optimizer, job->plan->optimizer, sizeof run->optimizer);
    snprintf(run->device, sizeof run->device, "%s", job->device->name);
    snprintf(run->transport, sizeof run->transport, "%s", job->transport->name);
    run->batch = job->batch;
    run->micro_batches = job->plan->micro_batches;
    for (int number = 0; number < job->plan->workers; number++)
        run->worker[number].planned_bytes = planned_bytes(trainer, number);
    return predict_throughput(job, &trainer->programs, &run->info.predicted_samples_per_s, error);
}

static enum ps_status check_wishes(const struct ps_train_options *wishes, struct ps_error *error) {
    const char *out = wishes->resume ? wishes->resume : wishes->out;
    if (wishes->trace && !out) return error_set(error, PS_USAGE, "--trace: needs a run directory (--out) to write to");
    if (wishes->checkpoint_every < 0 || wishes->keep_checkpoints < 0)
        return error_set(error, PS_USAGE, "%s: must not be negative",
                         wishes->checkpoint_every < 0 ? "--checkpoint-every" : "--keep-checkpoints");
    if (wishes->checkpoint_every > 0 && !out)
        return error_set(error, PS_USAGE, "--checkpoint-every: needs a run directory (--out) to write to");
    return wishes->resume ? PS_OK : run_directory_check(out, error);
}

/* The programs, and the workers that will run them. */
static enum ps_status make_crew(struct trainer *trainer, struct ps_error *error) {
    TRY(count_steps(trainer, error));
    TRY(choose_rule(trainer, error));
    TRY(lower_programs(trainer, error));
    return hire_crew(trainer, error);
}

enum ps_status trainer_setup(struct trainer *trainer, struct ps_error *error) {
    TRY(check_wishes(trainer->wishes, error));
    trainer->options = *trainer->wishes;
    TRY(trainer_resume_open(trainer, error));
    TRY(job_open(&trainer->options, &trainer->job, error));
    TRY(open_data(trainer, error));
    TRY(trainer_check_stop(trainer, false, error));
    TRY(job_plan(&trainer->job, error));
    TRY(make_crew(trainer, error));
    TRY(make_run(trainer, error));
    TRY(trainer_check_stop(trainer, false, error));
    TRY(trainer_resume_take(trainer, error));
    if (!trainer->resumption.document)
        TRY(run_directory_open(trainer->options.out, &trainer->resumption, &trainer->directory, error));
    TRY(run_directory_start(&trainer->directory, &trainer->job, &trainer->rule, trainer->lengths.steps, &trainer->resumption,
                            trainer->step, error));
    trainer->started_s = clock_now() - trainer->figures.elapsed_s;
    return trainer_checkpoints_start(trainer, error);
}

void trainer_free(struct trainer *trainer) {
    checkpoint_writer_free(&trainer->writer);
    run_directory_close(&trainer->directory);
    ps_run_destroy(trainer->run);
    crew_destroy(trainer->crew);
    program_set_free(&trainer->programs);
    samples_close(&trainer->valid);
    samples_close(&trainer->data);
    job_free(&trainer->job);
    checkpoint_free(&trainer->checkpoint);
    resumption_free(&trainer->resumption);
}
