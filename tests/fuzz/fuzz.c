/* One target of targets.h for libFuzzer: that which the program is named after. */
#include "targets.h"

static const struct fuzz_target *target;

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    const char *slash = strrchr(**arguments, '/'), *name = slash != NULL ? slash + 1 : **arguments;
    (void)count;
    for (size_t t = 0; t < sizeof fuzz_targets / sizeof *fuzz_targets; t++)
        if (strcmp(fuzz_targets[t].name, name) == 0) target = &fuzz_targets[t];
    if (target == NULL) fprintf(stderr, "the program is named after no target\n"), abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    target->run(data, size);
    return 0;
}
