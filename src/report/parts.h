/* Parts that a simulation's table and JSON are put together from. */
#ifndef PENSTOCK_REPORT_PARTS_H
#define PENSTOCK_REPORT_PARTS_H

#include "base/json.h"
#include "base/text.h"
#include "report/report.h"
#include "simulate/simulate.h"

/* Adds an empty line and the rows (text_table's cells) as a table; frees them. */
void report_add_table(struct text *text, struct text *rows);

/* comparison.c: "no limit" for 0 */
const char *comparison_limit(int64_t bytes, char out[32]);
/* "445.6 M" */
char *comparison_parameters(int64_t parameters, char out[32]);
const char *comparison_rate(double bytes_per_s, char out[32]);

/* chrome.c: of a transfer in a timeline */
const char *report_traffic_name(int traffic);

/* explain.c */
void report_explain_table(const struct ps_simulation *simulation, struct text *text);
void report_explain_json(const struct ps_simulation *simulation, json_t *root);
/* against.c */
void report_against_json(const struct against *against, json_t *root);
void report_against_table(const struct against *against, struct text *text);

#endif
