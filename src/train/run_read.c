/* A run that has ended, as its directory says it: summary.json, and of log.jsonl the lines of evaluations. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/page.h"
#include "train/run_result.h"

static const struct {
    const char *name;
    size_t offset;
} figures[] =
    {
        {"loss", offsetof(struct ps_run_info, loss)},
        {"accuracy", offsetof(struct ps_run_info, accuracy)},
        {"top5", offsetof(struct ps_run_info, top5)},
        {"perplexity", offsetof(struct ps_run_info, perplexity)},
        {"valid_loss", offsetof(struct ps_run_info, valid_loss)},
        {"valid_accuracy", offsetof(struct ps_run_info, valid_accuracy)},
        {"valid_top5", offsetof(struct ps_run_info, valid_top5)},
        {"valid_perplexity", offsetof(struct ps_run_info, valid_perplexity)},
        {"valid_bleu", offsetof(struct ps_run_info, valid_bleu)},
        {"best", offsetof(struct ps_run_info, best)},
        {"samples_per_s", offsetof(struct ps_run_info, samples_per_s)},
        {"predicted_samples_per_s", offsetof(struct ps_run_info, predicted_samples_per_s)},
        {"elapsed_s", offsetof(struct ps_run_info, wall_s)},
        {"checkpoint_stall_s", offsetof(struct ps_run_info, checkpoint_stall_s)},
},
  points[] = {
      {"epoch_loss", offsetof(struct ps_run_point, loss)},
      {"epoch_accuracy", offsetof(struct ps_run_point, accuracy)},
      {"valid_loss", offsetof(struct ps_run_point, valid_loss)},
      {"valid_accuracy", offsetof(struct ps_run_point, valid_accuracy)},
      {"valid_perplexity", offsetof(struct ps_run_point, valid_perplexity)},
      {"valid_bleu", offsetof(struct ps_run_point, valid_bleu)},
      {"training_s", offsetof(struct ps_run_point, training_s)},
};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static double number_at(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static enum ps_status read_worker(const struct json_place *place, struct ps_run_worker *worker, struct ps_error *error) {
    TRY(json_get_integer(place, "predicted_memory_bytes", true, 0, INT64_MAX, &worker->planned_bytes, error));
    TRY(json_get_integer(place, "memory_bytes", true, 0, INT64_MAX, &worker->measured_bytes, error));
    TRY(json_get_integer(place, "sent_bytes", false, 0, INT64_MAX, &worker->sent_bytes, error));
    TRY(json_get_integer(place, "received_bytes", false, 0, INT64_MAX, &worker->received_bytes, error));
    worker->prediction_error = number_at(place->value, "prediction_error");
    return json_get_number(place, "busy_s", true, 0, INFINITY, &worker->busy_s, error);
}

static enum ps_status read_texts(const struct json_place *root, struct ps_run *run, struct ps_error *error) {
    const struct {
        const char *name;
        char *at;
        size_t size;
    } texts[] = {
        {"model", run->model, sizeof run->model},       {"network", run->network, sizeof run->network},
        {"method", run->method, sizeof run->method},    {"schedule", run->schedule, sizeof run->schedule},
        {"weights", run->weights, sizeof run->weights}, {"optimizer", run->optimizer, sizeof run->optimizer},
        {"device", run->device, sizeof run->device},    {"transport", run->transport, sizeof run->transport},
        {"best_by", run->best_by, sizeof run->best_by},
    };
    for (size_t t = 0; t < COUNT(texts); t++) {
        const char *text = "";
        TRY(json_get_string(root, texts[t].name, false, &text, error));
        snprintf(texts[t].at, texts[t].size, "%s", text);
    }
    return PS_OK;
}

static enum ps_status read_summary(const struct json_place *root, struct ps_run **out, struct ps_error *error) {
    struct json_place workers, worker;
    size_t count;
    TRY(json_field(root, "workers", true, &workers, error));
    TRY(json_array_length(&workers, &count, error));
    if (count == 0 || count > INT32_MAX) return json_error(&workers, error, "a run has workers");
    TRY(run_create((int)count, out, error));
    struct ps_run *run = *out;
    for (size_t w = 0; w < count; w++) {
        TRY(json_item(&workers, w, &worker, error));
        TRY(read_worker(&worker, &run->worker[w], error));
    }
    TRY(read_texts(root, run, error));
    TRY(json_get_int(root, "batch", true, 0, INT32_MAX, &run->batch, error));
    TRY(json_get_int(root, "micro_batches", true, 0, INT32_MAX, &run->micro_batches, error));
    TRY(json_get_int(root, "step", true, 0, INT32_MAX, &run->info.steps, error));
    TRY(json_get_int(root, "epoch", true, 0, INT32_MAX, &run->info.epochs, error));
    TRY(json_get_int(root, "best_step", false, 0, INT32_MAX, &run->info.best_step, error));
    TRY(json_get_bool(root, "ended_early", false, &run->info.ended_early, error));
    run->lr = number_at(root->value, "lr");
    for (size_t f = 0; f < COUNT(figures); f++) {
        const double value = number_at(root->value, figures[f].name);
        memcpy((char *)&run->info + figures[f].offset, &value, sizeof value);
    }
    return PS_OK;
}

/* Lines of the ends of segments; where there are evaluations only those. */
static enum ps_status take_points(const json_t *lines, struct ps_run *run, struct ps_error *error) {
    bool validated = false;
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line) validated |= json_object_get(line, "valid_loss") != NULL;
    json_array_foreach(lines, i, line) {
        struct ps_run_point point = {.step = (int)json_integer_value(json_object_get(line, "step")),
                                     .epoch = (int)json_integer_value(json_object_get(line, "epoch"))};
        if (!json_object_get(line, validated ? "valid_loss" : "training_s")) continue;
        for (size_t p = 0; p < COUNT(points); p++) {
            const double value = number_at(line, points[p].name);
            memcpy((char *)&point + points[p].offset, &value, sizeof value);
        }
        TRY(run_add_point(run, &point, error));
    }
    return PS_OK;
}

enum ps_status ps_run_read(const char *run_dir, struct ps_run **run, struct ps_error *error) {
    char path[4096];
    json_t *document, *lines = NULL;
    struct ps_run *made = NULL;
    if (!file_exists(file_join(path, run_dir, "summary.json")))
        return error_set(error, PS_NO_CHECKPOINT, "%s: holds no run that has ended: there is no summary.json", run_dir);
    TRY(json_read_file(path, "penstock-summary", &document, error));
    const struct json_place root = json_root(document, path);
    enum ps_status status = read_summary(&root, &made, error);
    if (status == PS_OK) status = report_log_read(run_dir, &lines, error);
    if (status == PS_OK) status = take_points(lines, made, error);
    json_decref(lines);
    json_decref(document);
    if (status == PS_OK)
        *run = made;
    else
        ps_run_destroy(made);
    return status;
}
