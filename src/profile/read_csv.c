/*
 * Costs from elsewhere as a table: a header line, then one line a layer,
 *
 *     name,forward_s,backward_s,parameter_bytes,output_bytes[,stash_bytes]
 *
 * The backward's time is taken half for the input's gradient and half for the weights'. Nothing is used after the last layer,
 * so its output counts 0 bytes. Without the last column a layer keeps its input.
 */
#include <string.h>

#include "profile/lines.h"
#include "profile/read.h"

static const char *const columns[] = {"name", "forward_s", "backward_s", "parameter_bytes", "output_bytes", "stash_bytes"};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static enum ps_status read_header(struct span line, int number, int *column_count, struct ps_error *error) {
    struct span rest = line;
    int count = 0;
    while (rest.length > 0 && count < COLUMNS) {
        struct span column = span_trim(span_split(&rest, ","));
        if (!span_is(column, columns[count])) {
            span_error(error, number, "header", column, "is not the column that must stand here");
            goto expected;
        }
        count++;
    }
    if (rest.length > 0 || count < COLUMNS - 1) {
        error_set(error, PS_BAD_INPUT, "line %d: header: has %d columns", number, span_count(line, ",") + 1);
        goto expected;
    }
    *column_count = count;
    return PS_OK;
expected:
    error_hint(error, "the first line must be name,forward_s,backward_s,parameter_bytes,output_bytes[,stash_bytes]");
    return PS_BAD_INPUT;
}

static enum ps_status read_layer(struct span line, int number, int column_count, struct layer_cost *layer,
                                 struct ps_error *error) {
    struct span rest = line, field[COLUMNS];
    int found = span_count(line, ",") + 1;
    double backward_s;
    if (found != column_count)
        return error_set(error, PS_BAD_INPUT, "line %d: %d columns, but the header has %d", number, found, column_count);
    for (int c = 0; c < column_count; c++) field[c] = span_split(&rest, ",");
    *layer = (struct layer_cost){.kind = "layer"};
    TRY(span_name(field[0], number, columns[0], layer->name, sizeof layer->name, error));
    TRY(span_number(field[1], number, columns[1], PROFILE_TIME_MAX, &layer->time.forward_s, error));
    TRY(span_number(field[2], number, columns[2], PROFILE_TIME_MAX, &backward_s, error));
    TRY(span_bytes(field[3], number, columns[3], &layer->size.parameter_bytes, error));
    TRY(span_bytes(field[4], number, columns[4], &layer->size.output_bytes, error));
    if (column_count == COLUMNS) TRY(span_bytes(field[5], number, columns[5], &layer->size.stash_bytes, error));
    layer->time.backward_input_s = layer->time.backward_weight_s = backward_s / 2;
    layer->size.value_bytes = layer->size.output_bytes;
    layer->size.delta_bytes = profile_usual_delta_bytes(&layer->size);
    return PS_OK;
}

static int count_lines(const char *data, size_t size) {
    struct lines lines = {.rest = {data, size}};
    struct span line;
    int count = 0;
    while (lines_next(&lines, &line)) count++;
    return count;
}

static enum ps_status read_layers(struct lines *lines, int column_count, struct cost_table *table, struct ps_error *error) {
    struct span line;
    for (int l = 0; l < table->layer_count; l++) {
        struct layer_cost *layer = &table->layers[l];
        lines_next(lines, &line);
        TRY(read_layer(line, lines->number, column_count, layer, error));
        if (column_count < COLUMNS && l > 0) layer->size.stash_bytes = layer[-1].size.output_bytes;
    }
    struct layer_sizes *last = &table->layers[table->layer_count - 1].size;
    last->output_bytes = last->value_bytes = 0;
    return PS_OK;
}

enum ps_status profile_read_csv(const char *data, size_t size, struct ps_profile **profile, struct ps_error *error) {
    struct lines lines = {.rest = {data, size}};
    struct span line;
    struct ps_profile *made;
    int layers = count_lines(data, size) - 1, column_count;
    if (!lines_next(&lines, &line)) return error_set(error, PS_BAD_INPUT, "line 1: the file is empty");
    TRY(read_header(line, lines.number, &column_count, error));
    if (layers < 1) return error_set(error, PS_BAD_INPUT, "line %d: no layer follows the header", lines.number + 1);
    if (layers > PROFILE_LAYERS_MAX)
        return error_set(error, PS_BAD_INPUT, "line %d: %d layers; at most %d are accepted", PROFILE_LAYERS_MAX + 2, layers,
                         PROFILE_LAYERS_MAX);
    TRY(profile_create(1, layers, &made, error));
    enum ps_status status = read_layers(&lines, column_count, &made->tables[0], error);
    return profile_finish(made, status, lines.number, profile, error);
}
