/* Growing and freeing timelines. */
#include "program/timeline.h"

#include <stdlib.h>

static void *grow(void *array, int count, int *capacity, size_t size) {
    if (count < *capacity) return array;
    int wanted = *capacity ? 2 * *capacity : 256;
    void *larger = realloc(array, (size_t)wanted * size);
    if (larger) *capacity = wanted;
    return larger;
}

enum ps_status timeline_add(struct timeline *timeline, const struct timeline_event *event, struct ps_error *error) {
    struct timeline_event *events = grow(timeline->events, timeline->event_count, &timeline->event_capacity, sizeof *events);
    if (!events) return error_memory(error, "timeline", (size_t)timeline->event_count * sizeof *events);
    timeline->events = events;
    events[timeline->event_count++] = *event;
    return PS_OK;
}

enum ps_status timeline_add_transfer(struct timeline *timeline, const struct timeline_transfer *transfer,
                                     struct ps_error *error) {
    struct timeline_transfer *transfers =
        grow(timeline->transfers, timeline->transfer_count, &timeline->transfer_capacity, sizeof *transfers);
    if (!transfers) return error_memory(error, "timeline", (size_t)timeline->transfer_count * sizeof *transfers);
    timeline->transfers = transfers;
    transfers[timeline->transfer_count++] = *transfer;
    return PS_OK;
}

void timeline_free(struct timeline *timeline) {
    free(timeline->events);
    free(timeline->transfers);
    free(timeline->memory_bytes);
    *timeline = (struct timeline){0};
}
