/* The files of a run directory; see run_directory.h. */
#include "run/run_directory.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "data/vocabulary.h"
#include "report/report.h"

#define PATH_SIZE 4096

enum ps_status run_directory_check(const char *path, struct ps_error *error) {
    static const char *const traces[] = {"config.json", "summary.json", "checkpoints"};
    char place[PATH_SIZE];
    for (size_t i = 0; path && i < sizeof traces / sizeof *traces; i++) {
        if (!file_exists(file_join(place, path, traces[i]))) continue;
        error_set(error, PS_USAGE, "--out: %s holds a run already (%s)", path, traces[i]);
        error_hint(error, "choose another directory, or remove this one");
        return PS_USAGE;
    }
    return PS_OK;
}

/* ----------------------------------------------------------------------- config */

static void set_text(json_t *object, const char *field, const char *text) {
    if (text) json_object_set_new(object, field, json_string(text));
}

static void set_integer(json_t *object, const char *field, int64_t number) {
    json_object_set_new(object, field, json_integer((json_int_t)number));
}

static json_t *plan_options(const struct ps_plan_options *options) {
    json_t *plan = json_object();
    set_text(plan, "method", options->method);
    set_text(plan, "schedule", options->schedule);
    set_text(plan, "weights", options->weights);
    set_integer(plan, "micro_batch", options->micro_batch);
    set_integer(plan, "micro_batches", options->micro_batches);
    json_object_set_new(plan, "recompute", json_boolean(options->recompute));
    json_object_set_new(plan, "paper_prediction", json_boolean(options->paper_prediction));
    json_object_set_new(plan, "replicate", json_boolean(options->replicate));
    json_object_set_new(plan, "paper_cost", json_boolean(options->paper_cost));
    return plan;
}

static json_t *cluster_options(const struct ps_cluster_options *options) {
    json_t *cluster = json_object();
    set_integer(cluster, "workers", options->workers);
    set_integer(cluster, "memory_bytes", options->memory_bytes);
    run_set_number(cluster, "bandwidth_bytes_per_s", options->bandwidth_bytes_per_s);
    run_set_number(cluster, "latency_s", options->latency_s);
    json_object_set_new(cluster, "overlap", json_boolean(!options->no_overlap));
    set_integer(cluster, "cores", options->cores);
    return cluster;
}

/* The rule as it runs, defaults filled in. */
static void set_rule(json_t *config, const struct update_rule *rule, const struct ps_train_options *options) {
    const struct optimizer_settings *settings = &rule->settings;
    set_text(config, "optimizer", rule->optimizer->name);
    run_set_number(config, "lr", settings->lr);
    if (rule->optimizer->momentum_settings) {
        run_set_number(config, "momentum", settings->momentum);
        run_set_number(config, "dampening", settings->dampening);
    }
    run_set_number(config, "weight_decay", settings->weight_decay);
    if (rule->optimizer->adam_settings) {
        json_object_set_new(config, "betas", json_pack("[f, f]", settings->beta1, settings->beta2));
        run_set_number(config, "eps", settings->eps);
    }
    set_text(config, "lr_schedule", options->lr_schedule ? options->lr_schedule : "constant");
    set_integer(config, "warmup_steps", options->warmup_steps);
    json_object_set_new(config, "lr_per_epoch", json_boolean(options->lr_per_epoch));
    if (rule->clip > 0) run_set_number(config, "clip", rule->clip);
    run_set_number(config, "label_smoothing", options->label_smoothing);
    set_text(config, "decay_exclude", options->decay_exclude);
}

static enum ps_status write_config(const char *path, const struct job *job, const struct update_rule *rule, int64_t steps,
                                   struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    char place[PATH_SIZE], seed[32];
    /* JSON integers end at 2^63. */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    json_t *config = json_pack("{s:s, s:i, s:s}", "format", "penstock-config", "version", 1, "penstock", ps_version());
    set_text(config, "model", job->plan->model);
    set_text(config, "plan", options->plan_path);
    set_text(config, "profile", options->profile_path);
    set_text(config, "cluster", options->cluster_path);
    json_object_set_new(config, "plan_options", plan_options(&options->plan));
    json_object_set_new(config, "cluster_options", cluster_options(&options->cluster));
    set_text(config, "data", options->data);
    set_text(config, "valid", options->valid);
    set_integer(config, "batch", job->batch);
    set_integer(config, "epochs", options->epochs);
    set_integer(config, "steps", steps);
    set_integer(config, "evaluate_every", options->evaluate_every);
    set_rule(config, rule, options);
    set_text(config, "device", job->device->name);
    set_text(config, "transport", job->transport->name);
    set_integer(config, "threads", job->threads);
    json_object_set_new(config, "emulate", json_boolean(options->emulate));
    set_text(config, "seed", seed);
    return json_write_file(config, file_join(place, path, "config.json"), error);
}

/* --------------------------------------------------------------------- directory */

static enum ps_status cannot_write_log(const struct run_directory *directory, struct ps_error *error) {
    return error_set(error, PS_IO, "%s/log.jsonl: cannot write: %s", directory->path, strerror(errno));
}

enum ps_status run_directory_start(const char *path, const struct job *job, const struct update_rule *rule, int64_t steps,
                                   struct run_directory *directory, struct ps_error *error) {
    *directory = (struct run_directory){.path = path};
    if (!path) return PS_OK;
    char place[PATH_SIZE];
    TRY(run_directory_check(path, error));
    TRY(file_make_directory(path, error));
    TRY(file_sync_directory(file_join(place, path, ".."), error));
    TRY(write_config(path, job, rule, steps, error));
    TRY(ps_plan_write(job->plan, file_join(place, path, "plan.json"), error));
    directory->log = fopen(file_join(place, path, "log.jsonl"), "we");
    return directory->log ? PS_OK : cannot_write_log(directory, error);
}

/* A list with one number for each worker. */
static void set_list(json_t *line, const char *field, const struct log_entry *entry, size_t offset) {
    json_t *list = json_array();
    for (int w = 0; w < entry->workers; w++) {
        double number;
        memcpy(&number, (const char *)&entry->predicted[w] + offset, sizeof number);
        json_array_append_new(list, isfinite(number) ? json_real(number) : json_null());
    }
    json_object_set_new(line, field, list);
}

enum ps_status run_directory_write_words(const struct run_directory *directory, const struct vocabulary *const words[2],
                                         struct ps_error *error) {
    char place[PATH_SIZE];
    if (!directory->path || !words[0]) return PS_OK;
    return vocabulary_write(file_join(place, directory->path, "vocabulary.json"), words, error);
}

enum ps_status run_directory_log(struct run_directory *directory, const struct log_entry *entry, struct ps_error *error) {
    if (!directory->log) return PS_OK;
    json_t *line = json_pack("{s:I, s:I}", "step", (json_int_t)entry->step, "epoch", (json_int_t)entry->epoch);
    run_set_number(line, "loss", entry->loss);
    run_set_number(line, "accuracy", entry->accuracy);
    run_set_number(line, "top5", entry->top5);
    run_set_number(line, "perplexity", entry->perplexity);
    run_set_number(line, "valid_loss", entry->valid_loss);
    run_set_number(line, "valid_accuracy", entry->valid_accuracy);
    run_set_number(line, "valid_top5", entry->valid_top5);
    run_set_number(line, "valid_perplexity", entry->valid_perplexity);
    run_set_number(line, "lr", entry->lr);
    run_set_number(line, "samples_per_s", entry->samples_per_s);
    run_set_number(line, "elapsed_s", entry->elapsed_s);
    if (entry->predicted) {
        set_list(line, "prediction_error", entry, offsetof(struct ps_run_worker, prediction_error));
        set_list(line, "newest_error", entry, offsetof(struct ps_run_worker, newest_error));
    }
    char *text = json_dumps(line, JSON_REAL_PRECISION(9));
    json_decref(line);
    if (!text) return error_memory(error, "a log line", 256);
    bool written = fprintf(directory->log, "%s\n", text) > 0 && fflush(directory->log) == 0;
    free(text);
    return written ? PS_OK : cannot_write_log(directory, error);
}

static enum ps_status write_text(const struct run_directory *directory, const char *name, char *text, struct ps_error *error) {
    char place[PATH_SIZE];
    if (!text) return error_memory(error, name, 1 << 20);
    enum ps_status status = file_write(file_join(place, directory->path, name), text, strlen(text), error);
    free(text);
    return status;
}

enum ps_status run_directory_write_timelines(const struct run_directory *directory, const struct timeline *trace,
                                             const struct timeline *picture, const char *title, struct ps_error *error) {
    if (!directory->path) return PS_OK;
    struct timeline_caption caption = {.title = title};
    TRY(write_text(directory, "trace.json", report_timeline_trace(trace, &caption), error));
    return write_text(directory, "timeline.svg", report_timeline_svg(picture, &caption), error);
}

enum ps_status run_directory_finish(struct run_directory *directory, const struct ps_run *run, struct ps_error *error) {
    if (!directory->path) return PS_OK;
    if (fsync(fileno(directory->log)) != 0 && errno != EINVAL) return cannot_write_log(directory, error);
    char place[PATH_SIZE];
    return json_write_file(run_document(run), file_join(place, directory->path, "summary.json"), error);
}

void run_directory_close(struct run_directory *directory) {
    if (directory->log) fclose(directory->log);
    *directory = (struct run_directory){0};
}
