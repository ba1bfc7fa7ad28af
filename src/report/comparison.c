/* Comparisons of methods as JSON and CSV; tables are made from the JSON (comparison_table.c). */
#include "report/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"

const struct metric_look metric_looks[] = {
    [PS_METRIC_ACCURACY] = {"accuracy", "accuracy", 4, "valid_accuracy"},
    [PS_METRIC_BLEU] = {"bleu", "BLEU", 2, "valid_bleu"},
    [PS_METRIC_PERPLEXITY] = {"perplexity", "perplexity", 3, "valid_perplexity"},
    [PS_METRIC_LOSS] = {"loss", "loss", 4, "valid_loss"},
};

/* ------------------------------------------------------------------------ JSON */

/* What was not measured is left out. */
static void set_number(json_t *object, const char *name, double value) {
    if (!isnan(value)) json_object_set_new(object, name, json_real(value));
}

static void set_run(json_t *object, const struct ps_comparison_row *row) {
    const struct ps_run_info info = ps_run_info(row->run);
    set_number(object, "loss", info.loss);
    set_number(object, "accuracy", info.accuracy);
    set_number(object, "valid_loss", info.valid_loss);
    set_number(object, "valid_accuracy", info.valid_accuracy);
    set_number(object, "samples_per_s", info.samples_per_s);
    set_number(object, "predicted_samples_per_s", info.predicted_samples_per_s);
    set_number(object, "wall_s", info.wall_s);
    json_object_set_new(object, "measured_bytes", json_integer(row->measured_bytes));
    set_number(object, "top5", info.top5);
    set_number(object, "valid_top5", info.valid_top5);
    set_number(object, "valid_perplexity", info.valid_perplexity);
    set_number(object, "valid_bleu", info.valid_bleu);
    json_t *memory = json_array();
    for (int w = 0; w < info.workers; w++)
        json_array_append_new(memory, json_integer((json_int_t)ps_run_worker(row->run, w).measured_bytes));
    json_object_set_new(object, "memory_bytes", memory);
    set_number(object, "best_valid_accuracy", row->best_valid_accuracy);
    json_object_set_new(object, "metric", json_string(metric_looks[row->metric].name));
    set_number(object, "best", row->best);
    if (row->best_epoch > 0) json_object_set_new(object, "best_epoch", json_integer(row->best_epoch));
    if (row->target > 0) set_number(object, "target", row->target);
    if (row->target > 0 && row->metric == PS_METRIC_ACCURACY) set_number(object, "target_accuracy", row->target);
    set_number(object, "target_s", row->target_s);
    if (row->target_epoch > 0) json_object_set_new(object, "target_epoch", json_integer(row->target_epoch));
    json_t *points = json_array();
    for (int i = 0; i < ps_run_point_count(row->run); i++) {
        const struct ps_run_point point = ps_run_point(row->run, i);
        json_t *entry = json_pack("{s:i, s:i}", "step", point.step, "epoch", point.epoch);
        set_number(entry, "loss", point.loss);
        set_number(entry, "accuracy", point.accuracy);
        set_number(entry, "valid_loss", point.valid_loss);
        set_number(entry, "valid_accuracy", point.valid_accuracy);
        set_number(entry, "valid_perplexity", point.valid_perplexity);
        set_number(entry, "valid_bleu", point.valid_bleu);
        set_number(entry, "training_s", point.training_s);
        json_array_append_new(points, entry);
    }
    json_object_set_new(object, "points", points);
}

/* What is known of every row. */
static void set_words(json_t *object, const struct ps_comparison_row *row) {
    json_set_text(object, "model", row->model);
    json_set_text(object, "memory_limit", row->memory_limit);
    json_set_text(object, "bandwidth", row->bandwidth);
    json_set_text(object, "precision", row->precision);
    json_set_text(object, "directory", row->directory);
    json_object_set_new(object, "status", json_integer(row->status));
    json_object_set_new(object, "seed", json_integer((json_int_t)row->seed));
    if (row->rank > 0) json_object_set_new(object, "rank", json_integer(row->rank));
    if (row->batch == 0) return;
    json_object_set_new(object, "batch", json_integer(row->batch));
    json_object_set_new(object, "micro_batch", json_integer(row->micro_batch));
    json_object_set_new(object, "micro_batches", json_integer(row->micro_batches));
}

static json_t *row_json(const struct ps_comparison_row *row) {
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:b}", "method", row->method, "schedule", row->schedule, "weights",
                  row->weights, "workers", row->workers, "memory_limit_bytes", (json_int_t)row->memory_limit_bytes,
                  "bandwidth_bytes_per_s", row->bandwidth_bytes_per_s, "feasible", !row->reason);
    json_set_text(object, "wire", row->wire);
    set_words(object, row);
    if (row->reason) {
        json_object_set_new(object, "reason", json_string(row->reason));
        return object;
    }
    json_object_set_new(object, "chosen", json_string(row->chosen));
    if (row->trained) {
        set_run(object, row);
        return object;
    }
    set_number(object, "objective_s", row->objective_s);
    set_number(object, "lower_bound_s", row->lower_bound_s);
    set_number(object, "gap", row->gap);
    set_number(object, "solve_s", row->solve_s);
    if (!row->simulated) return object;
    set_number(object, "period_s", row->period_s);
    set_number(object, "throughput_samples_per_s", row->throughput_samples_per_s);
    set_number(object, "speedup", row->speedup);
    set_number(object, "bubble", row->bubble);
    json_object_set_new(object, "memory_bytes", json_integer(row->memory_bytes));
    json_object_set_new(object, "weight_copies", json_integer(row->weight_copies));
    if (row->largest == 0) return object;
    json_object_set_new(object, "largest", json_integer(row->largest));
    json_object_set_new(object, "parameters", json_integer(row->parameters));
    return object;
}

/* ------------------------------------------------------------------------- seeds */

/* What is different for each seed. */
static const char *const figures[] = {"loss",
                                      "accuracy",
                                      "valid_loss",
                                      "valid_accuracy",
                                      "top5",
                                      "valid_top5",
                                      "valid_bleu",
                                      "valid_perplexity",
                                      "best",
                                      "best_epoch",
                                      "target_s",
                                      "target_epoch",
                                      "samples_per_s",
                                      "predicted_samples_per_s",
                                      "wall_s",
                                      "measured_bytes",
                                      "best_valid_accuracy"};

/* The seeds of one combination as one: a figure is their mean, with FIGURE_spread and, where not all have it, FIGURE_seeds. */
static json_t *combine(const json_t *rows, int first, int seeds) {
    json_t *best = json_array_get(rows, (size_t)first), *reason = NULL;
    int trained = 0;
    for (int s = seeds - 1; s >= 0; s--) {
        json_t *row = json_array_get(rows, (size_t)(first + s));
        if (json_object_get(row, "reason"))
            reason = json_object_get(row, "reason");
        else
            best = row, trained++;
    }
    json_t *made = json_copy(best);
    json_object_del(made, "points");
    json_object_del(made, "memory_bytes");
    json_object_del(made, "seed");
    json_object_del(made, "directory");
    json_object_set_new(made, "seeds", json_integer(seeds));
    json_object_set_new(made, "trained", json_integer(trained));
    if (reason) json_object_set(made, "reason", reason);
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++) {
        char name[64];
        double sum = 0, squares = 0;
        int known = 0;
        for (int s = 0; s < seeds; s++) {
            const json_t *value = json_object_get(json_array_get(rows, (size_t)(first + s)), figures[f]);
            sum += json_number_value(value); /* 0 where there is none */
            known += json_is_number(value);
        }
        if (known == 0) continue;
        const double mean = sum / known;
        for (int s = 0; s < seeds; s++) {
            const json_t *value = json_object_get(json_array_get(rows, (size_t)(first + s)), figures[f]);
            if (json_is_number(value)) squares += (json_number_value(value) - mean) * (json_number_value(value) - mean);
        }
        json_object_set_new(made, figures[f], json_real(mean));
        snprintf(name, sizeof name, "%s_spread", figures[f]);
        json_object_set_new(made, name, json_real(known > 1 ? sqrt(squares / (known - 1)) : 0)); /* of a sample */
        snprintf(name, sizeof name, "%s_seeds", figures[f]);
        if (known < seeds) json_object_set_new(made, name, json_integer(known));
    }
    return made;
}

json_t *comparison_document(const struct ps_comparison *comparison) {
    const struct ps_comparison_info info = ps_comparison_info(comparison);
    json_t *rows = json_array(), *combinations = json_array(), *models = json_array();
    for (int r = 0; r < info.rows; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        json_array_append_new(rows, row_json(&row));
        if (row.network == (int)json_array_size(models)) json_array_append_new(models, json_string(row.model));
    }
    for (int r = 0; r < info.rows && info.seeds > 1; r += info.seeds)
        json_array_append_new(combinations, combine(rows, r, info.seeds));
    json_t *root = json_pack("{s:s, s:o}", "model", ps_comparison_model(comparison), "rows", json_whole(rows, info.rows));
    if (ps_comparison_largest(comparison)) json_object_set_new(root, "largest", json_string(ps_comparison_largest(comparison)));
    if (info.networks > 1) json_object_set(root, "models", models);
    if (info.seeds > 1)
        json_object_set_new(root, "combinations", json_whole(combinations, info.rows / info.seeds));
    else
        json_decref(combinations);
    json_set_text(root, "ranked_by", info.ranked_by);
    json_set_text(root, "directory", info.directory);
    json_decref(models);
    return root;
}

char *ps_comparison_json(const struct ps_comparison *comparison) { return json_text(comparison_document(comparison)); }

/* --------------------------------------------------------------------------- CSV */

/* In quotes where a comma, a quote or a line's end would end it. */
static void add_csv_text(struct text *out, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        text_add(out, "%s", text);
        return;
    }
    text_add(out, "\"");
    for (; *text; text++) text_add(out, "%s%c", *text == '"' ? "\"" : "", *text);
    text_add(out, "\"");
}

static void add_csv_value(struct text *out, const json_t *value) {
    char number[40];
    if (json_is_string(value))
        add_csv_text(out, json_string_value(value));
    else if (json_is_boolean(value))
        text_add(out, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        text_add(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value)) {
        number_print(number, sizeof number, "%.17g", json_real_value(value));
        text_add(out, "%s", number);
    }
}

enum ps_status ps_comparison_write_csv(const struct ps_comparison *comparison, const char *path, struct ps_error *error) {
    struct text out = {0};
    json_t *document = comparison_document(comparison), *rows = json_object_get(document, "rows"), *columns = json_object();
    json_t *row, *value;
    const char *key;
    size_t r;
    /* The network first, then every field that a row has, in the order in which they come. */
    json_object_set_new(columns, "model", json_true());
    json_array_foreach(rows, r, row) json_object_foreach(row, key, value) {
        if (!json_is_array(value)) json_object_set_new(columns, key, json_true());
    }
    json_object_foreach(columns, key, value) text_add(&out, "%s%s", out.length > 0 ? "," : "", key);
    text_add(&out, "\n");
    json_array_foreach(rows, r, row) {
        bool first = true;
        json_object_foreach(columns, key, value) {
            if (!first) text_add(&out, ",");
            add_csv_value(&out, json_object_get(row, key));
            first = false;
        }
        text_add(&out, "\n");
    }
    if (!document || !columns || json_memory_failed()) out.failed = true;
    json_decref(columns);
    json_decref(document);
    enum ps_status status = file_write_text(path, &out, "a comparison as CSV", error);
    text_free(&out);
    return status;
}
