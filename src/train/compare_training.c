/*
 * Methods side by side, trained: each combination is a run of its own from the same seeds, and of the same costs, which are
 * measured once for each network. With a directory each has a run directory in it, and is what that says, whether it was
 * trained just now or before; one that was interrupted is resumed. Trainings are judged as PipeOptim's tables do: images and
 * reviews by accuracy, translations by BLEU; texts whose next word is guessed by perplexity; networks without classes by their
 * loss.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/object.h"
#include "graph/network.h"
#include "search/compare_store.h"
#include "search/search.h"
#include "train/job_plan.h"
#include "train/options.h"
#include "train/run_result.h"

/* Sentences of a comparison's validation data that are translated where nothing is said. */
enum { BLEU_USUAL = 256 };

/* ----------------------------------------------------------------------- metric */

static bool reaches(enum ps_metric metric, double value, double target) {
    return metric == PS_METRIC_PERPLEXITY || metric == PS_METRIC_LOSS ? value <= target : value >= target;
}

/* By what training this network on these data is judged. */
static enum ps_metric find_metric(const struct ps_train_options *train) {
    const char *spec = train->data ? dataset_spec(train->data) : NULL;
    if (spec && strncmp(spec, "pairs:", 6) == 0) return PS_METRIC_BLEU;
    if (train->network && train->network->classes == 0) return PS_METRIC_LOSS;
    return train->network && isfinite(network_perplexity(train->network, 0)) ? PS_METRIC_PERPLEXITY : PS_METRIC_ACCURACY;
}

static enum ps_status check_target(enum ps_metric metric, double target, struct ps_error *error) {
    if (!(target >= 0 && target <= 1e9)) return error_set(error, PS_USAGE, "`target`: %g is not from 0 to 1e9", target);
    if (metric == PS_METRIC_ACCURACY && target > 1)
        return error_set(error, PS_USAGE, "`target`: %g is no accuracy; those are 0 to 1", target);
    if (metric == PS_METRIC_BLEU && target > 100)
        return error_set(error, PS_USAGE, "`target`: %g is no BLEU; that is 0 to 100", target);
    return PS_OK;
}

/* ------------------------------------------------------------------------- rows */

/* The best of its points. */
static void find_best(struct ps_comparison_row *row, const struct ps_run *run) {
    row->best_valid_accuracy = row->best = NAN;
    for (int i = 0; i < ps_run_point_count(run); i++) {
        const struct ps_run_point point = ps_run_point(run, i);
        row->best_valid_accuracy = fmax(row->best_valid_accuracy, point.valid_accuracy); /* of NaN and a number the number */
        double value = ps_run_point_metric(&point, row->metric);
        if (!isfinite(value) || reaches(row->metric, row->best, value)) continue;
        row->best = value;
        row->best_epoch = point.epoch;
    }
}

static bool was_validated(const struct comparison_row *row) { return row->row.trained && isfinite(row->row.best); }

/* When each row of the networks of that number reached the target. */
static void time_target(struct ps_comparison *comparison, int network, double target) {
    for (int r = 0; r < comparison->row_count; r++) {
        struct ps_comparison_row *row = &comparison->rows[r].row;
        if (comparison->networks[row->network].number != network) continue;
        row->target = target;
        row->target_s = NAN;
        for (int i = row->trained && target != 0 ? ps_run_point_count(comparison->rows[r].run) - 1 : -1; i >= 0; i--) {
            const struct ps_run_point point = ps_run_point(comparison->rows[r].run, i);
            if (!reaches(row->metric, ps_run_point_metric(&point, row->metric), target)) continue;
            row->target_s = point.training_s;
            row->target_epoch = point.epoch;
        }
    }
}

/* What all rows of the networks of that number reach; 0: none was validated. */
static double common_best(const struct ps_comparison *comparison, int network) {
    double least = 0;
    bool any = false;
    for (int r = 0; r < comparison->row_count; r++) {
        const struct comparison_row *row = &comparison->rows[r];
        if (comparison->networks[row->row.network].number != network || !was_validated(row)) continue;
        if (!any || reaches(row->row.metric, least, row->row.best)) least = row->row.best;
        any = true;
    }
    return least;
}

/* The run is the row's from here on. */
static void fill_row(struct ps_run *run, struct comparison_row *out) {
    struct ps_comparison_row *row = &out->row;
    row->trained = true;
    out->run = run;
    for (int w = 0; w < ps_run_info(run).workers; w++) {
        int64_t bytes = ps_run_worker(run, w).measured_bytes;
        if (bytes > row->measured_bytes) row->measured_bytes = bytes;
    }
    comparison_text(out->chosen, run->method[0] ? run->method : out->method);
    comparison_text(out->schedule, run->schedule);
    comparison_text(out->weights, run->weights);
    row->batch = run->batch;
    row->micro_batches = run->micro_batches;
    row->micro_batch = run->micro_batches > 0 ? run->batch / run->micro_batches : 0;
    find_best(row, run);
}

/* ------------------------------------------------------------------------- trainings */

/* A network with its data and all else that training is told. */
struct work {
    struct train_request request;
    enum ps_metric metric;
    uint64_t checksums[2];       /* of data and valid; see samples_checksum */
    struct ps_profile *measured; /* NULL: the profile was given, or each row measures its own */
};

struct works {
    struct work *list;
    int count;
    const char *out;
};

static const struct work *work_of(const void *context, int network) {
    const struct works *works = context;
    return &works->list[network];
}

/* Its plan and machine are the comparison's, and its files. */
static void set_row(const struct work *work, const struct ps_plan_options *planning, const struct ps_cluster_options *machines,
                    struct ps_train_options *train) {
    *train = work->request.options;
    train->plan = NULL;
    train->cluster = NULL;
    train->out = train->resume = NULL;
    if (!train->transport) train->transport = "threads"; /* several runs in a row: no other process could keep step */
    if (planning->batch > 0) train->batch = planning->batch;
    train->planning = planning;
    train->machines = machines;
    if (work->measured) train->profile = work->measured;
}

/* Of data that a specification says the run's own directory knows it; those of the caller must be given again. */
static const struct ps_dataset *given(const struct ps_dataset *data) { return data && data->given ? data : NULL; }

static void resume_row(const struct work *work, const char *directory, struct ps_train_options *train) {
    const struct ps_train_options *options = &work->request.options;
    ps_train_options_init(train);
    train->resume = directory;
    train->data = given(options->data);
    train->valid = given(options->valid);
    train->observer = options->observer;
    train->log = options->log;
    train->profile_cache = options->profile_cache;
}

/* What a run directory says is what counts, so that a row is the same however often it was interrupted. */
static enum ps_status read_row(const char *directory, struct comparison_row *out, struct ps_error *error) {
    struct ps_run *run;
    TRY(ps_run_read(directory, &run, error));
    fill_row(run, out);
    return PS_OK;
}

/* What has ended is not trained again. */
static enum ps_status take_trained(const void *context, int network, struct comparison_row *row, bool *done,
                                   struct ps_error *error) {
    const struct work *work = work_of(context, network);
    char path[4096];
    row->row.metric = work->metric;
    TRY(compare_store_read(row, done, error));
    if (*done || !file_exists(file_join(path, row->directory, "summary.json"))) return PS_OK;
    *done = true;
    return read_row(row->directory, row, error);
}

static enum ps_status train_row(const void *context, int network, const struct ps_plan_options *options,
                                const struct ps_cluster_options *machines, struct comparison_row *out, struct ps_error *error) {
    const struct work *work = work_of(context, network);
    struct ps_train_options train;
    struct ps_error refusal = {0};
    struct ps_run *run;
    struct ps_plan_options planning = *options;
    char path[4096];
    set_row(work, &planning, machines, &train);
    planning.batch = 0;
    train.seed = out->row.seed;
    const bool resumes = out->directory && file_exists(file_join(path, out->directory, "config.json"));
    train.out = out->directory;
    if (resumes) resume_row(work, out->directory, &train);
    out->row.metric = work->metric;
    if (resumes) log_info("%s: goes on", out->directory);
    enum ps_status status = ps_train(&train, &run, &refusal);
    if (status == PS_OK && out->directory) {
        ps_run_destroy(run);
        return read_row(out->directory, out, error);
    }
    if (status == PS_OK) {
        fill_row(run, out);
        return PS_OK;
    }
    /* Data that have changed are no result. */
    if (status == PS_USAGE && resumes) {
        if (error) *error = refusal;
        return status;
    }
    return comparison_refuse(status, &refusal, out, error);
}

/* ------------------------------------------------------------------------- costs */

/* Every size of micro-batch at which a row's plan is searched. */
static enum ps_status collect_sizes(const struct work *work, const struct ps_compare_options *lists, struct job *job,
                                    struct size_set *sizes, struct ps_error *error) {
    for (int c = 0; c < compare_combinations(lists); c++) {
        struct ps_plan_options planning;
        struct ps_cluster_options machines;
        struct ps_train_options train;
        if (compare_pick(lists, c, &planning, &machines, NULL) != PS_OK) continue;
        set_row(work, &planning, &machines, &train);
        planning.batch = 0;
        job->options = &train;
        /* What is refused is refused again when it is the row's turn. */
        const enum ps_status status = job_add_sizes(job, sizes, error);
        if (status != PS_OK && status != PS_USAGE && status != PS_NO_PLAN) return status;
    }
    return PS_OK;
}

static enum ps_status measure_costs(struct work *work, const struct ps_compare_options *lists, struct ps_error *error) {
    struct ps_plan_options planning;
    struct ps_cluster_options machines;
    struct ps_train_options train;
    struct size_set sizes = {.count = 0};
    struct job job = {0};
    int most = 0;
    TRY(compare_pick(lists, 0, &planning, &machines, error));
    planning.batch = 0;
    for (int w = 0; w < lists->worker_count; w++) most = lists->workers[w] > most ? lists->workers[w] : most;
    machines.workers = most;
    set_row(work, &planning, &machines, &train);
    enum ps_status status = job_begin(&train, &job, error);
    if (status == PS_OK && job.device->real) status = job_open(&job, error);
    if (status == PS_OK && job.device->real) status = collect_sizes(work, lists, &job, &sizes, error);
    job.options = &train;
    if (status == PS_OK && sizes.count > 0) status = job_measure(&job, &sizes, error);
    if (status == PS_OK) {
        work->measured = job.profile;
        job.profile = NULL;
    }
    job_free(&job);
    return status;
}

/* Of each network the profile that all of its rows are planned by: the one that is given, or kept, or it is measured. Times of
 * sequences of several lengths depend on the data, which each training opens: it measures its own. */
static enum ps_status find_costs(const void *context, const struct ps_compare_options *lists, struct ps_error *error) {
    const struct works *works = context;
    for (int n = 0; n < works->count; n++) {
        struct work *work = &works->list[n];
        char name[32], path[4096];
        if (work->request.options.profile || work->request.options.lengths) continue;
        snprintf(name, sizeof name, "profile-%d.json", n + 1);
        if (works->out && file_exists(file_join(path, works->out, name))) {
            TRY(ps_profile_read(path, &work->measured, error));
            continue;
        }
        TRY(measure_costs(work, lists, error));
        if (works->out && work->measured) TRY(ps_profile_write(work->measured, path, error));
    }
    return PS_OK;
}

/* ------------------------------------------------------------------------- the question */

/* What decides how a network is trained; its network, data and lists of the comparison stand beside. */
static const struct field training_list[] = {
    FIELD(ps_train_options, batch, FIELD_INT),
    FIELD(ps_train_options, epochs, FIELD_INT),
    FIELD(ps_train_options, steps, FIELD_INT),
    FIELD(ps_train_options, evaluate_every, FIELD_INT),
    FIELD(ps_train_options, valid_bleu, FIELD_INT),
    FIELD(ps_train_options, lengths, FIELD_TEXT),
    FIELD(ps_train_options, lr, FIELD_DOUBLE),
    FIELD(ps_train_options, momentum, FIELD_DOUBLE),
    FIELD(ps_train_options, dampening, FIELD_DOUBLE),
    FIELD(ps_train_options, weight_decay, FIELD_DOUBLE),
    FIELD(ps_train_options, beta1, FIELD_DOUBLE),
    FIELD(ps_train_options, beta2, FIELD_DOUBLE),
    FIELD(ps_train_options, eps, FIELD_DOUBLE),
    FIELD(ps_train_options, lr_schedule, FIELD_TEXT),
    FIELD(ps_train_options, warmup_steps, FIELD_INT),
    FIELD(ps_train_options, lr_per_epoch, FIELD_SWITCH),
    FIELD(ps_train_options, clip, FIELD_DOUBLE),
    FIELD(ps_train_options, label_smoothing, FIELD_DOUBLE),
    FIELD(ps_train_options, decay_exclude, FIELD_TEXT),
    FIELD(ps_train_options, groups, FIELD_TEXT),
    FIELD(ps_train_options, device, FIELD_TEXT),
    FIELD(ps_train_options, transport, FIELD_TEXT),
    FIELD(ps_train_options, threads, FIELD_INT),
    FIELD(ps_train_options, emulate, FIELD_SWITCH),
    FIELD(ps_train_options, seed, FIELD_UINT64),
    FIELD(ps_train_options, checkpoint_every, FIELD_INT),
    FIELD(ps_train_options, checkpoint_minutes, FIELD_DOUBLE),
    FIELD(ps_train_options, patience, FIELD_INT),
};
static const struct fields training_fields = FIELDS(training_list);
static const struct field said_list[] = {
    {"loss", FIELD_TEXT, offsetof(struct network_said, loss)},
    {"freeze", FIELD_TEXT, offsetof(struct network_said, freeze)},
    {"init", FIELD_TEXT, offsetof(struct network_said, init)},
    {"init_checksum", FIELD_TEXT, offsetof(struct network_said, init_checksum)},
};
static const struct fields said_fields = FIELDS(said_list);

static void add_checksum(json_t *document, char *text) {
    char sum[16];
    const struct file_piece piece = {text, text ? strlen(text) : 0};
    snprintf(sum, sizeof sum, "%08x", (unsigned)file_checksum(&piece, 1));
    if (text) json_object_set_new(document, "profile_checksum", json_string(sum));
    free(text);
}

static const char *work_model(const void *context, int network) {
    const struct ps_train_options *options = &work_of(context, network)->request.options;
    return options->network ? options->network->name : options->profile ? options->profile->model : "";
}

static json_t *work_question(const void *context, int network) {
    const struct ps_train_options *options = &work_of(context, network)->request.options;
    json_t *document = json_pack("{s:s}", "model", work_model(context, network));
    char hash[17];
    if (options->network) {
        network_hash_text(options->network->hash, hash);
        json_object_set_new(document, "network", json_string(hash));
        fields_add(document, &options->network->said, &said_fields);
    }
    if (options->data) json_set_text(document, "data", options->data->name);
    if (options->valid) json_set_text(document, "valid", options->valid->name);
    for (int d = 0; d < 2; d++) {
        char sum[20];
        snprintf(sum, sizeof sum, "%016llx", (unsigned long long)work_of(context, network)->checksums[d]);
        if (work_of(context, network)->checksums[d] != 0)
            json_object_set_new(document, d == 0 ? "data_checksum" : "valid_checksum", json_string(sum));
    }
    fields_add(document, options, &training_fields);
    if (options->profile) add_checksum(document, ps_profile_json(options->profile));
    return document;
}

/* ---------------------------------------------------------------------------- all */

/* Rows that were trained with other data are not to be compared. */
static enum ps_status sum_opened(struct work *work, const struct ps_network *network, struct samples samples[2],
                                 struct ps_error *error) {
    const struct ps_train_options *options = &work->request.options;
    struct dataset_shape wanted = dataset_shape_of(network);
    TRY(dataset_use(options->data, DATASET_TRAIN, &wanted, &samples[0], error));
    TRY(samples_checksum(&samples[0], &work->checksums[0], error));
    memcpy(wanted.words, samples[0].dataset->shape.words, sizeof wanted.words);
    if (!options->valid) return PS_OK;
    TRY(dataset_use(options->valid, DATASET_TEST, &wanted, &samples[1], error));
    return samples_checksum(&samples[1], &work->checksums[1], error);
}

static enum ps_status sum_data(struct work *work, struct ps_error *error) {
    const struct ps_train_options *options = &work->request.options;
    struct ps_network *named = NULL;
    struct samples samples[2] = {{0}};
    if (!options->data) return PS_OK;
    if (!options->network) TRY(ps_network_open(options->profile->model, &named, error));
    const enum ps_status status = sum_opened(work, named ? named : options->network, samples, error);
    for (int s = 0; s < 2; s++) samples_close(&samples[1 - s]);
    ps_network_destroy(named);
    return status;
}

static enum ps_status open_work(const struct ps_train_options *train, const struct compare_request *compare, struct work *work,
                                struct ps_error *error) {
    const struct ps_observer *observer = compare->options.observer;
    TRY(train_request_take(train, &work->request, error));
    struct ps_train_options *options = &work->request.options;
    if (!options->network && !options->profile)
        return error_set(error, PS_USAGE, "`network`: a training that is compared needs one");
    work->metric = find_metric(options);
    TRY(check_target(work->metric, compare->options.target, error));
    if (work->metric == PS_METRIC_BLEU && options->valid && options->valid_bleu == 0) options->valid_bleu = BLEU_USUAL;
    if (observer && !work->request.observer.should_stop) {
        work->request.observer.should_stop = observer->should_stop;
        work->request.observer.context = observer->context;
    }
    return PS_OK;
}

/* Times to the target, and ranks; PS_USAGE where no row was trained. */
static enum ps_status judge(struct ps_comparison *made, const struct ps_compare_options *options, struct ps_error *error) {
    bool any = false;
    for (int r = 0; r < made->row_count; r++) any |= made->rows[r].row.trained;
    if (!any) {
        error_set(error, PS_USAGE, "%s", made->rows[0].reason);
        return PS_USAGE;
    }
    for (int n = 0; n <= made->networks[made->network_count - 1].number; n++)
        time_target(made, n, options->target > 0 ? options->target : common_best(made, n));
    return comparison_rank(made, options->rank_by, "metric", error);
}

static enum ps_status train_all(struct compare_request *compare, const struct ps_train_options *train, struct works *works,
                                struct ps_comparison **comparison, struct ps_error *error) {
    struct ps_compare_options *options = &compare->options;
    const struct comparison_kind kind = {.name = "trained",
                                         .context = works,
                                         .network_count = works->count,
                                         .model = work_model,
                                         .question = work_question,
                                         .fill = train_row,
                                         .take = take_trained,
                                         .prepare = find_costs};
    struct ps_comparison *made;
    if (options->cluster) return error_set(error, PS_USAGE, "`cluster`: training compares alike workers; give `workers`");
    TRY(compare_check_rank(options->rank_by, true, error));
    for (int n = 0; n < works->count; n++) {
        TRY(open_work(options->trainings ? options->trainings[n] : train, compare, &works->list[n], error));
        if (options->out) TRY(sum_data(&works->list[n], error));
    }
    /* Without a list it is the seed that all trainings are given. */
    if (options->seed_count == 0) options->seeds = &works->list[0].request.options.seed, options->seed_count = 1;
    TRY(comparison_create(compare, &kind, &made, error));
    const enum ps_status status = judge(made, options, error);
    if (status == PS_OK)
        *comparison = made;
    else
        ps_comparison_destroy(made);
    return status;
}

enum ps_status ps_compare_training(const struct ps_compare_options *options, const struct ps_train_options *train,
                                   struct ps_comparison **comparison, struct ps_error *error) {
    struct compare_request compare;
    TRY(compare_request_take(options, &compare, error));
    struct works works = {.count = compare.options.trainings ? compare.options.training_count : 1, .out = compare.options.out};
    if (!train == !compare.options.trainings || works.count < 1)
        return error_set(error, PS_USAGE, "`trainings`: give one training, or a list of them");
    TRY(memory_new(&works.list, works.count, "a comparison", error));
    const struct ps_log_sink *log = log_use(compare.options.log);
    enum ps_status status = train_all(&compare, train, &works, comparison, error);
    log_restore(log);
    for (int n = 0; n < works.count; n++) ps_profile_destroy(works.list[n].measured);
    free(works.list);
    return status;
}
