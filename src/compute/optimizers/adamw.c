/* AdamW (Loshchilov and Hutter, 2019) as PyTorch's: Adam with decoupled weight decay; see adam.c. */
#include "compute/optimizers/adam.h"

static void update(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    adam_update(settings, call, true);
}

static void predict(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    adam_predict(settings, call, true);
}

static void observe(const struct optimizer_settings *settings, const struct optimizer_call *call) {
    adam_observe(settings, call, true);
}

const struct optimizer optimizer_adamw = {
    .name = "adamw",
    .summary = "Adam with decoupled weight decay",
    .moments = 2,
    .moment_names = {"exp_avg", "exp_avg_sq"},
    .adam_settings = true,
    .defaults = {.lr = 0.001, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    .update = update,
    .predict = predict,
    .observe = observe,
};
