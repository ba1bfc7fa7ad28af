/*
 * What makes a run last: its checkpoints, going on from one of them, and stopping when the caller wants it.
 *
 * A checkpoint is due at the end of each segment. One that nobody asked for (no multiple of --checkpoint-every, no end of an
 * epoch or of the run) is left out while another is still being written.
 *
 * To stop, the segment that runs is given a moment to reach its end, where its checkpoint is written; otherwise it is given up,
 * and the run goes on from the checkpoint at its beginning when it is resumed. Either way it ends with the same weights as if it
 * had never stopped: segments stay as they are.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "run/trainer.h"

enum { KEEP_DEFAULT = 2 };
#define STOP_WITHIN_S 2.0

/* ----------------------------------------------------------------------- checkpoints */

enum ps_status trainer_checkpoints_start(struct trainer *trainer, struct ps_error *error) {
    if (!trainer->directory.path) return PS_OK;
    int keep = trainer->options.keep_checkpoints;
    struct checkpoint_writer_options options = {
        .directory = &trainer->directory,
        .crew = trainer->crew,
        .plan = trainer->job.plan,
        .keep = keep > 0 ? keep : KEEP_DEFAULT,
    };
    TRY(checkpoint_writer_start(&options, &trainer->writer, error));
    trainer->kept_step = trainer->step;
    trainer->run->info.checkpoint_bytes = (int64_t)trainer->writer.image.memory.size;
    return trainer->resumption.document ? PS_OK : trainer_checkpoint(trainer, error);
}

enum ps_status trainer_checkpoint(struct trainer *trainer, struct ps_error *error) {
    if (!trainer->directory.path) return PS_OK;
    if (!segment_end_saves(&trainer->lengths, trainer->step) && checkpoint_writer_busy(&trainer->writer)) return PS_OK;
    const struct crew *crew = trainer->crew;
    struct checkpoint_state state = {
        .seed = trainer->options.seed,
        .step = trainer->step,
        .epoch_steps = trainer->lengths.epoch,
        .epoch = trainer->epoch,
        .figures = trainer->figures,
        .training_s = trainer->training_s,
        .workers = crew->worker_count,
    };
    memcpy(state.model, trainer->job.plan->model, sizeof state.model);
    state.figures.elapsed_s = clock_now() - trainer->started_s;
    state.busy_s = calloc((size_t)crew->worker_count, sizeof *state.busy_s);
    if (!state.busy_s) return error_memory(error, "a checkpoint", (size_t)crew->worker_count * sizeof *state.busy_s);
    for (int number = 0; number < crew->worker_count; number++) state.busy_s[number] = crew->workers[number].busy_s;
    enum ps_status status = checkpoint_writer_take(&trainer->writer, &state, error);
    free(state.busy_s);
    if (status == PS_OK) trainer->kept_step = trainer->step;
    return status;
}

/* -------------------------------------------------------------------------- going on */

enum ps_status trainer_resume_open(struct trainer *trainer, struct ps_error *error) {
    if (!trainer->wishes->resume) return PS_OK;
    TRY(resumption_open(trainer->wishes, &trainer->resumption, error));
    trainer->options = trainer->resumption.options;
    TRY(run_directory_open(trainer->options.out, &trainer->resumption, &trainer->directory, error));
    return checkpoint_find(trainer->options.out, &trainer->checkpoint, error);
}

/* Is the checkpoint of this run? Files in a run's directory may have been put there by hand. */
static enum ps_status check_same(const struct trainer *trainer, struct ps_error *error) {
    const struct checkpoint_state *state = &trainer->checkpoint.state;
    const char *where = trainer->checkpoint.directory;
    if (strcmp(state->model, trainer->job.plan->model) != 0)
        return error_set(error, PS_USAGE, "%s: is of %s, the plan of %s", where, state->model, trainer->job.plan->model);
    if (state->epoch_steps != trainer->lengths.epoch)
        return error_set(error, PS_USAGE, "--data: has %lld mini-batches where the run had %lld",
                         (long long)trainer->lengths.epoch, (long long)state->epoch_steps);
    if (state->seed != trainer->options.seed || state->step > trainer->lengths.steps)
        return error_set(error, PS_BAD_INPUT, "%s: is of another run: seed %llu, step %lld", where,
                         (unsigned long long)state->seed, (long long)state->step);
    return PS_OK;
}

static enum ps_status seek(struct trainer *trainer, struct ps_error *error) {
    for (int number = 0; number < trainer->crew->worker_count; number++) {
        struct worker *worker = &trainer->crew->workers[number];
        if (worker->images[WORKER_DATA_TRAIN].loader)
            TRY(loader_seek(worker->images[WORKER_DATA_TRAIN].loader, trainer->step, error));
        if (worker->labels[WORKER_DATA_TRAIN].loader)
            TRY(loader_seek(worker->labels[WORKER_DATA_TRAIN].loader, trainer->step, error));
    }
    return PS_OK;
}

enum ps_status trainer_resume_take(struct trainer *trainer, struct ps_error *error) {
    const struct checkpoint_state *state = &trainer->checkpoint.state;
    trainer->figures = (struct log_entry){.loss = NAN, .accuracy = NAN, .valid_loss = NAN, .valid_accuracy = NAN};
    if (!trainer->resumption.document) return PS_OK;
    TRY(check_same(trainer, error));
    TRY(checkpoint_load(&trainer->checkpoint, trainer->crew, trainer->job.plan, trainer->job.graph, error));
    trainer->step = state->step;
    trainer->epoch = state->epoch;
    trainer->figures = state->figures;
    trainer->training_s = state->training_s;
    /* How long who was busy means nothing under another number of workers. */
    for (int number = 0; state->workers == trainer->crew->worker_count && number < state->workers; number++)
        trainer->crew->workers[number].busy_s = state->busy_s[number];
    log_info("going on from %s, step %lld of %lld", trainer->checkpoint.directory, (long long)trainer->step,
             (long long)trainer->lengths.steps);
    return seek(trainer, error);
}

/* -------------------------------------------------------------------------- stopping */

/* What a run that stops leaves: the last checkpoint, durable. */
static enum ps_status stopped(struct trainer *trainer, struct ps_error *error) {
    if (!trainer->writer.started)
        return error_set(error, PS_STOPPED, "stopped by a signal %s",
                         trainer->options.out ? "before the first step" : "without a run directory (--out): nothing is kept");
    TRY(checkpoint_writer_wait(&trainer->writer, error));
    error_set(error, PS_STOPPED, "stopped by a signal; %s keeps the checkpoint of step %lld of %lld", trainer->directory.path,
              (long long)trainer->kept_step, (long long)trainer->lengths.steps);
    error_hint(error, "go on with penstock train --resume %s", trainer->directory.path);
    return PS_STOPPED;
}

enum ps_status trainer_check_stop(struct trainer *trainer, bool segment_runs, struct ps_error *error) {
    const volatile int *stop = trainer->wishes->stop;
    if (!stop || !*stop) return PS_OK;
    if (trainer->stopping_s == 0) trainer->stopping_s = clock_now();
    bool moment = segment_runs && trainer->writer.started && clock_now() - trainer->stopping_s < STOP_WITHIN_S;
    return moment ? PS_OK : stopped(trainer, error);
}
