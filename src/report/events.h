/* A run's log for TensorBoard, and as CSV. */
#ifndef PENSTOCK_REPORT_EVENTS_H
#define PENSTOCK_REPORT_EVENTS_H

#include <jansson.h>

#include "base/error.h"

struct event_file;

/* Makes events.out.tfevents.SECONDS.penstock in the directory, in a form that TensorBoard reads. `step`: of a run that goes on,
 * how far it was; what files before this one say of later steps does not count any more. PS_IO. */
enum ps_status event_file_open(const char *directory, int64_t step, struct event_file **file, struct ps_error *error);
/* The numbers of a line of the log as scalars of its step, and of each worker the share of training since the last such line in
 * which it was idle. Written at once. */
enum ps_status event_file_add(struct event_file *file, const json_t *line, struct ps_error *error);
/* NULL is fine. */
void event_file_close(struct event_file *file);

#endif
