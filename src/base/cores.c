/* See cores.h: what the process is bound to counts, not what the machine has. */
#include "base/cores.h"

#include <sched.h>

int cores_usable(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}
