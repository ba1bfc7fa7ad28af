/* Summing the shares of the instances of a reduce group (struct transport_share), in place. */
#ifndef PENSTOCK_COMM_TRANSPORTS_SUM_H
#define PENSTOCK_COMM_TRANSPORTS_SUM_H

#include "comm/transport.h"

/* Afterwards, or when `device` has executed it (NULL: the host), every share holds the scaled sum of the gradients that are not
 * empty, added in the order of the shares, and the mean of the statistics. All have the same counts. */
void sum_shares(struct device *device, const struct transport_share *shares, int count);

/* The shares of a group's stages stand together, in the order of the stages. */
struct sum_stage {
    int number, first, replicas; /* of the stage; its first share; so many */
};

/* The same for each stage, and then for each parameter that these stages share: the gradients of its uses, in their order, of
 * each stage's first share. The first use of every share then has the sum. */
void sum_stages(struct device *device, const struct transport_share *shares, const struct sum_stage *stages, int stage_count,
                const struct tied_parameter *tied, int tied_count);

/* Uses of a parameter in a stage, and where the first of them stands in transport_share.tied. */
int tied_uses_in(const struct tied_parameter *parameter, int stage);
int tied_position(const struct tied_parameter *tied, int parameter, int stage);

#endif
