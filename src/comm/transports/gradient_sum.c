/*
 * The sum over replicas: computed in the first block that is not empty, and copied into the others. In the host's memory this
 * is done a piece at a time, small enough for the first-level cache. So it needs no memory, and its bits depend only on the
 * order of the replicas. With a codec the sum is rounded to what all would decode: pieces are of whole groups.
 */
#include "comm/transports/gradient_sum.h"

enum { PIECE = 8 * WIRE_GROUP };

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
    if (shares[0].wire && shares[0].wire->sum.codec != WIRE_NONE) {
        const struct wire_run piece = {.count = length, .type = TYPE_F32};
        const struct wire_call rounding = {.wire = &shares[0].wire->sum,
                                           .runs = device_in_host(device) ? &piece : shares[0].run,
                                           .run_count = 1,
                                           .block = sum};
        device_code(device, &rounding);
    }
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

int tied_uses_in(const struct tied_parameter *parameter, int stage) {
    int uses = 0;
    for (int u = 0; u < parameter->uses; u++) uses += parameter->stages[u] == stage;
    return uses;
}

int tied_position(const struct tied_parameter *tied, int parameter, int stage) {
    int position = 0;
    for (int t = 0; t < parameter; t++) position += tied_uses_in(&tied[t], stage);
    return position;
}

void sum_stages(struct device *device, const struct transport_share *shares, const struct sum_stage *stages, int stage_count,
                const struct tied_parameter *tied, int tied_count) {
    for (int s = 0; s < stage_count; s++)
        if (stages[s].replicas > 1 || stage_count == 1) sum_shares(device, shares + stages[s].first, stages[s].replicas);
    for (int t = 0; t < tied_count; t++) {
        float *sum = NULL;
        for (int s = 0; s < stage_count && tied[t].count > 0; s++) {
            const int uses = tied_uses_in(&tied[t], stages[s].number), at = tied_position(tied, t, stages[s].number);
            for (int u = at; u < at + uses; u++) {
                float *own = shares[stages[s].first].tied[u];
                if (sum)
                    device_add(device, TYPE_F32, tied[t].count, sum, own);
                else
                    sum = own;
            }
        }
        for (int s = 0; s < stage_count && sum; s++) {
            const int at = tied_position(tied, t, stages[s].number);
            for (int r = 0; r < stages[s].replicas && tied_uses_in(&tied[t], stages[s].number) > 0; r++) {
                float *own = shares[stages[s].first + r].tied[at];
                if (own != sum) device_copy(device, own, sum, tied[t].count * sizeof *sum);
            }
        }
    }
}
