/*
 * MadPipe's problem (Beaumont, Eyraud-Dubois, Shilova, "MadPipe: memory aware dynamic programming algorithm for pipelined model
 * parallelism"): consecutive stages, of which one special worker may hold several, and periodic schedules in which a stage
 * keeps g activations. Workers and links are equal.
 *
 * Going back from the last layer, `delay` is the least time between the end of the forward of a layer and the start of its
 * backward. A computation or transfer of length y lengthens it from x to x (+) y: within a period if it fits, else from the
 * next period on. All times are whole nanoseconds.
 */
#ifndef PENSTOCK_PLAN_PLANNERS_MADPIPE_H
#define PENSTOCK_PLAN_PLANNERS_MADPIPE_H

#include "plan/planner.h"

enum { SAFETY_FACTOR_MAX = 4 };

struct madpipe {
    const struct planner_problem *problem;
    struct arena arena; /* of its tables, and of other data with the same lifetime */
    int layers, workers;
    int64_t *time_ns;     /* of the first i layers, forward and backward */
    int64_t *forward_ns;  /* of the first i layers */
    int64_t *transfer_ns; /* across the cut after i layers, both ways; 0 at both ends */
    int64_t limit_bytes;  /* of a worker; INT64_MAX: none */
    bool one_link;        /* the two directions of a link transfer one at a time; else independently */
    bool fixed; /* a stage permanently has as many blocks for activations as it ever holds, as in programs; else only what the
                 * special worker holds at a time counts */
    int safety_factor;    /* 0 to SAFETY_FACTOR_MAX: the share of its stages for which the special worker is assumed to hold g
                           * activations at once, not g - 1. 0 (and one stage) gives a bound; more gives plans that are easier to
                           * schedule */
    int64_t budget;       /* comparisons of labels that one test of the special class may use */
    int64_t tolerance_ns; /* tolerance of the least period that a search finds */
    const bool *cuts;     /* [layers + 1]: where stages of the special class may begin; NULL: anywhere */
    int64_t *base_bytes, *copy_bytes; /* [first][last]: memory of a stage is base + g copy; NULL if memory is not limited */
};

/* A stage of the layers first..last-1 on the special worker or one of its own. */
struct madpipe_stage {
    int first, end;
    bool special;
};

enum ps_status madpipe_open(const struct planner_problem *problem, struct madpipe *data, struct ps_error *error);
void madpipe_close(struct madpipe *data);

static inline int64_t madpipe_periods(int64_t time_ns, int64_t period_ns) { return (time_ns + period_ns - 1) / period_ns; }
/* x (+) y for y <= period. */
static inline int64_t madpipe_lengthen(int64_t x, int64_t y, int64_t period_ns) {
    int64_t end = madpipe_periods(x, period_ns) * period_ns;
    return x + y <= end || x == end ? x + y : end + y;
}
static inline int64_t madpipe_time_ns(const struct madpipe *data, int first, int end) {
    return data->time_ns[end] - data->time_ns[first];
}
/* The time that a link is busy with both sides of the cut after `cut` layers. */
static inline int64_t madpipe_link_ns(const struct madpipe *data, int cut) {
    return data->one_link ? data->transfer_ns[cut] : data->transfer_ns[cut] - data->transfer_ns[cut] / 2;
}
/* The delay in front of that cut; directions with links of their own do not exclude each other. */
static inline int64_t madpipe_cross(const struct madpipe *data, int64_t delay, int cut, int64_t period_ns) {
    if (!data->one_link) return delay + data->transfer_ns[cut];
    return madpipe_lengthen(delay, data->transfer_ns[cut], period_ns);
}
/* Adds the memory that the special worker needs for a stage in which a batch stays for `stay` (madpipe_bounds.c): memory +
 * largest <= limit, and average <= limit. */
void madpipe_special_memory(const struct madpipe *data, int first, int end, int64_t stay, int64_t period, int64_t *memory,
                            int64_t *largest, int64_t *average);

/* The least load and memory of the layers not yet placed on the special worker, for one period (madpipe_bounds.c). */
enum { MADPIPE_COMPLETION_SUMS = 4 };
struct madpipe_completion_cell {
    float least[MADPIPE_COMPLETION_SUMS];
};
struct madpipe_completion {
    const struct madpipe *data;
    int64_t period, width;
    struct madpipe_completion_cell *cells;
};
/* Allocates its tables in the arena; to be filled after the arena was checked. */
void madpipe_completion_open(const struct madpipe *data, int64_t period_ns, struct madpipe_completion *rest,
                             struct arena *arena);
void madpipe_completion_fill(struct madpipe_completion *rest);
/* Returns true unless this bound proves that the first `first` layers cannot be placed: on this many normal workers and the
 * special one, before a stage that is special or not, with a delay there, and with what the special worker has already (bytes:
 * on average, or fixed). */
bool madpipe_completion_fits(const struct madpipe_completion *rest, int first, int workers, bool special, int64_t delay,
                             int64_t load, int64_t held);

/* Memory of the stage first..end-1 that keeps `copies` activations, and of one activation. */
int64_t madpipe_memory(const struct madpipe *data, int first, int end, int64_t copies);
int64_t madpipe_copy_bytes(const struct madpipe *data, int first, int end);

/* The stages of the best plan, into `stages` (room for one per layer): the least period for which a plan exists. Contiguous:
 * one stage per worker, scheduled by 1F1B*: the period is that of a valid schedule. Special: a bound that no plan of MadPipe's
 * class can beat (the memory of the special worker is a lower bound), below `known`, a period for which there is a plan, or
 * `known` itself (0: none is known). A test that takes too long counts as passed, which keeps the bound valid; there are then
 * no stages (count 0). PS_NO_PLAN if nothing fits. */
enum ps_status madpipe_contiguous(const struct madpipe *data, struct madpipe_stage *stages, int *count, int64_t *period_ns,
                                  struct ps_error *error);
enum ps_status madpipe_special(const struct madpipe *data, int64_t known, struct madpipe_stage *stages, int *count,
                               int64_t *period_ns, struct ps_error *error);
/* Up to `most` plans of the special class for a period, none of which another one dominates: their stages (room for `most`
 * times one per layer) and numbers of stages. `complete` is false if the test took too long. */
enum ps_status madpipe_special_some(const struct madpipe *data, int64_t period_ns, int most, struct madpipe_stage *stages,
                                    int *counts, int *found, bool *complete, struct ps_error *error);

/* A valid periodic schedule of given stages: when in the period each computation and transfer starts, and for which
 * micro-batch. */

/* `operations` has room for 4 per stage. `found` is false if there is no schedule. `nodes` is reduced by the steps used; when
 * it reaches 0 the search gives up (found false). */
enum ps_status madpipe_schedule(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                                int *nodes, struct periodic_operation *operations, int *operation_count, bool *found,
                                struct ps_error *error);

/* A plan with a schedule. */
struct madpipe_found {
    struct madpipe_stage *stages;
    int stage_count;
    struct periodic_operation *operations; /* none: 1F1B* */
    int operation_count;
    int64_t period_ns;
};

/* Searches the least period above `low` and below best->period_ns for which the given stages can be scheduled, to 0.001%, and
 * stores a (verified) result in `best`. Uses at most `nodes`, which is reduced. `operations` is scratch. */
enum ps_status madpipe_schedule_least(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t low,
                                      int nodes_per_test, int *nodes, struct periodic_operation *operations,
                                      struct madpipe_found *best, struct ps_error *error);

/* Improves `best` (a plan; without operations: contiguous stages under 1F1B*) by small changes of its stages, until none helps,
 * the period is `bound`, or the scheduler has used `nodes`. `operations` is scratch: room for 4 per layer, and 4 more. */
enum ps_status madpipe_local_search(const struct madpipe *data, int64_t bound, int nodes, struct periodic_operation *operations,
                                    struct madpipe_found *best, struct ps_error *error);

/* Limits of a search; reduced as they are used. */
struct madpipe_effort {
    int64_t bound;      /* no plan has a shorter period */
    int64_t steps;      /* stages placed */
    int nodes;          /* of the scheduler */
    int nodes_per_plan; /* and of these for one plan and period */
};

/* Tries every allocation that may have a schedule of the period, which is below that of `best`. `refuted`: there is none.
 * Otherwise `best` was improved, or the effort did not suffice. `operations` is scratch: room for 4 per layer. */
enum ps_status madpipe_refute(const struct madpipe *data, int64_t period_ns, struct madpipe_effort *effort,
                              struct periodic_operation *operations, struct madpipe_found *best, bool *refuted,
                              struct ps_error *error);

/* Normal stages are on the workers from 1 on in order, the special ones on worker 0; without special stages the first is on
 * 0. */
enum ps_status madpipe_answer(const struct madpipe *data, const struct madpipe_found *best, struct planner_answer *answer,
                              struct ps_error *error);

/* Returns true if the schedule is valid: dependencies, no overlap on any worker or link, and memory at every time, computed
 * from the times alone. */
bool madpipe_schedule_valid(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                            const struct periodic_operation *operations, int operation_count);

/*
 * The groups of MadPipe's 1F1B* (section 4.1): how many micro-batches each stage must hold for a period to be kept.
 *
 * Stages and the transfers between them form a sequence of resources. From the last one backwards, resources join a group as
 * long as their total time is at most the period; then the next group begins. A stage of the g-th group holds g micro-batches.
 */

/* The least period of `stages` stages with computation times stage_s[] and transfer times (both directions together)
 * transfer_s[] (one fewer). */
double groups_period_s(int stages, const double *stage_s, const double *transfer_s);
/* Fills in_flight[stages] for a period of at least groups_period_s. */
void groups_find(int stages, const double *stage_s, const double *transfer_s, double period_s, int *in_flight);

#endif
