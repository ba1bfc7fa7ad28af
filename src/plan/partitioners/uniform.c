/* Equal numbers of layers, whatever they cost; if they do not divide evenly the first stages have one more. The baseline. */
#include "plan/partitioner.h"

static enum ps_status solve(const struct partition_problem *problem, struct partition *partition, struct ps_error *error) {
    TRY(partition_check_layers(problem, error));
    const struct cost_table *costs = problem->costs;
    int groups = costs->layer_count, layers = cost_table_last(costs, groups - 1) + 1;
    int share = layers / problem->stages, more = layers % problem->stages, end = -1;
    for (int s = 0, last = -1; s < problem->stages; s++) {
        end += share + (s < more);
        /* Of groups, the first that ends there or later, and leaves one for each stage that follows. */
        for (last++; cost_table_last(costs, last) < end && last < groups - problem->stages + s;) last++;
        partition->last[s] = last;
    }
    TRY(partition_check_memory(problem, partition->last, error));
    partition->objective_s = partition->lower_bound_s = partition_objective_s(problem, partition->last);
    return PS_OK;
}

extern const struct partitioner partitioner_uniform;
const struct partitioner partitioner_uniform = {
    .name = "uniform",
    .summary = "equal numbers of layers in every stage",
    .solve = solve,
};
