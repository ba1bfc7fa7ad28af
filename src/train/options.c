/* Taking in the options of training; see options.h. */
#include "train/options.h"

#include <math.h>
#include <string.h>

#include "base/versioned.h"

enum setting_kind {
    SETTING_NUMBER,  /* not said: NaN */
    SETTING_INTEGER, /* not said: -1 */
    SETTING_TEXT,    /* not said: NULL */
    SETTING_LIST,    /* likewise; "none": none */
};

/* What a run that goes on has of its own, until something else is said. */
static const struct setting {
    const char *name;
    enum setting_kind kind;
    size_t offset;
} settings[] = {
#define SETTING(member, kind)                                                                                                  \
    { #member, kind, offsetof(struct ps_train_options, member) }
    SETTING(evaluate_every, SETTING_INTEGER),
    SETTING(lr, SETTING_NUMBER),
    SETTING(momentum, SETTING_NUMBER),
    SETTING(dampening, SETTING_NUMBER),
    SETTING(weight_decay, SETTING_NUMBER),
    SETTING(beta1, SETTING_NUMBER),
    SETTING(beta2, SETTING_NUMBER),
    SETTING(eps, SETTING_NUMBER),
    SETTING(lr_schedule, SETTING_TEXT),
    SETTING(warmup_steps, SETTING_INTEGER),
    SETTING(lr_per_epoch, SETTING_INTEGER),
    SETTING(clip, SETTING_NUMBER),
    SETTING(label_smoothing, SETTING_NUMBER),
    SETTING(decay_exclude, SETTING_LIST),
    SETTING(groups, SETTING_LIST),
    SETTING(emulate, SETTING_INTEGER),
    SETTING(checkpoint_every, SETTING_INTEGER),
    SETTING(checkpoint_minutes, SETTING_NUMBER),
    SETTING(keep_best, SETTING_INTEGER),
    SETTING(best_by, SETTING_TEXT),
    SETTING(patience, SETTING_INTEGER),
#undef SETTING
};
enum { SETTINGS = sizeof settings / sizeof *settings, UNSAID = -1 };

static void *at(struct ps_train_options *options, const struct setting *setting) { return (char *)options + setting->offset; }

void ps_train_options_init(struct ps_train_options *options) {
    *options = (struct ps_train_options){
        .struct_size = sizeof *options,
    };
    for (int s = 0; s < SETTINGS; s++) {
        if (settings[s].kind == SETTING_NUMBER) *(double *)at(options, &settings[s]) = NAN;
        if (settings[s].kind == SETTING_INTEGER) *(int *)at(options, &settings[s]) = UNSAID;
    }
}

void train_options_merge(const struct ps_train_options *said, struct ps_train_options *options) {
    struct ps_train_options from = *said;
    for (int s = 0; s < SETTINGS; s++) {
        void *value = at(&from, &settings[s]), *to = at(options, &settings[s]);
        switch (settings[s].kind) {
        case SETTING_NUMBER:
            if (!isnan(*(double *)value)) *(double *)to = *(double *)value;
            break;
        case SETTING_INTEGER:
            if (*(int *)value != UNSAID) *(int *)to = *(int *)value;
            break;
        case SETTING_TEXT:
        case SETTING_LIST:
            if (*(const char **)value) *(const char **)to = *(const char **)value;
            break;
        }
    }
}

void train_options_settle(struct ps_train_options *options) {
    for (int s = 0; s < SETTINGS; s++) {
        void *value = at(options, &settings[s]);
        if (settings[s].kind == SETTING_INTEGER && *(int *)value == UNSAID) *(int *)value = 0;
        if (settings[s].kind == SETTING_LIST && *(const char **)value && strcmp(*(const char **)value, "none") == 0)
            *(const char **)value = NULL;
    }
    /* That of other numbers depends on optimizer and network. */
    if (isnan(options->clip)) options->clip = 0;
}

static enum ps_status check(struct ps_train_options *options, struct ps_error *error) {
    for (int s = 0; s < SETTINGS; s++) {
        if (settings[s].kind != SETTING_INTEGER) continue;
        const int value = *(int *)at(options, &settings[s]);
        if (value < UNSAID) return error_set(error, PS_USAGE, "`%s`: %d is negative", settings[s].name, value);
    }
    const struct {
        const char *name;
        int value;
    } switches[] = {{"lr_per_epoch", options->lr_per_epoch}, {"emulate", options->emulate}, {"keep_best", options->keep_best}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (switches[i].value > 1)
            return error_set(error, PS_USAGE, "`%s`: %d is neither 0 nor 1", switches[i].name, switches[i].value);
    if (options->out && !options->out[0]) return error_set(error, PS_USAGE, "`out`: it is empty");
    if (options->valid_bleu < 0) return error_set(error, PS_USAGE, "`valid_bleu`: %d is negative", options->valid_bleu);
    const double minutes = options->checkpoint_minutes; /* not said: NaN */
    if (minutes < 0 || minutes > 1e6)
        return error_set(error, PS_USAGE, "`checkpoint_minutes`: %g is not from 0 to 1e6", minutes);
    return PS_OK;
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
    if (!own->options.resume) train_options_settle(&own->options);
    return check(&own->options, error);
}
