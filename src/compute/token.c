/* The check of a token: see token.h. */
#include "compute/token.h"

enum ps_status token_check(int32_t token, int64_t index, int64_t positions, int vocabulary, struct ps_error *error) {
    if (token >= 0 && token < vocabulary) return PS_OK;
    return error_set(error, PS_BAD_INPUT, "token %d of sample %lld at position %lld: the network has the tokens 0 to %d", token,
                     (long long)(index / positions), (long long)(index % positions), vocabulary - 1);
}
