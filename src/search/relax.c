/*
 * Recomputation only where it is needed: a plan that recomputes all stages is looked at once more with the stages stashed that
 * fit their worker's memory so, and becomes that plan where it is faster and stays within memory.
 */
#include "search/search.h"

/* Marks the stages of the plan whose memory holds them without recomputation; false: there are none. */
static bool mark_relaxed(const struct search *search, const struct search_best *best, const struct ps_programs *bare,
                         struct ps_plan *plan) {
    bool any = false;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct cluster_device *device = &search->cluster->devices[best->worker[s]];
        const struct cost_table *costs = cost_table_on(best->chosen.costs, device->type);
        struct stage_cost cost = stage_cost(costs, plan->stages[s].first, plan->stages[s].last);
        struct worker_memory memory = stage_memory(&cost.size, &bare->slots[bare->first_instance[s]], best->moments);
        int64_t limit = device->memory_bytes;
        if (limit > 0 && worker_memory_total(&memory) > limit) continue;
        plan->stages[s].recompute = false;
        any = true;
    }
    return any;
}

/* Takes over what was simulated if it is faster and within memory. */
static void take_relaxed(const struct search *search, const struct ps_plan *plan, struct ps_simulation *simulation,
                         struct search_best *best) {
    bool better = simulation->info.throughput_samples_per_s > best->simulation->info.throughput_samples_per_s;
    for (int w = 0; w < plan->workers; w++) {
        int64_t limit = search->cluster->devices[w].memory_bytes;
        better = better && (limit == 0 || worker_memory_total(&simulation->memory[w]) <= limit);
    }
    if (!better) {
        ps_simulation_destroy(simulation);
        return;
    }
    ps_simulation_destroy(best->simulation);
    best->simulation = simulation;
    best->objective_s = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        best->recompute[s] = plan->stages[s].recompute;
        struct partition_problem problem = search_case_problem(search, best, s);
        double stage_s = partition_stage_s(&problem, s, plan->stages[s].first, plan->stages[s].last);
        if (stage_s > best->objective_s) best->objective_s = stage_s;
    }
    struct search_case bare = best->chosen;
    bare.recompute = false;
    best->lower_bound_s = search_case_least_s(search, &bare);
}

enum ps_status search_case_relax(const struct search *search, struct search_best *best, struct ps_error *error) {
    struct straight straight = search_straight(&best->chosen.choice, best->chosen.workers);
    struct ps_programs *bare = NULL;
    struct ps_plan *plan = NULL;
    struct ps_simulation *simulation;
    enum ps_status status;
    TRY_OUT(lower_straight(&straight, &bare, error));
    TRY_OUT(search_case_plan(search, best, &plan, error));
    if (!mark_relaxed(search, best, bare, plan)) goto out;
    TRY_OUT(ps_simulate(plan, search->profile, search->cluster, 0, &simulation, error));
    take_relaxed(search, plan, simulation, best);
out:
    ps_programs_destroy(bare);
    ps_plan_destroy(plan);
    return status;
}
