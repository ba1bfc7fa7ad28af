/*
 * What would help most: simulates the same plan with one thing changed (the layer next to a cut moved over it, either way; a
 * link between two neighbours twice as fast) and keeps the change that shortens the period most.
 */
#ifndef PENSTOCK_SIMULATE_ADVICE_H
#define PENSTOCK_SIMULATE_ADVICE_H

#include "simulate/simulate.h"

/* Instructions that trials may execute in all. Where trying everything would take more, only what touches the busiest worker is
 * tried, and where that is still more, nothing. */
enum { ADVICE_INSTRUCTIONS_MAX = 1 << 22 };

/* `work` is what gave `simulation`. Leaves `advice` of kind ADVICE_NONE where nothing tried makes the period shorter. */
enum ps_status advice_find(const struct ps_plan *plan, const struct cost_table *table, const struct simulation_work *work,
                           const struct ps_simulation *simulation, struct advice *advice, struct ps_error *error);

#endif
