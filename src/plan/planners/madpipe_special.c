/*
 * MadPipe's class with one special worker, exactly, where the paper has a grid: whether a period is possible.
 *
 * Labels stand for ways to place the layers from `first` on. A label has the delay at its front, the load and memory of the
 * special worker (for a stage there at least g - 1 activations, and g for one stage at a time: the largest of them is added,
 * which the paper leaves out), what it holds on average over a period, which is no more than at its fullest moment (a batch
 * that stays for 1.9 T counts 1.9 times), and the transfer that is already on the link between a normal worker and the special
 * one, if the stage behind is there too: such a link carries both ends of the normal stage.
 *
 * A label is dropped when another, with as many normal workers left or more, is no worse in anything, and when what is left
 * cannot be placed any more (madpipe_rest.c). What remains is a true lower bound for the class: a schedule may need more, never
 * less.
 */
#include <math.h>
#include <stdlib.h>

#include "plan/planners/madpipe.h"

struct label {
    int64_t delay, load, memory, copy; /* of the special worker: load, memory, largest activation */
    int64_t average;                   /* memory that it holds on average over a period */
    int64_t pending;                   /* on the link of the normal stage at the front; PENDING_SPECIAL: the front is special */
    int first, workers;                /* first layer placed; normal workers left */
    int parent;                        /* label behind, or -1 */
};

#define PENDING_SPECIAL INT64_MAX

struct labels {
    const struct madpipe *data;
    int64_t period;
    struct label *all;
    int count, capacity;
    int *list; /* per (first, workers): the newest label, or -1 */
    int *next; /* per label: the next of its list */
    int64_t compared;
    struct madpipe_rest rest;
};

static enum ps_status reserve(struct labels *labels, struct ps_error *error) {
    if (labels->count < labels->capacity) return PS_OK;
    int capacity = labels->capacity ? 2 * labels->capacity : 1024;
    struct label *all = realloc(labels->all, (size_t)capacity * sizeof *all);
    if (all) labels->all = all;
    int *next = realloc(labels->next, (size_t)capacity * sizeof *next);
    if (next) labels->next = next;
    if (!all || !next) return error_memory(error, "the labels of the planner", (size_t)capacity * sizeof *all);
    labels->capacity = capacity;
    return PS_OK;
}

static bool no_worse(const struct label *a, const struct label *b) {
    return a->delay <= b->delay && a->load <= b->load && a->memory <= b->memory && a->copy <= b->copy &&
           a->pending <= b->pending && a->average <= b->average;
}

static int *list_of(struct labels *labels, int first, int workers) {
    return &labels->list[first * labels->data->workers + workers];
}

/* What has dominated once soon does again. */
static void move_to_front(struct labels *labels, int *list, int *link) {
    int l = *link;
    *link = labels->next[l];
    labels->next[l] = *list;
    *list = l;
}

/* Is it dominated? Else drops what it dominates in its own list. */
static bool dominated(struct labels *labels, const struct label *label) {
    for (int w = label->workers; w < labels->data->workers; w++)
        for (int *list = list_of(labels, label->first, w), *link = list; *link >= 0; link = &labels->next[*link]) {
            labels->compared++;
            if (!no_worse(&labels->all[*link], label)) continue;
            move_to_front(labels, list, link);
            return true;
        }
    for (int *link = list_of(labels, label->first, label->workers); *link >= 0;) {
        if (no_worse(label, &labels->all[*link])) {
            *link = labels->next[*link];
        } else {
            link = &labels->next[*link];
        }
    }
    return false;
}

static bool rest_fits(const struct labels *labels, const struct label *label) {
    int64_t held = labels->data->fixed ? label->memory : label->average;
    return madpipe_rest_fits(&labels->rest, label->first, label->workers, label->pending == PENDING_SPECIAL, label->delay,
                             label->load, held);
}

static enum ps_status add(struct labels *labels, const struct label *label, struct ps_error *error) {
    if (labels->compared >= labels->data->budget) return PS_OK;
    if (!rest_fits(labels, label) || dominated(labels, label)) return PS_OK;
    TRY(reserve(labels, error));
    int *list = list_of(labels, label->first, label->workers);
    labels->all[labels->count] = *label;
    labels->next[labels->count] = *list;
    *list = labels->count++;
    return PS_OK;
}

/* For a stage that a batch stays in for `stay`. */
void madpipe_special_memory(const struct madpipe *data, int first, int end, int64_t stay, int64_t period, int64_t *memory,
                            int64_t *largest, int64_t *average) {
    int64_t copies = madpipe_periods(stay, period), copy = madpipe_copy_bytes(data, first, end);
    if (data->fixed) {
        *memory += madpipe_memory(data, first, end, copies);
        return;
    }
    int64_t sure = copy * data->safety_factor / SAFETY_FACTOR_MAX;
    *memory += madpipe_memory(data, first, end, copies - 1) + sure;
    if (copy - sure > *largest) *largest = copy - sure;
    *average += madpipe_memory(data, first, end, 0) + (int64_t)floor((double)copy * ((double)stay / (double)period));
}

/* Puts the layers first..behind.first-1 before a label, on a normal worker or on the special one. */
static enum ps_status extend(struct labels *labels, int parent, int first, bool special, struct ps_error *error) {
    const struct madpipe *data = labels->data;
    struct label label = labels->all[parent];
    int end = label.first;
    int64_t time = madpipe_time_ns(data, first, end), period = labels->period;
    int64_t copies = madpipe_periods(label.delay + time, period);
    bool behind_special = label.pending == PENDING_SPECIAL;
    if (special) {
        int64_t behind = label.pending;
        label.load += time;
        madpipe_special_memory(data, first, end, label.delay + time, period, &label.memory, &label.copy, &label.average);
        if (label.load > period || label.memory + label.copy > data->limit_bytes || label.average > data->limit_bytes)
            return PS_OK;
        if (behind > 0 && behind + madpipe_link_ns(data, end) > period) return PS_OK;
        label.pending = PENDING_SPECIAL;
    } else {
        if (madpipe_memory(data, first, end, copies) > data->limit_bytes) return PS_OK;
        label.pending = behind_special ? madpipe_link_ns(data, end) : 0;
        label.workers--;
    }
    label.delay = madpipe_cross(data, madpipe_lengthen(label.delay, time, period), first, period);
    label.first = first;
    label.parent = parent;
    return add(labels, &label, error);
}

static enum ps_status extend_all(struct labels *labels, int parent, struct ps_error *error) {
    const struct madpipe *data = labels->data;
    struct label label = labels->all[parent];
    for (int first = label.first - 1; first >= 0; first--) {
        if (madpipe_time_ns(data, first, label.first) > labels->period) break;
        if (madpipe_link_ns(data, first) > labels->period || (data->cuts && !data->cuts[first])) continue;
        if (label.workers > 0) TRY(extend(labels, parent, first, false, error));
        if (label.pending != PENDING_SPECIAL) TRY(extend(labels, parent, first, true, error));
    }
    return PS_OK;
}

static enum ps_status fill(struct labels *labels, struct ps_error *error) {
    const struct madpipe *data = labels->data;
    struct label start = {.first = data->layers, .workers = data->workers - 1, .parent = -1};
    TRY(add(labels, &start, error));
    for (int first = data->layers; first > 0 && labels->compared < labels->data->budget; first--)
        for (int w = data->workers - 1; w >= 0; w--)
            for (int l = *list_of(labels, first, w); l >= 0; l = labels->next[l]) TRY(extend_all(labels, l, error));
    return PS_OK;
}

/* The stages of a label that has placed all layers, in order; returns how many. */
static int read_stages(const struct labels *labels, int label, struct madpipe_stage *stages) {
    int count = 0;
    for (int l = label; labels->all[l].parent >= 0; l = labels->all[l].parent) {
        int end = labels->all[labels->all[l].parent].first;
        stages[count++] = (struct madpipe_stage){labels->all[l].first, end, labels->all[l].pending == PENDING_SPECIAL};
    }
    return count;
}

enum ps_status madpipe_special_some(const struct madpipe *data, int64_t period_ns, int most, struct madpipe_stage *stages,
                                    int *counts, int *found, bool *complete, struct ps_error *error) {
    struct labels labels = {.data = data, .period = period_ns};
    size_t lists = ((size_t)data->layers + 1) * (size_t)data->workers;
    enum ps_status status;
    *found = 0;
    labels.list = malloc(lists * sizeof *labels.list);
    if (!labels.list) return error_memory(error, "the labels of the planner", lists * sizeof *labels.list);
    for (size_t l = 0; l < lists; l++) labels.list[l] = -1;
    TRY_OUT(madpipe_rest_open(data, period_ns, &labels.rest, error));
    TRY_OUT(fill(&labels, error));
    for (int w = data->workers - 1; w >= 0; w--)
        for (int l = labels.list[w]; l >= 0 && *found < most; l = labels.next[l], ++*found)
            counts[*found] = read_stages(&labels, l, stages + (size_t)*found * (size_t)data->layers);
    *complete = labels.compared < data->budget;
out:
    madpipe_rest_close(&labels.rest);
    free(labels.all);
    free(labels.next);
    free(labels.list);
    return status;
}

enum ps_status madpipe_special_at(const struct madpipe *data, int64_t period_ns, struct madpipe_stage *stages, int *count,
                                  bool *found, struct ps_error *error) {
    int plans;
    bool complete;
    *count = 0;
    TRY(madpipe_special_some(data, period_ns, 1, stages, count, &plans, &complete, error));
    *found = plans > 0 || !complete;
    return PS_OK;
}
