/*
 * Measured profiles that are kept in a directory, so that a network is profiled once on a machine and the same command plans
 * the same way again. An entry is of one network (by its hash), its precision, a device with its threads and busy workers, the
 * sizes of micro-batch, a processor with its cores, and this version; anything else is measured anew. So is what a run did not
 * agree with, once: times may be of a moment when the machine had other work. Where they come out as before, the disagreement
 * has another reason, and they stay.
 */
#ifndef PENSTOCK_PROFILE_CACHE_H
#define PENSTOCK_PROFILE_CACHE_H

#include <stdbool.h>

#include "base/error.h"

/* The profile of ps_profile_measure: from the directory if it is there and whole, else measured, after `announcement` was
 * logged, and kept. `directory` NULL: measured. A directory that cannot be written is no error. */
enum ps_status profile_cache_measure(const char *directory, const struct ps_network *network,
                                     const struct ps_profile_options *options, const char *announcement,
                                     struct ps_profile **profile, struct ps_error *error);

/* A run was not as fast as this profile had predicted: what is kept of its network and device is to be measured anew when it is
 * wanted next. False: it is not, because the profile is not kept, or was measured anew before and came out the same. */
bool profile_cache_doubt(const struct ps_profile *profile);

#endif
