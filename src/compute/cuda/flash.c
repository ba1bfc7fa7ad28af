/* See flash.h. Inner memory: a float for each query and head, then the output once more, which the backward needs. */
#include "compute/cuda/flash.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"

enum { ROWS_OF_BLOCK = 128, EACH_MOST = 64, EIGHT = 8 }; /* as the source has it; rows of 16 bytes are read at once */

bool flash_serves(const struct kernel *kernel, const struct attention_shape *s) {
    const struct attributes *a = &kernel->node->attributes;
    const int64_t each = s->each[ATTENTION_KEY];
    bool serves = cuda_stand_in == NULL && cuda_device_of(kernel)->gpu->major >= 8 && a->cap == 0 && !s->added &&
                  s->heads == s->key_heads && s->heads == s->all_heads && each == s->each[ATTENTION_VALUE] && each % 16 == 0 &&
                  each <= EACH_MOST && kernel->node->shape.type == TYPE_BF16;
    for (int part = 0; part < ATTENTION_PARTS; part++) {
        const int input = attention_input(s, (enum attention_part)part);
        serves = serves && kernel_input(kernel, input)->type == TYPE_BF16 && s->stride[part] % EIGHT == 0 &&
                 s->offset[part] % EIGHT == 0;
    }
    if (s->mask >= 0) serves = serves && s->mask_heads == 1 && s->mask_queries == 1;
    return serves && (a->rate == 0 || s->keys % 4 == 0);
}

static int64_t sums_bytes(const struct attention_shape *s) {
    return (int64_t)memory_align((size_t)(s->samples * s->heads * s->queries) * sizeof(float));
}

enum ps_status flash_prepare(struct kernel *kernel, const struct attention_shape *s, const struct cuda_module **module,
                             struct ps_error *error) {
    const struct attributes *a = &kernel->node->attributes;
    const float scale = a->scale > 0 ? a->scale : 1 / sqrtf((float)s->each[ATTENTION_KEY]);
    struct text defines = {0};
    text_add(&defines,
             "#define CALL_INPUTS %d\n#define E %lld\n#define HEADS %lld\n#define SAMPLES %lld\n#define QUERIES %lld\n"
             "#define KEYS %lld\n#define CAUSAL %d\n#define RATE %af\n#define SCALE %af\n",
             kernel->node->input_count, (long long)s->each[ATTENTION_KEY], (long long)s->heads, (long long)s->samples,
             (long long)s->queries, (long long)s->keys, s->causal, (double)a->rate, (double)scale);
    for (int part = 0; part < ATTENTION_PARTS; part++)
        text_add(&defines, "#define PITCH_%c %lld\n#define OFFSET_%c %lld\n#define INPUT_%c %d\n", "QKV"[part],
                 (long long)s -> stride[part], "QKV"[part], (long long)s -> offset[part], "QKV"[part],
                 attention_input(s, (enum attention_part)part));
    text_add(&defines, "#define MASKED %d\n#define MASK_INPUT %d\n", s->mask >= 0, s->mask);
    char *lines = text_take(&defines);
    TRY(memory_check(lines, "a kernel's source", error));
    enum ps_status status = cuda_compile(cuda_device_of(kernel), "flash", lines, module, error);
    free(lines);
    kernel->inner_bytes = sums_bytes(s) + kernel->samples * shape_bytes(&kernel->node->shape);
    kernel->workspace_bytes = sums_bytes(s);
    return status;
}

static enum ps_status launch(struct kernel *kernel, const struct attention_shape *s, const struct cuda_module *module,
                             const struct kernel_call *call, const char *name, int64_t rows) {
    struct call argument = cuda_call_of(kernel, call);
    argument.more[0] = call->inner;
    argument.more[1] = (char *)call->inner + sums_bytes(s);
    argument.more[2] = call->workspace;
    argument.count = (rows + ROWS_OF_BLOCK - 1) / ROWS_OF_BLOCK * s->heads * s->samples;
    return cuda_launch(cuda_device_of(kernel), cuda_function(module, name), argument.count, CUDA_BLOCK, &argument, call->error);
}

enum ps_status flash_forward(struct kernel *kernel, const struct attention_shape *s, const struct cuda_module *module,
                             const struct kernel_call *call) {
    return launch(kernel, s, module, call, "flash_forward", s->queries);
}

enum ps_status flash_backward(struct kernel *kernel, const struct attention_shape *s, const struct cuda_module *module,
                              const struct kernel_call *call) {
    TRY(launch(kernel, s, module, call, "flash_backward_queries", s->queries));
    return launch(kernel, s, module, call, "flash_backward_keys", s->keys);
}
