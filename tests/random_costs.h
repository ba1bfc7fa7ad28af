/* Costs of stages that no rule makes, for properties that hold for any. */
#ifndef PENSTOCK_TESTS_RANDOM_COSTS_H
#define PENSTOCK_TESTS_RANDOM_COSTS_H

#include "base/random.h"
#include "profile/profile.h"

/* From a microsecond to ten milliseconds. */
static inline double random_seconds(struct random_key key, uint64_t index) {
    return 1e-6 + 1e-2 * (double)random_uniform(key, index);
}

/* Times and sizes of a straight pipeline's stages: what one puts out the next takes in. */
static inline void random_costs(struct random_key key, int stages, struct stage_cost *costs) {
    for (int s = 0; s < stages; s++) {
        uint64_t base = 100 + 10 * (uint64_t)s;
        costs[s] = (struct stage_cost){.time = {.forward_s = random_seconds(key, base),
                                                .backward_input_s = random_seconds(key, base + 1),
                                                .backward_weight_s = random_seconds(key, base + 2),
                                                .update_s = random_seconds(key, base + 3) / 8}};
        costs[s].size.input_bytes = s > 0 ? costs[s - 1].size.output_bytes : 4096;
        costs[s].size.output_bytes = s + 1 < stages ? 1 + (int64_t)random_below(key, base + 4, 100000) : 0;
    }
}

#endif
