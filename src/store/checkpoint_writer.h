/*
 * Writes checkpoints concurrently with training. Between two segments the state of the executor is copied into an image; then
 * training continues while a thread writes the image, renames the directory to its final name and removes the oldest
 * checkpoint. One checkpoint is written at a time: the next one waits until it is done.
 *
 * If a checkpoint cannot be written, training ends (PS_IO, at the next call): that is better than a run of days without
 * checkpoints. Complete checkpoints are kept.
 */
#ifndef PENSTOCK_STORE_CHECKPOINT_WRITER_H
#define PENSTOCK_STORE_CHECKPOINT_WRITER_H

#include <pthread.h>
#include <stdio.h>

#include "store/checkpoint_image.h"

struct checkpoint_writer {
    const char *run_dir;
    FILE *log;
    int keep;
    bool keep_best;
    struct checkpoint_image image;
    struct checkpoint_state state; /* of the checkpoint in writing; the totals are its own */
    double stall_s;                /* time that the trainer spent here */
    int64_t written;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool busy, leave, started;
    enum ps_status status; /* of the first failure */
    struct ps_error error;
};

struct checkpoint_writer_options {
    const char *run_dir; /* borrowed, as are log, executor and plan */
    FILE *log;           /* synced before each checkpoint: it may extend beyond the checkpoint, but must reach it */
    struct executor *executor;
    const struct ps_plan *plan;
    int keep;       /* checkpoints to keep; at least 1 */
    bool keep_best; /* and that of the best evaluation, as the state says */
};

/* Removes what interrupted writers left, and starts the thread. `writer` must stay where it is. */
enum ps_status checkpoint_writer_start(const struct checkpoint_writer_options *options, struct checkpoint_writer *writer,
                                       struct ps_error *error);
/* Is a checkpoint being written? */
bool checkpoint_writer_busy(struct checkpoint_writer *writer);
/* Starts a checkpoint of the executor's state; `state` is copied. */
enum ps_status checkpoint_writer_take(struct checkpoint_writer *writer, const struct checkpoint_state *state,
                                      struct ps_error *error);
/* Waits until all checkpoints started are durable. */
enum ps_status checkpoint_writer_wait(struct checkpoint_writer *writer, struct ps_error *error);
/* Ends the thread after what it is writing; a zeroed writer is fine. */
void checkpoint_writer_free(struct checkpoint_writer *writer);

#endif
