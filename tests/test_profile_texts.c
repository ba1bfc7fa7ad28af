/*
 * Profiles as they are written, to the byte: files and tables of costs from models, and of costs measured by a clock that goes
 * on by the same time at each look, and by more at some. What stands in the file is looked at by eye when it changes.
 *
 *   PENSTOCK_REGENERATE=1 build/release/tests/test_profile_texts     writes tests/golden/profiles.txt anew
 */
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "profile/profile.h"
#include "support.h"

/* ------------------------------------------------------------------------- the clock */

static struct {
    int looks, each; /* times seen; of those every so many come late; 0: none */
    double seconds, step_s, late_s, share;
} clock_state;

/* In place of the library's. Nothing that is profiled here runs on a second thread. */
double clock_now(void) {
    clock_state.looks++;
    const bool late = clock_state.each > 0 && clock_state.looks % clock_state.each == 0;
    return clock_state.seconds += late ? clock_state.late_s : clock_state.step_s;
}

double clock_of_thread(void) { return clock_state.share * clock_state.seconds; }

static void set_clock(double step_s, int each, double late_s) {
    clock_state.looks = 0;
    clock_state.seconds = 0;
    clock_state.share = 1;
    clock_state.each = each;
    clock_state.step_s = step_s;
    clock_state.late_s = late_s;
}

/* ------------------------------------------------------------------------- profiles */

static struct ps_profile *measure(const char *model, struct ps_profile_options options, const int *sizes, int count) {
    struct ps_network *network;
    struct ps_profile *profile;
    options.struct_size = sizeof options;
    options.micro_batches = sizes;
    options.micro_batch_count = count;
    options.busy = 1;
    assert_ok(ps_network_open(model, &network, &test_error));
    assert_ok(ps_profile_measure(network, &options, &profile, &test_error));
    ps_network_destroy(network);
    return profile;
}

/* Without what is 0. */
static json_t *shortened(const json_t *value) {
    json_t *made = json_copy((json_t *)value), *item;
    const char *key;
    void *next;
    json_object_foreach_safe(made, next, key, item) if (json_is_number(item) && json_number_value(item) == 0)
        json_object_del(made, key);
    return made;
}

/* The table, and the file: a layer in a line, with as many digits as all machines agree on. */
static void add(const char *name, struct ps_profile *profile, struct text *out) {
    char *table = ps_profile_table(profile), *text = ps_profile_json(profile);
    json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, NULL), *costs, *value;
    const char *key;
    size_t t, l;
    assert_true(table && document);
    text_add(out, "=== %s\n%s\n", name, table);
    json_object_foreach(document, key, value) {
        if (strcmp(key, "costs") == 0) continue;
        char *line = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(5));
        text_add(out, "%s: %s\n", key, line);
        free(line);
    }
    json_array_foreach(json_object_get(document, "costs"), t, costs) json_object_foreach(costs, key, value) {
        text_add(out, "costs[%zu].%s:", t, key);
        json_t *list = json_is_array(value) ? json_incref(value) : json_pack("[O]", value), *item;
        json_array_foreach(list, l, item) {
            json_t *shown = shortened(item);
            char *line = json_dumps(shown, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(5));
            text_add(out, "%s%s", json_is_array(value) ? "\n    " : " ", line);
            free(line);
            json_decref(shown);
        }
        text_add(out, "\n");
        json_decref(list);
    }
    json_decref(document);
    free(text);
    free(table);
    ps_profile_destroy(profile);
}

static void add_measured(const char *name, const char *model, struct ps_profile_options options, const int *sizes, int count,
                         struct text *out) {
    options.device = "reference";
    add(name, measure(model, options, sizes, count), out);
    text_add(out, "%d looks at the clock\n", clock_state.looks);
}

static const char lenet[] = "lenet5,input=12,classes=3";

static void test_texts(void **state) {
    (void)state;
    static const char *const networks[] = {lenet, "gnmt8,seq=3,target=4,hidden=16,vocab=20",
                                           "gpt2,layers=1,width=16,heads=2,seq=4,vocab=20,tied=1"};
    static const char *const devices[] = {"gpu:p100", "gpu:v100", "fpga:vcu118", "fpga:vcu129"};
    static const int two[] = {64, 2}, four[] = {4};
    struct text texts = {0};
    char name[128];
    for (int n = 0; n < 3; n++)
        for (int d = 0; d < 4; d++) {
            if (n > 0 && d > 0) continue;
            snprintf(name, sizeof name, "%s on %s", networks[n], devices[d]);
            add(name, measure(networks[n], (struct ps_profile_options){.device = devices[d]}, two, n + d == 0 ? 2 : 1), &texts);
        }
    set_clock(0.00006103515625, 0, 0);
    add_measured("as often as is usual in a quarter of a second", lenet, (struct ps_profile_options){0}, four, 1, &texts);
    set_clock(0.0009765625, 0, 0);
    add_measured("as often as is usual at least", lenet, (struct ps_profile_options){0}, four, 1, &texts);
    set_clock(0.0009765625, 7, 0.015625);
    add_measured("so often, each seventh look late", lenet,
                 (struct ps_profile_options){.warmup = 3, .repeats = 5, .threads = 1}, two, 2, &texts);
    set_clock(0.0009765625, 33, 0.25);
    add_measured("in pieces, with a shared parameter", networks[2],
                 (struct ps_profile_options){.warmup = 1, .repeats = 4, .memory_bytes = 40000}, four, 1, &texts);
    set_clock(0.0009765625, 0, 0);
    add_measured("with running statistics", "resnet,blocks=1,input=8,classes=3",
                 (struct ps_profile_options){.warmup = 1, .repeats = 1}, four, 1, &texts);
    set_clock(0.0009765625, 0, 0);
    add_measured("quick", lenet, (struct ps_profile_options){.quick = true}, four, 1, &texts);
    set_clock(0.125, 0, 0);
    add_measured("quick, slow", lenet, (struct ps_profile_options){.quick = true}, four, 1, &texts);
    test_golden(TEST_DIRECTORY "/golden/profiles.txt", text_take(&texts));
}

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    text_add(context, "%d %s\n", (int)level, text);
}

static void keep_progress(void *context, const char *what, double done, double total, const char *detail) {
    text_add(context, "%s %.3f of %.3f, %s\n", what, done, total, detail);
}

/* What is said while it measures, and where other programs had the core for more than a fifth of the time. */
static void test_said(void **state) {
    (void)state;
    static const double shares[] = {0.75, 0.8125};
    static const int sizes[] = {2, 1};
    struct text said[2] = {{0}, {0}};
    for (int s = 0; s < 2; s++) {
        const struct ps_log_sink sink = {.struct_size = sizeof sink,
                                         .context = &said[s],
                                         .level = PS_LOG_INFO,
                                         .line = keep_line,
                                         .progress = s > 0 ? keep_progress : NULL};
        set_clock(0.0009765625, 0, 0);
        clock_state.share = shares[s];
        /* To the process's log, or to one that goes with the options; and no longer after that. */
        struct ps_profile_options options = {.device = "reference", .warmup = 1, .repeats = 2, .log = s > 0 ? &sink : NULL};
        if (s == 0) assert_ok(ps_log_to(&sink, &test_error));
        ps_profile_destroy(measure(lenet, options, sizes, 2 - s));
        if (s == 0) assert_ok(ps_log_to(NULL, &test_error));
        const size_t length = said[s].length;
        options.log = NULL;
        ps_profile_destroy(measure(lenet, options, sizes, 1));
        assert_int_equal(said[s].length, length);
    }
#define DISTURBED                                                                                                              \
    "1 other programs had the core for 25% of the time in which this was measured: predictions will be too slow for a "        \
    "machine without them\n"
    assert_string_equal(said[0].data, DISTURBED DISTURBED);
    assert_string_equal(said[1].data, "profiling 0.000 of 7.000, micro-batch 2\n"
                                      "profiling 2.333 of 7.000, micro-batch 2\n"
                                      "profiling 4.667 of 7.000, micro-batch 2\n"
                                      "profiling 7.000 of 7.000, micro-batch 2\n");
    for (int s = 0; s < 2; s++) text_free(&said[s]);
    struct ps_network *network;
    struct ps_profile *profile;
    const struct ps_log_sink broken = {.struct_size = 1};
    const struct ps_profile_options options = {
        .struct_size = sizeof options, .micro_batches = sizes, .micro_batch_count = 1, .log = &broken};
    assert_ok(ps_network_open(lenet, &network, &test_error));
    assert_status(ps_profile_measure(network, &options, &profile, &test_error), PS_USAGE, "struct_size");
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
