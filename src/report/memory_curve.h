/*
 * How much of its memory each worker uses over time: what it holds all the while, and the stash and the input of each
 * micro-batch from the first computation that touches them to the last. A stage that recomputes holds the stash only during
 * its forward and again from the recomputation on.
 */
#ifndef PENSTOCK_REPORT_MEMORY_CURVE_H
#define PENSTOCK_REPORT_MEMORY_CURVE_H

#include "report/report.h"
#include "simulate/simulate.h"

/* So many bytes from then on. */
struct memory_point {
    double time_s;
    int64_t bytes;
};

struct memory_curve {
    struct memory_point *points; /* in order of time, the first at 0 */
    int count;
    int64_t peak;
};

/* One curve per worker; *curves NULL when memory ran out. Free with memory_curves_free. */
struct memory_curve *memory_curves_make(const struct ps_simulation *simulation);
void memory_curves_free(struct memory_curve *curves, int workers);

#endif
