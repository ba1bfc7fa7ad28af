/* Dataset specs: formats, parts, ranges, and whether the data fit the network. On synthetic data, which are always there. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "data/object.h"
#include "data/pixels.h"
#include "graph/network.h"
#include "within.h"

static const struct dataset_shape shape = {.channels = 1, .height = 8, .width = 8, .classes = 10};

static void open_fails(const char *spec, const char *part) {
    struct samples samples = {0};
    assert_status(samples_open(spec, DATASET_TRAIN, &shape, &samples, &test_error), PS_USAGE, part);
    assert_null(samples.dataset);
}

static struct samples opened(const char *spec, enum dataset_part part) {
    struct samples samples;
    assert_ok(samples_open(spec, part, &shape, &samples, &test_error));
    return samples;
}

static void read_place(const struct samples *samples, int64_t place, float image[64], int32_t *label) {
    const struct dataset *dataset = samples->dataset;
    assert_ok(dataset->class->read(dataset, samples->first + place, image, label, &test_error));
}

static void every_format_is_complete(void **state) {
    (void)state;
    for (int i = 0; dataset_table[i]; i++) {
        const struct dataset_class *class = dataset_table[i];
        assert_true(class->name && class->summary && class->example && class->open && class->close && class->read);
        assert_null(strpbrk(class->name, ":#@/"));
        for (int j = 0; j < i; j++) assert_string_not_equal(class->name, dataset_table[j]->name);
        char spec[64];
        snprintf(spec, sizeof spec, "%s:", class->name);
        open_fails(spec, class->example);
        open_fails(class->name, class->example);
        snprintf(spec, sizeof spec, "%s:/no/such/place", class->name);
        struct samples samples;
        assert_int_not_equal(samples_open(spec, DATASET_TRAIN, &shape, &samples, &test_error), PS_OK);
        assert_non_null(strstr(test_error.message, "/no/such/place"));
    }
}

static void unknown_formats_and_parts(void **state) {
    (void)state;
    open_fails("sinthetic:images", "did you mean 'synthetic'");
    open_fails("cifar:somewhere", "did you mean 'cifar10'");
    open_fails("", "is not known");
    open_fails("zzzzzzzzz:x", "known: idx, cifar10");
    open_fails("synthetic:images#tset", "did you mean 'test'");
    open_fails("synthetic:images#", "'' is not known");
    open_fails("synthetic:images@0-10#test", "'@0-10#test' is not a range");
    static const char *const wholes[][2] = {
        {"sinthetic:images", "data 'sinthetic:images': data format: 'sinthetic' is not known; did you mean 'synthetic'?"},
        {"synthetic:images#tset", "data 'synthetic:images#tset': part after '#': 'tset' is not known; did you mean 'test'?"},
        {"synthetic:images@0-10#test", "data 'synthetic:images@0-10#test': '@0-10#test' is not a range; @A-B at the end "
                                       "takes samples A to B-1, as in @0-1000"},
    };
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        struct samples samples;
        assert_int_equal(samples_open(wholes[i][0], DATASET_TRAIN, &shape, &samples, &test_error), PS_USAGE);
        assert_string_equal(test_error.message, wholes[i][1]);
    }
}

static void wrong_ranges(void **state) {
    (void)state;
    static const char *const malformed[] = {"@",      "@5",   "@-5",   "@5-",   "@a-b",  "@0-10x", "@0 -10",
                                            "@0- 10", "@0:9", "@+0-9", "@0--9", "@0-9-", "@0-9.5", "@0-99999999999999999999"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        char spec[96];
        snprintf(spec, sizeof spec, "synthetic:images,samples=100%s", malformed[i]);
        open_fails(spec, "is not a range");
    }
    open_fails("synthetic:images,samples=100@10-10", "is empty");
    open_fails("synthetic:images,samples=100@10-5", "is empty");
    open_fails("synthetic:images,samples=100@0-101", "ends at 101, but there are 100 samples");
    open_fails("synthetic:images,samples=100#test@500-9223372036854775807", "there are 100 samples");
}

static void ranges_take_what_they_say(void **state) {
    (void)state;
    struct samples all = opened("synthetic:images,samples=100", DATASET_TRAIN);
    struct samples some = opened("synthetic:images,samples=100@20-100", DATASET_TRAIN);
    struct samples one = opened("synthetic:images,samples=100@0-1", DATASET_TRAIN);
    assert_int_equal(all.first, 0);
    assert_int_equal(all.count, 100);
    assert_int_equal(some.first, 20);
    assert_int_equal(some.count, 80);
    assert_int_equal(one.count, 1);
    float expected[64], image[64];
    int32_t expected_label, label;
    read_place(&all, 99, expected, &expected_label);
    read_place(&some, 79, image, &label);
    assert_memory_equal(expected, image, sizeof image);
    assert_int_equal(expected_label, label);
    samples_close(&all);
    samples_close(&some);
    samples_close(&one);
    assert_null(one.dataset);
    samples_close(&one);
}

static void the_spec_chooses_the_part_over_the_caller(void **state) {
    (void)state;
    const struct {
        const char *spec;
        enum dataset_part part;
        int same_as; /* 0: training, 1: test */
    } cases[] = {
        {"synthetic:images", DATASET_TRAIN, 0},          {"synthetic:images", DATASET_TEST, 1},
        {"synthetic:images#train", DATASET_TEST, 0},     {"synthetic:images#test", DATASET_TRAIN, 1},
        {"synthetic:images#test@0-9", DATASET_TRAIN, 1},
    };
    float image[64], expected[2][64];
    int32_t label;
    for (int i = 0; i < 5; i++) {
        struct samples samples = opened(cases[i].spec, cases[i].part);
        read_place(&samples, 3, image, &label);
        if (i < 2) memcpy(expected[i], image, sizeof image);
        assert_memory_equal(image, expected[cases[i].same_as], sizeof image);
        samples_close(&samples);
    }
    assert_memory_not_equal(expected[0], expected[1], sizeof image);
}

static void data_must_fit_the_network(void **state) {
    (void)state;
    open_fails("synthetic:images,sise=9", "did you mean 'size'?\nknown: samples, classes, size, channels, noise, seed");
    open_fails("synthetic:images,size=9", "9x9 pixels and 1 channel, but the network takes 8x8 and 1");
    open_fails("synthetic:images,channels=3", "input=8,channels=3");
    open_fails("synthetic:images,classes=11", "has 11 classes, but the network has 10");
    open_fails("synthetic:images,classes=9", "classes=9");
}

/* Known without a file, by the spec alone: what is exported says how images were normalised. */
static void normalisation_of_a_spec(void **state) {
    (void)state;
    static const struct {
        const char *spec;
        int64_t channels;
        bool known;
        float mean[3], deviation[3];
    } cases[] = {
        {"idx:/nowhere", 1, true, {0.1307f}, {0.3081f}},
        {"cifar10:/nowhere,pad=4#test", 3, true, {0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
        {"cifar100:/nowhere[:10]", 3, true, {0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}},
        {"images:/nowhere", 3, true, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}},
        {"images:/nowhere,normalise=none", 3, true, {0, 0, 0}, {1, 1, 1}},
        {"images:/nowhere,normalise=imagenet", 1, true, {0.449f}, {0.226f}},
        {"npz:/nowhere", 3, false, {0}, {0}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool known = !cases[c].known;
        struct normalisation found = {0};
        assert_ok(samples_normalisation(cases[c].spec, cases[c].channels, &known, &found, &test_error));
        assert_int_equal(known, cases[c].known);
        for (int64_t i = 0; known && i < cases[c].channels; i++) {
            assert_within(found.mean[i], cases[c].mean[i], 1e-6);
            assert_within(found.deviation[i], cases[c].deviation[i], 1e-6);
        }
    }
    bool known;
    struct normalisation found;
    assert_status(samples_normalisation("images:/nowhere,normalise=imagnet", 3, &known, &found, &test_error), PS_USAGE,
                  "images: normalise: 'imagnet' is not known");
    assert_status(samples_normalisation("pictures:/nowhere", 3, &known, &found, &test_error), PS_USAGE, "pictures");
    char spec[5000] = "images:/nowhere,normalise=";
    memset(spec + strlen(spec), 'a', 4200);
    assert_status(samples_normalisation(spec, 3, &known, &found, &test_error), PS_USAGE, "images: the options are longer than");
    snprintf(spec, sizeof spec, "images:/%04500d", 0);
    assert_status(samples_normalisation(spec, 3, &known, &found, &test_error), PS_USAGE,
                  "images: the directory's name is longer than 4095 characters");
}

static enum ps_status read_nothing(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error) {
    (void)context, (void)sample, (void)input, (void)labels, (void)error;
    return PS_OK;
}

/* Each wrong field of a program's own data is named. */
static void wrong_sources(void **state) {
    (void)state;
    struct ps_input input = {.name = "x", .type = "f32", .rank = 1, .shape = {3}}, target = input, unnamed = input,
                    one_class = {.name = "x", .type = "i32", .rank = 1, .shape = {3}, .vocabulary = 1};
    unnamed.name = "";
    struct ps_dataset_source right;
    ps_dataset_source_init(&right);
    right.name = "own", right.read = read_nothing, right.samples = 5, right.classes = 2;
    for (int d = 0; d < 3; d++) right.input_shape[d] = 1;
    struct ps_dataset *data;
    assert_ok(ps_dataset_create(&right, &data, &test_error));
    ps_dataset_destroy(data);
    struct ps_dataset_source most = right; /* as much as there may be of each */
    most.samples = UINT32_MAX;
    for (int d = 0; d < 3; d++) most.input_shape[d] = 1 << 24;
    assert_ok(ps_dataset_create(&most, &data, &test_error));
    ps_dataset_destroy(data);
    struct ps_dataset_source wrong[] = {right, right, right, right, right, right, right, right,
                                        right, right, right, right, right, right, right};
    static const char *const said[] = {"name: the data must have one",
                                       "read: there must be such a function",
                                       "samples: 0 are not from 1 to 4294967295",
                                       "samples: 4294967296 are not from 1 to 4294967295",
                                       "input_shape: 1 x 0 x 1 is no shape",
                                       "input_shape: 1 x 1 x 16777217 is no shape",
                                       "vocabulary: -1 is negative",
                                       "classes: 1 are fewer than 2",
                                       "labels: -1 is negative",
                                       "input_count: 0 is not from 1 to 8",
                                       "input_count: 9 is not from 1 to 8",
                                       "target_count: 2; 1 is accepted, which the loss reads",
                                       NULL, /* numbers */
                                       "targets[0]: name: there is none",
                                       "targets[0]: 'x' is i32 with the vocabulary 1; labels have 2 classes or more"};
    wrong[0].name = "";
    wrong[1].read = NULL;
    wrong[2].samples = 0;
    wrong[3].samples = (int64_t)UINT32_MAX + 1;
    wrong[4].input_shape[1] = 0;
    wrong[5].input_shape[2] = (1 << 24) + 1;
    wrong[6].vocabulary = -1;
    wrong[7].classes = 1;
    wrong[8].labels = -1;
    wrong[9].inputs = wrong[10].inputs = &input;
    wrong[10].input_count = 9;
    wrong[11].targets = &target, wrong[11].target_count = 2;
    wrong[12].targets = &target, wrong[12].target_count = 1;
    wrong[13] = wrong[12], wrong[13].targets = &unnamed;
    wrong[14] = wrong[12], wrong[14].targets = &one_class;
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        if (said[w]) {
            assert_status(ps_dataset_create(&wrong[w], &data, &test_error), PS_USAGE, said[w]);
        } else {
            assert_ok(ps_dataset_create(&wrong[w], &data, &test_error));
            ps_dataset_destroy(data);
        }
    struct ps_input inputs[] = {input, input, input, input, input, input, input, input, input, input};
    static const char *const of_input[] = {"inputs[0]: name: there is none",
                                           "inputs[0]: type: 'f64' is not known; f32 and i32 are",
                                           "inputs[0]: rank: 0 is not from 1 to 6",
                                           "inputs[0]: rank: 7 is not from 1 to 6",
                                           "inputs[0]: shape: 0 is not from 1 to 2147483647",
                                           "inputs[0]: vocabulary: 4; for i32 it is 0 or above, for f32 it is 0",
                                           "inputs[0]: vocabulary: -1; for i32 it is 0 or above",
                                           "inputs[0]: type: '' is not known; f32 and i32 are",
                                           "inputs[0]: shape: 32768 is not from 1 to 32767",
                                           "inputs[0]: name: there is none"};
    inputs[0].name = "";
    inputs[1].type = "f64";
    inputs[2].rank = 0;
    inputs[3].rank = 7;
    inputs[4].shape[0] = 0;
    inputs[5].vocabulary = 4;
    inputs[6].type = "i32", inputs[6].vocabulary = -1;
    inputs[7].type = NULL;
    inputs[8].rank = 2, inputs[8].shape[0] = 65536, inputs[8].shape[1] = 32768;
    inputs[9].name = NULL;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        struct ps_dataset_source source = right;
        source.inputs = &inputs[i], source.input_count = 1;
        assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, of_input[i]);
    }
    /* Of several inputs the wrong one is named; of a shape the last side may be as large as fits. */
    struct ps_input several[] = {input, inputs[8], inputs[1]};
    struct ps_dataset_source source = right;
    several[1].shape[1] = 32767;
    source.inputs = several, source.input_count = 2;
    assert_ok(ps_dataset_create(&source, &data, &test_error));
    ps_dataset_destroy(data);
    source.input_count = 3;
    assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, "inputs[2]: type: 'f64' is not known");
}

/* ---------------------------------------------------------------- a program's own data */

/* What the functions below do, and how often they were called. */
struct own_data {
    bool fails, fails_to_open, silent;
    int32_t token, label;
    int opened, closed, read;
};

static enum ps_status open_own(void *context, struct ps_error *error) {
    struct own_data *own = context;
    own->opened++;
    if (!own->fails_to_open) return PS_OK;
    if (!own->silent) snprintf(error->message, sizeof error->message, "the disk is out");
    return PS_IO;
}

static void close_own(void *context) { ((struct own_data *)context)->closed++; }

static enum ps_status read_own(void *context, int64_t sample, void *input, int32_t *labels, struct ps_error *error) {
    struct own_data *own = context;
    int32_t *tokens = input;
    own->read++;
    if (own->fails) {
        if (!own->silent) {
            snprintf(error->message, sizeof error->message, "it is scratched");
            snprintf(error->hint, sizeof error->hint, "polish it");
        }
        return PS_IO;
    }
    for (int t = 0; input && t < 4; t++) tokens[t] = t == 3 ? own->token : (int32_t)sample;
    labels[0] = 0;
    labels[1] = own->label;
    return PS_OK;
}

static struct ps_dataset_source source_of(struct own_data *own) {
    struct ps_dataset_source source;
    ps_dataset_source_init(&source);
    source.context = own;
    source.name = "own";
    source.samples = 5;
    source.open = open_own;
    source.close = close_own;
    source.read = read_own;
    source.input_shape[0] = source.input_shape[2] = 1;
    source.input_shape[1] = 4;
    source.vocabulary = 7;
    source.classes = 3;
    source.labels = 2;
    return source;
}

static void own_data_are_checked(void **state) {
    (void)state;
    static const struct ps_input one = {"a", "i32", 1, {4}, 7}, listed[] = {{"a", "i32", 1, {2}, 7}, {"b", "i32", 1, {2}, 6}};
    struct dataset_shape wanted = {
        .channels = 1, .height = 4, .width = 1, .classes = 3, .labels = 2, .vocabulary = 7, .inputs = &one, .input_count = 1};
    for (int lists = 0; lists < 2; lists++) {
        struct own_data own = {.token = 5, .label = -1};
        struct ps_dataset_source source = source_of(&own);
        struct ps_dataset *data;
        struct samples samples;
        int32_t tokens[4], labels[2];
        if (lists) {
            source.inputs = listed;
            source.input_count = 2;
            wanted.inputs = listed;
            wanted.input_count = 2;
        }
        assert_ok(ps_dataset_create(&source, &data, &test_error));
        assert_int_equal(ps_dataset_samples(data), 5);
        assert_string_equal(ps_dataset_name(data), "own");
        own.fails_to_open = true;
        assert_status(dataset_use(data, DATASET_TRAIN, &wanted, &samples, &test_error), PS_IO, "data 'own': the disk is out");
        own.silent = true;
        assert_status(dataset_use(data, DATASET_TRAIN, &wanted, &samples, &test_error), PS_IO, "data 'own': cannot be opened");
        assert_int_equal(own.closed, 0);
        own.fails_to_open = own.silent = false;
        assert_ok(dataset_use(data, DATASET_TRAIN, &wanted, &samples, &test_error));
        const struct dataset *dataset = samples.dataset;
        assert_int_equal(samples.count, 5);
        assert_ok(dataset->class->read(dataset, 3, tokens, labels, &test_error));
        assert_memory_equal(tokens, ((int32_t[]){3, 3, 3, 5}), sizeof tokens);
        assert_memory_equal(labels, ((int32_t[]){0, -1}), sizeof labels);
        assert_ok(dataset->class->target(dataset, 2, labels, &test_error));
        static const int32_t wrong_labels[] = {-2, 3}, wrong_tokens[][2] = {{-1, 7}, {-1, 6}};
        for (int w = 0; w < 2; w++) {
            char said[128];
            own.label = wrong_labels[w];
            snprintf(said, sizeof said, "data 'own': sample 1 has the label %d, which is not from -1 to 2", own.label);
            assert_status(dataset->class->read(dataset, 1, tokens, labels, &test_error), PS_BAD_INPUT, said);
            assert_status(dataset->class->target(dataset, 1, labels, &test_error), PS_BAD_INPUT, said);
            own.label = 2;
            own.token = wrong_tokens[lists][w];
            snprintf(said, sizeof said, "data 'own': sample 1 has the token %d, which is not from 0 to %d", own.token,
                     lists ? 5 : 6);
            assert_status(dataset->class->read(dataset, 1, tokens, labels, &test_error), PS_BAD_INPUT, said);
            own.token = w == 0 ? 0 : lists ? 5 : 6;
            assert_ok(dataset->class->read(dataset, 1, tokens, labels, &test_error));
        }
        own.fails = true;
        assert_status(dataset->class->read(dataset, 4, tokens, labels, &test_error), PS_IO,
                      "data 'own': sample 4: it is scratched\npolish it");
        own.silent = true;
        assert_status(dataset->class->read(dataset, 4, tokens, labels, &test_error), PS_IO,
                      "data 'own': sample 4: cannot be read");
        assert_int_equal(own.opened, 3);
        assert_int_equal(own.closed, 0);
        samples_close(&samples);
        assert_int_equal(own.closed, 1);
        ps_dataset_destroy(data);
    }
}

/* What a program's own data are, and what another network takes. */
static void own_data_must_fit(void **state) {
    (void)state;
    static const struct ps_input two[] = {{"a", "i32", 1, {4}, 7}, {"mask", "f32", 2, {4, 1}, 0}},
                                 grid = {"grid", "f32", 2, {4, 3}, 0}, words = {"a", "i32", 1, {4}, 7},
                                 other = {"b", "i32", 1, {4}, 7}, fewer = {"a", "i32", 1, {4}, 6},
                                 longer = {"a", "i32", 1, {5}, 7}, numbers = {"y", "f32", 1, {2}, 0},
                                 three = {"y", "f32", 1, {3}, 0}, renamed = {"z", "f32", 1, {2}, 0};
    static const struct dataset_shape right = {
        .channels = 1, .height = 4, .width = 1, .classes = 3, .labels = 2, .vocabulary = 7, .inputs = &words, .input_count = 1};
    enum { SAME, LENGTH, VOCABULARY, IMAGES, LABELS, ONE_LABEL, CLASSES, NUMBERS, TWO, GRID, CASES };
    static const char *const said[CASES] = {
        [LENGTH] = "data 'own' have sequences of 4 tokens, but the network takes 5",
        [VOCABULARY] =
            "data 'own' have a vocabulary of 7 tokens, but the network's is 8\ngive a built-in network the option vocab=7",
        [IMAGES] = "data 'own' are sequences of tokens, but the network reads images",
        [LABELS] = "data 'own' have 2 labels per sample, but the network's loss reads 4",
        [ONE_LABEL] = "data 'own' have 2 labels per sample, but the network's loss reads 1",
        [CLASSES] = "data 'own' has 3 classes, but the network has 4\ngive a built-in network the option classes=3",
        [NUMBERS] = "data 'own' have labels of 3 classes, but the network's loss reads 2 numbers per sample",
        [TWO] = "data 'own' have 1 input per sample, but the network takes 2, as 'mask' f32 4x1\nnpz:FILE, npy:DIR and "
                "safetensors:FILE name their inputs",
        [GRID] = "data 'own' do not list their inputs, but the network takes 'grid' f32 4x3: ps_dataset_create can",
    };
    struct own_data own = {0};
    struct ps_dataset_source source = source_of(&own);
    struct ps_dataset *data;
    struct samples samples;
    assert_ok(ps_dataset_create(&source, &data, &test_error));
    for (int c = 0; c < CASES; c++) {
        struct dataset_shape wanted = right;
        if (c == LENGTH) wanted.height = 5;
        if (c == VOCABULARY) wanted.vocabulary = 8;
        if (c == IMAGES) wanted.vocabulary = 0;
        if (c == LABELS) wanted.labels = 4;
        if (c == ONE_LABEL) wanted.labels = 1;
        if (c == CLASSES) wanted.classes = 4;
        if (c == NUMBERS) wanted.classes = 0;
        if (c == TWO) wanted.inputs = two, wanted.input_count = 2;
        if (c == GRID) wanted.inputs = &grid;
        const enum ps_status status = dataset_use(data, DATASET_TRAIN, &wanted, &samples, &test_error);
        if (c == SAME) {
            assert_ok(status);
            samples_close(&samples);
        } else {
            assert_status(status, PS_USAGE, said[c]);
        }
    }
    assert_int_equal(own.opened, own.closed); /* also where they do not fit */
    ps_dataset_destroy(data);
    /* With lists. */
    static const struct {
        const struct ps_input *has, *takes, *target, *reads;
        const char *said;
    } lists[] = {
        {&words, &words, &numbers, &numbers, NULL},
        {&words, &other, &numbers, &numbers,
         "data 'own': input 0 is 'a' i32 4 of 7 tokens, but the network takes 'b' i32 4 of 7 tokens"},
        {&words, &fewer, &numbers, &numbers, "input 0 is 'a' i32 4 of 7 tokens, but the network takes 'a' i32 4 of 6 tokens"},
        {&words, &longer, &numbers, &numbers, "input 0 is 'a' i32 4 of 7 tokens, but the network takes 'a' i32 5 of 7 tokens"},
        {&words, &words, &numbers, &renamed, "data 'own' have the target 'y', but the network's loss reads 'z'"},
        {&words, &words, &numbers, &three, "data 'own' have the target 'y' f32 2, but the network's loss reads 'y' f32 3"},
        {&words, &words, NULL, &numbers,
         "data 'own' have labels of 3 classes, but the network's loss reads 2 numbers per sample"},
        {&words, &words, &numbers, NULL, "data 'own' have numbers as target, but the network's loss reads labels of 3 classes"},
    };
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
        struct dataset_shape wanted = right;
        source = source_of(&own);
        source.inputs = lists[l].has;
        source.input_count = 1;
        source.targets = lists[l].target;
        source.target_count = 1;
        wanted.inputs = lists[l].takes;
        wanted.target = lists[l].reads;
        if (lists[l].reads) wanted.classes = 0, wanted.labels = (int)lists[l].reads->shape[0];
        assert_ok(ps_dataset_create(&source, &data, &test_error));
        const enum ps_status status = dataset_use(data, DATASET_TRAIN, &wanted, &samples, &test_error);
        if (!lists[l].said) {
            assert_ok(status);
            samples_close(&samples);
        } else {
            assert_status(status, PS_USAGE, lists[l].said);
        }
        ps_dataset_destroy(data);
    }
}

/* Data by a spec, opened for a network or later. */
static void specs_are_opened_now_or_later(void **state) {
    (void)state;
    struct ps_dataset_options options;
    struct ps_dataset *later, *now, *data;
    struct ps_network *network;
    assert_ok(ps_network_open("lenet5,input=12,classes=3", &network, &test_error));
    assert_ok(ps_dataset_open("synthetic:images,samples=9", NULL, &later, &test_error));
    assert_int_equal(ps_dataset_samples(later), -1);
    assert_string_equal(ps_dataset_name(later), "synthetic:images,samples=9");
    ps_dataset_options_init(&options);
    assert_ok(ps_dataset_open("synthetic:images,samples=9", &options, &data, &test_error));
    ps_dataset_destroy(data);
    options.network = network;
    assert_ok(ps_dataset_open("synthetic:images,samples=9@2-7", &options, &now, &test_error));
    assert_int_equal(ps_dataset_samples(now), 5);
    /* The object's own samples stay open with it. */
    struct samples samples;
    const struct dataset_shape wanted = dataset_shape_of(network);
    assert_ok(dataset_use(now, DATASET_TRAIN, &wanted, &samples, &test_error));
    samples_close(&samples);
    assert_ok(dataset_use(now, DATASET_TRAIN, &wanted, &samples, &test_error));
    assert_int_equal(samples.count, 5);
    samples_close(&samples);
    assert_status(ps_dataset_open("synthetic:images,size=9", &options, &data, &test_error), PS_USAGE, "9x9 pixels");
    for (int part = -1; part <= 3; part += 4) {
        options.part = (enum ps_part)part;
        char said[64];
        snprintf(said, sizeof said, "part: %d is none of the 3 that there are", part);
        assert_status(ps_dataset_open("synthetic:images", &options, &data, &test_error), PS_USAGE, said);
    }
    options.part = PS_PART_USUAL;
    options.words = later;
    assert_status(ps_dataset_open("synthetic:images", &options, &data, &test_error), PS_USAGE,
                  "words: 'synthetic:images,samples=9' was not opened for a network");
    options.words = NULL;
    assert_status(ps_dataset_open("/dev/null", NULL, &data, &test_error), PS_USAGE,
                  "data '/dev/null': the format must stand before it, as in FORMAT:/dev/null");
    ps_dataset_destroy(now);
    ps_dataset_destroy(later);
    ps_network_destroy(network);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_complete),
        cmocka_unit_test(unknown_formats_and_parts),
        cmocka_unit_test(wrong_ranges),
        cmocka_unit_test(wrong_sources),
        cmocka_unit_test(ranges_take_what_they_say),
        cmocka_unit_test(the_spec_chooses_the_part_over_the_caller),
        cmocka_unit_test(data_must_fit_the_network),
        cmocka_unit_test(normalisation_of_a_spec),
        cmocka_unit_test(own_data_are_checked),
        cmocka_unit_test(own_data_must_fit),
        cmocka_unit_test(specs_are_opened_now_or_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
