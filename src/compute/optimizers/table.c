/* All optimizers. A new one is a file next to these with a struct optimizer, and a line here. */
#include "base/table.h"
#include "compute/optimizer.h"

extern const struct optimizer optimizer_sgd, optimizer_sgdm, optimizer_adam, optimizer_adamw;

const struct optimizer *const optimizer_table[] = {
    &optimizer_sgd, &optimizer_sgdm, &optimizer_adam, &optimizer_adamw, NULL,
};

TABLE_FIND(optimizer_find, optimizer, optimizer_table, "optimizer")
