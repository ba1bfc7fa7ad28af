/*
 * Operators: what a node of a network can be. An entry knows shapes, parameters, arithmetic and what its backward needs;
 * how it is computed is a device's matter (compute/kernel.h).
 *
 * Shapes are those of one sample and in PyTorch's order (images C, H, W). In memory activations lie with the channels last
 * (N, H, W, C); values of other ranks likewise with their first side last.
 *
 * A sequence of T vectors of D features is an image of D channels, T high and 1 wide: in memory N, T, D, one vector after the
 * other. A sequence of tokens is one of vectors of a single feature, the token's number (i32).
 */
#ifndef PENSTOCK_GRAPH_OPERATOR_H
#define PENSTOCK_GRAPH_OPERATOR_H

#include "base/error.h"
#include "base/number_type.h"
#include "graph/layer_times.h"

enum operator_id {
#define OPERATOR(NAME, name) OPERATOR_##NAME,
#include "graph/operators.def"
#undef OPERATOR
    OPERATOR_COUNT
};

/* NETWORK_INPUTS_MAX: of the network; GRAPH_INPUTS_MAX: of a node. */
enum { NETWORK_INPUTS_MAX = 8, GRAPH_INPUTS_MAX = 64, GRAPH_PARAMETERS_MAX = 4, SHAPE_RANK_MAX = 6 };

/* What a value or a parameter is: its sides, and the type of its elements. */
struct shape {
    int rank;
    enum number_type type;
    int64_t dim[SHAPE_RANK_MAX];
    /* Where a vector (rank 1) was flattened from an image: its C, H, W, so that a linear layer can keep its weights in
     * PyTorch's order (C, H, W) while the memory stays H, W, C; of a value of another rank C, all other sides, 1. All 0
     * otherwise. */
    int64_t image[3];
};

int64_t shape_elements(const struct shape *shape);
int64_t shape_bytes(const struct shape *shape);
/* The sides of so many samples in the order of memory, from the outermost: samples, dim 1, 2, ..., dim 0. Returns how many. */
int shape_memory(const struct shape *shape, int64_t samples, int64_t sides[SHAPE_RANK_MAX + 1]);
/* Makes several images of a sample (C, images, H, W) one of them, (C, H, W), and back. In memory they are as those of so many
 * samples. How many there are; 0: the shape is another, and stays. */
int64_t shape_take_image(struct shape *shape);
void shape_repeat_image(struct shape *shape, int64_t images);

/* A list in attributes: sides, an order, axes. */
struct integers {
    int count, at[SHAPE_RANK_MAX];
};

/* One flat struct for all operators; each documents what it reads. */
struct attributes {
    int channels;                               /* convolution: output channels; linear, embedding: output features;
                                                   lstm: hidden size */
    int kernel_h, kernel_w, stride_h, stride_w; /* convolution, pooling */
    int pad_h, pad_w, groups;                   /* convolution, pooling (groups: convolution) */
    int pad_extra_h, pad_extra_w;               /* likewise: by how much the padding after a side exceeds that before it */
    int dilation_h, dilation_w;                 /* likewise: elements from one position of the kernel to the next */
    int output_pad_h, output_pad_w;             /* deconvolution: rows and columns more after a side */
    int dims;                                   /* convolution, deconvolution: 1, of a sequence, or 2 */
    bool weight;                                /* batch_norm, layer_norm, rms_norm, group_norm: is there one? */
    bool bias;                                  /* convolution, linear */
    bool transposed;                            /* linear: weights are kept as (inputs, outputs) */
    bool count_padding;                         /* average_pool */
    bool ceiling;                               /* pooling: a window that only begins in the image counts too */
    int out_h, out_w;                           /* average_pool: windows of uneven sizes that give an output of this size */
    float rate;                                 /* dropout, attention: probability of zeroing */
    bool double_precision;                      /* batch_norm: sums, and what follows from them */
    float epsilon, momentum;                    /* batch_norm: PyTorch's meaning of momentum; layer_norm: epsilon */
    float smoothing;                            /* cross_entropy: label smoothing */
    int vocabulary;                             /* embedding: tokens there are */
    bool padded;                                /* embedding: token `padding` has the vector 0 and no gradient */
    int padding;
    int first, count;              /* slice: `count` positions from `first` on; position_embedding: count
                                      vectors; attention: its first head, of so many (0: of `heads`) */
    bool everywhere;               /* position_embedding: the first vector at every position */
    bool tanh_form;                /* gelu: the approximation by the hyperbolic tangent */
    enum number_type type;         /* input: of the data; cast: of the output */
    int heads;                     /* attention */
    int key_heads;                 /* attention: of keys and values; 0: as many as of queries */
    float scale;                   /* attention: what scores are multiplied by (0: the usual factor); matmul: the product */
    float cap;                     /* attention: the bound that scores approach; 0: none */
    bool causal;                   /* attention: no position sees those after it */
    int mode;                      /* resize: enum resize_mode; pad: enum pad_mode */
    int coordinates, rounding;     /* resize: enum resize_coordinates, enum resize_rounding */
    float scale_h, scale_w, cubic; /* resize: 0: the ratio of the sides; the coefficient of its cubic mode */
    struct integers before, after; /* pad: elements beside each dimension */
    float value;                   /* pad: of constant padding */
    int features;                  /* rotary: how many of a head are turned; 0: all */
    bool interleaved;              /* rotary: pairs are neighbours */
    bool apart;                    /* group_norm: each of several images by itself */
    float base;                    /* rotary: of the angles */
    int layer;                     /* lstm: its number, counted in the names of parameters */
    bool reverse;                  /* lstm: from the last position to the first */
    int window;                    /* local_response_norm: channels that are added up */
    float alpha, beta, shift;      /* local_response_norm: PyTorch's alpha, beta, k; unary: of its function; compare: alpha */

    struct integers sides;         /* input, parameter, view, expand: the shape; binary: of its own parameter */
    struct integers shape;         /* parameter, binary: of the parameter itself, whose elements are in the order of memory */
    bool scalar;                   /* parameter: the parameter itself is a single number, without sides */
    struct integers axes;          /* reduce: the dims that become 1; none: all */
    struct integers order;         /* permute: output dim i is input dim order[i] */
    int axis, step;                /* slice, concat: the dim; slice: from one position to the next (0: 1) */
    int kind;                      /* unary, binary, reduce, compare, logical: which function, of a list of names */
    bool trained;                  /* parameter, binary: its parameter is trained */
    bool transpose_a, transpose_b; /* matmul: a value has its matrices transposed */
    bool swapped;                  /* binary: its own parameter is the first argument */

    /* opaque: a layer known only by its costs; its "sample" is a whole micro-batch */
    struct layer_times time;
    double sum_s;
    int64_t value_bytes, parameter_bytes, inner_bytes;
};

enum initial_kind { INITIAL_CONSTANT, INITIAL_UNIFORM, INITIAL_NORMAL };

struct initial {
    enum initial_kind kind;
    float value; /* the constant; the bound of [-value, value); the standard deviation */
};

/* Where a parameter holds some rows (of the first dimension) of one that was split (graph/split.h). */
struct parameter_slice {
    char whole[128];     /* the split parameter's name */
    int64_t first, rows; /* first row held here; rows of the whole. rows 0: not a slice */
};

enum parameter_role {
    PARAMETER_TRAINED,
    PARAMETER_STATISTIC, /* running: belongs to the forward's owner, is no weight version, has no gradient */
    PARAMETER_FIXED,     /* never changes, so a stage has it once, beside its statistics: no version, no gradient */
};

/* A tensor of a node, in canonical (PyTorch) shape and order; of f32, in which optimizers work. */
struct parameter {
    char name[128]; /* "conv1.weight": the node's name and the tensor's */
    struct shape shape;
    enum number_type copy; /* the type of the copies that kernels read: f32, or bf16 (graph_set_precision) */
    struct parameter_slice slice;
    struct initial initial;
    int64_t zero_row; /* 1 + a row (of the first dimension) that begins as zeros; 0: none */
    enum parameter_role role;
    bool frozen; /* fixed because the user wants it (graph_freeze); its operator would have it trained */
    bool shared; /* several nodes use it (graph_tie): kernels keep it in canonical order */
    bool tied;   /* shared, and this is not its first use: another node before has the parameter of this name */
};

/* Is it part of what the network computes, as its hash is (graph/network.h), and no weight? */
static inline bool parameter_is_constant(const struct parameter *parameter) {
    return parameter->role == PARAMETER_FIXED && !parameter->frozen;
}

/* Is it one of several uses of a trained tensor? Of a fixed one each node has its own copy. */
static inline bool parameter_is_shared(const struct parameter *parameter) {
    return parameter->shared && parameter->role == PARAMETER_TRAINED;
}

enum operator_flags {
    OPERATOR_STARTS_LAYER = 1,  /* a node of this kind begins a new layer of the chain; the others join the one before */
    OPERATOR_IN_PLACE = 2,      /* may write its output (and input gradient) over its input (output gradient) */
    OPERATOR_SHARES_MEMORY = 4, /* output is the input's memory; nothing is computed */
    OPERATOR_USES_INPUT = 8,    /* backward reads the inputs */
    OPERATOR_USES_OUTPUT = 16,  /* backward reads the output */
    OPERATOR_KEEPS_ZEROS = 32,  /* in place over a USES_OUTPUT producer it keeps what that backward reads (the sign pattern) */
    OPERATOR_LOSS = 64,         /* ends the network: output holds what its backward needs, and it yields loss and hits */
    OPERATOR_RANDOM = 128,      /* reads random numbers keyed by step and micro-batch */
    OPERATOR_MOVES = 256,       /* output elements are input elements: made of data alone, they are data, without gradient */
    OPERATOR_USES_INTEGERS = 512, /* backward reads the inputs of type i32 */
    OPERATOR_NARROW = 1024,       /* in a network of precision bf16 its output and its matrices are bf16, whatever it reads */
    OPERATOR_ROUNDS = 2048,       /* multiplies matrices of bf16: with precision mixed its output is one, and what it reads */
    OPERATOR_IMAGES = 4096,       /* of an image or a sequence (C, H, W); a single input may be several of them
                                     (C, images, H, W), each computed by itself */
};

/* What a node of some kind can be told, once for files, the builder, the hash and the documentation. */
enum attribute_kind {
    ATTRIBUTE_INTEGER,
    ATTRIBUTE_SIDES, /* two integers, height and width; one number means both */
    ATTRIBUTE_NUMBER,
    ATTRIBUTE_BOOLEAN,
    ATTRIBUTE_TYPE,   /* of numbers, by its name */
    ATTRIBUTE_CHOICE, /* one of some words: its number in `words` */
    ATTRIBUTE_LIST,   /* of integers, at most SHAPE_RANK_MAX; usually empty */
};
struct attribute {
    const char *name;
    enum attribute_kind kind;
    size_t offset;            /* in struct attributes */
    double low, high;         /* accepted */
    double usual;             /* where nothing is said; NaN: it must be said */
    const char *const *words; /* of a choice, so many as `high` + 1 */
};
enum { ATTRIBUTES_MAX = 12 };

/* An operator with its attributes and the shapes of its inputs, for the functions of its kind. */
struct operation {
    struct attributes *attributes;
    const struct shape *inputs;
    int input_count;
    int64_t images;      /* of OPERATOR_IMAGES: how many a sample has, where inputs and output are one of them; else 0 */
    struct shape output; /* infer sets it */
    struct ps_error *error;
};

struct operator_type {
    const char *name;
    struct attribute attributes[ATTRIBUTES_MAX]; /* up to the first without a name */
    unsigned flags;
    /* More flags, that depend on the attributes; NULL: none. */
    unsigned (*more_flags)(const struct operation *op);
    int inputs_min, inputs_max;
    /* The types that every input may have, as bits 1 << TYPE (0: f32 alone); or those that an input of so many may have. */
    unsigned types;
    unsigned (*types_of)(int input, int input_count);
    /* Output shape with its type, f32 where nothing is said; completes attributes (0 strides become kernels or 1, and so on).
     * Errors name what does not fit. */
    enum ps_status (*infer)(struct operation *op);
    /* Parameters and statistics with PyTorch's default initial values; names without the node's name. NULL: none. */
    int (*parameters)(const struct operation *op, struct parameter parameters[GRAPH_PARAMETERS_MAX]);
    /* Forward arithmetic of one sample, a multiply-add counted as two. NULL: one per output element. */
    double (*flops)(const struct operation *op);
    /* Of a loss: what it reads beside its input, of one sample: i32 for labels, else f32. */
    void (*target)(const struct shape *input, struct shape *target);
};

const struct operator_type *operator_get(enum operator_id id);
/* Can nodes of a file be of the kind? All but inputs and opaque layers. */
bool operator_in_files(enum operator_id id);
/* One of these: PS_USAGE offers the nearest name. */
enum ps_status operator_find(const char *name, enum operator_id *id, struct ps_error *error);

/* All attributes of the kind as they are where nothing is said; those that must be said are 0. */
struct attributes attributes_usual(const struct operator_type *op);
/* Values of the attribute `kind`. */
enum unary_kind {
#define UNARY(NAME, name, value, slope, reads, flops) UNARY_##NAME,
#include "graph/functions.def"
};
enum binary_kind {
#define BINARY(NAME, name, value, slope_a, slope_b, reads, flops) BINARY_##NAME,
#include "graph/functions.def"
};
enum compare_kind {
    COMPARE_EQUAL,
    COMPARE_NOT_EQUAL,
    COMPARE_LESS,
    COMPARE_LESS_EQUAL,
    COMPARE_GREATER,
    COMPARE_GREATER_EQUAL,
    COMPARE_ISNAN, /* from here on of one value */
    COMPARE_ISINF
};
enum logical_kind { LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR, LOGICAL_NOT };
enum reduce_kind {
    REDUCE_SUM,
    REDUCE_MEAN,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_PROD,
    REDUCE_L1,
    REDUCE_L2,
    REDUCE_SUM_SQUARE,
    REDUCE_LOG_SUM,
    REDUCE_LOG_SUM_EXP
};

enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC };
enum resize_coordinates {
    COORDINATES_HALF_PIXEL,
    COORDINATES_ASYMMETRIC,
    COORDINATES_ALIGN_CORNERS,
    COORDINATES_PYTORCH_HALF_PIXEL
};
enum resize_rounding { ROUNDING_HALF_DOWN, ROUNDING_HALF_UP, ROUNDING_FLOOR, ROUNDING_CEIL };
enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

/* How many numbers one of an operator's attributes is: two sides, a list's elements, else 1. */
int attribute_count(const struct attributes *attributes, const struct attribute *attribute);
/* Each of them (of two sides 0: the height, 1: the width). Setting an element of a list ends the list with it. */
double attribute_get(const struct attributes *attributes, const struct attribute *attribute, int element);
void attribute_set(struct attributes *attributes, const struct attribute *attribute, int element, double value);
bool attribute_equal(const struct attributes *a, const struct attributes *b, const struct attribute *attribute);
/* Types and choices are said in words: the number of a word, and the word of a number. */
static inline bool attribute_in_words(const struct attribute *attribute) {
    return attribute->kind == ATTRIBUTE_TYPE || attribute->kind == ATTRIBUTE_CHOICE;
}
enum ps_status attribute_number(const struct attribute *attribute, const char *word, double *value, struct ps_error *error);
const char *attribute_word(const struct attribute *attribute, double value);
/* Is the value accepted? Else PS_USAGE names what would be. */
enum ps_status attribute_check(const struct attribute *attribute, double value, struct ps_error *error);

/* What window `index` of a pooling covers along one side (of `size` elements) of its image: the elements first, first + step,
 * ... before `end`, of which a mean divides by `counted` (the product of both sides'). */
struct pool_window {
    int64_t first, end, step, counted;
};
enum pool_side { POOL_ROWS, POOL_COLUMNS };
struct pool_window pool_window(const struct attributes *attributes, enum pool_side side, int64_t size, int64_t index);

#endif
