/* Files, variables and streams for callers that use no pointers.
 *
 * Each thread has one outgoing text, which `perdure_text_put` builds in words of up to eight bytes
 * (the first byte is the lowest), and one incoming text, which `perdure_text_word` reads. A call
 * that takes the outgoing text leaves it empty. What fails returns -errno. */
#ifndef PERDURE_TEXT_H
#define PERDURE_TEXT_H

/* Opens /dev/null for each standard stream that is closed, so that no file of ours takes its place
 * and gets what was meant for it. */
void perdure_streams_open(void);

/* Keeps standard output for `perdure_text_queue_output` alone: what others write to descriptor 1 goes
 * to standard error from here on. Call it once, before code of plugins is loaded; 0 or -errno. */
int perdure_text_guard_output(void);

/* Appends the lowest `count` bytes of `word`. */
void perdure_text_put(unsigned long long word, int count);

/* Eight bytes of the incoming text from `index` on; what lies behind its end reads as 0. */
unsigned long long perdure_text_word(long long index);

/* Frees the memory of the incoming text, which otherwise stays as large as its longest one. */
void perdure_text_forget(void);

/* Reads the file that the outgoing text names, at most `limit` bytes (else -EFBIG); the length. */
long long perdure_text_read_file(long long limit);

/* Reads standard input to its end, at most `limit` bytes (else -EFBIG); the length. */
long long perdure_text_read_input(long long limit);

/* The environment variable that the outgoing text names; its length, or -ENOENT. */
long long perdure_text_variable(void);

/* The absolute path without symbolic links of what the outgoing text names; its length. */
long long perdure_text_full_path(void);

/* The working directory; its length. */
long long perdure_text_working_directory(void);

/* What is said of the error `code`; the length. */
long long perdure_text_error(int code);

/* 0: nothing, 1: a file, 2: a folder, 3: something else. */
int perdure_text_path_kind(void);

/* Creates the folder that the outgoing text names and those above it; new ones are private. */
int perdure_text_make_folders(void);

/* Writes the outgoing text to standard error. */
int perdure_text_write_error(void);

/* Queues the outgoing text for standard output, which a thread of its own writes. */
void perdure_text_queue_output(void);

/* Waits until at most `limit` bytes are queued; 0, or -errno if standard output has failed. */
int perdure_text_wait_output(long long limit);

/* Waits until the queue is written; 0 or -errno of the first failure. */
int perdure_text_finish_output(void);

/* 1 if the descriptor is a terminal. */
int perdure_is_terminal(int descriptor);

/* A time of the machine's zone as year, month, day, hour, minute, second in decimal digits:
 * yyyymmddhhmmss, or 0. */
long long perdure_local_time(long long milliseconds);

/* How many minutes that zone is ahead of UTC then. */
int perdure_local_offset(long long milliseconds);

#endif
