/* Methods that contain others are never slower (never_slower.h), on thousands of cases. */
#include "never_slower.h"

static void on_random(void **state) {
    (void)state;
    never_slower_on_random(6000);
}

static void on_real(void **state) {
    (void)state;
    never_slower_on_real(1100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_random), cmocka_unit_test(on_real)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
