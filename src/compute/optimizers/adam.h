/* What adam and adamw share: they differ in how weight decay is applied. */
#ifndef PENSTOCK_COMPUTE_OPTIMIZERS_ADAM_H
#define PENSTOCK_COMPUTE_OPTIMIZERS_ADAM_H

#include "compute/optimizer.h"

/* `decoupled`: the decay is applied to the weights directly; otherwise it is part of the gradient. */
void adam_update(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled);
void adam_predict(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled);
/* With coupled decay the weights are read; without decay they may be NULL. */
void adam_observe(const struct optimizer_settings *settings, const struct optimizer_call *call, bool decoupled);

#endif
