/*
 * A comparison as a picture. Of each network bars of the figure that ranks its rows, the best of each machine first; and where
 * trainings were validated, their metric over the seconds of training. Curves differ by colour (Okabe and Ito's, which colour
 * blindness leaves apart), by dashes and by their marks.
 */
#include "report/comparison.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/number.h"

/* Pixels. */
enum {
    WIDTH = 920,
    MARGIN = 20,
    LINE_HEIGHT = 18,
    TITLE_CHARACTERS = 116,
    LABEL_CHARACTERS = 44,
    LABEL_WIDTH = 300,
    VALUE_WIDTH = 170,
    BAR_PITCH = 22,
    BAR_HEIGHT = 14,
    MACHINE_GAP = 8,
    PLOT_HEIGHT = 260,
    PLOT_LEFT = 70,
    LEGEND_WIDTH = 320,
    AXIS_HEIGHT = 44,
    TICKS = 5
};

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7a5195"};
static const char *const dashes[] = {"", "7 3", "2 3", "9 3 2 3"};
enum { COLOURS = sizeof colours / sizeof *colours, DASHES = sizeof dashes / sizeof *dashes };

static void add_escaped(struct text *out, const char *words) {
    for (; *words; words++) switch (*words) {
        case '<':
            text_add(out, "&lt;");
            break;
        case '>':
            text_add(out, "&gt;");
            break;
        case '&':
            text_add(out, "&amp;");
            break;
        case '"':
            text_add(out, "&quot;");
            break;
        default:
            text_add(out, "%c", (unsigned char)*words < ' ' ? ' ' : *words);
        }
}

static void add_words(struct text *out, double x, double y, const char *style, const char *words) {
    text_add(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    add_escaped(out, words);
    text_add(out, "</text>\n");
}

/* A name as long as there is room for. */
static void shorten(char *name, size_t most) {
    if (strlen(name) > most) strcpy(name + most - 2, "..");
}

/* The title over several lines; moves *y below them. */
static void add_heading(const struct section *section, struct text *out, double *y) {
    struct text title = {0};
    section_title(section, &title);
    char *text = text_take(&title);
    if (!text) out->failed = true;
    for (char *line = text; line && *line; *y += LINE_HEIGHT) {
        size_t length = strlen(line);
        if (length > TITLE_CHARACTERS) {
            for (length = TITLE_CHARACTERS; length > TITLE_CHARACTERS / 2 && line[length] != ' ';) length--;
        }
        length = utf8_whole(line, length);
        char part[TITLE_CHARACTERS + 8];
        snprintf(part, sizeof part, "%.*s", (int)length, line);
        add_words(out, MARGIN, *y, "font-weight=\"600\"", part);
        line += length;
        while (*line == ' ') line++;
    }
    free(text);
}

static double number_of(const json_t *row, const char *field) {
    const json_t *value = json_object_get(row, field);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* ---------------------------------------------------------------------------- bars */

static void add_bars(const struct section *section, const char *field, struct text *out, double *y) {
    const double room = WIDTH - 2 * MARGIN - LABEL_WIDTH - VALUE_WIDTH, left = MARGIN + LABEL_WIDTH;
    char spread_field[64];
    double most = 0;
    snprintf(spread_field, sizeof spread_field, "%s_spread", field);
    for (int r = 0; r < section->count; r++) {
        const double value = number_of(section->rows[r], field), spread = number_of(section->rows[r], spread_field);
        if (isfinite(value)) most = fmax(most, value + (isfinite(spread) ? spread : 0));
    }
    for (int r = 0; r < section->count; r++, *y += BAR_PITCH) {
        const json_t *row = section->rows[r];
        const double value = number_of(row, field), spread = number_of(row, spread_field), middle = *y + BAR_HEIGHT / 2.0;
        char label[256], figure[COMPARISON_CELL];
        if (r > 0 && section->machines[r] != section->machines[r - 1]) *y += MACHINE_GAP;
        section_label(section, r, label);
        shorten(label, LABEL_CHARACTERS);
        add_words(out, left - 8, *y + BAR_HEIGHT - 3, "text-anchor=\"end\"", label);
        if (!isfinite(value) || most <= 0) {
            add_words(out, left + 4, *y + BAR_HEIGHT - 3, "fill=\"#767676\"",
                      json_object_get(row, "reason") ? "no plan, or not trained" : "not known");
            continue;
        }
        const double width = room * fmax(0, value) / most;
        section_figure(row, field, figure);
        text_add(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", left, *y, fmax(width, 1),
                 BAR_HEIGHT, json_integer_value(json_object_get(row, "rank")) == 1 ? "#0072b2" : "#9cc3de");
        double end = left + width;
        if (isfinite(spread) && spread > 0) {
            const double from = left + room * fmax(0, value - spread) / most, to = left + room * (value + spread) / most;
            text_add(out, "<path d=\"M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8\" stroke=\"#222\" fill=\"none\"/>\n", from, middle,
                     to, from, middle - 4, to, middle - 4);
            end = to;
        }
        add_words(out, end + 6, *y + BAR_HEIGHT - 3, "", figure);
    }
}

/* -------------------------------------------------------------------------- curves */

struct plot {
    double top, left, width, least, most, longest_s;
};

/* A round step that divides the range into a few parts. */
static double round_step(double range) {
    const double rough = range / TICKS, power = pow(10, floor(log10(rough)));
    return power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
}

static double x_at(const struct plot *plot, double seconds) { return plot->left + plot->width * seconds / plot->longest_s; }

static double y_at(const struct plot *plot, double value) {
    return plot->top + PLOT_HEIGHT * (plot->most - value) / (plot->most - plot->least);
}

/* False: there are no two points to draw. */
static bool measure_plot(const struct section *section, const struct metric_look *look, struct plot *plot) {
    int drawn = 0;
    plot->least = INFINITY;
    plot->most = -INFINITY;
    for (int r = 0; r < section->count; r++)
        for (int p = 0; p < section_points(section, r); p++) {
            const double value = section_point(section, r, p, look->field),
                         seconds = section_point(section, r, p, "training_s");
            if (!isfinite(value) || !isfinite(seconds)) continue;
            plot->least = fmin(plot->least, value);
            plot->most = fmax(plot->most, value);
            plot->longest_s = fmax(plot->longest_s, seconds);
            drawn += p > 0;
        }
    if (drawn == 0 || plot->longest_s <= 0) return false;
    const double step = round_step(fmax(plot->most - plot->least, 1e-6));
    plot->least = step * floor(plot->least / step);
    plot->most = step * ceil(plot->most / step);
    if (plot->most <= plot->least) plot->most = plot->least + step;
    return true;
}

static void add_axes(const struct plot *plot, const struct metric_look *look, struct text *out) {
    const double step = round_step(plot->most - plot->least), step_s = round_step(plot->longest_s);
    char words[64];
    for (double value = plot->least; value <= plot->most + step / 2; value += step) {
        const double y = y_at(plot, value);
        text_add(out, "<path d=\"M%.1f %.1fh%.1f\" stroke=\"#ddd\"/>\n", plot->left, y, plot->width);
        number_print(words, sizeof words, "%.4g", fabs(value) < step / 1e6 ? 0 : value);
        add_words(out, plot->left - 6, y + 4, "text-anchor=\"end\"", words);
    }
    for (double seconds = 0; seconds <= plot->longest_s * 1.0001; seconds += step_s) {
        number_print(words, sizeof words, "%.4g", seconds);
        text_add(out, "<path d=\"M%.1f %.1fv4\" stroke=\"#555\"/>\n", x_at(plot, seconds), plot->top + PLOT_HEIGHT);
        add_words(out, x_at(plot, seconds), plot->top + PLOT_HEIGHT + 17, "text-anchor=\"middle\"", words);
    }
    text_add(out, "<path d=\"M%.1f %.1fv%dh%.1f\" stroke=\"#555\" fill=\"none\"/>\n", plot->left, plot->top, PLOT_HEIGHT,
             plot->width);
    add_words(out, plot->left + plot->width / 2, plot->top + PLOT_HEIGHT + 34, "text-anchor=\"middle\"", "seconds of training");
    snprintf(words, sizeof words, "validation %s", look->words);
    add_words(out, plot->left - 50, plot->top - 8, "", words);
}

static void add_mark(struct text *out, double x, double y, int number) {
    const char *colour = colours[number % COLOURS];
    if (number % 2 == 0)
        text_add(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour);
    else
        text_add(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"6\" height=\"6\" fill=\"%s\"/>\n", x - 3, y - 3, colour);
}

static void add_curve(const struct section *section, int row, const struct metric_look *look, const struct plot *plot,
                      struct text *out) {
    bool any = false;
    const int points = section_points(section, row);
    text_add(out, "<path fill=\"none\" stroke-width=\"1.8\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"", colours[row % COLOURS],
             dashes[row / 2 % DASHES]);
    for (int p = 0; p < points; p++) {
        const double value = section_point(section, row, p, look->field),
                     seconds = section_point(section, row, p, "training_s");
        if (!isfinite(value) || !isfinite(seconds)) continue;
        text_add(out, "%c%.1f %.1f", any ? 'L' : 'M', x_at(plot, seconds), y_at(plot, value));
        any = true;
    }
    text_add(out, "%s\"/>\n", any ? "" : "M0 0");
    for (int p = 0; p < points && points <= 60; p++) {
        const double value = section_point(section, row, p, look->field),
                     seconds = section_point(section, row, p, "training_s");
        if (isfinite(value) && isfinite(seconds)) add_mark(out, x_at(plot, seconds), y_at(plot, value), row);
    }
}

static void add_curves(const struct section *section, struct text *out, double *y) {
    const struct metric_look *look = section_metric(section);
    struct plot plot = {
        .top = *y + 2 * LINE_HEIGHT, .left = MARGIN + PLOT_LEFT, .width = WIDTH - 2 * MARGIN - PLOT_LEFT - LEGEND_WIDTH};
    if (!section->trained || !measure_plot(section, look, &plot)) return;
    add_axes(&plot, look, out);
    double legend = plot.top + 8;
    for (int r = 0; r < section->count; r++) {
        char label[256];
        if (section_points(section, r) == 0) continue;
        add_curve(section, r, look, &plot, out);
        const double left = plot.left + plot.width + 16;
        section_label(section, r, label);
        shorten(label, LABEL_CHARACTERS - 4);
        text_add(out, "<path d=\"M%.1f %.1fh26\" stroke=\"%s\" stroke-width=\"1.8\" stroke-dasharray=\"%s\"/>\n", left, legend,
                 colours[r % COLOURS], dashes[r / 2 % DASHES]);
        add_mark(out, left + 13, legend, r);
        add_words(out, left + 32, legend + 4, "", label);
        legend += LINE_HEIGHT;
    }
    *y = fmax(plot.top + PLOT_HEIGHT + AXIS_HEIGHT, legend + LINE_HEIGHT);
}

/* ----------------------------------------------------------------------------- all */

static void add_section(const struct section *section, void *context, struct text *out) {
    double *y = context;
    const char *field = section_ranked_field(section);
    *y += LINE_HEIGHT;
    add_heading(section, out, y);
    if (field[0]) add_bars(section, field, out, y);
    add_curves(section, out, y);
    *y += LINE_HEIGHT;
}

enum ps_status ps_comparison_write_svg(const struct ps_comparison *comparison, const char *path, struct ps_error *error) {
    struct text out = {0};
    double height = MARGIN;
    char *body = comparison_sections(comparison, false, add_section, &height);
    text_add(
        &out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        WIDTH, height, WIDTH, height);
    text_add(&out, "%s</svg>\n", body ? body : "");
    if (!body) out.failed = true;
    free(body);
    enum ps_status status = file_write_text(path, &out, "a picture", error);
    text_free(&out);
    return status;
}
