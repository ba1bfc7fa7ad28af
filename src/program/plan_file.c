/* ps_plan_read: a plan's file, whose schedule, weight policy and optimizer must be known ones. */
#include <string.h>

#include "base/json.h"
#include "compute/optimizer.h"
#include "program/lower.h"

static enum ps_status check_names(const struct ps_plan *plan, struct ps_error *error) {
    const struct schedule *schedule;
    const struct weight_policy *policy;
    const struct optimizer *optimizer;
    TRY(schedule_find(plan->schedule, &schedule, error));
    TRY(policy_find(plan->weights, &policy, error));
    return optimizer_find(plan->optimizer, &optimizer, error);
}

enum ps_status ps_plan_read(const char *path, struct ps_plan **plan, struct ps_error *error) {
    struct ps_plan *made;
    TRY(plan_read(path, &made, error));
    if (check_names(made, error) != PS_OK) {
        ps_plan_destroy(made);
        error_prefix(error, "%s", path);
        if (error != NULL) error->status = PS_BAD_INPUT;
        return json_tell_line(path, PS_BAD_INPUT, error);
    }
    *plan = made;
    return PS_OK;
}
