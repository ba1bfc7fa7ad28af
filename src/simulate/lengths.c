/* Mini-batches of several lengths, in an order of their own; see simulate.h. */
#include <stdlib.h>

#include "base/random.h"
#include "simulate/simulate.h"

/* As many of each length as its share of the mini-batches says, the first length first. */
static void deal(const struct ps_profile *profile, int batches, double *factors) {
    int length = 0;
    double dealt = profile->by_length[0].share, sum = 0;
    for (int b = 0; b < batches; b++) {
        while (length < profile->length_count - 1 && b + 0.5 >= dealt * batches) dealt += profile->by_length[++length].share;
        factors[b] = profile->by_length[length].factor;
        sum += factors[b];
    }
    for (int b = 0; b < batches && sum > 0; b++) factors[b] *= batches / sum;
}

enum ps_status simulate_batch_factors(const struct ps_profile *profile, int batches, double **factors, struct ps_error *error) {
    *factors = NULL;
    if (profile->length_count == 0) return PS_OK;
    size_t count = (size_t)batches;
    double *sorted = malloc(count * sizeof *sorted), *made = malloc(count * sizeof *made);
    uint32_t *order = malloc(count * sizeof *order);
    if (sorted && made && order) {
        deal(profile, batches, sorted);
        random_permutation(random_key(0, RANDOM_ORDER, 0, 0), order, count);
        for (size_t b = 0; b < count; b++) made[b] = sorted[order[b]];
        *factors = made;
    }
    free(sorted);
    free(order);
    if (*factors) return PS_OK;
    free(made);
    return error_memory(error, "the lengths of mini-batches", count * sizeof *made);
}
