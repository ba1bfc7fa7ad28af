/* What the verifier finds beside right or wrong (ps_programs_verify). */
#ifndef PENSTOCK_PROGRAM_VERIFY_H
#define PENSTOCK_PROGRAM_VERIFY_H

#include "program/program.h"

/* The largest number of the stage's updates that fall between a forward and its own backward. */
enum ps_status programs_staleness(const struct ps_programs *programs, int stage, int *staleness, struct ps_error *error);

#endif
