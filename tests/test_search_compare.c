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

/* At 2 MB/s a block takes 33 ms, and a stage of four layers 12: each codec that loses more is faster. At 1 GB/s none is needed.
 */
static void test_codecs(void **state) {
    static const char *const wires[] = {"none", "bf16", "int8", "topk:0.05", "auto:bf16", "auto:int8", "auto:topk:0.05"},
                             *const methods[] = {"uniform"}, *const wrong[] = {"auto:int4"};
    static const int workers[] = {2};
    static const double bandwidths[] = {2e6, 1e9};
    struct ps_profile *profile = even_profile();
    struct ps_compare_options options = {.struct_size = sizeof options,
                                         .methods = methods,
                                         .method_count = 1,
                                         .wires = wires,
                                         .wire_count = 7,
                                         .workers = workers,
                                         .worker_count = 1,
                                         .bandwidth_bytes_per_s = bandwidths,
                                         .bandwidth_count = 2};
    struct ps_comparison *comparison;
    (void)state;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_int_equal(ps_comparison_count(comparison), 14);
    double period_s[14];
    for (int r = 0; r < 14; r++) {
        const struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_string_equal(row.wire, wires[r % 7]);
        assert_true(row.simulated && row.bandwidth_bytes_per_s == bandwidths[r / 7]);
        period_s[r] = row.period_s;
    }
    for (int codec = 1; codec < 4; codec++) {
        assert_true(period_s[codec] < 0.8 * period_s[codec - 1]);
        assert_true(fabs(period_s[3 + codec] / period_s[codec] - 1) < 1e-6);
        assert_true(fabs(period_s[7 + 3 + codec] / period_s[7] - 1) < 1e-6);
    }
    char *table = ps_comparison_table(comparison), *json = ps_comparison_json(comparison);
    assert_non_null(strstr(table, "auto:topk:0.05"));
    assert_non_null(strstr(json, "\"wire\""));
    free(table);
    free(json);
    ps_comparison_destroy(comparison);
    options.wires = wrong;
    options.wire_count = 1;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_non_null(strstr(ps_comparison_row(comparison, 0).reason, "'int4' is not none, bf16, int8 or topk:SHARE"));
    ps_comparison_destroy(comparison);
    ps_profile_destroy(profile);
}

/* What is needed, and nothing that loses more. */
static void test_automatic_codecs(void **state) {
    static const struct {
        double bandwidth;
        const char *wire;
        enum wire_codec activation, gradient;
    } cases[] = {{1e9, "auto:topk:0.05", WIRE_NONE, WIRE_NONE}, {2e6, "auto:topk:0.05", WIRE_TOPK, WIRE_TOPK},
                 {2e6, "auto:int8", WIRE_INT8, WIRE_INT8},      {2e6, "auto:bf16", WIRE_BF16, WIRE_BF16},
                 {2e6, "auto:none", WIRE_NONE, WIRE_NONE},      {2e6, "int8", WIRE_INT8, WIRE_INT8},
                 {2e6, "gradient=bf16", WIRE_NONE, WIRE_BF16},  {2e6, "gradient=bf16+activation=int8", WIRE_INT8, WIRE_BF16}};
    struct ps_profile *profile = even_profile();
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct ps_cluster_options machines = {
            .struct_size = sizeof machines, .workers = 2, .bandwidth_bytes_per_s = cases[c].bandwidth};
        const struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "uniform", .schedule = "1f1b-async", .wire = cases[c].wire};
        struct ps_cluster *cluster;
        struct ps_plan *plan;
        assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_int_equal(plan->stages[0].wire.activation.codec, cases[c].activation);
        assert_int_equal(plan->stages[0].wire.gradient.codec, cases[c].gradient);
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comparison), cmocka_unit_test(test_codecs),
                                       cmocka_unit_test(test_automatic_codecs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
