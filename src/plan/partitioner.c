/* Shared by all partitioners: the costs of a stage, and the message if nothing fits. */
#include "plan/partitioner.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "plan/planner.h"

enum ps_status partitioner_find(const char *name, const struct partitioner **partitioner, struct ps_error *error) {
    const char *names[64];
    size_t count = 0;
    for (; partitioner_table[count]; count++) {
        names[count] = partitioner_table[count]->name;
        if (strcmp(names[count], name) != 0) continue;
        *partitioner = partitioner_table[count];
        return PS_OK;
    }
    for (int p = 0; planner_table[p]; p++) names[count++] = planner_table[p]->name;
    return error_unknown(error, PS_USAGE, "method", name, names, count);
}

int64_t partition_memory_limit(const struct partition_problem *problem, int stage) {
    int64_t limit = problem->cluster->devices[partition_worker(problem, stage)].memory_bytes;
    if (!problem->share || limit == 0) return limit;
    return number_larger((int64_t)(problem->share[stage] * (double)limit), 1);
}

double partition_load_s(const struct partition_problem *problem, int stage, int first, int last) {
    struct layer_times time = stage_cost(partition_costs(problem, stage), first, last).time;
    double forward_s = problem->recompute ? 2 * time.forward_s : time.forward_s;
    return (forward_s + time.backward_input_s + time.backward_weight_s) /
           problem->cluster->devices[partition_worker(problem, stage)].speed;
}

double partition_transfer_s(const struct partition_problem *problem, int stage, int last) {
    if (stage == problem->stages - 1) return 0;
    int64_t bytes = partition_costs(problem, stage)->layers[last].size.output_bytes;
    int from = partition_worker(problem, stage), to = partition_worker(problem, stage + 1);
    return cluster_transfer_s(problem->cluster, from, to, bytes) + cluster_transfer_s(problem->cluster, to, from, bytes);
}

struct worker_memory partition_memory(const struct partition_problem *problem, int stage, int first, int last) {
    struct stage_cost cost = stage_cost(partition_costs(problem, stage), first, last);
    return stage_memory(&cost.size, &problem->slots[stage], problem->moments);
}

double partition_stage_s(const struct partition_problem *problem, int stage, int first, int last) {
    double load_s = partition_load_s(problem, stage, first, last), onward_s = partition_transfer_s(problem, stage, last);
    if (problem->cluster->overlap) return load_s > onward_s ? load_s : onward_s;
    return load_s + onward_s + (stage > 0 ? partition_transfer_s(problem, stage - 1, first - 1) : 0);
}

double partition_objective_s(const struct partition_problem *problem, const int *last) {
    double objective_s = 0;
    for (int s = 0; s < problem->stages; s++) {
        double stage_s = partition_stage_s(problem, s, partition_first(last, s), last[s]);
        if (stage_s > objective_s) objective_s = stage_s;
    }
    return objective_s;
}

enum ps_status partition_check_layers(const struct partition_problem *problem, struct ps_error *error) {
    if (problem->costs->layer_count >= problem->stages) return PS_OK;
    return error_set(error, PS_NO_PLAN, "%d stages need as many layers, but the network has only %d", problem->stages,
                     problem->costs->layer_count);
}

/* A table of the memory that every worker needs, as far as it fits the hint. */
static void hint_table(const struct partition_problem *problem, const int *last, struct ps_error *error) {
    struct text rows = {0};
    char text[8][32];
    text_add(&rows, "worker\tlayers\tneeds\tlimit\tweights\tgradients\toptimizer\tstash\tbuffers\tworkspace\n");
    for (int s = 0; s < problem->stages; s++) {
        int first = partition_first(last, s);
        int64_t limit = partition_memory_limit(problem, s);
        struct worker_memory memory = partition_memory(problem, s, first, last[s]);
        text_add(&rows, "%d\t%d-%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", partition_worker(problem, s),
                 cost_table_first(problem->costs, first) + 1, cost_table_last(problem->costs, last[s]) + 1,
                 text_bytes(worker_memory_total(&memory), text[0]), limit ? text_bytes(limit, text[1]) : "none",
                 text_bytes(memory.weights, text[2]), text_bytes(memory.gradients, text[3]),
                 text_bytes(memory.optimizer, text[4]), text_bytes(memory.stash, text[5]), text_bytes(memory.buffers, text[6]),
                 text_bytes(memory.workspace, text[7]));
    }
    char *lines = text_take_table(&rows);
    if (lines) error_hint_lines(error, lines);
    free(lines);
}

enum ps_status partition_check_memory(const struct partition_problem *problem, const int *last, struct ps_error *error) {
    int worst = -1, worst_first = 0;
    double worst_share = 1;
    int64_t worst_bytes = 0;
    for (int s = 0; problem->slots && s < problem->stages; s++) {
        int first = partition_first(last, s);
        int64_t limit = partition_memory_limit(problem, s);
        struct worker_memory memory = partition_memory(problem, s, first, last[s]);
        int64_t needed = worker_memory_total(&memory);
        if (limit == 0 || needed <= limit || (double)needed / (double)limit <= worst_share) continue;
        worst = s;
        worst_first = first;
        worst_share = (double)needed / (double)limit;
        worst_bytes = needed;
    }
    if (worst < 0) return PS_OK;
    char needs[32], limit[32];
    error_set(error, PS_NO_PLAN, "stage %d (layers %d to %d, '%s' to '%s') needs %s, but worker %d has %s", worst,
              cost_table_first(problem->costs, worst_first) + 1, cost_table_last(problem->costs, last[worst]) + 1,
              cost_table_first_name(problem->costs, worst_first), cost_table_last_name(problem->costs, last[worst]),
              text_bytes(worst_bytes, needs), partition_worker(problem, worst),
              text_bytes(partition_memory_limit(problem, worst), limit));
    hint_table(problem, last, error);
    return PS_NO_PLAN;
}
