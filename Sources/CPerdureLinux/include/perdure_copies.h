/* Files that are read or written as a stream, and what takes its name only when it is complete.
 *
 * Paths and data are the outgoing text of perdure_text.h, results the incoming one. What fails
 * returns -errno. Descriptors are closed with perdure_file_close. */
#ifndef PERDURE_COPIES_H
#define PERDURE_COPIES_H

/* Opens the file at the outgoing path for reading, pipes too. */
int perdure_stream_open(void);

/* Creates or empties the file at the outgoing path, private to the user. */
int perdure_stream_create(void);

/* Reads at most `count` bytes; the length, 0 at the end. */
long long perdure_stream_read(int file, long long count);

/* Gives the outgoing path `old\0new` its new name, unless that is taken (-EEXIST), and makes it
 * last. */
int perdure_path_publish(void);

/* Removes the file or the empty folder at the outgoing path; 0 too if there is none. */
int perdure_path_remove(void);

/* 1 if the outgoing path names something, symbolic links not followed. */
int perdure_path_is_taken(void);

/* When the file at the outgoing path was last written, in nanoseconds since 1970. */
long long perdure_path_stamp(void);

/* Begins a SHA-256 digest; a handle above 0. */
long long perdure_digest_begin(void);

/* Adds the outgoing text. */
int perdure_digest_add(long long handle);

/* Ends it; its 32 bytes are the incoming text. */
long long perdure_digest_end(long long handle);

#endif
