/*
 * Attention and recurrent layers. A recurrent layer that is as PyTorch exports it becomes one operator for each direction; any
 * other one is computed position by position.
 */
#include "onnx/lower_calls.h"

#include <string.h>

#include "base/log.h"

/* --------------------------------------------------------------- attention */

bool mask_is_nothing(const struct tensor *mask) {
    double number;
    return tensor_uniform(mask, &number) && (mask->whole != NULL ? number != 0 : number == 0);
}

bool mask_is_causal(const struct tensor *mask) {
    if (mask->rank < 2 || mask->elements == 0) return false;
    const int64_t keys = mask->dims[mask->rank - 1], queries = mask->dims[mask->rank - 2];
    if (keys != queries || keys < 2) return false;
    for (int64_t e = 0; e < mask->elements; e++) {
        const bool seen = e % keys <= e / keys % queries;
        if (mask->whole != NULL ? (mask->whole[e] != 0) != seen : !(seen ? mask->reals[e] == 0 : mask->reals[e] <= -1e9))
            return false;
    }
    return true;
}

/* The view of so many dimensions of 4, with the last two apart: the others alone. */
static void lead_of(const struct view *v, struct view *lead) {
    *lead = *v;
    while (lead->count > 0 && lead->atoms[lead->count - 1].axis >= v->rank - 2) lead->count--;
    lead->rank -= 2;
}

/* Puts the last two dimensions of `from` behind the aligned leading ones. */
static bool rejoin(const struct view *from, struct view *lead) {
    const int rank = lead->rank, more = rank + 2 - from->rank;
    lead->step = from->step;
    for (int d = 0; d < 2; d++) lead->dims[rank + d] = from->dims[from->rank - 2 + d];
    for (int i = 0; i < from->count; i++) {
        if (from->atoms[i].axis + more < rank) continue;
        if (lead->count == ATOMS_MAX) return false;
        lead->atoms[lead->count] = from->atoms[i];
        lead->atoms[lead->count++].axis += more;
    }
    lead->rank = rank + 2;
    return true;
}

enum ps_status attention_step(struct lowering *l, const struct onnx_node *node, const struct view *q, const struct view *k,
                              const struct view *v, const struct view *mask, struct step **made) {
    const struct view *inputs[4] = {q, k, v, mask};
    const int count = mask != NULL ? 4 : 3;
    struct view *leads[4], out;
    struct step *step = step_add(l, STEP_ATTENTION, node, count);
    TRY(arena_check(&l->arena, "an ONNX file", l->error));
    for (int i = 0; i < count; i++) {
        leads[i] = step->inputs[i] = view_new(l, inputs[i]);
        TRY(arena_check(&l->arena, "an ONNX file", l->error));
        if (inputs[i]->rank < 2) return error_set(l->error, PS_BAD_INPUT, "its inputs must have two dimensions or more");
        for (int d = inputs[i]->rank - 2; d < inputs[i]->rank; d++)
            if (view_has_batch(inputs[i], d)) return error_set(l->error, PS_BAD_INPUT, "it would mix the samples of a batch");
        lead_of(inputs[i], leads[i]);
    }
    TRY(views_align(l, leads, count, -1, &out));
    bool fits = true;
    for (int i = 0; i < count; i++) fits = fits && rejoin(inputs[i], leads[i]);
    const int rank = out.rank, number = step->output.step;
    for (int d = 0; d < 2 && fits; d++) { /* (T of queries, d of values) */
        const struct view *from = leads[d == 0 ? 0 : 2];
        out.dims[rank + d] = from->dims[rank + d];
        for (int i = 0; i < from->count && fits; i++) {
            if (from->atoms[i].axis != rank + d) continue;
            fits = out.count < ATOMS_MAX;
            if (fits) out.atoms[out.count++] = from->atoms[i];
        }
    }
    if (!fits) return error_set(l->error, PS_BAD_INPUT, "its inputs have too many dimensions");
    out.rank = rank + 2;
    TRY(view_fits(l, &out));
    for (int i = 0; i < out.count; i++) out.atoms[i].stride = out.atoms[i].stride != 0;
    view_natural(&out);
    out.step = number;
    step->output = out;
    *made = step;
    return PS_OK;
}

/* (N, T, heads d) as (N, heads, T, d). */
static enum ps_status split_heads(const struct call *call, struct view *v, int64_t heads) {
    static const int order[] = {0, 2, 1, 3};
    const int64_t dims[4] = {v->dims[0], v->dims[1], heads, heads > 0 ? v->dims[2] / heads : 0};
    struct view made;
    if (heads < 1 || v->dims[2] % heads != 0) return call_refuse(call, "its heads do not share the features equally");
    TRY(view_reshape(call->l, v, 4, dims, &made));
    return view_transpose(&made, order, v);
}

/* Heads of keys that are fewer than those of queries: each repeated for its neighbours. */
static enum ps_status repeat_heads(const struct call *call, struct view *v, int64_t heads) {
    if (v->dims[1] == heads) return PS_OK;
    if (v->dims[1] < 1 || heads % v->dims[1] != 0) return call_refuse(call, "its heads of queries cannot share those of keys");
    int64_t apart[5] = {v->dims[0], v->dims[1], 1, v->dims[2], v->dims[3]},
            joined[4] = {v->dims[0], heads, v->dims[2], v->dims[3]};
    struct view made, wide;
    TRY(view_reshape(call->l, v, 5, apart, &made));
    apart[2] = heads / v->dims[1];
    TRY(view_expand(call->l, &made, 5, apart, &wide));
    return view_reshape(call->l, &wide, 4, joined, v);
}

/* The mask as the scores have it; NULL where it masks nothing. Constants that leave what stands before are `causal`. */
static enum ps_status lower_mask(const struct call *call, int i, const struct view *q, const struct view *k, struct view **mask,
                                 bool *causal) {
    const int64_t dims[4] = {q->dims[0], q->dims[1], q->dims[2], k->dims[2]};
    struct view *others[1] = {view_new(call->l, q)}, *given_mask, wide;
    *mask = NULL;
    if (!call_given(call, i)) return PS_OK;
    if (call_constant(call, i) != NULL) {
        if (mask_is_nothing(call_constant(call, i))) return PS_OK;
        if (mask_is_causal(call_constant(call, i))) {
            *causal = true;
            return PS_OK;
        }
        TRY(lower_constant_beside(call, call_constant(call, i), others, 1, &given_mask));
    } else
        TRY(call_view(call, i, &given_mask));
    TRY(view_expand(call->l, given_mask, 4, dims, &wide));
    if (wide.rank != 4) return call_refuse(call, "its mask does not fit");
    *mask = view_new(call->l, &wide);
    return call_memory(call);
}

/* Keys up to the query's place in the list, as a mask: they are more or fewer than the queries. */
static enum ps_status causal_mask(const struct call *call, int64_t queries, int64_t keys, struct view **mask) {
    const int64_t dims[4] = {1, 1, queries, keys};
    struct tensor *seen;
    TRY(fold_take(&call->l->fold, ONNX_BOOL, 4, dims, &seen));
    for (int64_t e = 0; e < seen->elements; e++) seen->whole[e] = e % keys <= e / keys;
    *mask = constant_view(call->l, seen);
    return call_memory(call);
}

/* Attention of opset 23. */
enum ps_status lower_attention(const struct call *call) {
    static const int order[] = {0, 2, 1, 3};
    struct view *v[3], *mask, out, *result;
    struct step *step;
    bool causal = onnx_int(call->node, "is_causal", 0) != 0;
    if (call_given(call, 4) || call_given(call, 5) || call_given(call, 6))
        return call_refuse(call, "past keys and values are not known: training needs none");
    for (int i = 0; i < 3; i++) TRY(call_view(call, i, &v[i]));
    const int rank = v[0]->rank;
    for (int i = 0; i < 3; i++) {
        if (v[i]->rank != rank || (rank != 3 && rank != 4)) return call_refuse(call, "its inputs must have 3 or 4 dimensions");
        if (rank == 3) TRY(split_heads(call, v[i], onnx_int(call->node, i == 0 ? "q_num_heads" : "kv_num_heads", 0)));
    }
    const bool flat = rank == 3;
    for (int i = 1; i < 3; i++) TRY(repeat_heads(call, v[i], v[0]->dims[1]));
    TRY(lower_mask(call, 3, v[0], v[1], &mask, &causal));
    if (causal && (v[0]->dims[2] != v[1]->dims[2] || mask != NULL)) {
        if (mask != NULL) return call_refuse(call, "is_causal beside a mask: let the mask say both");
        TRY(causal_mask(call, v[0]->dims[2], v[1]->dims[2], &mask));
        causal = false;
    }
    TRY(attention_step(call->l, call->node, v[0], v[1], v[2], mask, &step));
    step->attributes.causal = causal;
    step->alpha = onnx_float(call->node, "scale", 0);
    step->beta = onnx_float(call->node, "softcap", 0);
    result = view_new(call->l, &step->output);
    if (result != NULL && flat) {
        const int64_t dims[3] = {step->output.dims[0], step->output.dims[2], step->output.dims[1] * step->output.dims[3]};
        struct view turned;
        TRY(view_transpose(result, order, &turned));
        TRY(view_reshape(call->l, &turned, 3, dims, &out));
        *result = out;
    }
    call_give(call, 0, result);
    return call_memory(call);
}

/* --------------------------------------------------------------- recurrent */

/*
 * Where each element of a value comes from that is made of parameters by moving alone: number of the step << 40 | element.
 * Exporters put PyTorch's gates in ONNX's order by slices and concatenation.
 */
static enum ps_status trace(const struct call *call, const struct view *v, int depth, struct tensor **out);

static enum ps_status trace_step(const struct call *call, const struct step *step, int depth, struct tensor **out) {
    struct lowering *l = call->l;
    struct tensor *parts[16], *base;
    struct fold_slice part = {{0}, {0}, {0}};
    int64_t strides[ONNX_RANK_MAX], offset = 0;
    if (depth > 32) return call_refuse(call, "its weights are made of parameters in too many steps");
    switch (step->kind) {
    case STEP_PARAMETER:
        TRY(fold_take(&l->fold, ONNX_INT64, step->output.rank, step->output.dims, out));
        for (int64_t e = 0; e < (*out)->elements; e++) (*out)->whole[e] = (int64_t)step->output.step << 40 | e;
        return PS_OK;
    case STEP_COPY:
        return trace(call, step->inputs[0], depth + 1, out);
    case STEP_SLICE:
        TRY(trace(call, step->inputs[0], depth + 1, &base));
        fold_strides(base->rank, base->dims, strides);
        for (int d = 0; d < base->rank; d++) part.count[d] = d == step->axis ? step->length : base->dims[d];
        offset = step->first * strides[step->axis];
        strides[step->axis] *= step->stride;
        return fold_strided(&l->fold, base, base->rank, part.count, strides, offset, out);
    case STEP_CONCAT: {
        const struct tensor *ins[16];
        const struct onnx_attribute axis = {.name = "axis", .type = ONNX_ATTRIBUTE_INT, .i = step->axis};
        const struct onnx_node concat = {.op = "Concat",
                                         .name = "",
                                         .domain = "",
                                         .input_count = step->input_count,
                                         .output_count = 1,
                                         .attribute_count = 1,
                                         .attributes = &axis};
        if (step->input_count > 16) break;
        for (int i = 0; i < step->input_count; i++) {
            TRY(trace(call, step->inputs[i], depth + 1, &parts[i]));
            ins[i] = parts[i];
        }
        return fold_node(&l->fold, &concat, ins, out);
    }
    default:
        break;
    }
    return call_refuse(call, "its weights are not those of PyTorch's module");
}

static enum ps_status trace(const struct call *call, const struct view *v, int depth, struct tensor **out) {
    struct tensor *base;
    int64_t dims[ONNX_RANK_MAX], strides[ONNX_RANK_MAX];
    TRY(trace_step(call, call->l->steps[v->step], depth, &base));
    if (v->count > ONNX_RANK_MAX) return call_refuse(call, "its weights are not those of PyTorch's module");
    for (int i = 0; i < v->count; i++) {
        dims[i] = v->atoms[i].size;
        strides[i] = v->atoms[i].batch ? 0 : v->atoms[i].stride;
    }
    TRY(fold_strided(&call->l->fold, base, v->count, dims, strides, 0, out));
    (*out)->rank = v->rank;
    memcpy((*out)->dims, v->dims, sizeof v->dims);
    return PS_OK;
}

/* Which parameter the rows are, gate by gate: `rows` of gates * hidden rows of `columns` each, gate g being PyTorch's
 * order[g]. */
static enum ps_status find_gates(const struct call *call, const int64_t *codes, const int *order, int gates, int64_t hidden,
                                 int64_t columns, struct view **parameter) {
    const int64_t number = codes[0] >> 40;
    const struct step *step = call->l->steps[number];
    bool fits = step->kind == STEP_PARAMETER && view_elements(&step->output) == gates * hidden * columns;
    for (int g = 0; g < gates && fits; g++)
        for (int64_t e = 0; e < hidden * columns && fits; e++)
            fits = codes[g * hidden * columns + e] == (number << 40 | (order[g] * hidden * columns + e));
    if (!fits) return call_refuse(call, "its weights are not those of PyTorch's module");
    *parameter = &call->l->steps[number]->output;
    return PS_OK;
}

static enum ps_status recurrent_direction(const struct call *call, const struct view *x, struct tensor *const *weights,
                                          int direction, bool reverse, int64_t hidden, struct view **out) {
    static const int lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2}; /* i o f c of i f g o; z r h of r z n */
    const int gates = call->row->function[0] == 'l' ? 4 : 3, *order = gates == 4 ? lstm : gru;
    const int64_t rows = gates * hidden, features = x->dims[2];
    const int64_t *w = weights[0]->whole + direction * rows * features, *r = weights[1]->whole + direction * rows * hidden;
    const int64_t *b = weights[2]->whole + direction * 2 * rows;
    struct view *parameters[4];
    TRY(find_gates(call, w, order, gates, hidden, features, &parameters[0]));
    TRY(find_gates(call, r, order, gates, hidden, hidden, &parameters[1]));
    TRY(find_gates(call, b, order, gates, hidden, 1, &parameters[2]));
    TRY(find_gates(call, b + rows, order, gates, hidden, 1, &parameters[3]));
    struct step *step = step_add(call->l, STEP_RECURRENT, call->node, 1);
    if (step == NULL) return call_memory(call);
    memcpy(step->parameters, parameters, sizeof parameters);
    step->inputs[0] = view_new(call->l, x);
    step->function = call->row->function;
    step->attributes.channels = (int)hidden;
    step->attributes.reverse = reverse;
    const int64_t dims[4] = {x->dims[0], 1, x->dims[1], hidden};
    const int from[4] = {0, -1, 1, -1};
    TRY(call_output(call, step, x, 4, dims, from));
    *out = view_new(call->l, &step->output);
    return call_memory(call);
}

/* Whether the operator of PyTorch's layer computes what the node does, but for how its weights are stored. */
static bool has_own_operator(const struct call *call) {
    double zero = 0;
    for (int i = 5; i < 7; i++)
        if (call_given(call, i) && !(tensor_uniform(call_constant(call, i), &zero) && zero == 0)) return false;
    return onnx_int(call->node, "layout", 0) == 0 && call_given(call, 3) &&
           (call->row->function[0] == 'l' || onnx_int(call->node, "linear_before_reset", 0) != 0);
}

/* As the operator: all states, and the last of each direction. */
static enum ps_status recurrent_layers(const struct call *call, struct view *x, int directions, bool backward, int64_t hidden,
                                       struct view **all, struct view **last) {
    const int64_t rows = (call->row->function[0] == 'l' ? 4 : 3) * hidden;
    const int64_t sizes[3] = {directions * rows * x->dims[2], directions * rows * hidden, directions * 2 * rows};
    struct tensor *weights[3];
    struct view *v, made;
    for (int i = 0; i < 3; i++) {
        TRY(call_view(call, 1 + i, &v));
        if (view_elements(v) != sizes[i]) return call_refuse(call, "its weights do not fit");
        TRY(trace(call, v, 0, &weights[i]));
    }
    for (int d = 0; d < directions; d++) {
        const bool reverse = directions == 2 ? d == 1 : backward;
        const int64_t state[3] = {1, x->dims[1], hidden};
        TRY(recurrent_direction(call, x, weights, d, reverse, hidden, &all[d]));
        last[d] = view_new(call->l, all[d]);
        if (last[d] == NULL) return call_memory(call);
        TRY(lower_slice_axis(call, &last[d], 0, reverse ? 0 : x->dims[0] - 1, 1, 1));
        TRY(view_reshape(call->l, last[d], 3, state, &made));
        *last[d] = made;
    }
    return PS_OK;
}

/* ------------------------------------------- recurrent, position by position */

enum { UNROLLED_MAX = 1024 };

/* One direction of a layer at work. Biases may be NULL; so are states that are 0. */
struct cell {
    const struct call *call;
    bool lstm, after;     /* after: GRU's reset multiplies what the state's weights made of it */
    const char *function; /* of a plain layer */
    int64_t hidden;
    struct view *sums;          /* (N, T, gates H): weights by the input, with its bias */
    struct view *weight, *bias; /* (H, gates H), (gates H): of the state */
    struct view *state, *cell;  /* (N, H) */
};

static enum ps_status join_functions(const struct cell *c, const char *function, struct view *a, struct view *b,
                                     struct view **out) {
    *out = a != NULL ? a : b;
    return a == NULL || b == NULL ? PS_OK : lower_binary_step(c->call, function, a, b, out);
}

/* Gate g of a sum of all gates. */
static enum ps_status gate_of(const struct cell *c, const struct view *sum, int g, struct view **out) {
    *out = NULL;
    if (sum == NULL) return PS_OK;
    *out = view_new(c->call->l, sum);
    if (*out == NULL) return call_memory(c->call);
    return lower_slice_axis(c->call, out, sum->rank - 1, g * c->hidden, c->hidden, 1);
}

/* The function of gate g of two sums. */
static enum ps_status open_gate(const struct cell *c, const char *function, struct view *x, struct view *h, int g,
                                struct view **out) {
    struct view *a, *b;
    TRY(gate_of(c, x, g, &a));
    TRY(gate_of(c, h, g, &b));
    TRY(join_functions(c, "add", a, b, &a));
    return lower_unary_step(c->call, a, function, 0, 0, out);
}

/* Gates i o f c: cell = f cell + i c, state = o tanh(cell). */
static enum ps_status step_lstm(struct cell *c, struct view *x, struct view *h) {
    struct view *in, *out, *kept = NULL, *fresh;
    TRY(open_gate(c, "sigmoid", x, h, 0, &in));
    TRY(open_gate(c, "sigmoid", x, h, 1, &out));
    TRY(open_gate(c, "tanh", x, h, 3, &fresh));
    TRY(lower_binary_step(c->call, "mul", in, fresh, &fresh));
    if (c->cell != NULL) {
        TRY(open_gate(c, "sigmoid", x, h, 2, &kept));
        TRY(lower_binary_step(c->call, "mul", kept, c->cell, &kept));
    }
    TRY(join_functions(c, "add", kept, fresh, &c->cell));
    TRY(lower_unary_step(c->call, c->cell, "tanh", 0, 0, &fresh));
    return lower_binary_step(c->call, "mul", out, fresh, &c->state);
}

/* Gates z r h: state = (1 - z) h + z state; h = tanh of the input's part and, as `after` says, r times the state's part or the
 * state's part of r times the state. */
static enum ps_status step_gru(struct cell *c, struct view *x, struct view *h) {
    struct view *z, *r, *a, *b, *fresh, *part = h;
    TRY(open_gate(c, "sigmoid", x, h, 0, &z));
    TRY(open_gate(c, "sigmoid", x, h, 1, &r));
    if (!c->after && c->state != NULL) {
        TRY(lower_binary_step(c->call, "mul", r, c->state, &part));
        TRY(lower_product_step(c->call, part, view_new(c->call->l, c->weight), &part));
        TRY(join_functions(c, "add", part, c->bias, &part));
    }
    TRY(gate_of(c, x, 2, &a));
    TRY(gate_of(c, part, 2, &b));
    if (c->after && b != NULL) TRY(lower_binary_step(c->call, "mul", r, b, &b));
    TRY(join_functions(c, "add", a, b, &a));
    TRY(lower_unary_step(c->call, a, "tanh", 0, 0, &fresh));
    if (c->state != NULL) {
        TRY(lower_binary_step(c->call, "sub", c->state, fresh, &a));
        TRY(lower_binary_step(c->call, "mul", z, a, &a));
        return lower_binary_step(c->call, "add", fresh, a, &c->state);
    }
    TRY(lower_binary_step(c->call, "mul", z, fresh, &a));
    return lower_binary_step(c->call, "sub", fresh, a, &c->state);
}

/* state = tanh or max(0, ..) of both parts. */
static enum ps_status step_rnn(struct cell *c, struct view *x, struct view *h) {
    TRY(join_functions(c, "add", x, h, &x));
    return lower_unary_step(c->call, x, c->function, 0, 0, &c->state);
}

/* Row d of what all directions have, (directions, ..), without that dimension; matrices are transposed. */
static enum ps_status of_direction(const struct call *call, int i, int d, int rank, const int64_t *dims, struct view **out) {
    static const int turned[] = {1, 0};
    struct view made;
    TRY(call_view(call, i, out));
    bool fits = (*out)->rank == rank + 1;
    for (int k = 0; k < rank && fits; k++) fits = (*out)->dims[k + 1] == dims[k];
    if (!fits) return call_refuse(call, "its weights, biases or states do not fit");
    TRY(lower_slice_axis(call, out, 0, d, 1, 1));
    TRY(view_reshape(call->l, *out, rank, dims, &made));
    **out = made;
    if (rank == 2 && i < 3) TRY(view_transpose(&made, turned, *out));
    return PS_OK;
}

/* (N, H) of direction d from (directions, N, H), or (N, directions, H) with layout 1; NULL where it is not given. */
static enum ps_status first_state(const struct call *call, const struct view *x, int i, int d, int64_t hidden,
                                  struct view **out) {
    const bool inside = onnx_int(call->node, "layout", 0) != 0;
    const int64_t dims[2] = {x->dims[0], hidden};
    struct view made;
    *out = NULL;
    if (!call_given(call, i)) return PS_OK;
    struct view *others[1] = {view_new(call->l, x)};
    if (call_constant(call, i) != NULL && others[0] != NULL) { /* one for all samples */
        double number;
        const struct tensor *given = call_constant(call, i);
        if (!tensor_uniform(given, &number))
            return call_refuse(call, "its first state is a constant of several numbers: make it an input or 0");
        if (number == 0) return PS_OK;
        const int64_t one[2] = {1, hidden};
        struct tensor *row;
        TRY(fold_take(&call->l->fold, ONNX_FLOAT, 2, one, &row));
        for (int64_t e = 0; e < hidden; e++) row->reals[e] = number;
        const struct view *made_of = constant_view(call->l, row);
        if (made_of == NULL) return call_memory(call);
        TRY(view_expand(call->l, made_of, 2, dims, &made));
        *out = view_new(call->l, &made);
        return call_memory(call);
    }
    TRY(call_view(call, i, out));
    TRY(lower_slice_axis(call, out, inside, d, 1, 1));
    TRY(view_reshape(call->l, *out, 2, dims, &made));
    **out = made;
    return PS_OK;
}

/* The bias of the input's weights and that of the state's, (gates H) each; where nothing multiplies the state's part both count
 * as one. */
static enum ps_status split_bias(struct cell *c, int d, int gates) {
    const int64_t rows = gates * c->hidden, both[1] = {2 * rows};
    struct view *bias, *own;
    if (!call_given(c->call, 3)) return PS_OK;
    TRY(of_direction(c->call, 3, d, 1, both, &bias));
    own = view_new(c->call->l, bias);
    c->bias = view_new(c->call->l, bias);
    if (own == NULL || c->bias == NULL) return call_memory(c->call);
    TRY(lower_slice_axis(c->call, &own, 0, 0, rows, 1));
    TRY(lower_slice_axis(c->call, &c->bias, 0, rows, rows, 1));
    return lower_binary_step(c->call, "add", c->sums, own, &c->sums);
}

static enum ps_status plain_function(const struct call *call, const char **function) {
    const struct onnx_attribute *said = onnx_attribute(call->node, "activations");
    const bool relu = said != NULL && strcmp(said->s, "Relu") == 0;
    *function = relu ? "relu" : "tanh";
    return said == NULL || relu || strcmp(said->s, "Tanh") == 0 ? PS_OK
                                                                : call_refuse(call, "its activations: Tanh and Relu are known");
}

static enum ps_status unroll_direction(const struct call *call, struct view *x, int d, bool reverse, int64_t hidden,
                                       struct view **states, struct cell *c) {
    const int gates = call->row->function[0] == 'l' ? 4 : call->row->function[0] == 'g' ? 3 : 1;
    const int64_t positions = x->dims[1], input[2] = {gates * hidden, x->dims[2]}, own[2] = {gates * hidden, hidden};
    const int64_t row[2] = {x->dims[0], gates * hidden};
    struct view *weight, made;
    *c = (struct cell){.call = call, .lstm = gates == 4, .hidden = hidden};
    c->after = onnx_int(call->node, "linear_before_reset", 0) != 0;
    if (gates == 1) TRY(plain_function(call, &c->function));
    TRY(of_direction(call, 1, d, 2, input, &weight));
    TRY(of_direction(call, 2, d, 2, own, &c->weight));
    TRY(lower_product_step(call, view_new(call->l, x), weight, &c->sums));
    TRY(split_bias(c, d, gates));
    TRY(first_state(call, x, 5, d, hidden, &c->state));
    if (c->lstm) TRY(first_state(call, x, 6, d, hidden, &c->cell));
    for (int64_t t = 0; t < positions; t++) {
        const int64_t at = reverse ? positions - 1 - t : t;
        struct view *sum = view_new(call->l, c->sums), *part = NULL;
        if (sum == NULL) return call_memory(call);
        TRY(lower_slice_axis(call, &sum, 1, at, 1, 1));
        TRY(view_reshape(call->l, sum, 2, row, &made));
        *sum = made;
        if (c->state != NULL) TRY(lower_product_step(call, c->state, view_new(call->l, c->weight), &part));
        TRY(join_functions(c, "add", part, c->bias, &part));
        TRY(gates == 4 ? step_lstm(c, sum, part) : gates == 3 ? step_gru(c, sum, part) : step_rnn(c, sum, part));
        states[at] = c->state;
    }
    return call_memory(call);
}

/* (N, H) as ONNX has a state: dimensions of 1 for the direction and, if `position`, for the place. */
static enum ps_status as_state(const struct call *call, const struct view *x, const struct view *state, bool position,
                               struct view **out) {
    static const int place_first[] = {1, 2, 0, 3}, direction_first[] = {1, 0, 2};
    const bool batch_first = onnx_int(call->node, "layout", 0) != 0;
    const int64_t dims[4] = {x->dims[0], 1, position ? 1 : state->dims[1], state->dims[1]};
    struct view apart, made;
    TRY(view_reshape(call->l, state, position ? 4 : 3, dims, &apart)); /* (N, [T], directions, H) */
    made = apart;
    if (!batch_first) TRY(view_transpose(&apart, position ? place_first : direction_first, &made));
    *out = view_new(call->l, &made);
    return call_memory(call);
}

/* What no operator computes as a whole: a step of the layer for each position, of general operators. */
static enum ps_status unroll(const struct call *call, struct view *x, int directions, bool backward, int64_t hidden,
                             const char *why) {
    static const int order[] = {1, 0, 2};
    const bool inside = onnx_int(call->node, "layout", 0) != 0;
    const int direction_axis[2] = {inside ? 2 : 1, inside ? 1 : 0}, position_axis = inside ? 1 : 0;
    struct view turned, *all[2], *last[2][2] = {{0}}, *out;
    if (!inside) {
        TRY(view_transpose(x, order, &turned));
        *x = turned;
    }
    const int64_t positions = x->dims[1];
    if (positions < 1 || positions > UNROLLED_MAX)
        return error_set(call->error, PS_BAD_INPUT,
                         "%lld positions; of a layer that is not as PyTorch exports it at most %d are accepted",
                         (long long)positions, UNROLLED_MAX);
    struct view **states = arena_take(&call->l->arena, (size_t)positions, sizeof(struct view *));
    if (states == NULL) return call_memory(call);
    for (int d = 0; d < directions; d++) {
        struct cell c;
        TRY(unroll_direction(call, x, d, directions == 2 ? d == 1 : backward, hidden, states, &c));
        TRY(as_state(call, x, c.state, false, &last[0][d]));
        if (c.lstm) TRY(as_state(call, x, c.cell, false, &last[1][d]));
        for (int64_t t = 0; t < positions; t++) TRY(as_state(call, x, states[t], true, &states[t]));
        TRY(lower_concat_many(call, states, positions, position_axis, &all[d]));
    }
    TRY(lower_concat_views(call, all, directions, direction_axis[0], &out));
    call_give(call, 0, out);
    for (int i = 0; i < 2 && last[i][0] != NULL; i++) {
        TRY(lower_concat_views(call, last[i], directions, direction_axis[1], &out));
        call_give(call, 1 + i, out);
    }
    log_warn("%s: node '%.100s' (%s): %lld positions one by one, which is slow: the operator for the whole layer %s",
             call->l->path, call->node->name, call->node->op, (long long)positions, why);
    return call_memory(call);
}

/* Weights and biases are (directions, ..), first states (directions, N or 1, H), with layout 1 (N or 1, directions, H). */
static enum ps_status check_directions(const struct call *call, const struct view *x, int directions, int64_t hidden) {
    const int inside = onnx_int(call->node, "layout", 0) != 0;
    for (int i = 1; i < 7; i++) {
        struct view *v = NULL;
        if (i == 4 || !call_given(call, i)) continue;
        const struct tensor *constant = call_constant(call, i);
        if (constant == NULL) TRY(call_view(call, i, &v));
        const int rank = constant ? constant->rank : v->rank, at = i > 4 ? inside : 0;
        const int64_t *dims = constant ? constant->dims : v->dims, samples = x->dims[!inside];
        if (i > 4 && (rank != 3 || (dims[!inside] != samples && dims[!inside] != 1) || dims[2] != hidden))
            return error_set(
                call->error, PS_BAD_INPUT,
                "its first state does not fit: (directions, %lld or 1, %lld) is needed, with layout 1 the first two "
                "the other way round",
                (long long)samples, (long long)hidden);
        if (rank < 1 || dims[at] != directions)
            return error_set(call->error, PS_BAD_INPUT, "its input %d is for %lld directions: it has %d", i,
                             rank < 1 ? 0LL : (long long)dims[at], directions);
    }
    return PS_OK;
}

/* Does another node read the output, or is it the network's? */
static bool is_read(const struct call *call, int output) {
    const struct onnx_model *model = call->l->model;
    const int value = output < call->node->output_count ? call->node->outputs[output] : 0;
    bool found = false;
    for (int n = 0; n < model->node_count && value != 0 && !found; n++)
        for (int i = 0; i < model->nodes[n].input_count; i++) found |= model->nodes[n].inputs[i] == value;
    for (int o = 0; o < model->output_count && value != 0; o++) found |= model->outputs[o].value == value;
    return found;
}

enum ps_status lower_recurrent(const struct call *call) {
    const char *direction = onnx_string(call->node, "direction", "forward");
    const int directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    const bool backward = strcmp(direction, "reverse") == 0;
    const int64_t hidden = onnx_int(call->node, "hidden_size", 0);
    struct view *x, *all[2], *last[2], *out;
    TRY(call_view(call, 0, &x));
    if (x->rank != 3 || hidden < 1 || hidden > 1 << 24 || x->dims[2] > 1 << 24)
        return call_refuse(call, "its input and hidden size do not fit");
    if (onnx_int(call->node, "input_forget", 0) != 0 || call_given(call, 7))
        return call_refuse(call, "input_forget and peepholes are not known");
    if (call_given(call, 4)) return call_refuse(call, "sequences of several lengths are not known");
    if (!call_given(call, 1) || !call_given(call, 2)) return call_refuse(call, "weights are needed");
    TRY(check_directions(call, x, directions, hidden));
    enum ps_status status = PS_BAD_INPUT;
    if (call->row->function[0] == 'r') return unroll(call, x, directions, backward, hidden, "knows LSTM and GRU alone");
    if (is_read(call, 2)) return unroll(call, x, directions, backward, hidden, "does not give its last cells");
    if (has_own_operator(call)) status = recurrent_layers(call, x, directions, backward, hidden, all, last);
    if (status == PS_BAD_INPUT)
        return unroll(call, x, directions, backward, hidden, "wants weights, biases and first states as PyTorch exports them");
    TRY(status);
    TRY(lower_concat_views(call, all, directions, 1, &out));
    call_give(call, 0, out);
    TRY(lower_concat_views(call, last, directions, 0, &out));
    call_give(call, 1, out);
    return call_memory(call);
}
