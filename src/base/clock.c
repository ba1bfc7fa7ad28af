/*
 * Waiting with a precision of microseconds: a sleep ends late by the timer's slack (50 us by default) and the scheduler's
 * delay, so the sleep ends a little early, and a spin loop waits for the rest.
 */
#include "base/clock.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#define SPIN_S 60e-6
/* A turn of a spin loop takes less, unless another thread has run. */
#define TURN_S 50e-6

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clock_now(void) { return read_clock(CLOCK_MONOTONIC); }

double clock_of_thread(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

static void sleep_until(double time) {
    struct timespec until = {.tv_sec = (time_t)time};
    until.tv_nsec = (long)((time - (double)until.tv_sec) * 1e9);
    int slack = prctl(PR_GET_TIMERSLACK);
    prctl(PR_SET_TIMERSLACK, 1ul);
    /* A signal ends the sleep early; the caller must not spin for the rest, which may be seconds. */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
    if (slack > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
}

static void pause_processor(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

bool clock_spin(double until) {
    double before = clock_now();
    pause_processor();
    sched_yield();
    double after = clock_now();
    return after < until && after - before < TURN_S;
}

void clock_wait_until(double time) {
    if (clock_now() < time - SPIN_S) sleep_until(time - SPIN_S);
    while (clock_now() < time) pause_processor();
}

void clock_sleep(double seconds) { sleep_until(clock_now() + seconds); }
