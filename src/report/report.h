/* Timelines, predicted or measured, as pictures and traces; simulations as tables. */
#ifndef PENSTOCK_REPORT_REPORT_H
#define PENSTOCK_REPORT_REPORT_H

#include "program/timeline.h"

struct timeline_caption {
    const char *title;
    const char *const *notes; /* per worker, a few words beside its row; NULL: none */
};

/* A picture: one row per worker, a box per computation. Times are from the beginning of the segment. Free with free(); NULL when
 * memory ran out. */
char *report_timeline_svg(const struct timeline *timeline, const struct timeline_caption *caption);
/* Chrome's trace events as JSON (opens in Perfetto): one thread per worker, one per link, arrows along the transfers. Free with
 * free(); NULL when memory ran out. */
char *report_timeline_trace(const struct timeline *timeline, const struct timeline_caption *caption);

#endif
