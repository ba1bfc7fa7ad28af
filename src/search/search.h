/* Finding a plan (ps_plan_find): which schedule and policy, and which partitioner's cut is fastest when everything counts. */
#ifndef PENSTOCK_SEARCH_SEARCH_H
#define PENSTOCK_SEARCH_SEARCH_H

#include "program/lower.h"

struct search_choice {
    const struct schedule *schedule;
    const struct weight_policy *policy;
    int micro_batches;
};

/*
 * What the options leave open, for a pipeline of `workers` stages:
 *
 *     schedule  weights   ->  schedule    weights
 *     auto      auto          1f1b-async  pipeoptim   the best throughput that learns as one device does
 *     auto      sync          1f1b        sync        gpipe's bubble in less memory
 *     auto      other         1f1b-async  as given
 *     flushing  auto          as given    sync
 *     other     auto          as given    pipeoptim
 *
 * micro_batches 0: the schedule's usual number, and no fewer than the policy needs. PS_USAGE: unknown names, or a combination that
 * contradicts itself.
 */
enum ps_status search_choose(const struct ps_plan_options *options, int workers, struct search_choice *choice,
                             struct ps_error *error);

#endif
