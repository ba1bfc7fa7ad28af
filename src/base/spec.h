/* "name,key=value,key=value" and "name:rest": short specifications that select an entry of a table and set its options. */
#ifndef PENSTOCK_BASE_SPEC_H
#define PENSTOCK_BASE_SPEC_H

#include "base/error.h"

#define SPEC_OPTIONS_MAX 16
/* Of the longest specification, and so of a built-in network's name: one layer split for each of many workers has to fit. */
enum { SPEC_SIZE = 4096 };

struct spec {
    char buffer[SPEC_SIZE];
    const char *name;
    struct spec_option {
        const char *key, *value;
        bool used;
    } pair[SPEC_OPTIONS_MAX];
    int count;
};

/* `what` names the thing in messages ("--model"). Empty names, repeated keys and pairs without '=' are PS_USAGE. */
enum ps_status spec_parse(const char *spec, const char *what, struct spec *options, struct ps_error *error);
/* Value of a key as an integer or number in [low, high]; the output is unchanged if the key is missing. Marks the key as used.
 */
enum ps_status spec_int(struct spec *options, const char *key, int low, int high, int *out, struct ps_error *error);
enum ps_status spec_number(struct spec *options, const char *key, double low, double high, double *out, struct ps_error *error);
enum ps_status spec_string(struct spec *options, const char *key, const char **out, struct ps_error *error);
/* Fails on the first key that was not used, and suggests the nearest of `keys`. */
enum ps_status spec_finish(const struct spec *options, const char *what, const char *const *keys, size_t count,
                           struct ps_error *error);

#endif
