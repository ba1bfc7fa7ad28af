/* See network.h. */
#include "cli/network.h"

#define OF(member) offsetof(struct network_arguments, member)

static const struct argument rows[] = {
    OPTION(
        "freeze", 0, "GLOB[,GLOB...]", text, freeze,
        "parameters that keep their values, by name, with * for any characters: without gradients, state of the optimizer or "
        "versions"),
};
const struct argument_group network_group = ARGUMENT_GROUP("Network", rows);

enum ps_status network_arguments_open(const struct network_arguments *arguments, const char *model, struct ps_network **network,
                                      struct ps_error *error) {
    struct ps_network *made;
    *network = NULL;
    if (model == NULL && arguments->freeze != NULL) return message_set(error, PS_USAGE, "--freeze: needs --model");
    if (model == NULL) return PS_OK;
    CHECK(ps_network_open(model, &made, error));
    enum ps_status status = arguments->freeze != NULL ? ps_network_freeze(made, arguments->freeze, error) : PS_OK;
    if (status == PS_OK)
        *network = made;
    else
        ps_network_destroy(made);
    return status;
}
