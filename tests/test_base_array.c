/* Arrays of any type at any address, as the numbers that they are: all halves, the ends of every whole type, what i32 can hold.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/number_type.h"
#include "support.h"

/* By the definition: sign, exponent and fraction, with the smallest step as the unit. */
static double half(uint32_t bits) {
    const int exponent = (int)(bits / 1024 % 32);
    double value = bits % 1024 + (exponent > 0 ? 1024 : 0);
    for (int e = 1; e < exponent; e++) value *= 2;
    value = exponent < 31 ? value / 16777216.0 : bits % 1024 == 0 ? HUGE_VAL : NAN;
    return bits >= 32768 ? -value : value;
}

static bool same(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

static void all_numbers_of_16_bits(void **state) {
    (void)state;
    enum { ALL = 1 << 16 };
    static uint16_t bits[ALL];
    static float floats[ALL];
    static double doubles[ALL];
    for (int n = 0; n < ALL; n++) bits[n] = (uint16_t)n;
    for (int narrow = 0; narrow < 2; narrow++) {
        const struct array array = {
            .name = "a", .type = narrow ? ARRAY_BF16 : ARRAY_F16, .rank = 1, .shape = {ALL}, .data = bits};
        array_floats(&array, 0, ALL, floats);
        array_doubles(&array, 0, ALL, doubles);
        for (int n = 0; n < ALL; n++) {
            const double wanted = narrow ? (double)bf16_value(bits[n]) : half((uint32_t)n);
            assert_true(same(doubles[n], wanted) && same((double)floats[n], wanted));
        }
    }
}

/* Three elements of a type, behind one byte: no type is aligned. `names` are its numpy and its safetensors name. */
struct typed {
    enum array_type type;
    const char *names[3];
    size_t bytes;
    bool whole;
    unsigned char data[1 + 3 * 8];
    double wanted[3];
};

#define ELEMENTS(TYPE, a, b, c) fill(&cases[made++], (const TYPE[]){a, b, c}, sizeof(TYPE), (const double[]){a, b, c})

static struct typed cases[ARRAY_TYPE_COUNT];

static void fill(struct typed *typed, const void *elements, size_t bytes, const double wanted[3]) {
    memcpy(typed->data + 1, elements, 3 * bytes);
    memcpy(typed->wanted, wanted, 3 * sizeof *wanted);
    typed->bytes = bytes;
}

static void make_cases(void) {
    static const char *const names[ARRAY_TYPE_COUNT][3] = {
        {"f32", "f4", "F32"},   {"f64", "f8", "F64"}, {"i64", "i8", "I64"},  {"i32", "i4", "I32"}, {"i16", "i2", "I16"},
        {"i8", "i1", "I8"},     {"u64", "u8", "U64"}, {"u32", "u4", "U32"},  {"u16", "u2", "U16"}, {"u8", "u1", "U8"},
        {"bool", "b1", "BOOL"}, {"f16", "f2", "F16"}, {"bf16", NULL, "BF16"}};
    static const enum array_type types[ARRAY_TYPE_COUNT] = {ARRAY_F32,  ARRAY_F64, ARRAY_I64, ARRAY_I32, ARRAY_I16,
                                                            ARRAY_I8,   ARRAY_U64, ARRAY_U32, ARRAY_U16, ARRAY_U8,
                                                            ARRAY_BOOL, ARRAY_F16, ARRAY_BF16};
    int made = 0;
    ELEMENTS(float, 0.1f, -3, 1e30f);
    ELEMENTS(double, 0.1, -3, 1e300);
    ELEMENTS(int64_t, -1, (int64_t)1 << 40, INT64_MIN);
    ELEMENTS(int32_t, -1, INT32_MAX, INT32_MIN);
    ELEMENTS(int16_t, -1, INT16_MAX, INT16_MIN);
    ELEMENTS(int8_t, -1, INT8_MAX, INT8_MIN);
    ELEMENTS(uint64_t, 1, (uint64_t)1 << 63, 3);
    ELEMENTS(uint32_t, 1, UINT32_MAX, 3);
    ELEMENTS(uint16_t, 1, UINT16_MAX, 3);
    ELEMENTS(uint8_t, 1, UINT8_MAX, 3);
    fill(&cases[made++], (const uint8_t[]){0, 1, 200}, 1, (const double[]){0, 1, 1});
    fill(&cases[made++], (const uint16_t[]){0x3c00, 0xc100, 1}, 2, (const double[]){1, -2.5, 0x1p-24});
    fill(&cases[made++], (const uint16_t[]){0x3f80, 0xc020, 1}, 2, (const double[]){1, -2.5, 0x1p-133});
    assert_int_equal(made, ARRAY_TYPE_COUNT);
    for (int t = 0; t < ARRAY_TYPE_COUNT; t++) {
        cases[t].type = types[t];
        cases[t].whole = t >= 2 && t <= 10;
        memcpy(cases[t].names, names[t], sizeof names[t]);
    }
}

static void every_type(void **state) {
    (void)state;
    make_cases();
    for (int t = 0; t < ARRAY_TYPE_COUNT; t++) {
        const struct typed *typed = &cases[t];
        const struct array_type_traits *traits = &array_types[typed->type];
        assert_string_equal(traits->name, typed->names[0]);
        assert_true(traits->numpy == typed->names[1] || strcmp(traits->numpy, typed->names[1]) == 0);
        assert_string_equal(traits->safetensors, typed->names[2]);
        assert_int_equal(traits->bytes, typed->bytes);
        assert_int_equal(traits->whole, typed->whole);
        const struct array array = {.name = "a", .type = typed->type, .rank = 1, .shape = {3}, .data = typed->data + 1};
        assert_int_equal(array_bytes(&array), 3 * typed->bytes);
        for (int first = 0; first < 3; first++) {
            float floats[4] = {7, 7, 7, 7};
            double doubles[4] = {7, 7, 7, 7};
            array_floats(&array, first, 3 - first, floats);
            array_doubles(&array, first, 3 - first, doubles);
            for (int i = first; i < 3; i++) {
                assert_true(doubles[i - first] == typed->wanted[i]);
                assert_true(floats[i - first] == (float)typed->wanted[i]);
            }
            for (int i = 3 - first; i < 4; i++) assert_true(floats[i] == 7 && doubles[i] == 7);
        }
    }
}

static void sides(void **state) {
    (void)state;
    char text[ARRAY_RANK_MAX * 21];
    const struct array scalar = {.type = ARRAY_F64}, matrix = {.type = ARRAY_I16, .rank = 2, .shape = {3, 5}},
                       empty = {.type = ARRAY_F32, .rank = 3, .shape = {INT64_MAX, 0, INT64_MAX}},
                       large = {.type = ARRAY_F32, .rank = 2, .shape = {(int64_t)1 << 31, (int64_t)1 << 31}},
                       full = {
                           .type = ARRAY_U8,
                           .rank = 8,
                           .shape = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
    assert_int_equal(array_elements(&scalar), 1);
    assert_int_equal(array_bytes(&scalar), 8);
    assert_string_equal(array_shape_text(&scalar, text), "a number");
    assert_int_equal(array_elements(&matrix), 15);
    assert_int_equal(array_bytes(&matrix), 30);
    assert_string_equal(array_shape_text(&matrix, text), "3x5");
    assert_int_equal(array_elements(&empty), 0);
    assert_int_equal(array_bytes(&empty), 0);
    assert_true(array_bytes(&large) == SIZE_MAX);
    assert_true(array_bytes(&full) == SIZE_MAX);
    assert_int_equal(strlen(array_shape_text(&full, text)), 8 * 19 + 7);
}

/* Pieces of 256 numbers: those at their ends, and the first that is wrong anywhere. */
static void integers(void **state) {
    (void)state;
    enum { COUNT = 600 };
    static double numbers[COUNT];
    static int32_t values[COUNT + 1];
    static const double wrong[] = {0.5, -0.5, 2147483648.0, -2147483649.0, HUGE_VAL, NAN};
    static const int places[] = {0, 1, 255, 256, 257, 511, 512, 599};
    for (int i = 0; i < COUNT; i++) numbers[i] = i * 7 - 1000;
    numbers[3] = INT32_MAX;
    numbers[4] = INT32_MIN;
    const struct array array = {.name = "labels", .type = ARRAY_F64, .rank = 1, .shape = {COUNT}, .data = numbers};
    values[COUNT] = 77;
    assert_ok(array_integers(&array, 0, COUNT, values, &test_error));
    for (int i = 0; i < COUNT; i++) assert_true(values[i] == numbers[i]);
    assert_int_equal(values[COUNT], 77);
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++)
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            const double before = numbers[places[p]];
            char said[64];
            numbers[places[p]] = wrong[w];
            snprintf(said, sizeof said, "array 'labels': element %d is %g; whole", places[p], wrong[w]);
            assert_status(array_integers(&array, 0, COUNT, values, &test_error), PS_BAD_INPUT, said);
            numbers[places[p]] = before;
        }
    const int32_t plain[] = {5, -6, 7};
    const struct array own = {.name = "own", .type = ARRAY_I32, .rank = 1, .shape = {3}, .data = plain};
    values[2] = 77;
    assert_ok(array_integers(&own, 1, 2, values, &test_error));
    assert_int_equal(values[0], -6);
    assert_int_equal(values[1], 7);
    assert_int_equal(values[2], 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_numbers_of_16_bits),
        cmocka_unit_test(every_type),
        cmocka_unit_test(sides),
        cmocka_unit_test(integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
