/*
 * A timeline as a picture: rows are workers; boxes are computations, with the number of their micro-batch if it fits; updates
 * and predictions are thin marks; idle time is grey. If forwards and backwards run concurrently, a row is split in two. Below
 * each row is the worker's memory, from 0 to the largest of all workers. Sums over replicas are a strip at the lower edge of a
 * row, while the worker waits or computes. Other transfers are arrows, if requested, in a colour for each kind; else they only
 * show as gaps.
 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "report/report.h"

/* Pixels. */
#define MARGIN 12.0
#define LABEL_WIDTH 66.0
#define TOP 58.0
#define AXIS_HEIGHT 34.0
#define CHARACTER_WIDTH 6.2 /* of the small text, about */
#define BOX_WIDTH 24.0      /* that a usual box should get */
#define PLOT_WIDTH_MIN 640.0
#define PLOT_WIDTH_MAX 2400.0
#define MARK_WIDTH 1.4 /* at least; less if boxes are small */
#define TICK_DISTANCE 90.0

/* How each action is drawn; those without a name are not. */
static const struct style {
    const char *name, *colour;
    bool mark; /* drawn over the boxes, however short */
} styles[ACTION_COUNT] = {
    [ACTION_FORWARD] = {.name = "forward", .colour = "#8fbcf4"},
    [ACTION_BACKWARD] = {.name = "backward", .colour = "#93d3a2"},
    [ACTION_BACKWARD_INPUT] = {.name = "backward-input", .colour = "#93d3a2"},
    [ACTION_BACKWARD_WEIGHT] = {.name = "backward-weights", .colour = "#c9a8e0"},
    [ACTION_RECOMPUTE] = {.name = "recompute", .colour = "#f7d188"},
    [ACTION_UPDATE] = {.name = "update", .colour = "#3b4252", .mark = true},
    [ACTION_PREDICT] = {.name = "predict", .colour = "#a355c9", .mark = true},
    [ACTION_ENCODE] = {.name = "encode", .colour = "#d9822b", .mark = true},
    [ACTION_DECODE] = {.name = "decode", .colour = "#b0a04a", .mark = true},
    [ACTION_ROUND] = {.name = "round", .colour = "#d9822b", .mark = true},
};

/* The same of transfers. */
static const struct {
    const char *name, *colour;
} arrows[TRAFFIC_SUM + 1] = {
    [TRAFFIC_ACTIVATION] = {"sends-activation", "#3b74c0"},
    [TRAFFIC_GRADIENT] = {"sends-gradient", "#3f8f57"},
    [TRAFFIC_STASH] = {"sends-stash", "#d9822b"},
    [TRAFFIC_KEPT_INPUT] = {"sends-input", "#b0a04a"},
    [TRAFFIC_WEIGHTS] = {"sends-weights", "#a355c9"},
    [TRAFFIC_SUM] = {"all-reduce", "#e0575b"},
    [TRAFFIC_ENCODED_ACTIVATION] = {"sends-encoded-activation", "#3b74c0"},
    [TRAFFIC_ENCODED_GRADIENT] = {"sends-encoded-gradient", "#3f8f57"},
};
#define SUM_HEIGHT 4.0

struct drawing {
    struct text text;
    const struct timeline *timeline;
    const struct timeline_caption *caption;
    double span_s;                /* of the whole timeline */
    double left, width;           /* of the plot */
    double box_width;             /* of a usual box */
    double row_pitch, row_height; /* rows begin at TOP */
    double memory_height;         /* of the curve under a row; 0: none */
    int64_t memory_peak;          /* of all workers */
    double total_width, total_height;
    bool used[ACTION_COUNT], carried[TRAFFIC_SUM + 1];
};

static enum action action_of(const struct timeline_event *event) { return opcode_table[event->instruction.op].action; }

static bool is_box(const struct timeline_event *event) {
    const struct style *style = &styles[action_of(event)];
    return style->name && !style->mark;
}

static void add_escaped(struct text *text, const char *words) {
    const size_t begin = text->length;
    for (; *words; words++) {
        switch (*words) {
        case '&':
            text_add(text, "&amp;");
            break;
        case '<':
            text_add(text, "&lt;");
            break;
        case '>':
            text_add(text, "&gt;");
            break;
        case '"':
            text_add(text, "&quot;");
            break;
        default:
            text_add_raw(text, words, 1);
        }
    }
    if (text->data) utf8_clean(text->data + begin, ' '); /* as XML wants it */
}

static double x_of(const struct drawing *drawing, double seconds) {
    return drawing->left + (drawing->span_s > 0 ? seconds / drawing->span_s * drawing->width : 0);
}

static double row_y(const struct drawing *drawing, int worker) { return TOP + worker * drawing->row_pitch; }

/* Returns where it ends. */
static double draw_legend(const struct drawing *drawing, struct text *text) {
    double x = drawing->left;
    for (int action = 0; action < ACTION_COUNT; action++) {
        const struct style *style = &styles[action];
        if (!drawing->used[action] || !style->name) continue;
        double width = style->mark ? 3 : 12;
        text_add(text, "<rect class=\"%s\" x=\"%.1f\" y=\"37\" width=\"%.0f\" height=\"12\"/>", style->name, x, width);
        text_add(text, "<text x=\"%.1f\" y=\"47\">%s</text>\n", x + width + 5, style->name);
        x += width + 5 + (double)strlen(style->name) * CHARACTER_WIDTH + 16;
    }
    for (int kind = 0; kind <= TRAFFIC_SUM; kind++) {
        if (!drawing->carried[kind]) continue;
        if (kind == TRAFFIC_SUM)
            text_add(text, "<rect class=\"%s\" x=\"%.1f\" y=\"41\" width=\"12\" height=\"%g\"/>", arrows[kind].name, x,
                     SUM_HEIGHT);
        else
            text_add(text, "<path class=\"arrow %s\" d=\"M%.1f 38L%.1f 48\"/>", arrows[kind].name, x, x + 12);
        const char *name = report_traffic_name(kind);
        text_add(text, "<text x=\"%.1f\" y=\"47\">%s</text>\n", x + 17, name);
        x += 17 + (double)strlen(name) * CHARACTER_WIDTH + 16;
    }
    if (drawing->memory_peak > 0) {
        char peak[32];
        text_add(text, "<path class=\"memory\" d=\"M%.1f 49v-5h4v-6h4v3h4v8z\"/>", x);
        text_add(text, "<text x=\"%.1f\" y=\"47\">memory in use, at most %s</text>\n", x + 17,
                 text_bytes(drawing->memory_peak, peak));
        x += 17 + (strlen("memory in use, at most ") + strlen(peak)) * CHARACTER_WIDTH + 16;
    }
    return x;
}

/* Wide enough for the numbers in typical boxes, within limits. */
static void choose_width(struct drawing *drawing) {
    const struct timeline *timeline = drawing->timeline;
    double sum_s = 0;
    int boxes = 0;
    for (int i = 0; i < timeline->event_count; i++) {
        const struct timeline_event *event = &timeline->events[i];
        if (!is_box(event)) continue;
        sum_s += event->end_s - event->start_s;
        boxes++;
    }
    double share = sum_s > 0 ? sum_s / boxes / drawing->span_s : 1;
    drawing->width = fmin(fmax(BOX_WIDTH / share, PLOT_WIDTH_MIN), PLOT_WIDTH_MAX);
    drawing->box_width = share * drawing->width;
}

static void lay_out(struct drawing *drawing) {
    const struct timeline *timeline = drawing->timeline;
    for (int i = 0; i < timeline->event_count; i++) {
        drawing->span_s = fmax(drawing->span_s, timeline->events[i].end_s);
        drawing->used[action_of(&timeline->events[i])] = true;
    }
    for (int i = 0; i < timeline->transfer_count; i++)
        drawing->carried[timeline->transfers[i].traffic] =
            drawing->caption->arrows || timeline->transfers[i].traffic == TRAFFIC_SUM;
    size_t longest = 0;
    for (int w = 0; drawing->caption->notes && w < timeline->workers; w++) {
        size_t length = strlen(drawing->caption->notes[w]);
        if (length > longest) longest = length;
    }
    drawing->left = MARGIN + LABEL_WIDTH;
    choose_width(drawing);
    drawing->row_pitch = timeline->workers <= 16 ? 30 : timeline->workers <= 32 ? 22 : 16;
    drawing->row_height = drawing->row_pitch - (timeline->workers <= 32 ? 4 : 2);
    for (int w = 0; drawing->caption->memory && w < timeline->workers; w++)
        if (drawing->caption->memory[w].peak > drawing->memory_peak) drawing->memory_peak = drawing->caption->memory[w].peak;
    if (drawing->memory_peak > 0) {
        drawing->memory_height = 0.4 * drawing->row_height;
        drawing->row_pitch += drawing->memory_height + 2;
    }
    drawing->total_width = drawing->left + drawing->width + 2 * MARGIN + (double)longest * CHARACTER_WIDTH;
    struct text legend = {0};
    drawing->total_width = fmax(drawing->total_width, draw_legend(drawing, &legend));
    text_free(&legend);
    drawing->total_height = TOP + timeline->workers * drawing->row_pitch + AXIS_HEIGHT;
}

static void draw_head(struct drawing *drawing) {
    struct text *text = &drawing->text;
    text_add(text,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
             "font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\" font-size=\"11\" fill=\"#2e3440\">\n<style>\n",
             drawing->total_width, drawing->total_height, drawing->total_width, drawing->total_height);
    for (int action = 0; action < ACTION_COUNT; action++)
        if (drawing->used[action] && styles[action].name)
            text_add(text, ".%s { fill: %s }\n", styles[action].name, styles[action].colour);
    if (drawing->memory_peak > 0) text_add(text, ".memory { fill: #b6a4d0 }\n");
    for (int kind = 0; kind < TRAFFIC_SUM; kind++)
        if (drawing->carried[kind])
            text_add(text, ".%s { stroke: %s; marker-end: url(#%s) }\n", arrows[kind].name, arrows[kind].colour,
                     arrows[kind].name);
    if (drawing->carried[TRAFFIC_SUM])
        text_add(text, ".%s { fill: %s }\n", arrows[TRAFFIC_SUM].name, arrows[TRAFFIC_SUM].colour);
    if (drawing->caption->arrows) text_add(text, ".arrow { fill: none; stroke-width: 0.7; stroke-opacity: 0.75 }\n");
    text_add(text, ".n { text-anchor: middle }\n.grid { stroke: #d8dee9; stroke-width: 1 }\n</style>\n<title>");
    add_escaped(text, drawing->caption->title);
    text_add(text, "</title>\n");
    for (int kind = 0; kind < TRAFFIC_SUM; kind++)
        if (drawing->carried[kind])
            text_add(text,
                     "<defs><marker id=\"%s\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"5\" markerHeight=\"5\" "
                     "orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"%s\"/></marker></defs>\n",
                     arrows[kind].name, arrows[kind].colour);
    text_add(text, "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n");
    text_add(text, "<text x=\"%.0f\" y=\"24\" font-size=\"15\" font-weight=\"bold\">", MARGIN);
    add_escaped(text, drawing->caption->title);
    text_add(text, "</text>\n");
    draw_legend(drawing, text);
}

/* The memory of a worker over time, as steps above the lower edge of its strip. */
static void draw_memory(struct drawing *drawing, int worker) {
    const struct memory_curve *curve = &drawing->caption->memory[worker];
    struct text *text = &drawing->text;
    double bottom = row_y(drawing, worker) + drawing->row_height + drawing->memory_height + 1;
    text_add(text, "<path class=\"memory\" d=\"M%.1f %.1f", drawing->left, bottom);
    for (int i = 0; i < curve->count; i++)
        text_add(text, "H%.2fV%.2f", x_of(drawing, curve->points[i].time_s),
                 bottom - (double)curve->points[i].bytes / (double)drawing->memory_peak * drawing->memory_height);
    text_add(text, "H%.2fV%.1fz\"/>\n", drawing->left + drawing->width, bottom);
}

/* Every replica is the first end of one of the ring's ways. */
static void draw_sum(struct drawing *drawing, const struct timeline_transfer *transfer) {
    double x = x_of(drawing, transfer->start_s), width = x_of(drawing, transfer->end_s) - x;
    double height = fmin(SUM_HEIGHT, drawing->row_height / 4);
    char start[32], length[32];
    text_add(
        &drawing->text,
        "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"><title>all-reduce %d, stage %d: at %s for "
        "%s</title></rect>\n",
        arrows[TRAFFIC_SUM].name, x, row_y(drawing, transfer->from) + drawing->row_height - height, fmax(width, MARK_WIDTH),
        height, transfer->micro_batch, transfer->stage, text_seconds(transfer->start_s, start),
        text_seconds(transfer->end_s - transfer->start_s, length));
}

static void draw_transfer(struct drawing *drawing, const struct timeline_transfer *transfer) {
    bool down = transfer->to > transfer->from;
    double from_y = row_y(drawing, transfer->from) + (down ? drawing->row_height : 0);
    double to_y = row_y(drawing, transfer->to) + (down ? 0 : drawing->row_height);
    if (transfer->traffic == TRAFFIC_SUM) draw_sum(drawing, transfer);
    if (transfer->traffic == TRAFFIC_SUM || !drawing->caption->arrows) return;
    text_add(&drawing->text, "<path class=\"arrow %s\" d=\"M%.2f %.1fL%.2f %.1f\"/>\n", arrows[transfer->traffic].name,
             x_of(drawing, transfer->start_s), from_y, x_of(drawing, transfer->end_s), to_y);
}

/* 1, 2 or 5 times a power of ten, at least `least`. */
static double round_step(double least) {
    double power = pow(10, floor(log10(least)));
    double steps = least / power;
    return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

static void draw_axis(struct drawing *drawing) {
    static const struct {
        double size;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    if (drawing->span_s <= 0) return;
    double step = round_step(drawing->span_s * TICK_DISTANCE / drawing->width);
    size_t unit = 0;
    while (unit + 1 < sizeof units / sizeof units[0] && drawing->span_s < units[unit].size) unit++;
    double bottom = row_y(drawing, drawing->timeline->workers);
    for (int tick = 0; tick * step <= drawing->span_s * (1 + 1e-9); tick++) {
        double x = x_of(drawing, tick * step);
        text_add(&drawing->text, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, TOP - 4, bottom + 4);
        text_add(&drawing->text, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\">%.6g %s</text>\n", x, bottom + 18,
                 tick * step / units[unit].size, units[unit].name);
    }
}

static void draw_row(struct drawing *drawing, int worker) {
    struct text *text = &drawing->text;
    double y = row_y(drawing, worker), middle = y + drawing->row_height / 2 + 4;
    text_add(text, "<text x=\"%.0f\" y=\"%.1f\">worker %d</text>", MARGIN, middle, worker);
    text_add(text, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#eceff4\"/>", drawing->left, y,
             drawing->width, drawing->row_height);
    if (drawing->caption->notes) {
        text_add(text, "<text x=\"%.1f\" y=\"%.1f\">", drawing->left + drawing->width + MARGIN, middle);
        add_escaped(text, drawing->caption->notes[worker]);
        text_add(text, "</text>");
    }
    text_add(text, "\n");
}

/* The largest of a few sizes in which a number fits a box; 0: none does. */
static double font_size(double width, int number) {
    static const double sizes[] = {11, 8, 5};
    int digits = 1;
    for (; number >= 10; number /= 10) digits++;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (width >= sizes[i] * (0.6 * digits + 0.1)) return sizes[i];
    return 0;
}

static void draw_event(struct drawing *drawing, const struct timeline_event *event) {
    struct text *text = &drawing->text;
    const struct instruction *instruction = &event->instruction;
    const struct style *style = &styles[action_of(event)];
    double x = x_of(drawing, event->start_s), width = x_of(drawing, event->end_s) - x;
    double height = drawing->row_height / timeline_lanes(drawing->timeline);
    double y = row_y(drawing, event->worker) + height * timeline_lane(drawing->timeline, event);
    /* Adjacent boxes are separated if there is room; marks are visible however short they are. */
    double mark = fmin(MARK_WIDTH, 0.1 * drawing->box_width);
    double shown = style->mark ? fmax(width, mark) : width > 3 ? width - 0.6 : width;
    text_add(text, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", style->name, x, y, shown, height);
    double font = style->mark ? 0 : font_size(fmin(width, 2 * height), instruction->micro_batch);
    if (font == 0) {
        text_add(text, "/>\n");
        return;
    }
    char start[32], length[32];
    text_add(text, "><title>%s%d, stage %d: at %s for %s</title></rect>", opcode_table[instruction->op].text,
             instruction->micro_batch, instruction->stage, text_seconds(event->start_s, start),
             text_seconds(event->end_s - event->start_s, length));
    text_add(text, "<text class=\"n\" x=\"%.2f\" y=\"%.2f\" font-size=\"%g\">%d</text>\n", x + width / 2,
             y + height / 2 + 0.36 * font, font, instruction->micro_batch);
}

char *report_timeline_svg(const struct timeline *timeline, const struct timeline_caption *caption) {
    struct drawing drawing = {.timeline = timeline, .caption = caption};
    lay_out(&drawing);
    draw_head(&drawing);
    for (int w = 0; w < timeline->workers; w++) draw_row(&drawing, w);
    for (int w = 0; drawing.memory_peak > 0 && w < timeline->workers; w++) draw_memory(&drawing, w);
    draw_axis(&drawing);
    for (int i = 0; i < timeline->event_count; i++)
        if (is_box(&timeline->events[i])) draw_event(&drawing, &timeline->events[i]);
    for (int i = 0; i < timeline->event_count; i++)
        if (styles[action_of(&timeline->events[i])].mark) draw_event(&drawing, &timeline->events[i]);
    for (int i = 0; i < timeline->transfer_count; i++) draw_transfer(&drawing, &timeline->transfers[i]);
    text_add(&drawing.text, "</svg>\n");
    return text_take(&drawing.text);
}
