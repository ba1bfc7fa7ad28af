/* Lengths of samples, and their order in training; see the header. */
#include "data/order.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"

/* ------------------------------------------------------------------ lengths */

/* ---------------------------------------------------------- which there are */

/* Reads a number at *text and moves *text past it, and past a comma that another number follows. */
static bool read_length(const char **text, long *length) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    *length = strtol(*text, &end, 10);
    if (errno || (*end && (*end != ',' || !end[1]))) return false;
    *text = end + (*end == ',');
    return true;
}

enum ps_status lengths_parse(const char *text, struct sequence_length full, struct lengths *lengths, struct ps_error *error) {
    struct lengths made = {0};
    long length, before = 0;
    for (const char *rest = text; *rest || made.count == 0; before = length) {
        if (!read_length(&rest, &length))
            return error_set(error, PS_USAGE, "`lengths`: '%s' is not a list of lengths such as 8,12", text);
        if (length < 1 || length >= full.source)
            return error_set(error, PS_USAGE, "`lengths`: %ld is not from 1 to %d, which is below the network's seq", length,
                             full.source - 1);
        if (length <= before) return error_set(error, PS_USAGE, "`lengths`: %ld after %ld: they must ascend", length, before);
        if (made.count == LENGTHS_MAX - 1)
            return error_set(error, PS_USAGE, "`lengths`: at most %d are accepted", LENGTHS_MAX - 1);
        made.at[made.count++] = (struct sequence_length){(int)length, number_share_up(full.target, (int)length, full.source)};
    }
    made.at[made.count++] = full;
    *lengths = made;
    return PS_OK;
}

static uint8_t shortest(const struct lengths *lengths, struct sequence_length needed) {
    int length = 0;
    while (length < lengths->count - 1 &&
           (lengths->at[length].source < needed.source || lengths->at[length].target < needed.target))
        length++;
    return (uint8_t)length;
}

enum ps_status lengths_measure(struct lengths *lengths, const struct samples *samples, const char *spec,
                               struct ps_error *error) {
    const struct dataset *dataset = samples->dataset;
    if (!dataset->class->length)
        return error_set(error, PS_USAGE, "`lengths`: needs pairs of texts, and the data '%s' are not", spec);
    TRY(memory_new(&lengths->of, samples->count, "the lengths of samples", error));
    lengths->samples = samples->count;
    for (int64_t i = 0; i < samples->count; i++)
        lengths->of[i] = shortest(lengths, dataset->class->length(dataset, samples->first + i));
    return PS_OK;
}

const char *lengths_text(const struct lengths *lengths, char text[LENGTHS_TEXT]) {
    size_t used = 0;
    text[0] = '\0';
    for (int l = 0; l < lengths->count - 1; l++)
        used += (size_t)snprintf(text + used, LENGTHS_TEXT - used, "%s%d", l > 0 ? "," : "", lengths->at[l].source);
    return text;
}

void lengths_free(struct lengths *lengths) {
    free(lengths->of);
    *lengths = (struct lengths){0};
}

/* ------------------------------------------------------------------ packing */

void lengths_pack_tokens(const struct lengths *lengths, int length, int samples, const int32_t *full, int32_t *packed) {
    const struct sequence_length from = lengths->at[lengths->count - 1], to = lengths->at[length];
    for (int n = 0; n < samples; n++, full += from.source + from.target) {
        memcpy(packed, full, (size_t)to.source * sizeof *packed);
        memcpy(packed + to.source, full + from.source, (size_t)to.target * sizeof *packed);
        packed += to.source + to.target;
    }
}

void lengths_pack_labels(const struct lengths *lengths, int length, int samples, const int32_t *full, int32_t *packed) {
    const int from = lengths->at[lengths->count - 1].target, to = lengths->at[length].target;
    for (int n = 0; n < samples; n++) memcpy(packed + n * to, full + n * from, (size_t)to * sizeof *packed);
}

/* -------------------------------------------------------------------- order */

enum ps_status sample_order_create(int64_t samples, int batch, uint64_t seed, const struct lengths *lengths,
                                   struct sample_order *order, struct ps_error *error) {
    struct sample_order made = {.samples = samples, .batch = batch, .seed = seed, .lengths = lengths, .epoch = -1};
    const size_t batches = (size_t)sample_order_batches(&made), all = (size_t)samples * sizeof *made.at;
    const size_t orders = batches * sizeof *made.batch_order;
    assert(!lengths || lengths->samples == samples);
    const size_t sorting = lengths ? memory_align(all) + memory_align(orders) + memory_align(batches) : 0;
    TRY(memory_block_take(&made.memory, memory_align(all) + sorting, "the order of samples", error));
    made.at = memory_block_carve(&made.memory, all);
    if (lengths) {
        made.by_length = memory_block_carve(&made.memory, all);
        made.batch_order = memory_block_carve(&made.memory, orders);
        made.length_of = memory_block_carve(&made.memory, batches);
    }
    *order = made;
    return PS_OK;
}

void sample_order_free(struct sample_order *order) {
    memory_block_release(&order->memory);
    *order = (struct sample_order){0};
}

/* Sorts the first `count` samples of the permutation by length, into `by_length`; the sort is stable. */
static void sort(struct sample_order *order, size_t count) {
    size_t next[LENGTHS_MAX + 1] = {0};
    for (size_t i = 0; i < count; i++) next[order->lengths->of[order->at[i]] + 1]++;
    for (int l = 1; l < LENGTHS_MAX; l++) next[l] += next[l - 1];
    for (size_t i = 0; i < count; i++) order->by_length[next[order->lengths->of[order->at[i]]]++] = order->at[i];
}

void sample_order_turn(struct sample_order *order, int64_t epoch) {
    if (order->epoch == epoch) return;
    random_permutation(random_key(order->seed, RANDOM_ORDER, (uint64_t)epoch, 0), order->at, (size_t)order->samples);
    order->epoch = epoch;
    if (!order->lengths) return;
    const size_t batch = (size_t)order->batch, batches = (size_t)sample_order_batches(order);
    sort(order, batches * batch);
    random_permutation(random_key(order->seed, RANDOM_ORDER, (uint64_t)epoch, 1), order->batch_order, batches);
    for (size_t b = 0; b < batches; b++) {
        const uint32_t *samples = order->by_length + order->batch_order[b] * batch;
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
