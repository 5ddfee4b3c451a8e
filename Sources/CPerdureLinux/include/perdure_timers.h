#ifndef PERDURE_TIMERS_H
#define PERDURE_TIMERS_H

#include <stdint.h>

/* Starts the one thread of timers of the process; called once. It calls `look`, which does what is due
 * and returns when it wants to be called again, in nanoseconds of CLOCK_MONOTONIC, or INT64_MAX. Until
 * then the thread sleeps in the kernel and wakes for nothing. 0, or a negative error number. */
int perdure_timers_start(int64_t (*look)(void));

/* Makes the thread call `look` now, because something is due earlier than it knows. */
void perdure_timers_wake(void);

#endif
