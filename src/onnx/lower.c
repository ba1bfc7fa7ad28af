/*
 * What each ONNX operator becomes: a row of the table at the end for each. Handlers read their inputs as constants or views and
 * leave views of steps; none of them knows how anything lies in memory.
 */
#include "onnx/lower_calls.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------- steps */

struct view *view_new(struct lowering *l, const struct view *from) {
    return from != NULL ? arena_copy(&l->arena, from, 1, sizeof *from) : NULL;
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

const int64_t *call_dims(const struct call *call, int i, int *rank) {
    const struct value *value = call_input(call, i);
    *rank = value->kind == VALUE_CONSTANT ? value->tensor->rank : value->kind == VALUE_VIEW ? value->view->rank : 0;
    return value->kind == VALUE_CONSTANT ? value->tensor->dims : value->kind == VALUE_VIEW ? value->view->dims : NULL;
}

enum ps_status call_view(const struct call *call, int i, struct view **out) {
    const struct value *value = call_input(call, i);
    if (value->kind == VALUE_CONSTANT) return lower_constant(call, value->tensor, out);
    if (value->kind == VALUE_VIEW)
        *out = view_new(call->l, value->view);
    else if (value->kind == VALUE_PLACES)
        return call_refuse(call, "a constant that differs from sample to sample");
    else
        return error_set(call->error, PS_BAD_INPUT, "its input %d is %s", i,
                         value->kind == VALUE_ABSENT  ? "left out"
                         : value->kind == VALUE_EMPTY ? "empty"
                                                      : "a sequence");
    return call_as_floats(call, out);
}

/* The view's elements in another type. */
static struct view *cast_view(const struct call *call, struct view *v, int type) {
    struct step *step = call_same(call, STEP_CAST, v);
    if (step == NULL) return NULL;
    step->onnx_type = type;
    return view_new(call->l, &step->output);
}

enum ps_status call_as_floats(const struct call *call, struct view **v) {
    if (*v != NULL && call->row->whole && !onnx_is_float(call->l->steps[(*v)->step]->onnx_type))
        *v = cast_view(call, *v, ONNX_FLOAT);
    return call_memory(call);
}

void call_give(const struct call *call, int output, struct view *result) {
    if (output >= call->node->output_count || call->node->outputs[output] == 0) return;
    const int type = call_type(call, 0);
    if (result != NULL && call->row->whole && !onnx_is_float(type) && onnx_is_float(call->l->steps[result->step]->onnx_type)) {
        if (strcmp(call->node->op, "Pow") == 0) (void)lower_unary_step(call, result, "round", 0, 0, &result);
        if (result != NULL) result = cast_view(call, result, type);
    }
    call->l->values[call->node->outputs[output]] = (struct value){.kind = VALUE_VIEW, .view = result};
}

/* The same as a value of another kind; NULL: nobody wants it. */
static struct value *give_kind(const struct call *call, int output, struct view *result, enum value_kind kind) {
    call_give(call, output, result);
    if (output >= call->node->output_count || call->node->outputs[output] == 0) return NULL;
    struct value *value = &call->l->values[call->node->outputs[output]];
    value->kind = kind;
    return value;
}

void call_give_empty(const struct call *call, int output, struct view *result, int axis) {
    struct value *value = give_kind(call, output, result, VALUE_EMPTY);
    if (value != NULL) value->axis = axis;
}

void call_give_places(const struct call *call, int output, struct view *result, int64_t each) {
    struct value *value = give_kind(call, output, result, VALUE_PLACES);
    if (value != NULL) value->each = each;
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
    TRY(view_fits(call->l, out));
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

double call_finite(double number) { return number > FLT_MAX ? FLT_MAX : number < -FLT_MAX ? -FLT_MAX : number; }

enum ps_status call_needs_apart(const struct call *call, const struct view *v, int axis) {
    if (!view_has_batch(v, axis)) return PS_OK;
    return call_refuse(call, "it would sum over the samples of a batch");
}

/* --------------------------------------------------------------- the table */

/* Operators without a handler are known of constants alone (fold.h). */
static const struct row rows[] = {
    {"Abs", lower_unary, "abs", "", true},
    {"Acos", lower_unary, "acos", "", false},
    {"Acosh", lower_unary, "acosh", "", false},
    {"Add", lower_binary, "add", "", true},
    {"And", lower_logical, "and", "", false},
    {"ArgMax", lower_arg, "max", "axis keepdims select_last_index", false},
    {"ArgMin", lower_arg, "min", "axis keepdims select_last_index", false},
    {"Asin", lower_unary, "asin", "", false},
    {"Asinh", lower_unary, "asinh", "", false},
    {"Atan", lower_unary, "atan", "", false},
    {"Atanh", lower_unary, "atanh", "", false},
    {"Attention", lower_attention, NULL,
     "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision", false},
    {"AveragePool", lower_pool, "average", "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides", false},
    {"BatchNormalization", lower_batch_norm, NULL, "epsilon momentum training_mode", false},
    {"Cast", lower_cast, NULL, "round_mode saturate to", false},
    {"CastLike", lower_cast, NULL, "round_mode saturate", false},
    {"Ceil", lower_unary, "ceil", "", false},
    {"Celu", lower_unary, "celu", "alpha", false},
    {"Clip", lower_clip, NULL, "", true},
    {"Concat", lower_concat, NULL, "axis", false},
    {"Constant", NULL, NULL, "value value_float value_floats value_int value_ints", false},
    {"ConstantOfShape", NULL, NULL, "value", false},
    {"Conv", lower_convolution, NULL, "auto_pad dilations group kernel_shape pads strides", false},
    {"ConvTranspose", lower_convolution, NULL, "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
     false},
    {"Cos", lower_unary, "cos", "", false},
    {"Cosh", lower_unary, "cosh", "", false},
    {"CumSum", lower_cumulate, NULL, "exclusive reverse", true},
    {"DepthToSpace", lower_blocks, "depth", "blocksize mode", false},
    {"Div", lower_binary, "div", "", true},
    {"Dropout", lower_dropout, NULL, "seed", false},
    {"Einsum", lower_einsum, NULL, "equation", false},
    {"Elu", lower_unary, "elu", "alpha", false},
    {"Equal", lower_compare, "equal", "", false},
    {"Erf", lower_unary, "erf", "", false},
    {"Exp", lower_unary, "exp", "", false},
    {"Expand", lower_expand, NULL, "", false},
    {"Flatten", lower_reshape, NULL, "axis", false},
    {"Floor", lower_unary, "floor", "", false},
    {"GRU", lower_recurrent, "gru", "direction hidden_size layout linear_before_reset", false},
    {"Gather", lower_gather, NULL, "axis", false},
    {"GatherElements", lower_gather_elements, NULL, "axis", false},
    {"GatherND", lower_gather_nd, NULL, "batch_dims", false},
    {"Gelu", lower_gelu, NULL, "approximate", false},
    {"Gemm", lower_gemm, NULL, "alpha beta transA transB", false},
    {"GlobalAveragePool", lower_global_pool, "mean", "", false},
    {"GlobalMaxPool", lower_global_pool, "max", "", false},
    {"Greater", lower_compare, "greater", "", false},
    {"GreaterOrEqual", lower_compare, "greater_equal", "", false},
    {"GroupNormalization", lower_group_norm, "group", "epsilon num_groups stash_type", false},
    {"HardSigmoid", lower_unary, "hardsigmoid", "alpha beta", false},
    {"HardSwish", lower_unary, "hardswish", "", false},
    {"Identity", lower_identity, NULL, "", false},
    {"InstanceNormalization", lower_group_norm, "instance", "epsilon", false},
    {"IsNaN", lower_is_nan, "isnan", "", false},
    {"LRN", lower_lrn, NULL, "alpha beta bias size", false},
    {"LSTM", lower_recurrent, "lstm", "direction hidden_size input_forget layout", false},
    {"LayerNormalization", lower_layer_norm, "layer", "axis epsilon stash_type", false},
    {"LeakyRelu", lower_unary, "leaky_relu", "alpha", false},
    {"Less", lower_compare, "less", "", false},
    {"LessOrEqual", lower_compare, "less_equal", "", false},
    {"Log", lower_unary, "log", "", false},
    {"LogSoftmax", lower_softmax, "log_softmax", "axis", false},
    {"MatMul", lower_matmul, NULL, "", false},
    {"Max", lower_binary, "max", "", true},
    {"MaxPool", lower_pool, "max", "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", true},
    {"Mean", lower_binary, "mean", "", true},
    {"Min", lower_binary, "min", "", true},
    {"Mish", lower_unary, "mish", "", false},
    {"Mod", NULL, NULL, "fmod", false},
    {"Mul", lower_binary, "mul", "", true},
    {"Neg", lower_unary, "neg", "", true},
    {"Not", lower_logical, "not", "", false},
    {"OneHot", lower_one_hot, NULL, "axis", false},
    {"Or", lower_logical, "or", "", false},
    {"PRelu", lower_prelu, NULL, "", false},
    {"Pad", lower_pad, NULL, "mode", true},
    {"Pow", lower_binary, "power", "", true},
    {"RMSNormalization", lower_layer_norm, "rms", "axis epsilon stash_type", false},
    {"RNN", lower_recurrent, "rnn", "activations direction hidden_size layout", false},
    {"Range", NULL, NULL, "", false},
    {"Reciprocal", lower_unary, "reciprocal", "", false},
    {"ReduceL1", lower_reduce, "l1", "axes keepdims noop_with_empty_axes", true},
    {"ReduceL2", lower_reduce, "l2", "axes keepdims noop_with_empty_axes", true},
    {"ReduceLogSum", lower_reduce, "log_sum", "axes keepdims noop_with_empty_axes", true},
    {"ReduceLogSumExp", lower_reduce, "log_sum_exp", "axes keepdims noop_with_empty_axes", true},
    {"ReduceMax", lower_reduce, "max", "axes keepdims noop_with_empty_axes", true},
    {"ReduceMean", lower_reduce, "mean", "axes keepdims noop_with_empty_axes", true},
    {"ReduceMin", lower_reduce, "min", "axes keepdims noop_with_empty_axes", true},
    {"ReduceProd", lower_reduce, "prod", "axes keepdims noop_with_empty_axes", true},
    {"ReduceSum", lower_reduce, "sum", "axes keepdims noop_with_empty_axes", true},
    {"ReduceSumSquare", lower_reduce, "sum_square", "axes keepdims noop_with_empty_axes", true},
    {"Relu", lower_unary, "relu", "", true},
    {"Reshape", lower_reshape, NULL, "allowzero", false},
    {"Resize", lower_resize, NULL,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside extrapolation_value keep_aspect_ratio_policy "
     "mode nearest_mode",
     false},
    {"Round", lower_unary, "round", "", false},
    {"ScatterElements", lower_scatter_elements, NULL, "axis reduction", false},
    {"ScatterND", lower_scatter_nd, NULL, "reduction", false},
    {"Selu", lower_selu, NULL, "alpha gamma", false},
    {"SequenceAt", lower_sequence_at, NULL, "", false},
    {"Shape", lower_shape, NULL, "end start", false},
    {"Sigmoid", lower_unary, "sigmoid", "", false},
    {"Sign", lower_unary, "sign", "", true},
    {"Sin", lower_unary, "sin", "", false},
    {"Sinh", lower_unary, "sinh", "", false},
    {"Size", lower_shape, "size", "", false},
    {"Slice", lower_slice, NULL, "", false},
    {"Softmax", lower_softmax, "softmax", "axis", false},
    {"Softplus", lower_unary, "softplus", "", false},
    {"Softsign", lower_unary, "softsign", "", false},
    {"SpaceToDepth", lower_blocks, "space", "blocksize", false},
    {"Split", lower_split, NULL, "axis num_outputs", false},
    {"SplitToSequence", lower_split, "sequence", "axis keepdims", false},
    {"Sqrt", lower_unary, "sqrt", "", false},
    {"Squeeze", lower_reshape, NULL, "", false},
    {"Sub", lower_binary, "sub", "", true},
    {"Sum", lower_binary, "add", "", true},
    {"Swish", lower_swish, NULL, "alpha", false},
    {"Tan", lower_unary, "tan", "", false},
    {"Tanh", lower_unary, "tanh", "", false},
    {"ThresholdedRelu", lower_unary, "threshold", "alpha", false},
    {"Tile", lower_tile, NULL, "", false},
    {"Transpose", lower_transpose, NULL, "perm", false},
    {"Trilu", NULL, NULL, "upper", false},
    {"Unsqueeze", lower_reshape, NULL, "", false},
    {"Where", lower_where, NULL, "", false},
    {"Xor", lower_logical, "xor", "", false},
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

/* Sizes are no parameters, though they may be numbers with a fraction. */
static bool is_size(const struct onnx_node *node, int i) { return strcmp(node->op, "Resize") == 0 && i >= 1; }

static enum ps_status read_initializer(struct lowering *l, int number, bool parameter, bool constant) {
    const struct onnx_value *value = &l->model->values[number];
    const struct onnx_tensor *tensor = &l->model->initializers[value->initializer];
    struct value *made = &l->values[number];
    if (constant || (!parameter && !is_parameter(l->model, value))) {
        if (made->kind != VALUE_ABSENT) return PS_OK;
        if (onnx_is_float(tensor->type) && !l->model->marked && onnx_is_state(l->model, value))
            names_note(&l->numbers, tensor->name);
        made->kind = VALUE_CONSTANT;
        TRY(fold_read(&l->fold, tensor, &made->tensor));
        made->tensor->unsaid = l->model->marked && value->kind == ONNX_KIND_UNSAID;
        return PS_OK;
    }
    if (made->kind == VALUE_VIEW) return PS_OK;
    struct step *step = step_add(l, STEP_PARAMETER, NULL, 0);
    if (step == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->dims[d] == 0) return error_set(l->error, PS_BAD_INPUT, "initializer '%.80s' has no elements", tensor->name);
    plain_view(&step->output, tensor->rank, tensor->dims);
    TRY(view_fits(l, &step->output));
    step->number = value->initializer;
    made->kind = VALUE_VIEW;
    made->view = &step->output;
    return PS_OK;
}

static enum ps_status missing_input(struct lowering *l, const struct onnx_node *node, const struct onnx_value *value) {
    const struct onnx_node *from = value->producer >= 0 ? &l->model->nodes[value->producer] : node;
    if (from < node)
        return error_set(l->error, PS_BAD_INPUT, "its input '%.80s' is an output of node '%.60s' (%.40s) that is not known",
                         value->name, from->name, from->op);
    return error_set(l->error, PS_BAD_INPUT, "no node before it makes its input '%.80s'", value->name);
}

static enum ps_status prepare_inputs(struct lowering *l, const struct onnx_node *node) {
    for (int i = 0; i < node->input_count; i++) {
        const struct onnx_value *value = &l->model->values[node->inputs[i]];
        if (node->inputs[i] == 0) continue;
        if (value->initializer >= 0)
            TRY(read_initializer(l, node->inputs[i], is_statistic(node, i), is_size(node, i)));
        else if (l->values[node->inputs[i]].kind == VALUE_ABSENT)
            return missing_input(l, node, value);
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
    bool unsaid = false;
    for (int i = 0; i < node->input_count; i++) unsaid |= inputs[i] != NULL && inputs[i]->unsaid;
    for (int o = 0; o < node->output_count; o++) {
        if (node->outputs[o] == 0 || outputs[o] == NULL) continue;
        outputs[o]->unsaid = unsaid;
        l->values[node->outputs[o]] = (struct value){.kind = VALUE_CONSTANT, .tensor = outputs[o]};
    }
    *done = true;
    return PS_OK;
}

/* An attribute that is not known may say something else than what would be computed. */
static enum ps_status check_attributes(struct lowering *l, const struct onnx_node *node, const char *known) {
    for (int a = 0; a < node->attribute_count; a++) {
        const char *name = node->attributes[a].name, *from = known;
        const size_t length = strlen(name);
        while ((from = strstr(from, name)) != NULL && length > 0) {
            if ((from == known || from[-1] == ' ') && (from[length] == ' ' || from[length] == '\0')) break;
            from += length;
        }
        if (from == NULL || length == 0)
            return error_set(l->error, PS_BAD_INPUT, "its attribute '%.60s' is not known; known are: %s", name,
                             known[0] != '\0' ? known : "none");
    }
    return PS_OK;
}

static enum ps_status lower_node(struct lowering *l, const struct onnx_node *node) {
    bool done;
    if (node->domain[0] != '\0' && strcmp(node->domain, "ai.onnx") != 0)
        return error_set(l->error, PS_BAD_INPUT, "operators of '%.60s' are not known", node->domain);
    const struct row *row = find_row(node->op);
    if (row == NULL) {
        error_set(l->error, PS_BAD_INPUT, "the operator is not known");
        if (strncmp(node->op, "Random", 6) == 0)
            error_hint(l->error, "set the rate of stochastic depth (drop_path) or of noise to 0 before the export");
        return PS_BAD_INPUT;
    }
    TRY(check_attributes(l, node, row->attributes));
    TRY(prepare_inputs(l, node));
    TRY(fold(l, node, &done));
    if (done) return PS_OK;
    if (row->lower == NULL)
        return error_set(l->error, PS_BAD_INPUT, "the operator is known of constants alone, and its inputs depend on the data");
    const struct call call = {l, node, row, l->error};
    TRY(row->lower(&call));
    return arena_check(&l->arena, "an ONNX file", l->error);
}

/* Of a network; the largest known have a tenth. */
enum { STEPS_MAX = 1 << 17 };

enum ps_status lower_nodes(struct lowering *l) {
    for (int n = 0; n < l->model->node_count; n++) {
        const struct onnx_node *node = &l->model->nodes[n];
        enum ps_status status = lower_node(l, node);
        if (status == PS_OK && l->step_count > STEPS_MAX)
            status = error_set(l->error, PS_BAD_INPUT, "more than %d computations that depend on the data", STEPS_MAX);
        if (status == PS_OK) continue;
        if (status == PS_BAD_INPUT) error_prefix(l->error, "%s: node '%.100s' (%.40s)", l->path, node->name, node->op);
        return status;
    }
    return PS_OK;
}
