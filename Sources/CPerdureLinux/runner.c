#define _GNU_SOURCE
#include "perdure_runner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perdure_breadcrumb.h"

void perdure_runner_close(int descriptor) {
  if (descriptor >= 0) close(descriptor);
}

/* ------------------------------------------------------------ processes */

/* Descriptors of the child: what becomes 0, 1, 2, 3 and 4. */
enum { CHILD_DESCRIPTORS = 5 };

static void limit(int which, uint64_t value) {
  struct rlimit now;
  if (value == 0 || getrlimit(which, &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max) value = now.rlim_max;
  struct rlimit next = {.rlim_cur = value, .rlim_max = value};
  setrlimit(which, &next);
}

/* In the child, which shares the memory of the parent: only system calls. */
static int become(const int *descriptors, const char *const *arguments,
                  const char *const *variables, const perdure_runner_limits *limits,
                  const sigset_t *mask, pid_t parent) {
  if (setpgid(0, 0) != 0) return errno;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return errno;
  if (getppid() != parent) return ESRCH;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (int i = 0; i < CHILD_DESCRIPTORS; i++)
    if (dup2(descriptors[i], i) < 0) return errno;
  if (syscall(SYS_close_range, (unsigned)CHILD_DESCRIPTORS, ~0u, 0u) != 0) return errno;
  limit(RLIMIT_DATA, limits->data_bytes);
  limit(RLIMIT_NOFILE, limits->files);
  limit(RLIMIT_NPROC, limits->processes);
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (int number = 1; number < NSIG; number++) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigaction(number, &plain, NULL);
  }
  sigprocmask(SIG_SETMASK, mask, NULL);
  execve(arguments[0], (char *const *)arguments, (char *const *)variables);
  return errno;
}

/* A descriptor above those of the child, so that putting those in place closes none of them. */
static int lifted(int descriptor) {
  if (descriptor < 0) return -1;
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, 16);
  close(descriptor);
  return high;
}

static int make_descriptors(int *child, perdure_runner_process *out) {
  int sockets[2] = {-1, -1}, pipes[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
  int failed = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0;
  for (int i = 0; i < 3 && !failed; i++) failed = pipe2(pipes[i], O_CLOEXEC) != 0;
  int error = failed ? errno : 0;
  int size = 1 << 20;
  for (int i = 0; i < 2 && !failed; i++)
    setsockopt(sockets[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  child[0] = lifted(open("/dev/null", O_RDONLY | O_CLOEXEC));
  child[1] = lifted(pipes[0][1]);
  child[2] = lifted(pipes[1][1]);
  child[3] = lifted(sockets[1]);
  child[4] = lifted(pipes[2][1]);
  out->socket = lifted(sockets[0]);
  out->output = lifted(pipes[0][0]);
  out->errors = lifted(pipes[1][0]);
  out->crash = lifted(pipes[2][0]);
  int mine[] = {out->socket, out->output, out->errors, out->crash};
  for (int i = 0; i < 4 && error == 0; i++) {
    if (mine[i] < 0)
      error = EMFILE;
    else
      fcntl(mine[i], F_SETFL, fcntl(mine[i], F_GETFL) | O_NONBLOCK);
  }
  for (int i = 0; i < CHILD_DESCRIPTORS && error == 0; i++)
    if (child[i] < 0) error = EMFILE;
  return error;
}

static void close_all(perdure_runner_process *process) {
  perdure_runner_close(process->pidfd);
  perdure_runner_close(process->socket);
  perdure_runner_close(process->output);
  perdure_runner_close(process->errors);
  perdure_runner_close(process->crash);
  *process = (perdure_runner_process){0, -1, -1, -1, -1, -1};
}

int perdure_runner_spawn(const char *const *arguments, const char *const *variables,
                         const perdure_runner_limits *limits, perdure_runner_process *out) {
  int child[CHILD_DESCRIPTORS];
  *out = (perdure_runner_process){0, -1, -1, -1, -1, -1};
  volatile int error = make_descriptors(child, out);
  volatile pid_t process = -1;
  if (error == 0) {
    sigset_t all, mask;
    sigfillset(&all);
    pid_t parent = getpid();
    /* A handler of the host must not run in the child, whose memory is the host's. */
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    process = vfork();
    if (process == 0) {
      error = become(child, arguments, variables, limits, &mask, parent);
      _exit(127);
    }
    if (process < 0) error = errno;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
  }
  for (int i = 0; i < CHILD_DESCRIPTORS; i++) perdure_runner_close(child[i]);
  if (error == 0) {
    out->process = process;
    out->pidfd = (int)syscall(SYS_pidfd_open, process, 0);
    if (out->pidfd < 0) error = errno;
  }
  if (error != 0) {
    if (process > 0) {
      kill(process, SIGKILL);
      while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
      }
    }
    close_all(out);
  }
  return -error;
}

void perdure_runner_kill(int32_t process) {
  if (process <= 0) return;
  kill(-process, SIGKILL);
  kill(process, SIGKILL);
}

int perdure_runner_collect(int32_t process, int32_t *status) {
  int end = 0;
  pid_t got;
  do got = waitpid(process, &end, WNOHANG);
  while (got < 0 && errno == EINTR);
  if (got == 0) return 0;
  *status = got < 0 ? 255 : WIFSIGNALED(end) ? -WTERMSIG(end) : WEXITSTATUS(end);
  return 1;
}

int64_t perdure_runner_user_tasks(void) {
  DIR *folder = opendir("/proc");
  if (folder == NULL) return -errno;
  int64_t count = 0;
  struct dirent *entry;
  while ((entry = readdir(folder)) != NULL) {
    char path[300], line[256];
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    snprintf(path, sizeof path, "/proc/%s/status", entry->d_name);
    FILE *file = fopen(path, "re");
    if (file == NULL) continue;
    unsigned user = 0, threads = 0;
    while (fgets(line, sizeof line, file) != NULL) {
      sscanf(line, "Uid: %u", &user);
      if (sscanf(line, "Threads: %u", &threads) == 1) break;
    }
    fclose(file);
    if (user == getuid()) count += threads;
  }
  closedir(folder);
  return count;
}

/* ------------------------------------------------------------ datagrams */

union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

int perdure_frame_send(int socket, const void *head, size_t head_size, const void *rest,
                       size_t rest_size, int descriptor) {
  struct iovec parts[] = {{(void *)head, head_size}, {(void *)rest, rest_size}};
  union control control;
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = rest_size > 0 ? 2 : 1};
  if (descriptor >= 0) {
    memset(&control, 0, sizeof control);
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  ssize_t sent;
  do sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : 0;
}

/* Takes the descriptor out of a message and closes any others; whether there were others. */
static int take_descriptor(struct msghdr *message, int *descriptor) {
  int more = 0;
  for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
       part = CMSG_NXTHDR(message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int one;
      memcpy(&one, CMSG_DATA(part) + i * sizeof(int), sizeof one);
      if (*descriptor < 0) {
        *descriptor = one;
      } else {
        close(one);
        more = 1;
      }
    }
  }
  return more;
}

long perdure_frame_receive(int socket, void *buffer, size_t capacity, int *descriptor) {
  union control control;
  struct iovec part = {buffer, capacity};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof control.bytes};
  *descriptor = -1;
  ssize_t got;
  do got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return errno == ECONNRESET ? 0 : -errno;
  int more = take_descriptor(&message, descriptor);
  if (more || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
    perdure_runner_close(*descriptor);
    *descriptor = -1;
    return -EBADMSG;
  }
  return got;
}

/* ------------------------------------------------------------ memory */

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

int perdure_memory_make(const void *bytes, size_t size) {
  int memory = memfd_create("perdure", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return -errno;
  for (size_t written = 0; written < size;) {
    ssize_t count = write(memory, (const char *)bytes + written, size - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      int error = count < 0 ? errno : ENOSPC;
      close(memory);
      return -error;
    }
    written += (size_t)count;
  }
  if (fcntl(memory, F_ADD_SEALS, SEALS) != 0) {
    int error = errno;
    close(memory);
    return -error;
  }
  return memory;
}

int perdure_memory_take(int descriptor, void *bytes, size_t size) {
  struct stat status;
  int seals = fcntl(descriptor, F_GET_SEALS);
  int result = 0;
  if (seals < 0 || (seals & SEALS) != SEALS || fstat(descriptor, &status) != 0 ||
      status.st_size < 0 || (uint64_t)status.st_size != size) {
    result = -EBADMSG;
  } else if (size > 0) {
    void *mapped = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (mapped == MAP_FAILED) {
      result = -errno;
    } else {
      memcpy(bytes, mapped, size);
      munmap(mapped, size);
    }
  }
  close(descriptor);
  return result;
}

/* ------------------------------------------------------------ waiting */

int perdure_runner_wait(const perdure_runner_process *process, int wake, int space,
                        int milliseconds) {
  struct pollfd waits[] = {
      {process->socket, (short)(POLLIN | (space ? POLLOUT : 0)), 0},
      {process->pidfd, POLLIN, 0},
      {process->output, POLLIN, 0},
      {process->errors, POLLIN, 0},
      {wake, POLLIN, 0},
  };
  int count = poll(waits, sizeof waits / sizeof *waits, milliseconds);
  if (count < 0) return errno == EINTR ? 0 : -errno;
  int ready = 0;
  short any = POLLIN | POLLHUP | POLLERR | POLLNVAL;
  if (waits[0].revents & any) ready |= PERDURE_READY_SOCKET;
  if (waits[0].revents & POLLOUT) ready |= PERDURE_READY_SPACE;
  if (waits[1].revents & any) ready |= PERDURE_READY_END;
  if (waits[2].revents & any) ready |= PERDURE_READY_OUTPUT;
  if (waits[3].revents & any) ready |= PERDURE_READY_ERRORS;
  if (waits[4].revents & any) ready |= PERDURE_READY_WAKE;
  return ready;
}

int perdure_wake_make(void) {
  int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return wake < 0 ? -errno : wake;
}

void perdure_wake_set(int wake) {
  uint64_t one = 1;
  ssize_t ignored = write(wake, &one, sizeof one);
  (void)ignored;
}

void perdure_wake_clear(int wake) {
  uint64_t count;
  ssize_t ignored = read(wake, &count, sizeof count);
  (void)ignored;
}

long perdure_runner_read(int descriptor, void *buffer, size_t capacity) {
  ssize_t got;
  do got = read(descriptor, buffer, capacity);
  while (got < 0 && errno == EINTR);
  return got < 0 ? -errno : got;
}

/* ------------------------------------------------------------ the end of a runner */

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGTRAP};
enum { CRASHES = sizeof crashes / sizeof *crashes };

static size_t put(char *to, size_t at, size_t capacity, const char *text) {
  while (*text && at + 1 < capacity) to[at++] = *text++;
  if (at + 1 < capacity) to[at++] = '\n';
  return at;
}

static void crashed(int number) {
  char text[1024], digits[24];
  size_t length = 0;
  perdure_breadcrumb crumb = {"", "", 0};
  perdure_breadcrumb_current(&crumb);
  char *digit = digits + sizeof digits - 1;
  *digit = 0;
  unsigned long long call = crumb.call;
  do *--digit = (char)('0' + call % 10);
  while (call /= 10);
  length = put(text, length, sizeof text, crumb.plugin);
  length = put(text, length, sizeof text, crumb.target);
  length = put(text, length, sizeof text, digit);
  ssize_t ignored = write(PERDURE_RUNNER_CRASH, text, length);
  (void)ignored;
  signal(number, SIG_DFL);
  raise(number);
}

void perdure_runner_report_crashes(void) {
  struct sigaction handled = {.sa_handler = crashed, .sa_flags = SA_ONSTACK | SA_NODEFER};
  for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &handled, NULL);
  /* A plugin's lines reach the host when they are whole, although this is no terminal. */
  setvbuf(stdout, NULL, _IOLBF, 0);
}

_Noreturn void perdure_runner_exit(int status, const char *sentence) {
  if (sentence != NULL) {
    char text[1024];
    size_t length = put(text, 0, sizeof text, sentence);
    ssize_t ignored = write(2, text, length);
    (void)ignored;
  }
  _exit(status);
}
