/*
 * Work on blocks: the operations of struct device_memory (compute/device.h). Y and X0 are types; a.output is y, a.input[0] x.
 */

KERNEL(add) {
    EACH4(i, a.count) {
        float x[4], y[4];
        GET4(X0, a.input[0].value, i, a.count, x);
        GET4(X0, a.output, i, a.count, y);
        for (int j = 0; j < 4; j++) y[j] += x[j];
        PUT4(X0, a.output, i, a.count, y);
    }
}

KERNEL(convert) {
    EACH4(i, a.count) {
        float x[4];
        GET4(X0, a.input[0].value, i, a.count, x);
        PUT4(Y, a.output, i, a.count, x);
    }
}

/* y = y factor / divisor */
KERNEL(scale) {
    EACH4(i, a.count) {
        float y[4];
        GET4(f32, a.output, i, a.count, y);
        for (int j = 0; j < 4; j++) y[j] = a.factor[1] == 1 ? y[j] * a.factor[0] : y[j] * a.factor[0] / a.factor[1];
        PUT4(f32, a.output, i, a.count, y);
    }
}

/* One number a block: the sum of the squares of its share of y, in double; at more[0] + number[0]. */
KERNEL(squares) {
    SHARED double parts[TEAM];
    double sum = 0;
    EACH(i, a.count) sum += (double)GET(f32, a.output, i) * (double)GET(f32, a.output, i);
    parts[THREAD] = sum;
    BARRIER();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (THREAD < step) parts[THREAD] += parts[THREAD + step];
        BARRIER();
    }
    if (THREAD == 0) ((double *)a.more[0])[a.number[0] + BLOCK] = parts[0];
}

/* Scales y so that the norm whose squares are summed up at more[0], so many as number[0], is at most factor[0]. */
KERNEL(clip) {
    double squares = 0;
    for (int64_t i = 0; i < a.number[0]; i++) squares += ((const double *)a.more[0])[i];
    const double norm = sqrt(squares);
    if (!(norm > (double)a.factor[0])) return;
    const float factor = (float)((double)a.factor[0] / norm);
    EACH(i, a.count)((float *)a.output)[i] *= factor;
}
