/* Preparing a job; see job.h. */
#include "run/job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "run/joint_profile.h"
#include "run/predict.h"
#include "search/search.h"

enum { BATCH_DEFAULT = 64, BATCH_MAX = 1 << 24 };

/* ------------------------------------------------------------- cutting batches */

static int divisor_below(int number, int bound) {
    while (bound > 1 && number % bound != 0) bound--;
    return bound;
}

static int divisor_above(int number, int bound) {
    while (bound < number && number % bound != 0) bound++;
    return bound;
}

static enum ps_status not_a_divisor(int batch, int micro_batches, struct ps_error *error) {
    if (micro_batches > batch)
        return error_set(error, PS_USAGE, "--micro-batches: %d are more than the %d samples of a mini-batch", micro_batches,
                         batch);
    return error_set(error, PS_USAGE, "--micro-batches: %d does not divide the mini-batch of %d samples; %d and %d do",
                     micro_batches, batch, divisor_below(batch, micro_batches), divisor_above(batch, micro_batches));
}

enum ps_status job_cut_batch(int batch, int usual, int least, int *micro_batches, int *micro_batch, struct ps_error *error) {
    int count = *micro_batches, size = *micro_batch;
    if (size > 0 && batch % size != 0)
        return error_set(error, PS_USAGE, "--micro-batch: %d does not divide the mini-batch of %d samples; %d and %d do", size,
                         batch, divisor_below(batch, size < batch ? size : batch), divisor_above(batch, size));
    if (count > 0 && size > 0 && (int64_t)count * size != batch)
        return error_set(error, PS_USAGE, "--batch: %d is not %d micro-batches of %d samples", batch, count, size);
    if (count == 0) count = size > 0 ? batch / size : divisor_below(batch, usual < batch ? usual : batch);
    if (*micro_batches == 0 && size == 0 && count < least) count = divisor_above(batch, least);
    if (count > batch || batch % count != 0) return not_a_divisor(batch, count, error);
    *micro_batches = count;
    *micro_batch = batch / count;
    return PS_OK;
}

/* --------------------------------------------------------------------- options */

static enum ps_status check_options(const struct ps_train_options *options, struct ps_error *error) {
    const struct ps_plan_options *plan = &options->plan;
    const struct {
        bool given;
        const char *option;
    } said_by_plan[] = {
        {options->model != NULL, "--model"},       {plan->method != NULL, "--method"},
        {plan->schedule != NULL, "--schedule"},    {plan->weights != NULL, "--weights"},
        {plan->micro_batch != 0, "--micro-batch"}, {plan->micro_batches != 0, "--micro-batches"},
        {plan->recompute, "--recompute"},          {plan->paper_prediction, "--paper-prediction"},
        {plan->replicate, "--replicate"},          {plan->paper_cost, "--paper-cost"},
    };
    for (size_t i = 0; options->plan_path && i < sizeof said_by_plan / sizeof *said_by_plan; i++)
        if (said_by_plan[i].given)
            return error_set(error, PS_USAGE, "%s: %s cannot be chosen beside a plan, which says it", options->plan_path,
                             said_by_plan[i].option);
    if (!options->plan_path && !options->model && !options->profile_path)
        return error_set(error, PS_USAGE, "nothing to train: give a plan (--plan), or a model (--model) and --workers");
    if (options->batch < 0 || options->batch > BATCH_MAX)
        return error_set(error, PS_USAGE, "--batch: %d is not from 1 to %d", options->batch, BATCH_MAX);
    if (options->steps < 0 || options->epochs < 0 || options->evaluate_every < 0 || options->warmup_steps < 0)
        return error_set(error, PS_USAGE, "%s: must not be negative",
                         options->steps < 0          ? "--steps"
                         : options->epochs < 0       ? "--epochs"
                         : options->warmup_steps < 0 ? "--warmup"
                                                     : "--evaluate-every");
    if (!(options->clip >= 0)) return error_set(error, PS_USAGE, "--clip: %g is not a norm above 0", options->clip);
    if (options->threads < 0) return error_set(error, PS_USAGE, "--threads: %d is less than 1", options->threads);
    return PS_OK;
}

/* ---------------------------------------------------------- plan, profile, cluster */

/* Do several processes run it, each as a worker? */
static bool several(const struct job *job) { return job->processes && job->processes->count > 1; }

static enum ps_status open_cluster(struct job *job, int workers, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    if (job->cluster) { /* as it was measured */
        for (int w = 0; w < job->cluster->workers && options->cluster.memory_bytes > 0; w++)
            job->cluster->devices[w].memory_bytes = options->cluster.memory_bytes;
    } else if (options->cluster_path) {
        TRY(ps_cluster_read(options->cluster_path, &job->cluster, error));
    } else {
        struct ps_cluster_options uniform = options->cluster;
        if (uniform.workers == 0) uniform.workers = workers > 0 || !several(job) ? workers : job->processes->count;
        if (uniform.workers == 0) return error_set(error, PS_USAGE, "--workers: how many workers there are must be said");
        TRY(ps_cluster_uniform(&uniform, &job->cluster, error));
    }
    if (workers > 0 && job->cluster->workers != workers)
        return error_set(error, PS_USAGE, "--workers: the plan is for %d workers, not %d", workers, job->cluster->workers);
    return PS_OK;
}

/* Samples of the plan's mini-batch; where nobody says how large a micro-batch is, it counts as one. */
static int64_t batch_of(const struct ps_plan *plan) {
    return (int64_t)plan->micro_batches * (plan->micro_batch > 0 ? plan->micro_batch : 1);
}

static enum ps_status read_plan(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    TRY(ps_plan_read(options->plan_path, &job->plan, error));
    struct ps_plan *plan = job->plan;
    if (options->plan.optimizer) snprintf(plan->optimizer, sizeof plan->optimizer, "%s", options->plan.optimizer);
    if (options->batch > 0 && options->batch != batch_of(plan))
        return error_set(error, PS_USAGE,
                         "--batch: the plan %s has a mini-batch of %lld samples (%d micro-batches of %d), not %d",
                         options->plan_path, (long long)batch_of(plan), plan->micro_batches, plan->micro_batch, options->batch);
    return open_cluster(job, plan->workers, error);
}

/* Workers that will compute side by side on this machine. */
static int busy_workers(const struct job *job) {
    int most = predict_at_once(job), workers = several(job) ? 1 : job->cluster->workers;
    return most > 0 && most < workers ? most : workers;
}

/* On one device of each type; the cluster then says of which type each is. */
static enum ps_status measure_together(struct job *job, const struct ps_profile_options *options, struct ps_error *error) {
    struct ps_cluster *typed;
    TRY(joint_profile_measure(job->processes, job->model, options, job->cluster, job->options->emulate, &job->profile, &typed,
                              error));
    if (!typed) return PS_OK;
    ps_cluster_destroy(job->cluster);
    job->cluster = typed;
    return PS_OK;
}

/* Measures the model at the sizes of micro-batch that the run may have. */
static enum ps_status measure(struct job *job, const int *sizes, int count, struct ps_error *error) {
    struct ps_profile_options options = {.device = job->device->name,
                                         .threads = job->threads,
                                         .busy = busy_workers(job),
                                         .micro_batches = sizes,
                                         .micro_batch_count = count};
    if (several(job) && job->cluster->workers == job->processes->count) return measure_together(job, &options, error);
    log_info("profiling %s: micro-batch of %d%s on %s", job->options->model, sizes[0], count > 1 ? " and more" : "",
             job->device->name);
    return ps_profile_measure(job->model, &options, &job->profile, error);
}

/* Who says `auto` and nothing of micro-batches leaves their size to the search: half and twice the usual number are tried. */
static int open_sizes(const struct ps_plan_options *wishes, int batch, int usual, int least, int sizes[3]) {
    int count = 0;
    if (!wishes->method || !search_is_auto(wishes->method) || wishes->micro_batch > 0 || wishes->micro_batches > 0) return 0;
    for (int number = 2 * usual; number >= 1 && number >= usual / 2; number /= 2)
        if (number >= least && batch % number == 0) sizes[count++] = batch / number;
    return count;
}

static bool any_divides(const struct ps_profile *profile, int batch) {
    for (int t = 0; t < profile->table_count; t++)
        if (profile->tables[t].micro_batch > 0 && batch % profile->tables[t].micro_batch == 0) return true;
    return false;
}

/* Do the network's first and last layer share a parameter? */
static bool is_tied(const struct job *job) {
    return job->model ? graph_tied(job->model->graph) != NULL : cost_table_tied(&job->profile->tables[0]);
}

static enum ps_status make_plan(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    TRY(open_cluster(job, 0, error));
    struct ps_plan_options wishes = search_tied(&options->plan, is_tied(job), job->cluster->workers);
    struct search_choice choice;
    TRY(search_choose(&wishes, job->cluster->workers, &choice, error));
    int batch = options->batch > 0 ? options->batch : BATCH_DEFAULT, sizes[3];
    int least = choice.policy->group_of_workers ? job->cluster->workers : 1;
    int open = open_sizes(&wishes, batch, choice.micro_batches, least, sizes);
    if (open > 0 && !job->profile) TRY(measure(job, sizes, open, error));
    if (open > 0 && any_divides(job->profile, batch)) {
        wishes.batch = batch;
    } else {
        TRY(job_cut_batch(batch, choice.micro_batches, least, &wishes.micro_batches, &wishes.micro_batch, error));
        if (!job->profile) TRY(measure(job, &wishes.micro_batch, 1, error));
        /* Costs that do not say for how many samples they are hold for any micro-batch. */
        if (job->profile->tables[0].micro_batch == 0) wishes.micro_batch = 0;
    }
    TRY(ps_plan_find(job->profile, job->cluster, &wishes, &job->plan, error));
    log_info("plan: %s cuts %s into %d stages; schedule %s, weights %s, %d micro-batches of %d samples", job->plan->method,
             job->plan->model, job->plan->stage_count, job->plan->schedule, job->plan->weights, job->plan->micro_batches,
             job->plan->micro_batch);
    return PS_OK;
}

/* ---------------------------------------------------------------------- network */

static enum ps_status check_order(const struct ps_plan *plan, const struct graph *graph, struct ps_error *error) {
    for (int i = 0; i < plan->order_count; i++)
        if (strcmp(plan->order[i], graph->layers[i].name) != 0)
            return error_set(error, PS_USAGE,
                             "order[%d]: '%s' stands where the network has '%s'; another order cannot be trained", i,
                             plan->order[i], graph->layers[i].name);
    return PS_OK;
}

/* The parameters in all stages of a worker. */
static int64_t parameters_on(const struct job *job, int worker) {
    int64_t bytes = 0;
    for (int s = 0; s < job->plan->stage_count; s++) {
        const struct plan_stage *stage = &job->plan->stages[s];
        if (plan_stage_is_on(stage, worker)) bytes += stage_cost(job->costs, stage->first, stage->last).size.parameter_bytes;
    }
    return bytes;
}

/* Is the stage on a worker that has more than its fast memory holds? */
static bool stage_spills(const struct job *job, const struct plan_stage *stage) {
    for (int worker = 0; worker < job->plan->workers; worker++)
        if (plan_stage_is_on(stage, worker) && cost_spills(parameters_on(job, worker), job->costs->fast_memory_bytes))
            return true;
    return false;
}

/* The graph of what the layers cost in the plan's stages. */
static enum ps_status make_clock_graph(struct job *job, struct ps_error *error) {
    const struct ps_plan *plan = job->plan;
    TRY(plan_check(plan, job->costs->layer_count, error));
    struct layer_place *places = calloc((size_t)job->costs->layer_count, sizeof *places);
    if (!places) return error_memory(error, "a graph of costs", (size_t)job->costs->layer_count * sizeof *places);
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        struct stage_cost cost = stage_cost(job->costs, stage->first, stage->last);
        bool spills = job->costs->fast_memory_bytes > 0 && stage_spills(job, stage);
        bool before = s > 0 && stage[-1].forward[0] != stage->forward[0];
        bool after = s + 1 < plan->stage_count && stage[1].forward[0] != stage->forward[0];
        for (int l = stage->first; l <= stage->last; l++) places[l].spilled = spills;
        places[stage->last].more = stage_hand_over(&cost, before, after);
    }
    enum ps_status status = profile_graph(job->costs, places, &job->clock_graph, error);
    free(places);
    return status;
}

static enum ps_status take_network(struct job *job, struct ps_error *error) {
    if (job->profile) TRY(profile_table(job->profile, job->plan->micro_batch, &job->costs, error));
    job->samples = job->device->real ? job->plan->micro_batch : 1;
    if (!job->device->real) {
        TRY(make_clock_graph(job, error));
        job->graph = job->clock_graph;
    } else {
        if (job->plan->micro_batch == 0)
            return error_set(error, PS_USAGE, "micro_batch: the plan does not say how many samples a micro-batch has");
        job->graph = job->model->graph;
    }
    TRY(plan_check(job->plan, job->graph->layer_count, error));
    job->plan->tied = is_tied(job); /* whatever a plan of other hands says */
    if (batch_of(job->plan) > BATCH_MAX)
        return error_set(error, PS_USAGE, "micro_batches: a mini-batch of %lld samples is above the %d that are accepted",
                         (long long)batch_of(job->plan), BATCH_MAX);
    job->batch = (int)batch_of(job->plan);
    if (job->costs && job->costs->layer_count != job->graph->layer_count)
        return error_set(error, PS_USAGE, "the profile has %d layers where %s has %d", job->costs->layer_count,
                         job->plan->model, job->graph->layer_count);
    const struct ps_profile *profile = job->profile;
    if (job->device->real && profile && (strcmp(profile->device, job->device->name) != 0 || profile->threads != job->threads))
        log_warn("the profile was measured on %s with %d threads, this run computes on %s with %d: predictions will be off",
                 profile->device, profile->threads, job->device->name, job->threads);
    return check_order(job->plan, job->graph, error);
}

static int64_t align(int64_t bytes) { return (int64_t)memory_align((size_t)bytes); }

/* Profiles from elsewhere need not know of alignment. */
static enum ps_status take_sizes(struct job *job, struct ps_error *error) {
    if (!job->costs) return PS_OK;
    job->sizes = calloc((size_t)job->plan->stage_count, sizeof *job->sizes);
    if (!job->sizes) return error_memory(error, "sizes of stages", (size_t)job->plan->stage_count * sizeof *job->sizes);
    for (int s = 0; s < job->plan->stage_count; s++) {
        struct stage_sizes size = stage_cost(job->costs, job->plan->stages[s].first, job->plan->stages[s].last).size;
        job->sizes[s] = (struct stage_sizes){
            .parameter_bytes = align(size.parameter_bytes),
            .statistics_bytes = align(size.statistics_bytes),
            .input_bytes = align(size.input_bytes),
            .output_bytes = align(size.output_bytes),
            .stash_bytes = align(size.stash_bytes),
            .delta_bytes = align(size.delta_bytes),
            .workspace_bytes = align(size.workspace_bytes),
        };
    }
    return PS_OK;
}

enum ps_status job_begin(const struct ps_train_options *options, struct job *job, struct ps_error *error) {
    *job = (struct job){.options = options};
    TRY(check_options(options, error));
    TRY(device_find(options->device ? options->device : "cpu", &job->device, error));
    TRY(transport_find(options->transport, &job->transport, error));
    job->threads = options->threads > 0 ? options->threads : 1;
    if (!job->device->real && !options->profile_path)
        return error_set(error, PS_USAGE, "--device: %s takes as long as a profile says; give one (--profile)",
                         job->device->name);
    if (job->device->real && !options->data) return error_set(error, PS_USAGE, "--data: what to train on must be said");
    return PS_OK;
}

/* Puts the label smoothing that is asked for on the network's loss. */
static enum ps_status smooth_labels(struct job *job, struct ps_error *error) {
    double smoothing = job->options->label_smoothing;
    if (!job->model || isnan(smoothing)) return PS_OK;
    if (!(smoothing >= 0 && smoothing < 1))
        return error_set(error, PS_USAGE, "--label-smoothing: %g is not from 0 and below 1", smoothing);
    struct graph *graph = job->model->graph;
    graph->nodes[graph->node_count - 1].attributes.smoothing = (float)smoothing;
    return PS_OK;
}

static enum ps_status open_model(struct job *job, struct ps_error *error) {
    const char *given = job->options->model;
    if (!job->device->real) return PS_OK;
    const char *model = given ? given : job->plan ? job->plan->model : job->profile->model;
    TRY(ps_model_create(model, &job->model, error));
    return smooth_labels(job, error);
}

enum ps_status job_open(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    if (options->profile_path) TRY(ps_profile_read(options->profile_path, &job->profile, error));
    if (job->profile && job->profile->other_device)
        return error_set(error, PS_USAGE, "--profile: a run has one type of device; several are for planning and simulating");
    if (options->plan_path) TRY(read_plan(job, error));
    return open_model(job, error);
}

enum ps_status job_complete(struct job *job, struct ps_error *error) {
    TRY(open_model(job, error));
    TRY(take_network(job, error));
    return take_sizes(job, error);
}

/* What an emulated cluster may not ask for here. */
static enum ps_status check_emulation(const struct job *job, struct ps_error *error) {
    const struct ps_cluster *cluster = job->cluster;
    if (!job->options->emulate) return PS_OK;
    if (!job->transport->own_threads)
        return error_set(error, PS_USAGE, "--emulate: transport %s runs all workers in one thread; threads and mpi can emulate",
                         job->transport->name);
    if (!cluster->overlap || cluster->streaming)
        return error_set(error, PS_USAGE, "--emulate: transfers run beside computation and begin when it is over");
    for (int w = 0; w < cluster->workers && job->device->real; w++)
        if (cluster->devices[w].speed > 1)
            return error_set(error, PS_USAGE,
                             "--emulate: worker %d has a speed of %g; a device can be slowed down, to less than 1", w,
                             cluster->devices[w].speed);
    for (int s = 0; s < job->plan->stage_count; s++)
        if (job->plan->stages[s].forward_count > 1)
            return error_set(error, PS_USAGE, "--emulate: the sum over the %d replicas of stage %d cannot be emulated",
                             job->plan->stages[s].forward_count, s);
    if (is_tied(job) && job->plan->stage_count > 1)
        return error_set(error, PS_USAGE,
                         "--emulate: the sum over the stages that share a parameter (tied) cannot be emulated");
    for (int l = 0; l < cluster->link_count && job->transport->processes; l++)
        if (cluster->links[l].half_duplex || cluster->links[l].medium[0])
            return error_set(error, PS_USAGE, "--emulate: links[%d] is shared, which only --transport threads can emulate", l);
    return PS_OK;
}

enum ps_status job_plan(struct job *job, struct ps_error *error) {
    if (!job->plan) TRY(make_plan(job, error));
    TRY(check_emulation(job, error));
    TRY(take_network(job, error));
    return take_sizes(job, error);
}

double job_perplexity(const struct ps_model *model, double loss) { return model && model->labels > 1 ? exp(loss) : NAN; }

struct dataset_shape job_data_shape(const struct ps_model *model) {
    return (struct dataset_shape){.channels = model->input_shape[0],
                                  .height = model->input_shape[1],
                                  .width = model->input_shape[2],
                                  .classes = model->classes,
                                  .labels = model->labels,
                                  .vocabulary = model->vocabulary,
                                  .masked = model->masked};
}

void job_free(struct job *job) {
    free(job->sizes);
    if (job->clock_graph) graph_destroy(job->clock_graph);
    ps_model_destroy(job->model);
    ps_cluster_destroy(job->cluster);
    ps_profile_destroy(job->profile);
    ps_plan_destroy(job->plan);
    *job = (struct job){0};
}
