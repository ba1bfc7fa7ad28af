/* The half of the verifier that looks at each instruction alone. */
#ifndef PENSTOCK_PROGRAM_VERIFY_STATIC_H
#define PENSTOCK_PROGRAM_VERIFY_STATIC_H

#include "program/program.h"

enum ps_status verify_each(const struct ps_programs *programs, struct ps_error *error);
/* "worker 1: 1F3@0,s0,i1: REASON", PS_BAD_INPUT. */
enum ps_status verify_refuse(const struct instruction *instruction, int worker, struct ps_error *error, const char *reason);

#endif
