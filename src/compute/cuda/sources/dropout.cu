/* Dropout: in training element i is kept where random_uniform(key, i) >= rate, and then multiplied by 1 / (1 - rate). The
 * backward does the same to the gradient with the same numbers. */
#define DROP(FROM, from, TO, to)                                                                                               \
    if (a.training || (to) != (const void *)(from)) {                                                                          \
        EACH4(i, a.count) {                                                                                                    \
            float x[4], numbers[4];                                                                                            \
            GET4(FROM, from, i, a.count, x);                                                                                   \
            if (a.training) {                                                                                                  \
                random_uniform4(a.key, (uint64_t)i / 4, numbers);                                                              \
                UNROLL for (int j = 0; j < 4; j++) x[j] = numbers[j] >= A_rate ? x[j] * (1 / (1 - A_rate)) : 0;                \
            }                                                                                                                  \
            PUT4(TO, to, i, a.count, x);                                                                                       \
        }                                                                                                                      \
    }

KERNEL(forward){DROP(X0, a.input[0].value, Y, a.output)}

KERNEL(backward) {
    DROP(Y, a.output_gradient, X0, a.input[0].gradient)
}
