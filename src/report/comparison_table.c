/*
 * Comparisons as tables for people. A table is of one network; it has the best of each machine first, and says over it what all
 * of its rows have in common. No line is longer than LINE columns: figures that matter least are left out, which is said, and
 * long names are cut.
 */
#include "report/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/number.h"

enum { LINE = 120, CELL = COMPARISON_CELL, NARROWEST = 8, NOTE_LEAST = 40 };

/* --------------------------------------------------------------------------- sheets */

/* A table before it is written: cells, and what stands in a row after them or in their place. */
struct sheet_column {
    const char *heading;
    bool number; /* right-aligned */
    bool figure; /* a row without figures has its note there; such columns are the last */
    int drop;    /* when the line is too long the column with the largest goes first; 0: none */
    size_t width;
    bool gone;
};

struct sheet {
    int rows, columns;
    struct sheet_column *column;
    char (*cells)[CELL]; /* row by row */
    char **notes;        /* per row; NULL: none */
    bool *gaps;          /* per row: an empty line before it */
    bool failed;
};

static void sheet_open(struct sheet *sheet, int rows, int columns) {
    *sheet = (struct sheet){.rows = rows, .columns = columns};
    sheet->column = calloc((size_t)columns + 1, sizeof *sheet->column);
    sheet->cells = calloc((size_t)(rows * columns) + 1, sizeof *sheet->cells);
    sheet->notes = calloc((size_t)rows + 1, sizeof *sheet->notes);
    sheet->gaps = calloc((size_t)rows + 1, sizeof *sheet->gaps);
    sheet->failed = !sheet->column || !sheet->cells || !sheet->notes || !sheet->gaps;
    if (sheet->failed) sheet->rows = sheet->columns = 0;
}

static void sheet_close(struct sheet *sheet) {
    for (int r = 0; r < sheet->rows; r++) free(sheet->notes[r]);
    free(sheet->column);
    free(sheet->cells);
    free(sheet->notes);
    free(sheet->gaps);
}

static char *cell_at(const struct sheet *sheet, int row, int column) { return sheet->cells[row * sheet->columns + column]; }

/* Code points. */
static size_t points_in(const char *text) {
    size_t points = 0;
    for (; *text; text++) points += ((unsigned char)*text & 0xC0) != 0x80;
    return points;
}

static void sheet_measure(struct sheet *sheet) {
    for (int c = 0; c < sheet->columns; c++) {
        size_t width = points_in(sheet->column[c].heading);
        for (int r = 0; r < sheet->rows; r++) {
            const size_t points = points_in(cell_at(sheet, r, c));
            if (points > width) width = points;
        }
        sheet->column[c].width = width;
    }
}

/* Of a line; up to the first figure, if `settings`. */
static size_t sheet_width(const struct sheet *sheet, bool settings) {
    size_t width = 0;
    for (int c = 0; c < sheet->columns; c++)
        if (!sheet->column[c].gone && !(settings && sheet->column[c].figure)) width += sheet->column[c].width + 2;
    return width;
}

/* Leaves out columns, and cuts names, until a line is short enough. */
static void sheet_fit(struct sheet *sheet, struct text *left_out) {
    while (sheet_width(sheet, false) > LINE + 2) {
        struct sheet_column *least = NULL, *widest = NULL;
        for (int c = 0; c < sheet->columns; c++) {
            struct sheet_column *column = &sheet->column[c];
            if (column->gone) continue;
            if (column->drop > (least ? least->drop : 0)) least = column;
            if (!widest || column->width > widest->width) widest = column;
        }
        if (least) {
            least->gone = true;
            text_add(left_out, "%s%s", left_out->length > 0 ? ", " : "", least->heading);
        } else if (widest && widest->width > NARROWEST) {
            widest->width--;
        } else {
            break;
        }
    }
}

static void add_cell(struct text *out, const char *cell, const struct sheet_column *column) {
    const size_t points = points_in(cell);
    if (points > column->width) { /* a name: its beginning */
        text_add(out, "%.*s..", (int)utf8_whole(cell, column->width - 2), cell);
        return;
    }
    const int pad = (int)(column->width - points);
    text_add(out, "%*s%s%*s", column->number ? pad : 0, "", cell, column->number ? 0 : pad, "");
}

/* Text from column `at` on, broken into lines at blanks that go on at `indent`. */
static void add_wrapped(struct text *out, const char *text, size_t at, size_t indent) {
    bool first = true;
    while (*text) {
        size_t length = strcspn(text, " \n"), points = 0;
        for (size_t i = 0; i < length; i++) points += ((unsigned char)text[i] & 0xC0) != 0x80;
        /* A word that is longer than a line, as a path, is broken. */
        if (points > LINE - indent) length = points = LINE - indent;
        if (!first && at + 1 + points > LINE) {
            text_add(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            text_add(out, " ");
            at++;
        }
        text_add_raw(out, text, length);
        at += points;
        text += length;
        while (*text == ' ' || *text == '\n') text++;
        first = false;
    }
    text_add(out, "\n");
}

/* The same of a text that is made up from pieces; frees it. */
static void add_paragraph(struct text *out, struct text *words) {
    char *text = text_take(words);
    if (text)
        add_wrapped(out, text, 0, 0);
    else
        out->failed = true;
    free(text);
}

static void trim_line(struct text *out) {
    while (out->length > 0 && out->data[out->length - 1] == ' ') out->data[--out->length] = '\0';
}

static bool has_figures(const struct sheet *sheet, int row) {
    for (int c = 0; c < sheet->columns; c++)
        if (sheet->column[c].figure && !sheet->column[c].gone && strcmp(cell_at(sheet, row, c), "-") != 0) return true;
    return false;
}

static void add_row(const struct sheet *sheet, int row, struct text *out) {
    const char *note = sheet->notes[row];
    const size_t settings = sheet_width(sheet, true);
    const bool figures = has_figures(sheet, row), beside = !figures && note && settings + NOTE_LEAST <= LINE;
    if (sheet->gaps[row]) text_add(out, "\n");
    bool any = false;
    for (int c = 0; c < sheet->columns; c++) {
        const struct sheet_column *column = &sheet->column[c];
        if (column->gone || (beside && column->figure)) continue;
        if (any) text_add(out, "  ");
        add_cell(out, cell_at(sheet, row, c), column);
        any = true;
    }
    if (beside) text_add(out, "  ");
    if (beside) {
        add_wrapped(out, note, settings, settings);
        return;
    }
    trim_line(out);
    text_add(out, "\n");
    if (!note) return;
    text_add(out, "    ");
    add_wrapped(out, note, 4, 4);
}

static void sheet_print(struct sheet *sheet, struct text *out) {
    struct text left_out = {0};
    sheet_measure(sheet);
    sheet_fit(sheet, &left_out);
    bool any = false;
    for (int c = 0; c < sheet->columns; c++) {
        if (sheet->column[c].gone) continue;
        if (any) text_add(out, "  ");
        add_cell(out, sheet->column[c].heading, &sheet->column[c]);
        any = true;
    }
    trim_line(out);
    text_add(out, "\n");
    for (int r = 0; r < sheet->rows; r++) add_row(sheet, r, out);
    if (left_out.length > 0) {
        struct text line = {0};
        text_add(&line, "(without %s, for want of room: `json` and `csv` have all)", left_out.data);
        add_paragraph(out, &line);
    }
    if (sheet->failed || left_out.failed) out->failed = true;
    text_free(&left_out);
}

/* --------------------------------------------------------------------------- cells */

static const char *rate_text(double bytes_per_s, char out[32]) {
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s"};
    int unit = 0;
    for (; unit < 3 && bytes_per_s >= 1000; unit++) bytes_per_s /= 1000;
    number_print(out, 32, "%.4g %s", bytes_per_s, units[unit]);
    return out;
}

/* "445.6 M" */
static void parameters_text(double parameters, char out[32]) {
    if (parameters < 1e9)
        number_print(out, 32, "%.1f M", 1e-6 * parameters);
    else
        number_print(out, 32, "%.2f B", 1e-9 * parameters);
}

enum look { NUMBER, ROUNDED, PERCENT, SECONDS, BYTES, PARAMETERS };

static void show(double value, enum look look, int digits, char out[32]) {
    switch (look) {
    case NUMBER:
        number_print(out, 32, "%.*f", digits, value);
        return;
    case ROUNDED:
        number_print(out, 32, "%.4g", value);
        return;
    case PERCENT:
        number_print(out, 32, "%.*f %%", digits, 100 * value);
        return;
    case SECONDS:
        text_seconds(value, out);
        return;
    case BYTES:
        text_bytes((int64_t)value, out);
        return;
    case PARAMETERS:
        parameters_text(value, out);
        return;
    }
}

static const json_t *sibling(const json_t *row, const char *field, const char *suffix) {
    char name[64];
    snprintf(name, sizeof name, "%s%s", field, suffix);
    return json_object_get(row, name);
}

/* "0.8312 +- 0.0041 (2/3)": of several seeds the mean, how far they are apart, and how many of them have the figure. */
static void figure_cell(const json_t *row, const char *field, enum look look, int digits, bool spreads, char out[CELL]) {
    const json_t *value = json_object_get(row, field), *spread = sibling(row, field, "_spread"),
                 *known = sibling(row, field, "_seeds");
    char number[32], deviation[32];
    if (!json_is_number(value)) {
        strcpy(out, "-");
        return;
    }
    show(json_number_value(value), look, digits, number);
    size_t used = (size_t)snprintf(out, CELL, "%s", number);
    if (spread && spreads) {
        show(json_number_value(spread), look, digits, deviation);
        used += (size_t)snprintf(out + used, CELL - used, " +- %s", deviation);
    }
    if (known)
        snprintf(out + used, CELL - used, " (%lld/%lld)", (long long)json_integer_value(known),
                 (long long)json_integer_value(json_object_get(row, "seeds")));
}

/* -------------------------------------------------------------------------- settings */

static const char *string_of(const json_t *row, const char *field) {
    const char *text = json_string_value(json_object_get(row, field));
    return text ? text : "";
}

static long long integer_of(const json_t *row, const char *field) {
    return (long long)json_integer_value(json_object_get(row, field));
}

static void workers_cell(const json_t *row, char out[CELL]) { snprintf(out, CELL, "%lld", integer_of(row, "workers")); }

static void memory_cell(const json_t *row, char out[CELL]) {
    char bytes[32];
    const long long limit = integer_of(row, "memory_limit_bytes");
    if (*string_of(row, "memory_limit"))
        snprintf(out, CELL, "%s", string_of(row, "memory_limit"));
    else
        snprintf(out, CELL, "%s", limit > 0 ? text_bytes(limit, bytes) : "no limit");
}

static void bandwidth_cell(const json_t *row, char out[CELL]) {
    char rate[32];
    const double bytes_per_s = json_number_value(json_object_get(row, "bandwidth_bytes_per_s"));
    if (*string_of(row, "bandwidth"))
        snprintf(out, CELL, "%s", string_of(row, "bandwidth"));
    else
        snprintf(out, CELL, "%s", bytes_per_s > 0 ? rate_text(bytes_per_s, rate) : "no limit");
}

static void rank_cell(const json_t *row, char out[CELL]) {
    if (json_object_get(row, "rank"))
        snprintf(out, CELL, "%lld", integer_of(row, "rank"));
    else
        strcpy(out, "-");
}

/* "auto (madpipe)": the method and the one that it chose. */
static void method_cell(const json_t *row, char out[CELL]) {
    const char *method = string_of(row, "method"), *chosen = string_of(row, "chosen");
    const bool other = *chosen && strcmp(chosen, method) != 0;
    snprintf(out, CELL, "%.40s%s%.40s%s", method, other ? " (" : "", other ? chosen : "", other ? ")" : "");
}

static void schedule_cell(const json_t *row, char out[CELL]) { snprintf(out, CELL, "%s", string_of(row, "schedule")); }
static void weights_cell(const json_t *row, char out[CELL]) { snprintf(out, CELL, "%s", string_of(row, "weights")); }
static void wire_cell(const json_t *row, char out[CELL]) { snprintf(out, CELL, "%s", string_of(row, "wire")); }
static void precision_cell(const json_t *row, char out[CELL]) { snprintf(out, CELL, "%s", string_of(row, "precision")); }

/* "64 = 4 x 16": the mini-batch, and how many micro-batches of how many samples it is. */
static void batch_cell(const json_t *row, char out[CELL]) {
    const long long batch = integer_of(row, "batch"), micro = integer_of(row, "micro_batch");
    if (batch == 0)
        strcpy(out, "-");
    else
        snprintf(out, CELL, "%lld = %lld x %lld", batch, integer_of(row, "micro_batches"), micro > 0 ? micro : 1);
}

/* What was asked for of a row. What all rows have in common stands over the table, in these words; NULL: never. */
static const struct setting {
    const char *heading;
    void (*show)(const json_t *row, char out[CELL]);
    const char *before, *after; /* of the words */
    const char *silent;         /* this value is not worth a word */
    bool number;
} settings[] = {
    {"workers", workers_cell, "", " workers", NULL, true},
    {"memory", memory_cell, "memory ", "", "no limit", true},
    {"bandwidth", bandwidth_cell, "", " links", "no limit", true},
    {"rank", rank_cell, NULL, NULL, NULL, true},
    {"method", method_cell, "method ", "", "", false},
    {"schedule", schedule_cell, "schedule ", "", "", false},
    {"weights", weights_cell, "weights ", "", "", false},
    {"wire", wire_cell, "wire ", "", "", false},
    {"precision", precision_cell, "precision ", "", "f32", false},
    {"batch", batch_cell, "batch ", "", "-", true},
};
enum { SETTING_RANK = 3, SETTING_METHOD = 4, SETTING_PRECISION = 8, SETTINGS = sizeof settings / sizeof *settings };
_Static_assert((int)SETTINGS == (int)COMPARISON_SETTINGS, "a section knows of each setting whether its rows share it");

/* ------------------------------------------------------------------------- sections */

static int machine_of(const json_t *row, json_t *const *rows, const int *machines, int count) {
    static const char *const fields[] = {"workers", "memory_limit_bytes", "bandwidth_bytes_per_s"};
    int most = -1;
    for (int o = 0; o < count; o++) {
        bool same = true;
        for (int f = 0; f < 3; f++)
            same &= json_equal(json_object_get(row, fields[f]), json_object_get(rows[o], fields[f])) != 0;
        if (same) return machines[o];
        if (machines[o] > most) most = machines[o];
    }
    return most + 1;
}

static bool stands_before(const struct section *section, int a, int b) {
    if (section->machines[a] != section->machines[b]) return section->machines[a] < section->machines[b];
    const long long one = integer_of(section->rows[a], "rank"), other = integer_of(section->rows[b], "rank");
    return one > 0 && (other == 0 || one < other);
}

/* By machine, then rank; rows are few, and stay in order where these are equal. */
static void sort_section(struct section *section) {
    for (int i = 1; i < section->count; i++)
        for (int j = i; j > 0 && stands_before(section, j, j - 1); j--) {
            json_t *row = section->rows[j];
            const int machine = section->machines[j];
            section->rows[j] = section->rows[j - 1];
            section->machines[j] = section->machines[j - 1];
            section->rows[j - 1] = row;
            section->machines[j - 1] = machine;
        }
}

static void find_common(struct section *section) {
    char first[CELL], cell[CELL];
    for (int s = 0; s < SETTINGS; s++) {
        if (!settings[s].before) continue;
        bool known = false, same = true;
        for (int r = 0; r < section->count; r++) {
            settings[s].show(section->rows[r], cell);
            if (strcmp(cell, "-") == 0) continue; /* a row without a plan has no batch */
            if (!known) memcpy(first, cell, sizeof first);
            same &= strcmp(first, cell) == 0;
            known = true;
        }
        section->common[s] =
            same && (section->count > 1 || !known || (settings[s].silent && strcmp(first, settings[s].silent) == 0));
    }
    /* A row has a name, whatever else they have in common. */
    bool named = false;
    for (int s = SETTING_METHOD; s <= SETTING_PRECISION; s++) named |= !section->common[s];
    if (!named) section->common[SETTING_METHOD] = false;
}

/* False: memory ran out. */
static bool section_open(struct section *section, const json_t *document, json_t *const *rows, int count, int seeds) {
    *section = (struct section){.document = document, .count = count, .seeds = seeds, .model = string_of(rows[0], "model")};
    section->rows = calloc((size_t)count, sizeof *section->rows);
    section->machines = calloc((size_t)count, sizeof *section->machines);
    if (!section->rows || !section->machines) return false;
    for (int r = 0; r < count; r++) {
        section->machines[r] = machine_of(rows[r], section->rows, section->machines, r);
        section->rows[r] = rows[r];
        section->trained |= json_object_get(rows[r], "measured_bytes") != NULL;
    }
    sort_section(section);
    find_common(section);
    return true;
}

static void section_close(struct section *section) {
    free(section->rows);
    free(section->machines);
}

/* "; 4 workers, weights sync, batch 64 = 4 x 16" */
static void add_common(const struct section *section, struct text *out) {
    bool any = false;
    for (int s = 0; s < SETTINGS; s++) {
        char cell[CELL] = "-";
        for (int r = 0; r < section->count && strcmp(cell, "-") == 0; r++) settings[s].show(section->rows[r], cell);
        if (!section->common[s] || (settings[s].silent && strcmp(cell, settings[s].silent) == 0)) continue;
        const bool one = settings[s].show == workers_cell && strcmp(cell, "1") == 0;
        text_add(out, "%s%s%s%s", any ? ", " : ": ", settings[s].before, cell, one ? " worker" : settings[s].after);
        any = true;
    }
}

/* Fills the first columns; returns how many. */
static int add_settings(const struct section *section, bool ranks, struct sheet *sheet) {
    int columns = 0;
    for (int s = 0; s < SETTINGS; s++) {
        if (section->common[s] || (!ranks && settings[s].show == rank_cell)) continue;
        if (sheet) {
            sheet->column[columns] = (struct sheet_column){
                .heading = settings[s].heading, .number = settings[s].number, .figure = settings[s].show == batch_cell};
            for (int r = 0; r < section->count; r++) settings[s].show(section->rows[r], cell_at(sheet, r, columns));
        }
        columns++;
    }
    return columns;
}

/* A line between machines, if they have several rows. */
static void add_gaps(const struct section *section, struct sheet *sheet) {
    const int machines = section->machines[section->count - 1] + 1;
    for (int r = 1; r < sheet->rows && machines < section->count; r++)
        sheet->gaps[r] = section->machines[r] != section->machines[r - 1];
}

/* ------------------------------------------------------------------------ main tables */

/* What rows come to, the most important first; `drop` 0: as long as there is room for anything. */
struct figure_column {
    const char *heading, *field;
    enum look look;
    int digits, drop;
    bool spread; /* of several seeds it matters how far they are apart */
};

static const struct figure_column simulated_columns[] = {
    {"period", "period_s", SECONDS, 0, 0, false},
    {"samples/s", "throughput_samples_per_s", ROUNDED, 0, 0, false},
    {"speed-up", "speedup", NUMBER, 3, 1, false},
    {"bubble", "bubble", PERCENT, 1, 3, false},
    {"largest", "memory_bytes", BYTES, 0, 2, false},
    {"copies", "weight_copies", NUMBER, 0, 4, false},
    {"gap", "gap", PERCENT, 2, 5, false},
    {"solved in", "solve_s", SECONDS, 0, 6, false},
};
static const struct figure_column largest_columns[] = {
    {"largest", "largest", NUMBER, 0, 0, false},   {"parameters", "parameters", PARAMETERS, 0, 0, false},
    {"needs", "memory_bytes", BYTES, 0, 1, false}, {"period", "period_s", SECONDS, 0, 2, false},
    {"speed-up", "speedup", NUMBER, 3, 3, false},
};
enum { METRIC_COLUMN = 4, BEST_COLUMN = 5 };
static const struct figure_column trained_columns[] = {
    {"loss", "loss", NUMBER, 4, 2, true},
    {"accuracy", "accuracy", NUMBER, 4, 7, true},
    {"valid loss", "valid_loss", NUMBER, 4, 5, true},
    {"valid accuracy", "valid_accuracy", NUMBER, 4, 4, true},
    {"metric", "metric", NUMBER, 4, 3, true}, /* BLEU, perplexity: what the section's rows say */
    {"best", "best", NUMBER, 4, 0, true},
    {"in epoch", "best_epoch", NUMBER, 0, 6, false},
    {"samples/s", "samples_per_s", NUMBER, 1, 0, false},
    {"predicted", "predicted_samples_per_s", NUMBER, 1, 8, false},
    {"largest", "measured_bytes", BYTES, 0, 1, false},
    {"to target", "target_s", SECONDS, 0, 0, false},
};
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

const struct metric_look *section_metric(const struct section *section) {
    for (int r = 0; r < section->count; r++)
        for (int m = 0; m <= PS_METRIC_LOSS; m++)
            if (strcmp(string_of(section->rows[r], "metric"), metric_looks[m].name) == 0) return &metric_looks[m];
    return &metric_looks[PS_METRIC_LOSS];
}

static bool has_figure(const struct section *section, const char *field) {
    for (int r = 0; r < section->count; r++)
        if (json_object_get(section->rows[r], field)) return true;
    return false;
}

/* Why a row has no figures, or not of all seeds; a plan that has no programs. NULL: nothing is to be said. */
static char *make_note(const json_t *row, bool *failed) {
    const char *reason = string_of(row, "reason");
    const long long seeds = integer_of(row, "seeds"), trained = integer_of(row, "trained");
    struct text note = {0};
    if (*reason && trained > 0)
        text_add(&note, "%lld of %lld seeds: %s", seeds - trained, seeds, reason);
    else if (*reason)
        text_add(&note, "%s", reason);
    else if (!json_object_get(row, "period_s") && !json_object_get(row, "measured_bytes"))
        text_add(&note, "objective %.3f ms; cannot be simulated or run",
                 1e3 * json_number_value(json_object_get(row, "objective_s")));
    *failed = *failed || note.failed;
    return note.length > 0 ? text_take(&note) : NULL;
}

static void add_main(const struct section *section, const struct figure_column *columns, int count, bool ranks,
                     struct text *out) {
    const struct metric_look *look = section_metric(section);
    struct figure_column shown[16];
    struct sheet sheet;
    int figures = 0;
    for (int c = 0; c < count; c++) {
        shown[figures] = columns[c];
        if (columns == trained_columns && c == METRIC_COLUMN) {
            shown[figures].heading = look->words;
            shown[figures].field = look->field;
            shown[figures].digits = look->digits;
            if (look == &metric_looks[PS_METRIC_ACCURACY] || look == &metric_looks[PS_METRIC_LOSS]) continue; /* stands there */
        }
        if (columns == trained_columns && c == BEST_COLUMN) shown[figures].digits = look->digits;
        figures += has_figure(section, shown[figures].field);
    }
    const int first = add_settings(section, ranks, NULL);
    sheet_open(&sheet, section->count, first + figures);
    if (!sheet.failed) add_settings(section, ranks, &sheet);
    for (int f = 0; f < figures && !sheet.failed; f++) {
        sheet.column[first + f] =
            (struct sheet_column){.heading = shown[f].heading, .number = true, .figure = true, .drop = shown[f].drop};
        for (int r = 0; r < section->count; r++)
            figure_cell(section->rows[r], shown[f].field, shown[f].look, shown[f].digits, shown[f].spread,
                        cell_at(&sheet, r, first + f));
    }
    for (int r = 0; r < sheet.rows; r++) sheet.notes[r] = make_note(section->rows[r], &sheet.failed);
    add_gaps(section, &sheet);
    sheet_print(&sheet, out);
    sheet_close(&sheet);
}

static const struct {
    const char *name, *words;
} ranked_words[] = {
    [PS_METRIC_ACCURACY] = {"accuracy", "the best validation accuracy"},
    [PS_METRIC_BLEU] = {"bleu", "the best BLEU of the validation data"},
    [PS_METRIC_PERPLEXITY] = {"perplexity", "the best perplexity of the validation data"},
    [PS_METRIC_LOSS] = {"valid_loss", "the best loss of the validation data"},
    {"throughput", "samples per second"},
    {"memory", "the memory of the worker that needs most"},
    {"loss", "the loss"},
    {"target", "the time to the target"},
    {"largest", "the largest network"},
};

static const char *words_of_rank(const struct section *section, const char *ranked_by) {
    for (int w = 0; w < COUNT(ranked_words); w++) {
        if (strcmp(ranked_words[w].name, ranked_by) != 0) continue;
        /* Each network has a metric of its own. */
        if (w <= PS_METRIC_LOSS && has_figure(section, "best")) w = (int)(section_metric(section) - metric_looks);
        return ranked_words[w].words;
    }
    return ranked_by;
}

static bool several_machines(const struct section *section) {
    for (int r = 0; r < section->count; r++)
        if (section->machines[r] > 0) return true;
    return false;
}

void section_title(const struct section *section, struct text *title) {
    const char *ranked_by = string_of(section->document, "ranked_by");
    text_add(title, "%s", section->model);
    add_common(section, title);
    if (section->seeds > 1) text_add(title, "; %d seeds: mean +- standard deviation", section->seeds);
    if (has_figure(section, "rank"))
        text_add(title, "; best first by %s%s", words_of_rank(section, ranked_by),
                 several_machines(section) ? ", for each machine" : "");
}

static void add_title(const struct section *section, const char *what, struct text *out) {
    struct text title = {0};
    section_title(section, &title);
    text_add(&title, "%s", what);
    add_paragraph(out, &title);
    text_add(out, "\n");
}

void section_label(const struct section *section, int row, char out[256]) {
    size_t used = 0;
    out[0] = '\0';
    for (int s = 0; s < SETTINGS && used < 256; s++) {
        char cell[CELL];
        if (s == SETTING_RANK || section->common[s]) continue;
        settings[s].show(section->rows[row], cell);
        if (strcmp(cell, "-") == 0 || settings[s].show == batch_cell) continue;
        used += (size_t)snprintf(out + used, 256 - used, "%s%s%s", used > 0 ? " " : "", cell, s == 0 ? " workers" : "");
    }
}

const char *section_ranked_field(const struct section *section) {
    static const struct {
        const char *name, *simulated, *trained;
    } fields[] = {{"throughput", "throughput_samples_per_s", "samples_per_s"},
                  {"memory", "memory_bytes", "measured_bytes"},
                  {"loss", "", "loss"},
                  {"target", "", "target_s"},
                  {"largest", "largest", ""}};
    const char *ranked_by = string_of(section->document, "ranked_by");
    for (int f = 0; f < COUNT(fields); f++)
        if (strcmp(fields[f].name, ranked_by) == 0) return section->trained ? fields[f].trained : fields[f].simulated;
    return section->trained ? "best" : "";
}

void section_figure(const json_t *row, const char *field, char out[CELL]) {
    static const struct {
        const struct figure_column *columns;
        int count;
    } tables[] = {{trained_columns, COUNT(trained_columns)},
                  {simulated_columns, COUNT(simulated_columns)},
                  {largest_columns, COUNT(largest_columns)}};
    strcpy(out, "-");
    for (int t = 0; t < COUNT(tables); t++)
        for (int c = 0; c < tables[t].count; c++) {
            const struct figure_column *column = &tables[t].columns[c];
            if (strcmp(column->field, field) != 0) continue;
            figure_cell(row, field, column->look, column->digits, column->spread, out);
            return;
        }
}

/* ---------------------------------------------------------------------- further tables */

enum { WAY_COLUMNS = 12, MEMORY_COLUMNS = 16 };

/* The number of the first of the document's rows that a section's row stands for. */
static int first_row(const struct section *section, const json_t *row) {
    const json_t *list = json_object_get(section->document, section->seeds > 1 ? "combinations" : "rows");
    for (size_t r = 0; r < json_array_size(list); r++)
        if (json_array_get(list, r) == row) return (int)r * section->seeds;
    return 0;
}

/* That seed's row of a section's row. */
static const json_t *seed_row(const struct section *section, int row, int seed) {
    return json_array_get(json_object_get(section->document, "rows"), (size_t)(first_row(section, section->rows[row]) + seed));
}

double section_point(const struct section *section, int row, int point, const char *field) {
    double sum = 0;
    int known = 0;
    for (int s = 0; s < section->seeds; s++) {
        const json_t *points = json_object_get(seed_row(section, row, s), "points"),
                     *value = json_object_get(json_array_get(points, (size_t)point), field);
        if (!json_is_number(value)) continue;
        sum += json_number_value(value);
        known++;
    }
    return known > 0 ? sum / known : NAN;
}

int section_points(const struct section *section, int row) {
    int most = 0;
    for (int s = 0; s < section->seeds; s++) {
        const int count = (int)json_array_size(json_object_get(seed_row(section, row, s), "points"));
        if (count > most) most = count;
    }
    return most;
}

/* As many columns of `width` as there is room for beside the settings. */
static int columns_that_fit(const struct section *section, int most, int width, struct text *out) {
    struct sheet sheet;
    const int columns = add_settings(section, false, NULL);
    sheet_open(&sheet, section->count, columns);
    if (!sheet.failed) add_settings(section, false, &sheet);
    sheet_measure(&sheet);
    const int room = LINE + 2 - (int)sheet_width(&sheet, false), fit = room / (width + 2);
    if (sheet.failed) out->failed = true;
    sheet_close(&sheet);
    return fit < 1 ? 1 : fit < most ? fit : most;
}

static void add_ways(const struct section *section, struct text *out) {
    const struct metric_look *look = section_metric(section);
    struct sheet sheet;
    int length = 0, longest = 0;
    for (int r = 0; r < section->count; r++) {
        const int points = section_points(section, r);
        if (points > length && json_object_get(section->rows[r], "best")) length = points, longest = r;
    }
    if (length < 2) return;
    const int columns = columns_that_fit(section, length < WAY_COLUMNS ? length : WAY_COLUMNS, look->digits + 4, out),
              settings_count = add_settings(section, false, NULL);
    char(*headings)[32] = calloc((size_t)columns, sizeof *headings);
    sheet_open(&sheet, section->count, settings_count + columns);
    if (headings && !sheet.failed) add_settings(section, false, &sheet);
    for (int c = 0; headings && c < columns && !sheet.failed; c++) {
        const int point = (c + 1) * length / columns - 1;
        number_print(headings[c], sizeof headings[c], "epoch %.0f", section_point(section, longest, point, "epoch"));
        sheet.column[settings_count + c] = (struct sheet_column){.heading = headings[c], .number = true, .figure = true};
        for (int r = 0; r < section->count; r++) {
            const double value = section_point(section, r, point, look->field);
            char *cell = cell_at(&sheet, r, settings_count + c);
            if (isfinite(value))
                number_print(cell, CELL, "%.*f", look->digits, value);
            else
                strcpy(cell, "-");
        }
    }
    text_add(out, "\nvalidation %s%s\n\n", look->words, section->seeds > 1 ? ", mean of the seeds" : "");
    add_gaps(section, &sheet);
    if (headings)
        sheet_print(&sheet, out);
    else
        out->failed = true;
    sheet_close(&sheet);
    free(headings);
}

/* Of the first seed that was trained; NULL: none was. */
static const json_t *memory_of(const struct section *section, int row) {
    for (int s = 0; s < section->seeds; s++) {
        const json_t *memory = json_object_get(seed_row(section, row, s), "memory_bytes");
        if (json_is_array(memory)) return memory;
    }
    return NULL;
}

static void add_memory(const struct section *section, struct text *out) {
    struct sheet sheet;
    int most = 0;
    for (int r = 0; r < section->count; r++) {
        const int workers = (int)json_array_size(memory_of(section, r));
        if (workers > most) most = workers;
    }
    if (most < 2 || most > MEMORY_COLUMNS) return;
    const int columns = columns_that_fit(section, most, (int)strlen("1023.00 KiB"), out),
              settings_count = add_settings(section, false, NULL);
    char headings[MEMORY_COLUMNS][32];
    sheet_open(&sheet, section->count, settings_count + columns);
    if (!sheet.failed) add_settings(section, false, &sheet);
    for (int w = 0; w < columns && !sheet.failed; w++) {
        snprintf(headings[w], sizeof headings[w], "worker %d", w);
        sheet.column[settings_count + w] = (struct sheet_column){.heading = headings[w], .number = true, .figure = true};
        for (int r = 0; r < section->count; r++) {
            const json_t *bytes = json_array_get(memory_of(section, r), (size_t)w);
            char shown[32];
            snprintf(cell_at(&sheet, r, settings_count + w), CELL, "%s",
                     bytes ? text_bytes((int64_t)json_integer_value(bytes), shown) : "-");
        }
    }
    text_add(out, columns < most ? "\nmemory of the first %d of %d workers\n\n" : "\nmemory\n\n", columns, most);
    add_gaps(section, &sheet);
    sheet_print(&sheet, out);
    sheet_close(&sheet);
}

static void add_target(const struct section *section, struct text *out) {
    const struct metric_look *look = section_metric(section);
    for (int r = 0; r < section->count; r++) {
        const json_t *target = json_object_get(section->rows[r], "target");
        if (!target || !has_figure(section, "best")) continue;
        text_add(out, "\ntarget: validation %s %.*f\n", look->words, look->digits, json_number_value(target));
        return;
    }
}

/* ------------------------------------------------------------------------------ all */

char *comparison_sections(const struct ps_comparison *comparison, bool precisions, section_function *add, void *context) {
    const struct ps_comparison_info info = ps_comparison_info(comparison);
    struct text out = {0};
    json_t *document = comparison_document(comparison),
           *rows = json_object_get(document, info.seeds > 1 ? "combinations" : "rows"), **list = NULL;
    const int count = (int)json_array_size(rows);
    if (count > 0) list = calloc((size_t)count, sizeof(json_t *));
    for (int first = 0, next; list && first < count; first = next) {
        const struct ps_comparison_row of = ps_comparison_row(comparison, first * info.seeds);
        for (next = first; next < count; next++) {
            const struct ps_comparison_row row = ps_comparison_row(comparison, next * info.seeds);
            if (row.network != of.network || (precisions && strcmp(row.precision, of.precision) != 0)) break;
            list[next - first] = json_array_get(rows, (size_t)next);
        }
        struct section section;
        if (section_open(&section, document, list, next - first, info.seeds))
            add(&section, context, &out);
        else
            out.failed = true;
        section_close(&section);
    }
    if (!list || json_memory_failed()) out.failed = true;
    free(list);
    json_decref(document);
    return text_take(&out);
}

/* An empty line between sections. */
static void begin_section(struct text *out) {
    if (out->length > 0) text_add(out, "\n");
}

static void add_section(const struct section *section, void *context, struct text *out) {
    char what[256];
    const bool ranks = has_figure(section, "rank");
    (void)context;
    begin_section(out);
    if (section->trained) {
        add_title(section, "", out);
        add_main(section, trained_columns, COUNT(trained_columns), ranks, out);
        add_target(section, out);
        add_ways(section, out);
        add_memory(section, out);
        return;
    }
    if (json_object_get(section->document, "largest")) {
        snprintf(what, sizeof what,
                 "; the largest number of %s that fits; what its fullest worker needs, a mini-batch of it, speed-up over one "
                 "worker with memory enough",
                 string_of(section->document, "largest"));
        add_title(section, what, out);
        add_main(section, largest_columns, COUNT(largest_columns), ranks, out);
        return;
    }
    add_title(section,
              "; a mini-batch in steady state, speed-up over one worker, largest memory and copies of the weights of a worker",
              out);
    add_main(section, simulated_columns, COUNT(simulated_columns), ranks, out);
}

/* Where the rows are kept, after the tables. */
static char *say_directory(const struct ps_comparison *comparison, char *tables) {
    const char *directory = ps_comparison_info(comparison).directory;
    struct text out = {0};
    if (!tables || !directory) return tables;
    const bool trained = ps_comparison_count(comparison) > 0 && ps_comparison_row(comparison, 0).trained;
    text_add(&out, "%s\n", tables);
    free(tables);
    struct text line = {0};
    text_add(&line, "Rows are kept in %s/rows%s.", directory,
             trained ? ", as run directories: `penstock report` takes them, `penstock evaluate` and others one" : "");
    add_paragraph(&out, &line);
    return text_take(&out);
}

char *ps_comparison_table(const struct ps_comparison *comparison) {
    return say_directory(comparison, comparison_sections(comparison, false, add_section, NULL));
}

/* ---------------------------------------------------------------------------- grids */

/*
 * Methods compared as in the papers (MadPipe's figures, BaPipe's Table III): a row for each machine, by workers, bandwidth and
 * memory, and a column for each method with its schedule and weights. A cell has the period and the speed-up over one worker,
 * the largest network that fits (BaPipe's Table IV), or, of trainings, the best metric and the speed. Methods that do not fit
 * beside each other follow below.
 */

static void add_trained_cell(const json_t *row, const struct metric_look *look, char out[CELL]) {
    char best[CELL], rate[CELL];
    const bool judged = json_object_get(row, "best") != NULL;
    figure_cell(row, "best", NUMBER, look->digits, true, best);
    figure_cell(row, "samples_per_s", NUMBER, 1, false, rate);
    snprintf(out, CELL, "%.44s%s%.44s/s", judged ? best : "", judged ? " at " : "", rate);
}

static void grid_cell(const json_t *row, const struct metric_look *look, char out[CELL]) {
    char shown[32];
    const double period_s = json_number_value(json_object_get(row, "period_s"));
    if (json_object_get(row, "measured_bytes")) {
        add_trained_cell(row, look, out);
    } else if (json_object_get(row, "reason")) {
        strcpy(out, "-");
    } else if (json_object_get(row, "largest")) {
        parameters_text(json_number_value(json_object_get(row, "parameters")), shown);
        snprintf(out, CELL, "%lld (%s)", integer_of(row, "largest"), shown);
    } else if (!json_object_get(row, "period_s")) {
        number_print(out, CELL, "%.3f ms planned", 1e3 * json_number_value(json_object_get(row, "objective_s")));
    } else {
        text_seconds(period_s, shown);
        number_print(out, CELL, "%s x%.2f", shown, json_number_value(json_object_get(row, "speedup")));
    }
}

/* What a column is of: the method, and more where methods have several columns. Rows of one machine follow each other. */
static void grid_heading(const struct section *section, int columns, int column, char out[CELL]) {
    bool alike = false;
    char wire[64] = "";
    for (int c = 0; c < columns; c++)
        for (int d = 0; d < c; d++)
            alike |= strcmp(string_of(section->rows[c], "method"), string_of(section->rows[d], "method")) == 0;
    const json_t *row = section->rows[column];
    if (*string_of(row, "wire")) snprintf(wire, sizeof wire, " %s", string_of(row, "wire"));
    if (alike)
        snprintf(out, CELL, "%s %s %s%s", string_of(row, "method"), string_of(row, "schedule"), string_of(row, "weights"),
                 wire);
    else
        snprintf(out, CELL, "%s", string_of(row, "method"));
}

static void add_grid_block(const struct section *section, int columns, int from, int to, struct text *out) {
    static const struct {
        const char *heading;
        void (*show)(const json_t *row, char out[CELL]);
    } machine[] = {{"workers", workers_cell}, {"bandwidth", bandwidth_cell}, {"memory", memory_cell}};
    const int machines = section->count / columns;
    struct sheet sheet;
    char(*headings)[CELL] = calloc((size_t)(to - from), sizeof *headings);
    sheet_open(&sheet, machines, COUNT(machine) + to - from);
    for (int c = 0; headings && c < sheet.columns; c++) {
        const int column = from + c - COUNT(machine);
        sheet.column[c] = (struct sheet_column){.heading = "", .number = true};
        if (c >= COUNT(machine)) grid_heading(section, columns, column, headings[c - COUNT(machine)]);
        sheet.column[c].heading = c < COUNT(machine) ? machine[c].heading : headings[c - COUNT(machine)];
        for (int m = 0; m < machines; m++) {
            if (c < COUNT(machine))
                machine[c].show(section->rows[m * columns], cell_at(&sheet, m, c));
            else
                grid_cell(section->rows[m * columns + column], section_metric(section), cell_at(&sheet, m, c));
        }
    }
    if (headings)
        sheet_print(&sheet, out);
    else
        out->failed = true;
    sheet_close(&sheet);
    free(headings);
}

static void add_grid(const struct section *sorted, void *context, struct text *out) {
    struct section section = *sorted;
    const json_t *document = sorted->document;
    const int seeds = sorted->seeds;
    (void)context;
    begin_section(out);
    const json_t *all = json_object_get(document, seeds > 1 ? "combinations" : "rows");
    int first = (int)json_array_size(all), columns = 0;
    char cell[CELL];
    /* In the order in which they were asked for. */
    for (int r = 0; r < section.count; r++) {
        const int number = first_row(sorted, sorted->rows[r]) / seeds;
        if (number < first) first = number;
        columns += sorted->machines[r] == 0;
    }
    section.rows = calloc((size_t)section.count, sizeof *section.rows);
    for (int r = 0; section.rows && r < section.count; r++) section.rows[r] = json_array_get(all, (size_t)(first + r));
    if (!section.rows) {
        out->failed = true;
        return;
    }
    const char *precision = string_of(section.rows[0], "precision");
    struct text title = {0};
    text_add(&title, "%s%s%s: ", section.model, strcmp(precision, "f32") == 0 ? "" : ", ",
             strcmp(precision, "f32") == 0 ? "" : precision);
    if (section.trained && has_figure(&section, "best"))
        text_add(&title, "best validation %s, and samples per second", section_metric(&section)->words);
    else if (section.trained)
        text_add(&title, "samples per second");
    else if (json_object_get(document, "largest"))
        text_add(&title, "the largest number of %s that fits, and its parameters", string_of(document, "largest"));
    else
        text_add(&title, "a mini-batch in steady state every ..., and speed-up over one worker");
    if (seeds > 1) text_add(&title, ", mean +- standard deviation of %d seeds", seeds);
    batch_cell(section.rows[0], cell);
    if (section.common[SETTINGS - 1] && strcmp(cell, "-") != 0) text_add(&title, "; batch %s", cell);
    text_add(&title, "; -: no plan");
    add_paragraph(out, &title);
    text_add(out, "\n");
    /* As many columns as fit, and the others below. */
    for (int from = 0, to; from < columns; from = to) {
        size_t width = 36;
        for (to = from; to < columns; to++) {
            size_t widest;
            grid_heading(&section, columns, to, cell);
            widest = points_in(cell);
            for (int m = 0; m < section.count / columns; m++) {
                grid_cell(section.rows[m * columns + to], section_metric(&section), cell);
                if (points_in(cell) > widest) widest = points_in(cell);
            }
            width += widest + 2;
            if (width > LINE && to > from) break;
        }
        if (from > 0) text_add(out, "\n");
        add_grid_block(&section, columns, from, to, out);
    }
    free(section.rows);
}

char *ps_comparison_grid(const struct ps_comparison *comparison) {
    return say_directory(comparison, comparison_sections(comparison, true, add_grid, NULL));
}
