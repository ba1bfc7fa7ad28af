/*
 * oneDNN's C interface, made small. What differs between its generations 2 and 3 stands in dnnl_2.h and is seen by dnnl.c
 * alone.
 *
 * Making a kernel goes through a `draft`: it owns what is needed only for the making, and remembers the first call that failed,
 * so that the code reads as a list of what is wanted and is checked once at the end. Running goes through `struct primitive`:
 * the memory objects are made with it, a call only sets their addresses. The scratchpad always comes from the caller.
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

/* How an array of floats lies in memory. */
struct layout {
    dnnl_memory_desc_t descriptor;
};

int64_t layout_bytes(const struct layout *layout); /* NULL: 0 */
void layout_release(struct layout *layout);
/* Copies an array from one layout to another; padding becomes zeros. For files, not for training: it allocates. */
enum ps_status layout_convert(struct cpu_device *device, const struct layout *from, const float *source,
                              const struct layout *to, float *destination, struct ps_error *error);

enum { PRIMITIVE_ARGUMENTS_MAX = 4, DRAFT_MAX = 96, PLAIN_ROWS = 256 };

/* Something that oneDNN can run. */
struct primitive {
    dnnl_primitive_t handle;                                /* NULL: not made */
    dnnl_exec_arg_t arguments[PRIMITIVE_ARGUMENTS_MAX + 1]; /* the scratchpad is the last */
    int argument_count;
    int64_t scratchpad_bytes;
    const struct node *node;
    const char *part; /* "forward": for messages */
};

/* Runs it with the arrays at `addresses`, in the order in which draft_primitive named the arguments. */
enum ps_status primitive_run(struct primitive *primitive, struct cpu_device *device, const void *const *addresses,
                             void *scratchpad, struct ps_error *error);
void primitive_release(struct primitive *primitive);

struct draft {
    struct cpu_device *device;
    const struct node *node;
    dnnl_status_t status; /* of the first call that failed */
    struct layout layouts[DRAFT_MAX];
    dnnl_primitive_desc_t plans[DRAFT_MAX];
    int layout_count, plan_count;
};

/* Also sets the number of threads, which a primitive takes over when it is made. */
void draft_start(struct draft *draft, struct device *device, const struct node *node);
/* Frees what the draft owns. PS_USAGE where oneDNN cannot do what was asked. */
enum ps_status draft_finish(struct draft *draft, struct ps_error *error);

/* All below do nothing once something has failed, return NULL (false), and accept NULL then. What they return belongs to the
 * draft. */

const struct layout *draft_layout(struct draft *draft, int rank, const int64_t *dims, dnnl_format_tag_t tag);
/* Any steps from one element to the next, by dimension. */
const struct layout *draft_layout_strided(struct draft *draft, int rank, const int64_t *dims, const int64_t *strides);
/* Of weights, features x columns, that many rows of x (rows x columns) are multiplied with: plain rows from PLAIN_ROWS on,
 * below that as oneDNN likes. With many rows its blocked kernels turn the same parts of x and dy over again and again, and take
 * up to three times as long for the weights' gradient as a plain product; with few, a plain product orders the weights anew in
 * every call. */
const struct layout *draft_layout_weights(struct draft *draft, int64_t rows, int64_t features, int64_t columns);
/* That of an argument (DNNL_ARG_...) of a planned primitive. */
const struct layout *draft_layout_of(struct draft *draft, const_dnnl_primitive_desc_t plan, int argument);
/* A copy that outlives the draft. */
void draft_keep(struct draft *draft, const struct layout *layout, struct layout *kept);
bool draft_differ(const struct draft *draft, const struct layout *a, const struct layout *b);

enum pass { PASS_FORWARD, PASS_INPUT, PASS_WEIGHTS };

/* A window that slides over height and width; `pad` before them, `pad_after` behind them. */
struct window {
    dnnl_dims_t kernel, stride, pad, pad_after, dilation; /* oneDNN counts no dilation as 0 */
};

struct window window_of(const struct attributes *attributes);

/* The arrays around a convolution, an inner product or a pooling (which has neither weights nor bias), by their names in the
 * forward; those of the backward are their gradients. */
struct arrays {
    const struct layout *source, *weights, *bias, *destination;
};

/* `relu` (forward only) puts it on the result; `hint` (backward only) is the forward's plan. */
dnnl_primitive_desc_t draft_convolution(struct draft *draft, enum pass pass, const struct arrays *arrays,
                                        const struct window *window, bool relu, const_dnnl_primitive_desc_t hint);
dnnl_primitive_desc_t draft_linear(struct draft *draft, enum pass pass, const struct arrays *arrays, bool relu,
                                   const_dnnl_primitive_desc_t hint);
dnnl_primitive_desc_t draft_pool(struct draft *draft, enum pass pass, dnnl_alg_kind_t algorithm, const struct arrays *arrays,
                                 const struct window *window, const_dnnl_primitive_desc_t hint);
/* product = left right, all matrices, or stacks of as many. */
dnnl_primitive_desc_t draft_product(struct draft *draft, const struct layout *left, const struct layout *right,
                                    const struct layout *product);
dnnl_primitive_desc_t draft_reorder(struct draft *draft, const struct layout *from, const struct layout *to);

/* Whether the plan is oneDNN's slow reference code. */
bool draft_slow(const struct draft *draft, const_dnnl_primitive_desc_t plan);

/* Whether the plan is oneDNN's plain product, which takes memory of its own while it runs. */
bool draft_is_plain(const struct draft *draft, const_dnnl_primitive_desc_t plan);

/* All code of plain products, some 3 MiB, is made in the first of some size: this one, before any memory is counted. */
void make_plain_code(void);

/* Makes a planned primitive, and the code of plain products where it is one; `arguments` are DNNL_ARG_..., 0 at the end.
 * `part` is its name in messages. */
void draft_primitive(struct draft *draft, const_dnnl_primitive_desc_t plan, const char *part, const int *arguments,
                     struct primitive *primitive);

#endif
