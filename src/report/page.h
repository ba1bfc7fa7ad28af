/* The page of a report, and what else reads a run's log. */
#ifndef PENSTOCK_REPORT_PAGE_H
#define PENSTOCK_REPORT_PAGE_H

#include <jansson.h>

#include "base/error.h"

/* page.html with page.css and page.js in it, before and after its data (cmake/Page.cmake). */
extern const unsigned char page_head[], page_tail[];
extern const size_t page_head_size, page_tail_size;

/* The lines of RUN_DIR/log.jsonl, as an array; empty where there is no log. What has no end of line yet is left out.
 * PS_BAD_INPUT names the line that is damaged. */
enum ps_status report_log_read(const char *run, json_t **lines, struct ps_error *error);

#endif
