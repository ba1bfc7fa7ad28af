/* Taking in the options of training; see options.h. */
#include "train/options.h"

#include <math.h>

#include "base/versioned.h"

void ps_train_options_init(struct ps_train_options *options) {
    *options = (struct ps_train_options){
        .struct_size = sizeof *options,
        .lr = NAN,
        .momentum = NAN,
        .dampening = NAN,
        .weight_decay = NAN,
        .beta1 = NAN,
        .beta2 = NAN,
        .eps = NAN,
        .warmup_steps = -1,
        .clip = NAN,
        .label_smoothing = NAN,
        .checkpoint_minutes = NAN,
    };
}

/* A run that goes on has these settings of its own, until others are said, of which 0 is one. */
static void settle_unsaid(struct ps_train_options *options) {
    if (options->warmup_steps == -1) options->warmup_steps = 0;
    if (isnan(options->clip)) options->clip = 0;
}

enum ps_status train_request_take(const struct ps_train_options *given, struct train_request *own, struct ps_error *error) {
    *own = (struct train_request){.observer = {.struct_size = sizeof own->observer}};
    ps_train_options_init(&own->options);
    TRY(VERSIONED_TAKE(ps_train_options, given, &own->options, error));
    if (own->options.observer) TRY(VERSIONED_TAKE(ps_observer, own->options.observer, &own->observer, error));
    ps_plan_options_init(&own->planning);
    ps_cluster_options_init(&own->machines);
    if (own->options.planning) TRY(VERSIONED_TAKE(ps_plan_options, own->options.planning, &own->planning, error));
    if (own->options.machines) TRY(VERSIONED_TAKE(ps_cluster_options, own->options.machines, &own->machines, error));
    if (own->options.log) TRY(VERSIONED_TAKE(ps_log_sink, own->options.log, &own->log, error));
    if (own->options.log) own->options.log = &own->log;
    own->options.planning = &own->planning;
    own->options.machines = &own->machines;
    own->options.observer = &own->observer;
    if (!own->options.resume) settle_unsaid(&own->options);
    return PS_OK;
}
