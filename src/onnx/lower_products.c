/* Products of matrices: with a parameter, a linear layer; else of two values. */
#include "onnx/lower_calls.h"

#include <string.h>

/* (.., K) by a weight (K, M) that is a parameter. */
static enum ps_status linear_step(const struct call *call, struct view *x, struct view *weight, struct view *bias,
                                  struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    int from[ONNX_RANK_MAX];
    const int last = x->rank - 1;
    TRY(call_needs_apart(call, x, last));
    struct step *step = step_add(call->l, STEP_LINEAR, call->node, 1);
    if (step == NULL) return call_memory(call);
    step->inputs[0] = x;
    step->parameters[0] = weight;
    step->parameters[1] = bias;
    for (int d = 0; d <= last; d++) {
        dims[d] = d < last ? x->dims[d] : weight->dims[1];
        from[d] = d < last ? d : -1;
    }
    TRY(call_output(call, step, x, x->rank, dims, from));
    *out = view_new(call->l, &step->output);
    return call_memory(call);
}

/* A whole parameter (M, K), or (K, M), that a linear layer can have: seen as (K, M). */
static bool is_weight(const struct lowering *l, const struct view *v) {
    const struct step *step = l->steps[v->step];
    /* A constant of which nothing says what it is was a parameter before the exporter changed it: it is refused when it is
     * emitted. */
    if ((step->kind != STEP_PARAMETER && (step->kind != STEP_CONSTANT || !step->tensor->unsaid)) || v->rank != 2 ||
        step->output.rank != 2)
        return false;
    const int64_t k = v->dims[0], m = v->dims[1];
    if (k * m != view_elements(&l->steps[v->step]->output)) return false;
    struct view joined = *v;
    view_join(&joined, false);
    int64_t stride_k = 0, stride_m = 0;
    int atoms_k = 0, atoms_m = 0;
    for (int i = 0; i < joined.count; i++) {
        if (joined.atoms[i].axis == 0) stride_k = joined.atoms[i].stride, atoms_k++;
        if (joined.atoms[i].axis == 1) stride_m = joined.atoms[i].stride, atoms_m++;
    }
    if (atoms_k > 1 || atoms_m > 1) return false;
    return (k == 1 || m == 1) || (stride_k == 1 && stride_m == k) || (stride_k == m && stride_m == 1);
}

enum ps_status lower_product_step(const struct call *call, struct view *a, struct view *b, struct view **out) {
    struct view lead, *heads[2] = {view_new(call->l, a), view_new(call->l, b)};
    if (heads[0] == NULL || heads[1] == NULL) return call_memory(call);
    TRY(call_needs_apart(call, a, a->rank - 1));
    TRY(call_needs_apart(call, b, b->rank - 2));
    struct view *whole[2] = {a, b};
    for (int i = 0; i < 2; i++) { /* the leading dimensions alone */
        struct view *v = heads[i];
        while (v->count > 0 && v->atoms[v->count - 1].axis >= v->rank - 2) v->count--;
        v->rank -= 2;
    }
    TRY(views_align(call->l, heads, 2, -1, &lead));
    struct step *step = step_add(call->l, STEP_PRODUCT, call->node, 2);
    if (step == NULL) return call_memory(call);
    for (int i = 0; i < 2; i++) { /* aligned, with the two last behind */
        struct view *v = heads[i];
        const int rank = v->rank, more = rank + 2 - whole[i]->rank;
        for (int d = 0; d < 2; d++) v->dims[rank + d] = whole[i]->dims[whole[i]->rank - 2 + d];
        for (int k = 0; k < whole[i]->count; k++) {
            if (whole[i]->atoms[k].axis + more < rank) continue;
            if (v->count == ATOMS_MAX) return call_refuse(call, "its inputs have too many dimensions");
            v->atoms[v->count] = whole[i]->atoms[k];
            v->atoms[v->count++].axis += more;
        }
        v->rank = rank + 2;
        step->inputs[i] = v;
    }
    struct view *made = &step->output;
    const int number = made->step, rank = lead.rank;
    *made = lead;
    made->step = number;
    made->rank = rank + 2;
    for (int d = 0; d < 2; d++) {
        const struct view *v = step->inputs[d];
        made->dims[rank + d] = v->dims[rank + d];
        for (int k = 0; k < v->count; k++) {
            if (v->atoms[k].axis != rank + d) continue;
            if (made->count == ATOMS_MAX) return call_refuse(call, "its output has too many dimensions");
            made->atoms[made->count++] = v->atoms[k];
        }
    }
    for (int i = 0; i < made->count; i++) made->atoms[i].stride = made->atoms[i].stride != 0;
    TRY(view_fits(call->l, made));
    view_natural(made);
    *out = view_new(call->l, made);
    return call_memory(call);
}

/* A vector as a matrix of one row or column. */
static enum ps_status as_matrix(const struct call *call, struct view *v, bool column) {
    if (v->rank != 1) return v->rank >= 2 ? PS_OK : call_refuse(call, "a number cannot be multiplied as a matrix");
    int64_t dims[2] = {column ? v->dims[0] : 1, column ? 1 : v->dims[0]};
    struct view made;
    TRY(view_reshape(call->l, v, 2, dims, &made));
    *v = made;
    return PS_OK;
}

enum ps_status lower_matmul(const struct call *call) {
    struct view *a, *b, *out, made;
    const bool left = call_input(call, 1)->kind == VALUE_CONSTANT || call_input(call, 1)->kind == VALUE_VIEW;
    if (!left) return call_refuse(call, "two inputs are needed");
    TRY(call_view(call, 0, &a));
    TRY(call_view(call, 1, &b));
    const int rank_a = a->rank, rank_b = b->rank;
    TRY(as_matrix(call, a, false));
    TRY(as_matrix(call, b, true));
    if (a->dims[a->rank - 1] != b->dims[b->rank - 2]) return call_refuse(call, "its inputs do not fit together");
    if (rank_b == 2 && is_weight(call->l, b))
        TRY(linear_step(call, a, b, NULL, &out));
    else
        TRY(lower_product_step(call, a, b, &out));
    if (rank_a == 1 || rank_b == 1) {
        int64_t dims[ONNX_RANK_MAX];
        int rank = 0;
        for (int d = 0; d < out->rank; d++)
            if (!(rank_a == 1 && d == out->rank - 2) && !(rank_b == 1 && d == out->rank - 1)) dims[rank++] = out->dims[d];
        TRY(view_reshape(call->l, out, rank, dims, &made));
        *out = made;
    }
    call_give(call, 0, out);
    return PS_OK;
}

enum ps_status lower_gemm(const struct call *call) {
    static const int turned[] = {1, 0};
    const float alpha = onnx_float(call->node, "alpha", 1), beta = onnx_float(call->node, "beta", 1);
    struct view *a, *b, *c = NULL, *out, made;
    TRY(call_view(call, 0, &a));
    TRY(call_view(call, 1, &b));
    if (a->rank != 2 || b->rank != 2) return call_refuse(call, "its inputs must be matrices");
    if (onnx_int(call->node, "transA", 0)) {
        TRY(view_transpose(a, turned, &made));
        *a = made;
    }
    if (onnx_int(call->node, "transB", 0)) {
        TRY(view_transpose(b, turned, &made));
        *b = made;
    }
    if (a->dims[1] != b->dims[0]) return call_refuse(call, "its inputs do not fit together");
    double zero;
    const bool added = call_given(call, 2) && beta != 0 && !(tensor_uniform(call_constant(call, 2), &zero) && zero == 0);
    if (added) TRY(call_view(call, 2, &c));
    const bool own = c != NULL && alpha == 1 && beta == 1 && c->rank == 1 && c->dims[0] == b->dims[1] &&
                     view_is_parameter(call->l, c) != NULL;
    const bool layer = is_weight(call->l, b);
    if (layer)
        TRY(linear_step(call, a, b, own ? c : NULL, &out));
    else
        TRY(lower_product_step(call, a, b, &out));
    if (alpha != 1) TRY(lower_unary_step(call, out, "affine", (double)alpha, 0, &out));
    if (c != NULL && !(own && layer)) {
        if (beta != 1) TRY(lower_unary_step(call, c, "affine", (double)beta, 0, &c));
        TRY(lower_binary_step(call, "add", out, c, &out));
    }
    call_give(call, 0, out);
    return PS_OK;
}

enum ps_status lower_product_with(const struct call *call, struct view **x, int axis, int64_t count, lower_matrix *matrix,
                                  const void *context) {
    const int64_t n = (*x)->dims[axis], sides[2] = {n, count};
    struct view made, *out;
    struct tensor *tensor;
    int order[ONNX_RANK_MAX];
    if ((*x)->rank < 2) return call_refuse(call, "its input has one dimension, which is the batch");
    if (n * count > 1 << 24) return call_refuse(call, "it would need a matrix of more than 16 million numbers");
    TRY(call_needs_apart(call, *x, axis));
    TRY(fold_take(&call->l->fold, ONNX_FLOAT, 2, sides, &tensor));
    for (int64_t from = 0; from < n; from++)
        for (int64_t to = 0; to < count; to++) tensor->reals[from * count + to] = matrix(context, from, to);
    for (int d = 0; d < (*x)->rank; d++) order[d] = d == axis ? (*x)->rank - 1 : d == (*x)->rank - 1 ? axis : d;
    TRY(view_transpose(*x, order, &made)); /* its own inverse */
    struct view *right = constant_view(call->l, tensor);
    if (right == NULL) return call_memory(call);
    TRY(lower_product_step(call, &made, right, &out));
    TRY(view_transpose(out, order, &made));
    *x = view_new(call->l, &made);
    return call_memory(call);
}

struct cumulation {
    bool exclusive, reverse;
};

static double triangle(const void *context, int64_t from, int64_t to) {
    const struct cumulation *c = context;
    return from == to ? !c->exclusive : (from < to) != c->reverse;
}

/* Sums up to each place along an axis. */
enum ps_status lower_cumulate(const struct call *call) {
    const struct tensor *axes = call_constant(call, 1);
    const struct cumulation c = {onnx_int(call->node, "exclusive", 0) != 0, onnx_int(call->node, "reverse", 0) != 0};
    struct view *x;
    int axis;
    TRY(call_view(call, 0, &x));
    if (axes == NULL || axes->whole == NULL || axes->elements != 1) return call_refuse(call, "its axis depends on the data");
    TRY(fold_axis(axes->whole[0], x->rank, &axis, call->error));
    TRY(lower_product_with(call, &x, axis, x->dims[axis], triangle, &c));
    call_give(call, 0, x);
    return PS_OK;
}

/* One letter for each dimension of the inputs and of the output, as an equation of Einstein's sums says; digits for those that
 * dots stand for, counted from the last. */
enum { EINSUM_INPUTS_MAX = 8, LETTERS = 2 * ONNX_RANK_MAX + 1 };
struct einsum {
    char inputs[EINSUM_INPUTS_MAX][LETTERS], output[LETTERS];
    int count, dots; /* dots: the most dimensions that they stand for */
};

/* Of `rank` dimensions; -1: of the output, which has all that dots stand for anywhere. */
static enum ps_status read_letters(const struct call *call, const char **at, int rank, struct einsum *e, char *letters) {
    const char *end = *at;
    int count = 0, own = 0;
    bool dotted = false;
    while (*end != '\0' && *end != ',' && *end != '-') own += *end != ' ' && *end != '.', end++;
    const int dots = rank < 0 ? e->dots : rank - own;
    for (; *at < end; ++*at) {
        if (**at == ' ') continue;
        if (!dotted && strncmp(*at, "...", 3) == 0 && dots >= 0 && dots < 10 && own + dots < LETTERS) {
            for (int d = dots; d > 0; d--) letters[count++] = (char)('0' + d - 1);
            e->dots = dots > e->dots ? dots : e->dots;
            dotted = true;
            *at += 2;
            continue;
        }
        const bool letter = (**at >= 'a' && **at <= 'z') || (**at >= 'A' && **at <= 'Z');
        if (!letter || count == ONNX_RANK_MAX || memchr(letters, **at, (size_t)count) != NULL)
            return call_refuse(call, "its equation has diagonals, too many dimensions or signs, which are not known");
        letters[count++] = **at;
    }
    letters[count] = '\0';
    return PS_OK;
}

/* Without "->", the output has what dots stand for and the letters that stand once, sorted. */
static enum ps_status read_equation(const struct call *call, struct einsum *e) {
    const char *at = onnx_string(call->node, "equation", "");
    e->count = call->node->input_count;
    if (e->count < 1 || e->count > EINSUM_INPUTS_MAX) return call_refuse(call, "one to eight inputs are known");
    for (int i = 0; i < e->count; i++) {
        int rank;
        call_dims(call, i, &rank);
        TRY(read_letters(call, &at, rank, e, e->inputs[i]));
        if ((*at == ',') != (i + 1 < e->count)) return call_refuse(call, "its equation does not fit its inputs");
        at += *at == ',';
    }
    if (at[0] == '-' && at[1] == '>') {
        at += 2;
        TRY(read_letters(call, &at, -1, e, e->output));
        return *at == '\0' ? PS_OK : call_refuse(call, "its equation does not end");
    }
    int count = 0;
    for (int d = e->dots; d > 0; d--) e->output[count++] = (char)('0' + d - 1);
    for (int c = 'A'; c <= 'z' && count < ONNX_RANK_MAX; c++) {
        int uses = 0;
        for (int i = 0; i < e->count; i++) uses += strchr(e->inputs[i], c) != NULL;
        if (uses == 1) e->output[count++] = (char)c;
    }
    return *at == '\0' ? PS_OK : call_refuse(call, "its equation does not end");
}

/* Sums over the letters that neither the other input nor what is kept has. */
static enum ps_status sum_alone(const struct call *call, struct view **x, char *letters, const char *other,
                                const char *kept_letters) {
    bool marks[ONNX_RANK_MAX] = {0}, any = false;
    int kept = 0;
    if ((int)strlen(letters) != (*x)->rank) return call_refuse(call, "its equation does not fit its inputs");
    for (int d = 0; d < (*x)->rank; d++) {
        marks[d] = strchr(other, letters[d]) == NULL && strchr(kept_letters, letters[d]) == NULL;
        any = any || marks[d];
        if (!marks[d]) letters[kept++] = letters[d];
    }
    letters[kept] = '\0';
    return any ? lower_reduce_step(call, *x, marks, "sum", false, x) : PS_OK;
}

/* The dimensions, whose letters are `own`, in the order of `letters`. */
static enum ps_status in_order(const struct call *call, const struct view *v, const char *own, const char *letters,
                               struct view *to) {
    int order[ONNX_RANK_MAX];
    const size_t count = strlen(letters);
    if (count != (size_t)v->rank || strspn(letters, own) != count)
        return call_refuse(call, "its equation does not fit its inputs and output");
    for (size_t d = 0; d < count; d++) order[d] = (int)(strchr(own, letters[d]) - own);
    return view_transpose(v, order, to);
}

/* (both.., rows.., sums..) as a matrix for each of both: its last groups are joined. */
static enum ps_status as_matrices(const struct call *call, const struct view *v, const char *own, const char *const *groups,
                                  struct view *to) {
    char letters[3 * ONNX_RANK_MAX + 1] = "";
    int64_t dims[ONNX_RANK_MAX];
    const int both = (int)strlen(groups[0]);
    struct view turned;
    for (int g = 0; g < 3; g++) strcat(letters, groups[g]);
    TRY(in_order(call, v, own, letters, &turned));
    if (both + 2 > ONNX_RANK_MAX) return call_refuse(call, "its equation has too many dimensions");
    for (int d = 0; d < both; d++) dims[d] = turned.dims[d];
    dims[both] = dims[both + 1] = 1;
    for (int d = both; d < turned.rank; d++) dims[both + (d >= both + (int)strlen(groups[1]))] *= turned.dims[d];
    return view_reshape(call->l, &turned, both + 2, dims, to);
}

/* Two inputs as one with the letters that are kept, in *x and x_letters: letters of both are the leading dimensions of a
 * product, letters of one its rows and columns, and the others what it sums. */
static enum ps_status contract(const struct call *call, struct view **x, char *x_letters, struct view *y, char *y_letters,
                               const char *kept) {
    char both[LETTERS] = "", sums[LETTERS] = "", alone[2][LETTERS] = {"", ""}, *letters[2] = {x_letters, y_letters};
    struct view *in[2] = {*x, y}, *out, made, turned;
    int64_t dims[3 * ONNX_RANK_MAX];
    int rank = 0;
    for (int i = 0; i < 2; i++) TRY(sum_alone(call, &in[i], letters[i], letters[!i], kept));
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < in[i]->rank; d++) {
            const char c = letters[i][d], *other = strchr(letters[!i], c);
            char *group = other == NULL ? alone[i] : strchr(kept, c) != NULL ? both : sums;
            if (other != NULL && in[!i]->dims[other - letters[!i]] != in[i]->dims[d])
                return call_refuse(call, "its inputs do not fit together");
            if (other == NULL || i == 0) strncat(group, &c, 1);
        }
    }
    const char *const rows[3] = {both, alone[0], sums}, *const columns[3] = {both, sums, alone[1]};
    const char *const groups[3] = {both, alone[0], alone[1]};
    TRY(as_matrices(call, in[0], letters[0], rows, &made));
    TRY(as_matrices(call, in[1], letters[1], columns, &turned));
    TRY(lower_product_step(call, &made, &turned, &out));
    for (int g = 0; g < 3; g++)
        for (const char *c = groups[g]; *c != '\0'; c++)
            dims[rank++] = in[g == 2]->dims[strchr(letters[g == 2], *c) - letters[g == 2]];
    if (rank > ONNX_RANK_MAX) return call_refuse(call, "its equation has too many dimensions");
    TRY(view_reshape(call->l, out, rank, dims, &made));
    x_letters[0] = '\0';
    for (int g = 0; g < 3; g++) strcat(x_letters, groups[g]);
    *x = view_new(call->l, &made);
    return call_memory(call);
}

enum ps_status lower_einsum(const struct call *call) {
    struct einsum e = {0};
    struct view *x, *y, made;
    TRY(read_equation(call, &e));
    TRY(call_view(call, 0, &x));
    for (int i = 1; i < e.count; i++) {
        char kept[EINSUM_INPUTS_MAX * LETTERS];
        strcpy(kept, e.output);
        for (int later = i + 1; later < e.count; later++) strcat(kept, e.inputs[later]);
        TRY(call_view(call, i, &y));
        TRY(contract(call, &x, e.inputs[0], y, e.inputs[i], kept));
    }
    TRY(sum_alone(call, &x, e.inputs[0], "", e.output));
    TRY(in_order(call, x, e.inputs[0], e.output, &made));
    call_give(call, 0, view_new(call->l, &made));
    return call_memory(call);
}
