/* What each operator refuses of its inputs and attributes, in full words: a small network of a line or two each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    {{"f32 8"}, {"convolution,channels=4,kernel=3 <a"}, "its input must be an image (C, H, W), and is a vector of 8"},
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
    {{"f32 8x5x2"}, {"lstm,channels=4 <a"}, "its input must be a sequence (features x positions x 1), and is 8x5x2"},
    {{"i32 2x5x1"}, {"embedding,channels=3,vocabulary=9 <a"}, "its input must be tokens (1 x positions x 1), and is 2x5x1"},
    {{"i32 5"}, {"embedding,channels=3,vocabulary=9,padded=1,padding=9 <a"}, "padding token 9: the tokens are 0 to 8"},
    /* products */
    {{"f32 3x8x8"},
     {"flatten <a", "linear,channels=4,transposed=1"},
     "its input is a flattened image, and its weights are transposed: only one of both is accepted"},
    {{"f32 8", "f32 9"}, {"add <a b"}, "and have 8 and 9"},
    /* norms */
    {{"f32 3x8x8"}, {"flatten <a", "batch_norm"}, "its input is a flattened image: normalise before flattening"},
    {{"f32 3x8x8"}, {"flatten <a", "layer_norm"}, "its input is a flattened image: normalise before flattening"},
    {{"f32 8x5x1"}, {"layer_norm,weight=0,bias=1 <a"}, "it has a bias, but no weight"},
    {{"f32 6x5x1"}, {"group_norm,groups=4 <a"}, "4 groups do not share 6 channels equally"},
    {{"f32 6x5x1"}, {"batch_norm,epsilon=2 <a"}, "epsilon: 2 is not a number from 0 to 1"},
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
    {{"f32 8"}, {"parameter,sides=2x3,shape=5"}, "a parameter of the shape 5 is no value of 2x3"},
    {{"f32 8"}, {"parameter,sides=2x3,type=bf16"}, "type bf16: f32, and with trained=false i32, is accepted"},
    {{"f32 8"}, {"parameter,sides=2x3,type=i32"}, "type i32: f32, and with trained=false i32, is accepted"},
    {{"f32 8"}, {"parameter,sides=2x0"}, "sides: 0 is not an integer from 1"},
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

static void test_refused(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct ps_network_builder *builder = ps_network_builder_create("refused");
        struct ps_network *network;
        int numbers[16], count = 0;
        assert_non_null(builder);
        for (int i = 0; i < 4 && cases[c].inputs[i]; i++) {
            const char *text = cases[c].inputs[i];
            int64_t sides[6];
            const int rank = read_sides(text + 4, sides);
            numbers[count++] = ps_network_builder_input(builder, (const char[]){(char)('a' + i), '\0'},
                                                        text[0] == 'f' ? "f32" : "i32", sides, rank);
        }
        for (int n = 0; n < 4 && cases[c].nodes[n]; n++) {
            char text[128];
            int inputs[8], input_count = 0;
            snprintf(text, sizeof text, "%s", cases[c].nodes[n]);
            char *after = strstr(text, " <");
            for (char *name = after; name && (name = strpbrk(name, "abcdefgh"));)
                inputs[input_count++] = numbers[*name++ - 'a'];
            if (after) *after = '\0';
            numbers[count++] =
                ps_network_builder_node(builder, (const char[]){(char)('n' + n), '\0'}, text, inputs, input_count);
        }
        print_message("%s\n", cases[c].nodes[0]);
        assert_status(ps_network_builder_finish(builder, &network, &test_error), PS_USAGE, cases[c].said);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
