/* Learning-rate schedules: values against the formulas, and what is refused. */
#include <math.h>
#include <string.h>

#include "exec/learning_rate.h"
#include "support.h"

static struct learning_rate parse(const char *spec, int64_t warmup, int64_t total, int64_t epoch) {
    struct learning_rate rate;
    assert_ok(learning_rate_parse(spec, 0.1, warmup, total, epoch, &rate, &test_error));
    return rate;
}

static void assert_near(double got, double wanted) {
    if (fabs(got - wanted) > 1e-15) print_message("%.17g is not %.17g\n", got, wanted);
    assert_true(fabs(got - wanted) <= 1e-15);
}

static void test_constant(void **state) {
    (void)state;
    struct learning_rate rate = parse(NULL, 0, 10, 0);
    for (int64_t u = 0; u < 10; u++) assert_near(learning_rate_at(&rate, u), 0.1);
    rate = parse("constant", 4, 10, 0);
    const double wanted[] = {0.025, 0.05, 0.075, 0.1, 0.1};
    for (int64_t u = 0; u < 5; u++) assert_near(learning_rate_at(&rate, u), wanted[u]);
}

static void test_step(void **state) {
    (void)state;
    struct learning_rate rate = parse("step:2,3:0.5", 0, 100, 10);
    assert_near(learning_rate_at(&rate, 19), 0.1);
    assert_near(learning_rate_at(&rate, 20), 0.05);
    assert_near(learning_rate_at(&rate, 29), 0.05);
    assert_near(learning_rate_at(&rate, 30), 0.025);
    rate = parse("step:0.5:0.1", 0, 100, 10);
    assert_near(learning_rate_at(&rate, 4), 0.1);
    assert_near(learning_rate_at(&rate, 5), 0.01);
}

static void test_falling(void **state) {
    (void)state;
    struct learning_rate poly = parse("poly:2", 0, 10, 0), cosine = parse("cosine", 2, 12, 0);
    for (int64_t u = 0; u < 10; u++) {
        double left = 1 - (double)u / 10;
        assert_near(learning_rate_at(&poly, u), 0.1 * left * left);
        assert_near(learning_rate_at(&cosine, u + 2), 0.05 * (1 + cos(3.14159265358979323846 * (double)u / 10)));
    }
    assert_near(learning_rate_at(&cosine, 0), 0.05);
    assert_near(learning_rate_at(&poly, 10), 0);
    assert_near(learning_rate_at(&poly, 50), 0);
}

/* Steps with an s; and a rate that stays through each epoch. */
static void test_steps_and_epochs(void **state) {
    (void)state;
    struct learning_rate rate;
    assert_ok(learning_rate_parse("step:7s,2:0.1", 1, 0, 40, 10, &rate, &test_error));
    assert_near(learning_rate_at(&rate, 6), 1);
    assert_near(learning_rate_at(&rate, 7), 0.1);
    assert_near(learning_rate_at(&rate, 19), 0.1);
    assert_near(learning_rate_at(&rate, 20), 0.01);
    assert_ok(learning_rate_parse("step:7s:0.1", 1, 0, 40, 0, &rate, &test_error));
    assert_near(learning_rate_at(&rate, 7), 0.1);
    assert_ok(learning_rate_parse("cosine", 1, 0, 40, 10, &rate, &test_error));
    rate.by_epoch = true;
    for (int64_t u = 0; u < 40; u++)
        assert_near(learning_rate_at(&rate, u), 0.5 * (1 + cos(3.14159265358979323846 * (double)(u / 10) / 4)));
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *spec, *message;
    } cases[] = {
        {"cosin", "did you mean 'cosine'"},
        {"constant:1", "`lr_schedule`: 'constant' takes no parameters, but ':1' follows"},
        {"poly", "`lr_schedule`: '' after 'poly:' is not a power above 0, as in 'poly:1'"},
        {"poly:0", "'0' after 'poly:' is not a power above 0"},
        {"poly:x", "not a power"},
        {"poly:1:2", "not a power"},
        {"step",
         "`lr_schedule`: 'step:' is not ascending epochs (or steps, as 4000s) and a factor above 0, as in 'step:40,60:0.1'"},
        {"step:1", "'step:1' is not ascending"},
        {"step::0.1", "'step::0.1' is not ascending"},
        {"step:2,1:0.1", "'step:2,1:0.1' is not ascending"},
        {"step:1:", "'step:1:' is not ascending"},
        {"step:1:-1", "'step:1:-1' is not ascending"},
        {"step:1,:0.1", "'step:1,:0.1' is not ascending"},
        {"step:1:0.1:2", "'step:1:0.1:2' is not ascending"},
        {"step:nan:0.1", "'step:nan:0.1' is not ascending"},
        {"step:1:inf", "'step:1:inf' is not ascending"},
        {"", "is not known"},
        {":", "is not known"},
        {"step:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17:0.1", "`lr_schedule`: 'step' takes at most 16 epochs"},
        {"step:2,2:0.1", "'step:2,2:0.1' is not ascending"},
        {"step:20s,2:0.1", "'step:20s,2:0.1' is not ascending"},
        {"step:0:0.1", "'step:0:0.1' is not ascending"},
        {"step:0s:0.1", "'step:0s:0.1' is not ascending"},
        {"step:-1:0.1", "'step:-1:0.1' is not ascending"},
        {"step:1000000001s:0.1", "'step:1000000001s:0.1' is not ascending"},
        {"step:1ss:0.1", "'step:1ss:0.1' is not ascending"},
        {"step:s:0.1", "'step:s:0.1' is not ascending"},
        {"step:1:0", "'step:1:0' is not ascending"},
        {"step:1 2:0.1", "'step:1 2:0.1' is not ascending"},
        {"poly:-1", "'-1' after 'poly:' is not a power above 0"},
        {"poly:inf", "not a power"},
        {"poly:1,", "not a power"},
        {"cosine:", "`lr_schedule`: 'cosine' takes no parameters, but ':' follows"},
    };
    struct learning_rate rate;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_status(learning_rate_parse(cases[i].spec, 0.1, 0, 10, 10, &rate, &test_error), PS_USAGE, cases[i].message);
    assert_status(learning_rate_parse("step:1:0.1", 0.1, 0, 10, 0, &rate, &test_error), PS_USAGE,
                  "`lr_schedule`: 'step' counts epochs, and this run has none; steps are written as 4000s");
}

/* The least and the most that can be said, and where nothing is left to fall. */
static void test_limits(void **state) {
    (void)state;
    struct learning_rate rate = parse("step:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16:0.5", 0, 1000, 10);
    for (int64_t u = 0; u < 200; u++) assert_near(learning_rate_at(&rate, u), 0.1 * pow(0.5, fmin((double)(u / 10), 16)));
    rate = parse("step:1s,2s,1e9s:0.5", 0, 1000, 10);
    const double wanted[] = {0.1, 0.05, 0.025, 0.025};
    for (int64_t u = 0; u < 4; u++) assert_near(learning_rate_at(&rate, u), wanted[u]);
    assert_near(learning_rate_at(&rate, 999999999), 0.025);
    assert_near(learning_rate_at(&rate, 1000000000), 0.0125);
    rate = parse("step:0.26:0.5", 0, 1000, 10); /* 2.6 updates */
    assert_near(learning_rate_at(&rate, 2), 0.1);
    assert_near(learning_rate_at(&rate, 3), 0.05);
    rate = parse("step:0.01:0.5", 0, 1000, 10); /* before the first */
    assert_near(learning_rate_at(&rate, 0), 0.05);
    /* No longer than the warm-up. */
    rate = parse("poly:1", 4, 4, 0);
    assert_near(learning_rate_at(&rate, 0), 0.025);
    assert_near(learning_rate_at(&rate, 9), 0.1);
    rate = parse("poly:0.5", 0, 2, 0);
    assert_near(learning_rate_at(&rate, 1), 0.1 * sqrt(0.5));
    /* Some of the times are epochs, and there are none. */
    assert_status(learning_rate_parse("step:7s,2:0.1", 0.1, 0, 10, 0, &rate, &test_error), PS_USAGE,
                  "'step:7s,2:0.1' is not ascending");
    char name[200];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_status(learning_rate_parse(name, 0.1, 0, 10, 0, &rate, &test_error), PS_USAGE, "is not known");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_constant),         cmocka_unit_test(test_step),
        cmocka_unit_test(test_falling),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_steps_and_epochs), cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
