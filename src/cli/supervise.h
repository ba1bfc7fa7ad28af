/* Training in a child process that is restarted when it is lost. */
#ifndef PENSTOCK_CLI_SUPERVISE_H
#define PENSTOCK_CLI_SUPERVISE_H

#include "cli/training.h"

/*
 * Runs the command without --restarts and --launch in a child process, under the launcher if one is given. If the child is lost
 * (killed, stopped for 10 s, a descendant stopped for 20 s, status 6), it is restarted with --resume, at most --restarts times;
 * if it is lost twice in succession without a newer checkpoint, with one worker less. SIGTERM, SIGINT and SIGHUP are forwarded
 * as SIGTERM. Returns the status of its last end, with an empty message if it has printed the reason itself.
 */
enum ps_status supervise(const struct train_arguments *arguments, struct ps_error *error);

#endif
