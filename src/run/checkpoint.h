/*
 * Checkpoints: RUN_DIR/checkpoints/NNNNNN, named by the number of steps done. Each holds the weights of every stage as
 * safetensors (model-0000K-of-0000S.safetensors), an index in the Hugging Face sharding convention
 * (model.safetensors.index.json), and state.json. Parameters have their canonical names, shapes and order (PyTorch's); running
 * statistics stand among them.
 *
 * A checkpoint is written into a directory of another name, synced, and renamed: it is there whole or not at all.
 */
#ifndef PENSTOCK_RUN_CHECKPOINT_H
#define PENSTOCK_RUN_CHECKPOINT_H

#include "run/crew.h"
#include "run/safetensors.h"

struct checkpoint_state {
    int64_t step;  /* done */
    int64_t epoch; /* complete passes over the data */
    uint64_t seed;
    const char *model;
    int stages;
};

/* The newest weights of all stages; the crew is at rest. */
enum ps_status checkpoint_write(const char *run_dir, const struct crew *crew, const struct checkpoint_state *state,
                                struct ps_error *error);

/* Weights as read from a checkpoint or from a single file. */
struct weight_files {
    struct safetensors *files;
    int count;
};

/* The newest checkpoint of a run; PS_NO_CHECKPOINT where there is none, PS_BAD_INPUT where it is damaged. */
enum ps_status weight_files_open_run(const char *run_dir, struct weight_files *weights, struct ps_error *error);
enum ps_status weight_files_open(const char *path, struct weight_files *weights, struct ps_error *error);
void weight_files_close(struct weight_files *weights);
/* Fills a stage's blocks. A tensor that is missing, of another shape or type, or that no parameter of `graph` has the name of,
 * is PS_BAD_INPUT; PyTorch's batch counters (num_batches_tracked) are passed over. */
enum ps_status weight_files_load(const struct weight_files *weights, const struct graph *graph, struct stage *stage,
                                 float *block, float *statistics, struct ps_error *error);

#endif
