/* The files of a run directory; see run_directory.h. */
#include "train/run_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/vocabulary.h"
#include "graph/network.h"
#include "report/events.h"
#include "report/report.h"

#define PATH_SIZE 4096

/* The directory, or what is there of the way to it, can be written. */
static enum ps_status check_place(const char *path, struct ps_error *error) {
    char place[PATH_SIZE], below[PATH_SIZE];
    struct stat found;
    snprintf(place, sizeof place, "%s", path);
    bool there = stat(place, &found) == 0;
    while (!there && errno == ENOENT && strcmp(place, ".") != 0) {
        memcpy(below, place, sizeof below);
        file_parent(below, place);
        there = stat(place, &found) == 0;
    }
    if (there && !S_ISDIR(found.st_mode)) {
        there = false;
        errno = ENOTDIR;
    }
    if (there && access(place, W_OK | X_OK) == 0) return PS_OK;
    return error_set(error, PS_IO, "`out`: %s: cannot write there: %s", path, strerror(errno));
}

enum ps_status run_directory_check(const char *path, struct ps_error *error) {
    static const char *const traces[] = {"config.json", "summary.json"};
    char place[PATH_SIZE];
    for (size_t i = 0; path && i < sizeof traces / sizeof *traces; i++) {
        if (!file_exists(file_join(place, path, traces[i]))) continue;
        error_set(error, PS_USAGE, "`out`: %s holds a run already (%s)", path, traces[i]);
        error_hint(error, "choose another directory, or remove this one");
        return PS_USAGE;
    }
    return path ? check_place(path, error) : PS_OK;
}

/* --------------------------------------------------------------------- directory */

static enum ps_status cannot_write_log(const struct run_directory *directory, struct ps_error *error) {
    return error_set(error, PS_IO, "%s/log.jsonl: cannot write: %s", directory->path, strerror(errno));
}

static enum ps_status lock(struct run_directory *directory, struct ps_error *error) {
    int descriptor = open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return error_set(error, PS_IO, "%s: cannot open: %s", directory->path, strerror(errno));
    /* Where a file system has no locks there is none. */
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(descriptor);
        return error_set(error, PS_USAGE, "%s: another process is training in it", directory->path);
    }
    directory->lock = descriptor + 1;
    return PS_OK;
}

enum ps_status run_directory_open(const char *path, const struct resumption *before, struct run_directory *directory,
                                  struct ps_error *error) {
    *directory = (struct run_directory){.path = path};
    if (!path) return PS_OK;
    char place[PATH_SIZE];
    if (before->document) return lock(directory, error);
    TRY(file_make_directory(path, error));
    TRY(lock(directory, error));
    TRY(run_directory_check(path, error));
    return file_sync_directory(file_join(place, path, ".."), error);
}

bool run_directory_is(const struct run_directory *directory, const char *path) {
    struct stat own, other;
    if (!directory->path) return false;
    if (strcmp(path, directory->path) == 0) return true;
    return directory->lock > 0 && fstat(directory->lock - 1, &own) == 0 && stat(path, &other) == 0 &&
           own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* *size: of the whole text; then up to the last line that is whole and of no later step. Lines before it that are none stay. */
static enum ps_status lines_up_to(const char *path, const char *text, int64_t step, size_t *size, struct ps_error *error) {
    const char *const text_end = text + *size;
    const char *line = text, *end;
    long long number = 1, none = 0;
    for (*size = 0; (end = memchr(line, '\n', (size_t)(text_end - line))) != NULL; line = end + 1, number++) {
        const size_t length = (size_t)(end - line);
        json_t *entry = NULL;
        if (json_parse(line, length, path, NULL, &entry, NULL) == PS_OUT_OF_MEMORY) return error_memory(error, path, length);
        const json_t *of_line = json_object_get(entry, "step");
        const bool known = json_is_integer(of_line), later = known && json_integer_value(of_line) > step;
        json_decref(entry);
        if (later) break;
        if (known) *size = (size_t)(end + 1 - text);
        if (!known && none++ == 0)
            log_warn("%s: line %lld is not a line of a log: an object with a step is expected", path, number);
    }
    return PS_OK;
}

/* Opens the log of a run that goes on after `step`: what it wrote later comes again. */
static enum ps_status open_log_again(struct run_directory *directory, const char *path, int64_t step, struct ps_error *error) {
    char *text;
    size_t size;
    if (file_exists(path)) {
        TRY(file_read(path, SIZE_MAX, &text, &size, error));
        const enum ps_status status = lines_up_to(path, text, step, &size, error);
        free(text);
        TRY(status);
        if (truncate(path, (off_t)size) != 0) return cannot_write_log(directory, error);
    }
    directory->log = fopen(path, "ae");
    return directory->log ? PS_OK : cannot_write_log(directory, error);
}

/* Of the first type of device, by which the run can be predicted again; those of others are kept beside it. */
static enum ps_status write_profiles(const struct job *job, const char *path, struct ps_error *error) {
    char place[PATH_SIZE], name[96];
    for (const struct ps_profile *profile = job->profile; profile; profile = profile->other_device) {
        snprintf(name, sizeof name, "profile-%s.json", profile->device);
        file_join(place, path, profile == job->profile ? "profile.json" : name);
        TRY(ps_profile_write(profile, place, error));
    }
    return PS_OK;
}

/* With the values of its constants in network.safetensors beside it: they are part of what it computes. */
static enum ps_status write_network(const struct job *job, const char *path, struct ps_error *error) {
    struct ps_network *network;
    char place[PATH_SIZE];
    TRY(network_parse(job->network_text, strlen(job->network_text), "the network", &network, error));
    enum ps_status status = values_take_constants(job->values, network->graph, &network->graph->values, error);
    if (status == PS_OK) status = network_write_json(network, file_join(place, path, "network.json"), error);
    ps_network_destroy(network);
    return status;
}

/* Without which a run cannot go on, be evaluated or exported; the first two are always written. */
static const char *const needed[] = {"config.json",  "plan.json",       "network.json", "network.safetensors",
                                     "network.onnx", "vocabulary.json", "cluster.json"};

static bool is_there(const struct run_directory *directory, size_t file, char path[PATH_SIZE]) {
    return file_exists(file_join(path, directory->path, needed[file]));
}

/* Those of the files that are there have to stay. */
static void note_files(struct run_directory *directory) {
    char path[PATH_SIZE];
    for (size_t f = 0; f < sizeof needed / sizeof *needed; f++)
        if (f < 2 || is_there(directory, f, path)) directory->files |= 1u << f;
}

enum ps_status run_directory_start(struct run_directory *directory, const struct job *job, const struct resumption *before,
                                   int64_t step, struct ps_error *error) {
    const char *path = directory->path;
    const void *origin;
    char place[PATH_SIZE];
    size_t size;
    if (!path || directory->complete) return PS_OK;
    TRY(ps_plan_write(job->plan, file_join(place, path, "plan.json"), error));
    TRY(write_profiles(job, path, error));
    if (job->options->cluster) TRY(ps_cluster_write(job->options->cluster, file_join(place, path, "cluster.json"), error));
    if (job->network_text) TRY(write_network(job, path, error));
    origin = values_origin(job->values, &size);
    if (origin) TRY(file_write(file_join(place, path, "network.onnx"), origin, size, error));
    note_files(directory);
    if (job->options->tensorboard) TRY(event_file_open(path, step, &directory->events, error));
    file_join(place, path, "log.jsonl");
    if (before->document) {
        char summary[PATH_SIZE]; /* of the run that had ended and goes on */
        unlink(file_join(summary, path, "summary.json"));
        return open_log_again(directory, place, step, error);
    }
    directory->log = fopen(place, "we");
    return directory->log ? PS_OK : cannot_write_log(directory, error);
}

static void append_finite(json_t *list, double number) {
    json_array_append_new(list, isfinite(number) ? json_real(number) : json_null());
}

/* Lists with one number for each worker. */
static void set_workers(json_t *line, const struct log_entry *entry) {
    json_t *predicted = json_array(), *newest = json_array(), *sent = json_array(), *received = json_array(),
           *busy = json_array();
    bool predictions = false;
    for (int w = 0; w < entry->workers; w++) {
        const struct ps_run_worker *worker = &entry->worker[w];
        predictions = predictions || isfinite(worker->prediction_error);
        append_finite(predicted, worker->prediction_error);
        append_finite(newest, worker->newest_error);
        json_array_append_new(sent, json_integer((json_int_t)worker->sent_bytes));
        json_array_append_new(received, json_integer((json_int_t)worker->received_bytes));
        append_finite(busy, worker->busy_s);
    }
    json_object_set_new(line, "prediction_error", predicted);
    json_object_set_new(line, "newest_error", newest);
    if (!predictions) json_object_del(line, "prediction_error");
    if (!predictions) json_object_del(line, "newest_error");
    json_object_set_new(line, "sent_bytes", sent);
    json_object_set_new(line, "received_bytes", received);
    json_object_set_new(line, "busy_s", busy);
}

enum ps_status run_directory_write_words(struct run_directory *directory, const struct vocabulary *const words[2],
                                         struct ps_error *error) {
    char place[PATH_SIZE];
    if (!directory->path || directory->complete || !words[0]) return PS_OK;
    TRY(vocabulary_write(file_join(place, directory->path, "vocabulary.json"), words, error));
    note_files(directory);
    return PS_OK;
}

static void add_figures(json_t *line, const char *prefix, const struct figures *figures) {
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"loss", figures->loss}, {"accuracy", figures->accuracy}, {"top5", figures->top5}, {"perplexity", figures->perplexity}};
    char name[32];
    for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
        snprintf(name, sizeof name, "%s%s", prefix, all[f].name);
        json_set_finite(line, name, all[f].value);
    }
}

enum ps_status run_directory_log(struct run_directory *directory, const struct log_entry *entry, const struct figures *last,
                                 struct ps_error *error) {
    const struct figures all = {entry->loss, entry->accuracy, entry->top5, entry->perplexity};
    if (!directory->log) return PS_OK;
    json_t *line = json_pack("{s:I, s:I}", "step", (json_int_t)entry->step, "epoch", (json_int_t)entry->epoch);
    add_figures(line, "", last ? last : &all);
    if (last) add_figures(line, "epoch_", &all);
    json_set_finite(line, "valid_loss", entry->valid_loss);
    json_set_finite(line, "valid_accuracy", entry->valid_accuracy);
    json_set_finite(line, "valid_top5", entry->valid_top5);
    json_set_finite(line, "valid_perplexity", entry->valid_perplexity);
    json_set_finite(line, "valid_bleu", entry->valid_bleu);
    json_set_finite(line, "lr", entry->lr);
    json_set_finite(line, "samples_per_s", entry->samples_per_s);
    json_set_finite(line, "elapsed_s", entry->elapsed_s);
    if (entry->worker && entry->workers > 1) set_workers(line, entry);
    if (last) json_set_finite(line, "training_s", entry->training_s);
    char *text = json_dump_text(line, JSON_REAL_PRECISION(9));
    enum ps_status status = memory_check(text, "a log line", error);
    if (status == PS_OK && (fprintf(directory->log, "%s\n", text) < 0 || fflush(directory->log) != 0))
        status = cannot_write_log(directory, error);
    if (status == PS_OK && directory->events) status = event_file_add(directory->events, line, error);
    json_decref(line);
    free(text);
    return status;
}

static enum ps_status write_text(const struct run_directory *directory, const char *name, char *text, struct ps_error *error) {
    char place[PATH_SIZE];
    TRY(memory_check(text, name, error));
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

static enum ps_status sync_log(const struct run_directory *directory, struct ps_error *error) {
    char path[PATH_SIZE];
    return file_sync_stream(directory->log, file_join(path, directory->path, "log.jsonl"), error);
}

enum ps_status run_directory_look(const struct run_directory *directory, struct ps_error *error) {
    char path[PATH_SIZE];
    struct stat written, there;
    if (!directory->log) return PS_OK;
    for (size_t f = 0; f < sizeof needed / sizeof *needed; f++)
        if ((directory->files >> f & 1) && !is_there(directory, f, path))
            return error_set(error, PS_IO, "%s: is gone, though the run wrote it", path);
    file_join(path, directory->path, "log.jsonl");
    if (fstat(fileno(directory->log), &written) == 0 && stat(path, &there) == 0 && written.st_dev == there.st_dev &&
        written.st_ino == there.st_ino)
        return PS_OK;
    return error_set(error, PS_IO, "%s: is gone, or not the file that the run writes", path);
}

enum ps_status run_directory_finish(struct run_directory *directory, const struct ps_run *run, struct ps_error *error) {
    if (!directory->path || directory->complete) return PS_OK;
    TRY(sync_log(directory, error));
    char place[PATH_SIZE];
    return json_write_file(run_document(run), file_join(place, directory->path, "summary.json"), error);
}

void run_directory_close(struct run_directory *directory) {
    if (directory->log) fclose(directory->log);
    event_file_close(directory->events);
    if (directory->lock > 0) close(directory->lock - 1);
    *directory = (struct run_directory){0};
}
