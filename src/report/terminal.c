/*
 * A timeline in a terminal: a row per worker; each column is a time step, with a block character for the operation that the
 * worker computes then. With colour a column shows two time steps (a left half block, in one colour on another), and adjacent
 * micro-batches differ in shade; without colour it shows one, and operations differ in density. A worker that runs forwards and
 * backwards concurrently has two rows.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"

enum { LABEL_WIDTH = 11, ROWS_MAX = 32, COLUMNS_MIN = 20, IDLE = ACTION_COUNT, BACKGROUND = 236 };

/* How each action is drawn: the character without colour, and colours (of 256) for even and odd micro-batches. Actions without
 * a name are not drawn. */
static const struct look {
    const char *name, *block;
    int colour[2];
} looks[ACTION_COUNT] = {
    [ACTION_FORWARD] = {"forward", "▒", {75, 68}},
    [ACTION_BACKWARD] = {"backward", "█", {114, 71}},
    [ACTION_BACKWARD_INPUT] = {"backward, input", "█", {114, 71}},
    [ACTION_BACKWARD_WEIGHT] = {"backward, weights", "▓", {176, 133}},
    [ACTION_RECOMPUTE] = {"recompute", "░", {221, 179}},
    [ACTION_UPDATE] = {"update", "▪", {252, 252}},
    [ACTION_PREDICT] = {"predict", "▫", {134, 134}},
    [ACTION_ENCODE] = {"encode", "▪", {208, 208}},
    [ACTION_DECODE] = {"decode", "▫", {178, 178}},
    [ACTION_ROUND] = {"round", "▪", {208, 208}},
    [ACTION_REDUCE] = {"all-reduce", "═", {203, 203}}, /* where the worker would be idle */
};

/* What one sample shows. */
struct sample {
    int action; /* IDLE: none */
    bool odd;
};

struct terminal {
    struct text text;
    const struct timeline *timeline;
    int samples;
    double step_s; /* a sample's time */
    bool colour;
    bool used[ACTION_COUNT];
};

static enum action action_of(const struct timeline_event *event) { return opcode_table[event->instruction.op].action; }

/* The event that takes the largest part of [from, from + step): `events` of one worker are in order, *at is the first that may
 * overlap; only those of one lane count. */
static struct sample take_sample(const struct terminal *terminal, double from, int lane, int *at, int end) {
    const struct timeline_event *events = terminal->timeline->events;
    double to = from + terminal->step_s, idle = terminal->step_s, most = 0;
    struct sample sample = {.action = IDLE};
    while (*at < end && events[*at].end_s <= from) ++*at;
    for (int i = *at; i < end; i++) {
        if (timeline_lane(terminal->timeline, &events[i]) != lane) continue;
        if (events[i].start_s >= to) break;
        double share = fmin(events[i].end_s, to) - fmax(events[i].start_s, from);
        idle -= share;
        if (share <= most || !looks[action_of(&events[i])].name) continue;
        most = share;
        sample = (struct sample){.action = (int)action_of(&events[i]), .odd = events[i].instruction.micro_batch % 2 == 1};
    }
    return most >= idle ? sample : (struct sample){.action = IDLE};
}

/* Sums over replicas run concurrently with computations: they are shown where the worker is otherwise idle. */
static void take_sums(const struct terminal *terminal, int worker, struct sample *samples) {
    const struct timeline *timeline = terminal->timeline;
    for (int t = 0; t < timeline->transfer_count; t++) {
        const struct timeline_transfer *transfer = &timeline->transfers[t];
        if (transfer->traffic != TRAFFIC_SUM || transfer->from != worker) continue;
        for (int i = (int)fmin(terminal->samples, transfer->start_s / terminal->step_s + 0.5);
             i < terminal->samples && (i + 0.5) * terminal->step_s < transfer->end_s; i++)
            if (samples[i].action == IDLE) samples[i].action = ACTION_REDUCE;
    }
}

static int colour_of(struct sample sample) {
    return sample.action == IDLE ? BACKGROUND : looks[sample.action].colour[sample.odd];
}

static void add_cells(struct terminal *terminal, const struct sample *samples) {
    struct text *text = &terminal->text;
    if (!terminal->colour) {
        for (int i = 0; i < terminal->samples; i++)
            text_add(text, "%s", samples[i].action == IDLE ? "·" : looks[samples[i].action].block);
        return;
    }
    for (int i = 0; i + 1 < terminal->samples; i += 2)
        text_add(text, "\033[38;5;%d;48;5;%dm▌", colour_of(samples[i]), colour_of(samples[i + 1]));
    text_add(text, "\033[0m");
}

/* From event `first` on. */
static void add_row(struct terminal *terminal, int worker, int lane, int first, struct sample *samples) {
    const struct timeline *timeline = terminal->timeline;
    int end = first;
    while (end < timeline->event_count && timeline->events[end].worker == worker) end++;
    for (int i = 0, at = first; i < terminal->samples; i++) {
        samples[i] = take_sample(terminal, i * terminal->step_s, lane, &at, end);
    }
    if (lane == 0) take_sums(terminal, worker, samples);
    for (int i = 0; i < terminal->samples; i++)
        if (samples[i].action != IDLE) terminal->used[samples[i].action] = true;
    if (lane == 0)
        text_add(&terminal->text, "worker %-*d", LABEL_WIDTH - 7, worker);
    else
        text_add(&terminal->text, "%*s", LABEL_WIDTH, "");
    add_cells(terminal, samples);
    text_add(&terminal->text, "\n");
}

static void add_legend(struct terminal *terminal, double makespan_s) {
    char a[32], b[32];
    double shown_s = terminal->samples * terminal->step_s;
    text_add(&terminal->text, "%*s", LABEL_WIDTH, "");
    if (shown_s < makespan_s * (1 - 1e-9))
        text_add(&terminal->text, "the first %s of %s;", text_seconds(shown_s, a), text_seconds(makespan_s, b));
    else
        text_add(&terminal->text, "%s;", text_seconds(makespan_s, a));
    for (int action = 0; action < ACTION_COUNT; action++) {
        const struct look *look = &looks[action];
        if (!terminal->used[action]) continue;
        if (terminal->colour)
            text_add(&terminal->text, "  \033[38;5;%dm█\033[0m %s", look->colour[0], look->name);
        else
            text_add(&terminal->text, "  %s %s", look->block, look->name);
    }
    text_add(&terminal->text, "\n");
}

/* Shows the whole run if each box gets two samples, else as much of it as does. */
static double choose_span(const struct timeline *timeline, int samples, double makespan_s) {
    double sum_s = 0;
    int boxes = 0;
    for (int i = 0; i < timeline->event_count; i++) {
        enum action action = action_of(&timeline->events[i]);
        if (action == ACTION_UPDATE || action == ACTION_PREDICT) continue;
        sum_s += timeline->events[i].end_s - timeline->events[i].start_s;
        boxes++;
    }
    return boxes > 0 && sum_s > 0 ? fmin(makespan_s, sum_s / boxes * samples / 2) : makespan_s;
}

char *ps_simulation_timeline(const struct ps_simulation *simulation, int columns, bool colour) {
    const struct timeline *timeline = &simulation->timeline;
    struct terminal terminal = {.timeline = timeline, .colour = colour};
    if (timeline->event_count == 0) return text_take(&terminal.text);
    int cells = (columns > COLUMNS_MIN + LABEL_WIDTH ? columns : COLUMNS_MIN + LABEL_WIDTH) - LABEL_WIDTH;
    terminal.samples = cells * (colour ? 2 : 1);
    terminal.step_s = choose_span(timeline, terminal.samples, simulation->info.makespan_s) / terminal.samples;
    struct sample *samples = malloc((size_t)terminal.samples * sizeof *samples);
    if (!samples) return NULL;
    int every = (timeline->workers + ROWS_MAX - 1) / ROWS_MAX, at = 0;
    for (int w = 0; w < timeline->workers; w++) {
        while (at < timeline->event_count && timeline->events[at].worker < w) at++;
        for (int lane = 0; w % every == 0 && lane < timeline_lanes(timeline); lane++) add_row(&terminal, w, lane, at, samples);
    }
    add_legend(&terminal, simulation->info.makespan_s);
    free(samples);
    return text_take(&terminal.text);
}
