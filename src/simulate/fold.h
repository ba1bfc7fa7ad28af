/*
 * Long programs in little memory. Once a pipeline is full each worker repeats itself: the program for one turn more (a
 * micro-batch of a mini-batch where the schedule flushes, else a mini-batch) is the same with one piece inserted. So two short
 * lowerings, which the verifier has proved, give head, turn and tail of a program of any length. It is unfolded a page at a
 * time while the simulator runs; memory grows with the workers, not with the micro-batches.
 *
 * Blocks are numbered by micro-batch, in turn through the slots of their kind: they are taken and given back in order of
 * micro-batches, so this waits for the same transfers as the numbers of the allocate pass. What R puts out goes to the block
 * that the stage's next forward will write. Stages with replicas are not folded. Weight slots are left out; the simulator does
 * not look at them.
 */
#ifndef PENSTOCK_SIMULATE_FOLD_H
#define PENSTOCK_SIMULATE_FOLD_H

#include "program/program.h"

/* An instruction without its numbers. */
struct folded_instruction {
    int32_t micro_batch;
    int16_t stage;
    int16_t spare; /* R: its output goes where that of the forward so many micro-batches later will */
    uint8_t op;
    uint8_t operands; /* bit per block kind; FOLDED_PREDICTS */
};

enum { FOLDED_PREDICTS = 1 << BLOCK_KINDS };

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
    int turn_micro_batches; /* by how much a turn moves on: of U 1 instead, or none where the schedule flushes */
};

/* Where a worker is in its program. */
struct folded_cursor {
    int repeat, turn, at; /* at: in head, turn or tail, counted through */
};

/* Lowers the programs for so many micro-batches and mini-batches. */
typedef enum ps_status fold_lower(void *context, int micro_batches, int batches, struct ps_programs **programs,
                                  struct ps_error *error);

/* *folded NULL: they do not repeat themselves in this way, or are too short for it to pay. */
enum ps_status fold_create(fold_lower *lower, void *context, bool flush, int workers, int micro_batches, int batches,
                           struct folded **folded, struct ps_error *error);
void fold_destroy(struct folded *folded);
/* The next instructions, at most `most`; how many, 0 at the end. */
int fold_next(const struct folded *folded, int worker, struct folded_cursor *cursor, struct instruction *out, int most);
/* In all. */
int64_t fold_length(const struct folded *folded, int worker);

#endif
