/*
 * The programs of a run. A run is a row of segments, at whose ends it evaluates and writes checkpoints; most have the same
 * length, the last of an epoch and of the run may be shorter. Each length is lowered once.
 */
#ifndef PENSTOCK_EXEC_PROGRAM_SET_H
#define PENSTOCK_EXEC_PROGRAM_SET_H

#include "program/lower.h"

/* What segment lengths follow from. They are part of a run's configuration: other lengths are another run. */
struct segment_lengths {
    int64_t steps;            /* of the run */
    int64_t epoch;            /* steps of an epoch; 0: there are none */
    int64_t evaluate_every;   /* steps, counted from the beginning of each epoch; 0: once an epoch */
    int64_t checkpoint_every; /* in the same way */
    int micro_batches;        /* of a step: no segment has more than SEGMENT_MICRO_BATCHES of them */
};

enum { SEGMENT_MICRO_BATCHES = 1 << 18 };

/* Mini-batches of the segment that begins after `step` steps. */
int segment_length(const struct segment_lengths *lengths, int64_t step);
/* Is the end of a segment after `step` steps one where the run evaluates, one where a checkpoint was asked for? */
bool segment_end_evaluates(const struct segment_lengths *lengths, int64_t step);
bool segment_end_saves(const struct segment_lengths *lengths, int64_t step);

/* Usual, rest of an epoch, rest of the run, and what evaluations and checkpoints at different distances make of them. */
enum { PROGRAM_SET_MAX = 32 };
/* Lengths that nobody planned: as many are kept. */
enum { PROGRAM_SET_OTHERS = 8 };

struct program_set {
    struct program_set_entry {
        int batches;
        int64_t uses; /* segments of this length */
        struct ps_programs *programs;
    } entries[PROGRAM_SET_MAX];
    int count;
    struct program_set_entry others[PROGRAM_SET_OTHERS]; /* asked for since; a ring */
    int other_count;                                     /* ever made */
    struct ps_programs *evaluation;                      /* NULL: none */
    struct ps_programs *decoding;                        /* the same for the first micro-batches of it; NULL: none */
    struct stage_slots *slots;                           /* per part: the most that any of the programs uses */
};

/* PS_USAGE: segments of too many lengths. `evaluation_batches` micro-batches in an evaluation, `decoding_batches` where
 * sentences are written; 0: there is none. */
enum ps_status program_set_create(const struct ps_plan *plan, const struct segment_lengths *lengths, int64_t evaluation_batches,
                                  int64_t decoding_batches, struct program_set *set, struct ps_error *error);
void program_set_free(struct program_set *set);
/* Of a segment of any length up to the longest that was planned; one of another length is lowered here. What was found before
 * stays for the next PROGRAM_SET_OTHERS - 1 calls. */
enum ps_status program_set_find(struct program_set *set, const struct ps_plan *plan, int batches,
                                const struct ps_programs **programs, struct ps_error *error);
/* PS_FAILED: other programs of the run need more blocks than it has. */
enum ps_status program_set_check_fit(const struct program_set *set, const struct ps_programs *programs, struct ps_error *error);
/* Mini-batches of the longest segment. */
int program_set_longest(const struct program_set *set);

#endif
