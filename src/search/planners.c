/*
 * The planners (plan/planner.h) in the search: each plans every size of micro-batch that the options allow, and what can be run
 * competes by its simulated throughput. Of those that only show how a paper's own program does the ones that replicate compete
 * where replicas are allowed; the others are left out.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "search/search.h"

/* Of a graph's cuts all are looked at once; plans that may be better by chance take fewer where there are more. */
enum { IDEALS_MAX = 20000 };

static double throughput(const struct ps_plan *plan) { return plan ? plan->predicted.throughput_samples_per_s : 0; }

/* What became of a planner's plan. */
struct tried {
    int replicas; /* of the stage that has most; 0: there is no plan */
    double bound_s;
};

static struct tried look_at(const struct ps_plan *plan) {
    struct tried tried = {.bound_s = plan->predicted.lower_bound_s};
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].forward_count > tried.replicas) tried.replicas = plan->stages[s].forward_count;
    return tried;
}

/* What the planner cannot plan, or must not by the options, is no error here. */
static enum ps_status try_planner(const struct search *search, const struct planner *planner, const struct search_size *size,
                                  const char *weights, struct ps_plan **plan, struct tried *tried, struct ps_error *error) {
    struct ps_plan_options options = *search->options;
    options.weights = weights;
    options.replicate = search->options->replicate && planner->replicates;
    struct search one = *search;
    struct ps_plan *made = NULL;
    struct ps_error refusal = {0};
    *tried = (struct tried){0};
    options.method = planner->name;
    options.batch = 0;
    options.micro_batch = size->costs->micro_batch;
    options.micro_batches = size->micro_batches;
    if (search_is_auto(options.schedule)) options.schedule = NULL;
    one.options = &options;
    enum ps_status status = search_planner(&one, planner, &made, &refusal);
    if (status == PS_NO_PLAN || status == PS_USAGE) return PS_OK;
    if (status != PS_OK) {
        if (error) *error = refusal;
        return status;
    }
    *tried = look_at(made);
    if (made->predicted.simulated && throughput(made) > throughput(*plan) * (1 + 1e-9)) {
        log_info("%s: %.6g samples/s", planner->name, throughput(made));
        ps_plan_destroy(*plan);
        *plan = made;
    } else {
        ps_plan_destroy(made);
    }
    return PS_OK;
}

/* Stages with replicas under one policy: of at most so many each, with more or less caution, since what is fastest on average
 * need not be in the simulator. Where a plan does not use all the replicas that it may have, it is the best one with fewer,
 * too. */
static enum ps_status try_replicas(const struct search *search, const struct search_size *size, const char *weights,
                                   struct ps_plan **plan, struct ps_error *error) {
    static const double safety_factors[] = {0, 0.1, 0.25, 0.5, 1};
    struct search one = *search;
    struct tried tried;
    int workers = search->cluster->workers;
    for (size_t c = 0; c < sizeof safety_factors / sizeof *safety_factors; c++) {
        one.safety_factor = safety_factors[c];
        for (int most = workers; most >= 2;
             most = tried.replicas > 0 && tried.replicas < most ? tried.replicas - 1 : most - 1) {
            one.replicas_max = most;
            one.sweeps_only = c > 0 || most < workers;
            one.ideals_max = one.sweeps_only ? IDEALS_MAX : 0;
            TRY(try_planner(&one, &planner_pipedream, size, weights, plan, &tried, error));
            if (!one.sweeps_only) one.bound_s = tried.bound_s;
        }
    }
    return PS_OK;
}

/* Where the user leaves the weights to the search, with a flush and without. */
static enum ps_status try_policies(const struct search *search, const struct search_size *size, struct ps_plan **plan,
                                   struct ps_error *error) {
    const char *given = search->options->weights;
    bool both = given && search_is_auto(given);
    TRY(try_replicas(search, size, both ? "pipeoptim" : given, plan, error));
    return both ? try_replicas(search, size, "sync", plan, error) : PS_OK;
}

enum ps_status search_planners(const struct search *search, struct ps_plan **plan, struct ps_error *error) {
    struct search_size sizes[SEARCH_SIZES_MAX];
    struct search published = *search;
    struct tried tried;
    int count;
    published.paper_cost = true;
    TRY(search_sizes(search, sizes, &count, error));
    bool replicate = search->options->replicate;
    for (int s = 0; s < count && replicate; s++) TRY(try_policies(search, &sizes[s], plan, error));
    for (int p = 0; planner_table[p]; p++) {
        const struct planner *planner = planner_table[p];
        /* What a baseline counts too high can be what the simulator likes. */
        bool quick = search->profile->tables[0].layer_count <= planner->quick_layers;
        bool wanted = search_is_free(search->options) && (!planner->baseline || quick);
        wanted = wanted || (planner->baseline && planner->replicates && replicate);
        for (int s = 0; s < count && wanted; s++) {
            TRY(try_planner(search, planner, &sizes[s], search->options->weights, plan, &tried, error));
            if (planner->paper_costs)
                TRY(try_planner(&published, planner, &sizes[s], search->options->weights, plan, &tried, error));
        }
    }
    if (*plan) (*plan)->predicted.solve_s = clock_now() - search->start_s;
    return PS_OK;
}
