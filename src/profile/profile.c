/* Profiles: creating one, the checks for all sources, and finding the table of a micro-batch size. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/processor.h"
#include "base/text.h"
#include "compute/device.h"
#include "profile/costgraph.h"
#include "profile/profile.h"

enum ps_status profile_create(int table_count, int layer_count, struct ps_profile **profile, struct ps_error *error) {
    struct arena arena = {0};
    struct ps_profile *made = arena_take(&arena, 1, sizeof *made);
    struct cost_table *tables = arena_take(&arena, (size_t)table_count, sizeof *tables);
    struct layer_cost *layers = arena_take(&arena, (size_t)table_count * (size_t)layer_count, sizeof *layers);
    TRY(arena_check(&arena, "a profile", error));
    for (int t = 0; t < table_count; t++)
        tables[t] = (struct cost_table){
            .device = made->device, .layer_count = layer_count, .layers = layers + (size_t)t * (size_t)layer_count};
    made->arena = arena;
    made->tables = tables;
    made->table_count = table_count;
    *profile = made;
    return PS_OK;
}

void ps_profile_destroy(struct ps_profile *profile) {
    if (!profile) return;
    costgraph_destroy(profile->graph);
    ps_profile_destroy(profile->other_device);
    struct arena arena = profile->arena;
    arena_release(&arena);
}

int profile_workers_here(const struct ps_profile *profile) {
    const struct device_class *device;
    if (profile->other_device || device_find(profile->device, &device, NULL) != PS_OK || !device->real) return 0;
    const int workers = cores_usable() / (profile->threads > 0 ? profile->threads : 1);
    return workers > 1 ? workers : 1;
}

void profile_link_ties(struct ps_profile *profile) {
    for (int t = 0; t < profile->table_count; t++) profile->tables[t].ties = profile->ties.count > 0 ? &profile->ties : NULL;
}

enum ps_status profile_take_ties(struct ps_profile *profile, const struct graph *graph, double byte, struct ps_error *error) {
    TRY(ties_find(graph, &profile->arena, &profile->ties, error));
    if (ties_are_ends(&profile->ties, graph->layer_count)) profile->ties.count = 0;
    for (int t = 0; t < profile->ties.count; t++)
        profile->ties.list[t].bytes = (int64_t)((double)profile->ties.list[t].bytes * byte);
    profile_link_ties(profile);
    return PS_OK;
}

const struct cost_table *cost_table_on(const struct cost_table *table, const char *type) {
    for (const struct cost_table *other = table->other_device ? table : NULL; other; other = other->other_device)
        if (strcmp(other->device, type) == 0) return other;
    return table;
}

/* Checks that the profiles' tables match: the same layers in all, at the same sizes. */
static enum ps_status check_alike(const struct ps_profile *one, const struct ps_profile *other, struct ps_error *error) {
    if (one->table_count != other->table_count || one->tables[0].layer_count != other->tables[0].layer_count)
        return error_set(error, PS_BAD_INPUT, "costs: %d sizes of %d layers, but the profile on %s has %d of %d",
                         other->table_count, other->tables[0].layer_count, one->device, one->table_count,
                         one->tables[0].layer_count);
    for (int l = 0; l < one->tables[0].layer_count; l++)
        if (strcmp(one->tables[0].layers[l].name, other->tables[0].layers[l].name) != 0)
            return error_set(error, PS_BAD_INPUT, "costs[0].layers[%d].name: '%s' is '%s' in the profile on %s", l,
                             other->tables[0].layers[l].name, one->tables[0].layers[l].name, one->device);
    for (int t = 0; t < one->table_count; t++)
        if (one->tables[t].micro_batch != other->tables[t].micro_batch)
            return error_set(error, PS_BAD_INPUT, "costs[%d].micro_batch: %d, but the profile on %s has %d", t,
                             other->tables[t].micro_batch, one->device, one->tables[t].micro_batch);
    return PS_OK;
}

static enum ps_status check_new(const struct ps_profile *profile, const struct ps_profile *other, struct ps_error *error) {
    for (const struct ps_profile *before = profile; before; before = before->other_device)
        if (strcmp(before->device, other->device) == 0)
            return error_set(error, PS_BAD_INPUT, "device: '%s' has a profile already", other->device);
    return check_alike(profile, other, error);
}

enum ps_status profile_add_device(struct ps_profile *profile, struct ps_profile *other, struct ps_error *error) {
    enum ps_status status = check_new(profile, other, error);
    if (status != PS_OK) {
        ps_profile_destroy(other);
        return status;
    }
    struct ps_profile *end = profile;
    while (end->other_device) end = end->other_device;
    end->other_device = other;
    for (int t = 0; t < end->table_count; t++) end->tables[t].other_device = &other->tables[t];
    return PS_OK;
}

/* ------------------------------------------------------------------------- means */

static void add_share(struct layer_cost *mean, const struct layer_cost *other, double share, double own_share) {
    layer_times_mix(&mean->time, own_share, &other->time, share);
    layer_times_mix(&mean->spread, own_share, &other->spread, share);
    layer_times_mix(&mean->spill, own_share, &other->spill, share);
    mean->fill = own_share * mean->fill + share * other->fill;
#define TIME(name) mean->name = own_share * mean->name + share * other->name;
    LAYER_SHARED_TIMES(TIME)
#undef TIME
}

static void mix_one(struct ps_profile *profile, struct ps_profile *other, double share, double own_share) {
    for (int t = 0; t < profile->table_count; t++)
        for (int l = 0; l < profile->tables[t].layer_count; l++)
            add_share(&profile->tables[t].layers[l], &other->tables[t].layers[l], share, own_share);
}

/* The time of the forwards and backwards of all layers, at the smallest micro-batch. */
static double compute_s(const struct ps_profile *profile) {
    double sum_s = 0;
    for (int l = 0; l < profile->tables[0].layer_count; l++) {
        const struct layer_times *time = &profile->tables[0].layers[l].time;
        sum_s += time->forward_s + time->backward_input_s + time->backward_weight_s;
    }
    return sum_s;
}

static void note_lengths(struct ps_profile *profile, struct ps_profile *const *others, const double *shares, int count,
                         double left) {
    double mean_s = left * compute_s(profile);
    for (int o = 0; o < count; o++) mean_s += shares[o] * compute_s(others[o]);
    for (int o = 0; o < count; o++)
        profile->by_length[o] = (struct profile_length){.share = shares[o], .factor = compute_s(others[o]) / mean_s};
    profile->by_length[count] = (struct profile_length){.share = left, .factor = compute_s(profile) / mean_s};
    profile->length_count = count + 1;
}

enum ps_status profile_mix(struct ps_profile *profile, struct ps_profile *const *others, const double *shares, int count,
                           const char *lengths, struct ps_error *error) {
    double left = 1;
    for (int o = 0; o < count; o++) {
        struct ps_profile *mean = profile, *other = others[o];
        for (; mean && other; mean = mean->other_device, other = other->other_device) TRY(check_alike(mean, other, error));
        left -= shares[o];
    }
    note_lengths(profile, others, shares, count, fmax(left, 0));
    for (int o = 0; o < count; o++) {
        struct ps_profile *mean = profile, *other = others[o];
        for (; mean && other; mean = mean->other_device, other = other->other_device)
            mix_one(mean, other, shares[o], o == 0 ? left : 1);
    }
    for (; profile; profile = profile->other_device) snprintf(profile->lengths, sizeof profile->lengths, "%s", lengths);
    return PS_OK;
}

const char *ps_profile_model(const struct ps_profile *profile) { return profile->model; }

int64_t profile_usual_delta_bytes(const struct layer_sizes *size) { return size->parameter_bytes > 0 ? size->value_bytes : 0; }

static int64_t layer_total_bytes(const struct layer_sizes *size) {
    return size->parameter_bytes + size->statistics_bytes + size->fixed_bytes + size->output_bytes + size->stash_bytes +
           size->tail_bytes + size->delta_bytes + size->workspace_bytes;
}

static enum ps_status check_table(const struct ps_profile *profile, int t, struct ps_error *error) {
    const struct cost_table *table = &profile->tables[t], *reference = &profile->tables[0];
    double time = 0;
    int64_t bytes = table->input_bytes;
    for (int l = 0; l < table->layer_count; l++) {
        const struct layer_cost *layer = &table->layers[l];
        if (strcmp(layer->name, reference->layers[l].name) != 0 || strcmp(layer->kind, reference->layers[l].kind) != 0)
            return error_set(error, PS_BAD_INPUT, "costs[%d].layers[%d]: '%s' (%s), but costs[0] has '%s' (%s)", t, l,
                             layer->name, layer->kind, reference->layers[l].name, reference->layers[l].kind);
        if (layer->size.value_bytes > layer->size.output_bytes)
            return error_set(error, PS_BAD_INPUT, "costs[%d].layers[%d].value_bytes: %lld is more than its output_bytes, %lld",
                             t, l, (long long)layer->size.value_bytes, (long long)layer->size.output_bytes);
        bool end = l == 0 || l == table->layer_count - 1;
        if (layer->size.tied_bytes > layer->size.parameter_bytes ||
            (!table->ties && (layer->size.tied_bytes > 0) != (end && cost_table_tied(table))))
            return error_set(error, PS_BAD_INPUT,
                             "costs[%d].layers[%d].tied_bytes: %lld; without `ties` the first and the last layer, and no "
                             "others, can share so much of their parameters",
                             t, l, (long long)layer->size.tied_bytes);
        time += layer->time.forward_s + layer->time.backward_input_s + layer->time.backward_weight_s;
        bytes += layer_total_bytes(&layer->size);
    }
    if (time <= 0) return error_set(error, PS_BAD_INPUT, "costs[%d].layers: no layer takes any time", t);
    if (bytes > PROFILE_TOTAL_BYTES_MAX)
        return error_set(error, PS_BAD_INPUT, "costs[%d].layers: %lld bytes in all are more than the %lld that are accepted", t,
                         (long long)bytes, (long long)PROFILE_TOTAL_BYTES_MAX);
    return PS_OK;
}

enum ps_status profile_check(const struct ps_profile *profile, struct ps_error *error) {
    for (int t = 0; t < profile->table_count; t++) {
        if (t > 0 && profile->tables[t].micro_batch <= profile->tables[t - 1].micro_batch)
            return error_set(error, PS_BAD_INPUT, "costs[%d].micro_batch: %d must be larger than the %d before it", t,
                             profile->tables[t].micro_batch, profile->tables[t - 1].micro_batch);
        TRY(check_table(profile, t, error));
    }
    return PS_OK;
}

enum ps_status profile_finish(struct ps_profile *made, enum ps_status status, int line, struct ps_profile **profile,
                              struct ps_error *error) {
    if (status == PS_OK) {
        status = profile_check(made, error);
        if (status != PS_OK && line > 0) error_prefix(error, "line %d", line);
    }
    if (status == PS_OK)
        *profile = made;
    else
        ps_profile_destroy(made);
    return status;
}

enum ps_status profile_table(const struct ps_profile *profile, int micro_batch, const struct cost_table **table,
                             struct ps_error *error) {
    if (micro_batch == 0) {
        *table = &profile->tables[profile->table_count - 1];
        return PS_OK;
    }
    struct text sizes = {0};
    for (int t = 0; t < profile->table_count; t++) {
        if (profile->tables[t].micro_batch == micro_batch) {
            *table = &profile->tables[t];
            text_free(&sizes);
            return PS_OK;
        }
        if (profile->tables[t].micro_batch == 0)
            text_add(&sizes, "one of a size it does not say");
        else
            text_add(&sizes, "%s%d", t ? ", " : "", profile->tables[t].micro_batch);
    }
    error_set(error, PS_USAGE, "micro-batch %d: the profile has no such size, but %s", micro_batch,
              sizes.data ? sizes.data : "");
    text_free(&sizes);
    return PS_USAGE;
}
