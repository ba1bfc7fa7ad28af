/*
 * Numbers too small for a normal float (below 1.2e-38) count as zero while arithmetic runs: a processor takes a hundred times
 * longer for them, and moments of weights that do not change any more decay into them. The mode is the thread's; whoever sets
 * it gives it back.
 */
#ifndef PENSTOCK_BASE_DENORMALS_H
#define PENSTOCK_BASE_DENORMALS_H

#include <stdint.h>

/* Returns the mode as it was, for denormals_restore. */
uint64_t denormals_flush(void);
void denormals_restore(uint64_t mode);

#endif
