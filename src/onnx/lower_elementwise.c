/* Functions of each element of one value or several, with broadcasting; constants beside values. */
#include "onnx/lower_calls.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/log.h"

enum ps_status lower_unary_step(const struct call *call, struct view *x, const char *function, double alpha, double beta,
                                struct view **out) {
    struct step *step = call_same(call, STEP_UNARY, x);
    if (step == NULL) return call_memory(call);
    step->function = function;
    step->alpha = (float)alpha;
    step->beta = (float)beta;
    *out = view_new(call->l, &step->output);
    return call_memory(call);
}

static const struct {
    const char *function;
    float alpha, beta;
} unary_usual[] = {
    {"hardsigmoid", 0.2f, 0.5f}, {"leaky_relu", 0.01f, 0}, {"elu", 1, 0}, {"celu", 1, 0}, {"threshold", 1, 0},
};

enum ps_status lower_unary(const struct call *call) {
    struct view *x, *out;
    float alpha = 0, beta = 0;
    for (size_t u = 0; u < sizeof unary_usual / sizeof *unary_usual; u++) {
        if (strcmp(unary_usual[u].function, call->row->function) != 0) continue;
        alpha = onnx_float(call->node, "alpha", unary_usual[u].alpha);
        beta = onnx_float(call->node, "beta", unary_usual[u].beta);
    }
    TRY(call_view(call, 0, &x));
    TRY(lower_unary_step(call, x, call->row->function, (double)alpha, (double)beta, &out));
    call_give(call, 0, out);
    return PS_OK;
}

/* gamma elu(x). */
enum ps_status lower_selu(const struct call *call) {
    const float alpha = onnx_float(call->node, "alpha", 1.67326319217681884765625f);
    const float gamma = onnx_float(call->node, "gamma", 1.05070102214813232421875f);
    const bool usual = alpha == 1.67326319217681884765625f && gamma == 1.05070102214813232421875f;
    struct view *x, *out;
    TRY(call_view(call, 0, &x));
    TRY(lower_unary_step(call, x, usual ? "selu" : "elu", (double)alpha, 0, &out));
    if (!usual) TRY(lower_unary_step(call, out, "affine", (double)gamma, 0, &out));
    call_give(call, 0, out);
    return call_memory(call);
}

/* x sigmoid(alpha x): SiLU of alpha x, divided by alpha. */
enum ps_status lower_swish(const struct call *call) {
    const float alpha = onnx_float(call->node, "alpha", 1);
    struct view *x, *out;
    if (alpha == 0) return call_refuse(call, "its alpha is 0");
    TRY(call_view(call, 0, &x));
    if (alpha != 1) TRY(lower_unary_step(call, x, "affine", (double)alpha, 0, &x));
    TRY(lower_unary_step(call, x, "silu", 0, 0, &out));
    if (alpha != 1) TRY(lower_unary_step(call, out, "affine", 1 / (double)alpha, 0, &out));
    call_give(call, 0, out);
    return call_memory(call);
}

enum ps_status lower_gelu(const struct call *call) {
    struct view *x, *out;
    TRY(call_view(call, 0, &x));
    const bool tanh_form = strcmp(onnx_string(call->node, "approximate", "none"), "tanh") == 0;
    TRY(lower_unary_step(call, x, "gelu", tanh_form, 0, &out));
    call_give(call, 0, out);
    return PS_OK;
}

enum ps_status lower_clip(const struct call *call) {
    struct view *x, *out;
    double low = -INFINITY, high = INFINITY;
    if (call_given(call, 1) && !tensor_uniform(call_constant(call, 1), &low))
        return call_refuse(call, "its bounds depend on the data");
    if (call_given(call, 2) && !tensor_uniform(call_constant(call, 2), &high))
        return call_refuse(call, "its bounds depend on the data");
    TRY(call_view(call, 0, &x));
    low = call_finite(low);
    high = call_finite(high);
    TRY(lower_unary_step(call, x, low == 0 && high == FLT_MAX ? "relu" : "clip", low, high, &out));
    call_give(call, 0, out);
    return PS_OK;
}

/* The constant of one sample: an axis that is (outer, n, inner) becomes (outer, inner). */
static enum ps_status drop_samples(const struct call *call, const struct tensor *tensor, int axis, int64_t n, int64_t inner,
                                   struct tensor **less) {
    int64_t dims[ONNX_RANK_MAX + 1], strides[ONNX_RANK_MAX + 1], own[ONNX_RANK_MAX];
    const int rank = tensor->rank;
    if (rank == ONNX_RANK_MAX) return call_refuse(call, "its inputs have too many dimensions");
    fold_strides(rank, tensor->dims, own);
    for (int d = 0; d <= rank; d++) {
        const int from = d <= axis ? d : d - 1;
        dims[d] = d == axis ? tensor->dims[axis] / (n * inner) : d == axis + 1 ? inner : tensor->dims[from];
        strides[d] = own[from] * (d == axis ? n * inner : 1);
    }
    TRY(fold_strided(&call->l->fold, tensor, rank + 1, dims, strides, 0, less));
    (*less)->rank = rank;
    for (int d = 0; d < rank; d++) (*less)->dims[d] = d == axis ? tensor->dims[axis] / n : tensor->dims[d];
    return PS_OK;
}

/* It again for all samples, without memory for them. */
static enum ps_status repeat_samples(const struct call *call, const struct tensor *less, int axis, int64_t n, int64_t inner,
                                     const int64_t *dims, struct view **out) {
    const struct view *made = constant_view(call->l, less);
    int64_t strides[ONNX_RANK_MAX];
    if (made == NULL) return call_memory(call);
    struct view wide = {.step = made->step, .rank = less->rank};
    memcpy(wide.dims, dims, (size_t)less->rank * sizeof *dims);
    fold_strides(less->rank, less->dims, strides);
    for (int d = 0; d < less->rank; d++) {
        const int64_t outer = less->dims[d] / inner;
        if (d != axis && less->dims[d] > 1) wide.atoms[wide.count++] = (struct atom){less->dims[d], strides[d], d, false};
        if (d != axis) continue;
        if (outer > 1) wide.atoms[wide.count++] = (struct atom){outer, strides[d] * inner, d, false};
        wide.atoms[wide.count++] = (struct atom){n, 0, d, false};
        if (inner > 1) wide.atoms[wide.count++] = (struct atom){inner, strides[d], d, false};
    }
    *out = view_new(call->l, &wide);
    return call_memory(call);
}

/* The same for all n places that lie `stride` elements apart. */
static bool same_along(const struct tensor *tensor, int64_t stride, int64_t n) {
    const int64_t *words = tensor->whole != NULL ? tensor->whole : (const int64_t *)(const void *)tensor->reals;
    for (int64_t e = 0; e < tensor->elements; e++)
        if (words[e] != words[e - e / stride % n * stride]) return false;
    return true;
}

enum ps_status lower_constant(const struct call *call, const struct tensor *tensor, struct view **out) {
    struct tensor *less = NULL;
    int64_t strides[ONNX_RANK_MAX];
    if (tensor->elements == 0) return call_refuse(call, "an input is a constant without elements");
    fold_strides(tensor->rank, tensor->dims, strides);
    for (int d = 0; d < tensor->rank && tensor->rank > 1 && tensor->rank < ONNX_RANK_MAX; d++) {
        const int64_t n = tensor->dims[d];
        if (n < 2 || n != call->l->batch || !same_along(tensor, strides[d], n)) continue;
        TRY(drop_samples(call, tensor, d, n, 1, &less));
        return repeat_samples(call, less, d, n, 1, tensor->dims, out);
    }
    const struct view *whole = constant_view(call->l, tensor);
    *out = whole != NULL ? view_new(call->l, whole) : NULL;
    return call_memory(call);
}

enum ps_status lower_constant_beside(const struct call *call, const struct tensor *tensor, struct view *const *others,
                                     int count, struct view **out) {
    int rank = tensor->rank;
    struct tensor *less = NULL;
    for (int v = 0; v < count; v++) {
        const struct view *other = others[v];
        for (int i = 0; other != NULL && i < other->count; i++) {
            if (!other->atoms[i].batch || other->atoms[i].size == 1) continue;
            const int axis = other->atoms[i].axis - other->rank + rank; /* counted from the right in both */
            if (axis < 0 || tensor->dims[axis] == 1) continue;
            int64_t inner = 1, tail = 1;
            for (int k = i + 1; k < other->count && other->atoms[k].axis == other->atoms[i].axis; k++)
                inner *= other->atoms[k].size;
            for (int d = axis + 1; d < rank; d++) tail *= tensor->dims[d];
            const int64_t n = other->atoms[i].size, outer = tensor->dims[axis] / (n * inner);
            if (outer * n * inner != tensor->dims[axis]) return call_refuse(call, "its inputs do not fit together");
            if (!same_along(tensor, tail * inner, n)) return call_refuse(call, "a constant that differs from sample to sample");
            TRY(drop_samples(call, tensor, axis, n, inner, &less));
            return repeat_samples(call, less, axis, n, inner, tensor->dims, out);
        }
    }
    return lower_constant(call, tensor, out);
}

/* All inputs as views that fit together. */
static enum ps_status aligned_views(const struct call *call, struct view **views, int count, struct view *output) {
    for (int i = 0; i < count; i++) {
        views[i] = NULL;
        if (call_constant(call, i) == NULL) TRY(call_view(call, i, &views[i]));
    }
    for (int i = 0; i < count; i++)
        if (views[i] == NULL) {
            TRY(lower_constant_beside(call, call_constant(call, i), views, count, &views[i]));
            TRY(call_as_floats(call, &views[i]));
        }
    return views_align(call->l, views, count, -1, output);
}

static enum ps_status aligned_step(const struct call *call, enum step_kind kind, int count, struct step **made) {
    struct view output;
    struct step *step = step_add(call->l, kind, call->node, count);
    if (step == NULL) return call_memory(call);
    TRY(aligned_views(call, step->inputs, count, &output));
    output.step = step->output.step;
    step->output = output;
    step->function = call->row->function;
    step->onnx_type = call->row->whole ? ONNX_FLOAT : call_type(call, count - 1);
    call_give(call, 0, view_new(call->l, &step->output));
    *made = step;
    return call_memory(call);
}

/* x op c, or c op x, as one function of x; NULL: there is none. */
static const char *with_number(const char *function, bool swapped, double c, double *alpha, double *beta) {
    *alpha = 1;
    *beta = 0;
    if (strcmp(function, "add") == 0)
        *beta = c;
    else if (strcmp(function, "mul") == 0)
        *alpha = c;
    else if (strcmp(function, "sub") == 0)
        *alpha = swapped ? -1 : 1, *beta = swapped ? c : -c;
    else if (strcmp(function, "div") == 0 && !swapped)
        *alpha = 1 / c;
    else if (strcmp(function, "power") == 0 && !swapped) {
        *alpha = c;
        return c == 1 ? "affine" : c == 0.5 ? "sqrt" : "power";
    } else if (strcmp(function, "div") == 0) {
        *alpha = c;
        return "reciprocal";
    } else
        return NULL;
    return "affine";
}

/* Max, Min, Sum and Mean of any number. */
static enum ps_status lower_many(const struct call *call) {
    const int count = call->node->input_count;
    const bool mean = strcmp(call->row->function, "mean") == 0;
    struct view *views[64], output, *out;
    if (count > 64) return call_refuse(call, "at most 64 inputs are accepted");
    TRY(aligned_views(call, views, count, &output));
    out = views[0];
    for (int i = 1; i < count; i++) TRY(lower_binary_step(call, mean ? "add" : call->row->function, out, views[i], &out));
    if (mean) TRY(lower_unary_step(call, out, "affine", 1.0 / count, 0, &out));
    call_give(call, 0, out);
    return call_memory(call);
}

bool lower_counts_samples(const struct call *call, int i, int other, int64_t *each) {
    const struct tensor *t = call_constant(call, i);
    const struct value *beside = call_input(call, other);
    int64_t strides[ONNX_RANK_MAX];
    int axis = -1;
    if (t == NULL || t->whole == NULL || t->rank == 0 || beside->kind != VALUE_VIEW || beside->view->rank != t->rank)
        return false;
    for (int d = 0; d < t->rank; d++)
        if (view_has_batch(beside->view, d)) axis = d;
    if (axis < 0 || t->dims[axis] != call->l->batch || beside->view->dims[axis] != t->dims[axis] || t->dims[axis] < 2)
        return false;
    fold_strides(t->rank, t->dims, strides);
    *each = t->whole[strides[axis]];
    if (*each < 1 || *each > INT32_MAX || t->dims[axis] > INT32_MAX) return false;
    for (int64_t e = 0; e < t->elements; e++)
        if (t->whole[e] != e / strides[axis] % t->dims[axis] * *each) return false;
    return true;
}

enum ps_status lower_binary(const struct call *call) {
    const char *function = call->row->function, *single;
    struct step *step;
    struct view *x, *out;
    double c, alpha, beta;
    if (call->node->input_count < 2) return lower_identity(call);
    if (call->node->input_count > 2 || strcmp(function, "mean") == 0) return lower_many(call);
    for (int side = 0; side < 2; side++) {
        const struct tensor *number = call_constant(call, side);
        if (number == NULL || call_input(call, 1 - side)->kind != VALUE_VIEW || !tensor_uniform(number, &c)) continue;
        if (function[0] == 'd' && !onnx_is_float(call_type(call, 0))) continue; /* a quotient must not be rounded twice */
        single = with_number(function, side == 0, c, &alpha, &beta);
        if (single == NULL) break;
        TRY(call_view(call, 1 - side, &x));
        int rank;
        int64_t dims[ONNX_RANK_MAX];
        if (!fold_broadcast(x->rank, x->dims, number->rank, number->dims, &rank, dims))
            return call_refuse(call, "its inputs do not fit together");
        if (strcmp(single, "affine") == 0 && alpha == 1 && beta == 0)
            out = x;
        else
            TRY(lower_unary_step(call, x, single, strcmp(single, "sqrt") == 0 ? 0 : alpha, beta, &out));
        if (strcmp(single, "reciprocal") == 0 && alpha != 1) TRY(lower_unary_step(call, out, "affine", alpha, 0, &out));
        struct view wide;
        TRY(view_expand(call->l, out, rank, dims, &wide));
        call_give(call, 0, view_new(call->l, &wide));
        return call_memory(call);
    }
    for (int side = 0; side < 2; side++) {
        int64_t each;
        if (!lower_counts_samples(call, side, 1 - side, &each)) continue;
        call_give_places(call, 0, call_input(call, 1 - side)->view, strcmp(function, "add") == 0 ? each : -1);
        return PS_OK;
    }
    /* A square reads its value once. */
    if (strcmp(function, "mul") == 0 && call->node->inputs[0] == call->node->inputs[1]) {
        TRY(call_view(call, 0, &x));
        TRY(lower_unary_step(call, x, "power", 2, 0, &out));
        call_give(call, 0, out);
        return PS_OK;
    }
    return aligned_step(call, STEP_BINARY, 2, &step);
}

enum ps_status lower_is_nan(const struct call *call) {
    struct view *x;
    TRY(call_view(call, 0, &x));
    struct step *step = call_same(call, STEP_COMPARE, x);
    if (step == NULL) return call_memory(call);
    step->function = call->row->function;
    step->onnx_type = ONNX_BOOL;
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

enum ps_status lower_aligned_step(const struct call *call, enum step_kind kind, const char *function, int type, int count,
                                  const struct view *const *views, struct view **out) {
    struct view output;
    struct step *step = step_add(call->l, kind, call->node, count);
    if (step == NULL) return call_memory(call);
    for (int i = 0; i < count; i++) step->inputs[i] = view_new(call->l, views[i]);
    step->function = function;
    if (type != 0) step->onnx_type = type;
    TRY(call_memory(call));
    TRY(views_align(call->l, step->inputs, count, -1, &output));
    output.step = step->output.step;
    step->output = output;
    *out = view_new(call->l, &output);
    return call_memory(call);
}

enum ps_status lower_binary_step(const struct call *call, const char *function, const struct view *a, const struct view *b,
                                 struct view **out) {
    return lower_aligned_step(call, STEP_BINARY, function, 0, 2, (const struct view *[]){a, b}, out);
}

/* max(0, x) + slope min(0, x), of parts that are known: relu(x) - slope relu(-x). */
enum ps_status lower_prelu(const struct call *call) {
    struct view *x, *slope, *above, *below;
    TRY(call_view(call, 0, &x));
    TRY(call_view(call, 1, &slope));
    TRY(lower_unary_step(call, x, "relu", 0, 0, &above));
    TRY(lower_unary_step(call, x, "neg", 0, 0, &below));
    TRY(lower_unary_step(call, below, "relu", 0, 0, &below));
    TRY(lower_binary_step(call, "mul", below, slope, &below));
    TRY(lower_binary_step(call, "sub", above, below, &above));
    call_give(call, 0, above);
    return PS_OK;
}

enum ps_status lower_compare(const struct call *call) {
    struct step *step;
    TRY(aligned_step(call, STEP_COMPARE, 2, &step));
    step->onnx_type = ONNX_BOOL;
    return PS_OK;
}

/* A constant that is the same everywhere decides, or does not matter. */
static enum ps_status with_truth(const struct call *call, bool *done) {
    const bool both = strcmp(call->row->function, "and") == 0, any = strcmp(call->row->function, "or") == 0;
    double truth;
    *done = false;
    for (int i = 0; i < call->node->input_count && (both || any); i++) {
        if (!tensor_uniform(call_constant(call, i), &truth) || (truth != 0) != both) continue;
        struct view *views[2], output, wide;
        TRY(aligned_views(call, views, 2, &output));
        TRY(view_expand(call->l, views[1 - i], output.rank, output.dims, &wide));
        call_give(call, 0, view_new(call->l, &wide));
        *done = true;
        return call_memory(call);
    }
    return PS_OK;
}

enum ps_status lower_logical(const struct call *call) {
    struct step *step;
    bool done;
    TRY(with_truth(call, &done));
    if (done) return PS_OK;
    TRY(aligned_step(call, STEP_LOGICAL, strcmp(call->row->function, "not") == 0 ? 1 : 2, &step));
    return PS_OK;
}

/* One input constant and the same for all: the other decides nothing. */
enum ps_status lower_where(const struct call *call) {
    double truth;
    struct step *step;
    struct view *views[3], output, wide;
    if (tensor_uniform(call_constant(call, 0), &truth)) {
        TRY(aligned_views(call, views, 3, &output));
        const struct view *taken = views[truth != 0 ? 1 : 2];
        TRY(view_expand(call->l, taken, output.rank, output.dims, &wide));
        call_give(call, 0, view_new(call->l, &wide));
        return call_memory(call);
    }
    return aligned_step(call, STEP_CHOICE, 3, &step);
}

enum ps_status lower_cast(const struct call *call) {
    const bool like = strcmp(call->node->op, "CastLike") == 0;
    const int to = like ? call_type(call, 1) : (int)onnx_int(call->node, "to", 0), from = call_type(call, 0);
    struct view *x;
    if (!onnx_is_float(to) && to != ONNX_BOOL && to != ONNX_INT32 && to != ONNX_INT64)
        return call_refuse(call,
                           "a cast to a type that is not known of values: numbers with a fraction, 32 or 64 bits, or bool");
    if (call_input(call, 0)->kind == VALUE_CONSTANT) { /* CastLike of a constant to a value's type */
        struct onnx_attribute type = {.name = "to", .type = ONNX_ATTRIBUTE_INT, .i = to};
        struct onnx_node cast = {.op = "Cast",
                                 .name = call->node->name,
                                 .domain = "",
                                 .input_count = 1,
                                 .output_count = 1,
                                 .attribute_count = 1,
                                 .attributes = &type};
        const struct tensor *in = call_constant(call, 0);
        struct tensor *out;
        TRY(fold_node(&call->l->fold, &cast, &in, &out));
        return call_give_constant(call, 0, out);
    }
    TRY(call_view(call, 0, &x));
    const bool kept = to == from || (onnx_is_float(to) && onnx_is_float(from)) ||
                      (!onnx_is_float(to) && !onnx_is_float(from) && to != ONNX_BOOL && from != ONNX_BOOL);
    if (kept) {
        call_give(call, 0, x);
        return PS_OK;
    }
    /* A number is true that is not 0, also 0.5. */
    const bool truth = to == ONNX_BOOL && onnx_is_float(from);
    struct step *step = call_same(call, truth ? STEP_COMPARE : STEP_CAST, x);
    if (step == NULL) return call_memory(call);
    if (truth) step->function = "not_equal";
    step->onnx_type = to;
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}

enum ps_status lower_dropout(const struct call *call) {
    double rate = 0.5, mode = 0;
    struct view *x;
    if (call_given(call, 1) && !tensor_uniform(call_constant(call, 1), &rate))
        return call_refuse(call, "its rate depends on the data");
    if (call_given(call, 2) && !tensor_uniform(call_constant(call, 2), &mode))
        return call_refuse(call, "its mode depends on the data");
    TRY(call_view(call, 0, &x));
    if (call_given(call, 1) && !call_given(call, 2) && rate > 0) /* so PyTorch's older exporter writes attentions' */
        log_warn("%s: node '%.100s': Dropout without 'training_mode' drops nothing, so its rate of %g is lost", call->l->path,
                 call->node->name, rate);
    if (mode == 0 || rate == 0) {
        call_give(call, 0, x);
        return PS_OK;
    }
    if (!(rate > 0 && rate < 1)) return call_refuse(call, "its rate must be at least 0 and below 1");
    struct step *step = call_same(call, STEP_DROPOUT, x);
    if (step == NULL) return call_memory(call);
    step->attributes.rate = (float)rate;
    call_give(call, 0, view_new(call->l, &step->output));
    return call_memory(call);
}
