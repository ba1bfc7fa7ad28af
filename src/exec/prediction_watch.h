/*
 * Measures the error of a stage's predictions: some of the predicted weights are kept until the predicted updates are done and
 * then compared with the weights, as are the weights without prediction.
 *
 * It samples some cache lines evenly over the stage, of one prediction at a time, at a cost that no step shows.
 */
#ifndef PENSTOCK_EXEC_PREDICTION_WATCH_H
#define PENSTOCK_EXEC_PREDICTION_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compute/device.h"

enum { WATCH_LINES = 64, WATCH_LINE = 16, WATCH_FLOATS = WATCH_LINES * WATCH_LINE };

struct prediction_watch {
    bool pending;
    int64_t target; /* number of updates done that the prediction is for */
    /* The prediction; newest: the weights at the time of the prediction; now: the later weights. Two of them alternate, since a
     * device may not yet have executed the last copies. */
    struct watched {
        float predicted[WATCH_FLOATS], newest[WATCH_FLOATS], now[WATCH_FLOATS];
        size_t count;        /* 0: nothing to compare */
        struct moment taken; /* all three copies are done */
    } watched[2];
    int turn;
    /* sums of squares since the last reset: predicted - now, newest - now, now */
    double predicted_off, newest_off, size;
};

/* Which of a weight slot's `count` elements are sampled: those from `first` on, of a type; before it all are f32. */
struct watched_weights {
    size_t first, count;
    enum number_type type;
};
/* A prediction `ahead` updates after the first `done`, of weights on the device (NULL: in the host's memory). */
void prediction_watch_note(struct prediction_watch *watch, struct device *device, const struct watched_weights *of,
                           const void *newest, const void *predicted, int64_t done, int ahead);
/* The newest weights after `done` updates. */
void prediction_watch_check(struct prediction_watch *watch, struct device *device, const struct watched_weights *of,
                            const void *newest, int64_t done);
/* Waits until all that was checked is in the sums. */
void prediction_watch_settle(struct prediction_watch *watch);

#endif
