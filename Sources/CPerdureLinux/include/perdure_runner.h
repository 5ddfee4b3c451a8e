/* Processes that run plugins, and the datagrams between them and their host.
 *
 * What fails returns -errno. Descriptors are closed with perdure_runner_close. */
#ifndef PERDURE_RUNNER_H
#define PERDURE_RUNNER_H

#include <stddef.h>
#include <stdint.h>

/* What a process may use; 0 leaves a limit as it is. */
typedef struct perdure_runner_limits {
  uint64_t data_bytes;    /* private memory that can be written */
  uint64_t files;
  uint64_t processes; /* of this user in all, which is how the kernel counts */
} perdure_runner_limits;

/* A process that was started. */
typedef struct perdure_runner_process {
  int32_t process;
  int32_t pidfd;
  int32_t socket;
  int32_t output; /* its standard output */
  int32_t errors; /* its standard error */
  int32_t crash;  /* what its crash handler says */
} perdure_runner_process;

/* The descriptors of the process itself. */
#define PERDURE_RUNNER_SOCKET 3
#define PERDURE_RUNNER_CRASH 4

/* Starts `arguments` with `variables`, both ended by a null pointer, in a process group of its own
 * that is killed when the calling thread ends. */
int perdure_runner_spawn(const char *const *arguments, const char *const *variables,
                         const perdure_runner_limits *limits, perdure_runner_process *out);

/* Kills the process and its group. */
void perdure_runner_kill(int32_t process);

/* Collects the end of a process: 0 if it still runs, else 1 and in `status` its exit status, or
 * minus its signal. */
int perdure_runner_collect(int32_t process, int32_t *status);

/* How many processes and threads this user has. */
int64_t perdure_runner_user_tasks(void);

/* Sends a datagram of two parts and a descriptor (-1 = none); never waits: -EAGAIN. */
int perdure_frame_send(int socket, const void *head, size_t head_size, const void *rest,
                       size_t rest_size, int descriptor);

/* Receives a datagram: its size, 0 at the end of the connection. `descriptor` gets the one that came with it, or -1.
 * Never waits: -EAGAIN. -EBADMSG: it was cut off, or had more than one descriptor. */
long perdure_frame_receive(int socket, void *buffer, size_t capacity, int *descriptor);

/* Makes sealed memory with a copy of bytes; its descriptor. */
int perdure_memory_make(const void *bytes, size_t size);

/* Copies sealed memory of exactly this size; closes it in any case. -EBADMSG: it is not sealed, or
 * has another size. */
int perdure_memory_take(int descriptor, void *bytes, size_t size);

/* What a wait can find. */
#define PERDURE_READY_SOCKET 1
#define PERDURE_READY_END 2
#define PERDURE_READY_OUTPUT 4
#define PERDURE_READY_ERRORS 8
#define PERDURE_READY_WAKE 16
#define PERDURE_READY_SPACE 32

/* Waits until something happens; the PERDURE_READY_ bits, 0 when the time is over. Negative
 * descriptors are left out; `space` asks whether the socket takes more. */
int perdure_runner_wait(const perdure_runner_process *process, int wake, int space,
                        int milliseconds);

/* A descriptor that ends a wait, and how to set and clear it. */
int perdure_wake_make(void);
void perdure_wake_set(int wake);
void perdure_wake_clear(int wake);

/* Reads what is there: the size, 0 at the end, -EAGAIN. */
long perdure_runner_read(int descriptor, void *buffer, size_t capacity);

void perdure_runner_close(int descriptor);

/* In the runner: says to descriptor PERDURE_RUNNER_CRASH with which signal and in which code of the
 * plugin this process crashes. */
void perdure_runner_report_crashes(void);

/* Ends this process at once with a sentence on standard error. */
_Noreturn void perdure_runner_exit(int status, const char *sentence);

#endif
