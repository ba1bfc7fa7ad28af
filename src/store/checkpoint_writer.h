/*
 * Writes checkpoints beside training. The trainer hands over the state of an executor that rests, which is copied into an
 * image, and goes on; a thread writes the image, puts it in its place and then removes the oldest. One checkpoint is written at
 * a time: who hands over the next one earlier waits.
 *
 * A checkpoint that cannot be written is the end of the training (PS_IO, at the next call): a run that goes on for days without
 * any is worth less than one that says so. Those that are in their place stay as they are.
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
    struct checkpoint_image image;
    struct checkpoint_state state; /* of the checkpoint in writing; busy_s is its own */
    double stall_s;                /* that the trainer spent here */
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
    FILE *log;           /* made durable before each checkpoint: it may reach further, never less far */
    struct executor *executor;
    const struct ps_plan *plan;
    int keep; /* checkpoints that stay; at least 1 */
};

/* Removes what interrupted writers left, and starts the thread. `writer` must stay where it is. */
enum ps_status checkpoint_writer_start(const struct checkpoint_writer_options *options, struct checkpoint_writer *writer,
                                       struct ps_error *error);
/* Is one being written? */
bool checkpoint_writer_busy(struct checkpoint_writer *writer);
/* Hands over the executor's state; `state` is copied. */
enum ps_status checkpoint_writer_take(struct checkpoint_writer *writer, const struct checkpoint_state *state,
                                      struct ps_error *error);
/* Waits until all that was handed over is durable. */
enum ps_status checkpoint_writer_wait(struct checkpoint_writer *writer, struct ps_error *error);
/* Ends the thread after what it is writing; a zeroed writer is fine. */
void checkpoint_writer_free(struct checkpoint_writer *writer);

#endif
