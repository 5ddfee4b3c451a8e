/* The two texts of each thread, for the files of this module only; see perdure_text.h. */
#ifndef PERDURE_BUFFERS_H
#define PERDURE_BUFFERS_H

#include <stddef.h>

/* Moves the outgoing text out as a string; NULL with errno if it is none. */
char *perdure_buffer_take_string(void);

/* Moves the outgoing text out as bytes; NULL with errno if there was no memory for it. */
char *perdure_buffer_take(size_t *count);

/* Makes `bytes` the incoming text; its length or -errno. */
long long perdure_buffer_receive(const char *bytes, size_t count);

/* Makes the rest of a file the incoming text, at most `limit` bytes (else -EFBIG); the length. */
long long perdure_buffer_read_all(int descriptor, long long limit);

/* Writes all of the bytes; 0 or -errno. */
int perdure_buffer_write_all(int descriptor, const char *bytes, size_t count);

#endif
