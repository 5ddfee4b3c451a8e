#ifndef PERDURE_CLOCK_H
#define PERDURE_CLOCK_H

#include <stdint.h>

/* Milliseconds since 1970 (CLOCK_REALTIME). */
int64_t perdure_realtime_ms(void);

/* Nanoseconds of CLOCK_MONOTONIC, the clock of deadlines in the plugin ABI. */
int64_t perdure_monotonic_ns(void);

#endif
