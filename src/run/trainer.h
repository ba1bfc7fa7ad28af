/* The trainer's state, shared by its files: setting up (trainer_setup.c), keeping the log (trainer_log.c), training (trainer.c). */
#ifndef PENSTOCK_RUN_TRAINER_H
#define PENSTOCK_RUN_TRAINER_H

#include "run/crew.h"
#include "run/job.h"
#include "run/program_set.h"
#include "run/run.h"
#include "run/run_directory.h"

/* What a worker remembers for the trace. */
enum { TRACE_COMPUTATIONS = 1024 };

/* What was seen of some steps. */
struct step_sum {
    double loss;
    int64_t correct, correct5, counted, steps; /* counted: labels */
};

struct trainer {
    const struct ps_train_options *options;
    struct processes *processes;
    struct job job;
    struct samples data, valid; /* count 0: none; dataset NULL: none, or no worker here reads it */
    struct segment_lengths lengths;
    struct update_rule rule;
    struct program_set programs;
    struct crew *crew;
    struct worker_memory *needed; /* by worker; at rank 0 of all */
    struct run_directory directory; /* at rank 0 */
    struct ps_run *run;

    int64_t step;                 /* done before the segment that runs */
    double started_s, training_s; /* since when; seconds of training segments that are over */
    struct step_sum epoch, line;  /* this epoch's; since the last line of the log */
    double line_started_s;
    int seen; /* steps of the segment that were added to the sums, or told to rank 0 */
};

/* All of ps_train, from `options` (the rest zeroed) to the last file; the crew keeps the trained weights until trainer_free. */
enum ps_status trainer_train(struct trainer *trainer, struct ps_error *error);
/* Its beginning: everything up to the first step. */
enum ps_status trainer_setup(struct trainer *trainer, struct ps_error *error);
/* What each worker is made with. */
struct worker_options trainer_worker_options(const struct trainer *trainer);
/* Frees what there is; a zeroed trainer is fine. A run that is over must have been left with its status before. */
void trainer_free(struct trainer *trainer);

/* Adds the steps that were finished since the last call to the sums, and writes the lines of the log that are due. Called while
 * the crew works. */
enum ps_status trainer_watch(void *context, struct ps_error *error);
/* Is this the process that plans, keeps the log and writes? */
static inline bool trainer_coordinates(const struct trainer *trainer) { return trainer->processes->rank == 0; }

/* The five best of five classes say nothing. */
static inline bool trainer_counts_top5(const struct trainer *trainer) {
    return trainer->job.model && trainer->job.model->classes > 5;
}

/* Figures of the epoch so far; the evaluation's are not known yet. */
struct log_entry trainer_epoch_entry(const struct trainer *trainer, double samples_per_s);

#endif
