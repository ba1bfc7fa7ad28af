/*
 * Where the plan of a job comes from: a file, or the costs of its network, which are measured where nobody gave them. With the
 * plan the job gets its cluster. Of a network whose mini-batches have several lengths (data/order.h) the times are means: each
 * length is measured, and counts as often as mini-batches have it. Memory is that of the whole length, in whose blocks all are
 * computed.
 */
#ifndef PENSTOCK_TRAIN_JOB_PLAN_H
#define PENSTOCK_TRAIN_JOB_PLAN_H

#include "train/job.h"

/* The profile that was given: where it does not say that its times are means over the job's lengths, the shorter ones are
 * measured here, at its sizes of micro-batch. PS_USAGE where it says other lengths, or no size. */
enum ps_status job_fit_costs(struct job *job, int64_t batch, struct ps_error *error);
/* A copy of that of the options, with what they say of the optimizer. PS_USAGE where they contradict it. */
enum ps_status job_take_plan(struct job *job, struct ps_error *error);
/* For the options' requested; measures the network first, unless the job has a profile. */
enum ps_status job_make_plan(struct job *job, struct ps_error *error);

/* Sizes of micro-batch, each once. */
enum { SIZE_SET_MAX = 64 };
struct size_set {
    int sizes[SIZE_SET_MAX], count;
};
/* Adds those at which the plan of the options would be searched. PS_USAGE where they contradict each other. */
enum ps_status job_add_sizes(const struct job *job, struct size_set *set, struct ps_error *error);
/* Measures the network at all of them, for the options' workers; sets the job's profile. */
enum ps_status job_measure(struct job *job, const struct size_set *set, struct ps_error *error);

/* Samples of the plan's mini-batch; where nobody says how large a micro-batch is, it counts as one. */
int64_t job_plan_batch(const struct ps_plan *plan);
/* The same of the plan that the job has, or is to have. */
int64_t job_requested_batch(const struct job *job);

/* The optimizer of the options or the plan; else the network's usual one if the weight policy runs with it. */
const char *job_optimizer(const struct job *job, const char *policy);

/* How a mini-batch is cut: *micro_batches is the wish (0: none) and becomes the number taken, *micro_batch (0: no wish) its
 * size. `usual` is taken where nothing is wished, or the divisor of `batch` nearest below it that is at least `least`. PS_USAGE
 * names the divisors near. */
enum ps_status job_cut_batch(int batch, int usual, int least, int *micro_batches, int *micro_batch, struct ps_error *error);

#endif
