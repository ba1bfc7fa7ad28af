/*
 * Inside of the cuda device. Each device has a stream of its own; all devices of a process on one GPU share its context, its
 * memory and its compiled kernels.
 *
 * An operator is a struct cuda_class: the source of its kernels (sources/NAME.cu), which is compiled for the types, the shapes
 * and the attributes of a node when the node's kernel is made, and the launches that each of its parts consists of. Operators
 * that multiply matrices have functions of their own, which call a library (product.c, convolve.c) and launch the rest.
 */
#ifndef PENSTOCK_COMPUTE_CUDA_CUDA_H
#define PENSTOCK_COMPUTE_CUDA_CUDA_H

#include "base/text.h"
#include "compute/cuda/api.h"
#include "compute/device.h"
#define CALL_INPUTS GRAPH_INPUTS_MAX
#include "compute/cuda/sources/call.h"

struct cuda_gpu {
    int number, device, multiprocessors, major, minor;
    char name[128];
    size_t memory_bytes;
    void *context, *blas;
};

struct cuda_device {
    struct device device;
    struct cuda_gpu *gpu; /* of the process */
    void *stream, *dnn;
    bool tf32; /* may products of f32 round their factors to TF32? */
    struct fault *fault;
    enum ps_status status; /* of the first call that failed outside of kernels */
    struct ps_error error;
    struct cuda_queue *queue; /* device.c: events and staging */
};

/* Makes the GPU's context the calling thread's. */
void cuda_enter(const struct cuda_device *device);

/* ---------------------------------------------------------------------- kernels */

enum { CUDA_LAUNCHES = 4, CUDA_BLOCK = 256 };

enum cuda_grid {
    GRID_FOURS,   /* a thread for four of `count` things: EACH4 */
    GRID_ONES,    /* a thread for each: EACH */
    GRID_TEAMS,   /* a team for each: TEAM_ROWS */
    GRID_COLUMNS, /* column_partial of columns.h: for a.count columns, a.number[0] rows and a.number[1] pieces */
    GRID_TILES,   /* column_finish, likewise */
    GRID_BLOCKS,  /* a block of CUDA_BLOCK threads for each */
    GRID_TEAM,    /* a single block, a team of its own */
};

/* One launch of a kernel of the operator's source. */
struct cuda_launch {
    const char *name; /* NULL: there is no further one */
    enum cuda_grid grid;
    int64_t (*count)(const struct kernel *kernel); /* NULL: elements of the output; of teams and blocks its rows; of columns
                                                      its features */
};

struct cuda_class {
    struct kernel_class type;
    const char *source; /* in sources/, without .cu; NULL: it has none */
    struct cuda_launch forward[CUDA_LAUNCHES], backward_input[CUDA_LAUNCHES], backward_weight[CUDA_LAUNCHES],
        backward_shared[CUDA_LAUNCHES];
    int64_t (*row)(const struct kernel *kernel); /* elements of a team's row, which say TEAM and VECTOR; NULL: its features */
    /* More constants for the source, as lines "#define NAME VALUE". NULL: none. */
    void (*define)(const struct kernel *kernel, struct text *out);
};

/* Every kernel of the device. Operators with more extend it as their first member and give its size. */
struct cuda_kernel {
    struct kernel kernel;
    const struct cuda_module *module;
    int64_t scratch_offset; /* in the workspace: what columns.h adds up, behind what set_sizes asked for */
};

/* Slots for struct kernel_class. cuda_prepare compiles the source; cuda_forward and the others run the class's launches. A
 * class without its own `prepare` names CUDA_KERNEL in its `type` and after it the parts that it has. */
enum ps_status cuda_prepare(struct kernel *kernel, struct ps_error *error);
bool cuda_native(const struct kernel *kernel);
kernel_function cuda_forward, cuda_backward_input, cuda_backward_weight, cuda_backward_shared;
#define CUDA_KERNEL .size = sizeof(struct cuda_kernel), .native = cuda_native, .prepare = cuda_prepare

static inline const struct cuda_class *cuda_class_of(const struct kernel *kernel) {
    return (const struct cuda_class *)kernel->type;
}
static inline struct cuda_device *cuda_device_of(const struct kernel *kernel) { return (struct cuda_device *)kernel->device; }

/* A kernel's call as its launches get it. */
struct call cuda_call_of(const struct kernel *kernel, const struct kernel_call *call);

/* What a launch gets beside the kernel's call. */
struct cuda_extra {
    int64_t count; /* 0: as struct cuda_launch says */
    void *more[CALL_MORE];
    int64_t number[CALL_NUMBERS];
    float factor[CALL_FACTORS];
};

/* Launches one kernel of the node's source; `extra` may be NULL. Launches of GRID_COLUMNS and GRID_TILES get what columns.h
 * wants; by default their rows are those of the output, unless extra->number[0] says how many. */
enum ps_status cuda_run(struct kernel *kernel, const struct kernel_call *call, const struct cuda_launch *launch,
                        const struct cuda_extra *extra);
/* The same for each of the launches, up to the first without a name. */
enum ps_status cuda_run_all(struct kernel *kernel, const struct kernel_call *call, const struct cuda_launch *launches,
                            const struct cuda_extra *extra);
/* Bytes of scratch memory that sums over `rows` of `columns` need, with COLUMN_SUMS of them, and into how many pieces the rows
 * are divided. A class whose source includes columns.h adds them to workspace_bytes with cuda_take_columns, after all else. */
int64_t cuda_column_pieces(const struct cuda_device *device, int64_t rows, int64_t columns);
void cuda_take_columns(struct kernel *kernel, int64_t rows, int64_t columns, int sums);

/* --------------------------------------------------------------- compiled sources */

/* Compiles a source with constants ("#define ..." lines), or finds it compiled. It stays until the process ends. */
enum ps_status cuda_compile(struct cuda_device *device, const char *source, const char *defines,
                            const struct cuda_module **module, struct ps_error *error);
/* The kernel's address; asserts that there is one. */
void *cuda_function(const struct cuda_module *module, const char *name);
/* The text of sources/NAME; NULL: there is none. */
const char *cuda_text(const char *name);
/* Launches `blocks` blocks of `threads`. */
enum ps_status cuda_launch(struct cuda_device *device, void *function, int64_t blocks, int threads, const void *argument,
                           struct ps_error *error);

/* ----------------------------------------------------------------------- products */

/*
 * c = alpha a' b' + beta c of matrices in rows, `batch` of them. a' (rows, depth) is a, or the transpose of a where
 * transpose_a; b' (depth, columns) likewise; c (rows, columns). A matrix lies in rows `pitch` elements apart, and matrices of a
 * batch `stride` elements apart. Factors of both types may be mixed only where both are bf16 or both f32.
 */
struct cuda_matrix {
    enum number_type type;
    bool transposed;
    int64_t pitch, stride;
};
struct cuda_product_shape {
    int64_t rows, columns, depth, batch;
    struct cuda_matrix a, b, c;
};
struct cuda_product;
enum ps_status cuda_product_create(struct cuda_device *device, const struct cuda_product_shape *shape,
                                   struct cuda_product **product, struct ps_error *error);
void cuda_product_destroy(struct cuda_product *product); /* NULL is fine */
int64_t cuda_product_workspace(const struct cuda_product *product);
enum ps_status cuda_product_run(struct cuda_device *device, const struct cuda_product *product, float alpha, const void *a,
                                const void *b, float beta, void *c, void *workspace, struct ps_error *error);

/* -------------------------------------------------------------------- convolutions */

/* y (N, OH, OW, O) of x (N, H, W, C) with weights (O, KH, KW, C / groups), all in this order of memory. */
enum cuda_convolution_pass { CONVOLUTION_FORWARD, CONVOLUTION_INPUT, CONVOLUTION_WEIGHTS };
struct cuda_convolution_shape {
    enum cuda_convolution_pass pass;
    int64_t samples, x[3], y[3]; /* C, H, W */
    int64_t kernel[2], stride[2], pad_before[2], pad_after[2], dilation[2], groups;
    enum number_type x_type, w_type, y_type; /* of what is written, too: the gradient in place of the value */
};
struct cuda_convolution;
enum ps_status cuda_convolution_create(struct cuda_device *device, const struct cuda_convolution_shape *shape,
                                       struct cuda_convolution **convolution, struct ps_error *error);
void cuda_convolution_destroy(struct cuda_convolution *convolution); /* NULL is fine */
int64_t cuda_convolution_workspace(const struct cuda_convolution *convolution);
/* The pass writes y, x or w from the other two. */
enum ps_status cuda_convolution_run(struct cuda_device *device, const struct cuda_convolution *convolution, void *x, void *w,
                                    void *y, void *workspace, struct ps_error *error);

/* Functions that stand in for the libraries' in tests on machines without a GPU. NULL: the libraries'. */
struct cuda_stand_in {
    void (*product)(const struct cuda_product_shape *shape, float alpha, const void *a, const void *b, float beta, void *c);
    void (*convolution)(const struct cuda_convolution_shape *shape, void *x, void *w, void *y);
};
extern const struct cuda_stand_in *cuda_stand_in;

#endif
