/* How a simulation is shown: a table for people, JSON for scripts, a picture and a trace. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "report/memory_curve.h"
#include "report/parts.h"

char *ps_simulation_json(const struct ps_simulation *simulation) {
    const struct ps_simulation_info *info = &simulation->info;
    json_t *workers = json_array();
    for (int w = 0; w < info->workers; w++) {
        const struct ps_simulation_worker *worker = &simulation->worker[w];
        json_array_append_new(workers, json_pack("{s:f, s:{s:f, s:f, s:f, s:f}, s:I, s:i}", "busy_s", worker->busy_s, "idle_s",
                                                 "fill_drain", worker->idle_fill_drain_s, "dependency",
                                                 worker->idle_dependency_s, "communication", worker->idle_communication_s,
                                                 "imbalance", worker->idle_imbalance_s, "memory_bytes",
                                                 (json_int_t)worker->memory_bytes, "weight_copies", worker->weight_copies));
    }
    json_t *root = json_pack("{s:f, s:f, s:f, s:f, s:i, s:I, s:o}", "period_s", info->period_s, "makespan_s", info->makespan_s,
                             "throughput_samples_per_s", info->throughput_samples_per_s, "bubble", info->bubble, "batches",
                             info->batches, "instructions", (json_int_t)simulation->instructions, "workers", workers);
    if (!root) return NULL;
    report_explain_json(simulation, root);
    if (simulation->against) report_against_json(simulation->against, root);
    return json_text(root);
}

static double percent(double share, double whole) { return whole > 0 ? 100 * share / whole : 0; }

/* "4 samples/s", "0.123 samples/s": the digits that count, never an exponent. */
static void add_throughput(struct text *text, double samples_per_s) {
    int decimals = samples_per_s >= 100 ? 0 : samples_per_s >= 1 ? 2 : 4;
    text_add(text, "throughput  %.*f samples/s\n", decimals, samples_per_s);
}

void report_add_table(struct text *text, struct text *rows) {
    text_add(text, "\n");
    text_add_table(text, rows);
}

char *ps_simulation_table(const struct ps_simulation *simulation) {
    const struct ps_simulation_info *info = &simulation->info;
    char a[32], b[32];
    struct text rows = {0}, text = {0};
    text_add(&rows, "worker\tbusy\tfill, drain\tdependency\tcommunication\timbalance\tmemory\tweight copies\n");
    for (int w = 0; w < info->workers; w++) {
        const struct ps_simulation_worker *worker = &simulation->worker[w];
        double makespan = info->makespan_s;
        text_add(&rows, "%d\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%.1f%%\t%s\t%d\n", w, percent(worker->busy_s, makespan),
                 percent(worker->idle_fill_drain_s, makespan), percent(worker->idle_dependency_s, makespan),
                 percent(worker->idle_communication_s, makespan), percent(worker->idle_imbalance_s, makespan),
                 text_bytes(worker->memory_bytes, a), worker->weight_copies);
    }
    text_add(&text, "%s\n", simulation->title);
    text_add(&text, "period      %s for a mini-batch\n", text_seconds(info->period_s, a));
    add_throughput(&text, info->throughput_samples_per_s);
    text_add(&text, "makespan    %s for %d mini-batches\n", text_seconds(info->makespan_s, b), info->batches);
    text_add(&text, "bubble      %.1f%%\n", 100 * info->bubble);
    report_add_table(&text, &rows);
    report_explain_table(simulation, &text);
    if (simulation->against) report_against_table(simulation->against, &text);
    return text_take(&text);
}

/* "87% busy, 12.3 MiB, 2 weight copies" for each worker, and the pointers to them in one allocation. */
static const char **worker_notes(const struct ps_simulation *simulation) {
    enum { NOTE_SIZE = 96 };
    size_t workers = (size_t)simulation->info.workers;
    const char **notes = malloc(workers * (sizeof *notes + NOTE_SIZE));
    for (size_t w = 0; notes && w < workers; w++) {
        const struct ps_simulation_worker *worker = &simulation->worker[w];
        char *note = (char *)(notes + workers) + w * NOTE_SIZE, memory[32];
        number_print(note, NOTE_SIZE, "%.0f%% busy, %s, %d weight cop%s", percent(worker->busy_s, simulation->info.makespan_s),
                     text_bytes(worker->memory_bytes, memory), worker->weight_copies, worker->weight_copies == 1 ? "y" : "ies");
        notes[w] = note;
    }
    return notes;
}

static enum ps_status write_timeline(const struct ps_simulation *simulation, const char *path, bool arrows,
                                     char *(*draw)(const struct timeline *, const struct timeline_caption *),
                                     struct ps_error *error) {
    if (simulation->timeline.event_count == 0)
        return error_set(error, PS_USAGE, "%s: a run of %lld instructions is too long to draw; take fewer mini-batches", path,
                         (long long)simulation->instructions);
    const char **notes = worker_notes(simulation);
    struct memory_curve *memory = memory_curves_make(simulation);
    struct timeline_caption caption = {.title = simulation->title, .notes = notes, .memory = memory, .arrows = arrows};
    char *text = notes && memory ? draw(&simulation->timeline, &caption) : NULL;
    enum ps_status status = text ? file_write(path, text, strlen(text), error)
                                 : error_memory(error, path, (size_t)simulation->timeline.event_count * 128);
    free(text);
    free(notes);
    memory_curves_free(memory, simulation->info.workers);
    return status;
}

enum ps_status ps_simulation_write_svg(const struct ps_simulation *simulation, const char *path, struct ps_error *error) {
    return write_timeline(simulation, path, false, report_timeline_svg, error);
}

enum ps_status ps_simulation_write_svg_arrows(const struct ps_simulation *simulation, const char *path,
                                              struct ps_error *error) {
    return write_timeline(simulation, path, true, report_timeline_svg, error);
}

enum ps_status ps_simulation_write_trace(const struct ps_simulation *simulation, const char *path, struct ps_error *error) {
    return write_timeline(simulation, path, false, report_timeline_trace, error);
}
