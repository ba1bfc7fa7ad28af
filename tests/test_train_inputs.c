/* Networks with several inputs, of several types and ranks: built, written, trained on data of the caller's, saved, resumed. */
#include "run_support.h"
#include "within.h"

enum { SAMPLES = 37, CLASSES = 4, STEPS = 8 };

/* ---------------------------------------------------------------------------- data */

/* Writes what the network's inputs are, one after the other; each depends on the label. */
struct own_data {
    const struct ps_network *network;
    int64_t bad_sample; /* has a token that there is not */
};

static enum ps_status read_own(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error) {
    (void)error;
    const struct own_data *own = context;
    labels[0] = (int32_t)(sample % CLASSES);
    if (input == NULL) return PS_OK;
    int32_t *tokens = input;
    float *numbers = input;
    for (int64_t k = 0, at = 0; k < ps_network_info(own->network).inputs; k++) {
        const struct ps_input kind = ps_network_input(own->network, (int)k);
        int64_t count = 1;
        for (int d = 0; d < kind.rank; d++) count *= kind.shape[d];
        for (int64_t i = 0; i < count; i++, at++) {
            const int64_t value = (i * (labels[0] + 2) + sample + k) % 7;
            if (strcmp(kind.type, "i32") == 0)
                tokens[at] = sample == own->bad_sample ? 7 : (int32_t)value;
            else
                numbers[at] = (float)value / 7;
        }
    }
    return PS_OK;
}

static struct ps_dataset_source own_source(struct own_data *own, const struct ps_input inputs[8]) {
    struct ps_dataset_source source;
    ps_dataset_source_init(&source);
    source.context = own;
    source.name = "own";
    source.samples = SAMPLES;
    source.classes = CLASSES;
    source.read = read_own;
    source.inputs = inputs;
    source.input_count = ps_network_info(own->network).inputs;
    return source;
}

static struct ps_dataset *own_dataset(struct own_data *own) {
    struct ps_input inputs[8];
    struct ps_dataset *dataset;
    struct ps_dataset_source source = own_source(own, inputs);
    for (int i = 0; i < source.input_count; i++) inputs[i] = ps_network_input(own->network, i);
    const struct ps_input target = ps_network_target(own->network, 0);
    source.classes = 0;
    source.targets = &target;
    source.target_count = 1;
    assert_ok(ps_dataset_create(&source, &dataset, &test_error));
    return dataset;
}

/* ------------------------------------------------------------------------- networks */

static int input(struct ps_network_builder *builder, const char *name, const char *type, const int64_t *shape, int rank) {
    return ps_network_builder_input(builder, name, type, shape, rank);
}

static int node(struct ps_network_builder *builder, const char *name, const char *kind, int from) {
    return ps_network_builder_node(builder, name, kind, &from, 1);
}

/* An image and words, added; features and a value of rank 6 that only the last layers read. */
static struct ps_network *several_inputs(const char *name) {
    struct ps_network_builder *b = ps_network_builder_create(name);
    struct ps_network *network;
    const int image = input(b, "image", "f32", (const int64_t[]){3, 6, 6}, 3),
              words = input(b, "words", "i32", (int64_t[]){5}, 1), late = input(b, "late", "f32", (const int64_t[]){3}, 1),
              grid = input(b, "grid", "f32", (const int64_t[]){2, 1, 3, 1, 2, 1}, 6);
    int x = node(b, "conv", "convolution,channels=4,kernel=3", image);
    x = node(b, "relu", "relu", x);
    x = node(b, "seen", "linear,channels=6", node(b, "flat", "flatten", x));
    int y = node(b, "embedding", "embedding,channels=3,vocabulary=7", words);
    y = node(b, "read", "linear,channels=6", node(b, "flat_words", "flatten", y));
    x = ps_network_builder_node(b, "add", "add", (const int[]){x, y}, 2);
    x = node(b, "hidden", "linear,channels=5", node(b, "active", "relu", x));
    y = node(b, "gridded", "linear,channels=4", node(b, "flat_grid", "flatten", grid));
    x = ps_network_builder_node(b, "concat", "concat", (const int[]){x, late, y}, 3);
    node(b, "loss", "cross_entropy", node(b, "last", "linear,channels=4", x));
    ps_network_builder_target(b, "kind", "i32", (const int64_t[]){1}, 1);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

/* Of 3 and 5 features, put together by the network or, with one input, by the data. */
static struct ps_network *features(const char *name, bool apart) {
    struct ps_network_builder *b = ps_network_builder_create(name);
    struct ps_network *network;
    int x = input(b, "a", "f32", (const int64_t[]){apart ? 3 : 8}, 1);
    if (apart) {
        const int y = input(b, "b", "f32", (const int64_t[]){5}, 1);
        x = ps_network_builder_node(b, "both", "concat", (const int[]){x, y}, 2);
    }
    x = node(b, "relu", "relu", node(b, "hidden", "linear,channels=6", x));
    node(b, "loss", "cross_entropy", node(b, "last", "linear,channels=4", x));
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

/* --------------------------------------------------------------------------- a job */

struct inputs_job {
    char path[128]; /* the network's file and name */
    struct ps_network *network;
    struct own_data own;
    struct ps_dataset *data;
    struct ps_plan *plan;
    struct ps_train_options options;
};

/* Takes the network, whose file is written and read again. */
static void make_job(struct inputs_job *job, const char *path, struct ps_network *network, const char *schedule,
                     const char *weights, int workers, const char *device) {
    *job = (struct inputs_job){.network = NULL};
    snprintf(job->path, sizeof job->path, "%s", path);
    assert_ok(ps_network_write(network, path, &test_error));
    assert_ok(ps_network_read(path, &job->network, &test_error));
    assert_true(job->network->hash == network->hash);
    ps_network_destroy(network);
    const struct run_case wanted = run_case_complete((struct run_case){.model = job->path,
                                                                       .schedule = schedule,
                                                                       .weights = weights,
                                                                       .workers = workers,
                                                                       .micro_batch = 3,
                                                                       .micro_batches = 4,
                                                                       .steps = STEPS});
    job->plan = run_case_plan(&wanted);
    job->own = (struct own_data){job->network, -1};
    job->data = own_dataset(&job->own);
    ps_train_options_init(&job->options);
    job->options.plan = job->plan;
    job->options.network = job->network;
    job->options.data = job->options.valid = job->data;
    job->options.device = test_device(device);
    job->options.steps = STEPS;
    job->options.lr = 0.05;
}

static void free_job(struct inputs_job *job) {
    ps_dataset_destroy(job->data);
    ps_plan_destroy(job->plan);
    ps_network_destroy(job->network);
}

static void several_job(struct inputs_job *job, const char *schedule, const char *weights, int workers, const char *device) {
    char path[4096];
    file_join(path, test_directory, "net.json");
    make_job(job, path, several_inputs(path), schedule, weights, workers, device);
}

/* All weights that a trainer has. */
static struct trained read_all(struct ps_trainer *trainer) {
    struct trained trained = trained_make(trainer->job.graph);
    for (int p = 0; p < ps_trainer_info(trainer).parameters; p++) {
        const struct ps_parameter parameter = ps_trainer_parameter(trainer, p);
        size_t count = 1;
        for (int d = 0; d < parameter.rank; d++) count *= (size_t)parameter.shape[d];
        float *place = trained_place(&trained, trainer->job.graph, parameter.name);
        assert_ok(ps_trainer_read_parameter(trainer, parameter.name, place, count, &test_error));
    }
    return trained;
}

static struct trained train(struct inputs_job *job, double *loss) {
    struct ps_trainer *trainer;
    struct ps_evaluation evaluation;
    assert_ok(ps_trainer_create(&job->options, &trainer, &test_error));
    assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
    assert_ok(ps_trainer_evaluate(trainer, NULL, &evaluation, &test_error));
    struct trained trained = read_all(trainer);
    ps_trainer_destroy(trainer);
    assert_int_equal(evaluation.samples, SAMPLES);
    *loss = evaluation.loss;
    return trained;
}

/* --------------------------------------------------------------------------- tests */

/* On every device and schedule that flushes one worker, two and three come to the same bits. */
static void test_workers(void **state) {
    (void)state;
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"}, *const devices[] = {"reference", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct inputs_job job;
        double loss, other_loss;
        several_job(&job, "1f1b", "sync", 1, devices[d]);
        struct trained alone = train(&job, &loss);
        assert_true(isfinite(loss));
        free_job(&job);
        for (int s = 0; s < 3; s++)
            for (int workers = 2; workers <= 3; workers++) {
                several_job(&job, schedules[s], "sync", workers, devices[d]);
                struct trained shared = train(&job, &other_loss);
                assert_true(trained_equal(&alone, &shared));
                assert_within(loss, other_loss, 1e-9);
                trained_free(&shared);
                free_job(&job);
            }
        trained_free(&alone);
    }
}

/* Two inputs of features are one that holds both: the samples reach the layers as they were written. */
static void test_apart(void **state) {
    (void)state;
    struct inputs_job job;
    struct trained trained[2];
    double loss[2];
    struct own_data both;
    char path[4096];
    file_join(path, test_directory, "features.json");
    struct ps_network *two = features(path, true);
    for (int apart = 0; apart < 2; apart++) {
        make_job(&job, path, features(path, apart), "1f1b", "sync", 2, "reference");
        both = (struct own_data){two, -1};
        struct ps_input inputs[8] = {ps_network_input(job.network, 0), ps_network_input(job.network, 1)};
        struct ps_dataset_source source = own_source(&both, inputs);
        source.input_count = apart + 1;
        ps_dataset_destroy(job.data);
        assert_ok(ps_dataset_create(&source, &job.data, &test_error));
        job.options.data = job.options.valid = job.data;
        trained[apart] = train(&job, &loss[apart]);
        free_job(&job);
    }
    assert_true(trained_equal(&trained[0], &trained[1]));
    assert_true(loss[0] == loss[1]);
    trained_free(&trained[0]);
    trained_free(&trained[1]);
    ps_network_destroy(two);
}

/* Saved in the middle it goes on to the same end; a run is evaluated as the trainer does it. */
static void test_save(void **state) {
    (void)state;
    static const char *const kinds[][2] = {{"1f1b", "sync"}, {"1f1b-async", "stash"}};
    for (int k = 0; k < 2; k++) {
        struct inputs_job job;
        struct ps_trainer *trainer;
        struct ps_evaluation before, after;
        char place[4096], name[8];
        several_job(&job, kinds[k][0], kinds[k][1], 3, "reference");
        snprintf(name, sizeof name, "run%d", k);
        assert_ok(ps_trainer_create(&job.options, &trainer, &test_error));
        assert_ok(ps_trainer_step(trainer, 5, &test_error));
        assert_ok(ps_trainer_save(trainer, file_join(place, test_directory, name), &test_error));
        assert_ok(ps_trainer_evaluate(trainer, NULL, &before, &test_error));
        struct ps_evaluate_options evaluate;
        ps_evaluate_options_init(&evaluate);
        evaluate.run = place;
        evaluate.data = job.data;
        evaluate.device = job.options.device;
        evaluate.batch = 5;
        assert_ok(ps_evaluate(&evaluate, &after, &test_error));
        assert_within(before.loss, after.loss, 1e-6);
        assert_true(before.accuracy == after.accuracy);
        assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
        struct trained whole = read_all(trainer);
        ps_trainer_destroy(trainer);

        struct ps_train_options resume;
        ps_train_options_init(&resume);
        resume.resume = place;
        resume.data = resume.valid = job.data;
        resume.network = job.network;
        resume.device = job.options.device;
        assert_ok(ps_trainer_create(&resume, &trainer, &test_error));
        assert_int_equal(ps_trainer_info(trainer).step, 5);
        assert_ok(ps_trainer_step(trainer, STEPS, &test_error));
        struct trained again = read_all(trainer);
        assert_true(trained_equal(&whole, &again));
        ps_trainer_destroy(trainer);
        trained_free(&whole);
        trained_free(&again);
        free_job(&job);
    }
}

/* What is cut: the first cut has all inputs, an input that is read late crosses the cuts up to there, without a gradient. */
static void test_cuts(void **state) {
    (void)state;
    struct ps_network *network = several_inputs("n");
    const struct graph *graph = network->graph;
    assert_int_equal(graph->input_count, 4);
    assert_int_equal(graph_cut_count(graph, 0), 4);
    assert_int_equal(graph_cut_bytes(graph, 0), (108 + 5 + 3 + 12) * 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(graph->nodes[i].layer, -1);
        assert_int_equal(graph_cut_values(graph, 0)[i], i);
        assert_true(graph->nodes[i].data);
    }
    const int *values = graph_cut_values(graph, 3);
    assert_int_equal(values[0], 2);
    assert_int_equal(values[1], 3);
    const struct ps_input words = ps_network_input(network, 1), grid = ps_network_input(network, 3);
    assert_string_equal(words.name, "words");
    assert_int_equal(words.vocabulary, 7);
    assert_int_equal(words.shape[1], 5);
    assert_string_equal(grid.type, "f32");
    assert_int_equal(grid.rank, 6);
    assert_int_equal(ps_network_info(network).inputs, 4);
    assert_int_equal(ps_network_info(network).targets, 1);
    assert_string_equal(ps_network_target(network, 0).name, "kind");
    assert_int_equal(ps_network_target(network, 0).vocabulary, CLASSES);
    assert_null(ps_network_target(network, 1).name);
    struct ps_network *split;
    assert_ok(network_create_split(network, "seen:2", &split, &test_error));
    assert_int_equal(ps_network_info(split).inputs, 4);
    assert_string_equal(ps_network_target(split, 0).name, "kind");
    ps_network_destroy(split);
    ps_network_destroy(network);
}

static void assert_refused(struct inputs_job *job, const struct ps_dataset *data, enum ps_status wanted, const char *said) {
    struct ps_trainer *trainer;
    job->options.data = data;
    enum ps_status status = ps_trainer_create(&job->options, &trainer, &test_error);
    if (status == PS_OK) {
        status = ps_trainer_step(trainer, STEPS, &test_error);
        ps_trainer_destroy(trainer);
    }
    assert_status(status, wanted, said);
}

static void test_refused_targets(struct inputs_job *job) {
    static const char *const said[] = {"have the target 'labels', but the network's loss reads 'kind'",
                                       "have the target 'kind' i32 2 of 4 tokens, but the network's loss reads 'kind' i32 1 of",
                                       "has 5 classes"};
    struct ps_input inputs[8], target;
    struct ps_dataset *data;
    struct ps_dataset_source source = own_source(&job->own, inputs);
    for (int i = 0; i < 4; i++) inputs[i] = ps_network_input(job->network, i);
    source.targets = &target;
    source.target_count = 1;
    for (int wrong = 0; wrong < 3; wrong++) {
        target = ps_network_target(job->network, 0);
        if (wrong == 0) target.name = "labels";
        if (wrong == 1) target.shape[0] = 2;
        if (wrong == 2) target.vocabulary = 5;
        assert_ok(ps_dataset_create(&source, &data, &test_error));
        assert_refused(job, data, PS_USAGE, said[wrong]);
        ps_dataset_destroy(data);
    }
    target.vocabulary = 0;
    assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, "'kind' is i32 with the vocabulary 0");
    target.type = "f32";
    assert_ok(ps_dataset_create(&source, &data, &test_error));
    assert_refused(job, data, PS_USAGE, "have the target 'kind' f32 1, but the network's loss reads 'kind' i32 1");
    ps_dataset_destroy(data);
    source.target_count = 2;
    assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, "target_count: 2; 1 is accepted");
}

/* Data that are not what the network takes. */
static void test_refused(void **state) {
    (void)state;
    struct inputs_job job;
    struct ps_dataset *data;
    several_job(&job, "1f1b", "sync", 2, "reference");
    job.options.valid = NULL;
    assert_ok(ps_dataset_open("synthetic:images", NULL, &data, &test_error));
    assert_refused(&job, data, PS_USAGE, "1 input per sample, but the network takes 4, as 'grid' f32 2x1x3x1x2x1");
    ps_dataset_destroy(data);
    for (int wrong = 0; wrong < 3; wrong++) {
        static const char *const said[] = {"input 1 is 'words' i32 1x5x1 of 8 tokens, but the network takes 'words'",
                                           "input 2 is 'early' f32 3", "input 3 is 'grid' f32 2x1x3x1x4x1"};
        struct ps_input inputs[8];
        struct ps_dataset_source source = own_source(&job.own, inputs);
        for (int i = 0; i < 4; i++) inputs[i] = ps_network_input(job.network, i);
        if (wrong == 0) inputs[1].vocabulary = 8;
        if (wrong == 1) inputs[2].name = "early";
        if (wrong == 2) inputs[3].shape[4] = 4;
        assert_ok(ps_dataset_create(&source, &data, &test_error));
        assert_refused(&job, data, PS_USAGE, said[wrong]);
        ps_dataset_destroy(data);
        inputs[wrong].type = "bf16";
        assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, "type: 'bf16' is not known");
        inputs[wrong].type = "f32";
        inputs[wrong].rank = 7;
        assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, "rank: 7");
        source.input_count = 9;
        assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, "input_count: 9");
    }
    test_refused_targets(&job);
    job.own.bad_sample = 11;
    assert_refused(&job, job.data, PS_BAD_INPUT, "sample 11 has the token 7, which is not from 0 to 6");
    free_job(&job);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_workers), cmocka_unit_test(test_apart),   cmocka_unit_test(test_save),
        cmocka_unit_test(test_cuts),    cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
