/*
 * A deep network as importers make it: a narrow Llama of 32 blocks, its rotary positions operator by operator. It is built,
 * written and read, measured, planned for eight workers, and trained on four as on one.
 */
#include <time.h>

#include "run_support.h"

enum { BLOCKS = 32, SEQUENCE = 8, VOCABULARY = 32, STEPS = 2 };

/* A block being written: `name` begins the names of its nodes. */
struct block {
    struct ps_network_builder *builder;
    int number;
};

/* A node that reads up to three others, or, if `inputs` is NULL, the one before it. */
static int add(const struct block *block, const char *name, const char *what, const int *inputs, int count) {
    char full[64];
    snprintf(full, sizeof full, "layers.%d.%s", block->number, name);
    return ps_network_builder_node(block->builder, full, what, inputs, inputs ? count : 0);
}

static int add_one(const struct block *block, const char *name, const char *what, int input) {
    return add(block, name, what, &input, 1);
}

static int add_two(const struct block *block, const char *name, const char *what, int a, int b) {
    return add(block, name, what, (const int[]){a, b}, 2);
}

/* One factor for all: what is tested is how many operators there are. */
static int scaled(const struct block *block, const char *name, int input, double factor) {
    const int node = add_one(block, name, "binary,kind=mul,sides=4x8x1,trained=false", input);
    ps_network_builder_initial(block->builder, node, "weight", "constant", factor);
    return node;
}

/* x * cos + rotated(x) * sin, where rotated puts the second half of each head, negated, before the first. */
static int rotated(const struct block *block, const char *of, int x) {
    enum { NAMES = 9 };
    char name[NAMES][16];
    for (int n = 0; n < NAMES; n++) snprintf(name[n], sizeof name[n], "%s.%d", of, n);
    const int heads = add_one(block, name[0], "view,sides=4x8x4", x);
    const int first = add_one(block, name[1], "slice,axis=0,first=0,count=2", heads);
    const int second = add_one(block, name[2], "slice,axis=0,first=2,count=2", heads);
    const int negated = add_one(block, name[3], "unary,kind=neg", second);
    const int turned = add_two(block, name[4], "concat,axis=0", negated, first);
    add_two(block, name[7], "add", scaled(block, name[5], heads, 0.8), scaled(block, name[6], turned, 0.6));
    return add(block, name[8], "view,sides=16x8x1", NULL, 0);
}

static int add_block(const struct block *block, int x) {
    const int norm = add_one(block, "input_layernorm", "rms_norm,epsilon=1e-6", x);
    const int query = rotated(block, "q", add_one(block, "q_proj", "linear,channels=16,bias=false", norm));
    const int key = rotated(block, "k", add_one(block, "k_proj", "linear,channels=16,bias=false", norm));
    const int value = add_one(block, "v_proj", "linear,channels=16,bias=false", norm);
    add(block, "attention", "attention,heads=4,causal=true", (const int[]){query, key, value}, 3);
    const int out = add(block, "o_proj", "linear,channels=16,bias=false", NULL, 0);
    const int middle = add_two(block, "attended", "add", x, out);
    const int after = add_one(block, "post_attention_layernorm", "rms_norm,epsilon=1e-6", middle);
    add_one(block, "gate_proj", "linear,channels=32,bias=false", after);
    const int gate = add(block, "silu", "unary,kind=silu", NULL, 0);
    const int up = add_one(block, "up_proj", "linear,channels=32,bias=false", after);
    add_two(block, "gated", "binary,kind=mul", gate, up);
    const int down = add(block, "down_proj", "linear,channels=16,bias=false", NULL, 0);
    return add_two(block, "computed", "add", middle, down);
}

/* Written to a file and read from it again. */
static struct ps_network *deep_network(const char *path) {
    struct ps_network_builder *builder = ps_network_builder_create("llama32");
    struct ps_network *built, *read;
    assert_non_null(builder);
    ps_network_builder_input(builder, "tokens", "i32", (const int64_t[]){SEQUENCE}, 1);
    int x = ps_network_builder_node(builder, "embed_tokens", "embedding,channels=16,vocabulary=32", NULL, 0);
    for (int b = 0; b < BLOCKS; b++) x = add_block(&(struct block){builder, b}, x);
    ps_network_builder_node(builder, "norm", "rms_norm,epsilon=1e-6", &x, 1);
    ps_network_builder_node(builder, "lm_head", "linear,channels=32,bias=false", NULL, 0);
    ps_network_builder_node(builder, "loss", "cross_entropy", NULL, 0);
    ps_network_builder_predicts(builder, "tokens");
    assert_ok(ps_network_builder_finish(builder, &built, &test_error));
    assert_ok(ps_network_write(built, path, &test_error));
    assert_ok(ps_network_open(path, &read, &test_error));
    assert_int_equal(ps_network_info(read).layers, ps_network_info(built).layers);
    assert_true(ps_network_info(read).layers > 20 * BLOCKS);
    ps_network_destroy(built);
    return read;
}

static struct ps_plan *plan_for(const struct ps_profile *profile, int workers, const char *schedule) {
    struct ps_cluster_options machines = {.struct_size = sizeof machines, .workers = workers, .bandwidth_bytes_per_s = 1e9};
    struct ps_plan_options options = {.struct_size = sizeof options,
                                      .method = "auto",
                                      .micro_batches = schedule ? 4 : 0,
                                      .schedule = schedule,
                                      .weights = schedule ? "sync" : NULL};
    struct ps_cluster *cluster;
    struct ps_plan *plan;
    assert_ok(ps_cluster_uniform(&machines, &cluster, &test_error));
    assert_ok(ps_plan_find(profile, cluster, &options, &plan, &test_error));
    ps_cluster_destroy(cluster);
    return plan;
}

/* The embedding and the last block's weights after the training. */
static void train(const struct ps_network *network, const struct ps_plan *plan, float weights[2][512]) {
    struct ps_dataset *data;
    struct ps_trainer *trainer;
    struct ps_train_options options;
    assert_ok(ps_dataset_open("synthetic:tokens,samples=8", NULL, &data, &test_error));
    ps_train_options_init(&options);
    options.network = network;
    options.plan = plan;
    options.data = data;
    options.steps = STEPS;
    assert_ok(ps_trainer_create(&options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
    assert_ok(ps_trainer_read_parameter(trainer, "embed_tokens.weight", weights[0], 512, &test_error));
    assert_ok(ps_trainer_read_parameter(trainer, "layers.31.up_proj.weight", weights[1], 512, &test_error));
    ps_trainer_destroy(trainer);
    ps_dataset_destroy(data);
}

static void deep(void **state) {
    (void)state;
    static float apart[2][512], alone[2][512];
    char path[5000];
    snprintf(path, sizeof path, "%s/llama32.json", test_directory);
    struct ps_network *network = deep_network(path);
    struct ps_profile *profile;
    const int size = 2;
    const struct ps_profile_options how = {
        .struct_size = sizeof how, .micro_batches = &size, .micro_batch_count = 1, .repeats = 1, .warmup = 1, .busy = 1};
    assert_ok(ps_profile_measure(network, &how, &profile, &test_error));
    const clock_t start = clock();
    struct ps_plan *eight = plan_for(profile, 8, NULL);
    assert_true(ps_plan_info(eight).stages >= 1);
    ps_plan_destroy(eight);
    if (clock() - start > 10 * CLOCKS_PER_SEC) fail_msg("planning took more than ten seconds");
    struct ps_plan *four = plan_for(profile, 4, "1f1b"), *one = plan_for(profile, 1, "1f1b");
    train(network, four, apart);
    train(network, one, alone);
    assert_memory_equal(apart, alone, sizeof apart);
    ps_plan_destroy(four);
    ps_plan_destroy(one);
    ps_profile_destroy(profile);
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(deep, test_directory_set_up, test_directory_tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
