/* What planners share. */
#include "plan/planner.h"

#include <stdlib.h>
#include <string.h>

const struct planner *planner_find(const char *name) {
    for (int p = 0; planner_table[p]; p++)
        if (strcmp(planner_table[p]->name, name) == 0) return planner_table[p];
    return NULL;
}

void planner_answer_free(struct planner_answer *answer) {
    free(answer->stages);
    free(answer->order);
    free(answer->pattern);
    *answer = (struct planner_answer){0};
}

double planner_updates(const struct planner_problem *problem, int replicas) {
    return problem->flush ? 1.0 / problem->micro_batches : 1.0 / (problem->micro_batches * (double)replicas);
}

double planner_bandwidth(const struct planner_problem *problem) {
    const struct ps_cluster *cluster = problem->cluster;
    return cluster->link_count > 0 ? cluster->links[cluster->link_count - 1].bandwidth_bytes_per_s : 0;
}
