/* Choosing the rule, and running it on a device; see update_rule.h. */
#include "exec/update_rule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/spec.h"
#include "graph/split.h"
#include "program/lower.h"

/* A setting: where it lies, what it is called, which optimizers take it, and its range [low, high) or (low, high). */
struct setting {
    const char *option;
    size_t offset;
    enum { FOR_ALL, FOR_MOMENTUM, FOR_ADAM } taken_by;
    double low, high;
    bool above_low;
};

#define SETTING(option_, field, taken_by_, low_, high_, above)                                                                 \
    {                                                                                                                          \
        .option = option_, .offset = offsetof(struct optimizer_settings, field), .taken_by = taken_by_, .low = low_,           \
        .high = high_, .above_low = above                                                                                      \
    }

static const struct setting settings_table[] = {
    SETTING("`lr`", lr, FOR_ALL, 0, 1e6, true),
    SETTING("`momentum`", momentum, FOR_MOMENTUM, 0, 1, false),
    SETTING("`dampening`", dampening, FOR_MOMENTUM, 0, 1, false),
    SETTING("`weight_decay`", weight_decay, FOR_ALL, 0, 1e6, false),
    SETTING("`beta1`", beta1, FOR_ADAM, 0, 1, false),
    SETTING("`beta2`", beta2, FOR_ADAM, 0, 1, false),
    SETTING("`eps`", eps, FOR_ADAM, 0, 1e6, true),
};

static enum ps_status take_setting(const struct setting *setting, const struct optimizer *optimizer, double wish, double *value,
                                   struct ps_error *error) {
    if (isnan(wish)) return PS_OK;
    bool taken = setting->taken_by == FOR_ALL || (setting->taken_by == FOR_MOMENTUM && optimizer->momentum_settings) ||
                 (setting->taken_by == FOR_ADAM && optimizer->adam_settings);
    if (!taken) return error_set(error, PS_USAGE, "%s: optimizer %s has no such setting", setting->option, optimizer->name);
    bool low_enough = wish < setting->high, high_enough = setting->above_low ? wish > setting->low : wish >= setting->low;
    if (!low_enough || !high_enough)
        return error_set(error, PS_USAGE, "%s: %g is not a number %s %g and below %g", setting->option, wish,
                         setting->above_low ? "above" : "from", setting->low, setting->high);
    *value = wish;
    return PS_OK;
}

static enum ps_status take_settings(const struct update_request *requested, const struct optimizer *optimizer,
                                    struct optimizer_settings *settings, struct ps_error *error) {
    *settings = optimizer->defaults;
    for (size_t i = 0; i < sizeof settings_table / sizeof *settings_table; i++) {
        const struct setting *setting = &settings_table[i];
        double wish, value;
        memcpy(&wish, (const char *)&requested->settings + setting->offset, sizeof wish);
        memcpy(&value, (const char *)settings + setting->offset, sizeof value);
        TRY(take_setting(setting, optimizer, wish, &value, error));
        memcpy((char *)settings + setting->offset, &value, sizeof value);
    }
    return PS_OK;
}

enum ps_status update_rule_choose(const struct update_request *requested, const char *policy_name, bool paper_prediction,
                                  struct update_rule *out, struct ps_error *error) {
    struct update_rule rule = {.paper_prediction = paper_prediction};
    const struct weight_policy *policy;
    TRY(policy_find(policy_name, &policy, error));
    TRY(optimizer_find(requested->optimizer, &rule.requested, error));
    TRY(policy_moments(policy_name, requested->optimizer, &rule.moments, error));
    TRY(take_settings(requested, rule.requested, &rule.settings, error));
    rule.optimizer = rule.requested;
    if (policy->prediction == PREDICT_OWN_RULE && rule.optimizer->moments == 0) {
        /* Plain gradient descent keeps no direction for predictions: sgdm with momentum 0 keeps the last gradient. */
        TRY(optimizer_find("sgdm", &rule.optimizer, error));
        rule.settings.momentum = rule.settings.dampening = 0;
    }
    rule.predictor = rule.optimizer;
    rule.predictor_settings = rule.settings;
    if (policy->prediction == PREDICT_ADAM && !rule.optimizer->adam_settings) {
        TRY(optimizer_find("adam", &rule.predictor, error));
        rule.predictor_settings = rule.predictor->defaults;
        rule.predictor_settings.weight_decay = rule.settings.weight_decay;
        rule.observer = *rule.predictor;
        rule.observer.update = rule.predictor->observe;
    }
    *out = rule;
    return PS_OK;
}

enum ps_status decay_exclusion_parse(const char *text, unsigned *out, struct ps_error *error) {
    static const char *const names[] = {"biases", "norms"};
    unsigned excluded = 0;
    while (text && *text) {
        const size_t length = strcspn(text, ",");
        int which = 0;
        while (which < 2 && (strlen(names[which]) != length || strncmp(names[which], text, length) != 0)) which++;
        if (which == 2) {
            char word[64];
            snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length : 60), text);
            return error_unknown(error, PS_USAGE, "`decay_exclude`", word, names, 2);
        }
        excluded |= 1u << which;
        text += length + (text[length] == ',');
    }
    *out = excluded;
    return PS_OK;
}

/* One "GLOB:lr=0.01,weight-decay=0" of `length` characters. */
static enum ps_status parse_group(const char *text, size_t length, double lr, struct update_group *group,
                                  struct ps_error *error) {
    static const char *const keys[] = {"lr", "weight-decay"};
    struct spec spec;
    char copy[sizeof spec.buffer];
    const size_t glob = strcspn(text, ":");
    const bool whole = glob > 0 && glob + 1 < length && glob < sizeof group->pattern && length < sizeof copy;
    if (whole) snprintf(copy, sizeof copy, "%.*s,%.*s", (int)glob, text, (int)(length - glob - 1), text + glob + 1);
    if (!whole || spec_parse(copy, "`groups`", &spec, NULL) != PS_OK)
        return error_set(error, PS_USAGE, "`groups`: '%.*s' must be GLOB:lr=RATE,weight-decay=L, or one of the two",
                         (int)(length < 80 ? length : 80), text);
    *group = (struct update_group){.weight_decay = NAN};
    snprintf(group->pattern, sizeof group->pattern, "%.*s", (int)glob, text);
    double own = lr;
    enum ps_status status = spec_number(&spec, "lr", 0, 1e6, &own, error);
    if (status == PS_OK) status = spec_number(&spec, "weight-decay", 0, 1e6, &group->weight_decay, error);
    if (status != PS_OK) error_prefix(error, "`groups`");
    TRY(status);
    group->rate = own / lr;
    return spec_finish(&spec, "`groups`", keys, sizeof keys / sizeof *keys, error);
}

enum ps_status update_groups_parse(const char *text, struct update_rule *rule, struct ps_error *error) {
    rule->group_count = 0;
    for (; text != NULL; text++) {
        const size_t length = strcspn(text, ";");
        if (rule->group_count == UPDATE_GROUPS_MAX)
            return error_set(error, PS_USAGE, "`groups`: more than %d groups", UPDATE_GROUPS_MAX);
        TRY(parse_group(text, length, rule->settings.lr, &rule->groups[rule->group_count++], error));
        text += length;
        if (*text == '\0') break;
    }
    return PS_OK;
}

/* NULL: the parameter belongs to none. */
static const struct update_group *group_of(const struct update_rule *rule, const struct parameter *parameter) {
    for (int g = 0; g < rule->group_count; g++)
        if (graph_name_matches(rule->groups[g].pattern, split_whole_name(parameter))) return &rule->groups[g];
    return NULL;
}

enum ps_status update_groups_check(const struct update_rule *rule, const struct graph *graph, struct ps_error *error) {
    bool used[UPDATE_GROUPS_MAX] = {false};
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct update_group *group = group_of(rule, &graph->parameters[p]);
        if (group != NULL && graph->parameters[p].role == PARAMETER_TRAINED) used[group - rule->groups] = true;
    }
    for (int g = 0; g < rule->group_count; g++) {
        const char *pattern = rule->groups[g].pattern;
        bool exists = false;
        for (int p = 0; p < graph->parameter_count; p++)
            exists = exists || (graph->parameters[p].role == PARAMETER_TRAINED &&
                                graph_name_matches(pattern, split_whole_name(&graph->parameters[p])));
        if (!exists) return graph_refuse_pattern(graph, "`groups`", pattern, strlen(pattern), error);
        if (!used[g])
            return error_set(error, PS_USAGE, "`groups`: the trained parameters of '%s' are all in groups before it", pattern);
    }
    return PS_OK;
}

/* Does weight decay leave the stage's parameter alone? */
static bool excluded(const struct update_rule *rule, const struct stage *stage, int parameter) {
    const char *name = strrchr(stage_parameter(stage, parameter)->name, '.');
    const char *kind = stage_parameter_operator(stage, parameter)->name, *norm = strstr(kind, "norm");
    if ((rule->without_decay & WITHOUT_BIASES) && name != NULL && strncmp(name, ".bias", 5) == 0) return true;
    return (rule->without_decay & WITHOUT_NORMS) && norm != NULL && strcmp(norm, "norm") == 0;
}

struct update_span update_rule_span(const struct update_rule *rule, const struct stage *stage, int parameter) {
    const struct update_group *group = group_of(rule, stage_parameter(stage, parameter));
    struct update_span span = {.rate = group != NULL ? group->rate : 1,
                               .weight_decay = excluded(rule, stage, parameter) ? 0 : rule->settings.weight_decay};
    if (group != NULL && !isnan(group->weight_decay)) span.weight_decay = group->weight_decay;
    return span;
}

static bool predictor_beside(const struct update_rule *rule) { return rule->predictor != rule->optimizer; }

const char *update_rule_moment_name(const struct update_rule *rule, int number, char name[64]) {
    int own = rule->optimizer->moments;
    bool beside = number >= own;
    snprintf(name, 64, "%s%s", beside ? "predictor." : "",
             beside ? rule->predictor->moment_names[number - own] : rule->optimizer->moment_names[number]);
    return name;
}

/* How far the next `ahead` updates move the span's weights. The papers' formula uses only the rate of the last update. */
static struct optimizer_ahead look_ahead(const struct update_rule *rule, const struct update_state *state,
                                         const struct update_span *span, int ahead) {
    struct optimizer_ahead sum = {.lr_sum = 0, .decay_product = 1};
    if (rule->paper_prediction) {
        int64_t last = state->step > state->round ? state->step - state->round : 0;
        sum.lr_sum = state->done > 0 ? ahead * span->rate * learning_rate_at(&rule->rate, last) : 0;
        return sum;
    }
    for (int i = 0; i < ahead; i++) {
        double lr = span->rate * learning_rate_at(&rule->rate, state->step + (int64_t)i * state->round);
        sum.lr_sum += lr;
        sum.decay_product *= 1 - lr * span->weight_decay;
    }
    return sum;
}

/* The call for elements `first` to `end`; slots hold bf16 from state->wide on. */
static struct optimizer_call part_of(const struct update_state *state, const struct optimizer_call *whole, size_t first,
                                     size_t end) {
    if (!state->master || first < state->wide) return optimizer_part(whole, first, end - first);
    struct optimizer_call narrow = optimizer_part(whole, state->wide, end - state->wide);
    narrow.type = TYPE_BF16;
    return optimizer_part(&narrow, first - state->wide, end - first);
}

/* Runs the optimizer, or the predictor, on the device, range by range where parameters differ in rate or decay, or slots in
 * type. `ahead`: updates from the state on that a prediction looks ahead. */
static void run_rule(const struct update_rule *rule, const struct update_state *state, struct device *device,
                     const struct optimizer *optimizer, const struct optimizer_settings *settings, int ahead,
                     const struct optimizer_call *whole, bool predict_only, double seconds) {
    const struct update_span all = {.count = state->count, .rate = 1, .weight_decay = settings->weight_decay};
    const struct update_span *spans = state->span_count > 0 ? state->spans : &all;
    struct optimizer_settings own = *settings;
    for (int i = 0; i < (state->span_count > 0 ? state->span_count : 1); i++) {
        const size_t begin = spans[i].begin, end = begin + spans[i].count;
        for (size_t first = begin, next; first < end || first == begin; first = next) {
            next = state->master && first < state->wide && state->wide < end ? state->wide : end;
            struct optimizer_call call = part_of(state, whole, first, next);
            call.lr = whole->lr * spans[i].rate;
            own.weight_decay = spans[i].weight_decay;
            if (call.predicted) call.ahead = look_ahead(rule, state, &spans[i], ahead);
            device->type->update(device, optimizer, &own, &call, predict_only, first == 0 ? seconds : 0);
            if (next == first) break;
        }
    }
}

/* The gradients of parameters that only this stage has, several times: those of all uses in their order. The others were added
 * in the sum over the stages. */
static void add_up_tied(struct device *device, const struct update_state *state, float *gradient) {
    for (const struct stage_tie *tie = state->ties; device->type->real && tie < state->ties + state->tie_count; tie++)
        for (int u = 1; u < tie->uses && !tie->outside; u++)
            device_add(device, TYPE_F32, (size_t)tie->count, gradient + tie->gradients[0], gradient + tie->gradients[u]);
}

/* Clips to the stage's share of the norm. Shared parameters have shares of their own, so that their copies on several stages
 * are scaled alike. */
static void clip(const struct update_rule *rule, struct device *device, const struct update_state *state, float *gradient) {
    if (rule->clip == 0 || !device->type->real) return;
    struct stretch one, *rest = state->tie_count > 0 ? state->rest : &one;
    float *at = gradient;
    for (int t = 0; t < state->tie_count; t++) {
        float *begins = gradient + state->ties[t].gradients[0];
        rest[t] = (struct stretch){at, (size_t)(begins - at)};
        at = begins + state->ties[t].count;
    }
    rest[state->tie_count] = (struct stretch){at, state->count - (size_t)(at - gradient)};
    device_clip(device, rest, state->tie_count + 1, rule->clip * sqrt(state->share > 0 ? state->share : 1));
    for (int t = 0; t < state->tie_count; t++) {
        const struct stretch tied = {gradient + state->ties[t].gradients[0], (size_t)state->ties[t].count};
        device_clip(device, &tied, 1, rule->clip * sqrt(state->tied_shares[t]));
    }
}

/* The predictor's state blocks. */
static void predictor_moments(const struct update_rule *rule, const struct update_state *state, struct optimizer_call *call) {
    int first = predictor_beside(rule) ? rule->optimizer->moments : 0;
    for (int i = 0; i < OPTIMIZER_MOMENTS_MAX; i++)
        call->moment[i] = i < rule->predictor->moments ? state->moment[first + i] : NULL;
}

static size_t copy_bytes(const struct update_state *state) {
    const size_t wide = state->master ? state->wide : state->count;
    return wide * number_types[TYPE_F32].bytes + (state->count - wide) * number_types[TYPE_BF16].bytes;
}

/* `weights`: in f32. */
static void predict(const struct update_rule *rule, struct device *device, const struct update_state *state,
                    const float *weights, void *predicted, int ahead, double seconds) {
    struct optimizer_call call = {
        .count = state->count,
        .weights = weights,
        .predicted = predicted,
        .step = state->done,
    };
    predictor_moments(rule, state, &call);
    run_rule(rule, state, device, rule->predictor, &rule->predictor_settings, ahead, &call, true, seconds);
}

void update_rule_predict(const struct update_rule *rule, struct device *device, const struct update_state *state,
                         const void *weights, void *predicted, int ahead) {
    /* No update ahead: exactly the weights. */
    if (ahead == 0 && device->type->real)
        device_copy(device, predicted, weights, copy_bytes(state));
    else
        predict(rule, device, state, state->master ? state->master : weights, predicted, ahead, state->times.time.predict_s);
}

void update_rule_apply(const struct update_rule *rule, struct device *device, struct update_state *state, const void *weights,
                       void *updated, float *gradient, void *predicted, int ahead) {
    add_up_tied(device, state, gradient);
    clip(rule, device, state, gradient);
    struct optimizer_call call = {
        .count = state->count,
        .weights = state->master ? state->master : weights,
        .updated = state->master ? state->master : updated,
        .gradient = gradient,
        .lr = learning_rate_at(&rule->rate, state->step),
        .step = state->done + 1,
    };
    bool beside = predictor_beside(rule);
    if (beside) {
        /* Before the update, which may overwrite the weights that this reads. */
        predictor_moments(rule, state, &call);
        run_rule(rule, state, device, &rule->observer, &rule->predictor_settings, 0, &call, false, 0);
    }
    if (state->master) call.copy = updated;
    for (int i = 0; i < OPTIMIZER_MOMENTS_MAX; i++) call.moment[i] = i < rule->optimizer->moments ? state->moment[i] : NULL;
    state->done++;
    state->step += state->round;
    bool copies = predicted && ahead == 0;
    if (!beside && !copies) call.predicted = predicted;
    const struct layer_times *time = &state->times.time;
    double seconds = predicted ? time->update_predict_s : updated != weights ? time->update_out_of_place_s : time->update_s;
    run_rule(rule, state, device, rule->optimizer, &rule->settings, ahead, &call, false, seconds);
    if (copies && device->type->real) device_copy(device, predicted, updated, copy_bytes(state));
    if (predicted && beside && !copies) predict(rule, device, state, call.updated, predicted, ahead, 0);
}
