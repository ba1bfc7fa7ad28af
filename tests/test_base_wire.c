/* Wire codecs against their definitions in plain C, on random numbers of every kind, and the walk over runs and types. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/wire.h"

enum { NUMBERS = 3 * WIRE_GROUP + 77 };

static const struct wire all[] = {{.codec = WIRE_BF16},
                                  {.codec = WIRE_INT8},
                                  {WIRE_TOPK, .share = 0.05},
                                  {WIRE_TOPK, .share = 0.25},
                                  {WIRE_TOPK, .share = 1}};
enum { ALL = sizeof all / sizeof *all };

/* Numbers of many magnitudes; some are 0, some equal. */
static void fill(float *numbers, size_t count, uint64_t seed) {
    struct random_key key = random_key(seed, RANDOM_SYNTHETIC, 0, 0);
    for (size_t i = 0; i < count; i++) {
        const float u = 2 * random_uniform(key, 2 * i) - 1;
        const uint64_t kind = random_below(key, 2 * i + 1, 8);
        numbers[i] = kind == 0 ? 0 : kind == 1 ? 0.5f : kind == 2 ? -0.5f : kind == 3 ? u * 1e-20f : u;
    }
}

/* What arrives of a group by the codec's definition. */
static void expect_int8(const float *from, size_t count, float *to) {
    float largest = 0;
    for (size_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(from[i]));
    float scale = largest / 127;
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits -= bits % 128; /* 17 bits are left of 24 */
    memcpy(&scale, &bits, sizeof bits);
    for (size_t i = 0; i < count; i++) {
        const float whole = largest > 0 ? nearbyintf(from[i] * (1 / scale)) : 0;
        to[i] = (whole > 127 ? 127 : whole < -127 ? -127 : whole) * scale + 0.0f; /* not -0 */
    }
}

struct ranked {
    float magnitude;
    size_t at;
};

static int by_rank(const void *a, const void *b) {
    const struct ranked *one = a, *other = b;
    if (one->magnitude != other->magnitude) return one->magnitude > other->magnitude ? -1 : 1;
    return one->at < other->at ? -1 : 1;
}

static void expect_topk(const float *from, size_t count, double share, float *to) {
    struct ranked ranked[WIRE_GROUP];
    const size_t kept = (size_t)ceil(share * (double)count);
    for (size_t i = 0; i < count; i++) ranked[i] = (struct ranked){fabsf(from[i]), i};
    qsort(ranked, count, sizeof *ranked, by_rank);
    for (size_t i = 0; i < count; i++) to[i] = 0;
    for (size_t k = 0; k < kept; k++) to[ranked[k].at] = bf16_value(bf16_of(from[ranked[k].at]));
}

static void expect_group(const struct wire *wire, const float *from, size_t count, float *to) {
    if (wire->codec == WIRE_INT8) {
        expect_int8(from, count, to);
    } else if (wire->codec == WIRE_TOPK) {
        expect_topk(from, count, wire->share, to);
    } else {
        for (size_t i = 0; i < count; i++) to[i] = bf16_value(bf16_of(from[i]));
    }
}

static void codecs_follow_their_definitions(void **state) {
    float from[NUMBERS], to[NUMBERS], expected[NUMBERS];
    unsigned char encoded[4 * NUMBERS + 256];
    (void)state;
    for (int c = 0; c < ALL; c++)
        for (uint64_t seed = 0; seed < 8; seed++) {
            const struct wire_run run = {0, NUMBERS, TYPE_F32};
            fill(from, NUMBERS, seed);
            wire_encode(&all[c], &run, 1, from, NULL, encoded);
            wire_decode(&all[c], &run, 1, encoded, to);
            for (size_t at = 0; at < NUMBERS; at += WIRE_GROUP)
                expect_group(&all[c], from + at, NUMBERS - at < WIRE_GROUP ? NUMBERS - at : WIRE_GROUP, expected + at);
            for (size_t i = 0; i < NUMBERS; i++)
                if (to[i] != expected[i])
                    fail_msg("codec %d, seed %d, number %zu: %.9g, expected %.9g", c, (int)seed, i, (double)to[i],
                             (double)expected[i]);
        }
}

static void without_a_codec_numbers_stay_as_they_are(void **state) {
    (void)state;
    const struct wire none = {.codec = WIRE_NONE};
    const struct wire_run run = {0, NUMBERS, TYPE_F32};
    float from[NUMBERS], sent[NUMBERS + 1] = {0}, to[NUMBERS];
    fill(from, NUMBERS, 1);
    wire_encode(&none, &run, 1, from, NULL, sent);
    assert_memory_equal(sent, from, sizeof from);
    assert_true(sent[NUMBERS] == 0);
    wire_decode(&none, &run, 1, sent, to);
    assert_memory_equal(to, from, sizeof from);
}

static void sizes_are_as_documented(void **state) {
    static const struct {
        struct wire wire;
        int64_t numbers, tokens, bytes, feedback;
    } cases[] = {
        {{.codec = WIRE_NONE}, 1000, 3, 0, 0},
        {{.codec = WIRE_BF16}, 1024, 0, 2048, 0},
        {{.codec = WIRE_BF16}, 33, 0, 128, 0},
        {{.codec = WIRE_INT8}, 256, 0, 320, 0},        /* 4 + 256 */
        {{.codec = WIRE_INT8}, 16 * 256, 0, 4160, 0},  /* 16 * (4 + 256) */
        {{.codec = WIRE_INT8}, 16 * 256, 16, 4224, 0}, /* and 64 of tokens */
        {{WIRE_TOPK, .share = 0.125}, 2560, 0, 960, 10240},
        {{WIRE_TOPK, .share = 1e-6}, 256, 0, 64, 1024}, /* at least one: 3 */
        {{WIRE_TOPK, .share = 1e-50}, 256, 0, 64, 1024},
    };
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct wire_numbers numbers = {{[TYPE_F32] = cases[c].numbers, [TYPE_I32] = cases[c].tokens}};
        assert_int_equal(wire_bytes(&cases[c].wire, &numbers), cases[c].bytes);
        assert_int_equal(wire_feedback_bytes(&cases[c].wire, &numbers), cases[c].feedback);
    }
}

/* Of groups of every length as many numbers are sent as the decimal share says, rounded up. */
static void shares_are_decimal(void **state) {
    (void)state;
    for (int thousandths = 1; thousandths <= 1000; thousandths++) {
        struct wire wire;
        char name[32];
        snprintf(name, sizeof name, "topk:%d.%03d", thousandths / 1000, thousandths % 1000);
        assert_ok(wire_parse(name, "wire", &wire, &test_error));
        for (int count = 1; count <= WIRE_GROUP; count++)
            if (wire_codecs[WIRE_TOPK].bytes(&wire, (size_t)count) != (size_t)(3 * ((thousandths * count + 999) / 1000)))
                fail_msg("%s of %d", name, count);
    }
}

/* Values of several types, apart from each other and cut anywhere, arrive as if the numbers stood one after the other; tokens
 * arrive as they are, and what lies between the values is not touched. */
static void runs_may_have_any_length_and_type(void **state) {
    const struct wire_run runs[] = {{0, 100, TYPE_F32}, {448, 40, TYPE_I32}, {640, 300, TYPE_BF16}, {1280, 50, TYPE_F32}};
    enum { BYTES = 1536, ENCODED = 450 };
    (void)state;
    for (int c = 0; c < ALL; c++) {
        unsigned char block[BYTES], out[BYTES], encoded[4096];
        float numbers[ENCODED], expected[ENCODED];
        fill(numbers, ENCODED, 7);
        memset(block, 0x55, sizeof block);
        memset(out, 0x55, sizeof out);
        memcpy(block, numbers, 100 * sizeof(float));
        numbers_convert(300, TYPE_BF16, block + 640, TYPE_F32, numbers + 100);
        numbers_convert(300, TYPE_F32, numbers + 100, TYPE_BF16, block + 640);
        memcpy(block + 1280, numbers + 400, 50 * sizeof(float));
        for (int i = 0; i < 40; i++) memcpy(block + 448 + 4 * i, &i, sizeof i);
        const struct wire_numbers count = wire_count(runs, 4);
        memset(encoded, 0x33, sizeof encoded);
        wire_encode(&all[c], runs, 4, block, NULL, encoded);
        for (size_t i = (size_t)wire_bytes(&all[c], &count); i < sizeof encoded; i++) assert_int_equal(encoded[i], 0x33);
        wire_decode(&all[c], runs, 4, encoded, out);
        expect_group(&all[c], numbers, WIRE_GROUP, expected);
        expect_group(&all[c], numbers + WIRE_GROUP, ENCODED - WIRE_GROUP, expected + WIRE_GROUP);
        memcpy(block, expected, 100 * sizeof(float));
        numbers_convert(300, TYPE_BF16, block + 640, TYPE_F32, expected + 100);
        memcpy(block + 1280, expected + 400, 50 * sizeof(float));
        assert_memory_equal(out, block, BYTES);
    }
}

/* What is rounded in place is what would arrive, with and without feedback; and it stays so when it is sent as well, of
 * whatever magnitude the numbers are. */
static void rounding_is_what_arrives(void **state) {
    const struct wire_run run = {0, NUMBERS, TYPE_F32};
    float from[NUMBERS], to[NUMBERS], again[NUMBERS], feedback[2][NUMBERS];
    unsigned char encoded[4 * NUMBERS + 256];
    (void)state;
    for (int c = 0; c < ALL; c++)
        for (uint64_t seed = 0; seed < 64; seed++) {
            fill(from, NUMBERS, seed);
            for (size_t i = 0; i < NUMBERS; i++) from[i] = ldexpf(from[i], 5 * ((int)seed - 32) + (int)(i / WIRE_GROUP));
            fill(feedback[0], NUMBERS, seed + 1);
            memcpy(feedback[1], feedback[0], sizeof feedback[0]);
            float *const kept = seed % 2 ? feedback[0] : NULL;
            wire_encode(&all[c], &run, 1, from, kept, encoded);
            wire_decode(&all[c], &run, 1, encoded, to);
            wire_round(&all[c], &run, 1, from, kept ? feedback[1] : NULL);
            assert_memory_equal(from, to, sizeof to);
            assert_memory_equal(feedback[0], feedback[1], sizeof feedback[0]);
            wire_encode(&all[c], &run, 1, to, NULL, encoded);
            wire_decode(&all[c], &run, 1, encoded, again);
            assert_memory_equal(again, to, sizeof to);
        }
}

/* Of the sum of what replicas bring nothing is left out, with as many numbers as all of them bring, also in a short last group;
 * else it is rounded alone. */
static void sums_have_room_for_all(void **state) {
    const struct wire topk = {WIRE_TOPK, .share = 0.05}, int8 = {.codec = WIRE_INT8};
    static const size_t counts[] = {WIRE_GROUP, WIRE_GROUP + 5, 50, 5, 1};
    float share[WIRE_GROUP + 5], sum[WIRE_GROUP + 5], rounded[WIRE_GROUP + 5];
    (void)state;
    for (int replicas = 2; replicas < 9; replicas++) {
        const struct sum_wire of = wire_of_sum(&topk, replicas);
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            const struct wire_run run = {0, counts[c], TYPE_F32};
            memset(sum, 0, sizeof sum);
            for (int r = 0; r < replicas; r++) {
                fill(share, counts[c], (uint64_t)r);
                wire_round(&of.share, &run, 1, share, NULL);
                for (size_t i = 0; i < counts[c]; i++) sum[i] += share[i];
            }
            memcpy(rounded, sum, sizeof sum);
            wire_round(&of.sum, &run, 1, rounded, NULL);
            for (size_t i = 0; i < counts[c]; i++) assert_true(rounded[i] == bf16_value(bf16_of(sum[i])));
        }
        assert_int_equal(wire_of_sum(&int8, replicas).sum.codec, WIRE_INT8);
    }
    assert_int_equal(wire_of_sum(&topk, 5).sum.codec, WIRE_TOPK);
    assert_int_equal(wire_of_sum(&topk, 14).sum.codec, WIRE_BF16); /* fewer bytes than numbers with their places */
}

/* Nothing is lost: what arrived, and the feedback that is left, add up to what was sent. Each number has its turn. */
static void feedback_keeps_what_was_not_sent(void **state) {
    const struct wire wire = {WIRE_TOPK, .share = 0.02};
    const struct wire_run run = {0, WIRE_GROUP, TYPE_F32};
    float from[WIRE_GROUP], to[WIRE_GROUP], feedback[WIRE_GROUP] = {0};
    double sent[WIRE_GROUP] = {0}, arrived[WIRE_GROUP] = {0};
    unsigned char encoded[1024];
    (void)state;
    for (uint64_t message = 0; message < 400; message++) {
        fill(from, WIRE_GROUP, 1000 + message);
        for (int i = 0; i < WIRE_GROUP; i++) from[i] = 0.25f + 0.01f * from[i];
        wire_encode(&wire, &run, 1, from, feedback, encoded);
        wire_decode(&wire, &run, 1, encoded, to);
        for (int i = 0; i < WIRE_GROUP; i++) {
            sent[i] += (double)from[i];
            arrived[i] += (double)to[i];
        }
    }
    for (int i = 0; i < WIRE_GROUP; i++) {
        assert_true(arrived[i] > 0.5 * sent[i]);
        assert_true(fabs(sent[i] - arrived[i] - (double)feedback[i]) < 1e-3);
    }
}

/* A number that is not finite is not hidden, wherever it stands. */
static void numbers_that_are_not_finite_arrive(void **state) {
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const struct wire_run run = {0, NUMBERS, TYPE_F32};
    float from[NUMBERS], to[NUMBERS];
    unsigned char encoded[4 * NUMBERS + 256];
    (void)state;
    for (int c = 0; c < ALL; c++)
        for (int b = 0; b < 4; b++)
            for (size_t at = 0; at < NUMBERS; at += 97) {
                fill(from, NUMBERS, at);
                from[at] = bad[b];
                wire_encode(&all[c], &run, 1, from, NULL, encoded);
                wire_decode(&all[c], &run, 1, encoded, to);
                assert_false(isfinite(to[at]));
            }
}

/* Of what cannot be sent, and of what arrives as infinite, nothing is left for the next block. */
static void feedback_is_finite(void **state) {
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, -FLT_MAX};
    const struct wire_run run = {0, NUMBERS, TYPE_F32};
    const struct wire wire = {WIRE_TOPK, .share = 0.1};
    float from[NUMBERS], to[NUMBERS], feedback[NUMBERS];
    unsigned char encoded[4 * NUMBERS + 256];
    (void)state;
    for (int rounds = 0; rounds < 2; rounds++)
        for (int b = 0; b < 5; b++) {
            fill(from, NUMBERS, 7);
            memset(feedback, 0, sizeof feedback);
            from[5] = bad[b];
            if (rounds == 0) {
                wire_encode(&wire, &run, 1, from, feedback, encoded);
                wire_decode(&wire, &run, 1, encoded, to);
            } else {
                memcpy(to, from, sizeof to);
                wire_round(&wire, &run, 1, to, feedback);
            }
            assert_false(isfinite(to[5]));
            assert_true(feedback[5] == 0);
            for (int i = 0; i < NUMBERS; i++) assert_true(isfinite(feedback[i]));
        }
}

static void names_are_read_and_written(void **state) {
    static const char *const good[] = {"none", "bf16", "int8", "topk:0.05", "topk:1", "topk:0.01171875", "topk:1e-50"};
    static const char *const wrong[] = {
        "", "int4", "int8:2", "topk", "topk:", "topk:0", "topk:1.5", "topk:-1", "topk:0.1x", "topk:nan"};
    struct wire wire;
    struct ps_error error;
    char text[32];
    (void)state;
    for (size_t g = 0; g < sizeof good / sizeof *good; g++) {
        assert_int_equal(wire_parse(good[g], "wire", &wire, &error), PS_OK);
        assert_string_equal(wire_text(&wire, text), good[g]);
    }
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        char said[128];
        snprintf(said, sizeof said, "wire: '%s' is not %s", wrong[w],
                 strchr(wrong[w], ':') && wrong[w][0] == 't' ? "of the form topk:SHARE, a share above 0 and at most 1"
                                                             : "none, bf16, int8 or topk:SHARE");
        assert_status(wire_parse(wrong[w], "wire", &wire, &test_error), PS_USAGE, said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codecs_follow_their_definitions),
        cmocka_unit_test(sizes_are_as_documented),
        cmocka_unit_test(shares_are_decimal),
        cmocka_unit_test(without_a_codec_numbers_stay_as_they_are),
        cmocka_unit_test(runs_may_have_any_length_and_type),
        cmocka_unit_test(feedback_keeps_what_was_not_sent),
        cmocka_unit_test(numbers_that_are_not_finite_arrive),
        cmocka_unit_test(feedback_is_finite),
        cmocka_unit_test(names_are_read_and_written),
        cmocka_unit_test(rounding_is_what_arrives),
        cmocka_unit_test(sums_have_room_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
