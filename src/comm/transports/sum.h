/* Adding up what the replicas of a stage bring (struct transport_share), in place. */
#ifndef PENSTOCK_COMM_TRANSPORTS_SUM_H
#define PENSTOCK_COMM_TRANSPORTS_SUM_H

#include "comm/transport.h"

/* Afterwards, or where `device` has come to it (NULL: the host), every share holds the scaled sum of the gradients that are not
 * empty, added in the order of the shares, and the mean of the statistics. Their counts are the same. */
void sum_shares(struct device *device, const struct transport_share *shares, int count);

/* The same over two stages: of the first `first` shares, of the others, and then of what is tied: the first stage's sum plus
 * the last's, which all then hold. `count` - `first` 0: there is but one stage. */
void sum_stages(struct device *device, const struct transport_share *shares, int first, int count);

#endif
