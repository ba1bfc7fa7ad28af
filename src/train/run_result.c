/* What a finished run says of itself: fields, JSON, and a table with the prediction beside the measurement. */
#include "train/run_result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/text.h"
#include "base/versioned.h"

enum ps_status run_create(int workers, struct ps_run **run, struct ps_error *error) {
    struct ps_run *made;
    TRY(memory_new(&made, 1, "a run's figures", error));
    made->worker = arena_take(&made->arena, (size_t)workers, sizeof *made->worker);
    made->process = arena_take(&made->arena, (size_t)workers, sizeof *made->process);
    enum ps_status status = arena_check(&made->arena, "a run's figures", error);
    if (status != PS_OK) {
        free(made);
        return status;
    }
    made->info = (struct ps_run_info){.workers = workers,
                                      .loss = NAN,
                                      .accuracy = NAN,
                                      .valid_loss = NAN,
                                      .valid_accuracy = NAN,
                                      .perplexity = NAN,
                                      .valid_perplexity = NAN,
                                      .valid_bleu = NAN,
                                      .samples_per_s = NAN,
                                      .predicted_samples_per_s = NAN,
                                      .top5 = NAN,
                                      .best = NAN,
                                      .valid_top5 = NAN};
    for (int w = 0; w < workers; w++) made->worker[w].prediction_error = made->worker[w].newest_error = NAN;
    *run = made;
    return PS_OK;
}

enum ps_status run_add_point(struct ps_run *run, const struct ps_run_point *point, struct ps_error *error) {
    TRY(memory_grow(&run->points, &run->point_capacity, run->point_count + 1, "a run's figures", error));
    run->points[run->point_count++] = *point;
    return PS_OK;
}

int ps_run_point_count(const struct ps_run *run) { return run->point_count; }

void ps_run_point_get(const struct ps_run *run, int point, struct ps_run_point *result, size_t size) {
    VERSIONED_GIVE(run->points[point], result, size);
}

double ps_run_point_metric(const struct ps_run_point *point, enum ps_metric metric) {
    const double of[] = {[PS_METRIC_ACCURACY] = point->valid_accuracy,
                         [PS_METRIC_BLEU] = point->valid_bleu,
                         [PS_METRIC_PERPLEXITY] = point->valid_perplexity,
                         [PS_METRIC_LOSS] = point->valid_loss};
    return of[metric];
}

void ps_run_destroy(struct ps_run *run) {
    if (!run) return;
    arena_release(&run->arena);
    free(run->points);
    free(run);
}

void ps_run_info_get(const struct ps_run *run, struct ps_run_info *result, size_t size) {
    VERSIONED_GIVE(run->info, result, size);
}

void ps_run_process_get(const struct ps_run *run, int worker, struct ps_run_process *result, size_t size) {
    VERSIONED_GIVE(run->process[worker], result, size);
}

void ps_run_worker_get(const struct ps_run *run, int worker, struct ps_run_worker *result, size_t size) {
    VERSIONED_GIVE(run->worker[worker], result, size);
}

static void add_process(json_t *object, const struct ps_run_process *process) {
    const struct {
        const char *field;
        int64_t bytes;
    } fields[] = {{"checkpoint_bytes", process->checkpoint_bytes}, {"loader_bytes", process->loader_bytes},
                  {"process_peak_bytes", process->peak_bytes},     {"process_code_bytes", process->code_bytes},
                  {"process_start_bytes", process->start_bytes},   {"process_others_bytes", process->others_bytes}};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        json_object_set_new(object, fields[f].field, json_integer((json_int_t)fields[f].bytes));
}

json_t *run_document(const struct ps_run *run) {
    const struct ps_run_info *info = &run->info;
    json_t *workers = json_array();
    for (int w = 0; w < info->workers; w++)
        json_array_append_new(workers, json_pack("{s:I, s:I, s:f, s:I, s:I}", "predicted_memory_bytes",
                                                 (json_int_t)run->worker[w].planned_bytes, "memory_bytes",
                                                 (json_int_t)run->worker[w].measured_bytes, "busy_s", run->worker[w].busy_s,
                                                 "sent_bytes", (json_int_t)run->worker[w].sent_bytes, "received_bytes",
                                                 (json_int_t)run->worker[w].received_bytes));
    for (int w = 0; w < info->workers; w++)
        json_set_finite(json_array_get(workers, (size_t)w), "prediction_error", run->worker[w].prediction_error);
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:s*, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "format", "penstock-summary", "version",
                  1, "model", run->model, "network", run->network[0] ? run->network : NULL, "schedule", run->schedule,
                  "weights", run->weights, "optimizer", run->optimizer, "device", run->device, "transport", run->transport,
                  "batch", run->batch, "micro_batches", run->micro_batches, "step", info->steps, "epoch", info->epochs);
    if (!root) {
        json_decref(workers);
        return NULL;
    }
    if (run->method[0]) json_object_set_new(root, "method", json_string(run->method));
    json_set_finite(root, "loss", info->loss);
    json_set_finite(root, "accuracy", info->accuracy);
    json_set_finite(root, "top5", info->top5);
    json_set_finite(root, "valid_loss", info->valid_loss);
    json_set_finite(root, "valid_accuracy", info->valid_accuracy);
    json_set_finite(root, "valid_top5", info->valid_top5);
    json_set_finite(root, "perplexity", info->perplexity);
    json_set_finite(root, "valid_perplexity", info->valid_perplexity);
    json_set_finite(root, "valid_bleu", info->valid_bleu);
    if (info->best_step > 0) {
        json_object_set_new(root, "best_step", json_integer(info->best_step));
        json_object_set_new(root, "best_by", json_string(run->best_by));
        json_set_finite(root, "best", info->best);
    }
    if (info->ended_early) json_object_set_new(root, "ended_early", json_true());
    json_set_finite(root, "lr", run->lr);
    json_set_finite(root, "samples_per_s", info->samples_per_s);
    json_set_finite(root, "predicted_samples_per_s", info->predicted_samples_per_s);
    json_set_finite(root, "elapsed_s", info->wall_s);
    json_set_finite(root, "checkpoint_stall_s", info->checkpoint_stall_s);
    add_process(root, &run->process[0]);
    for (int w = 1; w < info->workers; w++)
        if (run->process[w].peak_bytes > 0) add_process(json_array_get(workers, (size_t)w), &run->process[w]);
    json_object_set_new(root, "workers", workers);
    return root;
}

char *ps_run_json(const struct ps_run *run) { return json_text(run_document(run)); }

/* A number, or '-' where it is not known. */
static const char *shown(double number, const char *format, double factor, char out[32]) {
    if (!isfinite(number)) return "-";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    number_print(out, 32, format, number * factor);
#pragma GCC diagnostic pop
    return out;
}

static void add_learning(const struct ps_run_info *info, struct text *text) {
    const struct {
        const char *data;
        double loss, accuracy, top5, perplexity, bleu;
    } figures[] = {
        {"training, last epoch", info->loss, info->accuracy, info->top5, info->perplexity, NAN},
        {"validation", info->valid_loss, info->valid_accuracy, info->valid_top5, info->valid_perplexity, info->valid_bleu}};
    bool accuracy = isfinite(info->accuracy), top5 = isfinite(info->top5), perplexity = isfinite(info->perplexity),
         bleu = isfinite(info->valid_bleu);
    char a[32];
    struct text rows = {0};
    text_add(&rows, "\tloss%s%s%s%s\n", accuracy ? "\taccuracy" : "", top5 ? "\ttop 5" : "", perplexity ? "\tperplexity" : "",
             bleu ? "\tBLEU" : "");
    for (int f = 0; f < 2; f++) {
        text_add(&rows, "%s\t%s", figures[f].data, shown(figures[f].loss, "%.4f", 1, a));
        if (accuracy) text_add(&rows, "\t%s", shown(figures[f].accuracy, "%.2f%%", 100, a));
        if (top5) text_add(&rows, "\t%s", shown(figures[f].top5, "%.2f%%", 100, a));
        if (perplexity) text_add(&rows, "\t%s", shown(figures[f].perplexity, "%.2f", 1, a));
        if (bleu) text_add(&rows, "\t%s", shown(figures[f].bleu, "%.2f", 1, a));
        text_add(&rows, "\n");
    }
    text_add(text, "\n");
    text_add_table(text, &rows);
}

static void add_comparison(const struct ps_run *run, struct text *text) {
    const struct ps_run_info *info = &run->info;
    char a[32], b[32], c[32], d[32];
    struct text rows = {0};
    text_add(&rows, "\tpredicted\tmeasured\tbusy\tsent\treceived\n");
    text_add(&rows, "samples per second\t%s\t%s\t\t\t\n", shown(info->predicted_samples_per_s, "%.1f", 1, a),
             shown(info->samples_per_s, "%.1f", 1, b));
    for (int w = 0; w < info->workers; w++) {
        const struct ps_run_worker *worker = &run->worker[w];
        text_add(&rows, "memory of worker %d\t%s\t%s\t%.1f s\t%s\t%s\n", w, text_bytes(worker->planned_bytes, a),
                 text_bytes(worker->measured_bytes, b), worker->busy_s, text_bytes(worker->sent_bytes, c),
                 text_bytes(worker->received_bytes, d));
    }
    text_add(text, "\n");
    text_add_table(text, &rows);
}

char *ps_run_table(const struct ps_run *run) {
    const struct ps_run_info *info = &run->info;
    char a[32];
    struct text text = {0};
    text_add(&text, "%s: %s, %s, %s on %d %s worker%s\n", run->model, run->schedule, run->weights, run->optimizer,
             info->workers, run->device, text_plural(info->workers));
    text_add(&text, "%d step%s of %d sample%s in %s\n", info->steps, text_plural(info->steps), run->batch,
             text_plural(run->batch), text_seconds(info->wall_s, a));
    if (isfinite(info->loss)) add_learning(info, &text);
    if (info->best_step > 0 && info->best_step != info->steps) {
        const bool share = strcmp(run->best_by, "accuracy") == 0;
        text_add(&text, "\nbest validation %s: %s at step %d%s\n", run->best_by,
                 shown(info->best, share ? "%.2f%%" : "%.4f", share ? 100 : 1, a), info->best_step,
                 info->ended_early ? ", and none after it was better: training ended early" : "");
    }
    add_comparison(run, &text);
    return text_take(&text);
}
