/*
 * The programs of a run. A run is a sequence of segments, at whose ends it evaluates and writes checkpoints; most have the same
 * length, the last of an epoch and of the run may be shorter. Each length is lowered once.
 */
#ifndef PENSTOCK_EXEC_PROGRAM_SET_H
#define PENSTOCK_EXEC_PROGRAM_SET_H

#include "program/lower.h"

/* The settings that determine segment lengths. They are part of a run's configuration: a run with other lengths is another run.
 */
struct segment_lengths {
    int64_t steps;            /* of the run */
    int64_t epoch;            /* steps of an epoch; 0: there are none */
    int64_t evaluate_every;   /* steps, counted from the beginning of each epoch; 0: once an epoch */
    int64_t checkpoint_every; /* in the same way */
    int micro_batches;        /* of a step: no segment has more than SEGMENT_MICRO_BATCHES of them */
};

enum { SEGMENT_MICRO_BATCHES = 1 << 18 };

/* Steps from `step` to the next evaluation; 0 at the end of the run. */
int64_t segment_to_evaluation(const struct segment_lengths *lengths, int64_t step);
/* Mini-batches of the segment that begins after `step` steps. */
int segment_length(const struct segment_lengths *lengths, int64_t step);
/* Does a segment that ends after `step` steps end with an evaluation, with a requested checkpoint? */
bool segment_end_evaluates(const struct segment_lengths *lengths, int64_t step);
bool segment_end_saves(const struct segment_lengths *lengths, int64_t step);

/* The number of different lengths: the usual one, the rest of an epoch, the rest of the run, and those that evaluations and
 * checkpoints at different intervals lead to. */
enum { PROGRAM_SET_MAX = 32 };
/* The number of programs of other lengths that are kept. */
enum { PROGRAM_SET_OTHERS = 8 };

struct program_set {
    struct program_set_entry {
        int batches;
        int64_t uses; /* segments of this length */
        struct ps_programs *programs;
    } entries[PROGRAM_SET_MAX];
    int count;
    struct program_set_entry others[PROGRAM_SET_OTHERS]; /* requested later; a ring */
    int other_count;                                     /* created so far */
    struct ps_programs *evaluation;                      /* NULL: none */
    struct ps_programs *decoding;                        /* the same for the first micro-batches of it; NULL: none */
    struct stage_slots *slots;                           /* per instance: the most that any of the programs uses */
};

/* PS_USAGE: segments of too many lengths. `evaluation_batches` micro-batches in an evaluation, `decoding_batches` in one with
 * decoding; 0: there is none. */
enum ps_status program_set_create(const struct ps_plan *plan, const struct segment_lengths *lengths, int64_t evaluation_batches,
                                  int64_t decoding_batches, struct program_set *set, struct ps_error *error);
void program_set_free(struct program_set *set);
/* The programs of a segment of any length up to the longest that was planned; those of another length are lowered here and stay
 * valid for the next PROGRAM_SET_OTHERS - 1 calls. */
enum ps_status program_set_find(struct program_set *set, const struct ps_plan *plan, int batches,
                                const struct ps_programs **programs, struct ps_error *error);
/* PS_FAILED: other programs of the run need more blocks than it has. */
enum ps_status program_set_check_fit(const struct program_set *set, const struct ps_programs *programs, struct ps_error *error);
/* Mini-batches of the longest segment. */
int program_set_longest(const struct program_set *set);

#endif
