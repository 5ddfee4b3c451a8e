/* Commands that take input while they run. What fails returns -errno. */
#ifndef PERDURE_SESSION_H
#define PERDURE_SESSION_H

/* Writes what there is room for; -EAGAIN if there is none, and never a signal. */
long long perdure_session_write(int file, const void *bytes, long long count);

/* Waits at most `milliseconds`, for ever if negative, until one of up to four descriptors can be read
 * or has ended, or the fifth can be written; negative ones are passed over; a bit for each. */
int perdure_session_wait(int first, int second, int third, int fourth, int written,
                         int milliseconds);

/* Lets reading and writing a descriptor not wait. */
int perdure_session_prepare(int file);

/* Gives a terminal another size, which its foreground is told of. */
int perdure_session_resize(int terminal, int rows, int columns);

/* Whether a group of processes has a member. */
int perdure_session_has_group(int group);

#endif
