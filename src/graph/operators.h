/* What the operators' files share: checks of shapes, windows (convolution and pooling), initial values. */
#ifndef PENSTOCK_GRAPH_OPERATORS_H
#define PENSTOCK_GRAPH_OPERATORS_H

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "graph/operator.h"

/* The attributes of an entry. Bounds keep products of sizes within 64 bits. */
enum { SIDE_MAX = 1 << 20, WINDOW_MAX = 1 << 14, FEATURES_MAX = 1 << 24 };
#define REQUIRED NAN
/* Any number: a float's largest as files say it, in as few digits as read as that; as a double it is more. */
#define LARGEST 3.4028235e38
#define ATTRIBUTE(name, kind, member, low, high, usual)                                                                        \
    { name, ATTRIBUTE_##kind, offsetof(struct attributes, member), low, high, usual, NULL }
#define INTEGER(member, low, high, usual) ATTRIBUTE(#member, INTEGER, member, low, high, usual)
#define SIDES(name, member, low, high, usual) ATTRIBUTE(name, SIDES, member, low, high, usual)
#define NUMBER(member, low, high, usual) ATTRIBUTE(#member, NUMBER, member, low, high, usual)
#define TYPE(member) ATTRIBUTE(#member, TYPE, member, 0, TYPE_COUNT - 1, REQUIRED)
#define BOOLEAN(member, usual) ATTRIBUTE(#member, BOOLEAN, member, 0, 1, usual)
#define CHOICE(member, words, usual)                                                                                           \
    { #member, ATTRIBUTE_CHOICE, offsetof(struct attributes, member), 0, sizeof(words) / sizeof *(words)-1, usual, words }
#define LIST(member, low, high, usual) ATTRIBUTE(#member, LIST, member, low, high, usual)

bool shape_equal(const struct shape *a, const struct shape *b);
/* PS_USAGE where a side is not positive. */
enum ps_status shape_of_sides(const struct integers *sides, enum number_type type, struct shape *shape, struct ps_error *error);
/* Whether memory holds the features of a vector in another order (H, W, C) than PyTorch's (C, H, W). */
bool shape_permuted(const struct shape *shape);
/* "3x32x32"; behind it the type where that is not f32: "1x20x1 i32" */
const char *shape_text(const struct shape *shape, char text[96]);

/* The shape of values that are repeated along sides of 1 until they are equal: PS_USAGE where that is impossible. */
enum ps_status shape_broadcast(const struct shape *inputs, int count, struct shape *output, struct ps_error *error);

/* Refuses vectors that were flattened from an image: memory holds their elements in another order. */
enum ps_status require_plain(const struct shape *inputs, int count, struct ps_error *error);
enum ps_status require_axis(const struct shape *input, int axis, struct ps_error *error);
enum ps_status require_image(const struct shape *input, struct ps_error *error);
enum ps_status require_vector(const struct shape *input, struct ps_error *error);
/* T vectors of D features: D x T x 1. */
enum ps_status require_sequence(const struct shape *input, struct ps_error *error);
/* A vector, or a sequence of them: what works on the features of each position by itself. */
enum ps_status require_features(const struct shape *input, struct ps_error *error);

/* The token numbers of the sequence's positions. */
enum ps_status require_tokens_of(const struct shape *sequence, const struct shape *tokens, struct ps_error *error);

/* What nothing was said about: a dilation of 1. */
void window_complete(struct attributes *attributes);
/* PS_USAGE where a kernel, a stride, a dilation or a padding cannot be. */
enum ps_status window_check(const struct attributes *attributes, struct ps_error *error);
/* For convolution and deconvolution: what nothing was said about, and what must hold of channels, groups and dims. */
void convolution_complete(struct attributes *attributes);
enum ps_status convolution_check(const struct attributes *attributes, const struct shape *input, struct ps_error *error);
/* The output of `channels` maps of a window that slides over an image. */
enum ps_status window_output(const struct attributes *attributes, const struct shape *input, int64_t channels,
                             struct shape *output, struct ps_error *error);

/* What entries give as `types`. */
#define ANY_TYPE ((1u << TYPE_COUNT) - 1)
#define NUMBER_TYPES (1u << TYPE_F32 | 1u << TYPE_I32)

/* For pooling, and for what computes nothing. */
enum ps_status pool_infer(struct operation *op);
double pool_flops(const struct operation *op);
double no_flops(const struct operation *op);

/* A value of `sides` as a parameter, `weight`: its elements are in the order of memory, and so are its sides where `shape` does
 * not say others, or `scalar` that it has none. Returns 1. Before: PS_USAGE where the two do not fit. */
enum ps_status check_own_parameter(const struct attributes *attributes, struct ps_error *error);
int own_parameter(const struct attributes *attributes, float initial, struct parameter *parameter);

/* PyTorch's default for convolution and linear, weights and biases: kaiming_uniform with a = sqrt(5), that is uniform in
 * +-1/sqrt(fan in). */
struct initial initial_fan_in(int64_t fan_in);

#endif
