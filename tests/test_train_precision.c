/*
 * Networks of precision bf16: their names, files and hashes; what they take, half to the byte where all values are bf16; and
 * that the weights that kernels read are the rounding of a master, which checkpoints hold. Which values are f32 in those of
 * precision mixed. That schedules, replicas, split
 * stages, lengths and resumed runs keep their bits is tried by their own tests with PENSTOCK_TEST_PRECISION=bf16.
 */
#include "base/processor.h"
#include "run_support.h"

static const char model[] = "lenet5,input=16,classes=4", narrow[] = "lenet5,input=16,classes=4,precision=bf16";

static struct ps_network *open_network(const char *name) {
    struct ps_network *network;
    assert_ok(ps_network_open(name, &network, &test_error));
    return network;
}

static void test_names(void **state) {
    (void)state;
    struct ps_network *wide = open_network(model), *half = open_network(narrow), *read;
    assert_true(wide->hash != half->hash);
    assert_string_equal(half->name, narrow);
    char *text = ps_network_json(half);
    assert_ok(network_parse(text, strlen(text), "a text", &read, &test_error));
    assert_true(read->hash == half->hash);
    free(text);
    const uint64_t hash = wide->hash;
    assert_ok(ps_network_set_precision(wide, "bf16", &test_error));
    assert_true(wide->hash == half->hash);
    assert_string_equal(wide->name, narrow);
    assert_ok(ps_network_set_precision(wide, "f32", &test_error));
    assert_true(wide->hash == hash);
    assert_string_equal(wide->name, model);
    assert_null(wide->graph->wide);
    assert_ok(ps_network_set_precision(wide, "auto", &test_error));
    assert_true(wide->graph->precision == (processor_has_fast_bf16() ? PRECISION_BF16 : PRECISION_F32));
    assert_status(ps_network_set_precision(wide, "bf61", &test_error), PS_USAGE, "bf16");
    assert_ok(ps_network_set_precision(wide, "mixed", &test_error));
    assert_true(wide->hash != hash && wide->hash != half->hash);
    text = ps_network_json(wide);
    ps_network_destroy(read);
    assert_ok(network_parse(text, strlen(text), "a text", &read, &test_error));
    assert_true(read->hash == wide->hash);
    free(text);
    assert_status(ps_network_open("lenet5,precision=half", &read, &test_error), PS_USAGE, "precision");
    ps_network_destroy(read);
    ps_network_destroy(wide);
    ps_network_destroy(half);
}

/* Blocks of the layers behind the first, whose input is the data. */
static void test_sizes(void **state) {
    (void)state;
    struct device *device;
    assert_ok(device_open("reference", &(struct device_options){.threads = 1}, &device, &test_error));
    struct ps_network *networks[] = {open_network("gpt2,layers=2,width=64,heads=4,seq=16,vocab=64"),
                                     open_network("gpt2,layers=2,width=64,heads=4,seq=16,vocab=64,precision=bf16")};
    struct stage_sizes sizes[2];
    for (int n = 0; n < 2; n++) {
        struct stage *stage;
        assert_ok(stage_create(device, networks[n]->graph, 1, networks[n]->graph->layer_count - 2, 4, &stage, &test_error));
        sizes[n] = stage_sizes(stage);
        stage_destroy(stage);
        ps_network_destroy(networks[n]);
    }
    device_close(device);
    assert_int_equal(sizes[0].input_bytes, 2 * sizes[1].input_bytes);
    assert_int_equal(sizes[0].output_bytes, 2 * sizes[1].output_bytes);
    assert_int_equal(sizes[0].delta_bytes, 2 * sizes[1].delta_bytes);
    assert_int_equal(sizes[0].parameter_bytes, sizes[1].parameter_bytes);
    assert_int_equal(stage_copy_bytes(&sizes[1]), sizes[1].parameter_bytes - sizes[1].narrow_bytes / 2);
    assert_true(sizes[1].narrow_bytes * 10 > sizes[1].parameter_bytes * 9); /* matrices */
    assert_int_equal(stage_master_bytes(&sizes[0]), 0);
}

/* Of all nodes of a kind, but the network's first: the type of their output with precision mixed. */
static void test_mixed(void **state) {
    (void)state;
    static const struct {
        const char *model;
        enum operator_id id;
        enum number_type type;
    } rows[] = {
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_EMBEDDING, TYPE_F32},
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_POSITION_EMBEDDING, TYPE_F32},
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_ADD, TYPE_F32},
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_LAYER_NORM, TYPE_BF16}, /* only products read it */
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_ATTENTION, TYPE_BF16},
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_LINEAR, TYPE_BF16},
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_GELU, TYPE_BF16},
        {"gpt2,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_CROSS_ENTROPY, TYPE_F32},
        {"bert48,layers=2,width=16,heads=2,seq=6,vocab=20", OPERATOR_ADD, TYPE_F32},
        {"residual_lstm,layers=2,hidden=8,seq=6,vocab=20", OPERATOR_ADD, TYPE_F32},
        {"residual_lstm,layers=2,hidden=8,seq=6,vocab=20", OPERATOR_LSTM, TYPE_BF16},
        {"resnet,input=8,classes=4", OPERATOR_BATCH_NORM, TYPE_BF16},
        {"resnet,input=8,classes=4", OPERATOR_ADD, TYPE_BF16}, /* of two that are */
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct ps_network *network = open_network(rows[r].model);
        assert_ok(ps_network_set_precision(network, "mixed", &test_error));
        int count = 0;
        for (int n = 0; n < network->graph->node_count; n++) {
            const struct node *node = &network->graph->nodes[n];
            if (node->id != rows[r].id) continue;
            if (node->shape.type != rows[r].type) fail_msg("%s: %s", rows[r].model, node->name);
            assert_int_equal(network->graph->nodes[node->root].shape.type, node->shape.type);
            count++;
        }
        assert_true(count > 0);
        ps_network_destroy(network);
    }
}

/* What is the largest of its inputs a backward finds by comparing: it has their type, though a product alone reads it. */
static void test_extremes(void **state) {
    (void)state;
    static const enum number_type types[] = {
        [REDUCE_SUM] = TYPE_BF16, [REDUCE_MEAN] = TYPE_BF16, [REDUCE_MAX] = TYPE_F32, [REDUCE_MIN] = TYPE_F32};
    for (int kind = REDUCE_SUM; kind <= REDUCE_MIN; kind++) {
        struct builder b = {graph_create(), &test_error};
        struct attributes of = {.kind = kind, .axes = {1, {1}}}, layer = {.channels = 3, .bias = true};
        int x = build_embedding(&b, build_tokens(&b, 5), "embedding", 7, 4);
        int reduced = graph_add(b.graph, OPERATOR_REDUCE, "reduced", &of, &x, 1, &test_error);
        const int vector = graph_add(b.graph, OPERATOR_FLATTEN, "vector", NULL, &reduced, 1, &test_error);
        graph_add(b.graph, OPERATOR_LINEAR, "layer", &layer, &vector, 1, &test_error);
        assert_ok(graph_finish(b.graph, &test_error));
        assert_ok(graph_set_precision(b.graph, PRECISION_MIXED, &test_error));
        assert_int_equal(b.graph->nodes[x].shape.type, TYPE_F32);
        if (b.graph->nodes[reduced].shape.type != types[kind]) fail_msg("kind %d: of another type", kind);
        graph_destroy(b.graph);
    }
}

static void check_master(const struct worker_stage *stage) {
    const size_t wide = stage->update.wide;
    const uint16_t *copy = (const uint16_t *)(const void *)(stage->weights[0] + wide);
    size_t finer = 0;
    assert_non_null(stage->update.master);
    assert_memory_equal(stage->weights[0], stage->update.master, wide * sizeof(float));
    for (size_t i = wide; i < stage->update.count; i++) {
        assert_int_equal(copy[i - wide], bf16_of(stage->update.master[i]));
        finer += bf16_value(copy[i - wide]) != stage->update.master[i];
    }
    assert_true(2 * finer > stage->update.count - wide);
}

/* After training, slot 0 is the master's rounding, and the master is finer. */
static void test_master(void **state) {
    (void)state;
    static const char *const policies[] = {"latest", "stash", "2bw", "xpipe", "pipeoptim", "horizon"};
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        char directory[4096], plan_path[4096];
        struct run_case wanted = run_case_complete((struct run_case){
            .model = narrow, .schedule = "1f1b-async", .weights = policies[p], .workers = 2, .micro_batches = 2, .steps = 4});
        struct training options = run_case_planned(&wanted, directory, plan_path);
        struct training_objects objects;
        struct ps_trainer *trainer;
        assert_ok(training_open(&options, &objects, &test_error));
        assert_ok(ps_trainer_create(&objects.options, &trainer, &test_error));
        assert_ok(ps_trainer_step(trainer, INT64_MAX, &test_error));
        for (int w = 0; w < 2; w++)
            if (device_in_host(trainer->executor->workers[w].device)) check_master(trainer->executor->workers[w].stages);
        ps_trainer_destroy(trainer);
        training_close(&objects);
        test_directory_remove(directory);
    }
}

/* What a run takes, which run_case_memory compares with its plan: a further copy costs half, and a master comes once. */
static void test_memory(void **state) {
    (void)state;
    for (int slots = 1; slots <= 2; slots++) {
        struct worker_memory wide, half;
        struct run_case wanted = {
            .model = model, .schedule = "1f1b-async", .weights = slots == 1 ? "latest" : "stash", .workers = 2};
        run_case_memory(wanted, &wide);
        wanted.model = narrow;
        run_case_memory(wanted, &half);
        assert_int_equal(wide.gradients, half.gradients);
        assert_int_equal(half.optimizer, 2 * wide.optimizer); /* sgdm's moment, and the master */
        const int64_t saved = wide.weights - half.weights;    /* worker 0 has `slots` copies, worker 1 one */
        assert_true(saved > 0 && saved <= wide.weights / 2);
        assert_true(half.stash < wide.stash && half.buffers < wide.buffers);
    }
    struct worker_memory some;
    run_case_memory((struct run_case){.model = "gpt2,layers=2,width=16,heads=2,seq=6,vocab=20,precision=mixed",
                                      .data = "synthetic:tokens,samples=8",
                                      .workers = 2},
                    &some);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_sizes),  cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_extremes), cmocka_unit_test(test_master), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
