/*
 * How good a stage's predictions are: some of the predicted weights are kept until the updates that they look ahead have been
 * done, and then compared with what the weights have become, beside what they would have been without prediction.
 *
 * Taken are some cache lines evenly over the stage, of one prediction at a time: nothing that a step would notice.
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
    int64_t target; /* updates done when the prediction should have come true */
    /* The prediction; newest: the weights that were there when it was made; now: those that came. By turns, as a device may not
     * yet have come to what was asked for last. */
    struct watched {
        float predicted[WATCH_FLOATS], newest[WATCH_FLOATS], now[WATCH_FLOATS];
        size_t count;        /* 0: nothing to compare */
        struct moment taken; /* all three are there */
    } watched[2];
    int turn;
    /* sums of squares since they were taken last: predicted - come true, newest - come true, come true */
    double predicted_off, newest_off, size;
};

/* A prediction `ahead` updates after the first `done`, of weights of `count` floats on the device (NULL: in the host's
 * memory). */
void prediction_watch_note(struct prediction_watch *watch, struct device *device, size_t count, const float *newest,
                           const float *predicted, int64_t done, int ahead);
/* The newest weights after `done` updates. */
void prediction_watch_check(struct prediction_watch *watch, struct device *device, size_t count, const float *newest,
                            int64_t done);
/* All that was checked is in the sums afterwards. */
void prediction_watch_settle(struct prediction_watch *watch);

#endif
