/* Comparisons of methods: JSON, and tables that are made from it. */
#include "report/report.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"

/* The metric of a training: its name in JSON, its name in tables, digits of its values, and the field of its newest value. */
static const struct metric_look {
    const char *name, *words;
    int digits;
    const char *field;
} metric_looks[] = {
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

static json_t *row_json(const struct ps_comparison_row *row) {
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:i, s:I, s:f, s:b}", "method", row->method, "schedule", row->schedule, "weights",
                  row->weights, "workers", row->workers, "memory_limit_bytes", (json_int_t)row->memory_limit_bytes,
                  "bandwidth_bytes_per_s", row->bandwidth_bytes_per_s, "feasible", !row->reason);
    if (row->wire) json_object_set_new(object, "wire", json_string(row->wire));
    if (row->reason) {
        json_object_set_new(object, "reason", json_string(row->reason));
        return object;
    }
    if (row->trained) {
        set_run(object, row);
        return object;
    }
    json_object_set_new(object, "chosen", json_string(row->chosen));
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

static json_t *comparison_document(const struct ps_comparison *comparison) {
    json_t *rows = json_array();
    for (int r = 0; r < ps_comparison_count(comparison); r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        json_array_append_new(rows, row_json(&row));
    }
    json_t *root = json_pack("{s:s, s:o}", "model", ps_comparison_model(comparison), "rows",
                             json_whole(rows, ps_comparison_count(comparison)));
    if (ps_comparison_largest(comparison)) json_object_set_new(root, "largest", json_string(ps_comparison_largest(comparison)));
    return root;
}

char *ps_comparison_json(const struct ps_comparison *comparison) { return json_text(comparison_document(comparison)); }

/* ----------------------------------------------------------------------- cells */

static const char *rate_text(double bytes_per_s, char out[32]) {
    if (bytes_per_s <= 0) return "no limit";
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s"};
    int unit = 0;
    for (; unit < 3 && bytes_per_s >= 1000; unit++) bytes_per_s /= 1000;
    number_print(out, 32, "%.4g %s", bytes_per_s, units[unit]);
    return out;
}

static const char *limit_text(int64_t bytes, char out[32]) { return bytes > 0 ? text_bytes(bytes, out) : "no limit"; }

/* "445.6 M" */
static char *parameters_text(int64_t parameters, char out[32]) {
    if (parameters < 1000000000)
        number_print(out, 32, "%.1f M", 1e-6 * (double)parameters);
    else
        number_print(out, 32, "%.2f B", 1e-9 * (double)parameters);
    return out;
}

static void show_rate(struct text *out, const json_t *value) {
    char shown[32];
    text_add(out, "%s", rate_text(json_number_value(value), shown));
}

static void show_limit(struct text *out, const json_t *value) {
    char shown[32];
    text_add(out, "%s", limit_text(json_integer_value(value), shown));
}

static void show_parameters(struct text *out, const json_t *value) {
    char shown[32];
    text_add(out, "%s", parameters_text(json_integer_value(value), shown));
}

static void show_rounded(struct text *out, const json_t *value) { text_add(out, "%.4g", json_number_value(value)); }

/* "auto (madpipe)": the method and the one that it chose. */
static void show_chosen(struct text *out, const json_t *row) {
    const char *method = json_string_value(json_object_get(row, "method"));
    const char *chosen = json_string_value(json_object_get(row, "chosen"));
    text_add(out, "%s", method);
    if (chosen && strcmp(chosen, method) != 0) text_add(out, " (%s)", chosen);
}

static void show_note(struct text *out, const json_t *row) {
    const char *reason = json_string_value(json_object_get(row, "reason"));
    if (reason)
        text_add(out, "%s", reason);
    else if (!json_object_get(row, "period_s"))
        text_add(out, "objective %.3f ms; cannot be simulated or run",
                 1e3 * json_number_value(json_object_get(row, "objective_s")));
}

/* ---------------------------------------------------------------------- tables */

#define RUN_COLUMNS                                                                                                            \
    JSON_COLUMN("schedule", "schedule", json_show_text), JSON_COLUMN("weights", "weights", json_show_text),                    \
        JSON_COLUMN("workers", "workers", json_show_integer)
#define METHOD_COLUMNS JSON_COLUMN("method", "method", json_show_text), RUN_COLUMNS
#define MACHINE_COLUMNS                                                                                                        \
    JSON_COLUMN("memory", "memory_limit_bytes", show_limit), JSON_COLUMN("bandwidth", "bandwidth_bytes_per_s", show_rate)

/* Were codecs asked for? Then all rows have one. */
static bool has_wires(const struct ps_comparison *comparison) {
    return ps_comparison_count(comparison) > 0 && ps_comparison_row(comparison, 0).wire;
}

/* The rows of the comparison's document as a table; with codecs there is a column of them before that of the workers. */
static void add_rows(const struct ps_comparison *comparison, const struct json_column *columns, size_t count,
                     struct text *out) {
    enum { BEFORE = 3, MOST = 24 };
    struct json_column own[MOST + 1];
    struct text rows = {0};
    json_t *document = comparison_document(comparison);
    const bool wires = has_wires(comparison);
    assert(count >= BEFORE && count <= MOST);
    memcpy(own, columns, BEFORE * sizeof *own);
    if (wires) own[BEFORE] = (struct json_column)JSON_COLUMN("wire", "wire", json_show_text);
    memcpy(own + BEFORE + wires, columns + BEFORE, (count - BEFORE) * sizeof *own);
    json_table(&rows, json_object_get(document, "rows"), own, count + wires);
    text_add_table(out, &rows);
    if (!document) out->failed = true;
    json_decref(document);
}

/* The metric over time: a column per epoch (per segment if segments are not epochs), up to a maximum. */
enum { WAY_COLUMNS = 12 };

static int way_length(const struct ps_comparison *comparison) {
    int longest = 0;
    for (int r = 0; r < ps_comparison_count(comparison); r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        if (row.trained && isfinite(row.best) && ps_run_point_count(row.run) > longest) longest = ps_run_point_count(row.run);
    }
    return longest;
}

/* The point that column `column` of `columns` shows. */
static int way_point(int column, int columns, int length) { return (column + 1) * length / columns - 1; }

static void add_what(struct text *rows, const struct ps_comparison_row *row) {
    text_add(rows, "%s\t%s\t%s", row->method, row->schedule, row->weights);
    if (row->wire) text_add(rows, "\t%s", row->wire);
    text_add(rows, "\t%d", row->workers);
}

static void add_what_head(struct text *rows, bool wires) {
    text_add(rows, "method\tschedule\tweights%s\tworkers", wires ? "\twire" : "");
}

static void add_way_head(struct text *rows, const struct ps_comparison_row *longest, int columns) {
    add_what_head(rows, longest->wire);
    for (int c = 0; c < columns; c++) {
        const int point = way_point(c, columns, ps_run_point_count(longest->run));
        text_add(rows, "\tepoch %d", ps_run_point(longest->run, point).epoch);
    }
    text_add(rows, "\n");
}

/* Appends the table of tab-separated `rows` under a title; nothing if there are none. */
static void add_table(struct text *out, const char *title, struct text *rows) {
    if (rows->length == 0) return;
    text_add(out, "\n%s\n\n", title);
    text_add_table(out, rows);
}

static void add_ways(const struct ps_comparison *comparison, struct text *out) {
    struct text rows = {0};
    char title[64] = "", value[32];
    const int length = way_length(comparison), columns = length < WAY_COLUMNS ? length : WAY_COLUMNS;
    for (int r = 0; r < ps_comparison_count(comparison) && length > 1; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        if (!row.trained || ps_run_point_count(row.run) != length) continue;
        if (!rows.length) add_way_head(&rows, &row, columns);
        snprintf(title, sizeof title, "validation %s", metric_looks[row.metric].words);
        add_what(&rows, &row);
        for (int c = 0; c < columns; c++) {
            const struct ps_run_point point = ps_run_point(row.run, way_point(c, columns, length));
            number_print(value, sizeof value, "%.*f", metric_looks[row.metric].digits, ps_run_point_metric(&point, row.metric));
            text_add(&rows, "\t%s", value);
        }
        text_add(&rows, "\n");
    }
    add_table(out, title, &rows);
}

/* The memory of each worker, up to a maximum number of workers. */
enum { MEMORY_COLUMNS = 16 };

/* 0: it was not trained. */
static int trained_workers(const struct ps_comparison *comparison, int number) {
    const struct ps_comparison_row row = ps_comparison_row(comparison, number);
    return row.trained ? ps_run_info(row.run).workers : 0;
}

static void add_memory(const struct ps_comparison *comparison, struct text *out) {
    struct text rows = {0};
    char bytes[32];
    int most = 0;
    for (int r = 0; r < ps_comparison_count(comparison); r++) {
        const int workers = trained_workers(comparison, r);
        if (workers > most && workers <= MEMORY_COLUMNS) most = workers;
    }
    if (most > 1) add_what_head(&rows, has_wires(comparison));
    for (int w = 0; w < most && most > 1; w++) text_add(&rows, "\tworker %d", w);
    for (int r = 0; r < ps_comparison_count(comparison) && most > 1; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        const int workers = trained_workers(comparison, r);
        if (workers == 0 || workers > MEMORY_COLUMNS) continue;
        text_add(&rows, "\n");
        add_what(&rows, &row);
        for (int w = 0; w < most; w++)
            text_add(&rows, "\t%s", w < workers ? text_bytes(ps_run_worker(row.run, w).measured_bytes, bytes) : "");
    }
    if (most > 1) text_add(&rows, "\n");
    add_table(out, "memory", &rows);
}

static bool is_trained(const struct ps_comparison *comparison) {
    for (int r = 0; r < ps_comparison_count(comparison); r++)
        if (ps_comparison_row(comparison, r).trained) return true;
    return false;
}

static char *trained_table(const struct ps_comparison *comparison) {
    const struct ps_comparison_row any = ps_comparison_row(comparison, 0);
    const struct metric_look *look = &metric_looks[any.metric];
    struct json_column columns[] = {
        METHOD_COLUMNS,
        JSON_NUMBER("loss", "loss", 4),
        JSON_NUMBER("accuracy", "accuracy", 4),
        JSON_NUMBER("valid loss", "valid_loss", 4),
        JSON_NUMBER("valid accuracy", "valid_accuracy", 4),
        JSON_NUMBER(look->words, look->field, look->digits),
        JSON_NUMBER("best", "best", look->digits),
        JSON_COLUMN("in epoch", "best_epoch", json_show_integer),
        JSON_NUMBER("samples/s", "samples_per_s", 1),
        JSON_NUMBER("predicted", "predicted_samples_per_s", 1),
        JSON_COLUMN("largest", "measured_bytes", json_show_bytes),
        JSON_COLUMN("to target", "target_s", json_show_seconds),
        JSON_COLUMN("note", "reason", json_show_text, .missing = ""),
    };
    enum { METRIC = 8, COLUMNS = sizeof columns / sizeof columns[0] };
    int count = COLUMNS;
    if (any.metric == PS_METRIC_ACCURACY || any.metric == PS_METRIC_LOSS) /* which have columns already */
        memmove(&columns[METRIC], &columns[METRIC + 1], (size_t)(--count - METRIC) * sizeof columns[0]);
    struct text out = {0};
    add_rows(comparison, columns, (size_t)count, &out);
    if (any.target > 0) text_add(&out, "\ntarget: validation %s %.*f\n", look->words, look->digits, any.target);
    add_ways(comparison, &out);
    add_memory(comparison, &out);
    return text_take(&out);
}

static char *largest_table(const struct ps_comparison *comparison) {
    const char *key = ps_comparison_largest(comparison);
    const struct json_column columns[] = {
        METHOD_COLUMNS,
        MACHINE_COLUMNS,
        JSON_COLUMN(key, "largest", json_show_integer),
        JSON_COLUMN("parameters", "parameters", show_parameters),
        JSON_COLUMN("needs", "memory_bytes", json_show_bytes),
        JSON_COLUMN("period", "period_s", json_show_seconds),
        JSON_NUMBER("speed-up", "speedup", 3),
        JSON_COLUMN("note", "reason", json_show_text, .missing = ""),
    };
    struct text out = {0};
    text_add(&out,
             "%s, the largest number of %s that fits; what its fullest worker needs, a mini-batch of it, speed-up over one "
             "worker with memory enough\n\n",
             ps_comparison_model(comparison), key);
    add_rows(comparison, columns, sizeof columns / sizeof columns[0], &out);
    return text_take(&out);
}

char *ps_comparison_table(const struct ps_comparison *comparison) {
    static const struct json_column columns[] = {
        JSON_COLUMN("method", "", show_chosen),
        RUN_COLUMNS,
        MACHINE_COLUMNS,
        JSON_COLUMN("period", "period_s", json_show_seconds),
        JSON_COLUMN("samples/s", "throughput_samples_per_s", show_rounded),
        JSON_NUMBER("speed-up", "speedup", 3),
        JSON_PERCENT("bubble", "bubble", 1),
        JSON_COLUMN("largest", "memory_bytes", json_show_bytes),
        JSON_COLUMN("copies", "weight_copies", json_show_integer),
        JSON_PERCENT("gap", "gap", 2),
        JSON_COLUMN("solved in", "solve_s", json_show_seconds),
        JSON_COLUMN("note", "", show_note),
    };
    struct text out = {0};
    if (is_trained(comparison)) return trained_table(comparison);
    if (ps_comparison_largest(comparison)) return largest_table(comparison);
    text_add(&out,
             "%s, a mini-batch in steady state; speed-up over one worker, largest memory and copies of the weights of a "
             "worker\n\n",
             ps_comparison_model(comparison));
    add_rows(comparison, columns, sizeof columns / sizeof columns[0], &out);
    return text_take(&out);
}

/* ---------------------------------------------------------------------- grids */

/*
 * Methods compared as in the papers (MadPipe's figures, BaPipe's Table III): a row for each machine, by workers, bandwidth and
 * memory, and a column for each method with its schedule and weights. A cell has the period and the speed-up over one worker,
 * the largest network that fits (BaPipe's Table IV), or, of trainings, the best metric and the speed.
 */

static bool same_machine(const struct ps_comparison_row *a, const struct ps_comparison_row *b) {
    return a->workers == b->workers && a->memory_limit_bytes == b->memory_limit_bytes &&
           a->bandwidth_bytes_per_s == b->bandwidth_bytes_per_s;
}

/* The number of rows from `first` on that are of the same machine: the columns. */
static int count_columns(const struct ps_comparison *comparison, int first) {
    struct ps_comparison_row start = ps_comparison_row(comparison, first);
    int count = 1;
    for (; first + count < ps_comparison_count(comparison); count++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, first + count);
        if (!same_machine(&start, &row)) break;
    }
    return count;
}

/* Is a method in more than one of the columns? */
static bool repeats(const struct ps_comparison *comparison, int columns) {
    for (int c = 0; c < columns; c++)
        for (int d = 0; d < c; d++)
            if (strcmp(ps_comparison_row(comparison, c).method, ps_comparison_row(comparison, d).method) == 0) return true;
    return false;
}

static void add_grid_head(const struct ps_comparison *comparison, int columns, struct text *rows) {
    bool whole = repeats(comparison, columns);
    text_add(rows, "workers\tbandwidth\tmemory");
    for (int c = 0; c < columns; c++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, c);
        text_add(rows, "\t%s", row.method);
        if (whole) text_add(rows, " %s %s", row.schedule, row.weights);
    }
    text_add(rows, "\n");
}

static void add_trained_cell(const struct ps_comparison_row *row, struct text *rows) {
    char best[32], rate[32];
    number_print(rate, sizeof rate, "%.1f/s", ps_run_info(row->run).samples_per_s);
    if (isfinite(row->best)) number_print(best, sizeof best, "%.*f at ", metric_looks[row->metric].digits, row->best);
    text_add(rows, "\t%s%s", isfinite(row->best) ? best : "", rate);
}

static void add_grid_cell(const struct ps_comparison_row *row, struct text *rows) {
    char period[32];
    if (row->reason)
        text_add(rows, "\t-");
    else if (row->trained)
        add_trained_cell(row, rows);
    else if (row->largest > 0)
        text_add(rows, "\t%d (%s)", row->largest, parameters_text(row->parameters, period));
    else if (!row->simulated)
        text_add(rows, "\t%.3f ms planned", 1e3 * row->objective_s);
    else
        text_add(rows, "\t%s x%.2f", text_seconds(row->period_s, period), row->speedup);
}

char *ps_comparison_grid(const struct ps_comparison *comparison) {
    struct text rows = {0}, out = {0};
    int count = ps_comparison_count(comparison), columns = count > 0 ? count_columns(comparison, 0) : 0;
    add_grid_head(comparison, columns, &rows);
    for (int first = 0; first < count; first += columns) {
        struct ps_comparison_row machine = ps_comparison_row(comparison, first);
        char memory[32], bandwidth[32];
        text_add(&rows, "%d\t%s\t%s", machine.workers, rate_text(machine.bandwidth_bytes_per_s, bandwidth),
                 limit_text(machine.memory_limit_bytes, memory));
        for (int c = first; c < first + columns; c++) {
            struct ps_comparison_row row = ps_comparison_row(comparison, c);
            add_grid_cell(&row, &rows);
        }
        text_add(&rows, "\n");
    }
    if (is_trained(comparison))
        text_add(&out, "%s: best validation %s, and samples per second; -: no plan\n\n", ps_comparison_model(comparison),
                 metric_looks[ps_comparison_row(comparison, 0).metric].words);
    else if (ps_comparison_largest(comparison))
        text_add(&out, "%s: the largest number of %s that fits, and its parameters; -: no plan\n\n",
                 ps_comparison_model(comparison), ps_comparison_largest(comparison));
    else
        text_add(&out, "%s: a mini-batch in steady state every ..., and speed-up over one worker; -: no plan\n\n",
                 ps_comparison_model(comparison));
    text_add_table(&out, &rows);
    return text_take(&out);
}
