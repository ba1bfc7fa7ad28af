/*
 * A program's locale says how people write numbers; it must not say how files are written and options are read. All texts of a
 * plan's life are made in the C locale and in one with decimal commas, and are the same.
 */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "support.h"

/* Sets a locale with decimal commas: one that is installed, or German, made in the directory of the tests. */
static bool set_commas(void) {
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "nl_NL.UTF-8", "es_ES.UTF-8", "de_DE"};
    char command[4200];
    bool found = false;
    for (size_t n = 0; n < sizeof names / sizeof names[0] && !found; n++) found = setlocale(LC_ALL, names[n]) != NULL;
    if (!found) {
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", test_directory);
        setenv("LOCPATH", test_directory, 1);
        found = system(command) <= 256 && setlocale(LC_ALL, "de_DE.UTF-8") != NULL; /* 1: with warnings */
    }
    return found && strcmp(localeconv()->decimal_point, ",") == 0;
}

static const char costs[] = "name,forward_s,backward_s,parameter_bytes,output_bytes\n"
                            "one,1.5e-3,0.0031,1000.0,64\ntwo,0.25e-2,4.125e-3,2000,128\nthree,.0015,1e-3,500,64\n";

struct work {
    struct ps_profile *profile;
    struct ps_cluster *cluster;
    struct ps_plan *plan;
};

static void add_text(struct text *out, char *text) {
    assert_non_null(text);
    text_add(out, "%s\n", text);
    free(text);
}

static void add_file(struct text *out, const char *path) {
    char *data;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &data, &size, &test_error));
    add_text(out, data);
}

static void add_simulation(struct text *out, const struct work *work) {
    struct ps_simulation *simulation;
    char path[4096];
    assert_ok(ps_simulate(work->plan, work->profile, work->cluster, 3, &simulation, &test_error));
    add_text(out, ps_simulation_json(simulation));
    add_text(out, ps_simulation_table(simulation));
    add_text(out, ps_simulation_timeline(simulation, 80, false));
    file_join(path, test_directory, "drawing.svg");
    assert_ok(ps_simulation_write_svg(simulation, path, &test_error));
    add_file(out, path);
    file_join(path, test_directory, "trace.json");
    assert_ok(ps_simulation_write_trace(simulation, path, &test_error));
    add_file(out, path);
    ps_simulation_destroy(simulation);
}

/* Everything that reads or writes numbers, in the locale that is set. */
static char *all_texts(const struct work *work) {
    struct text out = {0};
    struct ps_profile *profile;
    double rate, time;
    int64_t bytes;
    char path[4096];
    file_join(path, test_directory, "costs.csv");
    assert_ok(ps_profile_read(path, &profile, &test_error));
    add_text(&out, ps_profile_json(profile));
    add_text(&out, ps_profile_table(profile));
    file_join(path, test_directory, "again.json");
    assert_ok(ps_profile_write(profile, path, &test_error));
    ps_profile_destroy(profile);
    assert_ok(ps_profile_read(path, &profile, &test_error));
    add_text(&out, ps_profile_json(profile));
    ps_profile_destroy(profile);
    add_text(&out, ps_plan_json(work->plan));
    add_text(&out, ps_plan_table(work->plan));
    add_text(&out, ps_cluster_json(work->cluster));
    add_simulation(&out, work);
    assert_ok(units_parse_rate("1.5GB/s", "rate", &rate, &test_error));
    assert_ok(units_parse_time("2.5ms", "time", &time, &test_error));
    assert_ok(units_parse_size("1.5KiB", "size", &bytes, &test_error));
    assert_true(rate == 1.5e9 && time == 2.5e-3 && bytes == 1536);
    assert_status(units_parse_rate("1,5GB/s", "rate", &rate, &test_error), PS_USAGE, "is not a rate");
    error_set(&test_error, PS_USAGE, "%g of %.2f", 0.5, 1.25);
    text_add(&out, "%s\n", test_error.message);
    test_error = (struct ps_error){0};
    json_t *line = json_pack("{s:f}", "loss", 0.125);
    add_text(&out, json_dump_text(line, JSON_REAL_PRECISION(9)));
    json_decref(line);
    return text_take(&out);
}

static void test_commas(void **state) {
    (void)state;
    struct work work;
    char path[4096];
    file_join(path, test_directory, "costs.csv");
    test_file_write(path, costs, sizeof costs - 1);
    assert_ok(ps_profile_read(path, &work.profile, &test_error));
    struct ps_cluster_options options = {
        .struct_size = sizeof options, .workers = 2, .bandwidth_bytes_per_s = 1.5e6, .latency_s = 1.25e-5};
    assert_ok(ps_cluster_uniform(&options, &work.cluster, &test_error));
    assert_ok(ps_plan_find(work.profile, work.cluster, &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options)},
                           &work.plan, &test_error));
    char *plain = all_texts(&work);
    bool set = set_commas();
    char *commas = set ? all_texts(&work) : NULL, number[32] = "";
    if (set) snprintf(number, sizeof number, "%.1f", 1.5);
    bool kept = !set || strcmp(number, "1,5") == 0; /* the program's own locale is as it was */
    setlocale(LC_ALL, "C");
    ps_plan_destroy(work.plan);
    ps_cluster_destroy(work.cluster);
    ps_profile_destroy(work.profile);
    if (set) assert_string_equal(plain, commas);
    assert_true(kept);
    free(plain);
    free(commas);
    if (!set) skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_commas)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
