/* Tokens as numbers in a sample: how kernels read them, and what every embedding checks before it looks a vector up. */
#ifndef PENSTOCK_COMPUTE_TOKEN_H
#define PENSTOCK_COMPUTE_TOKEN_H

#include "base/error.h"

/* The numbers that an input of type i32 holds; NULL of NULL. */
static inline const int32_t *token_numbers(const float *input) { return (const int32_t *)(const void *)input; }

/* PS_BAD_INPUT where the token is none of 0 .. vocabulary - 1; `index` counts over all samples of `positions` each. */
enum ps_status token_check(int32_t token, int64_t index, int64_t positions, int vocabulary, struct ps_error *error);

#endif
