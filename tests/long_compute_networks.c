/* Ten steps of each optimizer on every network, against torchvision's. */
#include "networks.h"

static void check(json_t *golden) { check_network(golden, true); }

static void test_runs(void **state) {
    (void)state;
    for_each_network(TEST_DIRECTORY "/golden/networks.json", check);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
