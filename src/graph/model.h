/* The built-in networks: generators of graphs, one file each in models/ and one line in models/table.c. */
#ifndef PENSTOCK_GRAPH_MODEL_H
#define PENSTOCK_GRAPH_MODEL_H

#include "base/spec.h"
#include "graph/network.h"

/* From the spec, or the entry's defaults. A network whose default has a vocabulary reads sequences: it takes `seq` and `vocab`
 * instead of `input` and `channels`, and `classes` only where the default has some. */
struct model_options {
    int input, channels, classes;
    int positions, vocabulary; /* seq, vocab */
};

/* How a network is trained where nothing is said: it leaves chance within its first epoch on the data that it is for
 * (tests/test_learns.sh). */
struct model_training {
    const char *optimizer; /* NULL: the usual one */
    double lr;             /* of this optimizer; 0: its usual rate */
    int batch;             /* samples of a mini-batch; 0: the usual number */
};

struct model {
    const char *name, *summary;
    struct model_options defaults;
    struct model_training training;
    bool masked;         /* it is to fill in tokens that are hidden from it, and may look at all others */
    const char *keys[8]; /* its own options beside input, channels, classes; NULL-terminated */
    /* Writes the nodes, loss included, into an empty graph. */
    enum ps_status (*build)(struct graph *graph, const struct model_options *sizes, struct spec *options,
                            struct ps_error *error);
};

extern const struct model *const model_table[]; /* NULL-terminated */

/* The table's entry of that name; PS_USAGE offers the nearest. */
enum ps_status model_find(const char *name, const struct model **entry, struct ps_error *error);
/* Of the built-in network of a specification or a name; all zero if it is none. */
struct model_training model_training_of(const char *spec);
/* The network of a specification, "vgg16,input=32". */
enum ps_status model_generate(const char *spec, struct ps_network **network, struct ps_error *error);

/* The key `form` of networks that have one for small images and one for large ones: "cifar" or "imagenet"; where it is missing,
 * small for images of up to 64 pixels. */
enum ps_status model_form(struct spec *options, const struct model_options *sizes, bool *small, struct ps_error *error);

/* Building blocks that the networks share. Each returns the node to go on from, or -1 once an error is set. */
struct builder {
    struct graph *graph;
    struct ps_error *error;
};
int build_input(struct builder *builder, int channels, int height, int width);
/* A node with one input and any attributes. */
int build_node(struct builder *builder, int input, enum operator_id id, const char *name, struct attributes attributes);
int build_convolution(struct builder *builder, int input, const char *name, int channels, int kernel, int stride, int pad,
                      bool bias);
/* Convolution without bias, batch normalisation (epsilon 1e-3) and ReLU as NAME.conv, NAME.bn and NAME.relu; weights start
 * normal with the `deviation`: the unit of the Inception networks. */
int build_inception_unit(struct builder *builder, int input, const char *name, struct attributes convolution, float deviation);
/* Their end: global pooling, dropout, one linear layer whose weights start in the same way, and the loss. */
int build_inception_end(struct builder *builder, int input, float dropout, int classes, float deviation);
/* He's initial values as torchvision's networks use them: weights normal with the variance 2 / (kernel area * output channels),
 * bias 0. */
void build_he_initial(struct builder *builder, int convolution);
int build_linear(struct builder *builder, int input, const char *name, int features);
int build_max_pool(struct builder *builder, int input, const char *name, int kernel, int stride, int pad);
/* Rounds up: a last window that begins in the image counts. */
int build_max_pool_ceiling(struct builder *builder, int input, const char *name, int kernel, int stride);
int build_average_pool(struct builder *builder, int input, const char *name, int kernel, int stride, int pad);
int build_global_pool(struct builder *builder, int input, const char *name);
/* Average pool to side x side as PyTorch's adaptive one; nothing is added where the map has that size already. */
int build_adaptive_pool(struct builder *builder, int input, const char *name, int side);
int build_relu(struct builder *builder, int input, const char *name);
int build_batch_norm(struct builder *builder, int input, const char *name);
/* A convolution without bias, padded by half its kernel, from torchvision's initial values; and its batch normalisation. */
int build_normalised_convolution(struct builder *builder, int input, const char *convolution, const char *norm, int channels,
                                 int kernel, int stride);
int build_add(struct builder *builder, int a, int b, const char *name);
int build_concat(struct builder *builder, const int *inputs, int count, const char *name);
int build_flatten(struct builder *builder, int input, const char *name);
/* Adds nothing where the rate is 0. */
int build_dropout(struct builder *builder, int input, const char *name, float rate);
/* As Krizhevsky et al. set it: five channels, alpha 1e-4 (PyTorch's 5e-4), beta 0.75, shift 2. */
int build_local_response_norm(struct builder *builder, int input, const char *name);
int build_cross_entropy(struct builder *builder, int input, const char *name);
/* Adds a vector of its own at each position; the table has `rows` of them. */
int build_position_embedding(struct builder *builder, int input, const char *name, int rows);
int build_layer_norm(struct builder *builder, int input, const char *name, float epsilon);
int build_gelu(struct builder *builder, int input, const char *name, bool tanh_form);
/* Data of `positions` tokens. */
int build_tokens(struct builder *builder, int positions);
int build_embedding(struct builder *builder, int input, const char *name, int vocabulary, int features);
int build_cast(struct builder *builder, int input, const char *name, enum number_type type);
/* Positions first .. first + count - 1; nothing is added where that is all of them. */
int build_slice(struct builder *builder, int input, const char *name, int first, int count);
/* A linear layer without bias. */
int build_projection(struct builder *builder, int input, const char *name, int features);
int build_lstm(struct builder *builder, int input, const char *name, int hidden);
/* Of sequences with padding, where `tokens` has token 0. */
int build_lstm_padded(struct builder *builder, int input, int tokens, const char *name, int hidden, bool reverse);
int build_additive_attention(struct builder *builder, int query, int key, int value, int tokens, const char *name);

#endif
