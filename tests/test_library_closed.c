/* A program loads the library (PENSTOCK_LIBRARY), closes it, and goes on with the libraries that both use. */
#include <dlfcn.h>
#include <jansson.h>
#include <stdlib.h>

#include "support.h"

static void test_jansson(void **state) {
    (void)state;
    const char *path = getenv("PENSTOCK_LIBRARY");
    assert_non_null(path);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fail_msg("%s", dlerror());
    assert_non_null(dlsym(library, "ps_network_open"));
    json_t *before = json_pack("[i, s]", 1, "text");
    assert_int_equal(dlclose(library), 0);
    if (dlopen(path, RTLD_NOW | RTLD_NOLOAD)) skip(); /* something keeps it loaded: there is nothing to see */
    json_t *after = json_pack("{s: O}", "list", before);
    assert_non_null(after);
    json_decref(after);
    json_decref(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_jansson)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
