/*
 * What each ONNX operator becomes: a row of the table at the end for each. Handlers read their inputs as constants or views and
 * leave views of steps; none of them knows how anything lies in memory.
 */
#include "onnx/lower_calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- steps */

struct view *view_new(struct lowering *l, const struct view *from) {
    return arena_copy(&l->arena, from, 1, sizeof *from);
}

struct step *step_add(struct lowering *l, enum step_kind kind, const struct onnx_node *node, int inputs) {
    if (l->step_count == l->step_capacity) {
        int capacity = 2 * l->step_capacity + 64;
        struct step **grown = realloc(l->steps, (size_t)capacity * sizeof(struct step *));
        if (grown == NULL) {
            l->arena.refused = (size_t)capacity * sizeof(struct step *);
            return NULL;
        }
        l->steps = grown;
        l->step_capacity = capacity;
    }
    struct step *step = arena_take(&l->arena, 1, sizeof *step);
    struct view **views = arena_take(&l->arena, (size_t)inputs, sizeof(struct view *));
    if (step == NULL || views == NULL) return NULL;
    step->kind = kind;
    step->node = node;
    step->inputs = views;
    step->input_count = inputs;
    step->onnx_type = ONNX_FLOAT;
    step->output.step = l->step_count;
    l->steps[l->step_count++] = step;
    return step;
}

/* One atom a dimension, row-major, without a batch. */
static void plain_view(struct view *view, int rank, const int64_t *dims) {
    view->rank = rank;
    view->count = 0;
    memcpy(view->dims, dims, (size_t)rank * sizeof *dims);
    for (int d = 0; d < rank; d++)
        if (dims[d] > 1) view->atoms[view->count++] = (struct atom){dims[d], 1, d, false};
    view_natural(view);
}

struct view *constant_view(struct lowering *l, const struct tensor *tensor) {
    struct step *step = step_add(l, STEP_CONSTANT, NULL, 0);
    if (step == NULL) return NULL;
    step->tensor = tensor;
    step->onnx_type = tensor->type;
    plain_view(&step->output, tensor->rank, tensor->dims);
    return &step->output;
}

/* ------------------------------------------------------- what a handler sees */

enum ps_status call_refuse(const struct call *call, const char *what) {
    return error_set(call->error, PS_BAD_INPUT, "%s", what);
}

enum ps_status call_memory(const struct call *call) { return arena_check(&call->l->arena, "an ONNX file", call->error); }

struct value *call_input(const struct call *call, int i) {
    static struct value absent;
    return i < call->node->input_count ? &call->l->values[call->node->inputs[i]] : &absent;
}

bool call_given(const struct call *call, int i) { return call_input(call, i)->kind != VALUE_ABSENT; }

const struct tensor *call_constant(const struct call *call, int i) {
    const struct value *value = call_input(call, i);
    return value->kind == VALUE_CONSTANT ? value->tensor : NULL;
}

enum ps_status call_view(const struct call *call, int i, struct view **out) {
    const struct value *value = call_input(call, i);
    if (value->kind == VALUE_CONSTANT)
        *out = constant_view(call->l, value->tensor);
    else if (value->kind == VALUE_VIEW)
        *out = view_new(call->l, value->view);
    else
        return error_set(call->error, PS_BAD_INPUT, "its input %d is %s", i,
                         value->kind == VALUE_ABSENT ? "left out" : "a sequence");
    return call_memory(call);
}

void call_give(const struct call *call, int output, struct view *result) {
    if (output >= call->node->output_count || call->node->outputs[output] == 0) return;
    call->l->values[call->node->outputs[output]] = (struct value){.kind = VALUE_VIEW, .view = result};
}

enum ps_status call_give_constant(const struct call *call, int output, struct tensor *tensor) {
    if (output < call->node->output_count && call->node->outputs[output] != 0)
        call->l->values[call->node->outputs[output]] = (struct value){.kind = VALUE_CONSTANT, .tensor = tensor};
    return PS_OK;
}

int call_type(const struct call *call, int i) {
    const struct value *value = call_input(call, i);
    if (value->kind == VALUE_CONSTANT) return value->tensor->type;
    return value->kind == VALUE_VIEW ? call->l->steps[value->view->step]->onnx_type : ONNX_FLOAT;
}

struct step *call_same(const struct call *call, enum step_kind kind, struct view *x) {
    struct step *step = step_add(call->l, kind, call->node, 1);
    if (step == NULL) return NULL;
    const int number = step->output.step;
    step->inputs[0] = x;
    step->output = *x;
    step->output.step = number;
    for (int i = 0; i < step->output.count; i++)
        if (step->output.atoms[i].stride != 0) step->output.atoms[i].stride = 1;
    view_natural(&step->output);
    step->onnx_type = call->l->steps[x->step]->onnx_type;
    return step;
}

enum ps_status call_output(const struct call *call, struct step *step, const struct view *x, int rank, const int64_t *dims,
                           const int *from) {
    struct view *out = &step->output;
    out->rank = rank;
    out->count = 0;
    for (int d = 0; d < rank; d++) {
        out->dims[d] = dims[d];
        for (int i = 0; from[d] >= 0 && i < x->count; i++) {
            if (x->atoms[i].axis != from[d]) continue;
            if (out->count == ATOMS_MAX) return call_refuse(call, "its output has too many dimensions");
            out->atoms[out->count] = x->atoms[i];
            out->atoms[out->count].stride = x->atoms[i].stride != 0;
            out->atoms[out->count++].axis = d;
        }
        if (from[d] >= 0 || dims[d] == 1) continue;
        if (out->count == ATOMS_MAX) return call_refuse(call, "its output has too many dimensions");
        out->atoms[out->count++] = (struct atom){dims[d], 1, d, false};
    }
    view_natural(out);
    return PS_OK;
}

bool tensor_uniform(const struct tensor *tensor, double *number) {
    if (tensor == NULL || tensor->elements == 0) return false;
    *number = tensor->reals != NULL ? tensor->reals[0] : (double)tensor->whole[0];
    for (int64_t e = 1; e < tensor->elements; e++)
        if ((tensor->reals != NULL ? tensor->reals[e] : (double)tensor->whole[e]) != *number) return false;
    return true;
}

enum ps_status call_needs_apart(const struct call *call, const struct view *v, int axis) {
    if (!view_has_batch(v, axis)) return PS_OK;
    return call_refuse(call, "it would sum over the samples of a batch");
}

/* --------------------------------------------------------------- the table */

static const struct row rows[] = {
    {"Abs", lower_unary, "abs", 0},
    {"Acos", lower_unary, "acos", 0},
    {"Acosh", lower_unary, "acosh", 0},
    {"Add", lower_binary, "add", 0},
    {"And", lower_logical, "and", 0},
    {"Asin", lower_unary, "asin", 0},
    {"Asinh", lower_unary, "asinh", 0},
    {"Atan", lower_unary, "atan", 0},
    {"Atanh", lower_unary, "atanh", 0},
    {"Attention", lower_attention, NULL, 0},
    {"AveragePool", lower_pool, "average", 0},
    {"BatchNormalization", lower_batch_norm, NULL, 0},
    {"Cast", lower_cast, NULL, 0},
    {"CastLike", lower_cast, NULL, 0},
    {"Ceil", lower_unary, "ceil", 0},
    {"Celu", lower_unary, "celu", 0},
    {"Clip", lower_clip, NULL, 0},
    {"Concat", lower_concat, NULL, 0},
    {"Conv", lower_convolution, NULL, 0},
    {"ConvTranspose", lower_convolution, NULL, 0},
    {"Cos", lower_unary, "cos", 0},
    {"Cosh", lower_unary, "cosh", 0},
    {"Div", lower_binary, "div", 0},
    {"Dropout", lower_dropout, NULL, 0},
    {"Elu", lower_unary, "elu", 0},
    {"Equal", lower_compare, "equal", 0},
    {"Erf", lower_unary, "erf", 0},
    {"Exp", lower_unary, "exp", 0},
    {"Expand", lower_expand, NULL, 0},
    {"Flatten", lower_reshape, NULL, 0},
    {"Floor", lower_unary, "floor", 0},
    {"GRU", lower_recurrent, "gru", 0},
    {"Gather", lower_gather, NULL, 0},
    {"GatherND", lower_gather_nd, NULL, 0},
    {"Gelu", lower_gelu, NULL, 0},
    {"Gemm", lower_gemm, NULL, 0},
    {"GlobalAveragePool", lower_global_pool, "mean", 0},
    {"GlobalMaxPool", lower_global_pool, "max", 0},
    {"Greater", lower_compare, "greater", 0},
    {"GreaterOrEqual", lower_compare, "greater_equal", 0},
    {"GroupNormalization", lower_group_norm, "group", 21},
    {"HardSigmoid", lower_unary, "hardsigmoid", 0},
    {"HardSwish", lower_unary, "hardswish", 0},
    {"Identity", lower_identity, NULL, 0},
    {"InstanceNormalization", lower_group_norm, "instance", 0},
    {"IsNaN", lower_is_nan, "isnan", 0},
    {"LRN", lower_lrn, NULL, 0},
    {"LSTM", lower_recurrent, "lstm", 0},
    {"LayerNormalization", lower_layer_norm, "layer", 0},
    {"LeakyRelu", lower_unary, "leaky_relu", 0},
    {"Less", lower_compare, "less", 0},
    {"LessOrEqual", lower_compare, "less_equal", 0},
    {"Log", lower_unary, "log", 0},
    {"LogSoftmax", lower_softmax, "log_softmax", 0},
    {"MatMul", lower_matmul, NULL, 0},
    {"Max", lower_binary, "max", 0},
    {"MaxPool", lower_pool, "max", 0},
    {"Min", lower_binary, "min", 0},
    {"Mish", lower_unary, "mish", 0},
    {"Mul", lower_binary, "mul", 0},
    {"Neg", lower_unary, "neg", 0},
    {"Not", lower_logical, "not", 0},
    {"Or", lower_logical, "or", 0},
    {"PRelu", lower_prelu, NULL, 0},
    {"Pad", lower_pad, NULL, 0},
    {"Pow", lower_binary, "power", 0},
    {"RMSNormalization", lower_layer_norm, "rms", 0},
    {"Reciprocal", lower_unary, "reciprocal", 0},
    {"ReduceL1", lower_reduce, "l1", 0},
    {"ReduceL2", lower_reduce, "l2", 0},
    {"ReduceLogSum", lower_reduce, "log_sum", 0},
    {"ReduceLogSumExp", lower_reduce, "log_sum_exp", 0},
    {"ReduceMax", lower_reduce, "max", 0},
    {"ReduceMean", lower_reduce, "mean", 0},
    {"ReduceMin", lower_reduce, "min", 0},
    {"ReduceProd", lower_reduce, "prod", 0},
    {"ReduceSum", lower_reduce, "sum", 0},
    {"ReduceSumSquare", lower_reduce, "sum_square", 0},
    {"Relu", lower_unary, "relu", 0},
    {"Reshape", lower_reshape, NULL, 0},
    {"Resize", lower_resize, NULL, 0},
    {"Round", lower_unary, "round", 0},
    {"Selu", lower_unary, "selu", 0},
    {"SequenceAt", lower_sequence_at, NULL, 0},
    {"Shape", lower_shape, NULL, 0},
    {"Sigmoid", lower_unary, "sigmoid", 0},
    {"Sign", lower_unary, "sign", 0},
    {"Sin", lower_unary, "sin", 0},
    {"Sinh", lower_unary, "sinh", 0},
    {"Size", lower_shape, "size", 0},
    {"Slice", lower_slice, NULL, 0},
    {"Softmax", lower_softmax, "softmax", 0},
    {"Softplus", lower_unary, "softplus", 0},
    {"Softsign", lower_unary, "softsign", 0},
    {"Split", lower_split, NULL, 0},
    {"SplitToSequence", lower_split, "sequence", 0},
    {"Sqrt", lower_unary, "sqrt", 0},
    {"Squeeze", lower_reshape, NULL, 0},
    {"Sub", lower_binary, "sub", 0},
    {"Sum", lower_binary, "add", 0},
    {"Swish", lower_unary, "silu", 0},
    {"Tan", lower_unary, "tan", 0},
    {"Tanh", lower_unary, "tanh", 0},
    {"ThresholdedRelu", lower_unary, "threshold", 0},
    {"Transpose", lower_transpose, NULL, 0},
    {"Unsqueeze", lower_reshape, NULL, 0},
    {"Where", lower_where, NULL, 0},
    {"Xor", lower_logical, "xor", 0},
};

static const struct row *find_row(const char *op) {
    size_t low = 0, high = sizeof rows / sizeof *rows;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(op, rows[middle].op);
        if (order == 0) return &rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* --------------------------------------------------------------- the walk */

/* An initializer becomes a constant, or a parameter. */
static bool is_parameter(const struct onnx_model *model, const struct onnx_value *value) {
    const struct onnx_tensor *tensor = &model->initializers[value->initializer];
    if (!onnx_is_float(tensor->type)) return false;
    if (value->kind != ONNX_KIND_UNSAID) return value->kind == ONNX_KIND_PARAMETER;
    return tensor->rank > 0 && !model->marked;
}

/* Running statistics are parameters of a norm, though not trained ones: they keep their names. */
static bool is_statistic(const struct onnx_node *node, int i) { return strcmp(node->op, "BatchNormalization") == 0 && i >= 3; }

static enum ps_status read_initializer(struct lowering *l, int number, bool parameter) {
    const struct onnx_value *value = &l->model->values[number];
    const struct onnx_tensor *tensor = &l->model->initializers[value->initializer];
    struct value *made = &l->values[number];
    if (!parameter && !is_parameter(l->model, value)) {
        if (made->kind != VALUE_ABSENT) return PS_OK;
        made->kind = VALUE_CONSTANT;
        return fold_read(&l->fold, tensor, &made->tensor);
    }
    if (made->kind == VALUE_VIEW) return PS_OK;
    struct step *step = step_add(l, STEP_PARAMETER, NULL, 0);
    if (step == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->dims[d] == 0) return error_set(l->error, PS_BAD_INPUT, "initializer '%.80s' has no elements", tensor->name);
    plain_view(&step->output, tensor->rank, tensor->dims);
    step->number = value->initializer;
    made->kind = VALUE_VIEW;
    made->view = &step->output;
    return PS_OK;
}

static enum ps_status prepare_inputs(struct lowering *l, const struct onnx_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        const struct onnx_value *value = &l->model->values[node->inputs[i]];
        if (node->inputs[i] == 0) continue;
        if (value->initializer >= 0)
            TRY(read_initializer(l, node->inputs[i], is_statistic(node, i)));
        else if (l->values[node->inputs[i]].kind == VALUE_ABSENT)
            return error_set(l->error, PS_BAD_INPUT, "no node before it makes its input '%.80s'", value->name);
    }
    return PS_OK;
}

/* Everything known: computed now. */
static enum ps_status fold(struct lowering *l, const struct onnx_node *node, bool *done) {
    const struct tensor *small[16], **inputs = small;
    struct tensor *outputs[FOLD_OUTPUTS_MAX] = {0};
    *done = false;
    if (!fold_knows(node->op) || node->output_count > FOLD_OUTPUTS_MAX) return PS_OK;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] != 0 && l->values[node->inputs[i]].kind != VALUE_CONSTANT) return PS_OK;
    if (node->input_count > 16) inputs = arena_take(&l->arena, (size_t)node->input_count, sizeof(struct tensor *));
    if (inputs == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    for (int i = 0; i < node->input_count; i++) inputs[i] = node->inputs[i] != 0 ? l->values[node->inputs[i]].tensor : NULL;
    TRY(fold_node(&l->fold, node, inputs, outputs));
    for (int o = 0; o < node->output_count; o++)
        if (node->outputs[o] != 0 && outputs[o] != NULL)
            l->values[node->outputs[o]] = (struct value){.kind = VALUE_CONSTANT, .tensor = outputs[o]};
    *done = true;
    return PS_OK;
}

static enum ps_status lower_node(struct lowering *l, const struct onnx_node *node) {
    bool done;
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)
        return error_set(l->error, PS_BAD_INPUT, "operators of '%.60s' are not known", node->domain);
    TRY(prepare_inputs(l, node));
    TRY(fold(l, node, &done));
    if (done) return PS_OK;
    const struct row *row = find_row(node->op);
    if (row == NULL) return error_set(l->error, PS_BAD_INPUT, "the operator is not known");
    if (l->model->opset < row->since)
        return error_set(l->error, PS_BAD_INPUT, "the operator is known as it is since opset %d, and the file has opset %lld",
                         row->since, (long long)l->model->opset);
    const struct call call = {l, node, row, l->error};
    TRY(row->lower(&call));
    return arena_check(&l->arena, "an ONNX file", l->error);
}

enum ps_status lower_nodes(struct lowering *l) {
    for (int n = 0; n < l->model->node_count; n++) {
        const struct onnx_node *node = &l->model->nodes[n];
        enum ps_status status = lower_node(l, node);
        if (status == PS_OK) continue;
        if (status == PS_BAD_INPUT) error_prefix(l->error, "%s: node '%.100s' (%.40s)", l->path, node->name, node->op);
        return status;
    }
    return PS_OK;
}
