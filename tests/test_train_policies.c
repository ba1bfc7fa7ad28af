/*
 * Asynchronous training. The threads give the bits of the one-thread transport, whatever the policy, and both give those of an
 * oracle that knows no programs: it takes the micro-batches one by one through all stages and back, keeps every version of
 * weights and moments, and puts together for each forward and backward the versions and predictions that the definition of the
 * policy names, stage by stage.
 *
 * With PENSTOCK_TEST_PRECISION=bf16 the versions are those of an f32 master, predictions are made from master and moments in
 * f32, and what a stage reads is rounded here, matrix element by matrix element, to the nearest bf16. The tolerance that
 * follows from bf16's rounding is none: a run and the oracle round the same f32 numbers at the same places, once each, and
 * rounding is a function; a policy that reads another version, predicts from the rounded copy (off by up to 2^-9 of a weight)
 * or rounds twice has other bits.
 */
#include "compute/stage.h"
#include "data/loader.h"
#include "exec/update_rule.h"
#include "run_support.h"

static const char *const policies[] = {"latest", "stash", "2bw", "spectrain", "xpipe", "pipeoptim", "horizon"};
enum { POLICIES = sizeof policies / sizeof *policies, WORKERS_MAX = 5, VERSIONS_MAX = 16 };

/* --------------------------------------------------------------------- the oracle */

/* Weights or moments of the whole network after so many updates. */
struct version {
    float *weights, *moment[4];
};

struct oracle {
    struct run_case work;
    struct ps_network *model;
    struct device *device;
    struct stage *stages[WORKERS_MAX];
    struct stage_sizes sizes[WORKERS_MAX];
    struct stage_blocks blocks[WORKERS_MAX];
    void *forward[WORKERS_MAX], *backward[WORKERS_MAX]; /* the copies of the weights that they read */
    size_t first[WORKERS_MAX + 1];      /* float of the flat blocks, those of all stages after each other, where each begins */
    size_t statistics[WORKERS_MAX + 1]; /* likewise of the statistics */
    const struct optimizer *rule, *adam;
    struct optimizer_settings settings;
    struct version versions[VERSIONS_MAX];
    int newest;
    float *chosen; /* put together */
    float *gradients, *all_statistics;
    struct samples samples;
    struct loader *loader;
};

static void *take(int64_t bytes) {
    void *block = aligned_alloc(64, memory_align((size_t)bytes + 1));
    assert_non_null(block);
    memset(block, 0, memory_align((size_t)bytes + 1));
    return block;
}

/* The plan's stages. */
static void oracle_cut(struct oracle *oracle, const struct run_case *work) {
    struct ps_plan *plan = run_case_plan(work);
    for (int s = 0; s < work->workers; s++) {
        assert_ok(stage_create(oracle->device, oracle->model->graph, plan->stages[s].first, plan->stages[s].last,
                               work->micro_batch, &oracle->stages[s], &test_error));
        const struct stage_sizes sizes = oracle->sizes[s] = stage_sizes(oracle->stages[s]);
        oracle->first[s + 1] = oracle->first[s] + (size_t)sizes.parameter_bytes / sizeof(float);
        oracle->statistics[s + 1] = oracle->statistics[s] + (size_t)sizes.statistics_bytes / sizeof(float);
    }
    ps_plan_destroy(plan);
}

static int64_t flat_bytes(const struct oracle *oracle) {
    return (int64_t)(oracle->first[oracle->work.workers] * sizeof(float));
}

static void oracle_take(struct oracle *oracle) {
    const int workers = oracle->work.workers;
    oracle->gradients = take(flat_bytes(oracle));
    oracle->all_statistics = take((int64_t)(oracle->statistics[workers] * sizeof(float)));
    oracle->chosen = take(flat_bytes(oracle));
    for (int v = 0; v <= oracle->work.steps; v++) {
        oracle->versions[v].weights = take(flat_bytes(oracle));
        for (int i = 0; i < 4; i++) oracle->versions[v].moment[i] = take(flat_bytes(oracle));
    }
    for (int s = 0; s < workers; s++) {
        const struct stage_sizes sizes = oracle->sizes[s];
        struct stage_blocks *blocks = &oracle->blocks[s];
        oracle->forward[s] = take(stage_copy_bytes(&sizes));
        oracle->backward[s] = take(stage_copy_bytes(&sizes));
        *blocks = (struct stage_blocks){.gradients = oracle->gradients + oracle->first[s],
                                        .statistics = oracle->all_statistics + oracle->statistics[s],
                                        .input = take(sizes.input_bytes),
                                        .output = take(sizes.output_bytes),
                                        .stash = take(sizes.stash_bytes),
                                        .input_gradient = s > 0 ? take(sizes.input_bytes) : NULL,
                                        .workspace = take(sizes.workspace_bytes)};
        if (s > 0) oracle->blocks[s - 1].output_gradient = blocks->input_gradient;
        assert_ok(stage_initialize(oracle->stages[s], oracle->work.seed, oracle->versions[0].weights + oracle->first[s],
                                   oracle->forward[s], blocks->statistics, &test_error));
    }
}

static void oracle_start(struct oracle *oracle, struct run_case work) {
    *oracle = (struct oracle){.work = work};
    assert_ok(ps_network_open(work.model, &oracle->model, &test_error));
    struct device_options device = {.threads = 1};
    assert_ok(device_open(work.device, &device, &oracle->device, &test_error));
    oracle_cut(oracle, &work);
    oracle_take(oracle);
    assert_ok(optimizer_find(work.optimizer, &oracle->rule, &test_error));
    assert_ok(optimizer_find("adam", &oracle->adam, &test_error));
    oracle->settings = oracle->rule->defaults;
    if (work.weight_decay > 0) oracle->settings.weight_decay = work.weight_decay;
    struct dataset_shape wanted = {.channels = oracle->model->input_shape[0],
                                   .height = oracle->model->input_shape[1],
                                   .width = oracle->model->input_shape[2],
                                   .classes = oracle->model->classes};
    assert_ok(samples_open(work.data, DATASET_TRAIN, &wanted, &oracle->samples, &test_error));
    struct loader_options loader = {.samples = &oracle->samples,
                                    .batch = work.micro_batch * work.micro_batches,
                                    .inputs = true,
                                    .targets = true,
                                    .shuffle = true,
                                    .seed = work.seed,
                                    .ahead = 1,
                                    .serial = true};
    assert_ok(loader_create(&loader, &oracle->loader, &test_error));
}

static void oracle_end(struct oracle *oracle) {
    for (int v = 0; v <= oracle->work.steps; v++) {
        free(oracle->versions[v].weights);
        for (int i = 0; i < 4; i++) free(oracle->versions[v].moment[i]);
    }
    free(oracle->chosen);
    free(oracle->gradients);
    free(oracle->all_statistics);
    for (int s = 0; s < oracle->work.workers; s++) {
        free(oracle->forward[s]);
        free(oracle->backward[s]);
        free(oracle->blocks[s].input);
        free(oracle->blocks[s].output);
        free(oracle->blocks[s].stash);
        free(oracle->blocks[s].input_gradient);
        free(oracle->blocks[s].workspace);
        stage_destroy(oracle->stages[s]);
    }
    loader_destroy(oracle->loader);
    samples_close(&oracle->samples);
    device_close(oracle->device);
    ps_network_destroy(oracle->model);
}

/* "poly:1" over all steps. */
static double rate_of(const struct oracle *oracle, int update) {
    double progress = (double)update / oracle->work.steps;
    return oracle->work.lr * pow(1 - progress, 1);
}

static bool adam_beside(const struct oracle *oracle) {
    return strcmp(oracle->work.weights, "xpipe") == 0 && !oracle->rule->adam_settings;
}

/* What kernels read of the master's weights of stage `s`: those of f32 first, then those of bf16. */
static void round_weights(const struct oracle *oracle, int s, void *copy) {
    const float *master = oracle->chosen + oracle->first[s];
    const size_t narrow = (size_t)oracle->sizes[s].narrow_bytes / sizeof(float);
    const size_t wide = oracle->first[s + 1] - oracle->first[s] - narrow;
    uint16_t *rounded = (uint16_t *)(void *)((float *)copy + wide);
    memcpy(copy, master, wide * sizeof(float));
    for (size_t i = 0; i < narrow; i++) rounded[i] = bf16_of(master[wide + i]);
}

/* Stage `s`'s part of `chosen` = its weights of version `v`, predicted `ahead` updates on. */
static void put_together(const struct oracle *oracle, int s, int v, int ahead) {
    size_t first = oracle->first[s], count = oracle->first[s + 1] - first;
    const struct version *version = &oracle->versions[v];
    const struct optimizer *rule = adam_beside(oracle) ? oracle->adam : oracle->rule;
    struct optimizer_call call = {.count = count,
                                  .weights = version->weights + first,
                                  .predicted = oracle->chosen + first,
                                  .step = v,
                                  .ahead = {.lr_sum = 0, .decay_product = 1}};
    if (ahead == 0) {
        memcpy(call.predicted, call.weights, count * sizeof(float));
        return;
    }
    for (int i = 0; i < rule->moments; i++) call.moment[i] = version->moment[(adam_beside(oracle) ? 2 : 0) + i] + first;
    for (int u = v; u < v + ahead; u++) {
        call.ahead.lr_sum += rate_of(oracle, u);
        call.ahead.decay_product *= 1 - rate_of(oracle, u) * oracle->settings.weight_decay;
    }
    if (oracle->work.paper_prediction)
        call.ahead = (struct optimizer_ahead){.lr_sum = v > 0 ? ahead * rate_of(oracle, v - 1) : 0, .decay_product = 1};
    struct optimizer_settings settings = adam_beside(oracle) ? rule->defaults : oracle->settings;
    settings.weight_decay = oracle->settings.weight_decay;
    rule->predict(&settings, &call);
}

/* What stage `s` reads for micro-batch `m` of a segment of `count`, in updates since the segment began. */
static void read_weights(const struct oracle *oracle, int s, int m, int count, int base) {
    const char *policy = oracle->work.weights;
    int M = oracle->work.micro_batches, ahead = oracle->work.workers - 1 - s, later = m + s / 2, horizon = m + s;
    if (ahead > count) ahead = count;
    int vf = m > ahead ? (m - ahead) / M : 0, vb = m / M, first_worker = later < count ? later / M : count / M;
    struct {
        int version, ahead;
    } f = {vf, 0}, b = {vb, 0};
    if (strcmp(policy, "stash") == 0) b.version = vf;
    if (strcmp(policy, "2bw") == 0) f.version = b.version = vb > 0 ? vb - 1 : 0;
    if (strcmp(policy, "pipeoptim") == 0) f.ahead = vb - vf;
    if (strcmp(policy, "horizon") == 0) f.ahead = (horizon < count ? horizon : count) / M - vf;
    if (strcmp(policy, "spectrain") == 0 || strcmp(policy, "xpipe") == 0) {
        f.ahead = first_worker - vf;
        b.ahead = first_worker - vb;
    }
    put_together(oracle, s, base + f.version, f.ahead);
    round_weights(oracle, s, oracle->forward[s]);
    put_together(oracle, s, base + b.version, b.ahead);
    round_weights(oracle, s, oracle->backward[s]);
}

static void update(struct oracle *oracle) {
    struct version *from = &oracle->versions[oracle->newest], *to = &oracle->versions[oracle->newest + 1];
    size_t bytes = (size_t)flat_bytes(oracle);
    for (int i = 0; i < 4; i++) memcpy(to->moment[i], from->moment[i], bytes);
    struct optimizer_call call = {.count = bytes / sizeof(float),
                                  .weights = from->weights,
                                  .updated = to->weights,
                                  .gradient = oracle->gradients,
                                  .lr = rate_of(oracle, oracle->newest),
                                  .step = oracle->newest + 1};
    for (int i = 0; i < oracle->rule->moments; i++) call.moment[i] = to->moment[i];
    oracle->rule->update(&oracle->settings, &call);
    if (adam_beside(oracle)) {
        struct optimizer_settings settings = oracle->adam->defaults;
        settings.weight_decay = oracle->settings.weight_decay;
        for (int i = 0; i < 2; i++) call.moment[i] = to->moment[2 + i];
        oracle->adam->observe(&settings, &call);
    }
    oracle->newest++;
}

static void micro_batch(struct oracle *oracle, const struct loaded_batch *batch, int m, int count, int base) {
    const struct run_case *work = &oracle->work;
    int place = m % work->micro_batches;
    size_t floats = (size_t)(shape_elements(&oracle->model->graph->nodes[0].shape) * work->micro_batch);
    for (int s = 0; s < work->workers; s++) read_weights(oracle, s, m, count, base);
    memcpy(oracle->blocks[0].input, (const float *)batch->inputs + (size_t)place * floats, floats * sizeof(float));
    struct stage_step step = {.seed = work->seed,
                              .step = (uint64_t)oracle->newest,
                              .micro_batch = place,
                              .target = (const int32_t *)batch->targets + place * work->micro_batch,
                              .gradient_scale = 1.0f / (float)(work->micro_batch * work->micro_batches),
                              .training = true,
                              .update_statistics = true,
                              .accumulate = place > 0};
    for (int s = 0; s < work->workers; s++) {
        oracle->blocks[s].weights = oracle->forward[s];
        assert_ok(stage_forward(oracle->stages[s], &oracle->blocks[s], &step, NULL, &test_error));
        if (s + 1 < work->workers)
            memcpy(oracle->blocks[s + 1].input, oracle->blocks[s].output, (size_t)oracle->sizes[s].output_bytes);
    }
    step.update_statistics = false;
    for (int s = work->workers - 1; s >= 0; s--) {
        oracle->blocks[s].weights = oracle->backward[s];
        if (work->recompute) assert_ok(stage_forward(oracle->stages[s], &oracle->blocks[s], &step, NULL, &test_error));
        assert_ok(stage_backward(oracle->stages[s], &oracle->blocks[s], &step, STAGE_BOTH, &test_error));
    }
    if (place + 1 == work->micro_batches) update(oracle);
}

static int smallest(int a, int b, int c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); }

static struct trained oracle_train(struct run_case work) {
    struct oracle oracle;
    work = run_case_complete(work);
    oracle_start(&oracle, work);
    int epoch = (int)loader_batches(oracle.loader);
    while (oracle.newest < work.steps) {
        int base = oracle.newest, every = work.evaluate_every > 0 ? work.evaluate_every : work.steps;
        int length = smallest(every, epoch - base % epoch, work.steps - base);
        for (int m = 0; m < length * work.micro_batches; m++) {
            static struct loaded_batch batch;
            int64_t number = base + m / work.micro_batches;
            if (m % work.micro_batches == 0) assert_ok(loader_get(oracle.loader, number, &batch, &test_error));
            micro_batch(&oracle, &batch, m, length * work.micro_batches, base);
            if ((m + 1) % work.micro_batches == 0) loader_release(oracle.loader, number);
        }
    }
    struct trained trained = {0};
    const struct graph *graph = oracle.model->graph;
    for (int i = 0; i < graph->parameter_count; i++) trained.count += (size_t)shape_elements(&graph->parameters[i].shape);
    trained.values = malloc(trained.count * sizeof *trained.values);
    assert_non_null(trained.values);
    size_t place = 0;
    int number = 0; /* of the parameter in the network */
    for (int s = 0; s < work.workers; s++)
        for (int i = 0; i < stage_parameter_count(oracle.stages[s]); i++, number++) {
            assert_string_equal(stage_parameter(oracle.stages[s], i)->name, graph->parameters[number].name);
            assert_ok(stage_export_f32(oracle.stages[s], i, oracle.versions[work.steps].weights + oracle.first[s],
                                       oracle.blocks[s].statistics, trained.values + place, &test_error));
            place += (size_t)shape_elements(&graph->parameters[number].shape);
        }
    assert_int_equal(number, graph->parameter_count);
    oracle_end(&oracle);
    return trained;
}

/* ------------------------------------------------------------------------ the tests */

/* 2bw needs at least as many micro-batches as stages, SpecTrain the momentum. */
static struct run_case fit_policy(struct run_case wanted, const char *policy, const char *optimizer) {
    wanted.schedule = "1f1b-async";
    wanted.weights = policy;
    wanted.optimizer = strcmp(policy, "spectrain") == 0 ? "sgdm" : optimizer;
    if (strcmp(policy, "2bw") == 0 && wanted.micro_batches < wanted.workers) wanted.micro_batches = wanted.workers;
    return wanted;
}

static void check_against_oracle(struct run_case wanted) {
    char text[160];
    wanted.lr_schedule = "poly:1";
    struct trained oracle = oracle_train(wanted);
    for (int t = 0; t < 2; t++) {
        wanted.transport = t ? "serial" : "threads";
        struct trained got = run_case_weights(wanted);
        bool same = trained_equal(&got, &oracle);
        if (!same) print_message("%s%s\n", run_case_text(&wanted, text), wanted.recompute ? ", recompute" : "");
        trained_free(&got);
        assert_true(same);
    }
    trained_free(&oracle);
}

/* Nine steps in segments of four, four and one: filling, flowing and draining, and a segment shorter than the pipeline. */
static void check_policy(const char *policy) {
    static const char *const optimizers[] = {"sgdm", "adam", "adamw"};
    static const int workers[] = {1, 2, 3, 5};
    int number = 0;
    for (int w = 0; w < 4; w++)
        for (int m = 1; m <= 3; m++, number++) {
            if (!test_takes((size_t)number, 7)) continue;
            struct run_case wanted = {.workers = workers[w],
                                      .micro_batches = m,
                                      .micro_batch = 2,
                                      .steps = 9,
                                      .evaluate_every = 4,
                                      .recompute = number % 3 == 2};
            wanted = fit_policy(wanted, policy, optimizers[number % 3]);
            wanted.lr = strcmp(wanted.optimizer, "sgdm") == 0 ? 0.02 : 1e-3;
            wanted.weight_decay = number % 2 ? 0.1 : 0;
            check_against_oracle(wanted);
        }
}

static void test_latest(void **state) { (void)state, check_policy("latest"); }
static void test_stash(void **state) { (void)state, check_policy("stash"); }
static void test_2bw(void **state) { (void)state, check_policy("2bw"); }
static void test_spectrain(void **state) { (void)state, check_policy("spectrain"); }
static void test_xpipe(void **state) { (void)state, check_policy("xpipe"); }
static void test_horizon(void **state) { (void)state, check_policy("horizon"); }
static void test_pipeoptim(void **state) { (void)state, check_policy("pipeoptim"); }

static void test_paper_prediction(void **state) {
    (void)state;
    for (int p = 3; p < POLICIES; p++)
        if (test_takes((size_t)p, 3))
            check_against_oracle(fit_policy(
                (struct run_case){
                    .workers = 3, .micro_batch = 2, .steps = 7, .lr = 2e-3, .weight_decay = 0.1, .paper_prediction = true},
                policies[p], "adamw"));
}

/* Crossing values, batch statistics. */
static void test_resnet(void **state) {
    (void)state;
    for (int p = 0; p < POLICIES; p++)
        if (test_takes((size_t)p, POLICIES))
            check_against_oracle(fit_policy((struct run_case){.model = "resnet,input=8,classes=4",
                                                              .workers = 3,
                                                              .micro_batch = 2,
                                                              .steps = 6,
                                                              .evaluate_every = 5,
                                                              .lr = 0.01,
                                                              .recompute = p % 2},
                                            policies[p], "sgdm"));
}

/* Plain gradient descent is predicted by its last gradient: sgdm with momentum 0. */
static void test_plain_sgd(void **state) {
    (void)state;
    struct run_case wanted =
        fit_policy((struct run_case){.workers = 3, .steps = 6, .micro_batch = 2, .lr_schedule = "poly:1"}, "pipeoptim", "sgd");
    char directory[4096], run_dir[4096];
    struct ps_run *run;
    run_case_train(wanted, directory, &run);
    struct trained plain = trained_read(run_case_complete(wanted).model, file_join(run_dir, directory, "run"));
    /* One moment, as planned. */
    for (int w = 0; w < 3; w++) assert_int_equal(ps_run_worker(run, w).planned_bytes, ps_run_worker(run, w).measured_bytes);
    ps_run_destroy(run);
    test_directory_remove(directory);
    wanted.weights = "latest";
    struct trained latest = run_case_weights(wanted);
    assert_memory_not_equal(plain.values, latest.values, plain.count * sizeof *plain.values);
    trained_free(&latest);
    trained_free(&plain);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latest),  cmocka_unit_test(test_stash),
        cmocka_unit_test(test_2bw),     cmocka_unit_test(test_spectrain),
        cmocka_unit_test(test_xpipe),   cmocka_unit_test(test_pipeoptim),
        cmocka_unit_test(test_horizon), cmocka_unit_test(test_paper_prediction),
        cmocka_unit_test(test_resnet),  cmocka_unit_test(test_plain_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
