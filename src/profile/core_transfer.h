/*
 * The additional cost of a transfer between two workers on one machine. The transfer itself copies nothing (the two blocks are
 * swapped). But the receiver reads a block that is in the caches of another core, and the sender gets back a block that is
 * there, too.
 */
#ifndef PENSTOCK_PROFILE_CORE_TRANSFER_H
#define PENSTOCK_PROFILE_CORE_TRANSFER_H

#include "base/error.h"

/* Seconds per byte. */
struct core_transfer_rates {
    double copy; /* to copy a fresh value into a block that another core has read (one worker: into its own block) */
    double take; /* additional time to read or overwrite a block in another core's cache, compared with the own cache */
};

/* `several`: there are other workers on this machine; else `take` is 0, as it is on one core. */
enum ps_status core_transfer_measure(bool several, struct core_transfer_rates *rates, struct ps_error *error);

#endif
