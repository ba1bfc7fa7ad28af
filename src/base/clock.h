/* Monotonic time in seconds, waiting until such a time, sleeping. */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

#include <stdbool.h>

double clock_now(void);
/* Seconds for which the calling thread had a processor. */
double clock_of_thread(void);
/* Returns at `time` (on the clock of clock_now) with a precision of microseconds: sleeps, then spins for the last 60 us. */
void clock_wait_until(double time);
/* One turn of a loop that waits without sleeping: pauses, and lets threads run that wait for this processor. False once `until`
 * has passed, or if such a thread ran: better sleep then than take turns with it. */
bool clock_spin(double until);
/* Sleeps for this time and some ten microseconds more; never spins. */
void clock_sleep(double seconds);

#endif
