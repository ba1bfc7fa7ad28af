/* The kernels of `reference` on random shapes: their gradients against finite differences. And those of every device in a
 * network of precision bf16 against finite differences in f32 of the rounded numbers. */
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

/* Differences, by the step, are good to half a percent of the largest gradient. */
enum { CHECKED = 6 };
static const double of_differences = 5e-3;
/* Rounding to bf16 is off by at most 2^-9 of a number. A gradient is rounded itself, and is made of up to three numbers of the
 * forward that were rounded (in an attention or a recurrent cell: of weights, values and scores, gates and states), each of
 * which counts twice where it is squared. */
static const double of_rounding = (1 + 2 * 3) * 0x1p-9;

static void check_derivatives(struct device *device, const struct problem *p, const char *what, float *values,
                              const float *gradient, int64_t count, double tolerance, struct draw *d) {
    double largest = 0.1;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs((double)gradient[i]));
    for (int k = 0; k < CHECKED; k++) {
        int64_t i = draw(d, 0, (int)count - 1);
        float kept = values[i], up = kept + 0.01f, down = kept - 0.01f;
        values[i] = up;
        double above = objective(device, p);
        values[i] = down;
        double below = objective(device, p);
        values[i] = kept;
        double slope = (above - below) / ((double)up - (double)down);
        if (fabs(slope - (double)gradient[i]) <= tolerance * largest) continue;
        fail_msg("%s: gradient of %s[%lld] is %g, the slope %g", p->node->name, what, (long long)i, (double)gradient[i], slope);
    }
}

/* Of the inputs and parameters of `p`, whose objective `reference` computes, against gradients that any device has computed. */
static void check_gradients(struct device *reference, const struct problem *p, const struct answer *answer, const char *name,
                            uint64_t number, double tolerance) {
    struct draw d = {test_key(number + 50), 0};
    for (int i = 0; i < p->node->input_count; i++)
        if (answer->input_gradient[i] != NULL)
            check_derivatives(reference, p, name, p->input[i], answer->input_gradient[i], p->inputs[i], tolerance, &d);
    for (int i = 0; i < p->node->parameter_count; i++)
        if (answer->gradient[i] != NULL)
            check_derivatives(reference, p, name, p->parameter[i], answer->gradient[i], p->parameters[i], tolerance, &d);
}

/* Has the case slopes? Padding has no gradient on purpose; roundings go in steps: test_cast. */
static bool has_slopes(const struct problem *p) {
    return !p->node->attributes.padded && p->node->shape.type != TYPE_BF16 && p->type[0] != TYPE_BF16;
}

static void test_finite_differences(void **state) {
    (void)state;
    struct device *reference = chain_device("reference");
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (uint64_t r = 0; r < REPEATS; r++) {
            struct problem p = make_problem(&cases[c], c * 100 + r);
            p.relu_follows = false; /* the node alone */
            if (has_slopes(&p)) {
                struct answer answer = solve(reference, &p);
                check_gradients(reference, &p, &answer, cases[c].name, c * 100 + r, of_differences);
                free_answer(&answer);
            }
            free_problem(&p);
        }
    }
    device_close(reference);
}

/* Does it jump at whole numbers, to which rounding may move an input? */
static bool has_steps(const struct node *node) {
    const int kind = node->attributes.kind;
    return node->id == OPERATOR_UNARY && (kind == UNARY_FLOOR || kind == UNARY_CEIL || kind == UNARY_ROUND);
}

static void test_bf16(void **state) {
    (void)state;
    struct device *reference = chain_device("reference");
    for (int t = 0; device_table[t] != NULL; t++) {
        if (!chain_computes(device_table[t])) continue;
        struct device *device = chain_device(device_table[t]->name);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct problem wide = make_problem(&cases[c], c * 100 + 7), p = make_problem(&cases[c], c * 100 + 7);
            wide.relu_follows = p.relu_follows = false;
            round_problem(&wide);
            round_problem(&p);
            if (has_slopes(&wide) && !has_steps(wide.node)) {
                char name[96];
                narrow_problem(&p, NARROW_ALL, 0);
                struct answer answer = solve(device, &p);
                snprintf(name, sizeof name, "%s in bf16 on %s", cases[c].name, device->type->name);
                check_gradients(reference, &wide, &answer, name, c * 100 + 7, of_differences + of_rounding);
                free_answer(&answer);
            }
            free_problem(&wide);
            free_problem(&p);
        }
        device_close(device);
    }
    device_close(reference);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_finite_differences), cmocka_unit_test(test_bf16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
