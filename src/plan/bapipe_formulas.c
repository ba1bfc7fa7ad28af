/* BaPipe's Tables I and II, as printed. */
#include "plan/bapipe_formulas.h"

/* How often a mini-batch waits for a pair of transfers, there and back. */
static int exposed_transfers(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    int n = stages->count, m = stages->micro_batches;
    switch (pipeline) {
    case BAPIPE_1F1B_AS:
    case BAPIPE_FBP_AS:
        return 0;
    case BAPIPE_1F1B_SNO:
        return n + m - 2 - (m - 1 + n - 1) / n; /* less ceil((M-1)/N) */
    case BAPIPE_1F1B_SO:
        return n - 1;
    }
    return 0;
}

double bapipe_batch_s(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    return (stages->micro_batches + stages->count - 1) * (stages->forward_s + stages->backward_s) +
           exposed_transfers(pipeline, stages) * 2 * stages->transfer_s;
}

double bapipe_bubble(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    return 1 - stages->micro_batches * (stages->forward_s + stages->backward_s) / bapipe_batch_s(pipeline, stages);
}

int64_t bapipe_feature_bytes(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages, int stage) {
    int64_t alive = stages->count - stage;
    return (pipeline == BAPIPE_FBP_AS || pipeline == BAPIPE_1F1B_SO ? 2 : 1) * alive * stages->feature_bytes;
}

int64_t bapipe_weight_bytes(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    (void)pipeline; /* the same for all four */
    return 2 * stages->weight_bytes;
}

double bapipe_bandwidth(enum bapipe_pipeline pipeline, const struct bapipe_stages *stages) {
    double features = (double)stages->feature_bytes;
    if (pipeline == BAPIPE_FBP_AS) return 2 * features / (stages->forward_s + stages->backward_s);
    return features / stages->forward_s;
}
