/* NumPy's files: written and read back, stored and deflated, damaged in every way; and those of PENSTOCK_DATA. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "data/npz.h"

static const char *in_directory(const char *name) {
    static char path[4096];
    return file_join(path, test_directory, name);
}

/* ------------------------------------------------------------ making files */

struct bytes {
    unsigned char data[4096];
    size_t size;
};

static void put(struct bytes *bytes, uint64_t value, int count) {
    for (int i = 0; i < count; i++) bytes->data[bytes->size++] = (unsigned char)(i < 8 ? value >> (8 * i) : 0);
}

static void put_text(struct bytes *bytes, const char *text, size_t length) {
    memcpy(bytes->data + bytes->size, text, length);
    bytes->size += length;
}

static struct bytes npy(const char *header, const void *data, size_t size) {
    struct bytes made = {0};
    put_text(&made, "\x93NUMPY\x01\x00", 8);
    put(&made, strlen(header), 2);
    put_text(&made, header, strlen(header));
    put_text(&made, data, size);
    return made;
}

/* One member of an archive; `change` damages it. */
struct archive_change {
    int method, flags;
    uint64_t size;     /* added to the true one */
    uint64_t checksum; /* likewise */
    uint64_t entries;
    uint64_t offset;
    uint64_t comment; /* length of what is not there: the entry reaches behind the directory */
    size_t cut;       /* bytes missing at the end */
    bool twice;
};

static struct bytes archive(const struct bytes *content, const char *name, struct archive_change change) {
    struct bytes made = {0}, packed = *content;
    const uint64_t checksum = crc32(0, content->data, (uInt)content->size) + change.checksum;
    if (change.method == 8) {
        z_stream stream = {0};
        assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (Bytef *)(uintptr_t)content->data;
        stream.avail_in = (uInt)content->size;
        stream.next_out = packed.data;
        stream.avail_out = sizeof packed.data;
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        packed.size = stream.total_out;
        deflateEnd(&stream);
    }
    put(&made, 0x04034b50, 4);
    put(&made, 0, 22);
    put(&made, strlen(name), 2);
    put(&made, 0, 2);
    put_text(&made, name, strlen(name));
    put_text(&made, (char *)packed.data, packed.size);
    const size_t directory = made.size;
    for (int i = 0; i < 1 + change.twice; i++) {
        put(&made, 0x02014b50, 4);
        put(&made, 20, 4);
        put(&made, (uint64_t)change.flags, 2);
        put(&made, (uint64_t)change.method, 2);
        put(&made, 0, 4);
        put(&made, checksum, 4);
        put(&made, packed.size, 4);
        put(&made, content->size + change.size, 4);
        put(&made, strlen(name), 2);
        put(&made, 0, 2);
        put(&made, change.comment, 2);
        put(&made, 0, 8);
        put(&made, change.offset, 4);
        put(&made, 0, 0);
        put_text(&made, name, strlen(name));
    }
    const size_t end = made.size;
    put(&made, 0x06054b50, 4);
    put(&made, 0, 4);
    put(&made, 1u + change.twice + change.entries, 2);
    put(&made, 1u + change.twice + change.entries, 2);
    put(&made, end - directory, 4);
    put(&made, directory, 4);
    put(&made, 0, 2);
    made.size -= change.cut;
    return made;
}

static enum ps_status try_file(const char *name, const struct bytes *bytes, const char *array_name) {
    test_file_write(in_directory(name), bytes->data, bytes->size);
    struct npz *file;
    struct array array;
    enum ps_status status = npz_open(in_directory(name), &file, &test_error);
    if (status != PS_OK) return status;
    status = npz_get(file, array_name, &array, &test_error);
    npz_close(file);
    return status;
}

/* ------------------------------------------------------------------- tests */

static const float floats[] = {1.5f, -2, 3e30f, 0, 1e-40f, 7};
static const int64_t integers[] = {-5, 0, 1000000};
static const double number = 0.1;

static void what_is_written_is_read(void **state) {
    (void)state;
    const struct array arrays[] = {{"a/b.weight", ARRAY_F32, 2, {2, 3}, floats},
                                   {"labels", ARRAY_I64, 1, {3}, integers},
                                   {"loss", ARRAY_F64, 0, {0}, &number},
                                   {"none", ARRAY_U8, 2, {4, 0}, ""}};
    assert_ok(npz_write(in_directory("w.npz"), arrays, 4, &test_error));
    struct npz *file;
    assert_ok(npz_open(in_directory("w.npz"), &file, &test_error));
    assert_int_equal(npz_count(file), 4);
    for (int i = 0; i < 4; i++) {
        struct array read;
        assert_string_equal(npz_name(file, i), arrays[i].name);
        assert_ok(npz_get(file, arrays[i].name, &read, &test_error));
        assert_int_equal(read.type, arrays[i].type);
        assert_int_equal(read.rank, arrays[i].rank);
        assert_memory_equal(read.shape, arrays[i].shape, (size_t)read.rank * sizeof *read.shape);
        assert_int_equal((uintptr_t)read.data % 64, 0);
        assert_memory_equal(read.data, arrays[i].data, (size_t)array_elements(&read) * array_types[read.type].bytes);
    }
    assert_false(npz_has(file, "b"));
    struct array read;
    assert_status(npz_get(file, "label", &read, &test_error), PS_BAD_INPUT, "did you mean 'labels'?");
    npz_close(file);
}

static void every_type_becomes_floats_and_integers(void **state) {
    (void)state;
    static const struct {
        enum array_type type;
        uint64_t bits;
        double value;
    } cases[] = {{ARRAY_F32, 0x40400000, 3},
                 {ARRAY_F64, 0x4008000000000000, 3},
                 {ARRAY_F16, 0x4200, 3},
                 {ARRAY_F16, 0xbc00, -1},
                 {ARRAY_F16, 0x0001, 1.0 / 16777216},
                 {ARRAY_F16, 0xfc00, -INFINITY},
                 {ARRAY_BF16, 0x4040, 3},
                 {ARRAY_I64, (uint64_t)-3, -3},
                 {ARRAY_I32, (uint32_t)-3, -3},
                 {ARRAY_I16, (uint16_t)-3, -3},
                 {ARRAY_I8, (uint8_t)-3, -3},
                 {ARRAY_U64, 3, 3},
                 {ARRAY_U32, 0xffffffff, 4294967295.0},
                 {ARRAY_U16, 0xffff, 65535},
                 {ARRAY_U8, 0xff, 255},
                 {ARRAY_BOOL, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct array array = {"x", cases[i].type, 1, {1}, &cases[i].bits};
        float as_float;
        double as_double;
        int32_t whole;
        array_floats(&array, 0, 1, &as_float);
        array_doubles(&array, 0, 1, &as_double);
        assert_true(as_double == cases[i].value && as_float == (float)cases[i].value);
        if (cases[i].value == floor(cases[i].value) && fabs(cases[i].value) < 1e6) {
            assert_ok(array_integers(&array, 0, 1, &whole, &test_error));
            assert_int_equal(whole, (int)cases[i].value);
        } else {
            assert_status(array_integers(&array, 0, 1, &whole, &test_error), PS_BAD_INPUT, "array 'x': element 0 is");
        }
    }
}

static void deflated_arrays_are_unpacked(void **state) {
    (void)state;
    const struct bytes content = npy("{'shape': (2,3), \"fortran_order\":False,'descr':'<f4'}\n", floats, sizeof floats);
    const struct bytes made = archive(&content, "x.npy", (struct archive_change){.method = 8});
    test_file_write(in_directory("d.npz"), made.data, made.size);
    struct npz *file;
    struct array array;
    assert_ok(npz_open(in_directory("d.npz"), &file, &test_error));
    for (int again = 0; again < 2; again++) {
        assert_ok(npz_get(file, "x", &array, &test_error));
        assert_memory_equal(array.data, floats, sizeof floats);
    }
    npz_close(file);
}

static void a_single_array_is_a_file(void **state) {
    (void)state;
    const struct bytes made = npy("{'descr': '<i8', 'fortran_order': True, 'shape': (3,), }", integers, sizeof integers);
    test_file_write(in_directory("ids.npy"), made.data, made.size);
    struct npz *file;
    struct array array;
    int32_t values[3];
    assert_ok(npz_open(in_directory("ids.npy"), &file, &test_error));
    assert_int_equal(npz_count(file), 1);
    assert_string_equal(npz_name(file, 0), "ids");
    assert_ok(npz_get(file, "ids", &array, &test_error));
    assert_ok(array_integers(&array, 0, 3, values, &test_error));
    for (int i = 0; i < 3; i++) assert_int_equal(values[i], integers[i]);
    npz_close(file);
}

/* The first dimension innermost: element (i, j, k) of 2 x 3 x 1 lies at i + 2 j. */
static void fortran_order_is_turned(void **state) {
    (void)state;
    const struct bytes made = npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 1)}", floats, sizeof floats);
    test_file_write(in_directory("f.npy"), made.data, made.size);
    struct npz *file;
    struct array array;
    float values[6];
    assert_ok(npz_open(in_directory("f.npy"), &file, &test_error));
    for (int again = 0; again < 2; again++) {
        assert_ok(npz_get(file, "f", &array, &test_error));
        array_floats(&array, 0, 6, values);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 3; j++) assert_true(values[3 * i + j] == floats[i + 2 * j]);
    }
    npz_close(file);
}

/* From version 2 on the header's length takes four bytes. */
static void every_version_is_read(void **state) {
    (void)state;
    static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}";
    for (int version = 0; version <= 4; version++) {
        struct bytes made = {0};
        put_text(&made, "\x93NUMPY", 6);
        put(&made, (uint64_t)version, 2);
        put(&made, strlen(header), version < 2 ? 2 : 4);
        put_text(&made, header, strlen(header));
        put_text(&made, (const char *)floats, sizeof floats);
        test_file_write(in_directory("v.npy"), made.data, made.size);
        struct npz *file;
        struct array array;
        float values[6];
        assert_ok(npz_open(in_directory("v.npy"), &file, &test_error));
        const enum ps_status status = npz_get(file, "v", &array, &test_error);
        if (version >= 1 && version <= 3) {
            assert_ok(status);
            assert_int_equal(array_elements(&array), 6);
            array_floats(&array, 0, 6, values);
            assert_memory_equal(values, floats, sizeof values);
        } else {
            assert_status(status, PS_BAD_INPUT, "its .npy version is not 1, 2 or 3");
        }
        npz_close(file);
    }
}

static void damaged_headers_are_named(void **state) {
    (void)state;
    static const struct {
        const char *header, *expected;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}", "size does not fit its shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999999999, 999999999999999999)}", "does not fit"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999,)}", "header is damaged"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,2,3)}", "header is damaged"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 4)}", "size does not fit its shape"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", "elements of '>f4'"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "elements of '<c8'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "header is damaged"},
        {"{'descr': '<f4', 'fortran_order': False}", "header is damaged"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "header is damaged"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,", "header is damaged"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': True}", "header is damaged"},
        {"{'more': True, 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "header is damaged"},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (6,)}", "header is damaged"},
        {"{'fortran_order': False, 'shape': (6,)}", "header is damaged"},
        {"{'descr': '<f4', 'shape': (6,)}", "header is damaged"},
        {"", "header is damaged"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct bytes made = npy(cases[i].header, floats, sizeof floats);
        assert_status(try_file("x.npy", &made, "x"), PS_BAD_INPUT, cases[i].expected);
    }
    /* As many dimensions as there may be. */
    struct bytes made = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,2,3)}", floats, sizeof floats);
    assert_ok(try_file("x.npy", &made, "x"));
    made = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", floats, sizeof floats);
    made.data[6] = 9;
    assert_status(try_file("x.npy", &made, "x"), PS_BAD_INPUT, "version is not 1, 2 or 3");
    made.size = 11;
    made.data[6] = 1;
    assert_status(try_file("x.npy", &made, "x"), PS_BAD_INPUT, "header is damaged");
}

static void damaged_archives_are_named(void **state) {
    (void)state;
    const struct bytes content = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", floats, sizeof floats);
    static const struct {
        struct archive_change change;
        const char *expected;
    } cases[] = {
        {{.method = 12}, "compressed by method 12"},
        {{.flags = 1}, "encrypted"},
        {{.method = 8, .size = 1}, "compressed data are damaged"},
        {{.method = 8, .size = 4000000000}, "size is not possible"},
        {{.method = 8, .checksum = 1}, "compressed data are damaged"},
        {{.size = 1}, "entry is damaged"},
        {{.entries = 1}, "directory lies outside"},
        {{.offset = 1}, "not where the archive's directory says"},
        {{.offset = 100000}, "not where the archive's directory says"},
        {{.comment = 1}, "directory is damaged"},
        {{.cut = 3}, "neither an .npz file nor an .npy file"},
        {{.twice = true}, "there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct bytes made = archive(&content, "x.npy", cases[i].change);
        assert_status(try_file("x.npz", &made, "x"), PS_BAD_INPUT, cases[i].expected);
    }
    assert_status(try_file("x.npz", &(struct bytes){.size = 0}, "x"), PS_BAD_INPUT, "neither");
    struct npz *file;
    assert_status(npz_open(test_directory, &file, &test_error), PS_BAD_INPUT, "not a regular file");
    assert_status(npz_open(in_directory("absent"), &file, &test_error), PS_BAD_INPUT, "cannot open");
}

/* An archive may end with a comment, in which there may be anything but the mark of its end. */
static void comments_are_passed_over(void **state) {
    (void)state;
    enum { MOST = 65535 };
    const struct bytes content = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", floats, sizeof floats);
    const struct bytes made = archive(&content, "x.npy", (struct archive_change){.method = 8});
    for (int more = 0; more < 2; more++) {
        char *bytes = calloc(1, made.size + MOST + 1);
        struct npz *file;
        struct array array;
        assert_non_null(bytes);
        memcpy(bytes, made.data, made.size);
        memset(bytes + made.size, 'P', MOST + (size_t)more);
        test_file_write(in_directory("c.npz"), bytes, made.size + MOST + (size_t)more);
        free(bytes);
        if (more) {
            assert_status(npz_open(in_directory("c.npz"), &file, &test_error), PS_BAD_INPUT, "neither an .npz file nor");
            continue;
        }
        assert_ok(npz_open(in_directory("c.npz"), &file, &test_error));
        assert_ok(npz_get(file, "x", &array, &test_error));
        assert_memory_equal(array.data, floats, sizeof floats);
        npz_close(file);
    }
}

static void add_to(unsigned char *field, size_t more) {
    for (int i = 0; i < 4; i++, more >>= 8) {
        more += field[i];
        field[i] = (unsigned char)more;
    }
}

/* Sizes of 64 bits stand in extra fields, whose lengths must fit; other fields before them are passed over. */
static void extra_fields_are_read(void **state) {
    (void)state;
    const struct array array = {"x", ARRAY_F32, 1, {6}, floats};
    struct bytes made = {0}, damaged;
    char *written;
    size_t size;
    assert_ok(npz_write(in_directory("e.npz"), &array, 1, &test_error));
    assert_ok(file_read(in_directory("e.npz"), sizeof made.data, &written, &size, &test_error));
    put_text(&made, written, size);
    free(written);
    size_t entry = 0;
    while (memcmp(made.data + entry, "PK\x01\x02", 4) != 0) entry++;
    const size_t length = entry + 46 + strlen("x.npy") + 2; /* of the extra field, behind its number */
    assert_int_equal(made.data[length], 24);
    assert_int_equal(made.data[length - 2], 1);
    assert_ok(try_file("x.npz", &made, "x"));
    for (unsigned char wrong = 0; wrong <= 25; wrong++) {
        damaged = made;
        damaged.data[length] = wrong;
        if (wrong != 24) assert_status(try_file("x.npz", &damaged, "x"), PS_BAD_INPUT, "array 'x': its entry is damaged");
    }
    damaged = made;
    damaged.data[length - 2] = 2; /* of another kind: the sizes stay unknown */
    assert_status(try_file("x.npz", &damaged, "x"), PS_BAD_INPUT, "array 'x': it is not where");
    /* Others before it and behind it. */
    static const unsigned char stamp[] = {0x55, 0x54, 5, 0, 1, 1, 2, 3, 4};
    for (int before = 0; before < 3; before++) {
        const size_t at = length - 2, old = made.data[length] + 4u, added = 2 * sizeof stamp;
        damaged = made;
        memmove(damaged.data + at + old + added, made.data + at + old, made.size - at - old);
        for (int other = 0; other < 2; other++)
            memcpy(damaged.data + at + (size_t)other * sizeof stamp + (other < before ? 0 : old), stamp, sizeof stamp);
        memcpy(damaged.data + at + (size_t)before * sizeof stamp, made.data + at, old);
        damaged.data[entry + 30] = (unsigned char)(old + added);
        damaged.size += added;
        for (size_t i = entry; i < damaged.size; i++) {
            if (memcmp(damaged.data + i, "PK\x06\x06", 4) == 0)
                add_to(damaged.data + i + 40, added); /* the directory's length */
            if (memcmp(damaged.data + i, "PK\x06\x07", 4) == 0) add_to(damaged.data + i + 8, added); /* where that stands */
            if (memcmp(damaged.data + i, "PK\x05\x06", 4) == 0) add_to(damaged.data + i + 12, added);
        }
        assert_ok(try_file("x.npz", &damaged, "x"));
    }
}

/* Every cut and every changed byte of an archive: read or refused, never more. */
static void no_damage_does_harm(void **state) {
    (void)state;
    const struct bytes content = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", floats, sizeof floats);
    for (int method = 0; method <= 8; method += 8) {
        const struct bytes made = archive(&content, "x.npy", (struct archive_change){.method = method});
        for (size_t at = 0; at < made.size; at++) {
            struct bytes damaged = made;
            damaged.data[at] ^= 0x81;
            (void)try_file("x.npz", &damaged, "x");
            damaged = made;
            damaged.size = at;
            (void)try_file("x.npz", &damaged, "x");
            test_error = (struct ps_error){0};
        }
    }
}

static void files_of_numpy_are_read(void **state) {
    (void)state;
    char path[4096];
    struct npz *file;
    struct array array;
    double loss, output[20];
    int32_t labels[2];
    assert_ok(npz_open(test_data("onnx/mlp.npz", path), &file, &test_error));
    assert_ok(npz_get(file, "loss", &array, &test_error));
    array_doubles(&array, 0, 1, &loss);
    assert_ok(npz_get(file, "output", &array, &test_error));
    assert_int_equal(array_elements(&array), 20);
    array_doubles(&array, 0, 20, output);
    assert_ok(npz_get(file, "labels", &array, &test_error));
    assert_ok(array_integers(&array, 0, 2, labels, &test_error));
    double mean = 0;
    for (int n = 0; n < 2; n++) {
        double sum = 0;
        for (int d = 0; d < 10; d++) sum += exp(output[10 * n + d]);
        mean += (log(sum) - output[10 * n + labels[n]]) / 2;
    }
    assert_true(fabs(mean - loss) < 1e-12);
    npz_close(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),      cmocka_unit_test(every_type_becomes_floats_and_integers),
        cmocka_unit_test(deflated_arrays_are_unpacked), cmocka_unit_test(a_single_array_is_a_file),
        cmocka_unit_test(every_version_is_read),        cmocka_unit_test(fortran_order_is_turned),
        cmocka_unit_test(damaged_headers_are_named),    cmocka_unit_test(damaged_archives_are_named),
        cmocka_unit_test(no_damage_does_harm),          cmocka_unit_test(files_of_numpy_are_read),
        cmocka_unit_test(comments_are_passed_over),     cmocka_unit_test(extra_fields_are_read),
    };
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
