/*
 * Local response normalisation; as reference/local_response_norm.c. With s[c] = shift + alpha / window sum of x^2 over the
 * window around c, which has floor(window / 2) channels before it,
 *
 *     y[c] = x[c] s[c]^-beta
 *     dx[j] = dy[j] s[j]^-beta - 2 alpha beta / window x[j] sum over the c whose window has j of t[c]
 *     t[c] = dy[c] x[c] s[c]^(-beta - 1)
 *
 * The backward first writes t to the workspace: so its work is proportional to the window. A thread has an element.
 */
enum { BEFORE = A_window / 2, AFTER = (A_window - 1) / 2 };

DEVICE float scale_of(const void *x, int64_t i) {
    const int channel = (int)(i % FEATURES);
    const int64_t first = channel < BEFORE ? i - channel : i - BEFORE;
    const int64_t end = channel + AFTER >= FEATURES ? i - channel + FEATURES : i + AFTER + 1;
    float sum = 0;
    for (int64_t c = first; c < end; c++) sum += GET(X0, x, c) * GET(X0, x, c);
    return A_shift + A_alpha / (float)A_window * sum;
}

/* s^-beta; roots are fast. */
DEVICE float power_of(float s) { return A_beta == 0.75f ? 1 / (sqrtf(s) * sqrtf(sqrtf(s))) : powf(s, -A_beta); }

KERNEL(forward) {
    EACH(i, a.count) PUT(Y, a.output, i, GET(X0, a.input[0].value, i) * power_of(scale_of(a.input[0].value, i)));
}

KERNEL(backward_terms) {
    EACH(i, a.count) {
        const float s = scale_of(a.input[0].value, i);
        const float product = GET(Y, a.output_gradient, i) * GET(X0, a.input[0].value, i);
        ((float *)a.workspace)[i] = product * power_of(s) / s;
    }
}

KERNEL(backward_input) {
    EACH(i, a.count) {
        const int channel = (int)(i % FEATURES);
        const int64_t first = channel < AFTER ? i - channel : i - AFTER;
        const int64_t end = channel + BEFORE >= FEATURES ? i - channel + FEATURES : i + BEFORE + 1;
        float sum = 0;
        for (int64_t c = first; c < end; c++) sum += ((const float *)a.workspace)[c];
        const float own = GET(Y, a.output_gradient, i) * power_of(scale_of(a.input[0].value, i));
        PUT(X0, a.input[0].gradient, i, own - 2 * A_alpha * A_beta / (float)A_window * GET(X0, a.input[0].value, i) * sum);
    }
}
