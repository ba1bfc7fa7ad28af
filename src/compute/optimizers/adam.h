/* What adam and adamw share: they differ in where the weight decay goes. */
#ifndef PENSTOCK_COMPUTE_OPTIMIZERS_ADAM_H
#define PENSTOCK_COMPUTE_OPTIMIZERS_ADAM_H

#include "compute/optimizer.h"

/* `decoupled`: the decay shrinks the weights by themselves; otherwise it is part of the gradient. */
void adam_update(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled);
void adam_predict(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled);
/* With a coupled decay the weights are read too; without any they may be NULL. */
void adam_observe(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled);

#endif
