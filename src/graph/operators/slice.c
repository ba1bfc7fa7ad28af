/*
 * Some positions of a sequence: reads first and count. T x D to count x D. A network that reads two sequences gets them behind
 * each other in one sample, and takes each with a slice.
 */
#include "graph/operators.h"

static enum ps_status infer(struct attributes *attributes, const struct shape *inputs, int input_count, struct shape *output,
                            struct ps_error *error) {
    (void)input_count;
    TRY(require_sequence(inputs, error));
    int64_t first = attributes->first, count = attributes->count;
    if (first < 0 || count < 1 || first + count > inputs->dim[1]) {
        return error_set(error, PS_USAGE, "%lld positions from position %lld on: its input has %lld", (long long)count,
                         (long long)first, (long long)inputs->dim[1]);
    }
    *output = (struct shape){.rank = 3, .type = inputs->type, .dim = {inputs->dim[0], count, 1}};
    return PS_OK;
}

const struct operator_type operator_slice = {
    .name = "slice",
    .attributes = {INTEGER(first, 0, SIDE_MAX, 0), INTEGER(count, 1, SIDE_MAX, REQUIRED)},
    .flags = OPERATOR_MOVES,
    .inputs_min = 1,
    .inputs_max = 1,
    .types = any_type,
    .infer = infer,
    .flops = no_flops,
};
