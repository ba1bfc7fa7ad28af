/* Writing config.json, and reading it to go on with a run; see config.h. */
#include "train/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "train/run.h"

#define PATH_SIZE 4096

/* ------------------------------------------------------------------------- writing */

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
    json_set_finite(cluster, "bandwidth_bytes_per_s", options->bandwidth_bytes_per_s);
    json_set_finite(cluster, "latency_s", options->latency_s);
    json_object_set_new(cluster, "overlap", json_boolean(!options->no_overlap));
    set_integer(cluster, "cores", options->cores);
    return cluster;
}

/* The rule as it runs, defaults filled in. */
static void set_rule(json_t *config, const struct update_rule *rule, const struct ps_train_options *options) {
    const struct optimizer_settings *settings = &rule->settings;
    set_text(config, "optimizer", rule->optimizer->name);
    json_set_finite(config, "lr", settings->lr);
    if (rule->optimizer->momentum_settings) {
        json_set_finite(config, "momentum", settings->momentum);
        json_set_finite(config, "dampening", settings->dampening);
    }
    json_set_finite(config, "weight_decay", settings->weight_decay);
    if (rule->optimizer->adam_settings) {
        json_object_set_new(config, "betas", json_pack("[f, f]", settings->beta1, settings->beta2));
        json_set_finite(config, "eps", settings->eps);
    }
    set_text(config, "lr_schedule", options->lr_schedule ? options->lr_schedule : "constant");
    set_integer(config, "warmup_steps", options->warmup_steps);
    json_object_set_new(config, "lr_per_epoch", json_boolean(options->lr_per_epoch));
    if (rule->clip > 0) json_set_finite(config, "clip", rule->clip);
    json_set_finite(config, "label_smoothing", options->label_smoothing);
    set_text(config, "decay_exclude", options->decay_exclude);
}

static json_t *make_config(const struct job *job, const struct update_rule *rule, int64_t steps) {
    const struct ps_train_options *options = job->options;
    char seed[32];
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
    set_integer(config, "valid_bleu", options->valid_bleu);
    set_text(config, "lengths", options->lengths);
    set_integer(config, "checkpoint_every", options->checkpoint_every);
    set_integer(config, "keep_checkpoints", options->keep_checkpoints);
    set_rule(config, rule, options);
    set_text(config, "device", job->device->name);
    set_text(config, "transport", job->transport->name);
    set_integer(config, "threads", job->threads);
    json_object_set_new(config, "emulate", json_boolean(options->emulate));
    set_text(config, "seed", seed);
    return config;
}

enum ps_status config_write(const char *run_dir, const struct job *job, const struct update_rule *rule, int64_t steps,
                            const struct resumption *before, struct ps_error *error) {
    static const char *const planning[] = {"plan", "profile", "cluster", "plan_options", "cluster_options"};
    char path[PATH_SIZE];
    json_t *config = make_config(job, rule, steps);
    /* A run that goes on by its plan keeps what was said when that was made. */
    for (size_t i = 0; before && before->document && !before->planned_anew && i < sizeof planning / sizeof *planning; i++) {
        json_t *old = json_object_get(before->document, planning[i]);
        json_object_del(config, planning[i]);
        if (old) json_object_set(config, planning[i], old);
    }
    return json_write_file(config, file_join(path, run_dir, "config.json"), error);
}

/* ------------------------------------------------------------------------- reading */

static enum ps_status read_plan_options(const struct json_place *root, struct ps_plan_options *options,
                                        struct ps_error *error) {
    struct json_place place;
    TRY(json_field(root, "plan_options", true, &place, error));
    TRY(json_get_string(&place, "method", false, &options->method, error));
    TRY(json_get_string(&place, "schedule", false, &options->schedule, error));
    TRY(json_get_string(&place, "weights", false, &options->weights, error));
    TRY(json_get_int(&place, "micro_batch", false, 0, INT32_MAX, &options->micro_batch, error));
    TRY(json_get_int(&place, "micro_batches", false, 0, INT32_MAX, &options->micro_batches, error));
    TRY(json_get_bool(&place, "recompute", false, &options->recompute, error));
    TRY(json_get_bool(&place, "paper_prediction", false, &options->paper_prediction, error));
    TRY(json_get_bool(&place, "replicate", false, &options->replicate, error));
    return json_get_bool(&place, "paper_cost", false, &options->paper_cost, error);
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
    TRY(json_get_int(&place, "cores", false, 0, INT32_MAX, &options->cores, error));
    options->no_overlap = !overlap;
    return PS_OK;
}

static enum ps_status read_betas(const struct json_place *root, struct ps_train_options *options, struct ps_error *error) {
    struct json_place betas;
    TRY(json_field(root, "betas", false, &betas, error));
    if (!betas.value) return PS_OK;
    if (json_array_size(betas.value) != 2) return json_error(&betas, error, "must be two numbers");
    options->beta1 = json_number_value(json_array_get(betas.value, 0));
    options->beta2 = json_number_value(json_array_get(betas.value, 1));
    return PS_OK;
}

static enum ps_status read_rule(const struct json_place *root, struct ps_train_options *options, struct ps_error *error) {
    static const struct {
        const char *name;
        size_t offset;
    } settings[] = {
        {"lr", offsetof(struct ps_train_options, lr)},
        {"momentum", offsetof(struct ps_train_options, momentum)},
        {"dampening", offsetof(struct ps_train_options, dampening)},
        {"weight_decay", offsetof(struct ps_train_options, weight_decay)},
        {"eps", offsetof(struct ps_train_options, eps)},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double value = NAN;
        TRY(json_get_number(root, settings[i].name, false, 0, 1e6, &value, error));
        memcpy((char *)options + settings[i].offset, &value, sizeof value);
    }
    TRY(json_get_string(root, "optimizer", true, &options->plan.optimizer, error));
    TRY(json_get_string(root, "lr_schedule", true, &options->lr_schedule, error));
    TRY(json_get_int(root, "warmup_steps", true, 0, INT32_MAX, &options->warmup_steps, error));
    TRY(json_get_bool(root, "lr_per_epoch", false, &options->lr_per_epoch, error));
    TRY(json_get_number(root, "clip", false, 0, INFINITY, &options->clip, error));
    TRY(json_get_number(root, "label_smoothing", false, 0, 1, &options->label_smoothing, error));
    TRY(json_get_string(root, "decay_exclude", false, &options->decay_exclude, error));
    return read_betas(root, options, error);
}

static enum ps_status read_options(const struct json_place *root, struct ps_train_options *options, struct ps_error *error) {
    const char *seed;
    TRY(read_plan_options(root, &options->plan, error));
    TRY(read_cluster_options(root, &options->cluster, error));
    TRY(read_rule(root, options, error));
    TRY(json_get_string(root, "model", true, &options->model, error));
    TRY(json_get_string(root, "cluster", false, &options->cluster_path, error));
    TRY(json_get_string(root, "data", false, &options->data, error));
    TRY(json_get_string(root, "valid", false, &options->valid, error));
    TRY(json_get_int(root, "batch", true, 1, INT32_MAX, &options->batch, error));
    TRY(json_get_int(root, "epochs", true, 0, INT32_MAX, &options->epochs, error));
    TRY(json_get_int(root, "steps", true, 1, INT32_MAX, &options->steps, error));
    TRY(json_get_int(root, "evaluate_every", true, 0, INT32_MAX, &options->evaluate_every, error));
    TRY(json_get_int(root, "valid_bleu", false, 0, INT32_MAX, &options->valid_bleu, error));
    TRY(json_get_string(root, "lengths", false, &options->lengths, error));
    TRY(json_get_int(root, "checkpoint_every", true, 0, INT32_MAX, &options->checkpoint_every, error));
    TRY(json_get_int(root, "keep_checkpoints", true, 0, INT32_MAX, &options->keep_checkpoints, error));
    TRY(json_get_string(root, "device", true, &options->device, error));
    TRY(json_get_int(root, "threads", true, 1, INT32_MAX, &options->threads, error));
    TRY(json_get_bool(root, "emulate", false, &options->emulate, error));
    TRY(json_get_string(root, "seed", true, &seed, error));
    options->seed = strtoull(seed, NULL, 10);
    return PS_OK;
}

/* ------------------------------------------------------------------------- merging */

#define TAKE(field)                                                                                                            \
    if (requested->field) options->field = requested->field

/* What never touches the numbers. What carries the blocks is found out anew. */
static void merge_manner(const struct ps_train_options *requested, struct ps_train_options *options) {
    TAKE(data);
    TAKE(valid);
    TAKE(device);
    TAKE(transport);
    TAKE(threads);
    TAKE(keep_checkpoints);
    TAKE(emulate);
    options->trace = requested->trace;
    options->stop = requested->stop;
    options->out = options->resume = requested->resume;
}

static bool wants_planning(const struct ps_train_options *requested, int processes, int workers) {
    const struct ps_plan_options *plan = &requested->plan;
    const struct ps_cluster_options *cluster = &requested->cluster;
    return plan->method || plan->schedule || plan->weights || plan->micro_batch || plan->micro_batches || plan->recompute ||
           plan->paper_prediction || plan->replicate || plan->paper_cost || requested->cluster_path || cluster->memory_bytes ||
           cluster->bandwidth_bytes_per_s > 0 || cluster->latency_s > 0 || cluster->no_overlap || cluster->cores ||
           (cluster->workers && cluster->workers != workers) || (processes > 1 && processes != workers);
}

/* A new plan is for what the old one was for, but for what is wished; it keeps to its schedule, policy and micro-batches, so
 * that a schedule that flushes gives the same numbers. */
static void merge_planning(const struct ps_train_options *requested, int processes, const struct ps_plan_info *plan,
                           struct ps_train_options *options) {
    if (!options->plan.schedule) options->plan.schedule = plan->schedule;
    if (!options->plan.weights) options->plan.weights = plan->weights;
    options->plan.micro_batch = plan->micro_batch;
    options->plan.micro_batches = plan->micro_batches;
    if (requested->plan.micro_batch || requested->plan.micro_batches) {
        options->plan.micro_batch = options->plan.micro_batches = 0;
        options->profile_path = requested->profile_path; /* the run's is of another size */
    }
    TAKE(plan.method);
    TAKE(plan.schedule);
    TAKE(plan.weights);
    TAKE(plan.micro_batch);
    TAKE(plan.micro_batches);
    TAKE(plan.recompute);
    TAKE(plan.paper_prediction);
    TAKE(plan.replicate);
    TAKE(plan.paper_cost);
    bool resized = requested->cluster.workers || processes > 1;
    if (requested->cluster_path || resized) options->cluster_path = requested->cluster_path;
    if (requested->cluster_path) options->cluster = (struct ps_cluster_options){0};
    if (!options->cluster_path) options->cluster.workers = processes > 1 ? processes : plan->workers;
    TAKE(cluster.workers);
    TAKE(cluster.memory_bytes);
    TAKE(cluster.no_overlap);
    TAKE(cluster.cores);
    if (requested->cluster.bandwidth_bytes_per_s > 0)
        options->cluster.bandwidth_bytes_per_s = requested->cluster.bandwidth_bytes_per_s;
    if (requested->cluster.latency_s > 0) options->cluster.latency_s = requested->cluster.latency_s;
}

/* The run's own plan, which says itself what `plan_options` and the model would. */
static void keep_plan(const char *plan_path, struct ps_train_options *options) {
    const char *optimizer = options->plan.optimizer;
    options->plan = (struct ps_plan_options){.optimizer = optimizer};
    options->model = NULL;
    options->plan_path = plan_path;
}

/* A plan that is given comes with its own profile, workers and limits. */
static void take_plan(const struct ps_train_options *requested, struct ps_train_options *options) {
    keep_plan(requested->plan_path, options);
    options->plan.method = requested->plan.method; /* refused beside a plan, as are the others */
    options->plan.schedule = requested->plan.schedule;
    options->plan.weights = requested->plan.weights;
    options->plan.micro_batch = requested->plan.micro_batch;
    options->plan.micro_batches = requested->plan.micro_batches;
    options->profile_path = requested->profile_path;
    options->cluster_path = requested->cluster_path;
    options->cluster = requested->cluster;
    options->emulate = requested->emulate;
}

static enum ps_status merge(const struct ps_train_options *requested, int processes, struct resumption *resumption,
                            struct ps_error *error) {
    struct ps_train_options *options = &resumption->options;
    struct ps_plan *plan;
    merge_manner(requested, options);
    if (file_exists(resumption->profile_path)) options->profile_path = resumption->profile_path;
    if (requested->profile_path) options->profile_path = requested->profile_path;
    if (requested->plan_path) {
        resumption->planned_anew = true;
        take_plan(requested, options);
        return PS_OK;
    }
    TRY(ps_plan_read(resumption->plan_path, &plan, error));
    struct ps_plan_info info = ps_plan_info(plan);
    resumption->planned_anew = wants_planning(requested, processes, info.workers);
    if (resumption->planned_anew) {
        resumption->plan = plan; /* its strings are in use */
        merge_planning(requested, processes, &info, options);
    } else {
        ps_plan_destroy(plan);
        keep_plan(resumption->plan_path, options);
    }
    return PS_OK;
}

/* The options of `document`. */
static enum ps_status take_document(const struct ps_train_options *requested, const char *path, struct resumption *resumption,
                                    struct ps_error *error) {
    struct json_place root = json_root(resumption->document, path);
    ps_train_options_init(&resumption->options);
    TRY(read_options(&root, &resumption->options, error));
    file_join(resumption->plan_path, requested->resume, "plan.json");
    file_join(resumption->profile_path, requested->resume, "profile.json");
    return PS_OK;
}

static enum ps_status open_resumption(const struct ps_train_options *requested, int processes, struct resumption *resumption,
                                      struct ps_error *error) {
    char path[PATH_SIZE];
    file_join(path, requested->resume, "config.json");
    if (!file_exists(path)) return error_set(error, PS_NO_CHECKPOINT, "--resume: %s holds no run", requested->resume);
    TRY(json_read_file(path, "penstock-config", &resumption->document, error));
    TRY(take_document(requested, path, resumption, error));
    return merge(requested, processes, resumption, error);
}

enum ps_status resumption_open(const struct ps_train_options *requested, int processes, struct resumption *resumption,
                               struct ps_error *error) {
    enum ps_status status = open_resumption(requested, processes, resumption, error);
    if (status != PS_OK) resumption_free(resumption);
    return status;
}

char *resumption_text(const struct resumption *resumption) { return json_dump_text(resumption->document, JSON_COMPACT); }

enum ps_status resumption_parse(const char *text, size_t size, const struct ps_train_options *requested,
                                struct resumption *resumption, struct ps_error *error) {
    static const char source[] = "the configuration from rank 0";
    TRY(json_parse(text, size, source, "penstock-config", &resumption->document, error));
    enum ps_status status = take_document(requested, source, resumption, error);
    if (status != PS_OK) {
        resumption_free(resumption);
        return status;
    }
    merge_manner(requested, &resumption->options);
    resumption->options.profile_path = resumption->profile_path; /* what it says comes with the plan */
    return PS_OK;
}

void resumption_free(struct resumption *resumption) {
    ps_plan_destroy(resumption->plan);
    json_decref(resumption->document);
    *resumption = (struct resumption){0};
}
