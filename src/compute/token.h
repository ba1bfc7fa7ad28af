/* Tokens in samples: how kernels read them, and the check of every embedding before it looks up a vector. */
#ifndef PENSTOCK_COMPUTE_TOKEN_H
#define PENSTOCK_COMPUTE_TOKEN_H

#include "base/error.h"

/* The tokens in an input of type i32; NULL for NULL. */
static inline const int32_t *token_numbers(const float *input) { return (const int32_t *)(const void *)input; }

/* PS_BAD_INPUT where the token is not in 0 .. vocabulary - 1; `index` counts over all samples of `positions` each. */
enum ps_status token_check(int32_t token, int64_t index, int64_t positions, int vocabulary, struct ps_error *error);

#endif
