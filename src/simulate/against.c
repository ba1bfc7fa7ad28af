/* Matches two timelines and computes the same figures for both; see against.h. */
#include "simulate/against.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"

struct pair {
    const struct timeline_event *predicted, *measured;
};

/* The two timelines' common instructions. */
struct pairs {
    struct pair *items;
    int count, unmatched;
};

static int by_key(const struct timeline_event *a, const struct timeline_event *b) {
    const int one[] = {a->worker, a->instruction.stage, a->instruction.op, a->instruction.micro_batch};
    const int other[] = {b->worker, b->instruction.stage, b->instruction.op, b->instruction.micro_batch};
    for (int i = 0; i < 4; i++)
        if (one[i] != other[i]) return one[i] < other[i] ? -1 : 1;
    return a->start_s < b->start_s ? -1 : a->start_s > b->start_s;
}

static int by_key_indirect(const void *a, const void *b) {
    return by_key(*(const struct timeline_event *const *)a, *(const struct timeline_event *const *)b);
}

/* The timeline's events by key, in the arena; NULL: it has no memory left. */
static const struct timeline_event **sorted(const struct timeline *timeline, struct arena *arena) {
    size_t count = (size_t)timeline->event_count;
    const struct timeline_event **events = arena_take(arena, count, sizeof(*events));
    for (size_t i = 0; events && i < count; i++) events[i] = &timeline->events[i];
    if (events) qsort(events, count, sizeof(*events), by_key_indirect);
    return events;
}

static bool same_instruction(const struct timeline_event *a, const struct timeline_event *b) {
    struct timeline_event moved = *b;
    moved.start_s = a->start_s;
    return by_key(a, &moved) == 0;
}

/* Both lists are sorted: one pass finds their common instructions. A micro-batch may have several predictions of weights; they
 * are paired in order. */
static enum ps_status match(const struct timeline *predicted, const struct timeline *measured, struct arena *arena,
                            struct pairs *pairs, struct ps_error *error) {
    const struct timeline_event **ours = sorted(predicted, arena), **theirs = sorted(measured, arena);
    *pairs = (struct pairs){.items = arena_take(arena, (size_t)measured->event_count, sizeof *pairs->items)};
    TRY(arena_check(arena, "the comparison", error));
    for (int i = 0, j = 0; j < measured->event_count; j++) {
        while (i < predicted->event_count && !same_instruction(ours[i], theirs[j]) && by_key(ours[i], theirs[j]) < 0) i++;
        if (i < predicted->event_count && same_instruction(ours[i], theirs[j]))
            pairs->items[pairs->count++] = (struct pair){ours[i++], theirs[j]};
        else
            pairs->unmatched++;
    }
    if (pairs->count > 0) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "none of the %d measured instructions is in the plan's programs",
                     measured->event_count);
}

/* ------------------------------------------------------------------ figures */

static double length(const struct timeline_event *event) { return event->end_s - event->start_s; }

static const struct timeline_event *side(const struct pair *pair, bool measured) {
    return measured ? pair->measured : pair->predicted;
}

static double makespan(const struct pairs *pairs, bool measured) {
    double first = INFINITY, last = 0;
    for (int i = 0; i < pairs->count; i++) {
        const struct timeline_event *event = side(&pairs->items[i], measured);
        first = fmin(first, event->start_s);
        last = fmax(last, event->end_s);
    }
    return last - first;
}

/* When the last update of each mini-batch ended that has updates on all stages; NaN: not in the timeline. */
static void completions(const struct pairs *pairs, bool measured, int stages, int batches, double *ends, int *updates) {
    for (int b = 0; b < batches; b++) updates[b] = 0, ends[b] = NAN;
    for (int i = 0; i < pairs->count; i++) {
        const struct timeline_event *event = side(&pairs->items[i], measured);
        int batch = event->instruction.micro_batch;
        if (opcode_table[event->instruction.op].action != ACTION_UPDATE || batch >= batches) continue;
        ends[batch] = fmax(isnan(ends[batch]) ? 0 : ends[batch], event->end_s);
        updates[batch]++;
    }
    for (int b = 0; b < batches; b++)
        if (updates[b] < stages) ends[b] = NAN;
}

/* The start of the last micro-batch on the first stage, the end of the steady state. */
static double last_entry(const struct pairs *pairs) {
    double last = 0;
    for (int i = 0; i < pairs->count; i++) {
        const struct timeline_event *event = pairs->items[i].predicted;
        bool enters = event->instruction.stage == 0 && opcode_table[event->instruction.op].action == ACTION_FORWARD;
        if (enters) last = fmax(last, event->start_s);
    }
    return last;
}

/* The first and the last mini-batch between which the slope is taken. */
static void choose_span(const double *predicted, int batches, double until, int *first, int *last) {
    *first = *last = -1;
    for (int b = 0; b < batches; b++) {
        if (isnan(predicted[b]) || predicted[b] > until) continue;
        if (*first < 0) *first = b;
        *last = b;
    }
}

static enum ps_status periods(const struct pairs *pairs, const struct timeline *timeline, bool flush, struct arena *arena,
                              struct against *against, struct ps_error *error) {
    int batches = timeline->batches, stages = 0, first, last;
    for (int i = 0; i < timeline->event_count; i++)
        if (timeline->events[i].instruction.stage >= stages) stages = timeline->events[i].instruction.stage + 1;
    double *ends = arena_take(arena, (size_t)batches, sizeof *ends);
    double *measured = arena_take(arena, (size_t)batches, sizeof *measured);
    int *updates = arena_take(arena, (size_t)batches, sizeof *updates);
    TRY(arena_check(arena, "the comparison", error));
    completions(pairs, false, stages, batches, ends, updates);
    completions(pairs, true, stages, batches, measured, updates);
    choose_span(ends, batches, flush ? INFINITY : last_entry(pairs), &first, &last);
    if (last == first) choose_span(ends, batches, INFINITY, &first, &last);
    against->predicted_period_s = last > first ? (ends[last] - ends[first]) / (last - first) : against->predicted_makespan_s;
    against->measured_period_s =
        last > first ? (measured[last] - measured[first]) / (last - first) : against->measured_makespan_s;
    return PS_OK;
}

/* ---------------------------------------------------------------- quantiles */

/* Sorts `values`; returns their quantile `p`. */
static double quantile(double *values, int count, double p) {
    if (count == 0) return 0;
    qsort(values, (size_t)count, sizeof *values, number_compare);
    int index = (int)ceil(p * count) - 1;
    return values[index < 0 ? 0 : index];
}

static void quantiles(double *values, int count, double out[AGAINST_QUANTILES]) {
    static const double shares[AGAINST_QUANTILES] = {0.5, 0.9, 0.99, 1};
    for (int i = 0; i < AGAINST_QUANTILES; i++) out[i] = quantile(values, count, shares[i]);
}

static void compare_durations(const struct pairs *pairs, double *values, struct against *against) {
    int count = 0;
    for (int i = 0; i < pairs->count; i++) {
        const struct pair *pair = &pairs->items[i];
        enum opcode op = (enum opcode)pair->measured->instruction.op;
        struct against_operation *operation = &against->operation[op];
        operation->count++;
        operation->predicted_s += length(pair->predicted);
        operation->measured_s += length(pair->measured);
        enum action action = opcode_table[op].action;
        if (action == ACTION_UPDATE || action == ACTION_PREDICT || length(pair->measured) <= 0) continue;
        values[count++] = fabs(length(pair->predicted) / length(pair->measured) - 1);
    }
    for (int op = 0; op < OPCODE_COUNT; op++) {
        struct against_operation *operation = &against->operation[op];
        if (operation->count == 0) continue;
        operation->predicted_s /= operation->count;
        operation->measured_s /= operation->count;
    }
    quantiles(values, count, against->duration_error);
}

static void compare_starts(const struct pairs *pairs, bool whole, double *values, struct against *against) {
    for (int i = 0; i < pairs->count; i++) values[i] = pairs->items[i].predicted->start_s - pairs->items[i].measured->start_s;
    double offset = whole ? 0 : quantile(values, pairs->count, 0.5);
    double period_s = against->measured_period_s > 0 ? against->measured_period_s : 1;
    for (int i = 0; i < pairs->count; i++) values[i] = fabs(values[i] - offset) / period_s;
    quantiles(values, pairs->count, against->start_error);
}

static double error_of(double predicted, double measured) { return measured > 0 ? predicted / measured - 1 : 0; }

enum ps_status against_compare(const struct timeline *predicted, const struct timeline *measured, bool flush,
                               struct against *against, struct ps_error *error) {
    struct arena arena = {0};
    struct pairs pairs;
    double *values;
    enum ps_status status;
    TRY_OUT(match(predicted, measured, &arena, &pairs, error));
    *against = (struct against){.matched = pairs.count, .unmatched = pairs.unmatched};
    against->predicted_makespan_s = makespan(&pairs, false);
    against->measured_makespan_s = makespan(&pairs, true);
    TRY_OUT(periods(&pairs, predicted, flush, &arena, against, error));
    values = arena_take(&arena, (size_t)pairs.count, sizeof *values);
    TRY_OUT(arena_check(&arena, "the comparison", error));
    against->makespan_error = error_of(against->predicted_makespan_s, against->measured_makespan_s);
    against->period_error = error_of(against->predicted_period_s, against->measured_period_s);
    compare_durations(&pairs, values, against);
    compare_starts(&pairs, measured->event_count >= predicted->event_count, values, against);
out:
    arena_release(&arena);
    return status;
}

enum ps_status against_compare_memory(struct against *against, struct arena *arena, int workers,
                                      const struct ps_simulation_worker *predicted, const int64_t *measured_bytes,
                                      struct ps_error *error) {
    against->memory = arena_take(arena, (size_t)workers, sizeof *against->memory);
    TRY(arena_check(arena, "the comparison", error));
    against->memory_count = workers;
    against->memory_error = 0;
    for (int w = 0; w < workers; w++) {
        against->memory[w] = (struct against_memory){predicted[w].memory_bytes, measured_bytes[w]};
        double off = error_of((double)predicted[w].memory_bytes, (double)measured_bytes[w]);
        if (fabs(off) > fabs(against->memory_error)) against->memory_error = off;
    }
    return PS_OK;
}
