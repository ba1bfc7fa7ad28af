/*
 * Measured profiles that are kept in a directory, so that a network is profiled once on a machine and the same command plans
 * the same way again. An entry is of one network (by its hash), its precision, a device with its threads and busy workers, the
 * sizes of micro-batch, a processor with its cores, and this version; anything else is measured anew.
 */
#ifndef PENSTOCK_PROFILE_CACHE_H
#define PENSTOCK_PROFILE_CACHE_H

#include "base/error.h"

/* The profile of ps_profile_measure: from the directory if it is there and whole, else measured, after `announcement` was
 * logged, and kept. `directory` NULL: measured. A directory that cannot be written is no error. */
enum ps_status profile_cache_measure(const char *directory, const struct ps_network *network,
                                     const struct ps_profile_options *options, const char *announcement,
                                     struct ps_profile **profile, struct ps_error *error);

#endif
