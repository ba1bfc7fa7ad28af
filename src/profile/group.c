/* Profiles whose layers are groups of another profile's neighbouring layers; see profile.h. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "profile/profile.h"

/* The layers first..last as one. What a stage of groups costs is what the stage of their layers costs: of sums but for
 * rounding, of sizes exactly. */
static struct layer_cost join(const struct layer_cost *layers, int first, int last) {
    struct layer_cost group = layers[last];
    if (first < last) {
        const char *from = layers[first].name, *to = layers[last].name;
        snprintf(group.name, sizeof group.name, "%.*s .. %.*s", (int)utf8_whole(from, strnlen(from, 29)), from,
                 (int)utf8_whole(to, strnlen(to, 29)), to);
    }
    for (int l = last - 1; l >= first; l--) {
        const struct layer_cost *layer = &layers[l];
        layer_times_add(&group.time, &layer->time);
        layer_times_add(&group.spill, &layer->spill);
        group.sum_s += layer->sum_s;
        group.fill += layer->fill;
        group.size.parameter_bytes += layer->size.parameter_bytes;
        group.size.narrow_bytes += layer->size.narrow_bytes;
        group.size.tied_bytes += layer->size.tied_bytes;
        group.size.statistics_bytes += layer->size.statistics_bytes;
        group.size.stash_bytes += layer->size.stash_bytes;
        group.size.delta_bytes += layer->size.delta_bytes;
        group.size.workspace_bytes = number_larger(group.size.workspace_bytes, layer->size.workspace_bytes);
        group.inner_cut_bytes = number_larger(group.inner_cut_bytes, layer->size.output_bytes);
    }
    return group;
}

static enum ps_status group_device(const struct ps_profile *profile, const int *last, int count, struct ps_profile **grouped,
                                   struct ps_error *error) {
    struct ps_profile *made;
    TRY(profile_create(profile->table_count, count, &made, error));
    struct cost_table *tables = made->tables;
    struct arena arena = made->arena;
    *made = *profile;
    made->arena = arena;
    made->tables = tables;
    made->other_device = NULL;
    made->graph = NULL;
    *grouped = made;
    const int *group_last = arena_copy(&made->arena, last, (size_t)count, sizeof *last);
    TRY(arena_status(&made->arena, "groups of layers", error));
    for (int t = 0; t < profile->table_count; t++) {
        const struct cost_table *from = &profile->tables[t];
        struct layer_cost *layers = tables[t].layers;
        tables[t] = *from;
        tables[t].device = made->device;
        tables[t].other_device = NULL;
        tables[t].layers = layers;
        tables[t].layer_count = count;
        tables[t].group_last = group_last;
        tables[t].group_layers = from->layers;
        for (int g = 0; g < count; g++) layers[g] = join(from->layers, cost_table_first(&tables[t], g), last[g]);
    }
    TRY(ties_copy(&profile->ties, &made->arena, &made->ties, error));
    for (int t = 0; t < made->ties.count; t++)
        for (int u = 0, g = 0; u < made->ties.list[t].uses; u++) {
            while (last[g] < made->ties.list[t].layers[u]) g++;
            made->ties.list[t].layers[u] = g;
        }
    profile_link_ties(made);
    return PS_OK;
}

enum ps_status profile_group(const struct ps_profile *profile, const int *last, int count, struct ps_profile **grouped,
                             struct ps_error *error) {
    struct ps_profile *made = NULL;
    enum ps_status status = group_device(profile, last, count, &made, error);
    for (const struct ps_profile *of = profile->other_device; status == PS_OK && of; of = of->other_device) {
        struct ps_profile *other = NULL;
        status = group_device(of, last, count, &other, error);
        if (status == PS_OK)
            status = profile_add_device(made, other, error);
        else
            ps_profile_destroy(other);
    }
    if (status == PS_OK)
        *grouped = made;
    else
        ps_profile_destroy(made);
    return status;
}
