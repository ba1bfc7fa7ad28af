/* Options that say more about the network that --model names, for every command that has that option. */
#ifndef PENSTOCK_CLI_NETWORK_H
#define PENSTOCK_CLI_NETWORK_H

#include "cli/command.h"

struct network_arguments {
    const char *loss, *init, *freeze, *lora, *precision;
    struct numbers class_weights;
};

extern const struct argument_group network_group;
extern const struct argument_group network_base_group; /* without --precision, for commands that have a list of them */

/* The network of --model as the options want it. `model` NULL: *network becomes NULL, and none of the options may be given. */
enum ps_status network_arguments_open(const struct network_arguments *arguments, const char *model, struct ps_network **network,
                                      struct ps_error *error);

#endif
