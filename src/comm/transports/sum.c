/*
 * The sum over replicas: a piece at a time, small enough for the nearest cache, is added up beside the blocks and copied into
 * all of them. So it takes no memory that grows with the stage, and its bits depend on the order of the replicas alone.
 */
#include "comm/transports/sum.h"

#include <string.h>

enum { PIECE = 2048 };

static size_t piece_of(size_t count, size_t start) { return count - start < PIECE ? count - start : PIECE; }

static void sum_gradients(const struct transport_share *shares, int count, size_t start, size_t length) {
    float sum[PIECE];
    bool any = false;
    for (int r = 0; r < count; r++) {
        const float *from = shares[r].gradients + start;
        if (shares[r].empty) continue;
        for (size_t i = 0; i < length; i++) sum[i] = any ? sum[i] + from[i] : from[i];
        any = true;
    }
    if (!any) return;
    if (shares[0].scale != 1)
        for (size_t i = 0; i < length; i++) sum[i] *= shares[0].scale;
    for (int r = 0; r < count; r++) memcpy(shares[r].gradients + start, sum, length * sizeof *sum);
}

static void average_statistics(const struct transport_share *shares, int count, size_t start, size_t length) {
    float sum[PIECE];
    memcpy(sum, shares[0].statistics + start, length * sizeof *sum);
    for (int r = 1; r < count; r++)
        for (size_t i = 0; i < length; i++) sum[i] += shares[r].statistics[start + i];
    for (size_t i = 0; i < length; i++) sum[i] /= (float)count;
    for (int r = 0; r < count; r++) memcpy(shares[r].statistics + start, sum, length * sizeof *sum);
}

void sum_shares(const struct transport_share *shares, int count) {
    for (size_t start = 0; start < shares[0].gradient_count; start += PIECE)
        sum_gradients(shares, count, start, piece_of(shares[0].gradient_count, start));
    for (size_t start = 0; start < shares[0].statistics_count; start += PIECE)
        average_statistics(shares, count, start, piece_of(shares[0].statistics_count, start));
}

void sum_stages(const struct transport_share *shares, int first, int count) {
    if (first == count) {
        sum_shares(shares, count);
        return;
    }
    if (first > 1) sum_shares(shares, first);
    if (count - first > 1) sum_shares(shares + first, count - first);
    const struct transport_share *one = &shares[0], *other = &shares[first];
    for (size_t i = 0; i < one->tied_count; i++) one->tied[i] += other->tied[i];
    for (int s = 1; s < count && one->tied_count > 0; s++)
        memcpy(shares[s].tied, one->tied, one->tied_count * sizeof *one->tied);
}
