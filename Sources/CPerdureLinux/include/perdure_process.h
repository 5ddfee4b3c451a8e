/* What the kernel knows of a running process. Functions that can fail return a negative number. */
#ifndef PERDURE_PROCESS_H
#define PERDURE_PROCESS_H

#include <stdint.h>

/* The resident size of a process in KiB (`VmRSS`). */
int64_t perdure_process_resident_kib(int process);

/* How often the threads of a process have been given a processor so far. */
int64_t perdure_process_switches(int process);

#endif
