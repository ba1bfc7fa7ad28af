/* The order of samples in training; see order.h. */
#include "data/order.h"

#include <assert.h>
#include <string.h>

enum ps_status sample_order_create(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths,
                                   struct sample_order *order, struct ps_error *error) {
    struct sample_order made = {.samples = samples, .batch = batch, .seed = seed, .lengths = lengths, .epoch = -1};
    const size_t batches = (size_t)sample_order_batches(&made), all = (size_t)samples * sizeof *made.at;
    const size_t turns = batches * sizeof *made.turns;
    assert(!lengths || lengths->samples == samples);
    const size_t sorting = lengths ? memory_align(all) + memory_align(turns) + memory_align(batches) : 0;
    TRY(memory_block_take(&made.memory, memory_align(all) + sorting, "the order of samples", error));
    made.at = memory_block_carve(&made.memory, all);
    if (lengths) {
        made.aside = memory_block_carve(&made.memory, all);
        made.turns = memory_block_carve(&made.memory, turns);
        made.length_of = memory_block_carve(&made.memory, batches);
    }
    *order = made;
    return PS_OK;
}

void sample_order_free(struct sample_order *order) {
    memory_block_release(&order->memory);
    *order = (struct sample_order){0};
}

/* The first `count` samples of the permutation into `aside`, by length. */
static void sort(struct sample_order *order, size_t count) {
    size_t next[LENGTHS_MAX + 1] = {0};
    for (size_t i = 0; i < count; i++) next[order->lengths->of[order->at[i]] + 1]++;
    for (int l = 1; l < LENGTHS_MAX; l++) next[l] += next[l - 1];
    for (size_t i = 0; i < count; i++) order->aside[next[order->lengths->of[order->at[i]]]++] = order->at[i];
}

void sample_order_turn(struct sample_order *order, int64_t epoch) {
    if (order->epoch == epoch) return;
    random_permutation(random_key(order->seed, RANDOM_ORDER, (uint64_t)epoch, 0), order->at, (size_t)order->samples);
    order->epoch = epoch;
    if (!order->lengths) return;
    const size_t batch = (size_t)order->batch, batches = (size_t)sample_order_batches(order);
    sort(order, batches * batch);
    random_permutation(random_key(order->seed, RANDOM_ORDER, (uint64_t)epoch, 1), order->turns, batches);
    for (size_t b = 0; b < batches; b++) {
        const uint32_t *samples = order->aside + order->turns[b] * batch;
        memcpy(order->at + b * batch, samples, batch * sizeof *samples);
        order->length_of[b] = order->lengths->of[samples[batch - 1]];
    }
}

enum ps_status sample_order_shares(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths, double *shares,
                                   struct ps_error *error) {
    struct sample_order order;
    TRY(sample_order_create(samples, batch, seed, lengths, &order, error));
    const int64_t batches = sample_order_batches(&order);
    sample_order_turn(&order, 0);
    for (int l = 0; l < lengths->count; l++) shares[l] = 0;
    for (int64_t b = 0; b < batches; b++) shares[order.length_of[b]] += 1.0 / (double)batches;
    sample_order_free(&order);
    return PS_OK;
}
