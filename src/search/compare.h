/* A comparison: what was asked for and what came of each combination. */
#ifndef PENSTOCK_SEARCH_COMPARE_H
#define PENSTOCK_SEARCH_COMPARE_H

#include "base/error.h"

struct comparison_row {
    char method[32], schedule[32], weights[32], chosen[32]; /* chosen: "" where there is no plan */
    char reason[1024];
    struct ps_comparison_row row; /* its strings are the ones above */
    struct ps_run_point *points;  /* owned */
};

struct ps_comparison {
    char model[128];
    struct comparison_row *rows;
    int row_count;
};

/* Fills in what came of one combination; `row` says what was asked for. */
typedef enum ps_status comparison_function(const void *context, const struct ps_plan_options *options,
                                           const struct ps_cluster_options *machines, struct comparison_row *row,
                                           struct ps_error *error);
/* All combinations of the lists, one row each. */
enum ps_status comparison_create(const struct ps_compare_options *options, const char *model, comparison_function *fill,
                                 const void *context, struct ps_comparison **comparison, struct ps_error *error);
/* "auto" for NULL. */
void comparison_text(char out[32], const char *text);

#endif
