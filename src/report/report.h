/* Timelines, predicted or measured, as pictures and traces; simulations as tables. */
#ifndef PENSTOCK_REPORT_REPORT_H
#define PENSTOCK_REPORT_REPORT_H

#include <jansson.h>

#include "base/text.h"
#include "simulate/simulate.h"

/*
 * The memory that each worker uses over time: its constant memory, and the stash and the input of each micro-batch from the
 * first computation that touches them to the last. A stage that recomputes holds the stash only during its forward and again
 * from the recomputation on.
 */

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

/* One curve per worker; *curves NULL if memory ran out. Free with memory_curves_free. */
struct memory_curve *memory_curves_make(const struct ps_simulation *simulation);
void memory_curves_free(struct memory_curve *curves, int workers);

struct timeline_caption {
    const char *title;
    const char *const *notes;          /* per worker, a short text next to its row; NULL: none */
    const struct memory_curve *memory; /* per worker, its memory over time; NULL: not shown */
    bool arrows;                       /* along the transfers (pictures only; traces have them always) */
};

/* Processes in a trace; their threads are the workers, and workers x workers links. */
enum { TRACE_WORKERS, TRACE_LINKS };

/* A picture: one row per worker, a box per computation, its memory under it. Times are from the beginning of the segment.
 * Free with free(); NULL when memory ran out. */
char *report_timeline_svg(const struct timeline *timeline, const struct timeline_caption *caption);
/* Chrome's trace events as JSON (opens in Perfetto): one thread per worker, one per link, arrows along the transfers, a
 * counter of each worker's memory. Free with free(); NULL when memory ran out. */
char *report_timeline_trace(const struct timeline *timeline, const struct timeline_caption *caption);

/* Reads the computations of such a trace back (timeline_free). PS_BAD_INPUT names an event that is not valid. */
enum ps_status report_trace_read(const char *path, struct timeline *timeline, struct ps_error *error);

/* What ps_simulation_json writes; NULL or incomplete where memory ran out (base/json.h). */
json_t *simulation_document(const struct ps_simulation *simulation);
/* What ps_simulate_against does, with a timeline; and a trace's computations (timeline_free). */
enum ps_status report_simulate_against(const struct ps_plan *plan, const struct ps_profile *profile,
                                       const struct ps_cluster *cluster, int batches, const struct timeline *measured,
                                       struct ps_simulation **simulation, struct ps_error *error);
enum ps_status report_trace_copy(const struct ps_trace *trace, struct timeline *timeline, struct ps_error *error);

/* chrome.c: of a transfer in a timeline */
const char *report_traffic_name(int traffic);

#endif
