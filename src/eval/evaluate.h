/* Running a trained network over data, for who looks at what it computes. */
#ifndef PENSTOCK_EVAL_EVALUATE_H
#define PENSTOCK_EVAL_EVALUATE_H

#include "eval/class_names.h"
#include "graph/network.h"

/* Some samples, in memory order. */
struct evaluated_batch {
    const struct ps_network *network;
    struct shape shape;   /* of what the network computes of a sample */
    const float *output;  /* samples x elements: what the loss reads */
    const void *targets;  /* samples x labels, int32_t or float; NULL: the data have none */
    int64_t first, total; /* the number of the first sample among all that are evaluated; how many these are */
    int64_t index;        /* its number in the data */
    int samples;
    const struct class_names *names;
};

struct evaluation_watch {
    void *context;
    enum ps_status (*take)(void *context, const struct evaluated_batch *batch, struct ps_error *error);
    /* Instead, where the data are pairs of sentences: what is translated, number `index` of the data. */
    enum ps_status (*sentence)(void *context, int64_t index, const char *sentence, struct ps_error *error);
    /* Once, behind the last batch or sentence. */
    enum ps_status (*finish)(void *context, const struct ps_network *network, struct ps_error *error);
};

/* Of what the network computes of a sample, as the loss reads it. */
struct shape evaluated_shape(const struct graph *graph);
/* ps_evaluate by this process alone. */
enum ps_status evaluate_alone(const struct ps_evaluate_options *options, struct ps_evaluation *evaluation,
                              struct ps_error *error);
typedef enum ps_status watched_evaluation(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                                          struct ps_error *error);
/* ps_predict, where `together` does what evaluate_watched does by several workers; in processes other than rank 0's it calls
 * nothing. */
enum ps_status predict_samples(const struct ps_predict_options *options, watched_evaluation *together, struct ps_error *error);
/* Calls the watch's functions for all samples, in their order. The data need no target. Errors as those of ps_evaluate, and
 * what the functions return. */
enum ps_status evaluate_watched(const struct ps_evaluate_options *options, const struct evaluation_watch *watch,
                                struct ps_error *error);

#endif
