/*
 * Rows of scores, of a query over the keys, of some samples of an attention (attention.c): number[0] is their first row, where
 * rows count queries, then heads, then samples. F is the type of the weights p, with dropout d, and of ds.
 *
 *     s = cap tanh(s / cap) + mask, p = softmax s, 0 where a key is not seen
 *     dp = d's dropout of dp',  ds = p (dp - sum of p dp);  dmask = sums of ds;  with a cap ds has the factor 1 - tanh^2
 */

#define NOTHING bits_float(0xff800000u) /* minus infinity */

struct row {
    int query;    /* seen by causal attention up to its own position */
    int64_t mask; /* the row's first element of the mask */
    int64_t drop; /* its first random number */
};

DEVICE int64_t mask_row(int64_t n, int head, int query) {
    return ((n * MASK_HEADS + (MASK_HEADS > 1 ? FIRST_HEAD + head : 0)) * MASK_QUERIES + (MASK_QUERIES > 1 ? query : 0)) * KEYS;
}

DEVICE struct row row_of(int64_t number) {
    const int64_t n = number / (HEADS * QUERIES);
    const int within = (int)(number - n * (HEADS * QUERIES)), head = within / QUERIES, query = within % QUERIES;
    struct row row;
    row.query = query;
    row.mask = mask_row(n, head, query);
    row.drop = ((n * ALL_HEADS + FIRST_HEAD) * QUERIES + within) * KEYS;
    return row;
}

/* Keys beyond are not seen, whatever the mask says. */
DEVICE int seen_of(const struct row *row) { return CAUSAL ? row->query + 1 : KEYS; }

/* The scores of keys from i on, as the softmax has them. */
DEVICE void get_scores(const struct call *a, const struct row *row, const float *scores, int i, float s[VECTOR]) {
    GET_VECTOR(f32, scores, i, s);
    if (CAPPED)
        for (int j = 0; j < VECTOR; j++) s[j] = (float)CAP * tanhf(s[j] / (float)CAP);
#if MASK >= 0
    float mask[VECTOR];
    GET_VECTOR(MASK_TYPE, a->input[MASK].value, row->mask + i, mask);
    for (int j = 0; j < VECTOR; j++) {
        const int seen = MASK_NUMBERS ? mask[j] > NOTHING : mask[j] != 0;
        s[j] = !seen ? NOTHING : MASK_NUMBERS ? s[j] + mask[j] : s[j];
    }
#else
    (void)a;
#endif
    for (int j = 0; j < VECTOR && CAUSAL; j++)
        if (i + j > row->query) s[j] = NOTHING;
}

/* Dropout of elements of a row from i on. */
DEVICE void drop(const struct call *a, const struct row *row, int i, const float from[VECTOR], float to[VECTOR]) {
    const float factor = (float)(1 / (1 - (double)RATE));
    float numbers[4];
#if VECTOR == 4
    random_uniform4(a->key, (uint64_t)(row->drop + i) / 4, numbers);
#else
    numbers[0] = random_uniform(a->key, (uint64_t)(row->drop + i));
#endif
    for (int j = 0; j < VECTOR; j++) to[j] = numbers[j] >= (float)RATE ? from[j] * factor : 0;
}

/* Scores more[0] to p, more[1], and d, more[2] (NULL: not wanted). p may be in place of the scores. */
KERNEL(forward) {
    TEAM_ROWS(local, a.count) {
        const struct row row = row_of(a.number[0] + local);
        const float *scores = (const float *)a.more[0] + local * KEYS;
        const int seen = seen_of(&row);
        float largest = NOTHING, sum = 0, s[VECTOR];
        TEAM_EACH(i, seen) {
            get_scores(&a, &row, scores, i, s);
            float next = largest;
            for (int j = 0; j < VECTOR; j++) next = LARGER_OF(s[j], next);
            if (next > largest) sum *= expf(largest - next);
            largest = next;
            for (int j = 0; j < VECTOR; j++)
                if (s[j] != NOTHING) sum += expf(s[j] - largest);
        }
        const float all = team_max(largest), base = all > NOTHING ? all : 0;
        sum = team_sum(largest > NOTHING ? sum * expf(largest - base) : sum);
        const float factor = sum > 0 ? 1 / sum : 0;
        TEAM_EACH(k, KEYS) {
            float p[VECTOR], d[VECTOR];
            for (int j = 0; j < VECTOR; j++) s[j] = NOTHING;
            if (k < seen) get_scores(&a, &row, scores, k, s);
            for (int j = 0; j < VECTOR; j++) p[j] = s[j] == NOTHING ? 0 : expf(s[j] - base) * factor;
            PUT_VECTOR(F, a.more[1], local * KEYS + k, p);
            if (RATE > 0 && a.more[2]) {
                drop(&a, &row, k, p, d);
                PUT_VECTOR(F, a.more[2], local * KEYS + k, d);
            }
        }
    }
}

/* dp', more[0], and p, more[1], to ds, more[3], and d, more[2] (NULL: there is no dropout); more[4]: with a cap the scores
 * before it. With number[1], more[0] becomes ds without the cap's factor, which the mask's gradient is made of. */
KERNEL(backward) {
    TEAM_ROWS(local, a.count) {
        const struct row row = row_of(a.number[0] + local);
        const int64_t first = local * KEYS;
        const int seen = seen_of(&row), drops = RATE > 0 && a.more[2];
        float p[VECTOR], dp[VECTOR], mean = 0;
        TEAM_EACH(i, seen) {
            GET_VECTOR(F, a.more[1], first + i, p);
            GET_VECTOR(f32, a.more[0], first + i, dp);
            if (drops) drop(&a, &row, i, dp, dp);
            for (int j = 0; j < VECTOR; j++) mean += p[j] != 0 ? p[j] * dp[j] : 0;
        }
        mean = team_sum(mean);
        TEAM_EACH(k, KEYS) {
            float d[VECTOR], again[VECTOR];
            GET_VECTOR(F, a.more[1], first + k, p);
            GET_VECTOR(f32, a.more[0], first + k, dp);
            if (drops) {
                drop(&a, &row, k, p, d);
                PUT_VECTOR(F, a.more[2], first + k, d);
                drop(&a, &row, k, dp, dp);
            }
            for (int j = 0; j < VECTOR; j++) dp[j] = p[j] != 0 ? p[j] * (dp[j] - mean) : 0;
            if (a.number[1]) PUT_VECTOR(f32, a.more[0], first + k, dp);
            if (CAPPED) {
                GET_VECTOR(f32, a.more[4], first + k, again);
                for (int j = 0; j < VECTOR; j++) {
                    const float bounded = tanhf(again[j] / (float)CAP);
                    dp[j] *= 1 - bounded * bounded;
                }
            }
            PUT_VECTOR(F, a.more[3], first + k, dp);
        }
    }
}

/* The gradient of each element of the mask, of samples from number[2] on: the sum of more[0] over the rows that it was added
 * to. */
#if MASK_NUMBERS
KERNEL(mask_gradient) {
    const float *ds = (const float *)a.more[0];
    EACH(i, a.count) {
        const int64_t n = i / ((int64_t)MASK_HEADS * MASK_QUERIES * KEYS), line = i / KEYS;
        const int key = (int)(i - line * KEYS), query = (int)(line % MASK_QUERIES),
                  head = (int)(line / MASK_QUERIES % MASK_HEADS) - FIRST_HEAD;
        const int head_end = MASK_HEADS == 1 || head >= HEADS ? HEADS : head + 1;
        float sum = 0;
        for (int h = MASK_HEADS == 1 ? 0 : head; h < head_end && h >= 0; h++)
            for (int q = query; q < (MASK_QUERIES == 1 ? QUERIES : query + 1); q++)
                sum += ds[((n * HEADS + h) * QUERIES + q) * KEYS + key];
        PUT(MASK_TYPE, a.input[MASK].gradient, a.number[2] * MASK_HEADS * MASK_QUERIES * KEYS + i, sum);
    }
}
#endif

/* Sums of gradients more[0], rows of number[0] features, into rows number[1] apart at more[1]. */
KERNEL(share) {
    EACH(i, a.count) {
        const int64_t row = i / a.number[0];
        put_bf16(a.more[1], row * a.number[1] + (i - row * a.number[0]), ((const float *)a.more[0])[i]);
    }
}
