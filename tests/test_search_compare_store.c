/*
 * A comparison that is kept: what another comparison is, in one line that says where they differ; rows that are done are read,
 * whatever they say; and what is logged of it.
 */
#include <fcntl.h>
#include <jansson.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "search_support.h"

/* What is asked; to be changed. */
struct asked {
    const char *methods[2], *schedules[2], *weights[2], *wires[2];
    int workers[2];
    int64_t memory[2];
    double bandwidth[2];
    struct ps_plan_options planning;
    struct ps_cluster_options machines;
    struct ps_compare_options options;
    char out[4096];
};

static void ask(struct asked *it, const char *out) {
    *it = (struct asked){.methods = {"uniform", "pipedream"},
                         .schedules = {"1f1b", "gpipe"},
                         .weights = {"sync", "stash"},
                         .wires = {"none", "topk:0.05"},
                         .workers = {2, 9},
                         .memory = {1 << 30, 1 << 20},
                         .bandwidth = {2.5e6, 1e6}};
    ps_plan_options_init(&it->planning);
    ps_cluster_options_init(&it->machines);
    file_join(it->out, test_directory, out);
    it->options = (struct ps_compare_options){.struct_size = sizeof it->options,
                                              .methods = it->methods,
                                              .method_count = 1,
                                              .schedules = it->schedules,
                                              .schedule_count = 1,
                                              .weights = it->weights,
                                              .weights_count = 1,
                                              .workers = it->workers,
                                              .worker_count = 1,
                                              .memory_bytes = it->memory,
                                              .memory_count = 1,
                                              .bandwidth_bytes_per_s = it->bandwidth,
                                              .bandwidth_count = 1,
                                              .planning = &it->planning,
                                              .machines = &it->machines,
                                              .wires = it->wires,
                                              .wire_count = 1,
                                              .out = it->out};
}

enum change {
    METHODS,
    SCHEDULES,
    WEIGHTS,
    WIRES,
    WORKERS,
    MEMORY,
    BANDWIDTH,
    BATCH_PER_WORKER,
    MICRO_BATCH,
    MICRO_BATCHES,
    BATCH,
    OPTIMIZER,
    RECOMPUTE,
    PAPER_PREDICTION,
    REPLICATE,
    PAPER_COST,
    MODULE_DEPTH,
    SLACK,
    LATENCY,
    NO_OVERLAP,
    STREAMING,
    CORES,
    CHANGES
};

static const char *const differences[CHANGES] = {
    [METHODS] = "`methods` is [\"uniform\"] there and [\"uniform\",\"pipedream\"] here",
    [SCHEDULES] = "`schedules` is [\"1f1b\"] there and [\"gpipe\"] here",
    [WEIGHTS] = "`weights` is [\"sync\"] there and [\"stash\"] here",
    [WIRES] = "`wires` is [\"none\"] there and [\"topk:0.05\"] here",
    [WORKERS] = "`workers` is [2] there and [9] here",
    [MEMORY] = "`memory_bytes` is [1073741824] there and [1048576] here",
    [BANDWIDTH] = "`bandwidth_bytes_per_s` is [2500000.0] there and [1000000.0] here",
    [BATCH_PER_WORKER] = "`batch_per_worker` is 0 there and 3 here",
    [MICRO_BATCH] = "`micro_batch` is 0 there and 1 here",
    [MICRO_BATCHES] = "`micro_batches` is 0 there and 5 here",
    [BATCH] = "`batch` is 0 there and 6 here",
    [OPTIMIZER] = "`optimizer` is not given there and \"adam\" here",
    [RECOMPUTE] = "`recompute` is false there and true here",
    [PAPER_PREDICTION] = "`paper_prediction` is false there and true here",
    [REPLICATE] = "`replicate` is false there and true here",
    [PAPER_COST] = "`paper_cost` is false there and true here",
    [MODULE_DEPTH] = "`module_depth` is 0 there and 2 here",
    [SLACK] = "`slack` is 0 there and 3 here",
    [LATENCY] = "`latency_s` is 0.0 there and 0.125 here",
    [NO_OVERLAP] = "`no_overlap` is false there and true here",
    [STREAMING] = "`streaming` is false there and true here",
    [CORES] = "`cores` is 0 there and 1 here",
};

static void change(struct asked *it, enum change what) {
    switch (what) {
    case METHODS:
        it->options.method_count = 2;
        break;
    case SCHEDULES:
        it->options.schedules++;
        break;
    case WEIGHTS:
        it->options.weights++;
        break;
    case WIRES:
        it->options.wires++;
        break;
    case WORKERS:
        it->options.workers++;
        break;
    case MEMORY:
        it->options.memory_bytes++;
        break;
    case BANDWIDTH:
        it->options.bandwidth_bytes_per_s++;
        break;
    case BATCH_PER_WORKER:
        it->options.batch_per_worker = 3;
        break;
    case MICRO_BATCH:
        it->planning.micro_batch = 1;
        break;
    case MICRO_BATCHES:
        it->planning.micro_batches = 5;
        break;
    case BATCH:
        it->planning.batch = 6;
        break;
    case OPTIMIZER:
        it->planning.optimizer = "adam";
        break;
    case RECOMPUTE:
        it->planning.recompute = true;
        break;
    case PAPER_PREDICTION:
        it->planning.paper_prediction = true;
        break;
    case REPLICATE:
        it->planning.replicate = true;
        break;
    case PAPER_COST:
        it->planning.paper_cost = true;
        break;
    case MODULE_DEPTH:
        it->planning.module_depth = 2;
        break;
    case SLACK:
        it->planning.slack = 3;
        break;
    case LATENCY:
        it->machines.latency_s = 0.125;
        break;
    case NO_OVERLAP:
        it->machines.no_overlap = true;
        break;
    case STREAMING:
        it->machines.streaming = true;
        break;
    case CORES:
        it->machines.cores = 1;
        break;
    case CHANGES:
        break;
    }
}

static void every_difference_is_told(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_comparison *comparison;
    struct asked it;
    for (enum change what = METHODS; what <= CHANGES; what++) {
        ask(&it, "kept");
        assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
        ps_comparison_destroy(comparison);
        if (what == CHANGES) break;
        change(&it, what);
        char wanted[4200];
        snprintf(wanted, sizeof wanted, "`out`: %s holds another comparison: %s", it.out, differences[what]);
        assert_int_equal(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE);
        assert_string_equal(test_error.message, wanted);
        assert_string_equal(test_error.hint, "give the words that began it, or another directory");
        test_error = (struct ps_error){0};
        /* That one is a comparison of its own. */
        char name[16];
        snprintf(name, sizeof name, "own%d", (int)what);
        file_join(it.out, test_directory, name);
        /* No layer of these is in a module, and their schedule has no slack. */
        if (what == MODULE_DEPTH || what == SLACK) continue;
        assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
        ps_comparison_destroy(comparison);
    }
    /* Earlier versions said less of a network and of planning. */
    json_error_t error;
    char path[4096];
    ask(&it, "kept");
    json_t *document = json_load_file(file_join(path, it.out, "comparison.json"), 0, &error);
    assert_int_equal(json_object_del(json_array_get(json_object_get(document, "networks"), 0), "profile_checksum"), 0);
    assert_int_equal(json_object_del(json_object_get(document, "planning"), "slack"), 0);
    ask(&it, "earlier");
    assert_int_equal(mkdir(it.out, 0755), 0);
    assert_int_equal(json_dump_file(document, file_join(path, it.out, "comparison.json"), 0), 0);
    json_decref(document);
    assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
    ps_comparison_destroy(comparison);
    /* Costs that have changed, and other networks. */
    ask(&it, "kept");
    const struct ps_profile *both[] = {profile, profile};
    it.options.profiles = both;
    it.options.profile_count = 2;
    assert_status(ps_compare(NULL, &it.options, &comparison, &test_error), PS_USAGE,
                  "holds another comparison: of 1 networks, not 2");
    it.options.profiles = NULL;
    profile->tables[0].layers[3].time.forward_s *= 2;
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE,
                  "holds another comparison: `profile` has changed since");
    strcpy(profile->model, "odd");
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE,
                  "holds another comparison: `model` is \"even\" there and \"odd\" here");
    ps_profile_destroy(profile);
}

/* A grid of all the lists' values, some of which have no plan. */
static void ask_all(struct asked *it, const char *out) {
    ask(it, out);
    it->options.method_count = it->options.schedule_count = it->options.weights_count = it->options.wire_count =
        it->options.worker_count = it->options.memory_count = it->options.bandwidth_count = 2;
}

/* A file of a row with one value set; NULL: left out. */
static void set_value(const char *path, const char *key, json_t *value) {
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    assert_non_null(document);
    if (value)
        json_object_set_new(document, key, value);
    else
        json_object_del(document, key);
    assert_int_equal(json_dump_file(document, path, 0), 0);
    json_decref(document);
}

static void rows_that_are_done_are_read(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_comparison *comparison, *again;
    struct asked it;
    char path[4096], wanted[4096];
    ask_all(&it, "rows");
    assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
    assert_ok(ps_compare(profile, &it.options, &again, &test_error));
    char *first = ps_comparison_json(comparison), *second = ps_comparison_json(again);
    assert_string_equal(first, second);
    assert_string_equal(ps_comparison_info(again).directory, it.out);
    const int count = ps_comparison_count(comparison);
    assert_int_equal(count, 128);
    int planned = 0, refused = 0;
    for (int r = 0; r < count; r++) {
        const struct ps_comparison_row row = ps_comparison_row(again, r);
        snprintf(wanted, sizeof wanted, "%.4000s/rows/%03d-%s-%s-%s-%s-w%d", it.out, r + 1, it.methods[r % 2],
                 it.schedules[r / 2 % 2], it.weights[r / 4 % 2], r / 8 % 2 ? "topk-0.05" : "none", it.workers[r / 64]);
        assert_string_equal(row.directory, wanted);
        assert_true(file_exists(file_join(path, row.directory, "row.json")));
        assert_int_equal(file_exists(file_join(path, row.directory, "plan.json")), row.chosen != NULL);
        planned += row.chosen != NULL;
        refused += row.reason != NULL;
        assert_int_equal(row.status == PS_OK, row.reason == NULL);
    }
    assert_true(planned > 20 && refused > 20 && planned + refused == count);
    free(first);
    free(second);
    ps_comparison_destroy(again);

    /* Each value is taken from the file. */
    int chosen = 0;
    while (ps_comparison_row(comparison, chosen).reason) chosen++;
    file_join(path, ps_comparison_row(comparison, chosen).directory, "row.json");
    static const char *const numbers[] = {
        "period_s", "throughput_samples_per_s", "bubble", "speedup", "objective_s", "lower_bound_s", "gap", "solve_s"};
    static const char *const integers[] = {"memory_bytes", "weight_copies", "largest",      "parameters",
                                           "batch",        "micro_batch",   "micro_batches"};
    static const char *const texts[] = {"schedule", "weights", "chosen", "reason"};
    for (int n = 0; n < 8; n++) set_value(path, numbers[n], json_real(100.5 + n));
    for (int n = 0; n < 7; n++) set_value(path, integers[n], json_integer(200 + n));
    for (int n = 0; n < 4; n++) set_value(path, texts[n], json_string(texts[n]));
    set_value(path, "simulated", json_false());
    set_value(path, "status", json_integer(PS_NO_PLAN));
    assert_ok(ps_compare(profile, &it.options, &again, &test_error));
    const struct ps_comparison_row row = ps_comparison_row(again, chosen);
    const double got[] = {
        row.period_s, row.throughput_samples_per_s, row.bubble, row.speedup, row.objective_s, row.lower_bound_s, row.gap,
        row.solve_s};
    for (int n = 0; n < 8; n++) assert_true(got[n] == 100.5 + n);
    const int64_t counts[] = {row.memory_bytes, row.weight_copies, row.largest,      row.parameters,
                              row.batch,        row.micro_batch,   row.micro_batches};
    for (int n = 0; n < 7; n++) assert_int_equal(counts[n], 200 + n);
    assert_string_equal(row.schedule, "schedule");
    assert_string_equal(row.weights, "weights");
    assert_string_equal(row.chosen, "chosen");
    assert_string_equal(row.reason, "reason");
    assert_true(!row.simulated && row.status == PS_NO_PLAN);
    ps_comparison_destroy(again);

    /* Without a number it is not known; all else must be there, and of its kind. */
    for (int n = 0; n < 8; n++) set_value(path, numbers[n], NULL);
    assert_ok(ps_compare(profile, &it.options, &again, &test_error));
    assert_true(isnan(ps_comparison_row(again, chosen).period_s) && isnan(ps_comparison_row(again, chosen).solve_s));
    ps_comparison_destroy(again);
    for (int n = 0; n < 13; n++) {
        const char *key = n < 7 ? integers[n] : n < 11 ? texts[n - 7] : n == 11 ? "simulated" : "status";
        json_error_t error;
        json_t *document = json_load_file(path, 0, &error), *kept = json_incref(json_object_get(document, key));
        json_decref(document);
        set_value(path, key, NULL);
        assert_status(ps_compare(profile, &it.options, &again, &test_error), PS_BAD_INPUT, key);
        set_value(path, key, json_array());
        assert_status(ps_compare(profile, &it.options, &again, &test_error), PS_BAD_INPUT, key);
        set_value(path, key, kept);
    }
    set_value(path, "weight_copies", json_integer(-1));
    assert_status(ps_compare(profile, &it.options, &again, &test_error), PS_BAD_INPUT, "weight_copies");
    set_value(path, "weight_copies", json_integer(0));
    set_value(path, "memory_bytes", json_integer(-1));
    assert_status(ps_compare(profile, &it.options, &again, &test_error), PS_BAD_INPUT, "memory_bytes");
    set_value(path, "memory_bytes", json_integer(0));
    set_value(path, "status", json_integer(-1));
    assert_status(ps_compare(profile, &it.options, &again, &test_error), PS_BAD_INPUT, "status");
    set_value(path, "status", json_integer(0));
    assert_ok(ps_compare(profile, &it.options, &again, &test_error));
    ps_comparison_destroy(again);
    ps_comparison_destroy(comparison);
    ps_profile_destroy(profile);
}

static int open_descriptors(void) {
    int count = 0;
    for (int d = 0; d < 256; d++) count += fcntl(d, F_GETFD) >= 0;
    return count;
}

/* Directories that are something else, or somebody else's: none of them stays open. */
static void other_directories(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_comparison *comparison;
    struct asked it;
    char path[4096], wanted[4200];
    ask(&it, "locked");
    assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
    ps_comparison_destroy(comparison);
    const int before = open_descriptors(), other = open(it.out, O_RDONLY | O_DIRECTORY);
    assert_true(other >= 0 && flock(other, LOCK_EX | LOCK_NB) == 0);
    snprintf(wanted, sizeof wanted, "`out`: another process is comparing in %s", it.out);
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE, wanted);
    close(other);
    assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
    ps_comparison_destroy(comparison);
    /* Of another kind, or no comparison at all. */
    set_value(file_join(path, it.out, "comparison.json"), "kind", json_string("trained"));
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE,
                  "`kind` is \"trained\" there and \"simulated\" here");
    set_value(path, "kind", NULL);
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE,
                  "`kind` is not given there and \"simulated\" here");
    set_value(path, "kind", json_string("simulated"));
    set_value(path, "more", json_integer(1));
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE, "`more` is 1 there and not given here");
    set_value(path, "format", json_string("penstock-plan"));
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_BAD_INPUT, "penstock-plan");
    file_join(path, it.out, "config.json");
    set_value(file_join(path, it.out, "comparison.json"), "format", json_string("penstock-comparison"));
    assert_ok(file_write(file_join(path, it.out, "config.json"), "{}", 2, &test_error));
    snprintf(wanted, sizeof wanted, "`out`: %s holds a run; give another directory", it.out);
    assert_status(ps_compare(profile, &it.options, &comparison, &test_error), PS_USAGE, wanted);
    assert_int_equal(open_descriptors(), before);
    ps_profile_destroy(profile);
}

static struct heard {
    char lines[64][256];
    int count, rows; /* rows: after so many it is to stop */
} heard;

static void hear(void *context, enum ps_log_level level, const char *text) {
    (void)context;
    if (level != PS_LOG_INFO || heard.count == 64) return;
    snprintf(heard.lines[heard.count++], sizeof heard.lines[0], "%s", text);
}

static int stops(void *context) {
    (void)context;
    return heard.rows-- == 0;
}

static void assert_heard(int line, const char *wanted) {
    if (!strstr(heard.lines[line], wanted)) fail_msg("line %d is not '%s': %s", line, wanted, heard.lines[line]);
}

/* It says which row it makes and which were there; stopped, that they are kept or not. */
static void what_is_said(void **state) {
    (void)state;
    struct ps_profile *profile = even_profile();
    struct ps_comparison *comparison;
    struct asked it;
    char wanted[4300];
    const struct ps_log_sink log = {.struct_size = sizeof log, .level = PS_LOG_INFO, .line = hear};
    const struct ps_observer observer = {.struct_size = sizeof observer, .should_stop = stops};
    static const char *const memory[] = {"1 GiB"}, *const bandwidth[] = {"8 Gbit/s"};
    for (int kept = 1; kept >= 0; kept--) {
        ask(&it, "said");
        it.options.worker_count = 2;
        it.workers[0] = 1;
        it.workers[1] = 3;
        it.options.wire_count = kept ? 1 : 0;
        it.options.log = &log;
        it.options.observer = &observer;
        it.options.memory_texts = kept ? memory : NULL;
        it.options.bandwidth_texts = kept ? bandwidth : NULL;
        if (!kept) it.options.out = NULL;
        heard = (struct heard){.rows = 1};
        assert_int_equal(ps_compare(profile, &it.options, &comparison, &test_error), PS_STOPPED);
        assert_string_equal(test_error.message, "the comparison was stopped after 1 of 2 rows");
        if (kept)
            snprintf(wanted, sizeof wanted, "%s keeps them: the same command goes on from there", it.out);
        else
            snprintf(wanted, sizeof wanted, "nothing of it is kept; with `out` DIR the same command would go on");
        wanted[sizeof test_error.hint - 1] = '\0';
        assert_string_equal(test_error.hint, wanted);
        test_error = (struct ps_error){0};
        assert_int_equal(heard.count, 1);
        heard.rows = -1;
        assert_ok(ps_compare(profile, &it.options, &comparison, &test_error));
        ps_comparison_destroy(comparison);
        assert_int_equal(heard.count, 3);
        if (kept) {
            assert_heard(0, "row 1 of 2: even, method uniform, schedule 1f1b, weights sync, wire none, 1 worker, memory 1 GiB, "
                            "bandwidth 8 Gbit/s");
            assert_heard(1,
                         "row 2 of 2: even, method uniform, schedule 1f1b, weights sync, wire none, 3 workers, memory 1 GiB, "
                         "bandwidth 8 Gbit/s");
            assert_heard(2, "1 of 2 rows were done before, in ");
        } else {
            assert_heard(1, "row 1 of 2: even, method uniform, schedule 1f1b, weights sync, 1 worker");
            assert_heard(2, "row 2 of 2: even, method uniform, schedule 1f1b, weights sync, 3 workers");
        }
    }
    ps_profile_destroy(profile);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_difference_is_told),
        cmocka_unit_test(rows_that_are_done_are_read),
        cmocka_unit_test(other_directories),
        cmocka_unit_test(what_is_said),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
