/* Monotonic time in seconds, waiting until such a time, sleeping. */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

double clock_now(void);
/* Returns at `time` (as clock_now counts) to within some microseconds: sleeps, then spins for the last moment. */
void clock_wait_until(double time);
/* Between two looks of a loop that waits without sleeping. */
void clock_pause(void);
/* Sleeps about so long: some ten microseconds more, and never spins. */
void clock_sleep(double seconds);

#endif
