#define _GNU_SOURCE
#include "perdure_sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The launcher's descriptors: three streams, policy, status, lifeline, control. */
enum { INPUT, OUTPUT, ERRORS, POLICY, STATUS, LIFELINE, CONTROL, PLACES };

/* Above the places, so that putting descriptors in place closes none of them. */
static int lifted(int descriptor) {
  if (descriptor < 0) return -1;
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, 16);
  close(descriptor);
  return high;
}

void perdure_sandbox_close(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

static void close_places(const int *places) {
  for (int i = 0; i < PLACES; i++) perdure_sandbox_close(places[i]);
}

static void close_ours(struct perdure_sandbox *sandbox) {
  int *ours[] = {&sandbox->output,   &sandbox->errors,  &sandbox->status,
                 &sandbox->lifeline, &sandbox->control, &sandbox->handle,
                 &sandbox->input};
  for (unsigned i = 0; i < sizeof ours / sizeof *ours; i++) {
    perdure_sandbox_close(*ours[i]);
    *ours[i] = -1;
  }
}

/* A policy is handed over in memory of its own: no pipe has to be fed while nobody reads. */
static int policy_file(const void *policy, long long length) {
  int file = memfd_create("policy", MFD_CLOEXEC);
  const char *next = policy;
  while (file >= 0 && length > 0) {
    ssize_t written = write(file, next, (size_t)length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      close(file);
      return -1;
    }
    next += written;
    length -= written;
  }
  if (file >= 0 && lseek(file, 0, SEEK_SET) != 0) {
    close(file);
    return -1;
  }
  return file;
}

static int make_pipe(int *reader, int *writer) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  *reader = lifted(ends[0]);
  *writer = lifted(ends[1]);
  return *reader < 0 || *writer < 0 ? -1 : 0;
}

static int make_ends(int *places, struct perdure_sandbox *sandbox, const void *policy,
                     long long length, int with_input) {
  int sockets[2] = {-1, -1};
  for (int i = 0; i < PLACES; i++) places[i] = -1;
  *sandbox = (struct perdure_sandbox){-1, -1, -1, -1, -1, 0, -1, -1};
  if (!with_input) places[INPUT] = lifted(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (with_input && make_pipe(&places[INPUT], &sandbox->input) != 0) return -1;
  places[POLICY] = lifted(policy_file(policy, length));
  if (places[INPUT] < 0 || places[POLICY] < 0) return -1;
  if (make_pipe(&sandbox->output, &places[OUTPUT]) != 0) return -1;
  if (make_pipe(&sandbox->errors, &places[ERRORS]) != 0) return -1;
  if (make_pipe(&sandbox->status, &places[STATUS]) != 0) return -1;
  if (make_pipe(&places[LIFELINE], &sandbox->lifeline) != 0) return -1;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return -1;
  sandbox->control = lifted(sockets[0]);
  places[CONTROL] = lifted(sockets[1]);
  if (sandbox->control < 0 || places[CONTROL] < 0) return -1;
  int without_wait[] = {sandbox->output, sandbox->errors, sandbox->status, sandbox->input};
  for (int i = 0; i < 4; i++) {
    if (without_wait[i] >= 0 && fcntl(without_wait[i], F_SETFL, O_NONBLOCK) != 0) return -1;
  }
  return 0;
}

/* In the child, which shares the memory of the parent: only system calls. The launcher sets
   everything else itself, because it trusts nothing that it inherits. */
static int become(const char *path, const int *places) {
  for (int i = 0; i < PLACES; i++) {
    if (dup2(places[i], i) < 0) return errno;
  }
  if (syscall(SYS_close_range, (unsigned)PLACES, ~0U, 0U) != 0) return errno;
  for (int number = 1; number < NSIG; number++) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, &plain, NULL);
  }
  /* A session of its own: no signal of the host's terminal reaches it. */
  if (setsid() < 0) return errno;
  char *arguments[] = {(char *)"perdure-sandbox", (char *)"--run", NULL};
  char *nothing[] = {NULL};
  execve(path, arguments, nothing);
  return errno;
}

int perdure_sandbox_start(const char *path, const void *policy, long long length, int with_input,
                          struct perdure_sandbox *sandbox) {
  int places[PLACES];
  volatile int error = make_ends(places, sandbox, policy, length, with_input) == 0 ? 0 : errno;
  volatile pid_t process = -1;
  if (error == 0) {
    sigset_t all, mask;
    sigfillset(&all);
    /* A handler of the host must not run in the child, whose memory is the host's. */
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    process = vfork();
    if (process == 0) {
      error = become(path, places);
      _exit(127);
    }
    if (process < 0) error = errno;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
  }
  close_places(places);
  if (error == 0) {
    sandbox->process = process;
    sandbox->handle = (int)syscall(SYS_pidfd_open, process, 0);
    if (sandbox->handle < 0) error = errno;
  }
  if (error == 0) return 0;
  /* Without its lifeline a launcher that did start ends by itself. */
  close_ours(sandbox);
  if (process > 0) perdure_sandbox_reap(process);
  sandbox->process = 0;
  return -error;
}

union rights {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(PLACES * sizeof(int))];
};

int perdure_sandbox_order(int holder, const void *order, long long length, int with_input,
                          struct perdure_sandbox *sandbox) {
  int places[PLACES];
  int error = make_ends(places, sandbox, order, length, with_input) == 0 ? 0 : errno;
  if (error == 0) {
    union rights rights;
    memset(&rights, 0, sizeof rights);
    char word = 'x';
    struct iovec part = {.iov_base = &word, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = rights.bytes,
                             .msg_controllen = sizeof rights.bytes};
    struct cmsghdr *item = CMSG_FIRSTHDR(&message);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(PLACES * sizeof(int));
    memcpy(CMSG_DATA(item), places, PLACES * sizeof(int));
    ssize_t sent;
    do {
      sent = sendmsg(holder, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent != 1) error = sent < 0 ? errno : EMSGSIZE;
  }
  close_places(places);
  if (error != 0) close_ours(sandbox);
  return -error;
}

int perdure_sandbox_control(int control, int order, int argument) {
  unsigned char bytes[2] = {(unsigned char)order, (unsigned char)argument};
  ssize_t sent;
  do {
    sent = send(control, bytes, argument > 0 ? 2 : 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : 0;
}

int perdure_sandbox_receive(int control, void *message, int *descriptor) {
  union rights rights;
  struct iovec part = {.iov_base = message, .iov_len = 16};
  struct msghdr header = {.msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = rights.bytes,
                          .msg_controllen = sizeof rights.bytes};
  ssize_t length;
  do {
    length = recvmsg(control, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (length < 0 && errno == EINTR);
  *descriptor = -1;
  if (length < 0) return -errno;
  for (struct cmsghdr *item = CMSG_FIRSTHDR(&header); item != NULL;
       item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    int count = (int)((item->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < count; i++) {
      int found;
      memcpy(&found, CMSG_DATA(item) + (size_t)i * sizeof(int), sizeof found);
      perdure_sandbox_close(*descriptor);
      *descriptor = found;
    }
  }
  return (int)length;
}

int perdure_sandbox_reap(int process) {
  int status = 0;
  pid_t got;
  do {
    got = waitpid(process, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return -errno;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
