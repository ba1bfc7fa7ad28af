/*
 * The trainer's state, shared by its files: setting up (trainer_setup.c), the steps (trainer.c), keeping the log
 * (trainer_log.c), evaluation and translation (trainer_evaluate.c), checkpoints, going on from them and stopping
 * (trainer_checkpoint.c), what processes tell each other (trainer_processes.c), and what is said of a lost one
 * (trainer_failure.c).
 */
#ifndef PENSTOCK_TRAIN_TRAINER_H
#define PENSTOCK_TRAIN_TRAINER_H

#include "eval/evaluate.h"
#include "exec/executor.h"
#include "exec/process_memory.h"
#include "exec/program_set.h"
#include "store/checkpoint_writer.h"
#include "train/job.h"
#include "train/run_config.h"
#include "train/run_directory.h"
#include "train/run_result.h"

/* What a worker remembers for the trace. Minutes between checkpoints where nothing is said. */
enum { TRACE_COMPUTATIONS = 1024, CHECKPOINT_MINUTES = 10 };

struct ps_trainer {
    struct train_request request;    /* the caller's */
    struct ps_train_options options; /* the same, or those of the run that goes on with what the caller changes */
    struct resumption resumption;
    struct checkpoint checkpoint; /* that it goes on from */
    struct processes *processes;
    bool only_evaluates;         /* a checkpoint of a run, which stays as it is */
    bool predicts;               /* likewise, and the data need no target */
    const char *which;           /* of its checkpoints; NULL: the newest */
    struct vocabulary *words[2]; /* of that run */
    struct job job;
    struct samples data, valid; /* count 0: none; dataset NULL: none, or no worker here reads it */
    struct segment_lengths lengths;
    struct update_rule rule;
    struct program_set programs;
    struct ps_programs *other_evaluation; /* the last on data that are not `valid`; NULL: there was none */
    struct executor *executor;
    struct worker_memory *needed;   /* by worker; at rank 0 of all */
    struct run_directory directory; /* at rank 0, as is the writer */
    struct checkpoint_writer writer;
    struct ps_run *run;

    int64_t step;                 /* done before the segment that runs */
    int64_t kept_step;            /* of the newest checkpoint, written or in writing */
    struct log_entry figures;     /* of the last segment that was evaluated */
    double saved_s;               /* when that was taken */
    struct best_evaluation best;  /* at rank 0 */
    bool ends_early;              /* it trains no more: evaluations do not get better */
    bool stop_asked;              /* by the observer, at once */
    bool asked;                   /* by it, at an evaluation that is over; the same at all ranks */
    int rank;                     /* of this process, also when the run is over */
    bool unevaluated;             /* an evaluation of the step is due, or runs */
    bool over;                    /* finished, or failed: it can only be destroyed */
    double stopping_s;            /* since when it is to stop; 0: it is not */
    struct process_memory start;  /* when the kernels were made, before the workers took their memory */
    double started_s, training_s; /* since when; seconds of training segments that are over */
    struct step_sum epoch, line;  /* this epoch's; since the last line of the log */
    double line_started_s;
    int64_t segment_end;   /* the step that ends the segment that runs, or the piece of it */
    int64_t segment_steps; /* done of the segment, in pieces that are over, and the seconds that they took */
    double segment_s;
    double step_s; /* of a step, as predicted or last measured; 0: it is not known */
    int seen;      /* steps of the segment that were added to the sums, or told to rank 0 */
};

/* Everything up to the first step, from `request` (the rest zeroed). */
enum ps_status trainer_setup(struct ps_trainer *trainer, struct ps_error *error);
/* Instead of it: a run's checkpoint on `valid` of the request, by the workers that `machines` has; the memory is that of
 * training. */
enum ps_status trainer_setup_evaluation(struct ps_trainer *trainer, struct ps_error *error);
/* A loader of a kind for an instance of the programs that reads inputs, or else labels; the worker owns it. */
enum ps_status trainer_give_loader(const struct ps_trainer *trainer, const struct samples *samples,
                                   const struct instance *instance, int kind, bool inputs, struct ps_error *error);
/* Which instances read inputs, which labels: the first stage's forwards; the last stage, of a split one both halves. */
bool trainer_reads(const struct ps_trainer *trainer, const struct instance *instance, bool inputs);
/* Does a worker of this process read data? */
bool trainer_reads_here(const struct ps_trainer *trainer);
/* Runs the evaluation programs on the data of that kind; *sum is complete at rank 0. `outputs` as in struct segment. */
enum ps_status trainer_run_evaluation(struct ps_trainer *trainer, const struct ps_programs *programs, float *outputs,
                                      struct stage_result *sum, struct ps_error *error);
/* Evaluates the newest weights on the validation data, if there are some; at rank 0 `entry` gets the figures. */
enum ps_status trainer_validate(struct ps_trainer *trainer, struct log_entry *entry, struct ps_error *error);
/* What each worker is made with. */
struct worker_options trainer_worker_options(const struct ps_trainer *trainer);
/* Frees what there is; a zeroed trainer is fine. A run that is over must have been left with its status before. */
void trainer_free(struct ps_trainer *trainer);

/* Where the run goes on: its directory locked, its options merged, the checkpoint found. Does nothing for a new run. */
enum ps_status trainer_resume_open(struct ps_trainer *trainer, struct ps_error *error);
/* What every part of the run takes over from the checkpoint, once the executor is there. */
enum ps_status trainer_resume_take(struct ps_trainer *trainer, struct ps_error *error);
/* What rank 0 has, in all processes; one process alone has it already. */
enum ps_status trainer_agree(struct ps_trainer *trainer, void *value, size_t size, struct ps_error *error);
/* Where weights depend on where segments end: makes these as long as checkpoint_minutes allow, where the plan predicts it and
 * nothing else is said. The same at all processes. */
void trainer_space_checkpoints(struct ps_trainer *trainer);
/* The checksums of the data and the names of their classes, for the configuration that a directory keeps. */
enum ps_status trainer_sum_data(struct ps_trainer *trainer, struct ps_error *error);
/* Starts the writer; a new run's first checkpoint is of step 0, and durable when this returns. */
enum ps_status trainer_checkpoints_start(struct ps_trainer *trainer, struct ps_error *error);
/* Between two segments, or pieces of one. All processes do as rank 0 says: how many steps, `most` at most, come next, and
 * whether there is a checkpoint before, because it is time for one or the caller wants the training to stop. PS_STOPPED then.
 */
enum ps_status trainer_next(struct ps_trainer *trainer, int64_t most, int64_t *steps, struct ps_error *error);
/* At the end of a segment, unless the caller cut it short. */
enum ps_status trainer_checkpoint(struct ps_trainer *trainer, struct ps_error *error);
/* A checkpoint of this step in the training's own directory, if it has one: written, unless that is the newest already. The
 * figures of all workers have been gathered. */
enum ps_status trainer_keep_step(struct ps_trainer *trainer, struct ps_error *error);
/* Where there is a run directory: waits until what was taken is written, and looks whether what the run has kept is still
 * there: the newest checkpoint, the log, the configuration. PS_IO: not all of it. */
enum ps_status trainer_check_kept(struct ps_trainer *trainer, struct ps_error *error);
/* PS_STOPPED once the caller wants it and the time is up that a segment has to reach its end; called at any time. */
enum ps_status trainer_check_stop(struct ps_trainer *trainer, bool segment_runs, struct ps_error *error);
/* PS_STOPPED once the caller wants it while an evaluation runs; and what follows when its workers are at rest. The evaluation
 * has changed nothing, so one process keeps the step that it is at. Several would have to send what they have; they get the
 * time in which an evaluation may end. */
enum ps_status trainer_check_evaluation(struct ps_trainer *trainer, struct ps_error *error);
enum ps_status trainer_end_evaluation(struct ps_trainer *trainer, enum ps_status status, struct ps_error *error);

/* Is there to be a line of the log after this step? */
bool trainer_line_due(const struct ps_trainer *trainer, int64_t step);
/* At rank 0: is this evaluation the best so far, and is there anything to hope for? */
enum ps_status trainer_note_best(struct ps_trainer *trainer, const struct log_entry *entry, struct ps_error *error);
/* Adds the steps that were finished since the last call to the sums, and writes the lines of the log that are due. Called while
 * the executor works. */
enum ps_status trainer_watch(void *context, struct ps_error *error);
/* Is this the process that plans, keeps the log and writes? */
static inline bool trainer_coordinates(const struct ps_trainer *trainer) { return trainer->processes->rank == 0; }

/* Those of the samples of training, where they are told apart; else NULL. */
static inline const struct lengths *trainer_sample_lengths(const struct ps_trainer *trainer) {
    return trainer->job.lengths.count > 0 ? &trainer->job.lengths : NULL;
}

/* Sentences of the validation data that are translated at an evaluation. */
static inline int64_t trainer_written(const struct ps_trainer *trainer) {
    int64_t wanted = trainer->options.valid_bleu;
    return wanted < trainer->valid.count ? wanted : trainer->valid.count;
}
/* Translates them through the pipeline, with the newest weights (trainer_evaluate.c); *bleu is set at rank 0. */
enum ps_status trainer_translate(struct ps_trainer *trainer, double *bleu, struct ps_error *error);

/* For the caller, between steps (trainer_evaluate.c, trainer_checkpoint.c); see penstock.h. *fatal: after this failure the
 * training cannot go on. */
enum ps_status trainer_evaluate(struct ps_trainer *trainer, const struct ps_dataset *data, struct ps_evaluation *evaluation,
                                bool *fatal, struct ps_error *error);
/* Calls the watch's functions, at rank 0, for the samples of `valid`. */
enum ps_status trainer_predict(struct ps_trainer *trainer, const struct evaluation_watch *watch, struct ps_error *error);
enum ps_status trainer_save(struct ps_trainer *trainer, const char *run_dir, bool *fatal, struct ps_error *error);

/* Training by several processes (trainer_processes.c): what rank 0 distributes before the first step, and what is gathered
 * there. With one process each of these does nothing. */
/* Plan, costs, cluster and the sizes of the data, from rank 0 to all others, whose job is complete then. */
enum ps_status trainer_distribute_job(struct ps_trainer *trainer, struct ps_error *error);
/* What every worker needs, collected at rank 0; the others go on when it has agreed. */
enum ps_status trainer_gather_needs(struct ps_trainer *trainer,
                                    enum ps_status (*agree)(const struct ps_trainer *, struct ps_error *),
                                    struct ps_error *error);
/* While a segment runs: losses go from the last stage to rank 0. */
enum ps_status trainer_gather_records(struct ps_trainer *trainer, struct ps_error *error);
/* After a segment: rank 0 waits until all have finished it and knows what they saw. */
enum ps_status trainer_gather_segment(struct ps_trainer *trainer, struct ps_error *error);
/* After a segment of training: rank 0 gets to know how good each worker's predictions were. */
enum ps_status trainer_gather_predictions(struct ps_trainer *trainer, struct ps_error *error);
/* What each worker has done so far, to rank 0: into its workers and the run's figures. */
enum ps_status trainer_gather_totals(struct ps_trainer *trainer, struct ps_error *error);
/* After the last: figures of all workers, and what they remember for the trace, to rank 0. */
enum ps_status trainer_gather_figures(struct ps_trainer *trainer, struct ps_error *error);

/* Makes a message about a lost worker say what it was at, and who waits for it; takes a moment, for the last beats to come. On
 * processes that need not speak it takes the message away. */
void trainer_explain_failure(struct ps_trainer *trainer, struct ps_error *error);

/* Of the steps summed up; those that no device computed are not known. */
struct figures trainer_figures(const struct ps_trainer *trainer, const struct step_sum *sum);
/* Figures of the epoch so far; the evaluation's are not known yet. */
struct log_entry trainer_epoch_entry(const struct ps_trainer *trainer, double samples_per_s);

#endif
