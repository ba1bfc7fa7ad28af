/*
 * Checkpoints: RUN_DIR/checkpoints/NNNNNN, named by the number of steps done. Each holds
 *
 *   model-0000K-of-0000S.safetensors       weights and running statistics of stage K
 *   model.safetensors.index.json           which file holds which, in the Hugging Face sharding convention
 *   optimizer-0000K-of-0000S.safetensors   the optimizer's moments, named PARAMETER.MOMENT
 *   wire.safetensors                       error feedback of wire codecs, if there is any (checkpoint_feedback_name)
 *   state.json                             counters and the log's figures
 *   manifest.txt                           size and checksum of each of these files, and of itself (manifest.h)
 *
 * Everything has the parameters' canonical names, shapes and order (PyTorch's), so that a run can continue with any other cut.
 *
 * A checkpoint is written into a directory of another name, synced, and renamed: it exists completely or not at all. The
 * manifest shows whether it is still complete; only then it is used.
 *
 * The state between two segments is: newest weights, moments, statistics, error feedback, and the number of steps done. Data,
 * learning rate and random numbers follow from it; nothing is in flight.
 */
#ifndef PENSTOCK_STORE_CHECKPOINT_H
#define PENSTOCK_STORE_CHECKPOINT_H

#include <jansson.h>

#include "base/safetensors.h"
#include "exec/executor.h"

/* Formats take the number of a stage, from 1, and how many there are. */
#define CHECKPOINT_WEIGHTS "model-%05d-of-%05d.safetensors"
#define CHECKPOINT_MOMENTS "optimizer-%05d-of-%05d.safetensors"
#define CHECKPOINT_INDEX "model.safetensors.index.json"
#define CHECKPOINT_STATE "state.json"
#define CHECKPOINT_WIRE "wire.safetensors"
#define CHECKPOINT_DIRECTORIES "checkpoints"

/* A line of log.jsonl; numbers that are not finite are left out. */
struct log_entry {
    int64_t step, epoch;
    double loss, accuracy, top5, perplexity, valid_loss, valid_accuracy, valid_top5, valid_perplexity, valid_bleu, lr,
        samples_per_s, elapsed_s;
    const struct ps_run_worker *worker; /* at the end of a segment: what is known of each worker; else NULL */
    int workers;
    double training_s; /* of all segments so far; 0: not at the end of a segment */
};

/* The sums of some steps. */
struct step_sum {
    struct stage_result sum;
    int64_t steps;
};

/* The best evaluation of a run so far. */
struct best_evaluation {
    int64_t step;  /* 0: there was none */
    int64_t since; /* evaluations after it, none of them better */
    double value;
    char by[16]; /* what is compared: "loss", ... */
};

/* What state.json holds. */
struct checkpoint_state {
    char model[SPEC_SIZE], network[17]; /* name and hash; "": not known */
    uint64_t seed;
    int64_t step;          /* done */
    bool unevaluated;      /* of the last step, where an evaluation was due: the run stopped in it */
    int64_t epoch_steps;   /* in an epoch; 0: there are no epochs */
    int64_t samples;       /* of the training data; 0: there are none, or it is not known */
    struct step_sum epoch; /* of the current epoch */
    struct step_sum line;  /* since the last line of the log */
    struct best_evaluation best;
    struct log_entry figures; /* of the last segment that was evaluated, elapsed time as of now; its step 0: there was none */
    double training_s;        /* see ps_run_info.samples_per_s */
    int workers;
    struct worker_totals *totals; /* per worker */
};

/* One stage as it was cut then. */
struct checkpoint_stage {
    int first, last; /* layers from 0 */
    int64_t updates; /* since training began */
};

/* A complete checkpoint: all its files are as they were written. */
struct checkpoint {
    char directory[4096];
    struct checkpoint_state state;
    struct checkpoint_stage *stages;
    int stage_count;
};

/* A run that trains removes old checkpoints while others read them: who finds one gone looks so often again for the newest. */
enum { CHECKPOINT_TRIES = 100 };
/* The newest complete checkpoint of a run. Skipped checkpoints are logged with the reason; PS_NO_CHECKPOINT: there is none. */
enum ps_status checkpoint_find(const char *run_dir, struct checkpoint *checkpoint, struct ps_error *error);
/* The checkpoint that is asked for: NULL or "newest", that one; "best", that of the best evaluation, as the newest knows it; or
 * a step. PS_USAGE: none of these; PS_NO_CHECKPOINT: it is not there. */
enum ps_status checkpoint_choose(const char *run_dir, const char *which, struct checkpoint *checkpoint, struct ps_error *error);
void checkpoint_free(struct checkpoint *checkpoint);
/* Fills an executor that is at rest: weights, statistics, moments, counts of updates. Moments that the checkpoint lacks (the
 * run had another weight policy) begin at zero, with a warning. PS_BAD_INPUT: it is not of this network. */
enum ps_status checkpoint_load(const struct checkpoint *checkpoint, struct executor *executor, const struct ps_plan *plan,
                               const struct graph *graph, struct ps_error *error);

/* The name of a stage's error feedback, by the cut and the replica that sends: "activation.3.0" of replica 0 to layer 4,
 * "gradient.3.0" back from there. With other cuts, or micro-batches of another size, it begins at zero. */
const char *checkpoint_feedback_name(const struct ps_plan *plan, const struct worker_stage *stage, int coded, char name[64]);

/* The step that a checkpoint's directory is named by, or -1; and the name (at least six digits). */
int64_t checkpoint_step_of(const char *name);
const char *checkpoint_name(int64_t step, char name[64]);

/* state.json, from a state and the stages as they are cut; NULL when memory ran out. */
json_t *checkpoint_state_document(const struct checkpoint_state *state, const struct checkpoint_stage *stages, int stage_count);
/* Reads it into `checkpoint`, whose directory is known. */
enum ps_status checkpoint_state_read(struct checkpoint *checkpoint, struct ps_error *error);

/* Weights as read from a checkpoint or from a single file. */
struct weight_files {
    struct safetensors *files;
    int count;
};

/* A checkpoint of a run (checkpoint_choose). */
enum ps_status weight_files_open_run(const char *run_dir, const char *which, struct weight_files *weights,
                                     struct ps_error *error);
/* A checkpoint's weights, and its moments. */
enum ps_status weight_files_open_checkpoint(const char *directory, struct weight_files *weights, struct ps_error *error);
enum ps_status weight_files_open_moments(const char *directory, int stages, struct weight_files *moments,
                                         struct ps_error *error);
enum ps_status weight_files_open(const char *path, struct weight_files *weights, struct ps_error *error);
void weight_files_close(struct weight_files *weights);
/* The file that holds a tensor, or NULL. */
const struct safetensors *weight_files_find(const struct weight_files *weights, const char *tensor);
/* Fills a stage's blocks, the master where it is not NULL. A tensor that is missing, of another shape or type, or that no
 * parameter of `graph` has the name of, is PS_BAD_INPUT; PyTorch's batch counters (num_batches_tracked) are skipped. */
enum ps_status weight_files_load(const struct weight_files *files, const struct graph *graph, struct stage *stage,
                                 float *master, void *weights, float *statistics, struct ps_error *error);

#endif
