/*
 * Softmax of each row, and with LOG its logarithm, in floats; as reference/softmax.c:
 *
 *     y = exp(x) / sum(exp(x)),       dx = y (dy - sum(dy y))
 *     y = x - log(sum(exp(x))),       dx = dy - exp(y) sum(dy)
 *
 * A team has a row. A thread goes over its share once for its largest x and its sum of exp(x - largest), which are then brought
 * to the row's largest: so that a long row is read only twice, and a short one, which stays in registers, once.
 */
#define LOWEST (-3.402823466e38f)

/* So few registers that several blocks run at once. */
BOUNDED(forward) BOUNDED(backward_input)

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

KERNEL(forward) {
    TEAM_ROWS(row, a.count) {
        const int64_t start = row * FEATURES;
        float x[GROUP][VECTOR], largest = LOWEST, sum = 0;
        for (int g = 0; g < GROUPS; g++) {
            float most = largest;
            LOAD(X0, a.input[0].value, start, g, x)
            EACH_PART(g, p) EACH_NUMBER(j) most = LARGER_OF(x[p][j], most);
            sum *= expf(largest - most);
            EACH_PART(g, p) EACH_NUMBER(j) {
                const float e = expf(x[p][j] - most);
                sum += e;
                if (GROUPS == 1 && !LOG) x[p][j] = e;
            }
            largest = most;
        }
        const float top = team_max(largest), own = expf(largest - top), all = team_sum(sum * own);
        const float factor = (GROUPS == 1 ? own : 1.0f) / all, logarithm = LOG ? logf(all) : 0;
        for (int g = 0; g < GROUPS; g++) {
            if (GROUPS > 1) { LOAD(X0, a.input[0].value, start, g, x) }
            EACH_PART(g, p) {
                float y[VECTOR];
                EACH_NUMBER(j) y[j] = LOG ? x[p][j] - top - logarithm : (GROUPS == 1 ? x[p][j] : expf(x[p][j] - top)) * factor;
                PUT_VECTOR(Y, a.output, start + AT(g, p), y);
            }
        }
    }
}

KERNEL(backward_input) {
    TEAM_ROWS(row, a.count) {
        const int64_t start = row * FEATURES;
        float y[GROUP][VECTOR], dy[GROUP][VECTOR], sum = 0;
        for (int g = 0; g < GROUPS; g++) {
            LOAD(Y, a.output, start, g, y)
            LOAD(Y, a.output_gradient, start, g, dy)
            EACH_PART(g, p) EACH_NUMBER(j) sum += LOG ? dy[p][j] : dy[p][j] * y[p][j];
        }
        sum = team_sum(sum);
        for (int g = 0; g < GROUPS; g++) {
            if (GROUPS > 1) {
                LOAD(Y, a.output, start, g, y)
                LOAD(Y, a.output_gradient, start, g, dy)
            }
            EACH_PART(g, p) {
                float dx[VECTOR];
                EACH_NUMBER(j) dx[j] = LOG ? dy[p][j] - expf(y[p][j]) * sum : y[p][j] * (dy[p][j] - sum);
                PUT_VECTOR(X0, a.input[0].gradient, start + AT(g, p), dx);
            }
        }
    }
}
