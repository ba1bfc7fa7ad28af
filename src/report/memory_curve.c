/* Computes the lifetimes of blocks from the computations, and a curve from the lifetimes; see report.h. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

/* So many bytes more, or less. */
struct change {
    double time_s;
    int64_t bytes;
};

struct changes {
    struct change *items;
    int count;
};

static int by_micro_batch(const void *a, const void *b) {
    const struct timeline_event *one = *(const struct timeline_event *const *)a,
                                *other = *(const struct timeline_event *const *)b;
    const struct instruction *x = &one->instruction, *y = &other->instruction;
    if (x->stage != y->stage) return x->stage < y->stage ? -1 : 1;
    if (x->micro_batch != y->micro_batch) return x->micro_batch < y->micro_batch ? -1 : 1;
    return one < other ? -1 : one > other;
}

/* Memory that is freed at a time can be allocated at the same time. */
static int by_time(const void *a, const void *b) {
    const struct change *one = a, *other = b;
    if (one->time_s != other->time_s) return one->time_s < other->time_s ? -1 : 1;
    return one->bytes < other->bytes ? -1 : one->bytes > other->bytes;
}

static bool touches_stash(const struct timeline_event *event) {
    return strchr(opcode_table[event->instruction.op].operands, 's') != NULL;
}

static void hold(struct changes *changes, double from_s, double until_s, int64_t bytes) {
    if (bytes == 0) return;
    changes->items[changes->count++] = (struct change){from_s, bytes};
    changes->items[changes->count++] = (struct change){until_s, -bytes};
}

/* One micro-batch on one stage: `count` computations in order. */
static void hold_micro_batch(const struct timeline_event *const *events, int count, const struct stage_sizes *size,
                             struct changes *changes) {
    double from_s = events[0]->start_s, until_s = events[count - 1]->end_s, stash_s = from_s;
    for (int i = 1; i < count; i++) {
        enum action action = opcode_table[events[i]->instruction.op].action;
        if (action == ACTION_BACKWARD_INPUT) hold(changes, events[i]->start_s, until_s, size->delta_bytes);
        if (action != ACTION_RECOMPUTE) continue;
        hold(changes, from_s, events[0]->end_s, size->stash_bytes);
        stash_s = events[i]->start_s;
    }
    hold(changes, from_s, until_s, size->input_bytes);
    hold(changes, stash_s, until_s, size->stash_bytes);
}

static bool same_micro_batch(const struct timeline_event *a, const struct timeline_event *b) {
    return a->instruction.stage == b->instruction.stage && a->instruction.micro_batch == b->instruction.micro_batch;
}

static void trace_curve(struct changes *changes, int64_t held, struct memory_curve *curve) {
    int64_t bytes = held;
    qsort(changes->items, (size_t)changes->count, sizeof *changes->items, by_time);
    curve->points[curve->count++] = (struct memory_point){0, bytes};
    for (int i = 0; i < changes->count; i++) {
        bytes += changes->items[i].bytes;
        bool moved = changes->items[i].time_s > curve->points[curve->count - 1].time_s;
        curve->points[curve->count - !moved] = (struct memory_point){changes->items[i].time_s, bytes};
        curve->count += moved;
        if (i + 1 < changes->count && changes->items[i + 1].time_s == changes->items[i].time_s) continue;
        if (bytes > curve->peak) curve->peak = bytes;
    }
    if (held > curve->peak) curve->peak = held;
}

/* The worker's computations, events[0..count-1]. */
static bool make_curve(const struct ps_simulation *simulation, int worker, const struct timeline_event *events, int count,
                       struct memory_curve *curve) {
    const struct timeline_event **touching = malloc(((size_t)count + 1) * sizeof(*touching));
    struct changes changes = {.items = malloc(((size_t)count + 1) * 4 * sizeof *changes.items)};
    curve->points = malloc(((size_t)count + 1) * 4 * sizeof *curve->points);
    bool ok = touching && changes.items && curve->points;
    int touched = 0;
    for (int i = 0; ok && i < count; i++)
        if (touches_stash(&events[i])) touching[touched++] = &events[i];
    if (ok) qsort(touching, (size_t)touched, sizeof(*touching), by_micro_batch);
    for (int first = 0, next; ok && first < touched; first = next) {
        for (next = first + 1; next < touched && same_micro_batch(touching[first], touching[next]);) next++;
        hold_micro_batch(touching + first, next - first, &simulation->sizes[touching[first]->instruction.stage], &changes);
    }
    const struct worker_memory *memory = &simulation->memory[worker];
    int64_t held = worker_memory_total(memory) - memory->stash;
    if (ok) trace_curve(&changes, held, curve);
    free(touching);
    free(changes.items);
    return ok;
}

struct memory_curve *memory_curves_make(const struct ps_simulation *simulation) {
    const struct timeline *timeline = &simulation->timeline;
    struct memory_curve *curves = calloc((size_t)timeline->workers + 1, sizeof *curves);
    bool ok = curves != NULL;
    for (int w = 0, first = 0, next; ok && w < timeline->workers; w++, first = next) {
        for (next = first; next < timeline->event_count && timeline->events[next].worker == w;) next++;
        ok = make_curve(simulation, w, &timeline->events[first], next - first, &curves[w]);
    }
    if (ok) return curves;
    memory_curves_free(curves, timeline->workers);
    return NULL;
}

void memory_curves_free(struct memory_curve *curves, int workers) {
    for (int w = 0; curves && w < workers; w++) free(curves[w].points);
    free(curves);
}
