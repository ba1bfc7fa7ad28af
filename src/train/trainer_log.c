/* Keeping the log: sums over finished steps, lines of log.jsonl, progress. All of it in the trainer's thread. */
#include <math.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "compute/figures.h"
#include "train/trainer.h"

enum { LINES_PER_EPOCH = 20 };

static int64_t epoch_of(const struct ps_trainer *trainer, int64_t step) {
    return trainer->lengths.epoch > 0 && step > 0 ? (step - 1) / trainer->lengths.epoch + 1 : 1;
}

static void add_record(struct step_sum *sum, const struct step_record *record) {
    stage_result_add(&sum->sum, &record->sum);
    sum->steps++;
}

struct figures trainer_figures(const struct ps_trainer *trainer, const struct step_sum *sum) {
    const struct stage_result none = {0};
    return figures_of(trainer->job.network, trainer->job.device->real ? &sum->sum : &none);
}

/* Figures of the steps summed up, the last of them `step`; those that no device computed stay unknown. */
static struct log_entry make_entry(const struct ps_trainer *trainer, const struct step_sum *sum, int64_t step,
                                   double samples_per_s, double now) {
    const struct figures figures = trainer_figures(trainer, sum);
    return (struct log_entry){
        .step = step,
        .epoch = epoch_of(trainer, step),
        .loss = figures.loss,
        .accuracy = figures.accuracy,
        .top5 = figures.top5,
        .perplexity = figures.perplexity,
        .valid_loss = NAN,
        .valid_accuracy = NAN,
        .valid_top5 = NAN,
        .valid_perplexity = NAN,
        .valid_bleu = NAN,
        .lr = learning_rate_at(&trainer->rule.rate, step - 1),
        .samples_per_s = samples_per_s,
        .elapsed_s = now - trainer->started_s,
    };
}

struct log_entry trainer_epoch_entry(const struct ps_trainer *trainer, double samples_per_s) {
    return make_entry(trainer, &trainer->epoch, trainer->step, samples_per_s, clock_now());
}

static int64_t line_interval(const struct ps_trainer *trainer) {
    int64_t span = trainer->lengths.epoch > 0 && trainer->lengths.epoch < trainer->lengths.steps ? trainer->lengths.epoch
                                                                                                 : trainer->lengths.steps;
    return span > LINES_PER_EPOCH ? span / LINES_PER_EPOCH : 1;
}

bool trainer_line_due(const struct ps_trainer *trainer, int64_t step) { return step % line_interval(trainer) == 0; }

static enum ps_status write_line(struct ps_trainer *trainer, int64_t step, double now, struct ps_error *error) {
    double seconds = now - trainer->line_started_s;
    double rate = seconds > 0 ? (double)trainer->line.steps * trainer->job.batch / seconds : NAN;
    struct log_entry entry = make_entry(trainer, &trainer->line, step, rate, now);
    trainer->line = (struct step_sum){0};
    trainer->line_started_s = now;
    char loss[32] = "", accuracy[32];
    if (trainer->job.device->real) number_print(loss, sizeof loss, "loss %.4f", entry.loss);
    log_debug("step %lld: %s%s%s%.1f samples/s", (long long)step, loss, figures_accuracy_text(entry.accuracy, accuracy),
              loss[0] ? ", " : "", rate);
    return run_directory_log(&trainer->directory, &entry, NULL, error);
}

static void tell_observer(struct ps_trainer *trainer, const struct step_record *record, int64_t step) {
    const struct ps_observer *observer = trainer->options.observer;
    struct step_sum sum = {0};
    if (!observer->step) return;
    add_record(&sum, record);
    const struct log_entry entry = make_entry(trainer, &sum, step, NAN, 0);
    const struct ps_step told = {.step = step,
                                 .steps = trainer->lengths.steps,
                                 .epoch = entry.epoch,
                                 .loss = entry.loss,
                                 .accuracy = entry.accuracy,
                                 .lr = entry.lr};
    if (observer->step(observer->context, &told) != 0) trainer->stop_asked = true;
}

enum ps_status trainer_watch(void *context, struct ps_error *error) {
    struct ps_trainer *trainer = context;
    const struct executor *executor = trainer->executor;
    TRY(trainer_gather_records(trainer, error));
    if (!trainer_coordinates(trainer)) return PS_OK;
    int done = executor_steps_done(executor);
    int length = executor->segment.programs->batches;
    const double seconds = trainer->segment_s + clock_now() - executor->segment_started_s;
    for (; trainer->seen < done; trainer->seen++) {
        const struct step_record record = executor_step(executor, trainer->seen);
        add_record(&trainer->epoch, &record);
        add_record(&trainer->line, &record);
        int64_t step = trainer->step + trainer->seen + 1;
        tell_observer(trainer, &record, step);
        /* The line of a segment's last step carries the evaluation and is written after it. */
        if (trainer_line_due(trainer, step) && step < trainer->segment_end)
            TRY(write_line(trainer, step, record.done_at, error));
    }
    /* As the line of the epoch will say it. */
    char detail[128] = "", accuracy[32];
    if (trainer->job.device->real && trainer->epoch.sum.counted > 0) {
        const struct log_entry entry = make_entry(trainer, &trainer->epoch, trainer->step + done, NAN, clock_now());
        number_print(detail, sizeof detail, "epoch %lld, step %lld: loss %.4f%s; %.1f samples/s", (long long)entry.epoch,
                     (long long)entry.step, entry.loss, figures_accuracy_text(entry.accuracy, accuracy),
                     (double)(trainer->segment_steps + done) * trainer->job.batch / seconds);
    }
    log_progress("training", (double)(trainer->step + done), (double)trainer->lengths.steps, "%s", detail);
    return done < length ? trainer_check_stop(trainer, true, error) : PS_OK;
}
