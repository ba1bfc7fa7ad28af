/* What this process can tell of the machine that it runs on. */
#ifndef PENSTOCK_RUN_PROCESSES_THIS_MACHINE_H
#define PENSTOCK_RUN_PROCESSES_THIS_MACHINE_H

#include "run/processes.h"

struct process_info this_machine(void);

#endif
