/* Questions to whoever sits at the terminal. */
#ifndef PERDURE_TERMINAL_H
#define PERDURE_TERMINAL_H

/* Reads one line of standard input on a thread of its own and calls `done` there: with the length of
 * the line, which is the thread's incoming text (perdure_text.h), without its line end and at most
 * 64 KiB of it, or with -ENODATA at the end of the input, or -errno. Returns 0, or -errno if there is
 * no thread and `done` is not called. */
int perdure_terminal_read(void (*done)(long long count));

#endif
