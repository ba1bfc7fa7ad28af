/* All weight policies. */
#include <string.h>

#include "compute/optimizer.h"
#include "program/lower.h"

extern const struct weight_policy policy_sync, policy_latest, policy_stash, policy_2bw, policy_spectrain, policy_xpipe,
    policy_pipeoptim, policy_horizon;

const struct weight_policy *const policy_table[] = {
    &policy_sync,  &policy_latest,    &policy_stash,   &policy_2bw, &policy_spectrain,
    &policy_xpipe, &policy_pipeoptim, &policy_horizon, NULL,
};

/*
 * The state that an optimizer and a prediction rule need together.
 *
 * SpecTrain's rule is the momentum of sgdm, so every other optimizer is refused. XPipe's rule is Adam's: with an optimizer
 * without Adam's two moments, it keeps them in addition. PipeOptim's rule is the optimizer's own. Plain `sgd` has no direction
 * to predict with, and runs as sgdm with momentum 0, whose one moment is the last gradient.
 */

enum { ADAM_MOMENTS = 2 };

static enum ps_status moments_of(const struct weight_policy *policy, const struct optimizer *optimizer, int *moments,
                                 struct ps_error *error) {
    int count = optimizer->moments;
    switch (policy->prediction) {
    case PREDICT_NEVER:
        break;
    case PREDICT_OWN_RULE:
        if (count == 0) count = 1;
        break;
    case PREDICT_MOMENTUM:
        if (strcmp(optimizer->name, "sgdm") != 0)
            return error_set(error, PS_USAGE, "weights: %s predicts by the momentum of sgdm and cannot run with optimizer %s",
                             policy->name, optimizer->name);
        break;
    case PREDICT_ADAM:
        if (!optimizer->adam_settings) count += ADAM_MOMENTS;
        break;
    }
    *moments = count;
    return PS_OK;
}

enum ps_status policy_moments(const char *policy, const char *optimizer, int *moments, struct ps_error *error) {
    const struct weight_policy *weights;
    const struct optimizer *rule;
    TRY(policy_find(policy, &weights, error));
    TRY(optimizer_find(optimizer, &rule, error));
    return moments_of(weights, rule, moments, error);
}

enum ps_status plan_moments(const struct ps_plan *plan, int *moments, struct ps_error *error) {
    return policy_moments(plan->weights, plan->optimizer, moments, error);
}
