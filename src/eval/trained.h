/* A trained network on a device: the whole network as one stage, with the weights of a run or its own. */
#ifndef PENSTOCK_EVAL_TRAINED_H
#define PENSTOCK_EVAL_TRAINED_H

#include "compute/stage.h"
#include "data/vocabulary.h"
#include "graph/network.h"
#include "store/checkpoint.h"

struct trained {
    const struct ps_network *network;
    struct ps_network *own_network; /* the run's; NULL: it is the caller's */
    struct weight_files weights;    /* the run's */
    struct vocabulary *words[2];    /* the run's, where it has some */
    struct device *device;
    struct stage *stage;
    struct memory_block memory;
    struct stage_blocks blocks;
};

/* Opens the network of the run, for the weights of a checkpoint (checkpoint_choose), or takes the one that is given, which must
 * have weights. After a failure of any of these trained_close frees what there is. */
enum ps_status trained_open(const char *run, const char *checkpoint, const struct ps_network *network, struct trained *trained,
                            struct ps_error *error);
/* Opens the device (NULL: "cpu"), whose kernels have so many threads (0: 1). */
enum ps_status trained_open_device(struct trained *trained, const char *device, int threads, struct ps_error *error);
/* Makes the stage of all layers of `graph`, whose parameters are the network's, for so many samples, with their weights. */
enum ps_status trained_make_stage(struct trained *trained, const struct graph *graph, int samples, struct ps_error *error);
void trained_free_stage(struct trained *trained);
/* A zeroed one is fine. */
void trained_close(struct trained *trained);

#endif
