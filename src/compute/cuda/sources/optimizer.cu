/*
 * Updates of weights and their prediction in one pass: the rules of compute/optimizers/, with the coefficients of
 * optimize.c. RULE is 0 for sgd, 1 for sgdm, 2 for adam and adamw; UPDATES: the weights are updated, MOVES: the moments are,
 * PREDICTS: predicted weights are written, COPIES: a copy of what is at `output`; Y is the type of both.
 *
 * input[0].value are the weights, output the updated ones, output_gradient the gradient, more[0] and more[1] the moments,
 * more[2] the predicted weights, more[3] the copy.
 */
#define KEEP a.factor[0]
#define TAKE a.factor[1]
#define KEEP2 a.factor[2]
#define TAKE2 a.factor[3]
#define DECAY a.factor[4]
#define ROOT a.factor[5]
#define EPSILON a.factor[6]
#define SHRINK a.factor[7]
#define STEP a.factor[8]
#define AHEAD_SHRINK a.factor[9]
#define AHEAD_STEP a.factor[10]

KERNEL(optimizer) {
    EACH4(i, a.count) {
        float w[4], g[4], m[4], v[4], d[4];
        for (int j = 0; j < 4; j++) w[j] = g[j] = m[j] = v[j] = 0;
        /* Without decay an observer has no weights. */
        if (a.input[0].value) GET4(f32, a.input[0].value, i, a.count, w);
        if (MOVES || RULE == 0) GET4(f32, a.output_gradient, i, a.count, g);
        if (RULE >= 1) GET4(f32, a.more[0], i, a.count, m);
        if (RULE == 2) GET4(f32, a.more[1], i, a.count, v);
        UNROLL for (int j = 0; j < 4; j++) {
            const float change = g[j] + DECAY * w[j];
            if (MOVES && RULE >= 1) m[j] = KEEP * m[j] + TAKE * change;
            if (MOVES && RULE == 2) v[j] = KEEP2 * v[j] + TAKE2 * change * change;
            d[j] = RULE == 0 ? change : RULE == 1 ? m[j] : m[j] / (sqrtf(v[j]) * ROOT + EPSILON);
            if (UPDATES) w[j] = (RULE == 2 ? w[j] * SHRINK : w[j]) - STEP * d[j];
        }
        if (MOVES && RULE >= 1) PUT4(f32, a.more[0], i, a.count, m);
        if (MOVES && RULE == 2) PUT4(f32, a.more[1], i, a.count, v);
        if (UPDATES) PUT4(f32, a.output, i, a.count, w);
        if (COPIES) {
            float c[4];
            UNROLL for (int j = 0; j < 4; j++) c[j] = w[j];
            if (!UPDATES) GET4(f32, a.output, i, a.count, c);
            PUT4(Y, a.more[3], i, a.count, c);
        }
        if (PREDICTS) {
            UNROLL for (int j = 0; j < 4; j++) w[j] = (RULE == 2 ? w[j] * AHEAD_SHRINK : w[j]) - AHEAD_STEP * d[j];
            PUT4(Y, a.more[2], i, a.count, w);
        }
    }
}
