/*
 * Softmax and cross-entropy; as reference/cross_entropy.c. x (R, D) logits, y (R, D) probabilities, a label for each of the R
 * rows, of which the first a.number[1] count, unless their label is below 0. The target is
 *
 *     t_d = w_d ((1 - s) [d == label] + s / D)
 *
 * with label smoothing s in training, else 0, and class weights w: CLASS_WEIGHTS where there are any, else 1. With
 * z_d = x_d - max x
 *
 *     loss of a label = sum of t_d (log sum exp z - z_d),   dx = (y sum t - t) * gradient_scale
 *
 * A team has a row, as in softmax.cu. It counts classes of more than the label's logit, and equal ones before it. A block adds
 * what its rows have in double, and a second launch what the blocks have, in the order of blocks.
 */
#define LOWEST (-3.402823466e38f)
#define SPREAD (A_smoothing / (float)FEATURES) /* of the smoothing, to each class */

#ifdef CLASS_WEIGHTS
#ifdef HOST
static const float class_weights[] = {CLASS_WEIGHTS};
#else
__device__ const float class_weights[] = {CLASS_WEIGHTS};
#endif
#define WEIGHT(d) class_weights[d]
#else
#define WEIGHT(d) 1.0f
#define ALL_WEIGHTS ((float)FEATURES)
#endif

/* So few registers that several blocks run at once. */
BOUNDED(forward)

/* A thread's share of its row: PARTS vectors that are TEAM vectors apart, in GROUPS groups whose GROUP vectors are loaded
 * together. A single group stays in registers from one pass to the next. */
#define PARTS ((FEATURES + TEAM * VECTOR - 1) / (TEAM * VECTOR))
#define GROUPS (PARTS * VECTOR <= 32 ? 1 : (PARTS * VECTOR + 15) / 16)
#define GROUP ((PARTS + GROUPS - 1) / GROUPS)
#define AT(g, p) ((((g) * GROUP + (p)) * TEAM + TEAM_RANK) * VECTOR)
#define EACH_PART(g, p) UNROLL for (int p = 0; p < GROUP; p++) if (AT(g, p) < FEATURES)
#define EACH_NUMBER(j) UNROLL for (int j = 0; j < VECTOR; j++)
#define LOAD(type, block, start, g, numbers)                                                                                   \
    EACH_PART(g, p) { GET_VECTOR(type, block, (start) + AT(g, 0) + (int64_t)(p * TEAM * VECTOR), numbers[p]); }

/* What rows have; of a block in the workspace, behind the number of blocks. */
struct tally {
    double loss;
    int64_t correct, correct5;
};
#define TALLIES ((struct tally *)(a.workspace + 64))

/* Of a block of a power of two of threads. */
DEVICE struct tally block_tally(struct tally own) {
    SHARED struct tally parts[TEAM > 256 ? TEAM : 256];
    parts[THREAD] = own;
    BARRIER();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (THREAD < step) {
            parts[THREAD].loss += parts[THREAD + step].loss;
            parts[THREAD].correct += parts[THREAD + step].correct;
            parts[THREAD].correct5 += parts[THREAD + step].correct5;
        }
        BARRIER();
    }
    return parts[0];
}

DEVICE int label_of(const struct call *a, int64_t row) {
    return row < a->number[1] ? ((const int32_t *)a->target)[row] : -1;
}

KERNEL(forward) {
    struct tally tally = {0, 0, 0};
    const int smooth = A_smoothing > 0 && a.training;
    TEAM_ROWS(row, a.count) {
        const int64_t start = row * FEATURES;
        const int label = label_of(&a, row);
        const float own = label < 0 ? 0 : GET(X0, a.input[0].value, start + label);
        float x[GROUP][VECTOR], largest = LOWEST, sum = 0, beyond = 0; /* beyond: sum of w_d (x_d - own) */
        int higher = 0, before = 0;
        for (int g = 0; g < GROUPS; g++) {
            float most = largest;
            LOAD(X0, a.input[0].value, start, g, x)
            EACH_PART(g, p) EACH_NUMBER(j) {
                most = LARGER_OF(x[p][j], most);
                higher += x[p][j] > own;
                before += x[p][j] == own && AT(g, p) + j < label;
                if (smooth) beyond += WEIGHT(AT(g, p) + j) * (x[p][j] - own);
            }
            sum *= expf(largest - most);
            EACH_PART(g, p) EACH_NUMBER(j) {
                const float e = expf(x[p][j] - most);
                sum += e;
                if (GROUPS == 1) x[p][j] = e;
            }
            largest = most;
        }
        const float top = team_max(largest), rescale = expf(largest - top), all = team_sum(sum * rescale);
        const float factor = (GROUPS == 1 ? rescale : 1.0f) / all;
        for (int g = 0; g < GROUPS; g++) {
            if (GROUPS > 1) { LOAD(X0, a.input[0].value, start, g, x) }
            EACH_PART(g, p) {
                float y[VECTOR];
                EACH_NUMBER(j) y[j] = (GROUPS == 1 ? x[p][j] : expf(x[p][j] - top)) * factor;
                PUT_VECTOR(Y, a.output, start + AT(g, p), y);
            }
        }
        if (label < 0) continue;
        higher = team_sum_int(higher);
        before = team_sum_int(before);
        if (smooth) beyond = team_sum(beyond);
        if (TEAM_RANK != 0) continue;
        const double apart = log((double)all) - ((double)own - (double)top);
        const double share = smooth ? (double)SPREAD : 0, hard = smooth ? 1 - (double)A_smoothing : 1;
        tally.loss += (hard * (double)WEIGHT(label) + share * (double)ALL_WEIGHTS) * apart - share * (double)beyond;
        tally.correct += higher == 0 && before == 0;
        tally.correct5 += higher < 5;
    }
    tally = block_tally(tally);
    if (THREAD == 0) TALLIES[BLOCK] = tally;
    if (THREAD == 0 && BLOCK == 0) *(int64_t *)a.workspace = BLOCKS;
}

KERNEL(finish) {
    const int64_t blocks = *(const int64_t *)a.workspace;
    struct tally tally = {0, 0, 0};
    for (int64_t b = THREAD; b < blocks; b += THREADS) {
        tally.loss += TALLIES[b].loss;
        tally.correct += TALLIES[b].correct;
        tally.correct5 += TALLIES[b].correct5;
    }
    tally = block_tally(tally);
    if (THREAD != 0) return;
    *a.loss += tally.loss;
    *a.correct += tally.correct;
    *a.correct5 += tally.correct5;
}

/* Element by element, four a thread, which may belong to several rows. */
KERNEL(backward_input) {
    const float smoothing = a.training ? A_smoothing : 0, share = a.training ? SPREAD : 0;
    EACH4(i, a.count) {
        int64_t row = i / FEATURES;
        int d = (int)(i % FEATURES), label = label_of(&a, row);
        float y[4], dx[4];
        GET4(Y, a.output, i, a.count, y);
        for (int j = 0; j < 4; j++, d++) {
            if (d == FEATURES) d = 0, row++, label = label_of(&a, row);
            const float own = label < 0 ? 0 : (1 - smoothing) * WEIGHT(label);
            const float wanted = share * WEIGHT(d) + (d == label ? own : 0);
            dx[j] = label < 0 ? 0 : (y[j] * (own + share * ALL_WEIGHTS) - wanted) * a.gradient_scale;
        }
        PUT4(X0, a.input[0].gradient, i, a.count, dx);
    }
}
