/* Comparisons: the JSON document that their tables and CSV are made from. */
#ifndef PENSTOCK_REPORT_COMPARISON_H
#define PENSTOCK_REPORT_COMPARISON_H

#include <jansson.h>

#include "base/text.h"

/* The metric of a training: its name in JSON, its name in tables, digits of its values, and the field of its newest value. */
struct metric_look {
    const char *name, *words;
    int digits;
    const char *field;
};
extern const struct metric_look metric_looks[]; /* by enum ps_metric */

/* NULL or incomplete where memory ran out, which json_memory_failed tells. With several seeds `combinations` has one object
 * for each combination, as `rows` has where there is one. */
json_t *comparison_document(const struct ps_comparison *comparison);

/* What is asked for of a row: workers, method, schedule and so on. */
enum { COMPARISON_SETTINGS = 10, COMPARISON_CELL = 96 };

/* The rows of one network, in the order in which they are shown: by machine, then the best first. */
struct section {
    const json_t *document;
    const char *model;
    json_t **rows;    /* of the document's rows, with several seeds of its combinations */
    int *machines;    /* per row: the number of its machine */
    int count, seeds; /* of rows: at least one */
    bool trained;
    bool common[COMPARISON_SETTINGS]; /* that setting is the same in all rows, and stands over them */
};

/* Calls for the rows of each network, or if `precisions` of each of its precisions. */
typedef void section_function(const struct section *section, void *context, struct text *out);
char *comparison_sections(const struct ps_comparison *comparison, bool precisions, section_function *add, void *context);
/* "lenet5: 2 workers, weights sync; 3 seeds: mean +- standard deviation; best first by ..." */
void section_title(const struct section *section, struct text *title);
/* What tells a row from the others: "pipedream 1f1b". */
void section_label(const struct section *section, int row, char out[256]);
/* What the rows are judged by: the field that they are ranked by ("": by none), and their metric. */
const char *section_ranked_field(const struct section *section);
const struct metric_look *section_metric(const struct section *section);
/* A figure as tables write it, with its spread: of one of the fields that tables have. */
void section_figure(const json_t *row, const char *field, char out[COMPARISON_CELL]);
/* The mean over the seeds of the field of a row's point, of those `points` it has; NaN: not known. */
double section_point(const struct section *section, int row, int point, const char *field);
int section_points(const struct section *section, int row);

#endif
