/*
 * What makes a run last: its checkpoints, going on from one of them, and stopping when the caller wants it.
 *
 * A checkpoint is due at the end of each segment. One that nobody asked for (no multiple of --checkpoint-every, no end of an
 * epoch or of the run) is left out while another is still being written.
 *
 * With synchronous weights the pipeline may drain after any step without a change of the numbers. There segments run in pieces
 * of half a second, or of one step that takes longer, between which a checkpoint can be taken: when the last is old enough
 * (checkpoint_minutes), or to stop. With other weights a checkpoint in the middle of a segment would need the state of all that
 * is in flight, or change the weights. So there the segments are as long as the plan predicts for checkpoint_minutes, at most.
 *
 * To stop, the piece or segment that runs is given a moment to reach its end, where a checkpoint is written; otherwise it is
 * given up, and the run goes on from the checkpoint before when it is resumed. Either way it ends with the same weights as if
 * it had never stopped.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "store/manifest.h"
#include "store/stage_proxies.h"
#include "train/trainer.h"

enum { KEEP_DEFAULT = 2 };
/* So long a segment, or a step of a piece that usually ends within, may take to its end when the run is to stop. */
#define STOP_WITHIN_S 2.0
#define STOP_STEP_WITHIN_S 5.0
#define PIECE_S 0.5
/* The last steps of a run that is traced are one piece, and so in the trace together. */
enum { TRACED_STEPS = 32 };

/* ----------------------------------------------------------------------- checkpoints */

/* What rank 0 loaded goes to its owners. */
static enum ps_status give_back(struct ps_trainer *trainer, struct ps_error *error) {
    if (!trainer->job.device->real) return PS_OK;
    struct worker_options worker = trainer_worker_options(trainer);
    return proxies_release(trainer->executor, &worker, error);
}

/* The stages of the other processes go to rank 0, which writes them. */
static enum ps_status send_stages(struct ps_trainer *trainer, struct ps_error *error) {
    trainer->kept_step = trainer->step;
    if (!trainer->job.device->real) return PS_OK;
    struct worker_options worker = trainer_worker_options(trainer);
    return proxies_send(trainer->executor, &worker, error);
}

static enum ps_status take_state(struct ps_trainer *trainer, struct checkpoint_writer *writer, struct ps_error *error) {
    const struct executor *executor = trainer->executor;
    struct checkpoint_state state = {
        .seed = trainer->options.seed,
        .step = trainer->step,
        .unevaluated = trainer->unevaluated,
        .epoch_steps = trainer->lengths.epoch,
        .samples = trainer->data.count,
        .epoch = trainer->epoch,
        .line = trainer->line,
        .best = trainer->best,
        .figures = trainer->figures,
        .training_s = trainer->training_s,
        .workers = executor->worker_count,
    };
    memcpy(state.model, trainer->job.plan->model, sizeof state.model);
    memcpy(state.network, trainer->job.plan->network, sizeof state.network);
    state.figures.elapsed_s = clock_now() - trainer->started_s;
    TRY(memory_new(&state.totals, executor->worker_count, "a checkpoint", error));
    for (int number = 0; number < executor->worker_count; number++) state.totals[number] = executor->workers[number].totals;
    enum ps_status status = checkpoint_writer_take(writer, &state, error);
    free(state.totals);
    if (status == PS_OK && writer == &trainer->writer) {
        trainer->kept_step = trainer->step;
        trainer->saved_s = clock_now();
    }
    return status;
}

enum ps_status trainer_agree(struct ps_trainer *trainer, void *value, size_t size, struct ps_error *error) {
    void *data = value;
    size_t got = size;
    if (trainer->processes->count == 1) return PS_OK;
    TRY(processes_broadcast(trainer->processes, &data, &got, error));
    if (data == value) return PS_OK;
    enum ps_status status = PS_OK;
    if (got == size)
        memcpy(value, data, size);
    else
        status = error_set(error, PS_FAILED, "internal error: rank 0 sent %zu bytes, not %zu", got, size);
    free(data);
    return status;
}

/* Rank 0 knows whether one is being written, and all do as it says. */
static enum ps_status agree(struct ps_trainer *trainer, bool *due, struct ps_error *error) {
    *due = segment_end_saves(&trainer->lengths, trainer->step);
    if (*due) return PS_OK;
    const bool best = trainer->options.keep_best && trainer->best.step == trainer->step;
    if (trainer_coordinates(trainer)) *due = best || trainer->ends_early || !checkpoint_writer_busy(&trainer->writer);
    return trainer_agree(trainer, due, sizeof *due, error);
}

enum ps_status trainer_checkpoint(struct ps_trainer *trainer, struct ps_error *error) {
    bool due;
    if (!trainer->options.out) return PS_OK;
    TRY(agree(trainer, &due, error));
    if (!due) return PS_OK;
    return trainer_coordinates(trainer) ? take_state(trainer, &trainer->writer, error) : send_stages(trainer, error);
}

/* Do the numbers stay the same when the pipeline drains after any step? */
static bool may_drain(const struct ps_trainer *trainer) {
    return trainer->programs.entries[0].programs->flush && strcmp(trainer->job.plan->weights, POLICY_SYNCHRONOUS) == 0;
}

static int64_t piece_length(const struct ps_trainer *trainer, int64_t most) {
    const int64_t left = trainer->lengths.steps - trainer->step;
    const int64_t whole = number_smaller(segment_length(&trainer->lengths, trainer->step), most);
    if (!trainer->writer.started || !may_drain(trainer) || (trainer->options.trace && left <= TRACED_STEPS)) return whole;
    const double fit = trainer->step_s > 0 ? PIECE_S / trainer->step_s : 1;
    int64_t length = 1;
    while ((double)(2 * length) <= fit && length < whole) length *= 2; /* powers of two: few programs are lowered */
    return whole <= 2 * length && fit > 1 ? whole : number_smaller(length, whole);
}

static double checkpoint_minutes(const struct ps_trainer *trainer) {
    const double minutes = trainer->options.checkpoint_minutes;
    return isnan(minutes) ? CHECKPOINT_MINUTES : minutes;
}

static bool is_time(struct ps_trainer *trainer) {
    const double after_s = 60 * checkpoint_minutes(trainer);
    return after_s > 0 && may_drain(trainer) && clock_now() - trainer->saved_s >= after_s &&
           !checkpoint_writer_busy(&trainer->writer);
}

void trainer_space_checkpoints(struct ps_trainer *trainer) {
    const struct ps_plan *plan = trainer->job.plan;
    struct segment_lengths *lengths = &trainer->lengths;
    const double rate = plan->predicted.throughput_samples_per_s, minutes = checkpoint_minutes(trainer);
    /* A run that goes on keeps its segments, unless it is asked to change them. */
    const bool keeps = trainer->options.resume && isnan(trainer->request.options.checkpoint_minutes);
    if (!trainer->options.out || keeps || lengths->checkpoint_every > 0 || minutes == 0) return;
    if (strcmp(plan->weights, POLICY_SYNCHRONOUS) == 0 || !plan->predicted.simulated || !(rate > 0)) return;
    const double steps = 60 * minutes * rate / trainer->job.batch;
    const int64_t longest = lengths->epoch > 0 ? number_smaller(lengths->epoch, lengths->steps) : lengths->steps;
    if (steps >= (double)longest) return;
    int64_t unit = 1;
    while ((double)(10 * unit) <= steps) unit *= 10;
    const int first = (int)(steps / (double)unit); /* digit; 1, 2 and 5 are round */
    lengths->checkpoint_every = unit * (first >= 5 ? 5 : first >= 2 ? 2 : 1);
    trainer->options.checkpoint_every = (int)lengths->checkpoint_every;
    if (trainer_coordinates(trainer))
        log_info("a checkpoint every %lld steps, which the plan predicts to take up to %g minutes; weights that are not "
                 "synchronous depend on it, and `checkpoint_every` %lld repeats it",
                 (long long)lengths->checkpoint_every, minutes, (long long)lengths->checkpoint_every);
}

static enum ps_status start_writer(struct ps_trainer *trainer, const struct run_directory *directory,
                                   struct checkpoint_writer *writer, struct ps_error *error) {
    struct worker_options worker = trainer_worker_options(trainer);
    if (trainer->job.device->real) TRY(proxies_make(trainer->executor, &worker, error));
    int keep = trainer->options.keep_checkpoints;
    struct checkpoint_writer_options options = {
        .run_dir = directory->path,
        .log = directory->log,
        .executor = trainer->executor,
        .plan = trainer->job.plan,
        .keep = keep > 0 ? keep : KEEP_DEFAULT,
        .keep_best = trainer->options.keep_best,
    };
    return checkpoint_writer_start(&options, writer, error);
}

enum ps_status trainer_checkpoints_start(struct ps_trainer *trainer, struct ps_error *error) {
    trainer->kept_step = trainer->step;
    trainer->saved_s = clock_now();
    if (!trainer->options.out) return PS_OK;
    bool begins = trainer->request.options.resume == NULL;
    if (!trainer_coordinates(trainer)) return begins ? send_stages(trainer, error) : PS_OK;
    TRY(start_writer(trainer, &trainer->directory, &trainer->writer, error));
    if (begins) TRY(take_state(trainer, &trainer->writer, error));
    TRY(checkpoint_writer_wait(&trainer->writer, error));
    trainer->writer.stall_s = 0; /* what comes before the first step is no part of training */
    return PS_OK;
}

/* ------------------------------------------------------------------- where the caller says */

enum ps_status trainer_keep_step(struct ps_trainer *trainer, struct ps_error *error) {
    const bool there = trainer->kept_step == trainer->step;
    if (!trainer->options.out) return PS_OK;
    if (!trainer_coordinates(trainer)) return there ? PS_OK : send_stages(trainer, error);
    if (!there) TRY(take_state(trainer, &trainer->writer, error));
    return checkpoint_writer_wait(&trainer->writer, error);
}

static enum ps_status fill_directory(struct ps_trainer *trainer, struct run_directory *directory,
                                     struct checkpoint_writer *writer, struct ps_error *error) {
    const struct resumption none = {0};
    const struct dataset *data = trainer->data.dataset;
    TRY(trainer_sum_data(trainer, error));
    TRY(run_directory_start(directory, &trainer->job, &none, trainer->step, error));
    if (data) TRY(run_directory_write_words(directory, data->shape.words, error));
    TRY(start_writer(trainer, directory, writer, error));
    TRY(take_state(trainer, writer, error));
    TRY(checkpoint_writer_wait(writer, error));
    return config_write(directory->path, &trainer->job, &trainer->rule, &trainer->lengths, trainer->step, NULL, error);
}

/* In another, as rank 0 writes it. */
static enum ps_status save_there(struct ps_trainer *trainer, const char *run_dir, struct ps_error *error) {
    const struct resumption none = {0};
    struct run_directory directory = {0};
    struct checkpoint_writer writer = {0};
    enum ps_status status = run_directory_open(run_dir, &none, &directory, error);
    if (status == PS_OK) status = fill_directory(trainer, &directory, &writer, error);
    checkpoint_writer_free(&writer);
    run_directory_close(&directory);
    return status;
}

enum ps_status trainer_save(struct ps_trainer *trainer, const char *run_dir, bool *fatal, struct ps_error *error) {
    const char *own = trainer->options.out;
    *fatal = false;
    if (!run_dir && !own)
        return error_set(error, PS_USAGE, "run_dir: must be said, as the training has no directory of its own");
    if (run_dir && !run_dir[0]) return error_set(error, PS_USAGE, "run_dir: it is empty");
    /* The others send what they have while rank 0 finds out whether it can write. */
    *fatal = trainer->processes->count > 1;
    TRY(trainer_gather_totals(trainer, error));
    bool here = !run_dir || run_directory_is(&trainer->directory, run_dir);
    TRY(trainer_agree(trainer, &here, sizeof here, error)); /* rank 0 has the directory */
    if (here) {
        *fatal = true;
        return trainer_keep_step(trainer, error);
    }
    if (trainer_coordinates(trainer)) return save_there(trainer, run_dir, error);
    int64_t kept = trainer->kept_step;
    enum ps_status status = send_stages(trainer, error);
    trainer->kept_step = kept;
    return status;
}

/* -------------------------------------------------------------------------- going on */

static enum ps_status find_checkpoint(struct ps_trainer *trainer, struct ps_error *error) {
    const char *option = trainer->only_evaluates ? "run" : "resume";
    TRY(resumption_open(&trainer->request.options, option, trainer->processes->count, &trainer->resumption, error));
    if (!trainer->only_evaluates)
        TRY(run_directory_open(trainer->request.options.resume, &trainer->resumption, &trainer->directory, error));
    return checkpoint_choose(trainer->request.options.resume, trainer->which, &trainer->checkpoint, error);
}

/* Rank 0 may not run where it did. */
static enum ps_status hint_host(const struct processes *processes, enum ps_status status, struct ps_error *error) {
    if (status == PS_NO_CHECKPOINT && processes->count > 1 && error)
        error_hint(error, "rank 0, on %s, reads and writes run directories; start it where this one is, or share it",
                   processes->info[0].host);
    return status;
}

enum ps_status trainer_resume_open(struct ps_trainer *trainer, struct ps_error *error) {
    if (!trainer->request.options.resume) return PS_OK;
    if (trainer_coordinates(trainer)) TRY(hint_host(trainer->processes, find_checkpoint(trainer, error), error));
    if (trainer->processes->count > 1) {
        char *own = trainer_coordinates(trainer) ? resumption_text(&trainer->resumption) : NULL;
        void *text = own;
        size_t size = own ? strlen(own) : 0;
        enum ps_status status = processes_broadcast(trainer->processes, &text, &size, error);
        if (status == PS_OK && !trainer_coordinates(trainer))
            status = resumption_parse(text, size, &trainer->request.options, &trainer->resumption, error);
        free(text);
        TRY(status);
    }
    trainer->options = trainer->resumption.request.options;
    return PS_OK;
}

/* Is the checkpoint of this run? Files in a run's directory may have been put there by hand. */
static enum ps_status check_same(const struct ps_trainer *trainer, struct ps_error *error) {
    const struct checkpoint_state *state = &trainer->checkpoint.state;
    const char *where = trainer->checkpoint.directory;
    if (trainer->job.network)
        TRY(network_check(trainer->job.network, where, state->model, state->network, error));
    else if (strcmp(state->model, trainer->job.plan->model) != 0)
        return error_set(error, PS_USAGE, "%s: is of %s, the plan of %s", where, state->model, trainer->job.plan->model);
    if (trainer->only_evaluates) return PS_OK;
    if (state->epoch_steps != trainer->lengths.epoch)
        return error_set(error, PS_USAGE, "`data`: has %lld mini-batches where the run had %lld",
                         (long long)trainer->lengths.epoch, (long long)state->epoch_steps);
    if (state->samples > 0 && state->samples != trainer->data.count)
        return error_set(error, PS_USAGE, "`data`: has %lld samples where the run had %lld", (long long)trainer->data.count,
                         (long long)state->samples);
    if (state->seed != trainer->options.seed || state->step > trainer->lengths.steps)
        return error_set(error, PS_BAD_INPUT, "%s: is of another run: seed %llu, step %lld", where,
                         (unsigned long long)state->seed, (long long)state->step);
    return PS_OK;
}

/* What rank 0 alone goes on with. */
static void take_figures(struct ps_trainer *trainer) {
    const struct checkpoint_state *state = &trainer->checkpoint.state;
    trainer->epoch = state->epoch;
    trainer->line = state->line;
    trainer->best = state->best;
    /* Who asks for more gets it. */
    const struct ps_train_options *requested = &trainer->request.options;
    if (requested->epochs > 0 || requested->steps > 0 || requested->patience > 0) trainer->best.since = 0;
    trainer->ends_early = trainer->options.patience > 0 && trainer->best.since >= trainer->options.patience;
    trainer->figures = state->figures;
    trainer->training_s = state->training_s;
    log_info("going on from %s, step %lld of %lld", trainer->checkpoint.directory, (long long)state->step,
             (long long)trainer->lengths.steps);
}

/* Rank 0 reads the checkpoint, for the others into their proxies. */
static enum ps_status load(struct ps_trainer *trainer, struct ps_error *error) {
    TRY(check_same(trainer, error));
    struct worker_options worker = trainer_worker_options(trainer);
    if (trainer->job.device->real) TRY(proxies_make(trainer->executor, &worker, error));
    TRY(checkpoint_load(&trainer->checkpoint, trainer->executor, trainer->job.plan, trainer->job.graph, error));
    memory_trim(); /* of its files, before the next one's image is taken */
    if (!trainer->only_evaluates) take_figures(trainer);
    return PS_OK;
}

/* What each worker had done, to all processes; under another number of workers it means nothing. */
static enum ps_status give_totals(struct ps_trainer *trainer, struct ps_error *error) {
    const struct checkpoint_state *state = &trainer->checkpoint.state;
    struct executor *executor = trainer->executor;
    const size_t size = (size_t)executor->worker_count * sizeof(struct worker_totals);
    struct worker_totals *totals;
    TRY(memory_new(&totals, executor->worker_count, "figures", error));
    if (trainer_coordinates(trainer) && state->workers == executor->worker_count) memcpy(totals, state->totals, size);
    enum ps_status status = trainer_agree(trainer, totals, size, error);
    for (int number = 0; status == PS_OK && number < executor->worker_count; number++)
        executor->workers[number].totals = totals[number];
    free(totals);
    return status;
}

enum ps_status trainer_resume_take(struct ps_trainer *trainer, struct ps_error *error) {
    trainer->figures = (struct log_entry){.loss = NAN,
                                          .accuracy = NAN,
                                          .valid_loss = NAN,
                                          .valid_accuracy = NAN,
                                          .top5 = NAN,
                                          .valid_top5 = NAN,
                                          .perplexity = NAN,
                                          .valid_perplexity = NAN,
                                          .valid_bleu = NAN,
                                          .samples_per_s = NAN};
    if (!trainer->request.options.resume) return PS_OK;
    trainer->step = trainer->checkpoint.state.step;
    trainer->unevaluated = trainer->checkpoint.state.unevaluated;
    if (trainer_coordinates(trainer)) TRY(load(trainer, error));
    TRY(trainer_agree(trainer, &trainer->step, sizeof trainer->step, error));
    TRY(trainer_agree(trainer, &trainer->unevaluated, sizeof trainer->unevaluated, error));
    if (!trainer->only_evaluates) TRY(give_totals(trainer, error));
    return give_back(trainer, error);
}

/* -------------------------------------------------------------------------- stopping */

enum ps_status trainer_check_kept(struct ps_trainer *trainer, struct ps_error *error) {
    char parent[4096], directory[4096], name[64];
    TRY(checkpoint_writer_wait(&trainer->writer, error));
    if (trainer->directory.complete) return PS_OK;
    file_join(parent, trainer->directory.path, CHECKPOINT_DIRECTORIES);
    TRY(manifest_look(file_join(directory, parent, checkpoint_name(trainer->kept_step, name)), error));
    return run_directory_look(&trainer->directory, error);
}

/* What a run that stops leaves: the last checkpoint, durable. `given_up`: steps of a segment that does not reach its end. */
static enum ps_status stopped(struct ps_trainer *trainer, int given_up, struct ps_error *error) {
    if (!trainer->writer.started)
        return error_set(error, PS_STOPPED, "stopped on request %s",
                         trainer->options.out ? "before the first step" : "without a run directory (`out`): nothing is kept");
    TRY(trainer_check_kept(trainer, error));
    const long long again = (long long)(trainer->step + given_up - trainer->kept_step);
    char lost[96] = "", took[32];
    if (again > 0)
        snprintf(lost, sizeof lost, "; %lld step%s after it, %s, will be trained again", again, text_plural(again),
                 text_seconds(clock_now() - trainer->saved_s, took));
    error_set(error, PS_STOPPED, "stopped on request; %s keeps the checkpoint of step %lld of %lld%s", trainer->directory.path,
              (long long)trainer->kept_step, (long long)trainer->lengths.steps, lost);
    error_hint(error, "go on with `resume` %s", trainer->directory.path);
    return PS_STOPPED;
}

/* A launcher tells all processes; rank 0 ends them. */
static bool is_to_stop(struct ps_trainer *trainer) {
    const struct ps_observer *observer = trainer->options.observer;
    if (!trainer_coordinates(trainer)) return false;
    if (observer->should_stop && observer->should_stop(observer->context)) trainer->stop_asked = true;
    if (trainer->stop_asked && trainer->stopping_s == 0) trainer->stopping_s = clock_now();
    return trainer->stop_asked;
}

enum ps_status trainer_check_stop(struct ps_trainer *trainer, bool segment_runs, struct ps_error *error) {
    if (!is_to_stop(trainer)) return PS_OK;
    double within_s = STOP_WITHIN_S;
    if (segment_runs && may_drain(trainer) && 1.5 * trainer->step_s > within_s) within_s = STOP_STEP_WITHIN_S;
    bool moment = segment_runs && trainer->writer.started && clock_now() - trainer->stopping_s < within_s;
    return moment ? PS_OK : stopped(trainer, segment_runs ? trainer->seen : 0, error);
}

enum ps_status trainer_check_evaluation(struct ps_trainer *trainer, struct ps_error *error) {
    if (!is_to_stop(trainer)) return PS_OK;
    const bool alone = trainer->processes->count == 1;
    if (trainer->writer.started && !alone && clock_now() - trainer->stopping_s < STOP_WITHIN_S) return PS_OK;
    return error_set(error, PS_STOPPED, "stopped on request");
}

enum ps_status trainer_end_evaluation(struct ps_trainer *trainer, enum ps_status status, struct ps_error *error) {
    if (status != PS_STOPPED || !trainer_coordinates(trainer)) return status;
    const bool alone = trainer->processes->count == 1;
    if (trainer->writer.started && alone && trainer->kept_step != trainer->step)
        TRY(take_state(trainer, &trainer->writer, error));
    return stopped(trainer, 0, error);
}

/* -------------------------------------------------------------------------- what is next */

struct order {
    int64_t steps;
    char saves, ends;
};

/* The figures of all workers are known at the end of a segment, but not at that of a piece. */
static enum ps_status save_piece(struct ps_trainer *trainer, struct ps_error *error) {
    TRY(trainer_gather_totals(trainer, error));
    return trainer_coordinates(trainer) ? take_state(trainer, &trainer->writer, error) : send_stages(trainer, error);
}

enum ps_status trainer_next(struct ps_trainer *trainer, int64_t most, int64_t *steps, struct ps_error *error) {
    const bool stops = is_to_stop(trainer);
    struct order order = {.steps = most, .ends = trainer->ends_early};
    if (trainer_coordinates(trainer)) {
        order.steps = piece_length(trainer, most);
        order.saves = trainer->writer.started && trainer->kept_step != trainer->step && (stops || is_time(trainer));
    }
    TRY(trainer_agree(trainer, &order, sizeof order, error));
    if (order.saves) TRY(save_piece(trainer, error));
    *steps = order.steps;
    trainer->ends_early = order.ends;
    return stops ? stopped(trainer, 0, error) : PS_OK;
}
