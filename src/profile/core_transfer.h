/*
 * What a transfer between two workers on one machine costs, beside what their layers take. The transfer itself copies nothing
 * (blocks change places), but the receiver reads what lies in the caches of another core, and the sender gets a block back that
 * lies there, too.
 */
#ifndef PENSTOCK_PROFILE_CORE_TRANSFER_H
#define PENSTOCK_PROFILE_CORE_TRANSFER_H

#include "base/error.h"

/* Seconds per byte. */
struct core_transfer_rates {
    double copy; /* what was just made into a block that another core has read, or, of a worker alone, into one of its own */
    double take; /* what reading or overwriting another core's block takes longer than one's own */
};

/* `several`: there are other workers on this machine; else `take` is 0, as it is on one core. */
enum ps_status core_transfer_measure(bool several, struct core_transfer_rates *rates, struct ps_error *error);

#endif
