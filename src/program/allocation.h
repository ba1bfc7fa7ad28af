/* Numbers for blocks, instruction by instruction: what the allocate pass does with whole programs (program/passes/allocate.c).
 */
#ifndef PENSTOCK_PROGRAM_ALLOCATION_H
#define PENSTOCK_PROGRAM_ALLOCATION_H

#include "program/program.h"

struct allocation;

/* Of programs whose blocks are all free. */
enum ps_status allocation_create(const struct ps_programs *programs, struct allocation **allocation, struct ps_error *error);
/* Numbers the blocks of the worker's next instruction. PS_USAGE: more are held at once than numbers go. */
enum ps_status allocation_next(struct allocation *allocation, const struct ps_programs *programs, int worker,
                               struct instruction *instruction, struct ps_error *error);
void allocation_destroy(struct allocation *allocation);

#endif
