#ifndef PERDURE_EXECUTOR_H
#define PERDURE_EXECUTOR_H

/* Lets threads of our own run the Swift tasks of this process, in place of libdispatch's, whose pool
 * wakes once a second for ever after its first task and hands nearly every task to another thread.
 *
 * To be called once, by a program, first thing in its asynchronous `main`; a library leaves the choice
 * to its program. 0, or a negative error number, after which libdispatch runs the tasks as before. */
int perdure_executor_install(void);

#endif
