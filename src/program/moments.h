/* How many blocks of optimizer state, each as large as the weights, a run needs. */
#ifndef PENSTOCK_PROGRAM_MOMENTS_H
#define PENSTOCK_PROGRAM_MOMENTS_H

#include "plan/plan.h"

/* The optimizer's own and, where the weight policy predicts by another rule, that rule's beside them. PS_USAGE: a name is not
 * known, or the policy cannot work with the optimizer. */
enum ps_status plan_moments(const struct ps_plan *plan, int *moments, struct ps_error *error);
/* The same by names. */
enum ps_status policy_moments(const char *policy, const char *optimizer, int *moments, struct ps_error *error);

#endif
