/* All weight policies. */
#include "program/lower.h"

extern const struct weight_policy policy_sync, policy_latest, policy_stash, policy_2bw, policy_spectrain, policy_xpipe,
    policy_pipeoptim, policy_horizon;

const struct weight_policy *const policy_table[] = {
    &policy_sync,  &policy_latest,    &policy_stash,   &policy_2bw, &policy_spectrain,
    &policy_xpipe, &policy_pipeoptim, &policy_horizon, NULL,
};
