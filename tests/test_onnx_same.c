/*
 * One network written in two ways, the second in plain steps: both have the same loss and gradients. A line of a graph is
 * "output Operator input .. attribute=value ..": an input "i:1,2" is a constant of whole numbers, "-" is left out; an attribute
 * is as put_attribute takes it.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "chain.h"
#include "graph/network.h"
#include "graph/values.h"
#include "onnx/onnx.h"
#include "onnx_support.h"

enum { SAMPLES = 3, CLASSES = 4 };
enum { FLOAT = 1, FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16 }; /* ONNX's numbers */

/* Scores of the positions among each other; a condition that some meet, the first one always, as a number and as what is left
 * to 1; and the weighed mean. */
#define UNSEEN                                                                                                                 \
    "g ReduceSum x i:2 keepdims=0; h Unsqueeze g i:1; z Cast i:0 to=1; m1 Greater h z; c1 Cast i:1,0,0,0,0 to=9; "             \
    "m Or m1 c1; f Cast m to=1; e Cast i:1 to=1; j Sub e f; u Transpose x perm=[0,2,1]; s MatMul x u; "
#define WEIGHED "a Softmax w axis=-1; t MatMul a x; y ReduceSum t i:1 keepdims=0; p MatMul y o"

struct same {
    const char *name, *parameters[6]; /* "name 2,3" */
    const char *input;
    const char *graphs[2]; /* "1: ..": exported with a batch of 1 */
};

/* Whose nodes stay the same from version to version. */
static const struct same cases[] = {
    {"product of two values",
     {"w 6,4"},
     "5,6",
     {"s Einsum x x equation='bik,bjk->bij'; t MatMul s x; p Einsum t w equation='bik,ko->bo'",
      "u Transpose x perm=[0,2,1]; s MatMul x u; t MatMul s x; y ReduceSum t i:1 keepdims=0; p MatMul y w"}},
    {"sum over one input's letter, the output turned",
     {"w 6,4"},
     "5,6",
     {"t Einsum x w equation=' btk , ko '; q Einsum t equation='bot->otb'; p Einsum q equation='otb->bo'",
      "t MatMul x w; p ReduceSum t i:1 keepdims=0"}},
    {"blocks of pixels",
     {"w 3,4"},
     "12,2,3",
     {"s DepthToSpace x blocksize=2 mode='CRD'; d SpaceToDepth s blocksize=2; c GlobalAveragePool s; f Flatten c; "
      "g ReduceSum d i:1,2,3 keepdims=1; h Flatten g; m MatMul f w; p Add m h",
      "a Reshape x i:3,3,2,2,2,3; b Transpose a perm=[0,1,4,2,5,3]; s Reshape b i:3,3,4,6; c ReduceMean s axes=[2,3] "
      "keepdims=0; "
      "g ReduceSum x i:1,2,3 keepdims=1; h Flatten g; m MatMul c w; p Add m h"}},
    {"a parameter repeated for all samples",
     {"q 1,5,6", "w 6,6", "o 6,4"},
     "5,6",
     {"e Expand q i:3,5,6; l MatMul e w; u Transpose x perm=[0,2,1]; s MatMul l u; t MatMul s x; "
      "r Tile e i:1,2,1; c Concat t r axis=1; y ReduceMean c axes=[1] keepdims=0; p MatMul y o",
      "l MatMul q w; u Transpose x perm=[0,2,1]; s MatMul l u; t MatMul s x; y ReduceSum t i:1 keepdims=0; "
      "z ReduceSum q i:1 keepdims=0; z2 Add z z; k Add y z2; n Constant value_float=~15; d Div k n; p MatMul d o"}},
    {"nothing joined to something",
     {"w 6,4"},
     "5,6",
     {"e Slice x i:7 i:99 i:2; f Slice x i:5 i:0 i:1; c Concat e x axis=2; d Concat c f axis=1; t MatMul d w; "
      "p ReduceSum t i:1 keepdims=0",
      "t MatMul x w; p ReduceSum t i:1 keepdims=0"}},
    {"sums up to each place, places in many runs, and a constant of a second axis",
     {"w 6,4", "v 6,4"},
     "3,6",
     {"k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; e Expand r i:1,3,6; t Transpose x perm=[1,0,2]; l MatMul e v; "
      "c CumSum t i:0; q Tile i:2,0,1 i:48; f Gather c q axis=0; s ReduceMean f axes=[0] keepdims=0; m MatMul s w; "
      "n Add l m; p Squeeze n i:0",
      "k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; l MatMul r v; a Cast i:3,2,1 to=1; b Reshape a i:1,3,1; g Mul x b; "
      "s ReduceMean g axes=[1] keepdims=0; m MatMul s w; p Add l m"}},
    {"a constant made for all samples",
     {"w 6,4", "v 6,4"},
     "6",
     {"k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; e Expand r i:3,6; l MatMul e v; m MatMul x w; p Add l m",
      "k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:1,6; l MatMul r v; m MatMul x w; p Add l m"}},
    {"products of constants",
     {"w 6,4"},
     "6",
     {"k Cast i:1,2,3,4,5,6 to=1; r Reshape k i:2,3; t Transpose r perm=[1,0]; g MatMul r t; h Reshape g i:1,4; m MatMul x w; "
      "p Add m h",
      "g Cast i:14,32,32,77 to=1; h Reshape g i:1,4; m MatMul x w; p Add m h"}},
    {"products of constant vectors and matrices",
     {"w 6,4"},
     "6",
     {"k Cast i:1,2,3 to=1; c Cast i:1,2,3,4,5,6 to=1; r Reshape c i:3,2; g MatMul k r; t Transpose r perm=[1,0]; "
      "q MatMul t k; n Concat g q axis=0; h Reshape n i:1,4; m MatMul x w; p Add m h",
      "n Cast i:22,28,22,28 to=1; h Reshape n i:1,4; m MatMul x w; p Add m h"}},
    {"each sample's rows of those of all",
     {"w 6,4"},
     "5,6",
     {"r Reshape x i:15,6; j Reshape i:1,4,6,9,11,14 i:3,2; a Gather r j; s ReduceSum a i:1 keepdims=0; p MatMul s w",
      "a Gather x i:1,4 axis=1; s ReduceSum a i:1 keepdims=0; p MatMul s w"}},
    {"each sample's rows, the samples behind the rows",
     {"w 6,4"},
     "5,6",
     {"r Reshape x i:15,6; j Reshape i:4,9,14,1,6,11 i:2,3; a Gather r j; s ReduceSum a i:0 keepdims=0; p MatMul s w",
      "a Gather x i:4,1 axis=1; s ReduceSum a i:1 keepdims=0; p MatMul s w"}},
    {"each sample's columns of those of all",
     {"w 6,4"},
     "5,6",
     {"r Reshape x i:15,6; u Transpose r perm=[1,0]; j Reshape i:1,3,4,6,8,9,11,13,14 i:3,3; a Gather u j axis=1; "
      "t Transpose a perm=[1,2,0]; s ReduceSum t i:1 keepdims=0; p MatMul s w",
      "a Gather x i:1,3,4 axis=1; s ReduceSum a i:1 keepdims=0; p MatMul s w"}},
    {"a parameter of six dimensions",
     {"w 6,4", "v 1,1,1,1,1,4"},
     "6",
     {"m MatMul x w; k Squeeze v i:0,1,2,3,4; p Add m k", "m MatMul x w; k Reshape v i:1,4; p Add m k"}},
    {"an output made larger at its ends, by the sides",
     {"v 2,4,3,3", "w 4,4"},
     "2,3,4",
     {"c ConvTranspose x v strides=[2,2] pads=[1,0,1,1] output_padding=[0,1]; g GlobalMaxPool c; f Flatten g; p MatMul f w",
      "c ConvTranspose x v strides=[2,2] pads=[1,0,1,0]; g GlobalMaxPool c; f Flatten g; p MatMul f w"}},
    {"windows of one element",
     {"w 12,4"},
     "12,2,3",
     {"a AveragePool x kernel_shape=[1,1]; m MaxPool a kernel_shape=[1,1] strides=[1,1]; g GlobalAveragePool m; f Flatten g; "
      "p MatMul f w",
      "g GlobalAveragePool x; f Flatten g; p MatMul f w"}},
    {"one number for each sample, with and without a dimension of its own",
     {"w 6,1"},
     "6",
     {"m MatMul x w; p Squeeze m i:1", "p MatMul x w"}},
    {"a smaller value that lies in another order than the larger",
     {"v 4,1,2", "w 4,4"},
     "4,3,2",
     {"a Mul x v; g GlobalAveragePool a; f Flatten g; p MatMul f w",
      "a Mul v x; g ReduceMean a axes=[2,3] keepdims=0; p MatMul g w"}},
    {"numbers of several values in the place of scores that are not seen",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:-2000000000,1,2,3,1 to=1; w Where m s v; " WEIGHED,
      UNSEEN "v Cast i:-2000000000,1,2,3,1 to=1; k Mul j v; q Mul s f; w Add q k; " WEIGHED}},
    {"scores that are not seen",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:-2000000000 to=1; w Where m s v; " WEIGHED,
      UNSEEN "v Cast i:-2000000000 to=1; k Mul j v; w Add s k; " WEIGHED}},
    {"scores in whose place far numbers stand",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:-2000000000 to=1; q Not m; w Where q v s; " WEIGHED,
      UNSEEN "v Cast i:-2000000000 to=1; k Mul j v; w Add s k; " WEIGHED}},
    {"scores in whose place far numbers stand for two reasons",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:-2000000000 to=1; q Not m; w1 Where q v s; i Cast i:0,0,0,1,0 to=9; w Where i v w1; " WEIGHED,
      UNSEEN "v Cast i:-2000000000 to=1; k Mul j v; w1 Add s k; i Cast i:0,0,0,1,0 to=1; l Mul i v; w Add w1 l; " WEIGHED}},
    {"images of the size that they are to have",
     {"w 2,4"},
     "2,3,4",
     {"r Resize x - - i:3,2,3,4 antialias=1 mode='cubic'; t Tanh r; g GlobalAveragePool t; f Flatten g; p MatMul f w",
      "t Tanh x; g GlobalAveragePool t; f Flatten g; p MatMul f w"}},
    {"a clip of constants",
     {"w 6,4"},
     "6",
     {"k Clip i:-3,0,2,9,1,7 i:0 i:5; l Clip k - i:4; f Cast l to=1; a Add x f; p MatMul a w",
      "f Cast i:0,0,2,4,1,4 to=1; a Add x f; p MatMul a w"}},
    {"a mask of several values",
     {"o 6,4"},
     "5,6",
     {UNSEEN "v Cast i:0,1,2,0,1 to=1; n Cast i:-2000000000 to=1; k Where m v n; w Add s k; " WEIGHED,
      UNSEEN "v Cast i:0,1,2,0,1 to=1; n Cast i:-2000000000 to=1; a2 Mul f v; b2 Mul j n; k Add a2 b2; w Add s k; " WEIGHED}},
    {"gates put in another order",
     {"w 1,8,6", "r 1,8,2", "o 2,4"},
     "5,6",
     {"a Slice w i:0 i:2 i:1; b Slice w i:2 i:4 i:1; c Slice w i:4 i:8 i:1; k Concat a c b axis=1; "
      "y LSTM x k r hidden_size=2 layout=1; q Squeeze y i:2; t ReduceSum q i:1 keepdims=0; p MatMul t o",
      "k Gather w i:0,1,4,5,6,7,2,3 axis=1; "
      "y LSTM x k r hidden_size=2 layout=1; q Squeeze y i:2; t ReduceSum q i:1 keepdims=0; p MatMul t o"}},
    {"attention of one operator, and in its steps",
     {"o 6,4"},
     "5,6",
     {"t Attention x x x q_num_heads=2 kv_num_heads=2; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "v Reshape x i:3,5,2,3; q Transpose v perm=[0,2,1,3]; k Transpose v perm=[0,2,3,1]; s MatMul q k; "
      "n Constant value_float=~0.57735027; m Mul s n; w Softmax m axis=-1; z MatMul w q; u Transpose z perm=[0,2,1,3]; "
      "t Reshape u i:3,5,6; y ReduceSum t i:1 keepdims=0; p MatMul y o"}},
    {"truth values made truth values again, and whole numbers",
     {"w 6,4"},
     "6",
     {"m IsNaN x; n Not m; t Cast n to=9; z Cast i:0 to=1; g Greater x z; v And g n; h Cast v to=9; k Cast v to=7; a Add k k; "
      "l Cast m to=9; u Cast l to=7; d Sub a u; e Cast d to=1; f Cast t to=1; j Cast h to=1; y Add e f; i Add y j; q Mul x i; "
      "p MatMul q w",
      "z Cast i:0 to=1; g Greater x z; k Cast g to=1; b Add k k; c Add b k; e Cast i:1 to=1; y Add c e; q Mul x y; "
      "p MatMul q w"}},
    {"a product with its sum, weighed",
     {"w 6,4", "b 4"},
     "6",
     {"p Gemm x w b alpha=~0.5 beta=~3.0",
      "m MatMul x w; n Constant value_float=~0.5; k Constant value_float=~3.0; h Mul m n; c Mul b k; p Add h c"}},
    {"what is repeated, cut where its elements do not end",
     {"w 4,4"},
     "6",
     {"e Unsqueeze x i:2; f Expand e i:3,6,2; r Reshape f i:3,4,3; s ReduceSum r i:2 keepdims=0; p MatMul s w",
      "g Gather x i:0,0,1,1,2,2,3,3,4,4,5,5 axis=1; r Reshape g i:3,4,3; s ReduceSum r i:2 keepdims=0; p MatMul s w"}},
    {"what is turned, cut where its elements do not end",
     {"w 3,4"},
     "4,6",
     {"t Transpose x perm=[0,2,1]; r Reshape t i:3,8,3; s ReduceMean r axes=[1] keepdims=0; p MatMul s w",
      "f Flatten x; g Gather f i:0,6,12,18,1,7,13,19 axis=1; h Gather f i:2,8,14,20,3,9,15,21 axis=1; "
      "j Gather f i:4,10,16,22,5,11,17,23 axis=1; c Concat g h j axis=1; r Reshape c i:3,8,3; s ReduceMean r axes=[1] "
      "keepdims=0; "
      "p MatMul s w"}},
    {"seven dimensions in reverse order: more than a permute has sides",
     {"w 4,128"},
     "128",
     {"a Reshape x i:3,2,2,2,2,2,2,2; t Transpose a perm=[0,7,6,5,4,3,2,1]; r Reshape t i:3,128; p Gemm r w transB=1",
      "a Reshape x i:3,16,8; g Gather a i:0,8,4,12,2,10,6,14,1,9,5,13,3,11,7,15 axis=1; h Gather g i:0,4,2,6,1,5,3,7 axis=2; "
      "t Transpose h perm=[0,2,1]; r Reshape t i:3,128; p Gemm r w transB=1"}},
};

/* Constants that the file works out, "c" of four numbers, and these. */
#define A "a Cast i:-7,-2,3,8 to=1; "
#define U "u Constant value_floats=~-1.5,0.25,2.5,3; "
#define GRID "k Cast i:-1,2,-3,-4,5,-6,-7,-8 to=1; g Reshape k i:4,2; "

static const struct {
    const char *graph, *numbers;
} constants[] = {
    {U "c Neg u", "1.5,-0.25,-2.5,-3"},
    {"c Neg i:-7,-2,3,0", "7,2,-3,0"},
    {U "c Abs u", "1.5,0.25,2.5,3"},
    {U "a Abs u; c Sqrt a", "1.22474487,0.5,1.58113883,1.73205081"},
    {U "c Exp u", "0.22313016,1.28402542,12.18249396,20.08553692"},
    {U "a Abs u; c Log a", "0.40546511,-1.38629436,0.91629073,1.09861229"},
    {U "c Reciprocal u", "-0.66666667,4,0.4,0.33333333"},
    {U "c Sin u", "-0.99749499,0.24740396,0.59847214,0.14112001"},
    {U "c Cos u", "0.0707372,0.96891242,-0.80114362,-0.9899925"},
    {U "c Floor u", "-2,0,2,3"},
    {U "c Ceil u", "-1,1,3,3"},
    {U "c Round u", "-2,0,2,3"},
    {"a Cast i:-7,0,1,8 to=1; c Sign a", "-1,0,1,1"},
    {U "c Tanh u", "-0.90514825,0.24491866,0.9866143,0.99505475"},
    {U "c Sigmoid u", "0.18242552,0.5621765,0.92414182,0.95257413"},
    {U "c Erf u", "-0.96610515,0.27632639,0.99959305,0.99997791"},
    {U "c Relu u", "0,0.25,2.5,3"},
    {U "l Log u; c IsNaN l", "1,0,0,0"},
    {"t Cast i:0,1,5,0 to=9; c Not t", "1,0,0,1"},
    {A U "c Add a u", "-8.5,-1.75,5.5,11"},
    {A U "c Sub a u", "-5.5,-2.25,0.5,5"},
    {A U "c Mul a u", "10.5,-0.5,7.5,24"},
    {A U "c Div a u", "4.66666667,-8,1.2,2.66666667"},
    {A "e Cast i:2,3,-1,0 to=1; c Pow a e", "49,-8,0.33333333,1"},
    {A U "c Mod a u", "-1,0,0.5,2"},
    {"a Constant value_floats=~-7.5,7.5,-2,3; u Constant value_floats=~2,-2,3,2; c Mod a u", "0.5,-0.5,1,1"},
    {"a Constant value_floats=~-7.5,7.5,-2,3; u Constant value_floats=~2,-2,3,2; c Mod a u fmod=1", "-1.5,1.5,-2,1"},
    {A U "c Max a u", "-1.5,0.25,3,8"},
    {A U "c Min a u", "-7,-2,2.5,3"},
    {A U "c Max a u u a", "-1.5,0.25,3,8"},
    {A "c Sum a a a", "-21,-6,9,24"},
    {"c Add i:-7,-2,3,8 i:2,-3,-2,0", "-5,-5,1,8"},
    {"c Sub i:-7,-2,3,8 i:2,-3,-2,0", "-9,1,5,8"},
    {"c Mul i:-7,-2,3,8 i:2,-3,-2,0", "-14,6,-6,0"},
    {"c Div i:-7,-2,3,8 i:2,-3,-2,0", "-3,0,-1,0"},
    {"c Div i:-7,-2,3,8 i:-1", "7,2,-3,-8"},
    {"c Mod i:-7,-2,3,8 i:2,-3,-2,0", "1,-2,-1,0"},
    {"c Mod i:-7,6,3,-8 i:7,3,-1,5", "0,0,0,2"},
    {"c Mod i:-7,-2,3,8 i:2,-3,-2,0 fmod=1", "-1,-2,1,0"},
    {"c Mod i:-7,-2,3,8 i:-1 fmod=1", "0,0,0,0"},
    {"c Pow i:-7,-2,3,8 i:2,3,4,0", "49,-8,81,1"},
    {"c Max i:-7,-2,3,8 i:2,-3,3,9", "2,-2,3,9"},
    {"c Min i:-7,-2,3,8 i:2,-3,3,9", "-7,-3,3,8"},
    {"c Equal i:1,2,3,4 i:2,2,2,4", "0,1,0,1"},
    {"c Less i:1,2,3,4 i:2,2,2,4", "1,0,0,0"},
    {"c LessOrEqual i:1,2,3,4 i:2,2,2,4", "1,1,0,1"},
    {"c Greater i:1,2,3,4 i:2,2,2,4", "0,0,1,0"},
    {"c GreaterOrEqual i:1,2,3,4 i:2,2,2,4", "0,1,1,1"},
    {A "b Cast i:-7,3,-2,8 to=1; c Equal a b", "1,0,0,1"},
    {A "b Cast i:-7,3,-2,8 to=1; c Less a b", "0,1,0,0"},
    {A "b Cast i:-7,3,-2,8 to=1; c LessOrEqual a b", "1,1,0,1"},
    {A "b Cast i:-7,3,-2,8 to=1; c Greater a b", "0,0,1,0"},
    {A "b Cast i:-7,3,-2,8 to=1; c GreaterOrEqual a b", "1,0,1,1"},
    {"a Cast i:0,0,1,1 to=9; b Cast i:0,1,0,1 to=9; c And a b", "0,0,0,1"},
    {"a Cast i:0,0,1,1 to=9; b Cast i:0,1,0,1 to=9; c Or a b", "0,1,1,1"},
    {"a Cast i:0,0,1,1 to=9; b Cast i:0,1,0,1 to=9; c Xor a b", "0,1,1,0"},
    {"a Cast i:0,1,1,0 to=9; c Where a i:1,2,3,4 i:5,6,7,8", "5,2,3,8"},
    {"a Cast i:0,1 to=9; b Reshape a i:2,1; d Reshape i:1,2 i:1,2; e Where b d i:7; c Reshape e i:4", "7,7,1,2"},
    {"a Cast i:1,2,3,4 to=1; c CumSum a i:0", "1,3,6,10"},
    {"a Cast i:1,2,3,4 to=1; c CumSum a i:0 exclusive=1", "0,1,3,6"},
    {"c CumSum i:1,2,3,4 i:0 reverse=1", "10,9,7,4"},
    {"c CumSum i:1,2,3,4 i:0 reverse=1 exclusive=1", "9,7,4,0"},
    {"a Reshape i:1,2,3,4 i:2,2; b CumSum a i:0; c Reshape b i:4", "1,2,4,6"},
    {"a Reshape i:1,2,3,4 i:2,2; b CumSum a i:-1; c Reshape b i:4", "1,3,3,7"},
    {"a Reshape i:1,2,3,4 i:2,2; b Trilu a; c Reshape b i:4", "1,2,0,4"},
    {"a Reshape i:1,2,3,4 i:2,2; b Trilu a upper=0; c Reshape b i:4", "1,0,3,4"},
    {"a Reshape i:1,2,3,4 i:2,2; b Trilu a i:1; c Reshape b i:4", "0,2,0,0"},
    {"a Reshape i:1,2,3,4 i:2,2; b Trilu a i:-1 upper=0; c Reshape b i:4", "0,0,3,0"},
    {"a Reshape i:1,2,3,4,5,6 i:1,2,3; b Trilu a; d Slice b i:0 i:2 i:2; c Reshape d i:4", "1,2,0,5"},
    {GRID "c ReduceSum g i:1 keepdims=0", "1,-7,-1,-15"},
    {GRID "c ReduceProd g axes=[1] keepdims=0", "-2,12,-30,56"},
    {GRID "c ReduceMean g axes=[-1] keepdims=0", "0.5,-3.5,-0.5,-7.5"},
    {GRID "c ReduceMax g axes=[1] keepdims=0", "2,-3,5,-7"},
    {GRID "c ReduceMin g axes=[1] keepdims=0", "-1,-4,-6,-8"},
    {"g Reshape i:-1,2,-3,-4,5,-6,-7,-8 i:2,4; r ReduceMax g axes=[0] keepdims=1; c Squeeze r i:0", "5,2,-3,-4"},
    {"g Reshape i:-1,2,-3,-4,5,-6,-7,-8 i:2,4; c ReduceProd g axes=[0] keepdims=0", "-5,-12,21,32"},
    {"r ReduceProd i: keepdims=1; c Expand r i:4", "1,1,1,1"},
    {"k Cast i: to=1; r ReduceProd k keepdims=1; c Expand r i:4", "1,1,1,1"},
    {"r ReduceSum i: keepdims=1; c Expand r i:4", "0,0,0,0"},
    {"c Slice i:1,2,3,4,5,6 i:1 i:5", "2,3,4,5"},
    {"c Slice i:1,2,3,4,5,6 i:-5 i:-1", "2,3,4,5"},
    {"c Slice i:1,2,3,4,5,6,7 i:0 i:99 i:0 i:2", "1,3,5,7"},
    {"c Slice i:1,2,3,4 i:9 i:-9 i:0 i:-1", "4,3,2,1"},
    {"c Slice i:1,2,3,4,5,6,7,8 i:-1 i:0 i:0 i:-2", "8,6,4,2"},
    {"a Reshape i:1,2,3,4,5,6 i:2,3; b Slice a i:2 i:0 i:1 i:-1; c Reshape b i:4", "3,2,6,5"},
    {"a Slice i:1,2,3,4 i:3 i:9 i:0 i:-1; c Concat a i:1,2,3,4 axis=0", "1,2,3,4"},
    {"c Gather i:5,6,7 i:2,0,-1,-3", "7,5,7,5"},
    {"a Reshape i:1,2,3,4,5,6 i:2,3; b Gather a i:2,0 axis=1; c Reshape b i:4", "3,1,6,4"},
    {"a Reshape i:1,2,3,4,5,6 i:2,3; j Reshape i:1,2,-1,0,0,1,-2,-3 i:4,2; c GatherND a j", "6,4,2,1"},
    {"a Reshape i:1,2,3,4,5,6 i:3,2; j Reshape i:2,0 i:2,1; b GatherND a j; c Reshape b i:4", "5,6,1,2"},
    {"j Reshape i:2,0 i:2,1; c ScatterND i:1,2,3,4 j i:7,8", "8,2,7,4"},
    {"a Reshape i:1,2,3,4 i:2,2; j Reshape i:-1 i:1,1; u Reshape i:8,9 i:1,2; b ScatterND a j u; c Reshape b i:4", "1,2,8,9"},
    {"a Reshape i:1,2,3,4 i:2,2; j Reshape i:1,0,0,-1 i:2,2; b ScatterND a j i:8,9; c Reshape b i:4", "1,9,8,4"},
    {"a Reshape i:1,2,3,4,5,6 i:3,2; j Reshape i:2,0 i:2,1; u Reshape i:7,8,9,10 i:2,2; b ScatterND a j u; d Gather b i:0,2; "
     "c Reshape d i:4",
     "9,10,7,8"},
    {"a Reshape i:1,2,3,4 i:2,2; j Reshape i:1,0,-1,1 i:2,2; b GatherElements a j axis=1; c Reshape b i:4", "2,1,4,4"},
    {"a Reshape i:1,2,3,4 i:2,2; j Reshape i:1,0,-1,1 i:2,2; b GatherElements a j; c Reshape b i:4", "3,2,3,4"},
    {"a Reshape i:1,2,3,4 i:2,2; j Reshape i:1,0,-1,-2 i:4,1; b GatherElements a j; c Reshape b i:4", "3,1,3,1"},
    {"f Squeeze i:1; g Squeeze i:9; h Squeeze i:2; c Range f g h", "1,3,5,7"},
    {"f Squeeze i:1; g Squeeze i:-8; h Squeeze i:-3; r Range f g h; c Concat r i:9 axis=0", "1,-2,-5,9"},
    {"n Size x; m Reshape n i:1; c Expand m i:4", "18,18,18,18"},
    {"n Size i:4,5,6; m Reshape n i:1; c Expand m i:4", "3,3,3,3"},
    {"n Shape x; c Concat n n axis=0", "3,6,3,6"},
    {"n Shape x start=1; m Shape x end=-1; c Concat n m n m axis=0", "6,3,6,3"},
    {"n Shape x start=-1; m Shape x end=9; l Shape x start=1 end=0; c Concat l n m n axis=0", "6,3,6,6"},
    {"a Tile i:1,2 i:2; c Identity a", "1,2,1,2"},
    {"a Reshape i:1,2 i:2,1; b Tile a i:1,2; c Flatten b axis=0; d Identity c; e Reshape d i:4; c2 Identity e", "1,1,2,2"},
    {"a Reshape i:1,2,3,4,5,6,7,8 i:2,2,2; b Slice a i:0 i:1 i:0; d Reshape b i:0,-1; c Squeeze d i:0", "1,2,3,4"},
    {"a Slice i:1,2,3,4 i:0 i:-9; c Concat a i:1,2,3,4 axis=0", "1,2,3,4"},
    {"t Constant value_int=5; r Reshape t i:1; c Expand r i:4", "5,5,5,5"},
    {"f Constant value_float=~0.5; g Constant value_float=~2.5; c Range f g f", "0.5,1,1.5,2"},
    {"t Constant value_ints=[5,6]; s Constant value_float=~0.5; f Cast t to=1; r Reshape s i:1; e Concat f r r axis=0; c "
     "Identity e",
     "5,6,0.5,0.5"},
};

#undef A
#undef U
#undef GRID

/* Attention of q1, k1 and v1 with the mask m, in steps that nothing makes one again. */
#define SOFTMAX                                                                                                                \
    "q2 Reshape q1 i:3,5,2,3; q Transpose q2 perm=[0,2,1,3]; k2 Reshape k1 i:3,5,2,3; k Transpose k2 perm=[0,2,3,1]; "         \
    "v2 Reshape v1 i:3,5,2,3; v Transpose v2 perm=[0,2,1,3]; s MatMul q k; b Add s m; e Exp b; d ReduceSum e i:3 keepdims=1; " \
    "w Div e d; z MatMul w v; u Transpose z perm=[0,2,1,3]; t Reshape u i:3,5,6; y ReduceSum t i:1 keepdims=0; p MatMul y o"

/* What one operator computes, and several. */
static const struct same values[] = {
    {"SELU",
     {"w 6,4"},
     "6",
     {"s Selu x; p MatMul s w", "e Elu x alpha=~1.6732632; n Constant value_float=~1.0507010; s Mul e n; p MatMul s w"}},
    {"SELU of other numbers",
     {"w 6,4"},
     "6",
     {"s Selu x alpha=~2 gamma=~3; p MatMul s w", "e Elu x alpha=~2; n Constant value_float=~3; s Mul e n; p MatMul s w"}},
    {"SELU of another factor",
     {"w 6,4"},
     "6",
     {"s Selu x gamma=~3; p MatMul s w", "e Elu x alpha=~1.6732632; n Constant value_float=~3; s Mul e n; p MatMul s w"}},
    {"Swish", {"w 6,4"}, "6", {"s Swish x; p MatMul s w", "g Sigmoid x; s Mul x g; p MatMul s w"}},
    {"Swish of a steeper curve",
     {"w 6,4"},
     "6",
     {"s Swish x alpha=~4; p MatMul s w", "n Constant value_float=~4; y Mul x n; g Sigmoid y; s Mul x g; p MatMul s w"}},
    {"Clip",
     {"w 6,4"},
     "6",
     {"l Constant value_float=~-0.1; h Constant value_float=~0.15; a Clip x l h; b Clip x l; d Clip x - h; z Constant "
      "value_float=~0; e Clip x z; f Clip x; q Sum a b d e f; p MatMul q w",
      "l Constant value_floats=~-0.1,-0.1,-0.1,-0.1,-0.1,-0.1; h Constant value_floats=~0.15,0.15,0.15,0.15,0.15,0.15; b Max x "
      "l; "
      "d Min x h; a Min b h; e Relu x; q1 Add a b; q2 Add q1 d; q3 Add q2 e; q Add q3 x; p MatMul q w"}},
    {"Clip with bounds that bound nothing",
     {"w 6,4"},
     "6",
     {"i Constant value_float=~inf; n Constant value_float=~-inf; l Constant value_float=~-0.1; a Clip x l i; b Clip x n l; "
      "c Clip x n i; z Cast i:0 to=1; d Clip x z i; q Sum a b c d; p MatMul q w",
      "l Constant value_float=~-0.1; a Clip x l; b Clip x - l; d Relu x; q Sum a b x d; p MatMul q w"}},
    {"-infinity around what the largest values are taken of, and what a softmax is taken of",
     {"w 6,4", "v 6,4"},
     "6,5,3",
     {"n Constant value_float=~-inf; y Pad x i:0,0,1,1,0,0,1,1 n; m MaxPool y kernel_shape=[3,3] strides=[2,2]; "
      "g GlobalAveragePool m; f Flatten g; a MatMul f w; z Pad x i:0,0,0,0,0,0,2,0 n; s Softmax z axis=2; "
      "k Slice s i:0 i:5 i:2; h GlobalMaxPool k; e Flatten h; b MatMul e v; p Add a b",
      "m MaxPool x kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1]; g GlobalAveragePool m; f Flatten g; a MatMul f w; "
      "s Softmax x axis=2; h GlobalMaxPool s; e Flatten h; b MatMul e v; p Add a b"}},
    {"several values at once",
     {"w 6,4", "v 6"},
     "6",
     {"n Neg x; y Mul x v; a Max n x y; b Min n x y; c Mean n x y; d Sum n x y; e Mean a b; q Sum a b c d e; p MatMul q w",
      "n Neg x; y Mul x v; a1 Max n x; a Max a1 y; b1 Min n x; b Min b1 y; k Constant value_float=~3; h Constant "
      "value_float=~2; d Mul x v; c Div d k; e1 Add a b; e Div e1 h; q1 Add a b; q2 Add q1 c; q3 Add q2 d; q Add q3 e; "
      "p MatMul q w"}},
    {"PReLU",
     {"w 6,4", "v 6"},
     "6",
     {"a PRelu x v; p MatMul a w", "z Cast i:0 to=1; g Greater x z; t Mul x v; a Where g x t; p MatMul a w"}},
    {"Not",
     {"w 6,4"},
     "6",
     {"z Cast i:0 to=1; g Greater x z; n Not g; f Cast n to=1; p MatMul f w",
      "z Cast i:0 to=1; g LessOrEqual x z; f Cast g to=1; p MatMul f w"}},
    {"exclusive or",
     {"w 6,4"},
     "6",
     {"z Cast i:0 to=1; k Constant value_float=~0.1; g Greater x z; h Greater x k; n Xor g h; f Cast n to=1; p MatMul f w",
      "z Cast i:0 to=1; k Constant value_float=~0.1; g Greater x z; h LessOrEqual x k; n And g h; f Cast n to=1; p MatMul f "
      "w"}},
    {"whole numbers",
     {"w 6,4"},
     "6",
     {"n Constant value_float=~40; y Mul x n; k Cast y to=7; d Div k i:3; s Pow k i:2; a Add d s; b Mul a i:2; e Abs b; "
      "f Cast e to=1; p MatMul f w",
      "n Constant value_float=~40; y Mul x n; k Cast y to=7; l Cast k to=1; t Constant value_float=~3; d1 Div l t; "
      "d2 Cast d1 to=7; d Cast d2 to=1; s Mul l l; a Add d s; b Add a a; f Abs b; p MatMul f w"}},
    {"rows put in the place of others, for all samples",
     {"w 6,4", "v 6,6"},
     "5,6",
     {"l MatMul x v; u Slice l i:0 i:2 i:1; j Reshape i:3,-4 i:1,2,1; k Expand j i:3,2,6; s ScatterElements x k u axis=1; "
      "t Tanh s; c Constant value_floats=~1,2,3,4,5; d Reshape c i:5,1; m Mul t d; y ReduceSum m i:1 keepdims=0; p MatMul y w",
      "l MatMul x v; a Slice x i:0 i:1 i:1; b Slice l i:1 i:2 i:1; e Slice x i:2 i:3 i:1; f Slice l i:0 i:1 i:1; "
      "g Slice x i:4 i:5 i:1; s Concat a b e f g axis=1; t Tanh s; c Constant value_floats=~1,2,3,4,5; d Reshape c i:5,1; "
      "m Mul t d; y ReduceSum m i:1 keepdims=0; p MatMul y w"}},
    {"places named for each sample, and each of the columns",
     {"w 6,4", "v 6,6"},
     "5,6",
     {"l MatMul x v; u Slice l i:1 i:3 i:1; j Reshape i:0,4,0,1,1,4,1,1,2,4,2,1 i:3,2,2; s ScatterND x j u; t Tanh s; "
      "c Constant value_floats=~1,2,3,4,5; d Reshape c i:5,1; m Mul t d; y ReduceSum m i:1 keepdims=0; p MatMul y w",
      "l MatMul x v; a Slice x i:0 i:1 i:1; b Slice l i:2 i:3 i:1; e Slice x i:2 i:4 i:1; f Slice l i:1 i:2 i:1; "
      "s Concat a b e f axis=1; t Tanh s; c Constant value_floats=~1,2,3,4,5; d Reshape c i:5,1; m Mul t d; "
      "y ReduceSum m i:1 keepdims=0; p MatMul y w"}},
    {"a diagonal of zeros",
     {"w 4,4"},
     "4,4",
     {"t Transpose x perm=[1,2,0]; j Reshape i:0,0,1,1,2,2,3,3 i:4,2; z Cast i:0 to=1; u Expand z i:4,3; s ScatterND t j u; "
      "r Transpose s perm=[2,0,1]; y ReduceSum r i:1 keepdims=0; p MatMul y w",
      "c Constant value_floats=~0,1,1,1,1,0,1,1,1,1,0,1,1,1,1,0; d Reshape c i:4,4; m Mul x d; y ReduceSum m i:1 keepdims=0; "
      "p MatMul y w"}},
    {"put in a constant that is made for all samples",
     {"w 4,4"},
     "1",
     {"z Cast i:0 to=1; c Expand z i:3,2,2; j Reshape i:0,1,0,1,1,0,2,1,0 i:3,1,3; s ScatterND c j x; f Flatten s; p MatMul f "
      "w",
      "z Sub x x; q Concat z z x z axis=1; p MatMul q w"}},
    {"added in places",
     {"w 6,4", "v 6,6"},
     "5,6",
     {"l MatMul x v; j Reshape i:1,1,0,4,1 i:1,5,1; k Expand j i:3,5,6; s ScatterElements x k l axis=1 reduction='add'; "
      "t Tanh s; y ReduceSum t i:1 keepdims=0; p MatMul y w",
      "l MatMul x v; c Constant value_floats=~0,0,1,0,0,1,1,0,0,1,0,0,0,0,0,0,0,0,0,0,0,0,0,1,0; d Reshape c i:5,5; "
      "a MatMul d l; s Add x a; t Tanh s; y ReduceSum t i:1 keepdims=0; p MatMul y w"}},
    {"an image cut across its channels",
     {"w 4,4"},
     "4,3,2",
     {"y Reshape x i:3,6,4; s Softmax y axis=2; c Constant value_floats=~1,2,3,4,5,6; d Reshape c i:6,1; m Mul s d; "
      "g ReduceSum m i:1 keepdims=0; p MatMul g w",
      "a Slice x i:0 i:1 i:1; a1 Flatten a; b Slice x i:1 i:2 i:1; b1 Flatten b; e Slice x i:2 i:3 i:1; e1 Flatten e; "
      "f Slice x i:3 i:4 i:1; f1 Flatten f; h Concat a1 b1 e1 f1 axis=1; y Reshape h i:3,6,4; s Softmax y axis=2; "
      "c Constant value_floats=~1,2,3,4,5,6; d Reshape c i:6,1; m Mul s d; g ReduceSum m i:1 keepdims=0; p MatMul g w"}},
    {"several images of a sample",
     {"v 5,5", "w 3,4"},
     "2,3,6,5",
     {"l MatMul x v; r Reshape l i:6,3,6,5; m MaxPool r kernel_shape=[3,2] strides=[2,1] pads=[1,0,1,1]; t Tanh m; "
      "g GlobalAveragePool t; e Reshape g i:3,2,3; n Constant value_floats=~1,3; o Reshape n i:2,1; u Mul e o; "
      "y ReduceSum u i:1 keepdims=0; p MatMul y w",
      "l MatMul x v; a Slice l i:0 i:1 i:1; a1 Squeeze a i:1; a2 MaxPool a1 kernel_shape=[3,2] strides=[2,1] pads=[1,0,1,1]; "
      "a3 Tanh a2; a4 GlobalAveragePool a3; b Slice l i:1 i:2 i:1; b1 Squeeze b i:1; "
      "b2 MaxPool b1 kernel_shape=[3,2] strides=[2,1] pads=[1,0,1,1]; b3 Tanh b2; b4 GlobalAveragePool b3; "
      "n Constant value_float=~3; b5 Mul b4 n; u Add a4 b5; y Flatten u; p MatMul y w"}},
    {"a convolution with a weight that is computed",
     {"k 4,3,2,2", "b 4", "w 4,4"},
     "3,5,6",
     {"c Constant value_float=~2; h Mul k c; y Conv x h b strides=[2,1] pads=[1,0,0,1] dilations=[1,2]; g GlobalAveragePool y; "
      "f Flatten g; p MatMul f w",
      "c Constant value_float=~2; z Mul x c; y Conv z k b strides=[2,1] pads=[1,0,0,1] dilations=[1,2]; g GlobalAveragePool y; "
      "f Flatten g; p MatMul f w"}},
    {"weights that are parameters of other dimensions",
     {"k 4,12", "b 1,4,1", "w 1,4,4"},
     "3,5,6",
     {"h Reshape k i:4,3,2,2; c Reshape b i:4; y Conv x h c; g GlobalAveragePool y; f Flatten g; m Squeeze w i:0; p MatMul f m",
      "h Reshape k i:4,3,2,2; y0 Conv x h; c Reshape b i:1,4,1,1; y Add y0 c; g GlobalAveragePool y; f Flatten g; u Unsqueeze "
      "f i:1; "
      "q MatMul u w; p Squeeze q i:1"}},
    {"a weight that is standardised by a batch norm",
     {"k 4,3,2,2", "w 4,4"},
     "3,5,6",
     {"r Reshape k i:1,4,12; o Constant value_floats=~1,1,1,1; z Constant value_floats=~0,0,0,0; n BatchNormalization r o z z "
      "o "
      "training_mode=1 epsilon=~0.001; m ReduceMean r axes=[0,2] keepdims=0; m1 Reshape m i:4,1; d Sub r m1; q Mul d d; "
      "v ReduceMean q axes=[0,2] keepdims=0; n2 BatchNormalization r o z m v epsilon=~0.001; a Add n n2; c Constant "
      "value_float=~2; "
      "b Div a c; h Reshape b i:4,3,2,2; y Conv x h; g GlobalAveragePool y; f Flatten g; p MatMul f w",
      "r Reshape k i:4,12; m ReduceMean r axes=[1] keepdims=1; d Sub r m; q Mul d d; v ReduceMean q axes=[1] keepdims=1; "
      "e Constant value_float=~0.001; s Add v e; u Sqrt s; n Div d u; h Reshape n i:4,3,2,2; y Conv x h; g GlobalAveragePool "
      "y; "
      "f Flatten g; p MatMul f w"}},
    {"a convolution in groups along a sequence, likewise",
     {"k 4,3,3", "w 4,4"},
     "6,7",
     {"c Constant value_float=~2; h Mul k c; y Conv x h group=2 pads=[2,0]; g ReduceMean y axes=[2] keepdims=0; p MatMul g w",
      "c Constant value_float=~2; z Mul x c; y Conv z k group=2 pads=[2,0]; g ReduceMean y axes=[2] keepdims=0; p MatMul g w"}},
    {"a fixed filter",
     {"w 2,4"},
     "2,5",
     {"c Constant value_floats=~1,2,1,1,2,1; h Reshape c i:2,1,3; y Conv x h group=2; g ReduceMax y i:2 keepdims=0; p MatMul g "
      "w",
      "n Constant value_float=~2; a Slice x i:0 i:3 i:2; b Slice x i:1 i:4 i:2; e Slice x i:2 i:5 i:2; d Mul b n; y1 Add a d; "
      "y Add y1 e; g ReduceMax y i:2 keepdims=0; p MatMul g w"}},
    {"a fixed matrix on the right",
     {"w 3,4"},
     "5,2",
     {"c Constant value_floats=~1,2,3,4,5,6; h Reshape c i:2,3; y MatMul x h; t Tanh y; s ReduceSum t i:1 keepdims=0; p MatMul "
      "s w",
      "a Slice x i:0 i:1 i:2; b Slice x i:1 i:2 i:2; c Constant value_floats=~1,2,3; d Constant value_floats=~4,5,6; e Mul a "
      "c; "
      "f Mul b d; y Add e f; t Tanh y; s ReduceSum t i:1 keepdims=0; p MatMul s w"}},
    {"dots of an equation",
     {"w 6,5", "v 5,4"},
     "2,3,6",
     {"t Einsum x w equation='...d,de->...e'; h Tanh t; s Einsum h equation='b...e->b...e'; q Einsum s v "
      "equation='...e,eo->...o'; "
      "p ReduceSum q i:1,2 keepdims=0",
      "t MatMul x w; h Tanh t; q MatMul h v; p ReduceSum q i:1,2 keepdims=0"}},
    {"three inputs of an equation, and what stands once",
     {"w 6,5", "v 5,4"},
     "3,6",
     {"p Einsum x w v equation='btd,de,eo->bo'", "t MatMul x w; q MatMul t v; p ReduceSum q i:1 keepdims=0"}},
    {"an equation without an arrow",
     {"w 3,4"},
     "3,6",
     {"t Einsum x w equation='...ij,ik'; p ReduceSum t i:1 keepdims=0",
      "u Transpose x perm=[0,2,1]; t MatMul u w; p ReduceSum t i:1 keepdims=0"}},
    {"the place of the largest, as ones and zeros",
     {"w 5,4"},
     "5",
     {"a ArgMax x axis=1 keepdims=0; v Cast i:1,3 to=1; h OneHot a i:5 v; b ArgMin x axis=-1; g OneHot b i:5 i:0,1; "
      "e Reshape g i:3,5; f Cast e to=1; n Add h f; p MatMul n w",
      "m ReduceMax x i:1; c Equal x m; d Cast c to=1; k Constant value_float=~2; j Constant value_float=~1; l Mul d k; h Add l "
      "j; "
      "m2 ReduceMin x i:1; c2 Equal x m2; f Cast c2 to=1; n Add h f; p MatMul n w"}},
    {"the first and the last of equal ones",
     {"w 5,4"},
     "5",
     {"z Sub x x; a ArgMax z axis=1 keepdims=0; b ArgMax z axis=1 keepdims=0 select_last_index=1; v Cast i:0,1 to=1; "
      "h OneHot a i:5 v; g OneHot b i:5 v; n Add h g; o Add n z; q Add o x; p MatMul q w",
      "c Constant value_floats=~1,0,0,0,1; q Add x c; p MatMul q w"}},
    {"what stands in a place that the data say",
     {"v 6,6", "w 6,4"},
     "5,6",
     {"l MatMul x v; g ReduceSum x i:2 keepdims=0; a ArgMax g axis=1 keepdims=1; u Unsqueeze a i:2; e Expand u i:1,1,6; "
      "t GatherElements l e axis=1; f Sub e i:5; t2 GatherElements l f axis=1; s Add t t2; y Squeeze s i:1; p MatMul y w",
      "l MatMul x v; g ReduceSum x i:2 keepdims=0; m ReduceMax g i:1; c Equal g m; d Cast c to=1; u Unsqueeze d i:2; t Mul l "
      "u; "
      "r ReduceSum t i:1 keepdims=0; k Constant value_float=~2; y Mul r k; p MatMul y w"}},
    {"the same, as PyTorch's exporters write it with the number of each sample",
     {"v 6,6", "w 6,4"},
     "5,6",
     {"l MatMul x v; g ReduceSum x i:2 keepdims=0; a ArgMax g axis=1 keepdims=0; b Max i:0,1,2 a; h Shape b; e Expand i:0,1,2 "
      "h; "
      "e1 Unsqueeze e i:1; a1 Unsqueeze a i:1; n Concat e1 a1 axis=-1; t GatherND l n; f Reshape l i:-1,6; k Add a i:0,5,10; "
      "o Gather f k; y Add t o; p MatMul y w",
      "l MatMul x v; g ReduceSum x i:2 keepdims=0; m ReduceMax g i:1; c Equal g m; d Cast c to=1; u Unsqueeze d i:2; t Mul l "
      "u; "
      "r ReduceSum t i:1 keepdims=0; k Constant value_float=~2; y Mul r k; p MatMul y w"}},
    {"reflected",
     {"w 7,4"},
     "2,4",
     {"y Pad x i:0,0,2,0,0,1 mode='reflect'; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "y Gather x i:2,1,0,1,2,3,2 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"its edges repeated",
     {"w 7,4"},
     "2,4",
     {"y Pad x i:0,0,2,0,0,1 mode='edge'; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "y Gather x i:0,0,0,1,2,3,3 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"wrapped around",
     {"w 7,4"},
     "2,4",
     {"y Pad x i:0,0,2,0,0,1 mode='wrap'; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "y Gather x i:2,3,0,1,2,3,0 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"a number around",
     {"w 7,4"},
     "2,4",
     {"n Constant value_float=~2; y Pad x i:0,0,2,0,0,1 n; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "n Constant value_float=~2; z Sub x x; t Add z n; a Slice t i:0 i:2 i:2; b Slice t i:0 i:1 i:2; y Concat a x b axis=2; "
      "s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"zeros around named dimensions, and less of one",
     {"w 12,4"},
     "2,4",
     {"y Pad x i:-1,1,0,1 - i:2,-2; f Flatten y; p MatMul f w",
      "z Sub x x; a Slice z i:0 i:1 i:1; b Concat a x a axis=1; y Slice b i:1 i:4 i:2; f Flatten y; p MatMul f w"}},
    {"images, padded along both sides",
     {"w 2,4"},
     "2,3,4",
     {"y Pad x i:0,0,1,2,0,0,0,1 mode='reflect'; c Constant value_floats=~1,2,3,4,5,6,7; m Mul y c; g ReduceSum m i:2,3 "
      "keepdims=0; p MatMul g w",
      "a Gather x i:1,0,1,2 axis=2; y Gather a i:2,1,0,1,2,3,2 axis=3; c Constant value_floats=~1,2,3,4,5,6,7; m Mul y c; "
      "g ReduceSum m i:2,3 keepdims=0; p MatMul g w"}},
    {"twice as long, the nearest",
     {"w 8,4"},
     "2,4",
     {"y Resize x - - i:3,2,8; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "y Gather x i:0,0,1,1,2,2,3,3 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"twice as long by a scale",
     {"w 8,4"},
     "2,4",
     {"k Constant value_floats=~1,1,2; y Resize x - k; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "y Gather x i:0,0,1,1,2,2,3,3 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"one and a half times as long, rounded down",
     {"w 6,4"},
     "2,4",
     {"y Resize x - - i:6 axes=[2] coordinate_transformation_mode='asymmetric' nearest_mode='floor'; s ReduceSum y i:1 "
      "keepdims=0; p MatMul s w",
      "y Gather x i:0,0,1,2,2,3 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"one and a half times as long, rounded up",
     {"w 6,4"},
     "2,4",
     {"y Resize x - - i:6 axes=[-1] coordinate_transformation_mode='asymmetric' nearest_mode='ceil'; s ReduceSum y i:1 "
      "keepdims=0; p MatMul s w",
      "y Gather x i:0,1,2,2,3,3 axis=2; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"twice as long, between two",
     {"w 8,4"},
     "2,4",
     {"y Resize x - - i:3,2,8 mode='linear'; s ReduceSum y i:1 keepdims=0; p MatMul s w",
      "a Gather x i:0,0,1,1,2,2,3,3 axis=2; b Gather x i:0,1,0,2,1,3,2,3 axis=2; m Constant value_float=~0.75; n Constant "
      "value_float=~0.25; c Mul a m; d Mul b n; y Add c d; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"between two, from corner to corner",
     {"w 7,4"},
     "2,4",
     {"y Resize x - - i:3,2,7 mode='linear' coordinate_transformation_mode='align_corners'; s ReduceSum y i:1 keepdims=0; "
      "p MatMul s w",
      "a Gather x i:0,0,1,1,2,2,3 axis=2; b Gather x i:0,1,1,2,2,3,3 axis=2; n Constant value_float=~0.5; c Add a b; "
      "y Mul c n; s ReduceSum y i:1 keepdims=0; p MatMul s w"}},
    {"as large as its proportions allow",
     {"w 2,4"},
     "2,2,4",
     {"y Resize x - - i:6,8 axes=[2,3] keep_aspect_ratio_policy='not_larger'; g ReduceSum y i:2,3 keepdims=0; p MatMul g w",
      "y Resize x - - i:3,2,4,8; g ReduceSum y i:2,3 keepdims=0; p MatMul g w"}},
    {"as large as its proportions need",
     {"w 2,4"},
     "2,2,4",
     {"y Resize x - - i:6,8 axes=[2,3] keep_aspect_ratio_policy='not_smaller'; g ReduceSum y i:2,3 keepdims=0; p MatMul g w",
      "y Resize x - - i:3,2,6,12; g ReduceSum y i:2,3 keepdims=0; p MatMul g w"}},
    {"LRN",
     {"w 3,4"},
     "3,2,2",
     {"y LRN x size=3 alpha=~6 beta=~0.5 bias=~2; g ReduceMean y axes=[2,3] keepdims=0; p MatMul g w",
      "q Mul x x; a Slice q i:0 i:2 i:1; a1 ReduceSum a i:1 keepdims=1; b1 ReduceSum q i:1 keepdims=1; d Slice q i:1 i:3 i:1; "
      "d1 ReduceSum d i:1 keepdims=1; s Concat a1 b1 d1 axis=1; n Constant value_float=~2; m Mul s n; k Add m n; r Sqrt k; "
      "y Div x r; g ReduceMean y axes=[2,3] keepdims=0; p MatMul g w"}},
    {"LRN as it usually is",
     {"w 3,4"},
     "3,2,2",
     {"y LRN x size=1; g ReduceMean y axes=[2,3] keepdims=0; p MatMul g w",
      "y LRN x size=1 alpha=~0.0001 beta=~0.75 bias=~1; g ReduceMean y axes=[2,3] keepdims=0; p MatMul g w"}},
    {"a product with a vector",
     {"w 6", "o 4"},
     "6",
     {"m MatMul x w; u Unsqueeze m i:1; p Mul u o", "t Mul x w; s ReduceSum t i:1 keepdims=1; p Mul s o"}},
    {"windows padded so that they have their input's size, more behind",
     {"w 5,2,2,4", "o 5,4"},
     "2,3,5",
     {"c Conv x w auto_pad='SAME_UPPER' strides=[2,1]; g GlobalAveragePool c; f Flatten g; p MatMul f o",
      "c Conv x w pads=[0,1,1,2] strides=[2,1]; g GlobalAveragePool c; f Flatten g; p MatMul f o"}},
    {"windows padded so that they have their input's size, more before",
     {"w 5,2,2,4", "o 5,4"},
     "2,3,5",
     {"c Conv x w auto_pad='SAME_LOWER' strides=[2,1]; g GlobalAveragePool c; f Flatten g; p MatMul f o",
      "c Conv x w pads=[1,2,0,1] strides=[2,1]; g GlobalAveragePool c; f Flatten g; p MatMul f o"}},
    {"a last window that is not whole",
     {"w 4,4"},
     "2,8",
     {"m MaxPool x kernel_shape=[3] strides=[2] ceil_mode=1; f ReduceSum m i:1 keepdims=0; p MatMul f w",
      "a MaxPool x kernel_shape=[3] strides=[2]; l Slice x i:6 i:8 i:2; b MaxPool l kernel_shape=[2]; m Concat a b axis=2; "
      "f ReduceSum m i:1 keepdims=0; p MatMul f w"}},
    {"windows that are all whole",
     {"w 3,4"},
     "2,7",
     {"m MaxPool x kernel_shape=[3] strides=[2] ceil_mode=1; f ReduceSum m i:1 keepdims=0; p MatMul f w",
      "m MaxPool x kernel_shape=[3] strides=[2]; f ReduceSum m i:1 keepdims=0; p MatMul f w"}},
    {"no window that begins behind its input",
     {"w 2,4"},
     "2,5",
     {"m MaxPool x kernel_shape=[2] strides=[3] pads=[1,1] ceil_mode=1; f ReduceSum m i:1 keepdims=0; p MatMul f w",
      "a Slice x i:0 i:1 i:2; l Slice x i:2 i:4 i:2; b MaxPool l kernel_shape=[2]; m Concat a b axis=2; f ReduceSum m i:1 "
      "keepdims=0; "
      "p MatMul f w"}},
    {"means of windows, with and without what is around",
     {"w 3,4"},
     "2,5",
     {"a AveragePool x kernel_shape=[3] strides=[2] pads=[1,1]; b AveragePool x kernel_shape=[3] strides=[2] pads=[1,1] "
      "count_include_pad=1; c Add a b; f ReduceSum c i:1 keepdims=0; p MatMul f w",
      "y Pad x i:0,0,1,0,0,1; s AveragePool y kernel_shape=[3] strides=[2]; k Cast i:5,4,5 to=1; h Constant value_float=~2; "
      "l Div k h; c Mul s l; f ReduceSum c i:1 keepdims=0; p MatMul f w"}},
    {"heads of queries that share those of keys",
     {"o 8,4"},
     "5,8",
     {"k Slice x i:0 i:4 i:2; v Slice x i:4 i:8 i:2; t Attention x k v q_num_heads=4 kv_num_heads=2; y ReduceSum t i:1 "
      "keepdims=0; p MatMul y o",
      "k1 Slice x i:0 i:4 i:2; v1 Slice x i:4 i:8 i:2; q1 Reshape x i:3,5,4,2; q Transpose q1 perm=[0,2,1,3]; k2 Reshape k1 "
      "i:3,5,2,2; k3 Transpose k2 perm=[0,2,3,1]; k Gather k3 i:0,0,1,1 axis=1; v2 Reshape v1 i:3,5,2,2; v3 Transpose v2 "
      "perm=[0,2,1,3]; v Gather v3 i:0,0,1,1 axis=1; s MatMul q k; n Constant value_float=~0.70710678; m Mul s n; w Softmax m "
      "axis=-1; z MatMul w v; u Transpose z perm=[0,2,1,3]; t Reshape u i:3,5,8; y ReduceSum t i:1 keepdims=0; p MatMul y o"}},
    {"queries that see keys before them, of which there are fewer",
     {"o 6,4"},
     "5,6",
     {"k Slice x i:0 i:3 i:1; t Attention x k k q_num_heads=1 kv_num_heads=1 is_causal=1 scale=~2; y ReduceSum t i:1 "
      "keepdims=0; "
      "p MatMul y o",
      "k Slice x i:0 i:3 i:1; u Transpose k perm=[0,2,1]; s MatMul x u; n Constant value_float=~2; m Mul s n; e Cast "
      "i:0,1,1,0,0,1,0,0,0,0,0,0,0,0,0 to=1; l Constant value_float=~-1000; d Mul e l; r Reshape d i:5,3; a Add m r; "
      "w Softmax a axis=-1; t MatMul w k; y ReduceSum t i:1 keepdims=0; p MatMul y o"}},
    {"GELU by tanh, in steps",
     {"w 6,4"},
     "6",
     {"k Constant value_float=~3; c Pow x k; a Constant value_float=~0.044715; d Mul c a; s Add x d; b Constant "
      "value_float=~0.79788456; e Mul s b; t Tanh e; i Constant value_float=~1; g Add t i; h Constant value_float=~0.5; u Mul "
      "x h; y Mul u g; p MatMul y w",
      "y Gelu x approximate='tanh'; p MatMul y w"}},
    {"GELU by tanh, its sum the other way round",
     {"w 6,4"},
     "6",
     {"k Constant value_float=~3; c Pow x k; a Constant value_float=~0.044715; d Mul c a; s Add d x; b Constant "
      "value_float=~0.79788456; e Mul s b; t Tanh e; i Constant value_float=~1; g Add t i; h Constant value_float=~0.5; u Mul "
      "x h; y Mul u g; p MatMul y w",
      "y Gelu x approximate='tanh'; p MatMul y w"}},
    {"GELU by erf, in steps",
     {"w 6,4"},
     "6",
     {"r Constant value_float=~1.41421356; d Div x r; e Erf d; i Constant value_float=~1; g Add e i; m Mul x g; h Constant "
      "value_float=~0.5; y Mul m h; p MatMul y w",
      "y Gelu x; p MatMul y w"}},
    {"a sum that is no GELU",
     {"w 6,4"},
     "6",
     {"k Constant value_float=~3; c Pow x k; a Constant value_float=~0.044715; d Mul c a; s Add d x; b Constant "
      "value_float=~0.79788456; e Mul s b; t Tanh e; i Constant value_float=~1; g Add t i; h Constant value_float=~0.5; u Mul "
      "x h; y Mul u g; p MatMul y w",
      "k Constant value_float=~3; c Pow x k; a Constant value_float=~0.044715; d Mul c a; z Neg d; s Sub x z; b Constant "
      "value_float=~0.79788456; e Mul s b; t Tanh e; u Mul x t; n Add x u; h Constant value_float=~0.5; y Mul n h; p MatMul y "
      "w"}},
    {"a square", {"w 6,4"}, "6", {"q Mul x x; p MatMul q w", "n Neg x; m Neg n; q Mul x m; p MatMul q w"}},
    {"places in more runs than an operator has inputs",
     {"w 6,4"},
     "3,6",
     {"q Tile i:2,0 i:70; f Gather x q axis=1; s ReduceMean f axes=[1] keepdims=0; p MatMul s w",
      "a Gather x i:0,2 axis=1; s ReduceMean a axes=[1] keepdims=0; p MatMul s w"}},
    {"a constant of the rows of all samples",
     {"w 6,4"},
     "5,6",
     {"r Reshape x i:15,6; c Cast i:1,2,3,4,5 to=1; d Reshape c i:5,1; k Tile d i:3,6; m Mul r k; b Reshape m i:3,5,6; "
      "y ReduceSum b i:1 keepdims=0; p MatMul y w",
      "c Cast i:1,2,3,4,5 to=1; d Reshape c i:5,1; m Mul x d; y ReduceSum m i:1 keepdims=0; p MatMul y w"}},
    {"a constant of the rows of all samples, which alternate",
     {"w 6,4"},
     "5,6",
     {"t Transpose x perm=[1,0,2]; r Reshape t i:15,6; c Cast i:1,2,3,4,5 to=1; d Reshape c i:5,1,1; k Tile d i:1,3,6; "
      "e Reshape k i:15,6; m Mul r e; b Reshape m i:5,3,6; u Transpose b perm=[1,0,2]; y ReduceSum u i:1 keepdims=0; "
      "p MatMul y w",
      "c Cast i:1,2,3,4,5 to=1; d Reshape c i:5,1; m Mul x d; y ReduceSum m i:1 keepdims=0; p MatMul y w"}},
    {"batch norm of what is turned",
     {"w 3,4", "s 3", "b 3", "m 3", "v 3"},
     "2,3",
     {"t Transpose x perm=[0,2,1]; n BatchNormalization t s b m v training_mode=0; u Mul n n; f ReduceSum u i:2 keepdims=0; "
      "p MatMul f w",
      "a Slice x i:0 i:1 i:2; d Slice x i:1 i:2 i:2; e Slice x i:2 i:3 i:2; a1 Transpose a perm=[0,2,1]; d1 Transpose d "
      "perm=[0,2,1]; e1 Transpose e perm=[0,2,1]; t Concat a1 d1 e1 axis=1; n BatchNormalization t s b m v training_mode=0; "
      "u Mul n n; f ReduceSum u i:2 keepdims=0; p MatMul f w"}},
    {"batch norm of an image whose rows are channels",
     {"w 3,4", "s 3", "b 3", "m 3", "v 3"},
     "2,3,4",
     {"t Transpose x perm=[0,2,1,3]; n BatchNormalization t s b m v training_mode=0; u Mul n n; f ReduceSum u i:2,3 "
      "keepdims=0; "
      "p MatMul f w",
      "a Slice x i:0 i:1 i:2; d Slice x i:1 i:2 i:2; e Slice x i:2 i:3 i:2; a1 Transpose a perm=[0,2,1,3]; d1 Transpose d "
      "perm=[0,2,1,3]; e1 Transpose e perm=[0,2,1,3]; t Concat a1 d1 e1 axis=1; n BatchNormalization t s b m v "
      "training_mode=0; u Mul n n; f ReduceSum u i:2,3 keepdims=0; p MatMul f w"}},
    {"softmax over what is joined in another order",
     {"w 6,4"},
     "2,3",
     {"t Transpose x perm=[0,2,1]; r Reshape t i:3,6; s Softmax r axis=-1; p MatMul s w",
      "f Flatten x; g Gather f i:0,3,1,4,2,5 axis=1; s Softmax g axis=-1; p MatMul s w"}},
    {"batch norm over what is joined in another order",
     {"w 3,4", "s 3", "b 3", "m 3", "v 3"},
     "3,2,2",
     {"t Transpose x perm=[0,1,3,2]; r Reshape t i:3,3,4; n BatchNormalization r s b m v; c Constant "
      "value_floats=~1,2,3,4; u Mul n c; f ReduceSum u i:2 keepdims=0; p MatMul f w",
      "r Reshape x i:3,3,4; g Gather r i:0,2,1,3 axis=2; n BatchNormalization g s b m v; c Constant "
      "value_floats=~1,2,3,4; u Mul n c; f ReduceSum u i:2 keepdims=0; p MatMul f w"}},
    {"a sum with what is turned",
     {"w 6,4", "b 4"},
     "6",
     {"m MatMul x w; r Reshape b i:2,2; t Transpose r perm=[1,0]; c Reshape t i:4; p Add m c",
      "m MatMul x w; c Gather b i:0,2,1,3 axis=0; p Add m c"}},
    {"sums over a letter of each input",
     {"o 6,4"},
     "5,6",
     {"s Einsum x x equation='bik,bjl->bij'; t MatMul s x; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "a ReduceSum x i:2 keepdims=1; b Transpose a perm=[0,2,1]; s MatMul a b; t MatMul s x; y ReduceSum t i:1 keepdims=0; "
      "p MatMul y o"}},
    {"a choice that is made",
     {"w 6,4", "v 6"},
     "6",
     {"t Cast i:1 to=9; f Cast i:0 to=9; n Neg x; a Where t x n; b Where f x n; d Where t v x; e Where f v x; g Sum a b b d e; "
      "p MatMul g w",
      "g Add x v; n Neg x; h Add g n; p MatMul h w"}},
    {"nothing around", {"w 6,4"}, "6", {"y Pad x i:0,0,0,0; p MatMul y w", "p MatMul x w"}},
    {"a product of what is turned", {"w 6,4"}, "6", {"t Transpose x perm=[1,0]; p Gemm t w transA=1", "p MatMul x w"}},
    {"a product of values, weighed",
     {"w 6,4", "v 4"},
     "6",
     {"n Constant value_float=~2; k Mul w n; l Mul v n; p Gemm x k l alpha=~0.5 beta=~3",
      "m MatMul x w; n Constant value_float=~6; l Mul v n; p Add m l"}},
    {"a vector before a product",
     {"v 6", "w 5,4"},
     "6,5",
     {"m MatMul v x; p MatMul m w", "u Unsqueeze v i:1; t Mul x u; m ReduceSum t i:1 keepdims=0; p MatMul m w"}},
    {"a vector behind a product",
     {"v 6", "w 5,4"},
     "5,6",
     {"m MatMul x v; p MatMul m w", "t Mul x v; m ReduceSum t i:2 keepdims=0; p MatMul m w"}},
    {"places in a constant that is the same everywhere",
     {"w 6,4"},
     "6",
     {"k Cast x to=7; z Expand i:7 i:3,6; g GatherElements z k axis=1; f Cast g to=1; q Mul x f; p MatMul q w",
      "n Constant value_float=~7; q Mul x n; p MatMul q w"}},
    {"layer norm, its factors left out",
     {"w 6,4"},
     "6",
     {"k Cast i:1,1,1,1,1,1 to=1; z Cast i:0,0,0,0,0,0 to=1; y LayerNormalization x k z epsilon=~0.001; p MatMul y w",
      "a ReduceMean x axes=[1]; d Sub x a; q Mul d d; v ReduceMean q axes=[1]; e Constant value_float=~0.001; f Add v e; g "
      "Sqrt f; y Div d g; "
      "p MatMul y w"}},
    {"layer norm with its own factors",
     {"w 6,4", "s 6", "b 6"},
     "6",
     {"y LayerNormalization x s b epsilon=~0.001; p MatMul y w",
      "a ReduceMean x axes=[1]; d Sub x a; q Mul d d; v ReduceMean q axes=[1]; e Constant value_float=~0.001; f Add v e; g "
      "Sqrt f; y Div d g; "
      "h Mul y s; z Add h b; p MatMul z w"}},
    {"layer norm with factors that are computed",
     {"w 6,4", "s 6", "b 6"},
     "6",
     {"n Constant value_float=~2; s2 Mul s n; b2 Mul b n; y LayerNormalization x s2 b2 epsilon=~0.001; p MatMul y w",
      "a ReduceMean x axes=[1]; d Sub x a; q Mul d d; v ReduceMean q axes=[1]; e Constant value_float=~0.001; f Add v e; g "
      "Sqrt f; y Div d g; "
      "n Constant value_float=~2; h Mul y s; z Add h b; i Mul z n; p MatMul i w"}},
    {"layer norm with constant factors",
     {"w 6,4"},
     "6",
     {"k Cast i:1,2,3,4,5,6 to=1; z Cast i:6,5,4,3,2,1 to=1; y LayerNormalization x k z epsilon=~0.001; p MatMul y w",
      "k Cast i:1,2,3,4,5,6 to=1; z Cast i:6,5,4,3,2,1 to=1; "
      "a ReduceMean x axes=[1]; d Sub x a; q Mul d d; v ReduceMean q axes=[1]; e Constant value_float=~0.001; f Add v e; g "
      "Sqrt f; y Div d g; "
      "h Mul y k; i Add h z; p MatMul i w"}},
    {"RMS norm",
     {"w 6,4", "s 6"},
     "6",
     {"y RMSNormalization x s epsilon=~0.001; p MatMul y w",
      "q Pow x i:2; v ReduceMean q axes=[1]; e Constant value_float=~0.001; f Add v e; g Sqrt f; y Div x g; "
      "h Mul y s; p MatMul h w"}},
    {"RMS norm with a factor that is computed",
     {"w 6,4", "s 6"},
     "6",
     {"n Constant value_float=~2; s2 Mul s n; q Pow x i:2; v ReduceMean q axes=[1]; e Constant value_float=~0.001; f Add v e; "
      "g Sqrt f; y Div x g; h Mul y s2; p MatMul h w",
      "y RMSNormalization x s epsilon=~0.001; n Constant value_float=~2; h Mul y n; p MatMul h w"}},
    {"RMS norm of a value and itself",
     {"w 6,4", "s 6"},
     "6",
     {"y RMSNormalization x s epsilon=~0.001; p MatMul y w", "i Identity x; q Mul x i; v ReduceMean q axes=[1]; e Constant "
                                                             "value_float=~0.001; f Add v e; g Sqrt f; y Div x g; h Mul y s; "
                                                             "p MatMul h w"}},
    {"attention of what lies side by side, with a mask",
     {"m 5,5", "o 6,4"},
     "5,18",
     {"k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; t Attention q1 k1 v1 m q_num_heads=2 "
      "kv_num_heads=2 scale=~1; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; " SOFTMAX}},
    {"attention of what lies side by side, with a mask for each head",
     {"m 2,5,5", "o 6,4"},
     "5,18",
     {"k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; t Attention q1 k1 v1 m q_num_heads=2 "
      "kv_num_heads=2 scale=~1; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; " SOFTMAX}},
    {"attention of what lies side by side, with a row of a mask for each head",
     {"m 2,1,5", "o 6,4"},
     "5,18",
     {"k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; t Attention q1 k1 v1 m q_num_heads=2 "
      "kv_num_heads=2 scale=~1; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; " SOFTMAX}},
    {"attention of what lies side by side, with a mask for each sample",
     {"o 6,4"},
     "5,18",
     {"h ReduceMean x axes=[2] keepdims=0; m Unsqueeze h i:1,2; k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x "
      "i:0 i:6 i:2; t Attention q1 k1 v1 m q_num_heads=2 kv_num_heads=2 scale=~1; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "h ReduceMean x axes=[2] keepdims=0; m Unsqueeze h i:1,2; k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x "
      "i:0 i:6 i:2; " SOFTMAX}},
    {"attention of what lies side by side",
     {"m 5,5", "o 6,4"},
     "5,18",
     {"k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; q2 Reshape q1 i:3,5,2,3; q Transpose q2 "
      "perm=[0,2,1,3]; k2 Reshape k1 i:3,5,2,3; k Transpose k2 perm=[0,2,3,1]; v2 Reshape v1 i:3,5,2,3; v Transpose v2 "
      "perm=[0,2,1,3]; s MatMul q k; b Add s m; w Softmax b axis=-1; z MatMul w v; u Transpose z perm=[0,2,1,3]; t Reshape u "
      "i:3,5,6; y ReduceSum t i:1 keepdims=0; p MatMul y o",
      "k1 Slice x i:6 i:12 i:2; v1 Slice x i:12 i:18 i:2; q1 Slice x i:0 i:6 i:2; " SOFTMAX}},
    {"rows of a batch of 1",
     {"w 6,6", "o 6,4"},
     "5,6",
     {"1: r Reshape x i:5,6; l MatMul r w; b Reshape l i:1,5,6; s ReduceSum b i:1 keepdims=0; p MatMul s o",
      "l MatMul x w; s ReduceSum l i:1 keepdims=0; p MatMul s o"}},
    {"heads of a batch of 1",
     {"o 6,4"},
     "5,6",
     {"1: t Transpose x perm=[1,0,2]; r Reshape t i:5,2,3; h Transpose r perm=[1,0,2]; k Transpose h perm=[0,2,1]; s MatMul h "
      "k; "
      "z MatMul s h; u Transpose z perm=[1,0,2]; v Reshape u i:5,1,6; y Transpose v perm=[1,0,2]; g ReduceSum y i:1 "
      "keepdims=0; "
      "p MatMul g o",
      "r Reshape x i:3,5,2,3; h Transpose r perm=[0,2,1,3]; k Transpose r perm=[0,2,3,1]; s MatMul h k; z MatMul s h; "
      "u Transpose z perm=[0,2,1,3]; v Reshape u i:3,5,6; g ReduceSum v i:1 keepdims=0; p MatMul g o"}},
};

/* Attention of x with two heads, in steps: `b` is made of the scores `s`. */
#define HEADS(between)                                                                                                         \
    "q2 Reshape x i:3,5,2,3; q Transpose q2 perm=[0,2,1,3]; k Transpose q2 perm=[0,2,3,1]; r MatMul q k; n Constant "          \
    "value_float=~0.57735027; s Mul r n; " between "e Exp b; d ReduceSum e i:3 keepdims=1; w Div e d; z MatMul w q; "          \
    "u Transpose z perm=[0,2,1,3]; t Reshape u i:3,5,6; y ReduceSum t i:1 keepdims=0; p MatMul y o"
#define ATTENTION(rest) "t Attention x x x " rest " q_num_heads=2 kv_num_heads=2; y ReduceSum t i:1 keepdims=0; p MatMul y o"
#define LATER                                                                                                                  \
    "m0 Cast i:0,1,1,1,1,0,0,1,1,1 to=1; m1 Reshape m0 i:2,5; m2 Cast i:0,0,0,1,1,0,0,0,0,1,0,0,0,0,0 to=1; "                  \
    "m3 Reshape m2 i:3,5; m4 Concat m1 m3 axis=0; far Constant value_float=~-1000; m Mul m4 far; "

static const struct same attention[] = {
    {"attention", {"o 6,4"}, "5,6", {ATTENTION(""), HEADS("b Identity s; ")}},
    {"attention with its own scale",
     {"o 6,4"},
     "5,6",
     {ATTENTION("scale=~2"), HEADS("f Constant value_float=~3.4641016; b Mul s f; ")}},
    {"attention whose scores are bounded",
     {"o 6,4"},
     "5,6",
     {ATTENTION("softcap=~0.25"),
      HEADS("f Constant value_float=~4; g Mul s f; h Tanh g; i Constant value_float=~0.25; b Mul h i; ")}},
    {"attention to what stands before", {"o 6,4"}, "5,6", {ATTENTION("is_causal=1"), LATER HEADS("b Add s m; ")}},
    {"attention to what stands before, by a mask", {"o 6,4"}, "5,6", {LATER ATTENTION("m"), LATER HEADS("b Add s m; ")}},
    {"attention to what stands before, by conditions",
     {"o 6,4"},
     "5,6",
     {LATER "a Cast i:0 to=1; g Equal m a; " ATTENTION("g"), LATER HEADS("b Add s m; ")}},
    {"a mask of nothing", {"o 6,4"}, "5,6", {"a Cast i:0,0,0,0,0 to=1; " ATTENTION("a"), HEADS("b Identity s; ")}},
    {"a constant for each key",
     {"o 6,4"},
     "5,6",
     {"a Cast i:1,0,-2,0,1 to=1; " ATTENTION("a"), "a Cast i:1,0,-2,0,1 to=1; " HEADS("b Add s a; ")}},
    {"a mask that is trained", {"m 5,5", "o 6,4"}, "5,6", {ATTENTION("m"), HEADS("b Add s m; ")}},
    {"a mask for each head", {"m 2,5,5", "o 6,4"}, "5,6", {ATTENTION("m"), HEADS("b Add s m; ")}},
    {"a row of a mask for each head", {"m 2,1,5", "o 6,4"}, "5,6", {ATTENTION("m"), HEADS("b Add s m; ")}},
    {"a mask for each sample and key",
     {"o 6,4"},
     "5,6",
     {"h ReduceMean x axes=[2] keepdims=0; m Unsqueeze h i:1,2; " ATTENTION("m"),
      "h ReduceMean x axes=[2] keepdims=0; m Unsqueeze h i:1,2; " HEADS("b Add s m; ")}},
    {"a mask for each sample, query and key",
     {"o 6,4"},
     "5,6",
     {"g Transpose x perm=[0,2,1]; h MatMul x g; m Unsqueeze h i:1; " ATTENTION("m"),
      "g Transpose x perm=[0,2,1]; h MatMul x g; m Unsqueeze h i:1; " HEADS("b Add s m; ")}},
    {"conditions for each sample and key",
     {"o 6,4"},
     "5,6",
     {"h ReduceMean x axes=[2] keepdims=0; a Constant value_float=~-0.9; g Greater h a; m Unsqueeze g i:1,2; " ATTENTION("m"),
      HEADS("b Identity s; ")}},
};

#undef HEADS
#undef ATTENTION
#undef LATER

/* The sums of a recurrent layer of two states: biases of the input and of the state, and what the inputs of two positions give.
 */
#define PRODUCT(out, x, w) out "1 Unsqueeze " x " i:1; " out "2 Mul " w " " out "1; " out " ReduceSum " out "2 i:2 keepdims=0; "
#define GATES(all, both)                                                                                                       \
    "b1 Slice b i:0 i:" all " i:1; b2 Slice b i:" all " i:" both " i:1; xa Slice x i:0 i:1 i:1; xb Squeeze xa i:1; " PRODUCT(  \
        "xc", "xb", "w") "u Add xc b1; xd Slice x i:1 i:2 i:1; xe Squeeze xd i:1; " PRODUCT("xf", "xe", "w") "v Add xf b1; "
/* A position's new state `h` from its sums `u` and the state `g`: the reset multiplies the state, or what is made of it. */
#define GATE(out, of, function, sum, from, to) of "0 Slice " sum " i:" from " i:" to " i:1; " out " " function " " of "0; "
#define GRU_GATES(h, u, g)                                                                                                     \
    PRODUCT(h "m", g, "r")                                                                                                     \
    h "n Add " h "m b2; " h "s Add " u " " h "n; " GATE(h "z", h "a", "Sigmoid", h "s", "0", "2")                              \
        GATE(h "r", h "b", "Sigmoid", h "s", "2", "4") h "u Slice " u " i:4 i:6 i:1; "
#define GRU_END(h, g)                                                                                                          \
    h "f Add " h "u " h "t; " h "h Tanh " h "f; " h "d Sub " g " " h "h; " h "e Mul " h "z " h "d; " h " Add " h "h " h "e; "
#define GRU_BEFORE(h, u, g)                                                                                                    \
    GRU_GATES(h, u, g)                                                                                                         \
    h "p Mul " h "r " g "; " PRODUCT(h "q", h "p", "r") h "o Add " h "q b2; " h "t Slice " h "o i:4 i:6 i:1; " GRU_END(h, g)
#define GRU_AFTER(h, u, g) GRU_GATES(h, u, g) h "p Slice " h "n i:4 i:6 i:1; " h "t Mul " h "r " h "p; " GRU_END(h, g)
#define LSTM(h, k, u, g, c)                                                                                                    \
    PRODUCT(h "m", g, "r")                                                                                                     \
    h "n Add " h "m b2; " h "s Add " u " " h "n; " GATE(h "i", h "a", "Sigmoid", h "s", "0", "2")                              \
        GATE(h "o", h "b", "Sigmoid", h "s", "2", "4") GATE(h "f", h "v", "Sigmoid", h "s", "4", "6")                          \
            GATE(h "c", h "w", "Tanh", h "s", "6", "8") h "x Mul " h "i " h "c; " h "y Mul " h "f " c "; " k " Add " h "x " h  \
                                                          "y; " h "t Tanh " k "; " h " Mul " h "o " h "t; "
#define HALVES                                                                                                                 \
    "z0 ReduceSum x i:1,2 keepdims=0; z1 Sub z0 z0; z2 Constant value_floats=~0.5,0.5; z3 Unsqueeze z1 i:1; first Add z3 z2; "
#define ZEROS                                                                                                                  \
    "z0 ReduceSum x i:1,2 keepdims=0; z1 Sub z0 z0; z2 Constant value_floats=~0,0; z3 Unsqueeze z1 i:1; first Add z3 z2; "
#define GIVEN "h Constant value_floats=~0.5,0.5; n Reshape h i:1,1,2; "
#define TWO                                                                                                                    \
    "qa Slice q i:0 i:1 i:1; qb Squeeze qa i:1; qc Slice q i:1 i:2 i:1; qd Squeeze qc i:1; qe Concat qb qd axis=1; p MatMul "  \
    "qe o"
#define READ "q Squeeze y i:2; " TWO

static const struct same recurrent[] = {
    {"a plain recurrent layer",
     {"w 1,2,3", "r 1,2,2", "b 1,4", "o 4,4"},
     "2,3",
     {"y RNN x w r b hidden_size=2 layout=1 activations='Relu'; " READ,
      "w1 Squeeze w i:0; u Transpose w1 perm=[1,0]; r1 Squeeze r i:0; v Transpose r1 perm=[1,0]; bi Slice b i:0 i:2 i:1; "
      "bh Slice b i:2 i:4 i:1; a Slice x i:0 i:1 i:1; a1 Squeeze a i:1; a2 MatMul a1 u; a3 Add a2 bi; a4 Add a3 bh; ha Relu "
      "a4; "
      "e Slice x i:1 i:2 i:1; e1 Squeeze e i:1; e2 MatMul e1 u; e3 Add e2 bi; e4 MatMul ha v; e5 Add e4 bh; e6 Add e3 e5; "
      "hb Relu e6; q Concat ha hb axis=1; p MatMul q o"}},
    {"a plain recurrent layer from the end",
     {"w 1,2,3", "r 1,2,2", "b 1,4", "o 4,4"},
     "2,3",
     {"y RNN x w r b hidden_size=2 layout=1 direction='reverse'; " READ,
      "w1 Squeeze w i:0; u Transpose w1 perm=[1,0]; r1 Squeeze r i:0; v Transpose r1 perm=[1,0]; bi Slice b i:0 i:2 i:1; "
      "bh Slice b i:2 i:4 i:1; a Slice x i:1 i:2 i:1; a1 Squeeze a i:1; a2 MatMul a1 u; a3 Add a2 bi; a4 Add a3 bh; ha Tanh "
      "a4; "
      "e Slice x i:0 i:1 i:1; e1 Squeeze e i:1; e2 MatMul e1 u; e3 Add e2 bi; e4 MatMul ha v; e5 Add e4 bh; e6 Add e3 e5; "
      "hb Tanh e6; q Concat hb ha axis=1; p MatMul q o"}},
    {"GRU that resets its state",
     {"w 1,6,3", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,3",
     {"y GRU x w r b hidden_size=2 layout=1; " READ,
      GATES("6", "12") ZEROS GRU_BEFORE("ha", "u", "first") GRU_BEFORE("hb", "v", "ha") "q Concat ha hb axis=1; p MatMul q o"}},
    {"GRU that resets its state, from a first one",
     {"w 1,6,3", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,3",
     {GIVEN "y GRU x w r b - n hidden_size=2 layout=1; " READ,
      GATES("6", "12") HALVES GRU_BEFORE("ha", "u", "first")
          GRU_BEFORE("hb", "v", "ha") "q Concat ha hb axis=1; p MatMul q o"}},
    {"GRU from a first state",
     {"w 1,6,3", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,3",
     {GIVEN "y GRU x w r b - n hidden_size=2 layout=1 linear_before_reset=1; " READ,
      GATES("6", "12") HALVES GRU_AFTER("ha", "u", "first") GRU_AFTER("hb", "v", "ha") "q Concat ha hb axis=1; p MatMul q o"}},
    {"GRU",
     {"w 1,6,3", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,3",
     {"y GRU x w r b hidden_size=2 layout=1 linear_before_reset=1; " READ,
      GATES("6", "12") ZEROS GRU_AFTER("ha", "u", "first") GRU_AFTER("hb", "v", "ha") "q Concat ha hb axis=1; p MatMul q o"}},
    {"GRU from the end",
     {"w 1,6,3", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,3",
     {GIVEN "y GRU x w r b - n hidden_size=2 layout=1 direction='reverse'; " READ,
      GATES("6", "12") HALVES GRU_BEFORE("ha", "v", "first")
          GRU_BEFORE("hb", "u", "ha") "q Concat hb ha axis=1; p MatMul q o"}},
    {"GRU, its positions first",
     {"w 1,6,3", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,3",
     {"t Transpose x perm=[1,0,2]; l GRU t w r b hidden_size=2; y1 Squeeze l i:1; q Transpose y1 perm=[1,0,2]; " TWO,
      "y GRU x w r b hidden_size=2 layout=1; " READ}},
    {"GRU without biases",
     {"w 1,6,3", "r 1,6,2", "o 4,4"},
     "2,3",
     {"y GRU x w r hidden_size=2 layout=1; " READ,
      "z Cast i:0 to=1; zz Expand z i:1,12; y GRU x w r zz hidden_size=2 layout=1; " READ}},
    {"GRU from a state of the data",
     {"w 1,6,2", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,2",
     {"n Slice x i:0 i:1 i:1; y GRU x w r b - n hidden_size=2 layout=1; " READ,
      GATES("6", "12") GRU_BEFORE("ha", "u", "xb") GRU_BEFORE("hb", "v", "ha") "q Concat ha hb axis=1; p MatMul q o"}},
    {"GRU from a state of the data, its positions first",
     {"w 1,6,2", "r 1,6,2", "b 1,12", "o 4,4"},
     "2,2",
     {"t Transpose x perm=[1,0,2]; n Slice t i:0 i:1 i:0; l GRU t w r b - n hidden_size=2; y1 Squeeze l i:1; "
      "q Transpose y1 perm=[1,0,2]; " TWO,
      GATES("6", "12") GRU_BEFORE("ha", "u", "xb") GRU_BEFORE("hb", "v", "ha") "q Concat ha hb axis=1; p MatMul q o"}},
    {"LSTM from a first state",
     {"w 1,8,3", "r 1,8,2", "b 1,16", "o 4,4"},
     "2,3",
     {GIVEN "y LSTM x w r b - n n hidden_size=2 layout=1; " READ,
      GATES("8", "16") HALVES LSTM("ha", "ka", "u", "first", "first")
          LSTM("hb", "kb", "v", "ha", "ka") "q Concat ha hb axis=1; p MatMul q o"}},
    {"LSTM from a first cell",
     {"w 1,8,3", "r 1,8,2", "b 1,16", "o 4,4"},
     "2,3",
     {GIVEN "y LSTM x w r b - - n hidden_size=2 layout=1; " READ,
      GATES("8", "16") ZEROS "z4 Constant value_float=~0.5; cell Add first z4; " LSTM("ha", "ka", "u", "first", "cell")
          LSTM("hb", "kb", "v", "ha", "ka") "q Concat ha hb axis=1; p MatMul q o"}},
    {"LSTM",
     {"w 1,8,3", "r 1,8,2", "b 1,16", "o 4,4"},
     "2,3",
     {"y LSTM x w r b hidden_size=2 layout=1; " READ, GATES("8", "16") ZEROS LSTM("ha", "ka", "u", "first", "first") LSTM(
                                                          "hb", "kb", "v", "ha", "ka") "q Concat ha hb axis=1; p MatMul q o"}},
    {"an LSTM's last cell",
     {"w 1,8,3", "r 1,8,2", "b 1,16", "o 2,4"},
     "2,3",
     {"y,h,c LSTM x w r b hidden_size=2 layout=1; q Squeeze c i:1; p MatMul q o",
      GATES("8", "16") ZEROS LSTM("ha", "ka", "u", "first", "first") LSTM("hb", "kb", "v", "ha", "ka") "p MatMul kb o"}},
};

#undef READ

/* `made`: the constants that are there. */
static void put_line(struct bytes *graph, char *line, char *made) {
    struct bytes node = {0};
    char *rest = NULL, *output = strtok_r(line, " ", &rest), *op = strtok_r(NULL, " ", &rest);
    for (char *word = op; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
        char *quote = strchr(word, '\'');
        if (quote != NULL && strchr(quote + 1, '\'') == NULL) { /* spaces within the text */
            word[strlen(word)] = ' ';
            strtok_r(NULL, "'", &rest);
        }
        char *value = strchr(word, '=');
        if (value != NULL) {
            *value = '\0';
            put_attribute(&node, word, value + 1);
            continue;
        }
        put_text(&node, 1, strcmp(word, "-") == 0 ? "" : word);
        char between[64];
        snprintf(between, sizeof between, " %s ", word);
        if (strncmp(word, "i:", 2) != 0 || strstr(made, between) != NULL) continue;
        int64_t numbers[16];
        put_whole(graph, word, numbers, numbers_of(word + 2, ',', numbers), false); /* named as it is written */
        strcat(made, between);
    }
    put_text(&node, 3, output);
    put_text(&node, 4, op);
    for (char *name = strtok_r(output, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) put_text(&node, 2, name);
    put_message(graph, 1, &node);
    free(node.data);
}

/* The network borrows the file's bytes. */
/* Training reads the network from its own file. */
static void check_file(const struct same *same, const struct ps_network *network) {
    struct ps_network *read = NULL;
    char *text = ps_network_json(network), *again;
    if (text == NULL) fail_msg("%s: its network cannot be written", same->name);
    if (network_parse(text, strlen(text), "network.json", &read, &test_error) != PS_OK)
        fail_msg("%s: %s", same->name, test_error.message);
    again = ps_network_json(read);
    assert_string_equal(text, again);
    free(again);
    free(text);
    ps_network_destroy(read);
}

static struct ps_network *read_case(const struct same *same, int which, struct bytes *file) {
    struct bytes graph = {0};
    char text[2048], made[512] = "", name[16], *rest = NULL;
    int64_t dims[1 + 16];
    snprintf(text, sizeof text, "%s", same->graphs[which]);
    const bool alone = strncmp(text, "1: ", 3) == 0;
    for (char *line = strtok_r(text + (alone ? 3 : 0), ";", &rest); line != NULL; line = strtok_r(NULL, ";", &rest))
        put_line(&graph, line, made);
    for (int p = 0; same->parameters[p] != NULL; p++) {
        sscanf(same->parameters[p], "%15s", name);
        put_tensor(&graph, name, dims, numbers_of(strchr(same->parameters[p], ' '), ',', dims));
    }
    dims[0] = alone ? 1 : SAMPLES;
    put_value(&graph, 11, "x", dims, 1 + numbers_of(same->input, ',', dims + 1));
    put_value(&graph, 12, "p", (int64_t[]){dims[0], CLASSES}, 2);
    *file = model_of(&graph);
    struct ps_network *network = NULL;
    const enum ps_status status = onnx_parse_network("model.onnx", file->data, file->size, &network, &test_error);
    if (status != PS_OK) fail_msg("%s, %d: %s", same->name, which, test_error.message);
    check_file(same, network);
    return network;
}

/* Loss, and the gradients of all parameters behind it, in the order of the case. */
static int64_t compute(const struct same *same, int which, float *found) {
    struct bytes file;
    struct ps_network *network = read_case(same, which, &file);
    struct device *device = chain_device("reference");
    const struct graph *graph = network->graph;
    struct chain *chain = chain_create(device, graph, SAMPLES, 1, NULL, 0);
    const int64_t elements = SAMPLES * shape_elements(&graph->nodes[0].shape);
    float *inputs = calloc((size_t)elements, sizeof *inputs);
    static const int32_t labels[SAMPLES] = {1, 0, 3};
    assert_non_null(inputs);
    for (int64_t e = 0; e < elements; e++) inputs[e] = sinf((float)e) / 4;
    stage_pack_inputs(chain->stages[0], inputs, chain->blocks[0][0].input);
    const struct stage_step step = {.seed = 1, .step = 1, .target = labels, .gradient_scale = 1.0F / SAMPLES, .training = true};
    int64_t count = 0;
    found[count++] = (float)chain_forward(chain, 0, &step).loss;
    chain_backward(chain, 0, &step);
    for (int p = 0; same->parameters[p] != NULL; p++) {
        char name[16];
        sscanf(same->parameters[p], "%15s", name);
        count += chain_export(chain, name, NULL, found + count);
    }
    chain_destroy(chain);
    device_close(device);
    ps_network_destroy(network);
    free(file.data);
    free(inputs);
    return count;
}

static void compare(const struct same *same) {
    float found[2][1024];
    const int64_t count = compute(same, 0, found[0]);
    assert_int_equal(count, compute(same, 1, found[1]));
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(found[0][i] - found[1][i]) <= 1e-4F * fmaxf(0.1F, fabsf(found[1][i]))))
            fail_msg("%s: number %d is %.7g, and %.7g in plain steps", same->name, (int)i, (double)found[0][i],
                     (double)found[1][i]);
}

static void test_same(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) compare(&cases[c]);
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) compare(&values[v]);
    for (size_t r = 0; r < sizeof recurrent / sizeof *recurrent; r++) compare(&recurrent[r]);
    for (size_t a = 0; a < sizeof attention / sizeof *attention; a++) compare(&attention[a]);
}

/* Small enough that each of the numbers counts in the loss. */
#define END "; part Constant value_float=~0.0625; small Mul numbers part; product MatMul x w; p Add product small"

static void test_constants(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof constants / sizeof *constants; c++) {
        char graphs[2][1024];
        struct same same = {.name = constants[c].graph, .parameters = {"w 6,4"}, .input = "6"};
        snprintf(graphs[0], sizeof graphs[0], "%s; numbers Cast c to=1" END, constants[c].graph);
        snprintf(graphs[1], sizeof graphs[1], "numbers Constant value_floats=~%s" END, constants[c].numbers);
        for (int which = 0; which < 2; which++) same.graphs[which] = graphs[which];
        compare(&same);
    }
}

/* Each becomes the same nodes in every version, or runs of it could not go on. */
static void test_same_nodes(void **state) {
    (void)state;
    struct text text = {0};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int which = 0; which < 2; which++) {
            struct bytes file;
            struct ps_network *network = read_case(&cases[c], which, &file);
            char *json = ps_network_json(network), *nodes = strstr(json, "  \"nodes\"");
            assert_non_null(nodes);
            text_add(&text, "%s, %d\n%s", cases[c].name, which, nodes);
            free(json);
            ps_network_destroy(network);
            free(file.data);
        }
    test_golden(TEST_DIRECTORY "/golden/onnx_nodes.txt", text_take(&text));
}

/* How many nodes of a case's network have the operator, and the elements of all of them. */
struct count {
    int nodes;
    int64_t elements;
};

static struct count count_of(const struct same *same, int which, enum operator_id id) {
    struct bytes file;
    struct count count = {0};
    struct ps_network *network = read_case(same, which, &file);
    for (int n = 0; n < network->graph->node_count; n++) {
        const struct node *node = &network->graph->nodes[n];
        if (node->id != id) continue;
        count.nodes++;
        count.elements += shape_elements(&node->shape);
    }
    ps_network_destroy(network);
    free(file.data);
    return count;
}

static struct count count_nodes(const char *name, int which, enum operator_id id) {
    size_t c = 0;
    while (strncmp(cases[c].name, name, strlen(name)) != 0) c++;
    return count_of(&cases[c], which, id);
}

/* A number that changes nothing leaves no node. */
static void test_neutral_numbers(void **state) {
    (void)state;
    static const struct same neutral = {
        .name = "numbers that change nothing",
        .parameters = {"w 6,4"},
        .input = "6",
        .graphs = {
            "m MatMul x w; i Constant value_float=~1; o Constant value_float=~0; a Mul m i; b Add o a; c Div b i; p Sub c o",
            "p MatMul x w"}};
    int nodes[2];
    for (int which = 0; which < 2; which++) {
        struct bytes file;
        struct ps_network *network = read_case(&neutral, which, &file);
        nodes[which] = network->graph->node_count;
        ps_network_destroy(network);
        free(file.data);
    }
    assert_int_equal(nodes[0], nodes[1]);
}

/* However a condition is written, it becomes the mask of an attention, which keeps no scores. */
static void test_attention(void **state) {
    (void)state;
    static const char *const written[] = {"scores that are not seen", "scores in whose place far numbers stand",
                                          "scores in whose place far numbers stand for two reasons"};
    for (int w = 0; w < 3; w++)
        for (int which = 0; which < 2; which++) {
            assert_int_equal(count_nodes(written[w], which, OPERATOR_ATTENTION).nodes, 1);
            assert_int_equal(count_nodes(written[w], which, OPERATOR_SOFTMAX).nodes, 0);
        }
        /* However many masks there are, whichever side of the sum they stand on, and what is multiplied before and between. */
#define MASKED(sums)                                                                                                           \
    "u Transpose x perm=[0,2,1]; s MatMul x u; n Constant value_float=~0.5; a Mul s n; " sums                                  \
    "w Softmax z axis=-1; t MatMul w x; y ReduceSum t i:1 keepdims=0; p MatMul y o"
    static const struct same masked = {.name = "masks of scores",
                                       .parameters = {"m 5,5", "k 5,5", "o 6,4"},
                                       .input = "5,6",
                                       .graphs = {MASKED("b Add a m; z Add b k; "), MASKED("b Add m a; z Add k b; ")}};
#undef MASKED
    for (int which = 0; which < 2; which++) {
        assert_int_equal(count_of(&masked, which, OPERATOR_ATTENTION).nodes, 1);
        assert_int_equal(count_of(&masked, which, OPERATOR_SOFTMAX).nodes, 0);
    }
}

/* Layers as PyTorch exports them, whose gates are put in ONNX's order, become one operator; with samples first they are
 * computed position by position, to the same numbers. */
static void test_recurrent(void **state) {
    (void)state;
#define TAKE(p, gate, from, to) p gate " Slice " p " i:" from " i:" to " i:0; "
#define FOUR(p)                                                                                                                \
    TAKE(p, "1", "0", "2")                                                                                                     \
    TAKE(p, "2", "2", "4") TAKE(p, "3", "4", "6") TAKE(p, "4", "6", "8") p "k Concat " p "1 " p "4 " p "2 " p "3 axis=0; "
#define THREE(p) TAKE(p, "1", "0", "2") TAKE(p, "2", "2", "4") TAKE(p, "3", "4", "6") p "k Concat " p "2 " p "1 " p "3 axis=0; "
#define LAYER(gates)                                                                                                           \
    gates("w") gates("r") gates("h") gates("g") "wu Unsqueeze wk i:0; ru Unsqueeze rk i:0; bk Concat hk gk axis=0; "           \
                                                "bu Unsqueeze bk i:0; "
#define FIRST(op, how)                                                                                                         \
    "t Transpose x perm=[1,0,2]; l " op " t wu ru bu hidden_size=2" how "; s Squeeze l i:1; "                                  \
    "q ReduceSum s i:0 keepdims=0; p MatMul q e"
#define SAMPLES_FIRST(op, how)                                                                                                 \
    "l " op " x wu ru bu hidden_size=2 layout=1" how "; s Squeeze l i:2; "                                                     \
    "q ReduceSum s i:1 keepdims=0; p MatMul q e"
    static const struct same layers[] = {
        {"LSTM",
         {"w 8,3", "r 8,2", "h 8", "g 8", "e 2,4"},
         "5,3",
         {LAYER(FOUR) FIRST("LSTM", ""), LAYER(FOUR) SAMPLES_FIRST("LSTM", "")}},
        {"GRU",
         {"w 6,3", "r 6,2", "h 6", "g 6", "e 2,4"},
         "5,3",
         {LAYER(THREE) FIRST("GRU", " linear_before_reset=1"), LAYER(THREE) SAMPLES_FIRST("GRU", " linear_before_reset=1")}},
    };
#undef TAKE
#undef FOUR
#undef THREE
#undef LAYER
#undef FIRST
#undef SAMPLES_FIRST
    static const enum operator_id ids[] = {OPERATOR_LSTM, OPERATOR_GRU};
    for (int l = 0; l < 2; l++) {
        compare(&layers[l]);
        for (int which = 0; which < 2; which++) assert_int_equal(count_of(&layers[l], which, ids[l]).nodes, which == 0);
    }
}

/* What one number and a value make is one function of the value. */
static void test_numbers(void **state) {
    (void)state;
    static const struct {
        const char *line;
        double number;
        int kind;
        float alpha, beta;
    } numbers[] = {
        {"Add x n", 3, UNARY_AFFINE, 1, 3},       {"Add n x", 3, UNARY_AFFINE, 1, 3},
        {"Sub x n", 3, UNARY_AFFINE, 1, -3},      {"Sub n x", 3, UNARY_AFFINE, -1, 3},
        {"Mul x n", 4, UNARY_AFFINE, 4, 0},       {"Mul n x", 4, UNARY_AFFINE, 4, 0},
        {"Div x n", 4, UNARY_AFFINE, 0.25f, 0},   {"Div n x", 1, UNARY_RECIPROCAL, 1, 0},
        {"Pow x n", 0.5, UNARY_SQRT, 0.5f, 0},    {"Pow x n", 2, UNARY_POWER, 2, 0},
        {"Pow x n", -0.5, UNARY_POWER, -0.5f, 0}, {"Pow x n", 1.5, UNARY_POWER, 1.5f, 0},
    };
    for (size_t c = 0; c < sizeof numbers / sizeof *numbers; c++) {
        char graph[128];
        struct bytes file;
        snprintf(graph, sizeof graph, "n Constant value_float=~%g; y %s; p MatMul y w", numbers[c].number, numbers[c].line);
        const struct same same = {.name = graph, .parameters = {"w 6,4"}, .input = "6", .graphs = {graph}};
        struct ps_network *network = read_case(&same, 0, &file);
        int found = 0;
        for (int n = 0; n < network->graph->node_count; n++) {
            const struct node *node = &network->graph->nodes[n];
            if (node->id != OPERATOR_UNARY) continue;
            found++;
            assert_int_equal(node->attributes.kind, numbers[c].kind);
            if (numbers[c].kind == UNARY_SQRT || numbers[c].kind == UNARY_RECIPROCAL) continue;
            assert_true(node->attributes.alpha == numbers[c].alpha);
            if (numbers[c].kind == UNARY_AFFINE) assert_true(node->attributes.beta == numbers[c].beta);
        }
        assert_int_equal(found, 1);
        ps_network_destroy(network);
        free(file.data);
    }
}

static void keep_line(void *context, enum ps_log_level level, const char *text) {
    if (level == PS_LOG_WARN) text_add(context, "%s\n", text);
}

/* PyTorch's older exporter writes attentions' dropout with a rate and without its mode: as ONNX defines it, it drops nothing.
 */
static void test_dropout_without_mode(void **state) {
    (void)state;
    static const struct same same = {
        .name = "dropout without its mode",
        .parameters = {"o 6,4"},
        .input = "5,6",
        .graphs = {"r Constant value_float=~0.25; d Dropout x r; y ReduceSum d i:1 keepdims=0; p MatMul y o",
                   "d Dropout x; y ReduceSum d i:1 keepdims=0; p MatMul y o"}};
    for (int which = 0; which < 2; which++) {
        struct text lines = {0};
        struct bytes file;
        const struct ps_log_sink sink = {
            .struct_size = sizeof sink, .context = &lines, .level = PS_LOG_WARN, .line = keep_line};
        assert_ok(ps_log_to(&sink, &test_error));
        ps_network_destroy(read_case(&same, which, &file));
        assert_ok(ps_log_to(NULL, &test_error));
        assert_int_equal(lines.data != NULL, which == 0);
        if (lines.data)
            assert_non_null(strstr(lines.data, "Dropout without 'training_mode' drops nothing, so its rate of 0.25 is lost"));
        text_free(&lines);
        free(file.data);
    }
}

/* A number that is 0 is not one that was left out: every one of the norm's is. */
static void test_zeros(void **state) {
    (void)state;
    static const struct {
        struct same same;
        enum operator_id id;
    } norms[] = {
        {{"BatchNormalization whose statistics stay",
          {"s 6", "b 6", "m 6", "v 6", "w 6,4"},
          "6",
          {"y BatchNormalization x s b m v momentum=~1 epsilon=~0; p MatMul y w"}},
         OPERATOR_BATCH_NORM},
        {{"LayerNormalization", {"w 6,4"}, "6", {"y LayerNormalization x epsilon=~0; p MatMul y w"}}, OPERATOR_LAYER_NORM},
        {{"LRN",
          {"w 6,4"},
          "6,3,3",
          {"y LRN x size=3 alpha=~0 beta=~0 bias=~0; g GlobalAveragePool y; f Flatten g; p MatMul f w"}},
         OPERATOR_LOCAL_RESPONSE_NORM},
    };
    for (size_t c = 0; c < sizeof norms / sizeof *norms; c++) {
        struct bytes file;
        struct ps_network *network = read_case(&norms[c].same, 0, &file);
        const struct operator_type *op = operator_get(norms[c].id);
        int found = 0;
        for (int n = 0; n < network->graph->node_count; n++)
            for (const struct attribute *a = op->attributes; a->name != NULL && network->graph->nodes[n].id == norms[c].id; a++)
                if (a->kind == ATTRIBUTE_NUMBER) {
                    const double number = attribute_get(&network->graph->nodes[n].attributes, a, 0);
                    if (number != 0) fail_msg("%s: %s is %g", norms[c].same.name, a->name, number);
                    found++;
                }
        assert_true(found > 0);
        ps_network_destroy(network);
        free(file.data);
    }
}

/* A norm whose weights are constants, 1 and 0, keeps them; what else is constant there was a parameter once. */
static void test_norm_without_weights(void **state) {
    (void)state;
    static const struct same same = {
        .name = "BatchNormalization without weights",
        .parameters = {"m 6", "v 6", "w 6,4"},
        .input = "6",
        .graphs = {"s Cast i:1,1,1,1,1,1 to=1; b Cast i:0,0,0,0,0,0 to=1; y BatchNormalization x s b m v; p MatMul y w"}};
    struct bytes file;
    struct ps_network *network = read_case(&same, 0, &file);
    const struct parameter *own = &network->graph->parameters[network->graph->nodes[1].parameter_first];
    assert_int_equal(network->graph->nodes[1].id, OPERATOR_BATCH_NORM);
    for (int p = 0; p < 4; p++) {
        assert_int_equal(own[p].role, p < 2 ? PARAMETER_FIXED : PARAMETER_STATISTIC);
        assert_int_equal(parameter_is_constant(&own[p]), p < 2);
        assert_true(own[p].initial.kind == INITIAL_CONSTANT && own[p].initial.value == (p == 0 || p == 3));
    }
    ps_network_destroy(network);
    free(file.data);
}

/* Dropout of the weights is the attention's own, whose rate it has; not where something else reads them, too. */
static void test_dropout(void **state) {
    (void)state;
#define DROPPED(read)                                                                                                          \
    "r Constant value_float=~0.25; m0 Cast i:1 to=9; m Squeeze m0; u Transpose x perm=[0,2,1]; s MatMul x u; "                 \
    "w Softmax s axis=-1; d Dropout w r m; t MatMul d x; y ReduceSum t i:1 keepdims=0; " read
    static const struct same same = {
        .name = "dropout of an attention's weights",
        .parameters = {"o 6,4"},
        .input = "5,6",
        .graphs = {DROPPED("p MatMul y o"),
                   DROPPED("z MatMul w x; z1 ReduceSum z i:1 keepdims=0; z2 Add y z1; p MatMul z2 o")}};
#undef DROPPED
    for (int which = 0; which < 2; which++) {
        assert_int_equal(count_of(&same, which, OPERATOR_DROPOUT).nodes, which);
        struct bytes file;
        struct ps_network *network = read_case(&same, which, &file);
        bool found = false;
        for (int n = 0; n < network->graph->node_count; n++) {
            const struct node *node = &network->graph->nodes[n];
            if (node->id != (which == 0 ? OPERATOR_ATTENTION : OPERATOR_DROPOUT)) continue;
            assert_true(node->attributes.rate == 0.25f);
            found = true;
        }
        assert_true(found);
        ps_network_destroy(network);
        free(file.data);
    }
}

/* Where two values lie in different orders the smaller one is brought into the order of the larger. */
static void test_the_larger_stays(void **state) {
    (void)state;
    for (int which = 0; which < 2; which++) {
        const struct count turned = count_nodes("a smaller value", which, OPERATOR_PERMUTE);
        assert_int_equal(turned.nodes, 1);
        assert_int_equal(turned.elements, 4 * 2);
    }
}

/* A whole number for each sample is a sequence of one, as it is in a network file. */
static void test_a_number_is_a_sequence(void **state) {
    (void)state;
    struct bytes graph = {0};
    struct ps_network *network = NULL, *read = NULL;
    put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
    put_value_of(&graph, 11, "k", ONNX_I64, (int64_t[]){SAMPLES}, 1);
    put_node(&graph, "Gather", (const char *[]){"w", "k", NULL}, "p");
    put_value(&graph, 12, "p", (int64_t[]){SAMPLES, CLASSES}, 2);
    struct bytes file = model_of(&graph);
    assert_ok(onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error));
    char *text = ps_network_json(network);
    assert_non_null(text);
    assert_ok(network_parse(text, strlen(text), "network.json", &read, &test_error));
    const struct ps_input before = ps_network_input(network, 0), after = ps_network_input(read, 0);
    assert_int_equal(before.rank, after.rank);
    assert_memory_equal(before.shape, after.shape, sizeof before.shape);
    assert_string_equal(ps_network_info(network).hash, ps_network_info(read).hash);
    free(text);
    ps_network_destroy(read);
    ps_network_destroy(network);
    free(file.data);
}

/* The row of an embedding's table that has no gradient stands in what torch.export notes of the call, where that says one. */
static void test_padding(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        int padding; /* -1: none */
    } calls[] = {{"(%p_w, %k, 2), kwargs = {})", 2},
                 {"(%p_w, %k, 0, False, False), kwargs = {})", 0},
                 {"(%p_w, %k), kwargs = {})", -1},
                 {"(%p_w, %k, -1), kwargs = {})", -1},
                 {"(%p_w, %k, 6), kwargs = {})", -1},
                 {"(%p_w", -1},
                 {NULL, -1}};
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        struct bytes graph = {0}, node = {0};
        struct ps_network *network;
        char call[256];
        put_tensor(&graph, "w", (int64_t[]){6, 4}, 2);
        put_value_of(&graph, 11, "k", ONNX_I64, (int64_t[]){SAMPLES}, 1);
        put_text(&node, 1, "w");
        put_text(&node, 1, "k");
        put_text(&node, 2, "p");
        put_text(&node, 4, "Gather");
        put_entry(&node, 9, "namespace", "aten.embedding.default](args = (%a, %b, 1)");
        snprintf(call, sizeof call,
                 "%%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = %s",
                 calls[c].arguments != NULL ? calls[c].arguments : "");
        if (calls[c].arguments != NULL) put_entry(&node, 9, "pkg.torch.onnx.fx_node", call);
        put_message(&graph, 1, &node);
        put_value(&graph, 12, "p", (int64_t[]){SAMPLES, CLASSES}, 2);
        struct bytes file = model_of(&graph);
        assert_ok(onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error));
        const struct node *made = &network->graph->nodes[1];
        assert_int_equal(made->id, OPERATOR_EMBEDDING);
        assert_int_equal(made->attributes.padded ? made->attributes.padding : -1, calls[c].padding);
        ps_network_destroy(network);
        free(file.data);
        free(node.data);
    }
}

/* Operators on whole numbers give whole numbers: what they give of the same numbers with a fraction, without theirs. */
static void test_whole(void **state) {
    (void)state;
    static const char *const operators[] = {
        "r Abs a",
        "r Neg a",
        "r Relu a",
        "r Sign a",
        "r Clip a i:-2 i:3",
        "r CumSum a i:1",
        "r Pad a i:0,-1,0,1",
        "r Add a b",
        "r Sub a b",
        "r Mul a b",
        "r Max a b",
        "r Min a b",
        "r Mean a b",
        "r Sum a b a",
        "r Max a b a",
        "r ReduceL1 a axes=[1]",
        "r ReduceL2 a axes=[1]",
        "r ReduceLogSumExp a axes=[1]",
        "r ReduceMax a axes=[1]",
        "r ReduceMean a axes=[1]",
        "r ReduceMin a axes=[1]",
        "r ReduceProd a axes=[1]",
        "r ReduceSum a i:1",
        "r ReduceSumSquare a axes=[1]",
        "r Max a",
        "r Mean b",
        "r Where c a b",
        "t Concat a b axis=1; r Slice t i:3 i:9 i:1",
        "t Reshape a i:3,2,3; u Transpose t perm=[0,2,1]; r Reshape u i:3,6",
        "t Slice a i:0 i:2 i:1; u Slice t i:1 i:2 i:1; r Add b u",
        "t Reshape a i:3,6,1; u Expand t i:3,6,2; v Reshape u i:3,4,3; k ReduceSum v i:1,2 keepdims=0; r Reshape k i:3,1",
        "t Concat a b axis=1; u Neg t; r Slice u i:3 i:9 i:1",
        "t Reshape a i:3,2,3; u Transpose t perm=[0,2,1]; v Reshape u i:3,6; r Sub v b",
    };
    static const char *const begin =
        "n Constant value_float=~40; y Mul x n; aw Cast y to=7; h Constant value_float=~0.3; z Mul y h; bw Cast z to=7; "
        "c Greater x z; ";
    for (size_t o = 0; o < sizeof operators / sizeof *operators; o++) {
        char graphs[2][1024];
        struct same same = {.name = operators[o], .parameters = {"w 6,4"}, .input = "6"};
        snprintf(graphs[0], sizeof graphs[0], "%sa Identity aw; b Identity bw; %s; f Cast r to=1; q Mul x f; p MatMul q w",
                 begin, operators[o]);
        snprintf(graphs[1], sizeof graphs[1],
                 "%sa Cast aw to=1; b Cast bw to=1; %s; s Cast r to=7; f Cast s to=1; q Mul x f; p MatMul q w", begin,
                 operators[o]);
        for (int which = 0; which < 2; which++) same.graphs[which] = graphs[which];
        compare(&same);
    }
}

/* The bits of e/8 in a type of 16 bits. */
static uint16_t eighths(int e, int type) {
    const float value = (float)e / 8;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (type == BFLOAT16) return (uint16_t)(bits >> 16);
    return e == 0 ? 0 : (uint16_t)(((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
}

/* A parameter is the same numbers whatever its type is, and in whichever field they stand. */
static void test_types(void **state) {
    (void)state;
    enum { FLOATS = 4, INTEGERS = 5, RAW = 9, DOUBLES = 10, COUNT = 6 * CLASSES };
    static const struct {
        int type, field;
        enum array_type kept;
    } types[] = {{FLOAT, RAW, ARRAY_F32},      {FLOAT, FLOATS, ARRAY_F32},     {DOUBLE, RAW, ARRAY_F64},
                 {DOUBLE, DOUBLES, ARRAY_F64}, {FLOAT16, RAW, ARRAY_F16},      {FLOAT16, INTEGERS, ARRAY_F32},
                 {BFLOAT16, RAW, ARRAY_BF16},  {BFLOAT16, INTEGERS, ARRAY_F32}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct bytes graph = {0}, tensor = {0}, data = {0};
        struct ps_network *network = NULL;
        put_node(&graph, "MatMul", (const char *[]){"x", "w", NULL}, "p");
        put_number(&tensor, 1, 6);
        put_number(&tensor, 1, CLASSES);
        put_number(&tensor, 2, (uint64_t)types[t].type);
        put_text(&tensor, 8, "w");
        for (int e = 0; e < COUNT; e++) {
            const float single = (float)e / 8;
            const double number = (double)e / 8;
            const uint16_t bits = eighths(e, types[t].type);
            if (types[t].field == INTEGERS)
                put_varint(&data, bits);
            else if (types[t].type == FLOAT)
                put(&data, &single, sizeof single);
            else if (types[t].type == DOUBLE)
                put(&data, &number, sizeof number);
            else
                put(&data, &bits, sizeof bits);
        }
        put_message(&tensor, types[t].field, &data);
        put_message(&graph, 5, &tensor);
        put_value(&graph, 11, "x", (int64_t[]){SAMPLES, 6}, 2);
        put_value(&graph, 12, "p", (int64_t[]){SAMPLES, CLASSES}, 2);
        struct bytes file = model_of(&graph);
        assert_ok(onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error));
        const struct array *array = values_get(network->graph->values, "w");
        float found[COUNT];
        assert_true(array && array->type == types[t].kept && array_elements(array) == COUNT);
        array_floats(array, 0, COUNT, found);
        for (int e = 0; e < COUNT; e++)
            if (found[e] != (float)e / 8)
                fail_msg("type %d in field %d: number %d is %g", types[t].type, types[t].field, e, (double)found[e]);
        ps_network_destroy(network);
        free(file.data);
        free(data.data);
        free(tensor.data);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same),
                                       cmocka_unit_test(test_constants),
                                       cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_whole),
                                       cmocka_unit_test(test_same_nodes),
                                       cmocka_unit_test(test_neutral_numbers),
                                       cmocka_unit_test(test_attention),
                                       cmocka_unit_test(test_dropout),
                                       cmocka_unit_test(test_dropout_without_mode),
                                       cmocka_unit_test(test_numbers),
                                       cmocka_unit_test(test_zeros),
                                       cmocka_unit_test(test_norm_without_weights),
                                       cmocka_unit_test(test_recurrent),
                                       cmocka_unit_test(test_the_larger_stays),
                                       cmocka_unit_test(test_a_number_is_a_sequence),
                                       cmocka_unit_test(test_padding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
