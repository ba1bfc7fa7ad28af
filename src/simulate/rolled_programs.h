/*
 * Rolled programs: long programs in little memory, as loops. Once a pipeline is full each worker's program is periodic: the
 * program for one period more is the same with one piece inserted. A period is a micro-batch if the schedule flushes, else a
 * mini-batch; or as many of them as it takes until every replica has been used equally often; or as many as there are workers,
 * if a worker with several stages takes micro-batches in groups of that size. So two short, verified lowerings give head,
 * period and tail of a program of any length. It is unrolled a page at a time during the simulation; memory grows with the
 * number of workers, not of micro-batches.
 *
 * Blocks are numbered while programs are unrolled, by the rules of the allocate pass (allocation_next). The simulator uses only
 * the weight slots of transfers between the halves of a split stage: these must be periodic, too.
 */
#ifndef PENSTOCK_SIMULATE_ROLLED_PROGRAMS_H
#define PENSTOCK_SIMULATE_ROLLED_PROGRAMS_H

#include "base/arena.h"
#include "program/program.h"

/* An instruction without fields that can be recomputed. */
struct rolled_instruction {
    int32_t micro_batch;
    int16_t stage;
    int16_t weights; /* slot of transferred weights; NO_SLOT */
    uint8_t op;
    bool predicts;     /* into some slot */
    bool out_of_place; /* U: writes another slot than it reads */
};

struct rolled_program {
    struct rolled_instruction *code; /* head, tail, then the period */
    int head, tail, period;          /* lengths; period 0: not periodic */
};

struct rolled_programs {
    struct arena arena;           /* of the code */
    struct ps_programs *programs; /* everything but the code */
    struct rolled_program *worker;
    bool flush;
    int periods;              /* inserted */
    int repeats;              /* of head, periods and tail: mini-batches if the schedule flushes, else 1 */
    int period_micro_batches; /* micro-batches of a period; for U and AR without a flush: */
    int period_batches;       /* mini-batches of a period */
};

/* The position of a worker in its program. */
struct rolled_cursor {
    int repeat, period, at; /* at: index in head, period or tail */
};

/* Lowers the programs for these numbers of micro-batches and mini-batches. */
typedef enum ps_status rolled_lower(void *context, int micro_batches, int batches, struct ps_programs **programs,
                                    struct ps_error *error);

/* What is to be lowered. */
struct rolled_shape {
    bool flush;
    int workers, micro_batches, batches;
    int period; /* micro-batches (without flush mini-batches) after which all replicas have been used equally often; 1 without
                   replicas */
};

/* *rolled NULL: the programs are not periodic in this way, or too short to roll. */
enum ps_status rolled_create(rolled_lower *lower, void *context, const struct rolled_shape *shape,
                             struct rolled_programs **rolled, struct ps_error *error);
void rolled_destroy(struct rolled_programs *rolled);
/* Writes the next instructions, at most `most`, with blocks not numbered yet; returns their number, 0 at the end. */
int rolled_next(const struct rolled_programs *rolled, int worker, struct rolled_cursor *cursor, struct instruction *out,
                int most);
/* The number of instructions of the unrolled program. */
int64_t rolled_length(const struct rolled_programs *rolled, int worker);

#endif
