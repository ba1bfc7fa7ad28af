/* The options of training as the library takes them in: of its own size, with everything that may be left out. */
#ifndef PENSTOCK_TRAIN_OPTIONS_H
#define PENSTOCK_TRAIN_OPTIONS_H

#include "base/error.h"

struct train_request {
    struct ps_train_options options; /* planning, machines, observer and log (or NULL) point to what follows */
    struct ps_plan_options planning;
    struct ps_cluster_options machines;
    struct ps_observer observer;
    struct ps_log_sink log;
};

/* `own` must stay where it is; the other objects and strings stay the caller's. Settings that are not said stay so where it
 * goes on with a run. PS_USAGE: a size is wrong, or a number negative. */
enum ps_status train_request_take(const struct ps_train_options *given, struct train_request *own, struct ps_error *error);

/* Takes over the settings that are said. */
void train_options_merge(const struct ps_train_options *said, struct ps_train_options *options);
/* What is not said gets its default, as far as that is one for all. */
void train_options_settle(struct ps_train_options *options);

#endif
