/* Comparing predictions with what came; see the header. */
#include "exec/prediction_watch.h"

#include <string.h>

/* Copies the watched part of `weights`; returns how many floats it has. */
static size_t take(size_t count, const float *weights, float *taken) {
    if (count <= WATCH_FLOATS) {
        memcpy(taken, weights, count * sizeof *taken);
        return count;
    }
    const size_t step = (count - WATCH_LINE) / (WATCH_LINES - 1);
    for (size_t line = 0; line < WATCH_LINES; line++)
        memcpy(taken + line * WATCH_LINE, weights + line * step, WATCH_LINE * sizeof *taken);
    return WATCH_FLOATS;
}

void prediction_watch_note(struct prediction_watch *watch, size_t count, const float *newest, const float *predicted,
                           int64_t done, int ahead) {
    if (watch->pending || ahead == 0 || done == 0) return;
    take(count, newest, watch->newest);
    take(count, predicted, watch->predicted);
    watch->pending = true;
    watch->target = done + ahead;
}

void prediction_watch_check(struct prediction_watch *watch, size_t count, const float *newest, int64_t done) {
    if (!watch->pending || done != watch->target) return;
    float now[WATCH_FLOATS];
    const size_t taken = take(count, newest, now);
    for (size_t i = 0; i < taken; i++) {
        const double value = (double)now[i], off = (double)watch->predicted[i] - value,
                     still = (double)watch->newest[i] - value;
        watch->predicted_off += off * off;
        watch->newest_off += still * still;
        watch->size += value * value;
    }
    watch->pending = false;
}
