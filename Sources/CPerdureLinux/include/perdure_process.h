/* What the kernel knows of a running process. Functions that can fail return a negative number. */
#ifndef PERDURE_PROCESS_H
#define PERDURE_PROCESS_H

#include <stdint.h>

/* The resident size of a process in KiB (`VmRSS`). */
int64_t perdure_process_resident_kib(int process);

/* How often threads of a process wake up in the next `seconds`: how often they stopped to wait, and how
   many are new. */
int64_t perdure_process_wakeups(int process, int seconds);

#endif
