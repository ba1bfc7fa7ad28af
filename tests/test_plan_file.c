/* Plan and cluster files: written and read back the same; each kind of broken file refused with the field it is about. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "plan/plan.h"

static char path[4096];

static int set_up(void **state) {
    test_directory_set_up(state);
    file_join(path, test_directory, "plan.json");
    return 0;
}

static struct ps_plan *sample_plan(void) {
    struct ps_plan *plan;
    int pair[] = {1, 2};
    assert_ok(plan_create(4, 3, &plan, &test_error));
    strcpy(plan->model, "lenet5,classes=10");
    strcpy(plan->method, "pipedream");
    strcpy(plan->schedule, "1f1b-async");
    strcpy(plan->weights, "pipeoptim");
    strcpy(plan->optimizer, "adam");
    plan->micro_batch = 8;
    plan->micro_batches = 2;
    plan->paper_prediction = true;
    assert_ok(plan_stage_set(plan, 0, 0, 1, 0, &test_error));
    assert_ok(plan_stage_set(plan, 1, 2, 2, 1, &test_error));
    assert_ok(plan_stage_workers(plan, 1, pair, 2, pair, 2, &test_error));
    assert_ok(plan_stage_set(plan, 2, 3, 6, 3, &test_error));
    plan->stages[2].recompute = true;
    plan->predicted.known = plan->predicted.simulated = true;
    plan->predicted.objective_s = 0.1;
    plan->predicted.period_s = 1.0 / 3;
    plan->predicted.bubble = 0.25;
    plan->predicted.gap = -1e-17;
    for (int w = 0; w < 4; w++) {
        plan->predicted.load_s[w] = 0.1 * w;
        plan->predicted.memory[w] = (struct worker_memory){1000 * w, 20, 30, 40, 50, 60};
    }
    return plan;
}

static void assert_same_text(const struct ps_plan *a, const struct ps_plan *b) {
    char *x = ps_plan_json(a), *y = ps_plan_json(b);
    assert_string_equal(x, y);
    free(x);
    free(y);
}

static void round_trip(void **state) {
    (void)state;
    struct ps_plan *plan = sample_plan(), *again, *copy;
    assert_ok(plan_check(plan, 7, &test_error));
    const char *const names[] = {"even", "odd", "even", "odd", "even", "odd", "even"};
    assert_ok(plan_order_set(plan, names, 7, &test_error));
    assert_ok(plan_copy(plan, &copy, &test_error));
    assert_same_text(plan, copy);
    assert_ok(ps_plan_write(plan, path, &test_error));
    assert_ok(ps_plan_read(path, &again, &test_error));
    assert_same_text(plan, again);
    assert_int_equal(again->stage_count, 3);
    assert_int_equal(again->stages[1].first, 2);
    assert_int_equal(again->stages[1].backward_count, 2);
    assert_int_equal(again->stages[1].backward[1], 2);
    assert_true(again->stages[2].recompute && !again->stages[1].recompute);
    assert_true(again->paper_prediction);
    assert_true(again->predicted.known && again->predicted.period_s == 1.0 / 3);
    assert_int_equal(again->predicted.memory[3].weights, 3000);
    assert_int_equal(worker_memory_total(&again->predicted.memory[3]), 3200);
    assert_string_equal(again->order[1], "odd");
    ps_plan_destroy(again);
    ps_plan_destroy(copy);
    ps_plan_destroy(plan);
}

static void table(void **state) {
    (void)state;
    struct ps_plan *plan = sample_plan();
    char *text = ps_plan_table(plan);
    static const char *const parts[] = {"lenet5,classes=10: 3 stages on 4 workers",
                                        "cut by pipedream",
                                        "4-7",
                                        "1, 2",
                                        "33.3 %",
                                        "3.12 KiB",
                                        "in all",
                                        "333 ms"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!strstr(text, parts[i])) fail_msg("'%s' is not in\n%s", parts[i], text);
    free(text);
    plan->predicted.known = false;
    text = ps_plan_table(plan);
    assert_null(strstr(text, "predicted"));
    free(text);
    ps_plan_destroy(plan);
}

static enum ps_status read_text(const char *text, struct ps_plan **plan) {
    test_file_write(path, text, strlen(text));
    return ps_plan_read(path, plan, &test_error);
}

#define PLAN_ON(workers, stages, more)                                                                                         \
    "{\"format\": \"penstock-plan\", \"version\": 1, \"model\": \"m\", \"workers\": " workers ", \"micro_batch\": 4, "         \
    "\"micro_batches\": 3, \"schedule\": \"1f1b\", \"weights\": \"sync\", \"stages\": [" stages "]" more "}"
#define PLAN(stages, more) PLAN_ON("2", stages, more)
#define STAGE(layers, more) "{\"layers\": " layers more "}"

static void by_hand(void **state) {
    (void)state;
    struct ps_plan *plan;
    assert_ok(read_text(
        PLAN(STAGE("[1, 2]", ", \"forward\": 0") "," STAGE("[3, 3]", ", \"forward\": [1], \"backward\": 0"), ""), &plan));
    assert_string_equal(plan->optimizer, "sgdm");
    assert_false(plan->predicted.known || plan->paper_prediction);
    assert_int_equal(plan->stages[0].backward[0], 0);
    assert_int_equal(plan->stages[1].forward[0], 1);
    assert_int_equal(plan->stages[1].backward[0], 0);
    ps_plan_destroy(plan);
}

/* Codecs of a stage, in the file, in the table and back. */
static void codecs(void **state) {
    (void)state;
    struct ps_plan *plan, *again;
    static const char text[] = PLAN_ON("3",
                                       STAGE("[1, 2]", ", \"forward\": [0, 1], "
                                                       "\"wire\": {\"activation\": \"int8\", \"gradient\": \"bf16\", \"sum\": "
                                                       "\"topk:0.25\"}") "," STAGE("[3, 3]", ", \"forward\": 2"),
                                       "");
    assert_ok(read_text(text, &plan));
    assert_int_equal(plan->stages[0].wire.activation.codec, WIRE_INT8);
    assert_int_equal(plan->stages[0].wire.gradient.codec, WIRE_BF16);
    assert_int_equal(plan->stages[0].sum_wire.codec, WIRE_TOPK);
    assert_int_equal(plan->stages[1].wire.activation.codec, WIRE_NONE);
    char *table = ps_plan_table(plan);
    if (!strstr(table, "int8 / bf16, sums topk:0.25")) fail_msg("no codecs in\n%s", table);
    free(table);
    assert_ok(ps_plan_write(plan, path, &test_error));
    assert_ok(ps_plan_read(path, &again, &test_error));
    assert_same_text(plan, again);
    ps_plan_destroy(again);
    ps_plan_destroy(plan);
    assert_status(read_text(PLAN(STAGE("[1, 2]", ", \"forward\": 0, \"wire\": {\"activation\": \"int7\"}"), ""), &plan),
                  PS_BAD_INPUT, "stages[0].wire: activation: ");
    assert_status(read_text(PLAN(STAGE("[1, 2]", ", \"forward\": 0, \"wire\": {\"loss\": \"int8\"}"), ""), &plan), PS_BAD_INPUT,
                  "stages[0].wire: field 'loss' is not known");
}

/* Layers that share parameters: of a chain's ends, or any. */
static void shared_layers(void **state) {
    (void)state;
    struct ps_plan *plan, *again;
#define TIED(tied) PLAN(STAGE("[1, 2]", ", \"forward\": 0") "," STAGE("[3, 3]", ", \"forward\": 1"), ", \"tied\": " tied)
    assert_ok(read_text(TIED("[{\"layers\": [1, 2], \"bytes\": 64}]"), &plan));
    assert_false(plan->tied);
    assert_int_equal(plan->ties.count, 1);
    assert_ok(ps_plan_write(plan, path, &test_error));
    assert_ok(ps_plan_read(path, &again, &test_error));
    assert_same_text(plan, again);
    ps_plan_destroy(again);
    ps_plan_destroy(plan);
    assert_ok(read_text(TIED("true"), &plan));
    assert_true(plan->tied);
    ps_plan_destroy(plan);
    assert_status(read_text(TIED("[{\"layers\": [1, 4], \"bytes\": 64}]"), &plan), PS_BAD_INPUT, "tied[0]");
    assert_status(read_text(TIED("1"), &plan), PS_BAD_INPUT, "tied: must be true or false");
#undef TIED
}

/* Plans that no program expresses say why. */
static void why_not_simulated(void **state) {
    (void)state;
    static const struct {
        const char *stages, *more, *why;
    } cases[] = {
        {STAGE("[1, 1]", ", \"forward\": 0, \"backward\": 1"), "", "forward and backward on different workers"},
        {STAGE("[1, 1]", ", \"forward\": 0") "," STAGE("[2, 2]", ", \"forward\": 1"), ", \"order\": [\"b\", \"a\"]",
         "layers in another order than the profile's"},
        {STAGE("[1, 1]", ", \"forward\": 0") "," STAGE("[2, 2]", ", \"forward\": 0"), "", "several stages on one worker"},
        {STAGE("[1, 1]", ", \"forward\": [0, 1]"), "", "replicas under a schedule or a weight policy that has none"},
        {STAGE("[1, 1]", ", \"forward\": 0") "," STAGE("[2, 2]", ", \"forward\": 1"), "",
         "a periodic schedule of its own, which holds fewer activations"},
    };
    char text[2000];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_plan *plan;
        snprintf(text, sizeof text, PLAN("%s", "%s"), cases[c].stages, cases[c].more);
        assert_ok(read_text(text, &plan));
        plan->predicted.known = true;
        plan->predicted.objective_s = 1;
        char *table = ps_plan_table(plan);
        if (!strstr(table, cases[c].why)) fail_msg("'%s' is not in\n%s", cases[c].why, table);
        free(table);
        plan->predicted.period_s = 1;
        plan->predicted.memory[1].weights = 2048;
        table = ps_plan_table(plan);
        if (!strstr(table, "its programs need more memory than there is, worker 1 2.00 KiB"))
            fail_msg("no memory in\n%s", table);
        free(table);
        plan->predicted.memory[0].stash = 4096;
        table = ps_plan_table(plan);
        assert_non_null(strstr(table, "its programs need more memory than there is, worker 0 4.00 KiB.\n"));
        free(table);
        ps_plan_destroy(plan);
    }
}

/* What no file can say is not said in part: a name that is no text. */
static void no_text(void **state) {
    (void)state;
    struct ps_plan *plan = sample_plan();
    plan->model[1] = '\xff';
    assert_null(ps_plan_json(plan));
    assert_null(ps_plan_table(plan));
    ps_plan_destroy(plan);
}

static void many_workers(void **state) {
    (void)state;
    char *text = malloc(3 * PLAN_WORKERS_MAX + 1000), *end = text;
    struct ps_plan *plan;
    assert_non_null(text);
    end += sprintf(end, "%s", PLAN("{\"layers\": [1, 1], \"forward\": [0", "")) - (int)strlen("]}");
    for (int w = 0; w < PLAN_WORKERS_MAX; w++) end += sprintf(end, ",0");
    sprintf(end, "]}]}");
    char wanted[100];
    snprintf(wanted, sizeof wanted, "stages[0].forward: %d workers; at most %d are accepted", PLAN_WORKERS_MAX + 1,
             PLAN_WORKERS_MAX);
    assert_status(read_text(text, &plan), PS_BAD_INPUT, wanted);
    free(text);
}

static void broken(void **state) {
    (void)state;
#define GOOD STAGE("[1, 2]", ", \"forward\": 0")
#define WORKER_OF(load, weights)                                                                                               \
    "{\"load_s\": " load ", \"memory_bytes\": {\"weights\": " weights                                                          \
    ", \"gradients\": 0, \"optimizer\": 1, \"stash\": 1, \"buffers\": 1, \"workspace\": 1}}"
#define WORKER WORKER_OF("1", "1")
#define OF_WORKER(load, weights) PLAN(GOOD, ", \"predicted\": {\"workers\": [" WORKER_OF(load, weights) ", " WORKER "]}")
#define PREDICTED(number) PLAN(GOOD, ", \"predicted\": {" number ", \"workers\": [" WORKER ", " WORKER "]}")
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"[]", "plan.json"},
        {PLAN("", ""), "plan.json: stages: 0 stages"},
        {PLAN(GOOD, ", \"sheduel\": 1"), "plan.json: field 'sheduel' is not known"},
        {PLAN(GOOD, ", \"prediction\": \"papr\""), "prediction: 'papr' is neither"},
        {PLAN(STAGE("[1, 2]", ""), ""), "stages[0].forward: is missing"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": \"x\""), ""), "stages[0].forward: must be a worker's number"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": -1"), ""), "stages[0].forward: must be a worker's number"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": 2"), ""), "plan.json: stages[0].forward: 2 is no worker; they are 0 to 1"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": []"), ""), "stages[0].forward: needs a worker"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": [0, 0]"), ""), "stages[0].forward: worker 0 is given twice"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": 0, \"backward\": 7"), ""), "stages[0].backward: 7 is no worker"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": 0, \"recompute\": 1"), ""), "stages[0].recompute: must be true or false"},
        {PLAN(STAGE("[0, 2]", ", \"forward\": 0"), ""), "stages[0].layers: must be [first, last]"},
        {PLAN(STAGE("[2]", ", \"forward\": 0"), ""), "stages[0].layers: must be [first, last]"},
        {PLAN(STAGE("[2, 1]", ", \"forward\": 0"), ""), "stages[0].layers: must be [first, last]"},
        {PLAN(STAGE("[2, 3]", ", \"forward\": 0"), ""),
         "plan.json: stages[0].layers: begins with layer 2, but the first is layer 1"},
        {PLAN(GOOD "," STAGE("[4, 5]", ", \"forward\": 0"), ""),
         "stages[1].layers: begins with layer 4, but the stage before ends with layer 2"},
        {PLAN(GOOD "," STAGE("[2, 5]", ", \"forward\": 0"), ""), "stages[1].layers: begins with layer 2"},
        {PLAN(STAGE("[1, 2]", ", \"forward\": 0, \"worker\": 0"), ""), "stages[0]: field 'worker' is not known"},
        {PLAN(GOOD, ", \"predicted\": {\"workers\": [" WORKER "]}"), "predicted.workers: 1 of them, but the plan has 2"},
        {PLAN(GOOD, ", \"predicted\": {\"period_s\": -1, \"workers\": []}"), "predicted.period_s: -1"},
        {PREDICTED("\"objective_s\": -0.5"), "predicted.objective_s: -0.5"},
        {PREDICTED("\"throughput_samples_per_s\": -0.5"), "predicted.throughput_samples_per_s: -0.5"},
        {PREDICTED("\"bubble\": -0.5"), "predicted.bubble: -0.5"},
        {PREDICTED("\"lower_bound_s\": -0.5"), "predicted.lower_bound_s: -0.5"},
        {PREDICTED("\"gap\": -1.5"), "predicted.gap: -1.5"},
        {PREDICTED("\"solve_s\": -0.5"), "predicted.solve_s: -0.5"},
        {PREDICTED("\"solve_s\": 2e18"), "predicted.solve_s: 2e+18"},
        {OF_WORKER("-0.5", "1"), "predicted.workers[0].load_s: -0.5"},
        {OF_WORKER("2e18", "1"), "predicted.workers[0].load_s: 2e+18"},
        {OF_WORKER("1", "-1"), "predicted.workers[0].memory_bytes.weights: -1"},
        {OF_WORKER("1", "1152921504606846977"), "predicted.workers[0].memory_bytes.weights: 1152921504606846977"},
        {PLAN(GOOD, ", \"predicted\": {\"period_s\": 1, \"workers\": [{\"load_s\": 1}, {}]}"),
         "predicted.workers[0].memory_bytes: is missing"},
        {PLAN(GOOD, ", \"order\": [\"a\"]"), "order: names 1 layers, but the stages have 2"},
        {PLAN(GOOD, ", \"order\": [\"a\", 2]"), "order: must be a list of layer names"},
        {PLAN(GOOD, ", \"order\": []"), "order: 0 names; 1 to"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0]]"), "pattern: 1 computations; 1 stages have a forward and a backward each"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0], [\"W\", 0, 0]]"), "pattern: item 1 must be [\"F\" or \"B\", stage 0 to 0"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0], [\"B\", 1, 0]]"), "pattern: item 1 must be"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0], [\"B\", 0, -1]]"), "pattern: item 1 must be"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0], [\"B\", 0]]"), "pattern: item 1 must be"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0], [\"B\", 0, 0.5]]"), "pattern: item 1 must be"},
        {PLAN(GOOD, ", \"pattern\": [[\"F\", 0, 0], 3]"), "pattern: item 1 must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_plan *plan = NULL;
        assert_status(read_text(cases[i].text, &plan), PS_BAD_INPUT, cases[i].part);
        assert_null(plan);
    }
    struct ps_plan *plan;
    /* The least and the most of these. */
    static const char *const ends[] = {
        PREDICTED("\"objective_s\": 0, \"period_s\": 0, \"throughput_samples_per_s\": 0, \"bubble\": 0, \"lower_bound_s\": 0, "
                  "\"gap\": -1, \"solve_s\": 1e18"),
        OF_WORKER("0", "0"), OF_WORKER("1e18", "1152921504606846976")};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        assert_ok(read_text(ends[e], &plan));
        ps_plan_destroy(plan);
    }
    assert_ok(read_text(PLAN(GOOD, ""), &plan));
    assert_status(plan_check(plan, 1, &test_error), PS_BAD_INPUT, "stages[0].layers: 2 is past the model's last layer 1");
    assert_status(plan_check(plan, 3, &test_error), PS_BAD_INPUT,
                  "stages[0].layers: ends with layer 2, but the model's last is 3");
    ps_plan_destroy(plan);
}

static enum ps_status read_cluster(const char *text, struct ps_cluster **cluster) {
    test_file_write(path, text, strlen(text));
    return ps_cluster_read(path, cluster, &test_error);
}

#define CLUSTER(devices, links, more)                                                                                          \
    "{\"format\": \"penstock-cluster\", \"version\": 1, \"devices\": [" devices "], \"links\": [" links "]" more "}"

static void cluster(void **state) {
    (void)state;
    struct ps_cluster *cluster;
    assert_ok(read_cluster(
        CLUSTER(
            "{\"name\": \"big\", \"type\": \"gpu\", \"speed\": 2.5, \"memory_bytes\": 1000},"
            "{\"name\": \"small\"}, {\"name\": \"far\"}",
            "{\"from\": \"*\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 100, \"latency_s\": 1},"
            "{\"from\": 0, \"to\": \"far\", \"bandwidth_bytes_per_s\": 10},"
            "{\"from\": \"far\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 50, \"duplex\": \"half\", \"shared_link\": \"b\"}",
            ", \"overlap\": false, \"cores\": 2"),
        &cluster));
    assert_int_equal(ps_cluster_workers(cluster), 3);
    assert_true(cluster->devices[0].speed == 2.5 && cluster->devices[1].speed == 1);
    assert_int_equal(cluster->devices[0].memory_bytes, 1000);
    assert_int_equal(cluster->devices[1].memory_bytes, 0);
    assert_false(cluster->overlap || cluster->streaming);
    assert_true(cluster_link_between(cluster, 2, 1)->half_duplex && !cluster_link_between(cluster, 1, 2)->half_duplex);
    assert_string_equal(cluster_link_between(cluster, 2, 1)->shared_link, "b");
    assert_null(cluster_link_between(cluster, 2, 2));
    assert_int_equal(cluster->cores, 2);
    assert_true(cluster_transfer_s(cluster, 0, 1, 200) == 3);
    assert_true(cluster_transfer_s(cluster, 0, 2, 200) == 20);
    assert_true(cluster_transfer_s(cluster, 2, 0, 200) == 4);
    assert_true(cluster_transfer_s(cluster, 1, 1, 200) == 0);
    assert_true(cluster_transfer_s(cluster, 0, 1, 0) == 0);
    char *written = ps_cluster_json(cluster);
    ps_cluster_destroy(cluster);
    assert_ok(read_cluster(written, &cluster));
    char *again = ps_cluster_json(cluster);
    assert_string_equal(again, written);
    assert_string_equal(cluster_link_between(cluster, 2, 1)->shared_link, "b");
    free(again);
    free(written);
    ps_cluster_destroy(cluster);

    /* As earlier versions wrote it. */
    assert_ok(read_cluster(CLUSTER("{\"name\": \"a\"}, {\"name\": \"b\"}",
                                   "{\"from\": 0, \"to\": 1, \"bandwidth_bytes_per_s\": 10, \"medium\": \"bus\"}", ""),
                           &cluster));
    assert_string_equal(cluster_link_between(cluster, 0, 1)->shared_link, "bus");
    ps_cluster_destroy(cluster);

    struct ps_cluster_options options = {.struct_size = sizeof options,
                                         .workers = 3,
                                         .memory_bytes = 7,
                                         .bandwidth_bytes_per_s = 100,
                                         .no_overlap = true,
                                         .cores = 2};
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_int_equal(cluster->devices[2].memory_bytes, 7);
    assert_int_equal(cluster->cores, 2);
    assert_true(cluster_transfer_s(cluster, 0, 2, 200) == 2 && !cluster->overlap);
    ps_cluster_destroy(cluster);
    options.bandwidth_bytes_per_s = 0;
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_true(cluster_transfer_s(cluster, 0, 2, 200) == 0);
    ps_cluster_destroy(cluster);
    options.latency_s = 0.5; /* without limit of bandwidth */
    assert_ok(ps_cluster_uniform(&options, &cluster, &test_error));
    assert_true(cluster_transfer_s(cluster, 0, 2, 200) == 0.5);
    ps_cluster_destroy(cluster);
    static const struct {
        struct ps_cluster_options options;
        const char *part;
    } wrong[] = {
        {{.workers = 0}, "workers: 0 is not from 1 to"},
        {{.workers = PLAN_WORKERS_MAX + 1}, "is not from 1 to"},
        {{.workers = 1, .memory_bytes = -1}, "memory: -1 bytes are not from 0 to"},
        {{.workers = 1, .bandwidth_bytes_per_s = -1}, "bandwidth: -1 bytes per second are not from 0 to"},
        {{.workers = 1, .bandwidth_bytes_per_s = NAN}, "bandwidth: "},
        {{.workers = 1, .latency_s = -1}, "latency: -1 s are not from 0 to"},
        {{.workers = 1, .streaming = true, .no_overlap = true},
         "`streaming`: transfers that begin with their computation need"},
        {{.workers = 1, .latency_s = INFINITY}, "latency: inf"},
        {{.workers = 1, .cores = -1}, "cores: -1 is negative"},
        {{.workers = 1, .streaming = true, .no_overlap = true}, "need overlap"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct ps_cluster_options given = wrong[i].options;
        given.struct_size = sizeof given;
        assert_status(ps_cluster_uniform(&given, &cluster, &test_error), PS_USAGE, wrong[i].part);
    }
    /* Of an older program, of a newer one, and as it was never set. */
    for (size_t size = 0; size < 2 * sizeof options; size++) {
        struct ps_cluster_options given = {.workers = 1, .struct_size = size};
        if (size == sizeof given) continue;
        assert_status(ps_cluster_uniform(&given, &cluster, &test_error), PS_USAGE, "struct_size: ");
    }
}

static void cluster_broken(void **state) {
    (void)state;
#define NAME_63 "123456789 123456789 123456789 123456789 123456789 123456789 123"
#define LINKED(bandwidth, latency)                                                                                             \
    CLUSTER("{\"name\": \"a\"}",                                                                                               \
            "{\"from\": 0, \"to\": 0, \"bandwidth_bytes_per_s\": " bandwidth ", \"latency_s\": " latency "}", "")
    static const struct {
        const char *text, *part;
    } cases[] = {
        {CLUSTER("", "", ""), "devices: 0 devices"},
        {CLUSTER("{\"name\": \"a\"}, {\"name\": \"a\"}", "", ""), "devices[1]: name 'a' is also that of devices[0]"},
        {CLUSTER("{\"name\": \"a\"}, {\"name\": \"*\"}", "", ""), "devices[1]: name '*' means any device"},
        {CLUSTER("{\"name\": \"\"}", "", ""), "devices[0]: name must have 1 to 63 bytes"},
        {CLUSTER("{\"name\": \"" NAME_63 "4\"}", "", ""), "devices[0]: name must have 1 to 63 bytes"},
        {CLUSTER("{\"name\": \"a\", \"speed\": 0}", "", ""), "devices[0].speed: 0"},
        {CLUSTER("{\"name\": \"a\", \"memory_bytes\": -1}", "", ""), "devices[0].memory_bytes: -1"},
        {CLUSTER("{\"name\": \"a\", \"speed\": 1000000.5}", "", ""), "devices[0].speed: 1e+06 is not"},
        {CLUSTER("{\"name\": \"a\", \"memory_bytes\": 1152921504606846977}", "", ""),
         "devices[0].memory_bytes: 1152921504606846977"},
        {LINKED("0.5", "0"), "links[0].bandwidth_bytes_per_s: 0.5"},
        {LINKED("2e18", "0"), "links[0].bandwidth_bytes_per_s: 2e+18"},
        {LINKED("1", "-0.5"), "links[0].latency_s: -0.5"},
        {LINKED("1", "1000001"), "links[0].latency_s: 1e+06 is not"},
        {CLUSTER("{\"name\": \"a\", \"memory\": 1}", "", ""), "devices[0]: field 'memory' is not known"},
        {CLUSTER("{\"speed\": 1}", "", ""), "devices[0].name: is missing"},
        {CLUSTER("{\"name\": \"a\"}", "{\"from\": \"b\", \"to\": \"*\", \"bandwidth_bytes_per_s\": 1}", ""),
         "links[0].from: 'b' is no device"},
        {CLUSTER("{\"name\": \"a\"}", "{\"from\": 0, \"to\": 1, \"bandwidth_bytes_per_s\": 1}", ""),
         "links[0].to: 1 is no worker"},
        {CLUSTER("{\"name\": \"a\"}", "{\"from\": 0, \"to\": 0, \"bandwidth_bytes_per_s\": 0}", ""),
         "bandwidth_bytes_per_s: 0"},
        {CLUSTER("{\"name\": \"a\"}", "{\"from\": 0, \"to\": 0}", ""), "links[0].bandwidth_bytes_per_s: is missing"},
        {CLUSTER("{\"name\": \"a\"}", "{\"from\": true, \"to\": 0, \"bandwidth_bytes_per_s\": 1}", ""),
         "links[0].from: must be"},
        {CLUSTER("{\"name\": \"a\"}", "{\"from\": 0, \"to\": 0, \"bandwidth_bytes_per_s\": 1, \"duplex\": \"both\"}", ""),
         "links[0]: duplex 'both' is neither"},
        {CLUSTER("{\"name\": \"a\"}", "", ", \"overlap\": false, \"streaming\": true"), "streaming: transfers that begin"},
        {CLUSTER("{\"name\": \"a\"}", "", ", \"overlap\": 1"), "overlap: must be true or false"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_cluster *cluster = NULL;
        assert_status(read_cluster(cases[i].text, &cluster), PS_BAD_INPUT, cases[i].part);
        assert_null(cluster);
    }
    /* The least and the most of these. */
    static const char *const ends[] = {
        CLUSTER("{\"name\": \"" NAME_63 "\"}", "", ""),
        CLUSTER("{\"name\": \"a\", \"speed\": 1e-6, \"memory_bytes\": 0}", "", ""),
        CLUSTER("{\"name\": \"a\", \"speed\": 1e6, \"memory_bytes\": 1152921504606846976}", "", ""), LINKED("1", "0"),
        LINKED("1e18", "1000000")};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        struct ps_cluster *cluster;
        assert_ok(read_cluster(ends[e], &cluster));
        ps_cluster_destroy(cluster);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip), cmocka_unit_test(table),         cmocka_unit_test(by_hand),
        cmocka_unit_test(broken),     cmocka_unit_test(cluster),       cmocka_unit_test(cluster_broken),
        cmocka_unit_test(codecs),     cmocka_unit_test(shared_layers), cmocka_unit_test(why_not_simulated),
        cmocka_unit_test(no_text),    cmocka_unit_test(many_workers),
    };
    return cmocka_run_group_tests(tests, set_up, test_directory_tear_down);
}
