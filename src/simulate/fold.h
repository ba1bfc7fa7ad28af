/*
 * Long programs in little memory. Once a pipeline is full each worker repeats itself: the program for one turn more is the same
 * with one piece inserted. A turn is a micro-batch of a mini-batch where the schedule flushes, else a mini-batch; as many of
 * them as it takes until replicas have their turn again; or as many as there are workers, where stages on one worker take
 * micro-batches in rounds of that many. So two short lowerings, which the verifier has proved, give head, turn and tail of a
 * program of any length. It is unfolded a page at a time while the simulator runs; memory grows with the workers, not with the
 * micro-batches.
 *
 * Blocks are numbered while programs are unfolded, as the allocate pass does it (allocation_next). Of weight slots the
 * simulator looks at those alone between which weights travel to a stage's forwards on another worker: these must repeat
 * themselves, too.
 */
#ifndef PENSTOCK_SIMULATE_FOLD_H
#define PENSTOCK_SIMULATE_FOLD_H

#include "program/program.h"

/* An instruction without what can be found again. */
struct folded_instruction {
    int32_t micro_batch;
    int16_t stage;
    int16_t weights; /* slot of weights that travel; NO_SLOT */
    uint8_t op;
    bool predicts; /* into some slot */
    bool aside;    /* U: into another slot than it reads */
};

struct folded_program {
    struct folded_instruction *code; /* head, tail, then the turn */
    int head, tail, turn;            /* lengths; turn 0: nothing repeats */
};

struct folded {
    struct ps_programs *programs; /* everything but the code */
    struct folded_program *worker;
    bool flush;
    int turns;              /* inserted */
    int repeats;            /* of head, turns and tail: mini-batches where the schedule flushes, else 1 */
    int turn_micro_batches; /* by how much a turn moves on; of U and AR where the schedule does not flush: */
    int turn_batches;       /* as many mini-batches */
};

/* Where a worker is in its program. */
struct folded_cursor {
    int repeat, turn, at; /* at: in head, turn or tail, counted through */
};

/* Lowers the programs for so many micro-batches and mini-batches. */
typedef enum ps_status fold_lower(void *context, int micro_batches, int batches, struct ps_programs **programs,
                                  struct ps_error *error);

/* What is to be lowered. */
struct fold_shape {
    bool flush;
    int workers, micro_batches, batches;
    int turn; /* micro-batches (without flush mini-batches) after which the plan's stages have come round: 1, with replicas more
               */
};

/* *folded NULL: they do not repeat themselves in this way, or are too short for it to pay. */
enum ps_status fold_create(fold_lower *lower, void *context, const struct fold_shape *shape, struct folded **folded,
                           struct ps_error *error);
void fold_destroy(struct folded *folded);
/* The next instructions, at most `most`, with blocks that have no numbers yet; how many, 0 at the end. */
int fold_next(const struct folded *folded, int worker, struct folded_cursor *cursor, struct instruction *out, int most);
/* In all. */
int64_t fold_length(const struct folded *folded, int worker);

#endif
