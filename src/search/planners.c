/*
 * The planners (plan/planner.h) in the search: each plans every size of micro-batch that the options allow, and what can be run
 * competes by its simulated throughput. Those that only show how a paper's own program does are left out.
 */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "search/search.h"

static double throughput(const struct ps_plan *plan) { return plan ? plan->predicted.throughput_samples_per_s : 0; }

/* What the planner cannot plan, or must not by the options, is no error here. */
static enum ps_status try_planner(const struct search *search, const struct planner *planner, const struct search_size *size,
                                  const char *weights, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan_options options = *search->options;
    options.weights = weights;
    options.replicate = planner == &planner_pipedream;
    struct search one = *search;
    struct ps_plan *made = NULL;
    struct ps_error refusal = {0};
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
    if (made->predicted.simulated && throughput(made) > throughput(*plan) * (1 + 1e-9)) {
        log_info("%s: %.6g samples/s", planner->name, throughput(made));
        ps_plan_destroy(*plan);
        *plan = made;
    } else {
        ps_plan_destroy(made);
    }
    return PS_OK;
}

/* Stages with replicas, of at most so many each, with more or less caution: what is fastest on average need not be in the simulator. Where the user leaves the
 * weights to the search, with a flush and without. */
static enum ps_status try_replicas(const struct search *search, const struct search_size *size, struct ps_plan **plan,
                                   struct ps_error *error) {
    const char *given = search->options->weights;
    bool both = given && search_is_auto(given);
    struct search one = *search;
    static const double cautions[] = {0, 0.1, 0.25, 0.5, 1};
    for (one.replicas_max = 2; one.replicas_max <= search->cluster->workers; one.replicas_max++)
        for (size_t c = 0; c < sizeof cautions / sizeof *cautions; c++) {
            one.caution = cautions[c];
            one.sweeps_only = c > 0 || one.replicas_max < search->cluster->workers;
            TRY(try_planner(&one, &planner_pipedream, size, both ? "pipeoptim" : given, plan, error));
            if (both) TRY(try_planner(&one, &planner_pipedream, size, "sync", plan, error));
        }
    return PS_OK;
}

enum ps_status search_planners(const struct search *search, struct ps_plan **plan, struct ps_error *error) {
    struct search_size sizes[SEARCH_SIZES_MAX];
    int count;
    TRY(search_sizes(search, sizes, &count, error));
    for (int s = 0; s < count && search->options->replicate; s++) TRY(try_replicas(search, &sizes[s], plan, error));
    for (int p = 0; planner_table[p] && search_is_free(search->options); p++)
        for (int s = 0; s < count && !planner_table[p]->yardstick; s++)
            TRY(try_planner(search, planner_table[p], &sizes[s], search->options->weights, plan, error));
    if (*plan) (*plan)->predicted.solve_s = clock_now() - search->start_s;
    return PS_OK;
}
