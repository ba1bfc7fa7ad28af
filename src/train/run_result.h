/* A finished run: its figures, for the caller and for summary.json. */
#ifndef PENSTOCK_TRAIN_RUN_RESULT_H
#define PENSTOCK_TRAIN_RUN_RESULT_H

#include <jansson.h>

#include "base/arena.h"
#include "base/spec.h"

struct ps_run {
    char network[17]; /* the hash; "": not known */
    char model[SPEC_SIZE], method[32], schedule[32], weights[32], optimizer[32], device[32], transport[32];
    int batch, micro_batches;
    double lr; /* of the last update */
    char best_by[16];
    struct ps_run_info info;
    struct ps_run_worker *worker; /* info.workers, as are: */
    struct ps_run_process *process;
    struct ps_run_point *points;
    int point_count;
    size_t point_capacity;
    struct arena arena;
};

enum ps_status run_add_point(struct ps_run *run, const struct ps_run_point *point, struct ps_error *error);
enum ps_status run_create(int workers, struct ps_run **run, struct ps_error *error);
/* The document of summary.json; NULL when memory ran out. */
json_t *run_document(const struct ps_run *run);

#endif
