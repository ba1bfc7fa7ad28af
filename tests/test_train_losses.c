/* Every loss in training: its value and gradient against the definition, which is PyTorch's, and the same bits on any number of
 * workers. */
#include "data/npz.h"
#include "run_support.h"
#include "within.h"

enum { SAMPLES = 24, FEATURES = 5, OUTPUTS = 3, SIDE = 4, STEPS = 12, BATCH = 12 };

/* A network whose last weights begin at zero: it gives zeros, of which loss and gradient are known. */
struct loss_case {
    const char *loss;
    bool pixels; /* an image, and a value for each of its pixels; else features */
    bool labels, weighted;
};

static const struct loss_case cases[] = {
    {"mse", false, false, false},          {"mse", true, false, false},
    {"l1", false, false, false},           {"bce", false, false, false},
    {"cross_entropy", false, true, false}, {"cross_entropy", true, true, false},
    {"cross_entropy", false, true, true},  {"cross_entropy,smoothing=0.1", true, true, true},
};

/* The least by which these few steps change a loss, whatever the features: of 21 seeds the slowest gave 0.990. */
static const double FALL = 0.995;

static const float class_weights[OUTPUTS] = {0.5f, 1, 4};

static int64_t positions_of(const struct loss_case *c) { return c->pixels ? SIDE * SIDE : 1; }

/* ---------------------------------------------------------------------------- data */

static float feature(int64_t sample, int64_t i) { return random_uniform(test_key(900), (uint64_t)(sample * 1000 + i)) - 0.5f; }

/* The target is a function of the features. Some labels do not count. */
static void write_target(const struct loss_case *c, int64_t sample, void *target) {
    int32_t *labels = target;
    float *numbers = target;
    const int64_t inputs = FEATURES;
    for (int64_t p = 0; p < positions_of(c); p++) {
        float sums[OUTPUTS];
        for (int o = 0; o < OUTPUTS; o++) {
            sums[o] = 0;
            for (int64_t i = 0; i < inputs; i++) sums[o] += feature(sample, p * inputs + i) * (float)((i + 2 * o) % 5 - 2);
        }
        for (int o = 0; o < OUTPUTS && !c->labels; o++)
            numbers[p * OUTPUTS + o] = strcmp(c->loss, "bce") == 0 ? (float)(sums[o] > 0) : sums[o];
        if (!c->labels) continue;
        labels[p] = sums[1] > sums[0] ? (sums[2] > sums[1] ? 2 : 1) : sums[2] > sums[0] ? 2 : 0;
        if (c->pixels && (sample + p) % 5 == 0) labels[p] = -1;
    }
}

static bool spoilt; /* one number of the data is none */

static enum ps_status read_sample(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error) {
    (void)error;
    const struct loss_case *c = context;
    float *numbers = input;
    for (int64_t i = 0; input && i < FEATURES * positions_of(c); i++) numbers[i] = feature(sample, i);
    if (input && spoilt && sample == 3) numbers[1] = NAN;
    write_target(c, sample, labels);
    return PS_OK;
}

/* ------------------------------------------------------------------------------ job */

struct loss_job {
    struct ps_network *network;
    struct ps_dataset *data;
    struct ps_plan *plan;
    struct ps_train_options options;
};

static struct ps_network *make_network(const struct loss_case *c, const char *name) {
    struct ps_network_builder *b = ps_network_builder_create(name);
    struct ps_network *network;
    ps_network_builder_input(b, "x", "f32", (const int64_t[]){FEATURES, SIDE, SIDE}, c->pixels ? 3 : 1);
    const char *layer[] = {"linear,channels=%d", "convolution,channels=%d,kernel=1"};
    char text[64];
    snprintf(text, sizeof text, layer[c->pixels], 8);
    ps_network_builder_node(b, "first", text, NULL, 0);
    ps_network_builder_node(b, "relu", "relu", NULL, 0);
    snprintf(text, sizeof text, layer[c->pixels], OUTPUTS);
    const int last = ps_network_builder_node(b, "last", text, NULL, 0);
    ps_network_builder_initial(b, last, "weight", "constant", 0);
    ps_network_builder_initial(b, last, "bias", "constant", 0);
    ps_network_builder_node(b, "loss", c->loss, NULL, 0);
    if (c->weighted) ps_network_builder_class_weights(b, class_weights, OUTPUTS);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

/* In the precision `precision`; NULL: the network's own. */
static void make_job_of(struct loss_job *job, const struct loss_case *c, int workers, const char *device,
                        const char *precision) {
    char path[4096], model[5000];
    *job = (struct loss_job){.network = NULL};
    file_join(path, test_directory, "losses.json");
    struct ps_network *made = make_network(c, path);
    assert_ok(ps_network_write(made, path, &test_error));
    assert_ok(ps_network_read(path, &job->network, &test_error));
    assert_true(job->network->hash == made->hash);
    ps_network_destroy(made);
    if (precision) assert_ok(ps_network_set_precision(job->network, precision, &test_error));
    snprintf(model, sizeof model, "%s%s%s", path, precision ? ",precision=" : "", precision ? precision : "");
    const struct run_case wanted = run_case_complete((struct run_case){
        .model = model, .workers = workers, .micro_batch = 3, .micro_batches = 4, .optimizer = "sgd", .steps = STEPS});
    job->plan = run_case_plan(&wanted);
    const struct ps_input input = ps_network_input(job->network, 0), target = ps_network_target(job->network, 0);
    struct ps_dataset_source source;
    ps_dataset_source_init(&source);
    source.context = (void *)(uintptr_t)c;
    source.name = "own";
    source.samples = SAMPLES;
    source.read = read_sample;
    source.inputs = &input;
    source.input_count = source.target_count = 1;
    source.targets = &target;
    assert_ok(ps_dataset_create(&source, &job->data, &test_error));
    ps_train_options_init(&job->options);
    job->options.plan = job->plan;
    job->options.network = job->network;
    job->options.data = job->options.valid = job->data;
    job->options.device = test_device(device);
    job->options.steps = STEPS;
    /* The slope of `bce` is a half at most, and a third of that with three numbers a sample. */
    job->options.lr = strcmp(c->loss, "bce") == 0 ? 2 : 0.5;
}

static void make_job(struct loss_job *job, const struct loss_case *c, int workers, const char *device) {
    make_job_of(job, c, workers, device, NULL);
}

static void free_job(struct loss_job *job) {
    ps_dataset_destroy(job->data);
    ps_plan_destroy(job->plan);
    ps_network_destroy(job->network);
}

/* --------------------------------------------------------------------------- tests */

/* The loss of the zeros that the network begins with and its slope by the last bias, over some samples: the definitions in
 * PyTorch's documentation. `slope` takes part in a mean where `total` is what the sum is divided by. */
static double expected(const struct loss_case *c, const int64_t *samples, int count, bool smooth, double slope[OUTPUTS]) {
    const bool smoothed = smooth && strstr(c->loss, "smoothing") != NULL;
    const double s = smoothed ? 0.1 : 0;
    double sum = 0, total = 0;
    for (int o = 0; o < OUTPUTS; o++) slope[o] = 0;
    for (int n = 0; n < count; n++) {
        float numbers[SIDE * SIDE * OUTPUTS];
        const int32_t *labels = (const int32_t *)(const void *)numbers;
        write_target(c, samples[n], numbers);
        for (int64_t p = 0; p < positions_of(c); p++) {
            for (int o = 0; o < OUTPUTS && !c->labels; o++) {
                const double t = (double)numbers[p * OUTPUTS + o];
                const bool mse = strcmp(c->loss, "mse") == 0, l1 = strcmp(c->loss, "l1") == 0;
                sum += mse ? t * t : l1 ? fabs(t) : log(2);
                slope[o] += mse ? -2 * t : l1 ? (t > 0 ? -1 : t < 0 ? 1 : 0) : 0.5 - t;
                total += 1;
            }
            if (!c->labels || labels[p] < 0) continue;
            double weight[OUTPUTS], all = 0;
            for (int o = 0; o < OUTPUTS; o++) {
                const double of_class = c->weighted ? (double)class_weights[o] : 1;
                weight[o] = of_class * ((o == labels[p] ? 1 - s : 0) + s / OUTPUTS);
                all += weight[o];
            }
            for (int o = 0; o < OUTPUTS; o++) {
                sum += weight[o] * log(OUTPUTS);
                slope[o] += all / OUTPUTS - weight[o];
            }
            total += c->weighted ? (double)class_weights[labels[p]] : 1;
        }
    }
    for (int o = 0; o < OUTPUTS; o++) slope[o] /= total;
    return sum / total;
}

/* A ReLU may make 0 of what is no number: the loss does not tell, and the weights do, whichever worker has them. */
static void test_numbers_that_are_none(void **state) {
    (void)state;
    static const char *const precisions[] = {NULL, "bf16"};
    spoilt = true;
    for (int workers = 1; workers <= 2; workers++)
        for (int p = 0; p < 2; p++) {
            struct loss_job job;
            struct ps_run *run = NULL;
            make_job_of(&job, &cases[0], workers, "cpu", precisions[p]);
            assert_int_equal(ps_train(&job.options, &run, &test_error), PS_FAILED);
            if (strncmp(test_error.message, "step 1: ", 8) != 0 && strncmp(test_error.message, "step 2: ", 8) != 0)
                fail_msg("%s", test_error.message);
            assert_non_null(strstr(test_error.message, "not a number"));
            free_job(&job);
        }
    spoilt = false;
}

/* The samples of the first mini-batch. */
static void first_batch(const struct loss_job *job, int64_t samples[BATCH]) {
    struct sample_order order;
    assert_ok(sample_order_create(SAMPLES, BATCH, job->options.seed, NULL, &order, &test_error));
    sample_order_turn(&order, 0);
    for (int i = 0; i < BATCH; i++) samples[i] = order.at[i];
    sample_order_free(&order);
}

static void check_first_step(const struct loss_case *c, struct loss_job *job, struct ps_trainer *trainer) {
    double slope[OUTPUTS];
    int64_t samples[SAMPLES];
    struct ps_evaluation before;
    float bias[OUTPUTS];
    for (int i = 0; i < SAMPLES; i++) samples[i] = i;
    assert_ok(ps_trainer_evaluate(trainer, NULL, &before, &test_error));
    assert_within(before.loss, expected(c, samples, SAMPLES, false, slope), 1e-6);
    assert_true(isnan(before.accuracy) == !c->labels);
    first_batch(job, samples);
    assert_ok(ps_trainer_step(trainer, 1, &test_error));
    expected(c, samples, BATCH, true, slope);
    assert_ok(ps_trainer_read_parameter(trainer, "last.bias", bias, OUTPUTS, &test_error));
    for (int o = 0; o < OUTPUTS; o++) assert_within(bias[o], -job->options.lr * slope[o], 1e-6);
}

static void test_losses(void **state) {
    (void)state;
    static const char *const devices[] = {"reference", "cpu"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int d = 0; d < 2; d++) {
            if (!test_takes(i + (size_t)d, 2)) continue;
            double loss[2];
            float weights[2][OUTPUTS * 8];
            for (int w = 0; w < 2; w++) {
                struct loss_job job;
                struct ps_trainer *trainer;
                struct ps_evaluation before, after;
                make_job(&job, &cases[i], w + 1, devices[d]);
                assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
                assert_ok(ps_trainer_evaluate(trainer, NULL, &before, &test_error));
                check_first_step(&cases[i], &job, trainer);
                assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
                assert_ok(ps_trainer_evaluate(trainer, NULL, &after, &test_error));
                if (!(after.loss < FALL * before.loss))
                    fail_msg("%s on %s: the loss goes from %g to %g", cases[i].loss, devices[d], before.loss, after.loss);
                loss[w] = after.loss;
                assert_ok(ps_trainer_read_parameter(trainer, "last.weight", weights[w], OUTPUTS * 8, &test_error));
                ps_trainer_destroy(trainer);
                free_job(&job);
            }
            assert_true(loss[0] == loss[1]);
            assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
        }
    }
}

/* With values of bf16 the target stays as it is: numbers of f32, which the loss of the first zeros shows exactly. */
static void test_narrow_losses(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int workers = 1; workers <= 2 && !cases[i].labels; workers++) {
            struct loss_job job;
            struct ps_trainer *trainer;
            struct ps_evaluation before, after;
            double slope[OUTPUTS];
            int64_t samples[SAMPLES];
            float bias[OUTPUTS];
            make_job_of(&job, &cases[i], workers, "reference", "bf16");
            assert_int_equal(graph_target(job.network->graph).type, TYPE_F32);
            assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
            for (int n = 0; n < SAMPLES; n++) samples[n] = n;
            assert_ok(ps_trainer_evaluate(trainer, NULL, &before, &test_error));
            assert_within(before.loss, expected(&cases[i], samples, SAMPLES, false, slope), 1e-6);
            first_batch(&job, samples);
            assert_ok(ps_trainer_step(trainer, 1, &test_error));
            expected(&cases[i], samples, BATCH, true, slope);
            assert_ok(ps_trainer_read_parameter(trainer, "last.bias", bias, OUTPUTS, &test_error));
            for (int o = 0; o < OUTPUTS; o++) assert_within(bias[o], -job.options.lr * slope[o], 2e-3);
            assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
            assert_ok(ps_trainer_evaluate(trainer, NULL, &after, &test_error));
            assert_true(after.loss < FALL * before.loss);
            ps_trainer_destroy(trainer);
            free_job(&job);
        }
}

/* A run of a network without classes: no accuracy in its files, saved and continued with the same bits, evaluated alike. */
static void test_run_without_classes(void **state) {
    (void)state;
    struct loss_job job;
    struct ps_run *run;
    struct ps_evaluation evaluation;
    struct ps_evaluate_options evaluate;
    char place[4096], path[4096], *text;
    size_t size;
    make_job(&job, &cases[1], 2, "cpu");
    job.options.out = file_join(place, test_directory, "regression");
    assert_ok(ps_train(&job.options, &run, &test_error));
    const struct ps_run_info info = ps_run_info(run);
    assert_true(isnan(info.accuracy) && isnan(info.valid_accuracy) && isnan(info.top5) && isfinite(info.valid_loss));
    char *table = ps_run_table(run);
    assert_non_null(strstr(table, "loss"));
    assert_null(strstr(table, "accuracy"));
    free(table);
    ps_run_destroy(run);
    static const char *const files[] = {"log.jsonl", "summary.json"};
    for (int f = 0; f < 2; f++) {
        assert_ok(file_read(file_join(path, place, files[f]), 1 << 20, &text, &size, &test_error));
        assert_non_null(strstr(text, "\"loss\""));
        assert_null(strstr(text, "accuracy"));
        free(text);
    }
    ps_evaluate_options_init(&evaluate);
    evaluate.run = place;
    evaluate.data = job.data;
    evaluate.batch = 7;
    assert_ok(ps_evaluate(&evaluate, &evaluation, &test_error));
    assert_within(evaluation.loss, info.valid_loss, 1e-6);
    assert_true(isnan(evaluation.accuracy) && isnan(evaluation.top5));
    free_job(&job);
}

/* Texts with a mask that hides their padding, which is noise: from one file of arrays, on one worker and on two. */
enum { TEXTS = 96, TOKENS = 6, VOCABULARY = 20 };

static void write_texts(const char *path) {
    static int32_t ids[TEXTS * TOKENS];
    static uint8_t mask[TEXTS * TOKENS], labels[TEXTS];
    for (int n = 0; n < TEXTS; n++) {
        const int length = 2 + n % (TOKENS - 1);
        labels[n] = (uint8_t)(n / 2 % 2);
        for (int t = 0; t < TOKENS; t++) {
            mask[n * TOKENS + t] = t < length;
            const int word = (int)random_below(test_key(77), (uint64_t)(n * TOKENS + t), VOCABULARY / 2);
            ids[n * TOKENS + t] = 2 * word + (t < length ? labels[n] : (n + t) % 2); /* words of a text are of its kind */
        }
    }
    const struct array arrays[] = {{"ids", ARRAY_I32, 2, {TEXTS, TOKENS}, ids},
                                   {"mask", ARRAY_BOOL, 2, {TEXTS, TOKENS}, mask},
                                   {"labels", ARRAY_U8, 1, {TEXTS}, labels}};
    assert_ok(npz_write(path, arrays, 3, &test_error));
}

static struct ps_network *text_network(const char *name) {
    struct ps_network_builder *b = ps_network_builder_create(name);
    struct ps_network *network;
    const int ids = ps_network_builder_input(b, "ids", "i32", (const int64_t[]){TOKENS}, 1);
    const int mask = ps_network_builder_input(b, "mask", "i32", (const int64_t[]){TOKENS}, 1);
    const int x = ps_network_builder_node(b, "embedding", "embedding,channels=8,vocabulary=20", &ids, 1);
    const int key = ps_network_builder_node(b, "key", "linear,channels=8", &x, 1);
    const int value = ps_network_builder_node(b, "value", "linear,channels=8", &x, 1);
    ps_network_builder_node(b, "attention", "attention,heads=2", (const int[]){x, key, value, mask}, 4);
    ps_network_builder_node(b, "first", "slice,first=0,count=1", NULL, 0);
    ps_network_builder_node(b, "flat", "flatten", NULL, 0);
    ps_network_builder_node(b, "last", "linear,channels=2", NULL, 0);
    ps_network_builder_node(b, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

static void test_texts_with_a_mask(void **state) {
    (void)state;
    char path[4096], spec[8192], name[4096];
    struct ps_dataset *data;
    float weights[2][16];
    file_join(name, test_directory, "texts.json");
    write_texts(file_join(path, test_directory, "texts.npz"));
    snprintf(spec, sizeof spec, "npz:%s", path);
    assert_ok(ps_dataset_open(spec, NULL, &data, &test_error));
    for (int w = 0; w < 2; w++) {
        struct ps_network *network = text_network(name);
        struct ps_train_options options;
        struct ps_trainer *trainer;
        struct ps_evaluation before, after;
        assert_ok(ps_network_write(network, name, &test_error));
        const struct run_case wanted = run_case_complete((struct run_case){
            .model = name, .workers = w + 1, .micro_batch = 8, .micro_batches = 2, .optimizer = "adam", .steps = 60});
        struct ps_plan *plan = run_case_plan(&wanted);
        ps_train_options_init(&options);
        options.plan = plan;
        options.network = network;
        options.data = options.valid = data;
        options.device = test_device("cpu");
        options.steps = 60;
        options.lr = 0.01;
        assert_ok(ps_trainer_create(&options, &trainer, &test_error));
        assert_ok(ps_trainer_evaluate(trainer, NULL, &before, &test_error));
        assert_ok(ps_trainer_step(trainer, 60, &test_error));
        assert_ok(ps_trainer_evaluate(trainer, NULL, &after, &test_error));
        assert_true(after.loss < 0.5 * before.loss && after.accuracy > 0.9);
        assert_ok(ps_trainer_read_parameter(trainer, "last.weight", weights[w], 16, &test_error));
        ps_trainer_destroy(trainer);
        ps_plan_destroy(plan);
        ps_network_destroy(network);
    }
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
    ps_dataset_destroy(data);
}

/* Another loss for a network that has one: its name decides what the network reads as target; a wrong one changes nothing. */
static void test_other_losses(void **state) {
    (void)state;
    static const struct {
        const char *loss, *type;
    } wanted[] = {{"mse", "f32"}, {"l1", "f32"}, {"bce", "f32"}, {"cross-entropy", "i32"}};
    const float weights[] = {1, 2, 3, 4};
    struct ps_network *network;
    char hash[17];
    assert_ok(ps_network_open("lenet5,input=16,classes=4", &network, &test_error));
    memcpy(hash, ps_network_info(network).hash, sizeof hash);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(ps_network_set_loss(network, wanted[i].loss, NULL, 0, &test_error));
        const struct ps_input target = ps_network_target(network, 0);
        assert_string_equal(target.type, wanted[i].type);
        assert_int_equal(target.rank, 1);
        assert_int_equal(target.shape[0], i < 3 ? 4 : 1);
        assert_true((strcmp(ps_network_info(network).hash, hash) == 0) == (i == 3));
        assert_status(ps_network_set_loss(network, "mean", NULL, 0, &test_error), PS_USAGE, "known: cross-entropy, next-token");
    }
    assert_ok(ps_network_set_loss(network, NULL, weights, 4, &test_error));
    assert_string_not_equal(ps_network_info(network).hash, hash);
    assert_status(ps_network_set_loss(network, NULL, weights, 3, &test_error), PS_USAGE,
                  "3 class weights, but it has 4 classes");
    assert_status(ps_network_set_loss(network, "mse", weights, 4, &test_error), PS_USAGE, "class weights need cross_entropy");
    assert_status(ps_network_set_loss(network, "next-token", NULL, 0, &test_error), PS_USAGE, "needs an embedding");
    ps_network_destroy(network);
}

/* A network that comes without a loss gets one by what it computes. */
static void test_usual_losses(void **state) {
    (void)state;
    for (int outputs = 1; outputs <= 2; outputs++) {
        struct builder b = {graph_create(), &test_error};
        struct ps_network *network;
        const int last = build_linear(&b, build_input(&b, 3, 0, 0), "loss", outputs);
        assert_ok(network_add_loss(b.graph, NULL, last, &test_error));
        assert_ok(network_create("n", b.graph, PREDICTS_CLASSES, &network, &test_error));
        assert_string_equal(ps_network_target(network, 0).type, outputs == 1 ? "f32" : "i32");
        assert_string_equal(network->graph->nodes[2].name, "loss_");
        ps_network_destroy(network);
    }
}

/* What does not fit the loss is said. */
static void test_refused(void **state) {
    (void)state;
    struct loss_job job;
    struct ps_trainer *trainer;
    struct ps_dataset *data;
    make_job(&job, &cases[0], 1, "cpu");
    assert_ok(ps_dataset_open("synthetic:images", NULL, &data, &test_error));
    job.options.data = data;
    job.options.valid = NULL;
    assert_status(ps_trainer_create(&job.options, &trainer, &test_error), PS_USAGE,
                  "give labels of classes, but the network's loss reads 'labels' f32 3");
    ps_dataset_destroy(data);
    free_job(&job);
    const struct loss_case wrong = {"mse", false, false, true};
    struct ps_network_builder *b = ps_network_builder_create("n");
    struct ps_network *network;
    ps_network_builder_input(b, "x", "f32", (const int64_t[]){3}, 1);
    ps_network_builder_node(b, "loss", wrong.loss, NULL, 0);
    ps_network_builder_class_weights(b, class_weights, OUTPUTS);
    assert_status(ps_network_builder_finish(b, &network, &test_error), PS_USAGE, "class weights need cross_entropy");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_narrow_losses),
        cmocka_unit_test(test_run_without_classes),
        cmocka_unit_test(test_texts_with_a_mask),
        cmocka_unit_test(test_other_losses),
        cmocka_unit_test(test_usual_losses),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
