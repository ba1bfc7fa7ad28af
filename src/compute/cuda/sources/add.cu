/* Sum of the inputs, from the first to the last. Every input's gradient is the output's. The host (add.c) defines
 * EACH_INPUT(X): X(number, type) of each input. */
#define ADD(j, type)                                                                                                           \
    GET4(type, a.input[j].value, i, a.count, x);                                                                               \
    UNROLL for (int e = 0; e < 4; e++) sum[e] += x[e];
#define PASS_ON(j, type)                                                                                                       \
    if (a.input[j].gradient) PUT4(type, a.input[j].gradient, i, a.count, dy);

KERNEL(forward) {
    EACH4(i, a.count) {
        float sum[4] = {0, 0, 0, 0}, x[4];
        EACH_INPUT(ADD)
        UNROLL for (int e = 0; e < 4 && RELU; e++) sum[e] = sum[e] < 0 ? 0 : sum[e];
        PUT4(Y, a.output, i, a.count, sum);
    }
}

KERNEL(backward) {
    EACH4(i, a.count) {
        float dy[4];
        GET4(Y, a.output_gradient, i, a.count, dy);
        EACH_INPUT(PASS_ON)
    }
}
