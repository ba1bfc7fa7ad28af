/*
 * What the layers that are not yet placed will take of the special worker at least, however they are placed: the bound that
 * ends a search for plans of MadPipe's class early, as in shortest paths with limited resources.
 *
 * Stages are placed from the last layer back, so what is left are the first layers, with some normal workers and a delay behind
 * them. The delay is at least the time of the layers behind; what it has beyond that, its excess, hardly changes from stage to
 * stage and is all that is rounded (down, so that the bound stays one). For each (layers left, normal workers left, kind of the
 * stage behind, excess) a shortest path gives the least of a weighted sum of the special worker's load and memory: of load
 * alone, of memory alone, and of both in parts of their limits. A normal worker takes only what fits its memory at that delay.
 */
#include <math.h>
#include <stdlib.h>

#include "plan/planners/madpipe.h"

/* The excess is counted in parts of a period, up to so many. */
enum { PARTS = 32, BUCKETS = 64 };

/* Of load and memory, as parts of what the special worker has. */
static const struct madpipe_rest_cell weights[2] = {{{1, 0, 1, 1}}, {{0, 1, 1, 0.5f}}};

/* Behind the first `first` layers: [special][workers] of it. */
static struct madpipe_rest_cell *cells_of(const struct madpipe_rest *rest, int first, int bucket) {
    return rest->cells + ((size_t)first * BUCKETS + (size_t)bucket) * 2 * (size_t)rest->data->workers;
}

static int bucket_of(const struct madpipe_rest *rest, int first, int64_t delay) {
    int64_t bucket = (delay - madpipe_time_ns(rest->data, first, rest->data->layers)) / rest->width;
    return bucket < BUCKETS ? (int)bucket : BUCKETS - 1;
}

static void lower(struct madpipe_rest_cell *cell, const struct madpipe_rest_cell *other, float load, float memory) {
    for (int k = 0; k < MADPIPE_RESTS; k++) {
        float least = other->least[k] + weights[0].least[k] * load + weights[1].least[k] * memory;
        cell->least[k] = least < cell->least[k] ? least : cell->least[k];
    }
}

/* Lowers the bounds behind a stage first..end-1, whatever the delay there, by having it on a normal worker, and on the special
 * one. */
static void try_stage(struct madpipe_rest *rest, int first, int end) {
    const struct madpipe *data = rest->data;
    int workers = data->workers;
    int64_t time = madpipe_time_ns(data, first, end), period = rest->period, behind = madpipe_time_ns(data, end, data->layers);
    int64_t base = madpipe_memory(data, first, end, 0), copy = madpipe_copy_bytes(data, first, end);
    float load = (float)time / (float)period;
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        int64_t delay = behind + bucket * rest->width, copies = madpipe_periods(delay + time, period);
        int64_t next = madpipe_cross(data, madpipe_lengthen(delay, time, period), first, period);
        double kept = data->fixed ? (double)copies : (double)(delay + time) / (double)period;
        float memory = (float)(((double)base + kept * (double)copy) / (double)data->limit_bytes);
        bool fits = base + copies * copy <= data->limit_bytes;
        if (!fits && memory > 1) return; /* and less so with a longer delay */
        struct madpipe_rest_cell *here = cells_of(rest, end, bucket);
        const struct madpipe_rest_cell *there = cells_of(rest, first, bucket_of(rest, first, next));
        for (int w = 1; w < workers && fits; w++) {
            lower(&here[w], &there[w - 1], 0, 0);
            lower(&here[workers + w], &there[w - 1], 0, 0);
        }
        for (int w = 0; w < workers && memory <= 1; w++) lower(&here[w], &there[workers + w], load, memory);
    }
}

static void fill(struct madpipe_rest *rest, int end) {
    const struct madpipe *data = rest->data;
    struct madpipe_rest_cell *cells = cells_of(rest, end, 0), *behind = cells_of(rest, end + 1, 0);
    for (; cells < behind; cells++)
        for (int k = 0; k < MADPIPE_RESTS; k++) cells->least[k] = end > 0 ? INFINITY : 0;
    for (int first = end - 1; first >= 0 && madpipe_time_ns(data, first, end) <= rest->period; first--)
        if (madpipe_link_ns(data, first) <= rest->period && (!data->cuts || data->cuts[first])) try_stage(rest, first, end);
}

enum ps_status madpipe_rest_open(const struct madpipe *data, int64_t period_ns, struct madpipe_rest *rest,
                                 struct ps_error *error) {
    size_t size = ((size_t)data->layers + 1) * BUCKETS * 2 * (size_t)data->workers * sizeof *rest->cells;
    *rest = (struct madpipe_rest){.data = data, .period = period_ns, .width = period_ns / PARTS + 1};
    if (data->limit_bytes == INT64_MAX) return PS_OK;
    rest->cells = malloc(size);
    if (!rest->cells) return error_memory(error, "the bounds of the planner", size);
    for (int end = 0; end <= data->layers; end++)
        if (!data->cuts || data->cuts[end] || end == data->layers) fill(rest, end);
    return PS_OK;
}

void madpipe_rest_close(struct madpipe_rest *rest) { free(rest->cells); }

bool madpipe_rest_fits(const struct madpipe_rest *rest, int first, int workers, bool special, int64_t delay, int64_t load,
                       int64_t held) {
    const struct madpipe *data = rest->data;
    if (data->time_ns[first] > (workers + 1) * rest->period - load) return false;
    if (!rest->cells) return true;
    const struct madpipe_rest_cell *cell =
        cells_of(rest, first, bucket_of(rest, first, delay)) + special * data->workers + workers;
    double time_left = 1 - (double)load / (double)rest->period, memory_left = 1 - (double)held / (double)data->limit_bytes;
    for (int k = 0; k < MADPIPE_RESTS; k++)
        if (cell->least[k] > 1e-5 + weights[0].least[k] * time_left + weights[1].least[k] * memory_left) return false;
    return true;
}
