/* What a stage takes of its worker's memory, from its sizes and the number of slots that its program uses. */
#ifndef PENSTOCK_PLAN_MEMORY_H
#define PENSTOCK_PLAN_MEMORY_H

#include "plan/plan.h"

/* How many copies of each kind of block a stage's program has alive at once: read off the program by the allocate pass
 * (program/passes/allocate.c). They depend on schedule, policy and the stage's place, not on its layers. */
struct stage_slots {
    int weights;         /* copies of the weights: versions alive and predictions */
    int stash;           /* micro-batches whose stash is alive */
    int input;           /* input blocks: those kept for the backward and the one on its way */
    int output;          /* output blocks: being made or on their way out */
    int output_gradient; /* gradients that arrive */
    int input_gradient;  /* gradients that leave */
    int delta;           /* micro-batches between the two halves of their backward */
    bool forward_only;   /* the weights are updated elsewhere: no gradients, no optimizer state */
};

/* weights: copies and statistics; gradients: one; optimizer: `moments` blocks; stash: stashes, deltas and input blocks;
 * buffers: the other boundary blocks; workspace. Workspace is shared by a worker's stages: of several, the largest counts. */
struct worker_memory stage_memory(const struct stage_sizes *sizes, const struct stage_slots *slots, int moments);
/* Adds a further stage of the same worker. */
void worker_memory_add(struct worker_memory *total, const struct worker_memory *stage);

#endif
