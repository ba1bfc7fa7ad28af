/* Types of numbers: the conversions between f32 and bf16, over all numbers there are and around the ties. */
#include <math.h>

#include "base/number_type.h"
#include "support.h"
#include "within.h"

enum { ALL = 1 << 16, TIES = 5 };

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* By the definition: which of the two neighbours is nearer, found with exact arithmetic. */
static uint16_t nearest(float value) {
    uint16_t lower = (uint16_t)(bits_of(value) >> 16), upper = (uint16_t)(lower + 1);
    double below = fabs((double)bf16_value(lower)), above = fabs((double)bf16_value(upper)), at = fabs((double)value);
    if (isinf(above)) above = ldexp(1, 128); /* what would come next, were there larger exponents */
    double down = at - below, up = above - at;
    return down < up ? lower : up < down ? upper : lower & 1 ? upper : lower;
}

static void all_numbers_come_back(void **state) {
    (void)state;
    static uint16_t numbers[ALL], back[ALL];
    static float values[ALL];
    for (uint32_t n = 0; n < ALL; n++) numbers[n] = (uint16_t)n;
    numbers_convert(ALL, TYPE_F32, values, TYPE_BF16, numbers);
    numbers_convert(ALL, TYPE_BF16, back, TYPE_F32, values);
    for (uint32_t n = 0; n < ALL; n++) {
        assert_int_equal(bits_of(values[n]), n << 16);
        /* A signalling NaN becomes the quiet one with the same sign and payload. */
        assert_int_equal(back[n], isnan(values[n]) ? n | 0x40 : n);
    }
}

static void what_lies_between_goes_to_the_nearest(void **state) {
    (void)state;
    static const uint32_t rests[TIES] = {0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
    static float values[ALL];
    static uint16_t rounded[ALL];
    for (int r = 0; r < TIES; r++) {
        for (uint32_t n = 0; n < ALL; n++) values[n] = float_of(n << 16 | rests[r]);
        numbers_convert(ALL, TYPE_BF16, rounded, TYPE_F32, values);
        for (uint32_t n = 0; n < ALL; n++) {
            if (isnan(values[n])) {
                assert_true(isnan(bf16_value(rounded[n])));
                assert_int_equal(rounded[n] >> 15, n >> 15);
            } else {
                assert_int_equal(rounded[n], nearest(values[n]));
            }
        }
    }
}

static void any_count_is_converted(void **state) {
    (void)state;
    for (size_t count = 0; count < 70; count++) {
        float values[80];
        uint16_t rounded[80];
        for (size_t i = 0; i < 80; i++) values[i] = (float)i * 1.01f;
        memset(rounded, 0xff, sizeof rounded);
        numbers_convert(count, TYPE_BF16, rounded, TYPE_F32, values);
        for (size_t i = 0; i < 80; i++) assert_int_equal(rounded[i], i < count ? bf16_of(values[i]) : 0xffff);
    }
}

static void sums_are_rounded_to_the_type(void **state) {
    (void)state;
    uint16_t y[3] = {bf16_of(256), bf16_of(1), bf16_of(-3)}, x[3] = {bf16_of(1), bf16_of(2), bf16_of(3)};
    numbers_add(TYPE_BF16, 3, y, x);
    assert_within(bf16_value(y[0]), 256, 0); /* 257 lies between 256 and 258 */
    assert_within(bf16_value(y[1]), 3, 0);
    assert_within(bf16_value(y[2]), 0, 0);
    float a[2] = {256, 0.5f}, b[2] = {1, 0.25f};
    numbers_add(TYPE_F32, 2, a, b);
    assert_within(a[0], 257, 0);
    assert_within(a[1], 0.75f, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_numbers_come_back),
        cmocka_unit_test(what_lies_between_goes_to_the_nearest),
        cmocka_unit_test(any_count_is_converted),
        cmocka_unit_test(sums_are_rounded_to_the_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
