/*
 * Methods side by side as the papers draw them (MadPipe's figures, BaPipe's Table III): a line for each machine, by workers,
 * bandwidth and memory, and a column for each method with its schedule and weights; in it the period and the speed-up over one
 * worker, or the largest network that fits (BaPipe's Table IV).
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "report/parts.h"

static bool same_machine(const struct ps_comparison_row *a, const struct ps_comparison_row *b) {
    return a->workers == b->workers && a->memory_limit_bytes == b->memory_limit_bytes &&
           a->bandwidth_bytes_per_s == b->bandwidth_bytes_per_s;
}

/* How many rows from `first` on are of one machine: the columns. */
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

static void add_head(const struct ps_comparison *comparison, int columns, struct text *rows) {
    bool whole = repeats(comparison, columns);
    text_add(rows, "workers\tbandwidth\tmemory");
    for (int c = 0; c < columns; c++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, c);
        text_add(rows, "\t%s", row.method);
        if (whole) text_add(rows, " %s %s", row.schedule, row.weights);
    }
    text_add(rows, "\n");
}

static void add_cell(const struct ps_comparison_row *row, struct text *rows) {
    char period[32];
    if (row->reason)
        text_add(rows, "\t-");
    else if (row->largest > 0)
        text_add(rows, "\t%d (%s)", row->largest, comparison_parameters(row->parameters, period));
    else if (!row->simulated)
        text_add(rows, "\t%.3f ms planned", 1e3 * row->objective_s);
    else
        text_add(rows, "\t%s x%.2f", text_seconds(row->period_s, period), row->speedup);
}

char *ps_comparison_grid(const struct ps_comparison *comparison) {
    struct text rows = {0}, out = {0};
    int count = ps_comparison_count(comparison), columns = count > 0 ? count_columns(comparison, 0) : 0;
    add_head(comparison, columns, &rows);
    for (int first = 0; first < count; first += columns) {
        struct ps_comparison_row machine = ps_comparison_row(comparison, first);
        char memory[32], bandwidth[32];
        text_add(&rows, "%d\t%s\t%s", machine.workers, comparison_rate(machine.bandwidth_bytes_per_s, bandwidth),
                 comparison_limit(machine.memory_limit_bytes, memory));
        for (int c = first; c < first + columns; c++) {
            struct ps_comparison_row row = ps_comparison_row(comparison, c);
            add_cell(&row, &rows);
        }
        text_add(&rows, "\n");
    }
    if (ps_comparison_largest(comparison))
        text_add(&out, "%s: the largest number of %s that fits, and its parameters; -: no plan\n\n",
                 ps_comparison_model(comparison), ps_comparison_largest(comparison));
    else
        text_add(&out, "%s: a mini-batch in steady state every ..., and speed-up over one worker; -: no plan\n\n",
                 ps_comparison_model(comparison));
    text_add_table(&out, &rows);
    return text_take(&out);
}
