/*
 * The least period that is possible: up from a bound in growing steps until one is, then bisection. A plan that is found has a
 * period of its own, often below the one asked for, and the search ends on such a period exactly.
 */
#include <math.h>

#include "plan/planners/bipartition.h"

enum ps_status bipartition_least(const struct bipartition_test *test, double low_ns, double top_ns, int *i, int *j,
                                 double *period_ns, struct ps_error *error) {
    double low = low_ns, high, found = INFINITY;
    for (double step = 0, next = 0x1p-16; isinf(found); step = next, next *= 4) {
        if (low > top_ns) return PS_NO_PLAN;
        double period = low_ns + fmax(low_ns, 1) * step;
        TRY(test->find(test->context, period, i, j, &found, error));
        if (isinf(found)) low = period;
    }
    for (high = found; high - low > 1e-13 * high;) {
        /* At the end it is asked whether anything is better at all: periods are sums of whole nanoseconds, or transfers. */
        double middle = high - low > 1 ? low + (high - low) / 2 : nextafter(high, 0);
        TRY(test->find(test->context, middle, i, j, &found, error));
        if (isinf(found))
            low = middle;
        else if (found < high)
            high = found;
        else
            break; /* by rounding alone */
    }
    *period_ns = high;
    return PS_OK;
}
