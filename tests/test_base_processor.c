/* Denormal numbers count as zero between flush and restore, and only there. */
#include <float.h>

#include "base/processor.h"
#include "support.h"

static float halve(float x) {
    volatile float whole = x, half = whole * 0.5f; /* not by the compiler, before the mode is another */
    return half;
}

static void test_flushed_and_restored(void **state) {
    (void)state;
    if (test_valgrind()) skip(); /* it has no such mode */
    assert_true(halve(FLT_MIN) > 0);
    uint64_t mode = denormals_flush();
#if defined(__x86_64__) || defined(__aarch64__)
    assert_true(halve(FLT_MIN) == 0);
#endif
    assert_true(halve(1.0f) == 0.5f);
    denormals_restore(mode);
    assert_true(halve(FLT_MIN) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_flushed_and_restored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
