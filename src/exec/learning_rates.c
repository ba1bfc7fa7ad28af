/*
 * The learning-rate schedules. Each is a factor on the base rate. During the warm-up, update u of w (from 0) is further scaled
 * by (u + 1) / w. Schedules that fall with the run's progress (poly, cosine) start to fall after the warm-up and would reach 0
 * right after the last update.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/table.h"
#include "exec/learning_rate.h"

#define WHAT "`lr_schedule`"

static enum ps_status takes_nothing(const char *rest, struct learning_rate *rate, struct ps_error *error) {
    if (!rest) return PS_OK;
    return error_set(error, PS_USAGE, WHAT ": '%s' takes no parameters, but ':%s' follows", rate->class->name, rest);
}

static double constant_factor(const struct learning_rate *rate, int64_t update, double progress) {
    (void)rate, (void)update, (void)progress;
    return 1;
}

static double cosine_factor(const struct learning_rate *rate, int64_t update, double progress) {
    (void)rate, (void)update;
    return 0.5 * (1 + cos(3.14159265358979323846 * progress));
}

static double poly_factor(const struct learning_rate *rate, int64_t update, double progress) {
    (void)update;
    return pow(1 - progress, rate->power);
}

/* A number that ends at `stop` (or the string's end), above `low`. */
static bool parse_number(const char **text, char stop, double low, double *out) {
    char *end;
    double value = number_read(*text, &end);
    if (end == *text || (*end != stop && *end != '\0') || !isfinite(value) || value <= low) return false;
    *text = *end ? end + 1 : end;
    *out = value;
    return true;
}

static enum ps_status poly_parse(const char *rest, struct learning_rate *rate, struct ps_error *error) {
    if (rest && parse_number(&rest, '\0', 0, &rate->power)) return PS_OK;
    return error_set(error, PS_USAGE, WHAT ": '%s' after 'poly:' is not a power above 0, as in 'poly:1'", rest ? rest : "");
}

/* Epochs as a number, or steps as a number with an "s", up to `end`; gives the update at which they end. */
static bool parse_time(const char **text, const char *end, const struct learning_rate *rate, int64_t *update) {
    char *rest;
    double value = number_read(*text, &rest);
    bool steps = rest != *text && *rest == 's';
    if (rest == *text || !isfinite(value) || value <= 0 || value > 1e9) return false;
    rest += steps;
    if (rest > end || (*rest != ',' && rest != end)) return false;
    *text = rest < end ? rest + 1 : rest;
    *update = (int64_t)llround(steps ? value : value * (double)rate->steps_per_epoch);
    return steps || rate->steps_per_epoch > 0;
}

static enum ps_status step_parse(const char *rest, struct learning_rate *rate, struct ps_error *error) {
    const char *given = rest, *colon = rest ? strchr(rest, ':') : NULL;
    const char *factor = colon ? colon + 1 : NULL;
    bool good = colon && parse_number(&factor, '\0', 0, &rate->factor) && rest < colon;
    bool epochs = good && memchr(rest, 's', (size_t)(colon - rest)) == NULL;
    if (epochs && rate->steps_per_epoch == 0)
        return error_set(error, PS_USAGE, WHAT ": 'step' counts epochs, and this run has none; steps are written as 4000s");
    int64_t before = 0;
    while (good && rest < colon) {
        if (rate->at_count == LEARNING_RATE_STEPS_MAX)
            return error_set(error, PS_USAGE, WHAT ": 'step' takes at most %d epochs", LEARNING_RATE_STEPS_MAX);
        int64_t *at = &rate->at[rate->at_count++];
        good = parse_time(&rest, colon, rate, at) && *at >= before && rest[-1] != ':';
        if (good && rest == colon && rest[-1] == ',') good = false;
        before = *at + 1;
    }
    if (good) return PS_OK;
    return error_set(error, PS_USAGE,
                     WHAT
                     ": 'step:%s' is not ascending epochs (or steps, as 4000s) and a factor above 0, as in 'step:40,60:0.1'",
                     given ? given : "");
}

static double step_factor(const struct learning_rate *rate, int64_t update, double progress) {
    (void)progress;
    double factor = 1;
    for (int i = 0; i < rate->at_count && update >= rate->at[i]; i++) factor *= rate->factor;
    return factor;
}

static const struct learning_rate_class constant = {
    .name = "constant",
    .summary = "the same rate throughout",
    .parse = takes_nothing,
    .factor = constant_factor,
};

static const struct learning_rate_class step = {
    .name = "step",
    .summary = "step:AT[,AT...]:FACTOR multiplies the rate by FACTOR when epoch (4000s: step) AT is over",
    .parse = step_parse,
    .factor = step_factor,
};

static const struct learning_rate_class poly = {
    .name = "poly",
    .summary = "poly:POWER falls to 0 as (1 - progress)^POWER",
    .parse = poly_parse,
    .factor = poly_factor,
};

static const struct learning_rate_class cosine = {
    .name = "cosine",
    .summary = "falls to 0 along half a cosine",
    .parse = takes_nothing,
    .factor = cosine_factor,
};

const struct learning_rate_class *const learning_rate_table[] = {&constant, &step, &poly, &cosine, NULL};

static TABLE_FIND(find_class, learning_rate_class, learning_rate_table, WHAT)

    enum ps_status learning_rate_parse(const char *spec, double base, int64_t warmup, int64_t total, int64_t steps_per_epoch,
                                       struct learning_rate *out, struct ps_error *error) {
    if (!spec) spec = "constant";
    const char *colon = strchr(spec, ':');
    struct learning_rate rate = {.base = base, .warmup = warmup, .total = total, .steps_per_epoch = steps_per_epoch};
    char name[64];
    snprintf(name, sizeof name, "%.*s", colon ? (int)(colon - spec) : (int)strlen(spec), spec);
    TRY(find_class(name, &rate.class, error));
    TRY(rate.class->parse(colon ? colon + 1 : NULL, &rate, error));
    *out = rate;
    return PS_OK;
}

double learning_rate_at(const struct learning_rate *rate, int64_t update) {
    int64_t from = rate->by_epoch ? update - update % rate->steps_per_epoch : update;
    int64_t falling = rate->total - rate->warmup, done = from - rate->warmup;
    double progress = done > 0 && falling > 0 ? (double)done / (double)falling : 0;
    double value = rate->base * rate->class->factor(rate, from, progress < 1 ? progress : 1);
    return update < rate->warmup ? value * (double)(update + 1) / (double)rate->warmup : value;
}
