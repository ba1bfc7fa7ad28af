/*
 * What each operator makes of its inputs and attributes, held against tests/golden/operators.txt, and what it refuses, in full
 * words: a small network of a line or two each.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "graph/network_builder.h"
#include "graph/operators.h"
#include "support.h"

/* The line before a node names its operator and attributes, its inputs by their letters: "linear,channels=4 <a". Inputs: "f32
 * 3x8x8", called a, b, ... ; nodes go on from there. */
static const struct {
    const char *inputs[4], *nodes[4], *said;
} cases[] = {
    /* arranging */
    {{"f32 3x8x8"}, {"view,sides=3x8x7 <a"}, "3x8x7 is no view of its input of 3x8x8"},
    {{"f32 3x8x8"}, {"permute,order=0x1x1 <a"}, "order: must have each of 0 to 2 once"},
    {{"f32 3x8x8"}, {"permute,order=0x1 <a"}, "order: must have each of 0 to 2 once"},
    {{"f32 3x8x8"}, {"expand,sides=3x4x8 <a"}, "must have equal sides, or sides of 1, and have 3x8x8 and 3x4x8"},
    {{"f32 3x8x8"}, {"expand,sides=3x1x8 <a"}, "sides of 3x1x8 are less than those of its input, 3x8x8"},
    {{"f32 8x5x1"}, {"slice,first=3,count=4 <a"}, "4 positions from position 3 on in steps of 1: its input has 5"},
    {{"f32 8x5x1"}, {"slice,first=1,count=3,step=-1 <a"}, "3 positions from position 1 on in steps of -1: its input has 5"},
    {{"f32 8x5"}, {"slice,count=1,axis=2 <a"}, "axis 2: its input of 8x5 has the axes 0 to 1"},
    {{"f32 3x8x8"}, {"flatten <a", "slice,count=1,axis=0"}, "an input is a flattened image: put it before the flattening"},
    {{"f32 3x8x8", "f32 3x8x7"}, {"concat <a b"}, "its inputs may differ in their channels only, and are 3x8x8 and 3x8x7"},
    {{"f32 3x8x8", "f32 4x8x8"},
     {"concat,axis=1 <a b"},
     "its inputs may differ in the sides along the axis only, and are 3x8x8 and 4x8x8"},
    {{"f32 3x8x8", "i32 3x8x8"}, {"concat <a b"}, "its inputs must have one type, and are f32 and i32"},
    {{"f32 3x8x8"}, {"flatten <a", "concat <b b"}, "an input is a flattened image: concatenate before flattening"},
    {{"f32 8"}, {"concat,axis=1 <a a"}, "axis 1: its input of 8 has the axes 0 to 0"},
    /* images and sequences */
    {{"f32 8"}, {"convolution,channels=4,kernel=3 <a"}, "its input must be an image (C, H, W) or several (C, images, H, W), and is 8"},
    {{"f32 3x8x8"}, {"convolution,channels=4,kernel=3,groups=2 <a"}, "2 groups do not divide 3 input and 4 output channels"},
    {{"f32 4x8x8"}, {"convolution,channels=5,kernel=3,groups=2 <a"}, "2 groups do not divide 4 input and 5 output channels"},
    {{"f32 4x8x1"},
     {"convolution,channels=4,kernel=3x3,dims=1 <a"},
     "a kernel of 3x3: of a sequence (dims 1) it must be 1 wide"},
    {{"f32 3x8x8"},
     {"convolution,channels=4,kernel=9 <a"},
     "a kernel of 9x9 with padding 0x0 does not fit into its input of 3x8x8"},
    {{"f32 3x8x8"}, {"max_pool,kernel=2,pad=2 <a"}, "window 0 along the height covers padding only"},
    {{"f32 3x8x8"}, {"max_pool,kernel=2x2,pad=0x2 <a"}, "window 0 along the width covers padding only"},
    {{"f32 8"}, {"local_response_norm <a"}, "must be an image"},
    {{"f32 3x8x8"}, {"average_pool,kernel=9 <a"}, "a kernel of 9x9 with padding 0x0 does not fit into its input of 3x8x8"},
    {{"f32 3x8x8"},
     {"average_pool,kernel=3x4,pad_extra=-1 <a"},
     "kernel 3, stride 3, dilation 1, padding 0 before and -1 after: kernel, stride and dilation must be at least 1"},
    {{"f32 3x8x8"}, {"average_pool <a"}, "kernel 0, stride 0, dilation 1, padding 0 before and 0 after"},
    {{"f32 3x8x8"}, {"max_pool,kernel=2,pad=1,pad_extra=2 <a"}, "window 5 along the height covers padding only"},
    {{"f32 3x8x8"},
     {"deconvolution,channels=4,kernel=3,stride=2,output_pad=2 <a"},
     "output_pad 2x2: it must be below the stride of 2x2"},
    {{"f32 3x8x8"},
     {"deconvolution,channels=4,kernel=3,stride=2x1,output_pad=1 <a"},
     "output_pad 1x1: it must be below the stride of 2x1"},
    {{"f32 3x1x8"}, {"deconvolution,channels=4,kernel=3,pad=2x1 <a"}, "padding 2x1 leaves nothing of its output"},
    {{"f32 3x8x1"}, {"deconvolution,channels=4,kernel=3,pad=1x2 <a"}, "padding 1x2 leaves nothing of its output"},
    {{"f32 3x8x8"}, {"deconvolution,channels=4,kernel=3,groups=2 <a"}, "2 groups do not divide 3 input and 4 output channels"},
    {{"f32 8"}, {"resize,out=4 <a"}, "its input must be an image (C, H, W) or several (C, images, H, W), and is 8"},
    {{"f32 8"}, {"average_pool,out=4 <a"}, "its input must be an image (C, H, W) or several (C, images, H, W), and is 8"},
    {{"f32 3x8x8"}, {"pad,before=0x1x1x1 <a"}, "before and after have 4 and 0 numbers, and its input is 3x8x8"},
    {{"f32 3x8"}, {"pad,after=0x1x1 <a"}, "before and after have 0 and 3 numbers, and its input is 3x8"},
    {{"f32 3x8x8"}, {"pad,before=0x-1,mode=edge <a"}, "edge takes no elements away: -1 before and 0 after"},
    {{"f32 3x8x8"}, {"pad,after=0x-1,mode=wrap <a"}, "wrap takes no elements away: 0 before and -1 after"},
    {{"f32 3x8x8"}, {"pad,before=0x8,mode=reflect <a"}, "reflect: 8 elements beside dimension 1 of 8"},
    {{"f32 3x8x8"}, {"pad,after=4,mode=wrap <a"}, "wrap: 4 elements beside dimension 0 of 3"},
    {{"f32 3x8x8"}, {"pad,before=-2,after=-1 <a"}, "-2 before and -1 after leave nothing of dimension 0 of 3"},
    {{"f32 3x8x8"}, {"flatten <a", "pad,before=1"}, "its input is a flattened image: pad before flattening"},
    {{"f32 3x8"}, {"reduce,kind=sum,axes=0x2 <a"}, "axis 2: its input of 3x8 has the axes 0 to 1"},
    {{"f32 8x5x1", "i32 4"}, {"lstm,channels=4 <a b"}, "the tokens of a sequence of 8x5x1 must be 1x5x1, and are 1x4x1 i32"},
    {{"f32 8x5x1", "i32 2x5x1"}, {"gru,channels=4 <a b"}, "the tokens of a sequence of 8x5x1 must be 1x5x1, and are 2x5x1 i32"},
    {{"f32 8x5x1"}, {"position_embedding,count=4 <a"}, "4 vectors for 5 positions: at least one each is needed"},
    {{"f32 8x5x2"}, {"lstm,channels=4 <a"}, "its input must be a sequence (features x positions x 1), and is 8x5x2"},
    {{"i32 2x5x1"}, {"embedding,channels=3,vocabulary=9 <a"}, "its input must be tokens (1 x positions x 1), and is 2x5x1"},
    {{"i32 5"}, {"embedding,channels=3,vocabulary=9,padded=1,padding=9 <a"}, "padding token 9: the tokens are 0 to 8"},
    /* products */
    {{"f32 3x8x8"},
     {"flatten <a", "linear,channels=4,transposed=1"},
     "its input is a flattened image, and its weights are transposed: only one of both is accepted"},
    {{"f32 8", "f32 9"}, {"add <a b"}, "its inputs must have one shape, and have 8 and 9"},
    {{"f32 2x3", "f32 3x2"}, {"matmul <a a"}, "the columns of 2x3 are not as many as the rows of 2x3"},
    {{"f32 2x3", "f32 3x2"}, {"matmul,transpose_a=1 <a b"}, "the columns of 2x3 are not as many as the rows of 3x2"},
    {{"f32 2x3", "f32 2x3x4"}, {"matmul <a b"}, "values of 2x3 and 2x3x4: two of one rank, at least 2, are accepted"},
    {{"f32 3", "f32 3"}, {"matmul <a b"}, "values of 3 and 3: two of one rank, at least 2, are accepted"},
    {{"f32 2x3x3", "f32 2x2x2"}, {"matmul <a b"}, "its inputs must have equal sides, or sides of 1, and have 1x3x1 and 1x2x1"},
    {{"f32 3x8x8"}, {"linear,channels=0 <a"}, "channels: 0 is not an integer from 1"},
    {{"f32 3x8x8"}, {"linear,channels=4 <a"}, "its input must be a vector, and is an image of 3x8x8: flatten it before"},
    {{"f32 3x8x8", "f32 3x8x8 "}, {"flatten <a", "add <a c"}, "its inputs must have one shape, and have 3x8x8 and 192"},
    {{"f32 3x8x8", "f32 3x4x16"},
     {"flatten <a", "flatten <b", "add <c d"},
     "its inputs are vectors flattened from unlike images: add before flattening"},
    /* norms */
    {{"f32 3x8x8"}, {"flatten <a", "batch_norm"}, "its input is a flattened image: normalise before flattening"},
    {{"f32 3x8x8"}, {"flatten <a", "layer_norm"}, "its input is a flattened image: normalise before flattening"},
    {{"f32 8x5x1"}, {"layer_norm,weight=0,bias=1 <a"}, "it has a bias, but no weight"},
    {{"f32 6x5x1"}, {"group_norm,groups=4 <a"}, "4 groups do not share 6 channels equally"},
    {{"f32 3x8x8"}, {"flatten <a", "rms_norm"}, "its input is a flattened image: normalise before flattening"},
    {{"f32 6x5x1"}, {"batch_norm,epsilon=2e6 <a"}, "epsilon: 2000000 is not a number from 0 to 1000000"},
    /* attention */
    {{"f32 12x5x1"}, {"attention,heads=5 <a"}, "5 heads do not share 4 features equally"},
    {{"f32 13x5x1"},
     {"attention,heads=2 <a"},
     "its one input of 13x5x1 must have queries, keys and values of 2, 2 and 2 heads side by side"},
    {{"f32 8x5x1"}, {"attention,heads=3 <a a a"}, "3 heads do not share 8 features equally"},
    {{"f32 8x5x1"}, {"attention,heads=4,key_heads=3 <a a a"}, "4 heads of queries cannot share 3 of keys equally"},
    {{"f32 8x5x1"},
     {"attention,heads=2,key_heads=1,first=1,count=2 <a a a"},
     "of 2 heads, 2 of which share those of keys, it cannot have 2 from 1 on"},
    {{"f32 8x5x1", "f32 8x4x1"},
     {"attention,heads=2,causal=1 <a b b"},
     "causal attention needs as many keys as queries, and has 4 and 5"},
    {{"f32 8x5x1", "f32 6x5x1"},
     {"attention,heads=2 <a b a"},
     "queries of 8x5x1, keys of 6x5x1 and values of 8x5x1: heads of queries"},
    {{"f32 8x5x1"}, {"attention,heads=2,rate=1 <a a a"}, "rate 1 must be at least 0 and below 1"},
    {{"f32 8x5x1", "i32 3"}, {"attention,heads=2 <a a a b"}, "the mask must be the keys' tokens, 1x5x1"},
    {{"f32 8x5x1", "f32 6x5x1"},
     {"additive_attention <a b b"},
     "queries of 8x5x1, keys of 6x5x1 and values of 6x5x1: queries and keys must have the same features, keys and values the "
     "same "
     "positions"},
    {{"f32 8x5x1", "f32 8x4x1"}, {"additive_attention <a b a"}, "queries of 8x5x1, keys of 8x4x1 and values of 8x5x1"},
    {{"f32 8x5x1", "i32 4"},
     {"additive_attention <a a a b"},
     "the tokens of a sequence of 8x5x1 must be 1x5x1, and are 1x4x1 i32"},
    {{"f32 8x5x2"}, {"additive_attention <a a a"}, "its input must be a sequence (features x positions x 1), and is 8x5x2"},
    {{"f32 8x5x1"}, {"rotary,heads=3 <a"}, "3 heads do not share 8 features equally"},
    {{"f32 6x5x1"}, {"rotary,heads=2 <a"}, "3 features of a head to be turned in pairs: an even number up to 3 is needed"},
    {{"f32 8x5x1"},
     {"rotary,heads=2,features=6 <a"},
     "6 features of a head to be turned in pairs: an even number up to 4 is needed"},
    {{"f32 8x5x1", "f32 2x5x1"}, {"rotary,heads=2 <a b"}, "2 inputs: cosines need sines, too"},
    {{"f32 8x5x1", "f32 3x5x1"}, {"rotary,heads=2 <a b b"}, "cosines and sines must be 2x5x1 or 4x5x1, and are 3x5x1"},
    {{"f32 8x5x1", "f32 2x4x1"}, {"rotary,heads=2 <a b b"}, "cosines and sines must be 2x5x1 or 4x5x1, and are 2x4x1"},
    /* single numbers */
    {{"f32 8"}, {"cast,type=i32 <a", "cast,type=bf16"}, "a cast from i32 to bf16: one of them must be f32"},
    {{"f32 8"}, {"unary,kind=clip,alpha=2,beta=1 <a"}, "clip: the least, alpha=2, is more than the largest, beta=1"},
    {{"f32 8"}, {"unary,kind=celu,alpha=0 <a"}, "celu: alpha is 0"},
    {{"f32 8"}, {"dropout,rate=1 <a"}, "rate 1 must be at least 0 and below 1"},
    {{"i32 8"}, {"compare,kind=less,alpha=0.5 <a"}, "alpha 0.5: whole numbers are compared with a whole number"},
    {{"f32 8", "i32 8"}, {"compare,kind=less <a b"}, "values of f32 and i32: two of one type are accepted"},
    {{"f32 8"}, {"compare,kind=isnan <a a"}, "isnan: of one value"},
    {{"f32 8"}, {"compare,kind=isinf <a a"}, "isinf: of one value"},
    {{"i32 8x2"}, {"logical,kind=not <a a"}, "not: 2 inputs; 1 is accepted"},
    {{"i32 8x2"}, {"logical,kind=xor <a"}, "xor: 1 inputs; 2 is accepted"},
    {{"i32 8x2", "f32 8x2"}, {"where <a a b"}, "values of i32 and f32: two of one type are accepted"},
    {{"f32 8x2"}, {"where <a a a"}, "its input 'a' is f32: i32 is accepted"},
    {{"f32 8", "f32 1"}, {"binary,kind=add,sides=8 <a b"}, "sides: of a parameter, beside one input; there are two"},
    {{"f32 8x1"}, {"binary,kind=mul,sides=8x2 <a"}, "its parameter may not be larger than its input of 8x1"},
    {{"f32 8x2"}, {"binary,kind=mul,sides=4x2 <a"}, "its inputs must have equal sides, or sides of 1, and have 8x2 and 4x2"},
    {{"f32 8x2"}, {"binary,kind=mul,sides=8x2,shape=8 <a"}, "a parameter of the shape 8 is no value of 8x2"},
    {{"f32 8"}, {"parameter,sides=2x3,shape=5"}, "a parameter of the shape 5 is no value of 2x3"},
    {{"f32 8"}, {"parameter,sides=2,scalar=true"}, "scalar: a parameter without sides is a value of 1, not of 2"},
    {{"f32 8"}, {"parameter,sides=2x3,type=bf16"}, "type bf16: f32, and with trained=false i32, is accepted"},
    {{"f32 8"}, {"parameter,sides=2x3,type=i32"}, "type i32: f32, and with trained=false i32, is accepted"},
    {{"f32 8"}, {"parameter,sides=2x0"}, "sides: 0 is not an integer from 1"},
    /* losses */
    {{"f32 3x8x8"}, {"flatten <a", "mse"}, "its input is a flattened image: put a linear layer between"},
    {{"f32 3x8x8"}, {"flatten <a", "bce"}, "its input is a flattened image: put a linear layer between"},
    {{"f32 3x8x8"}, {"flatten <a", "cross_entropy"}, "its input is a flattened image: put a linear layer between"},
    {{"f32 8"}, {"cross_entropy,smoothing=1 <a"}, "label smoothing 1 must be at least 0 and below 1"},
};

/* "3x8x8" */
static int read_sides(const char *text, int64_t sides[6]) {
    int rank = 0;
    for (char *end; rank < 6; text = end + 1) {
        sides[rank++] = strtoll(text, &end, 10);
        if (*end != 'x') break;
    }
    return rank;
}

/* The inputs and nodes of a row, whose numbers `numbers` gets; returns how many there are. */
static int build(struct ps_network_builder *builder, const char *const inputs[4], const char *const nodes[4], int numbers[16]) {
    int count = 0;
    assert_non_null(builder);
    for (int i = 0; i < 4 && inputs[i]; i++) {
        int64_t sides[6];
        const int rank = read_sides(inputs[i] + 4, sides);
        numbers[count++] = ps_network_builder_input(builder, (const char[]){(char)('a' + i), '\0'},
                                                    inputs[i][0] == 'f' ? "f32" : "i32", sides, rank);
    }
    for (int n = 0; n < 4 && nodes[n]; n++) {
        char text[128];
        int taken[8], taken_count = 0;
        snprintf(text, sizeof text, "%s", nodes[n]);
        char *after = strstr(text, " <");
        for (char *name = after; name && (name = strpbrk(name, "abcdefgh"));) taken[taken_count++] = numbers[*name++ - 'a'];
        if (after) *after = '\0';
        numbers[count++] = ps_network_builder_node(builder, (const char[]){(char)('n' + n), '\0'}, text, taken, taken_count);
    }
    return count;
}

static void test_refused(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_network_builder *builder = ps_network_builder_create("refused");
        struct ps_network *network;
        int numbers[16];
        build(builder, cases[c].inputs, cases[c].nodes, numbers);
        print_message("%s\n", cases[c].nodes[0]);
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, cases[c].said);
    }
}

/* Networks that are made in C have attributes of which nobody has checked the range. */
static void test_attributes(void **state) {
    (void)state;
    static const struct {
        enum operator_id id;
        const char *input;
        struct attributes attributes;
        const char *said;
    } wrong[] = {
        {OPERATOR_LINEAR, "8", {.channels = 0}, "0 output features: at least 1 is needed"},
        {OPERATOR_CONVOLUTION,
         "3x8x8",
         {.channels = 0, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1},
         "0 output channels: at least 1 is needed"},
        {OPERATOR_CONVOLUTION,
         "3x8x8",
         {.channels = 3, .kernel_h = 3, .kernel_w = 3, .groups = -1},
         "-1 groups do not divide 3 input and 3 output channels"},
        {OPERATOR_CONVOLUTION, "3x8x8", {.channels = 3, .kernel_h = 0, .kernel_w = 3}, "kernel 0, stride 1, dilation 1"},
        {OPERATOR_CONVOLUTION,
         "3x8x8",
         {.channels = 3, .kernel_h = 3, .kernel_w = 3, .stride_w = -1},
         "kernel 3, stride -1, dilation 1"},
        {OPERATOR_MAX_POOL, "3x8x8", {.kernel_h = 2, .kernel_w = 2, .dilation_h = -1}, "kernel 2, stride 2, dilation -1"},
        {OPERATOR_MAX_POOL,
         "3x8x8",
         {.kernel_h = 2, .kernel_w = 2, .pad_w = -1, .pad_extra_w = 1},
         "padding -1 before and 0 after"},
        {OPERATOR_DECONVOLUTION,
         "3x8x8",
         {.channels = 3, .kernel_h = 3, .kernel_w = 3, .output_pad_w = -1},
         "output_pad 0x-1: it must be below the stride of 1x1"},
        {OPERATOR_RESIZE, "3x8x8", {.out_h = 4}, "out 4x0: an image has at least one pixel"},
        {OPERATOR_RESIZE, "3x8x8", {.out_w = 4}, "out 0x4: an image has at least one pixel"},
        {OPERATOR_BATCH_NORM,
         "3x8x8",
         {.epsilon = -1, .momentum = 0.5f},
         "epsilon -1 must not be negative, momentum 0.5 be from 0 to 1"},
        {OPERATOR_BATCH_NORM,
         "3x8x8",
         {.epsilon = 0.5f, .momentum = -1},
         "epsilon 0.5 must not be negative, momentum -1 be from 0 to 1"},
        {OPERATOR_BATCH_NORM,
         "3x8x8",
         {.epsilon = 0.5f, .momentum = 1.5f},
         "epsilon 0.5 must not be negative, momentum 1.5 be from 0 to 1"},
        {OPERATOR_LAYER_NORM, "8x5x1", {.epsilon = -1}, "epsilon -1 must not be negative"},
        {OPERATOR_GROUP_NORM, "8x5x1", {.groups = -1}, "-1 groups do not share 8 channels equally"},
        {OPERATOR_LOCAL_RESPONSE_NORM, "3x8x8", {.alpha = 2}, "window 0, alpha 2, beta 0, shift 0: a window from 1, and none"},
        {OPERATOR_LOCAL_RESPONSE_NORM, "3x8x8", {.window = 5, .alpha = -1}, "window 5, alpha -1, beta 0, shift 0: a window"},
        {OPERATOR_LOCAL_RESPONSE_NORM, "3x8x8", {.window = 5, .beta = -1}, "window 5, alpha 0, beta -1, shift 0: a window"},
        {OPERATOR_LOCAL_RESPONSE_NORM, "3x8x8", {.window = 5, .shift = -1}, "window 5, alpha 0, beta 0, shift -1: a window"},
        {OPERATOR_ATTENTION, "24x5x1", {.heads = 2, .scale = -1}, "scale -1 and cap 0 must not be negative"},
        {OPERATOR_ATTENTION, "24x5x1", {.heads = 2, .cap = -1}, "scale 0 and cap -1 must not be negative"},
        {OPERATOR_ATTENTION, "24x5x1", {.heads = 2, .rate = -0.5f}, "rate -0.5 must be at least 0 and below 1"},
        {OPERATOR_DROPOUT, "8", {.rate = -0.5f}, "rate -0.5 must be at least 0 and below 1"},
        {OPERATOR_CROSS_ENTROPY, "8", {.smoothing = -0.5f}, "label smoothing -0.5 must be at least 0 and below 1"},
        {OPERATOR_LSTM, "8x5x1", {.channels = 0}, "a hidden size of 0: at least 1 is needed"},
        {OPERATOR_GRU, "8x5x1", {.channels = -1}, "a hidden size of -1: at least 1 is needed"},
        {OPERATOR_ROTARY, "8x5x1", {.heads = 0}, "0 heads do not share 8 features equally"},
        {OPERATOR_POSITION_EMBEDDING, "8x5x1", {.everywhere = true}, "0 vectors for 5 positions: at least one each is needed"},
        {OPERATOR_OPAQUE, "8", {.time = {.backward_weight_s = -1}}, "times of 0, 0, -1 and 0 s must not be negative"},
        {OPERATOR_OPAQUE, "8", {.sum_s = -1}, "times of 0, 0, 0 and 0 s must not be negative"},
        {OPERATOR_OPAQUE, "8", {.value_bytes = -1}, "sizes of -1, 0 and 0 bytes must not be negative"},
        {OPERATOR_OPAQUE, "8", {.value_bytes = 1, .parameter_bytes = -1}, "sizes of 1, -1 and 0 bytes must not be negative"},
        {OPERATOR_OPAQUE, "8", {.value_bytes = 1, .inner_bytes = -1}, "sizes of 1, 0 and -1 bytes must not be negative"},
        {OPERATOR_EMBEDDING,
         "i32 5",
         {.channels = 0, .vocabulary = 9},
         "0 features for 9 tokens: at least 1 of each is needed"},
        {OPERATOR_EMBEDDING,
         "i32 5",
         {.channels = 9, .vocabulary = 0},
         "9 features for 0 tokens: at least 1 of each is needed"},
        {OPERATOR_EMBEDDING,
         "i32 5",
         {.channels = 3, .vocabulary = 9, .padded = true, .padding = -1},
         "padding token -1: the tokens are 0 to 8"},
        {OPERATOR_PARAMETER, "8", {.trained = true}, "a parameter without sides"},
    };
    for (size_t w = 0; w < sizeof wrong / sizeof *wrong; w++) {
        struct ps_network_builder *builder = ps_network_builder_create("wrong");
        const bool whole = wrong[w].input[0] == 'i';
        int64_t sides[6];
        const int rank = read_sides(wrong[w].input + (whole ? 4 : 0), sides), inputs[] = {0};
        assert_non_null(builder);
        assert_int_equal(ps_network_builder_input(builder, "a", whole ? "i32" : "f32", sides, rank), 0);
        assert_int_equal(graph_add(builder->graph, wrong[w].id, "n", &wrong[w].attributes, inputs,
                                   wrong[w].id == OPERATOR_PARAMETER ? 0 : 1, &test_error),
                         -1);
        assert_status(builder->graph->status, PS_USAGE, wrong[w].said);
        ps_network_builder_destroy(builder);
    }
}

/* ---------------------------------------------------------------- what is made */

/* The last node of each is of the operator that the row is about; with `kind=%s`, one of each kind there is. */
static const struct {
    const char *inputs[4], *nodes[4];
} made[] = {
    {{"f32 3x8x6"}, {"convolution,channels=4,kernel=3x2 <a"}},
    {{"f32 4x9x9"}, {"convolution,channels=6,kernel=3,stride=2,pad=1,pad_extra=1,groups=2,dilation=2,bias=0 <a"}},
    {{"f32 4x9x1"}, {"convolution,channels=6,kernel=3x1,dims=1 <a"}},
    {{"f32 8"}, {"linear,channels=5 <a"}},
    {{"f32 8x5x1"}, {"linear,channels=3,bias=0,transposed=1 <a"}},
    {{"f32 3x8x6"}, {"flatten <a", "linear,channels=5"}},
    {{"f32 3x8x6"}, {"max_pool,kernel=2x3 <a"}},
    {{"f32 3x8x6"}, {"max_pool,kernel=3,stride=2,pad=1,ceiling=1,dilation=2 <a"}},
    {{"f32 3x8x6"}, {"average_pool,kernel=3x2,stride=2 <a"}},
    {{"f32 3x8x6"}, {"average_pool,out=3x4 <a"}},
    {{"f32 3x8x6"}, {"relu <a"}},
    {{"f32 3x8x6"}, {"batch_norm <a"}},
    {{"f32 3x8x6"}, {"add <a a a"}},
    {{"f32 3x8x6"}, {"unary,kind=%s,beta=2 <a"}},
    {{"f32 3x8x6", "f32 3x1x6"}, {"binary,kind=%s <a b"}},
    {{"f32 3x8x6"}, {"binary,kind=%s,sides=3x1x1,shape=3 <a"}},
    {{"f32 3x8x6"}, {"binary,kind=%s,sides=3x8x6,trained=0,swapped=1 <a"}},
    {{"f32 3"}, {"parameter,sides=2x3x4"}},
    {{"f32 3"}, {"parameter,sides=1,scalar=1"}},
    {{"f32 3"}, {"parameter,sides=2x3,trained=0,type=i32"}},
    {{"f32 3x8x6", "f32 2x8x6"}, {"concat <a b a"}},
    {{"f32 3x8x6", "f32 3x8x1"}, {"concat,axis=2 <a b"}},
    {{"f32 3x8x6"}, {"flatten <a"}},
    {{"f32 3x8x6"}, {"view,sides=24x6 <a"}},
    {{"f32 3x8x6"}, {"permute,order=2x0x1 <a"}},
    {{"f32 3x1x6"}, {"expand,sides=3x8x6 <a"}},
    {{"f32 4x2x3", "f32 5x1x4"}, {"matmul <a b"}},
    {{"f32 4x3", "f32 5x3"}, {"matmul,transpose_a=1 <a b", "matmul,transpose_b=1 <c c"}},
    {{"f32 3x4"}, {"matmul,transpose_a=1 <a a"}},
    {{"f32 3x8x6"}, {"softmax <a"}},
    {{"f32 3x8x6"}, {"log_softmax <a"}},
    {{"f32 3x8x6"}, {"reduce,kind=%s <a"}},
    {{"f32 3x8x6"}, {"reduce,kind=sum,axes=0x2 <a"}},
    {{"f32 3x8x6", "f32 3x1x1"}, {"compare,kind=less <a b"}},
    {{"f32 3x8x6"}, {"compare,kind=%s <a"}},
    {{"i32 3x8x6", "i32 3x1x1"}, {"logical,kind=xor <a b"}},
    {{"i32 3x8x6"}, {"logical,kind=not <a"}},
    {{"i32 1x8x6", "f32 3x8x1"}, {"where <a b b"}},
    {{"f32 3x8x6"}, {"dropout,rate=0.5 <a"}},
    {{"f32 8x5x1"}, {"cross_entropy <a"}},
    {{"f32 8x5x1"}, {"mse <a"}},
    {{"f32 8x5x1"}, {"l1 <a"}},
    {{"f32 8x5x1"}, {"bce <a"}},
    {{"i32 5"}, {"embedding,channels=3,vocabulary=9 <a"}},
    {{"i32 5"}, {"embedding,channels=3,vocabulary=9,padded=1,padding=2 <a"}},
    {{"f32 8x7x1"}, {"slice,first=1,count=3,step=2 <a"}},
    {{"f32 8x7x1"}, {"slice,axis=0,first=7,count=3,step=-2 <a"}},
    {{"f32 8x5x1"}, {"position_embedding,count=6 <a"}},
    {{"f32 8x5x1"}, {"position_embedding,count=2,everywhere=1 <a"}},
    {{"f32 8x5x1"}, {"layer_norm <a"}},
    {{"f32 8x5x1"}, {"layer_norm,weight=0,bias=0 <a"}},
    {{"f32 8x5x1"}, {"rms_norm <a"}},
    {{"f32 8x5x1"}, {"group_norm,groups=4,bias=0 <a"}},
    {{"f32 8x5x1"}, {"gelu <a"}},
    {{"f32 8x5x1"}, {"gelu,tanh_form=1 <a"}},
    {{"f32 24x5x1"}, {"attention,heads=2 <a"}},
    {{"f32 8x5x1", "f32 4x3x1", "f32 6x3x1", "i32 3"}, {"attention,heads=4,key_heads=2,rate=0.25 <a b c d"}},
    {{"f32 8x5x1"}, {"attention,heads=1,causal=1,first=1,count=2 <a a a"}},
    {{"f32 8x5x1"}, {"lstm,channels=4,layer=2,reverse=1 <a"}},
    {{"f32 8x5x1", "i32 5"}, {"gru,channels=4 <a b"}},
    {{"f32 8x5x1", "f32 8x3x1", "f32 6x3x1", "i32 3"}, {"additive_attention <a b c d"}},
    {{"f32 8x4x4"}, {"local_response_norm <a"}},
    {{"f32 8x4x4"}, {"local_response_norm,window=3,alpha=0.5,beta=0.25,shift=2 <a"}},
    {{"f32 8"}, {"cast,type=bf16 <a"}},
    {{"f32 3x8x6"}, {"deconvolution,channels=4,kernel=3x2 <a"}},
    {{"f32 4x5x5"}, {"deconvolution,channels=6,kernel=3,stride=3x2,pad=1,output_pad=2x1,groups=2,dilation=2,bias=0 <a"}},
    {{"f32 4x5x1"}, {"deconvolution,channels=6,kernel=3x1,pad_extra=1x0,dims=1 <a"}},
    {{"f32 8x5x1"}, {"rotary,heads=2 <a"}},
    {{"f32 8x5x1", "f32 2x5x1"}, {"rotary,heads=2 <a b b"}},
    {{"f32 3x8x6"}, {"resize,out=4x9 <a"}},
    {{"f32 3x8x6"}, {"resize,out=4,mode=linear <a"}},
    {{"f32 3x8x6"}, {"resize,out=4,mode=cubic <a"}},
    {{"f32 3x8x6"}, {"pad,before=1x2,after=0x-3x4 <a"}},
    {{"f32 3x8x6"}, {"pad,before=2x7,mode=reflect <a"}},
    {{"f32 3x8x6"}, {"pad,after=3x8,mode=wrap <a"}},
    {{"f32 3x8x6"}, {"pad,after=3x8,mode=edge <a"}},
};

static void add_parameter(struct text *text, const struct parameter *parameter) {
    static const char *const roles[] = {"", ", a statistic", ", fixed"};
    char shape[96];
    text_add(text, "    %s: %s, ", parameter->name, shape_text(&parameter->shape, shape));
    text_add(text, "%s %.6g%s", initial_names[parameter->initial.kind], (double)parameter->initial.value,
             roles[parameter->role]);
    if (parameter->zero_row > 0) text_add(text, ", row %lld is 0", (long long)parameter->zero_row - 1);
    text_add(text, "\n");
}

/* The last node's row, as it is written, what it gives, what it computes, and what memory and backward are like. */
static void add_made(struct text *text, const char *const inputs[4], const char *const nodes[4], bool used[OPERATOR_COUNT]) {
    static const char *const flags[] = {"starts a layer",
                                        "in place",
                                        "shares memory",
                                        "backward reads inputs",
                                        "backward reads the output",
                                        "keeps zeros",
                                        "a loss",
                                        "random",
                                        "moves",
                                        "backward reads whole numbers",
                                        "narrow",
                                        "rounds"};
    struct ps_network_builder *builder = ps_network_builder_create("made");
    char shape[96];
    int numbers[16];
    const int last = build(builder, inputs, nodes, numbers) - 1;
    if (builder->status != PS_OK) fail_msg("%s: %s", nodes[0], builder->error.message);
    struct graph *graph = builder->graph;
    struct node *node = &graph->nodes[numbers[last]];
    for (int i = 0; i < 4 && inputs[i]; i++) text_add(text, "%s%s", i > 0 ? ", " : "", inputs[i]);
    for (int n = 0; n < 4 && nodes[n]; n++) text_add(text, "; %s", nodes[n]);
    text_add(text, "\n    %s; ", shape_text(&node->shape, shape));
    text_add(text, "%.9g operations", node_flops(graph, node));
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
        if (node->flags & 1u << f) text_add(text, ", %s", flags[f]);
    text_add(text, "\n");
    for (int p = 0; p < node->parameter_count; p++) add_parameter(text, &graph->parameters[node->parameter_first + p]);
    used[node->id] = true;
    ps_network_builder_destroy(builder);
}

/* Accepted inputs, values and words. */
static void add_accepted(struct text *text, enum operator_id id) {
    const struct operator_type *op = operator_get(id);
    text_add(text, "%s: %d to %d inputs", op->name, op->inputs_min, op->inputs_max);
    for (int i = 0; i < op->inputs_max && i < 4; i++) {
        const unsigned some = op->types_of ? op->types_of(i, op->inputs_max) : op->types, types = some ? some : 1u << TYPE_F32;
        for (int t = 0, first = 1; t < TYPE_COUNT; t++)
            if (types & 1u << t) text_add(text, "%s%s", first ? ", " : " or ", number_types[t].name), first = 0;
    }
    text_add(text, "\n");
    for (const struct attribute *a = op->attributes; a < op->attributes + ATTRIBUTES_MAX && a->name; a++) {
        text_add(text, "    %s:", a->name);
        for (int w = 0; attribute_in_words(a) && w <= (int)a->high; w++) text_add(text, " %s", attribute_word(a, w));
        if (!attribute_in_words(a)) text_add(text, " %.9g to %.9g", a->low, a->high);
        if (!isnan(a->usual)) text_add(text, ", usually %.9g", a->usual);
        text_add(text, "\n");
    }
}

static void test_made(void **state) {
    (void)state;
    struct text text = {0};
    bool used[OPERATOR_COUNT] = {0};
    for (size_t m = 0; m < sizeof made / sizeof *made; m++) {
        const char *kinds = strstr(made[m].nodes[0], "kind=%s");
        if (!kinds) {
            add_made(&text, made[m].inputs, made[m].nodes, used);
            continue;
        }
        char name[32], line[128];
        enum operator_id id;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(made[m].nodes[0], ","), made[m].nodes[0]);
        assert_ok(operator_find(name, &id, &test_error));
        const struct attribute *kind = operator_get(id)->attributes;
        assert_string_equal(kind->name, "kind");
        for (int k = 0; k <= (int)kind->high; k++) {
            snprintf(line, sizeof line, "%.*skind=%s%s", (int)(kinds - made[m].nodes[0]), made[m].nodes[0],
                     attribute_word(kind, k), kinds + strlen("kind=%s"));
            add_made(&text, made[m].inputs, (const char *const[4]){line}, used);
        }
    }
    for (int id = 0; id < OPERATOR_COUNT; id++) {
        if (!operator_in_files((enum operator_id)id)) continue;
        if (!used[id]) fail_msg("%s: no row above makes one", operator_get((enum operator_id)id)->name);
        add_accepted(&text, (enum operator_id)id);
    }
    test_golden(TEST_DIRECTORY "/golden/operators.txt", text_take(&text));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused), cmocka_unit_test(test_attributes),
                                       cmocka_unit_test(test_made)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
