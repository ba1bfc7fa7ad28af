/* Growing timelines, finding in them, freeing them. */
#include "program/timeline.h"

#include <limits.h>
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

static bool is_pass(const struct instruction *instruction) {
    return instruction->op == OP_F || instruction_takes_gradient(instruction);
}

static size_t cell_of(const struct timeline_index *index, int stage, int micro_batch, bool backward) {
    const size_t row = (size_t)stage * (size_t)index->micro_batches + (size_t)(micro_batch - index->first_micro_batch);
    return 2 * row + backward;
}

enum ps_status timeline_index_create(const struct timeline *timeline, struct timeline_index *index, struct ps_error *error) {
    struct timeline_index made = {0};
    int first = INT_MAX, last = -1;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct instruction *instruction = &timeline->events[i].instruction;
        if (!is_pass(instruction)) continue;
        if (instruction->stage >= made.stages) made.stages = instruction->stage + 1;
        if (instruction->micro_batch < first) first = instruction->micro_batch;
        if (instruction->micro_batch > last) last = instruction->micro_batch;
    }
    made.first_micro_batch = first;
    made.micro_batches = last < first ? 0 : last - first + 1;
    const size_t cells = 2 * (size_t)made.stages * (size_t)made.micro_batches;
    TRY(memory_new(&made.place, cells, "timeline", error));
    for (size_t i = 0; i < cells; i++) made.place[i] = TIMELINE_NONE;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct instruction *instruction = &timeline->events[i].instruction;
        if (is_pass(instruction))
            made.place[cell_of(&made, instruction->stage, instruction->micro_batch, instruction->op != OP_F)] = i;
    }
    *index = made;
    return PS_OK;
}

int timeline_index_find(const struct timeline_index *index, int stage, int micro_batch, bool backward) {
    const int place = micro_batch - index->first_micro_batch;
    if (stage < 0 || stage >= index->stages || place < 0 || place >= index->micro_batches) return TIMELINE_NONE;
    return index->place[cell_of(index, stage, micro_batch, backward)];
}

void timeline_index_free(struct timeline_index *index) {
    free(index->place);
    *index = (struct timeline_index){0};
}

void timeline_free(struct timeline *timeline) {
    free(timeline->events);
    free(timeline->transfers);
    free(timeline->memory_bytes);
    *timeline = (struct timeline){0};
}
