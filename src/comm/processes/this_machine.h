/* What this process can tell of the machine that it runs on. */
#ifndef PENSTOCK_COMM_PROCESSES_THIS_MACHINE_H
#define PENSTOCK_COMM_PROCESSES_THIS_MACHINE_H

#include "comm/processes.h"

struct process_info this_machine(void);
/* Is it there, and neither stopped nor ended? By its number on this host; false where that is not known. */
bool process_runs(int32_t process);

#endif
