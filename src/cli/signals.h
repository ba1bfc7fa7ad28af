/* Signals that ask a command to end. */
#ifndef PENSTOCK_CLI_SIGNALS_H
#define PENSTOCK_CLI_SIGNALS_H

/* From now on SIGTERM, SIGINT and SIGHUP set what is returned; a second one ends the process at once. SIGXFSZ becomes an error
 * of the write that causes it. */
const volatile int *stop_on_signals(void);

#endif
