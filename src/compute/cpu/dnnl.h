/*
 * A small interface over oneDNN's C interface. The differences between its generations 2 and 3 are in dnnl_2.h, which only
 * dnnl.c includes.
 *
 * A kernel is created through a `draft`: it owns the objects that are needed only during creation and records the first call
 * that failed, so that the calls follow each other and are checked once at the end. A kernel runs through `struct primitive`:
 * its memory objects are created with it, and a call only sets their addresses. The scratchpad always comes from the caller.
 */
#ifndef PENSTOCK_COMPUTE_CPU_DNNL_H
#define PENSTOCK_COMPUTE_CPU_DNNL_H

#include <dnnl.h>

#include "compute/device.h"

struct cpu_device {
    struct device device;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* How many threads a call of oneDNN uses is a setting of the calling thread in OpenMP, which may be that of a program that uses
 * the library. It is the device's between these two; the first returns what the second restores. */
int cpu_enter(const struct cpu_device *device);
void cpu_leave(int threads);

/* Do the processor and oneDNN multiply bf16, and sum in f32, faster than f32? Where they do not, products are computed in f32,
 * unless ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 asks for the vectors of bf16. */
bool cpu_multiplies_bf16(void);
/* Does it multiply tiles of bf16 (AMX), several times as fast as vectors? */
bool cpu_has_tiles(void);

/* How an array lies in memory, and the type of its elements. */
struct layout {
    dnnl_memory_desc_t descriptor;
};

int64_t layout_bytes(const struct layout *layout); /* NULL: 0 */
void layout_release(struct layout *layout);
/* Copies an array from one layout to another; padding becomes zeros. For files, not for training: it allocates. */
enum ps_status layout_convert(struct cpu_device *device, const struct layout *from, const float *source,
                              const struct layout *to, float *destination, struct ps_error *error);

enum { PRIMITIVE_ARGUMENTS_MAX = 4, DRAFT_MAX = 96, PLAIN_ROWS = 256 };

/* A primitive of oneDNN. */
struct primitive {
    dnnl_primitive_t handle;                                /* NULL: not created */
    dnnl_exec_arg_t arguments[PRIMITIVE_ARGUMENTS_MAX + 1]; /* the scratchpad is the last */
    int argument_count;
    int64_t scratchpad_bytes;
    const struct node *node;
    const char *part; /* "forward": for messages */
};

/* Runs it with the arrays at `addresses`, in the order of the arguments of draft_primitive. */
enum ps_status primitive_run(struct primitive *primitive, struct cpu_device *device, const void *const *addresses,
                             void *scratchpad, struct ps_error *error);
void primitive_release(struct primitive *primitive);

struct draft {
    struct cpu_device *device;
    const struct node *node;
    enum number_type type; /* f32 or bf16, of the layouts that are made next; f32 at the start */
    dnnl_status_t status;  /* of the first call that failed */
    struct layout layouts[DRAFT_MAX];
    dnnl_primitive_desc_t plans[DRAFT_MAX];
    int layout_count, plan_count;
    int threads; /* for cpu_leave */
};

/* Until draft_finish this thread has the device's number of threads, which a primitive reads when it is created. */
void draft_start(struct draft *draft, struct device *device, const struct node *node);
/* Frees what the draft owns. PS_USAGE where oneDNN cannot do what was requested. */
enum ps_status draft_finish(struct draft *draft, struct ps_error *error);

/* Once something has failed, the functions below do nothing, return NULL (false) and accept NULL. Their results belong to the
 * draft. */

const struct layout *draft_layout(struct draft *draft, int rank, const int64_t *dims, dnnl_format_tag_t tag);
/* With the strides of each dimension. */
const struct layout *draft_layout_strided(struct draft *draft, int rank, const int64_t *dims, const int64_t *strides);
/* Of weights (features x columns) for products with `rows` rows of x (rows x columns): plain rows from PLAIN_ROWS on, below
 * that oneDNN's choice. With many rows its blocked kernels transpose the same parts of x and dy repeatedly, and take up to
 * three times as long for the weights' gradient as a plain product; with few, a plain product reorders the weights in every
 * call. */
const struct layout *draft_layout_weights(struct draft *draft, int64_t rows, int64_t features, int64_t columns);
/* The layout of an argument (DNNL_ARG_...) of a planned primitive. */
const struct layout *draft_layout_of(struct draft *draft, const_dnnl_primitive_desc_t plan, int argument);
/* A copy that outlives the draft. */
void draft_keep(struct draft *draft, const struct layout *layout, struct layout *kept);
bool draft_differ(const struct draft *draft, const struct layout *a, const struct layout *b);

enum pass { PASS_FORWARD, PASS_INPUT, PASS_WEIGHTS };

/* A window that slides over height and width; padding `pad` before them and `pad_after` after them. */
struct window {
    dnnl_dims_t kernel, stride, pad, pad_after, dilation; /* oneDNN counts no dilation as 0 */
};

struct window window_of(const struct attributes *attributes);

/* The arrays of a convolution, an inner product or a pooling (which has neither weights nor bias), by their names in the
 * forward; those of the backward are their gradients. */
struct arrays {
    const struct layout *source, *weights, *bias, *destination;
};

/* `relu` (forward only) applies a ReLU to the result; `hint` (backward only) is the forward's plan. */
dnnl_primitive_desc_t draft_convolution(struct draft *draft, enum pass pass, const struct arrays *arrays,
                                        const struct window *window, bool relu, const_dnnl_primitive_desc_t hint);
dnnl_primitive_desc_t draft_linear(struct draft *draft, enum pass pass, const struct arrays *arrays, bool relu,
                                   const_dnnl_primitive_desc_t hint);
dnnl_primitive_desc_t draft_pool(struct draft *draft, enum pass pass, dnnl_alg_kind_t algorithm, const struct arrays *arrays,
                                 const struct window *window, const_dnnl_primitive_desc_t hint);
/* A function of each element, of PASS_FORWARD or PASS_INPUT; all arrays have one layout. */
dnnl_primitive_desc_t draft_elementwise(struct draft *draft, enum pass pass, dnnl_alg_kind_t algorithm,
                                        const struct layout *array, const_dnnl_primitive_desc_t hint);
/* product = left right, all matrices, or stacks of as many. */
dnnl_primitive_desc_t draft_product(struct draft *draft, const struct layout *left, const struct layout *right,
                                    const struct layout *product);
/* product += left right */
dnnl_primitive_desc_t draft_product_added(struct draft *draft, const struct layout *left, const struct layout *right,
                                          const struct layout *product);
/* product = left right with a bias (1 x columns of the product; NULL: none), times a factor, with a ReLU on the result. */
dnnl_primitive_desc_t draft_product_finished(struct draft *draft, const struct layout *left, const struct layout *right,
                                             const struct layout *bias, const struct layout *product, float scale, bool relu);
dnnl_primitive_desc_t draft_reorder(struct draft *draft, const struct layout *from, const struct layout *to);

/* Whether the plan is oneDNN's slow reference code. */
bool draft_slow(const struct draft *draft, const_dnnl_primitive_desc_t plan);

/* Whether the plan is oneDNN's plain product, which allocates memory while it runs. */
bool draft_is_plain(const struct draft *draft, const_dnnl_primitive_desc_t plan);

/* oneDNN generates the code of all plain products, some 3 MiB, in the first one of some size: this one, before any memory is
 * counted. */
void make_plain_code(void);

/* Creates a planned primitive, and generates the code of plain products where it is one; `arguments` are DNNL_ARG_..., 0 at the
 * end. `part` is its name in messages. */
void draft_primitive(struct draft *draft, const_dnnl_primitive_desc_t plan, const char *part, const int *arguments,
                     struct primitive *primitive);

#endif
