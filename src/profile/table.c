/* A profile as a table for people: one per micro-batch size, a line a layer and a line of sums. */

#include "base/text.h"
#include "profile/profile.h"

static void add_costs(struct text *rows, const struct layer_times *time, const struct layer_sizes *size) {
    char text[7][32];
    text_add(rows, "\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", text_seconds(time->forward_s, text[0]),
             text_seconds(time->backward_input_s, text[1]), text_seconds(time->backward_weight_s, text[2]),
             text_seconds(time->update_s, text[3]), text_bytes(size->parameter_bytes, text[4]),
             text_bytes(size->output_bytes, text[5]), text_bytes(size->stash_bytes, text[6]));
}

static void add_table(struct text *out, const struct cost_table *table) {
    struct text rows = {0};
    struct layer_times time = {0};
    struct layer_sizes size = {0};
    text_add(&rows, "#\tlayer\tkind\tforward\tbackward, input\tbackward, weights\tupdate\tparameters\tacross the cut\tkept\n");
    for (int l = 0; l < table->layer_count; l++) {
        const struct layer_cost *layer = &table->layers[l];
        text_add(&rows, "%d\t%s\t%s", l + 1, layer->name, layer->kind);
        add_costs(&rows, &layer->time, &layer->size);
        time.forward_s += layer->time.forward_s;
        time.backward_input_s += layer->time.backward_input_s;
        time.backward_weight_s += layer->time.backward_weight_s;
        time.update_s += layer->time.update_s;
        size.parameter_bytes += layer->size.parameter_bytes;
        if (l > 0) size.parameter_bytes -= layer->size.tied_bytes; /* counted with the first layer */
        size.output_bytes += layer->size.output_bytes;
        size.stash_bytes += layer->size.stash_bytes;
    }
    text_add(&rows, "\tin all\t");
    add_costs(&rows, &time, &size);
    text_add_table(out, &rows);
}

char *ps_profile_table(const struct ps_profile *profile) {
    struct text out = {0};
    for (int t = 0; t < profile->table_count; t++) {
        const struct cost_table *table = &profile->tables[t];
        text_add(&out, "%s%s on %s", t ? "\n" : "", profile->model, profile->device);
        if (profile->threads > 1) text_add(&out, ", %d threads", profile->threads);
        if (table->micro_batch > 0) text_add(&out, ", micro-batch of %d", table->micro_batch);
        text_add(&out, "\n\n");
        add_table(&out, table);
    }
    return text_take(&out);
}
