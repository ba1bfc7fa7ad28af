/* A binary heap, ordered by (time, order of arrival): see event.h. */
#include "simulate/event.h"

#include <assert.h>
#include <stdlib.h>

static bool earlier(const struct event *a, const struct event *b) {
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

enum ps_status event_heap_create(struct event_heap *heap, int capacity, struct ps_error *error) {
    *heap = (struct event_heap){.events = malloc((size_t)capacity * sizeof *heap->events), .capacity = capacity};
    if (!heap->events) return error_memory(error, "events", (size_t)capacity * sizeof *heap->events);
    return PS_OK;
}

void event_heap_free(struct event_heap *heap) {
    free(heap->events);
    *heap = (struct event_heap){0};
}

/* Puts the event in its place at `place` or above. */
static void rise(struct event_heap *heap, int place, struct event event) {
    while (place > 0 && earlier(&event, &heap->events[(place - 1) / 2])) {
        heap->events[place] = heap->events[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    heap->events[place] = event;
}

/* At `place` or below. */
static void sink(struct event_heap *heap, int place, struct event event) {
    for (;;) {
        int child = 2 * place + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && earlier(&heap->events[child + 1], &heap->events[child])) child++;
        if (earlier(&event, &heap->events[child])) break;
        heap->events[place] = heap->events[child];
        place = child;
    }
    heap->events[place] = event;
}

void event_push(struct event_heap *heap, int64_t time, int subject) {
    assert(heap->count < heap->capacity);
    rise(heap, heap->count++, (struct event){.time = time, .order = heap->pushed++, .subject = subject});
}

bool event_pop(struct event_heap *heap, struct event *event) {
    if (heap->count == 0) return false;
    *event = heap->events[0];
    heap->count--;
    sink(heap, 0, heap->events[heap->count]);
    return true;
}

void event_remove(struct event_heap *heap, int subject) {
    int place = 0;
    while (place < heap->count && heap->events[place].subject != subject) place++;
    if (place == heap->count) return;
    struct event last = heap->events[--heap->count];
    if (place == heap->count) return;
    if (place > 0 && earlier(&last, &heap->events[(place - 1) / 2]))
        rise(heap, place, last);
    else
        sink(heap, place, last);
}
