/* See wire.h. Codecs see groups of f32; the walk over runs, types and error feedback is common to all. */
#include "base/wire.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/table.h"
#include "base/vector.h"

/* ---------------------------------------------------------------------- codecs */

/* The magnitude as a number whose order is that of the magnitudes; infinity and then NaN are the largest. */
static inline uint32_t magnitude(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffff;
}

static size_t bytes_none(const struct wire *wire, size_t count) {
    (void)wire;
    return count * sizeof(float);
}

static void encode_none(const struct wire *wire, size_t count, const float *from, unsigned char *to) {
    (void)wire;
    memcpy(to, from, count * sizeof *from);
}

static void decode_none(const struct wire *wire, size_t count, const unsigned char *from, float *to) {
    (void)wire;
    memcpy(to, from, count * sizeof *to);
}

static size_t bytes_bf16(const struct wire *wire, size_t count) {
    (void)wire;
    return count * sizeof(uint16_t);
}

static void encode_bf16(const struct wire *wire, size_t count, const float *from, unsigned char *to) {
    (void)wire;
    numbers_convert(count, TYPE_BF16, to, TYPE_F32, from);
}

static void decode_bf16(const struct wire *wire, size_t count, const unsigned char *from, float *to) {
    (void)wire;
    numbers_convert(count, TYPE_F32, to, TYPE_BF16, from);
}

/* int8: the group's scale, its largest magnitude / 127 cut off to 17 bits, as f32, and each number's multiple of it as a byte:
 * multiples of a scale of 17 bits are exact. The scale of a group with a number that is not finite is NaN, and that of a group
 * below 127 * the smallest normal f32 is 0. */
static size_t bytes_int8(const struct wire *wire, size_t count) {
    (void)wire;
    return sizeof(float) + count;
}

VECTOR_CLONES static uint32_t largest_magnitude(size_t count, const float *from) {
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t own = magnitude(from[i]);
        largest = own > largest ? own : largest;
    }
    return largest;
}

/* Adding and subtracting 1.5 * 2^23 rounds to the nearest whole number, to the even one of two. */
VECTOR_CLONES static void quantize(size_t count, const float *restrict from, float factor, int8_t *restrict to) {
    const float rounder = 12582912.0f;
    for (size_t i = 0; i < count; i++) {
        const float whole = from[i] * factor + rounder - rounder;
        to[i] = (int8_t)(int32_t)(whole > 127 ? 127 : whole < -127 ? -127 : whole);
    }
}

VECTOR_CLONES static void scale_up(size_t count, const int8_t *restrict from, float scale, float *restrict to) {
    for (size_t i = 0; i < count; i++) to[i] = (float)from[i] * scale;
}

static float cut_off(float scale) {
    uint32_t bits;
    memcpy(&bits, &scale, sizeof bits);
    bits &= ~(uint32_t)0x7f;
    memcpy(&scale, &bits, sizeof bits);
    return scale;
}

static void encode_int8(const struct wire *wire, size_t count, const float *from, unsigned char *to) {
    const float least = 127 * 1.17549435e-38f;
    const uint32_t bits = largest_magnitude(count, from);
    float largest, scale = NAN;
    (void)wire;
    memcpy(&largest, &bits, sizeof largest);
    if (isfinite(largest)) scale = largest < least ? 0 : cut_off(largest / 127);
    memcpy(to, &scale, sizeof scale);
    if (scale > 0)
        quantize(count, from, 1 / scale, (int8_t *)to + sizeof scale);
    else
        memset(to + sizeof scale, 0, count);
}

static void decode_int8(const struct wire *wire, size_t count, const unsigned char *from, float *to) {
    float scale;
    (void)wire;
    memcpy(&scale, from, sizeof scale);
    scale_up(count, (const int8_t *)from + sizeof scale, scale, to);
}

/* topk: the numbers of the largest magnitudes, of equal ones the first, as bf16 in their order, and then their places in the
 * group, a byte each; at least one. Zeros are positive. A product that rounding took just above a whole number counts as that
 * number. */
static size_t kept_of(const struct wire *wire, size_t count) {
    const double share = ceil(wire->share * (double)count - 1e-9);
    const double kept = (share < 1 ? 1 : share) * (wire->times > 1 ? wire->times : 1);
    return kept < (double)count ? (size_t)kept : count;
}

static size_t bytes_topk(const struct wire *wire, size_t count) { return 3 * kept_of(wire, count); }

VECTOR_CLONES static void take_magnitudes(size_t count, const float *restrict from, uint32_t *restrict to) {
    for (size_t i = 0; i < count; i++) to[i] = magnitude(from[i]);
}

VECTOR_CLONES static size_t count_from(size_t count, const uint32_t *magnitudes, uint32_t least) {
    uint32_t found = 0;
    for (size_t i = 0; i < count; i++) found += magnitudes[i] >= least;
    return found;
}

static void encode_topk(const struct wire *wire, size_t count, const float *from, unsigned char *to) {
    uint32_t magnitudes[WIRE_GROUP], threshold = 0;
    uint16_t values[WIRE_GROUP];
    const size_t kept = kept_of(wire, count);
    size_t taken = 0;
    take_magnitudes(count, from, magnitudes);
    /* The largest threshold that at least `kept` of them reach, bit by bit. */
    for (uint32_t bit = 1u << 30; bit > 0; bit >>= 1)
        if (count_from(count, magnitudes, threshold | bit) >= kept) threshold |= bit;
    size_t equal = kept - count_from(count, magnitudes, threshold + 1);
    for (size_t i = 0; i < count; i++) {
        if (magnitudes[i] < threshold || (magnitudes[i] == threshold && equal == 0)) continue;
        equal -= magnitudes[i] == threshold;
        values[taken] = bf16_of(from[i]);
        if ((values[taken] & 0x7fff) == 0) values[taken] = 0;
        to[kept * sizeof *values + taken++] = (unsigned char)i;
    }
    memcpy(to, values, kept * sizeof *values);
}

static void decode_topk(const struct wire *wire, size_t count, const unsigned char *from, float *to) {
    const size_t kept = kept_of(wire, count);
    memset(to, 0, count * sizeof *to);
    for (size_t k = 0; k < kept; k++) {
        uint16_t value;
        const size_t place = from[kept * sizeof value + k];
        memcpy(&value, from + k * sizeof value, sizeof value);
        if (place < count) to[place] = bf16_value(value);
    }
}

const struct wire_codec_info wire_codecs[WIRE_CODECS] = {
    [WIRE_NONE] = {"none", "the numbers as they are", false, bytes_none, encode_none, decode_none},
    [WIRE_BF16] = {"bf16", "rounded to bf16: half the bytes of f32", false, bytes_bf16, encode_bf16, decode_bf16},
    [WIRE_INT8] = {"int8", "a byte each and a scale per 256 numbers: a quarter", false, bytes_int8, encode_int8, decode_int8},
    [WIRE_TOPK] = {"topk", "a share of each 256 numbers, the largest, with error feedback", true, bytes_topk, encode_topk,
                   decode_topk},
};

/* ----------------------------------------------------------------------- names */

enum ps_status wire_parse(const char *text, const char *what, struct wire *out, struct ps_error *error) {
    static const char topk[] = "topk:";
    struct wire wire = {.codec = WIRE_NONE};
    if (strncmp(text, topk, sizeof topk - 1) == 0) {
        char *end;
        const char *number = text + sizeof topk - 1;
        const double share = number_read(number, &end);
        if (end == number || *end || !(share > 0 && share <= 1))
            return error_set(error, PS_USAGE, "%s: '%.40s' is not of the form topk:SHARE, a share above 0 and at most 1", what,
                             text);
        *out = (struct wire){WIRE_TOPK, .share = share};
        return PS_OK;
    }
    while (wire.codec < WIRE_CODECS && strcmp(wire_codecs[wire.codec].name, text) != 0) wire.codec++;
    if (wire.codec >= WIRE_TOPK)
        return error_set(error, PS_USAGE, "%s: '%.40s' is not none, bf16, int8 or topk:SHARE", what, text);
    *out = wire;
    return PS_OK;
}

const char *wire_text(const struct wire *wire, char out[32]) {
    char *end;
    int digits = 6, start;
    snprintf(out, 32, "%s%n", wire_codecs[wire->codec].name, &start);
    if (wire->codec != WIRE_TOPK) return out;
    do number_print(out + start, 32 - (size_t)start, ":%.*g", digits, wire->share);
    while (number_read(out + start + 1, &end) != wire->share && digits++ < 17);
    return out;
}

/* ---------------------------------------------------------------------- blocks */

/* Of the encoded numbers, without those that follow as they are. */
static size_t groups_bytes(const struct wire *wire, size_t count) {
    const struct wire_codec_info *codec = &wire_codecs[wire->codec];
    const size_t rest = count % WIRE_GROUP;
    return count / WIRE_GROUP * codec->bytes(wire, WIRE_GROUP) + (rest > 0 ? codec->bytes(wire, rest) : 0);
}

int64_t wire_bytes(const struct wire *wire, const struct wire_numbers *numbers) {
    const size_t encoded = groups_bytes(wire, (size_t)wire_encoded_numbers(numbers));
    if (wire->codec == WIRE_NONE) return 0;
    return (int64_t)memory_align(encoded + (size_t)numbers->of[TYPE_I32] * number_types[TYPE_I32].bytes);
}

int64_t wire_feedback_bytes(const struct wire *wire, const struct wire_numbers *numbers) {
    if (!wire_codecs[wire->codec].feedback) return 0;
    return (int64_t)memory_align((size_t)wire_encoded_numbers(numbers) * sizeof(float));
}

struct wire_numbers wire_count(const struct wire_run *runs, int count) {
    struct wire_numbers numbers = {{0}};
    for (int r = 0; r < count; r++) numbers.of[runs[r].type] += (int64_t)runs[r].count;
    return numbers;
}

/* A place in a list of runs that are encoded. */
struct walk {
    const struct wire_run *run, *end;
    size_t done; /* of this run */
};

/* The next numbers of one run, at most `most`; 0 at the end. */
static size_t walk_on(struct walk *walk, size_t most, const struct wire_run **run, size_t *offset) {
    while (walk->run < walk->end && (walk->run->type == TYPE_I32 || walk->done == walk->run->count)) {
        walk->run++;
        walk->done = 0;
    }
    if (walk->run == walk->end) return 0;
    const size_t left = walk->run->count - walk->done, count = left < most ? left : most;
    *run = walk->run;
    *offset = walk->run->offset + walk->done * number_types[walk->run->type].bytes;
    walk->done += count;
    return count;
}

/* The next group, as f32; returns how many numbers it has. */
static size_t read_group(struct walk *walk, const char *block, float group[WIRE_GROUP]) {
    const struct wire_run *run;
    size_t count = 0, offset;
    for (size_t more; count < WIRE_GROUP && (more = walk_on(walk, WIRE_GROUP - count, &run, &offset)) > 0; count += more)
        numbers_convert(more, TYPE_F32, group + count, run->type, block + offset);
    return count;
}

static void write_group(struct walk *walk, size_t count, const float *group, char *block) {
    const struct wire_run *run;
    size_t done = 0, offset;
    for (size_t more; done < count && (more = walk_on(walk, count - done, &run, &offset)) > 0; done += more)
        numbers_convert(more, run->type, block + offset, TYPE_F32, group + done);
}

/* Copies what is not encoded: to the encoded block, or from it. */
static void copy_tokens(const struct wire_run *runs, int count, char *block, unsigned char *encoded, bool to_block) {
    for (int r = 0; r < count; r++) {
        const size_t bytes = runs[r].count * number_types[TYPE_I32].bytes;
        char *own = block + runs[r].offset;
        if (runs[r].type != TYPE_I32) continue;
        memcpy(to_block ? own : (char *)encoded, to_block ? (const char *)encoded : own, bytes);
        encoded += bytes;
    }
}

/* What is left of a number that is infinite, here or as it arrives, or NaN, is nothing: it would be NaN for ever. */
VECTOR_CLONES static void subtract(size_t count, const float *restrict all, const float *restrict sent, float *restrict rest) {
    for (size_t i = 0; i < count; i++) {
        const float left = all[i] - sent[i];
        rest[i] = fabsf(left) <= FLT_MAX ? left : 0;
    }
}

void wire_encode(const struct wire *wire, const struct wire_run *runs, int run_count, const void *block, float *feedback,
                 void *encoded) {
    const struct wire_codec_info *codec = &wire_codecs[wire->codec];
    struct walk walk = {runs, runs + run_count, 0};
    unsigned char *to = encoded;
    float group[WIRE_GROUP], sent[WIRE_GROUP];
    for (size_t count; (count = read_group(&walk, block, group)) > 0; to += codec->bytes(wire, count)) {
        if (feedback) vector_add(count, group, feedback);
        codec->encode(wire, count, group, to);
        if (!feedback) continue;
        codec->decode(wire, count, to, sent);
        subtract(count, group, sent, feedback);
        feedback += count;
    }
    copy_tokens(runs, run_count, (char *)(uintptr_t)block, to, false);
}

void wire_decode(const struct wire *wire, const struct wire_run *runs, int run_count, const void *encoded, void *block) {
    const struct wire_codec_info *codec = &wire_codecs[wire->codec];
    const struct wire_numbers numbers = wire_count(runs, run_count);
    struct walk walk = {runs, runs + run_count, 0};
    const unsigned char *from = encoded;
    float group[WIRE_GROUP];
    for (size_t left = (size_t)wire_encoded_numbers(&numbers), count; left > 0; left -= count) {
        count = left < WIRE_GROUP ? left : WIRE_GROUP;
        codec->decode(wire, count, from, group);
        write_group(&walk, count, group, block);
        from += codec->bytes(wire, count);
    }
    copy_tokens(runs, run_count, block, (unsigned char *)(uintptr_t)from, true);
}

void wire_round(const struct wire *wire, const struct wire_run *runs, int run_count, void *block, float *feedback) {
    const struct wire_codec_info *codec = &wire_codecs[wire->codec];
    struct walk from = {runs, runs + run_count, 0}, to = from;
    unsigned char encoded[WIRE_GROUP * sizeof(float)];
    float group[WIRE_GROUP], sent[WIRE_GROUP];
    for (size_t count; (count = read_group(&from, block, group)) > 0;) {
        if (feedback) vector_add(count, group, feedback);
        codec->encode(wire, count, group, encoded);
        codec->decode(wire, count, encoded, sent);
        write_group(&to, count, sent, block);
        if (!feedback) continue;
        subtract(count, group, sent, feedback);
        feedback += count;
    }
}

struct sum_wire wire_of_sum(const struct wire *wire, int replicas) {
    const struct wire bf16 = {.codec = WIRE_BF16};
    struct sum_wire of = {*wire, *wire};
    if (wire->codec != WIRE_TOPK) return of;
    of.sum.times = replicas;
    /* A number and its place take 3 bytes. */
    if (3 * kept_of(&of.sum, WIRE_GROUP) >= 2 * WIRE_GROUP) of.sum = bf16;
    return of;
}
