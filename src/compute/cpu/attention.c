/*
 * Attention (graph/operators/attention.c; formulas in compute/reference/attention.c). The products are oneDNN's, all samples
 * and heads in one call, on queries, keys and values where they lie: heads are strides. Between them, softmax and its
 * derivative are loops over rows.
 *
 * In bf16 the products are oneDNN's, too, some heads at a time, so that their scores stay in the cache: these and the gradients
 * of p are f32; p, d and ds are rounded for the products that read them. Only p is kept, in bf16. oneDNN's fast products want
 * the heads of a part to fill their rows, so where these have other features, too, the heads are copied.
 *
 * Inner: the weights p (N, heads, Tq, Tk); with a cap as much again, for the scores as fractions of it. Workspace: as much for
 * the scores' gradients; with dropout as much again for the dropped weights d; where heads share keys, the gradients of keys or
 * values for each head of the queries (N, heads, Tk, E or V); and then oneDNN's. Since d dp' = p dp, where dp is dp' with the
 * same dropout, the scores' gradients need no random numbers: ds = d dp' - p sum(d dp').
 */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "compute/attention.h"
#include "compute/cpu/activation.h"
#include "compute/cpu/cpu.h"

enum product { SCORES, OUTPUT, VALUE_GRADIENT, WEIGHT_GRADIENT, QUERY_GRADIENT, KEY_GRADIENT, PRODUCTS };

struct attention {
    struct kernel kernel;
    struct attention_shape shape, part; /* of all, and of the samples and heads of one call of the products */
    bool narrow;                        /* in bf16 */
    struct primitive products[PRODUCTS];
};

static void release(struct kernel *kernel) {
    struct attention *attention = (struct attention *)kernel;
    for (int p = 0; p < PRODUCTS; p++) primitive_release(&attention->products[p]);
}

/* An array of a product: rows x columns for every sample and head. Where heads of queries share those of keys and values, the
 * heads are two dimensions, of which the second has one element in the arrays of keys and values. */
struct stack {
    int64_t rows, columns;
    int64_t sample, head, row, column; /* strides in floats */
    bool shared;                       /* of keys and values */
};

static const struct layout *stack_layout(struct draft *draft, const struct attention_shape *s, struct stack a,
                                         bool transposed) {
    int64_t group = s->heads / s->key_heads;
    if (transposed) {
        int64_t rows = a.rows, row = a.row;
        a.rows = a.columns, a.columns = rows;
        a.row = a.column, a.column = row;
    }
    if (group == 1) {
        int64_t dims[] = {s->samples, s->heads, a.rows, a.columns}, strides[] = {a.sample, a.head, a.row, a.column};
        return draft_layout_strided(draft, 4, dims, strides);
    }
    int64_t dims[] = {s->samples, s->key_heads, a.shared ? 1 : group, a.rows, a.columns};
    int64_t strides[] = {a.sample, a.shared ? a.head : group * a.head, a.head, a.row, a.column};
    return draft_layout_strided(draft, 5, dims, strides);
}

/* Rows of the positions of a part, whose heads lie side by side. */
static struct stack part_stack(const struct attention_shape *s, enum attention_part part) {
    int64_t positions = part == ATTENTION_QUERY ? s->queries : s->keys, stride = s->stride[part], each = s->each[part];
    return (struct stack){positions, each, positions * stride, each, stride, 1, part != ATTENTION_QUERY};
}

/* Where the gradient of keys or values is computed: with shared heads for each head of the queries in the workspace. */
static struct stack gradient_stack(const struct attention_shape *s, enum attention_part part) {
    int64_t matrix = s->keys * s->each[part];
    if (s->heads == s->key_heads) return part_stack(s, part);
    return (struct stack){s->keys, s->each[part], s->heads * matrix, matrix, s->each[part], 1, false};
}

static void make(struct draft *draft, struct attention *attention) {
    const struct attention_shape *s = &attention->part;
    int64_t all = s->queries * s->keys, each = s->each[ATTENTION_VALUE];
    struct stack query = part_stack(s, ATTENTION_QUERY), key = part_stack(s, ATTENTION_KEY),
                 value = part_stack(s, ATTENTION_VALUE), score = {s->queries, s->keys, s->heads * all, all, s->keys, 1, false},
                 result = {s->queries, each, s->queries * s->features, each, s->features, 1, false};
    const struct layout *sums = stack_layout(draft, s, score, false); /* products of f32 */
    draft->type = attention->narrow ? TYPE_BF16 : TYPE_F32;
    const struct layout *queries = stack_layout(draft, s, query, false), *keys = stack_layout(draft, s, key, false),
                        *keys_turned = stack_layout(draft, s, key, true), *values = stack_layout(draft, s, value, false),
                        *values_turned = stack_layout(draft, s, value, true), *scores = stack_layout(draft, s, score, false),
                        *scores_turned = stack_layout(draft, s, score, true), *output = stack_layout(draft, s, result, false),
                        *key_gradient = stack_layout(draft, s, gradient_stack(s, ATTENTION_KEY), false),
                        *value_gradient = stack_layout(draft, s, gradient_stack(s, ATTENTION_VALUE), false);
    const struct {
        const struct layout *left, *right, *product;
        const char *part;
    } products[PRODUCTS] = {
        [SCORES] = {queries, keys_turned, sums, "scores"},
        [OUTPUT] = {scores, values, output, "output"},
        [VALUE_GRADIENT] = {scores_turned, output, value_gradient, "gradient of the values"},
        [WEIGHT_GRADIENT] = {output, values_turned, sums, "gradient of the weights"},
        [QUERY_GRADIENT] = {scores, keys, queries, "gradient of the queries"},
        [KEY_GRADIENT] = {scores_turned, queries, key_gradient, "gradient of the keys"},
    };
    for (int p = 0; p < PRODUCTS; p++) {
        dnnl_primitive_desc_t plan = draft_product(draft, products[p].left, products[p].right, products[p].product);
        draft_primitive(draft, plan, products[p].part, (int[]){DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, 0},
                        &attention->products[p]);
    }
}

static size_t score_bytes(const struct attention_shape *s) { return (size_t)attention_scores(s) * sizeof(float); }

/* Of a part: scores or their gradients in f32; weights, or gradients, for products. */
static float *part_scores(const struct kernel_call *call) { return call->workspace; }
static uint16_t *part_rounded(const struct attention *attention, const struct kernel_call *call) {
    return (uint16_t *)(void *)(part_scores(call) + memory_align(score_bytes(&attention->part)) / sizeof(float));
}
/* Copies of a part's heads for a product; 0 bytes where the heads fill the rows of all values. */
enum { LEFT, RIGHT, RESULT, COPIES };
static size_t copy_bytes(const struct attention *attention) {
    const struct attention_shape *s = &attention->part, *all = &attention->shape;
    const int64_t positions = s->queries > s->keys ? s->queries : s->keys, key = s->each[ATTENTION_KEY],
                  value = s->each[ATTENTION_VALUE], most = key > value ? key : value;
    if (s->features == all->features && memcmp(s->stride, all->stride, sizeof s->stride) == 0) return 0;
    return memory_align((size_t)(s->samples * positions * s->heads * most) * sizeof(uint16_t));
}

static uint16_t *part_copy(const struct attention *attention, const struct kernel_call *call, int copy) {
    const size_t before = 2 * memory_align(score_bytes(&attention->part)) + (size_t)copy * copy_bytes(attention);
    return (uint16_t *)(void *)((char *)call->workspace + before);
}

static size_t part_workspace(const struct attention *attention) {
    return 2 * memory_align(score_bytes(&attention->part)) + COPIES * copy_bytes(attention);
}

/* The parts of the workspace before oneDNN's: the scores' gradients, the dropped weights, the gradients of shared heads. */
static size_t shared_start(const struct attention *attention) {
    size_t arrays = attention->kernel.node->attributes.rate > 0 ? 2 : 1;
    return arrays * memory_align(score_bytes(&attention->shape));
}

static size_t own_workspace(const struct attention *attention) {
    const struct attention_shape *s = &attention->shape;
    if (attention->narrow) return part_workspace(attention);
    int64_t key = s->each[ATTENTION_KEY], value = s->each[ATTENTION_VALUE], most = key > value ? key : value;
    int64_t shared = s->heads > s->key_heads ? s->samples * s->heads * s->keys * most : 0;
    return shared_start(attention) + memory_align((size_t)shared * sizeof(float));
}

/* The most of so many things that divides them and stays within a limit; at least 1. */
static int64_t largest_part(int64_t count, int64_t limit) {
    int64_t part = limit < 1 ? 1 : limit < count ? limit : count;
    while (count % part != 0) part--;
    return part;
}

/* Samples, or heads of one, whose scores fit into half a megabyte; all heads also where those fit into a whole one, since the
 * rows of some have to be copied. Rows of a part have its heads alone. */
static struct attention_shape narrow_part(const struct attention_shape *s) {
    enum { PART_FLOATS = 1 << 17 };
    struct attention_shape part = *s;
    const int64_t head = s->queries * s->keys;
    part.samples = largest_part(s->samples, PART_FLOATS / (head * s->heads));
    if (head * s->heads > 2 * PART_FLOATS) part.heads = part.key_heads = largest_part(s->heads, PART_FLOATS / head);
    for (int p = 0; p < ATTENTION_PARTS; p++) part.stride[p] = part.heads * part.each[p];
    part.features = part.stride[ATTENTION_VALUE];
    return part;
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct attention *attention = (struct attention *)kernel;
    attention->narrow = kernel->node->shape.type == TYPE_BF16;
    attention->shape = attention->part = attention_shape(kernel);
    if (attention->narrow) attention->part = narrow_part(&attention->shape);
    struct draft draft;
    draft_start(&draft, kernel->device, kernel->node);
    make(&draft, attention);
    const int64_t scores = (int64_t)score_bytes(&attention->shape);
    kernel->inner_bytes = attention->narrow ? scores / 2 : scores * (kernel->node->attributes.cap > 0 ? 2 : 1);
    kernel->workspace_bytes = (int64_t)own_workspace(attention) + largest_scratchpad(attention->products, PRODUCTS);
    return draft_finish(&draft, error);
}

static enum ps_status multiply(const struct attention *attention, enum product product, const struct kernel_call *call,
                               const void *left, const void *right, void *result) {
    struct primitive *primitive = (struct primitive *)&attention->products[product];
    void *scratchpad = (char *)call->workspace + own_workspace(attention);
    const void *addresses[] = {left, right, result};
    return primitive_run(primitive, cpu_of(&attention->kernel), addresses, scratchpad, call->error);
}

/* --------------------------------------------------------------------- rows */

struct rows {
    const struct attention *attention;
    const struct kernel_call *call;
    float *scores;        /* gradients, in the backward */
    const float *weights; /* backward: dropped */
    float scale;
    size_t first;              /* row where scores, weights and what follows begin */
    const uint16_t *inner, *d; /* in bf16, backward: p and the dropped weights */
    uint16_t *rounded;         /* in bf16: what becomes of the scores */
};

static struct rows rows_of(const struct attention *attention, const struct kernel_call *call, float *scores,
                           const float *weights) {
    float scale = attention->kernel.node->attributes.scale;
    if (scale == 0) scale = 1 / sqrtf((float)attention->shape.each[ATTENTION_KEY]);
    return (struct rows){.attention = attention, .call = call, .scores = scores, .weights = weights, .scale = scale};
}

/* Fractions of the cap, which the backward reads. */
static float *fractions_of(const struct rows *r) { return r->call->inner + attention_scores(&r->attention->shape); }

static size_t row_count(const struct attention_shape *s) { return (size_t)(s->samples * s->heads * s->queries); }

static VECTOR_CLONES float largest_of(size_t count, const float *x) {
    float largest = x[0];
#pragma omp simd reduction(max : largest)
    for (size_t i = 0; i < count; i++) largest = x[i] > largest ? x[i] : largest;
    return largest;
}

static VECTOR_CLONES void exponentials(size_t count, float *x, float largest, float scale) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] = activation_exp((x[i] - largest) * scale);
}

static VECTOR_CLONES void bound(size_t count, float *x, float *fractions, float scale, float cap) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        fractions[i] = activation_tanh(x[i] * scale / cap);
        x[i] = cap * fractions[i];
    }
}

static VECTOR_CLONES void add_mask(size_t count, float *x, const float *mask, float scale) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] = x[i] * scale + mask[i];
}

/* What is not seen is set to `value`. */
static VECTOR_CLONES void hide(size_t count, float *x, const int32_t *seen, const float *added, float value) {
    for (size_t i = 0; i < count && seen != NULL; i++) x[i] = seen[i] != 0 ? x[i] : value;
    for (size_t i = 0; i < count && added != NULL; i++) x[i] = added[i] > -INFINITY ? x[i] : value;
}

static void softmax_part(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    const struct attention_shape *s = &r->attention->shape;
    size_t keys = (size_t)s->keys, queries = (size_t)s->queries;
    const float cap = r->attention->kernel.node->attributes.cap, *mask = s->mask >= 0 ? r->call->input[s->mask] : NULL;
    for (size_t row = r->first + first; row < r->first + end; row++) {
        float *x = r->scores + (row - r->first) * keys, scale = r->scale;
        size_t seen = s->causal ? row % queries + 1 : keys;
        int64_t at = mask != NULL ? attention_mask_offset(s, (int64_t)row) : 0;
        const float *added = s->added ? mask + at : NULL;
        const int32_t *tokens = mask != NULL && !s->added ? token_numbers(mask) + at : NULL;
        if (cap > 0) bound(seen, x, fractions_of(r) + row * keys, scale, cap);
        if (cap > 0) scale = 1;
        if (added != NULL) add_mask(seen, x, added, scale);
        if (added != NULL) scale = 1;
        hide(seen, x, tokens, NULL, -INFINITY);
        float largest = largest_of(seen, x);
        exponentials(seen, x, largest > -INFINITY ? largest : 0, scale); /* -INFINITY: none is seen */
        hide(seen, x, tokens, added, 0);
        float sum = vector_sum(seen, x);
        vector_scale(seen, x, sum > 0 ? 1 / sum : 0);
        for (size_t i = seen; i < keys; i++) x[i] = 0;
        if (r->rounded != NULL) numbers_convert(keys, TYPE_BF16, r->rounded + (row - r->first) * keys, TYPE_F32, x);
    }
}

static VECTOR_CLONES void score_gradients(size_t count, float *dp, const float *d, const float *p, float mean, float scale) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) dp[i] = (d[i] * dp[i] - p[i] * mean) * scale;
}

static void gradient_part(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    size_t keys = (size_t)r->attention->shape.keys;
    for (size_t row = first; row < end; row++) {
        float *dp = r->scores + row * keys;
        const float *d = r->weights + row * keys;
        score_gradients(keys, dp, d, r->call->inner + row * keys, vector_dot(keys, d, dp), r->scale);
    }
}

/* The same from and to bf16; rows count from the part's first. */
static void narrow_gradient_part(const void *context, size_t first, size_t end) {
    enum { PIECE = 512 };
    const struct rows *r = context;
    const size_t keys = (size_t)r->attention->shape.keys;
    float d[PIECE], p[PIECE];
    for (size_t at = first * keys; at < end * keys; at += keys) {
        float mean = 0;
        for (size_t i = 0; i < keys; i += PIECE) {
            const size_t count = keys - i < PIECE ? keys - i : PIECE;
            numbers_convert(count, TYPE_F32, d, TYPE_BF16, r->d + at + i);
            mean += vector_dot(count, d, r->scores + at + i);
        }
        for (size_t i = 0; i < keys; i += PIECE) {
            const size_t count = keys - i < PIECE ? keys - i : PIECE;
            numbers_convert(count, TYPE_F32, d, TYPE_BF16, r->d + at + i);
            numbers_convert(count, TYPE_F32, p, TYPE_BF16, r->inner + at + i);
            score_gradients(count, r->scores + at + i, d, p, mean, r->scale);
            numbers_convert(count, TYPE_BF16, r->rounded + at + i, TYPE_F32, r->scores + at + i);
        }
    }
}

/* ----------------------------------------------------- what only some have */

/* The mask's gradient: the sum over the rows of scores that it was added to. `first` and `end` count samples. */
static void mask_part(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    const struct attention_shape *s = &r->attention->shape;
    size_t rows = (size_t)(s->heads * s->queries), keys = (size_t)s->keys;
    size_t sample = (size_t)(s->mask_heads * s->mask_queries) * keys;
    float *gradient = r->call->input_gradient[s->mask];
    memset(gradient + first * sample, 0, (end - first) * sample * sizeof *gradient);
    for (size_t row = first * rows; row < end * rows; row++)
        vector_add(keys, gradient + attention_mask_offset(s, (int64_t)row), r->scores + row * keys);
}

static VECTOR_CLONES void bound_gradients(size_t count, float *ds, const float *fractions, float scale) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) ds[i] *= scale * (1 - fractions[i] * fractions[i]);
}

static void bound_part(const void *context, size_t first, size_t end) {
    const struct rows *r = context;
    const struct attention_shape *s = &r->attention->shape;
    size_t keys = (size_t)s->keys, queries = (size_t)s->queries;
    for (size_t row = first; row < end; row++) {
        size_t seen = s->causal ? row % queries + 1 : keys; /* the other fractions were not written */
        bound_gradients(seen, r->scores + row * keys, fractions_of(r) + row * keys, r->scale);
    }
}

/* The scores' gradients, from those of the weights; on the way the mask's. */
static void finish_scores(struct rows *rows) {
    const struct attention *attention = rows->attention;
    const struct attention_shape *s = &attention->shape;
    const struct device *device = attention->kernel.device;
    float scale = rows->scale, cap = attention->kernel.node->attributes.cap;
    bool masked = s->added && rows->call->input_gradient[s->mask] != NULL, after = masked || cap > 0;
    if (after) rows->scale = 1;
    device_parallel(device, row_count(s), 8, gradient_part, rows);
    if (masked) device_parallel(device, (size_t)s->samples, 1, mask_part, rows);
    rows->scale = scale;
    if (cap > 0) device_parallel(device, row_count(s), 8, bound_part, rows);
    if (after && cap == 0) vector_scale((size_t)attention_scores(s), rows->scores, scale);
}

/* Gradients of keys or values for each head of the queries, and where those of shared heads are added up. */
struct sharing {
    const struct attention_shape *shape;
    enum attention_part part;
    const float *from;
    float *to;
};

static void share_part(const void *context, size_t first, size_t end) {
    const struct sharing *sharing = context;
    const struct attention_shape *s = sharing->shape;
    int64_t each = s->each[sharing->part], group = s->heads / s->key_heads;
    for (int64_t i = (int64_t)first; i < (int64_t)end; i++) { /* samples and positions */
        int64_t n = i / s->keys, position = i % s->keys;
        for (int64_t head = 0; head < s->heads; head++) {
            const float *from = sharing->from + ((n * s->heads + head) * s->keys + position) * each;
            float *to = sharing->to + i * s->stride[sharing->part] + head / group * each;
            if (head % group == 0) memset(to, 0, (size_t)each * sizeof *to);
            vector_add((size_t)each, to, from);
        }
    }
}

/* ------------------------------------------------------------------- in f32 */

static const float *input_of(const struct attention_shape *s, const struct kernel_call *call, enum attention_part part) {
    return attention_row(s, call->input, part, 0, 0, 0);
}

/* Dropout of the weights of so many samples, which begin at this row. Random numbers are counted over all heads of a sample. */
static void drop(const struct attention *attention, const struct kernel_call *call, int64_t row, int64_t samples, int64_t count,
                 enum number_type type, const void *from, void *to) {
    const struct attention_shape *s = &attention->shape;
    const float rate = attention->kernel.node->attributes.rate;
    const int64_t runs = s->heads < s->all_heads ? samples : 1, each = count / runs;
    const size_t bytes = (size_t)each * number_types[type].bytes;
    for (int64_t n = 0; n < runs; n++)
        cpu_drop(attention->kernel.device, call->key, rate, (size_t)attention_place(s, row + n * s->heads * s->queries),
                 (size_t)each, type, (const char *)from + (size_t)n * bytes, (char *)to + (size_t)n * bytes);
}

/* The weights by which the values are multiplied: with dropout those in the workspace after the scores' gradients. */
static const float *drop_weights(const struct attention *attention, const struct kernel_call *call) {
    float rate = attention->kernel.node->attributes.rate;
    if (!call->training || rate == 0) return call->inner;
    float *dropped = (float *)((char *)call->workspace + memory_align(score_bytes(&attention->shape)));
    drop(attention, call, 0, attention->shape.samples, attention_scores(&attention->shape), TYPE_F32, call->inner, dropped);
    return dropped;
}

/* ------------------------------------------------------------------ in bf16 */

/* Not with a cap, with numbers that are added to the scores, or with heads that share keys: these compute in f32. */
static bool native(const struct kernel *kernel) {
    const struct attention_shape s = attention_shape(kernel);
    bool narrow = kernel->node->shape.type == TYPE_BF16 && cpu_multiplies_bf16();
    for (int i = 0; i < (s.packed ? 1 : 3); i++) narrow = narrow && kernel_input(kernel, i)->type == TYPE_BF16;
    const bool numbers = s.mask >= 0 && kernel_input(kernel, s.mask)->type != TYPE_I32;
    return narrow && !numbers && kernel->node->attributes.cap == 0 && s.heads == s.key_heads;
}

/* A part: its first sample and head, and their first score. */
struct part {
    int64_t sample, head;
    size_t score;
};

static enum ps_status for_parts(const struct attention *attention, const struct kernel_call *call,
                                enum ps_status (*run)(const struct attention *, const struct kernel_call *, struct part)) {
    const struct attention_shape *s = &attention->shape, *part = &attention->part;
    for (int64_t n = 0; n < s->samples; n += part->samples)
        for (int64_t head = 0; head < s->heads; head += part->heads)
            TRY(run(attention, call, (struct part){n, head, (size_t)((n * s->heads + head) * s->queries * s->keys)}));
    return PS_OK;
}

/* What a product of a part reads or writes: scores, or rows of a value, in which the part's heads lie side by side. */
struct operand {
    void *at;
    size_t rows, features, stride; /* in numbers; 0 for scores */
};

/* Of queries, keys, values or their gradients, at NULL where there is none. */
static struct operand operand_of(const struct attention *attention, const float *const *values, struct part part,
                                 enum attention_part of) {
    const struct attention_shape *s = &attention->shape, *p = &attention->part;
    uint16_t *value = (uint16_t *)(uintptr_t)values[attention_input(s, of)];
    if (value != NULL) value += attention_offset(s, of, part.sample, 0, part.head);
    const int64_t positions = of == ATTENTION_QUERY ? s->queries : s->keys;
    return (struct operand){value, (size_t)(p->samples * positions), (size_t)p->stride[of], (size_t)s->stride[of]};
}

/* Of the output, or its gradient. */
static struct operand operand_of_output(const struct attention *attention, const float *value, struct part part) {
    const struct attention_shape *s = &attention->shape, *p = &attention->part;
    const int64_t offset = part.sample * s->queries * s->features + part.head * s->each[ATTENTION_VALUE];
    return (struct operand){(uint16_t *)(uintptr_t)value + offset, (size_t)(p->samples * s->queries), (size_t)p->features,
                            (size_t)s->features};
}

static struct operand operand_of_scores(const void *scores) { return (struct operand){.at = (void *)(uintptr_t)scores}; }

struct copying {
    const uint16_t *from;
    uint16_t *to;
    size_t from_stride, to_stride, features;
};

static void copy_part(const void *context, size_t first, size_t end) {
    const struct copying *c = context;
    for (size_t row = first; row < end; row++)
        memcpy(c->to + row * c->to_stride, c->from + row * c->from_stride, c->features * sizeof *c->to);
}

/* Where a product finds, or leaves, its operand: in place if the part's heads fill the rows, else in a copy. */
static void *place_of(const struct attention *attention, const struct kernel_call *call, int copy, struct operand operand,
                      bool reads) {
    if (operand.stride == operand.features) return operand.at;
    const struct copying copying = {operand.at, part_copy(attention, call, copy), operand.stride, operand.features,
                                    operand.features};
    if (reads) device_parallel(attention->kernel.device, operand.rows, 16, copy_part, &copying);
    return copying.to;
}

static enum ps_status multiply_part(const struct attention *attention, enum product product, const struct kernel_call *call,
                                    struct operand left, struct operand right, struct operand result) {
    void *to = place_of(attention, call, RESULT, result, false);
    TRY(multiply(attention, product, call, place_of(attention, call, LEFT, left, true),
                 place_of(attention, call, RIGHT, right, true), to));
    const struct copying copying = {to, result.at, result.features, result.stride, result.features};
    if (to != result.at) device_parallel(attention->kernel.device, result.rows, 16, copy_part, &copying);
    return PS_OK;
}

/* The weights by which the values are multiplied: with dropout made of those that are kept, where there is room. */
static const uint16_t *part_weights(const struct attention *attention, const struct kernel_call *call, struct part part) {
    const uint16_t *kept = (const uint16_t *)(const void *)call->inner + part.score;
    if (!call->training || attention->kernel.node->attributes.rate == 0) return kept;
    uint16_t *dropped = part_rounded(attention, call);
    drop(attention, call, (int64_t)part.score / attention->shape.keys, attention->part.samples,
         attention_scores(&attention->part), TYPE_BF16, kept, dropped);
    return dropped;
}

static struct rows part_rows(const struct attention *attention, const struct kernel_call *call, struct part part) {
    struct rows rows = rows_of(attention, call, part_scores(call), NULL);
    rows.first = part.score / (size_t)attention->shape.keys;
    rows.inner = (const uint16_t *)(const void *)call->inner + part.score;
    return rows;
}

static enum ps_status narrow_forward(const struct attention *attention, const struct kernel_call *call, struct part part) {
    const struct operand query = operand_of(attention, call->input, part, ATTENTION_QUERY),
                         key = operand_of(attention, call->input, part, ATTENTION_KEY),
                         value = operand_of(attention, call->input, part, ATTENTION_VALUE);
    TRY(multiply_part(attention, SCORES, call, query, key, operand_of_scores(part_scores(call))));
    struct rows rows = part_rows(attention, call, part);
    rows.rounded = (uint16_t *)(void *)call->inner + part.score;
    device_parallel(attention->kernel.device, row_count(&attention->part), 8, softmax_part, &rows);
    return multiply_part(attention, OUTPUT, call, operand_of_scores(part_weights(attention, call, part)), value,
                         operand_of_output(attention, call->output, part));
}

static enum ps_status narrow_backward(const struct attention *attention, const struct kernel_call *call, struct part part) {
    const float *const *gradients = (const float *const *)call->input_gradient;
    const struct operand query = operand_of(attention, gradients, part, ATTENTION_QUERY),
                         key = operand_of(attention, gradients, part, ATTENTION_KEY),
                         value = operand_of(attention, gradients, part, ATTENTION_VALUE),
                         dy = operand_of_output(attention, call->output_gradient, part);
    struct rows rows = part_rows(attention, call, part);
    rows.d = part_weights(attention, call, part);
    rows.rounded = part_rounded(attention, call);
    if (value.at != NULL) TRY(multiply_part(attention, VALUE_GRADIENT, call, operand_of_scores(rows.d), dy, value));
    if (query.at == NULL && key.at == NULL) return PS_OK;
    TRY(multiply_part(attention, WEIGHT_GRADIENT, call, dy, operand_of(attention, call->input, part, ATTENTION_VALUE),
                      operand_of_scores(rows.scores)));
    device_parallel(attention->kernel.device, row_count(&attention->part), 8, narrow_gradient_part, &rows);
    const struct operand ds = operand_of_scores(rows.rounded);
    if (query.at != NULL)
        TRY(multiply_part(attention, QUERY_GRADIENT, call, ds, operand_of(attention, call->input, part, ATTENTION_KEY), query));
    if (key.at == NULL) return PS_OK;
    return multiply_part(attention, KEY_GRADIENT, call, ds, operand_of(attention, call->input, part, ATTENTION_QUERY), key);
}

/* --------------------------------------------------------------------- both */

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct attention *attention = (const struct attention *)kernel;
    const struct attention_shape *s = &attention->shape;
    if (attention->narrow) return for_parts(attention, call, narrow_forward);
    TRY(multiply(attention, SCORES, call, input_of(s, call, ATTENTION_QUERY), input_of(s, call, ATTENTION_KEY), call->inner));
    struct rows rows = rows_of(attention, call, call->inner, NULL);
    device_parallel(attention->kernel.device, row_count(s), 8, softmax_part, &rows);
    const float *weights = drop_weights(attention, call);
    return multiply(attention, OUTPUT, call, weights, input_of(s, call, ATTENTION_VALUE), call->output);
}

/* The gradient of keys or values: left x right, added up where heads share them. */
static enum ps_status shared_gradient(const struct attention *attention, enum product product, const struct kernel_call *call,
                                      const float *left, const float *right, enum attention_part part) {
    const struct attention_shape *s = &attention->shape;
    float *gradient = attention_gradient(s, call->input_gradient, part, 0, 0, 0);
    if (s->heads == s->key_heads) return multiply(attention, product, call, left, right, gradient);
    float *all = (float *)(void *)((char *)call->workspace + shared_start(attention));
    TRY(multiply(attention, product, call, left, right, all));
    struct sharing sharing = {s, part, all, gradient};
    device_parallel(attention->kernel.device, (size_t)(s->samples * s->keys), 1, share_part, &sharing);
    return PS_OK;
}

/* Of a part of the heads, the gradients of the others' features are 0. */
static void clear_gradients(const struct kernel *kernel, const struct attention_shape *s, const struct kernel_call *call) {
    for (int i = 0; i < (s->packed ? 1 : 3) && s->heads < s->all_heads; i++)
        if (call->input_gradient[i] != NULL)
            memset(call->input_gradient[i], 0, (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, i))));
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const struct attention *attention = (const struct attention *)kernel;
    const struct attention_shape *s = &attention->shape;
    clear_gradients(kernel, s, call);
    if (attention->narrow) return for_parts(attention, call, narrow_backward);
    float *query = attention_gradient(s, call->input_gradient, ATTENTION_QUERY, 0, 0, 0), *scores = call->workspace;
    bool key = call->input_gradient[attention_input(s, ATTENTION_KEY)] != NULL,
         value = call->input_gradient[attention_input(s, ATTENTION_VALUE)] != NULL,
         mask = s->added && call->input_gradient[s->mask] != NULL;
    const float *dy = call->output_gradient;
    const float *weights = drop_weights(attention, call);
    if (value) TRY(shared_gradient(attention, VALUE_GRADIENT, call, weights, dy, ATTENTION_VALUE));
    if (query == NULL && !key && !mask) return PS_OK;
    TRY(multiply(attention, WEIGHT_GRADIENT, call, dy, input_of(s, call, ATTENTION_VALUE), scores));
    struct rows rows = rows_of(attention, call, scores, weights);
    finish_scores(&rows);
    if (query != NULL) TRY(multiply(attention, QUERY_GRADIENT, call, scores, input_of(s, call, ATTENTION_KEY), query));
    if (!key) return PS_OK;
    return shared_gradient(attention, KEY_GRADIENT, call, scores, input_of(s, call, ATTENTION_QUERY), ATTENTION_KEY);
}

const struct kernel_class cpu_attention = {
    .size = sizeof(struct attention),
    .native = native,
    .prepare = prepare,
    .release = release,
    .forward = forward,
    .backward_input = backward_input,
};
