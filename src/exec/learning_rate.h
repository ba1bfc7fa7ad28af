/*
 * Learning-rate schedules: the rate of each update, known for all updates of a run beforehand (prediction of weights needs the
 * rates of updates to come).
 */
#ifndef PENSTOCK_EXEC_LEARNING_RATE_H
#define PENSTOCK_EXEC_LEARNING_RATE_H

#include "base/error.h"

enum { LEARNING_RATE_STEPS_MAX = 16 };

struct learning_rate {
    const struct learning_rate_class *class;
    double base;
    int64_t warmup;          /* updates over which the rate rises to its full value */
    int64_t total;           /* updates in the run */
    int64_t steps_per_epoch; /* 0 where there are no epochs */
    bool by_epoch;           /* the rate changes between epochs only; a warm-up still grows step by step */
    /* parameters of the class */
    int64_t at[LEARNING_RATE_STEPS_MAX]; /* step: updates at which the factor is applied, ascending */
    int at_count;
    double factor, power;
};

struct learning_rate_class {
    const char *name, *summary;
    /* Reads the parameters after "NAME:"; `rest` is NULL without any. */
    enum ps_status (*parse)(const char *rest, struct learning_rate *rate, struct ps_error *error);
    /* The factor of the base rate at `update` (from 0); `progress` is the share, below 1, of the updates after the warm-up that
     * are done. */
    double (*factor)(const struct learning_rate *rate, int64_t update, double progress);
};

extern const struct learning_rate_class *const learning_rate_table[]; /* NULL-terminated */

/* `spec` as in "step:40,60:0.1"; NULL is "constant". */
enum ps_status learning_rate_parse(const char *spec, double base, int64_t warmup, int64_t total, int64_t steps_per_epoch,
                                   struct learning_rate *rate, struct ps_error *error);
/* The rate of update `update`, counted from 0 through the whole run. */
double learning_rate_at(const struct learning_rate *rate, int64_t update);

#endif
