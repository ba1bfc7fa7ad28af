/* Programs and simulations as tables, JSON, a picture and a trace. */
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "program/lower.h"

/* Adds an empty line and the rows (text_table's cells) as a table; frees them. */
static void add_table_below(struct text *text, struct text *rows) {
    text_add(text, "\n");
    text_add_table(text, rows);
}

/* ------------------------------------------------------------ advice */

/* Explains the time of a simulated run: its critical path, and the change that would help most. */

/* Workers named in the table; the rest are summed up. */
enum { NAMED_MAX = 4 };

static double path_s(const struct ps_simulation *simulation) {
    const struct critical_path *path = &simulation->critical;
    double sum_s = path->transfer_s + path->other_s;
    for (int w = 0; w < simulation->info.workers; w++) sum_s += path->compute_s[w];
    return sum_s;
}

/* The worker with the largest share below `below`; of equal ones the first after `after`; -1: none. */
static int next_worker(const struct ps_simulation *simulation, double below, int after) {
    const double *compute_s = simulation->critical.compute_s;
    int best = -1;
    for (int w = 0; w < simulation->info.workers; w++) {
        if (compute_s[w] <= 0 || compute_s[w] > below || (compute_s[w] == below && w <= after)) continue;
        if (best < 0 || compute_s[w] > compute_s[best]) best = w;
    }
    return best;
}

static void add_path(const struct ps_simulation *simulation, struct text *text) {
    const struct critical_path *path = &simulation->critical;
    double whole_s = path_s(simulation), rest_s = whole_s - path->transfer_s - path->other_s, below = whole_s * 2;
    if (whole_s <= 0) return;
    text_add(text, "critical path  ");
    for (int named = 0, worker = -1; named < NAMED_MAX; named++) {
        worker = next_worker(simulation, below, worker);
        if (worker < 0) break;
        below = path->compute_s[worker];
        rest_s -= below;
        text_add(text, "%sworker %d %.1f%%", named ? ", " : "", worker, 100 * below / whole_s);
    }
    if (rest_s > 1e-9 * whole_s) text_add(text, ", other workers %.1f%%", 100 * rest_s / whole_s);
    if (path->transfer_s > 0) text_add(text, ", transfers %.1f%%", 100 * path->transfer_s / whole_s);
    if (path->other_s > 0) text_add(text, ", sending and receiving %.1f%%", 100 * path->other_s / whole_s);
    text_add(text, "\n");
}

static void report_explain_table(const struct ps_simulation *simulation, struct text *text) {
    const struct advice *advice = &simulation->advice;
    text_add(text, "\n");
    if (simulation->critical.compute_s) add_path(simulation, text);
    if (advice->kind == ADVICE_MOVE_LAYER)
        text_add(text, "would help     worker %d limits: moving layer %d from worker %d to worker %d would save %.1f%%\n",
                 advice->limiting_worker, advice->layer + 1, advice->from, advice->to, 100 * advice->saving);
    if (advice->kind == ADVICE_BANDWIDTH)
        text_add(text, "would help     the link of workers %d and %d limits: twice its bandwidth would save %.1f%%\n",
                 advice->from, advice->to, 100 * advice->saving);
}

static json_t *path_json(const struct ps_simulation *simulation) {
    const struct critical_path *path = &simulation->critical;
    if (!path->compute_s) return json_null();
    json_t *workers = json_array();
    for (int w = 0; w < simulation->info.workers; w++) json_array_append_new(workers, json_real(path->compute_s[w]));
    return json_pack("{s:i, s:o, s:f, s:f}", "steps", path->steps, "compute_s", workers, "transfer_s", path->transfer_s,
                     "other_s", path->other_s);
}

static json_t *advice_json(const struct advice *advice) {
    if (advice->kind == ADVICE_NONE) return json_null();
    bool layer = advice->kind == ADVICE_MOVE_LAYER;
    json_t *object = json_pack("{s:s, s:i, s:i, s:i, s:f, s:f}", "change", layer ? "move_layer" : "double_bandwidth",
                               "limiting_worker", advice->limiting_worker, "from", advice->from, "to", advice->to, "period_s",
                               advice->period_s, "saving", advice->saving);
    if (layer) json_object_set_new(object, "layer", json_integer(advice->layer + 1));
    return object;
}

static void report_explain_json(const struct ps_simulation *simulation, json_t *root) {
    json_object_set_new(root, "critical_path", path_json(simulation));
    json_object_set_new(root, "advice", advice_json(&simulation->advice));
}

/* ------------------------------------------------------ comparison with a measured run */

struct ps_trace {
    struct timeline timeline;
};

enum ps_status ps_trace_read(const char *path, struct ps_trace **trace, struct ps_error *error) {
    struct ps_trace *made;
    TRY(memory_new(&made, 1, "a trace", error));
    enum ps_status status = report_trace_read(path, &made->timeline, error);
    if (status == PS_OK)
        *trace = made;
    else
        ps_trace_destroy(made);
    return status;
}

void ps_trace_destroy(struct ps_trace *trace) {
    if (trace == NULL) return;
    timeline_free(&trace->timeline);
    free(trace);
}

/* Compares a prediction with the trace of a run: simulates the same, and shows the differences. */

enum ps_status report_trace_copy(const struct ps_trace *trace, struct timeline *timeline, struct ps_error *error) {
    struct timeline copy = trace->timeline;
    copy.events = NULL;
    copy.transfers = NULL;
    copy.memory_bytes = NULL;
    copy.event_count = copy.transfer_count = 0;
    copy.event_capacity = copy.transfer_capacity = 0;
    enum ps_status status = PS_OK;
    for (int i = 0; status == PS_OK && i < trace->timeline.event_count; i++)
        status = timeline_add(&copy, &trace->timeline.events[i], error);
    if (status == PS_OK)
        *timeline = copy;
    else
        timeline_free(&copy);
    return status;
}

static enum ps_status compare(const struct ps_plan *plan, const struct timeline *measured, struct ps_simulation *simulation,
                              struct ps_error *error) {
    const struct schedule *schedule;
    if (simulation->timeline.event_count == 0)
        return error_set(error, PS_USAGE, "a run of %lld instructions is too long to compare",
                         (long long)simulation->instructions);
    TRY(schedule_find(plan->schedule, &schedule, error));
    simulation->against = arena_take(&simulation->arena, 1, sizeof *simulation->against);
    TRY(arena_check(&simulation->arena, "the comparison", error));
    TRY(against_compare(&simulation->timeline, measured, schedule->flush, simulation->against, error));
    if (!measured->memory_bytes) return PS_OK;
    return against_compare_memory(simulation->against, &simulation->arena, plan->workers, simulation->worker,
                                  measured->memory_bytes, error);
}

enum ps_status report_simulate_against(const struct ps_plan *plan, const struct ps_profile *profile,
                                       const struct ps_cluster *cluster, int batches, const struct timeline *measured,
                                       struct ps_simulation **out, struct ps_error *error) {
    struct ps_simulation *simulation;
    if (measured->workers != plan->workers)
        return error_set(error, PS_BAD_INPUT, "the trace is of %d workers; the plan has %d", measured->workers, plan->workers);
    TRY(ps_simulate(plan, profile, cluster, batches > 0 ? batches : measured->batches, &simulation, error));
    enum ps_status status = compare(plan, measured, simulation, error);
    if (status == PS_OK)
        *out = simulation;
    else
        ps_simulation_destroy(simulation);
    return status;
}

enum ps_status ps_simulate_against(const struct ps_plan *plan, const struct ps_profile *profile,
                                   const struct ps_cluster *cluster, int batches, const struct ps_trace *trace,
                                   struct ps_simulation **out, struct ps_error *error) {
    return report_simulate_against(plan, profile, cluster, batches, &trace->timeline, out, error);
}

static json_t *quantiles_json(const double quantiles[AGAINST_QUANTILES]) {
    return json_pack("{s:f, s:f, s:f, s:f}", "p50", quantiles[AGAINST_P50], "p90", quantiles[AGAINST_P90], "p99",
                     quantiles[AGAINST_P99], "max", quantiles[AGAINST_MAX]);
}

static void report_against_json(const struct against *against, json_t *root) {
    json_object_set_new(root, "period_error", json_real(against->period_error));
    json_object_set_new(root, "makespan_error", json_real(against->makespan_error));
    json_object_set_new(root, "measured_period_s", json_real(against->measured_period_s));
    json_object_set_new(root, "measured_makespan_s", json_real(against->measured_makespan_s));
    json_object_set_new(root, "compared_instructions", json_integer(against->matched));
    json_object_set_new(root, "unmatched_instructions", json_integer(against->unmatched));
    json_object_set_new(root, "duration_error", quantiles_json(against->duration_error));
    json_object_set_new(root, "start_error", quantiles_json(against->start_error));
    json_t *operations = json_array();
    for (int op = 0; op < OPCODE_COUNT; op++) {
        const struct against_operation *operation = &against->operation[op];
        if (operation->count == 0) continue;
        json_array_append_new(operations,
                              json_pack("{s:s, s:i, s:f, s:f}", "op", opcode_table[op].text, "count", operation->count,
                                        "predicted_s", operation->predicted_s, "measured_s", operation->measured_s));
    }
    json_object_set_new(root, "operations", operations);
    if (!against->memory) return;
    json_t *memory = json_array();
    for (int w = 0; w < against->memory_count; w++)
        json_array_append_new(memory, json_pack("{s:I, s:I}", "predicted_bytes", (json_int_t)against->memory[w].predicted_bytes,
                                                "measured_bytes", (json_int_t)against->memory[w].measured_bytes));
    json_object_set_new(root, "memory_error", json_real(against->memory_error));
    json_object_set_new(root, "memory", memory);
}

static void add_row(struct text *rows, const char *what, double predicted_s, double measured_s) {
    char a[32], b[32];
    text_add(rows, "%s\t%s\t%s\t", what, text_seconds(predicted_s, a), text_seconds(measured_s, b));
    if (measured_s > 0)
        text_add(rows, "%+.1f%%\n", 100 * (predicted_s / measured_s - 1));
    else
        text_add(rows, "-\n");
}

static void add_quantiles(struct text *text, const char *what, const double quantiles[AGAINST_QUANTILES]) {
    text_add(text, "%s  half within %.1f%%, 90%% within %.1f%%, 99%% within %.1f%%, all within %.1f%%\n", what,
             100 * quantiles[AGAINST_P50], 100 * quantiles[AGAINST_P90], 100 * quantiles[AGAINST_P99],
             100 * quantiles[AGAINST_MAX]);
}

static void report_against_table(const struct against *against, struct text *text) {
    struct text rows = {0};
    text_add(&rows, "against the trace\tpredicted\tmeasured\terror\n");
    add_row(&rows, "period", against->predicted_period_s, against->measured_period_s);
    add_row(&rows, "makespan", against->predicted_makespan_s, against->measured_makespan_s);
    for (int op = 0; op < OPCODE_COUNT; op++) {
        const struct against_operation *operation = &against->operation[op];
        char name[48];
        snprintf(name, sizeof name, "%s, mean of %d", opcode_table[op].text, operation->count);
        if (operation->count > 0) add_row(&rows, name, operation->predicted_s, operation->measured_s);
    }
    for (int w = 0; w < against->memory_count; w++) {
        const struct against_memory *memory = &against->memory[w];
        char a[32], b[32];
        text_add(&rows, "memory of worker %d\t%s\t%s\t%+.1f%%\n", w, text_bytes(memory->predicted_bytes, a),
                 text_bytes(memory->measured_bytes, b),
                 memory->measured_bytes > 0 ? 100 * ((double)memory->predicted_bytes / (double)memory->measured_bytes - 1) : 0);
    }
    add_table_below(text, &rows);
    add_quantiles(text, "durations  ", against->duration_error);
    add_quantiles(text, "start times", against->start_error);
    text_add(text, "            (durations as shares of their own, start times of the measured period)\n");
    if (against->unmatched > 0)
        text_add(text, "%d of the measured instructions are not in the plan's programs\n", against->unmatched);
}

/* ---------------------------------------------------------------- simulations */

json_t *simulation_document(const struct ps_simulation *simulation) {
    const struct ps_simulation_info *info = &simulation->info;
    json_t *workers = json_array();
    for (int w = 0; w < info->workers; w++) {
        const struct ps_simulation_worker *worker = &simulation->worker[w];
        json_array_append_new(workers,
                              json_pack("{s:f, s:{s:f, s:f, s:f, s:f}, s:I, s:i, s:I, s:I}", "busy_s", worker->busy_s, "idle_s",
                                        "fill_drain", worker->idle_fill_drain_s, "dependency", worker->idle_dependency_s,
                                        "communication", worker->idle_communication_s, "imbalance", worker->idle_imbalance_s,
                                        "memory_bytes", (json_int_t)worker->memory_bytes, "weight_copies",
                                        worker->weight_copies, "sent_bytes", (json_int_t)worker->sent_bytes, "received_bytes",
                                        (json_int_t)worker->received_bytes));
    }
    json_t *root =
        json_pack("{s:f, s:f, s:f, s:f, s:i, s:I, s:o}", "period_s", info->period_s, "makespan_s", info->makespan_s,
                  "throughput_samples_per_s", info->throughput_samples_per_s, "bubble", info->bubble, "batches", info->batches,
                  "instructions", (json_int_t)simulation->instructions, "workers", json_whole(workers, info->workers));
    if (!root) return NULL;
    report_explain_json(simulation, root);
    if (simulation->against) report_against_json(simulation->against, root);
    return root;
}

char *ps_simulation_json(const struct ps_simulation *simulation) { return json_text(simulation_document(simulation)); }

/* "4 samples/s", "0.123 samples/s": significant digits, never an exponent. */
static void add_throughput(struct text *text, double samples_per_s) {
    int decimals = samples_per_s >= 100 ? 0 : samples_per_s >= 1 ? 2 : 4;
    text_add(text, "throughput  %.*f samples/s\n", decimals, samples_per_s);
}

static double percent(double share, double whole) { return whole > 0 ? 100 * share / whole : 0; }

static void add_workers(const json_t *document, struct text *rows) {
    const double factor = percent(1, json_number_value(json_object_get(document, "makespan_s")));
#define SHARE(head, field) JSON_COLUMN(head, field, NULL, .digits = 1, .factor = factor, .unit = "%")
    const struct json_column columns[] = {
        JSON_COLUMN("worker", NULL, NULL),
        SHARE("busy", "busy_s"),
        SHARE("fill, drain", "idle_s.fill_drain"),
        SHARE("dependency", "idle_s.dependency"),
        SHARE("communication", "idle_s.communication"),
        SHARE("imbalance", "idle_s.imbalance"),
        JSON_COLUMN("memory", "memory_bytes", json_show_bytes),
        JSON_COLUMN("weight copies", "weight_copies", json_show_integer),
        JSON_COLUMN("sent", "sent_bytes", json_show_bytes),
        JSON_COLUMN("received", "received_bytes", json_show_bytes),
    };
    json_table(rows, json_object_get(document, "workers"), columns, sizeof columns / sizeof columns[0]);
}

char *ps_simulation_table(const struct ps_simulation *simulation) {
    const struct ps_simulation_info *info = &simulation->info;
    char a[32], b[32];
    struct text rows = {0}, text = {0};
    json_t *document = simulation_document(simulation);
    add_workers(document, &rows);
    if (!document) text.failed = true;
    json_decref(document);
    text_add(&text, "%s\n", simulation->title);
    text_add(&text, "period      %s for a mini-batch\n", text_seconds(info->period_s, a));
    add_throughput(&text, info->throughput_samples_per_s);
    text_add(&text, "makespan    %s for %d mini-batch%s\n", text_seconds(info->makespan_s, b), info->batches,
             info->batches == 1 ? "" : "es");
    text_add(&text, "bubble      %.1f%%\n", 100 * info->bubble);
    add_table_below(&text, &rows);
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

/* ------------------------------------------------------------------- programs */

/* Verified programs as a table: the weight copies of each worker, and the staleness of its gradients. */

/* Of one worker, the most of any stage that it holds. */
struct worker_facts {
    int weight_copies, staleness;
};

/* Free with free(); NULL: out of memory. */
static struct worker_facts *count_facts(const struct ps_programs *programs) {
    struct version_table versions;
    struct worker_facts *facts = calloc((size_t)programs->workers, sizeof *facts);
    if (!facts || version_table_count(programs, &versions, NULL) != PS_OK) {
        free(facts);
        return NULL;
    }
    for (int p = 0; p < programs->instance_count; p++) {
        const struct instance *instance = &programs->instances[p];
        struct worker_facts *worker = &facts[instance->worker];
        int staleness = instance->backward ? version_table_staleness(&versions, instance->stage) : 0;
        if (programs->slots[p].weights > worker->weight_copies) worker->weight_copies = programs->slots[p].weights;
        if (staleness > worker->staleness) worker->staleness = staleness;
    }
    version_table_free(&versions);
    return facts;
}

/* Takes `listing` (NULL: without it). Of programs that are wrong nothing can be counted but instructions. */
static json_t *programs_document(const struct ps_programs *programs, char *listing) {
    const enum ps_status checked = programs->parsed ? ps_programs_verify(programs, NULL) : PS_OK;
    const bool verified = checked == PS_OK;
    struct worker_facts *facts = verified ? count_facts(programs) : NULL;
    const bool complete = facts || (!verified && checked != PS_OUT_OF_MEMORY);
    json_t *workers = json_array();
    for (int w = 0; complete && w < programs->workers; w++) {
        json_t *worker = json_pack("{s:i}", "instructions", programs->worker[w].count);
        if (facts) json_object_set_new(worker, "weight_copies", json_integer(facts[w].weight_copies));
        if (facts) json_object_set_new(worker, "staleness", json_integer(facts[w].staleness));
        json_array_append_new(workers, worker);
    }
    json_t *root = json_pack("{s:b, s:o}", "verified", verified, "workers", json_whole(workers, programs->workers));
    if (root && listing) json_object_set_new(root, "listing", json_string(listing));
    free(listing);
    free(facts);
    return root;
}

char *ps_programs_table(const struct ps_programs *programs) {
    static const struct json_column columns[] = {
        JSON_COLUMN("worker", NULL, NULL),
        JSON_COLUMN("instructions", "instructions", json_show_integer),
        JSON_COLUMN("weight copies", "weight_copies", json_show_integer),
        JSON_COLUMN("largest staleness", "staleness", json_show_integer),
    };
    struct text rows = {0}, text = {0};
    json_t *document = programs_document(programs, NULL);
    json_table(&rows, json_object_get(document, "workers"), columns, sizeof columns / sizeof columns[0]);
    text_add_table(&text, &rows);
    if (!document) text.failed = true;
    json_decref(document);
    return text_take(&text);
}

char *ps_programs_json(const struct ps_programs *programs) {
    char *listing = ps_programs_print(programs);
    return listing ? json_text(programs_document(programs, listing)) : NULL;
}
