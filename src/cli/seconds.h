/* The time that has passed, by a clock that nobody sets. */
#ifndef PENSTOCK_CLI_SECONDS_H
#define PENSTOCK_CLI_SECONDS_H

#include <time.h>

static inline double seconds_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
