/* Data in files of named arrays and in tables: what a sample is made of, and
 * what does not fit. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "data/dataset.h"
#include "data/npz.h"
#include "graph/network.h"

enum { SAMPLES = 3, C = 2, H = 2, W = 3, T = 4 };

static const char *in_directory(const char *name) {
    static char path[4096];
    return file_join(path, test_directory, name);
}

/* An image, tokens and their mask; labels for pixels, or numbers. */
static struct ps_network *make_network(const char *loss) {
    struct ps_network_builder *b = ps_network_builder_create("n");
    struct ps_network *network;
    const int image = ps_network_builder_input(b, "image", "f32", (const int64_t[]){C, H, W}, 3);
    const int words = ps_network_builder_input(b, "words", "i32", (const int64_t[]){T}, 1);
    const int mask = ps_network_builder_input(b, "mask", "f32", (const int64_t[]){T, 1}, 2);
    int x = ps_network_builder_node(b, "embedding", "embedding,channels=2,vocabulary=9", &words, 1);
    x = ps_network_builder_node(b, "flat", "flatten", &x, 1);
    int y = ps_network_builder_node(b, "flat_image", "flatten", &image, 1);
    y = ps_network_builder_node(b, "seen", "linear,channels=8", &y, 1);
    int z = ps_network_builder_node(b, "flat_mask", "flatten", &mask, 1);
    z = ps_network_builder_node(b, "masked", "linear,channels=8", &z, 1);
    x = ps_network_builder_node(b, "read", "linear,channels=8", &x, 1);
    x = ps_network_builder_node(b, "sum", "add", (const int[]){x, y, z}, 3);
    x = ps_network_builder_node(b, "last", "linear,channels=2", &x, 1);
    ps_network_builder_node(b, "loss", loss, &x, 1);
    if (strcmp(loss, "mse") == 0) ps_network_builder_target(b, "y", "f32", (const int64_t[]){2}, 1);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

static struct ps_network *pixels(void) {
    struct ps_network_builder *b = ps_network_builder_create("n");
    struct ps_network *network;
    ps_network_builder_input(b, "image", "f32", (const int64_t[]){C, H, W}, 3);
    ps_network_builder_node(b, "conv", "convolution,channels=3,kernel=1", NULL, 0);
    ps_network_builder_node(b, "loss", "cross_entropy", NULL, 0);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

static enum ps_status open_wanted(const char *format, const char *name, const char *rest, const struct dataset_shape *wanted,
                                  struct samples *samples) {
    char spec[8192];
    snprintf(spec, sizeof spec, "%s:%s%s", format, name[0] == '/' ? name : in_directory(name), rest);
    return samples_open(spec, DATASET_TRAIN, wanted, samples, &test_error);
}

static enum ps_status try_open(const char *format, const char *name, const char *rest, const struct ps_network *network,
                               struct samples *samples) {
    const struct dataset_shape wanted = dataset_shape_of(network);
    return open_wanted(format, name, rest, &wanted, samples);
}

/* ----------------------------------------------------------------------------
 * files */

static float image[SAMPLES * C * W * W], mask[SAMPLES * T], y[SAMPLES * 2];
static int64_t words[SAMPLES * T];
static uint8_t kinds[SAMPLES] = {1, 0, 1};

static void fill(void) {
    for (int i = 0; i < SAMPLES * C * H * W; i++) image[i] = (float)i;
    for (int i = 0; i < SAMPLES * T; i++) words[i] = i % 9;
    for (int i = 0; i < SAMPLES * T; i++) mask[i] = (float)(i % 2);
    for (int i = 0; i < SAMPLES * 2; i++) y[i] = 0.5f * (float)i;
}

enum { ARRAYS = 5 };
static void list_arrays(struct array arrays[ARRAYS]) {
    fill();
    arrays[0] = (struct array){"image", ARRAY_F32, 4, {SAMPLES, C, H, W}, image};
    arrays[1] = (struct array){"input/words", ARRAY_I64, 2, {SAMPLES, T}, words};
    arrays[2] = (struct array){"mask", ARRAY_F32, 2, {SAMPLES, T}, mask};
    arrays[3] = (struct array){"labels", ARRAY_U8, 1, {SAMPLES}, kinds};
    arrays[4] = (struct array){"y", ARRAY_F32, 2, {SAMPLES, 2}, y};
}

/* Sample by sample what was written, channels last. */
static void check_samples(const struct samples *samples, bool numbers) {
    const struct dataset *dataset = samples->dataset;
    assert_int_equal(samples->count, SAMPLES);
    for (int n = 0; n < SAMPLES; n++) {
        int32_t input[C * H * W + 2 * T], target[2], alone[2];
        const float *floats = (const float *)(const void *)input;
        assert_ok(dataset->class->read(dataset, n, input, target, &test_error));
        assert_ok(dataset->class->target(dataset, n, alone, &test_error));
        assert_memory_equal(target, alone, numbers ? 8 : 4);
        for (int c = 0; c < C; c++)
            for (int i = 0; i < H * W; i++) assert_true(floats[i * C + c] == image[(n * C + c) * H * W + i]);
        for (int t = 0; t < T; t++) assert_int_equal(input[C * H * W + t], words[n * T + t]);
        for (int t = 0; t < T; t++) assert_true(floats[C * H * W + T + t] == mask[n * T + t]);
        if (numbers)
            assert_memory_equal(target, y + 2 * n, 8);
        else
            assert_int_equal(target[0], kinds[n]);
    }
}

static void every_format_gives_the_samples(void **state) {
    (void)state;
    struct array arrays[ARRAYS];
    struct samples samples;
    list_arrays(arrays);
    assert_ok(npz_write(in_directory("a.npz"), arrays, ARRAYS, &test_error));
    arrays[1].name = "words";
    struct safetensor_source tensors[3] = {{"image", arrays[0].shape, 4, image, ARRAY_F32},
                                           {"mask", arrays[2].shape, 2, mask, ARRAY_F32},
                                           {"y", arrays[4].shape, 2, y, ARRAY_F32}};
    int32_t tokens[SAMPLES * T];
    for (int i = 0; i < SAMPLES * T; i++) tokens[i] = (int32_t)words[i];
    const struct safetensor_source all[] = {
        tensors[0], tensors[1], tensors[2], {"words", arrays[1].shape, 2, tokens, ARRAY_I32}};
    assert_ok(safetensors_write(in_directory("a.safetensors"), all, 4, NULL, &test_error));
    for (int numbers = 0; numbers < 2; numbers++) {
        struct ps_network *network = make_network(numbers ? "mse" : "cross_entropy");
        assert_ok(try_open("npz", "a.npz", "", network, &samples));
        check_samples(&samples, numbers);
        samples_close(&samples);
        if (numbers) {
            assert_ok(try_open("safetensors", "a.safetensors", "", network, &samples));
            check_samples(&samples, true);
            samples_close(&samples);
        }
        ps_network_destroy(network);
    }
}

/* A directory of the members of an archive, as unzip makes it. */
static void a_directory_of_arrays(void **state) {
    (void)state;
    static const char *const names[] = {"image", "labels"};
    int32_t labels[SAMPLES * H * W];
    const struct array arrays[] = {{"image", ARRAY_F32, 4, {SAMPLES, C, H, W}, image},
                                   {"labels", ARRAY_I32, 3, {SAMPLES, H, W}, labels}};
    struct samples samples;
    struct ps_network *network = pixels();
    char path[4096];
    fill();
    for (int i = 0; i < SAMPLES * H * W; i++) labels[i] = i % 5 == 4 ? -100 : i % 3;
    assert_ok(file_make_directory(in_directory("npy"), &test_error));
    for (int a = 0; a < 2; a++) {
        /* An archive of one array holds its .npy file. */
        char *data, *start;
        size_t size;
        assert_ok(npz_write(in_directory("one.npz"), &arrays[a], 1, &test_error));
        assert_ok(file_read(in_directory("one.npz"), 1 << 20, &data, &size, &test_error));
        start = memmem(data, size, "\x93NUMPY", 6);
        assert_non_null(start);
        const size_t header = 10 + (size_t)(uint8_t)start[8] + 256 * (size_t)(uint8_t)start[9];
        snprintf(path, sizeof path, "npy/%s.npy", names[a]);
        test_file_write(in_directory(path), start, header + array_bytes(&arrays[a]));
        free(data);
    }
    assert_ok(try_open("npy", "npy", "@1-3", network, &samples));
    assert_int_equal(samples.count, 2);
    for (int n = 0; n < 2; n++) {
        float input[C * H * W];
        int32_t target[H * W];
        assert_ok(samples.dataset->class->read(samples.dataset, samples.first + n, input, target, &test_error));
        assert_true(input[1] == image[((n + 1) * C + 1) * H * W]);
        for (int i = 0; i < H * W; i++) {
            const int32_t label = labels[(n + 1) * H * W + i];
            assert_int_equal(target[i], label < 0 ? -1 : label);
        }
    }
    samples_close(&samples);
    assert_status(try_open("npy", "absent", "", network, &samples), PS_BAD_INPUT, "there is no labels.npy");
    const struct array turned[] = {arrays[0], {"labels", ARRAY_I32, 3, {SAMPLES, W, H}, labels}};
    assert_ok(npz_write(in_directory("turned.npz"), turned, 2, &test_error));
    assert_status(try_open("npz", "turned.npz", "", network, &samples), PS_USAGE,
                  "array 'labels' is 3x3x2, but the network takes 'labels' of 2x3 for each sample");
    ps_network_destroy(network);
}

/* What a run keeps to see whether its data have changed must be the same in all versions. */
static void a_checksum_stays(void **state) {
    (void)state;
    struct array arrays[ARRAYS];
    struct samples samples;
    struct ps_network *network = make_network("cross_entropy");
    uint64_t checksum, part;
    list_arrays(arrays);
    assert_ok(npz_write(in_directory("sum.npz"), arrays, ARRAYS, &test_error));
    assert_ok(try_open("npz", "sum.npz", "", network, &samples));
    assert_ok(samples_checksum(&samples, &checksum, &test_error));
    assert_int_equal(checksum, 0x65d29c688980e0u);
    samples_close(&samples);
    assert_ok(try_open("npz", "sum.npz", "@1-3", network, &samples));
    assert_ok(samples_checksum(&samples, &part, &test_error));
    assert_int_equal(part, 0x26af6bd231d59845u);
    samples_close(&samples);
    /* Each of a sample's last numbers counts: the label's byte, too. */
    for (int change = 0; change < 2; change++) {
        list_arrays(arrays);
        if (change == 0) mask[SAMPLES * T - 1] = 0.25f;
        if (change == 1) kinds[SAMPLES - 1] = 0;
        assert_ok(npz_write(in_directory("sum.npz"), arrays, ARRAYS, &test_error));
        kinds[SAMPLES - 1] = 1;
        assert_ok(try_open("npz", "sum.npz", "", network, &samples));
        assert_ok(samples_checksum(&samples, &part, &test_error));
        assert_int_not_equal(part, checksum);
        samples_close(&samples);
    }
    /* What cannot be read has none. */
    list_arrays(arrays);
    words[T] = 9;
    assert_ok(npz_write(in_directory("sum.npz"), arrays, ARRAYS, &test_error));
    assert_ok(try_open("npz", "sum.npz", "", network, &samples));
    assert_status(samples_checksum(&samples, &part, &test_error), PS_BAD_INPUT, "sample 1 has the number 9");
    assert_int_equal(part, 0);
    samples_close(&samples);
    ps_network_destroy(network);
}

/* Where no labels are needed they may be missing, and are all -1 then; those
 * that are there are read. */
static void labels_may_be_missing(void **state) {
    (void)state;
    struct array arrays[ARRAYS];
    struct samples samples;
    struct ps_network *network = make_network("cross_entropy");
    struct dataset_shape wanted = dataset_shape_of(network);
    wanted.unlabelled = true;
    list_arrays(arrays);
    for (int labelled = 0; labelled < 2; labelled++) {
        int32_t label = 7;
        arrays[3].name = labelled ? "labels" : "kinds";
        assert_ok(npz_write(in_directory("some.npz"), arrays, ARRAYS, &test_error));
        assert_ok(open_wanted("npz", "some.npz", "", &wanted, &samples));
        assert_int_equal(samples.dataset->shape.unlabelled, !labelled);
        assert_int_equal(samples.count, SAMPLES);
        assert_ok(samples.dataset->class->target(samples.dataset, 2, &label, &test_error));
        assert_int_equal(label, labelled ? kinds[2] : -1);
        samples_close(&samples);
    }
    ps_network_destroy(network);
}

/* The whole path is said, however long it is. */
static void paths_are_said(void **state) {
    (void)state;
    struct array arrays[ARRAYS];
    struct samples samples;
    struct ps_network *network = make_network("cross_entropy");
    list_arrays(arrays);
    for (int more = 0; more < 17; more++) {
        char name[32], said[4200];
        snprintf(name, sizeof name, "%.*sp.npz", more, "qqqqqqqqqqqqqqqqq");
        assert_ok(npz_write(in_directory(name), arrays + 1, ARRAYS - 1, &test_error));
        snprintf(said, sizeof said, "%s: there is no array '%s'", in_directory(name), arrays[0].name);
        assert_status(try_open("npz", name, "", network, &samples), PS_BAD_INPUT, said);
    }
    ps_network_destroy(network);
}

/* PyTorch's order of the sides, or a sample's own, channels last; sides of 1 do
 * not count. */
static void sides_stand_in_either_order(void **state) {
    (void)state;
    static const struct {
        int64_t input[3]; /* the network's C, H, W */
        int rank;
        int64_t sides[6];
        bool moves; /* channels stand first in the file */
    } cases[] = {
        {{2, 2, 3}, 4, {SAMPLES, 2, 2, 3}, true},
        {{2, 2, 3}, 4, {SAMPLES, 2, 3, 2}, false},
        {{2, 2, 3}, 6, {SAMPLES, 1, 2, 2, 1, 3}, true},
        {{3, 3, 3}, 4, {SAMPLES, 3, 3, 3}, true}, /* an image: PyTorch's order */
        {{3, 4, 1}, 3, {SAMPLES, 3, 4}, true},
        {{3, 4, 1}, 3, {SAMPLES, 4, 3}, false},
        {{4, 4, 1}, 3, {SAMPLES, 4, 4}, false}, /* features of positions: a sample's order */
        {{4, 4, 1}, 4, {SAMPLES, 4, 4, 1}, true},
        {{4, 4, 1}, 4, {SAMPLES, 4, 1, 4}, false},
        {{1, 4, 4}, 3, {SAMPLES, 4, 4}, false},
        {{4, 1, 1}, 2, {SAMPLES, 4}, false},
        {{2, 40, 30}, 4, {SAMPLES, 2, 40, 30}, true},
    };
    enum { MOST = 2 * 40 * 30 };
    static float numbers[SAMPLES * MOST], input[MOST];
    uint8_t labels[SAMPLES] = {0};
    for (int i = 0; i < SAMPLES * MOST; i++) numbers[i] = (float)i;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const int64_t *sides = cases[c].input, area = sides[1] * sides[2], each = sides[0] * area;
        struct ps_network_builder *b = ps_network_builder_create("n");
        struct ps_network *network;
        struct samples samples;
        int32_t label;
        ps_network_builder_input(b, "x", "f32", sides, 3);
        ps_network_builder_node(b, "flat", "flatten", NULL, 0);
        ps_network_builder_node(b, "last", "linear,channels=2", NULL, 0);
        ps_network_builder_node(b, "loss", "cross_entropy", NULL, 0);
        assert_ok(ps_network_builder_finish(b, &network, &test_error));
        struct array arrays[] = {{"x", ARRAY_F32, cases[c].rank, {0}, numbers}, {"labels", ARRAY_U8, 1, {SAMPLES}, labels}};
        memcpy(arrays[0].shape, cases[c].sides, (size_t)cases[c].rank * sizeof *arrays[0].shape);
        assert_ok(npz_write(in_directory("sides.npz"), arrays, 2, &test_error));
        assert_ok(try_open("npz", "sides.npz", "", network, &samples));
        assert_ok(samples.dataset->class->read(samples.dataset, 1, input, &label, &test_error));
        for (int64_t p = 0; p < area; p++)
            for (int64_t k = 0; k < sides[0]; k++) {
                const int64_t from = cases[c].moves ? k * area + p : p * sides[0] + k;
                if (input[p * sides[0] + k] != numbers[each + from]) fail_msg("case %d: another order", (int)c);
            }
        samples_close(&samples);
        ps_network_destroy(network);
    }
}

/* Tokens alone: the labels are the next ones, in rows and in one stream. */
static void tokens_are_their_own_labels(void **state) {
    (void)state;
    uint16_t ids[3 * 8 + 1];
    int32_t tokens[8], labels[8];
    struct samples samples;
    struct ps_network *network;
    for (int i = 0; i < 25; i++) ids[i] = (uint16_t)(i * 7 % 30);
    assert_ok(ps_network_open("gpt2,seq=8,layers=1,width=8,heads=2,vocab=30", &network, &test_error));
    for (int stream = 0; stream < 2; stream++) {
        const struct array array = {"data", ARRAY_U16, stream ? 1 : 2, {stream ? 25 : 3, 8}, ids};
        assert_ok(npz_write(in_directory("ids.npz"), &array, 1, &test_error));
        assert_ok(try_open("npz", "ids.npz", "", network, &samples));
        assert_int_equal(samples.count, 3);
        for (int n = 0; n < 3; n++) {
            assert_ok(samples.dataset->class->read(samples.dataset, n, tokens, labels, &test_error));
            for (int t = 0; t < 8; t++) {
                assert_int_equal(tokens[t], ids[8 * n + t]);
                assert_int_equal(labels[t], t == 7 && !stream ? -1 : ids[8 * n + t + 1]);
            }
        }
        samples_close(&samples);
    }
    /* Files of another format say as well that there are no labels. */
    int32_t wide[3 * 8];
    for (int i = 0; i < 24; i++) wide[i] = ids[i];
    const struct safetensor_source tensor = {"data", (const int64_t[]){3, 8}, 2, wide, ARRAY_I32};
    assert_ok(safetensors_write(in_directory("ids.safetensors"), &tensor, 1, NULL, &test_error));
    assert_ok(try_open("safetensors", "ids.safetensors", "", network, &samples));
    assert_ok(samples.dataset->class->read(samples.dataset, 2, tokens, labels, &test_error));
    assert_int_equal(tokens[7], ids[23]);
    assert_int_equal(labels[0], ids[17]);
    assert_int_equal(labels[7], -1);
    samples_close(&samples);
    /* So does a directory; the words of the network's run are not those of
     * numbers. */
    char *data;
    size_t size;
    struct dataset_shape wanted = dataset_shape_of(network);
    const struct array rows = {"data", ARRAY_U16, 2, {3, 8}, ids};
    assert_ok(npz_write(in_directory("one.npz"), &rows, 1, &test_error));
    assert_ok(file_read(in_directory("one.npz"), 1 << 20, &data, &size, &test_error));
    const char *start = memmem(data, size, "\x93NUMPY", 6);
    assert_non_null(start);
    assert_ok(file_make_directory(in_directory("tokens"), &test_error));
    test_file_write(in_directory("tokens/data.npy"), start, 10 + (size_t)(uint8_t)start[8] + array_bytes(&rows));
    free(data);
    wanted.words[0] = wanted.words[1] = (const struct vocabulary *)ids;
    assert_ok(open_wanted("npy", "tokens", "", &wanted, &samples));
    assert_null(samples.dataset->shape.words[0]);
    assert_null(samples.dataset->shape.words[1]);
    assert_int_equal(samples.count, 3);
    assert_ok(samples.dataset->class->read(samples.dataset, 2, tokens, labels, &test_error));
    assert_int_equal(tokens[7], ids[23]);
    assert_int_equal(labels[0], ids[17]);
    assert_int_equal(labels[7], -1);
    samples_close(&samples);
    /* Nothing behind the last row is read: there the file goes on with what is no token. */
    int64_t widest[3 * 8];
    for (int i = 0; i < 24; i++) widest[i] = ids[i];
    const struct array last = {"data", ARRAY_I64, 2, {3, 8}, widest};
    assert_ok(npz_write(in_directory("last.npz"), &last, 1, &test_error));
    assert_ok(try_open("npz", "last.npz", "", network, &samples));
    assert_ok(samples.dataset->class->read(samples.dataset, 2, tokens, labels, &test_error));
    assert_int_equal(labels[6], ids[23]);
    assert_int_equal(labels[7], -1);
    samples_close(&samples);
    const struct array few = {"data", ARRAY_U16, 1, {8}, ids};
    assert_ok(npz_write(in_directory("few.npz"), &few, 1, &test_error));
    assert_status(try_open("npz", "few.npz", "", network, &samples), PS_BAD_INPUT,
                  "array 'data' has 8 tokens; a sample takes 8, and the one that follows");
    ps_network_destroy(network);
}

static void what_does_not_fit_is_said(void **state) {
    (void)state;
    static const struct {
        int array;
        struct array changed;
        enum ps_status status;
        const char *said;
    } cases[] = {
        {0,
         {"picture", ARRAY_F32, 4, {SAMPLES, C, H, W}, NULL},
         PS_BAD_INPUT,
         "there is no array 'image'\nthe network's inputs and its target are "
         "found by their names; the file has picture, "
         "input/words, mask, labels, y"},
        {0,
         {"image", ARRAY_F32, 4, {SAMPLES, C, W, W}, NULL},
         PS_USAGE,
         "'image' is 3x2x3x3, but the network takes 'image' of 2x2x3 for each "
         "sample"},
        {0, {"image", ARRAY_F32, 0, {0}, NULL}, PS_USAGE, "is a number, but the network takes"},
        {2, {"mask", ARRAY_F32, 2, {SAMPLES - 1, T}, NULL}, PS_BAD_INPUT, "'mask' has 2 samples, but 'labels' has 3"},
        {3, {"kinds", ARRAY_U8, 1, {SAMPLES}, NULL}, PS_BAD_INPUT, "there is no array 'labels'"},
        {3, {"labels", ARRAY_U8, 1, {0}, NULL}, PS_BAD_INPUT, "'labels' has 0 samples"},
    };
    struct samples samples;
    struct ps_network *network = make_network("cross_entropy");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct array arrays[ARRAYS];
        list_arrays(arrays);
        const void *data = arrays[cases[i].array].data;
        arrays[cases[i].array] = cases[i].changed;
        arrays[cases[i].array].data = data;
        assert_ok(npz_write(in_directory("b.npz"), arrays, ARRAYS, &test_error));
        assert_status(try_open("npz", "b.npz", "", network, &samples), cases[i].status, cases[i].said);
    }
    struct array arrays[ARRAYS];
    int32_t input[C * H * W + 2 * T], target;
    list_arrays(arrays);
    words[T] = 9;
    kinds[2] = 7;
    assert_ok(npz_write(in_directory("b.npz"), arrays, ARRAYS, &test_error));
    kinds[2] = 1;
    assert_ok(try_open("npz", "b.npz", "", network, &samples));
    assert_ok(samples.dataset->class->read(samples.dataset, 0, input, &target, &test_error));
    assert_status(samples.dataset->class->read(samples.dataset, 1, input, &target, &test_error), PS_BAD_INPUT,
                  "array 'input/words': sample 1 has the number 9, which is not "
                  "from 0 to 8");
    assert_status(samples.dataset->class->target(samples.dataset, 2, &target, &test_error), PS_BAD_INPUT,
                  "array 'labels': sample 2 has the number 7, which is not from -1 to 1");
    samples_close(&samples);
    /* -1 and PyTorch's -100 stand for no label; there is always a token. */
    static int64_t signed_kinds[SAMPLES] = {-1, -100, -2};
    words[T] = -100;
    arrays[3] = (struct array){"labels", ARRAY_I64, 1, {SAMPLES}, signed_kinds};
    assert_ok(npz_write(in_directory("b.npz"), arrays, ARRAYS, &test_error));
    assert_ok(try_open("npz", "b.npz", "", network, &samples));
    for (int i = 0; i < 2; i++) {
        assert_ok(samples.dataset->class->target(samples.dataset, i, &target, &test_error));
        assert_int_equal(target, -1);
    }
    assert_status(samples.dataset->class->target(samples.dataset, 2, &target, &test_error), PS_BAD_INPUT,
                  "array 'labels': sample 2 has the number -2, which is not from -1 to 1");
    assert_status(samples.dataset->class->read(samples.dataset, 1, input, &target, &test_error), PS_BAD_INPUT,
                  "array 'input/words': sample 1 has the number -100, which is "
                  "not from 0 to 8");
    samples_close(&samples);
    const float one = 1;
    const struct safetensor_source tensor = {"ones", (const int64_t[]){1, 1}, 2, &one, ARRAY_F32};
    assert_ok(safetensors_write(in_directory("ones.safetensors"), &tensor, 1, NULL, &test_error));
    assert_status(try_open("safetensors", "ones.safetensors", "", network, &samples), PS_BAD_INPUT,
                  "there is no array 'labels'\nthe network's inputs and its target are "
                  "found by their names; the file has ones");
    assert_ok(npz_write(in_directory("none.npz"), arrays, 0, &test_error));
    assert_status(try_open("npz", "none.npz", "", network, &samples), PS_BAD_INPUT, "the file has none");
    assert_status(try_open("safetensors", "b.npz", "", network, &samples), PS_BAD_INPUT, "not a safetensors file");
    assert_status(try_open("npz", "/no/such/file", "", network, &samples), PS_BAD_INPUT, "cannot open");
    static const char nine[] = "{\"labels\":{\"dtype\":\"F32\",\"shape\":[1,1,1,"
                               "1,1,1,1,1,1],\"data_offsets\":[0,4]}}";
    char file[8 + sizeof nine - 1 + 4] = {sizeof nine - 1};
    memcpy(file + 8, nine, sizeof nine - 1);
    test_file_write(in_directory("nine.safetensors"), file, sizeof file);
    assert_status(try_open("safetensors", "nine.safetensors", "", network, &samples), PS_BAD_INPUT,
                  "tensor 'labels' has more than 8 sides");
    test_file_write(in_directory("t.csv"), "1,2\n", 4);
    assert_status(try_open("csv", "t.csv", "", network, &samples), PS_USAGE, "are one table, but the network takes 3 inputs");
    ps_network_destroy(network);
}

static struct ps_network *features(const char *loss, int inputs, int outputs) {
    char text[64];
    struct ps_network_builder *b = ps_network_builder_create("n");
    struct ps_network *network;
    ps_network_builder_input(b, "x", "f32", (const int64_t[]){inputs}, 1);
    snprintf(text, sizeof text, "linear,channels=%d", outputs);
    ps_network_builder_node(b, "last", text, NULL, 0);
    ps_network_builder_node(b, "loss", loss, NULL, 0);
    assert_ok(ps_network_builder_finish(b, &network, &test_error));
    return network;
}

static void tables_are_read(void **state) {
    (void)state;
    static const char *const texts[] = {"a,price,b,\"rooms\"\r\n1,10,2,3\r\n4,20,5.5,6\n\n", "1,10,2,3\n4, 20 ,5.5,6"};
    static const char *const targets[] = {",target=price+rooms", ",target=2+4"};
    struct ps_network *network = features("mse", 2, 2), *kinds_of = features("cross_entropy", 3, 7);
    struct samples samples;
    for (int header = 0; header < 2; header++) {
        float x[3], t[2];
        int32_t label;
        test_file_write(in_directory("t.csv"), texts[!header], strlen(texts[!header]));
        assert_ok(try_open("csv", "t.csv", targets[!header], network, &samples));
        assert_int_equal(samples.count, 2);
        assert_ok(samples.dataset->class->read(samples.dataset, 1, x, t, &test_error));
        assert_true(x[0] == 4 && x[1] == 5.5f && t[0] == 20 && t[1] == 6);
        samples_close(&samples);
        assert_ok(try_open("csv", "t.csv", "", kinds_of, &samples)); /* the last column */
        assert_ok(samples.dataset->class->read(samples.dataset, 0, x, &label, &test_error));
        assert_true(x[0] == 1 && x[1] == 10 && x[2] == 2 && label == 3);
        samples_close(&samples);
    }
    /* Columns may have numbers as names, and otherwise have their places; a file
     * may begin with the mark of UTF-8. */
    static const struct {
        const char *text, *rest;
        float x[2], t[2];
    } orders[] = {
        {"\xef\xbb\xbf\"x\",4,b,c\n\n1,2,3,4\n", ",target=x+4", {3, 4}, {1, 2}},
        {"a , b,c,d\n1,2,3,4\n", ",target=4+1", {2, 3}, {4, 1}},
        {"\n\"a\",\",b,c\n1,2,3,4\n", ",target=\"+a", {3, 4}, {2, 1}},
        {"1,2,3,4", "", {1, 2}, {3, 4}},
        {" 1\t,-2e0, 3 ,4", ",target=2+3", {1, 4}, {-2, 3}},
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        float x[2], t[2];
        test_file_write(in_directory("t.csv"), orders[i].text, strlen(orders[i].text));
        assert_ok(try_open("csv", "t.csv", orders[i].rest, network, &samples));
        assert_int_equal(samples.count, 1);
        assert_ok(samples.dataset->class->read(samples.dataset, 0, x, t, &test_error));
        assert_memory_equal(x, orders[i].x, sizeof x);
        assert_memory_equal(t, orders[i].t, sizeof t);
        samples_close(&samples);
    }
    /* Each end of a line ends one. */
    static const char *const ends[] = {"1,2,3,4\r5,6,7,8\n9,1,2,3\n", "1,2,3,4\r5,6,7,8\r9,1,2,3",
                                       "1,2,3,4\r\r\n5,6,7,8\n\r9,1,2,3\r"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        float x[2], t[2];
        test_file_write(in_directory("t.csv"), ends[i], strlen(ends[i]));
        assert_ok(try_open("csv", "t.csv", "", network, &samples));
        assert_int_equal(samples.count, 3);
        assert_ok(samples.dataset->class->read(samples.dataset, 1, x, t, &test_error));
        assert_true(x[0] == 5 && x[1] == 6 && t[0] == 7 && t[1] == 8);
        samples_close(&samples);
    }
    /* Where no labels are needed, columns that are all features are taken as
     * such. */
    struct dataset_shape wanted = dataset_shape_of(kinds_of);
    wanted.unlabelled = true;
    for (int labelled = 0; labelled < 2; labelled++) {
        float x[3];
        int32_t label;
        test_file_write(in_directory("t.csv"), labelled ? "1,2,3,4" : "1,2,3", labelled ? 7 : 5);
        assert_ok(open_wanted("csv", "t.csv", "", &wanted, &samples));
        assert_int_equal(samples.dataset->shape.unlabelled, !labelled);
        assert_ok(samples.dataset->class->read(samples.dataset, 0, x, &label, &test_error));
        assert_true(x[0] == 1 && x[1] == 2 && x[2] == 3);
        assert_int_equal(label, labelled ? 4 : -1);
        samples_close(&samples);
    }
    assert_status(open_wanted("csv", "t.csv", ",target=2+3", &wanted, &samples), PS_USAGE,
                  "have 2 columns of features, but the network takes 3");
    test_file_write(in_directory("t.csv"), "1,2,\0003,4", 9);
    assert_status(try_open("csv", "t.csv", "", network, &samples), PS_BAD_INPUT, "t.csv: it is no text");
    test_file_write(in_directory("t.csv"), "1,2,3,2.5", 9);
    assert_ok(try_open("csv", "t.csv", "", kinds_of, &samples));
    int32_t no_label;
    assert_status(samples.dataset->class->target(samples.dataset, 0, &no_label, &test_error), PS_BAD_INPUT,
                  "t.csv: array 'labels': element 0 is 2.5; whole numbers of 32 bits are accepted");
    samples_close(&samples);
    static const struct {
        const char *text, *rest, *said;
    } cases[] = {
        {"a,b\n1,2\n", "", "have 2 columns, but the network's target alone has 2 numbers"},
        {"a,b,c\n1,2,3\n", "", "have 1 column of features, but the network takes 2"},
        {"a,b,c,d\n1,2,3,4\n", ",target=a", "have 3 columns of features, but the network takes 2"},
        {"a,b,c,d\n1,2,3,4\n", ",target=a+e", "column: 'e' is not known"},
        {"a,b,c,d\n1,2,3,4\n", ",target=a+a", "'a' is named twice"},
        {"1,2,3,4\n", ",target=1+5", "column '5'; there are the columns 1 to 4"},
        {"1,2,3,4\n", ",target=1+0", "column '0'; there are the columns 1 to 4"},
        {"1,2,3,4\n", ",target=1+x", "column 'x'; there are the columns 1 to 4"},
        {"1,2,3,4\n", ",target=1+2x", "column '2x'; there are the columns 1 to 4"},
        {"a,b,c,d\n1,2,3,4\n", ",target=a+5", "column: '5' is not known"},
        {"1,2,3,4\n", ",target=1+2+3", "have 1 column of features, but the network takes 2"},
        {"a,b,c,d\n\n\r\n1,2,3\n", "", "line 4 has fewer than the 4 columns"},
        {"1,2,3,4\n\n1,2,3\n", "", "line 3 has fewer than the 4 columns"},
        {"a,b,c,d\n1,2,3\n", "", "line 2 has fewer than the 4 columns"},
        {"a,b,c,d\n1,2,3,4,5\n", "", "line 2 has more than the 4 columns"},
        {"a,b,c,d\n1,2,x,4\n", "", "line 2: column 3: 'x' is no number"},
        {"a,b,c,d\n1,2,,4\n", "", "line 2: column 3: '' is no number"},
        {"a,b,c,d\n1,2,nan,4\n", "", "t.csv: line 2: column 3: 'nan' is no finite number of 32 bits"},
        {"1,2,3,-1e39\n", "", "line 1: column 4: '-1e39' is no finite number of 32 bits"},
        {"1,2,3,4\n1e400,2,3,4\n", "", "line 2: column 1: '1e400' is no finite number of 32 bits"},
        {"a,b,c,d\n", "", "no rows of numbers"},
        {"", "", "no rows of numbers"},
        {"1,,3,4\n5,6,7,8\n", "", "t.csv: line 1: column 2 is empty, beside numbers"},
        {"\n1,b,3,\n5,6,7,8\n", "", "t.csv: line 2: column 4 is empty, beside numbers"},
        {"1,2,3,4\n", ",target=1.5+2", "column '1.5'; there are the columns 1 to 4"},
        {"a,b,c,b\n1,2,3,4\n", ",target=b+a", "target: columns 2 and 4 are both named 'b'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_file_write(in_directory("t.csv"), cases[i].text, strlen(cases[i].text));
        const enum ps_status status = try_open("csv", "t.csv", cases[i].rest, network, &samples);
        assert_status(status, status == PS_OK ? PS_USAGE : status, cases[i].said);
    }
    enum { COMMAS = 1 << 20 };
    char *commas = malloc(COMMAS);
    assert_non_null(commas);
    memset(commas, ',', COMMAS);
    test_file_write(in_directory("t.csv"), commas, COMMAS);
    free(commas);
    assert_status(try_open("csv", "t.csv", "", network, &samples), PS_BAD_INPUT, "1048577 columns; 1048576 are accepted");
    ps_network_destroy(network);
    ps_network_destroy(kinds_of);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_gives_the_samples),
        cmocka_unit_test(a_directory_of_arrays),
        cmocka_unit_test(a_checksum_stays),
        cmocka_unit_test(labels_may_be_missing),
        cmocka_unit_test(paths_are_said),
        cmocka_unit_test(sides_stand_in_either_order),
        cmocka_unit_test(tokens_are_their_own_labels),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(tables_are_read),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
