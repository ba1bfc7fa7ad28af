/* See places.h. */
#include "compute/cuda/places.h"

void cuda_define_place(struct text *out, const char *name, const struct broadcast *b, int operand) {
    int64_t below = 1;
    text_add(out, "#define %s(i) (0", name);
    for (int d = b->rank - 1; d >= 0; below *= b->side[d--]) {
        if (b->stride[operand][d] == 0) continue;
        text_add(out, " + (i)");
        if (below > 1) text_add(out, " / %lld", (long long)below);
        if (d > 0) text_add(out, " %% %lld", (long long)b->side[d]);
        if (b->stride[operand][d] != 1) text_add(out, " * %lld", (long long)b->stride[operand][d]);
    }
    text_add(out, ")\n");
}

void cuda_define_number(struct text *out, const char *name, int64_t number) {
    text_add(out, "#define %s (%lld)\n", name, (long long)number);
}

void cuda_define_index(struct text *out, int64_t limit) {
    text_add(out, "#define INDEX unsigned%s\n", limit < INT32_MAX ? "" : " long long");
}

const char *cuda_moved_type(enum number_type type) { return number_types[type == TYPE_I32 ? TYPE_F32 : type].name; }

void cuda_define_inputs(struct text *out, const struct kernel *kernel, bool moves,
                        void (*more)(const struct kernel *kernel, int input, struct text *out)) {
    text_add(out, "#define EACH_INPUT(X)");
    for (int i = 0; i < kernel->node->input_count; i++) {
        const enum number_type type = kernel_input(kernel, i)->type;
        text_add(out, " X(%d, %s", i, moves ? cuda_moved_type(type) : number_types[type].name);
        if (more) more(kernel, i, out);
        text_add(out, ")");
    }
    text_add(out, "\n");
}
