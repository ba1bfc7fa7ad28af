/* What planners share. */
#include "plan/planner.h"

#include <stdlib.h>

void planner_answer_free(struct planner_answer *answer) {
    free(answer->stages);
    free(answer->order);
    free(answer->pattern);
    *answer = (struct planner_answer){0};
}

double planner_bandwidth(const struct planner_problem *problem) {
    const struct ps_cluster *cluster = problem->cluster;
    return cluster->link_count > 0 ? cluster->links[cluster->link_count - 1].bandwidth_bytes_per_s : 0;
}
