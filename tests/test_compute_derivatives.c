/* The kernels of `reference` on random shapes: their gradients against finite differences. */
#include <math.h>

#include "chain.h"
#include "kernel_bench.h"

/* What is differentiated: the loss, or the output's product with the output gradient. */
static double objective(struct device *device, const struct problem *p) {
    struct bench bench;
    struct answer answer = {0};
    set_up(&bench, device, p);
    run_forward(&bench, p, &answer);
    double sum = 0.25 * answer.loss;
    bool loss = (p->node->flags & OPERATOR_LOSS) != 0;
    for (int64_t i = 0; i < p->output && !loss; i++) sum += (double)answer.output[i] * (double)p->output_gradient[i];
    free_answer(&answer);
    tear_down(&bench);
    return sum;
}

static void check_derivatives(struct device *device, const struct problem *p, const char *what, float *values,
                              const float *gradient, int64_t count, struct draw *d) {
    double largest = 0.1;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)gradient[i]));
    for (int k = 0; k < 6; k++) {
        int64_t i = draw(d, 0, (int)count - 1);
        float kept = values[i], up = kept + 0.01f, down = kept - 0.01f;
        values[i] = up;
        double above = objective(device, p);
        values[i] = down;
        double below = objective(device, p);
        values[i] = kept;
        double slope = (above - below) / ((double)up - (double)down);
        if (fabs(slope - (double)gradient[i]) <= 5e-3 * largest) continue;
        fail_msg("%s: gradient of %s[%lld] is %g, the slope %g", p->node->name, what, (long long)i, (double)gradient[i], slope);
    }
}

static void test_finite_differences(void **state) {
    (void)state;
    struct device *reference = chain_device("reference");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (uint64_t r = 0; r < REPEATS; r++) {
            struct problem p = make_problem(&cases[c], c * 100 + r);
            p.relu_follows = false;                                                  /* the node alone */
            bool rounds = p.node->shape.type == TYPE_BF16 || p.type[0] == TYPE_BF16; /* in steps: test_cast */
            if (p.node->attributes.padded || rounds) {                               /* padding has no gradient on purpose */
                free_problem(&p);
                continue;
            }
            struct answer answer = solve(reference, &p);
            struct draw d = {test_key(c * 100 + r + 50), 0};
            for (int i = 0; i < p.node->input_count; i++) {
                if (answer.input_gradient[i] == NULL) continue;
                check_derivatives(reference, &p, cases[c].name, p.input[i], answer.input_gradient[i], p.inputs[i], &d);
            }
            for (int i = 0; i < p.node->parameter_count; i++) {
                if (answer.gradient[i] == NULL) continue;
                check_derivatives(reference, &p, cases[c].name, p.parameter[i], answer.gradient[i], p.parameters[i], &d);
            }
            free_answer(&answer);
            free_problem(&p);
        }
    }
    device_close(reference);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finite_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
