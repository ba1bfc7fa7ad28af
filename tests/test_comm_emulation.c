/* Emulated clusters: when transfers are over by the rule of the links, that training computes the same, and what is refused. */
#include "base/clock.h"
#include "comm/emulation.h"
#include "comm/transport.h"
#include "program_support.h"
#include "run_support.h"
#include "within.h"

static char cluster_path[4096];

static int setup(void **state) {
    test_directory_set_up(state);
    file_join(cluster_path, test_directory, "cluster.json");
    return 0;
}

static void write_cluster(const char *text) { test_file_write(cluster_path, text, strlen(text)); }

static double carry_between(struct emulation *emulation, const struct routes *routes, int from, int to, enum traffic traffic,
                            double when) {
    int route = routes_find(routes, from, to, traffic);
    assert_int_not_equal(route, NO_ROUTE);
    return emulation_carry(emulation, route, when);
}

static void test_links(void **state) {
    (void)state;
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct routes routes;
    struct emulation *emulation;
    struct stage_sizes sizes[3] = {{.output_bytes = 1000}, {.input_bytes = 1000, .output_bytes = 500}, {.input_bytes = 500}};
    write_cluster("{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}, "
                  "{\"name\": \"c\"}], \"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1000, "
                  "\"latency_s\": 0.25}, {\"from\": 1, \"to\": 2, \"bandwidth_bytes_per_s\": 1000, \"duplex\": \"half\"}]}");
    assert_ok(ps_cluster_read(cluster_path, &cluster, &test_error));
    assert_ok(lower_plain("1f1b-async", "stash", 3, 1, 4, &programs));
    assert_ok(routes_create(programs, &routes, &test_error));
    assert_ok(emulation_create(cluster, programs, &routes, sizes, &emulation, &test_error));
    /* Latency and size over bandwidth; the next waits for the link, one that comes later does not. */
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10), 11.25, 1e-12);
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10.5), 12.5, 1e-12);
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 20), 21.25, 1e-12);
    /* Full duplex: the other direction is free. */
    assert_within(carry_between(emulation, &routes, 1, 0, TRAFFIC_GRADIENT, 10), 11.25, 1e-12);
    /* Half duplex: it is not. */
    assert_within(carry_between(emulation, &routes, 1, 2, TRAFFIC_ACTIVATION, 10), 10.5, 1e-12);
    assert_within(carry_between(emulation, &routes, 2, 1, TRAFFIC_GRADIENT, 10), 11.25, 1e-12);
    assert_within(emulation_carry(NULL, 0, 7), 7, 0);
    emulation_destroy(emulation);
    /* Where the other end is in another process, the sizes of the end that is here say how much comes. */
    const struct stage_sizes here[3] = {{0}, sizes[1], {0}};
    assert_ok(emulation_create(cluster, programs, &routes, here, &emulation, &test_error));
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10), 11.25, 1e-12);
    assert_within(carry_between(emulation, &routes, 2, 1, TRAFFIC_GRADIENT, 10), 10.75, 1e-12);
    emulation_destroy(emulation);
    routes_free(&routes);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* One that is half duplex and on a bus waits for both; the other direction, and others on the bus, do not wait for each other.
 */
static void test_half_duplex_and_shared(void **state) {
    (void)state;
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct routes routes;
    struct emulation *emulation;
    const struct stage_sizes sizes[3] = {
        {.output_bytes = 1000}, {.input_bytes = 1000, .output_bytes = 1000}, {.input_bytes = 1000}};
    write_cluster("{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}, "
                  "{\"name\": \"c\"}], \"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1000}, "
                  "{\"from\": 1, \"to\": 0, \"bandwidth_bytes_per_s\": 1000, \"duplex\": \"half\", \"shared_link\": \"bus\"}, "
                  "{\"from\": 1, \"to\": 2, \"bandwidth_bytes_per_s\": 1000, \"shared_link\": \"bus\"}]}");
    assert_ok(ps_cluster_read(cluster_path, &cluster, &test_error));
    assert_ok(lower_plain("1f1b-async", "stash", 3, 1, 4, &programs));
    assert_ok(routes_create(programs, &routes, &test_error));
    assert_ok(emulation_create(cluster, programs, &routes, sizes, &emulation, &test_error));
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10), 11, 1e-12);
    assert_within(carry_between(emulation, &routes, 1, 2, TRAFFIC_ACTIVATION, 10), 11, 1e-12);
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10), 12, 1e-12);
    assert_within(carry_between(emulation, &routes, 1, 0, TRAFFIC_GRADIENT, 10), 13, 1e-12);
    assert_within(carry_between(emulation, &routes, 1, 2, TRAFFIC_ACTIVATION, 10), 14, 1e-12);
    assert_within(carry_between(emulation, &routes, 2, 1, TRAFFIC_GRADIENT, 10), 11, 1e-12);
    emulation_destroy(emulation);
    routes_free(&routes);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* What is encoded takes as long as its bytes do, whichever end's sizes are known; cables are shared by name. */
static void test_encoded_links(void **state) {
    (void)state;
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct routes routes;
    struct emulation *emulation;
    struct stage_sizes sizes[2] = {{.output_bytes = 1000}, {.input_bytes = 1000}};
    sizes[0].wire_bytes[WIRE_ACTIVATION_SENT] = sizes[1].wire_bytes[WIRE_ACTIVATION_RECEIVED] = 250;
    sizes[1].wire_bytes[WIRE_GRADIENT_SENT] = sizes[0].wire_bytes[WIRE_GRADIENT_RECEIVED] = 500;
    write_cluster("{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}], "
                  "\"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1000, \"shared_link\": \"one\"}]}");
    assert_ok(ps_cluster_read(cluster_path, &cluster, &test_error));
    assert_ok(lower_plain("1f1b-async", "stash", 2, 1, 4, &programs));
    programs->wire[0].activation.codec = programs->wire[0].gradient.codec = WIRE_INT8;
    assert_ok(routes_create(programs, &routes, &test_error));
    const struct stage_sizes none = {0};
    for (int known = 1; known <= 3; known++) {
        const struct stage_sizes here[2] = {known & 1 ? sizes[0] : none, known & 2 ? sizes[1] : none};
        assert_ok(emulation_create(cluster, programs, &routes, here, &emulation, &test_error));
        assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ENCODED_ACTIVATION, 10), 10.25, 1e-12);
        assert_within(carry_between(emulation, &routes, 1, 0, TRAFFIC_ENCODED_GRADIENT, 10), 10.75, 1e-12);
        assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10), 11.75, 1e-12);
        assert_within(carry_between(emulation, &routes, 1, 0, TRAFFIC_GRADIENT, 20), 21, 1e-12);
        emulation_destroy(emulation);
    }
    /* What has no size takes no time, and waits for nothing. */
    const struct stage_sizes nothing[2] = {{.output_bytes = 1000}, {.input_bytes = 1000}};
    assert_ok(emulation_create(cluster, programs, &routes, nothing, &emulation, &test_error));
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ACTIVATION, 10), 11, 1e-12);
    assert_within(carry_between(emulation, &routes, 0, 1, TRAFFIC_ENCODED_ACTIVATION, 10.5), 10.5, 0);
    emulation_destroy(emulation);
    emulation_destroy(NULL);
    routes_free(&routes);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

/* Between threads a block is there, for both ends, when its time has come; the next one on the link comes after it. */
static void test_waits(void **state) {
    (void)state;
    enum { SLOTS = 2 };
    static const struct stage_slots slots[2] = {{.output = SLOTS}, {.input = SLOTS}};
    static const struct stage_sizes sizes[2] = {{.output_bytes = 1000}, {.input_bytes = 1000}};
    const struct transport_class *class;
    struct ps_cluster *cluster;
    struct ps_programs *programs;
    struct transport *transport;
    float blocks[2][SLOTS], *entries[2][SLOTS];
    write_cluster("{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}], "
                  "\"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 10000, \"latency_s\": 0.1}]}");
    assert_ok(ps_cluster_read(cluster_path, &cluster, &test_error));
    assert_ok(lower_plain("1f1b-async", "stash", 2, 1, 4, &programs));
    assert_ok(transport_find("threads", &class, &test_error));
    const struct transport_options options = {.programs = programs, .slots = slots, .sizes = sizes, .emulated = cluster};
    assert_ok(class->create(class, &options, &transport, &test_error));
    const double began = clock_now();
    for (int s = 0; s < SLOTS; s++)
        for (int end = 0; end < 2; end++) {
            entries[end][s] = &blocks[end][s];
            class->post(transport, end, end ? BLOCK_INPUT : BLOCK_OUTPUT, s, 1 - end, &entries[end][s],
                        &(struct moment){.time = began + (end ? 0 : 0.05)});
        }
    for (int s = 0; s < SLOTS; s++) {
        const double there = began + 0.05 + 0.2 * (s + 1);
        for (int end = 0; end < 2; end++) {
            const enum block_kind kind = end ? BLOCK_INPUT : BLOCK_OUTPUT;
            const bool settled = class->settled(transport, end, kind, s);
            assert_true(!settled || clock_now() >= there);
            assert_true(class->wait(transport, end, kind, s));
            assert_true(clock_now() >= there - 1e-3);
            assert_within(class->settled_at(transport, end, kind, s).time, there, 1e-9);
        }
        assert_true(class->settled(transport, 0, BLOCK_OUTPUT, s));
        assert_ptr_equal(entries[1][s], &blocks[0][s]);
    }
    class->destroy(transport);
    ps_programs_destroy(programs);
    ps_cluster_destroy(cluster);
}

static const char slow_second[] =
    "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\", \"speed\": 0.5}], "
    "\"links\": [{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1e8, \"latency_s\": 1e-4}]}";

static struct training small_job(void) {
    struct training options;
    training_init(&options);
    options.model = "lenet5,input=16,classes=4";
    options.plan.method = "uniform";
    options.plan.schedule = "1f1b";
    options.plan.micro_batches = 4;
    options.data = "synthetic:images,samples=64";
    options.o.batch = 16;
    options.o.steps = 3;
    options.o.device = test_device("reference");
    options.o.transport = "threads";
    options.cluster_path = cluster_path;
    return options;
}

static void test_same_loss(void **state) {
    (void)state;
    double loss[2];
    write_cluster(slow_second);
    for (int emulate = 0; emulate < 2; emulate++) {
        struct training options = small_job();
        struct ps_run *run;
        options.o.emulate = emulate;
        assert_ok(training_run(&options, &run, &test_error));
        loss[emulate] = ps_run_info(run).loss;
        ps_run_destroy(run);
    }
    assert_true(loss[0] == loss[1]);
}

static void refuse(const char *cluster, const char *transport, const char *message) {
    struct training options = small_job();
    struct ps_run *run;
    write_cluster(cluster);
    options.o.emulate = true;
    options.o.transport = transport;
    assert_status(training_run(&options, &run, &test_error), PS_USAGE, message);
}

static void test_refusals(void **state) {
    (void)state;
    refuse(slow_second, "serial", "one thread");
    refuse(
        "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\", \"speed\": 2}, {\"name\": \"b\"}]}",
        "threads", "worker 0 has a speed of 2");
    refuse("{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [{\"name\": \"a\"}, {\"name\": \"b\"}], "
           "\"overlap\": false}",
           "threads", "beside computation");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links),         cmocka_unit_test(test_half_duplex_and_shared),
        cmocka_unit_test(test_encoded_links), cmocka_unit_test(test_waits),
        cmocka_unit_test(test_same_loss),     cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, setup, test_directory_tear_down);
}
