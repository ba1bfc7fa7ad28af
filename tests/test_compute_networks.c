/* The networks against torchvision's: shapes, parameters, one training step; for one of them ten steps of each optimizer. */
#include <string.h>

#include "networks.h"

static void check(json_t *golden) {
    const char *spec = text_of(golden, "model");
    check_shapes(golden);
    check_network(golden, strncmp(spec, "googlenet", 9) == 0 && !test_slow());
}

static void test_networks(void **state) {
    (void)state;
    for_each_network(TEST_DIRECTORY "/golden/networks.json", check);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
