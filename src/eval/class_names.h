/* The names of a network's classes, where the run or the data know them. */
#ifndef PENSTOCK_EVAL_CLASS_NAMES_H
#define PENSTOCK_EVAL_CLASS_NAMES_H

#include "base/error.h"

struct dataset;
struct json_t;

struct class_names {
    const char **name; /* by label; borrowed from the run's configuration, or from the data */
    int count;         /* 0: nobody knows them */
    struct json_t *config;
};

/* The names that the run was trained with (`class_names` of its config.json), else those of the data; `run` may be NULL. The
 * data stay open as long as the names are used. class_names_free ends it, also after a failure. */
enum ps_status class_names_find(const char *run, const struct dataset *dataset, struct class_names *out,
                                struct ps_error *error);
void class_names_free(struct class_names *names);

#endif
