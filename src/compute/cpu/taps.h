/* Gradient of a convolution's weights one position of the kernel (a tap) at a time: see taps.c. */
#ifndef PENSTOCK_COMPUTE_CPU_TAPS_H
#define PENSTOCK_COMPUTE_CPU_TAPS_H

#include "compute/cpu/cpu.h"

struct taps;

/* Whether it is faster for this convolution (`input` and node->shape are those of one sample). */
bool taps_fit(const struct node *node, const struct shape *input, int samples);
/* `own` is the layout of the gradient. NULL where memory ran out or the draft failed. */
struct taps *taps_make(struct draft *draft, const struct node *node, const struct shape *input, int samples,
                       const struct layout *own);
void taps_destroy(struct taps *taps);
int64_t taps_workspace(const struct taps *taps);
enum ps_status taps_run(struct taps *taps, const struct kernel_call *call);

#endif
