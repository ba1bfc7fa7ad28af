/* Comparing predictions with the later weights; see the header. */
#include "exec/prediction_watch.h"

/* Copies the watched part of `weights`; returns how many floats it has. */
static size_t take(struct device *device, const struct watched_weights *of, const void *weights, float *taken) {
    const size_t count = of->count - of->first, bytes = number_types[of->type].bytes;
    const char *from = (const char *)weights + of->first * number_types[TYPE_F32].bytes;
    if (count <= WATCH_FLOATS) {
        device_convert(device, count, TYPE_F32, taken, of->type, from);
        return count;
    }
    const size_t step = (count - WATCH_LINE) / (WATCH_LINES - 1);
    for (size_t line = 0; line < WATCH_LINES; line++)
        device_convert(device, WATCH_LINE, TYPE_F32, taken + line * WATCH_LINE, of->type, from + line * step * bytes);
    return WATCH_FLOATS;
}

static void compare(struct prediction_watch *watch, struct watched *watched) {
    if (watched->count > 0) device_wait(&watched->taken);
    for (size_t i = 0; i < watched->count; i++) {
        const double value = (double)watched->now[i], off = (double)watched->predicted[i] - value,
                     still = (double)watched->newest[i] - value;
        watch->predicted_off += off * off;
        watch->newest_off += still * still;
        watch->size += value * value;
    }
    watched->count = 0;
}

void prediction_watch_note(struct prediction_watch *watch, struct device *device, const struct watched_weights *of,
                           const void *newest, const void *predicted, int64_t done, int ahead) {
    if (watch->pending || ahead == 0 || done == 0) return;
    struct watched *watched = &watch->watched[watch->turn];
    compare(watch, watched);
    take(device, of, newest, watched->newest);
    take(device, of, predicted, watched->predicted);
    watch->pending = true;
    watch->target = done + ahead;
}

void prediction_watch_check(struct prediction_watch *watch, struct device *device, const struct watched_weights *of,
                            const void *newest, int64_t done) {
    if (!watch->pending || done != watch->target) return;
    struct watched *watched = &watch->watched[watch->turn];
    watched->count = take(device, of, newest, watched->now);
    watched->taken = device_mark(device);
    if (device_in_host(device)) compare(watch, watched);
    watch->turn = 1 - watch->turn;
    watch->pending = false;
}

void prediction_watch_settle(struct prediction_watch *watch) {
    for (int t = 0; t < 2; t++) compare(watch, &watch->watched[(watch->turn + t) % 2]);
}
