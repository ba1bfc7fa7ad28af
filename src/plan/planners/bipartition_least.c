/*
 * The least period that is possible: up from a bound in growing steps until one is, then bisection. A plan that is found has a
 * period of its own, often below the one asked for, and the search ends on such a period exactly. Where a plan is known it is
 * asked first whether there is any better one.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/planners/bipartition.h"

/* Shorter by more than what a load gains when a period is multiplied by a speed and rounded: a plan of the period itself is
 * none of this. */
static double below(double period_ns) { return period_ns * (1 - 1e-14); }

enum ps_status bipartition_least(const struct bipartition_test *test, double low_ns, double high_ns, double top_ns, int *i,
                                 int *j, double *period_ns, struct ps_error *error) {
    double low = low_ns, high = high_ns, found, step = 0;
    bool rising = true;
    if (isfinite(high)) { /* Is anything better at all? */
        TRY(test->find(test->context, below(high), i, j, &found, error));
        rising = found < high; /* by more than rounding */
        if (rising)
            high = found;
        else
            low = high;
    }
    while (isinf(high) || high - low > 1e-13 * high) {
        /* At the end it is asked whether anything is better at all: periods are sums of whole nanoseconds, or transfers. */
        double middle = high - low > 1 ? low + (high - low) / 2 : below(high);
        double higher = low_ns + fmax(low_ns, 1) * step;
        rising = rising && higher < middle;
        TRY(test->find(test->context, rising ? higher : middle, i, j, &found, error));
        if (isinf(found)) {
            low = rising ? higher : middle;
            step = fmax(4 * step, 0x1p-16);
            if (isinf(high) && low > top_ns) return PS_NO_PLAN;
        } else if (found < high) {
            high = found;
            rising = false;
        } else {
            break; /* by rounding alone */
        }
    }
    *period_ns = high;
    return PS_OK;
}

struct contiguous {
    const struct bipartition *data;
    int *cuts; /* tried */
};

/* Each worker takes as many layers as it can, up to a cut whose transfers keep the period. */
static enum ps_status find_contiguous(void *context, double period_ns, int *i, int *j, double *found_ns,
                                      struct ps_error *error) {
    (void)error;
    const struct contiguous *contiguous = context;
    const struct bipartition *data = contiguous->data;
    int *cuts = contiguous->cuts, workers = data->workers;
    *found_ns = INFINITY;
    cuts[0] = 0;
    for (int k = 0; k < workers; k++) {
        const struct bipartition_sums *sums = data->worker[k];
        int64_t most = sums->forward_ns[cuts[k]] + sums->backward_ns[cuts[k]] + bipartition_room_ns(data, k, period_ns);
        cuts[k + 1] = -1;
        for (int end = cuts[k]; end <= data->layers && sums->forward_ns[end] + sums->backward_ns[end] <= most; end++)
            if (k == workers - 1 || bipartition_boundary_ns(data, k, end, end) <= period_ns) cuts[k + 1] = end;
        if (cuts[k + 1] < 0) return PS_OK;
    }
    if (cuts[workers] < data->layers) return PS_OK;
    memcpy(i, cuts, ((size_t)workers + 1) * sizeof *i);
    memcpy(j, cuts, ((size_t)workers + 1) * sizeof *j);
    *found_ns = bipartition_period_ns(data, i, j);
    return PS_OK;
}

enum ps_status bipartition_contiguous_least(const struct bipartition *data, double low_ns, int *i, int *j, double *period_ns,
                                            struct ps_error *error) {
    size_t size = ((size_t)data->workers + 1) * sizeof(int);
    struct contiguous contiguous = {data, malloc(size)};
    struct bipartition_test test = {find_contiguous, &contiguous};
    if (!contiguous.cuts) return error_memory(error, "a plan", size);
    enum ps_status status = bipartition_least(&test, low_ns, INFINITY, INFINITY, i, j, period_ns, error);
    free(contiguous.cuts);
    return status;
}
