/* Tokens as numbers in a sample: what every device's embedding checks before it looks a vector up. */
#ifndef PENSTOCK_COMPUTE_TOKEN_H
#define PENSTOCK_COMPUTE_TOKEN_H

#include "base/error.h"

/* PS_BAD_INPUT where the token is none of 0 .. vocabulary - 1; `index` counts over all samples of `positions` each. */
enum ps_status token_check(float token, int64_t index, int64_t positions, int vocabulary, struct ps_error *error);

#endif
