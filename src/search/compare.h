/* A comparison: each combination of the options, and its result. */
#ifndef PENSTOCK_SEARCH_COMPARE_H
#define PENSTOCK_SEARCH_COMPARE_H

#include "base/error.h"
#include "base/spec.h"

struct comparison_row {
    char method[32], schedule[32], weights[32], chosen[32]; /* chosen: "" if there is no plan */
    char wire[64];                                          /* "": not asked for */
    char reason[1024];
    struct ps_comparison_row row; /* its strings are those above */
    struct ps_run *run;           /* owned; NULL: not trained */
};

struct ps_comparison {
    char model[SPEC_SIZE];
    char largest[64]; /* the model's option whose largest value is searched; "": plans of one network are compared */
    struct comparison_row *rows;
    int row_count;
};

/* Fills in the result of one combination; `row` has its options. */
typedef enum ps_status comparison_function(const void *context, const struct ps_plan_options *options,
                                           const struct ps_cluster_options *machines, struct comparison_row *row,
                                           struct ps_error *error);
/* What is asked for, of this library's size. */
struct compare_request {
    struct ps_compare_options options; /* planning and machines point to what follows */
    struct ps_plan_options planning;
    struct ps_cluster_options machines;
};
/* `own` must stay where it is. PS_USAGE: a size is wrong. */
enum ps_status compare_request_take(const struct ps_compare_options *given, struct compare_request *own,
                                    struct ps_error *error);
/* All combinations of the lists, one row each. */
enum ps_status comparison_create(const struct compare_request *request, const char *model, comparison_function *fill,
                                 const void *context, struct ps_comparison **comparison, struct ps_error *error);
/* "auto" for NULL. */
void comparison_text(char out[32], const char *text);
/* The cluster of a combination: based on the given one, if there is one. */
enum ps_status comparison_cluster(const struct ps_cluster *given, const struct ps_cluster_options *machines,
                                  struct ps_cluster **cluster, struct ps_error *error);
/* The figures of a plan. */
enum ps_status comparison_fill(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                               struct comparison_row *out, struct ps_error *error);

#endif
