/*
 * Broken files: every text that the planners read is mutated and cut off at random. Whatever comes of it, nothing crashes; what
 * is refused is refused as bad input, in one line that names the file and its line. What is still read is planned for, so that
 * nothing absurd gets past the readers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/network.h"
#include "search_support.h"

enum { MUTATIONS = 1500, SIZE_MAX_TEXT = 1 << 16 };

enum form { PROFILE, PLAN, CLUSTER, NETWORK };
struct source {
    const char *name, *text; /* text NULL: written by the library */
    enum form form;
    bool lines; /* messages begin with a line; of JSON files they end with one */
};

static const struct source sources[] = {
    {"profile.json", NULL, PROFILE, false},
    {"plan.json", NULL, PLAN, false},
    {"cluster.json", NULL, CLUSTER, false},
    {"network.json", NULL, NETWORK, false},
    {"costs.csv",
     "name,forward_s,backward_s,parameter_bytes,output_bytes,stash_bytes\n"
     "conv,1e-3,0.002,100,40,72\nrelu,2e-4,1e-4,0,40,40\n fc , 3e-3, 4e-3 ,5000,600,7\nloss,1e-5,1e-5,0,0,64\n",
     PROFILE, true},
    {"layers.chain", "3 0\n1.5 3 100 40 30\n\n2 4 5.0 6 7\n0.5 0.25 0.0 8 9\n", PROFILE, true},
    {"network.graph.txt",
     "node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000\n"
     "node2 -- Conv2d(3, 4, kernel_size=(3, 3)) -- forward_compute_time=1.5, backward_compute_time=2.5, "
     "activation_size=4096.0, "
     "parameter_size=432.000\n"
     "node3 -- ReLU(inplace) -- forward_compute_time=0.5, backward_compute_time=0.25, activation_size=4096.000, "
     "parameter_size=0.000\n"
     "node4 -- Linear(4, 2) -- forward_compute_time=0.75, backward_compute_time=1.25, activation_size=64.000, "
     "parameter_size=32.000\n"
     "node5 -- Add() -- forward_compute_time=0.1, backward_compute_time=0.1, activation_size=[64.0; 64.0], "
     "parameter_size=0.000\n"
     "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node4\n\tnode2 -- node5\n\tnode4 -- node5\n",
     PROFILE, true},
};

/* What takes the place of a number. */
static const char *const numbers[] = {"-1",
                                      "0",
                                      "1e400",
                                      "nan",
                                      "inf",
                                      "99999999999999999999",
                                      "-9223372036854775808",
                                      "1e-320",
                                      "2147483648",
                                      "0x10",
                                      "",
                                      "[]",
                                      "null",
                                      "\"\"",
                                      "1;2",
                                      "1,2",
                                      "1e18"};

static size_t insert(char *text, size_t size, size_t at, size_t remove, const char *piece, size_t length) {
    if (size - remove + length >= SIZE_MAX_TEXT) return size;
    memmove(text + at + length, text + at + remove, size - at - remove);
    memcpy(text + at, piece, length);
    return size - remove + length;
}

static size_t replace_number(char *text, size_t size, struct random_key key, uint64_t *n) {
    size_t start = (size_t)random_below(key, (*n)++, size), end;
    const char *number = numbers[random_below(key, (*n)++, sizeof numbers / sizeof *numbers)];
    while (start < size && !strchr("0123456789", text[start])) start++;
    for (end = start; end < size && text[end] && strchr("0123456789.eE+-", text[end]);) end++;
    return insert(text, size, start, end - start, number, strlen(number));
}

static size_t repeat_line(char *text, size_t size, struct random_key key, uint64_t *n) {
    size_t start = (size_t)random_below(key, (*n)++, size), end;
    char line[1024];
    while (start > 0 && text[start - 1] != '\n') start--;
    for (end = start; end < size && text[end] != '\n' && end - start < sizeof line - 1;) end++;
    if (end < size) end++;
    memcpy(line, text + start, end - start);
    bool remove = random_below(key, (*n)++, 2);
    return insert(text, size, start, remove ? end - start : 0, line, remove ? 0 : end - start);
}

static size_t mutate(char *text, size_t size, struct random_key key, uint64_t *n) {
    char byte = (char)random_below(key, (*n)++, 256);
    size_t at = (size_t)random_below(key, (*n)++, size);
    switch (random_below(key, (*n)++, 6)) {
    case 0:
        return at;
    case 1:
        text[at] = byte;
        return size;
    case 2:
        return insert(text, size, at, 0, &byte, 1);
    case 3:
        return insert(text, size, at, 1, "", 0);
    case 4:
        return repeat_line(text, size, key, n);
    default:
        return replace_number(text, size, key, n);
    }
}

/* What was read is written, and read back as the same. */
static void check_network(const struct ps_network *network) {
    struct ps_network *again;
    char *text = ps_network_json(network);
    assert_non_null(text);
    assert_ok(network_parse(text, strlen(text), "again", &again, &test_error));
    assert_string_equal(ps_network_info(again).hash, ps_network_info(network).hash);
    ps_network_destroy(again);
    free(text);
}

/* Reads the file; what can be read is used. */
static enum ps_status read_file(const struct source *source, const char *path, const struct ps_profile *even) {
    struct ps_profile *profile = NULL;
    struct ps_cluster *cluster = NULL;
    struct ps_network *network = NULL;
    struct ps_plan *plan = NULL, *made = NULL;
    struct ps_simulation *simulation = NULL;
    struct ps_error said = {0};
    struct ps_plan_options options = {.struct_size = sizeof options, .method = "pipedream"};
    struct ps_cluster *two = make_cluster(2, 0, 1e9);
    enum ps_status status = source->form == PROFILE   ? ps_profile_read(path, &profile, &test_error)
                            : source->form == PLAN    ? ps_plan_read(path, &plan, &test_error)
                            : source->form == NETWORK ? ps_network_read(path, &network, &test_error)
                                                      : ps_cluster_read(path, &cluster, &test_error);
    if (status == PS_OK && network) check_network(network);
    if (status == PS_OK && profile && ps_plan_find(profile, two, &options, &made, &said) != PS_OK)
        assert_true(said.status == PS_NO_PLAN || said.status == PS_USAGE);
    if (status == PS_OK && cluster && ps_cluster_workers(cluster) <= 8 &&
        ps_plan_find(even, cluster, &options, &made, &said) != PS_OK)
        assert_true(said.status == PS_NO_PLAN || said.status == PS_USAGE);
    if (status == PS_OK && plan && ps_plan_info(plan).workers == 2 && ps_plan_info(plan).micro_batches <= 64 &&
        ps_simulate(plan, even, two, 4, &simulation, &said) != PS_OK)
        assert_true(said.status == PS_BAD_INPUT || said.status == PS_NO_PLAN || said.status == PS_USAGE);
    ps_simulation_destroy(simulation);
    ps_plan_destroy(made);
    ps_plan_destroy(plan);
    ps_cluster_destroy(two);
    ps_cluster_destroy(cluster);
    ps_network_destroy(network);
    ps_profile_destroy(profile);
    return status;
}

static void write_source(const struct source *source, const char *path, const struct ps_profile *even) {
    if (source->text) {
        test_file_write(path, source->text, strlen(source->text));
    } else if (source->form == NETWORK) {
        struct ps_network *network;
        assert_ok(ps_network_open("gnmt8,seq=4,hidden=4,vocab=9,split=decoder.classifier.classifier:3", &network, &test_error));
        assert_ok(ps_network_write(network, path, &test_error));
        ps_network_destroy(network);
    } else if (source->form == PROFILE) {
        assert_ok(ps_profile_write(even, path, &test_error));
    } else {
        struct ps_cluster *cluster = make_cluster(2, 1 << 30, 1e9);
        struct ps_plan *plan;
        assert_ok(ps_plan_find(even, cluster,
                               &(struct ps_plan_options){.struct_size = sizeof(struct ps_plan_options), .method = "pipedream"},
                               &plan, &test_error));
        assert_ok(source->form == PLAN ? ps_plan_write(plan, path, &test_error) : ps_cluster_write(cluster, path, &test_error));
        ps_plan_destroy(plan);
        ps_cluster_destroy(cluster);
    }
}

static void test_mutations(void **state) {
    (void)state;
    static char whole[SIZE_MAX_TEXT], text[SIZE_MAX_TEXT];
    char directory[4096], path[4200];
    struct ps_profile *even = even_profile();
    snprintf(even->device, sizeof even->device, "cpu");
    even->threads = 1;
    for (int l = 0; l < even->tables[0].layer_count; l++) strcpy(even->tables[0].layers[l].kind, "linear");
    test_directory_make(directory);
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
        const struct source *source = &sources[s];
        int refused = 0, unnumbered = 0;
        snprintf(path, sizeof path, "%s/%s", directory, source->name);
        write_source(source, path, even);
        char *data;
        size_t length;
        assert_ok(file_read(path, sizeof whole, &data, &length, &test_error));
        memcpy(whole, data, length);
        free(data);
        assert_ok(read_file(source, path, even));
        for (int m = 0; m < MUTATIONS; m++) {
            struct random_key key = test_key(90000 + 10000 * s + (uint64_t)m);
            uint64_t n = 0;
            size_t size = length;
            memcpy(text, whole, length);
            for (int times = 1 + (int)random_below(key, n++, 3); times > 0 && size > 0; times--)
                size = mutate(text, size, key, &n);
            test_file_write(path, text, size);
            enum ps_status status = read_file(source, path, even);
            if (status == PS_OK) continue;
            if (status != PS_BAD_INPUT || !strstr(test_error.message, source->name) || strchr(test_error.message, '\n'))
                fail_msg("%s, mutation %d: status %d: %s", source->name, m, (int)status, test_error.message);
            unnumbered += !strstr(test_error.message, source->lines ? ": line " : "line ");
            refused++;
            test_error = (struct ps_error){0};
        }
        print_message("%s: %d of %d refused, %d without a line\n", source->name, refused, MUTATIONS, unnumbered);
        assert_true(refused > MUTATIONS / 4);
        assert_int_equal(unnumbered, 0);
    }
    test_directory_remove(directory);
    ps_profile_destroy(even);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
