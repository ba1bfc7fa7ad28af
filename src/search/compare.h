/* A comparison: each combination of the options, and its result. */
#ifndef PENSTOCK_SEARCH_COMPARE_H
#define PENSTOCK_SEARCH_COMPARE_H

#include <jansson.h>

#include "base/error.h"
#include "base/spec.h"

struct comparison_row {
    char method[32], schedule[32], weights[32], chosen[32]; /* chosen: "" if there is no plan */
    char wire[64];                                          /* "": not asked for */
    char memory[32], bandwidth[32];                         /* as given; "": nobody said how */
    char precision[8];
    char reason[1024];
    char *directory;              /* where it is kept; owned; NULL: it is not */
    struct ps_comparison_row row; /* its strings are those above, and its network's name */
    struct ps_run *run;           /* owned; NULL: not trained */
};

/* A network that is compared: its number among them, and its name without a precision. */
struct comparison_network {
    char model[SPEC_SIZE], precision[8];
    int number; /* networks that differ in precision alone are one */
};

struct ps_comparison {
    char largest[64]; /* the model's option whose largest value is searched; "": plans of networks are compared */
    struct comparison_network *networks; /* as they were given */
    int network_count;
    struct comparison_row *rows;
    int row_count, seeds;
    const char *ranked_by;
    char *directory;
};

/* What is asked for, of this library's size. */
struct compare_request {
    struct ps_compare_options options; /* planning, machines and observer (or NULL) point to what follows */
    struct ps_plan_options planning;
    struct ps_cluster_options machines;
    struct ps_observer observer;
};
/* `own` must stay where it is. PS_USAGE: a size is wrong. */
enum ps_status compare_request_take(const struct ps_compare_options *given, struct compare_request *own,
                                    struct ps_error *error);

/* How one kind of comparison makes its rows. */
struct comparison_kind {
    const char *name; /* in the file that says what is compared */
    const void *context;
    int network_count;
    const char *(*model)(const void *context, int network); /* its name, with its precision */
    /* What of the network and its work decides the rows, for that file; NULL: memory ran out. */
    json_t *(*question)(const void *context, int network);
    /* Fills in the result of one combination; `row` has its options, and the directory that it may write into. */
    enum ps_status (*fill)(const void *context, int network, const struct ps_plan_options *options,
                           const struct ps_cluster_options *machines, struct comparison_row *row, struct ps_error *error);
    /* Takes what an earlier call has left in the row's directory. *done false: the row is to be filled. NULL: that is a
     * row.json, which is written and read here. */
    enum ps_status (*take)(const void *context, int network, struct comparison_row *row, bool *done, struct ps_error *error);
    /* After the directory was opened and before the first row; may be NULL. */
    enum ps_status (*prepare)(const void *context, const struct ps_compare_options *lists, struct ps_error *error);
};

/* All combinations of the lists, one row each; not ranked yet. */
enum ps_status comparison_create(const struct compare_request *request, const struct comparison_kind *kind,
                                 struct ps_comparison **comparison, struct ps_error *error);
/* The options of combination `number` of one network: of its method, schedule, weights, codec and machine. */
enum ps_status compare_pick(const struct ps_compare_options *lists, int number, struct ps_plan_options *planning,
                            struct ps_cluster_options *machines, struct ps_error *error);
int compare_combinations(const struct ps_compare_options *lists);
/* Ranks the rows by the measure of that name; NULL: `usual`, or where that is the metric and nothing was validated the loss. */
enum ps_status comparison_rank(struct ps_comparison *comparison, const char *by, const char *usual, struct ps_error *error);
/* PS_USAGE: there is no such measure for rows of that kind. NULL is fine. */
enum ps_status compare_check_rank(const char *by, bool trained, struct ps_error *error);
/* "auto" for NULL. */
void comparison_text(char out[32], const char *text);
/* The cluster of a combination: based on the given one, if there is one. */
enum ps_status comparison_cluster(const struct ps_cluster *given, const struct ps_cluster_options *machines,
                                  struct ps_cluster **cluster, struct ps_error *error);
/* The figures of a plan. */
enum ps_status comparison_fill(const struct ps_plan *plan, const struct ps_profile *profile, const struct ps_cluster *cluster,
                               struct comparison_row *out, struct ps_error *error);
/* Why there is no result: PS_OK, and the row has it; but for statuses that end the comparison, which are returned. */
enum ps_status comparison_refuse(enum ps_status status, const struct ps_error *refusal, struct comparison_row *out,
                                 struct ps_error *error);
/* Is `value` better than `than`, which may be NaN? */
bool metric_better(enum ps_metric metric, double value, double than);

#endif
