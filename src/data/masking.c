/* See the header. */
#include "data/masking.h"

#define CHOSEN 0.15f
#define HIDDEN 0.8f
#define RANDOM 0.1f

void masking_apply(struct random_key key, int64_t count, int vocabulary, int32_t *tokens, int32_t *labels) {
    for (int64_t t = 0; t < count; t++) {
        float share = random_uniform(key, (uint64_t)(2 * t)) / CHOSEN;
        labels[t] = share < 1 ? tokens[t] : -1;
        if (share < HIDDEN) {
            tokens[t] = MASKING_TOKEN;
        } else if (share < HIDDEN + RANDOM) {
            float number = random_uniform(key, (uint64_t)(2 * t + 1)) * (float)(vocabulary - VOCABULARY_SPECIALS);
            tokens[t] = VOCABULARY_SPECIALS + (int32_t)number;
        }
    }
}
