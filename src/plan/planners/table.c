/* The planners that `plan --method` offers in addition to the partitioners, one line each. */
#include "plan/planner.h"

extern const struct planner planner_bipartition, planner_bipartition_order, planner_bipartition_paper, planner_madpipe,
    planner_madpipe_paper, planner_pipedream_paper, planner_data_parallel;

const struct planner *const planner_table[] = {
    &planner_bipartition,       &planner_bipartition_order, &planner_madpipe,       &planner_pipedream_paper,
    &planner_bipartition_paper, &planner_madpipe_paper,     &planner_data_parallel, NULL,
};
