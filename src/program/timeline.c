/* Growing and freeing timelines. */
#include "program/timeline.h"

#include <stdlib.h>

#include "base/memory.h"

enum ps_status timeline_add(struct timeline *timeline, const struct timeline_event *event, struct ps_error *error) {
    TRY(memory_grow(&timeline->events, &timeline->event_capacity, timeline->event_count + 1, "timeline", error));
    timeline->events[timeline->event_count++] = *event;
    return PS_OK;
}

enum ps_status timeline_add_transfer(struct timeline *timeline, const struct timeline_transfer *transfer,
                                     struct ps_error *error) {
    TRY(memory_grow(&timeline->transfers, &timeline->transfer_capacity, timeline->transfer_count + 1, "timeline", error));
    timeline->transfers[timeline->transfer_count++] = *transfer;
    return PS_OK;
}

void timeline_free(struct timeline *timeline) {
    free(timeline->events);
    free(timeline->transfers);
    free(timeline->memory_bytes);
    *timeline = (struct timeline){0};
}
