/* The directory of a comparison; see compare_store.h. */
#include "search/compare_store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "plan/cluster.h"
#include "search/search.h"

enum { PATH_SIZE = 4096 };

/* ---------------------------------------------------------------------- documents */

/* Which a training says itself. */
static const struct field batch_list[] = {
    FIELD(ps_plan_options, batch, FIELD_INT),
    FIELD(ps_plan_options, optimizer, FIELD_TEXT),
};
static const struct fields batch_fields = FIELDS(batch_list);
/* The others are lists of the comparison. */
static const struct field machine_list[] = {
    FIELD(ps_cluster_options, latency_s, FIELD_DOUBLE),
    FIELD(ps_cluster_options, no_overlap, FIELD_BOOL),
    FIELD(ps_cluster_options, streaming, FIELD_BOOL),
    FIELD(ps_cluster_options, cores, FIELD_INT),
};
static const struct fields machine_fields = FIELDS(machine_list);

static json_t *texts(const char *const *values, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_string(values[i] ? values[i] : "auto"));
    return list;
}

json_t *compare_question(const struct ps_compare_options *lists, const char *kind) {
    json_t *planning = json_object(), *machines = json_object(), *workers = json_array(), *memory = json_array(),
           *bandwidth = json_array(), *seeds = json_array();
    char seed[32];
    fields_add(planning, lists->planning, &search_option_fields);
    fields_add(planning, lists->planning, &batch_fields);
    fields_add(machines, lists->machines, &machine_fields);
    for (int i = 0; i < lists->worker_count; i++) json_array_append_new(workers, json_integer(lists->workers[i]));
    for (int i = 0; i < lists->memory_count; i++) json_array_append_new(memory, json_integer(lists->memory_bytes[i]));
    for (int i = 0; i < lists->bandwidth_count; i++)
        json_array_append_new(bandwidth, json_real(lists->bandwidth_bytes_per_s[i]));
    for (int i = 0; i < lists->seed_count; i++) {
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)lists->seeds[i]);
        json_array_append_new(seeds, json_string(seed));
    }
    json_t *question =
        json_pack("{s:s, s:i, s:s, s:o, s:o, s:o}", "format", "penstock-comparison", "version", 1, "kind", kind, "methods",
                  texts(lists->methods, lists->method_count), "schedules", texts(lists->schedules, lists->schedule_count),
                  "weights", texts(lists->weights, lists->weights_count));
    json_object_set_new(question, "wires", texts(lists->wires, lists->wires[0] ? lists->wire_count : 0));
    json_object_set_new(question, "workers", workers);
    json_object_set_new(question, "memory_bytes", memory);
    json_object_set_new(question, "bandwidth_bytes_per_s", bandwidth);
    json_object_set_new(question, "batch_per_worker", json_integer(lists->batch_per_worker));
    json_object_set_new(question, "seeds", seeds);
    json_object_set_new(question, "planning", planning);
    json_object_set_new(question, "machines", machines);
    if (lists->cluster) json_object_set_new(question, "cluster", cluster_document(lists->cluster));
    return question;
}

/* ----------------------------------------------------------------- another comparison */

#define CHECKSUM "_checksum"

static bool is_checksum(const char *name) {
    const size_t length = strlen(name), end = strlen(CHECKSUM);
    return length > end && strcmp(name + length - end, CHECKSUM) == 0;
}

/* Of the first value in which two documents differ. */
static enum ps_status tell_difference(const char *directory, const char *name, const json_t *there, const json_t *here,
                                      struct ps_error *error) {
    char *texts[2] = {NULL, NULL};
    for (int t = 0; t < 2; t++) {
        const json_t *value = t == 0 ? there : here;
        if (value) texts[t] = json_dump_text(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    if (is_checksum(name) && there && here)
        error_set(error, PS_USAGE, "`out`: %s holds another comparison: `%.*s` has changed since", directory,
                  (int)(strlen(name) - strlen(CHECKSUM)), name);
    else if (strcmp(name, "networks") == 0)
        error_set(error, PS_USAGE, "`out`: %s holds another comparison: of %zu networks, not %zu", directory,
                  json_array_size(there), json_array_size(here));
    else
        error_set(error, PS_USAGE, "`out`: %s holds another comparison: `%s` is %.200s there and %.200s here", directory, name,
                  texts[0] ? texts[0] : "not given", texts[1] ? texts[1] : "not given");
    error_hint(error, "give the words that began it, or another directory");
    for (int t = 0; t < 2; t++) free(texts[t]);
    return PS_USAGE;
}

static enum ps_status find_difference(const char *directory, const char *name, const json_t *there, const json_t *here,
                                      struct ps_error *error) {
    const char *key;
    const json_t *value;
    if (json_is_object(there) && json_is_object(here)) {
        json_object_foreach((json_t *)here, key, value) {
            const json_t *before = json_object_get(there, key);
            /* Files of earlier versions lack some. */
            if (!before && (is_checksum(key) || (json_is_integer(value) && json_integer_value(value) == 0))) continue;
            TRY(find_difference(directory, key, before, value, error));
        }
        json_object_foreach((json_t *)there, key,
                            value) if (!json_object_get(here, key)) return tell_difference(directory, key, value, NULL, error);
        return PS_OK;
    }
    if (json_is_array(there) && json_is_array(here) && json_array_size(there) == json_array_size(here)) {
        bool objects = json_array_size(here) > 0;
        for (size_t i = 0; i < json_array_size(here); i++) {
            objects &= json_is_object(json_array_get(here, i));
            if (objects) TRY(find_difference(directory, name, json_array_get(there, i), json_array_get(here, i), error));
        }
        if (objects) return PS_OK;
    }
    return json_equal(there, here) ? PS_OK : tell_difference(directory, name, there, here, error);
}

static enum ps_status check_question(const char *directory, const char *path, const json_t *question, struct ps_error *error) {
    json_t *there;
    TRY(json_read_file(path, "penstock-comparison", &there, error));
    const enum ps_status status = find_difference(directory, "format", there, question, error);
    json_decref(there);
    return status;
}

static enum ps_status lock_directory(const char *directory, int *lock, struct ps_error *error) {
    const int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return error_set(error, PS_IO, "%s: cannot open: %s", directory, strerror(errno));
    /* Where a file system has no locks there is none. */
    if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(descriptor);
        return error_set(error, PS_USAGE, "`out`: another process is comparing in %s", directory);
    }
    *lock = descriptor;
    return PS_OK;
}

enum ps_status compare_store_open(const char *directory, json_t *question, int *lock, struct ps_error *error) {
    char path[PATH_SIZE], rows[PATH_SIZE];
    enum ps_status status = memory_check(question, "a comparison", error);
    if (status == PS_OK) status = utf8_check("`out`", directory, error);
    if (status == PS_OK) status = file_make_directory(file_join(rows, directory, "rows"), error);
    if (status == PS_OK) status = lock_directory(directory, lock, error);
    if (status == PS_OK && file_exists(file_join(path, directory, "config.json")))
        status = error_set(error, PS_USAGE, "`out`: %s holds a run; give another directory", directory);
    if (status == PS_OK && file_exists(file_join(path, directory, "comparison.json")))
        status = check_question(directory, path, question, error);
    else if (status == PS_OK)
        status = json_write_file(json_incref(question), path, error);
    json_decref(question);
    return status;
}

void compare_store_close(int lock) {
    if (lock >= 0) close(lock);
}

/* --------------------------------------------------------------------------- rows */

/* What may stand in the name of a file. */
static void add_word(struct text *name, const char *word) {
    for (; *word; word++) text_add(name, "%c", isalnum((unsigned char)*word) || strchr(".-_", *word) ? *word : '-');
}

enum ps_status compare_store_place(const char *directory, int number, struct comparison_row *row, struct ps_error *error) {
    struct text name = {0};
    text_add(&name, "%s/rows/%03d-", directory, number + 1);
    add_word(&name, row->method);
    text_add(&name, "-");
    add_word(&name, row->schedule);
    text_add(&name, "-");
    add_word(&name, row->weights);
    if (row->wire[0]) text_add(&name, "-");
    add_word(&name, row->wire);
    if (strcmp(row->precision, "f32") != 0) text_add(&name, "-%s", row->precision);
    text_add(&name, "-w%d", row->row.workers);
    if (row->row.seed > 0) text_add(&name, "-seed%llu", (unsigned long long)row->row.seed);
    row->directory = text_take(&name);
    return memory_check(row->directory, "a comparison", error);
}

/* What a plan came to; the words that were asked for follow from the comparison. */
static const struct field row_list[] = {
    FIELD(ps_comparison_row, simulated, FIELD_BOOL),
    FIELD(ps_comparison_row, period_s, FIELD_DOUBLE),
    FIELD(ps_comparison_row, throughput_samples_per_s, FIELD_DOUBLE),
    FIELD(ps_comparison_row, bubble, FIELD_DOUBLE),
    FIELD(ps_comparison_row, speedup, FIELD_DOUBLE),
    FIELD(ps_comparison_row, objective_s, FIELD_DOUBLE),
    FIELD(ps_comparison_row, lower_bound_s, FIELD_DOUBLE),
    FIELD(ps_comparison_row, gap, FIELD_DOUBLE),
    FIELD(ps_comparison_row, solve_s, FIELD_DOUBLE),
    FIELD(ps_comparison_row, memory_bytes, FIELD_INT64),
    FIELD(ps_comparison_row, weight_copies, FIELD_INT),
    FIELD(ps_comparison_row, largest, FIELD_INT),
    FIELD(ps_comparison_row, parameters, FIELD_INT64),
    FIELD(ps_comparison_row, batch, FIELD_INT),
    FIELD(ps_comparison_row, micro_batch, FIELD_INT),
    FIELD(ps_comparison_row, micro_batches, FIELD_INT),
};
static const struct fields row_fields = FIELDS(row_list);

static const struct {
    const char *name;
    size_t offset, size;
} row_texts[] = {
    {"schedule", offsetof(struct comparison_row, schedule), sizeof((struct comparison_row *)0)->schedule},
    {"weights", offsetof(struct comparison_row, weights), sizeof((struct comparison_row *)0)->weights},
    {"chosen", offsetof(struct comparison_row, chosen), sizeof((struct comparison_row *)0)->chosen},
    {"reason", offsetof(struct comparison_row, reason), sizeof((struct comparison_row *)0)->reason},
};

enum ps_status compare_store_write(const struct comparison_row *row, struct ps_error *error) {
    char path[PATH_SIZE];
    json_t *document = json_pack("{s:s, s:i, s:i}", "format", "penstock-row", "version", 1, "status", (int)row->row.status);
    for (size_t t = 0; t < sizeof row_texts / sizeof *row_texts; t++)
        json_object_set_new(document, row_texts[t].name, json_string((const char *)row + row_texts[t].offset));
    fields_add(document, &row->row, &row_fields);
    enum ps_status status = file_make_directory(row->directory, error);
    if (status != PS_OK) {
        json_decref(document);
        return status;
    }
    return json_write_file(document, file_join(path, row->directory, "row.json"), error);
}

static enum ps_status take_row(const struct json_place *root, struct comparison_row *row, struct ps_error *error) {
    int status = 0;
    TRY(json_get_int(root, "status", true, 0, PS_STOPPED, &status, error));
    row->row.status = (enum ps_status)status;
    for (size_t t = 0; t < sizeof row_texts / sizeof *row_texts; t++) {
        const char *text = "";
        TRY(json_get_string(root, row_texts[t].name, true, &text, error));
        snprintf((char *)row + row_texts[t].offset, row_texts[t].size, "%s", text);
    }
    return fields_read(root, &row_fields, true, &row->row, error);
}

enum ps_status compare_store_read(struct comparison_row *row, bool *done, struct ps_error *error) {
    char path[PATH_SIZE];
    json_t *document;
    *done = false;
    if (!file_exists(file_join(path, row->directory, "row.json"))) return PS_OK;
    TRY(json_read_file(path, "penstock-row", &document, error));
    const struct json_place root = json_root(document, path);
    const enum ps_status status = take_row(&root, row, error);
    json_decref(document);
    *done = status == PS_OK;
    return status;
}
