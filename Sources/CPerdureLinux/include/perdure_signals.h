#ifndef PERDURE_SIGNALS_H
#define PERDURE_SIGNALS_H

/* Takes over SIGINT and SIGTERM and ignores SIGPIPE.
 *
 * The first signal calls `first` on a thread of its own; the second ends the process at once with
 * the status 128 + signal. Returns 0 or -errno. */
int perdure_signals_watch(void (*first)(int signal));

/* Calls `handler` when something else than `perdure_process_end` exits the process, such as a plugin
 * that calls exit() or quick_exit(); it runs on the thread that calls them. If it returns, the status is 1. Returns 0 or -errno. */
int perdure_process_watch_exit(void (*handler)(void));

/* Ends the process at once: no destructor runs while code of a plugin may still be running. */
_Noreturn void perdure_process_end(int status);

/* Waits for another thread to end the process. */
_Noreturn void perdure_process_wait(void);

#endif
