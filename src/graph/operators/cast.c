/*
 * The same numbers in another type: reads `type`. f32 is rounded to bf16 to nearest even; bf16 becomes f32 without loss. The
 * gradient is cast back. It is a layer of its own, so that a cut can carry the narrower type.
 */
#include "graph/operators.h"

static const unsigned accepted = 1u << TYPE_F32 | 1u << TYPE_BF16;

static unsigned types(int input, int input_count) {
    (void)input, (void)input_count;
    return accepted;
}

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    if (!(accepted >> attributes->type & 1))
        return error_set(error, PS_USAGE, "a cast to %s: f32 and bf16 are accepted", number_types[attributes->type].name);
    *output = inputs[0];
    output->type = attributes->type;
    return PS_OK;
}

const struct operator_type operator_cast = {
    .name = "cast",
    .attributes = {TYPE(type)},
    .flags = OPERATOR_STARTS_LAYER,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = types,
    .infer = infer,
};
