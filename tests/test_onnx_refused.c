/*
 * What is refused of ONNX's operators, in full words: graphs of a line each, "a=2x3x8x8; w:4x3x3x3; Conv a w strides=[1,1]", in
 * which
 *
 *     a=2x3       is an input of the graph, f32
 *     w:2x3       an initializer of f32, 0, 1/8, ..
 *     k#1,2       one of whole numbers; k# is an empty list, k##1 a scalar
 *     Op a - b    a node of these inputs, of which - is left out; the first is called n1, with the outputs n1 and n1.1
 *     key=1       an attribute of the node before it, as put_attribute takes it
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "onnx/onnx.h"
#include "onnx_support.h"

#define A8 "a a a a a a a a "
#define A64 A8 A8 A8 A8 A8 A8 A8 A8

static const struct {
    const char *graph, *said;
} cases[] = {
    /* windows */
    {"a=2x3x4x4x4; w:4x3x3x3x3; Conv a w", "windows over one or two dimensions are known"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w strides=[1]", "its strides, pads or dilations do not fit"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w pads=[1,1]", "its strides, pads or dilations do not fit"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w dilations=[1,1,1]", "its strides, pads or dilations do not fit"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w strides=[0,1]", "its window's numbers do not fit"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w pads=[0,0,-1,0]", "its window's numbers do not fit"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w dilations=[1,20000]", "its window's numbers do not fit"},
    {"a=2x3x8x8; w:4x3x9x9; Conv a w", "its kernel does not fit into its input"},
    {"a=2x3x8x8; w:4x2x3x3; Conv a w", "its input and weight do not fit together"},
    {"a=2x3x8x8; w:4x3x3; Conv a w", "its input and weight do not fit together"},
    {"a=2x3; w:4x3; Conv a w", "its input and weight do not fit together"},
    {"a=2x3x8x8; w:4x3x3x3; Conv a w group=0", "its input and weight do not fit together"},
    {"a=2x4x8x8; w:4x3x3x3; Transpose w perm=[0,1,3,2]; ConvTranspose a n1", "its weight must be a parameter as it stands"},
    {"a=2x4x8x8; w:3x2x3x3; Transpose w perm=[0,1,3,2]; Conv a n1 group=2", "its weight must be a parameter as it stands"},
    {"a=2x3x8x8; w:4x3x9x3; Transpose w perm=[0,1,3,2]; Conv a n1", "its kernel does not fit into its input"},
    {"a=2x3x8x8; w:3x4x3x3; ConvTranspose a w output_padding=[1]", "its output_padding does not fit"},
    {"a=2x3x8x8; w:3x4x3x3; ConvTranspose a w output_padding=[1,1]", "its output_padding does not fit"},
    {"a=2x3x8x8; w:3x4x3x3; ConvTranspose a w strides=[2,2] output_padding=[-1,0]", "its output_padding does not fit"},
    {"a=2x3x8x8; w:3x4x3x3; ConvTranspose a w output_shape=[9]", "its output_shape does not fit"},
    {"a=2x3x8x8; w:3x4x3x3; ConvTranspose a w output_shape=[0,9]", "its output_shape does not fit"},
    {"a=2x3x8x8; w:3x4x3x3; ConvTranspose a w output_shape=[90,9]", "its output_shape is larger than what its windows reach"},
    {"a=2x3x8x8; MaxPool a kernel_shape=[2]", "its kernel does not fit"},
    {"a=2x3x8x8; MaxPool a", "its kernel does not fit"},
    {"a=2x3x8x8; k#0,0,0; Pad a k", "its pads do not fit"},
    {"a=2x3x8x8; k#0,0,0,0,0,0,0,2000000; Pad a k", "its pads do not fit"},
    {"a=2x3x8x8; k#0,0,-4,0,0,0,-4,0; Pad a k", "nothing would be left of its input"},
    {"a=2x3x8x8; k#0,0,1,1,0,0,1,1; Pad a k mode='mirror'", "its mode is not known"},
    {"a=2x3x8x8; b=2x8; Pad a b", "its pads depend on the data"},
    {"a=2x3x8x8; k#2,3,16; Resize a - - k", "its sizes do not fit"},
    {"a=2x3x8x8; k#2,3,16,0; Resize a - - k", "its sizes do not fit"},
    {"a=2x3x8x8; k#2,4,16,16; Resize a - - k", "only height and width can be resized"},
    {"a=2x3x8x8; k#2,3,16,16; Resize a - - k antialias=1", "antialias and exclude_outside are known only where the size stays"},
    {"a=2x3x8x8; k#2,3,16,16; Resize a - - k exclude_outside=1",
     "antialias and exclude_outside are known only where the size stays"},
    {"a=2x3; k#2,6; Resize a - - k", "images and sequences can be resized"},
    /* norms */
    {"a=2x6x4; s:6; BatchNormalization a s s s", "scale, bias, mean and variance are needed"},
    {"a=2x6; s:6; k#1,1,1,1,1,1; Cast k to=1; BatchNormalization a s n1 s s", "has folded, renamed or merged parameters"},
    {"a=2x6x4; LRN a size=3", "its input must be an image"},
    {"a=2x6x4; b=2x6; ReduceSum a b", "its axes depend on the data"},
    /* products */
    {"a=2x6; w:5x4; MatMul a w", "do not fit"},
    {"a=2x6; MatMul a", "two inputs are needed"},
    {"a=2x6; Add a -", "its input 1 is left out"},
    {"a=2x6; Einsum a a a a a a a a a equation='ij,ij,ij,ij,ij,ij,ij,ij,ij->ij'", "one to eight inputs are known"},
    {"a=2x6; Einsum a equation='ii->i'", "its equation"},
    {"a=2x6; b=2x6; Einsum a b equation='i.j,ij->ij'", "its equation has diagonals, too many dimensions or signs"},
    {"a=2x6; b=2x6; Einsum a b equation='...i...,ij->ij'", "its equation has diagonals, too many dimensions or signs"},
    {"a=2x6; b=2x6; Einsum a b equation='...ijk,ij->ij'", "its equation has diagonals, too many dimensions or signs"},
    {"a=2x6; b=2x6; Einsum a b equation='ij,i->ij'", "its equation does not fit its inputs"},
    {"a=2x6; b=2x5; Einsum a b equation='ij,ij->ij'", "its inputs do not fit together"},
    /* sequences */
    {"a=2x6; w:1x16x6; r:1x16x4; LSTM a w r hidden_size=4", "its input and hidden size do not fit"},
    {"a=5x2x6; w:1x16x6; r:1x16x4; LSTM a w r", "its input and hidden size do not fit"},
    {"a=5x2x6; w:1x16x6; r:1x16x4; LSTM a w r hidden_size=4 input_forget=1", "input_forget and peepholes are not known"},
    {"a=5x2x6; w:1x16x6; p:1x12; LSTM a w w - - - - p hidden_size=4", "input_forget and peepholes are not known"},
    {"a=5x2x6; w:1x16x6; k#5,5; LSTM a w w - k hidden_size=4", "sequences of several lengths are not known"},
    {"a=5x2x6; LSTM a - - hidden_size=4", "weights are needed"},
    {"a=5x2x6; w:1x12x6; r:1x16x4; LSTM a w r hidden_size=4", "fit"},
    {"a=5x2x6; w:2x16x6; r:2x16x4; b:2x32; LSTM a w r b hidden_size=4", "its input 1 is for 2 directions: it has 1"},
    {"a=5x2x6; w:1x16x6; r:2x16x4; LSTM a w r hidden_size=4", "its input 2 is for 2 directions: it has 1"},
    {"a=5x2x6; w:2x12x6; r:2x12x4; b:1x24; GRU a w r b hidden_size=4 direction='bidirectional'",
     "its input 3 is for 1 directions: it has 2"},
    {"a=5x2x6; w:1x16x6; r:1x16x4; k#0,0,0,0,0,0,0,0; Cast k to=1; s#1,1,8; Reshape n1 s; LSTM a w r - - n2 hidden_size=4",
     "its first state does not fit: (directions, 2 or 1, 4) is needed"},
    {"a=5x2x6; w:1x16x6; r:1x16x4; k#0,0,0,0,0,0,0,0; Cast k to=1; s#2,1,4; Reshape n1 s; LSTM a w r - - - n2 hidden_size=4",
     "its input 6 is for 2 directions: it has 1"},
    {"a=2x5x6; w:1x16x6; r:1x16x4; h=2x3x4; LSTM a w r - - h hidden_size=4 layout=1",
     "its input 5 is for 3 directions: it has 1"},
    {"a=2x4x5x8; b=2x3x5x8; Attention a b b", "its heads of queries cannot share those of keys"},
    {"a=2x4; Attention a a a", "its inputs must have 3 or 4 dimensions"},
    {"a=2x4x5x8; p=2x4x3x8; Attention a a a - p", "past keys and values are not known: training needs none"},
    {"a=2x4x5x8; m=2x1x1x5x5; Attention a a a m", "its mask does not fit"},
    {"a=2x4x5x8; m=2x1x5x5; Attention a a a m is_causal=1", "is_causal beside a mask: let the mask say both"},
    /* single numbers */
    {"a=2x6; Swish a alpha=~0", "its alpha is 0"},
    {"a=2x6; b=2x6; Clip a b", "its bounds depend on the data"},
    {"a=2x6; b=2x6; Clip a - b", "its bounds depend on the data"},
    {"a=2x6; Cast a to=9999", "a cast to a type that is not known of values: numbers with a fraction, 32 or 64 bits, or bool"},
    {"a=2x6; Sub", "2 inputs are needed"},
    {"a=2x6; w:7; Add a w", "do not fit together"},
    {"a=2x6; k#; Add a k", "an input is a constant without elements"},
    /* other views and pieces */
    {"a=2x3x4; Transpose a perm=[0,1]", "its order does not fit"},
    {"a=2x3x4; Transpose a perm=[0,1,1]", "its order names an axis twice"},
    {"a=2x3x4; Transpose a perm=[0,1,3]", "axis"},
    {"a=2x3x4; k#1,1; Tile a k", "constant repeats, one a dimension, are needed"},
    {"a=2x3x4; k#1,1,0; Tile a k", "nothing would be left of its input"},
    {"a=2x3x4; k#2,1,1; Tile a k", "it would repeat the samples of a batch"},
    {"a=2x3x4; b=2x3; Expand a b", "its shape depends on the data"},
    {"a=2x3; k#1,2; Cast k to=1; j#2,1; Reshape n1 j; Mul a n2", "a constant that differs from sample to sample"},
    {"a=2x2x2x2x2x2x2x2x2; Relu a", "model.onnx: value 'a': at most 8 dimensions are accepted"},
    {"a=2x3x4; k#2,3,4; Cast k to=1; Expand a n1", "its shape depends on the data"},
    {"a=2x3x4; k#1,1,1,1,1,1,1,1,1,1,1,1,1,2,3,4; Expand a k", "its shape depends on the data"},
    {"a=2x3x4; b=2x3; Reshape a b", "its shape or axes depend on the data"},
    {"a=2x3x4; DepthToSpace a blocksize=2", "an image and a blocksize are needed"},
    {"a=2x4x4x4; DepthToSpace a", "an image and a blocksize are needed"},
    {"a=2x3x4x4; DepthToSpace a blocksize=2", "its blocks do not fit"},
    {"a=2x3x4x5; SpaceToDepth a blocksize=2", "its blocks do not fit"},
    {"a=2x3x4; f#1,; e#1,; x#1,; Slice a f e x", "nothing is left of it: output 'n1'"},
    {"a=2x3; k#1,2; Identity k", "it does not depend on the inputs: output 'n1'"},
    {"a=2x3x4; f#0,; e#0,; x#0,; Slice a f e x", "nothing would be left of its input"},
    {"a=2x3x4; f#1,1; e#1,1; x#1,2; Slice a f e x", "nothing would be left of its input"},
    {"a=2x3x4; f#1,; e#1,; x#1,; Slice a f e x; Relu n1", "its input 0 is empty"},
    {"a=2x3x4; f#1,; e#1,; x#1,; Slice a f e x; Shape n1", "its input 0 is empty"},
    {"a=2x3x4; f#1,; e#1,; x#1,; Slice a f e x; Concat n1 n1 axis=1", "its inputs are empty"},
    {"a=2x3x4; f#1,; e#1,; x#1,; Slice a f e x; Concat a n1 axis=2", "its inputs do not fit together"},
    {"a=2x3x4; b=2x3x5; f#1,; e#1,; x#1,; Slice b f e x; Concat a n1 axis=1", "its inputs do not fit together"},
    {"a=2x3x4; b=2x3; f#1,; e#1,; x#1,; Slice b f e x; Concat a n1 axis=1", "its inputs do not fit together"},
    {"a=2x3x4; SplitToSequence a axis=1; Shape n1", "its input 0 is a sequence"},
    {"a=2x3x4; f#0,; e#1,; x#0,; Slice a f e x", "it would take some samples of a batch"},
    {"a=2x3x4; b=2x3; Slice a b b", "its bounds depend on the data"},
    {"a=2x3x4; k#2,2; Split a k axis=1", "its sizes do not fit"},
    {"a=2x3x4; k##0; SplitToSequence a k axis=1", "its sizes do not fit"},
    {"a=2x3x4; k#1,3; SplitToSequence a k axis=1", "its sizes do not fit"},
    {"a=2x3x4; SplitToSequence a axis=1; k##3; SequenceAt n1 k", "its place is outside of the sequence"},
    {"a=2x3x4; k##0; SequenceAt a k", "a sequence and a constant place in it are needed"},
    {"a=2x3x4; b=2x3; Concat a b axis=1", "its inputs do not fit together"},
    {"a=2x3x4; Concat a a axis=0", "it would join samples to one"},
    {"a=2x3x4; Concat axis=0", "1 inputs are needed"},
    {"a=2x3x4; k#0,3; Gather a k axis=1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3,4; j#2,2; Reshape k j; Cast n1 to=1; Cast a to=7; Gather n2 n3", "rows of a table of constants"},
    {"a=2x3x4; k#; Gather a k axis=1", "its indices do not fit"},
    {"a=2x3x4; k#0,; Gather a k", "it would take rows of other samples"},
    /* constants, worked out as the file is read */
    {"a=2x3; k#1,2,3; j#1,2; Add k j; Add a n1", "its inputs do not fit together"},
    {"a=2x3; k#1,2,3; Transpose k perm=[0,0]; Add a n1", "its order"},
    {"a=2x3; k#1,2,3; j#5,; Gather k j; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3; j#2,2; Reshape k j; Add a n1", "a shape of 4 elements for a value of 3"},
    {"a=2x3; k#1,2,3; j#-1,; Tile k j; Add a n1", "its repeats do not fit"},
    {"a=2x3; k#1,2,3; j#2,2; Split k j; Add a n1", "its sizes do not fit"},
    {"a=2x3; k#2049,2049; ConstantOfShape k; MatMul n1 n1; Add a n2", "a product of constants that is too large"},
    {"a=2x3; k##1; j##2; Range k j; Add a n1", "3 inputs are needed"},
    {"a=2x3; k##1; j##5; z##0; Range k j z; Add a n1", "its length is not finite"},
    {"a=2x3; k#1,2,3; Slice k; Add a n1", "3 inputs are needed"},
    {"a=2x3; k#1,2,3; j#0,0; i#1,; Slice k j i; Add a n1", "its starts, ends, axes and steps do not fit"},
    {"a=2x3; k#1,2,3; Gather k; Add a n1", "inputs are needed"},
    {"a=2x3; k#1,2,3; j#2,4; Expand k j; Add a n1", "its shape does not fit"},
    {"a=2x3; k#1,2,3; Trilu k; Add a n1", "a matrix is needed"},
    {"a=2x3; w:3; Unsqueeze w w; Add a n1", "its shape or axes depend on the data"},
    {"a=2x3; w:1x3; f:1; CumSum w f; Add a n1", "its axis depends on the data"},
    {"a=2x3; f:1; ConstantOfShape f; Add a n1", "the operator is known of constants alone, and its inputs depend on the data"},
    {"a=2x3; k#; ReduceMax k; Add a n1", "its input has no elements"},
    {"a=2x3; k#1,2,3; f#0,; e#3,; x#0,; s#0,; Slice k f e x s; Add a n1", "a step of 0"},
    {"a=2x3; k#1,2,3; f#0,; e#3,; x#0,; s#3000000000,; Slice k f e x s; Add a n1", "a step of 3000000000"},
    {"a=2x3; k#1,2,3; j#0,; Squeeze k j; Add a n1", "axis 0 has 3 elements, not 1"},
    {"a=2x3; k#1,; j#1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1; Reshape k j; Add a n1", "its shape must be a constant of at most"},
    {"a=2x3; Constant; Add a n1", "no value that is known"},
    {"a=2x3; k#1,2; Cast k to=1; ConstantOfShape n1; Add a n2", "its shape is no list of integers"},
    {"a=2x3; k##3; j#0,; Gather k j; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#0,; Cast j to=1; Gather k n1; Add a n2", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#-4,; Gather k j; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3; j#0,; GatherND k j batch_dims=1; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#0,0; GatherND k j; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j##0; GatherND k j; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#3,; GatherND k j; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3; j#0,0; u#5,; ScatterND k j u; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#0,; u#5,6; ScatterND k j u; Add a n1", "its updates do not fit"},
    {"a=2x3; k#1,2,3; j#3,; u#5,; ScatterND k j u; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3; j#-4,; u#5,; ScatterND k j u; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3; j#0,; u#5,; ScatterND k j u reduction='mul'; Add a n1", "its inputs do not fit together"},
    {"a=2x3; k#1,2,3; j#3,; u#5,; ScatterElements k j u; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3; j#1,; u#5,6; ScatterElements k j u; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#1,; u#5,; ScatterElements k j u reduction='max'; Add a n1", "its inputs do not fit together"},
    {"a=2x3x4; Cast a to=7; ScatterElements a n1 a axis=1", "its places depend on the data"},
    {"a=2x3x4; Cast a to=7; ScatterND a n1 a", "its places depend on the data"},
    {"a=2x3x4; b=2x3x5; Cast b to=7; GatherElements a n1 axis=1", "its places must be those of all positions of the other"},
    {"a=2x6; b=2x3; Cast b to=7; k#3; v#0,1,2; OneHot n1 k v",
     "its depth and values must be constants, of one number and of two"},
    {"a=2x6; Cast a to=7; k#0; v#0,1; OneHot n1 k v", "its depth does not fit"},
    {"a=2x6; Cast a to=7; OneHot n1 n1 n1", "its depth and values must be constants"},
    {"a=5x2x6; w:1x4x6; r:1x4x4; RNN a w r hidden_size=4 activations='Sigmoid'", "its activations: Tanh and Relu are known"},
    {"a=2x6; Cast a to=7; ArgMax n1 axis=1; k#0,1; r#2,1; Reshape k r; Add n2 n3; Cast n4 to=1",
     "differs from sample to sample"},
    {"a=2x6; b=2x3; Cast a to=7; ArgMax n1 axis=1; k#0,5; r#2,1; Reshape k r; Add n2 n3; Flatten b; Gather n5 n4",
     "a constant that differs from sample to sample"},
    {"a=2x6x3; Cast a to=7; ReduceMax n1 axes=[2] keepdims=0; ArgMax n2 axis=0", "samples"},
    {"a=2x3x2; j#0,1; ScatterElements a j a axis=2", "its indices do not fit"},
    {"a=2x2; j#0,1,1,0; r#2,2; Reshape j r; ScatterElements a n1 a axis=1", "its places differ from sample to sample"},
    {"a=2x2; j#1,1,0,0; r#2,2; Reshape j r; ScatterElements a n1 a", "it would take some samples of a batch"},
    {"a=2x2; j#1,1,1,1; r#2,2; Reshape j r; ScatterElements a n1 a axis=1", "it puts two values in one place"},
    {"a=2x2; j#0,2,0,2; r#2,2; Reshape j r; ScatterElements a n1 a axis=1", "an index is outside of its input"},
    {"a=2x2; j#0,1,0,1; r#2,2; Reshape j r; ScatterElements a n1 a axis=1 reduction='max'", "its reduction is not known"},
    {"a=2x2; b=2x3; j#0,1,0,1; r#2,2; Reshape j r; ScatterElements a n1 b axis=1", "its updates do not fit"},
    {"a=2x2; j#1,0; r#2,1; Reshape j r; ScatterND a n1 a", "it would take some samples of a batch"},
    {"a=2x2; j#0,1,1,0; r#2,2; Reshape j r; b=2; ScatterND a n1 b", "its places differ from sample to sample"},
    {"a=2x2; j#0,0,0,0; r#1,4; Reshape j r; ScatterND a n1 a", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j##0; GatherElements k j; Add a n1", "its indices do not fit"},
    {"a=2x3; k#1,2,3; j#3,; GatherElements k j; Add a n1", "an index is outside of its input"},
    {"a=2x3; k#1,2,3,4; r#2,2; Reshape k r; j#0,0,0; q#3,1; Reshape j q; GatherElements n1 n2 axis=1; Add a n3",
     "its indices do not fit"},
    {"a=2x3; k#1,2,3,4; r#2,2; Reshape k r; j#0,0,0; q#1,3; Reshape j q; GatherElements n1 n2; Add a n3",
     "its indices do not fit"},
    {"a=2x3; k#1,2; Cast k to=1; j#1,; Concat n1 j axis=0; Add a n2", "its inputs do not fit together"},
    {"a=2x3; k#1,2,3; j#1,2; Where k k j; Add a n1", "its inputs do not fit together"},
    {"a=2x3; k#1,2,3; j#0,0; CumSum k j; Add a n1", "its axis is no integer"},
    {"a=2x3; k#1,2,3; Cast k to=1; j#1,2; Cast j to=1; MatMul n1 n2; Add a n3", "its inputs do not fit together"},
    /* what else nothing can be made of */
    {"a=2x3; RandomNormalLike a; Add a n1",
     "the operator is not known\nset the rate of stochastic depth (drop_path) or of noise to 0 before the export"},
    {"a=2x6x4; s:6; GroupNormalization a s s num_groups=2",
     "the operator is known as it is since opset 21, and the file has opset 17"},
    {"a=2x6; Sum " A64 " a", "at most 64 inputs are accepted"},
    {"a=2x6; Max " A64 " a", "at most 64 inputs are accepted"},
    {"a=2x3x4; Concat " A64 " a axis=1", "65 inputs; 64 are accepted"},
    {"a=2x6; k#2,2,2; Cast k to=1; Mul a n1", "its inputs do not fit together"},
    {"a=2x6; b=2x6; Dropout a b", "its rate depends on the data"},
    {"a=2x6; k##0; b=2x6; Dropout a k b", "its mode depends on the data"},
    {"a=2x6; k##1; m##1; Dropout a k m", "its rate must be at least 0 and below 1"},
    {"a=2x6x4; s:5; BatchNormalization a s s s s", "its input 1 must be a parameter of 6 elements"},
    {"a=2x3x4; b=2x3; Split a b axis=1", "its sizes depend on the data"},
    {"a=2x3x4; k#3,; Split a k axis=1", "its sizes do not fit"},
    {"a=2x3; b=2x3; Cast b to=7; Gather a n1",
     "rows of a table that is a parameter can be gathered by tokens, and this is another"},
    {"a=2x3x4; b=2x3; Cast b to=7; GatherND a n1", "its indices depend on the data"},
    {"a=2x3x4; k#0,; GatherND a k batch_dims=1", "its indices depend on the data"},
    {"a=2x3x4; k#0,0,0,0; GatherND a k", "its indices do not fit"},
    {"a=2x6; Einsum a equation='ij->ik'", "its equation does not fit its inputs and output"},
    {"a=2x6; b=2x6; Einsum a b equation='ij,ij->ijk'", "its equation does not fit its inputs and output"},
    {"a=2x5x8; Attention a a a q_num_heads=3 kv_num_heads=3", "its heads do not share the features equally"},
    {"a=2x5x6; w:1x16x6; r:1x16x4; k#1,2,3,4,5,6,7,8; Cast k to=1; s#2,1,4; Reshape n1 s; "
     "LSTM a w r - - n2 hidden_size=4 layout=1",
     "its first state is a constant of several numbers: make it an input or 0"},
    {"a=2x5x6; w:1x16x6; r:1x16x4; h=2x4; LSTM a w r - - h hidden_size=4 layout=1", "its first state does not fit"},
    {"a=2x5000x6; w:1x16x6; r:1x16x4; h=2x1x4; LSTM a w r - - h hidden_size=4 layout=1",
     "5000 positions; of a layer that is not as PyTorch exports it at most"},
    {"a=2x3x8x8; k#0,0,0,0,0,0,0,0; b=2x8; Pad a k b", "its value depends on the data"},
    {"a=2x3x8x8; b=2x4; Resize a - b", "its sizes depend on the data"},
    {"a=2x3; b=3x3; Add a b", "the first dimension must be the batch, and differs in input 'b'"},
    {"a=1x6; w:5x4; MatMul a w", "its inputs do not fit together\nit was exported with a batch of 1, which cannot be told from "
                                 "other dimensions of 1: export with 2 or more"},
    /* numbers that a network cannot have */
    {"a=2x6; LeakyRelu a alpha=~nan", "model.onnx: node 'n1' (LeakyRelu): alpha: nan is not a number from -3.4028235e+38 to "},
    {"a=2x6; LeakyRelu a alpha=~-inf", "alpha: -inf is not a number from -3.4028235e+38 to 3.4028235e+38"},
    {"a=2x6; LayerNormalization a epsilon=~-1", "epsilon: -1 is not a number from 0 to "},
    {"a=2x3x20000; w:4x3x16385; Conv a w", "kernel: 16385 is not an integer from 1 to 16384"},
    {"a=2x3x4; k#2,3,5; Expand a k", "its shape does not fit"},
    {"a=2x3x4; k#3,2,4; Reshape a k", "it would mix the samples of a batch, or has too many dimensions"},
    {"a=2x6; Add a zz", "model.onnx: node 'n1' (Add): no node before it makes its input 'zz'"},
    {"a=2x0x4; Relu a",
     "model.onnx: a dimension has no fixed size in input 'a'\nexport with fixed lengths: only the batch may be a name"},
    {"a=; Relu a", "model.onnx: the first dimension must be the batch, and there is none in input 'a'"},
    {"a=2x3; w:1x1x1x1x1x1x3; k#0,1,2,3,4; Squeeze w k; Add a n1", "a parameter of more than 6 dimensions"},
    {"a=2x2147483648; Relu a", "model.onnx: input 'a': a value of more than 2^40 elements, or 2^31 along one dimension"},
    {"a=2x1048576x524289; Relu a", "model.onnx: input 'a': a value of more than 2^40 elements, or 2^31 along one dimension"},
};

/* -------------------------------------------------------------------------- graphs */

/* "Conv a - w strides=1,1" */
static void put_line(struct bytes *graph, char *line, const char *name) {
    struct bytes node = {0};
    char *rest, *word = strtok_r(line, " ", &rest), second[16];
    put_text(&node, 4, word);
    while ((word = strtok_r(NULL, " ", &rest))) {
        char *value = strchr(word, '=');
        if (!value) {
            put_text(&node, 1, strcmp(word, "-") == 0 ? "" : word);
            continue;
        }
        *value = '\0';
        put_attribute(&node, word, value + 1);
    }
    snprintf(second, sizeof second, "%s.1", name);
    put_text(&node, 2, name);
    if (strncmp(line, "Split", 6) == 0) put_text(&node, 2, second);
    put_text(&node, 3, name);
    put_message(graph, 1, &node);
    free(node.data);
}

static struct bytes make_graph(const char *text) {
    struct bytes graph = {0};
    char *all = strdup(text), *rest, name[16] = "";
    int64_t numbers[16];
    int nodes = 0;
    for (char *line = strtok_r(all, ";", &rest); line; line = strtok_r(NULL, ";", &rest)) {
        line += strspn(line, " ");
        char *value = strpbrk(line, "=:# ");
        const char kind = value ? *value : ' ';
        if (kind == ' ' || *line < 'a') {
            snprintf(name, sizeof name, "n%d", ++nodes);
            put_line(&graph, line, name);
            continue;
        }
        *value++ = '\0';
        const bool scalar = *value == '#';
        const int count = numbers_of(value + scalar, kind == '#' ? ',' : 'x', numbers);
        if (kind == '#')
            put_whole(&graph, line, numbers, count, scalar);
        else if (kind == ':')
            put_tensor(&graph, line, numbers, count);
        else
            put_value(&graph, 11, line, numbers, count);
    }
    put_value(&graph, 12, name, (int64_t[]){2, 6}, 2);
    free(all);
    return graph;
}

static void test_refused(void **state) {
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct bytes graph = make_graph(cases[c].graph), file = model_of(&graph);
        struct ps_network *network = NULL;
        memset(&test_error, 0, sizeof test_error);
        const enum ps_status status = onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error);
        free(file.data);
        print_message("%s\n", cases[c].graph);
        assert_status(status, PS_BAD_INPUT, cases[c].said);
    }
}

/* The attributes that operators may have; all others may say something else than what would be computed. */
static const struct {
    const char *operators, *attributes;
} attributes[] = {
    {"Abs Acos Acosh Add And Asin Asinh Atan Atanh Ceil Clip Cos Cosh Div Equal Erf Exp Expand Floor GlobalAveragePool "
     "GlobalMaxPool Greater GreaterOrEqual HardSwish Identity IsNaN Less LessOrEqual Log MatMul Max Mean Min Mish Mul Neg Not "
     "Or PRelu Pow Range Reciprocal Relu Round SequenceAt Sigmoid Sign Sin Sinh Size Slice Softplus Softsign Sqrt Squeeze Sub "
     "Sum Tan Tanh Tile Unsqueeze Where Xor",
     "none"},
    {"ArgMax ArgMin", "axis keepdims select_last_index"},
    {"Attention", "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision"},
    {"AveragePool", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides"},
    {"BatchNormalization", "epsilon momentum training_mode"},
    {"Cast", "round_mode saturate to"},
    {"CastLike", "round_mode saturate"},
    {"Celu Elu LeakyRelu Swish ThresholdedRelu", "alpha"},
    {"Concat Flatten Gather GatherElements LogSoftmax OneHot Softmax", "axis"},
    {"Constant", "value value_float value_floats value_int value_ints"},
    {"ConstantOfShape", "value"},
    {"Conv", "auto_pad dilations group kernel_shape pads strides"},
    {"ConvTranspose", "auto_pad dilations group kernel_shape output_padding output_shape pads strides"},
    {"CumSum", "exclusive reverse"},
    {"DepthToSpace", "blocksize mode"},
    {"Dropout", "seed"},
    {"Einsum", "equation"},
    {"GRU", "direction hidden_size layout linear_before_reset"},
    {"GatherND", "batch_dims"},
    {"Gelu", "approximate"},
    {"Gemm", "alpha beta transA transB"},
    {"GroupNormalization", "epsilon num_groups stash_type"},
    {"HardSigmoid", "alpha beta"},
    {"InstanceNormalization", "epsilon"},
    {"LRN", "alpha beta bias size"},
    {"LSTM", "direction hidden_size input_forget layout"},
    {"LayerNormalization RMSNormalization", "axis epsilon stash_type"},
    {"MaxPool", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides"},
    {"Mod", "fmod"},
    {"Pad", "mode"},
    {"RNN", "activations direction hidden_size layout"},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare",
     "axes keepdims noop_with_empty_axes"},
    {"Reshape", "allowzero"},
    {"Resize", "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value "
               "keep_aspect_ratio_policy mode nearest_mode"},
    {"ScatterElements", "axis reduction"},
    {"ScatterND", "reduction"},
    {"Selu", "alpha gamma"},
    {"Shape", "end start"},
    {"SpaceToDepth", "blocksize"},
    {"Split", "axis num_outputs"},
    {"SplitToSequence", "axis keepdims"},
    {"Transpose", "perm"},
    {"Trilu", "upper"},
};

/* What is worked out of constants, by the inputs that it needs. */
static const char *const needed[] = {
    [1] =
        "Abs Cast Ceil Concat ConstantOfShape Cos Dropout Erf Exp Flatten Floor Identity IsNaN Log Max Min Neg Not Reciprocal "
        "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Round Sigmoid Sign Sin Split Sqrt Squeeze Sum Tanh Transpose "
        "Trilu Unsqueeze",
    [2] = "Add And CastLike CumSum Div Equal Expand Gather GatherElements GatherND Greater GreaterOrEqual Less LessOrEqual "
          "MatMul "
          "Mod Mul Or Pow Reshape Sub Tile Xor",
    [3] = "Range ScatterElements ScatterND Slice Where",
};

static void refuse_inputs(const char *op, const char *inputs, const char *said) {
    char text[128];
    struct ps_network *network = NULL;
    snprintf(text, sizeof text, "a=2x6; k#1,2; %s%s; Add a n1", op, inputs);
    struct bytes graph = make_graph(text), file = model_of_opset(&graph, 26);
    memset(&test_error, 0, sizeof test_error);
    const enum ps_status status = onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error);
    free(file.data);
    print_message("%s%s: %s\n", op, inputs, test_error.message);
    assert_status(status, PS_BAD_INPUT, said);
}

/* Every operator is refused that has fewer inputs than it needs. */
static void test_inputs(void **state) {
    (void)state;
    char all[1024], said[128], *rest;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        snprintf(all, sizeof all, "%s", attributes[i].operators);
        for (char *op = strtok_r(all, " ", &rest); op; op = strtok_r(NULL, " ", &rest)) refuse_inputs(op, "", "");
    }
    for (int least = 1; least <= 3; least++) {
        snprintf(all, sizeof all, "%s", needed[least]);
        for (char *op = strtok_r(all, " ", &rest); op; op = strtok_r(NULL, " ", &rest))
            for (int count = 0; count < least; count++) {
                snprintf(said, sizeof said, "model.onnx: node 'n1' (%s): %d inputs are needed", op, least);
                refuse_inputs(op, &" k k"[4 - 2 * count], said);
            }
    }
}

static void test_attributes(void **state) {
    (void)state;
    static const char *const unknown[] = {"zoom", "scale_", "a", "_", ""};
    char all[1024], said[400], *rest;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        snprintf(all, sizeof all, "%s", attributes[i].operators);
        for (char *op = strtok_r(all, " ", &rest); op; op = strtok_r(NULL, " ", &rest))
            for (size_t u = 0; u < sizeof unknown / sizeof *unknown; u++) {
                struct bytes graph = {0}, node = {0}, file;
                struct ps_network *network = NULL;
                put_text(&node, 1, "a");
                put_text(&node, 2, "n");
                put_text(&node, 3, "n");
                put_text(&node, 4, op);
                put_attribute(&node, unknown[u], "1");
                put_message(&graph, 1, &node);
                put_value(&graph, 11, "a", (int64_t[]){2, 6}, 2);
                put_value(&graph, 12, "n", (int64_t[]){2, 6}, 2);
                file = model_of_opset(&graph, 26);
                memset(&test_error, 0, sizeof test_error);
                const enum ps_status status = onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error);
                free(file.data);
                free(node.data);
                snprintf(said, sizeof said, "model.onnx: node 'n' (%s): its attribute '%s' is not known; known are: %s", op,
                         unknown[u], attributes[i].attributes);
                assert_int_equal(status, PS_BAD_INPUT);
                assert_string_equal(test_error.message, said);
            }
    }
}

/* The oldest and newest operator sets that are read, of all operators and of one. */
static void test_opsets(void **state) {
    (void)state;
    static const struct {
        const char *graph;
        uint64_t opset;
        const char *said; /* NULL: it is read */
    } sets[] = {
        {"a=2x6; Relu a", 12, "model.onnx: opset 12; 13 to 26 are accepted"},
        {"a=2x6; Relu a", 13, NULL},
        {"a=2x6; Relu a", 26, NULL},
        {"a=2x6; Relu a", 27, "model.onnx: opset 27; 13 to 26 are accepted"},
        {"a=2x6; s:6; GroupNormalization a s s num_groups=2", 20,
         "the operator is known as it is since opset 21, and the file has opset 20"},
        {"a=2x6; s:6; GroupNormalization a s s num_groups=2", 21, NULL},
        {"a=2x6x4; s:6; InstanceNormalization a s s; ReduceMean n1 axes=[2] keepdims=0", 17, NULL},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        struct bytes graph = make_graph(sets[i].graph), file = model_of_opset(&graph, sets[i].opset);
        struct ps_network *network = NULL;
        memset(&test_error, 0, sizeof test_error);
        const enum ps_status status = onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error);
        free(file.data);
        if (sets[i].said) {
            assert_status(status, PS_BAD_INPUT, sets[i].said);
        } else {
            assert_ok(status);
            ps_network_destroy(network);
        }
    }
}

/* A name with a zero byte is shown whole. */
static void test_zero_bytes(void **state) {
    (void)state;
    struct bytes graph = {0}, node = {0};
    struct ps_network *network = NULL;
    put_text(&node, 1, "a");
    put_text(&node, 2, "n");
    put_bytes(&node, 3, "first\0name", 10);
    put_bytes(&node, 4, "No\0such", 7);
    put_message(&graph, 1, &node);
    put_value(&graph, 11, "a", (int64_t[]){2, 6}, 2);
    put_value(&graph, 12, "n", (int64_t[]){2, 6}, 2);
    struct bytes file = model_of(&graph);
    memset(&test_error, 0, sizeof test_error);
    assert_status(onnx_parse_network("model.onnx", file.data, file.size, &network, &test_error), PS_BAD_INPUT,
                  "node 'first?name' (No?such): ");
    free(file.data);
    free(node.data);
}

/* What has the name of a network's file, or is said to be one, and is something else. */
static void test_other_files(void **state) {
    (void)state;
    static const struct {
        const char *name, *begins, *said;
    } files[] = {
        {"net.pt", "PK\3\4zip",
         "net.pt: an archive, as torch.save writes weights, and no network\nnetworks come as ONNX (NAME.onnx, as "
         "torch.onnx.export writes it) or JSON; weights alone, as safetensors, are for `init`"},
        {"net.pth", "\200\2}q", "net.pth: a pickle, as torch.save writes weights, and no network\nnetworks come as ONNX"},
        {"net.txt", "PK", "line 1"},
        {"net.txt", "", "networks come as ONNX"},
        {"net.json", "PK\3\4zip", "net.json: "},
    };
    char path[4096];
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        struct ps_network *network;
        test_file_write(file_join(path, test_directory, files[f].name), files[f].begins, strlen(files[f].begins));
        assert_status(ps_network_read(path, &network, &test_error), PS_BAD_INPUT, files[f].said);
    }
    /* A file's name that no file has is told from a network's. */
    static const char *const missing[] = {"missing.onnx", "missing.json", "missing.onnx,split=a:1", "missing.json,split=a:1"};
    for (size_t m = 0; m < sizeof missing / sizeof *missing; m++) {
        struct ps_network *network;
        char said[64];
        snprintf(said, sizeof said, "%.*s: %s", (int)strcspn(missing[m], ","), missing[m],
                 strstr(missing[m], ".onnx") ? "No such file or directory" : "cannot open: No such file or directory");
        assert_status(ps_network_open(missing[m], &network, &test_error), PS_BAD_INPUT, said);
    }
    struct ps_network *network;
    assert_status(ps_network_open("missing.txt", &network, &test_error), PS_USAGE,
                  "model 'missing.txt': there is no such file, and no such network is built in");
    /* A file that is there, with an option of a built-in network. */
    char text[4200], said[4300];
    file_join(path, test_directory, "there.json");
    test_file_write(path, "{}", 2);
    snprintf(text, sizeof text, "%s,classes=5", path);
    snprintf(said, sizeof said, "%.200s': a file takes the options split= and precision=, not 'classes=5'", path);
    assert_status(ps_network_open(text, &network, &test_error), PS_USAGE, said);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused),    cmocka_unit_test(test_inputs),
                                       cmocka_unit_test(test_attributes), cmocka_unit_test(test_opsets),
                                       cmocka_unit_test(test_zero_bytes), cmocka_unit_test(test_other_files)};
    return cmocka_run_group_tests(tests, test_directory_set_up, test_directory_tear_down);
}
