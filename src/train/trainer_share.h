/*
 * Training by several processes: what rank 0 hands out before the first step, and what comes back to it. With one process each
 * of these does nothing.
 */
#ifndef PENSTOCK_TRAIN_TRAINER_SHARE_H
#define PENSTOCK_TRAIN_TRAINER_SHARE_H

#include "train/trainer.h"

/* Plan, costs, cluster and the sizes of the data, from rank 0 to all others, whose job is complete then. */
enum ps_status trainer_share_job(struct ps_trainer *trainer, struct ps_error *error);
/* What every worker needs, collected at rank 0; the others go on when it has agreed. */
enum ps_status trainer_share_needs(struct ps_trainer *trainer,
                                   enum ps_status (*agree)(const struct ps_trainer *, struct ps_error *),
                                   struct ps_error *error);
/* While a segment runs: losses go from the last stage to rank 0. */
enum ps_status trainer_share_records(struct ps_trainer *trainer, struct ps_error *error);
/* After a segment: rank 0 waits until all have finished it and knows what they saw. */
enum ps_status trainer_share_segment(struct ps_trainer *trainer, struct ps_error *error);
/* After a segment of training: how good each worker's predictions were becomes known to rank 0. *any: some were there, at rank
 * 0 of all. */
enum ps_status trainer_share_predictions(struct ps_trainer *trainer, bool *any, struct ps_error *error);
/* After the last: figures of all workers, and what they remember for the trace, to rank 0. */
enum ps_status trainer_share_figures(struct ps_trainer *trainer, struct ps_error *error);

/* Makes a message about a lost worker say what it was at, and who waits for it; takes a moment, for the last beats to come. On
 * processes that need not speak it takes the message away. */
void trainer_explain_failure(struct ps_trainer *trainer, struct ps_error *error);

#endif
