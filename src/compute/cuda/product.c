/*
 * Products of matrices by cuBLASLt, which counts elements of a matrix along its columns. A matrix in rows is its own transpose
 * in that order, so c = a' b' in rows is c^T = b'^T a'^T: the factors are swapped, and each is transposed where it is here.
 *
 * The algorithm is the library's first proposal, chosen when the product is made. Sums are in f32, of f32 without rounding the
 * factors (unless the device may round them to TF32). Sums in pieces are added up in a fixed order, in f32 and in the
 * workspace, so that results do not change from run to run.
 *
 * Pitches and strides say how matrices are aligned if the first element is at a multiple of 16 bytes. Where it is not when the
 * product runs, a second algorithm serves, which expects no more than an element's alignment.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "compute/cuda/cuda.h"

/* Numbers of library_types.h, cublas_api.h and cublasLt.h. */
enum { REAL_F32 = 0, REAL_BF16 = 14 };
enum { COMPUTE_F32 = 68, COMPUTE_TF32 = 77 };
enum { NOT_TRANSPOSED = 0, TRANSPOSED = 1 };
enum { DESCRIPTION_TRANSPOSE_A = 3, DESCRIPTION_TRANSPOSE_B = 4 };
enum { LAYOUT_BATCH = 5, LAYOUT_STRIDE = 6 };
enum {
    PREFERENCE_WORKSPACE = 1,
    PREFERENCE_REDUCTIONS = 3, /* the ways to add up pieces of sums */
    PREFERENCE_ALIGNMENT_A = 5,
    PREFERENCE_ALIGNMENT_B = 6,
    PREFERENCE_ALIGNMENT_C = 7,
    PREFERENCE_ALIGNMENT_D = 8
};
enum { REDUCTION_IN_F32 = 2 };

/* cublasLtMatmulHeuristicResult_t */
struct proposal {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

enum { A, B, C, MATRICES };
enum { ALIGNED, ANYWHERE, ALGORITHMS };
enum { ALIGNMENT = 16, WORKSPACE_ALIGNMENT = 256, WORKSPACE_BYTES = 32 << 20, BATCH_MOST = 1 << 15 /* of one call */ };

struct cuda_product {
    struct cuda_product_shape shape;
    void *description, *layouts[MATRICES]; /* NULL: something stands in for the library */
    int64_t alignment[MATRICES];           /* that the first algorithm expects */
    struct proposal proposals[ALGORITHMS];
};

const struct cuda_stand_in *cuda_stand_in;

static enum ps_status check(int status, const char *what, struct ps_error *error) {
    if (status == 0) return PS_OK;
    return error_set(error, PS_FAILED, "device cuda: cuBLASLt: %s: status %d", what, status);
}

static const struct cuda_matrix *matrix_of(const struct cuda_product_shape *shape, int matrix) {
    return matrix == A ? &shape->a : matrix == B ? &shape->b : &shape->c;
}

/* Rows and columns as the matrix lies in memory. */
static void sides_of(const struct cuda_product_shape *shape, int matrix, int64_t *rows, int64_t *columns) {
    const int64_t left[] = {shape->rows, shape->depth, shape->rows}, right[] = {shape->depth, shape->columns, shape->columns};
    const bool turned = matrix_of(shape, matrix)->transposed;
    *rows = turned ? right[matrix] : left[matrix];
    *columns = turned ? left[matrix] : right[matrix];
}

/* The power of two, up to ALIGNMENT, that divides a number of bytes. */
static int64_t alignment_of(uint64_t bytes) {
    int64_t alignment = ALIGNMENT;
    while (bytes % (uint64_t)alignment != 0) alignment /= 2;
    return alignment;
}

static enum ps_status make_layout(struct cuda_product *product, int matrix, struct ps_error *error) {
    const struct cuda_product_shape *shape = &product->shape;
    const struct cuda_matrix *m = matrix_of(shape, matrix);
    const int64_t bytes = (int64_t)number_types[m->type].bytes;
    const int32_t batch = (int32_t)number_smaller(shape->batch, BATCH_MOST);
    int64_t rows, columns;
    sides_of(shape, matrix, &rows, &columns);
    assert(m->pitch >= columns && m->type != TYPE_I32);
    product->alignment[matrix] = number_smaller(alignment_of((uint64_t)(rows > 1 ? m->pitch * bytes : 0)),
                                                alignment_of((uint64_t)(batch > 1 ? m->stride * bytes : 0)));
    void **layout = &product->layouts[matrix];
    TRY(check(cuda.cublasLtMatrixLayoutCreate(layout, m->type == TYPE_BF16 ? REAL_BF16 : REAL_F32, (uint64_t)columns,
                                              (uint64_t)rows, m->pitch),
              "a matrix", error));
    if (batch == 1) return PS_OK;
    TRY(check(cuda.cublasLtMatrixLayoutSetAttribute(*layout, LAYOUT_BATCH, &batch, sizeof batch), "a batch", error));
    return check(cuda.cublasLtMatrixLayoutSetAttribute(*layout, LAYOUT_STRIDE, &m->stride, sizeof m->stride), "a batch", error);
}

static enum ps_status make_description(struct cuda_product *product, bool tf32, struct ps_error *error) {
    /* The library's first factor is b. */
    const int32_t first = product->shape.b.transposed ? TRANSPOSED : NOT_TRANSPOSED,
                  second = product->shape.a.transposed ? TRANSPOSED : NOT_TRANSPOSED;
    void **description = &product->description;
    TRY(check(cuda.cublasLtMatmulDescCreate(description, tf32 ? COMPUTE_TF32 : COMPUTE_F32, REAL_F32), "a product", error));
    TRY(check(cuda.cublasLtMatmulDescSetAttribute(*description, DESCRIPTION_TRANSPOSE_A, &first, sizeof first), "a product",
              error));
    return check(cuda.cublasLtMatmulDescSetAttribute(*description, DESCRIPTION_TRANSPOSE_B, &second, sizeof second),
                 "a product", error);
}

static enum ps_status set_preferences(void *preference, const struct cuda_product *product, int which, struct ps_error *error) {
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t reductions = REDUCTION_IN_F32;
    static const int alignments[] = {PREFERENCE_ALIGNMENT_B, PREFERENCE_ALIGNMENT_A, PREFERENCE_ALIGNMENT_C};
    TRY(check(cuda.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_WORKSPACE, &workspace, sizeof workspace),
              "a preference", error));
    TRY(check(cuda.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_REDUCTIONS, &reductions, sizeof reductions),
              "a preference", error));
    for (int m = 0; m < MATRICES; m++) {
        const size_t element = number_types[matrix_of(&product->shape, m)->type].bytes;
        const uint32_t bytes = which == ALIGNED ? (uint32_t)product->alignment[m] : (uint32_t)element;
        TRY(check(cuda.cublasLtMatmulPreferenceSetAttribute(preference, alignments[m], &bytes, sizeof bytes), "a preference",
                  error));
        if (m == C)
            TRY(check(cuda.cublasLtMatmulPreferenceSetAttribute(preference, PREFERENCE_ALIGNMENT_D, &bytes, sizeof bytes),
                      "a preference", error));
    }
    return PS_OK;
}

/* The library's first proposal. */
static enum ps_status choose(const struct cuda_device *device, struct cuda_product *product, int which,
                             struct ps_error *error) {
    struct proposal *proposal = &product->proposals[which];
    void *preference = NULL, **layouts = product->layouts;
    int found = 0;
    proposal->state = -1;
    TRY(check(cuda.cublasLtMatmulPreferenceCreate(&preference), "a preference", error));
    enum ps_status status = set_preferences(preference, product, which, error);
    if (status == PS_OK)
        status = check(cuda.cublasLtMatmulAlgoGetHeuristic(device->gpu->blas, product->description, layouts[B], layouts[A],
                                                           layouts[C], layouts[C], preference, 1, proposal, &found),
                       "finding an algorithm", error);
    cuda.cublasLtMatmulPreferenceDestroy(preference);
    if (status != PS_OK || found == 0) proposal->state = -1;
    if (status == PS_OK && proposal->state != 0)
        status = error_set(error, PS_FAILED, "device cuda: cuBLASLt has no algorithm for a product of %lldx%lldx%lld",
                           (long long)product->shape.rows, (long long)product->shape.columns, (long long)product->shape.depth);
    return status;
}

static enum ps_status make(struct cuda_device *device, struct cuda_product *product, struct ps_error *error) {
    if (cuda_stand_in && cuda_stand_in->product) return PS_OK;
    cuda_enter(device);
    TRY(make_description(product, device->tf32, error));
    for (int m = 0; m < MATRICES; m++) TRY(make_layout(product, m, error));
    TRY(choose(device, product, ALIGNED, error));
    if (choose(device, product, ANYWHERE, NULL) != PS_OK) product->proposals[ANYWHERE] = product->proposals[ALIGNED];
    return PS_OK;
}

enum ps_status cuda_product_create(struct cuda_device *device, const struct cuda_product_shape *shape,
                                   struct cuda_product **product, struct ps_error *error) {
    struct cuda_product *made;
    assert(shape->a.type == shape->b.type && (shape->c.type == TYPE_F32 || shape->a.type == TYPE_BF16));
    assert(!shape->c.transposed && shape->batch >= 1);
    TRY(memory_new(&made, 1, "a product", error));
    made->shape = *shape;
    enum ps_status status = make(device, made, error);
    if (status == PS_OK)
        *product = made;
    else
        cuda_product_destroy(made);
    return status;
}

void cuda_product_destroy(struct cuda_product *product) {
    if (!product) return;
    for (int m = 0; m < MATRICES; m++)
        if (product->layouts[m]) cuda.cublasLtMatrixLayoutDestroy(product->layouts[m]);
    if (product->description) cuda.cublasLtMatmulDescDestroy(product->description);
    free(product);
}

int64_t cuda_product_workspace(const struct cuda_product *product) {
    size_t most = 0;
    if (!product) return 0;
    for (int which = 0; which < ALGORITHMS; which++)
        if (product->proposals[which].workspace_bytes > most) most = product->proposals[which].workspace_bytes;
    return most > 0 ? (int64_t)most + WORKSPACE_ALIGNMENT : 0;
}

/* From now on a call multiplies so many matrices. */
static enum ps_status set_batch(const struct cuda_product *product, int64_t count, struct ps_error *error) {
    const int32_t batch = (int32_t)count;
    for (int m = 0; m < MATRICES; m++)
        TRY(check(cuda.cublasLtMatrixLayoutSetAttribute(product->layouts[m], LAYOUT_BATCH, &batch, sizeof batch), "a batch",
                  error));
    return PS_OK;
}

/* Calls the library for the matrices from number `first` of the batch on. */
static enum ps_status call(struct cuda_device *device, const struct cuda_product *product, float alpha,
                           const char *const at[MATRICES], int64_t first, float beta, void *workspace, struct ps_error *error) {
    void *const *layouts = product->layouts;
    const char *from[MATRICES];
    int which = ALIGNED;
    for (int m = 0; m < MATRICES; m++) {
        const struct cuda_matrix *matrix = matrix_of(&product->shape, m);
        from[m] = at[m] + first * matrix->stride * (int64_t)number_types[matrix->type].bytes;
        if ((uintptr_t)from[m] % (uintptr_t)product->alignment[m] != 0) which = ANYWHERE;
    }
    const struct proposal *proposal = &product->proposals[which];
    const uintptr_t room = ((uintptr_t)workspace + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
    void *c = (void *)(uintptr_t)from[C];
    return check(cuda.cublasLtMatmul(device->gpu->blas, product->description, &alpha, from[B], layouts[B], from[A], layouts[A],
                                     &beta, c, layouts[C], c, layouts[C], proposal->algorithm, (void *)room,
                                     proposal->workspace_bytes, device->stream),
                 "a product", error);
}

enum ps_status cuda_product_run(struct cuda_device *device, const struct cuda_product *product, float alpha, const void *a,
                                const void *b, float beta, void *c, void *workspace, struct ps_error *error) {
    const char *const at[MATRICES] = {a, b, c};
    const int64_t batch = product->shape.batch, rest = batch % BATCH_MOST;
    if (!product->description) {
        cuda_stand_in->product(&product->shape, alpha, a, b, beta, c);
        return PS_OK;
    }
    if (batch <= BATCH_MOST) return call(device, product, alpha, at, 0, beta, workspace, error);
    for (int64_t first = 0; first + BATCH_MOST <= batch; first += BATCH_MOST)
        TRY(call(device, product, alpha, at, first, beta, workspace, error));
    if (rest == 0) return PS_OK;
    TRY(set_batch(product, rest, error));
    TRY(call(device, product, alpha, at, batch - rest, beta, workspace, error));
    return set_batch(product, BATCH_MOST, error);
}
