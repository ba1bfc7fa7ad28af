/* Writing config.json, and reading it to go on with a run; see config.h. */
#include "train/run_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "compute/device.h"
#include "data/object.h"
#include "graph/lora.h"
#include "search/search.h"
#include "train/predict_run.h"
#include "train/run_result.h"

#define PATH_SIZE 4096

/* ------------------------------------------------------------------------- writing */

static void set_integer(json_t *object, const char *field, int64_t number) {
    json_object_set_new(object, field, json_integer((json_int_t)number));
}

static json_t *cluster_options(const struct ps_cluster_options *options) {
    json_t *cluster = json_object();
    set_integer(cluster, "workers", options->workers);
    set_integer(cluster, "memory_bytes", options->memory_bytes);
    json_set_finite(cluster, "bandwidth_bytes_per_s", options->bandwidth_bytes_per_s);
    json_set_finite(cluster, "latency_s", options->latency_s);
    json_object_set_new(cluster, "overlap", json_boolean(!options->no_overlap));
    json_object_set_new(cluster, "streaming", json_boolean(options->streaming));
    set_integer(cluster, "cores", options->cores);
    return cluster;
}

/* Adapters of the network, which its file has as nodes. */
static void set_lora(json_t *config, const struct ps_network *network) {
    struct lora first;
    const int count = network ? lora_count(network->graph, &first) : 0;
    if (count > 0)
        json_object_set_new(config, "lora",
                            json_pack("{s:i, s:i, s:f, s:f}", "adapters", count, "rank", first.rank, "alpha",
                                      first.scale * first.rank, "dropout",
                                      first.dropout ? (double)first.dropout->attributes.rate : 0.0));
}

/* Of the values that parameters begin with. */
static enum ps_status sum_values(const struct values *values, char digits[16], struct ps_error *error) {
    struct file_piece *pieces;
    TRY(memory_new(&pieces, values_count(values), "a checksum", error));
    for (int i = 0; i < values_count(values); i++)
        pieces[i] = (struct file_piece){values_at(values, i)->data, array_bytes(values_at(values, i))};
    snprintf(digits, 16, "%08x", (unsigned)file_checksum(pieces, (size_t)values_count(values)));
    free(pieces);
    return PS_OK;
}

/* How the network that was given was changed. */
static enum ps_status set_said(json_t *config, const struct job *job, struct ps_error *error) {
    const struct ps_network *network = job->options->network;
    char digits[16];
    if (!network) return PS_OK;
    const struct network_said *said = &network->said;
    json_set_text(config, "loss", said->loss);
    json_set_text(config, "freeze", said->freeze);
    json_set_text(config, "init", said->init);
    json_set_text(config, "init_checksum", said->init_checksum);
    if (!said->init || said->init_checksum || !job->values) return PS_OK;
    TRY(sum_values(job->values, digits, error));
    json_set_text(config, "init_checksum", digits);
    return PS_OK;
}

/* The rule as it was requested, defaults filled in. */
static void set_rule(json_t *config, const struct update_rule *rule, const struct ps_train_options *options) {
    const struct optimizer_settings *settings = &rule->settings;
    json_set_text(config, "optimizer", rule->requested->name);
    json_set_finite(config, "lr", settings->lr);
    if (rule->requested->momentum_settings) {
        json_set_finite(config, "momentum", settings->momentum);
        json_set_finite(config, "dampening", settings->dampening);
    }
    json_set_finite(config, "weight_decay", settings->weight_decay);
    if (rule->requested->adam_settings) {
        json_object_set_new(config, "betas", json_pack("[f, f]", settings->beta1, settings->beta2));
        json_set_finite(config, "eps", settings->eps);
    }
    json_set_text(config, "lr_schedule", options->lr_schedule ? options->lr_schedule : "constant");
    set_integer(config, "warmup_steps", options->warmup_steps);
    json_object_set_new(config, "lr_per_epoch", json_boolean(options->lr_per_epoch));
    if (rule->clip > 0) json_set_finite(config, "clip", rule->clip);
    json_set_finite(config, "label_smoothing", options->label_smoothing);
    json_set_text(config, "decay_exclude", options->decay_exclude);
    json_set_text(config, "groups", options->groups);
}

/* "data" is the spec by which they are found again; the caller's have a name alone, "given_data". */
static void set_data(json_t *config, const char *field, const struct ps_dataset *data, uint64_t checksum) {
    static const char *const parts[] = {[PS_PART_TRAIN] = "train", [PS_PART_TEST] = "test"};
    char key[32];
    if (!data) return;
    snprintf(key, sizeof key, "given_%s", field);
    json_set_text(config, data->given ? key : field, data->name);
    snprintf(key, sizeof key, "%s_part", field);
    json_set_text(config, key, parts[data->part]);
    char digits[32];
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)checksum);
    snprintf(key, sizeof key, "%s_checksum", field);
    if (checksum != 0) json_set_text(config, key, digits);
}

enum ps_status resumption_check_data(const struct resumption *resumption, const struct ps_train_options *requested,
                                     const uint64_t checksums[2], struct ps_error *error) {
    static const char *const fields[] = {"data", "valid"};
    const struct ps_dataset *const given[] = {requested->data, requested->valid};
    const struct ps_dataset *const used[] = {resumption->request.options.data, resumption->request.options.valid};
    for (int f = 0; f < 2; f++) {
        char key[32];
        snprintf(key, sizeof key, "%s_checksum", fields[f]);
        const char *digits = json_string_value(json_object_get(resumption->document, key));
        if (!digits || !used[f] || strtoull(digits, NULL, 16) == checksums[f]) continue;
        if (given[f]) {
            log_info("`%s`: the run goes on with other data, %s; before it had %s", fields[f], used[f]->name,
                     json_string_value(json_object_get(resumption->document, fields[f])));
            continue;
        }
        error_set(error, PS_USAGE, "`%s`: %s have changed since the run was here (checksum %016llx, then %s)", fields[f],
                  used[f]->name, (unsigned long long)checksums[f], digits);
        error_hint(error, "restore them, or give `%s` anew to go on with what they are now", fields[f]);
        return PS_USAGE;
    }
    return PS_OK;
}

static void set_class_names(json_t *config, const struct dataset *data) {
    if (!data || !data->class_names) return;
    json_t *names = json_array();
    const char *name = data->class_names;
    bool valid = true; /* folders may have names that are not UTF-8 */
    for (int c = 0; c < data->shape.classes; c++, name += strlen(name) + 1)
        valid = json_array_append_new(names, json_string(name)) == 0 && valid;
    if (valid) json_object_set(config, "class_names", names);
    json_decref(names);
}

static json_t *make_config(const struct job *job, const struct update_rule *rule, int64_t steps) {
    const struct ps_train_options *options = job->options;
    char seed[32];
    json_t *planning = json_object();
    fields_add(planning, options->planning, &search_option_fields);
    /* JSON integers end at 2^63. */
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
    json_t *config = json_pack("{s:s, s:i, s:s}", "format", "penstock-config", "version", 1, "penstock", ps_version());
    json_set_text(config, "model", job->plan->model);
    json_set_text(config, "network", job->plan->network[0] ? job->plan->network : NULL);
    set_lora(config, job->network);
    if (options->cluster) json_set_text(config, "cluster", "cluster.json");
    json_object_set_new(config, "plan_options", planning);
    json_object_set_new(config, "cluster_options", cluster_options(options->machines));
    set_data(config, "data", options->data, job->checksums[0]);
    set_data(config, "valid", options->valid, job->checksums[1]);
    set_class_names(config, job->named);
    set_integer(config, "batch", job->batch);
    set_integer(config, "epochs", options->epochs > 0 || options->steps > 0 ? options->epochs : 1);
    set_integer(config, "steps", steps);
    set_integer(config, "evaluate_every", options->evaluate_every);
    set_integer(config, "valid_bleu", options->valid_bleu);
    json_set_text(config, "lengths", options->lengths);
    set_integer(config, "checkpoint_every", options->checkpoint_every);
    json_set_finite(config, "checkpoint_minutes", options->checkpoint_minutes);
    if (options->keep_best) json_object_set_new(config, "keep_best", json_true());
    json_set_text(config, "best_by", options->best_by);
    if (options->patience > 0) set_integer(config, "patience", options->patience);
    set_integer(config, "keep_checkpoints", options->keep_checkpoints);
    set_rule(config, rule, options);
    json_set_text(config, "device", job->device->name);
    json_set_text(config, "transport", job->transport->name);
    set_integer(config, "threads", job->threads);
    json_object_set_new(config, "cores", json_integer(predict_at_once(job)));
    json_object_set_new(config, "links", json_boolean(predict_takes_links(job)));
    json_object_set_new(config, "emulate", json_boolean(options->emulate));
    json_set_text(config, "seed", seed);
    return config;
}

/* -------------------------------------------------------------------------- history */

/* The settings that may change where a run goes on. */
static const char *const changing[] = {"steps",
                                       "patience",
                                       "best_by",
                                       "evaluate_every",
                                       "checkpoint_every",
                                       "lr",
                                       "momentum",
                                       "dampening",
                                       "weight_decay",
                                       "betas",
                                       "eps",
                                       "lr_schedule",
                                       "lr_per_epoch",
                                       "warmup_steps",
                                       "clip",
                                       "label_smoothing",
                                       "decay_exclude",
                                       "groups",
                                       "data",
                                       "data_checksum",
                                       "valid",
                                       "valid_checksum"};
enum { CHANGING = sizeof changing / sizeof *changing };

static void add_change(const char *name, const json_t *from, const json_t *to, struct text *text) {
    char *values[2] = {NULL, NULL};
    for (int v = 0; v < 2; v++) {
        const json_t *value = v == 0 ? from : to;
        if (value) values[v] = json_dump_text(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    }
    text_add(text, "%s%s %s, was %s", text->length > 0 ? "; " : "", name, values[1] ? values[1] : "not set",
             values[0] ? values[0] : "not set");
    for (int v = 0; v < 2; v++) free(values[v]);
}

/* Says what differs from the run's earlier settings, and makes the entry that keeps those. NULL: nothing. */
static json_t *find_changes(const json_t *old, const json_t *config, int64_t step) {
    struct text text = {0};
    for (int c = 0; c < CHANGING; c++) {
        const json_t *from = json_object_get(old, changing[c]), *to = json_object_get(config, changing[c]);
        /* Files of earlier versions lack some. */
        const bool unsaid = !from && (json_is_false(to) || strstr(changing[c], "_checksum"));
        if ((from || to) && !unsaid && !json_equal(from, to)) add_change(changing[c], from, to, &text);
    }
    if (text.length == 0) return NULL;
    char *said = text_take(&text);
    if (said) log_info("from step %lld on: %s", (long long)step, said);
    free(said);
    json_t *entry = json_pack("{s:I}", "until_step", (json_int_t)step);
    for (int c = 0; c < CHANGING; c++) {
        json_t *value = json_object_get(old, changing[c]);
        if (value) json_object_set(entry, changing[c], value);
    }
    return entry;
}

/* history[]: with what settings the run was trained until which step, where it went on with others. What was trained with them
 * and lost since is not told. */
static void set_history(json_t *config, const json_t *old, int64_t step) {
    json_t *history = json_array(), *entry = find_changes(old, config, step);
    size_t i;
    json_t *before;
    json_int_t reached = 0;
    json_array_foreach(json_object_get(old, "history"), i, before) {
        json_int_t until = json_integer_value(json_object_get(before, "until_step"));
        if (until > step) until = step;
        if (until <= reached) continue;
        json_t *copy = json_copy(before);
        json_object_set_new(copy, "until_step", json_integer(until));
        json_array_append_new(history, copy);
        reached = until;
    }
    if (entry && step > reached) json_array_append(history, entry);
    json_decref(entry);
    if (json_array_size(history) > 0) json_object_set(config, "history", history);
    json_decref(history);
}

enum ps_status config_write(const char *run_dir, const struct job *job, const struct update_rule *rule,
                            const struct segment_lengths *lengths, int64_t step, const struct resumption *before,
                            struct ps_error *error) {
    static const char *const planning[] = {"cluster", "plan_options", "cluster_options"};
    char path[PATH_SIZE];
    json_t *config = make_config(job, rule, lengths->steps);
    enum ps_status status = set_said(config, job, error);
    if (status != PS_OK) {
        json_decref(config);
        return status;
    }
    /* A run that goes on by its plan keeps what was said when that was made. */
    for (size_t i = 0; before && before->document && !before->planned_anew && i < sizeof planning / sizeof *planning; i++) {
        json_t *old = json_object_get(before->document, planning[i]);
        json_object_del(config, planning[i]);
        if (old) json_object_set(config, planning[i], old);
    }
    if (before && before->document) set_history(config, before->document, step);
    return json_write_file(config, file_join(path, run_dir, "config.json"), error);
}

/* ------------------------------------------------------------------------- reading */

static enum ps_status read_plan_options(const struct json_place *root, struct ps_plan_options *options,
                                        struct ps_error *error) {
    struct json_place place;
    TRY(json_field(root, "plan_options", true, &place, error));
    return fields_read(&place, &search_option_fields, false, options, error);
}

static enum ps_status read_cluster_options(const struct json_place *root, struct ps_cluster_options *options,
                                           struct ps_error *error) {
    struct json_place place;
    bool overlap = true;
    TRY(json_field(root, "cluster_options", true, &place, error));
    TRY(json_get_int(&place, "workers", false, 0, INT32_MAX, &options->workers, error));
    TRY(json_get_integer(&place, "memory_bytes", false, 0, INT64_MAX, &options->memory_bytes, error));
    TRY(json_get_number(&place, "bandwidth_bytes_per_s", false, 0, INFINITY, &options->bandwidth_bytes_per_s, error));
    TRY(json_get_number(&place, "latency_s", false, 0, INFINITY, &options->latency_s, error));
    TRY(json_get_bool(&place, "overlap", false, &overlap, error));
    TRY(json_get_bool(&place, "streaming", false, &options->streaming, error));
    TRY(json_get_int(&place, "cores", false, 0, INT32_MAX, &options->cores, error));
    options->no_overlap = !overlap;
    return PS_OK;
}

static enum ps_status read_betas(const struct json_place *root, bool required, struct ps_train_options *options,
                                 struct ps_error *error) {
    struct json_place betas;
    TRY(json_field(root, "betas", required, &betas, error));
    if (!betas.value) return PS_OK;
    if (json_array_size(betas.value) != 2) return json_error(&betas, error, "must be two numbers");
    options->beta1 = json_number_value(json_array_get(betas.value, 0));
    options->beta2 = json_number_value(json_array_get(betas.value, 1));
    return PS_OK;
}

/* What the optimizer has is required: a default in place of a missing field would silently train otherwise. */
static enum ps_status read_rule(const struct json_place *root, struct ps_train_options *options,
                                struct ps_plan_options *planning, struct ps_error *error) {
    const struct optimizer *optimizer;
    TRY(json_get_string(root, "optimizer", true, &planning->optimizer, error));
    TRY(optimizer_find(planning->optimizer, &optimizer, error));
    const struct {
        const char *name;
        size_t offset;
        bool required;
    } settings[] = {
        {"lr", offsetof(struct ps_train_options, lr), true},
        {"momentum", offsetof(struct ps_train_options, momentum), optimizer->momentum_settings},
        {"dampening", offsetof(struct ps_train_options, dampening), optimizer->momentum_settings},
        {"weight_decay", offsetof(struct ps_train_options, weight_decay), true},
        {"eps", offsetof(struct ps_train_options, eps), optimizer->adam_settings},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double value = NAN;
        TRY(json_get_number(root, settings[i].name, settings[i].required, 0, 1e6, &value, error));
        memcpy((char *)options + settings[i].offset, &value, sizeof value);
    }
    TRY(json_get_string(root, "lr_schedule", true, &options->lr_schedule, error));
    TRY(json_get_number(root, "clip", false, 0, INFINITY, &options->clip, error));
    TRY(json_get_number(root, "label_smoothing", false, 0, 1, &options->label_smoothing, error));
    return read_betas(root, optimizer->adam_settings, options, error);
}

static enum ps_status read_data(const struct json_place *root, const char *field, struct ps_dataset **data,
                                struct ps_error *error) {
    static const char *const parts[] = {[PS_PART_TRAIN] = "train", [PS_PART_TEST] = "test"};
    struct ps_dataset_options options = {.struct_size = sizeof options};
    const char *spec = NULL, *part = NULL;
    char key[32];
    snprintf(key, sizeof key, "%s_part", field);
    TRY(json_get_string(root, field, false, &spec, error));
    TRY(json_get_string(root, key, false, &part, error));
    for (int p = PS_PART_TRAIN; part && p <= PS_PART_TEST; p++)
        if (strcmp(part, parts[p]) == 0) options.part = (enum ps_part)p;
    return spec ? ps_dataset_open(spec, &options, data, error) : PS_OK;
}

/* Those that any value suits, which every file has. */
static const struct field present_list[] = {
    FIELD(ps_train_options, epochs, FIELD_INT),           FIELD(ps_train_options, evaluate_every, FIELD_INT),
    FIELD(ps_train_options, checkpoint_every, FIELD_INT), FIELD(ps_train_options, keep_checkpoints, FIELD_INT),
    FIELD(ps_train_options, warmup_steps, FIELD_INT),     FIELD(ps_train_options, seed, FIELD_UINT64),
};
static const struct fields present_fields = FIELDS(present_list);
/* Those that a file may lack. */
static const struct field optional_list[] = {
    FIELD(ps_train_options, valid_bleu, FIELD_INT),     FIELD(ps_train_options, lengths, FIELD_TEXT),
    FIELD(ps_train_options, keep_best, FIELD_SWITCH),   FIELD(ps_train_options, best_by, FIELD_TEXT),
    FIELD(ps_train_options, patience, FIELD_INT),       FIELD(ps_train_options, lr_per_epoch, FIELD_SWITCH),
    FIELD(ps_train_options, decay_exclude, FIELD_TEXT), FIELD(ps_train_options, groups, FIELD_TEXT),
    FIELD(ps_train_options, emulate, FIELD_SWITCH),
};
static const struct fields optional_fields = FIELDS(optional_list);

/* All but plan and network. */
static enum ps_status read_options(const struct json_place *root, struct resumption *resumption, struct ps_error *error) {
    struct ps_train_options *options = &resumption->request.options;
    TRY(read_plan_options(root, &resumption->request.planning, error));
    TRY(read_cluster_options(root, &resumption->request.machines, error));
    TRY(read_rule(root, options, &resumption->request.planning, error));
    TRY(read_data(root, "data", &resumption->data, error));
    TRY(read_data(root, "valid", &resumption->valid, error));
    TRY(json_get_int(root, "batch", true, 1, INT32_MAX, &options->batch, error));
    TRY(json_get_int(root, "steps", true, 1, INT32_MAX, &options->steps, error));
    TRY(json_get_number(root, "checkpoint_minutes", false, 0, INFINITY, &options->checkpoint_minutes, error));
    TRY(json_get_string(root, "device", true, &options->device, error));
    TRY(json_get_int(root, "threads", true, 1, INT32_MAX, &options->threads, error));
    TRY(fields_read(root, &present_fields, true, options, error));
    TRY(fields_read(root, &optional_fields, false, options, error));
    options->data = resumption->data;
    options->valid = resumption->valid;
    return PS_OK;
}

/* ------------------------------------------------------------------------- merging */

#define TAKE(field)                                                                                                            \
    if (requested->field) options->field = requested->field

/* All but plan and network. What carries the blocks is found out anew. */
static void merge_options(const struct ps_train_options *requested, struct ps_train_options *options) {
    train_options_merge(requested, options);
    train_options_settle(options);
    if (requested->steps || requested->epochs) {
        options->steps = requested->steps;
        options->epochs = requested->epochs;
    }
    TAKE(data);
    TAKE(valid);
    TAKE(network);
    TAKE(device);
    TAKE(transport);
    TAKE(threads);
    TAKE(keep_checkpoints);
    options->trace = requested->trace;
    options->tensorboard = requested->tensorboard;
    options->observer = requested->observer;
    options->out = options->resume = requested->resume;
}

#undef TAKE

/* What a cluster's file would say. */
static const struct field machine_list[] = {
    FIELD(ps_cluster_options, memory_bytes, FIELD_INT64), FIELD(ps_cluster_options, bandwidth_bytes_per_s, FIELD_DOUBLE),
    FIELD(ps_cluster_options, latency_s, FIELD_DOUBLE),   FIELD(ps_cluster_options, no_overlap, FIELD_BOOL),
    FIELD(ps_cluster_options, streaming, FIELD_BOOL),     FIELD(ps_cluster_options, cores, FIELD_INT),
};
static const struct fields machine_fields = FIELDS(machine_list);

static bool wants_planning(const struct ps_train_options *requested, int processes, int workers) {
    const int said = requested->machines->workers;
    return fields_given(requested->planning, &search_option_fields) || fields_given(requested->machines, &machine_fields) ||
           requested->cluster || (said && said != workers) || (processes > 1 && processes != workers);
}

/* A run that was planned for a cluster's file has its limits and links from there. */
static enum ps_status check_machines(const struct ps_cluster_options *said, struct ps_error *error) {
    const char *name = fields_given(said, &machine_fields);
    if (!name) return PS_OK;
    return error_set(error, PS_USAGE,
                     "`%s`: the cluster that the run was planned for says it; give another by `cluster`, or `workers` for ones "
                     "that are alike",
                     name);
}

/* A new plan is for what the old one was for, but for what is requested; it keeps to its schedule, policy and micro-batches, so
 * that a schedule that flushes gives the same numbers. */
static void merge_planning(const struct ps_train_options *requested, int processes, const struct ps_plan_info *plan,
                           struct train_request *merged) {
    struct ps_train_options *options = &merged->options;
    struct ps_plan_options *planning = &merged->planning;
    if (!planning->schedule) planning->schedule = plan->schedule;
    if (!planning->weights) planning->weights = plan->weights;
    planning->micro_batch = plan->micro_batch;
    planning->micro_batches = plan->micro_batches;
    if (requested->planning->micro_batch || requested->planning->micro_batches) {
        planning->micro_batch = planning->micro_batches = 0;
        options->profile = requested->profile; /* the run's is of another size */
    }
    if (requested->planning->schedule) planning->slack = 0; /* it was the other schedule's */
    fields_merge(requested->planning, &search_option_fields, planning);
    bool resized = requested->machines->workers || processes > 1;
    if (requested->cluster || resized) options->cluster = requested->cluster;
    if (requested->cluster) ps_cluster_options_init(&merged->machines);
    if (!options->cluster) merged->machines.workers = processes > 1 ? processes : plan->workers;
    if (requested->machines->workers) merged->machines.workers = requested->machines->workers;
    fields_merge(requested->machines, &machine_fields, &merged->machines);
}

/* The run's own plan, which says itself what `planning` and the network would. */
static void keep_plan(const struct ps_plan *plan, struct train_request *merged) {
    const char *optimizer = merged->planning.optimizer;
    ps_plan_options_init(&merged->planning);
    merged->planning.optimizer = optimizer;
    merged->options.plan = plan;
}

/* A plan that is given comes with its own profile, workers and limits. */
static void take_plan(const struct ps_train_options *requested, struct train_request *merged) {
    const char *optimizer = merged->planning.optimizer;
    merged->planning = *requested->planning; /* refused beside a plan, but for: */
    merged->planning.optimizer = optimizer;
    merged->machines = *requested->machines;
    merged->options.plan = requested->plan;
    merged->options.profile = requested->profile;
    merged->options.cluster = requested->cluster;
    merged->options.emulate = requested->emulate > 0;
}

/* ----------------------------------------------------------------- what the run left */

/* The cluster that the run was planned for. In older runs the configuration says where its file was. */
static enum ps_status read_cluster(const struct ps_train_options *requested, struct resumption *resumption,
                                   struct ps_error *error) {
    const char *said = json_string_value(json_object_get(resumption->document, "cluster"));
    char path[PATH_SIZE];
    if (!said) return PS_OK;
    file_join(path, requested->resume, "cluster.json");
    TRY(ps_cluster_read(file_exists(path) ? path : said, &resumption->cluster, error));
    resumption->request.options.cluster = resumption->cluster;
    return PS_OK;
}

static enum ps_status take_said(const json_t *document, struct network_said *said, struct ps_error *error) {
    const struct {
        const char *field;
        char **place;
    } texts[] = {
        {"loss", &said->loss}, {"freeze", &said->freeze}, {"init", &said->init}, {"init_checksum", &said->init_checksum}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = json_string_value(json_object_get(document, texts[i].field));
        if (text) TRY(network_say(texts[i].place, text, error));
    }
    return PS_OK;
}

/* The network that the run keeps. Older runs keep none; a built-in one has the name that the plan says. */
static enum ps_status read_network(const struct ps_train_options *requested, struct resumption *resumption,
                                   struct ps_error *error) {
    char path[PATH_SIZE], *origin;
    size_t size;
    file_join(path, requested->resume, "network.json");
    if (resumption->request.options.network || !file_exists(path)) return PS_OK;
    TRY(ps_network_read(path, &resumption->network, error));
    resumption->request.options.network = resumption->network;
    TRY(take_said(resumption->document, &resumption->network->said, error));
    if (!file_exists(file_join(path, requested->resume, "network.onnx"))) return PS_OK;
    struct graph *graph = resumption->network->graph;
    if (!graph->values && !(graph->values = values_create())) return error_memory(error, "values of parameters", 1);
    TRY(file_read(path, SIZE_MAX, &origin, &size, error));
    values_set_origin(graph->values, origin, size);
    return PS_OK;
}

/* The network by its name, for a new plan; else the plan's is made from that. A device that only waits has the profile's. */
static enum ps_status make_network(struct resumption *resumption, struct ps_error *error) {
    const char *name = json_string_value(json_object_get(resumption->document, "model"));
    const struct device_class *device;
    TRY(device_find(resumption->request.options.device, &device, error));
    if (resumption->request.options.network || !device->real) return PS_OK;
    TRY(ps_network_open(name ? name : "", &resumption->network, error));
    resumption->request.options.network = resumption->network;
    return PS_OK;
}

static enum ps_status merge(const struct ps_train_options *requested, int processes, struct resumption *resumption,
                            struct ps_error *error) {
    struct ps_train_options *options = &resumption->request.options;
    char path[PATH_SIZE];
    merge_options(requested, options);
    TRY(read_network(requested, resumption, error));
    if (requested->plan) {
        resumption->planned_anew = true;
        take_plan(requested, &resumption->request);
        return PS_OK;
    }
    TRY(read_cluster(requested, resumption, error));
    TRY(ps_plan_read(file_join(path, requested->resume, "plan.json"), &resumption->plan, error));
    file_join(path, requested->resume, "profile.json");
    if (requested->profile) {
        options->profile = requested->profile;
    } else if (file_exists(path)) {
        TRY(ps_profile_read(path, &resumption->profile, error));
        options->profile = resumption->profile;
    }
    struct ps_plan_info info = ps_plan_info(resumption->plan);
    resumption->planned_anew = wants_planning(requested, processes, info.workers);
    if (!resumption->planned_anew) {
        keep_plan(resumption->plan, &resumption->request);
        return PS_OK;
    }
    merge_planning(requested, processes, &info, &resumption->request);
    if (options->cluster && !requested->cluster) TRY(check_machines(requested->machines, error));
    return make_network(resumption, error);
}

/* The options of `document`. */
static enum ps_status take_document(const char *path, struct resumption *resumption, struct ps_error *error) {
    struct json_place root = json_root(resumption->document, path);
    struct train_request *request = &resumption->request;
    ps_train_options_init(&request->options);
    ps_plan_options_init(&request->planning);
    ps_cluster_options_init(&request->machines);
    request->options.planning = &request->planning;
    request->options.machines = &request->machines;
    return read_options(&root, resumption, error);
}

/* Data of the caller's must be given again. */
static enum ps_status check_data(const struct resumption *resumption, struct ps_error *error) {
    static const char *const fields[] = {"data", "valid"};
    const struct ps_dataset *const given[] = {resumption->request.options.data, resumption->request.options.valid};
    for (int f = 0; f < 2; f++) {
        char key[32];
        snprintf(key, sizeof key, "given_%s", fields[f]);
        const char *name = json_string_value(json_object_get(resumption->document, key));
        if (name && !given[f])
            return error_set(error, PS_USAGE, "%s: the run has data of its own, '%s', which must be given again", fields[f],
                             name);
    }
    return PS_OK;
}

static enum ps_status open_resumption(const struct ps_train_options *requested, const char *option, int processes,
                                      struct resumption *resumption, struct ps_error *error) {
    char path[PATH_SIZE];
    file_join(path, requested->resume, "config.json");
    if (!file_exists(path)) return error_set(error, PS_NO_CHECKPOINT, "`%s`: %s holds no run", option, requested->resume);
    TRY(json_read_file(path, "penstock-config", &resumption->document, error));
    TRY(take_document(path, resumption, error));
    TRY(merge(requested, processes, resumption, error));
    return check_data(resumption, error);
}

enum ps_status resumption_open(const struct ps_train_options *requested, const char *option, int processes,
                               struct resumption *resumption, struct ps_error *error) {
    enum ps_status status = open_resumption(requested, option, processes, resumption, error);
    if (status != PS_OK) resumption_free(resumption);
    return status;
}

char *resumption_text(const struct resumption *resumption) { return json_dump_text(resumption->document, JSON_COMPACT); }

enum ps_status resumption_parse(const char *text, size_t size, const struct ps_train_options *requested,
                                struct resumption *resumption, struct ps_error *error) {
    static const char source[] = "the configuration from rank 0";
    TRY(json_parse(text, size, source, "penstock-config", &resumption->document, error));
    enum ps_status status = take_document(source, resumption, error);
    if (status == PS_OK) merge_options(requested, &resumption->request.options);
    if (status == PS_OK) status = check_data(resumption, error);
    if (status != PS_OK) resumption_free(resumption);
    return status;
}

void resumption_free(struct resumption *resumption) {
    ps_plan_destroy(resumption->plan);
    ps_profile_destroy(resumption->profile);
    ps_cluster_destroy(resumption->cluster);
    ps_network_destroy(resumption->network);
    ps_dataset_destroy(resumption->data);
    ps_dataset_destroy(resumption->valid);
    json_decref(resumption->document);
    *resumption = (struct resumption){0};
}
