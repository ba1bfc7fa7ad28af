/* Preparing a job; see job.h. */
#include "train/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "comm/launch.h"
#include "search/search.h"
#include "train/job_plan.h"

enum { BATCH_MAX = 1 << 24 };

/* --------------------------------------------------------------------- options */

static enum ps_status check_options(const struct ps_train_options *options, struct ps_error *error) {
    const struct ps_plan_options *plan = options->planning;
    const char *said_by_plan = fields_given(plan, &search_option_fields);
    if (options->plan && said_by_plan)
        return error_set(error, PS_USAGE, "`%s`: cannot be chosen beside a plan, which says it", said_by_plan);
    if (!options->plan && !options->network && !options->profile && launch_find().rank == 0)
        return error_set(error, PS_USAGE, "nothing to train: give a `network` or a `plan`");
    if (options->batch < 0 || options->batch > BATCH_MAX)
        return error_set(error, PS_USAGE, "`batch`: %d is not from 1 to %d", options->batch, BATCH_MAX);
    if (plan->micro_batch < 0) return error_set(error, PS_USAGE, "`micro_batch`: %d is negative", plan->micro_batch);
    if (options->steps < 0 || options->epochs < 0)
        return error_set(error, PS_USAGE, "%s: must not be negative", options->steps < 0 ? "`steps`" : "`epochs`");
    if (!(options->clip >= 0)) return error_set(error, PS_USAGE, "`clip`: %g is less than 0", options->clip);
    if (options->threads < 0) return error_set(error, PS_USAGE, "`threads`: %d is less than 1", options->threads);
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
    struct layer_place *places;
    TRY(memory_new(&places, job->costs->layer_count, "a graph of costs", error));
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        struct stage_cost cost = stage_cost(job->costs, stage->first, stage->last);
        bool spills = job->costs->fast_memory_bytes > 0 && stage_spills(job, stage);
        bool before = s > 0 && stage[-1].forward[0] != stage->forward[0];
        bool after = s + 1 < plan->stage_count && stage[1].forward[0] != stage->forward[0];
        for (int l = stage->first; l <= stage->last; l++) places[l].spilled = spills;
        places[stage->last].more = stage_core_transfer(&cost, before, after);
    }
    enum ps_status status = profile_graph(job->costs, places, &job->clock_graph, error);
    free(places);
    return status;
}

static enum ps_status take_ties(struct job *job, struct ps_error *error) {
    struct ps_plan *plan = job->plan;
    const struct cost_table *costs = job->profile ? &job->profile->tables[0] : NULL;
    struct ties ties;
    if (!job->network) return plan_ties_set(plan, cost_table_ends_tied(costs), costs->ties, error);
    TRY(ties_find(job->network->graph, &plan->arena, &ties, error));
    const bool ends = ties_are_ends(&ties, job->network->graph->layer_count);
    return plan_ties_set(plan, ends, ends ? NULL : &ties, error);
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
        job->graph = job->network->graph;
        network_hash_text(job->network->hash, job->plan->network);
    }
    TRY(plan_check(job->plan, job->graph->layer_count, error));
    TRY(take_ties(job, error)); /* whatever a plan of other hands says */
    if (job_plan_batch(job->plan) > BATCH_MAX)
        return error_set(error, PS_USAGE, "micro_batches: a mini-batch of %lld samples is above the %d that are accepted",
                         (long long)job_plan_batch(job->plan), BATCH_MAX);
    job->batch = (int)job_plan_batch(job->plan);
    if (job->costs && job->costs->layer_count != job->graph->layer_count)
        return error_set(error, PS_USAGE, "the profile has %d layers where %s has %d", job->costs->layer_count,
                         job->plan->model, job->graph->layer_count);
    const struct ps_profile *profile = job->profile;
    if (job->device->real && profile && (strcmp(profile->device, job->device->name) != 0 || profile->threads != job->threads))
        log_warn("the profile was measured on %s with %d thread%s, this run computes on %s with %d: predictions will be off",
                 profile->device, profile->threads, text_plural(profile->threads), job->device->name, job->threads);
    return check_order(job->plan, job->graph, error);
}

static int64_t align(int64_t bytes) { return (int64_t)memory_align((size_t)bytes); }

/* Profiles from elsewhere need not know of alignment. */
static enum ps_status take_sizes(struct job *job, struct ps_error *error) {
    if (!job->costs) return PS_OK;
    TRY(memory_new(&job->sizes, job->plan->stage_count, "sizes of stages", error));
    TRY(memory_new(&job->wire_s, job->plan->stage_count, "sizes of stages", error));
    for (int s = 0; s < job->plan->stage_count; s++) {
        const struct stage_wire wire = plan_stage_wire(job->plan, s);
        struct stage_cost cost = stage_cost(job->costs, job->plan->stages[s].first, job->plan->stages[s].last);
        stage_cost_encode(job->costs, &wire, &cost);
        const struct stage_sizes size = cost.size;
        memcpy(job->wire_s[s], cost.wire_s, sizeof job->wire_s[s]);
        job->sizes[s] = (struct stage_sizes){
            .parameter_bytes = align(size.parameter_bytes),
            .narrow_bytes = align(size.narrow_bytes),
            .repeated_gradient_bytes = align(size.repeated_gradient_bytes),
            .statistics_bytes = align(size.statistics_bytes),
            .fixed_bytes = align(size.fixed_bytes),
            .input_bytes = align(size.input_bytes),
            .output_bytes = align(size.output_bytes),
            .stash_bytes = align(size.stash_bytes),
            .delta_bytes = align(size.delta_bytes),
            .workspace_bytes = align(size.workspace_bytes),
            .input = size.input,
            .output = size.output,
        };
        stage_sizes_encode(&job->sizes[s], &wire);
    }
    return PS_OK;
}

/* Who says nothing of workers and threads may say it by OMP_NUM_THREADS, as for other programs. */
static int usual_threads(const struct ps_train_options *options) {
    const char *said = getenv("OMP_NUM_THREADS");
    const int threads = said && options->machines->workers == 0 && !options->cluster && !options->plan ? atoi(said) : 1;
    return threads > 0 && threads <= 1024 ? threads : 1;
}

enum ps_status job_begin(const struct ps_train_options *options, struct job *job, struct ps_error *error) {
    *job = (struct job){.options = options};
    TRY(check_options(options, error));
    TRY(device_find(options->device ? options->device : "cpu", &job->device, error));
    TRY(transport_find(options->transport, &job->transport, error));
    job->threads = options->threads > 0 ? options->threads : usual_threads(options);
    if (!job->device->real && !options->profile && launch_find().rank == 0)
        return error_set(error, PS_USAGE, "`device`: %s takes as long as a profile says; give one as `profile`",
                         job->device->name);
    if (options->emulate && !job->transport->own_threads)
        return error_set(error, PS_USAGE, "`emulate`: transport %s runs all workers in one thread; threads and mpi can emulate",
                         job->transport->name);
    if (!job->device->real && options->lengths)
        return error_set(error, PS_USAGE, "`lengths`: device %s reads no data", job->device->name);
    if (job->device->real && !options->data) return error_set(error, PS_USAGE, "`data`: what to train on must be said");
    return PS_OK;
}

/* Puts the label smoothing that is asked for on the network's loss. */
static enum ps_status smooth_labels(struct job *job, struct ps_error *error) {
    double smoothing = job->options->label_smoothing;
    if (!job->network || isnan(smoothing)) return PS_OK;
    if (!(smoothing >= 0 && smoothing < 1))
        return error_set(error, PS_USAGE, "`label_smoothing`: %g is not from 0 and below 1", smoothing);
    for (int l = 0; l < job->lengths.count || l == 0; l++) {
        struct graph *graph = job_network(job, l)->graph;
        graph->nodes[graph->node_count - 1].attributes.smoothing = (float)smoothing;
        if (graph->wide) graph->wide->nodes[graph->node_count - 1].attributes.smoothing = (float)smoothing;
    }
    return PS_OK;
}

/* The network for each shorter length. */
static enum ps_status open_shorter(struct job *job, struct ps_error *error) {
    const char *text = job->options->lengths;
    const int source = network_source(job->network);
    if (!text) return PS_OK;
    if (source == 0)
        return error_set(error, PS_USAGE, "`lengths`: %s translates nothing: its samples have no source and target",
                         job->network->name);
    TRY(lengths_parse(text, (struct sequence_length){source, job->network->labels}, &job->lengths, error));
    for (int l = 0; l < job->lengths.count - 1; l++)
        TRY(network_create_shorter(job->network, job->lengths.at[l].source, &job->shorter[l], error));
    return PS_OK;
}

/* The file of the network that is given, or of the built-in one that plan or profile name, and its hash. */
static enum ps_status find_network(struct job *job, uint64_t *hash, struct ps_error *error) {
    const struct ps_network *given = job->options->network;
    struct ps_network *named = NULL;
    if (!given) {
        enum ps_status status = ps_network_open(job->plan ? job->plan->model : job->profile->model, &named, error);
        if (status == PS_USAGE) error_hint(error, "a network that is not built in must be given as a file (`network` FILE)");
        TRY(status);
    }
    job->network_text = ps_network_json(given ? given : named);
    job->values = values_share((given ? given : named)->graph->values);
    *hash = (given ? given : named)->hash;
    ps_network_destroy(named);
    return memory_check(job->network_text, "a network's file", error);
}

/* Plan and profile must have been made for the network. Profiles from elsewhere need not know what they are of. */
static enum ps_status check_network(const struct job *job, struct ps_error *error) {
    if (job->plan) TRY(network_check(job->network, "the plan", job->plan->model, job->plan->network, error));
    for (const struct ps_profile *profile = job->profile; profile; profile = profile->other_device)
        if (profile->network[0]) TRY(network_check(job->network, "the profile", profile->model, profile->network, error));
    return PS_OK;
}

/* A copy of the network, whose labels may be smoothed. Another rank's text comes without the values of constants, which the
 * hash counts: who has the network checks what was made for it. */
static enum ps_status open_network(struct job *job, struct ps_error *error) {
    const bool own = !job->network_text;
    uint64_t hash = 0;
    if (!job->device->real) return PS_OK;
    if (own) TRY(find_network(job, &hash, error));
    TRY(network_parse(job->network_text, strlen(job->network_text), "the network", &job->network, error));
    job->network->graph->values = values_share(job->values);
    if (own) {
        job->network->hash = hash;
        TRY(check_network(job, error));
    }
    TRY(open_shorter(job, error));
    return smooth_labels(job, error);
}

/* A copy, whose times may become means over several lengths. */
static enum ps_status copy_profile(const struct ps_profile *profile, struct ps_profile **copy, struct ps_error *error) {
    char *text = ps_profile_json(profile);
    TRY(memory_check(text, "a profile", error));
    enum ps_status status = profile_parse(text, strlen(text), copy, error);
    free(text);
    return status;
}

enum ps_status job_open(struct job *job, struct ps_error *error) {
    const struct ps_train_options *options = job->options;
    if (options->profile && options->profile->other_device)
        return error_set(error, PS_USAGE, "`profile`: a run has one type of device; several are for planning and simulating");
    if (options->profile) TRY(copy_profile(options->profile, &job->profile, error));
    if (options->plan) TRY(job_take_plan(job, error));
    return open_network(job, error);
}

enum ps_status job_complete(struct job *job, struct ps_error *error) {
    TRY(open_network(job, error));
    TRY(take_network(job, error));
    return take_sizes(job, error);
}

static bool stages_are_tied(const struct ps_plan *plan) {
    for (int t = 0; t < plan->ties.count; t++)
        if (plan_stage_of(plan, plan->ties.list[t].layers[0]) !=
            plan_stage_of(plan, plan->ties.list[t].layers[plan->ties.list[t].uses - 1]))
            return true;
    return plan->tied && plan->stage_count > 1;
}

/* What an emulated cluster may not ask for here. */
static enum ps_status check_emulation(const struct job *job, struct ps_error *error) {
    const struct ps_cluster *cluster = job->cluster;
    if (!job->options->emulate) return PS_OK;
    if (!cluster->overlap || cluster->streaming)
        return error_set(error, PS_USAGE, "`emulate`: transfers run beside computation and begin when it is over");
    for (int w = 0; w < cluster->workers && job->device->real; w++)
        if (cluster->devices[w].speed > 1)
            return error_set(error, PS_USAGE,
                             "`emulate`: worker %d has a speed of %g; a device can be slowed down, to less than 1", w,
                             cluster->devices[w].speed);
    for (int s = 0; s < job->plan->stage_count; s++)
        if (job->plan->stages[s].forward_count > 1)
            return error_set(error, PS_USAGE, "`emulate`: the sum over the %d replicas of stage %d cannot be emulated",
                             job->plan->stages[s].forward_count, s);
    if (stages_are_tied(job->plan))
        return error_set(error, PS_USAGE, "`emulate`: the sum over stages that share a parameter (tied) cannot be emulated");
    for (int l = 0; l < cluster->link_count && job->transport->processes; l++)
        if (cluster->links[l].half_duplex || cluster->links[l].shared_link[0])
            return error_set(error, PS_USAGE, "`emulate`: links[%d] is shared, which only `transport` threads can emulate", l);
    return PS_OK;
}

enum ps_status job_plan(struct job *job, struct ps_error *error) {
    if (job->profile) TRY(job_fit_costs(job, job_requested_batch(job), error));
    if (!job->plan) TRY(job_make_plan(job, error));
    TRY(check_emulation(job, error));
    TRY(take_network(job, error));
    return take_sizes(job, error);
}

void job_free(struct job *job) {
    free(job->sizes);
    free(job->wire_s);
    free(job->network_text);
    if (job->clock_graph) graph_destroy(job->clock_graph);
    for (int l = 0; l < LENGTHS_MAX; l++) ps_network_destroy(job->shorter[l]);
    ps_network_destroy(job->network);
    values_release(job->values);
    lengths_free(&job->lengths);
    ps_cluster_destroy(job->cluster);
    ps_profile_destroy(job->profile);
    ps_plan_destroy(job->plan);
    *job = (struct job){0};
}
