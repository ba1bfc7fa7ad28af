/* Summing the shares of the replicas of a stage (struct transport_share), in place. */
#ifndef PENSTOCK_COMM_TRANSPORTS_SUM_H
#define PENSTOCK_COMM_TRANSPORTS_SUM_H

#include "comm/transport.h"

/* Afterwards, or when `device` has executed it (NULL: the host), every share holds the scaled sum of the gradients that are not
 * empty, added in the order of the shares, and the mean of the statistics. All have the same counts. */
void sum_shares(struct device *device, const struct transport_share *shares, int count);

/* The same for two stages: over the first `first` shares, over the others, and then for the tied parameter: the first stage's
 * sum plus the last's, which all then hold. `count` - `first` 0: there is only one stage. */
void sum_stages(struct device *device, const struct transport_share *shares, int first, int count);

#endif
