/* See ties.h. */
#include "graph/ties.h"

#include <string.h>

#include "base/memory.h"

/* Limits of files. */
enum { TIES_MAX = 1 << 14, USES_MAX = 1 << 14, LAYER_MAX = 1 << 20 };
#define TIE_BYTES_MAX ((int64_t)1 << 44)

static int layer_of(const struct graph *graph, int parameter) {
    const struct node *node = graph->nodes;
    while (parameter < node->parameter_first || parameter >= node->parameter_first + node->parameter_count) node++;
    return node->layer;
}

/* The uses of the shared parameter `first` from there on; their layers, unless `layers` is NULL. */
static int find_uses(const struct graph *graph, int first, int *layers) {
    const struct parameter *parameters = graph->parameters;
    int uses = 0;
    for (int p = first; p < graph->parameter_count; p++) {
        if (!parameter_is_shared(&parameters[p]) || strcmp(parameters[p].name, parameters[first].name) != 0) continue;
        if (layers) layers[uses] = layer_of(graph, p);
        uses++;
    }
    return uses;
}

enum ps_status ties_find(const struct graph *graph, struct arena *arena, struct ties *ties, struct ps_error *error) {
    int count = 0;
    for (int p = 0; p < graph->parameter_count; p++)
        count += parameter_is_shared(&graph->parameters[p]) && !graph->parameters[p].tied;
    struct ties found = {.list = arena_take(arena, (size_t)count, sizeof *found.list)};
    for (int p = 0; p < graph->parameter_count && found.count < count && found.list; p++) {
        if (!parameter_is_shared(&graph->parameters[p]) || graph->parameters[p].tied) continue;
        struct tie *tie = &found.list[found.count++];
        tie->parameter = &graph->parameters[p];
        tie->bytes = (int64_t)memory_align((size_t)shape_bytes(&graph->parameters[p].shape));
        tie->narrow = graph->parameters[p].copy == TYPE_BF16;
        tie->wide = graph->precision != PRECISION_F32 && !tie->narrow;
        tie->uses = find_uses(graph, p, NULL);
        tie->layers = arena_take(arena, (size_t)tie->uses, sizeof *tie->layers);
        if (tie->layers) find_uses(graph, p, tie->layers);
    }
    TRY(arena_status(arena, "shared parameters", error));
    *ties = found;
    return PS_OK;
}

enum ps_status ties_copy(const struct ties *ties, struct arena *arena, struct ties *copy, struct ps_error *error) {
    struct ties made = {arena_copy(arena, ties->list, (size_t)ties->count, sizeof *ties->list), ties->count};
    for (int t = 0; t < made.count && made.list; t++) {
        made.list[t].parameter = NULL;
        made.list[t].layers = arena_copy(arena, ties->list[t].layers, (size_t)ties->list[t].uses, sizeof(int));
    }
    TRY(arena_status(arena, "shared parameters", error));
    *copy = made;
    return PS_OK;
}

enum ps_status ties_ends(int layer_count, int64_t bytes, struct arena *arena, struct ties *ties, struct ps_error *error) {
    int ends[] = {0, layer_count - 1};
    struct tie tie = {.bytes = bytes, .layers = ends, .uses = 2};
    return ties_copy(&(struct ties){&tie, 1}, arena, ties, error);
}

bool ties_are_ends(const struct ties *ties, int layer_count) {
    const struct tie *tie = ties->list;
    return ties->count == 1 && tie->uses == 2 && !tie->wide && tie->layers[0] == 0 && tie->layers[1] == layer_count - 1;
}

int tie_uses_in(const struct tie *tie, int first, int last) {
    int uses = 0;
    for (int u = 0; u < tie->uses; u++) uses += tie->layers[u] >= first && tie->layers[u] <= last;
    return uses;
}

int64_t ties_repeated_bytes(const struct ties *ties, int first, int last, bool narrow) {
    int64_t bytes = 0;
    for (int t = 0; t < ties->count; t++) {
        const int uses = tie_uses_in(&ties->list[t], first, last);
        if (uses > 1 && (!narrow || ties->list[t].narrow)) bytes += (uses - 1) * ties->list[t].bytes;
    }
    return bytes;
}

int64_t ties_outside_bytes(const struct ties *ties, int first, int last) {
    int64_t bytes = 0;
    for (int t = 0; t < ties->count; t++) {
        const int uses = tie_uses_in(&ties->list[t], first, last);
        if (uses < ties->list[t].uses) bytes += uses * ties->list[t].bytes;
    }
    return bytes;
}

json_t *ties_json(const struct ties *ties) {
    json_t *array = json_array();
    for (int t = 0; t < ties->count; t++) {
        const struct tie *tie = &ties->list[t];
        json_t *layers = json_array();
        for (int u = 0; u < tie->uses; u++) json_array_append_new(layers, json_integer(tie->layers[u]));
        layers = json_whole(layers, tie->uses);
        json_array_append_new(array, tie->bytes == 0 || !layers
                                         ? layers
                                         : json_pack("{s:o, s:I, s:o*}", "layers", layers, "bytes", (json_int_t)tie->bytes,
                                                     "narrow", tie->narrow ? json_true() : NULL));
    }
    return json_whole(array, ties->count);
}

static enum ps_status read_layers(const struct json_place *place, int layer_count, struct arena *arena, struct tie *tie,
                                  struct ps_error *error) {
    struct json_place item;
    size_t uses;
    TRY(json_array_length(place, &uses, error));
    if (uses < 2 || uses > USES_MAX) return json_error(place, error, "%zu layers; 2 to %d are accepted", uses, USES_MAX);
    tie->uses = (int)uses;
    tie->layers = arena_take(arena, uses, sizeof *tie->layers);
    TRY(arena_status(arena, "shared parameters", error));
    const int most = layer_count > 0 ? layer_count - 1 : LAYER_MAX;
    for (size_t u = 0; u < uses; u++) {
        TRY(json_item(place, u, &item, error));
        const json_int_t layer = json_is_integer(item.value) ? json_integer_value(item.value) : -1;
        if (layer < (u > 0 ? tie->layers[u - 1] : 0) || layer > most)
            return json_error(&item, error, "must be the number of a layer, not below the one before and at most %d", most);
        tie->layers[u] = (int)layer;
    }
    return PS_OK;
}

enum ps_status ties_read(const struct json_place *place, int layer_count, struct arena *arena, struct ties *ties,
                         struct ps_error *error) {
    static const char *const fields[] = {"layers", "bytes", "narrow"};
    struct json_place item, layers;
    size_t count;
    TRY(json_array_length(place, &count, error));
    if (count > TIES_MAX) return json_error(place, error, "%zu shared parameters; at most %d are accepted", count, TIES_MAX);
    struct ties read = {arena_take(arena, count, sizeof *read.list), (int)count};
    TRY(arena_status(arena, "shared parameters", error));
    for (size_t t = 0; t < count; t++) {
        TRY(json_item(place, t, &item, error));
        layers = item;
        if (json_is_object(item.value)) {
            TRY(json_object_fields(&item, fields, 3, error));
            TRY(json_field(&item, "layers", true, &layers, error));
            TRY(json_get_integer(&item, "bytes", true, 0, TIE_BYTES_MAX, &read.list[t].bytes, error));
            TRY(json_get_bool(&item, "narrow", false, &read.list[t].narrow, error));
        }
        TRY(read_layers(&layers, layer_count, arena, &read.list[t], error));
    }
    *ties = read;
    return PS_OK;
}
