/* Training under a process that starts it again when it is lost. */
#ifndef PENSTOCK_CLI_SUPERVISE_H
#define PENSTOCK_CLI_SUPERVISE_H

#include "cli/training.h"

/*
 * Runs the command as it was given, but for --restarts and --launch, in a process of its own, below the launcher where there is
 * one. When that process is lost (killed, stopped for 10 s, a process below it for 20 s, status 6), it is started again with
 * --resume, at most so many times; where it is lost twice in a row without a newer checkpoint, by one worker less. SIGTERM and
 * the like go on to it. Returns the status that it ended with at last, with an empty message where it has said why itself.
 */
enum ps_status supervise(const struct train_arguments *arguments, struct ps_error *error);

#endif
