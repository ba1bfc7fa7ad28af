/* The cpu device's exp, tanh and logistic function against the library's, over all that matters, and what is no number. */
#include <math.h>
#include <stdio.h>

#include "compute/cpu/activation.h"
#include "support.h"

static double logistic(double x) { return 1 / (1 + exp(-x)); }

static void check(const char *name, float (*got)(float), double (*wanted)(double), double low, double high, double units) {
    double worst = 0, where = 0;
    for (int i = 0; i <= 2000000; i++) {
        float x = (float)(low + (high - low) * i / 2000000);
        double y = wanted((double)x), error = fabs((double)got(x) - y) / (fabs(y) * 0x1p-24);
        if (y != 0 && error > worst) worst = error, where = (double)x;
    }
    if (worst > units) fail_msg("%s(%g) is wrong by %.2f half units in the last place", name, where, worst);
}

static void test_accuracy(void **state) {
    (void)state;
    check("exp", activation_exp, exp, -86.5, 86.5, 4);
    check("exp", activation_exp, exp, -1, 1, 4);
    check("tanh", activation_tanh, tanh, -20, 20, 6);
    check("tanh", activation_tanh, tanh, -0.7, 0.7, 6);
    check("tanh", activation_tanh, tanh, 1e-30, 1e-3, 6);
    check("logistic", activation_sigmoid, logistic, -80, 80, 6);
}

static void test_ends(void **state) {
    (void)state;
    assert_true(activation_exp(0) == 1 && activation_tanh(0) == 0 && activation_sigmoid(0) == 0.5f);
    assert_true(activation_tanh(1e9f) == 1 && activation_tanh(-INFINITY) == -1);
    assert_true(activation_sigmoid(1e9f) == 1 && activation_sigmoid(-1e9f) < 1e-37f);
    assert_true(activation_exp(-INFINITY) < 1e-37f && isfinite(activation_exp(1e9f)));
    assert_true(isnan(activation_exp(NAN)) && isnan(activation_tanh(NAN)) && isnan(activation_sigmoid(NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accuracy), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
