/* Places that depend on the data: which is the largest, what stands in a place, and a place as ones and zeros. */
#include "onnx/lower_calls.h"

/* The numbers first, first + 1, .. along the axis, of so many dimensions. */
static enum ps_status numbers_along(const struct call *call, int type, int rank, int axis, int64_t count, int64_t first,
                                    struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    struct tensor *numbers;
    for (int d = 0; d < rank; d++) dims[d] = d == axis ? count : 1;
    TRY(fold_take(&call->l->fold, type, rank, dims, &numbers));
    for (int64_t i = 0; i < count; i++) {
        if (numbers->reals != NULL) numbers->reals[i] = (double)(first + i);
        if (numbers->whole != NULL) numbers->whole[i] = first + i;
    }
    *out = constant_view(call->l, numbers);
    return call_memory(call);
}

static enum ps_status one_number(const struct call *call, int rank, double number, struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    struct tensor *made;
    for (int d = 0; d < rank; d++) dims[d] = 1;
    TRY(fold_take(&call->l->fold, ONNX_FLOAT, rank, dims, &made));
    made->reals[0] = number;
    *out = constant_view(call->l, made);
    return call_memory(call);
}

static enum ps_status cast(const struct call *call, struct view *x, int type, struct view **out) {
    struct step *step = call_same(call, STEP_CAST, x);
    if (step == NULL) return call_memory(call);
    step->onnx_type = type;
    *out = view_new(call->l, &step->output);
    return call_memory(call);
}

static enum ps_status choose(const struct call *call, const struct view *condition, const struct view *a, const struct view *b,
                             struct view **out) {
    return lower_aligned_step(call, STEP_CHOICE, NULL, ONNX_FLOAT, 3, (const struct view *[]){condition, a, b}, out);
}

/* Is the place, which may count from the end, the position along the axis? */
static enum ps_status is_at(const struct call *call, const struct view *place, int axis, int64_t count, struct view **out) {
    struct view *positions, *from_end, *there;
    TRY(numbers_along(call, ONNX_INT64, place->rank, axis, count, 0, &positions));
    TRY(numbers_along(call, ONNX_INT64, place->rank, axis, count, -count, &from_end));
    TRY(lower_aligned_step(call, STEP_COMPARE, "equal", ONNX_BOOL, 2, (const struct view *[]){place, positions}, &there));
    TRY(lower_aligned_step(call, STEP_COMPARE, "equal", ONNX_BOOL, 2, (const struct view *[]){place, from_end}, out));
    return lower_aligned_step(call, STEP_LOGICAL, "or", ONNX_BOOL, 2, (const struct view *[]){there, *out}, out);
}

/* The value with a dimension of 1 before dimension d. */
static enum ps_status with_dimension(const struct call *call, const struct view *x, int d, struct view **out) {
    int64_t dims[ONNX_RANK_MAX];
    struct view made;
    if (x->rank == ONNX_RANK_MAX) return call_refuse(call, "its input has too many dimensions");
    for (int k = 0; k <= x->rank; k++) dims[k] = k == d ? 1 : x->dims[k - (k > d)];
    TRY(view_reshape(call->l, x, x->rank + 1, dims, &made));
    *out = view_new(call->l, &made);
    return call_memory(call);
}

/* The first place, or the last, of the largest or the least number. */
enum ps_status lower_arg(const struct call *call) {
    const bool last = onnx_int(call->node, "select_last_index", 0) != 0;
    struct view *x, *extreme, *there, *positions, *far, *place;
    bool marks[ONNX_RANK_MAX] = {0};
    int axis;
    TRY(call_view(call, 0, &x));
    TRY(fold_axis(onnx_int(call->node, "axis", 0), x->rank, &axis, call->error));
    if (x->dims[axis] < 1) return call_refuse(call, "its input has no elements");
    marks[axis] = true;
    if (!onnx_is_float(call_type(call, 0))) TRY(cast(call, x, ONNX_FLOAT, &x));
    TRY(lower_reduce_step(call, x, marks, call->row->function, true, &extreme));
    TRY(lower_aligned_step(call, STEP_COMPARE, "equal", ONNX_BOOL, 2, (const struct view *[]){x, extreme}, &there));
    TRY(numbers_along(call, ONNX_FLOAT, x->rank, axis, x->dims[axis], 0, &positions));
    TRY(one_number(call, x->rank, last ? -1 : (double)x->dims[axis], &far));
    TRY(choose(call, there, positions, far, &place));
    TRY(lower_reduce_step(call, place, marks, last ? "max" : "min", onnx_int(call->node, "keepdims", 1) != 0, &place));
    TRY(cast(call, place, ONNX_INT64, &place));
    call_give(call, 0, place);
    return PS_OK;
}

/* What stands in each place along the axis: of all that stand along it, the others as 0, the sum. */
enum ps_status lower_pick(const struct call *call, struct view *x, struct view *places, int axis, struct view **picked) {
    const bool whole = !onnx_is_float(call_type(call, 0));
    const int64_t count = x->dims[axis];
    struct view *there, *zero, *out;
    bool marks[ONNX_RANK_MAX] = {0}, fits = places->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++) fits = d == axis || places->dims[d] == x->dims[d] || places->dims[d] == 1;
    if (!fits) return call_refuse(call, "its places must be those of all positions of the other dimensions");
    if (count < 1) return call_refuse(call, "nothing stands in its places");
    if ((double)view_elements(x) * (double)places->dims[axis] > 0x1p28)
        return call_refuse(call, "it would compare more than 2^28 places");
    if (whole) TRY(cast(call, x, ONNX_FLOAT, &x));
    TRY(with_dimension(call, x, axis, &x));
    TRY(with_dimension(call, places, axis + 1, &places));
    TRY(is_at(call, places, axis + 1, count, &there));
    TRY(one_number(call, x->rank, 0, &zero));
    TRY(choose(call, there, x, zero, &out));
    marks[axis + 1] = true;
    TRY(lower_reduce_step(call, out, marks, "sum", false, &out));
    if (whole) TRY(cast(call, out, call_type(call, 0), &out));
    *picked = out;
    return PS_OK;
}

/* A number for the place, another for all others, along a new dimension. */
enum ps_status lower_one_hot(const struct call *call) {
    const struct tensor *depth = call_constant(call, 1), *values = call_constant(call, 2);
    struct view *place, *there, *on, *off, *out;
    int axis;
    TRY(call_view(call, 0, &place));
    if (depth == NULL || depth->elements != 1 || values == NULL || values->elements != 2)
        return call_refuse(call, "its depth and values must be constants, of one number and of two");
    const double count = depth->reals != NULL ? depth->reals[0] : (double)depth->whole[0];
    if (!(count >= 1 && count <= 1 << 24)) return call_refuse(call, "its depth does not fit");
    TRY(fold_axis(onnx_int(call->node, "axis", -1), place->rank + 1, &axis, call->error));
    if (onnx_is_float(call_type(call, 0))) TRY(cast(call, place, ONNX_INT64, &place));
    TRY(with_dimension(call, place, axis, &place));
    TRY(is_at(call, place, axis, (int64_t)count, &there));
    TRY(one_number(call, place->rank, values->reals != NULL ? values->reals[0] : (double)values->whole[0], &off));
    TRY(one_number(call, place->rank, values->reals != NULL ? values->reals[1] : (double)values->whole[1], &on));
    TRY(choose(call, there, on, off, &out));
    if (!onnx_is_float(values->type)) TRY(cast(call, out, values->type, &out));
    call_give(call, 0, out);
    return PS_OK;
}
