/* Which plugins' code the threads of this process run, in a file that outlives it: for ends that leave no
 * time to say anything, such as _exit. For breadcrumb.c only. */
#ifndef PERDURE_TRAIL_H
#define PERDURE_TRAIL_H

#include <stddef.h>

/* Begins one in this folder, if there can be one. */
void perdure_trail_begin(const char *folder);

/* Notes that this thread enters or leaves code of a plugin. */
void perdure_trail_enter(const char *plugin, const char *target);
void perdure_trail_leave(void);

/* Removes it: the process ends, and says itself what of. Safe in a handler of a signal. */
void perdure_trail_remove(void);

/* Writes "PROCESS\tPLUGIN\tTARGET\n" for each thread that was in code of a plugin when its process ended
 * without removing its own, at most `capacity` bytes, and removes those; how many bytes. */
size_t perdure_trail_collect(const char *folder, char *lines, size_t capacity);

#endif
