/* See network.h. */
#include "cli/network.h"

#define OF(member) offsetof(struct network_arguments, member)

static const struct argument rows[] = {
    OPTION("loss", 0, "NAME", text, loss,
           "what the network learns from, in place of its own loss: cross-entropy, next-token, masked, mse, l1, bce"),
    OPTION("class-weights", 0, "W[,W...]", numbers, class_weights, "what labels of each class count in the loss",
           RANGE(0, 1e30)),
    OPTION("init", 0, "FILE", text, init,
           "weights to begin with: safetensors, an index of several (model.safetensors.index.json), or ONNX; what is missing "
           "begins as usual and is listed"),
    OPTION(
        "freeze", 0, "GLOB[,GLOB...]", text, freeze,
        "parameters that keep their values, by name, with * for any characters: without gradients, state of the optimizer or "
        "versions"),
    OPTION("lora", 0, "rank=R,alpha=A,target=GLOB[+GLOB...]", text, lora,
           "train low-rank adapters of the linear layers and convolutions of these names, with all else frozen; also "
           "dropout=RATE, and train=GLOB[+GLOB...] for parameters that are trained as well"),
    OPTION("precision", 0, "f32|bf16|mixed|auto", text, precision,
           "bf16: values and matrices take half the bytes, weights are updated in f32; faster than f32, the default, where the "
           "processor multiplies it faster; mixed: the same, but what residual connections add up stays f32, as PyTorch's "
           "autocast has it; auto: bf16 there"),
};
const struct argument_group network_group = ARGUMENT_GROUP("Network", rows);
const struct argument_group network_base_group = {"Network", rows, sizeof rows / sizeof rows[0] - 1};

enum ps_status network_arguments_open(const struct network_arguments *arguments, const char *model, struct ps_network **network,
                                      struct ps_error *error) {
    struct ps_network *made;
    const struct numbers *weights = &arguments->class_weights;
    const bool loss = arguments->loss != NULL || weights->count > 0;
    const char *needs = arguments->loss != NULL     ? "loss"
                        : weights->count > 0        ? "class-weights"
                        : arguments->init != NULL   ? "init"
                        : arguments->freeze != NULL ? "freeze"
                        : arguments->lora != NULL   ? "lora"
                        : arguments->precision      ? "precision"
                                                    : NULL;
    *network = NULL;
    if (model == NULL && needs != NULL) return message_set(error, PS_USAGE, "--%s: needs --model", needs);
    if (model == NULL) return PS_OK;
    CHECK(ps_network_open(model, &made, error));
    enum ps_status status = PS_OK;
    if (loss) status = ps_network_set_loss(made, arguments->loss, weights->values, weights->count, error);
    if (status == PS_OK && arguments->lora != NULL) status = ps_network_lora(made, arguments->lora, error);
    if (status == PS_OK && arguments->freeze != NULL) status = ps_network_freeze(made, arguments->freeze, error);
    if (status == PS_OK && arguments->precision != NULL) status = ps_network_set_precision(made, arguments->precision, error);
    if (status == PS_OK && arguments->init != NULL) status = ps_network_initialize(made, arguments->init, error);
    if (status == PS_OK)
        *network = made;
    else
        ps_network_destroy(made);
    return status;
}
