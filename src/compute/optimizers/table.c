/* All optimizers. A new one is a file beside these with a struct optimizer, and a line here. */
#include <string.h>

#include "compute/optimizer.h"

extern const struct optimizer optimizer_sgd, optimizer_sgdm, optimizer_adam, optimizer_adamw;

const struct optimizer *const optimizer_table[] = {
    &optimizer_sgd, &optimizer_sgdm, &optimizer_adam, &optimizer_adamw, NULL,
};

enum ps_status optimizer_find(const char *name, const struct optimizer **optimizer, struct ps_error *error) {
    const char *names[16];
    size_t count = 0;
    for (; optimizer_table[count] != NULL && count < sizeof names / sizeof *names; count++) {
        names[count] = optimizer_table[count]->name;
        if (strcmp(names[count], name) != 0) continue;
        *optimizer = optimizer_table[count];
        return PS_OK;
    }
    return error_unknown(error, PS_USAGE, "optimizer", name, names, count);
}
