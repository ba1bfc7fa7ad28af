/*
 * The times of a layer, each named once: the structs' fields, profile files, sums and means all come from these two lists.
 * Times are in seconds, of one micro-batch, and add up over the layers of a stage.
 */
#ifndef PENSTOCK_GRAPH_LAYER_TIMES_H
#define PENSTOCK_GRAPH_LAYER_TIMES_H

#include <stdbool.h>

/* A prediction in the same pass as an update writes one more block. */
#define LAYER_UPDATE_PREDICT_COST 1.25

/* TIME(name, required, absent). A source that does not say an optional time leaves it 0: it then counts `absent` times update_s
 * (layer_times_complete).
 *
 *   forward_s, backward_input_s, backward_weight_s
 *   update_s                one optimizer step over the layer's parameters
 *   accumulate_s            what a backward by weights takes longer where it adds to gradients of earlier micro-batches
 *   split_input_s, split_s  what the backward by input and that by weights take longer where they run separately
 *   update_predict_s        an update, and the prediction of weights in the same pass
 *   predict_s               a prediction alone, which reads and writes about as much as an update
 *   update_out_of_place_s   an update that writes the new weights into another block and leaves the old ones as they are
 */
#define LAYER_TIMES(TIME)                                                                                                      \
    TIME(forward_s, true, 0)                                                                                                   \
    TIME(backward_input_s, true, 0)                                                                                            \
    TIME(backward_weight_s, true, 0)                                                                                           \
    TIME(update_s, false, 0)                                                                                                   \
    TIME(accumulate_s, false, 0)                                                                                               \
    TIME(split_input_s, false, 0)                                                                                              \
    TIME(split_s, false, 0)                                                                                                    \
    TIME(update_predict_s, false, LAYER_UPDATE_PREDICT_COST)                                                                   \
    TIME(predict_s, false, 1)                                                                                                  \
    TIME(update_out_of_place_s, false, 1)

/* TIME(name). What several workers on one machine cost each other; 0 where the source does not say.
 *
 *   core_transfer_s  a forward takes that longer whose stage ends here: what crosses is copied where layers here read it, too
 *   take_over_s      forward and backward of both stages take that longer where the cut after the layer is between two cores
 *   sum_s            a replica's gradients and statistics added to the others' in shared memory, and the sum copied back
 */
#define LAYER_SHARED_TIMES(TIME)                                                                                               \
    TIME(core_transfer_s)                                                                                                      \
    TIME(take_over_s)                                                                                                          \
    TIME(sum_s)

struct layer_times {
#define TIME(name, required, absent) double name;
    LAYER_TIMES(TIME)
#undef TIME
};

static inline void layer_times_add(struct layer_times *sum, const struct layer_times *times) {
#define TIME(name, required, absent) sum->name += times->name;
    LAYER_TIMES(TIME)
#undef TIME
}

/* mean = own_share * mean + share * other */
static inline void layer_times_mix(struct layer_times *mean, double own_share, const struct layer_times *other, double share) {
#define TIME(name, required, absent) mean->name = own_share * mean->name + share * other->name;
    LAYER_TIMES(TIME)
#undef TIME
}

static inline void layer_times_scale(struct layer_times *times, double factor) {
#define TIME(name, required, absent) times->name *= factor;
    LAYER_TIMES(TIME)
#undef TIME
}

static inline bool layer_times_valid(const struct layer_times *times) {
#define TIME(name, required, absent) &&times->name >= 0
    return true LAYER_TIMES(TIME);
#undef TIME
}

/* Puts a usual value where the source did not say one. */
static inline void layer_times_complete(struct layer_times *times) {
    const double update_s = times->update_s;
#define TIME(name, required, absent)                                                                                           \
    if ((absent) > 0 && !(times->name > 0)) times->name = (absent)*update_s;
    LAYER_TIMES(TIME)
#undef TIME
}

#endif
