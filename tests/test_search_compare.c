/* ps_compare: every combination is a row, in order; those without a plan say why. */
#include <jansson.h>
#include <limits.h>

#include "base/file.h"
#include "base/log.h"
#include "plan/partitioner.h"
#include "plan/planner.h"
#include "search/compare.h"
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

/* One worker, however slow, is as fast as itself, and two like it are at most twice as fast. */
static void test_speedup(void **state) {
    (void)state;
    static const char *const methods[] = {"pipedream"}, *const schedules[] = {"gpipe", "1f1b", "1f1b-async"};
    static const int workers[] = {1, 2};
    struct ps_profile *profile = even_profile();
    for (int l = 0; l < 8; l++) profile->tables[0].layers[l].time.accumulate_s = 1e-3;
    struct ps_cluster *cluster = make_cluster(2, 0, 0);
    for (int w = 0; w < 2; w++) cluster->devices[w].speed = 0.5;
    struct ps_plan_options planning;
    ps_plan_options_init(&planning);
    planning.micro_batches = 8;
    const struct ps_compare_options options = {.struct_size = sizeof options,
                                               .planning = &planning,
                                               .cluster = cluster,
                                               .methods = methods,
                                               .method_count = 1,
                                               .schedules = schedules,
                                               .schedule_count = 3,
                                               .workers = workers,
                                               .worker_count = 2};
    struct ps_comparison *comparison;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    for (int r = 0; r < 6; r++) {
        const struct ps_comparison_row row = ps_comparison_row(comparison, r);
        assert_true(row.simulated);
        if (row.workers == 1)
            assert_true(fabs(row.speedup - 1) < 1e-9);
        else
            assert_true(row.speedup > 1 && row.speedup < 2 + 1e-9);
    }
    ps_comparison_destroy(comparison);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Where no method is named: the automatic one, every way to cut, and the planners that are no baselines and have a schedule of
 * their own. */
static void test_all_methods(void **state) {
    (void)state;
    static const char *const schedules[] = {"1f1b"}, *const weights[] = {"sync"};
    static const int workers[] = {2};
    struct ps_profile *profile = even_profile();
    const struct ps_compare_options options = {.struct_size = sizeof options,
                                               .schedules = schedules,
                                               .schedule_count = 1,
                                               .weights = weights,
                                               .weights_count = 1,
                                               .workers = workers,
                                               .worker_count = 1};
    struct ps_comparison *comparison;
    int r = 0;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_string_equal(ps_comparison_row(comparison, r++).method, "auto");
    for (int m = 0; partitioner_table[m]; m++)
        assert_string_equal(ps_comparison_row(comparison, r++).method, partitioner_table[m]->name);
    for (int p = 0; planner_table[p]; p++)
        if (planner_table[p]->own_schedule && !planner_table[p]->baseline)
            assert_string_equal(ps_comparison_row(comparison, r++).method, planner_table[p]->name);
    assert_int_equal(ps_comparison_count(comparison), r);
    assert_true(r > 3);
    ps_comparison_destroy(comparison);
    ps_profile_destroy(profile);
}

/* A line's next field without its quotes; *line stands behind the comma or the line's end. */
static void take_field(const char **line, char *out, size_t room) {
    const char *at = *line;
    const bool quoted = *at == '"';
    size_t used = 0;
    at += quoted;
    while (quoted ? *at != '"' || at[1] == '"' : *at != ',' && *at != '\n') {
        assert_true(*at && used + 1 < room);
        at += quoted && *at == '"';
        out[used++] = *at++;
    }
    out[used] = '\0';
    at += quoted;
    assert_true(*at == ',' || *at == '\n');
    *line = at + 1;
}

/* The same of a value of the document. */
static void field_text(const json_t *value, char *out, size_t room) {
    *out = '\0';
    if (json_is_string(value))
        snprintf(out, room, "%s", json_string_value(value));
    else if (json_is_boolean(value))
        snprintf(out, room, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_integer(value))
        snprintf(out, room, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(out, room, "%.17g", json_real_value(value));
}

/* The CSV file has each field that a row of the document has, in columns of their names, the network first. */
static void test_csv(void **state) {
    (void)state;
    static const char *const methods[] = {"uniform", "auto"}, *const schedules[] = {"gpipe", "1f1b-async"},
                             *const weights[] = {"sync"};
    static const int workers[] = {2, 9};
    enum { COLUMNS_MAX = 64, FIELD = 1024 };
    struct ps_profile *profile = even_profile();
    strcpy(profile->model, "even, or \"even\"");
    const struct ps_compare_options options = {.struct_size = sizeof options,
                                               .methods = methods,
                                               .method_count = 2,
                                               .schedules = schedules,
                                               .schedule_count = 2,
                                               .weights = weights,
                                               .weights_count = 1,
                                               .workers = workers,
                                               .worker_count = 2};
    struct ps_comparison *comparison;
    char path[4096], *text, wanted[FIELD];
    static char columns[COLUMNS_MAX][FIELD], got[FIELD];
    size_t size;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_ok(ps_comparison_write_csv(comparison, file_join(path, test_directory, "rows.csv"), &test_error));
    assert_ok(file_read(path, 1 << 20, &text, &size, &test_error));
    char *document = ps_comparison_json(comparison);
    json_t *root = json_loads(document, 0, NULL), *rows = json_object_get(root, "rows"), *value;
    const char *at = text, *key;
    int count = 0, reasons = 0;
    do take_field(&at, columns[count], FIELD);
    while (at[-1] == ',' && ++count < COLUMNS_MAX - 1);
    count++;
    assert_string_equal(columns[0], "model");
    assert_int_equal(json_array_size(rows), 8);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        const json_t *row = json_array_get(rows, r);
        size_t filled = 0;
        for (int c = 0; c < count; c++) {
            field_text(json_object_get(row, columns[c]), wanted, FIELD);
            take_field(&at, got, FIELD);
            assert_string_equal(got, wanted);
            assert_true(at[-1] == (c + 1 < count ? ',' : '\n'));
            filled += json_object_get(row, columns[c]) != NULL;
        }
        json_object_foreach((json_t *)(uintptr_t)row, key, value) filled -= !json_is_array(value);
        assert_int_equal(filled, 0); /* every field has a column */
        assert_string_equal(json_string_value(json_object_get(row, "model")), profile->model);
        reasons += json_object_get(row, "reason") != NULL;
    }
    assert_true(*at == '\0' && reasons > 0 && reasons < 8);
    json_decref(root);
    free(document);
    free(text);
    ps_comparison_destroy(comparison);
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
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE,
                  "'int4' is not none, bf16, int8 or topk:SHARE");
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
    /* Of two cuts the second has little to send. */
    for (int l = 4; l < 8; l++) profile->tables[0].layers[l].size.output_bytes = 64;
    const struct ps_cluster_options three = {.struct_size = sizeof three, .workers = 3, .bandwidth_bytes_per_s = 2e6};
    const struct ps_plan_options each = {
        .struct_size = sizeof each, .method = "uniform", .schedule = "1f1b-async", .wire = "auto:int8"};
    struct ps_cluster *chain;
    struct ps_plan *mixed;
    assert_ok(ps_cluster_uniform(&three, &chain, &test_error));
    assert_ok(ps_plan_find(profile, chain, &each, &mixed, &test_error));
    assert_int_equal(mixed->stage_count, 3);
    assert_int_equal(mixed->stages[0].wire.activation.codec, WIRE_INT8);
    assert_int_equal(mixed->stages[0].wire.gradient.codec, WIRE_INT8);
    assert_int_equal(mixed->stages[1].wire.activation.codec, WIRE_NONE);
    assert_int_equal(mixed->stages[1].wire.gradient.codec, WIRE_NONE);
    ps_plan_destroy(mixed);
    /* What is refused is named by its beginning. */
    static const char *const wrong[][2] = {
        {"activation=int8+sums=int8", "`wire`: 'sums=int8' is not activation=CODEC, gradient=CODEC or sum=CODEC"},
        {"activations_of_all_layers_together_and_others=int8",
         "`wire`: 'activations_of_all_layers_together_and_o' is not activation=CODEC"},
        {"activation=int8+activation=bf16", "`wire`: activation is given twice"},
        {"activation=int4+sum=int8", "'int4' is not none, bf16, int8 or topk:SHARE"}};
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_plan_options refused = each;
        refused.wire = wrong[w][0];
        assert_status(ps_plan_find(profile, chain, &refused, &mixed, &test_error), PS_USAGE, wrong[w][1]);
    }
    ps_cluster_destroy(chain);
    /* No codec makes a plan fit that has no room for the weights. */
    const struct ps_cluster_options small = {
        .struct_size = sizeof small, .workers = 2, .bandwidth_bytes_per_s = 2e6, .memory_bytes = 1000};
    const struct ps_plan_options options = {
        .struct_size = sizeof options, .method = "uniform", .schedule = "1f1b-async", .wire = "auto:int8"};
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    assert_ok(ps_cluster_uniform(&small, &cluster, &test_error));
    assert_status(ps_plan_find(profile, cluster, &options, &plan, &test_error), PS_NO_PLAN, "memory");
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

static void note_warning(void *context, enum ps_log_level level, const char *line) {
    if (level == PS_LOG_WARN) *(int *)context += strstr(line, "`wire`: bf16 saves no bytes") != NULL;
}

/* A codec saves nothing of values that are as small: the plan is that of the links as they are, and a warning says it. */
static void test_codecs_that_save_nothing(void **state) {
    int warned = 0;
    const struct ps_log_sink sink = {.struct_size = sizeof sink, .context = &warned, .line = note_warning};
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(2, 0, 2e6);
    double throughput[2];
    (void)state;
    for (int l = 0; l < profile->tables[0].layer_count; l++) {
        struct layer_sizes *size = &profile->tables[0].layers[l].size;
        if (l % 3 != 2) size->output_bytes *= 3; /* so that there are cuts to choose from */
        size->output = (struct wire_numbers){{[TYPE_BF16] = size->output_bytes / 2}};
    }
    for (int w = 0; w < 2; w++) {
        const struct ps_plan_options options = {
            .struct_size = sizeof options, .method = "pipedream", .schedule = "1f1b-async", .wire = w == 0 ? "none" : "bf16"};
        struct ps_plan *plan;
        const struct ps_log_sink *before = log_use(&sink);
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        log_restore(before);
        assert_int_equal(warned, w);
        throughput[w] = plan->predicted.throughput_samples_per_s;
        ps_plan_destroy(plan);
    }
    assert_true(throughput[1] >= throughput[0] * (1 - 1e-9));
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* Where the best cut leaves no room for what the codec keeps of its large values, another is found. */
static void test_codecs_within_memory(void **state) {
    struct ps_profile *profile = even_profile();
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream", .schedule = "1f1b-async"};
    int64_t limit[2] = {0};
    (void)state;
    for (int l = 0; l < 8; l++) {
        struct layer_sizes *size = &profile->tables[0].layers[l].size;
        size->output_bytes = size->value_bytes = l == 3 ? 256 * KIB : 4 * KIB;
        size->output.of[TYPE_BF16] = size->output_bytes / 2; /* what is kept of a number takes twice as much as the number */
    }
    for (int encodes = 0; encodes < 2; encodes++) {
        struct ps_cluster *cluster = make_cluster(2, 0, 1e10);
        struct ps_plan *plan;
        for (int w = 0; w < 2; w++) cluster->devices[w].memory_bytes = limit[w];
        options.wire = encodes ? "topk:0.1" : NULL;
        assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
        assert_int_equal(plan->stages[0].last == 3, !encodes);
        for (int w = 0; w < 2; w++) {
            const int64_t taken = worker_memory_total(&plan->predicted.memory[w]);
            if (encodes) assert_true(taken <= limit[w]);
            limit[w] = taken;
        }
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
    ps_profile_destroy(profile);
}

/* The first workers of a cluster, with its own memory and links where the lists say 0: the slow links, and a last worker on
 * which nothing fits. */
static void test_cluster(void **state) {
    (void)state;
    static const char *const methods[] = {"uniform"}, *const schedules[] = {"gpipe"}, *const weights[] = {"sync"};
    static const int workers[] = {2, 3}, too_many[] = {4};
    static const int64_t memory[] = {0, 1 << 30};
    static const double bandwidth[] = {0, 1e9};
    struct ps_profile *profile = even_profile();
    struct ps_cluster *cluster = make_cluster(3, 0, 2e6);
    struct ps_compare_options options = {.struct_size = sizeof options,
                                         .methods = methods,
                                         .method_count = 1,
                                         .schedules = schedules,
                                         .schedule_count = 1,
                                         .weights = weights,
                                         .weights_count = 1,
                                         .workers = workers,
                                         .worker_count = 2,
                                         .memory_bytes = memory,
                                         .memory_count = 2,
                                         .bandwidth_bytes_per_s = bandwidth,
                                         .bandwidth_count = 2,
                                         .cluster = cluster};
    struct ps_comparison *comparison;
    cluster->devices[2].memory_bytes = KIB;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_int_equal(ps_comparison_count(comparison), 8);
    for (int r = 0; r < 8; r++) {
        const struct ps_comparison_row row = ps_comparison_row(comparison, r);
        const struct ps_plan_options planned = {
            .struct_size = sizeof planned, .method = "uniform", .schedule = "gpipe", .weights = "sync"};
        assert_int_equal(row.workers, workers[r / 4]);
        assert_true(r / 2 % 2 ? !row.memory_limit : strcmp(row.memory_limit, "cluster's") == 0);
        assert_true(r % 2 ? !row.bandwidth : strcmp(row.bandwidth, "cluster's") == 0);
        if (r / 4 == 1 && r / 2 % 2 == 0) {
            assert_true(row.status == PS_NO_PLAN && strstr(row.reason, "1.00 KiB"));
            continue;
        }
        struct ps_cluster *own = make_cluster(row.workers, 0, r % 2 ? 1e9 : 2e6);
        struct ps_plan *plan;
        assert_ok(ps_plan_find(profile, own, &planned, &plan, &test_error));
        assert_true(row.period_s == plan->predicted.period_s);
        ps_plan_destroy(plan);
        ps_cluster_destroy(own);
    }
    ps_comparison_destroy(comparison);
    assert_int_equal(cluster->workers, 3); /* the one that was given stays as it is */
    assert_int_equal(cluster->devices[2].memory_bytes, KIB);
    options.workers = too_many;
    options.worker_count = 1;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, "the cluster has 3 workers, not 4");
    options.worker_count = options.memory_count = options.bandwidth_count = 0;
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_int_equal(ps_comparison_count(comparison), 1);
    assert_int_equal(ps_comparison_row(comparison, 0).workers, 3);
    ps_comparison_destroy(comparison);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(profile);
}

/* A mini-batch that grows with the workers, and what a comparison cannot be of. */
static void test_batches_and_refusals(void **state) {
    (void)state;
    static const char *const methods[] = {"uniform"};
    static const int workers[] = {2, 3};
    static double many[100001];
    static const uint64_t seeds[] = {1};
    struct ps_profile *profile = even_profile();
    struct ps_plan_options planning = {.struct_size = sizeof planning, .schedule = "gpipe", .weights = "sync"};
    struct ps_compare_options options = {.struct_size = sizeof options,
                                         .methods = methods,
                                         .method_count = 1,
                                         .workers = workers,
                                         .worker_count = 2,
                                         .planning = &planning,
                                         .batch_per_worker = 4};
    struct ps_comparison *comparison;
    for (int micro_batch = 0; micro_batch < 2; micro_batch++) {
        planning.micro_batch = micro_batch;
        assert_ok(ps_compare(profile, &options, &comparison, &test_error));
        for (int r = 0; r < 2; r++) {
            assert_int_equal(ps_comparison_row(comparison, r).batch, 4 * workers[r]);
            assert_int_equal(ps_comparison_row(comparison, r).micro_batches, 4 * workers[r]);
            assert_int_equal(ps_comparison_row(comparison, r).micro_batch, 1);
        }
        ps_comparison_destroy(comparison);
    }
    planning.micro_batch = 3;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE,
                  "`batch_per_worker`: 4 samples on 2 workers are not divisible into micro-batches of 3");
    static const char *const contradicts = "`batch_per_worker` contradicts `batch` and `micro_batches`; give one of them";
    planning.micro_batch = 0;
    planning.batch = 8;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, contradicts);
    planning.batch = 0;
    planning.micro_batches = 8;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, contradicts);
    planning.micro_batches = 0;
    options.batch_per_worker = -1;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, "`batch_per_worker`: -1 is negative");
    options.batch_per_worker = INT_MAX / 2 + 1;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE,
                  "`batch_per_worker`: 1073741824 samples on 2 workers are more than a mini-batch can have");
    options.batch_per_worker = 0;
    options.bandwidth_bytes_per_s = many;
    options.bandwidth_count = 100001;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE,
                  "more than 100000 combinations to compare");
    options.bandwidth_count = 0;
    options.seeds = seeds;
    options.seed_count = 1;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE,
                  "`seeds`: are of training; a simulation has none");
    options.seed_count = 0;
    options.rank_by = "metric";
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, "metric");
    options.rank_by = "memory";
    assert_ok(ps_compare(profile, &options, &comparison, &test_error));
    assert_string_equal(ps_comparison_info(comparison).ranked_by, "memory");
    ps_comparison_destroy(comparison);
    static const char one_profile[] = "`profiles`: give one profile, or a list of them";
    const struct ps_profile *list[] = {profile};
    assert_status(ps_compare(NULL, &options, &comparison, &test_error), PS_USAGE, one_profile);
    options.profiles = list;
    assert_status(ps_compare(NULL, &options, &comparison, &test_error), PS_USAGE, one_profile);
    options.profile_count = 1;
    assert_status(ps_compare(profile, &options, &comparison, &test_error), PS_USAGE, one_profile);
    assert_ok(ps_compare(NULL, &options, &comparison, &test_error));
    assert_null(ps_comparison_info(comparison).directory);
    ps_comparison_destroy(comparison);
    ps_profile_destroy(profile);
}

/* Rows are ranked by the mean over their seeds, among those of the same network, workers, memory and bandwidth; what is not
 * known has no rank. */
static void test_ranks(void **state) {
    (void)state;
    enum { SEEDS = 2, COMBINATIONS = 7 };
    /* Seed by seed; 0 is not known. The first three are compared with each other, the others differ in one thing each. */
    static const double values[COMBINATIONS][SEEDS] = {{10, 0}, {9, 11.5}, {0, 0}, {1, 1}, {2, 2}, {3, 3}, {4, 4}};
    static const struct {
        const char *by, *usual;
        bool trained, less;
        enum ps_metric metric;
        const char *ranked_by; /* NULL: by nothing that is known */
    } cases[] = {
        {"throughput", "throughput", false, false, PS_METRIC_ACCURACY, "throughput"},
        {NULL, "throughput", false, false, PS_METRIC_ACCURACY, "throughput"},
        {"memory", "throughput", false, true, PS_METRIC_ACCURACY, "memory"},
        {"memory", "metric", true, true, PS_METRIC_ACCURACY, "memory"},
        {"target", "metric", true, true, PS_METRIC_ACCURACY, "target"},
        {NULL, "metric", true, false, PS_METRIC_ACCURACY, "accuracy"},
        {"metric", "metric", true, false, PS_METRIC_BLEU, "bleu"},
        {NULL, "metric", true, true, PS_METRIC_PERPLEXITY, "perplexity"},
        {NULL, "metric", true, true, PS_METRIC_LOSS, "valid_loss"},
        {NULL, "largest", false, false, PS_METRIC_ACCURACY, "largest"},
        {NULL, "metric", false, false, PS_METRIC_ACCURACY, NULL},
    };
    struct comparison_network networks[] = {{.model = "one"}, {.model = "other", .number = 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct comparison_row rows[COMBINATIONS * SEEDS] = {0};
        struct ps_comparison comparison = {
            .networks = networks, .network_count = 2, .rows = rows, .row_count = COMBINATIONS * SEEDS, .seeds = SEEDS};
        const bool throughput = !strcmp(cases[c].usual, "throughput") && (!cases[c].by || !strcmp(cases[c].by, "throughput"));
        const bool by_memory = cases[c].by && strcmp(cases[c].by, "memory") == 0,
                   target = cases[c].by && strcmp(cases[c].by, "target") == 0;
        for (int r = 0; r < COMBINATIONS * SEEDS; r++) {
            struct ps_comparison_row *row = &rows[r].row;
            const int combination = r / SEEDS;
            const double value = values[combination][r % SEEDS];
            const bool known = value > 0 && cases[c].ranked_by;
            row->workers = combination == 3 ? 4 : 2;
            row->memory_limit_bytes = combination == 4 ? 100 : 0;
            row->bandwidth_bytes_per_s = combination == 5 ? 100 : 0;
            row->network = combination == 6;
            row->simulated = !cases[c].trained && known;
            row->trained = cases[c].trained && known;
            row->metric = cases[c].metric;
            row->best = row->target_s = NAN;
            if (throughput) row->throughput_samples_per_s = value;
            if (by_memory) *(cases[c].trained ? &row->measured_bytes : &row->memory_bytes) = (int64_t)(1000 * value);
            if (target) row->target_s = known ? value : NAN;
            if (!throughput && !by_memory && !target && known) row->best = value;
            if (!strcmp(cases[c].usual, "largest")) row->largest = (int)(2 * value);
        }
        assert_ok(comparison_rank(&comparison, cases[c].by, cases[c].usual, &test_error));
        if (cases[c].ranked_by) assert_string_equal(comparison.ranked_by, cases[c].ranked_by);
        const int ranks[COMBINATIONS] = {cases[c].less ? 1 : 2, cases[c].less ? 2 : 1, 0, 1, 1, 1, 1};
        for (int r = 0; r < comparison.row_count; r++)
            if (rows[r].row.rank != (cases[c].ranked_by ? ranks[r / SEEDS] : 0))
                fail_msg("case %d: row %d has rank %d", (int)c, r, rows[r].row.rank);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_comparison),
                                       cmocka_unit_test(test_speedup),
                                       cmocka_unit_test(test_csv),
                                       cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_all_methods),
                                       cmocka_unit_test(test_codecs),
                                       cmocka_unit_test(test_automatic_codecs),
                                       cmocka_unit_test(test_codecs_that_save_nothing),
                                       cmocka_unit_test(test_codecs_within_memory),
                                       cmocka_unit_test(test_cluster),
                                       cmocka_unit_test(test_batches_and_refusals)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
