/* Costs in the order of a plan that cuts a graph along another topological order than its profile's. */
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"
#include "profile/costgraph.h"
#include "simulate/simulate.h"

/* Where each layer of the table stands in the plan's order. */
static enum ps_status find_places(const struct ps_plan *plan, const struct cost_table *table, int *place,
                                  struct ps_error *error) {
    if (plan->order_count != table->layer_count)
        return error_set(error, PS_USAGE, "order: names %d layers, the profile has %d", plan->order_count, table->layer_count);
    for (int l = 0; l < table->layer_count; l++) place[l] = -1;
    for (int o = 0; o < plan->order_count; o++) {
        int l = 0;
        while (l < table->layer_count && (place[l] >= 0 || strcmp(plan->order[o], table->layers[l].name) != 0)) l++;
        if (l == table->layer_count)
            return error_set(error, PS_USAGE, "order[%d]: '%s' is no layer of the profile, or stands twice", o, plan->order[o]);
        place[l] = o;
    }
    return PS_OK;
}

enum ps_status simulate_costs(const struct ps_plan *plan, const struct ps_profile *profile, const struct cost_table **table,
                              struct ps_profile **reordered, struct ps_error *error) {
    const struct cost_table *costs;
    TRY(profile_table(profile, plan->micro_batch, &costs, error));
    *reordered = NULL;
    *table = costs;
    if (!profile->graph || plan_check_order(plan, costs, NULL) == PS_OK) return plan_check_order(plan, costs, error);
    int *place = malloc((size_t)costs->layer_count * sizeof *place);
    enum ps_status status = place ? find_places(plan, costs, place, error)
                                  : error_memory(error, "an order of layers", (size_t)costs->layer_count * sizeof *place);
    if (status == PS_OK) status = costgraph_reorder(profile->graph, place, reordered, error);
    if (status == PS_OK) *table = &(*reordered)->tables[0];
    free(place);
    return status;
}
