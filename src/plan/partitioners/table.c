/* The partitioners that `plan --method` offers, one line each. */
#include "plan/partitioner.h"

extern const struct partitioner partitioner_uniform, partitioner_pipedream, partitioner_bapipe;

const struct partitioner *const partitioner_table[] = {
    &partitioner_pipedream,
    &partitioner_bapipe,
    &partitioner_uniform,
    NULL,
};
