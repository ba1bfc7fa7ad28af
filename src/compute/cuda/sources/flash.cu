/*
 * Attention without scores in memory (Dao et al., "FlashAttention", 2022, and "FlashAttention-2", 2023), on tensor cores by
 * mma.sync: heads of E features in bf16 (E a multiple of 16, up to 64), all heads of keys of their own, keys unseen by CAUSAL or
 * by a mask of tokens (MASKED), dropout of RATE. A warp has 16 rows, a block 128; it goes through tiles of TILE keys (or queries),
 * which lie in shared memory. The backward has two kernels, each of which computes the scores anew: one sums over keys for the
 * queries' gradients, the other over queries for those of keys and values. So all sums have a fixed order.
 *
 * more[0]: of each query the logarithm to base 2 of the sum of its exponentials (N, heads, Tq), +infinity where it sees no key;
 * more[1]: the output once more (N, Tq, heads E), which the backward needs; more[2]: of each query the sum of dy y.
 * Constants: HEADS, QUERIES, KEYS, PITCH_Q, PITCH_K, PITCH_V, OFFSET_Q, OFFSET_K, OFFSET_V (elements), INPUT_K, INPUT_V (which
 * input they are in), MASK_INPUT, SCALE.
 */
enum { WARPS = 8, ROWS_OF_WARP = 16, ROWS_OF_BLOCK = WARPS * ROWS_OF_WARP, TILE = 64, PITCH = E + 8, STEPS = E / 16 };
#define LOG2E 1.44269504088896341f
#define INFINITE __int_as_float(0x7f800000)

/* c += a b: a 16 x 16 in rows, b 16 x 8 in columns. */
DEVICE void multiply(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 blocks of a tile, transposed: rows first to first + 15, columns column to column + 15. */
DEVICE void load_transposed(uint32_t b[4], const bf16 *tile, int first, int column) {
    const int lane = THREAD % 32;
    const bf16 *row = tile + (first + lane % 16) * PITCH + column + lane / 16 * 8;
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"(address));
}

DEVICE uint32_t pair(float low, float high) {
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
DEVICE float low_of(uint32_t both) { return bits_float(both << 16); }
DEVICE float high_of(uint32_t both) { return bits_float(both & 0xffff0000u); }

/* The warp's 16 rows of E features as left factors; rows from `count` on are zeros. `from` is the first row. */
DEVICE void load_rows(uint32_t a[STEPS][4], const bf16 *from, int64_t pitch, int count) {
    const int row = THREAD % 32 / 4, column = THREAD % 4 * 2;
    UNROLL for (int s = 0; s < STEPS; s++) {
        UNROLL for (int part = 0; part < 4; part++) {
            const int r = row + part % 2 * 8, c = s * 16 + column + part / 2 * 8;
            a[s][part] = r < count ? *(const uint32_t *)(from + r * pitch + c) : 0;
        }
    }
}

/* A tile of TILE rows into shared memory; rows from `count` on are zeros. */
DEVICE void load_tile(bf16 *tile, const bf16 *from, int64_t pitch, int count) {
    for (int i = THREAD; i < TILE * E / 8; i += THREADS) {
        const int row = i / (E / 8), column = i % (E / 8) * 8;
        uint4 eight = make_uint4(0, 0, 0, 0);
        if (row < count) eight = *(const uint4 *)(from + row * pitch + column);
        *(uint4 *)(tile + row * PITCH + column) = eight;
    }
}

/* c = rows of the warp times the tile's rows: 16 x TILE. */
DEVICE void multiply_rows(float c[TILE / 8][4], const uint32_t a[STEPS][4], const bf16 *tile) {
    const int row = THREAD % 32 / 4, column = THREAD % 4 * 2;
    UNROLL for (int n = 0; n < TILE / 8; n++) {
        UNROLL for (int j = 0; j < 4; j++) c[n][j] = 0;
        UNROLL for (int s = 0; s < STEPS; s++) {
            const bf16 *at = tile + (n * 8 + row) * PITCH + s * 16 + column;
            multiply(c[n], a[s], *(const uint32_t *)at, *(const uint32_t *)(at + 8));
        }
    }
}

/* sum += p times the tile: p is 16 x TILE, sum 16 x E. */
DEVICE void multiply_tile(float sum[E / 8][4], const float p[TILE / 8][4], const bf16 *tile) {
    UNROLL for (int k = 0; k < TILE / 16; k++) {
        const uint32_t a[4] = {pair(p[2 * k][0], p[2 * k][1]), pair(p[2 * k][2], p[2 * k][3]),
                               pair(p[2 * k + 1][0], p[2 * k + 1][1]), pair(p[2 * k + 1][2], p[2 * k + 1][3])};
        UNROLL for (int n = 0; n < E / 16; n++) {
            uint32_t b[4];
            load_transposed(b, tile, k * 16, n * 16);
            multiply(sum[2 * n], a, b[0], b[1]);
            multiply(sum[2 * n + 1], a, b[2], b[3]);
        }
    }
}

/* The warp's 16 rows of results, rounded; times `factor` of their row. */
DEVICE void store_rows(bf16 *to, int64_t pitch, int count, const float sum[E / 8][4], const float factor[2]) {
    const int row = THREAD % 32 / 4, column = THREAD % 4 * 2;
    UNROLL for (int n = 0; n < E / 8; n++)
        UNROLL for (int half = 0; half < 2; half++) {
            if (row + half * 8 >= count) continue;
            *(uint32_t *)(to + (row + half * 8) * pitch + n * 8 + column) =
                pair(sum[n][2 * half] * factor[half], sum[n][2 * half + 1] * factor[half]);
        }
}

/* Which of four neighbouring keys a query keeps, as bits. */
DEVICE unsigned kept_bits(const struct call *a, int64_t place) {
    float numbers[4];
    unsigned bits = 0;
    random_uniform4(a->key, (uint64_t)(place / 4), numbers);
    UNROLL for (int j = 0; j < 4; j++) bits |= (unsigned)(numbers[j] >= RATE) << j;
    return bits;
}

/* The work of a block: a tile of rows of a head of a sample; the last tiles, which have most to do in causal attention, first. */
struct work {
    int64_t n;
    int head, first; /* of the rows */
};
DEVICE struct work work_of(int64_t number, int rows) {
    const int tiles = (rows + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK;
    struct work w;
    w.first = (tiles - 1 - (int)(number / ((int64_t)HEADS * SAMPLES))) * ROWS_OF_BLOCK;
    w.head = (int)(number % HEADS);
    w.n = number / HEADS % SAMPLES;
    return w;
}

#define INPUT_OF(a, part) ((const bf16 *)(a).input[part].value)
#define AT_Q(w, position) (((w).n * QUERIES + (position)) * (int64_t)PITCH_Q + OFFSET_Q + (w).head * E)
#define AT_K(w, position) (((w).n * KEYS + (position)) * (int64_t)PITCH_K + OFFSET_K + (w).head * E)
#define AT_V(w, position) (((w).n * KEYS + (position)) * (int64_t)PITCH_V + OFFSET_V + (w).head * E)
#define AT_Y(w, position) (((w).n * QUERIES + (position)) * (int64_t)(HEADS * E) + (w).head * E)
/* The place of a query's first score, along which random numbers are counted; and of its sums. */
#define PLACE(w, query) ((((w).n * HEADS + (w).head) * QUERIES + (query)) * (int64_t)KEYS)
#define SUMS(w, query) (((w).n * HEADS + (w).head) * (int64_t)QUERIES + (query))

DEVICE int seen(int query, int key) { return key < KEYS && query < QUERIES && (!CAUSAL || key <= query); }

/* Of keys first to first + TILE - 1: which may be seen at all. */
DEVICE void load_mask(int *mask, const struct call *a, int64_t n, int first) {
#if MASKED
    const int32_t *tokens = (const int32_t *)a->input[MASK_INPUT].value + n * KEYS;
    if (THREAD < TILE) mask[THREAD] = first + THREAD < KEYS && tokens[first + THREAD] != 0;
#else
    (void)mask, (void)a, (void)n, (void)first;
#endif
}
#if MASKED
#define SEEN(query, key, mask, at) (seen(query, key) && (mask)[at])
#else
#define SEEN(query, key, mask, at) seen(query, key)
#endif

/* Multiplies the scores of 16 queries from `query` on and TILE keys from `key` on that dropout keeps by 1 / (1 - rate), the
 * others by 0. Lanes with an even and an odd column share the blocks of random numbers of their two rows. */
DEVICE void drop_keys(float p[TILE / 8][4], const struct call *a, const struct work *w, int query, int key) {
    const int row = THREAD % 32 / 4, column = THREAD % 4, odd = column % 2;
    const float factor = 1 / (1 - RATE);
    UNROLL for (int n = 0; n < TILE / 8; n++) {
        const int own = query + row + odd * 8;
        const unsigned mine = kept_bits(a, PLACE(*w, own) + key + n * 8 + column / 2 * 4);
        const unsigned other = __shfl_xor_sync(0xffffffffu, mine, 1), upper = odd ? other : mine, lower = odd ? mine : other;
        UNROLL for (int j = 0; j < 2; j++) {
            p[n][j] = upper >> (2 * odd + j) & 1 ? p[n][j] * factor : 0;
            p[n][2 + j] = lower >> (2 * odd + j) & 1 ? p[n][2 + j] * factor : 0;
        }
    }
}

KERNEL(flash_forward) {
    __shared__ __align__(16) bf16 keys[TILE * PITCH];
    __shared__ __align__(16) bf16 values[TILE * PITCH];
    __shared__ int mask[TILE];
    const int warp = THREAD / 32, row = THREAD % 32 / 4, column = THREAD % 4 * 2;
    for (int64_t number = BLOCK; number < a.count; number += BLOCKS) {
        const struct work w = work_of(number, QUERIES);
        const int query = w.first + warp * ROWS_OF_WARP;
        const int end = CAUSAL && w.first + ROWS_OF_BLOCK < KEYS ? w.first + ROWS_OF_BLOCK : KEYS;
        uint32_t q[STEPS][4];
        float sum[E / 8][4], most[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0};
        load_rows(q, INPUT_OF(a, 0) + AT_Q(w, query), PITCH_Q, QUERIES - query);
        UNROLL for (int n = 0; n < E / 8; n++) UNROLL for (int j = 0; j < 4; j++) sum[n][j] = 0;
        for (int key = 0; key < end; key += TILE) {
            float p[TILE / 8][4], largest[2] = {most[0], most[1]};
            BARRIER();
            load_tile(keys, INPUT_OF(a, INPUT_K) + AT_K(w, key), PITCH_K, KEYS - key);
            load_tile(values, INPUT_OF(a, INPUT_V) + AT_V(w, key), PITCH_V, KEYS - key);
            load_mask(mask, &a, w.n, key);
            BARRIER();
            multiply_rows(p, q, keys);
            UNROLL for (int n = 0; n < TILE / 8; n++)
                UNROLL for (int j = 0; j < 4; j++) {
                    const int at = n * 8 + column + j % 2;
                    p[n][j] = SEEN(query + row + j / 2 * 8, key + at, mask, at) ? p[n][j] * (SCALE * LOG2E) : -INFINITE;
                    largest[j / 2] = fmaxf(largest[j / 2], p[n][j]);
                }
            UNROLL for (int half = 0; half < 2; half++) {
                largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], 1));
                largest[half] = fmaxf(largest[half], __shfl_xor_sync(0xffffffffu, largest[half], 2));
                const float shift = largest[half] == -INFINITE ? 0 : largest[half], shrink = exp2f(most[half] - shift);
                most[half] = largest[half];
                total[half] *= shrink;
                UNROLL for (int n = 0; n < E / 8; n++) sum[n][2 * half] *= shrink, sum[n][2 * half + 1] *= shrink;
                UNROLL for (int n = 0; n < TILE / 8; n++)
                    UNROLL for (int j = 2 * half; j < 2 * half + 2; j++) {
                        p[n][j] = exp2f(p[n][j] - shift);
                        total[half] += p[n][j];
                    }
            }
            if (RATE > 0 && a.training) drop_keys(p, &a, &w, query, key);
            multiply_tile(sum, p, values);
        }
        float factor[2];
        UNROLL for (int half = 0; half < 2; half++) {
            total[half] += __shfl_xor_sync(0xffffffffu, total[half], 1);
            total[half] += __shfl_xor_sync(0xffffffffu, total[half], 2);
            factor[half] = total[half] > 0 ? 1 / total[half] : 0;
            const int own = query + row + half * 8;
            if (column == 0 && own < QUERIES)
                ((float *)a.more[0])[SUMS(w, own)] = total[half] > 0 ? most[half] + log2f(total[half]) : INFINITE;
        }
        store_rows((bf16 *)a.output + AT_Y(w, query), HEADS * E, QUERIES - query, sum, factor);
        store_rows((bf16 *)a.more[1] + AT_Y(w, query), HEADS * E, QUERIES - query, sum, factor);
    }
}

/* The sum of dy y of the lane's two rows. */
DEVICE void sum_products(float sums[2], const uint32_t dy[STEPS][4], const uint32_t y[STEPS][4]) {
    sums[0] = sums[1] = 0;
    UNROLL for (int s = 0; s < STEPS; s++)
        UNROLL for (int part = 0; part < 4; part++)
            sums[part % 2] += low_of(dy[s][part]) * low_of(y[s][part]) + high_of(dy[s][part]) * high_of(y[s][part]);
    UNROLL for (int half = 0; half < 2; half++) {
        sums[half] += __shfl_xor_sync(0xffffffffu, sums[half], 1);
        sums[half] += __shfl_xor_sync(0xffffffffu, sums[half], 2);
    }
}

KERNEL(flash_backward_queries) {
    __shared__ __align__(16) bf16 keys[TILE * PITCH];
    __shared__ __align__(16) bf16 values[TILE * PITCH];
    __shared__ int mask[TILE];
    const int warp = THREAD / 32, row = THREAD % 32 / 4, column = THREAD % 4 * 2;
    for (int64_t number = BLOCK; number < a.count; number += BLOCKS) {
        const struct work w = work_of(number, QUERIES);
        const int query = w.first + warp * ROWS_OF_WARP;
        const int end = CAUSAL && w.first + ROWS_OF_BLOCK < KEYS ? w.first + ROWS_OF_BLOCK : KEYS;
        uint32_t q[STEPS][4], dy[STEPS][4];
        float dq[E / 8][4], sums[2], logarithm[2];
        load_rows(q, (const bf16 *)a.more[1] + AT_Y(w, query), HEADS * E, QUERIES - query);
        load_rows(dy, (const bf16 *)a.output_gradient + AT_Y(w, query), HEADS * E, QUERIES - query);
        sum_products(sums, dy, q);
        load_rows(q, INPUT_OF(a, 0) + AT_Q(w, query), PITCH_Q, QUERIES - query);
        UNROLL for (int half = 0; half < 2; half++) {
            const int own = query + row + half * 8;
            logarithm[half] = own < QUERIES ? ((const float *)a.more[0])[SUMS(w, own)] : INFINITE;
            if (column == 0 && own < QUERIES) ((float *)a.more[2])[SUMS(w, own)] = sums[half];
        }
        UNROLL for (int n = 0; n < E / 8; n++) UNROLL for (int j = 0; j < 4; j++) dq[n][j] = 0;
        for (int key = 0; key < end; key += TILE) {
            float p[TILE / 8][4], dp[TILE / 8][4];
            BARRIER();
            load_tile(keys, INPUT_OF(a, INPUT_K) + AT_K(w, key), PITCH_K, KEYS - key);
            load_tile(values, INPUT_OF(a, INPUT_V) + AT_V(w, key), PITCH_V, KEYS - key);
            load_mask(mask, &a, w.n, key);
            BARRIER();
            multiply_rows(p, q, keys);
            multiply_rows(dp, dy, values);
            if (RATE > 0 && a.training) drop_keys(dp, &a, &w, query, key);
            UNROLL for (int n = 0; n < TILE / 8; n++)
                UNROLL for (int j = 0; j < 4; j++) {
                    const int at = n * 8 + column + j % 2;
                    const float weight = SEEN(query + row + j / 2 * 8, key + at, mask, at)
                                             ? exp2f(p[n][j] * (SCALE * LOG2E) - logarithm[j / 2])
                                             : 0;
                    p[n][j] = weight * (dp[n][j] - sums[j / 2]);
                }
            multiply_tile(dq, p, keys);
        }
        const float factor[2] = {SCALE, SCALE};
        if (a.input[0].gradient)
            store_rows((bf16 *)a.input[0].gradient + AT_Q(w, query), PITCH_Q, QUERIES - query, dq, factor);
    }
}

/* As drop_keys, of 16 keys from `key` on and TILE queries from `query` on. Four lanes with neighbouring keys share the blocks of
 * their two queries and two rows: each makes one, by its number among them. */
DEVICE void drop_queries(float p[TILE / 8][4], float q[TILE / 8][4], const struct call *a, const struct work *w, int query,
                         int key) {
    const int lane = THREAD % 32, row = lane / 4, column = lane % 4 * 2, number = row % 4, base = row / 4 * 4 * 4 + lane % 4;
    const float factor = 1 / (1 - RATE);
    UNROLL for (int n = 0; n < TILE / 8; n++) {
        /* number: bit 0 the query of the two, bit 1 the row of the two. */
        const int own_query = query + n * 8 + column + number % 2, own_key = key + row / 4 * 4 + number / 2 * 8;
        const unsigned mine = kept_bits(a, PLACE(*w, own_query) + own_key);
        UNROLL for (int j = 0; j < 4; j++) {
            const unsigned bits = __shfl_sync(0xffffffffu, mine, base + j * 4);
            const int keeps = bits >> number & 1;
            p[n][j] = keeps ? p[n][j] * factor : 0;
            q[n][j] = keeps ? q[n][j] * factor : 0;
        }
    }
}

KERNEL(flash_backward_keys) {
    __shared__ __align__(16) bf16 queries[TILE * PITCH];
    __shared__ __align__(16) bf16 gradients[TILE * PITCH];
    __shared__ float logarithms[TILE];
    __shared__ float sums[TILE];
    const int warp = THREAD / 32, row = THREAD % 32 / 4, column = THREAD % 4 * 2;
    for (int64_t number = BLOCK; number < a.count; number += BLOCKS) {
        const struct work w = work_of(number, KEYS);
        const int key = w.first + warp * ROWS_OF_WARP;
        uint32_t k[STEPS][4], v[STEPS][4];
        float dk[E / 8][4], dv[E / 8][4];
        int unmasked[2] = {1, 1};
        load_rows(k, INPUT_OF(a, INPUT_K) + AT_K(w, key), PITCH_K, KEYS - key);
        load_rows(v, INPUT_OF(a, INPUT_V) + AT_V(w, key), PITCH_V, KEYS - key);
#if MASKED
        UNROLL for (int half = 0; half < 2; half++) {
            const int own = key + row + half * 8;
            unmasked[half] = own < KEYS && ((const int32_t *)a.input[MASK_INPUT].value)[w.n * KEYS + own] != 0;
        }
#endif
        UNROLL for (int n = 0; n < E / 8; n++) UNROLL for (int j = 0; j < 4; j++) dk[n][j] = dv[n][j] = 0;
        for (int query = CAUSAL ? w.first / TILE * TILE : 0; query < QUERIES; query += TILE) {
            float p[TILE / 8][4], dp[TILE / 8][4], dropped[TILE / 8][4];
            BARRIER();
            load_tile(queries, INPUT_OF(a, 0) + AT_Q(w, query), PITCH_Q, QUERIES - query);
            load_tile(gradients, (const bf16 *)a.output_gradient + AT_Y(w, query), HEADS * E, QUERIES - query);
            if (THREAD < TILE) {
                const int there = query + THREAD < QUERIES;
                logarithms[THREAD] = there ? ((const float *)a.more[0])[SUMS(w, query + THREAD)] : INFINITE;
                sums[THREAD] = there ? ((const float *)a.more[2])[SUMS(w, query + THREAD)] : 0;
            }
            BARRIER();
            multiply_rows(p, k, queries);
            multiply_rows(dp, v, gradients);
            UNROLL for (int n = 0; n < TILE / 8; n++)
                UNROLL for (int j = 0; j < 4; j++) {
                    const int at = n * 8 + column + j % 2, own = key + row + j / 2 * 8;
                    p[n][j] = seen(query + at, own) && unmasked[j / 2]
                                  ? exp2f(p[n][j] * (SCALE * LOG2E) - logarithms[at])
                                  : 0;
                    dropped[n][j] = p[n][j];
                }
            if (RATE > 0 && a.training) drop_queries(dropped, dp, &a, &w, query, key);
            multiply_tile(dv, dropped, gradients);
            UNROLL for (int n = 0; n < TILE / 8; n++)
                UNROLL for (int j = 0; j < 4; j++) p[n][j] *= dp[n][j] - sums[n * 8 + column + j % 2];
            multiply_tile(dk, p, queries);
        }
        const float factor[2] = {SCALE, SCALE}, one[2] = {1, 1};
        if (a.input[INPUT_K].gradient)
            store_rows((bf16 *)a.input[INPUT_K].gradient + AT_K(w, key), PITCH_K, KEYS - key, dk, factor);
        if (a.input[INPUT_V].gradient)
            store_rows((bf16 *)a.input[INPUT_V].gradient + AT_V(w, key), PITCH_V, KEYS - key, dv, one);
    }
}
