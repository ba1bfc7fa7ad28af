/*
 * RUN_DIR: what a run leaves behind. plan.json, profile.json, a first checkpoint and then config.json (all that is needed to
 * repeat it) are written before the first step: where there is a configuration, there is something to go on from. log.jsonl and
 * checkpoints/ grow while it runs, trace.json, timeline.svg and summary.json come at the end. A directory that holds a run
 * already is refused unless that run is resumed: nothing that was trained is ever overwritten. While a run is trained its
 * directory is locked.
 */
#ifndef PENSTOCK_TRAIN_RUN_DIRECTORY_H
#define PENSTOCK_TRAIN_RUN_DIRECTORY_H

#include <stdio.h>

#include "compute/figures.h"
#include "exec/update_rule.h"
#include "program/timeline.h"
#include "store/checkpoint.h"
#include "train/job.h"
#include "train/run_config.h"
#include "train/run_result.h"

struct run_directory {
    const char *path;          /* NULL: nothing is written, every call does nothing */
    FILE *log;                 /* log.jsonl */
    struct event_file *events; /* for TensorBoard; NULL: none */
    int lock;                  /* the directory, held open, and 1; 0: not locked */
    unsigned files;            /* which of those that a run needs it has, as bits */
    bool complete;             /* of a run that had ended before it was resumed: nothing is written any more */
};

/* Is the directory free, and can it be written? Asked before anything takes long. PS_USAGE if it is not free. */
enum ps_status run_directory_check(const char *path, struct ps_error *error);
/* Makes it (or takes that of a run that goes on, `before`) and locks it. PS_USAGE: it is being trained in, or not free. */
enum ps_status run_directory_open(const char *path, const struct resumption *before, struct run_directory *directory,
                                  struct ps_error *error);
/* Is this the directory, by whatever path? */
bool run_directory_is(const struct run_directory *directory, const char *path);
/* Writes plan and profile and opens the log, of which the lines up to `step` stay. */
enum ps_status run_directory_start(struct run_directory *directory, const struct job *job, const struct resumption *before,
                                   int64_t step, struct ps_error *error);
/* vocabulary.json, by which the run's text is numbered; nothing where it has none. */
enum ps_status run_directory_write_words(struct run_directory *directory, const struct vocabulary *const words[2],
                                         struct ps_error *error);
/* A line of the log. At the end of a segment `entry` has the means since the epoch began and `last` those since the line
 * before; elsewhere `last` is NULL, and `entry` has these. */
enum ps_status run_directory_log(struct run_directory *directory, const struct log_entry *entry, const struct figures *last,
                                 struct ps_error *error);
/* trace.json from `trace`, timeline.svg from the shorter `picture`. */
enum ps_status run_directory_write_timelines(const struct run_directory *directory, const struct timeline *trace,
                                             const struct timeline *picture, const char *title, struct ps_error *error);
/* Are the files that the run has written still there, and is the log the one that it writes? PS_IO says which is not. */
enum ps_status run_directory_look(const struct run_directory *directory, struct ps_error *error);
/* Syncs the log and writes summary.json. */
enum ps_status run_directory_finish(struct run_directory *directory, const struct ps_run *run, struct ps_error *error);
/* Closes the log and lets others have the directory, whatever happened. */
void run_directory_close(struct run_directory *directory);

#endif
