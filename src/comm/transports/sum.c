/*
 * The sum over replicas: computed in the first block that is not empty, and copied into the others. In the host's memory this
 * is done a piece at a time, small enough for the first-level cache. So it needs no memory, and its bits depend only on the
 * order of the replicas.
 */
#include "comm/transports/sum.h"

enum { PIECE = 2048 };

/* Floats of a piece. */
static size_t piece_of(const struct device *device, size_t count, size_t start) {
    return !device_in_host(device) || count - start < PIECE ? count - start : PIECE;
}

static void sum_gradients(struct device *device, const struct transport_share *shares, int count, size_t start, size_t length) {
    float *sum = NULL;
    for (int r = 0; r < count; r++) {
        float *own = shares[r].gradients + start;
        if (shares[r].empty) continue;
        if (sum)
            device_add(device, TYPE_F32, length, sum, own);
        else
            sum = own;
    }
    if (!sum) return;
    if (shares[0].scale != 1) device_scale(device, length, sum, shares[0].scale, 1);
    for (int r = 0; r < count; r++)
        if (shares[r].gradients + start != sum) device_copy(device, shares[r].gradients + start, sum, length * sizeof *sum);
}

static void average_statistics(struct device *device, const struct transport_share *shares, int count, size_t start,
                               size_t length) {
    float *sum = shares[0].statistics + start;
    for (int r = 1; r < count; r++) device_add(device, TYPE_F32, length, sum, shares[r].statistics + start);
    device_scale(device, length, sum, 1, (float)count);
    for (int r = 1; r < count; r++) device_copy(device, shares[r].statistics + start, sum, length * sizeof *sum);
}

void sum_shares(struct device *device, const struct transport_share *shares, int count) {
    for (size_t start = 0, length; start < shares[0].gradient_count; start += length) {
        length = piece_of(device, shares[0].gradient_count, start);
        sum_gradients(device, shares, count, start, length);
    }
    for (size_t start = 0, length; start < shares[0].statistics_count; start += length) {
        length = piece_of(device, shares[0].statistics_count, start);
        average_statistics(device, shares, count, start, length);
    }
}

void sum_stages(struct device *device, const struct transport_share *shares, int first, int count) {
    if (first == count) {
        sum_shares(device, shares, count);
        return;
    }
    if (first > 1) sum_shares(device, shares, first);
    if (count - first > 1) sum_shares(device, shares + first, count - first);
    const struct transport_share *one = &shares[0], *other = &shares[first];
    if (one->tied_count == 0) return;
    device_add(device, TYPE_F32, one->tied_count, one->tied, other->tied);
    for (int s = 1; s < count; s++) device_copy(device, shares[s].tied, one->tied, one->tied_count * sizeof *one->tied);
}
