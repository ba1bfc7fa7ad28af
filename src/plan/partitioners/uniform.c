/* Equal numbers of layers, whatever they cost; if they do not divide evenly the first stages have one more. The baseline. */
#include "plan/partitioner.h"

static enum ps_status solve(const struct partition_problem *problem, struct partition *partition, struct ps_error *error) {
    TRY(partition_check_layers(problem, error));
    int layers = problem->costs->layer_count, share = layers / problem->stages, more = layers % problem->stages, last = -1;
    for (int s = 0; s < problem->stages; s++) {
        last += share + (s < more);
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
