/* The launcher of sandboxes, as its host starts it. What fails returns -errno. */
#ifndef PERDURE_SANDBOX_H
#define PERDURE_SANDBOX_H

/* The host's ends of a sandbox that was started; -1 for what is not there. */
struct perdure_sandbox {
  int output;   /* what the command writes */
  int errors;
  int status;   /* records of the launcher, to its end */
  int lifeline; /* closing it ends the sandbox and all in it */
  int control;  /* orders in, descriptors out */
  int process;  /* the launcher; 0 for an order to a holder */
  int handle;   /* can be read once the launcher has ended */
  int input;    /* what the command reads, if that was wanted */
};

/* Starts the launcher at `path` with a policy. Its input is empty unless `with_input` is set. */
int perdure_sandbox_start(const char *path, const void *policy, long long length, int with_input,
                          struct perdure_sandbox *sandbox);

/* Gives an order to a holder through its control socket. */
int perdure_sandbox_order(int holder, const void *order, long long length, int with_input,
                          struct perdure_sandbox *sandbox);

/* Sends one or two bytes of control. */
int perdure_sandbox_control(int control, int order, int argument);

/* Takes a descriptor that the launcher sent, and the message with it, of at most 16 bytes: the
 * length of the message, 0 at the end, -EAGAIN if there is none yet. */
int perdure_sandbox_receive(int control, void *message, int *descriptor);

/* Forgets a launcher that has ended: its exit status, or 128 and the number of its signal. */
int perdure_sandbox_reap(int process);

void perdure_sandbox_close(int descriptor);

#endif
