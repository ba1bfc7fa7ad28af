/* Reductions, softmax and the norms. */
#include "onnx/lower_calls.h"

#include <math.h>
#include <string.h>

/* -------------------------------------------------------------- reductions */

enum ps_status lower_reduce_step(const struct call *call, struct view *x, const bool *marks, const char *function, bool keep,
                                 struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX], rank = 0;
    bool any = false;
    for (int d = 0; d < x->rank; d++) {
        if (marks[d]) TRY(call_needs_apart(call, x, d));
        any = any || (marks[d] && x->dims[d] > 1);
        if (marks[d] && !keep) continue;
        dims[rank] = marks[d] ? 1 : x->dims[d];
        from[rank++] = marks[d] ? -1 : d;
    }
    const bool plain = function[0] == 'm' || strcmp(function, "sum") == 0 || strcmp(function, "prod") == 0;
    if (!any && plain) { /* of one element each */
        struct view made;
        TRY(view_reshape(call->l, x, rank, dims, &made));
        *out = view_new(call->l, &made);
        return call_memory(call);
    }
    struct step *step = step_add(call->l, STEP_REDUCE, call->node, 1);
    if (step == NULL) return call_memory(call);
    step->inputs[0] = x;
    step->function = function;
    memcpy(step->marks, marks, sizeof step->marks);
    TRY(call_output(call, step, x, rank, dims, from));
    *out = view_new(call->l, &step->output);
    return call_memory(call);
}

enum ps_status lower_reduce(const struct call *call) {
    struct view *x, *out;
    bool marks[ONNX_RANK_MAX];
    if (call_given(call, 1) && call_constant(call, 1) == NULL) return call_refuse(call, "its axes depend on the data");
    TRY(call_view(call, 0, &x));
    TRY(fold_axes_of(call->node, call_constant(call, 1), x->rank, marks, call->error));
    TRY(lower_reduce_step(call, x, marks, call->row->function, onnx_int(call->node, "keepdims", 1) != 0, &out));
    call_give(call, 0, out);
    return PS_OK;
}

enum ps_status lower_global_pool(const struct call *call) {
    struct view *x, *out;
    bool marks[ONNX_RANK_MAX] = {0};
    TRY(call_view(call, 0, &x));
    for (int d = 2; d < x->rank; d++) marks[d] = true;
    TRY(lower_reduce_step(call, x, marks, call->row->function, true, &out));
    call_give(call, 0, out);
    return PS_OK;
}

enum ps_status lower_softmax(const struct call *call) {
    struct view *x;
    int axis;
    TRY(call_view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", -1), x->rank, &axis, call->error));
    TRY(call_needs_apart(call, x, axis));
    struct step *step = call_same(call, STEP_SOFTMAX, x);
    if (step == NULL) return call_memory(call);
    step->axis = axis;
    step->function = call->row->function;
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

/* ------------------------------------------------------------------- norms */

enum ps_status lower_lrn(const struct call *call) {
    struct view *x;
    TRY(call_view(call, 0, &x));
    if (x->rank != 4) return call_refuse(call, "its input must be an image");
    TRY(call_needs_apart(call, x, 1));
    struct step *step = call_same(call, STEP_LOCAL_NORM, x);
    if (step == NULL) return call_memory(call);
    step->attributes.window = (int)onnx_int(call->node, "size", 0);
    step->attributes.alpha = onnx_float(call->node, "alpha", 1e-4f);
    step->attributes.beta = onnx_float(call->node, "beta", 0.75f);
    step->attributes.shift = onnx_float(call->node, "bias", 1);
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

/* The number that a norm without its own has in place of a parameter (1 or 0) is left out. */
static enum ps_status parameter_input(const struct call *call, int i, int64_t elements, double neutral, struct view **out) {
    double number;
    *out = NULL;
    if (!call_given(call, i) || (tensor_uniform(call_constant(call, i), &number) && number == neutral)) return PS_OK;
    TRY(call_view(call, i, out));
    if (view_is_parameter(call->l, *out) == NULL || view_elements(*out) != elements)
        return error_set(call->error, PS_BAD_INPUT, "its input %d must be a parameter of %lld elements", i,
                         (long long)elements);
    return PS_OK;
}

/* A vector of the channels, beside a value that has them along axis 1. */
static enum ps_status along_channels(const struct call *call, int i, const struct view *x, struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    struct view made;
    TRY(call_view(call, i, out));
    for (int d = 0; d < x->rank; d++) dims[d] = d == 1 ? x->dims[1] : 1;
    if (view_elements(*out) != x->dims[1]) return call_refuse(call, "its scale and bias do not fit");
    TRY(view_reshape(call->l, *out, x->rank, dims, &made));
    *out = view_new(call->l, &made);
    return call_memory(call);
}

/* Of weights, as weight standardisation is written, by their own mean and variance (training_mode) or computed ones: no
 * statistic runs, and it is the same in training and after. */
static enum ps_status standardise(const struct call *call, struct view *x) {
    const bool own = onnx_int(call->node, "training_mode", 0) != 0;
    bool marks[ONNX_RANK_MAX] = {0};
    struct view *mean, *squares, *scale, *bias, *out;
    for (int d = 0; d < x->rank; d++) marks[d] = d != 1;
    TRY(along_channels(call, 1, x, &scale));
    TRY(along_channels(call, 2, x, &bias));
    if (own)
        TRY(lower_reduce_step(call, x, marks, "mean", true, &mean));
    else
        TRY(along_channels(call, 3, x, &mean));
    TRY(lower_binary_step(call, "sub", x, mean, &out));
    if (own) {
        TRY(lower_unary_step(call, out, "power", 2, 0, &squares));
        TRY(lower_reduce_step(call, squares, marks, "mean", true, &squares));
    } else
        TRY(along_channels(call, 4, x, &squares));
    TRY(lower_unary_step(call, squares, "affine", 1, (double)onnx_float(call->node, "epsilon", 1e-5f), &squares));
    TRY(lower_unary_step(call, squares, "power", -0.5, 0, &squares));
    TRY(lower_binary_step(call, "mul", out, squares, &out));
    TRY(lower_binary_step(call, "mul", out, scale, &out));
    TRY(lower_binary_step(call, "add", out, bias, &out));
    call_give(call, 0, out);
    return PS_OK;
}

enum ps_status lower_batch_norm(const struct call *call) {
    struct view *x;
    TRY(call_view(call, 0, &x));
    if (x->rank < 2) return call_refuse(call, "its input has no channels");
    if (!view_has_batch(x, -1)) return standardise(call, x);
    struct step *step = call_same(call, STEP_BATCH_NORM, x);
    if (step == NULL) return call_memory(call);
    for (int p = 0; p < 4; p++) {
        TRY(parameter_input(call, 1 + p, x->dims[1], p < 2 ? 1 - p : NAN, &step->parameters[p]));
        if (!call_given(call, 1 + p)) return call_refuse(call, "scale, bias, mean and variance are needed");
    }
    step->attributes.epsilon = onnx_float(call->node, "epsilon", 1e-5f);
    /* PyTorch's is what is left of 1, and 1 - 0.9f is not quite 0.1f. */
    step->attributes.momentum = (float)(rint((1 - (double)onnx_float(call->node, "momentum", 0.9f)) * 1e7) / 1e7);
    step->axis = 1;
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

/* Whether the norm can have the input as its own parameter: a vector of all features, or nothing. */
static bool has_vector(const struct call *call, int i, int64_t features) {
    double number;
    const struct value *value = call_input(call, i);
    if (value->kind == VALUE_ABSENT ||
        (value->kind == VALUE_CONSTANT && tensor_uniform(value->tensor, &number) && number == 2 - i))
        return true;
    return value->kind == VALUE_VIEW && value->view->rank == 1 && value->view->dims[0] == features &&
           view_is_parameter(call->l, value->view) != NULL;
}

/* Layer norm and RMS norm over the dimensions from `axis` on. */
enum ps_status lower_layer_norm(const struct call *call) {
    const bool mean = call->row->function[0] == 'l';
    struct view *x;
    int axis;
    int64_t features = 1;
    TRY(call_view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", -1), x->rank, &axis, call->error));
    for (int d = axis; d < x->rank; d++) {
        TRY(call_needs_apart(call, x, d));
        features *= x->dims[d];
    }
    struct step *step = call_same(call, mean ? STEP_LAYER_NORM : STEP_RMS_NORM, x);
    if (step == NULL) return call_memory(call);
    const bool own = has_vector(call, 1, features) && (!mean || has_vector(call, 2, features));
    if (own) {
        TRY(parameter_input(call, 1, features, 1, &step->parameters[0]));
        if (mean) TRY(parameter_input(call, 2, features, 0, &step->parameters[1]));
    }
    step->number = x->rank - axis;
    step->attributes.epsilon = onnx_float(call->node, "epsilon", 1e-5f);
    struct view *out = view_new(call->l, &step->output), *factor;
    TRY(call_memory(call));
    for (int i = 1; !own && i < (mean ? 3 : 2); i++) { /* weights of several dimensions, or computed ones */
        if (!call_given(call, i)) continue;
        TRY(call_view(call, i, &factor));
        TRY(lower_binary_step(call, i == 1 ? "mul" : "add", out, factor, &out));
    }
    call_give(call, 0, out);
    return call_memory(call);
}

/* A group norm had a scale for each group before opset 21. */
enum ps_status lower_group_norm(const struct call *call) {
    struct view *x;
    if (call->row->function[0] == 'g' && call->l->model->opset < 21)
        return error_set(call->error, PS_BAD_INPUT,
                         "the operator is known as it is since opset 21, and the file has opset %lld",
                         (long long)call->l->model->opset);
    TRY(call_view(call, 0, &x));
    if (x->rank < 2) return call_refuse(call, "its input has no channels");
    for (int d = 1; d < x->rank; d++) TRY(call_needs_apart(call, x, d));
    const int64_t groups = call->row->function[0] == 'i' ? x->dims[1] : onnx_int(call->node, "num_groups", 0);
    if (groups < 1 || x->dims[1] % groups != 0) return call_refuse(call, "its groups do not share the channels equally");
    struct step *step = call_same(call, STEP_GROUP_NORM, x);
    if (step == NULL) return call_memory(call);
    for (int p = 0; p < 2; p++) TRY(parameter_input(call, 1 + p, x->dims[1], 1 - p, &step->parameters[p]));
    step->attributes.groups = (int)groups;
    step->attributes.epsilon = onnx_float(call->node, "epsilon", 1e-5f);
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}
