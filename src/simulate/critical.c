/* Walking back from the end, and what idle workers wait for; see simulate.h. Times of one simulation are sums of ticks: equal
 * times compare equal. */
#include "simulate/simulate.h"

#include <stdlib.h>

#include "program/routes.h"

enum { NOTHING = -1 };

struct walk {
    const struct timeline *timeline;
    int *first;                              /* per worker: its first event; one more at the end */
    const struct timeline_transfer **by_end; /* transfers in order of their end */
    struct critical_path path;
};

/* The position of the walk: the beginning of an event or of a transfer. */
struct position {
    int event; /* NOTHING: at `transfer` */
    const struct timeline_transfer *transfer;
};

static const struct position nowhere = {.event = NOTHING};

static int by_end(const void *a, const void *b) {
    const struct timeline_transfer *one = *(const struct timeline_transfer *const *)a;
    const struct timeline_transfer *other = *(const struct timeline_transfer *const *)b;
    return one->end_s < other->end_s ? -1 : one->end_s > other->end_s;
}

/* The first transfer in order of end that ends at `time` or later. */
static int first_transfer(const struct walk *walk, double time) {
    int low = 0, high = walk->timeline->transfer_count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (walk->by_end[middle]->end_s < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The worker's last event that ends at `time` or before, and has index below `below`. */
static int last_event(const struct walk *walk, int worker, double time, int below) {
    int low = walk->first[worker], high = walk->first[worker + 1];
    if (high > below) high = below;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (walk->timeline->events[middle].end_s <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low > walk->first[worker] ? low - 1 : NOTHING;
}

static bool ends_at(const struct walk *walk, int event, double time) {
    return event != NOTHING && walk->timeline->events[event].end_s == time;
}

/* Whether the event reads the block of the transfer. */
static bool feeds(const struct timeline_transfer *transfer, const struct timeline_event *event) {
    const struct instruction *instruction = &event->instruction;
    bool updates = opcode_table[instruction->op].action == ACTION_UPDATE;
    if (updates != (transfer->traffic == TRAFFIC_SUM)) return false;
    int reader = updates ? transfer->stage : transfer->stage + traffic_table[transfer->traffic].step;
    return transfer->to == event->worker && instruction->stage == reader && instruction->micro_batch == transfer->micro_batch;
}

/* Any worker's event that ends at `time`: it released its core, or posted a receive. */
static struct position any_event(const struct walk *walk, double time) {
    for (int w = 0; w < walk->timeline->workers; w++) {
        int event = last_event(walk, w, time, walk->timeline->event_count);
        if (ends_at(walk, event, time) && walk->timeline->events[event].start_s < time)
            return (struct position){.event = event};
    }
    return nowhere;
}

static struct position before_event(struct walk *walk, int index) {
    const struct timeline_event *event = &walk->timeline->events[index];
    double time = event->start_s;
    int own = last_event(walk, event->worker, time, index);
    if (ends_at(walk, own, time)) return (struct position){.event = own};
    const struct timeline_transfer *sent = NULL;
    for (int i = first_transfer(walk, time); i < walk->timeline->transfer_count && walk->by_end[i]->end_s == time; i++) {
        if (feeds(walk->by_end[i], event)) return (struct position){.event = NOTHING, .transfer = walk->by_end[i]};
        if (walk->by_end[i]->from == event->worker) sent = walk->by_end[i];
    }
    if (sent) return (struct position){.event = NOTHING, .transfer = sent};
    struct position other = any_event(walk, time);
    if (other.event != NOTHING || own == NOTHING) return other;
    walk->path.other_s += time - walk->timeline->events[own].end_s;
    return (struct position){.event = own};
}

static struct position before_transfer(struct walk *walk, const struct timeline_transfer *transfer) {
    double time = transfer->start_s;
    int maker = last_event(walk, transfer->from, time, walk->timeline->event_count);
    if (ends_at(walk, maker, time)) return (struct position){.event = maker};
    for (int i = first_transfer(walk, time); i < walk->timeline->transfer_count && walk->by_end[i]->end_s == time; i++)
        if (walk->by_end[i]->start_s < time) return (struct position){.event = NOTHING, .transfer = walk->by_end[i]};
    struct position other = any_event(walk, time);
    if (other.event != NOTHING || maker == NOTHING) return other;
    walk->path.other_s += time - walk->timeline->events[maker].end_s;
    return (struct position){.event = maker};
}

static void follow(struct walk *walk, struct position position) {
    int most = walk->timeline->event_count + walk->timeline->transfer_count;
    for (; walk->path.steps < most; walk->path.steps++) {
        if (position.event != NOTHING) {
            const struct timeline_event *event = &walk->timeline->events[position.event];
            walk->path.compute_s[event->worker] += event->end_s - event->start_s;
            walk->path.holds[position.event] = true;
            position = before_event(walk, position.event);
        } else if (position.transfer) {
            walk->path.transfer_s += position.transfer->end_s - position.transfer->start_s;
            position = before_transfer(walk, position.transfer);
        } else {
            return;
        }
    }
}

static enum ps_status prepare(struct walk *walk, struct arena *scratch, struct ps_error *error) {
    const struct timeline *timeline = walk->timeline;
    walk->first = arena_take(scratch, (size_t)timeline->workers + 1, sizeof *walk->first);
    walk->by_end = arena_take(scratch, (size_t)timeline->transfer_count, sizeof(*walk->by_end));
    TRY(arena_check(scratch, "the critical path", error));
    int event = 0;
    for (int w = 0; w <= timeline->workers; w++) {
        while (event < timeline->event_count && timeline->events[event].worker < w) event++;
        walk->first[w] = event;
    }
    for (int i = 0; i < timeline->transfer_count; i++) walk->by_end[i] = &timeline->transfers[i];
    qsort(walk->by_end, (size_t)timeline->transfer_count, sizeof(*walk->by_end), by_end);
    return PS_OK;
}

enum ps_status critical_path_find(const struct timeline *timeline, struct arena *arena, struct critical_path *path,
                                  struct ps_error *error) {
    struct arena scratch = {0};
    struct position last = nowhere;
    struct walk walk = {.timeline = timeline,
                        .path.compute_s = arena_take(arena, (size_t)timeline->workers, sizeof *walk.path.compute_s),
                        .path.holds = arena_take(arena, (size_t)timeline->event_count, sizeof *walk.path.holds)};
    TRY(arena_check(arena, "the critical path", error));
    TRY(prepare(&walk, &scratch, error));
    for (int i = 0; i < timeline->event_count; i++)
        if (last.event == NOTHING || timeline->events[i].end_s >= timeline->events[last.event].end_s) last.event = i;
    follow(&walk, last);
    arena_release(&scratch);
    *path = walk.path;
    return PS_OK;
}

/* ------------------------------------------------------------------ waits */

/* The computation of another worker that made what the event reads; of several the one that ended last. */
static int maker_of(const struct walk *walk, const struct timeline_index *index, const struct timeline_event *event) {
    const struct instruction *of = &event->instruction;
    const bool backward = instruction_takes_gradient(of);
    if (of->op != OP_F && !backward) return TIMELINE_NONE;
    int found = TIMELINE_NONE;
    const int candidates[] = {timeline_index_find(index, of->stage + (backward ? 1 : -1), of->micro_batch, backward),
                              backward ? timeline_index_find(index, of->stage, of->micro_batch, false) : TIMELINE_NONE};
    for (size_t c = 0; c < sizeof candidates / sizeof *candidates; c++) {
        const struct timeline_event *events = walk->timeline->events;
        if (candidates[c] == TIMELINE_NONE || events[candidates[c]].worker == event->worker) continue;
        if (found == TIMELINE_NONE || events[candidates[c]].end_s > events[found].end_s) found = candidates[c];
    }
    return found;
}

/* What ended when the event began, after all that it reads had been made. */
static enum wait_cause last_cause(const struct walk *walk, const struct timeline_event *event) {
    const double time = event->start_s;
    enum wait_cause cause = WAIT_OTHER;
    for (int i = first_transfer(walk, time); i < walk->timeline->transfer_count && walk->by_end[i]->end_s == time; i++) {
        if (feeds(walk->by_end[i], event)) return walk->by_end[i]->traffic == TRAFFIC_SUM ? WAIT_SUM : WAIT_TRANSFER;
        if (walk->by_end[i]->from == event->worker) cause = WAIT_ROOM;
    }
    return cause == WAIT_OTHER && any_event(walk, time).event != NOTHING ? WAIT_CORE : cause;
}

enum ps_status timeline_find_waits(const struct timeline *timeline, struct arena *arena, struct timeline_wait **waits,
                                   struct ps_error *error) {
    struct arena scratch = {0};
    struct timeline_index index;
    struct walk walk = {.timeline = timeline};
    struct timeline_wait *made = arena_take(arena, (size_t)timeline->event_count, sizeof *made);
    TRY(arena_status(arena, "what workers wait for", error));
    TRY(timeline_index_create(timeline, &index, error));
    const enum ps_status status = prepare(&walk, &scratch, error);
    for (int w = 0; status == PS_OK && w < timeline->workers; w++) {
        double free_s[2] = {0, 0}; /* by lane: the end of the event before */
        for (int i = walk.first[w]; i < walk.first[w + 1]; i++) {
            const struct timeline_event *event = &timeline->events[i];
            const int lane = timeline_lane(timeline, event);
            const double since_s = free_s[lane];
            free_s[lane] = event->end_s;
            made[i] = (struct timeline_wait){.since_s = since_s, .maker = TIMELINE_NONE};
            if (event->start_s <= since_s) continue;
            made[i].maker = maker_of(&walk, &index, event);
            const double made_s = made[i].maker == TIMELINE_NONE ? since_s : timeline->events[made[i].maker].end_s;
            made[i].input_s = made_s < since_s ? 0 : (made_s < event->start_s ? made_s : event->start_s) - since_s;
            if (made_s < event->start_s) made[i].rest = last_cause(&walk, event);
        }
    }
    arena_release(&scratch);
    timeline_index_free(&index);
    if (status == PS_OK) *waits = made;
    return status;
}
