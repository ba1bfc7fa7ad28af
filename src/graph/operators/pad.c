/*
 * Puts elements around a value: reads before and after, how many along each dimension (a list may end early; negative ones take
 * elements away, of constant padding), mode and value. As PyTorch's and NumPy's pad: constant elements are `value`; reflect
 * mirrors at the first and last element, which are not repeated; edge repeats these; wrap goes on with the other end.
 */
#include "graph/operators.h"

static const char *const pad_modes[] = {"constant", "reflect", "edge", "wrap"};

static enum ps_status check_side(const struct attributes *a, int64_t size, int dim, struct ps_error *error) {
    int64_t before = a->before.at[dim], after = a->after.at[dim], most = before > after ? before : after;
    const char *mode = pad_modes[a->mode];
    bool constant = a->mode == PAD_CONSTANT;
    if (!constant && (before < 0 || after < 0))
        return error_set(error, PS_USAGE, "%s takes no elements away: %lld before and %lld after", mode, (long long)before,
                         (long long)after);
    if ((a->mode == PAD_REFLECT && most >= size) || (a->mode == PAD_WRAP && most > size))
        return error_set(error, PS_USAGE, "%s: %lld elements beside dimension %d of %lld", mode, (long long)most, dim,
                         (long long)size);
    if (size + before + after >= 1) return PS_OK;
    return error_set(error, PS_USAGE, "%lld before and %lld after leave nothing of dimension %d of %lld", (long long)before,
                     (long long)after, dim, (long long)size);
}

static enum ps_status infer(struct operation *op) {
    struct attributes *a = op->attributes;
    if (a->before.count > op->inputs->rank || a->after.count > op->inputs->rank) {
        char text[96];
        return error_set(op->error, PS_USAGE, "before and after have %d and %d numbers, and its input is %s", a->before.count,
                         a->after.count, shape_text(op->inputs, text));
    }
    if (shape_permuted(op->inputs))
        return error_set(op->error, PS_USAGE, "its input is a flattened image: pad before flattening");
    op->output = (struct shape){.rank = op->inputs->rank};
    for (int d = 0; d < op->inputs->rank; d++) {
        TRY(check_side(a, op->inputs->dim[d], d, op->error));
        op->output.dim[d] = op->inputs->dim[d] + a->before.at[d] + a->after.at[d];
    }
    return PS_OK;
}

const struct operator_type operator_pad = {
    .name = "pad",
    .attributes = {LIST(before, -SIDE_MAX, SIDE_MAX, 0), LIST(after, -SIDE_MAX, SIDE_MAX, 0),
                   CHOICE(mode, pad_modes, PAD_CONSTANT), NUMBER(value, -LARGEST, LARGEST, 0)},
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .infer = infer,
    .flops = no_flops,
};
