/*
 * RUN_DIR: what a run leaves behind. config.json (all that is needed to repeat it) and plan.json are written before the first
 * step, log.jsonl grows line by line while it runs, checkpoints/, trace.json, timeline.svg and summary.json come at the end. A
 * directory that holds a run already is refused: nothing that was trained is ever overwritten.
 */
#ifndef PENSTOCK_RUN_RUN_DIRECTORY_H
#define PENSTOCK_RUN_RUN_DIRECTORY_H

#include <stdio.h>

#include "program/timeline.h"
#include "run/job.h"
#include "run/run.h"
#include "run/update_rule.h"

struct run_directory {
    const char *path; /* NULL: nothing is written, every call does nothing */
    FILE *log;        /* log.jsonl */
};

/* A line of log.jsonl; numbers that are not finite are left out. */
struct log_entry {
    int64_t step, epoch;
    double loss, accuracy, top5, perplexity, valid_loss, valid_accuracy, valid_top5, valid_perplexity, lr, samples_per_s, elapsed_s;
    const struct ps_run_worker *predicted; /* each worker's prediction_error and newest_error; NULL: not measured here */
    int workers;
};

/* Is the directory free? Asked before anything takes long. PS_USAGE if not. */
enum ps_status run_directory_check(const char *path, struct ps_error *error);
/* Makes it, writes config.json and plan.json, opens the log. */
enum ps_status run_directory_start(const char *path, const struct job *job, const struct update_rule *rule, int64_t steps,
                                   struct run_directory *directory, struct ps_error *error);
/* vocabulary.json, by which the run's text is numbered; nothing where it has none. */
enum ps_status run_directory_write_words(const struct run_directory *directory, const struct vocabulary *const words[2],
                                         struct ps_error *error);
enum ps_status run_directory_log(struct run_directory *directory, const struct log_entry *entry, struct ps_error *error);
/* trace.json from `trace`, timeline.svg from the shorter `picture`. */
enum ps_status run_directory_write_timelines(const struct run_directory *directory, const struct timeline *trace,
                                             const struct timeline *picture, const char *title, struct ps_error *error);
/* Syncs the log and writes summary.json. */
enum ps_status run_directory_finish(struct run_directory *directory, const struct ps_run *run, struct ps_error *error);
/* Closes the log, whatever happened. */
void run_directory_close(struct run_directory *directory);

#endif
