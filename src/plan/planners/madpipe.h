/*
 * MadPipe's problem (Beaumont, Eyraud-Dubois, Shilova, "MadPipe: memory aware dynamic programming algorithm for pipelined model
 * parallelism"): stages in a row, of which one special worker may hold several, and periodic schedules in which a stage keeps g
 * activations. Workers and links are alike.
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
    struct arena arena; /* of its tables, and of what is as long needed */
    int layers, workers;
    int64_t *time_ns;     /* of the first i layers, forward and backward */
    int64_t *forward_ns;  /* of the first i layers */
    int64_t *transfer_ns; /* across the cut after i layers, both ways; 0 at both ends */
    int64_t limit_bytes;  /* of a worker; INT64_MAX: none */
    bool one_link;        /* both directions of a link take turns; else each has its own */
    bool fixed; /* a stage has as many blocks for activations as it ever holds, for good, as programs do; else only what the
                   special worker holds at a moment counts */
    int safety_factor; /* 0 to SAFETY_FACTOR_MAX, what share of its stages the special worker is taken to hold g activations of
                    at once, not g - 1; 0 (and one stage): a bound; more: plans that are easier to schedule */
    int64_t budget;    /* comparisons of labels that one test of the special class may take */
    int64_t tolerance_ns;             /* how far from the least period a search may end */
    const bool *cuts;                 /* [layers + 1]: where stages of the special class may begin; NULL: anywhere */
    int64_t *base_bytes, *copy_bytes; /* [first][last]: memory of a stage is base + g copy; NULL where it does not count */
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
/* How long a link is busy with both sides of the cut after `cut` layers. */
static inline int64_t madpipe_link_ns(const struct madpipe *data, int cut) {
    return data->one_link ? data->transfer_ns[cut] : data->transfer_ns[cut] - data->transfer_ns[cut] / 2;
}
/* The delay in front of that cut: directions with links of their own need not make room for each other. */
static inline int64_t madpipe_cross(const struct madpipe *data, int64_t delay, int cut, int64_t period_ns) {
    if (!data->one_link) return delay + data->transfer_ns[cut];
    return madpipe_lengthen(delay, data->transfer_ns[cut], period_ns);
}
/* Adds what the special worker must have room for when it has a stage that a batch stays in for `stay` (madpipe_bounds.c):
 * memory + largest <= limit, and average <= limit. */
void madpipe_special_memory(const struct madpipe *data, int first, int end, int64_t stay, int64_t period, int64_t *memory,
                            int64_t *largest, int64_t *average);

/* What the layers not yet placed take of the special worker at least, for one period (madpipe_bounds.c). */
enum { MADPIPE_COMPLETION_SUMS = 4 };
struct madpipe_completion_cell {
    float least[MADPIPE_COMPLETION_SUMS];
};
struct madpipe_completion {
    const struct madpipe *data;
    int64_t period, width;
    struct madpipe_completion_cell *cells;
};
/* Takes its room from the arena; when that was checked, it is to be filled. */
void madpipe_completion_open(const struct madpipe *data, int64_t period_ns, struct madpipe_completion *rest,
                             struct arena *arena);
void madpipe_completion_fill(struct madpipe_completion *rest);
/* Can the first `first` layers still be placed, for all this bound knows: on so many normal workers and the special one, with a
 * stage behind that is special or not, a delay there, and what the special worker has already (bytes: on average, or fixed)? */
bool madpipe_completion_fits(const struct madpipe_completion *rest, int first, int workers, bool special, int64_t delay,
                             int64_t load, int64_t held);

/* Memory of the stage first..end-1 that keeps `copies` activations, and of one activation. */
int64_t madpipe_memory(const struct madpipe *data, int first, int end, int64_t copies);
int64_t madpipe_copy_bytes(const struct madpipe *data, int first, int end);

/* The stages of the best plan, into `stages` (room for one per layer): the least period for which a plan exists.
 * Contiguous: one stage per worker, scheduled by 1F1B*: the period is that of a valid schedule.
 * Special: a bound that no plan of MadPipe's class can beat (the memory of the special worker is a lower bound), below `known`,
 * a period for which there is a plan, or `known` itself (0: none is known). Where a test takes too long it counts as passed,
 * which keeps the bound a bound; there are then no stages (count 0).
 * PS_NO_PLAN where nothing fits. */
enum ps_status madpipe_contiguous(const struct madpipe *data, struct madpipe_stage *stages, int *count, int64_t *period_ns,
                                  struct ps_error *error);
enum ps_status madpipe_special(const struct madpipe *data, int64_t known, struct madpipe_stage *stages, int *count,
                               int64_t *period_ns, struct ps_error *error);
/* Up to `most` plans of the special class for a period, of those that no other beats in everything: their stages (room for
 * `most` times one per layer) and numbers of stages. `complete` is false where the test took too long. */
enum ps_status madpipe_special_some(const struct madpipe *data, int64_t period_ns, int most, struct madpipe_stage *stages,
                                    int *counts, int *found, bool *complete, struct ps_error *error);

/*
 * A valid periodic schedule of given stages: when in the period each computation and transfer starts, and for which
 * micro-batch.
 */

/* Room for 4 operations per stage in `operations`. `found` is false where there is none, `nodes` falls by the steps taken, and
 * when it reaches 0 the search gives up (found false). */
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
 * puts what it finds (verified) into `best`. Takes no more than `nodes`, which falls. `operations` is scratch. */
enum ps_status madpipe_schedule_least(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t low,
                                      int nodes_per_test, int *nodes, struct periodic_operation *operations,
                                      struct madpipe_found *best, struct ps_error *error);

/* Improves `best` (a plan; without operations: contiguous stages under 1F1B*) by small changes of its stages, until none helps,
 * the period is `bound`, or the scheduler has taken `nodes`. `operations` is scratch: room for 4 per layer, and 4 more. */
enum ps_status madpipe_local_search(const struct madpipe *data, int64_t bound, int nodes, struct periodic_operation *operations,
                                    struct madpipe_found *best, struct ps_error *error);

/* How much may be tried; falls as it is. */
struct madpipe_effort {
    int64_t bound;      /* no plan has a shorter period */
    int64_t steps;      /* stages placed */
    int nodes;          /* of the scheduler */
    int nodes_per_plan; /* and of these for one plan and period */
};

/* Tries every allocation that may have a schedule of the period, which is below that of `best`. `refuted`: there is none.
 * Otherwise `best` has become better, or the effort did not suffice. `operations` is scratch: room for 4 per layer. */
enum ps_status madpipe_refute(const struct madpipe *data, int64_t period_ns, struct madpipe_effort *effort,
                              struct periodic_operation *operations, struct madpipe_found *best, bool *refuted,
                              struct ps_error *error);

/* Normal stages get the workers from 1 on in order, the special ones worker 0; without special stages the first is 0. */
enum ps_status madpipe_answer(const struct madpipe *data, const struct madpipe_found *best, struct planner_answer *answer,
                              struct ps_error *error);

/* Is it valid? Dependencies, no overlap on any worker or link, and memory at every moment; counted from the times alone. */
bool madpipe_schedule_valid(const struct madpipe *data, const struct madpipe_stage *stages, int count, int64_t period_ns,
                            const struct periodic_operation *operations, int operation_count);

/*
 * The groups of MadPipe's 1F1B* (section 4.1): how many micro-batches each stage must hold for a period to be kept.
 *
 * Stages and the transfers between them are resources in a row. From the last one backwards, resources join a group as long as
 * their time in all is at most the period; then the next group begins. A stage of the g-th group holds g micro-batches.
 */

/* The least period of stages that compute for stage_s[] (stages of them), with transfers, both ways together, of transfer_s[]
 * (one fewer). */
double groups_period_s(int stages, const double *stage_s, const double *transfer_s);
/* Fills in_flight[stages] for a period of at least groups_period_s. */
void groups_find(int stages, const double *stage_s, const double *transfer_s, double period_s, int *in_flight);

#endif
