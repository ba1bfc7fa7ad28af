/* Convolutions in bf16 as products of matrices, one position of the kernel (a tap) at a time: see tap_products.c. */
#ifndef PENSTOCK_COMPUTE_CPU_TAP_PRODUCTS_H
#define PENSTOCK_COMPUTE_CPU_TAP_PRODUCTS_H

#include "compute/cpu/cpu.h"

struct tap_products;

/* What is computed so: where it is faster than oneDNN's convolutions. `input` and node->shape are those of one sample. */
enum tap_use { TAP_NOTHING, TAP_GRADIENT /* of the weights */, TAP_ALL };
enum tap_use tap_products_use(const struct node *node, const struct shape *input);

/* Weights and their gradient lie as (kh, kw, C, O). NULL where memory ran out or the draft failed. */
struct tap_products *tap_products_make(struct draft *draft, const struct node *node, const struct shape *input, int samples,
                                       bool relu);
void tap_products_destroy(struct tap_products *products);
int64_t tap_products_workspace(const struct tap_products *products);
/* y, dx, and dw with db, all in bf16 but dw and db; the first two with TAP_ALL only. */
enum ps_status tap_products_forward(struct tap_products *products, const struct kernel_call *call);
enum ps_status tap_products_input(struct tap_products *products, const struct kernel_call *call);
enum ps_status tap_products_weights(struct tap_products *products, const struct kernel_call *call);

#endif
