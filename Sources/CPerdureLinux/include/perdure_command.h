/* Processes with pipes to them. What fails returns -errno. */
#ifndef PERDURE_COMMAND_H
#define PERDURE_COMMAND_H

struct perdure_command {
  /* The ends of pipes that this process reads. */
  int output;
  int errors;
  /* The process, which leads a session and group of its own. */
  int process;
  int handle;
};

/* Starts a program with nothing as its input.
 *
 * The arguments and the variables are texts that end with zeros, one behind the other. `path` names
 * the program; without a slash it is looked for in the PATH of `variables`. It gets no descriptors but
 * its three streams, the default for every signal, and none blocked. */
int perdure_command_start(const char *path, const char *arguments, int argument_count,
                          const char *variables, int variable_count, int folder,
                          struct perdure_command *command);

/* Whether the process has ended, without forgetting it: -1 if not, -2 if so and somebody else has
 * reaped it, else its exit status, or 128 and the number of the signal that ended it. */
int perdure_command_status(int handle);

/* Kills the process and all that stayed in its group. */
void perdure_command_kill(int process);

/* Forgets a process that has ended. */
void perdure_command_reap(int process);

/* A descriptor that becomes readable when it is rung. */
int perdure_bell_make(void);
void perdure_bell_ring(int bell);
void perdure_bell_silence(int bell);

/* Reads what is there; 0 at the end, -EAGAIN if there is nothing yet. */
long long perdure_command_read(int file, void *buffer, long long count);

/* Waits at most `milliseconds`, for ever if negative, until one of up to four descriptors, of which
 * negative ones are passed over, can be read or has ended; a bit for each. */
int perdure_command_wait(int first, int second, int third, int fourth, int milliseconds);

/* Nanoseconds of a clock that never goes back. */
long long perdure_command_clock(void);

/* The value of a variable of this process, or a null pointer. */
const char *perdure_command_variable(const char *name);

/* The next variable of this process as NAME=VALUE, or a null pointer behind the last. */
const char *perdure_command_variable_at(int index);

#endif
