/*
 * Lower bounds on differences of times, closed: least(x, y) is the longest path from x to y, so every consequence of the bounds
 * is known at once and a new bound is taken in by one sweep over all pairs. Bounds can be taken back in the order of a stack.
 */
#ifndef PENSTOCK_PLAN_PLANNERS_DIFFERENCES_H
#define PENSTOCK_PLAN_PLANNERS_DIFFERENCES_H

#include <stddef.h>

#include "base/error.h"

/* Nothing is known of the difference. */
#define DIFFERENCES_NONE (INT64_MIN / 4)

struct differences {
    int count;      /* of times */
    int64_t *least; /* [from][to]: time[to] - time[from] is at least so much */
    struct difference_change {
        int32_t place;
        int64_t old;
    } * trail; /* what was overwritten, to be put back */
    size_t trail_count, trail_capacity;
    int *longer; /* scratch: one per time */
    bool failed; /* there was no memory for the trail: what is known is incomplete */
};

enum ps_status differences_open(int count, struct differences *differences, struct ps_error *error);
void differences_close(struct differences *differences);

static inline int64_t differences_least(const struct differences *d, int from, int to) {
    return d->least[(size_t)from * (size_t)d->count + (size_t)to];
}
/* time[to] - time[from] >= least; false where that cannot be. */
bool differences_add(struct differences *differences, int from, int to, int64_t least);
/* Takes back all that was added since trail_count was `mark`. */
void differences_undo(struct differences *differences, size_t mark);

#endif
