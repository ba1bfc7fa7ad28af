/* Steps made simpler: what PyTorch computes in one operator and exporters write as several becomes one step again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "onnx/lower.h"

/* ------------------------------------------------------------------- uses */

/* Parameters in step.parameters belong to the step: they need no step of their own. */
enum ps_status lower_count_uses(struct lowering *l) {
    int *found = malloc((size_t)l->step_count * sizeof *found + 1), count = 0; /* whose inputs are still to be counted */
    if (found == NULL) return error_memory(l->error, "an ONNX file", (size_t)l->step_count * sizeof *found);
    for (int s = 0; s < l->step_count; s++) l->steps[s]->uses = 0;
    l->steps[l->output_view->step]->uses = 1;
    found[count++] = l->output_view->step;
    while (count > 0) {
        const struct step *step = l->steps[found[--count]];
        for (int i = 0; i < step->input_count; i++)
            if (l->steps[step->inputs[i]->step]->uses++ == 0) found[count++] = step->inputs[i]->step;
    }
    free(found);
    return PS_OK;
}

/* Views of steps that others have taken the place of. */
static void redirect(struct lowering *l) {
    for (int s = 0; s < l->step_count; s++)
        for (int i = 0; i < l->steps[s]->input_count; i++)
            while (l->steps[l->steps[s]->inputs[i]->step]->alias != 0)
                l->steps[s]->inputs[i]->step = l->steps[l->steps[s]->inputs[i]->step]->alias - 1;
    while (l->steps[l->output_view->step]->alias != 0) l->output_view->step = l->steps[l->output_view->step]->alias - 1;
}

/* The view shows its step's output as it is: each element at its place. */
static bool is_natural(const struct view *v) {
    int64_t stride = 1;
    for (int i = v->count - 1; i >= 0; i--) {
        if (v->atoms[i].batch) continue;
        if (v->atoms[i].stride != stride) return false;
        stride *= v->atoms[i].size;
    }
    return true;
}

/* ----------------------------------------------------------------- patterns */

/* A sum with a vector that is a parameter, right behind a linear layer without bias that nobody else reads. */
static void fuse_bias(struct lowering *l, struct step *sum) {
    if (sum->kind != STEP_BINARY || strcmp(sum->function, "add") != 0) return;
    for (int side = 0; side < 2; side++) {
        struct view *x = sum->inputs[side], *b = sum->inputs[1 - side];
        struct step *linear = l->steps[x->step], *bias = l->steps[b->step];
        if (linear->kind != STEP_LINEAR || linear->uses != 1 || linear->parameters[1] != NULL || !is_natural(x) ||
            bias->kind != STEP_PARAMETER || bias->output.rank != 1)
            continue;
        const int last = sum->output.rank - 1;
        const int64_t features = linear->output.dims[linear->output.rank - 1];
        bool fits = bias->output.dims[0] == features && sum->output.dims[last] == features;
        int64_t stride = 1;
        for (int i = b->count - 1; i >= 0 && fits; i--) {
            if (b->atoms[i].axis != last) {
                fits = b->atoms[i].stride == 0;
                continue;
            }
            fits = b->atoms[i].stride == stride;
            stride *= b->atoms[i].size;
        }
        for (int i = 0; i < x->count && fits; i++) fits = x->atoms[i].batch || x->atoms[i].stride != 0;
        if (!fits) continue;
        linear->parameters[1] = &bias->output;
        sum->alias = x->step + 1;
        return;
    }
}

/* ---------------------------------------------------------------- attention */

static struct step *step_of(const struct lowering *l, const struct view *v) { return l->steps[v->step]; }

/* The step's output as it is, in its own dimensions. */
static bool is_plain(const struct lowering *l, const struct view *v) {
    const struct view *out = &step_of(l, v)->output;
    if (!is_natural(v) || v->rank != out->rank) return false;
    for (int d = 0; d < v->rank; d++)
        if (v->dims[d] != out->dims[d]) return false;
    return true;
}

static bool is_function(const struct step *step, const char *function) {
    return step->kind == STEP_UNARY && strcmp(step->function, function) == 0;
}

/* Strides of the step's output become those of its input, whose atoms are as many. */
static bool map_atoms(const struct step *step, struct view *out) {
    const struct view *in = step->inputs[0];
    for (int i = 0; i < out->count; i++) { /* split where the input's atoms end */
        for (int k = 0; k < step->output.count; k++) {
            const struct atom *own = &step->output.atoms[k], *atom = &out->atoms[i];
            if (own->batch || own->stride == 0 || atom->batch || atom->stride == 0) continue;
            if (own->stride <= atom->stride || own->stride >= atom->stride * atom->size) continue;
            if (own->stride % atom->stride != 0 || !view_split(out, i, own->stride / atom->stride)) return false;
        }
    }
    if (step->output.count != in->count) return false;
    for (int i = 0; i < out->count; i++) {
        struct atom *atom = &out->atoms[i];
        int found = -1;
        if (atom->batch || atom->stride == 0) continue;
        for (int k = 0; k < step->output.count; k++) {
            const struct atom *own = &step->output.atoms[k];
            if (!own->batch && own->stride != 0 && atom->stride >= own->stride && atom->stride < own->stride * own->size)
                found = k;
        }
        if (found < 0) return false;
        atom->stride = atom->stride / step->output.atoms[found].stride * in->atoms[found].stride;
    }
    return true;
}

/* What the view shows of a step whose elements are those of its one input, in that input's terms. */
static bool look_through(const struct lowering *l, const struct view *v, struct view *out) {
    const struct step *step = step_of(l, v);
    *out = *v;
    out->step = step->inputs[0]->step;
    return map_atoms(step, out);
}

/* x of alpha * x; the factor is gathered. */
static void take_factor(const struct lowering *l, struct view *v, double *factor) {
    struct view inner;
    while (is_function(step_of(l, v), "affine") && step_of(l, v)->beta == 0 && look_through(l, v, &inner)) {
        *factor *= (double)step_of(l, v)->alpha;
        *v = inner;
    }
}

/* What a function makes of masks that are aligned with the scores: of `a` (NULL: of `mask` alone) and `mask`, which it becomes.
 */
static enum ps_status change_mask(struct lowering *l, const struct onnx_node *node, enum step_kind kind, const char *function,
                                  const struct view *a, struct view *mask) {
    struct view output;
    const int count = a != NULL ? 2 : 1;
    struct step *step = step_add(l, kind, node, count);
    if (step == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    if (a != NULL) step->inputs[0] = view_new(l, a);
    step->inputs[count - 1] = view_new(l, mask);
    step->function = function;
    step->onnx_type = step_of(l, mask)->onnx_type;
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    TRY(views_align(l, step->inputs, count, -1, &output));
    output.step = step->output.step;
    step->output = output;
    *mask = output;
    return PS_OK;
}

/* Where a condition does not hold. */
static enum ps_status negate(struct lowering *l, const struct onnx_node *node, struct view *condition) {
    const struct step *from = step_of(l, condition);
    struct tensor *made;
    if (from->kind != STEP_CONSTANT) return change_mask(l, node, STEP_LOGICAL, "not", NULL, condition);
    const struct tensor *tensor = from->tensor;
    TRY(fold_take(&l->fold, tensor->type, tensor->rank, tensor->dims, &made));
    for (int64_t e = 0; e < tensor->elements; e++) made->whole[e] = tensor->whole[e] == 0;
    const struct view *view = constant_view(l, made);
    if (view == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
    condition->step = view->step;
    return PS_OK;
}

/* The one number of a constant that is the same everywhere; else 1. */
static double number_of(const struct lowering *l, const struct view *v) {
    const struct tensor *tensor = step_of(l, v)->tensor;
    if (step_of(l, v)->kind != STEP_CONSTANT || tensor->reals == NULL || tensor->elements < 1) return 1;
    for (int64_t e = 1; e < tensor->elements; e++)
        if (tensor->reals[e] != tensor->reals[0]) return 1;
    return tensor->reals[0];
}

/* 0 where a condition holds, and a number far below 0 where not, is added: what does not hold is not seen. The mask is the
 * condition then. (Where no key at all is seen, the output is 0 and no mean of all values.) */
static void take_condition(const struct lowering *l, struct view *mask) {
    const struct step *choice = step_of(l, mask);
    struct view condition;
    if (choice->kind != STEP_CHOICE || number_of(l, choice->inputs[1]) != 0 || number_of(l, choice->inputs[2]) > -1e9) return;
    if (look_through(l, mask, &condition)) *mask = condition;
}

/* What leads from the queries' and keys' product to the weights. */
struct scores {
    struct step *product;
    struct view mask;
    bool masked, causal, conditional; /* conditional: the mask is one, not what is added */
    double factor;
    float rate;
};

/* A sum of scores and a mask: which input is the scores, by what made it. -1: neither. */
static int scores_side(const struct lowering *l, const struct step *sum) {
    for (int side = 0; side < 2; side++) {
        const struct view *v = sum->inputs[side];
        const struct step *from = step_of(l, v);
        while (is_plain(l, v) && from->uses == 1 &&
               (is_function(from, "affine") ||
                (from->kind == STEP_BINARY && strcmp(from->function, "add") == 0 && scores_side(l, from) >= 0))) {
            v = from->inputs[from->kind == STEP_BINARY ? scores_side(l, from) : 0];
            from = step_of(l, v);
        }
        if (is_plain(l, v) && from->kind == STEP_PRODUCT && from->uses == 1) return side;
    }
    return -1;
}

/* A mask behind another of its kind: noted, unless it is one of the two constants that need none. */
static enum ps_status take_mask(struct lowering *l, struct step *step, const struct view *mask, bool conditional,
                                struct scores *s) {
    const struct step *from = step_of(l, mask);
    struct view whole = *mask;
    int64_t stride = 1;
    bool natural = true;
    for (int i = whole.count - 1; i >= 0 && natural; i--) {
        if (whole.atoms[i].batch || whole.atoms[i].axis < whole.rank - 2) continue;
        natural = whole.atoms[i].stride == stride;
        stride *= whole.atoms[i].size;
    }
    if (from->kind == STEP_CONSTANT && mask_is_nothing(from->tensor)) return PS_OK;
    if (from->kind == STEP_CONSTANT && natural && stride == from->tensor->elements && mask_is_causal(from->tensor)) {
        s->causal = true;
        return PS_OK;
    }
    if (s->masked)
        return change_mask(l, step->node, conditional ? STEP_LOGICAL : STEP_BINARY, conditional ? "and" : "add", &whole,
                           &s->mask);
    s->mask = whole;
    s->masked = true;
    s->conditional = conditional;
    return PS_OK;
}

/* Goes back from the weights of a product to the product of queries and keys; NULL where there is none. */
static enum ps_status find_scores(struct lowering *l, const struct view *weights, struct scores *s) {
    const struct view *v = weights;
    struct step *step = step_of(l, v);
    s->product = NULL;
    s->factor = 1;
    if (step->kind == STEP_DROPOUT && step->uses == 1 && is_plain(l, v)) {
        s->rate = step->attributes.rate;
        v = step->inputs[0];
        step = step_of(l, v);
    }
    if (step->kind != STEP_SOFTMAX || strcmp(step->function, "softmax") != 0 || step->uses != 1 || !is_plain(l, v) ||
        step->axis != step->output.rank - 1)
        return PS_OK;
    v = step->inputs[0];
    for (step = step_of(l, v); step->uses == 1 && is_plain(l, v); step = step_of(l, v)) {
        if (step->kind == STEP_PRODUCT) {
            s->product = step;
            return PS_OK;
        }
        if (is_function(step, "affine") && step->beta == 0) {
            s->factor *= (double)step->alpha;
            v = step->inputs[0];
            continue;
        }
        /* Scores where a condition holds, else a number far below 0; or the number where another holds. */
        const int scores = step->kind == STEP_CHOICE ? (number_of(l, step->inputs[2]) <= -1e9 ? 1 : 2) : 0;
        if (scores > 0) {
            const double number = number_of(l, step->inputs[3 - scores]);
            struct view condition = *step->inputs[0];
            if (number > -1e9 || (s->factor != 1 && !isinf(number)) || (s->masked && !s->conditional) ||
                !is_plain(l, step->inputs[scores]))
                return PS_OK;
            if (scores == 2) TRY(negate(l, step->node, &condition));
            TRY(take_mask(l, step, &condition, true, s));
            v = step->inputs[scores];
            continue;
        }
        /* A mask in front of a factor would be multiplied by it. */
        if (step->kind != STEP_BINARY || strcmp(step->function, "add") != 0 || s->factor != 1 || s->conditional) return PS_OK;
        const int side = scores_side(l, step);
        if (side < 0) return PS_OK;
        TRY(take_mask(l, step, step->inputs[1 - side], false, s));
        v = step->inputs[side];
    }
    return PS_OK;
}

/* Softmax of a product, with factors, masks and dropout between, by values. */
static enum ps_status fuse_attention(struct lowering *l, struct step *step) {
    struct scores s = {0};
    struct step *made;
    struct view q, k, turned;
    int order[ONNX_RANK_MAX];
    if (step->kind != STEP_PRODUCT) return PS_OK;
    TRY(find_scores(l, step->inputs[0], &s));
    if (s.product == NULL) return PS_OK;
    q = *s.product->inputs[0];
    k = *s.product->inputs[1];
    take_factor(l, &q, &s.factor);
    take_factor(l, &k, &s.factor);
    if (!(s.factor > 0) || q.rank < 2 || k.rank < 2) return PS_OK;
    if (s.masked && !s.conditional) take_condition(l, &s.mask);
    for (int d = 0; d < k.rank; d++) order[d] = d < k.rank - 2 ? d : d == k.rank - 2 ? d + 1 : d - 1;
    TRY(view_transpose(&k, order, &turned));
    TRY(attention_step(l, step->node, &q, &turned, step->inputs[1], s.masked ? &s.mask : NULL, &made));
    const int number = step->output.step, uses = step->uses;
    *step = *made;
    step->output.step = number;
    step->uses = uses;
    step->attributes.causal = s.causal;
    step->attributes.rate = s.rate;
    step->alpha = (float)s.factor;
    return PS_OK;
}

/* A softmax of nothing but masked scores is made 0 in place of NaN: attention does so, too, and no other softmax has any. */
static void fuse_safe(struct lowering *l, struct step *choice) {
    double zero = 1;
    if (choice->kind != STEP_CHOICE) return;
    const struct step *check = step_of(l, choice->inputs[0]), *nothing = step_of(l, choice->inputs[1]);
    const struct view *x = choice->inputs[2];
    if (nothing->kind == STEP_CONSTANT && nothing->tensor->elements == 1 && nothing->tensor->reals != NULL)
        zero = nothing->tensor->reals[0];
    if (check->kind != STEP_COMPARE || strcmp(check->function, "isnan") != 0 || zero != 0 ||
        check->inputs[0]->step != x->step || step_of(l, x)->kind != STEP_SOFTMAX || !is_natural(x) ||
        !is_natural(check->inputs[0]) || !is_natural(choice->inputs[0]))
        return;
    choice->alias = x->step + 1;
}

/* -------------------------------------------------------------------- GELU */

/* The input of the step that the view shows plainly, where it is a function that nobody else reads; or NULL. */
static const struct view *of_function(const struct lowering *l, const struct view *v, const char *function, double alpha,
                                      double beta) {
    const struct step *step = step_of(l, v);
    if (!is_function(step, function) || step->uses != 1 || !is_natural(v)) return NULL;
    const double a = (double)step->alpha, b = (double)step->beta;
    if (strcmp(function, "affine") == 0 || strcmp(function, "power") == 0)
        if (a < alpha - 1e-5 || a > alpha + 1e-5 || b < beta - 1e-5 || b > beta + 1e-5) return NULL;
    return step->inputs[0];
}

static bool same_view(const struct view *a, const struct view *b) {
    struct view x = *a, y = *b;
    view_join(&x, true);
    view_join(&y, true);
    if (x.step != y.step || x.count != y.count) return false;
    for (int i = 0; i < x.count; i++)
        if (x.atoms[i].size != y.atoms[i].size || (!x.atoms[i].batch && x.atoms[i].stride != y.atoms[i].stride)) return false;
    return true;
}

/* x of 1 + erf(x / sqrt(2)), or of 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), the tanh form. */
static const struct view *gelu_gate(const struct lowering *l, const struct view *gate, bool *tanh_form) {
    const struct view *inner = of_function(l, gate, "affine", 1, 1), *x, *cube, *arg;
    if (inner == NULL) return NULL;
    *tanh_form = false;
    arg = of_function(l, inner, "erf", 0, 0);
    if (arg != NULL) return of_function(l, arg, "affine", 0.70710678118654752, 0);
    *tanh_form = true;
    arg = of_function(l, inner, "tanh", 0, 0);
    arg = arg != NULL ? of_function(l, arg, "affine", 0.79788456080286536, 0) : NULL;
    if (arg == NULL || step_of(l, arg)->kind != STEP_BINARY || strcmp(step_of(l, arg)->function, "add") != 0) return NULL;
    for (int side = 0; side < 2; side++) {
        x = step_of(l, arg)->inputs[side];
        cube = of_function(l, step_of(l, arg)->inputs[1 - side], "affine", 0.044715, 0);
        cube = cube != NULL ? of_function(l, cube, "power", 3, 0) : NULL;
        if (cube != NULL && same_view(cube, x)) return x;
    }
    return NULL;
}

static void become_unary(struct step *step, const struct view *x, const char *function, float alpha) {
    step->kind = STEP_UNARY;
    *step->inputs[0] = *x;
    step->input_count = 1;
    step->function = function;
    step->alpha = alpha;
    step->beta = 0;
}

static bool is_product_of(const struct step *step) { return step->kind == STEP_BINARY && strcmp(step->function, "mul") == 0; }

/* 0.5 x times the gate, in any order; x times sigmoid(x). */
static void fuse_gates(struct lowering *l, struct step *step) {
    bool tanh_form;
    struct step *mul = step;
    double half = 1;
    if (is_function(step, "affine") && step->beta == 0 && step->alpha == 0.5f && is_natural(step->inputs[0])) {
        mul = step_of(l, step->inputs[0]);
        if (mul->uses != 1) return;
        half = 0.5;
    }
    if (!is_product_of(mul)) return;
    for (int side = 0; side < 2; side++) {
        const struct view *x = mul->inputs[side], *gate = mul->inputs[1 - side];
        const struct view *in = of_function(l, gate, "sigmoid", 0, 0);
        if (half == 1 && in != NULL && same_view(in, x)) {
            become_unary(step, x, "silu", 0);
            return;
        }
        in = gelu_gate(l, gate, &tanh_form);
        const struct view *whole = half == 1 ? of_function(l, x, "affine", 0.5, 0) : x;
        if (in == NULL || whole == NULL || !same_view(in, whole)) continue;
        const struct view copy = *in;
        become_unary(step, &copy, "gelu", tanh_form);
        return;
    }
}

/* ---------------------------------------------------------------- RMS norm */

/* x of mean(x^2) over the last dimension. */
static const struct view *mean_square(const struct lowering *l, const struct view *v) {
    const struct step *mean = step_of(l, v);
    if (mean->kind != STEP_REDUCE || strcmp(mean->function, "mean") != 0 || mean->uses != 1) return NULL;
    const int rank = mean->inputs[0]->rank;
    for (int d = 0; d < rank; d++)
        if (mean->marks[d] != (d == rank - 1)) return NULL;
    const struct step *square = step_of(l, mean->inputs[0]);
    if (square->uses != 1 || !is_natural(mean->inputs[0])) return NULL;
    if (is_function(square, "power") && square->alpha == 2) return square->inputs[0];
    if (square->kind == STEP_BINARY && strcmp(square->function, "mul") == 0 && same_view(square->inputs[0], square->inputs[1]))
        return square->inputs[0];
    return NULL;
}

/* x of 1 / sqrt(mean(x^2) + epsilon), seen repeated along the last dimension; or without the reciprocal. */
static const struct view *root_of(const struct lowering *l, const struct view *v, bool inverse, float *epsilon) {
    const struct step *step = step_of(l, v);
    if (inverse) {
        if (!is_function(step, "reciprocal") || step->uses != 1) return NULL;
        v = step->inputs[0];
        step = step_of(l, v);
    }
    if (!is_function(step, "sqrt") || step->uses != 1) return NULL;
    const struct step *sum = step_of(l, step->inputs[0]);
    if (!is_function(sum, "affine") || sum->alpha != 1 || sum->uses != 1 || !(sum->beta > 0)) return NULL;
    *epsilon = sum->beta;
    return mean_square(l, sum->inputs[0]);
}

static void become_rms_norm(struct step *step, const struct view *x, float epsilon, struct view *weight) {
    step->kind = STEP_RMS_NORM;
    *step->inputs[0] = *x;
    step->input_count = 1;
    step->number = 1;
    step->attributes.epsilon = epsilon;
    step->parameters[0] = weight;
}

/* x times (or by) its root mean square. */
static void fuse_rms_norm(struct lowering *l, struct step *step) {
    float epsilon;
    if (step->kind != STEP_BINARY) return;
    const bool times = strcmp(step->function, "mul") == 0, by = strcmp(step->function, "div") == 0;
    for (int side = 0; side < (times ? 2 : by ? 1 : 0); side++) {
        const struct view *x = step->inputs[side], *in = root_of(l, step->inputs[1 - side], times, &epsilon);
        if (in == NULL || !same_view(in, x)) continue;
        struct view whole = *x;
        /* The mean's input may show it in other dimensions; the last is the same. */
        if (whole.dims[whole.rank - 1] != in->dims[in->rank - 1]) continue;
        become_rms_norm(step, &whole, epsilon, NULL);
        return;
    }
}

/* The weight behind it. */
static void fuse_rms_weight(struct lowering *l, struct step *step) {
    if (!is_product_of(step)) return;
    for (int side = 0; side < 2; side++) {
        const struct view *x = step->inputs[side], *w = step->inputs[1 - side];
        struct step *norm = step_of(l, x), *weight = step_of(l, w);
        const int last = step->output.rank - 1;
        bool fits = norm->kind == STEP_RMS_NORM && norm->uses == 1 && norm->parameters[0] == NULL && is_natural(x) &&
                    weight->kind == STEP_PARAMETER && weight->output.rank == 1 &&
                    weight->output.dims[0] == step->output.dims[last] &&
                    norm->output.dims[norm->output.rank - 1] == weight->output.dims[0];
        int64_t stride = 1;
        for (int i = w->count - 1; i >= 0 && fits; i--) {
            fits = w->atoms[i].stride == (w->atoms[i].axis == last ? stride : 0);
            if (w->atoms[i].axis == last) stride *= w->atoms[i].size;
        }
        if (!fits) continue;
        const struct view in = *norm->inputs[0];
        if (in.rank != step->output.rank) continue;
        become_rms_norm(step, &in, norm->attributes.epsilon, &weight->output);
        return;
    }
}

/* ---------------------------------------------------------- rotary embedding */

/* The second half of x's last dimension, negated, before the first half. */
static bool is_turned(const struct lowering *l, const struct view *v, const struct view *x) {
    const int last = x->rank - 1;
    const int64_t half = x->dims[last] / 2;
    const struct step *halves = step_of(l, v);
    if (halves->kind != STEP_CONCAT || halves->input_count != 2 || halves->axis != last || !is_plain(l, v)) return false;
    const struct step *negated = step_of(l, halves->inputs[0]), *first = step_of(l, halves->inputs[1]);
    if (!is_function(negated, "neg") || !is_plain(l, halves->inputs[0]) || !is_plain(l, halves->inputs[1])) return false;
    const struct step *second = step_of(l, negated->inputs[0]);
    if (first->kind != STEP_SLICE || second->kind != STEP_SLICE || !is_plain(l, negated->inputs[0])) return false;
    return first->axis == last && second->axis == last && first->stride == 1 && second->stride == 1 && first->first == 0 &&
           second->first == half && first->length == half && second->length == half && x->dims[last] == 2 * half &&
           same_view(first->inputs[0], x) && same_view(second->inputs[0], x);
}

/* Different at each position and feature, and the same for all heads; without a batch among positions and features. */
static bool is_table(const struct view *v) {
    for (int i = 0; i < v->count; i++) {
        const bool inside = v->atoms[i].axis >= v->rank - 2;
        if (v->atoms[i].batch ? inside : inside != (v->atoms[i].stride != 0)) return false;
    }
    return true;
}

/* The inputs of a product that one sum alone reads. */
static const struct step *product_of(const struct lowering *l, const struct step *sum, int side) {
    const struct step *product = step_of(l, sum->inputs[side]);
    if (!is_product_of(product) || product->uses != 1 || !is_plain(l, sum->inputs[side])) return NULL;
    for (int d = 0; d < product->output.rank; d++)
        if (product->output.dims[d] != sum->output.dims[d]) return NULL;
    return product;
}

/* x cos + turned(x) sin. */
static enum ps_status fuse_rotary(struct lowering *l, struct step *sum) {
    if (sum->kind != STEP_BINARY || strcmp(sum->function, "add") != 0 || sum->output.rank < 3) return PS_OK;
    const struct step *products[2] = {product_of(l, sum, 0), product_of(l, sum, 1)};
    for (int way = 0; way < 8 && products[0] != NULL && products[1] != NULL; way++) {
        const struct step *by_cosine = products[way & 1], *by_sine = products[~way & 1];
        const struct view *x = by_cosine->inputs[way >> 1 & 1], *cosine = by_cosine->inputs[~way >> 1 & 1];
        const struct view *turned = by_sine->inputs[way >> 2 & 1], *sine = by_sine->inputs[~way >> 2 & 1];
        if (!is_turned(l, turned, x) || !is_table(cosine) || !is_table(sine)) continue;
        bool fits = true;
        for (int i = 0; i < x->count && fits; i++)
            fits = x->atoms[i].batch ? x->atoms[i].axis < x->rank - 2 : x->atoms[i].stride != 0;
        if (!fits) continue;
        struct view **inputs = arena_take(&l->arena, 3, sizeof(struct view *));
        if (inputs == NULL) return arena_check(&l->arena, "an ONNX file", l->error);
        inputs[0] = view_new(l, x);
        inputs[1] = view_new(l, cosine);
        inputs[2] = view_new(l, sine);
        sum->kind = STEP_ROTARY;
        sum->inputs = inputs;
        sum->input_count = 3;
        return arena_check(&l->arena, "an ONNX file", l->error);
    }
    return PS_OK;
}

/* --------------------------------------------------------- shared parameters */

/* Elements that are all the same, as in biases and norms before training, say nothing: exporters merge such parameters. */
static bool is_distinct(const struct onnx_tensor *tensor) {
    const size_t size = tensor->elements > 0 ? tensor->bytes.size / (size_t)tensor->elements : 0;
    for (int64_t i = 1; i < tensor->elements && !tensor->varints; i++)
        if (memcmp(tensor->bytes.data, tensor->bytes.data + (size_t)i * size, size) != 0) return true;
    return tensor->varints;
}

/* Whether the model shares parameters on purpose, as ALBERT's layers do: then biases and norms that several nodes have are no
 * sign that the exporter has merged them. A table that a linear layer has, too, says nothing of the others. */
static enum ps_status find_shared(struct lowering *l) {
    int *uses = arena_take(&l->arena, (size_t)l->model->initializer_count, sizeof *uses);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    for (int s = 0; s < l->step_count; s++) {
        const struct step *step = l->steps[s];
        for (int p = 0; p < STEP_PARAMETERS_MAX && step->uses > 0 && step->kind != STEP_EMBEDDING; p++)
            if (step->parameters[p] != NULL && step_of(l, step->parameters[p])->kind == STEP_PARAMETER)
                uses[step_of(l, step->parameters[p])->number]++;
    }
    for (int i = 0; i < l->model->initializer_count; i++)
        l->shares = l->shares || (uses[i] > 1 && is_distinct(&l->model->initializers[i]));
    return PS_OK;
}

/* ------------------------------------------------------------ packed attention */

/* The value that a slice's view is cut from, in the slice's dimensions: each atom with its stride there. */
static bool before_slice(const struct lowering *l, const struct view *v, struct view *out) {
    const struct step *slice = step_of(l, v);
    const struct view *in = slice->inputs[0], *own = &slice->output;
    struct view rest = *in;
    int kept = 0, along = 0;
    for (int i = 0; i < in->count; i++) { /* the input's atoms as the output has them: at most one along the axis */
        if (in->atoms[i].axis == slice->axis && ++along > 1) return false;
        if (in->atoms[i].axis == slice->axis && slice->length == 1) continue;
        rest.atoms[kept++] = in->atoms[i];
    }
    rest.count = kept;
    if (rest.count != own->count || slice->stride != 1) return false;
    struct step through = *slice;
    struct view *inputs[1] = {&rest};
    through.inputs = inputs;
    *out = *v;
    out->step = in->step;
    return map_atoms(&through, out);
}

/* Queries, keys and values that are cut from one value, side by side, are read from there: (.., 3, heads, T, d). */
static void fuse_packed(struct lowering *l, struct step *step) {
    struct view parts[3];
    if (step->kind != STEP_ATTENTION || step->number != 0) return;
    const struct step *first = step_of(l, step->inputs[0]);
    if (first->kind != STEP_SLICE) return;
    const struct view *source = first->inputs[0];
    int64_t stride = 0;
    for (int i = 0; i < source->count; i++)
        if (source->atoms[i].axis == first->axis) stride = source->atoms[i].stride;
    if (source->dims[first->axis] != 3 * first->length || stride == 0) return;
    for (int p = 0; p < 3; p++) {
        const struct step *slice = step_of(l, step->inputs[p]);
        if (slice->kind != STEP_SLICE || slice->axis != first->axis || slice->length != first->length ||
            slice->first != p * first->length || !same_view(slice->inputs[0], source) ||
            !before_slice(l, step->inputs[p], &parts[p]))
            return;
        if (p > 0 && !same_view(&parts[p], &parts[0])) return;
    }
    /* The parts in front, as one more leading dimension. */
    struct view *packed = &parts[0];
    if (packed->count == ATOMS_MAX || packed->rank == ONNX_RANK_MAX) return;
    memmove(&packed->atoms[1], packed->atoms, (size_t)packed->count * sizeof *packed->atoms);
    memmove(&packed->dims[1], packed->dims, (size_t)packed->rank * sizeof *packed->dims);
    for (int i = 1; i <= packed->count; i++) packed->atoms[i].axis++;
    packed->atoms[0] = (struct atom){3, first->length * stride, 0, false};
    packed->dims[0] = 3;
    packed->count++;
    packed->rank++;
    *step->inputs[0] = *packed;
    if (step->input_count == 4) step->inputs[1] = step->inputs[3];
    step->input_count -= 2;
    step->number = 1;
}

/* A softmax between two products that has not become an attention is slow. */
static void warn_of_attention(const struct lowering *l) {
    int left = 0;
    const struct step *first = NULL;
    for (int s = 0; s < l->step_count; s++) {
        const struct step *step = l->steps[s];
        if (step->uses == 0 || step->kind != STEP_PRODUCT) continue;
        const struct step *weights = step_of(l, step->inputs[0]);
        if (weights->kind != STEP_SOFTMAX) continue;
        if (left++ == 0) first = step;
    }
    if (left > 0)
        log_warn("%s: %d attention%s computed operator by operator, the first one at node '%.100s': that is slow", l->path,
                 left, left == 1 ? " is" : "s are", first->node != NULL ? first->node->name : "");
}

typedef enum ps_status (*pattern)(struct lowering *l, struct step *step);

/* Every step that is needed, in order. */
static enum ps_status fuse_all(struct lowering *l, void (*simple)(struct lowering *, struct step *), pattern made) {
    TRY(lower_count_uses(l));
    for (int s = 0, count = l->step_count; s < count; s++) {
        if (l->steps[s]->uses == 0) continue;
        if (simple != NULL) simple(l, l->steps[s]);
        if (made != NULL) TRY(made(l, l->steps[s]));
    }
    redirect(l);
    return PS_OK;
}

enum ps_status lower_fuse(struct lowering *l) {
    TRY(fuse_all(l, fuse_bias, NULL));
    TRY(fuse_all(l, fuse_safe, NULL));
    TRY(fuse_all(l, NULL, fuse_rotary));
    TRY(fuse_all(l, NULL, fuse_attention));
    TRY(fuse_all(l, fuse_gates, NULL));
    TRY(fuse_all(l, fuse_rms_norm, NULL));
    TRY(fuse_all(l, fuse_rms_weight, NULL));
    TRY(fuse_all(l, fuse_packed, NULL));
    TRY(lower_count_uses(l));
    TRY(find_shared(l));
    warn_of_attention(l);
    return PS_OK;
}
