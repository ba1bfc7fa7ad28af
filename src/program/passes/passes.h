/* What the passes share: rewriting each worker's list into a new one. */
#ifndef PENSTOCK_PROGRAM_PASSES_PASSES_H
#define PENSTOCK_PROGRAM_PASSES_PASSES_H

#include "program/lower.h"

/* Calls `visit` for every instruction of every worker in order; what it appends to `out` becomes the worker's new program. */
enum ps_status pass_rewrite(struct ps_programs *programs,
                            enum ps_status (*visit)(void *context, const struct ps_programs *programs, int worker, int index,
                                                    struct program *out, struct ps_error *error),
                            void *context, struct ps_error *error);

#endif
