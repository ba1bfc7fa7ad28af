/* Elementwise loops: every count, so that whole rows of sixteen, their rest and nothing are had; and the order of their sums.
 */
#include "support.h"

#include "base/vector.h"

#define MOST 70

/* Sixteen partial sums, which are halved until one is left. */
static float halved(const float *term, size_t count) {
    float lane[16] = {0};
    for (size_t i = 0; i < count; i++) lane[i % 16] += term[i];
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

static void sums(void **state) {
    (void)state;
    float x[MOST], y[MOST], products[MOST], distances[MOST];
    const float centre = 0.3f;
    for (size_t i = 0; i < MOST; i++) {
        x[i] = 1 / (float)(i + 3);
        y[i] = (float)(i % 7) - 2.9f;
        products[i] = x[i] * y[i];
        distances[i] = (x[i] - centre) * (x[i] - centre);
    }
    for (size_t count = 0; count <= MOST; count++) {
        assert_true(vector_sum(count, x) == halved(x, count));
        assert_true(vector_dot(count, x, y) == halved(products, count));
        assert_true(vector_distance(count, x, centre) == halved(distances, count));
        double lane[16] = {0}, squares = 0;
        for (size_t i = 0; i < count; i++) lane[i % 16] += (double)x[i] * (double)x[i];
        for (size_t l = 0; l < 16; l++) squares += lane[l];
        assert_true(vector_squares(count, x) == squares);
    }
}

static void each_element(void **state) {
    (void)state;
    float x[MOST], y[MOST + 1];
    for (size_t count = 0; count <= MOST; count++) {
        for (size_t i = 0; i < MOST; i++) x[i] = (float)i + 1, y[i] = (float)i;
        y[MOST] = 0;
        vector_add(count, y, x);
        vector_axpy(count, y, 2, x);
        vector_scale(count, y, 8);
        for (size_t i = 0; i <= MOST; i++) {
            const float was = i < MOST ? (float)i : 0;
            assert_true(y[i] == (i < count ? 8 * (was + 3 * x[i]) : was));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(each_element)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
