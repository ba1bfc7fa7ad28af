/* ps_compare_largest: the largest network that fits, on BaPipe's Table IV. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#define GIB ((int64_t)1 << 30)

enum { METHODS = 3, SCHEDULES = 2, MACHINES = 4 };
static const char *const methods[METHODS] = {"data-parallel", "uniform", "bapipe"}, *const schedules[SCHEDULES] = {"gpipe",
                                                                                                                   "1f1b"};
static const int workers[MACHINES] = {1, 2, 4, 8};

static struct ps_comparison *compare(const char *model, const char *key, int64_t memory) {
    const struct ps_plan_options planning = {
        .struct_size = sizeof planning, .optimizer = "adam", .micro_batch = 16, .replicate = true};
    struct ps_compare_options options = {.struct_size = sizeof options,
                                         .methods = methods,
                                         .method_count = METHODS,
                                         .schedules = schedules,
                                         .schedule_count = SCHEDULES,
                                         .workers = workers,
                                         .worker_count = MACHINES,
                                         .memory_bytes = &memory,
                                         .memory_count = 1,
                                         .batch_per_worker = 32,
                                         .planning = &planning};
    struct ps_comparison *comparison;
    assert_ok(ps_compare_largest(model, key, NULL, &options, &comparison, &test_error));
    assert_string_equal(ps_comparison_largest(comparison), key);
    assert_int_equal(ps_comparison_count(comparison), METHODS * SCHEDULES * MACHINES);
    return comparison;
}

/* The paper's shape: data parallelism stays, pipelines grow with the devices, 1F1B beyond GPipe; on one device nothing differs
 * but what a schedule holds. Of cuts that are even in time 1F1B comes within a tenth of the paper's figures. */
static void gnmt_table(void **state) {
    (void)state;
    static const int published[MACHINES] = {32, 74, 118, 158};
    const int64_t memory = 9 * GIB;
    struct ps_comparison *comparison = compare("gnmt-l", "layers", memory);
    int largest[MACHINES][SCHEDULES][METHODS];
    for (int r = 0; r < ps_comparison_count(comparison); r++) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        largest[r / (METHODS * SCHEDULES)][r / METHODS % SCHEDULES][r % METHODS] = row.largest;
        assert_null(row.reason);
        assert_true(row.simulated && row.memory_bytes <= memory && row.memory_bytes > memory * 9 / 10);
        assert_true(row.period_s >= row.lower_bound_s && row.largest % 2 == 0);
        /* A layer of the encoder and one of the decoder, which also reads the attention's answer. */
        assert_true(row.parameters == 445621825 + (int64_t)(row.largest - 32) / 2 * (8396800 + 12591104));
    }
    for (int m = 0; m < MACHINES; m++) {
        assert_int_equal(largest[m][0][0], 32);
        assert_int_equal(largest[m][1][0], largest[0][1][0]);
        for (int s = 0; m > 0 && s < SCHEDULES; s++)
            for (int method = 1; method < METHODS; method++) {
                assert_true(largest[m][s][method] > largest[m - 1][s][method]);
                assert_true(largest[m][s][method] > largest[m][s][0]);
            }
        for (int method = 0; method < METHODS; method++) assert_true(largest[m][1][method] > largest[m][0][method]);
        for (int s = 0; s < SCHEDULES; s++) assert_true(largest[m][s][2] >= largest[m][s][1]);
        if (m > 0) assert_true(abs(largest[m][1][1] - published[m]) * 10 <= published[m]);
    }
    char *table = ps_comparison_table(comparison), *grid = ps_comparison_grid(comparison),
         *json = ps_comparison_json(comparison);
    assert_non_null(strstr(table, "445.6 M"));
    assert_non_null(strstr(grid, "32 (445.6 M)"));
    assert_non_null(strstr(json, "\"largest\": 32"));
    free(table);
    free(grid);
    free(json);
    ps_comparison_destroy(comparison);
}

/* One value more does not fit: the answer is the largest, not just one. */
static void next_value_does_not_fit(void **state) {
    (void)state;
    const int64_t memory = GIB / 4;
    struct ps_comparison *comparison = compare("gnmt-l,hidden=256,vocab=1000", "layers", memory);
    static const int sizes[] = {16};
    for (int r = 0; r < ps_comparison_count(comparison); r += 5) {
        struct ps_comparison_row row = ps_comparison_row(comparison, r);
        for (int more = 0; more <= 2; more += 2) {
            char spec[128];
            struct ps_network *model;
            struct ps_profile *profile;
            struct ps_cluster *cluster;
            struct ps_plan *plan;
            snprintf(spec, sizeof spec, "gnmt-l,hidden=256,vocab=1000,layers=%d", row.largest + more);
            assert_ok(ps_network_open(spec, &model, &test_error));
            assert_ok(ps_profile_measure(model,
                                         &(struct ps_profile_options){.struct_size = sizeof(struct ps_profile_options),
                                                                      .device = "gpu:v100",
                                                                      .micro_batches = sizes,
                                                                      .micro_batch_count = 1},
                                         &profile, &test_error));
            assert_ok(ps_cluster_uniform(&(struct ps_cluster_options){.struct_size = sizeof(struct ps_cluster_options),
                                                                      .workers = row.workers,
                                                                      .memory_bytes = memory},
                                         &cluster, &test_error));
            struct ps_plan_options options = {.struct_size = sizeof options,
                                              .method = row.method,
                                              .schedule = row.schedule,
                                              .optimizer = "adam",
                                              .micro_batch = 16,
                                              .micro_batches = 2 * row.workers,
                                              .replicate = strcmp(row.method, "data-parallel") == 0};
            enum ps_status status = ps_plan_find(profile, cluster, &options, &plan, &test_error);
            assert_int_equal(status, more ? PS_NO_PLAN : PS_OK);
            if (status == PS_OK) ps_plan_destroy(plan);
            ps_cluster_destroy(cluster);
            ps_profile_destroy(profile);
            ps_network_destroy(model);
        }
    }
    ps_comparison_destroy(comparison);
}

/* A family of files, one for each value, gives the same as the built-in network that they were made from. */
static void files_of_networks(void **state) {
    (void)state;
    const int64_t memory = GIB / 32;
    char path[4200], family[4200];
    struct ps_comparison *built_in = compare("gnmt-l,hidden=64,vocab=1000", "layers", memory);
    int most = 0;
    for (int r = 0; r < ps_comparison_count(built_in); r++)
        if (ps_comparison_row(built_in, r).largest > most) most = ps_comparison_row(built_in, r).largest;
    for (int layers = 4; layers <= most + 2; layers += 2) {
        char spec[64];
        struct ps_network *network;
        snprintf(spec, sizeof spec, "gnmt-l,hidden=64,vocab=1000,layers=%d", layers);
        snprintf(path, sizeof path, "%s/net-%d.json", test_directory, layers);
        assert_ok(ps_network_open(spec, &network, &test_error));
        assert_ok(ps_network_write(network, path, &test_error));
        ps_network_destroy(network);
    }
    snprintf(family, sizeof family, "%s/net-{layers}.json", test_directory);
    struct ps_comparison *files = compare(family, "layers", memory);
    for (int r = 0; r < ps_comparison_count(files); r++) {
        struct ps_comparison_row row = ps_comparison_row(files, r), same = ps_comparison_row(built_in, r);
        assert_int_equal(row.largest, same.largest);
        assert_true(row.parameters == same.parameters && row.period_s == same.period_s);
    }
    ps_comparison_destroy(files);
    ps_comparison_destroy(built_in);
    struct ps_compare_options options = {.struct_size = sizeof options, .workers = workers, .worker_count = 1};
    assert_status(ps_compare_largest(path, "layers", NULL, &options, &files, &test_error), PS_USAGE, "with {layers}");
    assert_status(ps_compare_largest("none-{layers}.json", "layers", NULL, &options, &files, &test_error), PS_USAGE,
                  "none-1.json: there is no such file");
}

/* The rows are kept: the same question finds them, and of other networks or costs it is refused. */
static void rows_are_kept(void **state) {
    (void)state;
    static const char model[] = "gnmt-l,hidden=64,vocab=1000", *const few[] = {"uniform"};
    const int64_t memory = GIB / 32;
    char directory[4200];
    struct ps_compare_options options;
    ps_compare_options_init(&options);
    assert_int_equal(options.struct_size, sizeof options);
    snprintf(directory, sizeof directory, "%s/kept", test_directory);
    options.methods = few;
    options.method_count = 1;
    options.workers = workers;
    options.worker_count = 2;
    options.memory_bytes = &memory;
    options.memory_count = 1;
    options.out = directory;
    struct ps_comparison *made, *found;
    assert_ok(ps_compare_largest(model, "layers", NULL, &options, &made, &test_error));
    assert_ok(ps_compare_largest(model, "layers", "gpu:v100", &options, &found, &test_error));
    char *texts[2] = {ps_comparison_json(made), ps_comparison_json(found)};
    assert_string_equal(texts[0], texts[1]); /* with the seconds that the search took */
    assert_true(ps_comparison_row(found, 0).largest > 0 && ps_comparison_row(found, 1).solve_s > 0);
    free(texts[0]);
    free(texts[1]);
    ps_comparison_destroy(found);
    ps_comparison_destroy(made);
    assert_status(ps_compare_largest("gnmt-l,hidden=64,vocab=2000", "layers", NULL, &options, &found, &test_error), PS_USAGE,
                  "`model` is \"gnmt-l,hidden=64,vocab=1000\" there and \"gnmt-l,hidden=64,vocab=2000\" here");
    assert_status(ps_compare_largest("gnmt-l,layers=4,vocab=1000", "hidden", NULL, &options, &found, &test_error), PS_USAGE,
                  "there and \"gnmt-l,layers=4,vocab=1000\" here");
    assert_status(ps_compare_largest(model, "layers", "gpu:p100", &options, &found, &test_error), PS_USAGE,
                  "`costs` is \"gpu:v100\" there and \"gpu:p100\" here");
}

static void contradictions_are_named(void **state) {
    (void)state;
    const int64_t memory = 9 * GIB;
    struct ps_compare_options options = {
        .struct_size = sizeof options, .workers = workers, .worker_count = 1, .memory_bytes = &memory, .memory_count = 1};
    struct ps_comparison *comparison;
    assert_status(ps_compare_largest("gnmt-l", "layer", NULL, &options, &comparison, &test_error), PS_USAGE, "layers");
    assert_status(ps_compare_largest("gnmt-l", "layers", "cpu", &options, &comparison, &test_error), PS_USAGE, "gpu:v100");
    assert_status(ps_compare_largest("gnmtl", "layers", NULL, &options, &comparison, &test_error), PS_USAGE, "gnmt-l");
    static const uint64_t seeds[] = {1, 2};
    options.seeds = seeds;
    options.seed_count = 2;
    assert_status(ps_compare_largest("gnmt-l", "layers", NULL, &options, &comparison, &test_error), PS_USAGE,
                  "`seeds`: are of training; a search has none");
    options.seed_count = 0;
    options.rank_by = "memory";
    assert_status(ps_compare_largest("gnmt-l", "layers", NULL, &options, &comparison, &test_error), PS_USAGE,
                  "`rank_by`: the largest network is the best; leave it away");
    options.rank_by = NULL;
    /* A family of one. */
    char path[4200], family[4200], wanted[4400];
    struct ps_network *network;
    snprintf(path, sizeof path, "%s/one-64.json", test_directory);
    snprintf(family, sizeof family, "%s/one-{layers}.json", test_directory);
    snprintf(wanted, sizeof wanted, "`key`: layers of %s has no two values up to 64", family);
    assert_ok(ps_network_open("lenet5", &network, &test_error));
    assert_ok(ps_network_write(network, path, &test_error));
    ps_network_destroy(network);
    assert_status(ps_compare_largest(family, "layers", NULL, &options, &comparison, &test_error), PS_USAGE, wanted);
    options.memory_count = 0;
    assert_status(ps_compare_largest("gnmt-l", "layers", NULL, &options, &comparison, &test_error), PS_USAGE,
                  "give `memory_bytes`");
    static const int64_t tiny = 1 << 20;
    options.memory_bytes = &tiny;
    options.memory_count = 1;
    struct ps_plan_options planning = {.struct_size = sizeof planning, .method = "pipedream"};
    options.planning = &planning;
    assert_ok(ps_compare_largest("gnmt-l", "layers", NULL, &options, &comparison, &test_error));
    struct ps_comparison_row row = ps_comparison_row(comparison, 0);
    assert_int_equal(row.largest, 0);
    assert_non_null(strstr(row.reason, "worker 0 has 1.00 MiB"));
    ps_comparison_destroy(comparison);
    /* Options that contradict each other are a row's, and not the comparison's. */
    static const char *const two[] = {"madpipe", "pipedream"};
    static const int64_t little = GIB / 32;
    options.memory_bytes = &little;
    options.methods = two;
    options.method_count = 2;
    options.schedules = schedules;
    options.schedule_count = 1;
    assert_ok(ps_compare_largest("gnmt-l,hidden=64,vocab=1000", "layers", NULL, &options, &comparison, &test_error));
    row = ps_comparison_row(comparison, 0);
    assert_int_equal(row.status, PS_USAGE);
    assert_int_equal(row.largest, 0);
    assert_non_null(strstr(row.reason, "`schedule` gpipe: method madpipe has a schedule of its own"));
    row = ps_comparison_row(comparison, 1);
    assert_int_equal(row.status, PS_OK);
    assert_true(row.largest > 0);
    ps_comparison_destroy(comparison);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gnmt_table),    cmocka_unit_test(next_value_does_not_fit),  cmocka_unit_test(files_of_networks),
        cmocka_unit_test(rows_are_kept), cmocka_unit_test(contradictions_are_named),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
