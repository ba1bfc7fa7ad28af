/*
 * Comparisons as they are written, to the byte: tables, grids, pictures and CSV of rows made by hand, each kind of them with
 * every figure that it may have or lack. What stands in the file is looked at by eye when it changes.
 *
 *   PENSTOCK_REGENERATE=1 build/release/tests/test_report_comparison     writes tests/golden/comparisons.txt anew
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "search/compare.h"
#include "support.h"
#include "train/run_result.h"

#define LONG_NAME "a-network-whose-name-goes-on-and-on,layers=48,width=1024,heads=16,vocabulary=30522,length=512,classes=2"

/* ------------------------------------------------------------------------- rows */

static struct ps_comparison *make_comparison(const char *const *models, int networks, int rows, int seeds) {
    struct ps_comparison *made = calloc(1, sizeof *made);
    assert_non_null(made);
    made->networks = calloc((size_t)networks, sizeof *made->networks);
    made->rows = calloc((size_t)rows, sizeof *made->rows);
    assert_true(made->networks && made->rows);
    made->network_count = networks;
    made->seeds = seeds;
    for (int n = 0; n < networks; n++) {
        snprintf(made->networks[n].model, sizeof made->networks[n].model, "%s", models[n]);
        strcpy(made->networks[n].precision, "f32");
        made->networks[n].number = n;
    }
    return made;
}

static struct comparison_row *add(struct ps_comparison *comparison, int network, const char *method, const char *schedule,
                                  const char *weights, int workers) {
    struct comparison_row *row = &comparison->rows[comparison->row_count++];
    strcpy(row->method, method);
    strcpy(row->schedule, schedule);
    strcpy(row->weights, weights);
    strcpy(row->precision, "f32");
    row->row = (struct ps_comparison_row){.workers = workers,
                                          .network = network,
                                          .best_valid_accuracy = NAN,
                                          .best = NAN,
                                          .target_s = NAN,
                                          .lower_bound_s = NAN,
                                          .gap = NAN,
                                          .solve_s = NAN};
    return row;
}

static void refuse(struct comparison_row *row, const char *reason) {
    strcpy(row->reason, reason);
    row->row.reason = row->reason;
    row->row.status = PS_NO_PLAN;
}

static void simulate(struct comparison_row *row, const char *chosen, double period_s, int64_t memory_bytes, int copies) {
    strcpy(row->chosen, chosen);
    row->row.simulated = true;
    row->row.objective_s = 0.9 * period_s;
    row->row.period_s = period_s;
    row->row.batch = 64;
    row->row.micro_batch = 16;
    row->row.micro_batches = 4;
    row->row.throughput_samples_per_s = 64 / period_s;
    row->row.speedup = 0.25 / period_s;
    row->row.bubble = 1 - row->row.speedup / row->row.workers;
    row->row.memory_bytes = memory_bytes;
    row->row.weight_copies = copies;
}

/* With as many points of that metric as are given, an epoch and `epoch_s` seconds apart. */
static void train(struct comparison_row *row, enum ps_metric metric, double rate, int points, const double *values,
                  double epoch_s) {
    const int workers = row->row.workers;
    double best = NAN;
    assert_ok(run_create(workers, &row->run, &test_error));
    strcpy(row->chosen, row->method);
    for (int p = 0; p < points; p++) {
        struct ps_run_point point = {.step = 10 * (p + 1),
                                     .epoch = p + 1,
                                     .loss = 2.5 / (p + 1),
                                     .accuracy = NAN,
                                     .valid_loss = metric == PS_METRIC_LOSS ? values[p] : 3.0 / (p + 1),
                                     .valid_accuracy = metric == PS_METRIC_ACCURACY ? values[p] : NAN,
                                     .valid_perplexity = metric == PS_METRIC_PERPLEXITY ? values[p] : NAN,
                                     .valid_bleu = metric == PS_METRIC_BLEU ? values[p] : NAN,
                                     .training_s = epoch_s * (p + 1)};
        assert_ok(run_add_point(row->run, &point, &test_error));
        if (metric_better(metric, values[p], best)) {
            best = values[p];
            row->row.best_epoch = p + 1;
        }
    }
    struct ps_run_info *info = &row->run->info;
    const struct ps_run_point *last = points > 0 ? &row->run->points[points - 1] : NULL;
    info->steps = 10 * points;
    info->epochs = points;
    info->loss = last ? last->loss : 2.125;
    info->accuracy = metric == PS_METRIC_ACCURACY ? 0.875 : NAN;
    info->valid_loss = last ? last->valid_loss : NAN;
    info->valid_accuracy = last ? last->valid_accuracy : NAN;
    info->valid_perplexity = last ? last->valid_perplexity : NAN;
    info->valid_bleu = last ? last->valid_bleu : NAN;
    info->samples_per_s = rate;
    info->predicted_samples_per_s = 1.03125 * rate;
    info->wall_s = 100 / rate;
    for (int w = 0; w < workers; w++) {
        row->run->worker[w].measured_bytes = (int64_t)(workers - w) * (3 << 20) + 512;
        if (row->run->worker[w].measured_bytes > row->row.measured_bytes)
            row->row.measured_bytes = row->run->worker[w].measured_bytes;
    }
    row->row.trained = true;
    row->row.batch = 32;
    row->row.micro_batch = 8;
    row->row.micro_batches = 4;
    row->row.metric = metric;
    row->row.best = best;
    if (metric == PS_METRIC_ACCURACY) row->row.best_valid_accuracy = best;
}

static void rank(struct ps_comparison *comparison, const char *by, const char *usual) {
    assert_ok(comparison_rank(comparison, by, usual, &test_error));
}

/* ------------------------------------------------------------------------ comparisons */

/* Two networks on several machines; plans that were found, that cannot be simulated, and that there are none of. */
static struct ps_comparison *simulated(void) {
    static const char *const models[] = {"vgg16", LONG_NAME};
    struct ps_comparison *made = make_comparison(models, 2, 16, 1);
    for (int machine = 0; machine < 3; machine++) {
        const int workers = machine == 2 ? 8 : 4;
        struct comparison_row *rows[4] = {add(made, 0, "uniform", "1f1b-async", "stash", workers),
                                          add(made, 0, "auto", "1f1b-async", "2bw", workers),
                                          add(made, 0, "bipartition", "gpipe", "sync", workers),
                                          add(made, 0, "pipedream", "1f1b-async", "pipeoptim", workers)};
        for (int r = 0; r < 4; r++) {
            rows[r]->row.bandwidth_bytes_per_s = machine == 0 ? 12.5e6 : machine == 1 ? 1.25e9 : 125e3;
            rows[r]->row.memory_limit_bytes = machine == 2 ? (int64_t)1536 << 20 : 0;
            if (machine == 0) strcpy(rows[r]->bandwidth, "100Mbit/s");
        }
        simulate(rows[0], "uniform", machine == 0 ? 0.2 : 0.1, 700 << 20, 4);
        simulate(rows[1], "madpipe", machine == 0 ? 0.15625 : 0.08, 600 << 20, 2);
        rows[1]->row.lower_bound_s = 0.07;
        rows[1]->row.gap = 0.125;
        rows[1]->row.solve_s = 1.5;
        if (machine == 0)
            simulate(rows[2], "bipartition", 0.18, 512, 1);
        else
            refuse(rows[2], "no plan fits: worker 0 needs 2.31 GiB for its weights, activations and the blocks that it sends, "
                            "and has 1.50 GiB; /a/path/without/any/blank/that/is/longer/than/a/line/of/the/table/has/columns/"
                            "and/so/has/to/be/broken/where/it/ends.json");
        strcpy(rows[3]->chosen, "pipedream");
        rows[3]->row.objective_s = 0.123456;
    }
    struct comparison_row *row = add(made, 1, "uniform", "chimera", "sync", 1);
    simulate(row, "uniform", 0.25, 1000, 1);
    strcpy(row->wire, "auto:topk:0.05");
    row = add(made, 1, "madpipe-contiguous", "zb-v", "sync", 1);
    simulate(row, "madpipe-contiguous", 0.3, ((int64_t)5 << 30) + 1000, 1);
    strcpy(row->wire, "activation=int8+gradient=bf16");
    rank(made, NULL, "throughput");
    return made;
}

static struct ps_comparison *one_row(void) {
    static const char *const models[] = {"lenet5"};
    struct ps_comparison *made = make_comparison(models, 1, 1, 1);
    simulate(add(made, 0, "uniform", "gpipe", "sync", 2), "uniform", 0.125, 1 << 20, 1);
    rank(made, "memory", "throughput");
    return made;
}

/* One plan for each of three machines, which have nothing between them; the last has none. Of what size a
 * micro-batch is the costs do not say. */
static struct ps_comparison *each_machine(void) {
    static const char *const models[] = {"lenet5"};
    struct ps_comparison *made = make_comparison(models, 1, 3, 1);
    for (int machine = 0; machine < 3; machine++) {
        struct comparison_row *row = add(made, 0, "uniform", "gpipe", "sync", 4);
        row->row.bandwidth_bytes_per_s = machine == 0 ? 0 : machine == 1 ? 999.5e6 : 1000;
        row->row.memory_limit_bytes = machine < 2 ? 0 : 1 << 20;
        if (machine < 2) simulate(row, "uniform", machine == 0 ? 0.125 : 0.5, 1 << 20, 1);
        if (machine < 2)
            row->row.micro_batch = 0; /* its size is not known */
        else
            refuse(row, "no plan fits");
    }
    rank(made, NULL, "throughput");
    return made;
}

/* Trained for an epoch alone: there is no way from one evaluation to the next. */
static struct ps_comparison *one_epoch(void) {
    static const char *const models[] = {"lenet5"};
    static const double accuracy = 0.5;
    struct ps_comparison *made = make_comparison(models, 1, 2, 1);
    for (int w = 0; w < 2; w++)
        train(add(made, 0, "uniform", "gpipe", w == 0 ? "stash" : "sync", 2), PS_METRIC_ACCURACY, 10 + w, 1, &accuracy, 2);
    rank(made, NULL, "metric");
    return made;
}

static struct ps_comparison *largest(void) {
    static const char *const models[] = {"bert-{layers}"};
    struct ps_comparison *made = make_comparison(models, 1, 6, 1);
    strcpy(made->largest, "layers");
    for (int machine = 0; machine < 2; machine++)
        for (int m = 0; m < 3; m++) {
            struct comparison_row *row =
                add(made, 0, m == 0 ? "bapipe" : "uniform", m == 1 ? "gpipe" : "1f1b", "sync", machine + 1);
            row->row.memory_limit_bytes = (int64_t)16 << 30;
            strcpy(row->memory, "16GiB");
            if (m == 1 && machine == 0) {
                refuse(row, "the smallest, layers=1, needs more");
                continue;
            }
            simulate(row, row->method, 0.5 - 0.1 * m, (int64_t)15 << 30, 1);
            row->row.largest = 40 * (machine + 1) + 7 * m;
            row->row.parameters = m == 0 ? 445600000 : m == 1 ? 1234567890 : 1000000000;
        }
    rank(made, NULL, "largest");
    return made;
}

/* A network of each metric. */
static struct ps_comparison *trained(const char *by) {
    static const char *const models[] = {"resnet", "gnmt", "gpt2", "<my \"own\" & best>.json", "alexnet", "alexnet"};
    static const double accuracies[] = {0.25,   0.5,      0.75,      0.8125,   0.78125,   0.875, 0.90625,
                                        0.9375, 0.921875, 0.9453125, 0.953125, 0.9609375, 0.95},
                        scores[] = {1.5, 10.25, 20.125}, perplexities[] = {900, 120.5, 60.25}, losses[] = {1.5, 0.75};
    struct ps_comparison *made = make_comparison(models, 6, 17, 1);
    static const char *const weights[] = {"stash", "latest", "pipeoptim"};
    made->directory = strdup("kept");
    for (int w = 0; w < 4; w++) {
        struct comparison_row *row = add(made, 0, "uniform", "1f1b-async", weights[w % 2], 2 + w / 2);
        row->directory = strdup("kept/rows/000");
        train(row, PS_METRIC_ACCURACY, 100 + 50 * w, 13 - 9 * (w == 1), accuracies, 2.5 - 0.5 * w);
        row->row.target = 0.8;
        row->row.target_epoch = w == 0 ? 4 : 0;
        row->row.target_s = w == 0 ? 10 : NAN;
        row->run->info.top5 = 0.9;
    }
    for (int w = 0; w < 3; w++)
        train(add(made, 1, "uniform", "1f1b-async", weights[w], 2), PS_METRIC_BLEU, 20 - w, 3, scores, 60);
    for (int w = 0; w < 3; w++) {
        struct comparison_row *row = add(made, 2, "auto", "1f1b-async", weights[w], 2);
        train(row, PS_METRIC_PERPLEXITY, 1234.5, 3 - w, perplexities, 7);
        if (w == 1) strcpy(row->chosen, "madpipe");
    }
    for (int w = 0; w < 3; w++)
        train(add(made, 3, "pipedream", "1f1b-async", weights[w], 1), PS_METRIC_LOSS, 10.0 / (w + 1), w > 0 ? 2 : 0, losses,
              0.5);
    for (int p = 0; p < 2; p++) {
        struct comparison_row *row = add(made, 4 + p, "uniform", "gpipe", "sync", 2), *refused;
        strcpy(row->wire, "int8");
        train(row, PS_METRIC_ACCURACY, 75 + p, 0, NULL, 0);
        refused = add(made, 4 + p, "uniform", "1f1b-async", "sync", 2);
        refuse(refused, "1f1b-async does not flush: sync is for schedules that do");
        strcpy(row->precision, p == 0 ? "f32" : "bf16");
        strcpy(refused->precision, row->precision);
    }
    made->networks[5].number = 4; /* the same network in another precision */
    rank(made, by, "metric");
    return made;
}

/* Three seeds, of which one or two were not trained, or have not reached the target. */
static struct ps_comparison *seeds(void) {
    static const char *const models[] = {"vgg16,classes=10"};
    static const double ways[3][2] = {{0.5, 0.75}, {0.5625, 0.6875}, {0.625, 0.8125}};
    static const char *const weights[] = {"stash", "latest", "pipeoptim", "sync"};
    struct ps_comparison *made = make_comparison(models, 1, 12, 3);
    for (int w = 0; w < 4; w++)
        for (int s = 0; s < 3; s++) {
            struct comparison_row *row = add(made, 0, "uniform", "1f1b-async", weights[w], 2);
            row->row.seed = (uint64_t)s;
            if (w == 3 || (w == 1 && s == 0)) {
                refuse(row, w == 3 ? "1f1b-async does not flush" : "the loss became infinite in step 7");
                continue;
            }
            train(row, PS_METRIC_ACCURACY, 10 * (w + 1) + s, 1 + (s > 0 || w == 0), ways[s], 4 + s);
            row->run->info.top5 = 0.75 + 0.0625 * s;
            row->run->info.valid_top5 = 0.625 + 0.125 * s;
            row->row.target = 0.7;
            row->row.target_epoch = ways[s][1] > 0.7 ? 2 : 0;
            row->row.target_s = ways[s][1] > 0.7 ? 8 + s : NAN;
        }
    rank(made, "throughput", "metric");
    return made;
}

/* Names so long that all figures go for which there is a choice, and then the names' ends: plans, largest networks, runs. */
static struct ps_comparison *crowded(int kind) {
    static const char *const models[] = {"m"};
    static const double losses[] = {1.5, 0.75};
    struct ps_comparison *made = make_comparison(models, 1, 4, kind == 2 ? 2 : 1);
    if (kind == 1) strcpy(made->largest, "layers");
    for (int r = 0; r < 4; r++) {
        const char *long_name = r / 2 ? "a-method-of-thirty-one-letters-" : "another-method-of-as-many-words";
        struct comparison_row *row = add(made, 0, long_name, r / 2 ? "a-schedule-of-twenty-nine-let" : "1f1b-async",
                                         r / 2 ? "weights-whose-name-is-long-too" : "sync", 1 + r / 2);
        strcpy(row->wire, r / 2 ? "activation=topk:0.05+gradient=topk:0.05" : "auto");
        strcpy(row->memory, r / 2 ? "1.25GiB" : "16GiB");
        strcpy(row->bandwidth, r / 2 ? "12.5Gbit/s" : "100Mbit/s");
        row->row.memory_limit_bytes = (int64_t)(16 - r / 2) << 30;
        row->row.bandwidth_bytes_per_s = 1e9 * (1 + r / 2);
        if (kind == 2) {
            train(row, PS_METRIC_PERPLEXITY, 1000 + r, 2, losses, 7);
            row->run->info.accuracy = row->run->info.valid_accuracy = 0.5;
            row->run->info.valid_bleu = 20 + r;
            row->row.target = 1;
            row->row.target_epoch = 2;
            row->row.target_s = 14;
            row->row.seed = (uint64_t)(r % 2);
            continue;
        }
        simulate(row, "the-one-that-it-chose-of-all-it", 0.25, (int64_t)3 << (28 + r), 1 + r);
        row->row.lower_bound_s = 0.2;
        row->row.gap = 0.25;
        row->row.solve_s = 1.5;
        if (kind == 1) row->row.largest = 40 + r;
        if (kind == 1) row->row.parameters = 445600000;
    }
    rank(made, NULL, kind == 0 ? "throughput" : kind == 1 ? "largest" : "metric");
    return made;
}

/* ----------------------------------------------------------------------------- tests */

static void add_file(struct text *out, const char *path) {
    char *text;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &text, &size, &test_error));
    text_add(out, "%s\n", text);
    free(text);
}

static void add_json(struct text *out, const char *name, const json_t *value) {
    char *line = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    assert_non_null(line);
    text_add(out, "%s: %s\n", name, line);
    free(line);
}

/* What the document has of all rows, of the first and the last row, and of the seeds together. */
static void add_document(struct text *out, const struct ps_comparison *comparison) {
    char *document = ps_comparison_json(comparison);
    json_t *root = json_loads(document, JSON_REJECT_DUPLICATES, NULL), *rows = json_object_get(root, "rows"), *value;
    const char *key;
    size_t i;
    assert_int_equal(json_array_size(rows), ps_comparison_count(comparison));
    json_object_foreach(root, key, value) if (!json_is_object(json_array_get(value, 0))) add_json(out, key, value);
    add_json(out, "first row", json_array_get(rows, 0));
    add_json(out, "last row", json_array_get(rows, json_array_size(rows) - 1));
    json_array_foreach(json_object_get(root, "combinations"), i, value) add_json(out, "combination", value);
    json_decref(root);
    free(document);
}

/* Table and grid; and if `all` the document, the CSV file and the picture. */
static void write_down(const char *name, struct ps_comparison *comparison, bool all, struct text *out) {
    char path[4096], *const made[] = {ps_comparison_table(comparison), ps_comparison_grid(comparison)};
    text_add(out, "=== %s\n", name);
    for (int m = 0; m < 2; m++) {
        assert_non_null(made[m]);
        text_add(out, "%s\n", made[m]);
        for (const char *line = made[m]; *line;) {
            size_t length = strcspn(line, "\n"), points = 0;
            for (size_t i = 0; i < length; i++) points += ((unsigned char)line[i] & 0xC0) != 0x80;
            assert_true(points <= 120);
            line += length + (line[length] == '\n');
        }
        free(made[m]);
    }
    if (all) {
        add_document(out, comparison);
        assert_ok(ps_comparison_write_csv(comparison, file_join(path, test_directory, "rows.csv"), &test_error));
        add_file(out, path);
        assert_ok(ps_comparison_write_svg(comparison, file_join(path, test_directory, "rows.svg"), &test_error));
        add_file(out, path);
    }
    ps_comparison_destroy(comparison);
}

static void test_texts(void **state) {
    struct text texts = {0};
    (void)state;
    write_down("simulated", simulated(), true, &texts);
    write_down("one row, by memory", one_row(), false, &texts);
    write_down("one row of each machine", each_machine(), true, &texts);
    write_down("one epoch", one_epoch(), true, &texts);
    write_down("largest", largest(), true, &texts);
    write_down("trained, by the metric", trained(NULL), true, &texts);
    write_down("trained, by the loss", trained("loss"), false, &texts);
    write_down("trained, by the time to the target", trained("target"), false, &texts);
    write_down("three seeds", seeds(), true, &texts);
    write_down("crowded plans", crowded(0), false, &texts);
    write_down("crowded sizes", crowded(1), false, &texts);
    write_down("crowded runs", crowded(2), true, &texts);
    test_golden(TEST_DIRECTORY "/golden/comparisons.txt", text_take(&texts));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
