/* Taking structs of the caller's; see versioned.h. */
#include "base/versioned.h"

#include <string.h>

enum ps_status versioned_take(const void *given, size_t least, void *own, size_t size, const char *name,
                              struct ps_error *error) {
    size_t of_caller;
    memcpy(&of_caller, given, sizeof of_caller);
    if (of_caller < least || of_caller > size) {
        error_set(error, PS_USAGE, "struct_size: %zu bytes are no %s of this library, which has %zu", of_caller, name, size);
        error_hint(error, "set it with the struct's _init function, or to its sizeof");
        return PS_USAGE;
    }
    memcpy(own, given, of_caller);
    memcpy(own, &size, sizeof size);
    return PS_OK;
}

void versioned_give(const void *own, size_t own_size, void *result, size_t size) {
    size_t known = own_size < size ? own_size : size;
    memcpy(result, own, known);
    memset((char *)result + known, 0, size - known);
}
