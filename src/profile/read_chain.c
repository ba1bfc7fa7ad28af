/*
 * Chains as plain numbers: a first line with the number of layers and a 0, then one line a layer,
 *
 *     forward_ms backward_ms parameter_bytes cut_bytes kept_bytes
 *
 * where cut_bytes is all that a cut after the layer carries and kept_bytes what the layer itself made, which the next one
 * keeps. Layers have no names: they are called layer1, layer2, ... As in the other forms the backward counts half for each
 * half, and nothing crosses behind the last layer.
 */
#include <stdio.h>

#include "profile/lines.h"
#include "profile/read.h"

enum { NUMBERS = 5 };

static enum ps_status read_layer(struct span line, int number, int l, struct layer_cost *layer, struct ps_error *error) {
    struct span rest = line, field[NUMBERS];
    int count = 0;
    for (; rest.length > 0 && count < NUMBERS; count++) field[count] = span_trim(span_split(&rest, " "));
    if (count < NUMBERS || rest.length > 0)
        return error_set(error, PS_BAD_INPUT, "line %d: a layer of a chain has %d numbers, with a space between two", number,
                         NUMBERS);
    double forward_ms, backward_ms;
    *layer = (struct layer_cost){.kind = "layer"};
    snprintf(layer->name, sizeof layer->name, "layer%d", l + 1);
    TRY(span_number(field[0], number, "forward_ms", 1e3 * PROFILE_TIME_MAX, &forward_ms, error));
    TRY(span_number(field[1], number, "backward_ms", 1e3 * PROFILE_TIME_MAX, &backward_ms, error));
    TRY(span_bytes(field[2], number, "parameter_bytes", &layer->size.parameter_bytes, error));
    TRY(span_bytes(field[3], number, "cut_bytes", &layer->size.output_bytes, error));
    TRY(span_bytes(field[4], number, "kept_bytes", &layer->size.value_bytes, error));
    if (layer->size.value_bytes > layer->size.output_bytes) layer->size.value_bytes = layer->size.output_bytes;
    layer->time.forward_s = forward_ms / 1e3;
    layer->time.backward_input_s = layer->time.backward_weight_s = backward_ms / 2e3;
    return PS_OK;
}

static enum ps_status read_layers(struct lines *lines, struct cost_table *table, struct ps_error *error) {
    struct span line;
    for (int l = 0; l < table->layer_count; l++) {
        struct layer_cost *layer = &table->layers[l];
        if (!lines_next(lines, &line))
            return error_set(error, PS_BAD_INPUT, "line %d: %d layers were announced, but %d follow", lines->number,
                             table->layer_count, l);
        TRY(read_layer(line, lines->number, l, layer, error));
        if (l > 0) layer->size.stash_bytes = layer[-1].size.output_bytes;
    }
    if (lines_next(lines, &line))
        return error_set(error, PS_BAD_INPUT, "line %d: more than the %d layers that were announced", lines->number,
                         table->layer_count);
    struct layer_sizes *last = &table->layers[table->layer_count - 1].size;
    last->output_bytes = last->value_bytes = 0;
    return PS_OK;
}

enum ps_status profile_read_chain(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error) {
    struct lines lines = {.rest = {data, size}};
    struct span line, rest;
    struct ps_profile *made;
    double layers;
    lines_next(&lines, &line);
    rest = line;
    TRY(span_number(span_split(&rest, " "), lines.number, "layers", PROFILE_LAYERS_MAX, &layers, error));
    if (layers < 1 || layers != (int)layers) return span_error(error, lines.number, "layers", line, "is no number of layers");
    TRY(profile_create(1, (int)layers, &made, error));
    enum ps_status status = read_layers(&lines, &made->tables[0], error);
    return profile_finish(made, status, lines.number, profile, error);
}
