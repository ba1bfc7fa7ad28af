/*
 * A checkpoint's image: the contents of its files, in memory. It is filled between two segments, by converting every stage's
 * parameters to canonical order, and written while training continues. Its memory is taken once, in addition to that of the
 * workers (`checkpoint_bytes` in the summary): one copy of weights, moments and statistics without padding.
 */
#ifndef PENSTOCK_STORE_CHECKPOINT_IMAGE_H
#define PENSTOCK_STORE_CHECKPOINT_IMAGE_H

#include "base/memory.h"
#include "store/checkpoint.h"

/* One safetensors file. */
struct image_file {
    char name[64];
    char *header;
    size_t header_bytes, data_bytes;
    float *data;
};

/* One stage: its weights, and its moments where there are any. */
struct image_stage {
    struct worker_stage *stage;    /* the executor's, with weights and running statistics */
    struct worker_stage *updated;  /* the one with moments: the same, but where forward and backward run on different workers */
    bool stage_here, updated_here; /* else it is another process's proxy */
    struct image_file weights, moments;
    float *master; /* trained parameters in f32, where `updated` alone has them so; else NULL */
    size_t master_bytes;
};

/* Error feedback of one kind of block of one stage. */
struct image_feedback {
    int worker;
    struct worker_stage *stage;
    int block; /* enum wire_block */
    float *data;
};

struct checkpoint_image {
    struct executor *executor;
    struct image_stage *stages; /* by number in the plan */
    struct checkpoint_stage *cut;
    int stage_count; /* of the plan */
    bool real;       /* else there are no values, and no files of them */
    int moments;
    char *index; /* the index file's text; NULL where not real */
    struct image_file wire;
    struct image_feedback *feedback; /* by worker, stage and block */
    int feedback_count;
    struct memory_block memory;
};

/* For an executor whose memory is taken; both stay borrowed. */
enum ps_status checkpoint_image_create(struct executor *executor, const struct ps_plan *plan, struct checkpoint_image *image,
                                       struct ps_error *error);
void checkpoint_image_free(struct checkpoint_image *image);
/* Copies the state of an executor that is at rest; the other processes meanwhile send theirs (proxies_send). */
enum ps_status checkpoint_image_take(struct checkpoint_image *image, struct ps_error *error);
/* Writes all files of the checkpoint into an empty directory and syncs them and it. */
enum ps_status checkpoint_image_write(const struct checkpoint_image *image, const struct checkpoint_state *state,
                                      const char *directory, struct ps_error *error);

#endif
