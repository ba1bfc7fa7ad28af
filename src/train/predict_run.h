/* What a run should come to on this machine, by simulation: put beside what it does come to. */
#ifndef PENSTOCK_TRAIN_PREDICT_RUN_H
#define PENSTOCK_TRAIN_PREDICT_RUN_H

#include "exec/program_set.h"
#include "train/job.h"

/* How many workers compute at the same moment on this machine; 0: all. */
int predict_at_once(const struct job *job);
/* Whether the prediction counts the cluster's links: they are emulated, or the run's blocks go between hosts. */
bool predict_takes_links(const struct job *job);

/* Samples per second of training over all segments, fill and drain of each included: with as many cores as this machine has
 * (without limit where the device only waits) and blocks that change hands for nothing; if the cluster is emulated or the
 * processes run on several hosts, with the cluster's links. NaN where the job has no profile. */
enum ps_status predict_throughput(const struct job *job, const struct program_set *set, double *samples_per_s,
                                  struct ps_error *error);

#endif
