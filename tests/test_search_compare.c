/* ps_compare: every combination is a row, in order; those without a plan say why. */
#include "search_support.h"

static void test_comparison(void **state) {
    (void)state;
    static const char *const methods[] = {"uniform", "auto"}, *const schedules[] = {"gpipe", "1f1b-async"},
                             *const weights[] = {"sync", "pipeoptim"};
    static const int workers[] = {2, 9};
    struct ps_profile *profile = even_profile();
    struct ps_compare_options options = {.struct_size = sizeof options,
                                         .methods = methods,
                                         .method_count = 2,
                                         .schedules = schedules,
                                         .schedule_count = 2,
                                         .weights = weights,
                                         .weights_count = 2,
                                         .workers = workers,
                                         .worker_count = 2};
    struct ps_comparison *comparison;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_int_equal(ps_comparison_count(comparison), 16);
    for (int r = 0; r < 16; r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_string_equal(row.method, methods[r % 2]);
        assert_string_equal(row.schedule, schedules[r / 2 % 2]);
        assert_string_equal(row.weights, weights[r / 4 % 2]);
        assert_int_equal(row.workers, workers[r / 8]);
        /* More than there are layers: auto leaves one idle. */
        if (r / 8 == 1 && strcmp(row.method, "uniform") == 0)
            assert_true(row.reason && strstr(row.reason, "9 workers"));
        else if (strcmp(row.schedule, "1f1b-async") == 0 && strcmp(row.weights, "sync") == 0)
            assert_true(row.reason && strstr(row.reason, "does not flush"));
        else {
            assert_true(row.simulated && !row.reason && row.memory_bytes > 0 && row.weight_copies >= 1);
            assert_true(fabs(row.speedup - row.throughput_samples_per_s * 24e-3) < 1e-6);
            assert_true(row.speedup > 1 && row.speedup < row.workers + 1e-9);
        }
    }
    char *table = ps_comparison_table(comparison), *json = ps_comparison_json(comparison);
    assert_non_null(strstr(table, "does not flush"));
    assert_non_null(strstr(json, "\"reason\""));
    free(table);
    free(json);
    ps_comparison_destroy(comparison);
    static const char *const wrong[] = {"unifrom"};
    options.methods = wrong;
    options.method_count = 1;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, "did you mean 'uniform'");
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comparison)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
