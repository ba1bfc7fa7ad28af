/* Sizes, rates and times as people write them, and the nearest name to a misspelt one. */
#ifndef PENSTOCK_BASE_UNITS_H
#define PENSTOCK_BASE_UNITS_H

#include "base/error.h"

/* "512MiB", "2GB", "1024" -> bytes; "100Mbit/s", "12GB/s" -> bytes per second; "50us", "1.5ms", "2s" -> seconds.
 * `name` is what messages call the value (for example "--memory"). Negative, absurd and non-finite values are PS_USAGE. */
enum ps_status units_parse_size(const char *text, const char *name, int64_t *bytes, struct ps_error *error);
enum ps_status units_parse_rate(const char *text, const char *name, double *bytes_per_s, struct ps_error *error);
enum ps_status units_parse_time(const char *text, const char *name, double *seconds, struct ps_error *error);

/* The entry of names[0..count-1] that is nearest to `word` in edit distance, or NULL where none is near. */
const char *nearest_name(const char *word, const char *const *names, size_t count);

#endif
