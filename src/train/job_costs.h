/*
 * What a job's network costs, measured where no profile was given. Of a network whose mini-batches have several lengths
 * (data/order.h) the times are means: each length is measured, and counts as often as mini-batches have it. Memory is that of
 * the whole length, in whose blocks all are computed.
 */
#ifndef PENSTOCK_TRAIN_JOB_COSTS_H
#define PENSTOCK_TRAIN_JOB_COSTS_H

#include "train/job.h"

/* Measures at so many sizes of micro-batch, for mini-batches of `batch` samples; sets the job's profile, and where devices are
 * of several types its cluster, which says of which type each is. */
enum ps_status job_costs_measure(struct job *job, int64_t batch, const int *sizes, int count, struct ps_error *error);
/* The profile that was given: where it does not say that its times are means over the job's lengths, the shorter ones are
 * measured here, at its sizes of micro-batch. PS_USAGE where it says other lengths, or no size. */
enum ps_status job_costs_fit(struct job *job, int64_t batch, struct ps_error *error);

#endif
