/* A prediction beside the trace of a real run: reads the trace, simulates as much, and shows how far the two are apart. */
#include <stdlib.h>

#include "report/parts.h"

static enum ps_status compare_memory(const struct ps_plan *plan, const struct timeline *measured,
                                     struct ps_simulation *simulation, struct ps_error *error) {
    if (!measured->memory_bytes) return PS_OK;
    int64_t *predicted = calloc((size_t)plan->workers, sizeof *predicted);
    if (!predicted) return error_memory(error, "the comparison", (size_t)plan->workers * sizeof *predicted);
    for (int w = 0; w < plan->workers; w++) predicted[w] = simulation->worker[w].memory_bytes;
    enum ps_status status =
        against_memory_compare(simulation->against, plan->workers, predicted, measured->memory_bytes, error);
    free(predicted);
    return status;
}

static enum ps_status compare(const struct ps_plan *plan, const struct timeline *measured, struct ps_simulation *simulation,
                              struct ps_error *error) {
    const struct schedule *schedule;
    if (simulation->timeline.event_count == 0)
        return error_set(error, PS_USAGE, "a run of %lld instructions is too long to compare",
                         (long long)simulation->instructions);
    TRY(schedule_find(plan->schedule, &schedule, error));
    simulation->against = calloc(1, sizeof *simulation->against);
    if (!simulation->against) return error_memory(error, "the comparison", sizeof *simulation->against);
    TRY(against_compare(&simulation->timeline, measured, schedule->flush, simulation->against, error));
    return compare_memory(plan, measured, simulation, error);
}

enum ps_status ps_simulate_against(const struct ps_plan *plan, const struct ps_profile *profile,
                                   const struct ps_cluster *cluster, int batches, const char *trace_path,
                                   struct ps_simulation **out, struct ps_error *error) {
    struct timeline measured;
    struct ps_simulation *simulation = NULL;
    TRY(report_trace_read(trace_path, &measured, error));
    enum ps_status status = PS_OK;
    if (measured.workers != plan->workers)
        status = error_set(error, PS_BAD_INPUT, "%s: is of %d workers; the plan has %d", trace_path, measured.workers,
                           plan->workers);
    if (batches == 0) batches = measured.batches;
    if (status == PS_OK) status = ps_simulate(plan, profile, cluster, batches, &simulation, error);
    if (status == PS_OK) status = compare(plan, &measured, simulation, error);
    timeline_free(&measured);
    if (status != PS_OK) {
        ps_simulation_destroy(simulation);
        return status;
    }
    *out = simulation;
    return PS_OK;
}

static json_t *quantiles_json(const double quantiles[AGAINST_QUANTILES]) {
    return json_pack("{s:f, s:f, s:f, s:f}", "p50", quantiles[AGAINST_P50], "p90", quantiles[AGAINST_P90], "p99",
                     quantiles[AGAINST_P99], "max", quantiles[AGAINST_MAX]);
}

void report_against_json(const struct against *against, json_t *root) {
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

void report_against_table(const struct against *against, struct text *text) {
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
    report_add_table(text, &rows);
    add_quantiles(text, "durations  ", against->duration_error);
    add_quantiles(text, "start times", against->start_error);
    text_add(text, "            (durations as shares of their own, start times of the measured period)\n");
    if (against->unmatched > 0)
        text_add(text, "%d of the measured instructions are not in the plan's programs\n", against->unmatched);
}
