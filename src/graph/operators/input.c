/*
 * The data. Reads `type`, `channels`, and the image's height and width from kernel_h and kernel_w; without them the data are
 * vectors of `channels` features; with value_bytes alone it is the data of a network of opaque nodes.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)inputs, (void)input_count;
    const struct attributes *a = attributes;
    if (a->channels == 0 && a->kernel_h == 0 && a->kernel_w == 0 && a->value_bytes >= 0) {
        *output = (struct shape){.rank = 1, .dim = {(a->value_bytes + 3) / 4}};
        return PS_OK;
    }
    if (a->type != TYPE_F32 && a->type != TYPE_I32)
        return error_set(error, PS_USAGE, "data of the type %s: f32 and i32 are accepted", number_types[a->type].name);
    if (a->channels < 1 || a->kernel_h < 0 || a->kernel_w < 0 || (a->kernel_h == 0) != (a->kernel_w == 0)) {
        return error_set(error, PS_USAGE, "data of %dx%dx%d: every side must be positive", a->channels, a->kernel_h,
                         a->kernel_w);
    }
    *output = a->kernel_h > 0 ? (struct shape){.rank = 3, .type = a->type, .dim = {a->channels, a->kernel_h, a->kernel_w}}
                              : (struct shape){.rank = 1, .type = a->type, .dim = {a->channels}};
    return PS_OK;
}

const struct operator_type operator_input = {.name = "input", .infer = infer, .flops = no_flops};
