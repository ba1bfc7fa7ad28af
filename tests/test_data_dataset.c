/* Dataset specs: formats, parts, ranges, and whether the data fit the network. On synthetic data, which are always there. */
#include "support.h"

#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "data/pixels.h"

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
            assert_float_equal(found.mean[i], cases[c].mean[i], 1e-6);
            assert_float_equal(found.deviation[i], cases[c].deviation[i], 1e-6);
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
    struct ps_input input = {.name = "x", .type = "f32", .rank = 1, .shape = {3}}, target = input;
    struct ps_dataset_source right;
    ps_dataset_source_init(&right);
    right.name = "own", right.read = read_nothing, right.samples = 5, right.classes = 2;
    for (int d = 0; d < 3; d++) right.input_shape[d] = 1;
    struct ps_dataset *data;
    assert_ok(ps_dataset_create(&right, &data, &test_error));
    ps_dataset_destroy(data);
    struct ps_dataset_source wrong[] = {right, right, right, right, right, right, right, right, right, right, right, right};
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
                                       "target_count: 2; 1 is accepted, which the loss reads"};
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
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        assert_status(ps_dataset_create(&wrong[w], &data, &test_error), PS_USAGE, said[w]);
    struct ps_input inputs[] = {input, input, input, input, input, input, input};
    static const char *const of_input[] = {"inputs[0]: name: there is none",
                                           "inputs[0]: type: 'f64' is not known; f32 and i32 are",
                                           "inputs[0]: rank: 0 is not from 1 to 6",
                                           "inputs[0]: rank: 7 is not from 1 to 6",
                                           "inputs[0]: shape: 0 is not from 1 to 2147483647",
                                           "inputs[0]: vocabulary: 4; for i32 it is 0 or above, for f32 it is 0",
                                           "inputs[0]: vocabulary: -1; for i32 it is 0 or above"};
    inputs[0].name = "";
    inputs[1].type = "f64";
    inputs[2].rank = 0;
    inputs[3].rank = 7;
    inputs[4].shape[0] = 0;
    inputs[5].vocabulary = 4;
    inputs[6].type = "i32", inputs[6].vocabulary = -1;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        struct ps_dataset_source source = right;
        source.inputs = &inputs[i], source.input_count = 1;
        assert_status(ps_dataset_create(&source, &data, &test_error), PS_USAGE, of_input[i]);
    }
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
