/* Events in order of simulated time: a binary heap of fixed capacity. Events of the same moment leave in the order they
 * came. */
#ifndef PENSTOCK_SIMULATE_EVENT_H
#define PENSTOCK_SIMULATE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct event {
    int64_t time;   /* ticks */
    uint64_t order; /* set by event_push */
    int subject;    /* who it is about: the owner of the heap knows */
};

struct event_heap {
    struct event *events;
    int count, capacity;
    uint64_t pushed;
};

enum ps_status event_heap_create(struct event_heap *heap, int capacity, struct ps_error *error);
void event_heap_free(struct event_heap *heap);
/* Asserts that there is room: how many events can be pending at a time is known beforehand. */
void event_push(struct event_heap *heap, int64_t time, int subject);
/* The earliest; false where there is none. */
bool event_pop(struct event_heap *heap, struct event *event);
/* Takes out an event about `subject`, if there is one; looks through all. */
void event_remove(struct event_heap *heap, int subject);

#endif
