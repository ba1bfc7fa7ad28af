/*
 * Stage proxies: placeholders at rank 0 for the stages of other processes, while weights are written or read: weights,
 * statistics and moments, without anything to run them. So reading or writing a checkpoint finds all stages in the executor,
 * wherever they are trained. They are made on the `reference` device, whose parameters lie in canonical order: messages do not
 * depend on the layout that each host's kernels choose.
 */
#ifndef PENSTOCK_STORE_STAGE_PROXIES_H
#define PENSTOCK_STORE_STAGE_PROXIES_H

#include "exec/executor.h"

/* All processes call these, between segments, with the same options; where the executor is all in one process they do nothing.
 */

/* Makes the proxies at rank 0, where there are none yet. Only rank 0 need call it. */
enum ps_status proxies_make(struct executor *executor, const struct worker_options *options, struct ps_error *error);
/* What a checkpoint takes of a stage, in canonical order: weights with running statistics, from where its forwards run;
 * moments, and the master's trained parameters where these run elsewhere and have only its copy. */
struct travelling {
    float *weights, *moments, *master;
    size_t weights_bytes, moments_bytes, master_bytes;
};
/* Does the half of a split stage have such a master? */
bool proxies_send_master(const struct worker_stage *stage);
/* What a checkpoint takes of the stages of this process, which is not rank 0, goes there; their updates with it. Rank 0 calls
 * for each of these stages, in their order, proxies_receive; what the proxy has none of is left out. */
enum ps_status proxies_send(struct executor *executor, const struct worker_options *options, struct ps_error *error);
enum ps_status proxies_receive(struct executor *executor, struct worker_stage *stage, int rank, const struct travelling *to,
                               struct ps_error *error);
/* After the stages of a rank: the error feedback of each, in their order and that of enum wire_block, one block a call. */
enum ps_status proxies_receive_feedback(struct executor *executor, const struct worker_stage *stage, int rank, int block,
                                        void *to, struct ps_error *error);
/* What the proxies hold, having been loaded, becomes what the workers go on with; the proxies release their memory, which is
 * not needed again. */
enum ps_status proxies_release(struct executor *executor, const struct worker_options *options, struct ps_error *error);

#endif
