/* Shared by all planners. */
#include "plan/planner.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "plan/ideals.h"

const struct planner *planner_find(const char *name) {
    for (int p = 0; planner_table[p]; p++)
        if (strcmp(planner_table[p]->name, name) == 0) return planner_table[p];
    return NULL;
}

void planner_answer_free(struct planner_answer *answer) {
    arena_release(&answer->arena);
    *answer = (struct planner_answer){0};
}

void planner_add_stage(struct planner_answer *answer, const struct ideals *ideals, int lower, int upper, int replicas) {
    const struct planned_stage *before = answer->stage_count > 0 ? &answer->stages[answer->stage_count - 1] : NULL;
    int worker = before ? before->forward + before->replicas : 0, first = answer->order_count;
    for (int n = 0; n < ideals->node_count; n++)
        if (ideal_holds(ideals, upper, n) && !ideal_holds(ideals, lower, n))
            answer->order[answer->order_count++] = ideals->nodes[n];
    answer->stages[answer->stage_count++] = (struct planned_stage){
        .first = first, .last = answer->order_count - 1, .forward = worker, .backward = worker, .replicas = replicas};
}

/* The stages of a chain are given by its layers alone. */
static enum ps_status solve_chain(const struct planner_problem *problem,
                                  enum ps_status (*solve)(const struct planner_problem *, const struct ideals *,
                                                          struct planner_answer *, struct ps_error *),
                                  struct planner_answer *answer, struct ps_error *error) {
    struct ideals *ideals;
    TRY(ideals_of_chain(problem->costs, &ideals, error));
    enum ps_status status = solve(problem, ideals, answer, error);
    ideals_destroy(ideals);
    answer->order = NULL;
    answer->order_count = 0;
    return status;
}

enum ps_status planner_solve_ideals(const struct planner_problem *problem, bool all_ends,
                                    enum ps_status (*solve)(const struct planner_problem *problem, const struct ideals *ideals,
                                                            struct planner_answer *answer, struct ps_error *error),
                                    struct planner_answer *answer, struct ps_error *error) {
    int limit = problem->ideals_max > 0 ? problem->ideals_max : PLANNER_IDEALS_MAX;
    struct ideals *ideals;
    struct planner_answer chain = {0};
    struct ps_error refusal = {0};
    if (!problem->graph) return solve_chain(problem, solve, answer, error);
    TRY(ideals_of_joined_graph(problem->graph, limit, all_ends, &ideals, error));
    bool joined = ideals->joined;
    if (joined && problem->ideals_max == 0)
        log_info("the graph can be cut in more than %d ways: the best of %d between groups of nodes, and of its chain", limit,
                 ideals->count);
    enum ps_status status = solve(problem, ideals, answer, error);
    ideals_destroy(ideals);
    if (!joined || (status != PS_OK && status != PS_NO_PLAN)) return status;
    enum ps_status other = solve_chain(problem, solve, &chain, &refusal);
    if (other == PS_OK && (status != PS_OK || chain.objective_s <= answer->objective_s)) {
        planner_answer_free(answer);
        *answer = chain;
        chain = (struct planner_answer){0};
        status = PS_OK;
    }
    planner_answer_free(&chain);
    answer->lower_bound_s = 0;
    return status;
}

double planner_updates(const struct planner_problem *problem, int replicas) {
    return problem->flush ? 1.0 / problem->micro_batches : 1.0 / (problem->micro_batches * (double)replicas);
}

struct planner_ring planner_ring(const struct planner_problem *problem, int first, int replicas) {
    int64_t few = (int64_t)replicas << 20, many = (int64_t)replicas << 30;
    if (replicas == 1) return (struct planner_ring){0};
    double few_s = cluster_ring_s(problem->cluster, first, replicas, few);
    double many_s = cluster_ring_s(problem->cluster, first, replicas, many), byte_s = (many_s - few_s) / (double)(many - few);
    return (struct planner_ring){fmax(0, few_s - byte_s * (double)few), byte_s};
}

double planner_bandwidth(const struct planner_problem *problem) {
    const struct ps_cluster *cluster = problem->cluster;
    return cluster->link_count > 0 ? cluster->links[cluster->link_count - 1].bandwidth_bytes_per_s : 0;
}
