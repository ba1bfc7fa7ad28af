/*
 * Losses against numbers, element by element; as reference/losses.c. LOSS is 0 for mse, 1 for l1, 2 for bce. Of the a.number[0]
 * elements the first a.number[1] count; a.count pieces of them have a sum each in the workspace, in double.
 */
DEVICE float output_of(float x) { return LOSS == 2 ? 1 / (1 + expf(-x)) : x; }

DEVICE float loss_of(float x, float t) {
    if (LOSS == 0) return (x - t) * (x - t);
    if (LOSS == 1) return fabsf(x - t);
    return LARGER_OF(x, 0) - x * t + log1pf(expf(-fabsf(x))); /* - t log y - (1 - t) log (1 - y), for x of any size */
}

DEVICE float slope_of(float y, float t) {
    if (LOSS == 0) return 2 * (y - t);
    if (LOSS == 1) return y > t ? 1.0f : y < t ? -1.0f : 0.0f;
    return y - t;
}

/* Of a block of a power of two of threads; all get it. */
DEVICE double block_sum(double value) {
    SHARED double parts[256];
    parts[THREAD] = value;
    BARRIER();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (THREAD < step) parts[THREAD] += parts[THREAD + step];
        BARRIER();
    }
    value = parts[0];
    BARRIER();
    return value;
}

KERNEL(forward) {
    const int64_t elements = a.number[0], counted = a.number[1], fours = (elements + 3) / 4;
    const int64_t each = (fours + a.count - 1) / a.count * 4;
    for (int64_t piece = BLOCK; piece < a.count; piece += BLOCKS) {
        const int64_t end = (piece + 1) * each < elements ? (piece + 1) * each : elements;
        double sum = 0;
        for (int64_t i = piece * each + 4 * THREAD; i < end; i += 4 * THREADS) {
            float x[4], t[4], y[4];
            GET4(X0, a.input[0].value, i, elements, x);
            GET4(f32, a.target, i, counted, t);
            for (int j = 0; j < 4; j++) {
                y[j] = output_of(x[j]);
                if (i + j < counted) sum += (double)loss_of(x[j], t[j]);
            }
            PUT4(Y, a.output, i, elements, y);
        }
        sum = block_sum(sum);
        if (THREAD == 0) ((double *)a.workspace)[piece] = sum;
    }
}

KERNEL(finish) {
    double sum = 0;
    for (int64_t piece = THREAD; piece < a.number[0]; piece += THREADS) sum += ((const double *)a.workspace)[piece];
    sum = block_sum(sum);
    if (THREAD == 0) *a.loss += sum;
}

KERNEL(backward_input) {
    const int64_t counted = a.number[1];
    EACH4(i, a.count) {
        float y[4], t[4], dx[4];
        GET4(Y, a.output, i, a.count, y);
        GET4(f32, a.target, i, counted, t);
        for (int j = 0; j < 4; j++) dx[j] = i + j < counted ? slope_of(y[j], t[j]) * a.gradient_scale : 0;
        PUT4(X0, a.input[0].gradient, i, a.count, dx);
    }
}
