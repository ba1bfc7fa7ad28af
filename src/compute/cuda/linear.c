/*
 * Linear layers: y = x W' + b with x (N, D), W (O, D), or (D, O) where it is transposed, b (O), y (N, O); for sequences N also
 * counts the positions. dx = dy W, dW = dy' x (or x' dy), db = sums of dy's columns. Bias and ReLU are one launch over y.
 *
 * Where any of x, W and y is bf16 the factors are, and what is not is rounded into the workspace; so is a large matrix whose rows
 * are not well aligned. W's gradient is f32 in any case. Where x is a flattened image the kernel's weights have its features in the order of memory, H, W, C, while canonical
 * ones have C, H, W; those that are shared with other nodes stay as they are, so that gradients can be added.
 */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/blocks.h"

enum { FORWARD, INPUT, WEIGHTS, PRODUCTS };
enum { X, W, Y, MATRICES };

/* A matrix as it lies: rows of so many columns, whose pitch they are, and in rows that are `pitch` apart where products get a
 * copy in the workspace, at `at`. */
struct matrix {
    enum number_type type;
    int64_t rows, columns, pitch, at;
};

struct linear {
    struct cuda_kernel cuda;
    enum number_type factors;
    struct matrix matrices[MATRICES];
    int64_t product_at; /* in the workspace: the products' own */
    struct cuda_product *products[PRODUCTS];
};

static const int product_factors[PRODUCTS][2] = {[FORWARD] = {X, W}, [INPUT] = {Y, W}, [WEIGHTS] = {Y, X}};

static bool has_bias(const struct kernel *kernel) { return kernel->node->attributes.bias; }

static void release(struct kernel *kernel) {
    for (int p = 0; p < PRODUCTS; p++) cuda_product_destroy(((struct linear *)kernel)->products[p]);
}

/* Do features have another order in memory than canonically? */
static bool turned(const struct kernel *kernel) {
    const int64_t channels = kernel_input(kernel, 0)->image[0];
    return channels > 1 && channels < kernel_input(kernel, 0)->dim[0];
}

/* Products are several times as fast if all rows begin at a multiple of 16 bytes: of a large matrix of bf16 whose rows do not
 * (logits of 50,257 tokens) it is worth a copy. */
static int64_t pitch_of(const struct matrix *matrix) {
    enum { EIGHT = 8, LARGE = 1 << 14 };
    const bool copies = matrix->type == TYPE_BF16 && matrix->columns % EIGHT != 0 && matrix->rows * matrix->columns >= LARGE;
    return copies ? (matrix->columns + EIGHT - 1) / EIGHT * EIGHT : matrix->columns;
}

/* Do products read a copy, and does one write to a place of its own? */
static bool factor_copied(const struct linear *linear, int matrix) {
    const struct matrix *m = &linear->matrices[matrix];
    return m->type != linear->factors || m->pitch != m->columns;
}
static bool result_copied(const struct linear *linear, int matrix) {
    return linear->matrices[matrix].pitch != linear->matrices[matrix].columns;
}

static void measure(struct linear *linear) {
    struct kernel *kernel = &linear->cuda.kernel;
    const int64_t n = (int64_t)kernel_rows(kernel), d = kernel_input(kernel, 0)->dim[0], o = kernel->node->shape.dim[0];
    const bool transposed = kernel->node->attributes.transposed;
    linear->matrices[X] = (struct matrix){.type = kernel_input(kernel, 0)->type, .rows = n, .columns = d};
    linear->matrices[W] = (struct matrix){.type = kernel->graph->parameters[kernel->node->parameter_first].copy,
                                          .rows = transposed ? d : o,
                                          .columns = transposed ? o : d};
    linear->matrices[Y] = (struct matrix){.type = kernel->node->shape.type, .rows = n, .columns = o};
    linear->factors = TYPE_F32;
    for (int m = 0; m < MATRICES; m++)
        if (linear->matrices[m].type == TYPE_BF16) linear->factors = TYPE_BF16;
    for (int m = 0; m < MATRICES; m++) {
        struct matrix *matrix = &linear->matrices[m];
        matrix->pitch = pitch_of(matrix);
        matrix->at = kernel->workspace_bytes;
        if (factor_copied(linear, m))
            kernel->workspace_bytes +=
                (int64_t)memory_align((size_t)(matrix->rows * matrix->pitch) * number_types[linear->factors].bytes);
    }
    linear->product_at = kernel->workspace_bytes;
}

static enum ps_status make_products(struct linear *linear, struct ps_error *error) {
    struct kernel *kernel = &linear->cuda.kernel;
    const struct matrix *of = linear->matrices;
    const int64_t n = of[X].rows, d = of[X].columns, o = of[Y].columns;
    const bool transposed = kernel->node->attributes.transposed;
    const enum number_type f = linear->factors;
    const struct cuda_matrix x = {f, false, of[X].pitch, 0}, x_turned = {f, true, of[X].pitch, 0},
                             y = {f, false, of[Y].pitch, 0}, y_turned = {f, true, of[Y].pitch, 0},
                             w = {f, transposed, of[W].pitch, 0}, w_turned = {f, !transposed, of[W].pitch, 0},
                             made = {TYPE_F32, false, of[W].columns, 0};
    const struct cuda_product_shape shapes[PRODUCTS] = {
        [FORWARD] = {n, o, d, 1, x, w_turned, {of[Y].type, false, of[Y].pitch, 0}},
        [INPUT] = {n, d, o, 1, y, w, {of[X].type, false, of[X].pitch, 0}},
        [WEIGHTS] = transposed ? (struct cuda_product_shape){d, o, n, 1, x_turned, y, made}
                               : (struct cuda_product_shape){o, d, n, 1, y_turned, x, made},
    };
    int64_t most = 0;
    for (int p = 0; p < PRODUCTS; p++) {
        TRY(cuda_product_create(cuda_device_of(kernel), &shapes[p], &linear->products[p], error));
        most = number_larger(most, cuda_product_workspace(linear->products[p]));
    }
    kernel->workspace_bytes += most;
    return PS_OK;
}

static enum ps_status prepare(struct kernel *kernel, struct ps_error *error) {
    struct linear *linear = (struct linear *)kernel;
    if (kernel_shares(kernel, 0) && turned(kernel))
        return error_set(error, PS_USAGE,
                         "node '%s' (linear): shares its weights with other nodes, so on cuda it cannot read an image that is "
                         "flattened",
                         kernel->node->name);
    measure(linear);
    kernel->fuses_relu = kernel->relu_follows;
    TRY(make_products(linear, error));
    if (has_bias(kernel)) cuda_take_columns(kernel, (int64_t)kernel_rows(kernel), (int64_t)kernel_features(kernel), 1);
    return has_bias(kernel) || kernel->fuses_relu ? cuda_prepare(kernel, error) : PS_OK;
}

static char *copy_of(const struct linear *linear, const struct kernel_call *call, int matrix) {
    return (char *)call->workspace + linear->matrices[matrix].at;
}

static void repitch(const struct linear *linear, int matrix, enum number_type to_type, void *to, int64_t to_pitch,
                    const void *from, int64_t from_pitch) {
    const struct matrix *m = &linear->matrices[matrix];
    cuda_block_repitch(cuda_device_of(&linear->cuda.kernel), m->rows, m->columns, to_type, to, to_pitch, m->type, from,
                       from_pitch);
}

/* A factor as products get it. Of dy the copy was made before (backward_shared). */
static const void *factor(const struct linear *linear, int matrix, const struct kernel_call *call) {
    const void *const from[MATRICES] = {call->input[0], call->weights[0], call->output_gradient};
    const struct matrix *m = &linear->matrices[matrix];
    char *copy = copy_of(linear, call, matrix);
    if (!factor_copied(linear, matrix)) return from[matrix];
    if (matrix != Y) repitch(linear, matrix, linear->factors, copy, m->pitch, from[matrix], m->columns);
    return copy;
}

/* What is made is a matrix (`result`), or the gradient of the weights. */
static enum ps_status multiply(const struct linear *linear, int product, const struct kernel_call *call, int result, void *to) {
    const struct kernel *kernel = &linear->cuda.kernel;
    const int *factors = product_factors[product];
    const void *const at[2] = {factor(linear, factors[0], call), factor(linear, factors[1], call)};
    const bool swaps = product == WEIGHTS && kernel->node->attributes.transposed,
               aside = product != WEIGHTS && result_copied(linear, result);
    void *made = aside ? copy_of(linear, call, result) : to;
    TRY(cuda_product_run(cuda_device_of(kernel), linear->products[product], 1, at[swaps], at[!swaps], 0, made,
                         (char *)call->workspace + linear->product_at, call->error));
    if (aside)
        repitch(linear, result, linear->matrices[result].type, to, linear->matrices[result].columns, made,
                linear->matrices[result].pitch);
    return PS_OK;
}

static enum ps_status forward(struct kernel *kernel, const struct kernel_call *call) {
    TRY(multiply((struct linear *)kernel, FORWARD, call, Y, call->output));
    if (!has_bias(kernel) && !kernel->fuses_relu) return PS_OK;
    return cuda_run_all(kernel, call, cuda_class_of(kernel)->forward,
                        &(struct cuda_extra){.number = {has_bias(kernel), kernel->fuses_relu}});
}

static enum ps_status backward_shared(struct kernel *kernel, const struct kernel_call *call) {
    const struct linear *linear = (struct linear *)kernel;
    const struct matrix *y = &linear->matrices[Y];
    if (factor_copied(linear, Y))
        repitch(linear, Y, linear->factors, copy_of(linear, call, Y), y->pitch, call->output_gradient, y->columns);
    return PS_OK;
}

static enum ps_status backward_input(struct kernel *kernel, const struct kernel_call *call) {
    if (!call->input_gradient[0]) return PS_OK;
    return multiply((struct linear *)kernel, INPUT, call, X, call->input_gradient[0]);
}

static enum ps_status backward_weight(struct kernel *kernel, const struct kernel_call *call) {
    if (call->gradients[0]) TRY(multiply((struct linear *)kernel, WEIGHTS, call, W, call->gradients[0]));
    return has_bias(kernel) && call->gradients[1] ? cuda_backward_weight(kernel, call) : PS_OK;
}

/* A plain copy, or rows of D features between C, H, W (canonical) and H, W, C (in memory). */
static void convert(const struct kernel *kernel, int parameter, const float *from, float *to, bool from_canonical) {
    if (parameter != 0 || !turned(kernel)) {
        memcpy(to, from, (size_t)kernel->parameter_bytes[parameter]);
        return;
    }
    const int64_t d = kernel_input(kernel, 0)->dim[0], channels = kernel_input(kernel, 0)->image[0], pixels = d / channels;
    for (int64_t row = 0; row < kernel->node->shape.dim[0]; row++, from += d, to += d)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t p = 0; p < pixels; p++) {
                const int64_t canonical = c * pixels + p, memory = p * channels + c;
                to[from_canonical ? memory : canonical] = from[from_canonical ? canonical : memory];
            }
}

static enum ps_status from_canonical(struct kernel *kernel, int parameter, const float *canonical, float *own,
                                     struct ps_error *error) {
    (void)error;
    convert(kernel, parameter, canonical, own, true);
    return PS_OK;
}

static enum ps_status to_canonical(struct kernel *kernel, int parameter, const float *own, float *canonical,
                                   struct ps_error *error) {
    (void)error;
    convert(kernel, parameter, own, canonical, false);
    return PS_OK;
}

const struct cuda_class cuda_linear = {
    .type = {.size = sizeof(struct linear),
             .native = cuda_native,
             .prepare = prepare,
             .release = release,
             .forward = forward,
             .backward_input = backward_input,
             .backward_weight = backward_weight,
             .backward_shared = backward_shared,
             .from_canonical = from_canonical,
             .to_canonical = to_canonical},
    .source = "linear",
    .forward = {{"finish", GRID_TEAMS}},
    .backward_weight = {{"column_partial", GRID_COLUMNS}, {"column_finish", GRID_TILES}},
};
