/*
 * Attention (graph/operators/attention.c; formulas in compute/reference/attention.c). The products are cuBLASLt's, of queries,
 * keys and values where they lie: rows are a position apart and heads are neighbours, so that one call multiplies either all
 * heads of a sample, or of each group that shares keys one, or one head of all samples, whichever needs fewer calls. Between
 * them the softmax and its derivative are launches over the rows of scores (sources/attention.cu).
 *
 * Samples are computed some at a time, so that their scores stay near the processors. Scores and the gradients of the weights
 * are f32. Where any value is bf16, what products read is, too: inputs in f32 are rounded into the workspace, and so are the
 * weights p, those with dropout d, and ds. With a cap the backward computes the scores once more.
 *
 * What flash.c serves is computed without scores in memory.
 *
 * Inner: p (N, heads, Tq, Tk). Keys and values that several heads share get the sum of their gradients in place, head after
 * head; where they are bf16 in the workspace, in f32.
 */
#include <math.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/attention.h"
#include "compute/cuda/flash.h"

enum { QUERY, KEY, VALUE, OUTPUT, SCORE, OPERANDS };
enum { SCORES, RESULT, VALUE_GRADIENT, WEIGHT_GRADIENT, QUERY_GRADIENT, KEY_GRADIENT, PRODUCTS };

/* What a product multiplies and what it makes; factors are turned from how they lie. */
static const struct plan {
    int left, right, made;
    bool left_turned, right_turned, scaled;
} plans[PRODUCTS] = {
    [SCORES] = {QUERY, KEY, SCORE, false, true, true},
    [RESULT] = {SCORE, VALUE, OUTPUT, false, false, false},
    [VALUE_GRADIENT] = {SCORE, OUTPUT, VALUE, true, false, false},
    [WEIGHT_GRADIENT] = {OUTPUT, VALUE, SCORE, false, true, false},
    [QUERY_GRADIENT] = {SCORE, KEY, QUERY, false, false, true},
    [KEY_GRADIENT] = {SCORE, QUERY, KEY, true, false, true},
};

/* Where the matrices of an operand lie, counted in elements from the block's start. */
struct operand {
    int64_t rows, columns, first, pitch, head, sample;
    bool shared; /* by the heads of a group */
};

/* Parts of the workspace. AGAIN: the scores once more; ROUNDED, ROUNDED_OUTPUT: inputs and dy. */
enum { TO_SCORES, TO_GRADIENTS, TO_DROPPED, TO_AGAIN, TO_SUMS, TO_ROUNDED, TO_OUTPUT = TO_ROUNDED + 3, TO_PRODUCT, PARTS };

struct attention {
    struct cuda_kernel cuda;
    struct attention_shape shape;
    enum number_type factors;
    int64_t samples; /* of a part */
    bool by_head;    /* a call multiplies one head of all samples of a part */
    struct operand operands[OPERANDS];
    struct cuda_product *products[PRODUCTS];
    int64_t at[PARTS];
    const struct cuda_module *flash; /* NULL: by products */
};

static void release(struct kernel *kernel) {
    for (int p = 0; p < PRODUCTS; p++) cuda_product_destroy(((struct attention *)kernel)->products[p]);
}

static int64_t group_of(const struct attention_shape *s) { return s->heads / s->key_heads; }
static float rate_of(const struct kernel *kernel) { return kernel->node->attributes.rate; }
static float cap_of(const struct kernel *kernel) { return kernel->node->attributes.cap; }

/* The first input of a mask is behind those of queries, keys and values. */
static int input_count(const struct attention_shape *s) { return s->packed ? 1 : 3; }

static struct attention_shape shape_of(const struct kernel *kernel) {
    struct attention_shape s = attention_shape(kernel);
    s.added = s.mask >= 0 && kernel_input(kernel, s.mask)->type != TYPE_I32; /* bf16, too */
    return s;
}

static enum number_type type_of(const struct attention *attention, int operand) {
    const struct kernel *kernel = &attention->cuda.kernel;
    if (operand == SCORE) return TYPE_F32;
    if (operand == OUTPUT) return kernel->node->shape.type;
    return kernel_input(kernel, attention_input(&attention->shape, (enum attention_part)operand))->type;
}

static void set_operands(struct attention *attention) {
    const struct attention_shape *s = &attention->shape;
    for (int part = QUERY; part <= VALUE; part++) {
        const int64_t positions = part == QUERY ? s->queries : s->keys;
        attention->operands[part] = (struct operand){positions,       s->each[part], s->offset[part],
                                                     s->stride[part], s->each[part], positions * s->stride[part],
                                                     part != QUERY};
    }
    const int64_t each = s->each[ATTENTION_VALUE], matrix = s->queries * s->keys;
    attention->operands[OUTPUT] = (struct operand){s->queries, each, 0, s->features, each, s->queries * s->features, false};
    attention->operands[SCORE] = (struct operand){s->queries, s->keys, 0, s->keys, matrix, s->heads * matrix, false};
}

/* Are gradients of a part added up in f32 in the workspace? */
static bool sums_aside(const struct attention *attention, int operand) {
    return attention->operands[operand].shared && group_of(&attention->shape) > 1 && type_of(attention, operand) == TYPE_BF16;
}

/* There all heads lie side by side, without anything else. */
static struct operand made_by(const struct attention *attention, int product) {
    struct operand made = attention->operands[plans[product].made];
    if (!sums_aside(attention, plans[product].made)) return made;
    made.first = 0;
    made.pitch = attention->shape.key_heads * made.head;
    made.sample = made.rows * made.pitch;
    return made;
}

static struct cuda_matrix matrix_of(const struct attention *attention, const struct operand *o, enum number_type type,
                                    bool turned) {
    const int64_t head = o->shared ? o->head : group_of(&attention->shape) * o->head;
    return (struct cuda_matrix){type, turned, o->pitch, attention->by_head ? o->sample : head};
}

static enum ps_status make_product(struct attention *attention, int product, struct ps_error *error) {
    const struct plan *plan = &plans[product];
    const struct operand *left = &attention->operands[plan->left], *right = &attention->operands[plan->right],
                         made = made_by(attention, product);
    const enum number_type type = sums_aside(attention, plan->made) ? TYPE_F32 : type_of(attention, plan->made);
    const struct cuda_product_shape shape = {
        .rows = made.rows,
        .columns = made.columns,
        .depth = plan->left_turned ? left->rows : left->columns,
        .batch = attention->by_head ? attention->samples : attention->shape.key_heads,
        .a = matrix_of(attention, left, attention->factors, plan->left_turned),
        .b = matrix_of(attention, right, attention->factors, plan->right_turned),
        .c = matrix_of(attention, &made, type, false),
    };
    return cuda_product_create(cuda_device_of(&attention->cuda.kernel), &shape, &attention->products[product], error);
}

/* The most samples that divide all and whose scores take no more than PART_BYTES; at least 1. */
static void divide(struct attention *attention) {
    enum { PART_BYTES = 64 << 20 };
    const struct attention_shape *s = &attention->shape;
    const int64_t sample = s->heads * s->queries * s->keys * (int64_t)sizeof(float);
    attention->samples = number_larger(number_smaller(PART_BYTES / sample, s->samples), 1);
    while (s->samples % attention->samples != 0) attention->samples--;
    attention->by_head = s->heads < attention->samples * group_of(s);
}

/* Elements of an input, or of the output (OUTPUT), that are rounded; 0: none. */
static int64_t rounded_elements(const struct attention *attention, int operand) {
    const struct kernel *kernel = &attention->cuda.kernel;
    if (operand != OUTPUT && operand >= input_count(&attention->shape)) return 0;
    const struct shape *shape = operand == OUTPUT ? &kernel->node->shape : kernel_input(kernel, operand);
    return shape->type == attention->factors ? 0 : kernel->samples * shape_elements(shape);
}

static void set_workspace(struct attention *attention) {
    struct kernel *kernel = &attention->cuda.kernel;
    const struct attention_shape *s = &attention->shape;
    const int64_t scores = attention->samples * s->heads * s->queries * s->keys, f32 = (int64_t)sizeof(float),
                  factor = (int64_t)number_types[attention->factors].bytes,
                  most = number_larger(s->each[ATTENTION_KEY], s->each[ATTENTION_VALUE]);
    const bool sums = sums_aside(attention, KEY) || sums_aside(attention, VALUE),
               apart = attention->factors == TYPE_BF16 || (s->added && cap_of(kernel) > 0);
    int64_t bytes[PARTS] = {
        [TO_SCORES] = scores * f32,
        [TO_GRADIENTS] = apart ? scores * factor : 0,
        [TO_DROPPED] = rate_of(kernel) > 0 ? scores * factor : 0,
        [TO_AGAIN] = cap_of(kernel) > 0 ? scores * f32 : 0,
        [TO_SUMS] = sums ? attention->samples * s->keys * s->key_heads * most * f32 : 0,
        [TO_OUTPUT] = rounded_elements(attention, OUTPUT) * factor,
    };
    for (int i = 0; i < 3; i++) bytes[TO_ROUNDED + i] = rounded_elements(attention, i) * factor;
    for (int p = 0; p < PRODUCTS; p++)
        bytes[TO_PRODUCT] = number_larger(bytes[TO_PRODUCT], cuda_product_workspace(attention->products[p]));
    for (int part = 0; part < PARTS; part++) {
        attention->at[part] = kernel->workspace_bytes;
        kernel->workspace_bytes += (int64_t)memory_align((size_t)bytes[part]);
    }
    if (!apart) attention->at[TO_GRADIENTS] = attention->at[TO_SCORES];
    kernel->inner_bytes = s->samples * s->heads * s->queries * s->keys * factor;
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct attention *attention = (struct attention *)kernel;
    attention->shape = shape_of(kernel);
    if (flash_serves(kernel, &attention->shape)) return flash_prepare(kernel, &attention->shape, &attention->flash, error);
    attention->factors = kernel->node->shape.type;
    for (int i = 0; i < input_count(&attention->shape); i++)
        if (kernel_input(kernel, i)->type == TYPE_BF16) attention->factors = TYPE_BF16;
    set_operands(attention);
    divide(attention);
    for (int p = 0; p < PRODUCTS; p++) TRY(make_product(attention, p, error));
    set_workspace(attention);
    return cuda_prepare(kernel, error);
}

static void define(const struct kernel *kernel, struct text *out) {
    const struct attention_shape s = shape_of(kernel);
    text_add(out,
             "#define F %s\n#define HEADS %lld\n#define QUERIES %lld\n#define KEYS %lld\n#define FIRST_HEAD %lld\n"
             "#define ALL_HEADS %lld\n#define CAUSAL %d\n#define RATE %a\n#define CAPPED %d\n#define CAP %a\n",
             number_types[((const struct attention *)kernel)->factors].name, (long long)s.heads, (long long)s.queries,
             (long long)s.keys, (long long)s.first_head, (long long)s.all_heads, s.causal, (double)rate_of(kernel),
             cap_of(kernel) > 0, cap_of(kernel) > 0 ? (double)cap_of(kernel) : 1);
    text_add(out,
             "#define MASK %d\n#define MASK_NUMBERS %d\n#define MASK_TYPE %s\n#define MASK_HEADS %lld\n"
             "#define MASK_QUERIES %lld\n",
             s.mask, s.added, number_types[s.mask >= 0 ? kernel_input(kernel, s.mask)->type : TYPE_F32].name,
             (long long)s.mask_heads, (long long)s.mask_queries);
}

/* -------------------------------------------------------------------------- a part */

/* The blocks of a call: its operands as factors, p, and where in the workspace the rest is. */
struct work {
    const struct attention *attention;
    const struct kernel_call *call;
    const char *factors[OPERANDS]; /* all samples; of the scores what a product is given */
    int64_t first;                 /* sample of the part */
};

static char *room(const struct work *work, int part) { return (char *)work->call->workspace + work->attention->at[part]; }

/* Rounded into the workspace where it has another type than factors. */
static const char *factor(const struct attention *attention, const struct kernel_call *call, int operand, const void *from) {
    const struct kernel *kernel = &attention->cuda.kernel;
    const int64_t count = rounded_elements(attention, operand);
    char *to = (char *)call->workspace + attention->at[operand == OUTPUT ? TO_OUTPUT : TO_ROUNDED + operand];
    if (count == 0) return from;
    device_convert(kernel->device, (size_t)count, attention->factors, to, TYPE_F32, from);
    return to;
}

static struct work start(const struct attention *attention, const struct kernel_call *call) {
    struct work work = {.attention = attention, .call = call};
    const char *inputs[3];
    for (int i = 0; i < input_count(&attention->shape); i++) inputs[i] = factor(attention, call, i, call->input[i]);
    for (int part = QUERY; part <= VALUE; part++)
        work.factors[part] = inputs[attention_input(&attention->shape, (enum attention_part)part)];
    if (call->output_gradient) work.factors[OUTPUT] = factor(attention, call, OUTPUT, call->output_gradient);
    return work;
}

static int64_t part_rows(const struct attention *attention) {
    return attention->samples * attention->shape.heads * attention->shape.queries;
}

/* The part's weights in `inner`. */
static char *kept(const struct work *work) {
    const struct attention *attention = work->attention;
    const int64_t scores = work->first * attention->operands[SCORE].sample;
    return (char *)work->call->inner + scores * (int64_t)number_types[attention->factors].bytes;
}

/* From the block's start to the part's sample and head. Scores are blocks of the part alone, and so is what is put aside. */
static int64_t offset_of(const struct work *work, const struct operand *o, bool of_part, int64_t sample, int64_t head) {
    const int64_t own = o->shared ? head / group_of(&work->attention->shape) : head;
    return o->first + ((of_part ? 0 : work->first) + sample) * o->sample + own * o->head;
}

/* Runs a product for the part. `scores` is what stands for the scores, as a factor or as what is made; `made` is the block of
 * what is made otherwise. */
static enum ps_status multiply(const struct work *work, int product, void *scores, void *made) {
    const struct attention *attention = work->attention;
    const struct plan *plan = &plans[product];
    const struct operand *left = &attention->operands[plan->left], *right = &attention->operands[plan->right],
                         result = made_by(attention, product);
    const bool aside = sums_aside(attention, plan->made), local = aside || plan->made == SCORE;
    const int64_t element = (int64_t)number_types[attention->factors].bytes, group = group_of(&attention->shape),
                  size = aside ? (int64_t)sizeof(float) : (int64_t)number_types[type_of(attention, plan->made)].bytes,
                  samples = attention->by_head ? 1 : attention->samples,
                  heads = attention->by_head ? attention->shape.heads : group;
    const char *a = plan->left == SCORE ? scores : work->factors[plan->left], *b = work->factors[plan->right];
    char *c = plan->made == SCORE ? scores : aside ? room(work, TO_SUMS) : made;
    const float scale = attention->cuda.kernel.node->attributes.scale,
                usual = 1 / sqrtf((float)attention->shape.each[ATTENTION_KEY]),
                alpha = !plan->scaled ? 1
                        : scale > 0   ? scale
                                      : usual;
    for (int64_t n = 0; n < samples; n++)
        for (int64_t h = 0; h < heads; h++)
            TRY(cuda_product_run(cuda_device_of(&attention->cuda.kernel), attention->products[product], alpha,
                                 a + offset_of(work, left, plan->left == SCORE, n, h) * element,
                                 b + offset_of(work, right, false, n, h) * element, result.shared && h % group > 0 ? 1 : 0,
                                 c + offset_of(work, &result, local, n, h) * size, room(work, TO_PRODUCT), work->call->error));
    return PS_OK;
}

/* -------------------------------------------------------------------------- forward */

static enum ps_status forward_part(const struct work *work) {
    static const struct cuda_launch softmax = {"forward", GRID_TEAMS, NULL};
    const struct attention *attention = work->attention;
    struct kernel *kernel = (struct kernel *)&attention->cuda.kernel;
    const bool drops = work->call->training && rate_of(kernel) > 0;
    char *weights = kept(work), *scores = attention->factors == TYPE_F32 ? weights : room(work, TO_SCORES),
         *dropped = drops ? room(work, TO_DROPPED) : NULL;
    TRY(multiply(work, SCORES, scores, NULL));
    TRY(cuda_run(kernel, work->call, &softmax,
                 &(struct cuda_extra){.count = part_rows(attention),
                                      .more = {scores, weights, dropped},
                                      .number = {work->first * attention->shape.heads * attention->shape.queries}}));
    return multiply(work, RESULT, drops ? dropped : weights, work->call->output);
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    const struct attention *attention = (const struct attention *)kernel;
    if (attention->flash) return flash_forward(kernel, &attention->shape, attention->flash, call);
    struct work work = start(attention, call);
    for (; work.first < attention->shape.samples; work.first += attention->samples) TRY(forward_part(&work));
    return PS_OK;
}

/* ------------------------------------------------------------------------- backward */

static void *gradient_of(const struct work *work, int part) {
    return work->call->input_gradient[attention_input(&work->attention->shape, (enum attention_part)part)];
}

static bool masks(const struct work *work) {
    const struct attention_shape *s = &work->attention->shape;
    return s->added && work->call->input_gradient[s->mask];
}

/* The scores' gradients and the weights with dropout, from those of the weights; the mask's gradient. */
static enum ps_status derive(const struct work *work, void *dropped) {
    static const struct cuda_launch rows = {"backward", GRID_TEAMS, NULL}, mask = {"mask_gradient", GRID_ONES, NULL};
    const struct attention *attention = work->attention;
    const struct attention_shape *s = &attention->shape;
    struct kernel *kernel = (struct kernel *)&attention->cuda.kernel;
    const struct cuda_extra extra = {
        .count = part_rows(attention),
        .more = {room(work, TO_SCORES), kept(work), dropped, room(work, TO_GRADIENTS), room(work, TO_AGAIN)},
        .number = {work->first * s->heads * s->queries, masks(work), work->first}};
    struct cuda_extra of_mask = extra;
    of_mask.count = attention->samples * s->mask_heads * s->mask_queries * s->keys;
    TRY(multiply(work, WEIGHT_GRADIENT, room(work, TO_SCORES), NULL));
    if (cap_of(kernel) > 0) TRY(multiply(work, SCORES, room(work, TO_AGAIN), NULL));
    TRY(cuda_run(kernel, work->call, &rows, &extra));
    return masks(work) ? cuda_run(kernel, work->call, &mask, &of_mask) : PS_OK;
}

/* A gradient of queries, keys or values, if it is wanted. */
static enum ps_status finish(const struct work *work, int product, void *scores) {
    static const struct cuda_launch share = {"share", GRID_ONES, NULL};
    const struct attention *attention = work->attention;
    const int part = plans[product].made;
    const struct operand *o = &attention->operands[part];
    char *gradient = gradient_of(work, part);
    const int64_t width = attention->shape.key_heads * o->head, to = offset_of(work, o, false, 0, 0);
    if (!gradient) return PS_OK;
    TRY(multiply(work, product, scores, gradient));
    if (!sums_aside(attention, part)) return PS_OK;
    return cuda_run((struct kernel *)&attention->cuda.kernel, work->call, &share,
                    &(struct cuda_extra){.count = attention->samples * o->rows * width,
                                         .more = {room(work, TO_SUMS), gradient + to * (int64_t)sizeof(uint16_t)},
                                         .number = {width, o->pitch}});
}

static enum ps_status backward_part(const struct work *work) {
    const struct kernel *kernel = &work->attention->cuda.kernel;
    const bool drops = work->call->training && rate_of(kernel) > 0,
               scores = gradient_of(work, QUERY) || gradient_of(work, KEY) || masks(work);
    void *dropped = drops ? room(work, TO_DROPPED) : NULL;
    if (scores || drops) TRY(derive(work, dropped));
    TRY(finish(work, VALUE_GRADIENT, drops ? dropped : kept(work)));
    TRY(finish(work, QUERY_GRADIENT, room(work, TO_GRADIENTS)));
    return finish(work, KEY_GRADIENT, room(work, TO_GRADIENTS));
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    const struct attention *attention = (const struct attention *)kernel;
    const struct attention_shape *s = &attention->shape;
    if (attention->flash) return flash_backward(kernel, s, attention->flash, call);
    struct work work = start(attention, call);
    /* Of a part of the heads, the gradients of the others' features are 0. */
    for (int i = 0; i < input_count(s) && s->heads < s->all_heads; i++)
        if (call->input_gradient[i])
            device_zero(kernel->device, call->input_gradient[i],
                        (size_t)(kernel->samples * shape_bytes(kernel_input(kernel, i))));
    for (; work.first < s->samples; work.first += attention->samples) TRY(backward_part(&work));
    return PS_OK;
}

static int64_t keys_of(const struct kernel *kernel) { return ((const struct attention *)kernel)->shape.keys; }

const struct cuda_class cuda_attention = {
    .type = {.size = sizeof(struct attention),
             .native = cuda_native,
             .prepare = prepare,
             .release = release,
             .forward = forward,
             .backward_input = backward_input},
    .source = "attention",
    .row = keys_of,
    .define = define,
};
