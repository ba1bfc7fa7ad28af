/* What the kernel says of another process. */
#ifndef PENSTOCK_CLI_PROCESS_STATE_H
#define PENSTOCK_CLI_PROCESS_STATE_H

#include <stdbool.h>
#include <sys/types.h>

/* As in /proc/PID/stat: 'T' is stopped, 'Z' has ended; '\0': nobody knows. *parent (NULL is fine) is the process that it is
 * below. */
char process_state(pid_t process, pid_t *parent);
/* Is a process below this one, at any depth, stopped? */
bool process_stopped_below(pid_t process);

#endif
