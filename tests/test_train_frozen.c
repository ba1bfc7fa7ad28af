/*
 * Training with frozen parameters: they keep their values, the others train as on one worker under every schedule that
 * flushes, and what is frozen has no gradient, no state of the optimizer and one copy, in the plan as in the run.
 */
#include "graph/network.h"
#include "run_support.h"
#include "within.h"

#define GPT2 "gpt2,layers=1,width=16,heads=2,seq=12,vocab=14"

/* A file of the network with frozen parameters, or with adapters ("target=..."), named as its path is. */
static const char *frozen(const char *model, const char *patterns, char path[4096]) {
    static int number;
    char name[32];
    struct ps_network *network;
    assert_ok(ps_network_open(model, &network, &test_error));
    const bool adapters = strncmp(patterns, "target=", 7) == 0;
    assert_ok((adapters ? ps_network_lora : ps_network_freeze)(network, patterns, &test_error));
    snprintf(name, sizeof name, "n%d.json", number++);
    file_join(path, test_directory, name);
    snprintf(network->name, sizeof network->name, "%s", path);
    assert_ok(ps_network_write(network, path, &test_error));
    ps_network_destroy(network);
    return path;
}

/* The values that training begins with: those after it with a rate that changes nothing. */
static struct trained initial_of(struct run_case wanted) {
    wanted.lr = 1e-30;
    wanted.steps = 1;
    return run_case_weights(wanted);
}

/* Frozen parameters are what they were, and each trained one has changed. */
static void assert_kept(const char *model, const struct trained *before, const struct trained *after) {
    struct ps_network *network;
    assert_ok(ps_network_open(model, &network, &test_error));
    const struct graph *graph = network->graph;
    for (int p = 0; p < graph->parameter_count; p++) {
        const struct parameter *parameter = &graph->parameters[p];
        const float *old = trained_place(before, graph, parameter->name), *new = trained_place(after, graph, parameter->name);
        bool same = memcmp(old, new, (size_t)shape_bytes(&parameter->shape)) == 0;
        if (parameter->role == PARAMETER_STATISTIC || same == (parameter->role == PARAMETER_FIXED)) continue;
        fail_msg("%s: %s %s", model, parameter->name, same ? "has not changed" : "has changed");
    }
    ps_network_destroy(network);
}

/* Fronts, ends, single parameters of a node, shared ones; of bf16; adapters, also of shared weights. */
static const struct {
    const char *model, *patterns, *data;
} cases[] = {
    {"lenet5,input=16,classes=4", "conv1.*,conv2.*", NULL},
    {"lenet5,input=16,classes=4", "fc?.weight", NULL},
    {"lenet5,input=16,classes=4", "conv2.bias,fc3.*", NULL},
    {"resnet,blocks=1,input=8,classes=4", "layer*.0.conv1.weight,layer1.*.bn?.*,conv1.*", NULL},
    {GPT2 ",tied=1", "transformer.wte.weight,transformer.h.0.ln_1.*", "synthetic:tokens,samples=48"},
    {GPT2, "transformer.*", "synthetic:tokens,samples=48"},
    {"lenet5,input=16,classes=4,precision=bf16", "conv1.bias,fc2.weight", NULL},
    {GPT2 ",tied=1", "target=*c_attn+*wte,rank=2,dropout=0.1", "synthetic:tokens,samples=48"},
};
enum { CASES = sizeof cases / sizeof *cases };

static struct run_case case_of(int number, char path[4096]) {
    return (struct run_case){.model = frozen(cases[number].model, cases[number].patterns, path),
                             .data = cases[number].data,
                             .optimizer = number % 2 ? "sgdm" : "adamw",
                             .device = number % 2 ? "cpu" : "reference",
                             .micro_batch = 2,
                             .micro_batches = 4,
                             .steps = 4,
                             .lr = 0.01};
}

static void test_every_schedule(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        char path[4096];
        struct run_case base = case_of(c, path);
        struct trained oracle = run_case_weights(base), before = initial_of(base);
        assert_kept(path, &before, &oracle);
        for (int s = 0; schedule_table[s]; s++) {
            if (!schedule_table[s]->flush || schedule_replicas(schedule_table[s]) > 1) continue;
            struct run_case many = base;
            many.schedule = schedule_table[s]->name;
            many.workers = 2 + s % 2;
            many.transport = s % 2 ? "threads" : "serial";
            many.recompute = s % 3 == 0;
            struct trained got = run_case_weights(many);
            if (!trained_equal(&got, &oracle)) fail_msg("%s, %s: other weights than on one", cases[c].patterns, many.schedule);
            trained_free(&got);
        }
        trained_free(&before);
        trained_free(&oracle);
    }
}

/* Every policy of weights, with versions that the frozen ones do not have. */
static void test_every_policy(void **state) {
    (void)state;
    for (int p = 0; policy_table[p]; p++) {
        char path[4096];
        struct run_case wanted = case_of(2, path);
        if (strcmp(policy_table[p]->name, "sync") == 0) continue;
        wanted.schedule = "1f1b-async";
        wanted.weights = policy_table[p]->name;
        wanted.micro_batches = strcmp(policy_table[p]->name, "2bw") == 0 ? 3 : 1;
        wanted.workers = 3;
        wanted.optimizer = "sgdm";
        wanted.steps = 8;

        struct trained before = initial_of(wanted), after = run_case_weights(wanted);
        assert_kept(path, &before, &after);
        trained_free(&before);
        trained_free(&after);
    }
}

/* Frozen values are added up over no replicas; run_case_weights compares all of them. */
static void test_replicas(void **state) {
    (void)state;
    for (int c = 0; c < CASES; c++) {
        char path[4096];
        struct run_case wanted = case_of(c, path), serial;
        wanted.replicas[0] = 2, wanted.replicas[1] = c % 2 + 1;
        serial = wanted;
        serial.transport = "serial";
        assert_same_weights(wanted, serial);
        struct trained before = initial_of(wanted), after = run_case_weights(wanted);
        assert_kept(path, &before, &after);
        trained_free(&before);
        trained_free(&after);
    }
}

/* Forwards and backwards of a stage on different workers: both have what is frozen. */
static void test_split_stages(void **state) {
    (void)state;
    struct random_key key = random_key_named(1, RANDOM_WEIGHTS, "split and frozen");
    uint64_t drawn = 0;
    char path[4096];
    const struct run_case usual = case_of(4, path);
    struct trained oracle = run_case_weights(usual);
    for (int found = 0; found < 4;) {
        struct split_case split = split_draw(key, &drawn, SPLIT_LAYERS_MAX, 4);
        struct run_case wanted = usual;
        split.layers = run_case_layers(&usual);
        split_direction(key, &drawn, &split, split.forward);
        split_direction(key, &drawn, &split, split.backward);
        wanted.split = &split;
        wanted.schedule = "1f1b";
        struct ps_plan *plan = split_plan(&split, "1f1b", "sync", 4);
        bool counts = split_any(plan) && plan->stage_count > 1;
        ps_plan_destroy(plan);
        if (!counts) continue;
        struct trained got = run_case_weights(wanted);
        assert_true(trained_equal(&got, &oracle));
        trained_free(&got);
        found++;
    }
    trained_free(&oracle);
}

static void test_memory(void **state) {
    (void)state;
    enum { FIXED = 120 * 64 * (int)sizeof(float), MOMENTS = 2 }; /* fc1.weight of lenet5 for 16 pixels: 120 x (16 x 2 x 2) */
    char path[4096];
    struct run_case wanted = {.model = "lenet5,input=16,classes=4", .optimizer = "adamw", .workers = 2, .micro_batches = 2};
    struct worker_memory all, some;
    const int64_t all_bytes = run_case_memory(wanted, &all);
    wanted.model = frozen(wanted.model, "fc1.weight", path);
    const int64_t bytes = run_case_memory(wanted, &some);
    assert_int_equal(some.weights, all.weights);
    assert_int_equal(some.gradients, all.gradients - FIXED);
    assert_int_equal(some.optimizer, all.optimizer - MOMENTS * FIXED);
    assert_true(bytes <= all_bytes - (1 + MOMENTS) * FIXED);
}

/* A checkpoint holds frozen parameters without moments; a run goes on from it with the same bits, and with its groups. */
static void check_resumed(int number, const char *data, const char *groups) {
    char directory[4096], out[4096], last[4096], path[4096];
    struct run_case wanted = case_of(number, path);
    struct ps_run *run;
    wanted.workers = 2;
    wanted.groups = groups;
    wanted.steps = 6;
    wanted.data = wanted.valid = data; /* two steps an epoch */
    run_case_train(wanted, directory, &run);
    double loss = ps_run_info(run).valid_loss;
    ps_run_destroy(run);
    file_join(out, directory, "run");
    struct evaluating evaluating = {.run = out, .data = wanted.valid, .device = test_device(wanted.device), .batch = 8};
    struct ps_evaluation evaluation;
    assert_ok(evaluating_run(&evaluating, &evaluation, &test_error));
    assert_within(evaluation.loss, loss, 1e-6);
    struct trained whole = trained_read(path, out);
    test_directory_remove(file_join(last, out, "checkpoints/000006"));
    struct training more;
    training_init(&more);
    more.o.resume = out;
    assert_ok(training_run(&more, &run, &test_error));
    ps_run_destroy(run);
    struct trained resumed = trained_read(path, out);
    assert_true(trained_equal(&resumed, &whole));
    trained_free(&resumed);
    trained_free(&whole);
    test_directory_remove(directory);
}

static void test_resumed(void **state) {
    (void)state;
    check_resumed(3, "synthetic:images,samples=16", "layer2.*:lr=0.04;*.bias:lr=0.001,weight-decay=0");
    check_resumed(CASES - 2, "synthetic:images,samples=16", "fc*.weight:lr=0;*.bias:lr=0.002");
    check_resumed(CASES - 1, "synthetic:tokens,samples=16", "*.lora_B.*:lr=0.02");
}

/* A frozen network is another one, and its file says what is frozen. */
static void test_network(void **state) {
    (void)state;
    struct ps_network *network, *again, *split;
    char path[4096];
    assert_ok(ps_network_open(frozen("lenet5", "conv*", path), &network, &test_error));
    assert_ok(ps_network_open("lenet5", &again, &test_error));
    assert_true(network->hash != again->hash);
    assert_int_equal(ps_network_info(network).parameters, ps_network_info(again).parameters - (6 * 25 + 6) - (16 * 150 + 16));
    assert_status(ps_network_freeze(again, "conv*,fc9.*", &test_error), PS_USAGE, "no parameter has a name like 'fc9.*'");
    assert_ok(ps_network_freeze(again, "conv*", &test_error));
    assert_true(network->hash == again->hash);
    assert_ok(network_create_split(network, "conv2:5", &split, &test_error));
    for (int p = 0; p < split->graph->parameter_count; p++)
        assert_int_equal(split->graph->parameters[p].role == PARAMETER_FIXED,
                         strncmp(split->graph->parameters[p].name, "conv", 4) == 0);
    ps_network_destroy(split);
    ps_network_destroy(again);
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_schedule), cmocka_unit_test(test_every_policy), cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_split_stages),   cmocka_unit_test(test_memory),       cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_network),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
