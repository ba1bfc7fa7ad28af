/*
 * Data parallelism: one stage, the whole network, with a replica on every worker. The baseline of pipelines (BaPipe's Tables
 * III and IV).
 *
 * Costs are those of a stage in planners/pipedream.c: with r replicas a micro-batch takes each worker 1/r of its computations,
 * and its share of an update and of the ring all-reduce; the slowest worker determines the period.
 */
#include <math.h>

#include "plan/planner.h"

static double worker_s(const struct planner_problem *problem, int worker) {
    const struct cluster_device *device = &problem->cluster->devices[worker];
    const struct cost_table *costs = cost_table_on(problem->costs, device->type);
    struct layer_times time = stage_cost(costs, 0, costs->layer_count - 1).time;
    double work_s = time.forward_s + time.backward_input_s + time.backward_weight_s;
    double updates = planner_updates(problem, problem->workers);
    return (work_s / problem->workers + updates * time.update_s) / device->speed;
}

static enum ps_status solve(const struct planner_problem *problem, struct planner_answer *answer, struct ps_error *error) {
    if (problem->flush && problem->micro_batches < problem->workers)
        return error_set(error, PS_USAGE,
                         "`micro_batches`: %d of a mini-batch; data parallelism on %d workers needs at least %d",
                         problem->micro_batches, problem->workers, problem->workers);
    struct stage_cost whole = stage_cost(problem->costs, 0, problem->costs->layer_count - 1);
    int64_t bytes = stage_gradient_bytes(&whole.size) + whole.size.statistics_bytes;
    answer->stages = arena_take(&answer->arena, 1, sizeof *answer->stages);
    TRY(arena_check(&answer->arena, "a plan", error));
    answer->stages[0] = (struct planned_stage){.last = problem->costs->layer_count - 1, .replicas = problem->workers};
    answer->stage_count = 1;
    for (int w = 0; w < problem->workers; w++) answer->objective_s = fmax(answer->objective_s, worker_s(problem, w));
    answer->objective_s +=
        planner_updates(problem, problem->workers) * cluster_ring_s(problem->cluster, 0, problem->workers, bytes);
    answer->lower_bound_s = answer->objective_s;
    return PS_OK;
}

const struct planner planner_data_parallel = {
    .name = "data-parallel",
    .summary = "the whole network on every worker, each with its share of the micro-batches",
    .baseline = true,
    .several_types = true,
    .replicates = true,
    .only_replicas = true,
    .solve = solve,
};
