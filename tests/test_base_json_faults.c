/*
 * Each allocation of the JSON library fails once: a document is then refused, never written without what it should say. The
 * texts of a plan's life, a header of safetensors, and texts that are read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "support.h"

/* Sanitizers refuse too large a size by ending the program, unless told. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static json_malloc_t allocate;
static int until_fault; /* 0: none any more */

/* In place of the library's function, which sees the failure. */
static void *allocate_or_fail(size_t size) {
    return until_fault > 0 && --until_fault == 0 ? allocate(PTRDIFF_MAX) : allocate(size);
}

static const char costs[] = "name,forward_s,backward_s,parameter_bytes,output_bytes\n"
                            "one,1.5e-3,0.0031,1000,64\ntwo,0.25e-2,4.125e-3,2000,128\nthree,.0015,1e-3,500,64\n";
static const char graph[] =
    "node1 -- Conv2d(3) -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=4\n"
    "node2 -- Linear(3) -- forward_compute_time=1, backward_compute_time=2, activation_size=4, parameter_size=4\n\tnode1 -- "
    "node2\n";
static struct ps_profile *profile, *graph_profile;
static struct ps_cluster *cluster;
static struct ps_plan *plan;
static struct ps_programs *programs;
static struct ps_simulation *simulation;
static struct ps_network *network;

static char *of_network(void) { return ps_network_json(network); }
static char *of_profile(void) { return ps_profile_json(profile); }
static char *of_graph(void) { return ps_profile_json(graph_profile); }
static char *of_profile_table(void) { return ps_profile_table(profile); }
static char *of_cluster(void) { return ps_cluster_json(cluster); }
static char *of_cluster_table(void) { return ps_cluster_table(cluster); }
static char *of_plan(void) { return ps_plan_json(plan); }
static char *of_plan_table(void) { return ps_plan_table(plan); }
static char *of_programs(void) { return ps_programs_json(programs); }
static char *of_programs_table(void) { return ps_programs_table(programs); }
static char *of_simulation(void) { return ps_simulation_json(simulation); }
static char *of_simulation_table(void) { return ps_simulation_table(simulation); }

static char *of_report(void) {
    const struct ps_report_options options = {
        .struct_size = sizeof options, .plan = plan, .profile = profile, .cluster = cluster};
    char *text = ps_report_json(&options, &test_error);
    test_error = (struct ps_error){0};
    return text;
}

static char *of_header(void) {
    static const int64_t shape[] = {6, 1, 5, 5};
    static const float values[150];
    const struct safetensor_source tensors[] = {{"conv1.weight", shape, 4, values, ARRAY_F32},
                                                {"conv1.bias", shape, 1, values, ARRAY_F32}};
    size_t length, bytes;
    char *header = safetensors_header(tensors, 2, &length, &bytes), *text = NULL;
    if (header && (text = calloc(1, length))) memcpy(text, header + 8, length - 8);
    free(header);
    return text;
}

/* What was read, as text again: fields that earlier versions named otherwise are renamed meanwhile. */
static char *of_parsed(void) {
    static const char text[] = "{\"format\": \"f\", \"version\": 1, \"apart_s\": [1.5, {\"medium\": \"cable\"}]}";
    json_t *root;
    enum ps_status status = json_parse(text, sizeof text - 1, "file", "f", &root, &test_error);
    if (status == PS_OK) return json_text(root);
    assert_status(status, PS_OUT_OF_MEMORY, "memory");
    test_error = (struct ps_error){0};
    return NULL;
}

static char *(*const makers[])(void) = {
    of_network,  of_graph,          of_profile,    of_profile_table,    of_cluster, of_cluster_table, of_plan,  of_plan_table,
    of_programs, of_programs_table, of_simulation, of_simulation_table, of_report,  of_header,        of_parsed};

static int setup(void **state) {
    test_directory_set_up(state);
    char path[4096];
    file_join(path, test_directory, "costs.csv");
    test_file_write(path, costs, sizeof costs - 1);
    const struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = 2, .bandwidth_bytes_per_s = 1e6};
    const struct ps_plan_options planning = {.struct_size = sizeof planning};
    assert_ok(ps_profile_read(path, &profile, &test_error));
    file_join(path, test_directory, "graph.txt");
    test_file_write(path, graph, sizeof graph - 1);
    assert_ok(ps_profile_read(path, &graph_profile, &test_error));
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    assert_ok(ps_plan_find(profile, cluster, &planning, &plan, &test_error));
    assert_ok(ps_programs_lower(plan, profile, 2, &programs, &test_error));
    assert_ok(ps_simulate(plan, profile, cluster, 3, &simulation, &test_error));
    assert_ok(ps_network_open("lenet5", &network, &test_error));
    return 0;
}

static int teardown(void **state) {
    ps_network_destroy(network);
    ps_simulation_destroy(simulation);
    ps_programs_destroy(programs);
    ps_plan_destroy(plan);
    ps_cluster_destroy(cluster);
    ps_profile_destroy(graph_profile);
    ps_profile_destroy(profile);
    return test_directory_tear_down(state);
}

static void test_each_allocation(void **state) {
    (void)state;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(allocate_or_fail, release);
    for (size_t m = 0; m < sizeof makers / sizeof makers[0]; m++) {
        char *whole = makers[m]();
        assert_non_null(whole);
        int refused = 0, n = 1;
        for (bool failed = true; failed; n++) {
            until_fault = n;
            char *text = makers[m]();
            failed = until_fault == 0;
            until_fault = 0;
            if (text) assert_string_equal(text, whole);
            refused += text == NULL;
            free(text);
        }
        assert_true(refused > 3 && refused >= n - 4);
        free(whole);
    }
    json_set_alloc_funcs(allocate, release);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
