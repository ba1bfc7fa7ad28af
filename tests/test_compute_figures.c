/* What is said of a sum of losses: means, and nothing where there is nothing to say. */
#include <math.h>

#include "compute/figures.h"
#include "support.h"

static struct figures figures_for(const char *spec, const struct stage_result *sum) {
    struct ps_network *network;
    assert_ok(ps_network_open(spec, &network, &test_error));
    struct figures figures = figures_of(network, sum);
    ps_network_destroy(network);
    return figures;
}

static void test_means(void **state) {
    (void)state;
    const struct stage_result sum = {.loss = 2, .weight = 4, .counted = 8, .correct = 2, .correct5 = 6};
    struct figures figures = figures_for("lenet5", &sum);
    assert_true(figures.loss == 0.5 && figures.accuracy == 0.25 && figures.top5 == 0.75);
    assert_true(isnan(figures.perplexity));
    figures = figures_for("lenet5,classes=5", &sum); /* all would be among five of five */
    assert_true(figures.accuracy == 0.25 && isnan(figures.top5));
    figures = figures_for("lenet5,classes=6", &sum);
    assert_true(figures.top5 == 0.75);
    figures = figures_for("gpt2,layers=1,width=16,heads=2,vocab=32,seq=8", &sum);
    assert_true(fabs(figures.perplexity - exp(0.5)) < 1e-12);
    figures = figures_of(NULL, &sum);
    assert_true(figures.loss == 0.5 && isnan(figures.accuracy) && isnan(figures.top5) && isnan(figures.perplexity));
}

static void test_nothing(void **state) {
    (void)state;
    struct figures figures = figures_for("lenet5", &(struct stage_result){.loss = 2, .weight = 4});
    assert_true(figures.loss == 0.5 && isnan(figures.accuracy) && isnan(figures.top5));
    assert_true(isnan(figures_for("lenet5", &(struct stage_result){.counted = 8, .correct = 2}).loss));
}

static void test_text(void **state) {
    (void)state;
    char text[32];
    assert_string_equal(figures_accuracy_text(0.12345, text), ", accuracy 12.35%");
    assert_string_equal(figures_accuracy_text(NAN, text), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_means), cmocka_unit_test(test_nothing),
                                       cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
