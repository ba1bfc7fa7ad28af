/*
 * Wire codecs: how the numbers of a block are encoded before they are sent, so that fewer bytes travel. A codec is a row of the
 * table; docs/methods.md says what each computes.
 *
 * A block is a list of runs of numbers. Those of type f32 or bf16 are encoded in groups of WIRE_GROUP, in the order of the runs
 * and across their ends; i32 (tokens) follow as they are. All roundings are to nearest even. The same block gives the same
 * bytes on every machine.
 *
 * A scale for each group is that of block-wise quantisation (Dettmers et al., 2022). Error feedback (Seide et al., 2014; Lin et
 * al., 2018): what a codec did not send of a block is added to the next block of the same kind before that is encoded. For
 * activations that is a heuristic, since the next micro-batch has other samples; a state for each sample (AQ-SGD, Wang et al.,
 * 2022) would take memory of the size of the data set.
 *
 * What was decoded gives itself when it is encoded and decoded again, to the bit. So gradients that replicas sum are rounded in
 * place (wire_round), and whether they then travel encoded or stay in shared memory, the sum has the same bits.
 */
#ifndef PENSTOCK_BASE_WIRE_H
#define PENSTOCK_BASE_WIRE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/number_type.h"

enum { WIRE_GROUP = 256 };

/* In the order of what they lose. */
enum wire_codec { WIRE_NONE, WIRE_BF16, WIRE_INT8, WIRE_TOPK, WIRE_CODECS };

/* A codec and its setting; {0}: none. */
struct wire {
    enum wire_codec codec;
    double share; /* topk: of the numbers that are sent; of others 0 */
    int times;    /* topk: so many times the numbers of a share; 0: once */
};

/* Of the two kinds of blocks that cross a cut. */
struct cut_wire {
    struct wire activation, gradient;
};

/* Of a sum of gradients over replicas: of what each brings, and of the sum that each gets. */
struct sum_wire {
    struct wire share, sum;
};
/* The codecs of a sum over so many replicas, with `wire` for what each brings. Error feedback is kept of the latter alone, so
 * topk keeps as many numbers of the sum as all replicas together have brought. */
struct sum_wire wire_of_sum(const struct wire *wire, int replicas);

struct wire_codec_info {
    const char *name, *summary;
    bool feedback; /* keeps what it did not send, an f32 per number */
    /* Bytes of a group of `count` numbers, 1 to WIRE_GROUP. */
    size_t (*bytes)(const struct wire *wire, size_t count);
    void (*encode)(const struct wire *wire, size_t count, const float *from, unsigned char *to);
    void (*decode)(const struct wire *wire, size_t count, const unsigned char *from, float *to);
};
extern const struct wire_codec_info wire_codecs[WIRE_CODECS];

/* Numbers of one type in a block. */
struct wire_run {
    size_t offset; /* bytes */
    size_t count;
    enum number_type type;
};

/* How many numbers of each type a block has. */
struct wire_numbers {
    int64_t of[TYPE_COUNT];
};

/* "int8", or "topk:0.05" with the share of the numbers that are sent, above 0 and at most 1. `what` names the thing in
 * messages. PS_USAGE. */
enum ps_status wire_parse(const char *text, const char *what, struct wire *wire, struct ps_error *error);
/* The text that wire_parse reads. */
const char *wire_text(const struct wire *wire, char out[32]);
static inline bool wire_same(const struct wire *a, const struct wire *b) {
    return a->codec == b->codec && a->share == b->share;
}

/* Those that are encoded: all but i32. */
static inline int64_t wire_encoded_numbers(const struct wire_numbers *numbers) {
    return numbers->of[TYPE_F32] + numbers->of[TYPE_BF16];
}
/* Of an encoded block, a multiple of 64; 0 with WIRE_NONE. */
int64_t wire_bytes(const struct wire *wire, const struct wire_numbers *numbers);
/* Of its error feedback; 0: the codec keeps none. */
int64_t wire_feedback_bytes(const struct wire *wire, const struct wire_numbers *numbers);
struct wire_numbers wire_count(const struct wire_run *runs, int count);

/* `feedback`: one f32 for each encoded number, of the block before (zeros at first), is replaced by that of this one; NULL
 * where the codec keeps none. A number that is not finite makes those that are decoded from its group (bf16 and topk: itself)
 * not finite. */
void wire_encode(const struct wire *wire, const struct wire_run *runs, int count, const void *block, float *feedback,
                 void *encoded);
void wire_decode(const struct wire *wire, const struct wire_run *runs, int count, const void *encoded, void *block);
/* Replaces the block's numbers by those that are decoded once they are encoded. `feedback` as in wire_encode. */
void wire_round(const struct wire *wire, const struct wire_run *runs, int count, void *block, float *feedback);

#endif
