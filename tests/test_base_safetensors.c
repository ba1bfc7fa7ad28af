/* Safetensors: what is written reads back, and every kind of damage is one clear error. */
#include "run_support.h"
#include "within.h"

static char path[4096];

static int setup(void **state) {
    test_directory_set_up(state);
    file_join(path, test_directory, "model.safetensors");
    return 0;
}

static const float values[] = {1.5f, -2.0f, 3.25f, 0.0f, 5.0f, 6.0f, 7.0f};
static const int64_t matrix[] = {2, 3}, scalar_like[] = {1};

static void write_example(void) {
    const struct safetensor_source tensors[] = {{"b.weight", matrix, 2, values, ARRAY_F32},
                                                {"a \"quoted\" name", scalar_like, 1, values + 6, ARRAY_F32}};
    int64_t total;
    assert_ok(safetensors_write(path, tensors, 2, &total, &test_error));
    assert_int_equal(total, 28);
}

static void test_round_trip(void **state) {
    (void)state;
    write_example();
    struct safetensors file;
    assert_ok(safetensors_read(path, &file, &test_error));
    assert_int_equal(file.count, 2);
    assert_string_equal(file.tensors[0].name, "b.weight");
    const float *got;
    struct shape shape = {.rank = 2, .dim = {2, 3}};
    assert_ok(safetensors_get(&file, "b.weight", shape.dim, shape.rank, &got, &test_error));
    assert_memory_equal(got, values, 24);
    assert_ok(safetensors_values(&file, &file.tensors[1], &got, &test_error));
    assert_memory_equal(got, values + 6, 4);
    struct shape other = {.rank = 2, .dim = {3, 2}};
    assert_status(safetensors_get(&file, "b.weight", other.dim, other.rank, &got, &test_error), PS_BAD_INPUT,
                  "has shape 2x3 where the model has 3x2");
    assert_status(safetensors_get(&file, "c", other.dim, other.rank, &got, &test_error), PS_BAD_INPUT, "'c' is missing");
    safetensors_free(&file);
}

/* The data lies at a multiple of eight bytes, as readers that map the file want it. */
static void test_alignment(void **state) {
    (void)state;
    write_example();
    char *data;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &data, &size, &test_error));
    uint64_t length;
    memcpy(&length, data, 8);
    assert_int_equal(length % 8, 0);
    assert_int_equal(8 + length + 28, size);
    free(data);
}

static void write_raw(const char *header, uint64_t length, size_t data_bytes) {
    char *contents = calloc(1, 8 + strlen(header) + data_bytes);
    assert_non_null(contents);
    memcpy(contents, &length, 8);
    memcpy(contents + 8, header, strlen(header));
    test_file_write(path, contents, 8 + strlen(header) + data_bytes);
    free(contents);
}

static void test_damaged_headers(void **state) {
    (void)state;
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message;
    } cases[] = {
        {"[]", 0, "the header is not a JSON object"},
        {"{\"a\":", 0, "the header is not a JSON object"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{}}", 4, "the header is not a JSON object"},
        {"{\"a\":5}", 0, "'a': its entry is not an object"},
        {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype is missing or not known"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets are missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 8, "data_offsets are missing or not two"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4.5]}}", 4, "not two integers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, "outside of the data"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "outside of the data"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, "outside of the data"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "do not fit dtype and shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "a size that is not possible"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", 4,
         "a size that is not possible"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4, "shape is not a list"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8, "more data than its tensors need"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "leaves a gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
         "offsets\":[4,8]}}",
         8, "'b': its data overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
         "offsets\":[0,4]}}",
         8, "'a': its data overlaps"},
        {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
         "offsets\":[0,4]}}",
         4, "'b': its data overlaps"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct safetensors file;
        write_raw(cases[i].header, strlen(cases[i].header), cases[i].data_bytes);
        assert_status(safetensors_read(path, &file, &test_error), PS_BAD_INPUT, cases[i].message);
    }
}

static void test_absurd_lengths(void **state) {
    (void)state;
    static const uint64_t lengths[] = {3, 100, UINT64_MAX, UINT64_MAX - 7, 1ull << 40};
    struct safetensors file;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        write_raw("{}", lengths[i], 0);
        assert_status(safetensors_read(path, &file, &test_error), PS_BAD_INPUT, "past the file's end");
    }
    test_file_write(path, "abc", 3);
    assert_status(safetensors_read(path, &file, &test_error), PS_BAD_INPUT, "shorter than its first field");
    assert_status(safetensors_read("no/such.safetensors", &file, &test_error), PS_BAD_INPUT, "no/such.safetensors");
}

/* A file cut off anywhere, or with any byte changed, either reads or fails; it never crashes. */
static void test_cut_and_changed(void **state) {
    (void)state;
    write_example();
    char *data;
    size_t size;
    assert_ok(file_read(path, 1 << 20, &data, &size, &test_error));
    struct safetensors file;
    for (size_t length = 0; length < size; length++) {
        test_file_write(path, data, length);
        assert_int_equal(safetensors_read(path, &file, &test_error), PS_BAD_INPUT);
        test_error = (struct ps_error){0};
    }
    struct random_key key = test_key(1);
    for (uint64_t i = 0; i < 2000; i++) {
        size_t place = random_below(key, 2 * i, size);
        char old = data[place];
        data[place] = (char)random_below(key, 2 * i + 1, 256);
        test_file_write(path, data, size);
        if (safetensors_read(path, &file, &test_error) == PS_OK) safetensors_free(&file);
        test_error = (struct ps_error){0};
        data[place] = old;
    }
    free(data);
}

/* Types that are no numbers to us can stand in a file; asking for them is refused. */
static void test_other_types(void **state) {
    (void)state;
    const char *header = "{\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}    ";
    write_raw(header, strlen(header), 8);
    struct safetensors file;
    const float *got;
    struct shape shape = {0};
    assert_ok(safetensors_read(path, &file, &test_error));
    assert_status(safetensors_get(&file, "n", shape.dim, shape.rank, &got, &test_error), PS_BAD_INPUT,
                  "tensor 'n': its dtype is I64: F32 and BF16 are accepted");
    safetensors_free(&file);
}

/* Tensors of BF16 are read as f32 without loss, also among others, and written as what they are. */
static void test_narrow(void **state) {
    (void)state;
    uint16_t narrow[6];
    numbers_convert(6, TYPE_BF16, narrow, TYPE_F32, values);
    const struct safetensor_source tensors[] = {{"a", matrix, 2, narrow, ARRAY_BF16},
                                                {"b", scalar_like, 1, values + 6, ARRAY_F32},
                                                {"c", scalar_like, 1, narrow + 2, ARRAY_BF16}};
    int64_t total;
    struct safetensors file;
    const float *got;
    assert_ok(safetensors_write(path, tensors, 3, &total, &test_error));
    assert_int_equal(total, 6 * 2 + 4 + 2);
    assert_ok(safetensors_read(path, &file, &test_error));
    assert_int_equal(file.tensors[0].type, ARRAY_BF16);
    struct shape shape = {.rank = 2, .dim = {2, 3}};
    assert_ok(safetensors_get(&file, "a", shape.dim, shape.rank, &got, &test_error));
    assert_memory_equal(got, values, 24); /* these numbers need no more bits */
    shape = (struct shape){.rank = 1, .dim = {1}};
    assert_ok(safetensors_get(&file, "b", shape.dim, shape.rank, &got, &test_error));
    assert_within(*got, values[6], 0);
    assert_ok(safetensors_get(&file, "c", shape.dim, shape.rank, &got, &test_error));
    assert_within(*got, values[2], 0);
    safetensors_free(&file);
    const char *header = "{\"n\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}";
    for (int blanks = 0; blanks < 2; blanks++) {
        char padded[128];
        snprintf(padded, sizeof padded, "%s%*s", header, blanks, "");
        write_raw(padded, strlen(padded), 2);
        assert_ok(safetensors_read(path, &file, &test_error));
        if (strlen(padded) % 2 == 0)
            assert_ok(safetensors_get(&file, "n", shape.dim, shape.rank, &got, &test_error));
        else
            assert_status(safetensors_get(&file, "n", shape.dim, shape.rank, &got, &test_error), PS_BAD_INPUT,
                          "'n': its data is not aligned");
        safetensors_free(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_alignment),       cmocka_unit_test(test_damaged_headers),
        cmocka_unit_test(test_absurd_lengths), cmocka_unit_test(test_cut_and_changed), cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_narrow),
    };
    return cmocka_run_group_tests(tests, setup, test_directory_tear_down);
}
